"""Named attributes, which come from feature dicts, lists of attribute names, or CRF++ and Wapiti templates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.batch import SequenceBatch
from .._reading.attributes import Vocabulary, looks_like_rows, read_attributes, read_known_attributes, sort_vocabulary
from .._reading.inputs import input_form
from .._reading.rows import refuse_non_sequence
from .._reading.values import without_columns
from ._columns import TokenTable
from ._names import ConstantNames
from ._plan import FeaturePlan

if TYPE_CHECKING:
    from .._sklearn.layers import TaggerFeatures


def read_attribute_tokens(X, fields) -> TokenTable:
    """Return X, which contains feature dicts or lists of attribute names, as a token table without columns."""
    X = without_columns(X)
    if input_form(X) != "sequences" or looks_like_rows(X, default=False):
        raise TypeError(
            "X has rows of numbers, which are features as they are; templates='attributes' is for feature dicts and "
            "lists of attribute names"
        )
    X = list(X)
    for n, sequence in enumerate(X):
        if type(sequence) is not list:
            refuse_non_sequence(sequence, n)
    offsets = offsets_of(list(map(len, X)))
    return TokenTable(offsets, {}, "attributes" if offsets[-1] else "empty", attributes=X)


class AttributeCounts(NamedTuple):
    """Counts of the attributes in a part of the training sequences."""

    of_names: Counter  # number of tokens with each attribute
    complete: tuple  # keys that every token contains

    def merged(self, other) -> AttributeCounts:
        """Return the combined counts of this part and ``other``."""
        of_names = self.of_names.copy()
        of_names.update(other.of_names)  # unlike +, which drops counts of 0
        return AttributeCounts(of_names, tuple(key for key in self.complete if key in set(other.complete)))


class NamedAttributes:
    """The attributes of training sequences, sorted by name; a part of ``FeatureNames``.

    Parameters
    ----------
    names : ndarray of str, dtype object, or list of str
    complete : tuple of str
        Keys that the feature dicts of all training tokens contain.
    """

    def __init__(self, names, complete):
        self.vocabulary = Vocabulary.of_names(list(names), complete)
        self._names = ConstantNames(np.array(names, dtype=object))

    def rows(self, X) -> tuple:
        """Return those attributes of tokens that occurred in training, as CSR arrays."""
        batch = read_known_attributes(X, self.vocabulary)
        return batch.indptr, batch.indices, batch.values

    def __len__(self):
        return len(self.vocabulary)

    def names(self) -> np.ndarray:
        return self._names.names()

    def __getstate__(self):
        return {"names": self._names, "complete": list(self.vocabulary.complete)}

    def __setstate__(self, state):
        self.__init__(state["names"].names(), state["complete"])


class GivenNames:
    """Creation of attributes from tokens that name them: feature dicts and lists of attribute names."""

    paddings: ClassVar[tuple] = ("mark",)
    unused: ClassVar[str | None] = "templates='attributes' has"  # in messages, before "no use for it"
    read = staticmethod(read_attribute_tokens)

    def plan(self, parameters, columns, of_all) -> tuple[FeaturePlan, list]:
        """Return the templates and token features for training columns, and the fields that they read.

        With ``of_all``, ``columns`` contains only a part of the data, but the plan must serve all data: a function that
        changes no string in this part may change strings in other parts.
        """
        return FeaturePlan([], {}, {}), list(columns)

    def tokens(self, table) -> list:
        """Return the feature dicts or lists of attribute names."""
        return table.attributes

    def learned(self, table) -> tuple[SequenceBatch, Vocabulary]:
        """Return the attributes of all tokens, and their sorted names."""
        vocabulary = Vocabulary()
        return sort_vocabulary(read_attributes(self.tokens(table), vocabulary, grow=True), vocabulary)

    def learn(self, table, min_count) -> tuple[Any, tuple]:
        """Return the attributes that at least ``min_count`` tokens have, and the tokens' attributes as CSR arrays."""
        batch, vocabulary = self.learned(table)
        names = np.asarray(batch.attribute_names)
        if min_count > 1:
            kept = np.bincount(batch.indices, minlength=len(names)) >= min_count
            batch = SequenceBatch.from_csr(batch.tocsr()[:, np.flatnonzero(kept)], batch.offsets)
            names = names[kept]
        return NamedAttributes(names, vocabulary.complete), (batch.indptr, batch.indices, batch.values)

    def rows(self, vocabularies, table) -> tuple:
        """Return those attributes of new tokens that occurred in training, as CSR arrays."""
        return vocabularies.rows(self.tokens(table))

    def counts(self, table) -> Any:
        """Return the number of tokens with each attribute in a part of the data."""
        batch, vocabulary = self.learned(table)
        n_of = np.bincount(batch.indices, minlength=len(vocabulary)).tolist()
        return AttributeCounts(Counter(dict(zip(vocabulary, n_of, strict=True))), vocabulary.complete)

    def finish(self, counts, min_count, fields) -> Any:
        """Return the attributes that at least ``min_count`` tokens have; if ``min_count`` is 1, also those without
        tokens."""
        names = (name for name, count in counts.of_names.items() if min_count == 1 or count >= min_count)
        return NamedAttributes(sorted(names), counts.complete)

    def names_of_always(self) -> list[str]:
        """Return the names of the attributes that do not come from templates."""
        return []

    def tagger_features(self, extractor, vocabularies, text_fields, kept) -> TaggerFeatures:
        """Return the description from which a tagger computes the ``kept`` attributes of a fitted extractor."""
        from .._sklearn.layers import TaggerFeatures  # imported here, because few users write such files

        return TaggerFeatures.of_names(vocabularies.names().tolist(), kept)

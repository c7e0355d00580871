"""SequenceDictVectorizer: feature dicts and attribute lists to a SequenceBatch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._data.batch import SequenceBatch
from .._data.checks import short, without_columns
from .._data.labels import position_name
from .._validation._attributes import (
    Vocabulary,
    looks_like_rows,
    read_attributes,
    read_known_attributes,
    sort_vocabulary,
)
from .._validation._inputs import input_form
from .._validation._sklearn import Interval, fit_context
from ._base import CountingTransformer, fit_task
from ._columns import check_complete, column_of, complete_fields, is_text
from ._merging import merge_columns, without_tokens
from ._names import FeatureNames
from ._templates import check_kind

__all__ = ["SequenceDictVectorizer"]


class AttributeCounts(NamedTuple):
    """The counts of some training sequences for a :class:`SequenceDictVectorizer`."""

    n_tokens: int
    of_names: Counter  # number of tokens with each attribute
    complete: tuple  # keys that every token has
    columns: dict  # raw columns without tokens, with all values
    keys: set  # keys of ``columns`` that some token has
    complete_columns: list  # columns in which every token has a value

    def merged(self, other) -> AttributeCounts:
        """Return the sums of the counts of both."""
        if not self.n_tokens or not other.n_tokens:
            return self if self.n_tokens else other
        of_names = self.of_names.copy()
        of_names.update(other.of_names)  # unlike +, which drops counts of 0
        return AttributeCounts(
            self.n_tokens + other.n_tokens,
            of_names,
            tuple(key for key in self.complete if key in set(other.complete)),
            merge_columns(self.columns, other.columns),
            self.keys | other.keys,
            [key for key in self.complete_columns if key in other.complete_columns],
        )


class SequenceDictVectorizer(CountingTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn sequences of feature dicts or attribute-name lists into a batch that other transformers can extend.

    These are the input formats of python-crfsuite, and the estimators read them directly. This transformer is for users
    who have token features in one of these formats and also want features of segments. It makes the same token features
    with the same names; :class:`SegmentFeatureExtractor` or :class:`SegmentLogOddsEncoder` follows it in the pipeline.

    Parameters
    ----------
    min_count : int, default=1
        Attributes that occur in fewer training tokens are dropped.
    columns : str or sequence of str, default=()
        Keys of feature dicts whose values (texts or numbers) are also kept as raw columns of the tokens. The other
        transformers need raw columns for the text of a segment.

    Attributes
    ----------
    vocabulary_ : dict
        Index of each attribute, by name.
    n_features_out_ : int
        Number of attributes.

    See Also
    --------
    SequenceFeatureExtractor : Features from raw tokens.
    SegmentFeatureExtractor : Features of segments from features of tokens.

    Notes
    -----
    A token is a list of attribute names, or a dict whose values are str, numbers, bools, lists of str or dicts of
    these; ``{"w": "in"}`` is the attribute ``w:in``. The values of equal names within a token are added. Attributes
    that did not occur in training are ignored.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction import (
    ...     SequenceDictVectorizer,
    ...     SegmentFeatureExtractor,
    ... )
    >>> X = [[{"w": "J.", "title": True}, {"w": "Ye"}, {"w": "1992", "digits": 4}]]
    >>> batch = SequenceDictVectorizer(columns="w").fit_transform(X)
    >>> list(batch.feature_names)
    ['digits', 'title', 'w:1992', 'w:J.', 'w:Ye']
    >>> extractor = SegmentFeatureExtractor(bag="digits", begin="w:", identity="w")
    >>> extractor.fit(
    ...     batch, [["author", "author", "date"]]
    ... ).get_feature_names_out().tolist()
    ['digits', 'begin:w:1992', 'begin:w:J.', 'begin:w:Ye', 'identity=1992', 'identity=J. Ye']
    """

    __module__ = "sklearn_hocrf.feature_extraction"  # where users import it from: files of models name this place

    _parameter_constraints = {
        "min_count": [Interval(Integral, 1, None, closed="left")],
        "columns": [str, tuple, list],
    }

    def __init__(self, *, min_count: int = 1, columns: str | Sequence[str] = ()) -> None:
        self.min_count = min_count
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the attributes of training sequences.

        Parameters
        ----------
        X : list of sequences of feature dicts or attribute-name lists
            Sequences may have different lengths and may be empty.
        y : None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If X has no tokens, if no token has one of the `columns`, or if a number is not finite; the message names
            sequence and position.
        TypeError
            If a token is neither a dict nor a list, an attribute name is not a str, or a value is of an
            unsupported type.
        """
        self._learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> SequenceBatch:
        """Learn the attributes of training sequences and return their batch.

        Parameters
        ----------
        X : list of sequences of feature dicts or attribute-name lists
            As in `fit`, with the same errors.
        y : None
            As in `fit`, with the same errors.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)
        """
        return self._learn(X)

    def transform(self, X: Any) -> SequenceBatch:
        """Return the batch of sequences; attributes that were not seen in training are ignored.

        Parameters
        ----------
        X : list of sequences of feature dicts or attribute-name lists
            Of the form seen in `fit`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError, TypeError
            As for `fit`; also if one of `columns` holds numbers but held text in `fit`.
        sklearn.exceptions.NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self, "vocabulary_")
        X = _check_sequences(X)
        batch = read_known_attributes(X, self.vocabulary_)
        columns = self._read_columns(X, batch.offsets)
        for key, column in columns.items():
            check_kind(column, key in self._text_columns, key)
        absent = [key for key in columns if not any(key in token for token in chain.from_iterable(X))]
        check_complete(columns, batch.offsets, self._complete_columns, absent)
        return self._with(batch, columns)

    def __getstate__(self):
        """Return the state with only the names of the attributes, whose order gives their numbers."""
        state = super().__getstate__()
        if "vocabulary_" in state:
            state["_complete_keys"] = list(state.pop("vocabulary_").complete)
        return state

    def __setstate__(self, state):
        state = dict(state)
        complete = state.pop("_complete_keys", None)
        if complete is not None:
            state["vocabulary_"] = Vocabulary.of_names(state["_names"].tolist(), complete)
        super().__setstate__(state)

    @property
    def _feature_names(self) -> FeatureNames:
        return self._names

    @fit_context(prefer_skip_nested_validation=True)
    @fit_task
    def _learn(self, X) -> SequenceBatch:
        """Set the fitted attributes; return the training batch."""
        X = _check_sequences(X)
        vocabulary = Vocabulary()
        batch = read_attributes(X, vocabulary, grow=True)
        if batch.n_tokens == 0:
            raise ValueError("X has no tokens to learn attributes from")
        columns = self._read_columns(X, batch.offsets)
        for key in columns:
            if not any(key in token for token in chain.from_iterable(X)):
                raise ValueError(f"columns names the key {key!r}, which no token of X has; X has {_some_keys(X)}")
        batch, vocabulary = sort_vocabulary(batch, vocabulary)
        names = np.asarray(batch.attribute_names)
        if self.min_count > 1:
            kept = np.bincount(batch.indices, minlength=len(names)) >= self.min_count
            batch = SequenceBatch.from_csr(batch.tocsr()[:, np.flatnonzero(kept)], batch.offsets)
            names = names[kept]
            vocabulary = vocabulary.like(zip(names.tolist(), range(len(names)), strict=True))
        self._set(vocabulary, names, complete_fields(columns, columns), columns)
        return self._with(batch, columns)

    @fit_context(prefer_skip_nested_validation=True)
    def _count_partition(self, X, y) -> AttributeCounts:
        X = _check_sequences(X)
        vocabulary = Vocabulary()
        batch = read_attributes(X, vocabulary, grow=True)
        columns = self._read_columns(X, batch.offsets)
        complete = complete_fields(columns, columns)
        keys = {key for key in columns if any(key in token for token in chain.from_iterable(X))}
        n_tokens = batch.n_tokens
        batch, sorted_ = sort_vocabulary(batch, vocabulary)
        n_of = np.bincount(batch.indices, minlength=len(sorted_)).tolist()
        of_names = Counter(dict(zip(sorted_, n_of, strict=True)))
        return AttributeCounts(n_tokens, of_names, vocabulary.complete, without_tokens(columns), keys, complete)

    def _finish(self, counts):
        """Set the fitted attributes."""
        if not counts.n_tokens:
            raise ValueError("X has no tokens to learn attributes from")
        for key in self._keys():
            if key not in counts.keys:
                raise ValueError(f"columns names the key {key!r}, which no token of X has")
        names = sorted(
            name for name, count in counts.of_names.items() if self.min_count == 1 or count >= self.min_count
        )
        self._set(Vocabulary.of_names(names, counts.complete), names, counts.complete_columns, counts.columns)

    def _keys(self) -> list:
        return [self.columns] if isinstance(self.columns, str) else list(self.columns)

    def _set(self, vocabulary, names, complete, columns):
        """Set the fitted attributes."""
        self.vocabulary_ = vocabulary
        self.n_features_out_ = len(vocabulary)
        self._names = FeatureNames.of(names)
        self._complete_columns = complete
        self._text_columns = {key for key, column in columns.items() if is_text(column)}

    def _read_columns(self, X, offsets) -> dict:
        keys = self._keys()
        if not keys:
            return {}
        tokens = list(chain.from_iterable(X))
        for t, token in enumerate(tokens):
            if not isinstance(token, Mapping):
                raise TypeError(
                    f"{position_name(offsets, t)}: columns={self.columns!r} names keys of dicts, but the token is a "
                    f"{type(token).__name__}"
                )
        return {key: _column(tokens, key, offsets) for key in keys}

    def _with(self, batch, columns) -> SequenceBatch:
        """Return the batch with raw columns and the names of fit, which all batches share as one object."""
        return SequenceBatch(
            batch.offsets, batch.indptr, batch.indices, batch.values, batch.n_attributes, self._names, columns
        )


def _column(tokens, key, offsets):
    return column_of(
        [token.get(key) for token in tokens], lambda t: f"{position_name(offsets, t)}: attribute {short(key)}"
    )


def _some_keys(X) -> str:
    keys = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(X))))
    return ", ".join([*map(short, keys[:5]), *(["..."] if len(keys) > 5 else [])]) or "no keys"


def _check_sequences(X) -> list:
    """Return X as a list of sequences of dicts or lists of names."""
    if isinstance(X, SequenceBatch):
        raise TypeError("X is already a SequenceBatch; feature dicts or lists of attribute names are expected")
    X = without_columns(X)
    if input_form(X) != "sequences" or looks_like_rows(X, default=False):
        raise TypeError(
            "X has rows of numbers, which need no SequenceDictVectorizer; it is for feature dicts and lists of "
            "attribute names"
        )
    return list(X)

"""Labels of y for a batch: one per token."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._data.masks import Mask
from .._data.segments import LabelSets, Segments
from ._targets import FIXED, check_known_labels
from .known import Known, check_classes, distinct_labels, known_of, read_given
from .labels import decode_labels
from .schemes import TagTable


class TokenTargets(NamedTuple):
    """Labels, one per token: how y is read, and what a model's labelling is in its form.   N tokens, L labels.

    :class:`SegmentTargets` has the same methods. The parameters of estimators for which they read y have been checked.
    """

    codes: np.ndarray  # (N,) int32    label of each token, an index into ``labels``; -1 where it is not known
    labels: np.ndarray  # (L,)         the labels as in y, sorted
    as_lists: bool  # y was made of lists, so predictions are lists, too
    known: Mask | None = None  # the labellings that agree with y, where it has missing labels
    sets: LabelSets | None = None  # the labels that count at each token, where they are not ``codes``
    counted: TokenTargets | None = None  # the targets that count, with sets; None for these

    # --- training -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, estimator, y, sequences, fixed=None) -> TokenTargets:
        """Return the targets of training sequences; ``fixed`` as for :func:`read_token_targets`."""
        name, lengths = type(estimator).__name__, sequences.batch.lengths
        return read_token_targets(y, lengths, sequences.form, name, sequences.is_used, fixed, takes_missing_labels=True)

    @classmethod
    def label_set(cls, estimator, y, sequences) -> np.ndarray | None:
        """Return the labels of a part of the training sequences, sorted, or None if some are missing."""
        name, lengths = type(estimator).__name__, sequences.batch.lengths
        given = read_given(y, lengths, sequences.form, name, "tokens", kept=sequences.is_used)
        return distinct_labels(given, at_least=1) if given.is_complete else None

    @classmethod
    def check_classes(cls, estimator, classes) -> np.ndarray:
        """Return the possible labels of patterns, sorted, from the parameter ``classes``, which has the form of y."""
        return check_classes(classes)

    @classmethod
    def least_labels(cls, estimator) -> int:
        """Return the number of labels that training data must have."""
        return 2

    @property
    def labelling(self) -> np.ndarray:
        """The labels, in the form in which models take them."""
        return self.codes

    def units(self, batch) -> Segments:
        """Return the tokens of a batch, which have a label each."""
        tokens = np.arange(len(self.codes))
        return Segments(batch.offsets, tokens, tokens + 1, self.codes)

    def without_data(self) -> TokenTargets:
        """Return the labels and the form of y, which must be the same in later training data."""
        return self._replace(codes=self.codes[:0], known=None, counted=None)

    def merged(self, other: TokenTargets) -> TokenTargets:
        """Return targets, without data, of this and another part of the training data, with the same labels."""
        return self._replace(as_lists=self.as_lists or other.as_lists)

    def known_runs(self, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Return first token and end of the longest runs of tokens whose labels are known, or whose sets count."""
        is_known = np.append(self.codes >= 0 if self.sets is None else self.sets.sizes > 0, False)
        is_first = np.zeros(len(is_known), bool)
        is_first[offsets] = True
        begins = is_known & (is_first | ~np.append(False, is_known[:-1]))
        ends = np.append(False, is_known[:-1]) & (is_first | ~is_known)
        return np.flatnonzero(begins), np.flatnonzero(ends)

    def of_runs(self, starts, stops, tokens) -> TokenTargets:
        """Return the targets of runs of tokens, as separate sequences."""
        sets = None if self.sets is None else self.sets.take(tokens)
        return self._replace(codes=self.codes[tokens], known=None, sets=sets, counted=None)

    # --- fitted models ------------------------------------------------------------------------------------------------

    @property
    def scheme(self) -> str:
        """The form in which y gives the labels."""
        return "tokens"

    @property
    def classes(self) -> np.ndarray:
        """The classes of tokens."""
        return self.labels

    @property
    def tags(self) -> TagTable | None:
        """The classes of tokens as tags of segments, or None."""
        return None

    def tag_channels(self) -> Any:
        """Return the channels of segment features that count the tags of tokens; None if the classes are labels."""

    def attributes(self) -> dict:
        """Return ``classes_`` and all other fitted attributes that depend on the targets."""
        return {"classes_": self.labels}

    def read_known(self, known, batch, form, name, what="known", unknown="raise") -> Known:
        """Return what labels of a batch, called ``what`` in messages, say.

        ``unknown="ignore"`` treats labels that the model does not know as impossible.
        """
        given = read_given(known, batch.lengths, form, name, "tokens", what)
        return known_of(given, self.labels, unknown=unknown)

    def labelling_of(self, known) -> np.ndarray:
        """Return complete labels in the form of the model's; labels that it does not know have the code -1."""
        return known.codes

    def token_codes(self, labelling) -> np.ndarray:
        """Return the class of each token in a labelling, an index into ``classes``; (N,)."""
        return labelling

    def are_right(self, decoded, truth) -> np.ndarray:
        """Return for each token whether its decoded class is correct; (N,)."""
        return decoded == truth

    def as_predicted(self, labelling, offsets) -> list:
        """Return a labelling by sequence, in the form of y."""
        return decode_labels(labelling, self.labels, offsets, as_lists=self.as_lists)

    def check(self, n_labels):
        """Raise a ValueError unless these are targets without data, with ``n_labels`` labels."""
        check_known_labels(self.labels, n_labels)
        if np.shape(self.codes) != (0,) or not isinstance(self.as_lists, bool):
            raise ValueError(f"targets with codes of shape {np.shape(self.codes)}, as_lists={self.as_lists!r:.20}")


def read_token_targets(y, lengths, form, name, kept=None, fixed=None, takes_missing_labels=False) -> TokenTargets:
    """Return the training labels of all tokens.

    Parameters
    ----------
    y, lengths, form, name, kept, takes_missing_labels
        As in :func:`read_given`.
    fixed : TokenTargets, ndarray of shape (L,), or None
        Targets of earlier training data, or all possible labels. None means the labels of y.
    """
    given = read_given(y, lengths, form, name, "tokens", kept=kept, takes_missing_labels=takes_missing_labels)
    earlier = fixed if isinstance(fixed, TokenTargets) else None
    labels = fixed if earlier is None else earlier.labels
    labels = distinct_labels(given) if labels is None else labels
    known = known_of(given, labels, among=FIXED)
    as_lists = given.as_lists if earlier is None else earlier.as_lists
    targets = TokenTargets(known.codes, labels, as_lists, known.mask if (known.codes < 0).any() else None)
    sets = None if known.allowed is None else LabelSets.of(known.allowed, known.ids)
    return targets if sets is None else targets._replace(counted=targets._replace(sets=sets))

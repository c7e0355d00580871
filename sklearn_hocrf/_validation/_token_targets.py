"""Labels of y for a batch: one per token."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.labels import decode_labels, encode_labels, sorted_labels
from .._data.masks import Mask
from .._data.schemes import TagTable
from .._structure.layout import LayoutBuilder, WeightLayout
from ._known import Known, Reader, all_labels, has_missing_labels, known_of_tokens, read_entries
from ._targets import FIXED, check_classes, check_known_labels, leave_out, read_labels

__all__ = ["TokenTargets", "read_token_labels", "read_token_targets"]


class TokenTargets(NamedTuple):
    """Labels, one per token: how y is read, and what a model's labelling is in its form.   N tokens, L labels.

    :class:`SegmentTargets` has the same methods. The parameters of estimators for which they read y have been checked.
    """

    codes: np.ndarray  # (N,) int32    label of each token, an index into ``labels``; -1 where it is not known
    labels: np.ndarray  # (L,)         the labels as in y, sorted
    as_lists: bool  # y was made of lists, so predictions are lists, too
    known: Mask | None = None  # the labellings that agree with y, where it has missing labels

    # --- training -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, estimator, y, sequences, fixed=None) -> TokenTargets:
        """Return the targets of training sequences; ``fixed`` as for :func:`read_token_targets`."""
        name, lengths = type(estimator).__name__, sequences.batch.lengths
        return read_token_targets(y, lengths, sequences.form, name, sequences.is_used, fixed, takes_missing_labels=True)

    @classmethod
    def label_set(cls, estimator, y, sequences) -> np.ndarray:
        """Return the labels of training sequences, which may be a part of the training data, sorted."""
        name, lengths = type(estimator).__name__, sequences.batch.lengths
        return read_token_labels(y, lengths, sequences.form, name, sequences.is_used)

    @classmethod
    def check_classes(cls, estimator, classes) -> np.ndarray:
        """Return the possible labels of patterns, sorted, from the parameter ``classes``, which has the form of y."""
        return check_classes(classes)

    @classmethod
    def least_labels(cls, estimator) -> int:
        """Return the number of labels that training data must have."""
        return 2

    @classmethod
    def have_missing_labels(cls, y, batch, form, name, scheme) -> bool:
        """Return whether y has unknown labels."""
        return has_missing_labels(read_labels(y, batch.lengths, form, name)[0])

    def possible(self, patterns):
        """Return the patterns that labellings may contain."""
        return patterns

    def builder(self, frame, rule, intercepts) -> LayoutBuilder:
        """Return the builder of the weight layout; ``frame`` is a LayoutFrame, ``rule`` a PairRule."""
        return LayoutBuilder(frame, rule, intercepts)

    @property
    def labelling(self) -> np.ndarray:
        """The labels, in the form in which models take them."""
        return self.codes

    def label_sequences(self, batch) -> tuple[np.ndarray, np.ndarray]:
        """Return the label codes of a batch, and the offsets of its sequences in them."""
        return self.codes, batch.offsets

    @property
    def starts(self) -> np.ndarray:
        """The token at which each label starts; (N,)."""
        return np.arange(len(self.codes))

    def without_data(self) -> TokenTargets:
        """Return the labels and the form of y, which must be the same in later training data."""
        return self._replace(codes=self.codes[:0], known=None)

    def merged(self, other: TokenTargets) -> TokenTargets:
        """Return targets, without data, of this and another part of the training data, with the same labels."""
        return self._replace(as_lists=self.as_lists or other.as_lists)

    def known_runs(self, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Return first token and end of the longest runs of tokens whose labels are known."""
        is_known = np.append(self.codes >= 0, False)
        is_first = np.zeros(len(is_known), bool)
        is_first[offsets] = True
        begins = is_known & (is_first | ~np.append(False, is_known[:-1]))
        ends = np.append(False, is_known[:-1]) & (is_first | ~is_known)
        return np.flatnonzero(begins), np.flatnonzero(ends)

    def of_runs(self, starts, stops, tokens) -> TokenTargets:
        """Return the targets of runs of tokens, as separate sequences."""
        return self._replace(codes=self.codes[tokens], known=None)

    # --- fitted models ------------------------------------------------------------------------------------------------

    @classmethod
    def layout_class(cls) -> type[WeightLayout]:
        """Return the class of layouts."""
        return WeightLayout

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

    def read_truth(self, y, batch, form, name, unknown) -> np.ndarray:
        """Return user-given labellings in the form of the model's; ``unknown="ignore"`` codes unknown labels as -1."""
        flat, _ = read_labels(y, batch.lengths, form, name)
        return encode_labels(flat, self.labels, offsets_of(batch.lengths), unknown=unknown)

    def read_known(self, known, batch, form, name, what="known", unknown="raise") -> Known:
        """Return the constraints that partial labels, called ``what`` in messages, impose on a batch.

        ``unknown="ignore"`` treats labels that the model does not know as impossible.
        """
        labels, _ = read_labels(known, batch.lengths, form, name, what)
        return known_of_tokens(read_entries(labels, offsets_of(batch.lengths), what), Reader(self.labels, unknown))

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
            raise ValueError(
                f"known targets with codes of shape {np.shape(self.codes)}, as_lists={self.as_lists!r:.20}"
            )


def read_token_targets(y, lengths, form, name, kept=None, fixed=None, takes_missing_labels=False) -> TokenTargets:
    """Return the training labels of all tokens.

    Parameters
    ----------
    y, lengths, form, name
        As in :func:`read_labels`.
    kept : ndarray of bool of shape (n_sequences,), or None
        Sequences that are not left out.
    fixed : TokenTargets, ndarray of shape (L,), or None
        Targets of earlier training data, or all possible labels. None means the labels of y.
    takes_missing_labels : bool
        Whether y may have missing labels.
    """
    labels, as_lists = read_labels(y, lengths, form, name)
    labels, offsets = leave_out(labels, lengths, kept)
    entries = None
    if takes_missing_labels and has_missing_labels(labels):
        entries = read_entries(labels, offsets, "y")
    if isinstance(fixed, TokenTargets):
        classes, as_lists = fixed.labels, fixed.as_lists
    elif fixed is not None:
        classes = fixed
    else:
        classes = sorted_labels(labels, offsets) if entries is None else all_labels(entries)
    if entries is None:
        return TokenTargets(encode_labels(labels, classes, offsets, among=FIXED), classes, as_lists)
    known = known_of_tokens(entries, Reader(classes, among=FIXED))
    codes = known.codes
    return TokenTargets(codes, classes, as_lists, known.mask if (codes < 0).any() else None)


def read_token_labels(y, lengths, form, name, kept=None) -> np.ndarray:
    """Return the distinct labels of a part of the training data, sorted; as for :func:`read_token_targets`."""
    labels, _ = read_labels(y, lengths, form, name)
    labels, offsets = leave_out(labels, lengths, kept)
    return sorted_labels(labels, offsets, at_least=1)

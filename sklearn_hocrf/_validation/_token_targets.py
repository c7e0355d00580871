"""Labels of y for a batch: one per token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.labels import encode_labels, sorted_labels
from .._data.masks import Mask
from ._known import Reader, all_labels, has_holes, known_of_tokens, read_entries
from ._targets import FIXED, check_known_labels, leave_out, read_labels

__all__ = ["TokenTargets", "read_label_codes", "read_token_labels", "read_token_targets"]


class TokenTargets(NamedTuple):
    """Training labels, one per token.   N tokens, L labels."""

    codes: np.ndarray  # (N,) int32    label of each token, an index into ``labels``; -1 where it is not known
    labels: np.ndarray  # (L,)         the labels as in y, sorted
    as_lists: bool  # y was made of lists, so predictions are lists, too
    known: Mask | None = None  # the labellings that agree with y, where it has holes

    @property
    def labelling(self) -> np.ndarray:
        """The labels, in the form in which models take them."""
        return self.codes

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

    def check(self, n_labels):
        """Raise a ValueError unless these are targets without data, with ``n_labels`` labels."""
        check_known_labels(self.labels, n_labels)
        if np.shape(self.codes) != (0,) or not isinstance(self.as_lists, bool):
            raise ValueError(
                f"known targets with codes of shape {np.shape(self.codes)}, as_lists={self.as_lists!r:.20}"
            )


def read_token_targets(y, lengths, form, name, kept=None, fixed=None, takes_holes=False) -> TokenTargets:
    """Return the training labels of all tokens.

    Parameters
    ----------
    y, lengths, form, name
        As in :func:`read_labels`.
    kept : ndarray of bool of shape (n_sequences,), or None
        Sequences that are not left out.
    fixed : TokenTargets, ndarray of shape (L,), or None
        Targets of earlier training data, or all possible labels. None means the labels of y.
    takes_holes : bool
        Whether y may have holes.
    """
    labels, as_lists = read_labels(y, lengths, form, name)
    labels, offsets = leave_out(labels, lengths, kept)
    entries = None
    if takes_holes and has_holes(labels):
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


def read_label_codes(y, lengths, form, name, labels, *, unknown) -> np.ndarray:
    """Return the label codes (N,) of y for a fitted estimator; ``unknown="ignore"`` codes unknown labels as -1."""
    flat, _ = read_labels(y, lengths, form, name)
    return encode_labels(flat, labels, offsets_of(lengths), unknown=unknown)

"""Masks of the possible labellings of a batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import freeze_all


class Mask(NamedTuple):
    """The possible labellings of a batch.   N tokens, L labels."""

    allowed: np.ndarray  # (N, L) bool   labels that the token, or the segment that contains it, may have
    begins: np.ndarray  # (N,) int8   1 where a segment must begin, -1 where none may, else 0; ignored by chains

    @staticmethod
    def free(n_tokens: int, n_labels: int) -> Mask:
        """Return the mask that allows all labellings."""
        return Mask(np.ones((n_tokens, n_labels), bool), np.zeros(n_tokens, np.int8))

    @staticmethod
    def of_borders(offsets, borders) -> Mask:
        """Return the mask that lets sequences begin and end only with some labels.

        Parameters
        ----------
        offsets : ndarray of shape (n_sequences + 1,)
            Token range of each sequence.
        borders : ndarray of shape (2, L), bool
            Labels of the first and of the last token.
        """
        mask = Mask.free(int(offsets[-1]), borders.shape[1])
        has_tokens = np.diff(offsets) > 0
        mask.allowed[offsets[:-1][has_tokens]] &= borders[0]
        mask.allowed[offsets[1:][has_tokens] - 1] &= borders[1]
        return mask

    def part(self, tokens) -> Mask:
        """Return the mask of some tokens, given by their indices."""
        return Mask(self.allowed[tokens], self.begins[tokens])

    def frozen(self) -> Mask:
        """Return the mask with arrays for kernels."""
        return Mask(*freeze_all(self, np.bool_, np.int8))


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Return the mask of the labellings that two masks allow; None allows all.

    Where one mask requires a segment to begin and the other one forbids it, no label is allowed.
    """
    if left is None or right is None:
        return right if left is None else left
    allowed, begins = left.allowed & right.allowed, np.where(left.begins == 0, right.begins, left.begins)
    allowed[left.begins * right.begins < 0] = False
    return Mask(allowed, begins)

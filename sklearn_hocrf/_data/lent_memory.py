"""Memory of arrays that is used again as soon as nobody refers to an array in it."""

from __future__ import annotations

from sys import getrefcount
from threading import Lock
from typing import Any

import numpy as np

from .arrays import empty_aligned

__all__ = ["LentMemory"]


class LentMemory:
    """Lender of memory for large arrays of few shapes that begin at a cache line.

    The system clears new memory page by page, when it is first used; for some allocators, each time. A copy of a
    lender, also one in another process, begins without memory.

    Attributes
    ----------
    most_kept : int
        How many arrays of a shape are kept for later.
    """

    most_kept = 4

    def __init__(self) -> None:
        self._owners: dict[tuple[int, ...], list[np.ndarray]] = {}  # by shape
        self._nobodys = [empty_aligned(0)]  # an array that nobody refers to
        self._lock = Lock()

    def __reduce__(self):
        return LentMemory, ()

    def empty(self, *shape: int) -> np.ndarray:
        """Return an array of any numbers, in memory of an earlier one that nobody refers to, if there is some."""
        with self._lock:
            owners = self._owners.setdefault(shape, [])
            # each is referred to by the list that keeps it and by the list made here
            of_unused, *counts = _reference_counts([*self._nobodys, *owners])
            unused = [n for n, count in enumerate(counts) if count == of_unused]
            owner = owners[unused[0]] if unused else empty_aligned(*shape)
            if not unused:
                owners.append(owner)
                del owners[: -self.most_kept]
            return owner.view()

    def zeros(self, *shape: int) -> np.ndarray:
        """Return an array of zeros, in memory as of ``empty``.

        A page of ``np.zeros`` that kernels add to would be mapped twice, first to be read and then to be written.
        """
        table = self.empty(*shape)
        table.fill(0.0)
        return table


def _reference_counts(owners: list[Any]) -> list[int]:
    """Return how often each of some arrays is referred to: by each array made from it, too, at any remove."""
    return [getrefcount(owner.base) for owner in owners]

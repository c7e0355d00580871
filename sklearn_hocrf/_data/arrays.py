"""Arrays as kernels take them: C-contiguous, of one dtype each, read-only, and pointing nowhere outside."""

from __future__ import annotations

import numpy as np

__all__ = ["freeze", "freeze_indices", "group_offsets", "joined_ranges", "offsets_of"]


def freeze(array, dtype) -> np.ndarray:
    """Return ``array`` as a C-contiguous, read-only base-class array of ``dtype``, copied only where needed."""
    array = np.ascontiguousarray(array, dtype=dtype)
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def freeze_indices(array, stop, what, dtype=np.int32, start=0) -> np.ndarray:
    """Return a 1-D array of integers as :func:`freeze` does, or raise unless all of them lie in [start, stop).

    Kernels do not check the bounds of what they read. So every index array passes through here when an object is made,
    whether by fit, from a file or as a copy.
    """
    array = np.asarray(array)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ValueError(f"{what} must be a 1-D array of integers, not of shape {array.shape} and {array.dtype}")
    if len(array) and not start <= array.min() <= array.max() < stop:
        raise ValueError(f"{what} must lie in [{start}, {stop}), but has {array.min()} and {array.max()}")
    return freeze(array, dtype)


def offsets_of(lengths) -> np.ndarray:
    """Return where each of several neighbouring ranges starts, and where the last one stops; int64.

    Examples
    --------
    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def joined_ranges(starts, stops) -> np.ndarray:
    """Return the concatenation of ``arange(start, stop)`` for all pairs; int64.

    Examples
    --------
    >>> joined_ranges(np.array([3, 0]), np.array([5, 1])).tolist()
    [3, 4, 0]
    """
    lengths = stops - starts
    firsts = np.repeat(starts - offsets_of(lengths)[:-1], lengths)
    return firsts + np.arange(len(firsts))


def group_offsets(groups, n_groups) -> np.ndarray:
    """Return where each group starts once its members are sorted by group, and where the last stops; read-only.

    Examples
    --------
    >>> group_offsets([0, 0, 2], 3).tolist()
    [0, 2, 2, 3]
    """
    return freeze(offsets_of(np.bincount(groups, minlength=n_groups)), np.int64)

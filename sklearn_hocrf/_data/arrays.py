"""Arrays for kernels: C-contiguous, with a fixed dtype, read-only, and with all indices in range.

Threads share state without locks, because a child process that is forked while threads run must not block.

A fork copies a lock in its current state. If another thread holds the lock at this time, no thread of the child ever
releases it.
"""

from __future__ import annotations

import functools
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

PIECE = 1 << 20  # elements processed at a time if an array may be larger than memory
_CACHE_LINE = 64  # bytes


def empty_aligned(*shape: int) -> np.ndarray:
    """Return an uninitialised array of float64 that begins at a cache line.

    Kernels read tables of lanes in vectors of whole cache lines. numpy aligns memory only to 16 bytes, so a vector
    could otherwise extend over two lines.

    Examples
    --------
    >>> from sklearn_hocrf._data.arrays import empty_aligned
    >>> table = empty_aligned(3, 16)
    >>> table.shape, table.ctypes.data % 64
    ((3, 16), 0)
    """
    return _aligned(np.empty, shape)


def zeros_aligned(*shape: int) -> np.ndarray:
    """Return a float64 array of zeros that begins at a cache line; for large arrays, the system provides the zeros."""
    return _aligned(np.zeros, shape)


def _aligned(make: Callable, shape: tuple[int, ...]) -> np.ndarray:
    size = math.prod(shape)
    memory = make(size + _CACHE_LINE // 8 - 1)
    first = -memory.ctypes.data % _CACHE_LINE // 8
    return memory[first : first + size].reshape(shape)


def mapped_file(array) -> str | None:
    """Return the path of the memory-mapped file that contains an array, or None if the array is in memory."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return str(array.filename)
        array = array.base
    return None


def pieces(array) -> Iterator[np.ndarray]:
    """Yield views of consecutive parts of an array, each of up to ``PIECE`` elements."""
    return (array[start : start + PIECE] for start in range(0, len(array), PIECE))


def ascends(array) -> bool:
    """Return whether no element of an array is lower than the one before it."""
    if len(array) <= PIECE:
        return not (array[1:] < array[:-1]).any()
    starts = range(0, len(array) - 1, PIECE)
    return not any((array[i + 1 : i + 1 + PIECE] < array[i : min(i + PIECE, len(array) - 1)]).any() for i in starts)


def reading_order(lengths, sequences=None) -> list[np.ndarray]:
    """Return the order in which sequences are processed: window by window, and in each window the longest first.

    Sequences of the same length are processed side by side. A window contains about ``PIECE`` tokens, so
    neighbouring sequences are read together if the data are in files.

    Parameters
    ----------
    lengths : ndarray of shape (n_sequences,)
    sequences : ndarray of int, or None
        The sequences to process; None means all.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf._data.arrays import reading_order
    >>> reading_order(np.array([1, 3, 0, 3]))
    [array([1, 3, 0, 2])]
    """
    sequences = np.arange(len(lengths)) if sequences is None else sequences
    lengths = lengths[sequences]
    window = (np.cumsum(lengths) - lengths) // PIECE
    starts = np.flatnonzero(np.diff(window)) + 1
    order = np.lexsort((-lengths, window))  # a stable sort
    return np.split(sequences[order], starts) if len(sequences) else []


def freeze(array, dtype) -> np.ndarray:
    """Return ``array`` as a C-contiguous, read-only base-class array of ``dtype``, copied only if necessary."""
    array = np.ascontiguousarray(array, dtype=dtype)
    if array.flags.writeable:
        array = array[...]
        array.setflags(write=False)
    return array


def freeze_all(arrays, *dtypes) -> tuple[np.ndarray, ...]:
    """Return several arrays as :func:`freeze` does; ``dtypes`` contains one dtype for all arrays, or one for each."""
    return tuple(map(freeze, arrays, dtypes * len(arrays) if len(dtypes) == 1 else dtypes))


def freeze_indices(array, stop, what, dtype=np.int32, start=0) -> np.ndarray:
    """Return a 1-D array of integers as :func:`freeze` does; raise an error unless all integers are in [start, stop).

    Kernels do not check array bounds. Therefore, this function checks every index array when an object is created, by
    fit, from a file or as a copy.
    """
    array = np.asarray(array)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise ValueError(f"{what} must be a 1-D array of integers, not of shape {array.shape} and {array.dtype}")
    if len(array):
        lowest, highest = np.minimum.reduce(array), np.maximum.reduce(array)
        if not start <= lowest <= highest < stop:
            raise ValueError(f"{what} must lie in [{start}, {stop}), but has {lowest} and {highest}")
    return freeze(array, dtype)


def freeze_all_indices(*argument_lists) -> list[np.ndarray]:
    """Return the results of :func:`freeze_indices` for several tuples of its arguments."""
    return [freeze_indices(*arguments) for arguments in argument_lists]


def offsets_of(lengths) -> np.ndarray:
    """Return the starts of adjacent ranges with the given lengths, and the stop of the last range; int64.

    Examples
    --------
    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.add.accumulate(lengths, out=offsets[1:], dtype=np.int64)  # one prediction needs several of these
    return offsets


def joined_ranges(starts, stops) -> np.ndarray:
    """Return the concatenation of ``arange(start, stop)`` for all pairs of a start and a stop; int64.

    Examples
    --------
    >>> joined_ranges(np.array([3, 0]), np.array([5, 1])).tolist()
    [3, 4, 0]
    """
    lengths = stops - starts
    firsts = np.repeat(starts - offsets_of(lengths)[:-1], lengths)
    return firsts + np.arange(len(firsts))


def group_offsets(groups, n_groups) -> np.ndarray:
    """Return the start of each group if members are sorted by group, and the stop of the last group; read-only.

    Examples
    --------
    >>> group_offsets([0, 0, 2], 3).tolist()
    [0, 2, 2, 3]
    """
    return freeze(offsets_of(np.bincount(groups, minlength=n_groups)), np.int64)


def allocator(batch: Any) -> Callable[[int, Any], np.ndarray]:
    """Return a function that allocates arrays of a given length and dtype, for data about the features of a batch.

    If the batch is in memory-mapped files, the arrays are also in files, which have no names. These files are in the
    folder of the batch or, if that folder is not writable, in the folder for temporary files. The operating system
    writes the arrays to disk and frees their memory as needed, and deletes the files when no array uses them.
    """
    file = mapped_file(batch.indices)
    if file is None and batch.dense is not None:
        file = mapped_file(batch.dense.values)
    if file is None:
        return np.empty
    folder = os.path.dirname(file)

    def empty(length, dtype):
        dtype = np.dtype(dtype)
        if not length:
            return np.empty(0, dtype)
        with _nameless_file(folder) as scratch:
            _reserve(scratch, length * dtype.itemsize)
            return np.asarray(np.memmap(scratch, dtype, "r+", shape=(length,)))

    return empty


def _reserve(file, n_bytes):
    """Allocate disk space for a file: writing to the memory map of a file without space would kill the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
    else:
        file.truncate(n_bytes)


def _nameless_file(folder):
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:  # the batch may be on a read-only disk, or deleted
        return tempfile.TemporaryFile()


T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """``functools.cached_property`` without the lock that all instances of a class share before Python 3.12.

    Threads may compute a value twice; all of them get the value that is stored first.
    """

    if not TYPE_CHECKING:

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return vars(instance).setdefault(self.attrname, self.func(instance))

"""Arrays as long as a batch: in memory, or in files if the batch is in files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import mapped_file
from .batch import SequenceBatch

__all__ = ["allocator"]


def allocator(batch: SequenceBatch) -> Callable[[int, Any], np.ndarray]:
    """Return a function that makes arrays of a given length and dtype, for data that belong to the features of a batch.

    If the batch is in memory-mapped files, so are the arrays: in nameless files in the same folder, or in the folder
    for temporary files if that one is not writable. The operating system writes them back and drops them from memory as
    needed; they disappear once the arrays are no longer used.
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

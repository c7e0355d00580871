"""The decorator of all kernels: numba's ``njit`` with a disk cache that may fail.

A cache saves time and nothing else. Numba's own raises where no folder is writable, where the disk is full and where a
file of it is damaged; here the kernel is compiled again instead, and one warning says how to set a folder.

The options stay with the kernels, as numba keys the disk cache of a kernel on the kernel's own file: options changed
here would leave users with the code of the old ones.
"""

import os
import warnings
from contextlib import suppress

import numba
from numba.core.caching import FunctionCache, NullCache


def njit(*, cache, **options):
    """Return numba's decorator of these options, with the cache of this module."""

    def decorate(function):
        kernel = numba.njit(**options)(function)
        if cache and kernel is not function:  # NUMBA_DISABLE_JIT leaves functions as they are
            kernel._cache = _open_cache(function)
        return kernel

    return decorate


def _open_cache(function):
    try:
        return _Cache(function)
    except (RuntimeError, OSError) as error:  # no folder can be written, or the source cannot be read
        return _NoCache(error)


class _NoCache(NullCache):
    """What stands in for a cache where there is no place for one."""

    def __init__(self, reason):
        self._reason = reason

    def save_overload(self, sig, data):
        _warn(self._reason)


class _Cache(FunctionCache):
    """Numba's cache of one kernel; what cannot be read is compiled again, what cannot be written is left."""

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever reading a damaged pickle raises
            self._forget()
            return None

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except Exception as error:
            self._forget()
            _warn(error)

    def _forget(self):
        """Remove the index of the kernel's files.

        Numba writes the index before the data. If only the former succeeds, the index names a file that is not there,
        or, worse, one that an older version of the kernel has left. On a full disk a new index cannot be written, but
        the old one can be removed.
        """
        with suppress(OSError):
            os.unlink(os.path.join(self.cache_path, f"{self._impl.filename_base}.nbi"))


_warned = False


def _warn(reason):
    """Warn of a cache that cannot be written, once in a process: numba's compiler lock is held."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "Compiled kernels cannot be kept on disk, so each process compiles them again: set the environment "
            f"variable NUMBA_CACHE_DIR to a writable folder on a disk with room ({type(reason).__name__}: {reason})",
            UserWarning,
            stacklevel=2,
        )

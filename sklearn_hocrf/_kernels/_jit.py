"""The decorator of all kernels: numba's ``njit`` with a disk cache that may fail.

A cache only saves time. Numba's own cache raises an error if no folder is writable, if the disk is full or if a cache
file is damaged; here the kernel is compiled again instead, and one warning explains how to set a folder. Numba's cache
reads only writable folders; here read-only folders are read as well, such as those in a container image. Index files
are pickles, which run code: a folder that somebody else may write to is not used. In a terminal
or a notebook, a message reports that kernels are being compiled, because that takes seconds.

Numba keys the disk cache of a kernel on the time of the kernel's own file: machine code of called kernels in other
files would become stale. Here the key is the text of all these files, which must be imported by ``from .file import
name``; copies of a checkout therefore share a cache.
"""

import functools
import gc
import hashlib
import math
import os
import re
import stat
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numba
from llvmlite.binding import add_symbol
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.runtime import _nrt_python

_RUNTIME = {"Allocate", "Free", "MemInfo_alloc", "MemInfo_alloc_aligned", "MemInfo_call_dtor"}  # of what kernels need
_RUNTIME |= {"adapt_ndarray_from_python", "adapt_ndarray_to_python_acqref"}
_TAKEN = re.compile(r"^from \.(_?\w+) import", re.MULTILINE)


def njit(*, cache, **options):
    """Return numba's decorator with these options and the cache of this module."""
    if numba.config.DISABLE_JIT:  # vectors are instructions, which Python does not have
        raise ImportError("the kernels of sklearn_hocrf must be compiled: unset the variable NUMBA_DISABLE_JIT")

    def decorate(function):
        inner = function.__name__.startswith("_") or function.__module__.rpartition(".")[2].startswith("_")
        kernel = numba.njit(no_cpython_wrapper=inner, no_cfunc_wrapper=True, **options)(function)
        if cache:
            kernel._cache = _open_cache(function)
            kernel._compiler.compile = _collecting_later(kernel._compiler.compile)
        return kernel

    return decorate


def _collecting_later(compile_kernel):
    """Return a compiler that pauses Python's collector of garbage, which takes a tenth of a compilation.

    It runs each time numba has made some thousand objects, most of which stay, and looks through all objects of all
    imported libraries. Numba's compiler lock is held.
    """

    @functools.wraps(compile_kernel)
    def compile_and_collect_later(*args, **kwargs):
        is_on = gc.isenabled()  # not where one kernel compiles another one
        gc.disable()
        try:
            return compile_kernel(*args, **kwargs)
        finally:
            if is_on:
                gc.enable()

    return compile_and_collect_later


def _open_cache(function):
    try:
        return _Cache(function)
    except (RuntimeError, OSError) as error:  # no folder can be written, or the source cannot be read
        return _NoCache(function, error)


class _Danger(OSError):
    """A folder that somebody else may write to."""


def _check_owner(locator):
    """Raise unless nobody but this user, root and those who may change this file can write to a folder."""
    folder, named = locator.get_cache_path(), numba.config.CACHE_DIR
    within = bool(named) and os.path.realpath(os.path.dirname(folder)) == os.path.realpath(named)
    if reason := _danger(folder, named if within else None):
        if within and not _dangers:
            _dangers.append(reason)
        raise _Danger(reason)


_dangers: list[str] = []  # of the folder that the user has named


@functools.cache
def _danger(folder, named):
    """Return why a folder, or the one in which it was made for the user, is not safe, or an empty text."""
    if not hasattr(os, "geteuid"):  # Windows
        return ""
    code = os.stat(os.path.dirname(__file__))  # who may change the code needs no cache to run some
    for path in filter(None, (folder, named)):
        found = os.stat(path)
        group_may = found.st_mode & stat.S_IWGRP and not _is_of_one(found)
        if found.st_uid not in (0, os.geteuid(), code.st_uid):
            reason = f"it belongs to the user {found.st_uid}"
        elif path == named and found.st_mode & stat.S_ISVTX:  # others cannot replace what we have made there
            continue
        elif found.st_mode & ~code.st_mode & stat.S_IWOTH:
            reason = "everybody may write to it"
        elif group_may and not (code.st_mode & stat.S_IWGRP and code.st_gid == found.st_gid):
            reason = f"the group {found.st_gid} may write to it"
        else:
            continue
        return (
            f"The folder {path} of compiled kernels is not used, because {reason}, and files there are run as code: "
            "remove the right (chmod go-w), or set the environment variable NUMBA_CACHE_DIR to a folder of your own"
        )
    return ""


def _is_of_one(found):
    """Return whether the group of a folder is root's or that of its owner alone, as many systems make for each user."""
    try:
        import grp
        import pwd

        group, user = grp.getgrgid(found.st_gid), pwd.getpwuid(found.st_uid).pw_name
    except (ImportError, KeyError):
        return found.st_gid == 0
    return found.st_gid == 0 or (group.gr_name == user and set(group.gr_mem) <= {user})


def _load_from_readable(function, writable, sig, target_context):
    """Return a compiled kernel from a folder that comes before the writable one in numba's order, or None."""
    for cache_class in _reading_caches():
        with suppress(Exception):  # no such folder, no right to read it, or a damaged file
            cache = _stamp(cache_class(function), function)
            if cache.cache_path == writable:
                return None
            kernel = cache.load_overload(sig, target_context)
            if kernel is not None:
                return kernel
    return None


@functools.cache
def _reading_caches():
    """Return classes of caches, one for each of numba's places, that only require a folder to exist."""
    impl, classes = FunctionCache._impl_class, []
    for locator in impl._locator_classes:
        reader = type("Reader", (locator,), {"ensure_cache_path": _check_folder})
        reading_impl = type("ReadingImpl", (impl,), {"_locator_classes": [reader]})
        classes.append(type("ReadingCache", (_FastCache,), {"_impl_class": reading_impl}))
    return classes


def _check_folder(locator):
    os.listdir(locator.get_cache_path())
    _check_owner(locator)


def _stamp(cache, function):
    """Key a cache on the text of the kernel's file and of all files from which it imports kernels, not on time."""
    cache._cache_file._source_stamp = _hash_of(Path(function.__code__.co_filename))
    return cache


def _hash_of(path):
    hashes, left = {}, [path]
    while left:
        path = left.pop()
        if path not in hashes:
            hashes[path], taken = _read(path, path.stat().st_mtime_ns)
            left += [path.with_name(f"{name}.py") for name in taken]
    return hashlib.sha256("".join(hashes[path] for path in sorted(hashes)).encode()).hexdigest()


@functools.cache  # files are shared, and an edit in a running process has another time
def _read(path, time_of_change):
    """Return the hash of a file, and the names of the files in its folder from which it imports."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), _TAKEN.findall(content.decode())


class _FastCache(FunctionCache):
    """Numba's cache, without what only compiling needs."""

    def load_overload(self, sig, target_context):
        # numba would refresh the context, which imports everything that can be compiled, and compile its runtime: both
        # take 30 MiB and 0.3 s. It does so as well when it compiles; machine code without recursion needs only symbols
        known = all(hasattr(self, name) for name in ("_load_overload", "_guard_against_spurious_io_errors"))
        if not known or not _name_runtime():
            return super().load_overload(sig, target_context)  # another version of numba
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


@functools.cache
def _name_runtime():
    """Tell LLVM the addresses of numba's runtime, and return whether they are known.

    LLVM would end the process if one were missing, so those of another version must be the same.
    """
    helpers = getattr(_nrt_python, "c_helpers", {})
    if not _RUNTIME.issubset(helpers):
        return False
    for name, address in helpers.items():
        add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    return True


class _CacheFile(IndexDataCacheFile):
    """Numba's files of one kernel, such that several processes may write them at the same time.

    Numba takes the next number as the name of the data and writes the index first. Two processes that compile versions
    for different arguments may then choose the same name, and one of them later runs the code of the other; and until
    the data are there, or if the disk is full, an index names a file that is not there, or one that is stale.
    """

    def save(self, key, data):
        index = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6])
        name = self._data_name(index)
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})


class _NoCache(NullCache):
    """Replacement for a cache if no folder can be written."""

    def __init__(self, function, reason):
        self._function, self._reason = function, reason

    def load_overload(self, sig, target_context):
        _warn_of_danger()
        kernel = _load_from_readable(self._function, None, sig, target_context)
        if kernel is None:
            waiting.begin("about 10 s")
        return kernel

    def save_overload(self, sig, data):
        waiting.end()
        _warn(self._reason)


class _Writer:
    """Mixin of numba's places: those that somebody else may write to are passed over."""

    def ensure_cache_path(self):
        super().ensure_cache_path()
        _check_owner(self)


def _writing_impl():
    impl = FunctionCache._impl_class
    writers = [type("Writer", (_Writer, locator), {}) for locator in impl._locator_classes]
    return type("WritingImpl", (impl,), {"_locator_classes": writers})


class _Cache(_FastCache):
    """Numba's cache of one kernel; a failed read leads to compilation, a failed write is ignored."""

    _impl_class = _writing_impl()

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = _CacheFile(self.cache_path, self._impl.filename_base, None)
        _stamp(self, function)

    def load_overload(self, sig, target_context):
        _warn_of_danger()
        try:
            kernel = super().load_overload(sig, target_context)
        except Exception:  # reading a damaged pickle may raise anything
            self._forget()
            kernel = None
        if kernel is None:
            kernel = _load_from_readable(self._py_func, self.cache_path, sig, target_context)
        if kernel is None:
            waiting.begin("once, about 10 s")
        return kernel

    def save_overload(self, sig, data):
        waiting.end()
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _warn(error)

    def _forget(self):
        """Remove the index of the kernel's files."""
        with suppress(OSError):
            os.unlink(os.path.join(self.cache_path, f"{self._impl.filename_base}.nbi"))


class _Waiting:
    """Report on stderr the first of several kernels that are compiled; numba's compiler lock is held."""

    pause = 5.0  # seconds without compilation after which it is reported again

    def __init__(self):
        self.is_told, self._last = True, -math.inf  # somebody else may tell of it

    def begin(self, how_long):
        now = time.monotonic()
        is_first, self._last = now >= self._last + self.pause, now
        with suppress(OSError, ValueError):  # a closed stream, or one that nobody reads
            if self.is_told and is_first and _is_watched(sys.stderr):
                sys.stderr.write(f"sklearn_hocrf: compiling kernels, {how_long}\n")
                sys.stderr.flush()

    def end(self):
        self._last = time.monotonic()


waiting = _Waiting()


def _is_watched(stream):
    """Return whether a stream is a terminal, or leads to a notebook."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return is_terminal or type(stream).__module__.startswith("ipykernel.")


_warned = False


def _warn_of_danger():
    """Warn of a folder that is not safe, instead of one that cannot be written, once per process."""
    global _warned
    if _dangers and not _warned:
        _warned = True
        warnings.warn(_dangers[0], UserWarning, stacklevel=2)


def _warn(reason):
    """Warn of a cache that cannot be written, once per process; numba's compiler lock is held."""
    global _warned
    if not _warned:
        _warned = True
        remedy = "set the environment variable NUMBA_CACHE_DIR to a writable folder on a disk with room"
        if numba.config.CACHE_DIR:
            remedy = (
                f"NUMBA_CACHE_DIR={numba.config.CACHE_DIR} cannot be written, or has no room, and lacks kernels of "
                "this version: run python -m sklearn_hocrf warm-up where it can be, or name another folder"
            )
        warnings.warn(
            "Compiled kernels cannot be kept on disk, so each process compiles them again: "
            f"{remedy} ({type(reason).__name__}: {reason})",
            UserWarning,
            stacklevel=2,
        )

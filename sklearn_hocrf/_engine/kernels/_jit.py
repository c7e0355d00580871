"""The decorator of all kernels: numba's ``njit`` with a disk cache that tolerates failures and reads shipped kernels.

Numba's own cache raises an error if no folder is writable, if the disk is full or if a cache file is damaged. A cache
only saves time, so with the cache of this module, numba compiles the kernel again instead, and one warning explains how
to set a folder. Numba's cache reads only writable folders; this cache also reads read-only folders, such as those in a
container image. Index files are pickles, which can run code, so the cache does not use folders to which other users may
write. In a terminal or a notebook, a message reports that kernels are being compiled, because that takes seconds.

Numba's cache checks only the modification time of the kernel's own file, so machine code would become stale if the file
of a called kernel changed. The key of this cache is the text of the kernel's file and of all files from which this file
imports, directly or indirectly, by ``from .file import name``; kernels must import other kernels in this form. Copies
of a checkout therefore share a cache.

The optional distribution ``sklearn_hocrf_kernels`` contains kernels that were compiled for a processor whose features
most hosts provide (see ``_shipped``). This cache uses a shipped kernel if its own folders lack the kernel. If the
environment variable SKLEARN_HOCRF_NATIVE_KERNELS is 1, numba compiles the kernel for the host instead.

This module uses undocumented names of numba. If numba lacks one of them, kernels use numba's own cache.
"""

import functools
import hashlib
import importlib.util
import json
import math
import os
import re
import stat
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import llvmlite
import numba
from llvmlite.binding import add_symbol, get_host_cpu_features

try:
    from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
    from numba.core.runtime import _nrt_python

    _IMPL = FunctionCache._impl_class
    _LOCATORS = list(_IMPL._locator_classes)  # in numba's order
    _MISSING = ""
except (ImportError, AttributeError) as error:  # a newer numba may lack one of these names
    FunctionCache = IndexDataCacheFile = NullCache = _IMPL = object
    _nrt_python, _LOCATORS, _MISSING = None, [], str(error)

_RUNTIME = {"Allocate", "Free", "MemInfo_alloc", "MemInfo_alloc_aligned", "MemInfo_call_dtor"}  # called by kernels
_RUNTIME |= {"adapt_ndarray_from_python", "adapt_ndarray_to_python_acqref"}
_TAKEN = re.compile(r"^from \.(_?\w+) import", re.MULTILINE)


def njit(*, cache, **options):
    """Return numba's ``njit`` with the given options and, if ``cache`` is true, the cache of this module."""
    if numba.config.DISABLE_JIT:  # kernels contain vector instructions, which Python cannot run
        raise ImportError("the kernels of sklearn_hocrf must be compiled: unset the variable NUMBA_DISABLE_JIT")

    def decorate(function):
        inner = function.__name__.startswith("_") or function.__module__.rpartition(".")[2].startswith("_")
        kernel = numba.njit(no_cpython_wrapper=inner, no_cfunc_wrapper=True, **options)(function)
        if cache and (_MISSING or not hasattr(kernel, "_cache")):
            _warn(
                f"sklearn_hocrf does not know numba {numba.__version__} ({_MISSING or 'no _cache'}), so numba's own "
                "cache of compiled kernels is used: update sklearn_hocrf, or install an older numba"
            )
            kernel.enable_caching()
        elif cache:
            kernel._cache = _Cache(function)
        return kernel

    return decorate


# ---- places


class _Place:
    """Mixin for numba's cache locators: it allows read-only folders, but no folders to which other users may write."""

    def ensure_cache_path(self):
        folder = self.get_cache_path()
        try:
            super().ensure_cache_path()
            self.is_writable = True
        except OSError:
            os.listdir(folder)  # also an OSError if the folder is absent
            self.is_writable = False
        for path in folder, os.path.dirname(folder):
            if reason := _danger(path, path != folder):
                _warn(
                    f"The folder {path} of compiled kernels is not used, because {reason}, and files there are run as "
                    "code: remove the right (chmod go-w), or set the environment variable NUMBA_CACHE_DIR to a folder "
                    "of your own"
                )
                raise OSError(reason)


def _impl_of(locator):
    return type("Impl", (_IMPL,), {"_locator_classes": [locator]})


_IMPLS = [_impl_of(type("Place", (_Place, locator), {})) for locator in _LOCATORS]


@functools.cache
def _danger(folder, is_above):
    """Return why a folder is not safe, or ""; ``is_above``: whether the folder is the parent of a cache folder."""
    if not hasattr(os, "geteuid"):  # Windows
        return ""
    status = os.stat(folder)
    code = os.stat(os.path.dirname(__file__))  # a user who may change the code needs no cache to run code
    group_may = status.st_mode & stat.S_IWGRP and not (code.st_mode & stat.S_IWGRP and code.st_gid == status.st_gid)
    if status.st_uid not in (0, os.geteuid(), code.st_uid):
        return f"it belongs to the user {status.st_uid}"
    if is_above and status.st_mode & stat.S_ISVTX:  # other users cannot replace our files there
        return ""
    if status.st_mode & ~code.st_mode & stat.S_IWOTH:
        return "everybody may write to it"
    return f"the group {status.st_gid} may write to it" if group_may and not _is_of_one(status) else ""


def _is_of_one(status):
    """Return whether a folder's group is root's or contains only the owner; many systems create one group per user."""
    try:
        import grp
        import pwd

        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid).pw_name
    except (ImportError, KeyError):
        return status.st_gid == 0
    return status.st_gid == 0 or (group.gr_name == user and set(group.gr_mem) <= {user})


# ---- files of kernels


def _hash_of(path):
    hashes, left = {}, [path]
    while left:
        path = left.pop()
        if path not in hashes:
            hashes[path], taken = _read(path, path.stat().st_mtime_ns)
            left += [path.with_name(f"{name}.py") for name in taken]
    return hashlib.sha256("".join(hashes[path] for path in sorted(hashes)).encode()).hexdigest()


@functools.cache  # kernels share files, so each version of a file is read once
def _read(path, time_of_change):
    """Return the hash of a file, and the names of the files in the same folder from which it imports."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), _TAKEN.findall(content.decode())


@functools.cache
def _name_runtime():
    """Register the addresses of numba's runtime functions with LLVM, and return whether all of them are known.

    If an address were missing, LLVM would end the process, so numba must provide all names in ``_RUNTIME``.
    """
    helpers = getattr(_nrt_python, "c_helpers", {})
    if not _RUNTIME.issubset(helpers):
        return False
    for name, address in helpers.items():
        add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    return True


class _CacheFile(IndexDataCacheFile):
    """Numba's cache files of one kernel, written so that several processes can write them at the same time.

    Numba uses the next number as the name of the data file, and writes the index first. Two processes that compile
    versions for different arguments may then choose the same name, and one of them may later run the code of the other.
    Moreover, the index names a missing or stale file until the data are written, and permanently if the disk is full.
    This class uses a hash of the key as the name, and writes the index last.
    """

    def save(self, key, data):
        index = int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:6])
        name = self._data_name(index)
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:  # a damaged pickle may raise anything
            return {}


class _Files(FunctionCache):
    """Numba's cache of one kernel in one folder, without the parts that only compilation needs."""

    def __init__(self, function, impl):
        self._impl_class = impl
        super().__init__(function)
        self.is_writable = getattr(self._impl.locator, "is_writable", True)
        # keyed on the text of the kernel's file and of all files from which it imports kernels, not on time
        stamp = _hash_of(Path(function.__code__.co_filename))
        self._cache_file = _CacheFile(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig, target_context):
        # numba's method refreshes the context, which imports all functions that numba can compile, and compiles the
        # runtime: together, these steps take 30 MiB and 0.3 s. Machine code without recursion only requires the symbols
        # of the runtime, and numba performs both steps anyway before it compiles a kernel
        load = self._load_overload if _name_runtime() else super().load_overload
        return load(sig, target_context)


# ---- kernels that were shipped


class _Target(NamedTuple):
    """The processor for which shipped kernels were compiled; it replaces numba's code generator in cache keys."""

    folder: str
    triple: str
    cpu: str
    features: str

    def magic_tuple(self):
        return self.triple, self.cpu, self.features


class _ShippedPlace:
    """The folder of the shipped versions of one kernel, with the methods of numba's cache locators."""

    is_writable = False

    def __init__(self, folder, function):
        self._folder, self._line = folder, function.__code__.co_firstlineno

    def from_function(self, function, path):
        return self

    def get_cache_path(self):
        return self._folder

    def get_disambiguator(self):
        return str(self._line)

    def get_source_stamp(self):  # _Files uses another stamp
        return None


@functools.cache
def _shipped():
    """Return the target of shipped kernels if this host can run them, otherwise None.

    On a processor that lacks a feature of the target, an illegal instruction would end the process. Numba's files
    contain the versions of numba and Python, which numba compares; this function compares the version of llvmlite.
    """
    if numba.config.BOUNDSCHECK or numba.config.CPU_NAME or numba.config.CPU_FEATURES:  # require other kernels
        return None
    spec = importlib.util.find_spec("sklearn_hocrf_kernels")
    if spec is None or spec.origin is None or os.environ.get("SKLEARN_HOCRF_NATIVE_KERNELS", "0") not in ("", "0"):
        return None
    folder = os.path.dirname(spec.origin)
    with open(os.path.join(folder, "target.json"), encoding="utf-8") as file:
        target = json.load(file)
    host, features = get_host_cpu_features(), target["features"].split(",")
    if not all(host.get(name.removeprefix("+")) for name in features) or target["llvmlite"] != llvmlite.__version__:
        return None
    return None if _danger(folder, False) else _Target(folder, target["triple"], target["cpu"], target["features"])


class _ShippedFiles(_Files):
    """Shipped versions of one kernel, found by their target instead of the host's processor."""

    def __init__(self, function, target):
        super().__init__(function, _impl_of(_ShippedPlace(target.folder, function)))
        self._target = target

    def _index_key(self, sig, codegen):
        return super()._index_key(sig, self._target)


class _Cache(NullCache):
    """The cache of one kernel: if reading fails, numba compiles the kernel; if writing fails, a warning reports it."""

    def __init__(self, function):
        self._function = function

    @property
    def cache_path(self):
        return next((files.cache_path for files in self._files() if files.is_writable), None)

    def load_overload(self, sig, target_context):
        for files in self._files():
            with suppress(Exception):  # reading a damaged pickle may raise anything
                kernel = files.load_overload(sig, target_context)
                if kernel is not None:
                    return kernel
        with suppress(Exception):
            target = _shipped()
            kernel = target and _ShippedFiles(self._function, target).load_overload(sig, target_context)
            if kernel is not None:
                return kernel
        waiting.begin()
        return None

    def save_overload(self, sig, data):
        waiting.end()
        try:
            writable = [files for files in self._files() if files.is_writable]
            if not writable:
                raise OSError("no folder can be written")
            writable[0].save_overload(sig, data)
        except Exception as error:
            _warn_of_failure(error)

    def _files(self):
        """Return the kernel's files in the readable folders, up to the first writable folder."""
        files = []
        for impl in _IMPLS:
            with suppress(RuntimeError, OSError):  # the folder is absent, or the source is not readable
                files.append(_Files(self._function, impl))
                if files[-1].is_writable:
                    break
        return files


# ---- messages to users


class _Waiting:
    """A message on stderr before the first of several kernels is compiled; numba's compiler lock protects its state."""

    pause = 5.0  # seconds without compilation after which the message is written again

    def __init__(self):
        self.is_told, self._last = True, -math.inf  # False if a caller writes its own message

    def begin(self):
        now = time.monotonic()
        is_first, self._last = now >= self._last + self.pause, now
        with suppress(OSError, ValueError):  # the stream is closed, or nothing reads it
            if self.is_told and is_first and _is_watched(sys.stderr):
                sys.stderr.write("sklearn_hocrf: compiling kernels, once, about 10 s\n")
                sys.stderr.flush()

    def end(self):
        self._last = time.monotonic()


waiting = _Waiting()


def _is_watched(stream):
    """Return whether a stream is a terminal or writes to a notebook."""
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return is_terminal or type(stream).__module__.startswith("ipykernel.")


_warned = False


def _warn(message):
    """Issue one warning per process about the folders of kernels. Numba's compiler lock protects ``_warned``."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(message, UserWarning, stacklevel=2)


def _warn_of_failure(error):
    """Warn that compiled kernels could not be written."""
    remedy = "set the environment variable NUMBA_CACHE_DIR to a writable folder on a disk with room"
    if numba.config.CACHE_DIR:
        remedy = (
            f"NUMBA_CACHE_DIR={numba.config.CACHE_DIR} cannot be written, or has no room, and lacks kernels of "
            "this version: run python -m sklearn_hocrf warm-up where it can be, or name another folder"
        )
    _warn(
        "Compiled kernels cannot be kept on disk, so each process compiles them again: "
        f"{remedy} ({type(error).__name__}: {error})"
    )

"""Files that are written under new names before they replace others, and leftovers of killed processes.

A writer holds the lock of a file next to its new files until it ends or dies. Unclaimed files can therefore be removed
by any process, whatever else runs on the machine, in other containers, or on other machines if they share the locks of
the file system. On file systems without locks, such files are kept.
"""

from __future__ import annotations

import errno
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where open files cannot be removed
    fcntl = None  # type: ignore[assignment]

__all__ = ["claimed", "output_file", "replace", "unclaimed"]

NUMBER = "[0-9a-f]{32}"  # made by :func:`claimed`
_PAUSES = (0.01, 0.03, 0.1, 0.3, 1.0)  # seconds


def output_file(path: str | os.PathLike, *inputs: str | os.PathLike | None) -> Path:
    """Return the file that is to be written, behind symbolic links; raise unless it can be, and is none of the inputs.

    Nothing is written yet, so that no work is lost. Errors name the path as it was given.
    """
    for name in inputs:
        with suppress(OSError):  # one of them does not exist
            if name is not None and os.path.samefile(path, name):
                raise ValueError(f"the output {os.fspath(path)} and the input {os.fspath(name)} are one file")
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():  # a device would be replaced
            raise FileExistsError(errno.EEXIST, "not a regular file")
        with claimed(target):
            pass
    except OSError as error:
        raise OSError(error.errno, f"cannot be written ({error.strerror})", os.fspath(path)) from None
    return target


@contextmanager
def claimed(stem: Path) -> Iterator[Path]:
    """Return a context that claims a new path: ``stem``, a dot, and a random number.

    A claim is a lock on an open file of that name with the suffix ".lock".
    """
    while True:
        path = stem.with_name(f"{stem.name}.{uuid.uuid4().hex}")
        with open(f"{path}.lock", "xb") as lock:
            if not _has_taken(lock):
                continue
            try:
                yield path
            finally:
                lock.close()
                with suppress(OSError):
                    os.unlink(lock.name)
        return


def _has_taken(lock) -> bool:
    """Take the lock of a new file; return False if another process has just seen the file without a lock."""
    if fcntl is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # there are no locks, for any process
            return True
    return os.path.exists(lock.name)


def unclaimed(stem: Path) -> list[Path]:
    """Return the paths of :func:`claimed` without a claim, now and in future: finished files in use, or leftovers."""
    pattern = re.compile(rf"({re.escape(stem.name)}\.{NUMBER})(\.lock)?")
    matches = map(pattern.fullmatch, os.listdir(stem.parent))
    paths = [stem.with_name(name) for name in sorted({match[1] for match in matches if match})]
    return [path for path in paths if not _is_claimed(f"{path}.lock")]


def _is_claimed(lock: str) -> bool:
    """Return whether a lock is taken; remove its file if not."""
    try:
        if fcntl is None:
            os.unlink(lock)
            return False
        with open(lock, "r+b") as file:  # some systems do not lock files opened only for reading
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(lock)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def replace(new: Path, path: Path) -> None:
    """Replace a file by another one.

    Windows refuses this as long as the old file is open, so it is tried again for a second or two.
    """
    for pause in _PAUSES:
        try:
            os.replace(new, path)
            return
        except PermissionError:
            time.sleep(pause)
    os.replace(new, path)

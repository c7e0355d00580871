"""Files that are written under new names before they take their place, and what processes leave that are killed then.

A writer holds the lock of a file beside its new files, until it has ended or died. So what nobody claims can be removed
by anyone, whatever else runs on the machine, in other containers, or on other machines if the file system has locks for
all of them. Where it has no locks at all, such files are left alone.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

__all__ = ["claimed", "replace", "unclaimed"]

NUMBER = "[0-9a-f]{32}"  # that of :func:`claimed`
_PAUSES = (0.01, 0.03, 0.1, 0.3, 1.0)  # seconds


@contextmanager
def claimed(stem: Path) -> Iterator[Path]:
    """Return a context that claims a new path: ``stem``, a dot, and a random number.

    A claim is a lock of an open file of that name and ".lock".
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
    """Take the lock of a new file; return False if somebody else has just seen the file without one."""
    if fcntl is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # there are no locks, for anybody
            return True
    return os.path.exists(lock.name)


def unclaimed(stem: Path) -> list[Path]:
    """Return the paths of :func:`claimed` that nobody claims, now and for ever: they are in use, or left."""
    pattern = re.compile(rf"({re.escape(stem.name)}\.{NUMBER})(\.lock)?")
    matches = map(pattern.fullmatch, os.listdir(stem.parent))
    paths = [stem.with_name(name) for name in sorted({match[1] for match in matches if match})]
    return [path for path in paths if not _is_claimed(f"{path}.lock")]


def _is_claimed(lock: str) -> bool:
    """Tell whether somebody has a lock; remove its file if not."""
    try:
        if fcntl is None:
            os.unlink(lock)
            return False
        with open(lock, "r+b") as file:  # for reading alone, some systems give no lock
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(lock)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def replace(new: Path, path: Path) -> None:
    """Put a file in the place of another.

    Windows refuses this as long as somebody has the other open, so it is tried again for a second or two.
    """
    for pause in _PAUSES:
        try:
            os.replace(new, path)
            return
        except PermissionError:
            time.sleep(pause)
    os.replace(new, path)

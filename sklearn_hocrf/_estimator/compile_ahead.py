"""Compile ahead: while a first fit waits for its kernels, another process compiles those of the steps that come next.

Numba compiles one kernel at a time in a process, and the folder of compiled kernels is shared by processes. So when
the first kernel is missing there, a second process starts at the other end of the first steps (``_warm_up``): both
meet in the middle. It has low priority, ends with this process at the latest, and there is one for a folder. Whatever
goes wrong, kernels are compiled when they are needed, as without it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import current_process
from pathlib import Path
from typing import TextIO

from .._inference.schedule import threads_for
from .._kernels._jit import waiting

__all__ = ["SWITCH", "alone_in", "follow_the_parent", "prepare", "stop"]

SWITCH = "SKLEARN_HOCRF_COMPILE_AHEAD"

_ROOT = Path(__file__).parents[2]
_OOM_SCORE = Path("/proc/self/oom_score_adj")

_is_allowed = True


def prepare(is_segments: bool) -> None:
    """Let the first kernel that is missing start the process, for a model of segments or a chain."""
    if _is_allowed:
        waiting.ahead = partial(_begin, is_segments)


def stop() -> None:
    """Compile nothing ahead of this process from now on."""
    global _is_allowed
    _is_allowed, waiting.ahead = False, None


def _begin(is_segments: bool) -> None:
    """Start the process, unless this one is a worker, or has one processor, or may not."""
    stop()  # once
    is_python = Path(sys.executable or "").name.startswith("python")  # and not a program that embeds it
    is_wanted = os.environ.get(SWITCH) != "0" and current_process().name == "MainProcess"
    if not (is_python and is_wanted and threads_for(-1) > 1):
        return
    statement = f"from sklearn_hocrf import _warm_up; _warm_up.first_steps({is_segments})"
    with suppress(OSError):
        process = subprocess.Popen(
            [sys.executable, "-c", statement],
            stdin=subprocess.PIPE,  # closed by the system when this process ends, in whatever way
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path if path)},
            cwd=_ROOT,  # where Python looks first; the user's folder may have files with names of modules
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        atexit.register(_end, process)


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()  # closes the pipe, and waits


def follow_the_parent() -> None:
    """End this process when the one that has started it ends; take processor and memory after all others."""
    stop()
    threading.Thread(target=_wait_for_the_end, daemon=True).start()
    with suppress(AttributeError, OSError):  # Windows
        os.nice(10)
    with suppress(OSError):  # only Linux has this file
        _OOM_SCORE.write_text("1000")


def _wait_for_the_end() -> None:
    os.read(0, 1)  # sys.stdin has a lock, which a process that ends cannot take from a thread
    os._exit(0)


@contextmanager
def alone_in(folder: str | Path) -> Iterator[bool]:
    """Hold a lock of a folder meanwhile, and yield whether no other process does.

    Where files cannot be locked, each process is alone.
    """
    with open(Path(folder, "ahead.lock"), "w") as file:
        yield _is_locked(file)


def _is_locked(file: TextIO) -> bool:
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock

        flock(file, LOCK_EX | LOCK_NB)
    except ImportError:  # Windows
        return True
    except OSError:
        return False
    return True

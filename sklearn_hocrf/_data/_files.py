"""Files that are written under new names before they replace others."""

from __future__ import annotations

import errno
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

NUMBER = "[0-9a-f]{32}"  # made by :func:`new_name`
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
        with open(probe := new_name(target), "xb"):
            pass
        probe.unlink()
    except OSError as error:
        raise OSError(error.errno, f"cannot be written ({error.strerror})", os.fspath(path)) from None
    return target


def new_name(path: Path) -> Path:
    """Return the name of a new file or folder next to another one: its name, a dot, and a random number."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex}")


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


def replace_content(path: Path, content: bytes) -> None:
    """Write a file under a new name, and replace the file of a path by it."""
    new = new_name(path)
    try:
        new.write_bytes(content)
        replace(new, path)
    finally:
        new.unlink(missing_ok=True)

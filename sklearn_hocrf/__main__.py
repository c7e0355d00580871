"""The command line: ``hocrf``, or ``python -m sklearn_hocrf``.

Models are trained on files with one token per line and its label in the last column, as for CRF++ and Wapiti; an empty
line ends a sequence. Tagging streams: it needs numpy only, and memory for one sequence::

    hocrf fit train.conll -o names.hocrf --order 2 --constraints bio
    hocrf fit train.conll -o names.hocrf --templates template
    hocrf tag names.hocrf < lines.conll > tagged.conll
    hocrf tag names.hocrf lines.conll --json
    hocrf evaluate names.hocrf test.conll
    hocrf export model.skops -o names.hocrf
    hocrf warm-up

A line with too few columns or more than 2**20 characters, or bytes that are not UTF-8, end ``tag`` with exit code 2 and
a message that names the line. ``warm-up`` compiles all kernels and keeps them in the folder of the environment variable
NUMBA_CACHE_DIR, by default next to the package; its exit code is 1 if nothing can be kept.

User guide: docs/guide/production.md, also for container images.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sklearn_hocrf import __version__
from sklearn_hocrf._commands import COMMANDS, add_commands, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the command, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="hocrf" if Path(sys.argv[0]).stem == "hocrf" else "python -m sklearn_hocrf",
        description="Train models on files with a token per line, and tag with them.",
    )
    parser.add_argument("--version", action="version", version=f"sklearn_hocrf {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands", required=True)
    what = "compile all kernels, and keep them in the folder NUMBA_CACHE_DIR: for container images"
    commands.add_parser("warm-up", help=what, description=what[0].upper() + what[1:] + ".")
    add_commands(commands)
    options = parser.parse_args(arguments)
    if sys.stderr is None:  # 2>&-, services
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    try:
        return run(options) if options.command in COMMANDS else compile_everything()
    finally:
        for stream in sys.stdout, sys.stderr:
            _let_go(stream)


def _let_go(stream: Any) -> None:
    """Flush a stream; if it cannot be written, drop the rest, of which Python would complain at the end."""
    try:
        if stream is not None:
            stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def compile_everything() -> int:
    """Compile all kernels, print a line, and return the exit code."""
    from sklearn_hocrf._warm_up import warm_up

    try:
        done = warm_up(tell_progress)
    except OSError as error:
        print(f"python -m sklearn_hocrf warm-up: {error}", file=sys.stderr)
        return 1
    print(
        f"{done.n_compiled} kernels compiled, {done.n_versions - done.n_compiled} were there: {done.folder} "
        f"({done.seconds:.0f} s)"
    )
    return 0


def tell_progress(n_done: int, n_models: int, n_kernels: int) -> None:
    """Write the progress of the warm-up to stderr: on one line of a terminal, elsewhere every tenth model."""
    is_terminal, is_end = sys.stderr.isatty(), n_done == n_models
    if is_terminal or is_end or n_done % 10 == 0:
        end = "\r" if is_terminal and not is_end else "\n"  # overwritten by the next output
        print(f"{n_done}/{n_models} models, {n_kernels} kernels", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

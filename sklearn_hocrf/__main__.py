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
NUMBA_CACHE_DIR, by default next to the package; its exit code is 1 if nothing can be kept. Without a command,
models of growing order are trained on words of noisy handwritten digits.

User guide: docs/guide/production.md, also for container images.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sklearn_hocrf import __version__
from sklearn_hocrf._shell.commands import COMMANDS, add_commands, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the command, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="hocrf" if Path(sys.argv[0]).stem == "hocrf" else "python -m sklearn_hocrf",
        description="Train models on files with a token per line, and tag with them. Without a command: train "
        "HighOrderCRF on words of noisy handwritten digits that follow a Markov chain of order 3, by orders 1 to 3.",
    )
    parser.add_argument("--version", action="version", version=f"sklearn_hocrf {__version__}")
    commands = parser.add_subparsers(dest="command", title="commands")
    what = "compile all kernels, and keep them in the folder NUMBA_CACHE_DIR: for container images"
    commands.add_parser("warm-up", help=what, description=what[0].upper() + what[1:] + ".")
    add_commands(commands)
    options = parser.parse_args(arguments)
    if sys.stderr is None:  # 2>&-, services
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    try:
        if options.command in COMMANDS:
            return run(options)
        return compile_everything() if options.command else show()
    except BrokenPipeError:  # who reads the output has read enough
        return 0
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
    from sklearn_hocrf._shell.warm_up import warm_up

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


def show() -> int:
    """Train on generated digits, and print one line of a table for each order."""
    from sklearn_hocrf import HighOrderCRF
    from sklearn_hocrf.datasets import make_digit_words

    (X, y), (X_test, y_test) = (make_digit_words(500, random_state=seed) for seed in (0, 1))
    print(f"{len(y)} training words, {len(y_test)} test words; the very first use also compiles kernels")
    print(f"{'order':>5} {'patterns':>9} {'states':>7} {'accuracy':>9} {'seconds':>8}")
    for order in 1, 2, 3:
        start = time.perf_counter()
        model = HighOrderCRF(order).fit(X, y)
        accuracy, seconds = model.score(X_test, y_test), time.perf_counter() - start
        states = model.automaton_.n_states
        print(f"{order:>5} {len(model.patterns_):>9} {states:>7} {accuracy:>9.4f} {seconds:>8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

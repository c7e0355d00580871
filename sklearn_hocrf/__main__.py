"""The command line: ``python -m sklearn_hocrf`` and ``python -m sklearn_hocrf warm-up``.

Alone, it shows the gain of high-order label patterns on an embedded example: it trains on words of noisy handwritten
digits that follow a Markov chain of order 3, once for each order of label patterns.

``warm-up`` compiles all kernels and keeps them on disk, which otherwise happens as models first need them. It takes two
to four minutes of one processor, and some seconds where all kernels are there; more processors do not help. A counter
goes to stderr: one line on a terminal, elsewhere a line every ten seconds. What it has done is one line of output.
Messages go to stderr, too; the exit code is 0, 1 where nothing can be kept, or 2 for wrong arguments.

Compiled kernels are kept in the folder of the environment variable NUMBA_CACHE_DIR, by default beside the package, and
where this cannot be written in the user's cache. Folders that cannot be written are read all the same. So an image of a
container that is read-only, or is used by somebody else, needs two lines::

    ENV NUMBA_CACHE_DIR=/opt/kernels
    RUN python -m sklearn_hocrf warm-up

They come after the installation of the package, as kernels are those of its files. The variable stays set in the image.
Kernels are also those of the processor: if the image runs on other types of processors than the one that builds it,
then ``ENV NUMBA_CPU_NAME=generic`` above these lines makes kernels for all, which are slower.

Without any folder that can be read or written the package works, too: each process then compiles what it needs, and
says once, in a warning, to set NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._warm_up import warm_up
from sklearn_hocrf.datasets import make_digit_words

SECONDS_BETWEEN_LINES = 10  # of the counter


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, do what it says, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m sklearn_hocrf",
        description="Train HighOrderCRF on words of noisy handwritten digits that follow a Markov chain of order 3, "
        "with label patterns of growing order.",
    )
    parser.add_argument("--max-order", type=positive, default=3, help="highest order to train (default: %(default)s)")
    parser.add_argument(
        "--words", type=positive, default=500, help="training words, and as many test words (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the data (default: %(default)s)")
    commands = parser.add_subparsers(dest="command", title="commands")
    what = "compile all kernels, and keep them in the folder NUMBA_CACHE_DIR: for images of containers"
    commands.add_parser("warm-up", help=what, description=what[0].upper() + what[1:] + ".")
    options = parser.parse_args(arguments)
    if options.command == "warm-up":
        return prepare()
    show(options)
    return 0


def prepare() -> int:
    """Compile all kernels, print a line, and return the exit code."""
    try:
        done = warm_up(Counter())
    except (OSError, RuntimeError) as error:
        print(f"python -m sklearn_hocrf warm-up: {error}", file=sys.stderr)
        return 1
    print(
        f"{done.n_compiled} kernels compiled, {done.n_versions - done.n_compiled} were there: {done.folder} "
        f"({done.seconds:.0f} s)"
    )
    return 0


class Counter:
    """Write to stderr how far the warm-up is: on a line of a terminal, elsewhere on a new line from time to time."""

    def __init__(self) -> None:
        self.last = -math.inf

    def __call__(self, n_done: int, n_models: int, n_kernels: int) -> None:
        is_terminal, now = sys.stderr.isatty(), time.monotonic()
        if not is_terminal and now < self.last + SECONDS_BETWEEN_LINES:
            return
        self.last = now
        end = "\r" if is_terminal and n_done < n_models else "\n"  # whatever comes next is written over it
        print(f"{n_done}/{n_models} models, {n_kernels} kernels", end=end, file=sys.stderr, flush=True)


def show(options: argparse.Namespace) -> None:
    """Train, and print one line of the table for each order."""
    X_train, X_test, y_train, y_test = make_digit_words(options.words, options.words, random_state=options.seed)
    n_train, n_test = (sum(len(labels) for labels in y) for y in (y_train, y_test))
    words = f"{len(y_train)} training words ({n_train} digits), {len(y_test)} test words ({n_test} digits)"
    print(f"{words}; the very first use also compiles kernels")
    print(f"{'order':>5} {'patterns':>9} {'states':>7} {'accuracy':>9} {'seconds':>8}")
    for order in range(1, options.max_order + 1):
        start = time.perf_counter()
        model = HighOrderCRF(max_order=order).fit(X_train, y_train)
        accuracy = model.score(X_test, y_test)
        seconds = time.perf_counter() - start
        states = model.automaton_.n_states
        print(f"{order:>5} {len(model.patterns_):>9} {states:>7} {accuracy:>9.4f} {seconds:>8.1f}", flush=True)


def positive(text: str) -> int:
    """Return an option's value as an int of at least 1; argparse shows the name of this function."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


if __name__ == "__main__":
    sys.exit(main())

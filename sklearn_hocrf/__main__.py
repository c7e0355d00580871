"""Show the gain of high-order label patterns on an embedded example: ``python -m sklearn_hocrf``.

Train on words of noisy handwritten digits that follow a Markov chain of order 3, once for each order of label patterns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_digit_words


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, train, and print one line of the table for each order."""
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
    options = parser.parse_args(arguments)

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
    main()

"""Semi-CRFs: how the time of a gradient grows with the longest segment and with the number of arcs.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_growth.py [--quick] [--rounds N]

prints tables of milliseconds of the processor, on one thread, and for each the exponent p of the law ``seconds ~
size ** p`` fitted to all sizes, round by round: it should not exceed 1. Beside it is that of the two largest sizes
alone: fixed costs matter least there, and noise most; and the states, by which the time of segments goes, may grow
faster than the arcs.

Longest segments: the same generated sequences of 400 tokens and the same weights, with more and more lengths allowed;
and bibliographic references, whose segments are cut where they are longer. Arcs: more and more random patterns on
generated sequences; and references under semi-CRFs of orders 1 to 5. References need cora_references in
SKLEARN_HOCRF_DATA or ../shared/data, and are left out where it is absent. ``--quick`` takes a few sequences and small
sizes.
"""

import argparse
import time
from functools import partial

import bench_bibliography
import bench_segments
import numpy as np
from common import print_table, some_weights, take_turns, training_objective, with_spread
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderSemiCRF

N_LABELS, N_WORDS, LENGTH = 8, 200, 400
LONGEST = (5, 10, 20, 40, 80)
N_PATTERNS = (50, 100, 200, 400, 800, 1600)
ORDERS = (1, 2, 3, 4, 5)
MOST = 1.0  # exponent


def generate(n_sequences=48, length=LENGTH, seed=0):
    """Return sequences of one word a token and their segments of 1 to 5 tokens; neighbours have different labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        stops = np.minimum(np.cumsum(rng.integers(1, 6, size=length)), length)
        stops = stops[: np.searchsorted(stops, length) + 1].tolist()
        steps = rng.integers(1, N_LABELS, size=len(stops))
        labels = (np.cumsum(steps) % N_LABELS).tolist()
        y.append(list(zip([0, *stops[:-1]], stops, labels, strict=True)))
        of_token = np.repeat(labels, np.diff([0, *stops]))
        words = np.where(rng.random(length) < 0.5, of_token, rng.integers(N_WORDS, size=length))
        X.append([[f"word={word}"] for word in words.tolist()])
    return X, y


def random_patterns(n_patterns, seed=0):
    """Return different patterns of two to five labels, of which neighbours differ."""
    rng, patterns = np.random.default_rng(seed), set()
    while len(patterns) < n_patterns:
        steps = rng.integers(1, N_LABELS, size=rng.integers(2, 6))
        patterns.add(tuple((np.cumsum(steps) % N_LABELS).tolist()))
    return sorted(patterns)


def of_length(longest, data):
    return training_objective(HighOrderSemiCRF(encoding="segments", max_segment_length=longest), *data)


def of_patterns(n_patterns, data):
    patterns = random_patterns(n_patterns)
    model = HighOrderSemiCRF(5, encoding="segments", max_segment_length=10, patterns=patterns)
    return training_objective(model, *data)


def references(task, size, n_references):
    X, y, features, model = bench_segments.prepare(bench_segments.Case(task, "SC", size), n_references)
    return training_objective(model, features.fit_transform(X, y), y)


class _Gradient:
    """Value and gradient at one point, on one thread."""

    def __init__(self, objective):
        self.objective, self.w = objective, some_weights(objective)
        self.layout, self.plan = objective.problem.layout, objective.problem.plan

    def time_gradient(self):
        return self.objective.value_gradient(self.w)

    @property
    def longest(self):
        return int(self.plan.segment_index.longest.max())

    @property
    def n_arcs(self):
        return self.layout.automaton.n_arcs


class Lengths:
    """The gradient of generated data by longest segment."""

    params = list(LONGEST)
    param_names = ["max_segment_length"]

    def setup(self, longest):
        self.gradient = _Gradient(of_length(longest, generate()))

    def time_gradient(self, longest):
        self.gradient.time_gradient()


class Arcs:
    """The gradient of generated data by number of patterns."""

    params = list(N_PATTERNS)
    param_names = ["n_patterns"]

    def setup(self, n_patterns):
        self.gradient = _Gradient(of_patterns(n_patterns, generate()))

    def time_gradient(self, n_patterns):
        self.gradient.time_gradient()


def exponents(sizes, seconds):
    """Return the fitted exponent of each round; ``seconds`` has shape (n_rounds, n_sizes)."""
    return np.polyfit(np.log(sizes), np.log(seconds.T), 1)[0]


def compare(title, by, gradients, n_rounds):
    """Time gradients in turns, and print them; ``by`` names the size that grows."""
    seconds = take_turns([gradient.time_gradient for gradient in gradients], n_rounds, time.process_time)
    sizes = [getattr(gradient, by) for gradient in gradients]
    lines = [
        (
            gradient.longest,
            gradient.layout.automaton.n_states,
            gradient.n_arcs,
            with_spread(1e3 * column, ".1f"),
            f"{size / sizes[0]:.2f}",
            with_spread(column / seconds[:, 0], ".2f"),
        )
        for gradient, size, column in zip(gradients, sizes, seconds.T, strict=True)
    ]
    print(f"\n{title}")
    print_table(["longest segment", "states", "arcs", "ms", "size, ratio to first", "time, ratio to first"], lines)
    all_sizes, largest = exponents(sizes, seconds), exponents(sizes[-2:], seconds[:, -2:])
    verdict = "within" if np.median(all_sizes) <= MOST else "beyond"
    print(f"time grows as size to the power {with_spread(all_sizes, '.2f')}: {verdict} the limit of {MOST:g}", end="")
    print(f"; between the two largest {with_spread(largest, '.2f')}")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few sequences, small sizes")
    parser.add_argument("--rounds", type=int, default=9, help="gradients to time (default: %(default)s)")
    options = parser.parse_args(arguments)
    longest, n_patterns, orders = (sizes[: 2 if options.quick else None] for sizes in (LONGEST, N_PATTERNS, ORDERS))
    data = generate(2, 100) if options.quick else generate()
    few = 10 if options.quick else None
    series = {
        "generated sequences, order 1, by longest segment": ("longest", of_length, longest, data),
        "generated sequences, random patterns, by arcs": ("n_arcs", of_patterns, n_patterns, data),
        "references, order 1, by longest segment": ("longest", partial(references, "lengths"), longest, few),
        "references, orders from 1 on, by arcs": ("n_arcs", partial(references, "bibliography"), orders, few),
    }
    if bench_bibliography.load_references(1) is None:
        print("references: skipped, the data is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data")
        series = {title: case for title, case in series.items() if not title.startswith("references")}
    with threadpool_limits(1):
        for title, (by, make, sizes, given) in series.items():
            compare(title, by, [_Gradient(make(size, given)) for size in sizes], options.rounds)


if __name__ == "__main__":
    main()

"""What L1 penalties leave of a model: size, speed and accuracy by strength.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_sparsity.py [--quick] [--rounds N] [--max-order K]

prints a table for handwriting at order 3 (all pixel and letter pairs, all observed patterns, beside sigma_reg = 1 and
alone) and one for conll2000 at order 1. The data come from SKLEARN_HOCRF_DATA or ../shared/data; without handwriting,
words of scikit-learn's digits stand in, without conll2000 there is no second table. ``--quick`` ends each training
after 15 iterations, on 500 sentences: the numbers then say only that the benchmark runs.
"""

import argparse
import pickle
import time
import warnings

import numpy as np
from bench_chunking import load_chunks
from bench_handwriting import load_words
from common import data_file, print_table, take_turns, with_spread
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF

STRENGTHS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
HEADS = ["sigma", "L1 strength", "patterns", "arcs", "weights", "bytes", "tokens per second", "faster", "accuracy"]


class Sparsity:
    """One fit, and its size and speed."""

    params = [(0.0, 0.1, 1.0), (1.0, np.inf)]
    param_names = ["l1_reg", "sigma_reg"]

    def setup(self, l1_reg, sigma_reg, train=None, test=None, max_order=3, max_iter=2000, **parameters):
        if train is None:
            train, test, _ = load_words()
        self.X, self.y = test
        crf = HighOrderCRF(max_order, l1_reg=l1_reg, sigma_reg=sigma_reg, max_iter=max_iter, n_jobs=1, **parameters)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the table has the number of iterations
            self.crf = crf.fit(*train)
        self.fit_seconds = time.perf_counter() - start

    def time_predict(self, *_):
        return self.crf.predict(self.X)

    def track_patterns(self, *_):
        return len(self.crf.patterns_)

    def track_weights(self, *_):
        return self.crf.coef_.nnz + np.count_nonzero(self.crf.pattern_coef_)

    def track_bytes(self, *_):
        return len(pickle.dumps(self.crf))

    def track_accuracy(self, *_):
        return self.crf.score(self.X, self.y)


def compare(settings, n_rounds, **data_and_parameters):
    """Print a row for each (sigma_reg, l1_reg); the first one is what speeds are compared with."""
    cases = [Sparsity() for _ in settings]
    for case, (sigma_reg, l1_reg) in zip(cases, settings, strict=True):
        case.setup(l1_reg, sigma_reg, **data_and_parameters)
    n_tokens = sum(map(len, cases[0].y))
    seconds = take_turns([case.time_predict for case in cases], n_rounds, time.process_time)
    rows = [
        (
            f"{sigma_reg:g}",
            f"{l1_reg:g}",
            case.track_patterns(),
            case.crf.automaton_.n_arcs,
            case.track_weights(),
            case.track_bytes(),
            with_spread(n_tokens / column, ",.0f"),
            with_spread(seconds[:, 0] / column, ".2f"),
            f"{case.track_accuracy():.4f}",
            case.crf.n_iter_,
            f"{case.fit_seconds:.1f}",
        )
        for case, (sigma_reg, l1_reg), column in zip(cases, settings, seconds.T, strict=True)
    ]
    print_table([*HEADS, "iterations", "seconds"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each comparison (default: %(default)s)")
    parser.add_argument("--max-order", type=int, default=3, help="order for handwriting (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="few iterations, rounds and sentences")
    options = parser.parse_args()
    n_rounds, limits = (2, {"max_iter": 15}) if options.quick else (options.rounds, {})
    strengths = (0.0, 0.1, 1.0) if options.quick else STRENGTHS
    settings = [(1.0, l1_reg) for l1_reg in strengths] + [(np.inf, l1_reg) for l1_reg in strengths if l1_reg >= 0.1]
    with threadpool_limits(1):
        train, test, source = load_words()
        print(f"{source}, order {options.max_order}; median [least most] of {n_rounds} rounds")
        compare(settings, n_rounds, train=train, test=test, max_order=options.max_order, unsupported=True, **limits)
        if data_file("conll2000", "train.txt.gz") is None:
            print("\nconll2000 is absent: set SKLEARN_HOCRF_DATA")
            return
        chunks = load_chunks(500 if options.quick else None)
        print(f"\nconll2000, order 1, {len(chunks.y_train)} sentences to train on")
        compare(
            settings,
            n_rounds,
            train=(chunks.train, chunks.y_train),
            test=(chunks.test, chunks.y_test),
            max_order=1,
            **limits,
        )


if __name__ == "__main__":
    main()

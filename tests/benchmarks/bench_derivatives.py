"""Derivatives of expected counts along a direction: a pass on dual numbers against a plain one.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_derivatives.py [--quick] [--rounds N]

prints seconds of the processor on one thread, and the ratios of both within a round: for chains of order 1 and 3 with
all pairs of features and labels (handwriting, or words of digits where it is absent), and for bibliographic references
under semi-CRFs of order 1 and 2, where longer patterns have no features, features of a segment's first word, or all
features, those of whole segments among them. Both passes begin with weights, and build the model's tables from them.
Needs ocr and cora_references in SKLEARN_HOCRF_DATA or ../shared/data. ``--quick`` takes a few sequences.
"""

import argparse
import time
import warnings
from functools import partial

import bench_bibliography
import numpy as np
from bench_handwriting import load_words, make_objective
from common import Absent, keep_problem, print_table, skip_where, take_turns, with_spread
from threadpoolctl import threadpool_limits

MOST = 2.5  # plain passes that a derivative may cost
FEATURE_ORDER = {"none": 0, "first word": {"begin:": (1,)}, "all": 1}  # features of longer patterns


def chain_problem(max_order, quick):
    X, y = load_words()[0]
    return make_objective((X[:20], y[:20]) if quick else (X, y), max_order).problem


def segment_problem(max_order, kind, quick):
    """Return the training problem of bibliographic references, or None where they are absent."""
    data = bench_bibliography.load_references(10 if quick else 100)
    if data is None:
        return None
    model = bench_bibliography.segment_model(max_order, max_iter=1).set_params(feature_order=FEATURE_ORDER[kind])
    kept = keep_problem(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # not converged
        model.fit(bench_bibliography.segment_features().fit_transform(data.X, data.y), data.y)
    return kept[0]


PROBLEMS = {f"chain of order {order}": partial(chain_problem, order) for order in (1, 3)} | {
    f"semi-CRF of order {order}, features: {kind}": partial(segment_problem, order, kind)
    for kind in FEATURE_ORDER
    for order in (1, 2)
}


class Derivative:
    """Expected counts at one point, and their derivatives along one direction, on one thread."""

    params = list(PROBLEMS)
    param_names = ["problem"]

    def setup(self, name, quick=False):
        problem = PROBLEMS[name](quick)
        skip_where("the data is absent: set SKLEARN_HOCRF_DATA to its folder" if problem is None else None)
        rng = np.random.default_rng(0)
        self.problem = problem
        self.w, self.direction = rng.normal(scale=0.1, size=problem.n_weights), rng.normal(size=problem.n_weights)

    def time_plain(self, name=None):
        return self.problem.model(self.w).expectations(self.problem.plan).counts

    def time_dual(self, name=None):
        return self.problem.model(self.w).hessian_vector_product(self.problem.plan, self.direction)

    def check(self, step=1e-5):
        """Raise unless the derivatives equal differences of expected counts."""
        plan, model = self.problem.plan, self.problem.model
        ahead, behind = (model(self.w + d * self.direction).expectations(plan).counts for d in (step, -step))
        exact = self.time_dual()
        np.testing.assert_allclose(exact, (ahead - behind) / (2 * step), atol=1e-6 * np.abs(exact).max())


def measure(name, case, n_rounds):
    """Return the row of a problem in the table, and its median ratio."""
    case.check()
    seconds = take_turns([case.time_plain, case.time_dual], n_rounds, time.process_time)
    ratio = seconds[:, 1] / seconds[:, 0]
    milliseconds = (with_spread(1e3 * column, ".1f") for column in seconds.T)
    return (name, case.problem.n_weights, *milliseconds, with_spread(ratio, ".2f")), np.median(ratio)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few sequences")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each comparison (default: %(default)s)")
    options = parser.parse_args(arguments)
    measured = []
    with threadpool_limits(1):
        for name in PROBLEMS:
            case = Derivative()
            try:
                case.setup(name, options.quick)
            except Absent as error:
                print(f"{name}: skipped, {error}")
                continue
            measured.append(measure(name, case, options.rounds))
    print("milliseconds of the processor, one thread: median [least most]")
    print_table(["", "weights", "plain", "dual", "ratio"], [row for row, _ in measured])
    ratios = [ratio for _, ratio in measured]
    print(f"median ratios up to {max(ratios):.2f}, {'within' if max(ratios) <= MOST else 'beyond'} the aim of {MOST}")


if __name__ == "__main__":
    main()

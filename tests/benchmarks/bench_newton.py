"""Newton-CG beside L-BFGS: seconds and passes over the data down to a norm of the gradient.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_newton.py [--orders 1 3] [--norm 1e-6] [--rounds N]

prints, for handwriting (fold 0, all pixel and letter pairs, all observed patterns, sigma_reg = 1), what each solver
needs, and what a Hessian-vector product costs beside a gradient. A pass is a value with its gradient, or a
Hessian-vector product, which takes longer. Without the data, words of scikit-learn's digits stand in.
"""

import argparse
import time

import numpy as np
from bench_handwriting import load_words, make_objective, some_weights
from common import print_table, take_turns, with_spread
from threadpoolctl import threadpool_limits

from sklearn_hocrf.training import L2, LBFGS, NewtonCG


class ToNorm:
    """Training until the norm of the gradient is small, whatever the norm of the weights."""

    params = [("LBFGS", "NewtonCG"), (1, 3)]
    param_names = ["solver", "max_order"]

    def setup(self, solver, max_order, norm=1e-6, words=None):
        self.objective = make_objective(load_words()[0] if words is None else words, max_order)
        solver_class = {"LBFGS": LBFGS, "NewtonCG": NewtonCG}[solver]
        self.solver = solver_class(tol=norm, max_iter=5000)  # which is relative to the weights
        self.solver.tol = norm / max(1.0, 1.01 * float(np.linalg.norm(self.time_solve().w)))

    def time_solve(self, *_):
        return self.solver.solve(self.objective, L2(1.0), np.zeros(self.objective.n_weights))


class Product:
    """A Hessian-vector product and a gradient at one point."""

    params = [1, 3]
    param_names = ["max_order"]

    def setup(self, max_order, words=None):
        self.objective = make_objective(load_words()[0] if words is None else words, max_order)
        self.w = some_weights(self.objective)
        self.v = np.random.default_rng(1).normal(size=self.objective.n_weights)

    def time_gradient(self, *_):
        return self.objective.value_gradient(self.w)

    def time_product(self, *_):
        return self.objective.hessp(self.w, self.v)


def compare_solvers(words, orders, norm, n_rounds):
    rows = []
    for order in orders:
        cases = [ToNorm(), ToNorm()]
        for case, name in zip(cases, ToNorm.params[0], strict=True):
            case.setup(name, order, norm, words)
        reports = [case.time_solve() for case in cases]
        seconds = take_turns([case.time_solve for case in cases], n_rounds)
        for name, report, column in zip(ToNorm.params[0], reports, seconds.T, strict=True):
            rows.append(
                (
                    order,
                    name,
                    report.n_iter,
                    report.n_passes,
                    f"{report.history[-1]:.6f}",
                    f"{report.gradient_norm:.1e}",
                    with_spread(column, ".2f"),
                    with_spread(column / seconds[:, 0], ".2f"),
                )
            )
    print(f"\nto a norm of {norm:g}; seconds of {n_rounds} rounds: median [least most]")
    print_table(["order", "solver", "iterations", "passes", "objective", "norm", "seconds", "ratio to L-BFGS"], rows)


def compare_products(words, orders, n_rounds):
    rows = []
    for order in orders:
        case = Product()
        case.setup(order, words)
        seconds = take_turns([case.time_gradient, case.time_product], n_rounds, time.process_time)
        ratio = seconds[:, 1] / seconds[:, 0]
        rows.append((order, *(with_spread(1e3 * column, ".1f") for column in seconds.T), with_spread(ratio, ".2f")))
    print(f"\nmilliseconds of {n_rounds} rounds")
    print_table(["order", "gradient", "Hessian-vector product", "ratio"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 3], help="orders (default: %(default)s)")
    parser.add_argument("--norm", type=float, default=1e-6, help="norm of the gradient (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each comparison (default: %(default)s)")
    options = parser.parse_args()
    words, _, source = load_words()
    print(f"{source}: {len(words[0])} words, {sum(map(len, words[1]))} letters")
    with threadpool_limits(1):
        compare_products(words, options.orders, 5 * options.rounds)
        compare_solvers(words, options.orders, options.norm, options.rounds)


if __name__ == "__main__":
    main()

"""Stochastic training on chunking (conll2000), beside L-BFGS: objective against passes over the data, and seconds.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_stochastic.py [--max-iter N] [--sentences N] [--solvers ...]

prints how many passes and seconds each solver takes until the objective is within 1 % of the optimum, and how the
seconds of one step grow with the number of weights that it does not touch. The settings are those of
``bench_chunking.py``. A pass is a visit of each sentence, whatever for; those that only tell the objective after each
epoch are counted, and shown apart. Needs conll2000 in SKLEARN_HOCRF_DATA or ../shared/data.
"""

import argparse
import time

import numpy as np
from bench_chunking import SETTINGS, load_chunks
from common import data_file, print_table, take_turns, with_spread
from threadpoolctl import threadpool_limits

from sklearn_hocrf._data.arrays import freeze
from sklearn_hocrf._data.batch import SequenceBatch
from sklearn_hocrf._inference.families import CHAIN
from sklearn_hocrf._objectives import NegativeLogLikelihood, Problem
from sklearn_hocrf._structure.layout import build_layout
from sklearn_hocrf._structure.patterns import observed_patterns
from sklearn_hocrf.training import L2, LBFGS, SGD, AdaGrad

CLOSE = 0.01  # relative distance from the optimum
PASSES = (1, 2, 5, 10, 20, 30, 40, 60, 100, 200)
clock = time.process_time
CASES = {
    "lbfgs": lambda **settings: LBFGS(tol=1e-4, **settings),
    "sgd": lambda **settings: SGD(tol=0, random_state=0, **settings),
    "sgd, last weights": lambda **settings: SGD(tol=0, random_state=0, average=False, **settings),
    "adagrad": lambda **settings: AdaGrad(tol=0, random_state=0, **settings),
}


def absent():
    """Return why the benchmark cannot run, or None."""
    if data_file("conll2000", "train.txt.gz") is None:
        return "conll2000 is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data"
    return None


def chunking_objective(n_sentences=None):
    """Return the negative log-likelihood of chunking, and its penalty."""
    chunks = load_chunks(n_sentences)
    labels, codes = np.unique(np.concatenate(chunks.y_train), return_inverse=True)
    codes, batch = freeze(codes, np.int32), chunks.train
    patterns = observed_patterns(codes, batch.offsets, len(labels), SETTINGS["max_order"])
    layout = build_layout(batch, codes, patterns, fit_intercept=SETTINGS["fit_intercept"])
    objective = NegativeLogLikelihood().bind(Problem(CHAIN, layout, batch, codes))
    return objective, L2(np.full(layout.n_weights, SETTINGS["sigma_reg"] ** -2))


class Counted:
    """An objective that counts the sequences visited, for what they are visited."""

    def __init__(self, objective, total=None):
        self._objective, self.n_sequences = objective, objective.n_sequences
        self.visits = total if total is not None else {"gradients": 0, "values": 0}

    def value(self, w):
        self.visits["values"] += self.n_sequences
        return self._objective.value(w)

    def value_gradient(self, w):
        self.visits["gradients"] += self.n_sequences
        return self._objective.value_gradient(w)

    def part(self, sequences):
        return Counted(self._objective.part(sequences), self.visits)

    def minibatches(self, batch_size, rng):
        for minibatch in self._objective.minibatches(batch_size, rng):
            self.visits["gradients"] += minibatch.n_sequences
            yield minibatch


class Course:
    """The objective in the course of a training."""

    def __init__(self, objective, penalty, make, max_iter):
        counted = Counted(objective)
        self.rows = []  # value, passes for gradients, all passes, seconds
        start = clock()

        def note(progress):
            gradients, values = (counted.visits[kind] / objective.n_sequences for kind in ("gradients", "values"))
            self.rows.append((progress.value, gradients, gradients + values, clock() - start))

        self.report = make(max_iter=max_iter, callback=note).solve(counted, penalty, np.zeros(len(penalty.precision)))
        self.rows = np.array(self.rows)

    def until(self, value):
        """Return passes for gradients, all passes and seconds until the objective is that low."""
        reached = np.flatnonzero(self.rows[:, 0] <= value)
        return self.rows[reached[0], 1:] if len(reached) else np.full(3, np.nan)

    def after(self, n_passes):
        """Return the objective after so many passes."""
        reached = np.flatnonzero(self.rows[:, 2] <= n_passes)
        return self.rows[reached[-1], 0] if len(reached) else np.nan


def compare(objective, penalty, names, max_iter):
    """Train with each solver, and print when it came close to the optimum and its course."""
    courses = {"lbfgs": Course(objective, penalty, CASES["lbfgs"], 1000 if max_iter is None else max_iter)}
    for name in names:
        if name != "lbfgs":
            courses[name] = Course(objective, penalty, CASES[name], 40 if max_iter is None else max_iter)
    best = courses["lbfgs"].report
    optimum, everything = best.history[-1], courses["lbfgs"].rows[-1]
    print(f"\nL-BFGS: {optimum:.3f} after {best.n_iter} iterations, {best.n_passes} passes, {everything[3]:.1f} s")
    print(f"until the objective is within {CLOSE:.0%} of that; seconds of the processor")
    rows = []
    for name, course in courses.items():
        gradients, passes, seconds = course.until((1 + CLOSE) * optimum)
        shares = f"{passes / best.n_passes:.3f}", f"{seconds / everything[3]:.3f}"
        rows.append((name, f"{gradients:.1f}", f"{passes:.1f}", shares[0], f"{seconds:.1f}", shares[1]))
    heads = ["", "passes for gradients", "all passes", "of L-BFGS's", "seconds", "of L-BFGS's"]
    print_table(heads, rows)
    print("\nobjective, relative distance from the optimum, after so many passes of any kind")
    shown = [n for n in PASSES if n <= max(course.rows[-1, 2] for course in courses.values())]
    print_table(
        ["passes", *courses],
        [(n, *(f"{course.after(n) / optimum - 1:.3%}" for course in courses.values())) for n in shown],
    )


def wide_objective(n_untouched, n_sequences=64):
    """Return an objective of sequences of 20 tokens with 20 attributes each, and one token with many others."""
    rng = np.random.default_rng(0)
    n_tokens = 20 * n_sequences
    rows = [*rng.integers(0, 2000, (n_tokens, 20)), 2000 + np.arange(n_untouched)]
    offsets = np.append(np.arange(0, n_tokens + 1, 20), n_tokens + 1)
    indptr = np.cumsum([0, *map(len, rows)])
    batch = SequenceBatch(offsets, indptr, np.concatenate(rows), None, 2000 + n_untouched)
    codes = rng.integers(0, 10, n_tokens + 1).astype(np.int32)
    layout = build_layout(batch, codes, observed_patterns(codes, offsets, 10, 1), unsupported=True)
    return NegativeLogLikelihood().bind(Problem(CHAIN, layout, batch, codes))


class Step:
    """A step of a solver on 8 sequences."""

    params = [1000, 100_000, 1_000_000]
    param_names = ["attributes that the step does not touch"]
    solvers = {"sgd": SGD, "adagrad": AdaGrad}

    def setup(self, n_untouched, solver="sgd", objective=None):
        self.objective = wide_objective(n_untouched) if objective is None else objective
        self.solver, n_weights = self.solvers[solver](step_size=0.1), self.objective.n_weights
        self.penalty = L2(np.full(n_weights, 1.0))
        self.state = self.solver._first_state(np.zeros(n_weights), 0.1, np.random.RandomState(0))
        self.inner = []

    def time_step(self, n_untouched=None):
        """Take some steps; the seconds of each are appended to ``inner``: an epoch has costs of its own."""
        source, chosen = self.objective.problem.minibatches, np.arange(8)

        def minibatches():
            for _ in range(20):
                start = clock()
                yield Timed(source, chosen)
                self.inner.append(clock() - start)

        self.solver._epoch(minibatches(), self.penalty, self.state, self.objective.n_sequences)


class Timed:
    """A minibatch that finds what it touches as part of the step."""

    n_sequences = 8

    def __init__(self, source, sequences):
        self._source, self._sequences = source, sequences
        self.weights = source.weights(sequences)

    def value_gradient(self, w):
        return self._source.value_gradient(w, self._sequences, self.weights)


def compare_steps(n_rounds):
    """Print the time of a step against the number of weights."""
    rows = []
    for n_untouched in Step.params:
        objective = wide_objective(n_untouched)
        row = [f"{objective.n_weights:,}"]
        for solver in Step.solvers:
            step = Step()
            step.setup(n_untouched, solver, objective)
            take_turns([step.time_step], n_rounds, clock)
            row.append(with_spread(np.array(step.inner[20:]) * 1e6, ".0f"))
        rows.append((row[0], f"{len(objective.problem.minibatches.weights(np.arange(8))):,}", *row[1:]))
    print("\nmicroseconds of a step on 8 sequences of 20 tokens: median [least most]")
    print_table(["weights", "touched", *Step.solvers], rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-iter", type=int, help="end all trainings early")
    parser.add_argument("--sentences", type=int, help="train on the first so many sentences only")
    parser.add_argument("--solvers", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--rounds", type=int, default=15, help="of the steps (default: %(default)s)")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        compare_steps(options.rounds)
        if reason := absent():
            print(f"skipped: {reason}")
            return
        objective, penalty = chunking_objective(options.sentences)
        print(f"\nconll2000: {objective.n_sequences} sentences, {objective.n_weights} weights")
        compare(objective, penalty, options.solvers, options.max_iter)


if __name__ == "__main__":
    main()

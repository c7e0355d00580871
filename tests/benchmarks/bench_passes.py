"""Passes over the training data until held-out scores settle, with and without what the solvers expect of curvature.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_passes.py [--tasks T ...] [--quick]

Each model is trained until its solver converges; scores on held-out data, taken every few iterations, have settled when
they stay within 0.001 of those at the end. Rows: the solver as it is, with scales of weights from the first gradient;
without scales; and also plain, with the pairs that fit into memory in double precision, at most 100, and the curvature
of the accepted steps alone. Seconds are those of the processor. No data, no task. ``compare.py --tasks passes`` sets
limits for some of the rows.
"""

import gzip
import random
import time
from typing import NamedTuple

import numpy as np
from common import absent, data_file, fit_quietly, given_solver, parse, print_table, skipped
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._solvers import LBFGS, OWLQN, SolverReport
from sklearn_hocrf._solvers._quasi_newton import LBFGSMemory
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import segment_f1_score, sequence_accuracy_score, token_accuracy_score

ZONES, REFERENCES = ("grobid_zones", "train.txt.gz"), ("anystyle_references", "core.txt.gz")
NEAR, EVERY, VARIANTS = 0.001, 5, ("as it is", "no scales", "plain")
HEADS = ["", "passes until settled", "all", "seconds until settled", "all", "scores"]


class Task(NamedTuple):
    """Data, models to be trained on them, and a score of predictions."""

    train: tuple
    test: tuple
    models: dict
    score: object


class Given(LBFGS):
    """What has been trained."""

    keeps_equal_weights_equal = False

    def __init__(self, report):
        super().__init__()
        self.report = report

    def solve(self, *_):
        return SolverReport(*self.report)._replace(converged=True)


def recorder(base, variant, reports):
    """Return a solver that adds its reports of every few iterations, with the processor's clock, to a list."""

    class Recorder(base):
        keeps_equal_weights_equal = True
        wall = (np.inf, np.inf) if variant == "plain" else LBFGS.wall

        def memory(self, n_weights):
            memory = super().memory(n_weights)
            if variant == "plain":
                memory = LBFGSMemory(int(np.clip(self.pair_bytes // (16 * n_weights), 10, 100)), n_weights)
            if variant != "as it is":
                memory.expect_from = id  # which does nothing
            return memory

    def note(now):
        if now.n_iter % EVERY == 0:
            reports.append((now.report(), time.process_time()))

    return Recorder(max_iter=3000, callback=note)


def rows_of(*files):
    """Return the rows of all sequences of some files, split at spaces."""
    texts = "\n\n".join(gzip.decompress(data_file(*parts).read_bytes()).decode() for parts in files).split("\n\n")
    return [[line.split(" ") for line in text.split("\n") if line] for text in texts if text.strip()]


def task_of(templates, parts, score, orders, **more):
    """Return the task of training and test sequences whose last column is the label."""
    X = [[[row[:-1] for row in rows] for rows in part] for part in parts]
    y = [[[row[-1] for row in rows] for rows in part] for part in parts]
    X = templates.fit_transform(X[0]), templates.transform(X[1])
    models = {f"order {order}": HighOrderCRF(order, feature_order=templates.feature_order, **more) for order in orders}
    return Task((X[0], y[0]), (X[1], y[1]), models, score)


def zones(n):
    def score(y, found):
        return token_accuracy_score(y, found), segment_f1_score(y, found, scheme="bio", strict=False)

    documents = [[[*row[:-1], ("I-" + row[-1]).replace("I-I-", "B-")] for row in rows] for rows in rows_of(ZONES)]
    random.Random(0).shuffle(documents)
    parts = documents[:n], documents[100 : 100 + n]
    yield task_of(SequenceFeatureExtractor.from_file(data_file(ZONES[0], "segmentation.template")), parts, score, [1])


def references(n):
    both = rows_of(REFERENCES, (REFERENCES[0], "gold.txt.gz"))
    chosen = list({tuple(row[0] for row in rows): rows for rows in both}.values())
    random.Random(0).shuffle(chosen)
    templates, parts = (
        SequenceFeatureExtractor.from_file(data_file(REFERENCES[0], "patterns.txt")),
        [chosen[1::2][:n], chosen[::2][:n]],
    )
    task = task_of(templates, parts, sequence_accuracy_score, [3, 4] if n > 100 else [1], sigma_reg=2.0)
    with_l1 = {
        f"{name}, L1": HighOrderCRF(**model.get_params() | {"l1_reg": 0.3}) for name, model in task.models.items()
    }
    yield task._replace(models=task.models | with_l1)


SIZES = {zones: (100, 6), references: (1500, 30)}
FILES = {zones: [ZONES], references: [REFERENCES]}


class Settled(NamedTuple):
    """Passes and processor seconds until scores settle, those of all training, and the scores at its end."""

    passes: float
    all_passes: float
    seconds: float
    all_seconds: float
    scores: np.ndarray

    def cells(self):
        figures = [f"{self.passes:.0f}", f"{self.all_passes:.0f}", f"{self.seconds:.1f}", f"{self.all_seconds:.1f}"]
        return *figures, " ".join(f"{score:.4f}" for score in self.scores)


def measure(task, model, variant):
    """Return when the scores of a model settle: at its end if no report before that is near."""
    few = clone(model).set_params(solver="auto", max_iter=1)
    fit_quietly(few, *(part[:20] for part in task.train))  # loads kernels, which does not count
    reports, start, (X, y) = [], time.process_time(), task.test
    with given_solver(recorder(OWLQN if np.any(model.l1_reg) else LBFGS, variant, reports)):
        fit_quietly(model, *task.train)
    seconds, n_passes = time.process_time() - start, model.n_passes_
    end, settled = np.atleast_1d(task.score(y, model.predict(X))), (n_passes, seconds)
    for report, clock in reversed(reports):
        with given_solver(Given(report)):
            scores = task.score(y, model.fit(*task.train).predict(X))
        if np.abs(scores - end).max() > NEAR:
            break
        settled = report.n_passes, clock - start
    return Settled(settled[0], n_passes, settled[1], seconds, end)


def measure_by_names(make, n, kind, variant="as it is"):
    """Return the same for a model of the first task that ``make(n)`` yields: for a process of its own."""
    task = next(iter(make(n)))
    return measure(task, task.models[kind], variant)


def main(arguments=None):
    options = parse(__doc__, arguments, tasks=[make.__name__ for make in SIZES], quick=False)
    for make in SIZES:
        if make.__name__ not in options.tasks or skipped(absent(*FILES[make])):
            continue
        for task in make(SIZES[make][options.quick]):
            for kind, model in task.models.items():
                print(f"\n{make.__name__}, {kind}")
                with threadpool_limits(1):
                    print_table(HEADS, [(variant, *measure(task, model, variant).cells()) for variant in VARIANTS])


if __name__ == "__main__":
    main()

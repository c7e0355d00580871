"""Passes over the training data until held-out scores settle, with and without what the solvers expect of curvature.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_passes.py [--tasks T ...] [--quick]

Each model is trained until its solver converges. Its scores on held-out data, taken every few iterations, have settled
when they stay within 0.001 of those at the end. The rows of a model:

* scales: the solver as it is, whose inverse Hessian before any step comes from the first gradient
* no scales: the identity instead
* half the pairs: no scales, and half as many pairs, where not all of them fit into memory as doubles

Data come from SKLEARN_HOCRF_DATA or ../shared/data; a task whose data are absent is left out.
"""

import gzip
import random
import time

import common
import numpy as np
from bench_tolerance import TASKS, Given, Task, conll2000, handwriting
from common import data_file, parse, print_table, skipped
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._solvers._quasi_newton import LBFGSMemory
from sklearn_hocrf.feature_extraction import read_templates
from sklearn_hocrf.metrics import segment_f1_score, token_accuracy_score
from sklearn_hocrf.training import LBFGS, OWLQN

ZONES, REFERENCES = ("grobid_zones", "train.txt.gz"), ("anystyle_references", "core.txt.gz")
NEAR, EVERY = 0.001, 5
HEADS = ["", "passes until settled", "all", "seconds", "scores"]


class Unscaled(LBFGSMemory):
    def expect_from(self, gradient):
        """Expect nothing."""


def recorder(base, variant):
    """Return a solver that keeps its reports of every few iterations, and the list of these."""
    reports = []

    class Recorder(base):
        keeps_equal_weights_equal = True

        def memory(self, n_weights):
            memory = super().memory(n_weights)
            n_pairs, dtype = len(memory._steps), memory._steps.dtype
            if variant == "half the pairs" and dtype == np.float32:
                n_pairs = max(n_pairs // 2, self.pairs[0])
            return memory if variant == "scales" else Unscaled(n_pairs, n_weights, dtype)

    def note(progress):
        if progress.n_iter % EVERY == 0:
            reports.append(progress.report())

    return Recorder(max_iter=3000, callback=note), reports


def rows_of(*files):
    """Return the rows of all sequences of some files, split at spaces."""
    texts = []
    for parts in files:
        with gzip.open(data_file(*parts), "rt", encoding="utf-8") as file:
            texts += [text for text in file.read().split("\n\n") if text.strip()]
    return [[line.split(" ") for line in text.split("\n") if line] for text in texts]


def task_of(templates, parts, score, orders, change=str, **more):
    """Return the task of training and test sequences whose last column is the label."""
    X = [[[row[:-1] for row in rows] for rows in part] for part in parts]
    y = [[[change(row[-1]) for row in rows] for rows in part] for part in parts]
    train, test = (templates.fit_transform(X[0]), y[0]), (templates.transform(X[1]), y[1])
    make = {f"order {order}": HighOrderCRF(order, feature_order=templates.feature_order, **more) for order in orders}
    return Task(train, test, make, score)


def zones(n):
    def change(label):
        return "B" + label[1:] if label.startswith("I-") else "I-" + label

    def score(y, found):
        return token_accuracy_score(y, found), segment_f1_score(y, found, scheme="bio", strict=False)

    documents, chosen = rows_of(ZONES), list(range(500))
    random.seed(0)
    random.shuffle(chosen)
    parts = [[documents[i] for i in chosen[first : first + n]] for first in (0, 100)]
    yield task_of(read_templates(data_file(ZONES[0], "segmentation.template")), parts, score, [1], change)


def references(n):
    def right(y, found):
        return np.mean([truth == labels for truth, labels in zip(y, found, strict=True)])

    both = rows_of(REFERENCES, (REFERENCES[0], "gold.txt.gz"))
    chosen = list({tuple(row[0] for row in rows): rows for rows in reversed(both)}.values())[::-1]
    random.seed(0)
    random.shuffle(chosen)
    templates, parts = read_templates(data_file(REFERENCES[0], "patterns.txt")), [chosen[1::2][:n], chosen[::2][:n]]
    task = task_of(templates, parts, right, [3, 4] if n > 100 else [1], sigma_reg=2.0)
    with_l1 = {
        f"{name}, L1": HighOrderCRF(**model.get_params() | {"l1_reg": 0.3}) for name, model in task.models.items()
    }
    yield task._replace(models=task.models | with_l1)


SIZES = {zones: (100, 6), references: (1500, 30), conll2000: (2000, 40), handwriting: (1000, 40)}
FILES = TASKS | {zones: [ZONES], references: [REFERENCES]}


def measure(task, model, variant):
    """Return passes until scores settle, all passes, processor time of training, and scores at the end."""
    solver, reports = recorder(OWLQN if np.any(model.l1_reg) else LBFGS, variant)
    start, (X, y) = time.process_time(), task.test
    common.fit_quietly(model.set_params(solver=solver), *task.train)
    seconds, end, n_passes = (
        time.process_time() - start,
        np.atleast_1d(task.score(y, model.predict(X))),
        model.n_passes_,
    )
    settled = n_passes
    for report in reversed(reports):
        scores = task.score(y, model.set_params(solver=Given(report)).fit(*task.train).predict(X))
        if np.abs(scores - end).max() > NEAR:
            break
        settled = report.n_passes
    return f"{settled:.0f}", f"{n_passes:.0f}", f"{seconds:.1f}", " ".join(f"{score:.4f}" for score in end)


def main(arguments=None):
    names = {task.__name__: task for task in SIZES}
    options = parse(__doc__, arguments, tasks=list(names), quick=False)
    for name in options.tasks:
        if skipped(common.absent(*FILES[names[name]])):
            continue
        for task in names[name](SIZES[names[name]][options.quick]):
            for kind, model in task.models.items():
                print(f"\n{name}, {kind}")
                with threadpool_limits(1):
                    variants = ("scales", "no scales", "half the pairs")
                    print_table(HEADS, [(variant, *measure(task, model, variant)) for variant in variants])


if __name__ == "__main__":
    main()

"""How far to train: what is left to gain at each ``tol``, on all data sets.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_tolerance.py [--tasks T ...] [--sentences N]

Each model is trained once, to tol 1e-5; its weights at the iterations where each ``tol`` is met first are kept. A row
has their number, the score on held-out data (F1 of segments, or the share of right tokens), their log-likelihood for
each token, and the change of probabilities against the end: for each held-out token, the largest of any label's
probability (or, of models of segments, of any segment's that begins there), and of these the 99.9 % quantile and the
largest. The last lines count the models that the rule of docs/develop/design.md accepts. Data come from
SKLEARN_HOCRF_DATA or ../shared/data; a task whose data are absent is left out.
"""

import gzip
import json
import random
import time
from typing import NamedTuple

import bench_bibliography
import bench_chinese_words
import bench_chunking
import bench_handwriting
import bench_ner
import bench_pruning
import bench_punctuation
import common
import numpy as np
from common import parse, print_table, skipped
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.metrics import segment_f1_score, token_accuracy_score
from sklearn_hocrf.training import LBFGS, SolverReport

TOLERANCES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)
OPTIMUM = 1e-5
ADDRESSES = ("usaddress", "train.jsonl.gz")
ANYSTYLE = ("anystyle_references", "core.txt.gz")
HEADS = ["tol", "iterations", "score", "nats a token", "change .999", "largest"]


class Task(NamedTuple):
    """Data, models to be trained on them, and a score of predictions."""

    train: tuple
    test: tuple
    models: dict
    score: object


def by_order(orders, make=HighOrderCRF, **parameters):
    """Return models by name."""
    kind = "segments" if issubclass(make, HighOrderSemiCRF) else "order"
    return {f"{kind} {order}": make(order, **parameters) for order in orders}


def bio_f1(y, predicted):
    return segment_f1_score(y, predicted, scheme="bio", strict=False)


def handwriting(n):
    train, test, _ = bench_handwriting.load_words()
    test = [part[:2000] for part in test]
    models = by_order((1, 2, 3))
    models |= {f"order 1, sigma {sigma:g}": HighOrderCRF(1, sigma_reg=sigma) for sigma in (0.1, 10.0, 100.0)}
    yield Task([part[:n] for part in train], test, models, token_accuracy_score)


def conll2000(n):
    chunks = bench_chunking.load_chunks(n)
    train, test = (chunks.train, chunks.y_train), (chunks.test[:1000], chunks.y_test[:1000])
    yield Task(train, test, by_order((1, 2, 3)), bio_f1)


def conll2002(n):
    names = bench_ner.load_names(n)
    models = by_order((1, 2, 3)) | by_order((1,), HighOrderSemiCRF, scheme="bio")
    yield Task((names.train, names.y_train), (names.test[:1000], names.y_test[:1000]), models, bio_f1)


def two_kinds(bench, data, score):
    """Yield a task of chains and one of segments, with the features of their benchmark."""
    for kind, orders in (("chain", (1, 2, 3)), ("segment", (1, 2, 3))):
        features, make = (getattr(bench, f"{kind}_{what}") for what in ("features", "model"))
        features, name = features(), "order" if kind == "chain" else "segments"
        train = features.fit_transform(data.X, data.y), data.y
        models = {f"{name} {order}": make(order) for order in orders}
        yield Task(train, (features.transform(data.X_test), data.y_test), models, score)


def cora_references(n):
    return two_kinds(bench_bibliography, bench_bibliography.load(n), segment_f1_of_runs)


def segment_f1_of_runs(y, predicted):
    return segment_f1_score(y, predicted, scheme="runs")


def punctuation(n):
    dialogues = bench_punctuation.load(n)
    return two_kinds(bench_punctuation, dialogues, f1_of_marks)


def f1_of_marks(y, predicted):
    y, predicted = map(bench_punctuation.decode_punctuation, (y, predicted))
    return bench_punctuation.token_f1(y, predicted)


def ud_chinese(n):
    sentences = bench_chinese_words.load(n)
    for segment_set in "none", "indicators, log odds":
        features = bench_chinese_words.make_features(bench_chinese_words.FULL, segment_set)
        train = features.fit_transform(sentences.X, sentences.y), sentences.y
        test = features.transform(sentences.X_test), sentences.y_test
        models = {f"segments of {segment_set}": bench_chinese_words.make_model()}
        yield Task(train, test, models, lambda y, predicted: segment_f1_score(y, predicted, scheme="segments"))


def ud_turkish(n):
    extractor, (X, y), (X_test, y_test), parameters = bench_pruning.turkish(n)
    models = by_order((1, 2), pruning=4, **parameters)
    yield Task((extractor.fit_transform(X), y), (extractor.transform(X_test), y_test), models, token_accuracy_score)


def halves(X, y, n):
    """Return n sequences to train on, and 500 others."""
    chosen = random.Random(0).sample(range(len(X)), len(X))
    parts = chosen[500:][:n], chosen[:500]
    return [tuple([data[i] for i in part] for data in (X, y)) for part in parts]


def usaddress(n):
    with gzip.open(common.data_file(*ADDRESSES), "rt", encoding="utf-8") as file:
        addresses = list(map(json.loads, file))
    data = ([address[key] for address in addresses] for key in ("features", "labels"))
    yield Task(*halves(*data, n), by_order((1, 2)), token_accuracy_score)


def anystyle(n):
    columns = [*map(str, range(20)), "label"]
    X, y = load_conll(common.data_file(*ANYSTYLE), columns, return_X_y=True)
    yield Task(*halves(X, y, n), by_order((1, 2, 3)), token_accuracy_score)


TASKS = {
    handwriting: [],
    conll2000: [bench_chunking.TRAIN, bench_chunking.TEST],
    conll2002: [bench_ner.TRAIN, bench_ner.TEST],
    cora_references: [bench_bibliography.TRAIN, bench_bibliography.TEST],
    punctuation: [bench_punctuation.TRAIN, bench_punctuation.TEST],
    ud_chinese: [(bench_chinese_words.FOLDER, f"{part}.conll.gz") for part in ("train", "test")],
    ud_turkish: common.TURKISH,
    usaddress: [ADDRESSES],
    anystyle: [ANYSTYLE],
}


class Recorder(LBFGS):
    """L-BFGS that keeps its reports of the iterations where tolerances are met first."""

    keeps_equal_weights_equal = True

    def __init__(self):
        super().__init__(tol=OPTIMUM, max_iter=5000, callback=self.note)
        self.reports = {}

    def note(self, progress):
        report = progress.report()
        for tol in TOLERANCES:
            if tol not in self.reports and progress.gap <= tol**2 * progress.value:
                self.reports[tol] = report
        self.reports[OPTIMUM] = report  # so far


class Given:
    """What has been trained."""

    def __init__(self, report):
        self.report = report

    def solve(self, *_):
        return SolverReport(*self.report)._replace(converged=True)


def probabilities(model, X):
    """Return probabilities at tokens and the number of each one's token."""
    if isinstance(model, HighOrderCRF):
        table = np.concatenate(model.predict_marginals(X))
        return table.ravel(), np.repeat(np.arange(len(table)), table.shape[1])
    segments, n_before = [], 0
    for length, table in zip(X.lengths, model.predict_segments(X, threshold=0.0), strict=True):
        segments.append((table["probability"], table["start"] + n_before))
        n_before += length
    return [np.concatenate(column) for column in zip(*segments, strict=True)]


def measure(task, model):
    """Return a list of a row's figures for each tolerance, the last one that of the optimum."""
    recorder = Recorder()
    common.fit_quietly(model.set_params(solver=recorder), *task.train)
    answers = []
    for tol in (*TOLERANCES, OPTIMUM):
        report = recorder.reports[tol]
        fitted = model.set_params(solver=Given(report)).fit(*task.train)
        X, y = task.test
        likelihood = fitted.log_likelihood(X, y, unknown="impossible")
        likelihood = likelihood[np.isfinite(likelihood)].sum() / sum(map(len, y))
        answers.append((tol, report.n_iter, task.score(y, fitted.predict(X)), likelihood, probabilities(fitted, X)))
    best, tokens = answers[-1][-1]
    rows = []
    for *row, (probability, _) in answers:
        changes = np.zeros(tokens.max() + 1)
        np.maximum.at(changes, tokens, np.abs(probability - best))
        rows.append([*row, float(np.quantile(changes, 0.999)), float(changes.max())])
    return rows


def main(arguments=None):
    names = {task.__name__: task for task in TASKS}
    options = parse(__doc__, arguments, tasks=list(names), sentences=1500)
    near = {tol: [] for tol in TOLERANCES}
    for name in options.tasks:
        if skipped(common.absent(*TASKS[names[name]])):
            continue
        for task in names[name](options.sentences):
            for kind, model in task.models.items():
                begun, table = time.process_time(), []
                with threadpool_limits(1):
                    rows = measure(task, model)
                for tol, n_iter, score, likelihood, *changes in rows:
                    changes_shown = (f"{change:.1e}" for change in changes)
                    table.append((f"{tol:g}", n_iter, f"{score:.4f}", f"{likelihood:.4f}", *changes_shown))
                    if tol in near:
                        near[tol].append((abs(score - rows[-1][2]) <= 0.001, *(change <= 0.01 for change in changes)))
                print(f"\n{name}, {kind} ({time.process_time() - begun:.0f} s)")
                print_table(HEADS, table)
    print("\nmodels with a score within 0.001 of the optimum's, and with changes of probabilities of at most 0.01")
    rows = [(f"{tol:g}", len(each), *np.sum(each, axis=0)) for tol, each in near.items()]
    print_table(["tol", "models", "score", *HEADS[-2:]], rows)


if __name__ == "__main__":
    main()

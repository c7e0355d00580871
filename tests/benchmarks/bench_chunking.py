"""Chunks (conll2000) and Spanish names (conll2002), compared with python-crfsuite: same features, same penalty.

This is the benchmark of ``compare.py --tasks chunking ner``: time per iteration and until convergence, objectives,
accuracies, and the speed-up by a second thread. Needs the data in SKLEARN_HOCRF_DATA or ../shared/data, python-crfsuite
and seqeval.
"""

import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import common
import numpy as np
from common import data_file, skip_where

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._engine.training.lbfgs import LBFGSMinimizer
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.training import LBFGS

FILES = {  # to train and to test
    "chunking": [("conll2000", "train.txt.gz"), ("conll2000", "test.txt.gz")],
    "ner": [("conll2002", "esp.train.gz"), ("conll2002", "esp.testb.gz")],
}
TRAIN, TEST = FILES["chunking"]
ORDERS = {"chunking": [1, 2, 3], "ner": [1, 2]}
LONGEST = 1000  # tokens; a training "sentence" of conll2002 has 1238
MORE_THAN_NEEDED = 2000  # iterations
TEMPLATES = [
    *[(("w", o),) for o in range(-2, 3)],
    (("w", -1), ("w", 0)),
    (("w", 0), ("w", 1)),
    *[(("p", o),) for o in range(-2, 3)],
    *[(("p", o), ("p", o + 1)) for o in range(-2, 2)],
    *[(("p", o), ("p", o + 1), ("p", o + 2)) for o in range(-2, 1)],
]
SETTINGS = {"max_order": 1, "sigma_reg": 0.5**0.5, "fit_intercept": False}  # c2 = 1 / (2 sigma^2) = 1


def absent(task="chunking"):
    """Return why the benchmark cannot run, or None."""
    return common.absent(*FILES[task], modules=["pycrfsuite", "seqeval"])


def new_extractor():
    return SequenceFeatureExtractor(TEMPLATES, fields=["w", "p"], padding="drop")


def dicts_of(sequence):
    """Return the attributes of a sequence as a dict per token, written for speed."""
    heads = [("|".join(f"{f}[{o}]" for f, o in t), [(int(f == "p"), o) for f, o in t]) for t in TEMPLATES]
    n_tokens = len(sequence)
    answer = []
    for t in range(n_tokens):
        attributes = {}
        for head, pairs in heads:
            for _, offset in pairs:
                if not 0 <= t + offset < n_tokens:
                    break
            else:
                attributes[head] = "|".join([sequence[t + offset][column] for column, offset in pairs])
        if t == 0:
            attributes["__BOS__"] = True
        if t == n_tokens - 1:
            attributes["__EOS__"] = True
        answer.append(attributes)
    return answer


class Chunks(NamedTuple):
    """Training and test sentences with the features of the chunking template."""

    train: object  # SequenceBatch
    test: object
    y_train: list
    y_test: list


@lru_cache(maxsize=1)  # cases in one process share them
def load_chunks(n_sentences=None, task="chunking"):
    """Return the sentences, or the first ``n_sentences`` of training; those with more than LONGEST tokens go."""
    (X, y), (X_test, y_test) = (load_conll(data_file(*file), ["w", "p", "tag"]) for file in FILES[task])
    X, y = ([sequence for sequence in sequences if len(sequence) <= LONGEST] for sequences in (X, y))
    extractor = new_extractor()
    batch = extractor.fit_transform(X[:n_sentences])
    return Chunks(batch, extractor.transform(X_test), y[:n_sentences], y_test)


class Course(NamedTuple):
    """The course of a training, and what its model came to.   I iterations."""

    processor: np.ndarray  # (I,)   seconds from the start of the solver to the end of each iteration
    wall: np.ndarray  # (I,)   the same on the wall
    objective: np.ndarray  # (I,)
    fit_seconds: float  # of the processor, conversion of the data included
    n_weights: int
    accuracy: float
    f1: float

    @property
    def per_iteration(self):
        return np.diff(self.processor, prepend=0.0)

    def seconds_to(self, objective, clock="processor"):
        """Return the seconds after which the objective was as low as the given one."""
        reached = np.flatnonzero(self.objective <= objective)
        return getattr(self, clock)[reached[0]] if len(reached) else np.inf


class Moments:
    """Readings of both clocks."""

    def __init__(self):
        self.readings = []

    def note(self):
        self.readings.append((time.process_time(), time.perf_counter()))

    def since_first(self):
        """Return the seconds from the first reading to each later one, of the processor and on the wall."""
        readings = np.array(self.readings)
        return (readings[1:] - readings[0]).T


class TimedLBFGS(LBFGS):
    """A solver that notes when it began, when each iteration ended, and what the objective was then."""

    def __init__(self):
        super().__init__(callback=self.note)
        self.moments, self.values = Moments(), []

    def minimizer(self, *settings):
        return TimedMinimizer(*settings, self.moments)

    def note(self, progress):
        self.moments.note()
        self.values.append(progress.value)


@dataclass
class TimedMinimizer(LBFGSMinimizer):
    """A minimiser that notes when it begins."""

    moments: Moments | None = None

    def solve(self, objective, penalty, w0):
        self.moments.note()
        return super().solve(objective, penalty, w0)


def load_kernels(chunks):
    """Fit and predict a few sentences, so that the kernels are compiled or loaded."""
    crf = HighOrderCRF(**SETTINGS, max_iter=1)
    common.fit_quietly(crf, chunks.train[:20], chunks.y_train[:20]).predict(chunks.train[:20])


def scores(chunks, y_pred):
    """Return token accuracy and F1 of chunks."""
    from seqeval.metrics import f1_score

    accuracy = np.mean(np.concatenate(y_pred) == np.concatenate(chunks.y_test))
    return float(accuracy), float(f1_score(chunks.y_test, y_pred))


def train_ours(chunks, max_iter, n_jobs=1):
    """Return the course of a training of HighOrderCRF, beyond where python-crfsuite ends."""
    solver = TimedLBFGS()
    crf = HighOrderCRF(**SETTINGS, solver=solver, tol=1e-4, max_iter=max_iter, n_jobs=n_jobs)
    start = time.process_time()
    common.fit_quietly(crf, chunks.train, chunks.y_train)
    seconds, found = time.process_time() - start, scores(chunks, crf.predict(chunks.test))
    processor, wall = solver.moments.since_first()
    return Course(processor, wall, np.array(solver.values), seconds, common.n_weights(crf), *found)


def attribute_names(batch):
    """Return the names of the features of each token, as python-crfsuite takes them."""
    names = np.asarray(batch.feature_names, dtype=object)[batch.indices].tolist()
    tokens = [names[i:j] for i, j in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)]
    return [tokens[i:j] for i, j in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]


def new_trainer(max_iter, algorithm="lbfgs", **params):
    """Return python-crfsuite's trainer with the same penalty; it notes when each iteration ended."""
    import pycrfsuite

    class TimedTrainer(pycrfsuite.Trainer):
        def message(self, message):
            super().message(message)
            # features have been generated by then
            begins = message.startswith(("L-BFGS optimization", "Stochastic Gradient Descent"))
            if begins:
                self.moments = Moments()
            if begins or message.startswith("Seconds required for this iteration"):
                self.moments.note()

    params |= {"c1": 0} if algorithm == "lbfgs" else {}
    return TimedTrainer(algorithm=algorithm, params={"c2": 1, "max_iterations": max_iter, **params}, verbose=False)


def train_crfsuite(chunks, max_iter, *algorithm, **params):
    """Return the course of a training of python-crfsuite."""
    import pycrfsuite

    tokens_of = attribute_names(chunks.train)
    start = time.process_time()
    trainer = new_trainer(max_iter, *algorithm, **params)
    for tokens, labels in zip(tokens_of, chunks.y_train, strict=True):
        trainer.append(tokens, labels)
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "model"))
        trainer.train(model)
        seconds = time.process_time() - start
        tagger = pycrfsuite.Tagger()
        with tagger.open(model):
            y_pred = [tagger.tag(tokens) for tokens in attribute_names(chunks.test)]
    processor, wall = trainer.moments.since_first()
    objective = np.array([iteration["loss"] for iteration in trainer.logparser.iterations])
    n_weights = trainer.logparser.featgen_num_features
    return Course(processor, wall, objective, seconds, n_weights, *scores(chunks, y_pred))


class Fit:
    """Training by HighOrderCRF on one thread and on two, and by python-crfsuite."""

    params = ["HighOrderCRF", "HighOrderCRF, n_jobs=2", "python-crfsuite"]

    def setup(self, program, task="chunking", n_sentences=None, max_iter=MORE_THAN_NEEDED):
        skip_where(absent(task))
        self.chunks, self.max_iter = load_chunks(n_sentences, task), max_iter
        load_kernels(self.chunks)

    def time_fit(self, program):
        """Train, and return the course of it."""
        if program == "python-crfsuite":
            return train_crfsuite(self.chunks, self.max_iter)
        return train_ours(self.chunks, self.max_iter, n_jobs=1 + program.endswith("2"))


class Gradient:
    """Value and gradient of the likelihood at one point."""

    def setup(self, n_jobs, max_order, task="chunking", n_sentences=None):
        skip_where(absent(task))
        chunks = load_chunks(n_sentences, task)
        crf = HighOrderCRF(**SETTINGS | {"max_order": max_order}, n_jobs=n_jobs)
        self.objective = common.training_objective(crf, chunks.train, chunks.y_train)
        self.w = common.some_weights(self.objective)

    def time_gradient(self, n_jobs=None, max_order=None):
        return self.objective.value_gradient(self.w)

    def track_arcs(self, n_jobs=None, max_order=None):
        return self.objective.problem.layout.automaton.n_arcs

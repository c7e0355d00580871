"""Training by sequences on chunking (conll2000), beside python-crfsuite's: seconds of an epoch, and F1.

What ``compare.py --tasks online whole`` measures: for SGD ("l2sgd" there), the processor's seconds of an epoch, in
which both programs take turns, and F1 of chunks after so many epochs, also of CRFsuite's "ap", "pa" and "arow", which
minimise other things. The settings are those of ``bench_chunking.py``. Needs what that needs.
"""

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_chunking import SETTINGS, absent, attribute_names, load_chunks, scores
from common import fit_quietly, skip_where

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.training import LBFGS, SGD

clock = time.process_time
PEERS = {"ap": {"epsilon": 0.0}, "l2sgd": {"c2": 1.0, "delta": 0.0}, "pa": {"epsilon": 0.0}, "arow": {"epsilon": 0.0}}
EPOCHS = (5, 10, 30)


class Course(NamedTuple):
    """The course of a training."""

    seconds: np.ndarray  # of the processor, each epoch but the first, which may have to calibrate or to compile
    f1: float


def train_ours(chunks, n_epochs):
    """Return the course of a training of HighOrderCRF."""
    moments = []
    solver = SGD(tol=0, max_iter=n_epochs, random_state=0, callback=lambda _: moments.append(clock()))
    crf = fit_quietly(HighOrderCRF(**SETTINGS, solver=solver), chunks.train, chunks.y_train)
    return Course(np.diff(moments), scores(chunks, crf.predict(chunks.test))[1])


def train_crfsuite(chunks, name, n_epochs, tokens):
    """Return the course of a training of python-crfsuite; ``tokens`` are the attributes of training and test data."""
    import pycrfsuite

    moments = []

    class TimedTrainer(pycrfsuite.Trainer):
        def message(self, message):
            super().message(message)
            if message.startswith("Seconds required for this iteration"):
                moments.append(clock())

    trainer = TimedTrainer(algorithm=name, params={"max_iterations": n_epochs, **PEERS[name]}, verbose=False)
    for items, labels in zip(tokens[0], chunks.y_train, strict=True):
        trainer.append(items, labels)
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "model"))
        trainer.train(model)
        tagger = pycrfsuite.Tagger()
        with tagger.open(model):
            y_pred = [tagger.tag(items) for items in tokens[1]]
    return Course(np.diff(moments[-n_epochs:]), scores(chunks, y_pred)[1])  # those before are of the calibration


class TimedCourse(NamedTuple):
    """What a solver has come to after each iteration.   I iterations."""

    seconds: np.ndarray  # (I,)   of the processor, since the solver began
    value: np.ndarray  # (I,)   of the function that is minimised
    gap: np.ndarray  # (I,)   bound on how far that is above the minimum, inf where there is none

    def seconds_to(self, value):
        """Return the seconds after which the value was as low as the given one."""
        reached = np.flatnonzero(self.value <= value)
        return self.seconds[reached[0]] if len(reached) else np.inf


class Timed:
    """A solver that notes its course."""

    def __init__(self, max_iter=100, tol=1e-4, random_state=None):
        settings = {} if random_state is None else {"random_state": random_state}
        super().__init__(max_iter=max_iter, tol=tol, callback=self.note, **settings)
        self.starts, self.notes = [], []  # copies of the solver, which is what estimators run, write to the same lists

    def solve(self, objective, penalty, w0):
        self.starts.append(clock())
        return super().solve(objective, penalty, w0)

    def note(self, progress):
        self.notes.append((clock() - self.starts[-1], progress.value, progress.gap))

    def course(self):
        return TimedCourse(*np.array(self.notes).T)


class TimedLBFGS(Timed, LBFGS):
    keeps_equal_weights_equal = True  # as LBFGS does


class TimedSGD(Timed, SGD):
    pass


class Training:
    """Whole trainings, by L-BFGS and by SGD."""

    params = ["lbfgs", "sgd"]
    param_names = ["training"]
    timeout = 1200
    number = repeat = 1
    warmup_time = 0

    def setup(self, name, n_sentences=None, max_iter=None):
        skip_where(absent())
        self.chunks, self.max_iter = load_chunks(n_sentences), max_iter
        few = self.chunks._replace(train=self.chunks.train[:50], y_train=self.chunks.y_train[:50])
        self.train(name, few, 1)  # compiles

    def train(self, name, chunks, max_iter=None):
        """Return the course of a training."""
        make, most, settings = {
            "lbfgs": (TimedLBFGS, 2000, {}),
            "sgd": (TimedSGD, 30, {"tol": 0, "random_state": 0}),
        }[name]
        solver = make(max_iter or most, **settings)
        fit_quietly(HighOrderCRF(**SETTINGS, solver=solver), chunks.train, chunks.y_train)
        return solver.course()

    def time_train(self, name):
        return self.train(name, self.chunks, self.max_iter)


class Epochs:
    """Epochs of a program's training, and F1 after some of them."""

    params = ["sgd", *PEERS]
    param_names = ["training"]
    timeout = 600
    number = repeat = 1
    warmup_time = 0

    def setup(self, name, n_sentences=None):
        skip_where(absent())
        self.chunks = load_chunks(n_sentences)
        if name in PEERS:
            self.tokens = [attribute_names(batch) for batch in (self.chunks.train, self.chunks.test)]
        else:
            few = self.chunks._replace(train=self.chunks.train[:50], y_train=self.chunks.y_train[:50])
            train_ours(few, 1)  # compiles

    def train(self, name, n_epochs):
        """Return the course of one training."""
        if name in PEERS:
            return train_crfsuite(self.chunks, name, n_epochs, self.tokens)
        return train_ours(self.chunks, n_epochs)

    def time_epoch(self, name, n_epochs=4):
        """Return the median seconds of an epoch after the first."""
        return float(np.median(self.train(name, n_epochs).seconds))

    def track_f1(self, name, epochs=EPOCHS):
        """Return F1 after some numbers of epochs."""
        return [self.train(name, n_epochs).f1 for n_epochs in epochs]

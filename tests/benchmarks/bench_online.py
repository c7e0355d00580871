"""Training by sequences on chunking (conll2000), beside python-crfsuite's: seconds of an epoch, and F1.

What ``compare.py --tasks online whole`` measures: for SGD ("l2sgd" there), the processor's seconds of an epoch, in
which both programs take turns, and F1 of chunks after so many epochs. The settings are those of ``bench_chunking.py``.
Needs what that needs.
"""

import numpy as np
from bench_chunking import TimedLBFGS, TimedSGD, absent, load_chunks, load_kernels, train_crfsuite, train_ours
from common import skip_where

EPOCHS = (5, 10, 30)


class Training:
    """Whole trainings, by L-BFGS and by SGD."""

    params = ["lbfgs", "sgd"]

    def setup(self, name, n_sentences=None, max_iter=None):
        skip_where(absent())
        self.chunks, self.max_iter = load_chunks(n_sentences), max_iter
        load_kernels(self.chunks)
        few = self.chunks._replace(train=self.chunks.train[:50], y_train=self.chunks.y_train[:50])
        train_ours(few, self.solver("sgd", 1))  # compiles

    def solver(self, name, max_iter=None):
        if name == "lbfgs":
            return TimedLBFGS(max_iter=max_iter or 2000)
        return TimedSGD(max_iter=max_iter or 30, tol=0, random_state=0)

    def time_train(self, name):
        """Train, and return the course of it."""
        return train_ours(self.chunks, self.solver(name, self.max_iter))


class Epochs(Training):
    """Epochs of a program's training, and F1 after some of them."""

    params = ["sgd", "l2sgd"]

    def train(self, name, n_epochs):
        """Return the course of one training."""
        if name == "l2sgd":
            return train_crfsuite(self.chunks, n_epochs, name, delta=0.0)
        return train_ours(self.chunks, self.solver(name, n_epochs))

    def time_epoch(self, name, n_epochs=4):
        """Return the median seconds of an epoch after the first, before which there may be a calibration."""
        return float(np.median(np.diff(self.train(name, n_epochs).processor[-n_epochs:])))

    def track_f1(self, name, epochs=EPOCHS):
        """Return F1 after some numbers of epochs."""
        return [self.train(name, n_epochs).f1 for n_epochs in epochs]

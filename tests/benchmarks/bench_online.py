"""Training by sequences on chunking (conll2000), beside python-crfsuite's: seconds of an epoch, and F1.

What ``compare.py --tasks online`` measures: for SGD ("l2sgd" there), the processor's seconds of an epoch, in
which both programs take turns, and F1 of chunks after so many epochs. The settings are those of ``bench_chunking.py``.
Needs what that needs.
"""

import numpy as np
from bench_chunking import TimedSGD, absent, load_chunks, load_kernels, train_crfsuite, train_ours
from common import skip_where

EPOCHS = (5, 10, 30)


def solver(max_iter):
    return TimedSGD(max_iter=max_iter, tol=0, random_state=0)


class Epochs:
    """Epochs of a program's training, and F1 after some of them."""

    params = ["sgd", "l2sgd"]

    def setup(self, name, n_sentences=None):
        skip_where(absent())
        self.chunks = load_chunks(n_sentences)
        load_kernels(self.chunks)
        train_ours(self.chunks._replace(train=self.chunks.train[:50], y_train=self.chunks.y_train[:50]), solver(1))

    def train(self, name, n_epochs):
        """Return the course of one training."""
        if name == "l2sgd":
            return train_crfsuite(self.chunks, n_epochs, name, delta=0.0)
        return train_ours(self.chunks, solver(n_epochs))

    def time_epoch(self, name, n_epochs=4):
        """Return the median seconds of an epoch after the first, before which there may be a calibration."""
        return float(np.median(np.diff(self.train(name, n_epochs).processor[-n_epochs:])))

    def track_f1(self, name, epochs=EPOCHS):
        """Return F1 after some numbers of epochs."""
        return [self.train(name, n_epochs).f1 for n_epochs in epochs]

"""The yardstick U: processor seconds of one L-BFGS iteration of python-crfsuite on conll2000, order 1, one thread.

The features are those of the chunking template; the penalty is c2 = 1. Each figure in U is measured in the same run as
U, and in turns with it, so that a slow phase of the machine affects both.
"""

import tempfile
from pathlib import Path

import bench_chunking
import numpy as np
from common import skip_where


class Yardstick:
    """Some iterations of python-crfsuite from zero weights; the training data stays in its memory."""

    def setup(self, n_sentences=None, n_iterations=10):
        skip_where(bench_chunking.absent())
        chunks = bench_chunking.load_chunks(n_sentences)
        self.trainer = bench_chunking.new_trainer(n_iterations)
        for tokens, labels in zip(bench_chunking.attribute_names(chunks.train), chunks.y_train, strict=True):
            self.trainer.append(tokens, labels)

    def track_iteration(self):
        """Return the median seconds of an iteration: some have a second evaluation in their line search."""
        with tempfile.TemporaryDirectory() as folder:
            self.trainer.train(str(Path(folder, "model")))
        return float(np.median(np.diff(self.trainer.moments.since_first()[0])))

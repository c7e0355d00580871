"""Peak memory of order-1 training on conll2000, compared with python-crfsuite.

This is the benchmark of ``compare.py --tasks memory``. It measures by how much the peak exceeds the resident memory
after the inputs have been read, and after the imports. Inputs are features in the form that each program takes: flat
arrays for this package, and lists of the names of each token's features for python-crfsuite. Each training runs in a
separate process, which reads inputs that another process has pickled. The program resets the peak before training
(``/proc/self/clear_refs``, so Linux only). Reading compiled kernels from the cache counts as part of training.

    python tests/benchmarks/bench_memory.py [--tokens N]

This command trains on generated sentences with a million attributes, until L-BFGS has stored all of its pairs.
"""

import ctypes
import gc
import pickle
import tempfile
from itertools import product
from pathlib import Path
from typing import NamedTuple

import bench_chunking
import common
import numpy as np
from common import Process, elsewhere, skip_where

from sklearn_hocrf import HighOrderCRF

PROGRAMS, BASES = ["HighOrderCRF", "python-crfsuite"], ["inputs", "imports"]
MAX_ITER = 12  # L-BFGS has all of its vectors by then
PEAKS = "peak memory can be reset"


def absent():
    """Return why the benchmark cannot run, or None."""
    return elsewhere(PEAKS) or bench_chunking.absent()


def mebibytes(name):
    """Return a figure of this process: ``VmRSS``, what is resident, or ``VmHWM``, the most that was."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 2**10
    raise KeyError(name)


def resident():
    """Return the mebibytes that this process holds, and let its peak start anew from there."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free must not serve whatever comes next unseen
    Path("/proc/self/clear_refs").write_text("5")
    return mebibytes("VmRSS")


class Inputs:
    """Write what each program takes to a folder."""

    def setup(self, folder, n_sentences=None):
        chunks = bench_chunking.load_chunks(n_sentences)
        bench_chunking.load_kernels(chunks)  # into the cache
        names = bench_chunking.attribute_names(chunks.train)
        for program, X in zip(PROGRAMS, (chunks.train, names), strict=True):
            Path(folder, program).write_bytes(pickle.dumps((X, chunks.y_train)))


class Training:
    """A training of few iterations."""

    def setup(self, folder, program, max_iter=MAX_ITER):
        skip_where(absent())
        train = train_ours if program == "HighOrderCRF" else train_crfsuite
        if program == "python-crfsuite":
            bench_chunking.new_trainer(1)  # imports it
        imports = resident()
        X, y = pickle.loads(Path(folder, program).read_bytes())
        resident_inputs = resident()
        train(X, y, max_iter)
        self._peaks = {"inputs": mebibytes("VmHWM") - resident_inputs, "imports": mebibytes("VmHWM") - imports}

    def peaks(self, *_):
        """Return the mebibytes that training adds to its inputs, and those of the inputs and of what it adds."""
        return self._peaks


def train_ours(X, y, max_iter):
    crf = HighOrderCRF(**bench_chunking.SETTINGS, max_iter=max_iter)
    common.fit_quietly(crf, X, y)


def train_crfsuite(X, y, max_iter):
    trainer = bench_chunking.new_trainer(max_iter)
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder, "model")))


def measure(n_rounds, n_sentences=None, max_iter=MAX_ITER):
    """Return the mebibytes of each of PROGRAMS above each of BASES; shape (2, 2, n_rounds)."""
    peaks = np.empty((len(BASES), len(PROGRAMS), n_rounds))
    with tempfile.TemporaryDirectory() as folder:
        with Process() as process:
            process.keep(Inputs, folder, n_sentences=n_sentences)
        for n, (i, program) in product(range(n_rounds), enumerate(PROGRAMS)):
            with Process() as process:
                found = process.keep(Training, folder, program, max_iter=max_iter).call("peaks")
            peaks[:, i, n] = [found[base] for base in BASES]
    return peaks


class Generated(NamedTuple):
    """What training on generated sentences takes."""

    n_tokens: int
    n_weights: int
    inputs: float  # mebibytes, above the imports
    training: float  # mebibytes, above the inputs

    def __str__(self):
        size = f"{self.n_tokens:,} tokens, {self.n_weights:,} weights"
        return f"{size}: inputs {self.inputs:,.0f} MiB, training {self.training:,.0f}"


def train_generated(n_tokens):
    """Return how many mebibytes training on generated sentences adds to them, in this process."""
    imports = resident()
    X, y = common.generate(n_tokens)
    inputs = resident()
    crf = common.fit_quietly(HighOrderCRF(1, max_iter=MAX_ITER, tol=0.0), X, y)
    return Generated(n_tokens, crf._state.layout.n_weights, inputs - imports, mebibytes("VmHWM") - inputs)


if __name__ == "__main__":
    print(train_generated(common.parse(__doc__, tokens=10_000_000).tokens))

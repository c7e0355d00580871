"""Dense columns beside the same numbers as sparse rows: embeddings of the words of conll2000, drawn at random.

What ``compare.py --tasks dense`` measures: the processor seconds of a gradient and the peak memory of a training, of
features and all, for either form of X: the embeddings alone, and with the attributes of the chunking template beside
them. Needs conll2000 in SKLEARN_HOCRF_DATA or ../shared/data; memory is measured on Linux only.
"""

import pickle
import tempfile
from functools import lru_cache
from itertools import product
from pathlib import Path

import common
import numpy as np
from bench_chunking import SETTINGS, TRAIN
from bench_features import TEMPLATES
from bench_memory import MAX_ITER, mebibytes, resident
from common import Process, data_file, skip_where

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._data.batch import as_sparse
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

CONTENTS, FORMS = ["vectors", "vectors and words"], ["dense", "sparse"]
WIDTH = 300


def absent():
    """Return why the benchmark cannot run, or None."""
    return common.absent(TRAIN)


@lru_cache(maxsize=1)
def load_tokens(n_sentences):
    """Return sentences of words, tags and embeddings, one for each distinct word, and their labels."""
    X, y = load_conll(data_file(*TRAIN), ["w", "p", "tag"])
    rng, vectors = np.random.default_rng(0), {}
    for word in (token["w"] for tokens in X[:n_sentences] for token in tokens):
        if word not in vectors:
            vectors[word] = rng.standard_normal(WIDTH, dtype=np.float32)
    return [[token | {"v": vectors[token["w"]]} for token in tokens] for tokens in X[:n_sentences]], y[:n_sentences]


def load(content, form, n_sentences=None):
    """Return a batch and its labels."""
    X, y = load_tokens(n_sentences)
    templates = [("v", 0), *(TEMPLATES if content == "vectors and words" else [])]
    batch = SequenceFeatureExtractor(templates, padding="drop").fit_transform(X)
    return (batch if form == "dense" else as_sparse(batch)), y


class Gradient:
    """Value and gradient of the likelihood of a first-order model."""

    def setup(self, content, form, n_sentences=None):
        skip_where(absent())
        self.objective = common.training_objective(HighOrderCRF(**SETTINGS), *load(content, form, n_sentences))
        self.weights = common.some_weights(self.objective)
        self.time_gradient(content, form)

    def time_gradient(self, content, form):
        return self.objective.value_gradient(self.weights)


class Inputs:
    """Write what trainings read to a folder."""

    def setup(self, folder, n_sentences=None):
        for content, form in product(CONTENTS, FORMS):
            X, y = load(content, form, n_sentences)
            Path(folder, f"{content}, {form}").write_bytes(pickle.dumps((X, y), protocol=5))
            common.fit_quietly(HighOrderCRF(**SETTINGS, max_iter=1), X[:20], y[:20])  # kernels into the cache


class Training:
    """A training of few iterations."""

    def setup(self, folder, content, form):
        imports = resident()
        X, y = pickle.loads(Path(folder, f"{content}, {form}").read_bytes())
        inputs = resident()
        common.fit_quietly(HighOrderCRF(**SETTINGS, max_iter=MAX_ITER), X, y)
        self._peaks = mebibytes("VmHWM") - imports, mebibytes("VmHWM") - inputs

    def peaks(self, *_):
        """Return the mebibytes of the inputs and of what training adds, and of the latter alone."""
        return self._peaks


def measure_gradients(n_rounds, n_sentences=None):
    """Return the seconds of each of FORMS for each of CONTENTS; shape (2, 2, n_rounds)."""
    seconds = np.empty((len(CONTENTS), len(FORMS), n_rounds))
    for i, content in enumerate(CONTENTS):
        with Process() as one, Process() as other:
            kept = [
                process.keep(Gradient, content, form, n_sentences=n_sentences)
                for process, form in zip((one, other), FORMS, strict=True)
            ]
            for n, (j, gradient) in product(range(n_rounds), enumerate(kept)):
                seconds[i, j, n] = gradient.seconds("time_gradient")
    return seconds


def measure_peaks(n_sentences=None):
    """Return the mebibytes of each of FORMS for each of CONTENTS; shape (2, 2, 2), above imports and above inputs."""
    peaks = np.empty((len(CONTENTS), len(FORMS), 2))
    with tempfile.TemporaryDirectory() as folder:
        with Process() as process:
            process.keep(Inputs, folder, n_sentences=n_sentences)
        for (i, content), (j, form) in product(enumerate(CONTENTS), enumerate(FORMS)):
            with Process() as process:
                peaks[i, j] = process.keep(Training, folder, content, form).call("peaks")
    return peaks

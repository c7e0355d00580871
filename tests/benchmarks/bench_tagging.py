"""Tagged tokens per second (conll2000, order 1): from extracted features, and from raw tokens, including extraction.

This is the benchmark of ``compare.py --tasks tagging``. From features, it compares ``predict`` of a batch with
python-crfsuite's tagger on ItemSequence objects. From raw tokens, it compares an extractor and ``predict`` with a dict
per token and ``predict`` of sklearn-crfsuite's CRF, whose model is that of the tagger. All models are trained for the
same small number of iterations, because the time of tagging does not depend on the quality of the weights. Needs
conll2000 in SKLEARN_HOCRF_DATA or ../shared/data, sklearn-crfsuite and seqeval.
"""

import bench_chunking
import common
import numpy as np
from common import Process, skip_where

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import load_conll

PROGRAMS = ["HighOrderCRF", "python-crfsuite"]
INPUTS = {"extracted features": "time_features", "raw tokens": "time_raw_tokens"}
MAX_ITER = 10


def absent():
    """Return why the benchmark cannot run, or None."""
    return bench_chunking.absent() or common.absent(modules=["sklearn_crfsuite"])


def load_sentences(which, n_sentences=None):
    """Return tokens (word, part of speech) and labels."""
    X, y = load_conll(common.data_file(*which), ["w", "p", "tag"])
    return [[(token["w"], token["p"]) for token in sentence] for sentence in X][:n_sentences], y[:n_sentences]


class Tagging:
    """Tagging of the test sentences."""

    def setup(self, program, n_sentences=None, max_iter=MAX_ITER):
        skip_where(absent())
        self.raw, self.y = load_sentences(bench_chunking.TEST, n_sentences)
        train = load_sentences(bench_chunking.TRAIN, n_sentences)
        (self._set_up_ours if program == "HighOrderCRF" else self._set_up_crfsuite)(*train, max_iter)
        self.n_tokens = sum(map(len, self.raw))
        self.accuracy = float(np.mean(np.concatenate(self.tag_tokens()) == np.concatenate(self.y)))  # loads kernels

    def _set_up_ours(self, X, y, max_iter):
        extractor = bench_chunking.new_extractor()
        batch = extractor.fit_transform(X)
        crf = common.fit_quietly(HighOrderCRF(**bench_chunking.SETTINGS, max_iter=max_iter), batch, y)
        ready = extractor.transform(self.raw)
        self.tag_features = lambda: crf.predict(ready)
        self.tag_tokens = lambda: crf.predict(extractor.transform(self.raw))

    def _set_up_crfsuite(self, X, y, max_iter):
        from pycrfsuite import ItemSequence
        from sklearn_crfsuite import CRF

        crf = CRF(algorithm="lbfgs", c1=0, c2=1, max_iterations=max_iter)
        crf.fit([bench_chunking.dicts_of(sentence) for sentence in X], y)
        ready = [ItemSequence(bench_chunking.dicts_of(sentence)) for sentence in self.raw]
        self.tag_features = lambda: [crf.tagger_.tag(items) for items in ready]
        self.tag_tokens = lambda: crf.predict([bench_chunking.dicts_of(sentence) for sentence in self.raw])

    def time_features(self, program=None):
        return self.tag_features()

    def time_raw_tokens(self, program=None):
        return self.tag_tokens()

    def track_accuracy(self, program=None):
        return self.accuracy

    def track_tokens(self, program=None):
        return self.n_tokens


class Threads:
    """Predictions of all sentences, training and test, on some threads."""

    params = [[1, 3], [1, 2]]

    def setup(self, max_order, n_jobs, n_sentences=None, max_iter=MAX_ITER):
        skip_where(bench_chunking.absent())
        train, y = load_sentences(bench_chunking.TRAIN, n_sentences)
        self.raw = train + load_sentences(bench_chunking.TEST, n_sentences)[0]
        self.extractor = bench_chunking.new_extractor()
        batch = self.extractor.fit_transform(train)
        settings = bench_chunking.SETTINGS | {"max_order": max_order, "max_iter": max_iter, "n_jobs": n_jobs}
        self.crf = common.fit_quietly(HighOrderCRF(**settings), batch, y)
        self.ready = self.extractor.transform(self.raw)

    def time_features(self, max_order=None, n_jobs=None):
        return self.crf.predict(self.ready)

    def time_raw_tokens(self, max_order=None, n_jobs=None):
        return self.crf.predict(self.extractor.transform(self.raw))


def measure(n_rounds, **settings):
    """Return tokens per second by input, shape (2, n_rounds) each, and the token accuracy of each program."""
    with Process() as ours, Process() as theirs:
        cases = [
            process.keep(Tagging, program, **settings)
            for process, program in zip((ours, theirs), PROGRAMS, strict=True)
        ]
        n_tokens = cases[0].call("track_tokens")
        speeds = {}
        for name, method in INPUTS.items():
            seconds = [[case.seconds(method, at_least=0.5) for case in cases] for _ in range(n_rounds)]
            speeds[name] = n_tokens / np.array(seconds).T
        return speeds, [case.call("track_accuracy") for case in cases]

"""Spanish names (conll2002) as segments: gradients beside the chain's, and vectorised functions of segments.

What ``compare.py --tasks spans`` measures: the processor's seconds of a gradient of order 1, of segments and of chains
with the same features of tokens, and of what two functions of segments come to for all candidates, one by one and
vectorised. Needs what ``bench_ner`` needs.
"""

import bench_chunking
import bench_ner
import common
import numpy as np
from common import data_file, skip_where

from sklearn_hocrf import HighOrderSemiCRF
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor


class Gradient(bench_ner.Gradient):
    """Value and gradient of the likelihood of names as segments, at one point; the tokens' features are the chain's."""

    params = [[1], [1]]

    def setup(self, n_jobs=1, max_order=1, n_sentences=None):
        skip_where(self.absent())
        names = self.load(n_sentences)
        settings = bench_chunking.SETTINGS | {"max_order": max_order, "encoding": "bio", "n_jobs": n_jobs}
        self.objective = common.training_objective(HighOrderSemiCRF(**settings), names.train, names.y_train)
        self.w = common.some_weights(self.objective)


def describe(tokens, start, stop):
    """Return features of one segment."""
    words = tokens[start:stop]
    return {"characters": sum(map(len, words)), "same initial": len({word[0] for word in words}) == 1}


def describe_all(tokens, starts, stops):
    """Return the same features of all segments of a sequence."""
    lengths, initials = np.array([len(word) for word in tokens]), np.array([word[0] for word in tokens])
    before = np.concatenate([[0], np.cumsum(lengths)])
    changes = np.concatenate([[0], np.cumsum(np.append(initials[1:] != initials[:-1], False))])
    return {
        "characters": before[stops] - before[starts],
        "same initial": changes[stops - 1] == changes[starts],
    }


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.n_calls = function, 0

    def __call__(self, *arguments):
        self.n_calls += 1
        return self.function(*arguments)


class Functions:
    """What functions of segments come to, for all candidate segments."""

    params = [["functions", "vector_functions"]]
    param_names = ["way"]
    timeout = 600

    def setup(self, way, n_sentences=None):
        skip_where(bench_ner.absent())
        X, y = load_conll(data_file(*bench_ner.TRAIN), ["w", "p", "tag"], return_X_y=True)
        short = [pair for pair in zip(X, y, strict=True) if len(pair[0]) <= bench_ner.LONGEST][:n_sentences]
        words, y = [[token["w"] for token in sentence] for sentence, _ in short], [labels for _, labels in short]
        self.function = Counted(describe if way == "functions" else describe_all)
        extractor = SegmentFeatureExtractor(encoding="bio", **{way: [self.function]})
        batch = extractor.fit_transform(SequenceFeatureExtractor([(("w", 0),)], fields=["w"]).fit_transform(words), y)
        self.problem = common.training_objective(HighOrderSemiCRF(1, encoding="bio"), batch, y).problem

    def time_candidates(self, way=None):
        return self.problem.layout.candidate_features(self.problem.batch)

    def track_calls(self, way=None):
        """Return how often the function is called for the candidates."""
        before = self.function.n_calls
        self.time_candidates()
        return self.function.n_calls - before

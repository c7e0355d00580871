"""Turkish morphology (981 tags) with weights shared by tags that have a part in common, beside plain tags.

    python tests/benchmarks/bench_parts.py [--sentences N] [--order K] [--sigma S ...] [--iterations N ...]

One thread, processor seconds. Parts of a tag are its part of speech and each ``Key=Value`` of its morphology; features
are words, their neighbours, and beginnings and ends of up to ten letters. Gradients of both models take turns at the
weights of the last iterations. Data come from SKLEARN_HOCRF_DATA or ../shared/data. ``--sentences`` takes the first
ones of the training set alone, for a quick run.
"""

import argparse
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import common
import numpy as np
from bench_pattern_search import TURKISH, words
from common import data_file, keep_problem
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._objectives import NegativeLogLikelihood
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.training import LBFGS

AFFIXES = [name for k in range(1, 11) for name in (f"prefix{k}", f"suffix{k}")]
HEADS = ["tags", "sigma", "iterations", "weights", "training s", "s a gradient", "accuracy"]


def parts(tag):
    """Return the part of speech of a tag, and what its morphology says."""
    pos, _, morphology = tag.partition("|")
    return [pos, *morphology.split("|")]


def features():
    """Return the extractor of the features of words."""
    return SequenceFeatureExtractor(
        [("w", -1), ("w", 0), ("w", 1), *((name, 0) for name in AFFIXES), ("is_title", 0), ("is_digit", 0)],
        token_features=[*AFFIXES, "is_title", "is_digit"],
    )


class Model:
    """A model that is trained for a while, and then goes on."""

    def __init__(self, name, train, order, sigma, label_parts):
        self.name, self.train, self.sigma, self.seconds, self.n_iter = name, train, sigma, 0.0, 0
        self.crf = HighOrderCRF(order, sigma_reg=sigma, label_parts=label_parts, warm_start=True)
        self.problem = keep_problem(self.crf)

    def go_on(self, n_iter):
        """Train until so many iterations; the memory of L-BFGS starts anew."""
        begun = time.process_time()
        common.fit_quietly(self.crf.set_params(solver=LBFGS(max_iter=n_iter - self.n_iter)), *self.train)
        self.seconds, self.n_iter = self.seconds + time.process_time() - begun, n_iter
        self.objective = NegativeLogLikelihood().bind(self.problem[0])

    def gradient(self):
        """Take one pass."""
        self.objective.value_gradient(self.crf._weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=None)
    parser.add_argument("--order", type=int, default=1)
    parser.add_argument("--sigma", nargs="+", type=float, default=[3.0])
    parser.add_argument("--iterations", nargs="+", type=int, default=[30, 60, 100])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    reason = common.absent(*TURKISH)
    if reason:
        raise SystemExit(reason)
    with threadpool_limits(1):
        (X, y), (X_test, y_test) = (words(data_file(*files)) for files in TURKISH)
        extractor = features()
        train = extractor.fit_transform(X[: options.sentences]), y[: options.sentences]
        test = extractor.transform(X_test), y_test
        print("  ".join(f"{head:>12}" for head in HEADS))
        for sigma in options.sigma:
            kinds = (("plain", None), ("with parts", parts))
            models = [Model(name, train, options.order, sigma, label_parts) for name, label_parts in kinds]
            for n_iter in options.iterations:
                for model in models:
                    model.go_on(n_iter)
                seconds = common.take_turns([model.gradient for model in models], options.rounds, time.process_time)
                for model, of_gradient in zip(models, np.median(seconds, axis=0), strict=True):
                    score = model.crf.score(*test)
                    cells = model.name, sigma, n_iter, model.crf.n_parameters_, f"{model.seconds:.1f}"
                    row = *cells, f"{of_gradient:.3f}", f"{score:.4f}"
                    print("  ".join(f"{cell!s:>12}" for cell in row), flush=True)
            ratios = seconds[:, 1] / seconds[:, 0]
            spread = f"[{ratios.min():.2f} {ratios.max():.2f}]"
            print(f"a gradient with parts takes {np.median(ratios):.2f} {spread} times that of plain tags")


if __name__ == "__main__":
    main()

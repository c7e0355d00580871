"""Max-margin training beside maximum likelihood: accuracy, time, passes over the data, duality gap.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_margin.py [--orders 1 3] [--epochs N] [--skip-references] [--quick]

trains HighOrderCRFs on fold 0 of the handwritten words (all pixel-letter pairs, sigma_reg = 1), or on words of
scikit-learn's digits where that data is absent, and the semi-CRF SC^2 on the bibliographic references where those are
there. The perceptron makes ``--epochs`` epochs at most. A pass decodes all sequences, or runs forward and backward over
them; the gap is relative to the objective, and bounds how far it is above the optimum.
"""

import argparse
import math
import time
import warnings
from typing import NamedTuple

from bench_bibliography import load_references, segment_features, segment_model, train
from bench_handwriting import load_words
from common import print_table
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF

OBJECTIVES = ("likelihood", "hinge", "perceptron")


class Result(NamedTuple):
    """A fitted model and what it cost."""

    model: object
    score: float  # percent
    seconds: float

    def cells(self):
        objective, gap = self.model.objective_history_[-1], self.model.optimality_gap_
        return (
            f"{self.score:.2f}",
            f"{self.seconds:.1f}",
            self.model.n_iter_,
            self.model.n_passes_,
            f"{objective:.2f}",
            f"{gap / objective:.2%}" if math.isfinite(gap) else "",
        )


HEADS = ["seconds", "iterations", "passes", "objective", "gap"]


def parameters_of(objective, epochs):
    """Return the estimator's parameters."""
    limits = {"max_iter": epochs} if objective == "perceptron" else {}
    return {"objective": objective, "random_state": 0, **limits}


def fit_words(words, test_words, max_order, objective, epochs):
    """Return the result of a model of words; its score is the accuracy of test letters."""
    crf = HighOrderCRF(max_order, unsupported=True, **parameters_of(objective, epochs))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crf.fit(*words)
    seconds = time.perf_counter() - start
    return Result(crf, 100 * crf.score(*test_words), seconds)


def fit_references(references, objective, epochs):
    """Return the result of SC^2; its score is the F1 of exact test segments."""
    fitted = train(references, segment_features(), segment_model(2, **parameters_of(objective, epochs)))
    return Result(fitted.model, fitted.f1, fitted.seconds)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 3], help="of the CRFs (default: 1 3)")
    parser.add_argument("--epochs", type=int, default=20, help="of the perceptron (default: %(default)s)")
    parser.add_argument("--skip-references", action="store_true", help="handwriting only")
    parser.add_argument("--quick", action="store_true", help="few words and references")
    options = parser.parse_args(arguments)
    words, test_words, source = load_words()
    references = None if options.skip_references else load_references(20 if options.quick else None)
    if options.quick:
        words, test_words = ([part[:40] for part in parts] for parts in (words, test_words))
    with threadpool_limits(1):
        fit_words([part[:5] for part in words], test_words, 1, "hinge", 1)  # compiles
        rows = [
            (max_order, objective, *fit_words(words, test_words, max_order, objective, options.epochs).cells())
            for max_order in options.orders
            for objective in OBJECTIVES
        ]
        print(f"\n{source}: {len(words[0])} words")
        print_table(["order", "trained by", "accuracy", *HEADS], rows)
        if references is not None:
            rows = [(name, *fit_references(references, name, options.epochs).cells()) for name in OBJECTIVES]
            print(f"\nbibliography, SC^2: {len(references.X)} references")
            print_table(["trained by", "F1", *HEADS], rows)


if __name__ == "__main__":
    main()

"""Handwriting: training to the published optima.

    python tests/benchmarks/bench_handwriting.py [--max-order K]

The data are fold 0 of the handwritten words (626 words, of which 55 are distinct; each of these occurs in every fold)
if SKLEARN_HOCRF_DATA or ../shared/data contains them. Otherwise, the program uses words made of scikit-learn's digits,
for which no optimum is known.
"""

import time

import numpy as np
from common import Fitted, data_file, parse, print_models, some_weights, training_objective
from public_data import load_ocr_letters
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_digit_words

# max_order -> optimum and letter accuracy; a separate implementation's, for fold 0
KNOWN = {1: (1868.280, 0.7930), 2: (907.496, 0.9070), 3: (640.172, 0.9480)}


def load_words():
    """Return training words, test words (X and y each) and where they are from."""
    path = data_file("ocr", "letter.data.gz")
    if path is None:
        train, test = (make_digit_words(random_state=seed) for seed in (0, 1))
        return train, test, "words of digits (the handwriting data is absent: set SKLEARN_HOCRF_DATA)"
    words = load_ocr_letters(path)
    parts = []
    for chosen in np.flatnonzero(words.fold == 0), np.flatnonzero(words.fold > 0):
        parts.append(([words.data[i] for i in chosen], [words.target[i] for i in chosen]))
    return (*parts, "handwriting, fold 0")


class Gradient:
    """Value and gradient at one point, with all (pixel, letter) pairs and all observed patterns."""

    def setup(self, max_order, n_jobs=1):
        crf = HighOrderCRF(max_order, all_pairs=True, n_jobs=n_jobs)
        self.objective = training_objective(crf, *load_words()[0])
        self.w = some_weights(self.objective)

    def time_sum_network(self, max_order=None):
        return self.objective.value_gradient(self.w)


class Optimum:
    """Training to the optimum."""

    def setup(self, max_order):
        self.train, *_ = load_words()
        self.crf = HighOrderCRF(max_order, all_pairs=True, tol=1e-4)

    def time_fit(self, max_order=None):
        return self.crf.fit(*self.train)


def train(test_words, max_order, published):
    fitted, optima, accuracies = {}, {}, {}
    for order in range(1, max_order + 1):
        name, case = f"order {order}", Optimum()
        case.setup(order)
        start = time.perf_counter()
        crf = case.time_fit()
        seconds = time.perf_counter() - start
        fitted[name] = Fitted(crf, [100 * crf.score(*test_words)], seconds)
        if order in published:
            optima[name], accuracy = published[order]
            accuracies[name] = [100 * accuracy]
    print("\ntraining to the optimum; differences from the known values; the gap bounds the distance from the optimum")
    print_models(fitted, ["accuracy"], optima, accuracies)


def main(arguments=None):
    options = parse(__doc__, arguments, max_order=5)
    train_words, test_words, source = load_words()
    print(f"{source}: {len(train_words[0])} words, {sum(map(len, train_words[1]))} letters to train on")
    with threadpool_limits(1):
        train(test_words, options.max_order, KNOWN if source.startswith("handwriting") else {})


if __name__ == "__main__":
    main()

"""Handwriting: training to the published optima.

    python tests/benchmarks/bench_handwriting.py [--max-order K]

The data is fold 0 of the handwritten words (626 words of 55 distinct ones, each of them in every
fold) where SKLEARN_HOCRF_DATA or ../shared/data has it; otherwise words of scikit-learn's digits, for which no optimum
is known.
"""

import time

import numpy as np
from common import Fitted, data_file, parse, print_models, some_weights, training_objective
from public_data import load_ocr_letters
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_digit_words

# (max_order, all_pairs, fit_intercept) -> optimum and letter accuracy; a separate implementation's, for fold 0
KNOWN = {
    (1, True, True): (1868.280, 0.7930),
    (2, True, True): (907.496, 0.9070),
    (3, True, True): (640.172, 0.9480),
    (1, True, False): (2059.090, 0.7713),
    (1, False, True): (1912.961, 0.7907),
    (1, False, False): (2109.254, 0.7692),
}


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


def make_objective(words, max_order, n_jobs=1):
    """Return the likelihood of labelled words with all (pixel, letter) pairs and all observed patterns."""
    return training_objective(HighOrderCRF(max_order, all_pairs=True, n_jobs=n_jobs), *words)


class Gradient:
    """Value and gradient at one point."""

    def setup(self, max_order, words=None, n_jobs=1):
        self.objective = make_objective(load_words()[0] if words is None else words, max_order, n_jobs)
        self.w = some_weights(self.objective)

    def time_sum_network(self, max_order=None):
        return self.objective.value_gradient(self.w)


class Optimum:
    """Training to the optimum."""

    def setup(self, setting, words=None):
        self.train, self.test = words or load_words()[:2]
        max_order, all_pairs, fit_intercept = setting
        self.crf = HighOrderCRF(max_order, all_pairs=all_pairs, fit_intercept=fit_intercept, tol=1e-4)

    def time_fit(self, setting=None):
        return self.crf.fit(*self.train)


def train(train_words, test_words, max_order, published):
    settings = [(order, True, True) for order in range(1, max_order + 1)]
    settings += [(1, True, False), (1, False, True), (1, False, False)]
    fitted, optima, accuracies = {}, {}, {}
    for setting in settings:
        case = Optimum()
        case.setup(setting, (train_words, test_words))
        start = time.perf_counter()
        crf = case.time_fit()
        seconds = time.perf_counter() - start
        name = f"order {setting[0]}" + "".join(
            f", no {what}" for what, flag in zip(("all_pairs", "intercept"), setting[1:], strict=True) if not flag
        )
        fitted[name] = Fitted(crf, None, [100 * crf.score(*test_words)], seconds)
        if setting in published:
            optima[name], accuracy = published[setting]
            accuracies[name] = [100 * accuracy]
    print("\ntraining to the optimum; differences from the known values; the gap bounds the distance from the optimum")
    print_models(fitted, ["accuracy"], optima, accuracies)


def main(arguments=None):
    options = parse(__doc__, arguments, max_order=5)
    train_words, test_words, source = load_words()
    print(f"{source}: {len(train_words[0])} words, {sum(map(len, train_words[1]))} letters to train on")
    with threadpool_limits(1):
        train(train_words, test_words, options.max_order, KNOWN if source.startswith("handwriting") else {})


if __name__ == "__main__":
    main()

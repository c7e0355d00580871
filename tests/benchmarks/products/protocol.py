"""The protocol of the programs for products: folds, the choice of models in a training part, figures, and the table.

A program lists models, and the protocol chooses one of them inside each training part alone, by the mean probability of
the true labellings of held-out sequences. This is the probability that a labelling drawn from the model is entirely
correct, a finer criterion than the share of correct predictions. If a label does not occur in training, the probability
is 0.

A model is a list of members, (features, estimator). The prediction of several members is the labelling with the highest
mean of their log-probabilities (a logarithmic opinion pool), among the N_BEST best labellings of each member.
"""

import gzip
import json
import os
import pickle
import random
import sys
import tempfile
import time
from collections import Counter
from itertools import product as product_of
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import KFold

sys.path.append(str(Path(__file__).resolve().parents[1]))
from common import absent, data_file, fit_quietly, parse, print_table, skipped, words_and_labels  # noqa: F401

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.metrics import sequence_accuracy_score, token_accuracy_score

N_BEST, N_RESAMPLED = 8, 9999
PENALTIES, SIGMAS = list(product_of((0.0, 0.1), (0.01, 0.1, 0.5))), (1.0, 2.0, 4.0)  # c1 and c2 of theirs; of ours
ROUGH = ("tol", 0.1), ("max_iterations", 100)  # where a choice stops: ours, and theirs


class Theirs(BaseEstimator):
    """python-crfsuite, by the methods of our estimators that are used here."""

    def __init__(self, c1=0.1, c2=0.01, max_iterations=None, possible_transitions=False):
        self.c1, self.c2, self.max_iterations = c1, c2, max_iterations
        self.possible_transitions = possible_transitions

    def fit(self, X, y):
        import pycrfsuite

        params = {"c1": self.c1, "c2": self.c2, "feature.possible_transitions": self.possible_transitions}
        params |= {"max_iterations": self.max_iterations} if self.max_iterations else {}
        trainer, self.tagger = pycrfsuite.Trainer(verbose=False, params=params), pycrfsuite.Tagger()
        for features, labels in zip(X, y, strict=True):
            trainer.append(features, labels)
        with tempfile.TemporaryDirectory() as folder:
            trainer.train(path := os.path.join(folder, "model"))
            self.tagger.open(path)
            self.n_bytes = os.path.getsize(path)
        return self

    def predict_nbest(self, X, n=1):
        """Return the best labelling of each sequence: it finds no others."""
        return [[SimpleNamespace(labels=self.tagger.tag(features))] for features in X]

    def log_likelihood(self, X, y):
        return [
            (self.tagger.set(features), np.log(self.tagger.probability(labels)))[1]
            for features, labels in zip(X, y, strict=True)
        ]


def chains(features, orders, **settings):
    """Return chains to choose from by their settings: all orders with all SIGMAS."""
    return {
        f"order {k}, sigma {s:g}": [(features, HighOrderCRF(k, sigma_reg=s, tol=0.05, **settings))]
        for k, s in product_of(orders, SIGMAS)
    }


def table_rows(product, theirs, ours, orders):
    """Return the rows of the table of a product, each the models to choose from by their settings.

    ``product`` is python-crfsuite with the product's settings, of which c1 and c2 are tuned; ``theirs`` and ``ours``
    name features for either side.
    """
    return {
        "python-crfsuite, as the product trains it": {"": [(theirs, product)]},
        "python-crfsuite, tuned": {
            f"c1 {c1:g}, c2 {c2:g}": [(theirs, clone(product).set_params(c1=c1, c2=c2))] for c1, c2 in PENALTIES
        },
        "default": {"": [(ours, HighOrderCRF())]},
        "order 1, tuned": chains(ours, [1]),
        "best order, tuned": chains(ours, orders),
    }


def shuffled_folds(n, n_folds, seed=0):
    """Return (training, test) indices of folds: the test part k is ``indices[k::n_folds]`` of the shuffled indices."""
    indices = list(range(n))
    random.Random(seed).shuffle(indices)
    return [(np.setdiff1d(indices, indices[k::n_folds]), np.array(indices[k::n_folds])) for k in range(n_folds)]


def part(values, indices):
    return [values[i] for i in indices] if isinstance(values, list) else values[indices]


def read_text(*parts):
    """Return the text of an optional data file that is compressed."""
    with gzip.open(data_file(*parts), "rt", encoding="utf-8", newline="\n") as file:
        return file.read().strip("\n")


def read_rows(*parts, every=1):
    """Return what a file of JSON has in one line of so many."""
    return [json.loads(line) for line in read_text(*parts).split("\n")[::every]]


def fit_all(members, X_by_features, y, indices):
    """Return (features, fitted model) for each member, a pair (features, estimator) of a model."""
    y = part(y, indices)
    return [
        (features, fit_quietly(clone(model), part(X_by_features[features], indices), y)) for features, model in members
    ]


def n_best(fitted, X_by_features, indices, n=N_BEST):
    """Return the labellings that are among the n best of any member of a model, a list for each sequence."""
    found = [{} for _ in indices]
    for features, model in fitted:
        answers = model.predict_nbest(part(X_by_features[features], indices), n)
        for labellings, others in zip(found, answers, strict=True):
            labellings.update(dict.fromkeys(tuple(other.labels) for other in others))
    return [list(labellings) for labellings in found]


def log_probabilities(fitted, X_by_features, indices, labellings):
    """Return the log-probability of a labelling of each sequence, the mean of all members."""
    y = [list(labels) for labels in labellings]
    return np.mean([model.log_likelihood(part(X_by_features[of], indices), y) for of, model in fitted], axis=0)


def sums(owners, scores, n):
    """Return the logarithm of the sum of exp(scores) of each of n owners."""
    total = np.full(n, -np.inf)
    np.logaddexp.at(total, owners, scores)
    return total


def flatten(found):
    """Return the number of the sequence of each labelling, and all labellings."""
    owners = np.repeat(np.arange(len(found)), [len(labellings) for labellings in found])
    return owners, [labels for labellings in found for labels in labellings]


def rank(fitted, X_by_features, indices):
    """Return the best labelling of each sequence.

    A single model is asked for its best labelling. With several, the labelling is the one with the highest mean
    log-probability among the best ones of each.
    """
    found = n_best(fitted, X_by_features, indices, N_BEST if len(fitted) > 1 else 1)
    owners, flat = flatten(found)
    scores = log_probabilities(fitted, X_by_features, indices[owners], flat)
    answers, best = [None] * len(found), np.full(len(found), -np.inf)
    for owner, labels, score in zip(owners, flat, scores, strict=True):
        if answers[owner] is None or score > best[owner]:
            answers[owner], best[owner] = list(labels), score
    return answers


def choose(models, X_by_features, y, indices, n_inner):
    """Return the name of the best of some models, each a list of members by its name, in folds of a training part.

    The first of ``n_inner`` folds is held out. If one of the models has several members, probabilities are shares in
    the sum over the same labellings for all models: the truth and the N_BEST best ones of all members, as a sum over
    all labellings is not known then.
    """
    train, test = next(KFold(n_inner, shuffle=True, random_state=0).split(indices))
    train, test = indices[train], indices[test]
    labels = {label for labels_of in part(y, train) for label in labels_of}
    test = np.array([i for i in test if labels.issuperset(y[i])])  # the others have probability 0 in all models
    tried = {
        (of, str(model.get_params())): (of, clone(model).set_params(**{k: v for k, v in ROUGH if hasattr(model, k)}))
        for of, model in sum(models.values(), [])
    }
    fitted = dict(zip(tried, fit_all(tried.values(), X_by_features, y, train), strict=True))
    truth = [tuple(labels) for labels in part(y, test)]
    has_pools = any(len(members) > 1 for members in models.values())
    found = n_best(fitted.values(), X_by_features, test) if has_pools else [[] for _ in test]
    # the truth is first
    owners, flat = flatten([[true, *(set(others) - {true})] for true, others in zip(truth, found, strict=True)])
    first = np.unique(owners, return_index=True)[1]
    known = {key: log_probabilities([member], X_by_features, test[owners], flat) for key, member in fitted.items()}
    scores = {}
    for name, members in models.items():
        of = np.mean([known[features, str(model.get_params())] for features, model in members], axis=0)
        scores[name] = np.exp(of[first] - (sums(owners, of, len(test)) if has_pools else 0)).sum()
    return max(scores, key=scores.get)


class Results:
    """What a model predicts for each sequence, when it is in a test part."""

    def __init__(self, y):
        self.y, self.labels = y, [None] * len(y)
        self.seconds, self.chosen = [], []

    def add(self, test, labels, seconds):
        for i, labels_of in zip(test, labels, strict=True):
            self.labels[i] = list(labels_of)
        self.seconds.append(seconds)

    def fit(self, members, X, train, test):
        """Fit a model to a training part, and keep what it predicts for the test part."""
        start = time.process_time()
        fitted = fit_all(members, X, self.y, train)
        seconds = time.process_time() - start
        self.add(test, rank(fitted, X, test), seconds)

    @property
    def tested(self):
        return np.flatnonzero([labels is not None for labels in self.labels])

    @property
    def is_right(self):
        return np.array([self.labels[i] == list(self.y[i]) for i in self.tested])


def gain(one, other):
    """Return how many more points of sequences are right, and the 95 % interval, a bootstrap of sequences.

    Arguments are what is right of each sequence, 0 or 1, or a mean of several folds.
    """
    values, counts = np.unique(100.0 * (np.asarray(one, float) - other), return_counts=True)
    shares = counts / counts.sum()
    drawn = np.random.default_rng(0).multinomial(counts.sum(), shares, N_RESAMPLED) @ values / counts.sum()
    return shares @ values, *np.quantile(drawn, [0.025, 0.975])


def cross_validate(models, X, y, folds, every=1):
    """Return the results of the best of some models, each a list of members by its name, inside each training part.

    With ``every``, choices are made on one sequence of so many of a training part.
    """
    results = Results(y)
    for train, test in folds:
        best = next(iter(models)) if len(models) == 1 else choose(models, X, y, train[::every], 2)
        results.fit(models[best], X, train, test)
        results.chosen.append(best)
        right = 100 * results.is_right[np.isin(results.tested, test)].mean()
        print(f"  {best}: {right:.2f} % entirely right; {results.seconds[-1]:.1f} s", flush=True)
    return results


def print_results(results, baseline):
    """Print the figures of results by name, with the test against one of them, or against none of the name.

    They are the shares of sequences that are entirely right, and of tokens; processor seconds of a fit from ready
    features; the gain with its interval; what was chosen, and how often.
    """
    rows = []
    for name, of in results.items():
        y, labels = part(of.y, of.tested), part(of.labels, of.tested)
        is_other = baseline in results and name != baseline
        points = gain(of.is_right, results[baseline].is_right) if is_other else ()
        rows.append(
            [
                name,
                f"{100 * sequence_accuracy_score(y, labels):.2f}",
                f"{100 * token_accuracy_score(y, labels):.2f}",
                f"{np.mean(of.seconds):.1f}",
                "{:+.2f} ({:+.2f} to {:+.2f})".format(*points) if is_other else "",
                "; ".join(f"{settings} ({n})" for settings, n in Counter(of.chosen).items() if settings),
            ]
        )
    heads = ["entirely right %", "tokens %", "s a fit", f"gain over {baseline}", "chosen"]
    print_table(["", *heads], rows)


def print_means(shuffles, baseline):
    """Print the means of several shuffles, each results by name, and gains over one name, by sequence.

    Intervals are bootstraps of sequences, each with all its shuffles: the shuffles of one are not independent.
    """
    for name in shuffles[0] if shuffles else []:
        of, other = (np.array([results[key].is_right for results in shuffles]) for key in (name, baseline))
        means = 100 * of.mean(axis=1)
        spread = f"standard deviation {means.std(ddof=len(means) > 1):.2f} of {means.round(2).tolist()}"
        points = "{:+.2f} ({:+.2f} to {:+.2f})".format(*gain(of.mean(axis=0), other.mean(axis=0)))
        print(f"{name}: {means.mean():.2f}, {spread}; gain over {baseline}: {points}")


def kept(folder, name, function):
    """Return what a function returns, from a file where it has been kept; without a folder, it is not kept."""
    if not folder:
        return function()
    path = Path(folder, name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(function()))
    return pickle.loads(path.read_bytes())

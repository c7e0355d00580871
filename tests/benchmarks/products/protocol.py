"""What the programs of products share: folds, the choice of a model inside a training part, figures, and the table.

A model is chosen inside each training part alone, among those that its program lists, by the mean probability of the
true labellings of held-out sequences: how often a labelling drawn from the model would be entirely right. This decides
more finely than the share of predictions that are right. Where a label is not in training, the probability is 0.

A model is a list of members, (features, estimator). With several, the answer is the labelling with the highest mean of
their log-probabilities (a logarithmic opinion pool), among the N_BEST best ones of each member.
"""

import gzip
import os
import pickle
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from itertools import product as product_of
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy.special import logit
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

sys.path.append(str(Path(__file__).resolve().parents[1]))
from common import absent, data_file, fit_quietly, parse, print_table, skipped  # noqa: F401

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.metrics import sequence_accuracy_score, token_accuracy_score

PRECISION, N_BEST, N_RESAMPLED = 0.99, 8, 9999
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

    def predict_nbest(self, X, n=1, accept=None):
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


def read_lines(*parts):
    """Return the lines of an optional data file that is compressed."""
    with gzip.open(data_file(*parts), "rt", encoding="utf-8", newline="\n") as file:
        return file.read().strip("\n").split("\n")


def fit_all(members, X_by_features, y, indices):
    """Return (features, fitted model) for each member, a pair (features, estimator) of a model."""
    y = part(y, indices)
    return [
        (features, fit_quietly(clone(model), part(X_by_features[features], indices), y)) for features, model in members
    ]


def n_best(fitted, X_by_features, indices, n=N_BEST, **settings):
    """Return the labellings that are among the n best of any member of a model, a list for each sequence."""
    found = [{} for _ in indices]
    for features, model in fitted:
        for labellings, others in zip(
            found, model.predict_nbest(part(X_by_features[features], indices), n, **settings), strict=True
        ):
            labellings.update(dict.fromkeys(tuple(other.labels) for other in others))
    return [list(labellings) for labellings in found]


def log_probabilities(fitted, X_by_features, indices, labellings):
    """Return the log-probability of a labelling of each sequence, the mean of all members."""
    if not len(indices):
        return np.empty(0)
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


def rank(fitted, X_by_features, indices, **settings):
    """Return the best labelling of each sequence, its log-probability, and the logarithm of the sum of probabilities.

    A single model is asked for its best labelling; the sum is 1. With several, the labelling is the one with the
    highest mean log-probability among the best ones of each, and the sum is over these. None where there is none.
    """
    found = n_best(fitted, X_by_features, indices, N_BEST if len(fitted) > 1 else 1, **settings)
    owners, flat = flatten(found)
    scores = log_probabilities(fitted, X_by_features, indices[owners], flat)
    answers, best = [None] * len(found), np.full(len(found), -np.inf)
    for owner, labels, score in zip(owners, flat, scores, strict=True):
        if answers[owner] is None or score > best[owner]:
            answers[owner], best[owner] = list(labels), score
    return answers, best, sums(owners, scores, len(found)) if len(fitted) > 1 else np.zeros(len(found))


def choose(models, X_by_features, y, indices, n_inner, utility=np.exp):
    """Return the name of the best of some models, each a list of members by its name, in folds of a training part.

    The first of ``n_inner`` folds is held out. ``utility`` is what counts, of the log-probability of a sequence. If one
    of the models has several members, probabilities are shares in the sum over the same labellings for all models: the
    truth and the N_BEST best ones of all members, as a sum over all labellings is not known then.
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
        scores[name] = utility(of[first] - (sums(owners, of, len(test)) if has_pools else 0)).sum()
    return max(scores, key=scores.get)


class Results:
    """What a model predicts for each sequence, when it is in a test part."""

    def __init__(self, y):
        self.y, self.labels, self.by_rule = y, [None] * len(y), [None] * len(y)
        self.probability, self.fold = np.zeros(len(y)), np.full(len(y), -1)
        self.seconds, self.chosen = [], []

    def add(self, test, labels, probability, seconds, by_rule=None):
        for i, labels_of, ruled in zip(test, labels, by_rule or labels, strict=True):
            self.labels[i], self.by_rule[i] = list(labels_of), list(ruled)
        self.probability[test], self.fold[test] = probability, len(self.seconds)
        self.seconds.append(seconds)

    def fit(self, members, X, train, test, accept=None):
        """Fit a model to a training part, keep what it predicts for the test part, and return the fitted members."""
        start = time.process_time()
        fitted = fit_all(members, X, self.y, train)
        seconds = time.process_time() - start
        labels, score, total = rank(fitted, X, test)
        by_rule = labels.copy()
        broken = np.array([n for n, labels_of in enumerate(labels) if accept and not accept(labels_of)], dtype=int)
        if broken.size:
            with warnings.catch_warnings(action="ignore", category=UserWarning):  # some have no accepted labelling
                others = rank(fitted, X, test[broken], accept=accept)[0]
            for n, other in zip(broken, others, strict=True):
                by_rule[n] = other or labels[n]
        self.add(test, labels, np.exp(score - total), seconds, by_rule)
        return [model for _, model in fitted]

    @property
    def tested(self):
        return np.flatnonzero(self.fold >= 0)

    @property
    def is_right(self):
        return np.array([self.labels[i] == list(self.y[i]) for i in self.tested])

    def accepted(self):
        """Return the share of sequences above a threshold of probability, and how many of these are right.

        The threshold of a test part is the lowest one with a precision of 99 % in all other test parts.
        """
        fold, probability, right = self.fold[self.tested], self.probability[self.tested], self.is_right
        taken = np.zeros(len(fold), dtype=bool)
        for k in np.unique(fold):
            order = np.argsort(-probability[fold != k], kind="stable")
            precision = np.cumsum(right[fold != k][order]) / np.arange(1, len(order) + 1)
            enough = np.flatnonzero(precision >= PRECISION)
            if enough.size:
                taken[fold == k] = probability[fold == k] >= probability[fold != k][order[enough[-1]]]
        return taken.mean(), right[taken].mean() if taken.any() else np.nan

    def calibrated(self):
        """Return the probabilities of what was tested, after calibration on all other test parts.

        By logistic regression of whether predictions are right on the log-odds of their probabilities (Platt).
        """
        fold, right = self.fold[self.tested], self.is_right
        log_odds = logit(np.clip(self.probability[self.tested], 1e-9, 1 - 1e-9))[:, None]
        probability = np.empty(len(fold))
        for k in np.unique(fold):
            one, others = fold == k, fold != k
            is_same = len(set(right[others])) < 2
            model = DummyClassifier(strategy="prior") if is_same else LogisticRegression(C=1e6)
            model.fit(log_odds[others], right[others])
            probability[one] = model.predict_proba(log_odds[one]) @ model.classes_
        return probability


def gain(one, other):
    """Return how many more points of sequences are right, and the 95 % interval, a bootstrap of sequences.

    Arguments are what is right of each sequence, 0 or 1, or a mean of several folds.
    """
    values, counts = np.unique(100.0 * (np.asarray(one, float) - other), return_counts=True)
    shares = counts / counts.sum()
    drawn = np.random.default_rng(0).multinomial(counts.sum(), shares, N_RESAMPLED) @ values / counts.sum()
    return shares @ values, *np.quantile(drawn, [0.025, 0.975])


def cross_validate(models, X, y, folds, accept=None, every=1):
    """Return the results of the best of some models, each a list of members by its name, inside each training part.

    With ``every``, choices are made on one sequence of so many of a training part.
    """
    results = Results(y)
    for train, test in folds:
        best = next(iter(models)) if len(models) == 1 else choose(models, X, y, train[::every], 2)
        results.fit(models[best], X, train, test, accept)
        results.chosen.append(best)
        right = 100 * results.is_right[np.isin(results.tested, test)].mean()
        print(f"  {best}: {right:.2f} % entirely right; {results.seconds[-1]:.1f} s", flush=True)
    return results


def print_results(results, baseline):
    """Print the figures of results by name, with the test against one of them, or against none of the name.

    They are the shares of sequences that are entirely right, and of tokens; processor seconds of a fit from ready
    features; the gain with its interval; the share that can be accepted at 99 % precision, and how many of these are
    right; what was chosen, and how often.
    """
    rows = []
    for name, of in results.items():
        y, labels = part(of.y, of.tested), part(of.labels, of.tested)
        share, precision = of.accepted()
        is_other = baseline in results and name != baseline
        points = gain(of.is_right, results[baseline].is_right) if is_other else ()
        rows.append(
            [
                name,
                f"{100 * sequence_accuracy_score(y, labels):.2f}",
                f"{100 * token_accuracy_score(y, labels):.2f}",
                f"{np.mean(of.seconds):.1f}",
                "{:+.2f} ({:+.2f} to {:+.2f})".format(*points) if is_other else "",
                f"{100 * share:.1f} ({100 * precision:.1f})",
                "; ".join(f"{settings} ({n})" for settings, n in Counter(of.chosen).items() if settings),
            ]
        )
    heads = ["entirely right %", "tokens %", "s a fit", f"gain over {baseline}", "accepted % (right)", "chosen"]
    print_table(["", *heads], rows)


def calibration_error(probability, right, n_bins=10):
    """Return the mean difference of probability and the share that is right, in bins with as many sequences each."""
    bins = np.array_split(np.argsort(probability, kind="stable"), n_bins)
    return sum(abs((probability[part] - right[part]).sum()) for part in bins) / len(right)


def print_calibration(results):
    """Print mean probabilities of results by name, and errors of calibration, before and after calibration."""
    rows = []
    for name, of in results.items():
        probability, right = of.probability[of.tested], of.is_right
        both = probability, of.calibrated()
        means = [f"{100 * values.mean():.1f}" for values in (right, *both)]
        rows.append([name, *means, *(f"{100 * calibration_error(values, right):.1f}" for values in both)])
    print_table(["", "right %", "mean probability %", "calibrated %", "error of calibration %", "calibrated"], rows)


def print_rule(results, accept, what):
    """Print how many predictions break a rule, before and after they are replaced by the best that does not."""
    rows = []
    for name, of in results.items():
        before, after = ([n for n in of.tested if not accept(labels[n])] for labels in (of.labels, of.by_rule))
        wrong = sum(of.labels[n] != of.y[n] for n in before)
        right = np.mean([of.by_rule[n] == of.y[n] for n in of.tested])
        rows.append([name, len(before), wrong, len(after), f"{100 * right:.2f}"])
    print_table(["", what, "wrong of these", "with accept=", "entirely right % then"], rows)


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


def kept(path, function):
    """Return what a function returns, from a file where it has been kept; without a path, it is not kept."""
    if path is None:
        return function()
    if Path(path).exists():
        return pickle.loads(Path(path).read_bytes())
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    result = function()
    Path(path).write_bytes(pickle.dumps(result))
    return result

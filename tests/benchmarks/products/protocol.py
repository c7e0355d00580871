"""What the programs of products share: folds, the choice of a model inside a training part, figures, and the table.

A model is chosen inside each training part alone, among those that its program lists, by the mean probability of the
true labellings of held-out sequences: how often a labelling drawn from the model would be entirely right. This decides
more finely than the share of predictions that are right. Where a label is not in training, the probability is 0.
"""

import gzip
import pickle
import random
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold

sys.path.append(str(Path(__file__).resolve().parents[1]))
from common import absent, data_file, fit_quietly, parse, print_table, skipped, take_turns  # noqa: F401

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.metrics import randomization_test, sequence_accuracy_score, token_accuracy_score

PRECISION = 0.99


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


def choose(models, X_by_features, y, indices, n_inner, utility=np.exp):
    """Return the name of the best of some models, (features, parameters) by name, in folds of a training part.

    The first of ``n_inner`` folds is held out. ``utility`` is what counts, of the log-likelihood of a sequence.
    """
    train, test = next(KFold(n_inner, shuffle=True, random_state=0).split(indices))
    train, test = indices[train], indices[test]
    labels = {label for labels_of in part(y, train) for label in labels_of}
    test = np.array([i for i in test if labels.issuperset(y[i])])  # the others have probability 0 in all models
    scores = {}
    for name, (features, params) in models.items():
        X = X_by_features[features]
        model = fit_quietly(HighOrderCRF(**params | {"tol": 0.1}), part(X, train), part(y, train))
        scores[name] = utility(model.log_likelihood(part(X, test), part(y, test))).sum()
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

    def fit(self, params, X, train, test, accept=None):
        """Fit a model to a training part, keep what it predicts for the test part, and return it."""
        start = time.process_time()
        model = fit_quietly(HighOrderCRF(**params), part(X, train), part(self.y, train))
        seconds = time.process_time() - start
        X = part(X, test)
        labels = model.predict(X)
        by_rule = labels
        if accept is not None:
            broken = [n for n, labels_of in enumerate(labels) if not accept(list(labels_of))]
            with warnings.catch_warnings(
                action="ignore", category=UserWarning
            ):  # some have no labelling that is accepted
                others = model.predict_nbest(part(X, broken), 1, accept=accept) if broken else []
            found = {n: other[0].labels for n, other in zip(broken, others, strict=True) if other}
            by_rule = [found.get(n, labels_of) for n, labels_of in enumerate(labels)]
        self.add(test, labels, np.exp(model.log_likelihood(X, labels)), seconds, by_rule)
        return model

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

    def compare(self, other):
        """Return the randomisation test of the share of sequences that are entirely right."""
        y, one, two = (part(values, self.tested) for values in (self.y, self.labels, other.labels))
        return randomization_test(y, one, two, sequence_accuracy_score, n_trials=9999, random_state=0)


def print_results(results, baseline):
    """Print the figures of results by name, with the test against one of them, or against none of the name."""
    rows = []
    for name, of in results.items():
        y, labels = part(of.y, of.tested), part(of.labels, of.tested)
        share, precision = of.accepted()
        is_other = baseline in results and name != baseline
        rows.append(
            [
                name,
                f"{100 * sequence_accuracy_score(y, labels):.2f}",
                f"{100 * token_accuracy_score(y, labels):.2f}",
                f"{np.mean(of.seconds):.1f}",
                f"{of.compare(results[baseline]).p_value:.4f}" if is_other else "",
                f"{100 * share:.1f} ({100 * precision:.1f})",
            ]
        )
    heads = ["", "entirely right %", "tokens %", "s a fit", f"p against {baseline}", "accepted % (right)"]
    print_table(heads, rows)


def print_rule(results, accept, what):
    """Print how many predictions break a rule, before and after they are replaced by the best that does not."""
    rows = []
    for name, of in results.items():
        before, after = ([n for n in of.tested if not accept(labels[n])] for labels in (of.labels, of.by_rule))
        wrong = sum(of.labels[n] != of.y[n] for n in before)
        right = np.mean([of.by_rule[n] == of.y[n] for n in of.tested])
        ruled = [len(after), f"{100 * right:.2f}"] if of.chosen else ["", ""]  # theirs has none
        rows.append([name, len(before), wrong, *ruled])
    print_table(["", what, "wrong of these", "with accept=", "entirely right % then"], rows)


def kept(path, function):
    """Return what a function returns, from a file where it has been kept."""
    if Path(path).exists():
        return pickle.loads(Path(path).read_bytes())
    result = function()
    Path(path).write_bytes(pickle.dumps(result))
    return result


def print_speed(what, cases, n):
    """Print how many sequences a second each of some functions tags, the median of three turns."""
    seconds = np.median(take_turns(list(cases.values()), 3, time.process_time), axis=0)
    print(f"{what}:", ", ".join(f"{name} {n / s:,.0f}" for name, s in zip(cases, seconds, strict=True)))

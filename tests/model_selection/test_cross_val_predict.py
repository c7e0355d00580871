"""Predictions by cross-validation against those of scikit-learn and of a loop over folds."""

import re

import numpy as np
import pytest
from joblib import parallel_config
from refusals import refusals
from sklearn.base import BaseEstimator
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, ShuffleSplit

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.model_selection import cross_val_predict

X = [[f"{n}.{t}" for t in range(1 + n % 3)] for n in range(7)]
Y = [["ab"[(n + t) % 2] for t in range(len(X[n]))] for n in range(7)]


class Recorder(BaseEstimator):
    """Answer with the training sequences and parameters of fit."""

    def __init__(self, classes=None):
        self.classes = classes

    def fit(self, X, y=None, sample_weight=None, other=None):
        assert y is None or len(X) == len(y)
        self.seen_ = (frozenset(sequence[0] for sequence in X), sample_weight, other)
        self.classes_ = sorted({label for labels in y or () for label in labels})
        return self

    def predict(self, X):
        return [(sequence, *self.seen_) for sequence in X]

    def predict_marginals(self, X):
        return [np.full((len(sequence), len(self.classes_)), 1 / len(self.classes_)) for sequence in X]

    def count(self, X):
        return np.array([len(sequence) for sequence in X])

    def total(self, X):
        return len(X)

    def lose(self, X):
        return X[1:]


@pytest.mark.parametrize(
    "cv", [None, 3, KFold(3, shuffle=True, random_state=0), PredefinedSplit([0, 1, 0, 1, 2, 2, 0])]
)
def test_each_sequence_is_predicted_by_a_model_without_it(cv):
    predictions = cross_val_predict(Recorder(), X, Y, cv=cv)
    assert [row[0] for row in predictions] == X
    splits = list((KFold(cv or 5) if cv is None or isinstance(cv, int) else cv).split(X))
    for train, test in splits:
        for n in test:
            assert predictions[n][1] == {X[m][0] for m in train}
            assert X[n][0] not in predictions[n][1]
    assert cross_val_predict(Recorder(), X, cv=cv, method="count") == [len(sequence) for sequence in X]
    with parallel_config("threading"):
        assert cross_val_predict(Recorder(), X, Y, cv=cv, n_jobs=2) == predictions


@pytest.mark.slow
def test_predictions_of_processes_are_the_same():
    assert cross_val_predict(Recorder(), X, Y, n_jobs=2) == cross_val_predict(Recorder(), X, Y)


def test_masks_and_iterables_are_splits():
    masks = [(np.arange(7) < 3, np.arange(7) >= 3), (np.arange(7) >= 3, np.arange(7) < 3)]
    numbers = [tuple(np.flatnonzero(part) for part in split) for split in masks]
    assert cross_val_predict(Recorder(), X, Y, cv=masks) == cross_val_predict(Recorder(), X, Y, cv=iter(numbers))


def test_groups_and_weights():
    groups = [0, 0, 1, 1, 2, 2, 2]
    weights = np.arange(7.0)
    params = {"sample_weight": weights, "other": "as it is"}
    predictions = cross_val_predict(Recorder(), X, Y, groups=groups, cv=GroupKFold(3), params=params)
    for n, (_, seen, weight, other) in enumerate(predictions):
        train = [m for m in range(7) if groups[m] != groups[n]]
        assert seen == {X[m][0] for m in train}
        assert weight.tolist() == weights[train].tolist()
        assert other == "as it is"


def test_labels_that_a_fold_has_not_seen_have_probability_0():
    y = [["a"], ["a", "b"], ["b", "c", "a"], ["a"], ["b", "a"], ["a", "b", "b"], ["b"]]
    with pytest.warns(RuntimeWarning, match=re.escape("training fold (2) does not match total number of classes (3)")):
        marginals = cross_val_predict(Recorder(), X, y, cv=7, method="predict_marginals")
    assert [rows.shape for rows in marginals] == [(len(sequence), 3) for sequence in X]
    np.testing.assert_array_equal(marginals[2], [[0.5, 0.5, 0]] * 3)
    np.testing.assert_array_equal(marginals[0], [[1 / 3] * 3])


def test_a_model_and_its_methods():
    tokens = [[[f"w={word[-1]}"] for word in sequence] for sequence in X]
    crf = HighOrderCRF()
    answers = {
        method: cross_val_predict(crf, tokens, Y, cv=2, method=method)
        for method in ("predict", "predict_marginals", "entropy")
    }
    for train, test in KFold(2).split(X):
        fitted = HighOrderCRF().fit([tokens[n] for n in train], [Y[n] for n in train])
        part = [tokens[n] for n in test]
        assert [answers["predict"][n] for n in test] == fitted.predict(part)
        for method in ("predict_marginals", "entropy"):
            for n, expected in zip(test, getattr(fitted, method)(part), strict=True):
                np.testing.assert_array_equal(answers[method][n], expected)
    assert not hasattr(crf, "classes_")


test_refusals = refusals(
    (lambda cv: cross_val_predict(Recorder(), X, Y, cv=cv),
     ("^cross_val_predict only works for partitions$", ShuffleSplit(3, random_state=0), [([0, 1], [2, 3])],
      [([0], range(7)), ([0], [3])]),
     ("cv has no splits", []),
     ("split 0 of cv has the index 7, but there are 7 sequences", [([0], [7, *range(6)])])),
    (lambda method: cross_val_predict(Recorder(), X, Y, cv=2, method=method),
     (TypeError, r"total must return a list or an array, not \d \(int\)", "total"),
     (r"lose returned \d results for \d sequences", "lose"),
     (AttributeError, "absent", "absent")),
    (lambda: cross_val_predict(Recorder(), X, Y[1:]), "inconsistent numbers of samples"),
)  # fmt: skip

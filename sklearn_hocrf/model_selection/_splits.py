"""Make the folds of a search: transformers are fitted, and models laid out, on training parts only."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._estimator.course import Course
from .._validation import TrainingData
from .._validation._sklearn import safe_indexing
from ._fold import Fold
from ._groups import WeightGroups

__all__ = ["Split", "make_fold", "split_data", "training_data"]


class Split(NamedTuple):
    """Both parts of the data, as passed to the model at the end of a pipeline."""

    X: Any
    y: Any
    weight: np.ndarray | None
    X_test: Any
    y_test: Any
    weight_test: np.ndarray | None


def split_data(estimator: Any, X: Any, y: Any, weight: np.ndarray | None, number: int, train: Any, test: Any) -> Split:
    """Return both parts of the data; ``train`` and ``test`` are numbers of sequences."""
    if weight is not None:  # sequences of weight 0 may have labels that no training part has
        test = test[weight[test] > 0]
    for name, part in ("training", train), ("held-out", test):
        if not len(part) or (weight is not None and not weight[part].any()):
            raise ValueError(
                f"the {name} part of split {number} has no sequences of positive weight: choose another cv"
            )
    (X_train, y_train), (X_test, y_test) = ((safe_indexing(X, i), safe_indexing(y, i)) for i in (train, test))
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        head = clone(estimator[:-1])
        X_train, X_test = head.fit_transform(X_train, y_train), head.transform(X_test)
    weights = (None, None) if weight is None else (weight[train], weight[test])
    return Split(X_train, y_train, weights[0], X_test, y_test, weights[1])


def training_data(estimator: Any, X: Any, y: Any, weight: np.ndarray | None) -> TrainingData:
    """Return all data, as read by the model at the end of a pipeline in fit."""
    final = estimator
    if isinstance(estimator, Pipeline):
        final = estimator.steps[-1][1]
        X = clone(estimator[:-1]).fit_transform(X, y) if len(estimator.steps) > 1 else X
    return _read(Course(final), X, y, weight)


def make_fold(estimator: Any, split: Split, targets: Any, groups: WeightGroups) -> Fold:
    """Return the fold of a model.

    Parameters
    ----------
    estimator : BaseSequenceLabeler
        The unfitted model.
    split : Split
    targets : TokenTargets or SegmentTargets
        The targets of all data: their labels, and maximum lengths of segments, also apply to the fold.
    groups : WeightGroups
    """
    with warnings.catch_warnings():  # the same warnings were given for all data
        warnings.simplefilter("ignore", UserWarning)
        return _make_fold(clone(estimator), split, targets, groups)


def _make_fold(estimator, split, targets, groups) -> Fold:
    course = Course(estimator)
    data = _read(course, split.X, split.y, split.weight, targets)
    layout = course.layout(data)
    training = course.problem(layout, data)
    # the held-out part is read as by a fitted estimator; its weights do not matter
    more = {"borders": data.rules.borders, "part_names": data.parts.names}
    fitted = course.end(layout, np.zeros(layout.n_weights), data.targets, data.features, **more)
    batch, form = fitted.read(split.X_test)
    truth = fitted.read_truth(split.y_test, batch, form)
    mask = fitted.mask(batch, form)
    training, held_out = course.prune(training, training.on(batch, truth, split.weight_test, mask))
    is_pruned = held_out.candidates is not None  # and the candidates meet the constraints
    weight = np.repeat(held_out.sequence_weight, batch.lengths)

    def accuracy(w):
        given = {"plan": held_out.plan} if is_pruned else {"mask": mask}
        decoded = held_out.model(w).decode(batch, fitted.n_jobs, **given)
        return float(np.average(fitted.are_right(decoded, truth), weights=weight))

    of_weights = groups.of_weights(layout, data)
    return Fold(training, held_out, course.objective(), of_weights, len(groups.keys), accuracy, estimator.max_iter)


def _read(course, X, y, weight, fixed=None) -> TrainingData:
    data = course.read(X, y, weight, fixed)
    if data.runs is not None:
        raise ValueError(
            "y has holes, which make the likelihood non-convex, but the gradient of the score requires the minimum: "
            "use GridSearchCV with metrics.log_likelihood_scorer"
        )
    return data

"""Make the folds of a search: transformers are fitted, and models laid out, on training parts only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._data.messages import unwarned
from .._engine.training.hypergradient import Fold
from .._estimator.fit.fit_steps import FitSteps
from .._estimator.fit.penalties import Prior
from .._estimator.fit.training import TrainingData, last_weights
from .._sklearn.names import safe_indexing
from ._groups import WeightGroups


class Split(NamedTuple):
    """Both parts of the data, as passed to the model at the end of a pipeline."""

    X: Any
    y: Any
    weight: np.ndarray | None
    X_test: Any
    y_test: Any
    weight_test: np.ndarray | None


def used_parts(whole: TrainingData, splits: list) -> list:
    """Return splits whose held-out parts have used sequences alone, or raise if one of the parts has none.

    Sequences of weight 0 may have labels that no training part has.
    """
    used = np.asarray(whole.sequence_ids)
    for index, split in enumerate(splits):
        for name, part in zip(("training", "held-out"), split, strict=True):
            if not np.isin(part, used).any():
                raise ValueError(
                    f"the {name} part of split {index} has no sequences of positive weight, or no tokens in them: "
                    "choose another cv"
                )
    return [(train, np.asarray(test)[np.isin(test, used)]) for train, test in splits]


def split_data(estimator: Any, X: Any, y: Any, weight: np.ndarray | None, train: Any, test: Any) -> Split:
    """Return both parts of the data; ``train`` and ``test`` are indices of sequences."""
    (X_train, y_train), (X_test, y_test) = ((safe_indexing(X, i), safe_indexing(y, i)) for i in (train, test))
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        head = clone(estimator[:-1])
        X_train, X_test = head.fit_transform(X_train, y_train), head.transform(X_test)
    weights = (None, None) if weight is None else (weight[train], weight[test])
    return Split(X_train, y_train, weights[0], X_test, y_test, weights[1])


def training_data(estimator: Any, X: Any, y: Any, weight: np.ndarray | None) -> TrainingData:
    """Return all data, as read by the model at the end of a pipeline in fit."""
    *head, (_, final) = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    return _read(FitSteps(final), clone(estimator[:-1]).fit_transform(X, y) if head else X, y, weight)


class _Origin(NamedTuple):
    """The inputs of a fold, for the fold of the same split at another order."""

    steps: FitSteps
    layout: Any
    data: TrainingData
    read: tuple  # the held-out batch, and its form

    def start(self, weights: np.ndarray, layout: Any) -> np.ndarray:
        """Return the weights of the fold under the layout of another order."""
        return last_weights(self.steps.end(self.data, self.layout, weights), layout, self.data)


@unwarned()  # the same warnings were given for all data
def make_fold(estimator: Any, split: Split, targets: Any, groups: WeightGroups, earlier: Fold | None = None) -> Fold:
    """Return the fold of a model.

    Parameters
    ----------
    estimator : BaseSequenceLabeler
        The unfitted model.
    split : Split
    targets : TokenTargets or SegmentTargets
        The targets of all data: their labels, and maximum lengths of segments, also apply to the fold.
    groups : WeightGroups
    earlier : Fold or None
        The fold of the split at another order, whose data are not read again, and from whose weights training starts.
    """
    steps = FitSteps(clone(estimator))
    data = earlier.origin.data if earlier else _read(steps, split.X, split.y, split.weight, targets)
    layout = steps.layout(data)
    training = steps.pose(layout, data)
    # the held-out part is read as by a fitted estimator; its weights do not matter
    fitted = steps.end(data, layout, np.zeros(layout.n_weights))
    batch, form = earlier.origin.read if earlier else fitted.read(split.X_test)
    truth = fitted.read_truth(split.y_test, batch, form)
    support = fitted.given(batch, form).support
    training, held_out = steps.prune(training, training.on(batch, truth, split.weight_test, support))
    weight = np.repeat(held_out.sequence_weight, batch.lengths)

    def accuracy(w):
        decoded = held_out.posterior(w).decode()
        return float(np.average(fitted.targets.are_right(decoded, truth), weights=weight))

    prior = Prior(1.0, estimator.l1_reg).penalty(layout, data.features.names, data.targets.labels)
    group, strength = groups.of_weights(layout, data), prior.strengths(layout.n_weights)
    origin = _Origin(steps, layout, data, (batch, form))
    fold = Fold(training, held_out, group, strength, len(groups.keys), accuracy, estimator.max_iter, origin)
    if earlier:
        continue_from(fold, earlier)
    return fold


def continue_from(fold: Fold, earlier: Fold) -> None:
    """Let the next step of a fold start from the weights of the same split at another order."""
    fold.start(earlier.origin.start(earlier.weights, fold.origin.layout))


def _read(steps, X, y, weight, fixed=None) -> TrainingData:
    data = steps.read(X, y, weight, fixed)
    refuse_missing_labels(data)
    return data


def refuse_missing_labels(data: TrainingData | None) -> None:
    """Raise a ValueError if labels of y are missing."""
    if data is not None and data.has_missing_labels:
        raise ValueError(
            "y has missing labels, which make the likelihood non-convex, but the gradient of the score requires the "
            "minimum: use GridSearchCV with metrics.log_likelihood_scorer"
        )

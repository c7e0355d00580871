"""The penalties that a search can learn, the groups of weights that they apply to, and the folds of a search.

Transformers are fitted to training parts only, and the model of a fold contains only the weights that ``fit`` creates
from its training part.
"""

from __future__ import annotations

from collections.abc import Sized
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from .._data.checks import check
from .._data.messages import unwarned
from .._engine.structure.layout import WeightLayout
from .._engine.training.hypergradient import Fold
from .._estimator.fit.fit_steps import FitSteps
from .._estimator.fit.parameters import GROUP_KEYS, is_group_key
from .._estimator.fit.penalties import Prior, values_by_group
from .._estimator.fit.training import TrainingData, last_weights
from .._reading.inputs import read_sequences
from .._reading.targets import read_truth
from .._sklearn.names import safe_indexing


class WeightGroups(NamedTuple):
    """Groups of weights, by keys of ``sigma_reg``.   G groups."""

    keys: list
    has_weights: np.ndarray  # (G,) bool   in the model for all data; the model of a fold may differ

    @classmethod
    def for_layout(cls, layout: WeightLayout, data: TrainingData, groups: Any, max_order: int) -> Self:
        """Return the groups of a model.

        Parameters
        ----------
        layout : WeightLayout
            The weights of the model for all data.
        data : TrainingData
            All data.
        groups : "order" or sequence of keys
        max_order : int
            Highest order of the model.

        Raises
        ------
        ValueError
            If a weight does not belong to any group.
        """
        by_order = product(("features", "patterns"), range(max_order + 1))
        keys = list(by_order if isinstance(groups, str) else groups)
        used = cls(keys, np.zeros(len(keys), dtype=bool)).of_weights(layout, data)
        if not isinstance(groups, str):
            Prior(dict.fromkeys(keys, 1.0), 0.0).warn_of_unused_prefixes(data.features.names)
        return cls(keys, np.bincount(used, minlength=len(keys)) > 0)

    def of_weights(self, layout: WeightLayout, data: TrainingData) -> np.ndarray:
        """Return the index of each weight's group; shape (n_weights,). Raise a ValueError if a weight has no group."""
        names, labels = data.features.names, data.targets.labels
        ids = {key: float(i) for i, key in enumerate(self.keys)}
        return values_by_group("penalty_groups", ids, layout, names, labels).astype(np.int64)

    def start(self, sigma_reg: Any, layout: WeightLayout, data: TrainingData, earlier: dict) -> np.ndarray:
        """Return the ``sigma_reg`` from which each group starts; shape (G,).

        Parameters
        ----------
        sigma_reg : float or mapping
            The ``sigma_reg`` of the model. By default, a group starts from its geometric mean over the weights of the
            group.
        layout, data
            As for :meth:`of_weights`.
        earlier : dict
            The ``sigma_reg`` by group from which an earlier order starts. The same groups start from the same values;
            new groups start from the value for the nearest lower order, if there is one.
        """
        start = self.nearest(earlier)
        is_open = self.has_weights & np.isnan(start)
        start[np.isnan(start)] = 1.0
        if is_open.any():
            penalty = Prior(sigma_reg, 0.0).penalty(layout, data.features.names, data.targets.labels)
            log_sigma = -0.5 * np.log(penalty.precisions(layout.n_weights))
            group = self.of_weights(layout, data)
            sums, sizes = np.bincount(group, log_sigma, len(self.keys)), np.bincount(group, minlength=len(self.keys))
            start[is_open] = np.exp(sums[is_open] / sizes[is_open])
        return start

    def nearest(self, earlier: dict) -> np.ndarray:
        """Return each group's penalty in ``earlier``, or that of the nearest lower order, or nan if there is none."""
        penalties = np.full(len(self.keys), np.nan)
        for i, key in enumerate(self.keys):
            while key not in earlier and isinstance(key, tuple) and key[1] > 0:
                key = key[0], key[1] - 1
            penalties[i] = earlier.get(key, np.nan)
        return penalties


def column_name(key: Any) -> str:
    """Return the name of a group for use in column names.

    Examples
    --------
    >>> [column_name(key) for key in [("features", 0), ("w=", 1), "w=", None]]
    ['features_0', 'w=_1', 'w=', 'rest']
    """
    if key is None:
        return "rest"
    return "_".join(map(str, key)) if isinstance(key, tuple) else str(key)


def check_keys(groups: Any) -> None:
    """Raise a ValueError unless ``penalty_groups`` is "order" or distinct keys of ``sigma_reg``."""
    if isinstance(groups, str):
        return check(groups == "order", "penalty_groups", '"order" or a list of keys of sigma_reg', groups)
    check(len(groups) > 0 and all(map(is_group_key, groups)), "penalty_groups", f"a list of keys: {GROUP_KEYS}", groups)
    different = len(set(map(column_name, groups))) == len(groups)
    check(different, "penalty_groups", "a list of keys that give different names of columns", groups)


def check_weights(search: BaseEstimator, whole: TrainingData, final: Any, orders: list[int]) -> None:
    """Raise a ValueError if penalties do not cover the weights of an order, or if the highest order has no weights."""
    for order in orders:
        model = clone(final).set_params(max_order=order)
        with unwarned():  # the search at the order warns
            layout = FitSteps(model).layout(whole)
            groups = WeightGroups.for_layout(layout, whole, search.penalty_groups, order)
        if order == orders[0]:
            groups.start(model.sigma_reg, layout, whole, {})
        Prior(1.0, model.l1_reg).penalty(layout, whole.features.names, whole.targets.labels)
        if search.refit and order == max(orders) and not layout.n_weights:
            raise ValueError(
                f"PenaltySearchCV has no penalties to learn: with max_order={order} the model has no weights, because "
                f"its X has no features and fit_intercept={final.fit_intercept}"
            )


class Split(NamedTuple):
    """The training and held-out parts of the data, as passed to the model at the end of a pipeline."""

    X: Any
    y: Any
    weight: np.ndarray | None
    X_test: Any
    y_test: Any
    weight_test: np.ndarray | None


def used_parts(whole: TrainingData, splits: list) -> list:
    """Return splits that hold out only sequences of positive weight; raise an error if a part contains none.

    Sequences of weight 0 may have labels that no training part contains.
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


def split_data(estimator: BaseEstimator, X: Sized, y: Sized, weight: np.ndarray | None, train: Any, test: Any) -> Split:
    """Return the parts ``train`` and ``test`` (indices of sequences) of the data, for the last step of a pipeline."""
    (X_train, y_train), (X_test, y_test) = ((safe_indexing(X, i), safe_indexing(y, i)) for i in (train, test))
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        head = clone(estimator[:-1])
        X_train, X_test = head.fit_transform(X_train, y_train), head.transform(X_test)
    weights = (None, None) if weight is None else (weight[train], weight[test])
    return Split(X_train, y_train, weights[0], X_test, y_test, weights[1])


def training_data(estimator: BaseEstimator, X: Sized, y: Sized, weight: np.ndarray | None) -> TrainingData:
    """Return all data as the model at the end of a pipeline reads them in ``fit``."""
    *head, (_, final) = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    return _read(FitSteps(final), clone(estimator[:-1]).fit_transform(X, y) if head else X, y, weight)


class _Origin(NamedTuple):
    """The inputs of a fold; the fold of the same split at another order reuses them."""

    steps: FitSteps
    layout: Any
    data: TrainingData
    read: tuple  # the held-out batch, and its form

    def start(self, weights: np.ndarray, layout: Any) -> np.ndarray:
        """Convert the weights of the fold to the layout of another order."""
        state = self.steps.state_without_solver(self.data, self.layout, weights)
        return last_weights(state.attributes(), layout, self.data)


@unwarned()  # the same warnings were given for all data
def make_fold(
    estimator: BaseEstimator, split: Split, targets: Any, groups: WeightGroups, earlier: Fold | None = None
) -> Fold:
    """Return a fold: a model with the training and held-out parts of a split.

    Parameters
    ----------
    estimator : BaseSequenceLabeler
        The unfitted model.
    split : Split
    targets : TokenTargets or SegmentTargets
        The targets of all data: their labels and maximum segment lengths also apply to the fold.
    groups : WeightGroups
    earlier : Fold or None
        The fold of the same split at another order. Its data are reused, and training starts from its weights.
    """
    steps = FitSteps(clone(estimator))
    data = earlier.origin.data if earlier else _read(steps, split.X, split.y, split.weight, targets)
    layout = steps.layout(data)
    training = steps.unpruned_problem(data, layout)
    batch, form = earlier.origin.read if earlier else read_sequences(steps.reader, split.X_test, data.features)
    truth = read_truth(data.targets, split.y_test, batch, form, steps.name)
    held_out = training.for_batch(batch, truth, split.weight_test, data.rules.mask(batch.offsets))
    weight = np.repeat(held_out.sequence_weight, batch.lengths)

    def accuracy(w):
        decoded = held_out.posterior(w).decode()
        return float(np.average(data.targets.are_right(decoded, truth), weights=weight))

    prior = Prior(1.0, estimator.l1_reg).penalty(layout, data.features.names, data.targets.labels)
    group, strength = groups.of_weights(layout, data), prior.strengths(layout.n_weights)
    origin = _Origin(steps, layout, data, (batch, form))
    fold = Fold(training, held_out, group, strength, len(groups.keys), accuracy, estimator.max_iter, origin)
    if earlier:
        continue_from(fold, earlier)
    return fold


def continue_from(fold: Fold, earlier: Fold) -> None:
    """Make the next step of a fold start from the weights of the fold of the same split at another order."""
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

"""The penalties that a search can learn, and the groups of weights that they apply to."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from .._data._settings import check
from .._data.messages import unwarned
from .._engine.structure.layout import WeightLayout
from .._estimator.fit.fit_steps import FitSteps
from .._estimator.fit.parameters import GROUP_KEYS, is_group_key
from .._estimator.fit.penalties import Prior, values_by_group
from .._estimator.fit.training import TrainingData


class WeightGroups(NamedTuple):
    """Groups of weights, by keys of ``sigma_reg``.   G groups."""

    keys: list
    has_weights: np.ndarray  # (G,) bool   in the model for all data; the model of a fold may differ

    @classmethod
    def of(cls, layout: WeightLayout, data: TrainingData, given: Any, max_order: int) -> Self:
        """Return the groups of a model.

        Parameters
        ----------
        layout : WeightLayout
            The weights of the model for all data.
        data : TrainingData
            All data.
        given : "order" or sequence of keys
        max_order : int
            Highest order of the model.

        Raises
        ------
        ValueError
            If a weight does not belong to any group.
        """
        by_order = product(("features", "patterns"), range(max_order + 1))
        keys = list(by_order if isinstance(given, str) else given)
        used = cls(keys, np.zeros(len(keys), dtype=bool)).of_weights(layout, data)
        if not isinstance(given, str):
            Prior(dict.fromkeys(keys, 1.0), 0.0).warn_of_unused_prefixes(data.features.names)
        return cls(keys, np.bincount(used, minlength=len(keys)) > 0)

    def of_weights(self, layout: WeightLayout, data: TrainingData) -> np.ndarray:
        """Return the group of each weight of a layout, or raise a ValueError; shape (n_weights,)."""
        names, labels = data.features.names, data.targets.labels
        ids = {key: float(i) for i, key in enumerate(self.keys)}
        return values_by_group("penalty_groups", ids, layout, names, labels).astype(np.int64)

    def start(self, sigma_reg: Any, layout: WeightLayout, data: TrainingData, earlier: dict) -> np.ndarray:
        """Return the ``sigma_reg`` to start from; shape (G,).

        Parameters
        ----------
        sigma_reg : float or mapping
            The default start: the geometric mean over the weights of a group.
        layout, data
            As for :meth:`of`.
        earlier : dict
            Where the previous order starts. New groups start from the group of the next lower order.
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
        """Return penalties of another order: of the same group, or the group of the next lower order; else nan."""
        found = np.full(len(self.keys), np.nan)
        for i, key in enumerate(self.keys):
            while key not in earlier and isinstance(key, tuple) and key[1] > 0:
                key = key[0], key[1] - 1
            found[i] = earlier.get(key, np.nan)
        return found


def column_name(key: Any) -> str:
    """Return the name of a group in the names of columns.

    Examples
    --------
    >>> [column_name(key) for key in [("features", 0), ("w=", 1), "w=", None]]
    ['features_0', 'w=_1', 'w=', 'rest']
    """
    if key is None:
        return "rest"
    return "_".join(map(str, key)) if isinstance(key, tuple) else str(key)


def check_keys(given: Any) -> None:
    """Raise a ValueError unless ``penalty_groups`` is "order" or distinct keys of ``sigma_reg``."""
    if isinstance(given, str):
        return check(given == "order", "penalty_groups", '"order" or a list of keys of sigma_reg', given)
    check(len(given) > 0 and all(map(is_group_key, given)), "penalty_groups", f"a list of keys: {GROUP_KEYS}", given)
    different = len(set(map(column_name, given))) == len(given)
    check(different, "penalty_groups", "a list of keys that give different names of columns", given)


def check_weights(search: Any, whole: TrainingData, final: Any, orders: list[int]) -> None:
    """Raise a ValueError if penalties do not cover the weights of an order, or if the highest order has none."""
    for order in orders:
        model = clone(final).set_params(max_order=order)
        with unwarned():  # the search of the order warns
            layout = FitSteps(model).layout(whole)
            groups = WeightGroups.of(layout, whole, search.penalty_groups, order)
        if order == orders[0]:
            groups.start(model.sigma_reg, layout, whole, {})
        Prior(1.0, model.l1_reg).penalty(layout, whole.features.names, whole.targets.labels)
        if search.refit and order == max(orders) and not layout.n_weights:
            raise ValueError(
                f"PenaltySearchCV has no penalties to learn: with max_order={order} the model has no weights, because "
                f"its X has no features and fit_intercept={final.fit_intercept}"
            )

"""Which penalties a search can learn, and of which groups of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from .._estimator.fitting import Prior, choose_objective, has_l1
from .._estimator.parameters import GROUP_KEYS, is_group_key
from .._estimator.pattern_search import pattern_search
from .._objectives import Objective
from .._settings import capability, check
from .._structure.layout import WeightLayout
from .._structure.weight_groups import weight_groups
from .._validation import TrainingData

__all__ = ["WeightGroups", "check_keys", "check_searchable", "column_name"]


class WeightGroups(NamedTuple):
    """Groups of weights by key, as ``sigma_reg`` has them.   G groups."""

    keys: list

    @classmethod
    def of(cls, layout: WeightLayout, data: TrainingData, given: Any) -> Self:
        """Return the groups that have weights.

        Parameters
        ----------
        layout : WeightLayout
            The weights of the model that all data call for.
        data : TrainingData
            All data.
        given : "order" or sequence of keys

        Raises
        ------
        ValueError
            If some weight belongs to no group.
        """
        if isinstance(given, str):
            orders = np.unique(layout.order_of_weight).tolist()
            keys = [(kind, order) for kind in ("features", "patterns") for order in orders]
        else:
            keys = list(given)
        groups = weight_groups(layout, data.features.names, keys)
        if (groups < 0).any():  # the error names a weight that has no group
            Prior(dict.fromkeys(keys, 1.0), 0.0).penalty(layout, data.features.names, data.targets.labels)
        return cls([key for number, key in enumerate(keys) if (groups == number).any()])

    def of_weights(self, layout: WeightLayout, names: Any) -> np.ndarray:
        """Return the group of each weight of a layout; shape (n_weights,)."""
        return weight_groups(layout, names, self.keys)

    def start(self, sigma_reg: Any, layout: WeightLayout, data: TrainingData, earlier: dict) -> np.ndarray:
        """Return the ``sigma_reg`` to start from; shape (G,).

        Parameters
        ----------
        sigma_reg : float, sequence or mapping
            The start where there is no other: the geometric mean over the weights of a group.
        layout, data
            As for :meth:`of`.
        earlier : dict
            Penalties of groups of an order before. A group of a higher order starts from that of the order below.
        """
        names = data.features.names
        penalty = Prior(sigma_reg, 0.0).penalty(layout, names, data.targets.labels)
        log_sigma = -0.5 * np.log(penalty.precisions(layout.n_weights))
        group = self.of_weights(layout, names)
        sums = np.bincount(group, weights=log_sigma, minlength=len(self.keys))
        start = np.exp(sums / np.bincount(group, minlength=len(self.keys)))
        for number, key in enumerate(self.keys):
            while key not in earlier and isinstance(key, tuple) and key[1] > 0:
                key = key[0], key[1] - 1
            start[number] = earlier.get(key, start[number])
        return start


def column_name(key: Any) -> str:
    """Return how a group is called in the names of columns.

    Examples
    --------
    >>> [column_name(key) for key in [("features", 0), ("w=", 1), "w=", None]]
    ['features_0', 'w=_1', 'w=', 'rest']
    """
    if key is None:
        return "rest"
    return "_".join(map(str, key)) if isinstance(key, tuple) else str(key)


def check_keys(given: Any) -> None:
    """Raise a ValueError unless ``penalty_groups`` is "order", or different keys of ``sigma_reg``."""
    if isinstance(given, str):
        check(given == "order", "penalty_groups", '"order" or a list of keys of sigma_reg', given)
        return
    check(len(given) > 0 and all(map(is_group_key, given)), "penalty_groups", f"a list of keys: {GROUP_KEYS}", given)
    check(len(set(given)) == len(given), "penalty_groups", "a list of different keys", given)


def check_searchable(estimator: Any) -> None:
    """Raise an error unless the penalties of a model can be learned along gradients."""
    estimator._check_parameters()
    name, objective = type(estimator).__name__, choose_objective(estimator.objective)
    if estimator.penalty is not None:
        reason = f"penalty={estimator.penalty!r} takes the place of sigma_reg, which is to be learned"
    elif has_l1(estimator.l1_reg):
        reason = f"l1_reg={estimator.l1_reg!r} > 0 has no derivatives where weights are 0"
    elif pattern_search(estimator.patterns) is not None:
        reason = (
            f"patterns={estimator.patterns!r} depend on the penalties, in jumps: give the patterns_ of a fit with them"
        )
    elif np.isinf(_values(estimator.sigma_reg)).any():
        reason = f"sigma_reg={estimator.sigma_reg!r} has no logarithm to start from"
    elif not hasattr(objective, "hessp") or not capability(objective, Objective, "gives_probabilities"):
        reason = f"objective={estimator.objective!r} has no products with its Hessian, or trains no probabilities"
    elif estimator.solver not in ("auto", "lbfgs", "newton-cg"):
        reason = f"solver={estimator.solver!r} is not one that finds the optimum with these penalties"
    else:
        return
    raise ValueError(f"PenaltySearchCV cannot learn the penalties of this {name}: {reason}")


def _values(sigma_reg) -> np.ndarray:
    """Return the numbers of a ``sigma_reg`` of any form."""
    return np.asarray(list(sigma_reg.values()) if isinstance(sigma_reg, Mapping) else sigma_reg, dtype=np.float64)

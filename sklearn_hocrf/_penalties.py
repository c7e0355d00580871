"""Penalties on the weights: functions of a vector, independent of sequences.

A penalty has a smooth part, whose value and gradient solvers use, and possibly a sum of ``strength * abs(w)``. Only a
penalty that is smooth as a whole has ``value_gradient``. ``_estimator.fitting.Prior`` makes penalties from
``sigma_reg`` and ``l1_reg``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["L2", "ElasticNet", "Penalty"]


class Penalty:
    """Base class of penalties whose smooth part is the sum of ``precision * w**2 / 2``.   K weights."""

    strength: np.ndarray | None = None

    def __init__(self, precision: ArrayLike) -> None:
        self.precision = _group_values(precision)

    def smooth_value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient of the smooth part at ``w``."""
        gradient = self.precisions(len(w)) * w
        return 0.5 * float(gradient @ w), gradient

    def precisions(self, n_weights: int) -> np.ndarray:
        """Return the precision of each weight; shape (n_weights,)."""
        return np.broadcast_to(self.precision, n_weights)

    def strengths(self, n_weights: int) -> np.ndarray:
        """Return the strength of the absolute value of each weight, 0 without an L1 penalty; shape (n_weights,)."""
        return np.broadcast_to(0.0 if self.strength is None else self.strength, n_weights)

    def groups(self, n_weights: int) -> np.ndarray | None:
        """Return group ids of weights with equal penalties, from 0; shape (n_weights,), or None for one group."""
        groups = None
        for values in (self.precisions(n_weights), self.strengths(n_weights)):
            if n_weights and (values != values[0]).any():
                group = np.unique(values, return_inverse=True)[1]
                if groups is not None:
                    group = np.unique(groups * n_weights + group, return_inverse=True)[1]
                groups = group
        return groups

    def tied(self, variable: np.ndarray, root: np.ndarray) -> L2 | ElasticNet | None:
        """Return this penalty on variables that represent equal weights, or None if it treats these differently.

        Parameters
        ----------
        variable : ndarray of shape (K,), uint32
            The variable of each weight.
        root : ndarray of shape (M,)
            Square root of the number of weights of each variable; a weight is ``variable / root``.
        """
        precision = _of_variables(self.precision, variable, len(root))
        strength = None if self.strength is None else _of_variables(self.strength, variable, len(root))
        if precision is None or (strength is None and self.strength is not None):
            return None
        return L2(precision) if strength is None else ElasticNet(precision, root * strength)

    def prox(self, x: np.ndarray, step: float, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the minimisers u of ``penalty(u) + (u - x)**2 / (2 step)``, for each weight separately.

        Parameters
        ----------
        x : ndarray of shape (M,)
            Values of some weights.
        step : float or ndarray of shape (M,)
            Step sizes.
        chosen : index
            The positions of these weights.
        """
        if self.strength is not None:
            x = np.sign(x) * np.maximum(np.abs(x) - step * _of(self.strength, chosen), 0.0)
        return x / (1.0 + step * _of(self.precision, chosen))

    def gap(self, gradient: np.ndarray) -> float:
        """Return an upper bound on a convex objective plus this penalty, minus its minimum.

        The curvature of the sum is at least that of the penalty. The gap is therefore at most the sum of ``gradient**2
        / (2 precision)``, for any subgradient; the shortest one gives the best bound. If some precision is 0, the bound
        is inf.
        """
        if not self.precision.all():
            return np.inf
        with np.errstate(over="ignore"):
            return 0.5 * float(gradient @ (gradient / self.precision))


class L2(Penalty):
    """Gaussian prior: the penalty is the sum of ``precision * w**2 / 2``.

    Parameters
    ----------
    precision : float or ndarray of shape (n_weights,)
        ``1 / sigma**2`` of each weight, finite; 0 for a weight without penalty.
    """

    def value(self, w: np.ndarray) -> float:
        """Return the penalty of ``w``."""
        return self.value_gradient(w)[0]

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalty of ``w`` and its gradient."""
        return self.smooth_value_gradient(w)


class ElasticNet(Penalty):
    """Gaussian times Laplacian prior: the penalty is the sum of ``precision * w**2 / 2 + strength * abs(w)``.

    Parameters
    ----------
    precision : float or ndarray of shape (n_weights,)
        As in :class:`L2`.
    strength : float or ndarray of shape (n_weights,)
        Weight of each absolute value, finite and >= 0.
    """

    def __init__(self, precision: ArrayLike, strength: ArrayLike) -> None:
        super().__init__(precision)
        self.strength = _group_values(strength)

    def value(self, w: np.ndarray) -> float:
        """Return the penalty of ``w``."""
        return self.smooth_value_gradient(w)[0] + float(np.sum(self.strength * np.abs(w)))


def _group_values(given: ArrayLike) -> np.ndarray:
    """Return a parameter, one value for each weight or one for all, as an array."""
    return np.atleast_1d(np.asarray(given, dtype=np.float64))


def _of_variables(values: np.ndarray, variable: np.ndarray, n_variables: int) -> np.ndarray | None:
    """Return a parameter of variables, given that of their weights; None if some of a variable's weights differ."""
    if len(values) == 1:
        return values
    of_variables = np.empty(n_variables)
    of_variables[variable] = values
    return of_variables if (of_variables[variable] == values).all() else None


def _of(values: np.ndarray, chosen: np.ndarray | slice) -> np.ndarray:
    """Return the values of some weights; a single value applies to all."""
    return values if len(values) == 1 else values[chosen]

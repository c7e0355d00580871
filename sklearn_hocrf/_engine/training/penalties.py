"""Penalties on the weights: functions of a vector, independent of sequences.

A penalty consists of a smooth part, whose value and gradient solvers use, and possibly a sum of ``strength * abs(w)``.
Solvers use only the methods of :class:`Penalty`. ``_estimator.fit.penalties.Prior`` creates penalties from
``sigma_reg`` and ``l1_reg``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


class Penalty:
    """Gaussian and Laplacian priors as a penalty: the sum of ``precision * w**2 / 2 + strength * abs(w)``.   K weights.

    A subclass with another smooth part, whose curvature is at least ``precision``, overrides ``smooth_value_gradient``,
    ``free``, ``tied`` and ``prox``.

    Parameters
    ----------
    precision : float or ndarray of shape (n_weights,)
        ``1 / sigma**2`` of each weight, finite; 0 for a weight without a Gaussian prior.
    strength : float or ndarray of shape (n_weights,), default=0.0
        Factor of each absolute value, finite and >= 0.
    """

    def __init__(self, precision: ArrayLike, strength: ArrayLike = 0.0) -> None:
        values = (np.asarray(value, dtype=np.float64) for value in (precision, strength))
        self.precision, self.strength = map(np.atleast_1d, values)  # one value for each weight, or one for all
        self.is_sparse = bool(self.strength.any())  # whether some weights may be exactly 0 at the minimum

    def value(self, w: np.ndarray) -> float:
        """Return the penalty of ``w``."""
        smooth = self.smooth_value_gradient(w)[0]
        return smooth + float(np.sum(self.strength * np.abs(w))) if self.is_sparse else smooth

    def smooth_value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient of the smooth part at ``w``."""
        gradient = self.precisions(len(w)) * w
        return 0.5 * float(gradient @ w), gradient

    def precisions(self, n_weights: int) -> np.ndarray:
        """Return the precision of each weight; shape (n_weights,)."""
        return np.broadcast_to(self.precision, n_weights)

    def strengths(self, n_weights: int) -> np.ndarray:
        """Return the strength of the absolute value of each weight, 0 without an L1 penalty; shape (n_weights,)."""
        return np.broadcast_to(self.strength, n_weights)

    def free(self, n_weights: int) -> np.ndarray:
        """Return whether each weight has no penalty at all; shape (n_weights,), bool."""
        return (self.precisions(n_weights) == 0) & (self.strengths(n_weights) == 0)

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

    def tied(self, variable: np.ndarray, root: np.ndarray) -> Penalty | None:
        """Return this penalty as a function of variables that represent equal weights, or None.

        The result is None if the penalty differs between the weights of a variable.

        Parameters
        ----------
        variable : ndarray of shape (K,), uint32
            The variable of each weight.
        root : ndarray of shape (M,)
            Square root of the number of weights of each variable; a weight is ``variable / root``.
        """
        precision, strength = (_of_variables(v, variable, len(root)) for v in (self.precision, self.strength))
        if precision is None or strength is None:
            return None
        return Penalty(precision, root * strength if self.is_sparse else 0.0)

    def prox(self, x: np.ndarray, step: float, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the minimisers u of ``penalty(u) + (u - x)**2 / (2 step)``, for each weight separately.

        Parameters
        ----------
        x : ndarray of shape (M,)
            Values of the chosen weights.
        step : float or ndarray of shape (M,)
            Step sizes.
        chosen : index
            The positions of the chosen weights among all weights.
        """
        if self.is_sparse:
            x = np.sign(x) * np.maximum(np.abs(x) - step * _of(self.strength, chosen), 0.0)
        return x / (1.0 + step * _of(self.precision, chosen))

    @property
    def of_compiled_steps(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Precision and strength if kernels can compute ``prox`` from these alone, else None."""
        return (self.precision, self.strength) if type(self).prox is Penalty.prox else None

    def gap(self, gradient: np.ndarray) -> float:
        """Return an upper bound on the gap between a convex objective plus this penalty and its minimum.

        The curvature of the sum is at least that of the penalty. The gap is therefore at most the sum of ``gradient**2
        / (2 precision)``, for any subgradient; the bound is lowest for the shortest one. If some precision is 0, the
        bound is inf.
        """
        if not self.precision.all():
            return np.inf
        with np.errstate(over="ignore"):
            return 0.5 * float(gradient @ (gradient / self.precision))


def _of_variables(values: np.ndarray, variable: np.ndarray, n_variables: int) -> np.ndarray | None:
    """Return a parameter of variables from that of their weights; None if it differs between weights of a variable."""
    if len(values) == 1:
        return values
    of_variables = np.empty(n_variables)
    of_variables[variable] = values
    return of_variables if (of_variables[variable] == values).all() else None


def _of(values: np.ndarray, chosen: np.ndarray | slice) -> np.ndarray:
    """Return the values of some weights; a single value applies to all."""
    return values if len(values) == 1 else values[chosen]

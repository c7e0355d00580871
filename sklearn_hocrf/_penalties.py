"""Penalties on the weights: functions of a vector, independent of sequences.

A penalty has a smooth part, whose value and gradient solvers use, and possibly a sum of ``strength * abs(w)``. Only a
penalty that is smooth as a whole has ``value_gradient``. ``_estimator.fitting.Prior`` makes penalties from
``sigma_reg`` and ``l1_reg``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ._settings import Settings

__all__ = ["L2", "ElasticNet", "Penalty"]


class Penalty(Settings):
    """Base class of penalties whose smooth part is the sum of ``precision * w**2 / 2``.   K weights."""

    strength: np.ndarray | None = None
    ties_weights = False  # True: the penalty is a sum of terms of single weights, so that ``tied`` is right

    def __init__(self, precision: ArrayLike) -> None:
        self.precision = _check_values(precision, "precision")

    def smooth_value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient of the smooth part at ``w``."""
        gradient = self.precisions(len(w)) * w
        return 0.5 * float(gradient @ w), gradient

    def precisions(self, n_weights: int) -> np.ndarray:
        """Return the precision of each weight; shape (n_weights,)."""
        return _for_weights(self.precision, n_weights, "precision")

    def strengths(self, n_weights: int) -> np.ndarray:
        """Return the strength of the absolute value of each weight, 0 without an L1 penalty; shape (n_weights,)."""
        return _for_weights(np.zeros(1) if self.strength is None else self.strength, n_weights, "strength")

    def groups(self, n_weights: int) -> np.ndarray | None:
        """Return group numbers of weights with equal penalties, from 0; shape (n_weights,), or None for one group."""
        groups = None
        for values in (self.precisions(n_weights), self.strengths(n_weights)):
            if n_weights and (values != values[0]).any():
                number = np.unique(values, return_inverse=True)[1]
                if groups is not None:
                    number = np.unique(groups * n_weights + number, return_inverse=True)[1]
                groups = number
        return groups

    def tied(self, place: np.ndarray, root: np.ndarray) -> L2 | ElasticNet | None:
        """Return this penalty on variables that represent equal weights, or None if it treats these differently.

        Parameters
        ----------
        place : ndarray of shape (K,), uint32
            The variable of each weight.
        root : ndarray of shape (M,)
            Square root of the number of weights of each variable; a weight is ``variable / root``.
        """
        precision = _of_variables(self.precision, place, len(root))
        strength = None if self.strength is None else _of_variables(self.strength, place, len(root))
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

    Raises
    ------
    ValueError
        If a number is negative or not finite. ``fit`` raises it if the number of values is wrong.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import L2
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(penalty=L2(0.25)).fit(X, y)  # the same as sigma_reg=2
    >>> (crf.coef_ - HighOrderCRF(sigma_reg=2.0).fit(X, y).coef_).nnz
    0
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    ties_weights = True

    def value(self, w: np.ndarray) -> float:
        """Return the penalty of ``w``."""
        return self.value_gradient(w)[0]

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalty of ``w`` and its gradient."""
        return self.smooth_value_gradient(w)

    def hessp(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian at ``w`` and a vector."""
        return self.precision * v


class ElasticNet(Penalty):
    """Gaussian times Laplacian prior: the penalty is the sum of ``precision * w**2 / 2 + strength * abs(w)``.

    Parameters
    ----------
    precision : float or ndarray of shape (n_weights,)
        As in :class:`L2`.
    strength : float or ndarray of shape (n_weights,)
        Weight of each absolute value, finite and >= 0.

    Raises
    ------
    ValueError
        As for :class:`L2`.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import ElasticNet
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(penalty=ElasticNet(1.0, 0.7)).fit(X, y)  # the same as l1_reg=0.7
    >>> HighOrderCRF().fit(X, y).coef_.nnz, crf.coef_.nnz
    (3, 2)
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    ties_weights = True

    def __init__(self, precision: ArrayLike, strength: ArrayLike) -> None:
        super().__init__(precision)
        self.strength = _check_values(strength, "strength")

    def value(self, w: np.ndarray) -> float:
        """Return the penalty of ``w``."""
        return self.smooth_value_gradient(w)[0] + float(np.sum(self.strength * np.abs(w)))


def _check_values(values: ArrayLike, name: str) -> np.ndarray:
    """Return a parameter, one value for each weight or one for all, as an array."""
    values = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if values.ndim > 1 or not ((values >= 0) & np.isfinite(values)).all():
        raise ValueError(f"{name} must be a finite number >= 0, or an array of such numbers; got {values!r}")
    return values


def _for_weights(values: np.ndarray, n_weights: int, name: str) -> np.ndarray:
    """Return a parameter of each weight; shape (n_weights,)."""
    if len(values) not in (1, n_weights):
        raise ValueError(f"the penalty has {len(values)} values of {name}, but there are {n_weights} weights")
    return np.broadcast_to(values, n_weights)


def _of_variables(values: np.ndarray, place: np.ndarray, n_variables: int) -> np.ndarray | None:
    """Return a parameter of variables, given that of their weights; None if some of a variable's weights differ."""
    if len(values) == 1:
        return values
    of_variables = np.empty(n_variables)
    of_variables[place] = values
    return of_variables if (of_variables[place] == values).all() else None


def _of(values: np.ndarray, chosen: np.ndarray | slice) -> np.ndarray:
    """Return the values of some weights; a single value applies to all."""
    return values if len(values) == 1 else values[chosen]

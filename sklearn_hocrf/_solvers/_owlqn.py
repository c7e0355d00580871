"""Orthant-wise limited-memory quasi-Newton method, for penalties with absolute values of the weights."""

from __future__ import annotations

import numpy as np

from ._common import add_values
from ._quasi_newton import Point, QuasiNewton

__all__ = ["OWLQN", "shortest_subgradient"]


class OWLQN(QuasiNewton):
    """Orthant-wise limited-memory quasi-Newton method, for penalties with absolute values of the weights.

    The absolute values are linear within an orthant. Each iteration takes an L-BFGS step for the weights that are not 0
    or that the steepest descent moves away from 0. A weight whose sign would change becomes exactly 0.

    Parameters
    ----------
    tol : float, default=3e-3
        As in :class:`LBFGS`, with the shortest subgradient.
    max_iter : int, default=500
        Maximum number of iterations.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration. If it returns True, training stops.

    References
    ----------
    .. [1] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import OWLQN
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> HighOrderCRF(l1_reg=0.7, solver=OWLQN(tol=1e-6)).fit(X, y).coef_.nnz
    2
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    needs = {"objective": ("value_gradient",), "penalty": ("smooth_value_gradient", "strengths")}
    keeps_equal_weights_equal = True
    most_steps = 40  # of a line search
    rounding = 4 * np.finfo(float).eps  # relative error of values

    def _function(self, objective, penalty, n_weights):
        strength = penalty.strengths(n_weights)

        def evaluate(w):
            value, gradient = add_values(objective.value_gradient(w), penalty.smooth_value_gradient(w))
            total = value + float(strength @ np.abs(w))
            return Point(w, total, gradient, shortest_subgradient(w, gradient, strength))

        return evaluate

    def _search(self, attempt, point, curvature, penalty):
        w, value, _, steepest = point
        strength = penalty.strengths(len(w))
        at_zero = (w == 0) & (strength > 0)
        direction = -curvature.solve(steepest, np.flatnonzero(at_zero & (steepest == 0)))
        # a weight of 0 may move only in the direction of the steepest descent; the others are well inside an orthant
        direction[at_zero & (direction * steepest >= 0)] = 0.0
        orthant = np.where(strength > 0, np.where(w != 0, np.sign(w), -np.sign(steepest)), 0.0)
        step = 1.0 if len(curvature) else 1.0 / max(np.linalg.norm(direction), np.finfo(float).tiny)
        for _ in range(self.most_steps):
            end = w + step * direction
            end[end * orthant < 0] = 0.0
            new = attempt(end)
            step /= 2
            if new is None:
                continue
            if new.value <= value + self.c1 * float(steepest @ (end - w)) and new.value < value:
                return new
            close = new.value <= value + self.rounding * abs(value)  # too close to compare values: compare gradients
            if close and np.linalg.norm(new.steepest) < 0.9 * np.linalg.norm(steepest):
                return new
        return None


def shortest_subgradient(w, gradient, strength) -> np.ndarray:
    """Return the subgradient of least norm of a smooth function plus ``sum(strength * abs(w))``.

    ``gradient`` is the gradient of the smooth function. Where w is 0, the subgradients of the absolute value are all
    slopes in [-1, 1].
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - strength, 0.0)
    return np.where(w != 0, gradient + strength * np.sign(w), at_zero)

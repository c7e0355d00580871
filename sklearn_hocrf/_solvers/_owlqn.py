"""Orthant-wise limited-memory quasi-Newton method, for penalties with absolute values of the weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count

import numpy as np

from ._common import Progress, SolverReport, add_values, gap_above_minimum

__all__ = ["OWLQN", "shortest_subgradient"]


class OWLQN:
    """Orthant-wise limited-memory quasi-Newton method, for penalties with absolute values of the weights.

    Within an orthant the absolute values are linear. Each iteration takes an L-BFGS step for the smooth part, kept to
    the signs of the steepest descent, and cuts it off where a weight would change its sign: there it becomes exactly 0.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when ``norm(g) <= tol * max(1, norm(w))`` for the shortest subgradient g.
    max_iter : int, default=500
        Most iterations.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration.

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

    needs = {"objective": ("value_gradient",), "penalty": ("smooth_value_gradient", "strengths")}
    memory = 10  # correction pairs
    most_steps = 40  # of a line search
    decrease = 1e-4  # share of the linear decrease that a step must reach
    rounding = 4 * np.finfo(float).eps  # relative error of values

    def __init__(self, tol=1e-4, max_iter=500, callback: Callable[[Progress], None] | None = None):
        self.tol, self.max_iter, self.callback = tol, max_iter, callback

    def solve(self, objective, penalty, w0) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``.

        Raises
        ------
        ValueError
            If values or gradients are so large that their squares overflow.
        """
        w = np.array(w0, dtype=np.float64)
        strength = penalty.strengths(len(w))

        passes = count()

        def evaluate(w):
            next(passes)
            value, gradient = add_values(objective.value_gradient(w), penalty.smooth_value_gradient(w))
            return value + float(strength @ np.abs(w)), gradient

        curvature = _Curvature(self.memory)
        value, gradient = evaluate(w)
        history, message = [value], "no iteration is allowed"
        while True:
            steepest = shortest_subgradient(w, gradient, strength)
            norm = float(np.linalg.norm(steepest))
            if len(history) > 1 and self.callback is not None:
                self.callback(Progress(len(history) - 1, value, norm, gap_above_minimum(objective, penalty, norm)))
            converged = norm <= self.tol * max(1.0, np.linalg.norm(w))
            if converged:
                message = "converged"
            if converged or len(history) > self.max_iter:
                break
            found = self._search(evaluate, w, value, steepest, curvature, strength)
            if found is None and len(curvature):  # what is known of the curvature may mislead
                curvature.clear()
                found = self._search(evaluate, w, value, steepest, curvature, strength)
            if found is None:
                message = "no step makes the function smaller"
                break
            new, value, new_gradient = found
            curvature.add(new - w, new_gradient - gradient)
            w, gradient, message = new, new_gradient, "the number of iterations has reached its limit"
            history.append(value)
        gap, n_iter = gap_above_minimum(objective, penalty, norm), len(history) - 1
        return SolverReport(w, n_iter, np.array(history), norm, gap, converged, message, next(passes))

    def _search(self, evaluate, w, value, steepest, curvature, strength):
        """Return a better point, its value and its gradient, or None."""
        direction = -curvature.solve(steepest)
        # for weights that may become 0, the model holds in one orthant only: that of the steepest descent
        direction[(direction * steepest >= 0) & (strength > 0)] = 0.0
        orthant = np.where(strength > 0, np.where(w != 0, np.sign(w), -np.sign(steepest)), 0.0)
        step = 1.0 if len(curvature) else 1.0 / max(np.linalg.norm(steepest), np.finfo(float).tiny)
        for _ in range(self.most_steps):
            new = w + step * direction
            new[new * orthant < 0] = 0.0
            new_value, gradient = evaluate(new)
            if new_value <= value + self.decrease * float(steepest @ (new - w)) and new_value < value:
                return new, new_value, gradient
            if new_value <= value + self.rounding * abs(value):  # too close to tell by values: by gradients, then
                norm = np.linalg.norm(shortest_subgradient(new, gradient, strength))
                if norm < 0.9 * np.linalg.norm(steepest):
                    return new, new_value, gradient
            step /= 2
        return None


class _Curvature:
    """What L-BFGS knows of the Hessian: the last steps, and the changes of the gradient along them."""

    def __init__(self, memory):
        self._pairs: deque = deque(maxlen=memory)

    def __len__(self):
        return len(self._pairs)

    def clear(self):
        self._pairs.clear()

    def add(self, step, change):
        """Take in a step and the change of the gradient, unless the function is not convex along it."""
        product = float(step @ change)
        if product > np.finfo(float).eps * float(change @ change):
            self._pairs.append((step, change, product))

    def solve(self, gradient):
        """Return the inverse Hessian times a vector, by the two-loop recursion; without pairs, the vector."""
        result, factors = gradient.copy(), []
        for step, change, product in reversed(self._pairs):
            factors.append(float(step @ result) / product)
            result -= factors[-1] * change
        if self._pairs:
            _, change, product = self._pairs[-1]
            result *= product / float(change @ change)
        for (step, change, product), factor in zip(self._pairs, reversed(factors), strict=True):
            result += (factor - float(change @ result) / product) * step
        return result


def shortest_subgradient(w, gradient, strength) -> np.ndarray:
    """Return the subgradient of least norm of a smooth function plus ``sum(strength * abs(w))``.

    ``gradient`` is that of the smooth function. Where w is 0, any slope of the absolute value in [-1, 1] will do.
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - strength, 0.0)
    return np.where(w != 0, gradient + strength * np.sign(w), at_zero)

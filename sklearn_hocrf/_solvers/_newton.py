"""Newton's method with conjugate gradients, for smooth functions with second derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from ._common import (
    STOPPED,
    Progress,
    Solver,
    SolverReport,
    add_values,
    gap_above_minimum,
    goal_of_norm,
    reached_tolerance,
)

__all__ = ["NewtonCG"]


class NewtonCG(Solver):
    """Newton's method with steps from conjugate gradients (scipy's Newton-CG).

    Each iteration solves for the Newton step by products of the Hessian with vectors; the smaller the gradient, the
    more precise the solution. A product takes about as long as two gradients and counts as one pass over the data.

    Parameters
    ----------
    tol : float, default=3e-3
        As in :class:`LBFGS`.
    max_iter : int, default=500
        Maximum number of iterations, each of many passes.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration. If it returns True, training stops.

    References
    ----------
    .. [1] Nocedal and Wright, "Numerical optimization", 2nd edition, 2006, section 7.1.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import NewtonCG
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(solver=NewtonCG(tol=1e-8)).fit(X, y)
    >>> round(float(crf.objective_history_[-1]), 3), crf.n_iter_ < crf.n_passes_
    (3.71, True)
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    needs = {"objective": ("value_gradient", "hessp"), "penalty": ("value_gradient", "hessp")}
    instead = "Use solver='lbfgs', which needs no second derivatives and supports l1_reg > 0"
    keeps_equal_weights_equal = True

    progress = 0.5  # scipy is called again if the last call reduced the gradient's norm at least by this factor

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``.

        Raises
        ------
        ValueError
            If values or gradients are so large that their squares overflow, or if second derivatives overflow.
        """
        w = np.array(w0, dtype=np.float64)
        function = _PenalisedObjective(objective, penalty)
        value, gradient = function.value_gradient(w)
        history, message = [value], "no iteration is allowed"
        converged, stopped, failures = reached_tolerance(penalty, w, value, gradient) <= self.tol, False, []

        def report(message=STOPPED):
            norm = float(np.linalg.norm(gradient))
            gap, n_iter = gap_above_minimum(objective, penalty, gradient), len(history) - 1
            return SolverReport(w, n_iter, np.array(history), norm, gap, converged, message, function.n_passes)

        def after_iteration(intermediate_result):
            nonlocal w, gradient, converged, stopped
            if np.array_equal(intermediate_result.x, w):  # below a threshold of scipy's
                return
            w = intermediate_result.x.copy()
            value, gradient = function.value_gradient(w)
            history.append(value)
            reached = reached_tolerance(penalty, w, value, gradient)
            converged = reached <= self.tol
            if self.callback is not None:
                norm = float(np.linalg.norm(gradient))
                gap, goal = gap_above_minimum(objective, penalty, gradient), goal_of_norm(norm, reached, self.tol)
                try:
                    stopped = self._is_stopped(Progress(len(history) - 1, value, norm, gap, report, goal))
                except StopIteration as error:  # which scipy would take for the signal below
                    failures.append(error)
                    raise
            if converged or stopped:
                raise StopIteration

        norm = np.inf
        while not (converged or stopped or len(history) > self.max_iter):
            if not np.linalg.norm(gradient) < self.progress * norm:
                break
            norm = float(np.linalg.norm(gradient))
            change = _Change(function, w, 1 / norm)
            result = minimize(
                change.value_gradient,
                w,
                jac=True,
                hessp=change.hessp,
                method="Newton-CG",
                callback=after_iteration,
                # it stops only where it finds no better point: there values round off, and it is called again, with a
                # finer measure of differences
                options={"maxiter": self.max_iter + 1 - len(history), "xtol": 0},
            )
            if failures:
                raise failures[0]
            message = str(result.message)
        if stopped and not converged:
            return report()._replace(stopped=True)
        return report("converged" if converged else message)


class _PenalisedObjective:
    """The sum of an objective and a penalty, which counts the passes over the data."""

    def __init__(self, objective, penalty):
        self._objective, self._penalty = objective, penalty
        self._newest = None  # as a rule scipy accepts the newest point before it calls back
        self.n_passes = 0

    def value_gradient(self, w):
        if self._newest is None or not np.array_equal(w, self._newest[0]):
            self.n_passes += 1
            total = add_values(self._objective.value_gradient(w), self._penalty.value_gradient(w))
            self._newest = w.copy(), total
        return self._newest[1]

    def hessp(self, w, v):
        self.n_passes += 1
        with np.errstate(over="ignore", invalid="ignore"):
            product = self._objective.hessp(w, v) + self._penalty.hessp(w, v)
        if not np.isfinite(product).all():
            raise ValueError(
                "floating point numbers cannot hold the second derivatives of the minimised function: rescale numeric "
                "features, sample weights or the penalty"
            )
        return product


class _Change:
    """By how much a function differs from its value at some point, times a scale.

    Where the values agree to many digits, the gradients at both ends tell the difference better. Some of scipy's
    thresholds are absolute, hence the scale.
    """

    rounding = 1e-9  # relative difference below which values are not trusted

    def __init__(self, function, start, scale):
        self._function, self._start, self._scale = function, start, scale
        self._value, self._gradient = function.value_gradient(start)

    def value_gradient(self, w):
        value, gradient = self._function.value_gradient(w)
        difference = value - self._value
        if abs(difference) <= self.rounding * abs(self._value):
            difference = 0.5 * float((self._gradient + gradient) @ (w - self._start))
        return self._scale * difference, self._scale * gradient

    def hessp(self, w, v):
        return self._scale * self._function.hessp(w, v)

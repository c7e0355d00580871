"""Limited-memory BFGS: iterations, stopping rule, and the line search for smooth functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

import numpy as np

from ._curvature import LBFGSMemory
from ._owlqn import orthant_search
from .solvers import (
    ARMIJO,
    STOPPED,
    Minimizer,
    Progress,
    Solver,
    SolverReport,
    gap_above_minimum,
    point_of,
    reached_tolerance,
)

_C2 = 0.9  # of the strong Wolfe conditions: largest ratio of the last slope to the first, in absolute values
_MOST_STEPS = 30  # the very first step may be far too long
_WALL = 4.0, 100.0  # a first step whose end is so many times as steep as its start, against it, has met a wall
_ROUNDING = 1e-9  # relative difference below which values are not trusted


class LBFGS(Solver):
    """Limited-memory BFGS.

    Steps satisfy the strong Wolfe conditions. If the line search takes too long, the lowest of the points that satisfy
    Armijo's condition of sufficient decrease is accepted. If two values are so close that their difference consists of
    rounding errors, the difference is computed from the slopes at both ends. A step that overflows is treated as too
    long. If a step ends where the function is much steeper than at its start, the curvature is estimated from the whole
    step, not from the part of it that is accepted.

    Parameters
    ----------
    callback : callable or None, default=None
        Called after each iteration with a named tuple of ``n_iter``; ``value``, the objective plus the penalty;
        ``gradient_norm``; and ``gap``, an upper bound on the distance of the value from the minimum. If it returns
        True, training stops.
    **elsewhere : dict
        Not accepted: ``tol``, ``max_iter``, ``verbose`` and ``random_state`` are parameters of the estimator.

    Raises
    ------
    TypeError
        For parameters of the estimator, and for unknown ones.
    ValueError
        For settings that are out of range.

    Notes
    -----
    Training stops when the bound on the distance from the minimum is at most ``tol**2`` of the function; if no bound is
    available, as without a penalty on all weights, when ``norm(gradient) <= tol * max(1, norm(w))``.

    With ``l1_reg`` > 0, the orthant-wise limited-memory quasi-Newton method takes its place [2]_, with these settings.
    The absolute values are linear within an orthant. Each iteration moves the weights that are not 0 or that the
    steepest descent moves away from 0, towards the minimum of the quadratic model of L-BFGS plus the absolute values
    [3]_. The shortest subgradient replaces the gradient.

    References
    ----------
    .. [1] Nocedal and Wright, "Numerical optimization", 2nd edition, 2006, section 7.2.
    .. [2] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
    .. [3] Lee, Sun and Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM Journal on
       Optimization 24, 2014.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import LBFGS
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> values = []
    >>> solver = LBFGS(callback=lambda progress: values.append(progress.value))
    >>> crf = HighOrderCRF(solver=solver, tol=1e-8).fit(X, y)
    >>> len(values) == crf.n_iter_, round(values[-1], 3)
    (True, 3.435)
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this module

    def __init__(self, *, callback: Callable[[Progress], Any] | None = None, **elsewhere: Never) -> None:
        super().__init__(callback, elsewhere)

    def minimizer(self, tol: float, max_iter: int, callback: Any, random_state: Any) -> LBFGSMinimizer:
        return LBFGSMinimizer(tol, max_iter, callback, random_state)


class LBFGSMinimizer(Minimizer):
    """Minimisation by L-BFGS or, if the penalty has absolute values, by OWL-QN."""

    keeps_equal_weights_equal = True

    def _reached(self, objective, penalty, point) -> float:
        """Return the tolerance for which a point is close enough to the minimum."""
        return reached_tolerance(objective, penalty, point.w, point.value, point.steepest)

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray, curvature: LBFGSMemory | None = None) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``.

        Parameters
        ----------
        objective, penalty : object
            The sum to minimise.
        w0 : ndarray of shape (K,)
            The first weights.
        curvature : LBFGSMemory or None
            Known curvature of the sum near ``w0``, for example from training a similar sum; it is updated. None means
            an empty memory.

        Raises
        ------
        ValueError
            If values or gradients are so large that their squares overflow, at the start or for all lengths of a step.
        """
        search, n_passes, refusal = orthant_search if penalty.is_sparse else line_search, 0, None

        def evaluate(w):
            nonlocal n_passes
            n_passes += 1
            return point_of(objective, penalty, w)

        def attempt(w):
            nonlocal refusal
            refusal = None
            try:
                return evaluate(w)
            except ValueError as error:
                refusal = error
                return None

        def report(converged=False, message=STOPPED):
            gap = gap_above_minimum(objective, penalty, point.steepest)
            return SolverReport(point.w, len(history) - 1, np.array(history), norm, gap, converged, message, n_passes)

        point = evaluate(np.array(w0, dtype=np.float64))
        if curvature is None:
            curvature = LBFGSMemory.of_size(len(w0))
            curvature.expect_from(point.gradient)
        del w0  # which frees its memory if the caller does not keep it
        history, message, stopped = [point.value], "no iteration is allowed", False
        while True:
            norm, reached = float(np.linalg.norm(point.steepest)), self._reached(objective, penalty, point)
            if len(history) > 1 and self.callback is not None:
                gap = gap_above_minimum(objective, penalty, point.steepest)
                goal = norm * self.tol / reached if reached else norm  # at which training ends
                stopped = self._is_stopped(Progress(len(history) - 1, point.value, norm, gap, report, goal))
            converged = reached <= self.tol
            if converged or stopped:
                message = "converged" if converged else STOPPED
            if converged or stopped or len(history) > self.max_iter:
                break
            next_point = search(attempt, point, curvature, penalty)
            if next_point is None and len(curvature):  # the estimate of the curvature may mislead
                curvature.clear()
                next_point = search(attempt, point, curvature, penalty)
            if next_point is None and refusal is not None:  # the shortest step is too long
                raise refusal
            if next_point is None:
                message = "no step decreases the function"
                break
            point, message = next_point, "the maximum number of iterations was reached"
            history.append(point.value)
        return report(converged, message)._replace(stopped=stopped and not converged)


def line_search(attempt, point, curvature, penalty):
    """Return a better point of a smooth function, or None, and add to the curvature what is found along the step.

    Parameters
    ----------
    attempt : callable
        Maps weights to a :class:`Point`, or to None if numbers overflow.
    point : Point
    curvature : LBFGSMemory
    penalty : Penalty
    """
    direction = curvature.solve(point.gradient)
    slope = -float(point.gradient @ direction)
    if not slope < 0 or np.linalg.norm(direction) <= np.finfo(float).eps * np.linalg.norm(point.w):
        return None
    step = 1.0 if len(curvature) else 1.0 / np.linalg.norm(direction)
    best, lowest = None, np.inf
    low, high = (0.0, slope), None  # the desired step is between low, which is too short, and high
    too_long, in_a_row, sees_wall = None, 0, False
    for n_tried in range(_MOST_STEPS):
        end = point.w - step * direction
        if np.array_equal(end, point.w):
            break
        new = attempt(end)
        new_slope, change = np.inf, np.inf
        if new is not None:
            new_slope = -float(new.gradient @ direction)
            change = _change(point, new, 0.5 * step * (slope + new_slope))
        decreases = change <= ARMIJO * step * slope
        if decreases and change < lowest:
            best, lowest = new, change
        if decreases and abs(new_slope) <= -_C2 * slope:
            break
        # the function is flat here and steep there: with the curvature from here alone, the next step would end
        # there again; if it is steeper still, that curvature would leave no step at all
        if n_tried == 0 and len(curvature) and _WALL[0] < new_slope / -slope <= _WALL[1]:
            sees_wall = curvature.add(point, new)
        before, too_long = too_long, not decreases or new_slope > 0
        in_a_row = in_a_row + 1 if too_long == before else 0
        low, high = (low, (step, new_slope)) if too_long else ((step, new_slope), high)
        step = _between(low, high, too_long, in_a_row)
    if best is not None and not sees_wall:
        curvature.add(point, best)
    return best


def _change(point, new, by_slopes):
    """Return the difference of the values, or its estimate by slopes where rounding errors dominate it."""
    change = new.value - point.value
    return by_slopes if abs(change) <= _ROUNDING * abs(point.value) else change


def _between(low, high, too_long, in_a_row):
    """Return the next step to try.

    ``low`` and ``high`` are the steps and slopes at the ends; ``high`` is None if there is no upper end yet. The last
    step was ``too_long`` or too short, as were the ``in_a_row`` steps before it. The more of them, the closer the next
    step is to the other end, because interpolation alone would then move too slowly.
    """
    (short, falling), (long, slope) = low, high or (np.inf, 0.0)
    if long == np.inf:
        return 4 * short
    share = falling / (falling - slope) if slope > 0 else 0.5  # where a linear slope is 0
    most = 0.5**in_a_row
    share = min(share, most) if too_long else max(share, 1 - most)
    return short + min(max(share, 0.1), 0.9) * (long - short)

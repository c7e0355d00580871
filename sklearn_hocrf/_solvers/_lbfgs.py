"""Limited-memory BFGS, for smooth functions."""

from __future__ import annotations

import numpy as np

from ._common import add_values
from ._quasi_newton import Point, QuasiNewton

__all__ = ["LBFGS"]


class LBFGS(QuasiNewton):
    """Limited-memory BFGS.

    Steps satisfy the strong Wolfe conditions. If the line search takes too long, the lowest of the points that satisfy
    Armijo's condition of sufficient decrease is accepted. If two values are so close that their difference consists of
    rounding errors, the difference is computed from the slopes at both ends. A step that overflows is treated as too
    long. If a step ends where the function is much steeper than at its start, the curvature is estimated from the whole
    step, not from the part of it that is accepted.

    Parameters
    ----------
    tol : float, default=3e-3
        Stop when the bound on the distance from the minimum is at most ``tol**2`` of the function; if no bound is
        available, as without a penalty on all weights, when ``norm(gradient) <= tol * max(1, norm(w))``.
    max_iter : int, default=500
        Maximum number of iterations.
    callback : callable or None, default=None
        Called after each iteration with a named tuple of ``n_iter``; ``value``, the objective plus the penalty;
        ``gradient_norm``; and ``gap``, an upper bound on the distance of the value from the minimum. If it returns
        True, training stops.

    Raises
    ------
    ValueError
        For settings that are out of range.

    Notes
    -----
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
    >>> solver = LBFGS(tol=1e-8, callback=lambda progress: values.append(progress.value))
    >>> crf = HighOrderCRF(solver=solver).fit(X, y)
    >>> len(values) == crf.n_iter_, round(values[-1], 3)
    (True, 3.435)
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this module

    keeps_equal_weights_equal = True
    most_steps = 30  # of a line search; the very first step may be far too long
    c2 = 0.9  # of the strong Wolfe conditions: largest ratio of the last slope to the first, in absolute values
    wall = 4.0, 100.0  # a first step whose end is so many times as steep as its start, against it, has met a wall
    rounding = 1e-9  # relative difference below which values are not trusted

    def _function(self, objective, penalty, n_weights):
        def evaluate(w):
            value, gradient = add_values(objective.value_gradient(w), penalty.smooth_value_gradient(w))
            return Point(w, value, gradient, gradient)

        return evaluate

    def _search(self, attempt, point, curvature, penalty):
        direction = curvature.solve(point.gradient)
        slope = -float(point.gradient @ direction)
        if not slope < 0 or np.linalg.norm(direction) <= np.finfo(float).eps * np.linalg.norm(point.w):
            return None
        step = 1.0 if len(curvature) else 1.0 / np.linalg.norm(direction)
        best, lowest = None, np.inf
        low, high = (0.0, slope), None  # the desired step is between low, which is too short, and high
        too_long, in_a_row, sees_wall = None, 0, False
        for n_tried in range(self.most_steps):
            end = point.w - step * direction
            if np.array_equal(end, point.w):
                break
            new = attempt(end)
            new_slope, change = np.inf, np.inf
            if new is not None:
                new_slope = -float(new.gradient @ direction)
                change = self._change(point, new, 0.5 * step * (slope + new_slope))
            decreases = change <= self.c1 * step * slope
            if decreases and change < lowest:
                best, lowest = new, change
            if decreases and abs(new_slope) <= -self.c2 * slope:
                break
            # the function is flat here and steep there: with the curvature from here alone, the next step would end
            # there again; if it is steeper still, that curvature would leave no step at all
            if n_tried == 0 and len(curvature) and self.wall[0] < new_slope / -slope <= self.wall[1]:
                sees_wall = curvature.add(point, new)
            before, too_long = too_long, not decreases or new_slope > 0
            in_a_row = in_a_row + 1 if too_long == before else 0
            low, high = (low, (step, new_slope)) if too_long else ((step, new_slope), high)
            step = _between(low, high, too_long, in_a_row)
        if best is not None and not sees_wall:
            curvature.add(point, best)
        return best

    def _change(self, point, new, by_slopes):
        """Return the difference of the values, or its estimate by slopes where rounding errors dominate it."""
        change = new.value - point.value
        return by_slopes if abs(change) <= self.rounding * abs(point.value) else change


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

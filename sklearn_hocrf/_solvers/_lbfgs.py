"""Limited-memory BFGS, for smooth functions."""

from __future__ import annotations

import numpy as np

from ._common import add_values
from ._quasi_newton import Point, QuasiNewton

__all__ = ["LBFGS"]


class LBFGS(QuasiNewton):
    """Limited-memory BFGS.

    Steps meet the strong Wolfe conditions. Where values agree to so many digits that their difference is made of
    rounding errors, the slopes at both ends tell it.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when ``norm(gradient) <= tol * max(1, norm(w))``.
    max_iter : int, default=500
        Most iterations.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration.

    References
    ----------
    .. [1] Nocedal and Wright, "Numerical optimization", 2nd edition, 2006, section 7.2.

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
    (True, 3.71)
    """

    needs = {"objective": ("value_gradient",), "penalty": ("value_gradient",)}
    instead = "For l1_reg > 0 use solver='lbfgs', which stands for OWLQN then, or an OWLQN"
    most_steps = 20  # of a line search
    flatness = 0.9  # share of the first slope's size that the last one may have
    rounding = 1e-9  # relative difference below which values are not trusted
    least = np.finfo(float).eps ** 1.5  # relative slope below which gradients are not trusted, either

    def _function(self, objective, penalty, n_weights):
        def evaluate(w):
            value, gradient = add_values(objective.value_gradient(w), penalty.value_gradient(w))
            return Point(w, value, gradient, gradient)

        return evaluate

    def _search(self, evaluate, point, curvature, penalty):
        direction = curvature.solve(point.gradient)
        slope = -float(point.gradient @ direction)
        if not slope < -self.least * abs(point.value):
            return None
        step = 1.0 if len(curvature) else 1.0 / np.linalg.norm(point.gradient)
        best, low, high = None, (0.0, slope), None  # the step wanted lies between low, which is too short, and high
        for _ in range(self.most_steps):
            new = evaluate(point.w - step * direction)
            new_slope = -float(new.gradient @ direction)
            change = new.value - point.value
            if abs(change) <= self.rounding * abs(point.value):
                change = 0.5 * step * (slope + new_slope)
            if change > self.decrease * step * slope:
                high = step, new_slope
            else:
                best = new
                if abs(new_slope) <= -self.flatness * slope:
                    break
                low, high = ((step, new_slope), high) if new_slope < 0 else (low, (step, new_slope))
            step = _between(low, high)
        return best


def _between(low, high):
    """Return the next step to try, given the steps and slopes at the ends; ``high`` is None where there is no end."""
    (short, falling), (long, slope) = low, high or (np.inf, 0.0)
    if long == np.inf:
        return 4 * short
    share = falling / (falling - slope) if slope > 0 else 0.5  # the slope is 0 there, if it is linear
    return short + min(max(share, 0.1), 0.9) * (long - short)

"""Orthant-wise limited-memory quasi-Newton method, for penalties with absolute values of the weights.

The absolute values are linear within an orthant. Each iteration moves the weights that are not 0 or that the steepest
descent moves away from 0, towards the minimum of the quadratic model of L-BFGS plus the absolute values [2]_. It is
found by steps of Newton's method within an orthant [1]_: a weight whose sign would change becomes 0.

References
----------
.. [1] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
.. [2] Lee, Sun and Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM Journal on
   Optimization 24, 2014.
"""

from __future__ import annotations

import numpy as np

from .solvers import ARMIJO, shortest_subgradient

MOST_STEPS = 40  # of a line search
ROUNDING = 1e-12  # relative error of values, which are sums: a value may rise by it if the gradient falls
MOST_INNER, INNER_TOL = 10, 0.1  # iterations on the quadratic model, and the share of the subgradient that ends them


def orthant_search(attempt, point, curvature, penalty):
    """Return a better point of a function with absolute values, or None; parameters as of ``line_search``."""
    w, value, gradient, steepest = point
    strength = penalty.strengths(len(w))
    path = _path(point, curvature, strength)
    for halvings in range(MOST_STEPS):
        end = path(0.5**halvings)
        slope = float(gradient @ (end - w) + strength @ (np.abs(end) - np.abs(w)))
        if not slope < 0 or np.array_equal(end, w):
            break
        new = attempt(end)
        if new is None:
            continue
        is_lower = new.value <= value + ARMIJO * slope and new.value < value
        close = new.value <= value + ROUNDING * abs(value)  # too close to compare values: compare gradients
        if is_lower or (close and np.linalg.norm(new.steepest) < 0.9 * np.linalg.norm(steepest)):
            curvature.add(point, new)
            return new
    return None


def _path(point, curvature, strength):
    """Return a function from the length of a step, up to 1, to where it ends.

    The steps lead towards about the minimum of the quadratic model. Without one they follow the gradient within the
    orthant: weights may become 0 at any length, or they would only come closer to it.
    """
    w, _, gradient, steepest = point
    if not len(curvature):
        direction = -curvature.solve(steepest)
        direction /= max(np.linalg.norm(direction), np.finfo(float).tiny)
        return lambda step: _within_orthant(w, step * direction, steepest, strength)
    free = np.flatnonzero((w != 0) | (steepest != 0) | (strength == 0))
    n_pairs = max(curvature.pair_bytes // (32 * max(len(free), 1)), curvature.pairs[0])  # two copies of each
    end = w.copy()
    end[free] = _minimum_of_model(curvature.of(free, n_pairs), w[free], gradient[free], strength[free])
    return lambda step: w + step * (end - w)


def _minimum_of_model(hessian, w, gradient, strength):
    """Return about the minimum of a quadratic function, given at w, plus ``sum(strength * abs(w))``.

    These are steps of Newton's method within an orthant, which need no pass over the data.
    """
    end, slope, lowest, goal = w, gradient, 0.0, 0.0
    for n_done in range(MOST_INNER):
        steepest = shortest_subgradient(end, slope, strength)
        norm = np.linalg.norm(steepest)
        goal = goal if n_done else INNER_TOL * norm
        if norm <= goal:
            break
        direction = -hessian.solve(steepest, (end == 0) & (steepest == 0) & (strength > 0))
        for halvings in range(10):
            new = _within_orthant(end, 0.5**halvings * direction, steepest, strength)
            bent = hessian.times(new - w)
            value = float((gradient + 0.5 * bent) @ (new - w) + strength @ (np.abs(new) - np.abs(w)))
            if value < lowest:
                break
        else:
            break
        end, slope, lowest = new, gradient + bent, value
    return end


def _within_orthant(w, direction, steepest, strength):
    """Return the end of a step where weights that would change their sign are 0; from 0, they descend or stay."""
    end = w + direction
    orthant = np.where(w != 0, w, -steepest)
    end[(strength > 0) & (np.sign(end) != np.sign(orthant))] = 0.0
    return end

"""Convex combinations of sparse vectors, for solvers of dual problems.

The corners of a term are sparse vectors d_i with costs. Their entries lie one after the other: those of corner i are
``starts[i] .. starts[i + 1]`` of ``indices`` and ``values``. Products of corners are weighted by ``variance``.

Shapes: M corners, E entries of all of them, K weights.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def multiply_corners(indices, values, starts, new_indices, new_values, variance, scaled, products):
    """Write the products of a vector with each corner, and with itself: ``products`` (M + 1,) out.

    scaled : (K,)   zeros, left as they were
    """
    for entry in range(len(new_indices)):
        scaled[new_indices[entry]] = new_values[entry] * variance[new_indices[entry]]
    for corner in range(len(starts) - 1):
        total = 0.0
        for entry in range(starts[corner], starts[corner + 1]):
            total += scaled[indices[entry]] * values[entry]
        products[corner] = total
    total = 0.0
    for entry in range(len(new_indices)):
        total += scaled[new_indices[entry]] * new_values[entry]
    products[len(starts) - 1] = total
    for index in new_indices:
        scaled[index] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def exchange_shares(indices, values, starts, costs, products, shares, w, variance, n_steps, steps):
    """Take pairwise Frank-Wolfe steps: move a share from the worst corner that has any to the best one.

    products : (M, M)   of the corners        shares : (M,)   in and out; at least 0, their sum is 1
    w : (K,)   sum over all terms of share * corner * variance, as it was before
    n_steps : most steps        steps : (E,)   out: what the steps add to ``w[indices]``
    Returns whether there were any, and what they add to the sum of share * cost.
    """
    n_corners = len(costs)
    slopes, before = np.empty(n_corners), shares.copy()
    for corner in range(n_corners):
        slope = costs[corner]
        for entry in range(starts[corner], starts[corner + 1]):
            slope -= w[indices[entry]] * values[entry]
        slopes[corner] = slope
    moved = False
    for _ in range(n_steps):
        best, worst = 0, -1
        for corner in range(n_corners):
            if slopes[corner] > slopes[best]:
                best = corner
            if shares[corner] > 0.0 and (worst < 0 or slopes[corner] < slopes[worst]):
                worst = corner
        slope = slopes[best] - slopes[worst]
        if slope <= 0.0:
            break
        moved = True
        curvature = products[best, best] + products[worst, worst] - 2.0 * products[best, worst]
        step = shares[worst]
        if slope < curvature * step:
            step = slope / curvature
            shares[worst] -= step
        else:
            shares[worst] = 0.0
        shares[best] += step
        for corner in range(n_corners):
            slopes[corner] -= step * (products[corner, best] - products[corner, worst])
    cost = 0.0
    if not moved:
        return moved, cost
    for corner in range(n_corners):
        change = shares[corner] - before[corner]
        cost += change * costs[corner]
        for entry in range(starts[corner], starts[corner + 1]):
            steps[entry] = change * values[entry] * variance[indices[entry]]
    return moved, cost

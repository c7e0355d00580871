"""Convex combinations of sparse vectors, for solvers of dual problems; equation (29) of CONTRIBUTING.md.

The atoms of a term are sparse vectors d_i with costs. Their entries lie one after the other: those of atom i are
``starts[i] .. starts[i + 1]`` of ``indices`` and ``values``. Products of atoms are weighted by ``variance``.

Shapes: M atoms, E entries of all of them, K weights.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def multiply_atoms(indices, values, starts, new_indices, new_values, variance, scaled, products):
    """Write the products of a vector with each atom, and with itself: ``products`` (M + 1,) out.

    scaled : (K,)   zeros, left as they were
    """
    for entry in range(len(new_indices)):
        scaled[new_indices[entry]] = new_values[entry] * variance[new_indices[entry]]
    for atom in range(len(starts) - 1):
        total = 0.0
        for entry in range(starts[atom], starts[atom + 1]):
            total += scaled[indices[entry]] * values[entry]
        products[atom] = total
    total = 0.0
    for entry in range(len(new_indices)):
        total += scaled[new_indices[entry]] * new_values[entry]
    products[len(starts) - 1] = total
    for index in new_indices:
        scaled[index] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def exchange_weights(indices, values, starts, costs, products, convex, w, variance, n_steps, steps):
    """Take pairwise Frank-Wolfe steps (29): move weight from the worst atom that has any to the best one.

    products : (M, M)   of the atoms        convex : (M,)   in and out; at least 0, their sum is 1
    w : (K,)   sum over all terms of convex weight * atom * variance, as it was before
    n_steps : most steps        steps : (E,)   out: what the steps add to ``w[indices]``
    Returns whether there were any, and what they add to the sum of convex weight * cost.
    """
    n_atoms = len(costs)
    slopes, before = np.empty(n_atoms), convex.copy()
    for atom in range(n_atoms):
        slope = costs[atom]
        for entry in range(starts[atom], starts[atom + 1]):
            slope -= w[indices[entry]] * values[entry]
        slopes[atom] = slope
    moved = False
    for _ in range(n_steps):
        best, worst = 0, -1
        for atom in range(n_atoms):
            if slopes[atom] > slopes[best]:
                best = atom
            if convex[atom] > 0.0 and (worst < 0 or slopes[atom] < slopes[worst]):
                worst = atom
        slope = slopes[best] - slopes[worst]
        if slope <= 0.0:
            break
        moved = True
        curvature = products[best, best] + products[worst, worst] - 2.0 * products[best, worst]
        step = convex[worst]
        if slope < curvature * step:
            step = slope / curvature
            convex[worst] -= step
        else:
            convex[worst] = 0.0
        convex[best] += step
        for atom in range(n_atoms):
            slopes[atom] -= step * (products[atom, best] - products[atom, worst])
    cost = 0.0
    if not moved:
        return moved, cost
    for atom in range(n_atoms):
        change = convex[atom] - before[atom]
        cost += change * costs[atom]
        for entry in range(starts[atom], starts[atom + 1]):
            steps[entry] = change * values[entry] * variance[indices[entry]]
    return moved, cost

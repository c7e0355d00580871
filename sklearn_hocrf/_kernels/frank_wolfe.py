"""Convex combinations of sparse vectors, for solvers of dual problems; equation (29) of docs/develop/theory.md.

The atoms of a term are sparse vectors d_i with costs. Their entries lie one after the other, in the order in which the
atoms came: those of atom i are ``starts[i] .. starts[i + 1]`` of ``indices`` and ``values``. In the course of a pass a
term gets one new atom at most; the others are listed by term. Products of atoms are weighted by ``variance``.

Shapes: n terms, M atoms, E entries of all of them, m atoms of one term, K weights.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit


class Atoms(NamedTuple):
    """All atoms; there is room for more than there are."""

    indices: np.ndarray  # (E,) int32
    values: np.ndarray  # (E,)
    starts: np.ndarray  # (M + 1,) int64
    costs: np.ndarray  # (M,)
    convex: np.ndarray  # (M,)   weight of each in its term; at least 0, their sum is 1
    terms: np.ndarray  # (M,) int64
    size: np.ndarray  # (1,) int64   number of atoms
    listed: np.ndarray  # int64   the atoms of each term from before the pass, by term
    term_starts: np.ndarray  # (n + 1,) int64   range of each term in ``listed``
    products: np.ndarray  # of each term's listed atoms, m rows of m
    product_starts: np.ndarray  # (n + 1,) int64
    newest: np.ndarray  # (n,) int64   the atom that came in this pass, or -1
    new_products: np.ndarray  # those of new atoms with the listed ones, and with itself: m + 1 from ...
    new_starts: np.ndarray  # (n + 1,) int64   ... here on


class Found(NamedTuple):
    """Vectors that may become atoms, of some terms."""

    costs: np.ndarray
    starts: np.ndarray  # int64
    indices: np.ndarray  # int32
    values: np.ndarray


class Memory(NamedTuple):
    """Working memory."""

    scaled: np.ndarray  # (K,)   zeros, left as they were
    is_touched: np.ndarray  # (K,) bool   False at first
    touched: np.ndarray  # (K,) int32   out: the weights that have moved


@njit(cache=True, nogil=True, error_model="numpy")
def _members(term, atoms, members, products):
    """Write the atoms of a term and their products, and return how many there are."""
    first, n_listed = atoms.term_starts[term], atoms.term_starts[term + 1] - atoms.term_starts[term]
    at = atoms.product_starts[term]
    for row in range(n_listed):
        members[row] = atoms.listed[first + row]
        for column in range(n_listed):
            products[row, column] = atoms.products[at + row * n_listed + column]
    if atoms.newest[term] < 0:
        return n_listed
    members[n_listed] = atoms.newest[term]
    for row in range(n_listed + 1):
        product = atoms.new_products[atoms.new_starts[term] + row]
        products[row, n_listed], products[n_listed, row] = product, product
    return n_listed + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _add(term, number, found, atoms, variance, scaled):
    """Add a found vector to a term, with weight 0, unless the term has it already."""
    first, stop = found.starts[number], found.starts[number + 1]
    listed, at = atoms.listed[atoms.term_starts[term] : atoms.term_starts[term + 1]], atoms.new_starts[term]
    square, n_listed = 0.0, len(listed)
    for entry in range(first, stop):
        weight = found.indices[entry]
        scaled[weight] = found.values[entry] * variance[weight]
        square += scaled[weight] * found.values[entry]
    is_new, cost = True, found.costs[number]
    for row in range(n_listed):
        total, atom = 0.0, listed[row]
        for entry in range(atoms.starts[atom], atoms.starts[atom + 1]):
            total += scaled[atoms.indices[entry]] * atoms.values[entry]
        atoms.new_products[at + row] = total
        distance = atoms.products[atoms.product_starts[term] + row * (n_listed + 1)] + square - 2.0 * total
        is_new = is_new and not (distance <= 1e-9 * square and abs(atoms.costs[atom] - cost) <= 1e-9 * cost)
    atoms.new_products[at + n_listed] = square
    for entry in range(first, stop):
        scaled[found.indices[entry]] = 0.0
    if is_new:
        atom = atoms.size[0]
        begin, end = atoms.starts[atom], atoms.starts[atom] + stop - first
        atoms.indices[begin:end], atoms.values[begin:end] = found.indices[first:stop], found.values[first:stop]
        atoms.starts[atom + 1], atoms.costs[atom], atoms.convex[atom], atoms.terms[atom] = end, cost, 0.0, term
        atoms.newest[term] = atom
        atoms.size[0] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _exchange(members, products, atoms, w, slopes, convex, n_steps):
    """Take pairwise Frank-Wolfe steps (29): move weight from the worst atom that has any to the best one.

    members : (m,)        products : (at least m, at least m)
    w : (K,)   sum over all terms of convex weight * atom * variance
    slopes, convex : (m,)   out: memory, and the new weights
    n_steps : most steps
    Returns whether there were any.
    """
    n_atoms = len(members)
    for number in range(n_atoms):
        atom = members[number]
        slope = atoms.costs[atom]
        for entry in range(atoms.starts[atom], atoms.starts[atom + 1]):
            slope -= w[atoms.indices[entry]] * atoms.values[entry]
        slopes[number], convex[number] = slope, atoms.convex[atom]
    moved = False
    for _ in range(n_steps):
        best, worst = 0, -1
        for number in range(n_atoms):
            if slopes[number] > slopes[best]:
                best = number
            if convex[number] > 0.0 and (worst < 0 or slopes[number] < slopes[worst]):
                worst = number
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
        for number in range(n_atoms):
            slopes[number] -= step * (products[number, best] - products[number, worst])
    return moved


@njit(cache=True, nogil=True, error_model="numpy")
def visit(terms, found, atoms, w, variance, n_steps, memory):
    """Move convex weight between the atoms of some terms, each of which gets what was found for it before.

    terms : (t,) int64        found : ``Found``   for each of the terms, or for none
    w, variance : (K,)   w in and out        n_steps : most steps of a term in a row

    Returns the number of terms of which weight moved, what that adds to the sum of convex weight * cost, and the number
    of weights listed in ``memory.touched``.
    """
    n_moves, gain, n_touched, most = 0, 0.0, 0, 1
    for term in terms:
        most = max(most, atoms.term_starts[term + 1] - atoms.term_starts[term] + 1)
    all_members, products = np.empty(most, np.int64), np.empty((most, most))
    slopes, all_convex = np.empty(most), np.empty(most)
    for number in range(len(terms)):
        term = terms[number]
        if len(found.costs) and (found.costs[number] > 0.0 or found.starts[number + 1] > found.starts[number]):
            _add(term, number, found, atoms, variance, memory.scaled)
        n_atoms = _members(term, atoms, all_members, products)
        members, convex = all_members[:n_atoms], all_convex[:n_atoms]
        if n_atoms < 2 or not _exchange(members, products, atoms, w, slopes, convex, n_steps):
            continue
        n_moves += 1
        for i in range(n_atoms):
            atom = members[i]
            change = convex[i] - atoms.convex[atom]
            if change == 0.0:
                continue
            gain += change * atoms.costs[atom]
            atoms.convex[atom] = convex[i]
            for entry in range(atoms.starts[atom], atoms.starts[atom + 1]):
                weight = atoms.indices[entry]
                w[weight] += change * atoms.values[entry] * variance[weight]
                if not memory.is_touched[weight]:
                    memory.is_touched[weight] = True
                    memory.touched[n_touched] = weight
                    n_touched += 1
    return n_moves, gain, n_touched


@njit(cache=True, nogil=True, error_model="numpy")
def prune(atoms, places, products, product_starts):
    """Keep some atoms, which move to the front in their order.

    places : (M,) int64   where each atom goes, -1 for those that are dropped
    products, product_starts : out, of the atoms that are kept
    """
    most = 1
    for term in range(len(atoms.newest)):
        most = max(most, atoms.term_starts[term + 1] - atoms.term_starts[term] + 1)
    members, table = np.empty(most, np.int64), np.empty((most, most))
    for term in range(len(atoms.newest)):
        at, n_atoms = product_starts[term], _members(term, atoms, members, table)
        for row in range(n_atoms):
            for column in range(n_atoms):
                if places[members[row]] >= 0 and places[members[column]] >= 0:
                    products[at] = table[row, column]
                    at += 1
        product_starts[term + 1] = at
    end = 0
    for atom in range(len(places)):
        begin, stop, place = atoms.starts[atom], atoms.starts[atom + 1], places[atom]
        if place < 0:
            continue
        for entry in range(begin, stop):
            atoms.indices[end], atoms.values[end] = atoms.indices[entry], atoms.values[entry]
            end += 1
        atoms.costs[place], atoms.convex[place] = atoms.costs[atom], atoms.convex[atom]
        atoms.terms[place], atoms.starts[place + 1] = atoms.terms[atom], end

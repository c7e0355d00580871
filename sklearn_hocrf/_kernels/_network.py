"""The sum network, sums of logarithms, the arcs that a state uses, and the limits of scaled passes: shared by kernels.

The network evaluates ``m = S alpha`` (equation 7 of docs/develop/theory.md), and its transpose ``beta = S^T b`` (11),
by the shared additions (8); ``_structure.sum_network`` builds it. Both exist for tables of lanes and for arrays of
logarithms, the transpose also in the (max, +) semiring. Logarithms may be complex, and are compared by their real
parts.

Shapes: P states, A arcs, I and J nodes of the network and of its transpose, W lanes.
"""

import numpy as np

from ._jit import njit
from ._vectors import add, largest, load, store

TINY = 1e-200  # not 1e-300: the backward pass divides by such a number and multiplies the result
SMALLEST_TOTAL = 1e-80
LEAST_SHARE = 1e-220  # smallest alpha of a reachable state: it stays a normal number if its row is divided by its total
# A state that has lost, or gained, less than LEAST_SHARE at each of 1e9 tokens and in each of 1e5 states changes Z by
# less than 1e-21 if no beta is larger, in the units in which alpha . beta = 1.
LARGEST_BETA = 1e185
DOUBTFUL = 0.5  # of a suspect lane: right if no beta is larger
LOWEST_LOG = -644.0  # exp of it, about 1e-280, is the smallest weight
HUGE = 1e300  # added to a score, it leaves a positive number unless the score is -inf


@njit(cache=True, nogil=True, error_model="numpy")
def sum_network(lane_kind, starts, terms, n_states, values):
    """Evaluate the sum network: ``values`` is (P + I, W); its first P rows, alpha, are given."""
    for node in range(len(starts) - 1):
        start = starts[node]
        total = add(load(values, terms[start], lane_kind), load(values, terms[start + 1], lane_kind))
        for term in range(start + 2, starts[node + 1]):
            total = add(total, load(values, terms[term], lane_kind))
        store(values, n_states + node, total)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_adjoints(lane_kind, back_starts, back_terms, n_arcs, adjoints):
    """Evaluate the transposed network: ``adjoints`` is (A + J + P, W); its first A rows, b, are given."""
    for node in range(len(back_starts) - 1):
        start = back_starts[node]
        total = load(adjoints, back_terms[start], lane_kind)
        for term in range(start + 1, back_starts[node + 1]):
            total = add(total, load(adjoints, back_terms[term], lane_kind))
        store(adjoints, n_arcs + node, total)


@njit(cache=True, nogil=True, error_model="numpy")
def largest_adjoints(lane_kind, back_starts, back_terms, n_arcs, adjoints):
    """Evaluate the transposed network in the (max, +) semiring."""
    for node in range(len(back_starts) - 1):
        start = back_starts[node]
        most = load(adjoints, back_terms[start], lane_kind)
        for term in range(start + 1, back_starts[node + 1]):
            most = largest(most, load(adjoints, back_terms[term], lane_kind))
        store(adjoints, n_arcs + node, most)


@njit(cache=True, nogil=True, error_model="numpy")
def resolve(outgoing, source_arcs, arc_label, fail, state, arc_of_label):
    """Find, for each label, the arc that ``state`` uses: its own, or the arc of the nearest suffix that has one.

    The arrays of the automaton are passed one by one: a tuple would be compiled anew for each kind of tuple.
    """
    for label in range(len(arc_of_label)):
        arc_of_label[label] = -1
    missing = len(arc_of_label)
    while True:
        for index in range(outgoing[state], outgoing[state + 1]):
            arc = source_arcs[index]
            if arc_of_label[arc_label[arc]] < 0:
                arc_of_label[arc_label[arc]] = arc
                missing -= 1
        if missing == 0:
            return
        state = fail[state]


@njit(cache=True, nogil=True, error_model="numpy")
def arc_log(weighted_arcs, varying_log, row, arc):
    """Return the log score of an arc in a row: the constant part, and the varying part if there is one."""
    varying_id = weighted_arcs.arc_varying[arc]
    score = weighted_arcs.arc_score[arc]
    return score if varying_id < 0 else score + varying_log[row * len(weighted_arcs.varying_arc) + varying_id, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def largest_of(values):
    """Return the value with the largest real part."""
    top = values[0]
    for value in values:
        if value.real > top.real:
            top = value
    return top


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum(values):
    """Return log sum exp(values); -inf if all values are."""
    top = largest_of(values)
    if top.real == -np.inf:
        return top
    total = np.exp(values[0] - top)
    for value in values[1:]:
        total += np.exp(value - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def log_sum_of(values, terms, start, stop):
    """Return log sum exp of the values with the indices ``terms[start:stop]``."""
    top = values[terms[start]]
    for term in range(start + 1, stop):
        if values[terms[term]].real > top.real:
            top = values[terms[term]]
    if top.real == -np.inf:
        return top
    total = np.exp(values[terms[start]] - top)
    for term in range(start + 1, stop):
        total += np.exp(values[terms[term]] - top)
    return top + np.log(total)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_network_log(starts, terms, alpha, values):
    """Evaluate the sum network in the log semiring: ``values`` (P + I,) out, ``alpha`` (P,)."""
    values[: len(alpha)] = alpha
    for node in range(len(starts) - 1):
        values[len(alpha) + node] = log_sum_of(values, terms, starts[node], starts[node + 1])


@njit(cache=True, nogil=True, error_model="numpy")
def sum_adjoints_log(starts, terms, n_arcs, adjoints):
    """Evaluate the transposed network in the log semiring; arguments as in ``sum_adjoints``."""
    for node in range(len(starts) - 1):
        adjoints[n_arcs + node] = log_sum_of(adjoints, terms, starts[node], starts[node + 1])


@njit(cache=True, nogil=True, error_model="numpy")
def log_add(left, right):
    """Return log(exp(left) + exp(right))."""
    if left.real < right.real:
        left, right = right, left
    return left if right.real == -np.inf else left + np.log1p(np.exp(right - left))

"""Functions and constants that kernels share: the sum network, the arcs of a state, bisection, limits of scaled passes.

The network evaluates ``m = S alpha`` (equation 7 of docs/develop/theory.md), and its transpose ``beta = S^T b`` (11),
with shared additions (8); ``_engine.structure.sum_network`` builds it. For decoding, kernels evaluate the transpose
in the (max, +) semiring.

Shapes: P states, A arcs, I and J nodes of the network and of its transpose, W lanes.
"""

import numpy as np

from ._jit import njit
from ._vectors import add, exp, fill, fill_dual, fill_weight, largest, limit, load, multiply, smallest, store

TINY = 1e-200  # not 1e-300: the backward pass divides by numbers of this size and multiplies the results
SMALLEST_TOTAL = 1e-80
LEAST_SHARE = 1e-220  # least alpha of a reachable state; still a normal number after division by its row's total
# If alpha is wrong by less than LEAST_SHARE in each of 1e5 states at each of 1e9 tokens, Z changes by less than 1e-21,
# provided that no beta exceeds LARGEST_BETA, in units in which alpha . beta = 1.
LARGEST_BETA = 1e185
DOUBTFUL = 0.5  # mark of a lane whose results are correct if no beta exceeds LARGEST_BETA
LOWEST_LOG = -644.0  # its exponential, about 1e-280, is the smallest weight
HUGE = 1e300  # the sum of a score and HUGE is positive unless the score is -inf


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def weight_of(weighted_arcs, arc, lane_kind):
    """Return lanes that contain the weight of an arc whose score is constant."""
    return fill_weight(
        weighted_arcs.arc_weight[arc],
        weighted_arcs.arc_weight_derivative[arc],
        weighted_arcs.arc_score[arc] - weighted_arcs.log_shift,
        weighted_arcs.arc_score_derivative[arc],
        lane_kind,
    )


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def weigh_varying_arcs(lane_kind, weighted_arcs, scores, first, row, highest, varying_log, varying):
    """Write the weights of the varying arcs at a position, without the emission, to a row of ``varying`` (R * Q, W).

    Return the least of all differences ``log - LOWEST_LOG`` and ``highest - log``, where ``log`` is the logarithm of a
    weight; it is positive if all logarithms lie between the limits.

    scores : table of score columns, in which the rows of the position begin at ``first``
    varying_log : (Q, W)   overwritten
    """
    n_varying = len(weighted_arcs.varying_arc)
    zero, minus, margin = fill(0.0, lane_kind), fill(-1.0, lane_kind), fill(np.inf, lane_kind)
    lowest_safe, highest_safe = limit(LOWEST_LOG, lane_kind), limit(highest, lane_kind)
    for varying_id in range(n_varying):  # (6)
        arc, suffix = weighted_arcs.varying_arc[varying_id], weighted_arcs.varying_suffix[varying_id]
        column = weighted_arcs.varying_column[varying_id]
        total = load(scores, first + column, lane_kind) if column >= 0 else zero
        if suffix >= 0:
            total = add(total, load(varying_log, suffix, lane_kind))
        store(varying_log, varying_id, total)
        constant = weighted_arcs.arc_score[arc] - weighted_arcs.log_shift
        if constant == -np.inf:
            store(varying, row * n_varying + varying_id, zero)
            continue
        total = add(total, fill_dual(constant, weighted_arcs.arc_score_derivative[arc], lane_kind))
        margin = smallest(add(total, limit(-LOWEST_LOG, lane_kind)), margin)
        margin = smallest(add(multiply(minus, total), highest_safe), margin)
        total = smallest(largest(total, lowest_safe), highest_safe)
        store(varying, row * n_varying + varying_id, exp(total))
    return margin


@njit(cache=True, nogil=True, error_model="numpy")
def sum_network(lane_kind, starts, terms, n_states, values):
    """Evaluate the sum network in ``values`` (P + I, W), whose first P rows contain alpha."""
    for node in range(len(starts) - 1):
        start = starts[node]
        total = add(load(values, terms[start], lane_kind), load(values, terms[start + 1], lane_kind))
        for term in range(start + 2, starts[node + 1]):
            total = add(total, load(values, terms[term], lane_kind))
        store(values, n_states + node, total)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_adjoints(lane_kind, back_starts, back_terms, n_arcs, adjoints):
    """Evaluate the transposed network in ``adjoints`` (A + J + P, W), whose first A rows contain b."""
    for node in range(len(back_starts) - 1):
        start = back_starts[node]
        total = load(adjoints, back_terms[start], lane_kind)
        for term in range(start + 1, back_starts[node + 1]):
            total = add(total, load(adjoints, back_terms[term], lane_kind))
        store(adjoints, n_arcs + node, total)


@njit(cache=True, nogil=True, error_model="numpy")
def count_columns(lane_kind, weighted_arcs, used, scores, first):
    """Write the marginals of score columns: sums over the varying arcs that end with the column's pattern (13).

    used : (Q, W)   marginals of the varying arcs, overwritten
    scores : table of score columns, in which the rows of the position begin at ``first``
    """
    for column in weighted_arcs.varying_column:  # arcs may share a column
        if column >= 0:
            store(scores, first + column, fill(0.0, lane_kind))
    for varying_id in range(len(weighted_arcs.varying_arc) - 1, -1, -1):  # longest first
        suffix, column = weighted_arcs.varying_suffix[varying_id], weighted_arcs.varying_column[varying_id]
        marginal = load(used, varying_id, lane_kind)
        if suffix >= 0:
            store(used, suffix, add(load(used, suffix, lane_kind), marginal))
        if column >= 0:
            store(scores, first + column, add(load(scores, first + column, lane_kind), marginal))


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
    """Write, for each label, the arc that ``state`` uses (5): its own arc, or that of its longest suffix that has one.

    Callers pass the arrays of the automaton one by one, because numba would compile the kernel anew for each type of
    tuple.
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
def log_add(left, right):
    """Return log(exp(left) + exp(right))."""
    if left < right:
        left, right = right, left
    return left if right == -np.inf else left + np.log1p(np.exp(right - left))


@njit(cache=True, nogil=True, error_model="numpy")
def first_at_least(values, start, stop, value):
    """Return the first position in [start, stop) at which the ascending ``values`` reach ``value``; else ``stop``."""
    while start < stop:
        middle = (start + stop) >> 1
        if values[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start

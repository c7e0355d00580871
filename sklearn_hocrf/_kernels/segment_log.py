"""Log-space twins of ``segment``: one sequence at a time, for the lanes that scaling cannot represent.

Same recursions and the same sum network, in the semiring (logaddexp, +) of equation (16) of CONTRIBUTING.md; impossible
is -inf. Rows of alpha are normalised to a total of 1 here, too: numbers that grew with the length would lose their last
digits. Shapes as in ``segment``; tables have one lane, arrays of this file have none. Complex tables
give derivatives, as in ``chain_log``.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import arc_log, log_add, log_sum, sum_adjoints_log, sum_network_log

NETWORK_SOURCE = "6ce609e65b95010a"


class SegmentLogTables(NamedTuple):
    """The tables of a sequence of T tokens."""

    scores: np.ndarray  # (T * C, 1)   of tokens
    cells: np.ndarray  # (T * E, 1)   log scores, then probabilities of segments
    varying: np.ndarray  # (T * Q, 1)   log scores of the varying arcs
    begin: np.ndarray  # (T, P)
    span_begin: np.ndarray  # (T, H)
    alpha: np.ndarray  # (T + 1, P)
    log_total: np.ndarray  # (T,)   logarithm of the scale of each row
    reach: np.ndarray  # (T, P)   overwritten by the backward pass
    span_reach: np.ndarray  # (T, H)   overwritten by the backward pass


@njit(cache=True, nogil=True, error_model="numpy")
def forward_log(weighted_arcs, index, tables):
    """Return log Z of a sequence of T tokens.

    tables : ``SegmentLogTables``   cells and varying in; begin, span_begin, alpha and log_total out
    """
    _, table, varying_log, begin, span_begin, alpha, log_total, _, _ = tables
    n_states, n_spans, n_cells = len(weighted_arcs.fail), len(index.span_arc), index.first_cell[-1]
    n_tokens = len(begin)
    values = np.empty(n_states + len(weighted_arcs.starts) - 1, alpha.dtype)
    terms = np.empty(index.longest.max() + 1, alpha.dtype)
    log_z, total = 0.0, 0.0
    alpha[0] = -np.inf
    alpha[0, 0] = 0.0
    for row in range(n_tokens):
        # m = S alpha, and begin (18)
        sum_network_log(weighted_arcs.starts, weighted_arcs.terms, alpha[row], values)
        begin[row] = -np.inf
        for state in range(1, n_states):
            for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                weighted = values[weighted_arcs.arc_value[arc]] + arc_log(weighted_arcs, varying_log, row, arc)
                number = index.arc_span[arc]
                if number >= 0:
                    span_begin[row, number] = weighted
                else:
                    begin[row, state] = log_add(begin[row, state], weighted)
        alpha[row + 1] = -np.inf
        for state in range(1, n_states):  # (19)
            label = weighted_arcs.state_label[state]
            first = row * n_cells + index.first_cell[label] - 1
            longest = min(index.longest[label], row + 1)
            between = 0.0
            for d in range(1, longest + 1):
                if d > 1:
                    between += log_total[row + 1 - d]
                terms[d - 1] = begin[row + 1 - d, state] + table[first + d, 0] - between
            alpha[row + 1, state] = log_sum(terms[:longest])
        for number in range(n_spans):  # (20)
            arc = index.span_arc[number]
            label, state = weighted_arcs.arc_label[arc], weighted_arcs.arc_target[arc]
            first = row * n_cells + index.first_cell[label] - 1
            between = 0.0
            for d in range(1, min(index.longest[label], row + 1) + 1):
                if d > 1:
                    between += log_total[row + 1 - d]
                score = table[first + d, 0] + _span_log(index, number, d, row * n_cells, table) - between
                alpha[row + 1, state] = log_add(alpha[row + 1, state], span_begin[row + 1 - d, number] + score)
        total = log_sum(alpha[row + 1])
        log_total[row] = 0.0 if total.real == -np.inf else total  # a border that nothing reaches
        alpha[row + 1] -= log_total[row]
        log_z += log_total[row]
    return -np.inf if total.real == -np.inf and log_z.real < np.inf else log_z


@njit(cache=True, nogil=True, error_model="numpy")
def backward_log(weighted_arcs, index, tables, weight, counts):
    """Turn cells into probabilities of segments, in place, and add arc marginals, times ``weight``, to ``counts``.

    tables : ``SegmentLogTables``   from ``forward_log``; out: P(pattern starts here) in the columns of scores of the
        varying arcs, and P(segment), or P(segment and pattern), in all cells
    counts : (A, W)   increased, in lane 0
    """
    scores, table, varying_log, begin, span_begin, alpha, log_total, reach, span_reach = tables
    n_states, n_arcs, n_labels = len(weighted_arcs.fail), len(weighted_arcs.arc_varying), weighted_arcs.n_labels
    n_spans, n_varying, n_cells = len(index.span_arc), len(weighted_arcs.varying_arc), index.first_cell[-1]
    n_tokens = len(begin)
    n_columns = len(scores) // n_tokens
    n_longest = index.longest.max()
    values = np.empty(n_states + len(weighted_arcs.starts) - 1, alpha.dtype)
    adjoints = np.empty(n_arcs + len(weighted_arcs.back_starts) - 1, alpha.dtype)
    varying_marginals = np.empty(n_varying, alpha.dtype)
    ends = np.zeros(n_states, alpha.dtype)
    used = np.zeros((n_spans, n_longest), alpha.dtype)
    reach[:] = -np.inf
    span_reach[:] = -np.inf
    for row in range(n_tokens - 1, -1, -1):
        for state in range(n_states):
            ends[state] = ends[state] - log_total[row] if alpha[row + 1, state].real > -np.inf else -np.inf
        for number in range(n_spans):  # (20) times beta, and its reach (21)
            arc = index.span_arc[number]
            label, end = weighted_arcs.arc_label[arc], ends[weighted_arcs.arc_target[arc]]
            first = row * n_cells + index.first_cell[label] - 1
            between = 0.0
            for d in range(1, min(index.longest[label], row + 1) + 1):
                start = row + 1 - d
                if d > 1:
                    between += log_total[start]
                onward = table[first + d, 0] + _span_log(index, number, d, row * n_cells, table) - between + end
                span_reach[start, number] = log_add(span_reach[start, number], onward)
                used[number, d - 1] = np.exp(span_begin[start, number] + onward)
        for label in range(n_labels):  # reach (21) and probabilities of segments (23)
            first = row * n_cells + index.first_cell[label] - 1
            between = 0.0
            for d in range(1, min(index.longest[label], row + 1) + 1):
                start, probability = row + 1 - d, 0.0
                if d > 1:
                    between += log_total[start]
                for state in range(index.first_state[label], index.first_state[label + 1]):
                    onward = table[first + d, 0] - between + ends[state]
                    reach[start, state] = log_add(reach[start, state], onward)
                    probability += np.exp(begin[start, state] + onward)
                table[first + d, 0] = probability
        for scored in range(n_labels, len(index.longest)):
            first = row * n_cells + index.first_cell[scored]
            for d in range(1, min(index.longest[scored], row + 1) + 1):
                table[first + d - 1, 0] = 0.0
        for number in range(n_spans):  # each arc counts for its label, and for all its suffix patterns
            label = weighted_arcs.arc_label[index.span_arc[number]]
            for d in range(1, min(index.longest[label], row + 1) + 1):
                table[row * n_cells + index.first_cell[label] + d - 1, 0] += used[number, d - 1]
                suffix = number
                while suffix >= 0:
                    scored = index.span_scored[suffix]
                    if scored >= 0:
                        table[row * n_cells + index.first_cell[scored] + d - 1, 0] += used[number, d - 1]
                    suffix = index.span_suffix[suffix]
        sum_network_log(weighted_arcs.starts, weighted_arcs.terms, alpha[row], values)
        varying_marginals[:] = 0.0
        for state in range(1, n_states):  # (22)
            for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                number = index.arc_span[arc]
                onward = span_reach[row, number] if number >= 0 else reach[row, state]
                adjoints[arc] = onward + arc_log(weighted_arcs, varying_log, row, arc)
                marginal = np.exp(adjoints[arc] + values[weighted_arcs.arc_value[arc]])
                counts[arc, 0] += weight * marginal
                if weighted_arcs.arc_varying[arc] >= 0:
                    varying_marginals[weighted_arcs.arc_varying[arc]] = marginal
        # beta = S^T b (21)
        sum_adjoints_log(weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
        ends[:] = adjoints[len(adjoints) - n_states :]
        for varying_number in range(n_varying - 1, -1, -1):
            if weighted_arcs.varying_suffix[varying_number] >= 0:
                varying_marginals[weighted_arcs.varying_suffix[varying_number]] += varying_marginals[varying_number]
            if weighted_arcs.varying_column[varying_number] >= 0:
                scores[row * n_columns + weighted_arcs.varying_column[varying_number], 0] = varying_marginals[
                    varying_number
                ]


@njit(cache=True, nogil=True, error_model="numpy")
def _span_log(index, number, d, first_cell, table):
    """Return the score of a span arc for a segment of d tokens: the sum over its suffix patterns."""
    total = 0.0
    while number >= 0:
        scored = index.span_scored[number]
        if scored >= 0:
            total += table[first_cell + index.first_cell[scored] + d - 1, 0]
        number = index.span_suffix[number]
    return total

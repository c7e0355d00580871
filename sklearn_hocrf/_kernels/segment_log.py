"""Log-space twins of ``segment``: one sequence at a time, for the lanes that scaling cannot represent.

Same recursions and the same sum network, in the semiring (logaddexp, +) of equation (16) of docs/develop/theory.md;
impossible is -inf. Rows of alpha are also normalised to a total of 1: numbers that grow with the length would lose
their last digits. Shapes as in ``segment``; tables have one lane, arrays of this file have none. Complex tables give
derivatives, as in ``chain_log``.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import arc_log, log_add, log_sum, sum_adjoints_log, sum_network_log


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
                span = index.arc_span[arc]
                if span >= 0:
                    span_begin[row, span] = weighted
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
        for span in range(n_spans):  # (20)
            arc = index.span_arc[span]
            label, state = weighted_arcs.arc_label[arc], weighted_arcs.arc_target[arc]
            first = row * n_cells + index.first_cell[label] - 1
            between = 0.0
            for d in range(1, min(index.longest[label], row + 1) + 1):
                if d > 1:
                    between += log_total[row + 1 - d]
                score = table[first + d, 0] + _span_log(index, span, d, row * n_cells, table) - between
                alpha[row + 1, state] = log_add(alpha[row + 1, state], span_begin[row + 1 - d, span] + score)
        total = log_sum(alpha[row + 1])
        log_total[row] = 0.0 if total.real == -np.inf else total  # a border that nothing reaches
        alpha[row + 1] -= log_total[row]
        log_z += log_total[row]
    return -np.inf if total.real == -np.inf and log_z.real < np.inf else log_z


@njit(cache=True, nogil=True, error_model="numpy")
def backward_log(weighted_arcs, index, tables, weight, counts):
    """Turn cells into probabilities of segments, in place, and add arc marginals, times ``weight``, to ``counts``.

    tables : ``SegmentLogTables``   from ``forward_log``; out: P(pattern starts here) in the columns of scores of the
        varying arcs, and P(segment), or P(segment and pattern), in all cells; log beta in place of alpha after each row
    counts : (A, W)   increased, in lane 0
    """
    n_states, n_arcs, alpha = len(weighted_arcs.fail), len(weighted_arcs.arc_varying), tables.alpha
    values = np.empty(n_states + len(weighted_arcs.starts) - 1, alpha.dtype)
    adjoints = np.empty(n_arcs + len(weighted_arcs.back_starts) - 1, alpha.dtype)
    varying_marginals = np.empty(len(weighted_arcs.varying_arc), alpha.dtype)
    ends = np.zeros(n_states, alpha.dtype)
    used = np.zeros((len(index.span_arc), index.longest.max()), alpha.dtype)
    tables.reach[:] = -np.inf
    tables.span_reach[:] = -np.inf
    for row in range(len(tables.begin) - 1, -1, -1):
        for state in range(n_states):
            alpha[row + 1, state] = ends[state] if alpha[row + 1, state].real > -np.inf else -np.inf
            ends[state] = alpha[row + 1, state] - tables.log_total[row]
        _reach_span_arcs(weighted_arcs, index, tables, row, ends, used)
        _reach_states(index, tables, row, ends)
        _count_span_arcs(weighted_arcs, index, tables, row, used)
        sum_network_log(weighted_arcs.starts, weighted_arcs.terms, alpha[row], values)
        varying_marginals[:] = 0.0
        for state in range(1, n_states):  # (22)
            for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                span = index.arc_span[arc]
                onward = tables.span_reach[row, span] if span >= 0 else tables.reach[row, state]
                adjoints[arc] = onward + arc_log(weighted_arcs, tables.varying, row, arc)
                marginal = np.exp(adjoints[arc] + values[weighted_arcs.arc_value[arc]])
                counts[arc, 0] += weight * marginal
                if weighted_arcs.arc_varying[arc] >= 0:
                    varying_marginals[weighted_arcs.arc_varying[arc]] = marginal
        # beta = S^T b (21)
        sum_adjoints_log(weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
        ends[:] = adjoints[len(adjoints) - n_states :]
        _count_columns(weighted_arcs, tables, row, varying_marginals)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _reach_span_arcs(weighted_arcs, index, tables, row, ends, used):
    """Add to span_reach (21), and compute the probabilities of the arcs' segments: (20) times beta."""
    for span in range(len(index.span_arc)):
        arc = index.span_arc[span]
        label, end = weighted_arcs.arc_label[arc], ends[weighted_arcs.arc_target[arc]]
        row_cell = row * index.first_cell[-1]
        first, between = row_cell + index.first_cell[label] - 1, 0.0
        for d in range(1, min(index.longest[label], row + 1) + 1):
            start = row + 1 - d
            if d > 1:
                between += tables.log_total[start]
            score = tables.cells[first + d, 0] + _span_log(index, span, d, row_cell, tables.cells)
            onward = score - between + end
            tables.span_reach[start, span] = log_add(tables.span_reach[start, span], onward)
            used[span, d - 1] = np.exp(tables.span_begin[start, span] + onward)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _reach_states(index, tables, row, ends):
    """Add to reach (21), and turn the labels' cells into probabilities, without span arcs (23)."""
    for label in range(len(index.first_state) - 1):
        first, between = row * index.first_cell[-1] + index.first_cell[label] - 1, 0.0
        for d in range(1, min(index.longest[label], row + 1) + 1):
            start, probability = row + 1 - d, 0.0
            if d > 1:
                between += tables.log_total[start]
            for state in range(index.first_state[label], index.first_state[label + 1]):
                onward = tables.cells[first + d, 0] - between + ends[state]
                tables.reach[start, state] = log_add(tables.reach[start, state], onward)
                probability += np.exp(tables.begin[start, state] + onward)
            tables.cells[first + d, 0] = probability


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _count_span_arcs(weighted_arcs, index, tables, row, used):
    """Add the probabilities of span arcs' segments to the cells of their labels and of all their suffix patterns."""
    row_cell = row * index.first_cell[-1]
    for scored in range(weighted_arcs.n_labels, len(index.longest)):
        first = row_cell + index.first_cell[scored]
        for d in range(1, min(index.longest[scored], row + 1) + 1):
            tables.cells[first + d - 1, 0] = 0.0
    for span in range(len(index.span_arc)):
        label = weighted_arcs.arc_label[index.span_arc[span]]
        for d in range(1, min(index.longest[label], row + 1) + 1):
            tables.cells[row_cell + index.first_cell[label] + d - 1, 0] += used[span, d - 1]
            suffix = span
            while suffix >= 0:
                scored = index.span_scored[suffix]
                if scored >= 0:
                    tables.cells[row_cell + index.first_cell[scored] + d - 1, 0] += used[span, d - 1]
                suffix = index.span_suffix[suffix]


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _count_columns(weighted_arcs, tables, row, varying_marginals):
    """Write the marginals of score columns: sums over the arcs that have the column's pattern as a suffix."""
    n_columns = len(tables.scores) // len(tables.begin)
    for varying_id in range(len(varying_marginals) - 1, -1, -1):
        suffix, column = weighted_arcs.varying_suffix[varying_id], weighted_arcs.varying_column[varying_id]
        if suffix >= 0:
            varying_marginals[suffix] += varying_marginals[varying_id]
        if column >= 0:
            tables.scores[row * n_columns + column, 0] = varying_marginals[varying_id]


@njit(cache=True, nogil=True, error_model="numpy")
def _span_log(index, span, d, first_cell, table):
    """Return the score of a span arc for a segment of d tokens: the sum over its suffix patterns."""
    total = 0.0
    while span >= 0:
        scored = index.span_scored[span]
        if scored >= 0:
            total += table[first_cell + index.first_cell[scored] + d - 1, 0]
        span = index.span_suffix[span]
    return total

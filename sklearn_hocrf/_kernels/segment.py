"""Forward and backward passes of a high-order semi-Markov chain, and Viterbi segmentation.

Which label comes next and how long it lasts are separate steps, (18) and (19). At the border u
the automaton moves, as in ``chain``; then a segment [u, v) of d = v - u tokens follows. With ``x(u, v, y)`` the
exponentiated score of a segment, S and R as in ``_structure.sum_network``, y(s) the last label of state s:

    border     m(u) = S alpha(u)                      begin(u) = R (w(u) m(u))                           (18)
    segments   alpha(v, s) = sum over d of begin(v - d, s) x(v - d, v, y(s))                             (19)
    backward   reach(u, s) = sum over d of x(u, u + d, y(s)) beta(u + d, s)
               beta(u) = S^T (w(u) R^T reach(u))                                                         (21)
    marginals  P(arc a at u) = m_a(u) w_a(u) reach_a(u)                                                  (22)
               P(u, v, y) = x(u, v, y) sum over s of begin(u, s) beta(v, s)                              (23)

Arcs some of whose suffix patterns of two or more labels have scores of their own for the whole segment (*span arcs*)
are kept out of ``begin`` and summed apart (20), with their own factor for each length. Equations are those of
CONTRIBUTING.md, where F is ``begin`` and G is ``reach``.

Each alpha(v) is scaled to a total of 1. A segment spans several borders, so the logarithms of the scales between its
ends go into its score before exp is taken, and so does the highest score of the row. Lanes in which anything
structurally reachable falls out of the range of floating point numbers are reported as *suspect* and done again by the
log-space twin (``segment_log``).

Shapes: B blocks, W lanes, R rows (tokens of all blocks), C score columns, E cells of segment scores (see
``segment_scores``), P states, A arcs, Q varying arcs (arcs whose score varies with the position), H span arcs,
D longest segment. Row r + b of alpha is the border in front of row r, of block b.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import largest_adjoints, resolve, sum_adjoints, sum_network
from ._vectors import (
    add,
    add_folded,
    exp,
    fill,
    fill_dual,
    largest,
    load,
    multiply,
    multiply_add,
    smallest,
    store,
    where_positive,
)

NETWORK_SOURCE = "6ce609e65b95010a"
VECTORS_SOURCE = "bcbba1196ce83f68"
TINY = 1e-200
SMALLEST_TOTAL = 1e-80
LOWEST_LOG = -644.0  # exp of it, about 1e-280, is the smallest weight
LOWEST_SPAN = -180.0  # the same for the varying part of span arcs
HIGHEST_VARYING, HIGHEST_SPAN = 40.0, 120.0  # together they lift no score that is cut off at LOWEST_LOG above TINY


class SegmentTables(NamedTuple):
    """The tables of a tile."""

    scores: np.ndarray  # (R * C, W)   of tokens
    cells: np.ndarray  # (R * E, W)   log scores, then x, then probabilities of segments
    varying: np.ndarray  # (R * Q, W)   weights of the varying arcs
    begin: np.ndarray  # (R * P, W)
    span_begin: np.ndarray  # (R * H, W)
    alpha: np.ndarray  # ((R + B) * P, W)
    log_total: np.ndarray  # (R, W)   logarithm of the scale of each row
    inverse: np.ndarray  # (R, W)   1 / total of the alpha of each row
    reach: np.ndarray  # (R * P, W)   overwritten by the backward pass
    span_reach: np.ndarray  # (R * H, W)   overwritten by the backward pass


class SegmentScratch(NamedTuple):
    """Memory that kernels overwrite.   I and J nodes of the sum network and of its transpose."""

    values: np.ndarray  # (P + I, W)
    adjoints: np.ndarray  # (A + J + P, W)
    varying: np.ndarray  # (Q, W)
    states: np.ndarray  # (P, W)
    between: np.ndarray  # (D + 1, W)
    sums: np.ndarray  # (H * D, W)


@njit(cache=True, nogil=True, error_model="numpy")
def forward(lane_kind, weighted_arcs, index, tile, scratch, tables, log_z, suspect):
    """Run the scaled forward pass.

    scratch : ``SegmentScratch``
    tables : ``SegmentTables``   scores in; cells of labels: log scores in, x out, the others stay log scores;
        varying, begin, span_begin, alpha, log_total and inverse out
    log_z, suspect : (B, W)   out: log Z, and 1 where a lane is to be done again
    """
    scores, table, varying, begin, span_begin, alpha, log_total, inverse, _, _ = tables
    n_states, n_varying, n_spans = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(index.span_arc)
    n_labels, n_cells = weighted_arcs.n_labels, index.first_cell[-1]
    n_columns, n_lanes = len(scores) // tile.rows[-1], tile.length.shape[1]
    n_longest = index.longest.max()
    values, varying_log, last_begin, between = scratch.values, scratch.varying, scratch.states, scratch.between
    sums = scratch.sums
    marks = np.zeros((4, scores.shape[1]))  # alive, totals, lows, shifts
    zero, infinite, minus = fill(0.0, lane_kind), fill(np.inf, lane_kind), fill(-1.0, lane_kind)
    lowest_safe, highest_varying = fill(LOWEST_LOG, lane_kind), fill(HIGHEST_VARYING, lane_kind)
    lowest_span, highest_span = fill(LOWEST_SPAN, lane_kind), fill(HIGHEST_SPAN, lane_kind)
    for block in range(len(tile.length)):
        first_row = tile.rows[block]
        for state in range(n_states):
            store(alpha, (first_row + block) * n_states + state, fill(1.0 if state == 0 else 0.0, lane_kind))
            store(last_begin, state, fill(-np.inf, lane_kind))
        for row in range(first_row, tile.rows[block + 1]):
            position = row - first_row
            before = (row + block) * n_states
            after = before + n_states
            for lane in range(n_lanes):
                marks[0, lane] = 1.0 if position < tile.length[block, lane] else 0.0
            # the border in front of the token: m = S alpha, and begin (18)
            for state in range(n_states):
                store(values, state, load(alpha, before + state, lane_kind))
            sum_network(lane_kind, weighted_arcs.starts, weighted_arcs.terms, n_states, values)
            low, margin = infinite, infinite
            for varying_number in range(n_varying):
                column, suffix = (
                    weighted_arcs.varying_column[varying_number],
                    weighted_arcs.varying_suffix[varying_number],
                )
                total = _own_and_suffix(
                    lane_kind, scores, row * n_columns + column, column, varying_log, suffix, suffix
                )
                store(varying_log, varying_number, total)
                constant = weighted_arcs.arc_score[weighted_arcs.varying_arc[varying_number]] - weighted_arcs.log_shift
                if constant == -np.inf:
                    store(varying, row * n_varying + varying_number, zero)
                    continue
                total = add(
                    total,
                    fill_dual(
                        constant,
                        weighted_arcs.arc_score_derivative[weighted_arcs.varying_arc[varying_number]],
                        lane_kind,
                    ),
                )
                margin = smallest(add(total, fill(-LOWEST_LOG, lane_kind)), margin)
                margin = smallest(add(multiply(minus, total), highest_varying), margin)
                total = smallest(largest(total, lowest_safe), highest_varying)
                store(varying, row * n_varying + varying_number, exp(total))
            for state in range(1, n_states):
                flow, mass, any_mass = zero, zero, zero
                for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                    number, varying_number = index.arc_span[arc], weighted_arcs.arc_varying[arc]
                    if weighted_arcs.arc_score[arc] == -np.inf:
                        if number >= 0:
                            store(span_begin, row * n_spans + number, zero)
                        continue
                    value = load(values, weighted_arcs.arc_value[arc], lane_kind)
                    any_mass = add(any_mass, value)
                    if varying_number >= 0:
                        weighted = multiply(load(varying, row * n_varying + varying_number, lane_kind), value)
                    else:
                        fixed = fill_dual(
                            weighted_arcs.arc_weight[arc], weighted_arcs.arc_weight_derivative[arc], lane_kind
                        )
                        weighted = multiply(fixed, value)
                    if number >= 0:
                        store(span_begin, row * n_spans + number, weighted)
                        low = smallest(where_positive(value, weighted, infinite), low)
                    else:
                        flow = add(flow, weighted)
                        mass = add(mass, value)
                store(begin, row * n_states + state, flow)
                low = smallest(where_positive(mass, flow, infinite), low)
                now = where_positive(any_mass, fill(float(position), lane_kind), load(last_begin, state, lane_kind))
                store(last_begin, state, now)
            # the segments that end with the token (19)
            longest = min(n_longest, position + 1)
            store(between, 1, zero)  # minus the logarithms of the scales of the borders inside a segment of d tokens
            for d in range(2, longest + 1):
                scale = load(log_total, row + 1 - d, lane_kind)
                store(between, d, add(load(between, d - 1, lane_kind), multiply(minus, scale)))
            shift = fill(-np.inf, lane_kind)
            for label in range(n_labels):
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score = add(load(table, first + d, lane_kind), load(between, d, lane_kind))
                    store(table, first + d, score)
                    shift = largest(score, shift)
            store(marks, 3, shift)
            lives, minus_shift = load(marks, 0, lane_kind), multiply(minus, shift)
            for label in range(n_labels):
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score = largest(add(load(table, first + d, lane_kind), minus_shift), lowest_safe)
                    store(table, first + d, multiply(lives, exp(score)))
            for state in range(n_states):
                store(alpha, after + state, zero)
            for number in range(n_spans):  # (20)
                arc = index.span_arc[number]
                state, label = weighted_arcs.arc_target[arc], weighted_arcs.arc_label[arc]
                scored, suffix = index.span_scored[number], index.span_suffix[number]
                own, shorter = row * n_cells + index.first_cell[scored] - 1, suffix * n_longest - 1
                total = load(alpha, after + state, lane_kind)
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score = _own_and_suffix(lane_kind, table, own + d, scored, sums, shorter + d, suffix)
                    store(sums, number * n_longest + d - 1, score)
                    minus_score = multiply(minus, score)
                    room = smallest(add(score, fill(-LOWEST_SPAN, lane_kind)), add(highest_span, minus_score))
                    margin = smallest(room, margin)
                    factor = exp(smallest(largest(score, lowest_span), highest_span))
                    factor = multiply(factor, load(table, first + d, lane_kind))
                    total = multiply_add(load(span_begin, (row + 1 - d) * n_spans + number, lane_kind), factor, total)
                store(alpha, after + state, total)
            total = zero
            for label in range(n_labels):
                first = row * n_cells + index.first_cell[label] - 1
                within = fill(float(index.longest[label] - position) - 0.5, lane_kind)
                # lengths outside, states inside: the states of a label are neighbours in memory
                for d in range(1, min(index.longest[label], longest) + 1):
                    weighted, start = load(table, first + d, lane_kind), (row + 1 - d) * n_states
                    for state in range(index.first_state[label], index.first_state[label + 1]):
                        mass = load(alpha, after + state, lane_kind)
                        started = load(begin, start + state, lane_kind)
                        store(alpha, after + state, multiply_add(started, weighted, mass))
                for state in range(index.first_state[label], index.first_state[label + 1]):
                    mass = load(alpha, after + state, lane_kind)
                    total = add(total, mass)
                    reachable = add(load(last_begin, state, lane_kind), within)
                    low = smallest(where_positive(reachable, mass, infinite), low)
            store(marks, 1, total)
            store(marks, 2, where_positive(margin, low, zero))
            for lane in range(n_lanes):
                inverse[row, lane::n_lanes] = 0.0
                log_total[row, lane::n_lanes] = 0.0
                if marks[0, lane] > 0.0:
                    row_total = marks[1, lane]
                    safe = SMALLEST_TOTAL <= row_total <= 1.0 / SMALLEST_TOTAL
                    if not (safe and marks[2, lane] >= TINY * max(1.0, row_total)):
                        suspect[block, lane] = 1.0
                    if suspect[block, lane] == 0.0:
                        inverse[row, lane] = 1.0 / row_total
                        log_total[row, lane] = np.log(row_total) + marks[3, lane] + weighted_arcs.log_shift
                        log_z[block, lane] += log_total[row, lane]
                        for derivative in range(lane + n_lanes, scores.shape[1], n_lanes):  # of dual numbers
                            change = marks[1, derivative] / row_total
                            inverse[row, derivative] = -change * inverse[row, lane]
                            log_total[row, derivative] = change + marks[3, derivative]
                            log_z[block, derivative] += log_total[row, derivative]
            scale = load(inverse, row, lane_kind)
            for state in range(n_states):
                store(alpha, after + state, multiply(load(alpha, after + state, lane_kind), scale))
        for lane in range(n_lanes):
            if suspect[block, lane] > 0.0:  # no mass: the lane drops out of the backward pass
                stop_row = tile.rows[block + 1]
                alpha[(first_row + block) * n_states : (stop_row + block + 1) * n_states, lane::n_lanes] = 0.0
                begin[first_row * n_states : stop_row * n_states, lane::n_lanes] = 0.0
                span_begin[first_row * n_spans : stop_row * n_spans, lane::n_lanes] = 0.0
                inverse[first_row:stop_row, lane::n_lanes] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _own_and_suffix(lane_kind, own_table, own, has_own, suffix_table, suffix, has_suffix):
    """Return the score of a pattern plus that of its longest suffix; either is missing where its last argument is < 0.

    A call would copy all arrays of a NamedTuple, which takes longer than the sum: this function takes what it needs.
    """
    total = fill(0.0, lane_kind)
    if has_own >= 0:
        total = load(own_table, own, lane_kind)
    if has_suffix >= 0:
        total = add(total, load(suffix_table, suffix, lane_kind))
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def backward(lane_kind, weighted_arcs, index, tile, scratch, tables, weight, counts):
    """Run the scaled backward pass and turn the table of cells into probabilities of segments, in place.

    scratch : ``SegmentScratch``
    tables : ``SegmentTables``   from ``forward``. Out: P(pattern starts with the token) in those columns of the scores
        that move varying arcs; P(segment) in the cells of labels, P(segment and pattern) in those of longer patterns
    weight : (B, W)   by which each lane counts in ``counts``
    counts : (A, FOLDED), or (A, 1) for one lane   increased by the marginals of the arcs
    """
    scores, table, varying, begin, span_begin, alpha, _, inverse, reach, span_reach = tables
    n_states, n_varying, n_spans = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(index.span_arc)
    n_arcs, n_cells = len(weighted_arcs.arc_varying), index.first_cell[-1]
    n_columns, n_lanes = len(scores) // tile.rows[-1], tile.length.shape[1]
    n_longest = index.longest.max()
    values, adjoints, used_varying, ends, sums = (
        scratch.values,
        scratch.adjoints,
        scratch.varying,
        scratch.states,
        scratch.sums,
    )
    first_beta = len(adjoints) - n_states
    zero, lowest_span, highest_span = (
        fill(0.0, lane_kind),
        fill(LOWEST_SPAN, lane_kind),
        fill(HIGHEST_SPAN, lane_kind),
    )
    for block in range(len(tile.length)):
        first_row, lane_weight = tile.rows[block], load(weight, block, lane_kind)
        for row in range(first_row, tile.rows[block + 1]):
            for state in range(n_states):
                store(reach, row * n_states + state, zero)
            for number in range(n_spans):
                store(span_reach, row * n_spans + number, zero)
        for state in range(n_states):
            store(adjoints, first_beta + state, zero)
        for row in range(tile.rows[block + 1] - 1, first_row - 1, -1):
            position = row - first_row
            before = (row + block) * n_states
            for lane in range(n_lanes):
                if tile.last[block, lane] == position:
                    adjoints[first_beta:, lane::n_lanes] = 0.0
                    adjoints[first_beta:, lane] = 1.0
            # the segments that end with the token: reach (21), and their probabilities (23)
            longest = min(n_longest, position + 1)
            scale = load(inverse, row, lane_kind)
            for state in range(n_states):  # a state out of reach has no use for its beta, which may be infinite
                beta = multiply(load(adjoints, first_beta + state, lane_kind), scale)
                store(ends, state, where_positive(load(alpha, before + n_states + state, lane_kind), beta, zero))
            for number in range(n_spans):
                label = weighted_arcs.arc_label[index.span_arc[number]]
                scored, suffix = index.span_scored[number], index.span_suffix[number]
                own, shorter = row * n_cells + index.first_cell[scored] - 1, suffix * n_longest - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score = _own_and_suffix(lane_kind, table, own + d, scored, sums, shorter + d, suffix)
                    store(sums, number * n_longest + d - 1, score)
            for number in range(n_spans):
                arc = index.span_arc[number]
                label, end = weighted_arcs.arc_label[arc], load(ends, weighted_arcs.arc_target[arc], lane_kind)
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score = load(sums, number * n_longest + d - 1, lane_kind)
                    factor = exp(smallest(largest(score, lowest_span), highest_span))
                    onward = multiply(multiply(factor, load(table, first + d, lane_kind)), end)
                    cell = (row + 1 - d) * n_spans + number
                    store(span_reach, cell, add(load(span_reach, cell, lane_kind), onward))
                    store(sums, number * n_longest + d - 1, multiply(load(span_begin, cell, lane_kind), onward))
            for label in range(weighted_arcs.n_labels):
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    weighted = load(table, first + d, lane_kind)
                    start, inside = (row + 1 - d) * n_states, zero
                    for state in range(index.first_state[label], index.first_state[label + 1]):
                        end = load(ends, state, lane_kind)
                        inside = multiply_add(load(begin, start + state, lane_kind), end, inside)
                        store(reach, start + state, multiply_add(weighted, end, load(reach, start + state, lane_kind)))
                    store(table, first + d, multiply(weighted, inside))
            for number in range(n_spans):
                label = weighted_arcs.arc_label[index.span_arc[number]]
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    used = load(sums, number * n_longest + d - 1, lane_kind)
                    store(table, first + d, add(load(table, first + d, lane_kind), used))
            for number in range(n_spans - 1, -1, -1):  # longest arcs first: they end with the patterns of shorter ones
                label, suffix, scored = (
                    weighted_arcs.arc_label[index.span_arc[number]],
                    index.span_suffix[number],
                    index.span_scored[number],
                )
                for d in range(1, min(index.longest[label], longest) + 1):
                    used = load(sums, number * n_longest + d - 1, lane_kind)
                    if suffix >= 0:
                        cell = suffix * n_longest + d - 1
                        store(sums, cell, add(load(sums, cell, lane_kind), used))
                    if scored >= 0:
                        store(table, row * n_cells + index.first_cell[scored] + d - 1, used)
            # the border in front of the token: m = S alpha, and begin (18)
            for state in range(n_states):
                store(values, state, load(alpha, before + state, lane_kind))
            sum_network(lane_kind, weighted_arcs.starts, weighted_arcs.terms, n_states, values)
            for state in range(1, n_states):
                flow = load(reach, row * n_states + state, lane_kind)
                for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):  # (22)
                    number, varying_number = index.arc_span[arc], weighted_arcs.arc_varying[arc]
                    adjoint = load(span_reach, row * n_spans + number, lane_kind) if number >= 0 else flow
                    if varying_number >= 0:
                        adjoint = multiply(load(varying, row * n_varying + varying_number, lane_kind), adjoint)
                    else:
                        fixed = fill_dual(
                            weighted_arcs.arc_weight[arc], weighted_arcs.arc_weight_derivative[arc], lane_kind
                        )
                        adjoint = multiply(fixed, adjoint)
                    value = load(values, weighted_arcs.arc_value[arc], lane_kind)
                    adjoint = where_positive(value, adjoint, zero)
                    store(adjoints, arc, adjoint)
                    used = multiply(adjoint, value)
                    if varying_number >= 0:
                        store(used_varying, varying_number, used)
                    add_folded(counts, arc, multiply(used, lane_weight))
            # beta = S^T b (21)
            sum_adjoints(lane_kind, weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
            for varying_number in range(n_varying - 1, -1, -1):
                suffix, column = (
                    weighted_arcs.varying_suffix[varying_number],
                    weighted_arcs.varying_column[varying_number],
                )
                used = load(used_varying, varying_number, lane_kind)
                if suffix >= 0:
                    store(used_varying, suffix, add(load(used_varying, suffix, lane_kind), used))
                if column >= 0:
                    store(scores, row * n_columns + column, used)


@njit(cache=True, nogil=True, error_model="numpy")
def backward_max(lane_kind, weighted_arcs, index, tile, scratch, table, varying_log, beta, reach, span_reach):
    """Fill ``beta`` ((R + B) * P, W): the best score of the segments from each border on, 0 at a lane's end.

    scratch : ``SegmentScratch``        table : (R * E, W)   log scores
    varying_log : (R * Q, W)   from ``token_scores.varying_scores``
    reach : (R * P, W), span_reach : (R * H, W)   overwritten
    """
    n_states, n_varying, n_spans = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(index.span_arc)
    n_arcs, n_cells = len(weighted_arcs.arc_varying), index.first_cell[-1]
    n_longest = index.longest.max()
    adjoints, sums = scratch.adjoints, scratch.sums
    first_beta = len(adjoints) - n_states
    never = fill(-np.inf, lane_kind)
    for block in range(len(tile.length)):
        first_row = tile.rows[block]
        for row in range(first_row, tile.rows[block + 1]):
            for state in range(n_states):
                store(reach, row * n_states + state, never)
            for number in range(n_spans):
                store(span_reach, row * n_spans + number, never)
        for state in range(n_states):
            store(beta, (tile.rows[block + 1] + block) * n_states + state, never)
        for row in range(tile.rows[block + 1] - 1, first_row - 1, -1):
            position = row - first_row
            before = (row + block) * n_states
            after = before + n_states
            for lane in range(table.shape[1]):
                if position >= tile.length[block, lane]:
                    beta[after : after + n_states, lane] = -np.inf
                elif tile.last[block, lane] == position:
                    beta[after : after + n_states, lane] = 0.0
            longest = min(n_longest, position + 1)
            for number in range(n_spans):
                arc = index.span_arc[number]
                label, end = weighted_arcs.arc_label[arc], load(beta, after + weighted_arcs.arc_target[arc], lane_kind)
                scored, suffix = index.span_scored[number], index.span_suffix[number]
                own, shorter = row * n_cells + index.first_cell[scored] - 1, suffix * n_longest - 1
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score = _own_and_suffix(lane_kind, table, own + d, scored, sums, shorter + d, suffix)
                    store(sums, number * n_longest + d - 1, score)
                    onward = add(add(score, load(table, first + d, lane_kind)), end)
                    cell = (row + 1 - d) * n_spans + number
                    store(span_reach, cell, largest(load(span_reach, cell, lane_kind), onward))
            for label in range(weighted_arcs.n_labels):
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score, start = load(table, first + d, lane_kind), (row + 1 - d) * n_states
                    for state in range(index.first_state[label], index.first_state[label + 1]):
                        onward = add(score, load(beta, after + state, lane_kind))
                        store(reach, start + state, largest(load(reach, start + state, lane_kind), onward))
            for state in range(1, n_states):
                flow = load(reach, row * n_states + state, lane_kind)
                for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                    number, varying_number = index.arc_span[arc], weighted_arcs.arc_varying[arc]
                    adjoint = load(span_reach, row * n_spans + number, lane_kind) if number >= 0 else flow
                    adjoint = add(adjoint, fill(weighted_arcs.arc_score[arc], lane_kind))
                    if varying_number >= 0:
                        adjoint = add(adjoint, load(varying_log, row * n_varying + varying_number, lane_kind))
                    store(adjoints, arc, adjoint)
            largest_adjoints(lane_kind, weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
            for state in range(n_states):
                store(beta, before + state, load(adjoints, first_beta + state, lane_kind))


@njit(cache=True, nogil=True, error_model="numpy")
def walk(weighted_arcs, index, tile, table, varying_log, beta, codes, lengths):
    """Read off the best segments, left to right; ties go to the lowest label, then to the shortest segment.

    codes, lengths : (N,) int32   out: label of each token, and length of the segment that starts with it, or 0
    """
    n_states, n_varying, n_cells = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), index.first_cell[-1]
    # the arcs that states use, looked up when a state is first met
    arcs, resolved = np.empty((n_states, weighted_arcs.n_labels), dtype=np.int32), np.zeros(n_states, dtype=np.bool_)
    for block in range(len(tile.length)):
        for lane in range(table.shape[1]):
            current, position = 0, 0
            n_tokens = tile.length[block, lane]
            while position < n_tokens:
                row = tile.rows[block] + position
                if not resolved[current]:
                    resolve(weighted_arcs, current, arcs[current])
                    resolved[current] = True
                arc_of_label = arcs[current]
                best, best_arc, best_length = -np.inf, arc_of_label[0], 1
                for label in range(weighted_arcs.n_labels):
                    arc = arc_of_label[label]
                    border = weighted_arcs.arc_score[arc]
                    if weighted_arcs.arc_varying[arc] >= 0:
                        border += varying_log[row * n_varying + weighted_arcs.arc_varying[arc], lane]
                    for d in range(1, min(index.longest[label], n_tokens - position) + 1):
                        first = (row + d - 1) * n_cells + d - 1
                        score = border + table[first + index.first_cell[label], lane]
                        number = index.arc_span[arc]
                        while number >= 0:
                            scored = index.span_scored[number]
                            if scored >= 0:
                                score += table[first + index.first_cell[scored], lane]
                            number = index.span_suffix[number]
                        score += beta[(row + d + block) * n_states + weighted_arcs.arc_target[arc], lane]
                        if score > best:
                            best, best_arc, best_length = score, arc, d
                token = tile.first_token[block, lane] + position
                codes[token : token + best_length] = weighted_arcs.arc_label[best_arc]
                lengths[token : token + best_length] = 0
                lengths[token] = best_length
                current = weighted_arcs.arc_target[best_arc]
                position += best_length

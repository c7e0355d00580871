"""Forward and backward passes of a high-order semi-Markov chain, and Viterbi segmentation.

The recursion takes separate steps for the next label (18) and for the length of its segment (19). At the boundary u,
the automaton moves, as in ``chain``; then a segment [u, v) of d = v - u tokens follows. Let xi(u, v, y) be the
exponentiated score of a segment with the label y, y(s) the last label of state s, and omega, S and R as in ``chain``:

    boundary   m(u) = S alpha(u)                      begin(u) = R (omega(u) m(u))                       (18)
    segments   alpha(v, s) = sum over d of begin(v - d, s) xi(v - d, v, y(s))                            (19)
    backward   reach(u, s) = sum over d of xi(u, u + d, y(s)) beta(u + d, s)
               beta(u) = S^T (omega(u) R^T reach(u))                                                     (21)
    marginals  P(arc a at u) = m_a(u) omega_a(u) reach_a(u)                                              (22)
               P(u, v, y) = xi(u, v, y) sum over s of begin(u, s) beta(v, s)                             (23)

*Span arcs* are arcs with suffix patterns of two or more labels that have scores for the whole segment. They are not
part of ``begin``: kernels sum them separately (20), with a factor for each length. Equation numbers refer to
docs/develop/theory.md, where ``begin`` is F and ``reach`` is G.

If the lengths of a label's segments have no limit, the mass of the segments that have reached the length
``index.longest`` is the *tail* of the label (40). Each further token multiplies the tail by one number, rho, whose
logarithm is in the cell of the tail.

Each alpha(v) is scaled to a total of 1. A segment spans several boundaries. Before kernels take exp of its score, they
therefore subtract the logarithms of the totals at the boundaries inside it, and the highest score of the row. Lanes in
which the value of a reachable state or arc leaves the range of floating-point numbers are *suspect*; the same kernels
process them again, on wide numbers (16). Segments with a score of -inf are impossible: their xi is 0, and they reach no
boundary. A boundary that no segment reaches has the scale 1.

Shapes: B blocks, W lanes, R rows (tokens of all blocks), C score columns, E cells of segment scores (see
``segment_scores``), P states, A arcs, Q varying arcs (arcs whose score varies with the position), H span arcs,
D longest segment. If row r is in block b, the boundary before it has the index r + b in alpha.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import (
    HUGE,
    LOWEST_LOG,
    SMALLEST_TOTAL,
    TINY,
    count_columns,
    largest_adjoints,
    resolve,
    sum_adjoints,
    sum_network,
    weigh_varying_arcs,
    weight_of,
)
from ._vectors import (
    add,
    add_folded,
    exp,
    fill,
    invert,
    is_wide,
    largest,
    limit,
    load,
    log,
    multiply,
    multiply_add,
    smallest,
    store,
    where_positive,
)

LOWEST_SPAN = -180.0  # like LOWEST_LOG, but for the varying part of span arcs
HIGHEST_VARYING, HIGHEST_SPAN = 40.0, 120.0  # together, they raise no score clipped at LOWEST_LOG above TINY
ALIVE, TOTAL, LOW, SHIFT = range(4)  # rows of ``marks``, which describe the lanes of a row


class SegmentTables(NamedTuple):
    """The tables of a tile."""

    scores: np.ndarray  # (R * C, W)   of tokens
    cells: np.ndarray  # (R * E, W)   log scores, then xi, then probabilities of segments
    varying: np.ndarray  # (R * Q, W)   weights of the varying arcs
    begin: np.ndarray  # (R * P, W)
    span_begin: np.ndarray  # (R * H, W)
    alpha: np.ndarray  # ((R + B) * P, W)
    log_total: np.ndarray  # (R, W)   logarithm of the scale of each row
    inverse: np.ndarray  # (R, W)   1 / total of the alpha of each row
    reach: np.ndarray  # (R * P, W)   overwritten by the backward pass
    span_reach: np.ndarray  # (R * H, W)   overwritten by the backward pass
    tail: np.ndarray  # (R * P, W), or (0, W) without tails


class SegmentScratch(NamedTuple):
    """Memory that kernels overwrite.   Shapes: I and J nodes of the sum network and of its transpose."""

    values: np.ndarray  # (P + I, W)
    adjoints: np.ndarray  # (A + J + P, W)
    varying: np.ndarray  # (Q, W)
    states: np.ndarray  # (P, W), or (3 P, W) with tails
    between: np.ndarray  # (D + 1, W)
    sums: np.ndarray  # (H * D, W)


@njit(cache=True, nogil=True, error_model="numpy")
def forward(lane_kind, weighted_arcs, index, tile, scratch, tables, masked, log_z, suspect):
    """Run the scaled forward pass.

    scratch : ``SegmentScratch``
    masked : bool   whether scores of segments may be -inf
    tables : ``SegmentTables``   scores in; cells of labels: log scores in, xi out; other cells keep their log scores;
        varying, begin, span_begin, alpha, log_total and inverse out
    log_z, suspect : (B, W)   out: log Z, and 1 for lanes that must be processed again
    """
    n_states, n_lanes, n_columns = len(weighted_arcs.fail), tile.length.shape[1], len(tables.scores) // tile.rows[-1]
    scores, varying, varying_log = tables.scores, tables.varying, scratch.varying
    alpha, inverse, tail, last_begin = tables.alpha, tables.inverse, tables.tail, scratch.states
    marks = np.zeros((4, alpha.shape[1]))  # rows ALIVE, TOTAL, LOW, SHIFT
    zero = fill(0.0, lane_kind)
    for block in range(len(tile.length)):
        first_row = tile.rows[block]
        for state in range(n_states):
            store(alpha, (first_row + block) * n_states + state, fill(1.0 if state == 0 else 0.0, lane_kind))
            store(last_begin, state, fill(-np.inf, lane_kind))
        for row in range(first_row, tile.rows[block + 1]):
            position, before = row - first_row, (row + block) * n_states
            after = before + n_states
            for lane in range(n_lanes):
                marks[ALIVE, lane] = 1.0 if position < tile.length[block, lane] else 0.0
            # the boundary before the token: m = S alpha, omega and begin (18)
            _sum_alpha(lane_kind, weighted_arcs, scratch, tables, before)
            margin = weigh_varying_arcs(
                lane_kind, weighted_arcs, scores, row * n_columns, row, HIGHEST_VARYING, varying_log, varying
            )
            low = _begin_segments(lane_kind, weighted_arcs, index, scratch, tables, row, position)
            # the segments that end with the token: xi, and alpha from span arcs (20) and from all other arcs (19)
            _exponentiate_cells(lane_kind, index, scratch, tables, row, position, weighted_arcs.log_shift, marks)
            for state in range(n_states):
                store(alpha, after + state, zero)
            if masked:
                _find_reachable(lane_kind, weighted_arcs, index, scratch, tables, row, position)
            _score_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position)
            margin = _end_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position, after, margin)
            total, low = _end_segments(lane_kind, index, scratch, tables, row, position, after, low)
            store(marks, TOTAL, total)
            store(marks, LOW, where_positive(margin, low, zero))
            if is_wide(lane_kind):
                logs = add(add(log(total), load(marks, SHIFT, lane_kind)), fill(weighted_arcs.log_shift, lane_kind))
                ends = tile.last[block, 0] == position  # other boundaries may be unreachable
                logs = where_positive(total, logs, fill(-np.inf if ends else 0.0, lane_kind))
                store(tables.log_total, row, logs)
                store(log_z, block, add(load(log_z, block, lane_kind), logs))
                store(inverse, row, invert(total))
            else:
                _take_scale(tile, tables, marks, row, block, weighted_arcs.log_shift, log_z, suspect)
            scale = load(inverse, row, lane_kind)
            for state in range(n_states):
                store(alpha, after + state, multiply(load(alpha, after + state, lane_kind), scale))
            for slot in range(row * n_states, (row + 1) * n_states if len(tail) else 0):
                store(tail, slot, multiply(load(tail, slot, lane_kind), scale))
        for lane in range(n_lanes):
            if suspect[block, lane] > 0.0:  # without mass, the lane has no effect on the backward pass
                _drop_lane(weighted_arcs, index, tile, tables, block, lane)


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_alpha(lane_kind, weighted_arcs, scratch, tables, before):
    """Evaluate the sum network, m = S alpha, at the boundary whose alpha starts at row ``before``."""
    values, alpha = scratch.values, tables.alpha
    n_states = len(weighted_arcs.fail)
    for state in range(n_states):
        store(values, state, load(alpha, before + state, lane_kind))
    sum_network(lane_kind, weighted_arcs.starts, weighted_arcs.terms, n_states, values)


@njit(cache=True, nogil=True, error_model="numpy")
def _begin_segments(lane_kind, weighted_arcs, index, scratch, tables, row, position):
    """Compute begin = R (omega m) and span_begin (18); return the least reachable value."""
    varying, begin, span_begin = tables.varying, tables.begin, tables.span_begin
    values, last_begin, arc_span = scratch.values, scratch.states, index.arc_span
    n_states, n_varying, n_spans = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(index.span_arc)
    zero, infinite = fill(0.0, lane_kind), fill(np.inf, lane_kind)
    low = infinite
    for state in range(1, n_states):
        flow, mass, any_mass = zero, zero, zero
        for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
            span, varying_id = arc_span[arc], weighted_arcs.arc_varying[arc]
            if weighted_arcs.arc_score[arc] == -np.inf:
                if span >= 0:
                    store(span_begin, row * n_spans + span, zero)
                continue
            value = load(values, weighted_arcs.arc_value[arc], lane_kind)
            any_mass = add(any_mass, value)
            if varying_id >= 0:
                weight = load(varying, row * n_varying + varying_id, lane_kind)
            else:
                weight = weight_of(weighted_arcs, arc, lane_kind)
            weighted = multiply(weight, value)
            if span >= 0:
                store(span_begin, row * n_spans + span, weighted)
                low = smallest(where_positive(value, weighted, infinite), low)
            else:
                flow = add(flow, weighted)
                mass = add(mass, value)
        store(begin, row * n_states + state, flow)
        low = smallest(where_positive(mass, flow, infinite), low)
        now = where_positive(any_mass, fill(float(position), lane_kind), load(last_begin, state, lane_kind))
        store(last_begin, state, now)
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def _exponentiate_cells(lane_kind, index, scratch, tables, row, position, log_shift, marks):
    """Turn the labels' cells of a row into xi(u, v, y), up to the scales inside each segment and a shift of the row.

    The cells of tails become rho. Otherwise, ``log_shift`` is subtracted from the scores of arcs; a tail uses no arc,
    so the kernel subtracts ``log_shift`` from the score in the cell.
    """
    cells, between, log_total = tables.cells, scratch.between, tables.log_total
    n_labels, n_cells = len(index.first_state) - 1, index.first_cell[-1]
    longest = min(len(between), position + 2) - 1
    minus, lowest_safe = fill(-1.0, lane_kind), limit(LOWEST_LOG, lane_kind)
    huge, zero = fill(HUGE, lane_kind), fill(0.0, lane_kind)
    store(between, 1, fill(0.0, lane_kind))  # minus the sum of the log totals at the boundaries inside d tokens
    for d in range(2, longest + 1):
        scale = load(log_total, row + 1 - d, lane_kind)
        store(between, d, add(load(between, d - 1, lane_kind), multiply(minus, scale)))
    shift = fill(-np.inf, lane_kind)
    for label in range(n_labels):
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            score = add(load(cells, first + d, lane_kind), load(between, d, lane_kind))
            store(cells, first + d, score)
            shift = largest(score, shift)
        if index.tail[label] >= 0:
            cell = row * n_cells + index.first_cell[index.tail[label]]
            score = add(load(cells, cell, lane_kind), fill(-log_shift, lane_kind))
            store(cells, cell, score)
            shift = largest(score, shift)
    store(marks, SHIFT, shift)
    lives, minus_shift = load(marks, ALIVE, lane_kind), multiply(minus, shift)
    for label in range(n_labels):
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            score = load(cells, first + d, lane_kind)
            weight = multiply(lives, exp(largest(add(score, minus_shift), lowest_safe)))
            store(cells, first + d, where_positive(add(score, huge), weight, zero))
        if index.tail[label] >= 0:
            cell = row * n_cells + index.first_cell[index.tail[label]]
            score = load(cells, cell, lane_kind)
            weight = multiply(lives, exp(largest(add(score, minus_shift), lowest_safe)))
            store(cells, cell, where_positive(add(score, huge), weight, zero))


@njit(cache=True, nogil=True, error_model="numpy")
def _find_reachable(lane_kind, weighted_arcs, index, scratch, tables, row, position):
    """Mark, in ``scratch.states``, the states that a possible segment reaches at the end of the token."""
    cells, begin, span_begin, marked = tables.cells, tables.begin, tables.span_begin, scratch.states
    n_states, n_cells, n_spans = index.first_state[-1], index.first_cell[-1], len(index.span_arc)
    longest = min(len(scratch.between) - 1, position + 1)
    zero, now, never = fill(0.0, lane_kind), fill(float(position), lane_kind), fill(-np.inf, lane_kind)
    for state in range(n_states):
        store(marked, state, never)
    for label in range(len(index.first_state) - 1):
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            weight, start = load(cells, first + d, lane_kind), (row + 1 - d) * n_states
            for state in range(index.first_state[label], index.first_state[label + 1]):
                begun = where_positive(weight, load(begin, start + state, lane_kind), zero)
                store(marked, state, where_positive(begun, now, load(marked, state, lane_kind)))
    for span in range(n_spans):
        arc = index.span_arc[span]
        state, label = weighted_arcs.arc_target[arc], weighted_arcs.arc_label[arc]
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            begun = load(span_begin, (row + 1 - d) * n_spans + span, lane_kind)
            begun = where_positive(load(cells, first + d, lane_kind), begun, zero)
            store(marked, state, where_positive(begun, now, load(marked, state, lane_kind)))


@njit(cache=True, nogil=True, error_model="numpy")
def _end_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position, after, margin):
    """Add the terms of span arcs to alpha (20).

    Return the minimum of ``margin`` and the differences between the scores and the limits.
    """
    cells, span_begin, alpha, sums = tables.cells, tables.span_begin, tables.alpha, scratch.sums
    n_cells, n_spans, n_longest = index.first_cell[-1], len(index.span_arc), len(scratch.between) - 1
    longest = min(n_longest, position + 1)
    minus, highest_span = fill(-1.0, lane_kind), limit(HIGHEST_SPAN, lane_kind)
    lowest_span = limit(LOWEST_SPAN, lane_kind)
    for span in range(n_spans):
        arc = index.span_arc[span]
        state, label = weighted_arcs.arc_target[arc], weighted_arcs.arc_label[arc]
        total = load(alpha, after + state, lane_kind)
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            score = load(sums, span * n_longest + d - 1, lane_kind)
            minus_score = multiply(minus, score)
            room = smallest(add(score, limit(-LOWEST_SPAN, lane_kind)), add(highest_span, minus_score))
            margin = smallest(room, margin)
            factor = exp(smallest(largest(score, lowest_span), highest_span))
            factor = multiply(factor, load(cells, first + d, lane_kind))
            begun = load(span_begin, (row + 1 - d) * n_spans + span, lane_kind)
            total = multiply_add(begun, factor, total)
        store(alpha, after + state, total)
    return margin


@njit(cache=True, nogil=True, error_model="numpy")
def _end_segments(lane_kind, index, scratch, tables, row, position, after, low):
    """Add the products of ``begin`` and xi to alpha (19).

    Return the total of alpha, and the minimum of ``low`` and the alphas of reachable states.
    """
    cells, begin, alpha, last_begin = tables.cells, tables.begin, tables.alpha, scratch.states
    n_states, n_cells = index.first_state[-1], index.first_cell[-1]
    longest, infinite = min(len(scratch.between) - 1, position + 1), fill(np.inf, lane_kind)
    total = fill(0.0, lane_kind)
    for label in range(len(index.first_state) - 1):
        first, has_tail = row * n_cells + index.first_cell[label] - 1, index.tail[label] >= 0
        within = fill(HUGE if has_tail else float(index.longest[label] - position) - 0.5, lane_kind)
        # the inner loop is over states, because those of a label are neighbours in memory
        for d in range(1, min(index.longest[label] - has_tail, longest) + 1):
            weighted, start = load(cells, first + d, lane_kind), (row + 1 - d) * n_states
            for state in range(index.first_state[label], index.first_state[label + 1]):
                mass = load(alpha, after + state, lane_kind)
                begun = load(begin, start + state, lane_kind)
                store(alpha, after + state, multiply_add(begun, weighted, mass))
        if has_tail:
            low = _go_on(lane_kind, index, tables, row, position, after, label, low)
        for state in range(index.first_state[label], index.first_state[label + 1]):
            mass = load(alpha, after + state, lane_kind)
            total = add(total, mass)
            reachable = add(load(last_begin, state, lane_kind), within)
            low = smallest(where_positive(reachable, mass, infinite), low)
    return total, low


@njit(cache=True, nogil=True, error_model="numpy")
def _go_on(lane_kind, index, tables, row, position, after, label, low):
    """Compute the tail of a label, and add it to alpha (40).

    Return the minimum of ``low`` and the reachable values of the tail.
    """
    cells, begin, alpha, tail = tables.cells, tables.begin, tables.alpha, tables.tail
    n_states, first, d = index.first_state[-1], row * index.first_cell[-1], index.longest[label]
    zero, infinite = fill(0.0, lane_kind), fill(np.inf, lane_kind)
    if position + 1 < d:
        for state in range(index.first_state[label], index.first_state[label + 1]):
            store(tail, row * n_states + state, zero)
        return low
    weighted = load(cells, first + index.first_cell[label] + d - 1, lane_kind)
    on = load(cells, first + index.first_cell[index.tail[label]], lane_kind)
    for state in range(index.first_state[label], index.first_state[label + 1]):
        begun = load(begin, (row + 1 - d) * n_states + state, lane_kind)
        before = load(tail, (row - 1) * n_states + state, lane_kind) if position >= d else zero
        mass = multiply_add(begun, weighted, multiply(before, on))
        low = smallest(where_positive(add(begun, before), mass, infinite), low)
        store(tail, row * n_states + state, mass)
        store(alpha, after + state, add(load(alpha, after + state, lane_kind), mass))
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def _take_scale(tile, tables, marks, row, block, log_shift, log_z, suspect):
    """Unless a lane is suspect or has ended, compute 1 / total of its alpha, and add the log total to log Z."""
    n_lanes, n_columns = tile.length.shape[1], marks.shape[1]
    inverse, log_total = tables.inverse, tables.log_total
    for lane in range(n_lanes):
        for column in range(lane, n_columns, n_lanes):  # a slice would be a reference-counted object
            inverse[row, column] = 0.0
            log_total[row, column] = 0.0
        if marks[ALIVE, lane] > 0.0:
            row_total = marks[TOTAL, lane]
            ends = tile.last[block, lane] == row - tile.rows[block]
            if row_total == 0.0 and marks[LOW, lane] >= TINY and not ends:
                continue  # a boundary that no segment reaches
            safe = SMALLEST_TOTAL <= row_total <= 1.0 / SMALLEST_TOTAL
            if not (safe and marks[LOW, lane] >= TINY * max(1.0, row_total)):
                suspect[block, lane] = 1.0
            if suspect[block, lane] == 0.0:
                inverse[row, lane] = 1.0 / row_total
                log_total[row, lane] = np.log(row_total) + marks[SHIFT, lane] + log_shift
                log_z[block, lane] += log_total[row, lane]
                for derivative in range(lane + n_lanes, n_columns, n_lanes):  # of dual numbers
                    change = marks[TOTAL, derivative] / row_total
                    inverse[row, derivative] = -change * inverse[row, lane]
                    log_total[row, derivative] = change + marks[SHIFT, derivative]
                    log_z[block, derivative] += log_total[row, derivative]


@njit(cache=True, nogil=True, error_model="numpy")
def _drop_lane(weighted_arcs, index, tile, tables, block, lane):
    """Set all masses of a lane to 0."""
    n_states, n_spans, n_lanes = len(weighted_arcs.fail), len(index.span_arc), tile.length.shape[1]
    first_row, stop_row = tile.rows[block], tile.rows[block + 1]
    alpha, begin, span_begin, inverse = tables.alpha, tables.begin, tables.span_begin, tables.inverse
    tail = tables.tail
    for column in range(lane, alpha.shape[1], n_lanes):  # slices would take much longer to compile
        for slot in range((first_row + block) * n_states, (stop_row + block + 1) * n_states):
            alpha[slot, column] = 0.0
        for slot in range(first_row * n_states, stop_row * n_states):
            begin[slot, column] = 0.0
            if len(tail):
                tail[slot, column] = 0.0
        for slot in range(first_row * n_spans, stop_row * n_spans):
            span_begin[slot, column] = 0.0
        for row in range(first_row, stop_row):
            inverse[row, column] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _score_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position):
    """Fill ``scratch.sums`` with the contributions of span arcs to scores of segments: sums over suffix patterns."""
    cells, sums = tables.cells, scratch.sums
    n_cells, n_longest = index.first_cell[-1], len(scratch.between) - 1
    longest = min(n_longest, position + 1)
    for span in range(len(index.span_arc)):
        label = weighted_arcs.arc_label[index.span_arc[span]]
        scored, suffix = index.span_scored[span], index.span_suffix[span]
        scored_cell, shorter = row * n_cells + index.first_cell[scored] - 1, suffix * n_longest - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            score = load(cells, scored_cell + d, lane_kind) if scored >= 0 else fill(0.0, lane_kind)
            if suffix >= 0:
                score = add(score, load(sums, shorter + d, lane_kind))
            store(sums, span * n_longest + d - 1, score)


@njit(cache=True, nogil=True, error_model="numpy")
def backward(lane_kind, weighted_arcs, index, tile, scratch, tables, weight, counts):
    """Run the scaled backward pass and turn the cells into probabilities of segments, in place.

    scratch : ``SegmentScratch``
    tables : ``SegmentTables``   from ``forward``; out: P(pattern starts here) in the columns of scores of the varying
        arcs, and P(segment) in the cells of labels, P(segment and pattern) in those of longer patterns
    weight : (B, W)   factor of each lane in ``counts``
    counts : (A, FOLDED), or (A, 1) for one lane   increased by the marginals of the arcs
    """
    n_states, n_arcs, n_spans = len(weighted_arcs.fail), len(weighted_arcs.arc_varying), len(index.span_arc)
    n_lanes, adjoints, zero = tile.length.shape[1], scratch.adjoints, fill(0.0, lane_kind)
    n_columns = len(tables.scores) // tile.rows[-1]
    alpha, inverse, reach, span_reach = tables.alpha, tables.inverse, tables.reach, tables.span_reach
    ends, first_beta = scratch.states, len(adjoints) - n_states
    for block in range(len(tile.length)):
        first_row, lane_weight = tile.rows[block], load(weight, block, lane_kind)
        for row in range(first_row, tile.rows[block + 1]):
            for state in range(n_states):
                store(reach, row * n_states + state, zero)
            for span in range(n_spans):
                store(span_reach, row * n_spans + span, zero)
        for state in range(n_states):
            store(adjoints, first_beta + state, zero)
        for slot in range(2 * n_states, len(ends)):
            store(ends, slot, zero)
        for row in range(tile.rows[block + 1] - 1, first_row - 1, -1):
            position, before = row - first_row, (row + block) * n_states
            for lane in range(n_lanes):
                if tile.last[block, lane] == position:
                    for column in range(lane, adjoints.shape[1], n_lanes):
                        for slot in range(first_beta, len(adjoints)):
                            adjoints[slot, column] = 1.0 if column == lane else 0.0
            scale = load(inverse, row, lane_kind)
            for state in range(n_states):  # the beta of an unreachable state is not used, and may be infinite
                mass = load(alpha, before + n_states + state, lane_kind)
                beta = where_positive(mass, load(adjoints, first_beta + state, lane_kind), zero)
                store(alpha, before + n_states + state, beta)
                store(ends, state, multiply(beta, scale))
            # the segments that end with the token: reach (21), and their probabilities (23)
            _score_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position)
            _reach_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position)
            if len(tables.tail):
                _reach_tails(lane_kind, index, scratch, tables, row, position, scale)
            _reach_states(lane_kind, index, scratch, tables, row, position)
            _count_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position)
            # the boundary before the token: m = S alpha (18), marginals of arcs (22), beta = S^T b (21)
            _sum_alpha(lane_kind, weighted_arcs, scratch, tables, before)
            _count_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, lane_weight, counts)
            sum_adjoints(lane_kind, weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
            count_columns(lane_kind, weighted_arcs, scratch.varying, tables.scores, row * n_columns)


@njit(cache=True, nogil=True, error_model="numpy")
def _reach_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position):
    """Add to span_reach (21), and write the probabilities of the arcs' segments to ``scratch.sums`` (23)."""
    cells, span_begin, span_reach = tables.cells, tables.span_begin, tables.span_reach
    ends, sums = scratch.states, scratch.sums
    n_cells, n_spans, n_longest = index.first_cell[-1], len(index.span_arc), len(scratch.between) - 1
    longest = min(n_longest, position + 1)
    lowest_span, highest_span = limit(LOWEST_SPAN, lane_kind), limit(HIGHEST_SPAN, lane_kind)
    for span in range(n_spans):
        arc = index.span_arc[span]
        label, end = weighted_arcs.arc_label[arc], load(ends, weighted_arcs.arc_target[arc], lane_kind)
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            score = load(sums, span * n_longest + d - 1, lane_kind)
            factor = exp(smallest(largest(score, lowest_span), highest_span))
            onward = multiply(multiply(factor, load(cells, first + d, lane_kind)), end)
            cell = (row + 1 - d) * n_spans + span
            store(span_reach, cell, add(load(span_reach, cell, lane_kind), onward))
            store(sums, span * n_longest + d - 1, multiply(load(span_begin, cell, lane_kind), onward))


@njit(cache=True, nogil=True, error_model="numpy")
def _reach_tails(lane_kind, index, scratch, tables, row, position, scale):
    """Compute the adjoints of tails, and turn their cells into probabilities (41).

    ``scratch.states`` : (3 P, W)   P rows each for the adjoints of segments that end at the boundary, in; the adjoints
        of tails at the boundary, out; and rho times the adjoints of tails, in for the next boundary, out for this one
    """
    cells, tail, ends = tables.cells, tables.tail, scratch.states
    n_states, first = index.first_state[-1], row * index.first_cell[-1]
    zero = fill(0.0, lane_kind)
    for label in range(len(index.first_state) - 1):
        if index.tail[label] < 0:
            continue
        cell, used = first + index.first_cell[index.tail[label]], zero
        on = load(cells, cell, lane_kind)
        for state in range(index.first_state[label], index.first_state[label + 1]):
            # the adjoint of a tail that nothing reaches is not used, and may be infinite
            mass = load(tail, row * n_states + state, lane_kind)
            later = where_positive(mass, load(ends, 2 * n_states + state, lane_kind), zero)
            end = multiply_add(later, scale, load(ends, state, lane_kind))
            onward = multiply(on, end)
            if position > 0:
                used = multiply_add(load(tail, (row - 1) * n_states + state, lane_kind), onward, used)
            store(ends, n_states + state, end)
            store(ends, 2 * n_states + state, onward)
        store(cells, cell, used)


@njit(cache=True, nogil=True, error_model="numpy")
def _reach_states(lane_kind, index, scratch, tables, row, position):
    """Add xi times beta to reach (21), and turn the labels' cells into probabilities, without span arcs (23)."""
    cells, begin, reach, ends = tables.cells, tables.begin, tables.reach, scratch.states
    n_states, n_cells = index.first_state[-1], index.first_cell[-1]
    longest = min(len(scratch.between) - 1, position + 1)
    for label in range(len(index.first_state) - 1):
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            weighted = load(cells, first + d, lane_kind)
            start, inside = (row + 1 - d) * n_states, fill(0.0, lane_kind)
            adjoint = n_states if index.tail[label] >= 0 and d == index.longest[label] else 0
            for state in range(index.first_state[label], index.first_state[label + 1]):
                end = load(ends, adjoint + state, lane_kind)
                inside = multiply_add(load(begin, start + state, lane_kind), end, inside)
                store(reach, start + state, multiply_add(weighted, end, load(reach, start + state, lane_kind)))
            store(cells, first + d, multiply(weighted, inside))


@njit(cache=True, nogil=True, error_model="numpy")
def _count_span_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, position):
    """Add the probabilities of span arcs' segments to the cells of their labels and suffix patterns (23)."""
    cells, sums = tables.cells, scratch.sums
    n_cells, n_spans, n_longest = index.first_cell[-1], len(index.span_arc), len(scratch.between) - 1
    longest = min(n_longest, position + 1)
    for span in range(n_spans):
        label = weighted_arcs.arc_label[index.span_arc[span]]
        first = row * n_cells + index.first_cell[label] - 1
        for d in range(1, min(index.longest[label], longest) + 1):
            used = load(sums, span * n_longest + d - 1, lane_kind)
            store(cells, first + d, add(load(cells, first + d, lane_kind), used))
    for span in range(n_spans - 1, -1, -1):  # longest arcs first, because they end with the patterns of shorter arcs
        label, suffix = weighted_arcs.arc_label[index.span_arc[span]], index.span_suffix[span]
        scored = index.span_scored[span]
        for d in range(1, min(index.longest[label], longest) + 1):
            used = load(sums, span * n_longest + d - 1, lane_kind)
            if suffix >= 0:
                cell = suffix * n_longest + d - 1
                store(sums, cell, add(load(sums, cell, lane_kind), used))
            if scored >= 0:
                store(cells, row * n_cells + index.first_cell[scored] + d - 1, used)


@njit(cache=True, nogil=True, error_model="numpy")
def _count_arcs(lane_kind, weighted_arcs, index, scratch, tables, row, lane_weight, counts):
    """Compute b = omega R^T reach, and add the arcs' marginals, m b, to ``counts`` (22); keep those of varying arcs."""
    varying, reach, span_reach = tables.varying, tables.reach, tables.span_reach
    values, adjoints, used_varying = scratch.values, scratch.adjoints, scratch.varying
    n_states, n_varying, n_spans = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(index.span_arc)
    zero = fill(0.0, lane_kind)
    for state in range(1, n_states):
        flow = load(reach, row * n_states + state, lane_kind)
        for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
            span, varying_id = index.arc_span[arc], weighted_arcs.arc_varying[arc]
            onward = load(span_reach, row * n_spans + span, lane_kind) if span >= 0 else flow
            if varying_id >= 0:
                weight = load(varying, row * n_varying + varying_id, lane_kind)
            else:
                weight = weight_of(weighted_arcs, arc, lane_kind)
            value = load(values, weighted_arcs.arc_value[arc], lane_kind)
            adjoint = where_positive(value, multiply(weight, onward), zero)
            store(adjoints, arc, adjoint)
            used = multiply(adjoint, value)
            if varying_id >= 0:
                store(used_varying, varying_id, used)
            add_folded(counts, arc, multiply(used, lane_weight))


@njit(cache=True, nogil=True, error_model="numpy")
def backward_max(lane_kind, weighted_arcs, index, tile, scratch, table, varying_log, beta, reach, span_reach):
    """Write to ``beta`` ((R + B) * P, W) the best score of the segments after each boundary; 0 at a lane's end.

    scratch : ``SegmentScratch``        table : (R * E, W)   log scores
    varying_log : (R * Q, W)   from ``token_scores.varying_scores``
    reach : (R * P, W), span_reach : (R * H, W)   overwritten
    """
    n_states, n_varying, n_spans = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(index.span_arc)
    n_arcs, n_cells = len(weighted_arcs.arc_varying), index.first_cell[-1]
    adjoints, sums, n_longest = scratch.adjoints, scratch.sums, len(scratch.between) - 1
    first_beta = len(adjoints) - n_states
    never = fill(-np.inf, lane_kind)
    for block in range(len(tile.length)):
        first_row = tile.rows[block]
        for row in range(first_row, tile.rows[block + 1]):
            for state in range(n_states):
                store(reach, row * n_states + state, never)
            for span in range(n_spans):
                store(span_reach, row * n_spans + span, never)
        for state in range(n_states):
            store(beta, (tile.rows[block + 1] + block) * n_states + state, never)
        for row in range(tile.rows[block + 1] - 1, first_row - 1, -1):
            position = row - first_row
            before = (row + block) * n_states
            after = before + n_states
            for lane in range(table.shape[1]):
                if position >= tile.length[block, lane] or tile.last[block, lane] == position:
                    for state in range(n_states):
                        beta[after + state, lane] = -np.inf if position >= tile.length[block, lane] else 0.0
            longest = min(n_longest, position + 1)
            for span in range(n_spans):
                arc = index.span_arc[span]
                label, end = weighted_arcs.arc_label[arc], load(beta, after + weighted_arcs.arc_target[arc], lane_kind)
                scored, suffix = index.span_scored[span], index.span_suffix[span]
                scored_cell, shorter = row * n_cells + index.first_cell[scored] - 1, suffix * n_longest - 1
                first = row * n_cells + index.first_cell[label] - 1
                for d in range(1, min(index.longest[label], longest) + 1):
                    score = load(table, scored_cell + d, lane_kind) if scored >= 0 else fill(0.0, lane_kind)
                    if suffix >= 0:
                        score = add(score, load(sums, shorter + d, lane_kind))
                    store(sums, span * n_longest + d - 1, score)
                    onward = add(add(score, load(table, first + d, lane_kind)), end)
                    cell = (row + 1 - d) * n_spans + span
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
                    span, varying_id = index.arc_span[arc], weighted_arcs.arc_varying[arc]
                    adjoint = load(span_reach, row * n_spans + span, lane_kind) if span >= 0 else flow
                    adjoint = add(adjoint, fill(weighted_arcs.arc_score[arc], lane_kind))
                    if varying_id >= 0:
                        adjoint = add(adjoint, load(varying_log, row * n_varying + varying_id, lane_kind))
                    store(adjoints, arc, adjoint)
            largest_adjoints(lane_kind, weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
            for state in range(n_states):
                store(beta, before + state, load(adjoints, first_beta + state, lane_kind))


@njit(cache=True, nogil=True, error_model="numpy")
def walk(weighted_arcs, index, tile, table, varying_log, beta, codes, lengths):
    """Write the best segments, from left to right; ties go to the lowest label, then to the shortest segment.

    codes, lengths : (N,) int32   out: label of each token, and length of the segment that starts with it, or 0
    """
    n_states, n_varying, n_cells = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), index.first_cell[-1]
    outgoing, source_arcs = weighted_arcs.outgoing, weighted_arcs.source_arcs
    arc_label, fail = weighted_arcs.arc_label, weighted_arcs.fail
    # the arcs that states use, looked up when a state is first met
    arcs, met = np.empty((n_states, weighted_arcs.n_labels), dtype=np.int32), np.zeros(n_states, dtype=np.bool_)
    for block in range(len(tile.length)):
        for lane in range(table.shape[1]):
            current, position = 0, 0
            n_tokens = tile.length[block, lane]
            while position < n_tokens:
                row = tile.rows[block] + position
                if not met[current]:
                    resolve(outgoing, source_arcs, arc_label, fail, np.int64(current), arcs[current])
                    met[current] = True
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
                        span = index.arc_span[arc]
                        while span >= 0:
                            scored = index.span_scored[span]
                            if scored >= 0:
                                score += table[first + index.first_cell[scored], lane]
                            span = index.span_suffix[span]
                        score += beta[(row + d + block) * n_states + weighted_arcs.arc_target[arc], lane]
                        if score > best:
                            best, best_arc, best_length = score, arc, d
                token = tile.first_token[block, lane] + position
                for inside in range(token, token + best_length):
                    codes[inside], lengths[inside] = weighted_arcs.arc_label[best_arc], 0
                lengths[token] = best_length
                current = weighted_arcs.arc_target[best_arc]
                position += best_length

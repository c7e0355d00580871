"""Forward and backward passes of a high-order chain for many sequences side by side, and Viterbi decoding.

Equation numbers refer to docs/develop/theory.md.

Each sequence of a block occupies a *lane*, an index of the last axis of every array, so each addition of the sum
network is a vector addition. Let omega be the weights of arcs, xi the exponentiated scores of labels, S the matrix of
``_engine.structure.sum_network``, and R the sum over the arcs into each state:

    forward     m(j) = S alpha(j)     alpha(j + 1) = xi(j) * R (omega m(j)) / its total                   (9), (10)
    backward    b(j) = omega R^T (xi(j) beta(j + 1)) / the same total      beta(j) = S^T b(j)            (11)
    marginals   P(arc a is used at j) = m_a(j) b_a(j)                                                    (12)

where T is the length of the sequence, and beta(T) = 1 / total of alpha(T). A state with negligible mass may be the only
state that a later position allows. The kernel therefore reports a lane as *doubtful* if any reachable alpha falls below
1e-200 of the total of its row. It raises each reachable alpha to at least LEAST_SHARE, so the states with alpha > 0 are
the reachable ones. The results of a doubtful lane are correct if beta is at most LARGEST_BETA in all reachable states.
If a number leaves the range in which scaled passes are safe, the lane is *suspect*, and the same kernels process it
again, on wide numbers (16). Labels with a score of -inf are impossible: their weights are 0, and the states to which
only such labels lead are not reachable. If beta underflows in a state, the posterior probability of the state is
negligible, because alpha . beta = 1 at every position.

Decoding (15) evaluates the transposed network in the (max, +) semiring, on log scores, which cannot underflow. The
automaton is deterministic, so the best labelling needs no back-pointers: ``beta(j, q)`` is the best score of the labels
from position j on if the automaton is in state q, and ``walk`` chooses the best labels from left to right.

Blocks contain LANES lanes, and each kernel is compiled for vectors of LANES numbers. A sequence that is much longer
than all others has a block of one lane. For such blocks, the same kernels are compiled for single numbers, with
``lane_kind=None``.

Shapes: B blocks, W = LANES or 1 lanes, R rows (positions of all blocks), C score columns (the first L are the labels),
P states, A arcs, Q varying arcs (arcs whose score varies with the position). Tables of lanes are two-dimensional, for
example ``(R * C, W)``, and kernels read and write their rows as whole vectors.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import (
    DOUBTFUL,
    HUGE,
    LEAST_SHARE,
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

TOTAL, LOW = range(2)  # rows of ``sums``: the total of a row of alpha, and its lowest reachable value


class ChainTables(NamedTuple):
    """The tables of a tile."""

    scores: np.ndarray  # (R * C, W)   of labels and patterns; after the backward pass, their marginals
    varying: np.ndarray  # (R * Q, W)   weights of the varying arcs
    alpha: np.ndarray  # ((R + B) * P, W)
    inverse_scale: np.ndarray  # (R, W)   1 / total of the alpha after each row, 0 beyond a lane's end


class LocalTile(NamedTuple):
    """A tile of sequences in the form that ``_engine.inference.schedule`` describes; kernels can create this type."""

    rows: np.ndarray
    first_token: np.ndarray
    length: np.ndarray
    last: np.ndarray


class ChainScratch(NamedTuple):
    """Memory that kernels reuse, because allocation in each call is slow, especially in threads.

    Shapes: I and J nodes of the sum network and of its transpose. The last two arrays may overlap.
    """

    values: np.ndarray  # (P + I, W)
    adjoints: np.ndarray  # (A + J + P, W)
    next_values: np.ndarray  # (P + I, W)


@njit(cache=True, nogil=True, error_model="numpy")
def _exponentiate(lane_kind, weighted_arcs, tile, scores, varying, log_scale, suspect):
    """Turn scores into weights, in place.

    scores : (R * C, W)   log scores in; the first L columns become exp(score - row maximum), 0 beyond a lane's end and
        for scores of -inf
    varying : (R * Q, W)   out: weight of each varying arc, without the emission; meaningless beyond a lane's end
    log_scale : (B, W)   increased by the amounts that the kernel subtracts from scores
    suspect : (B, W)   set to 1 where a weight leaves the range in which exp is safe
    """
    n_labels, n_columns = weighted_arcs.n_labels, len(scores) // tile.rows[-1]
    alive = np.zeros((1, scores.shape[1]))
    varying_log = np.empty((len(weighted_arcs.varying_arc), scores.shape[1]))
    zero, one = fill(0.0, lane_kind), fill(1.0, lane_kind)
    lowest_safe, minus = limit(LOWEST_LOG, lane_kind), fill(-1.0, lane_kind)
    huge, infinite = fill(HUGE, lane_kind), fill(np.inf, lane_kind)
    log_shift = fill(weighted_arcs.log_shift, lane_kind)
    is_dual = scores.shape[1] > 2 * tile.length.shape[1]  # dual numbers of wide numbers
    for block in range(len(tile.length)):
        block_scale, block_suspect = load(log_scale, block, lane_kind), load(suspect, block, lane_kind)
        for row in range(tile.rows[block], tile.rows[block + 1]):
            for lane in range(tile.length.shape[1]):
                alive[0, lane] = 1.0 if row - tile.rows[block] < tile.length[block, lane] else 0.0
            lives = load(alive, 0, lane_kind)
            first = row * n_columns
            shift, lowest = load(scores, first, lane_kind), infinite
            for column in range(n_labels):
                score = load(scores, first + column, lane_kind)
                shift = largest(score, shift)
                lowest = smallest(where_positive(add(score, huge), score, infinite), lowest)
            if is_wide(lane_kind) and not is_dual:  # the sum of the subtracted amounts would be rounded
                shift = zero
            minus_shift = multiply(minus, shift)
            # > 0 if all scores are in the range in which exp is safe; others are clipped, and their lane is suspect
            margin = add(add(lowest, minus_shift), limit(-LOWEST_LOG, lane_kind))
            for column in range(n_labels):
                score = load(scores, first + column, lane_kind)
                weight = multiply(lives, exp(largest(add(score, minus_shift), lowest_safe)))
                store(scores, first + column, where_positive(add(score, huge), weight, zero))
            block_scale = add(block_scale, multiply(lives, add(shift, log_shift)))
            if len(varying_log):
                varying_margin = weigh_varying_arcs(
                    lane_kind, weighted_arcs, scores, first, row, -LOWEST_LOG, varying_log, varying
                )
                margin = smallest(varying_margin, margin)
            block_suspect = largest(block_suspect, multiply(lives, where_positive(margin, zero, one)))
        store(log_scale, block, block_scale)
        store(suspect, block, block_suspect)


@njit(cache=True, nogil=True, error_model="numpy")
def forward(lane_kind, weighted_arcs, tile, scratch, tables, carry, log_scale, suspect):
    """Run the forward pass of the blocks of a tile.

    scratch : ``ChainScratch``
    tables : ``ChainTables``   log scores in, all tables out; the first L columns of the scores become exp(score - row
        maximum), divided by the total of the row before
    carry : (P, W)   alpha before the first row of each block, with total 1; for wide numbers, with any total
    log_scale : (B, W)   increased by log Z of each lane
    suspect : (B, W)   set to 1 where a number leaves the range in which passes are safe, and to DOUBTFUL for doubtful
        lanes
    """
    n_states, n_varying, n_labels = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), weighted_arcs.n_labels
    scores, varying, alpha, inverse_scale = tables
    _exponentiate(lane_kind, weighted_arcs, tile, scores, varying, log_scale, suspect)
    n_columns, values, next_values = len(scores) // tile.rows[-1], scratch.values, scratch.next_values
    sums = np.empty((2, scores.shape[1]))  # rows TOTAL and LOW
    closed = np.empty((n_labels, scores.shape[1]))  # -inf for impossible labels, which reach no state; else 0
    plain = n_varying == 0  # and no arc is forbidden (see below): the inner loop then has no branches
    for arc in range(weighted_arcs.into[n_states]):
        plain = plain and weighted_arcs.arc_score[arc] > -np.inf
    zero, one = fill(0.0, lane_kind), fill(1.0, lane_kind)
    infinite, never = fill(np.inf, lane_kind), fill(-np.inf, lane_kind)
    least = fill(0.0 if is_wide(lane_kind) else LEAST_SHARE, lane_kind)
    for block in range(len(tile.length)):
        for state in range(n_states):
            before = load(carry, state, lane_kind)
            store(values, state, before)
            store(alpha, (tile.rows[block] + block) * n_states + state, before)
        for row in range(tile.rows[block], tile.rows[block + 1]):
            after = (row + block + 1) * n_states
            scale = load(inverse_scale, row - 1, lane_kind) if row > tile.rows[block] else one
            for label in range(n_labels):
                weight = load(scores, row * n_columns + label, lane_kind)
                store(closed, label, where_positive(weight, zero, never))
                store(scores, row * n_columns + label, multiply(weight, scale))
            # m = S alpha (7)
            sum_network(lane_kind, weighted_arcs.starts, weighted_arcs.terms, n_states, values)
            total, low = zero, infinite
            store(alpha, after, zero)
            store(next_values, 0, zero)
            for state in range(1, n_states):  # alpha(j + 1, s) = xi(j, y_s) sum of omega_a m_a (9)
                label = weighted_arcs.state_label[state]
                weighted, mass = zero, load(closed, label, lane_kind)
                if plain:
                    for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                        value = load(values, weighted_arcs.arc_value[arc], lane_kind)
                        weight = weight_of(weighted_arcs, arc, lane_kind)
                        weighted = multiply_add(weight, value, weighted)
                        mass = add(mass, value)
                else:
                    for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                        if weighted_arcs.arc_score[arc] == -np.inf:
                            continue
                        varying_id = weighted_arcs.arc_varying[arc]
                        value = load(values, weighted_arcs.arc_value[arc], lane_kind)
                        if varying_id >= 0:
                            weight = load(varying, row * n_varying + varying_id, lane_kind)
                        else:
                            weight = weight_of(weighted_arcs, arc, lane_kind)
                        weighted = multiply_add(weight, value, weighted)
                        mass = add(mass, value)
                product = multiply(weighted, load(scores, row * n_columns + label, lane_kind))
                low = smallest(where_positive(mass, product, infinite), low)
                product = largest(product, where_positive(mass, least, zero))
                store(alpha, after + state, product)
                store(next_values, state, product)
                total = add(total, product)
            values, next_values = next_values, values
            if is_wide(lane_kind):
                goes_on = row + 1 == tile.rows[block + 1] and tile.last[block, 0] < 0  # the next tile scales alpha
                total = one if goes_on else total
                store(inverse_scale, row, invert(total))
                store(log_scale, block, add(load(log_scale, block, lane_kind), log(total)))
            else:
                store(sums, TOTAL, total)
                store(sums, LOW, low)
                _take_scales(tile, inverse_scale, sums, row, block, log_scale, suspect)
        _drop_suspects(tile, block, n_states, suspect, alpha)


@njit(cache=True, nogil=True, error_model="numpy")
def _take_scales(tile, inverse_scale, sums, row, block, log_scale, suspect):
    """Unless a lane is suspect, compute 1 / total of its alpha, and add the log total to ``log_scale`` (10)."""
    n_lanes = tile.length.shape[1]
    for lane in range(n_lanes):
        for column in range(lane, sums.shape[1], n_lanes):
            inverse_scale[row, column] = 0.0
        if row - tile.rows[block] < tile.length[block, lane]:
            total = sums[TOTAL, lane]
            # with a very small or large total, numbers of the backward pass could leave the floating-point range
            if not SMALLEST_TOTAL <= total <= 1.0 / SMALLEST_TOTAL:
                suspect[block, lane] = 1.0
            elif sums[LOW, lane] < TINY * max(1.0, total):
                suspect[block, lane] = max(DOUBTFUL, suspect[block, lane])
            if suspect[block, lane] < 1.0:
                scale = 1.0 / total
                inverse_scale[row, lane] = scale
                log_scale[block, lane] += np.log(total)
                for derivative in range(lane + n_lanes, sums.shape[1], n_lanes):  # of dual numbers
                    inverse_scale[row, derivative] = -scale * scale * sums[TOTAL, derivative]
                    log_scale[block, derivative] += scale * sums[TOTAL, derivative]


@njit(cache=True, nogil=True, error_model="numpy")
def _drop_suspects(tile, block, n_states, suspect, alpha):
    """Set alpha to 0 in suspect lanes, which excludes them from the backward pass."""
    n_lanes = tile.length.shape[1]
    for lane in range(n_lanes):
        if suspect[block, lane] == 1.0:
            for slot in range((tile.rows[block] + block) * n_states, (tile.rows[block + 1] + block + 1) * n_states):
                for column in range(lane, alpha.shape[1], n_lanes):
                    alpha[slot, column] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def backward(lane_kind, weighted_arcs, tile, scratch, tables, weight, beta, counts):
    """Run the scaled backward pass and turn ``scores`` into marginals, in place.

    scratch : ``ChainScratch``
    tables : ``ChainTables``   from ``forward``; out: P(label) in the first L columns of the scores, P(pattern ends with
        the token) in the others; beta in place of the alpha after each row, 0 where that alpha is 0
    weight : (B, W)   factor of each lane in ``counts``
    beta : (P, W)   after the last row in, before the first row out, for sequences that continue in other tiles
    counts : (A, FOLDED), or (A, 1) for one lane   increased by the marginals of the arcs
    """
    scores, varying, alpha, inverse_scale = tables
    n_states, n_varying, n_arcs = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(weighted_arcs.arc_score)
    n_columns, n_lanes = len(scores) // tile.rows[-1], tile.length.shape[1]
    values, adjoints = scratch.values, scratch.adjoints
    first_beta = len(adjoints) - n_states  # first row of beta at the position after the current one
    marginals = np.empty((weighted_arcs.n_labels, scores.shape[1]))
    varying_marginals = np.empty((n_varying, scores.shape[1]))
    zero = fill(0.0, lane_kind)
    for block in range(len(tile.length) - 1, -1, -1):
        lane_weight = load(weight, block, lane_kind)
        scale = load(inverse_scale, tile.rows[block + 1] - 1, lane_kind)  # of lanes that continue in the next tile
        for state in range(n_states):
            store(adjoints, first_beta + state, multiply(load(beta, state, lane_kind), scale))
        for row in range(tile.rows[block + 1] - 1, tile.rows[block] - 1, -1):
            before = (row + block) * n_states
            after = before + n_states
            for lane in range(n_lanes):
                if tile.last[block, lane] == row - tile.rows[block]:
                    for column in range(lane, scores.shape[1], n_lanes):
                        for slot in range(first_beta, len(adjoints)):
                            adjoints[slot, column] = inverse_scale[row, column]
            for state in range(n_states):
                store(values, state, load(alpha, before + state, lane_kind))
            sum_network(lane_kind, weighted_arcs.starts, weighted_arcs.terms, n_states, values)
            for label in range(weighted_arcs.n_labels):
                store(marginals, label, zero)
            for state in range(1, n_states):  # b_a(j) (11), and its product with m_a(j) (12)
                label = weighted_arcs.state_label[state]
                mass = load(alpha, after + state, lane_kind)
                # beta of an unreachable state may be infinite and is ignored
                reach = where_positive(mass, load(adjoints, first_beta + state, lane_kind), zero)
                store(alpha, after + state, reach)
                store(marginals, label, multiply_add(mass, reach, load(marginals, label, lane_kind)))
                flow = multiply(reach, load(scores, row * n_columns + label, lane_kind))
                for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                    varying_id = weighted_arcs.arc_varying[arc]
                    value = load(values, weighted_arcs.arc_value[arc], lane_kind)
                    if varying_id < 0:
                        constant = weight_of(weighted_arcs, arc, lane_kind)
                        adjoint = multiply(constant, flow)
                    else:
                        # the weight may be huge, and the product infinite if no mass reaches the arc
                        adjoint = multiply(load(varying, row * n_varying + varying_id, lane_kind), flow)
                        adjoint = where_positive(value, adjoint, zero)
                        store(varying_marginals, varying_id, multiply(adjoint, value))
                    store(adjoints, arc, adjoint)
                    used = multiply(adjoint, value)
                    add_folded(counts, arc, multiply(used, lane_weight))
            # beta = S^T b (11)
            sum_adjoints(lane_kind, weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
            for label in range(weighted_arcs.n_labels):
                store(scores, row * n_columns + label, load(marginals, label, lane_kind))
            count_columns(lane_kind, weighted_arcs, varying_marginals, scores, row * n_columns)
        for state in range(n_states):
            store(beta, state, load(adjoints, first_beta + state, lane_kind))


@njit(cache=True, nogil=True, error_model="numpy")
def backward_max(lane_kind, weighted_arcs, tile, scratch, scores, varying_log, beta):
    """Write to ``beta`` ((R + B) * P, W) the best score of the labels from each position on; 0 at a lane's end.

    scratch : ``ChainScratch``        scores : (R * C, W)
    varying_log : (R * Q, W)   from ``token_scores.varying_scores``

    The caller sets the last P rows of ``beta`` of each block, for lanes that continue in the next tile.
    """
    n_states, n_varying, n_arcs = len(weighted_arcs.fail), len(weighted_arcs.varying_arc), len(weighted_arcs.arc_score)
    n_columns, adjoints = len(scores) // tile.rows[-1], scratch.adjoints
    first_beta = len(adjoints) - n_states
    for block in range(len(tile.length)):
        for row in range(tile.rows[block + 1] - 1, tile.rows[block] - 1, -1):
            before = (row + block) * n_states
            after = before + n_states
            for lane in range(scores.shape[1]):
                if tile.last[block, lane] == row - tile.rows[block]:
                    for state in range(n_states):
                        beta[after + state, lane] = 0.0
            for state in range(1, n_states):  # (15)
                score = load(scores, row * n_columns + weighted_arcs.state_label[state], lane_kind)
                best = add(load(beta, after + state, lane_kind), score)
                for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                    adjoint = add(best, fill(weighted_arcs.arc_score[arc], lane_kind))
                    varying_id = weighted_arcs.arc_varying[arc]
                    if varying_id >= 0:
                        adjoint = add(adjoint, load(varying_log, row * n_varying + varying_id, lane_kind))
                    store(adjoints, arc, adjoint)
            largest_adjoints(lane_kind, weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
            for state in range(n_states):
                store(beta, before + state, load(adjoints, first_beta + state, lane_kind))


@njit(cache=True, nogil=True, error_model="numpy")
def walk(weighted_arcs, tile, scores, varying_log, beta, state, codes):
    """Write the best labels, from left to right; ties go to the lowest label.

    state : (B, W) int32   in and out: automaton state of each lane        codes : (N,) int32   out, by token
    """
    n_states, n_varying = len(weighted_arcs.fail), len(weighted_arcs.varying_arc)
    n_columns = len(scores) // tile.rows[-1]
    outgoing, source_arcs = weighted_arcs.outgoing, weighted_arcs.source_arcs
    arc_label, fail = weighted_arcs.arc_label, weighted_arcs.fail
    # the arcs that states use, looked up when a state is first met
    arcs, met = np.empty((n_states, weighted_arcs.n_labels), dtype=np.int32), np.zeros(n_states, dtype=np.bool_)
    for block in range(len(tile.length)):
        for row in range(tile.rows[block], tile.rows[block + 1]):
            position = row - tile.rows[block]
            for lane in range(scores.shape[1]):
                if position >= tile.length[block, lane]:
                    continue
                current = state[block, lane]
                if not met[current]:
                    resolve(outgoing, source_arcs, arc_label, fail, np.int64(current), arcs[current])
                    met[current] = True
                arc_of_label = arcs[current]
                best, best_arc = -np.inf, arc_of_label[0]
                for label in range(weighted_arcs.n_labels):
                    arc = arc_of_label[label]
                    score = weighted_arcs.arc_score[arc] + scores[row * n_columns + label, lane]
                    if weighted_arcs.arc_varying[arc] >= 0:
                        score += varying_log[row * n_varying + weighted_arcs.arc_varying[arc], lane]
                    score += beta[(row + block + 1) * n_states + weighted_arcs.arc_target[arc], lane]
                    if score > best:
                        best, best_arc = score, arc
                codes[tile.first_token[block, lane] + position] = weighted_arcs.arc_label[best_arc]
                state[block, lane] = weighted_arcs.arc_target[best_arc]


@njit(cache=True, nogil=True, error_model="numpy")
def label_arcs(automaton, offsets, codes, arcs):
    """Write the arc that the automaton uses at each token if ``codes`` are the labels: ``arcs`` (N,) int32.

    automaton : ``PatternAutomaton`` or ``WeightedArcs``
    """
    outgoing, source_arcs, arc_label = automaton.outgoing, automaton.source_arcs, automaton.arc_label
    arc_of_label = np.empty(automaton.n_labels, dtype=np.int32)
    for sequence in range(len(offsets) - 1):
        current = np.int64(0)
        for token in range(offsets[sequence], offsets[sequence + 1]):
            resolve(outgoing, source_arcs, arc_label, automaton.fail, current, arc_of_label)
            arcs[token] = arc_of_label[codes[token]]
            current = np.int64(automaton.arc_target[arcs[token]])

"""Forward and backward passes of a high-order chain over many sequences side by side, and Viterbi decoding.

The sequences of a block occupy the *lanes* of every array, innermost, so that each addition of the sum network is a
vector addition. With ``w`` the arc weights, ``e`` the exponentiated emission scores, S and R as in ``_sumnet``:

    forward     m(j) = S alpha(j)                    alpha(j + 1) = e(j) * R (w m(j)) / total of alpha(j)
    backward    b(j) = w R^T (e(j) beta(j + 1)) / total of alpha(j)        beta(j) = S^T b(j)
    marginals   P(arc a is used at j) = m_a(j) b_a(j)

with beta(T) = 1 / total of alpha(T). A state that is out of the running may yet be the only survivor of a later
position, so a lane in which any reachable alpha falls below 1e-200 of its row is reported as *suspect* and is done
again by the log-space twin (``chain_log``). Beta needs no such check: alpha . beta = 1 at every position, so what
underflows in beta had a negligible posterior probability.

Decoding runs the same transposed network in the (max, +) semiring, on log scores, where nothing can underflow. The
automaton is deterministic, so the best labelling needs no back-pointers: ``beta(j, p)`` is the best score of the
labels from j on in state p, and a walk from the left takes the best label in each state.

Blocks are LANES wide, and each kernel is compiled for vectors of that many numbers. A long sequence that has no
company runs in a block of one lane: with ``width=None`` the same kernels are compiled for single numbers.

Shapes: B blocks, W = LANES or 1 lanes, R rows (positions of all blocks), C score columns (the first L are the labels),
P states, A arcs, Q slots (arcs whose score varies with the position). Tables of lanes are two-dimensional,
``(R * C, W)`` and so on, and their rows are read and written as whole vectors; without JIT a vector is a numpy array.
"""

import numpy as np

from ._common import (
    FOLDED,
    LANES,
    add,
    add_folded,
    exp,
    fill,
    fill_dual,
    largest,
    largest_adjoints,
    load,
    multiply,
    multiply_add,
    resolve,
    smallest,
    store,
    sum_adjoints,
    sum_network,
    where_positive,
)
from ._jit import njit

__all__ = ["FOLDED", "LANES", "LOWEST_LOG", "backward", "backward_max", "exponentiate", "forward", "label_arcs", "walk"]

COMMON_SOURCE = "99b83e7ed86c39a1"
TINY = 1e-200  # and not 1e-300: the backward pass multiplies what it divides by such a number
SMALLEST_TOTAL = 1e-80
LOWEST_LOG = -644.0  # exp of it, about 1e-280, is the smallest weight


@njit(cache=True, nogil=True, error_model="numpy")
def exponentiate(width, lattice, slab, scores, factors, log_scale, suspect):
    """Turn scores into weights, in place.

    scores : (R * C, W)   log scores in; the first L columns become exp(score - row maximum), 0 beyond a lane's end
    factors : (R * Q, W)   out: weight of each slot's arc, without the emission
    log_scale : (B, W)   increased by the logarithms taken out
    suspect : (B, W)   set to 1 where a weight leaves the range in which exp is safe
    """
    n_labels, n_slots = lattice.n_labels, len(lattice.slot_arc)
    n_columns = len(scores) // slab.rows[-1]
    alive = np.zeros((1, scores.shape[1]))
    dynamic = np.empty((n_slots, scores.shape[1]))
    zero, one = fill(0.0, width), fill(1.0, width)
    lowest_safe, minus = fill(LOWEST_LOG, width), fill(-1.0, width)
    log_shift = fill(lattice.log_shift, width)
    for block in range(len(slab.length)):
        block_scale, block_suspect = load(log_scale, block, width), load(suspect, block, width)
        for row in range(slab.rows[block], slab.rows[block + 1]):
            for lane in range(slab.length.shape[1]):
                alive[0, lane] = 1.0 if row - slab.rows[block] < slab.length[block, lane] else 0.0
            lives = load(alive, 0, width)
            first = row * n_columns
            shift = load(scores, first, width)
            lowest = shift
            for column in range(1, n_labels):
                score = load(scores, first + column, width)
                shift, lowest = largest(score, shift), smallest(score, lowest)
            minus_shift = multiply(minus, shift)
            # margin of safety, > 0 if all is well; scores beyond it are cut off for exp and their lane is suspect
            margin = add(add(lowest, minus_shift), fill(-LOWEST_LOG, width))
            for column in range(n_labels):
                score = add(load(scores, first + column, width), minus_shift)
                store(scores, first + column, multiply(lives, exp(largest(score, lowest_safe))))
            block_scale = add(block_scale, multiply(lives, add(shift, log_shift)))
            for slot in range(n_slots):
                total = zero
                if lattice.slot_column[slot] >= 0:
                    total = load(scores, first + lattice.slot_column[slot], width)
                if lattice.slot_up[slot] >= 0:
                    total = add(total, load(dynamic, lattice.slot_up[slot], width))
                store(dynamic, slot, total)
                constant = lattice.arc_score[lattice.slot_arc[slot]] - lattice.log_shift
                if constant == -np.inf:
                    store(factors, row * n_slots + slot, zero)
                    continue
                total = add(total, fill_dual(constant, lattice.arc_slope[lattice.slot_arc[slot]], width))
                margin = smallest(add(total, fill(-LOWEST_LOG, width)), margin)
                margin = smallest(add(multiply(minus, total), fill(-LOWEST_LOG, width)), margin)
                total = smallest(largest(total, lowest_safe), fill(-LOWEST_LOG, width))
                store(factors, row * n_slots + slot, multiply(lives, exp(total)))
            block_suspect = largest(block_suspect, multiply(lives, where_positive(margin, zero, one)))
        store(log_scale, block, block_scale)
        store(suspect, block, block_suspect)


@njit(cache=True, nogil=True, error_model="numpy")
def forward(width, lattice, slab, scratch, carry, scores, factors, alpha, inverse_scale, log_scale, suspect):
    """Run the scaled forward pass of the blocks of a slab.

    scratch : (enough, W)   overwritten: memory that large is dear to allocate for each call, the more so in threads
    scores : (R * C, W)   from ``exponentiate``; the first L columns of a row are divided by the total of the row before
    factors : (R * Q, W)   from ``exponentiate``
    carry : (P, W)   alpha in front of each block, of total 1        alpha : ((R + B) * P, W) out
    inverse_scale : (R, W)   out: 1 / total of the alpha after each row, 0 beyond a lane's end
    log_scale : (B, W)   increased by log Z of each lane        suspect : (B, W)   set to 1 as ``exponentiate`` does
    """
    n_states, n_slots, n_labels = len(lattice.fail), len(lattice.slot_arc), lattice.n_labels
    n_columns, n_lanes = len(scores) // slab.rows[-1], slab.length.shape[1]
    n_values = n_states + len(lattice.starts) - 1
    values, next_values = scratch[:n_values], scratch[n_values : 2 * n_values]
    totals, lows = np.empty((1, scores.shape[1])), np.empty((1, scores.shape[1]))
    plain = n_slots == 0  # and nothing is forbidden: then the inner loop has no branches
    for score in lattice.arc_score:
        plain = plain and score > -np.inf
    zero, infinite = fill(0.0, width), fill(np.inf, width)
    for block in range(len(slab.length)):
        for state in range(n_states):
            before = load(carry, state, width)
            store(values, state, before)
            store(alpha, (slab.rows[block] + block) * n_states + state, before)
        for row in range(slab.rows[block], slab.rows[block + 1]):
            after = (row + block + 1) * n_states
            if row > slab.rows[block]:
                scale = load(inverse_scale, row - 1, width)
                for label in range(row * n_columns, row * n_columns + n_labels):
                    store(scores, label, multiply(load(scores, label, width), scale))
            sum_network(width, lattice.starts, lattice.terms, n_states, values)
            total, low = zero, infinite
            store(alpha, after, zero)
            store(next_values, 0, zero)
            for state in range(1, n_states):
                weighted, mass = zero, zero
                if plain:
                    for arc in range(lattice.into[state], lattice.into[state + 1]):
                        value = load(values, lattice.arc_value[arc], width)
                        weight = fill_dual(lattice.arc_weight[arc], lattice.weight_slope[arc], width)
                        weighted = multiply_add(weight, value, weighted)
                        mass = add(mass, value)
                else:
                    for arc in range(lattice.into[state], lattice.into[state + 1]):
                        if lattice.arc_score[arc] == -np.inf:
                            continue
                        slot = lattice.arc_slot[arc]
                        value = load(values, lattice.arc_value[arc], width)
                        if slot >= 0:
                            weight = load(factors, row * n_slots + slot, width)
                        else:
                            weight = fill_dual(lattice.arc_weight[arc], lattice.weight_slope[arc], width)
                        weighted = multiply_add(weight, value, weighted)
                        mass = add(mass, value)
                product = multiply(weighted, load(scores, row * n_columns + lattice.state_label[state], width))
                store(alpha, after + state, product)
                store(next_values, state, product)
                total = add(total, product)
                low = smallest(where_positive(mass, product, infinite), low)
            values, next_values = next_values, values
            store(totals, 0, total)
            store(lows, 0, low)
            for lane in range(n_lanes):
                inverse_scale[row, lane::n_lanes] = 0.0
                if row - slab.rows[block] < slab.length[block, lane]:
                    # a row of very small or large total would leave the backward pass no room
                    safe = SMALLEST_TOTAL <= totals[0, lane] <= 1.0 / SMALLEST_TOTAL
                    if not (safe and lows[0, lane] >= TINY * max(1.0, totals[0, lane])):
                        suspect[block, lane] = 1.0
                    if suspect[block, lane] == 0.0:
                        scale = 1.0 / totals[0, lane]
                        inverse_scale[row, lane] = scale
                        log_scale[block, lane] += np.log(totals[0, lane])
                        for slope in range(lane + n_lanes, scores.shape[1], n_lanes):  # of dual numbers
                            inverse_scale[row, slope] = -scale * scale * totals[0, slope]
                            log_scale[block, slope] += scale * totals[0, slope]
        first, stop = (slab.rows[block] + block) * n_states, (slab.rows[block + 1] + block + 1) * n_states
        for lane in range(n_lanes):
            if suspect[block, lane] > 0.0:  # no mass: the lane drops out of the backward pass
                alpha[first:stop, lane::n_lanes] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def backward(width, lattice, slab, scratch, scores, factors, alpha, inverse_scale, weight, beta, counts):
    """Run the scaled backward pass and turn ``scores`` into marginals, in place.

    scratch : (enough, W)   overwritten
    scores : (R * C, W)   in: from ``forward``; out: P(label) in the first L columns, P(pattern ends here) in the others
    weight : (B, W)   by which each lane counts in ``counts``
    beta : (P, W)   in and out, for parts of long sequences
    counts : (A, FOLDED), or (A, 1) for one lane   increased by the marginals of the arcs
    """
    n_states, n_arcs, n_slots = len(lattice.fail), len(lattice.arc_slot), len(lattice.slot_arc)
    n_columns, n_lanes = len(scores) // slab.rows[-1], slab.length.shape[1]
    n_values = n_states + len(lattice.starts) - 1
    values, adjoints = scratch[:n_values], scratch[n_values : n_values + n_arcs + len(lattice.back_starts) - 1]
    first_beta = len(adjoints) - n_states  # beta of the position after the current one
    marginals = np.empty((lattice.n_labels, scores.shape[1]))
    slots = np.empty((n_slots, scores.shape[1]))
    zero = fill(0.0, width)
    for block in range(len(slab.length) - 1, -1, -1):
        lane_weight = load(weight, block, width)
        scale = load(inverse_scale, slab.rows[block + 1] - 1, width)  # of lanes that go on in the next slab
        for state in range(n_states):
            store(adjoints, first_beta + state, multiply(load(beta, state, width), scale))
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = (row + block) * n_states
            after = here + n_states
            for lane in range(n_lanes):
                if slab.last[block, lane] == row - slab.rows[block]:
                    for column in range(lane, scores.shape[1], n_lanes):
                        adjoints[first_beta:, column] = inverse_scale[row, column]
            for state in range(n_states):
                store(values, state, load(alpha, here + state, width))
            sum_network(width, lattice.starts, lattice.terms, n_states, values)
            for label in range(lattice.n_labels):
                store(marginals, label, zero)
            for state in range(1, n_states):
                label = lattice.state_label[state]
                mass = load(alpha, after + state, width)
                # a state out of reach has no use for its beta, which may be infinite
                reach = where_positive(mass, load(adjoints, first_beta + state, width), zero)
                store(marginals, label, multiply_add(mass, reach, load(marginals, label, width)))
                flow = multiply(reach, load(scores, row * n_columns + label, width))
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    slot = lattice.arc_slot[arc]
                    value = load(values, lattice.arc_value[arc], width)
                    if slot < 0:
                        constant = fill_dual(lattice.arc_weight[arc], lattice.weight_slope[arc], width)
                        adjoint = multiply(constant, flow)
                    else:
                        # a factor may be huge; where nothing uses the arc, the product may be infinite
                        adjoint = multiply(load(factors, row * n_slots + slot, width), flow)
                        adjoint = where_positive(value, adjoint, zero)
                        store(slots, slot, multiply(adjoint, value))
                    store(adjoints, arc, adjoint)
                    used = multiply(adjoint, value)
                    add_folded(counts, arc, multiply(used, lane_weight))
            sum_adjoints(width, lattice.back_starts, lattice.back_terms, n_arcs, adjoints)
            for label in range(lattice.n_labels):
                store(scores, row * n_columns + label, load(marginals, label, width))
            for slot in range(n_slots - 1, -1, -1):  # longest arcs first: an arc's pattern is a suffix of longer arcs
                up, column = lattice.slot_up[slot], lattice.slot_column[slot]
                if up >= 0:
                    store(slots, up, add(load(slots, up, width), load(slots, slot, width)))
                if column >= 0:
                    store(scores, row * n_columns + column, load(slots, slot, width))
        for state in range(n_states):
            store(beta, state, load(adjoints, first_beta + state, width))


@njit(cache=True, nogil=True, error_model="numpy")
def backward_max(width, lattice, slab, scratch, scores, dynamic, beta):
    """Fill ``beta`` ((R + B) * P, W): the best score from each position on, 0 at a lane's end.

    scratch : (enough, W)   overwritten
    scores : (R * C, W)        dynamic : (R * Q, W)   from ``rows.slot_scores``
    The last P rows of each block are set by the caller, for lanes that go on beyond the slab.
    """
    n_states, n_arcs, n_slots = len(lattice.fail), len(lattice.arc_slot), len(lattice.slot_arc)
    n_columns = len(scores) // slab.rows[-1]
    adjoints = scratch[: n_arcs + len(lattice.back_starts) - 1]
    first_beta = len(adjoints) - n_states
    for block in range(len(slab.length)):
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = (row + block) * n_states
            after = here + n_states
            for lane in range(scores.shape[1]):
                if slab.last[block, lane] == row - slab.rows[block]:
                    for state in range(n_states):
                        beta[after + state, lane] = 0.0
            for state in range(1, n_states):
                score = load(scores, row * n_columns + lattice.state_label[state], width)
                best = add(load(beta, after + state, width), score)
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    adjoint = add(best, fill(lattice.arc_score[arc], width))
                    slot = lattice.arc_slot[arc]
                    if slot >= 0:
                        adjoint = add(adjoint, load(dynamic, row * n_slots + slot, width))
                    store(adjoints, arc, adjoint)
            largest_adjoints(width, lattice.back_starts, lattice.back_terms, n_arcs, adjoints)
            for state in range(n_states):
                store(beta, here + state, load(adjoints, first_beta + state, width))


@njit(cache=True, nogil=True, error_model="numpy")
def walk(lattice, slab, scores, dynamic, beta, state, codes):
    """Read off the best labels, left to right; ties go to the lowest label.

    state : (B, W) int32   in and out: automaton state of each lane        codes : (N,) int32   out, by token
    """
    n_states, n_slots = len(lattice.fail), len(lattice.slot_arc)
    n_columns = len(scores) // slab.rows[-1]
    # the arcs that states use, looked up when a state is first met
    arcs, known = np.empty((n_states, lattice.n_labels), dtype=np.int32), np.zeros(n_states, dtype=np.bool_)
    for block in range(len(slab.length)):
        for row in range(slab.rows[block], slab.rows[block + 1]):
            position = row - slab.rows[block]
            for lane in range(scores.shape[1]):
                if position >= slab.length[block, lane]:
                    continue
                current = state[block, lane]
                if not known[current]:
                    resolve(lattice, np.int64(current), arcs[current])
                    known[current] = True
                arc_of_label = arcs[current]
                best, best_arc = -np.inf, arc_of_label[0]
                for label in range(lattice.n_labels):
                    arc = arc_of_label[label]
                    score = lattice.arc_score[arc] + scores[row * n_columns + label, lane]
                    if lattice.arc_slot[arc] >= 0:
                        score += dynamic[row * n_slots + lattice.arc_slot[arc], lane]
                    score += beta[(row + block + 1) * n_states + lattice.arc_target[arc], lane]
                    if score > best:
                        best, best_arc = score, arc
                codes[slab.first_token[block, lane] + position] = lattice.arc_label[best_arc]
                state[block, lane] = lattice.arc_target[best_arc]


@njit(cache=True, nogil=True, error_model="numpy")
def label_arcs(lattice, offsets, codes, arcs):
    """Write the arc that each token uses when the sequences are labelled with ``codes``: ``arcs`` (N,) int32."""
    arc_of_label = np.empty(lattice.n_labels, dtype=np.int32)
    for sequence in range(len(offsets) - 1):
        current = 0
        for token in range(offsets[sequence], offsets[sequence + 1]):
            resolve(lattice, current, arc_of_label)
            arcs[token] = arc_of_label[codes[token]]
            current = lattice.arc_target[arcs[token]]

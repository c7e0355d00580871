"""Forward and backward passes of a high-order chain, scaled, many sequences side by side (sum-product semiring).

The sequences of a block occupy the *lanes* of every array, innermost, so that each addition of the sum network is a vector
addition. With ``w`` the arc weights, ``e`` the exponentiated emission scores, ``S`` and ``R`` as in ``_sumnet``:

    forward     m(j) = S alpha(j)                    alpha(j + 1) = e(j) * R (w m(j)) / scale(j)
    backward    b(j) = w R^T (e(j) beta(j + 1)) / scale(j)     beta(j) = S^T b(j)
    marginals   P(arc a is used at j) = m_a(j) b_a(j)

Scaling by the row sum keeps every row of alpha at total 1. A state that is out of the running may yet be the only survivor
of a later position, so a lane in which any reachable alpha falls below 1e-280 of its row is reported as *suspect* and is
done again by the log-space twin (``chain_log``). Beta needs no such check: alpha . beta = 1 at every position, so what
underflows in beta had a posterior probability below 1e-300.

Shapes: R rows (positions of the blocks of a slab), C score columns (the first L are the labels), P states, A arcs, Q slots
(arcs whose weight varies with the position), W lanes, B blocks.
"""

import numpy as np
from numba import njit

_TINY = 1e-280
LOG_TINY = np.log(_TINY)


@njit(cache=True, nogil=True, error_model="numpy")
def exponentiate(lattice, slab, scores, factors, log_scale, suspect):
    """Turn scores into weights, in place.

    scores : (R, C, W)   log scores in; the first L columns become exp(score - row maximum), 0 beyond a lane's end
    factors : (R, Q, W)   out: weight of each slot's arc, without the emission
    log_scale : (B, W)   increased by the logarithms taken out        suspect : (B, W)   set where exp leaves the safe range
    """
    n_labels = lattice.n_labels
    lanes = scores.shape[2]
    dynamic = np.empty(len(lattice.slot_arc))
    for block in range(len(slab.length)):
        for row in range(slab.rows[block], slab.rows[block + 1]):
            for lane in range(lanes):
                if row - slab.rows[block] >= slab.length[block, lane]:
                    for column in range(n_labels):
                        scores[row, column, lane] = 0.0
                    for slot in range(len(dynamic)):
                        factors[row, slot, lane] = 0.0
                    continue
                shift = scores[row, 0, lane]
                lowest = shift
                for column in range(1, n_labels):
                    shift = max(shift, scores[row, column, lane])
                    lowest = min(lowest, scores[row, column, lane])
                if not lowest - shift > LOG_TINY:
                    suspect[block, lane] = True
                for column in range(n_labels):
                    scores[row, column, lane] = np.exp(scores[row, column, lane] - shift)
                log_scale[block, lane] += shift + lattice.log_shift
                for slot in range(len(dynamic)):
                    total = 0.0
                    if lattice.slot_column[slot] >= 0:
                        total = scores[row, lattice.slot_column[slot], lane]
                    if lattice.slot_up[slot] >= 0:
                        total += dynamic[lattice.slot_up[slot]]
                    dynamic[slot] = total
                    total += lattice.arc_score[lattice.slot_arc[slot]] - lattice.log_shift
                    if not abs(total) < -LOG_TINY and total != -np.inf:
                        suspect[block, lane] = True
                    factors[row, slot, lane] = np.exp(total)


@njit(cache=True, nogil=True, error_model="numpy")
def forward(lattice, slab, scores, factors, alpha, inverse_scale, log_scale, suspect):
    """Run the scaled forward pass of the blocks of a slab.

    scores, factors : from ``exponentiate``        alpha : (R + B, P, W)   the first row of each block is set by the caller
    inverse_scale : (R, W) out        log_scale : (B, W)   increased by log Z of each lane        suspect : (B, W)
    """
    n_states = len(lattice.fail)
    lanes = scores.shape[2]
    values = np.empty((n_states + len(lattice.starts) - 1, lanes))
    total, low, mass = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    for block in range(len(slab.length)):
        for row in range(slab.rows[block], slab.rows[block + 1]):
            here = row + block
            after = here + 1
            _sum_network(lattice.starts, lattice.terms, alpha[here], values)
            for lane in range(lanes):
                total[lane] = 0.0
                low[lane] = np.inf
                alpha[after, 0, lane] = 0.0
            for state in range(1, n_states):
                for lane in range(lanes):
                    alpha[after, state, lane] = 0.0
                    mass[lane] = 0.0
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    weight = lattice.arc_weight[arc]
                    if weight == 0.0:
                        continue
                    source = lattice.arc_value[arc]
                    slot = lattice.arc_slot[arc]
                    if slot < 0:
                        for lane in range(lanes):
                            alpha[after, state, lane] += weight * values[source, lane]
                            mass[lane] += values[source, lane]
                    else:
                        for lane in range(lanes):
                            alpha[after, state, lane] += factors[row, slot, lane] * values[source, lane]
                            mass[lane] += values[source, lane]
                label = lattice.state_label[state]
                for lane in range(lanes):
                    product = alpha[after, state, lane] * scores[row, label, lane]
                    alpha[after, state, lane] = product
                    total[lane] += product
                    low[lane] = min(low[lane], product if mass[lane] > 0.0 else np.inf)
            for lane in range(lanes):
                inverse_scale[row, lane] = 0.0
                if row - slab.rows[block] < slab.length[block, lane]:
                    if not low[lane] >= _TINY * total[lane] or not total[lane] > 0.0:
                        suspect[block, lane] = True
                    if total[lane] > 0.0:
                        inverse_scale[row, lane] = 1.0 / total[lane]
                        log_scale[block, lane] += np.log(total[lane])
            for state in range(1, n_states):
                for lane in range(lanes):
                    alpha[after, state, lane] *= inverse_scale[row, lane]
        for lane in range(lanes):
            if suspect[block, lane]:  # no mass: the lane drops out of the backward pass
                alpha[slab.rows[block] + block : slab.rows[block + 1] + block + 1, :, lane] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def backward(lattice, slab, scores, factors, alpha, inverse_scale, weight, beta, counts):
    """Run the scaled backward pass and turn ``scores`` into marginals, in place.

    scores : (R, C, W)   in: weights; out: P(label) in the first L columns, P(pattern ends here) in the others
    weight : (B, W)   by which each lane counts in ``counts``        beta : (P, W)   in and out, for parts of long sequences
    counts : (A, W)   increased by the marginals of the arcs
    """
    n_states, n_arcs, n_labels = len(lattice.fail), len(lattice.arc_slot), lattice.n_labels
    lanes = scores.shape[2]
    values = np.empty((n_states + len(lattice.starts) - 1, lanes))
    adjoints = np.empty((n_arcs + len(lattice.back_starts) - 1, lanes))
    first_beta = len(adjoints) - n_states
    marginals = np.empty((n_labels, lanes))
    slots = np.empty((len(lattice.slot_arc), lanes))
    flow = np.empty(lanes)
    for block in range(len(slab.length) - 1, -1, -1):
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = row + block
            after = here + 1
            for lane in range(lanes):
                if slab.last[block, lane] == row - slab.rows[block]:
                    for state in range(n_states):
                        beta[state, lane] = 1.0
            _sum_network(lattice.starts, lattice.terms, alpha[here], values)
            marginals[:] = 0.0
            for state in range(1, n_states):
                label = lattice.state_label[state]
                for lane in range(lanes):
                    mass = alpha[after, state, lane]
                    # a state out of reach has no use for its beta, which may be infinite
                    reach = beta[state, lane] if mass > 0.0 else 0.0
                    marginals[label, lane] += mass * reach
                    flow[lane] = reach * scores[row, label, lane] * inverse_scale[row, lane]
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    arc_weight = lattice.arc_weight[arc]
                    source = lattice.arc_value[arc]
                    slot = lattice.arc_slot[arc]
                    if slot < 0:
                        for lane in range(lanes):
                            adjoints[arc, lane] = arc_weight * flow[lane]
                            counts[arc, lane] += adjoints[arc, lane] * values[source, lane] * weight[block, lane]
                    else:
                        for lane in range(lanes):
                            adjoints[arc, lane] = factors[row, slot, lane] * flow[lane]
                            slots[slot, lane] = adjoints[arc, lane] * values[source, lane]
                            counts[arc, lane] += slots[slot, lane] * weight[block, lane]
            _sum_adjoints(lattice.back_starts, lattice.back_terms, n_arcs, adjoints)
            for state in range(n_states):
                for lane in range(lanes):
                    beta[state, lane] = adjoints[first_beta + state, lane]
            for label in range(n_labels):
                for lane in range(lanes):
                    scores[row, label, lane] = marginals[label, lane]
            for slot in range(len(slots) - 1, -1, -1):  # longest arcs first: an arc's pattern is a suffix of longer arcs
                up, column = lattice.slot_up[slot], lattice.slot_column[slot]
                if up >= 0:
                    for lane in range(lanes):
                        slots[up, lane] += slots[slot, lane]
                if column >= 0:
                    for lane in range(lanes):
                        scores[row, column, lane] = slots[slot, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_network(starts, terms, alpha, values):
    """Evaluate the sum network: ``values`` is (P + I, W), its first P rows are copied from ``alpha``."""
    n_states, lanes = alpha.shape
    for state in range(n_states):
        for lane in range(lanes):
            values[state, lane] = alpha[state, lane]
    for node in range(len(starts) - 1):
        start = starts[node]
        left, right, out = terms[start], terms[start + 1], n_states + node
        for lane in range(lanes):
            values[out, lane] = values[left, lane] + values[right, lane]
        for term in range(start + 2, starts[node + 1]):
            source = terms[term]
            for lane in range(lanes):
                values[out, lane] += values[source, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_adjoints(starts, terms, n_arcs, adjoints):
    """Evaluate the transposed sum network: ``adjoints`` is (A + J + P, W), its first A rows are given."""
    lanes = adjoints.shape[1]
    for node in range(len(starts) - 1):
        out = n_arcs + node
        for lane in range(lanes):
            adjoints[out, lane] = 0.0
        for term in range(starts[node], starts[node + 1]):
            source = terms[term]
            for lane in range(lanes):
                adjoints[out, lane] += adjoints[source, lane]

"""Viterbi decoding, many sequences side by side (max-plus semiring).

The automaton is deterministic, so the best labelling needs no back-pointers: a backward pass gives ``beta(j, p)``, the best
score of the labels from j on when the automaton is in state p, and a walk from the left takes the best label in each state.
Shapes as in ``chain``. dynamic : (R, Q, W)   from ``rows.slot_scores``.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def backward_max(lattice, slab, scores, dynamic, beta):
    """Fill ``beta`` (R + B, P, W): best score from each position on, 0 at a lane's end.

    The last row of each block is set by the caller, for lanes that go on beyond the slab.
    """
    n_states, n_arcs = len(lattice.fail), len(lattice.arc_slot)
    lanes = scores.shape[2]
    adjoints = np.empty((n_arcs + len(lattice.back_starts) - 1, lanes))
    first_beta = len(adjoints) - n_states
    best = np.empty(lanes)
    for block in range(len(slab.length)):
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = row + block
            for lane in range(lanes):
                if slab.last[block, lane] == row - slab.rows[block]:
                    for state in range(n_states):
                        beta[here + 1, state, lane] = 0.0
            for state in range(1, n_states):
                label = lattice.state_label[state]
                for lane in range(lanes):
                    best[lane] = beta[here + 1, state, lane] + scores[row, label, lane]
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    score = lattice.arc_score[arc]
                    slot = lattice.arc_slot[arc]
                    if slot < 0:
                        for lane in range(lanes):
                            adjoints[arc, lane] = best[lane] + score
                    else:
                        for lane in range(lanes):
                            adjoints[arc, lane] = best[lane] + score + dynamic[row, slot, lane]
            for node in range(len(lattice.back_starts) - 1):
                out, start = n_arcs + node, lattice.back_starts[node]
                source = lattice.back_terms[start]
                for lane in range(lanes):
                    adjoints[out, lane] = adjoints[source, lane]
                for term in range(start + 1, lattice.back_starts[node + 1]):
                    source = lattice.back_terms[term]
                    for lane in range(lanes):
                        adjoints[out, lane] = max(adjoints[out, lane], adjoints[source, lane])
            for state in range(n_states):
                for lane in range(lanes):
                    beta[here, state, lane] = adjoints[first_beta + state, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def walk(lattice, slab, scores, dynamic, beta, state, codes):
    """Read off the best labels, left to right; ties go to the lowest label.

    state : (B, W) int32   in and out: automaton state of each lane        codes : (N,) int32   out, by token
    """
    reader = np.empty(lattice.n_labels, dtype=np.int32)
    for block in range(len(slab.length)):
        for lane in range(scores.shape[2]):
            current = state[block, lane]
            for position in range(slab.length[block, lane]):
                row = slab.rows[block] + position
                _resolve(lattice, current, reader)
                best, best_arc = -np.inf, reader[0]
                for label in range(lattice.n_labels):
                    arc = reader[label]
                    score = lattice.arc_score[arc] + scores[row, label, lane]
                    if lattice.arc_slot[arc] >= 0:
                        score += dynamic[row, lattice.arc_slot[arc], lane]
                    score += beta[row + block + 1, lattice.arc_target[arc], lane]
                    if score > best:
                        best, best_arc = score, arc
                codes[slab.first_token[block, lane] + position] = lattice.arc_label[best_arc]
                current = lattice.arc_target[best_arc]
            state[block, lane] = current


@njit(cache=True, nogil=True, error_model="numpy")
def label_arcs(lattice, offsets, codes, arcs):
    """Write the arc that each token's label uses when the sequences are labelled with ``codes``: ``arcs`` (N,) int32."""
    reader = np.empty(lattice.n_labels, dtype=np.int32)
    for sequence in range(len(offsets) - 1):
        current = 0
        for token in range(offsets[sequence], offsets[sequence + 1]):
            _resolve(lattice, current, reader)
            arcs[token] = reader[codes[token]]
            current = lattice.arc_target[arcs[token]]


@njit(cache=True, nogil=True, error_model="numpy")
def _resolve(lattice, state, reader):
    """Find, for each label, the arc that ``state`` uses: its own, or that of the nearest suffix that has one."""
    reader[:] = -1
    missing = lattice.n_labels
    while True:
        for index in range(lattice.outgoing[state], lattice.outgoing[state + 1]):
            arc = lattice.source_arcs[index]
            if reader[lattice.arc_label[arc]] < 0:
                reader[lattice.arc_label[arc]] = arc
                missing -= 1
        if missing == 0:
            return
        state = lattice.fail[state]

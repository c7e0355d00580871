"""Epochs of the perceptron, compiled as a whole: best labelling, comparison, and move of the weights, by sequence.

Weights change from sequence to sequence, so each sequence is processed alone, and not next to others in lanes. If the
states of the automaton are labels (orders 0 and 1), what follows a label does not depend on the state before it.
Decoding then processes STEP states at a time: with e(j, y) the scores of labels, and C(s, y) the score of the arc from
state s with label y,

    V(j, y) = e(j, y) + beta(j + 1, target of y)        beta(j, s) = max over y of C(s, y) + V(j, y)               (15)

Other automata use the kernels of ``chain``, one lane wide.

Shapes: N tokens, n sequences of the batch, L labels, P states, A arcs, C score columns, K weights, T tokens of one
sequence, S the size of a row of scores: C, or the width of the dense table, padded to a multiple of STEP.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._vectors import STEP, add_scaled, largest, load_step, store_step
from .chain import ChainScratch, LocalTile, backward_max, label_arcs, walk
from .loss_augmented import add_token_costs, compare_labels, move, score_arcs
from .masks import forbid_labels
from .token_scores import score_tokens, varying_scores


class LabelledSequences(NamedTuple):
    """Sequences of a batch, and their true labels."""

    offsets: np.ndarray  # (n + 1,) int64
    codes: np.ndarray  # (N,) int32
    arcs: np.ndarray  # (N,) int32   that the true labels use
    weight: np.ndarray  # (n,)   by which differences are multiplied
    allowed: np.ndarray  # (N, L) bool, or (0, L) if all labels are possible
    cost: float  # of a wrong token


class Transitions(NamedTuple):
    """The arcs that states use, if their targets depend only on the label; otherwise the first table is empty."""

    arcs: np.ndarray  # (P, L) int32
    targets: np.ndarray  # (L,) int32


class ArcOrder(NamedTuple):
    """How the scores of arcs depend on the scores of shorter ones."""

    by_length: np.ndarray  # (A,) int32   shortest first
    forbidden: np.ndarray  # (A,) bool


class MovingWeights(NamedTuple):
    """The weights, in all places where they are kept, and values that move with them."""

    w: np.ndarray  # (K,)
    dense: np.ndarray  # (H, D)
    cell_row: np.ndarray  # cells of the dense table, of the first weights
    cell_column: np.ndarray
    arc_scores: np.ndarray  # (A,)
    delayed: np.ndarray  # (K,)   sum of each step times its number


class Differences(NamedTuple):
    """The differences between labellings of some sequences and the truth, in order, as far as there is room."""

    costs: np.ndarray  # of wrong tokens
    starts: np.ndarray  # int64   range of each sequence's entries
    indices: np.ndarray  # int32
    values: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def _tabulate(transitions, arc_score, by_state, by_label):
    """Write the scores of the arcs that states use: ``by_state`` (P, L), ``by_label`` (L, padded P) out."""
    for state in range(len(by_state)):
        for label in range(by_state.shape[1]):
            score = arc_score[transitions.arcs[state, label]]
            by_state[state, label] = score
            by_label[label, state] = score


@njit(cache=True, nogil=True, error_model="numpy")
def _decode_labels(transitions, by_state, by_label, scores, beta, arcs):
    """Write the arcs of the best labelling, ties to the lowest label, and return its score.

    scores : (T, S)   in; out: V(j, y)        beta : (at least T + 1, padded P)   out        arcs : (T,) int32 out
    """
    n_labels, width, targets = by_state.shape[1], beta.shape[1], transitions.targets
    table, numbers, ones, lowest = by_label.reshape(-1), beta.reshape(-1), np.ones(STEP), np.full(STEP, -np.inf)
    one, length = load_step(ones, 0), len(arcs)
    beta[length] = 0.0
    for row in range(length - 1, -1, -1):
        for label in range(n_labels):
            scores[row, label] += beta[row + 1, targets[label]]
        for state in range(0, width, STEP):
            best = load_step(lowest, 0)
            for label in range(n_labels):
                score = add_scaled(load_step(table, label * width + state), scores[row, label], one)
                best = largest(score, best)
            store_step(numbers, row * width + state, best)
    state = 0
    for row in range(length):
        most, best_label = -np.inf, 0
        for label in range(n_labels):
            score = by_state[state, label] + scores[row, label]
            if score > most:
                most, best_label = score, label
        arcs[row] = transitions.arcs[state, best_label]
        state = targets[best_label]
    return beta[0, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def _decode(weighted_arcs, tile, scores, arcs):
    """Write the arcs of the best labelling and return its score, by the kernels of ``chain``; ``scores`` (T * S, 1)."""
    n_states, length = len(weighted_arcs.fail), len(arcs)
    varying_log = np.empty((length * len(weighted_arcs.varying_arc), 1))
    varying_scores(weighted_arcs, len(scores) // length, scores, varying_log)
    beta, n_nodes = np.zeros(((length + 1) * n_states, 1)), len(weighted_arcs.back_starts) - 1
    adjoints = np.empty((len(weighted_arcs.arc_varying) + n_nodes, 1))
    scratch = ChainScratch(adjoints, adjoints, adjoints)
    backward_max(None, weighted_arcs, tile, scratch, scores, varying_log, beta)
    codes, origin = np.empty(length, np.int32), np.zeros((1, 1), np.int64)
    local = LocalTile(tile.rows, origin, tile.length, tile.last)
    walk(weighted_arcs, local, scores, varying_log, beta, np.zeros((1, 1), np.int32), codes)
    label_arcs(weighted_arcs, tile.rows, codes, arcs)
    return beta[0, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def correct(sequences, data, weighted_arcs, structure, transitions, order, weights, difference, n_steps):
    """Take a step of the perceptron for each of some sequences, in their order.

    sequences : numbers of some sequences        data : ``LabelledSequences``
    weighted_arcs : looks at the scores of arcs in ``weights``        structure : ``LabelStructure``
    transitions : ``Transitions``        order : ``ArcOrder``        weights : ``MovingWeights``   in and out
    difference : ``Difference``   memory        n_steps : steps before these

    Returns the number of mistakes, the sequence whose best score is not finite, or -1, and that score.
    """
    pairs, n_mistakes, n_labels = structure.pairs, 0, weighted_arcs.n_labels
    row_size = max(-(-pairs.n_columns // STEP) * STEP, weights.dense.shape[1])
    longest, n_states = 0, len(weighted_arcs.fail)
    for sequence in sequences:
        longest = max(longest, data.offsets[sequence + 1] - data.offsets[sequence])
    n_padded = -(-n_states // STEP) * STEP if len(transitions.arcs) else 0
    all_scores, all_arcs = np.empty((longest, row_size)), np.empty(longest, np.int32)
    by_state, by_label = np.empty(transitions.arcs.shape), np.zeros((n_labels, n_padded))
    beta, moved = np.empty((longest + 1, n_padded)), True
    for sequence in sequences:
        first, stop = data.offsets[sequence], data.offsets[sequence + 1]
        if stop > first and data.weight[sequence] != 0.0:
            length = stop - first
            scores, arcs = all_scores[:length], all_arcs[:length]
            tile = LocalTile(np.array([0, length]), np.array([[first]]), np.array([[length]]), np.array([[length - 1]]))
            lone_scores = scores.reshape(-1, 1)
            score_tokens(structure.features, pairs, weights.w, weights.dense, first, scores)
            if data.cost > 0.0:
                add_token_costs(tile, n_labels, data.codes, data.cost, lone_scores)
            if len(data.allowed):
                forbid_labels(tile, row_size, data.allowed, lone_scores)
            if moved:
                score_arcs(
                    order.by_length,
                    structure.arc_suffix,
                    structure.weight_of_arc,
                    order.forbidden,
                    weights.w,
                    weights.arc_scores,
                )
                _tabulate(transitions, weights.arc_scores, by_state, by_label)
            if n_padded > 0:
                best = _decode_labels(transitions, by_state, by_label, scores, beta, arcs)
            else:
                best = _decode(weighted_arcs, tile, lone_scores, arcs)
            if not np.isfinite(best):
                return n_mistakes, sequence, best
            moved = False
            n_different = compare_labels(structure, first, data.arcs[first:stop], arcs, difference)
            if n_different > 0:
                n_mistakes, moved = n_mistakes + 1, True
                indices, steps = difference.indices[:n_different], difference.values[:n_different]
                for i in range(n_different):
                    steps[i] *= data.weight[sequence]
                    weights.delayed[indices[i]] += n_steps * steps[i]
                move(indices, steps, weights.cell_row, weights.cell_column, weights.w, weights.dense)
        n_steps += 1
    return n_mistakes, -1, 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def list_differences(sequences, data, weighted_arcs, structure, codes, difference, found):
    """List the differences of some sequences from labellings, times their weights.

    sequences : numbers of some sequences        data : ``LabelledSequences``        structure : ``LabelStructure``
    codes : (N,) int32   the labellings        difference : ``Difference``   memory        found : ``Differences``   out

    Returns the number of sequences for which there was room.
    """
    longest, end = 0, 0
    for sequence in sequences:
        longest = max(longest, data.offsets[sequence + 1] - data.offsets[sequence])
    all_arcs, ends = np.empty(longest, np.int32), np.zeros(2, np.int64)
    for number in range(len(sequences)):
        sequence = sequences[number]
        first, stop, weight = data.offsets[sequence], data.offsets[sequence + 1], data.weight[sequence]
        n_wrong = 0
        for token in range(first, stop):
            n_wrong += codes[token] != data.codes[token]
        found.costs[number] = weight * data.cost * n_wrong
        if n_wrong > 0 and weight != 0.0:
            ends[1] = stop - first
            arcs = all_arcs[: stop - first]
            label_arcs(weighted_arcs, ends, codes[first:stop], arcs)
            n_different = compare_labels(structure, first, data.arcs[first:stop], arcs, difference)
            if end + n_different > len(found.indices):
                return number
            for i in range(n_different):
                found.indices[end + i] = difference.indices[i]
                found.values[end + i] = weight * difference.values[i]
            end += n_different
        found.starts[number + 1] = end
    return len(sequences)

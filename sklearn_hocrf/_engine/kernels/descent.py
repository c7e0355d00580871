"""Epochs of stochastic gradient descent for chains, compiled as one kernel: passes over each minibatch, and its step.

A step reads and updates the weights that its sequences use. Each of these weights w minimises

    sums w + stiffness w^2 / 2 + mass (precision w^2 / 2 + strength |w|),        stiffness = (sqrt(squares) + r) / step

where r is SMALLEST_ROOT. A gradient g adds g^2 to the squares. To the sums, it adds g minus w times the increase of the
stiffness. As in all other passes, sequences are processed side by side. If scaled passes fail for a minibatch, the
kernel stops before the step of this minibatch, and the caller takes this step. Equation numbers refer to
docs/develop/theory.md.

Shapes: N tokens, L labels, A arcs, C score columns, K weights (pairs, then biases), B blocks of LANES sequences, H
dense features with rows of D cells.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._vectors import FOLDED, LANES
from .chain import ChainTables, LocalTile, backward, forward
from .segment_scores import forbid_labels
from .token_scores import add_expectations, score_rows

SMALLEST_ROOT = 1e-8  # added to the root of each sum of squared gradients
LARGEST_SCORE = 300.0  # highest absolute score of an arc whose exponential needs no shift
FORBIDDEN = -2


class Course(NamedTuple):
    """The weights during an epoch, and the settings of its steps."""

    w: np.ndarray  # (K,)
    sums: np.ndarray  # (K,)   sums of gradients, minus the increases of the stiffness times the weights
    squares: np.ndarray  # (K,)   sums of squared gradients
    mass: np.ndarray  # (1,)   the sum of the shares of the penalty that the steps so far have applied
    precision: np.ndarray  # (K,), or (1,) if all are equal
    strength: np.ndarray  # (K,) or (1,)
    step: float
    n_sequences: float  # number of training sequences, which share the penalty


class ArcWeights(NamedTuple):
    """The scores and weights of arcs, in memory shared with the weighted arcs, and the ids of the arcs' biases."""

    scores: np.ndarray  # (A,)   -inf for forbidden arcs; in and out
    weights: np.ndarray  # (A,)   exponentials of the scores
    by_length: np.ndarray  # (A,) int32   arcs, shortest first
    suffix: np.ndarray  # (A,) int32
    weight_id: np.ndarray  # (A,) int64   of the arc's own weight; -1 if it has none; FORBIDDEN for forbidden arcs


class Scratch(NamedTuple):
    """Memory that steps overwrite."""

    touched: np.ndarray  # (n_pairs + 1, 2) uint32   ranges of weights
    is_touched: np.ndarray  # (n_pairs,) bool   whether a range is listed, at its first pair; False between steps
    gradient: np.ndarray  # (K,)   0 between steps
    dense: np.ndarray  # (H, D)   weights of the dense features, and their gradient
    dense_gradient: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def _touch(features, starts, tile, scratch):
    """List each range of pairs of a tile's features once, and the range of the biases; return the number of ranges."""
    touched, is_touched, count = scratch.touched, scratch.is_touched, 0
    row_indptr, rows, indptr, ranges, pair_of, other, _ = features
    for block in range(len(tile.length)):
        for lane in range(LANES):
            first_token = tile.first_token[block, lane]
            stop_token = first_token + tile.length[block, lane]
            for entry in range(row_indptr[first_token], row_indptr[stop_token]):
                row = np.int64(rows[entry])
                first = starts[row]
                if not is_touched[first]:
                    is_touched[first] = True
                    touched[count, 0], touched[count, 1] = first, starts[row + 1]
                    count += 1
            for token in range(first_token, stop_token):
                for entry in range(indptr[token], indptr[token + 1]):
                    first = np.int64(pair_of[entry])
                    if not is_touched[first]:
                        is_touched[first] = True
                        touched[count, 0] = first
                        touched[count, 1] = first + 1 if entry < ranges[token] else other[entry]
                        count += 1
    for index in range(count):
        is_touched[touched[index, 0]] = False
    touched[count, 0], touched[count, 1] = len(is_touched), len(scratch.gradient)
    return count + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _read_weights(course, slots, scratch, n_touched):
    """Set the weights of the touched ranges to the minimisers that the module's docstring defines."""
    w, sums, squares, of_penalty, precision, strength, step, _ = (
        course  # unpacked once, because each access to an array counts references
    )
    touched, table, n_slots = scratch.touched, scratch.dense.reshape(-1), len(slots)
    mass, rate, precisions_differ, strengths_differ = of_penalty[0], 1.0 / step, len(precision) > 1, len(strength) > 1
    same_precision = 0.0 if precisions_differ else mass * precision[0]
    same_strength = 0.0 if strengths_differ else mass * strength[0]
    for index in range(n_touched):
        first, stop = np.int64(touched[index, 0]), np.int64(touched[index, 1])
        for i in range(first, stop):
            stiffness = (np.sqrt(squares[i]) + SMALLEST_ROOT) * rate
            stiffness += mass * precision[i] if precisions_differ else same_precision
            free = mass * strength[i] if strengths_differ else same_strength
            w[i] = (min(max(sums[i], -free), free) - sums[i]) / stiffness
        if first < n_slots:
            for i in range(first, stop):
                table[slots[i]] = w[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_arcs(arcs, w):
    """Write the scores and weights of the arcs, and return whether all scores are in the range in which exp is safe."""
    scores, weights, by_length, suffix, weight_id = arcs
    safe = True
    for arc in by_length:
        if weight_id[arc] != FORBIDDEN:
            score = w[weight_id[arc]] if weight_id[arc] >= 0 else 0.0
            if suffix[arc] >= 0:
                score += scores[suffix[arc]]
            scores[arc], weights[arc] = score, np.exp(score)
            safe = safe and (abs(score) <= LARGEST_SCORE or score == -np.inf)
    return safe


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_truth(arcs, arc_columns, tile, weight, marginals, counts):
    """Subtract the true labels' counts from ``marginals`` (R * C, LANES) and from ``counts`` of arcs (A, FOLDED).

    arcs : (N,)   the arcs that the labels use
    """
    n_columns = len(marginals) // tile.rows[-1]
    for block in range(len(tile.length)):
        for lane in range(LANES):
            for position in range(tile.length[block, lane]):  # (28)
                arc = arcs[tile.first_token[block, lane] + position]
                counts[arc, 0] -= weight[block, lane]
                row = (tile.rows[block] + position) * n_columns
                for item in range(arc_columns.starts[arc], arc_columns.starts[arc + 1]):
                    marginals[row + arc_columns.columns[item], lane] -= 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _move(course, slots, scratch, n_touched):
    """Update the sums and squares with the gradient of the touched weights, and reset the gradient to 0."""
    w, sums, squares, rate = course.w, course.sums, course.squares, 1.0 / course.step
    touched, gradient, table = scratch.touched, scratch.gradient, scratch.dense_gradient.reshape(-1)
    for index in range(n_touched):
        first, stop = np.int64(touched[index, 0]), np.int64(touched[index, 1])
        if first < len(slots):
            for i in range(first, stop):
                gradient[i] = table[slots[i]]
                table[slots[i]] = 0.0
        for i in range(first, stop):
            before = squares[i]
            after = before + gradient[i] * gradient[i]
            sums[i] += gradient[i] - (np.sqrt(after) - np.sqrt(before)) * rate * w[i]
            squares[i], gradient[i] = after, 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _count_biases(arcs, counts, gradient):
    """Add the counts of arcs, (A, FOLDED), to the gradient of the biases of their suffix patterns."""
    _, _, by_length, suffix, weight_id = arcs
    for arc in by_length[::-1]:
        count = counts[arc].sum()
        if suffix[arc] >= 0:
            counts[suffix[arc], 0] += count
        if weight_id[arc] >= 0:
            gradient[weight_id[arc]] += count


@njit(cache=True, nogil=True, error_model="numpy")
def descend(sizes, tiles, weight, structure, arcs, memory, scratch, course):
    """Take the steps of m minibatches, in order, and return the number of steps: m, or fewer if a pass fails.

    sizes : (m,) int64   number of sequences of each minibatch
    tiles : ``LocalTile``        weight : (m, B, LANES)   of the sequences; the first axis of this array and of those in
        ``tiles`` is for minibatches, and may be longer than m
    structure : arcs of the labels (N,), allowed labels (N, L) or (0, L), features, pairs, columns of arcs, cells of the
        first pairs in the dense table, and weighted arcs, which share the memory of ``arcs``
    memory : tables and scratch of the largest tile; weights and dense weights, in the form that the scoring kernels
        read
    course : in and out
    """
    truth, allowed, features, pairs, arc_columns, slots, weighted_arcs = structure
    large, passes, w, dense = memory
    n_columns, n_varying, n_states = pairs.n_columns, len(weighted_arcs.varying_arc), len(weighted_arcs.fail)
    n_blocks, n_lanes = tiles.length.shape[1:]  # not LANES: for a constant, numba would compile more kernels
    counts = np.empty((len(arcs.scores), FOLDED))
    for batch in range(len(sizes)):
        tile = LocalTile(tiles.rows[batch], tiles.first_token[batch], tiles.length[batch], tiles.last[batch])
        n_rows = tile.rows[-1]
        if n_rows > 0:
            tables = ChainTables(
                large.scores[: n_rows * n_columns],
                large.varying[: n_rows * n_varying],
                large.alpha[: (n_rows + n_blocks) * n_states],
                large.inverse_scale[:n_rows],
            )
            n_touched = _touch(features, pairs.starts, tile, scratch)
            _read_weights(course, slots, scratch, n_touched)
            is_safe = _weigh_arcs(arcs, course.w)
            score_rows(features, pairs, w, w, dense, tile, tables.scores)
            if len(allowed):
                forbid_labels(tile, n_columns, allowed, tables.scores)
            suspect, carry = np.zeros((n_blocks, n_lanes)), np.zeros((n_states, n_lanes))
            carry[0] = 1.0
            forward(n_lanes, weighted_arcs, tile, passes, tables, carry, np.zeros((n_blocks, n_lanes)), suspect)
            if not is_safe or suspect.any():
                return batch
            carry[:], counts[:] = 1.0, 0.0
            backward(n_lanes, weighted_arcs, tile, passes, tables, weight[batch], carry, counts)
            _subtract_truth(truth, arc_columns, tile, weight[batch], tables.scores, counts)
            add_expectations(
                features, pairs, tile, tables.scores, weight[batch], scratch.gradient, scratch.dense_gradient
            )
            _count_biases(arcs, counts, scratch.gradient)
            _move(course, slots, scratch, n_touched)
        course.mass[0] += sizes[batch] / course.n_sequences
    return len(sizes)

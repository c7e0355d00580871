"""Epochs of the perceptron for segments, compiled as a whole: best segmentation, comparison, and move of the weights.

It goes as for chains (``perceptron``), with the kernels that decode segments anyway, one lane wide; only the calls from
Python are gone, of which a step took twenty. These kernels want arrays that nobody writes to: the memory of weights is
therefore handed over twice, to write and to read.

Shapes: N tokens, n sequences of the batch, P states, A arcs, H span arcs, C score columns, E cells of a row of segment
scores, Q varying arcs, D longest segment, K weights, T tokens of the longest sequence.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from .chain import LocalTile, label_arcs
from .loss_augmented import SequenceSegments, add_segment_costs, compare_segments, move, score_arcs
from .masks import forbid_segments, forbid_short
from .segment import backward_max, walk
from .segment_scores import assemble, score_candidates
from .token_scores import score_rows, varying_scores


class SegmentedSequences(NamedTuple):
    """Sequences of a batch, each a tile of its own, and their true segmentations."""

    tiles: NamedTuple  # LocalTile of rows (n, 2), and of arrays (n, 1)
    codes: np.ndarray  # (N,) int32
    begins: np.ndarray  # (N,) bool, or empty, as ``add_segment_costs`` takes it
    truth: NamedTuple  # SequenceSegments of all tokens
    weight: np.ndarray  # (n,)   by which differences are multiplied
    allowed: np.ndarray  # (N, L) bool, or (0, L) where all labels are possible
    borders: np.ndarray  # (N,) int8   where segments may begin, if ``allowed`` is not empty
    cost: float  # of a wrong token


class Found(NamedTuple):
    """What is found: segmentations, by the tokens of the batch."""

    codes: np.ndarray  # (N,) int32
    lengths: np.ndarray  # (N,) int32
    arcs: np.ndarray  # (N,) int32


class Moving(NamedTuple):
    """The weights, and what is made of them."""

    w: np.ndarray  # (K,)
    dense: np.ndarray  # (H, D)
    cell_row: np.ndarray  # cells of the dense table, of the first weights
    cell_column: np.ndarray
    arc_scores: np.ndarray  # (A,)
    length_scores: np.ndarray  # (E, 2)   of lengths; the other column stays 0
    shortest: np.ndarray  # (L,) int64   lowest lengths of segments, or (0,)
    delayed: np.ndarray  # (K,)   sum of each step times its number


class View(NamedTuple):
    """The same memory for kernels that want arrays that nobody writes to."""

    w: np.ndarray
    dense: np.ndarray
    length_scores: np.ndarray
    found: NamedTuple  # SequenceSegments


class DecodingTables(NamedTuple):
    """Memory for one sequence, as kernels of ``segment`` take it."""

    scratch: NamedTuple  # SegmentScratch
    scores: np.ndarray  # (T * C, 1)
    cells: np.ndarray  # (T * E, 1)
    varying_log: np.ndarray  # (T * Q, 1)
    beta: np.ndarray  # ((T + 1) * P, 1)
    reach: np.ndarray  # (T * P, 1)
    span_reach: np.ndarray  # (T * H, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def _read_weights(order, structure, moving):
    """Write the scores of arcs and of lengths."""
    score_arcs(
        order.by_length, structure.arc_suffix, structure.weight_of_arc, order.forbidden, moving.w, moving.arc_scores
    )
    for cell in range(len(moving.length_scores)):
        total = 0.0
        for item in range(structure.length_starts[cell], structure.length_starts[cell + 1]):
            total += structure.length_values[item] * moving.w[structure.length_weights[item]]
        moving.length_scores[cell, 0] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _decode(tile, data, weighted_arcs, structure, shortest, view, tables, found):
    """Write the best segmentation of the sequence of a tile, and return its score."""
    index, pairs, length = structure.index, structure.pairs, tile.rows[-1]
    scores, cells = tables.scores[: length * pairs.n_columns], tables.cells[: length * index.first_cell[-1]]
    varying_log = tables.varying_log[: length * len(weighted_arcs.varying_arc)]
    score_rows(structure.features, pairs, view.w, view.w, view.dense, tile, scores)
    assemble(None, index, tile, view.length_scores, scores, cells)
    score_candidates(structure.candidates, pairs, view.w, view.w, index, tile, cells)
    if len(data.allowed):
        forbid_segments(index, tile, data.allowed, data.borders, cells)
    forbid_short(index, tile, shortest, cells)
    if data.cost > 0.0:
        add_segment_costs(index, tile, data.codes, data.begins, data.cost, cells)
    varying_scores(weighted_arcs, pairs.n_columns, scores, varying_log)
    states = tables.beta, tables.reach, tables.span_reach
    backward_max(None, weighted_arcs, index, tile, tables.scratch, cells, varying_log, *states)
    if np.isfinite(tables.beta[0, 0]):
        walk(weighted_arcs, index, tile, cells, varying_log, tables.beta, found.codes, found.lengths)
    return tables.beta[0, 0]


@njit(cache=True, nogil=True, error_model="numpy")
def _find_arcs(weighted_arcs, first, stop, found):
    """Write the arcs that the segments of a sequence use, where they begin."""
    codes, ends, n_segments = np.empty(stop - first, np.int32), np.zeros(2, np.int64), 0
    for token in range(first, stop):
        if found.lengths[token] > 0:
            codes[n_segments] = found.codes[token]
            n_segments += 1
    ends[1], arcs = n_segments, np.empty(n_segments, np.int32)
    label_arcs(weighted_arcs, ends, codes, arcs)
    n_segments = 0
    for token in range(first, stop):
        if found.lengths[token] > 0:
            found.arcs[token] = arcs[n_segments]
            n_segments += 1


@njit(cache=True, nogil=True, error_model="numpy")
def correct(sequences, data, weighted_arcs, structure, order, weights, tables, found, difference, n_steps):
    """Take a step of the perceptron for each of some sequences, in their order.

    sequences : numbers of some sequences        data : ``SegmentedSequences``
    weighted_arcs : looks at the scores of arcs in ``weights``        structure : ``SegmentStructure``
    order : ``ArcOrder`` of ``perceptron``        weights : ``Moving`` and its ``View``   in and out
    tables : ``DecodingTables``        found : ``Found``        difference : ``Difference``   memory
    n_steps : steps before these

    Returns the number of mistakes, the sequence whose best score is not finite, or -1, and that score.
    """
    (moving, view), tiles, n_mistakes, moved = weights, data.tiles, 0, True
    for sequence in sequences:
        length = tiles.length[sequence, 0]
        if length > 0 and data.weight[sequence] != 0.0:
            tile = LocalTile(
                tiles.rows[sequence],
                tiles.first_token[sequence : sequence + 1],
                tiles.length[sequence : sequence + 1],
                tiles.last[sequence : sequence + 1],
            )
            if moved:
                _read_weights(order, structure, moving)
            best = _decode(tile, data, weighted_arcs, structure, moving.shortest, view, tables, found)
            if not np.isfinite(best):
                return n_mistakes, sequence, best
            first = tiles.first_token[sequence, 0]
            stop, moved = first + length, False
            _find_arcs(weighted_arcs, first, stop, found)
            truth = SequenceSegments(data.truth.arcs[first:stop], data.truth.lengths[first:stop])
            other = SequenceSegments(view.found.arcs[first:stop], view.found.lengths[first:stop])
            n_different = compare_segments(structure, first, truth, other, difference)
            if n_different > 0:
                n_mistakes, moved = n_mistakes + 1, True
                indices, steps = difference.indices[:n_different], difference.values[:n_different]
                for i in range(n_different):
                    steps[i] *= data.weight[sequence]
                    moving.delayed[indices[i]] += n_steps * steps[i]
                move(indices, steps, moving.cell_row, moving.cell_column, moving.w, moving.dense)
        n_steps += 1
    return n_mistakes, -1, 0.0

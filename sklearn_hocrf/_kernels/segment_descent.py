"""Epochs of stochastic gradient descent for segments, compiled as a whole.

Steps and weights are as in ``descent``, passes as in ``segment``. The features of tokens, of candidate segments and of
lengths are moved one after the other, each as its marginals are read (14).

Shapes: N tokens, n sequences, L labels, P states, A arcs, H span arcs, Q varying arcs, C score columns, E cells, K
weights, B blocks of LANES sequences, R rows.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._vectors import empty_table
from .chain import FOLDED, LANES
from .descent import SMALLEST_FACTOR, add_counts, end_step, largest_tile, move_biases, none_suspect, tile_of, weigh_arcs
from .masks import forbid_segments, forbid_short
from .segment import SegmentScratch, SegmentTables, backward, forward
from .segment_scores import assemble, collect, score_candidates
from .token_scores import move_rows, score_rows


class Truth(NamedTuple):
    """Counts of the true segmentations, by sequence."""

    weight: np.ndarray  # (n,)
    arc_starts: np.ndarray  # (n + 1,) int64
    arcs: np.ndarray
    pair_starts: np.ndarray  # (n + 1,) int64
    pairs: np.ndarray
    pair_values: np.ndarray


class Structure(NamedTuple):
    """The weights that a segment counts."""

    features: NamedTuple  # TokenFeatures
    candidates: NamedTuple  # CandidateFeatures
    pairs: NamedTuple  # PairTable
    index: NamedTuple  # SegmentIndex
    length_starts: np.ndarray  # (E + 1,) int64   rows of the matrix of the features of lengths
    length_weights: np.ndarray  # int64
    length_values: np.ndarray  # float64


class Possible(NamedTuple):
    """Which segments are possible."""

    allowed: np.ndarray  # (N, L) bool, or (0, L) if all labels are possible
    borders: np.ndarray  # (N,) int8   where segments may begin, if ``allowed`` is not empty
    shortest: np.ndarray  # (L,) int64   lowest lengths of segments, or (0,)


class View(NamedTuple):
    """Views of changing memory as read-only arrays, the type for which kernels are compiled."""

    w: np.ndarray  # (K,)
    dense: np.ndarray  # (0, D)   no dense table
    length_scores: np.ndarray  # (E, 2)


@njit(cache=True, nogil=True, error_model="numpy")
def _allot(batches, weighted_arcs, index, n_columns):
    """Return memory for the tables of a tile, which all minibatches share."""
    n_rows, n_blocks = largest_tile(batches)
    n_states, n_arcs, n_spans = len(weighted_arcs.fail), len(weighted_arcs.arc_varying), len(index.span_arc)
    n_varying, n_cells, n_longest = len(weighted_arcs.varying_arc), index.first_cell[-1], index.longest.max()
    tables = SegmentTables(
        empty_table(n_rows * n_columns),
        empty_table(n_rows * n_cells),
        empty_table(n_rows * n_varying),
        empty_table(n_rows * n_states),
        empty_table(n_rows * n_spans),
        empty_table((n_rows + n_blocks) * n_states),
        empty_table(n_rows),
        empty_table(n_rows),
        empty_table(n_rows * n_states),
        empty_table(n_rows * n_spans),
    )
    scratch = SegmentScratch(
        empty_table(n_states + len(weighted_arcs.starts) - 1),
        empty_table(n_arcs + len(weighted_arcs.back_starts) - 1),
        empty_table(n_varying),
        empty_table(n_states),
        empty_table(n_longest + 1),
        empty_table(n_spans * n_longest),
    )
    return tables, scratch


@njit(cache=True, nogil=True, error_model="numpy")
def _tables_of(tile, tables, weighted_arcs, index, n_columns):
    """Return the part of the tables that a tile needs."""
    n_rows, n_states, n_spans = tile.rows[-1], len(weighted_arcs.fail), len(index.span_arc)
    return SegmentTables(
        tables.scores[: n_rows * n_columns],
        tables.cells[: n_rows * index.first_cell[-1]],
        tables.varying[: n_rows * len(weighted_arcs.varying_arc)],
        tables.begin[: n_rows * n_states],
        tables.span_begin[: n_rows * n_spans],
        tables.alpha[: (n_rows + len(tile.length)) * n_states],
        tables.log_total[:n_rows],
        tables.inverse[:n_rows],
        tables.reach[: n_rows * n_states],
        tables.span_reach[: n_rows * n_spans],
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _score_lengths(structure, w, scores):
    """Write the scores of lengths: ``scores`` (E, 2), the first column."""
    for cell in range(len(scores)):
        total = 0.0
        for item in range(structure.length_starts[cell], structure.length_starts[cell + 1]):
            total += structure.length_values[item] * w[structure.length_weights[item]]
        scores[cell, 0] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _score(tile, structure, possible, factor, view, tables):
    """Write the scores of tokens and of candidate segments, under weights that are factor * w."""
    index, pairs = structure.index, structure.pairs
    score_rows(structure.features, pairs, view.w, view.w, view.dense, tile, tables.scores)
    assemble(LANES, index, tile, view.length_scores, tables.scores, tables.cells)
    score_candidates(structure.candidates, pairs, view.w, view.w, index, tile, tables.cells)
    for table in (tables.scores, tables.cells):
        for row in range(len(table)):
            for lane in range(LANES):
                table[row, lane] *= factor
    if len(possible.allowed):
        forbid_segments(index, tile, possible.allowed, possible.borders, tables.cells)
    forbid_short(index, tile, possible.shortest, tables.cells)


@njit(cache=True, nogil=True, error_model="numpy")
def _pass(weighted_arcs, structure, tile, masked, weight, tables, scratch, counts, length_counts):
    """Turn scores into marginals and sum up those of arcs (A,) and of lengths (E, LANES) or (0, LANES).

    Returns whether no lane is suspect.
    """
    n_blocks, index = len(tile.length), structure.index
    log_z, suspect = np.zeros((n_blocks, LANES)), np.zeros((n_blocks, LANES))
    forward(LANES, weighted_arcs, index, tile, scratch, tables, masked, log_z, suspect)
    if not none_suspect(tile, suspect):
        return False
    folded = np.zeros((len(counts), FOLDED))
    backward(LANES, weighted_arcs, index, tile, scratch, tables, weight, folded)
    add_counts(folded, counts)
    length_counts[:] = 0.0
    collect(LANES, index, tile, weight, tables.cells, tables.scores, length_counts)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _move_candidates(structure, tile, cells, weight, area, moving):
    """Move the weights of features of whole segments by their expected counts: ``weight`` (B, LANES)."""
    candidates, index, columns = structure.candidates, structure.index, structure.pairs.columns
    n_cells = index.first_cell[-1]
    for block in range(len(tile.length)):
        for lane in range(LANES):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                token, row = tile.first_token[block, lane] + position, (tile.rows[block] + position) * n_cells
                for candidate in range(candidates.token_starts[token], candidates.token_starts[token + 1]):
                    d = candidates.length[candidate]
                    for entry in range(candidates.indptr[candidate], candidates.indptr[candidate + 1]):
                        value = candidates.values[entry] if len(candidates.values) else 1.0
                        for pair in range(np.int64(candidates.first[entry]), np.int64(candidates.stop[entry])):
                            scored = index.column_scored[columns[pair]]
                            if d <= index.longest[scored]:
                                count = cells[row + index.first_cell[scored] + d - 1, lane]
                                change = value * weight[block, lane] * count
                                moving.w[pair] += change
                                moving.sums[pair] -= area * change


@njit(cache=True, nogil=True, error_model="numpy")
def _move_lengths(structure, length_counts, scale, area, moving):
    """Move the weights of features of lengths: by their counts times ``scale``."""
    for cell in range(len(length_counts)):
        count = length_counts[cell].sum()
        for item in range(structure.length_starts[cell], structure.length_starts[cell + 1]):
            change = scale * structure.length_values[item] * count
            moving.w[structure.length_weights[item]] += change
            moving.sums[structure.length_weights[item]] -= area * change


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_truth(sequences, truth, scale, area, moving, counts):
    """Subtract the counts of the segmentations: pairs times ``scale`` from the weights, arcs from their counts (A,)."""
    for sequence in sequences:
        weight = truth.weight[sequence]
        for entry in range(truth.arc_starts[sequence], truth.arc_starts[sequence + 1]):
            counts[truth.arcs[entry]] -= weight
        for entry in range(truth.pair_starts[sequence], truth.pair_starts[sequence + 1]):
            change = -scale * weight * truth.pair_values[entry]
            moving.w[truth.pairs[entry]] += change
            moving.sums[truth.pairs[entry]] -= area * change


@njit(cache=True, nogil=True, error_model="numpy")
def descend(batches, truth, possible, weighted_arcs, structure, arcs, rule, moving, length_scores, view):
    """Take the steps of some minibatches, in their order.

    batches : ``TiledBatches``        truth : ``Truth``        possible : ``Possible``
    weighted_arcs : look at the scores of ``arcs``        structure : ``SegmentStructure``, without a dense table
    arcs : ``ArcWeights``        rule : ``Rule``        moving : ``Descending``   in and out
    length_scores : (E, 2)   memory        view : ``View`` of ``moving`` and of ``length_scores``

    Returns the number of steps taken: fewer than there are, if scaled passes cannot do one or a factor becomes small.
    """
    index, pairs, n_pairs, group = structure.index, structure.pairs, len(structure.pairs.columns), rule.pair_group
    all_tables, scratch = _allot(batches, weighted_arcs, index, pairs.n_columns)
    masked = len(possible.allowed) > 0 or len(possible.shortest) > 0
    counts = np.empty(len(arcs.scores))
    length_counts = np.empty((len(length_scores) if len(structure.length_weights) else 0, LANES))
    for batch in range(len(batches.starts) - 1):
        sequences = batches.sequences[batches.starts[batch] : batches.starts[batch + 1]]
        tile, weight = tile_of(batches, batch)
        factor = moving.factor[group]
        step = 1.0 / (1.0 / rule.first + rule.rate * moving.counts[0])
        if not weigh_arcs(arcs, n_pairs, rule, moving):
            return batch
        if tile.rows[-1] > 0:
            tables = _tables_of(tile, all_tables, weighted_arcs, index, pairs.n_columns)
            _score_lengths(structure, moving.w, length_scores)
            _score(tile, structure, possible, factor, view, tables)
            counts[:] = 0.0
            if not _pass(weighted_arcs, structure, tile, masked, weight, tables, scratch, counts, length_counts):
                return batch
            area, scale = moving.area[group], -step / factor
            move_rows(structure.features, pairs, tile, tables.scores, scale * weight, area, moving)
            _move_candidates(structure, tile, tables.cells, scale * weight, area, moving)
            _move_lengths(structure, length_counts, scale, area, moving)
            _subtract_truth(sequences, truth, scale, area, moving, counts)
            move_biases(arcs, n_pairs, rule, moving, step, counts)
        if end_step(len(sequences), step, rule, moving) < SMALLEST_FACTOR:
            return batch + 1
    return len(batches.starts) - 1

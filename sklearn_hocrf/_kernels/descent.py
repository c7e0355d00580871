"""Epochs of stochastic gradient descent, compiled as a whole: passes over a few sequences, and their step.

The weights are products of factors, one for each group of weights, and numbers that steps change: a penalty shrinks all
weights of a group alike, and changes only the factor. The scores of the numbers are the scores of the weights divided
by the factor, because all pairs are in one group. The step is added to the numbers of the pairs as the marginals of the
sequences are read (14), minus the counts of the labels, times -step / factor; so no gradient is ever stored. For the
mean of all weights, sums move as well: see ``Descending``.

Blocks of sequences run side by side, as in all inference. Sequences that scaled passes cannot represent are left to the
caller.

Shapes: N tokens, n sequences, L labels, P states, A arcs, C score columns, K weights, the first n_pairs of pairs and
the others of patterns, G groups, B blocks of LANES sequences, R rows.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._vectors import empty_table
from .chain import FOLDED, LANES, ChainScratch, ChainTables, LocalTile, backward, forward
from .masks import forbid_labels
from .token_scores import move_rows, score_rows

LARGEST_SCORE = 300.0  # largest score of an arc for which exp needs no shift
SMALLEST_FACTOR = 1e-100


class Rule(NamedTuple):
    """Step sizes: 1 / (1 / first + rate * sequences seen)."""

    first: float
    rate: float
    decay: np.ndarray  # (G,)   precision of each group over the number of sequences
    pair_group: int
    bias_groups: np.ndarray  # (K - n_pairs,) int64
    is_averaged: bool


class Descending(NamedTuple):
    """Weights during an epoch.

    The weights are factor * w, and the sum of all weights so far, times sequences seen, is area * w + sums.
    """

    w: np.ndarray  # (K,)
    sums: np.ndarray  # (K,)
    dense: np.ndarray  # (H, D)   these three: the pairs of dense features, which are otherwise in w and sums
    dense_sums: np.ndarray
    dense_cells: np.ndarray  # 1 where there is a weight, else 0
    factor: np.ndarray  # (G,)
    area: np.ndarray  # (G,)
    counts: np.ndarray  # (2,)   sequences seen, and their sum over all steps


class TiledBatches(NamedTuple):
    """Consecutive minibatches, and a tile of each.   m minibatches, B blocks in total."""

    sequences: np.ndarray  # int64
    starts: np.ndarray  # (m + 1,) int64   range of each minibatch in ``sequences``
    block_starts: np.ndarray  # (m + 1,) int64   range of each minibatch's blocks
    tiles: NamedTuple  # LocalTile of arrays (B, LANES); the rows of minibatch i begin at block_starts[i] + i
    weight: np.ndarray  # (B, LANES)   weights of sequences


class Labelled(NamedTuple):
    """The labels of a batch."""

    arcs: np.ndarray  # (N,) int32   that the true labels use
    allowed: np.ndarray  # (N, L) bool, or (0, L) if all labels are possible


class ArcWeights(NamedTuple):
    """The scores of arcs, to which the weighted arcs refer, and how they depend on weights."""

    scores: np.ndarray  # (A,)
    weights: np.ndarray  # (A,)   exponentials of the scores
    by_length: np.ndarray  # (A,) int32   shortest first
    forbidden: np.ndarray  # (A,) bool
    suffix: np.ndarray  # (A,) int32
    weight_id: np.ndarray  # (A,) int64   of the arc's own weight, or -1


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_arcs(arcs, n_pairs, rule, moving):
    """Write scores and weights of the arcs, and return whether exp is safe."""
    safe = True
    for arc in arcs.by_length:
        score, weight_id = 0.0, arcs.weight_id[arc]
        if arcs.forbidden[arc]:
            score = -np.inf
        elif weight_id >= 0:
            score = moving.factor[rule.bias_groups[weight_id - n_pairs]] * moving.w[weight_id]
        if arcs.suffix[arc] >= 0:
            score += arcs.scores[arcs.suffix[arc]]
        arcs.scores[arc] = score
        arcs.weights[arc] = np.exp(score)
        safe = safe and (abs(score) <= LARGEST_SCORE or score == -np.inf)
    return safe


@njit(cache=True, nogil=True, error_model="numpy")
def tile_of(batches, batch):
    """Return the tile of a minibatch, and the weights of its lanes."""
    first, stop, tiles = batches.block_starts[batch], batches.block_starts[batch + 1], batches.tiles
    tile = LocalTile(
        tiles.rows[first + batch : stop + batch + 1],
        tiles.first_token[first:stop],
        tiles.length[first:stop],
        tiles.last[first:stop],
    )
    return tile, batches.weight[first:stop]


@njit(cache=True, nogil=True, error_model="numpy")
def largest_tile(batches):
    """Return the maximum number of rows and of blocks of a tile."""
    n_rows, n_blocks = 0, 0
    for batch in range(len(batches.starts) - 1):
        first, stop = batches.block_starts[batch], batches.block_starts[batch + 1]
        n_rows, n_blocks = max(n_rows, batches.tiles.rows[stop + batch]), max(n_blocks, stop - first)
    return n_rows, n_blocks


@njit(cache=True, nogil=True, error_model="numpy")
def none_suspect(tile, suspect):
    """Return whether scaled passes represented all sequences of a tile."""
    for block in range(len(tile.length)):
        for lane in range(LANES):
            if tile.length[block, lane] > 0 and suspect[block, lane] > 0.0:
                return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def add_counts(folded, counts):
    """Add the counts of arcs in FOLDED columns to ``counts`` (A,)."""
    for arc in range(len(counts)):
        for part in range(FOLDED):
            counts[arc] += folded[arc, part]


@njit(cache=True, nogil=True, error_model="numpy")
def _allot(batches, weighted_arcs, n_columns):
    """Return memory for the tables of a tile, which all minibatches share."""
    n_rows, n_blocks = largest_tile(batches)
    n_states, n_arcs = len(weighted_arcs.fail), len(weighted_arcs.arc_varying)
    tables = ChainTables(
        empty_table(n_rows * n_columns),
        empty_table(n_rows * len(weighted_arcs.varying_arc)),
        empty_table((n_rows + n_blocks) * n_states),
        empty_table(n_rows),
    )
    n_values = n_states + len(weighted_arcs.starts) - 1
    scratch = ChainScratch(
        empty_table(n_values),
        empty_table(n_arcs + len(weighted_arcs.back_starts) - 1),
        empty_table(n_values),
    )
    return tables, scratch


@njit(cache=True, nogil=True, error_model="numpy")
def _pass(weighted_arcs, tile, allowed, weight, tables, scratch, counts):
    """Turn scores into marginals and add those of arcs to ``counts`` (A,); return whether no lane is suspect."""
    n_blocks, n_states = len(tile.length), len(weighted_arcs.fail)
    if len(allowed):
        forbid_labels(tile, len(tables.scores) // tile.rows[-1], allowed, tables.scores)
    log_z, suspect, carry = np.zeros((n_blocks, LANES)), np.zeros((n_blocks, LANES)), np.zeros((n_states, LANES))
    carry[0] = 1.0
    forward(LANES, weighted_arcs, tile, scratch, tables, carry, log_z, suspect)
    if not none_suspect(tile, suspect):
        return False
    folded = np.zeros((len(counts), FOLDED))
    backward(LANES, weighted_arcs, tile, scratch, tables, weight, np.ones((n_states, LANES)), folded)
    add_counts(folded, counts)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_truth(arcs, arc_columns, tile, weight, marginals, counts):
    """Subtract the counts of the labels from the marginals of columns and from the counts of arcs.

    arcs : (N,)   that the labels use        marginals : (R * C, LANES)
    """
    n_columns = len(marginals) // tile.rows[-1]
    for block in range(len(tile.length)):
        for lane in range(LANES):
            for position in range(tile.length[block, lane]):
                arc = arcs[tile.first_token[block, lane] + position]
                counts[arc] -= weight[block, lane]
                row = (tile.rows[block] + position) * n_columns
                for item in range(arc_columns.starts[arc], arc_columns.starts[arc + 1]):
                    marginals[row + arc_columns.columns[item], lane] -= 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def move_biases(arcs, n_pairs, rule, moving, step, counts):
    """Move the weights of patterns, which count for every arc of which they are a suffix; ``counts`` (A,)."""
    for i in range(len(arcs.by_length) - 1, -1, -1):
        arc = arcs.by_length[i]
        if arcs.suffix[arc] >= 0:
            counts[arcs.suffix[arc]] += counts[arc]
        weight_id = arcs.weight_id[arc]
        if weight_id >= 0:
            group = rule.bias_groups[weight_id - n_pairs]
            change = -step / moving.factor[group] * counts[arc]
            moving.w[weight_id] += change
            moving.sums[weight_id] -= moving.area[group] * change


@njit(cache=True, nogil=True, error_model="numpy")
def end_step(n_sequences, step, rule, moving):
    """Apply the penalty of a step on some sequences, count it, and return the smallest factor."""
    least = 1.0
    for i in range(len(moving.factor)):
        moving.factor[i] /= 1.0 + step * n_sequences * rule.decay[i]
        least = min(least, moving.factor[i])
    moving.counts[0] += n_sequences
    if rule.is_averaged:
        for i in range(len(moving.factor)):
            moving.area[i] += moving.counts[0] * moving.factor[i]
        moving.counts[1] += moving.counts[0]
    return least


@njit(cache=True, nogil=True, error_model="numpy")
def descend(batches, data, weighted_arcs, structure, arcs, rule, moving):
    """Take the steps of some minibatches, in their order.

    batches : ``TiledBatches``        data : ``Labelled``        weighted_arcs : look at the scores of ``arcs``
    structure : features, pairs and arc_columns        arcs : ``ArcWeights``        rule : ``Rule``
    moving : ``Descending``   in and out

    Returns the number of steps taken: not all if scaled passes fail for one or a factor becomes small.
    """
    (features, pairs, arc_columns), n_pairs = structure, len(structure[1].columns)
    all_tables, scratch = _allot(batches, weighted_arcs, pairs.n_columns)
    counts, group = np.empty(len(arcs.scores)), rule.pair_group
    for batch in range(len(batches.starts) - 1):
        sequences = batches.sequences[batches.starts[batch] : batches.starts[batch + 1]]
        tile, weight = tile_of(batches, batch)
        factor, n_rows = moving.factor[group], tile.rows[-1]
        step = 1.0 / (1.0 / rule.first + rule.rate * moving.counts[0])
        if not weigh_arcs(arcs, n_pairs, rule, moving):
            return batch
        if n_rows > 0:
            tables = ChainTables(
                all_tables.scores[: n_rows * pairs.n_columns],
                all_tables.varying[: n_rows * len(weighted_arcs.varying_arc)],
                all_tables.alpha[: (n_rows + len(tile.length)) * len(weighted_arcs.fail)],
                all_tables.inverse_scale[:n_rows],
            )
            score_rows(features, pairs, moving.w, moving.w, moving.dense, tile, tables.scores)
            for row in range(len(tables.scores)):
                for lane in range(LANES):
                    tables.scores[row, lane] *= factor
            counts[:] = 0.0
            if not _pass(weighted_arcs, tile, data.allowed, weight, tables, scratch, counts):
                return batch
            _subtract_truth(data.arcs, arc_columns, tile, weight, tables.scores, counts)
            weight *= -step / factor
            move_rows(features, pairs, tile, tables.scores, weight, moving.area[group], moving)
            move_biases(arcs, n_pairs, rule, moving, step, counts)
        if end_step(len(sequences), step, rule, moving) < SMALLEST_FACTOR:
            return batch + 1
    return len(batches.starts) - 1

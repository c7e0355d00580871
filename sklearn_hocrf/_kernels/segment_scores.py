"""Scores of candidate segments from scores of tokens, and the way back.

The row of a token holds the scores of the segments that end with it: entry ``first_cell[k] + d - 1`` is that of target
k for length d, as long as the segment begins inside the sequence; entries beyond are never touched. Token terms are
added up from the segment's end towards its start, so nothing is ever subtracted; the adjoint runs the same loop
backwards and sums up probabilities, which therefore keep their relative precision.

Shapes: B blocks, W lanes, R rows, C score columns, E entries of a row, K targets.
"""

from ._jit import njit
from ._vectors import add, fill, fill_dual, load, multiply_add, store

VECTORS_SOURCE = "91ed875f5eb77b93"
FROM_START, FROM_STOP, RANGE = 0, 1, 2  # as in _segments


@njit(cache=True, nogil=True, error_model="numpy")
def assemble(width, tables, tile, length_scores, scores, table):
    """Write the scores of all candidate segments.

    length_scores : (E, 2)   scores of lengths, and their derivatives for dual numbers
    scores : (R * C, W)   of tokens        table : (R * E, W) out
    """
    n_cells, n_targets = tables.first_cell[-1], len(tables.longest)
    n_columns = len(scores) // tile.rows[-1]
    for block in range(len(tile.length)):
        first_row, stop_row = tile.rows[block], tile.rows[block + 1]
        for row in range(first_row, stop_row):
            for target in range(n_targets):
                entry = tables.first_cell[target]
                inner = fill(0.0, width)
                for d in range(1, min(tables.longest[target], row - first_row + 1) + 1):
                    score = fill_dual(length_scores[entry + d - 1, 0], length_scores[entry + d - 1, 1], width)
                    for member in range(tables.member_starts[target], tables.member_starts[target + 1]):
                        channel = tables.member_channel[member]
                        if d < channel[2] or d > channel[3]:
                            continue
                        token = row - channel[1] if channel[0] == FROM_STOP else row + 1 - d + channel[1]
                        if token >= stop_row:  # after the end of the sequence; lanes that end earlier hold zeros
                            continue
                        term = load(scores, token * n_columns + tables.member_column[member], width)
                        if channel[0] == RANGE:
                            inner = add(inner, term)
                        else:
                            score = add(score, term)
                    store(table, row * n_cells + entry + d - 1, add(score, inner))


@njit(cache=True, nogil=True, error_model="numpy")
def collect(width, tables, tile, weight, table, scores, length_counts):
    """Sum up, for each token and column, the probabilities of the segments that count it: the adjoint of ``assemble``.

    weight : (B, W)   by which lanes count in ``length_counts``        table : (R * E, W)   probabilities
    scores : (R * C, W)   the columns of targets are overwritten        length_counts : (E, W) or (0, W)   increased
    """
    n_cells, n_targets = tables.first_cell[-1], len(tables.longest)
    n_columns = len(scores) // tile.rows[-1]
    for row in range(tile.rows[-1]):
        for member in range(len(tables.member_column)):
            store(scores, row * n_columns + tables.member_column[member], fill(0.0, width))
    for block in range(len(tile.length)):
        first_row, stop_row = tile.rows[block], tile.rows[block + 1]
        lane_weight = load(weight, block, width)
        for row in range(first_row, stop_row):
            for target in range(n_targets):
                entry = tables.first_cell[target]
                so_far = fill(0.0, width)  # segments of length d or more
                for d in range(min(tables.longest[target], row - first_row + 1), 0, -1):
                    probability = load(table, row * n_cells + entry + d - 1, width)
                    so_far = add(so_far, probability)
                    for member in range(tables.member_starts[target], tables.member_starts[target + 1]):
                        channel = tables.member_channel[member]
                        if d < channel[2] or d > channel[3]:
                            continue
                        token = row - channel[1] if channel[0] == FROM_STOP else row + 1 - d + channel[1]
                        if token >= stop_row:
                            continue
                        cell = token * n_columns + tables.member_column[member]
                        if channel[0] == RANGE:
                            store(scores, cell, add(load(scores, cell, width), so_far))
                        else:
                            store(scores, cell, add(load(scores, cell, width), probability))
                    if len(length_counts):
                        cell = entry + d - 1
                        counted = multiply_add(probability, lane_weight, load(length_counts, cell, width))
                        store(length_counts, cell, counted)


@njit(cache=True, nogil=True, error_model="numpy")
def score_candidates(candidates, pairs, weights, slopes, tables, tile, table):
    """Add the scores of features of whole segments.

    weights : (n_pairs,)        slopes : (n_pairs,)   their derivatives, for dual numbers; otherwise not read
    table : (R * E, W or 2 W)   in and out
    """
    n_cells, n_lanes = tables.first_cell[-1], tile.length.shape[1]
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                row = (tile.rows[block] + position) * n_cells
                for candidate in range(candidates.token_starts[token], candidates.token_starts[token + 1]):
                    d = candidates.length[candidate]
                    for entry in range(candidates.indptr[candidate], candidates.indptr[candidate + 1]):
                        value = candidates.values[entry] if len(candidates.values) else 1.0
                        for pair in range(candidates.first[entry], candidates.stop[entry]):
                            target = tables.column_scored[pairs.columns[pair]]
                            if d <= tables.longest[target]:
                                cell = row + tables.first_cell[target] + d - 1
                                table[cell, lane] += value * weights[pair]
                                if table.shape[1] > n_lanes:
                                    table[cell, n_lanes + lane] += value * slopes[pair]


@njit(cache=True, nogil=True, error_model="numpy")
def add_candidates(candidates, pairs, tables, tile, table, weight, gradient):
    """Add the expected counts of features of whole segments; of dual numbers, their derivatives alone.

    table : (R * E, W or 2 W)   probabilities        weight : (B, W)        gradient : (n_pairs,)   in and out
    """
    n_cells, n_lanes = tables.first_cell[-1], tile.length.shape[1]
    skipped = table.shape[1] - n_lanes
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                row = (tile.rows[block] + position) * n_cells
                for candidate in range(candidates.token_starts[token], candidates.token_starts[token + 1]):
                    d = candidates.length[candidate]
                    for entry in range(candidates.indptr[candidate], candidates.indptr[candidate + 1]):
                        value = candidates.values[entry] if len(candidates.values) else 1.0
                        for pair in range(candidates.first[entry], candidates.stop[entry]):
                            target = tables.column_scored[pairs.columns[pair]]
                            if d <= tables.longest[target]:
                                cell = row + tables.first_cell[target] + d - 1
                                gradient[pair] += value * weight[block, lane] * table[cell, skipped + lane]


@njit(cache=True, nogil=True, error_model="numpy")
def count_likely(tables, tile, table, weight, threshold):
    """Return how many segments have at least a probability."""
    n_cells, n_labels = tables.first_cell[-1], len(tables.first_state) - 1
    found = 0
    for block in range(len(tile.length)):
        for lane in range(table.shape[1]):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                for label in range(n_labels):
                    first = (tile.rows[block] + position) * n_cells + tables.first_cell[label]
                    for d in range(1, min(tables.longest[label], position + 1) + 1):
                        found += table[first + d - 1, lane] >= threshold
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def list_likely(tables, tile, table, weight, threshold, start, stop, code, probability):
    """Write the segments that ``count_likely`` counts: arrays of that length, out."""
    n_cells, n_labels = tables.first_cell[-1], len(tables.first_state) - 1
    place = 0
    for block in range(len(tile.length)):
        for lane in range(table.shape[1]):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                after = tile.first_token[block, lane] + position + 1
                for label in range(n_labels):
                    first = (tile.rows[block] + position) * n_cells + tables.first_cell[label]
                    for d in range(1, min(tables.longest[label], position + 1) + 1):
                        if table[first + d - 1, lane] >= threshold:
                            start[place], stop[place], code[place] = after - d, after, label
                            probability[place] = table[first + d - 1, lane]
                            place += 1

"""Products of sparse token rows with (feature, column) weights, and their adjoints.

Pairs are stored by feature: those of feature f are ``starts[f] .. starts[f + 1]``, each with the score column it adds
to and a weight. The entries of a token's row come in three kinds, one after the other, and each kind has a plain loop:

    dense rows     Frequent features know most labels. These, the first H, are kept in a dense table of one padded row
                   of label weights each, which is added as a whole, with sums that stay in registers.
    single pairs   Rare features know few labels. Their entries are cut into one for each pair, which holds the numbers
                   of the pair and of its column: a short loop within the loop would cost a wrong guess of the processor
                   per entry, and looking up the column another cache miss.
    ranges         All others: first pair and end of many pairs. Where their columns are a run, c, c + 1, c + 2 ..., as
                   those of features that are always on, they are added as vectors.

Scores are laid out by column and then by lane, so that those of one token touch a cache line each. Tokens are therefore
summed up in the lines of a small table, some positions by all lanes, from which rows of lanes are copied.

For dual numbers (see ``_vectors``) there are two weights for each pair, the other one a derivative; rows of the dense
table are twice as long, and there are twice as many lines.

Shapes: N tokens, F features, K pairs, C score columns, H dense features, D = padded number of labels (a multiple of
8), R rows and W lanes of a tile of B blocks.
"""

import numpy as np

from ._jit import njit
from ._vectors import STEP, add_scaled, load_step, store_step

VECTORS_SOURCE = "91ed875f5eb77b93"
FEW = 4  # pairs: entries of features with more are not cut, for rows take memory for each part
STRIP_ROWS, STRIP_NUMBERS = 8, 4096  # most positions, and about how many numbers, of the table of lines


@njit(cache=True, nogil=True, error_model="numpy")
def count_kinds(indptr, ranks, pair_starts, n_dense, counts):
    """Count the entries of each token: ``counts`` (N, 3) out, dense rows, single pairs and ranges.

    ranks : (nnz,) int32   the entries' features, -1 for those without pairs, the dense ones first
    pair_starts : (F + 1,) int64
    """
    for token in range(len(indptr) - 1):
        counts[token] = 0
        for entry in range(indptr[token], indptr[token + 1]):
            rank = ranks[entry]
            if rank < 0:
                continue
            n_pairs = pair_starts[rank + 1] - pair_starts[rank]
            if rank < n_dense:
                counts[token, 0] += 1
            elif n_pairs <= FEW:
                counts[token, 1] += n_pairs
            else:
                counts[token, 2] += 1


@njit(cache=True, nogil=True, error_model="numpy")
def sort_kinds(indptr, ranks, values, pair_starts, pair_columns, n_dense, rows):
    """Fill the ``place``, ``other`` and ``values`` of rows, whose cuts are there; arguments as in ``count_kinds``."""
    for token in range(len(indptr) - 1):
        dense, single, range_ = rows.indptr[token], rows.singles[token], rows.ranges[token]
        for entry in range(indptr[token], indptr[token + 1]):
            rank = ranks[entry]
            if rank < 0:
                continue
            first, stop = pair_starts[rank], pair_starts[rank + 1]
            if rank < n_dense:
                first, stop, begin = rank, rank + 1, dense
                dense += 1
            elif stop - first <= FEW:
                begin = single
                single += stop - first
            else:
                begin = range_
                range_ += 1
            if rank >= n_dense and stop - first > FEW:
                rows.place[begin], rows.other[begin] = first, stop
                last = begin + 1
            else:
                last = begin + stop - first
                for i in range(stop - first):
                    rows.place[begin + i] = first + i
                    rows.other[begin + i] = 0 if rank < n_dense else pair_columns[first + i]
            if len(values):
                for place in range(begin, last):
                    rows.values[place] = values[entry]


@njit(cache=True, nogil=True, error_model="numpy")
def _strip_rows(width, n_lines):
    """Return how many positions the table of lines holds."""
    return max(1, min(STRIP_ROWS, STRIP_NUMBERS // max(1, width * n_lines)))


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(rows, pairs, weights, slopes, dense, tile, scores):
    """Write the scores of a tile's tokens, 0 beyond a lane's end.

    weights : (K,)        slopes : (K,)   their derivatives, for dual numbers; otherwise not read
    dense : (H, D) or (H, 2 D)   weights of the dense features, and derivatives        scores : (R * C, W or 2 W) out
    """
    n_columns, n_lanes, n_lines = pairs.n_columns, tile.length.shape[1], scores.shape[1]
    row_length = dense.shape[1]
    n_padded = row_length // (n_lines // n_lanes)
    width = max(n_columns, n_padded)  # the padding of dense rows is 0
    table, strip = dense.reshape(-1), _strip_rows(width, n_lines)
    lines = np.empty(strip * n_lines * width)
    for block in range(len(tile.length)):
        for first_row in range(tile.rows[block], tile.rows[block + 1], strip):
            begin, stop_row = first_row - tile.rows[block], min(first_row + strip, tile.rows[block + 1])
            lines[:] = 0.0
            for line in range(n_lines):
                lane, source = line % n_lanes, weights if line < n_lanes else slopes
                for position in range(begin, min(begin + strip, tile.length[block, lane])):
                    token = tile.first_token[block, lane] + position
                    at = ((position - begin) * n_lines + line) * width
                    singles, ranges = rows.singles[token], rows.ranges[token]
                    for column in range(0, n_padded, STEP):
                        total = load_step(lines, at + column)
                        from_column = column + line // n_lanes * n_padded
                        for entry in range(rows.indptr[token], singles):
                            value = rows.values[entry] if len(rows.values) else 1.0
                            step = load_step(table, np.int64(rows.place[entry]) * row_length + from_column)
                            total = add_scaled(total, value, step)
                        store_step(lines, at + column, total)
                    for entry in range(singles, ranges):
                        value = rows.values[entry] if len(rows.values) else 1.0
                        lines[at + rows.other[entry]] += value * source[rows.place[entry]]
                    for entry in range(ranges, rows.indptr[token + 1]):
                        value = rows.values[entry] if len(rows.values) else 1.0
                        first, n_pairs = np.int64(rows.place[entry]), np.int64(rows.other[entry]) - rows.place[entry]
                        column = pairs.columns[first]
                        if pairs.begins_run[first]:
                            for i in range(n_pairs):
                                lines[at + column + i] += value * source[first + i]
                        else:
                            for pair in range(first, first + n_pairs):
                                lines[at + pairs.columns[pair]] += value * source[pair]
            for row in range(first_row, stop_row):
                at = (row - first_row) * n_lines * width
                for column in range(n_columns):
                    for line in range(n_lines):
                        scores[row * n_columns + column, line] = lines[at + line * width + column]


@njit(cache=True, nogil=True, error_model="numpy")
def add_expectations(rows, pairs, tile, marginals, weight, gradient, dense):
    """Add the expected counts of the pairs; of dual numbers, their derivatives alone.

    marginals : (R * C, W or 2 W)        weight : (B, W)        gradient : (K,) and dense : (H, D)   in and out

    The padding of ``dense`` receives numbers without a meaning.
    """
    n_columns, n_lanes, row_length = pairs.n_columns, tile.length.shape[1], dense.shape[1]
    skipped = marginals.shape[1] - n_lanes
    width = max(n_columns, row_length)
    table, strip = dense.reshape(-1), _strip_rows(width, n_lanes)
    lines = np.zeros(strip * n_lanes * width)
    for block in range(len(tile.length)):
        for first_row in range(tile.rows[block], tile.rows[block + 1], strip):
            begin, stop_row = first_row - tile.rows[block], min(first_row + strip, tile.rows[block + 1])
            for row in range(first_row, stop_row):
                at = (row - first_row) * n_lanes * width
                for column in range(n_columns):
                    for lane in range(n_lanes):
                        marginal = marginals[row * n_columns + column, skipped + lane]
                        lines[at + lane * width + column] = marginal * weight[block, lane]
            for lane in range(n_lanes):
                if weight[block, lane] == 0.0:
                    continue
                for position in range(begin, min(begin + strip, tile.length[block, lane])):
                    token = tile.first_token[block, lane] + position
                    at = ((position - begin) * n_lanes + lane) * width
                    singles, ranges = rows.singles[token], rows.ranges[token]
                    for column in range(0, row_length, STEP):
                        step = load_step(lines, at + column)
                        for entry in range(rows.indptr[token], singles):
                            value = rows.values[entry] if len(rows.values) else 1.0
                            place = np.int64(rows.place[entry]) * row_length + column
                            store_step(table, place, add_scaled(load_step(table, place), value, step))
                    for entry in range(singles, ranges):
                        value = rows.values[entry] if len(rows.values) else 1.0
                        gradient[rows.place[entry]] += value * lines[at + rows.other[entry]]
                    for entry in range(ranges, rows.indptr[token + 1]):
                        value = rows.values[entry] if len(rows.values) else 1.0
                        first, n_pairs = np.int64(rows.place[entry]), np.int64(rows.other[entry]) - rows.place[entry]
                        column = pairs.columns[first]
                        if pairs.begins_run[first]:
                            for i in range(n_pairs):
                                gradient[first + i] += value * lines[at + column + i]
                        else:
                            for pair in range(first, first + n_pairs):
                                gradient[pair] += value * lines[at + pairs.columns[pair]]


@njit(cache=True, nogil=True, error_model="numpy")
def varying_scores(weighted_arcs, n_columns, scores, varying_log):
    """Sum up, for the arcs whose score varies with the position, the scores of their suffix patterns.

    scores : (R * C, W)        varying_log : (R * Q, W) out; the varying_marginals come shortest arc first
    """
    n_varying = len(weighted_arcs.varying_arc)
    for row in range(len(varying_log) // max(n_varying, 1)):
        for varying_number in range(n_varying):
            up, column = weighted_arcs.varying_suffix[varying_number], weighted_arcs.varying_column[varying_number]
            for lane in range(varying_log.shape[1]):
                total = 0.0
                if column >= 0:
                    total = scores[row * n_columns + column, lane]
                if up >= 0:
                    total += varying_log[row * n_varying + up, lane]
                varying_log[row * n_varying + varying_number, lane] = total


@njit(cache=True, nogil=True, error_model="numpy")
def gather(tile, n_columns, scores, weight, table):
    """Copy the lanes of weight > 0 to one row per token: ``scores`` (R * C, W), ``table`` (N, at most C) out."""
    for block in range(len(tile.length)):
        for lane in range(scores.shape[1]):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                for column in range(table.shape[1]):
                    table[token, column] = scores[(tile.rows[block] + position) * n_columns + column, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def label_scores(rows, pairs, weights, arcs, arc_columns, scores):
    """Score given labels: ``arcs`` (N,) are those the labels use, ``scores`` (N,) out."""
    active = np.zeros(pairs.n_columns, dtype=np.bool_)
    for token in range(len(arcs)):
        first_column, last_column = arc_columns.starts[arcs[token]], arc_columns.starts[arcs[token] + 1]
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = True
        total = 0.0
        for entry in range(rows.indptr[token], rows.indptr[token + 1]):
            value = rows.values[entry] if len(rows.values) else 1.0
            first, stop = _pairs_of(rows, pairs, token, entry)
            for pair in range(first, stop):
                if active[pairs.columns[pair]]:
                    total += value * weights[pair]
        scores[token] = total
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = False


@njit(cache=True, nogil=True, error_model="numpy")
def label_counts(rows, pairs, token_weight, arcs, arc_columns, counts):
    """Add the pairs that occur with given labels, each token by its weight: ``counts`` (K,) in and out."""
    active = np.zeros(pairs.n_columns, dtype=np.bool_)
    for token in range(len(arcs)):
        first_column, last_column = arc_columns.starts[arcs[token]], arc_columns.starts[arcs[token] + 1]
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = True
        for entry in range(rows.indptr[token], rows.indptr[token + 1]):
            value = rows.values[entry] if len(rows.values) else 1.0
            first, stop = _pairs_of(rows, pairs, token, entry)
            for pair in range(first, stop):
                if active[pairs.columns[pair]]:
                    counts[pair] += value * token_weight[token]
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = False


@njit(cache=True, nogil=True, error_model="numpy")
def _pairs_of(rows, pairs, token, entry):
    """Return the range of an entry's pairs, of whatever kind it is."""
    place = np.int64(rows.place[entry])
    if entry < rows.singles[token]:
        return pairs.starts[place], pairs.starts[place + 1]
    return place, place + 1 if entry < rows.ranges[token] else np.int64(rows.other[entry])

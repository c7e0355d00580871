"""Products of token features and the weights of (feature, column) pairs (3), and their adjoints (14).

Pairs are stored by feature: the pairs of feature f are ``starts[f] .. starts[f + 1]``, each with a weight and the score
column to which the weight is added. Tokens have entries of three kinds. Kernels add the entries of each kind in a
simple loop, in this order:

    dense rows     Frequent features are paired with most labels. Each of the first H features has a padded row of
                   label weights in a dense table. Kernels add whole rows, with sums that stay in registers.
    single pairs   Rare features are paired with few labels. Each of their pairs has an entry, which contains the
                   indices of the pair and of its column: a short inner loop would cost a branch misprediction per
                   entry, and a lookup of the column would cost another cache miss.
    ranges         Each entry of the other features contains the start and the end of a range of many pairs. If their
                   columns are consecutive, as for features that every token has, kernels add the pairs as vectors.

Scores are stored by column and then by lane, so each score of a token is in a different cache line. Kernels therefore
sum the scores of tokens in a small *buffer*, for a few positions of all lanes, and copy rows of lanes from this buffer.

For dual numbers (see ``_vectors``), each pair has a weight and its derivative, rows of the dense table are twice as
long, and the buffer contains twice as many rows.

Equation numbers refer to docs/develop/theory.md.

Shapes: N tokens, F features, K pairs, C score columns, H dense features, D = padded number of labels (a multiple of
8), R rows and W lanes of a tile of B blocks.

Dense token features: ``add_scores`` and ``add_counts`` compute the same products and adjoints for a dense table of
features. Both kernels convert a group of 8 consecutive tokens to float64 and multiply it by the weights of 8 score
columns at a time. The sums of the group, or the marginals of its tokens, stay in vector registers during the loop over
the features, and the blocks of this matrix product fit into the first caches. The product takes as long as a BLAS
product in float32, and 0.6 times as long as one in float64; with BLAS, tokens would also have to be gathered and scores
scattered. The bits of the result depend neither on the number of BLAS threads nor on the BLAS implementation.

As in a tile, ``rows`` (B + 1,), ``first_token`` (B, W) and ``length`` (B, W) give the positions of blocks of lanes. Row
``rows[b] + j`` contains position j of all lanes of block b.

Shapes: N tokens, d features, C score columns, of which D have weights, padded to S * STEP; R rows and W lanes.
"""

import numpy as np

from ._jit import njit
from ._network import first_at_least
from ._vectors import STEP, add_scaled, load_step, store_step

FEW = 4  # largest number of pairs of a feature with an entry for each pair, because each entry takes memory
BUFFER_ROWS, BUFFER_NUMBERS = 8, 4096  # limits of the buffer


@njit(cache=True, nogil=True, error_model="numpy")
def cut_kinds(indptr, indices, rank_of, pair_starts, n_dense, row_cuts, cuts, ranges):
    """Find where the dense rows, the single pairs and the ranges of each token begin.

    Return the number of dense rows and the number of all other entries.

    indices : (nnz,) int32   the entries' attributes
    rank_of : (n_attributes,) int32   rank of each attribute, dense features first; -1 for attributes without pairs
    pair_starts : (F + 1,) int64
    row_cuts, cuts, ranges : (N + 1,), (N + 1,), (N,) int64   out, as in ``TokenFeatures``
    """
    n_rows, n_entries = 0, 0
    row_cuts[0], cuts[0] = 0, 0
    for token in range(len(indptr) - 1):
        n_singles, n_ranges = 0, 0
        for entry in range(indptr[token], indptr[token + 1]):
            rank = rank_of[indices[entry]]
            if rank < 0:
                continue
            n_pairs = pair_starts[rank + 1] - pair_starts[rank]
            if rank < n_dense:
                n_rows += 1
            elif n_pairs <= FEW:
                n_singles += n_pairs
            else:
                n_ranges += 1
        ranges[token] = n_entries + n_singles
        n_entries += n_singles + n_ranges
        row_cuts[token + 1], cuts[token + 1] = n_rows, n_entries
    return n_rows, n_entries


@njit(cache=True, nogil=True, error_model="numpy")
def sort_kinds(indptr, indices, rank_of, values, pair_starts, pair_columns, n_dense, features):
    """Write the entries to ``features``, at the cuts from ``cut_kinds``, which also describes the other arguments."""
    for token in range(len(indptr) - 1):
        row, single, range_ = features.row_indptr[token], features.indptr[token], features.ranges[token]
        for entry in range(indptr[token], indptr[token + 1]):
            rank = rank_of[indices[entry]]
            if rank < 0:
                continue
            first, stop = pair_starts[rank], pair_starts[rank + 1]
            if rank < n_dense:
                features.rows[row] = rank
                if len(values):
                    features.values[row + features.indptr[token]] = values[entry]
                row += 1
            elif stop - first <= FEW:
                for pair in range(first, stop):
                    features.pair[single], features.other[single] = pair, pair_columns[pair]
                    if len(values):
                        features.values[single + features.row_indptr[token + 1]] = values[entry]
                    single += 1
            else:
                features.pair[range_], features.other[range_] = first, stop
                if len(values):
                    features.values[range_ + features.row_indptr[token + 1]] = values[entry]
                range_ += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _item(array, index):
    """Return an item by an unsigned index; numba would compare a signed index with 0, as it may count from the end."""
    return array[np.uint64(index)]


@njit(cache=True, nogil=True, error_model="numpy")
def _value(values, index):
    """Return the value of an entry; 1 if ``values`` is empty."""
    return _item(values, index) if len(values) else 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _buffer_rows(row_size, n_slots):
    """Return the number of positions in the buffer."""
    return max(1, min(BUFFER_ROWS, BUFFER_NUMBERS // max(1, row_size * n_slots)))


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(features, pairs, weights, direction, dense, tile, scores):
    """Write the scores of a tile's tokens, 0 beyond a lane's end.

    weights : (K,)        direction : (K,)   their derivatives, for dual numbers; otherwise not read
    dense : (H, D) or (H, 2 D)   weights of the dense features, and derivatives        scores : (R * C, W or 2 W) out
    """
    n_columns, n_lanes, n_slots = pairs.n_columns, tile.length.shape[1], scores.shape[1]
    row_length = dense.shape[1]
    n_padded = row_length // (n_slots // n_lanes)
    row_size = max(n_columns, n_padded)  # the padding of dense rows is 0
    table, buffer_rows = dense.reshape(-1), _buffer_rows(row_size, n_slots)
    buffer = np.empty(buffer_rows * n_slots * row_size)
    for block in range(len(tile.length)):
        for first_row in range(tile.rows[block], tile.rows[block + 1], buffer_rows):
            begin, stop_row = first_row - tile.rows[block], min(first_row + buffer_rows, tile.rows[block + 1])
            buffer[:] = 0.0
            for slot in range(n_slots):
                lane, source = slot % n_lanes, weights if slot < n_lanes else direction
                for position in range(begin, min(begin + buffer_rows, tile.length[block, lane])):  # (3)
                    token = tile.first_token[block, lane] + position
                    at = ((position - begin) * n_slots + slot) * row_size
                    dense_start, dense_stop = features.row_indptr[token], features.row_indptr[token + 1]
                    start, ranges, stop = features.indptr[token], features.ranges[token], features.indptr[token + 1]
                    for column in range(0, n_padded, STEP):
                        total = load_step(buffer, at + column)
                        from_column = column + slot // n_lanes * n_padded
                        for entry in range(dense_start, dense_stop):
                            value = _value(features.values, entry + start)
                            step = load_step(table, np.int64(_item(features.rows, entry)) * row_length + from_column)
                            total = add_scaled(total, value, step)
                        store_step(buffer, at + column, total)
                    for entry in range(start, ranges):
                        value = _value(features.values, entry + dense_stop)
                        buffer[at + _item(features.other, entry)] += value * source[_item(features.pair, entry)]
                    for entry in range(ranges, stop):
                        value = _value(features.values, entry + dense_stop)
                        first = np.int64(_item(features.pair, entry))
                        n_pairs = np.int64(_item(features.other, entry)) - first
                        column = pairs.columns[first]
                        if pairs.begins_run[first]:
                            for i in range(n_pairs):
                                buffer[at + column + i] += value * source[first + i]
                        else:
                            for pair in range(first, first + n_pairs):
                                buffer[at + pairs.columns[pair]] += value * source[pair]
            for row in range(first_row, stop_row):
                at = (row - first_row) * n_slots * row_size
                for column in range(n_columns):
                    for slot in range(n_slots):
                        scores[row * n_columns + column, slot] = buffer[at + slot * row_size + column]


@njit(cache=True, nogil=True, error_model="numpy")
def score_tokens(features, pairs, weights, dense, first, scores):
    """Write the scores of consecutive tokens, one row per token, without lanes, as ``score_rows`` does in its buffer.

    weights : (K,)        dense : (H, D)        first : the first token
    scores : (n, S)   out; S is a multiple of STEP and at least C and D; values beyond the columns are meaningless
    """
    row_length, row_size = dense.shape[1], scores.shape[1]
    table, flat, nothing = dense.reshape(-1), scores.reshape(-1), np.zeros(STEP)
    for row in range(len(scores)):  # (3)
        token, at = first + row, row * row_size
        dense_start, dense_stop = features.row_indptr[token], features.row_indptr[token + 1]
        start, ranges, stop = features.indptr[token], features.ranges[token], features.indptr[token + 1]
        for column in range(0, row_length, STEP):
            total = load_step(nothing, 0)
            for entry in range(dense_start, dense_stop):
                value = _value(features.values, entry + start)
                step = load_step(table, np.int64(_item(features.rows, entry)) * row_length + column)
                total = add_scaled(total, value, step)
            store_step(flat, at + column, total)
        for column in range(row_length, row_size):
            flat[at + column] = 0.0
        for entry in range(start, ranges):
            value = _value(features.values, entry + dense_stop)
            flat[at + _item(features.other, entry)] += value * weights[_item(features.pair, entry)]
        for entry in range(ranges, stop):
            value = _value(features.values, entry + dense_stop)
            for pair in range(np.int64(_item(features.pair, entry)), np.int64(_item(features.other, entry))):
                flat[at + pairs.columns[pair]] += value * weights[pair]


@njit(cache=True, nogil=True, error_model="numpy")
def add_expectations(features, pairs, tile, marginals, weight, gradient, dense):
    """Add the expected counts of the pairs; for dual numbers, only their derivatives.

    marginals : (R * C, W or 2 W)        weight : (B, W)        gradient : (K,) and dense : (H, D)   in and out

    The padding of ``dense`` receives meaningless values.
    """
    n_columns, n_lanes, row_length = pairs.n_columns, tile.length.shape[1], dense.shape[1]
    skipped = marginals.shape[1] - n_lanes
    row_size = max(n_columns, row_length)
    table, buffer_rows = dense.reshape(-1), _buffer_rows(row_size, n_lanes)
    buffer = np.zeros(buffer_rows * n_lanes * row_size)
    for block in range(len(tile.length)):
        for first_row in range(tile.rows[block], tile.rows[block + 1], buffer_rows):
            begin, stop_row = first_row - tile.rows[block], min(first_row + buffer_rows, tile.rows[block + 1])
            for row in range(first_row, stop_row):
                at = (row - first_row) * n_lanes * row_size
                for column in range(n_columns):
                    for lane in range(n_lanes):
                        marginal = marginals[row * n_columns + column, skipped + lane]
                        buffer[at + lane * row_size + column] = marginal * weight[block, lane]
            for lane in range(n_lanes):
                if weight[block, lane] == 0.0:
                    continue
                for position in range(begin, min(begin + buffer_rows, tile.length[block, lane])):  # (14)
                    token = tile.first_token[block, lane] + position
                    at = ((position - begin) * n_lanes + lane) * row_size
                    dense_start, dense_stop = features.row_indptr[token], features.row_indptr[token + 1]
                    start, ranges, stop = features.indptr[token], features.ranges[token], features.indptr[token + 1]
                    for column in range(0, row_length, STEP):
                        step = load_step(buffer, at + column)
                        for entry in range(dense_start, dense_stop):
                            value = _value(features.values, entry + start)
                            cell = np.int64(_item(features.rows, entry)) * row_length + column
                            store_step(table, cell, add_scaled(load_step(table, cell), value, step))
                    for entry in range(start, ranges):
                        value = _value(features.values, entry + dense_stop)
                        gradient[_item(features.pair, entry)] += value * buffer[at + _item(features.other, entry)]
                    for entry in range(ranges, stop):
                        value = _value(features.values, entry + dense_stop)
                        first = np.int64(_item(features.pair, entry))
                        n_pairs = np.int64(_item(features.other, entry)) - first
                        column = pairs.columns[first]
                        if pairs.begins_run[first]:
                            for i in range(n_pairs):
                                gradient[first + i] += value * buffer[at + column + i]
                        else:
                            for pair in range(first, first + n_pairs):
                                gradient[pair] += value * buffer[at + pairs.columns[pair]]


@njit(cache=True, nogil=True, error_model="numpy")
def varying_scores(weighted_arcs, n_columns, scores, varying_log):
    """Sum, for each varying arc, the scores of its suffix patterns.

    scores : (R * C, W)        varying_log : (R * Q, W) out; the shortest varying arcs come first
    """
    n_varying = len(weighted_arcs.varying_arc)
    for row in range(len(varying_log) // max(n_varying, 1)):
        for varying_id in range(n_varying):
            suffix, column = weighted_arcs.varying_suffix[varying_id], weighted_arcs.varying_column[varying_id]
            for lane in range(varying_log.shape[1]):
                total = 0.0
                if column >= 0:
                    total = scores[row * n_columns + column, lane]
                if suffix >= 0:
                    total += varying_log[row * n_varying + suffix, lane]
                varying_log[row * n_varying + varying_id, lane] = total


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
def label_sums(features, pairs, arcs, arc_columns, factors, of_pairs, sums):
    """Add the values of features for given labels, each times a factor, to ``sums``.

    arcs : (N,)   the arcs that the labels use
    of_pairs : bool   True: factors are by token and sums by pair, as for counts; False: the reverse, as for scores
    """
    row_indptr, rows, indptr, ranges, pair_of, other, values = features  # unpacking per entry takes 9 times as long
    starts, columns, first_item, arc_column = pairs.starts, pairs.columns, arc_columns.starts, arc_columns.columns
    for token in range(len(arcs)):
        n_rows = row_indptr[token + 1] - row_indptr[token]
        for index in range(-n_rows, indptr[token + 1] - indptr[token]):
            value, first, stop = _entry_of(
                row_indptr, rows, indptr, ranges, pair_of, other, values, starts, token, index
            )
            for item in range(first_item[arcs[token]], first_item[arcs[token] + 1]):
                pair = first_at_least(columns, first, stop, arc_column[item])
                while pair < stop and columns[pair] == arc_column[item]:
                    if of_pairs:
                        sums[pair] += value * factors[token]
                    else:
                        sums[token] += value * factors[pair]
                    pair += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _entry_of(row_indptr, rows, indptr, ranges, pair_of, other, values, starts, token, index):
    """Return the value of a token's entry of any kind, and the range of its pairs.

    index : of the entry; rows of the dense table have negative indices, the last of them -1
    """
    value = _value(values, row_indptr[token + 1] + indptr[token] + index)
    if index < 0:
        row = np.int64(rows[row_indptr[token + 1] + index])
        return value, starts[row], starts[row + 1]
    entry = indptr[token] + index
    first = np.int64(pair_of[entry])
    return value, first, first + 1 if entry < ranges[token] else np.int64(other[entry])


GROUP = 8  # tokens multiplied at a time: their sums and factors fit into the registers


@njit(cache=True, nogil=True, error_model="numpy")
def _widen(values, token, n_tokens, wide):
    """Write the values of up to GROUP tokens as float64, then zeros for missing tokens: ``wide`` (GROUP * d,) out."""
    n_features = values.shape[1]
    flat = values.reshape(-1)[token * n_features : (token + n_tokens) * n_features]
    for i in range(len(flat)):
        wide[i] = flat[i]
    wide[len(flat) :] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _rows(wide):
    """Return the rows of a group as separate arrays, whose indices need neither additions nor checks of signs.

    With one array for all rows, the loops take twice as long.
    """
    n = len(wide) // GROUP
    return (
        wide[:n],
        wide[n : 2 * n],
        wide[2 * n : 3 * n],
        wide[3 * n : 4 * n],
        wide[4 * n : 5 * n],
        wide[5 * n : 6 * n],
        wide[6 * n : 7 * n],
        wide[7 * n :],
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply(wide, table, step, sums):
    """Write the products of a group's rows and the weights of STEP columns: ``sums`` (GROUP * STEP,) out."""
    n_features = len(wide) // GROUP
    x0, x1, x2, x3, x4, x5, x6, x7 = _rows(wide)
    sums[:] = 0.0
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = load_step(sums, 0)
    for i in range(n_features):  # (3)
        weight = load_step(table, (step * n_features + i) * STEP)
        s0 = add_scaled(s0, x0[i], weight)
        s1 = add_scaled(s1, x1[i], weight)
        s2 = add_scaled(s2, x2[i], weight)
        s3 = add_scaled(s3, x3[i], weight)
        s4 = add_scaled(s4, x4[i], weight)
        s5 = add_scaled(s5, x5[i], weight)
        s6 = add_scaled(s6, x6[i], weight)
        s7 = add_scaled(s7, x7[i], weight)
    store_step(sums, 0, s0)
    store_step(sums, STEP, s1)
    store_step(sums, 2 * STEP, s2)
    store_step(sums, 3 * STEP, s3)
    store_step(sums, 4 * STEP, s4)
    store_step(sums, 5 * STEP, s5)
    store_step(sums, 6 * STEP, s6)
    store_step(sums, 7 * STEP, s7)


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply_transposed(wide, marginals, step, table):
    """Add the products of a group's rows and their marginals, ``marginals`` (GROUP * STEP,), to a table."""
    n_features = len(wide) // GROUP
    x0, x1, x2, x3, x4, x5, x6, x7 = _rows(wide)
    m0, m1, m2 = load_step(marginals, 0), load_step(marginals, STEP), load_step(marginals, 2 * STEP)
    m3, m4, m5 = load_step(marginals, 3 * STEP), load_step(marginals, 4 * STEP), load_step(marginals, 5 * STEP)
    m6, m7 = load_step(marginals, 6 * STEP), load_step(marginals, 7 * STEP)
    for i in range(n_features):  # (14)
        start = (step * n_features + i) * STEP
        total = add_scaled(load_step(table, start), x0[i], m0)
        total = add_scaled(total, x1[i], m1)
        total = add_scaled(total, x2[i], m2)
        total = add_scaled(total, x3[i], m3)
        total = add_scaled(total, x4[i], m4)
        total = add_scaled(total, x5[i], m5)
        total = add_scaled(total, x6[i], m6)
        total = add_scaled(total, x7[i], m7)
        store_step(table, start, total)


@njit(cache=True, nogil=True, error_model="numpy")
def add_scores(values, weights, columns, rows, first_token, length, scores):
    """Add the scores of dense features to ``scores``.

    values : (N, d) float32 or float64        weights : (S or 2 S, d, STEP)   with their derivatives for dual numbers
    columns : (D,) int32   indices of the columns with weights        scores : (R * C, W or 2 W)   in and out
    """
    n_lanes, n_slots, n_columns = length.shape[1], scores.shape[1], len(scores) // rows[-1]
    n_steps = -(-len(columns) // STEP)
    flat, table, wide = scores.reshape(-1), weights.reshape(-1), np.empty(GROUP * values.shape[1])
    sums = np.empty(GROUP * STEP)
    for block in range(len(length)):
        for lane in range(n_lanes):
            for begin in range(0, length[block, lane], GROUP):
                n_tokens = min(GROUP, length[block, lane] - begin)
                _widen(values, first_token[block, lane] + begin, n_tokens, wide)
                for step in range(n_slots // n_lanes * n_steps):
                    _multiply(wide, table, step, sums)
                    first_column, slot = step % n_steps * STEP, step // n_steps * n_lanes + lane
                    for i in range(min(STEP, len(columns) - first_column)):
                        cell = (rows[block] + begin) * n_columns + columns[first_column + i]
                        for position in range(n_tokens):
                            flat[(cell + position * n_columns) * n_slots + slot] += sums[position * STEP + i]


@njit(cache=True, nogil=True, error_model="numpy")
def add_counts(values, columns, rows, first_token, length, marginals, weight, counts):
    """Add the expected counts of dense features to ``counts``; for dual numbers, only their derivatives.

    values, columns : as in ``add_scores``        marginals : (R * C, W or 2 W)        weight : (B, W)
    counts : (S, d, STEP)   in and out
    """
    n_lanes, n_slots, n_columns = length.shape[1], marginals.shape[1], len(marginals) // rows[-1]
    flat, table, wide = marginals.reshape(-1), counts.reshape(-1), np.empty(GROUP * values.shape[1])
    factors = np.empty(GROUP * STEP)
    for block in range(len(length)):
        for lane in range(n_lanes):
            if weight[block, lane] == 0.0:
                continue
            slot = n_slots - n_lanes + lane
            for begin in range(0, length[block, lane], GROUP):
                n_tokens = min(GROUP, length[block, lane] - begin)
                _widen(values, first_token[block, lane] + begin, n_tokens, wide)
                for first_column in range(0, len(columns), STEP):
                    factors[:] = 0.0
                    for i in range(min(STEP, len(columns) - first_column)):
                        cell = (rows[block] + begin) * n_columns + columns[first_column + i]
                        for position in range(n_tokens):
                            marginal = flat[(cell + position * n_columns) * n_slots + slot]
                            factors[position * STEP + i] = marginal * weight[block, lane]
                    _multiply_transposed(wide, factors, first_column // STEP, table)

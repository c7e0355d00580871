"""Max-margin training: costs of wrong tokens, and the features that two labellings of a sequence do not share.

The criterion is equation (28) of CONTRIBUTING.md. A step of training changes the weights of one sequence's features
only, and the cost of these kernels grows with that sequence alone: weights are moved in place, and differences of
feature vectors come as lists of (weight, value), by way of a vector of all weights' totals that is zero between calls.

Shapes: N tokens, R rows and W lanes of a tile, C score columns, L labels, E cells of a row of segment scores,
A arcs, K weights (first the n pairs, then the patterns' own), T tokens of one sequence.
"""

import numpy as np

from ._jit import njit

FROM_START, FROM_STOP, RANGE = 0, 1, 2  # as in _segments


@njit(cache=True, nogil=True, error_model="numpy")
def add_token_costs(tile, n_labels, truth, cost, scores):
    """Add ``cost`` to the scores of all labels but the true ones: ``truth`` (N,) int32, ``scores`` (R * C, W)."""
    n_columns = len(scores) // tile.rows[-1]
    for block in range(len(tile.length)):
        for lane in range(tile.length.shape[1]):
            for position in range(tile.length[block, lane]):
                right = truth[tile.first_token[block, lane] + position]
                first = (tile.rows[block] + position) * n_columns
                for label in range(n_labels):
                    if label != right:
                        scores[first + label, lane] += cost


@njit(cache=True, nogil=True, error_model="numpy")
def add_segment_costs(index, tile, truth, begins, cost, table):
    """Add ``cost`` to the scores of candidate segments, once for each token that is wrong in them.

    truth : (N,) int32   label of the segment that each token lies in
    begins : (N,) bool, or empty   where segments begin; a token is wrong also if one begins there wrongly, or fails to
    table : (R * E, W)   in and out
    """
    n_cells, n_labels, borders = index.first_cell[-1], len(index.first_state) - 1, len(begins) > 0
    for block in range(len(tile.length)):
        for lane in range(tile.length.shape[1]):
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                row = (tile.rows[block] + position) * n_cells
                for label in range(n_labels):
                    first = row + index.first_cell[label]
                    inner = 0  # wrong tokens after the first
                    for d in range(1, min(index.longest[label], position + 1) + 1):
                        start = token + 1 - d
                        wrong = truth[start] != label
                        first_is_wrong = wrong or (borders and not begins[start])
                        table[first + d - 1, lane] += cost * (inner + first_is_wrong)
                        inner += wrong or (borders and begins[start])


@njit(cache=True, nogil=True, error_model="numpy")
def move(indices, steps, cell_row, cell_column, w, dense):
    """Add ``steps`` to the weights ``indices``, in ``w`` (K,) and in the dense table of those that it has.

    indices : (n,) int32, some may be equal        steps : (n,)
    cell_row, cell_column : the dense table's cells of the first weights
    """
    for i in range(len(indices)):
        weight, change = indices[i], steps[i]
        w[weight] += change
        if weight < len(cell_row):
            dense[cell_row[weight], cell_column[weight]] += change


@njit(cache=True, nogil=True, error_model="numpy")
def score_arcs(by_length, arc_suffix, weight_of_arc, forbidden, w, scores):
    """Write the arcs' scores: each is its own pattern's weight and the score of its longest proper suffix.

    by_length : (A,) int32   the arcs, shortest first        weight_of_arc : (A,) int64   -1 for none
    forbidden : (A,) bool        scores : (A,) out
    """
    for arc in by_length:
        score = 0.0
        if forbidden[arc]:
            score = -np.inf
        elif weight_of_arc[arc] >= 0:
            score = w[weight_of_arc[arc]]
        if arc_suffix[arc] >= 0:
            score += scores[arc_suffix[arc]]
        scores[arc] = score


@njit(cache=True, nogil=True, error_model="numpy")
def _note(weight, value, totals, noted, indices, n_noted):
    """Add a value to the total of a weight and list the weight, unless it is listed; return how many are."""
    totals[weight] += value
    if not noted[weight]:
        noted[weight] = True
        indices[n_noted] = weight
        n_noted += 1
    return n_noted


@njit(cache=True, nogil=True, error_model="numpy")
def _note_token(entries, starts, columns, changes, totals, noted, indices, n_noted):
    """Note the pairs of a token's features, each as often as its column is in ``changes`` (C,)."""
    first_entry, singles, ranges, stop_entry, places, others, values = entries
    for entry in range(first_entry, stop_entry):
        pair = np.int64(places[entry])
        last_pair = pair + 1 if entry < ranges else np.int64(others[entry])
        if entry < singles:  # a row of the dense table
            pair, last_pair = starts[pair], starts[pair + 1]
        value = values[entry] if len(values) else 1.0
        for weight in range(pair, last_pair):
            change = changes[columns[weight]]
            if change != 0.0:
                n_noted = _note(weight, value * change, totals, noted, indices, n_noted)
    return n_noted


@njit(cache=True, nogil=True, error_model="numpy")
def _take_totals(n_noted, totals, noted, indices, values):
    """Move the totals of the listed weights to ``values``, leave out zeros, and return their number."""
    n_kept = 0
    for i in range(n_noted):
        weight = indices[i]
        if totals[weight] != 0.0:
            indices[n_kept] = weight
            values[n_kept] = totals[weight]
            n_kept += 1
        totals[weight] = 0.0
        noted[weight] = False
    return n_kept


@njit(cache=True, nogil=True, error_model="numpy")
def compare_labels(
    features, pairs, arc_columns, arc_suffix, weight_of_arc, first, truth, arcs, totals, noted, indices, values
):
    """List the features of the true labelling of one sequence minus those of another.

    first : the sequence's first token        truth, arcs : (T,) int32   the arcs that the two labellings use
    totals : (K,) zeros, noted : (K,) False   left as they were
    indices : (K,) int32, values : (K,)   out: the number of entries is returned
    """
    n_noted = 0
    changes = np.zeros(pairs.n_columns)
    for position in range(len(arcs)):
        if arcs[position] == truth[position]:
            continue
        token = first + position
        for sign in (1.0, -1.0):
            arc = truth[position] if sign > 0 else arcs[position]
            for item in range(arc_columns.starts[arc], arc_columns.starts[arc + 1]):
                changes[arc_columns.columns[item]] += sign
            while arc >= 0:
                if weight_of_arc[arc] >= 0:
                    n_noted = _note(weight_of_arc[arc], sign, totals, noted, indices, n_noted)
                arc = arc_suffix[arc]
        cuts = features.indptr[token], features.singles[token], features.ranges[token], features.indptr[token + 1]
        entries = *cuts, features.place, features.other, features.values
        n_noted = _note_token(entries, pairs.starts, pairs.columns, changes, totals, noted, indices, n_noted)
        for arc in (truth[position], arcs[position]):
            for item in range(arc_columns.starts[arc], arc_columns.starts[arc + 1]):
                changes[arc_columns.columns[item]] = 0.0
    return _take_totals(n_noted, totals, noted, indices, values)


@njit(cache=True, nogil=True, error_model="numpy")
def compare_segments(
    features,
    candidates,
    pairs,
    index,
    varying,
    length_rows,
    arc_label,
    arc_suffix,
    weight_of_arc,
    first,
    truth_length,
    truth,
    length,
    arcs,
    totals,
    noted,
    indices,
    values,
):
    """List the features of the true segmentation of one sequence minus those of another.

    varying_marginals : arc_varying, varying_suffix and varying_column of the weighted_arcs
    length_rows : indptr, indices and data of the matrix (E, n) of the features of lengths
    first : the sequence's first token
    truth_length, length : (T,) int32   length of the segment that starts with each token, or 0
    truth, arcs : (T,) int32   arc of the segment that starts with each token
    The others as in ``compare_labels``.
    """
    arc_varying, varying_suffix, varying_column = varying
    length_starts, length_pairs, length_values = length_rows
    n_tokens, n_columns, n_noted = len(arcs), pairs.n_columns, 0
    columns = np.zeros((n_tokens, n_columns))  # how often each column counts a token
    active = np.zeros(len(index.longest), dtype=np.bool_)  # scored patterns of one segment
    for position in range(n_tokens):
        if length[position] == truth_length[position] and (length[position] == 0 or arcs[position] == truth[position]):
            continue
        for sign in (1.0, -1.0):
            arc, d = (truth[position], truth_length[position]) if sign > 0 else (arcs[position], length[position])
            if d == 0:
                continue
            suffix = arc
            while suffix >= 0:
                if weight_of_arc[suffix] >= 0:
                    n_noted = _note(weight_of_arc[suffix], sign, totals, noted, indices, n_noted)
                suffix = arc_suffix[suffix]
            varying_number = arc_varying[arc]
            while varying_number >= 0:  # features of the first token, conjoined with patterns of two or more labels
                if varying_column[varying_number] >= 0:
                    columns[position, varying_column[varying_number]] += sign
                varying_number = varying_suffix[varying_number]
            active[:] = False
            active[arc_label[arc]] = True
            number = index.arc_span[arc]
            while number >= 0:
                if index.span_scored[number] >= 0:
                    active[index.span_scored[number]] = True
                number = index.span_suffix[number]
            for scored in range(len(active)):
                if not active[scored]:
                    continue
                for member in range(index.member_starts[scored], index.member_starts[scored + 1]):
                    channel, column = index.member_channel[member], index.member_column[member]
                    if d < channel[2] or d > channel[3]:
                        continue
                    if channel[0] == RANGE:
                        start, stop = position + channel[1], position + d - (channel[2] - 1 - channel[1])
                    else:
                        start = position + channel[1] if channel[0] == FROM_START else position + d - 1 - channel[1]
                        stop = min(start + 1, n_tokens)
                    for token in range(start, stop):
                        columns[token, column] += sign
                row = index.first_cell[scored] + d - 1
                for item in range(length_starts[row], length_starts[row + 1]):
                    value = sign * length_values[item]
                    n_noted = _note(length_pairs[item], value, totals, noted, indices, n_noted)
            last = first + position + d - 1
            for candidate in range(candidates.token_starts[last], candidates.token_starts[last + 1]):
                if candidates.length[candidate] != d:
                    continue
                for entry in range(candidates.indptr[candidate], candidates.indptr[candidate + 1]):
                    value = candidates.values[entry] if len(candidates.values) else 1.0
                    for pair in range(np.int64(candidates.first[entry]), np.int64(candidates.stop[entry])):
                        scored = index.column_scored[pairs.columns[pair]]
                        if scored >= 0 and active[scored]:
                            n_noted = _note(pair, sign * value, totals, noted, indices, n_noted)
    for position in range(n_tokens):
        differs = False
        for column in range(n_columns):
            differs |= columns[position, column] != 0.0
        if not differs:
            continue
        token = first + position
        cuts = features.indptr[token], features.singles[token], features.ranges[token], features.indptr[token + 1]
        entries = *cuts, features.place, features.other, features.values
        changes = columns[position]
        n_noted = _note_token(entries, pairs.starts, pairs.columns, changes, totals, noted, indices, n_noted)
    return _take_totals(n_noted, totals, noted, indices, values)

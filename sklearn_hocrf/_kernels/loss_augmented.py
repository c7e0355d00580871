"""Max-margin training: costs of wrong tokens, and the features that two labellings of a sequence do not share.

The criterion is equation (28) of docs/develop/theory.md. A step of training changes the weights of one sequence's
features only, and the cost of these kernels depends only on that sequence: weights are moved in place, and differences
of feature vectors are lists of (weight, value), computed with a vector of all weights' totals that is zero between
calls.

Shapes: N tokens, R rows and W lanes of a tile, C score columns, L labels, E cells of a row of segment scores,
A arcs, K weights (first the n pairs, then the patterns' own), T tokens of one sequence.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit

FROM_START, FROM_STOP, RANGE = 0, 1, 2  # as in ``_data.segments``


class LabelStructure(NamedTuple):
    """The weights that the labels of a token count, for ``compare_labels``."""

    features: NamedTuple  # TokenFeatures
    pairs: NamedTuple  # PairTable
    arc_columns: NamedTuple  # ArcColumns
    arc_suffix: np.ndarray  # (A,) int32
    weight_of_arc: np.ndarray  # (A,) int64   -1 for none


class SegmentStructure(NamedTuple):
    """The weights that a segment counts, for ``compare_segments``."""

    features: NamedTuple  # TokenFeatures
    candidates: NamedTuple  # CandidateFeatures
    pairs: NamedTuple  # PairTable
    index: NamedTuple  # SegmentIndex
    arc_varying: np.ndarray  # these three as in ArcStructure
    varying_suffix: np.ndarray
    varying_column: np.ndarray
    length_starts: np.ndarray  # (E + 1,) int64   rows of the matrix of the features of lengths
    length_weights: np.ndarray  # int64
    length_values: np.ndarray  # float64
    arc_label: np.ndarray  # (A,) int32
    arc_suffix: np.ndarray  # (A,) int32
    weight_of_arc: np.ndarray  # (A,) int64   -1 for none
    parts: NamedTuple  # PartLinks, by scored pattern


class SequenceSegments(NamedTuple):
    """A segmentation of one sequence, by the first tokens of its segments."""

    arcs: np.ndarray  # (T,) int32   arc of the segment that starts with each token
    lengths: np.ndarray  # (T,) int32   its length, or 0


class Difference(NamedTuple):
    """The difference of two feature vectors: working memory, and the resulting list."""

    totals: np.ndarray  # (K,) float64   zeros, restored after use
    noted: np.ndarray  # (K,) bool   False, restored after use
    indices: np.ndarray  # (K,) int32   out
    values: np.ndarray  # (K,) float64   out


@njit(cache=True, nogil=True, error_model="numpy")
def add_token_costs(tile, n_labels, truth, cost, scores):
    """Add ``cost`` to the scores of all labels except the true ones: ``truth`` (N,) int32, ``scores`` (R * C, W)."""
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
    """Add ``cost`` to the scores of candidate segments, once for each of their wrong tokens.

    truth : (N,) int32   label of the segment that each token lies in
    begins : (N,) bool, or empty   where segments begin; a token is also wrong if one wrongly begins, or fails to begin
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
    """Add ``steps`` to the weights ``indices``, in ``w`` (K,) and, for weights that it contains, in the dense table.

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
    """Add a value to the total of a weight and list the weight, unless it is listed; return the number listed."""
    totals[weight] += value
    if not noted[weight]:
        noted[weight] = True
        indices[n_noted] = weight
        n_noted += 1
    return n_noted


@njit(cache=True, nogil=True, error_model="numpy")
def _note_token(features, token, pairs, changes, totals, noted, indices, n_noted):
    """Note the pairs of a token's features, each as often as its column is in ``changes`` (C,)."""
    rows, first, ranges = features.row_indptr[token + 1], features.indptr[token], features.ranges[token]
    for number in range(features.row_indptr[token] - rows, features.indptr[token + 1] - first):
        if number < 0:  # a row of the dense table
            row = np.int64(features.rows[rows + number])
            pair, stop_pair = pairs.starts[row], pairs.starts[row + 1]
        else:
            entry = first + number
            pair, stop_pair = np.int64(features.place[entry]), np.int64(features.other[entry])
            if entry < ranges:
                if changes[stop_pair] == 0.0:  # the column of a single pair
                    continue
                stop_pair = pair + 1
        value = features.values[rows + first + number] if len(features.values) else 1.0
        for weight in range(pair, stop_pair):
            change = changes[pairs.columns[weight]]
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
def _note_arc(arc, sign, structure, totals, noted, indices, n_noted):
    """Note the weights of the patterns that end with an arc: its own, and those of its suffixes."""
    while arc >= 0:
        if structure.weight_of_arc[arc] >= 0:
            n_noted = _note(structure.weight_of_arc[arc], sign, totals, noted, indices, n_noted)
        arc = structure.arc_suffix[arc]
    return n_noted


@njit(cache=True, nogil=True, error_model="numpy")
def compare_labels(structure, first, truth, arcs, difference):
    """List the features of the true labelling of one sequence minus those of another.

    structure : ``LabelStructure``        first : the sequence's first token
    truth, arcs : (T,) int32   the arcs that the two labellings use
    difference : ``Difference``   in and out: the number of listed weights is returned
    """
    features, pairs, arc_columns = structure.features, structure.pairs, structure.arc_columns
    totals, noted, indices, values = difference
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
            n_noted = _note_arc(arc, sign, structure, totals, noted, indices, n_noted)
        n_noted = _note_token(features, token, pairs, changes, totals, noted, indices, n_noted)
        for arc in (truth[position], arcs[position]):
            for item in range(arc_columns.starts[arc], arc_columns.starts[arc + 1]):
                changes[arc_columns.columns[item]] = 0.0
    return _take_totals(n_noted, totals, noted, indices, values)


@njit(cache=True, nogil=True, error_model="numpy")
def _mark_scored(structure, arc, active):
    """Mark the scored patterns of a segment: its label and the label's parts, and the patterns of its span arc."""
    index, parts, label = structure.index, structure.parts, structure.arc_label[arc]
    active[:] = False
    active[label] = True
    for item in range(parts.starts[label], parts.starts[label + 1]):
        active[parts.numbers[item]] = True
    number = index.arc_span[arc]
    while number >= 0:
        if index.span_scored[number] >= 0:
            active[index.span_scored[number]] = True
        number = index.span_suffix[number]


@njit(cache=True, nogil=True, error_model="numpy")
def _count_columns(structure, arc, position, d, sign, active, columns):
    """Add to ``columns`` (T, C) how often the score of a segment counts each column of each token."""
    varying_number, index = structure.arc_varying[arc], structure.index
    while varying_number >= 0:  # features of the first token, combined with patterns of two or more labels
        if structure.varying_column[varying_number] >= 0:
            columns[position, structure.varying_column[varying_number]] += sign
        varying_number = structure.varying_suffix[varying_number]
    for scored in range(len(active)):  # (17)
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
                stop = min(start + 1, len(columns))
            for token in range(start, stop):
                columns[token, column] += sign


@njit(cache=True, nogil=True, error_model="numpy")
def _note_segment(structure, last, d, sign, active, difference, n_noted):
    """Note the features of a segment's length, and those that are computed for the segment as a whole."""
    index, candidates, columns = structure.index, structure.candidates, structure.pairs.columns
    totals, noted, indices, _ = difference
    for scored in range(len(active)):
        if not active[scored]:
            continue
        cell = index.first_cell[scored] + d - 1
        for item in range(structure.length_starts[cell], structure.length_starts[cell + 1]):
            value = sign * structure.length_values[item]
            n_noted = _note(structure.length_weights[item], value, totals, noted, indices, n_noted)
    for candidate in range(candidates.token_starts[last], candidates.token_starts[last + 1]):
        if candidates.length[candidate] != d:
            continue
        for entry in range(candidates.indptr[candidate], candidates.indptr[candidate + 1]):
            value = candidates.values[entry] if len(candidates.values) else 1.0
            for pair in range(np.int64(candidates.first[entry]), np.int64(candidates.stop[entry])):
                scored = index.column_scored[columns[pair]]
                if scored >= 0 and active[scored]:
                    n_noted = _note(pair, sign * value, totals, noted, indices, n_noted)
    return n_noted


@njit(cache=True, nogil=True, error_model="numpy")
def compare_segments(structure, first, truth, other, difference):
    """List the features of the true segmentation of one sequence minus those of another.

    structure : ``SegmentStructure``        first : the sequence's first token
    truth, other : ``SequenceSegments``        difference : as in ``compare_labels``
    """
    features, pairs = structure.features, structure.pairs
    totals, noted, indices, values = difference
    n_tokens, n_noted = len(truth.arcs), 0
    columns = np.zeros((n_tokens, pairs.n_columns))
    active = np.zeros(len(structure.index.longest), dtype=np.bool_)  # scored patterns of one segment
    for position in range(n_tokens):
        same_arc = other.lengths[position] == 0 or other.arcs[position] == truth.arcs[position]
        if other.lengths[position] == truth.lengths[position] and same_arc:
            continue
        for sign, segments in ((1.0, truth), (-1.0, other)):
            arc, d = segments.arcs[position], segments.lengths[position]
            if d == 0:
                continue
            n_noted = _note_arc(arc, sign, structure, totals, noted, indices, n_noted)
            _mark_scored(structure, arc, active)
            _count_columns(structure, arc, position, d, sign, active, columns)
            last = first + position + d - 1
            n_noted = _note_segment(structure, last, d, sign, active, difference, n_noted)
    for position in range(n_tokens):
        changes = columns[position]
        if not changes.any():
            continue
        token = first + position
        n_noted = _note_token(features, token, pairs, changes, totals, noted, indices, n_noted)
    return _take_totals(n_noted, totals, noted, indices, values)

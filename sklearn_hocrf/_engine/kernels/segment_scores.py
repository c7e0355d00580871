"""Scores of candidate segments, parts of labels, masks and aged labels, with the adjoints of these kernels.

Segments: the row of a token contains the scores of the segments that end with it. Cell ``first_cell[k] + d - 1`` is for
the scored pattern k and the length d; kernels neither read nor write cells of segments that would begin before the
sequence. ``assemble`` sums the scores of tokens from the segment's end to its start, without subtractions. Its adjoint,
``collect``, runs the same loop backwards and sums probabilities, which therefore keep their relative precision.

Parts of labels: kernels add the scores of parts to the labels that contain them, and the marginals of labels to their
parts. ``links`` are ``PartLinks``: between score columns for chains, and between scored patterns for segments.

Masks: labels and segments that a mask excludes get the score -inf.

Aged labels: the score of a column of the chain (an aged label, or a column that is added to the scores of arcs) is a
constant plus or minus scores of the token and of tokens near it. ``links`` are ``AgeLinks``.

Kernels for parts of labels are linear and process all columns of a table alike, so they need no version for dual
numbers, whose derivatives are further columns. Equation numbers refer to docs/develop/theory.md.

Shapes: N tokens, L labels, B blocks, W lanes (or columns of a table), R rows, C score columns, E cells of a row, K
scored patterns, M columns of the chain of aged labels.
"""

import numpy as np

from ._jit import njit
from ._vectors import add, fill, fill_dual, load, multiply_add, store

FROM_START, FROM_STOP, RANGE = 0, 1, 2  # as in ``_data.segments``


@njit(cache=True, nogil=True, error_model="numpy")
def assemble(lane_kind, index, tile, length_scores, scores, table):
    """Write the scores of all candidate segments.

    length_scores : (E, 2)   scores of lengths, and their derivatives for dual numbers
    scores : (R * C, W)   of tokens        table : (R * E, W) out
    """
    n_cells, n_scored = index.first_cell[-1], len(index.longest)
    n_columns = len(scores) // tile.rows[-1]
    for block in range(len(tile.length)):
        first_row, stop_row = tile.rows[block], tile.rows[block + 1]
        for row in range(first_row, stop_row):
            for scored in range(n_scored):  # (17)
                first = index.first_cell[scored]
                inner = fill(0.0, lane_kind)
                for d in range(1, min(index.longest[scored], row - first_row + 1) + 1):
                    score = fill_dual(length_scores[first + d - 1, 0], length_scores[first + d - 1, 1], lane_kind)
                    for member in range(index.member_starts[scored], index.member_starts[scored + 1]):
                        channel = index.member_channel[member]
                        if d < channel[2] or d > channel[3]:
                            continue
                        token = row - channel[1] if channel[0] == FROM_STOP else row + 1 - d + channel[1]
                        if token >= stop_row:  # after the end of the block; lanes that end earlier contain zeros
                            continue
                        term = load(scores, token * n_columns + index.member_column[member], lane_kind)
                        if channel[0] == RANGE:
                            inner = add(inner, term)
                        else:
                            score = add(score, term)
                    store(table, row * n_cells + first + d - 1, add(score, inner))


@njit(cache=True, nogil=True, error_model="numpy")
def collect(lane_kind, index, tile, weight, table, scores, length_counts):
    """Sum, for each score of a token, the probabilities of the segments that include it: the adjoint of ``assemble``.

    weight : (B, W)   factors of lanes in ``length_counts``        table : (R * E, W)   probabilities
    scores : (R * C, W)   the columns of scored patterns are overwritten
    length_counts : (E, W) or (0, W)   increased
    """
    n_cells, n_scored = index.first_cell[-1], len(index.longest)
    n_columns = len(scores) // tile.rows[-1]
    for row in range(tile.rows[-1]):
        for member in range(len(index.member_column)):
            store(scores, row * n_columns + index.member_column[member], fill(0.0, lane_kind))
    for block in range(len(tile.length)):
        first_row, stop_row = tile.rows[block], tile.rows[block + 1]
        lane_weight = load(weight, block, lane_kind)
        for row in range(first_row, stop_row):
            for scored in range(n_scored):
                first = index.first_cell[scored]
                so_far = fill(0.0, lane_kind)  # segments of length d or more; (17), transposed
                for d in range(min(index.longest[scored], row - first_row + 1), 0, -1):
                    probability = load(table, row * n_cells + first + d - 1, lane_kind)
                    so_far = add(so_far, probability)
                    for member in range(index.member_starts[scored], index.member_starts[scored + 1]):
                        channel = index.member_channel[member]
                        if d < channel[2] or d > channel[3]:
                            continue
                        token = row - channel[1] if channel[0] == FROM_STOP else row + 1 - d + channel[1]
                        if token >= stop_row:
                            continue
                        cell = token * n_columns + index.member_column[member]
                        if channel[0] == RANGE:
                            store(scores, cell, add(load(scores, cell, lane_kind), so_far))
                        else:
                            store(scores, cell, add(load(scores, cell, lane_kind), probability))
                    if len(length_counts):
                        cell = first + d - 1
                        counted = multiply_add(probability, lane_weight, load(length_counts, cell, lane_kind))
                        store(length_counts, cell, counted)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_candidates(candidates, pairs, index, tile, table, weights, direction, weight, gradient):
    """Add the scores of features of whole segments to ``table``, or their expected counts to ``gradient``.

    table : (R * E, W or 2 W)   scores, in and out; or probabilities
    weights, direction : (n_pairs,)   weights and, for dual numbers, their derivatives; None for counts
    weight, gradient : (B, W), and (n_pairs,) in and out: for dual numbers, only derivatives; None for scores
    """
    n_cells, n_lanes = index.first_cell[-1], tile.length.shape[1]
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
                            scored = index.column_scored[pairs.columns[pair]]
                            if d > index.longest[scored]:
                                continue
                            cell = row + index.first_cell[scored] + d - 1
                            if weights is not None:  # decided at compile time
                                table[cell, lane] += value * weights[pair]
                                if table.shape[1] > n_lanes:
                                    table[cell, n_lanes + lane] += value * direction[pair]
                            if gradient is not None:
                                factor = value * weight[block, lane]
                                if factor != 0.0:  # the tables of lanes with weight 0 are meaningless
                                    gradient[pair] += factor * table[cell, table.shape[1] - n_lanes + lane]


@njit(cache=True, nogil=True, error_model="numpy")
def list_likely(index, tile, table, weight, threshold, segments):
    """List the segments whose probability reaches the threshold, and return their number.

    segments : (M, 4)   out: start, stop, label and probability; if there are more than M, the others are only counted
    """
    n_cells, n_labels, n_likely = index.first_cell[-1], len(index.first_state) - 1, 0
    for block in range(len(tile.length)):
        for lane in range(table.shape[1]):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                after = tile.first_token[block, lane] + position + 1
                for label in range(n_labels):
                    first = (tile.rows[block] + position) * n_cells + index.first_cell[label]
                    for d in range(1, min(index.longest[label], position + 1) + 1):
                        if table[first + d - 1, lane] >= threshold:
                            if n_likely < len(segments):
                                segments[n_likely, 0], segments[n_likely, 1] = after - d, after
                                segments[n_likely, 2], segments[n_likely, 3] = label, table[first + d - 1, lane]
                            n_likely += 1
    return n_likely


@njit(cache=True, nogil=True, error_model="numpy")
def take_given(index, tile, table, weight, segments, probability):
    """Write the probabilities of given segments.

    segments : (N, 2) int64   by first token: the stop of the segment, or 0 if none begins there, and its label
    probability : (N,)   out, by first token
    """
    n_cells = index.first_cell[-1]
    for block in range(len(tile.length)):
        for lane in range(table.shape[1]):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                start = tile.first_token[block, lane] + position
                if segments[start, 0] > 0:
                    last, label = segments[start, 0] - 1 - start, segments[start, 1]
                    row = tile.rows[block] + position + last
                    probability[start] = table[row * n_cells + index.first_cell[label] + last, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def add_to_labels(links, n_columns, scores):
    """Add the scores of parts to the scores of the labels that contain them: ``scores`` (R * C, W) in and out."""
    n_labels, width = len(links.starts) - 1, scores.shape[1]
    for first in range(0, len(scores), n_columns):  # (39)
        for label in range(n_labels):
            for item in range(links.starts[label], links.starts[label + 1]):
                part = first + links.ids[item]
                for column in range(width):
                    scores[first + label, column] += scores[part, column]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_over_labels(links, n_columns, marginals):
    """Write the marginals of parts, sums over the labels that contain them: ``marginals`` (R * C, W) in and out."""
    n_labels, width = len(links.starts) - 1, marginals.shape[1]
    for first in range(0, len(marginals), n_columns):  # (39), transposed
        for part in links.members:
            for column in range(width):
                marginals[first + part, column] = 0.0
        for label in range(n_labels):
            for item in range(links.starts[label], links.starts[label + 1]):
                part = first + links.ids[item]
                for column in range(width):
                    marginals[part, column] += marginals[first + label, column]


@njit(cache=True, nogil=True, error_model="numpy")
def add_to_labels_of_token(links, scores):
    """Compute the sums of ``add_to_labels`` for one token, without lanes: ``scores`` (at least C,) in and out."""
    for label in range(len(links.starts) - 1):  # (39)
        total = scores[label]
        for item in range(links.starts[label], links.starts[label + 1]):
            total += scores[np.uint32(links.ids[item])]
        scores[label] = total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_over_labels_of_token(links, lowest, scores):
    """Compute the sums of ``sum_over_labels`` for one token; skip labels with a value closer to 0 than ``lowest``."""
    for part in links.members:
        scores[part] = 0.0
    for label in range(len(links.starts) - 1):  # (39), transposed
        if abs(scores[label]) >= lowest:
            for item in range(links.starts[label], links.starts[label + 1]):
                scores[np.uint32(links.ids[item])] += scores[label]


@njit(cache=True, nogil=True, error_model="numpy")
def forbid_labels(tile, n_columns, allowed, scores):
    """Exclude, at each token, the labels that are not allowed there.

    allowed : (N, L) bool        scores : (R * C, W or 2 W)   in and out; derivatives of excluded labels become 0
    """
    n_lanes = tile.length.shape[1]
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                first = (tile.rows[block] + position) * n_columns
                for label in range(allowed.shape[1]):
                    if not allowed[token, label]:
                        for column in range(lane, scores.shape[1], n_lanes):
                            scores[first + label, column] = -np.inf if column == lane else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def forbid_segments(index, tile, allowed, begins, cells):
    """Exclude segments that contain a token for which the label is not allowed, or that contradict ``begins``.

    allowed : (N, L) bool        begins : (N,) int8   1 where a segment must begin, -1 where none may begin
    cells : (R * E, W or 2 W)   in and out
    """
    n_lanes, n_cells = tile.length.shape[1], index.first_cell[-1]
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            first_token, length = tile.first_token[block, lane], tile.length[block, lane]
            for position in range(length):
                is_border = position + 1 == length or begins[first_token + position + 1] >= 0
                for label in range(allowed.shape[1]):
                    first = (tile.rows[block] + position) * n_cells + index.first_cell[label] - 1
                    is_open = is_border
                    for d in range(1, min(index.longest[label], position + 1) + 1):
                        token = first_token + position + 1 - d
                        is_open = is_open and allowed[token, label]
                        if not is_open or begins[token] < 0:
                            for column in range(lane, cells.shape[1], n_lanes):
                                cells[first + d, column] = -np.inf if column == lane else 0.0
                        is_open = is_open and begins[token] <= 0  # no segment continues across a token that begins one


@njit(cache=True, nogil=True, error_model="numpy")
def forbid_short(index, tile, shortest, cells):
    """Exclude segments shorter than their labels require, except at the beginning or end of a sequence.

    shortest : (L,) int64   least length for each label, or (0,)        cells : (R * E, W or 2 W)   in and out
    """
    n_lanes, n_cells = tile.length.shape[1], index.first_cell[-1]
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            for position in range(tile.length[block, lane] - 1):  # of the segment's last token, inside the sequence
                row = (tile.rows[block] + position) * n_cells - 1
                for label in range(len(shortest)):
                    first, most = row + index.first_cell[label], min(shortest[label] - 1, index.longest[label])
                    for d in range(1, min(most, position) + 1):  # segments that begin after the sequence's first token
                        for column in range(lane, cells.shape[1], n_lanes):
                            cells[first + d, column] = -np.inf if column == lane else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def assemble_aged(lane_kind, links, tile, constants, scores, table):
    """Write the scores of the chain of aged labels.

    constants : (M, 2)   constants of the scores, and their derivatives        scores : (R * C, W or 2 W)
    table : (R * M, W or 2 W)   out
    """
    n_targets, n_columns = len(links.starts) - 1, len(scores) // tile.rows[-1]
    for block in range(len(tile.length)):
        for row in range(tile.rows[block], tile.rows[block + 1]):
            for target in range(n_targets):
                score = fill_dual(constants[target, 0], constants[target, 1], lane_kind)
                for item in range(links.starts[target], links.starts[target + 1]):
                    token = row - links.shift[item]
                    if tile.rows[block] <= token < tile.rows[block + 1]:  # lanes that end earlier contain zeros
                        term = load(scores, token * n_columns + links.column[item], lane_kind)
                        score = multiply_add(fill(links.sign[item], lane_kind), term, score)
                store(table, row * n_targets + target, score)


@njit(cache=True, nogil=True, error_model="numpy")
def collect_aged(lane_kind, links, tile, weight, table, scores, counts):
    """Sum, for each score of a token, the marginals of the columns that include it: the adjoint of ``assemble_aged``.

    weight : (B, W or 2 W)   factors of lanes in ``counts``        table : (R * M, W or 2 W)   marginals
    scores : (R * C, W or 2 W)   out        counts : (M, W or 2 W) or (0, ...)   increased by the marginals
    """
    n_targets, n_columns = len(links.starts) - 1, len(scores) // tile.rows[-1]
    for cell in range(tile.rows[-1] * n_columns):
        store(scores, cell, fill(0.0, lane_kind))
    for block in range(len(tile.length)):
        lane_weight = load(weight, block, lane_kind)
        for row in range(tile.rows[block], tile.rows[block + 1]):
            for target in range(n_targets):
                marginal = load(table, row * n_targets + target, lane_kind)
                for item in range(links.starts[target], links.starts[target + 1]):
                    token = row - links.shift[item]
                    if tile.rows[block] <= token < tile.rows[block + 1]:
                        source, sign = token * n_columns + links.column[item], fill(links.sign[item], lane_kind)
                        store(scores, source, multiply_add(sign, marginal, load(scores, source, lane_kind)))
                if len(counts):
                    store(counts, target, multiply_add(marginal, lane_weight, load(counts, target, lane_kind)))

"""Masks applied to scores: whatever they rule out gets the score -inf.

Shapes: N tokens, L labels, B blocks, W lanes, R rows, C score columns, E cells of segment scores.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def forbid_labels(tile, n_columns, allowed, scores):
    """Rule out labels of tokens.

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
    """Rule out segments with a token that may not have the label, or that begin or end at a wrong place.

    allowed : (N, L) bool        begins : (N,) int8   1 where a segment begins, -1 where none may begin
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
    """Rule out segments that are too short, except at the beginning or end of a sequence.

    shortest : (L,) int64   lowest lengths, or (0,)        cells : (R * E, W or 2 W)   in and out
    """
    n_lanes, n_cells = tile.length.shape[1], index.first_cell[-1]
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            for position in range(tile.length[block, lane] - 1):  # of the last token, before that of the sequence
                row = (tile.rows[block] + position) * n_cells - 1
                for label in range(len(shortest)):
                    first, most = row + index.first_cell[label], min(shortest[label] - 1, index.longest[label])
                    for d in range(1, min(most, position) + 1):  # they begin after the sequence does
                        for column in range(lane, cells.shape[1], n_lanes):
                            cells[first + d, column] = -np.inf if column == lane else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def add_label_gains(tile, n_columns, gains, scores):
    """Add a table to the scores of labels: ``gains`` (N, L), ``scores`` (R * C, W) in and out."""
    for block in range(len(tile.length)):
        for lane in range(tile.length.shape[1]):
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                first = (tile.rows[block] + position) * n_columns
                for label in range(gains.shape[1]):
                    scores[first + label, lane] += gains[token, label]


@njit(cache=True, nogil=True, error_model="numpy")
def add_segment_gains(index, tile, gains, roles, cells):
    """Add the gains of their tokens to the scores of segments.

    gains : (N, C)   of classes        cells : (R * E, W)   in and out
    roles : (L, 4) int32   classes of the first, the inner, the last and the only token of a segment; -1 for none
    """
    n_cells = index.first_cell[-1]
    for block in range(len(tile.length)):
        for lane in range(tile.length.shape[1]):
            for position in range(tile.length[block, lane]):
                last = tile.first_token[block, lane] + position
                for label in range(len(roles)):
                    first = (tile.rows[block] + position) * n_cells + index.first_cell[label] - 1
                    after = 0.0  # of the tokens after the first
                    for d in range(1, min(index.longest[label], position + 1) + 1):
                        role = roles[label, 0] if d > 1 else roles[label, 3]
                        begin = gains[last + 1 - d, role] if role >= 0 else 0.0
                        cells[first + d, lane] += begin + after
                        role = roles[label, 1] if d > 1 else roles[label, 2]
                        after += gains[last + 1 - d, role] if role >= 0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def add_listed_gains(index, tile, starts, segments, gains, rest, cells):
    """Add gains to the scores of the listed segments, and the rest to the scores of all others.

    starts : (N + 1,) int64   listed segments that end with each token        rest : (L,)
    segments : (M, 2) int64   length and label        gains : (M,)        cells : (R * E, W)   in and out
    """
    n_cells = index.first_cell[-1]
    for block in range(len(tile.length)):
        for lane in range(tile.length.shape[1]):
            for position in range(tile.length[block, lane]):
                row = (tile.rows[block] + position) * n_cells
                for label in range(len(rest)):
                    first = row + index.first_cell[label] - 1
                    for d in range(1, min(index.longest[label], position + 1) + 1):
                        cells[first + d, lane] += rest[label]
                token = tile.first_token[block, lane] + position
                for listed in range(starts[token], starts[token + 1]):
                    cell = row + index.first_cell[segments[listed, 1]] + segments[listed, 0] - 1
                    cells[cell, lane] += gains[listed] - rest[segments[listed, 1]]

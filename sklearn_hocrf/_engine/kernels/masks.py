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
    """Rule out segments with a token that may not have the label, or that begin or end at a wrong position.

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

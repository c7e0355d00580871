"""Masks put on scores: what they rule out gets the score -inf.

Shapes: N tokens, L labels, B blocks, W lanes, R rows, C score columns, E cells of segment scores.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def forbid_labels(tile, n_columns, allowed, scores):
    """Rule out labels of tokens.

    allowed : (N, L) bool        scores : (R * C, W or 2 W)   in and out; derivatives of what is ruled out become 0
    """
    n_lanes = tile.length.shape[1]
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                first = (tile.rows[block] + position) * n_columns
                for label in range(allowed.shape[1]):
                    if not allowed[token, label]:
                        scores[first + label, lane::n_lanes] = 0.0
                        scores[first + label, lane] = -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def forbid_segments(index, tile, allowed, begins, cells):
    """Rule out segments: those with a token that may not have the label, and those that begin or end at a wrong place.

    allowed : (N, L) bool        begins : (N,) int8   1 where a segment begins, -1 where none may
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
                            cells[first + d, lane::n_lanes] = 0.0
                            cells[first + d, lane] = -np.inf
                        is_open = is_open and begins[token] <= 0  # no segment goes on before a token that begins one

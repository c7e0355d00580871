"""Residuals of expected patterns at each position (26), and scores that change at single positions.

Equation (26) is that of docs/develop/theory.md.

Shapes: N tokens, C score columns, R rows and W lanes of a tile of B blocks, M rows of a table of positions; ``slot``
(N,) is the row of each token in it.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def compare(tile, n_columns, marginals, counts, bias, weight, arcs, arc_columns, slot, table):
    """Write ``n (mu - truth)`` to the table and return the sum of ``weight * n * (mu - truth)**2``.

    marginals : (R * C, W)   mu, by column        counts : (R * C, W) and bias : (C,)   whose sum is n
    weight : (B, W)   lanes of weight 0 are left out        arcs : (N,)   that the true labels use        table : (M, C)
    """
    total = 0.0
    truth = np.zeros(n_columns)
    for block in range(len(tile.length)):
        for lane in range(marginals.shape[1]):
            if weight[block, lane] == 0.0:
                continue
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                first = (tile.rows[block] + position) * n_columns
                first_column, last_column = arc_columns.starts[arcs[token]], arc_columns.starts[arcs[token] + 1]
                for item in range(first_column, last_column):
                    truth[arc_columns.columns[item]] = 1.0
                squares = 0.0
                for column in range(n_columns):
                    difference = marginals[first + column, lane] - truth[column]
                    residual = (counts[first + column, lane] + bias[column]) * difference
                    table[slot[token], column] = residual
                    squares += residual * difference
                total += weight[block, lane] * squares
                for item in range(first_column, last_column):
                    truth[arc_columns.columns[item]] = 0.0
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def perturb(tile, n_columns, slot, table, scores):
    """Write a table as the derivatives of scores: ``scores`` (R * C, 2 W), ``table`` (M, C)."""
    n_lanes = tile.length.shape[1]
    scores[:, n_lanes:] = 0.0
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            for position in range(tile.length[block, lane]):
                token = tile.first_token[block, lane] + position
                first = (tile.rows[block] + position) * n_columns
                for column in range(n_columns):
                    scores[first + column, n_lanes + lane] = table[slot[token], column]

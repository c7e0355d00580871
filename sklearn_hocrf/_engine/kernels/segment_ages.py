"""Scores of a chain of aged labels from scores of tokens, and the way back.

A column of the chain, an aged label or a column that moves arcs, is a constant plus scores of the same token or of
tokens near it, some of them subtracted. Both directions are linear, so dual numbers need no separate kernels: their
derivatives are further columns of the tables. ``links`` are ``AgeLinks``.

Shapes: B blocks, W lanes, R rows, C score columns of the layout, M columns of the chain.
"""

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def assemble(links, tile, constants, scores, table):
    """Write the scores of the chain.

    constants : (M, 2)   of lengths and tokens, and their derivatives        scores : (R * C, W or 2 W)
    table : (R * M, W or 2 W)   out
    """
    n_lanes, width, n_targets = tile.length.shape[1], table.shape[1], len(links.starts) - 1
    n_columns = len(scores) // tile.rows[-1]
    for block in range(len(tile.length)):
        for row in range(tile.rows[block], tile.rows[block + 1]):
            for target in range(n_targets):
                cell = row * n_targets + target
                for column in range(width):
                    table[cell, column] = constants[target, column // n_lanes]
                for item in range(links.starts[target], links.starts[target + 1]):
                    token, sign = row - links.shift[item], links.sign[item]
                    if tile.rows[block] <= token < tile.rows[block + 1]:  # lanes that end earlier contain zeros
                        source = token * n_columns + links.column[item]
                        for column in range(width):
                            table[cell, column] += sign * scores[source, column]


@njit(cache=True, nogil=True, error_model="numpy")
def collect(links, tile, weight, table, scores, counts):
    """Sum, for each token and column, the marginals of the chain that it adds to: the adjoint of ``assemble``.

    weight : (B, W)   by which lanes count in ``counts``        table : (R * M, W or 2 W)   marginals
    scores : (R * C, W or 2 W)   out        counts : (M, W or 2 W) or (0, ...)   increased by the marginals
    """
    n_lanes, width, n_targets = tile.length.shape[1], table.shape[1], len(links.starts) - 1
    n_columns = len(scores) // tile.rows[-1]
    for cell in range(tile.rows[-1] * n_columns):
        for column in range(width):
            scores[cell, column] = 0.0
    for block in range(len(tile.length)):
        for row in range(tile.rows[block], tile.rows[block + 1]):
            for target in range(n_targets):
                cell = row * n_targets + target
                for item in range(links.starts[target], links.starts[target + 1]):
                    token, sign = row - links.shift[item], links.sign[item]
                    if tile.rows[block] <= token < tile.rows[block + 1]:
                        source = token * n_columns + links.column[item]
                        for column in range(width):
                            scores[source, column] += sign * table[cell, column]
                if len(counts):
                    for column in range(width):
                        counts[target, column] += table[cell, column] * weight[block, column % n_lanes]

"""Residuals of expected segments (26), and scores that change at single candidate segments.

Equation (26) is that of docs/develop/theory.md.

Shapes: N tokens, B blocks, W lanes, R rows, E cells of a row (see ``segment_scores``), K scored patterns, G ranges,
F attributes, M rows of a table of positions; ``slot`` (N,) is the row of each token in it.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_products(shared, index, tile, counts):
    """Add twice the product of an attribute's values at each two tokens of a range, for all pairs with a column for it.

    With the squares of its values at single tokens they make the square of its sum over the range. ``shared`` are
    ``SharedFeatures``; ``counts`` (R * E, W) in and out.
    """
    n_cells, n_ranges, n_longest = index.first_cell[-1], len(shared.ranges), index.longest.max()
    values = np.zeros(len(shared.starts))
    products = np.empty(n_ranges)  # products of the first token of a range with the others, by range
    before, after = np.zeros((2, n_longest + 1, n_ranges))  # sums by length of the range and range
    for block in range(len(tile.length)):
        for lane in range(tile.length.shape[1]):
            length = tile.length[block, lane]
            for first in range(length - 1, -1, -1):
                token = tile.first_token[block, lane] + first
                for entry in range(shared.indptr[token], shared.indptr[token + 1]):
                    values[shared.attribute[entry]] = shared.values[entry]
                products[:] = 0.0
                after[0] = 0.0
                for distance in range(1, min(n_longest, length - first)):
                    for entry in range(shared.indptr[token + distance], shared.indptr[token + distance + 1]):
                        attribute = shared.attribute[entry]
                        product = values[attribute] * shared.values[entry]
                        if product != 0.0:
                            for pair in range(shared.starts[attribute], shared.starts[attribute + 1]):
                                products[shared.pair_range[pair]] += product
                    for item in range(n_ranges):
                        total = before[distance - 1, item] + products[item]
                        after[distance, item] = total
                        scored, offset, trim = shared.ranges[item]
                        start, last = first - offset, first + distance + trim
                        if start >= 0 and last < length and last - start < index.longest[scored]:
                            row = (tile.rows[block] + last) * n_cells
                            counts[row + index.first_cell[scored] + last - start, lane] += 2.0 * total
                for entry in range(shared.indptr[token], shared.indptr[token + 1]):
                    values[shared.attribute[entry]] = 0.0
                before, after = after, before


@njit(cache=True, nogil=True, error_model="numpy")
def compare(index, tile, probability, counts, weight, truth, slot, table):
    """Write ``n (mu - truth)`` to the table and return the sum of ``weight * n * (mu - truth)**2``.

    probability, counts : (R * E, W)   mu and n, by cell        weight : (B, W)   lanes of weight 0 are left out
    truth : ``TrueSegments``        table : (M, E)
    """
    n_cells, n_scored, n_lanes = index.first_cell[-1], len(index.longest), tile.length.shape[1]
    is_true = np.zeros((n_lanes, n_scored), dtype=np.bool_)
    total = 0.0
    for block in range(len(tile.length)):
        for position in range(tile.rows[block + 1] - tile.rows[block]):
            for lane in range(n_lanes):
                if weight[block, lane] == 0.0 or position >= tile.length[block, lane]:
                    continue
                token = tile.first_token[block, lane] + position
                row = (tile.rows[block] + position) * n_cells
                for item in range(truth.starts[token], truth.starts[token + 1]):
                    is_true[lane, truth.targets[item]] = True
                squares = 0.0
                for scored in range(n_scored):
                    for d in range(1, min(index.longest[scored], position + 1) + 1):
                        cell = index.first_cell[scored] + d - 1
                        difference = probability[row + cell, lane]
                        if is_true[lane, scored] and truth.length[token] == d:
                            difference -= 1.0
                        residual = counts[row + cell, lane] * difference
                        table[slot[token], cell] = residual
                        squares += residual * difference
                total += weight[block, lane] * squares
                for item in range(truth.starts[token], truth.starts[token + 1]):
                    is_true[lane, truth.targets[item]] = False
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def perturb(index, tile, slot, table, scores):
    """Add a table to the derivatives of segment scores: ``scores`` (R * E, 2 W), ``table`` (M, E)."""
    n_cells, n_lanes = index.first_cell[-1], tile.length.shape[1]
    for block in range(len(tile.length)):
        for position in range(tile.rows[block + 1] - tile.rows[block]):
            row = (tile.rows[block] + position) * n_cells
            for lane in range(n_lanes):
                if position >= tile.length[block, lane]:
                    continue
                token = tile.first_token[block, lane] + position
                for scored in range(len(index.longest)):
                    first = index.first_cell[scored]
                    for cell in range(first, first + min(index.longest[scored], position + 1)):
                        scores[row + cell, n_lanes + lane] += table[slot[token], cell]

"""How far the expected segments are from the true ones, and scores that change at single candidate segments.

Shapes: N tokens, B blocks, W lanes, R rows, E entries of a row (see ``segments``), K targets, G ranges, F attributes,
M rows of a table of positions; ``place`` (N,) is the row of each token in it.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_products(shared, tables, tile, counts):
    """Add twice the product of an attribute's values at each two tokens of a range, for all pairs with a column there.

    With the squares of its values at single tokens they make the square of its sum over the range. ``shared`` are
    ``SharedFeatures``; ``counts`` (R * E, W) in and out.
    """
    n_cells, n_ranges, n_longest = tables.first_cell[-1], len(shared.ranges), tables.longest.max()
    values = np.zeros(len(shared.starts))
    line = np.empty(n_ranges)  # products of the first token of a range with the others, by range
    before, after = np.zeros((2, n_longest + 1, n_ranges))  # sums by length of the range and range
    for block in range(len(tile.length)):
        for lane in range(tile.length.shape[1]):
            length = tile.length[block, lane]
            for first in range(length - 1, -1, -1):
                token = tile.first_token[block, lane] + first
                for entry in range(shared.indptr[token], shared.indptr[token + 1]):
                    values[shared.attribute[entry]] = shared.values[entry]
                line[:] = 0.0
                after[0] = 0.0
                for distance in range(1, min(n_longest, length - first)):
                    for entry in range(shared.indptr[token + distance], shared.indptr[token + distance + 1]):
                        attribute = shared.attribute[entry]
                        product = values[attribute] * shared.values[entry]
                        if product != 0.0:
                            for pair in range(shared.starts[attribute], shared.starts[attribute + 1]):
                                line[shared.pair_range[pair]] += product
                    for number in range(n_ranges):
                        total = before[distance - 1, number] + line[number]
                        after[distance, number] = total
                        target, offset, trim = shared.ranges[number]
                        start, last = first - offset, first + distance + trim
                        if start >= 0 and last < length and last - start < tables.longest[target]:
                            row = (tile.rows[block] + last) * n_cells
                            counts[row + tables.first_cell[target] + last - start, lane] += 2.0 * total
                for entry in range(shared.indptr[token], shared.indptr[token + 1]):
                    values[shared.attribute[entry]] = 0.0
                before, after = after, before


@njit(cache=True, nogil=True, error_model="numpy")
def compare(tables, tile, probability, counts, weight, truth, place, table):
    """Write ``n (mu - truth)`` to the table and return the sum of ``weight * n * (mu - truth)**2``.

    probability, counts : (R * E, W)   mu and n, by entry        weight : (B, W)   lanes of weight 0 are left out
    truth : ``TrueSegments``        table : (M, E)
    """
    n_cells, n_targets, n_lanes = tables.first_cell[-1], len(tables.longest), tile.length.shape[1]
    there = np.zeros((n_lanes, n_targets), dtype=np.bool_)
    total = 0.0
    for block in range(len(tile.length)):
        for position in range(tile.rows[block + 1] - tile.rows[block]):
            for lane in range(n_lanes):
                if weight[block, lane] == 0.0 or position >= tile.length[block, lane]:
                    continue
                token = tile.first_token[block, lane] + position
                row = (tile.rows[block] + position) * n_cells
                for index in range(truth.starts[token], truth.starts[token + 1]):
                    there[lane, truth.targets[index]] = True
                squares = 0.0
                for target in range(n_targets):
                    for d in range(1, min(tables.longest[target], position + 1) + 1):
                        entry = tables.first_cell[target] + d - 1
                        difference = probability[row + entry, lane]
                        if there[lane, target] and truth.length[token] == d:
                            difference -= 1.0
                        residual = counts[row + entry, lane] * difference
                        table[place[token], entry] = residual
                        squares += residual * difference
                total += weight[block, lane] * squares
                for index in range(truth.starts[token], truth.starts[token + 1]):
                    there[lane, truth.targets[index]] = False
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def perturb(tables, tile, place, table, scale, scores):
    """Add ``scale`` times the table to the derivatives of segment scores: ``scores`` (R * E, 2 W), ``table`` (M, E)."""
    n_cells, n_lanes = tables.first_cell[-1], tile.length.shape[1]
    for block in range(len(tile.length)):
        for position in range(tile.rows[block + 1] - tile.rows[block]):
            row = (tile.rows[block] + position) * n_cells
            for lane in range(n_lanes):
                if position >= tile.length[block, lane]:
                    continue
                token = tile.first_token[block, lane] + position
                for target in range(len(tables.longest)):
                    first = tables.first_cell[target]
                    for entry in range(first, first + min(tables.longest[target], position + 1)):
                        scores[row + entry, n_lanes + lane] += scale * table[place[token], entry]

"""Parts of labels: their scores are added to the labels that have them, and the marginals of labels to their parts.

Both are linear, so dual numbers need no separate kernels: their derivatives are further columns of the tables.
``links`` are ``PartLinks``: for chains by score columns, for segments by scored patterns. Equations are those of
docs/develop/theory.md.

Shapes: L labels, C score columns, R rows, W columns of a table, E cells of a row (see ``segment_scores``).
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def add_to_labels(links, n_columns, scores):
    """Add the scores of parts to the scores of the labels that have them: ``scores`` (R * C, W) in and out."""
    n_labels, width = len(links.starts) - 1, scores.shape[1]
    for first in range(0, len(scores), n_columns):  # (39)
        for label in range(n_labels):
            for item in range(links.starts[label], links.starts[label + 1]):
                part = first + links.ids[item]
                for column in range(width):
                    scores[first + label, column] += scores[part, column]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_over_labels(links, n_columns, marginals):
    """Write the marginals of parts, sums over their labels: ``marginals`` (R * C, W) in and out."""
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
    """Do the same as ``add_to_labels`` for one token without lanes: ``scores`` (at least C,) in and out."""
    for label in range(len(links.starts) - 1):  # (39)
        total = scores[label]
        for item in range(links.starts[label], links.starts[label + 1]):
            total += scores[np.uint32(links.ids[item])]
        scores[label] = total


@njit(cache=True, nogil=True, error_model="numpy")
def sum_over_labels_of_token(links, lowest, scores):
    """Do the same as ``sum_over_labels`` for one token without lanes; skip values closer to 0 than ``lowest``."""
    for part in links.members:
        scores[part] = 0.0
    for label in range(len(links.starts) - 1):  # (39), transposed
        if abs(scores[label]) >= lowest:
            for item in range(links.starts[label], links.starts[label + 1]):
                scores[np.uint32(links.ids[item])] += scores[label]


@njit(cache=True, nogil=True, error_model="numpy")
def add_to_segments(index, links, tile, table):
    """Add the scores of parts to the scores of segments whose labels have them: ``table`` (R * E, W) in and out."""
    n_cells, n_labels, width = index.first_cell[-1], len(links.starts) - 1, table.shape[1]
    for block in range(len(tile.length)):
        for row in range(tile.rows[block], tile.rows[block + 1]):  # (39)
            for label in range(n_labels):
                cell = row * n_cells + index.first_cell[label]
                longest = min(index.longest[label], row - tile.rows[block] + 1)
                for item in range(links.starts[label], links.starts[label + 1]):
                    part = row * n_cells + index.first_cell[links.ids[item]]
                    for d in range(longest):
                        for column in range(width):
                            table[cell + d, column] += table[part + d, column]


@njit(cache=True, nogil=True, error_model="numpy")
def sum_over_segments(index, links, tile, table):
    """Write the probabilities of parts, sums over their labels: ``table`` (R * E, W) in and out."""
    n_cells, n_labels, width = index.first_cell[-1], len(links.starts) - 1, table.shape[1]
    for block in range(len(tile.length)):
        for row in range(tile.rows[block], tile.rows[block + 1]):  # (39), transposed
            position = row - tile.rows[block]
            for member in links.members:
                part = row * n_cells + index.first_cell[member]
                for d in range(min(index.longest[member], position + 1)):
                    for column in range(width):
                        table[part + d, column] = 0.0
            for label in range(n_labels):
                cell = row * n_cells + index.first_cell[label]
                longest = min(index.longest[label], position + 1)
                for item in range(links.starts[label], links.starts[label + 1]):
                    part = row * n_cells + index.first_cell[links.ids[item]]
                    for d in range(longest):
                        for column in range(width):
                            table[part + d, column] += table[cell + d, column]

"""Dense columns of a batch under a layout: one matrix product instead of sparse rows.

The weights of dense features form a table, features by score columns. Scores of tokens are the product of their values
and this table; expected counts are the adjoint. Counts and scores of a labelling are the same products, restricted to
*occurrences*, each of which specifies a score column and a token at which it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._data.arrays import freeze
from ..._data.columns import DenseColumns
from ..kernels import dense_columns
from ..kernels._vectors import STEP

_NUMBERS_AT_A_TIME = 1 << 18  # numbers of a table that are processed at a time: 2 MiB


class Occurrences(NamedTuple):
    """Where score columns count.   E occurrences."""

    owner: np.ndarray  # (E,) int   the token, or the segment, that has the column
    token: np.ndarray  # (E,) int   the token whose values count
    column: np.ndarray  # (E,) int   index of the score column among those with dense features


class DenseProduct(NamedTuple):
    """Dense features and where their weights are.   N tokens, d features, D score columns, P pairs."""

    values: np.ndarray  # (N, d) float32 or float64
    columns: np.ndarray  # (D,) int32   the score columns that have pairs of dense features
    pairs: np.ndarray  # (P,) int64   ids of these pairs
    cells: np.ndarray  # (P,) int64   flat index of each in the table of shape (S, d, STEP)

    @property
    def table_shape(self) -> tuple[int, int, int]:
        """Shape of the table of weights: score columns in groups of STEP, as kernels multiply them."""
        return -(-len(self.columns) // STEP), self.values.shape[1], STEP

    def table(self, pair_weights: np.ndarray) -> np.ndarray:
        """Return the table of weights; two pairs share a cell if two features count one attribute in the same way."""
        shape = self.table_shape
        weights = np.bincount(self.cells, weights=pair_weights[self.pairs], minlength=int(np.prod(shape)))
        return freeze(weights.reshape(shape), np.float64)

    def add_counts(self, table: np.ndarray, gradient: np.ndarray) -> None:
        """Add a table of counts to a gradient of all pairs, in place."""
        gradient[self.pairs] += table.reshape(-1)[self.cells]

    def label_counts(self, occurrences: Occurrences, weight: np.ndarray, gradient: np.ndarray) -> None:
        """Add the counts of occurrences, each times the weight of its owner, to a gradient of all pairs, in place."""
        self.add_counts(sum_values(self.values, occurrences, weight, len(self.columns)), gradient)

    def label_scores(self, occurrences: Occurrences, pair_weights: np.ndarray, n_owners: int) -> np.ndarray:
        """Return the scores of owners: sums over their occurrences; shape (n_owners,)."""
        scores, table = np.zeros(n_owners), self.table(pair_weights)
        every_column = freeze(np.arange(len(self.columns)), np.int32)
        for tokens, part in _chunks(occurrences, len(self.values), len(self.columns)):
            products = np.zeros((len(tokens) * len(self.columns), 1))
            dense_columns.add_scores(self.values, table, every_column, *_in_one_lane(tokens), products)
            np.add.at(scores, part.owner, products[_column_slot(part, tokens, len(self.columns)), 0])
        return scores


def dense_product(dense: DenseColumns, attribute: np.ndarray, column: np.ndarray) -> DenseProduct | None:
    """Return the product of dense columns with the weights of pairs, or None if there is nothing to multiply.

    Parameters
    ----------
    dense : DenseColumns
    attribute, column : ndarray of shape (n_pairs,)
        Attribute and score column of each pair.
    """
    dense_index = np.full(max(attribute.max(initial=-1), dense.attributes[-1]) + 1, -1)
    dense_index[dense.attributes] = np.arange(len(dense.attributes))
    pairs = np.flatnonzero(dense_index[attribute] >= 0)
    if not len(pairs):
        return None
    columns, rank = np.unique(column[pairs], return_inverse=True)
    n_features = len(dense.attributes)
    cells = (rank // STEP * n_features + dense_index[attribute[pairs]]) * STEP + rank % STEP
    return DenseProduct(dense.values, freeze(columns, np.int32), pairs, cells)


def sum_values(
    values: np.ndarray, occurrences: Occurrences, weight: np.ndarray, n_columns: int, *, as_counts: bool = False
) -> np.ndarray:
    """Return the sums of values over occurrences, by score column, each times the weight of its owner.

    Parameters
    ----------
    values : ndarray of shape (N, d)
    occurrences : Occurrences
    weight : ndarray of shape (n_owners,)
    n_columns : int
    as_counts : bool
        Whether every value but 0 counts as 1.

    Returns
    -------
    table : ndarray of shape (S, d, STEP)
        Columns are in groups of STEP.
    """
    table = np.zeros((-(-n_columns // STEP), values.shape[1], STEP))
    columns, ones = freeze(np.arange(n_columns), np.int32), np.ones((1, 1))
    for tokens, part in _chunks(occurrences, len(values), n_columns + as_counts * values.shape[1]):
        size = len(tokens) * n_columns
        marginals = np.bincount(_column_slot(part, tokens, n_columns), weights=weight[part.owner], minlength=size)
        factors, (rows, first, length) = values, _in_one_lane(tokens)
        if as_counts:
            factors, first = freeze(values[tokens.start : tokens.stop] != 0, values.dtype), freeze([[0]], np.int64)
        dense_columns.add_counts(factors, columns, rows, first, length, marginals.reshape(size, 1), ones, table)
    return table


def _chunks(occurrences: Occurrences, n_tokens: int, width: int) -> Iterator[tuple[range, Occurrences]]:
    """Yield ranges of tokens and the occurrences at each; a table has ``width`` numbers per token."""
    size = max(_NUMBERS_AT_A_TIME // max(width, 1), 1)
    order = np.argsort(occurrences.token, kind="stable")
    by_token = Occurrences(*(ids[order] for ids in occurrences))
    for start in range(0, n_tokens, size):
        tokens = range(start, min(start + size, n_tokens))
        first, stop = np.searchsorted(by_token.token, [tokens.start, tokens.stop])
        if first < stop:
            yield tokens, Occurrences(*(ids[first:stop] for ids in by_token))


def _column_slot(occurrences: Occurrences, tokens: range, n_columns: int) -> np.ndarray:
    return (occurrences.token - tokens.start) * n_columns + occurrences.column


def _in_one_lane(tokens: range) -> tuple[np.ndarray, ...]:
    """Return consecutive tokens in the form of a tile's positions: rows, first tokens and lengths."""
    return tuple(freeze(ids, np.int64) for ids in ([0, len(tokens)], [[tokens.start]], [[len(tokens)]]))

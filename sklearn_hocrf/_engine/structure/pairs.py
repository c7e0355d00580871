"""The (feature, pattern) pairs that have a weight, and their order in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..._data.arrays import freeze_all, freeze_all_indices, group_offsets, joined_ranges, offsets_of, reading_order
from ..._data.batch import SequenceBatch
from .dense_columns import Occurrences, sum_values
from .label_parts import Endings, LabelParts
from .patterns import is_frequent
from .weighted_arcs import CompiledPatterns


class FeatureMap(NamedTuple):
    """Attribute and channel of each feature.   F features."""

    attribute: np.ndarray  # (F,) int32
    channel: np.ndarray  # (F,) int32
    sort_key: np.ndarray  # (n_attributes,)   attributes with lower keys get lower ranks

    @classmethod
    def of_tokens(cls, sort_key: np.ndarray) -> FeatureMap:
        """Return the map of features that are token attributes."""
        n_features = len(sort_key)
        return cls(np.arange(n_features, dtype=np.int32), np.zeros(n_features, dtype=np.int32), sort_key)

    def checked(self, n_channels: int) -> FeatureMap:
        """Return the map with read-only arrays, or raise a ValueError if it points outside."""
        attribute, channel = freeze_all_indices(
            (self.attribute, len(self.sort_key), "attributes of features"),
            (self.channel, n_channels, "channels of features"),
        )
        sort_key = np.asarray(self.sort_key)
        if len(attribute) != len(channel) or sort_key.ndim != 1 or sort_key.dtype.kind not in "iuf":
            raise ValueError(f"{len(attribute)} features, with {len(channel)} channels, and keys {sort_key.dtype}")
        return FeatureMap(attribute, channel, sort_key)


class PairTable(NamedTuple):
    """The (attribute, column) pairs that have a weight, by attribute.   F ranked attributes, K pairs, C columns.

    Attributes are numbered by rank: first the attributes of the dense table, then the others in the order of their
    first occurrence in training, so that rare ones, which are the majority, are read in memory order.
    """

    starts: np.ndarray  # (F + 1,) int64   range of each attribute's pairs
    columns: np.ndarray  # (K,) int32   ascending within an attribute; the same for features that count it alike
    begins_run: np.ndarray  # (K,) bool   at each attribute's first pair: whether its columns are c, c + 1, c + 2 ...
    n_dense: int  # number of attributes whose weights are in the dense table, one row each
    n_columns: int
    n_labels: int


class PairRule(NamedTuple):
    """The rule that decides which pairs get a weight."""

    feature_orders: tuple | list = (0,)  # orders of the patterns of features: one tuple for all, or one for each
    min_count: float = 1  # pairs with a lower weighted count get none; see ``is_frequent``
    all_pairs: bool = False  # whether all pairs get a weight, even those that do not occur

    def by_order(self, n_features: int) -> list[tuple[int, np.ndarray | None]]:
        """Return pairs (order, features conjoined with it); None means all features."""
        if isinstance(self.feature_orders, tuple):
            return [(order, None) for order in sorted(set(self.feature_orders))]
        orders = sorted({order for given in self.feature_orders for order in given})
        if len(self.feature_orders) != n_features:
            raise ValueError(f"feature_orders has {len(self.feature_orders)} entries for {n_features} features")
        return [(k, np.flatnonzero([k in given for given in self.feature_orders])) for k in orders]


class DenseFeatures(NamedTuple):
    """Features of dense columns, and where they count.   n features, E occurrences."""

    features: np.ndarray  # (n,) int   their ids
    values: np.ndarray  # (N, d)   of all dense columns
    columns: np.ndarray  # (n,) int   the column of each feature
    owner: np.ndarray  # (E,) int   token, or segment
    token: np.ndarray  # (E,) int   a token whose values count for it

    def counts(
        self, at_units: Endings, weight: np.ndarray, some: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how often pairs occur: counts, rows and features.

        ``at_units`` and ``weight``, of shape (M,), belong to the owners. ``some`` are the features that count, or None
        for all.
        """
        counted = weight[self.owner] > 0
        owner, token = self.owner[counted], self.token[counted]
        unit, row = at_units.of(owner)
        owner, token = owner[unit], token[unit]
        known, column = np.unique(row, return_inverse=True)
        counts = sum_values(self.values, Occurrences(owner, token, column), weight, len(known), as_counts=True)
        by_feature = counts.transpose(1, 0, 2).reshape(counts.shape[1], -1)[self.columns, : len(known)]
        if some is not None:
            by_feature[~np.isin(self.features, some)] = 0.0
        feature, column = np.nonzero(by_feature)
        return by_feature[feature, column], known[column], self.features[feature]


class Units(NamedTuple):
    """Training tokens, or segments, and their features.   M units."""

    table: Callable[[int, int], sparse.csr_array]  # counts of each feature at units first .. last - 1
    n_features: int
    cuts: list[tuple[int, int]]  # first and last + 1 of the units whose tables are made together
    endings: Callable[[int, int, int], Endings]  # rows of an order that count at units first .. last - 1
    weight: np.ndarray  # (M,) float64   the weight of each unit


def count_pairs(
    rule: PairRule, compiled: CompiledPatterns, parts: LabelParts, units: Units, dense: Sequence[DenseFeatures] = ()
) -> sparse.csr_array:
    """Return how often each feature occurs with each row, a pattern or a part; shape (n_rows, n_features).

    Only rows of the orders that the rule specifies for a feature are counted, and none if the rule needs no counts.

    Parameters
    ----------
    rule : PairRule
    compiled : CompiledPatterns
    parts : LabelParts
        Parts of labels, which are treated like single labels.
    units : Units
    dense : sequence of DenseFeatures
        Features that are not in the tables of the units; their columns are 0 there.
    """
    shape = len(compiled.patterns.lengths) + parts.n_parts, units.n_features
    counts = sparse.csr_array(shape)
    if rule.all_pairs:
        return counts
    by_order = rule.by_order(units.n_features)
    for first, last in units.cuts:
        table, weight = units.table(first, last), units.weight[first:last]
        for order, some in by_order:
            indicator = row_indicator(units.endings(order, first, last), weight, shape[0])
            counts = counts + indicator @ (table if some is None else _columns_alone(table, some))
    for order, some in by_order if dense else ():
        at_units = units.endings(order, 0, len(units.weight))
        for of_columns in dense:
            numbers, row, feature = of_columns.counts(at_units, units.weight, some)
            counts = counts + sparse.csr_array((numbers, (row, feature)), shape=shape)
    return counts


def _columns_alone(table: sparse.csr_array, some: np.ndarray) -> sparse.csr_array:
    """Return a table in which all columns except some are empty."""
    kept = np.zeros(table.shape[1])
    kept[some] = 1.0
    alone = table @ sparse.dia_array((kept[None], [0]), shape=(table.shape[1],) * 2)
    alone.eliminate_zeros()
    return sparse.csr_array(alone)


def choose_pairs(rule: PairRule, compiled: CompiledPatterns, parts: LabelParts, counts: sparse.csr_array) -> np.ndarray:
    """Return features and rows, patterns or parts, of the pairs that get a weight; shape (2, n_pairs).

    ``counts`` is the result of :func:`count_pairs`.
    """
    if not rule.all_pairs:
        found = counts.tocoo()
        kept = is_frequent(found.data, rule.min_count)
        return np.stack([found.col[kept], found.row[kept]]).astype(np.int64)
    pairs = [np.empty((2, 0), dtype=np.int64)]
    for order, some in rule.by_order(counts.shape[1]):
        features = np.arange(counts.shape[1]) if some is None else some
        rows = rows_of_order(compiled, parts, order)
        pairs.append(np.stack([np.repeat(features, len(rows)), np.tile(rows, len(features))]))
    return np.concatenate(pairs, axis=1)


def rows_of_order(compiled: CompiledPatterns, parts: LabelParts, order: int) -> np.ndarray:
    """Return the patterns of an order; at order 0 also the parts of labels, beyond all patterns."""
    lengths = compiled.patterns.lengths
    rows = np.arange(*np.searchsorted(lengths, [order + 1, order + 2]))
    return np.append(rows, len(lengths) + np.arange(parts.n_parts)) if order == 0 else rows


def row_indicator(at_units: Endings, weight: np.ndarray, n_rows: int) -> sparse.csr_array:
    """Return the matrix of shape (n_rows, M) of the weights with which rows count at M units."""
    unit, row = at_units.pairs()
    counted = weight[unit] > 0
    unit, row = unit[counted], row[counted]
    return sparse.csr_array((weight[unit], (row, unit)), shape=(n_rows, len(weight)))


def values_at(matrix: sparse.csr_array, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return entries of a sparse matrix, 0 where none is stored."""
    if not len(rows):
        return np.empty(0)
    matrix.sum_duplicates()  # for each entry, scipy searches unsorted rows from end to end
    return np.asarray(matrix[rows, columns], dtype=np.float64).ravel()


def first_seen(batch: SequenceBatch) -> np.ndarray:
    """Return the order in which token attributes first occur as training processes the sequences."""
    never = len(batch.indices)
    first, n_before = np.full(batch.n_attributes, never), 0
    for window in reading_order(batch.lengths):
        tokens = joined_ranges(batch.offsets[window], batch.offsets[window + 1])
        attributes = batch.indices[joined_ranges(batch.indptr[tokens], batch.indptr[tokens + 1])]
        new = np.flatnonzero(first[attributes] == never)[::-1]
        first[attributes[new]] = n_before + new
        n_before += len(attributes)
    return first


def _are_dense(pair_attribute: np.ndarray, pair_column: np.ndarray, n_attributes: int, n_labels: int) -> np.ndarray:
    """Return which attributes have pairs with a large part of the labels, and with nothing else."""
    counts = np.bincount(pair_attribute, minlength=n_attributes)
    dense = (counts >= 4) & (5 * counts >= n_labels)
    dense[pair_attribute[pair_column >= n_labels]] = False
    return dense


def build_pair_table(
    sort_key: np.ndarray, pair_attribute: np.ndarray, pair_column: np.ndarray, n_columns: int, n_labels: int
) -> tuple[PairTable, np.ndarray, np.ndarray, np.ndarray]:
    """Return the table of pairs, the order of the pairs in it, and the attributes by rank and ranks of the attributes.

    Dense attributes have the first ranks; attributes without pairs have the rank -1.
    """
    dense = _are_dense(pair_attribute, pair_column, len(sort_key), n_labels)
    order = np.lexsort((sort_key, ~dense))
    has_pairs = np.bincount(pair_attribute, minlength=len(dense)) > 0
    ranked = order[has_pairs[order]]
    rank = np.full(len(dense), -1, np.int32)
    rank[ranked] = np.arange(len(ranked))
    order = np.lexsort((pair_column, rank[pair_attribute]))
    starts = group_offsets(rank[pair_attribute], len(ranked))
    columns = pair_column[order]
    arrays = columns, _begin_runs(starts, columns), ranked, rank
    columns, begins, ranked, rank = freeze_all(arrays, np.int32, np.bool_, np.int32, np.int32)
    return PairTable(starts, columns, begins, int(dense.sum()), n_columns, n_labels), order, ranked, rank


def _begin_runs(starts: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return, at the first column of each group, whether the columns of the group are consecutive indices."""
    breaks = np.diff(columns, prepend=columns[:1]) != 1
    breaks[starts[:-1]] = False  # the column before the first belongs to another group
    n_before = offsets_of(breaks)
    begins = np.zeros(len(columns), dtype=bool)
    begins[starts[:-1]] = n_before[starts[1:]] == n_before[starts[:-1]]
    return begins

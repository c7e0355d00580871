"""The (feature, pattern) pairs that have weights, parts of labels, dense columns, and sets of labels.

Parts of labels: the weights of a part apply to every label that contains the part.

Each part has a row of weights, like a label pattern. The scores of its columns are computed like those of a label and
then added to the scores of the labels that contain the part. The marginal of a part is the sum of the marginals of
these labels. The passes of inference therefore do not process parts.

Dense columns of a batch: one matrix product replaces the products of sparse rows.

The weights of dense features form a table with one row per feature and one column per score column. The scores of
tokens are the product of their feature values and this table; the product of the transposed values and the marginals
gives expected counts. The counts and scores of a labelling are the same products, restricted to *occurrences*, each of
which specifies a score column and a token at which it counts.

Sets of labels in training data: a set counts as each of its labels.

A pattern counts once wherever its labels are possible, that is, where each label is in the set of its position and no
two neighbouring labels form a forbidden pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse

from ..._data.arrays import (
    freeze,
    freeze_all,
    freeze_all_indices,
    group_offsets,
    joined_ranges,
    offsets_of,
    reading_order,
)
from ..._data.batch import SequenceBatch
from ..._data.columns import DenseColumns
from ..._data.segments import LabelSets
from ..kernels import token_scores
from ..kernels._vectors import STEP
from .patterns import SEGMENTS, PatternCounts, Runs, is_frequent
from .weighted_arcs import CompiledPatterns, suffix_patterns


class FeatureMap(NamedTuple):
    """Attribute and channel of each feature.   F features."""

    attribute: np.ndarray  # (F,) int32
    channel: np.ndarray  # (F,) int32
    sort_key: np.ndarray  # (n_attributes,)   attributes with lower keys get lower ranks

    @classmethod
    def of_tokens(cls, sort_key: np.ndarray) -> FeatureMap:
        """Return the map for features that are token attributes."""
        n_features = len(sort_key)
        return cls(np.arange(n_features, dtype=np.int32), np.zeros(n_features, dtype=np.int32), sort_key)

    def checked(self, n_channels: int) -> FeatureMap:
        """Return the map with read-only arrays, or raise a ValueError if an index is out of range."""
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
    first occurrence in training, so that kernels read the pairs of rare attributes (the majority) in memory order.
    """

    starts: np.ndarray  # (F + 1,) int64   range of each attribute's pairs
    columns: np.ndarray  # (K,) int32   ascending within an attribute; equal if two features count it in the same way
    begins_run: np.ndarray  # (K,) bool   True at the first pair of each attribute whose columns are c, c + 1, c + 2 ...
    n_dense: int  # number of attributes whose weights are in the dense table, one row each
    n_columns: int
    n_labels: int


class PairRule(NamedTuple):
    """The rule that determines which pairs get a weight."""

    feature_orders: tuple | list = (0,)  # orders of patterns that features pair with: one tuple for all, or one each
    min_count: float = 1  # pairs with a lower weighted count get no weight; see ``is_frequent``
    all_pairs: bool = False  # whether all pairs get a weight, even those that do not occur

    def by_order(self) -> list[tuple[int, np.ndarray | None]]:
        """Return each order with the features that pair with patterns of this order; None means all features."""
        if isinstance(self.feature_orders, tuple):
            return [(order, None) for order in sorted(set(self.feature_orders))]
        orders = sorted({order for of_feature in self.feature_orders for order in of_feature})
        return [(k, np.flatnonzero([k in of_feature for of_feature in self.feature_orders])) for k in orders]


class DenseFeatures(NamedTuple):
    """Features of dense columns, and the tokens at which they count.   n features, E occurrences."""

    features: np.ndarray  # (n,) int   ids of the features
    values: np.ndarray  # (N, d)   of all dense columns
    columns: np.ndarray  # (n,) int   the column of each feature
    owner: np.ndarray  # (E,) int   token, or segment
    token: np.ndarray  # (E,) int   a token whose values count for the owner

    def counts(
        self, at_units: Endings, weight: np.ndarray, some: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the counts, rows and features of the pairs that occur.

        ``at_units`` contains the rows that count at the M owners, and ``weight``, of shape (M,), the owners' weights.
        ``some`` contains the features to count; None means all.
        """
        counted = weight[self.owner] > 0
        owner, token = self.owner[counted], self.token[counted]
        unit, row = at_units.take(owner)
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
    cuts: list[tuple[int, int]]  # first and last + 1 of the units whose tables are computed together
    endings: Callable[[int, int, int], Endings]  # rows of an order that count at units first .. last - 1
    weight: np.ndarray  # (M,) float64   the weight of each unit


def count_pairs(
    rule: PairRule, compiled: CompiledPatterns, parts: LabelParts, units: Units, dense: Sequence[DenseFeatures] = ()
) -> sparse.csr_array:
    """Return how often each feature occurs with each row (a pattern or a part); shape (n_rows, n_features).

    For each feature, only rows of the orders that the rule specifies are counted. If the rule gives a weight to all
    pairs, no counts are needed, and all are 0.

    Parameters
    ----------
    rule : PairRule
    compiled : CompiledPatterns
    parts : LabelParts
        Parts of labels, which are treated like single labels.
    units : Units
    dense : sequence of DenseFeatures
        Features that are not in the tables of the units, where their columns are 0.
    """
    shape = len(compiled.patterns.lengths) + parts.n_parts, units.n_features
    counts = sparse.csr_array(shape)
    if rule.all_pairs:
        return counts
    by_order = rule.by_order()
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
    """Return a copy of the table in which all columns other than ``some`` are empty."""
    kept = np.zeros(table.shape[1])
    kept[some] = 1.0
    alone = table @ sparse.dia_array((kept[None], [0]), shape=(table.shape[1],) * 2)
    alone.eliminate_zeros()
    return sparse.csr_array(alone)


def choose_pairs(rule: PairRule, compiled: CompiledPatterns, parts: LabelParts, counts: sparse.csr_array) -> np.ndarray:
    """Return the features and rows (patterns or parts) of the pairs that get a weight; shape (2, n_pairs).

    ``counts`` is the result of :func:`count_pairs`.
    """
    if not rule.all_pairs:
        entries = counts.tocoo()
        kept = is_frequent(entries.data, rule.min_count)
        return np.stack([entries.col[kept], entries.row[kept]]).astype(np.int64)
    pairs = [np.empty((2, 0), dtype=np.int64)]
    for order, some in rule.by_order():
        features = np.arange(counts.shape[1]) if some is None else some
        rows = rows_of_order(compiled, parts, order)
        pairs.append(np.stack([np.repeat(features, len(rows)), np.tile(rows, len(features))]))
    return np.concatenate(pairs, axis=1)


def rows_of_order(compiled: CompiledPatterns, parts: LabelParts, order: int) -> np.ndarray:
    """Return the patterns of an order and, for order 0, the parts of labels, which are numbered after all patterns."""
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
    """Return the entries of a sparse matrix at the given rows and columns, 0 where none is stored."""
    if not len(rows):
        return np.empty(0)
    matrix.sum_duplicates()  # in unsorted rows, scipy searches the whole row for each entry
    return np.asarray(matrix[rows, columns], dtype=np.float64).ravel()


def first_seen(batch: SequenceBatch) -> np.ndarray:
    """Return the position of each token attribute's first entry, in the order in which training reads the batch."""
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
    """Return whether each attribute has pairs with a large share of the labels, and with no other columns."""
    counts = np.bincount(pair_attribute, minlength=n_attributes)
    dense = (counts >= 4) & (5 * counts >= n_labels)
    dense[pair_attribute[pair_column >= n_labels]] = False
    return dense


def build_pair_table(
    sort_key: np.ndarray, pair_attribute: np.ndarray, pair_column: np.ndarray, n_columns: int, n_labels: int
) -> tuple[PairTable, np.ndarray, np.ndarray, np.ndarray]:
    """Return the table of pairs, the order of the pairs in it, the attributes by rank, and the rank of each attribute.

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
    """Return a bool array that is True at the first column of each group whose columns are consecutive indices."""
    breaks = np.diff(columns, prepend=columns[:1]) != 1
    breaks[starts[:-1]] = False  # the previous column belongs to another group
    n_before = offsets_of(breaks)
    begins = np.zeros(len(columns), dtype=bool)
    begins[starts[:-1]] = n_before[starts[1:]] == n_before[starts[:-1]]
    return begins


class LabelParts(NamedTuple):
    """The parts that each label contains.   L labels, S parts."""

    starts: np.ndarray  # (L + 1,) int64   range of each label's parts
    parts: np.ndarray  # int32   ascending within a label
    n_parts: int

    @classmethod
    def none(cls, n_labels: int) -> Self:
        """Return the table of labels without parts."""
        starts, parts = freeze_all((np.zeros(n_labels + 1), np.empty(0)), np.int64, np.int32)
        return cls(starts, parts, 0)

    def checked(self, n_labels: int) -> LabelParts:
        """Return a copy with read-only arrays, or raise a ValueError if an index is out of range."""
        parts, starts = freeze_all_indices(
            (self.parts, self.n_parts, "parts of labels"),
            (self.starts, len(self.parts) + 1, "ranges of the parts of labels", np.int64),
        )
        if len(starts) != n_labels + 1 or (starts[0], starts[-1]) != (0, len(parts)) or (np.diff(starts) < 0).any():
            raise ValueError(f"{len(starts) - 1} ranges of parts do not match {n_labels} labels")
        return LabelParts(starts, parts, int(self.n_parts))

    def equal(self, other: LabelParts) -> bool:
        """Return whether the labels of both objects contain the same parts."""
        return self.n_parts == other.n_parts and all(map(np.array_equal, self[:2], other[:2]))

    def matrix(self) -> sparse.csr_array:
        """Return the 0/1 matrix of shape (L, S) of labels and their parts."""
        shape = len(self.starts) - 1, self.n_parts
        return sparse.csr_array((np.ones(len(self.parts)), self.parts, self.starts), shape=shape)


class PartLinks(NamedTuple):
    """The parts of each label, as ids in a table, for kernels.   L labels, M parts in the table."""

    starts: np.ndarray  # (L + 1,) int64
    ids: np.ndarray  # int32   ids of the parts of each label
    members: np.ndarray  # (M,) int32   ids of all parts


def link_parts(parts: LabelParts, ids: np.ndarray) -> PartLinks:
    """Return the links of labels to parts; ``ids`` contains the id of each part in a table, or -1 if it has none."""
    ids = np.asarray(ids)
    of_label = ids[parts.parts]
    starts = offsets_of(of_label >= 0)[parts.starts]
    of_label, members = of_label[of_label >= 0], ids[ids >= 0]
    return PartLinks(*freeze_all((starts, of_label, members), np.int64, np.int32, np.int32))


class Endings(NamedTuple):
    """The rows of weights that count at units, which are tokens or segments.   M units."""

    starts: np.ndarray  # (M + 1,) int64   range of each unit's rows
    rows: np.ndarray  # patterns, and parts, which are numbered after them

    def take(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of the given units: the index of each row's unit in ``units``, and the rows."""
        first, stop = self.starts[units], self.starts[np.asarray(units) + 1]
        return np.repeat(np.arange(len(first)), stop - first), self.rows[joined_ranges(first, stop)]

    def part(self, first: int, last: int) -> Endings:
        """Return the rows of the units first .. last - 1."""
        starts = self.starts[first : last + 1]
        return Endings(starts - starts[0], self.rows[starts[0] : starts[-1]])

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of a unit and a row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)), self.rows


def endings(compiled: CompiledPatterns, parts: LabelParts, arcs: np.ndarray, order: int) -> Endings:
    """Return the rows of an order that count at units, from the arcs that the units use.

    The rows of a unit are the pattern of this order that ends with the unit, if any, and, for order 0, the parts of its
    label.
    """
    pattern = suffix_patterns(compiled.automaton, arcs, order)
    unit = np.flatnonzero(pattern >= 0)
    return with_parts(compiled, parts, order, unit, pattern[unit], len(arcs))


def with_parts(
    compiled: CompiledPatterns, parts: LabelParts, order: int, unit: np.ndarray, row: np.ndarray, n_units: int
) -> Endings:
    """Return the rows of units: the pattern ``row`` at each ``unit`` and, for order 0, the parts of the labels."""
    if order == 0 and parts.n_parts:
        label, part = Endings(parts.starts, parts.parts).take(row)
        unit = np.concatenate([unit, unit[label]])
        row = np.concatenate([row, len(compiled.patterns.lengths) + part])
        row = row[np.argsort(unit, kind="stable")]
    return Endings(offsets_of(np.bincount(unit, minlength=n_units)), row)


_NUMBERS_AT_A_TIME = 1 << 18  # numbers of a table that are processed at a time: 2 MiB


class Occurrences(NamedTuple):
    """The tokens at which score columns count.   E occurrences."""

    owner: np.ndarray  # (E,) int   the token or segment whose score includes the column
    token: np.ndarray  # (E,) int   the token whose values count
    column: np.ndarray  # (E,) int   index of the score column among those with dense features


class DenseProduct(NamedTuple):
    """Dense features and the positions of their weights.   N tokens, d features, D score columns, P pairs."""

    values: np.ndarray  # (N, d) float32 or float64
    columns: np.ndarray  # (D,) int32   the score columns that have pairs of dense features
    pairs: np.ndarray  # (P,) int64   ids of these pairs
    cells: np.ndarray  # (P,) int64   flat index of each pair in the table of shape (S, d, STEP)

    @property
    def table_shape(self) -> tuple[int, int, int]:
        """Shape of the table of weights, with score columns in groups of STEP, as kernels require."""
        return -(-len(self.columns) // STEP), self.values.shape[1], STEP

    def table(self, pair_weights: np.ndarray) -> np.ndarray:
        """Return the table of weights; pairs share a cell if their features count an attribute in the same way."""
        shape = self.table_shape
        weights = np.bincount(self.cells, weights=pair_weights[self.pairs], minlength=int(np.prod(shape)))
        return freeze(weights.reshape(shape), np.float64)

    def add_counts(self, table: np.ndarray, gradient: np.ndarray) -> None:
        """Add a table of counts to ``gradient``, an array over all pairs, in place."""
        gradient[self.pairs] += table.reshape(-1)[self.cells]

    def label_counts(self, occurrences: Occurrences, weight: np.ndarray, gradient: np.ndarray) -> None:
        """Add the counts of occurrences, each times its owner's weight, to ``gradient``, an array over all pairs."""
        self.add_counts(sum_values(self.values, occurrences, weight, len(self.columns)), gradient)

    def label_scores(self, occurrences: Occurrences, pair_weights: np.ndarray, n_owners: int) -> np.ndarray:
        """Return the scores of owners, which are sums over their occurrences; shape (n_owners,)."""
        scores, table = np.zeros(n_owners), self.table(pair_weights)
        every_column = freeze(np.arange(len(self.columns)), np.int32)
        for tokens, part in _chunks(occurrences, len(self.values), len(self.columns)):
            products = np.zeros((len(tokens) * len(self.columns), 1))
            token_scores.add_scores(self.values, table, every_column, *_in_one_lane(tokens), products)
            np.add.at(scores, part.owner, products[_column_slot(part, tokens, len(self.columns)), 0])
        return scores


def dense_product(dense: DenseColumns, attribute: np.ndarray, column: np.ndarray) -> DenseProduct | None:
    """Return dense columns and the positions of their weights, or None if no dense column has a weight.

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
    """Return, for each score column, the sum of the values at its occurrences, each times its owner's weight.

    Parameters
    ----------
    values : ndarray of shape (N, d)
    occurrences : Occurrences
    weight : ndarray of shape (n_owners,)
    n_columns : int
    as_counts : bool
        Whether to count every nonzero value as 1.

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
        token_scores.add_counts(factors, columns, rows, first, length, marginals.reshape(size, 1), ones, table)
    return table


def _chunks(occurrences: Occurrences, n_tokens: int, width: int) -> Iterator[tuple[range, Occurrences]]:
    """Yield ranges of tokens, and the occurrences in each range; ``width`` is the number of table entries per token."""
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
    """Return consecutive tokens as the positions of a tile with one lane: rows, first tokens and lengths."""
    return tuple(freeze(ids, np.int64) for ids in ([0, len(tokens)], [[tokens.start]], [[len(tokens)]]))


class SetSequences(NamedTuple):
    """Sequences of tokens with sets of labels, and the constraints on neighbouring labels."""

    sets: LabelSets
    offsets: np.ndarray  # (n_sequences + 1,)   of the tokens
    n_labels: int
    history: str  # of the patterns
    forbidden: Runs  # of label codes

    def patterns(self, max_order: int) -> Iterator[tuple[int, set[tuple[int, ...]]]]:
        """Yield each token, with the patterns of two to ``max_order + 1`` labels that may end with it."""
        stays, begins = self._steps()
        labels, ranges = self.sets.codes.tolist(), self.sets.starts.tolist()
        for first, last in pairwise(self.offsets.tolist()):
            before: dict[int, set] = {}  # for each label: patterns that may continue
            for token in range(first, last):
                here, ended = dict[int, set](), set[tuple[int, ...]]()
                for label in labels[ranges[token] : ranges[token + 1]]:
                    going_on = here[label] = {(label,)}
                    for left, patterns in before.items() if max_order else ():
                        if stays[left, label]:
                            ended.add((left, label))
                            going_on |= patterns
                        elif begins[left, label]:
                            longer = {(*pattern, label) for pattern in patterns}
                            ended |= longer
                            going_on |= {pattern for pattern in longer if len(pattern) <= max_order}
                yield token, ended
                before = here

    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return whether label y may continue a segment of label x, or begin one after it: two tables, by [x, y]."""
        stays = np.eye(self.n_labels, dtype=bool) & (self.history == SEGMENTS)
        begins = ~stays
        for run in self.forbidden:
            if len(run) == 2:
                stays[run] = begins[run] = False
        return stays, begins

    def count_patterns(
        self, max_order: int, min_count: float, sequence_weight: np.ndarray | None, history: str
    ) -> PatternCounts:
        """Count patterns; the function ``count_patterns`` in ``patterns.py`` does so for one label per token.

        All patterns are counted, whatever ``min_count`` is, because with history="segments" a longer pattern may end at
        more tokens than a shorter one.
        """
        sizes = np.diff(self.offsets)
        weight = np.repeat(np.ones(len(sizes)) if sequence_weight is None else sequence_weight, sizes).tolist()
        counts: dict[tuple[int, ...], float] = defaultdict(float)
        for token, patterns in self.patterns(max_order):
            for pattern in patterns:
                counts[pattern] += weight[token]
        tables = [sorted(pattern for pattern in counts if len(pattern) == n) for n in range(2, max_order + 2)]
        rows = [np.array(table, np.int32).reshape(-1, n) for n, table in enumerate(tables, 2)]
        return PatternCounts.of_tables(rows, [np.array([counts[z] for z in table]) for table in tables], history)

    def endings(self, compiled: CompiledPatterns, parts: LabelParts, order: int) -> Endings:
        """Return the rows of an order that count at each token; the function ``endings`` is for one label per token."""
        n_tokens = len(self.sets.sizes)
        token, row = np.repeat(np.arange(n_tokens), self.sets.sizes), self.sets.codes
        if order > 0:
            row_of = {z: row for row, z in enumerate(compiled.patterns.tuples()) if len(z) == order + 1}
            pairs = [(token, row_of[z]) for token, ended in self.patterns(order) for z in ended if z in row_of]
            token, row = np.array(pairs, np.int64).reshape(-1, 2).T
        return with_parts(compiled, parts, order, token, row, n_tokens)

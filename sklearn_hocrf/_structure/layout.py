"""From weights to scores: where each weight sits, and which tables the kernels need.

A weight belongs to a label pattern alone (its bias) or to a pair of an observation feature and a pattern. A feature
counts a token *attribute* at the positions of a *channel*; in a chain there is one channel, the token itself, and
attribute and feature are the same. Combinations of channel and pattern that have pairs are *score columns*: for each
token a row of scores, column by column, is one sparse product. The first L columns are the single labels in channel 0,
the emission scores; the others move the arcs whose labels end in the column's pattern.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._data.arrays import freeze, freeze_indices, offsets_of
from .._data.batch import SequenceBatch, TokenFeatures
from .._kernels import chain, token_scores
from .automaton import PatternAutomaton, build_automaton
from .patterns import PatternTable, is_frequent
from .sum_network import SumNetwork, build_sum_network

__all__ = [
    "FeatureMap",
    "WeightedArcs",
    "WeightLayout",
    "build_weighted_arcs",
    "build_layout",
    "choose_pairs",
    "first_seen",
    "label_arcs",
    "suffix_patterns",
    "values_at",
]


class FeatureMap(NamedTuple):
    """What features are made of.   F features."""

    attribute: np.ndarray  # (F,) int32
    channel: np.ndarray  # (F,) int32
    sort_key: np.ndarray  # (n_attributes,)   attributes with lower keys get lower ranks

    @classmethod
    def of_tokens(cls, sort_key) -> FeatureMap:
        """Return the map of features that are token attributes."""
        n_features = len(sort_key)
        return cls(np.arange(n_features, dtype=np.int32), np.zeros(n_features, dtype=np.int32), sort_key)

    def checked(self, n_channels) -> FeatureMap:
        """Return the map with read-only arrays, or raise a ValueError if it points outside."""
        attribute = freeze_indices(self.attribute, len(self.sort_key), "attributes of features")
        channel = freeze_indices(self.channel, n_channels, "channels of features")
        sort_key = np.asarray(self.sort_key)
        if len(attribute) != len(channel) or sort_key.ndim != 1 or sort_key.dtype.kind not in "iuf":
            raise ValueError(f"{len(attribute)} features, with {len(channel)} channels, and keys {sort_key.dtype}")
        return FeatureMap(attribute, channel, sort_key)


class PairTable(NamedTuple):
    """The (attribute, column) pairs that have a weight, by attribute.   F ranked attributes, K pairs, C columns.

    Attributes are numbered by rank: first those of the dense table, then the others in the order in which training
    meets them, so that rare ones, which are most of them, are read in the order in which they lie in memory.
    """

    starts: np.ndarray  # (F + 1,) int64   range of each attribute's pairs
    columns: np.ndarray  # (K,) int32   ascending within an attribute; features that count it alike have the same ones
    begins_run: np.ndarray  # (K,) bool   at each attribute's first pair: whether its columns are c, c + 1, c + 2 ...
    n_dense: int  # attributes whose weights are kept in the dense table, one row each
    n_columns: int
    n_labels: int


class ArcColumns(NamedTuple):
    """The score columns of the patterns that are suffixes of each arc.   A arcs."""

    starts: np.ndarray  # (A + 1,) int64
    columns: np.ndarray  # int32


class WeightedArcs(NamedTuple):
    """All that the kernels need of one model.   L labels, P states, A arcs, Q varying_marginals: arcs whose score varies."""

    n_labels: int
    fail: np.ndarray  # (P,) int32
    state_label: np.ndarray  # (P,) int32
    into: np.ndarray  # (P + 1,) int64   range of the arcs into each state
    outgoing: np.ndarray  # (P + 1,) int64   range of each state's own arcs in source_arcs
    source_arcs: np.ndarray  # (A,) int32
    arc_label: np.ndarray  # (A,) int32
    arc_target: np.ndarray  # (A,) int32
    arc_value: np.ndarray  # the five tables of SumNetwork
    starts: np.ndarray
    terms: np.ndarray
    back_starts: np.ndarray
    back_terms: np.ndarray
    arc_varying: np.ndarray  # (A,) int32   -1 for arcs of constant score
    varying_arc: np.ndarray  # (Q,) int32   shortest arcs first
    varying_suffix: np.ndarray  # (Q,) int32   varying_number of the arc's longest proper suffix, or -1
    varying_column: np.ndarray  # (Q,) int32   score column of the arc's own pattern, or -1
    arc_score: np.ndarray  # (A,) float64   constant part: biases of all suffix patterns; -inf if forbidden
    arc_weight: np.ndarray  # (A,) float64   exp(arc_score - log_shift)
    log_shift: float  # highest arc score
    arc_slope: np.ndarray  # (A,) float64   derivative of arc_score, for kernels on dual numbers
    weight_slope: np.ndarray  # (A,) float64   derivative of arc_weight


class WeightLayout:
    """Which patterns and (feature, pattern) pairs have a weight, and where.

    The weight vector is ``[pairs by feature rank | biases by pattern]``.

    All that kernels index with is made here, from parameters that are checked. A copy, or what comes from a file, is
    made in the same way (``__reduce__``), so it can point nowhere else.

    Parameters
    ----------
    patterns : PatternTable
        Z label patterns.
    features : FeatureMap
        Attribute and channel of each feature.
    pair_feature, pair_pattern : ndarray of int
        The pairs.
    bias_pattern : ndarray of int
        Patterns that have a weight of their own, ascending.
    extra_columns : sequence of int
        Score columns that have no pairs: ``channel * Z + pattern``.
    like : WeightLayout or None
        A layout of the same patterns, whose automaton and sum network are taken rather than compiled again.

    Raises
    ------
    ValueError
        If the parameters do not fit together.

    Attributes
    ----------
    automaton : PatternAutomaton
    network : SumNetwork
    pairs : PairTable
    dense_cells : tuple of ndarray
        Row and column, in the dense table, of the first weights: those that it holds.
    column_pattern, column_channel : ndarray of shape (C,), int32
        Pattern and channel of each score column; the first L are the single labels in channel 0.
    n_features, n_weights : int
    order_of_weight : ndarray of shape (n_weights,), int32
        Order of the pattern each weight belongs to.
    """

    n_channels = 1
    varying_channel = (
        0  # columns of patterns of two or more labels in this channel move arc scores position by position
    )

    def __init__(self, patterns, features, pair_feature, pair_pattern, bias_pattern, extra_columns=(), *, like=None):
        if like is None or patterns is not like.patterns:
            patterns = PatternTable(*patterns).checked()
        self.patterns: PatternTable = patterns
        self.features: FeatureMap = FeatureMap(*features).checked(self.n_channels)
        n_labels, n_patterns, n_attributes = patterns.n_labels, len(patterns.lengths), len(self.features.sort_key)
        self.n_features = len(self.features.attribute)
        pair_feature = freeze_indices(pair_feature, self.n_features, "features of pairs")
        pair_pattern = freeze_indices(pair_pattern, n_patterns, "patterns of pairs")
        self.bias_pattern = freeze_indices(bias_pattern, n_patterns, "patterns that have a weight of their own")
        self.extra_columns = freeze_indices(extra_columns, self.n_channels * n_patterns, "score columns", np.int64)
        if len(pair_feature) != len(pair_pattern) or (np.diff(self.bias_pattern) <= 0).any():
            raise ValueError("pairs need a feature and a pattern each, and patterns with a weight must ascend")

        self.automaton: PatternAutomaton = self._compile_patterns() if like is None else like.automaton
        self.network: SumNetwork = build_sum_network(self.automaton) if like is None else like.network
        self.forbidden_arcs = self._find_forbidden_arcs()
        automaton, features = self.automaton, self.features
        pair_key = features.channel[pair_feature].astype(np.int64) * n_patterns + pair_pattern
        column_key = np.unique(np.concatenate([np.arange(n_labels), pair_key, self.extra_columns]))
        self.column_pattern = freeze(column_key % n_patterns, np.int32)
        self.column_channel = freeze(column_key // n_patterns, np.int32)
        pair_column = np.searchsorted(column_key, pair_key)
        pair_attribute = features.attribute[pair_feature]

        dense = _are_dense(pair_attribute, pair_column, n_attributes, n_labels)
        ranked = np.lexsort((features.sort_key, ~dense))
        used = np.bincount(pair_attribute, minlength=n_attributes) > 0
        ranked = ranked[used[ranked]]
        rank = np.full(n_attributes, -1)
        rank[ranked] = np.arange(len(ranked))
        self.attribute_of_rank, self._rank = freeze(ranked, np.int64), freeze(rank, np.int32)
        order = np.lexsort((pair_column, rank[pair_attribute]))
        pair_rank, pair_column = rank[pair_attribute[order]], pair_column[order]
        starts = _starts(pair_rank, len(ranked))
        self.pairs = PairTable(
            starts,
            freeze(pair_column, np.int32),
            freeze(_begin_runs(starts, pair_column), np.bool_),
            int(dense.sum()),
            len(self.column_pattern),
            n_labels,
        )
        self.pair_feature = freeze(pair_feature[order], np.int32)
        self.pair_pattern = freeze(self.column_pattern[pair_column], np.int32)
        in_table = slice(0, int(self.pairs.starts[self.pairs.n_dense]))
        self.dense_cells = freeze(pair_rank[in_table], np.int64), freeze(pair_column[in_table], np.int64)

        pair_order = patterns.lengths[self.pair_pattern] - 1
        bias_order = patterns.lengths[self.bias_pattern] - 1
        self.order_of_weight = freeze(np.concatenate([pair_order, bias_order]), np.int32)
        self.n_weights = len(self.order_of_weight)
        column_of_arc = np.full(automaton.n_arcs, -1)
        columns = np.flatnonzero(self.column_channel == self.varying_channel)
        column_of_arc[automaton.pattern_arc[self.column_pattern[columns]]] = columns
        self.varying_tables = _varying_arcs(automaton, column_of_arc)
        self.arc_columns = _arc_columns(automaton, column_of_arc)

    @property
    def n_pairs(self) -> int:
        return len(self.pairs.columns)

    @cached_property
    def longer_arcs(self) -> list:
        """The arcs of 2, 3, ... labels."""
        order = np.argsort(self.automaton.arc_length, kind="stable")
        lengths = self.automaton.arc_length[order]
        return np.split(order, np.searchsorted(lengths, np.arange(2, lengths[-1] + 1)))[1:]

    @cached_property
    def arc_tables(self) -> tuple:
        """The ranges of the arcs into and out of each state, and the arcs by source."""
        automaton = self.automaton
        return (
            _starts(automaton.arc_target, automaton.n_states),
            _starts(automaton.arc_source, automaton.n_states),
            freeze(np.argsort(automaton.arc_source, kind="stable"), np.int32),
        )

    def _compile_patterns(self) -> PatternAutomaton:
        return build_automaton(self.patterns, self.patterns.n_labels)

    def _find_forbidden_arcs(self) -> np.ndarray:
        """Return the arcs of score -inf."""
        return freeze([], np.int32)

    def __reduce__(self):
        features = self.features._replace(sort_key=self._rank)
        pairs = self.pair_feature, self.pair_pattern
        return WeightLayout, (self.patterns, features, *pairs, self.bias_pattern, self.extra_columns)

    def __setstate__(self, state):
        raise ValueError(f"a {type(self).__name__} has no state but the arguments of its constructor")

    def dense_table(self, weights=None) -> np.ndarray:
        """Return the weights of the dense features' pairs as a table of shape (H, D), or one of zeros."""
        width = -(-self.pairs.n_labels // token_scores.STEP) * token_scores.STEP
        table = np.zeros((self.pairs.n_dense, width))
        if weights is not None:
            # added, not assigned: two features may count one attribute in the same way
            np.add.at(table, self.dense_cells, weights[: len(self.dense_cells[0])])
        return table

    def add_dense(self, table, gradient):
        """Add a table of the dense features' pairs to a gradient of all pairs, in place."""
        gradient[: len(self.dense_cells[0])] += table[self.dense_cells]

    def pattern_coef(self, weights) -> np.ndarray:
        """Return the patterns' own weights, 0 for those that have none; shape (Z,)."""
        coef = np.zeros(len(self.patterns.lengths))
        coef[self.bias_pattern] = weights[self.n_pairs :]
        return coef

    def coef(self, weights) -> sparse.csr_array:
        """Return the weights of the pairs as a sparse matrix of shape (Z, n_features)."""
        shape = (len(self.patterns.lengths), self.n_features)
        place = self.pair_pattern, self.pair_feature
        return sparse.coo_array((weights[: self.n_pairs], place), shape=shape).tocsr()

    def weights(self, pattern_coef, coef) -> np.ndarray:
        """Return the weight vector of given coefficients; pairs and patterns that have no weight here are left out."""
        pairs = values_at(sparse.csr_array(coef), self.pair_pattern, self.pair_feature)
        return np.concatenate([pairs, np.asarray(pattern_coef)[self.bias_pattern]])

    def rows(self, batch, dense=True) -> TokenFeatures:
        """Return the rows of a batch for kernels; features without any pair are left out.

        Without ``dense`` there are no rows of the dense table: all weights are found among the pairs.
        """
        indptr, ranks = freeze(batch.indptr, np.int64), freeze(self._rank[batch.indices], np.int32)
        values = freeze(np.empty(0) if batch.values is None else batch.values, np.float64)
        n_dense = self.pairs.n_dense if dense else 0
        counts = np.empty((batch.n_tokens, 3), dtype=np.int64)
        token_scores.count_kinds(indptr, ranks, self.pairs.starts, n_dense, counts)
        cuts = offsets_of(counts)
        n_entries = int(cuts[-1])
        found = TokenFeatures(
            *(freeze(cuts[kind::3], np.int64) for kind in range(3)),
            np.empty(n_entries, dtype=np.uint32),
            np.empty(n_entries, dtype=np.uint32),
            np.empty(n_entries if len(values) else 0),
        )
        token_scores.sort_kinds(indptr, ranks, values, self.pairs.starts, self.pairs.columns, n_dense, found)
        place, other = (freeze(numbers, np.uint32) for numbers in (found.place, found.other))
        return found._replace(place=place, other=other, values=freeze(found.values, np.float64))

    def extended(self, patterns, columns) -> WeightLayout:
        """Return a layout for more patterns, with score columns, but no weights, for the label tuples ``columns``.

        Patterns keep their relative order, so the weights keep their places.
        """
        row = {pattern: number for number, pattern in enumerate(patterns.tuples())}
        moved = np.array([row[pattern] for pattern in self.patterns.tuples()])
        return WeightLayout(
            patterns,
            self.features._replace(sort_key=self._rank),
            self.pair_feature,
            moved[self.pair_pattern],
            moved[self.bias_pattern],
            [row[pattern] for pattern in columns],
        )

    def pruned(self, weights) -> tuple[WeightLayout, np.ndarray]:
        """Return a layout without the weights that are 0, and the other weights, in its order.

        Patterns of two or more labels that have no weight left are dropped.
        """
        pairs, biases = np.flatnonzero(weights[: self.n_pairs]), np.flatnonzero(weights[self.n_pairs :])
        pair_pattern, bias_pattern = self.pair_pattern[pairs], self.bias_pattern[biases]
        kept = self.patterns.lengths == 1
        kept[pair_pattern] = True
        kept[bias_pattern] = True
        number = np.cumsum(kept) - 1
        layout = self._with_weights(
            self.patterns.subset(kept), self.pair_feature[pairs], number[pair_pattern], number[bias_pattern]
        )
        return layout, layout.weights(self.pattern_coef(weights)[kept], self.coef(weights)[kept])

    def joined(self, other) -> tuple[WeightLayout, np.ndarray | None]:
        """Return a layout that has the pairs of another one, too, and where the weights of this one are in it.

        The other one has the same patterns, and the same features or these and more. Without anything new this layout
        is returned, and None.
        """
        n_patterns = len(self.patterns.lengths)

        def keys(layout):
            return layout.pair_feature.astype(np.int64) * n_patterns + layout.pair_pattern

        old = keys(self)
        new = np.setdiff1d(keys(other), old)
        if not len(new) and other.n_features == self.n_features:
            return self, None
        sort_key = np.array(other.features.sort_key, dtype=np.int64) + len(self.pairs.starts)
        known = np.flatnonzero(self._rank >= 0)
        sort_key[known] = self._rank[known]
        every = np.concatenate([old, new])
        features = other.features._replace(sort_key=sort_key)
        layout = self.with_pairs(every // n_patterns, every % n_patterns, features)
        every = keys(layout)
        by_key = np.argsort(every, kind="stable")
        pairs = by_key[np.searchsorted(every, old, sorter=by_key)]
        return layout, np.concatenate([pairs, layout.n_pairs + np.arange(len(self.bias_pattern))])

    def with_pairs(self, pair_feature, pair_pattern, features=None) -> WeightLayout:
        """Return a layout of the same patterns with other pairs, and perhaps other features.

        Pairs of the same features keep their relative order.
        """
        return WeightLayout(
            self.patterns,
            self.features._replace(sort_key=self._rank) if features is None else features,
            pair_feature,
            pair_pattern,
            self.bias_pattern,
            like=self,
        )

    def _with_weights(self, patterns, pair_feature, pair_pattern, bias_pattern) -> WeightLayout:
        """Return a layout of the same features with other weights."""
        features = self.features._replace(sort_key=self._rank)
        return WeightLayout(patterns, features, pair_feature, pair_pattern, bias_pattern)

    def sum_over_suffixes(self, arc_counts) -> np.ndarray:
        """Return how often each bias's pattern occurs, given how often each arc is used."""
        counts = np.array(arc_counts, dtype=np.float64)
        automaton = self.automaton
        for arcs in reversed(self.longer_arcs):
            np.add.at(counts, automaton.arc_suffix[arcs], counts[arcs])
        return counts[automaton.pattern_arc[self.bias_pattern]]

    def empirical_counts(self, token_rows, offsets, codes, sequence_weight) -> np.ndarray:
        """Return how often each weight's feature occurs in labelled data, weighted; shape (n_weights,)."""
        arcs = label_arcs(build_weighted_arcs(self), offsets, codes)
        weight = np.repeat(sequence_weight, np.diff(offsets))
        counts = np.zeros(self.n_pairs)
        token_scores.label_counts(token_rows, self.pairs, weight, arcs, self.arc_columns, counts)
        used = np.bincount(arcs, weights=weight, minlength=self.automaton.n_arcs)
        return np.concatenate([counts, self.sum_over_suffixes(used)])


def build_layout(
    batch: SequenceBatch,
    codes,
    patterns: PatternTable,
    *,
    feature_orders=(0,),
    min_feature_count=1,
    fit_intercept=True,
    unsupported=False,
    sequence_weight=None,
    like=None,
) -> WeightLayout:
    """Decide which weights the model has.

    Parameters
    ----------
    batch : SequenceBatch
        Training data.
    codes : ndarray of shape (N,), int32
        Label codes of its tokens.
    patterns : PatternTable
        Label patterns; every pattern of order 1 or more has a weight of its own.
    feature_orders : tuple of int, or list of tuples of int
        Exact orders of the patterns with which features are conjoined: one tuple for all features, or one each.
    min_feature_count : float
        Pairs that occur less often (weighted) get no weight, unless ``unsupported``; see
        :func:`~sklearn_hocrf._structure.patterns.is_frequent`.
    fit_intercept : bool
        Whether the single labels have weights of their own.
    unsupported : bool
        Whether pairs that do not occur get a weight, too.
    sequence_weight : ndarray of shape (n_sequences,) or None
        How often each sequence counts; 0 leaves it out.
    like : WeightLayout or None
        A layout of the same patterns, whose automaton is taken.

    Returns
    -------
    WeightLayout
    """
    weight = np.ones(len(batch)) if sequence_weight is None else np.asarray(sequence_weight, dtype=np.float64)
    bias_pattern = np.flatnonzero((patterns.lengths > 1) | fit_intercept)
    no_pairs = np.empty((2, 0), dtype=np.int64)
    no_features = FeatureMap.of_tokens(np.zeros(0))
    bare = WeightLayout(patterns, no_features, *no_pairs, bias_pattern, like=like)
    arcs = label_arcs(build_weighted_arcs(bare), batch.offsets, codes)
    token_weight = np.repeat(weight, batch.lengths)
    matrix = batch.tocsr()
    matrix = sparse.csr_array((np.ones(len(matrix.data)), matrix.indices, matrix.indptr), shape=matrix.shape)
    pairs = choose_pairs(
        matrix,
        arcs,
        token_weight,
        bare,
        feature_orders=feature_orders,
        min_count=min_feature_count,
        all_pairs=unsupported,
    )
    features = FeatureMap.of_tokens(first_seen(batch))
    return WeightLayout(bare.patterns, features, *pairs, bias_pattern, like=bare)


def choose_pairs(matrix, arcs, weight, layout, *, feature_orders, min_count, all_pairs) -> np.ndarray:
    """Return features and patterns of the pairs that get a weight; shape (2, n_pairs).

    Parameters
    ----------
    matrix : csr_array of shape (M, n_features)
        How often each feature occurs with each training token, or segment.
    arcs : ndarray of shape (M,)
        Arc that each uses.
    weight : ndarray of shape (M,)
        How much each counts.
    layout : WeightLayout
        Patterns and automaton.
    feature_orders, min_count, all_pairs
        As in :func:`build_layout`.
    """
    found = [
        _pairs_of_order(order, features, matrix, arcs, weight, layout, min_count, all_pairs)
        for order, features in _features_by_order(feature_orders, matrix.shape[1])
    ]
    return np.concatenate([np.stack(pairs) for pairs in found], axis=1) if found else np.empty((2, 0), dtype=np.int64)


def values_at(matrix: sparse.csr_array, rows, columns) -> np.ndarray:
    """Return entries of a sparse matrix, 0 where there is none."""
    if not len(rows):
        return np.empty(0)
    matrix.sum_duplicates()  # scipy searches rows that are not sorted from end to end, for each entry
    return np.asarray(matrix[rows, columns], dtype=np.float64).ravel()


def suffix_patterns(automaton, arcs, order) -> np.ndarray:
    """Return the pattern of the given order that ends where each arc is used, or -1."""
    while (longer := automaton.arc_length[arcs] > order + 1).any():
        arcs = np.where(longer, automaton.arc_suffix[arcs], arcs)
    return np.where(automaton.arc_length[arcs] == order + 1, automaton.arc_pattern[arcs], -1)


def first_seen(batch) -> np.ndarray:
    """Return when training, which takes long sequences first, meets each token attribute."""
    by_length = batch[np.argsort(-batch.lengths, kind="stable")]
    first = np.full(batch.n_attributes, len(by_length.indices))
    first[by_length.indices[::-1]] = np.arange(len(by_length.indices))[::-1]
    return first


def _features_by_order(feature_orders, n_features):
    """Return pairs (order, features conjoined with it); None stands for all features."""
    if isinstance(feature_orders, tuple):
        return [(order, None) for order in sorted(set(feature_orders))]
    orders = sorted({order for given in feature_orders for order in given})
    if len(feature_orders) != n_features:
        raise ValueError(f"feature_orders has {len(feature_orders)} entries for {n_features} features")
    return [(k, np.flatnonzero([k in given for given in feature_orders])) for k in orders]


def _pairs_of_order(order, features, matrix, arcs, token_weight, layout, min_count, unsupported):
    """Return the features and patterns of the pairs of one order; see :func:`choose_pairs`."""
    patterns, automaton = layout.patterns, layout.automaton
    chosen = np.flatnonzero(patterns.lengths == order + 1)
    if unsupported:
        every = np.arange(matrix.shape[1]) if features is None else features
        return np.repeat(every, len(chosen)), np.tile(chosen, len(every))
    pattern = suffix_patterns(automaton, arcs, order)
    tokens = np.flatnonzero((pattern >= 0) & (token_weight > 0))
    indicator = sparse.csr_array(
        (token_weight[tokens], (pattern[tokens] - (chosen[0] if len(chosen) else 0), tokens)),
        shape=(len(chosen), matrix.shape[0]),
    )
    counts = (indicator @ (matrix if features is None else matrix[:, features])).tocoo()
    kept = is_frequent(counts.data, min_count)
    columns = counts.col[kept] if features is None else features[counts.col[kept]]
    return columns, chosen[counts.row[kept]]


def label_arcs(weighted_arcs: WeightedArcs, offsets, codes) -> np.ndarray:
    """Return the arc that each token uses when the sequences are labelled with ``codes``; shape (N,), int32."""
    arcs = np.empty(len(codes), dtype=np.int32)
    chain.label_arcs(weighted_arcs, freeze(offsets, np.int64), freeze(codes, np.int32), arcs)
    return arcs


def build_weighted_arcs(layout: WeightLayout, weights=None, direction=None) -> WeightedArcs:
    """Put weights, and the direction of derivatives, into the tables that the kernels read; None stands for zeros."""
    automaton, network = layout.automaton, layout.network
    own, slope = _arc_scores(layout, weights), _arc_scores(layout, direction)
    own[layout.forbidden_arcs] = -np.inf
    for arcs in layout.longer_arcs:
        own[arcs] += own[automaton.arc_suffix[arcs]]
        if direction is not None:
            slope[arcs] += slope[automaton.arc_suffix[arcs]]
    log_shift = own.max() if own.max() > -np.inf else 0.0
    return WeightedArcs(
        automaton.n_labels,
        automaton.fail,
        automaton.state_label,
        *layout.arc_tables,
        automaton.arc_label,
        automaton.arc_target,
        *network,
        *layout.varying_tables,
        freeze(own, np.float64),
        freeze(np.exp(own - log_shift), np.float64),
        float(log_shift),
        freeze(slope, np.float64),
        freeze(slope * np.exp(own - log_shift), np.float64),
    )


def _arc_scores(layout, weights):
    """Return the bias of each arc's own pattern."""
    scores = np.zeros(layout.automaton.n_arcs)
    if weights is not None:
        scores[layout.automaton.pattern_arc[layout.bias_pattern]] = weights[layout.n_pairs :]
    return scores


def _are_dense(pair_attribute, pair_column, n_attributes, n_labels):
    """Tell which attributes have pairs with a good part of the labels, and with nothing else."""
    counts = np.bincount(pair_attribute, minlength=n_attributes)
    dense = (counts >= 4) & (5 * counts >= n_labels)
    dense[pair_attribute[pair_column >= n_labels]] = False
    return dense


def _begin_runs(starts, columns):
    """Tell, at the first of each group of columns, whether each other one is that before it plus 1."""
    breaks = np.diff(columns, prepend=columns[:1]) != 1
    breaks[starts[:-1]] = False  # what is before the first is another group's
    before = offsets_of(breaks)
    found = np.zeros(len(columns), dtype=bool)
    found[starts[:-1]] = before[starts[1:]] == before[starts[:-1]]
    return found


def _starts(group, n_groups) -> np.ndarray:
    return freeze(offsets_of(np.bincount(group, minlength=n_groups)), np.int64)


def _varying_arcs(automaton, column_of_arc):
    """Return (arc_varying, varying_arc, varying_suffix, varying_column) of the arcs that end in a column's pattern of order >= 1."""
    column = np.where(automaton.arc_length > 1, column_of_arc, -1)
    varying_log = column >= 0
    for length in range(2, int(automaton.arc_length.max()) + 1):
        arcs = np.flatnonzero(automaton.arc_length == length)
        varying_log[arcs] |= varying_log[automaton.arc_suffix[arcs]]
    varying_arc = np.flatnonzero(varying_log)
    varying_arc = varying_arc[np.argsort(automaton.arc_length[varying_arc], kind="stable")]
    arc_varying = np.full(automaton.n_arcs, -1)
    arc_varying[varying_arc] = np.arange(len(varying_arc))
    varying_suffix = arc_varying[automaton.arc_suffix[varying_arc]]
    return tuple(freeze(table, np.int32) for table in (arc_varying, varying_arc, varying_suffix, column[varying_arc]))


def _arc_columns(automaton, column_of_arc) -> ArcColumns:
    arcs, suffix = np.arange(automaton.n_arcs), np.arange(automaton.n_arcs)
    found = []
    while len(arcs):
        hit = column_of_arc[suffix] >= 0
        found.append(np.stack([arcs[hit], column_of_arc[suffix[hit]]]))
        up = automaton.arc_suffix[suffix]
        arcs, suffix = arcs[up >= 0], up[up >= 0]
    owner, columns = np.concatenate(found, axis=1)
    order = np.argsort(owner, kind="stable")
    return ArcColumns(_starts(owner, automaton.n_arcs), freeze(columns[order], np.int32))

"""The index of each weight, and the tables from which kernels compute scores.

A weight belongs to a label pattern (its bias), to a pair of an observation feature and a pattern or, for segments, to
the tokens of a label. A feature counts a token *attribute* at the positions of a *channel*; in a chain, the only
channel is the token itself, so features and attributes are the same. Each combination of a channel and a pattern that
has pairs is a *score column*. One sparse product gives the scores of all columns for each token. The first L columns
are the single labels in channel 0, which give the emission scores. In a chain, a column of a longer pattern changes the
scores of the arcs whose labels end with this pattern.

Labels may contain *parts* (:mod:`.pairs`). Each part has a row of weights, like a pattern; the rows of parts follow
those of patterns. A part has weights for features only, and the scores of its columns are added to the scores of the
labels that contain the part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..._data.arrays import allocator, cached_property, freeze, freeze_all, freeze_all_indices, zeros_aligned
from ..._data.batch import SequenceBatch, TokenFeatures, ranges_of_tokens, token_entries
from ..._data.segment_features import channel_tokens
from ..._data.segments import BEGIN, Channel, Labelling, LabelSets, LengthBlock, Segments
from ..kernels import token_scores
from .pairs import (
    DenseFeatures,
    DenseProduct,
    Endings,
    FeatureMap,
    LabelParts,
    Occurrences,
    PairRule,
    PartLinks,
    SetSequences,
    Units,
    build_pair_table,
    choose_pairs,
    count_pairs,
    dense_product,
    endings,
    first_seen,
    link_parts,
    values_at,
)
from .patterns import PatternTable, Runs, given_patterns
from .weighted_arcs import (
    ArcLayout,
    CompiledPatterns,
    arc_columns,
    arc_structure,
    arcs_of_labels,
    bias_of_arc,
    compile_patterns,
)

_NOTHING = freeze(np.empty(0), np.float64)  # for features whose values are all 1


class WeightLayout(ArcLayout):
    """The patterns and (feature, pattern) pairs that have a weight, and the indices of the weights.

    The weight vector is ``[pairs by attribute rank | token weights by label | biases by pattern]``. The token weight of
    a segment's label is added to the score of the segment once per token, whatever the features of the token.

    The constructor checks its parameters and computes all indices for kernels from them. Copies and unpickled objects
    are created by the constructor (``__reduce__``), so their indices are in range, too.

    Parameters
    ----------
    patterns : PatternTable
        Z label patterns.
    features : FeatureMap
        Attribute and channel of each feature.
    pair_feature, pair_pattern : ndarray of int
        Feature of each pair, and its row: the index of a pattern, or Z + s for part s.
    bias_pattern : ndarray of int
        Patterns with a bias, ascending.
    extra_columns : sequence of int
        Additional score columns, which need no pairs, as numbers ``channel * (Z + S) + pattern``.
    forbidden : iterable of tuples of int
        Runs of two or more label codes that have probability 0.
    parts : LabelParts or None
        The S parts of labels; None means no parts.
    token_labels : ndarray of int
        Labels whose segments have a weight for each token, ascending; none in a chain.
    channels : tuple of Channel
        The channels of the features. In a chain, each token is a segment, and BEGIN is the only channel.
    compiled : CompiledPatterns or None
        The compiled patterns, if available.

    Raises
    ------
    ValueError
        If the parameters are inconsistent.

    Attributes
    ----------
    compiled, arc_structure, bias_pattern, first_bias
        As in :class:`ArcLayout`.
    arc_columns : ArcColumns
    part_links : PartLinks
        The score columns, in channel BEGIN, of the parts of each label.
    pairs : PairTable
    dense_slots : ndarray of int64
        For each weight in the dense table, its position in the flattened table. These weights come first in the weight
        vector.
    column_pattern, column_channel : ndarray of shape (C,), int32
        Pattern (or part) and channel of each score column; the first L are the single labels in channel 0.
    n_features : int
    n_rows : int
        Z + S.
    """

    repeats = True  # whether neighbours may have the same label

    def __init__(
        self,
        patterns: PatternTable,
        features: FeatureMap,
        pair_feature: np.ndarray,
        pair_pattern: np.ndarray,
        bias_pattern: np.ndarray,
        extra_columns: ArrayLike = (),
        forbidden: Runs = (),
        parts: LabelParts | None = None,
        token_labels: ArrayLike = (),
        *,
        channels: tuple[Channel, ...] = (BEGIN,),
        compiled: CompiledPatterns | None = None,
    ) -> None:
        self.forbidden = tuple(forbidden)
        self.compiled = compiled = compiled or compile_patterns(patterns, self.forbidden, self.repeats)
        self.patterns, self.network = compiled.patterns, compiled.network
        self.channels = channels
        n_labels, n_patterns = self.automaton.n_labels, len(self.patterns.lengths)
        self.parts = LabelParts.none(n_labels) if parts is None else LabelParts(*parts).checked(n_labels)
        self.n_rows = n_patterns + self.parts.n_parts
        self.features: FeatureMap = FeatureMap(*features).checked(len(channels))
        self.n_features = len(self.features.attribute)
        pair_feature, pair_pattern, self.bias_pattern, self.token_labels, self.extra_columns = freeze_all_indices(
            (pair_feature, self.n_features, "features of pairs"),
            (pair_pattern, self.n_rows, "patterns of pairs"),
            (bias_pattern, n_patterns, "patterns with a bias"),
            (token_labels, n_labels, "labels whose tokens have a weight"),
            (extra_columns, len(channels) * self.n_rows, "score columns", np.int64),
        )
        ascend = all((np.diff(rows) > 0).all() for rows in (self.token_labels, self.bias_pattern))
        if len(pair_feature) != len(pair_pattern) or not ascend:
            raise ValueError("pairs need a feature and a pattern each, and patterns with a bias must be sorted")
        pair_column = self._set_columns(pair_feature, pair_pattern)
        self._set_pairs(pair_feature, pair_column)
        self.first_bias = self.n_pairs + len(self.token_labels)
        self._set_arcs()

    def _set_columns(self, pair_feature: np.ndarray, pair_pattern: np.ndarray) -> np.ndarray:
        """Number the score columns, and return the column of each pair."""
        pair_key = self.features.channel[pair_feature].astype(np.int64) * self.n_rows + pair_pattern
        labels = np.arange(self.automaton.n_labels)
        column_key = np.unique(np.concatenate([labels, pair_key, self.extra_columns]))
        columns = column_key % self.n_rows, column_key // self.n_rows
        self.column_pattern, self.column_channel = freeze_all(columns, np.int32)
        return np.searchsorted(column_key, pair_key).astype(np.int32)

    def _set_pairs(self, pair_feature: np.ndarray, pair_column: np.ndarray) -> None:
        """Rank the attributes, and sort the pairs by rank and column."""
        n_labels, attribute = self.automaton.n_labels, self.features.attribute[pair_feature]
        sizes = len(self.column_pattern), n_labels
        table = build_pair_table(self.features.sort_key, attribute, pair_column, *sizes)
        self.pairs, order, self.attribute_of_rank, self.rank_of_attribute = table
        self.features = self.features._replace(sort_key=self.rank_of_attribute)
        in_table = slice(0, int(self.pairs.starts[self.pairs.n_dense]))
        self._dense_width = -(-n_labels // token_scores.STEP) * token_scores.STEP
        # flat, because NumPy takes four to eight times as long with one index per axis as with flat indices
        rank = self.rank_of_attribute[attribute[order[in_table]]].astype(np.int64)
        slots = rank * self._dense_width + self.pairs.columns[in_table]
        self.pair_feature, self.dense_slots = freeze_all((pair_feature[order], slots), np.int32, np.int64)

    def _set_arcs(self) -> None:
        """Set the tables of arcs and parts, which depend on the score columns in channel BEGIN."""
        n_patterns = len(self.patterns.lengths)
        columns = np.flatnonzero(self.column_channel == self.channels.index(BEGIN))
        column_of_row = np.full(self.n_rows, -1)
        column_of_row[self.column_pattern[columns]] = columns
        self.part_links: PartLinks = link_parts(self.parts, column_of_row[n_patterns:])
        column_of_arc = np.append(column_of_row[:n_patterns], -1)[self.automaton.arc_pattern]  # the last: no pattern
        self.arc_structure = arc_structure(self.compiled, column_of_arc)
        self.arc_columns = arc_columns(self.automaton, column_of_arc, *self.part_links[:2])

    @property
    def row_orders(self) -> np.ndarray:
        """Order of each pattern, and 0 for each part; shape (n_rows,)."""
        return np.concatenate([self.patterns.lengths - 1, np.zeros(self.parts.n_parts, np.int32)])

    @property
    def n_pairs(self) -> int:
        return len(self.pairs.columns)

    @property
    def n_weights(self) -> int:
        return self.first_bias + len(self.bias_pattern)

    @property
    def pair_pattern(self) -> np.ndarray:
        """The pattern, or part, of each pair; shape (n_pairs,), int32."""
        return freeze(self.column_pattern[self.pairs.columns], np.int32)

    @property
    def row_of_weight(self) -> np.ndarray:
        """The pattern, or part, of each weight; shape (n_weights,), int32."""
        return freeze(np.concatenate([self.pair_pattern, self.token_labels, self.bias_pattern]), np.int32)

    @property
    def order_of_weight(self) -> np.ndarray:
        """Order of the pattern of each weight, 0 for parts; shape (n_weights,), int32."""
        return freeze(self.row_orders[self.row_of_weight], np.int32)

    def arguments(self) -> dict:
        """Return the arguments of the constructor, by name and in order."""
        return {
            "patterns": self.patterns,
            "features": self.features,
            "pair_feature": self.pair_feature,
            "pair_pattern": self.pair_pattern,
            "bias_pattern": self.bias_pattern,
            "extra_columns": self.extra_columns,
            "forbidden": self.forbidden,
            "parts": self.parts if self.parts.n_parts else None,
            "token_labels": self.token_labels,
        }

    def replaced(self, **changes: Any) -> Self:
        """Return a layout with some arguments changed; unchanged patterns are not compiled again."""
        compiled = self.compiled if changes.keys().isdisjoint(("patterns", "forbidden")) else None
        return type(self)(**{**self.arguments(), **changes}, compiled=compiled)

    def of_order_zero(self) -> Self:
        """Return the layout with the same pairs, but with the single labels as the only patterns.

        The pairs must contain only single labels and parts; their weights keep their indices.
        """
        n_labels, rows = self.automaton.n_labels, self.pair_pattern
        return self.replaced(
            patterns=given_patterns((), n_labels, self.patterns.history),
            pair_pattern=np.where(rows < n_labels, rows, rows + n_labels - len(self.patterns.lengths)),
            bias_pattern=np.arange(n_labels),
            extra_columns=(),
            forbidden=(),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self.arguments().values())

    def __setstate__(self, state: Any) -> NoReturn:
        raise ValueError(f"a {type(self).__name__} has no state except the arguments of its constructor")

    def dense_table(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return the dense table of the weights of pairs, by dense attribute and label; None means weights of 0.

        The number of columns is the number of labels, rounded up to a multiple of STEP.
        """
        table = zeros_aligned(self.pairs.n_dense, self._dense_width)
        if weights is not None:
            dense_weights = weights[: len(self.dense_slots)]
            if self.slots_are_distinct:
                table.reshape(-1)[self.dense_slots] = dense_weights
            else:
                np.add.at(table.reshape(-1), self.dense_slots, dense_weights)
        return table

    @cached_property
    def slots_are_distinct(self) -> bool:
        """Whether no two features count the same dense attribute in the same way; such features would share a slot."""
        return bool(np.all(np.diff(self.dense_slots) > 0))  # sorted

    def pattern_coef(self, weights: np.ndarray) -> np.ndarray:
        """Return the biases of the patterns, 0 for patterns without a bias; shape (Z,)."""
        coef = np.zeros(len(self.patterns.lengths))
        coef[self.bias_pattern] = weights[self.first_bias :]
        return coef

    def own_attributes(self, weights: np.ndarray, part_names: Any) -> dict[str, Any]:
        """Return a dict of the attributes that only fitted estimators with this kind of layout have."""
        return {"label_parts_": part_names, "part_coef_": self.part_coef(weights)}

    def token_coef(self, weights: np.ndarray) -> np.ndarray:
        """Return the weight of each label for the tokens of its segments, 0 if there is none; shape (L,)."""
        coef = np.zeros(self.automaton.n_labels)
        coef[self.token_labels] = weights[self.n_pairs : self.first_bias]
        return coef

    def coef(self, weights: np.ndarray) -> sparse.csr_array:
        """Return the weights of the pairs of patterns as a sparse matrix of shape (Z, n_features)."""
        return self.row_coef(weights)[: len(self.patterns.lengths)]

    def part_coef(self, weights: np.ndarray) -> sparse.csr_array:
        """Return the weights of the pairs of parts as a sparse matrix of shape (S, n_features)."""
        return self.row_coef(weights)[len(self.patterns.lengths) :]

    def row_coef(self, weights: np.ndarray) -> sparse.csr_array:
        """Return the weights of all pairs as a sparse matrix of shape (Z + S, n_features)."""
        shape = (self.n_rows, self.n_features)
        cells = self.pair_pattern, self.pair_feature
        return sparse.coo_array((weights[: self.n_pairs], cells), shape=shape).tocsr()

    def weights(
        self,
        pattern_coef: np.ndarray,
        coef: sparse.csr_array,
        part_coef: sparse.csr_array | None = None,
        token_coef: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the weight vector for coefficients; those of pairs and patterns without a weight are ignored."""
        rows = sparse.csr_array(coef)
        if self.parts.n_parts and part_coef is not None:
            rows = sparse.csr_array(sparse.vstack([rows, part_coef]))
        rows.resize(self.n_rows, self.n_features)
        pairs = values_at(rows, self.pair_pattern, self.pair_feature)
        token_coef = np.zeros(self.automaton.n_labels) if token_coef is None else token_coef
        return np.concatenate([pairs, token_coef[self.token_labels], np.asarray(pattern_coef)[self.bias_pattern]])

    def rows(
        self, batch: SequenceBatch, dense: bool = True, ends: Sequence[int] | None = None, each: Callable = map
    ) -> TokenFeatures:
        """Return the sparse rows of a batch for kernels; features without any pair are left out.

        Parameters
        ----------
        batch : SequenceBatch
        dense : bool, default=True
            Whether dense attributes refer to rows of the dense table. If False, they refer to pairs, like other
            attributes.
        ends : sequence of int or None
            0, followed by the end of each range of tokens; None means one range.
        each : callable
            ``map``, or the ``map`` method of a thread pool, which processes several ranges at once.
        """
        values = _NOTHING if batch.values is None else batch.values
        n_dense, n_tokens, empty = self.pairs.n_dense if dense else 0, batch.n_tokens, allocator(batch)
        row_cuts, cuts, ranges = (empty(length, np.int64) for length in (n_tokens + 1, n_tokens + 1, n_tokens))
        ends = [0, n_tokens] if ends is None else ends

        def part(first: int, stop: int) -> tuple[tuple, tuple]:
            entries = batch.indptr[first : stop + 1], batch.indices, self.rank_of_attribute
            return entries, (row_cuts[first : stop + 1], cuts[first : stop + 1], ranges[first:stop])

        def cut(first: int, stop: int) -> tuple[int, int]:
            entries, parts = part(first, stop)
            return token_scores.cut_kinds(*entries, self.pairs.starts, n_dense, *parts)

        def sort(first: int, stop: int) -> None:
            entries, (row_part, entry_part, range_part) = part(first, stop)
            features = TokenFeatures(row_part, rows, entry_part, range_part, pair, other, of_entries)
            token_scores.sort_kinds(*entries, values, self.pairs.starts, self.pairs.columns, n_dense, features)

        n_rows, n_others, counts = 0, 0, list(each(cut, ends[:-1], ends[1:]))
        for first, stop, (more_rows, more_others) in zip(ends[:-1], ends[1:], counts, strict=True):
            for table, before in (row_cuts, n_rows), (cuts, n_others), (ranges, n_others):
                if before:
                    table[first:stop] += before
            row_cuts[first], cuts[first] = n_rows, n_others  # the previous range has written these, too
            n_rows, n_others = n_rows + more_rows, n_others + more_others
        row_cuts[-1], cuts[-1] = n_rows, n_others
        row_cuts, cuts, ranges = freeze_all((row_cuts, cuts, ranges), np.int64)
        rows, pair, other = (empty(length, np.uint32) for length in (n_rows, n_others, n_others))
        of_entries = empty(n_rows + n_others if len(values) else 0, np.float64)
        list(each(sort, ends[:-1], ends[1:]))
        rows, pair, other = freeze_all((rows, pair, other), np.uint32)
        return TokenFeatures(row_cuts, rows, cuts, ranges, pair, other, freeze(of_entries, np.float64))

    def dense_product(self, batch: SequenceBatch) -> DenseProduct | None:
        """Return the dense columns of a batch and the positions of their weights, or None if there are no weights."""
        if batch.dense is None:
            return None
        return dense_product(batch.dense, self.features.attribute[self.pair_feature], self.pairs.columns)

    def units(self, batch: SequenceBatch, labelling: Labelling) -> Segments:
        """Return the units of a labelling, each of which has one label: segments or, in a chain, tokens."""
        return labelling if isinstance(labelling, Segments) else Segments.of_tokens(batch.offsets, labelling)

    def occurrences(
        self, batch: SequenceBatch, product: DenseProduct, units: Segments, arcs: np.ndarray
    ) -> Occurrences:
        """Return where score columns of ``product`` occur in a labelling; ``arcs`` contains the arc of each unit."""
        triples = [np.empty((3, 0), dtype=np.int64)]
        pattern, column_channel = self.column_pattern[product.columns], self.column_channel[product.columns]
        orders, channels = self.row_orders[pattern], np.unique(column_channel).tolist()
        tokens_of = {k: channel_tokens(batch, self.channels[k], units.start, units.stop) for k in channels}
        for order in np.unique(orders):
            at_units = endings(self.compiled, self.parts, arcs, order)
            for channel, (owner, token) in tokens_of.items():
                chosen = (column_channel == channel) & (orders == order)
                column_of_row = np.full(self.n_rows, -1)
                column_of_row[pattern[chosen]] = np.flatnonzero(chosen)
                unit, row = at_units.take(owner)
                column = column_of_row[row]
                triples.append(np.stack([owner[unit], token[unit], column])[:, column >= 0])
        return Occurrences(*np.concatenate(triples, axis=1))

    def with_columns(self, columns: Sequence[tuple[tuple[int, ...], Channel]]) -> tuple[Self, np.ndarray]:
        """Return a layout with additional score columns, which have no weights, and the indices of these columns.

        ``columns`` are pairs of a label tuple and a channel. Patterns keep their relative order, so the weights keep
        their indices. For segments, a column in channel BEGIN counts an occurrence of its pattern at the first token of
        the occurrence's last segment, and a column in channel END_OF_SEGMENT counts it at the last token of that
        segment.
        """
        tuples = [*self.patterns.tuples(), *(z for z, _ in columns)]
        patterns = given_patterns(tuples, self.automaton.n_labels, self.patterns.history)
        row = {pattern: index for index, pattern in enumerate(patterns.tuples())}
        n_rows = len(row) + self.parts.n_parts
        new_row = np.array([*(row[pattern] for pattern in self.patterns.tuples()), *range(len(row), n_rows)])
        channels = tuple(dict.fromkeys([*self.channels, *(channel for _, channel in columns)]))
        keys = [channels.index(channel) * n_rows + row[tuple(z)] for z, channel in columns]
        wider = self.replaced(
            patterns=patterns,
            pair_pattern=new_row[self.pair_pattern],
            bias_pattern=new_row[self.bias_pattern],
            extra_columns=keys,
            **({} if channels == self.channels else {"channels": channels}),
        )
        column_key = wider.column_channel.astype(np.int64) * n_rows + wider.column_pattern
        return wider, np.searchsorted(column_key, keys)

    def without_zeros(self, weights: np.ndarray) -> tuple[Self, np.ndarray]:
        """Return a layout without the weights that are 0, and the other weights in the order of the new layout.

        Patterns of two or more labels without any remaining weight are dropped.
        """
        pairs, biases = np.flatnonzero(weights[: self.n_pairs]), np.flatnonzero(weights[self.first_bias :])
        pair_pattern, bias_pattern = self.pair_pattern[pairs], self.bias_pattern[biases]
        token_coef = self.token_coef(weights)
        kept = np.arange(self.n_rows) >= len(self.patterns.lengths)  # parts, and single labels
        kept[: self.automaton.n_labels] = True
        kept[pair_pattern] = True
        kept[bias_pattern] = True
        new_index = np.cumsum(kept) - 1
        kept = kept[: len(self.patterns.lengths)]
        layout = self.replaced(
            patterns=self.patterns.subset(kept),
            pair_feature=self.pair_feature[pairs],
            pair_pattern=new_index[pair_pattern],
            bias_pattern=new_index[bias_pattern],
            token_labels=np.flatnonzero(token_coef),
            extra_columns=(),
        )
        coef = self.coef(weights)[kept], self.part_coef(weights), token_coef
        return layout, layout.weights(self.pattern_coef(weights)[kept], *coef)

    def joined(self, other: WeightLayout) -> tuple[Self, np.ndarray | None]:
        """Return a layout with the pairs of both layouts, and the indices of this layout's weights in the new layout.

        The other layout must have the same patterns, and at least the features of this layout. If it adds neither pairs
        nor features, the result is this layout and None.
        """
        n_rows = self.n_rows

        def keys(layout: WeightLayout) -> np.ndarray:
            return layout.pair_feature.astype(np.int64) * n_rows + layout.pair_pattern

        old = keys(self)
        new = np.setdiff1d(keys(other), old, assume_unique=True)
        if not len(new) and other.n_features == self.n_features:
            return self, None
        sort_key = np.array(other.features.sort_key, dtype=np.int64) + len(self.pairs.starts)
        ranked = self.attribute_of_rank
        sort_key[ranked] = np.arange(len(ranked))  # before all new attributes
        every = np.concatenate([old, new])
        features = other.features._replace(sort_key=sort_key)
        layout = self.with_pairs(every // n_rows, every % n_rows, features)
        every = keys(layout)
        by_key = np.argsort(every, kind="stable")
        pairs = by_key[np.searchsorted(every, old, sorter=by_key)]
        return layout, np.concatenate([pairs, np.arange(layout.n_pairs, layout.n_weights)])

    def with_pairs(
        self, pair_feature: np.ndarray, pair_pattern: np.ndarray, features: FeatureMap | None = None
    ) -> Self:
        """Return a layout of the same patterns with other pairs, and possibly other features.

        Pairs of the same features keep their relative order.
        """
        changes = {} if features is None else {"features": features}
        return self.replaced(pair_feature=pair_feature, pair_pattern=pair_pattern, extra_columns=(), **changes)

    def sum_over_suffixes(self, arc_counts: np.ndarray) -> np.ndarray:
        """Return the count of each pattern with a bias: the sum of the counts of the arcs that end with the pattern."""
        counts = np.array(arc_counts, dtype=np.float64)
        for arcs in reversed(self.compiled.longer_arcs):
            np.add.at(counts, self.automaton.arc_suffix[arcs], counts[arcs])
        return np.bincount(bias_of_arc(self) + 1, counts, 1 + len(self.bias_pattern))[1:]

    def empirical_counts(
        self, batch: SequenceBatch, labelling: Labelling, sequence_weight: np.ndarray, token_rows: TokenFeatures
    ) -> np.ndarray:
        """Return the weighted count of each weight's feature in labelled data; shape (n_weights,).

        ``token_rows`` is the result of :meth:`rows` for the batch.
        """
        units, n_labels = self.units(batch, labelling), self.automaton.n_labels
        arcs = arcs_of_labels(self.automaton, units.offsets, units.codes)
        weight = np.repeat(sequence_weight, np.diff(units.offsets))
        counts = self._pair_counts(batch, units, arcs, weight, token_rows)
        product = self.dense_product(batch)
        if product is not None:
            product.label_counts(self.occurrences(batch, product, units, arcs), weight, counts)
        used = np.bincount(arcs, weights=weight, minlength=self.automaton.n_arcs)
        tokens = np.bincount(units.codes, weights=weight * units.lengths, minlength=n_labels)
        return np.concatenate([counts, tokens[self.token_labels], self.sum_over_suffixes(used)])

    def _pair_counts(
        self, batch: SequenceBatch, units: Segments, arcs: np.ndarray, weight: np.ndarray, token_rows: TokenFeatures
    ) -> np.ndarray:
        """Return the weighted count of each pair, 0 for features of dense columns; shape (n_pairs,)."""
        counts = np.zeros(self.n_pairs)
        token_scores.label_sums(token_rows, self.pairs, arcs, self.arc_columns, weight, True, counts)
        return counts

    def unit_scores(
        self, batch: SequenceBatch, units: Segments, weights: np.ndarray, arc_score: np.ndarray
    ) -> np.ndarray:
        """Return the score of each unit of a labelling, -inf where the model forbids it; shape (M,)."""
        arcs, scores = arcs_of_labels(self.automaton, units.offsets, units.codes), np.zeros(len(units.codes))
        token_scores.label_sums(self.rows(batch), self.pairs, arcs, self.arc_columns, weights, False, scores)
        product = self.dense_product(batch)
        if product is not None:
            scores += product.label_scores(self.occurrences(batch, product, units, arcs), weights, len(arcs))
        return scores + arc_score[arcs]


class FeatureCounts(NamedTuple):
    """Counts of features in training data, from which a layout is built.   F features, R patterns and parts."""

    features: FeatureMap  # attributes that occur earlier in these data have lower keys
    never: int  # the key of attributes that do not occur
    channels: tuple[Channel, ...]  # the channels of the features
    length_blocks: tuple[tuple[int, LengthBlock], ...]  # for segments: first feature and block of length features
    pairs: sparse.csr_array  # (R, F)   weighted counts; see count_pairs

    def merged(self, other: FeatureCounts) -> FeatureCounts:
        """Return the counts of the data of both objects; the data of ``other`` come later."""
        key, later = self.features.sort_key, other.features.sort_key
        key = np.where(key < self.never, key, self.never + later)
        features = self.features._replace(sort_key=key)
        return self._replace(features=features, never=self.never + other.never, pairs=self.pairs + other.pairs)


class LayoutFrame(NamedTuple):
    """The components of a layout that do not depend on features."""

    patterns: PatternTable
    forbidden: Runs = ()  # of label codes
    parts: LabelParts | None = None  # None: labels have no parts
    compiled: CompiledPatterns | None = None  # the compiled patterns, if available


class LayoutBuilder:
    """A builder that derives the layout of a model from counts of features in training data.

    The counts determine which weights the model has. Chunks of the data may be counted one by one, and the counts
    merged.

    Parameters
    ----------
    frame : LayoutFrame
    rule : PairRule
        The rule that determines which pairs of a feature and a pattern have weights.
    fit_intercept : bool
        Whether the single labels have biases.
    """

    repeats = True  # as in the layout

    def __init__(self, frame: LayoutFrame, rule: PairRule, fit_intercept: bool | str) -> None:
        self.patterns, self.forbidden = frame.patterns, tuple(frame.forbidden)
        self.parts = LabelParts.none(self.patterns.n_labels) if frame.parts is None else frame.parts
        self.compiled = frame.compiled or compile_patterns(self.patterns, self.forbidden, self.repeats)
        self.rule, self.fit_intercept = rule, fit_intercept

    def count(
        self,
        batch: SequenceBatch,
        codes: Any,
        sequence_weight: np.ndarray | None = None,
    ) -> FeatureCounts:
        """Return the counts of features in labelled data.

        ``codes`` contains the labels, or sets of labels; ``sequence_weight`` contains the weight of each sequence
        (None: 1).
        """
        dense = []
        if batch.dense is not None:
            column_ids = np.arange(len(batch.dense.attributes))
            owner_and_token = np.arange(batch.n_tokens), np.arange(batch.n_tokens)
            dense = [DenseFeatures(batch.dense.attributes, batch.dense.values, column_ids, *owner_and_token)]
        weight = np.repeat(weights_of(batch, sequence_weight), batch.lengths)
        at_units = self._endings(batch.offsets, codes)
        units = Units(partial(token_entries, batch), batch.n_attributes, ranges_of_tokens(batch), at_units, weight)
        pairs = count_pairs(self.rule, self.compiled, self.parts, units, dense)
        return FeatureCounts(FeatureMap.of_tokens(first_seen(batch)), len(batch.indices), (BEGIN,), (), pairs)

    def _endings(self, offsets: np.ndarray, codes: np.ndarray | LabelSets) -> Callable[[int, int, int], Endings]:
        """Return a function of (order, first, last), which returns the order's rows that count at these units."""
        if not isinstance(codes, LabelSets):
            arcs = arcs_of_labels(self.compiled.automaton, offsets, codes)
            return lambda order, first, last: endings(self.compiled, self.parts, arcs[first:last], order)
        sequences = SetSequences(codes, offsets, self.patterns.n_labels, self.patterns.history, self.forbidden)
        at_units = cache(partial(sequences.endings, self.compiled, self.parts))
        return lambda order, first, last: at_units(order).part(first, last)

    def build(self, counts: FeatureCounts) -> WeightLayout:
        """Return the layout for the counts of all training data."""
        return WeightLayout(*self._arguments(counts), **self._options())

    def _arguments(self, counts: FeatureCounts) -> tuple[Any, ...]:
        """Return the patterns, features, pairs and biases as arguments of the layout's constructor."""
        pairs = choose_pairs(self.rule, self.compiled, self.parts, counts.pairs)
        has_weight = (self.patterns.lengths > 1) | (self.fit_intercept in (True, "segment"))
        return self.patterns, counts.features, *pairs, np.flatnonzero(has_weight)

    def _options(self) -> dict[str, Any]:
        return {"forbidden": self.forbidden, "parts": self.parts, "compiled": self.compiled}


def weights_of(batch: SequenceBatch, sequence_weight: np.ndarray | None) -> np.ndarray:
    """Return the weight of each sequence; None means a weight of 1 for each."""
    return np.ones(len(batch)) if sequence_weight is None else np.asarray(sequence_weight, dtype=np.float64)

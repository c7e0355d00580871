"""The layout of the weights of segments, and the tables from which semi-Markov kernels compute scores.

A score column is a label pattern in a channel. Columns contribute to the score of a segment [u, v) in two ways. Columns
of patterns of two or more labels in channel BEGIN, at the segment's first token, concern only the boundary u: they
change the arc scores there, as in a chain. All other columns contribute to the score of the whole segment, which is one
number for each *scored pattern*, start and length. The first L scored patterns are the single labels; the others are
the patterns of two or more labels with columns in other channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..._data.arrays import cached_property, freeze_all, freeze_indices, joined_ranges, offsets_of
from ..._data.batch import SequenceBatch, TokenFeatures, ranges_of_sequences, without_dense
from ..._data.segment_features import RowBlock, blocks_of, channel_tokens, ones, segment_features
from ..._data.segments import (
    AS_A_WHOLE,
    BAG,
    BEGIN,
    NO_LIMIT,
    WHOLE,
    Channel,
    LengthBlock,
    Segments,
    TokenBlock,
    are_short,
)
from .layout import FeatureCounts, LayoutBuilder, LayoutFrame, WeightLayout, weights_of
from .pairs import (
    DenseFeatures,
    Endings,
    FeatureMap,
    PairRule,
    Units,
    count_pairs,
    endings,
    first_seen,
    row_indicator,
    values_at,
)
from .patterns import PatternTable, given_patterns
from .weighted_arcs import CompiledPatterns, arcs_of_labels, arcs_with_suffix, compile_patterns

_CANDIDATES_AT_A_TIME = 1 << 18  # candidate segments whose features are computed together
_MOST_KEPT = 1 << 12  # maximum number of candidate segments of a sequence whose lists are cached
_CANDIDATE_DTYPES = np.int64, np.int32, np.int64, np.uint32, np.uint32, np.float64


class SegmentIndex(NamedTuple):
    """The layout of segment scores for kernels.   K scored patterns, E cells per row, H members, Q span arcs.

    The row of a token contains the scores of the segments that end with the token: cell ``first_cell[k] + d - 1`` is
    the score of scored pattern k for length d. The members of a scored pattern are its columns, with their channels.
    """

    longest: np.ndarray  # (K,) int64   highest length
    first_cell: np.ndarray  # (K + 1,) int64
    tail: np.ndarray  # (L,) int32   the scored pattern of a token beyond the highest length; -1 if none is possible
    first_state: np.ndarray  # (L + 1,) int64   range of the states that end with each label
    member_starts: np.ndarray  # (K + 1,) int64
    member_column: np.ndarray  # (H,) int32
    member_channel: np.ndarray  # (H, 4) int32   anchor, offset, shortest, longest
    column_scored: np.ndarray  # (C,) int32   -1 for columns that change arc scores
    arc_span: np.ndarray  # (A,) int32   -1 for arcs without a scored suffix of two or more labels
    span_arc: np.ndarray  # (Q,) int32   shortest arcs first
    span_suffix: np.ndarray  # (Q,) int32   the arc's longest proper suffix if that is a span arc, else -1
    span_scored: np.ndarray  # (Q,) int32   scored pattern of the arc, or -1

    @property
    def n_cells(self) -> int:
        return int(self.first_cell[-1])


class LengthEntries(NamedTuple):
    """Weights of lengths and tokens, and the cells to whose scores they contribute."""

    cell: np.ndarray  # int64
    weight: np.ndarray  # int64   index of the weight
    value: np.ndarray  # float64   factor of the weight, not 0


class CandidateFeatures(NamedTuple):
    """Features of candidate segments, for kernels; candidates without features are left out.   M candidates."""

    token_starts: np.ndarray  # (N + 1,) int64   range of the candidates that end with each token
    length: np.ndarray  # (M,) int32
    indptr: np.ndarray  # (M + 1,) int64
    first: np.ndarray  # (nnz,) uint32   first pair of each feature
    stop: np.ndarray  # (nnz,) uint32   end of its pairs
    values: np.ndarray  # (nnz,) float64, or empty if all values are 1

    @classmethod
    def none(cls, n_tokens: int) -> CandidateFeatures:
        """Return the table of a batch without any features of candidates."""
        sizes = n_tokens + 1, 0, 1, 0, 0, 0
        return cls(*freeze_all(tuple(map(np.zeros, sizes)), *_CANDIDATE_DTYPES))


class SegmentRules(NamedTuple):
    """The possible segments, and the definition of their features."""

    channels: tuple[Channel, ...]  # channels of the features: BAG, BEGIN, WHOLE, then others
    length_blocks: tuple[tuple[int, LengthBlock], ...]  # blocks of length features, each after its first feature
    longest: np.ndarray  # (L,) int64   maximum length of the segments of each label
    repeats: bool  # whether neighbouring segments may have the same label
    shortest: np.ndarray | None = None  # (L,) int64   minimum length, except at ends of sequences; None: 1

    def checked(self) -> SegmentRules:
        """Return the rules with read-only arrays, or raise a ValueError if they are invalid."""
        channels = tuple(Channel(*channel) for channel in self.channels)
        if channels[:3] != (BAG, BEGIN, WHOLE) or len(set(channels)) < len(channels):
            raise ValueError(f"channels must be distinct, with BAG, BEGIN and WHOLE first; got {channels!r:.80}")
        for channel in channels:
            channel.check()
        length_blocks = tuple((first, LengthBlock(*block)) for first, block in self.length_blocks)
        longest = freeze_indices(self.longest, NO_LIMIT + 1, "highest lengths of segments", np.int64, start=1)
        shortest = self.shortest
        if shortest is not None:
            shortest = freeze_indices(shortest, NO_LIMIT + 1, "lowest lengths of segments", np.int64, start=1)
            if len(shortest) != len(longest) or (shortest > longest).any():
                raise ValueError("lowest and highest lengths of segments do not match")
        return SegmentRules(channels, length_blocks, longest, bool(self.repeats), shortest)

    def check_sizes(self, n_labels: int, n_features: int) -> None:
        """Raise a ValueError if the rules do not match the numbers of labels and features."""
        for first, block in self.length_blocks:
            block.check()
            if not isinstance(first, Integral) or not 0 <= first <= n_features - block.n_features:
                raise ValueError(f"{block.n_features} features of lengths from {first!r:.20} on, of {n_features}")
        if len(self.longest) != n_labels:
            raise ValueError(f"{len(self.longest)} highest lengths do not match {n_labels} labels")


class SegmentLayout(WeightLayout):
    """The patterns and (feature, pattern) pairs with weights in a semi-Markov model, and the indices of the weights.

    Parameters
    ----------
    rules : SegmentRules
    patterns, features, pair_feature, pair_pattern, bias_pattern, extra_columns, forbidden, parts, compiled
        As in :class:`WeightLayout`. Forbidden runs consist of labels of consecutive segments.
    """

    def __init__(self, rules: SegmentRules, patterns: PatternTable, *arguments: Any, **named: Any) -> None:
        self.rules = SegmentRules(*rules).checked()
        _, self.length_blocks, self.longest, self.repeats, self.shortest = self.rules
        self._derived: dict[Callable, Any] = {}
        self._length_tables: tuple | None = None
        super().__init__(patterns, *arguments, channels=self.rules.channels, **named)
        self.rules.check_sizes(self.patterns.n_labels, self.n_features)
        if self.parts.n_parts:
            raise ValueError("labels of segments have no parts")

    def own_attributes(self, weights: np.ndarray, part_names: Any) -> dict[str, Any]:
        return {"token_intercept_": self.token_coef(weights)}

    def arguments(self) -> dict:
        return {"rules": self.rules, **super().arguments()}

    def replaced(self, *, channels: tuple[Channel, ...] | None = None, **changes: Any) -> Self:
        rules = self.rules if channels is None else self.rules._replace(channels=channels)
        return super().replaced(rules=rules, **changes)

    def derived(self, make: Callable[[Self], Any]) -> Any:
        """Return ``make(self)``; the layout keeps the result of the first call for later ones."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return self._derived[make]

    def compiled_with_states(self, runs: Sequence[tuple[int, ...]]) -> CompiledPatterns:
        """Return compiled patterns whose states include the given runs of labels."""
        n_labels = self.patterns.n_labels
        longer = [(*run, (run[-1] + 1) % n_labels) for run in runs]
        patterns = given_patterns([*self.patterns.tuples(), *longer], n_labels)
        return compile_patterns(patterns, self.forbidden, self.repeats)

    def segment_index(self, longest_sequence: int) -> SegmentIndex:
        """Return the index of segment scores for sequences of at most ``longest_sequence`` tokens."""
        index = self._index_without_cells
        longest = np.minimum(index.longest, max(longest_sequence, 1))
        longest, first_cell = freeze_all((longest, offsets_of(longest)), np.int64)
        return index._replace(longest=longest, first_cell=first_cell)

    def length_tables(self, longest_sequence: int) -> tuple[SegmentIndex, LengthEntries]:
        """Return the index of segment scores, and the entries of lengths; the layout keeps the last result.

        The result depends on ``longest_sequence`` only if this number is below the maximum length of segments.
        """
        longest, kept = min(longest_sequence, int(self.longest.max())), self._length_tables
        if kept is None or kept[0] != longest:
            index = self.segment_index(longest)
            kept = self._length_tables = longest, (index, self.length_entries(index))
        return kept[1]

    @cached_property
    def _index_without_cells(self) -> SegmentIndex:
        """The index of segment scores without ``first_cell``, which depends on the length of the longest sequence."""
        automaton, n_labels, n_patterns = self.automaton, self.automaton.n_labels, len(self.patterns.lengths)
        begins = self.column_channel == self.channels.index(BEGIN)
        moves_arcs = begins & (self.row_orders[self.column_pattern] > 0)
        span_patterns = self.column_pattern[~moves_arcs]
        scored = np.unique(np.concatenate([np.arange(n_labels), span_patterns]))  # labels, then longer patterns
        column_scored = np.where(moves_arcs, -1, np.searchsorted(scored, self.column_pattern))
        longest = self.longest[self.patterns.labels[scored, -1]]
        channels = np.array(self.channels, dtype=np.int32)[self.column_channel]
        members = np.flatnonzero((column_scored >= 0) & (channels[:, 0] != AS_A_WHOLE))
        members = members[np.argsort(column_scored[members], kind="stable")]
        scored_of_pattern = np.full(n_patterns + 1, -1)  # the last element is for arcs without a pattern
        scored_of_pattern[scored[n_labels:]] = np.arange(n_labels, len(scored))
        scored_of_arc = scored_of_pattern[automaton.arc_pattern]
        arc_span, span_arc, span_suffix = arcs_with_suffix(automaton, scored_of_arc >= 0)
        states = np.searchsorted(automaton.state_label[1:], np.arange(n_labels + 1)) + 1
        starts = np.searchsorted(column_scored[members], np.arange(len(scored) + 1))
        longest, first_cell, states, starts = freeze_all((longest, np.empty(0), states, starts), np.int64)
        ids = np.full(n_labels, -1), members, channels[members], column_scored
        spans = arc_span, span_arc, span_suffix, scored_of_arc[span_arc]
        tail, *columns = freeze_all((*ids, *spans), np.int32)
        return SegmentIndex(longest, first_cell, tail, states, starts, *columns)

    @cached_property
    def _length_pairs(self) -> list[np.ndarray]:
        """The pairs of the features of each block of length features."""
        of_blocks = [(self.pair_feature - first, block.n_features) for first, block in self.length_blocks]
        return [np.flatnonzero((feature >= 0) & (feature < size)) for feature, size in of_blocks]

    def length_entries(self, index: SegmentIndex) -> LengthEntries:
        """Return the contributions of length and token weights to cells."""
        counts = index.longest[self.token_labels]
        firsts = index.first_cell[self.token_labels]
        cells = joined_ranges(firsts, firsts + counts)
        weight_ids = np.repeat(np.arange(self.n_pairs, self.first_bias), counts)
        parts = [(cells, weight_ids, 1.0 + cells - np.repeat(firsts, counts))]
        for (first, block), pairs in zip(self.length_blocks, self._length_pairs, strict=True):
            scored = index.column_scored[self.pairs.columns[pairs]]
            counts = index.longest[scored]
            d = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            feature = np.repeat(self.pair_feature[pairs] - first, counts)
            values = block.table(int(counts.max(initial=1)))[d, feature]
            kept = values != 0
            cells = np.repeat(index.first_cell[scored], counts) + d
            parts.append((cells[kept], np.repeat(pairs, counts)[kept], values[kept]))
        return LengthEntries(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    @cached_property
    def _n_with_pairs(self) -> np.ndarray:
        """The number of features with pairs before each feature; shape (n_features + 1,)."""
        return offsets_of(self.rank_of_attribute[self.features.attribute] >= 0)

    def candidate_features(self, batch: SequenceBatch) -> CandidateFeatures:
        """Return the features that a batch computes for whole segments, for all candidates with such features."""
        blocks, first = [], 0
        for block in batch.blocks or ():
            stop = first + block.n_features
            if isinstance(block, RowBlock) and self._n_with_pairs[stop] > self._n_with_pairs[first]:
                blocks.append((first, block))
            first = stop
        longest = min(int(self.longest.max()), batch.n_tokens)
        if not blocks or not longest:
            return CandidateFeatures.none(batch.n_tokens)
        is_small = len(batch) == 1 and batch.n_tokens * longest <= _MOST_KEPT
        if is_small:
            starts, length, start, stop = _candidates_of_one(batch.n_tokens, longest)
            indptr, features, values = self._entries(batch, blocks, start, stop)
        else:
            parts = [self._entries_of_chunk(batch, blocks, tokens, longest) for tokens in self._chunks(batch)]
            stop, length, counts, features, values = (np.concatenate(rows) for rows in zip(*parts, strict=True))
        pairs = [ids[features] for ids in self._pairs_of_features]
        if not is_small:  # leave out features without weights, then candidates without features
            has_pairs = pairs[0] < pairs[1]
            indptr = offsets_of(has_pairs)[offsets_of(counts)]
            pairs, values = [ids[has_pairs] for ids in pairs], values[has_pairs]
            kept = (indptr[1:] > indptr[:-1]).nonzero()[0]
            starts = stop[kept].searchsorted(np.arange(1, batch.n_tokens + 2))
            length, indptr = length[kept], np.concatenate([[0], indptr[kept + 1]])
        values = np.empty(0) if (values == 1).all() else values
        return CandidateFeatures(*freeze_all((starts, length, indptr, *pairs, values), *_CANDIDATE_DTYPES))

    @cached_property
    def _pairs_of_features(self) -> tuple[np.ndarray, ...]:
        """The first pair of each feature, and the end of its pairs; both are equal if the feature has no pairs."""
        ranks, starts = self.rank_of_attribute[self.features.attribute], self.pairs.starts
        ids = [np.where(ranks < 0, 0, starts[ranks + shift]) for shift in (0, 1)]
        return freeze_all(ids, np.uint32)

    def _chunks(self, batch: SequenceBatch) -> list[tuple[int, int]]:
        """Return ranges of tokens; the candidates that end in one range are processed together."""
        longest = batch.n_tokens if len(batch) == 1 else batch.lengths.max(initial=1)
        tokens = max(_CANDIDATES_AT_A_TIME // int(min(self.longest.max(), longest)), 1)
        return [(start, min(start + tokens, batch.n_tokens)) for start in range(0, batch.n_tokens, tokens)]

    def _entries_of_chunk(
        self, batch: SequenceBatch, blocks: list[tuple[int, RowBlock]], tokens: tuple[int, int], longest: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the end, length and number of features of each candidate, and the ids and values of these features."""
        ends = np.arange(*tokens)
        offsets = batch.offsets[np.searchsorted(batch.offsets, ends, side="right") - 1]
        token, length = _candidates(ends - offsets, longest)
        stop = token + (tokens[0] + 1)
        indptr, features, values = self._entries(batch, blocks, stop - length, stop)
        return stop, length, np.diff(indptr), features, values

    def _entries(
        self, batch: SequenceBatch, blocks: list[tuple[int, RowBlock]], start: np.ndarray, stop: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the range of each candidate's entries, and the features and values of the entries."""
        parts = [(first, *block.entries(batch, start, stop)) for first, block in blocks]
        features = [first + of_block for first, _, of_block, _ in parts]
        if len(parts) == 1:
            return parts[0][1], features[0], parts[0][3]
        counts = [np.diff(indptr) for _, indptr, _, _ in parts]
        owner = np.concatenate([np.repeat(np.arange(len(stop)), of_block) for of_block in counts])
        order = np.argsort(owner, kind="stable")  # of the entries, by candidate
        values = np.concatenate([of_block for *_, of_block in parts])
        return offsets_of(sum(counts)), np.concatenate(features)[order], values[order]

    def _features_of(self, batch: SequenceBatch, segments: Segments) -> Iterator[tuple[slice, sparse.csr_array]]:
        """Yield ranges of segments, and the features of these segments, except features of dense columns."""
        sparse_batch = without_dense(batch)
        for first, last in ranges_of_sequences(batch):
            chosen = slice(segments.offsets[first], segments.offsets[last])
            yield chosen, segment_features(sparse_batch, segments.start[chosen], segments.stop[chosen])

    def _pair_counts(
        self, batch: SequenceBatch, units: Segments, arcs: np.ndarray, weight: np.ndarray, token_rows: TokenFeatures
    ) -> np.ndarray:
        counts = np.zeros(self.n_pairs)
        pair_order, pair_pattern = self.order_of_weight[: self.n_pairs], self.pair_pattern
        for chosen, matrix in self._features_of(batch, units):
            for order in np.unique(pair_order):
                pairs = np.flatnonzero(pair_order == order)
                features = np.unique(self.pair_feature[pairs])
                at_units = endings(self.compiled, self.parts, arcs[chosen], order)
                sums = sparse.csr_array(row_indicator(at_units, weight[chosen], self.n_rows) @ matrix[:, features])
                columns = np.searchsorted(features, self.pair_feature[pairs])
                counts[pairs] += values_at(sums, pair_pattern[pairs], columns)
        return counts

    def unit_scores(
        self, batch: SequenceBatch, units: Segments, weights: np.ndarray, arc_score: np.ndarray
    ) -> np.ndarray:
        arcs = arcs_of_labels(self.automaton, units.offsets, units.codes)
        scores = arc_score[arcs] + self.token_coef(weights)[units.codes] * units.lengths
        coef = sparse.csr_array(self.row_coef(weights).T)
        for chosen, matrix in self._features_of(batch, units):
            products = sparse.csr_array(matrix @ coef)
            for order in range(int(self.patterns.lengths.max())):
                owner, row = endings(self.compiled, self.parts, arcs[chosen], order).pairs()
                np.add.at(scores[chosen], owner, values_at(products, owner, row))
        product = self.dense_product(batch)
        if product is not None:
            scores += product.label_scores(self.occurrences(batch, product, units, arcs), weights, len(arcs))
        too_long = units.lengths > self.longest[units.codes]
        too_short = False if self.shortest is None else are_short(units, self.shortest, batch.offsets)
        return np.where(too_long | too_short, -np.inf, scores)


def _candidates(position: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each candidate's last token, and its length, from the positions of tokens in sequences."""
    counts = np.minimum(position + 1, longest)
    token = np.repeat(np.arange(len(position)), counts)
    return token, 1 + np.arange(len(token)) - np.repeat(np.cumsum(counts) - counts, counts)


@lru_cache(maxsize=16)  # for calls with a single sequence
def _candidates_of_one(n_tokens: int, longest: int) -> tuple[np.ndarray, ...]:
    """Return the range of the candidates that end with each token, and each candidate's length, first token and end."""
    token, length = _candidates(np.arange(n_tokens), longest)
    arrays = token.searchsorted(np.arange(n_tokens + 1)), length, token + 1 - length, token + 1
    return freeze_all(arrays, np.int64, np.int32, np.int64, np.int64)


class SegmentLayoutBuilder(LayoutBuilder):
    """A builder that derives the layout of a semi-Markov model from counts of features in training data.

    Parameters
    ----------
    limits : tuple
        ``longest``, ``repeats`` and ``shortest``, as in :class:`SegmentRules`.
    frame, rule
        As in :class:`LayoutBuilder`; the patterns must not contain equal neighbours unless ``repeats`` is True.
    fit_intercept : bool, "segment" or "token"
        Whether each label has a weight that is added once per segment ("segment"), one that is added once per token
        ("token"), both (True), or neither (False).
    """

    def __init__(self, limits: tuple, frame: LayoutFrame, rule: PairRule, fit_intercept: bool | str) -> None:
        self.longest, self.repeats, self.shortest = limits
        super().__init__(frame, rule, fit_intercept)

    def count(
        self,
        batch: SequenceBatch,
        segments: Segments,
        sequence_weight: np.ndarray | None = None,
    ) -> FeatureCounts:
        """Return the counts of features in labelled data; other arguments are as in :meth:`LayoutBuilder.count`."""
        weight = np.repeat(weights_of(batch, sequence_weight), np.diff(segments.offsets))
        units = _segment_units(without_dense(batch), segments, self._endings(segments.offsets, segments.codes), weight)
        dense = _dense_features(batch, segments)
        pairs = count_pairs(self.rule, self.compiled, self.parts, units, dense)
        features, channels, length_blocks = _feature_map(batch)
        return FeatureCounts(features, len(batch.indices), channels, length_blocks, pairs)

    def build(self, counts: FeatureCounts) -> SegmentLayout:
        """Return the layout for the counts of all training data."""
        rules = SegmentRules(counts.channels, counts.length_blocks, self.longest, self.repeats, self.shortest)
        arguments = self._arguments(counts)
        lengths = [first for first, block in counts.length_blocks if block.kind == "gamma"]
        counted = arguments[3][np.isin(arguments[2], lengths)]  # labels that have a weight for the length itself
        tokens = np.setdiff1d(self._token_labels(), counted)
        return SegmentLayout(rules, *arguments, **self._options(), token_labels=tokens.astype(np.int64))

    def _token_labels(self) -> ArrayLike:
        """Return the labels that get a token weight, except labels for which a weight of segments is equivalent."""
        n_labels = self.patterns.n_labels
        if self.fit_intercept not in (True, "token") or n_labels == 1:  # the total number of tokens is constant
            return ()
        return np.flatnonzero((self.longest > 1) | (self.fit_intercept == "token"))


def _segment_units(
    batch: SequenceBatch, segments: Segments, at_units: Callable[[int, int, int], Endings], weight: np.ndarray
) -> Units:
    """Return segments as units whose features are counted for several sequences at a time."""

    def table(first: int, last: int) -> sparse.csr_array:
        return segment_features(batch, segments.start[first:last], segments.stop[first:last], ones)

    cuts = [(segments.offsets[first], segments.offsets[last]) for first, last in ranges_of_sequences(batch)]
    return Units(table, batch.n_features, cuts, at_units, weight)


def _dense_features(batch: SequenceBatch, segments: Segments) -> list[DenseFeatures]:
    """Return the features of a batch that count dense columns in segments."""
    parts: list[DenseFeatures] = []
    if batch.dense is None:
        return parts
    first = 0
    for block in blocks_of(batch):
        if isinstance(block, TokenBlock):
            _, feature, column = np.intersect1d(
                block.attributes, batch.dense.attributes, assume_unique=True, return_indices=True
            )
            tokens = channel_tokens(batch, block.channel, segments.start, segments.stop)
            parts.append(DenseFeatures(first + feature, batch.dense.values, column, *tokens))
        first += block.n_features
    return parts


def _feature_map(batch: SequenceBatch) -> tuple[FeatureMap, tuple[Channel, ...], tuple]:
    """Return the map of a batch's features, their channels, and the blocks of length features."""
    channels = [BAG, BEGIN, WHOLE]
    attribute, channel, length_blocks = [], [], []
    n_attributes, n_features = batch.n_attributes, 0
    for block in blocks_of(batch):
        if isinstance(block, TokenBlock):
            if block.channel not in channels:
                channels.append(block.channel)
            attribute.append(freeze_indices(block.attributes, batch.n_attributes, "attributes of a block"))
            channel.append(np.full(block.n_features, channels.index(block.channel)))
        else:  # ids beyond the token attributes
            if isinstance(block, LengthBlock):
                length_blocks.append((n_features, block))
            attribute.append(n_attributes + np.arange(block.n_features))
            channel.append(np.full(block.n_features, channels.index(WHOLE)))
            n_attributes += block.n_features
        n_features += block.n_features
    key = np.concatenate([first_seen(batch), np.full(n_attributes - batch.n_attributes, len(batch.indices))])
    empty = np.empty(0, np.int32)
    columns = np.concatenate([empty, *attribute]), np.concatenate([empty, *channel])
    attributes, channel_ids = freeze_all(columns, np.int32)
    return FeatureMap(attributes, channel_ids, key), tuple(channels), tuple(length_blocks)

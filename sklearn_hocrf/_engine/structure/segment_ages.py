"""Segments of any length, represented as a chain whose labels include the age of the segment.

The *age* of a segment at a token is the number of its tokens up to and including that token. An *aged label* is a pair
of a label and an age; the highest age of a label also stands for all higher ages. Each segmentation corresponds to one
sequence of aged labels: labels of age 1 begin segments, and all others continue them. The score of a segment is a sum
over its tokens: each token adds the difference between the score of the segment up to this token and its score up to
the previous token (docs/develop/theory.md).

A state of the chain is a pair of a state of the pattern automaton and an age. The chain reads a label of age 1 as the
automaton reads the label. In a state of age a, it can also read the state's label at age a + 1, and then keeps the
state of the automaton; it cannot read labels at other ages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._data.arrays import freeze, freeze_all, group_offsets, joined_ranges, offsets_of
from ..._data.segments import BAG, BEGIN, FROM_START, NO_LIMIT, RANGE, WHOLE, Channel, LengthBlock, Mask
from ..kernels.tag_segments import Tags
from .automaton import PatternAutomaton, longer_arcs
from .segment_layout import LengthEntries, SegmentIndex, SegmentLayout
from .sum_network import build_sum_network
from .weighted_arcs import ArcLayout, CompiledPatterns, arc_structure

MOST_AGES = 256  # with more, the chain would cost as much as a table of candidate segments


class AgeLinks(NamedTuple):
    """The terms whose sum is the score of each column of a chain of aged labels, for kernels.   C columns."""

    starts: np.ndarray  # (C + 1,) int64   range of each column's terms
    column: np.ndarray  # int32   score column of the layout
    shift: np.ndarray  # int64   the score is read this many tokens before the current one
    sign: np.ndarray  # float64


class _AgedStates(NamedTuple):
    """The states of a chain of aged labels: (), then each state of an automaton at each age, ordered by aged label.

    P states of the automaton; S states of the chain, without ().
    """

    state: np.ndarray  # (S,)   state of the automaton, in the order of the automaton
    age: np.ndarray  # (S,)
    label: np.ndarray  # (S,)   aged label
    order: np.ndarray  # (S,)   by aged label
    position: np.ndarray  # (S + 1,)   the position of (), and of each state, in that order
    first: np.ndarray  # (P,)   index of each state's first age

    def ids(self, states: np.ndarray, ages: np.ndarray | int) -> np.ndarray:
        """Return the ids of states at the given ages; () has no age."""
        return self.position[self.first[states] + np.where(states > 0, ages, 1) - 1]


class _Increment(NamedTuple):
    """The contribution of a token to the score of its segment, at a range of ages."""

    first: int  # lowest age
    last: int
    shift: int  # the contributing token comes this many tokens before the current one
    sign: float


def _increments(channel: Channel) -> list[_Increment]:
    """Return the contributions of each token to the score of its segment, for a column of the given channel."""
    anchor, offset, shortest, longest = channel
    if channel == WHOLE:
        return []
    if anchor == RANGE:  # each token as soon as enough tokens follow
        return [_Increment(shortest, NO_LIMIT, shortest - 1 - offset, 1.0)]
    if anchor == FROM_START:
        onset = [_Increment(shortest, shortest, shortest - 1 - offset, 1.0)]
        return onset if longest == NO_LIMIT else [*onset, _Increment(longest + 1, longest + 1, longest - offset, -1.0)]
    return [
        _Increment(shortest, longest, offset, 1.0),
        _Increment(shortest + 1, min(longest, NO_LIMIT - 1) + 1, offset + 1, -1.0),
    ]


def what_is_slow(layout: SegmentLayout, longest: int, *others: str) -> list[str]:
    """Return the reasons why a sequence of ``longest`` tokens is slow, for messages; ``others`` are added to them.

    The list is empty if all labels have a maximum length, or ``longest`` is at most ``MOST_AGES``.
    """
    if longest <= MOST_AGES or not (layout.longest == NO_LIMIT).any():
        return []
    return [*what_needs_lengths(layout), *others]


def what_needs_lengths(layout: SegmentLayout) -> list[str]:
    """Return the features and limits of a layout that prevent scoring token by token, as phrases for messages."""
    reasons = []
    if layout.shortest is not None and (layout.shortest > 1).any():
        reasons.append("the shortest segment_length")
    of_lengths = _pairs_of_lengths(layout)
    if any(block.kind == "gamma" for block, _, _ in of_lengths):
        reasons.append("length='gamma'")
    elif any(_n_ages_of(block, feature) > MOST_AGES for block, _, feature in of_lengths):
        reasons.append(f"features of lengths above {MOST_AGES - 2}, or {MOST_AGES - 1} if capped (max_length)")
    whole = layout.features.channel[layout.pair_feature] == layout.channels.index(WHOLE)
    if np.count_nonzero(whole) > len(of_lengths):
        reasons.append("features of whole segments (identity, functions, log odds of texts)")
    if layout.longest[layout.longest < NO_LIMIT].max(initial=0) > MOST_AGES:
        reasons.append(f"other labels with a segment_length above {MOST_AGES}")
    return reasons


def _n_ages_of(block: LengthBlock, feature: int) -> int:
    """Return the number of ages that a feature of lengths distinguishes.

    The weight of length n = feature + 1 is added at age n and, unless it belongs to "n or more", subtracted at age n +
    1; an additional age represents all later tokens.
    """
    is_capped = block.kind == "capped" and feature == block.n_features - 1
    return feature + (2 if is_capped else 3)


def _pairs_of_lengths(layout: SegmentLayout) -> list[tuple[LengthBlock, int, int]]:
    """Return the pairs of length features, each as its block, its index, and the index of the feature in the block."""
    features = layout.pair_feature
    return [
        (block, pair, int(features[pair]) - first)
        for first, block in layout.length_blocks
        for pair in np.flatnonzero((features >= first) & (features < first + block.n_features)).tolist()
    ]


def aged(layout: SegmentLayout) -> AgedLayout:
    """Return the :class:`AgedLayout` of a layout, which the layout keeps for later calls."""
    return layout.derived(AgedLayout)


def tails(layout: SegmentLayout) -> tuple[SegmentIndex, LengthEntries] | None:
    """Return the index of segment scores, and the entries of lengths, for passes with tails, or None.

    The *tail* of a segment consists of its tokens from the highest age of its label on. A label without a maximum
    length has a cell for each length below its highest age, and one cell for a token of the tail, to whose score the
    same columns always contribute. Tails are impossible if the score of a token of the tail is not a sum over columns
    of the token itself, or if the scores of longer patterns depend on the length.
    """
    aged_layout, index = aged(layout), layout.segment_index(MOST_AGES)
    labels = np.flatnonzero(layout.longest == NO_LIMIT)
    last = np.zeros(layout.automaton.n_labels, np.int64)
    last[aged_layout.label] = np.arange(len(aged_layout.label))  # each label's last index is that of its highest age
    columns = last[labels]
    links, starts = aged_layout.links, aged_layout.links.starts
    items = joined_ranges(starts[columns], starts[columns + 1])
    if len(index.span_arc) or links.shift[items].any() or (links.sign[items] < 0).any():
        return None
    tail, longest = index.tail.copy(), index.longest.copy()
    tail[labels] = len(longest) + np.arange(len(labels))
    longest[labels] = aged_layout.age[columns] - 1
    longest = np.append(longest, np.ones(len(labels), np.int64))
    members = np.append(index.member_starts, index.member_starts[-1] + np.cumsum(np.diff(starts)[columns]))
    longest, first_cell, member_starts = freeze_all((longest, offsets_of(longest), members), np.int64)
    index = index._replace(
        longest=longest,
        first_cell=first_cell,
        tail=freeze(tail, np.int32),
        member_starts=member_starts,
        member_column=freeze(np.append(index.member_column, links.column[items]), np.int32),
        member_channel=freeze(np.concatenate([index.member_channel, np.tile(BAG, (len(items), 1))]), np.int32),
    )
    entries, later = layout.length_entries(index), aged_layout.length_entries
    chosen = np.flatnonzero(np.isin(later.cell, columns))
    cells = first_cell[tail[labels]][np.searchsorted(columns, later.cell[chosen])]
    both = zip(entries, (cells, later.weight[chosen], later.value[chosen]), strict=True)
    return index, LengthEntries(*map(np.concatenate, both))


class AgedLayout(ArcLayout):
    """A layout of segments in the form of a chain of aged labels.   L labels, M aged labels, A arcs.

    Parameters
    ----------
    layout : SegmentLayout
        A layout whose scores are sums over tokens: :func:`what_needs_lengths` returns an empty list for it.

    Attributes
    ----------
    label, age : ndarray of shape (M,)
        Label and age of each aged label; those of age 1 come first, in the order of the labels.
    n_columns : int
        Number of columns of the chain: aged labels, then columns that change the scores of arcs.
    compiled, arc_structure, bias_pattern, first_bias
        As in :class:`ArcLayout`, for the automaton over aged labels, whose ``pattern_arc`` contains the arcs of the
        layout's patterns.
    links : AgeLinks
    length_entries : LengthEntries
        The weights of lengths and tokens, and the columns of the chain to which they contribute.
    layout_arc : ndarray of shape (A,), int64
        The corresponding arc of the layout for each arc with a label of age 1; -1 for all other arcs.
    """

    def __init__(self, layout: SegmentLayout) -> None:
        self.bias_pattern, self.first_bias = layout.bias_pattern, layout.first_bias
        increments = [_increments(layout.channels[channel]) for channel in layout.column_channel]
        self._set_ages(layout, increments)
        column_of_arc = self._compile(layout)
        self.arc_structure = arc_structure(self.compiled, column_of_arc)
        items = [
            (self._columns[pattern, age], column, shift, sign)
            for column, pattern in enumerate(layout.column_pattern.tolist())
            for first, last, shift, sign in increments[column]
            for age in range(first, min(last, self._n_ages(layout, pattern)) + 1)
        ]
        target, column, shift, sign = np.array(items).reshape(-1, 4).T
        order = np.argsort(target, kind="stable")
        starts = group_offsets(target.astype(np.int64), self.n_columns)
        of_links = starts, column[order], shift[order], sign[order]
        self.links = AgeLinks(*freeze_all(of_links, np.int64, np.int32, np.int64, np.float64))
        self.length_entries = self._length_entries(layout)

    def _n_ages(self, layout: SegmentLayout, row: int) -> int:
        """Return the number of ages at which segments that end with a pattern have separate scores."""
        return int(self._most[layout.patterns.labels[row, -1]]) if self._has_ages[row] else 1

    def _set_ages(self, layout: SegmentLayout, increments: list[list[_Increment]]) -> None:
        """Set the ages that scores distinguish, and number the columns of the chain."""
        n_labels, last_label = layout.automaton.n_labels, layout.patterns.labels[:, -1]
        most, has_ages = np.full(n_labels, 2), np.zeros(len(last_label), bool)
        has_ages[:n_labels] = True
        is_own = np.zeros(len(last_label), bool)  # has separate columns
        is_own[:n_labels] = True
        for column, pattern in enumerate(layout.column_pattern.tolist()):
            changes = [age for part in increments[column] for age in (part.first, part.last + 1)]
            is_own[pattern] = True
            has_ages[pattern] |= layout.channels[layout.column_channel[column]] != BEGIN
            label = last_label[pattern]
            most[label] = max([most[label], *(age for age in changes if age <= NO_LIMIT)])
        for block, pair, feature in _pairs_of_lengths(layout):
            label = last_label[layout.pair_pattern[pair]]
            most[label] = max(most[label], _n_ages_of(block, feature))
        self._loops = layout.longest == NO_LIMIT
        self._most, self._has_ages = np.where(self._loops, most, layout.longest), has_ages
        later = self._most - 1
        self.label = np.concatenate([np.arange(n_labels), np.repeat(np.arange(n_labels), later)])
        first_later = n_labels + offsets_of(later)
        self.age = np.concatenate([np.ones(n_labels, np.int64), 2 + joined_ranges(0 * later, later)])
        self._first_later = first_later
        self._columns = {(int(y), int(a)): m for m, (y, a) in enumerate(zip(self.label, self.age, strict=True))}
        for row in np.flatnonzero(is_own)[n_labels:].tolist():
            for age in range(1, self._n_ages(layout, row) + 1):
                self._columns[row, age] = len(self._columns)
        self.n_columns = len(self._columns)

    def _with_states(self, layout: SegmentLayout) -> tuple[CompiledPatterns, np.ndarray]:
        """Return compiled patterns with a state for each pattern that has ages, and the arcs of the layout's patterns.

        While a segment continues, the state must determine the patterns that end with the segment. In the automaton of
        the layout, only prefixes of patterns have states.
        """
        tuples, base = layout.patterns.tuples(), layout.compiled
        trie, spans = base.automaton, np.flatnonzero(self._has_ages)[layout.automaton.n_labels :]
        if (trie.state_length[trie.arc_target[trie.pattern_arc[spans]]] == layout.patterns.lengths[spans]).all():
            return base, trie.pattern_arc
        base = layout.compiled_with_states([tuples[span] for span in spans])
        row_of = {pattern: row for row, pattern in enumerate(base.patterns.tuples())}
        return base, base.automaton.pattern_arc[[row_of[pattern] for pattern in tuples]]

    def _aged_states(self, trie: PatternAutomaton) -> _AgedStates:
        """Return the states of the chain."""
        n_ages = np.append(0, self._most[trie.state_label[1:]])
        state, age = np.repeat(np.arange(trie.n_states), n_ages), 1 + joined_ranges(0 * n_ages, n_ages)
        label = trie.state_label[state]
        label = np.where(age == 1, label, self._first_later[label] + age - 2)
        order, first = np.lexsort((state, label)), np.append(0, 1 + offsets_of(n_ages)[1:-1])
        return _AgedStates(state, age, label, order, np.append(0, 1 + np.argsort(order)), first)

    def _compile(self, layout: SegmentLayout) -> np.ndarray:
        """Compile the automaton, and return the column of each arc, or -1."""
        n_labels, n_patterns = layout.automaton.n_labels, len(layout.patterns.lengths)
        base, pattern_arc = self._with_states(layout)
        trie = base.automaton
        n_trie_arcs, single = trie.n_arcs, trie.arc_target[pattern_arc[:n_labels]]  # states of single labels

        states = self._aged_states(trie)
        state, age, labels, order = states.state, states.age, states.label, states.order
        length, state_id = trie.state_length[state], states.ids

        # arcs: those of the automaton, those that continue a segment, and closed arcs for ages that cannot be read. A
        # state without an arc for a label uses the arc of a lower age, or else of a suffix. The empty state therefore
        # has closed arcs for all ages above 1, with which no segment begins, and each state has a closed arc for its
        # own age, which only the state at the age below can read. At the highest age of a label without a maximum
        # length, this arc is open: it is the loop for all later tokens
        stays = np.flatnonzero(age > 1)
        to, at = state[stays], age[stays]
        of_stay = np.full((trie.n_states, int(self._most.max()) + 1), -1)
        of_stay[to, at] = n_trie_arcs + np.arange(len(stays))
        later = np.arange(n_labels, len(self.label))
        shut = stays[(at < self._most[trie.state_label[to]]) | ~self._loops[trie.state_label[to]]]
        n_closed = len(later) + len(shut)
        columns = {
            "source": [state_id(trie.arc_source, 1), state_id(to, at - 1), 0 * later, state_id(state[shut], age[shut])],
            "label": [trie.arc_label, labels[stays], later, labels[shut]],
            "target": [
                state_id(trie.arc_target, 1),
                state_id(to, at),
                state_id(single[self.label[later]], self.age[later]),
                state_id(state[shut], age[shut]),
            ],
            "suffix": [trie.arc_suffix, of_stay[trie.fail[to], at], np.full(n_closed, -1)],
            "length": [trie.arc_length, length[stays], np.ones(n_closed, np.int64)],
            "layout": [self._arcs_of_layout(layout, trie), np.full(len(stays) + n_closed, -1)],
        }
        source, label, target, suffix, arc_length, layout_arc = (np.concatenate(part) for part in columns.values())
        is_closed, n_arcs = np.zeros(len(source), bool), len(source)
        is_closed[trie.n_open : n_trie_arcs] = is_closed[n_arcs - n_closed :] = True
        arcs = np.lexsort((np.arange(n_arcs), arc_length, target, is_closed))
        new = np.argsort(arcs)
        suffix = np.where(suffix < 0, -1, new[suffix])[arcs]
        source, target, arc_length = source[arcs], target[arcs], arc_length[arcs]
        arc_pattern = np.full(n_arcs, -1)
        arc_pattern[new[pattern_arc]] = np.arange(n_patterns)
        tables = (
            np.append(-1, labels[order]),
            np.append(0, length[order]),
            np.append(0, state_id(np.where(age > 1, state, trie.fail[state]), np.maximum(age - 1, 1))[order]),
            source,
            label[arcs],
            target,
            suffix,
            arc_length,
            arc_pattern,
            new[pattern_arc],
        )
        into, out_of = (group_offsets(of, 1 + len(state)) for of in (target[~is_closed[arcs]], source))
        ranges = into, out_of, freeze(np.argsort(source, kind="stable"), np.int32)
        automaton = PatternAutomaton(len(self.label), *[*freeze_all(tables, np.int32), *ranges])
        forbidden = freeze(np.concatenate([new[base.forbidden_arcs], new[n_arcs - n_closed :]]), np.int32)
        network = build_sum_network(automaton)
        self.layout_arc = layout_arc[arcs]
        self.compiled = CompiledPatterns(layout.patterns, automaton, network, forbidden, longer_arcs(arc_length))
        arcs_at_ages = of_stay[trie.arc_target[pattern_arc]]  # of patterns with states
        arcs_at_ages[:, 1] = pattern_arc
        column_of_arc = np.full(n_arcs, -1)
        for (row, at_age), column in self._columns.items():
            if row >= n_labels:
                column_of_arc[new[arcs_at_ages[row, at_age]]] = column
        return column_of_arc

    @staticmethod
    def _arcs_of_layout(layout: SegmentLayout, trie: PatternAutomaton) -> np.ndarray:
        """Return, for each arc of an automaton with more states, the arc of the layout with the same weights."""
        kept = layout.automaton
        if trie is kept:
            return np.arange(kept.n_arcs)
        arc_of = {
            key: arc for arc, key in enumerate(zip(kept.arc_source.tolist(), kept.arc_label.tolist(), strict=True))
        }
        state_of, layout_arc = np.zeros(trie.n_states, np.int64), np.empty(trie.n_arcs, np.int64)
        for arc in np.argsort(trie.arc_length, kind="stable").tolist():
            state, label, target = int(state_of[trie.arc_source[arc]]), int(trie.arc_label[arc]), trie.arc_target[arc]
            while (state, label) not in arc_of:
                state = int(kept.fail[state])
            layout_arc[arc] = arc_of[state, label]
            if trie.state_length[target] == trie.arc_length[arc]:  # the edge of the trie that leads to the state
                state_of[target] = kept.arc_target[layout_arc[arc]]
        return layout_arc

    def _length_entries(self, layout: SegmentLayout) -> LengthEntries:
        """Return the contributions of length and token weights to columns of the chain."""
        entries: list[tuple[int, int, float]] = []
        for index, label in enumerate(layout.token_labels.tolist(), start=layout.n_pairs):
            entries += [(self._columns[label, age], index, 1.0) for age in range(1, int(self._most[label]) + 1)]
        for block, pair, feature in _pairs_of_lengths(layout):
            added = np.diff(block.table(MOST_AGES)[:, feature], prepend=0.0)  # at each age
            row = int(layout.pair_pattern[pair])
            ages = np.flatnonzero(added[: self._n_ages(layout, row)])
            entries += [(self._columns[row, age + 1], pair, added[age]) for age in ages.tolist()]
        column, weight, value = np.array(entries).reshape(-1, 3).T
        return LengthEntries(column.astype(np.int64), weight.astype(np.int64), value)

    def allowed(self, mask: Mask) -> np.ndarray:
        """Return which aged labels each token may have under a mask of labels and borders; shape (N, M), bool."""
        may_be = np.where(self.age == 1, mask.begins[:, None] >= 0, mask.begins[:, None] <= 0)
        return freeze(mask.allowed[:, self.label] & may_be, np.bool_)

    def tags(self) -> Tags:
        """Return the aged labels as tags, which encode segments."""
        follows = self.age[:, None] + 1 == self.age
        last = self.age == self._most[self.label]
        follows |= np.diag(last & self._loops[self.label])
        goes_on = (self.label[:, None] == self.label) & (self.age > 1) & follows
        return Tags(freeze(goes_on, np.bool_), freeze(self.label, np.int32))

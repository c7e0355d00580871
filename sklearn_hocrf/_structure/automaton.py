"""The pattern automaton: label patterns compiled to states, arcs and failure links.

States are the empty pattern, every label and every proper prefix of a pattern (JMLR 15, section 2.2). Arcs are the
edges of the trie of all patterns, so an arc *is* a prefix of a pattern, and every pattern has exactly one arc. After
reading some labels the automaton is in the state that is their longest suffix among the states (Aho and Corasick,
1975).

Where patterns are of segments, the labels that it has read are those of segments. Each state of two or more labels has
a *loop*, an arc that reads its last label once more and stays in it; what it is worth is staying, the pair of equal
labels, or the label alone if it is never seen to stay. So the cost does not depend on the lengths of segments.

Where labels are tags, all of this is done with each tag of a segment label: a state also has the tag that was read
last, so each history has a state for every tag of its last label. A pattern has as many arcs as there are pairs of a
tag that ends its last segment but one, and a tag that begins its last one: all of them have its weight. Loops read tags
that go on with the segment; what they are worth is a pair of tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._data.arrays import freeze, freeze_all, group_offsets, offsets_of
from .patterns import PatternTable, TagHistory, given_patterns

__all__ = ["PatternAutomaton", "automaton_with_arcs", "build_automaton", "with_last_arcs"]


class PatternAutomaton(NamedTuple):
    """Compiled label patterns.   L labels, Z patterns, P states, A arcs.

    State 0 is the empty pattern; the others are sorted by last label, length and labels. Arcs are sorted by target and
    length, so the arcs into a state, and all arcs that read one label, are neighbours. Arcs that never carry any mass
    may come after all others; ``into`` leaves them out.
    """

    n_labels: int
    state_label: np.ndarray  # (P,) int32   last label; -1 for the empty pattern
    state_length: np.ndarray  # (P,) int32
    fail: np.ndarray  # (P,) int32   longest proper suffix that is a state; fail[0] == 0
    arc_source: np.ndarray  # (A,) int32   state the arc leaves
    arc_label: np.ndarray  # (A,) int32   label it reads
    arc_target: np.ndarray  # (A,) int32   state it enters
    arc_suffix: np.ndarray  # (A,) int32   arc that is its longest proper suffix; -1 for single labels
    arc_length: np.ndarray  # (A,) int32   number of labels of the source, plus 1
    arc_pattern: np.ndarray  # (A,) int32   row of the pattern table, or -1 if the arc is only a prefix
    into: np.ndarray  # (P + 1,) int64   range of the arcs into each state that may carry mass
    outgoing: np.ndarray  # (P + 1,) int64   range of the arcs that leave each state in source_arcs
    source_arcs: np.ndarray  # (A,) int32   arcs by source

    def __repr__(self) -> str:
        n_patterns = len(np.unique(self.arc_pattern[self.arc_pattern >= 0]))
        sizes = f"{self.n_labels} labels, {n_patterns} patterns, {self.n_states} states, {self.n_arcs} arcs"
        return f"PatternAutomaton({sizes})"

    @property
    def n_states(self) -> int:
        return len(self.fail)

    @property
    def n_arcs(self) -> int:
        return len(self.arc_source)

    @property
    def n_open(self) -> int:
        """Number of the arcs that may carry mass."""
        return int(self.into[-1])


def build_automaton(patterns: PatternTable, n_labels: int) -> PatternAutomaton:
    """Compile patterns, in time linear in their total length (up to sorting).

    Parameters
    ----------
    patterns : PatternTable
        Patterns, including all single labels.
    n_labels : int
        Number of labels L.

    Returns
    -------
    PatternAutomaton

    Examples
    --------
    >>> from sklearn_hocrf._structure.patterns import given_patterns
    >>> automaton = build_automaton(given_patterns([(0, 1, 0)], 2), 2)
    >>> automaton.n_states, automaton.n_arcs  # (), 0, 1, 01;  0, 1, 01, 010
    (4, 4)
    """
    tags = TagHistory.of(patterns.history, n_labels)
    of_label = np.array(tags.codes) - tags.first  # the segment label of each label
    n_segment_labels = tags.n_codes - tags.first
    pairs, longer = patterns.are_pairs(), patterns.lengths > 1
    rows = np.flatnonzero(longer & ~pairs)
    of_rows = patterns.labels[rows] - tags.first, patterns.lengths[rows]
    parent, label, length, node_of_row = _build_trie(*of_rows, n_segment_labels)
    is_state = np.zeros(len(parent), dtype=bool)
    is_state[parent] = True  # the root (node 0) and proper prefixes
    is_state[length == 1] = True
    longest_suffix, fail = _suffix_links(parent, label, length, is_state, n_segment_labels)
    reached = np.arange(len(parent))
    while not is_state[reached].all():
        reached = np.where(is_state[reached], reached, longest_suffix[reached])
    pattern_of_node = np.full(len(parent), -1)
    pattern_of_node[node_of_row] = rows

    # a state is a node with a label of its last segment; those of a node are neighbours
    labels = np.argsort(of_label, kind="stable")
    starts = group_offsets(of_label, n_segment_labels)
    rank = np.empty(n_labels, dtype=np.int64)
    rank[labels] = np.arange(n_labels) - starts[of_label[labels]]
    nodes = np.flatnonzero(is_state)[1:]
    n_states_of_node = np.diff(starts)[label[nodes]]
    first_state = np.full(len(parent), -1)
    first_state[0], first_state[nodes] = 0, 1 + offsets_of(n_states_of_node)[:-1]
    node_of_state = np.append(0, np.repeat(nodes, n_states_of_node))
    label_of_state = np.full(len(node_of_state), -1)
    label_of_state[1:] = labels[_ranks(n_states_of_node) + np.repeat(starts[label[nodes]], n_states_of_node)]

    def state(node: np.ndarray, y: np.ndarray) -> np.ndarray:
        return first_state[node] + np.where(node > 0, rank[y], 0)

    def steps(before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return all labels of some segment labels, each with all labels of others, and the indices of both."""
        sizes = np.diff(starts)[before], np.diff(starts)[after]
        index = np.repeat(np.arange(len(before)), sizes[0] * sizes[1])
        left, right = np.divmod(_ranks(sizes[0] * sizes[1]), np.maximum(sizes[1][index], 1))
        return index, labels[starts[before[index]] + left], labels[starts[after[index]] + right]

    # arcs of single labels; pairs in one segment, or forbidden; of patterns and their prefixes; loops
    every = np.arange(n_labels)
    singles = np.zeros_like(every), every, state(1 + of_label, every), every, np.full_like(every, -1)
    x, y = patterns.labels[pairs, -2:].T if pairs.any() else (every[:0], every[:0])
    of_pairs = state(1 + of_label[x], x), y, state(1 + of_label[y], y), np.flatnonzero(pairs), y
    key_of_pair = of_pairs[0] * n_labels + y
    nodes = np.flatnonzero(length > 1)
    index, x, y = steps(label[parent[nodes]], label[nodes])
    is_border = tags.border(x, y)
    nodes, x, y = nodes[index[is_border]], x[is_border], y[is_border]
    suffix = np.where(length[longest_suffix[nodes]] > 1, state(parent[longest_suffix[nodes]], x), 0) * n_labels + y
    of_nodes = state(parent[nodes], x), y, state(reached[nodes], y), pattern_of_node[nodes], suffix
    nodes = np.flatnonzero(is_state & (length > 1))
    index, x, y = steps(label[nodes], label[nodes])
    stays = tags.stay(x, y)
    nodes, x, y = nodes[index[stays]], x[stays], y[stays]
    pair = state(1 + of_label[x], x) * n_labels + y
    of_loops = state(nodes, x), y, state(nodes, y), np.full_like(y, -1), np.where(np.isin(pair, key_of_pair), pair, y)
    source, arc_label, target, pattern, suffix = map(
        np.concatenate, zip(singles, of_pairs, of_nodes, of_loops, strict=True)
    )
    is_loop = np.arange(len(source)) >= len(source) - len(of_loops[0])

    # number the states by (last label, length, trie order), the arcs by (target, length)
    states = np.lexsort((node_of_state, length[node_of_state], label_of_state))  # the root has label -1
    new = np.empty_like(states)
    new[states] = np.arange(len(states))
    arc_length = 1 + length[node_of_state[source]]
    arcs = np.lexsort((source, is_loop, arc_length, new[target]))
    by_key = np.argsort(source[arcs] * n_labels + arc_label[arcs])
    keys = (source[arcs] * n_labels + arc_label[arcs])[by_key]
    suffix = np.where(suffix < 0, -1, by_key[np.minimum(np.searchsorted(keys, suffix), len(keys) - 1)])
    fails = state(fail[node_of_state], label_of_state)
    columns = (
        label_of_state[states],
        length[node_of_state[states]],
        new[fails[states]],
        new[source[arcs]],
        arc_label[arcs],
        new[target[arcs]],
        suffix[arcs],
        arc_length[arcs],
        pattern[arcs],
    )
    ranges = group_offsets(columns[5], len(states)), group_offsets(columns[3], len(states))
    source_arcs = freeze(np.argsort(columns[3], kind="stable"), np.int32)
    return PatternAutomaton(int(n_labels), *[*freeze_all(columns, np.int32), *ranges, source_arcs])


def _ranks(sizes: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... for each of several neighbouring groups."""
    return np.arange(sizes.sum()) - np.repeat(offsets_of(sizes)[:-1], sizes)


def automaton_with_arcs(
    patterns: PatternTable, runs: Sequence[tuple[int, ...]], n_labels: int
) -> tuple[PatternAutomaton, np.ndarray]:
    """Compile patterns, with an arc for each of the given runs of two or more label codes.

    Returns the automaton, and which arcs end with one of the runs.
    """
    given = patterns.tuples()
    table = given_patterns([*given, *runs], n_labels, patterns.history)
    row = {pattern: index for index, pattern in enumerate(table.tuples())}
    automaton = build_automaton(table, n_labels)
    ends = np.isin(automaton.arc_pattern, [row[run] for run in runs])
    for length in range(3, int(automaton.arc_length.max()) + 1):
        arcs = np.flatnonzero(automaton.arc_length == length)
        ends[arcs] |= ends[automaton.arc_suffix[arcs]]
    given_row = np.full(len(row) + 1, -1)  # the last: of arcs that are only prefixes
    given_row[[row[pattern] for pattern in given]] = np.arange(len(given))
    return automaton._replace(arc_pattern=freeze(given_row[automaton.arc_pattern], np.int32)), ends


def with_last_arcs(automaton: PatternAutomaton, is_last: np.ndarray) -> PatternAutomaton:
    """Return the automaton with some arcs moved after all others, and left out of ``into``."""
    order = np.argsort(is_last, kind="stable")
    new_index = np.empty(len(order), dtype=np.int64)
    new_index[order] = np.arange(len(order))
    suffix = automaton.arc_suffix[order]
    columns = {
        "arc_source": automaton.arc_source[order],
        "arc_label": automaton.arc_label[order],
        "arc_target": automaton.arc_target[order],
        "arc_suffix": np.where(suffix < 0, -1, new_index[suffix]),
        "arc_length": automaton.arc_length[order],
        "arc_pattern": automaton.arc_pattern[order],
        "source_arcs": np.argsort(automaton.arc_source[order], kind="stable"),
    }
    kept = automaton.arc_target[~is_last]
    columns = dict(zip(columns, freeze_all(columns.values(), np.int32), strict=True))
    return automaton._replace(**columns, into=group_offsets(kept, automaton.n_states))


def _build_trie(
    labels: np.ndarray, lengths: np.ndarray, n_labels: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return parent, last label and depth of every trie node (node 0 is the root) and the node of every pattern.

    Patterns are right-aligned. There are nodes of all single labels, which need not be among the patterns.
    """
    n_patterns, longest = labels.shape
    labels = np.concatenate([labels, np.repeat(np.arange(n_labels)[:, None], longest, axis=1)])
    lengths = np.concatenate([lengths, np.ones(n_labels, lengths.dtype)])
    node = np.zeros(len(lengths), dtype=np.int64)  # node of each pattern's prefix read so far
    parents, of_nodes, depths = [np.zeros(1, np.int64)], [np.full(1, -1)], [np.zeros(1, np.int64)]
    n_nodes = 1
    for depth in range(1, longest + 1):
        rows = np.flatnonzero(lengths >= depth)
        next_label = labels[rows, longest - lengths[rows] + depth - 1]
        keys, inverse = np.unique(node[rows] * n_labels + next_label, return_inverse=True)
        parents.append(keys // n_labels)
        of_nodes.append(keys % n_labels)
        depths.append(np.full(len(keys), depth))
        node[rows] = n_nodes + inverse
        n_nodes += len(keys)
    return np.concatenate(parents), np.concatenate(of_nodes), np.concatenate(depths), node[:n_patterns]


def _suffix_links(
    parent: np.ndarray, label: np.ndarray, length: np.ndarray, is_state: np.ndarray, n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for every node, its longest proper suffix among the nodes, and among the states.

    Depth by depth: the suffix of ``p y`` is ``q y`` for the longest suffix state q of p that has a y-edge.
    """
    edge_keys = parent[1:] * n_labels + label[1:]  # node ids follow these keys, so they are sorted
    longest_suffix = np.zeros(len(parent), dtype=np.int64)
    fail = np.zeros(len(parent), dtype=np.int64)
    for depth in range(2, int(length.max()) + 1):
        nodes = np.flatnonzero(length == depth)
        suffix = fail[parent[nodes]]
        unresolved = np.arange(len(nodes))
        while len(unresolved):
            keys = suffix[unresolved] * n_labels + label[nodes[unresolved]]
            edge = np.minimum(np.searchsorted(edge_keys, keys), len(edge_keys) - 1)
            has_edge = edge_keys[edge] == keys
            longest_suffix[nodes[unresolved[has_edge]]] = edge[has_edge] + 1
            unresolved = unresolved[~has_edge]
            suffix[unresolved] = fail[suffix[unresolved]]
        link = longest_suffix[nodes]
        while not is_state[link].all():
            link = np.where(is_state[link], link, longest_suffix[link])
        fail[nodes] = link
    return longest_suffix, fail

"""The pattern automaton: label patterns compiled into states, arcs and failure links.

States are the empty pattern, every label and every proper prefix of a pattern (JMLR 15, section 2.2). Arcs are the
edges of the trie of all patterns, so each arc stands for a prefix of a pattern, and exactly one arc stands for each
pattern. After reading some labels, the automaton is in the state that is their longest suffix among the states (Aho and
Corasick, 1975).

With a history of segments, the automaton reads the labels of segments. Each state of two or more labels has a *loop*,
an arc that reads the state's last label again and returns to the state. A loop has the same score as the arc of the
pair of equal labels (which continues the segment) or, if this pair is not a pattern, as the arc of the single label.
The numbers of states and arcs therefore do not depend on the lengths of segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._data.arrays import freeze_all, group_offsets
from .patterns import SEGMENTS, PatternTable, given_patterns


class PatternAutomaton(NamedTuple):
    """Compiled label patterns.   L labels, Z patterns, P states, A arcs.

    State 0 is the empty pattern; the others are sorted by last label, length and labels. Arcs are sorted by target and
    length, so the arcs into a state are contiguous, as are all arcs that read the same label. Forbidden arcs carry no
    mass; they may come after all other arcs, and ``into`` then excludes them.
    """

    n_labels: int
    state_label: np.ndarray  # (P,) int32   last label; -1 for the empty pattern
    state_length: np.ndarray  # (P,) int32
    fail: np.ndarray  # (P,) int32   longest proper suffix that is a state; fail[0] == 0
    arc_source: np.ndarray  # (A,) int32   state that the arc leaves
    arc_label: np.ndarray  # (A,) int32   label that the arc reads
    arc_target: np.ndarray  # (A,) int32   state that the arc enters
    arc_suffix: np.ndarray  # (A,) int32   arc of its longest proper suffix; -1 for single labels
    arc_length: np.ndarray  # (A,) int32   number of labels of the source, plus 1
    arc_pattern: np.ndarray  # (A,) int32   row of the pattern table, or -1 if the arc is only a prefix
    pattern_arc: np.ndarray  # (Z,) int32   the arc of each pattern
    into: np.ndarray  # (P + 1,) int64   range of the arcs that enter each state and may carry mass
    outgoing: np.ndarray  # (P + 1,) int64   range, in source_arcs, of the arcs that leave each state
    source_arcs: np.ndarray  # (A,) int32   arcs sorted by source, then by label

    def __repr__(self) -> str:
        sizes = f"{self.n_labels} labels, {len(self.pattern_arc)} patterns, {self.n_states} states, {self.n_arcs} arcs"
        return f"PatternAutomaton({sizes})"

    @property
    def n_states(self) -> int:
        return len(self.fail)

    @property
    def n_arcs(self) -> int:
        return len(self.arc_source)

    @property
    def n_open(self) -> int:
        """Number of arcs that may carry mass."""
        return int(self.into[-1])


def build_automaton(patterns: PatternTable, n_labels: int) -> PatternAutomaton:
    """Compile patterns in time linear in their total length, apart from sorting.

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
    >>> from sklearn_hocrf._engine.structure.patterns import given_patterns
    >>> automaton = build_automaton(given_patterns([(0, 1, 0)], 2), 2)
    >>> automaton.n_states, automaton.n_arcs  # (), 0, 1, 01;  0, 1, 01, 010
    (4, 4)
    """
    pairs = np.flatnonzero(patterns.are_pairs())
    rows = np.setdiff1d(np.flatnonzero(patterns.lengths > 1), pairs, assume_unique=True)
    trie = _Trie(patterns.labels[rows], patterns.lengths[rows], n_labels)
    nodes, state = np.flatnonzero(trie.is_state), np.zeros(len(trie.parent), dtype=np.int64)
    state[nodes] = np.arange(len(nodes))  # the root comes first, then the single labels
    pattern_of_node = np.full(len(trie.parent), -1)
    pattern_of_node[trie.node_of_row] = rows

    # arcs as (source, label, target, pattern, source of the suffix): those of single labels, of pairs in one segment,
    # and of other patterns and their prefixes; then the loops
    y = np.arange(n_labels)
    singles = np.zeros_like(y), y, 1 + y, y, np.full_like(y, -1)
    y = patterns.labels[pairs, -1]
    of_pairs = 1 + y, y, 1 + y, pairs, np.zeros_like(y)
    node = np.flatnonzero(trie.depth > 1)
    shorter = trie.longest_suffix[node]
    before = np.where(trie.depth[shorter] > 1, state[trie.parent[shorter]], 0)
    reached = state[trie.reached[node]]
    of_nodes = state[trie.parent[node]], trie.label[node], reached, pattern_of_node[node], before
    # longer states that end with y do not use the arc for staying in the segment, because each has a loop
    loop = np.flatnonzero((trie.depth[nodes] > 1) & (patterns.history == SEGMENTS))
    y = trie.label[nodes[loop]]
    loops = loop, y, loop, np.full_like(y, -1), np.where(np.isin(y, of_pairs[1]), 1 + y, 0)
    kinds = zip(singles, of_pairs, of_nodes, loops, strict=True)
    source, label, target, pattern, before = (np.concatenate(column) for column in kinds)

    # sort the states by (last label, length, trie order), and the arcs by (target, length)
    state_label, state_length = trie.label[nodes], trie.depth[nodes]
    order = np.lexsort((nodes, state_length, state_label))  # the root has label -1
    new = np.empty_like(order)
    new[order] = np.arange(len(order))
    is_loop, length = np.arange(len(source)) >= len(source) - len(loop), 1 + state_length[source]
    arcs = np.lexsort((source, is_loop, length, new[target]))
    key = source[arcs] * n_labels + label[arcs]
    by_key = np.argsort(key)
    suffix = by_key[np.searchsorted(key, np.maximum(before, 0) * n_labels + label, sorter=by_key)]
    columns = (
        state_label[order],
        state_length[order],
        new[state[trie.fail[nodes]][order]],
        new[source[arcs]],
        label[arcs],
        new[target[arcs]],
        np.where(before < 0, -1, suffix)[arcs],
        length[arcs],
        pattern[arcs],
        _first_arcs(pattern[arcs], len(patterns.lengths)),
    )
    ranges = group_offsets(columns[5], len(order)), group_offsets(columns[3], len(order))
    *arrays, source_arcs = freeze_all((*columns, np.argsort(columns[3], kind="stable")), np.int32)
    return PatternAutomaton(int(n_labels), *[*arrays, *ranges, source_arcs])


def _first_arcs(arc_pattern: np.ndarray, n_patterns: int) -> np.ndarray:
    """Return the first arc of each pattern, -1 for patterns without an arc."""
    first = np.full(n_patterns + 1, -1)  # the last element is for arcs without a pattern
    first[arc_pattern[::-1]] = np.arange(len(arc_pattern))[::-1]
    return first[:n_patterns]


def longer_arcs(arc_length: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the arcs of two labels, of three labels, and so on."""
    return tuple(np.flatnonzero(arc_length == n) for n in range(2, int(arc_length.max()) + 1))


def automaton_with_arcs(
    patterns: PatternTable, runs: Sequence[tuple[int, ...]], n_labels: int
) -> tuple[PatternAutomaton, np.ndarray]:
    """Compile patterns together with runs of two or more label codes, each of which gets an arc.

    The result consists of the automaton, in which ``arc_pattern`` refers only to the patterns, and a mask of the arcs
    that end with one of the runs.
    """
    tuples = patterns.tuples()
    table = given_patterns([*tuples, *runs], n_labels, patterns.history)
    row = {pattern: index for index, pattern in enumerate(table.tuples())}
    automaton = build_automaton(table, n_labels)
    ends = np.isin(automaton.arc_pattern, [row[run] for run in runs])
    for arcs in longer_arcs(automaton.arc_length):
        ends[arcs] |= ends[automaton.arc_suffix[arcs]]
    original_row = np.full(len(row) + 1, -1)  # the last element is for arcs that are only prefixes
    original_row[[row[pattern] for pattern in tuples]] = np.arange(len(tuples))
    arc_pattern = original_row[automaton.arc_pattern]
    arc_pattern, pattern_arc = freeze_all((arc_pattern, _first_arcs(arc_pattern, len(tuples))), np.int32)
    return automaton._replace(arc_pattern=arc_pattern, pattern_arc=pattern_arc), ends


def with_last_arcs(automaton: PatternAutomaton, is_last: np.ndarray) -> PatternAutomaton:
    """Return the automaton with the marked arcs moved to the end and excluded from ``into``."""
    order = np.argsort(is_last, kind="stable")
    new_index = np.empty(len(order), dtype=np.int64)
    new_index[order] = np.arange(len(order))
    of_arcs = [name for name in automaton._fields if name.startswith("arc_")]
    columns: dict[str, Any] = {name: getattr(automaton, name)[order] for name in of_arcs}
    columns["arc_suffix"] = np.where(columns["arc_suffix"] < 0, -1, new_index[columns["arc_suffix"]])
    columns["pattern_arc"] = _first_arcs(columns["arc_pattern"], len(automaton.pattern_arc))
    columns["source_arcs"] = np.lexsort((columns["arc_label"], columns["arc_source"]))
    kept = automaton.arc_target[~is_last]
    columns = dict(zip(columns, freeze_all(columns.values(), np.int32), strict=True))
    return automaton._replace(**columns, into=group_offsets(kept, automaton.n_states))


class _Trie:
    """The trie of patterns and all single labels, with the longest suffixes of its nodes.   Node 0 is the root.

    Parameters
    ----------
    labels, lengths : ndarray
        Patterns of two or more labels, right-aligned.
    n_labels : int
    """

    def __init__(self, labels: np.ndarray, lengths: np.ndarray, n_labels: int) -> None:
        n_patterns, longest = labels.shape
        labels = np.concatenate([labels, np.repeat(np.arange(n_labels)[:, None], longest, axis=1)])
        lengths = np.concatenate([lengths, np.ones(n_labels, lengths.dtype)])
        node = np.zeros(len(lengths), dtype=np.int64)  # node of the part of each pattern that has been read so far
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
        self.parent, self.label, self.depth = (np.concatenate(column) for column in (parents, of_nodes, depths))
        self.node_of_row = node[:n_patterns]
        self.is_state = np.zeros(n_nodes, dtype=bool)
        self.is_state[self.parent] = True  # the root and all proper prefixes
        self.is_state[self.depth == 1] = True
        links = self.parent, self.label, self.depth, self.is_state
        self.longest_suffix, self.fail = _suffix_links(*links, n_labels)
        self.reached = np.arange(n_nodes)  # the state to which each node leads
        while not self.is_state[self.reached].all():
            self.reached = np.where(self.is_state[self.reached], self.reached, self.longest_suffix[self.reached])


def _suffix_links(
    parent: np.ndarray, label: np.ndarray, length: np.ndarray, is_state: np.ndarray, n_labels: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the longest proper suffix of each node, both among all nodes and among the states.

    The function proceeds depth by depth: the suffix of ``p y`` is ``q y``, where q is the longest state that is a
    proper suffix of p and has an edge for label y.
    """
    edge_keys = parent[1:] * n_labels + label[1:]  # node ids are in the order of these keys, so the keys are sorted
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

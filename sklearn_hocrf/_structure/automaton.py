"""The pattern automaton: label patterns compiled to states, arcs and failure links.

States are the empty pattern, every label and every proper prefix of a pattern (JMLR 15, section 2.2). Arcs are the
edges of the trie of all patterns, so an arc *is* a prefix of a pattern, and every pattern has exactly one arc. After
reading some labels the automaton is in the state that is their longest suffix among the states (Aho and Corasick,
1975).

Where patterns are of segments, the labels that it has read are those of segments. Each state of two or more labels has
a *loop*, an arc that reads its last label once more and stays in it; what it is worth is staying, the pair of equal
labels, or the label alone if it is never seen to stay. So the cost does not depend on the lengths of segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._data.arrays import freeze_all, group_offsets
from .patterns import SEGMENTS, PatternTable, given_patterns

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
    pattern_arc: np.ndarray  # (Z,) int32
    into: np.ndarray  # (P + 1,) int64   range of the arcs into each state that may carry mass
    outgoing: np.ndarray  # (P + 1,) int64   range of the arcs that leave each state in source_arcs
    source_arcs: np.ndarray  # (A,) int32   arcs by source

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
    parent, label, length, node_of_pattern = _build_trie(patterns, n_labels)
    is_state = np.zeros(len(parent), dtype=bool)
    is_state[parent] = True  # the root (node 0) and proper prefixes
    is_state[length == 1] = True
    longest_suffix, fail = _suffix_links(parent, label, length, is_state, n_labels)
    target = np.arange(len(parent))
    while not is_state[target].all():
        target = np.where(is_state[target], target, longest_suffix[target])
    if patterns.history == SEGMENTS:
        pairs = 1 + np.flatnonzero(label[1:] == label[parent[1:]])
        # all longer states that end with y lose no mass to the arc of staying in y if each has a loop, and only one
        assert (length[pairs] == 2).all()
        assert not is_state[pairs].any()
        looping = np.flatnonzero(is_state & (length > 1))
        stay = 1 + np.arange(n_labels)  # nodes of single labels
        stay[label[pairs]] = pairs
        longest_suffix = np.append(longest_suffix, stay[label[looping]])
        parent, target = np.append(parent, looping), np.append(target, looping)
        label, length = np.append(label, label[looping]), np.append(length, length[looping] + 1)

    # number the states by (last label, length, trie order), the arcs by (target, length)
    states = np.flatnonzero(is_state)
    states = states[np.lexsort((states, length[states], label[states]))]  # the root has label -1
    state_of_node = np.full(len(parent), -1)
    state_of_node[states] = np.arange(len(states))
    arcs = np.arange(1, len(parent))
    arcs = arcs[np.lexsort((arcs, length[arcs], state_of_node[target[arcs]]))]
    arc_of_node = np.full(len(parent), -1)
    arc_of_node[arcs] = np.arange(len(arcs))
    pattern_arc = arc_of_node[node_of_pattern]
    arc_pattern = np.full(len(arcs), -1)
    arc_pattern[pattern_arc] = np.arange(len(pattern_arc))
    columns = (
        label[states],
        length[states],
        state_of_node[fail[states]],
        state_of_node[parent[arcs]],
        label[arcs],
        state_of_node[target[arcs]],
        np.where(longest_suffix[arcs] > 0, arc_of_node[longest_suffix[arcs]], -1),
        length[arcs],
        arc_pattern,
        pattern_arc,
    )
    source, target_of_arc = columns[3], columns[5]
    ranges = group_offsets(target_of_arc, len(states)), group_offsets(source, len(states))
    *arrays, source_arcs = freeze_all((*columns, np.argsort(source, kind="stable")), np.int32)
    return PatternAutomaton(int(n_labels), *[*arrays, *ranges, source_arcs])


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
    ends = np.zeros(automaton.n_arcs, dtype=bool)
    ends[automaton.pattern_arc[[row[run] for run in runs]]] = True
    for length in range(3, int(automaton.arc_length.max()) + 1):
        arcs = np.flatnonzero(automaton.arc_length == length)
        ends[arcs] |= ends[automaton.arc_suffix[arcs]]
    pattern_arc = automaton.pattern_arc[[row[pattern] for pattern in given]]
    arc_pattern = np.full(automaton.n_arcs, -1)
    arc_pattern[pattern_arc] = np.arange(len(given))
    pattern_arc, arc_pattern = freeze_all((pattern_arc, arc_pattern), np.int32)
    return automaton._replace(pattern_arc=pattern_arc, arc_pattern=arc_pattern), ends


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
        "pattern_arc": new_index[automaton.pattern_arc],
        "source_arcs": np.argsort(automaton.arc_source[order], kind="stable"),
    }
    kept = automaton.arc_target[~is_last]
    columns = dict(zip(columns, freeze_all(columns.values(), np.int32), strict=True))
    return automaton._replace(**columns, into=group_offsets(kept, automaton.n_states))


def _build_trie(patterns: PatternTable, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return parent, last label and depth of every trie node (node 0 is the root) and the node of every pattern."""
    longest = patterns.labels.shape[1]
    node = np.zeros(len(patterns.lengths), dtype=np.int64)  # node of each pattern's prefix read so far
    parents, labels, depths = [np.zeros(1, np.int64)], [np.full(1, -1)], [np.zeros(1, np.int64)]
    n_nodes = 1
    for depth in range(1, longest + 1):
        rows = np.flatnonzero(patterns.lengths >= depth)
        next_label = patterns.labels[rows, longest - patterns.lengths[rows] + depth - 1]
        keys, inverse = np.unique(node[rows] * n_labels + next_label, return_inverse=True)
        parents.append(keys // n_labels)
        labels.append(keys % n_labels)
        depths.append(np.full(len(keys), depth))
        node[rows] = n_nodes + inverse
        n_nodes += len(keys)
    return np.concatenate(parents), np.concatenate(labels), np.concatenate(depths), node


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

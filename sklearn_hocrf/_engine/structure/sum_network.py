"""The sum network: a short list of additions that computes the total mass of the states that use each arc.

    m(a) = sum of alpha(q) over the states q that use arc a = (p, y)

These states are p and all states below p in the failure tree for which neither the state itself nor a state between it
and p has a y-arc, that is, an arc for label y (the matrix S of ``m = S alpha``). Let A(q) be the sum of alpha over the
failure subtree of q. Then

    partial(p, y) = alpha(p) + sum over children c of p:   A(c)            if no state of c's subtree has a y-arc
                                                           nothing         if c has a y-arc itself
                                                           partial(c, y)   otherwise

and ``m(p, y) = partial(p, y)`` for each existing arc. Most children belong to the first case. A binary tree of pair
sums over the children of p provides the sum of their A(c), so a label with y-arcs below only a few children needs only
a few additions: for each of these children, about log2(number of children). Because the network never subtracts, the
same list works in any semiring, and its transpose gives the backward pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..._data.arrays import freeze_all, offsets_of
from .automaton import PatternAutomaton


class SumNetwork(NamedTuple):
    """Additions of the forward and backward passes.   P states, A arcs, I and J inner sums.

    Forward values are ``[alpha (P) | inner sums (I)]``; sum i adds the values ``terms[starts[i]:starts[i + 1]]``, all
    of which precede it. Backward values are ``[b (A) | inner sums (J) | beta (P)]``, where ``beta`` is the product of
    the transposed matrix S and b; their sums are listed in the same way.
    """

    arc_value: np.ndarray  # (A,) int32   index of the forward value that is m of the arc; 0 for arcs without mass
    starts: np.ndarray  # (I + 1,) int32
    terms: np.ndarray  # int32
    back_starts: np.ndarray  # (J + P + 1,) int32   the last P sums are beta of the states
    back_terms: np.ndarray  # int32


def build_sum_network(automaton: PatternAutomaton) -> SumNetwork:
    """Compile the sum network of an automaton.

    Examples
    --------
    >>> from sklearn_hocrf._engine.structure.automaton import build_automaton
    >>> from sklearn_hocrf._engine.structure.patterns import given_patterns
    >>> network = build_sum_network(build_automaton(given_patterns([(0, 1)], 2), 2))
    >>> # three additions: alpha() + alpha(1) for the arc (, 1), alpha() + (alpha(0) + alpha(1)) for (, 0)
    >>> len(network.terms) - (len(network.starts) - 1)
    3
    """
    return _finish(automaton.n_states, automaton.n_open, *_edges_and_nodes(automaton))


def _edges_and_nodes(automaton: PatternAutomaton) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    """Return the sums as pairs (node, term), the number of nodes, and the node of each arc."""
    n_labels = automaton.n_labels
    fail = automaton.fail.astype(np.int64)
    tree = _FailureTree(fail)

    # partial sums for the pairs (p, y) such that some state of p's failure subtree has a y-arc
    arc_pairs = automaton.arc_source.astype(np.int64) * n_labels + automaton.arc_label
    pairs = _pairs_with_arcs_below(arc_pairs, fail, n_labels)
    state, label = pairs // n_labels, pairs % n_labels
    partial = tree.n_nodes + np.arange(len(pairs))
    below = np.flatnonzero(state > 0)  # each such pair is an exception among the children of its parent's pair
    above = np.searchsorted(pairs, fail[state[below]] * n_labels + label[below])
    without_arc = ~np.isin(pairs[below], arc_pairs)
    plain = tree.n_children[state] > 0
    plain[above] = False
    cover_pair, cover = tree.covers(above, tree.sibling_index[state[below]], state)
    edges = [
        *tree.edges,
        (partial, state),
        (partial[above[without_arc]], partial[below[without_arc]]),
        (partial[cover_pair], cover),
        (partial[plain], tree.top[state[plain]]),
    ]
    node, term = (np.concatenate(column) for column in zip(*edges, strict=True))
    return node, term, tree.n_nodes + len(pairs), partial[np.searchsorted(pairs, arc_pairs)]


def _pairs_with_arcs_below(arc_pairs: np.ndarray, fail: np.ndarray, n_labels: int) -> np.ndarray:
    """Return the pairs (p, y), as keys ``p * n_labels + y``, such that some state of p's failure subtree has a y-arc.

    The loop runs from the deepest states of the failure tree to its root, so it visits each pair only once, whatever
    the depth of the tree.
    """
    depth, above = (np.arange(len(fail)) > 0).astype(np.int64), fail
    while above.any():
        depth, above = depth + depth[above], above[above]
    depth_of_pair = depth[arc_pairs // n_labels]
    order = np.argsort(depth_of_pair, kind="stable")
    cuts = np.searchsorted(depth_of_pair[order], np.arange(1, depth.max(initial=0) + 1))
    levels = [np.empty(0, dtype=np.int64)]
    for pairs in reversed(np.split(arc_pairs[order], cuts)):
        below = levels[-1]
        levels.append(_distinct(np.concatenate([pairs, fail[below // n_labels] * n_labels + below % n_labels])))
    return np.sort(np.concatenate(levels))


def _distinct(ids: np.ndarray) -> np.ndarray:
    """Return the distinct ids in ascending order; ``np.unique`` uses hashes, and is slow if hashes collide."""
    ids = np.sort(ids)
    return ids[np.append(True, ids[1:] != ids[:-1])] if len(ids) else ids


class _FailureTree:
    """Sums over the failure tree: subtree sums A, and a binary tree of pair sums over the children of each state.

    Nodes are numbered in this order: alpha (P), A (P), and the pair sums level by level. Level 0 of the binary tree of
    a state consists of the sums A of its children, in order; ``widths[level]`` contains the number of nodes of each
    state at a level.
    """

    def __init__(self, fail: np.ndarray) -> None:
        n_states = len(fail)
        self.subtree = n_states + np.arange(n_states)
        self.children = 1 + np.argsort(fail[1:], kind="stable")
        self.n_children = np.bincount(fail[1:], minlength=n_states)
        self.first_child = np.cumsum(self.n_children) - self.n_children
        self.sibling_index = np.zeros(n_states, dtype=np.int64)  # of each state among its siblings
        self.sibling_index[self.children] = np.arange(n_states - 1) - self.first_child[fail[self.children]]
        self.widths, self._bases = [self.n_children], [np.empty(0, np.int64)]
        self.n_nodes = 2 * n_states
        self.edges = [(self.subtree, np.arange(n_states))]
        while (self.widths[-1] > 1).any():
            self._add_level()
        self.top = np.zeros(n_states, dtype=np.int64)  # the node that is the sum over all children
        for level, width in enumerate(self.widths):
            whole = np.flatnonzero(width == 1)
            self.top[whole] = self._node(level, whole, np.zeros(len(whole), dtype=np.int64))
        parents = np.flatnonzero(self.n_children)
        self.edges.append((self.subtree[parents], self.top[parents]))

    def _node(self, level: int, owner: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Return the ``index``-th node at ``level`` of the binary tree of ``owner``."""
        if level == 0:
            return self.subtree[self.children[self.first_child[owner] + index]]
        return self._bases[level][owner] + index

    def _add_level(self) -> None:
        """Add a level of sums of neighbours for all states with more than one node at the last level."""
        level, below = len(self.widths), self.widths[-1]
        width = np.where(below > 1, (below + 1) // 2, 0)
        owner = np.repeat(np.arange(len(below)), width)
        node = self.n_nodes + np.arange(len(owner))
        self._bases.append(self.n_nodes + np.cumsum(width) - width)
        self.widths.append(width)
        self.n_nodes += len(owner)
        index = node - self._bases[level][owner]
        for side in (0, 1):
            has = 2 * index + side < below[owner]
            self.edges.append((node[has], self._node(level - 1, owner[has], 2 * index[has] + side)))

    def covers(self, pair: np.ndarray, child: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cover, for each pair (p, y), the children of p that are not exceptions by as few pair sums as possible.

        ``pair`` and ``child`` list the exceptions: the id of the pair, and the index among the children of
        ``state[pair]``. From the bottom up, a sibling of an exception becomes a term unless it is an exception, too,
        and the parent of an exception becomes an exception. The result consists of the pairs and their terms.
        """
        pairs, terms = [], []
        for level, width in enumerate(self.widths):
            inner = width[state[pair]] > 1
            pair, child = pair[inner], child[inner]
            owner, sibling = state[pair], child ^ 1
            stride = int(width.max()) + 2
            clean = (sibling < width[owner]) & ~np.isin(pair * stride + sibling, pair * stride + child)
            pairs.append(pair[clean])
            terms.append(self._node(level, owner[clean], sibling[clean]))
            up = _distinct(pair * stride + child // 2)
            pair, child = up // stride, up % stride
        return np.concatenate(pairs), np.concatenate(terms)


def _finish(
    n_inputs: int, n_open: int, node: np.ndarray, term: np.ndarray, n_nodes: int, arc_value: np.ndarray
) -> SumNetwork:
    """Drop sums that no open arc needs, replace sums of one term by that term, number the rest, and transpose them."""
    node, term, arc_value = _alias_single_terms(node, term, n_nodes, arc_value)
    incidence = sparse.csr_array((np.ones(len(node), dtype=np.int32), (node, term)), shape=(n_nodes, n_nodes))
    needed = np.zeros(n_nodes, dtype=bool)
    fresh = _distinct(arc_value[:n_open])
    while len(fresh):
        needed[fresh] = True
        reached = _distinct(incidence[fresh].indices)
        fresh = reached[~needed[reached]]
    node, term = node[needed[node]], term[needed[node]]
    inner = np.flatnonzero(needed & (np.arange(n_nodes) >= n_inputs))
    new_id, starts, terms = _schedule(n_inputs, n_nodes, node, term, inner)
    node, term, arc_value = new_id[node], new_id[term], new_id[arc_value]
    arc_value[n_open:] = 0
    back = _transpose(n_inputs, n_open, len(inner), node, term, arc_value)
    return SumNetwork(*freeze_all((arc_value, starts, terms, *back), np.int32))


def _transpose(
    n_inputs: int, n_open: int, n_inner: int, node: np.ndarray, term: np.ndarray, arc_value: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the backward pass: a value's adjoint is a sum over its arcs and over the sums that use it."""
    n_arcs = len(arc_value)
    n_nodes = n_arcs + n_inputs + n_inner  # b of the arcs, then the adjoints of the forward values
    back_node = n_arcs + np.concatenate([arc_value[:n_open], term])
    back_term = np.concatenate([np.arange(n_open), n_arcs + node])
    beta = n_arcs + np.arange(n_inputs)
    back_node, back_term, _ = _alias_single_terms(back_node, back_term, n_nodes, beta, keep=beta)
    inner = _distinct(back_node[(back_node < n_arcs) | (back_node >= n_arcs + n_inputs)])
    return _schedule(n_arcs, n_nodes, back_node, back_term, inner, beta)[1:]


def _schedule(
    n_inputs: int, n_nodes: int, node: np.ndarray, term: np.ndarray, inner: np.ndarray, outputs: ArrayLike = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number the sums so that each follows its terms and the outputs come last, in the given order.

    The result consists of the new ids of all nodes (inputs keep theirs), the range of each sum's terms, and the terms.
    """
    depth = np.zeros(n_nodes, dtype=np.int64)
    while True:
        deeper = np.zeros(n_nodes, dtype=np.int64)
        np.maximum.at(deeper, node, depth[term] + 1)
        if np.array_equal(deeper, depth):
            break
        depth = deeper
    sums = np.concatenate([inner[np.argsort(depth[inner], kind="stable")], np.asarray(outputs, dtype=np.int64)])
    new_id = np.full(n_nodes, -1)
    new_id[:n_inputs] = np.arange(n_inputs)
    new_id[sums] = n_inputs + np.arange(len(sums))
    group, member = new_id[node] - n_inputs, new_id[term]
    order = np.lexsort((member, group))
    starts = offsets_of(np.bincount(group, minlength=len(sums)))
    return new_id, starts, member[order]


def _alias_single_terms(
    node: np.ndarray, term: np.ndarray, n_nodes: int, users: np.ndarray, keep: ArrayLike = ()
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Replace each sum of a single term, except those in ``keep``, by that term, both in sums and in ``users``."""
    n_terms = np.bincount(node, minlength=n_nodes)
    n_terms[np.asarray(keep, dtype=np.int64)] = 0
    alias = np.arange(n_nodes)
    single = n_terms[node] == 1
    alias[node[single]] = term[single]
    while not np.array_equal(alias, alias[alias]):
        alias = alias[alias]
    return node[~single], alias[term[~single]], alias[users]

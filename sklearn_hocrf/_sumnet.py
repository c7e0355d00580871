"""The sum network: which states' mass each arc collects, as a short list of additions.

    m(a) = sum of alpha(q) over the states q that use arc a = (p, y)

Those are p and the states below p in the failure tree with neither a y-arc of their own nor one between them and p
(algorithm: arc resolution, S of ``m = S alpha``). Write A(q) for the sum of alpha over the failure subtree of q. Then

    partial(p, y) = alpha(p) + sum over children c of p:   A(c)            if no state of c's subtree has a y-arc
                                                           nothing         if c has a y-arc itself
                                                           partial(c, y)   otherwise

and ``m(p, y) = partial(p, y)`` wherever the arc exists. The first kind of children would be most of the work; their sum is
gathered from a binary tree of pair sums over p's children, so a label that few children know costs few additions. That
keeps the network within (total pattern length) x (log of the alphabet) additions. Nothing is ever subtracted, so the same
list runs in any semiring, and its transpose is the backward pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ._automaton import PatternAutomaton
from ._batch import freeze

__all__ = ["SumNetwork", "build_sum_network"]


class SumNetwork(NamedTuple):
    """Additions of the forward and backward pass.   P states, A arcs, I and J inner sums.

    Forward values are ``[alpha (P) | inner sums (I)]``; sum i adds up the values ``terms[starts[i]:starts[i + 1]]``, all of
    which come before it. Backward values are ``[b (A) | inner sums (J) | beta (P)]``, in the same way.
    """

    arc_value: np.ndarray  # (A,) int32   which forward value is m of the arc
    starts: np.ndarray  # (I + 1,) int32
    terms: np.ndarray  # int32
    back_starts: np.ndarray  # (J + P + 1,) int32   the last P sums are beta of the states
    back_terms: np.ndarray  # int32

    @property
    def n_additions(self) -> int:
        """Additions for one position: forward, without those over the arcs into a state."""
        return len(self.terms) - (len(self.starts) - 1)


def build_sum_network(automaton: PatternAutomaton) -> SumNetwork:
    """Compile the sum network of an automaton.

    Examples
    --------
    >>> from sklearn_hocrf._automaton import build_automaton
    >>> from sklearn_hocrf._patterns import given_patterns
    >>> network = build_sum_network(build_automaton(given_patterns([(0, 1)], 2), 2))
    >>> network.n_additions  # alpha() + alpha(1), used by the arc (, 1), and that + alpha(0) for (, 0)
    2
    """
    n_states = automaton.n_states
    node, term, rank, arc_value = _raw_network(automaton)
    return _finish(n_states, node, term, rank, arc_value)


def _raw_network(automaton):
    """Return the sums as pairs (node, term), a rank that sorts the nodes topologically, and the node of each arc."""
    n_states, n_labels = automaton.n_states, automaton.n_labels
    fail = automaton.fail.astype(np.int64)
    children, slot, n_children = _children(fail)
    first_child = np.concatenate([[0], np.cumsum(n_children)[:-1]])
    depth_rank = int(automaton.state_length.max()) - automaton.state_length.astype(np.int64)  # longest states first

    # nodes: alpha (P), subtree sums A (P), pair sums of the children level by level, partial sums
    edges, ranks = [], [np.full(n_states, -1, dtype=np.int64)]
    subtree = n_states + np.arange(n_states)
    edges.append((subtree, np.arange(n_states)))
    widths, bases = [n_children], [None]
    n_nodes = 2 * n_states
    stages = 2 + int(n_children.max()).bit_length() + 1  # pair-sum levels, then A, then partial sums
    ranks.append(depth_rank * stages + stages - 2)
    while (widths[-1] > 1).any():
        below, level = widths[-1], len(widths)
        width = np.where(below > 1, (below + 1) // 2, 0)
        base = n_nodes + np.cumsum(width) - width
        owner = np.repeat(np.arange(n_states), width)
        number = np.arange(len(owner)) + n_nodes
        index = number - base[owner]
        for side in (0, 1):
            has = 2 * index + side < below[owner]
            edges.append((number[has], _tree_node(bases, level - 1, owner[has], 2 * index[has] + side, first_child, children, subtree)))
        ranks.append(depth_rank[owner] * stages + level - 1)
        widths.append(width)
        bases.append(base)
        n_nodes += len(owner)
    top = np.zeros(n_states, dtype=np.int64)  # the node that sums up all children
    for level, width in enumerate(widths):
        whole = np.flatnonzero(width == 1)
        top[whole] = _tree_node(bases, level, whole, np.zeros(len(whole), np.int64), first_child, children, subtree)
    parents = np.flatnonzero(n_children)
    edges.append((subtree[parents], top[parents]))

    # partial sums for the pairs (p, y) where some state of p's failure subtree has a y-arc
    own_keys = automaton.arc_source.astype(np.int64) * n_labels + automaton.arc_label
    levels, source = [own_keys], automaton.arc_source.astype(np.int64)
    label = automaton.arc_label
    while source.any():
        label, source = label[source > 0], fail[source[source > 0]]
        levels.append(np.unique(source * n_labels + label))
        source, label = levels[-1] // n_labels, levels[-1] % n_labels
    pairs = np.unique(np.concatenate(levels))
    state, label = pairs // n_labels, pairs % n_labels
    partial = n_nodes + np.arange(len(pairs))
    ranks.append(depth_rank[state] * stages + stages - 1)
    edges.append((partial, state))
    below = np.flatnonzero(state > 0)  # each such pair is an exception among the children of its parent's pair
    above = np.searchsorted(pairs, fail[state[below]] * n_labels + label[below])
    without = ~np.isin(pairs[below], own_keys)
    edges.append((partial[above[without]], partial[below[without]]))
    edges.append(_covers(pairs, state, partial, above, slot[state[below]], widths, bases, first_child, children, subtree))
    plain = np.ones(len(pairs), dtype=bool)
    plain[above] = False
    plain &= n_children[state] > 0
    edges.append((partial[plain], top[state[plain]]))

    node, term = (np.concatenate(column) for column in zip(*edges, strict=True))
    return node, term, np.concatenate(ranks), partial[np.searchsorted(pairs, own_keys)]


def _children(fail):
    """Return the states sorted by parent in the failure tree, each one's place among its siblings, and the counts."""
    parent = fail[1:]
    children = 1 + np.argsort(parent, kind="stable")
    n_children = np.bincount(parent, minlength=len(fail))
    first = np.cumsum(n_children) - n_children
    slot = np.zeros(len(fail), dtype=np.int64)
    slot[children] = np.arange(len(children)) - first[fail[children]]
    return children, slot, n_children


def _tree_node(bases, level, owner, index, first_child, children, subtree):
    """Return the node of the ``index``-th pair sum at ``level`` over the children of ``owner``; level 0 is A(child)."""
    if level == 0:
        return subtree[children[first_child[owner] + index]]
    return bases[level][owner] + index


def _covers(pairs, state, partial, pair, place, widths, bases, first_child, children, subtree):
    """Cover, for each pair (p, y), the children of p that know no y-arc by the fewest pair sums.

    Bottom-up: a sibling that is not itself an exception is a term; the parent of an exception is an exception.
    """
    nodes, terms = [], []
    for level, width in enumerate(widths):
        owner = state[pair]
        inner = width[owner] > 1
        pair, place, owner = pair[inner], place[inner], owner[inner]
        stride = int(width.max()) + 2
        exceptions = pair * stride + place
        sibling = place ^ 1
        clean = (sibling < width[owner]) & ~np.isin(pair * stride + sibling, exceptions)
        nodes.append(partial[pair[clean]])
        terms.append(_tree_node(bases, level, owner[clean], sibling[clean], first_child, children, subtree))
        up = np.unique(pair * stride + place // 2)
        pair, place = up // stride, up % stride
    return np.concatenate(nodes), np.concatenate(terms)


def _finish(n_inputs, node, term, rank, arc_value) -> SumNetwork:
    """Drop what no arc needs, replace sums of one term by that term, number the rest, and transpose."""
    node, term, arc_value = _alias_single_terms(node, term, len(rank), arc_value)
    incidence = sparse.csr_array((np.ones(len(node), dtype=np.int32), (node, term)), shape=(len(rank), len(rank)))
    needed = np.zeros(len(rank), dtype=bool)
    fresh = np.unique(arc_value)
    while len(fresh):
        needed[fresh] = True
        reached = np.unique(incidence[fresh].indices)
        fresh = reached[~needed[reached]]
    inner = np.flatnonzero(needed & (np.arange(len(rank)) >= n_inputs))
    inner = inner[np.argsort(rank[inner], kind="stable")]
    number = np.full(len(rank), -1)
    number[:n_inputs] = np.arange(n_inputs)
    number[inner] = n_inputs + np.arange(len(inner))
    used = needed[node]
    node, term, arc_value = number[node[used]], number[term[used]], number[arc_value]
    starts, terms = _lists(node - n_inputs, term, len(inner))
    back_starts, back_terms = _transpose(n_inputs, len(inner), node, term, arc_value)
    return SumNetwork(*(freeze(array, np.int32) for array in (arc_value, starts, terms, back_starts, back_terms)))


def _transpose(n_inputs, n_inner, node, term, arc_value):
    """Return the sums of the backward pass: the adjoint of a value adds up those of its arcs and of the sums that use it."""
    n_arcs = len(arc_value)
    # adjoints in the order in which they can be computed: last inner sum first, then the inputs (beta)
    value_of = np.concatenate([n_inputs + n_inner - 1 - np.arange(n_inner), np.arange(n_inputs)])
    adjoint = np.empty(n_inputs + n_inner, dtype=np.int64)
    adjoint[value_of] = n_arcs + np.arange(n_inputs + n_inner)
    back_node = np.concatenate([adjoint[arc_value], adjoint[term]])
    back_term = np.concatenate([np.arange(n_arcs), adjoint[node]])
    outputs = adjoint[np.arange(n_inputs)]
    back_node, back_term, _ = _alias_single_terms(back_node, back_term, n_arcs + n_inputs + n_inner, outputs, keep=outputs)
    kept = np.unique(np.concatenate([back_node, outputs]))
    number = np.full(n_arcs + n_inputs + n_inner, -1)
    number[:n_arcs] = np.arange(n_arcs)
    number[kept] = n_arcs + np.arange(len(kept))
    return _lists(number[back_node] - n_arcs, number[back_term], len(kept))


def _alias_single_terms(node, term, n_nodes, users, keep=()):
    """Replace every sum of a single term, except those of ``keep``, by the term, in sums and in ``users``."""
    n_terms = np.bincount(node, minlength=n_nodes)
    n_terms[np.asarray(keep, dtype=np.int64)] = 0
    alias = np.arange(n_nodes)
    single = n_terms[node] == 1
    alias[node[single]] = term[single]
    while not np.array_equal(alias, alias[alias]):
        alias = alias[alias]
    return node[~single], alias[term[~single]], alias[users]


def _lists(group, member, n_groups):
    """Return (starts, members): the members of each group, in ascending order."""
    order = np.lexsort((member, group))
    return np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))]), member[order]

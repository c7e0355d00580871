"""The peers of the sum network: all |P| x |Y| transitions of the pattern automaton, in two forms.

A transition (p, y) leads to delta(p, y) with the weight of ``arc(p, y)`` (arc resolution). Blocks, lanes, scaling,
emission scores and vector instructions are those of ``sklearn_hocrf._kernels.chain``.

*By transition* is the usual automaton with a table of weights, as kernels of its own:

    forward     alpha(q)  = sum over the transitions (p, y) into q of weight(p, y) alpha(p)
    backward    beta(p)   = sum over all labels y of weight(p, y) g(delta(p, y)),     g(q) = emission(q) beta(q)
    counts      m(a)      = sum of alpha(p) over the transitions that use arc a

*By arc* already takes the step from transitions to arcs, and lacks only the network that shares partial sums: the
kernels of ``chain`` with each m(a) written out as a sum over states, and each beta(p) as a sum over labels. Its weights
are read once per arc, which no table of transitions offers; it is the strictest comparison.

There are no position-dependent arc scores (observation features of order >= 1).

Shapes as in ``chain``: B blocks, W lanes, R rows, C score columns, P states, A arcs, L labels.
"""

import copy
from typing import NamedTuple
from unittest import mock

import numpy as np
from numba import njit

from sklearn_hocrf._batch import freeze
from sklearn_hocrf._kernels import chain
from sklearn_hocrf._kernels._common import add, add_folded, fill, load, multiply, multiply_add, store, where_positive
from sklearn_hocrf._sumnet import SumNetwork

# no cache=True below: the disk cache would not notice a change of the vector instructions in the other file


class Transitions(NamedTuple):
    """All transitions of an automaton, by (p, y) and by arc, which is also by target.   P states, L labels, A arcs."""

    arc: np.ndarray  # (P * L,) int32   arc(p, y)
    target: np.ndarray  # (P * L,) int32   delta(p, y)
    starts: np.ndarray  # (A + 1,) int32   range of each arc in ``source``
    source: np.ndarray  # (P * L,) int32   the states p
    arc_of_source: np.ndarray  # (P * L,) int32   the arcs


def all_transitions(automaton) -> Transitions:
    """Resolve the arc of each state and label."""
    arc = np.full((automaton.n_states, automaton.n_labels), -1)
    arc[automaton.arc_source, automaton.arc_label] = np.arange(automaton.n_arcs)
    for state in np.argsort(automaton.state_length, kind="stable")[1:]:  # suffixes are shorter, hence resolved before
        arc[state] = np.where(arc[state] < 0, arc[automaton.fail[state]], arc[state])
    arc = arc.ravel()
    order = np.argsort(arc, kind="stable")
    starts = np.searchsorted(arc[order], np.arange(automaton.n_arcs + 1))
    tables = (arc, automaton.arc_target[arc], starts, order // automaton.n_labels, arc[order])
    return Transitions(*(freeze(table, np.int32) for table in tables))


class ByArc:
    """A likelihood by the kernels of the package, without shared partial sums."""

    def __init__(self, objective):
        automaton = objective.problem.layout.automaton
        transitions = all_transitions(automaton)
        n_sources = np.diff(transitions.starts)
        inner = np.flatnonzero(n_sources > 1)
        arc_value = transitions.source[transitions.starts[:-1]].copy()
        arc_value[inner] = automaton.n_states + np.arange(len(inner))
        tables = (
            arc_value,
            np.cumsum([0, *n_sources[inner]]),
            transitions.source[np.repeat(n_sources > 1, n_sources)],
            np.arange(automaton.n_states + 1) * automaton.n_labels,
            transitions.arc,
        )
        problem = copy.copy(objective.problem)
        problem.layout = copy.copy(problem.layout)
        self.objective = objective.bind(problem)
        problem.layout.network = SumNetwork(*(freeze(table, np.int32) for table in tables))

    def value_gradient(self, w):
        return self.objective.value_gradient(w)


class ByTransition:
    """A likelihood by the dense kernels of this module, on one thread."""

    def __init__(self, objective):
        if objective.problem.plan.n_slots:
            raise ValueError("the dense kernels know no observation features of order 1 or more")
        self.objective = objective
        self.transitions = all_transitions(objective.problem.layout.automaton)

    def value_gradient(self, w):
        def run_forward(width, lattice, slab, scratch, carry, scores, factors, alpha, *others):
            weight = lattice.arc_weight[self.transitions.arc_of_source]
            alpha.reshape(-1, *carry.shape)[slab.rows[:-1] + np.arange(len(slab.length))] = carry
            forward(width, lattice, self.transitions, weight, slab, scores, alpha, *others)

        def run_backward(width, lattice, slab, scratch, scores, factors, alpha, *others):
            weight = lattice.arc_weight[self.transitions.arc]
            backward(width, lattice, self.transitions, weight, slab, scores, alpha, *others)

        with mock.patch.multiple(chain, forward=run_forward, backward=run_backward):
            return self.objective.value_gradient(w)


@njit(nogil=True, error_model="numpy")
def forward(width, lattice, transitions, weight, slab, scores, alpha, inverse_scale, log_scale, suspect):
    """Run the scaled forward pass of the blocks of a slab, as ``chain.forward``, but without its check for underflow.

    weight : (P * L,)   of the transitions by arc
    """
    n_states, n_columns = len(lattice.fail), len(scores) // slab.rows[-1]
    lanes = scores.shape[1]
    totals = np.empty((1, lanes))
    zero = fill(0.0, width)
    for block in range(len(slab.length)):
        for row in range(slab.rows[block], slab.rows[block + 1]):
            here = (row + block) * n_states
            after = here + n_states
            total = zero
            store(alpha, after, zero)
            for state in range(1, n_states):
                first = transitions.starts[lattice.into[state]]
                stop = transitions.starts[lattice.into[state + 1]]
                one, other = zero, zero  # two sums, so that one addition need not wait for the other
                for t in range(first + 1, stop, 2):
                    one = multiply_add(
                        fill(weight[t - 1], width), load(alpha, here + transitions.source[t - 1], width), one
                    )
                    other = multiply_add(
                        fill(weight[t], width), load(alpha, here + transitions.source[t], width), other
                    )
                if (stop - first) % 2:
                    last = load(alpha, here + transitions.source[stop - 1], width)
                    one = multiply_add(fill(weight[stop - 1], width), last, one)
                score = load(scores, row * n_columns + lattice.state_label[state], width)
                product = multiply(add(one, other), score)
                store(alpha, after + state, product)
                total = add(total, product)
            store(totals, 0, total)
            for lane in range(lanes):
                inverse_scale[row, lane] = 0.0
                if row - slab.rows[block] < slab.length[block, lane]:
                    inverse_scale[row, lane] = 1.0 / totals[0, lane]
                    log_scale[block, lane] += np.log(totals[0, lane])
            scale = load(inverse_scale, row, width)
            for state in range(after + 1, after + n_states):
                store(alpha, state, multiply(load(alpha, state, width), scale))


@njit(nogil=True, error_model="numpy")
def backward(width, lattice, transitions, weight, slab, scores, alpha, inverse_scale, lane_weight, beta, counts):
    """Run the scaled backward pass and turn ``scores`` into marginals, as ``chain.backward``.

    weight : (P * L,)   of the transitions by (p, y)
    """
    n_states, n_labels, n_columns = len(lattice.fail), lattice.n_labels, len(scores) // slab.rows[-1]
    lanes = scores.shape[1]
    flows = np.empty((n_states, lanes))
    marginals = np.empty((n_labels, lanes))
    zero = fill(0.0, width)
    for block in range(len(slab.length) - 1, -1, -1):
        counted = load(lane_weight, block, width)
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = (row + block) * n_states
            after = here + n_states
            for lane in range(lanes):
                if slab.last[block, lane] == row - slab.rows[block]:
                    for state in range(n_states):
                        beta[state, lane] = 1.0
            for label in range(n_labels):
                store(marginals, label, zero)
            scale = load(inverse_scale, row, width)
            for state in range(1, n_states):
                label = lattice.state_label[state]
                mass = load(alpha, after + state, width)
                reach = where_positive(mass, load(beta, state, width), zero)
                store(marginals, label, multiply_add(mass, reach, load(marginals, label, width)))
                flow = multiply(multiply(reach, load(scores, row * n_columns + label, width)), scale)
                store(flows, state, flow)
                flow = multiply(flow, counted)
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    one, other = zero, zero
                    first, stop = transitions.starts[arc], transitions.starts[arc + 1]
                    for t in range(first + 1, stop, 2):
                        one = add(one, load(alpha, here + transitions.source[t - 1], width))
                        other = add(other, load(alpha, here + transitions.source[t], width))
                    if (stop - first) % 2:
                        one = add(one, load(alpha, here + transitions.source[stop - 1], width))
                    used = multiply(multiply(fill(lattice.arc_weight[arc], width), flow), add(one, other))
                    add_folded(counts, arc, used)
            for state in range(n_states):
                total = zero
                for t in range(state * n_labels, (state + 1) * n_labels):
                    total = multiply_add(fill(weight[t], width), load(flows, transitions.target[t], width), total)
                store(beta, state, total)
            for label in range(n_labels):
                store(scores, row * n_columns + label, load(marginals, label, width))

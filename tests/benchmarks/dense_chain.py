"""The peer of the sum network: forward and backward passes over all |P| x |Y| transitions of the pattern automaton.

A transition (p, y) leads to delta(p, y) with the weight of ``arc(p, y)`` (arc resolution). Blocks, lanes, scaling, emission
scores and vector instructions are those of ``sklearn_hocrf._kernels.chain``; the only difference is that

    m(a) = sum of alpha(p) over all transitions (p, y) that use arc a         where chain evaluates the sum network
    beta(p) = sum over all labels y of b(arc(p, y))                           where chain evaluates its transpose

so a transition costs one vector addition in each direction, and one more where the backward pass needs m again. That is
the kindest form of a dense kernel: weights and counts are touched once per arc and not once per transition, and long sums
have two accumulators. There are no position-dependent arc scores (observation features of order >= 1).

Shapes as in ``chain``: B blocks, W lanes, R rows, C score columns, P states, A arcs, L labels.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from sklearn_hocrf._batch import freeze
from sklearn_hocrf._inference import ChainModel, _ExpectationRun
from sklearn_hocrf._kernels import chain
from sklearn_hocrf._kernels.chain import LANES, TINY, _add, _fill, _load, _multiply, _multiply_add, _smallest, _store
from sklearn_hocrf._kernels.chain import _where_positive as _where

# no cache=True: the disk cache would not notice a change of the primitives in the other file


class Transitions(NamedTuple):
    """All transitions of an automaton.   P states, L labels, A arcs."""

    arc: np.ndarray  # (P * L,) int32   arc(p, y), by state and label
    starts: np.ndarray  # (A + 1,) int32   range of each arc's transitions in ``sources``
    sources: np.ndarray  # (P * L,) int32   the states p, by arc


def all_transitions(automaton) -> Transitions:
    """Resolve the arc of each state and label."""
    arc = np.full((automaton.n_states, automaton.n_labels), -1)
    arc[automaton.arc_source, automaton.arc_label] = np.arange(automaton.n_arcs)
    for state in np.argsort(automaton.state_length, kind="stable")[1:]:  # suffixes are shorter, hence resolved before
        arc[state] = np.where(arc[state] < 0, arc[automaton.fail[state]], arc[state])
    by_arc = np.argsort(arc.ravel(), kind="stable")
    starts = np.searchsorted(arc.ravel()[by_arc], np.arange(automaton.n_arcs + 1))
    return Transitions(*(freeze(x, np.int32) for x in (arc.ravel(), starts, by_arc // automaton.n_labels)))


@njit(nogil=True, error_model="numpy")
def _sum_of(table, first, terms, start, stop):
    """Return the sum of the rows ``first + terms[start:stop]``."""
    one, other = _fill(0.0), _fill(0.0)
    for term in range(start, stop - 1, 2):
        one = _add(one, _load(table, first + terms[term]))
        other = _add(other, _load(table, first + terms[term + 1]))
    if (stop - start) % 2:
        one = _add(one, _load(table, first + terms[stop - 1]))
    return _add(one, other)


@njit(nogil=True, error_model="numpy")
def forward(lattice, transitions, slab, scores, alpha, inverse_scale, log_scale, suspect):
    """Run the scaled forward pass of the blocks of a slab; arguments as for ``chain.forward``."""
    n_states = len(lattice.fail)
    n_columns = len(scores) // slab.rows[-1]
    totals, lows = np.empty((1, LANES)), np.empty((1, LANES))
    zero, infinite = _fill(0.0), _fill(np.inf)
    for block in range(len(slab.length)):
        for row in range(slab.rows[block], slab.rows[block + 1]):
            here = (row + block) * n_states
            after = here + n_states
            total, low = zero, infinite
            _store(alpha, after, zero)
            for state in range(1, n_states):
                weighted, mass = zero, zero
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    weight = lattice.arc_weight[arc]
                    if weight > 0.0:
                        value = _sum_of(
                            alpha, here, transitions.sources, transitions.starts[arc], transitions.starts[arc + 1]
                        )
                        weighted = _multiply_add(_fill(weight), value, weighted)
                        mass = _add(mass, value)
                product = _multiply(weighted, _load(scores, row * n_columns + lattice.state_label[state]))
                _store(alpha, after + state, product)
                total = _add(total, product)
                low = _smallest(_where(mass, product, infinite), low)
            _store(totals, 0, total)
            _store(lows, 0, low)
            for lane in range(LANES):
                inverse_scale[row, lane] = 0.0
                if row - slab.rows[block] < slab.length[block, lane]:
                    if not lows[0, lane] >= TINY * totals[0, lane] or not totals[0, lane] > 0.0:
                        suspect[block, lane] = 1.0
                    if totals[0, lane] > 0.0:
                        inverse_scale[row, lane] = 1.0 / totals[0, lane]
                        log_scale[block, lane] += np.log(totals[0, lane])
            scale = _load(inverse_scale, row)
            for state in range(after + 1, after + n_states):
                _store(alpha, state, _multiply(_load(alpha, state), scale))
        for lane in range(LANES):
            if suspect[block, lane] > 0.0:
                for index in range((slab.rows[block] + block) * n_states, (slab.rows[block + 1] + block + 1) * n_states):
                    alpha[index, lane] = 0.0


@njit(nogil=True, error_model="numpy")
def backward(lattice, transitions, slab, scores, alpha, inverse_scale, weight, beta, counts):
    """Run the scaled backward pass and turn ``scores`` into marginals; arguments as for ``chain.backward``."""
    n_states, n_arcs, n_labels = len(lattice.fail), len(lattice.arc_slot), lattice.n_labels
    n_columns = len(scores) // slab.rows[-1]
    adjoints = np.empty((n_arcs, LANES))
    marginals = np.empty((n_labels, LANES))
    zero = _fill(0.0)
    for block in range(len(slab.length) - 1, -1, -1):
        lane_weight = _load(weight, block)
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = (row + block) * n_states
            after = here + n_states
            for lane in range(LANES):
                if slab.last[block, lane] == row - slab.rows[block]:
                    for state in range(n_states):
                        beta[state, lane] = 1.0
            for label in range(n_labels):
                _store(marginals, label, zero)
            scale = _load(inverse_scale, row)
            for state in range(1, n_states):
                label = lattice.state_label[state]
                mass = _load(alpha, after + state)
                reach = _where(mass, _load(beta, state), zero)
                _store(marginals, label, _multiply_add(mass, reach, _load(marginals, label)))
                flow = _multiply(_multiply(reach, _load(scores, row * n_columns + label)), scale)
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    value = _sum_of(
                        alpha, here, transitions.sources, transitions.starts[arc], transitions.starts[arc + 1]
                    )
                    adjoint = _multiply(_fill(lattice.arc_weight[arc]), flow)
                    _store(adjoints, arc, adjoint)
                    used = _multiply(_multiply(adjoint, value), lane_weight)
                    _store(counts, arc, _add(_load(counts, arc), used))
            for state in range(n_states):
                total = _sum_of(adjoints, 0, transitions.arc, state * n_labels, (state + 1) * n_labels)
                _store(beta, state, total)
            for label in range(n_labels):
                _store(scores, row * n_columns + label, _load(marginals, label))


class _DenseRun(_ExpectationRun):
    """Forward and backward passes of one chunk, by the dense kernels."""

    transitions: Transitions

    def _forward_slab(self, slab, carry, log_scale, suspect):
        scores = self._score(slab)
        factors, alpha, inverse_scale = self._slab_tables(slab)
        chain.exponentiate(self.lattice, slab, scores, factors, log_scale, suspect)
        n_states = self.layout.automaton.n_states
        by_row = alpha.reshape(-1, n_states, LANES)
        firsts = slab.rows[:-1] + np.arange(len(slab.length))
        by_row[firsts] = 0.0
        by_row[firsts, 0] = 1.0
        if carry is not None:
            alpha[:n_states] = carry
        forward(self.lattice, self.transitions, slab, scores, alpha, inverse_scale, log_scale, suspect)
        return alpha[-n_states:]

    def _backward_slab(self, slab, weight, beta):
        scores = self.tables("scores", int(slab.rows[-1]) * self.layout.pairs.n_columns, LANES)
        _, alpha, inverse_scale = self._slab_tables(slab)
        backward(self.lattice, self.transitions, slab, scores, alpha, inverse_scale, weight, beta, self.counts)
        return scores


class DenseLikelihood:
    """The same function as a given NegativeLogLikelihood, by the dense kernels, on one thread."""

    def __init__(self, objective):
        if objective.plan.n_slots:
            raise ValueError("the dense kernels know no observation features of order 1 or more")
        self.objective = objective
        self.transitions = all_transitions(objective.layout.automaton)

    def expectations(self, w):
        """Return log Z of each sequence and the expected counts of all weights' features."""
        objective, layout = self.objective, self.objective.layout
        model = ChainModel(layout, w)
        log_z = np.zeros(objective.plan.n_sequences)
        pairs, dense = np.zeros(layout.n_pairs), layout.dense_table()
        arcs = np.zeros(layout.automaton.n_arcs)
        for chunk in objective.plan.chunks:
            run = _DenseRun(model, objective.plan, objective.sequence_weight, log_z)
            run.transitions = self.transitions
            for piece in chunk:
                run.backward(piece)
            pairs += run.gradient
            dense += run.dense
            arcs += run.counts.sum(axis=1)
        layout.add_dense(dense, pairs)
        return log_z, np.concatenate([pairs, layout.sum_over_suffixes(arcs)])

    def value_gradient(self, w):
        """Return value and gradient."""
        log_z, counts = self.expectations(w)
        empirical = self.objective._empirical
        return float(self.objective.sequence_weight @ log_z - empirical @ w), counts - empirical

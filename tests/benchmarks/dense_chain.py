"""The peer of the sum network: all |P| x |Y| transitions of the pattern automaton.

*By arc* already takes the step from transitions to arcs, and lacks only the network that shares partial sums: the
kernels of the package with each m(a) written out as a sum over states, and each beta(p) as a sum over labels. Its
weights are read once per arc, which no table of transitions offers; so it is the strictest comparison.
"""

import copy
from typing import NamedTuple

import numpy as np

from sklearn_hocrf._data.arrays import freeze
from sklearn_hocrf._structure.sum_network import SumNetwork


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
        network, layout = SumNetwork(*(freeze(table, np.int32) for table in tables)), problem.layout
        layout.compiled = layout.compiled._replace(network=network)
        layout.network = network
        layout.arc_structure = layout.arc_structure._replace(**network._asdict())

    def value_gradient(self, w):
        return self.objective.value_gradient(w)

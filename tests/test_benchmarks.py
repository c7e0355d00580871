"""The benchmarks run, and what they compare with gives the same answers."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import random_case, to_batch, to_codes, to_layout

from sklearn_hocrf._objectives import ChainProblem, NegativeLogLikelihood

BENCHMARKS = Path(__file__).parent / "benchmarks"
NAMES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))


@pytest.fixture
def load(monkeypatch):
    """Import a module of the benchmarks, and forget all of them afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_modules_import(load, name):
    assert load(name).__doc__


def small_objective():
    rng = np.random.default_rng(0)
    case = random_case(rng, 3, [7, 1, 5, 0, 9], 3, 12, 1.0, [(0,), (0,)])
    layout, weights = to_layout(case)
    batch = to_batch(case.sequences, len(case.feature_orders))
    return NegativeLogLikelihood().bind(ChainProblem(layout, batch, to_codes(case.labels))), weights


def test_transitions(load):
    objective, _ = small_objective()
    automaton = objective.problem.layout.automaton
    transitions = load("dense_chain").all_transitions(automaton)
    names = {0: ()}  # of the states, as tuples of labels
    for arc in np.argsort(automaton.arc_length, kind="stable"):
        source, target = automaton.arc_source[arc], automaton.arc_target[arc]
        if automaton.arc_length[arc] == automaton.state_length[target]:
            names[target] = (*names[source], int(automaton.arc_label[arc]))
    assert len(set(names.values())) == automaton.n_states
    number = {name: state for state, name in names.items()}
    for state, name in names.items():
        for label in range(automaton.n_labels):
            text = (*name, label)
            longest = next(text[i:] for i in range(len(text) + 1) if text[i:] in number)
            assert transitions.target[state * automaton.n_labels + label] == number[longest]
    arcs = np.repeat(np.arange(automaton.n_arcs), np.diff(transitions.starts))
    np.testing.assert_array_equal(arcs, transitions.arc_of_source)
    of_source = transitions.source * automaton.n_labels + automaton.arc_label[arcs]
    np.testing.assert_array_equal(arcs, transitions.arc[of_source])


@pytest.mark.parametrize("form", ["ByArc", "ByTransition"])
def test_dense_automaton_is_the_same_function(load, form):
    objective, weights = small_objective()
    value, gradient = objective.value_gradient(weights)
    dense = getattr(load("dense_chain"), form)(objective)
    assert_same(dense.value_gradient(weights), value, gradient)
    assert_same(objective.value_gradient(weights), value, gradient)  # as it was before


def assert_same(found, value, gradient):
    assert found[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-10, atol=1e-12)


def test_turns_are_taken(load):
    calls = []
    clock = iter(range(100))
    cases = [lambda: calls.append("a"), lambda: calls.append("b")]
    seconds = load("common").take_turns(cases, 2, clock=lambda: next(clock))
    assert calls == ["a", "b"] * 3
    np.testing.assert_array_equal(seconds, np.ones((2, 2)))


@pytest.mark.parametrize("task", ["bibliography", "punctuation", "chinese_words"])
def test_segmentations_run(load, capsys, task):
    load(f"bench_{task}").main(["--quick"])
    printed = capsys.readouterr().out
    assert "SC^2 against SC^1" in printed or "indicators, log odds" in printed or printed.startswith("skipped")


@pytest.mark.parametrize("task", ["bibliography", "punctuation", "words", "lengths"])
def test_segmentations_are_measured(load, task):
    module = load("bench_segments")
    kind, size = {"words": ("and segments", 0), "lengths": ("SC", 5)}.get(task, ("SC", 2))
    found = module.measure(module.Case(task, kind, size), True, 1)
    if found is None:
        pytest.skip(f"the data of {task} is absent")
    assert min(found) > 0


def test_derivatives_are_measured(load, capsys):
    load("bench_derivatives").main(["--quick", "--rounds", "1"])
    assert "median ratios up to" in capsys.readouterr().out


def test_growth_is_measured(load):
    n_weights, data, seconds, gradients, peak = load("bench_scale").measure(2_500, max_iter=2, n_rounds=1)
    assert min(n_weights, data, seconds, *gradients, peak) > 0
    assert peak >= data


def test_runs_are_cut(load):
    segments = load("bench_segments").cut([["a", "a", "a", "b"], ["b"]], 2)
    assert segments == [[(0, 2, "a"), (2, 3, "a"), (3, 4, "b")], [(0, 1, "b")]]

"""The pattern automaton and its sum network against their definitions in naive Python."""

import gzip
import itertools
import time

import numpy as np
import pytest
from cases import draw_patterns, of_history
from hypothesis import example, given
from hypothesis import strategies as st
from internals import (
    PatternTable,
    all_patterns,
    build_automaton,
    build_sum_network,
    compile_patterns,
    given_patterns,
    observed_patterns,
)
from refusals import refusals


@st.composite
def pattern_sets(draw):
    """Draw (n_labels, patterns, history): up to 8 longer patterns, which often share prefixes and suffixes."""
    n_labels, history = draw(st.integers(1, 4)), draw(st.sampled_from(["tokens", "segments"]))
    return n_labels, of_history(draw_patterns(draw, n_labels, draw(st.integers(0, 5))), history), history


class NaiveAutomaton:
    """States, arcs, failure links and arc resolution, word by word as docs/develop/theory.md defines them."""

    def __init__(self, n_labels, patterns, history="tokens"):
        self.n_labels, self.history = n_labels, history
        self.patterns = set(patterns)
        self.states = {z[:i] for z in patterns for i in range(len(z))} | {(y,) for y in range(n_labels)}
        self.arcs = {(p, y) for p in self.states for y in range(n_labels) if (*p, y) in self.states | self.patterns}
        if history == "segments":
            self.arcs |= {(p, p[-1]) for p in self.states if len(p) > 1}

    def read(self, state, y):
        """Return the state after a label."""
        return self.longest_suffix(state if self.stays(state, y) else (*state, y))

    def stays(self, state, y):
        return self.history == "segments" and state[-1:] == (y,)

    def active(self, state, y):
        """Return the patterns that occur at the token that has a label, longest first."""
        word = (y, y) if self.stays(state, y) else (*state, y)
        return [word[i:] for i in range(len(word)) if word[i:] in self.patterns]

    def longest_suffix(self, word):
        """Return the longest suffix of ``word``, itself included, that is a state."""
        return next(word[i:] for i in range(len(word) + 1) if word[i:] in self.states)

    def fail(self, state):
        return self.longest_suffix(state[1:]) if state else ()

    def resolve(self, state, y):
        """Return the first of state, fail(state), fail(fail(state)), ... that has a y-edge, with y."""
        while (state, y) not in self.arcs:
            state = self.fail(state)
        return state, y


def words_of_states(automaton):
    """Return each state's labels, spelled by the arcs that lead from the empty pattern straight down the trie."""
    words = {0: ()}
    lengths = automaton.state_length
    for source, label, target, length in sorted(
        zip(automaton.arc_source, automaton.arc_label, automaton.arc_target, automaton.arc_length, strict=True),
        key=lambda arc: arc[3],
    ):
        if lengths[target] == length:
            words[int(target)] = (*words[int(source)], int(label))
    assert len(words) == automaton.n_states
    return [words[p] for p in range(automaton.n_states)]


def build(n_labels, patterns, history="tokens"):
    """Return the table, the automaton, and the words of its states and arcs."""
    table = given_patterns(patterns, n_labels, history)
    automaton = build_automaton(table, n_labels)
    states = words_of_states(automaton)
    arcs = [
        (states[source], int(label)) for source, label in zip(automaton.arc_source, automaton.arc_label, strict=True)
    ]
    return table, automaton, states, arcs


@given(pattern_sets())
@example((4, [(0, 1, 0), (1, 2, 0), (3, 0, 1, 2, 0)], "tokens"))  # (0, 1), which 2 does not follow, then (1,)
def test_states_arcs_and_links(drawn):
    table, automaton, states, arcs = build(*drawn)
    naive = NaiveAutomaton(*drawn)
    assert len(set(states)) == len(states)
    assert set(states) == naive.states
    assert len(set(arcs)) == len(arcs)
    assert set(arcs) == naive.arcs
    assert [states[f] for f in automaton.fail] == [naive.fail(p) for p in states]
    assert [states[q] for q in automaton.arc_target] == [naive.read(p, y) for p, y in arcs]
    assert automaton.state_length.tolist() == [len(p) for p in states]
    assert automaton.state_label.tolist() == [p[-1] if p else -1 for p in states]
    assert automaton.arc_length.tolist() == [len(p) + 1 for p, _ in arcs]
    assert states[0] == ()
    for sorted_by in automaton.arc_target, automaton.arc_label, automaton.state_label:  # equal ones are neighbours
        assert (np.diff(sorted_by) >= 0).all()


@given(pattern_sets())
def test_patterns_and_arcs_refer_to_each_other(drawn):
    table, automaton, _, arcs = build(*drawn)
    words = [(*p, y) for p, y in arcs]
    patterns = table.tuples()
    assert [words[a] for a in automaton.pattern_arc] == patterns
    assert [patterns[z] if z >= 0 else None for z in automaton.arc_pattern] == [
        word if word in patterns else None for word in words
    ]
    # the chain of arc_suffix holds every pattern that is a suffix of the arc, longest first
    for a, word in enumerate(words):
        seen = []
        while a >= 0:
            if automaton.arc_pattern[a] >= 0:
                seen.append(patterns[automaton.arc_pattern[a]])
            a = automaton.arc_suffix[a]
        assert seen == NaiveAutomaton(*drawn).active(word[:-1], word[-1])


def dense_s(naive, states, arcs):
    """Return S of equation (7): S[a, q] = 1 iff arc(q, y_a) = a."""
    row = {arc: a for a, arc in enumerate(arcs)}
    matrix = np.zeros((len(arcs), len(states)), dtype=int)
    for q, state in enumerate(states):
        for y in range(naive.n_labels):
            matrix[row[naive.resolve(state, y)], q] = 1
    return matrix


def run(inputs, starts, terms):
    """Append sums to the rows of ``inputs``; a sum may use only what stands before it, and each thing once."""
    values = list(inputs)
    for start, stop in itertools.pairwise(starts):
        used = terms[start:stop].tolist()
        assert used
        assert min(used) >= 0
        assert max(used) < len(values)
        assert len(set(used)) == len(used)
        values.append(sum(values[i] for i in used))
    return np.array(values)


def additions_of(network):
    """Return the number of additions for one position: forward, without those over the arcs into a state."""
    return len(network.terms) - (len(network.starts) - 1)


def check_network(automaton, expected):
    """Feed unit vectors through both passes, so that each yields its whole matrix; the network only knows additions."""
    network = build_sum_network(automaton)
    forward = run(np.eye(automaton.n_states, dtype=int), network.starts, network.terms)
    assert np.array_equal(forward[network.arc_value], expected)
    backward = run(np.eye(automaton.n_arcs, dtype=int), network.back_starts, network.back_terms)
    assert np.array_equal(backward[len(backward) - automaton.n_states :], expected.T)
    return network


@given(pattern_sets())
def test_sum_network_is_s_and_its_transpose(drawn):
    _, automaton, states, arcs = build(*drawn)
    check_network(automaton, dense_s(NaiveAutomaton(*drawn), states, arcs))


@given(st.integers(2, 9), st.data())
def test_sum_network_of_many_labels(n_labels, draw):
    """Many labels make many children in the failure tree, whose sums the network shares."""
    label = st.integers(0, n_labels - 1)
    longer = draw.draw(st.sets(st.lists(label, min_size=2, max_size=4).map(tuple), max_size=40))
    patterns = [(y,) for y in range(n_labels)] + sorted(longer)
    _, automaton, states, arcs = build(n_labels, patterns)
    network = check_network(automaton, dense_s(NaiveAutomaton(n_labels, patterns), states, arcs))
    assert additions_of(network) <= automaton.n_states * n_labels


@pytest.mark.parametrize(("n_labels", "max_order"), [(1, 4), (2, 4), (3, 3), (7, 1)])
def test_sum_network_of_all_patterns_is_a_permutation(n_labels, max_order):
    """With all patterns every state has every arc: nothing is left to add below the top order."""
    patterns = all_patterns(n_labels, max_order).tuples()
    _, automaton, states, arcs = build(n_labels, patterns)
    expected = dense_s(NaiveAutomaton(n_labels, patterns), states, arcs)
    assert additions_of(check_network(automaton, expected)) == 0
    assert (expected.sum(axis=1) == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_labels", "max_order", "n_tokens"), [(26, 4, 45_000), (2, 40, 7_000), (1000, 2, 52_000)], ids=str
)
def test_building_100_000_patterns_takes_seconds(n_labels, max_order, n_tokens):
    codes = np.random.default_rng(0).integers(0, n_labels, n_tokens).astype(np.int32)
    offsets = np.arange(0, n_tokens + 1, 50, dtype=np.int64)
    patterns = observed_patterns(codes, offsets, n_labels, max_order)
    assert len(patterns.lengths) > 90_000
    start = time.perf_counter()
    automaton = build_automaton(patterns, n_labels)
    network = build_sum_network(automaton)
    assert time.perf_counter() - start < 15
    assert additions_of(network) < 3 * patterns.lengths.sum()


def test_counts_of_the_handwriting_data(data_dir):
    """Numbers of patterns, states and additions: of the published patterns of the handwriting data, fold 0."""
    with gzip.open(data_dir / "ocr" / "letter.data.gz", "rt", encoding="ascii") as file:
        table = [line.split("\t", 6) for line in file]
    fold = [(row[1], row[2]) for row in table if row[5] == "0"]
    codes = np.array([ord(letter) - ord("a") for letter, _ in fold], dtype=np.int32)
    offsets = np.flatnonzero([True] + [following == "-1" for _, following in fold])
    for max_order, n_patterns, n_states, additions in [
        (1, 217, 27, 800),
        (2, 488, 209, 2300),
        (3, 749, 451, 3100),
        (5, 1151, 852, 3300),
    ]:
        patterns = observed_patterns(codes, offsets, 26, max_order)
        automaton = build_automaton(patterns, 26)
        assert (len(patterns.lengths), automaton.n_states) == (n_patterns, n_states)
        assert additions_of(build_sum_network(automaton)) <= additions


test_refusals = refusals(
    (compile_patterns,
     ("equal neighbours",
      PatternTable(np.array([[-1, -1, 0], [0, 0, 0]], np.int32), np.array([1, 3], np.int32), "segments")),
     ("history of label patterns", given_patterns((), 2, "words"), given_patterns((), 2, ("segments", 1)))),
    (lambda: compile_patterns(given_patterns((), 2, "segments"), [(0, 1, 1)]),
     "forbidden runs of three or more segments"),
)  # fmt: skip

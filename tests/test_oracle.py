"""The oracle itself: laws that need no second implementation, and published numbers."""

import json
import math
from pathlib import Path

import oracle
import pytest

GOLDEN = Path(__file__).parent / "golden"
INF = math.inf


def golden(name):
    """Return the content of a golden file and its model."""
    content = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    patterns = {tuple(z): w for z, w in content["patterns"]}
    features = {(f, tuple(z)): w for f, z, w in content["features"]}
    return content, oracle.Model(content["n_labels"], patterns, features)


@pytest.mark.parametrize(("n_labels", "n_positions"), [(1, 3), (2, 0), (2, 5), (3, 4), (4, 1)])
def test_zero_weights_count_labellings(n_labels, n_positions):
    model = oracle.Model(n_labels, {}, {})
    assert len(set(oracle.labellings(n_labels, n_positions))) == n_labels**n_positions
    assert oracle.log_partition(model, [{}] * n_positions) == pytest.approx(n_positions * math.log(n_labels))


@pytest.mark.parametrize(
    ("pattern", "where"), [((0,), [0, 1, 3]), ((0, 0), [1]), ((1, 0), [3]), ((0, 0, 1, 0), [3]), ((0,) * 5, [])]
)
def test_a_pattern_occurs_where_it_ends(pattern, where):
    assert [t for t in range(4) if oracle.occurs(pattern, (0, 0, 1, 0), t)] == where


def test_patterns_of_segments_occur_at_their_first_token_and_staying_at_the_others():
    def where(pattern):
        return [t for t in range(6) if oracle.occurs(pattern, (0, 0, 1, 1, 1, 0), t, "segments")]

    assert where((0,)) == [0, 1, 5]
    assert (where((0, 0)), where((1, 1))) == ([1], [3, 4])
    assert (where((0, 1)), where((0, 1, 0)), where((1, 0))) == ([2], [5], [5])
    model = oracle.Model(2, {(0,): 1.0, (0, 0): 10.0, (0, 1, 0): 100.0}, {("a", (1, 1)): 1000.0}, "segments")
    assert oracle.score(model, [{"a": t} for t in range(6)], (0, 0, 1, 1, 1, 0)) == 3 + 10 + 100 + 7000


def test_score_by_hand():
    model = oracle.Model(2, {(0,): 1.0, (0, 1): 10.0}, {("a", (1,)): 100.0, ("b", (0, 0)): 1000.0})
    rows = [{"b": 3.0}, {"a": 0.5}, {"a": -1.0}, {"b": 2.0}]
    assert oracle.score(model, rows, (0, 1, 0, 0)) == 1 + (10 + 50) + 1 + (1 + 2000)
    assert oracle.score(model, rows, (1, 1, 1, 1)) == 0 + 50 - 100 + 0
    assert oracle.score(model, [], ()) == 0


def test_chain_of_order_one_equals_its_matrix_product():
    model = oracle.Model(2, {(0,): 0.3, (1, 0): -0.7, (1, 1): 0.2}, {})
    step = [[math.exp(0.3), 1.0], [math.exp(0.3 - 0.7), math.exp(0.2)]]
    mass = [math.exp(0.3), 1.0]
    for _ in range(3):
        mass = [sum(mass[i] * step[i][j] for i in range(2)) for j in range(2)]
    assert oracle.log_partition(model, [{}] * 4) == pytest.approx(math.log(sum(mass)), rel=1e-14)
    last = oracle.marginals(model, [{}] * 4)[-1]
    assert last == pytest.approx([m / sum(mass) for m in mass], rel=1e-14)


def test_log_sum_exp_treats_forbidden_and_huge_terms():
    assert oracle.log_sum_exp([]) == -INF
    assert oracle.log_sum_exp([-INF, -INF]) == -INF
    assert oracle.log_sum_exp([-INF, 5.0]) == 5.0
    assert oracle.log_sum_exp([1e4, 1e4]) == pytest.approx(1e4 + math.log(2), rel=1e-15)


def test_forbidden_patterns_leave_the_others():
    model = oracle.Model(2, {(0, 1): -INF, (1, 0): -INF}, {})
    rows = [{}] * 4
    assert oracle.log_partition(model, rows) == pytest.approx(math.log(2))
    assert oracle.marginals(model, rows) == [[0.5, 0.5]] * 4
    assert oracle.pattern_marginals(model, rows, [(0, 1), (0, 0)])[2] == [0.0, 0.5]
    assert oracle.best_paths(model, rows) == (0.0, {(0,) * 4, (1,) * 4})
    assert oracle.negative_log_likelihood(model, rows, (0, 1, 1, 1)) == INF
    assert oracle.expected_counts(model, rows)[0] == {(0, 1): 0.0, (1, 0): 0.0}
    with pytest.raises(ValueError, match="every labelling is forbidden"):
        oracle.distribution(oracle.Model(1, {(0,): -INF}, {}), [{}])


def test_gradient_equals_central_differences():
    model = oracle.Model(2, {(0,): 0.2, (0, 1): -0.5, (1, 1, 0): 0.9}, {("a", (1,)): 0.4, ("b", (0, 1)): -1.1})
    rows = [{"a": 1.0, "b": 2.0}, {"b": -1.0}, {"a": 0.5, "b": 0.3}, {}]
    labels = (0, 1, 1, 0)
    step = 1e-5
    for part, derivatives in enumerate(oracle.gradient(model, rows, labels), start=1):
        for key, derivative in derivatives.items():

            def moved(by, part=part, key=key):
                weights = dict(model[part])
                weights[key] += by
                fields = [*model[:part], weights, *model[part + 1 :]]
                return oracle.negative_log_likelihood(oracle.Model(*fields), rows, labels)

            assert derivative == pytest.approx((moved(step) - moved(-step)) / (2 * step), rel=1e-7, abs=1e-9)


def test_empty_sequences_have_one_labelling():
    model = oracle.Model(2, {(0,): 1.0}, {("a", (1,)): 1.0})
    assert oracle.log_partition(model, []) == 0
    assert oracle.marginals(model, []) == []
    assert oracle.gradient(model, [], ()) == ({(0,): 0.0}, {("a", (1,)): 0.0})


@pytest.mark.parametrize(
    ("name", "digits"), [("jmlr_appendix_b", 3), ("jmlr_appendix_b_unconditional", 4), ("underflow", 9)]
)
def test_published_numbers_to_their_printed_digits(name, digits):
    golden_numbers, model = golden(name)
    log_z = oracle.log_partition(model, golden_numbers["rows"])
    assert round(log_z, digits) == golden_numbers["log_partition_printed"]
    asked = [(y,) for y in range(model.n_labels)] + [tuple(z) for z in golden_numbers["asked"]]
    marginals = oracle.pattern_marginals(model, golden_numbers["rows"], asked)
    if "marginals_printed" in golden_numbers:
        assert [[round(p, 2) for p in line] for line in marginals] == golden_numbers["marginals_printed"]
    # and the file holds what its script writes
    assert log_z == pytest.approx(golden_numbers["log_partition"], rel=1e-14)
    assert [p for line in marginals for p in line] == pytest.approx(sum(golden_numbers["marginals"], []), rel=1e-12)
    best, paths = oracle.best_paths(model, golden_numbers["rows"])
    assert best == golden_numbers["best_score"]
    assert paths == {tuple(path) for path in golden_numbers["best_paths"]}


@pytest.mark.parametrize(
    "model",
    [
        oracle.Model(3, {}, {}),
        oracle.Model(2, {(0,): -0.4}, {("a", (1,)): 1.5}),
        oracle.Model(3, {(0, 1): 1.0, (2, 2, 2): -0.5, (1, 0): -INF}, {("a", (1,)): 0.7, ("b", (0, 1)): 2.0}),
        oracle.Model(2, {(0, 1): -1000.0, (1, 0, 0): 1000.0, (1, 0, 1, 0): -INF}, {("b", (1, 1, 1)): -400.0}),
        oracle.Model(3, {(0, 1): 1.0, (2, 0, 2): -0.5, (1, 0): -INF, (2, 2): 0.6}, {("a", (1, 1)): 0.7}, "segments"),
    ],
)
def test_dynamic_program_equals_enumeration(model):
    for rows in [], [{"a": 1.0}], [{}, {"a": 2.0, "b": -1.0}, {"b": 0.5}, {}, {"a": -1.0}]:
        answers = oracle.dynamic_program(model, rows)
        assert answers.log_partition == pytest.approx(oracle.log_partition(model, rows), rel=1e-12)
        assert answers.best_score == pytest.approx(oracle.best_paths(model, rows)[0], rel=1e-12)
        for line, expected in zip(answers.marginals, oracle.marginals(model, rows), strict=True):
            assert line == pytest.approx(expected, abs=1e-12)

"""The semi-CRF oracle itself: closed forms, numbers by hand, and the CRF oracle where all segments have length 1."""

import math

import numpy as np
import oracle
import pytest
import segment_oracle as so

INF = math.inf


def free(n_labels, longest=INF, repeats=True, patterns=None, features=None):
    """Return a model whose labels all have the same longest segment."""
    return so.Model(n_labels, (longest,) * n_labels, repeats, patterns or {}, features or {})


@pytest.mark.parametrize(("n_labels", "length"), [(1, 0), (1, 1), (1, 6), (2, 5), (3, 4), (4, 2)])
def test_free_segmentations_are_counted_by_a_power(n_labels, length):
    """The first token has n_labels choices; each further one goes on, or begins a segment of any label."""
    expected = n_labels * (n_labels + 1) ** (length - 1) if length else 1
    segmentations = list(so.segmentations(free(n_labels), length))
    assert len(segmentations) == len(set(segmentations)) == expected
    assert all(so.is_allowed(free(n_labels), length, s) for s in segmentations)
    assert so.log_partition(free(n_labels), so.Sequence(length, {})) == pytest.approx(math.log(expected), abs=1e-14)


@pytest.mark.parametrize(("n_labels", "length"), [(1, 3), (2, 5), (3, 4)])
def test_runs_are_the_labellings(n_labels, length):
    """Without repeats every labelling of the tokens is one segmentation, and every segmentation is one labelling."""
    segmentations = list(so.segmentations(free(n_labels, repeats=False), length))
    labellings = {tuple(y for u, v, y in s for _ in range(u, v)) for s in segmentations}
    assert labellings == set(oracle.labellings(n_labels, length))
    assert len(segmentations) == n_labels**length


def test_segments_of_one_label_up_to_two_are_fibonacci_numbers():
    assert [len(list(so.segmentations(free(1, 2), length))) for length in range(8)] == [1, 1, 2, 3, 5, 8, 13, 21]


def test_segmentations_by_hand():
    model = so.Model(2, (2, 1), False, {}, {})
    assert set(so.segmentations(model, 3)) == {
        ((0, 1, 0), (1, 2, 1), (2, 3, 0)),
        ((0, 2, 0), (2, 3, 1)),
        ((0, 1, 1), (1, 2, 0), (2, 3, 1)),
        ((0, 1, 1), (1, 3, 0)),
    }
    assert list(so.segmentations(so.Model(1, (1,), False, {}, {}), 2)) == []


def test_short_segments_stand_at_the_ends():
    model = so.Model(1, (3,), True, {}, {}, (2,))
    assert set(so.segmentations(model, 4)) == {
        ((0, 1, 0), (1, 3, 0), (3, 4, 0)),
        ((0, 1, 0), (1, 4, 0)),
        ((0, 2, 0), (2, 4, 0)),
        ((0, 3, 0), (3, 4, 0)),
    }
    assert list(so.segmentations(model, 1)) == [((0, 1, 0),)]
    assert not so.is_allowed(model, 4, ((0, 1, 0), (1, 2, 0), (2, 4, 0)))


@pytest.mark.parametrize(
    "wrong",
    [
        ((0, 1, 0),),
        ((0, 1, 0), (1, 2, 1), (1, 3, 0)),
        ((0, 3, 0),),
        ((0, 1, 1), (1, 3, 1)),
        ((0, 1, 0), (1, 3, 0)),
        ((0, 2, 0), (2, 2, 1), (2, 3, 0)),
        (),
    ],
    ids=["short", "overlap", "too_long", "too_long_label_1", "repeat", "empty_segment", "nothing"],
)
def test_what_is_not_allowed(wrong):
    model = so.Model(2, (2, 1), False, {}, {})
    assert not so.is_allowed(model, 3, wrong)
    assert so.score(model, so.Sequence(3, {}), wrong) == -INF


def test_score_by_hand():
    features = {("a", (1,)): 100.0, ("b", (0, 1)): 1000.0, ("b", (1, 0, 1)): 10_000.0}
    model = so.Model(2, (INF, INF), True, {(0,): 1.0, (0, 1): 10.0}, features)
    sequence = so.Sequence(4, {("a", 1, 3): 0.5, ("b", 1, 3): 3.0, ("b", 3, 4): -1.0, ("a", 0, 4): 2.0})
    assert so.score(model, sequence, ((0, 1, 0), (1, 3, 1), (3, 4, 1))) == 1 + (10 + 50 + 3000)
    assert so.score(model, sequence, ((0, 1, 1), (1, 3, 0), (3, 4, 1))) == 1 + (10 - 1000 - 10_000)
    assert so.score(model, sequence, ((0, 4, 1),)) == 200
    assert so.score(model, so.Sequence(0, {}), ()) == 0
    same = so.Sequence(4, lambda f, u, v: sequence.values.get((f, u, v), 0.0))
    assert so.score(model, same, ((0, 4, 1),)) == 200


def test_one_token_is_logistic_regression():
    model = free(3, patterns={(0,): 0.5, (1, 2): 9.0}, features={("a", (1,)): 2.0})
    sequence = so.Sequence(1, {("a", 0, 1): 1.5})
    total = math.exp(0.5) + math.exp(3) + 1
    assert so.log_partition(model, sequence) == pytest.approx(math.log(total), rel=1e-14)
    marginals = so.token_marginals(so.distribution(model, sequence), 3, 1)
    assert marginals[0] == pytest.approx([math.exp(0.5) / total, math.exp(3) / total, 1 / total], rel=1e-14)


def test_one_label_splits_by_independent_coins():
    """A weight w for each segment: every border after the first token is there with probability e^w / (1 + e^w)."""
    w, length = 0.7, 5
    p = so.distribution(free(1, patterns={(0,): w}), so.Sequence(length, {}))
    coin = math.exp(w) / (1 + math.exp(w))
    assert so.log_partition(free(1, patterns={(0,): w}), so.Sequence(length, {})) == pytest.approx(
        w + (length - 1) * math.log1p(math.exp(w)), rel=1e-14
    )
    begins = [row[0] for row in so.position_marginals(p, length, [(0, lambda u, v: {u})])]
    assert begins == pytest.approx([1] + [coin] * (length - 1), rel=1e-12)
    ends = [row[0] for row in so.pattern_marginals(p, length, [(0,)])]
    assert ends == pytest.approx([coin] * (length - 1) + [1], rel=1e-12)
    second = [row[0] for row in so.pattern_marginals(p, length, [(0, 0)])]  # one more border before
    assert second == pytest.approx([c * (1 - (1 - coin) ** t) for t, c in enumerate(ends)], abs=1e-12)
    np.testing.assert_allclose(so.token_marginals(p, 1, length), 1.0, rtol=1e-12)
    assert so.segment_marginals(p)[1, 3, 0] == pytest.approx(coin * (1 - coin) * coin, rel=1e-12)
    expected = so.expected_counts(free(1, patterns={(0,): w}), so.Sequence(length, {}))
    assert expected[0][(0,)] == pytest.approx(1 + (length - 1) * coin, rel=1e-12)


def test_segment_marginals_add_up_to_those_of_tokens():
    model = so.Model(
        2, (2, 3), True, {(0,): 0.3, (1, 1): -0.4, (0, 1, 0): 1.0}, {("a", (1,)): 0.5, ("a", (0, 0)): -1.0}
    )
    sequence = so.Sequence(5, lambda f, u, v: (v - u) ** 2 - u)
    p = so.distribution(model, sequence)
    assert math.fsum(p.values()) == pytest.approx(1, rel=1e-14)
    segments = so.segment_marginals(p)
    for t, line in enumerate(so.token_marginals(p, 2, 5)):
        assert math.fsum(line) == pytest.approx(1, rel=1e-12)
        for y in range(2):
            covering = [x for (u, v, label), x in segments.items() if label == y and u <= t < v]
            assert line[y] == pytest.approx(math.fsum(covering), rel=1e-12)


def test_forbidden_patterns_leave_the_others():
    model = free(2, patterns={(0, 1): -INF, (1, 0): -INF, (0, 0): -INF, (1, 1): -INF, (0,): 1.0})
    sequence = so.Sequence(3, {})
    assert so.log_partition(model, sequence) == pytest.approx(math.log(1 + math.e))
    assert so.best_segmentations(model, sequence) == (1.0, {((0, 3, 0),)})
    assert so.negative_log_likelihood(model, sequence, ((0, 1, 0), (1, 3, 1))) == INF
    assert so.expected_counts(model, sequence)[0][0, 1] == 0
    with pytest.raises(ValueError, match="every segmentation is forbidden"):
        so.distribution(free(1, 2, patterns={(0, 0): -INF}), sequence)
    assert so.log_partition(free(1, 2, patterns={(0, 0): -INF}), sequence) == -INF
    assert so.best_segmentations(free(1, 1, repeats=False), sequence) == (-INF, set())


def test_empty_sequences_have_one_segmentation():
    model, empty = free(2, patterns={(0,): 1.0}, features={("a", (1,)): 1.0}), so.Sequence(0, {})
    assert so.log_partition(model, empty) == 0
    assert so.distribution(model, empty) == {(): 1.0}
    assert so.token_marginals({(): 1.0}, 2, 0) == []
    assert so.segment_marginals({(): 1.0}) == {}
    assert so.gradient(model, empty, ()) == ({(0,): 0.0}, {("a", (1,)): 0.0})


CRFS = [
    oracle.Model(3, {}, {}),
    oracle.Model(2, {(0,): -0.4}, {("a", (1,)): 1.5}),
    oracle.Model(3, {(0, 1): 1.0, (2, 2, 2): -0.5, (1, 0): -INF}, {("a", (1,)): 0.7, ("b", (0, 1)): 2.0}),
    oracle.Model(2, {(0, 1): -1000.0, (1, 0, 0): 1000.0, (1, 0, 1, 0): -INF}, {("b", (1, 1, 1)): -400.0}),
]
ROWS = [[], [{"a": 1.0}], [{}, {"a": 2.0, "b": -1.0}, {"b": 0.5}, {}, {"a": -1.0}]]


@pytest.mark.parametrize("crf", CRFS)
@pytest.mark.parametrize("rows", ROWS)
def test_segments_of_length_one_are_the_crf(crf, rows):
    model = so.Model(crf.n_labels, (1,) * crf.n_labels, True, crf.patterns, crf.features)
    sequence = so.Sequence(len(rows), {(f, t, t + 1): x for t, row in enumerate(rows) for f, x in row.items()})

    def tokenwise(labels):
        return tuple((t, t + 1, y) for t, y in enumerate(labels))

    expected = oracle.distribution(crf, rows)
    p = so.distribution(model, sequence)
    assert p == pytest.approx({tokenwise(labels): x for labels, x in expected.items()}, abs=1e-14)
    assert so.log_partition(model, sequence) == pytest.approx(oracle.log_partition(crf, rows), rel=1e-14)
    assert so.token_marginals(p, crf.n_labels, len(rows)) == [
        pytest.approx(line, abs=1e-14) for line in oracle.marginals(crf, rows)
    ]
    asked = [(0,), (0, 1), (1, 0, 0), (1, 1, 1, 1)]
    assert so.pattern_marginals(p, len(rows), asked) == [
        pytest.approx(line, abs=1e-14) for line in oracle.pattern_marginals(crf, rows, asked)
    ]
    top, paths = oracle.best_paths(crf, rows)
    assert so.best_segmentations(model, sequence) == (pytest.approx(top), {tokenwise(labels) for labels in paths})
    labels = (1, 0, 0, 1, 1)[: len(rows)]
    assert so.negative_log_likelihood(model, sequence, tokenwise(labels)) == pytest.approx(
        oracle.negative_log_likelihood(crf, rows, labels), abs=1e-12
    )
    for found, part in zip(
        so.gradient(model, sequence, tokenwise(labels)), oracle.gradient(crf, rows, labels), strict=True
    ):
        assert found == pytest.approx(part, abs=1e-12)


def test_gradient_equals_central_differences():
    features = {("a", (1,)): 0.4, ("b", (0, 1)): -1.1, ("b", (1, 1)): 0.2}
    model = so.Model(2, (2, INF), True, {(0,): 0.2, (0, 1): -0.5, (1, 1, 0): 0.9}, features)
    sequence = so.Sequence(5, lambda f, u, v: {"a": v - u - 1.5, "b": math.sin(3 * u + v)}[f])
    segmentation = ((0, 1, 0), (1, 4, 1), (4, 5, 0))
    step = 1e-5
    for part, derivatives in enumerate(so.gradient(model, sequence, segmentation), start=3):
        for key, derivative in derivatives.items():

            def moved(by, part=part, key=key):
                weights = dict(model[part])
                weights[key] += by
                fields = [*model[:part], weights, *model[part + 1 :]]
                return so.negative_log_likelihood(so.Model(*fields), sequence, segmentation)

            assert derivative == pytest.approx((moved(step) - moved(-step)) / (2 * step), rel=1e-7, abs=1e-9)


FIRST_ORDER = [
    so.Model(3, (INF, 2, 1), True, {}, {}),
    so.Model(1, (3,), True, {(0,): -0.7, (0, 0): 0.3}, {("a", (0,)): 0.5}),
    so.Model(2, (4, INF), False, {(0,): 0.3, (0, 1): -1.0}, {("a", (1,)): 1.5, ("b", (1, 0)): -0.5}),
    so.Model(3, (3, 4, INF), True, {(0, 1): -0.4}, {("a", (1,)): 0.8}, (2, 3, 1)),
    so.Model(3, (1, 2, INF), True, {(0, 0): -INF, (2, 1): 500.0}, {("b", (2,)): -400.0, ("a", (1, 1)): 300.0}),
]


@pytest.mark.parametrize("model", FIRST_ORDER)
@pytest.mark.parametrize("length", [1, 2, 5])
def test_dynamic_program_equals_enumeration(model, length):
    sequence = so.Sequence(length, lambda f, u, v: {"a": v - u - 1.5, "b": math.sin(3 * u + v)}[f])
    found = so.dynamic_program(model, sequence)
    p = so.distribution(model, sequence)
    assert found.log_partition == pytest.approx(so.log_partition(model, sequence), rel=1e-12)
    assert found.best_score == pytest.approx(so.best_segmentations(model, sequence)[0], rel=1e-12)
    np.testing.assert_allclose(found.marginals, so.token_marginals(p, model.n_labels, length), atol=1e-12)
    segments = {(u, u + d + 1, y): x for (u, d, y), x in np.ndenumerate(found.segments) if x > 0}
    assert segments == pytest.approx({s: x for s, x in so.segment_marginals(p).items() if x > 0}, abs=1e-12)
    pairs = [(a, b) for a in range(model.n_labels) for b in range(model.n_labels)]
    expected = [
        [so.probability(p, lambda s, t=t, a=a, b=b: (a, b) in _borders(s).get(t, ())) for a, b in pairs]
        for t in range(length)
    ]
    np.testing.assert_allclose(found.transitions[:, :-1].reshape(length, -1), expected, atol=1e-12)
    np.testing.assert_allclose(found.transitions[0, -1], [x[0] for x in _first(p, model.n_labels)], atol=1e-12)


def _borders(segmentation):
    """Return {token: [(label before, label from there)]}."""
    return {b[0]: [(a[2], b[2])] for a, b in zip(segmentation, segmentation[1:], strict=False)}


def _first(p, n_labels):
    return [[so.probability(p, lambda s, y=y: s[0][2] == y)] for y in range(n_labels)]

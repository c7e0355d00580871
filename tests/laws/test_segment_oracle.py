"""The oracle against closed forms and numbers by hand; ``test_laws`` contains published numbers and tests gradients."""

import math

import numpy as np
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


MODELS = [
    so.Model(3, (INF, 2, 1), True, {}, {}),
    so.Model(1, (3,), True, {(0,): -0.7, (0, 0): 0.3}, {("a", (0,)): 0.5}),
    so.Model(2, (4, INF), False, {(0,): 0.3, (0, 1): -1.0}, {("a", (1,)): 1.5, ("b", (1, 0)): -0.5}),
    so.Model(3, (3, 4, INF), True, {(0, 1): -0.4}, {("a", (1,)): 0.8}, (2, 3, 1)),
    so.Model(3, (1, 2, INF), True, {(0, 0): -INF, (2, 1): 500.0}, {("b", (2,)): -400.0, ("a", (1, 1)): 300.0}),
    so.chain(2, {(0,): -0.4}, {("a", (1,)): 1.5}),
    so.chain(3, {(0, 1): 1.0, (2, 2, 2): -0.5, (1, 0): -INF}, {("a", (1,)): 0.7, ("b", (0, 1)): 2.0}),
    so.chain(2, {(0, 1): -1000.0, (1, 0, 0): 1000.0, (1, 0, 1, 0): -INF}, {("b", (1, 1, 1)): -400.0}),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_dynamic_program_equals_enumeration(model, length):
    sequence = so.Sequence(length, lambda f, u, v: {"a": v - u - 1.5, "b": math.sin(3 * u + v)}[f])
    found, p = so.dynamic_program(model, sequence), so.distribution(model, sequence)
    assert found.log_partition == pytest.approx(so.log_partition(model, sequence), rel=1e-12)
    assert found.best_score == pytest.approx(so.best_segmentations(model, sequence)[0], rel=1e-12)
    for line, expected in zip(found.marginals, so.token_marginals(p, model.n_labels, length), strict=True):
        assert line == pytest.approx(expected, abs=1e-12)
    segments = {s: x for s, x in found.segments.items() if x > 0}
    assert segments == pytest.approx({s: x for s, x in so.segment_marginals(p).items() if x > 0}, abs=1e-12)

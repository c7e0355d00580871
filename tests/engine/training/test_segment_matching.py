"""Local feature matching of segments: value against enumeration, gradient against differences."""

import math

import numpy as np
import pytest
from cases import peak_of
from hypothesis import given
from hypothesis import strategies as st
from internals import Matching, SegmentModel, SegmentPlan
from segment_cases import (
    FEATURES,
    matching_by_definition,
    random_segment_case,
    segment_cases,
    to_segment_batch,
    to_segment_layout,
    to_segments,
)

PATTERNS = [(0, 1), (1, 0), (2, 0), (0, 1, 0), (1, 2, 0)]
ORDERS = {"order_0": ((0,),), "conjoined": ((0, 1, 2),)}
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0])
INTERCEPTS = st.sampled_from([False, True, "segment", "token"])


def prepare(case, sequence_weight=None, schedule=None, **options):
    """Return layout and criterion of a case's data."""
    batch = to_segment_batch(case)
    layout = to_segment_layout(case, batch, sequence_weight=sequence_weight, **options)
    truth = to_segments(case.segmentations, batch.offsets)
    sequence_weight = np.ones(len(batch)) if sequence_weight is None else sequence_weight
    return layout, Matching(SegmentModel, SegmentPlan(layout, batch, schedule), truth, sequence_weight)


def make_case(seed, lengths, features="all", orders="conjoined", **options):
    patterns = [*PATTERNS, (2, 2, 1)] if options.get("repeats", True) else PATTERNS
    options = {"longest": (5, 3, 1), "scale": 0.7, "patterns": patterns, **options}
    rng = np.random.default_rng(seed)
    return random_segment_case(rng, lengths, FEATURES[features], ORDERS[orders], **options)


def some_weights(layout, seed=0, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=layout.n_weights)


# ------------------------------------------------------------------------------------------------------------ function


@st.composite
def training_data(draw):
    case = draw(segment_cases(n_sequences=2))
    weights = draw(st.lists(WEIGHTS, min_size=len(case.rows), max_size=len(case.rows)))
    return case, np.array(weights), {"all_pairs": draw(st.booleans()), "fit_intercept": draw(INTERCEPTS)}


@given(training_data())
def test_value_equals_enumeration(drawn):
    case, weights, options = drawn
    layout, matching = prepare(case, weights, **options)
    w = some_weights(layout)
    before = w.copy()
    value, gradient = matching.value_gradient(w)
    np.testing.assert_array_equal(w, before)
    assert gradient.shape == w.shape
    assert value == pytest.approx(matching_by_definition(layout, w, case, weights), rel=1e-10, abs=1e-11)


def assert_gradient(matching, w, directions=2, step=1e-4):
    """Compare the gradient with central differences of fourth order along some directions."""
    _, gradient = matching.value_gradient(w)
    rng = np.random.default_rng(3)
    for direction in rng.normal(size=(directions, len(w))):
        slopes = [
            (matching.value_gradient(w + d * direction)[0] - matching.value_gradient(w - d * direction)[0]) / (2 * d)
            for d in (step, 2 * step)
        ]
        scale = np.linalg.norm(gradient) * np.linalg.norm(direction)
        assert scale > 1e-3
        assert gradient @ direction == pytest.approx((4 * slopes[0] - slopes[1]) / 3, rel=0, abs=1e-9 * scale)


@pytest.mark.parametrize(("features", "orders"), [*((name, "conjoined") for name in FEATURES), ("all", "order_0")])
def test_gradient_equals_differences(features, orders):
    case = make_case(0, [9, 0, 5, 12, 1, 3], features, orders)
    layout, matching = prepare(case, np.array([1.0, 2.0, 0.5, 1.0, 0.0, 3.0]))
    assert_gradient(matching, some_weights(layout, scale=0.5), directions=1)


@pytest.mark.parametrize("features", FEATURES)
def test_value_of_all_features_equals_enumeration(features):
    case = make_case(1, [4, 3], features)
    layout, matching = prepare(case, all_pairs=False)
    w = some_weights(layout)
    assert matching.value_gradient(w)[0] == pytest.approx(matching_by_definition(layout, w, case, [1.0] * 2), rel=1e-11)


@pytest.mark.parametrize("options", [{"repeats": False}, {"longest": (math.inf, 2, math.inf)}, {"patterns": []}])
def test_gradient_of_segmentations_of_all_kinds(options):
    layout, matching = prepare(make_case(2, [13, 5, 9], **options))
    assert_gradient(matching, some_weights(layout, scale=0.5))


PLACES = "sklearn_hocrf._engine.training.problem._PLACES"


def test_parts_add_up(monkeypatch):
    case, weight = make_case(10, [9, 0, 20, 3, 1, 14, 2]), np.array([1.0, 2.0, 0.5, 1.0, 0.0, 3.0, 1.0])
    layout, whole = prepare(case, weight)
    monkeypatch.setattr(PLACES, 1)
    _, in_parts = prepare(case, weight)
    assert [len(matching.parts) for matching in (in_parts, whole)] == [6, 1]
    w = some_weights(layout)
    (value, gradient), expected = in_parts.value_gradient(w), whole.value_gradient(w)
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-11)


def test_memory_does_not_grow_with_the_data(monkeypatch):
    monkeypatch.setattr(PLACES, 1 << 15)  # both data have several parts

    def peak(n_sequences):
        layout, matching = prepare(make_case(9, [20] * n_sequences, "plain"))
        assert len(matching.parts) > 2
        w = some_weights(layout)
        # the first evaluation makes tables, which are kept for the next one
        return np.array([peak_of(lambda: matching.value_gradient(w)) for _ in range(2)])

    peak(120)  # what a process allocates once
    few, many = peak(120), peak(420)
    assert (many - few < 8 * 300 * 20 * np.array([2, 1])).all()  # numbers per token

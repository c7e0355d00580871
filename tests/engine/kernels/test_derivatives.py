"""Derivatives of expected counts along a direction of the weights: kernels on dual numbers, for chains and segments."""

import itertools

import numpy as np
import pytest
import segment_oracle as so
from cases import cases, chain_case, count_wide_passes, golden_case, random_case, reschedule, to_chain_model
from hypothesis import given
from internals import LANES
from scipy import sparse
from segment_cases import EXTREME, FEATURES, is_possible, random_segment_case, segment_cases, to_segment_model

PATTERNS = [(0, 1), (1, 0), (2, 0), (0, 1, 0), (1, 2, 0)]
CHAINS = {  # orders of the features' patterns
    "order_0": [(0,), (0,)],
    "conjoined": [(0,), (0, 1), (2,)],
    "conjoined_only": [(1, 2)],
    "no_features": [],
}
SEGMENTS = {"order_0": ((0,),), "conjoined": ((0, 1, 2),), "conjoined_only": ((1, 2),)}


def chain_model(seed, lengths, orders="conjoined", scale=0.7, **options):
    rng = np.random.default_rng(seed)
    return to_chain_model(random_case(rng, 3, lengths, 3, 12, scale, CHAINS[orders], **options))


def segment_model(seed, lengths, features="all", orders="conjoined", **options):
    repeats = options.get("repeats", True)
    patterns = [*PATTERNS, (2, 2, 1)] if repeats else PATTERNS
    options = {"longest": (5, 3, 1), "scale": 0.7, "patterns": patterns, **options}
    rng = np.random.default_rng(seed)
    return to_segment_model(random_segment_case(rng, lengths, FEATURES[features], SEGMENTS[orders], **options))


def plan_of(model, batch):
    return model.posterior(batch).plan


def some_direction(model, seed=0):
    return np.random.default_rng(seed).normal(size=model.layout.n_weights)


def assert_close(actual, expected, rtol=1e-8):
    """Compare vectors to a precision relative to the largest component."""
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * max(np.abs(expected).max(initial=0.0), 1e-3))


# --------------------------------------------------------------------------------------------------------- enumeration


def to_vector(layout, of_patterns, of_features):
    """Return counts by pattern, and by feature and pattern, as the layout's vector."""
    row_of = {z: i for i, z in enumerate(layout.patterns.tuples())}
    pattern_coef, coef = np.zeros(len(row_of)), np.zeros((len(row_of), layout.n_features + 1))
    for z, count in of_patterns.items():
        pattern_coef[row_of[z]] = count
    for (feature, z), count in of_features.items():
        coef[row_of[z], feature] = count
    token_coef = coef[: layout.patterns.n_labels, -1]  # of segments, see segment_cases
    return layout.weights(pattern_coef, sparse.csr_array(coef[:, :-1]), token_coef=token_coef)


def covariance(layout, model, sequence):
    """Return the covariance matrix of the counts of one sequence."""
    probability, number = so.distribution(model, sequence), itertools.count(1)
    place = to_vector(layout, *({key: next(number) for key in keys} for keys in (model.patterns, model.features)))
    parts = [so.counts(model, sequence, one) for one in probability]
    counts = np.array([[0, *by_pattern.values(), *by_pair.values()] for by_pattern, by_pair in parts])
    counts = counts[:, place.astype(int)]
    p = np.array([*probability.values()])
    counts -= p @ counts
    return counts.T @ (p[:, None] * counts)


def assert_enumerated(model, batch, case, rtol):
    """Compare the derivatives along some directions with the covariance; each sequence has a weight of its own."""
    sequence_weight = 1.0 + 0.5 * np.arange(len(case.sequences))
    matrix = sum(
        weight * covariance(model.layout, case.model, sequence)
        for weight, sequence in zip(sequence_weight, case.sequences, strict=True)
    )
    plan = plan_of(model, batch)
    for seed in range(2):
        direction = some_direction(model, seed)
        product = model.posterior_on(plan).hessian_vector_product(direction, sequence_weight)
        assert product.shape == (model.layout.n_weights,)
        np.testing.assert_allclose(product, matrix @ direction, rtol=rtol, atol=rtol * max(np.abs(matrix).max(), 1.0))


@given(cases(forbid=True, history=None).filter(is_possible))
def test_chains_equal_enumeration(case):
    assert_enumerated(*to_chain_model(case), case, 1e-10)


@given(segment_cases(forbid=True).filter(is_possible))
def test_segments_equal_enumeration(case):
    assert_enumerated(*to_segment_model(case), case, 1e-10)


@given(cases(EXTREME, forbid=True).filter(is_possible))
def test_chains_of_extreme_weights_equal_enumeration(case):
    """Some are done in log space."""
    assert_enumerated(*to_chain_model(case), case, 1e-8)


@pytest.mark.slow
@given(segment_cases(EXTREME, forbid=True).filter(is_possible))
def test_segments_of_extreme_weights_equal_enumeration(case):
    assert_enumerated(*to_segment_model(case), case, 1e-8)


# --------------------------------------------------------------------------------------------------------- differences


@pytest.mark.parametrize("cut_size", [1, 3000])
def test_sequences_cut_by_position(cut_size):
    model, batch = chain_model(3, [*np.random.default_rng(3).integers(0, 50, 21), 120, 1, 97])
    direction = some_direction(model)
    expected = model.posterior(batch).hessian_vector_product(direction)
    plan = reschedule(model, cut_size=cut_size).posterior(batch).plan
    assert max(len(task.tiles) for chunk in plan.chunks for task in chunk) > 1
    assert_close(model.posterior_on(plan).hessian_vector_product(direction), expected, 1e-11)


@pytest.mark.parametrize("model_of", [chain_model, segment_model])
def test_slopes_do_not_depend_on_the_size_of_tiles(model_of):
    lengths = np.random.default_rng(4).integers(0, 30, 2 * LANES + 5)
    model, batch = model_of(4, lengths)
    direction = some_direction(model)
    expected = model.posterior(batch).hessian_vector_product(direction)
    plan = reschedule(model, tile_sizes=(0, 0)).posterior(batch).plan
    assert_close(model.posterior_on(plan).hessian_vector_product(direction), expected, 1e-11)


# -------------------------------------------------------------------------------------------------------- wide numbers


@pytest.mark.parametrize("make_model", [chain_model, pytest.param(segment_model, marks=pytest.mark.slow)])
def test_sequences_that_need_wide_numbers(make_model, monkeypatch):
    counter = count_wide_passes(monkeypatch)
    lengths = np.random.default_rng(7).integers(2, 30, 12)
    model, batch = make_model(7, lengths, scale=1.0)
    plan, direction = plan_of(model, batch), some_direction(model)
    expected = model.posterior_on(plan).hessian_vector_product(direction)
    assert counter.calls == 0
    model.scales = False  # every sequence is suspect
    assert_close(model.posterior_on(plan).hessian_vector_product(direction), expected, 1e-10)
    assert counter.calls > 0


def test_underflow_is_seen():
    _, case = golden_case("underflow")
    calm = [[{}] * 6] * 5
    case = chain_case(case.model, case.feature_orders, calm + case.rows, [(0,) * 6] * 6)
    model, batch = to_chain_model(case)
    plan, direction = plan_of(model, batch), some_direction(model)
    matrix = sum(covariance(model.layout, case.model, sequence) for sequence in case.sequences)
    assert_close(model.posterior_on(plan).hessian_vector_product(direction), matrix @ direction, 1e-9)


def test_large_weights_keep_their_digits():
    """The direction may be as large as the weights: what it adds to all scores of a row must cancel."""
    model, batch = chain_model(8, [30, 12, 25], "order_0")
    plan, direction = plan_of(model, batch), some_direction(model)
    labels = model.layout.weights(
        np.where(model.layout.patterns.lengths == 1, 1e6, 0.0),
        sparse.csr_array((len(model.layout.patterns.lengths), model.layout.n_features)),
    )
    assert np.abs(model.posterior_on(plan).hessian_vector_product(labels)).max() < 1e-6  # every position has one label
    product = model.posterior_on(plan).hessian_vector_product(direction + labels)
    assert_close(product, model.posterior_on(plan).hessian_vector_product(direction), 1e-7)


# ---------------------------------------------------------------------------------------------------------------- laws

"""The training problem: which weights exist, objective and gradient against the oracle, penalty and solver."""

import math
import tracemalloc

import numpy as np
import pytest
import segment_oracle as so
from cases import build_layout, cases, chain_case, random_case, to_batch, to_codes
from hypothesis import given
from hypothesis import strategies as st
from internals import CHAIN, LBFGS, NegativeLogLikelihood, Penalty, Problem, given_patterns
from segment_cases import spread

SEQUENCE_WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0])  # exact in binary: counts can be compared with thresholds


def prepare(case, sequence_weight=None, n_jobs=None, **options):
    """Return the layout and the objective of a case's data."""
    batch, codes = to_batch(case.rows, case.n_attributes), to_codes(case.labels)
    patterns = given_patterns(case.model.patterns, case.model.n_labels)
    layout = build_layout(
        batch, codes, patterns, feature_orders=case.feature_orders, sequence_weight=sequence_weight, **options
    )
    return layout, NegativeLogLikelihood().bind(
        Problem(CHAIN, layout, batch, codes, sequence_weight=sequence_weight, n_jobs=n_jobs)
    )


def training_case(seed=0, lengths=(7, 1, 5, 9, 4, 6), n_labels=3, max_order=2, feature_orders=((0,), (0, 1), (2,))):
    rng = np.random.default_rng(seed)
    return random_case(rng, n_labels, lengths, max_order, 8, 1.0, list(feature_orders))


def naive_pairs(case, sequence_weight, all_pairs, min_count):
    """Return the (feature, pattern) pairs that have a weight."""
    allowed = [(f, z) for f, k in enumerate(case.feature_orders) for z in case.model.patterns if len(z) - 1 in k]
    if all_pairs:
        return set(allowed)
    seen = dict.fromkeys(allowed, 0.0)
    for rows, labels, weight in zip(case.rows, case.labels, sequence_weight, strict=True):
        for t, row in enumerate(rows):
            for f, z in allowed:
                seen[f, z] += weight * (f in row and z == labels[max(0, t + 1 - len(z)) : t + 1])
    threshold = min_count if min_count > 1 else 0
    return {pair for pair, count in seen.items() if count > 0 and count >= threshold}


def naive_biases(case, fit_intercept):
    return {z for z in case.model.patterns if fit_intercept or len(z) > 1}


@st.composite
def training_data(draw):
    case = draw(cases())
    weights = draw(st.lists(SEQUENCE_WEIGHTS, min_size=len(case.labels), max_size=len(case.labels)))
    all_pairs = draw(st.booleans())
    min_count = 1 if all_pairs else draw(st.sampled_from([1, 2, 3]))
    options = {
        "all_pairs": all_pairs,
        "min_count": min_count,
        "fit_intercept": draw(st.booleans()),
    }
    return case, np.array(weights), options


@given(training_data())
def test_which_weights_there_are(drawn):
    case, weights, options = drawn
    layout, _ = prepare(case, weights, **options)
    pairs = naive_pairs(case, weights, options["all_pairs"], options["min_count"])
    biases = naive_biases(case, options["fit_intercept"])
    assert layout.n_weights == len(pairs) + len(biases)
    assert layout.n_features == len(case.feature_orders)
    of_patterns, of_pairs = spread(layout, np.ones(layout.n_weights))
    assert of_patterns.keys() == biases
    assert of_pairs.keys() == pairs
    of_patterns, of_pairs = spread(layout, layout.order_of_weight + 1.0)
    assert of_patterns == {z: len(z) for z in biases}
    assert of_pairs == {(f, z): len(z) for f, z in pairs}


@pytest.mark.parametrize(("min_count", "kept"), [(1, {(0,), (1,), (0, 0), (0, 1)}), (2, {(0,)}), (3, set())])
def test_pairs_seen_just_often_enough_are_kept(min_count, kept):
    model = so.chain(3, dict.fromkeys([(0,), (1,), (2,), (0, 0), (0, 1)], 0.0), {})
    rows = [{0: 1.0}, {0: -0.5}, {0: 2.0}]
    case = chain_case(model, [(0, 1)], [rows, [{}, {0: 1.0}]], [(0, 0, 1), (0, 1)])
    layout, _ = prepare(case, np.array([1.0, 0.0]), min_count=min_count)
    assert spread(layout, np.ones(layout.n_weights))[1].keys() == {(0, z) for z in kept}


@given(training_data())
def test_weights_go_to_coefficients_and_back(drawn):
    case, weights, options = drawn
    layout, _ = prepare(case, weights, **options)
    w = np.random.default_rng(0).normal(size=layout.n_weights)
    np.testing.assert_array_equal(layout.weights(layout.pattern_coef(w), layout.coef(w)), w)
    # coefficients of pairs and patterns without a weight are dropped
    n_patterns = len(layout.patterns.lengths)
    everywhere = layout.weights(np.full(n_patterns, 2.0), np.full((n_patterns, layout.n_features), 3.0))
    expected = layout.weights(2 * (layout.pattern_coef(np.ones(len(w)))), 3 * layout.coef(np.ones(len(w))))
    np.testing.assert_array_equal(everywhere, expected)


@given(training_data())
def test_objective_and_gradient_equal_enumeration(drawn):
    case, weights, options = drawn
    layout, objective = prepare(case, weights, **options)
    w = np.random.default_rng(0).normal(size=layout.n_weights)
    before = w.copy()
    value, gradient = objective.value_gradient(w)
    np.testing.assert_array_equal(w, before)
    assert gradient.shape == (layout.n_weights,)
    assert gradient.dtype == np.float64
    model = so.chain(case.model.n_labels, *spread(layout, w))
    data = list(zip(case.sequences, case.segmentations, weights, strict=True))
    expected = math.fsum(c * so.negative_log_likelihood(model, sequence, gold) for sequence, gold, c in data)
    assert value == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert objective.value(w) == pytest.approx(value, rel=1e-12, abs=1e-12)
    per_sequence = [so.gradient(model, sequence, gold) for sequence, gold, _ in data]
    for part, derivatives in enumerate(spread(layout, gradient)):
        for key in model[part + 3]:
            exact = math.fsum(c * g[part][key] for c, g in zip(weights, per_sequence, strict=True))
            assert derivatives.get(key, 0.0) == pytest.approx(exact, rel=1e-9, abs=1e-10)


@pytest.mark.parametrize("feature_orders", [((0,), (0,)), ((0,), (0, 1), (2,))], ids=["order_0", "conjoined"])
def test_extreme_weights_give_finite_gradients(feature_orders):
    case = training_case(lengths=(40, 3, 17), feature_orders=feature_orders)
    layout, objective = prepare(case)
    rng = np.random.default_rng(6)
    w = rng.choice([-1e3, 1e3, 0.0, 1.0], size=layout.n_weights)
    value, gradient = objective.value_gradient(w)
    model = so.chain(3, *spread(layout, w))
    expected = math.fsum(
        so.dynamic_program(model, sequence).log_partition - so.score(model, sequence, gold)
        for sequence, gold in zip(case.sequences, case.segmentations, strict=True)
    )
    assert value == pytest.approx(expected, rel=1e-11)
    assert np.isfinite(gradient).all()


def precision_of(layout, sigma_by_order):
    return 1 / np.asarray(sigma_by_order)[layout.order_of_weight] ** 2


@pytest.mark.parametrize("sigma_by_order", [(1.0, 1.0, 1.0), (3.0, 0.5, 0.1)])
def test_lbfgs_reaches_the_certified_gap(sigma_by_order):
    layout, objective = prepare(training_case(lengths=(8,) * 12))
    penalty = Penalty(precision_of(layout, sigma_by_order))
    start = np.zeros(layout.n_weights)

    def total(w):
        (f, g), (p, h) = objective.value_gradient(w), penalty.smooth_value_gradient(w)
        return f + p, g + h

    best = total(LBFGS(tol=1e-9, max_iter=5000).solve(objective, penalty, start).w)[0]
    for tol in (1e-1, 1e-3):
        report = LBFGS(tol=tol, max_iter=5000).solve(objective, penalty, start)
        value, gradient = total(report.w)
        norm = np.linalg.norm(gradient)
        assert report.converged
        assert report.gradient_norm == pytest.approx(norm, rel=1e-6)
        assert report.gap == pytest.approx(0.5 * gradient @ (gradient / penalty.precision), rel=1e-6)
        assert value - best <= report.gap + 1e-12 * abs(best)
        assert report.gap <= tol**2 * value
        assert len(report.history) == report.n_iter + 1
        assert report.history[0] == pytest.approx(total(start)[0], rel=1e-12)
        assert report.history[-1] == pytest.approx(value, rel=1e-12)
        assert (np.diff(report.history) <= 0).all()
    np.testing.assert_array_equal(start, 0.0)


def test_lbfgs_says_when_it_has_not_converged():
    layout, objective = prepare(training_case())
    calls = []
    solver = LBFGS(tol=1e-8, max_iter=2, callback=lambda *args: calls.append(args))
    report = solver.solve(objective, Penalty(np.ones(layout.n_weights)), np.zeros(layout.n_weights))
    assert not report.converged
    assert report.n_iter == 2
    assert len(report.history) == 3
    assert report.message
    assert len(calls) == 2


def test_lbfgs_refuses_what_overflows():
    layout, objective = prepare(training_case())
    start = np.full(layout.n_weights, 1e200)
    for penalty in Penalty(np.full(layout.n_weights, 1e200)), Penalty(np.ones(layout.n_weights)):
        with pytest.raises(ValueError, match="floating point numbers cannot represent"), np.errstate(over="ignore"):
            LBFGS().solve(objective, penalty, start)


def test_memory_of_a_gradient_does_not_grow_with_the_data():
    def peak(n_sequences):
        layout, objective = prepare(training_case(lengths=[20] * n_sequences))
        w = np.zeros(layout.n_weights)
        objective.value_gradient(w)
        tracemalloc.start()
        objective.value_gradient(w)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    few, many = peak(200), peak(2000)
    assert many - few < 8 * 1800 * 20  # less than one number per token

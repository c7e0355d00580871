"""The training problem of chains: which weights exist, and what memory a gradient takes."""

import numpy as np
from cases import cases, peak_of, random_case, to_problem
from hypothesis import given
from hypothesis import strategies as st
from internals import NegativeLogLikelihood
from segment_cases import spread

SEQUENCE_WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0])  # exact in binary: counts can be compared with thresholds


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
    options = {"all_pairs": all_pairs, "min_count": min_count, "fit_intercept": draw(st.booleans())}
    return case, np.array(weights), options


@given(training_data())
def test_which_weights_there_are(drawn):
    case, weights, options = drawn
    layout = to_problem(case, weights, **options).layout
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


@given(training_data())
def test_weights_go_to_coefficients_and_back(drawn):
    case, weights, options = drawn
    layout = to_problem(case, weights, **options).layout
    w = np.random.default_rng(0).normal(size=layout.n_weights)
    np.testing.assert_array_equal(layout.weights(layout.pattern_coef(w), layout.coef(w)), w)
    # coefficients of pairs and patterns without a weight are dropped
    n_patterns = len(layout.patterns.lengths)
    everywhere = layout.weights(np.full(n_patterns, 2.0), np.full((n_patterns, layout.n_features), 3.0))
    expected = layout.weights(2 * (layout.pattern_coef(np.ones(len(w)))), 3 * layout.coef(np.ones(len(w))))
    np.testing.assert_array_equal(everywhere, expected)


def test_memory_of_a_gradient_does_not_grow_with_the_data():
    def peaks(n_sequences):
        orders = [(0,), (0, 1), (2,)]
        problem = to_problem(random_case(np.random.default_rng(0), 3, [20] * n_sequences, 2, 8, 1.0, orders))
        objective, w = NegativeLogLikelihood().bind(problem), np.zeros(problem.n_weights)
        # tables of the first evaluation are kept for the next one
        return np.array([peak_of(lambda: objective.value_gradient(w)) for _ in range(2)])

    peaks(50)  # what a process allocates once
    few, many = peaks(400), peaks(1000)
    assert (many - few < 8 * 600 * 20).all()  # less than one number per token

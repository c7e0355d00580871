"""Local feature matching: value against enumeration, gradient against differences, and training."""

import numpy as np
import pytest
import segment_oracle as so
from cases import cases, chain_case, random_case, to_batch, to_problem
from hypothesis import given
from hypothesis import strategies as st
from internals import ChainModel, LocalFeatureMatching, Problem, Schedule
from segment_cases import matching_by_definition
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_markov_sequences

X, Y = make_markov_sequences(12, length=9, n_labels=3, random_state=0)
WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0])


def prepare(*args, **options):
    """Return the layout and the objective of a case's data."""
    problem = to_problem(*args, **options)
    return problem.layout, LocalFeatureMatching().bind(problem)


@st.composite
def training_data(draw):
    case = draw(cases(n_sequences=2))
    weights = draw(st.lists(WEIGHTS, min_size=len(case.labels), max_size=len(case.labels)))
    options = {"all_pairs": draw(st.booleans()), "fit_intercept": draw(st.booleans())}
    return case, np.array(weights), options


def training_case(feature_orders=((0,), (0, 1), (2,)), lengths=(7, 1, 5, 0, 9, 4), seed=0):
    return random_case(np.random.default_rng(seed), 3, lengths, 2, 8, 1.0, list(feature_orders))


ORDERS = {"order_0": ((0,), (0,)), "conjoined": ((0,), (0, 1), (2,))}
every_order = pytest.mark.parametrize("feature_orders", ORDERS.values(), ids=ORDERS)

# --- the function -----------------------------------------------------------------------------------------------------


@given(training_data())
def test_value_equals_enumeration(drawn):
    case, weights, options = drawn
    layout, objective = prepare(case, weights, **options)
    w = np.random.default_rng(0).normal(size=layout.n_weights)
    before = w.copy()
    value, gradient = objective.value_gradient(w)
    np.testing.assert_array_equal(w, before)
    assert gradient.shape == w.shape
    assert gradient.dtype == np.float64
    assert value == pytest.approx(matching_by_definition(layout, w, case, weights), rel=1e-10, abs=1e-11)


def assert_gradient(objective, w, step=1e-5, tolerance=1e-6):
    _, gradient = objective.value_gradient(w)
    numeric = np.empty_like(w)
    for k, unit in enumerate(step * np.eye(len(w))):
        numeric[k] = (objective.value_gradient(w + unit)[0] - objective.value_gradient(w - unit)[0]) / (2 * step)
    assert np.linalg.norm(gradient) > 0
    assert np.linalg.norm(gradient - numeric) < tolerance * np.linalg.norm(gradient)


def test_gradient_of_nested_patterns_of_one_label():
    # (0), (0, 0), (0, 0, 0): each is a suffix of the next
    model = so.chain(2, dict.fromkeys([(0,), (1,), (0, 0), (0, 0, 0)], 0.0), {})
    rows = [[{0: 2.0}, {0: -1.0}, {}, {0: 0.5}], [{}, {0: 1.0}]]
    case = chain_case(model, [(0, 1, 2)], rows, [(0, 0, 0, 1), (1, 0)])
    layout, objective = prepare(case, all_pairs=True)
    w = np.random.default_rng(2).normal(size=layout.n_weights)
    expected = matching_by_definition(layout, w, case, [1.0, 1.0])
    assert objective.value_gradient(w)[0] == pytest.approx(expected, rel=1e-12)
    assert_gradient(objective, w)


@every_order
def test_gradient_of_sequences_on_wide_numbers(feature_orders):
    case = training_case(feature_orders, lengths=(40, 3, 17))
    layout, objective = prepare(case)
    w = np.random.default_rng(6).choice([-400.0, 400.0, 0.0, 0.3, -0.7], size=layout.n_weights)
    value, gradient = objective.value_gradient(w)
    assert np.isfinite(value)
    direction = np.random.default_rng(7).normal(size=len(w))
    step = 1e-6
    ends = [objective.value_gradient(w + sign * step * direction)[0] for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    assert gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-5)


@every_order
def test_long_sequences_are_cut_by_position(feature_orders):
    case = training_case(feature_orders, lengths=(150, 9, 133))
    layout, objective = prepare(case)
    w = np.random.default_rng(8).normal(size=layout.n_weights)
    value, gradient = objective.value_gradient(w)
    _, in_parts = prepare(case, schedule=Schedule(cut_size=5000))
    tasks = [task for chunk in in_parts.problem.matching.plan.chunks for task in chunk]
    assert max(len(task.tiles) for task in tasks) > 2
    actual = in_parts.value_gradient(w)
    assert actual[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(actual[1], gradient, rtol=1e-9, atol=1e-11)


# --- training ---------------------------------------------------------------------------------------------------------


def fitted(**parameters):
    parameters = {"max_order": 2, "objective": "local_feature_matching", **parameters}
    return HighOrderCRF(**parameters).fit(X, Y)


def bound(crf, objective):
    """Return an objective of the training data at a fitted model's weights."""
    codes = np.searchsorted(crf.classes_, np.concatenate(Y)).astype(np.int32)
    batch = to_batch([[dict(enumerate(row)) for row in rows.tolist()] for rows in X], X[0].shape[1])
    return objective.bind(Problem(ChainModel, crf._state.layout, batch, codes))


def test_it_starts_from_maximum_likelihood_and_gets_better():
    likelihood = HighOrderCRF(max_order=2, tol=1e-6).fit(X, Y)
    crf = fitted(tol=1e-6)
    penalty = 0.5 * (np.sum(likelihood._state.weights**2))
    start = bound(likelihood, LocalFeatureMatching()).value_gradient(likelihood._state.weights)[0] + penalty
    assert crf.objective_history_[0] == pytest.approx(start, rel=1e-5)
    assert crf.objective_history_[-1] < 0.95 * start
    assert len(crf.objective_history_) == crf.n_iter_ + 1
    gradient = bound(crf, LocalFeatureMatching()).value_gradient(crf._state.weights)[1] + crf._state.weights
    assert np.linalg.norm(gradient) <= 1e-6 * max(1.0, np.linalg.norm(crf._state.weights))
    assert crf.score(X, Y) > likelihood.score(X, Y) - 0.1


@pytest.mark.usefixtures("all_lines")
def test_nothing_is_said_about_the_distance_from_an_optimum(capsys):
    with pytest.warns(ConvergenceWarning, match="did not converge in 2 iterations") as caught:
        crf = fitted(max_iter=2, verbose=1)
    assert crf.optimality_gap_ == np.inf
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2  # the first is about the weights of maximum likelihood
    assert "inf" not in texts[1]
    assert "optimum" not in texts[1]
    lines = capsys.readouterr().err.splitlines()
    assert ["above the optimum" in line for line in lines] == [True, True, False, False, False]
    assert ["weights to start from" in line for line in lines] == [True, True, False, False, False]
    assert [warning.filename for warning in caught] == [__file__] * 2

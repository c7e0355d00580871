"""Warnings of training that cannot end well: scales of features, weights without a penalty, stages that stop early."""

import warnings

import numpy as np
import pytest
from cases import given_penalty
from hypothesis import given
from hypothesis import strategies as st
from internals import NegativeLogLikelihood, Penalty
from registry import problem_of
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

SOLVERS = {
    "sgd": {"solver": "sgd"},
    "lbfgs": {"solver": "lbfgs"},
    "owlqn": {"l1_reg": 1e-9},
    "matching": {"objective": "local_feature_matching"},
}


SETTINGS = st.fixed_dictionaries(
    {
        "sigma_reg": st.sampled_from([0.1, 1.0, 30.0]),
        "max_order": st.integers(0, 2),
        "max_iter": st.sampled_from([60, 60, 3, 0]),
        "tol": st.sampled_from([3e-3, 1e-8]),
    }
)


def noisy(scale, seed=0, n=8):
    """Return sequences of rows whose first number tells the label, as a rule, and labels."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 3)) for length in rng.integers(1, 6, n)]
    return [scale * rows for rows in X], [(rows[:, 0] + rng.normal(size=len(rows)) > 0).astype(int) for rows in X]


def separable():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 3)) for length in rng.integers(1, 6, 12)]
    return X, [(rows[:, 0] > 0).astype(int) for rows in X]


def fit(X, y, estimator=HighOrderCRF, **parameters):
    """Return the fitted estimator, and what it warned of."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        crf = estimator(**{"random_state": 0, "max_iter": 60, **parameters}).fit(X, y)
    assert {warning.category for warning in caught} <= {ConvergenceWarning}
    return crf, [str(warning.message) for warning in caught]


# --- features of all scales -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@given(st.floats(-3, 150), st.integers(0, 99), SETTINGS, st.sampled_from([HighOrderCRF, HighOrderSemiCRF]))
@pytest.mark.slow
def test_training_gets_better_or_says_that_it_cannot(solver, exponent, seed, settings, estimator):
    X, y = noisy(10.0**exponent, seed)
    if len(np.unique(np.concatenate(y))) < 2:
        return
    try:
        crf, messages = fit(X, y, estimator, **SOLVERS[solver], **settings)
    except ValueError as error:
        if "floating point numbers" not in str(error):
            raise
        return
    history, gap = crf.objective_history_, crf.optimality_gap_
    assert np.isfinite(crf._state.weights).all()
    assert np.isfinite(history).all()
    assert len(history) == crf.n_iter_ + 1
    assert gap >= 0
    assert (history >= 0).all()
    assert history[-1] <= history[0]
    # of values that differ by less than 1e-9 gradients are to tell the lower one, which round off, too
    assert history[-1] <= (1 + 1e-8) * history.min()
    if solver != "matching" and (gap > 10 * history[-1] or crf.n_iter_ and history[-1] == history[0]):
        assert len(messages) == 1


@pytest.mark.parametrize("solver", SOLVERS)
def test_numbers_that_overflow_are_refused_by_all(solver):
    with pytest.raises(ValueError, match="the norm of its gradient inf, which floating point numbers cannot represent"):
        fit(*noisy(1e160), **SOLVERS[solver])


def test_the_first_pass_of_a_stream_warns():
    X, y = noisy(1e100)
    with pytest.warns(ConvergenceWarning, match="the first pass increased the function"):
        HighOrderCRF(solver="sgd", random_state=0).partial_fit(X, y)
    with pytest.raises(ValueError, match="floating point numbers"):
        HighOrderCRF(solver="sgd", random_state=0).partial_fit([1e200 * rows for rows in X], y)


# --- no optimum -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
@pytest.mark.parametrize("solver", ["lbfgs", "sgd"])
def test_separable_data_without_a_penalty_have_no_optimum(estimator, solver):
    X, y = separable()
    crf, messages = fit(X, y, estimator, solver=solver, sigma_reg=np.inf)
    assert len(messages) == 1
    assert "There is no optimum: the model separates the training data" in messages[0]
    assert (crf.objective_history_ >= 0).all()
    assert not fit(X, y, estimator, solver="lbfgs", sigma_reg=10.0, max_iter=500)[1]


def test_weights_without_a_penalty_that_do_not_separate_have_one():
    assert not fit(*noisy(1.0), sigma_reg=np.inf, max_iter=500, max_order=1)[1]
    alternating = [[["a"]] * 4] * 3, [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    assert not fit(*alternating, sigma_reg=np.inf, max_order=0)[1]


def test_penalties_on_other_weights_are_no_help():
    X, y = separable()
    order = HighOrderCRF(1, max_iter=0)
    with warnings.catch_warnings(action="ignore"):
        order.fit(X, y)
    precision = np.where(order._state.layout.order_of_weight == 0, 0.0, 1.0)
    with given_penalty(Penalty(precision)):
        assert "no optimum" in fit(X, y, max_order=1)[1][0]
    with given_penalty(Penalty(1 - precision)):
        assert not fit(X, y, max_iter=500, max_order=1)[1]


def test_the_first_and_the_last_stage_warn():
    X, y = separable()
    messages = fit(X, y, objective="local_feature_matching", sigma_reg=np.inf)[1]
    assert ["no optimum" in message for message in messages] == [True, True]


def test_a_negative_log_likelihood_is_never_below_0():
    X, y = separable()
    crf, _ = fit(X, y)
    objective = NegativeLogLikelihood().bind(problem_of(crf, X, y))
    for factor in 1.0, 1e8, 1e16, 1e28:
        w = factor * crf._state.weights
        assert objective.value(w) >= 0
        assert objective.value_gradient(w)[0] >= 0
        for minibatch in objective.minibatches(4, np.random.RandomState(0)):
            assert minibatch.value_gradient(w)[0] >= 0


def test_a_first_stage_that_stops_early_is_warned_about():
    X, y = noisy(1.0)
    messages = fit(X, y, objective="local_feature_matching", max_iter=2)[1]
    assert len(messages) == 2
    assert messages[0].startswith(
        "HighOrderCRF: training of the weights to start from did not converge in 2 iterations"
    )
    assert messages[1].startswith("HighOrderCRF did not converge in 2 iterations")


@pytest.mark.parametrize("max_iter", range(5))
def test_the_end_of_training_is_warned_about_if_scores_may_change(max_iter):
    X, y = [[["the"], ["old"], ["man"]], [["the"], ["man"]]], [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    crf, messages = fit(X, y, max_iter=max_iter, tol=1e-9)
    assert crf.n_iter_ == max_iter
    assert len(messages) == (crf.optimality_gap_ > 0.01 * abs(crf.objective_history_[-1]))
    assert bool(messages) == (max_iter < 3)
    for message in messages:
        assert "scores on new data may still change by more than 0.006. " in message
        assert f" is at most {crf.optimality_gap_:.3g} above the optimum; " in message
        assert f"Increase max_iter (now {max_iter})" in message
        assert len(message) <= 400


def test_nothing_is_said_of_scores_without_a_bound():
    assert "may still change" not in fit(*noisy(1, n=5), sigma_reg=np.inf, max_iter=1)[1][0]
    assert "above the optimum" not in fit(*noisy(1, n=5), sigma_reg=100.0, max_iter=0)[1][0]  # the bound is larger

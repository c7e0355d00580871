"""Newton-CG: Hessian-vector products, the same optima as L-BFGS, passes over the data, refusals."""

import warnings

import numpy as np
import pytest
from cases import by_order, random_case, to_batch, to_codes, to_layout
from internals import CHAIN, SEGMENTS, Problem
from segment_cases import LENGTHS, WHOLE, random_segment_case, to_segment_batch, to_segment_layout, to_segments
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.datasets import make_markov_sequences
from sklearn_hocrf.training import L2, LBFGS, OWLQN, ElasticNet, NegativeLogLikelihood, NewtonCG

X, Y = make_markov_sequences(12, length=9, n_labels=3, random_state=0)
both_estimators = pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
every_solver = pytest.mark.parametrize("solver_class", [LBFGS, OWLQN, NewtonCG])
SEQUENCE_WEIGHT = np.array([1.0, 2.0, 0.5, 0.0, 3.0])


def chain_objective(feature_orders):
    rng = np.random.default_rng(0)
    case = random_case(rng, 3, [7, 1, 12, 4, 9], 2, 8, 1.0, list(feature_orders))
    layout, weights = to_layout(case)
    batch = to_batch(case.sequences, len(case.feature_orders))
    problem = Problem(CHAIN, layout, batch, to_codes(case.labels), sequence_weight=SEQUENCE_WEIGHT)
    return NegativeLogLikelihood().bind(problem), weights


def segment_objective(blocks, feature_orders):
    rng = np.random.default_rng(1)
    patterns = [(0, 1), (1, 2), (2, 0), (0, 1, 2)]
    limits = (3, np.inf, 2)
    case = random_segment_case(rng, [7, 1, 12, 4, 9], blocks, feature_orders, longest=limits, patterns=patterns)
    batch = to_segment_batch(case)
    layout = to_segment_layout(case, batch)
    truth = to_segments(case.segmentations, batch.offsets)
    problem = Problem(SEGMENTS, layout, batch, truth, sequence_weight=SEQUENCE_WEIGHT)
    return NegativeLogLikelihood().bind(problem), 0.5 * rng.normal(size=layout.n_weights)


OBJECTIVES = {
    "chain": lambda: chain_objective([(0,), (0,)]),
    "chain, conjoined": lambda: chain_objective([(0,), (0, 1), (2,)]),
    "segments": lambda: segment_objective(None, [(0,)]),
    "segments, conjoined": lambda: segment_objective(None, [(0, 1, 2)]),
    "segments, lengths and texts": lambda: segment_objective((LENGTHS[1], WHOLE), [(0, 1)]),
}
every_objective = pytest.mark.parametrize("name", OBJECTIVES)


class Counted:
    """A function that counts what is asked of it."""

    def __init__(self, objective):
        self.objective, self.n_passes = objective, 0

    def value_gradient(self, w):
        self.n_passes += 1
        return self.objective.value_gradient(w)

    def hessp(self, w, v):
        self.n_passes += 1
        return self.objective.hessp(w, v)


class Logistic:
    """Sum of ``log(1 + exp(-x'w))`` plus a constant, however large."""

    def __init__(self, constant=0.0):
        self.X = np.random.default_rng(3).normal(size=(200, 20)) + 0.3
        self.constant = constant

    def value_gradient(self, w):
        margin = self.X @ w
        return self.constant + float(np.logaddexp(0, -margin).sum()), -self.X.T @ (1 / (1 + np.exp(margin)))

    def hessp(self, w, v):
        p = 1 / (1 + np.exp(self.X @ w))
        return self.X.T @ (p * (1 - p) * (self.X @ v))


class Indefinite:
    """Sum of ``(w^2 - 1)^2``: not convex at 0, with minima at plus and minus 1."""

    is_convex = False

    def value_gradient(self, w):
        return float(((w**2 - 1) ** 2).sum()), 4 * w * (w**2 - 1)

    def hessp(self, w, v):
        return (12 * w**2 - 4) * v


# --- products with the Hessian ----------------------------------------------------------------------------------------


@every_objective
def test_hessp_is_the_difference_of_gradients(name):
    objective, w = OBJECTIVES[name]()
    v = np.random.default_rng(2).normal(size=len(w))
    step = 1e-5
    difference = objective.value_gradient(w + step * v)[1] - objective.value_gradient(w - step * v)[1]
    expected = difference / (2 * step)
    assert np.linalg.norm(objective.hessp(w, v) - expected) < 1e-6 * np.linalg.norm(expected)


@every_objective
def test_the_hessian_is_symmetric_and_positive_semidefinite(name):
    objective, w = OBJECTIVES[name]()
    hessian = np.stack([objective.hessp(w, unit) for unit in np.eye(len(w))])
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-10)
    spectrum = np.linalg.eigvalsh(hessian)
    assert spectrum[0] > -1e-10 * spectrum[-1]
    assert spectrum[-1] > 1


@pytest.mark.slow
def test_hessp_of_sequences_done_in_log_space():
    objective, w = OBJECTIVES["chain, conjoined"]()
    w = 150 * w
    v = np.random.default_rng(2).normal(size=len(w))
    product, step = objective.hessp(w, v), 1e-5
    difference = objective.value_gradient(w + step * v)[1] - objective.value_gradient(w - step * v)[1]
    assert np.isfinite(product).all()
    np.testing.assert_allclose(product, difference / (2 * step), rtol=1e-4, atol=1e-4 * np.linalg.norm(product))


def test_hessp_of_the_penalty():
    np.testing.assert_array_equal(
        L2(np.array([1.0, 4.0, 0.0])).hessp(np.ones(3), np.array([2.0, -1.0, 7.0])), [2, -4, 0]
    )
    assert not hasattr(ElasticNet(1.0, 1.0), "hessp")


# --- the solver -------------------------------------------------------------------------------------------------------


@every_objective
def test_the_optimum_is_that_of_lbfgs(name):
    objective, w = OBJECTIVES[name]()
    penalty, start = L2(np.full(len(w), 0.3)), np.zeros(len(w))
    newton = NewtonCG(tol=1e-9).solve(objective, penalty, start)
    lbfgs = LBFGS(tol=1e-9, max_iter=5000).solve(objective, penalty, start)
    assert newton.converged
    assert lbfgs.converged
    np.testing.assert_allclose(newton.w, lbfgs.w, rtol=0, atol=1e-7)
    assert newton.history[-1] == pytest.approx(lbfgs.history[-1], rel=1e-12)
    assert newton.n_iter < lbfgs.n_iter
    np.testing.assert_array_equal(start, 0.0)


def test_a_quadratic_takes_few_iterations():
    class Quadratic:
        def value_gradient(self, w):
            return 0.5 * float(w @ (spectrum * w)) - w.sum(), spectrum * w - 1

        def hessp(self, w, v):
            return spectrum * v

    spectrum = np.array([1.0, 2.0, 3.0, 4.0])
    report = NewtonCG(tol=1e-12).solve(Quadratic(), L2(1.0), np.zeros(4))
    assert report.converged
    assert report.n_iter <= 10
    np.testing.assert_allclose(report.w, 1 / (spectrum + 1), rtol=1e-12)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_it_stops_where_it_says_and_tells_the_callback(tol):
    objective, penalty, calls = Logistic(), L2(0.2), []
    report = NewtonCG(tol=tol, callback=calls.append).solve(objective, penalty, np.zeros(20))
    gradient = objective.value_gradient(report.w)[1] + penalty.value_gradient(report.w)[1]
    norm = np.linalg.norm(gradient)
    assert report.converged
    assert report.message == "converged"
    assert norm <= tol * max(1.0, np.linalg.norm(report.w))
    assert report.gradient_norm == pytest.approx(norm, rel=1e-9)
    assert report.gap == pytest.approx(norm**2 / 0.4)
    assert [progress.n_iter for progress in calls] == list(range(1, report.n_iter + 1))
    assert [progress.value for progress in calls] == list(report.history[1:])
    assert (calls[-1].gradient_norm, calls[-1].gap) == (report.gradient_norm, report.gap)
    assert (np.diff(report.history) < 0).all()


def test_a_good_start_is_the_end():
    report = NewtonCG(tol=1e-6).solve(Logistic(), L2(0.2), np.zeros(20))
    again = NewtonCG(tol=1e-6).solve(Logistic(), L2(0.2), report.w)
    assert (again.converged, again.n_iter, again.n_passes) == (True, 0, 1)
    np.testing.assert_array_equal(again.w, report.w)


@pytest.mark.parametrize("max_iter", [0, 2])
def test_it_says_when_it_has_not_converged(max_iter):
    report = NewtonCG(tol=1e-9, max_iter=max_iter).solve(Logistic(), L2(0.2), np.zeros(20))
    assert not report.converged
    assert report.n_iter == max_iter
    assert len(report.history) == max_iter + 1
    assert "iteration" in report.message


@pytest.mark.parametrize("solver_class", [LBFGS, NewtonCG])
def test_gradients_go_on_where_values_round_off(solver_class):
    exact = solver_class(tol=1e-9).solve(Logistic(), L2(0.2), np.zeros(20))
    tol = 1e-9 * np.sqrt(exact.history[-1] / 1e7)  # the same bound on the distance from the minimum
    coarse = solver_class(tol=tol).solve(Logistic(constant=1e7), L2(0.2), np.zeros(20))
    assert exact.converged
    assert coarse.converged
    np.testing.assert_allclose(coarse.w, exact.w, rtol=0, atol=1e-8)


@pytest.mark.parametrize("solver_class", [LBFGS, NewtonCG])
def test_it_ends_where_rounding_errors_hide_the_way(solver_class):
    report = solver_class(tol=0, max_iter=10_000).solve(Logistic(), L2(0.2), np.zeros(20))
    assert not report.converged
    assert report.n_iter < 1000
    assert report.gradient_norm < 1e-9


@pytest.mark.parametrize("solver_class", [LBFGS, NewtonCG])
def test_nothing_bounds_the_distance_from_the_minimum_where_it_is_not_convex(solver_class):
    calls = []
    report = solver_class(tol=1e-6, callback=calls.append).solve(Indefinite(), L2(0.1), np.full(3, 0.1))
    assert report.converged
    np.testing.assert_allclose(report.w, np.sqrt(1 - 0.1 / 4), rtol=1e-6)
    assert report.gap == np.inf
    assert {progress.gap for progress in calls} == {np.inf}


@every_solver
def test_passes_are_counted(solver_class):
    objective = Counted(Logistic())
    report = solver_class(tol=1e-6).solve(objective, L2(0.2), np.zeros(20))
    assert report.converged
    assert report.n_passes == objective.n_passes > report.n_iter


def test_overflow_is_refused():
    with pytest.raises(ValueError, match="floating point numbers cannot represent"), np.errstate(over="ignore"):
        NewtonCG().solve(Logistic(), L2(1e200), np.full(20, 1e200))


# --- estimators -------------------------------------------------------------------------------------------------------


@both_estimators
def test_estimators_find_the_same_optimum(estimator):
    settings = {"max_order": 2, "sigma_reg": by_order(2.0, 1.0), "tol": 1e-8}
    newton = estimator(solver="newton-cg", **settings).fit(X, Y)
    lbfgs = estimator(solver="lbfgs", max_iter=5000, **settings).fit(X, Y)
    np.testing.assert_allclose(newton.coef_.toarray(), lbfgs.coef_.toarray(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(newton.pattern_coef_, lbfgs.pattern_coef_, rtol=0, atol=1e-6)
    assert newton.objective_history_[-1] == pytest.approx(lbfgs.objective_history_[-1], rel=1e-12)
    assert newton.n_iter_ < newton.n_passes_
    assert lbfgs.n_iter_ < lbfgs.n_passes_
    own = clone(newton).set_params(solver=NewtonCG(tol=1e-8)).fit(X, Y)
    np.testing.assert_array_equal(own.pattern_coef_, newton.pattern_coef_)


@both_estimators
def test_passes_of_an_own_solver_may_be_unknown(estimator):
    class Report:
        def __init__(self, report):
            self.w, self.n_iter, self.history, self.gap = report.w, report.n_iter, report.history, report.gap
            self.converged = report.converged

    class Own:
        def solve(self, *args):
            return Report(LBFGS().solve(*args))

    assert np.isnan(estimator(solver=Own()).fit(X, Y).n_passes_)


@both_estimators
def test_absolute_values_are_refused(estimator):
    with pytest.raises(ValueError, match=r"NewtonCG needs .*hessp of the penalty.*solver='lbfgs'.*l1_reg"):
        estimator(solver="newton-cg", l1_reg=0.1).fit(None, None)
    with pytest.raises(ValueError, match=r"NewtonCG needs.*ElasticNet does not have"):
        estimator(solver=NewtonCG(), penalty=ElasticNet(1.0, 0.1)).fit(None, None)


@both_estimators
def test_objectives_without_second_derivatives_are_refused(estimator):
    class Own:
        def bind(self, problem):
            raise AssertionError

        def value_gradient(self, w):
            raise AssertionError

    with pytest.raises(ValueError, match=r"NewtonCG needs hessp of the objective, which Own.*solver='lbfgs'"):
        estimator(solver="newton-cg", objective=Own()).fit(None, None)


@both_estimators
def test_iterations_can_run_out(estimator):
    with pytest.warns(ConvergenceWarning, match=r"Increase max_iter \(now 1\)"):
        estimator(solver="newton-cg", max_iter=1, tol=1e-8).fit(X, Y)


@both_estimators
def test_every_n_jobs_gives_the_same_bits(estimator):
    fits = [estimator(solver="newton-cg", n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(fits[0].pattern_coef_, fits[1].pattern_coef_)
    with warnings.catch_warnings(action="error"):
        fits[0].predict(X)

"""Solvers and penalties on functions with known minima, without sequences."""

import tracemalloc
import warnings
import weakref
from functools import partial

import numpy as np
import pytest
from internals import (
    ByDistance,
    LBFGSMemory,
    LBFGSMinimizer,
    Objective,
    Penalty,
    Point,
    SearchEnd,
    minimize_in_box,
    rounded,
    shortest_subgradient,
)
from numpy.testing import assert_allclose
from refusals import refusals
from scipy.optimize import minimize, rosen, rosen_der


class Quadratic(Objective):
    """``(w - c)' A (w - c) / 2``."""

    def __init__(self, matrix, centre):
        self.matrix, self.centre = matrix, centre

    def value_gradient(self, w):
        gradient = self.matrix @ (w - self.centre)
        return 0.5 * float(gradient @ (w - self.centre)), gradient


class Logistic(Objective):
    """Sum of ``log(1 + exp(-y x'w))``."""

    def __init__(self, X, y):
        self.signed = X * y[:, None]

    def value_gradient(self, w):
        margin = self.signed @ w
        return float(np.logaddexp(0, -margin).sum()), -self.signed.T @ (1 / (1 + np.exp(margin)))


class Picky(Objective):
    """A function that is known at one point only, for refusals."""

    def value_gradient(self, w):
        if w.any():
            raise ValueError("w must be 0")
        return 1.0, np.ones(len(w))


def soft(x, threshold):
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def logistic(seed=0, n=120, n_weights=30):
    """Return correlated rows, some of whose columns tell the class, and classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_weights)) @ (np.eye(n_weights) + 0.3 * rng.normal(size=(n_weights, n_weights)))
    return Logistic(X, np.where(X[:, :3].sum(axis=1) + rng.normal(size=n) > 0, 1.0, -1.0))


def total(objective, penalty, w):
    return objective.value_gradient(w)[0] + penalty.value(w)


def gradient_of_smooth_part(objective, penalty, w):
    return objective.value_gradient(w)[1] + penalty.smooth_value_gradient(w)[1]


# --- penalties --------------------------------------------------------------------------------------------------------


def test_values_of_penalties():
    w = np.array([1.0, -2.0, 5.0])
    precision, strength = np.array([1.0, 4.0, 0.0]), np.array([0.5, 0.0, 2.0])
    assert Penalty(precision).value(w) == 8.5
    assert Penalty(precision, strength).value(w) == 8.5 + 0.5 + 10
    value, gradient = Penalty(precision, strength).smooth_value_gradient(w)
    assert value == 8.5
    np.testing.assert_array_equal(gradient, [1.0, -8.0, 0.0])


def test_gap_needs_a_precision_everywhere():
    gradient = np.array([4.0, 3.0])
    assert Penalty(np.array([2.0, 0.5]), np.ones(2)).gap(gradient) == 4.0 + 9.0
    assert Penalty(0.5).gap(gradient) == 25.0
    assert Penalty(np.array([2.0, 0.0]), np.ones(2)).gap(gradient) == np.inf
    assert Penalty(np.array([1e-300, 1.0])).gap(1e30 * gradient) == np.inf  # rather than a warning


# --- OWL-QN -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_drawn_quadratics_end_where_coordinate_descent_does(seed, monkeypatch):
    """Columns that are the same or 0, strengths that are equal, 0 or huge, and a model with few of the pairs."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 25))
    rows = rng.normal(size=(int(rng.integers(1, 40)), n)) * 10.0 ** rng.integers(-2, 3)
    rows[:, rng.integers(n)], rows[:, rng.integers(n)] = rows[:, rng.integers(n)], 0.0
    matrix, centre = rows.T @ rows, rng.normal(size=n)
    strength = rng.choice([0.0, 1.0, 1e6], size=n, p=[0.3, 0.6, 0.1]) * rng.choice([0.1, 1.0]) * len(rows)
    precision = rng.choice([0.1, 3.0])
    objective, penalty = Quadratic(matrix, centre), Penalty(np.full(n, precision), strength)
    start, w, pull = rng.normal(size=n) * rng.integers(2), np.zeros(n), matrix @ centre
    for _ in range(20):
        for i in range(n):
            w[i] = soft(pull[i] - matrix[i] @ w + matrix[i, i] * w[i], strength[i]) / (matrix[i, i] + precision)
    signs, free = np.sign(w), w != 0  # those of the minimum, which is exact for them
    bend = matrix[np.ix_(free, free)] + precision * np.eye(free.sum())
    w[free] = np.linalg.solve(bend, (pull - strength * signs)[free])
    assert (np.sign(w) == signs).all()
    assert (np.abs(pull - matrix @ w) <= strength)[~free].all()
    expected = total(objective, penalty, w)
    monkeypatch.setattr(LBFGSMemory, "pairs", (2, 100))
    for pair_bytes in LBFGSMemory.pair_bytes, 0:
        monkeypatch.setattr(LBFGSMemory, "pair_bytes", pair_bytes)
        report = LBFGSMinimizer(tol=1e-9, max_iter=5000).solve(objective, penalty, start)
        assert total(objective, penalty, report.w) <= expected + 1e-8 * abs(expected) + 1e-12
        assert (report.w[strength >= 1e5] == 0).all() or (w[strength >= 1e5] != 0).any()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("precision", [0.0, 1e-3])
def test_weights_that_nothing_bends_become_zero(precision):
    """Few weights, of which some are in no term, far from 0: the gradient may not change for those that are left."""
    flat = Quadratic(np.diag([1.0, 0.0]), np.zeros(2))
    two = LBFGSMinimizer(tol=1e-8).solve(flat, Penalty(precision, 1.0), [0.1, 10.0])
    assert two.converged
    assert not two.w.any()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 6))
        rows = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.4)
        rows[:, rng.random(n) < 0.4] = 0.0
        objective, strength = Quadratic(rows.T @ rows, rng.normal(size=n)), rng.choice([0.3, 1.0, 3.0], size=n)
        penalty, start = Penalty(precision, strength), rng.normal(size=n) * rng.choice([0.0, 0.1, 10.0], size=n)
        report = LBFGSMinimizer(tol=1e-8, max_iter=200).solve(objective, penalty, start)
        assert report.converged
        gradient = gradient_of_smooth_part(objective, penalty, report.w)
        assert np.linalg.norm(shortest_subgradient(report.w, gradient, strength)) <= 1e-6


@pytest.mark.parametrize("strength", [1.5, 2.0, 8.0])
def test_steps_of_the_gradient_alone_reach_zeros(strength):
    objective, penalty = logistic(n_weights=20), Penalty(0.1, strength)
    expected = LBFGSMinimizer(tol=1e-8).solve(objective, penalty, np.zeros(20)).w
    w = np.random.default_rng(0).normal(size=20)
    for _ in range(2000):
        report = LBFGSMinimizer(tol=1e-6, max_iter=1).solve(objective, penalty, w)
        if not report.n_iter:
            break
        w = report.w
    assert report.converged
    assert ((w == 0) == (expected == 0)).all()
    assert total(objective, penalty, w) <= total(objective, penalty, expected) * (1 + 1e-8)


both = pytest.mark.parametrize("strength", [0.0, 1.0])  # of the L1 penalty


@both
@pytest.mark.parametrize("tol", [1e-1, 1e-3])
def test_it_stops_where_it_says_and_the_gap_is_a_bound(strength, tol):
    objective, penalty, start = logistic(1), Penalty(np.full(30, 0.2), strength * np.ones(30)), np.zeros(30)
    best = LBFGSMinimizer(tol=1e-9, max_iter=5000).solve(objective, penalty, start).history[-1]
    calls = []
    report = LBFGSMinimizer(tol=tol, callback=calls.append).solve(objective, penalty, start)
    gradient = gradient_of_smooth_part(objective, penalty, report.w)
    norm = np.linalg.norm(shortest_subgradient(report.w, gradient, penalty.strength))
    assert report.converged
    assert report.message == "converged"
    assert report.gradient_norm == pytest.approx(norm, rel=1e-9)
    assert report.gap == pytest.approx(norm**2 / 0.4)
    way = 2 * max(1.0, np.linalg.norm(report.w))  # to the minimum, at most about
    assert min(np.sqrt(report.gap / report.history[-1]), norm * way / report.history[-1]) <= tol
    assert calls[-2].gap > tol**2 * calls[-2].value
    assert 0 <= report.history[-1] - best <= report.gap + 1e-12 * best
    assert report.history[-1] == pytest.approx(total(objective, penalty, report.w), rel=1e-12)
    assert report.history[0] == total(objective, penalty, start)
    assert (np.diff(report.history) < 0).all()
    assert len(report.history) == report.n_iter + 1
    assert [progress.n_iter for progress in calls] == list(range(1, report.n_iter + 1))
    assert [progress.value for progress in calls] == list(report.history[1:])
    assert calls[-1].gradient_norm == report.gradient_norm
    np.testing.assert_array_equal(start, 0.0)


@both
@pytest.mark.parametrize("max_iter", [0, 2])
def test_it_says_when_it_has_not_converged(strength, max_iter):
    penalty = Penalty(np.ones(30), strength * np.ones(30))
    report = LBFGSMinimizer(tol=1e-9, max_iter=max_iter).solve(logistic(), penalty, np.zeros(30))
    assert not report.converged
    assert report.n_iter == max_iter
    assert len(report.history) == max_iter + 1
    assert "iteration" in report.message


@both
def test_searches_stop_by_the_distance_from_the_minimum(strength):
    calls, penalty = [], Penalty(np.full(30, 0.2), strength * np.ones(30))
    ByDistance(tol=1e-2, callback=calls.append).solve(logistic(1), penalty, np.zeros(30))
    before, at_end = (np.sqrt(progress.gap / progress.value) for progress in calls[-2:])
    assert at_end <= 1e-2 < before


def test_it_ends_where_rounding_errors_hide_the_way():
    report = LBFGSMinimizer(tol=0, max_iter=10_000).solve(logistic(), Penalty(np.ones(30), np.ones(30)), np.zeros(30))
    assert not report.converged
    assert report.n_iter < 10_000
    assert report.message == "no step decreases the function"
    assert report.gradient_norm < 1e-6


@both
def test_overflow_is_refused(strength):
    for penalty in Penalty(np.ones(30), strength * np.ones(30)), Penalty(np.full(30, 1e200), strength * np.ones(30)):
        with pytest.raises(ValueError, match="floating point numbers cannot represent"), np.errstate(over="ignore"):
            LBFGSMinimizer().solve(logistic(), penalty, np.full(30, 1e200))


# --- L-BFGS -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e6])
def test_lbfgs_on_rows_of_any_scale(scale):
    objective = logistic(n_weights=3)
    expected = LBFGSMinimizer(tol=1e-9, max_iter=5000).solve(objective, Penalty(0.0), np.zeros(3)).history[-1]
    scaled = Logistic(scale * objective.signed, np.ones(len(objective.signed)))
    found = LBFGSMinimizer(tol=0, max_iter=5000).solve(scaled, Penalty(0.0), np.zeros(3))
    assert found.history[-1] == pytest.approx(expected, rel=1e-8)


class Rosenbrock(Objective):
    """A narrow curved valley with its minimum 0 at (1, ..., 1): not convex."""

    is_convex = False

    def value_gradient(self, w):
        return float(rosen(w)), rosen_der(w)


@pytest.mark.parametrize("n_weights", [2, 5, 20])
@pytest.mark.parametrize("start", [-1.2, 0.0, 3.0])
def test_lbfgs_in_the_valley_of_rosenbrock(n_weights, start):
    w0 = np.where(np.arange(n_weights) % 2, 1.0, start)
    report = LBFGSMinimizer(tol=1e-8, max_iter=2000).solve(Rosenbrock(), Penalty(0.0), w0)
    peer = minimize(rosen, w0, jac=rosen_der, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 0, "maxiter": 2000})
    assert report.converged
    assert (np.diff(report.history) < 0).all()
    np.testing.assert_allclose(report.w, peer.x, rtol=0, atol=1e-5)  # there are two minima from 4 weights on
    assert report.n_passes < 2 * peer.nfev


class Steep(Objective):
    """Sum of ``exp(10000 (w - 1)) - w``, which is flat below 1 and overflows from 1.071 on."""

    def __init__(self):
        self.n_overflows = 0

    def value_gradient(self, w):
        with np.errstate(over="ignore"):
            steep = np.exp(1e4 * (w - 1))
        self.n_overflows += not np.isfinite(steep).all()
        return float((steep - w).sum()), 1e4 * steep - 1


@pytest.mark.parametrize("strength", [0.0, 1e-9])
def test_steps_that_overflow_are_shortened(strength):
    objective = Steep()
    report = LBFGSMinimizer(tol=1e-6).solve(objective, Penalty(0.0, strength), np.full(3, 0.5))
    assert objective.n_overflows > 0
    assert report.converged
    np.testing.assert_allclose(report.w - 1, -np.log(1e4) / 1e4, rtol=1e-6)


class Scripted(Objective):
    """A function along one weight whose values and slopes are given by the order of the calls."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    def value_gradient(self, w):
        self.asked.append(float(w[0]))
        value, slope = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return value, np.array([slope])


def test_the_lowest_point_with_sufficient_decrease_is_kept():
    # the second point is low but steep; the third, flat enough to stop at, is higher
    objective = Scripted((10.0, -1.0), (8.0, -0.95), (9.5, 0.1), (9.5, 0.1))
    report = LBFGSMinimizer(tol=0, max_iter=1).solve(objective, Penalty(0.0), np.zeros(1))
    assert report.w.tolist() == [objective.asked[1]]
    assert report.history.tolist() == [10.0, 8.0]


def at(w, gradient):
    return Point(np.array(w), 0.0, np.array(gradient), np.array(gradient))


@pytest.mark.parametrize("n_weights", [5, 40_000])  # less than a block, and several
def test_16_bits_keep_pairs_to_four_digits(n_weights):
    rng = np.random.default_rng(0)
    diagonal = rng.uniform(0.5, 5, n_weights)
    double, low = LBFGSMemory(4, n_weights), LBFGSMemory(4, n_weights, is_rounded=True)
    w = rng.standard_normal(n_weights)
    for _ in range(6):
        new = w + 0.01 * rng.standard_normal(n_weights)
        for memory in (double, low):
            memory.add(Point(w, 0.0, diagonal * w, w), Point(new, 0.0, diagonal * new, new))
        w = new
    gradient, chosen = rng.standard_normal(n_weights), np.array([0, 2, 4])
    for memory in (double, low):
        memory.shift(np.ones(n_weights))
    for ask in (
        lambda memory: memory.solve(gradient),
        lambda memory: memory.restricted(chosen, 100).times(gradient[chosen]),
        lambda memory: memory.restricted(chosen, 100).solve(gradient[chosen], np.array([False, True, False])),
    ):
        expected = ask(double)
        assert_allclose(ask(low), expected, atol=1e-3 * np.abs(expected).max())
        assert not np.array_equal(ask(low), expected)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 20))])
def test_16_bits_find_the_minima_of_drawn_functions(seed):
    """Quadratic functions with columns that are equal, 0 or of very different size, and few pairs or many."""
    rng = np.random.default_rng(seed)
    n_weights = int(rng.integers(1, 40))
    A = rng.standard_normal((n_weights + 5, n_weights)) * 10.0 ** rng.uniform(-2, 2, n_weights)
    A[:, rng.random(n_weights) < 0.2] = 0.0
    A[:, rng.random(n_weights) < 0.2] = A[:, :1]
    centre, precision = rng.standard_normal(n_weights), rng.uniform(0.1, 10, n_weights)

    objective, penalty, start = Quadratic(A.T @ A, centre), Penalty(precision), np.zeros(n_weights)
    few = LBFGSMemory(int(rng.integers(2, 40)), n_weights, is_rounded=True)
    few.expect_from(objective.value_gradient(start)[1])
    report = LBFGSMinimizer(1e-7, 5000).solve(objective, penalty, start, few)
    expected = np.linalg.solve(A.T @ A + np.diag(precision), A.T @ A @ centre)
    assert report.converged
    assert_allclose(report.w, expected, atol=1e-5)


def test_few_weights_have_pairs_in_double_precision():
    edge = (1 << 27) // 1600
    for n_weights, expected in (0, (100, False)), (edge, (100, False)), (edge + 1, (300, True)), (1 << 25, (10, True)):
        memory = LBFGSMemory.of_size(n_weights)
        assert (memory.n_pairs, memory.is_rounded) == expected
    many = LBFGSMemory.of_size(400_000)
    assert 4 * 400_000 * many.n_pairs <= 1 << 27 < 4 * 400_000 * (many.n_pairs + 1)


@pytest.mark.parametrize("n_numbers", [0, 1, 255, 257, (1 << 14) - 1, 1 << 14, (1 << 14) + 300, 40_000])
def test_sums_of_rounded_vectors(n_numbers):
    rng = np.random.default_rng(n_numbers)
    integers = rng.integers(-32767, 32768, n_numbers).astype(np.int16)
    units = rng.uniform(0.1, 1, -(-n_numbers // rounded.BLOCK))
    numbers, vector = integers * np.repeat(units, rounded.BLOCK)[:n_numbers], rng.standard_normal(n_numbers)
    product = rounded.dot(integers, units, vector, np.full(rounded.ABREAST, np.nan))
    assert product == pytest.approx(numbers @ vector, abs=1e-13 * (np.abs(numbers) @ np.abs(vector)))
    expected = vector + 0.7 * numbers
    rounded.add(integers, units, 0.7, vector)
    assert_allclose(vector, expected, rtol=1e-12, atol=1e-9)


def test_numbers_are_rounded_by_block():
    """Each to within half a unit, 1 / 32767 of the block's largest, which is exact, as is 0."""
    n_weights = 3 * rounded.BLOCK
    change = np.random.default_rng(0).standard_normal(n_weights)
    change[rounded.BLOCK :] *= 1e-250
    change[2 * rounded.BLOCK :] = 0.0
    memory = LBFGSMemory(2, n_weights, is_rounded=True)
    assert memory.add(at(np.zeros(n_weights), np.zeros(n_weights)), at(change, change))
    kept = memory._changes[0][np.arange(n_weights)].reshape(3, -1)
    error = np.abs(kept - change.reshape(3, -1)).max(axis=1)
    largest = np.abs(change.reshape(3, -1)).max(axis=1)
    assert_allclose(np.abs(kept).max(axis=1), largest, rtol=1e-15)
    assert np.all(error <= 0.5001 * largest / 32767)
    assert np.all(error[:2] > 0)


@pytest.mark.parametrize(
    ("number", "slope"), [(1e-320, 1), (1e-308, 1), (1e300, 1), (np.inf, 1), (np.nan, 1), (1.0, -1)]
)
@pytest.mark.parametrize("is_rounded", [False, True])
def test_pairs_beyond_numbers_or_without_curvature_are_not_taken_in(number, slope, is_rounded):
    """In a full memory, they have overwritten the oldest pair; the newest step still solves its own change."""
    memory = LBFGSMemory(2, 3, is_rounded)
    for step in np.eye(3):
        memory.add(at(np.zeros(3), np.zeros(3)), at(step, 2 * step))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not memory.add(at(np.zeros(3), np.zeros(3)), at(np.full(3, number), slope * np.full(3, number)))
    assert not [w for w in caught if "cast" in str(w.message)]  # of nan, or of numbers beyond 16 bits
    assert len(memory) == 1
    assert memory.solve(2 * step).tolist() == step.tolist()


def test_first_weights_are_not_kept():
    """Those that nobody else refers to are gone when the second point is evaluated."""
    given, alive = [], []

    def first_weights():
        w0 = np.ones(5)
        given.append(weakref.ref(w0))
        return w0

    class Watched(Quadratic):
        def value_gradient(self, w):
            alive.append(given[0]() is not None)
            return super().value_gradient(w)

    for strength in 0.0, 0.1:
        LBFGSMinimizer().solve(Watched(np.diag(np.arange(1.0, 6.0)), 0.0), Penalty(1.0, strength), first_weights())
        assert len(alive) > 1
        assert not any(alive[1:])
        given.clear(), alive.clear()


def test_pairs_take_memory_as_they_are_needed():
    n_weights = 10_000
    tracemalloc.start()
    memory = LBFGSMemory(100, n_weights)
    points = [Point(np.full(n_weights, x), 0.0, np.full(n_weights, x), np.empty(0)) for x in (0.0, 1.0)]
    before = tracemalloc.get_traced_memory()[0]
    memory.add(*points)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 16 * n_weights <= after - before < 17 * n_weights


@pytest.mark.parametrize("is_rounded", [False, True])
@pytest.mark.parametrize("n_weights", [3, 20_000])  # less than a block, and several
def test_scales_are_those_of_the_inverse_before_any_step(n_weights, is_rounded):
    rng = np.random.default_rng(0)
    gradient, vector = rng.standard_normal((2, n_weights)) * np.logspace(0, 4, n_weights)
    gradient[0] = 0.0
    memory = LBFGSMemory(2, n_weights, is_rounded)
    memory.expect_from(gradient)
    scale = (np.abs(gradient) / np.abs(gradient).max() + 1e-4) ** -0.2
    assert scale[0] == scale.max()
    assert_allclose(memory.solve(vector), scale * vector, rtol=1e-6)
    memory.add(at(np.zeros(n_weights), np.zeros(n_weights)), at(vector, 3.0 * vector))
    memory.clear()
    assert_allclose(memory.solve(vector), scale * vector, rtol=1e-6)


def test_scales_need_a_gradient_and_no_unit():
    vector = np.array([3.0, -1.0, 0.5])
    flat, one, other = (LBFGSMemory(2, 3) for _ in range(3))
    flat.expect_from(np.zeros(3))
    assert flat.solve(vector).tolist() == vector.tolist()
    one.expect_from(vector)
    other.expect_from(1e-200 * vector)
    assert_allclose(one.solve(vector), other.solve(vector), rtol=1e-6)
    LBFGSMemory(2, 0).expect_from(np.empty(0))


def test_steps_into_steep_places_cost_few_passes():
    """Of exponential functions, the first step of a line search may end where they are a hundred times as steep."""
    passes = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((30, 20)) * rng.uniform(1, 100, 20)

        class Exponential(Objective):
            def value_gradient(self, w, A=A):
                values = np.exp(A @ w)
                return float(values.sum()), A.T @ values

        report = LBFGSMinimizer(1e-4, 2000).solve(Exponential(), Penalty(1.0), np.zeros(20))
        assert report.converged
        passes += report.n_passes
    assert passes < 700


@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_frequent_features_take_few_passes(strength, monkeypatch):
    """Logistic regression on features of very different frequency, which overlap."""
    rng = np.random.default_rng(0)
    X = (rng.random((2000, 200)) < np.logspace(0, -3, 200)).astype(float)
    objective = Logistic(X, np.where(X @ rng.standard_normal(200) + rng.logistic(size=2000) > 0, 1.0, -1.0))
    scaled = LBFGSMinimizer(1e-6, 2000).solve(objective, Penalty(1.0, strength), np.zeros(200))
    monkeypatch.setattr(LBFGSMemory, "expect_from", lambda *_: None)
    plain = LBFGSMinimizer(1e-6, 2000).solve(objective, Penalty(1.0, strength), np.zeros(200))
    assert scaled.converged
    assert plain.converged
    assert scaled.n_passes < plain.n_passes
    assert_allclose(scaled.w, plain.w, atol=1e-3)
    assert scaled.history[-1] == pytest.approx(plain.history[-1], rel=1e-9)


# --- what searches for penalties are made of --------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_box(scale):
    """A quadratic whose minimum lies outside of the box, at any scale of its values."""
    matrix, centre, points = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([4.0, 0.3]), []

    def function(x):
        points.append(x.copy())
        gradient = matrix @ (x - centre)
        return scale * (1.0 + 0.5 * float(gradient @ (x - centre))), scale * gradient

    minimize_in_box(function, np.zeros(2), (-1.0, 2.0), max_evaluations=50, tol=1e-9)
    best = min(points, key=lambda x: (x - centre) @ matrix @ (x - centre))
    np.testing.assert_allclose(best, [2.0, 1.3], atol=1e-4)
    assert all((-1.0 <= x).all() and (x <= 2.0).all() for x in points)
    assert 0.8 <= np.linalg.norm(points[1] - points[0]) <= 1.0 + 1e-9


def test_first_steps_are_short_where_the_gradient_is_small():
    points = []

    def function(x):
        points.append(float(x[0]))
        return 0.4 + 0.03 * (x[0] - 0.5) ** 2, 0.06 * (x - 0.5)

    minimize_in_box(function, np.zeros(1), (-10.0, 10.0), max_evaluations=2, tol=1e-3)
    assert points[1] == pytest.approx(6.0 * 0.03 / 0.4075)


def test_box_ends():
    values = iter([5.0, 4.0, 4.0, 3.9999, 1.0])

    def function(x):
        return next(values), np.array([1.0])

    minimize_in_box(function, np.zeros(1), (-10.0, 10.0), max_evaluations=50, tol=1e-3)
    assert next(values) == 1.0  # two evaluations in a row had gained nothing
    answers = iter([(5.0, 1.0), (4.0, 1.0), (3.9999, 1e-5), (1.0, 1.0)])

    def flat(x):
        value, slope = next(answers)
        return value, np.array([slope])

    minimize_in_box(flat, np.zeros(1), (-10.0, 10.0), max_evaluations=50, tol=1e-3)
    assert next(answers) == (1.0, 1.0)  # one had gained nothing, and the next one promised nothing
    counts = []
    minimize_in_box(
        lambda x: (counts.append(x) or float(x @ x), 2 * x), np.ones(3), (-9.0, 9.0), max_evaluations=1, tol=0.0
    )
    minimize_in_box(lambda x: (counts.append(x) or 0.0, x), np.ones(0), (-9.0, 9.0), max_evaluations=9, tol=0.0)
    assert len(counts) == 2


@pytest.mark.parametrize("n_variables", [0, 2])
def test_box_ends_by_its_own_exception_alone(n_variables):
    def end(error, x):
        raise error("of a user")

    options = {"max_evaluations": 9, "tol": 0.0}
    minimize_in_box(partial(end, SearchEnd), np.zeros(n_variables), (-1.0, 1.0), **options)
    with pytest.raises(StopIteration, match="of a user"):
        minimize_in_box(partial(end, StopIteration), np.zeros(n_variables), (-1.0, 1.0), **options)


def test_shifted_memory_is_that_of_the_shifted_function():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    matrix, diagonal = root @ root.T, rng.uniform(-0.1, 3.0, 6)
    shifted, expected = LBFGSMemory(4, 6), LBFGSMemory(4, 6)
    points = rng.normal(size=(7, 6))
    for memory, hessian in (shifted, matrix), (expected, matrix + np.diag(diagonal)):
        ends = [Point(w, 0.0, hessian @ w, hessian @ w) for w in points]
        for start, end in zip(ends[:-1], ends[1:], strict=True):
            memory.add(start, end)
    shifted.shift(diagonal)
    vector = rng.normal(size=6)
    np.testing.assert_allclose(shifted.solve(vector), expected.solve(vector), rtol=1e-10)
    np.testing.assert_allclose(
        shifted.restricted(np.arange(6), 100).times(vector), expected.restricted(np.arange(6), 100).times(vector)
    )
    shifted.shift(np.full(6, -1e6))
    assert len(shifted) == 0


test_refusals = refusals(
    (lambda: LBFGSMinimizer().solve(Picky(), Penalty(1.0), np.zeros(3)), "w must be 0"),
)  # fmt: skip

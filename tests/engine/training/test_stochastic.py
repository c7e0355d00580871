"""Stochastic training: minibatches and the weights that they change, proximal steps, SGD, and the estimators."""

import time
import warnings
from copy import deepcopy

import numpy as np
import pytest
from cases import build_layout, cases, peak_of, random_case, to_batch, to_codes, to_layout
from hypothesis import example, given
from hypothesis import strategies as st
from internals import (
    SGD,
    ChainModel,
    LBFGSMinimizer,
    Mask,
    NegativeLogLikelihood,
    Objective,
    Penalty,
    Problem,
    Schedule,
    SegmentModel,
    SequenceBatch,
    _first_state,
    _run_epoch,
    observed_patterns,
    shortest_subgradient,
    shuffled_minibatches,
)
from refusals import refusals
from scipy import sparse
from segment_cases import (
    MIXED,
    random_segment_case,
    to_segment_batch,
    to_segment_layout,
    to_segments,
    to_weights,
)
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, datasets

# --------------------------------------------------------------------------------------------------------- minibatches


def sgd(tol=3e-3, max_iter=100, random_state=None, callback=None, **settings):
    return SGD(**settings).minimizer(tol, max_iter, callback, random_state)


def chain_objective(case, **options):
    layout, weights = to_layout(case)
    batch = to_batch(case.rows, case.n_attributes)
    return NegativeLogLikelihood().bind(Problem(ChainModel, layout, batch, to_codes(case.labels), **options)), weights


def segment_objective(case, **options):
    batch = to_segment_batch(case)
    layout = to_segment_layout(case, batch, all_pairs=True)
    truth = to_segments(case.segmentations, batch.offsets)
    problem = Problem(SegmentModel, layout, batch, truth, **options)
    return NegativeLogLikelihood().bind(problem), to_weights(case, layout)


def some_objective(kind, seed=0, lengths=(9, 1, 4, 17, 6, 3, 12, 2, 5, 8, 7, 30), **options):
    rng = np.random.default_rng(seed)
    options = {"sequence_weight": rng.uniform(0.5, 2, len(lengths)), **options}
    if kind == "chain":
        case = random_case(rng, 6, lengths, 2, 12, 0.5, [(0,), (0, 1), (2,), (0,)])
        return chain_objective(case, **options)
    case = random_segment_case(
        rng, lengths, MIXED, ((0, 1),), longest=(5, 3, 1), scale=0.5, patterns=[(0, 1), (1, 0), (0, 1, 0), (2, 0)]
    )
    return segment_objective(case, **options)


def wide_objective(n_untouched):
    """Return an objective of 40 short sequences, with so many attributes that only the last sequence has."""
    rng = np.random.default_rng(0)
    rows = [rng.choice(50, 5, replace=False) for _ in range(400)] + [50 + np.arange(n_untouched)]
    indptr = np.cumsum([0, *map(len, rows)])
    batch = SequenceBatch(np.append(np.arange(0, 401, 10), 401), indptr, np.concatenate(rows), None, 50 + n_untouched)
    codes = rng.integers(0, 5, 401).astype(np.int32)
    layout = build_layout(batch, codes, observed_patterns(codes, batch.offsets, 5, 1), all_pairs=True)
    return NegativeLogLikelihood().bind(Problem(ChainModel, layout, batch, codes))


def step_of(objective, sequences):
    """Return a function that takes what one step of training costs."""
    source, w = objective.problem.minibatches, np.zeros(objective.n_weights)

    def step():
        touched = source.weights(sequences)
        return touched, source.value_gradient(w, sequences, touched)

    return step


def test_a_step_costs_what_it_touches():
    sequences, counts, seconds = np.arange(8), [], []
    steps = [step_of(wide_objective(n_untouched), sequences) for n_untouched in (10, 200_000)]
    results = [step() for step in steps]
    for touched, _ in results:
        counts.append(len(touched))
    for step in steps:
        assert peak_of(step) < 1_000_000  # the wider one has a million weights: 8 MB for one number each
        times = []
        for _ in range(30):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
    assert counts[0] == counts[1] <= 50 * 5 + 5 + 25
    assert results[0][1][0] == pytest.approx(results[1][1][0])
    assert seconds[1] < 3 * seconds[0]


@pytest.mark.parametrize(("n_sequences", "batch_size"), [(1, 8), (8, 8), (9, 8), (100, 7), (1000, 8)])
def test_each_sequence_is_in_one_minibatch(n_sequences, batch_size):
    lengths = np.random.default_rng(0).integers(1, 50, n_sequences)
    parts = shuffled_minibatches(lengths, batch_size, np.random.RandomState(0))
    assert sorted(np.concatenate(parts).tolist()) == list(range(n_sequences))
    sizes = [len(part) for part in parts]
    assert len(parts) == -(-n_sequences // batch_size)
    assert max(sizes) - min(sizes) <= 1
    if n_sequences == 1000:
        assert np.mean([np.ptp(lengths[part]) for part in parts]) < 5  # of 50
        other = shuffled_minibatches(lengths, batch_size, np.random.RandomState(1))
        assert {tuple(part) for part in parts} != {tuple(part) for part in other}
        first = [shuffled_minibatches(lengths, batch_size, np.random.RandomState(seed))[0][0] for seed in range(200)]
        assert np.mean(lengths[first] > np.median(lengths)) == pytest.approx(0.5, abs=0.12)


# ------------------------------------------------------------------------------------------------------ proximal steps

PENALTIES = {
    "l2": Penalty(np.array([2.0, 0.0, 0.5])),
    "l2 of all": Penalty(0.7),
    "l1": Penalty(0.0, 0.3),
    "both": Penalty(np.array([2.0, 0.0, 0.5]), np.array([0.2, 0.4, 0.0])),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_proximal_step_is_the_minimiser(name):
    penalty, step = PENALTIES[name], np.array([0.1, 0.5, 2.0])
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.normal(size=3)
        u = penalty.prox(x, step)
        lowest = penalty.value(u) + np.sum((u - x) ** 2 / (2 * step))
        for _ in range(50):
            other = u + rng.normal(scale=10.0 ** rng.uniform(-6, 0), size=3) * (rng.random(3) < 0.5)
            assert penalty.value(other) + np.sum((other - x) ** 2 / (2 * step)) >= lowest - 1e-14


@pytest.mark.parametrize("name", PENALTIES)
def test_proximal_step_of_some_weights(name):
    penalty, step, x, chosen = PENALTIES[name], np.array([0.1, 0.5, 2.0]), np.array([3.0, -2.0, 0.5]), np.array([2, 0])
    np.testing.assert_array_equal(penalty.prox(x[chosen], step[chosen], chosen), penalty.prox(x, step)[chosen])


# ------------------------------------------------------------------------------------------------------ compiled steps


class Unknown(Penalty):
    """The same penalty by a method of its own, which kernels do not know."""

    def prox(self, x, step, chosen=slice(None)):
        return super().prox(x, step, chosen)


def train(objective, penalty, start, batch_size, n_epochs=3):
    """Return the state after some epochs, and the sequences that kernels left to Python."""
    state, left = _first_state(start.copy(), 0.3, np.random.RandomState(0)), []
    minibatches = objective.minibatches

    def noted(*arguments):
        for minibatch in minibatches(*arguments):
            left.extend(minibatch.sequences.tolist())
            yield minibatch

    objective.minibatches = noted
    try:
        for _ in range(n_epochs):
            _run_epoch(objective, batch_size, penalty, state, 2 * objective.n_sequences)
    finally:
        del objective.minibatches
    return state, left


def assert_same_steps(objective, start, penalty=(0.7, 0.0), batch_size=3):
    """Compare compiled steps with those that Python takes; return the sequences that were left to Python."""
    state, left = train(objective, Penalty(*penalty), start, batch_size)
    plain, every = train(objective, Unknown(*penalty), start, batch_size)
    assert sorted(every) == np.repeat(np.arange(objective.n_sequences), 3).tolist()
    for name in "w", "sums", "squares":
        expected = getattr(plain, name)
        scale = max(1.0, np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(getattr(state, name), expected, rtol=1e-7, atol=1e-9 * scale)
    np.testing.assert_array_equal(state.w == 0, plain.w == 0)
    assert (state.n_seen, state.mass) == (plain.n_seen, plain.mass)
    return set(left)


@given(st.none() | cases(), st.sampled_from([0.5, "each"]), st.sampled_from([0.0, 0.2, "each"]), st.integers(1, 4))
@example(None, "each", "each", 100)
def test_compiled_steps_are_those_of_python(case, precision, strength, batch_size):
    objective, w = chain_objective(case) if case else some_objective("chain")
    rng = np.random.default_rng(0)
    each = [rng.uniform(0, 2, len(w)) * (rng.random(len(w)) < 0.7) for _ in range(2)]
    penalty = [part if given == "each" else given for part, given in zip(each, (precision, strength), strict=True)]
    assert assert_same_steps(objective, w, penalty, batch_size) == set()


def test_what_kernels_cannot_represent_is_left_to_python():
    objective, w = some_objective("chain")
    assert len(assert_same_steps(objective, 1e3 * w, batch_size=1)) > 3


def test_minibatches_with_large_tables_are_left_to_python():
    objective, w = some_objective("chain")
    problem = objective.problem
    size = 16 * 10 * problem.plan.row_size  # a block of sequences of ten tokens
    cut = Problem(ChainModel, problem.layout, problem.batch, problem.truth, schedule=Schedule(cut_size=size))
    assert assert_same_steps(NegativeLogLikelihood().bind(cut), w, batch_size=1) == {3, 6, 11}


def test_compiled_steps_obey_masks():
    objective, w = some_objective("chain")
    problem = objective.problem
    support = Mask.free(problem.batch.n_tokens, 6)
    support.allowed[np.random.default_rng(1).random(support.allowed.shape) < 0.4] = False
    support.allowed[np.arange(len(problem.truth)), problem.truth] = True
    masked = Problem(ChainModel, problem.layout, problem.batch, problem.truth, support=support)
    assert assert_same_steps(NegativeLogLikelihood().bind(masked), w) == set()


@pytest.mark.parametrize("kind", ["chain", "segments"])
def test_steps_that_overflow_leave_no_trace(kind):
    """The same tables serve all trials of a step size, the failing ones among them."""
    objective, w = some_objective(kind)
    before = train(objective, Penalty(0.7), w, 3)[0]
    far = _first_state(np.full(len(w), -1e308), 1.0, np.random.RandomState(0))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="sequence"):
        _run_epoch(objective, 3, Penalty(0.0), far, 12)
    np.testing.assert_array_equal(train(objective, Penalty(0.7), w, 3)[0].w, before.w)


# ------------------------------------------------------------------------------------------------------------- solvers


class LogisticLoss(Objective):
    """Sum of ``log(1 + exp(-y x'w))`` over sparse rows: what a stochastic solver needs of an objective."""

    def __init__(self, X, y, order=None):
        self.signed, self.order = sparse.csr_array(X * y[:, None]), order
        self.n_sequences = len(y)

    def value(self, w):
        return float(np.logaddexp(0, -self.signed @ w).sum())

    def value_gradient(self, w):
        margin = self.signed @ w
        return self.value(w), -self.signed.T @ (1 / (1 + np.exp(margin)))

    def part(self, sequences):
        part = LogisticLoss(np.empty((0, 1)), np.empty(0))
        part.signed, part.order, part.n_sequences = self.signed[sequences], None, len(sequences)
        return part

    def minibatches(self, batch_size, rng, course=None):
        order = rng.permutation(self.n_sequences) if self.order is None else self.order
        starts = range(0, len(order), batch_size)
        return (MinibatchOfRows(self.part(order[start : start + batch_size])) for start in starts)


class MinibatchOfRows:
    def __init__(self, rows):
        self.rows, self.n_sequences = rows, rows.n_sequences
        self.weights = np.unique(rows.signed.indices).astype(np.int64)

    def value_gradient(self, w):
        of_touched = np.zeros(len(w))
        of_touched[self.weights] = w[self.weights]
        value, gradient = self.rows.value_gradient(of_touched)
        return value, gradient[self.weights]


def rows(n=60, n_weights=25, seed=0, order=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_weights)) * (rng.random((n, n_weights)) < 0.15)
    y = np.where(X[:, :5].sum(axis=1) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return LogisticLoss(X, y, np.arange(n) if order else None)


PRECISION = np.where(np.arange(25) % 3 == 0, 0.5, np.where(np.arange(25) % 3 == 1, 40.0, 0.0))


def minimiser(linear, pulls, centres, precision, strength):
    """Return the w that minimise ``linear w + sum of pulls (w - centres)^2 / 2 + precision w^2 / 2 + strength |w|``."""
    slope = linear - (pulls * centres).sum(axis=0)
    return -np.sign(slope) * np.maximum(np.abs(slope) - strength, 0) / (pulls.sum(axis=0) + precision)


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_steps_one_by_one(strength):
    """The same steps from the definition: all gradients and all weights so far."""
    objective, n, step_size, batch_size = rows(order=True), 60, 0.5, 6
    start = np.where(np.arange(25) % 2, 1.0, 0.0)
    w, m = start, 0
    gradients, centres = [], [start]
    pulls = [(np.sqrt(start) + 1e-8) / step_size]
    for _ in range(3):
        for minibatch in objective.minibatches(batch_size, None):
            gradients.append(minibatch.rows.value_gradient(w)[1])
            centres.append(w)
            squares = start + np.sum(np.square(gradients), axis=0)
            pulls.append((np.sqrt(squares) + 1e-8) / step_size - np.sum(pulls, axis=0))
            m += minibatch.n_sequences
            share = m / n
            w = minimiser(np.sum(gradients, axis=0), np.array(pulls), centres, share * PRECISION, share * strength)
    state = _first_state(start.copy(), step_size, None)
    for _ in range(3):
        _run_epoch(objective, batch_size, Penalty(PRECISION, strength), state, n)
    np.testing.assert_allclose(state.w, w, rtol=1e-9, atol=1e-11)
    if strength:
        assert 0 < np.count_nonzero(state.w == 0) < 25
        np.testing.assert_array_equal(state.w == 0, w == 0)


def test_the_minimum_is_reached():
    objective, penalty = rows(60), Penalty(0.5)
    best = LBFGSMinimizer(tol=1e-10).solve(objective, penalty, np.zeros(25))
    report = sgd(tol=1e-3, random_state=0, batch_size=4).solve(objective, penalty, np.zeros(25))
    assert report.converged
    assert best.history[-1] <= report.history[-1] <= best.history[-1] * (1 + 1e-6)
    assert report.history[-1] == pytest.approx(objective.value(report.w) + penalty.value(report.w), rel=1e-12)
    assert report.history[0] == pytest.approx(60 * np.log(2))
    assert report.history[-1] - best.history[-1] <= report.gap
    norm = np.linalg.norm(objective.value_gradient(report.w)[1] + 0.5 * report.w)
    assert report.gradient_norm == pytest.approx(norm)
    from_optimum = sgd(random_state=0).solve(objective, penalty, best.w)
    assert from_optimum.converged
    assert from_optimum.history[-1] <= best.history[-1] * (1 + 1e-12)


def test_steps_make_weights_zero_where_the_optimum_has_zeros():
    objective, penalty = rows(100), Penalty(0.1, 2.0)
    best = LBFGSMinimizer(tol=1e-10).solve(objective, penalty, np.zeros(25))
    report = sgd(tol=1e-6, random_state=0).solve(objective, penalty, np.zeros(25))
    assert 3 < np.count_nonzero(best.w == 0) < 22
    np.testing.assert_array_equal(best.w == 0, report.w == 0)
    assert report.history[-1] == pytest.approx(best.history[-1], rel=1e-9)
    gradient = objective.value_gradient(report.w)[1] + 0.1 * report.w
    assert report.gradient_norm == pytest.approx(np.linalg.norm(shortest_subgradient(report.w, gradient, 2.0)))


def test_the_end_is_never_worse_than_the_start():
    """Far too long steps: the weights go to and fro."""
    objective, penalty, start = rows(), Penalty(0.5), np.full(25, 1e-9)
    objective.signed = 1e6 * objective.signed
    report = sgd(step_size=1e6, max_iter=1).solve(objective, penalty, start)
    np.testing.assert_array_equal(report.w, start)
    np.testing.assert_array_equal(report.history, np.full(2, report.history[0]))
    assert report.history[0] == pytest.approx(objective.value(start) + penalty.value(start), rel=1e-12)
    assert (report.n_iter, report.converged) == (1, False)


def test_lbfgs_finds_what_steps_cannot():
    objective = rows()
    objective.signed = objective.signed @ sparse.diags_array(np.where(np.arange(25) % 2, 1e4, 1.0))
    best = LBFGSMinimizer(tol=1e-8, max_iter=5000).solve(objective, Penalty(0.5), np.zeros(25)).history[-1]
    report = sgd(random_state=0, max_iter=5000).solve(objective, Penalty(0.5), np.zeros(25))
    assert report.converged
    assert best <= report.history[-1] <= (1 + 1e-5) * best


@pytest.mark.parametrize("kind", ["plain", "segments", "sample weights", "l1", "weak penalty"])
@pytest.mark.slow
def test_ends_are_near_the_optimum_or_warn(kind):
    """Three sequences of three tokens, each with features of a scale of its own."""
    n_near = 0
    for seed in 0, 1, 11, 46, 53, 70:
        rng = np.random.default_rng(seed)
        X = [rng.normal(size=(3, 2)).round(2) * rng.choice([1e3, 1e-3, 1.0]) for _ in range(3)]
        y = [rng.choice(list("abc"), 3).tolist() for _ in range(3)]
        weight = rng.choice([1e-6, 1.0, 100.0], 3) if kind == "sample weights" else None
        make = HighOrderSemiCRF if kind == "segments" else HighOrderCRF
        crf = make(l1_reg=0.3 * (kind == "l1"), sigma_reg=10.0 if kind == "weak penalty" else 1.0, random_state=0)
        best = clone(crf).set_params(tol=1e-7, max_iter=5000).fit(X, y, sample_weight=weight).objective_history_[-1]
        with warnings.catch_warnings(record=True, action="always") as caught:
            end = clone(crf).set_params(solver="sgd").fit(X, y, sample_weight=weight)
        value = end.objective_history_[-1]
        assert value <= best + end.optimality_gap_
        if not caught:
            assert value <= (1.01 if kind == "l1" else 1.00001) * best
            n_near += 1
    assert n_near > 4


def test_overflow_at_the_start_is_refused_as_by_others():
    objective = rows()
    objective.signed = objective.signed * 1e160
    for refuses in sgd(), LBFGSMinimizer():
        with pytest.raises(ValueError, match="its gradient inf, which floating point numbers cannot represent"):
            refuses.solve(objective, Penalty(0.5), np.zeros(25))


def test_same_seed_same_weights():
    def weights(seed):
        return sgd(max_iter=3, random_state=seed).solve(rows(), Penalty(0.5), np.zeros(25)).w

    np.testing.assert_array_equal(weights(0), weights(0))
    np.testing.assert_array_equal(weights(3), weights(np.random.RandomState(3)))
    assert (weights(0) != weights(1)).any()


def test_calibrated_step_is_the_best_of_its_neighbours():
    objective, penalty = rows(300), Penalty(0.5)
    started = sgd(batch_size=8)._start(objective, penalty, np.zeros(25), 300, np.random.RandomState(0))
    state, n_visited = started

    def after_one_pass(step):
        tried = deepcopy(state)
        tried.step = step
        _run_epoch(objective, 8, penalty, tried, 300)
        return objective.value(tried.w) + penalty.value(tried.w)

    best, less, more = (after_one_pass(factor * state.step) for factor in (1.0, 0.5, 2.0))
    assert best < min(less, more)
    assert n_visited >= 3 * 2 * 300
    assert (state.w == 0).all()
    assert state.n_seen == 0


def test_calibration_takes_a_sample_and_finds_small_steps():
    objective = rows(1010)
    objective.signed = objective.signed * 100  # where only small steps are any good
    state, n_visited = sgd(batch_size=64)._start(objective, Penalty(1.0), np.zeros(25), 1010, np.random.RandomState(0))
    assert state.step < 0.02
    assert n_visited % 2000 == 0


def test_iterations_follow_epochs_that_hardly_lower_the_objective():
    calls, objective, n_evaluations = [], rows(200), 0
    value_gradient = objective.value_gradient

    def counted(w):
        nonlocal n_evaluations
        n_evaluations += 1
        return value_gradient(w)

    objective.value_gradient = counted
    report = sgd(random_state=0, step_size=0.1, callback=calls.append).solve(objective, Penalty(0.5), np.zeros(25))
    history = report.history
    assert report.converged
    assert [p.n_iter for p in calls] == list(range(1, report.n_iter + 1))
    np.testing.assert_array_equal([p.value for p in calls], history[1:])
    is_epoch = np.isnan([p.gradient_norm for p in calls])
    n_epochs = np.count_nonzero(is_epoch)
    assert 1 < n_epochs < report.n_iter
    assert is_epoch[:n_epochs].all()
    fell = history[1:] < history[:-1] - 0.05 * history[:-1]
    assert fell[: n_epochs - 1].all()
    assert not fell[n_epochs - 1]
    assert report.n_passes == n_evaluations + 2 * n_epochs
    for n_iter, progress in enumerate(calls, 1):
        now = progress.report()
        assert now.n_iter == len(now.history) - 1 >= n_iter  # an epoch's is that of all epochs so far


@pytest.mark.parametrize("n_iter", [1, 4])
def test_a_callback_stops_epochs_and_iterations(n_iter):
    stops = sgd(random_state=0, step_size=0.1, callback=lambda progress: progress.n_iter == n_iter)
    report = stops.solve(rows(200), Penalty(0.5), np.zeros(25))
    whole = sgd(random_state=0, step_size=0.1).solve(rows(200), Penalty(0.5), np.zeros(25))
    assert (report.n_iter, report.stopped, report.converged) == (n_iter, True, False)
    np.testing.assert_array_equal(report.history, whole.history[: n_iter + 1])


def test_passes_are_counted():
    objective, penalty = rows(200), Penalty(0.5)
    report = sgd(max_iter=1, step_size=0.1).solve(objective, penalty, np.zeros(25))
    assert report.n_passes == 1 + 2 + 1  # start, epoch and value after it, last gradient
    assert sgd(max_iter=1).solve(objective, penalty, np.zeros(25)).n_passes >= 4 + 3 * 2
    assert sgd(max_iter=0, step_size=1.0).solve(objective, penalty, np.ones(25)).w.tolist() == [1.0] * 25


def test_what_does_not_go_together():
    with pytest.raises(ValueError, match="smaller step_size"), np.errstate(all="ignore"):
        sgd(step_size=1e308).solve(rows(), Penalty(0.0), np.zeros(25))


# ---------------------------------------------------------------------------------------------------------- estimators


@pytest.fixture(scope="module")
def words():
    return datasets.make_digit_words(60, random_state=0)


def quietly(crf, X, y):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return crf.fit(X, y)


ESTIMATORS = [HighOrderCRF(max_order=2), HighOrderSemiCRF(max_order=2)]


@pytest.mark.parametrize("crf", ESTIMATORS, ids=lambda crf: type(crf).__name__)
def test_exact_zeros_leave_the_model(crf, words):
    crf = clone(crf).set_params(l1_reg=0.5, sigma_reg=10.0)
    X, y = (part[:40] for part in words)
    best = clone(crf).fit(X, y)
    crf = quietly(crf.set_params(solver=SGD(), max_iter=120, random_state=0), X, y)
    assert (crf.coef_.data != 0).all()
    assert crf.objective_history_[-1] == pytest.approx(best.objective_history_[-1], rel=0.02)
    n_all = quietly(clone(crf).set_params(l1_reg=0.0, solver="lbfgs", max_iter=1), X, y).coef_.nnz
    assert best.coef_.nnz < 0.6 * n_all
    assert crf.coef_.nnz < 0.7 * n_all


test_refusals = refusals(
    (lambda: SGD(batch_size=0), "batch_size must be an integer >= 1, got 0"),
    (lambda: SGD(step_size=np.inf), "step_size must be None or a number > 0"),
    (lambda: SGD(n_sequences=0), "n_sequences"),
)  # fmt: skip

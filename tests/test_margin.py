"""Max-margin training: decoding with costs, hinge loss, block-coordinate Frank-Wolfe, the averaged perceptron."""

import math
import pickle
import warnings

import numpy as np
import oracle
import pytest
import segment_cases as sc
import segment_oracle as so
from cases import by_order, cases, random_case, to_batch, to_codes, to_layout
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    CHAIN,
    L2,
    LBFGS,
    SEGMENTS,
    AveragedPerceptron,
    ElasticNet,
    FrankWolfe,
    Hinge,
    Mask,
    MaxOracle,
    Perceptron,
    Problem,
    Schedule,
    SegmentLayout,
    check_needs,
)
from scipy.optimize import LinearConstraint, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from test_peers import tagged_sentences

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

COSTS = st.sampled_from([0.0, 1.0, 0.75])
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0])


# --- plain and slow ---------------------------------------------------------------------------------------------------


def chain_counts(case, rows, labels):
    """Return how often each (feature or None, pattern) of a labelling counts."""
    counts = {}
    for t, row in enumerate(rows):
        for start in range(t + 1):
            pattern = tuple(labels[start : t + 1])
            for feature, value in [(None, 1.0), *row.items()]:
                weighted = case.model.patterns if feature is None else case.model.features
                key = pattern if feature is None else (feature, pattern)
                if key in weighted:
                    counts[feature, pattern] = counts.get((feature, pattern), 0.0) + value
    return counts


def chain_answers(case, number):
    """Return {labelling: (score, wrong tokens, counts)} of one sequence, and the true labelling."""
    rows, truth = case.sequences[number], case.labels[number]
    answers = {}
    for labels in oracle.labellings(case.model.n_labels, len(rows)):
        wrong = sum(a != b for a, b in zip(labels, truth, strict=True))
        answers[labels] = oracle.score(case.model, rows, labels), wrong, chain_counts(case, rows, labels)
    return answers, truth


def segment_counts(case, sequence, segmentation):
    counts = {}
    for i, (u, v, _) in enumerate(segmentation):
        for pattern in so.patterns_ending(segmentation, i):
            if pattern in case.model.patterns:
                counts[None, pattern] = counts.get((None, pattern), 0.0) + 1
            for feature in range(len(case.feature_orders) + 1):  # the last one: the tokens
                if (feature, pattern) in case.model.features:
                    value = counts.get((feature, pattern), 0.0) + sequence.value(feature, u, v)
                    counts[feature, pattern] = value
    return counts


def token_marks(segmentation, repeats):
    """Return what is said of each token: its label, and where that is no consequence whether a segment begins."""
    return [(y, repeats and t == u) for u, v, y in segmentation for t in range(u, v)]


def segment_answers(case, number):
    sequence, truth = case.sequences[number], case.segmentations[number]
    right, answers = token_marks(truth, case.model.repeats), {}
    for segmentation, score in so.scores(case.model, sequence).items():
        marks = token_marks(segmentation, case.model.repeats)
        wrong = sum(a != b for a, b in zip(marks, right, strict=True))
        answers[segmentation] = score, wrong, segment_counts(case, sequence, segmentation)
    return answers, truth


def subtract(one, other):
    return {key: one.get(key, 0.0) - other.get(key, 0.0) for key in {*one, *other}}


def best_answers(answers, cost):
    """Return the highest score, costs added, and the answers that reach it."""
    with_costs = {y: score + cost * wrong for y, (score, wrong, _) in answers.items()}
    best = max(with_costs.values())
    return best, [y for y, value in with_costs.items() if value >= best - 1e-9 * max(1, abs(best))]


def spread(layout, vector):
    """Return a vector of weights' values as {(feature or None, pattern): value}, without zeros."""
    patterns = layout.patterns.tuples()
    coef = layout.coef(vector).tocoo()
    nonzero = {(None, patterns[z]): x for z, x in enumerate(layout.pattern_coef(vector)) if x}
    nonzero |= {(int(f), patterns[z]): x for z, f, x in zip(coef.row, coef.col, coef.data, strict=True) if x}
    return nonzero | {(layout.n_features, (y,)): x for y, x in enumerate(layout.token_coef(vector)) if x}


def to_problem(case, sequence_weight=None, **options):
    """Return the training problem of a chain or segment case, and the case's weights."""
    if isinstance(case, sc.SegmentCase):
        batch = sc.to_segment_batch(case)
        layout = sc.to_segment_layout(case, batch)
        truth = sc.to_segments(case.segmentations, batch.offsets)
        problem = Problem(SEGMENTS, layout, batch, truth, sequence_weight=sequence_weight, **options)
        return problem, sc.to_weights(case, layout)
    layout, w = to_layout(case)
    batch, codes = to_batch(case.sequences, len(case.feature_orders)), to_codes(case.labels)
    return Problem(CHAIN, layout, batch, codes, sequence_weight=sequence_weight, **options), w


def answers_of(case):
    """Return the answers of each sequence, and the true ones."""
    answers = segment_answers if isinstance(case, sc.SegmentCase) else chain_answers
    return [answers(case, number) for number in range(len(case.sequences))]


def check_decoding(case, cost):
    """Hold what is found with costs against enumeration: for all sequences at a time, and for each alone."""
    weight = WEIGHTS[: len(case.sequences)]
    problem, w = to_problem(case, weight)
    margins = problem.margins(cost)
    maxima = margins.maxima(problem.model(w))
    together = MaxOracle(margins, weight, w).argmax(np.arange(len(weight)))
    alone = MaxOracle(margins, weight, w)
    total = 0.0
    for number, (answers, truth) in enumerate(answers_of(case)):
        best, winners = best_answers(answers, cost)
        assert maxima[number] == pytest.approx(best, rel=1e-9, abs=1e-9)
        total += weight[number] * (best - answers[truth][0])
        for argmax in together[number], *alone.argmax(np.array([number])):
            value = argmax.cost - argmax.difference @ w[argmax.indices]
            assert value == pytest.approx(weight[number] * (best - answers[truth][0]), rel=1e-9, abs=1e-9)
            assert len(np.unique(argmax.indices)) == len(argmax.indices)
            dense = np.zeros(len(w))
            dense[argmax.indices] = argmax.difference
            assert any(
                is_same(spread(problem.layout, dense), argmax.cost, answers, truth, y, weight[number], cost)
                for y in winners
            )
    objective = Hinge(cost) if cost else Perceptron()
    assert objective.bind(problem).value(w) == pytest.approx(total, rel=1e-9, abs=1e-8)


def is_same(difference, argmax_cost, answers, truth, y, weight, cost):
    """Say whether a difference of features and a cost are those of the labelling y."""
    expected = subtract(answers[truth][2], answers[y][2])
    keys = {*expected, *difference}
    return math.isclose(argmax_cost, weight * cost * answers[y][1], abs_tol=1e-12) and all(
        math.isclose(difference.get(key, 0.0), weight * expected.get(key, 0.0), rel_tol=1e-9, abs_tol=1e-9)
        for key in keys
    )


# --- decoding with costs ----------------------------------------------------------------------------------------------


@given(case=cases(), cost=COSTS)
def test_labels_with_costs_are_those_of_enumeration(case, cost):
    check_decoding(case, cost)


@given(case=sc.segment_cases(), cost=COSTS)
def test_segments_with_costs_are_those_of_enumeration(case, cost):
    check_decoding(case, cost)


def chain_case(seed=0, n_labels=5, n_sequences=40, orders=((0,), (0,), (0, 1), (2,)), longest=30):
    rng = np.random.default_rng(seed)
    return random_case(rng, n_labels, rng.integers(0, longest, n_sequences), 3, 20, 1.0, list(orders))


def segment_case(seed=0, repeats=True, n_sequences=40, longest=12):
    rng = np.random.default_rng(seed)
    blocks = [
        sc.token_block(sc.BAG, [0, 1]),
        sc.token_block(sc.BEGIN, [0]),
        sc.LENGTHS[2],
        sc.WHOLE,
    ]
    orders = [(0,), (0, 1), (0, 1), (0, 2), (0,), (0,), (0, 1), (0, 1), (0,)]
    patterns = [(0, 1), (1, 2), (2, 0, 1), (0, 2), (1, 0, 2, 1)]
    lengths = rng.integers(0, longest, n_sequences)
    return sc.random_segment_case(
        rng, lengths, tuple(blocks), orders, longest=(3, 5, 2), repeats=repeats, patterns=patterns
    )


CASES = {
    "chain": chain_case(),
    "long": chain_case(longest=200),
    "segments": segment_case(),
    "runs": segment_case(repeats=False),
}
every_case = pytest.mark.parametrize("name", CASES)


@every_case
def test_lanes_and_lone_sequences_agree_and_so_do_weights_that_move(name):
    schedule = Schedule(cut_size=3000) if name == "long" else None  # sequences are cut by position
    rng = np.random.default_rng(1)
    problem, w = to_problem(CASES[name], schedule=schedule)
    margins, weight = problem.margins(1.0), rng.uniform(0.5, 2.0, problem.n_sequences)
    moving = MaxOracle(margins, weight, np.zeros(len(w)))
    moving.argmax(np.arange(5))
    moving.move(np.arange(len(w), dtype=np.int32), 0.25 * w)
    chosen = np.concatenate([np.flatnonzero(w), [0, 0]]).astype(np.int32)
    moving.move(chosen, np.concatenate([0.75 * w[w != 0], [2.0, -2.0]]))
    np.testing.assert_allclose(moving.w, w, atol=1e-14)
    fresh, every = MaxOracle(margins, weight, w), rng.permutation(problem.n_sequences)
    values = weight * (margins.maxima(problem.model(w)) - problem.model(w).log_score(problem.batch, problem.truth))
    for source in moving, fresh:
        together = source.argmax(every)
        for number, argmax in zip(every, together, strict=True):
            (alone,) = source.argmax(np.array([number]))
            assert alone.cost == pytest.approx(argmax.cost, abs=1e-12)
            np.testing.assert_array_equal(np.sort(alone.indices), np.sort(argmax.indices))
            value = argmax.cost - argmax.difference @ w[argmax.indices]
            assert value == pytest.approx(values[number], rel=1e-9, abs=1e-9)
    assert sum(len(argmax.indices) > 0 for argmax in together) > 20


def rounded(case):
    """Return a case of numbers whose sums are exact, so that scores tie and the order of operations does not matter."""
    return case._replace(
        sequences=[[{f: round(4 * x) / 4 for f, x in row.items()} for row in rows] for rows in case.sequences]
    )


def steps_of(oracle, sequences, delayed, n_steps):
    """Take the steps of the perceptron one by one."""
    n_mistakes = 0
    for number, sequence in enumerate(sequences):
        (mistake,) = oracle.argmax(np.array([sequence]))
        n_mistakes += len(mistake.indices) > 0
        oracle.move(mistake.indices, mistake.difference)
        delayed[mistake.indices] += (n_steps + number) * mistake.difference
    return n_mistakes


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cost", [0.0, 0.75])
@pytest.mark.parametrize(
    ("max_order", "n_patterns", "orders", "longest"),
    [(0, 0, (0,), 9), (1, 4, (0,), 9), (1, 80, (0,), 9), (1, 12, (0, 1), 9), (3, 20, (0, 2), 9), (1, 80, (0,), 0)],
)
def test_whole_epochs_are_their_steps(max_order, n_patterns, orders, longest, cost, masked):
    rng = np.random.default_rng(2)
    lengths = rng.integers(0, longest + 1, 40)
    case = rounded(random_case(rng, 5, lengths, max_order, n_patterns, 1.0, [orders, (0,), orders, (0,)]))
    mask = Mask(rng.random((lengths.sum(), 5)) < 0.7, np.zeros(lengths.sum(), np.int8))
    mask.allowed[np.arange(len(mask.allowed)), to_codes(case.labels)] = True
    problem, w = to_problem(case, support=mask if masked else None)
    weight = rng.integers(0, 3, problem.n_sequences).astype(float)
    margins, w = problem.margins(cost), np.round(4 * w) / 4
    whole, single = margins.oracle(weight, w), MaxOracle(margins, weight, w)
    delayed, expected = np.zeros((2, len(w)))
    for epoch in range(2):
        sequences, n_steps = rng.permutation(problem.n_sequences), 40 * epoch
        n_mistakes = whole.correct(sequences, delayed, n_steps)
        assert n_mistakes == steps_of(single, sequences, expected, n_steps)
        assert n_mistakes > 10 or not longest
        np.testing.assert_array_equal(whole.w, single.w)
        np.testing.assert_array_equal(delayed, expected)


def mask_around(problem, rng):
    """Return a mask that lets the true segmentation through, and about half of what else there is."""
    truth, n_tokens = problem.truth, problem.batch.n_tokens
    labels = np.repeat(truth.codes, truth.lengths)
    allowed = rng.random((n_tokens, problem.layout.automaton.n_labels)) < 0.5
    allowed[np.arange(n_tokens), labels] = True
    begins = np.full(n_tokens, -1, np.int8)
    begins[truth.start] = 1
    return Mask(allowed, np.where(rng.random(n_tokens) < 0.7, 0, begins).astype(np.int8))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("cost", [0.0, 0.75])
@pytest.mark.parametrize("kind", ["segments", "runs", "tokens", "empty"])
def test_whole_epochs_of_segments_are_their_steps(kind, cost, masked):
    rng = np.random.default_rng(3)
    if kind == "tokens":  # features of tokens alone, and a dense table
        case = sc.random_segment_case(
            rng, rng.integers(0, 9, 40), (sc.token_block(sc.BAG, [0, 1]),), [(0,), (0, 1)], longest=(3, 5, 2)
        )
    else:
        case = segment_case(repeats=kind != "runs", longest=1 if kind == "empty" else 12)
    quarters = [[{a: round(4 * x) / 4 for a, x in row.items()} for row in rows] for rows in case.rows]
    case = case._replace(rows=quarters)  # sums are exact
    problem, w = to_problem(case)
    if masked:
        problem, w = to_problem(case, support=mask_around(problem, rng))
    weight = rng.integers(0, 3, problem.n_sequences).astype(float)
    margins, w = problem.margins(cost), np.round(4 * w) / 4
    whole, single = margins.oracle(weight, w), MaxOracle(margins, weight, w)
    delayed, expected = np.zeros((2, len(w)))
    for epoch in range(2):
        sequences, n_steps = rng.permutation(problem.n_sequences), 40 * epoch
        n_mistakes = whole.correct(sequences, delayed, n_steps)
        assert n_mistakes == steps_of(single, sequences, expected, n_steps)
        assert n_mistakes > 5 or kind == "empty"
        np.testing.assert_array_equal(whole.w, single.w)
        np.testing.assert_array_equal(delayed, expected)


def test_epochs_of_segments_name_what_is_impossible_and_what_overflows():
    problem, w = to_problem(CASES["segments"])
    mask = Mask.free(problem.batch.n_tokens, 3)
    number = int(np.argmax(problem.batch.lengths))
    mask.allowed[problem.batch.offsets[number]] = False
    problem = to_problem(CASES["segments"], support=mask)[0]
    with pytest.raises(ValueError, match=f"sequence {number}: the model forbids"):
        problem.margins(0.0).oracle(np.ones(40), w).correct(np.arange(40), np.zeros(len(w)), 0)
    huge = np.where(np.arange(len(w)) >= problem.layout.n_pairs, 1.7e308, w)
    searching = to_problem(CASES["segments"])[0].margins(0.0).oracle(np.ones(40), huge)
    with pytest.raises(ValueError, match="scores are beyond floating point numbers"):
        searching.correct(np.arange(40), np.zeros(len(w)), 0)


@pytest.mark.parametrize(
    ("allowed", "weight", "message"),
    [(False, 0.0, "sequence 3: the model forbids"), (True, 1e308, "scores are beyond floating point numbers")],
)
def test_epochs_of_the_perceptron_name_what_is_impossible_and_what_overflows(allowed, weight, message):
    mask = Mask.free(13, 3)
    mask.allowed[5] = allowed  # the only token of the fourth sequence
    case = small_case("chain")
    positive = [[{f: 10 * abs(x) for f, x in row.items()} for row in rows] for rows in case.sequences]
    problem, w = to_problem(case._replace(sequences=positive), support=mask)
    w = np.where(np.arange(len(w)) < problem.layout.n_pairs, weight, 0.0)
    searching = problem.margins(0.0).oracle(np.ones(6), w)
    with pytest.raises(ValueError, match=message):
        searching.correct(np.arange(6), np.zeros(len(w)), 0)


def test_long_sequences_take_single_steps():
    problem, _ = to_problem(CASES["long"], schedule=Schedule(cut_size=3000))
    assert type(problem.margins(0.0).oracle(np.ones(40), np.zeros(problem.n_weights))) is MaxOracle
    whole = AveragedPerceptron(max_iter=2, random_state=0).solve(
        Perceptron().bind(to_problem(CASES["long"])[0]), None, np.zeros(problem.n_weights)
    )
    parts = AveragedPerceptron(max_iter=2, random_state=0).solve(
        Perceptron().bind(problem), None, np.zeros(problem.n_weights)
    )
    np.testing.assert_allclose(parts.w, whole.w, atol=1e-9)


def test_pruned_and_pickled_layouts_compare_as_well():
    problem, w = to_problem(CASES["segments"])
    layout = pickle.loads(pickle.dumps(problem.layout))
    assert isinstance(layout, SegmentLayout)
    again = Problem(SEGMENTS, layout, problem.batch, problem.truth)
    assert Hinge().bind(again).value(w) == pytest.approx(Hinge().bind(problem).value(w), rel=1e-12)


# --- hinge loss -------------------------------------------------------------------------------------------------------


def small_case(kind, seed=0):
    if kind == "chain":
        return random_case(np.random.default_rng(seed), 3, [3, 2, 0, 1, 4, 3], 2, 5, 1.0, [(0,), (0, 1)])
    rng = np.random.default_rng(seed)
    blocks = sc.token_block(sc.BAG, [0, 1]), sc.LENGTHS[1]
    return sc.random_segment_case(
        rng, [3, 2, 0, 1, 4, 3], blocks, [(0,), (0, 1), (0,)], longest=(2, 3), patterns=[(0, 1), (1, 0, 1), (1, 1)]
    )


def quadratic_program(case, problem, precision, weight):
    """Return the minimum of hinge loss and penalty as that of a quadratic program with a constraint per labelling."""
    layout, number_of = problem.layout, {}
    for k in range(problem.n_weights):
        unit = np.zeros(problem.n_weights)
        unit[k] = 1.0
        (number_of[next(iter(spread(layout, unit)))],) = (k,)
    rows, least = [], []
    for number, (answers, truth) in enumerate(answers_of(case)):
        for _, wrong, counts in answers.values():
            row = np.zeros(problem.n_weights + len(weight))
            for key, value in subtract(answers[truth][2], counts).items():
                row[number_of[key]] = value
            row[problem.n_weights + number] = 1.0  # slack >= cost - w . difference
            rows.append(row)
            least.append(wrong)

    def function(x):
        w, slack = np.split(x, [problem.n_weights])
        return 0.5 * (precision * w) @ w + weight @ slack, np.concatenate([precision * w, weight])

    constraint = LinearConstraint(np.array(rows), lb=np.array(least, dtype=float))
    start = np.concatenate([np.zeros(problem.n_weights), np.full(len(weight), max(least))])
    result = minimize(
        function, start, jac=True, method="SLSQP", constraints=constraint, options={"maxiter": 1000, "ftol": 1e-12}
    )
    assert result.success
    return result.fun


@pytest.mark.parametrize("sigmas", [(1.0, 1.0, 1.0), (3.0, 0.5, 0.2)])
@pytest.mark.parametrize("kind", ["chain", "segments"])
def test_the_gap_bounds_the_distance_from_the_optimum(kind, sigmas):
    case = small_case(kind)
    problem, _ = to_problem(case, WEIGHTS)
    precision = np.array(sigmas)[problem.layout.order_of_weight] ** -2.0
    objective, penalty = Hinge().bind(problem), L2(precision)
    optimum = quadratic_program(case, problem, precision, WEIGHTS)
    gaps = []
    for tol in 1e-2, 1e-4, 1e-7:
        report = FrankWolfe(tol=tol, random_state=0).solve(objective, penalty, np.zeros(problem.n_weights))
        assert report.converged
        assert report.history[-1] == pytest.approx(objective.value(report.w) + penalty.value(report.w), rel=1e-12)
        assert report.gap <= 100 * tol * report.history[-1]
        assert optimum - 1e-6 <= report.history[-1] <= optimum + report.gap + 1e-6
        assert len(report.history) == report.n_iter + 1
        assert report.n_passes == 2 * report.n_iter + 1
        assert math.isnan(report.gradient_norm)
        gaps.append(report.gap)
    assert gaps[0] > gaps[1] > gaps[2] >= 0
    assert report.history[-1] == pytest.approx(optimum, rel=1e-5)
    assert report.history[0] == pytest.approx(objective.value(np.zeros(problem.n_weights)))


@every_case
def test_dual_objective_ascends_and_the_gap_closes(name):
    problem, _ = to_problem(CASES[name])
    calls = []
    solver = FrankWolfe(tol=1e-3, random_state=0, callback=calls.append)
    start = np.random.default_rng(0).normal(size=problem.n_weights)  # of no effect
    report = solver.solve(Hinge().bind(problem), L2(1.0), start)
    dual = np.array([progress.value - progress.gap for progress in calls])
    assert report.converged
    assert (np.diff(dual) >= -1e-9 * report.history[0]).all()
    assert calls[-1].gap < 0.2 * calls[0].gap
    assert [progress.value for progress in calls] == list(report.history[1:])
    assert calls[-1].gap == report.gap


def test_the_best_weights_are_returned_and_not_the_last():
    problem, _ = to_problem(small_case("chain"))
    objective, penalty = Hinge().bind(problem), L2(1e-6)
    report = FrankWolfe(tol=0, max_iter=20, random_state=0).solve(objective, penalty, np.zeros(problem.n_weights))
    assert (np.diff(report.history) <= 0).all()
    assert (np.diff(report.history) == 0).any()  # where a pass made it larger
    assert report.history[-1] == pytest.approx(objective.value(report.w) + penalty.value(report.w), rel=1e-9)


@pytest.mark.parametrize("cost", [1.0, 2.5])
def test_cost_is_a_matter_of_scale(cost):
    problem, _ = to_problem(CASES["chain"])
    # w / cost minimises for cost 1 what w minimises for cost and precision / cost, divided by cost
    one = FrankWolfe(tol=1e-6, random_state=0).solve(Hinge().bind(problem), L2(1.0), np.zeros(problem.n_weights))
    other = Hinge(cost).bind(problem)
    report = FrankWolfe(tol=1e-6, random_state=0).solve(other, L2(1.0 / cost), np.zeros(problem.n_weights))
    assert report.history[-1] / cost == pytest.approx(one.history[-1], rel=3e-4)


@pytest.mark.parametrize("kind", ["chain", "segments"])
def test_length_one_is_the_support_vector_machine_of_crammer_and_singer(kind):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(90, 4)), rng.integers(0, 3, 90), rng.choice([0.5, 1.0, 3.0], 90)
    X[:, 0] += y
    estimator = HighOrderCRF if kind == "chain" else HighOrderSemiCRF
    crf = estimator(
        0, objective="hinge", sigma_reg=0.7, fit_intercept=False, all_pairs=True, tol=1e-8, random_state=0
    ).fit(X, y, sample_weight=weight)
    peer = LinearSVC(multi_class="crammer_singer", C=0.7**2, fit_intercept=False, tol=1e-9, max_iter=100_000)
    peer.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(crf.coef_.toarray(), peer.coef_, atol=2e-3)


def test_steps_stop_where_they_are_told():
    problem, _ = to_problem(CASES["chain"])
    objective, w0 = Hinge().bind(problem), np.zeros(problem.n_weights)
    for max_iter in 0, 2:
        report = FrankWolfe(tol=0, max_iter=max_iter, random_state=0).solve(objective, L2(1.0), w0)
        assert not report.converged
        assert report.n_iter == max_iter
        assert "maximum number of iterations" in report.message
    assert FrankWolfe(max_iter=0).solve(objective, L2(1.0), w0).w.any() == 0
    with pytest.raises(ValueError, match="finite values of sigma_reg"):
        FrankWolfe().solve(objective, L2(np.where(np.arange(len(w0)), 1.0, 0.0)), w0)
    for cost in 0, -1.0, math.inf, math.nan:
        with pytest.raises(ValueError, match="cost must be a finite number > 0"):
            Hinge(cost)


def test_data_without_errors_need_no_steps():
    case = small_case("chain")._replace(sequences=[[]], labels=[()])
    problem, w = to_problem(case)
    report = FrankWolfe().solve(Hinge().bind(problem), L2(1.0), np.zeros(len(w)))
    assert report.converged
    assert (report.n_iter, report.gap, report.history[0]) == (0, 0.0, 0.0)


# --- perceptron -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["chain", "segments"])
def test_perceptron_returns_the_mean_of_all_steps(kind):
    case = small_case(kind, seed=1)
    problem, w0 = to_problem(case, WEIGHTS)
    objective = Perceptron().bind(problem)
    report = AveragedPerceptron(max_iter=3, random_state=4).solve(objective, None, w0)
    w, visited, history = w0.copy(), [], [objective.value(w0)]
    random, answers = np.random.RandomState(4), answers_of(case)
    for _ in range(report.n_iter):
        for number in random.permutation(len(answers)):
            (argmax,) = MaxOracle(problem.margins(0.0), WEIGHTS, w).argmax(np.array([number]))
            w[argmax.indices] += argmax.difference
            visited.append(w.copy())
        history.append(objective.value(np.mean(visited, axis=0)))
    np.testing.assert_allclose(report.w, np.mean(visited, axis=0), atol=1e-12)
    np.testing.assert_allclose(report.history, history, atol=1e-9)
    assert report.n_passes == 2 * report.n_iter + 1 + report.converged  # sequences without mistakes of the mean
    assert report.gap == math.inf


def separable(seed=0):
    """Return sentences whose tags a first-order model tells without errors."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in rng.integers(1, 9, 30):
        states = np.cumsum(rng.integers(0, 2, length)) % 3
        X.append([{f"is={state}": 1.0, f"noise={rng.integers(4)}": 1.0} for state in states])
        y.append([f"s{state}" for state in states])
    return X, y


@pytest.mark.parametrize("max_order", [0, 1, 2, 3])
@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_perceptron_separates_what_can_be_separated(estimator, max_order):
    X, y = separable()
    with warnings.catch_warnings(action="error", category=ConvergenceWarning):
        crf = estimator(max_order, objective="perceptron", random_state=0).fit(X, y)
    assert crf.score(X, y) == 1.0
    assert crf.optimality_gap_ == math.inf
    assert crf.n_iter_ < 30


def test_perceptron_says_that_it_made_mistakes():
    X, y = [[["a"]], [["a"]]], [["A"], ["B"]]
    with pytest.warns(
        ConvergenceWarning, match=r"in 4 iterations\. Increase max_iter.*the mean of the weights makes mistakes"
    ) as seen:
        HighOrderCRF(objective="perceptron", max_iter=4).fit(X, y)
    assert "sigma_reg" not in str(seen[0].message)


# --- estimators -------------------------------------------------------------------------------------------------------

X, Y = tagged_sentences(np.random.default_rng(0), 25)
SAMPLE_WEIGHT = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], len(X))
HIDDEN = (
    "predict_marginals",
    "predict_proba",
    "pattern_marginals",
    "log_likelihood",
    "sample",
    "entropy",
)
every_estimator = pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
every_objective = pytest.mark.parametrize("objective", ["hinge", "perceptron"])


def fit(estimator, *args, sample_weight=None, **parameters):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return estimator(*args, **{"random_state": 0, "max_iter": 60, **parameters}).fit(X, Y, sample_weight)


@pytest.mark.slow
@pytest.mark.parametrize("max_order", [0, 1, 2, 3])
@every_estimator
def test_hinge_of_every_order(estimator, max_order):
    parameters = {"feature_order": {"ending": 1}, "sigma_reg": by_order(1.0, 2.0)}
    crf = fit(estimator, max_order, objective="hinge", sample_weight=SAMPLE_WEIGHT, **parameters)
    assert 0 <= crf.optimality_gap_ <= 0.01 * crf.objective_history_[-1]
    assert crf.n_passes_ == 2 * crf.n_iter_ + 1
    assert len(crf.objective_history_) == crf.n_iter_ + 1
    likelihood = estimator(max_order, **parameters).fit(X, Y, SAMPLE_WEIGHT)
    assert crf.score(X, Y, SAMPLE_WEIGHT) > likelihood.score(X, Y, SAMPLE_WEIGHT) - 0.1
    assert crf.patterns_ == likelihood.patterns_
    assert (crf.coef_ != likelihood.coef_).nnz > 0


@pytest.mark.slow
@every_estimator
def test_weight_two_is_the_sequence_twice_and_zero_is_absence(estimator):
    weight = np.where(np.arange(len(X)) < 5, 2.0, np.arange(len(X)) % 2)
    chosen = np.repeat(np.arange(len(X)), weight.astype(int))
    crf = fit(estimator, objective="hinge", sample_weight=weight, tol=2e-6, max_iter=300)
    repeated = estimator(objective="hinge", random_state=0, tol=2e-6).fit(
        [X[i] for i in chosen], [Y[i] for i in chosen]
    )
    assert crf.patterns_ == repeated.patterns_
    assert crf.objective_history_[-1] == pytest.approx(repeated.objective_history_[-1], rel=3e-4)


@every_objective
@every_estimator
def test_one_seed_gives_the_same_bits_with_any_n_jobs(estimator, objective):
    first = fit(estimator, 2, objective=objective, max_iter=5)
    for n_jobs in 1, 2:
        again = fit(estimator, 2, objective=objective, max_iter=5, n_jobs=n_jobs)
        np.testing.assert_array_equal(again.coef_.data, first.coef_.data)
        np.testing.assert_array_equal(again.objective_history_, first.objective_history_)
    other = fit(estimator, 2, objective=objective, max_iter=5, random_state=np.random.RandomState(1))
    assert (other.coef_.data != first.coef_.data).any()


@every_objective
@every_estimator
def test_there_are_no_probabilities(estimator, objective):
    before = estimator(objective=objective)
    crf = fit(estimator, objective=objective)
    for model in before, clone(crf), crf, pickle.loads(pickle.dumps(crf)), fit(estimator, objective=Perceptron()):
        for name in HIDDEN:
            assert not hasattr(model, name)
            with pytest.raises(AttributeError, match=name) as caught:
                getattr(model, name)
            assert "objective='likelihood'" in str(caught.value.__cause__)
    crf.set_params(objective="likelihood")
    with pytest.raises(AttributeError) as caught:  # fitted as it is
        crf.predict_proba(X)
    assert f"objective='{objective}' trains" in str(caught.value.__cause__)
    crf.fit(X, Y)
    assert all(hasattr(crf, name) for name in HIDDEN)
    assert len(crf.predict_proba(X)) == len(X)


@every_objective
@every_estimator
def test_what_is_left_works(estimator, objective):
    crf = fit(estimator, objective=objective)
    again = pickle.loads(pickle.dumps(crf))
    assert again.predict(X) == crf.predict(X)
    assert crf.predict([[], X[0]])[0] == []
    assert crf.score(X, Y) > 0.6
    if estimator is HighOrderSemiCRF:
        assert crf.predict_segments(X[:1])[0][0][0] == 0
    search = GridSearchCV(
        make_pipeline(SequenceFeatureExtractor("attributes"), estimator(random_state=0, max_iter=20)),
        {f"{estimator.__name__.lower()}__objective": [objective, "likelihood"]},
        cv=2,
        error_score="raise",
    )
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        search.fit(*separable())
    assert search.best_score_ > 0.8


@pytest.mark.parametrize("scheme", ["bio", "bioes", "segments"])
def test_borders_of_segments_cost(scheme):
    text = ["thecat", "adog", "thedog", "acat"]
    words = [[(0, 3), (3, 6)], [(0, 1), (1, 4)], [(0, 3), (3, 6)], [(0, 1), (1, 4)]]
    tags = {"bio": ("B", "I", "I", "B"), "bioes": ("B", "I", "E", "S")}
    if scheme == "segments":
        y = [[(u, v, "word") for u, v in line] for line in words]
    else:
        first, inner, last, single = tags[scheme]
        y = [
            [
                single if v == u + 1 else first if t == u else last if t == v - 1 else inner
                for u, v in line
                for t in range(u, v)
            ]
            for line in words
        ]
    X = [[{"character": c, "next": d} for c, d in zip(line, line[1:] + ".", strict=True)] for line in text]
    for objective in "hinge", "perceptron":
        with warnings.catch_warnings(action="error", category=ConvergenceWarning):
            crf = HighOrderSemiCRF(scheme=scheme, objective=objective, random_state=0).fit(X, y)
        assert crf.score(X, y) == 1.0


def test_own_instances():
    crf = fit(HighOrderCRF, objective=Hinge(cost=2.0), solver=FrankWolfe(tol=1e-5, random_state=0), penalty=L2(2.0))
    assert crf.optimality_gap_ <= 1e-3 * crf.objective_history_[-1]
    assert not hasattr(crf, "predict_proba")
    fit(HighOrderCRF, objective=Hinge(), solver="perceptron")  # a perceptron with margin


@every_estimator
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "hinge", "solver": "lbfgs"}, "LBFGS needs value_gradient.*Hinge does not.*solver='bcfw'"),
        ({"objective": "hinge", "solver": "owlqn"}, "OWLQN needs value_gradient.*solver='bcfw'"),
        ({"objective": "hinge", "l1_reg": 0.1}, "FrankWolfe needs value_gradient of the penalty.*use only sigma_reg"),
        ({"objective": "hinge", "l1_reg": 0.1, "solver": "perceptron"}, "AveragedPerceptron uses no penalty"),
        ({"objective": "likelihood", "solver": "bcfw"}, "FrankWolfe needs oracle, cost.*solver='lbfgs'"),
        ({"objective": "likelihood", "solver": "perceptron"}, "AveragedPerceptron needs oracle.*solver='lbfgs'"),
        ({"objective": "perceptron", "solver": "lbfgs"}, "LBFGS needs value_gradient.*solver='perceptron'"),
        ({"objective": "perceptron", "solver": "bcfw"}, "FrankWolfe needs cost.*solver='perceptron'"),
        ({"objective": "perceptron", "l1_reg": 0.1}, "AveragedPerceptron uses no penalty, but l1_reg or penalty"),
        ({"objective": "perceptron", "penalty": L2(1.0)}, "AveragedPerceptron uses no penalty"),
        ({"objective": "hinge", "sigma_reg": by_order(1.0, math.inf)}, "use finite values of sigma_reg"),
    ],
)
def test_what_does_not_go_together_is_refused(estimator, parameters, message):
    crf = estimator(**parameters)
    with pytest.raises(ValueError, match=message):
        crf.fit(X, Y)
    assert not hasattr(crf, "coef_")


def test_needs_of_classes_and_instances():
    check_needs(FrankWolfe(), Hinge(), L2)
    check_needs(FrankWolfe(), Hinge(), L2(1.0))
    check_needs(AveragedPerceptron(), Perceptron(), L2)
    check_needs(AveragedPerceptron(), Hinge(), L2)
    for solver, objective, penalty in (
        (FrankWolfe(), Perceptron(), L2),
        (FrankWolfe(), Hinge(), ElasticNet),
        (AveragedPerceptron(), Perceptron(), ElasticNet),
        (LBFGS(), Hinge(), L2),
    ):
        with pytest.raises(ValueError, match=type(solver).__name__):
            check_needs(solver, objective, penalty)


def test_warm_start_of_the_perceptron():
    data = separable()
    crf = HighOrderCRF(objective="perceptron", warm_start=True, random_state=0).fit(*data)
    n_iter = crf.n_iter_
    assert crf.fit(*data).n_iter_ < n_iter


@pytest.mark.usefixtures("all_lines")
def test_progress_says_what_is_known(capsys):
    fit(HighOrderCRF, objective="hinge", verbose=1, max_iter=2)
    fit(HighOrderCRF, objective="perceptron", verbose=1, max_iter=2)
    lines = capsys.readouterr().err.splitlines()
    assert "above the optimum" in lines[0]
    assert "2 iterations, objective" in lines[2]
    assert "iteration 1, objective" in lines[3]
    assert not any("nan" in line or "inf" in line for line in lines)

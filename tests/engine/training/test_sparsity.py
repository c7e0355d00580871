"""L1 penalties: optimality, the same optimum as CRFsuite, and the removal of zero weights from fitted models."""

import itertools
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from cases import by_order
from internals import LBFGSMemory, Penalty, Point, RowBlock, WeightLayout, reached_tolerance

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

LABELS = ["verb", "noun", "other", "stop"]


def tagged_sentences(rng, n_sequences):
    """Return sequences of attribute names, and labels of a random chain; some attributes are rare, some tokens bare."""
    step = rng.dirichlet(np.full(len(LABELS), 0.5), size=len(LABELS))
    X, y = [], []
    for _ in range(n_sequences):
        state, rows, labels = rng.integers(len(LABELS)), [], []
        for _ in range(rng.integers(1, 15)):
            state = rng.choice(len(LABELS), p=step[state])
            word = rng.zipf(1.6) % 40 if rng.random() < 0.5 else 40 + 10 * state + rng.integers(10)
            names = [f"word={word}", f"ending={word % 7}", "capital"]
            rows.append([name for name in names if rng.random() < 0.7])
            labels.append(LABELS[state])
        X.append(rows)
        y.append(labels)
    return X, y


RNG = np.random.default_rng(0)
X, Y = tagged_sentences(RNG, 30)
UNSEEN, UNSEEN_Y = tagged_sentences(RNG, 10)
FEW_X, FEW_Y = X[:8], Y[:8]
ESTIMATORS = [HighOrderCRF, HighOrderSemiCRF]
both_estimators = pytest.mark.parametrize("estimator", ESTIMATORS)


def every_weight(estimator, x=X, y=Y, **parameters):
    """Return a fit that keeps weights of 0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WeightLayout, "without_zeros", lambda layout, weights: (layout, weights))
        return estimator(**parameters).fit(x, y)


def assert_same_answers(one, other, x, y):
    """Compare decoded labels, marginals and log-likelihoods of two fits."""
    assert one.predict(x) == other.predict(x)
    for ours, theirs in zip(one.predict_marginals(x), other.predict_marginals(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    pairs = list(itertools.product(one._state.targets.labels.tolist(), repeat=2))
    for ours, theirs in zip(one.pattern_marginals(x, pairs), other.pattern_marginals(x, pairs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.log_likelihood(x, y), other.log_likelihood(x, y), rtol=1e-12, atol=1e-12)
    assert one.score(x, y) == other.score(x, y)


def nonzero_weights(crf):
    """Return the weights that are not 0 by pattern, and by pattern and feature."""
    coef = crf.coef_.tocoo()
    names = crf.feature_names_in_
    return (
        {z: w for z, w in zip(crf.patterns_, crf.pattern_coef_, strict=True) if w},
        {(crf.patterns_[i], names[j]): w for i, j, w in zip(coef.row, coef.col, coef.data, strict=True) if w},
    )


def small_problem(seed):
    """Return sequences with dense features of which some are 0, and their labels."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, size=int(rng.integers(4, 20)))
    x = [rng.normal(size=(n, 8)) * (rng.random((1, 8)) < 0.6) for n in lengths]
    return x, [(rows[:, :3] + rng.gumbel(size=(len(rows), 3))).argmax(1).tolist() for rows in x]


# --- the optimum ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [np.inf, 1000.0, 1.0])
def test_training_ends_near_the_optimum_without_a_gaussian_penalty(sigma):
    """By the norm of the gradient alone, it would end 0.4 % to 2 % above the optimum."""
    for seed in range(9, 11):
        x, y = small_problem(seed)
        crf = HighOrderCRF(sigma_reg=sigma, l1_reg=0.05, all_pairs=True, patterns="all")
        found = crf.fit(x, y).objective_history_[-1]
        best = crf.set_params(warm_start=True, tol=1e-6, max_iter=20_000).fit(x, y).objective_history_[-1]
        assert found <= best * (1 + 1e-4), seed


def test_the_shortest_subgradient_ends_training_of_convex_objectives_only():
    convex, other = SimpleNamespace(is_convex=True), SimpleNamespace(is_convex=False)
    w, gradient = np.array([3.0, -4.0]), np.array([0.06, 0.08])
    lasso, both = Penalty(0.0, 1.0), Penalty(1.0, 1.0)
    assert reached_tolerance(convex, lasso, w, 10.0, gradient) == pytest.approx(2 * 0.1 * 5 / 10)
    assert reached_tolerance(other, lasso, w, 10.0, gradient) == pytest.approx(0.1 / 5)
    assert reached_tolerance(convex, Penalty(0.0), w, 10.0, gradient) == pytest.approx(0.1 / 5)
    for objective in convex, other:  # the bound of the Gaussian penalty is the smaller one here
        assert reached_tolerance(objective, both, w, 10.0, gradient) == pytest.approx((0.005 / 10) ** 0.5)
    assert reached_tolerance(convex, Penalty(1e-9, 1.0), w, 10.0, gradient) == pytest.approx(0.1)
    assert reached_tolerance(other, Penalty(1e-9, 1.0), w, 10.0, gradient) > 100
    for penalty in lasso, both:
        assert reached_tolerance(convex, penalty, w, 0.0, gradient) == np.inf
        assert reached_tolerance(convex, penalty, w, 0.0, 0 * gradient) == 0


def interleaved(n_sequences, length, error=0.1, seed=0):
    """Return sequences without features, where each label is that before the last one but for errors."""
    rng = np.random.default_rng(seed)
    labels = [rng.integers(0, 2, 2).tolist() for _ in range(n_sequences)]
    for y in labels:
        while len(y) < length:
            y.append(y[-2] if rng.random() > error else 1 - y[-2])
    return [[[]] * length for _ in labels], labels


def test_weights_that_are_0_do_not_slow_down_the_others():
    # pairs and triples of labels nearly say the same; with the inverse for all weights it takes 2,451 passes
    crf = HighOrderCRF(2, l1_reg=by_order(0, 2.0), tol=1e-4, max_iter=5000).fit(*interleaved(40, 20))
    assert crf.n_passes_ < 100
    assert crf.objective_history_[-1] == pytest.approx(285.51619735609, rel=1e-9)


@pytest.mark.parametrize("n_pairs", [5, 50])
@pytest.mark.parametrize(("order", "l1_reg"), [(2, by_order(0, 2.0)), (2, 0.5), (3, by_order(0, 0.5))])
def test_a_small_memory_does_not_slow_down_training(n_pairs, order, l1_reg, monkeypatch):
    """With the inverse of all weights as soon as the pairs exceed the memory it took up to 778 passes."""
    X, y = interleaved(40, 20)
    n_weights = HighOrderCRF(order, max_iter=1).fit(X, y)._state.layout.n_weights
    monkeypatch.setattr(LBFGSMemory, "pair_bytes", 16 * n_weights * n_pairs)
    crf = HighOrderCRF(order, l1_reg=l1_reg, max_iter=5000).fit(X, y)
    assert crf.n_passes_ < 400


def updated(diagonal, pairs):
    """Return a diagonal matrix after the updates of Broyden, Fletcher, Goldfarb and Shanno."""
    matrix = np.diag(diagonal)
    for step, change in pairs:
        moved = matrix @ step
        matrix = matrix + np.outer(change, change) / (step @ change) - np.outer(moved, moved) / (step @ moved)
    return matrix


@pytest.mark.parametrize("chosen", [np.array([0, 2, 3, 5]), np.arange(6)])
@pytest.mark.parametrize("expected", [np.zeros(6), np.array([1e3, 1.0, -5.0, 0.1, 2.0, 0.0])])
@pytest.mark.parametrize("n_pairs", [1, 3])
def test_curvature_of_some_weights_is_a_part_of_the_whole(n_pairs, expected, chosen):
    rng = np.random.default_rng(0)
    hessian = rng.normal(size=(6, 6))
    hessian = hessian @ hessian.T + np.eye(6)
    memory = LBFGSMemory(n_pairs, 6)
    memory.expect_from(expected)
    points, pairs = [Point(w, 0.0, hessian @ w, hessian @ w) for w in rng.normal(size=(7, 6))], []
    scale = np.ones(6) if memory._scale is None else memory._scale.astype(float)
    fixed = chosen == 2
    for start, end in itertools.pairwise(points):
        memory.add(start, end)
        step, change = end.w - start.w, end.gradient - start.gradient
        pairs.append((step, change))
        bottom = scale[chosen] @ change[chosen] ** 2 / (step @ change)  # that of the weights that may move
        whole = updated(bottom / scale, pairs[-n_pairs:])
        part, vector = whole[np.ix_(chosen, chosen)], rng.normal(size=len(chosen))
        some = memory.restricted(chosen, 100)
        np.testing.assert_allclose(some.times(vector), part @ vector, rtol=1e-5, atol=1e-8)
        result = some.solve(np.where(fixed, 0.0, vector), fixed)
        np.testing.assert_allclose(part[~fixed] @ result, vector[~fixed], rtol=1e-5, atol=1e-8)
        assert (result[fixed] == 0.0).all()
        if len(chosen) == 6:
            inverse = [memory.solve(unit) for unit in np.eye(6)]
            np.testing.assert_allclose(np.linalg.inv(inverse), whole, rtol=1e-5, atol=1e-8)
    memory.clear()
    for start, end in itertools.pairwise(points[3:]):
        memory.add(start, end)
    np.testing.assert_allclose(memory.restricted(chosen, 100).times(vector), part @ vector, rtol=1e-5, atol=1e-8)


# --- what is 0 is gone ------------------------------------------------------------------------------------------------

SETTINGS = {
    "order 3": {"max_order": 3, "l1_reg": 0.5},
    "conjoined": {"max_order": 2, "l1_reg": by_order(0.3, 0.2), "feature_order": 1},
    "only long patterns are dropped": {"max_order": 3, "l1_reg": by_order(0.0, 0.0, 1.0)},
    "patterns without weights of their own": {
        "max_order": 1,
        "l1_reg": by_order(0.1, 0.4),
        "feature_order": {"capital": (1,)},
    },
    "all pairs": {"max_order": 1, "l1_reg": 0.3, "feature_order": 1, "all_pairs": True},
    "no intercept": {"max_order": 2, "l1_reg": 0.5, "fit_intercept": False},
    "nothing is left": {"max_order": 2, "l1_reg": 1e6, "feature_order": 1},
}
KEEP_PATTERNS = {"all pairs"}


@both_estimators
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_smaller_model_gives_the_same_answers(estimator, setting):
    crf = estimator(**SETTINGS[setting]).fit(FEW_X, FEW_Y)
    full = every_weight(estimator, FEW_X, FEW_Y, **SETTINGS[setting])
    assert_same_answers(crf, full, [*FEW_X, *UNSEEN], [*FEW_Y, *UNSEEN_Y])
    np.testing.assert_array_equal(crf.objective_history_, full.objective_history_)
    assert nonzero_weights(crf) == nonzero_weights(full)
    assert set(crf.patterns_) <= set(full.patterns_)
    assert (len(crf.patterns_) < len(full.patterns_)) == (setting not in KEEP_PATTERNS)
    assert len(crf._state.weights) == crf._state.layout.n_weights < full._state.layout.n_weights
    assert crf._state.weights.all()
    assert len(crf.automaton_.pattern_arc) == len(crf.patterns_)
    assert crf.automaton_.n_arcs <= full.automaton_.n_arcs
    assert len(pickle.dumps(crf)) < len(pickle.dumps(full))


@both_estimators
def test_single_labels_stay_and_other_patterns_have_weights(estimator):
    crf = estimator(max_order=3, l1_reg=1.0, feature_order=1).fit(X, Y)
    labels = sorted({label for y in Y for label in y})
    assert crf.patterns_[: len(labels)] == [(label,) for label in labels]
    used = (crf.pattern_coef_ != 0) | (np.diff(crf.coef_.indptr) > 0)
    assert used[len(labels) :].all()
    assert crf.coef_.data.all()
    assert crf.coef_.shape == (len(crf.patterns_), crf.n_features_in_)
    assert crf.n_features_in_ == len(crf.feature_names_in_) == estimator().fit(X, Y).n_features_in_


def test_features_of_candidates_without_weights_are_not_computed(monkeypatch):
    words = [["Ann", "Lee", "met", "Bob"], ["met", "Ann"]]
    y = [["x", "x", "y", "x"], ["y", "x"]]
    features = SegmentFeatureExtractor(begin=True, identity=True)
    batch = features.fit_transform(SequenceFeatureExtractor().fit_transform(words), y)
    few, none = (HighOrderSemiCRF(l1_reg=strength).fit(batch, y) for strength in (0.01, 1e6))
    assert any(name.startswith("identity=") for _, name in nonzero_weights(few)[1])
    monkeypatch.delattr(RowBlock, "entries")
    with pytest.raises(AttributeError):
        few.predict(batch)
    assert len(none.predict(batch)) == 2

"""The search for penalties: value and gradient against plain cross-validation, and the interface of a search."""

import pickle
import warnings
from collections import Counter

import numpy as np
import pytest
from cases import by_order
from internals import (
    FitSteps,
    Fold,
    FoldStep,
    Step,
    WeightGroups,
    _order_search,
    _penalty_search,
    _refuse_infinite,
    best_index,
    has_risen_enough,
    make_fold,
    settle,
    split_data,
    training_data,
    used_parts,
)
from refusals import refusals
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.datasets import make_digit_words
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.training import SGD

EXACT = 1e-10


def sequences(seed=0, n=18, labels="abc"):
    """Return words and labels that depend on the word and on the two labels before; every label in every sequence."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(4, 9))
        codes = list(rng.permutation(len(labels)))
        while len(codes) < length:
            codes.append(int(codes[-2] if rng.random() < 0.7 else rng.integers(len(labels))))
        X.append([{"w": f"w{c if rng.random() < 0.6 else rng.integers(9)}", "x": f"x{rng.integers(3)}"} for c in codes])
        y.append([labels[c] for c in codes])
    return X, y


X, Y = sequences()
CHAIN = HighOrderCRF(2, tol=EXACT, max_iter=5000)
SEGMENTS = HighOrderSemiCRF(1, segment_length=5, tol=EXACT, max_iter=5000)
MODELS = {
    "chain": CHAIN,
    "features of order 1": clone(CHAIN).set_params(feature_order=1),
    "all_pairs": clone(CHAIN).set_params(all_pairs=True, fit_intercept=False),
    "segments": SEGMENTS,
    "repeated segments": clone(SEGMENTS).set_params(segment_length=1, max_order=2),
}
RARE = "all_pairs", "repeated segments"


def folds_of(estimator, splits, keys="order", weight=None, X=X, y=Y):
    whole = training_data(estimator, X, y, weight)
    final = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    groups = WeightGroups.for_layout(FitSteps(final).layout(whole), whole, keys, final.max_order)
    assert groups.has_weights.any()
    groups = WeightGroups(
        [key for key, used in zip(*groups, strict=True) if used], groups.has_weights[groups.has_weights]
    )
    parts = [split_data(estimator, X, y, weight, *split) for split in used_parts(whole, splits)]
    return groups, [make_fold(final, part, whole.targets, groups) for part in parts]


def take(sequence, chosen):
    return [sequence[i] for i in chosen]


def cross_validated(estimator, groups, log_sigma, splits, weight=None, X=X, y=Y):
    """Return the score of each fold by fits of the estimator, as a user would compute it."""
    sigma = dict(zip(groups.keys, np.exp(log_sigma).tolist(), strict=True))
    last = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
    scores = []
    for train, test in splits:
        model = clone(estimator).set_params(**{f"{last}sigma_reg": sigma})
        options = {} if weight is None else {f"{last}sample_weight": weight[train]}
        model.fit(take(X, train), take(y, train), **options)
        inputs, final = take(X, test), model
        if last:
            inputs, final = model[:-1].transform(inputs), model[-1]
        log_likelihood, lengths = final.log_likelihood(inputs, take(y, test)), np.array([len(X[i]) for i in test])
        of_sequence = np.ones(len(test)) if weight is None else weight[test]
        scores.append(of_sequence @ log_likelihood / (of_sequence @ lengths))
    return np.array(scores)


# --- value and gradient -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_score_is_that_of_cross_validation(name):
    estimator, splits = MODELS[name], list(KFold(2).split(X))
    groups, folds = folds_of(estimator, splits)
    rng = np.random.default_rng(1)
    before, log_sigma = rng.normal(0.3, 0.7, (2, len(groups.keys)))
    folds[0].step(before, 0.1)  # the next step starts from its weights, and that of the other fold from 0
    scores = [fold.step(log_sigma, EXACT).score for fold in folds]
    np.testing.assert_allclose(scores, cross_validated(estimator, groups, log_sigma, splits), rtol=0, atol=1e-6)


def test_folds_end_near_the_optimum():
    splits = list(KFold(3).split(X))
    groups, (fold, *_) = folds_of(CHAIN, splits)
    logs = np.zeros(len(groups.keys))
    loose, exact = (fold.step(logs, tol).score for tol in (1.0, EXACT))
    assert loose == pytest.approx(exact, rel=5e-3)  # where that tolerance is too loose, training goes on
    crf = clone(CHAIN).fit(take(X, splits[0][0]), take(Y, splits[0][0]))
    assert np.linalg.norm(fold.weights) == pytest.approx(np.linalg.norm(crf._state.weights), rel=1e-6)


def test_score_of_a_pipeline_whose_extractors_see_training_parts_alone():
    words = [[token["w"] for token in sequence] for sequence in X]
    estimator = make_pipeline(SequenceFeatureExtractor(min_count=2), clone(CHAIN).set_params(max_order=1))
    splits = list(KFold(3).split(words))
    groups, folds = folds_of(estimator, splits, X=words)
    log_sigma = np.array([0.2, -0.3, 0.4])
    assert len(groups.keys) == 3
    scores = [fold.step(log_sigma, EXACT).score for fold in folds]
    expected = cross_validated(estimator, groups, log_sigma, splits, X=words)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in RARE)) for name in MODELS])
def test_gradient_is_that_of_the_score(name):
    groups, folds = folds_of(MODELS[name], list(KFold(3).split(X))[:1])
    rng = np.random.default_rng(3)
    log_sigma = rng.normal(0.2, 0.5, len(groups.keys))
    directions = rng.normal(size=(2, len(log_sigma)))
    gradient, differences = exact_gradient(folds[0], log_sigma), slopes(folds[0], log_sigma, directions)
    assert np.linalg.norm(directions @ gradient - differences) <= 1e-4 * np.linalg.norm(differences)


@pytest.mark.parametrize("name", ["chain", "features of order 1", "segments"])
def test_gradient_with_l1_is_that_of_the_score(name):
    """At points where no weight becomes 0, or moves away from it."""
    groups, (fold,) = folds_of(MODELS[name], list(KFold(3).split(X))[:1])
    n_groups, rng = len(groups.keys), np.random.default_rng(3)
    logs = np.concatenate([rng.normal(1.0, 0.5, n_groups), rng.normal(-1.5, 0.3, n_groups)])
    directions = np.zeros((2, 2 * n_groups))  # one of each kind of penalty
    directions[0, :n_groups], directions[1, n_groups:] = rng.normal(size=(2, n_groups))
    gradient, support = exact_gradient(fold, logs), fold.weights != 0
    assert 0.1 < support.mean() < 0.9
    differences = slopes(fold, logs, directions, 1e-5)
    np.testing.assert_array_equal(fold.weights != 0, support)
    assert np.linalg.norm(directions @ gradient - differences) <= 1e-5 * np.linalg.norm(differences)
    assert abs(differences[1]) > 1e-3


@pytest.mark.parametrize("name", ["chain", pytest.param("repeated segments", marks=pytest.mark.slow)])
def test_scores_with_a_given_l1(name):
    """By other groups than those of sigma; in the penalty of a tie, each of its weights counts."""
    doubled = [[{**token, "again": token["w"]} for token in sequence] for sequence in X]
    estimator, splits = clone(MODELS[name]).set_params(l1_reg={"w": 0.3, None: 0.1}), list(KFold(2).split(X))
    groups, folds = folds_of(estimator, splits, X=doubled)
    log_sigma = np.linspace(0.0, 1.0, len(groups.keys))
    scores, weights = [fold.step(log_sigma, EXACT).score for fold in folds], folds[0].weights
    expected = cross_validated(estimator, groups, log_sigma, splits, X=doubled)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
    assert 0.1 < (weights != 0).mean() < 0.9
    learned = folds[0].step(np.concatenate([log_sigma, np.full(len(log_sigma), np.log(0.2))]), EXACT).score
    expected = cross_validated(clone(estimator).set_params(l1_reg=0.2), groups, log_sigma, splits[:1], X=doubled)
    assert learned == pytest.approx(expected[0], abs=1e-6)


KEYS = "order", [None], ["a", ("é", 0), ("patterns", 1), None], [("features", 0), "a", None]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_drawn_data(seed):
    """Small models and data: value and gradient are those of converged fits, whatever the data lack or repeat."""
    rng = np.random.default_rng(seed)
    by_segments, weighted, keys = seed % 2, seed // 2 % 2, KEYS[seed // 2 % len(KEYS)]
    estimator, (inputs, labels) = drawn_model(rng, by_segments), drawn_sequences(rng, by_segments)
    numbers = np.arange(len(labels))
    weight = np.where(numbers < 2, 1.0, rng.integers(0, 3, len(labels))) if weighted else None
    splits = [(numbers[numbers % 2 != part], numbers[numbers % 2 == part]) for part in range(2)]
    groups, folds = folds_of(estimator, splits, keys, weight, inputs, labels)
    log_sigma = rng.normal(0.2, 0.6, len(groups.keys))
    expected = cross_validated(estimator, groups, log_sigma, splits, weight, inputs, labels)
    np.testing.assert_allclose([fold.step(log_sigma, EXACT).score for fold in folds], expected, rtol=0, atol=1e-6)
    gradient = np.mean([exact_gradient(fold, log_sigma) for fold in folds], axis=0)
    differences = np.mean([slopes(fold, log_sigma, np.eye(len(log_sigma))) for fold in folds], axis=0)
    assert np.linalg.norm(differences) > 1e-3
    assert np.linalg.norm(gradient - differences) <= 1e-4 * np.linalg.norm(differences)


def drawn_model(rng, by_segments):
    parameters = {
        "max_order": int(rng.integers(3)),
        "feature_order": int(rng.integers(2)),
        "all_pairs": bool(rng.integers(2)),
        "min_count": int(rng.integers(1, 3)),
    }
    if by_segments:  # neighbours may have equal labels
        return clone(SEGMENTS).set_params(scheme="segments", segment_length=3, **parameters)
    return clone(CHAIN).set_params(**parameters)


def drawn_sequences(rng, by_segments):
    """Return sequences of 1 to 6 tokens, some without features; the first two have all labels, others repeat some."""
    names, X, y = ["a", "a long name", "b", "é", "é="], [], []
    for number in range(int(rng.integers(6, 11))):
        codes = list(range(3)) if number < 2 else rng.integers(3, size=rng.integers(1, 7)).tolist()
        lengths = rng.integers(1, 4, len(codes)).tolist() if by_segments and number < 4 else [1] * len(codes)
        stops = np.cumsum(lengths).tolist()
        kept = [names if number < 2 and t == 0 else rng.choice(names, rng.integers(4)) for t in range(stops[-1])]
        X.append([dict(zip(map(str, some), rng.normal(size=len(some)).tolist(), strict=True)) for some in kept])
        segments = [(stop - length, stop, "ab文"[c]) for stop, length, c in zip(stops, lengths, codes, strict=True)]
        y.append(segments if by_segments else [label for _, _, label in segments])
    return X, y


def slopes(fold, log_sigma, directions, step=1e-4):
    """Return central differences of the score of converged training."""
    ends = ([fold.step(log_sigma + sign * by, EXACT).score for sign in (1, -1)] for by in step * directions)
    return np.array([(up - down) / (2 * step) for up, down in ends])


def exact_gradient(fold, log_sigma):
    """Return the gradient where both training and the linear system are brought to an end."""
    for _ in range(5):  # the system goes on from its last solution
        gradient = fold.step(log_sigma, EXACT, residual=1e-8).gradient
    return gradient


def test_the_best_step_is_trained_until_its_score_is_known(monkeypatch):
    monkeypatch.setattr(_order_search, "SMOOTH", _order_search.SMOOTH._replace(precise=1e3))  # too loose by itself
    splits = list(KFold(3).split(X))
    search = PenaltySearchCV(HighOrderCRF(1), cv=splits, max_steps=2, tol=1e-10, refit=False).fit(X, Y)
    sigma = search.best_params_["sigma_reg"]
    groups, logs = WeightGroups(list(sigma), np.ones(len(sigma), bool)), np.log(list(sigma.values()))
    truth = cross_validated(clone(CHAIN).set_params(max_order=1), groups, logs, splits).mean()
    assert search.best_score_ == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize(
    ("scores", "precise", "asked", "best"),
    [
        ([-3.0, -1.0, -2.0], [-3.1, -1.5, -2.1], [1], 1),
        ([-3.0, -1.0, -2.0], [-3.1, -2.5, -2.1], [1, 2], 2),
        ([-3.0, -1.0, -1.0], [-2.0, -4.0, -5.0], [1, 2, 0], 0),
        ([-3.0], [-9.0], [0], 0),
    ],
)
def test_steps_are_evaluated_until_the_best_one_is_known(scores, precise, asked, best):
    def step(score, n_passes):
        return Step(1, {}, [FoldStep(score, np.zeros(0), 0.5, n_passes, 0.25, True)])

    steps, seen = [step(score, 10) for score in scores], []

    def evaluate_precisely(one):
        seen.append(next(number for number, other in enumerate(steps) if other is one))
        return step(precise[seen[-1]], 3)

    settle(steps, evaluate_precisely)
    assert (seen, best_index(steps)) == (asked, best)
    assert [one.folds[0].n_passes for one in steps] == [10 + 3 * (n in asked) for n in range(len(steps))]
    assert steps[best].score == precise[best]


def test_the_fold_whose_score_is_not_finite_is_named():
    good, bad = (FoldStep(score, np.zeros(1), 0.5, 1, 0.25, True) for score in (-1.0, -np.inf))
    for number, answers in enumerate(([bad, good], [good, bad])):
        with pytest.raises(ValueError, match=f"split {number} at sigma_reg"):
            _refuse_infinite(answers, Step(1, {}, answers))


def test_lower_orders_win_within_a_standard_error():
    def step(order, *scores):
        return Step(order, {}, [FoldStep(score, np.zeros(0), 0.5, 1, 0.25, True) for score in scores])

    low, sure, chance = step(1, -1.0, -2.0, -3.0), step(2, -0.9, -1.8, -2.9), step(3, -0.5, -1.6, -3.3)
    assert best_index([low, sure]) == 1  # in every fold
    assert best_index([low, step(2, -0.4, -1.9, -3.5)]) == 0
    assert best_index([step(1, -9.0, -9.0, -9.0), low, sure, chance]) == 1  # the best step of the order
    assert best_index([step(1, -1.0), step(2, -0.9)]) == 1  # a single fold has no error


def test_folds_of_an_order_start_from_the_weights_of_the_one_before():
    whole = training_data(CHAIN, X, Y, None)
    part = split_data(CHAIN, X, Y, None, np.arange(12), np.arange(12, 18))
    folds, logs = [None], np.zeros(8)
    for order in 1, 2, 2:
        final = clone(CHAIN).set_params(max_order=order)
        groups = WeightGroups.for_layout(FitSteps(final).layout(whole), whole, "order", order)
        folds.append(make_fold(final, part, whole.targets, groups, folds[-1]))
        loss = [fold and fold._held_out.value(fold.weights) for fold in folds[-2:]]
        assert loss[0] is None or loss[1] == pytest.approx(loss[0], rel=1e-12)
        folds[-1].step(logs[: len(groups.keys)], 1e-3)
    assert folds[1].origin.data is folds[2].origin.data
    np.testing.assert_allclose(folds[2].weights, folds[3].weights, atol=0.1)


def test_folds_have_the_patterns_of_their_training_parts():
    labels = [["a", "b"], ["a", "b"], ["b", "a"], ["a", "b"]]
    inputs = [[["u"], ["v"]]] * 4
    splits = [([0, 1, 3], [2]), ([0, 1, 2], [3])]
    groups, folds = folds_of(HighOrderCRF(), splits, X=inputs, y=labels)
    log_sigma = np.zeros(len(groups.keys))
    expected = cross_validated(clone(CHAIN).set_params(max_order=1), groups, log_sigma, splits, X=inputs, y=labels)
    np.testing.assert_allclose([fold.step(log_sigma, EXACT).score for fold in folds], expected, atol=1e-8)


def test_labels_and_lengths_of_held_out_parts_are_known():
    """A label, and a long segment, that only one fold has: its held-out likelihood is finite."""
    inputs, labels = sequences(5, 6)
    inputs.append([{"w": "w1"}] * 7)
    labels.append(["d"] * 7)
    splits = [(np.arange(6), np.array([6])), (np.arange(1, 7), np.array([0]))]
    for model in HighOrderCRF(), HighOrderSemiCRF():
        search = PenaltySearchCV(model, cv=splits, max_steps=3).fit(inputs, labels)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


# --- the search -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def search():
    return PenaltySearchCV(HighOrderCRF(2), cv=KFold(3, shuffle=True, random_state=0)).fit(X, Y)


def test_results(search):
    results, n_steps = search.cv_results_, len(search.cv_results_["params"])
    assert all(len(column) == n_steps for column in results.values())
    splits = np.array([results[f"split{i}_test_score"] for i in range(3)])
    np.testing.assert_allclose(results["mean_test_score"], splits.mean(axis=0))
    np.testing.assert_allclose(results["std_test_score"], splits.std(axis=0))
    assert search.best_index_ == results["mean_test_score"].argmax()
    assert results["rank_test_score"][search.best_index_] == 1
    assert search.best_score_ == results["mean_test_score"][search.best_index_] > results["mean_test_score"][0]
    assert search.best_params_ == results["params"][search.best_index_]
    assert list(search.best_params_["sigma_reg"]) == [("features", 0), *(("patterns", k) for k in range(3))]
    assert search.best_params_["sigma_reg"][("patterns", 2)] == results["sigma_patterns_2"][search.best_index_]
    assert search.best_estimator_.sigma_reg == search.best_params_["sigma_reg"]
    assert (results["n_passes"] > 0).all()
    assert (results["seconds"] > 0).all()
    assert ((results["token_accuracy"] > 0) & (results["token_accuracy"] <= 1)).all()
    assert search.n_splits_ == 3


@pytest.fixture(scope="module")
def noisy():
    """Return sequences with attributes that say nothing, a search for their l1, and the steps of each fold."""
    rng, (X, y), n_noise = np.random.default_rng(0), sequences(1, 16), 25
    noise = [[{f"n{n}": 1.0 for n in rng.integers(0, 10 * n_noise, n_noise)} for _ in sequence] for sequence in X]
    X = [[token | more for token, more in zip(*pair, strict=True)] for pair in zip(X, noise, strict=True)]
    begun, step = {}, Fold.step

    def noting(fold, *args, **options):
        before = fold.state[0]
        answer = step(fold, *args, **options)
        begun.setdefault(id(fold), []).append((before, answer.score, fold.state[0]))
        return answer

    search = PenaltySearchCV(HighOrderCRF(1), cv=2, penalty_groups=[("features", 0), None], learn_l1=True, refit=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fold, "step", noting)
        search.fit(X, y)
    return X, y, search, list(begun.values())


def test_l1_is_learned_where_most_attributes_say_nothing(noisy):
    X, y, search, _ = noisy
    plain = clone(search).set_params(learn_l1=False).fit(X, y)
    assert search.best_score_ > plain.best_score_ + 0.03
    l1 = search.best_params_["l1_reg"]
    assert list(l1) == [("features", 0), None]
    assert 0.1 < l1[("features", 0)] < 10
    results, n_groups = search.cv_results_, 2
    assert (results["l1_rest"] == 0).any()
    assert (results["l1_features_0"] == 0).any()
    assert results["param_l1_reg"][search.best_index_] == l1
    column = np.column_stack([results["gradient_l1_features_0"], results["gradient_l1_rest"]])
    assert column.shape[1] == n_groups
    assert np.abs(column).max() > 1e-3
    groups = WeightGroups(list(l1), np.ones(2, bool))
    exact = clone(CHAIN).set_params(max_order=1, l1_reg=l1)
    log_sigma = np.log(list(search.best_params_["sigma_reg"].values()))
    truth = cross_validated(exact, groups, log_sigma, list(KFold(2).split(X)), X=X, y=y).mean()
    assert search.best_score_ == pytest.approx(truth, rel=search.tol)
    restored = pickle.loads(pickle.dumps(search))
    assert restored.best_params_ == search.best_params_
    np.testing.assert_array_equal(restored.cv_results_["l1_rest"], results["l1_rest"])


def test_steps_start_from_the_weights_of_the_best_one(noisy):
    _, _, search, begun = noisy
    means, n_steps = np.mean([[score for _, score, _ in of] for of in begun], axis=0), len(search.cv_results_["params"])
    assert means[: n_steps - 1].argmax() < n_steps - 2  # some steps were in vain
    path_ends = 2 + int(np.argmax(np.diff(means[1:]) < 0))  # of l1, which starts from weights of 0
    assert 2 < path_ends < n_steps
    for of in begun:
        for n in range(n_steps):
            best = n - 1 if n <= path_ends else means[:n].argmax()
            np.testing.assert_array_equal(of[n][0], of[best][2] if n > 1 else 0.0)


def test_orders_with_l1_start_from_that_of_the_order_before():
    search = PenaltySearchCV(HighOrderCRF(), cv=3, orders=[0, 1], learn_l1=True, max_steps=9, refit=False).fit(X, Y)
    results, first = search.cv_results_, int((search.cv_results_["max_order"] == 0).sum())
    best, second = int(results["mean_test_score"][:first].argmax()), first + 1
    for group in "features_0", "patterns_0":
        assert results[f"l1_{group}"][[0, first]].tolist() == [0.0, 0.0]
        assert results[f"l1_{group}"][second] == pytest.approx(results[f"l1_{group}"][best])
    assert results["l1_patterns_1"][second] == pytest.approx(results["l1_patterns_0"][best])
    assert np.isnan(results["l1_patterns_1"][:first]).all()
    assert (np.bincount(results["max_order"]) <= 9).all()


def test_an_order_looks_for_a_useful_l1_if_the_order_before_found_none(monkeypatch):
    searched, search_for_l1 = [], _order_search.OrderSearch._learn_l1

    def spy(order_search):
        searched.append(order_search.steps[0].order)
        search_for_l1(order_search)

    monkeypatch.setattr(_order_search, "PATH", ())  # as if there were no time for one
    monkeypatch.setattr(_order_search.OrderSearch, "_learn_l1", spy)
    words = make_digit_words(30, random_state=0)
    options = {"cv": 2, "max_steps": 2, "learn_l1": True, "refit": False}
    PenaltySearchCV(HighOrderCRF(1), orders="auto", **options).fit(*words)
    assert searched[:2] == [1, 2]


def test_automatic_orders_may_begin_at_another_order(monkeypatch):
    monkeypatch.setattr(_penalty_search, "AUTO_ORDERS", range(2, 4))
    words = make_digit_words(30, random_state=0)
    search = PenaltySearchCV(HighOrderCRF(1), orders="auto", cv=2, max_steps=4, refit=False).fit(*words)
    assert search.best_params_["max_order"] == 3
    tried = search.cv_results_["max_order"].tolist()
    assert tried == [2] * 3 + [3] * 4  # the first step and two more, and the search of the best order goes on


def test_time_that_is_over_ends_it_with_the_best_so_far():
    with pytest.warns(UserWarning, match="max_time=1e-06 was over"):
        search = PenaltySearchCV(HighOrderCRF(), cv=3, orders=[1, 2], max_time=1e-6).fit(X, Y)
    assert search.cv_results_["max_order"].tolist() == [1]
    assert search.score(X, Y) > 0.5
    assert len(PenaltySearchCV(HighOrderCRF(), cv=3, learn_l1=True, max_time=1e-6).fit(X, Y).cv_results_["params"]) == 1


def test_best_step_need_not_be_the_last(search):
    """From strong penalties, the third step is too long. A search may end with it."""
    long = clone(search).set_params(estimator__sigma_reg=0.2, max_steps=4).fit(X, Y)
    short = clone(long).set_params(max_steps=3).fit(X, Y)
    scores = short.cv_results_["mean_test_score"]
    assert scores[2] < 1.005 * scores[1]
    assert short.best_index_ == 1
    assert short.best_score_ == scores[1]
    assert short.best_params_ == short.cv_results_["params"][1] == long.cv_results_["params"][1]


def test_sample_weight_counts_in_folds_score_and_refit():
    weight = np.random.default_rng(4).integers(0, 5, len(X)).astype(float)
    splits = list(KFold(3).split(X))
    search = PenaltySearchCV(CHAIN, cv=splits, max_steps=1, tol=1e-8).fit(X, Y, sample_weight=weight)
    groups, _ = folds_of(CHAIN, splits)
    expected = cross_validated(CHAIN, groups, np.zeros(len(groups.keys)), splits, weight)
    scores = [search.cv_results_[f"split{i}_test_score"][0] for i in range(3)]
    np.testing.assert_allclose(scores, expected, rtol=5e-3)
    plain = cross_validated(CHAIN, groups, np.zeros(len(groups.keys)), splits)
    assert np.abs(plain - expected).max() > 0.02
    refit = clone(CHAIN).set_params(**search.best_params_).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(search.best_estimator_.pattern_coef_, refit.pattern_coef_)


def test_start_is_the_geometric_mean_of_a_group():
    final = HighOrderCRF(1, sigma_reg=by_order(0.25, 4.0))
    whole = training_data(final, X, Y, None)
    layout = FitSteps(final).layout(whole)
    groups = WeightGroups.for_layout(layout, whole, [("features", 0), None], 1)
    biases = layout.order_of_weight[layout.n_pairs :]
    expected = np.exp(np.mean(np.log(np.where(biases == 0, 0.25, 4.0))))
    np.testing.assert_allclose(groups.start(final.sigma_reg, layout, whole, {}), [0.25, expected])
    np.testing.assert_allclose(groups.start(final.sigma_reg, layout, whole, {None: 2.0}), [0.25, 2.0])


def test_second_fits_leave_nothing_of_the_first():
    search = PenaltySearchCV(HighOrderCRF(), cv=3, max_steps=1).fit(X, Y)
    search.set_params(refit=False).fit(X, [[label.upper() for label in labels] for labels in Y])
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "classes_")


def test_interrupted_refits_leave_the_first(monkeypatch):
    search = PenaltySearchCV(HighOrderCRF(), cv=3, max_steps=2).fit(X, Y)
    before = dict(vars(search))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(HighOrderCRF, "fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*sequences(8))
    assert vars(search) == before


def test_folds_with_groups_that_all_data_lack():
    class MostFrequent(TransformerMixin, BaseEstimator):
        """Keeps the feature that is there most often: "u" in all data, "v" in a training part."""

        def fit(self, X, y=None):
            counts = Counter(name for sequence in X for token in sequence for name in token)
            self.name_ = counts.most_common(1)[0][0]
            return self

        def transform(self, X):
            return [[[name for name in token if name == self.name_] for token in sequence] for sequence in X]

    inputs, labels = [[["u"], ["u"]]] * 2 + [[["v"], ["v"]]] + [[["u"], ["v"]]], [["a", "b"]] * 4
    model = make_pipeline(MostFrequent(), HighOrderCRF())
    splits = [([2, 3], [0, 1]), ([0, 1, 2, 3], [3])]
    keys = ["u", "v", ("patterns", 0), ("patterns", 1)]
    search = PenaltySearchCV(model, cv=splits, penalty_groups=keys, max_steps=2).fit(inputs, labels)
    assert list(search.best_params_["highordercrf__sigma_reg"]) == ["u", *keys[2:]]
    with pytest.raises(ValueError, match="penalty_groups has no key for the weight of the feature 'v'"):
        PenaltySearchCV(model, cv=splits, penalty_groups=[keys[0], *keys[2:]]).fit(inputs, labels)


def test_masks_as_splits_and_models_without_weights():
    masks = [(np.arange(len(X)) % 2 == 0, np.arange(len(X)) % 2 == 1)]
    weight = np.ones(len(X))
    given = PenaltySearchCV(HighOrderCRF(), cv=masks, max_steps=1).fit(X, Y, sample_weight=weight)
    numbers = [tuple(np.flatnonzero(part) for part in masks[0])]
    same = PenaltySearchCV(HighOrderCRF(), cv=numbers, max_steps=1).fit(X, Y)
    assert given.best_score_ == pytest.approx(same.best_score_, rel=1e-12)
    nothing = HighOrderCRF(0, fit_intercept=False)
    empty = PenaltySearchCV(nothing, cv=3, orders=[0, 1], max_steps=2).fit([[[]] * len(labels) for labels in Y], Y)
    assert empty.cv_results_["mean_test_score"][0] == pytest.approx(-np.log(3))
    assert empty.cv_results_["params"][0] == {"max_order": 0}
    np.testing.assert_array_equal(empty.cv_results_["param_sigma_reg"].mask, empty.cv_results_["max_order"] == 0)


def test_models_without_any_weight_are_refused():
    nothing = [[[]] * 3] * 4
    search = PenaltySearchCV(HighOrderCRF(0, fit_intercept=False), cv=2)
    with pytest.raises(ValueError, match="no penalties to learn: with max_order=0 the model has no weights"):
        search.fit(nothing, [["a", "b", "a"]] * 4)
    assert not hasattr(search, "cv_results_")
    # where one order has none, and is the best: patterns that training parts teach are never right
    y = [["a", "b", "b"], ["a", "b", "b"], ["b", "a", "a"], ["b", "a", "a"]]
    best = search.set_params(orders=[0, 1], bounds=(0.5, 100)).fit(nothing, y)
    assert best.best_params_ == {"max_order": 0}
    assert best.best_estimator_.get_params()["sigma_reg"] == search.estimator.sigma_reg


def test_routed_sample_weight():
    words = [[token["w"] for token in sequence] for sequence in X]
    weight = np.arange(len(X)) % 3 + 1.0
    with config_context(enable_metadata_routing=True):
        model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF().set_fit_request(sample_weight=True))
        search = PenaltySearchCV(model, cv=3, max_steps=1).fit(words, Y, sample_weight=weight)
    plain = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF())
    other = PenaltySearchCV(plain, cv=3, max_steps=1).fit(words, Y, sample_weight=weight)
    assert search.best_score_ == other.best_score_
    np.testing.assert_array_equal(search.best_estimator_[-1].pattern_coef_, other.best_estimator_[-1].pattern_coef_)


def test_results_are_those_of_the_parameters_of_fit():
    search = PenaltySearchCV(HighOrderCRF(), cv=3, max_steps=1).fit(X, Y)
    search.set_params(orders=[1, 2])
    assert pickle.loads(pickle.dumps(search)).best_params_ == search.best_params_
    search.best_params_["sigma_reg"].clear()
    assert search.cv_results_["params"][0]["sigma_reg"]
    assert search.best_estimator_.sigma_reg


def test_orders():
    search = PenaltySearchCV(HighOrderCRF(sigma_reg=4.0), cv=2, orders=[0, 1, 2], max_steps=3).fit(X, Y)
    results = search.cv_results_
    assert sorted(set(results["max_order"].tolist())) == [0, 1, 2]
    assert search.best_params_["max_order"] == results["max_order"][search.best_index_]
    assert search.best_estimator_.max_order == search.best_params_["max_order"]
    assert np.isnan(results["sigma_patterns_2"][results["max_order"] < 2]).all()
    first = [int(np.flatnonzero(results["max_order"] == order)[0]) for order in range(3)]
    for group in "features_0", "patterns_0":
        np.testing.assert_allclose(results[f"sigma_{group}"][first], 4.0)
    for order in 1, 2:  # from the best penalties of the order before; new groups from those of the order below
        before, second = np.arange(first[order - 1], first[order]), first[order] + 1
        best = before[int(np.argmax(results["mean_test_score"][before]))]  # of this order, not of all
        for group in ("features_0", "patterns_0"):
            np.testing.assert_allclose(results[f"sigma_{group}"][second], results[f"sigma_{group}"][best])
        start, below = (results[f"sigma_patterns_{k}"] for k in (order, order - 1))
        np.testing.assert_allclose(start[second], below[best])


def test_new_groups_start_from_the_smaller_penalty():
    """The start of order 2 is the estimator's, 1, and not that of order 1, whose patterns have weak penalties."""
    options = {"orders": [1, 2], "cv": 2, "max_steps": 2, "refit": False}
    results = PenaltySearchCV(HighOrderCRF(), **options).fit(*make_digit_words(40, random_state=0)).cv_results_
    assert results["max_order"].tolist() == [1, 1, 2, 2]
    assert results["mean_test_score"][1] > results["mean_test_score"][0]
    assert results["sigma_patterns_1"][1] > 1.5
    assert results["sigma_patterns_1"][3] == pytest.approx(results["sigma_patterns_1"][1])
    assert results["sigma_patterns_2"][3] == pytest.approx(1.0)


@pytest.mark.parametrize("orders", [None, [1, 2], "auto"])
@pytest.mark.parametrize("learn_l1", [False, True])
@pytest.mark.parametrize("max_steps", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_no_order_takes_more_steps_than_allowed(orders, learn_l1, max_steps):
    options = {"cv": 2, "max_steps": max_steps, "learn_l1": learn_l1, "refit": False}
    with warnings.catch_warnings(action="ignore"):
        search = PenaltySearchCV(HighOrderCRF(1, max_iter=5), orders=orders, **options).fit(X[:6], Y[:6])
    tried = search.cv_results_["max_order"] if orders is not None else np.ones(len(search.cv_results_["params"]), int)
    assert np.bincount(tried).max() <= max_steps


# --- rising orders ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rising_orders_find_the_order_of_a_chain():
    words = make_digit_words(120, random_state=0)
    options = {"cv": 2, "refit": False}
    search = PenaltySearchCV(HighOrderCRF(max_order=7), orders="auto", **options).fit(*words)
    assert search.best_params_["max_order"] == 3
    tried = search.cv_results_["max_order"].tolist()
    assert tried == sorted(tried)
    assert set(tried) == {1, 2, 3, 4, 5}
    assert tried.count(3) > 2 >= tried.count(2) > tried.count(5) == 1  # it went on at the best one
    points = [tuple(params["sigma_reg"].values()) for params in search.cv_results_["params"]]
    assert len(set(points)) == len(points)  # where it goes on, no point is evaluated twice
    assert search.cv_results_["sigma_patterns_2"][tried.index(3)] != 1  # from those of the order before
    assert search.best_score_ > search.cv_results_["mean_test_score"][tried.index(3) + 1]  # the last that compares


def goes_on(scores):
    """Whether orders after the given ones are tried; one array of fold scores for each order."""
    best = max(range(len(scores)), key=lambda n: scores[n].mean())
    for lower in range(best):
        gains = scores[best] - scores[lower]
        if gains.mean() <= np.sqrt(((gains - gains.mean()) ** 2).sum() / (len(gains) - 1) / len(gains)):
            best = lower
            break
    return len(scores) - 1 - best < 2


@pytest.mark.parametrize("seed", range(20))
def test_rising_orders_end_after_two_without_a_gain(seed):
    rng, ended = np.random.default_rng(seed), []
    for _ in range(20):
        scores = rng.normal(size=(int(rng.integers(1, 8)), 4)) + np.arange(4) + rng.choice([0.0, 3.0], size=(1, 1))
        steps = [
            Step(order, {}, [FoldStep(score, np.zeros(0), 0.5, 1, 0.25, True) for score in of_order])
            for order, of_order in enumerate(scores, 1)
        ]
        ended.append(has_risen_enough(steps))
        assert ended[-1] is not goes_on(scores)
    assert {True, False} == set(ended)


@pytest.mark.filterwarnings("error")
def test_rising_orders_of_one_label_and_of_short_sequences():
    one = PenaltySearchCV(HighOrderCRF(), cv=2, orders="auto", max_steps=3)
    with pytest.raises(ValueError, match="y has only one class, 'a'"):
        one.fit(X[:6], [["a"] * len(y) for y in Y[:6]])
    assert not hasattr(one, "cv_results_")
    short = [sequence[:2] for sequence in X], [sequence[:2] for sequence in Y]
    for orders in "auto", [0, 1]:
        search = PenaltySearchCV(HighOrderCRF(), cv=2, orders=orders, max_steps=2, refit=False).fit(*short)
        assert search.cv_results_["max_order"].max() == 1  # no pattern has three labels


def test_the_best_order_is_warned_about_if_it_is_the_highest_tried():
    words, options = make_digit_words(40, random_state=0), {"cv": 2, "max_steps": 1, "refit": False}
    message = 'the best order is 2, the highest .* Pass orders=\\[2, 3, 4\\], or orders="auto"$'
    with pytest.warns(UserWarning, match=message) as said:
        PenaltySearchCV(HighOrderCRF(), orders=[1, 2], **options).fit(*words)
    assert len(said) == 1
    with warnings.catch_warnings(action="error"):
        PenaltySearchCV(HighOrderCRF(), orders=[2], **options).fit(*words)  # nothing to compare with
        PenaltySearchCV(HighOrderCRF(), **options).fit(*words)


def test_groups_by_prefix_and_start():
    start = {("w", 0): 0.5, "x": 2.0, None: 1.5}
    search = PenaltySearchCV(
        HighOrderCRF(1, sigma_reg=start), cv=3, penalty_groups=[("w", 0), "x", None], max_steps=3
    ).fit(X, Y)
    np.testing.assert_allclose(list(search.cv_results_["params"][0]["sigma_reg"].values()), [0.5, 2.0, 1.5])
    assert {"sigma_w_0", "sigma_x", "sigma_rest"} <= set(search.cv_results_)
    one = PenaltySearchCV(HighOrderCRF(1), cv=3, penalty_groups=[None], max_steps=3).fit(X, Y)
    assert list(one.best_params_["sigma_reg"]) == [None]


def test_bounds_are_kept_and_warned_about():
    with pytest.warns(UserWarning, match=r"sigma_reg of .* is at a bound"):
        search = PenaltySearchCV(HighOrderCRF(1), cv=3, bounds=(0.9, 1.1)).fit(X, Y)
    sigmas = np.array([list(params["sigma_reg"].values()) for params in search.cv_results_["params"]])
    assert ((sigmas >= 0.9) & (sigmas <= 1.1)).all()


def test_trainings_that_do_not_converge_are_warned_about():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        PenaltySearchCV(HighOrderCRF(1, max_iter=2), cv=3, max_steps=2, refit=False).fit(X, Y)


# --- among scikit-learn's tools ---------------------------------------------------------------------------------------


def test_pipelines_around_and_inside():
    words = [[token["w"] for token in sequence] for sequence in X]
    inside = PenaltySearchCV(make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()), cv=2, max_steps=1)
    inside.fit(words, Y)
    assert set(inside.best_params_) == {"highordercrf__sigma_reg"}
    assert inside.best_estimator_.predict(words) == inside.predict(words)
    batch = inside.best_estimator_[:-1].transform(words)
    expected = inside.best_estimator_[-1].log_likelihood(batch, Y)
    np.testing.assert_array_equal(inside.log_likelihood(words, Y), expected)
    around = make_pipeline(SequenceFeatureExtractor(), PenaltySearchCV(HighOrderCRF(), cv=2, max_steps=1)).fit(words, Y)
    assert around.predict(words) == around[-1].predict(batch)
    scores = cross_val_score(clone(around), words, Y, cv=2)
    assert ((scores > 0) & (scores <= 1)).all()


def test_without_refit():
    search = PenaltySearchCV(HighOrderCRF(), cv=3, max_steps=1, refit=False).fit(X, Y)
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(AttributeError, match="refit"):
        search.predict(X)
    HighOrderCRF(**search.best_params_).fit(X, Y)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_bad_data_is_named():
    with pytest.raises(ValueError, match="sequence 1"):
        PenaltySearchCV(HighOrderCRF(), cv=2).fit(X[:4], [Y[0], Y[1][:-1], Y[2], Y[3]])
    with warnings.catch_warnings(action="error"):
        PenaltySearchCV(HighOrderCRF(), cv=2, max_steps=1).fit(X[:4], Y[:4])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scores_that_are_not_finite_are_refused():
    huge = [[{"w": 1e150, "v": -1e150 * t} for t in range(len(sequence))] for sequence in Y]
    with pytest.raises(ValueError, match="split 0 at sigma_reg=.* not finite: rescale"):
        PenaltySearchCV(HighOrderCRF(), cv=3).fit(huge, Y)


test_refusals = refusals(
    (lambda: PenaltySearchCV(HighOrderCRF()).fit(X, ["A"] * len(X)),
     (TypeError, r"y\[0\] \(sequence 0\) is 'A' \(str\), but must be a sequence of labels")),
    (lambda: PenaltySearchCV(HighOrderCRF()).predict(X), (NotFittedError, ".")),
    (lambda: PenaltySearchCV(HighOrderCRF()).log_likelihood(X, Y), (NotFittedError, ".")),
    (lambda params: PenaltySearchCV(HighOrderCRF(**params), cv=3).fit(X, Y),
     ("PenaltySearchCV (cannot learn the penalties|needs).*sigma_reg", {"sigma_reg": np.inf},
      {"sigma_reg": {("features", 0): np.inf, None: 1.0}}),
     ("PenaltySearchCV (cannot learn the penalties|needs).*objective", {"objective": "local_feature_matching"}),
     ("PenaltySearchCV (cannot learn the penalties|needs).*solver", {"solver": "sgd"}, {"solver": SGD()})),
    (lambda estimator: PenaltySearchCV(estimator=estimator, cv=3).fit(X, Y),
     (TypeError, "HighOrderCRF", Pipeline([("a", "passthrough"), ("b", "passthrough")])),
     (TypeError, "estimator", Pipeline([])),
     ("objective", HighOrderCRF(objective="foo")),
     ("fit_intercept", HighOrderCRF(fit_intercept="no"))),
    (lambda: PenaltySearchCV(HighOrderCRF(patterns="all"), cv=3, orders="auto").fit(X, Y),
     'orders="auto" .* pass a list of orders'),
    (lambda params: PenaltySearchCV(estimator=HighOrderCRF(), **params).fit(X, Y),
     ("bounds", {"cv": 3, "bounds": (1.0, 0.5)}, {"cv": 3, "bounds": (0.0, 1.0)}, {"cv": 3, "bounds": (1.0,)},
      {"cv": 3, "bounds": (1e-160, 1e-155)}),
     ("orders", {"cv": 3, "orders": []}, {"cv": 3, "orders": [1, -1]}, {"cv": 3, "orders": "rising"}),
     ("penalty_groups", {"cv": 3, "penalty_groups": "orders"}, {"cv": 3, "penalty_groups": []},
      {"cv": 3, "penalty_groups": [None, None]}, {"cv": 3, "penalty_groups": [("w", 0), "w_0", None]}),
     ("patterns", {"cv": 3, "penalty_groups": [("features", 0)]}),
     ("held-out part of split 0", {"cv": [([0, 1], [])]}),
     ("split 0 of cv must have indices of sequences, or masks", {"cv": [([0, 1], [2.5])]}),
     ("split 1 of cv has the index 99, but there are 18 sequences", {"cv": [([0, 1], [2]), ([0, 99], [2])]}),
     ("split 0 of cv must have indices of sequences, or masks of 18", {"cv": [([True, False], [2])]})),
)  # fmt: skip

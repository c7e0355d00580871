"""The search for penalties with pruning: the held-out likelihood, and what level 0 may have seen."""

import itertools

import numpy as np
import pytest
from internals import FitSteps, WeightGroups, make_fold, pruning, split_data, training_data
from sklearn.base import clone

from sklearn_hocrf import Constraints, HighOrderCRF
from sklearn_hocrf.datasets import make_markov_sequences
from sklearn_hocrf.model_selection import PenaltySearchCV

N_LABELS = 6
X, Y = make_markov_sequences(24, length=8, n_labels=N_LABELS, noise=0.15, random_state=0)
X = [[{"b": 1.0, f"{row[0]:.1f}": 1.0, f"t{row[1]:.1f}": 0.5} for row in rows] for rows in X]
Y = [labels.tolist() for labels in Y]
TRAIN, TEST = np.arange(16), np.arange(16, 24)
CRF = HighOrderCRF(2, pruning=2, tol=1e-8, max_iter=2000)


@pytest.fixture(autouse=True)
def limit_states(monkeypatch):
    """Return a function that sets the number of states that each token keeps; first, it keeps all."""

    def limit(n_states):
        monkeypatch.setattr(pruning, "most_states", lambda n_candidates: n_states)

    limit(1000)
    return limit


@pytest.fixture
def levels(monkeypatch):
    """Return the arguments and results of all trainings of level 0 from now on."""
    calls, train = [], pruning.train_level_zero

    def spy(*arguments):
        calls.append((arguments, train(*arguments)))
        return calls[-1][1]

    monkeypatch.setattr(pruning, "train_level_zero", spy)
    return calls


def fold_of(crf, X=X, Y=Y, train=TRAIN, test=TEST):
    """Return the groups of weights, and the fold of a split."""
    whole = training_data(crf, X, Y, None)
    groups = WeightGroups.for_layout(FitSteps(clone(crf)).layout(whole), whole, "order", crf.max_order)
    return groups, make_fold(clone(crf), split_data(crf, X, Y, None, train, test), whole.targets, groups)


def log_q(level_zero, X, Y, labels, names):
    """Return the log-probability of labels by a model of order 0, by the softmax of each token."""
    coef, bias = (
        level_zero.layout.coef(level_zero.weights).toarray(),
        level_zero.layout.pattern_coef(level_zero.weights),
    )
    number = {name: i for i, name in enumerate(names)}
    total = []
    for rows, own in zip(X, Y, strict=True):
        scores = bias + [sum(coef[:, number[k]] * v for k, v in row.items() if k in number) for row in rows]
        log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        total.append(log_p[np.arange(len(own)), np.searchsorted(labels, own)].sum())
    return np.array(total)


@pytest.mark.parametrize("n_states", [3, 1000])
def test_the_score_is_the_likelihood_of_a_mixture(n_states, limit_states):
    limit_states(n_states)
    pruned = clone(CRF).set_params(pruning=4)
    groups, fold = fold_of(pruned)
    log_sigma = np.linspace(-0.5, 0.7, len(groups.keys))
    step = fold.step(log_sigma, tol=1e-8)
    sigma = dict(zip(groups.keys, np.exp(log_sigma).tolist(), strict=True))
    crf = clone(pruned).set_params(sigma_reg=sigma).fit(X[:16], Y[:16])
    log_p = crf.log_likelihood(X[16:], Y[16:])
    assert 0 < np.isneginf(log_p).sum() < 8
    q = log_q(crf._state.level_zero, X[16:], Y[16:], crf.classes_, crf.feature_names_in_)
    assert step.score == pytest.approx(np.log(0.99 * np.exp(log_p) + 0.01 * np.exp(q)).sum() / 64, rel=1e-6)
    assert step.accuracy == crf.score(X[16:], Y[16:])


@pytest.mark.parametrize("constraints", [None, Constraints(start=[0, 1, 2, 3, 4, 5])])
def test_the_gradient_is_that_of_the_score(constraints):
    groups, fold = fold_of(clone(CRF).set_params(constraints=constraints))
    log_sigma = np.linspace(-0.5, 0.7, len(groups.keys))
    gradient = fold.step(log_sigma, tol=1e-8, residual=1e-8).gradient
    for place, unit in enumerate(np.eye(len(log_sigma))):
        ahead, behind = (fold.step(log_sigma + sign * 1e-3 * unit, tol=1e-8).score for sign in (1, -1))
        assert gradient[place] == pytest.approx((ahead - behind) / 2e-3, rel=1e-3, abs=1e-6)


def test_level_zero_sees_the_training_part_alone(levels):
    held_out = fold_of(CRF)[1]._held_out.problem
    clone(CRF).fit(X[:16], Y[:16])
    of_all = clone(CRF).fit(X, Y)._state.level_zero
    (arguments, level), (_, of_part), _ = levels
    assert len(arguments[1]) == 16
    assert level.weights.tobytes() == of_part.weights.tobytes()
    found = level.finder().find(held_out.batch)
    for ours, theirs in zip(held_out.candidates[:2], found[:2], strict=True):  # no true label is added
        np.testing.assert_array_equal(ours, theirs)
    codes = np.concatenate(Y[16:]).astype(np.int32)
    leaked = of_all.finder().find(fold_of(CRF, train=np.arange(24))[1]._held_out.problem.batch)
    assert leaked.contain(codes).mean() > found.contain(codes).mean() + 0.02


def test_each_fold_trains_its_own_level_zero(levels):
    search = PenaltySearchCV(clone(CRF).set_params(tol=1e-2), cv=3, max_steps=4).fit(X, Y)
    assert [len(arguments[1]) for arguments, _ in levels] == [16, 16, 16, 24]
    assert len({arguments[2].tobytes() for arguments, _ in levels}) == 4
    assert search.best_estimator_._state.level_zero.weights.tobytes() == levels[-1][1].weights.tobytes()
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(X, Y) > 0.8


@pytest.mark.parametrize("n_labels", [2, 3])
def test_constraints_that_the_candidates_do_not_meet(n_labels):
    runs = {tuple(labels[t : t + n_labels]) for labels in Y for t in range(9 - n_labels)}
    forbid = [run for run in itertools.product(range(N_LABELS), repeat=n_labels) if run not in runs]
    groups, fold = fold_of(clone(CRF).set_params(constraints=Constraints(forbid=forbid), pruning=1))
    assert np.diff(fold._held_out.problem.candidates.starts).max() > 1
    step = fold.step(np.zeros(len(groups.keys)), tol=1e-6)
    assert np.isfinite([step.score, *step.gradient]).all()


def test_as_many_candidates_as_labels_change_nothing():
    searches = [
        PenaltySearchCV(HighOrderCRF(1, pruning=pruning), cv=2, max_steps=3).fit(X, Y) for pruning in (None, N_LABELS)
    ]
    assert searches[0].best_params_ == searches[1].best_params_
    assert searches[0].best_score_ == searches[1].best_score_

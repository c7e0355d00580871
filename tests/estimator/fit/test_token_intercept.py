"""The intercept for each token of a segment: it equals the weight of a column of ones, and can improve a model."""

import pickle
import warnings

import numpy as np
import pytest
from segment_cases import WITH_INTERCEPTS
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderSemiCRF
from sklearn_hocrf.inspection import weights_table
from sklearn_hocrf.model_selection import PenaltySearchCV

LONGEST = {"a": 5, "b": 3, "d": 4}


def numbers(n_sequences=12, seed=0, longest=LONGEST):
    """Return sequences of numbers and runs of labels."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n_sequences):
        labels, before = [], ""
        while len(labels) < 9:
            before = str(rng.choice([name for name in longest if name != before]))
            labels += [before] * int(rng.integers(1, longest[before] + 1))
        X.append(np.array([["abd".find(label)] * 2 for label in labels]) + rng.normal(size=(len(labels), 2)))
        y.append(labels)
    return X, y


def with_ones(X):
    return [np.column_stack([x, np.ones(len(x))]) for x in X]


def trained(X, y, intercepts=True, **parameters):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return WITH_INTERCEPTS[intercepts](**{"segment_length": LONGEST, "random_state": 0, **parameters}).fit(X, y)


TRAINERS = {
    "lbfgs": {"tol": 1e-9},
    "order 2": {"max_order": 2, "tol": 1e-9},
    "owlqn": {"l1_reg": 0.1, "tol": 1e-9},
    "sgd": {"solver": "sgd", "max_iter": 5},
    "local feature matching": {"objective": "local_feature_matching", "tol": 1e-9},
}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_it_is_the_weight_of_a_column_of_ones(trainer):
    """The model is the same, and so are the steps of every solver."""
    X, y = numbers()
    crf = trained(X, y, **TRAINERS[trainer])
    peer = trained(with_ones(X), y, "segment", **TRAINERS[trainer])
    assert crf.n_parameters_ == peer.n_parameters_
    assert np.abs(crf.token_intercept_).max() > 0.01
    assert not peer.token_intercept_.any()
    np.testing.assert_allclose(crf.objective_history_[-1], peer.objective_history_[-1], rtol=1e-9)
    np.testing.assert_allclose(crf.token_intercept_, peer.coef_.toarray()[:3, 2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(crf.coef_.toarray(), peer.coef_.toarray()[:, :2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(crf.pattern_coef_, peer.pattern_coef_, rtol=1e-5, atol=1e-6)
    assert crf.predict_segments(X) == peer.predict_segments(with_ones(X))


@pytest.mark.parametrize("intercepts", [True, False, "segment", "token"])
def test_which_intercepts_there_are(intercepts):
    longest = {"a": 5, "b": 3, "d": 1}
    X, y = numbers(longest=longest)
    crf = trained(X, y, intercepts or True, fit_intercept=bool(intercepts), segment_length=longest)
    of_segments, of_tokens = crf.pattern_coef_[:3] != 0, crf.token_intercept_ != 0
    assert of_segments.all() == of_segments.any() == (intercepts in (True, "segment"))
    expected = {True: [True, True, False], "token": [True] * 3}  # "d" has one token: one intercept is enough
    assert of_tokens.tolist() == expected.get(intercepts, [False] * 3)
    table = weights_table(crf, feature=False, order=0, top=None)
    assert (
        len(table)
        == of_segments.sum() + of_tokens.sum()
        == crf.n_parameters_ - crf.coef_.nnz - sum(len(z) > 1 for z in crf.patterns_)
    )
    refitted = clone(crf).set_params(warm_start=True, tol=1e-6).fit(X, y).fit(X, y)
    assert refitted.n_iter_ == 0
    copied = pickle.loads(pickle.dumps(crf))
    np.testing.assert_array_equal(copied.token_intercept_, crf.token_intercept_)


def test_a_single_label_has_none():
    """All segmentations have as many tokens."""
    crf = HighOrderSemiCRF(scheme="segments").fit([[["a"], ["b"], ["c"]]], [[(0, 2, "word"), (2, 3, "word")]])
    assert crf.segment_length_ == {"word": (1, 2)}
    assert crf.token_intercept_.tolist() == [0]
    assert crf.n_parameters_ == crf.coef_.nnz + len(crf.patterns_)


def test_penalties_of_order_0_are_its_own():
    X, y = numbers()
    loose = trained(X, y, sigma_reg={("patterns", 0): 10.0, None: 1.0}, tol=1e-6)
    tight = trained(X, y, sigma_reg={("patterns", 0): 1e-4, None: 1.0}, tol=1e-6)
    assert np.abs(tight.token_intercept_).max() < 1e-3 < np.abs(loose.token_intercept_).max()
    search = PenaltySearchCV(HighOrderSemiCRF(segment_length=LONGEST), cv=2, max_steps=1).fit(X, y)
    assert search.best_estimator_.token_intercept_.any()
    with pytest.raises(
        ValueError, match=r"no key for the weight of the pattern \('a',\) of order 0: add \('patterns', 0\)"
    ):
        trained(X, y, sigma_reg={("features", 0): 1.0, ("patterns", 1): 1.0})

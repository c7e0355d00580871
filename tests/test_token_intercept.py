"""The weight that each token of a segment counts: that of a column of ones, and what it is good for."""

import pickle
import warnings

import numpy as np
import pytest
from segment_cases import WITH_INTERCEPTS, SegmentIntercepts
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.datasets import make_references
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
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


def test_warm_start_matches_labels():
    X, y = numbers()
    crf = trained(X, y, warm_start=True)
    before = dict(zip("abd", crf.token_intercept_.tolist(), strict=True))
    few = [n for n, labels in enumerate(numbers(60, seed=1)[1]) if "b" not in labels]
    assert len(few) > 1
    X, y = ([part[n] for n in few] for part in numbers(60, seed=1))
    with pytest.warns(ConvergenceWarning):
        crf.set_params(max_iter=0, segment_length={"a": 5, "d": 4}).fit(X, y)
    assert dict(zip("ad", crf.token_intercept_.tolist(), strict=True)) == {"a": before["a"], "d": before["d"]}


def test_streams_keep_it():
    X, y = numbers()
    crf = HighOrderSemiCRF(solver="sgd", random_state=0, segment_length=LONGEST)
    crf.partial_fit(X[:6], y[:6], classes=list("abd"))
    first = crf.token_intercept_
    crf.partial_fit(X[6:], y[6:])
    assert (crf.token_intercept_ != first).all()
    rows = [[{"x": number} for number in x[:, 0].tolist()] for x in X]
    named = HighOrderSemiCRF(solver="sgd", random_state=0, segment_length=LONGEST).partial_fit(rows, y)
    before = named.token_intercept_
    more = [[{"x": 1.0, "new": 1.0} for _ in labels] for labels in y]
    assert (named.partial_fit(more, y).token_intercept_ != before).all()
    assert named.coef_.shape[1] == 2


def test_penalties_of_order_0_are_its_own():
    X, y = numbers()
    loose = trained(X, y, sigma_reg={("patterns", 0): 10.0, None: 1.0}, tol=1e-6)
    tight = trained(X, y, sigma_reg={("patterns", 0): 1e-4, None: 1.0}, tol=1e-6)
    assert np.abs(tight.token_intercept_).max() < 1e-3 < np.abs(loose.token_intercept_).max()
    search = PenaltySearchCV(HighOrderSemiCRF(segment_length=LONGEST), cv=3, max_steps=3).fit(X, y)
    assert search.best_estimator_.token_intercept_.any()
    with pytest.raises(
        ValueError, match=r"no key for the weight of the pattern \('a',\) of order 0: add \('patterns', 0\)"
    ):
        trained(X, y, sigma_reg={("features", 0): 1.0, ("patterns", 1): 1.0})


@pytest.mark.parametrize("fit_intercept", ["both", "segment", 2, None])
def test_no_such_intercept(fit_intercept):
    X, y = numbers()
    with pytest.raises(ValueError, match="'fit_intercept' parameter of HighOrderSemiCRF must be"):
        HighOrderSemiCRF(fit_intercept=fit_intercept).fit(X, y)
    with pytest.raises(ValueError, match="'fit_intercept' parameter of HighOrderCRF must be"):
        HighOrderCRF(fit_intercept=fit_intercept).fit(X, y)


def recordings(n, seed=0):
    """Return recordings of a sensor with long activities: values of three columns, labels of seconds."""
    level, least = (
        {"rest": 0.0, "walk": 0.5, "stairs": 0.7, "run": 1.3},
        {"rest": 12, "walk": 10, "stairs": 6, "run": 8},
    )
    follow = {"rest": ["walk"], "walk": ["rest", "stairs", "run"], "stairs": ["walk"], "run": ["walk"]}
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        activity, labels = "rest", []
        while len(labels) < 150:
            labels += [activity] * (least[activity] + int(rng.poisson(least[activity] / 2)))
            activity = str(rng.choice(follow[activity]))
        X.append(np.array([[level[label]] * 3 for label in labels]) + 0.3 * rng.normal(size=(len(labels), 3)))
        y.append(labels)
    return X, y


@pytest.mark.parametrize("length", [None, "gamma", "capped"])
def test_numbers_of_long_segments(length):
    """The default is better than the chain at labels of seconds, whose label scores have an intercept for each."""
    X, y = recordings(40)
    scaler = StandardScaler().fit(np.concatenate(X[:20]))
    numbers, X = SequenceFeatureExtractor(), [scaler.transform(x) for x in X]
    features = SegmentFeatureExtractor(length=length, max_length=20 if length == "capped" else None)
    semi = make_pipeline(numbers, features, HighOrderSemiCRF(segment_length=40, tol=1e-2)).fit(X[:20], y[:20])
    chain = HighOrderCRF(1, tol=1e-2).fit(X[:20], y[:20])
    assert semi.log_likelihood(X[20:], y[20:]).sum() > chain.log_likelihood(X[20:], y[20:]).sum()
    assert semi.score(X[20:], y[20:]) > chain.score(X[20:], y[20:]) + (0.0 if length is None else 0.01)


def test_text_loses_nothing():
    X, y = make_references(120, random_state=0)
    scores = []
    for estimator in (HighOrderSemiCRF, SegmentIntercepts):
        crf = estimator(2, segment_length=30, tol=1e-2)
        pipe = make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(length="capped"), crf)
        scores.append(pipe.fit(X[:80], y[:80]).log_likelihood(X[80:], y[80:]).sum())
    assert scores[0] > 1.01 * scores[1]  # at most 1 % below

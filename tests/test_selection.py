"""Which sequences to label next, by enumeration."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.inspection import select_sequences

LABELS = ["x", "y", "z"]


def draw(random, n, n_labels=3):
    X = [[[f"a{random.integers(4)}"] for _ in range(random.integers(1, 5))] for _ in range(n)]
    return X, [[LABELS[random.integers(n_labels)] for _ in x] for x in X]


def brute(probabilities, by):
    """Return the uncertainty of one distribution."""
    p = np.sort(probabilities)[::-1]
    if by == "entropy":
        return -sum(q * np.log(q) for q in p if q > 0)
    return 1 - p[0] if by == "least confident" else -(p[0] - (p[1] if len(p) > 1 else 0.0))


@pytest.mark.parametrize("by", ["entropy", "margin", "least confident"])
@pytest.mark.parametrize("per", ["token", "sequence"])
def test_they_are_those_of_enumeration(by, per):
    random = np.random.default_rng(3)
    X, y = draw(random, 20)
    crf = HighOrderCRF(max_order=2, sigma_reg=2).fit(X, y)
    X, _ = draw(random, 12)
    values = []
    for x in X:
        labellings = list(itertools.product(LABELS, repeat=len(x)))
        p = np.exp(crf.log_likelihood([x] * len(labellings), [list(one) for one in labellings]))
        if per == "sequence":
            values.append(brute(p, by))
        else:
            tables = [[p[[one[t] == label for one in labellings]].sum() for label in LABELS] for t in range(len(x))]
            values.append(np.mean([brute(row, by) for row in tables]))
    order = select_sequences(crf, X, len(X), by=by, per=per)
    np.testing.assert_allclose(np.array(values)[order], np.sort(values)[::-1], atol=1e-12)
    assert select_sequences(crf, X, 3, by=by, per=per).tolist() == order[:3].tolist()


@pytest.mark.parametrize("per", ["token", "sequence"])
@pytest.mark.parametrize("by", ["entropy", "margin", "least confident"])
def test_empty_sequences_are_last_and_ties_in_order(by, per):
    X, y = [[["a"]], [["b"]]], [["x"], ["y"]]
    crf = HighOrderCRF().fit(X, y)
    assert select_sequences(crf, [[], [["a"]], [["c"]], [["c"]], []], 5, by=by, per=per).tolist() == [2, 3, 1, 0, 4]


def test_other_models():
    X, y = [["Ann", "met", "Bob"], ["Bob", "saw", "Ann"]], [["B-P", "O", "B-P"], ["B-P", "O", "B-P"]]
    for model in (HighOrderCRF(), HighOrderSemiCRF(scheme="bio")):
        pipe = make_pipeline(SequenceFeatureExtractor([("w", 0)]), model).fit(X, y)
        for by in ("entropy", "margin", "least confident"):
            for per in ("token", "sequence"):
                assert select_sequences(pipe, [X[0], ["who", "is", "it"]], 1, by=by, per=per).tolist() == [1]


def test_what_is_refused():
    X, y = [[["a"]], [["b"]]], [["x"], ["y"]]
    crf = HighOrderCRF().fit(X, y)
    for n in (0, 3, 1.5, True):
        with pytest.raises((ValueError, TypeError), match="n must be an integer from 1 to 2"):
            select_sequences(crf, X, n)
    with pytest.raises(ValueError, match="by must be"):
        select_sequences(crf, X, 1, by="confidence")
    with pytest.raises(ValueError, match="per must be"):
        select_sequences(crf, X, 1, per="word")
    with pytest.raises(NotFittedError):
        select_sequences(HighOrderCRF(), X, 1)
    with pytest.raises(AttributeError, match="probabilities"):
        select_sequences(HighOrderCRF(objective="hinge").fit(X, y), X, 1)

"""Durations: lengths as features with few weights."""

import numpy as np
import pytest
from internals import LengthBlock
from segment_cases import WITH_INTERCEPTS

from sklearn_hocrf import HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

LONGEST = 40
SHAPE, SCALE = {"a": 8.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 2.0, "c": 4.0}
LEVEL = {"a": -1.0, "b": 0.0, "c": 1.2}


def log_length(tokens, starts, stops):
    return np.log(stops - starts)


def drawn(rng, n_sequences):
    """Draw from a hidden semi-Markov model: labels, lengths, and a normal number of variance 1 for each token."""
    X, y = [], []
    for _ in range(n_sequences):
        label, labels = "a", []
        while not labels or rng.random() < 0.85:
            weight = np.exp(log_duration(label))
            labels += [label] * int(rng.choice(np.arange(1, LONGEST + 1), p=weight / weight.sum()))
            label = str(rng.choice([other for other in SHAPE if other != label]))
        X.append(np.array([LEVEL[label] for label in labels])[:, None] + rng.normal(size=(len(labels), 1)))
        y.append(labels)
    return X, y


def log_duration(label):
    """Return log P(d) + constant for d = 1 .. LONGEST: a gamma density at whole numbers."""
    d = np.arange(1, LONGEST + 1)
    return (SHAPE[label] - 1) * np.log(d) - d / SCALE[label]


def test_values_and_names_of_lengths():
    gamma = LengthBlock("gamma", 0)
    assert gamma.names(None).tolist() == ["length", "log_length"]
    d = np.arange(1, 6)
    np.testing.assert_allclose(gamma.table(5), np.stack([d, np.log(d)], axis=1))


@pytest.mark.parametrize("intercept", [True, "token", "segment"])
def test_the_intercept_of_tokens_is_the_weight_of_the_length(intercept):
    """With a token intercept in place of the feature d, the optimum is the same."""
    rng = np.random.default_rng(3)
    X, y = drawn(rng, 10)
    batch = make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(length="gamma")).fit_transform(X, y)
    crf = WITH_INTERCEPTS[intercept](tol=1e-8).fit(batch, y)
    assert not crf.token_intercept_.any()
    assert len(crf._state.layout.token_labels) == 0
    of_pairs = WITH_INTERCEPTS[intercept](feature_order={"length": (1,)}, tol=1e-1).fit(batch, y)
    assert of_pairs.token_intercept_.all() == (intercept != "segment")  # no single label has the feature
    if intercept is True:
        log = SegmentFeatureExtractor(functions=log_length)
        log = make_pipeline(SequenceFeatureExtractor(), log).fit_transform(X, y)
        other = HighOrderSemiCRF(tol=1e-8).fit(log, y)
        weights = crf.coef_.toarray()[:3, crf.feature_names_in_.tolist().index("length")]
        np.testing.assert_allclose(other.token_intercept_, weights, atol=1e-5)
        assert other.objective_history_[-1] == pytest.approx(crf.objective_history_[-1], rel=1e-9)

"""Long sequences with scores of 4e5 and more: differences between labellings are as accurate as with small scores.

A shift of all labels of a token changes no probability, so the results are those of the model without the shift.
Weights are multiples of 1/16 and the shift is a power of 2, so that the scores of tokens are not rounded.
"""

import copy
import math

import numpy as np
import pytest
from internals import FittedModel
from registry import KINDS, asked

from sklearn_hocrf.inspection import explain
from sklearn_hocrf.scores import sequence_log_likelihood
from sklearn_hocrf.tagger import Tagger, export_tagger

SHIFT = 2.0**19
WORDS = [np.random.default_rng(0).choice(list("abcd"), 1500).tolist(), ["a", "c", "d"], []]
TOLERANCE = {"rtol": 0, "atol": 1e-8}
FAST = ["chain", "order 3", "scheme", "pruned", "pruned parts", "unlimited", "segments", "bioes"]
OTHERS = [
    name for name, kind in KINDS.items() if not {"likelihood"} & {*kind.without} and "log space" not in name
]  # their weights are as large as these
kinds = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in OTHERS]
)


def with_weights(name, change):
    """Return the estimator of a kind with other weights."""
    estimator = copy.deepcopy(asked(name))
    size, rng = len(estimator._state.weights), np.random.default_rng(0)
    weights = np.round(16 * rng.normal(size=size)) / 16
    estimator._state._replace(weights=change(estimator._state.layout, weights)).set_on(estimator)
    return estimator


def shifted(layout, weights):
    """Return weights with which each token adds SHIFT to the scores of all labels."""
    weights, n_labels = weights.copy(), layout.automaton.n_labels
    single = [(layout.patterns.lengths[row] == 1) for row in layout.bias_pattern]
    if hasattr(layout, "longest"):  # biases count by segment, features by token
        position = layout.row_coef(np.arange(1.0, len(weights) + 1)).tocsc()
        for feature in range(layout.n_features):
            rows = position.indices[position.indptr[feature] : position.indptr[feature + 1]]
            own = position.data[position.indptr[feature] : position.indptr[feature + 1]].astype(int) - 1
            if len(rows) and {*range(n_labels)} <= {*rows.tolist()}:
                weights[own[rows < n_labels]] += SHIFT
                return weights
    elif sum(single) == n_labels:
        weights[layout.first_bias + np.flatnonzero(single)] += SHIFT
        return weights
    return pytest.skip("no weights for all labels of a token")


def terms(model, X, labellings):
    """Return the scores of tokens or segments of each of some labellings of one sequence."""
    fitted = FittedModel(model)
    posterior, _, form = fitted.query(X)
    truths = [fitted.read_truth([labels], posterior.batch, form) for labels in labellings]
    return [posterior.model.log_scores(posterior.batch, truth)[0].tolist() for truth in truths]


def check_best(model, X, n=8):
    """Check the laws of the n best labellings of one sequence, and return their log probabilities."""
    found = model.predict_nbest(X, n)[0]
    log_p = np.array([one.log_probability for one in found])
    assert (np.diff(log_p) <= 0).all()
    assert log_p[0] <= 0
    assert math.fsum(np.exp(log_p)) <= 1 + 1e-9
    scores = terms(model, X, [one.labels for one in found])
    gaps = [math.fsum([*scores[0], *(-score for score in other)]) for other in scores]
    assert np.abs(log_p[0] - log_p - gaps).max() <= (1e-7 if hasattr(model, "segment_labels_") else 1e-9)
    assert found[0].labels == model.predict(X)[0]
    assert np.allclose([one.score for one in found], [math.fsum(own) for own in scores], 1e-13)
    return log_p


@kinds
def test_answers_are_those_without_a_shift(name):
    small, large = with_weights(name, lambda _, weights: weights), with_weights(name, shifted)
    X = KINDS[name].X(WORDS)
    np.testing.assert_allclose(check_best(large, X[:1]), check_best(small, X[:1]), **TOLERANCE)
    of_small = small.predict_nbest(X, 9)
    for one, other in zip(large.predict_nbest(X, 9), of_small, strict=True):
        assert len(one) == len(other)
        np.testing.assert_allclose([c.log_probability for c in one], [c.log_probability for c in other], **TOLERANCE)
    for y in (small.predict(X), [candidates[-1].labels for candidates in of_small]):
        np.testing.assert_allclose(large.log_likelihood(X, y), small.log_likelihood(X, y), **TOLERANCE)
    np.testing.assert_allclose(large.entropy(X), small.entropy(X), rtol=1e-9)
    if name != "pruned" and not hasattr(small, "segment_labels_"):  # a pruned model has dropped states
        own, wanted = (explain(model, X[:1]).log_odds_paths for model in (large, small))
        assert own == pytest.approx(wanted, abs=1e-9)


@kinds
def test_best_labellings_of_large_weights(name):
    check_best(with_weights(name, lambda _, weights: 4e5 / 3 * weights), KINDS[name].X(WORDS[:1]))


@pytest.mark.parametrize("name", ["chain", "order 3", "scheme"])
def test_taggers(name, tmp_path):
    small, large = with_weights(name, lambda _, weights: weights), with_weights(name, shifted)
    X = KINDS[name].X(WORDS[:2])
    export_tagger(large, tmp_path / "tagger")
    tagger = Tagger(tmp_path / "tagger")
    for tokens, found in zip(X, small.predict_nbest(X, 8), strict=True):
        own, wanted = tagger.predict_nbest(tokens, 8), [one.log_probability for one in found]
        np.testing.assert_allclose([one.log_probability for one in own], wanted, **TOLERANCE)
        assert own[0].labels == tagger.predict(tokens) == found[0].labels
        assert [one.score for one in own] == [one.score + len(tokens) * SHIFT for one in found]
        assert tagger.log_likelihood(tokens, found[-1].labels) == pytest.approx(wanted[-1], abs=1e-8)
        own, (wanted,) = tagger.predict_marginals(tokens), small.predict_marginals([tokens])
        np.testing.assert_allclose(own, wanted, rtol=0, atol=1e-9)


def test_scores_of_other_models():
    rng = np.random.default_rng(0)
    scores, patterns = np.round(16 * rng.normal(size=(3000, 3))) / 16, {(0, 1): 0.5, (2, 2, 1): 1.25}
    y = rng.integers(3, size=3000)
    own, wanted = (sequence_log_likelihood(scores + by, y, patterns).log_likelihood for by in (SHIFT, 0.0))
    np.testing.assert_allclose(own, wanted, **TOLERANCE)

"""Conformal sets: coverage on drawn data, and sets by enumeration."""

import gzip
import itertools
import json
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf._estimator.fitted_model import FittedModel
from sklearn_hocrf.calibration import CalibratedSequenceLabeler, ConformalSequenceLabeler
from sklearn_hocrf.calibration._conformal import _Misses, _threshold
from sklearn_hocrf.feature_extraction import SequenceDictVectorizer, SequenceFeatureExtractor
from sklearn_hocrf.metrics import extract_segments
from sklearn_hocrf.pipeline import make_pipeline

TAGS = ["B-P", "I-P", "O"]
LEVELS = [
    {"level": "sequence"},
    {"level": "sequence", "conformity": "mass"},
    {"level": "token"},
    {"level": "token", "control": "mean"},
    {"level": "segment"},
]


def draw_tokens(n, random, longest=5):
    return [[[f"a{random.integers(4)}"] for _ in range(random.integers(longest + 1))] for _ in range(n)]


@pytest.fixture(scope="module")
def drawn():
    """Sequences with labels drawn from a model, and a model that is wrong about them: a temperature of 3."""
    random = np.random.default_rng(0)
    X = [x for x in draw_tokens(60, random) if x]
    y = [
        ["B-P" if a == "a0" else "I-P" if t and a == "a1" and x[t - 1] == ["a0"] else "O" for t, [a] in enumerate(x)]
        for x in X
    ]
    true = HighOrderCRF(sigma_reg=0.5, constraints="bio").fit([*X, [["a0"], ["a1"]]], [*y, ["B-P", "I-P"]])
    X = draw_tokens(3000, random)
    y = [labels for [labels] in true.sample(X, random_state=1)]
    return FittedModel(true).divided_by(3.0), X, y


# ---------------------------------------------------------------------------------------------------------- thresholds


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))), st.sampled_from([0.15, 0.3]))
def test_the_threshold_is_the_smallest_that_keeps_the_risk(parts, alpha):
    """Parts of the truth of 6 to 8 sequences, some of which have none, with many ties."""
    sequence, score = np.array([n for n, _ in parts], dtype=np.int64), np.array([s for _, s in parts])
    share = 1 / np.bincount(sequence, minlength=8)[sequence] if len(parts) else np.zeros(0)
    misses = _Misses(sequence, score, share, 8)

    def is_kept(threshold):
        losses = [sum(share[(sequence == n) & (score > threshold)]) for n in range(8)]
        return (sum(losses) + 1) / 9 <= alpha + 1e-12

    assert _threshold(misses, alpha) == min(s for s in {0.0, *score.tolist()} if is_kept(s))


@pytest.mark.parametrize("n", [9, 10, 19, 37])
def test_of_whole_sequences_it_is_the_quantile_of_split_conformal_prediction(n):
    score = np.random.default_rng(n).permutation(n) / n
    threshold = _threshold(_Misses(np.arange(n), score, np.ones(n), n), 0.1)
    assert threshold == np.sort(score)[int(np.ceil((n + 1) * 0.9 - 1e-9)) - 1]


def test_too_few_sequences():
    crf = HighOrderCRF().fit([[["a"], ["b"]]], [["x", "y"]])
    with pytest.raises(ValueError, match="alpha=0.1 needs at least 9 sequences, got 8"):
        ConformalSequenceLabeler(crf).fit([[["a"]]] * 8, [["x"]] * 8)
    ConformalSequenceLabeler(crf).fit([[["a"]]] * 9, [["x"]] * 9)


# ------------------------------------------------------------------------------------------------------------ coverage


@pytest.mark.parametrize("options", [one for one in LEVELS if one != LEVELS[3] and one["level"] != "segment"], ids=str)
def test_sequences_are_covered_though_the_model_is_wrong(drawn, options):
    model, X, y = drawn
    n, alpha = 500, 0.15
    conformal = ConformalSequenceLabeler(model, alpha=alpha, max_size=300, **options).fit(X[:n], y[:n])
    found = conformal.coverage(X[n:], y[n:])
    k, n_test = int(np.ceil((n + 1) * (1 - alpha))), len(X) - n
    least, most = (betabinom.ppf(p, n_test, k, n + 1 - k) / n_test for p in (1e-6, 1 - 1e-6))
    assert least <= found.coverage
    assert found.coverage <= most or options["level"] == "sequence"  # labellings tie: of few tokens there are few
    assert found.complete == 1
    assert found.shown == found.coverage
    assert model.log_likelihood(X, y).mean() < -0.1
    assert found.size > 1


@pytest.mark.parametrize("options", LEVELS, ids=str)
def test_the_expected_loss_is_kept(drawn, options):
    """Over 6,000 random divisions, whose mean loss differs from its expectation by .034 with probability 1e-6."""
    model, X, y = drawn
    alpha, n = 0.2, 15
    conformal = ConformalSequenceLabeler(model, alpha=alpha, **options)
    misses = conformal._misses(FittedModel(model), X, y)
    parts = [np.flatnonzero(misses.sequence == i) for i in range(len(X))]
    random, losses = np.random.default_rng(0), []
    for _ in range(6000):
        *chosen, last = random.integers(len(X), size=n + 1)
        rows = [parts[i] for i in chosen]
        index, sequence = np.concatenate(rows), np.repeat(np.arange(n), list(map(len, rows)))
        threshold = _threshold(_Misses(sequence, misses.score[index], misses.share[index], n), alpha)
        losses.append(misses.share[parts[last]] @ (misses.score[parts[last]] > threshold + 1e-9))
    slack = 0.034
    assert np.mean(losses) <= alpha + slack
    assert np.mean(losses) >= alpha - 1 / (n + 1) - 0.1 - slack  # not by sets that contain everything


@pytest.mark.slow
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_addresses_are_covered(data_dir, level):
    """A model of 150 addresses; coverage by 200 others is within what has probability 1e-6, ties on the upper side."""
    with gzip.open(data_dir / "usaddress" / "train.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for _, line in zip(range(650), file, strict=False)]
    order = np.random.default_rng(0).permutation(len(rows))
    X, y = [rows[i]["features"] for i in order], [rows[i]["labels"] for i in order]
    model = make_pipeline(SequenceDictVectorizer(), HighOrderCRF(tol=0.1)).fit(X[:150], y[:150])
    conformal = ConformalSequenceLabeler(model, level=level).fit(X[150:350], y[150:350])
    found = conformal.coverage(X[350:], y[350:]).coverage
    least, most = (betabinom.ppf(p, 300, 181, 20) / 300 for p in (1e-6, 1 - 1e-6))
    assert least <= found
    assert found <= most or level == "sequence"


# --------------------------------------------------------------------------------------------------------- enumeration


def brute_probabilities(model, tokens):
    """Return all possible labellings and their probabilities, the most probable first."""
    labellings = [list(one) for one in itertools.product(TAGS, repeat=len(tokens))]
    p = np.exp(model.log_likelihood([tokens] * len(labellings), labellings))
    order = np.argsort(-p, kind="stable")
    return [labellings[i] for i in order if p[i] > 0], p[order][p[order] > 0]


@pytest.mark.parametrize("conformity", ["probability", "mass"])
@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.7])
def test_sets_of_labellings_equal_enumeration(drawn, conformity, alpha):
    model, X, y = drawn
    conformal = ConformalSequenceLabeler(model, alpha=alpha, conformity=conformity, max_size=1000).fit(X[:200], y[:200])
    sizes = set()
    for x, found in zip(X[200:230], conformal.predict_set(X[200:230]), strict=True):
        labellings, p = brute_probabilities(model, x)
        before = np.array([p[p > q + 1e-9].sum() for q in p])
        kept = (1 - p if conformity == "probability" else before) <= conformal.threshold_ + 1e-9
        assert sorted(found.labellings) == sorted(one for one, is_in in zip(labellings, kept, strict=True) if is_in)
        np.testing.assert_allclose(found.probabilities, p[kept], atol=1e-12)
        assert found.complete
        sizes.add(len(found.labellings))
    assert len(sizes) > 2 or alpha == 0.7


@pytest.mark.parametrize("conformity", ["probability", "mass"])
def test_labellings_that_tie_are_in_or_out_together(conformity):
    X, y = [[["a"], ["a"]]] * 10, [["x", "x"], ["x", "y"], ["y", "x"], ["y", "y"], ["x", "x"]] * 2
    crf = HighOrderCRF(max_order=0, fit_intercept=False, sigma_reg=1e-9).fit(X, y)  # all four tie
    conformal = ConformalSequenceLabeler(crf, alpha=0.2, conformity=conformity).fit(X, y)
    [found] = conformal.predict_set(X[:1])
    assert len(found.labellings) == 4
    assert found.complete


@pytest.mark.parametrize("max_size", [1, 3, 4, 5])
def test_large_sets_are_cut(max_size):
    X, y = [[["a"], ["a"]]] * 10, [["x", "x"], ["x", "y"], ["y", "x"], ["y", "y"], ["x", "x"]] * 2
    crf = HighOrderCRF(max_order=0, fit_intercept=False, sigma_reg=1e-9).fit(X, y)
    conformal = ConformalSequenceLabeler(crf, alpha=0.2, max_size=max_size).fit(X, y)
    [found] = conformal.predict_set(X[:1])
    assert (len(found.labellings), found.complete) == (min(max_size, 4), max_size >= 4)
    coverage = conformal.coverage(X, y)
    assert coverage.coverage == 1
    assert coverage.complete == (max_size >= 4)


def test_sets_of_tokens_and_segments(drawn):
    model, X, y = drawn
    conformal = ConformalSequenceLabeler(model, alpha=0.3, level="token").fit(X[:200], y[:200])
    for table, one in zip(model.predict_marginals(X[200:230]), conformal.predict_set(X[200:230]), strict=True):
        for row, labels in zip(table, one, strict=True):
            assert labels == [TAGS[k] for k in np.argsort(-row) if row[k] >= 1 - conformal.threshold_ - 1e-9]
    conformal = ConformalSequenceLabeler(model, alpha=0.3, level="segment").fit(X[:200], y[:200])
    marginals = model.predict_segments(X[200:230], threshold=1 - conformal.threshold_ - 1e-9)
    assert [one.tolist() for one in conformal.predict_set(X[200:230])] == [one.tolist() for one in marginals]
    true = extract_segments(y[200:230], scheme="bio")
    shown = [{row[:3] for row in one.tolist()} for one in marginals]
    parts = [np.mean([s in some for s in one]) if one else 1.0 for one, some in zip(true, shown, strict=True)]
    assert conformal.coverage(X[200:230], y[200:230]).coverage == pytest.approx(np.mean(parts))


# ---------------------------------------------------------------------------------------------------- models and input


@pytest.mark.parametrize("scheme", ["bio", "runs", "segments"])
@pytest.mark.parametrize("options", LEVELS, ids=str)
def test_semi_crfs(drawn, scheme, options):
    _, X, y = drawn
    X, y = ([one for one in part[:100] if one] for part in (X, y))
    if scheme == "runs":
        y = [[tag[-1] for tag in tags] for tags in y]
    if scheme == "segments":
        y = [[(t, t + 1, tag[-1]) for t, tag in enumerate(tags)] for tags in y]
    crf = HighOrderSemiCRF(scheme=scheme).fit(X[:40], y[:40])
    conformal = ConformalSequenceLabeler(crf, alpha=0.2, **options).fit(X[:40], y[:40])
    found = conformal.coverage(X[:40], y[:40])
    assert found.coverage >= 0.8
    assert found.complete == 1
    assert conformal.predict(X[40:]) == crf.predict(X[40:])
    if options == LEVELS[0]:
        best = [max(one.labellings, default=None, key=lambda labels: 0) for one in conformal.predict_set(X[40:])]
        assert all(a is None or a == b for a, b in zip(best, crf.predict(X[40:]), strict=True))


def test_models_inside_of_other_estimators():
    X = [["a", "b"], ["b", "a"], ["b"]] * 10
    y = [["x", "y"], ["y", "x"], ["y"]] * 8 + [["x", "x"], ["x", "x"], ["x"]] * 2
    pipe = make_pipeline(SequenceFeatureExtractor([("w", 0)]), HighOrderCRF())
    fitted = pipe.fit(X, y)
    expected = ConformalSequenceLabeler(fitted).fit(X, y).predict_set(X[:3])
    assert ConformalSequenceLabeler(FrozenEstimator(fitted)).fit(X, y).predict_set(X[:3]) == expected
    calibrated = CalibratedSequenceLabeler(pipe, cv=3).fit(X, y)
    assert len(ConformalSequenceLabeler(calibrated).fit(X, y).predict_set(X[:3])) == 3
    again = pickle.loads(pickle.dumps(ConformalSequenceLabeler(fitted).fit(X, y)))
    assert again.predict_set(X[:3]) == expected
    kept = clone(ConformalSequenceLabeler(FrozenEstimator(fitted)))
    assert kept.fit(X, y).predict_set(X[:3]) == expected
    assert kept.classes_.tolist() == ["x", "y"]
    assert kept.score(X, y) == pipe.score(X, y)


def test_what_is_refused(drawn):
    model, X, y = drawn
    with pytest.raises(NotFittedError):
        ConformalSequenceLabeler(HighOrderCRF()).fit(X, y)
    with pytest.raises(NotFittedError):
        ConformalSequenceLabeler(model).predict_set(X)
    with pytest.raises(TypeError, match="estimator must be a HighOrderCRF"):
        ConformalSequenceLabeler(SequenceFeatureExtractor()).fit(X, y)
    with pytest.raises(ValueError, match="y has holes"):
        ConformalSequenceLabeler(model).fit([[["a0"], ["a1"]]] * 9, [["O", None]] * 9)
    with pytest.raises(ValueError, match="no probabilities"):
        ConformalSequenceLabeler(HighOrderCRF(objective="hinge").fit([[["a0"], ["a1"]]], [["O", "B-P"]])).fit(X, y)
    with pytest.raises(ValueError, match="alpha"):
        ConformalSequenceLabeler(model, alpha=1.0).fit(X, y)


def test_truths_of_probability_zero(drawn):
    """A label that training did not have is in no set of labels, and a few of them do no harm."""
    model, X, y = drawn
    odd = [["B-Z"] * len(labels) for labels in y[:40]]
    X, y = [x for x in X[:40] if x] * 2, [labels for labels in [*odd, *y[:40]] if labels]
    X = X[: len(y)]
    for options in LEVELS[:4]:
        with pytest.warns(UserWarning, match="sets contain everything"):
            conformal = ConformalSequenceLabeler(model, alpha=0.1, **options).fit(X, y)
        assert conformal.threshold_ == 1
    with pytest.raises(ValueError, match="sets would contain all possible segments"):
        ConformalSequenceLabeler(model, alpha=0.1, level="segment").fit(X, y)
    conformal = ConformalSequenceLabeler(model, alpha=0.6).fit(X, y)
    assert conformal.threshold_ < 1
    assert 0.4 <= conformal.coverage(X, y).coverage <= 0.5


@pytest.mark.parametrize(("length", "is_warned"), [(25, False), (35, True)])
def test_long_sequences_have_improbable_labellings(length, is_warned):
    """2 ** -25 can be told from 0, so that sets do not contain everything; 2 ** -35 cannot."""
    crf = HighOrderCRF(0, fit_intercept=False, sigma_reg=1e-9).fit([[["a"], ["b"]]], [["x", "y"]])
    X, y = [[["a"]] * length] * 10, [["x"] * length] * 10
    with warnings.catch_warnings(record=True, action="always") as caught:
        conformal = ConformalSequenceLabeler(crf, max_size=3).fit(X, y)
    assert [str(one.message)[:23] for one in caught] == ["sets contain everything"] * is_warned
    [found] = conformal.predict_set(X[:1])
    assert (len(found.labellings), found.complete) == (3, False)


def test_empty_sequences(drawn):
    model, X, y = drawn
    for options in LEVELS:
        conformal = ConformalSequenceLabeler(model, **options).fit(X[:100], y[:100])
        [found] = conformal.predict_set([[]])
        expected = {"sequence": ([[]], [1.0], True), "token": []}
        assert len(found) == 0 if options["level"] == "segment" else tuple(found) == tuple(expected[options["level"]])
        assert conformal.coverage([[]], [[]]).coverage == 1

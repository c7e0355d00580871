"""Conformal sets: coverage on random data, and sets by their definition."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals
from scipy.stats import betabinom
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf._estimator.answers.fitted import FittedModel
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, ConformalSequenceLabeler
from sklearn_hocrf.model_selection._conformal import _Misses, _threshold
from sklearn_hocrf.text import extract_segments

TAGS = ["B-P", "I-P", "O"]
LEVELS = ["token", "segment"]


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
    misses = _Misses(sequence, score, share, 8, [])

    def is_kept(threshold):
        losses = [sum(share[(sequence == n) & (score > threshold)]) for n in range(8)]
        return (sum(losses) + 1) / 9 <= alpha + 1e-12

    assert _threshold(misses, alpha) == min(s for s in {0.0, *score.tolist()} if is_kept(s))


@pytest.mark.parametrize("n", [9, 10, 19, 37])
def test_of_whole_sequences_it_is_the_quantile_of_split_conformal_prediction(n):
    score = np.random.default_rng(n).permutation(n) / n
    threshold = _threshold(_Misses(np.arange(n), score, np.ones(n), n, []), 0.1)
    assert threshold == np.sort(score)[int(np.ceil((n + 1) * 0.9 - 1e-9)) - 1]


def test_too_few_sequences():
    crf = HighOrderCRF().fit([[["a"], ["b"]]], [["x", "y"]])
    with pytest.raises(ValueError, match="alpha=0.1 needs at least 9 sequences, got 8"):
        ConformalSequenceLabeler(crf).fit([[["a"]]] * 8, [["x"]] * 8)
    ConformalSequenceLabeler(crf).fit([[["a"]]] * 9, [["x"]] * 9)


# ------------------------------------------------------------------------------------------------------------ coverage


def test_sequences_are_covered_though_the_model_is_wrong(drawn):
    model, X, y = drawn
    n, alpha = 500, 0.15
    conformal = ConformalSequenceLabeler(model, alpha=alpha).fit(X[:n], y[:n])
    found = conformal.coverage(X[n:], y[n:])
    k, n_test = int(np.ceil((n + 1) * (1 - alpha))), len(X) - n
    least, most = (betabinom.ppf(p, n_test, k, n + 1 - k) / n_test for p in (1e-6, 1 - 1e-6))
    assert least <= found.coverage <= most
    assert model.log_likelihood(X, y).mean() < -0.1
    assert found.size > 1


@pytest.mark.parametrize("level", LEVELS)
def test_the_expected_loss_is_kept(drawn, level):
    """Over 6,000 random divisions, whose mean loss differs from its expectation by .034 with probability 1e-6."""
    model, X, y = drawn
    alpha, n = 0.2, 15
    conformal = ConformalSequenceLabeler(model, alpha=alpha, level=level)
    misses = conformal._misses(FittedModel(model), X, y)
    parts = [np.flatnonzero(misses.sequence == i) for i in range(len(X))]
    random, losses = np.random.default_rng(0), []
    for _ in range(6000):
        *chosen, last = random.integers(len(X), size=n + 1)
        rows = [parts[i] for i in chosen]
        index, sequence = np.concatenate(rows), np.repeat(np.arange(n), list(map(len, rows)))
        threshold = _threshold(_Misses(sequence, misses.score[index], misses.share[index], n, []), alpha)
        losses.append(misses.share[parts[last]] @ (misses.score[parts[last]] > threshold + 1e-9))
    slack = 0.034
    assert np.mean(losses) <= alpha + slack
    assert np.mean(losses) >= alpha - 1 / (n + 1) - 0.1 - slack  # not by sets that contain everything


def counts_of(y, kind):
    return np.array([sum(label == kind for *_, label in of) for of in extract_segments(y, scheme="bio")])


def test_each_kind_of_sequence_is_covered(drawn):
    model, X, y = drawn
    n, alpha = 700, 0.15
    conformal = ConformalSequenceLabeler(model, alpha=alpha, strata=len).fit(X[:n], y[:n])
    plain = ConformalSequenceLabeler(model, alpha=alpha).fit(X[:n], y[:n])
    assert conformal.thresholds_[1] < plain.threshold_ < conformal.thresholds_[5]
    for length in 1, 3, 5:
        n_seen, new = sum(len(x) == length for x in X[:n]), [i for i in range(n, len(X)) if len(X[i]) == length]
        found = conformal.coverage([X[i] for i in new], [y[i] for i in new]).coverage
        k = int(np.ceil((n_seen + 1) * (1 - alpha)))
        least, most = (betabinom.ppf(p, len(new), k, n_seen + 1 - k) / len(new) for p in (1e-6, 1 - 1e-6))
        assert least <= found <= most
        sets = conformal.predict_set([X[i] for i in new])
        right = [all(a in b for a, b in zip(y[i], one, strict=True)) for i, one in zip(new, sets, strict=True)]
        assert found == pytest.approx(np.mean(right))


@pytest.mark.parametrize("level", LEVELS)
def test_one_kind_is_as_none(drawn, level):
    model, X, y = drawn
    strata = "label" if level == "segment" else lambda tokens: "all"
    some = [i for i in range(200) if level == "token" or counts_of(y[i : i + 1], "P")[0]]  # have a true segment
    given = [X[i] for i in some], [y[i] for i in some]
    one, none = (ConformalSequenceLabeler(model, level=level, strata=s).fit(*given) for s in (strata, None))
    assert list(one.thresholds_.values()) == [none.threshold_]
    assert one.coverage(X[200:300], y[200:300]) == none.coverage(X[200:300], y[200:300])


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.25]))
def test_each_kind_has_the_threshold_of_its_sequences(drawn, seed, alpha):
    """Kinds of fewer than 2 / alpha sequences have one together, or that of all where these are still too few."""
    model, X, y = drawn
    X, y = zip(*[(x, labels) for x, labels in zip(X[:160], y, strict=False) if x], strict=True)
    rng = np.random.default_rng(seed)
    kinds = rng.geometric(rng.uniform(0.2, 1.0), len(X))
    kind_of = dict(zip(map(id, X), kinds.tolist(), strict=True))

    def fitted(rows, strata=None):
        conformal = ConformalSequenceLabeler(model, alpha=alpha, strata=strata)
        return conformal.fit([X[i] for i in rows], [y[i] for i in rows])

    conformal = fitted(range(len(X)), lambda x: kind_of.get(id(x), "new"))
    rows = {kind: np.flatnonzero(kinds == kind) for kind in set(kinds.tolist())}
    alone = {kind: fitted(of) for kind, of in rows.items() if len(of) >= 2 / alpha}
    rare = np.flatnonzero(~np.isin(kinds, [*alone]))
    pool = fitted(rare if len(rare) >= 1 / alpha - 1 else range(len(X)))
    assert conformal.thresholds_ == {kind: one.threshold_ for kind, one in alone.items()}
    assert conformal.threshold_ == pool.threshold_
    for kind, of in rows.items():
        some = [X[i] for i in of[:5]]
        assert conformal.predict_set(some) == alone.get(kind, pool).predict_set(some)
    new = [[["a0"], ["a1"]]]
    assert conformal.predict_set(new) == pool.predict_set(new)


def test_each_label_of_segments_has_a_threshold():
    random = np.random.default_rng(0)
    X = [[[f"a{random.integers(3)}"] for _ in range(random.integers(1, 5))] for _ in range(500)]
    y = [
        ["pqr"[min(int(a[1]), random.integers(8))] if a != "a2" or random.random() < 0.7 else "r" for [a] in x]
        for x in X
    ]
    model = HighOrderSemiCRF(scheme="runs").fit(X[:100], y[:100])
    X, y, alpha = X[100:], y[100:], 0.2
    conformal = ConformalSequenceLabeler(model, alpha=alpha, level="segment", strata="label").fit(X, y)
    misses = conformal._misses(FittedModel(model), X, y)
    for label, threshold in conformal.thresholds_.items():
        of = np.array(misses.kind) == label
        sequences = np.unique(misses.sequence[of])

        def risk(threshold, of=of, sequences=sequences):
            shares = [np.mean(misses.score[of & (misses.sequence == i)] > threshold) for i in sequences]
            return (sum(shares) + 1) / (len(sequences) + 1)

        assert risk(threshold) <= alpha + 1e-9 < risk(threshold - 1e-6) or threshold == 0
    for one, every in zip(conformal.predict_set(X), model.predict_segments(X, threshold=1e-6), strict=True):
        threshold = [conformal.thresholds_.get(label, conformal.threshold_) for label in every["label"].tolist()]
        assert one.tolist() == every[1 - every["probability"] <= np.array(threshold) + 1e-9].tolist()


# ---------------------------------------------------------------------------------------------------------------- sets


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


def fitted_on_rows():
    return HighOrderCRF().fit(np.eye(12)[:, :2], list("xyz") * 4)


def test_strata_of_what_iterates_over_columns():
    rows = pytest.importorskip("pandas").DataFrame(np.eye(12)[:, :2])
    with pytest.raises(ValueError, match="strata needs X as a list of sequences: there are 12, not 2"):
        ConformalSequenceLabeler(fitted_on_rows(), strata=str).fit(rows, list("xyz") * 4)


@pytest.mark.parametrize("scheme", ["bio", "runs", "segments"])
@pytest.mark.parametrize("level", LEVELS)
def test_semi_crfs(drawn, scheme, level):
    _, X, y = drawn
    X, y = ([one for one in part[:100] if one] for part in (X, y))
    if scheme == "runs":
        y = [[tag[-1] for tag in tags] for tags in y]
    if scheme == "segments":
        y = [[(t, t + 1, tag[-1]) for t, tag in enumerate(tags)] for tags in y]
    crf = HighOrderSemiCRF(scheme=scheme).fit(X[:40], y[:40])
    conformal = ConformalSequenceLabeler(crf, alpha=0.2, level=level).fit(X[:40], y[:40])
    found = conformal.coverage(X[:40], y[:40])
    assert found.coverage >= 0.8
    assert conformal.predict(X[40:]) == crf.predict(X[40:])


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


def test_truths_of_probability_zero(drawn):
    """A label that training did not have is in no set of labels, and a few of them do no harm."""
    model, X, y = drawn
    odd = [["B-Z"] * len(labels) for labels in y[:40]]
    X, y = [x for x in X[:40] if x] * 2, [labels for labels in [*odd, *y[:40]] if labels]
    X = X[: len(y)]
    with pytest.warns(UserWarning, match="sets contain all labels"):
        conformal = ConformalSequenceLabeler(model, alpha=0.1).fit(X, y)
    assert conformal.threshold_ == 1
    with pytest.raises(ValueError, match="sets would contain all possible segments"):
        ConformalSequenceLabeler(model, alpha=0.1, level="segment").fit(X, y)
    conformal = ConformalSequenceLabeler(model, alpha=0.6).fit(X, y)
    assert conformal.threshold_ < 1
    assert 0.4 <= conformal.coverage(X, y).coverage <= 0.5


def test_empty_sequences(drawn):
    model, X, y = drawn
    for level in LEVELS:
        conformal = ConformalSequenceLabeler(model, level=level).fit(X[:100], y[:100])
        [found] = conformal.predict_set([[]])
        assert len(found) == 0
        assert conformal.coverage([[]], [[]]).coverage == 1


test_refusals = refusals(
    (lambda params: ConformalSequenceLabeler(fitted_on_rows(), **params).fit([], []),
     ("strata='label' is not for level='token'", {"strata": "label"}),
     ("strata=<built-in function len> is not for level='segment'", {"strata": len, "level": "segment"}),
     ("alpha", {"alpha": 1.0})),
    (lambda estimator: ConformalSequenceLabeler(estimator).fit([], []),
     (NotFittedError, ".", HighOrderCRF()),
     (TypeError, "estimator must be a HighOrderCRF", SequenceFeatureExtractor())),
    (lambda: ConformalSequenceLabeler(fitted_on_rows()).predict_set([]), (NotFittedError, ".")),
    (lambda: ConformalSequenceLabeler(fitted_on_rows()).fit(np.eye(12)[:, :2], [*"xyz" * 3, "x", "y", None]),
     "y has missing labels"),
)  # fmt: skip

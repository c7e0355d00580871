"""What models have learned, and why they predict: against sums over all labellings, in plain Python."""

import math
from collections import Counter

import numpy as np
import pytest
from refusals import refusals
from registry import tags_of, written
from test_known import labellings_of, random_chain, random_segments, random_words, with_random_weights

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.inspection import explain, weights_table
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SCHEMES = ["runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"]


# --- explanations -----------------------------------------------------------------------------------------------------


def token_intercepts(estimator):
    """Return the weights of tokens by pattern."""
    intercepts = getattr(estimator, "token_intercept_", [])
    return {(label,): float(w) for label, w in zip(estimator._state.targets.labels.tolist(), intercepts, strict=False)}


class Paths:
    """All labellings of one sequence as lists of (start, stop, label), with their log probabilities."""

    def __init__(self, estimator, words):
        self.estimator, self.words = estimator, words
        every, scheme = labellings_of(estimator, len(words)), getattr(estimator, "scheme", None)
        y = [list(s) if scheme is None else written(s, scheme) for s in every]
        log_p = estimator.log_likelihood([words] * len(y), y)
        possible = np.flatnonzero(log_p > -np.inf)
        self.log_p, labellings = log_p[possible], [every[i] for i in possible]
        self.scheme = getattr(estimator, "scheme_", None) if hasattr(estimator, "scheme") else None
        self.segments = labellings if self.scheme else [[(t, t + 1, y) for t, y in enumerate(z)] for z in labellings]
        best = np.flatnonzero(self.log_p >= self.log_p.max() - 1e-12)  # several where tokens are the same
        (decoded,) = estimator.predict([words])
        (self.best,) = [z for z in (self.segments[i] for i in best) if decoded in (self.labels(z), z)]

    def labels(self, segments):
        """Return the class of each token."""
        if self.scheme in ("bio", "bioes", "bilou", "bmes", "iob1"):
            return tags_of(segments, "bio" if self.scheme == "iob1" else self.scheme)
        return [label for start, stop, label in segments for _ in range(start, stop)]

    def highest(self, agrees):
        """Return the highest log probability among the labellings of which a function is true."""
        return max((p for p, segments in zip(self.log_p, self.segments, strict=True) if agrees(segments)), default=None)

    def counts(self, segments):
        """Return how often each weight counts: {(pattern, feature): value}."""
        coef, counts = self.estimator.coef_.toarray(), Counter()
        names = self.estimator.feature_names_in_.tolist()
        for i, (start, stop, _) in enumerate(segments):
            for row, pattern in enumerate(self.estimator.patterns_):
                if tuple(label for *_, label in segments[: i + 1])[-len(pattern) :] != pattern:
                    continue
                counts[pattern, None] += 1
                if len(pattern) == 1 and token_intercepts(self.estimator).get(pattern):
                    counts[pattern, "(each token)"] += stop - start
                for word in self.words[start:stop]:
                    for name in word:
                        if name in names and coef[row, names.index(name)] != 0:
                            counts[pattern, name] += 1
        return counts

    def check(self, explanation, agrees):
        """Compare an explanation with the labellings that say the other thing."""
        wanted = self.log_p.max() - self.highest(agrees)
        assert explanation.log_odds_paths == pytest.approx(wanted, abs=1e-10)
        assert math.fsum(row.contribution for row in explanation.table) == pytest.approx(wanted, abs=1e-10)
        both = [self.read(labels) for labels in (explanation.labels, explanation.labels_against)]
        assert both[0] == self.best
        assert agrees(both[1])
        counts = [self.counts(segments) for segments in both]
        own = dict(zip(self.estimator.patterns_, self.estimator.pattern_coef_, strict=True))
        counts[0].subtract(counts[1])
        expected = {key: n for key, n in counts[0].items() if n and (key[1] is not None or own[key[0]])}
        assert {(row.pattern, row.feature): row.value for row in explanation.table} == expected
        sizes = [abs(row.contribution) for row in explanation.table]
        assert sizes == sorted(sizes, reverse=True)
        for row in explanation.table:
            assert row.contribution == row.value * row.weight

    def read(self, labels):
        [segments] = [s for s in self.segments if labels in (self.labels(s), s)]
        return segments


def holder(segments, position):
    return next(segment for segment in segments if segment[0] <= position < segment[1])


def check_everything(estimator, words, rng):
    """Compare explanations of each kind."""
    paths = Paths(estimator, words)
    position = int(rng.integers(len(words)))
    best = holder(paths.best, position)
    explanation = explain(estimator, [[["a"]], words], 1, position)
    paths.check(explanation, lambda segments: holder(segments, position) != best)
    expected = best if paths.scheme else best[2]
    assert explanation.label == expected
    for label in estimator.classes_.tolist():
        agrees = lambda segments, label=label: paths.labels(segments)[position] == label  # noqa: E731
        if agrees(paths.best) or paths.highest(agrees) is None:
            with pytest.raises(ValueError, match=r"agrees with .* at position"):
                explain(estimator, [words], 0, position, against=label)
        else:
            paths.check(explain(estimator, [words], 0, position, against=label), agrees)
    paths.check(explain(estimator, [words]), lambda segments: segments != paths.best)
    truth = paths.segments[int(rng.integers(len(paths.segments)))]
    if truth != paths.best and paths.scheme != "iob1":
        y = truth if paths.scheme == "segments" else paths.labels(truth)
        paths.check(explain(estimator, [words], against=y), lambda segments: segments == truth)
        segment = holder(truth, position)
        if paths.scheme == "segments" and segment not in paths.best:
            paths.check(explain(estimator, [words], against=[segment]), lambda segments: segment in segments)


@pytest.mark.parametrize("seed", range(12))
def test_chains(seed):
    rng = np.random.default_rng(seed)
    estimator = random_chain(rng, max_order=int(rng.integers(0, 5)))
    if seed % 3 == 0:
        constraints = Constraints(forbid=[("x", "y"), ("z", "z", "z")], start=["x", "y"], end=["z", "x"])
        X, y = [[*random_words(rng, 5)]] * 2, [["x", "z", "y", "x", "z"], ["y", "z", "z", "x", "x"]]
        model = HighOrderCRF(3, constraints=constraints, feature_order=2, max_iter=0).fit(X, y)
        estimator = with_random_weights(model, rng)
    check_everything(estimator, [*random_words(rng, 3), ["a", "a", "new"]], rng)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", [0, 11, 16])  # in two of them the second best labelling has a longer segment
def test_segments(seed, scheme):
    rng = np.random.default_rng(seed)
    estimator = random_segments(rng, scheme, max_order=1 + seed % 3)
    check_everything(estimator, random_words(rng, 5), rng)


def test_features_of_segments_add_up():
    rng = np.random.default_rng(0)
    X = [[str(word) for word in rng.choice(list("abc"), 7)] for _ in range(6)]
    y = [[str(label) for label in np.repeat(rng.choice(list("xyz"), 4), [1, 2, 1, 3])] for _ in X]
    extractor = SegmentFeatureExtractor(begin=True, end=True, length=("capped", "gamma"), max_length=3)
    crf = HighOrderSemiCRF(2, feature_order={"begin:": (0, 1, 2), "end:": (1,)}, max_iter=0)
    pipe = make_pipeline(SequenceFeatureExtractor(), extractor, crf).fit(X, y)
    with_random_weights(pipe[-1], rng)
    for n in range(len(X)):
        (decoded,), (segments,) = pipe.predict([X[n]]), pipe.predict_segments([X[n]], threshold=0.0)
        p = {segment[:3]: segment[3] for segment in segments.tolist()}
        for position in range(0, 7, 3):
            explanation = explain(pipe, X, n, position)
            labels = [explanation.labels, explanation.labels_against]
            log_p = pipe.log_likelihood([X[n]] * 2, labels)
            wanted = pytest.approx(log_p[0] - log_p[1], abs=1e-10)
            assert explanation.log_odds_paths == wanted
            assert math.fsum(row.contribution for row in explanation.table) == wanted
            assert labels[0] == decoded
            odds = math.log(p[explanation.label] / p[explanation.against])
            assert explanation.log_odds_marginal == pytest.approx(odds, abs=1e-9)


def test_marginal_log_odds_of_labels():
    crf = random_chain(np.random.default_rng(0))
    words = [["a"], ["b"], ["c"]]
    p = dict(zip(crf.classes_.tolist(), crf.predict_marginals([words])[0][1], strict=True))
    explanation = explain(crf, [words], 0, 1)
    assert explanation.log_odds_marginal == pytest.approx(math.log(p[explanation.label] / p[explanation.against]))
    assert explain(crf, [words]).log_odds_marginal is None


def test_features_without_names():
    X, y = np.random.default_rng(0).normal(size=(4, 3, 2)), [["x", "y", "x"], ["y", "y", "x"]] * 2
    explanation = explain(HighOrderCRF().fit(X, y), X, 2, 1)
    assert {row.feature for row in explanation.table} <= {None, 0, 1}
    assert explanation.log_odds_paths == pytest.approx(sum(row.contribution for row in explanation.table))


# --- weights ----------------------------------------------------------------------------------------------------------


def all_weights(crf):
    """Return all weights, as coefficients have them."""
    coef, names = crf.coef_.tocoo(), crf.feature_names_in_.tolist()
    pairs = zip(coef.row.tolist(), coef.col.tolist(), coef.data.tolist(), strict=True)
    found = {(crf.patterns_[z], names[f]): w for z, f, w in pairs if w}
    own = zip(crf.patterns_, crf.pattern_coef_.tolist(), strict=True)
    of_tokens = {(pattern, "(each token)"): w for pattern, w in token_intercepts(crf).items() if w}
    return found | of_tokens | {(pattern, None): w for pattern, w in own if w}


@pytest.mark.parametrize("kind", ["chain", "segments"])
def test_weights_are_those_of_the_model(kind):
    rng = np.random.default_rng(0)
    crf = random_chain(rng, 3) if kind == "chain" else random_segments(rng, "runs", 2)
    expected = all_weights(crf)
    table = weights_table(crf, top=None)
    assert {(row.pattern, row.feature): row.weight for row in table} == expected
    assert [abs(row.weight) for row in table] == sorted(map(abs, expected.values()), reverse=True)
    assert all(row.order == len(row.pattern) - 1 for row in table)
    assert weights_table(crf) == table[:20]
    assert weights_table(crf, top=None, label="x") == [row for row in table if row.pattern[-1] == "x"]
    assert weights_table(crf, top=None, order=[0, 2]) == [row for row in table if row.order in (0, 2)]
    asked = [("a", ["a"]), (False, [None, "(each token)"])]
    for feature, chosen in [*asked, ("(each token)", ["(each token)"])][: 3 if kind == "segments" else 2]:
        assert weights_table(crf, top=None, feature=feature) == [row for row in table if row.feature in chosen] != []
    assert weights_table(crf, top=None, feature=True) == [
        row for row in table if row.feature not in (None, "(each token)")
    ]
    combined = weights_table(crf, top=3, feature="a", order=0, label="y")
    assert all(row[:3] == (("y",), 0, "a") for row in combined)


def test_names_of_a_pipeline():
    X, y = [["the", "w=x", "man"], ["the", "man"]], [["A", "B", "A"], ["A", "B"]]
    pipe = make_pipeline(SequenceFeatureExtractor([("w", 0), ("w", -1)]), HighOrderCRF()).fit(X, y)
    assert "w[0]=w=x" in {row.feature for row in weights_table(pipe, top=None)}
    with pytest.warns(UserWarning, match="temperature is at a bound"):
        calibrated = CalibratedSequenceLabeler(pipe, cv=2).fit(X * 2, [*y, *y])
    scaled = {row[:3]: row.weight * calibrated.temperature_ for row in weights_table(calibrated, top=None)}
    fitted = make_pipeline(SequenceFeatureExtractor([("w", 0), ("w", -1)]), HighOrderCRF()).fit(X * 2, [*y, *y])
    assert scaled == pytest.approx({row[:3]: row.weight for row in weights_table(fitted, top=None)})


test_refusals = refusals(
    (lambda params: explain(random_chain(np.random.default_rng(0)), [[["a"], ["b"], ["c"]], []], **params),
     ("sequence=2 is out of range", {"sequence": 2}),
     ("sequence=-1", {"sequence": -1}),
     (TypeError, "must be an integer", {"sequence": 0.5}),
     ("position=3 is out of range: there are 3", {"position": 3}),
     ("'w' is not one of the classes", {"position": 1, "against": "w"}),
     ("not one of the classes", {"position": 1, "against": ["x"]}),
     ("1 label", {"against": ["x"]})),
    (lambda value: explain(
         HighOrderSemiCRF(scheme="segments", segment_length=1).fit([[["a"], ["b"]]], [[(0, 1, "x"), (1, 2, "x")]]),
         [[["a"], ["b"]]], 0, value),
     ("nothing to explain", None, 0)),
    (lambda params: weights_table(random_chain(np.random.default_rng(0)), **params),
     ("unknown label='w'", {"label": "w"}),
     ("feature='w' matches none of the 4 features", {"feature": "w"}),
     ("feature=9", {"feature": 9}),
     ("feature=0.5 matches none", {"feature": 0.5}),
     ("orders 0 to 2", {"order": 3}, {"order": []}),
     (TypeError, "order must be an integer.*1.0", {"order": 1.0}),
     (TypeError, "order must be an integer.*True", {"order": True}),
     (TypeError, "order must be an integer", {"order": [0, 1.0]}),
     (TypeError, "order must be an integer.*'1'", {"order": "1"}),
     ("top must be", {"top": 0})),
)  # fmt: skip

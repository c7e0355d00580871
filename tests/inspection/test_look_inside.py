"""The weights of models and the explanations of predictions, against sums over all labellings in plain Python."""

import math
from collections import Counter

import numpy as np
import pytest
from refusals import refusals
from test_known import labellings_of, random_chain, random_segments, random_words, with_random_weights

from sklearn_hocrf import Constraints, HighOrderCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
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
    """All labellings of one sequence, with their log probabilities."""

    def __init__(self, estimator, words):
        self.estimator, self.words = estimator, words
        every = labellings_of(estimator, len(words))
        log_p = estimator.log_likelihood([words] * len(every), [list(labels) for labels in every])
        possible = np.flatnonzero(log_p > -np.inf)
        self.log_p, self.labellings = log_p[possible], [list(every[i]) for i in possible]
        (self.best,) = estimator.predict([words])
        assert self.highest(lambda labels: labels == self.best) >= self.log_p.max() - 1e-12

    def highest(self, agrees):
        """Return the highest log probability among the labellings of which a function is true."""
        return max((p for p, labels in zip(self.log_p, self.labellings, strict=True) if agrees(labels)), default=None)

    def counts(self, labels):
        """Return how often each weight counts: {(pattern, feature): value}."""
        coef, counts = self.estimator.coef_.toarray(), Counter()
        names = self.estimator.feature_names_in_.tolist()
        for t, word in enumerate(self.words):
            for row, pattern in enumerate(self.estimator.patterns_):
                if tuple(labels[: t + 1])[-len(pattern) :] != pattern:
                    continue
                counts[pattern, None] += 1
                for name in word:
                    if name in names and coef[row, names.index(name)] != 0:
                        counts[pattern, name] += 1
        return counts

    def check(self, explanation, agrees):
        """Compare an explanation with the labellings that say the other thing."""
        wanted = self.log_p.max() - self.highest(agrees)
        assert explanation.log_odds_paths == pytest.approx(wanted, abs=1e-10)
        assert math.fsum(row.contribution for row in explanation.table) == pytest.approx(wanted, abs=1e-10)
        both = [explanation.labels, explanation.labels_against]
        assert both[0] == self.best
        assert agrees(both[1])
        counts = [self.counts(labels) for labels in both]
        own = dict(zip(self.estimator.patterns_, self.estimator.pattern_coef_, strict=True))
        counts[0].subtract(counts[1])
        expected = {key: n for key, n in counts[0].items() if n and (key[1] is not None or own[key[0]])}
        assert {(row.pattern, row.feature): row.value for row in explanation.table} == expected
        sizes = [abs(row.contribution) for row in explanation.table]
        assert sizes == sorted(sizes, reverse=True)
        for row in explanation.table:
            assert row.contribution == row.value * row.weight


def check_everything(estimator, words, rng):
    """Compare explanations of each kind."""
    paths = Paths(estimator, words)
    position = int(rng.integers(len(words)))
    best = paths.best[position]
    explanation = explain(estimator, [[["a"]], words], 1, position)
    paths.check(explanation, lambda labels: labels[position] != best)
    assert explanation.label == best
    for label in estimator.classes_.tolist():
        agrees = lambda labels, label=label: labels[position] == label  # noqa: E731
        if agrees(paths.best) or paths.highest(agrees) is None:
            with pytest.raises(ValueError, match=r"agrees with .* at position"):
                explain(estimator, [words], 0, position, against=label)
        else:
            paths.check(explain(estimator, [words], 0, position, against=label), agrees)
    paths.check(explain(estimator, [words]), lambda labels: labels != paths.best)
    truth = paths.labellings[int(rng.integers(len(paths.labellings)))]
    if truth != paths.best:
        paths.check(explain(estimator, [words], against=truth), lambda labels: labels == truth)
    if truth[position] != best:
        partial = [label if t == position else None for t, label in enumerate(truth)]
        paths.check(explain(estimator, [words], against=partial), lambda labels: labels[position] == truth[position])


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


@pytest.mark.parametrize("scheme", ["runs", "bio", "segments"])
def test_segments_have_no_explanations(scheme):
    words = random_words(np.random.default_rng(0), 5)
    estimator = random_segments(np.random.default_rng(0), scheme)
    for fitted in (estimator, make_pipeline(estimator)):
        with pytest.raises(TypeError, match="explain is for HighOrderCRF, got a HighOrderSemiCRF; weights_table shows"):
            explain(fitted, [words], 0, 1)


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
         HighOrderCRF(1, constraints=Constraints(start=["x"], end=["y"])).fit([[["a"], ["b"]]], [["x", "y"]]),
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

"""Histories of segments that tags, or runs of labels, describe: drawn models against lists of labels."""

import itertools
from collections import Counter

import numpy as np
import pytest
import registry
import segment_oracle as so
from hypothesis import assume, given
from hypothesis import strategies as st
from internals import NegativeLogLikelihood
from registry import Kind, Labellings, crf, fits, hide, parts_of, problem_of, tags_of

from sklearn_hocrf import Constraints, HighOrderCRF

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:only")
SCHEMES = ["runs", "bio", "bioes", "bilou", "bmes", "iob1"]
RULES = {
    "a pair": Constraints(forbid=[("P", "Q")]),
    "staying": Constraints(forbid=[("O", "O"), ("P", "Q", "O")], end=["O", "P"]),
    "a longer run": Constraints(forbid=[("O", "P", "O", "Q")]),
}


def segmentations(n_tokens, scheme, before=None):
    """Yield all lists of (start, stop, label) of O, P and Q; an O is one token, a run does not follow its like."""
    if n_tokens == 0:
        yield []
    for length, label in itertools.product(range(1, n_tokens + 1), "OPQ"):
        if (scheme == "runs" and label == before) or (scheme != "runs" and label == "O" and length > 1):
            continue
        for rest in segmentations(n_tokens - length, scheme, label):
            yield [(0, length, label), *((u + length, v + length, y) for u, v, y in rest)]


def labellings(n_tokens, scheme, classes):
    """Return all right labellings of some classes."""
    every = {
        tuple(registry.written(s, "runs") if scheme == "runs" else tags_of(s, scheme))
        for s in segmentations(n_tokens, scheme)
    }
    return sorted(labels for labels in every if {*labels} <= {*classes})


def keeps(rules, labels):
    """Say whether labels of tokens keep constraints on segments, which are runs."""
    runs = tuple(y for y, _ in itertools.groupby(labels))
    found = {*itertools.pairwise(labels)} | {runs[i:j] for i, j in itertools.combinations(range(len(runs) + 1), 2)}
    return found.isdisjoint(rules.forbid) and labels[-1] in (rules.end or labels)


@st.composite
def drawn(draw):
    """Draw a kind, its words and labels for training, and sequences of new words."""
    scheme, order = draw(st.sampled_from(SCHEMES)), draw(st.integers(0, 4))
    rules = RULES.get(draw(st.sampled_from([None, None, *RULES]))) if scheme == "runs" else None
    words = draw(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), min_size=1, max_size=4))
    classes = set("OPQ") if scheme == "runs" else {tag for s in segmentations(4, scheme) for tag in tags_of(s, scheme)}
    choices = [labellings(len(of), scheme, classes) for of in words]
    choices = [[y for y in of if rules is None or keeps(rules, y)] for of in choices]
    y = [list(draw(st.sampled_from(of))) for of in choices if of]
    options = {
        "constraints": rules if scheme == "runs" else scheme,
        "patterns": draw(st.sampled_from(["observed", "all" if order < 3 else "observed"])),
        "min_count": draw(st.sampled_from([1, 1, 2])),
        "feature_order": draw(st.integers(0, 2)),
        "all_pairs": draw(st.booleans()),
        "label_parts": draw(st.sampled_from([None, parts_of])) if scheme != "runs" else None,
        "fit_intercept": draw(st.booleans()),
    }
    kind = Kind(crf(order, history="segments", max_iter=2, **options), partial=draw(st.booleans()))
    new = draw(st.lists(st.lists(st.sampled_from("abcdz"), min_size=1, max_size=5), min_size=1, max_size=2))
    return scheme, rules, kind, [of for of, some in zip(words, choices, strict=True) if some], y, new


@given(drawn(), st.integers(0, 2**32 - 1))
def test_all_answers_and_the_objective_are_those_of_lists(case, seed):
    scheme, rules, kind, words, y, new = case
    rng = np.random.default_rng(seed)
    if kind.partial and len(y) > 1:
        y = [y[0], *([hide(rng, label, sorted({*y[0]})) for label in labels] for labels in y[1:])]
    known = {one for labels in y for entry in labels for one in (entry if isinstance(entry, set) else {entry})} - {None}
    assume(len(known) > 1 and (rules is None or known == {*"OPQ"}))
    for labels in y:
        assume(any(all(map(fits, labels, one)) for one in labellings(len(labels), scheme, known)))
    estimator = kind.estimator.fit(kind.X(words), y)
    classes = estimator.classes_.tolist()
    assert {*classes} == known
    problem = problem_of(estimator, kind.X(words), y)
    estimator._state._replace(layout=problem.layout, weights=2 * rng.normal(size=problem.n_weights)).set_on(estimator)
    value = 0.0
    for of, labels in zip(words, y, strict=True):
        every = all_of(kind, estimator, of, scheme, rules, classes)
        agrees = np.array([all(map(fits, labels, one)) for one in every.y])
        value -= np.logaddexp.reduce(every.log_p[agrees])
    objective, w = NegativeLogLikelihood().bind(problem), estimator._weights
    assert objective.value_gradient(w)[0] == pytest.approx(value, rel=1e-9, abs=1e-9)
    direction = rng.normal(size=len(w))
    ends = [objective.value(w + step * direction) for step in (1e-5, -1e-5)]
    assert objective.value_gradient(w)[1] @ direction == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)
    for of in new:
        check_answers(all_of(kind, estimator, of, scheme, rules, classes), estimator, rng)


def all_of(kind, estimator, words, scheme, rules, classes):
    chosen = [y for y in labellings(len(words), scheme, classes) if rules is None or keeps(rules, y)]
    return Labellings(kind, estimator, words, chosen)


def check_answers(every, estimator, rng):
    """Compare answers with those of all labellings that are right; others have probability 0."""
    if not every.y:
        return
    X, n, p, slack = every.X(1), len(every.y), np.exp(every.log_p), 100 * every.tolerance
    np.testing.assert_allclose(estimator.log_likelihood(every.X(n), every.y), every.log_p, rtol=1e-9, atol=slack)
    wrong = [list(y) for y in itertools.product(estimator.classes_.tolist(), repeat=len(every.words))][:300]
    wrong = [y for y in wrong if y not in every.y]
    assert np.isneginf(estimator.log_likelihood(every.X(len(wrong)), wrong)).all()
    assert every.scores[every.y.index(estimator.predict(X)[0])] >= every.scores.max() - slack
    best = estimator.predict_nbest(X, 5)[0]
    found = [every.log_p[every.y.index(one.labels)] for one in best]
    np.testing.assert_allclose(found, np.sort(every.log_p)[::-1][:5], rtol=1e-9, atol=slack)
    assert all(labels in every.y for labels in estimator.sample(X, 5, random_state=0)[0])
    facts, agrees = every.draw_known(rng)
    for known, given_p in (None, p), ([facts], every.given(agrees)):
        patterns = registry.some_patterns(estimator)
        of_tokens, of_patterns = every.token_table(given_p), every.pattern_table(patterns, given_p)
        np.testing.assert_allclose(estimator.predict_marginals(X, known=known)[0], of_tokens, rtol=1e-8, atol=slack)
        found = estimator.pattern_marginals(X, patterns, known=known)[0]
        np.testing.assert_allclose(found, of_patterns, rtol=1e-8, atol=slack)


@given(drawn())
def test_patterns_are_those_that_occur(case):
    _, rules, kind, words, y, _ = case
    known = {label for labels in y for label in labels}
    assume(len(known) > 1 and (rules is None or known == {*"OPQ"}) and kind.estimator.patterns == "observed")
    estimator = kind.estimator.fit(kind.X(words), y)
    history, counts = registry.history_of(estimator), Counter()
    for labels in y:
        for t in range(len(labels)):
            counts.update(
                z for z in so.patterns_of(tuple(labels[: t + 1]), history) if len(z) <= estimator.max_order + 1
            )
    expected = {z for z, count in counts.items() if len(z) == 1 or count >= estimator.min_count}
    assert {*estimator.patterns_} == expected
    singles = [(label,) for label in estimator.classes_.tolist()]
    assert estimator.patterns_[: len(singles)] == singles


X = [[["a"], ["b"], ["c"], ["d"], ["a"]], [["c"], ["a"]]]
Y = [["B-P", "I-P", "O", "O", "B-Q"], ["B-P", "B-P"]]


def test_a_border_has_one_weight_and_staying_one_for_each_pair_of_tags():
    model = HighOrderCRF(2, history="segments", constraints="bio").fit(X, Y)
    pairs = [("B-P", "I-P"), ("O", "O"), ("O", "Q"), ("P", "O"), ("P", "P")]
    assert [z for z in model.patterns_ if len(z) == 2] == pairs
    model = HighOrderCRF(1, history="segments", constraints="bio", patterns="all").fit(X, Y)
    pairs = {("I-P", "I-P"), *pairs, ("O", "P"), ("P", "Q"), ("Q", "O"), ("Q", "P"), ("Q", "Q")}
    assert {z for z in model.patterns_ if len(z) == 2} == pairs


@pytest.mark.parametrize(
    "pattern", [("P",), ("O", "O", "P"), ("I-P", "B-P"), ("P", "R"), ("B-P", "I-P", "O"), ("P", [])]
)
def test_patterns_that_cannot_be(pattern):
    with pytest.raises(ValueError, match="is neither a tag, nor"):
        HighOrderCRF(3, history="segments", constraints="bio", patterns=[pattern]).fit(X, Y)

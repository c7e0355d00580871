"""Histories of segments that tags, or runs of labels, describe: drawn models against lists of labels."""

import itertools
from collections import Counter

import pytest
import registry
import segment_oracle as so
from hypothesis import assume, given
from hypothesis import strategies as st
from registry import Kind, crf, parts_of, tags_of

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
    """Draw rules, a kind, and its words and labels for training."""
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
    kind = Kind(crf(order, history="segments", max_iter=2, **options))
    return rules, kind, [of for of, some in zip(words, choices, strict=True) if some], y


@given(drawn())
def test_patterns_are_those_that_occur(case):
    rules, kind, words, y = case
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

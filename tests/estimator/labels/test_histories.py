"""Histories of segments, which are runs of equal labels: patterns of random data against lists of labels."""

import itertools
from collections import Counter

import pytest
import segment_oracle as so
from hypothesis import assume, given
from hypothesis import strategies as st
from registry import Kind, crf

from sklearn_hocrf import Constraints

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:only")
RULES = [
    Constraints(forbid=[("P", "Q")]),
    Constraints(forbid=[("O", "O"), ("P", "Q", "O")], end=["O", "P"]),
    Constraints(forbid=[("O", "P", "O", "Q")]),
]


def keeps(rules, labels):
    """Say whether labels of tokens keep constraints on segments, which are runs."""
    runs = tuple(y for y, _ in itertools.groupby(labels))
    found = {*itertools.pairwise(labels)} | {runs[i:j] for i, j in itertools.combinations(range(len(runs) + 1), 2)}
    return found.isdisjoint(rules.forbid) and labels[-1] in (rules.end or labels)


@st.composite
def drawn(draw):
    """Draw a kind, and its words and labels for training."""
    order, rules = draw(st.integers(0, 4)), draw(st.sampled_from([None, None, None, *RULES]))
    words = draw(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), min_size=1, max_size=4))
    choices = [[*itertools.product("OPQ", repeat=len(of))] for of in words]
    choices = [[y for y in of if rules is None or keeps(rules, y)] for of in choices]
    y = [list(draw(st.sampled_from(of))) for of in choices if of]
    options = {"constraints": rules, "min_count": draw(st.sampled_from([1, 1, 2]))}
    kind = Kind(crf(order, history="segments", max_iter=2, **options), partial=draw(st.booleans()))
    return rules, kind, [of for of, some in zip(words, choices, strict=True) if some], y


@given(drawn())
def test_patterns_are_those_that_occur(case):
    rules, kind, words, y = case
    known = {label for labels in y for label in labels}
    assume(len(known) > 1 and (rules is None or known == {*"OPQ"}))
    estimator = kind.estimator.fit(kind.X(words), y)
    counts = Counter()
    for labels in y:
        for t in range(len(labels)):
            ending = so.patterns_of(tuple(labels[: t + 1]), "segments")
            counts.update(z for z in ending if len(z) <= estimator.max_order + 1)
    expected = {z for z, count in counts.items() if len(z) == 1 or count >= estimator.min_count}
    assert {*estimator.patterns_} == expected
    singles = [(label,) for label in estimator.classes_.tolist()]
    assert estimator.patterns_[: len(singles)] == singles

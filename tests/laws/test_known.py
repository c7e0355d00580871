"""Queries given known labels, and probabilities of events, against the sum over all labellings."""

import itertools
from functools import cache

import numpy as np
import pytest
import segment_oracle
from refusals import refusals
from registry import LETTERS, fits, written
from sklearn.pipeline import Pipeline

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

WORDS = "abcd"


def random_words(rng, length):
    return [[str(word)] for word in rng.choice(list(WORDS), length)]


def with_random_weights(estimator, rng, scale=1.5):
    estimator._state._replace(weights=scale * rng.normal(size=len(estimator._state.weights))).set_on(estimator)
    return estimator


def random_chain(rng, max_order=2):
    """Return a model of three labels with random weights."""
    X = [random_words(rng, 6) for _ in range(4)]
    y = [[str(label) for label in rng.choice(list("xyz"), 6)] for _ in range(3)] + [list("xyzxyz")]
    return with_random_weights(HighOrderCRF(max_order, max_iter=0).fit(X, y), rng)


def random_segments(rng, scheme, max_order=1):
    """Return a semi-CRF with random weights and the labels x, y and O, with at most 3, 2 and 1 tokens a segment.

    Inside of sequences, y has no fewer than 2.
    """
    X = [[["a"], *random_words(rng, 6)], [["b"], ["c"], ["d"], ["a"]]]
    segmentations = [
        [(0, 3, "x"), (3, 4, "O"), (4, 6, "y"), (6, 7, "x")],
        [(0, 1, "O"), (1, 2, "x"), (2, 3, "O"), (3, 4, "y")],
    ]
    y = [written(segmentation, scheme) for segmentation in segmentations]
    estimator = HighOrderSemiCRF(max_order, scheme=scheme, segment_length={"y": (2, None)}, max_iter=0)
    return with_random_weights(estimator.fit(X, y), rng)


def labellings_of(estimator, length):
    """Return all labellings of so many tokens: tuples of labels, or lists of (start, stop, label)."""
    if isinstance(estimator, HighOrderCRF):
        return list(itertools.product(estimator.classes_.tolist(), repeat=length))
    labels = estimator.segment_labels_.tolist()
    shortest, longest = zip(*(estimator.segment_length_[label] for label in labels), strict=True)
    model = segment_oracle.Model(len(labels), longest, estimator.scheme_ != "runs", {}, {}, shortest)
    every = segment_oracle.segmentations(model, length)
    return [[(u, v, labels[y]) for u, v, y in segmentation] for segmentation in every]


@pytest.mark.parametrize("scheme", LETTERS)
def test_tags_that_break_the_rules_are_read_as_in_fit(scheme):
    """A sequence without labels, which makes all of y take the way of missing labels, changes no other sequence."""
    rng = np.random.default_rng(3)
    estimator = random_segments(rng, scheme)
    tags = ["O", *(f"{letter}-{label}" for letter in LETTERS[scheme] for label in "xy")]
    words = random_words(rng, 4)
    y = [[str(tag) for tag in rng.choice(tags, 4)] for _ in range(300)]
    complete = estimator.log_likelihood([words] * 300, y)
    with_missing = estimator.log_likelihood([words] * 301, [*y, None])
    np.testing.assert_allclose(with_missing, [*complete, 0.0], rtol=0, atol=1e-12)
    assert np.isinf(complete).any()
    assert np.isfinite(complete).sum() > 100
    known = [labels for labels, one in zip(y, complete, strict=True) if one > -np.inf]
    found = estimator.predict([words] * len(known), known=known)
    again = estimator.log_likelihood([words] * len(known), found)
    np.testing.assert_allclose(again, complete[np.isfinite(complete)], rtol=0, atol=1e-12)


def test_whole_sequences_and_masked_arrays():
    rng = np.random.default_rng(6)
    estimator = random_chain(rng)
    X = [random_words(rng, 3), random_words(rng, 2)]
    assert estimator.predict(X, known=[None, None]) == estimator.predict(X)
    np.testing.assert_array_equal(estimator.log_likelihood(X, [None, [None, None]]), [0.0, 0.0])
    integers = HighOrderCRF().fit(np.eye(3), [0, 1, 2])
    masked = np.ma.array([0, 2, 0], mask=[True, False, True])
    assert integers.predict(np.eye(3), known=masked).tolist() == [0, 2, 2]
    grid = HighOrderCRF(max_iter=3).fit(np.ones((2, 3, 1)), [[0, 1, 2], [2, 1, 0]])
    known = np.array([[None, 2, None], [1, None, {0}]], dtype=object)
    assert grid.predict(np.ones((2, 3, 1)), known=known)[[0, 1, 1], [1, 0, 2]].tolist() == [2, 1, 0]


def test_unknown_labels_of_events():
    estimator = random_chain(np.random.default_rng(8))
    X, y = [[["a"], ["b"]]] * 3, [["x", None], [None, "other"], [{"other", "x"}, None]]
    with pytest.raises(ValueError, match=r"unknown label 'other' of y \(sequence 1, position 1\)"):
        estimator.log_likelihood(X, y)
    found = estimator.log_likelihood(X, y, unknown="impossible")
    assert found[0] == found[2] > -np.inf == found[1]


# --- pipelines and cross-validation -----------------------------------------------------------------------------------

SENTENCES = [["the", "old", "man"], ["the", "man", "walks"], ["old", "men", "walk"], ["the", "men", "walk"]]
TAGS = [["D", "A", "N"], ["D", "N", "V"], ["A", "N", "V"], ["D", "N", "V"]]
KNOWN = [["V", None, None], [None, "V", {"A", "D"}], None, [None, None, "A"]]


def agree(known, predicted):
    return all(
        entries is None or all(map(fits, entries, labels)) for entries, labels in zip(known, predicted, strict=True)
    )


def test_through_pipelines():
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(SENTENCES, TAGS)
    assert agree(KNOWN, pipe.predict(SENTENCES, known=KNOWN))
    assert not agree(KNOWN, pipe.predict(SENTENCES))
    marginals = pipe.predict_marginals(SENTENCES, known=KNOWN)
    assert marginals[0][0].round(9).tolist() == [0, 0, 0, 1]
    assert (pipe.log_likelihood(SENTENCES, KNOWN) < 0).tolist() == [True, True, False, True]
    plain = Pipeline(pipe.steps)
    assert plain.predict(SENTENCES, known=KNOWN) == pipe.predict(SENTENCES, known=KNOWN)
    np.testing.assert_array_equal(plain.predict_proba(SENTENCES, known=KNOWN)[0], marginals[0])


@cache
def model_of(scheme):
    """Return a model that is asked what it must refuse: without a scheme, a CRF."""
    return random_segments(np.random.default_rng(10), scheme) if scheme else random_chain(np.random.default_rng(9))


def ask_segments(known, method, scheme):
    return getattr(model_of(scheme), method)([[["a"]] * 2, [["b"]] * 4], known=[None, known])


OF_LABELS = "predict", "predict_segments", "predict_nbest", "sample"


@pytest.mark.parametrize("method", [*OF_LABELS, pytest.param("entropy", marks=pytest.mark.slow)])  # compiles kernels
@pytest.mark.parametrize(
    ("scheme", "known", "left"),
    [
        ("bio", ["B-y", "I-y", "I-y", None], 2),
        ("bio", [None, None, "I-y", "I-y"], 3),
        ("runs", ["O", "O", None, None], 1),
        ("segments", [(0, 3, "y")], 2),
    ],
)
def test_segments_with_which_no_labelling_agrees(scheme, known, left, method):
    with pytest.raises(ValueError, match=f"sequence 1: no labelling agrees with 'known'.* none left is {left}$"):
        ask_segments(known, method, scheme)


test_refusals = refusals(
    *((lambda known, method=method: getattr(model_of(None), method)([[["a"], ["b"], ["c"]]], known=known),
       (r"known has an empty set \(sequence 0, position 1\)", [["x", set(), None]], [["x", frozenset(), None]]),
       (r"unknown label 'other' of known \(sequence 0, position 1\)", [["x", "other", None]],
        [["x", {"x", "other"}, None]]),
       ("sequence 0 has 3 tokens in X, but 2 labels in known", [["x", None]]),
       ("X has 1 sequences, known has 2", [["x", None, None], None]),
       (TypeError, r"hashable, but \['x'\] \(sequence 0, position 1\) is a list", [[None, ["x"], None]]),
       (r"known contains NaN \(sequence 0, position 2\)", [[None, None, float("nan")]]),
       (r"known has the label -100 \(sequence 0, position 1\): is it Hugging", [[None, -100, None]]),
       ("each token needs a label, or None if it is unknown", [[None, -100, None]]),
       (TypeError, r"\(sequence 0, position 1\) is a list; use a set if the label is ", [[None, ["a", "b"], None]]),
       (r"known has the label None \(sequence 0, position 1\)", [[None, {None, "x"}, None]]),
       (TypeError, r"known is 'xyz' \(str\)", "xyz"),
       (TypeError, r"known\[0\] \(sequence 0\) is 'xyz' \(str\)", ["xyz"]),
       (TypeError, r"known is {'x'} \(set\), but must be a list of sequences of labels, or an array", {"x"}))
      for method in ("predict", "predict_marginals", "predict_proba")),
    (lambda: with_random_weights(HighOrderCRF(
         constraints=Constraints(forbid=[("D", "D")], start=["D", "A"], end=["N", "V"]), max_iter=0).fit(
         [[[word] for word in words] for words in SENTENCES], TAGS), np.random.default_rng(12)).predict(
         [[[word] for word in words] for words in SENTENCES][:2], known=[None, ["D", "D", None]]),
     "sequence 1: no labelling agrees with 'known' and the constraints; .* is 1$"),
    (lambda: with_random_weights(HighOrderCRF(
         constraints=Constraints(forbid=[("D", "D")], start=["D", "A"], end=["N", "V"]), max_iter=0).fit(
         [[[word] for word in words] for words in SENTENCES], TAGS), np.random.default_rng(12)).predict_proba(
         [[[word] for word in words] for words in SENTENCES][:2], known=[None, [{"N", "V"}, "D", "D"]]),
     "sequence 1: no labelling agrees with 'known' and the constraints; .* is 0$"),
    *((lambda known, method=method: ask_segments(known, method, "bio"),
       (r"unknown label 'z' of known \(sequence 1, position 1\)", [None, "I-z", None, None]),
       (r"'X-x' of known \(sequence 1, position 1\) is not a tag of scheme='bio'", [None, "X-x", None, None]),
       (r'known contains \(start, stop, label\): scheme="segments"\?', [(0, 1, "x")]),
       (TypeError, r"known has the set .* \(sequence 1, position 1\): only HighOrderCRF takes sets of labels",
        [None, {"I-x", "B-x"}, None, None], [None, {"B-x"}, None, None]),
       (r"known has an empty set \(sequence 1, position 1\)", [None, set(), None, None]))
      for method in (*OF_LABELS, "entropy")),
    *((lambda known, method=method: ask_segments(known, method, "runs"),
       (TypeError, r"known has the set .* \(sequence 1, position 2\): only HighOrderCRF takes",
        ["O", None, {"x", "y"}, None]))
      for method in (*OF_LABELS, "entropy")),
    *((lambda known, method=method: ask_segments(known, method, "segments"),
       (TypeError, r"known has the set .* \(sequence 1, position 0\): only HighOrderCRF", [(0, 2, {"x", "y"})]),
       (r"\(0, 2, 'x'\) and \(1, 3, 'y'\) of sequence 1 of known overlap", [(0, 2, "x"), (1, 3, "y")]),
       (r"segment \(3, 5, 'x'\) of sequence 1 of known ends beyond its 4 tokens", [(3, 5, "x")]),
       (r"unknown label 'z' of known \(sequence 1, position 0\)", [(3, 4, "z")]),
       (r"known has the segment \(3, 3, 'x'\) \(sequence 1, position 0\), but 0 <= start", [(3, 3, "x")]))
      for method in (*OF_LABELS, "entropy")),
)  # fmt: skip

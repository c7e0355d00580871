"""The segments that tags describe, and their probabilities, against enumeration."""

import itertools
import math

import numpy as np
import pytest
from refusals import refusals

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.inspection import SegmentsDisplay
from sklearn_hocrf.text import convert_tags, extract_segments

WORDS = ["Ann", "Lee", "met", "Bob", "in", "Rome"]
TAGS = {
    "bio": ["B-PER", "I-PER", "B-LOC", "I-LOC", "O"],
    "bioes": ["B-PER", "I-PER", "E-PER", "S-PER", "O"],
    "iob1": ["B-PER", "I-PER", "I-LOC", "O"],
    "bmes": ["B", "M", "E", "S"],
}


def random_data(seed, labels, n=12, longest=4):
    rng = np.random.default_rng(seed)
    X = [[[WORDS[i]] for i in rng.integers(0, len(WORDS), length)] for length in rng.integers(1, longest + 1, n)]
    y = [[labels[i] for i in rng.integers(0, len(labels), len(x))] for x in X]
    for label, x, labelling in zip(labels, X, y, strict=False):  # all labels occur
        labelling[rng.integers(0, len(x))] = label
    return X, y


def random_crf(seed, scheme="bio", **options):
    X, y = random_data(seed, TAGS.get(scheme, ["a", "b", "c"]))
    options["history"] = "segments" if seed > 2 else "tokens"
    crf = HighOrderCRF(max_order=seed % 3, sigma_reg=3.0, tol=1e-2, **options).fit(X, y)
    return crf, X[:4]


def distribution(crf, x, scheme):
    """Return the segments and the probability of each labelling of one sequence."""
    labellings = [list(z) for z in itertools.product(crf.classes_.tolist(), repeat=len(x))]
    p = np.exp(crf.log_likelihood([x] * len(labellings), labellings))
    every = zip(extract_segments(labellings, scheme=scheme), p.tolist(), strict=True)
    return [(tuple(segments), value) for segments, value in every if value > 0]


@pytest.mark.parametrize("scheme", [*TAGS, "runs"])
@pytest.mark.parametrize("seed", range(6))
def test_probabilities_of_segments(seed, scheme):
    crf, X = random_crf(seed, scheme)
    tables = crf.predict_segments(X, threshold=0, scheme=scheme)
    decoded = crf.predict_segments(X, scheme=scheme, with_probability=True)
    for x, table, found in zip(X, tables, decoded, strict=True):
        wanted: dict = {}
        for segments, p in distribution(crf, x, scheme):
            for segment in segments:
                wanted[segment] = wanted.get(segment, 0.0) + p
        got = {row[:3]: row[3] for row in table.tolist()}
        assert set(got) == set(wanted)
        assert all(abs(got[key] - p) <= 1e-10 * p for key, p in wanted.items())
        assert list(got) == sorted(got)
        (best,) = extract_segments(crf.predict([x]), scheme=scheme)
        assert [(start, stop, label) for start, stop, label, _ in found.tolist()] == best
        assert all(abs(p - got[start, stop, label]) <= 1e-12 for start, stop, label, p in found.tolist())
    likely = crf.predict_segments(X, threshold=0.2, scheme=scheme)
    assert [t.tolist() for t in likely] == [[row for row in t.tolist() if row[3] >= 0.2] for t in tables]


def test_small_probabilities_of_segments():
    """They are sums of positive terms, so that nothing cancels."""
    X = [[["a"], ["b"]]] * 3
    y = [["B-X", "O"], ["B-X", "I-X"], ["O", "O"]]
    crf = HighOrderCRF(sigma_reg=100.0, max_iter=2000).fit(X[:1] * 50 + X, y[:1] * 50 + y)
    x = [["a"], ["b"]]
    table = {row[:3]: row[3] for row in crf.predict_segments([x], threshold=0)[0].tolist()}
    for segment, p in table.items():
        wanted = math.fsum(q for segments, q in distribution(crf, x, "bio") if segment in segments)
        assert abs(p - wanted) <= 1e-10 * wanted
    assert min(table.values()) < 1e-4


@pytest.mark.parametrize(
    ("labels", "constraints", "scheme"),
    [
        (["B-PER", "I-PER", "O"], None, "bio"),
        (["B-PER", "I-PER", "E-PER", "S-PER", "O"], None, "bioes"),
        (["B-PER", "I-PER", "E-PER", "S-PER", "O"], "bioes", "bioes"),
        (["B-PER", "I-PER", "L-PER", "U-PER", "O"], "bilou", "bilou"),
        (["I-PER", "O"], "iob1", "iob1"),
        (["B", "I", "O"], None, "bio"),
        (["B", "M", "E", "S"], None, "bmes"),
        (["B", "E", "S"], "bmes", "bmes"),  # without an M, they look like labels
        (["B", "E", "S"], None, "runs"),
        (["a", "b"], None, "runs"),
        ([1, 2], None, "runs"),
    ],
)
def test_the_scheme_is_that_of_the_constraints_or_of_the_labels(labels, constraints, scheme):
    X, y = random_data(1, labels)
    y = y if constraints is None else convert_tags(y, constraints, constraints)
    crf = HighOrderCRF(constraints=constraints).fit(X, y).set_params(constraints=None)
    assert crf.predict_segments(X) == crf.predict_segments(X, scheme=scheme)
    probable = [crf.predict_segments(X, threshold=0.01, scheme=name) for name in ("auto", scheme)]
    for left, right in zip(*probable, strict=True):
        np.testing.assert_array_equal(left, right)
    shown = [SegmentsDisplay.from_estimator(crf, X, scheme=scheme) for scheme in ("auto", scheme)]
    assert repr(shown[0]) == repr(shown[1])


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_a_threshold_gives_probabilities_in_any_case(estimator):
    crf = estimator().fit(*random_data(0, ["a", "b"]))
    X = random_data(1, ["a", "b"])[0]
    for with_probability in False, True:
        tables = crf.predict_segments(X, threshold=0.3, with_probability=with_probability)
        assert all(table.dtype.names == ("start", "stop", "label", "probability") for table in tables)
        assert np.concatenate(tables)["probability"].min() >= 0.3
    likely = {(n, *row[:3]) for n, table in enumerate(crf.predict_segments(X, threshold=0.5)) for row in table.tolist()}
    apart = sorted(likely)
    assert all(one[0] < other[0] or one[2] <= other[1] for one, other in itertools.pairwise(apart))


test_refusals = refusals(
    (lambda: HighOrderCRF().fit([[["x"], ["y"], ["z"]]], [["B-PER", "PER", "O"]]).predict_segments([[["x"]]]),
     r"the label 'B-PER' looks like a tag, but .* \('PER' is not a tag\): name"),
    *((lambda threshold, function=function: function().fit(*random_data(0, ["a", "b"])).predict_segments(
           [[["Ann"]]], threshold=threshold),
       (r"threshold must be a probability, a number in \[0, 1\], or None", -0.1, 1.5, np.nan, "0.5", True))
      for function in (HighOrderCRF, HighOrderSemiCRF)),
)  # fmt: skip

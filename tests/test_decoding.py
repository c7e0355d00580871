"""Decoding for a loss, and the segments that tags describe, against enumeration."""

import itertools
import math
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.inspection import SegmentsDisplay
from sklearn_hocrf.metrics import extract_segments
from sklearn_hocrf.settings import SegmentDecoding, TokenDecoding
from sklearn_hocrf.text import convert_tags
from sklearn_hocrf.training import Hinge

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
    crf = HighOrderCRF(max_order=seed % 3, sigma_reg=3.0, tol=1e-2, **options).fit(X, y)
    return crf, X[:4]


def distribution(crf, x):
    """Return {labelling: probability} of one sequence."""
    labellings = [list(z) for z in itertools.product(crf.classes_.tolist(), repeat=len(x))]
    p = np.exp(crf.log_likelihood([x] * len(labellings), labellings))
    return {tuple(z): value for z, value in zip(labellings, p.tolist(), strict=True) if value > 0}


def segments_of(labelling, scheme):
    return extract_segments([list(labelling)], scheme=scheme)[0]


@pytest.mark.parametrize("scheme", [*TAGS, "runs"])
@pytest.mark.parametrize("seed", range(6))
def test_probabilities_of_segments(seed, scheme):
    crf, X = random_crf(seed, scheme)
    tables = crf.segment_marginals(X, threshold=0, scheme=scheme)
    decoded = crf.predict_segments(X, scheme=scheme, with_probability=True)
    for x, table, found in zip(X, tables, decoded, strict=True):
        wanted: dict = {}
        for labelling, p in distribution(crf, x).items():
            for segment in segments_of(labelling, scheme):
                wanted[segment] = wanted.get(segment, 0.0) + p
        got = {row[:3]: row[3] for row in table.tolist()}
        assert set(got) == set(wanted)
        assert all(abs(got[key] - p) <= 1e-10 * p for key, p in wanted.items())
        assert list(got) == sorted(got)
        best = segments_of(crf.predict([x])[0], scheme)
        assert [(start, stop, label) for start, stop, label, _ in found.tolist()] == best
        assert all(abs(p - got[start, stop, label]) <= 1e-12 for start, stop, label, p in found.tolist())
    likely = crf.segment_marginals(X, threshold=0.2, scheme=scheme)
    assert [t.tolist() for t in likely] == [[row for row in t.tolist() if row[3] >= 0.2] for t in tables]


def test_small_probabilities_of_segments():
    """They are sums of positive terms, so that nothing cancels."""
    X = [[["a"], ["b"]]] * 3
    y = [["B-X", "O"], ["B-X", "I-X"], ["O", "O"]]
    crf = HighOrderCRF(sigma_reg=100.0, max_iter=2000).fit(X[:1] * 50 + X, y[:1] * 50 + y)
    x = [["a"], ["b"]]
    table = {row[:3]: row[3] for row in crf.segment_marginals([x], 0)[0].tolist()}
    for segment, p in table.items():
        wanted = math.fsum(q for z, q in distribution(crf, x).items() if segment in segments_of(z, "bio"))
        assert abs(p - wanted) <= 1e-10 * wanted
    assert min(table.values()) < 1e-4


@pytest.mark.parametrize("known", [None, "first"])
@pytest.mark.parametrize("seed", range(6))
def test_token_decoding(seed, known):
    crf, X = random_crf(seed)
    given = None if known is None else [[{"B-PER", "I-LOC"}] + [None] * (len(x) - 1) for x in X]
    rng = np.random.default_rng(seed)
    costs = [None, {("B-PER", "O"): 5.0}, rng.random((5, 5))]
    forbidden = Constraints(forbid=[("O", "I-PER"), ("B-LOC", "I-PER")], start=["O", "B-PER", "B-LOC", "I-LOC"])
    legal_y = [["O", "B-PER", "I-PER", "B-LOC"], ["B-LOC", "I-LOC", "O", "B-PER"]]
    constrained = clone(crf).set_params(constraints=forbidden, max_order=2)
    constrained.fit([[[word] for word in WORDS[:4]], [[word] for word in WORDS[2:]]], legal_y)
    for model in (crf, constrained):
        marginals = model.predict_marginals(X, known=given)
        for cost in costs:
            model.set_params(decoding=TokenDecoding(cost))
            table = np.ones((5, 5)) - np.eye(5) if cost is None else cost
            if isinstance(cost, dict):
                table = np.ones((5, 5)) - np.eye(5)
                classes = model.classes_.tolist()
                table[classes.index("B-PER"), classes.index("O")] = 5.0
            code = {label: i for i, label in enumerate(model.classes_.tolist())}
            for x, p, labels in zip(X, marginals, model.predict(X, known=given), strict=True):
                expected = p @ table
                possible = distribution(model, x)
                if given is not None:
                    possible = {z: q for z, q in possible.items() if z[0] in ("B-PER", "I-LOC")}
                price = {z: sum(expected[t, code[label]] for t, label in enumerate(z)) for z in possible}
                assert tuple(labels) in price
                assert price[tuple(labels)] <= min(price.values()) + 1e-12
            model.set_params(decoding=TokenDecoding(cost, constrained=False))
            free = model.predict(X, known=given)
            if given is None:
                for p, labels in zip(marginals, free, strict=True):
                    chosen = (p @ table)[np.arange(len(p)), [code[label] for label in labels]]
                    first = 0 if model is crf else 1  # the first label is constrained, without probability to show
                    assert (chosen <= (p @ table).min(axis=1) + 1e-12)[first:].all()
            else:
                assert all(labels[0] in ("B-PER", "I-LOC") for labels in free)


@pytest.mark.parametrize("scheme", ["bio", "bioes", "iob1", "bmes", "runs"])
@pytest.mark.parametrize("threshold", [0.1, 0.5, {"PER": 0.2}])
def test_segment_decoding_of_tags(scheme, threshold):
    for seed in range(4):
        crf, X = random_crf(seed, scheme)
        if isinstance(threshold, dict) and scheme in ("bmes", "runs"):
            continue
        crf.set_params(decoding=SegmentDecoding(threshold, scheme=scheme))
        for x, labels in zip(X, crf.predict(X), strict=True):
            p = {row[:3]: row[3] for row in crf.segment_marginals([x], 0, scheme=scheme)[0].tolist()}

            def gain(segments, p=p):
                least = [threshold.get(s[2], 0.5) if isinstance(threshold, dict) else threshold for s in segments]
                return sum(
                    p.get(s, 0.0) - (0.0 if scheme in ("bmes", "runs") else t)
                    for s, t in zip(segments, least, strict=True)
                )

            best = max(gain(segments_of(z, scheme)) for z in itertools.product(crf.classes_.tolist(), repeat=len(x)))
            assert gain(segments_of(labels, scheme)) >= best - 1e-9
            if scheme == "runs":
                continue
            assert extract_segments([labels], scheme=scheme, strict=True) == [segments_of(labels, scheme)]


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
    for left, right in zip(crf.segment_marginals(X), crf.segment_marginals(X, scheme=scheme), strict=True):
        np.testing.assert_array_equal(left, right)
    shown = [SegmentsDisplay.from_estimator(crf, X, scheme=scheme) for scheme in ("auto", scheme)]
    assert repr(shown[0]) == repr(shown[1])
    best = crf.set_params(decoding=SegmentDecoding(scheme=scheme)).predict(X)
    assert crf.set_params(decoding="segment").predict(X) == best


@pytest.mark.parametrize("decoding", ["viterbi", "segment"])
def test_labels_of_which_some_look_like_tags(decoding):
    crf = HighOrderCRF(decoding=decoding).fit([[["x"], ["y"], ["z"]]], [["B-PER", "PER", "O"]])
    with pytest.raises(ValueError, match=r"the label 'B-PER' looks like a tag, but .* \('PER' is not a tag\): name"):
        crf.predict_segments([[["x"]]])


def random_weights(crf, seed, scale=2.0):
    rng = np.random.default_rng(seed)
    crf._keep(crf._fitted._replace(weights=scale * rng.normal(size=crf._fitted.weights.shape)))
    return crf


@pytest.mark.parametrize("threshold", [0.05, 0.4])
@pytest.mark.parametrize("case", ["forbidden", "two O", "borders", "known", "no B"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_segments_that_cannot_stand_together(case, threshold):
    """The best segments among those that possible labels can write, whatever rules these labels out."""
    rng = np.random.default_rng(0)
    X = [[[WORDS[i]] for i in rng.integers(0, 6, 4)] for _ in range(3)]
    y, options = [["B-PER", "O", "B-LOC", "I-LOC"], ["O", "I-PER", "B-LOC", "O"]], {}
    if case == "no B":
        y = [["I-PER", "O", "I-LOC", "O"], ["O", "I-LOC", "I-LOC", "I-PER"]]
    elif case == "forbidden":
        y[1][1] = "O"
        forbidden = [("B-LOC", "B-LOC"), ("B-LOC", "B-PER"), ("B-PER", "O", "B-PER"), ("B-PER", "B-PER")]
        options["constraints"] = Constraints(forbid=[*forbidden, ("I-LOC", "B-PER")])
    elif case == "two O":
        options["constraints"] = Constraints(forbid=[("O", "O"), ("I-LOC", "O", "I-PER")])
    elif case == "borders":
        options["constraints"] = Constraints(start=["O", "B-PER"], end=["I-LOC", "O"])
    crf = HighOrderCRF(max_iter=0, decoding=SegmentDecoding(threshold), **options).fit(X[:2], y)
    known = [[None, {"I-PER", "B-LOC"}, None, {"O", "I-PER", "I-LOC"}]] * 3 if case == "known" else None
    for seed in range(6):
        random_weights(crf, seed)
        tables = crf.segment_marginals(X, 0, known=known)
        for x, labels, table in zip(X, crf.predict(X, known=known), tables, strict=True):
            p = {row[:3]: row[3] for row in table.tolist()}
            gains = {
                z: sum(p[s] - threshold for s in segments_of(z, "bio"))
                for z in distribution(crf, x)
                if known is None or ({z[1]} <= known[0][1] and {z[3]} <= known[0][3])
            }
            assert gains[tuple(labels)] >= max(gains.values()) - 1e-9


SEMI = {"bio": TAGS["bio"], "bioes": TAGS["bioes"], "runs": ["a", "b", "c"]}


@pytest.mark.parametrize("scheme", SEMI)
@pytest.mark.parametrize("seed", range(4))
def test_segmentations(seed, scheme):
    X, y = random_data(seed, SEMI[scheme], longest=3)
    y = y if scheme == "runs" else [legalised(labels, scheme) for labels in y]
    crf = HighOrderSemiCRF(max_order=seed % 3, scheme=scheme, segment_length=3, sigma_reg=3.0, tol=1e-2)
    crf.fit(X, y)
    X = X[:4]
    crf.set_params(decoding=TokenDecoding())
    marginals = crf.predict_marginals(X)
    code = {label: i for i, label in enumerate(crf.classes_.tolist())}
    for x, p, labels in zip(X, marginals, crf.predict(X), strict=True):
        gains = {z: sum(p[t, code[label]] for t, label in enumerate(z)) for z in distribution(crf, x)}
        assert gains[tuple(labels)] >= max(gains.values()) - 1e-9
    for threshold in (0.2, 0.6):
        crf.set_params(decoding=SegmentDecoding(threshold))
        for x, labels in zip(X, crf.predict(X), strict=True):
            p = {row[:3]: row[3] for row in crf.segment_marginals([x], 0)[0].tolist()}
            cost = 0.0 if scheme == "runs" else threshold
            gains = {z: sum(p[s] - cost for s in segments_of(z, scheme) if s[2] != "O") for z in distribution(crf, x)}
            assert gains[tuple(labels)] >= max(gains.values()) - 1e-6
    found = crf.predict_segments(X, with_probability=True)
    for x, table in zip(X, found, strict=True):
        p = {row[:3]: row[3] for row in crf.segment_marginals([x], 0)[0].tolist()}
        assert [row[3] for row in table.tolist()] == pytest.approx([p[row[:3]] for row in table.tolist()], rel=1e-12)


def legalised(labels, scheme):
    """Return tags that say the same without breaking rules."""
    tags = ["O"] * len(labels)
    for start, stop, label in segments_of(labels, scheme):
        length = min(stop - start, 3)
        names = {1: ["B"], 2: ["B", "I"], 3: ["B", "I", "I"]} if scheme == "bio" else {}
        names = names or {1: ["S"], 2: ["B", "E"], 3: ["B", "I", "E"]}
        tags[start : start + length] = [f"{prefix}-{label}" for prefix in names[length]]
    return tags


def test_grids_and_copies():
    crf, X = random_crf(1)
    y = crf.predict(X)
    grid = {"decoding": ["viterbi", "token", "segment", SegmentDecoding(0.3)]}
    search = GridSearchCV(clone(crf), grid, cv=2).fit(X, y)
    assert search.best_params_["decoding"] in grid["decoding"]
    crf.set_params(decoding=SegmentDecoding({"PER": 0.3}))
    assert pickle.loads(pickle.dumps(crf)).predict(X) == crf.predict(X)
    assert repr(crf.decoding) == "SegmentDecoding(threshold={'PER': 0.3})"
    assert crf.set_params(decoding__threshold=0.9).decoding.threshold == 0.9


@pytest.mark.parametrize(
    ("decoding", "message"),
    [
        ("tokens", "decoding must be one of 'viterbi', 'token', 'segment'"),
        (SegmentDecoding(1.5), "threshold of SegmentDecoding must be a probability"),
        (SegmentDecoding({"ORG": 0.5}), "threshold of SegmentDecoding names 'ORG'"),
        (SegmentDecoding(scheme="segments"), "scheme of SegmentDecoding must be one of"),
        (SegmentDecoding(scheme="bioes"), "is not a tag of this scheme"),
        (TokenDecoding({("O", "X"): 1}), "names 'X', which is not among classes_"),
        (TokenDecoding({"O": 1}), "must be a pair"),
        (TokenDecoding(np.ones((2, 2))), "has 2 classes, the model has 5"),
        (TokenDecoding(constrained=None), "constrained of TokenDecoding must be"),
    ],
)
def test_bad_settings(decoding, message):
    crf, X = random_crf(0)
    if isinstance(decoding, SegmentDecoding) and decoding.scheme == "bioes":
        crf = HighOrderCRF().fit([[["x"]]] * 2, [["author"], ["title"]])
        X = [[["x"]]]
    with pytest.raises(ValueError, match=message):
        crf.set_params(decoding=decoding).predict(X)


def test_without_probabilities():
    X, y = random_data(0, TAGS["bio"])
    crf = HighOrderCRF(objective="hinge", tol=1.0).fit(X, y)
    for decoding in "token", "segment", TokenDecoding(constrained=False), SegmentDecoding(0.3):
        with pytest.raises(ValueError, match=f"decoding={re.escape(repr(decoding))} needs probabilities"):
            crf.set_params(decoding=decoding).predict(X)
    assert not hasattr(crf, "segment_marginals")


@pytest.mark.parametrize("objective", ["hinge", "perceptron", Hinge()])
@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_decoding_by_probabilities_is_refused_before_training(estimator, objective):
    X, y = random_data(0, ["a", "b"])
    for decoding in "token", "segment", SegmentDecoding(0.3):
        crf = estimator(objective=objective, decoding=decoding)
        with pytest.raises(ValueError, match=r"needs probabilities: objective=.* trains scores that are not"):
            crf.fit(X, y)
        assert not hasattr(crf, "classes_")
    assert HighOrderCRF(decoding="token").fit(X, y).set_params(objective=objective).predict(X)

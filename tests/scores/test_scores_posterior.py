"""All queries for given scores, against an estimator with the same scores and against enumeration."""

import inspect
import itertools
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import pytest
import segment_oracle as so
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals
from registry import fits, tags_of

from sklearn_hocrf import Constraints, HighOrderCRF
from sklearn_hocrf.scores import posterior, sequence_log_likelihood
from sklearn_hocrf.text import extract_segments

CLASSES = {
    "bio": ["O", "B-P", "I-P", "B-Q", "I-Q"],
    "bioes": ["O", "B-P", "I-P", "E-P", "S-P"],
    "iob1": ["O", "B-P", "I-P", "I-Q"],
    "runs": ["O", "P", "Q"],
}
RULES = Constraints(forbid=[("P", "Q")], end=["O", "P"])
NUMBERS = [0.0, 0.5, 1.0, -1.5, 2.25, 3.0]  # with ties, and the same in float32


def segmentations(n_tokens):
    """Yield all lists of (start, stop, label) of O, P and Q; an O is one token."""
    if n_tokens == 0:
        yield []
    for length, label in itertools.product(range(1, n_tokens + 1), "OPQ"):
        for rest in segmentations(n_tokens - length) if label != "O" or length == 1 else ():
            yield [(0, length, label), *((u + length, v + length, y) for u, v, y in rest)]


def labellings(n_tokens, scheme, classes):
    """Return all right labellings of some tags."""
    every = {tuple(tags_of(s, scheme)) for s in segmentations(n_tokens)}
    return sorted(labels for labels in every if {*labels} <= {*classes})


class Tensor:
    """What a tensor has in common with an array."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype, copy=copy)


class Case(NamedTuple):
    """Scores by sequence, and the parameters of a call."""

    parts: list
    labels: list
    patterns: dict
    scheme: str
    constraints: Any
    history: str

    @property
    def options(self):
        return {"labels": self.labels, "constraints": self.constraints, "history": self.history}

    def legal(self, n_tokens):
        """Return all labellings that constraints allow."""
        if isinstance(self.constraints, str):
            return labellings(n_tokens, self.scheme, self.labels) if n_tokens else [()]
        every = itertools.product(self.labels, repeat=n_tokens)
        return [y for y in every if self.constraints is None or keeps_rules(y)]

    def patterns_at(self, labels, t):
        """Return the patterns that end with a token."""
        return so.patterns_of(tuple(labels[: t + 1]), self.history)

    def score(self, part, labels):
        """Return the score of a labelling, by counting."""
        own = [part[t, self.labels.index(label)] for t, label in enumerate(labels)]
        ends = [z for t in range(len(labels)) for z in self.patterns_at(labels, t)]
        return sum(own) + sum(self.patterns.get(z, 0.0) for z in ends)


def keeps_rules(labels):
    return ("P", "Q") not in itertools.pairwise(labels) and (not labels or labels[-1] in ("O", "P"))


@st.composite
def drawn(draw, one_label=True, impossible=True):
    """Draw a case; empty sequences, single labels, ties, forbidden labels and patterns of order 3 occur."""
    scheme, rng = draw(st.sampled_from(list(CLASSES))), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    history = draw(st.sampled_from(["tokens", "segments"])) if scheme == "runs" else "tokens"
    labels = draw(st.permutations(CLASSES[scheme]))
    constraints = scheme if scheme != "runs" else draw(st.sampled_from([None, RULES]))
    if one_label and scheme == "runs" and constraints is None and draw(st.booleans()):
        labels = ["P"]
    patterns = {}
    for z in draw(st.lists(st.lists(st.sampled_from(labels), min_size=1, max_size=4), max_size=5)):
        if history == "tokens" or len(z) < 3 or not any(a == b for a, b in itertools.pairwise(z)):
            can_be_forbidden = impossible and len(z) > 1
            patterns[tuple(z)] = -np.inf if can_be_forbidden and rng.random() < 0.2 else float(rng.choice(NUMBERS))
    lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    parts = [rng.choice(NUMBERS, size=(n, len(labels))) + draw(st.sampled_from([0.0, 64.0])) for n in lengths]
    for part in parts if impossible and draw(st.booleans()) else ():
        forbidden = rng.random(part.shape) < 0.2
        part[forbidden & ~forbidden.all(axis=1, keepdims=True)] = -np.inf
    return Case(parts, labels, patterns, scheme, constraints, history)


@given(drawn(), st.sampled_from([np.float64, np.float32]), st.sampled_from(["list", "flat", "tensor", "tensors"]))
def test_answers_are_those_of_all_labellings(case, dtype, form):
    parts = [part.astype(dtype) for part in case.parts]
    if form in ("flat", "tensor"):
        scores, lengths = np.concatenate(parts), np.array(list(map(len, parts)))
        scores, lengths = (Tensor(scores), Tensor(lengths)) if form == "tensor" else (scores, lengths)
    else:
        scores, lengths = list(map(Tensor, parts)) if form == "tensors" else parts, None
    before = [part.copy() for part in parts]
    found = posterior(scores, case.patterns, lengths=lengths, **case.options)
    every, values = all_scores(case)
    if any((value == -np.inf).all() for value in values):
        with pytest.raises(ValueError, match="forbids every labelling"):
            found.predict()
        return
    log_p = [value - np.logaddexp.reduce(value) for value in values]
    check(found, case, every, log_p)
    rng = np.random.default_rng(0)
    any_y = [tuple(rng.choice(np.array(case.labels), size=len(part)).tolist()) for part in parts]
    expected = [of_p[of.index(y)] if y in of else -np.inf for y, of, of_p in zip(any_y, every, log_p, strict=True)]
    np.testing.assert_allclose(found.log_likelihood([*map(list, any_y)]), expected, atol=1e-9)
    known, agree = [], []
    for of, of_p in zip(every, log_p, strict=True):
        truth = of[rng.choice(len(of), p=np.exp(of_p))]
        known.append([rng.choice(np.array([None, y, {y, case.labels[0]}], object)) for y in truth])
        agree.append(np.where([all(map(fits, known[-1], y)) for y in of], of_p, -np.inf))
    np.testing.assert_allclose(found.log_likelihood(known), list(map(np.logaddexp.reduce, agree)), atol=1e-9)
    given_known = [of_p - np.logaddexp.reduce(of_p) for of_p in agree]
    check(found, case, every, given_known, known=known)
    for part, copied in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part, copied)


def all_scores(case):
    """Return all labellings of each sequence, and their scores."""
    every = [case.legal(len(part)) for part in case.parts]
    return every, [np.array([case.score(part, y) for y in of]) for part, of in zip(case.parts, every, strict=True)]


def check(found, case, every, log_p, **known):
    """Compare answers with the log-probabilities of all labellings."""
    patterns = [*case.patterns][:3]
    answers = found.predict(**known), found.predict_marginals(**known), found.predict_segments(threshold=0, **known)
    best, nbest = found.predict_segments(with_probability=True, **known), found.predict_nbest(3, **known)
    entropy, of_tokens = found.entropy(**known), found.entropy(level="token", **known)
    samples, ends = found.sample(5, random_state=0, **known), found.pattern_marginals(patterns, **known)
    assert found.predict_segments(**known) == [[tuple(row)[:3] for row in table.tolist()] for table in best]
    if not known:
        likelihood = found.log_likelihood(answers[0])
    for n, (of, of_p) in enumerate(zip(every, log_p, strict=True)):
        p, index, length = np.exp(of_p), {tuple(y): i for i, y in enumerate(of)}, len(case.parts[n])
        labels, marginals, segments = (answer[n] for answer in answers)
        assert of_p[index[tuple(labels)]] == pytest.approx(of_p.max(), abs=1e-9)
        if not known:
            assert likelihood[n] == pytest.approx(of_p.max(), abs=1e-9)
        expected = np.zeros((length, len(case.labels)))
        table, at_end = {}, np.zeros((length, len(patterns)))
        for y, weight, of_y in zip(of, p, extract_segments([list(y) for y in of], scheme=case.scheme), strict=True):
            for segment in of_y:
                table[segment] = table.get(segment, 0.0) + weight
            for t, label in enumerate(y):
                expected[t, case.labels.index(label)] += weight
                at_end[t] += [weight * (z in case.patterns_at(y, t)) for z in patterns]
        np.testing.assert_allclose(marginals, expected, atol=1e-9)
        np.testing.assert_allclose(ends[n], at_end, atol=1e-9)
        rows = {tuple(row[:3]): row[3] for row in segments.tolist()}
        assert rows.keys() >= {segment for segment, weight in table.items() if weight > 1e-9}
        for segment, weight in [*rows.items(), *((tuple(row[:3]), row[3]) for row in best[n].tolist())]:
            assert weight == pytest.approx(table.get(segment, 0.0), abs=1e-9)
        highest = np.sort(of_p[of_p > -np.inf])[::-1][:3]
        np.testing.assert_allclose([one.log_probability for one in nbest[n]], highest, atol=1e-9)
        np.testing.assert_allclose([of_p[index[tuple(one.labels)]] for one in nbest[n]], highest, atol=1e-9)
        assert len(nbest[n]) == len(highest)
        assert all(p[index[tuple(y)]] > 0 for y in samples[n])
        assert entropy[n] == pytest.approx(-(p * np.where(p > 0, of_p, 0.0)).sum(), abs=1e-9)
        logs = np.log(np.where(expected > 0, expected, 1.0))
        np.testing.assert_allclose(of_tokens[n], -(expected * logs).sum(axis=1), atol=1e-9)


@given(st.data())
def test_ties_go_to_the_label_of_the_first_column(data):
    labels = data.draw(st.permutations("abc"))
    scores = data.draw(st.lists(st.lists(st.sampled_from([0.0, 0.5]), min_size=3, max_size=3), min_size=1, max_size=4))
    pairs = {(a, b): data.draw(st.sampled_from([0.0, 0.5])) for a in "abc" for b in "abc"}
    case = Case([np.array(scores)], labels, pairs, "runs", None, "tokens")
    every = [*itertools.product(labels, repeat=len(scores))]  # those of the first columns come first
    best = max(every, key=lambda y: case.score(case.parts[0], y))
    assert posterior(scores, pairs, labels=labels).predict() == [[*best]]


@given(drawn(impossible=False), st.sampled_from(["bio", "runs", "auto", None]))
def test_the_scheme_of_segments(case, scheme):
    case = case._replace(constraints=None, patterns={}, history="tokens")
    expected = scheme if scheme in ("bio", "runs") else "runs"
    if "O" in case.labels and "P" not in case.labels:  # they look like tags
        case = case._replace(labels=["O", "B-P", "I-P", "B-Q", "I-Q"][: len(case.labels)])
        expected = scheme if scheme == "runs" else "bio"
    elif scheme == "bio":
        with pytest.raises(ValueError, match="is not a tag"):
            posterior(case.parts, labels=case.labels, scheme=scheme)
        return
    found = posterior(case.parts, labels=case.labels, scheme=scheme)
    assert found.predict_segments() == extract_segments(found.predict(), scheme=expected)


def test_tokens_are_independent_without_patterns_and_constraints():
    rng = np.random.default_rng(0)
    padded, mask = rng.normal(size=(3, 5, 4)), np.arange(5) < np.array([[5], [0], [3]])
    expected = np.exp(padded) / np.exp(padded).sum(axis=2, keepdims=True)
    for patterns in None, {}:
        found = posterior(padded[mask], patterns, lengths=mask.sum(1), n_jobs=2)
        close(np.concatenate(found.predict_marginals()), expected[mask])
        assert found.predict() == [padded[n, : mask[n].sum()].argmax(axis=1).tolist() for n in range(3)]
    found = posterior(padded[0])
    assert list(map(len, found.predict_nbest(1))) == list(map(len, found.sample(1))) == [1]
    assert found.predict_nbest(2, accept=lambda labels: labels[0] == 3)[0][1].labels[0] == 3
    assert found.sample(9, random_state=3) == found.sample(9, random_state=3)


def accepts_known(member):
    return inspect.isfunction(member) and "known" in inspect.signature(member).parameters


def test_methods_are_those_of_an_estimator():
    found = inspect.getmembers(type(posterior([[0.0]])), inspect.isfunction)
    queries = {name for name, _ in inspect.getmembers(HighOrderCRF, accepts_known)}
    assert queries <= {name for name, _ in found} | {"predict_proba"} | {name for name in queries if name[:4] == "set_"}
    for name, method in found:
        if not name.startswith("_"):
            own, theirs = (set(inspect.signature(of).parameters) for of in (method, getattr(HighOrderCRF, name)))
            assert own | {"X"} <= theirs <= own | {"X", "scheme", "unknown"}


def test_segments_of_half_the_probability_may_overlap():
    found = posterior([[0.0, 0.0]])
    assert found.predict_segments(threshold=0.5)[0].tolist() == [(0, 1, 0, 0.5), (0, 1, 1, 0.5)]
    assert len(found.predict_segments(threshold=np.nextafter(0.5, 1))[0]) == 0


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_the_likelihood_takes_the_same_scores():
    rng = np.random.default_rng(0)
    parts, patterns = [rng.normal(size=(n, 3)) for n in (3, 0, 2)], {(0, 1): 0.5, (1, 1, 2): -np.inf}
    flat, found = np.concatenate(parts), posterior(parts, patterns)
    y = np.concatenate(posterior(flat.astype(np.float32), patterns, lengths=[3, 0, 2]).predict()).astype(int)
    assert y.tolist() == [label for labels in found.predict() for label in labels]
    likelihood = sequence_log_likelihood(parts, y, patterns)
    close(likelihood.log_likelihood, found.log_likelihood(np.split(y, [3, 3])))
    arrays = posterior(flat, lengths=[3, 0, 2], labels=np.array(["x", "z", "y"])).predict()
    assert np.concatenate(arrays).tolist() == [("x", "z", "y")[i] for i in flat.argmax(axis=1)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_copied_once_at_most(dtype):
    scores = np.random.default_rng(0).normal(size=(100_000, 16)).astype(dtype)
    for most in 1, 2:  # times their memory, with masks of a byte for each score
        tracemalloc.start()
        found = posterior(scores, lengths=[20] * 5000, constraints=Constraints(start=[0, 1]))
        assert tracemalloc.get_traced_memory()[1] < most * scores.nbytes
        tracemalloc.stop()
        scores[::9, 3] = -np.inf
    assert found.predict_marginals()[0][0, 3] == 0


test_refusals = refusals(
    (posterior,
     (r"scores must have the shape \(n_tokens, n_labels\), got \(2, 3, 4\); without padding: scores\[mask\], "
      r"lengths=mask.sum\(1\)", np.zeros((2, 3, 4))),
     (r"scores\[1\] \(sequence 1\) has the shape \(2, 4\)", [np.zeros((2, 3)), np.zeros((2, 4))]),
     (TypeError, "scores must be numbers, got the type <U3", [["1.0", "2.0"]]),
     (r"scores must be finite or -inf, got nan in column 0 \(sequence 1, position 1\)",
      [np.zeros((2, 2)), np.array([[0.0, 1.0], [np.nan, 0.0]])]),
     ("scores leave no label possible at sequence 0, position 1: all are -inf",
      np.array([[0.0, 1.0], [-np.inf, -np.inf]]))),
    (lambda: posterior([np.zeros((2, 3))], lengths=[2]), "lengths must be None, because scores is a list"),
    (lambda params: posterior(np.zeros((3, 2)), **params),
     ("lengths must be numbers of tokens that sum to 3, the rows of scores, not 2", {"lengths": [1, 1]}),
     (r"lengths\[2\] is -1", {"lengths": [1, 3, -1]}),
     ("lengths must be integers, a number of tokens for each sequence, got 3", {"lengths": 3}),
     ("lengths must be integers", {"lengths": [1.5, 1.5]}),
     (r"labels must be 2 distinct ones, one for each column of scores, got \['a'\]", {"labels": ["a"]}),
     ("labels must be 2 distinct ones", {"labels": ["a", "a"]}),
     (TypeError, "labels must be a list or an array of labels", {"labels": {0: "a", 1: "b"}}),
     (TypeError, "labels: labels must be sortable together", {"labels": ["a", 1]}),
     (r"""'PER' of the labels \(scheme="bio"\) is not a tag of scheme""", {"labels": ["O", "PER"], "scheme": "bio"}),
     (r'for history="segments", pass scheme="runs" \(runs of equal labels\), not "bio"',
      {"labels": ["O", "B-PER"], "scheme": "bio", "history": "segments"}),
     ("constraints must be one of 'bio'.* IOB2 'bio'", {"constraints": "iob2"}),
     (r"constraints name labels that the model does not have: \[2\]", {"constraints": Constraints([(0, 2)])}),
     ("scheme must be one of 'auto'", {"scheme": "tokens"}),
     ("history must be one of 'tokens', 'segments'", {"history": "runs"})),
    (lambda value: posterior(np.zeros((3, 2)), value),
     (TypeError, "patterns must be a mapping", [(0, 1)]),
     (r"pattern \('a', 1\) has the label 'a', which the model does not have", {("a", 1): 1.0}),
     (r"the weight of \(0, 1\) must be a finite number", {(0, 1): None})),
    (lambda: posterior(np.zeros((3, 2)), labels=["O", "B-PER"], constraints="bio", history="segments"),
     "constraints='bio' needs history='tokens'"),
    (lambda: posterior(np.zeros((3, 2)), {("O", "PER"): np.inf}, labels=["O", "PER"]),
     r"the weight of \('O', 'PER'\) must be a finite number, or -inf for two or more labels"),
    (lambda: posterior(np.zeros((3, 2))).predict_segments(threshold=2), "threshold must be a probability"),
    (lambda: posterior(np.zeros((3, 2)), labels=["B-PER", "x"]).predict_segments(),
     'scheme="auto": the label \'B-PER\' looks like a tag'),
    (lambda: posterior(np.zeros((3, 2))).predict_nbest(0), "n must be an integer of at least 1"),
    (lambda: posterior(np.zeros((3, 2))).sample(0), "n_samples must be an integer of at least 1"),
    (lambda: posterior(np.zeros((3, 2))).entropy(level="segment"), "level must be 'sequence' or 'token'"),
    (lambda: posterior(np.zeros((3, 2))).pattern_marginals([(0, 2)]), r"pattern \(0, 2\) has the label 2"),
    (lambda: posterior(np.zeros((3, 2))).predict(known=[0, 1, 1]), "known must have the labels of 1 sequences, got 3"),
    (lambda value: posterior(np.zeros((3, 2))).log_likelihood([value]),
     ("sequence 0 has 3 tokens in scores, but 2 labels in y", [0, 1]),
     (r"unknown label 2 of y \(sequence 0, position 2\): it is not one of the labels of the scores", [0, 1, 2])),
    (lambda: posterior(np.zeros((3, 2)), labels=["O", "I-PER"], constraints="bio").predict(
         known=[[None, "I-PER", None]]),
     "sequence 0: no labelling agrees with 'known' and the constraints; the first position with none left is 1"),
    (lambda: posterior(np.zeros((1, 2)), constraints=Constraints(end=[0], start=[1])).predict(),
     "sequence 0: the model forbids every labelling"),
)  # fmt: skip

"""Constraints and lowest lengths of segments: models against enumeration, and the parameters of the estimators."""

import itertools
from functools import cache, partial

import numpy as np
import pytest
import segment_oracle as so
from cases import of_history
from internals import MarginalPass, Mask, schemes
from mask_cases import FAMILIES, check_answers
from refusals import refusals
from registry import tags_of
from sklearn.base import clone

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF

SEEDS = [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 25))]


# --- models -----------------------------------------------------------------------------------------------------------


def draw_rules(rng, n_labels):
    """Draw forbidden runs of 2 to 4 labels, and labels at borders or None."""
    runs = {tuple(rng.integers(0, n_labels, rng.integers(2, 5)).tolist()) for _ in range(rng.integers(1, 6))}
    borders = rng.random((2, n_labels)) < 0.7
    return sorted(runs), None if rng.random() < 0.3 else borders


def is_legal(labels, runs, borders, history="tokens"):
    if any(z in runs for i in range(len(labels)) for z in so.patterns_of(labels[: i + 1], history)):
        return False
    return borders is None or not labels or bool(borders[0][labels[0]] and borders[1][labels[-1]])


def without_forbidden(model, runs):
    """Return a model without the patterns that contain a forbidden run."""
    patterns = {z: w for z, w in model.patterns.items() if is_legal(z, runs, None, model.history)}
    features = {(f, z): w for (f, z), w in model.features.items() if z in patterns}
    return model._replace(patterns=patterns, features=features)


@cache
class Questions:
    """A model with constraints, its data, and {segmentation: score} of what is possible in each sequence."""

    def __init__(self, family, seed):
        rng, (draw, to_model) = np.random.default_rng(seed), FAMILIES[family]
        case = draw(rng, 6)
        runs, borders = draw_rules(rng, case.model.n_labels)
        runs, history = of_history(runs, case.model.history), case.model.history
        if rng.random() < 0.5:  # as the estimators have it
            case = case._replace(model=without_forbidden(case.model, runs))
        possible = [
            {
                s: x
                for s, x in so.scores(case.model, data).items()
                if is_legal(tuple(y for *_, y in s), runs, borders, history)
            }
            for data in case.sequences
        ]
        kept = [n for n, scores in enumerate(possible) if scores]
        self.possible = [possible[n] for n in kept]
        truth = [list(scores)[rng.integers(len(scores))] for scores in self.possible]
        case = case.replace_sequences(kept)._replace(segmentations=truth)
        self.model, self.batch = to_model(case, forbidden=runs)
        self.mask = None if borders is None else Mask.of_borders(self.batch.offsets, borders)


all_families = pytest.mark.parametrize("questions", [partial(Questions, family) for family in FAMILIES], ids=FAMILIES)


@all_families
@pytest.mark.parametrize("seed", SEEDS)
def test_answers(questions, seed):
    asked = questions(seed)
    model, batch, mask = asked.model, asked.batch, asked.mask
    log_z = model.posterior(batch, mask).log_z()
    total = np.array([so.log_sum_exp(scores.values()) for scores in asked.possible])
    assert (abs(log_z - total) <= 1e-13 * np.maximum(1.0, abs(total))).all()
    check_answers(model, batch, mask, asked.possible, [(0,), (1, 0), (0, 1, 0), *model.layout.forbidden])


@pytest.mark.parametrize("family", ["chain", "segments"])
def test_scaled_passes_take_constraints(family, monkeypatch):
    passed = []

    def forward(self, task, original=MarginalPass.forward):
        alive, checkpoints = original(self, task)
        passed.extend(alive[task.sequences >= 0])
        return alive, checkpoints

    monkeypatch.setattr(MarginalPass, "forward", forward)
    for seed in range(10):
        asked = Questions(family, seed)
        asked.model.posterior(asked.batch, asked.mask).marginals()
    assert len(passed) > 20
    assert all(passed)


# --- tag schemes ------------------------------------------------------------------------------------------------------

NAMES = ["a", "b", "O"]
TAGS = {
    scheme: [f"{letter}-{name}" for letter in letters if letter != "O" for name in "ab"] + ["O"]
    for scheme, letters in schemes.PREFIXES.items()
}


def is_legal_in(tags, scheme):
    """Say whether tags are those which their own segments are written in."""
    prefix = np.array([schemes.PREFIXES[scheme].index(tag[0]) for tag in tags])
    codes = np.array([NAMES.index(tag[2:] or "O") for tag in tags])
    offsets = np.array([0, len(tags)])
    (segments,) = schemes.segment_lists(schemes.segments_of_tags(prefix, codes, offsets), offsets, NAMES)
    return tags_of(segments, scheme) == tags


@pytest.mark.parametrize("scheme", schemes.PREFIXES)
def test_legal_sequences_are_those_that_the_scheme_writes(scheme):
    tags, n_legal = TAGS[scheme], 0
    prefix = np.array([schemes.PREFIXES[scheme].index(tag[0]) for tag in tags])
    follow, borders = schemes.legal_tags(
        schemes.TagTable(prefix, np.array([NAMES.index(tag[2:] or "O") for tag in tags])), scheme
    )
    for length in (1, 2, 3):
        for chosen in itertools.product(range(len(tags)), repeat=length):
            can_be = borders[0, chosen[0]] and borders[1, chosen[-1]]
            can_be = can_be and all(follow[a, b] for a, b in itertools.pairwise(chosen))
            assert can_be == is_legal_in([tags[i] for i in chosen], scheme)
            n_legal += can_be
    assert n_legal > 20


# --- estimators -------------------------------------------------------------------------------------------------------

WORDS = ["the", "old", "man", "met", "Ann", "Lee", "near", "Oslo", "in", "May"]


def sentences(rng, lengths):
    return [[[f"w={WORDS[i]}"] for i in rng.integers(0, len(WORDS), n)] for n in lengths]


def tagged_data(scheme="bio", n_sequences=30, seed=0):
    """Return random sentences, and the tags of random segments of them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, n_sequences)
    y = []
    for length in lengths.tolist():
        segments, t = [], 0
        while t < length:
            label = NAMES[rng.integers(0, 3)]
            stop = t + 1 if label == "O" else min(length, t + int(rng.integers(1, 4)))
            segments.append((t, stop, label))
            t = stop
        y.append(tags_of(segments, scheme))
    return sentences(rng, lengths), y


@pytest.mark.parametrize("scheme", schemes.PREFIXES)
def test_predictions_are_legal(scheme):
    X, y = tagged_data(scheme)
    crf = HighOrderCRF(0, constraints=scheme, tol=1e-2).fit(X, y)
    X_new = sentences(np.random.default_rng(1), [1, 2, 5, 9] * 20)
    assert all(is_legal_in(tags, scheme) for tags in crf.predict(X_new))
    if scheme != "iob1":  # where few things are forbidden
        free = clone(crf).set_params(constraints=None).fit(X, y)
        assert not all(is_legal_in(tags, scheme) for tags in free.predict(X_new))
    for x in X_new[:2]:
        every = [list(tags) for tags in itertools.product(crf.classes_.tolist(), repeat=len(x))]
        log_probability = crf.log_likelihood([x] * len(every), every)
        assert (log_probability > -np.inf).tolist() == [is_legal_in(tags, scheme) for tags in every]
        assert abs(np.exp(log_probability).sum() - 1) < 1e-12
        assert crf.predict([x]) == [every[int(np.argmax(log_probability))]]


def test_recordings_begin_and_end_inside_of_segments():
    """The first and the last segment of a sequence may be short, in training and in every answer."""
    X = [[["w", label] for label in labels] for labels in ("abbbbaa", "aabbba", "baaab")]
    y = [list(labels) for labels in ("abbbbaa", "aabbba", "baaab")]
    crf = HighOrderSemiCRF(segment_length={"a": (3, None), "b": (3, None)}, sigma_reg=3.0).fit(X, y)
    assert crf.predict(X) == y
    assert crf.predict([[["w", "a"]], [["w", "b"], ["w", "a"]]]) == [["a"], ["b", "a"]]
    log_p = crf.log_likelihood([X[0]] * 3, [list(labels) for labels in ("abbbbaa", "abbaaaa", "abababa")])
    assert np.isfinite(log_p).tolist() == [True, False, False]
    for start, stop, _, p in crf.predict_segments(X[:1], threshold=0)[0].tolist():
        assert p > 0
        assert stop - start >= 3 or start == 0 or stop == 7
    for best in crf.predict_nbest(X[0:1], 5)[0]:
        assert min([len(list(run)) for _, run in itertools.groupby(best.labels)][1:-1], default=3) >= 3
    with pytest.raises(ValueError, match=r"segment \(1, 3, 'b'\) of sequence 0 of y has 2 tokens.*requires 3"):
        HighOrderSemiCRF(segment_length={"b": (3, None)}).fit(X[:1], [list("abbaaaa")])


def test_partial_fit():
    X, y = tagged_data()
    crf = HighOrderCRF(solver="sgd", random_state=0, constraints="bio", patterns="all")
    crf.partial_fit(X[:20], y[:20], classes=TAGS["bio"])
    assert all(is_legal_in(list(z), "bio") or z[0][0] == "I" for z in crf.patterns_)
    crf.partial_fit(X[20:], y[20:])
    assert all(is_legal_in(tags, "bio") for tags in crf.predict(X))
    with pytest.raises(ValueError, match=r"sequence 1, position 1: 'I-b' after 'B-a' is forbidden"):
        crf.partial_fit(X[:1] + [X[1][:1] * 2], [y[0], ["B-a", "I-b"]])
    before = crf.predict(X)
    with pytest.raises(ValueError, match="constraints=None differ from the first call"):
        crf.set_params(constraints=None).partial_fit(X, y)
    assert crf.predict(X) == before  # the fitted model keeps its own


# --- errors -----------------------------------------------------------------------------------------------------------


def fit(y, constraints, weight=None, **settings):
    X = [[["w"]] * len(labels) for labels in y]
    return HighOrderCRF(constraints=constraints, **settings).fit(X, y, sample_weight=weight)


def test_sequences_keep_their_numbers_and_those_of_weight_0_may_break_constraints():
    y = [["O", "I-a"], ["B-a", "I-a"], ["O", "O"]]
    assert fit(y, "bio", [0.0, 1.0, 2.0]).predict([[["w"]]]) in ([["O"]], [["B-a"]])
    with pytest.raises(ValueError, match="sequence 2, position 1"):
        fit([y[0], y[1], ["O", "I-a"]], "bio", [0.0, 1.0, 2.0])


def test_given_patterns_that_are_forbidden():
    constraints = Constraints([("a", "b")])
    assert ("a", "b") not in fit([["a", "c"], ["b", "a"]], constraints, patterns="all").patterns_


def test_constraints_are_parameters_as_others_are():
    constraints = Constraints([("a", "b")], end=["b"])
    assert repr(constraints) == "Constraints(end=['b'], forbid=[('a', 'b')])"
    assert clone(constraints).get_params() == {"forbid": [("a", "b")], "allow": None, "start": None, "end": ["b"]}
    assert clone(HighOrderCRF(constraints=constraints)).constraints.end == ["b"]
    crf = HighOrderCRF(constraints=constraints)
    crf.set_params(constraints__end=None)
    assert crf.constraints.end is None


test_refusals = refusals(
    (lambda args: fit(*args),
     (r"""^sequence 1, position 2: 'I-a' after 'O' is forbidden by constraints="bio"; text\.convert_tags\(y, "bio", """
      r'"bio"\) repairs such tags, and HighOrderSemiCRF\(scheme="bio"\) reads it as a begin',
      ([["O", "B-a"], ["O", "O", "I-a", "O"]], "bio")),
     (r"""^sequence 1, position 0: 'I-a' at the start of a sequence is forbidden by constraints="bio"; """
      r"text\.convert_tags\(y, ", ([["O", "B-a"], ["I-a", "O"], ["O", "I-a"]], "bio")),
     (r"""^sequence 1, position 1: 'B-a' at the end of a sequence is forbidden by constraints="bioes"; """
      r'text\.convert_tags\(y, "bioes", "bioes"\) repairs such tags, and HighOrderSemiCRF\(scheme="bioes"\) also '
      "reads such tags", ([["O", "S-a"], ["O", "B-a"]], "bioes")),
     (r"^sequence 0, position 4: the run of labels \('a', 'b', 'c'\) is forbidden by "
      r"constraints=Constraints\(forbid=", ([["a", "b", "a", "b", "c"], ["c", "a"]], Constraints([("a", "b", "c")]))),
     ("^sequence 0, position 0: 'a' at the start of a sequence is forbidden", ([["a", "b"]], Constraints(start=["b"]))),
     ("^sequence 1, position 1: 'b' after 'b' is forbid",
      ([["a", "b"], ["b", "b"]], Constraints(allow=[("a", "b"), ("b", "a")]))),
     (r"""^'B-O' of the labels \(constraints="bio"\) has the label 'O', which only the tag 'O' may have$""",
      ([["O", "B-a"], ["B-O", "O"]], "bio"))),
    (lambda value: fit([["a", "b"], ["b", "a"]], value),
     (r"constraints name labels that the model does not have: \['x', 'y'\]", Constraints([("a", "x"), ("x", "y")])),
     (r"does not have: \['z'\]", Constraints(start=["z", "a"])),
     (r"""'a' of the labels \(constraints="bio"\) is not a tag of scheme='bio', whose tags are 'O', 'B-label', """,
      "bio"),
     (r"forbid of Constraints must have tuples of two or more labels, got \('a',\)", Constraints([("a",)])),
     ("forbid of Constraints must have tuples of two or more labels, got 'ab'", Constraints(["ab"])),
     ("allow of Constraints must have pairs of labels", Constraints(allow=[("a", "b", "a")])),
     ("allow and forbid of Constraints exclude each other", Constraints([("a", "b")], allow=[("a", "b")])),
     ("start of Constraints must be a list of labels, got 'a'", Constraints(start="a")),
     ("end of Constraints is empty", Constraints(end=[])),
     ("forbid of Constraints is a list_iterator, which can be read only once", Constraints(iter([("a", "b")]))),
     ("The 'constraints' parameter of HighOrderCRF must be .* an instance of", Constraints),
     ("The 'constraints' parameter of HighOrderCRF must be", lambda left, right: True, "iob", 3)),
    (lambda: fit(
         [["a", "c"], ["b", "a"]], Constraints([("a", "b")]), patterns=[("a", "c"), ("c", "a", "b")], max_order=2),
     r"patterns: \('c', 'a', 'b'\) can never occur, because constraints=Constraints"),
    (lambda forbidden: Questions("chain", 3).model.layout.replaced(forbidden=[forbidden]),
     ("a forbidden run must have two or more labels", (0,), (0, 9), (0, -1), (0, "a"))),
    (lambda: HighOrderCRF(2, history="segments", constraints=Constraints([("a", "b", "a")])).fit(
         [[["w"]] * 5], [list("abbba")]),
     r"sequence 0, position 4: the run of labels \('a', 'b', 'a'\) is forbidden"),
    (lambda: HighOrderCRF(2, history="segments", constraints=Constraints([("b", "b")])).fit(
         [[["w"]] * 4, [["w"]] * 4], [list("aaba"), list("aabb")]),
     "sequence 1, position 3: 'b' after 'b' is forbidden"),
    (lambda params: HighOrderCRF(2, history="segments", **params).fit([[["w"]] * 3], [list("aba")]),
     (r"forbid of Constraints: \('a', 'b', 'b'\) cannot occur with history='segments'",
      {"constraints": Constraints([("a", "b", "b")])}),
     (r"pattern \('b', 'a', 'a'\) cannot occur with history='segments'", {"patterns": [("b", "a", "a")]})),
    (lambda: HighOrderCRF(2, history="segments", constraints="bio").fit([[["w"]] * 3], [["B-P", "I-P", "O"]]),
     "constraints='bio' needs history='tokens': with history='segments', segments are runs of equal labels"),
    (lambda: HighOrderCRF(2, history="segments").fit([[["w"]] * 3], [list("aba")]).pattern_marginals(
         [[["w"]]], [("b", "b", "a")]),
     r"pattern \('b', 'b', 'a'\) cannot occur"),
    (lambda: HighOrderCRF(2, solver="sgd").partial_fit([[["w"]] * 3], [list("aba")]).set_params(
         history="segments").partial_fit([[["w"]] * 3], [list("aba")]),
     "history='segments' differs from the first call"),
    (lambda: HighOrderSemiCRF(constraints=Constraints([("a", "b")])).fit([[["w"]] * 5], [["a", "a", "a", "b", "b"]]),
     "sequence 0, position 3: 'b' after 'a' is forbidden"),
    (lambda: HighOrderSemiCRF(constraints="bio", scheme="bio").fit([[["w"]]], [["O"]]),
     "applies to token tags. HighOrderSemiCRF labels segments"),
    (lambda segment_length: HighOrderSemiCRF(segment_length=segment_length).fit(
         [[["w"]] * 4, [["w"]] * 2], [["a", "a", "b", "a"], ["a", "a"]]),
     (r"segment \(2, 3, 'b'\) of sequence 0 of y has 1 tokens, but segment_length requires 2", (2, None)),
     ("segment_length names the label 'c', which the training data do not have", {"c": (2, None)}),
     (r"segment_length maps labels to an integer >= 1.*got 'a': \(0, None\)", {"a": (0, None)}),
     (r"segment_length maps labels .*got 'a': \(inf, None\)", {"a": (np.inf, None)}),
     (r"segment_length maps labels .*got 'a': \(3, 2\)", {"a": (3, 2)}),
     (r"segment_length maps labels .*got 'a': \(1, 2, 3\)", {"a": (1, 2, 3)}),
     (r"segment_length must be an integer >= 1, inf or a pair.*got \(0, None\)", (0, None)),
     (r"segment_length must be .*got \(True, 3\)", (True, 3)),
     (r"segment_length must be .*got \(3, 2\)", (3, 2)),
     (r"segment_length must be .*got \(2,\)", (2,))),
    (lambda: HighOrderSemiCRF(scheme="bio", segment_length={"O": (2, None)}).fit([[["w"]]], [["O"]]),
     "every O token is a segment of length 1"),
    *((lambda method=method: getattr(
           fit([["a", "b"], ["a", "b", "c", "b"]], Constraints(start=["a"], end=["b"])), method)(
           [[["w"]] * 2, [["w"]]]),
       "sequence 1: the model forbids every labelling of it")
      for method in ("predict", "predict_marginals")),
)  # fmt: skip

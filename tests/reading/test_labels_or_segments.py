"""Every form of labels and segments, in all functions of metrics, inspection and text that take labels."""

import json
import re
from functools import cache

import numpy as np
import pytest

from sklearn_hocrf import HighOrderSemiCRF, inspection, metrics
from sklearn_hocrf.model_selection import ConformalSequenceLabeler
from sklearn_hocrf.text import convert_tags, extract_segments, spans_from_tags, tags_from_spans, tokenize

X = tokenize(["Ann Lee met Bob", "no one", "Oslo"])
LENGTHS = [len(tokens) for tokens in X]
# probabilities differ, so that segments read as labels would all be wrong
TRUE = [[(0, 2, "PER", 0.75), (3, 4, "LOC", 0.5)], [], [(0, 1, "LOC", 0.25)]]
PRED = [[(0, 2, "PER", 0.625), (3, 4, "PER", 0.375)], [], [(0, 1, "LOC", 0.125)]]
NONE = [[], [], []]
TYPES = [("label", "U3"), ("stop", int), ("probability", float), ("start", int)]  # read by name


def triples(y):
    return [[segment[:3] for segment in segments] for segments in y]


def tags(y, scheme="bio"):
    return convert_tags(triples(y), "segments", scheme, lengths=LENGTHS)


def structured(y):
    return [np.array([(s[2], s[1], s[3], s[0]) for s in segments], TYPES) for segments in y]


def dicts(y, end="end", with_probability=False):
    rows = [[{"start": s[0], end: s[1], "label": s[2], "text": "x"} for s in segments] for segments in y]
    for row, segment in zip(sum(rows, []), sum(y, []), strict=True):
        row |= {"probability": segment[3]} if with_probability else {}
    return rows


LABELS = {
    "tags": tags,
    "arrays of tags": lambda y: [np.array(labels) for labels in tags(y)],
    "tuples of tags": lambda y: [tuple(labels) for labels in tags(y)],
    "tags of another scheme": lambda y: tags(y, "bilou"),
}
SEGMENTS = {
    "triples": triples,
    "lists of three": lambda y: json.loads(json.dumps(triples(y))),
    "probability None": lambda y: [[(*segment[:3], None) for segment in segments] for segments in y],
    "three fields": lambda y: [of_one[["start", "stop", "label"]] for of_one in structured(y)],
    "dicts with end": dicts,
    "dicts with stop": lambda y: dicts(y, "stop"),
    "dicts of Label Studio": lambda y: [[{"labels": [d.pop("label")], **d} for d in ds] for ds in dicts(y)],
}
WITH_PROBABILITY = {
    "quadruples": lambda y: y,
    "lists of four": lambda y: json.loads(json.dumps(y)),
    "four fields": structured,
    "rows of four fields": lambda y: [list(of_one) for of_one in structured(y)],
    "object arrays": lambda y: [np.fromiter(segments, object, len(segments)) for segments in y],
    "dicts with a probability": lambda y: dicts(y, "stop", with_probability=True),
}
FORMS = LABELS | SEGMENTS | WITH_PROBABILITY


def shown(display):
    return re.sub(r" 0\.\d\d", "", repr(display))


def randomized(metric):
    return lambda true, predicted: metrics.randomization_test(true, predicted, true, metric, n_resamples=10)


# --- functions that take labels or segments ---------------------------------------------------------------------------

ANY = {
    "extract_segments": lambda true, predicted: [extract_segments(true), extract_segments(predicted)],
    "spans_from_tags": lambda true, predicted: [triples(spans_from_tags(X, y)) for y in (true, predicted)],
    "segment_f1_score": metrics.segment_f1_score,
    "segment_precision_recall_fscore_support": lambda true, predicted: [
        column.tolist() for column in metrics.segment_precision_recall_fscore_support(true, predicted)
    ],
    "segment_classification_report": metrics.segment_classification_report,
    "segment_confusion_matrix": lambda true, predicted: metrics.segment_confusion_matrix(true, predicted).tolist(),
    "segment_outcomes": lambda true, predicted: metrics.segment_outcomes(true, PRED).is_right.tolist(),
    "sequence_accuracy_score": metrics.sequence_accuracy_score,
    "randomization_test": randomized(metrics.segment_f1_score),
    "randomization_test of sequences": randomized(metrics.sequence_accuracy_score),
    "error_table": lambda true, predicted: [row[:6] for row in inspection.error_table(X, true, predicted)],
    "SegmentsDisplay.from_predictions": lambda true, predicted: shown(
        inspection.SegmentsDisplay.from_predictions(X, predicted, true)
    ),
}
EXPECTED = {
    "extract_segments": [triples(TRUE), triples(PRED)],
    "spans_from_tags": [
        [[(0, 7, "PER"), (12, 15, "LOC")], [], [(0, 4, "LOC")]],
        [[(0, 7, "PER"), (12, 15, "PER")], [], [(0, 4, "LOC")]],
    ],
    "segment_f1_score": 2 / 3,
    "segment_precision_recall_fscore_support": [[1, 0.5], [0.5, 1], [2 / 3, 2 / 3], [2, 1]],
    "segment_confusion_matrix": [[1, 1, 0], [0, 1, 0], [0, 0, 0]],
    "segment_outcomes": [True, False, True],
    "sequence_accuracy_score": 2 / 3,
    "error_table": [(0, "label", (3, 4, "LOC"), (3, 4, "PER"), "Bob", "Bob")],
    "SegmentsDisplay.from_predictions": (
        "[Ann Lee | PER] met [Bob | ✗ PER]\n    not found: [Bob | LOC]\nno one\n[Oslo | LOC]"
    ),
}


expected_of = cache(lambda name: EXPECTED[name] if name in EXPECTED else ANY[name](tags(TRUE), tags(PRED)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ANY)
def test_both_in_one_form(name, form):
    assert ANY[name](FORMS[form](TRUE), FORMS[form](PRED)) == expected_of(name)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ANY)
def test_each_in_its_form(name, form):
    for other in ("tags", "triples"):
        if {form, other} != {"tags", "tags of another scheme"}:  # labels have one scheme
            assert ANY[name](FORMS[form](TRUE), FORMS[other](PRED)) == expected_of(name)
            assert ANY[name](FORMS[other](TRUE), FORMS[form](PRED)) == expected_of(name)


@pytest.mark.parametrize("form", SEGMENTS | WITH_PROBABILITY)
@pytest.mark.parametrize("scheme", ["auto", "runs", "bio", "bilou", "segments"])
def test_segments_are_segments_in_any_scheme(scheme, form):
    true, predicted = FORMS[form](TRUE), FORMS[form](PRED)
    assert extract_segments(true, scheme=scheme) == triples(TRUE)
    assert triples(spans_from_tags(X, true, scheme)) == EXPECTED["spans_from_tags"][0]
    assert metrics.segment_f1_score(true, predicted, scheme=scheme, strict=True) == 2 / 3
    assert inspection.error_table(X, true, predicted, scheme=scheme)[0].error == "label"


@pytest.mark.filterwarnings("ignore:.*ill-defined")
@pytest.mark.parametrize("form", FORMS)
def test_where_nothing_is_found(form):
    """All sequences are empty: no segments, whatever form the others have."""
    true = FORMS[form](TRUE)
    assert metrics.segment_f1_score(true, NONE) == metrics.segment_f1_score(NONE, true) == 0
    assert metrics.segment_confusion_matrix(true, NONE).tolist() == [[0, 0, 2], [0, 0, 1], [0, 0, 0]]
    assert [row.error for row in inspection.error_table(X, true, NONE)] == ["missing"] * 3
    assert metrics.segment_outcomes(true, NONE).is_right.tolist() == []
    assert metrics.segment_outcomes(NONE, PRED).is_right.tolist() == [False] * 3
    display = inspection.SegmentsDisplay.from_predictions(X, NONE, true)
    assert repr(display).startswith("Ann Lee met Bob\n    not found: [Ann Lee | PER] [Bob | LOC]")
    assert extract_segments(NONE) == spans_from_tags(X, NONE) == NONE
    assert metrics.sequence_accuracy_score(NONE, NONE) == 1


def test_outside_segments_mean_the_same_as_the_tag():
    tiled = convert_tags(tags(PRED), "bio", "segments")
    assert (2, 3, "O") in tiled[0]
    for name in ANY.keys() - {"extract_segments", "segment_outcomes"}:
        assert ANY[name](tags(TRUE), tiled) == expected_of(name), name
    true = convert_tags(tags(TRUE), "bio", "segments")
    named = sorted({label for segments in (*true, *tiled) for *_, label in segments} - {"O"})
    assert metrics.segment_f1_score(true, tiled, labels=named) == 2 / 3
    assert metrics.segment_f1_score(true, tiled) > 2 / 3  # a label like others


def test_segments_that_share_their_starts_are_no_labels():
    found = [[(0, 1, "PER"), (0, 2, "PER"), (3, 4, "LOC")], [], [(0, 1, "LOC")]]
    assert extract_segments(found) == found
    assert metrics.segment_f1_score(triples(TRUE), found) == metrics.segment_f1_score(found, tags(TRUE)) == 6 / 7
    with pytest.raises(ValueError, match=r"segment \(2, 1, 'LOC'\) \(sequence 0, position 1\), but 0 <= start < stop"):
        metrics.segment_f1_score(triples(TRUE), [[(0, 1, "PER"), (2, 1, "LOC")], [], []])


# --- functions that take labels alone, or segments alone --------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_accuracy_of_tokens(form):
    """Segments are refused, and what the message says is taken."""
    y, other = FORMS[form](TRUE), tags(PRED, "bilou" if form == "tags of another scheme" else "bio")
    tests = [metrics.token_accuracy_score, randomized(metrics.token_accuracy_score)]
    if form in LABELS:
        assert tests[0](y, other) == 6 / 7
        return
    for score in tests:
        with pytest.raises(ValueError, match=r"y_true contains segments \(start, stop, label\), but must") as error:
            score(y, y)
    with pytest.raises(ValueError, match="y_pred contains segments"):
        tests[0](other, y)
    (advice,) = re.findall(r"`text\.(.*?)`", str(error.value))
    assert tests[0](eval(advice, {"convert_tags": convert_tags, "X": X, "y_true": y}), other) == 6 / 7


@pytest.mark.parametrize("form", FORMS)
def test_convert_tags(form):
    y = FORMS[form](TRUE)
    if form in LABELS:
        with pytest.raises(TypeError, match=r"of y \(sequence 0, position 0\) is not a segment \(start, stop, label\)"):
            convert_tags(y, "segments", "bio")
        return
    assert convert_tags(y, "segments", "bio", lengths=LENGTHS) == tags(TRUE)
    with pytest.raises(ValueError, match="y contains segments .*, but source='bio': pass source=\"segments\"$"):
        convert_tags(y, "bio", "bilou")


@pytest.mark.parametrize("form", FORMS)
def test_outcomes_need_probabilities(form):
    y = FORMS[form](PRED)
    if form in WITH_PROBABILITY:
        is_right, probability = metrics.segment_outcomes(tags(TRUE), y)
        assert (is_right.tolist(), probability.tolist()) == ([True, False, True], [0.625, 0.375, 0.125])
    else:
        with pytest.raises(TypeError, match=r"y_pred.*sequence 0.*probability"):
            metrics.segment_outcomes(tags(TRUE), y)


@pytest.mark.parametrize("form", FORMS)
def test_displays(form):
    def show():
        return inspection.SegmentsDisplay([list(tokens) for tokens in X], FORMS[form](PRED), FORMS[form](TRUE))

    if form in LABELS:
        with pytest.raises(TypeError, match=r"of segments \(sequence 0, position 0\) is not a segment"):
            show()
    else:
        assert shown(show()) == EXPECTED["SegmentsDisplay.from_predictions"]
        assert ("0.38" in repr(show())) == (form in WITH_PROBABILITY)


@pytest.mark.parametrize("form", SEGMENTS | WITH_PROBABILITY)
def test_spans(form):
    spans = [[(0, 7, "PER", 0.75), (12, 15, "LOC", 0.5)], [], [(0, 4, "LOC", 0.25)]]
    assert tags_from_spans(X, FORMS[form](spans)) == tags(TRUE)
    if form in WITH_PROBABILITY:
        assert spans_from_tags(X, FORMS[form](TRUE)) == spans


@pytest.mark.parametrize("form", SEGMENTS | WITH_PROBABILITY)
def test_models(form):
    """Of segments: `fit` and everything else that takes its y."""
    texts = [[[word] for word in tokens] for tokens in X]
    y = [[*segments] for segments in convert_tags(tags(TRUE), "bio", "segments")]
    given = FORMS[form]([[(*segment, 0.5) for segment in segments] for segments in y])
    for scheme in "auto", "segments":
        model, expected = (HighOrderSemiCRF(scheme=scheme, sigma_reg=10).fit(texts, each) for each in (given, y))
        np.testing.assert_array_equal(model.coef_.toarray(), expected.coef_.toarray())
    assert model.predict(texts) == y
    assert metrics.segment_f1_scorer(model, texts, given) == model.score(texts, given) == 1
    scores = [metrics.log_likelihood_scorer(model, texts, each) for each in (given, y)]
    assert scores[0] == scores[1]
    thresholds = [ConformalSequenceLabeler(model, alpha=0.5).fit(texts, each).threshold_ for each in (given, y)]
    assert thresholds[0] == thresholds[1]


# --- dicts that are no segments ---------------------------------------------------------------------------------------

RIGHT = {"start": 0, "end": 3, "label": "PER"}
WRONG = {
    "no label": {"start": 0, "end": 3, "entity_group": "PER"},
    "no end": {"start": 0, "label": "PER"},
    "no start": {"start_offset": 0, "end_offset": 3, "label": "PER"},
    "two ends": {"start": 0, "stop": 3, "end": 3, "label": "PER"},
    "two labels": {"start": 0, "end": 3, "labels": ["PER", "LOC"]},
    "no labels": {"start": 0, "end": 3, "labels": []},
    "a text for a list": {"start": 0, "end": 3, "labels": "P"},
    "both": {"start": 0, "end": 3, "label": "PER", "labels": ["PER"]},
    "nested": {"value": RIGHT, "type": "labels"},
    "nothing": {},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_refused_dicts(wrong):
    keys = re.escape(f"has the keys {[*wrong]}") + ", but a segment has the keys 'start', 'stop' or 'end', and 'label'"
    with pytest.raises(TypeError, match=rf"of spans \(text 0, position 1\) {keys}"):
        tags_from_spans(X[:1], [[RIGHT, wrong]])
    y = [[], [RIGHT, wrong], []]
    for call in (
        extract_segments,
        lambda y: spans_from_tags(X, y),
        lambda y: convert_tags(y, "segments", "bio"),
        lambda y: metrics.segment_f1_score(y, y),
        lambda y: metrics.sequence_accuracy_score(y, y),
        lambda y: inspection.error_table(X, y, y),
        lambda y: HighOrderSemiCRF().fit([[["a"]]] * 3, y),
    ):
        with pytest.raises(TypeError, match=rf"of y(_true)? \(sequence 1, position 1\) {keys}"):
            call(y)
    with pytest.raises(TypeError, match=r"start and stop must be integers, but .* \(text 0, position 0\)"):
        tags_from_spans(X[:1], [[RIGHT | {"end": "3"}]])
    with pytest.raises(TypeError, match=r"probability of spans 'high' \(text 0, position 0\) is not a number"):
        tags_from_spans(X[:1], [[RIGHT | {"probability": "high"}]])

"""Displays of segments and of explanations in notebooks."""

import colorsys
from html.parser import HTMLParser

import numpy as np
import pytest
from internals import COLORS, color_map
from refusals import refusals

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.inspection import SegmentsDisplay, explain
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV
from sklearn_hocrf.text import extract_segments, tokenize

X = [["Ann", "Lee", "met", "Bob"], ["We", "met", "Ann"], ["Bob"]] * 2
Y = [["B-PER", "I-PER", "O", "B-PER"], ["O", "O", "B-PER"], ["B-PER"]] * 2
ODD = [
    "<script>alert(1)</script>",
    "&amp;",
    '"',
    "'",
    "a\nb",
    "\u202eabc",
    "\ud800",
    "$x_$",
    "שלום",
    "\0",
    "</td>",
    " ",
]


class Reader(HTMLParser):
    """Reads HTML: its tags, and its text."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def tagger():
    return make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio")).fit(X, Y)


def safe(display):
    """Return what a display's HTML has in it, having looked for what no notebook should get."""
    source = display._repr_html_()
    source.encode("utf-8")
    reader = Reader(source)
    assert set(reader.tags) <= {"div", "span", "bdi", "table", "thead", "tbody", "tr", "th", "td"}
    assert {name for attributes in reader.attributes for name in attributes} <= {"style", "dir", "colspan"}
    return reader


# --- segments ---------------------------------------------------------------------------------------------------------


def test_tokens_are_text():
    alone = [(t, t + 1, ODD[t]) for t in range(len(ODD))]
    display = SegmentsDisplay.from_predictions([ODD, ODD], [[(0, 3, ODD[0])], alone])
    reader = safe(display)
    for token in ODD[:4] + ["a\\nb", "\\u202eabc", "\\ud800", "$x_$", "שלום", "\\x00", "</td>"]:
        assert reader.text.count(token) >= 2
    assert "\u202e" not in reader.text + repr(display)


def test_direction_is_that_of_the_text():
    reader = safe(SegmentsDisplay.from_predictions([["שלום", "עולם"]], [[(0, 1, "PER")]]))
    [directions] = [[a["dir"] for a in reader.attributes if "dir" in a]]
    assert directions == ["auto"]
    # where "auto" looks for the first letter, it skips <bdi> and elements of a direction: tokens are in neither
    assert reader.tags == ["div", "div", "span", "span", "bdi"]


def test_errors_are_marked():
    display = SegmentsDisplay.from_predictions(X[:2], [[(0, 1, "PER", 0.75), (3, 4, "PER", 0.5)], []], Y[:2])
    assert repr(display) == (
        "[Ann | ✗ PER 0.75] Lee met [Bob | PER 0.50]\n    not found: [Ann Lee | PER]\nWe met Ann\n"
        "    not found: [Ann | PER]"
    )
    html = display._repr_html_()
    assert html.count("dashed") == 1
    assert html.count("dotted") == 2
    assert "dotted" not in SegmentsDisplay.from_predictions(X[:2], Y[:2])._repr_html_()


def test_characters_between_tokens():
    tokens = tokenize(["don't go,  Ann", ""], r"\w+|[^\w\s]")
    display = SegmentsDisplay.from_predictions(tokens, [[(5, 6, "PER")], []])
    assert repr(display) == "don't go,  [Ann | PER]"
    assert repr(SegmentsDisplay.from_predictions(["abc"], [[(0, 2, "x")]], separator="")) == "[ab | x]c"


def test_segments_of_models(tagger):
    display = SegmentsDisplay.from_estimator(tagger, X, Y)
    expected = [found.tolist() for found in tagger.predict_segments(X, with_probability=True)]
    assert display.segments == expected
    batch, model = tagger[:-1].transform(X), tagger[-1]
    assert SegmentsDisplay.from_estimator(model, batch).segments == expected
    search = PenaltySearchCV(tagger, cv=2, max_steps=1).fit(X, Y)
    assert SegmentsDisplay.from_estimator(search, X, Y).texts == X
    calibrated = CalibratedSequenceLabeler(tagger, cv=2).fit(X, [*Y[:3], *Y[:2], ["O"]])
    probability = calibrated.predict_segments(X, with_probability=True)[0]["probability"].tolist()
    assert [p for *_, p in SegmentsDisplay.from_estimator(calibrated, X).segments[0]] == probability
    assert SegmentsDisplay.from_estimator(tagger, X[2:3], known=[["O"]], scheme="bio").segments == [[]]


def test_only_the_first_sequences_are_shown():
    display = SegmentsDisplay.from_predictions([["a"]] * 30, [[]] * 30)
    assert repr(display).endswith("a\n... and 10 more sequences")
    display.max_sequences = 29
    assert safe(display).text.endswith("... and 1 more sequence")


# --- explanations -----------------------------------------------------------------------------------------------------


def test_odd_explanation():
    words, labels = [[token] for token in ODD], ["<i>", "$y_$"] * 6
    crf = HighOrderCRF().fit([words], [labels])
    text = safe(explain(crf, [words], 0, 0)).text
    assert "<script>alert(1)</script>: <i> rather than $y_$" in text
    assert "<i> $y_$" in text


def test_runs_have_probabilities():
    X, y = [[["a"], ["b"], ["c"]], [["b"], ["b"]]], [["x", "x", "y"], ["y", "y"]]
    crf = HighOrderCRF().fit(X, y)
    display = SegmentsDisplay.from_estimator(crf, X)
    assert [[segment[:3] for segment in of_one] for of_one in display.segments] == extract_segments(crf.predict(X))
    assert all(0 < segment[3] < 1 for of_one in display.segments for segment in of_one)


def test_nothing_hidden_reaches_the_terminal():
    words, labels = [["\x1b[31ma"], ["b"]], ["\x1b[0m", "x\u202e"]
    explanation = explain(HighOrderCRF().fit([words], [labels]), [words], 0, 0)
    for text in (explanation.title, repr(explanation)):
        assert not set(text) & {"\x1b", "\u202e"}
        assert "\\x1b[31ma: " in text


def test_batches_and_automata_as_text():
    batch = SequenceFeatureExtractor([("w", 0)]).fit_transform([["<b>", "b"], ["c"]])
    assert repr(batch) == "SequenceBatch(2 sequences, 3 tokens, 3 features)"
    crf = HighOrderCRF().fit([[[0.5, 0.0], [0.0, 2.0]]], [["a", "b"]])
    assert repr(crf.automaton_) == "PatternAutomaton(2 labels, 3 patterns, 3 states, 3 arcs)"


# --- colours and lines ------------------------------------------------------------------------------------------------


def test_up_to_seven_labels_have_one_blue():
    colors = list(color_map("abcdefg").values())
    hues = [colorsys.rgb_to_hsv(*(int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)))[0] for color in colors]
    assert len(set(colors)) == 7
    assert sum(0.5 < hue < 0.7 for hue in hues) == 1


def test_colors_are_those_of_the_classes(tagger):
    """A label has one colour in all pictures of a model, whichever labels are shown."""
    X = [["Ann", "Lee", "met", "Bob"], ["Acme", "met", "Rome"]] * 2
    y = [["B-PER", "I-PER", "O", "B-PER"], ["B-ORG", "O", "B-LOC"]] * 2
    crf = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X, y)
    spans = [extract_segments([labels], scheme="bio")[0] for labels in y]
    semi = make_pipeline(SequenceFeatureExtractor(), HighOrderSemiCRF(scheme="bio")).fit(X, y)
    displays = [
        SegmentsDisplay.from_estimator(crf, X[:1]),
        SegmentsDisplay.from_estimator(crf, X[1:2], y[1:2], scheme="bio"),
        SegmentsDisplay.from_estimator(semi, X[:1]),
        SegmentsDisplay.from_predictions(X[:1], y[:1], classes=crf.classes_),
        SegmentsDisplay.from_predictions(X[1:2], spans[1:2], classes=["PER", "ORG", "LOC"]),
        SegmentsDisplay.from_predictions(X[1:2], y[1:2], scheme="bio", classes=["PER", "ORG", "LOC"]),
    ]
    expected = dict(zip(["LOC", "ORG", "PER"], COLORS, strict=False))
    for display in displays:
        assert {label: display.colors[label] for label in expected} == expected
    assert SegmentsDisplay.from_predictions(X[1:2], y[1:2]).colors == {"LOC": COLORS[0], "ORG": COLORS[1]}


test_refusals = refusals(
    (lambda: SegmentsDisplay.from_predictions(X[:1], [[(0, 1, "A", 0.5), (1, 2, "A", "p")]]),
     (TypeError, r"'p' \(sequence 0, position 1\) is not a number")),
    (lambda: SegmentsDisplay(X[:1], [[(0, 1, "A", np.nan)]]), "nan .sequence 0, position 0. is not finite"),
    (lambda value: SegmentsDisplay.from_predictions([["a"]], value), (TypeError, "y_pred.*labels or segments", [3])),
    (lambda args: SegmentsDisplay.from_predictions(*args, scheme="auto"),
     ("overlap.*sequence 0", (X[:1], [[(0, 2, "A"), (1, 3, "B")]]), (X[:1], [[]], [[(0, 2, "A"), (1, 3, "B")]])),
     ("sequence 0, position 0.*4 tokens", (X[:1], [[(0, 5, "A")]]), (X[:1], [[]], [[(0, 5, "A")]])),
     ("X has 1 sequences, but y_pred has 0", (X[:1], [])),
     ("X has 1 sequences, but y_true has 0", (X[:1], [[]], [])),
     ("sequence 0 has 4 tokens in X, but 2 in y_pred", (X[:1], [["A", "B"]])),
     ("sequence 0 has 4 tokens in X, but 2 in y_true", (X[:1], [[]], [["A", "B"]]))),
    (lambda: SegmentsDisplay.from_predictions(X[:1], [[(2, 1, "A")]], scheme="segments"), "0 <= start < stop"),
    (lambda: SegmentsDisplay.from_predictions(X[:1], [[]], [[(2, 1, "A")]], scheme="segments"), "0 <= start < stop"),
    (lambda: SegmentsDisplay.from_predictions(X[:1], [[]], scheme="bie"), "scheme must be one of 'auto'"),
)  # fmt: skip

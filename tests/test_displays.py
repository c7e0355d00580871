"""Displays: what notebooks show of segments, marginals, weights and reasons."""

from html.parser import HTMLParser

import numpy as np
import pytest

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.calibration import CalibratedSequenceLabeler
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.inspection import SegmentsDisplay
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.pipeline import make_pipeline
from sklearn_hocrf.text import tokenize

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


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is absent")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


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


def test_texts_of_tokens():
    rows = [{"n": 1, "w": "Ann"}, {"n": 2, "w": "met"}]
    fields = [rows, [("Ann", "P"), ("met", "V")], [["w=Ann"], ["w=met"]], np.zeros((2, 3)), [{"n": 1}, {"n": 2}]]
    texts = SegmentsDisplay.from_predictions(fields, [[]] * 5).texts
    assert texts == [["Ann", "met"], ["Ann", "met"], ["w=Ann", "w=met"], ["0", "1"], ["0", "1"]]
    assert SegmentsDisplay.from_predictions([rows], [[]], field="n").texts == [["1", "2"]]
    batch = SequenceFeatureExtractor().fit_transform(X)
    assert SegmentsDisplay.from_predictions(batch, Y).texts == X


@pytest.mark.parametrize(
    ("segments", "encoding", "message"),
    [
        ([[(0, 2, "A"), (1, 3, "B")]], "auto", r"overlap.*sequence 0"),
        ([[(0, 5, "A")]], "auto", r"sequence 0, position 0.*4 tokens"),
        ([[(2, 1, "A")]], "segments", "0 <= start < stop"),
        ([], "auto", "y_pred has 0 sequences, but X has 1"),
        ([["A", "B"]], "auto", "2 labels in sequence 0, but X has 4 tokens"),
    ],
)
def test_wrong_segments(segments, encoding, message):
    with pytest.raises(ValueError, match=message):
        SegmentsDisplay.from_predictions(X[:1], segments, encoding=encoding)
    with pytest.raises(ValueError, match=message.replace("y_pred", "y_true")):
        SegmentsDisplay.from_predictions(X[:1], [[]], segments, encoding=encoding)


def test_wrong_encoding():
    with pytest.raises(ValueError, match="encoding must be one of 'auto'"):
        SegmentsDisplay.from_predictions(X[:1], [[]], encoding="bie")


@pytest.mark.parametrize(
    ("encoding", "tags"), [("bioes", "B-A E-A O S-A"), ("bilou", "B-A L-A O U-A"), ("iob1", "I-A I-A O I-A")]
)
def test_schemes_are_seen(encoding, tags):
    display = SegmentsDisplay.from_predictions(X[:1], [tags.split()])
    assert display.segments == [[(0, 2, "A", None), (3, 4, "A", None)]]


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
    assert SegmentsDisplay.from_estimator(tagger, X[2:3], known=[["O"]], encoding="bio").segments == [[]]


@pytest.mark.parametrize("encoding", ["runs", "bio", "bioes", "segments"])
def test_segments_of_segment_models(encoding):
    y = Y if encoding == "bio" else [["A", "A", "O", "B"], ["O", "O", "A"], ["B"]] * 2
    if encoding == "bioes":
        y = [["B-A", "E-A", "O", "S-A"], ["O", "O", "S-A"], ["S-A"]] * 2
    if encoding == "segments":
        y = [[(0, 2, "A"), (2, 3, "O"), (3, 4, "B")], [(0, 1, "O"), (1, 2, "O"), (2, 3, "A")], [(0, 1, "B")]] * 2
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderSemiCRF(encoding=encoding)).fit(X, y)
    display = SegmentsDisplay.from_estimator(model, X, y)
    assert display.segments == [found.tolist() for found in model.predict_segments(X, with_probability=True)]
    assert "O 0." not in repr(display)
    safe(display)


def test_models_without_probabilities():
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(objective="hinge")).fit(X, Y)
    assert repr(SegmentsDisplay.from_estimator(model, X[:1])) == "[Ann Lee | PER] met [Bob | PER]"


def test_only_the_first_sequences_are_shown():
    display = SegmentsDisplay.from_predictions([["a"]] * 30, [[]] * 30)
    assert repr(display).endswith("a\n... and 10 more sequences")
    display.max_sequences = 29
    assert safe(display).text.endswith("... and 1 more sequence")


def test_plot(pyplot):
    words = [*ODD, "w" * 200, *("word " * 60).split()]
    display = SegmentsDisplay.from_predictions(
        [words, [], ["a"]], [[(2, 5, "$x$"), (12, 40, "long")], [], []], [[(0, 5, "B")], [], []]
    )
    display.plot().figure_.canvas.draw()
    drawn = [text.get_text() for text in display.ax_.texts]
    assert sum(text.count("word") for text in drawn) == 60
    assert "✗ $x$" in drawn
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    for text in display.ax_.texts:
        assert left <= text.get_position()[0] <= right
        assert top <= text.get_position()[1] <= bottom
        assert text.get_window_extent().x1 <= 1.02 * display.figure_.bbox.x1
    figure, ax = pyplot.subplots(figsize=(4, 3))
    assert display.plot(ax).figure_ is figure
    SegmentsDisplay.from_predictions([], []).plot()

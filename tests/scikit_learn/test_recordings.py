"""Recordings of sensors, processed as a scikit-learn user would: pipeline, search, plot."""

import sys
from datetime import datetime

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline as plain_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline, metrics
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor, TokenTransformer, WindowFeatures
from sklearn_hocrf.inspection import SegmentsDisplay, SequenceDisplay
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV

RNG = np.random.default_rng(0)
STATES = np.array(["lie", "run", "walk"])


def recording(length):
    """Return noisy rows of two sensors of different scale, and their states; runs differ in level and in spread."""
    state = np.cumsum(RNG.random(length) < 0.03) % 3
    rows = np.column_stack([state == 1, state == 2]) + RNG.normal(size=(length, 2)) * (0.3 + state[:, None])
    return rows * [1.0, 1e4] + [9.81, 0.0], STATES[state]


X, Y = map(list, zip(*(recording(length) for length in (300, 250, 280, 220, 300, 260)), strict=True))


@pytest.fixture
def pyplot():
    """Return matplotlib without a window; all figures are closed at the end."""
    pytest.importorskip("matplotlib", reason="matplotlib is absent").use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    return make_pipeline(WindowFeatures(3, 3), TokenTransformer(StandardScaler()), HighOrderCRF()).fit(X[:4], Y[:4])


def test_from_recordings_to_a_picture(pyplot):
    pipe = plain_pipeline(WindowFeatures(), TokenTransformer(StandardScaler()), HighOrderCRF(tol=1.0))
    grid = {"windowfeatures__after": [0, 5], "tokentransformer__transformer__with_std": [True, False]}
    search = GridSearchCV(pipe, grid, scoring=metrics.token_f1_scorer, cv=GroupKFold(2), error_score="raise")
    search.fit(X[:5], Y[:5], groups=[0, 0, 1, 1, 1])
    assert search.best_params_ == {"windowfeatures__after": 5, "tokentransformer__transformer__with_std": True}
    assert search.best_score_ > 0.85
    without = GridSearchCV(plain_pipeline(HighOrderCRF(tol=1.0)), {}, scoring=metrics.token_f1_scorer, cv=2)
    assert search.best_score_ > without.fit(X[:5], Y[:5]).best_score_ + 0.1
    display = SequenceDisplay.from_estimator(search, X[5], Y[5], signals={"speed": X[5][:, 0]})
    assert display.labels == STATES.tolist()
    assert [text.get_text() for text in display.ax_.get_yticklabels()][0] == "speed"


# --- the picture ------------------------------------------------------------------------------------------------------


def bars(display, height):
    """Return (start, stop, colour) of the bars whose lower edge is at a height."""
    found = []
    for collection in display.ax_.collections:
        for path in collection.get_paths():
            x, y = path.vertices.T
            if abs(y.min() - height) < 0.02:
                found.append((x.min(), x.max(), tuple(collection.get_facecolor()[0].round(3))))
    return sorted(found)


def expected_bars(display, segments, edges):
    from matplotlib.colors import to_rgba

    return sorted(
        (edges[start], edges[stop], tuple(np.round(to_rgba(display.colors[label]), 3)))
        for start, stop, label in segments
    )


def test_bars_are_the_segments(fitted, pyplot):
    x, y = X[4], Y[4]
    display = SequenceDisplay.from_estimator(fitted, x, y)
    (segments,) = fitted.predict_segments([x])
    assert display.segments == segments
    assert display.true_segments == runs_of(y)
    np.testing.assert_array_equal(display.probabilities, fitted.predict_marginals([x])[0])
    edges = np.arange(len(x) + 1)
    assert bars(display, 1.06) == expected_bars(display, segments, edges)
    assert bars(display, 1.28) == expected_bars(display, runs_of(y), edges)
    assert display.colors == SegmentsDisplay.from_estimator(fitted, [x], [y]).colors
    assert display.ax_.get_xlim() == (0, len(x))
    assert display.ax_.get_xlabel() == "token"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == STATES.tolist()
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["0", "probability", "1", "predicted", "true"]


def runs_of(labels):
    cuts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    stops = np.append(cuts[1:], len(labels))
    return [(int(a), int(b), str(labels[a])) for a, b in zip(cuts, stops, strict=True)]


def test_parts_of_a_sequence(fitted, pyplot):
    display = SequenceDisplay.from_estimator(fitted, X[4], Y[4])
    _, ax = pyplot.subplots()
    assert display.plot(ax, start=40, stop=60) is display
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    inside = [(max(a, 40), min(b, 60), label) for a, b, label in display.true_segments if a < 60 and b > 40]
    assert bars(display, 1.28) == expected_bars(display, inside, np.arange(61))
    assert ax.get_xlim() == (40, 60)
    assert display.plot(start=-1).ax_.get_xlim() == (299, 300)
    for start, stop in ((5, 5), (300, None), (0, -300)):
        with pytest.raises(ValueError, match=f"^there are no tokens from {start} to {stop}: the sequence has 300"):
            display.plot(start=start, stop=stop)


def test_times(fitted, pyplot):
    x = X[4][:30]
    numbers = np.cumsum(RNG.random(30) + 0.1)
    display = SequenceDisplay.from_estimator(fitted, x, times=numbers)
    edges = np.append(numbers, 2 * numbers[-1] - numbers[-2])
    found, expected = bars(display, 1.06), expected_bars(display, display.segments, edges)
    np.testing.assert_allclose([one[:2] for one in found], [one[:2] for one in expected])
    moments = np.datetime64("2026-01-01") + np.arange(30) * np.timedelta64(1, "h")
    display = SequenceDisplay.from_estimator(fitted, x, times=moments, signals={"a": x[:, 0]})
    days = (display.ax_.get_xlim()[1] - display.ax_.get_xlim()[0],)
    assert days == pytest.approx((30 / 24,))
    display.figure_.canvas.draw()
    assert SequenceDisplay.from_estimator(fitted, x[:1], times=[3.0]).ax_.get_xlim() == (3, 4)
    for wrong, message in ((numbers[:-1], r"times have the shape \(29,\), but the sequence has 30 tokens"),):
        with pytest.raises(ValueError, match=message):
            SequenceDisplay.from_estimator(fitted, x, times=wrong)
    with pytest.raises(ValueError, match="^times must ascend, but that of position 3 is 1.0, after 2.0"):
        SequenceDisplay.from_predictions(["a"] * 4, times=[0.0, 1.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="^times has the number inf at position 1, which is not finite"):
        SequenceDisplay.from_predictions(["a"] * 2, times=[0.0, np.inf])
    small = SequenceDisplay.from_predictions(["a"] * 2, times=np.array([100, 250], np.uint8))
    assert small.ax_.get_xlim() == (100, 400)
    for time in (datetime(2026, 1, 1), np.datetime64("2026-01-01")):
        one = SequenceDisplay.from_predictions(["a"], times=[time])
        assert np.diff(one.ax_.get_xlim()) == 1.0


def test_segments_and_labels_are_checked():
    for wrong in (-1, 2, "x"), (1, 1, "x"):
        with pytest.raises(ValueError, match=r"'x'\) is no segment: start must be in \[0, stop\)"):
            SequenceDisplay(3, [(0, 1, "x")], [wrong])
    with pytest.raises(ValueError, match="^labels contain 'b' twice"):
        SequenceDisplay(1, [], probabilities=[[0.5, 0.25, 0.25]], labels=["a", "b", "b"])


def test_probabilities_of_tags_are_added_up(pyplot):
    words = [["Ann", "Lee", "met", "Bob"], ["We", "met", "Ann"]]
    tags = [["B-PER", "I-PER", "O", "B-PER"], ["O", "O", "B-PER"]]
    tagger = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio")).fit(words, tags)
    display = SequenceDisplay.from_estimator(tagger, words[0], tags[0])
    (marginals,) = tagger.predict_marginals(words[:1])
    assert display.labels == ["O", "PER"]
    np.testing.assert_allclose(display.probabilities[:, 1], marginals[:, :2].sum(axis=1))
    assert display.segments == display.true_segments == [(0, 2, "PER"), (3, 4, "PER")]
    runs = SequenceDisplay.from_estimator(tagger, words[0], scheme="runs")
    assert runs.labels == ["B-PER", "I-PER", "O"]
    same = SequenceDisplay.from_predictions(tags[0], tags[0], probabilities=marginals, classes=tagger.classes_.tolist())
    np.testing.assert_array_equal(same.probabilities, display.probabilities)
    assert (same.segments, same.labels, same.colors) == (display.segments, display.labels, display.colors)


def test_models_and_forms(pyplot):
    pandas = pytest.importorskip("pandas", reason="pandas is absent")
    frames = [pandas.DataFrame(x, columns=["x", "y"]) for x in X]
    signals = SequenceDisplay.from_predictions(Y[0], signals=frames[0]).signals
    np.testing.assert_array_equal(np.column_stack([*signals.values()]), X[0])
    scaled = TokenTransformer(StandardScaler())
    semi = make_pipeline(scaled, HighOrderSemiCRF(max_iter=5, tol=1)).fit(frames[:2], Y[:2])
    calibrated = CalibratedSequenceLabeler(make_pipeline(scaled, HighOrderCRF()), cv=2).fit(frames[:4], Y[:4])
    for model in (semi, calibrated):
        display = SequenceDisplay.from_estimator(model, frames[3], Y[3])
        assert display.n_tokens == 220
        assert display.true_segments == runs_of(Y[3])
        np.testing.assert_allclose(display.probabilities.sum(axis=1), 1.0)
    batch = SequenceFeatureExtractor([("w", 0)]).fit_transform([["a", "b"], ["b"]])
    crf = HighOrderCRF().fit(batch, [["A", "B"], ["B"]])
    assert SequenceDisplay.from_estimator(crf, batch[:1], ["A", "B"]).segments == [(0, 1, "A"), (1, 2, "B")]
    with pytest.raises(ValueError, match="^x has 2 sequences, but a SequenceDisplay shows one"):
        SequenceDisplay.from_estimator(crf, batch)


def test_given_predictions(pyplot):
    display = SequenceDisplay.from_predictions([(0, 2, "walk"), (2, 5, "run")], [(0, 3, "walk"), (4, 6, "O")])
    assert (display.n_tokens, display.probabilities) == (6, None)
    assert display.colors["O"] == "#DDDDDD"
    assert bars(display, 0.06) == expected_bars(display, display.segments, np.arange(7))
    alone = SequenceDisplay.from_predictions(["a", "a", "b"])
    assert [text.get_text() for text in alone.ax_.get_yticklabels()] == ["predicted"]
    odd = SequenceDisplay.from_predictions(["_", "$a_$", "$"], signals={"$x$": [1, 2, 3]})
    odd.figure_.canvas.draw()
    assert len(odd.ax_.get_legend().get_texts()) == 3
    table = np.full((3, 2), 0.5)
    refused = {
        "classes": dict(probabilities=table),
        r"the shape \(2, 2\), but there are 3 tokens and 2": dict(probabilities=table[:2], classes=["a", "b"]),
        "probabilities have 2 columns, but there are 3 classes": dict(probabilities=table, classes=["a", "b", "c"]),
        r"signals\['s'\] has shape \(2,\), but the sequence has 3 tokens": dict(signals={"s": [1, 2]}),
        r"signals\['s'\] has the number nan at position 1": dict(signals={"s": [1, np.nan, 3]}),
        "sequence 0 has 3 tokens in y_pred, but 2 in y_true": dict(y_true=["a", "b"]),
        "scheme must be one of": dict(scheme="iob"),
    }
    for message, options in refused.items():
        with pytest.raises(ValueError, match=message):
            SequenceDisplay.from_predictions(["a", "b", "b"], **options)
    with pytest.raises(ValueError, match="^a segment ends at 5, but the sequence has 3 tokens"):
        SequenceDisplay.from_predictions([(0, 5, "a")], probabilities=table, classes=["a", "b"])


SHORT = [list("aabb"), list("abab"), list("aab"), list("bba")]
NUMBERS = [(np.array(y) == "a")[:, None] + RNG.normal(size=(len(y), 2)) for y in SHORT]
FORMS = {
    "arrays": lambda x: x,
    "rows": lambda x: x.tolist(),
    "tuples": lambda x: tuple(map(tuple, x.tolist())),
    "sparse": sparse.csr_array,
    "pandas": lambda x: pytest.importorskip("pandas", reason="pandas is absent").DataFrame(x, columns=["s", "t"]),
    "polars": lambda x: pytest.importorskip("polars", reason="polars is absent").DataFrame(x, schema=["s", "t"]),
    "dicts": lambda x: [{"s": s, "t": t} for s, t in x.tolist()],
    "names": lambda x: [["low" if s < 0 else "high", "token"] for s in x[:, 0]],
    "words": lambda x: ["low" if s < 0 else "high" for s in x[:, 0]],
    "arrays of words": lambda x: np.where(x[:, 0] < 0, "low", "high"),
}
ESTIMATORS = {
    "pipeline": lambda model: model,
    "grid": lambda model: GridSearchCV(model, {}, cv=2),
    "penalties": lambda model: PenaltySearchCV(model, cv=2, max_steps=1),
    "nested": lambda model: plain_pipeline(*model[:-1], GridSearchCV(plain_pipeline(model[-1]), {}, cv=2)),
    "calibrated": lambda model: CalibratedSequenceLabeler(model, cv=2),
}


CASES = [(form, n) for form in FORMS for n in (ESTIMATORS if form in ("arrays", "pandas", "words") else ["pipeline"])]


@pytest.mark.parametrize(("form", "estimator"), CASES)
def test_sequences_of_all_forms(form, estimator, pyplot):
    sequences = list(map(FORMS[form], NUMBERS))
    texts = [SequenceFeatureExtractor()] if "words" in form else []
    model = ESTIMATORS[estimator](make_pipeline(*texts, HighOrderCRF(max_iter=3, tol=1.0))).fit(sequences, SHORT)
    assert SequenceDisplay.from_estimator(model, sequences[0], SHORT[0]).true_segments == runs_of(np.array(SHORT[0]))
    with pytest.raises(ValueError, match="4 .* 3"):
        SequenceDisplay.from_estimator(model, sequences[0], SHORT[2])
    with pytest.raises(ValueError, match="^scheme must be"):
        SequenceDisplay.from_estimator(model, sequences[0], scheme="boi")
    for several in (sequences, sequences[:1]):
        with pytest.raises((TypeError, ValueError)):
            SequenceDisplay.from_estimator(model, several)


def test_one_labelling_is_shown(pyplot):
    segments = [(0, 2, "a"), (2, 3, "b")]
    for nested in (SHORT, [np.array(SHORT[0])], [segments]):
        with pytest.raises((TypeError, ValueError)):
            SequenceDisplay.from_predictions(nested)
    with pytest.raises(ValueError, match="^y_pred has the segment"):
        SequenceDisplay.from_predictions([(2, 2, "a")])
    with pytest.raises(NotFittedError):
        SequenceDisplay.from_estimator(GridSearchCV(HighOrderCRF(), {}), NUMBERS[0], SHORT[0])
    for several in NUMBERS, NUMBERS[:1], [[{"w": "a"}, {"w": "b"}]]:
        with pytest.raises(ValueError, match=r"pass x\[0\]"):
            SequenceDisplay.from_estimator(HighOrderCRF(), several)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_lines_contrast_with_the_background(fitted, style, pyplot):
    from matplotlib.colors import to_rgb

    with pyplot.style.context(style):
        display = SequenceDisplay.from_estimator(fitted, X[4], signals={"x": X[4][:, 0]})
        line, background = (np.mean(to_rgb(c)) for c in (display.ax_.lines[0].get_color(), display.ax_.get_facecolor()))
        assert abs(line - background) > 0.8
        assert all(abs(np.mean(to_rgb(color)) - background) > 0.2 for color in display.colors.values())


def test_without_matplotlib(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for plot in (
        lambda: SequenceDisplay.from_estimator(fitted, X[0]),
        lambda: SequenceDisplay.from_predictions(["a"]),
        SequenceDisplay(1, [(0, 1, "a")]).plot,
    ):
        with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'sklearn_hocrf\[plot\]'"):
            plot()

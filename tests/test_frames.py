"""Sequences from data frames and predictions back into them, for pandas, polars and pyarrow."""

import re
import sys
from datetime import datetime

import numpy as np
import pytest

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.datasets import frame_from_predictions, sequences_from_frame
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

COLUMNS = {
    "s": ["b", "b", "a", "c", "c", "c"],
    "w": ["Ann", "left", "Bob", None, "saw", "Éve"],
    "x": [1.0, 2.5, None, 4.0, 5.0, 6.0],
    "k": [1, 2, 3, 4, 5, 6],
    "flag": [True, False, True, True, False, False],
    "tag": ["N", "V", None, "N", "V", "N"],
    "code": [0, 1, None, 0, 1, 0],
    "g": ["p", "p", "q", "p", "p", "p"],
}


def pandas_frame(columns):
    pandas = pytest.importorskip("pandas", reason="pandas is absent")
    n_rows = len(next(iter(columns.values())))
    return pandas.DataFrame(columns, index=[7] * n_rows)  # labels of rows that say nothing


def polars_frame(columns):
    pytest.importorskip("narwhals", reason="narwhals is absent")
    return pytest.importorskip("polars", reason="polars is absent").DataFrame(columns)


FRAMES = {"pandas": pandas_frame, "polars": polars_frame}


@pytest.fixture(params=FRAMES)
def make(request):
    return FRAMES[request.param]


def column(frame, name):
    return frame[name].to_list()


def test_texts_and_labels(make):
    bunch = sequences_from_frame(make(COLUMNS), "s", "w", "tag", group="g")
    assert bunch.data == [["Ann", "left"], ["Bob"], [None, "saw", "Éve"]]
    assert bunch.target == [["N", "V"], [None], ["N", "V", "N"]]
    assert bunch.sequence == ["b", "a", "c"]
    assert bunch.group == ["p", "q", "p"]
    assert sequences_from_frame(make(COLUMNS), "s", "w").target is None


def test_labels_that_holes_made_floats_are_integers(make):
    target = sequences_from_frame(make(COLUMNS), "s", "w", "code").target
    assert target == [[0, 1], [None], [0, 1, 0]]
    assert {type(label) for labels in target for label in labels} == {int, type(None)}


def test_numeric_columns_are_arrays(make):
    data = sequences_from_frame(make(COLUMNS), "s", ["x", "k", "flag"]).data
    assert [array.shape for array in data] == [(2, 3), (1, 3), (3, 3)]
    np.testing.assert_array_equal(data[1], [[np.nan, 3.0, 1.0]])
    assert sequences_from_frame(make(COLUMNS), "s", ["k"]).data[0].tolist() == [[1.0], [2.0]]


def test_other_columns_are_dicts(make):
    data = sequences_from_frame(make(COLUMNS), "s", ["w", "x"]).data
    assert data[1] == [{"w": "Bob", "x": None}]
    assert data[2][0] == {"w": None, "x": 4.0}


@pytest.mark.parametrize("seed", range(5))
def test_rows_in_any_order(make, seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(6).tolist()
    times = [datetime(2024, 1, day) for day in (1, 2, 1, 1, 1, 1)]
    columns = {**COLUMNS, "day": times, "hour": [0, 0, 0, 1, 2, 3]}
    shuffled = make({name: [values[row] for row in rows] for name, values in columns.items()})
    bunch = sequences_from_frame(shuffled, "s", "w", "tag", sort=["day", "hour"])
    expected = {"b": ["Ann", "left"], "a": ["Bob"], "c": [None, "saw", "Éve"]}
    assert dict(zip(bunch.sequence, bunch.data, strict=True)) == expected
    assert bunch.sequence == list(dict.fromkeys(COLUMNS["s"][row] for row in rows))
    back = frame_from_predictions(bunch, bunch.target, probability=[np.full(len(y), 0.5) for y in bunch.target])
    assert type(back) is type(shuffled)
    assert [None if tag != tag else tag for tag in column(back, "prediction")] == column_or_none(shuffled, "tag")
    assert column(back, "probability") == [0.5] * 6
    assert list(back.columns) == [*shuffled.columns, "prediction", "probability"]
    assert list(shuffled.columns) == list(columns)  # the frame of the user is left alone


def column_or_none(frame, name):
    return [None if value is None or value != value else value for value in frame[name].to_list()]


def test_no_rows(make):
    bunch = sequences_from_frame(make({"s": [], "w": [], "x": []}), "s", "w", "x", group="w")
    assert (bunch.data, bunch.target, bunch.sequence, bunch.group) == ([], [], [], [])
    assert len(frame_from_predictions(bunch, [])) == 0


def test_from_frame_to_frame(make):
    columns = {name: values for name, values in COLUMNS.items() if name not in ("x", "code")}
    bunch = sequences_from_frame(make(columns), "s", ["w", "k"], "tag")
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(bunch.data, bunch.target)
    probability = [marginals.max(axis=1) for marginals in model.predict_marginals(bunch.data)]
    frame = frame_from_predictions(bunch, model.predict(bunch.data), probability=probability)
    assert set(column(frame, "prediction")) <= {"N", "V"}
    assert all(0.5 <= number <= 1 for number in column(frame, "probability"))
    again = frame_from_predictions(sequences_from_frame(frame, "s", "w"), [["V"] * len(y) for y in bunch.data])
    assert column(again, "prediction") == ["V"] * 6


def test_arrays_of_labels(make):
    bunch = sequences_from_frame(make(COLUMNS), "s", "w")
    y_pred = [np.array([0, 1]), np.array([2]), np.array([3, 4, 5])]
    assert column(frame_from_predictions(bunch, y_pred), "prediction") == list(range(6))


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        (
            {"s": ["a", "a", "b", "b", "a", "b"]},
            ("s", "w"),
            "the rows of sequence 'a' are not contiguous (row 4): sort, or pass sort=",
        ),
        ({"s": ["a", "a", None, "b", "b", "b"]}, ("s", "w"), "row 2 has no sequence: 's' is "),
        ({}, ("s", "word"), "the frame has no column 'word'; its columns are ['s', 'w', "),
        ({}, ("s", ["w", "word"]), "the frame has no column 'word'"),
        ({}, ("s", []), "tokens must name at least one column"),
    ],
)
def test_bad_frames(make, changes, arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        sequences_from_frame(make({**COLUMNS, **changes}), *arguments)


def test_bad_groups_and_orders(make):
    with pytest.raises(ValueError, match=r"sequence 'b' has several groups: 'Ann' at row 0, 'left' at row 1"):
        sequences_from_frame(make(COLUMNS), "s", "w", group="w")
    with pytest.raises(ValueError, match=r"row 2 has no group \(sequence 'a'\)"):
        sequences_from_frame(make({**COLUMNS, "x": [0.5, 0.5, None, 1, 1, 1]}), "s", "w", group="x")
    with pytest.raises(ValueError, match="row 2 has no value to sort by: 'x' is "):
        sequences_from_frame(make(COLUMNS), "s", "w", sort="x")


def test_values_that_cannot_be_sorted():
    with pytest.raises(TypeError, match="the values of 't' cannot be sorted"):
        sequences_from_frame(pandas_frame({"s": [1, 1], "t": [1, "a"]}), "s", "t", sort="t")


def test_columns_of_one_name():
    frame = pandas_frame(COLUMNS)
    frame.columns = ["s", "w", "w", "k", "flag", "tag", "code", "g"]
    with pytest.raises(ValueError, match="the frame has 2 columns named 'w'"):
        sequences_from_frame(frame, "s", "w")


@pytest.mark.parametrize(
    ("y_pred", "probability", "message"),
    [
        ([["N", "V"], ["N"]], None, "y_pred has 2 sequences, but the frame has 3"),
        ([["N", "V"], ["N", "N"], ["N"] * 3], None, "y_pred[1] (sequence 'a') has shape (2,), but the sequence has 1"),
        (
            [["N", "V"], ["N"], ["N"] * 3],
            [[1, 1], np.ones((1, 2)), [1] * 3],
            "probability[1] (sequence 'a') has shape (1, 2)",
        ),
        ([[(0, 2, "N")], [(0, 1, "N")], []], None, "y_pred contains segments"),
    ],
)
def test_bad_predictions(make, y_pred, probability, message):
    bunch = sequences_from_frame(make(COLUMNS), "s", "w")
    with pytest.raises(ValueError, match=re.escape(message)):
        frame_from_predictions(bunch, y_pred, probability=probability)


def test_what_is_no_frame():
    with pytest.raises(TypeError, match=r"frame must be a data frame, got \[\] \(list\)"):
        sequences_from_frame([], "s", "w")


def test_without_narwhals(monkeypatch):
    frames = {name: FRAMES[name](COLUMNS) for name in FRAMES}
    monkeypatch.setitem(sys.modules, "narwhals", None)
    assert sequences_from_frame(frames["pandas"], "s", "w").sequence == ["b", "a", "c"]
    with pytest.raises(ImportError, match="a polars frame requires narwhals"):
        sequences_from_frame(frames["polars"], "s", "w")

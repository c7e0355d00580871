"""Every form of X and y gives the correct batch, and every invalid form raises an error that names the place."""

import copy
import enum
import os
import pickle
import subprocess
import sys
import warnings
from collections import deque
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from internals import (
    FeatureSpace,
    Reader,
    Rules,
    SequenceBatch,
    check_sequence_weight,
    decode_labels,
    flatten_labels,
    position_name,
    read_segment_targets,
    read_sequences,
    read_token_targets,
    read_training_sequences,
    sorted_labels,
    with_targets,
)
from refusals import refusals
from scipy import sparse

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.metrics import segment_f1_score, token_accuracy_score
from sklearn_hocrf.model_selection import cross_val_predict
from sklearn_hocrf.text import convert_tags

READER = Reader("HighOrderStub")
DENSE = [np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.array([[0.0, 0.0, 4.0]])]
Y = [["A", "B"], ["B"]]


def read(fitted, X):
    """Return X as a batch with the features of training data, and its form."""
    return read_sequences(READER, X, fitted)


def check_training_data(X, y, sample_weight=None):
    """Return the training data of an estimator whose targets are labels of tokens."""
    return with_labels(read_training_sequences(READER, X, sample_weight), y)


def check_more_data(earlier, X, y, fixed):
    return with_labels(read_training_sequences(READER, X, earlier=earlier), y, np.array(fixed))


def with_labels(sequences, y, fixed=None):
    lengths, name = sequences.batch.lengths, "HighOrderStub"
    targets = read_token_targets(y, lengths, sequences.form, name, sequences.is_used, fixed)
    return with_targets(sequences, targets, Rules(), None)


def codes_of(labels, classes):
    """Return the codes of labels of one sequence, given the labels of a model."""
    return read_token_targets([labels], np.array([len(labels)]), "sequences", "HighOrderStub", fixed=classes).codes


def stacked(X, y=Y):
    data = check_training_data(X, y)
    return data.batch.toarray(), data


# --- forms of X -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "convert",
    [
        list,
        tuple,
        lambda X: [x.tolist() for x in X],
        lambda X: [tuple(map(tuple, x)) for x in X],
        lambda X: [list(x) for x in X],
        lambda X: [sparse.csr_matrix(x) for x in X],
        lambda X: [sparse.coo_array(x) for x in X],
        lambda X: [sparse.dok_matrix(x) for x in X],
        lambda X: [sparse.csr_array(X[0]), X[1]],
        lambda X: [pd.DataFrame(x) for x in X],
        lambda X: [x.astype(object) for x in X],
        lambda X: [x.astype(np.float32) for x in X],
        lambda X: [x.astype(np.int8) for x in X],
        lambda X: [np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2] for x in X],
        lambda X: [np.frombuffer(x.tobytes()).reshape(x.shape) for x in X],  # which cannot be written to
        lambda X: np.fromiter(X, object),
        lambda X: pd.Series(X, index=["p", "q"]),
        lambda X: SequenceBatch.from_csr(sparse.csr_array(np.vstack(X)), [0, 2, 3]),
    ],
)
def test_all_forms_of_numeric_sequences_give_the_same_batch(convert):
    rows, data = stacked(convert(DENSE))
    np.testing.assert_array_equal(rows, np.vstack(DENSE))
    np.testing.assert_array_equal(data.batch.offsets, [0, 2, 3])
    assert data.features.vocabulary is None
    assert not data.features.is_table
    np.testing.assert_array_equal(data.targets.codes, [0, 1, 1])


@pytest.mark.parametrize("whole", [False, True])
def test_series_of_polars(whole):
    polars = pytest.importorskip("polars")

    def series(sequences):
        return polars.Series(sequences) if whole else [polars.Series(sequence) for sequence in sequences]

    for X in ([[["a", "b"], ["c"]], [["a"]]], [[{"w": "a", "n": 1}, {"w": "c", "n": 2}], [{"w": "a", "n": 3}]]):
        expected, like = stacked(X)
        rows, data = stacked(series(X), series(Y))
        np.testing.assert_array_equal(rows, expected)
        assert list(data.features.names) == list(like.features.names)
        np.testing.assert_array_equal(data.targets.codes, like.targets.codes)
        np.testing.assert_array_equal(read(data.features, series(X))[0].toarray(), expected)
    with pytest.raises(TypeError, match="sequence 0.* is the str 'ab'"):
        check_training_data(polars.Series(["ab", "c"]), Y)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix, sparse.coo_array, pd.DataFrame, np.ndarray.tolist])
@pytest.mark.parametrize("y", [["u", "v", "u"], np.array(["u", "v", "u"]), pd.Series(["u", "v", "u"], index=[7, 8, 9])])
def test_plain_two_dimensional_x_is_sequences_of_length_one(convert, y):
    X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    rows, data = stacked(convert(X), y)
    np.testing.assert_array_equal(rows, X)
    assert data.batch.lengths.tolist() == [1, 1, 1]
    assert data.features.is_table
    assert data.targets.codes.tolist() == [0, 1, 0]
    assert data.targets.as_lists == isinstance(y, list)


def test_column_names_of_data_frames_become_feature_names():
    frame = pd.DataFrame(DENSE[0], columns=["a", "b", "c"])
    assert list(check_training_data(frame, ["A", "B"]).features.names) == ["a", "b", "c"]
    data = check_training_data([frame, frame], [["A", "B"]] * 2)
    assert list(data.features.names) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="sequence 1 of X does not have the column names of sequence 0"):
        check_training_data([frame, frame.rename(columns={"a": "z"})], [["A", "B"]] * 2)
    fitted = data.features
    read(fitted, [frame])
    with pytest.raises(ValueError, match="feature 0 is 'z', in fit it was 'a'"):
        read(fitted, [frame.rename(columns={"a": "z"})])


def test_a_feature_that_a_sparse_row_has_twice_is_added_up_and_the_input_stays():
    twice = sparse.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    rows, _ = stacked([twice, np.ones((1, 3))], [["A"], ["B"]])
    assert rows.tolist() == [[0, 3, 0], [1, 1, 1]]
    assert twice.data.tolist() == [1, 2]
    rows, _ = stacked(sparse.vstack([twice, twice]).tocsr(), ["A", "B"])
    assert rows.tolist() == [[0, 3, 0], [0, 3, 0]]


# --- attributes -------------------------------------------------------------------------------------------------------

ITEMS = [
    {"word": "Rome", "title": True, "lower": False, "length": 4, "ratio": -0.5},
    {"bag": ["x", "y"], "nested": {"a": "b", "deep": {"n": 2.0, "on": True}, "list": ["p"]}},
    {"set": {"s"}, "empty": [], "none": {}, "text": "", "np": np.float32(0.25), "flag": np.bool_(True)},
]


def test_feature_dicts_become_named_features():
    rows, data = stacked([ITEMS[:2], ITEMS[2:]])
    named = [{name: row[i] for i, name in enumerate(data.features.names) if row[i]} for row in rows]
    assert named == [
        {"word:Rome": 1, "title": 1, "length": 4, "ratio": -0.5},
        {"bag:x": 1, "bag:y": 1, "nested:a:b": 1, "nested:deep:n": 2, "nested:deep:on": 1, "nested:list:p": 1},
        {"set:s": 1, "text:": 1, "np": 0.25, "flag": 1},
    ]
    assert list(data.features.names) == sorted(data.features.names)
    assert data.features.vocabulary["word:Rome"] == list(data.features.names).index("word:Rome")


def test_bytes_are_text_and_every_collection_holds_names():
    texts = [{"sun": "né", "n": 1.5, "nested": {"k": "v", "list": ["x", "y"]}, "keys": ["p", "q"]}, ["a", "b"], ["c"]]
    mixed = [
        {
            b"sun": "né".encode(),
            "n": Decimal("1.5"),
            b"nested": {b"k": b"v", "list": np.array([b"x", b"y"])},
            "keys": {b"p": 1, "q": 2}.keys(),
        },
        {"b": 1, "a": 2}.keys(),
        deque([b"c"]),
    ]
    (rows, data), (other_rows, other) = stacked([texts[:2], texts[2:]]), stacked([mixed[:2], mixed[2:]])
    np.testing.assert_array_equal(rows, other_rows)
    assert list(data.features.names) == list(other.features.names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch, _ = read(data.features, [mixed])
    np.testing.assert_array_equal(batch.toarray(), rows)


def test_keys_that_are_bytes_are_those_of_training():
    tokens = {word: [{word: "a", "n": 1}, {word: "b", "n": 1}] for word in ("w", b"w")}
    features = [check_training_data([X, X[:1]], Y).features for X in tokens.values()]
    assert [f.vocabulary.complete for f in features] == [("n", "w")] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(features[0], [[{b"w": b"a", b"n": 1}]])


@pytest.mark.parametrize("tags", [[b"B-A", b"I-A"], [b"B", b"I", b"O"]])
def test_tags_that_are_bytes_are_no_labels_without_a_scheme(tags):
    X = [[["a"]] * len(tags)]
    for call in (
        lambda: HighOrderSemiCRF().fit(X, [tags]),
        lambda: HighOrderCRF().fit(X, [tags]).predict_segments(X),
        lambda: segment_f1_score([tags], [tags]),
    ):
        with pytest.raises(TypeError, match=r"label b'B.*tags are str: decode"):
            call()
    assert HighOrderCRF().fit(X, [tags]).predict(X) == [tags]


def test_attribute_lists_are_sets_of_indicators_and_repeats_add_up():
    rows, data = stacked([[["b", "a"], {"b"}], [{"c", "a"}]])
    assert list(data.features.names) == ["a", "b", "c"]
    assert rows.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    rows, data = stacked([[["b", "a", "b"], np.array(["b", "c"])], [[]]])
    assert rows.tolist() == [[1, 2, 0], [0, 1, 1], [0, 0, 0]]
    rows, data = stacked([[{"a": "b", "a:b": 2.5}, {"a:b": "c"}], [["a:b"]]])
    assert list(data.features.names) == ["a:b", "a:b:c"]
    assert rows.tolist() == [[3.5, 0], [0, 1], [1, 0]]


def test_unseen_attributes_are_ignored_at_prediction():
    data = check_training_data([[["b", "a"], ["b"]], [["a"]]], Y)
    batch, form = read(data.features, [[{"a": 2, "z": 1, "word": "new"}, ["q", "b", "b"]], []])
    assert form == "sequences"
    assert batch.toarray().tolist() == [[2, 0], [0, 2]]
    assert batch.offsets.tolist() == [0, 2, 2]
    assert "q" not in data.features.vocabulary


def test_batch_does_not_depend_on_the_order_of_entries():
    first = check_training_data([[{"a": "1", "b": 2}, {"c": 1}], [{"a": "1"}]], Y).batch
    second = check_training_data([[{"b": 2, "a": "1"}, {"c": 1}], [{"a": "1"}]], Y).batch
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_array_equal(first.values, second.values)


def test_sequences_of_weight_zero_are_out_of_everything():
    X, y = [[["a"], ["b"]], [["z"], ["a"]], [["b"]]], [["A", "B"], ["C", "A"], ["A"]]
    data = check_training_data(X, y, [2, 0, 1])
    alone = check_training_data(X[::2], y[::2], [2, 1])
    assert list(data.features.names) == list(alone.features.names) == ["a", "b"]
    assert data.targets.labels.tolist() == ["A", "B"]
    assert data.sequence_weight.tolist() == [2, 1]
    np.testing.assert_array_equal(data.batch.toarray(), alone.batch.toarray())
    np.testing.assert_array_equal(data.targets.codes, alone.targets.codes)
    as_arrays = check_training_data(X, [np.array(labels) for labels in y], [2, 0, 1])
    assert as_arrays.targets.labels.tolist() == ["A", "B"]
    np.testing.assert_array_equal(as_arrays.targets.codes, alone.targets.codes)


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([2, -1, 2], [-1, 2]),
        ([True, False], [False, True]),
        ([1.0, 0.0], [0.0, 1.0]),
        ([("B", 1), ("A", 2)], [("A", 2), ("B", 1)]),
        ([1, 2.5, True], [1, 2.5]),
        (["a\0", "a"], ["a", "a\0"]),
        ([2**63, -1], [-1, 2**63]),
        ([2**63, 2**63 + 1, -(2**63)], [-(2**63), 2**63, 2**63 + 1]),
        ([-100, -5, 3], [-100, -5, 3]),
        ([10**30, 3], [3, 10**30]),
        ([np.int64(3), 2], [2, 3]),
        ([np.str_("b"), "a"], ["a", "b"]),
        ([b"b", b"a"], [b"a", b"b"]),
    ],
)
def test_labels_keep_their_values(labels, expected):
    offsets = [0, len(labels)]
    classes = sorted_labels(labels, offsets)
    assert classes.ndim == 1
    assert classes.tolist() == expected
    codes = codes_of(labels, classes)
    assert decode_labels(codes, classes, offsets, as_lists=True) == [labels]
    assert [isinstance(label, float) for label in classes.tolist()] == [isinstance(label, float) for label in expected]


def test_label_arrays_keep_their_dtype_and_mixed_kinds_stay_apart():
    flat = flatten_labels([np.array([2, 1], dtype=np.int16), np.array([], dtype=float), np.array([2], dtype=np.int16)])
    assert sorted_labels(flat, [0, 2, 2, 3]).dtype == np.int16
    assert flatten_labels([np.array([1]), np.array(["a"])]) == [1, "a"]
    assert flatten_labels([["a"], np.array(["b"], dtype=object)]) == ["a", "b"]
    assert flatten_labels([]) == []
    arrays = decode_labels(np.array([1, 0, 1]), np.array([5, 7]), [0, 1, 3], as_lists=False)
    assert [a.tolist() for a in arrays] == [[7], [5, 7]]


def test_place_skips_empty_sequences():
    assert position_name([0, 0, 2, 2, 3], 0) == "sequence 1, position 0"
    assert position_name([0, 0, 2, 2, 3], 2) == "sequence 3, position 0"


@given(st.lists(st.integers(-(2**65), 2**65), min_size=2, unique=True), st.booleans())
def test_integers_stay_what_they_are(labels, as_arrays):
    assume(min(labels) != -100 or sorted(labels)[1] < 0)
    fits = all(-(2**63) <= label < 2**64 for label in labels)
    sequences = [np.array([label]) for label in labels] if as_arrays and fits else [labels]
    flat = flatten_labels(sequences)
    classes = sorted_labels(flat, [0, len(labels)])
    codes = codes_of(flat, classes)
    (found,) = decode_labels(codes, classes, [0, len(labels)], as_lists=True)
    assert found == labels
    assert {type(label) for label in found} == {int}


def test_labels_that_stand_for_none_are_no_wrong_labels():
    for label in (None, np.nan, pd.NA, pd.NaT, -100):
        with pytest.raises(ValueError, match=r"\(sequence 0, position 1\).* each token needs a label"):
            codes_of([0, label], np.array([0, 1]))
    assert codes_of([-1, -100], np.array([-100, -1])).tolist() == [1, 0]
    model = HighOrderCRF(max_iter=1, tol=1e9).fit([[["a"], ["b"]]], [[0, 1]])
    for label in (np.nan, pd.NA, pd.NaT, -100):
        with pytest.raises(ValueError, match=r"\(sequence 0, position 1\).* each token needs a label"):
            model.score([[["a"], ["b"]]], [[0, label]])


def test_a_long_label_does_not_make_all_labels_long():
    """An array of fixed width would have 4 MB for each of the labels."""
    labels = ["a" * 10**6, *(f"b{i}" for i in range(100))]
    classes = sorted_labels(labels, [0, len(labels)])
    assert classes.dtype == object
    assert classes.tolist() == sorted(labels)
    assert sorted_labels(["a" * 1000, "b"], [0, 2]).dtype == "<U1000"
    for unknown in ("c" * 10**6, 10**5000, [10**5000]):
        with pytest.raises((TypeError, ValueError)) as raised:
            codes_of([unknown], classes)
        assert len(str(raised.value)) < 200


# --- segmentations ----------------------------------------------------------------------------------------------------

LENGTHS = np.array([4, 2])


def read_training(y, scheme, kept=None, longest=None, form="sequences"):
    options = {"scheme": scheme, "segment_length": longest}
    return read_segment_targets(y, LENGTHS, form, "HighOrderStub", kept, **options)


@pytest.mark.parametrize(
    ("scheme", "y"),
    [
        ("segments", [[(0, 2, "P"), (2, 3, "O"), (3, 4, "P")], [(0, 1, "L"), (1, 2, "P")]]),
        ("segments", ([[3, 4, "P"], [2, 3, "O"], [0, 2, "P"]], [(1, 2, "P"), (np.int64(0), 1, "L")])),  # any order
        ("bio", [["B-P", "I-P", "O", "B-P"], ["B-L", "B-P"]]),
        ("bio", [np.array(["I-P", "I-P", "O", "I-P"]), ("I-L", "I-P")]),
        ("bioes", [["B-P", "E-P", "O", "S-P"], ["S-L", "S-P"]]),
        ("bioes", [["I-P", "I-P", "O", "E-P"], ["B-L", "E-P"]]),
        ("runs", [["P", "P", "O", "P"], ["L", "P"]]),
    ],
)
def test_segmentations_of_every_scheme(scheme, y):
    targets = read_training(y, scheme)
    segments = targets.segments
    assert targets.labels.tolist() == ["L", "O", "P"]
    assert segments.offsets.tolist() == [0, 3, 5]
    assert segments.start.tolist() == [0, 2, 3, 4, 5]
    assert segments.stop.tolist() == [2, 3, 4, 5, 6]
    assert segments.codes.tolist() == [2, 1, 2, 0, 2]
    assert targets.longest.tolist() == [1, 1, 2]
    assert targets.repeats == (scheme != "runs")
    kept = np.array([False, True])
    alone = read_training(y, scheme, kept)
    assert alone.labels.tolist() == ["L", "P"]
    assert [column.tolist() for column in alone.segments] == [[0, 2], [0, 1], [1, 2], [0, 1]]
    first = read_training(y, scheme, ~kept)
    assert [column.tolist() for column in first.segments] == [[0, 3], [0, 2, 3], [2, 3, 4], [1, 0, 1]]
    batch = SequenceBatch([0, 4, 6], np.zeros(7), [], None, 1)
    again = targets.labelling_of(targets.read_known(y, batch, "sequences", "HighOrderStub"))
    for one, other in zip(again, segments, strict=True):
        np.testing.assert_array_equal(one, other)
    targets = targets._replace(labels=np.array(["P"]))
    fewer = targets.labelling_of(targets.read_known(y, batch, "sequences", "HighOrderStub", unknown="ignore"))
    assert fewer.codes.tolist() == [0, -1, 0, -1, 0]


def test_lists_of_segments_may_be_arrays():
    fields = [("start", int), ("stop", int), ("label", "U1")]
    structured = [np.array([(0, 4, "P")], dtype=fields), np.array([(0, 1, "L"), (1, 2, "P")], dtype=fields)]
    assert read_training(structured, "segments").labels.tolist() == ["L", "P"]
    plain = [np.array([[0, 4, 1]]), np.array([[0, 1, 0], [1, 2, 1]])]
    assert read_training(plain, "segments").labels.tolist() == [0, 1]


# --- traps of X -------------------------------------------------------------------------------------------------------


def twice(value):
    """Return a matrix whose second row has one entry twice."""
    return sparse.csr_array((np.array([1.0, value, value]), np.array([1, 0, 0]), np.array([0, 1, 3])), shape=(2, 2))


def break_matrix(kind, **arrays):
    """Return a matrix of two rows and columns whose arrays have been replaced, as files and bugs do."""
    matrix = kind(np.eye(2))
    for name, array in arrays.items():
        setattr(matrix, name, np.array(array, dtype=np.int32))
    return matrix


def wide():
    indices = np.array([3, 2**31 + 5], dtype=np.int64)
    return sparse.csr_array((np.ones(2), indices, np.array([0, 1, 2])), shape=(2, 2**31 + 10))


COO = sparse.coo_array(np.eye(2))
COO.coords = (np.array([0, 7]), np.array([0, 1]))
BROKEN = [
    COO,
    *(break_matrix(sparse.csr_array, indptr=indptr) for indptr in ([0, 5, 2], [1, 1, 2], [0, 1, 9], [0, 1], [0, 2, 1])),
    *(break_matrix(kind, indices=i) for kind in (sparse.csr_matrix, sparse.csc_array) for i in ([0, 7], [0, -1])),
    break_matrix(sparse.bsr_array, indices=[7, 7]),
]
CYCLE: dict = {"word": "a"}
CYCLE["self"] = CYCLE


def test_one_weight_for_all():
    assert check_sequence_weight(2, 3).tolist() == [2, 2, 2]
    assert check_sequence_weight(None, 3) is None


# --- X of a fitted estimator ------------------------------------------------------------------------------------------

SEQUENCES = FeatureSpace(3, None, None, is_table=False)
TABLE = FeatureSpace(3, None, None, is_table=True)
ATTRIBUTES = check_training_data([[["b", "a"], ["b"]], [["a"]]], Y).features
NAMED = FeatureSpace(3, np.array(["a", "b", "c"], dtype=object), None, is_table=False)


@pytest.mark.parametrize(
    ("fitted", "X"),
    [
        (SEQUENCES, []),
        (SEQUENCES, [[], []]),
        (SEQUENCES, [np.empty((0, 3)), [], np.ones((2, 3)).tolist(), sparse.csr_array((0, 3))]),
        (SEQUENCES, np.empty((0, 2, 3))),
        (SEQUENCES, np.empty((2, 0, 3))),
        (SEQUENCES, SequenceBatch([0, 0], [0], [], None, 3)),
        (ATTRIBUTES, []),
        (ATTRIBUTES, [[], [["a"]], []]),
        (TABLE, [np.ones((2, 3))]),
    ],
)
def test_empty_sequences_pass_at_prediction(fitted, X):
    batch, _ = read(fitted, X)
    assert len(batch) == len(X)
    assert batch.n_features == fitted.n_features
    assert batch.lengths.tolist() == [x.shape[0] if hasattr(x, "shape") else len(x) for x in X] or len(X) == 1


def fitted_on(X):
    return check_training_data(X, [["A", "B"][n % 2 : n % 2 + 1] for n in range(len(X))]).features


def test_keys_that_every_training_token_had():
    fitted = fitted_on([[{"word": "a", "pos": "N"}], [{"pos": "V", "word": "b", "title": True}]])
    with pytest.warns(UserWarning, match=r"no token of X has the key 'pos', .* \(keys: \['pos', 'word'\]\)") as record:
        read(fitted, [[], [{"word": "a"}, {"word": "b", "Pos": "N"}]])
    assert len(record) == 1
    assert record[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        read(fitted, [[{"word": "a"}, {"pos": "V"}]])  # some may lack some
        read(fitted, [])
        read(fitted, [[]])
        read(fitted, [[["word:a"]]])
        read(fitted_on([[["word:a"]], [{"word": "b"}]]), [[{"pos": "N", "word:a": 1}]])


def test_attributes_of_which_none_is_known():
    fitted = fitted_on([[{"word": "a"}], [["word:b", "title"]]])
    message = "none of the 3 attributes of X occurred in training, such as 'Word:a': are they spelt as in fit"
    with pytest.warns(UserWarning, match=message) as record:
        read(fitted, [[{"Word": "a"}], [["Word:b", "Title"]]])
    assert len(record) == 1
    assert record[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        for X in ([[["Word:b", "title"]]], [[{"title": False}]], [[[]]], [[{}], []], []):
            read(fitted, X)


def test_keys_of_a_stream_are_those_of_all_its_parts():
    fitted = fitted_on([[{"word": "a", "pos": "N"}], [{"word": "b", "pos": "V"}]])
    more = check_more_data(fitted, [[{"word": "c", "title": True}]], [["A"]], ["A", "B"])
    assert more.features.vocabulary.complete == ("word",)
    again = check_more_data(more.features, [[["x"]]], [["A"]], ["A", "B"])
    assert again.features.vocabulary.complete == ()
    assert pickle.loads(pickle.dumps(fitted)).vocabulary.complete == ("pos", "word")


def test_batches_need_no_names():
    nameless = SequenceBatch([0, 1], [0, 1], [2], None, 3)
    assert read(NAMED, nameless)[0] is nameless
    same = SequenceBatch([0, 1], [0, 1], [2], None, 3, NAMED.names)
    assert read(NAMED, same)[0] is same


def test_lazy_names_are_compared_too():
    tokens = [["u", "v"], ["v"]]
    extractor, other = (SequenceFeatureExtractor([(("w", 0),)], None).fit(X) for X in (tokens, [["u", "x"]]))
    batch = extractor.transform(tokens)
    fitted = FeatureSpace(2, batch.feature_names, None, is_table=False)
    assert read(fitted, pickle.loads(pickle.dumps(batch)))[0].shape == (2, 2)
    with pytest.raises(ValueError, match=r"feature 1 is 'w\[0\]=x', in fit it was 'w\[0\]=v'"):
        read(fitted, other.transform(tokens))


WRONG = """
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

X, y = [[["a"], ["b"]]], [["u", "v"]]
crf = HighOrderCRF(max_iter=1, tol=1e9).fit(X, y)
for ask in (
    lambda: HighOrderCRF(solver="?").fit(X, y),
    lambda: HighOrderSemiCRF(scheme="?").fit(X, y),
    lambda: SequenceFeatureExtractor(padding="?").fit(X),
    lambda: crf.predict(X, known=[[{"p", "q", "r", "s"}, None]]),
):
    try:
        ask()
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
def test_messages_do_not_depend_on_the_seed_of_hashes():
    said = {
        subprocess.run(
            [sys.executable, "-c", WRONG], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout
        for seed in "012"
    }
    assert len(said) == 1
    (messages,) = said
    assert "unknown label 'p'" in messages
    assert len(messages.splitlines()) == 4


def test_labels_of_one_type_that_cannot_be_sorted():
    tag = enum.Enum("tag", "NOUN VERB")
    X, y = [[["a"], ["b"]], [["a"]]], [[tag.NOUN, tag.NOUN], [tag.VERB]]
    with pytest.raises(
        TypeError, match=r"VERB: 2> \(sequence 1, position 0\) and <tag.NOUN: 1> \(sequence 0, position 0"
    ):
        HighOrderCRF().fit(X, y)
    message = (
        r"sortable together, but <tag.(NOUN: 1> \(tag\) and <tag.VERB: 2>|VERB: 2> \(tag\) and <tag.NOUN: 1>) \(tag\)"
    )
    with pytest.raises(TypeError, match=message):
        token_accuracy_score(y, y)


@pytest.mark.parametrize("name", ["iobes", "IOBES"])
def test_other_names_of_schemes(name):
    y = [["B-A", "E-A"]]
    X = [[["a"], ["b"]]]
    for ask in (
        lambda: HighOrderCRF(constraints=name).fit(X, y),
        lambda: HighOrderSemiCRF(scheme=name).fit(X, y),
        lambda: SegmentFeatureExtractor(scheme=name).fit(X, y),
        lambda: segment_f1_score(y, y, scheme=name),
        lambda: convert_tags(y, name, "bio"),
    ):
        with pytest.raises(ValueError, match=f"[gG]ot '{name}'|IOBES is 'bioes'.* Got '{name}'") as caught:
            ask()
        assert "IOBES is 'bioes'" in str(caught.value)


FIRST = [(0, 2, "P"), (2, 3, "O"), (3, 4, "P")]
RIGHT = ["B-P", "I-P", "O", "B-P"]
test_refusals = refusals(
    (lambda args: check_training_data(*args),
     (TypeError, r"sortable.* 3 \(sequence 1, position 0\).*'A'", (DENSE, [["A", "B"], [3]])),
     (r"the label <NA> \(sequence 0, position 1\): each token needs a label", (DENSE, [["A", pd.NA], ["B"]])),
     (r"the label None \(sequence 0, position 1\)", (DENSE, [np.ma.array([0, 1], mask=[0, 1]), np.array([1])])),
     (r"the label None \(sequence 0, position 0\): each",
      (DENSE, [np.array([d], "M8[D]").repeat(n) for d, n in (("NaT", 2), ("2021", 1))])),
     (r"label -100 \(sequence 0, position 1\): is it Hugging", (DENSE, [np.array([0, -100]), np.array([1])])),
     (r"label -100 \(sequence 1, position 0\).* needs a label, or None if", (DENSE, [["A", "B"], [-100]])),
     ("only one class, 'A'", (DENSE, [["A", "A"], ["A"]])),
     (r"inf.*\(sequence 0, position 1\)", (DENSE, [np.array([1.0, np.inf]), np.array([1.0])])),
     (r"0.25 \(sequence 0, position 1\).*regression", (DENSE, [np.array([1.0, 0.25]), np.array([1.0])])),
     ("X has 2 sequences, y has 1", (DENSE, [["A", "B"]])),
     ("sequence 1 has 1 tokens in X, but 2 labels in y", (DENSE, [["A", "B"], ["B", "A"]])),
     (TypeError, r"sequence 0\) is .*str_?\), but must be a sequence of labels", (DENSE, np.array(["A", "B"]))),
     (r"sequence 0\) has 2 dimensions", (DENSE, [np.ones((2, 1)), np.ones((1, 1))])),
     ("requires y to be passed, but the target y is None", (DENSE, None)),
     (r"wrap it, too: `\[X\]`", (np.ones((3, 2)), [["A", "B", "A"]])),
     ("1d array", (np.ones((3, 2)), [["A"], ["B"], ["A"]]), (np.ones((3, 2)), np.array([["A", "B"]] * 3))),
     ("inconsistent numbers of samples: X has 3 rows, y 2", (np.ones((3, 2)), ["A", "B"])),
     (TypeError, r"sortable.*1 \(sequence 2, position 0\)", (np.ones((3, 2)), ["A", "B", 1])),
     (TypeError, "hashable.*sequence 1", (np.ones((3, 2)), ["A", {}, "B"])),
     (TypeError, r"X is the str 'text'.*list\(text\)", ("text", Y)),
     (TypeError, r"sequence 0\) is the str 'ab'.*list\(text\)", (pd.Series(["ab", "c"]), Y)),
     (TypeError, r"sequence 0\) is the str_ .*'ab'.*list\(text\)", (np.array(["ab", "c"]), Y)),
     (TypeError, "sequence 0, position 0 .*SequenceFeatureExtractor", ([np.array(["a", "b"]), ["c"]], Y)),
     (TypeError, r"sequence 1\) is the int 3", ([[["a"], ["b"]], 3], Y)),
     (TypeError, r"sequence 1\) is the set \{'a'\}", ([[["a"], ["b"]], {"a"}], Y)),
     (TypeError, "is the SequenceBatch .*: pass a whole batch", ([SequenceBatch([0, 1], [0, 1], [0], None, 1)], Y)),
     (TypeError, "X must be a list of sequences", ({"a": 1}, Y)),
     (TypeError, "X must be a list of sequences.*NoneType", (None, Y)),
     ("4 dimensions", (np.ones((2, 2, 2, 2)), Y)),
     (TypeError, "sequence 0, position 1 of X is the int 5", ([[{"a": 1}, 5], [{}]], Y)),
     (TypeError, r"name must be a str, but sequence 0, position 1 of X has 3 \(int\)",
      ([[{"a": 1}, {3: 1}], [{}]], Y), ([[["a"], ["b", 3]], [[]]], Y)),
     (r"sequence 0, position 1 of X: b'.*' is not UTF-8 \(byte 0\)", ([[["a"], [b"\xff"]], [[]]], Y)),
     (r"sequence 1, position 0 of X: b'.*' is not UTF-8 \(byte 1\)", ([[{}, {}], [{b"a\xff": 1}]], Y)),
     ("sequence 1, position 0 of X: b'.*' is not UTF-8.*latin-1", ([[{}, {}], [{"a": b"\xe9"}]], Y)),
     (TypeError, "sequence 0, position 1 of X: attribute 'a' has the value", ([[{}, {"a": np.ones((2, 2))}], [{}]], Y)),
     (TypeError, r"^sequence 0, position 0 of X: attribute 'a' holds 1 \(int\), but the items of a list",
      ([[{"a": [1, 2]}, {}], [{}]], Y)),
     (TypeError,
      "sequence 1, position 0 of X: attribute 'a' has the value None.*: leave what is missing out of the dict$",
      ([[{}, {}], [{"a": None}]], Y)),
     (TypeError, "sequence 0, position 1 of X: attribute 'a:b' has the value", ([[{}, {"a": {"b": object}}], [{}]], Y)),
     ("NaN: sequence 1, position 0, attribute 'a' is nan", ([[{}, {}], [{"a": float("nan")}]], Y)),
     (r"inf: sequence 0, position 1, attribute 'a' is 1000*\.\.\.$", ([[{}, {"a": 10 ** 400}], [{}]], Y)),
     (r"ragged rows: sequence 0, position 1 of X is \[3\], the first row is \[1, 2\]", ([[[1, 2], [3]], [[1, 2]]], Y)),
     (TypeError, "sequence 0, position 1 of X is 3", ([[[1, 2], 3], [[1, 2]]], Y)),
     ("X has 2 features in sequence 1, but sequence 0 has 3", ([DENSE[0], np.ones((1, 2))], Y)),
     (TypeError, "sequence 1, position 0 of X is .*but must be a row of numbers", ([DENSE[0], np.ones(3)], Y)),
     ("sequence 1 of X has 3 dimensions", ([DENSE[0], np.ones((1, 3, 1))], Y)),
     ("NaN: sequence 1, position 0, feature 1 is None", ([DENSE[0], np.array([[1, None, {}]])], Y)),
     ("NaN: sequence 1, position 0, feature 2 is nan", ([DENSE[0], [[0, 1, np.nan]]], Y)),
     ("inf: sequence 0, position 0, feature 1", ([sparse.csr_array([[0, np.inf, 0]] * 2), DENSE[1]], Y)),
     ("sequence 0, position 1", (SequenceBatch([0, 2, 3], [0, 1, 2, 3], [0, 1, 0], [1, np.nan, 1], 2), Y)),
     ("NaN: sequence 0, position 1, feature 0", (np.array([[[1.0], [np.nan]]]), Y)),
     ("0 feature", (np.empty((2, 2, 0)), Y)),
     (TypeError, r"sequence 1, position 0, feature 1 of X is '2' \(str\), not a number",
      ([DENSE[0], [[1, "2", 3]]], Y)),
     (TypeError, "sequence 0, position 0, feature 0 of X is .*'1'", (np.array([[["1"], ["2"]]]), Y)),
     ("sequence 1, position 0, feature 2 .*mask", ([DENSE[0], np.ma.array([[1, 2, 3]], mask=[[0, 0, 1]])], Y)),
     ("sequence 0, position 1, feature 0 .*masked", (np.ma.array([[[1.0], [2.0]]], mask=[[[0], [1]]]), Y)),
     ("inf: sequence 1, position 0, feature 1 is an integer of 16610", ([DENSE[0], [[1, -10 ** 5000, 2]]], Y)),
     ("inf: sequence 0, position 1, feature 0 is 1000", (np.array([[[1], [10 ** 400]]], dtype=object), Y)),
     ("inf: sequence 0, position 1, attribute 'a' is an integer of 16610", ([[{}, {"a": 10 ** 5000}], [{}]], Y)),
     ("inf: sequence 0, position 0, feature 0 is inf", ([[{"a": {"b": 1e+308}, "a:b": 1e+308}, {}], [{}]], Y)),
     ("sequence 0, position 1 of X: attribute 'self:self:.* is a dict more than 100 levels", ([[{}, CYCLE], [{}]], Y)),
     ("sequence 1 of X is a broken sparse matrix", *(([DENSE[0][:, :2], broken], Y) for broken in BROKEN)),
     ("X has 2147483658 features, but at most 2147483647 are possible", ([wide(), wide()], Y), (wide(), ["A", "B"])),
     (TypeError, r"sequence 0, position 1 .* tuple \('a', 'NN'\), but a token must be a dict or a list",
      ([[["a"], ("a", "NN")], [["b"]]], Y)),
     ("no sequences", ([], Y), (SequenceBatch([0], [0], [], None, 2), Y)),
     ("0 sample", (np.empty((0, 3)), Y)),
     ("NaN: sequence 1, position 0, feature 1 is nan", ([[1, 2], [3, np.nan]], ["A", "B"])),
     ("inf: sequence 0, position 0, feature 1 is inf", (np.array([[1, np.inf], [0, 0]]), ["A", "B"])),
     (TypeError, "sequence 1, position 0, feature 1 of X is '4'",
      (pd.DataFrame({"a": [1, 2], "b": [3, "4"]}), ["A", "B"])),
     ("sequence 1, position 0, feature 0 of X is masked", (np.ma.array(np.eye(2), mask=[[0, 0], [1, 0]]), ["A", "B"])),
     ("sequence 1, position 0, feature 1 .*mask",
      ([np.ma.array([1, 2]), np.ma.array([1, 2], mask=[0, 1])], ["A", "B"])),
     ("Reshape your data", ([1, 2], ["A", "B"])),
     (TypeError, "Feature names", (pd.DataFrame({"a": [1, 2], 3: [1, 2]}), ["A", "B"])),
     ("inf: sequence 1, position 0, feature 0 is inf", (twice(1e+308), ["A", "B"])),
     ("X is a broken sparse matrix", (BROKEN[0], ["A", "B"])),
     ("non-zero", (DENSE, Y, [0.0, 0.0])),
     (r"sample_weight.shape == \(2, 2\), but there are 2 sequences", (DENSE, Y, np.ones((2, 2)))),
     ("masked at sequence 1", (DENSE, Y, np.ma.array([1.0, 5.0], mask=[0, 1]))),
     ("must be finite and not negative, but sequence 1 has inf", (DENSE, Y, [1, 10 ** 400])),
     (r"is too large for a float.*1.5e\+308 \(sequence 1\)", (DENSE, Y, [1e+308, 1.5e+308])),
     (TypeError, r"one number per sequence, but sample_weight\[0\] \(sequence 0\) is", (DENSE, Y, ["1", "2"])),
     (TypeError, r"hashable, but \[\] \(sequence 1, position 0\)", (DENSE, [["A", "B"], [[]]], [0, 1]))),
    (lambda value: read_training(value, "segments"),
     (r"\(sequence 1, position 0\), but no sequence has that many", [FIRST, [(0, 2 ** 70, "P")]]),
     (TypeError, "start and stop must be integers", [FIRST, [(0.0, 2, "P")]]),
     (TypeError, r"sortable together, but 3 \(sequence 1, position 0\)", [FIRST, [(0, 2, 3)]]),
     (TypeError, r"'P' of y \(sequence 1, position 0\) is not a segment", [FIRST, ["P", "P"]]),
     (TypeError, "sequence 1", [FIRST, "PP"]),
     ("X has 2 sequences, y has 1", [FIRST]),
     ("y is None", None)),
    (lambda value: read_training([RIGHT, value], "bio"),
     (r"the label None \(sequence 1, position 1\): each token needs a label", ["B-P", None]),
     (r"1 of y \(sequence 1, position 0\) is not a tag", np.array([1, 2])),
     (r"'I-O' of y \(sequence 1, position 1\) has the label 'O'", ["B-P", "I-O"]),
     ("sequence 1 has 2 tokens in X, but 1 labels in y", ["B-P"])),
    (lambda args: read_training(*args),
     (TypeError, r"hashable, but \[\] \(sequence 1, position 1\)",
      ([["P"] * 4, ["P", []]], "runs", np.array([False, True])),
      ([FIRST, [(0, 1, "P"), (1, 2, [])]], "segments", np.array([False, True])))),
    (lambda args: HighOrderCRF().fit(*args),
     ("^X has no tokens in sequences of positive weight: fit needs at least one$", ([np.empty((0, 3))] * 2, [[], []])),
     ("^X has no tokens in sequences of positive weight", ([[["a"], ["b"]], []], [["x", "y"], []], [0, 1])),
     ("sequence 1 has 0 tokens in X, but 1 labels in y", ([[["a"]], []], [["x"], ["y"]])),
     ("at least 2 distinct labels", ([[["a"]], []], [["x"], []])),
     ("^Expected 2D array, got scalar array instead: X is the single value", (np.datetime64("2000-01-01"), ["A"])),
     (TypeError, r"^sequence 1, position 0, feature 0 of X is \[\] \(list\), not a number",
      ([[-1], [[]], [[]]], [["A"], ["B"], ["A"]])),
     ("^Input X contains NaN: sequence 0, position 0, feature 0 is nan",
      ([[np.nan], [[]], [[]]], [["A"], ["B"], ["A"]])),
     ("^Complex data not supported: X has the type complex128; take real and", (np.full((3, 2), 1j), ["a", "b", "a"]),
      (sparse.csr_array(np.full((3, 2), 1j)), ["a", "b", "a"]), ([[1j, 2], [2, 3], [1, 1]], ["a", "b", "a"])),
     ("^Complex data not supported: sequence 0 of X has the type complex128; take real and",
      (np.full((1, 3, 2), 1j), [["a", "b", "a"]]), ([sparse.csr_array(np.full((3, 2), 1j))], [["a", "b", "a"]]),
      ([[[1j, 2], [2, 3], [1, 1]]], [["a", "b", "a"]])),
     ("^Complex data not supported: sequence 1 of X has the type complex128; take real and",
      ([np.ones((1, 2)), np.full((2, 2), 1j)], [["a"], ["b", "a"]]))),
    (lambda: HighOrderSemiCRF().fit(SequenceBatch([0, 0, 0], [0], [], None, 2), [[], None]),
     "^X has no tokens in sequences of positive weight"),
    (lambda: HighOrderCRF(solver="sgd").partial_fit([[["a"], ["b"]]], [["x", "y"]]).partial_fit([[]], [[]]),
     "^X has no tokens in sequences of positive weight"),
    (lambda value: read(SEQUENCES, value),
     (r"wrap it: `\[X\]`", [[1, 2, 3]], sparse.csr_array((2, 3))),
     ("X has 4 features in sequence 1.* expecting 3", [np.ones((2, 3)), np.ones((2, 4))]),
     ("X has 4 features in sequence 0, but HighOrderStub is expecting 3 features", np.ones((2, 2, 4))),
     ("Reshape your data", np.ones(3)),
     ("ragged rows: sequence 1, position 0", [[1, 2, 3], [1, 2]]),
     ("attribute names, but HighOrderStub was fitted on rows of numbers", [[{"a": 1}]]),
     ("NaN: sequence 0, position 0, feature 2", [[[1, 2, np.nan]]])),
    (lambda args: read(*args),
     ("rows of numbers, but HighOrderStub was fitted on attribute names: prepare X as for fit",
      (ATTRIBUTES, np.ones((2, 2)))),
     (TypeError, r"wrap it: `\[X\]`", (ATTRIBUTES, [{"a": 1}, {"b": 1}])),
     (TypeError, "sequence 0, position 0 .*SequenceFeatureExtractor", (ATTRIBUTES, [["a", "b"]])),
     (TypeError, r"sequence 1.*list\(text\)", (ATTRIBUTES, [[["a"]], "ab"])),
     ("X has 4 features, but HighOrderStub is expecting 3 features", (TABLE, np.ones((2, 4)))),
     ("rows of numbers, but HighOrderStub was fitted on attribute names", (ATTRIBUTES, DENSE)),
     ("feature 1 is 'x'.*was 'b'", (NAMED, SequenceBatch([0, 1], [0, 0], [], None, 3, ["a", "x", "c"]))),
     ("X has 2 features, but .* expecting 3 .* feature 1 is 'c', in fit it was 'b'",
      (NAMED, SequenceBatch([0, 1], [0, 0], [], None, 2, ["a", "c"])))),
    (lambda args: SequenceBatch(*args, None, 2),
     ("offsets of a SequenceBatch must be in ascending order, from 0 to 3", ([1, 3], [0, 1, 2, 3], [0, 1, 0]),
      ([0, 2], [0, 1, 2, 3], [0, 1, 0])),
     ("offsets of a SequenceBatch must be in ascending order", ([0, 3, 2, 3], [0, 1, 2, 3], [0, 1, 0]), ([], [0], [])),
     ("indptr of a SequenceBatch must be in ascending order, from 0 to 3", ([0, 3], [0, 2, 1, 3], [0, 1, 0])),
     ("indptr of a SequenceBatch must be in ascending order", ([0, 3], [0, 1, 2, 4], [0, 1, 0])),
     (r"indices of a SequenceBatch must lie in \[0, 2\)", ([0, 3], [0, 1, 2, 3], [0, 2, 0]),
      ([0, 3], [0, 1, 2, 3], [0, -1, 0]), ([0, 3], [0, 1, 2, 3], np.array([0, 2 ** 32, 0]))),
     (r"indices of a SequenceBatch must be a 1-D array of integers, not of shape \(3,\) and float64",
      ([0, 3], [0, 1, 2, 3], [0, 1.5, 0]))),
    (lambda args: SequenceBatch([0, 3], [0, 1, 2, 3], [0, 1, 0], *args),
     ("8589934592 features, but at most 2147483647 are possible", (None, 2 ** 33)),
     ("3 indices, but 1 values", ([1.0], 2)),
     ("2 features, but 1 names", (None, 2, ["a"]))),
    (lambda sample_weight: HighOrderCRF().fit([[["a"]], [["b"]]], [["A"], ["B"]], sample_weight=sample_weight),
     (TypeError, "^sample_weight .{0,185}$", "x" * 1000, 1j),
     ("^sample_weight .{0,185}$", -10 ** 400)),
    (lambda args: read_token_targets(*args, "sequences", "HighOrderStub", fixed=np.array(["A", "B"])),
     (r"unknown label 'C' of y \(sequence 1, position 1\)", ([["A"], ["B", "C"]], np.array([1, 2])))),
    (lambda: read_segment_targets([FIRST, [(0, 2, "Q")]], LENGTHS, "sequences", "HighOrderStub", scheme="segments",
         fixed=np.array(["O", "P"])),
     r"unknown label 'Q' of y \(sequence 1, position 0\)"),
    (lambda: copy.copy(
         HighOrderCRF(max_iter=1, tol=1000000000.0).fit([[["a"], ["b"]], [["a"]]], [["A", "B"], ["A"]])).set_params(
         n_jobs=0).predict_marginals([[["a"], ["b"]], [["a"]]]),
     "n_jobs.* must be an int.*[gG]ot 0"),
    (lambda: cross_val_predict(
         HighOrderCRF(max_iter=1, tol=1000000000.0).fit([[["a"], ["b"]], [["a"]]], [["A", "B"], ["A"]]),
         [[["a"], ["b"]], [["a"]]], [["A", "B"], ["A"]], cv=2, n_jobs=0),
     "n_jobs.* must be an int.*[gG]ot 0"),
)  # fmt: skip

"""Tables of errors, and confusions of segments."""

import itertools
from collections import namedtuple

import numpy as np
import pytest
from internals import Table
from refusals import refusals

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.inspection import error_table
from sklearn_hocrf.metrics import segment_confusion_matrix, segment_f1_score
from sklearn_hocrf.text import extract_segments

TAGS = ["O", "O", "B-A", "I-A", "B-B", "I-B"]


def draw_tags(rng, n_sequences=3):
    return [[str(tag) for tag in rng.choice(TAGS, rng.integers(0, 8))] for _ in range(n_sequences)]


def draw_pair(seed):
    rng = np.random.default_rng(seed)
    y_true = draw_tags(rng)
    y_pred = [[tag if rng.random() < 0.6 else str(rng.choice(TAGS)) for tag in tags] for tags in y_true]
    return y_true, y_pred


def overlap(one, other):
    return max(one[0], other[0]) < min(one[1], other[1])


def plain_confusion(y_true, y_pred, labels):
    """Return the counts of (true, predicted) labels of one place, None where there is no segment, as a matrix."""
    counts = dict.fromkeys(itertools.product([*labels, None], repeat=2), 0)
    for pair in zip(*(extract_segments(y, scheme="bio") for y in (y_true, y_pred)), strict=True):
        there, here = ({segment[:2]: segment[2] for segment in segments} for segments in pair)
        for place in {*there, *here}:
            counts[there.get(place), here.get(place)] += 1
    return np.reshape(list(counts.values()), (len(labels) + 1, -1))


@pytest.mark.parametrize("seed", range(20))
def test_confusion(seed):
    y_true, y_pred = draw_pair(seed)
    labels = ["B", "A", "X"]
    matrix = segment_confusion_matrix(y_true, y_pred, scheme="bio", labels=labels)
    np.testing.assert_array_equal(matrix, plain_confusion(y_true, y_pred, labels))
    assert matrix.dtype == np.int64
    for y, axis in ((y_true, 1), (y_pred, 0)):
        given = [label for segments in extract_segments(y, scheme="bio") for *_, label in segments]
        assert matrix.sum(axis=axis)[:-1].tolist() == [given.count(label) for label in labels]
    twice = segment_confusion_matrix(y_true, y_pred, scheme="bio", labels=labels, sample_weight=[2, 0, 0])
    np.testing.assert_array_equal(twice, 2 * plain_confusion(y_true[:1], y_pred[:1], labels))


def test_confusion_of_runs_without_outside():
    matrix = segment_confusion_matrix([["A", "A", "O"]], [["B", "B", "O"]], labels=["A", "B"])
    assert matrix.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert segment_confusion_matrix([["A", "A", "O"]], [["B", "B", "O"]], labels=["B"]).tolist() == [[0, 0], [1, 0]]
    assert segment_confusion_matrix([[]], [[]]).tolist() == [[0]]


def test_confusion_where_a_place_has_several_labels():
    """Each segment counts once; equal ones are pairs."""
    true, predicted = [[(0, 1, "A"), (0, 1, "B")]], [[(0, 1, "C"), (0, 1, "B"), (0, 1, "A", 0.5), (0, 1, "D")]]
    matrix = segment_confusion_matrix(true, [predicted[0][:2]])
    assert matrix.tolist() == [[0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert segment_confusion_matrix(true, predicted).trace() == 2
    assert segment_confusion_matrix(true, predicted)[-1].tolist() == [0, 0, 1, 1, 0]


def test_labels_called_none_or_numbers():
    assert segment_confusion_matrix([["none", "x"]], [["none", "none"]]).tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 0]]
    assert segment_confusion_matrix([[-1, 0]], [[-1, 3]]).tolist() == [
        [1, 0, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]


@pytest.mark.parametrize("seed", range(20))
def test_errors_are_all_and_only_errors(seed):
    y_true, y_pred = draw_pair(seed)
    X = [[f"t{i}" for i in range(len(tags))] for tags in y_true]
    errors = error_table(X, y_true, y_pred, scheme="bio")
    true, predicted = (
        {(n, *s) for n, segments in enumerate(extract_segments(y, scheme="bio")) for s in segments}
        for y in (y_true, y_pred)
    )
    assert sorted((row.sequence, *row.true) for row in errors if row.true) == sorted(true - predicted)
    assert sorted((row.sequence, *row.predicted) for row in errors if row.predicted) == sorted(predicted - true)
    for row in errors:
        both = row.true is not None and row.predicted is not None
        kind = ("label" if row.true[:2] == row.predicted[:2] else "other boundary") if both else None
        assert row.error == (kind or ("missing" if row.true else "spurious"))
        assert not both or overlap(row.true, row.predicted)
        if row.true:
            assert row.true_text.split() == X[row.sequence][row.true[0] : row.true[1]]
        assert row.probability is None
    missing = {(row.sequence, *row.true) for row in errors if row.error == "missing"}
    left = {(row.sequence, *row.predicted) for row in errors if row.error == "spurious"}
    assert not any(m[0] == p[0] and overlap(m[1:], p[1:]) for m in missing for p in left)  # they would be a pair


def test_confident_errors_come_first():
    X, y = [["Ann", "met", "Bob"], ["Bob", "met", "Ann"]] * 2, [["B-P", "O", "B-P"], ["B-P", "O", "O"]] * 2
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X, y)
    new, truth = X[:2], [["O", "O", "B-P"], ["O", "B-P", "O"]]
    predicted = pipe.predict_segments(new, with_probability=True)
    errors = error_table(new, truth, predicted, scheme="bio")
    known = {(n, *segment[:3]): segment[3] for n, found in enumerate(predicted) for segment in found.tolist()}
    given = [known[row.sequence, *row.predicted] for row in errors if row.predicted]
    assert given == sorted(given, reverse=True)
    assert [row.probability for row in errors] == [*given, None]


def test_tokens():
    X, y_true, y_pred = [["a", "b", "c"]], [["X", "X", "Y"]], [["X", "Y", "Y"]]
    [error] = error_table(X, y_true, y_pred, scheme="tokens")
    assert error == (0, "label", (1, 2, "X"), (1, 2, "Y"), "b", "b", None)


def test_long_tables_are_cut_where_they_are_shown():
    errors = error_table([["a"]] * 62, [["A"]] * 62, [["B"]] * 62)
    assert len(errors) == 62
    assert repr(errors).splitlines()[61:] == ["... and 2 more rows"]
    assert errors._repr_html_().endswith("<div>... and 2 more rows</div>")
    assert errors[:61]._repr_html_().endswith("<div>... and 1 more row</div>")
    assert "more" not in repr(errors[:60])


# --- wrong input, and input of other forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["runs", "bio", "bioes", "bilou", "bmes", "iob1"])
def test_lengths_of_two_labellings(scheme):
    message = "sequence 1 has 3 tokens in y_true, but 2 in y_pred"
    for score in (segment_confusion_matrix, segment_f1_score):
        with pytest.raises(ValueError, match=message):
            score([["O"], ["O"] * 3], [["O"], ["O"] * 2], scheme=scheme)
    assert segment_confusion_matrix([[(0, 3, "A")]], [[(0, 2, "A")]], scheme="segments").sum() == 2
    message = r"y_pred has the segment \(0, 2, 'A'\) \(sequence 0, position 0\), beyond the 1 tokens of y_true"
    with pytest.raises(ValueError, match=message):
        segment_confusion_matrix([["O"]], [[(0, 2, "A")]], scheme=scheme)
    with pytest.raises(ValueError, match=r"y_true has the segment .* beyond the 1 tokens of y_pred"):
        segment_confusion_matrix([[(0, 2, "A")]], [["O"]], scheme=scheme)


@pytest.mark.parametrize("scheme", ["runs", "bio", "tokens"])
@pytest.mark.parametrize("count", [1, 3])
def test_as_many_labels_as_tokens(scheme, count):
    X, right, wrong = [["a"], ["b", "c"]], [["O"], ["O", "O"]], [["O"], ["O"] * count]
    assert error_table(X, right, right, scheme=scheme) == []
    for name, y in (("y_true", (wrong, right)), ("y_pred", (right, wrong))):
        with pytest.raises(ValueError, match=f"sequence 1 has 2 tokens in X, but {count} in {name}"):
            error_table(X, *y, scheme=scheme)


@pytest.mark.parametrize("scheme", ["tokens", "runs", "bio"])
@pytest.mark.parametrize("label", [None, float("nan"), {"X"}])
def test_labels_are_read_by_name(scheme, label):
    kind = TypeError if isinstance(label, set) else ValueError
    for name, y in (("y_true", ([["O", label]], [["O", "O"]])), ("y_pred", ([["O", "O"]], [["O", label]]))):
        with pytest.raises(kind, match=rf"(?s){name}.*(sequence 0, position 1)"):
            error_table([["a", "b"]], *y, scheme=scheme)
        if scheme != "tokens":
            with pytest.raises(kind, match=rf"(?s){name}.*(sequence 0, position 1)"):
                segment_confusion_matrix(*y, scheme=scheme)


def test_cells_of_tables():
    row = namedtuple("row", ["name", "n"])
    given = [("\x1b[31mred", np.int64(3)), ("b", 2.5e300), ("c", 10**6), ("d", 999999.0), ("e", 10**5000)]
    table = Table(row, map(row._make, given))
    lines = repr(table).splitlines()
    assert "\x1b" not in repr(table) + table._repr_html_()
    assert lines[1].startswith("\\x1b[31mred")
    assert [line.split()[1] for line in lines[1:5]] == ["3", "2.5e+300", "1000000", "999999.000"]
    assert all(len(line) < 100 for line in lines)


test_refusals = refusals(
    (lambda: error_table([["a"]], [["A"]], [["A"], ["A"]]), "X has 1 sequences, but y_pred has 2"),
    (lambda: error_table([["a"]], [["A"]], [[(0, 2, "A", 0.5)]]),
     r"y_pred has the segment .* \(sequence 0, position 0\), beyond the 1 tokens of X"),
    (lambda: error_table([["a"]], [["A"]], [["A"]], scheme="bie"), "scheme must be one of"),
)  # fmt: skip

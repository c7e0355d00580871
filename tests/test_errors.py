"""Tables of errors, and confusions of segments."""

import itertools
import pickle

import numpy as np
import pytest

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import error_table, extract_segments, segment_confusion
from sklearn_hocrf.pipeline import make_pipeline

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


def plain_confusion(y_true, y_pred):
    """Return {(what is true, what is predicted): count}."""
    counts = {}
    for true, predicted in zip(
        extract_segments(y_true, encoding="bio"), extract_segments(y_pred, encoding="bio"), strict=True
    ):
        pairs = []
        for t in true:
            same = [p[2] for p in predicted if p[:2] == t[:2]]
            pairs.append(
                (t[2], same[0] if same else "other boundary" if any(overlap(t, p) for p in predicted) else "missing")
            )
        for p in predicted:
            if not any(p[:2] == t[:2] for t in true):
                pairs.append(("other boundary" if any(overlap(t, p) for t in true) else "spurious", p[2]))
        for pair in pairs:
            counts[pair] = counts.get(pair, 0) + 1
    return counts


@pytest.mark.parametrize("seed", range(20))
def test_confusion(seed):
    y_true, y_pred = draw_pair(seed)
    confusion = segment_confusion(y_true, y_pred, encoding="bio")
    cells = itertools.product(range(len(confusion.rows)), range(len(confusion.columns)))
    found = {
        (confusion.rows[i], confusion.columns[j]): int(confusion.matrix[i, j])
        for i, j in cells
        if confusion.matrix[i, j]
    }
    assert found == plain_confusion(y_true, y_pred)
    for y, axis, names in ((y_true, 1, confusion.rows), (y_pred, 0, confusion.columns)):
        labels = [label for segments in extract_segments(y, encoding="bio") for *_, label in segments]
        sums = confusion.matrix.sum(axis=axis)
        assert all(sums[names.index(label)] == labels.count(label) for label in set(labels))


def test_confusion_of_runs_without_outside():
    confusion = segment_confusion([["A", "A", "O"]], [["B", "B", "O"]], ignore=["O"])
    assert confusion.rows == ["A", "B", "other boundary", "spurious"]
    assert confusion.matrix[0, 1] == confusion.matrix.sum() == 1
    assert segment_confusion([[]], [[]]).matrix.shape == (2, 2)
    with pytest.raises(ValueError, match="y_true has 1 sequences, but y_pred has 2"):
        segment_confusion([[]], [[], []])


def test_confusion_in_a_notebook():
    html = segment_confusion([["<b>"]], [["x"]])._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_confusion_as_a_frame():
    pandas = pytest.importorskip("pandas", reason="pandas is absent")
    frame = pandas.DataFrame(*segment_confusion([["A", "B"]], [["A", "A"]]))
    assert frame.loc["A", "other boundary"] == 1


@pytest.mark.parametrize("seed", range(20))
def test_errors_are_all_and_only_errors(seed):
    y_true, y_pred = draw_pair(seed)
    X = [[f"t{i}" for i in range(len(tags))] for tags in y_true]
    errors = error_table(X, y_true, y_pred, encoding="bio")
    true, predicted = (
        {(n, *s) for n, segments in enumerate(extract_segments(y, encoding="bio")) for s in segments}
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


def test_segments_of_one_place_are_pairs():
    errors = error_table([["a"] * 4], [[(0, 1, "A"), (1, 3, "A")]], [[(0, 3, "A"), (1, 3, "B")]])
    assert [(row.error, row.true, row.predicted) for row in errors] == [
        ("other boundary", (0, 1, "A"), (0, 3, "A")),
        ("label", (1, 3, "A"), (1, 3, "B")),
    ]


def test_confident_errors_come_first():
    X, y = [["Ann", "met", "Bob"], ["Bob", "met", "Ann"]] * 2, [["B-P", "O", "B-P"], ["B-P", "O", "O"]] * 2
    pipe = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X, y)
    new, truth = X[:2], [["O", "O", "B-P"], ["O", "B-P", "O"]]
    predicted = pipe.predict_segments(new, with_probability=True)
    errors = error_table(new, truth, predicted, encoding="bio")
    known = {(n, *segment[:3]): segment[3] for n, found in enumerate(predicted) for segment in found.tolist()}
    given = [known[row.sequence, *row.predicted] for row in errors if row.predicted]
    assert given == sorted(given, reverse=True)
    assert [row.probability for row in errors] == [*given, None]
    other = error_table(new, truth, pipe.predict(new), encoding="bio", probability=pipe.segment_marginals(new))
    assert [row[:6] for row in other] == [row[:6] for row in errors]
    np.testing.assert_allclose([row.probability for row in other[:-1]], given)


def test_tokens():
    X, y_true, y_pred = [["a", "b", "c"]], [["X", "X", "Y"]], [["X", "Y", "Y"]]
    [error] = error_table(X, y_true, y_pred, encoding="tokens", probability=[[0.1, 0.2, 0.3]])
    assert error == (0, "label", (1, 2, "X"), (1, 2, "Y"), "b", "b", 0.2)
    with pytest.raises(ValueError, match="number for each token of sequence 0"):
        error_table(X, y_true, y_pred, probability=[[0.1, 0.2, 0.3]])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([["a"]], [["A"]], [["A"], ["A"]]), {}, "y_pred has 2 sequences, but X has 1"),
        (([["a"]], [["A", "A"]], [["A"]]), {}, "y_true has labels or segments beyond the 1 tokens of sequence 0"),
        (([["a"]], [["A"]], [[(0, 2, "A", 0.5)]]), {}, "y_pred has labels or segments beyond"),
        (([["a"]], [["A"]], [["A"]]), {"encoding": "bie"}, "encoding must be one of"),
    ],
)
def test_wrong_input(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        error_table(*arguments, **options)


def test_tables_are_lists():
    errors = error_table([["<i>"]], [["A"]], [["B"]])
    assert isinstance(errors, list)
    assert isinstance(errors[:1], type(errors))
    assert pickle.loads(pickle.dumps(errors)) == errors
    assert "&lt;i&gt;" in errors._repr_html_()
    assert repr(errors[:0]).startswith("sequence")


def test_long_tables_are_cut_where_they_are_shown():
    errors = error_table([["a"]] * 62, [["A"]] * 62, [["B"]] * 62)
    assert len(errors) == 62
    assert repr(errors).splitlines()[61:] == ["... and 2 more rows"]
    assert errors._repr_html_().endswith("<div>... and 2 more rows</div>")
    assert errors[:61]._repr_html_().endswith("<div>... and 1 more row</div>")
    assert "more" not in repr(errors[:60])

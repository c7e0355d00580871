"""The log odds that strings are segments, against counts by the definition."""

import numpy as np
import pytest
from feature_definitions import runs
from hypothesis import given
from hypothesis import strategies as st
from internals import segment_features
from refusals import refusals
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SegmentLogOddsEncoder, SequenceFeatureExtractor


def count(X, y, string):
    """Return (w, n): how often a string is a segment, and its other occurrences."""
    d = len(string)
    occurrences = sum(tokens[u : u + d] == string for tokens in X for u in range(len(tokens) - d + 1))
    w = sum(tokens[u:v] == string for tokens, segments in zip(X, y, strict=True) for u, v, _ in segments)
    return w, occurrences - w


def expected_values(X, y, string, smoothing, max_length):
    w, n = count(X, y, string) if len(string) <= max_length and None not in string else (0, 0)
    return {"log_odds": np.log((w + smoothing) / (n + smoothing))} if w != n else {}


def candidates(batch):
    """Return (sequence, start, stop) of all segments."""
    lengths = enumerate(batch.lengths.tolist())
    return [(n, u, v) for n, length in lengths for u in range(length) for v in range(u + 1, length + 1)]


def values_of(batch, segments):
    """Return one {name: value} per segment; check that no value is stored that is 0."""
    start, stop = (np.array([batch.offsets[s[0]] + s[i] for s in segments], dtype=np.int64).reshape(-1) for i in (1, 2))
    rows = segment_features(batch, start, stop)
    assert rows.shape == (len(segments), batch.n_features)
    assert (rows.data != 0).all()
    names = np.asarray(batch.feature_names)
    assert len(set(names)) == len(names)
    rows = rows.toarray()
    return [{names[i]: row[i] for i in np.flatnonzero(row)} for row in rows]


X = [list("abcab"), list("ab"), [], list("cc"), list("abcab"), list("bcaabb")]
Y = [list("PPQPP"), list("QQ"), [], list("PQ"), list("PPQQQ"), list("PQQPPQ")]
SEGMENTS = [runs(labels) for labels in Y]


@pytest.mark.parametrize("max_length", [None, 1, 9])
def test_equals_the_definition(max_length):
    """Also of duplicates, no tokens, missing ones; `transform` uses all counts, `fit_transform` those of the others."""
    words, y = [*X, ["c", None, "\ud800"], [None, "a", "a"]], [*SEGMENTS, runs("PPQ"), runs("PQQ")]

    def rows_of(words):
        return [[(word,) for word in sequence] for sequence in words]

    extractor = SegmentLogOddsEncoder(smoothing=0.7, max_length=max_length)
    left_out = extractor.fit_transform(rows_of(words), [*Y, list("PPQ"), list("PQQ")])
    full, longest = extractor.transform(rows_of(words)), max_length or 3
    assert extractor.max_length_ == longest
    assert extractor.get_feature_names_out().tolist() == list(full.feature_names) == ["log_odds"]
    segments = candidates(full)
    for (n, u, v), all_values, left_out_values in zip(
        segments, values_of(full, segments), values_of(left_out, segments), strict=True
    ):
        string = words[n][u:v]
        assert all_values == pytest.approx(expected_values(words, y, string, 0.7, longest))
        others = words[:n] + words[n + 1 :], y[:n] + y[n + 1 :]
        assert left_out_values == pytest.approx(expected_values(*others, string, 0.7, longest))
    unseen = [["a", "b", "x"], ["b", None], ["b", "a", "b"]]
    batch = extractor.transform(rows_of(unseen))
    for (n, u, v), values in zip(candidates(batch), values_of(batch, candidates(batch)), strict=True):
        assert values == pytest.approx(expected_values(words, y, unseen[n][u:v], 0.7, longest))


SEQUENCES = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("PQ")), max_size=7), min_size=1, max_size=6
)


@given(SEQUENCES)
def test_leaving_one_out_is_fitting_without_it(sequences):
    sequences = [*sequences, [("a", "P"), (None, "Q"), ("b", "Q")], [("b", "Q"), ("a", "P")]]  # both labels remain
    X = [[(token,) for token, _ in sequence] for sequence in sequences]
    y = [[label for _, label in sequence] for sequence in sequences]
    extractor = SegmentLogOddsEncoder(max_length=4)
    batch = extractor.fit_transform(X, y)
    for n in range(len(X)):
        alone = clone(extractor).fit(X[:n] + X[n + 1 :], y[:n] + y[n + 1 :]).transform(X[n : n + 1])
        segments = candidates(alone)
        for actual, expected in zip(values_of(batch[n], segments), values_of(alone, segments), strict=True):
            assert actual == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scheme", "y"),
    [
        ("bio", [["B", "I", "B", "B", "I"], ["B", "O"], [], ["O", "O"], ["O", "B", "I", "I", "B"], list("BIBIBI")]),
        ("bioes", [list("BESBE"), list("SO"), [], list("OO"), list("OBIES"), list("BEBEBE")]),
        (
            "segments",
            [
                [(0, 2, "_"), (2, 3, "_"), (3, 5, "_")],
                [(0, 1, "_"), (1, 2, "O")],
                [],
                [(0, 1, "O"), (1, 2, "O")],
                [(0, 1, "O"), (1, 4, "_"), (4, 5, "_")],
                [(0, 2, "_"), (2, 4, "_"), (4, 6, "_")],
            ],
        ),
    ],
)
def test_schemes(scheme, y):
    """O tokens are segments of one token with the label O."""
    extractor = SegmentLogOddsEncoder(scheme).fit(X, y)
    assert extractor.max_length_ == 3
    expected = {"a": (2, 5), "b": (2, 6), "c": (3, 2), "ab": (2, 4), "bca": (1, 2), "bc": (1, 2)}
    batch = extractor.transform([list(string) for string in expected])
    actual = values_of(batch, [(n, 0, len(string)) for n, string in enumerate(expected)])
    for values, (w, n) in zip(actual, expected.values(), strict=True):
        assert values.get("log_odds", 0.0) == pytest.approx(np.log((w + 1) / (n + 1)))


def test_fields():
    tokens = [[("a", "x", 1), ("b", "y", 1)], [("a", "y", 2), ("b", "y", 2)]]
    y = [["P", "P"], ["P", "Q"]]

    def odds(field, tokens=tokens):
        return values_of(SegmentLogOddsEncoder(field=field).fit(tokens, y).transform(tokens), [(0, 0, 1), (0, 0, 2)])

    def logs(*numbers):
        return [pytest.approx({"log_odds": np.log(number)} if number != 1 else {}) for number in numbers]

    assert odds(None) == odds(0) == logs(2 / 2, 2 / 2)
    assert odds(1) == logs(1 / 2, 2 / 1)
    assert odds(2) == logs(1 / 3, 2 / 1)
    dicts = [[{"w": w, "p": p} for w, p, _ in sequence] for sequence in tokens]
    assert odds("p", dicts) == odds(1)


def test_other_input_than_in_fit():
    extractor = SegmentLogOddsEncoder()
    with pytest.raises(NotFittedError):
        extractor.transform(X)
    extractor.fit(X, Y)
    with pytest.raises(ValueError, match=r"fields \['x'\], but those in fit had \['w'\]"):
        extractor.transform([[1.0]])
    assert extractor.transform([[], []]).shape == (2, 1)
    with pytest.raises(ValueError, match="no tokens to learn"):
        extractor.fit([[], []], [[], []])


def test_appends_to_what_is_there():
    tokens = SequenceFeatureExtractor(bias=True)
    segments = SegmentFeatureExtractor(inside="bias", length="gamma")
    pipeline = make_pipeline(tokens, segments, SegmentLogOddsEncoder())
    batch = pipeline.fit_transform(X, Y)
    before = make_pipeline(tokens, segments).transform(X)
    assert list(batch.feature_names) == [*before.feature_names, "log_odds"]
    assert pipeline.transform(X[:2]).feature_names is batch.feature_names
    only = SegmentLogOddsEncoder().fit_transform(tokens.fit_transform(X), Y)
    assert list(only.feature_names) == [*tokens.get_feature_names_out(), "log_odds"]
    for both, parts in zip(values_of(batch, candidates(batch)), values_of(before, candidates(before)), strict=True):
        assert {name: number for name, number in both.items() if "odds" not in name} == parts


# ---- the difference between fit_transform and transform, where it matters


class Witness(BaseEstimator):
    """A stand-in for a segmenter: notes the log odds of the first token of what it sees."""

    def fit(self, X, y):
        self.seen_ = self.look(X)
        return self

    def score(self, X, y):
        return self.look(X)[0]

    @staticmethod
    def look(X):
        return segment_features(X, X.offsets[:-1], X.offsets[:-1] + 1).toarray().ravel().tolist()


def test_pipelines_leave_one_out_in_training_only():
    """Three sequences "a", each one segment: w = 2 for training, w = 3 for everything new."""
    X, y = [["a"]] * 3, [[(0, 1, "word")]] * 3
    pipeline = make_pipeline(SegmentLogOddsEncoder("segments"), Witness()).fit(X, y)
    assert pipeline[-1].seen_ == pytest.approx([np.log(3)] * 3)
    assert pipeline.score(X, y) == pytest.approx(np.log(4))
    refitted = pipeline[0].fit(X, y).transform(X)
    assert Witness.look(refitted) == pytest.approx([np.log(4)] * 3)  # not what fit_transform returns


def test_folds_count_their_own_training_sequences():
    X, y = [["a"]] * 6, [[(0, 1, "word")]] * 6
    pipeline = make_pipeline(SegmentLogOddsEncoder("segments"), Witness())
    assert cross_val_score(pipeline, X, y, cv=KFold(3)) == pytest.approx([np.log(5)] * 3)
    search = GridSearchCV(pipeline, {"segmentlogoddsencoder__smoothing": [1.0, 0.5]}, cv=KFold(3)).fit(X, y)
    assert search.cv_results_["mean_test_score"] == pytest.approx([np.log(5), np.log(4.5 / 0.5)])
    assert search.best_estimator_[-1].seen_ == pytest.approx([np.log(5.5 / 0.5)] * 6)


test_refusals = refusals(
    (lambda: SegmentLogOddsEncoder(field="p").fit(X, Y),
     r"field names the field 'p', but the tokens have the fields \['w'\]"),
    (lambda value: SegmentLogOddsEncoder().fit(X, value),
     ("SegmentLogOddsEncoder requires y", None),
     ("X has 6 sequences, y has 2", Y[:2]),
     ("sequence 0 has 5 tokens in X, but 1 labels in y", [["P"], *Y[1:]])),
    (lambda: SegmentLogOddsEncoder(scheme="bio").fit(X, Y), "'[PQ]' of y .* is not a tag"),
    (lambda: SegmentLogOddsEncoder(scheme="segments").fit(X, [[(0, 2, "P"), (3, 5, "P")], *SEGMENTS[1:]]),
     r"gap \[2, 3\)"),
)  # fmt: skip

"""HighOrderSemiCRF: its predictions by scheme and shape, and the effect of each parameter, against enumeration."""

import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import BAG, BEGIN, LengthBlock, SequenceBatch, TokenBlock
from refusals import refusals
from registry import written
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SegmentLogOddsEncoder, SequenceFeatureExtractor
from sklearn_hocrf.text import extract_segments

LINES = ["Ann Lee met Bob in Rome", "met Ann", "Bob Lee Rome", "in Rome met Bob"]
WORDS = [line.split() for line in LINES]
X = [[{"word": word, "title": word.istitle()} for word in sequence] for sequence in WORDS]
ROWS = [np.array([[float(len(w)), float("o" in w), float(w.istitle())] for w in sequence]) for sequence in WORDS]
SEGMENTS = [
    [(0, 2, "P"), (2, 3, "O"), (3, 4, "P"), (4, 5, "O"), (5, 6, "L")],
    [(0, 1, "O"), (1, 2, "P")],
    [(0, 2, "P"), (2, 3, "L")],
    [(0, 1, "O"), (1, 2, "L"), (2, 3, "O"), (3, 4, "P")],
]
TOKEN_SCHEMES = ["runs", "bio", "bioes"]
SCHEMES = ["segments", *TOKEN_SCHEMES]
Y = {scheme: [written(segments, scheme) for segments in SEGMENTS] for scheme in SCHEMES}
LABELS = ["L", "O", "P"]


def fit(scheme, **parameters):
    return HighOrderSemiCRF(scheme=scheme, **parameters).fit(X, Y[scheme])


@pytest.fixture(scope="module")
def fitted():
    return {scheme: fit(scheme, max_order=2) for scheme in SCHEMES}


def without_outside(segments, scheme):
    return [s for s in segments if s[2] != "O" or scheme not in ("bio", "bioes")]


# --- predictions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_predictions_are_in_the_scheme_of_y(fitted, scheme):
    crf = fitted[scheme]
    predicted = crf.predict(X)
    assert predicted == Y[scheme]
    assert all(type(sequence) is list for sequence in predicted)
    assert crf.predict_segments(X) == [without_outside(segments, scheme) for segments in SEGMENTS]
    labels = [[label for *_, label in of_one] for of_one in SEGMENTS] if scheme == "segments" else Y[scheme]
    assert crf.classes_.tolist() == sorted({label for of_one in labels for label in of_one})
    assert crf.score(X, Y[scheme]) == 1
    if scheme in TOKEN_SCHEMES:
        assert extract_segments(predicted, scheme=scheme) == crf.predict_segments(X)
        assert all(type(label) is str for sequence in predicted for label in sequence)


def test_labels_of_any_kind_come_back_as_they_were():
    codes = {"L": 7, "O": -1, "P": 3}
    crf = HighOrderSemiCRF().fit(X, [np.array([codes[y] for y in labels], dtype=np.int16) for labels in Y["runs"]])
    assert crf.classes_.dtype == crf.predict(X)[0].dtype == np.int16
    assert crf.predict_segments(X, threshold=0.1)[0].dtype["label"] == np.int16
    assert type(crf.predict_segments(X)[0][0][2]) is int
    tuples = [[(y, 1) for y in labels] for labels in Y["runs"]]
    crf = HighOrderSemiCRF(segment_length={("P", 1): 4}).fit(X, tuples)
    assert crf.segment_labels_.tolist() == [("L", 1), ("O", 1), ("P", 1)]
    assert crf.predict_segments(X)[1] == [(0, 1, ("O", 1)), (1, 2, ("P", 1))]
    assert crf.segment_length_ == {("L", 1): (1, 1), ("O", 1): (1, 1), ("P", 1): (1, 4)}
    assert crf.predict_segments(X, threshold=0.2)[1]["label"].tolist()[0] in tuples[0]


# --- fitted attributes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fitted_attributes(fitted, scheme):
    crf = fitted[scheme]
    assert crf.segment_labels_.tolist() == LABELS
    assert crf.segment_length_ == {"L": (1, 1), "O": (1, 1), "P": (1, 2)}
    labels = [[label for *_, label in segments] for segments in SEGMENTS]
    observed = {tuple(y[i : i + k]) for y in labels for k in (1, 2, 3) for i in range(len(y) - k + 1)}
    assert crf.patterns_ == sorted(observed, key=lambda pattern: (len(pattern), pattern))
    assert list(crf.feature_names_in_) == ["title", *sorted({f"word:{w}" for words in WORDS for w in words})]
    assert crf.n_features_in_ == len(crf.feature_names_in_)
    assert crf.coef_.format == "csr"
    assert crf.coef_.shape == (len(observed), crf.n_features_in_)
    assert crf.pattern_coef_.shape == (len(observed),)
    assert crf.automaton_.n_labels == 3
    assert crf.objective_history_.shape == (crf.n_iter_ + 1,)


def test_repeats_that_schemes_of_borders_allow():
    y = [["B-P", "B-P", "I-P"], ["O", "O"]]
    x = [X[2], X[1]]
    crf = HighOrderSemiCRF(scheme="bio").fit(x, y)
    assert ("P", "P") in crf.patterns_
    assert ("O", "O") in crf.patterns_
    assert crf.predict(x) == y


# --- tags -------------------------------------------------------------------------------------------------------------


def test_tags_without_label_stand_for_one_and_come_back_without():
    bare = {"B-P": "B", "I-P": "I", "B-L": "O", "O": "O"}
    y = [[bare[tag] for tag in tags] for tags in Y["bio"]]
    crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
    assert crf.segment_labels_.tolist() == ["O", "_"]
    assert crf.classes_.tolist() == ["B", "I", "O"]
    assert crf.predict(X) == y
    assert crf.predict_segments(X)[0] == [(0, 2, "_"), (3, 4, "_")]
    named = [[tag if tag == "O" else f"{tag}-_" for tag in tags] for tags in y]
    np.testing.assert_array_equal(crf.log_likelihood(X, named), crf.log_likelihood(X, y))
    assert HighOrderSemiCRF(scheme="bio").fit(X, named).predict(X) == named


def test_words_need_only_one_label():
    y = [["B", "I", "B", "B", "B", "I"], ["B", "I"], ["B", "B", "I"], ["B", "B", "B", "B"]]
    crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
    assert crf.segment_labels_.tolist() == ["_"]
    assert crf.classes_.tolist() == ["B", "I"]
    segments = extract_segments(y, scheme="bio")
    explicit = HighOrderSemiCRF(scheme="segments").fit(X, segments)
    assert explicit.predict(X) == crf.predict_segments(X) == extract_segments(crf.predict(X), scheme="bio")
    np.testing.assert_array_equal(explicit.coef_.toarray(), crf.coef_.toarray())
    with pytest.raises(ValueError, match="only one class, 'x'"):
        HighOrderSemiCRF().fit(X, [["x"] * len(tags) for tags in y])


@given(st.sampled_from(SCHEMES), st.data())
def test_the_score_compares_tokens(fitted, scheme, data):
    """With segments, their labels and whether a segment begins."""
    truth, right = [], []
    for labels, words in zip(fitted[scheme].predict(X), WORDS, strict=True):
        stops = [*sorted(data.draw(st.sets(st.integers(1, len(words) - 1)))), len(words)]
        bounds = zip([0, *stops[:-1]], stops, strict=True)
        drawn = [(u, v, data.draw(st.sampled_from(LABELS if v == u + 1 else "LP"))) for u, v in bounds]
        truth.append(written(drawn, scheme))
        own, other = labels, truth[-1]
        if scheme == "segments":
            own, other = ([(z, t == u) for u, v, z in of for t in range(u, v)] for of in (own, other))
        right += [a == b for a, b in zip(own, other, strict=True)]
    assert fitted[scheme].score(X, truth) == np.mean(right)


@pytest.mark.parametrize("scheme", ["bio", "bioes"])
def test_classes_are_the_tags_that_can_occur(scheme):
    longer = fit(scheme, segment_length={"P": 3})
    expected = {"bio": ["B-L", "B-P", "I-P", "O"], "bioes": ["B-P", "E-P", "I-P", "O", "S-L", "S-P"]}[scheme]
    assert longer.classes_.tolist() == expected
    assert longer.segment_length_["O"] == (1, 1)
    mixed = fit(scheme, segment_length={"P": None, "L": (1, 4)})
    assert mixed.segment_length_ == {"L": (1, 4), "O": (1, 1), "P": (1, 2)}
    inf = fit(scheme, segment_length=math.inf)
    assert inf.segment_length_ == {"L": (1, math.inf), "O": (1, 1), "P": (1, math.inf)}
    assert "I-L" in inf.classes_


# --- lengths ----------------------------------------------------------------------------------------------------------

LONG = [[{"word": "Ann", "title": True}] * 5]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_test_segments_that_are_longer_than_any_in_training(scheme):
    truth = [written([(0, 5, "P")], scheme)]
    limited = fit(scheme)
    assert all(stop - start <= 2 for start, stop, _ in limited.predict_segments(LONG)[0])
    assert limited.log_likelihood(LONG, truth).tolist() == [-np.inf]
    assert limited.score(LONG, truth) < 1
    lifted = fit(scheme, segment_length={"P": np.inf})
    assert lifted.segment_length_ == {"L": (1, 1), "O": (1, 1), "P": (1, np.inf)}
    assert np.isfinite(lifted.log_likelihood(LONG, truth)).all()
    enough = fit(scheme, segment_length={"P": 5})
    assert np.isfinite(enough.log_likelihood(LONG, truth)).all()
    assert np.isneginf(fit(scheme, segment_length={"P": 4}).log_likelihood(LONG, truth)).all()


# --- other parameters -------------------------------------------------------------------------------------------------


def test_patterns_with_equal_neighbours_cannot_occur_in_runs():
    every = fit("runs", max_order=2, patterns="all")
    assert len(every.patterns_) == 3 + 6 + 12
    assert len(fit("bio", max_order=2, patterns="all").patterns_) == 3 + 9 + 27
    given = fit("runs", max_order=2, patterns=[("P", "P"), ("P", "O"), ("O", "O", "P")])
    assert given.patterns_ == [("L",), ("O",), ("P",), ("P", "O")]
    assert given.predict(X) == Y["runs"]
    given.log_likelihood(X, Y["runs"])
    with pytest.raises(ValueError, match=r"pattern \('P', 'B-P'\) has the label 'B-P'"):
        fit("bio", patterns=[("P", "B-P")])


# --- quality ----------------------------------------------------------------------------------------------------------


# --- features of segments ---------------------------------------------------------------------------------------------


def batch_with_blocks(names=None):
    plain = SequenceBatch.from_csr(sparse.csr_array(np.vstack(ROWS)), [0, 6, 8, 11, 15], names)
    blocks = [
        TokenBlock(BEGIN, np.array([0, 2], dtype=np.int32), "begin:"),
        TokenBlock(BAG, np.array([1], dtype=np.int32), ""),
        LengthBlock("capped", 3),
    ]
    parts = [getattr(plain, name) for name in ("offsets", "indptr", "indices", "values", "n_attributes")]
    return SequenceBatch(*parts, names, blocks=blocks)


BIO = [["B-P", "I-P", "O"], ["B-P", "B-L", "O"]]
THREE = [[["a"], ["b"], ["c"]], [["a"], ["d"], ["c"]]]


@pytest.mark.parametrize("y", [BIO, [["B", "I", "I"], ["B", "O", "O"]]])
def test_bio_tags_given_as_bioes_are_told(y):
    words = [[word for (word,) in tokens] for tokens in THREE]
    for estimator, X in ((HighOrderSemiCRF(), THREE), (SegmentFeatureExtractor(identity=True), words)):
        with pytest.warns(UserWarning, match='the labels look like BIO tags: scheme="bio"') as record:
            estimator.set_params(scheme="bioes").fit(X, y)
        assert [warning.filename for warning in record] == [__file__]


@pytest.mark.parametrize(
    ("scheme", "y"),
    [
        ("bio", BIO),
        ("bio", [np.array(tags, dtype=object) for tags in BIO]),
        ("bio", [["B-P", None, "O"], ["B-L", "I-L", "O"]]),
        ("iob1", [["I-P", "I-P", "O"], ["O", "O", "O"]]),
        ("bioes", [["B-P", "E-P", "O"], ["O", "O", "O"]]),
        ("bioes", [["S-P", "O", "O"], ["O", "O", "O"]]),
        ("bilou", [["B-P", "L-P", "O"], ["U-P", "O", "O"]]),
        ("bmes", [["B-P", "M-P", "E-P"], ["O", "O", "O"]]),
        ("bio", [["O", "O", "O"], ["O", "O", "O"]]),
        ("runs", [["B-", "O", "O"], ["O", "O", "O"]]),
        ("runs", [["P", "L", "O"], ["O", None, "O"]]),
        ("runs", [[1, 1, 0], [2, 0, 0]]),
        ("runs", [[("B-P", 1), ("O", 1), ("O", 1)], [("O", 1), ("O", 1), ("O", 1)]]),
        ("segments", [[(0, 2, "B-P"), (2, 3, "I-P")]] * 2),
    ],
)
def test_labels_show_their_scheme(scheme, y):
    words = [[word for (word,) in tokens] for tokens in THREE]
    with warnings.catch_warnings(action="error"):
        model = HighOrderSemiCRF().fit(THREE, y)
        named = HighOrderSemiCRF(scheme=scheme).fit(THREE, y)
    assert model.scheme_ == named.scheme_ == scheme
    assert list(map(list, model.predict(THREE))) == list(map(list, named.predict(THREE)))
    np.testing.assert_array_equal(model.pattern_coef_, named.pattern_coef_)
    assert model.scheme == "auto"
    assert pickle.loads(pickle.dumps(model)).scheme_ == scheme
    if not any(label is None for labels in y for label in labels):
        guessed, told = (SegmentFeatureExtractor(identity=True, scheme=each).fit(words, y) for each in ("auto", scheme))
        assert guessed.get_feature_names_out().tolist() == told.get_feature_names_out().tolist()
        guessed, told = (SegmentLogOddsEncoder(scheme=each).fit(words, y) for each in ("auto", scheme))
        assert guessed.get_feature_names_out().tolist() == told.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    ("scheme", "y", "message"),
    [
        ("bio", [["B", "I", "O"], ["O", "O", "O"]], r"\['B', 'I'\] are read as tags of \"bio\""),
        ("runs", [["B-P", "I-P", "X"], ["O", "O", "O"]], r"'B-P' looks like a tag, but .* \('X' is not a tag\)"),
    ],
)
def test_doubtful_schemes_are_told(scheme, y, message):
    with pytest.warns(UserWarning, match=message) as record:
        assert HighOrderSemiCRF().fit(THREE, y).scheme_ == scheme
    assert [warning.filename for warning in record] == [__file__]
    with warnings.catch_warnings(action="error"):
        HighOrderSemiCRF(scheme=scheme).fit(THREE, y)


def test_parts_of_tags_need_the_name_of_their_scheme():
    """The first part may lack some of the tags."""
    online = HighOrderSemiCRF(solver="sgd")
    with pytest.raises(ValueError, match=r"labels look like BIO tags, but .* come in parts: pass scheme=\"bio\""):
        online.partial_fit(THREE, BIO, classes=["B-P", "I-P", "B-L", "I-L", "O"])
    runs = [["P", "P", "O"], ["O", "O", "O"]]
    assert clone(online).partial_fit(THREE, runs, classes=["P", "O", "L"]).scheme_ == "runs"
    segments = [[(0, 2, "P"), (2, 3, "L")]] * 2
    assert clone(online).partial_fit(THREE, segments, classes=["P", "O", "L"]).scheme_ == "segments"
    model = clone(online).partial_fit(THREE, BIO)
    assert model.partial_fit(THREE, [["O", "O", "O"]] * 2).scheme_ == "bio"


def count_tokens(tokens, starts, stops):
    return stops - starts


@pytest.mark.parametrize(
    ("transformer", "feature"),
    [
        (SegmentFeatureExtractor(length="capped", scheme="bio"), "length=1"),
        (SegmentFeatureExtractor(identity=True, scheme="bio"), "identity="),
        (SegmentFeatureExtractor(functions=count_tokens, scheme="bio"), "count_tokens, "),
        (SegmentLogOddsEncoder(scheme="bio"), "log_odds"),
    ],
)
def test_features_learned_with_another_scheme_are_told(transformer, feature):
    batch = pickle.loads(pickle.dumps(transformer.fit_transform(WORDS, Y["bio"])[:4]))[[0, 1, 2, 3]]
    message = f"in X .{feature}.*scheme='bio', but HighOrderSemiCRF has scheme='runs'"
    with pytest.warns(UserWarning, match=message) as record:
        HighOrderSemiCRF(scheme="runs").fit(batch, Y["runs"])
    assert [warning.filename for warning in record] == [__file__]
    with warnings.catch_warnings(action="error"):
        HighOrderSemiCRF(scheme="bio").fit(batch, Y["bio"])


def test_features_that_no_y_was_read_for_go_with_every_scheme():
    extractor = SegmentFeatureExtractor(length=("capped", "gamma"), max_length=3, begin=True, scheme="bio")
    batch = make_pipeline(SequenceFeatureExtractor(), extractor).fit_transform(WORDS, Y["bio"])
    with warnings.catch_warnings(action="error"):
        HighOrderSemiCRF(scheme="runs").fit(batch, Y["runs"])


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_scores_that_overflow_are_refused(estimator):
    X, y = [[{"a": 1.0}, {"b": 1.0}], [{"b": 1.0}, {"a": 1.0}]], [["x", "y"], ["y", "x"]]
    model = estimator(sigma_reg=10).fit(X, y)
    huge = [X[0], [{"a": 1e308}, {"b": 1.0}]]
    for ask in (model.predict, model.predict_marginals, lambda X: model.log_likelihood(X, y)):
        with pytest.raises(ValueError, match="sequence 1: its scores are beyond floating point numbers"):
            ask(huge)


test_refusals = refusals(
    (lambda segment_length: HighOrderSemiCRF(scheme="runs", segment_length=segment_length).fit(
         X, Y.get("runs", SEGMENTS)),
     ("segment_length names the label 'Q', which the training data do not have", {"Q": 2}),
     (r"segment_length maps labels to an integer >= 1, inf or a pair \(minimum, maximum\); got 'P': 0", {"P": 0}),
     ("segment_length maps labels", {"P": 2.5}, {"P": True}, {"P": "2"}, {"P": -np.inf}, {"P": np.nan})),
    (lambda: HighOrderSemiCRF(scheme="bio", segment_length={"P": 1}).fit(X, Y.get("bio", SEGMENTS)),
     r"segment \(0, 2, 'P'\) of sequence 0 of y has 2 tokens"),
    (lambda: HighOrderSemiCRF(scheme="bioes", segment_length={"O": 2}).fit(X, Y.get("bioes", SEGMENTS)),
     r"segment_length\['O'\] is 2, but every O token is a segment of length 1"),
    (lambda scheme: HighOrderSemiCRF(scheme=scheme).fit([[["a"], ["b"]]], [["S", "O"]]).score(
         [[["a"]] * 3], [[(0, 1, "A"), (1, 3, "B")]]),
     ('scheme="segments"', "runs", "bioes")),
    (lambda: HighOrderSemiCRF(scheme="bio").fit(THREE, [["B-P"] * 3, ["O", "B-", "O"]]),
     "'B-' of y .sequence 1, position 1. is not a tag of scheme='bio'"),
    (lambda: HighOrderSemiCRF(max_order=True).fit(X, Y["runs"]), "max_order must be an integer.*got True"),
    (lambda: HighOrderSemiCRF(scheme="segments", segment_length=1).fit(X, SEGMENTS, sample_weight=[0, 1, 1, 1]),
     r"segment \(0, 2, 'P'\) of sequence 2 of y has 2 tokens"),
    (lambda value: HighOrderSemiCRF().fit(batch_with_blocks(), Y["runs"]).predict(value),
     ("does not have the segment features that HighOrderSemiCRF was fitted on",
      SequenceBatch.from_csr(sparse.csr_array(np.ones((2, 6))), [0, 2]), [np.ones((2, 6))], np.ones((1, 2, 6))),
     ("X has attribute names|segment features", X)),
    (lambda: HighOrderSemiCRF().fit([np.ones((len(labels), 6)) for labels in Y["runs"]], Y["runs"]).predict(
         batch_with_blocks()),
     "does not have the segment features"),
    (lambda: HighOrderCRF().fit([np.ones((len(y), 6)) for y in Y["runs"]], Y["runs"]).predict(batch_with_blocks()),
     "use HighOrderSemiCRF"),
)  # fmt: skip

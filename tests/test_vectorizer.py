"""Attributes as they are: feature dicts and lists of names as a batch."""

import pickle

import numpy as np
import pytest
from internals import Vocabulary, read_attributes
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SegmentLogOddsEncoder, SequenceFeatureExtractor

DICTS = [
    [{"w": "in", "n": 2.0, "b": True}, {"w": "the", "more": {"p": "x", "q": ["r", "s"]}}, {}],
    [],
    [{"w": "the", "b": False, "n": -1}],
]
LISTS = [[["w:in", "b"], ["w:the", "b", "b"]], [[]]]


@pytest.mark.parametrize("X", [DICTS, LISTS])
@pytest.mark.parametrize("min_count", [1, 2])
def test_vectorizer_makes_the_attributes_of_the_estimators(X, min_count):
    vectorizer = SequenceFeatureExtractor("attributes", min_count=min_count)
    batch = vectorizer.fit_transform(X)
    model = HighOrderCRF(max_iter=0)
    with pytest.warns(ConvergenceWarning):
        model.fit([s for s in X if s], [["P"] * len(s) if n else ["Q"] * len(s) for n, s in enumerate(X) if s])
    names = model.feature_names_in_.tolist()
    tokens = [token for sequence in X for token in sequence]
    expected = read_attributes(X, Vocabulary(zip(names, range(len(names)), strict=True)), grow=False).toarray()
    kept = (expected != 0).sum(axis=0) >= min_count
    assert vectorizer.get_feature_names_out().tolist() == np.array(names)[kept].tolist()
    assert batch.feature_names.tolist() == vectorizer.get_feature_names_out().tolist()
    assert vectorizer.n_features_out_ == batch.n_features
    np.testing.assert_array_equal(batch.toarray(), expected[:, kept])
    assert batch.n_tokens == len(tokens)
    later = vectorizer.transform(X[::-1])
    np.testing.assert_array_equal(later[::-1].toarray(), batch.toarray())
    assert later.feature_names is batch.feature_names
    assert vectorizer.transform([[["unseen"]], []]).toarray().tolist() == [[0.0] * batch.n_features]


def test_vectorizer_keeps_columns():
    vectorizer = SequenceFeatureExtractor("attributes", fields=["w", "n"])
    batch = vectorizer.fit_transform(DICTS)
    codes, values = batch.columns["w"]
    assert np.append(values, None)[codes].tolist() == ["in", "the", None, "the"]
    np.testing.assert_array_equal(batch.columns["n"], [2.0, np.nan, np.nan, -1.0])
    assert list(SequenceFeatureExtractor("attributes", fields=["w"]).fit_transform(DICTS).columns) == ["w"]
    batch = vectorizer.transform([[{"w": "new"}, {"n": 3}]])
    assert batch.columns["w"].values.tolist() == ["new"]
    with pytest.raises(ValueError, match="field 'w' held text in fit, but holds numbers"):
        vectorizer.transform([[{"w": 1}]])
    with pytest.raises(ValueError, match="sequence 1, position 0: the token .* is a list"):
        SequenceFeatureExtractor("attributes", fields=["w"]).fit([[{"w": "a"}], [["w:a"]]])
    with pytest.raises(TypeError, match="sequence 0, position 1: field 'w' is"):
        SequenceFeatureExtractor("attributes", fields=["w"]).fit([[{"w": "a"}, {"w": ["b", "c"]}]])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([["in"]], TypeError, "sequence 0, position 0 .* SequenceFeatureExtractor"),
        ("in", TypeError, "X is the str"),
        ([[{"w": object()}]], TypeError, "sequence 0, position 0"),
        ([[{"w": np.inf}]], ValueError, "sequence 0, position 0"),
        ([np.ones((2, 2))], TypeError, "rows of numbers"),
        (np.ones((2, 2)), TypeError, "rows of numbers"),
        (SequenceFeatureExtractor().fit_transform([["a", "b"]]), TypeError, "is already a SequenceBatch"),
        ([], ValueError, "no tokens"),
        ([[]], ValueError, "no tokens"),
    ],
)
def test_vectorizer_refuses(X, error, message):
    with pytest.raises(error, match=message):
        SequenceFeatureExtractor("attributes").fit(X)
    with pytest.raises(NotFittedError):
        SequenceFeatureExtractor("attributes").transform(X)


def test_a_column_that_no_training_token_has_is_told():
    with pytest.raises(ValueError, match="fields names 'word', but no token has a value for it"):
        SequenceFeatureExtractor("attributes", fields=["w", "word"]).fit(DICTS)
    with pytest.raises(TypeError, match="fields=.'w'. names keys of dicts, but the first token has another form"):
        SequenceFeatureExtractor("attributes", fields=["w"]).fit([[["w:a"]]])
    train = [[{"w": "a"}, {"n": 1.0}]]
    later = SequenceFeatureExtractor("attributes", fields=["w"]).fit(train).transform([[{"n": 1.0}]])
    assert later.columns["w"].codes.tolist() == [-1]  # missing later: an unknown text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bias": True}, "bias=True is not possible here: templates='attributes' has no use"),
        ({"token_features": ["lower"]}, "token_features=.'lower'. is not possible"),
        ({"affixes": 3}, "affixes=3"),
        ({"n_features": 8}, "n_features=8"),
        ({"padding": "drop"}, "padding='drop'"),
        ({"padding": "crf[+]{2}"}, "padding='crf[+]{2}' is for templates of CRF"),
    ],
)
def test_what_attributes_have_no_use_for(options, message):
    options = {
        key: value.replace("[+]{2}", "++") if isinstance(value, str) else value for key, value in options.items()
    }
    extractor = SequenceFeatureExtractor(**{"templates": "attributes"} | options)
    for method in extractor.fit, extractor.fit_partition:
        with pytest.raises(ValueError, match=message):
            method(DICTS)
    with pytest.raises(AttributeError, match="only templates of CRF"):
        extractor.max_order  # noqa: B018


def test_attributes_append_to_nothing_and_templates_append_to_them():
    steps = SequenceFeatureExtractor("attributes", fields=["w"]), SequenceFeatureExtractor([("w", -1)])
    names = make_pipeline(*steps).fit(DICTS).get_feature_names_out().tolist()
    assert names[-3:] == ["w[-1]=in", "w[-1]=the", "w[-1]=__BOS__"]
    assert names[:-3] == steps[0].get_feature_names_out().tolist()


def test_vectorizer_in_scikit_learn():
    vectorizer = SequenceFeatureExtractor("attributes", min_count=2, fields=["w"]).fit(DICTS)
    copy = pickle.loads(pickle.dumps(vectorizer))
    np.testing.assert_array_equal(copy.transform(DICTS).toarray(), vectorizer.transform(DICTS).toarray())
    assert clone(vectorizer).get_params() == vectorizer.get_params()
    assert get_tags(vectorizer).input_tags.dict
    with pytest.raises(ValueError, match="min_count"):
        SequenceFeatureExtractor("attributes", min_count=0).fit(DICTS)


def test_segment_features_go_after_it():
    y = [["P", "P", "Q"], [], ["Q"]]
    steps = (
        SequenceFeatureExtractor("attributes", fields=["w"]),
        SegmentFeatureExtractor("n", begin="w:", identity="w"),
        SegmentLogOddsEncoder(),
    )
    names = make_pipeline(*steps).fit(DICTS, y).get_feature_names_out().tolist()
    assert names == ["n", "begin:w:in", "begin:w:the", "identity=the", "identity=in the", "log_odds"]

"""SequenceDictVectorizer: the attributes that the estimators read themselves, as a batch."""

import pickle

import numpy as np
import pytest
from internals import Vocabulary, read_attributes
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceDictVectorizer,
    SequenceFeatureExtractor,
)

DICTS = [
    [{"w": "in", "n": 2.0, "b": True}, {"w": "the", "more": {"p": "x", "q": ["r", "s"]}}, {}],
    [],
    [{"w": "the", "b": False, "n": -1}],
]
LISTS = [[["w:in", "b"], ["w:the", "b", "b"]], [[]]]


@pytest.mark.parametrize("X", [DICTS, LISTS])
@pytest.mark.parametrize("min_count", [1, 2])
def test_vectorizer_makes_the_attributes_of_the_estimators(X, min_count):
    vectorizer = SequenceDictVectorizer(min_count=min_count)
    batch = vectorizer.fit_transform(X)
    model = HighOrderCRF(max_iter=0)
    with pytest.warns(ConvergenceWarning):
        model.fit([s for s in X if s], [["P"] * len(s) if n else ["Q"] * len(s) for n, s in enumerate(X) if s])
    names = model.feature_names_in_.tolist()
    tokens = [token for sequence in X for token in sequence]
    expected = read_attributes(X, Vocabulary(zip(names, range(len(names)), strict=True)), grow=False).toarray()
    kept = (expected != 0).sum(axis=0) >= min_count
    assert vectorizer.get_feature_names_out().tolist() == np.array(names)[kept].tolist()
    assert batch.feature_names.tolist() == list(vectorizer.vocabulary_) == vectorizer.get_feature_names_out().tolist()
    assert vectorizer.n_features_out_ == batch.n_features
    np.testing.assert_array_equal(batch.toarray(), expected[:, kept])
    assert batch.n_tokens == len(tokens)
    later = vectorizer.transform(X[::-1])
    np.testing.assert_array_equal(later[::-1].toarray(), batch.toarray())
    assert later.feature_names is batch.feature_names
    assert vectorizer.transform([[["unseen"]], []]).toarray().tolist() == [[0.0] * batch.n_features]


def test_vectorizer_keeps_columns():
    vectorizer = SequenceDictVectorizer(columns=["w", "n"])
    batch = vectorizer.fit_transform(DICTS)
    codes, values = batch.columns["w"]
    assert np.append(values, None)[codes].tolist() == ["in", "the", None, "the"]
    np.testing.assert_array_equal(batch.columns["n"], [2.0, np.nan, np.nan, -1.0])
    assert list(SequenceDictVectorizer(columns="w").fit_transform(DICTS).columns) == ["w"]
    batch = vectorizer.transform([[{"w": "new"}, {"n": 3}]])
    assert batch.columns["w"].values.tolist() == ["new"]
    with pytest.raises(ValueError, match="field 'w' held text in fit, but holds numbers"):
        vectorizer.transform([[{"w": 1}]])
    with pytest.raises(TypeError, match="sequence 1, position 0: columns='w' names keys of dicts, but .* a list"):
        SequenceDictVectorizer(columns="w").fit([[{"w": "a"}], [["w:a"]]])
    with pytest.raises(TypeError, match="sequence 0, position 1: attribute 'w' is"):
        SequenceDictVectorizer(columns="w").fit([[{"w": "a"}, {"w": ["b", "c"]}]])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([["in"]], TypeError, "sequence 0, position 0 .* SequenceFeatureExtractor"),
        ("in", TypeError, "X is the str"),
        ([[{"w": object()}]], TypeError, "sequence 0, position 0"),
        ([[{"w": np.inf}]], ValueError, "sequence 0, position 0"),
        ([np.ones((2, 2))], TypeError, "rows of numbers"),
        (np.ones((2, 2)), TypeError, "rows of numbers"),
        (SequenceFeatureExtractor().fit_transform([["a", "b"]]), TypeError, "is a SequenceBatch already"),
        ([], ValueError, "no tokens"),
        ([[]], ValueError, "no tokens"),
    ],
)
def test_vectorizer_refuses(X, error, message):
    with pytest.raises(error, match=message):
        SequenceDictVectorizer().fit(X)
    with pytest.raises(NotFittedError):
        SequenceDictVectorizer().transform(X)


def test_a_column_that_no_training_token_has_is_told():
    with pytest.raises(
        ValueError, match="columns names the key 'word', which no token of X has; there are 'w'"
    ) as error:
        SequenceDictVectorizer(columns=["w", "word"]).fit(DICTS)
    assert "..." not in str(error.value)
    with pytest.raises(ValueError, match=r"there are '0', '1', '2', '3', '4', \.\.\.$"):
        SequenceDictVectorizer(columns="w").fit([[{str(i): 1}] for i in range(6)])
    with pytest.raises(ValueError, match="there are no keys"):
        SequenceDictVectorizer(columns="w").fit([[{}]])
    later = SequenceDictVectorizer(columns="w").fit(DICTS).transform([[{"n": 1.0}]])  # missing later: an unknown text
    assert later.columns["w"].codes.tolist() == [-1]


def test_vectorizer_in_scikit_learn():
    vectorizer = SequenceDictVectorizer(min_count=2, columns="w").fit(DICTS)
    copy = pickle.loads(pickle.dumps(vectorizer))
    np.testing.assert_array_equal(copy.transform(DICTS).toarray(), vectorizer.transform(DICTS).toarray())
    assert clone(vectorizer).get_params() == vectorizer.get_params()
    assert get_tags(vectorizer).input_tags.dict
    with pytest.raises(ValueError, match="min_count"):
        SequenceDictVectorizer(min_count=0).fit(DICTS)


def test_segment_features_go_after_it():
    y = [["P", "P", "Q"], [], ["Q"]]
    steps = (
        SequenceDictVectorizer(columns="w"),
        SegmentFeatureExtractor("n", begin="w:", identity="w"),
        SegmentLogOddsEncoder(),
    )
    names = make_pipeline(*steps).fit(DICTS, y).get_feature_names_out().tolist()
    assert names == ["n", "begin:w:in", "begin:w:the", "identity=the", "identity=in the", "log_odds"]

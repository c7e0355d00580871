"""Phrases of lists: marks of tokens and of segments, by a plain definition."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import PhraseFeatures, SegmentFeatureExtractor, SequenceFeatureExtractor

words = st.sampled_from(["a", "A", "b", "c", "ß", "SS"])
phrase = st.lists(words, min_size=1, max_size=4)


def marks_of(batch, name):
    column = batch.columns[name]
    values = [None if code < 0 else column.values[code] for code in column.codes.tolist()]
    bounds = batch.offsets.tolist()
    return [values[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


def marked(sentence, phrases, normal):
    """Return the marks of one list: the longest phrase at each place, from left to right."""
    known, sentence = {tuple(map(normal, one)) for one in phrases}, [normal(word) for word in sentence]
    marks, t = [None] * len(sentence), 0
    while t < len(sentence):
        lengths = [n for n in range(1, len(sentence) - t + 1) if tuple(sentence[t : t + n]) in known]
        n = max(lengths, default=1)
        if lengths:
            marks[t : t + n] = ["S"] if n == 1 else ["B", *["I"] * (n - 2), "E"]
        t += n
    return marks


@given(
    st.lists(phrase, min_size=1, max_size=6),
    st.lists(phrase, max_size=3),
    st.lists(st.lists(words, max_size=8), max_size=4),
    st.sampled_from(["casefold", None, str.upper]),
)
def test_marks_are_those_of_the_definition(first, second, sentences, normalize):
    normal = {"casefold": str.casefold, None: str}.get(normalize, normalize)
    phrases = PhraseFeatures({"x": first, "y": [" ".join(one) for one in second]}, normalize=normalize).fit()
    batch = phrases.transform(sentences)
    for name, lists in (("x", first), ("y", second)):
        assert marks_of(batch, name) == [marked(sentence, lists, normal) for sentence in sentences]
        assert phrases.n_phrases_[name] == len({tuple(map(normal, one)) for one in lists})


@given(st.lists(phrase, min_size=1, max_size=6), st.lists(words, min_size=1, max_size=6))
def test_segments_are_those_of_the_lists(phrases, sentence):
    fitted = PhraseFeatures({"x": phrases, "empty": []}).fit()
    pairs = [(a, b) for a in range(len(sentence)) for b in range(a + 1, len(sentence) + 1)]
    starts, stops = np.array(pairs).T
    known = {tuple(map(str.casefold, one)) for one in phrases}
    expected = [tuple(map(str.casefold, sentence[a:b])) in known for a, b in pairs]
    for tokens in (np.array(sentence, dtype=object), {"w": np.array(sentence, dtype=object)}):
        found = fitted.of_segments(tokens, starts, stops)
        assert found["x"].tolist() == expected
        assert not found["empty"].any()


@pytest.mark.parametrize(
    ("X", "options"),
    [
        ([["in", "New", "York"]], {}),
        ([[("in", "P"), ("New", "N"), ("York", "N")]], {"field": 0}),
        ([[("in", "P"), ("New", "N"), ("York", "N")]], {"fields": ["w", "p"]}),
        ([[{"w": "in"}, {"w": "New"}, {"w": "York"}]], {}),
        ([np.array(["in", "New", "York"])], {}),
    ],
)
def test_forms_of_tokens(X, options):
    batch = PhraseFeatures({"city": ["new york"]}, **options).fit_transform(X)
    assert marks_of(batch, "city") == [[None, "B", "E"]]
    assert len(batch.columns) == 2 + ("p" in batch.columns or 1 in batch.columns)


def test_in_pipelines_with_other_features():
    X = [["in", "New", "York"], ["Oslo", "is", "far"], ["from", "Rome"]] * 3
    y = [["O", "B-L", "I-L"], ["B-L", "O", "O"], ["O", "B-L"]] * 3
    phrases = PhraseFeatures({"city": ["New York", "Oslo", "Rome", "Paris", "Los Angeles"]})
    features = SequenceFeatureExtractor([("city", -1), ("city", 0)])
    for model in (HighOrderCRF(), HighOrderCRF(max_order=2)):
        pipe = make_pipeline(phrases, features, model).fit(X, y)
        assert pipe.predict([["to", "los", "angeles"], ["Paris"], []]) == [["O", "B-L", "I-L"], ["B-L"], []]
        assert pickle.loads(pickle.dumps(pipe)).predict([["Paris"]]) == [["B-L"]]
    segments = SegmentFeatureExtractor(vector_functions=[phrases.fit(X).of_segments], scheme="bio")
    pipe = make_pipeline(SequenceFeatureExtractor([("w", 0)]), segments, HighOrderSemiCRF(scheme="bio")).fit(X, y)
    assert pipe.predict([["to", "los", "angeles"]]) == [["O", "B-L", "I-L"]]
    before = SequenceFeatureExtractor([("w", 0)]).fit_transform(X)
    after = phrases.fit_transform(before)
    assert after.feature_names is before.feature_names or (after.feature_names == before.feature_names).all()
    np.testing.assert_array_equal(after.indices, before.indices)


@pytest.mark.parametrize(
    ("phrases", "error", "message"),
    [
        ({}, ValueError, "phrases is empty"),
        ({"x": "New York"}, TypeError, r"phrases\['x'\] must be an iterable of phrases"),
        ({"x": ["a", " "]}, ValueError, r"phrases\['x'\]\[1\] has no words"),
        ({"x": ["a", 3]}, TypeError, r"phrases\['x'\]\[1\] must be a text or a list of texts, got 3"),
        ({"x": [["a", None]]}, TypeError, r"phrases\['x'\]\[0\] must be a text or a list of texts"),
        (["a"], ValueError, "phrases"),
    ],
)
def test_phrases_that_are_refused(phrases, error, message):
    with pytest.raises(error, match=message):
        PhraseFeatures(phrases).fit()


def test_tokens_that_are_refused():
    phrases = PhraseFeatures({"x": ["a"]}).fit()
    with pytest.raises(ValueError, match="tokens have no field 'w', but \\[0, 1\\]"):
        phrases.transform([[("a", "b")]])
    with pytest.raises(ValueError, match="the field 'x' holds numbers"):
        PhraseFeatures({"y": ["a"]}).fit([[1.0, 2.0]])
    with pytest.raises(ValueError, match="already have a field 'x'"):
        phrases.transform([[{"w": "a", "x": "b"}]])


def test_segments_of_tokens_that_are_refused_or_missing():
    phrases, bounds = PhraseFeatures({"x": [["a", ""], [""]]}).fit(), (np.array([0, 1]), np.array([2, 2]))
    tokens = np.array(["a", None], dtype=object)  # None is no word, not even an empty one
    assert phrases.of_segments(tokens, *bounds)["x"].tolist() == [False, False]
    assert phrases.of_segments({"only": tokens}, *bounds)["x"].tolist() == [False, False]
    assert marks_of(phrases.transform([[{"w": "a"}, {"w": None}]]), "x") == [[None, None]]
    with pytest.raises(ValueError, match="tokens have no field 'w', but \\['p', 'q'\\]: name it by field="):
        phrases.of_segments({"p": tokens, "q": tokens}, *bounds)
    for numbers in np.array([1.0, 2.0]), np.array([1, 2]), [None, 1.5]:
        with pytest.raises(ValueError, match="tokens are numbers, but phrases are texts"):
            phrases.of_segments(numbers, *bounds)

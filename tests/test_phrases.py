"""Phrases of lists: marks of tokens and of segments, by a plain definition."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor, phrases

words = st.sampled_from(["a", "A", "b", "c", "ß", "SS"])
phrase = st.lists(words, min_size=1, max_size=4)


def marks_of(batch, name):
    """Return the marks of the tokens of each sequence, read from the features of a template."""
    names, marks = np.asarray(batch.feature_names), []
    for first, stop in zip(batch.indptr[:-1], batch.indptr[1:], strict=True):
        found = [text.split("=")[1] for text in names[batch.indices[first:stop]] if text.startswith(f"{name}[0]=")]
        marks.append(found[0] if found else None)
    return [marks[a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]


def marked(sentence, listed, normal):
    """Return the marks of one list: the longest phrase at each place, from left to right."""
    known, sentence = {tuple(map(normal, one)) for one in listed}, [normal(word) for word in sentence]
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
    functions = phrases({"x": first, "y": [" ".join(one) for one in second]}, normalize=normalize)
    expected = {
        name: [marked(one, lists, normal) for one in sentences] for name, lists in (("x", first), ("y", second))
    }
    for name, function in functions.items():
        assert list(map(function, sentences)) == expected[name]
    if any(sentences):
        batch = SequenceFeatureExtractor([("x", 0), ("y", 0)], functions).fit_transform(sentences)
        assert {name: marks_of(batch, name) for name in functions} == expected


@pytest.mark.parametrize(
    ("X", "options"),
    [
        ([["in", "New", "York"]], {}),
        ([[("in", "P"), ("New", "N"), ("York", "N")]], {}),
        ([[("P", "in"), ("N", "New"), ("N", "York")]], {"token_features": {"city": (1, phrases(["new york"]))}}),
        ([[("in", "P"), ("New", "N"), ("York", "N")]], {"fields": ["w", "p"]}),
        ([[{"w": "in"}, {"w": "New"}, {"w": "York"}]], {}),
        ([np.array(["in", "New", "York"])], {}),
    ],
)
def test_forms_of_tokens(X, options):
    options = {"token_features": {"city": phrases(["new york"])}} | options
    extractor = SequenceFeatureExtractor([("city", 0)], **options)
    batch = extractor.fit_transform(X)
    assert marks_of(batch, "city") == [[None, "B", "E"]]
    assert marks_of(extractor.transform(X * 2), "city") == [[None, "B", "E"]] * 2
    counts = [extractor.fit_partition(part) for part in (X, X)]
    assert extractor.finish(extractor.merge(*counts)).get_feature_names_out().tolist() == ["city[0]=B", "city[0]=E"]


def test_names_in_a_list_of_functions():
    extractor = SequenceFeatureExtractor([], [phrases(["a"]), (0, phrases(["b"])), "lower"]).fit([[("a", "b")]])
    assert list(extractor.token_features_) == ["phrases", "phrases(0)", "lower"]
    with pytest.raises(ValueError, match="two functions have the name 'phrases'"):
        SequenceFeatureExtractor([], [phrases(["a"]), phrases(["b"])]).fit([["a"]])
    hashed = SequenceFeatureExtractor([("city", 0)], phrases({"city": ["a b"]}), n_features=2**10)
    assert hashed.transform([["a", "b", "c"]]).toarray().sum(axis=1).tolist() == [1, 1, 0]


def test_in_pipelines_with_other_features():
    X = [["in", "New", "York"], ["Oslo", "is", "far"], ["from", "Rome"]] * 3
    y = [["O", "B-L", "I-L"], ["B-L", "O", "O"], ["O", "B-L"]] * 3
    city = phrases(["New York", "Oslo", "Rome", "Paris", "Los Angeles"])
    features = SequenceFeatureExtractor([("city", -1), ("city", 0)], {"city": city})
    for model in (HighOrderCRF(), HighOrderCRF(max_order=2)):
        pipe = make_pipeline(features, model).fit(X, y)
        assert pipe.predict([["to", "los", "angeles"], ["Paris"], []]) == [["O", "B-L", "I-L"], ["B-L"], []]
        assert pickle.loads(pickle.dumps(pipe)).predict([["Paris"]]) == [["B-L"]]
    assert clone(features).token_features["city"] is city  # it never changes, so a large list is not copied
    assert repr(city) == "phrases(<5 phrases>)"
    segments = SegmentFeatureExtractor(bag="w", begin="city[0]", end="city[0]", scheme="bio")
    tokens = SequenceFeatureExtractor([("w", 0), ("city", 0)], {"city": city})
    pipe = make_pipeline(tokens, segments, HighOrderSemiCRF(scheme="bio")).fit(X, y)
    assert pipe.predict([["to", "los", "angeles"]]) == [["O", "B-L", "I-L"]]


@pytest.mark.parametrize(
    ("lists", "error", "message"),
    [
        ({}, ValueError, "phrases is empty"),
        ({"x": "New York"}, TypeError, r"phrases\['x'\] must be an iterable of phrases"),
        ({"x": ["a", " "]}, ValueError, r"phrases\['x'\]\[1\] has no words"),
        ({"x": ["a", 3]}, TypeError, r"phrases\['x'\]\[1\] must be a text or a list of texts, got 3"),
        ({"x": [["a", None]]}, TypeError, r"phrases\['x'\]\[0\] must be a text or a list of texts"),
        (["a", ""], ValueError, r"phrases\[1\] has no words"),
        ("ab", TypeError, "phrases must be an iterable of phrases"),
    ],
)
def test_phrases_that_are_refused(lists, error, message):
    with pytest.raises(error, match=message):
        phrases(lists)
    with pytest.raises(ValueError, match="normalize must be 'casefold', a function or None, got 'lower'"):
        phrases(["a"], normalize="lower")


def test_tokens_that_are_refused_or_missing():
    with pytest.raises(ValueError, match="'y' marks phrases in texts, but its field holds numbers"):
        SequenceFeatureExtractor([("x", 0)], {"y": ("x", phrases(["a"]))}).fit([[1.0, 2.0]])
    with pytest.raises(ValueError, match="'x' is the name of a field"):
        SequenceFeatureExtractor([("x", 0)], phrases({"x": ["a"]})).fit([[{"w": "a", "x": "b"}]])
    with pytest.warns(UserWarning, match="token_features: 'x' is a lambda"):
        SequenceFeatureExtractor([("x", 0)], {"x": phrases(["a"], normalize=lambda text: text)}).fit([["a"]])
    function = phrases([["a", ""], [""]])  # None is no word, not even an empty one
    assert function(["a", None, "", None]) == [None, None, "S", None]
    batch = SequenceFeatureExtractor([("x", 0), ("w", 0)], {"x": function}).fit_transform([[{"w": "a"}, {"w": None}]])
    assert marks_of(batch, "x") == [[None, None]]

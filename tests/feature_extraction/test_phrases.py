"""Phrases of lists: marks of tokens and of segments, against a plain definition."""

import io
import pickle

import numpy as np
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals
from sklearn.base import clone

from sklearn_hocrf import TRUSTED_TYPES, HighOrderCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor, phrase_marks

words = st.sampled_from(["a", "A", "b", "c", "ß", "SS"])
phrase = st.lists(words, min_size=1, max_size=4)


def marked(sentence, lists, normal):
    """Return the marks of one list: the longest phrase at each place, from left to right."""
    known, sentence = {tuple(map(normal, one)) for one in lists}, [word and normal(word) for word in sentence]
    marks, t = [None] * len(sentence), 0
    while t < len(sentence):
        lengths = [n for n in range(1, len(sentence) - t + 1) if tuple(sentence[t : t + n]) in known]
        n = max(lengths, default=1)
        if lengths:
            marks[t : t + n] = ["S"] if n == 1 else ["B", *["I"] * (n - 2), "E"]
        t += n
    return marks


def marks_of(batch, names, name):
    """Return the marks of each sequence, read back from the features of a batch."""
    marks = [None] * batch.n_tokens
    for t, row in enumerate(batch.toarray()):
        found = [feature[-1] for feature, value in zip(names, row, strict=True) if value and feature.startswith(name)]
        marks[t] = found[0] if found else None
    bounds = batch.offsets.tolist()
    return [marks[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


@given(
    st.lists(phrase, min_size=1, max_size=6),
    st.lists(phrase, max_size=3),
    st.lists(st.lists(st.one_of(words, st.none()), max_size=8), max_size=4),
    st.sampled_from(["casefold", None]),
    st.integers(0, 4),
)
def test_marks_are_those_of_the_definition(first, second, sentences, normalize, cut):
    """Also beside each other, in parts of the data, for later tokens and hashed."""
    normal = {"casefold": str.casefold, None: str}[normalize]
    functions = {"x": first, "y": [" ".join(one) for one in second]}
    functions = {name: ("w", phrase_marks(lists, normalize=normalize)) for name, lists in functions.items()}
    X = [[{"w": word} for word in sentence] for sentence in [*sentences, ["a"]]]
    extractor = SequenceFeatureExtractor([("w", 0)], functions)
    batch = extractor.fit_transform(X)
    names = extractor.get_feature_names_out().tolist()
    expected = {
        name: [marked([token["w"] for token in tokens], lists, normal) for tokens in X]
        for name, lists in (("x", first), ("y", second))
    }
    for name, marks in expected.items():
        assert marks_of(batch, names, name) == marks
    np.testing.assert_array_equal(extractor.transform(X).toarray(), batch.toarray())
    by_parts = clone(extractor).finish(extractor.merge(*map(extractor.fit_partition, (X[:cut], X[cut:]))))
    np.testing.assert_array_equal(by_parts.transform(X).toarray(), batch.toarray())
    hashed = SequenceFeatureExtractor([("w", 0)], functions, n_features=2**20).transform(X)
    np.testing.assert_array_equal(np.diff(hashed.indptr), np.diff(batch.indptr))


@pytest.mark.parametrize(
    ("X", "element", "options"),
    [
        ([["in", "New", "York"]], phrase_marks(["new york"]), {}),
        ([[("in", "P"), ("New", "N"), ("York", "N")]], phrase_marks(["new york"]), {}),
        ([[("N", "in"), ("N", "New"), ("N", "York")]], (1, phrase_marks(["new york"])), {}),
        ([[("in", "P"), ("New", "N"), ("York", "N")]], ("w", phrase_marks([["new", "york"]])), {"fields": ["w", "p"]}),
        ([[{"w": "in"}, {"w": "New"}, {"w": "York"}]], phrase_marks(["new york"]), {}),
        ([np.array(["in", "New", "York"])], phrase_marks(["new york"]), {}),
    ],
)
def test_forms_of_tokens(X, element, options):
    extractor = SequenceFeatureExtractor([], {"city": element}, **options)
    batch = extractor.fit_transform(X)
    assert extractor.templates_ == [(("city", 0),)]  # as for other token features
    assert marks_of(batch, extractor.get_feature_names_out(), "city") == [[None, "B", "E"]]
    by_list = SequenceFeatureExtractor([], [element], **options).fit(X)
    assert by_list.get_feature_names_out()[-1] in ("phrase_marks[0]=E", "phrase_marks(1)[0]=E", "phrase_marks(w)[0]=E")


def test_in_pipelines_with_other_features():
    X = [["in", "New", "York"], ["Oslo", "is", "far"], ["from", "Rome"]] * 3
    y = [["O", "B-L", "I-L"], ["B-L", "O", "O"], ["O", "B-L"]] * 3
    city = phrase_marks(["New York", "Oslo", "Rome", "Paris", "Los Angeles"])
    features = SequenceFeatureExtractor([("city", -1), ("city", 0)], {"city": city})
    for model in (HighOrderCRF(), HighOrderCRF(max_order=2)):
        pipe = make_pipeline(features, model).fit(X, y)
        copy = skops.io.loads(skops.io.dumps(pipe), trusted=list(TRUSTED_TYPES))
        for one in pipe, copy, pickle.loads(pickle.dumps(pipe)):
            assert one.predict([["to", "los", "angeles"], ["Paris"], []]) == [["O", "B-L", "I-L"], ["B-L"], []]


def test_one_that_is_loaded_is_the_same():
    for normalize in None, "casefold":
        city = phrase_marks(["New York", ["a b", ""], "Oslo"], normalize=normalize)
        again = pickle.loads(pickle.dumps(city))
        assert (list(again.words), again.normalize) == (list(city.words), city.normalize)
        assert clone(city, safe=False) is city
    assert repr(phrase_marks(["a", "A b"])) == "phrase_marks(<2 phrases>)"
    with io.BytesIO() as file:
        skops.io.dump(phrase_marks(["a"]), file)
        assert list(skops.io.loads(file.getvalue(), trusted=list(TRUSTED_TYPES)).words) == [("a",)]


test_refusals = refusals(
    (phrase_marks,
     (TypeError, "phrases must be an iterable of phrases, got 'New York'", "New York"),
     (TypeError, "phrases must be an iterable of phrases", 3),
     (r"phrases\[1\] has no words", ["a", " "]),
     (TypeError, r"phrases\[1\] must be a text or a list of texts, got 3", ["a", 3]),
     (TypeError, r"phrases\[0\] must be a text or a list of texts", [["a", None]])),
    (lambda value: phrase_marks(["a"], normalize=value),
     ("normalize must be 'casefold' or None, got 'lower'", "lower"),
     ("normalize must be 'casefold' or None, got <", str.lower)),
    (lambda: SequenceFeatureExtractor([], {"x": ("w", phrase_marks(["a"]))}).fit([[("a", "b")]]),
     "'x' is for the field 'w'; the tokens have the fields"),
    (lambda: SequenceFeatureExtractor([], {"y": ("x", phrase_marks(["a"]))}).fit([[1.0, 2.0]]),
     "the token feature 'y' marks phrases in texts, but its field holds numbers"),
    (lambda: SequenceFeatureExtractor([], {"x": phrase_marks(["a"])}).fit([[{"w": "a", "x": "b"}]]),
     "'x' is the name of a field"),
    (lambda: SegmentFeatureExtractor((), functions=[phrase_marks(["a"])]).fit([["a", "b"]], [["A", "B"]]),
     (TypeError, r"functions\[0\] = phrase_marks.* must be callable")),
)  # fmt: skip

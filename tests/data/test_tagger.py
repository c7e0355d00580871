"""Tagger files: the results of the estimator, with numpy alone, and a ValueError for damaged files."""

import ast
import base64
import gzip
import json
import math
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import tracemalloc
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from golden.write_tagger import GOLDEN, expected, golden_models
from hypothesis import given, settings
from hypothesis import strategies as st
from internals import FittedModel
from mutate_tagger import changed_contents, check_content, dumps, file_of, framed, parts_of
from numpy.testing import assert_allclose
from refusals import refusals_of_files
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_named_attributes import BODY

import sklearn_hocrf
from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf._data import tagger as _tagger
from sklearn_hocrf.datasets import load_conll, make_name_sentences
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor, phrase_marks
from sklearn_hocrf.feature_extraction import _token_functions as token_functions
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler
from sklearn_hocrf.tagger import Tagger, export_tagger
from sklearn_hocrf.text import spans_from_tags, tokenize

pytestmark = pytest.mark.filterwarnings("ignore")  # models are not trained to their optimum
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
MODULE = Path(_tagger.__file__)
X_NAMES, Y_NAMES = make_name_sentences(60, random_state=0)


def tagger_of(model, folder, dtype="float64", **options):
    path = folder / "model.hocrf"
    assert export_tagger(model, path, dtype=dtype) == path.stat().st_size
    return Tagger(path, **options)


def model_of(estimator):
    return estimator[-1] if hasattr(estimator, "steps") else estimator


def plain(tagger):
    """Return a tagger of the same file, without compiled code."""
    twin = Tagger(*tagger._source)
    vars(twin)["_fast"] = None
    return twin


def assert_same(found, model, X, y=None):
    """Compare all answers of a tagger with those of the estimator; labels may differ where both are as good."""
    expected = model.predict(X), model.predict_nbest(X, 4), model.predict_marginals(X)
    likelihoods = model.log_likelihood(X, y) if y else []
    for tagger in found, plain(found):
        assert tagger.labels == model_of(model).classes_.tolist()
        _assert_same(tagger, X, *expected)
        _assert_same_likelihoods(tagger, X, y or [], likelihoods)


def _assert_same(found, X, predicted, listed, all_marginals):
    for tokens, labels, nbest in zip(X, predicted, listed, strict=True):
        read = found.read(tokens)
        tagged, own = found.predict(read), found.predict_nbest(read, 4)
        assert tagged == found.predict(tokens)
        assert_allclose([one[1:] for one in own], [(one.score, one.log_probability) for one in nbest], **CLOSE)
        scores = [one.score for one in nbest]
        apart = all(abs(a - b) > 1e-9 for a, b in zip(scores, scores[1:], strict=False))
        if apart:
            assert [one.labels for one in own][:-1] == [list(one.labels) for one in nbest][:-1]
            assert tagged == list(labels) == own[0].labels
    for tokens, marginals in zip(X, all_marginals, strict=True):
        assert_allclose(found.predict_marginals(tokens), marginals, **CLOSE)
        tokens = found.read(tokens)
        for (label, probability), row in zip(found.predict(tokens, with_probability=True), marginals, strict=True):
            assert abs(row[found.labels.index(label)] - probability) < 1e-12


def _assert_same_likelihoods(found, X, y, likelihoods):
    for tokens, labels, likelihood in zip(X, y, likelihoods, strict=bool(y)):
        read = found.read(tokens)
        assert_allclose(found.log_likelihood(read, labels), likelihood, rtol=1e-12, atol=1e-11)
        found.predict_marginals(read)  # log Z is known now
        for x in tokens, read:
            assert_allclose(found.log_likelihood(x, labels), likelihood, rtol=1e-12, atol=1e-11)


def assert_alike(own, others):
    """Compare types and values, recursively."""
    assert type(own) is type(others)
    if isinstance(own, np.ndarray):
        assert own.dtype == others.dtype
        assert_alike(own.tolist(), others.tolist())
    elif isinstance(own, (list, tuple)):
        assert len(own) == len(others)
        for one, other in zip(own, others, strict=True):
            assert_alike(one, other)
    elif isinstance(own, float):
        assert math.isclose(own, others, rel_tol=1e-12, abs_tol=1e-12)
    else:
        assert own == others


def assert_same_segments(found, model, X):
    for tokens, segments in zip(X, model.predict_segments(X, with_probability=True), strict=True):
        own = found.predict_segments(tokens, with_probability=True)
        assert_alike(own, segments)
        assert found.predict_segments(tokens) == [segment[:3] for segment in own.tolist()]


def assert_same_likely_segments(found, model, X, threshold):
    """Compare all segments that reach a threshold, but for those whose rounding decides."""
    for tokens, segments in zip(X, model.predict_segments(X, threshold=threshold), strict=True):
        own = found.predict_segments(tokens, threshold=threshold)
        assert_alike(*(of[np.abs(of["probability"] - max(threshold, 1e-12)) > 1e-12] for of in (own, segments)))


@pytest.mark.parametrize(
    "y",
    [
        [["B-PER", "I-PER", "O"], ["O", "B-LOC"]],
        [["B", "E", "O"], ["S", "O"]],
        [["O", "O", "O"], ["O", "I-LOC"]],
        [["noun", "verb", "noun"], ["x" * 1001, "verb"]],
        [["a", "b\0", "a"], ["a", "b\0"]],
        [[3, 1, 1], [3, 20]],
        [[True, False, False], [True, True]],
        [[0.0, 1.0, 1.0], [2.0, 0.0]],
        [[1, 2.0, 3], [1, 2.0]],
    ],
)
def test_types_of_all_answers(y, tmp_path):
    """For one sequence, each answer has the types of the estimator's, and text takes either."""
    X = tokenize(["Ann Lee left", "for Oslo"])
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(X, y)
    found = tagger_of(model, tmp_path, dtype="float64")
    assert_alike(found.labels, model[-1].classes_.tolist())
    for n, tokens in enumerate(X):
        one = X[n : n + 1]
        assert_alike(found.predict(tokens), model.predict(one)[0])
        assert_alike(found.predict_marginals(tokens), model.predict_marginals(one)[0])
        assert_alike(found.predict_nbest(tokens, 2), model.predict_nbest(one, 2)[0])
        assert_alike(found.log_likelihood(tokens, y[n]), model.log_likelihood(one, y[n : n + 1]).tolist()[0])
        assert_alike(found.predict_segments(tokens), model.predict_segments(one)[0])
        own = found.predict_segments(tokens, with_probability=True)
        (segments,) = model.predict_segments(one, threshold=0.0001)
        assert own.dtype == segments.dtype == found.predict_segments([], with_probability=True).dtype
        segments = model.predict_segments(one, with_probability=True)
        assert_alike(own, segments[0])
        spans = spans_from_tags(one, segments)
        assert_alike(spans_from_tags(one, [own]), spans)
        assert_alike(spans_from_tags(one, [own.tolist()]), spans)
        assert_alike(spans_from_tags(one, [[list(segment) for segment in own.tolist()]]), spans)


def test_several_questions_read_a_sequence_once(tmp_path):
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(2, constraints="bio", max_iter=9))
    found = tagger_of(model.fit(X_NAMES, Y_NAMES), tmp_path)
    tokens = list(X_NAMES[0])
    for tagger in found, plain(found):
        read, labels = tagger.read(tokens), tagger.predict(tokens)
        tokens.append("more")
        assert (len(read), tagger.read(read)) == (len(labels), read)
        assert tagger.predict(read) == tagger.tag(read) == labels
        assert [label for label, _ in tagger.predict(read, with_probability=True)] == labels
        tokens.pop()
        marginals = tagger.predict_marginals(read)
        marginals[:] = 0.0  # the caller's own
        assert_allclose(tagger.predict_marginals(read), tagger.predict_marginals(tokens), **CLOSE)
        assert tagger.predict_segments(read) == tagger.predict_segments(tokens)
        assert_alike(
            tagger.predict_segments(read, with_probability=True).tolist(),
            tagger.predict_segments(tokens, with_probability=True).tolist(),
        )
        assert_alike(tagger.predict_nbest(read, 3), tagger.predict_nbest(tokens, 3))
    with pytest.raises(ValueError, match="read by another tagger"):
        found.predict(plain(found).read(tokens))
    with pytest.raises(TypeError, match="a sequence is a list"):
        found.read("Ann met Bob")


@pytest.mark.parametrize(("options", "holds"), [({}, True), ({"max_order": 3}, True), ({"feature_order": 1}, False)])
def test_compiled_code_answers(tmp_path, options, holds):
    """Without it, all answers would be right, too."""
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(**options, max_iter=9)).fit(X_NAMES, Y_NAMES)
    found = tagger_of(model, tmp_path)
    assert (found._fast is not None) == holds
    if holds:
        reads = list(map(found.read, X_NAMES))
        for answers in [[read._fast(name) for read in reads] for name in ("decode", "marginals")]:
            assert sum(answer is not None for answer in answers) > 0.9 * len(reads)


def test_taggers_without_numba(tmp_path, monkeypatch):
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=9)).fit(X_NAMES, Y_NAMES)
    found = tagger_of(model, tmp_path)
    monkeypatch.setitem(sys.modules, "sklearn_hocrf._engine.inference.chain", None)
    assert found._fast is None
    assert found.predict(X_NAMES[0]) == list(model.predict(X_NAMES[:1])[0])


# --- drawn models -----------------------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["in", "In", "the", "x-1", "7", "a|b", "", "Été", "__BOS__", "\ud800", "(", None])
NEW_TEXTS = st.one_of(TEXTS, st.text(max_size=4))
NUMBERS = st.sampled_from([0, 1, -1.5, True, False, 0.25, None])
FIELDS = ["w", "p", "n", "low", "end", "long", "title", "half"]
FUNCTIONS = {"low": "lower", "end": "suffix2", "long": "length", "title": "is_title", "half": ("n", abs)}
PARTS = st.tuples(st.sampled_from(FIELDS), st.integers(-3, 5))
TEMPLATES = st.lists(st.lists(PARTS, min_size=1, max_size=4, unique=True).map(tuple), max_size=5, unique=True)
LABELS = ["A", "B", "C|x", "A|x"]


def tokens_of(texts):
    return st.fixed_dictionaries({"w": texts, "p": st.sampled_from(["N", "V", None]), "n": NUMBERS})


def sequences(token, least=1):
    return st.lists(st.lists(token, min_size=least, max_size=6), min_size=2, max_size=5)


@st.composite
def parameters(draw, y):
    known = {label for labels in y for label in labels}
    seen = {pair for labels in y for pair in zip([None, *labels], [*labels, None], strict=True)}
    seen |= set(draw(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)))))
    runs = [run for run in draw(st.lists(st.tuples(*[st.sampled_from(LABELS)] * 3), max_size=3, unique=True))]
    runs = [run for run in runs if not any(tuple(labels[i : i + 3]) == run for labels in y for i in range(len(labels)))]
    runs = [run for run in runs if {*run} <= known]
    allow = sorted((a, b) for a, b in seen if {a, b} <= known)
    start, end = (sorted({pair[1 - i] for pair in seen if pair[i] is None} & known) for i in (0, 1))
    constraints = draw(st.sampled_from([None, Constraints(allow=allow, start=start, end=end), Constraints(runs)]))
    return {
        "max_order": draw(st.integers(0, 4)),
        "history": draw(st.sampled_from(["tokens", "segments"])),
        "feature_order": draw(st.sampled_from([0, 0, 1, 2])),
        "label_parts": draw(st.sampled_from([None, lambda label: label.split("|")])),
        "constraints": constraints,
        "patterns": draw(st.sampled_from(["observed", "observed", [("A", "B"), ("B", "A", "A")]])),
        "sigma_reg": draw(st.sampled_from([0.3, 3.0])),
        "max_iter": 4,
    }


@st.composite
def labels_of(draw, X):
    return [[draw(st.sampled_from(LABELS[:2]) | st.sampled_from(LABELS)) for _ in tokens] for tokens in X]


def fit(model, X, y):
    """Fit a model, or return None where the parameters do not go with the data."""
    try:
        return model.fit(X, y)
    except ValueError:
        return None


@given(st.data())
def test_drawn_templates(tmp_path_factory, data):
    X = data.draw(sequences(tokens_of(TEXTS)))
    y = data.draw(labels_of(X))
    functions = data.draw(st.sampled_from([{}, FUNCTIONS]))
    templates = [t for t in data.draw(TEMPLATES) if functions or all(field in "wpn" for field, _ in t)]
    options = data.draw(st.fixed_dictionaries({"padding": st.sampled_from(["mark", "drop"]), "bias": st.booleans()}))
    extractor = SequenceFeatureExtractor(templates or None, functions, fields=["w", "p", "n"], **options)
    model = fit(make_pipeline(extractor, HighOrderCRF(**data.draw(parameters(y)))), X, y)
    if model is None:
        return
    own = {"half": abs} if functions else {}
    X_new = data.draw(sequences(tokens_of(NEW_TEXTS), 0))
    found = tagger_of(model, tmp_path_factory.getbasetemp(), functions=own)
    assert_same(found, model, answered(model, X_new))
    assert_same(found, model, X, y)
    if found.scheme:
        threshold = data.draw(st.sampled_from([0, 1e-9, 0.1, 0.3, np.float32(0.5), 0.9, 1]))
        assert_same_likely_segments(found, model, answered(model, X_new), threshold)


@given(st.data())
def test_drawn_tags(tmp_path_factory, data):
    """Segments of tags, right ones or not, that reach a threshold."""
    scheme = data.draw(st.sampled_from(["bio", "bioes", "bilou", "bmes", "iob1"]))
    begin, inside, outside, *ends = _tagger.PREFIXES[scheme]
    tags = [outside, *(f"{prefix}-{name}" for prefix in [begin, inside, *ends] for name in "PQ")]
    X = data.draw(sequences(st.lists(st.sampled_from("abc"), max_size=2)))
    y = [[data.draw(st.sampled_from(tags)) for _ in tokens] for tokens in X]
    model = fit(HighOrderCRF(data.draw(st.integers(0, 3)), max_iter=data.draw(st.integers(1, 4))), X, y)
    if model is None:
        return
    found, X = tagger_of(model, tmp_path_factory.getbasetemp()), [*X, []]
    if found.scheme:
        assert_same_likely_segments(found, model, X, data.draw(st.floats(0, 1)))


PHRASE_WORDS = st.sampled_from(["in", "In", "the", "a|b", "", "É", "(", "ß", "SS", None])
LISTS = st.lists(st.lists(PHRASE_WORDS.filter(lambda word: word is not None), min_size=1, max_size=3), max_size=4)
MARKS = st.tuples(st.sampled_from(["w", "city", "firm", "low"]), st.integers(-2, 2))


@given(st.data())
def test_drawn_phrases(tmp_path_factory, data):
    """Lists that overlap, are empty or match nothing, and tokens of every form."""
    forms = {
        "texts": (lambda w, p: w, {}),
        "tuples": (lambda w, p: (w, p), {"fields": ["w", "p"]}),
        "dicts": (lambda w, p: {"w": w, "p": p}, {}),
    }
    make, options = forms[data.draw(st.sampled_from(sorted(forms)))]
    pairs = st.tuples(PHRASE_WORDS, st.sampled_from("NV"))
    if make("a", "N") == "a":
        pairs = pairs.filter(lambda pair: pair[0] is not None)
    X, X_new = ([[make(*pair) for pair in row] for row in data.draw(sequences(pairs, least))] for least in (1, 0))
    y = data.draw(labels_of(X))
    normalize = data.draw(st.sampled_from(["casefold", None]))
    lists = {"city": data.draw(LISTS), "firm": data.draw(LISTS)}
    templates = data.draw(st.lists(st.lists(MARKS, min_size=1, max_size=3, unique=True).map(tuple), unique=True))
    functions = {name: ("w", phrase_marks(found, normalize=normalize)) for name, found in lists.items()}
    functions["low"] = "w", "lower"
    extractor = SequenceFeatureExtractor([(("city", 0),), *templates], functions, **options)
    model = fit(make_pipeline(extractor, HighOrderCRF(**data.draw(parameters(y)))), X, y)
    if model is None:
        return
    found = tagger_of(model, tmp_path_factory.getbasetemp())
    assert found.fields == list(model[0].fields_)
    assert_same(found, model, answered(model, X_new))
    assert_same(found, model, X, y)


def test_phrases_with_the_character_0_are_refused(tmp_path):
    X, y = [["in", "New", "York"], ["York"]], [["A", "B", "B"], ["B"]]
    zero = SequenceFeatureExtractor([("w", 0)], {"city": phrase_marks([["a\0b"]])})
    zero = make_pipeline(zero, HighOrderCRF()).fit(X, y)
    with pytest.raises(ValueError, match="no phrases with the character 0, as in the list 'city'"):
        export_tagger(zero, tmp_path / "cities.hocrf")
    twice = make_pipeline(SequenceFeatureExtractor(), FunctionTransformer(), HighOrderCRF())
    with pytest.raises(ValueError, match="one transformer before the model at most, not SequenceFeatureExtractor, Fun"):
        export_tagger(twice.fit(X, y), tmp_path / "cities.hocrf")


def answered(model, X):
    """Return the sequences that have an answer: constraints and borders may leave none, or a field be absent."""
    try:
        model.predict(X)
    except ValueError:
        return [tokens for one in X for tokens in answered(model, [one])] if len(X) > 1 else []
    return X


ATTRIBUTES = st.one_of(
    st.lists(st.sampled_from(["a", "b", "w:in", "é"]), max_size=4),
    st.dictionaries(
        st.sampled_from(["w", "n", "next"]),
        st.one_of(
            st.sampled_from(["in", "", "\ud800", 1, 0.5, True, -2]),
            st.lists(st.sampled_from("ab")),
            st.dictionaries(st.sampled_from("wn"), st.sampled_from(["in", "on", 0.5])),
        ),
    ),
)


@given(st.data())
def test_drawn_attributes(tmp_path_factory, data):
    X = data.draw(sequences(ATTRIBUTES))
    y = data.draw(labels_of(X))
    model = HighOrderCRF(**data.draw(parameters(y)))
    if data.draw(st.booleans()):
        model = make_pipeline(SequenceFeatureExtractor("attributes"), model)
    model = fit(model, X, y)
    if model is not None:
        assert_same(tagger_of(model, tmp_path_factory.getbasetemp()), model, X, y)


def test_bytes_and_collections(tmp_path):
    texts = [{"sun": "né", "n": 1.5, "d": {"k": ["x", "y"]}}, ["a", "b"], ["b"]]
    mixed = [
        {b"sun": "né".encode(), "n": Decimal("1.5"), "d": {b"k": {b"x": 1, "y": 2}.keys()}},
        {"a": 1, "b": 2}.keys(),
        np.array([b"b"]),
    ]
    y = ["A", "B", "C"]
    tagger = tagger_of(HighOrderCRF().fit([texts], [y]), tmp_path)
    np.testing.assert_array_equal(tagger.predict_marginals(mixed), tagger.predict_marginals(texts))
    for token in {b"\xff": 1}, {"sun": b"\xff"}, [b"\xff"], {"d": {"k": [b"\xff"]}}:
        with pytest.raises(ValueError, match="position 1: .*xff' is not UTF-8"):
            tagger.predict([["a"], token])
    with pytest.raises(TypeError, match="position 1: a token must be a dict or a list of attribute names"):
        tagger.predict([["a"], ("a", "b")])
    for token in b"ab", "ab", {"d": np.ones((2, 2))}, 3:
        with pytest.raises(TypeError, match="(?s)position 1: .*where names or numbers belong"):
            tagger.predict([["a"], token])


STRINGS = st.sampled_from(["in", "In", "", "%s", "É", "_B-1", "_x+1", "\ud800"])
ROWS = st.tuples(STRINGS, st.sampled_from("NV"), STRINGS)


@given(st.data())
def test_drawn_string_templates(tmp_path_factory, data):
    """Templates of CRF++ and Wapiti: identifiers or none, pairs of labels, several columns, places outside."""
    letters, bare = data.draw(st.sampled_from([("UB", "B"), ("u*bU", "*")]))
    bodies = st.lists(st.builds(str.__add__, st.sampled_from(letters), BODY), min_size=1, max_size=4)
    templates = SequenceFeatureExtractor(
        [*data.draw(bodies), bare],
        min_count=data.draw(st.integers(1, 2)),
    )
    X = data.draw(sequences(ROWS))
    y = data.draw(labels_of(X))
    options = {**data.draw(parameters(y)), "max_order": 1, "feature_order": templates.feature_order}
    model = fit(make_pipeline(templates, HighOrderCRF(**options)), X, y)
    if model is None:
        return
    found = tagger_of(model, tmp_path_factory.getbasetemp())
    assert_same(found, model, answered(model, data.draw(sequences(ROWS, 0))))
    assert_same(found, model, X, y)


def test_columns_of_string_templates(tmp_path):
    X, y = [[("a", "N"), ("b", "V")], [("b", "N")]], [["A", "B"], ["B"]]
    model = make_pipeline(SequenceFeatureExtractor(["U1:%x[0,1]", "U2:%x[-1,0]", "B"]), HighOrderCRF()).fit(X, y)
    found = tagger_of(model, tmp_path)
    assert found.fields == [0, 1]
    assert found.predict([("a", "N", "A"), ["b", "V", "B", "C"]]) == ["A", "B"]  # further columns are not read
    with pytest.raises(ValueError, match="position 1: a token has 1 columns, but templates read 2"):
        found.predict([("a", "N"), "b"])
    with pytest.raises(TypeError, match="position 0: a token must be texts in columns"):
        found.predict([{"0": "a", "1": "b"}])
    dicts = [[dict(zip("wp", token, strict=True)) for token in tokens] for tokens in X]
    by_name = tagger_of(clone(model).fit(dicts, y), tmp_path)
    assert by_name.fields == ["w", "p"]
    assert by_name.predict([{"p": "N", "w": "a", "more": 1}, ("b", "V")]) == ["A", "B"]
    with pytest.raises(TypeError, match="position 0: a token must be texts in columns, got .'w'"):
        by_name.predict([{"w": "a"}])
    words = make_pipeline(SequenceFeatureExtractor(["U1:%x[0,0]"]), HighOrderCRF()).fit([["a", "b"], ["b"]], y)
    assert_same(tagger_of(words, tmp_path), words, [["a", "b"], ["b"], ["c"]])


@pytest.mark.parametrize(("max_order", "scheme"), [(0, None), (1, "bio"), (2, None), (4, "bio")])
def test_segments(tmp_path, max_order, scheme):
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_order, constraints=scheme, max_iter=9))
    X, y = X_NAMES[:15], Y_NAMES[:15]
    found, X_asked = tagger_of(model.fit(X, y), tmp_path), [*X_NAMES[12:20], []]  # a few of them are new
    assert_same_segments(found, model, X_asked)
    for threshold in 0, 0.01, 0.2, 0.6, 1:
        assert_same_likely_segments(found, model, X_asked, threshold)
    model.set_params(highordercrf__constraints=None).fit(X, [[label[-3:] for label in labels] for labels in y])
    assert_same_segments(tagger_of(model, tmp_path), model, X_asked)


def test_numbers_that_underflow(tmp_path):
    """Weights of hundreds: sums of weights that no float64 holds on one scale."""
    X, y = [[{"x": 900.0}, {"x": -900.0}] * 3, [{"x": -800.0}, {"x": 700.0}]], [["A", "B"] * 3, ["B", "A"]]
    model = HighOrderCRF(2, sigma_reg=10.0, constraints=Constraints([("A", "A")])).fit(X, y)
    assert_same(tagger_of(model, tmp_path), model, X, y)


def test_own_functions(tmp_path):
    functions = {"half": lambda text: text[: len(text) // 2], "low": "lower"}
    model = make_pipeline(SequenceFeatureExtractor(None, functions), HighOrderCRF(max_iter=9)).fit(X_NAMES, Y_NAMES)
    path = tmp_path / "own.hocrf"
    export_tagger(model, path, dtype="float64")
    with pytest.raises(ValueError, match="needs your function"):
        Tagger(path)
    assert_same(Tagger(path, functions={"half": functions["half"]}), model, X_NAMES[:20], Y_NAMES[:20])
    with pytest.raises(ValueError, match="the column 'half' held text in fit"):
        Tagger(path, functions={"half": len}).predict(["a"])


class Feats(TransformerMixin, BaseEstimator):
    """A transformer of a user's own: tokens to feature dicts."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return [[{"w": token.lower(), "title": token.istitle()} for token in tokens] for tokens in X]

    def __sklearn_is_fitted__(self):
        return True


def test_transformers_of_ones_own(tmp_path):
    """The message says what to export, and what to call before the tagger: that gives the pipeline's answers."""
    path, feats = tmp_path / "model.hocrf", Feats()
    alone = make_pipeline(feats, HighOrderCRF(max_iter=9)).fit(X_NAMES, Y_NAMES)
    with pytest.raises(ValueError, match=r"export the last step of the pipeline, and apply Feats before the tag"):
        export_tagger(alone, path)
    before = make_pipeline(feats, SequenceFeatureExtractor(), HighOrderCRF(max_iter=9)).fit(X_NAMES, Y_NAMES)
    with pytest.raises(ValueError, match=r"cannot contain Feats: export the last two steps of the pipeline, and"):
        export_tagger(before, path)
    for model, last in (alone, alone[-1]), (before, before[-2:]):
        found = tagger_of(last, tmp_path)
        assert [found.predict(feats.transform([tokens])[0]) for tokens in X_NAMES[:9]] == model.predict(X_NAMES[:9])
    after = make_pipeline(FunctionTransformer(np.abs), HighOrderCRF(max_iter=9)).fit(np.eye(2), ["A", "B"])
    with pytest.raises(ValueError, match="but the model gets FunctionTransformer"):
        export_tagger(after, path)


def test_functions_with_names_are_those_of_the_package():
    for name in [*_tagger.FUNCTIONS, "prefix1", "prefix12", "suffix3"]:
        for text in ["", "a", "Ab-1", "ÉTÉ", "(!)", "ǅ", "²", "x" * 20, "中文", "\ud800"]:
            assert _tagger.named_function(name)(text) == token_functions.as_function(name)(text)
    assert _tagger.named_function("prefix12")("x" * 20) == "x" * 12
    assert _tagger.named_function("suffix3")("house") == "use"
    assert _tagger.named_function("suffix3")("a") == "a"
    assert _tagger.named_function("prefix0") is _tagger.named_function("nothing") is None


def test_models_inside_of_others(tmp_path):
    pipe, X, y = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=3)), X_NAMES[:20], Y_NAMES[:20]
    models = {
        "scikit-learn": sklearn_pipeline(*map(clone, (pipe[0], pipe[1]))),
        "search": GridSearchCV(pipe, {"highordercrf__max_order": [1, 2]}, cv=2),
        "calibrated": CalibratedSequenceLabeler(pipe, cv=2),
        "search inside": sklearn_pipeline(clone(pipe[0]), GridSearchCV(pipe[1], {"max_order": [1, 2]}, cv=2)),
    }
    for model in models.values():
        tagger = tagger_of(model.fit(X, y), tmp_path)
        fitted, batch = FittedModel.and_input(model, X_NAMES)
        crf = fitted.estimator
        for tokens, labels, marginals in zip(X_NAMES, crf.predict(batch), crf.predict_marginals(batch), strict=True):
            assert tagger.predict(tokens) == labels
            assert_allclose(tagger.predict_marginals(tokens), marginals, **CLOSE)


def test_questions_that_make_no_sense(tmp_path):
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(constraints="bio", max_iter=9)).fit(X_NAMES, Y_NAMES)
    found = tagger_of(model, tmp_path)
    assert found.predict([]) == found.predict_segments([]) == []
    assert found.predict_segments([], with_probability=True).tolist() == []
    assert found.predict_marginals([]).shape == (0, len(found.labels))
    assert found.predict_nbest([])[0] == ([], 0.0, 0.0)
    assert found.log_likelihood([], []) == 0.0
    assert found.log_likelihood(["a", "b"], ["O", "I-PER"]) == -math.inf
    with pytest.raises(TypeError, match="a sequence is a list"):
        found.predict("Ann met Bob")
    with pytest.raises(ValueError, match="not of the form of fit"):
        found.predict([("Ann", "Lee")])
    with pytest.raises(ValueError, match="held text"):
        found.predict(["Ann", 3])
    for value in ["Ann"], {"Ann": 1}, ("Ann", []), np.ones(2):  # some are no keys of a table
        with pytest.raises(ValueError, match="field 'w' held text in fit, but holds"):
            found.predict([{"w": value}])
    with pytest.raises(ValueError, match="no label of the model"):
        found.log_likelihood(["Ann"], ["X"])
    with pytest.raises(ValueError, match="2 labels for 1 tokens"):
        found.log_likelihood(["Ann"], ["O", "O"])
    for threshold in -0.1, 2, math.nan, "0.5", True:
        with pytest.raises(ValueError, match="threshold must be a probability, a number in"):
            found.predict_segments(["Ann"], threshold=threshold)


WORDS = [["Ann", "left", "."], ["Bob", "ran"]]
NUMBERED = [[1.0, 2.0], [3.0, 4.0, 5.0]]
COLUMN, COLUMNS = ["U1:%x[0,0]"], ["U1:%x[0,0]", "U2:%x[-1,1]"]


def each(make, X=WORDS):
    """Return sequences whose tokens are made of words or numbers."""
    return [[make(one) for one in tokens] for tokens in X]


PAIRS, DICTS = each(lambda word: (word, "P")), each(lambda word: {"v": word, "p": "P"})
BATCHES = {  # the first step of a pipeline, if any, and sequences of each form of tokens
    "dicts": (None, DICTS),
    "dicts of dicts": (None, each(lambda word: {"w": {"lower": word}, "n": 2.0})),
    "names": (None, each(lambda word: [word, "P"])),
    "words": (SequenceFeatureExtractor(), WORDS),
    "named words": (SequenceFeatureExtractor(fields=["v"]), WORDS),
    "pairs": (SequenceFeatureExtractor(), PAIRS),
    "pairs of two": (SequenceFeatureExtractor(), [pairs[:2] for pairs in PAIRS]),
    "named pairs": (SequenceFeatureExtractor(fields=["v", "p"]), PAIRS),
    "lists": (SequenceFeatureExtractor(), each(list, PAIRS)),
    "columns of one": (SequenceFeatureExtractor(), each(lambda word: (word,))),
    "fields": (SequenceFeatureExtractor(), DICTS),
    "numbers": (SequenceFeatureExtractor(), NUMBERED),
    "rows": (SequenceFeatureExtractor(), each(lambda x: [x, -x], NUMBERED)),
    "arrays": (SequenceFeatureExtractor(), [np.array(rows) for rows in each(lambda x: [x, -x], NUMBERED)]),
    "attributes": (SequenceFeatureExtractor("attributes"), DICTS),
    "templates of words": (SequenceFeatureExtractor(COLUMN), WORDS),
    "templates of columns": (SequenceFeatureExtractor(COLUMNS), PAIRS),
    "templates of fields": (SequenceFeatureExtractor(COLUMNS), DICTS),
    "templates of lists": (SequenceFeatureExtractor(COLUMNS), each(list, PAIRS)),
}
METHODS = {
    "read": (),
    "predict": (),
    "tag": (),
    "predict_marginals": (),
    "predict_segments": (),
    "predict_nbest": (),
    "log_likelihood": ([["A", "B", "A"], ["B", "A"]],),
}


@pytest.mark.parametrize("form", BATCHES)
def test_a_list_of_sequences(form, tmp_path):
    """What the estimator takes is the commonest mistake; the message says what to do, and that works."""
    extractor, X = BATCHES[form]
    y = [["A", "B", "A"][: len(tokens)] for tokens in X]
    model = HighOrderCRF(max_iter=2) if extractor is None else make_pipeline(clone(extractor), HighOrderCRF(max_iter=2))
    tagger = tagger_of(model.fit(X, y), tmp_path)
    assert_same(tagger, model, X, y)
    every = np.empty(len(X), object)
    every[:] = X
    batches = [X, tuple(X), X[:1], X[1:], [[], *X], [tuple(X[0])], every]
    for name, arguments in METHODS.items():
        for batch in [*batches, iter(X)]:
            with pytest.raises((TypeError, ValueError), match="a tagger reads one sequence") as raised:
                getattr(tagger, name)(batch, *arguments)
            assert "[tagger.predict(x) for x in X]" in str(raised.value)


def test_sequences_of_other_kinds(tmp_path):
    """Labels of several sequences, items of python-crfsuite, and frames, whose columns an iteration names."""
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=2)).fit(WORDS, METHODS["log_likelihood"][0])
    found = tagger_of(model, tmp_path)
    for labels in [["A", "B", "A"]] * 3, [["A"]], [{"A"}, "B", "A"], None, "ABA", {"A": 1}:
        with pytest.raises((TypeError, ValueError), match="one sequence|a sequence is a list of labels"):
            found.log_likelihood(WORDS[0], labels)
    for n in 0, 2.5, "3", None, [["A"]]:
        with pytest.raises(ValueError, match="n must be an integer of at least 1"):
            found.predict_nbest(WORDS[0], n)

    class ItemSequence:
        """As that of python-crfsuite, whose name is all that is known of it."""

    class Frame:
        columns, shape = ["w"], (3, 1)

        def __iter__(self):
            return iter(self.columns)

    with pytest.raises(TypeError, match="pass its items"):
        found.predict(ItemSequence())
    with pytest.raises(ValueError, match="a tagger reads one sequence"):
        found.predict([ItemSequence(), ItemSequence()])
    with pytest.raises(TypeError, match=r'a data frame: pass its to_dict\("records"\)'):
        found.predict(Frame())


# --- memory, threads, processes ---------------------------------------------------------------------------------------


def test_ways_of_reading(tmp_path):
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=9)).fit(X_NAMES, Y_NAMES)
    path, other = tmp_path / "model.hocrf", tmp_path / "plain.hocrf"
    n_bytes = export_tagger(model, path)
    assert n_bytes < 0.8 * export_tagger(model, other, compress=False)
    assert export_tagger(model, other, compress=True) == n_bytes
    export_tagger(model, other, compress=False)
    taggers = [Tagger(path), Tagger(str(path), mmap=True), Tagger(path.read_bytes()), Tagger(path, mmap=False)]
    taggers += [Tagger(other), Tagger(other, mmap=True)]
    taggers.append(pickle.loads(pickle.dumps(taggers[0])))
    tagged = [[found.predict(tokens) for tokens in X_NAMES] for found in taggers]
    assert all(labels == tagged[0] for labels in tagged)
    assert sorted(os.listdir(tmp_path)) == ["model.hocrf", "plain.hocrf"]
    with pytest.raises(FileNotFoundError):
        Tagger(tmp_path / "absent")


def test_threads_and_small_caches(tmp_path, monkeypatch):
    monkeypatch.setattr(_tagger, "MOST_VALUES", 99)
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=9)).fit(X_NAMES, Y_NAMES)
    found, (X, _) = tagger_of(model, tmp_path), make_name_sentences(160, random_state=1)
    expected_labels, wrong = [list(labels) for labels in model.predict(X)], []

    def work(first):
        order = [*range(first, len(X)), *range(first)]
        wrong.extend(i for i in order if found.predict(X[i]) != expected_labels[i])

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 40, 80, 120)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert all(len(known) < 110 for known in found._features.ids.known.values())  # threads may add one at a time
    long = [f"word{i}" for i in range(1000)]
    assert found.predict(long) == list(model.predict([long])[0])


def test_importing_the_module_imports_numpy_alone():
    code = """if True:
        import sys
        import sklearn_hocrf.tagger
        names = {name.partition(".")[0] for name in sys.modules}
        assert not names & {"sklearn", "scipy", "numba", "llvmlite", "joblib"}, names
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_the_package():
    for name in sklearn_hocrf.__all__:
        assert name in dir(sklearn_hocrf)
        getattr(sklearn_hocrf, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sklearn_hocrf.nothing  # noqa: B018
    assert pickle.loads(pickle.dumps(HighOrderCRF)) is HighOrderCRF


def test_module_is_self_contained():
    modules = set()
    for node in ast.walk(ast.parse(MODULE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules.add(node.module.partition(".")[0])
    assert modules - set(sys.stdlib_module_names) == {"numpy"}


# --- golden and broken files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", golden_models())
def test_golden_files(name):
    known = json.loads((GOLDEN / "tagger-1.json").read_text(encoding="utf-8"))[name]
    found = Tagger(GOLDEN / f"tagger-{name}-1.hocrf")
    for tokens, answers in zip(known["X"], known["answers"], strict=True):
        own = expected(found, tokens)
        assert own["labels"] == answers["labels"]
        assert_allclose(own["marginals"], answers["marginals"], **CLOSE)
        assert [segment[:3] for segment in own["segments"]] == [segment[:3] for segment in answers["segments"]]
        assert [labels for labels, *_ in own["nbest"]] == [labels for labels, *_ in answers["nbest"]]
        assert_allclose([s[1:] for s in own["nbest"]], [s[1:] for s in answers["nbest"]], **CLOSE)


@pytest.mark.parametrize("name", golden_models())
def test_changed_files(name):
    """A changed file is a ValueError, or gives answers; see ``mutate_tagger.py``."""
    X = json.loads((GOLDEN / "tagger-1.json").read_text(encoding="utf-8"))[name]["X"]
    content = (GOLDEN / f"tagger-{name}-1.hocrf").read_bytes()
    for changed in changed_contents(content, 8 * settings().max_examples, seed=0):
        check_content(changed, X)


def with_header(content, change):
    """Return a file with another text of its header."""
    header, entries, body = parts_of(content)
    return file_of(change(dumps(header)), entries, body)


def with_entries(content, change):
    """Return a file with another text of the entries of its arrays."""
    header, entries, body = parts_of(content)
    return framed(change(dumps({**entries, "__metadata__": {"hocrf": dumps(header)}})).encode(), body)


def set_array(name, key, value):
    def change(content):
        header, entries, body = parts_of(content)
        entries[name][key] = value(entries) if callable(value) else value
        return file_of(header, entries, body)

    return change


def moved(name, by):
    return set_array(name, "data_offsets", lambda entries: [place + by for place in entries[name]["data_offsets"]])


def packed(content, n_bytes=None, own=None, cut=None, more=b"", chosen="text"):
    """Return a file with a packed array, and lie about it."""
    header, entries, body = parts_of(content)
    parts = {name: body[slice(*entry["data_offsets"])] for name, entry in entries.items()}
    text, shape = (parts[chosen], entries[chosen]["shape"]) if own is None else (own, [len(own)])
    parts[chosen] = gzip.compress(text, mtime=0)[:cut] + more
    header["packed"] = {chosen: [entries[chosen]["dtype"], shape if n_bytes is None else [n_bytes]]}
    entries[chosen].update(dtype="U8", shape=[len(parts[chosen])])
    stop = 0
    for name in sorted(parts, key=lambda name: -np.dtype(_tagger.TYPES[entries[name]["dtype"]]).itemsize):
        entries[name]["data_offsets"] = [stop, stop + len(parts[name])]
        stop += len(parts[name])
    order = sorted(parts, key=lambda name: entries[name]["data_offsets"])
    return file_of(header, entries, b"".join(map(parts.get, order)))


def with_number(name, place, value):
    """Return a function that changes a number of an array."""

    def change(content):
        header, entries, body = parts_of(content)
        start, stop = entries[name]["data_offsets"]
        array = np.frombuffer(body[start:stop], _tagger.TYPES[entries[name]["dtype"]]).copy()
        array[place] = value
        return file_of(header, entries, body[:start] + array.tobytes() + body[stop:])

    return change


BROKEN = {
    "a link of the first state": with_number("fail", 0, 1),
    "format 2": lambda c: with_header(c, lambda t: t.replace('"format":1', '"format":2')),
    "former format": lambda c: b"HOCRF\0\0\1" + c[8:],
    "empty": lambda c: b"",
    "cut": lambda c: c[:-100],
    "longer": lambda c: c + bytes(8),
    "header beyond": lambda c: (2**40).to_bytes(8, "little") + c[8:],
    "header of nothing": lambda c: bytes(8) + c[8:],
    "header of no even length": lambda c: (int.from_bytes(c[:8], "little") - 1).to_bytes(8, "little") + c[8:],
    "no metadata": lambda c: with_entries(c, lambda t: t.replace("__metadata__", "metadata")),
    "no text of metadata": lambda c: with_entries(c, lambda t: t.replace('"hocrf"', '"other"')),
    "an array twice": lambda c: with_entries(c, lambda t: t.replace('"fail"', '"length"')),
    "a key twice": lambda c: with_header(c, lambda t: t.replace('"scheme":"bio"', '"labels":1')),
    "NaN": lambda c: with_header(c, lambda t: t.replace('"n_columns":', '"n_columns":NaN,"":')),
    "Infinity": lambda c: with_header(c, lambda t: t.replace('"n_columns":', '"n_columns":1e999,"":')),
    "huge": lambda c: with_header(c, lambda t: t.replace('"scheme":"bio"', '"scheme":9' + "0" * 5)),
    "deep": lambda c: with_header(c, lambda t: "[" * len(t)),
    "deep entries": lambda c: with_entries(c, lambda t: "[" * len(t)),
    "deep in a text": lambda c: with_header(c, lambda t: '"\\"' + "[" * (len(t) - 3)),
    "shape": set_array("score", "shape", [2**50]),
    "negative": set_array("score", "shape", [-1]),
    "another shape": set_array("score", "shape", lambda entries: [entries["score"]["shape"][0] - 1]),
    "offset": moved("score", 64),
    "unaligned": moved("score", 4),
    "beyond": moved("score", 2**20),
    "below": moved("weight", -(2**20)),
    "no offsets": set_array("score", "data_offsets", [0]),
    "more of an array": set_array("score", "more", 0),
    "overlap": set_array("score", "data_offsets", lambda entries: entries["always"]["data_offsets"]),
    "type": set_array("score", "dtype", "BF16"),
    "signed": set_array("score", "dtype", "I64"),
    "integers": set_array("score", "dtype", "U64"),
    "bool": set_array("score", "data_offsets", [False, True]),
    "no array": lambda c: with_entries(c, lambda t: t.replace('"moved"', '"moose"')),
    "a packed array that is none": lambda c: with_header(c, lambda t: t.replace("{}", '{"a":["U8",[1]]}')),
    "no stream": lambda c: with_header(c, lambda t: t.replace("{}", '{"n_moved":["U8",[1]]}')),
    "packed as a text": lambda c: with_header(c, lambda t: t.replace("{}", '{"n_moved":"U8"}')),
    "another length": lambda c: packed(c, n_bytes=9),
    "no length": lambda c: packed(c, n_bytes=-1),
    "a cut stream": lambda c: packed(c, cut=-9),
    "two streams": lambda c: packed(c, more=gzip.compress(b"more")),
    "a stream of zeros": lambda c: packed(c, own=bytes(1 << 24)),
}  # fmt: skip


def test_a_packed_file_is_the_same():
    content = (GOLDEN / "tagger-names-1.hocrf").read_bytes()
    for chosen in "text", "always":
        assert Tagger(packed(content, chosen=chosen)).predict(X_NAMES[0]) == Tagger(content).predict(X_NAMES[0])
    assert Tagger(with_header(content, str)).labels == Tagger(with_entries(content, str)).labels


def test_numbers_in_every_form_of_json(tmp_path):
    X, y = [[["a"], ["b"]]], [[1.0, 2.0]]
    export_tagger(HighOrderCRF().fit(X, y), tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    for form in "1E0", "10e-1", "0.1e+1":
        assert Tagger(with_header(content, lambda t, form=form: t.replace("1.0", form))).labels == [1.0, 2.0]


@pytest.mark.parametrize("n_bytes", [1 << 25, 1 << 53])
def test_a_stream_cannot_fill_the_memory(n_bytes):
    """What a stream may become is bounded by its own length, and by the length that the header tells."""
    content, zeros = (GOLDEN / "tagger-names-1.hocrf").read_bytes(), bytes(1 << 25)
    files = [packed(content, n_bytes, zeros), packed(content, 9_999, zeros)]
    del zeros
    tracemalloc.start()
    try:
        for broken in files:
            with pytest.raises(ValueError, match="packed array|an array of"):
                Tagger(broken)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(tmp_path, name):
    content = (GOLDEN / "tagger-names-1.hocrf").read_bytes()
    broken = BROKEN[name](content)
    assert broken != content
    (tmp_path / "broken").write_bytes(broken)
    for mmap in False, True:
        with pytest.raises(ValueError) as raised:  # noqa: PT011
            Tagger(tmp_path / "broken", mmap=mmap)
        assert len(str(raised.value)) < 400


@pytest.mark.parametrize("compress", [False, True])
def test_files_are_safetensors_files(tmp_path, compress):
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is absent")
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(2, max_iter=9)).fit(X_NAMES, Y_NAMES)
    export_tagger(model, tmp_path / "model.hocrf", compress=compress)
    content = (tmp_path / "model.hocrf").read_bytes()
    arrays, (header, entries, _) = safetensors.load(content), parts_of(content)
    assert arrays.keys() == _tagger.ARRAYS.keys()
    assert ("text" in header["packed"]) == compress
    for name, array in arrays.items():
        assert (array.dtype.str, list(array.shape)) == (_tagger.TYPES[entries[name]["dtype"]], entries[name]["shape"])
    again = safetensors.save(arrays, {"hocrf": dumps(header)})  # by the package's own writer
    assert Tagger(again).predict(X_NAMES[0]) == Tagger(content).predict(X_NAMES[0])
    again = safetensors.load(again)
    assert all(np.array_equal(again[name], array) for name, array in arrays.items())


PAGE = """
const fs = require("fs"), { Tagger } = require(process.argv[2]);
const { buffer, byteOffset, length } = fs.readFileSync(process.argv[3]);
const tagger = new Tagger(buffer.slice(byteOffset, byteOffset + length));
console.log(JSON.stringify(JSON.parse(process.argv[4]).map((tokens) => tagger.tag(tokens, 3))));
"""


def test_prefixes_of_tags_for_browsers():
    script = Path(__file__).parents[2] / "docs" / "_static" / "demo" / "tagger.js"
    listed = re.search(r"const PREFIXES = \{(.*)\}", script.read_text(encoding="utf-8"))[1]
    assert dict(re.findall(r'(\w+): "(\w+)"', listed)) == _tagger.PREFIXES


def test_the_reader_for_browsers(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is absent: put node on PATH")
    (tmp_path / "page.js").write_text(PAGE, encoding="utf-8")
    demo = Path(__file__).parents[2] / "docs" / "_static" / "demo"
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(2, constraints="bio", max_iter=9))
    export_tagger(model.fit(X_NAMES, Y_NAMES), tmp_path / "names.hocrf", compress=False)
    text = (demo / "addresses.js").read_text(encoding="utf-8").split('"')[1]
    (tmp_path / "addresses.hocrf").write_bytes(gzip.decompress(base64.b64decode(text)))
    words = ["123", "N", "Main", "St", ",", "Springfield", "IL", "PO", "Box", "9", "Apt", "new"]
    rng = np.random.default_rng(0)
    addresses = [rng.choice(words, length).tolist() for length in rng.integers(1, 12, 12)]
    for name, X in ("names", X_NAMES[:10]), ("addresses", addresses):
        tagger = Tagger(tmp_path / f"{name}.hocrf")
        command = [node, tmp_path / "page.js", demo / "tagger.js", tmp_path / f"{name}.hocrf", json.dumps(X)]
        answers = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for tokens, found in zip(X, answers, strict=True):
            assert_allclose(found["marginals"], tagger.predict_marginals(tokens), rtol=1e-9, atol=1e-9)
            nbest = tagger.predict_nbest(tokens, 3)
            assert [one["labels"] for one in found["nbest"]] == [one.labels for one in nbest]
            segments = tagger.predict_segments(tokens, with_probability=True).tolist()
            own = [(one["start"], one["stop"], one["name"]) for one in found["segments"]]
            assert own == [segment[:3] for segment in segments]
            assert_allclose([one["probability"] for one in found["segments"]], [one[3] for one in segments], rtol=1e-9)
    export_tagger(model, tmp_path / "packed.hocrf", compress=True)
    command = [node, tmp_path / "page.js", demo / "tagger.js", tmp_path / "packed.hocrf", "[]"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert "compress=False" in run.stderr


# --- real data --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("max_order", [1, 2])
def test_chunks(data_dir, tmp_path, max_order):
    X, y = load_conll(data_dir / "conll2000" / "train.txt.gz", ["w", "p", "tag"])
    model = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_order, max_iter=20)).fit(X[:500], y[:500])
    found, some = tagger_of(model, tmp_path), slice(500, 700)
    assert_same(found, model, X[some], model.predict(X[some]))
    assert_same_segments(found, model, X[some])
    n_bytes = export_tagger(model, tmp_path / "small.hocrf")
    small, wanted = Tagger(tmp_path / "small.hocrf"), np.concatenate(model.predict(X[:1500]))
    different = np.concatenate([small.predict(tokens) for tokens in X[:1500]]) != wanted
    assert different.mean() <= 1e-4
    skops = pytest.importorskip("skops.io", reason="skops is absent")
    assert n_bytes < len(skops.dumps(model, compression=zipfile.ZIP_DEFLATED)) / 2


test_refusals_of_files = refusals_of_files(
    (lambda model, tmp_path: export_tagger(
         clone(model).fit([[["a"], ["b"], ["a"]], [["b"]]], [["A", "B", "C"], ["B"]]), tmp_path / "model.hocrf"),
     ("^.*whole segments.{0,150}$", HighOrderSemiCRF(max_iter=1)),
     ("^.*pruning.{0,150}$", HighOrderCRF(pruning=2, max_iter=1)),
     ("^.*hashing.{0,150}$", make_pipeline(SequenceFeatureExtractor(n_features=64), HighOrderCRF(max_iter=1)))),
    (lambda value, tmp_path: export_tagger(
         value.fit([np.array([[1.0, 2.0]]), np.array([[0.5, 1.0]])], [["A"], ["B"]]), tmp_path / "model.hocrf"),
     ("a tagger reads tokens", HighOrderCRF(), sklearn_pipeline(FunctionTransformer(), HighOrderCRF()))),
    (lambda tmp_path: export_tagger(make_pipeline(SequenceFeatureExtractor(), HighOrderCRF()).fit(
         [[{"w": "a", "v": np.ones(2)}], [{"w": "b", "v": np.zeros(2)}]], [["A"], ["B"]]), tmp_path / "m"),
     "no fields of arrays"),
    (lambda tmp_path: export_tagger(
         HighOrderCRF().fit([[["a"]], [["b"]]], [["A"], ["B"]]), tmp_path / "m", dtype="float16"),
     "dtype"),
)  # fmt: skip

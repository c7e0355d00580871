import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from feature_definitions import BEGIN, END, attributes_of_templates
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from internals import _template_rows
from refusals import refusals
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
)

X_WORDS = [["In", "the", "end"], [], ["the", "End"]]
X_TUPLES = [[("In", "IN"), ("the", "DT"), ("end", "NN")], [("the", "DT"), ("End", "NN")]]

CHUNKING = [
    *[(("w", o),) for o in range(-2, 3)],
    (("w", -1), ("w", 0)),
    (("w", 0), ("w", 1)),
    *[(("p", o),) for o in range(-2, 3)],
    *[(("p", o), ("p", o + 1)) for o in range(-2, 2)],
    *[(("p", o), ("p", o + 1), ("p", o + 2)) for o in range(-2, 1)],
]


def reference_attributes(sequence, templates, padding, bias=False):
    """Return one {name: value} per token of a sequence of dicts."""
    plain = attributes_of_templates(sequence, templates, padding, bias)
    return [{name_of(attribute): value for attribute, value in token.items()} for token in plain]


def name_of(attribute):
    """Return the name of a mark, or of a template with texts: a "|" of a joined text is told from ours."""
    if isinstance(attribute, str):
        return attribute
    template, texts = attribute
    texts = [{BEGIN: "__BOS__", END: "__EOS__"}.get(text, text) for text in texts]
    if len(template) > 1:
        texts = [text.replace("\\", "\\\\").replace("|", "\\|") for text in texts]
    return "|".join(f"{field}[{offset}]" for field, offset in template) + ("=" + "|".join(texts) if texts else "")


def attributes_of(batch, names):
    """Return one {name: value} per token, and check that no token holds a feature twice."""
    answer = []
    for start, stop in zip(batch.indptr[:-1], batch.indptr[1:], strict=True):
        columns = batch.indices[start:stop]
        assert len(set(columns)) == len(columns)
        values = np.ones(len(columns)) if batch.values is None else batch.values[start:stop]
        answer.append(dict(zip(names[columns], values.tolist(), strict=True)))
    return answer


def reverse(text):
    return text[::-1]


# ---- against the reference

CELLS = st.sampled_from(["a", "b", "c", "", None])
NUMBERS = st.sampled_from([0, 1, -2, 0.5, 1e-200, True, False, None])
TOKENS = st.fixed_dictionaries({"w": CELLS, "p": CELLS, "n": NUMBERS})
SEQUENCES = st.lists(st.lists(TOKENS, max_size=5), min_size=1, max_size=4)
PAIRS = st.tuples(st.sampled_from(["w", "p", "n"]), st.integers(-3, 3))
TEMPLATES = st.lists(st.lists(PAIRS, min_size=1, max_size=4, unique=True).map(tuple), max_size=4, unique=True)
OPTIONS = st.fixed_dictionaries({"padding": st.sampled_from(["mark", "drop"]), "bias": st.booleans()})
FRAME = [{"w": "a", "p": "a", "n": 1.0}]  # so that every field has a kind


@given(SEQUENCES, SEQUENCES, TEMPLATES, OPTIONS, st.integers(1, 3), st.sampled_from([0, 1000]))
@example([[{**FRAME[0], "n": 1e-200}] * 2], [[]], [(("n", 0), ("n", 1))], {"padding": "drop", "bias": False}, 1, 0)
def test_equals_reference(train, test, templates, options, min_count, few_tokens):
    train = [*train, FRAME]
    extractor = SequenceFeatureExtractor(templates, min_count=min_count, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_template_rows, "FEW_TOKENS", few_tokens)  # look-up by codes and by values
        batches = extractor.fit_transform(train), extractor.transform(train), extractor.transform(test)
    expected = [reference_attributes(s, templates, **options) for s in train]
    counts = {}
    for name in (name for sequence in expected for token in sequence for name in token):
        counts[name] = counts.get(name, 0) + 1
    always = {"bias", "__BOS__", "__EOS__"}
    kept = {name for name, count in counts.items() if count >= min_count or name in always}
    names = extractor.get_feature_names_out()
    assert set(names) >= kept
    assert len(names) == extractor.n_features_out_
    for batch, X in zip(batches, (train, train, test), strict=True):
        assert batch.lengths.tolist() == list(map(len, X))
        expected = [token for s in X for token in reference_attributes(s, templates, **options)]
        expected = [{name: value for name, value in token.items() if name in kept} for token in expected]
        assert attributes_of(batch, names) == expected


def test_vocabulary_larger_than_int64():
    """Five fields of some 7,000 values each have more combinations than an int64 can number."""
    rng = np.random.default_rng(0)
    tokens = [tuple(map(str, row)) for row in rng.integers(10_000, size=(12_000, 5)).tolist()]
    template = tuple((field, 0) for field in range(5))
    extractor = SequenceFeatureExtractor([template])
    batch = extractor.fit_transform([tokens])
    names = extractor.get_feature_names_out()
    assert names[batch.indices].tolist() == [f"0[0]|1[0]|2[0]|3[0]|4[0]={'|'.join(token)}" for token in tokens]
    assert np.array_equal(extractor.transform([tokens]).indices, batch.indices)


# ---- forms of tokens


def expect(extractor, X, expected):
    batch = extractor.fit_transform(X)
    assert attributes_of(batch, extractor.get_feature_names_out()) == expected
    assert np.array_equal(extractor.transform(X).toarray(), batch.toarray())


def test_tuples_lists_arrays_and_dicts_agree():
    templates = [((0, 0), (1, 0))]
    expected = [{f"0[0]|1[0]={w}|{p}": 1} for s in X_TUPLES for w, p in s]
    as_lists = [[list(token) for token in s] for s in X_TUPLES]
    for X in (X_TUPLES, as_lists, [np.array(s) for s in X_TUPLES], [[np.array(t) for t in s] for s in X_TUPLES]):
        expect(SequenceFeatureExtractor(templates), X, expected)
    extractor = SequenceFeatureExtractor(templates).fit(X_TUPLES)
    from_generators = extractor.transform(iter(s) for s in X_TUPLES)
    assert np.array_equal(from_generators.toarray(), extractor.transform(X_TUPLES).toarray())
    as_dicts = [[{0: w, 1: p, "other": 1.5} for w, p in s] for s in X_TUPLES]
    expect(SequenceFeatureExtractor(templates), as_dicts, expected)
    named = [{name.replace("0[0]|1[0]", "word[0]|pos[0]"): 1} for token in expected for name in token]
    expect(SequenceFeatureExtractor([(("word", 0), ("pos", 0))], fields=["word", "pos"]), X_TUPLES, named)


def test_dicts_with_missing_keys_and_numbers():
    X = [[{"a": "x", "n": 2.5}, {"n": np.int64(3), "flag": True}, {"a": None, "flag": np.bool_(False), "n": 0}]]
    expected = [{"a[0]=x": 1, "n[0]": 2.5}, {"n[0]": 3.0, "flag[0]": 1.0}, {}]
    extractor = SequenceFeatureExtractor([("a", 0), ("n", 0), ("flag", 0)])
    expect(extractor, X, expected)
    unseen = extractor.transform([[{"a": "y", "n": 7}, {"b": 1}]])
    assert unseen.toarray().tolist() == [[0, 7, 0], [0, 0, 0]]


def test_numeric_sequences():
    arrays = [np.array([[1.0, 0.0], [2.0, 3.0]]), np.empty((0, 2)), np.array([[4.0, 5.0]])]
    templates = [((0, -1),), ((0, 0), (1, 0))]
    expected = [
        {"0[-1]=__BOS__": 1.0},
        {"0[-1]": 1.0, "0[0]|1[0]": 6.0},
        {"0[-1]=__BOS__": 1.0, "0[0]|1[0]": 20.0},
    ]
    expect(SequenceFeatureExtractor(templates), arrays, expected)
    expect(SequenceFeatureExtractor(templates), [a.tolist() for a in arrays], expected)
    expect(SequenceFeatureExtractor(templates), [a.astype(np.int32) for a in arrays], expected)
    expect(SequenceFeatureExtractor(), np.ones((2, 3, 2)), [{"0[0]": 1.0, "1[0]": 1.0}] * 6)
    expect(SequenceFeatureExtractor(), [[1.0, 2], [3]], [{"x[0]": 1.0}, {"x[0]": 2.0}, {"x[0]": 3.0}])


def test_batch_keeps_columns():
    raw = SequenceFeatureExtractor(templates=[], fields=["w", "p"]).fit_transform(X_TUPLES)
    assert raw.n_features == 0
    assert list(raw.columns) == ["w", "p"]
    assert raw.columns["w"].values[raw.columns["w"].codes].tolist() == ["In", "the", "end", "the", "End"]


# ---- token features


def test_token_functions():
    X = [["McDonald's", "IV", "1990s", "the", "-", "42"]]
    expected = {
        "lower": ["mcdonald's", "iv", "1990s", "the", "-", "42"],
        "prefix3": ["McD", "IV", "199", "the", "-", "42"],
        "suffix2": ["'s", "IV", "0s", "he", "-", "42"],
        "shape": ["XxXx'x", "X", "dx", "x", "-", "d"],
        "long_shape": ["XxXxxxxx'x", "XX", "ddddx", "xxx", "-", "dd"],
        "is_alpha": [0, 1, 0, 1, 0, 0],
        "is_digit": [0, 0, 0, 0, 0, 1],
        "is_lower": [0, 0, 1, 1, 0, 0],
        "is_punctuation": [0, 0, 0, 0, 1, 0],
        "is_title": [0, 0, 0, 0, 0, 0],
        "is_upper": [0, 1, 0, 0, 0, 0],
        "has_digit": [0, 0, 1, 0, 0, 1],
        "has_hyphen": [0, 0, 0, 0, 1, 0],
        "length": [10, 2, 5, 3, 1, 2],
    }
    for function, results in expected.items():
        tokens = [{f"{function}[0]={r}": 1.0} if isinstance(r, str) else {f"{function}[0]": r} for r in results]
        tokens = [{name: value for name, value in token.items() if value} for token in tokens]
        expect(SequenceFeatureExtractor([], token_features=[function]), X, tokens)


def test_token_functions_are_called_once_per_distinct_value():
    calls = []

    def spy(text):
        calls.append(text)
        return None if text == "b" else text.upper()

    extractor = SequenceFeatureExtractor([(("up", -1), ("w", 0))], token_features={"up": spy})
    batch = extractor.fit_transform([list("abab"), list("ba")])
    assert sorted(calls) == ["a", "b"]
    assert [list(token) for token in attributes_of(batch, extractor.get_feature_names_out())] == [
        ["up[-1]|w[0]=__BOS__|a"], ["up[-1]|w[0]=A|b"], [], ["up[-1]|w[0]=A|b"], ["up[-1]|w[0]=__BOS__|b"], [],
    ]  # fmt: skip
    extractor.transform([list("cc")])
    assert sorted(calls) == ["a", "b", "c"]


def test_names_of_token_features():
    extractor = SequenceFeatureExtractor(
        [("w", 0), ("shape", 1)], token_features=["shape", ("p", "lower"), reverse], fields=["w", "p"]
    ).fit(X_TUPLES)
    assert list(extractor.token_features_) == ["shape", "lower(p)", "reverse"]
    assert extractor.templates_ == [(("w", 0),), (("shape", 1),), (("lower(p)", 0),), (("reverse", 0),)]
    assert "reverse[0]=eht" in extractor.get_feature_names_out()


def affixes_up_to(longest):
    return [f"{kind}{length}" for kind in ("prefix", "suffix") for length in range(1, longest + 1)]


def test_defaults():
    words = SequenceFeatureExtractor(fields=["w"]).fit([["In", "September", "1999"]])
    functions = ["lower", *affixes_up_to(5), "shape"]
    assert list(words.token_features_) == functions
    of_words = {template for template in CHUNKING if template[0][0] == "w"}
    of_shapes = {tuple(("shape", offset) for _, offset in template) for template in of_words}
    of_functions = {((name, 0),) for name in functions}
    assert set(words.templates_) == of_words | of_shapes | of_functions
    pairs = SequenceFeatureExtractor(fields=["w", "p"]).fit([[("In", "IN"), ("September", "NNP"), ("1999", "CD")]])
    assert set(pairs.templates_) == {*CHUNKING} | of_shapes | of_functions
    assert not SequenceFeatureExtractor().fit([list("123")]).token_features_.keys() & set(functions[:-1])
    characters = SequenceFeatureExtractor().fit([list("abba")])
    assert list(characters.token_features_) == ["shape"]  # lower case and affixes of these are themselves
    fields_of_these_names = SequenceFeatureExtractor(affixes=0).fit([[{"w": "In", "shape": "round", "lower": "yes"}]])
    assert list(fields_of_these_names.token_features_) == []
    assert (("shape", -2), ("shape", -1)) in fields_of_these_names.templates_
    assert not SequenceFeatureExtractor(token_features=None).fit(X_WORDS).token_features_
    assert not SequenceFeatureExtractor([("w", 0)]).fit(X_WORDS).token_features_
    assert not SequenceFeatureExtractor().fit([[1.0]]).token_features_


def test_affixes():
    words = [["In", "September", "1999"]]

    def functions(*parameters, affixes, X=words, **others):
        return list(SequenceFeatureExtractor(*parameters, affixes=affixes, **others).fit(X).token_features_)

    assert functions(affixes=0) == ["lower", "shape"]
    assert functions(affixes=10) == ["lower", *affixes_up_to(8), "shape"]  # the longest word has 9 letters
    assert functions(affixes=10, n_features=99) == ["lower", *affixes_up_to(10), "shape"]
    assert functions(None, None, affixes=2) == affixes_up_to(2)
    assert functions([("w", 0)], affixes=2) == affixes_up_to(2)
    assert functions([("w", 0)], ["suffix2", "shape"], affixes=2) == [*affixes_up_to(2), "shape"]
    assert functions([("w", 0)], affixes=1, X=[[{"w": "In", "prefix1": "a"}]]) == ["suffix1"]
    extractor = SequenceFeatureExtractor([("w", 0), (("suffix2", -1), ("suffix2", 0))], affixes=2).fit([["In", "May"]])
    assert extractor.get_feature_names_out()[2:4].tolist() == [
        "suffix2[-1]|suffix2[0]=In|ay",
        "suffix2[-1]|suffix2[0]=__BOS__|In",
    ]
    numbers = [[{"x": 1.0, "w": "a"}, {"x": 2.0, "w": "bc"}]]
    assert functions(affixes=1, X=numbers, fields=["x", "w"]) == ["prefix1", "suffix1", "shape"]
    assert functions(affixes=0, X=[[1.0]]) == functions(affixes=None, X=[[1.0]]) == []


# ---- scikit-learn's conventions


# ---- errors


def test_sums_beyond_floating_point_numbers():
    with pytest.raises(ValueError, match="inf: sequence 1, position 0, feature 0 is inf"):
        SequenceFeatureExtractor([(0, 0), (1, 0)], n_features=1).fit_transform([[(1.0, 2.0)], [(1e308, 1e308)]])
    assert SegmentLogOddsEncoder(max_length=2**70).fit([["a", "b"]], [["A", "B"]]).max_length_ == 2**70


def test_error_in_a_users_function_names_the_value():
    with pytest.raises(KeyError) as raised:
        SequenceFeatureExtractor(token_features={"f": {"In": "x"}.__getitem__}).fit(X_WORDS)
    assert raised.value.__notes__ == ["in the token feature 'f', called with 'the'"]


def test_fields_of_dicts():
    as_dicts = [[{"w": w, "p": p} for w, p in s] for s in X_TUPLES]
    assert SequenceFeatureExtractor(fields=["p"]).fit(as_dicts).fields_ == ["p"]
    rare = SequenceFeatureExtractor([("w", 0)], fields=["p", "w"]).fit(as_dicts)
    assert rare.transform([[{"w": "the"}]]).toarray().tolist() == [[0, 0, 0, 1]]  # "p" is in no template


# ---- real data


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_what_pandas_writes_for_a_missing_text(missing):
    X = [[{"w": "a", "n": 1.5}, {"w": missing, "n": 2}], [{"w": "b", "n": 2}]]
    expected = SequenceFeatureExtractor().fit_transform([[{"w": "a", "n": 1.5}, {"n": 2}], [{"w": "b", "n": 2}]])
    extractor = SequenceFeatureExtractor()
    np.testing.assert_array_equal(extractor.fit_transform(X).toarray(), expected.toarray())
    assert extractor.complete_fields_ == ["n"]
    late = extractor.transform([[{"w": missing, "n": 1}]]).toarray()
    np.testing.assert_array_equal(late, extractor.transform([[{"n": 1}]]).toarray())


def test_masked_entries_are_missing():
    rows = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 0], [0, 1]])
    for X in ([rows], np.ma.stack([rows])):
        assert SequenceFeatureExtractor().fit_transform(X).toarray().tolist() == [[1, 2], [3, 0]]


def complete_in(X, fields):
    """Return the fields that every token has."""
    return [field for field in fields if all(token.get(field) is not None for s in X for token in s)]


FIELD_DICTS = st.lists(
    st.lists(st.fixed_dictionaries({}, optional={f: st.sampled_from([None, "x", "y"]) for f in "abc"}), max_size=3),
    max_size=3,
)


@given(FIELD_DICTS, FIELD_DICTS)
def test_fields_that_training_had_and_later_tokens_lack(train, test):
    assume(any(train))
    names = list(dict.fromkeys(field for s in train for token in s for field in token))
    assume(names)
    extractor = SequenceFeatureExtractor([(field, 0) for field in names if field != "c"]).fit(train)
    complete = complete_in(train, [field for field in names if field != "c"])  # no template has "c"
    assert extractor.complete_fields_ == complete
    tokens = [(n, t, token) for n, s in enumerate(test) for t, token in enumerate(s)]
    lacking = [(n, t, f) for n, t, token in tokens for f in complete if token.get(f) is None]
    lost = [f for f in complete if tokens and not any(f in token for _, _, token in tokens)]  # None says: no value
    with warnings.catch_warnings(record=True, action="always") as record:
        if lost:
            with pytest.raises(ValueError, match=f"the field '{lost[0]}' is missing, which every training token had"):
                extractor.transform(test)
            return
        extractor.transform(test)
    assert len(record) == bool(lacking)
    if lacking:
        n, t, field = lacking[0]
        count = len({place[:2] for place in lacking})
        assert str(record[0].message).startswith(f"{count} of {len(tokens)} tokens lack a field")
        assert f"first sequence {n}, position {t}, the field '{field}'" in str(record[0].message)


def test_lost_fields_of_other_transformers():
    train = [[{"w": "a", "p": "x"}, {"w": "b", "p": "y"}]]
    y = [["A", "B"]]
    for transformer in (
        SegmentFeatureExtractor((), identity="p"),
        SegmentFeatureExtractor((), functions=reverse_lengths),
        SegmentLogOddsEncoder(field="p"),
    ):
        transformer.fit(train, y)
        with pytest.raises(ValueError, match="sequence 0, position 0: the field 'p' is missing, which every training"):
            transformer.transform([[{"w": "a"}]])
        with pytest.warns(UserWarning, match="1 of 2 tokens lack a field .* sequence 0, position 1, the field 'p'"):
            transformer.transform([[{"w": "a", "p": "x"}, {"w": "a"}]])


def reverse_lengths(tokens, starts, stops):
    return starts - stops


NASTY = st.lists(st.sampled_from(["a", "b", "|", "\\", " ", "=", "[0]", "__BOS__", "__EOS__"]), max_size=3).map("".join)


@settings(max_examples=50)
@given(st.lists(st.lists(st.tuples(NASTY, NASTY), min_size=1, max_size=4), min_size=1, max_size=3), st.booleans())
def test_no_two_features_have_one_name(X, mark):
    """Values that hold the very characters that join them; no name needs a number ("#2")."""
    templates = [("a", 0), ("a[0]|b", -1), (("a", -1), ("a", 0)), (("a", 0), ("a[0]|b", 1), ("a", 1)), ("a[0]=b", 0)]
    dicts = [[{"a": a, "a[0]|b": b, "a[0]=b": b} for a, b in s] for s in X]
    extractor = SequenceFeatureExtractor(templates, padding="mark" if mark else "drop")
    names = extractor.fit(dicts).get_feature_names_out().tolist()
    assert len(set(names)) == len(names)
    assert not any("#" in name for name in names)
    y = [["s" if t % 2 else "u" for t in range(len(s))] for s in X]
    y[0][0] = "v"
    if len({label for labels in y for label in labels}) > 1:
        names = SegmentFeatureExtractor((), identity="a").fit(dicts, y).get_feature_names_out().tolist()
        assert len(set(names)) == len(names)
        assert not any("#" in name for name in names)


def test_names_that_are_escaped():
    extractor = SequenceFeatureExtractor([(("w", 0), ("w", 1)), ("w", 0)]).fit([["a|b", "c"], ["a", "b|c"]])
    names = extractor.get_feature_names_out().tolist()
    assert {r"w[0]|w[1]=a\|b|c", r"w[0]|w[1]=a|b\|c", "w[0]=a|b"} <= set(names)
    assert len(set(names)) == len(names) == 8
    hashed = SequenceFeatureExtractor([(("w", 0), ("w", 1))], n_features=2**20).fit_transform(
        [["a|b", "c"], ["a", "b|c"]]
    )
    assert len(set(hashed.indices.tolist())) == 4
    marks = SequenceFeatureExtractor([("w", -1)]).fit([["__BOS__", r"\__BOS__", "c"]]).get_feature_names_out()
    assert marks.tolist() == [r"w[-1]=\\__BOS__", r"w[-1]=\__BOS__", "w[-1]=__BOS__"]
    segments = SegmentFeatureExtractor((), identity=True).fit([["a b", "c"], ["a", "b c"]], [["A", "A"], ["B", "B"]])
    assert set(segments.get_feature_names_out()) == {r"identity=a\ b c", r"identity=a b\ c"}


def test_equal_names_of_stacked_transformers_get_numbers():
    batch = SequenceFeatureExtractor([("w", 0)]).fit_transform([["a", "b"]])
    for _ in range(3):
        extractor = SegmentFeatureExtractor(begin="w")
        batch = extractor.fit_transform(batch)
    new = ["begin:w[0]=a", "begin:w[0]=b"]
    expected = ["w[0]=a", "w[0]=b", *new, *(f"{name}#{i}" for i in (2, 3) for name in new)]
    assert extractor.get_feature_names_out().tolist() == expected
    assert list(pickle.loads(pickle.dumps(batch)).feature_names) == expected
    batch = SequenceFeatureExtractor("attributes").fit_transform([[{"begin": "x"}, ["x", "x#2", "begin:x#2"]]])
    segments = SegmentFeatureExtractor(begin=True).fit(batch)
    names = segments.get_feature_names_out().tolist()
    assert names[:4] == ["begin:x", "begin:x#2", "x", "x#2"]  # those of X stay as they are
    assert names[4:] == ["begin:begin:x", "begin:begin:x#2", "begin:x#3", "begin:x#2#2"]


@pytest.mark.parametrize(
    ("templates", "functions"),
    [(["U:%x[0,1]"], None), ([(("missing", 0),)], None), (None, {"low": ("missing", "lower")})],
)
def test_a_refused_fit_leaves_no_attribute(templates, functions):
    extractor = SequenceFeatureExtractor(templates, token_features=functions)
    before = dict(vars(extractor))
    with pytest.raises(ValueError, match="column|field"):
        extractor.fit([["a"]])
    assert vars(extractor) == before


test_refusals = refusals(
    (lambda: SequenceFeatureExtractor(affixes=2).fit([[1.0, 2.0]]), "affixes=2, but no field of the tokens holds text"),
    (lambda value: SequenceFeatureExtractor(None).fit(value),
     (TypeError, "X must be a list of sequences of tokens, got str", "text"),
     (r"wrap it: \[X\]", np.ones((3, 2))),
     (r"sequence 0 is the text 'text'.*text.tokenize\(X\) .*list\(text\)", ["text"]),
     ("X is a data frame.*group its rows into sequences", pd.DataFrame({"w": ["a"], "tag": ["O"]})),
     (TypeError, "sequence 1 must be a list of tokens or a 2-D array, got dict", [["a"], {"a": 1}]),
     (TypeError, "sequence 1 must be a list of tokens or a 2-D array, got c.._(array|matrix)",
      [["a"], sparse.coo_array(np.ones(3))], [["a"], sparse.csr_matrix(np.ones(3))]),
     ("sequence 0 has 3 dimensions", [np.ones((1, 1, 1))]),
     ("no tokens", []),
     (TypeError, "sequence 1, position 1: a token must be a str.*got None of type NoneType", [["a"], ["b", None]]),
     (r"sequence 1, position 1: the token \('c',\) is a tuple", [["a"], ["b", ("c",)]]),
     ("sequence 0, position 0: the token .* has no columns", [[()]]),
     (TypeError, r"sequence 1, position 0: field 1 is \['c'\], of type list", [[("a", "b")], [("a", ["c"])]]),
     (r"sequence 1, position 1: field 'x' is 1000*\.\.\.; numbers must be finite", [[1.0], [2.0, 10 ** 400]]),
     ("sequence 0, position 1: field 'a' is 1000", [[{"a": None}, {"a": 10 ** 400}]]),
     ("sequence 1, position 0: field 1 is nan", [np.ones((2, 2)), np.array([[1, np.nan]])]),
     (r"sequence 2, position 0: the token \[1.0, 1.0, 1.0\] has 3 columns, but the first token has 2",
      [np.ones((2, 2)), np.ones((0, 0)), np.ones((2, 3))])),
    (lambda: SequenceFeatureExtractor([((0, 0), (1, 0))]).fit([[(1e+200, 1e+200), (1.0, 2.0)]]),
     "sequence 0, position 0: the product of the template .* is inf"),
    (lambda params: SequenceFeatureExtractor(fields=["w", "p"], **params).fit(X_TUPLES),
     (TypeError, "templates must be an iterable", {"templates": "w"}),
     (TypeError, r"templates\[1\] = 'w' must be a tuple", {"templates": [("w", 0), "w"]}),
     ("a template of CRF.* begins with U, B or .*, got 'w'", {"templates": ["w"]}),
     (r"templates\[1\] is empty", {"templates": [(("w", 0),), ()]}),
     (TypeError, r"templates\[0\].*'p' must be a \(field, offset\) pair", {"templates": [(("w", 0), "p")]}),
     (TypeError, "the offset 0.5 must be an integer", {"templates": [(("w", 0.5),)]}),
     (TypeError, "the offset True must be an integer", {"templates": [(("w", True),)]}),
     ("the same .* pair twice", {"templates": [(("w", 0), ("w", 0))]}),
     (r"templates\[1\] .* is there twice", {"templates": [("w", 0), (("w", 0),)]}),
     (r"names the field 'q'; the tokens have the fields \['w', 'p'\]", {"templates": [("q", 0)]}),
     (TypeError, "token_features must be 'auto', None, a list", {"token_features": "lower"}),
     ("unknown token function 'louder'; use one of lower, .* suffixN", {"token_features": ["louder"]}),
     (TypeError, "3 must be a callable or the name", {"token_features": [3]}),
     ("must be a function, or a pair", {"token_features": [("w", "lower", 1)]}),
     (r"'lower\(q\)' is for the field 'q'", {"token_features": [("q", "lower")]}),
     ("two functions have the name 'lower'", {"token_features": ["lower", "lower"]}),
     ("'p' is the name of a field", {"token_features": {"p": "lower"}}),
     (TypeError, r"token feature 'f' of 'In' is \['In'\], of type list",
      {"token_features": {"f": lambda text: [text]}}),
     ("'f' of 'the' is 1, of type int", {"token_features": {"f": lambda t: 1 if t == "the" else t}})),
    (lambda fields: SequenceFeatureExtractor(fields=fields).fit(X_TUPLES),
     (TypeError, "fields must be a sequence of names", "wp"),
     (r"fields has 1 names \('w',\), but the tokens have 2 columns", ["w"]),
     ("fields must be different names", ["w", "w"])),
    (lambda: SequenceFeatureExtractor(token_features=["lower"]).fit([[1.0]]),
     r"no field holds text; specify the field of 'lower': \(field, 'lower'\)"),
    (lambda: SequenceFeatureExtractor(fields=["q"]).fit([[{"w": w, "p": p} for w, p in s] for s in X_TUPLES]),
     "fields names 'q', but no token has a value for it"),
    (lambda: SequenceFeatureExtractor().transform(X_WORDS), (NotFittedError, ".")),
    (lambda: SequenceFeatureExtractor().get_feature_names_out(), (NotFittedError, ".")),
    (lambda value: SequenceFeatureExtractor().fit(X_TUPLES).transform(value),
     (r"but those in fit had \[0, 1\]", [[("a", "b", "c")]], [[{"a": "b"}]]),
     ("field 1 held text in fit, but holds numbers now", [[("a", 1)]])),
    (lambda: SequenceFeatureExtractor().fit([[("a", 1)]]).transform(X_TUPLES),
     "field 1 held numbers in fit, but holds text now"),
    (lambda value: SequenceFeatureExtractor().fit(value).transform([["in", "Oslo", "and", "Rome"], ["Oslo"]]),
     (r"but those in fit had \['form', 'pos'\]",
      [[{"form": word, "pos": "NN"} for word in sentence] for sentence in [["in", "Oslo", "and", "Rome"], ["Oslo"]]]),
     (r"but those in fit had \['width'\]", [[{"width": 1.5}, {"width": 2.0}]])),
    (lambda: SequenceFeatureExtractor([(("suffix3", 0),)]).fit([["the", "man"]]),
     r"put it into token_features=\['suffix3'\]"),
    (lambda: SequenceFeatureExtractor(token_features={"f": lambda text: 1 if text == "odd" else "even"}).fit(
         X_WORDS).transform([["odd"]]),
     "field 'f' held text in fit, but holds numbers now"),
)  # fmt: skip

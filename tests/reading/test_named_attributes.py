"""Attributes by name: feature dicts and lists of attribute names as X, and templates of CRF++ and Wapiti."""

import ast
import re
import warnings
from array import array
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import Vocabulary, _string_templates, read_attributes, sort_vocabulary
from refusals import refusals
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf._data import tagger as _tagger
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.tagger import Tagger, export_tagger
from sklearn_hocrf.text import tokenize

DICTS = [
    [{"w": "in", "n": 2.0, "b": True}, {"w": "the", "more": {"p": "x", "q": ["r", "s"]}}, {}],
    [],
    [{"w": "the", "b": False, "n": -1}],
]
LISTS = [[["w:in", "b"], ["w:the", "b", "b"]], [[]]]


# ------------------------------------------------------------------------------------------------- docs/guide/inputs.md

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "inputs.md").read_text(encoding="utf-8")


def rows_of_table(head):
    """Return the cells of the rows of a table of the page."""
    lines = PAGE.partition(f"{head} |\n")[2].partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize(("value", "attributes"), rows_of_table('| attributes of `{"a": value}`'))
def test_values_of_feature_dicts(value, attributes, tmp_path):
    """Each row of the page, in fit, predict and a tagger, and in python-crfsuite."""
    crfsuite = pytest.importorskip("pycrfsuite")
    token, y = {"a": ast.literal_eval(re.findall("`(.*?)`", value)[-1])}, [["A", "B"]]
    known = HighOrderCRF(max_iter=9).fit([[["a:x"], ["b"]]], y)
    export_tagger(known, tmp_path / "model.hocrf")
    if "an error" in attributes:
        for ask in known.fit, known.predict:
            with pytest.raises(
                TypeError, match=r"sequence 0, position 1 of X: attribute 'a' holds 0\.5 \(float\), but"
            ):
                ask([[["b"], token]], *([y] if ask == known.fit else []))
        with pytest.raises(TypeError, match=r"position 1: attribute 'a' holds 0\.5, which must be a str"):
            Tagger(tmp_path / "model.hocrf").predict([["b"], token])
        with pytest.raises(SystemError):
            crfsuite.ItemSequence([token])
        return
    model = HighOrderCRF().fit([[token, ["b"]]], y)
    names = re.findall("`(.*?)`", attributes)
    assert model.feature_names_in_.tolist() == [*names, "b"]
    (found,) = crfsuite.ItemSequence([token]).items()
    assert found == {name: 0.5 if name == names[-1] and "with this value" in attributes else 1.0 for name in names}


def test_forms_of_tokens(tmp_path):
    """Each row of the first table of the page."""
    (tmp_path / "lines.conll").write_text("old A\nman B\n", encoding="utf-8")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"series": [0, 0], "word": ["old", "man"]})
    alone, words = HighOrderCRF(), make_pipeline(SequenceFeatureExtractor(), HighOrderCRF())
    given = {
        "dicts of": [(alone, [{"w": "old"}, {"w": "man"}]), (alone, [["old"], ["man"]])],
        "rows of numbers": [(alone, np.eye(2)), (alone, sparse.csr_array(np.eye(2)))],
        "words": [
            (words, ["old", "man"]),
            (words, [("old", "J"), ("man", "N")]),
            (words, [{"w": "old"}, {"w": "man"}]),
        ],
        "lines of": [(words, load_conll(tmp_path / "lines.conll")[0][0])],
        "rows of a": [(words, rows["word"].tolist()) for _, rows in frame.groupby("series")],
        "texts with": [(words, tokenize(["old man"])[0])],
    }
    rows = rows_of_table("| prepare them with")
    assert len(rows) == len(given)
    assert all(any(row[0].startswith(form) for row in rows) for form in given)
    for model, tokens in (each for examples in given.values() for each in examples):
        assert list(model.fit([tokens], [["A", "B"]]).predict([tokens])[0]) == ["A", "B"]


@pytest.mark.parametrize("X", [DICTS, LISTS])
@pytest.mark.parametrize("min_count", [1, 2])
def test_they_are_the_attributes_of_the_estimators(X, min_count):
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


@pytest.mark.parametrize("templates", ["attributes", ["U:%x[0,0]"]])
@pytest.mark.parametrize(
    "parameter", [{"token_features": ["lower"]}, {"affixes": 2}, {"bias": True}, {"n_features": 8}, {"padding": "drop"}]
)
def test_parameters_of_no_use_are_refused(templates, parameter):
    (name,) = parameter
    with pytest.raises(ValueError, match=f"^{name}=.* is not possible here"):
        SequenceFeatureExtractor(templates, **parameter).fit([["a"]] if name == "padding" else DICTS)


# --- templates of CRF++ and Wapiti ----------------------------------------------------------------------------------

X = [[("He", "PRP"), ("reckons", "VBZ"), ("the", "DT"), ("deficit", "NN")], [("In", "IN")]]
Y = [["B-NP", "B-VP", "B-NP", "I-NP"], ["B-PP"]]


def names_of(templates, sequence):
    """Return the strings of each token, read back from the batch, in order."""
    made = SequenceFeatureExtractor(templates).fit([sequence])
    names, batch = made.get_feature_names_out(), made.transform([sequence])
    rows = [batch.indices[first:stop] for first, stop in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)]
    return [sorted(names[row].tolist()) for row in rows]


def plain(templates, sequence, left, right):
    """The strings of each token, by replacing macros one by one."""

    def text(t, macro):
        place = t + int(macro[2])
        if place < 0:
            return left(-place)
        if place >= len(sequence):
            return right(place - len(sequence) + 1)
        value = sequence[place][int(macro[3])]
        return value.lower() if macro[1] == "X" else value

    def expand(t, template):
        return re.sub(r"%([xX])\[ *([-+]?\d+) *, *(\d+) *\]", lambda macro: text(t, macro), template)

    bare = {"B", "b", "*", "U", "u"}
    return [
        sorted({expand(t, template) for template in templates if template not in bare}) for t in range(len(sequence))
    ]


def crfpp(sign):
    return lambda distance: f"_B{sign}{distance}"


def wapiti(sign):
    return lambda distance: f"_x{sign}{distance if distance < 5 else '#'}"


PLACE = st.builds(
    "%{}[{},{}]".format, st.sampled_from("xX"), st.sampled_from(["-6", "-1", "0", " 0", "+1", "2"]), st.integers(0, 1)
)
BODY = st.lists(st.one_of(PLACE, st.sampled_from(["/", "01:", "a"])), max_size=4).map("".join)
CELL = st.sampled_from(["A", "b", "", "%", "É", "_B-1"])
SEQUENCE = st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5)


@pytest.mark.parametrize(("letters", "outside"), [("UB", crfpp), ("u*b", wapiti)])
@given(data=st.data())
def test_strings_of_crfpp_and_wapiti(letters, outside, data):
    templates = data.draw(st.lists(st.builds(str.__add__, st.sampled_from(letters), BODY), min_size=1, max_size=4))
    sequence = data.draw(SEQUENCE)
    if any(len(template) > 1 for template in templates):  # else there are no features
        assert names_of(templates, sequence) == plain(templates, sequence, outside("-"), outside("+"))


TEMPLATE = st.builds(str.__add__, st.sampled_from("UB*"), BODY.filter(bool))


@given(st.lists(TEMPLATE, min_size=1, max_size=4), st.lists(SEQUENCE, min_size=2, max_size=4))
def test_strings_made_once_for_equal_places(templates, sequences):
    extractor = SequenceFeatureExtractor(templates).fit(sequences[:-1])
    found = []
    for few_tokens in 0, 1000:
        with (
            warnings.catch_warnings(record=True) as caught,
            mock.patch.object(_string_templates, "FEW_TOKENS", few_tokens),
        ):
            batch = extractor.transform(sequences[1:])
        found.append((batch.toarray().tolist(), [str(warning.message) for warning in caught]))
    assert found[0] == found[1]


def test_equal_strings_are_one_feature():
    """Without identifiers, the words at two places are a bag."""
    batch = SequenceFeatureExtractor(["U:%x[0,0]", "U:%x[1,0]"]).fit_transform([[("a",), ("a",)]])
    assert batch.toarray().tolist() == [[0.0, 2.0], [1.0, 1.0]]  # "U:_B+1" and "U:a"


@pytest.mark.parametrize(
    ("templates", "max_order", "feature_order"),
    [
        (["U:%x[0,0]"], 0, 0),
        (["U:%x[0,0]", "B"], 1, 0),
        (["U:%x[0,0]", "*"], 1, 0),
        (["U:%x[0,0]", "B:%x[0,1]"], 1, {"B": (1,)}),
        (["u:%x[0,0]", "*:%x[0,1]", "b:%x[0,0]"], 1, {"*": 1, "b": (1,)}),
    ],
)
def test_pairs_of_labels(templates, max_order, feature_order):
    made = SequenceFeatureExtractor(templates)
    assert (made.max_order, made.feature_order) == (max_order, feature_order)
    crf = HighOrderCRF(made.max_order, feature_order=made.feature_order)
    pipe = make_pipeline(made, crf).fit(X, Y)
    assert pipe.predict(X) == Y
    names, orders = pipe[0].get_feature_names_out(), [len(pattern) - 1 for pattern in pipe[-1].patterns_]
    rows, columns = pipe[-1].coef_.nonzero()
    for row, column in zip(rows, columns, strict=True):
        expected = {"u": {0}, "b": {1}, "*": {0, 1}}[names[column][0].lower()]
        assert orders[row] in expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("X01:%x[0,0]", "a template of CRF.* or Wapiti begins with U, B or [*]"),
        ("U01:%x[0]", r"line 3: .*this is not a place such as %x\[-1,0\]"),
        ("U01:%x[@1,0]", "this is not a place"),
        ('U01:%x[0,0,"a"]', "this is not a place"),
        ("U01:%y[1,0]", "this is not a place"),
        ('U01:%t[0,0,"^a"]', "line 3: %t.* tests are not supported"),
        ('*:%m[-1,0,"a$"]', "tests are not supported"),
    ],
)
def test_lines_that_are_refused_are_named(tmp_path, line, message):
    path = tmp_path / "template"
    path.write_text(f"# words\n\n{line}\nB\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message) as error:
        SequenceFeatureExtractor.from_file(path)
    assert str(error.value).startswith(f"{path}, line 3: ")


CONLL = "He PRP B-NP\nruns VBZ B-VP\n\nShe PRP B-NP\n"


@pytest.mark.parametrize("columns", [None, ["word", "pos", "tag"]])
@pytest.mark.parametrize("form", ["dicts", "tuples", "lists", "texts"])
def test_they_read_what_load_conll_returns(tmp_path, columns, form):
    """Tokens of every form give the same features, in fit, in parts and in a file of a tagger; also after a BOM."""
    (tmp_path / "data.txt").write_text(CONLL, encoding="utf-8")
    (tmp_path / "template").write_text("U00:%x[0,0]\nU01:%x[-1,0]/%x[0,1]\nB\n", encoding="utf-8-sig")
    dicts, y = load_conll(tmp_path / "data.txt", columns=columns)
    make = {"dicts": dict, "tuples": lambda d: tuple(d.values()), "lists": lambda d: list(d.values())}
    X = [[make.get(form, lambda d: next(iter(d.values())))(token) for token in tokens] for tokens in dicts]
    names = ["U00:He", "U00:She", "U00:runs", "U01:He/VBZ", "U01:_B-1/PRP"]
    made = SequenceFeatureExtractor.from_file(tmp_path / "template")
    if form == "texts":
        made, names = SequenceFeatureExtractor(["U00:%x[0,0]", "B"]), names[:3]
    model = make_pipeline(made, HighOrderCRF(made.max_order, feature_order=made.feature_order)).fit(X, y)
    assert model[0].get_feature_names_out().tolist() == names
    counts = made.merge(made.fit_partition(X[:1]), made.fit_partition(X[1:]))
    assert clone(made).finish(counts).get_feature_names_out().tolist() == names
    export_tagger(model, tmp_path / "model", dtype="float64")
    assert [Tagger(tmp_path / "model").predict(tokens) for tokens in X] == model.predict(X) == y


VALUES = st.sampled_from(
    [True, False, 0, 1, 2, -1.5, 1.0, "x", "", "1", b"x", np.bool_(True), np.float64(2), ["x", "y"]]
    + [np.float32(0.5), np.int64(-3), np.float64(0), Decimal("0.25"), Fraction(1, 3), ["x", b"x"], ("x",)]
)
KEYS = st.sampled_from(["a", "b", "a:x", b"a"])
TOKENS = st.dictionaries(
    KEYS, VALUES | st.dictionaries(KEYS, VALUES | st.just({"a": {"a": "x"}}), max_size=3), max_size=4
)


@given(st.lists(st.lists(TOKENS, max_size=3), min_size=1), st.sampled_from([1, 512]))
def test_tables_of_known_attributes_say_the_same_as_joined_names(X, most_keys):
    _, vocabulary = sort_vocabulary(read_attributes(X, grown := Vocabulary(), grow=True), grown)
    known = {name: number for number, name in enumerate(list(vocabulary)[::2])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tagger, "MOST_KEYS", most_keys)
        of_tables = Vocabulary(known)
        found = [read_attributes(X, of_tables, grow=False) for _ in range(2)][1]
        assert len(of_tables.tables.values) <= most_keys
        assert all(len(table) <= len(known) for table in of_tables.tables.values.values())  # no unknown ones are kept
        patch.setattr(_tagger.AttributeIds, "add", lambda *_: None)
        expected = read_attributes(X, Vocabulary(known), grow=False)
    for name in ("offsets", "indptr", "indices", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


ALIKE = st.fixed_dictionaries(
    {
        "a": st.sampled_from(["x", "y", ""]),
        "b": st.sampled_from([0.0, -1.5, 1.0, True, False, np.float32(0.5), np.int64(-3), Decimal(2)]),
    }
)


@given(
    st.lists(st.lists(ALIKE, min_size=1, max_size=4), min_size=1) | st.lists(st.lists(ALIKE | TOKENS), min_size=1),
    st.sampled_from([1, 2]),
    st.integers(1, 9),
)
def test_tokens_with_the_same_keys_are_read_as_if_they_were_read_one_by_one(X, fewest, portion):
    def read(fewest, portion):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sklearn_hocrf._reading.attributes.FEWEST_ALIKE", fewest)
            patch.setattr("sklearn_hocrf._reading.attributes.PORTION", portion)
            learned = sort_vocabulary(read_attributes(X, grown := Vocabulary(), grow=True), grown)
            known = Vocabulary({name: number for number, name in enumerate(list(learned[1])[::2])})
            return *learned, read_attributes(X, known, grow=False)

    (batch, names, of_known), expected = read(fewest, portion), read(10**9, 10**9)
    assert (names, names.complete) == (expected[1], expected[1].complete)
    for found, other in (batch, expected[0]), (of_known, expected[2]):
        for name in ("offsets", "indptr", "indices", "values"):
            np.testing.assert_array_equal(getattr(found, name), getattr(other, name))


@pytest.mark.parametrize(
    "token",
    [{"a": [], "b": ["x", "unseen"]}, {"b": "x", "a": 2}]
    + [{"a": number} for number in (3, 0.5, np.float64(2), np.float32(2), np.int8(2), np.bool_(True), Decimal(2))],
)
def test_tables_read_lists_and_numbers_of_all_types(token):
    """Others are read one by one, in several times the time."""
    vocabulary, amounts = Vocabulary({"a": 0, "b:x": 1}), array("d")
    assert vocabulary.tables.add([token], [], amounts) == [len(token)]
    assert amounts.tolist() == [float(value) for value in token.values() if not isinstance(value, (str, list))]


class Grade(IntEnum):
    LOW, HIGH = 1, 2


OF_NUMPY = [np.bool_, np.int8, np.uint64, np.float16, np.float32, np.float64, np.longdouble]
NUMBERS = {kind.__name__: [kind(k) for k in (3, 0, 1, 7)] for kind in [bool, int, float, Fraction, Decimal, *OF_NUMPY]}
NUMBERS |= {"enums": [Grade.HIGH, Grade.LOW] * 2, "large": [2**53 + 1, -(2**62) - 1, 2**63, 10**300]}
NUMBERS |= {"tenths": [np.float32(0.1)] * 4, "mixed": [np.float32(0.1), 2, 0.1, True]}


@pytest.mark.parametrize("grow", [True, False])
@pytest.mark.parametrize("numbers", NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_one_type(numbers, grow, monkeypatch):
    """Keys with numbers of one type, alone and beside texts, become the floats that Python makes of them."""
    monkeypatch.setattr("sklearn_hocrf._reading.attributes.FEWEST_ALIKE", 1)
    for other in {}, {"w": "x"}:
        X = [[{"a": number, "b": number, **other} for number in numbers]]
        batch = read_attributes(X, Vocabulary({} if grow else {"a": 0, "b": 1, "w:x": 2}), grow=grow)
        found = batch.tocsr().toarray()[:, :2]
        assert found.tolist() == [[float(number)] * 2 for number in numbers]


def test_infinite_numbers_of_one_type(monkeypatch):
    monkeypatch.setattr("sklearn_hocrf._reading.attributes.FEWEST_ALIKE", 1)
    for number in np.longdouble("1e4000"), np.float32(np.inf), np.float16(np.nan), Decimal("1e4000"), 10**400:
        with pytest.raises(ValueError, match="sequence 0, position 1"):
            read_attributes([[{"a": type(number)(1)}, {"a": number}]], Vocabulary(), grow=True)


@pytest.mark.parametrize(
    "wrong", [*({"a": v} for v in (np.nan, 10**400, -np.inf, None, {"a": np.nan})), [["a"]], ["a", 1]]
)
def test_tables_refuse_nothing_themselves(wrong, monkeypatch):
    """What is wrong is read, and named, in the other way."""
    vocabulary, rows = Vocabulary({"a": 0}), [[{"a": 1}, {"a": 2.0}], [wrong]]
    for fewest in 1, 16:
        monkeypatch.setattr("sklearn_hocrf._reading.attributes.FEWEST_ALIKE", fewest)
        with pytest.raises((ValueError, TypeError), match="sequence 1, position 0"):
            read_attributes(rows, vocabulary, grow=False)
    nested: dict = {}
    nested["a"] = nested
    with pytest.raises(ValueError, match="contains itself"):
        read_attributes([[nested]], vocabulary, grow=False)


test_refusals = refusals(
    (lambda value: SequenceFeatureExtractor("attributes").fit(value),
     (TypeError, "sequence 0, position 0 .* SequenceFeatureExtractor", [["in"]]),
     (TypeError, "X is the str", "in"),
     (TypeError, "sequence 0, position 0", [[{"w": object()}]]),
     ("sequence 0, position 0", [[{"w": np.inf}]]),
     (TypeError, "rows of numbers", [np.ones((2, 2))], np.ones((2, 2))),
     ("no tokens", [], [[]])),
    (lambda templates: SequenceFeatureExtractor(templates).fit(SequenceFeatureExtractor().fit_transform([["a", "b"]])),
     (TypeError, "X is a SequenceBatch already", "attributes", None, [("w", 0)], ["U:%x[0,0]"])),
    (lambda: SequenceFeatureExtractor("attributes", fields=["w"]).fit([[{"w": "in"}]]),
     r"fields=\['w'\] is not possible here: templates='attributes' has no use for it"),
    (lambda value: SequenceFeatureExtractor("attributes").transform(value),
     (NotFittedError, ".", [["in"]], "in", [[{"w": object()}]], [[{"w": np.inf}]], [np.ones((2, 2))], np.ones((2, 2)),
      [], [[]])),
    (lambda: SequenceFeatureExtractor("attributes").transform(SequenceFeatureExtractor().fit_transform([["a", "b"]])),
     (NotFittedError, ".")),
    (lambda value: SequenceFeatureExtractor(["U:%x[0,1]"]).fit(value),
     (r"the tokens have the columns \[0\], but the templates read 2 columns", [[("a",)]]),
     ("sequence 0, position 1: field 1 is 1", [[("a", "b"), ("a", 1)]]),
     (TypeError, "templates of CRF.* read texts, but the field 1 holds numbers", [[("a", 2), ("a", 1)]]),
     ("sequence 0, position 1: the field 1 is missing", [[("a", "b"), ("a", None)]]),
     ("sequence 1 is the text 'ab'", [[("a", "b")], "ab"]),
     (TypeError, "X must be a list of sequences", "ab")),
    (lambda: SequenceFeatureExtractor("names").fit(X),
     (TypeError, "templates must be an iterable of .*, 'attributes' or None, got 'names'")),
)  # fmt: skip

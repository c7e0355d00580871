"""Template files of CRF++ and Wapiti: strings by a plain definition, pairs of labels, and what is refused."""

import re
from functools import partial

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

X = [[("He", "PRP"), ("reckons", "VBZ"), ("the", "DT"), ("deficit", "NN")], [("In", "IN")]]
Y = [["B-NP", "B-VP", "B-NP", "I-NP"], ["B-PP"]]


def names_of(templates, sequence, style="mark"):
    """Return the strings of each token, read back from the batch, in order."""
    made = SequenceFeatureExtractor(templates, padding=style).fit([sequence])
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


@given(st.lists(st.builds(str.__add__, st.sampled_from("UB"), BODY), min_size=1, max_size=4), SEQUENCE)
def test_strings_of_crfpp(templates, sequence):
    if all(len(template) == 1 for template in templates):
        return  # no features
    assert names_of(templates, sequence) == plain(templates, sequence, crfpp("-"), crfpp("+"))


@given(st.lists(st.builds(str.__add__, st.sampled_from("u*b"), BODY), min_size=1, max_size=4), SEQUENCE)
def test_strings_of_wapiti(templates, sequence):
    if all(len(template) == 1 for template in templates):
        return
    assert names_of(templates, sequence) == plain(templates, sequence, wapiti("-"), wapiti("+"))


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
        ("X01:%x[0,0]", "a template of CRF.* begins with U, B or [*]"),
        ("U01:%x[0]", r"line 3: .*this is not a place such as %x\[-1,0\]"),
        ("U01:%x[@1,0]", "this is not a place"),
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


def test_files_are_read(tmp_path):
    path = tmp_path / "template"
    path.write_text("# Unigram\nU00:%x[ -1,0]\n  U01:%x[0, 1]  \n\n# Bigram\nB\n", encoding="utf-8")
    made = SequenceFeatureExtractor.from_file(path, min_count=2, style="wapiti")
    lines = ["U00:%x[ -1,0]", "U01:%x[0, 1]", "B"]
    default = SequenceFeatureExtractor().get_params()
    assert made.get_params() == default | {"templates": lines, "min_count": 2, "padding": "wapiti"}
    assert SequenceFeatureExtractor.from_file(path).padding == "mark"
    assert SequenceFeatureExtractor.from_file(path).fit(X).templates_ == lines
    with pytest.raises(ValueError, match="style must be 'auto', 'crf[+][+]' or 'wapiti', got 'mark'"):
        SequenceFeatureExtractor.from_file(path, style="mark")
    path.write_text("# nothing\n")
    with pytest.raises(ValueError, match="template has no templates"):
        SequenceFeatureExtractor.from_file(path)


@pytest.mark.parametrize("columns", [None, ["w", "p", "y"]])
def test_files_of_templates_read_what_load_conll_returns(tmp_path, columns):
    """As the guide puts them side by side; and the same from rows, batches and frames, by position or name."""
    (tmp_path / "train").write_text("He PRP B-NP\nreckons VBZ B-VP\nthe DT B-NP\ndeficit NN I-NP\n\nIn IN B-PP\n")
    (tmp_path / "template").write_text("U00:%x[-1,0]\nU01:%x[0,0]/%x[0,1]\nB\n")
    train, y = load_conll(tmp_path / "train", *([] if columns is None else [columns]), return_X_y=True)
    make = partial(SequenceFeatureExtractor.from_file, tmp_path / "template")
    crf = HighOrderCRF(make().max_order, feature_order=make().feature_order)
    pipe = make_pipeline(make(), crf).fit(train, y)
    assert pipe.predict(train) == Y
    names = pipe[0].get_feature_names_out().tolist()
    batch = SequenceFeatureExtractor([], token_features=None).fit_transform(train)
    assert make().fit(X).get_feature_names_out().tolist() == names
    assert make().fit([list(map(list, sequence)) for sequence in X]).get_feature_names_out().tolist() == names
    assert make().fit(batch).get_feature_names_out().tolist() == names
    assert make().fit([pd.DataFrame(sequence) for sequence in train]).get_feature_names_out().tolist() == names
    swapped = [[dict(reversed(list(token.items()))) for token in sequence] for sequence in train]
    assert make(fields=list(train[0][0])).fit(swapped).get_feature_names_out().tolist() == names


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ([[("a",)]], ValueError, "the tokens have the columns .0., but the templates read 2"),
        ([[("a", "b"), ("a", 1)]], ValueError, "sequence 0, position 1: field 1 is 1, of type int"),
        ([[("a", 2), ("a", 1)]], TypeError, "templates of .* read texts, but the field 1 holds numbers"),
        ([[("a", "b"), ("a", None)]], ValueError, "sequence 0, position 1: the field 1 is missing"),
        ([[("a", "b")], "ab"], ValueError, "sequence 1 is the text"),
        ("ab", TypeError, "X must be a list of sequences"),
    ],
)
def test_tokens_that_are_refused_are_named(X, error, message):
    with pytest.raises(error, match=message):
        SequenceFeatureExtractor(["U:%x[0,1]"]).fit(X)


def test_parts_of_the_data_give_the_fit_of_the_whole():
    made = SequenceFeatureExtractor(["U:%x[0,0]", "B:%x[-1,1]"], min_count=1)
    counts = made.merge(made.fit_partition(X[:1]), made.fit_partition(X[1:]))
    names = made.fit(X).get_feature_names_out().tolist()
    assert made.finish(counts).get_feature_names_out().tolist() == names
    assert made.transform(X).lengths.tolist() == [4, 1]


def test_words_are_tokens_of_one_column():
    assert names_of(["U:%x[0,0]"], ["a", "b"]) == [["U:a"], ["U:b"]]


def test_what_string_templates_have_no_use_for():
    with pytest.raises(ValueError, match="bias=True is not possible here: templates of CRF.* have no use for it"):
        SequenceFeatureExtractor(["U:%x[0,0]"], bias=True).fit(X)
    with pytest.raises(TypeError, match=r"templates\[1\] = 'U:%x\[0,0\]' must be a tuple"):
        SequenceFeatureExtractor([("w", 0), "U:%x[0,0]"]).fit(X)

"""Files of annotations that are written and read: columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_hocrf.datasets import dump_conll, load_conll
from sklearn_hocrf.text import tokenize

X = [[{"word": "Ann", "pos": "NNP"}, {"word": "left", "pos": "VBD"}], [{"word": "Ó 日".replace(" ", ""), "pos": "X"}]]
Y = [["B-PER", "O"], ["O"]]

# ------------------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize("separator", [None, "\t", " ", "||"])
@pytest.mark.parametrize(
    ("columns", "target"),
    [
        (["word", "pos", "ner"], None),
        (["ner", "word", "pos"], "ner"),
        ([None, "word", None, "ner", "pos"], "ner"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
def test_columns_come_back(tmp_path, separator, columns, target, encoding):
    path = tmp_path / "file"
    dump_conll(path, X, Y, columns, target=target, separator=separator, encoding=encoding)
    read = load_conll(path, columns, target=target, separator=separator, encoding=encoding, return_X_y=True)
    assert read == (X, Y)


def test_columns_by_default(tmp_path):
    path = tmp_path / "file"
    dump_conll(path, X, Y)
    bunch = load_conll(path)
    assert bunch.target == Y
    dump_conll(tmp_path / "again", bunch.data, bunch.target)
    assert (tmp_path / "again").read_bytes() == path.read_bytes() == "Ann NNP B-PER\nleft VBD O\n\nÓ日 X O\n\n".encode()


@pytest.mark.parametrize(
    "form", [lambda word: word, lambda word: (word,), lambda word: [word], lambda word: {"w": word}]
)
def test_forms_of_tokens(tmp_path, form):
    dump_conll(tmp_path / "file", [[form("a"), form("b")]], [np.array(["X", "Y"])], ["w", "tag"])
    assert (tmp_path / "file").read_text() == "a X\nb Y\n\n"


def test_tokenized_text(tmp_path):
    tokenized = tokenize(["Ann left."])
    dump_conll(tmp_path / "file", tokenized, [["B", "O", "O"]])
    assert load_conll(tmp_path / "file").data == [[{"0": "Ann"}, {"0": "left"}, {"0": "."}]]


FIELD = st.text(st.one_of(st.sampled_from("ab \t\n\r\0\ufeff\u2028\x85\u3000|#_\ud800"), st.characters()), max_size=4)


@st.composite
def tables(draw):
    width = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    X = [[{str(k): draw(FIELD) for k in range(width)} for _ in range(n)] for n in lengths]
    return X, [[draw(FIELD) for _ in range(n)] for n in lengths]


@given(tables(), st.sampled_from([None, " ", "\t", "|", "||", "a"]), st.sampled_from(["utf-8", "utf-16-le", "latin-1"]))
@settings(max_examples=300, deadline=None)
def test_what_is_written_is_what_is_read(tmp_path_factory, data, separator, encoding):
    path = tmp_path_factory.getbasetemp() / "drawn"
    path.unlink(missing_ok=True)
    try:
        dump_conll(path, *data, separator=separator, encoding=encoding)
    except ValueError as error:
        refusal = str(error)
    if path.exists():
        assert load_conll(path, separator=separator, encoding=encoding, return_X_y=True) == data
    else:
        assert refusal.startswith("sequence ")


@given(st.lists(st.lists(st.text("ab_éü日#", min_size=1), min_size=1, max_size=4), min_size=1, max_size=3))
def test_words_are_never_refused(tmp_path_factory, words):
    path = tmp_path_factory.getbasetemp() / "words"
    dump_conll(path, words, words)
    assert load_conll(path).target == words


@pytest.mark.parametrize(
    ("X", "y", "kind", "message"),
    [
        ([["a b"]], [["X"]], ValueError, "sequence 0, position 0: the columns .* cannot be separated"),
        ([["a"], ["b", ""]], [["X"], ["X", "Y"]], ValueError, "sequence 1, position 1: the columns"),
        ([["a\nb"]], [["X"]], ValueError, "cannot be separated"),
        ([["a"]], [["X\tY"]], ValueError, "cannot be separated"),
        ([["\ufeffa"]], [["X"]], ValueError, "byte order"),
        ([["\ud800"]], [["X"]], ValueError, "sequence 0, position 0: .*surrogates"),
        ([["a" * 2**20]], [["X"]], ValueError, "a line has 1048578 characters"),
        ([["a"]], [[1]], TypeError, "sequence 0, position 0: 1 .int. is not text"),
        ([[None]], [["X"]], TypeError, "position 0: the token None"),
        ([[("a", 2)]], [["X"]], TypeError, "2 .int. is not text"),
        ([["a", ("a", "b")]], [["X", "Y"]], ValueError, "position 1: the token .* has 2 columns instead of 1"),
        ([[{"a": "1"}, {"b": "1"}]], [["X", "Y"]], ValueError, "position 1: the token .* has no column 'a'"),
        ([["a"], []], [["X"], []], ValueError, "sequence 1 is empty"),
        ([["a"]], [["X", "Y"]], ValueError, "sequence 0 has 1 tokens and 2 labels"),
        ([["a"]], [], ValueError, "X has 1 sequences and y has 0"),
        ([], [], ValueError, "at least one"),
        (["ab"], [["X", "Y"]], TypeError, "sequence 0 of X must be a list"),
        ([["a", "b"]], ["XY"], TypeError, "sequence 0 of y must be a list"),
    ],
)
def test_what_no_file_can_hold(tmp_path, X, y, kind, message):
    with pytest.raises(kind, match=message) as caught:
        dump_conll(tmp_path / "file", X, y)
    assert len(str(caught.value)) < 300
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": "word"}, "columns must be a sequence"),
        ({"columns": ["word", "word"]}, "two columns have the same name"),
        ({"columns": ["word", "pos"], "target": "ner"}, "target='ner' is not among"),
        ({"columns": [None]}, "target=None is not among"),
        ({"target": "pos"}, "specify columns"),
        ({"separator": ""}, "separator"),
        ({"encoding": "utf-9"}, "encoding"),
    ],
)
def test_arguments_of_dump_conll(tmp_path, arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        dump_conll(tmp_path / "file", X, Y, **arguments)

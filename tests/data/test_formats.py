"""Annotation files in columns: writing and reading."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusals_of_files

from sklearn_hocrf.datasets import dump_conll, load_conll
from sklearn_hocrf.text import tokenize

X = [[{"word": "Ann", "pos": "NNP"}, {"word": "left", "pos": "VBD"}], [{"word": "Ó 日".replace(" ", ""), "pos": "X"}]]
Y = [["B-PER", "O"], ["O"]]

# ------------------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize("separator", [None, " "])
def test_columns_come_back(tmp_path, separator):
    path = tmp_path / "file"
    dump_conll(X, Y, path)
    assert load_conll(path, ["word", "pos", "ner"], separator=separator) == (X, Y)


def test_columns_that_are_skipped(tmp_path):
    path = tmp_path / "file"
    path.write_text("_ Ann _ NNP B-PER _\n_ left _ VBD O _\n\n_ Ó日 _ X O _\n", encoding="utf-16")
    assert load_conll(path, [None, "word", None, "pos", "ner", None], encoding="utf-16") == (X, Y)


def test_columns_by_default(tmp_path):
    path = tmp_path / "file"
    dump_conll(X, Y, path)
    read = load_conll(path)
    assert read[1] == Y
    dump_conll(*read, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes() == "Ann NNP B-PER\nleft VBD O\n\nÓ日 X O\n\n".encode()


@pytest.mark.parametrize(
    "form", [lambda word: word, lambda word: (word,), lambda word: [word], lambda word: {"w": word}]
)
def test_forms_of_tokens(tmp_path, form):
    dump_conll([[form("a"), form("b")]], [np.array(["X", "Y"])], tmp_path / "file")
    assert (tmp_path / "file").read_text() == "a X\nb Y\n\n"


def test_tokenized_text(tmp_path):
    tokenized = tokenize(["Ann left."])
    dump_conll(tokenized, [["B", "O", "O"]], tmp_path / "file")
    assert load_conll(tmp_path / "file")[0] == [[{"0": "Ann"}, {"0": "left"}, {"0": "."}]]


FIELD = st.text(st.one_of(st.sampled_from("ab \t\n\r\0\ufeff\u2028\x85\u3000|#_\ud800"), st.characters()), max_size=4)


@st.composite
def tables(draw):
    width = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    X = [[{str(k): draw(FIELD) for k in range(width)} for _ in range(n)] for n in lengths]
    return X, [[draw(FIELD) for _ in range(n)] for n in lengths]


@given(tables())
@settings(max_examples=15 * settings().max_examples)  # a cheap one
def test_what_is_written_is_what_is_read(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "drawn"
    path.unlink(missing_ok=True)
    try:
        dump_conll(*data, path)
    except ValueError as error:
        refusal = str(error)
    if path.exists():
        assert load_conll(path) == data
    else:
        assert refusal.startswith("sequence ")


@given(st.lists(st.lists(st.text("ab_éü日#", min_size=1), min_size=1, max_size=4), min_size=1, max_size=3))
def test_words_are_never_refused(tmp_path_factory, words):
    path = tmp_path_factory.getbasetemp() / "words"
    dump_conll(words, words, path)
    assert load_conll(path)[1] == words


test_refusals_of_files = refusals_of_files(
    (lambda args, tmp_path: dump_conll(*args, tmp_path / "file"),
     ("sequence 0, position 0: the columns .* cannot be separated", ([["a b"]], [["X"]])),
     ("sequence 1, position 1: the columns", ([["a"], ["b", ""]], [["X"], ["X", "Y"]])),
     ("cannot be separated", ([["a\nb"]], [["X"]]), ([["a"]], [["X\tY"]])),
     ("byte order", ([["\ufeffa"]], [["X"]])),
     ("sequence 0, position 0: .*surrogates", ([["\ud800"]], [["X"]])),
     (TypeError, "sequence 0, position 0: 1 .int. is not text", ([["a"]], [[1]])),
     (TypeError, "position 0: the token None", ([[None]], [["X"]])),
     (TypeError, "2 .int. is not text", ([[("a", 2)]], [["X"]])),
     ("position 1: the token .* has 2 columns instead of 1", ([["a", ("a", "b")]], [["X", "Y"]])),
     ("position 1: the token .* has no column 'a'", ([[{"a": "1"}, {"b": "1"}]], [["X", "Y"]])),
     ("sequence 1 is empty", ([["a"], []], [["X"], []])),
     ("sequence 0 has 1 tokens and 2 labels", ([["a"]], [["X", "Y"]])),
     ("X has 1 sequences and y has 0", ([["a"]], [])),
     ("at least one", ([], [])),
     (TypeError, "sequence 0 of X must be a list", (["ab"], [["X", "Y"]])),
     (TypeError, "sequence 0 of y must be a list", ([["a", "b"]], ["XY"]))),
)  # fmt: skip

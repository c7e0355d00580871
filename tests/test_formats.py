"""Files of annotations that are written and read: columns, and doccano's lines of JSON."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_hocrf.datasets import dump_conll, dump_doccano, load_conll, load_doccano
from sklearn_hocrf.text import spans_from_tags, tags_from_spans, tokenize

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


# ------------------------------------------------------------------------------------------------------------- doccano


TEXT = st.text(st.one_of(st.sampled_from('a \n\r\0\u2028\ud800😀\ufeff"\\'), st.characters()), min_size=1, max_size=9)


@st.composite
def documents(draw):
    texts = draw(st.lists(TEXT, min_size=1, max_size=4))
    spans = []
    for text in texts:
        ends = draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))), max_size=3))
        spans.append([(min(pair), max(pair), draw(TEXT)) for pair in ends if pair[0] != pair[1]])
    return texts, spans


@given(documents(), st.sampled_from(["label", "labels"]))
def test_documents_come_back(tmp_path_factory, data, key):
    path = tmp_path_factory.getbasetemp() / "all.jsonl"
    ids = list(range(3, 3 + len(data[0])))
    dump_doccano(path, *data, ids=ids, key=key)
    bunch = load_doccano(path)
    assert (bunch.data, bunch.target, bunch.id) == (*data, ids)
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    assert [list(json.loads(line)) for line in lines] == [["id", "text", key]] * len(lines)


def test_spellings(tmp_path):
    path = tmp_path / "all.jsonl"
    lines = [
        {"id": "x", "text": "Ann left", "label": [[0, 3, "PER"]], "Comments": []},
        {"text": "Ann left", "labels": [[0, 3, "PER"]], "label": None},
        {
            "id": 2,
            "text": "Ann",
            "entities": [{"id": 9, "start_offset": 0, "end_offset": 3, "label": "PER"}],
            "relations": [],
        },
        {"id": None, "text": "Ann"},
    ]
    path.write_text("\r\n\n".join(map(json.dumps, lines)), encoding="utf-8-sig")
    bunch = load_doccano(path)
    assert bunch.target == [[(0, 3, "PER")]] * 3 + [[]]
    assert bunch.id == ["x", None, 2, None]
    assert load_doccano(path, return_X_y=True) == (bunch.data, bunch.target)


def test_from_annotations_to_predictions(tmp_path):
    path, texts = tmp_path / "all.jsonl", ["Ann Lee 😀 left", "No"]
    dump_doccano(path, texts, [[(0, 7, "PER")], []])
    texts, spans = load_doccano(path, return_X_y=True)
    tokenized = tokenize(texts)
    y = tags_from_spans(tokenized, spans)
    found = spans_from_tags(tokenized, y, probability=[[0.5], []])
    dump_doccano(path, texts, found)
    assert load_doccano(path).target == spans


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not a JSON object"),
        ("[" * 5000, "not a JSON object|too deep"),
        ("[]", 'an object with a "text"'),
        ('{"label": []}', 'an object with a "text"'),
        ('{"text": 3}', 'an object with a "text"'),
        ('{"text": "a", "label": ["x"]}', "is not a segment"),
        ('{"text": "a", "label": "x"}', "must be a list of spans"),
        ('{"text": "a", "label": [[0, 1]]}', "is not a segment"),
        ('{"text": "a", "label": [[0, true, "X"]]}', "must be integers"),
        ('{"text": "a", "label": [[0, 1.0, "X"]]}', "must be integers"),
        ('{"text": "a", "label": [[0, 2, "X"]]}', "ends after the text, which has 1 characters"),
        ('{"text": "a", "label": [[-1, 1, "X"]]}', "0 <= start < stop"),
        ('{"text": "a", "label": [[1, 1, "X"]]}', "0 <= start < stop"),
        ('{"text": "a", "label": [[0, 1, null]]}', "the label of the span"),
        ('{"text": "a", "entities": [{"start_offset": 0}]}', "must be integers"),
        ('{"text": "a", "label": [], "labels": []}', "given twice"),
    ],
)
def test_lines_that_are_none(tmp_path, line, message):
    path = tmp_path / "all.jsonl"
    path.write_text('{"text": "a"}\n\n' + line)
    with pytest.raises(ValueError, match=rf"all.jsonl, line 3: .*({message})") as caught:
        load_doccano(path)
    assert len(str(caught.value)) < 350 + len(str(path))


def test_a_file_without_texts(tmp_path):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(ValueError, match="contains no texts"):
        load_doccano(tmp_path / "empty")


@pytest.mark.parametrize(
    ("texts", "spans", "arguments", "kind", "message"),
    [
        (["a"], [], {}, ValueError, "1 texts, 0 lists"),
        (["a"], [[]], {"ids": [1, 2]}, ValueError, "2 ids"),
        ("a", [[]], {}, TypeError, "texts must be a list"),
        ([1], [[]], {}, TypeError, "text 0 must be a str"),
        (["a", "b"], [[], [(0, 2, "X")]], {}, ValueError, "text 1: the span"),
        (["a"], [[(0, 1)]], {}, TypeError, "text 0: .* is not a segment"),
        (["a"], [[(0, 1, 3)]], {}, ValueError, "text 0: the label of the span"),
        (["a"], [[]], {"key": "entities"}, ValueError, "key must be"),
        (["a"], [[]], {"ids": [object()]}, TypeError, "text 0"),
    ],
)
def test_what_doccano_does_not_hold(tmp_path, texts, spans, arguments, kind, message):
    with pytest.raises(kind, match=message):
        dump_doccano(tmp_path / "file", texts, spans, **arguments)
    assert not (tmp_path / "file").exists()


def test_ids_that_are_no_json(tmp_path):
    with pytest.raises(ValueError, match="text 1: .*JSON"):
        dump_doccano(tmp_path / "new.jsonl", ["a", "b"], [[], []], ids=[1, float("nan")])
    assert not (tmp_path / "new.jsonl").exists()

"""Data sets: generators make the documented data; loaders read all variants of a format and report errors in files."""

import gzip
import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from types import SimpleNamespace

import fetch_data
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from public_data import (
    find_data,
    load_cora_references,
    load_hexameters,
    load_ocr_letters,
    load_tagged_words,
    load_ud_chinese,
)
from refusals import refusals, refusals_of_files
from sklearn.datasets import load_digits

from sklearn_hocrf.datasets import (
    dump_conll,
    load_conll,
    make_digit_words,
    make_markov_sequences,
    make_name_sentences,
    make_references,
)

# ----------------------------------------------------------------------------------------------------------- generators


def successors(y, order):
    """Return {context of ``order`` labels: counts of the labels that follow}."""
    counts = defaultdict(Counter)
    for labels in y:
        labels = [int(label) for label in labels]
        for stop in range(order, len(labels)):
            counts[tuple(labels[stop - order : stop])][labels[stop]] += 1
    return counts


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_labels_follow_a_chain_of_exactly_the_given_order(order):
    _, y = make_markov_sequences(600, order=order, n_successors=2, random_state=order)
    label_counts = successors(y, order)
    assert len(label_counts) == 5**order
    assert max(len(counts) for counts in label_counts.values()) == 2
    assert min(len(counts) for counts in label_counts.values() if counts.total() > 200) == 2
    if order > 0:
        assert max(len(counts) for counts in successors(y, order - 1).values()) > 2


def test_observations_are_label_means_plus_noise():
    X, y = make_markov_sequences(500, n_features=4, noise=0.05, random_state=0)
    stacked, labels = np.concatenate(X), np.concatenate(y)
    assert stacked.shape == (500 * 20, 4)
    assert stacked.dtype == np.float64
    for label in range(5):
        mine = stacked[labels == label]
        assert (mine.mean(axis=0) > -0.01).all()
        assert (mine.mean(axis=0) < 1.01).all()
        assert_allclose(mine.std(axis=0), 0.05, rtol=0.1)
    X, y = make_markov_sequences(5, noise=0, random_state=0)
    assert len(np.unique(np.concatenate(X), axis=0)) == len(np.unique(np.concatenate(y)))


@pytest.mark.parametrize("make", [make_markov_sequences, make_digit_words])
def test_generators_repeat_with_an_int_and_go_on_with_a_generator(make):
    first, again, other = (np.concatenate(make(random_state=seed)[0]) for seed in (1, 1, 2))
    assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()
    rng = np.random.RandomState(1)
    assert_array_equal(np.concatenate(make(random_state=rng)[0]), first)
    following = np.concatenate(make(random_state=rng)[0])
    assert following.shape != first.shape or (following != first).any()


@pytest.mark.parametrize("make", [make_name_sentences, make_references])
def test_generated_text(make):
    """Words are strings with a label each, as files give them; many words have several labels."""
    X, y = make(200, random_state=0)
    assert make(200, random_state=0) == (X, y) != make(200, random_state=1)
    assert [len(words) for words in X] == [len(labels) for labels in y]
    assert {type(word) for words in X for word in words} == {type(label) for labels in y for label in labels} == {str}
    assert all(word and not set(word) & set(" \t\n") for words in X for word in words)
    labels_of = {}
    for word, label in zip(sum(X, []), sum(y, []), strict=True):
        labels_of.setdefault(word, set()).add(label)
    assert sum(len(labels) > 1 for labels in labels_of.values()) > 30
    with pytest.raises(ValueError, match="must be >= 1"):
        make(0)


def test_digit_words_have_images_of_their_labels():
    X, y = make_digit_words(noise=0, random_state=0)
    assert len(X) == len(y) == 500
    assert [len(word) for word in X] == [len(labels) for labels in y]
    assert {len(word) for word in X} == set(range(5, 13))
    assert len(set(np.concatenate(y))) == 10
    images, digits = load_digits(return_X_y=True)
    digit_of = {image.tobytes(): digit for image, digit in zip(images, digits, strict=True)}
    assert [digit_of[(16 * token).tobytes()] for token in np.concatenate(X)] == np.concatenate(y).tolist()


# ----------------------------------------------------------------------------------------------------- files of columns

CHUNKS = "Rates NNS B-NP\nfell VBD B-VP\n\n# # B-NP\n"


def write(path, text, *, zipped=False):
    content = text.encode()
    path.write_bytes(gzip.compress(content) if zipped else content)
    return path


@pytest.mark.parametrize(
    ("text", "options", "where"),
    [
        (
            "New York\tB-LOC\t\nis\tO\t\n\n",
            {},
            "line 1: the label, column 3 of 3, is empty: 'New York\\tB-LOC\\t'; if a",
        ),
        ("a\tO\n\nb\t\n", {}, "line 3: the label, column 2 of 2"),
        ("a\tO\nb\t \n", {}, "line 2: the label, column 2 of 2"),
        ("a\tO\tx\nb\t\tx\n", {"columns": ["w", "t", None]}, "line 2: the label, column 2 of 3"),
        ("a,O,x\nb,,x\n", {"columns": ["w", "t", None], "separator": ","}, "line 2: the label, column 2 of 3"),
    ],
)
def test_labels_are_never_empty(tmp_path, text, options, where):
    """A separator at the end of a line, or an empty cell, is no label ''; other columns may be empty."""
    path = tmp_path / "train"
    path.write_text(text)
    options = {"separator": "\t", **options}
    with pytest.raises(ValueError, match=f"train, {re.escape(where)}"):
        load_conll(path, **options)
    path.write_text("a\t\tO\t\nb\tx\tB\t\n")
    assert load_conll(path, ["w", "p", "t", None], separator="\t")[1] == [["O", "B"]]
    with pytest.raises(ValueError, match="sequence 0, position 1: the label is empty"):
        dump_conll([["a", "b"]], [["O", ""]], path)


def test_conll_columns(tmp_path):
    path = write(tmp_path / "train", CHUNKS)
    X, y = load_conll(path)
    assert X[0][1] == {"0": "fell", "1": "VBD"}
    assert y[0] == ["B-NP", "B-VP"]
    X, y = load_conll(path, columns=("word", "pos", None))
    assert X[0][1] == {"word": "fell"}
    assert y[0] == ["NNS", "VBD"]
    with path.open("rb") as file:
        assert load_conll(file, columns=["word", "pos", None]) == (X, y)


def test_conll_separator_and_comments(tmp_path):
    path = write(tmp_path / "treebank", "# text = a b c\n1\ta b\tX\n2\t\u3000\tY\n3\t\tZ\n\n")
    X, y = load_conll(path, [None, "form", "upos"], separator="\t", comment="#")
    assert X == [[{"form": "a b"}, {"form": "\u3000"}, {"form": ""}]]
    assert y == [["X", "Y", "Z"]]


def test_blanks_are_spaces_and_tabs_only(tmp_path):
    path = write(tmp_path / "words", " a\u00a0b \t X \n\u2028 Y\n \t\nc Z\n")
    assert load_cora_references(path) == ([["a\u00a0b", "\u2028"], ["c"]], [["X", "Y"], ["Z"]])


def test_find_data(tmp_path, monkeypatch):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.txt").write_text("a X\n")
    monkeypatch.setenv("SKLEARN_HOCRF_DATA", str(tmp_path))
    assert find_data("set/a.txt") == [tmp_path / "set" / "a.txt"]
    assert find_data("set/a.txt", "set/b.txt") is None
    assert find_data("set") is None  # a folder
    for absent in ("", str(tmp_path / "absent")):
        monkeypatch.setenv("SKLEARN_HOCRF_DATA", absent)
        assert find_data("set/a.txt") is None
    monkeypatch.delenv("SKLEARN_HOCRF_DATA")
    assert find_data("set/a.txt") is None


def test_data_are_fetched_and_checked(tmp_path, monkeypatch):
    """A file is written only with the expected content, and what is there is not replaced."""
    (tmp_path / "words.conllu").write_text("# text\n1-2\tzum\n1\tzu\t_\tADP\t_\tA=B\n\n", encoding="utf-8")
    expected, good = b"zu\tADP\tA=B\n\n", tmp_path / "set" / "good.gz"
    checksums = {"set/good.gz": hashlib.sha256(expected).hexdigest(), "other/bad": "0" * 64}
    rows = [f"{name}\t{value}\t{(tmp_path / 'words.conllu').as_uri()}" for name, value in checksums.items()]
    (tmp_path / "sources").write_text("\n".join(["head", *rows]))
    monkeypatch.setattr(fetch_data, "SOURCES", tmp_path / "sources")
    assert fetch_data.fetch(tmp_path) == 1
    assert gzip.decompress(good.read_bytes()) == expected
    assert not (tmp_path / "other").exists()
    write(good, "changed", zipped=True)
    assert fetch_data.fetch(tmp_path, ["set"]) == 1
    assert gzip.decompress(good.read_bytes()) == b"changed"


def test_a_source_without_converter_is_stored_as_it_is(tmp_path):
    """XML is converted by the name of the file: each has a converter of its own."""
    (tmp_path / "other.xml").write_text("<a/>")
    assert fetch_data.fetched("set/other.xml.gz", (tmp_path / "other.xml").as_uri()) == b"<a/>"


def test_strings_of_several_files_are_kept_once(tmp_path, monkeypatch):
    """Of names with the same tokens, the first counts; the package that makes the features is a stand-in."""
    monkeypatch.setitem(sys.modules, "probablepeople", SimpleNamespace(tokens2features=len))
    parts = tmp_path / "person_labeled.xml", tmp_path / "company_labeled.xml"
    parts[0].write_text("<a><Name><First>Al</First> <Last>Fa</Last></Name></a>")
    parts[1].write_text("<a><Name><Firm>Al</Firm> <Firm>Fa</Firm></Name><Name><Firm>Be</Firm></Name></a>")
    rows = fetch_data.fetched("set/names.jsonl.gz", " ".join(part.as_uri() for part in parts)).decode().splitlines()
    assert list(map(json.loads, rows)) == [
        {"tokens": ["Al", "Fa"], "labels": ["First", "Last"], "features": 2},
        {"tokens": ["Be"], "labels": ["Firm"], "features": 1},
    ]


def test_hexameters(tmp_path):
    line = {"syllables": ["ta", "lan", "ti"], "word_start": [1, 1, 0], "labels": ["elision", "long", "short"]}
    path = write(tmp_path / "lines", json.dumps(line) + "\n", zipped=True)
    assert load_hexameters(path) == ([[("ta", "1"), ("lan", "1"), ("ti", "0")]], [line["labels"]])


def test_tagged_words(tmp_path):
    path = write(tmp_path / "lines", "a/N 1/2/CD \nb/V\n", zipped=True)
    assert load_tagged_words(path) == ([["a", "1/2"], ["b"]], [["N", "CD"], ["V"]])


def test_broken_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_conll(tmp_path / "absent")
    with pytest.raises(ValueError, match="empty contains no sequence"):
        load_conll(write(tmp_path / "empty", ""))
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(b"a X\nb Y\n")[:-9])
    with pytest.raises(ValueError, match="damaged.gz"):
        load_conll(damaged)


# ---------------------------------------------------------------------------------------------------------- handwriting


def letter(identifier, letter="a", next_id=-1, word=1, position=1, fold=0, pixels="01" * 64):
    return "\t".join([*map(str, (identifier, letter, next_id, word, position, fold)), *pixels]) + "\t\n"


LETTERS = [
    letter(1, "o", 2, pixels="1" + "0" * 127),
    letter(2, "n", position=2, pixels="0" * 127 + "1"),
    letter(3, "a", word=2, fold=4),
]


@pytest.mark.parametrize("zipped", [False, True])
def test_letters(tmp_path, zipped):
    path = write(tmp_path / ("letter.data.gz" if zipped else "letter.data"), "".join(LETTERS), zipped=zipped)
    bunch = load_ocr_letters(path)
    assert bunch.target == [["o", "n"], ["a"]]
    assert_array_equal(bunch.fold, [0, 4])
    assert [x.shape for x in bunch.data] == [(2, 128), (1, 128)]
    assert bunch.data[0].dtype == np.uint8
    assert list(zip(*np.nonzero(bunch.data[0]), strict=True)) == [(0, 0), (1, 127)]
    assert_array_equal(bunch.data[1][0], [0, 1] * 64)
    assert len(bunch.feature_names) == 128
    assert bunch.feature_names[9] == "p_1_1"
    assert load_ocr_letters(path, folds=[4]).target == [["a"]]


# ------------------------------------------------------------------------------------------------------- Chinese words


def conllu(*sentences):
    """Return text in the CoNLL-U format; a sentence is a list of (word, part of speech)."""
    lines = (
        [f"{i}\t{word}\t_\t{pos}" + "\t_" * 6 for i, (word, pos) in enumerate(sentence, start=1)] + [""]
        for sentence in sentences
    )
    return "\n".join(["# a comment", *(line for sentence in lines for line in sentence)])


CHINESE = conllu([("美丽", "ADJ"), ("的", "PART")], [("#", "SYM"), ("Hanyu", "X")], [("海滩", "NOUN")])


def test_words_are_segments_of_characters(tmp_path):
    path = write(tmp_path / "train", CHINESE)
    X, y = load_ud_chinese(path)
    assert X == [list("美丽的"), list("#Hanyu"), list("海滩")]
    assert y == [[(0, 2, "_"), (2, 3, "_")], [(0, 1, "_"), (1, 6, "_")], [(0, 2, "_")]]
    assert load_ud_chinese(path, max_word_length=4) == ([X[0], X[2]], [y[0], y[2]])


# ------------------------------------------------------------------------------------------------------------ real data


def test_conllu(tmp_path):
    """Ranges and empty nodes are no words; where the first column numbers nothing, every line is a token."""

    def line(number, form, label="_"):
        return "\t".join([number, form, *7 * "_", label])

    words = [line("1-2", "zum"), line("1", "zu", "A"), line("2", "dem", "B"), line("2.1", "geht"), line("3", ".", "A")]
    second = [line("0.1", "er"), line("1", "Ja", "B")]
    (tmp_path / "file").write_text("# text = zum .\n" + "\n".join([*words, "", *second, ""]), encoding="utf-8")
    X, y = load_conll(tmp_path / "file", separator="\t", comment="#")
    assert [[token["1"] for token in tokens] for tokens in X] == [["zu", "dem", "."], ["Ja"]]
    assert y == [["A", "B", "A"], ["B"]]
    for other in (
        ["3 a", "3.1 b", "4 a"],  # two columns
        [line("3", "a"), line("3.1", "b"), line("4", "c")],
        [line("1", "a"), line("1-2", "b"), line("1", "c")],
        [line("1.5", "a")],
    ):
        (tmp_path / "file").write_text("\n".join(other))
        assert len(load_conll(tmp_path / "file")[0][0]) == len(other)


test_refusals = refusals(
    (lambda params: make_markov_sequences(**params),
     ("n_sequences", {"n_sequences": 0}),
     ("length", {"length": 0}),
     ("order", {"order": -1}),
     ("n_labels", {"n_labels": 1}),
     ("n_successors", {"n_successors": 6}),
     ("n_features", {"n_features": 0}),
     ("noise", {"noise": -0.1}),
     ("1953125 contexts", {"order": 9})),
    (lambda: make_digit_words(n_words=0), "n_words"),
    (lambda: make_digit_words(noise=-1), "noise"),
)  # fmt: skip

test_refusals_of_files = refusals_of_files(
    (lambda columns, tmp_path: load_conll(write(tmp_path / "train", CHUNKS), columns=columns),
     ("sequence of names", "word"),
     ("train, line 1: expected 2 columns, found 3: 'Rates NNS B-NP'", ["word", "pos"]),
     ("two columns have the same name", ["word", "word", "chunk"]),
     (r"columns must name two or more, of which the last contains the labels, got \['chunk'\]", [None, None, "chunk"]),
     ("columns must name two or more, .* got \\[\\]", [None, None, None])),
    (lambda tmp_path: load_conll(
         write(tmp_path / "ref.train", "A author\r\n\r\nCau author\r\n1992\r\n"), ["word", "tag"]),
     "ref.train, line 4: expected 2 columns, found 1: '1992'"),
    given=["ref.train", "train"],
)  # fmt: skip

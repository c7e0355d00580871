"""Readers of files give correct results, or a ValueError that names file and line, and never use much memory."""

import gzip
import io
import re
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusals_of_files

from sklearn_hocrf.datasets import load_conll

WORDS = "right O\njoey ,\n\nni\u00f1o O\nbe .\n"


def write(path, content):
    path.write_bytes(content)
    return path


# -------------------------------------------------------------------------------------------------- what reads the same


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("bom", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_line_ends_and_byte_order_marks(tmp_path, end, bom, zipped):
    expected = load_conll(write(tmp_path / "plain", WORDS.encode()))
    content = WORDS.replace("\n", end).encode("utf-8-sig" if bom else "utf-8")
    path = write(tmp_path / "file", gzip.compress(content) if zipped else content)
    assert load_conll(path) == expected


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-8", "UTF8"]
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings(tmp_path, encoding, end):
    path = write(tmp_path / "file", WORDS.replace("\n", end).encode(encoding))
    X, y = load_conll(path, ["word", "mark"], encoding=encoding)
    assert [[token["word"] for token in tokens] for tokens in X] == [["right", "joey"], ["ni\u00f1o", "be"]]
    assert y == [["O", ","], ["O", "."]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_is_no_part_of_a_token(tmp_path, encoding):
    path = write(tmp_path / "file", ("\ufeff" + WORDS).encode(encoding))
    assert load_conll(path, encoding=encoding)[0][0][0] == {"0": "right"}


def test_only_line_ends_end_lines(tmp_path):
    path = write(tmp_path / "file", "a\u2028b X\nc\x0bd\x0ce Y\nf\x85g\x1c Z\n".encode())
    assert [token["0"] for token in load_conll(path)[0][0]] == ["a\u2028b", "c\x0bd\x0ce", "f\x85g\x1c"]


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be", "gb18030", "ascii", "utf-8-sig"])
def test_text_of_another_encoding_is_named_by_its_line(tmp_path, encoding):
    wrong = {"utf-16": b"\x00\xd8", "utf-16-be": b"\xd8\x00"}.get(encoding, b"\xff")  # half of a surrogate pair
    after = "" if encoding == "utf-16" else "a X\n"
    content = (
        "a X\nb Y\n\nc".encode(encoding) + wrong + " Z\n".encode(encoding.replace("16", "16-le", encoding == "utf-16"))
    )
    path = write(tmp_path / "file", content + after.encode(encoding))
    with pytest.raises(ValueError, match=rf"file, line 4: not {encoding.removesuffix('-sig')} text"):
        load_conll(path, encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-7", "idna", "punycode"])
def test_every_codec_names_the_file(tmp_path, encoding):
    """Some raise another error than that of bytes that are no text."""
    with pytest.raises(ValueError, match=rf"file, line \d+: not {encoding} text"):
        load_conll(write(tmp_path / "file", b"a X\nb+ \xff Y\n"), encoding=encoding)


def test_bounds(tmp_path):
    size = len(WORDS.encode())
    for content in (WORDS.encode(), gzip.compress(WORDS.encode())):
        path = write(tmp_path / "file", content)
        expected = load_conll(path)
        assert load_conll(path, max_bytes=size) == expected
        with pytest.raises(ValueError, match=f"file: more than max_bytes={size - 1} bytes of text"):
            load_conll(path, max_bytes=size - 1)


def packed(line, n_lines):
    """Return the gzip of a line written n times, without ever holding all of it."""
    packer, out = zlib.compressobj(9, zlib.DEFLATED, 31), io.BytesIO()
    for _ in range(n_lines // 1000):
        out.write(packer.compress(line * 1000))
    return out.getvalue() + packer.flush()


@pytest.mark.parametrize("line", [b"a O\n", b"a" * 100])
def test_a_small_gzip_does_not_fill_the_memory(tmp_path, line):
    path = write(tmp_path / "bomb", packed(line, 15_000_000 // len(line)))
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"bomb: more than max_bytes="):
            load_conll(path)
        assert tracemalloc.get_traced_memory()[1] < 12e6
    finally:
        tracemalloc.stop()


def test_regular_data_in_a_gzip_are_read(tmp_path):
    """The bound is far from what data need: 260,000 equal lines may be a test of somebody's."""
    path = write(tmp_path / "file", packed(b"a O\n", 260_000))
    assert path.stat().st_size < 2000
    assert len(load_conll(path)[0][0]) == 260_000


def test_messages_hold_little_data(tmp_path):
    for content in (
        "q" * 10**6,
        WORDS + "q w " * 10**5,
        WORDS + "q\t" * 10**5,
        WORDS + "\x01" * 1000 + "\t_" * 9,
        WORDS + "1\tq\t" + "q" * 9999,
    ):
        with pytest.raises(ValueError, match="file") as caught:
            load_conll(write(tmp_path / "file", content.encode()))
        assert len(str(caught.value)) - len(str(tmp_path)) < 300
        assert re.search(r"(.)\1{80}", str(caught.value)) is None


# ------------------------------------------------------------------------------------------------------------ mutations

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "delete", "repeat", "cut"]),
        st.integers(0, 2**16),
        st.one_of(
            st.sampled_from([b"\n", b"\r", b"\0", b"\t", b" ", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8"]),
            st.binary(max_size=4),
        ),
    ),
    max_size=4,
)


def mutate(content, edits):
    for kind, place, new in edits:
        at = place % (len(content) + 1)
        if kind == "replace":
            content = content[:at] + new + content[at + len(new) :]
        elif kind == "insert":
            content = content[:at] + new + content[at:]
        elif kind == "delete":
            content = content[:at] + content[at + 1 + len(new) :]
        elif kind == "repeat":
            content += content[at:]
        else:
            content = content[:at]
    return content


@given(
    edits=EDITS, zipped=st.sampled_from(["no", "before", "after"]), encoding=st.sampled_from(["utf-8-sig", "utf-16"])
)
def test_mutated_files(tmp_path_factory, edits, zipped, encoding):
    """Whatever becomes of a file: an answer of the right form, or a ValueError that names file and line."""
    content = WORDS.encode(encoding)
    content = mutate(gzip.compress(content, mtime=0), edits) if zipped == "before" else mutate(content, edits)
    path = write(tmp_path_factory.getbasetemp() / "mutated", gzip.compress(content) if zipped == "after" else content)
    try:
        X, y = load_conll(path, encoding=encoding)
        message = None
    except ValueError as error:
        message = str(error)
    if message is not None:
        assert re.search(
            r"mutated(, line \d+:| contains no |: damaged gzip file)", message
        )  # the latter two: the whole file
        assert len(message) < len(str(path)) + 300
    else:
        assert len(X) == len(y) > 0
        assert all(len(sequence) > 0 for sequence in X)
        for sequence, labels in zip(X, y, strict=True):
            assert len(sequence) == len(labels)
            assert not any({"\r", "\n", "\0"} & set(text) for token in sequence for text in token.values())


test_refusals_of_files = refusals_of_files(
    (lambda encoding, tmp_path: load_conll(write(tmp_path / "file", WORDS.encode()), encoding=encoding),
     ("encoding", "utf-9", "", "hex", "rot13", "base64", "undefined", "a\x00b", "\ud800", "x" * 10 ** 6, None, 8,
      b"utf-8")),
    (lambda value, tmp_path: load_conll(write(tmp_path / "file", value)),
     ("line 2: not utf-8 text", "a X\n的".encode()[:-1]),
     ("line 1: .*(UTF-16|utf-8)", WORDS.encode("utf-16"), WORDS.encode("utf-16-le"), WORDS.encode("utf-16-be"))),
    (lambda tmp_path: load_conll(write(tmp_path / "file", "a X\nb".encode("utf-16")[:-1]), encoding="utf-16"),
     "line 2: not utf-16 text"),
    given=["file"],
)  # fmt: skip

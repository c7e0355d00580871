"""Read and write files with one token per line. Input files may be gzipped; errors in their contents name the line."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from io import BytesIO
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from .._data.checks import short

MAX_BYTES = 2**30  # ten times 100 MB, the limit for a file on GitHub
MAX_RATIO = 128  # text bytes per gzip byte: over ten times the ratio of any public data set (11); zlib reaches 1000
CHUNK = 2**20  # bytes
SMALL = 2**20  # bytes of text that a gzip file may contain at any ratio
LINE = re.compile("(.*)\n")
LINE_END = re.compile("\r{0,2}\n|\r")  # "\r\r\n" is the result of a repeated conversion
N_CONLLU = 10  # columns of CoNLL-U
NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")  # a range of words, or an empty node
BLANKS = re.compile("[ \t]+")  # not str.split(): U+00A0 and U+3000 are parts of tokens


def load_conll(
    path: str | PathLike | BinaryIO,
    columns: Sequence[str | None] | None = None,
    *,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8-sig",
    max_bytes: int | None = None,
) -> tuple[list[list[dict[str, str]]], list[list[str]]]:
    """Load a file in the format of the CoNLL shared tasks: one token per line, and an empty line between sequences.

    For CoNLL-U files, pass ``separator="\\t"`` and ``comment="#"``. CoNLL-U files have ten columns, and the first
    column numbers the words 1, 2, 3 ...; the lines of ranges (1-2) and of empty nodes (3.1) are skipped.

    Parameters
    ----------
    path : str, path-like or binary file
        The file, plain or gzipped: its path, or a file object such as ``sys.stdin.buffer``.
    columns : sequence of (str or None), default=None
        Names of the columns; None skips a column. By default, the columns are numbered "0", "1", ... The last column
        that is not skipped contains the labels.
    separator : str, default=None
        String between two columns, such as a tab. The default is any run of spaces and tabs.
    comment : str, default=None
        Lines that start with this string are skipped. By default, no lines are skipped, because the hash sign is a
        token in some corpora.
    encoding : str, default="utf-8-sig"
        Text encoding of the file, such as "utf-16" or "latin-1". The default is UTF-8, with or without a byte order
        mark.
    max_bytes : int, default=None
        Maximum size of the text in bytes, after decompression. The default is 2**30, but for a gzip file at most 128
        times the size of the file (or 2**20, if this is more), because a small file that decompresses to more text
        contains no real data, but could fill the memory.

    Returns
    -------
    X : list of list of dict
        The sequences of tokens; a token is a dict {column name: str}.
    y : list of list of str
        The labels.

    Raises
    ------
    ValueError
        If the number of columns in a line differs from that of ``columns`` or of the first line; if a label is empty,
        or a line cannot be decoded; if the file is too large or damaged, or contains no sequences; if fewer than two
        columns have names; if the encoding does not exist.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_conll
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     _ = path.write_text("Rates NNS B-NP\\nfell VBD B-VP\\n\\nWhy WRB B-ADVP\\n")
    ...     X, y = load_conll(path, columns=["word", "pos", "chunk"])
    >>> X[0]
    [{'word': 'Rates', 'pos': 'NNS'}, {'word': 'fell', 'pos': 'VBD'}]
    >>> y
    [['B-NP', 'B-VP'], ['B-ADVP']]
    """
    label = -1 if columns is None else _label_index(columns)
    name, text = _read_text(path, encoding, max_bytes)
    sequences: list[list[list[str]]] = [[]]
    for lineno, match in enumerate(LINE.finditer(text), start=1):
        line = match[1]
        if not line.strip(" \t"):
            if sequences[-1]:
                sequences.append([])
            continue
        if comment is not None and line.startswith(comment):
            continue
        fields = _split_fields(line, separator)
        if columns is None:
            if len(fields) == 1:
                what = f"one column, {short(line, 80)}, but the label is the last of two or more"
                raise ValueError(f"{name}, line {lineno}: {what}")
            columns = [str(i) for i in range(len(fields))]
            label = _label_index(columns)
        if len(fields) != len(columns):
            what = f"expected {len(columns)} columns, found {len(fields)}: {short(line)}"
            raise ValueError(f"{name}, line {lineno}: {what}")
        if not fields[label].strip():
            what = f"the label, column {label + 1} of {len(columns)}, is empty: {short(line)}"
            remedy = "if a separator only ends the line, specify columns, with None for the last"
            raise ValueError(f"{name}, line {lineno}: {what}; {remedy}")
        sequences[-1].append(fields)
    if columns is None or not sequences[0]:
        raise ValueError(f"{name} contains no sequences")
    if len(columns) == N_CONLLU:
        sequences = list(map(_words_of_rows, sequences))
    sequences = [tokens for tokens in sequences if tokens]  # the last one may be empty
    kept = [(i, column) for i, column in enumerate(columns) if column is not None and i != label]
    X = [[{column: token[i] for i, column in kept} for token in tokens] for tokens in sequences]
    return X, [[token[label] for token in tokens] for tokens in sequences]


def _read_text(path: str | PathLike | BinaryIO, encoding: str, max_bytes: int | None) -> tuple[str, str]:
    """Return the name of a file, plain or gzipped, and its text with LF as the only line end.

    Lines of the file may end with LF, CR LF or CR.
    """
    check_encoding(encoding)
    with nullcontext(path) if hasattr(path, "read") else open(path, "rb") as file:
        name, content = getattr(file, "name", "the file"), _read_chunks(file, max(max_bytes or 0, MAX_BYTES))
    limit, origin = max_bytes or MAX_BYTES, ""
    if content.startswith(b"\x1f\x8b"):
        limit = max_bytes or min(MAX_BYTES, max(SMALL, MAX_RATIO * len(content)))
        origin = f" (a gzip file of {len(content)} bytes)"
        try:
            with gzip.open(BytesIO(content)) as unzipped:
                content = _read_chunks(unzipped, limit)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{name}: damaged gzip file ({error})") from error
    if len(content) > limit:
        raise ValueError(f"{name}: more than max_bytes={limit} bytes of text{origin}")
    try:
        text, fault = content.decode(encoding), ""
    except UnicodeError as error:
        text, fault = "", f"not {encoding.removesuffix('-sig')} text ({getattr(error, 'reason', error)})"
        with suppress(AttributeError, UnicodeError):  # some codecs do not give the position
            text = error.object[: error.start].decode(encoding)  # type: ignore[attr-defined]
    if "\0" in text:
        text, fault = text.partition("\0")[0], "the character U+0000 is not text: is the encoding UTF-16?"
    if fault:
        raise ValueError(f"{name}, line {len(LINE_END.findall(text)) + 1}: {fault}")
    text = LINE_END.sub("\n", text) if "\r" in text else text  # the test is ten times as fast as sub
    return name, text.removeprefix("\ufeff") + "\n"


def _read_chunks(file: Any, limit: int) -> bytes:
    """Return the content of a file, up to a chunk beyond the limit; ``read(limit)`` would allocate ``limit`` bytes."""
    return b"".join(islice(iter(lambda: file.read(CHUNK), b""), limit // CHUNK + 1))


def check_encoding(encoding: str) -> None:
    """Raise a ValueError unless Python supports the text encoding."""
    try:
        "a".encode(encoding)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"encoding={short(encoding)} is not a text encoding that Python knows") from error


def _label_index(columns: Sequence[str | None]) -> int:
    """Return the index of the label column, which is the last named column; raise an error for invalid names."""
    if isinstance(columns, (str, bytes)):
        raise ValueError(f"columns must be a sequence of names, one for each column of the file, not {short(columns)}")
    names = [name for name in columns if name is not None]
    if len(set(names)) < len(names):
        raise ValueError(f"two columns have the same name: {short(names)}")
    if len(names) < 2:
        raise ValueError(f"columns must name two or more, of which the last contains the labels, got {short(names)}")
    return list(columns).index(names[-1])


def _words_of_rows(tokens: list[list[str]]) -> list[list[str]]:
    """Return the lines of words in a CoNLL-U sentence; all lines if the first column does not number words."""
    words = [fields for fields in tokens if not NO_WORD.fullmatch(fields[0])]
    are_numbered = [fields[0] for fields in words] == [str(i + 1) for i in range(len(words))]
    return words if words and are_numbered else tokens


def _split_fields(line: str, separator: str | None) -> list[str]:
    """Return the columns of a line; without a separator, runs of spaces and tabs separate the columns."""
    return BLANKS.split(line.strip(" \t")) if separator is None else line.split(separator)


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_conll(X: Iterable[Sequence[Any]], y: Iterable[Sequence[str]], path: str | PathLike[str]) -> None:
    r"""Write tokens and labels in columns, one token per line, with an empty line after each sequence.

    The file is encoded in UTF-8. Columns are separated by a space, and the last column contains the label.
    :func:`load_conll` reads the same tokens and labels from the file; conlleval and other programs can read it, too.

    Parameters
    ----------
    X : list of sequences of tokens
        A token is a string, a tuple or list of strings, or a dict {column name: str}. The columns of all dicts are
        written in the order of the first token. Sequences must not be empty.
    y : list of sequences of str
        The labels.
    path : str or path-like
        Path of the file. An existing file is replaced after all input has been checked.

    Raises
    ------
    TypeError
        If a token is neither a string nor a tuple, list or dict of strings, or if a label is not a string.
    ValueError
        If X and y do not match, if a token lacks a column, if a sequence or a label is empty, or if the columns could
        not be read back from a line, because one of them is empty or contains a line end, a space or a tab. The message
        names the sequence and the position.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import dump_conll, load_conll
    >>> X, y = (
    ...     [[{"word": "Ann", "pos": "NNP"}, {"word": "left", "pos": "VBD"}]],
    ...     [["B-PER", "O"]],
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     dump_conll(X, y, path)
    ...     path.read_text()
    ...     load_conll(path, columns=["word", "pos", "ner"]) == (X, y)
    'Ann NNP B-PER\nleft VBD O\n\n'
    True
    """
    X, y = list(X), list(y)
    if len(X) != len(y) or not X:
        raise ValueError(f"X has {len(X)} sequences and y has {len(y)}: both must have the same number, at least one")
    lines: list[str] = []
    for n, (tokens, labels) in enumerate(zip(X, y, strict=True)):
        for name, sequence in ("X", tokens), ("y", labels):
            if isinstance(sequence, (str, bytes)) or not hasattr(sequence, "__len__"):
                raise TypeError(f"sequence {n} of {name} must be a list, got {short(sequence)}")
        if len(tokens) != len(labels):
            raise ValueError(f"sequence {n} has {len(tokens)} tokens and {len(labels)} labels")
        if not len(tokens):
            raise ValueError(f"sequence {n} is empty, which such a file cannot represent")
        for t, (token, label) in enumerate(zip(tokens, labels, strict=True)):
            try:
                lines.append(_conll_line(_fields(token, label, X[0][0]), is_first=not lines))
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError  # encoding errors accept no message
                raise kind(f"sequence {n}, position {t}: {error}") from None
        lines.append("")
    Path(path).write_bytes("".join(f"{line}\n" for line in lines).encode())


def _fields(token: Any, label: Any, first: Any) -> list[str]:
    """Return the columns of a token's line; ``first`` is the first token of the file."""
    if isinstance(token, dict) and isinstance(first, dict):
        if lacking := [name for name in first if name not in token]:
            raise ValueError(f"the token {short(token)} has no column {short(lacking[0])}")
        values = [token[name] for name in first]
    elif isinstance(token, (str, tuple, list)):
        values = [token] if isinstance(token, str) else list(token)
    else:
        raise TypeError(f"the token {short(token)} ({type(token).__name__}) is not a str, tuple, list or dict")
    n_columns = 1 if isinstance(first, str) else len(first)
    if len(values) != n_columns:
        raise ValueError(f"the token {short(token)} has {len(values)} columns instead of {n_columns}")
    for value in [*values, label]:
        if not isinstance(value, str):
            raise TypeError(f"{short(value)} ({type(value).__name__}) is not text")
    if not label.strip():
        raise ValueError("the label is empty")
    return [*values, label]


def _conll_line(fields: list[str], *, is_first: bool) -> str:
    """Return the line of a token, or raise a ValueError if :func:`load_conll` would not read these columns from it."""
    line = " ".join(fields)
    line.encode()  # raises for surrogates
    is_one_line = not LINE_END.search(line) and "\0" not in line and bool(line.strip(" \t"))
    if not is_one_line or _split_fields(line, None) != fields:
        what = f"the columns {short(fields)} cannot be separated from each other, or from other lines, in a file"
        raise ValueError(what)
    if is_first and line.startswith("\ufeff"):
        raise ValueError("the byte order mark, U+FEFF, would be lost at the beginning of the file")
    return line

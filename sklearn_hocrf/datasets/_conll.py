"""Read and write files with one token per line, plain or gzipped. Errors of reading name the file and the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from sklearn.utils import Bunch

from .._validation._messages import short
from ._lines import LINE_END, MAX_LINE, check_encoding, read_lines

__all__ = ["dump_conll", "load_conll"]

ABSENT = "_"
N_CONLLU = 10  # columns of CoNLL-U
NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")  # a range of words, or an empty node
BLANKS = re.compile("[ \t]+")  # not str.split(): U+00A0 and U+3000 are parts of tokens


class _ConllOptions(TypedDict, total=False):
    target: str | None
    separator: str | None
    comment: str | None
    encoding: str
    max_bytes: int | None
    max_line: int


@overload
def load_conll(
    path: str | PathLike,
    columns: Sequence[str | None] | None = None,
    *,
    return_X_y: Literal[True],
    **options: Unpack[_ConllOptions],
) -> tuple[list[list[dict[str, str]]], list[list[str]]]: ...
@overload
def load_conll(
    path: str | PathLike,
    columns: Sequence[str | None] | None = None,
    *,
    return_X_y: Literal[False] = False,
    **options: Unpack[_ConllOptions],
) -> Bunch: ...
def load_conll(
    path: str | PathLike,
    columns: Sequence[str | None] | None = None,
    *,
    target: str | None = None,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8-sig",
    max_bytes: int | None = None,
    max_line: int = MAX_LINE,
    return_X_y: bool = False,
) -> Bunch | tuple[list[list[dict[str, str]]], list[list[str]]]:
    """Load a file in the format of the CoNLL shared tasks: a token per line, an empty line between sequences.

    In CoNLL-U, which has ten columns, of which the first numbers the words 1, 2, 3 ..., the lines of ranges (1-2) and
    of empty nodes (3.1) are left out. It needs ``separator="\\t"`` and ``comment="#"``.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzipped.
    columns : sequence of (str or None), default=None
        Names of the columns; None skips a column. By default the columns are numbered "0", "1", ...
    target : str, default=None
        Name of the column that holds the labels. By default the last column that is not skipped.
    separator : str, default=None
        Text between two columns, such as a tab. By default any run of spaces and tabs.
    comment : str, default=None
        Lines that start with this text are skipped. By default no lines are skipped, because the hash sign is a token
        in some corpora.
    encoding : str, default="utf-8-sig"
        Text encoding of the file, such as "utf-16" or "latin-1". By default UTF-8, with or without a byte order mark.
    max_bytes : int, default=None
        Maximum size of the text in bytes, after decompression. By default 2**30, and for a gzip file at most 128 times
        its own size (at least 2**20): a small file beyond this ratio is not data, but could fill the memory.
    max_line : int, default=2**20
        Maximum number of characters in a line.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        With ``data``, a list of sequences, each a list of tokens, each a dict {column name: str}; ``target``, the
        labels, a list of lists of str; ``columns``, the names of the columns in ``data``.

    Raises
    ------
    ValueError
        If a line has a different number of columns or an empty label, is not text in this encoding, or is too long; if
        the file is too large or damaged, or contains no sequences; if ``target`` is not a column, or is the only
        column; if the encoding does not exist.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_conll
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.txt")
    ...     _ = path.write_text("Rates NNS B-NP\\nfell VBD B-VP\\n\\nWhy WRB B-ADVP\\n")
    ...     X, y = load_conll(path, columns=["word", "pos", "chunk"], return_X_y=True)
    >>> X[0]
    [{'word': 'Rates', 'pos': 'NNS'}, {'word': 'fell', 'pos': 'VBD'}]
    >>> y
    [['B-NP', 'B-VP'], ['B-ADVP']]
    """
    if isinstance(columns, str):
        raise ValueError(f"columns must be a sequence of names, one for each column of the file, not {short(columns)}")
    n_columns = None if columns is None else len(columns)
    lines = read_lines(path, encoding=encoding, max_bytes=max_bytes, max_line=max_line)
    sequences = _read_columns(path, lines, n_columns, separator, comment, _label_of(columns, target))
    if columns is None:
        if len(sequences[0][0]) == 1:
            cell = short(sequences[0][0][0], 80)
            raise ValueError(f"{path}: lines have one column, such as {cell}, but the label is the last of two or more")
        columns = [str(i) for i in range(len(sequences[0][0]))]
    kept = [(index, name) for index, name in enumerate(columns) if name is not None]
    names = [name for _, name in kept]
    if len(set(names)) < len(names):
        raise ValueError(f"two columns have the same name: {short(names)}")
    if target is None and names:
        target = names[-1]
    if target not in names:
        raise ValueError(f"{path}: target={short(target)} is not among the columns {short(names)}")
    if len(names) < 2:
        raise ValueError(f"{path}: no column is left besides the target {short(target)}")
    label = columns.index(target)
    kept = [(index, name) for index, name in kept if name != target]
    X = [[{name: token[index] for index, name in kept} for token in tokens] for tokens in sequences]
    y = [[token[label] for token in tokens] for tokens in sequences]
    return (X, y) if return_X_y else Bunch(data=X, target=y, columns=[name for _, name in kept])


def _read_columns(
    path: str | PathLike,
    lines: Iterable[tuple[int, str]],
    n_columns: int | None,
    separator: str | None,
    comment: str | None,
    label: int,
) -> list[list[list[str]]]:
    """Return sequences of tokens with columns: one token per line, an empty line after each sequence.

    ``label`` is the column of the label, which must not be empty.
    """
    sequences: list[list[list[str]]] = []
    tokens: list[list[str]] = []
    for lineno, line in lines:
        if not line.strip(" \t"):
            if tokens:
                sequences.append(tokens)
                tokens = []
            continue
        if comment is not None and line.startswith(comment):
            continue
        fields = _split_fields(line, separator)
        if n_columns is None:
            n_columns = len(fields)
        if len(fields) != n_columns:
            raise ValueError(f"{path}, line {lineno}: expected {n_columns} columns, found {len(fields)}: {short(line)}")
        if label < n_columns and not fields[label]:
            what = f"the label, column {label % n_columns + 1} of {n_columns}, is empty: {short(line)}"
            remedy = "if a separator only ends the line, specify columns, with None for the last"
            raise ValueError(f"{path}, line {lineno}: {what}; {remedy}")
        tokens.append(fields)
    if tokens:
        sequences.append(tokens)
    if not sequences:
        raise ValueError(f"{path} contains no sequences")
    return list(map(_words_of_rows, sequences)) if n_columns == N_CONLLU else sequences


def _label_of(columns: Sequence[str | None] | None, target: str | None) -> int:
    """Return the index of the label's column: by default the last one, or the last with a name."""
    if columns is None:
        return int(target) if isinstance(target, str) and target.isdecimal() else -1
    return max((i for i, name in enumerate(columns) if name is not None and target in (None, name)), default=-1)


def _words_of_rows(tokens: list[list[str]]) -> list[list[str]]:
    """Return the words of a sentence in CoNLL-U; all tokens, if their first column does not number the others."""
    words = [fields for fields in tokens if not NO_WORD.fullmatch(fields[0])]
    are_numbered = [fields[0] for fields in words] == [str(i + 1) for i in range(len(words))]
    return words if words and are_numbered else tokens


def _split_fields(line: str, separator: str | None) -> list[str]:
    """Return the columns of a line; None means that runs of spaces and tabs separate them."""
    return BLANKS.split(line.strip(" \t")) if separator is None else line.split(separator)


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_conll(
    path: str | PathLike[str],
    X: Iterable[Sequence[Any]],
    y: Iterable[Sequence[str]],
    columns: Sequence[str | None] | None = None,
    *,
    target: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> None:
    r"""Write tokens and labels in columns, one token per line, with an empty line after each sequence.

    The inverse of :func:`load_conll`, which reads the same tokens and labels from the file. conlleval and other
    programs also read such files.

    Parameters
    ----------
    path : str or path-like
        The file, which is replaced. It is written after all input has been checked.
    X : list of sequences of tokens
        A token is a str, a tuple or list of str, or a dict {column name: str}. Sequences must not be empty.
    y : list of sequences of str
        The labels.
    columns : sequence of (str or None), default=None
        Names of the columns, as in :func:`load_conll`; None means a column of "_". By default the columns of the first
        token, followed by the label. If tokens are not dicts, their columns are written in order, and only the position
        of the label among the names matters.
    target : str, default=None
        Name of the column of the labels. By default the last column with a name.
    separator : str, default=None
        Text between two columns, such as a tab, as in :func:`load_conll`. By default a space.
    encoding : str, default="utf-8"
        Text encoding of the file.

    Raises
    ------
    TypeError
        If a token, one of its columns or a label is not text.
    ValueError
        If X and y do not match, if a token lacks a column, if a sequence or a label is empty, or if the columns could
        not be read back from a line: if one of them contains a line end or the separator or, by default, contains a
        space or is empty. The message names sequence and position.

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
    ...     dump_conll(path, X, y)
    ...     path.read_text()
    ...     load_conll(path, columns=["word", "pos", "ner"], return_X_y=True) == (X, y)
    'Ann NNP B-PER\nleft VBD O\n\n'
    True
    """
    if separator == "":
        raise ValueError("separator must be a text, or None for a space")
    check_encoding(encoding)
    X, y = list(X), list(y)
    if len(X) != len(y) or not X:
        raise ValueError(f"X has {len(X)} sequences and y has {len(y)}: both must have the same number, at least one")
    _check_equal_lengths(X, y)
    order = _Columns.of(columns, target, X[0][0])
    lines: list[str] = []
    for n, (tokens, labels) in enumerate(zip(X, y, strict=True)):
        for t, (token, label) in enumerate(zip(tokens, labels, strict=True)):
            try:
                lines.append(_conll_line(order.fields(token, label), separator, is_first=not lines, encoding=encoding))
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError  # encoding errors accept no message
                raise kind(f"sequence {n}, position {t}: {error}") from None
        lines.append("")
    Path(path).write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))


def _check_equal_lengths(X: list[Any], y: list[Any]) -> None:
    for n, (tokens, labels) in enumerate(zip(X, y, strict=True)):
        for name, sequence in ("X", tokens), ("y", labels):
            if isinstance(sequence, (str, bytes)) or not hasattr(sequence, "__len__"):
                raise TypeError(f"sequence {n} of {name} must be a list, got {short(sequence)}")
        if len(tokens) != len(labels):
            raise ValueError(f"sequence {n} has {len(tokens)} tokens and {len(labels)} labels")
        if not len(tokens):
            raise ValueError(f"sequence {n} is empty, which such a file cannot represent")


class _Columns:
    """The names of the columns of a file, and the position of the label."""

    def __init__(self, names: list[str | None], label: int) -> None:
        self.names, self.label = names, label

    @classmethod
    def of(cls, columns: Sequence[str | None] | None, target: str | None, token: Any) -> _Columns:
        if isinstance(columns, (str, bytes)):
            raise ValueError(f"columns must be a sequence of names, not {short(columns)}")
        if columns is None:
            width = len(token) if isinstance(token, (tuple, list)) else 1
            own = list(token) if isinstance(token, dict) else [str(i) for i in range(width)]
            if target in own:
                raise ValueError(f"target={short(target)} is also a column of the tokens: specify columns")
            return cls([*own, target], len(own))
        names = list(columns)
        named = [name for name in names if name is not None]
        if len(set(named)) < len(named):
            raise ValueError(f"two columns have the same name: {short(named)}")
        target = named[-1] if target is None and named else target
        if target is None or target not in named:
            raise ValueError(f"target={short(target)} is not among the columns {short(named)}")
        return cls(names, names.index(target))

    def fields(self, token: Any, label: Any) -> list[str]:
        """Return the columns of the line of a token."""
        given = [name for i, name in enumerate(self.names) if name is not None and i != self.label]
        if isinstance(token, dict):
            lacking = [name for name in given if name not in token]
            if lacking:
                raise ValueError(f"the token {short(token)} has no column {short(lacking[0])}")
            values = [token[name] for name in given]
        else:
            values = _column_values(token)
            if len(values) != len(given):
                raise ValueError(f"the token {short(token)} has {len(values)} columns instead of {len(given)}")
        for value in [*values, label]:
            if not isinstance(value, str):
                raise TypeError(f"{short(value)} ({type(value).__name__}) is not text")
        if not label:
            raise ValueError("the label is empty")
        rest = iter(values)
        columns = enumerate(self.names)
        return [label if i == self.label else ABSENT if name is None else next(rest) for i, name in columns]


def _column_values(token: Any) -> list[Any]:
    """Return the columns of a token that is not a dict."""
    if isinstance(token, str):
        return [token]
    if isinstance(token, (tuple, list)):
        return list(token)
    raise TypeError(f"the token {short(token)} ({type(token).__name__}) is not a str, tuple, list or dict")


def _conll_line(fields: list[str], separator: str | None, *, is_first: bool, encoding: str) -> str:
    """Return the line of a token, or raise a ValueError if it would not be read as these columns."""
    line = (" " if separator is None else separator).join(fields)
    line.encode(encoding)
    is_one_line = not LINE_END.search(line) and "\0" not in line and bool(line.strip(" \t"))
    if not is_one_line or _split_fields(line, separator) != fields:
        raise ValueError(
            f"the columns {short(fields)} cannot be separated from each other, or from other lines, in a file"
        )
    if is_first and line.startswith("\ufeff"):
        raise ValueError("the byte order mark, U+FEFF, would be lost at the beginning of the file")
    if len(line) > MAX_LINE:
        raise ValueError(f"a line has {len(line)} characters, but at most {MAX_LINE} can be read")
    return line

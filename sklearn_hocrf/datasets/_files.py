"""Readers of local files in the formats of public data sets, plain or gzipped.

Errors name the file and the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Unpack, overload

import numpy as np
from sklearn.utils import Bunch

from .._validation._messages import short
from ._lines import MAX_LINE, FileOptions, read_lines

BLANKS = re.compile("[ \t]+")  # not str.split(): U+00A0 and U+3000 are parts of tokens
N_ROWS, N_COLUMNS = 16, 8  # of a letter image
N_PIXELS = N_ROWS * N_COLUMNS
NUMBER = "[0-9]{1,18}"  # fits into 64 bits
OCR_LINE = re.compile(
    rf"({NUMBER})\t([a-z])\t(-1|{NUMBER})\t({NUMBER})\t({NUMBER})\t({NUMBER})\t((?:[01]\t){{{N_PIXELS}}})"
)


def find_data(*names: str) -> list[Path] | None:
    """Find files of public data sets, which this package does not contain, in your folder of data.

    The environment variable ``SKLEARN_HOCRF_DATA`` names the folder.

    Parameters
    ----------
    *names : str
        Paths within that folder.

    Returns
    -------
    list of pathlib.Path or None
        The path of each file; None if the variable is not set, or any file is absent.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import find_data
    >>> print(find_data("no such folder/train.txt", "no such folder/test.txt"))
    None
    """
    folder = os.environ.get("SKLEARN_HOCRF_DATA")
    paths = [Path(folder, name) for name in names] if folder else []
    return paths if paths and all(path.is_file() for path in paths) else None


def read_columns(
    path: str | PathLike,
    n_columns: int | None = None,
    *,
    separator: str | None = None,
    comment: str | None = None,
    complaint: Callable[[list[str]], str] | None = None,
    **lines: Any,
) -> list[list[list[str]]]:
    """Return sequences of tokens with columns: one token per line, an empty line after each sequence.

    ``complaint`` returns an error message for the fields of a token, or an empty string; ``lines`` are parameters of
    :func:`read_lines`.
    """
    sequences: list[list[list[str]]] = []
    tokens: list[list[str]] = []
    for number, line in read_lines(path, **lines):
        if not line.strip(" \t"):
            if tokens:
                sequences.append(tokens)
                tokens = []
            continue
        if comment is not None and line.startswith(comment):
            continue
        fields = split_fields(line, separator)
        if n_columns is None:
            n_columns = len(fields)
        if len(fields) != n_columns:
            raise ValueError(f"{path}, line {number}: expected {n_columns} columns, found {len(fields)}: {short(line)}")
        if complaint is not None and (wrong := complaint(fields)):
            raise ValueError(f"{path}, line {number}, sentence {len(sequences)}: {wrong}")
        tokens.append(fields)
    if tokens:
        sequences.append(tokens)
    if not sequences:
        raise ValueError(f"{path} contains no sequences")
    return sequences


def split_fields(line: str, separator: str | None) -> list[str]:
    """Return the columns of a line; None means that runs of spaces and tabs separate them."""
    return BLANKS.split(line.strip(" \t")) if separator is None else line.split(separator)


class _ConllOptions(FileOptions, total=False):
    target: str | None
    separator: str | None
    comment: str | None
    encoding: str


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
        If a line has a different number of columns, is not text in this encoding, or is too long; if the file is too
        large or damaged, or contains no sequences; if ``target`` is not a column, or is the only column; if the
        encoding does not exist.

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
    sequences = read_columns(
        path, n_columns, separator=separator, comment=comment, encoding=encoding, max_bytes=max_bytes, max_line=max_line
    )
    if columns is None:
        columns = [str(number) for number in range(len(sequences[0][0]))]
    kept = [(number, name) for number, name in enumerate(columns) if name is not None]
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
    kept = [(number, name) for number, name in kept if name != target]
    X = [[{name: token[number] for number, name in kept} for token in tokens] for tokens in sequences]
    y = [[token[label] for token in tokens] for tokens in sequences]
    return (X, y) if return_X_y else Bunch(data=X, target=y, columns=[name for _, name in kept])


@overload
def load_cora_references(
    path: str | PathLike, *, return_X_y: Literal[True], **options: Unpack[FileOptions]
) -> tuple[list[list[str]], list[list[str]]]: ...
@overload
def load_cora_references(
    path: str | PathLike, *, return_X_y: Literal[False] = False, **options: Unpack[FileOptions]
) -> Bunch: ...
def load_cora_references(
    path: str | PathLike, *, max_bytes: int | None = None, max_line: int = MAX_LINE, return_X_y: bool = False
) -> Bunch | tuple[list[list[str]], list[list[str]]]:
    """Load bibliographic references, each word labelled with its field: author, title, date ...

    The Cora references in the split and tokenisation of Cuong, Ye, Lee and Chieu (JMLR 15, 2014): one ``word field``
    per line, an empty line after each reference. A segment is a maximal run of one label.

    Parameters
    ----------
    path : str or path-like
        ``ref.train`` or ``ref.test`` of their HOSemiCRF release, plain or gzipped.
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
        With ``data``, the words, and ``target``, the labels: lists of lists of str.

    Raises
    ------
    ValueError
        If a line does not have two columns, is not UTF-8, or is too long; if the file is too large or damaged, or
        contains no references.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_cora_references
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "ref.train")
    ...     _ = path.write_text("A. author\\nCau author\\n1992 date\\n\\n")
    ...     X, y = load_cora_references(path, return_X_y=True)
    >>> X, y
    ([['A.', 'Cau', '1992']], [['author', 'author', 'date']])
    """
    sequences = read_columns(path, 2, max_bytes=max_bytes, max_line=max_line)
    X = [[word for word, _ in tokens] for tokens in sequences]
    y = [[label for _, label in tokens] for tokens in sequences]
    return (X, y) if return_X_y else Bunch(data=X, target=y)


@overload
def load_ocr_letters(
    path: str | PathLike,
    *,
    folds: int | Iterable[int] | None = None,
    return_X_y: Literal[True],
    **options: Unpack[FileOptions],
) -> tuple[list[np.ndarray], list[list[str]]]: ...
@overload
def load_ocr_letters(
    path: str | PathLike,
    *,
    folds: int | Iterable[int] | None = None,
    return_X_y: Literal[False] = False,
    **options: Unpack[FileOptions],
) -> Bunch: ...
def load_ocr_letters(
    path: str | PathLike,
    *,
    folds: int | Iterable[int] | None = None,
    max_bytes: int | None = None,
    max_line: int = MAX_LINE,
    return_X_y: bool = False,
) -> Bunch | tuple[list[np.ndarray], list[list[str]]]:
    """Load handwritten words: binary letter images of 16 rows of 8 pixels.

    Kassel's words as cleaned by Taskar (``letter.data``, 2003): 6877 words in ten folds. They are written copies of
    only 55 distinct words, and every fold contains all of them: mention this when you report accuracies.

    Parameters
    ----------
    path : str or path-like
        ``letter.data``, plain or gzipped.
    folds : int or iterable of int, default=None
        The folds to return, in the order of the file. By default all.
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
        With ``data``, a list of arrays of shape (T, 128), uint8, 1 for ink; ``target``, a list of lists of letters;
        ``fold``, an int64 array of shape (n_words,); ``feature_names``, 128 names ``p_row_column``.

    Raises
    ------
    ValueError
        If a line does not have this format or is too long, if the letters of a word are not contiguous, if the file is
        too large or damaged, or if the given folds contain no words.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_ocr_letters
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "letter.data")
    ...     pixels = "\\t".join(["0", "1"] * 64) + "\\t"
    ...     _ = path.write_text(
    ...         f"1\\to\\t2\\t1\\t1\\t0\\t{pixels}\\n2\\tn\\t-1\\t1\\t2\\t0\\t{pixels}\\n"
    ...     )
    ...     X, y = load_ocr_letters(path, folds=0, return_X_y=True)
    >>> X[0].shape, y
    ((2, 128), [['o', 'n']])
    """
    if folds is not None:
        folds = {folds} if isinstance(folds, (int, np.integer)) else set(folds)
    data, target, fold = [], [], []
    for pixels, letters, word_fold in _ocr_words(read_lines(path, max_bytes=max_bytes, max_line=max_line), path):
        if folds is None or word_fold in folds:
            # a pixel is one character, and so is the tab after it
            image = np.frombuffer("".join(pixels).encode(), dtype=np.uint8).reshape(-1, 2 * N_PIXELS)[:, ::2]
            data.append(image - ord("0"))
            target.append(letters)
            fold.append(word_fold)
    if not data:
        raise ValueError(f"{path} contains no words" + ("" if folds is None else f" of the folds {sorted(folds)}"))
    if return_X_y:
        return data, target
    names = [f"p_{row}_{column}" for row in range(N_ROWS) for column in range(N_COLUMNS)]
    return Bunch(data=data, target=target, fold=np.array(fold, dtype=np.int64), feature_names=names)


def _ocr_words(lines: Iterable[tuple[int, str]], path: str | PathLike) -> Iterator[tuple[list[str], list[str], int]]:
    """Yield (pixel fields of each letter, letters, fold) of each word."""
    pixels, letters, number, expected = [], [], 0, None
    for number, line in lines:
        match = OCR_LINE.fullmatch(line if line.endswith("\t") else line + "\t")
        if match is None:
            raise ValueError(
                f"{path}, line {number}: expected id, letter, next_id, word_id, position, fold and {N_PIXELS} pixels "
                f"of 0 or 1, separated by tabs; found {short(line)}"
            )
        identifier, letter, next_id, word, _, fold, row = match.groups()
        if expected is not None and (identifier, word, fold) != expected:
            raise ValueError(
                f"{path}, line {number}: expected (id, word_id, fold) {short(expected, 40)} inside a word, "
                f"found {short((identifier, word, fold), 40)}"
            )
        pixels.append(row)
        letters.append(letter)
        expected = (next_id, word, fold)
        if next_id == "-1":
            yield pixels, letters, int(fold)
            pixels, letters, expected = [], [], None
    if letters:
        raise ValueError(f"{path}, line {number}: the last word has no end (next_id -1)")

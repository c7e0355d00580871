"""Punctuation prediction: the file format, and labels that turn punctuated stretches into segments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Literal, Unpack, overload

from sklearn.utils import Bunch

from .._validation._messages import short
from ._files import read_words
from ._lines import MAX_LINE, FileOptions

OUTSIDE = "O"
MARKS = {",", ".", "?", "!"}


@overload
def load_punctuation(
    path: str | PathLike, *, encode: bool = False, return_X_y: Literal[True], **options: Unpack[FileOptions]
) -> tuple[list[list[str]], list[list[str]]]: ...
@overload
def load_punctuation(
    path: str | PathLike, *, encode: bool = False, return_X_y: Literal[False] = False, **options: Unpack[FileOptions]
) -> Bunch: ...
def load_punctuation(
    path: str | PathLike,
    *,
    encode: bool = False,
    max_bytes: int | None = None,
    max_line: int = MAX_LINE,
    return_X_y: bool = False,
) -> Bunch | tuple[list[list[str]], list[list[str]]]:
    """Load movie dialogues without punctuation; a word's label is the mark that follows it.

    The data of Cuong, Ye, Lee and Chieu (JMLR 15, 2014, section 3.4): one ``word label`` a line, an empty line after
    each sequence. Labels are ``,`` ``.`` ``?`` ``!``, and ``O`` for none.

    Parameters
    ----------
    path : str or path-like
        ``punc.tr`` or ``punc.ts`` of their HOSemiCRF release, plain or gzipped.
    encode : bool, default=False
        Rewrite the labels with :func:`encode_punctuation`, as the published models were trained.
    max_bytes : int, default=None
        Largest size of the text in bytes, after decompression. By default 2**30, and for a gzip file at most 128 times
        its own size (at least 2**20). Beyond this ratio a small file is not data, but would fill the memory.
    max_line : int, default=2**20
        Largest number of characters in a line.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        With ``data``, the words, and ``target``, the labels: lists of lists of str.

    Raises
    ------
    ValueError
        If a line does not have two columns, is not UTF-8, or is too long; if the file is too large, is damaged, or has
        no sequence; if a label is unknown and ``encode`` is set.

    See Also
    --------
    decode_punctuation : Give encoded labels, true or predicted, their plain form for scoring.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_punctuation
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "punc.tr")
    ...     _ = path.write_text("right O\\njoey ,\\nbe O\\nnice .\\n\\n")
    ...     X, y = load_punctuation(path, encode=True, return_X_y=True)
    >>> X, y
    ([['right', 'joey', 'be', 'nice']], [['O-,', ',', 'O-.', '.']])
    """
    complaint = (lambda fields: _complaint(fields[1])) if encode else None
    X, y = read_words(path, complaint=complaint, max_bytes=max_bytes, max_line=max_line)
    if encode:
        y = encode_punctuation(y)
    return (X, y) if return_X_y else Bunch(data=X, target=y)


def encode_punctuation(y: Iterable[Sequence[str]]) -> list[list[str]]:
    """Add the mark at the end of each punctuated stretch to the label of its first word.

    For each word with a mark m, ``-m`` is appended to the label of the first word of its stretch: the word itself and
    all words without a mark directly before it. A label pattern can then reach from the first word to the mark.

    Parameters
    ----------
    y : list of list of str
        Labels ``,`` ``.`` ``?`` ``!`` or ``O``.

    Returns
    -------
    encoded : list of list of str
        The rewritten labels; ``y`` is left as it is.

    Raises
    ------
    ValueError
        If there is any other label; the message names sequence and position.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import encode_punctuation
    >>> encode_punctuation([["O", "O", ",", "?"]])
    [['O-,', 'O', ',', '?-?']]
    """
    return [_encode_sequence(number, labels) for number, labels in enumerate(y)]


def _complaint(label: str) -> str:
    if label in MARKS or label == OUTSIDE:
        return ""
    return f"label {short(label)} is none of {sorted(MARKS)} or {OUTSIDE!r}"


def _encode_sequence(number: int, labels: Sequence[str]) -> list[str]:
    encoded = list(labels)
    first = 0  # of the current stretch
    for position, label in enumerate(labels):
        if label in MARKS:
            encoded[first] += f"-{label}"
            first = position + 1
        elif label != OUTSIDE:
            raise ValueError(f"sequence {number}, position {position}: {_complaint(label)}")
    return encoded


def decode_punctuation(y: Iterable[Sequence[str]]) -> list[list[str]]:
    """Undo :func:`encode_punctuation`, also for predicted labels: drop everything from the last ``-`` on.

    Parameters
    ----------
    y : list of list of str
        Labels as :func:`encode_punctuation` writes them.

    Returns
    -------
    decoded : list of list of str
        Labels ``,`` ``.`` ``?`` ``!`` or ``O``.

    Examples
    --------
    >>> from sklearn_hocrf.datasets import decode_punctuation
    >>> decode_punctuation([["O-,", "O", ",", "?-?"]])
    [['O', 'O', ',', '?']]
    """
    return [[label.rpartition("-")[0] or label for label in labels] for labels in y]

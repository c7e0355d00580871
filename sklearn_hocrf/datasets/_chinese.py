"""Chinese sentences and their words: the treebank UD Chinese GSD."""

from __future__ import annotations

from os import PathLike
from typing import Literal, Unpack, overload

from sklearn.utils import Bunch

from .._validation._messages import short
from ._files import read_columns
from ._lines import MAX_LINE, FileOptions

ID, FORM, UPOS, N_COLUMNS = 0, 1, 3, 10
NO_LABEL = "_"  # the label of the tags "B" and "I" without a label


class _Options(FileOptions, total=False):
    scheme: str
    upos: bool
    max_word_length: int | None


@overload
def load_ud_chinese(
    path: str | PathLike, *, return_X_y: Literal[True], **options: Unpack[_Options]
) -> tuple[list[list[str]], list[list]]: ...
@overload
def load_ud_chinese(
    path: str | PathLike, *, return_X_y: Literal[False] = False, **options: Unpack[_Options]
) -> Bunch: ...
def load_ud_chinese(
    path: str | PathLike,
    *,
    scheme: str = "segments",
    upos: bool = False,
    max_word_length: int | None = None,
    max_bytes: int | None = None,
    max_line: int = MAX_LINE,
    return_X_y: bool = False,
) -> Bunch | tuple[list[list[str]], list[list]]:
    """Load Chinese sentences as characters, with their words as segments.

    Made for the treebank UD Chinese GSD (universaldependencies.org; Nivre et al., LREC 2016), in the CoNLL-U format:
    one word per line, in ten columns separated by tabs, and an empty line after each sentence.

    Parameters
    ----------
    path : str or path-like
        The file, plain or gzipped.
    scheme : {"segments", "bio"}, default="segments"
        Format of the target. "segments": (start, stop, label) for each word. "bio": a tag for each character, "B" for
        the first character of a word and "I" for the others; with parts of speech, "B-NOUN" and so on.
    upos : bool, default=False
        Whether the label of a word is its universal part of speech. Otherwise all words have the label "_", which
        means no label.
    max_word_length : int, default=None
        Sentences with a longer word are skipped.
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
        With ``data``, a list of sentences, each a list of characters; ``target``, a list of lists of segments or tags;
        ``words``, a list of lists of words.

    Raises
    ------
    ValueError
        If a line does not have ten columns, is not UTF-8 text, is too long, or is not a single word (but a multiword
        token or an empty node); if the file is too large or damaged, or if every sentence has a word that is too long.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn_hocrf.datasets import load_ud_chinese
    >>> rows = [("1", "美丽", "ADJ"), ("2", "的", "PART"), ("3", "海滩", "NOUN")]
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "train.conllu")
    ...     lines = [
    ...         f"{i}\\t{word}\\t{word}\\t{pos}" + 6 * "\\t_" + "\\n"
    ...         for i, word, pos in rows
    ...     ]
    ...     _ = path.write_text("".join(lines), encoding="utf-8")
    ...     X, y = load_ud_chinese(path, return_X_y=True)
    ...     _, tags = load_ud_chinese(path, scheme="bio", upos=True, return_X_y=True)
    >>> X
    [['美', '丽', '的', '海', '滩']]
    >>> y
    [[(0, 2, '_'), (2, 3, '_'), (3, 5, '_')]]
    >>> tags
    [['B-ADJ', 'I-ADJ', 'B-PART', 'B-NOUN', 'I-NOUN']]
    """
    if scheme not in ("segments", "bio"):
        raise ValueError(f"scheme must be 'segments' or 'bio', got {scheme!r}")
    sentences = read_columns(
        path,
        N_COLUMNS,
        separator="\t",
        comment="#",
        complaint=_complaint,
        max_bytes=max_bytes,
        max_line=max_line,
    )
    if max_word_length is not None:
        sentences = [sentence for sentence in sentences if max(len(row[FORM]) for row in sentence) <= max_word_length]
    if not sentences:
        raise ValueError(f"{path} contains no sentence with words of at most {max_word_length} characters")
    words = [[row[FORM] for row in sentence] for sentence in sentences]
    X = [list("".join(sentence)) for sentence in words]
    y = [_target(sentence, scheme, upos) for sentence in sentences]
    return (X, y) if return_X_y else Bunch(data=X, target=y, words=words)


def _complaint(row: list[str]) -> str:
    if row[ID].isdecimal() and row[FORM]:
        return ""
    return f"{short(row[ID], 40)} {short(row[FORM], 40)} is not a single word with an integer ID"


def _target(sentence: list[list[str]], scheme: str, upos: bool) -> list:
    """Return the segments or the tags of one sentence."""
    target: list = []
    start = 0
    for row in sentence:
        stop = start + len(row[FORM])
        if scheme == "segments":
            target.append((start, stop, row[UPOS] if upos else NO_LABEL))
        else:
            label = f"-{row[UPOS]}" if upos else ""
            target += [f"B{label}", *[f"I{label}"] * (stop - start - 1)]
        start = stop
    return target

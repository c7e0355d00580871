"""Texts as sequences of tokens with character offsets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._data.arrays import freeze
from .._data.checks import short

JOINERS = "\u200c\u200d"  # ZWNJ, as in Persian; ZWJ, as in Sinhala and Malayalam


class TokenizedText(Sequence):
    """A text that is split into a sequence of T tokens.

    Parameters
    ----------
    text : str
        The text.
    offsets : array-like of shape (T, 2)
        Start and stop of each token, in characters of `text`. Tokens must be in order, must not be empty, and must not
        overlap.

    Attributes
    ----------
    text : str
        The text.
    offsets : ndarray of shape (T, 2), int64, read-only
        Start and stop of each token, in characters of `text`.

    Raises
    ------
    TypeError
        If `text` is not a str, or if `offsets` does not contain integers.
    ValueError
        If `offsets` has another shape, or if tokens are out of order, are empty, overlap, or extend beyond the text.

    See Also
    --------
    tokenize : Split texts into tokens.

    Examples
    --------
    Tokens from another tool, such as spaCy's ``[(t.idx, t.idx + len(t)) for t in doc]``:

    >>> from sklearn_hocrf.text import TokenizedText
    >>> tokens = TokenizedText("don't go", [(0, 2), (2, 5), (6, 8)])
    >>> list(tokens), tokens[0], tokens[1:].offsets.tolist()
    (['do', "n't", 'go'], 'do', [[2, 5], [6, 8]])
    """

    __slots__ = ("_tokens", "offsets", "text")

    text: str
    offsets: np.ndarray

    def __init__(self, text: str, offsets: Any) -> None:
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, got {short(text)} ({type(text).__name__})")
        self.text = text
        self.offsets = _read_offsets(offsets, len(text))
        self._tokens = tuple(text[start:stop] for start, stop in self.offsets.tolist())

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, slice):
            return TokenizedText(self.text, self.offsets[item])
        return self._tokens[item]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenizedText):
            return NotImplemented
        return self.text == other.text and np.array_equal(self.offsets, other.offsets)

    def __hash__(self) -> int:
        return hash((self.text, self._tokens))

    def __reduce__(self) -> tuple:
        return TokenizedText, (self.text, self.offsets)

    def __repr__(self) -> str:
        return f"TokenizedText({short(self.text)}, {len(self)} tokens)"


def _read_offsets(offsets: Any, n_characters: int) -> np.ndarray:
    array = np.array(offsets)
    if array.size == 0:
        return freeze(np.empty((0, 2)), np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"offsets must be integers, got {short(offsets)}")
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"offsets must have shape (n_tokens, 2), got {array.shape}")
    previous = np.append(0, array[:-1, 1])
    wrong = (array[:, 0] < previous) | (array[:, 1] <= array[:, 0]) | (array[:, 1] > n_characters)
    if wrong.any():
        t = int(np.argmax(wrong))
        raise ValueError(
            f"offsets[{t}] is {tuple(array[t].tolist())}, but tokens must be in order, have characters, not overlap "
            f"and lie in the text, which has {n_characters} characters"
        )
    return freeze(array, np.int64)


def tokenize(texts: Iterable[str], pattern: str | Any | None = None) -> list[TokenizedText]:
    r"""Split texts into tokens with character offsets.

    Parameters
    ----------
    texts : iterable of str
        The texts.
    pattern : str, compiled pattern or None, default=None
        A regular expression (of :mod:`re` or the package regex) whose matches are the tokens. If None, tokens are runs
        of letters, digits and underscores, and single other characters, each with its combining marks. For tokens from
        another program, see :class:`TokenizedText`.

    Returns
    -------
    tokenized : list of TokenizedText
        One object for each text. To make each line or sentence a sequence, pass the lines or sentences as texts.

    Raises
    ------
    TypeError
        If `texts` is a single str, or if an element is not a str.
    ValueError
        If a token is empty, or if the pattern is not a valid regular expression.

    See Also
    --------
    tags_from_spans : Labels of these tokens from annotated spans.

    Notes
    -----
    Combining marks, such as the vowel signs of Devanagari, the points of Hebrew or separate accents, belong to the
    character before them, and the joiners ZWJ and ZWNJ between letters belong to the word. For :mod:`re`, marks are not
    letters, so a custom pattern splits such words, unless it is a pattern of the package regex with ``[\w\p{M}]+``.

    Examples
    --------
    >>> from sklearn_hocrf.text import tokenize
    >>> tokens, nothing = tokenize(["Ann's hat.", " "])
    >>> list(tokens), list(nothing)
    (['Ann', "'", 's', 'hat', '.'], [])
    >>> tokens.offsets.tolist()
    [[0, 3], [3, 4], [4, 5], [6, 9], [9, 10]]
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts must be a list of texts, got a {type(texts).__name__}; for one text: [text]")
    own = None if pattern is None else _compiled(pattern)
    tokenized: list[TokenizedText] = []
    for n, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts[{n}] must be a str, got {short(text)} ({type(text).__name__})")
        offsets = [match.span() for match in (own or _word_pattern(_marks_in(text))).finditer(text)]
        if own is not None and any(start == stop for start, stop in offsets):
            raise ValueError(f"text {n}: the pattern {short(pattern)} matches an empty text, which is no token")
        tokenized.append(TokenizedText(text, offsets))
    return tokenized


def is_mark(character: str) -> bool:
    """Return whether a character is a combining mark, such as an accent, a vowel sign or a point."""
    return unicodedata.category(character)[0] == "M"


def _marks_in(text: str) -> str:
    """Return the distinct combining marks of a text, sorted."""
    return "" if text.isascii() else "".join(sorted(filter(is_mark, set(text))))


@lru_cache(maxsize=256)
def _word_pattern(marks: str) -> re.Pattern:
    """Return the pattern of tokens in texts with the given marks, because :mod:`re` defines no class for marks.

    A token is a run of letters, digits and underscores, or a single other character, with its marks.
    """
    if not marks:
        return re.compile(rf"\w(?:\w|[{JOINERS}](?=\w))*|[^\w\s]")
    return re.compile(rf"\w(?:[\w{marks}]|[{JOINERS}](?=[\w{marks}])|(?<=[{marks}])[{JOINERS}])*|[^\w\s][{marks}]*")


def _compiled(pattern: Any) -> Any:
    """Return the compiled regular expression, or raise an error."""
    if not isinstance(pattern, str):
        if hasattr(pattern, "finditer"):
            return pattern
        raise TypeError(f"pattern must be a regular expression, got {short(pattern)} ({type(pattern).__name__})")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern is not a regular expression: {error}") from error


def check_tokenized(tokenized: Any) -> list[TokenizedText]:
    """Return the result of :func:`tokenize` as a list, or raise an error."""
    if isinstance(tokenized, TokenizedText):
        raise TypeError("tokenized must be a list of TokenizedText, got a single one: pass [tokenized]")
    tokenized = list(tokenized)
    for n, tokens in enumerate(tokenized):
        if not isinstance(tokens, TokenizedText):
            raise TypeError(
                f"tokenized[{n}] must be a TokenizedText, as returned by tokenize, got {short(tokens)} "
                f"({type(tokens).__name__})"
            )
    return tokenized

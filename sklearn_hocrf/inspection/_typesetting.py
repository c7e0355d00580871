"""Pieces of text in lines, for plots."""

from __future__ import annotations

import unicodedata
from typing import Any, NamedTuple

from .._data.schemes import NO_LABEL
from .._data.texts import visible

__all__ = ["CAPTION", "COLUMNS", "Box", "Piece", "Typesetter"]

COLUMNS = 92  # characters of a line
CAPTION = 0.78  # size of captions, relative to the text


class Piece(NamedTuple):
    """Tokens of a sequence: a segment, or what lies between segments."""

    start: int
    stop: int
    label: Any = None  # None between segments
    probability: float | None = None
    edge: str = ""  # one of EDGES

    @property
    def caption(self) -> str:
        """Label and probability, for readers."""
        label = "" if self.label == NO_LABEL else visible(self.label)
        caption = label if self.probability is None else f"{label} {self.probability:.2f}".strip()
        return f"✗ {caption}" if self.edge == "wrong" else caption


class Box(NamedTuple):
    """A part of a piece that is on one line of a plot."""

    piece: Piece
    text: str
    caption: str
    left: float  # in characters
    right: float


class Typesetter:
    """Sets pieces into lines."""

    def __init__(self) -> None:
        self.lines: list[list[Box]] = [[]]
        self.at = 0.0

    def new_line(self) -> None:
        self.lines.append([])
        self.at = 0.0

    def add(self, piece: Piece, words: list[str], gaps: list[str]) -> None:
        """Set a piece: a box on each line that it is on."""
        caption = "" if piece.label is None else piece.caption
        if self.at and self.at + CAPTION * len(caption) > COLUMNS:
            self.new_line()
        left, text, gap = self.at, "", ""
        for word, after in zip(words, gaps, strict=True):
            word, after = _cut(visible(word)), _cut(" " if after.isspace() else visible(after))
            if self.at and self.at + _width(word) > COLUMNS:
                if text:
                    self._put(piece, text, caption, left)
                    caption = ""
                self.new_line()
                left, text, gap = 0.0, "", ""
            text, gap = text + gap + word, after
            self.at = left + _width(text + gap)
        self._put(piece, text, caption, left)
        self.at = self.lines[-1][-1].right + max(_width(gap), 0.4)

    def _put(self, piece: Piece, text: str, caption: str, left: float) -> None:
        right = left + max(_width(text), CAPTION * len(caption))
        self.lines[-1].append(Box(piece, text, caption, left, right))


def _width(text: str) -> int:
    """Return the width of a text in a font of fixed width; Chinese characters and the like take two places."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _cut(text: str) -> str:
    """Return a text that is not longer than half a line."""
    return text if len(text) <= COLUMNS // 2 else f"{text[: COLUMNS // 2 - 1]}…"

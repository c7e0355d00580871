"""Shared code of tables and displays: escaped text, colours, tables.

Notebooks show HTML on a light or dark background. The HTML contains only inline styles and no scripts; plain text has
the notebook's colour, and text on a coloured background is black.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.columns import TokenColumn
from .._data.messages import escaped, visible
from .._reading.schemes import OUTSIDE

# Paul Tol's "light" scheme (https://personal.sron.nl/~pault): backgrounds for black text that can be distinguished with
# any kind of colour vision; the second blue comes last
COLORS = ["#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#44BB99", "#BBCC33", "#AAAA00", "#99DDFF"]
TINTS = ["#BBD4EE", "#F6C3B2", "#F6EEC3", "#FFD4DD", "#A1DDCC", "#DDE599", "#D4D47F", "#CCEEFF"]  # mixed with white
GREY = "#DDDDDD"
EDGES = {  # line style, and colours that are visible on black and on white: a chip is correct, wrong, or missing
    "": ("solid", "transparent"),
    "wrong": ("dashed", "#D55E00"),
    "missed": ("dotted", "#808080"),
}
_MOST_ROWS = 60  # shown in a table


def color_map(labels: Iterable) -> dict:
    """Return a colour for each label: eight colours, then their tints, repeated if necessary; grey for "O"."""
    colors = itertools.cycle([*COLORS, *TINTS])
    return {label: GREY if label == OUTSIDE else next(colors) for label in dict.fromkeys(labels)}


def chip(text: str, caption: str, color: str, edge: str = "") -> str:
    """Return text on a coloured background with a small caption, as HTML; ``edge`` is one of ``EDGES``."""
    line, line_color = EDGES[edge]
    style = (
        f"background:{color};color:#000;border:2px {line} {line_color};border-radius:.4em;padding:.1em .3em;"
        "-webkit-box-decoration-break:clone;box-decoration-break:clone"
    )
    small = "font-size:.75em;font-weight:600;white-space:nowrap"
    after = f'&nbsp;<bdi style="{small}">{escaped(caption)}</bdi>' if caption else ""  # no line break before a caption
    return f'<span style="{style}"><span style="unicode-bidi:plaintext">{escaped(text)}</span>{after}</span>'


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]], alignments: Iterable[str]) -> str:
    """Return a table as HTML; the cells are HTML, and their alignments are "start", "right" or "center"."""
    styles = [f"padding:.15em .6em;text-align:{alignment};vertical-align:top" for alignment in alignments]
    header = "".join(f'<th style="{style}">{cell}</th>' for style, cell in zip(styles, head, strict=True))
    body = ""
    for row in rows:
        cells = (f'<td dir="auto" style="{style}">{cell}</td>' for style, cell in zip(styles, row, strict=True))
        body += f"<tr>{''.join(cells)}</tr>"
    return f'<table style="border-collapse:collapse"><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>'


class Table(list):
    """A list of named tuples that is shown as a table.

    A table is an ordinary list, which ``pandas.DataFrame`` converts to a data frame.

    Parameters
    ----------
    row_type : type of named tuple
        Type of the rows; its fields are the columns.
    rows : iterable of named tuples
        The rows, all of that type.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from sklearn_hocrf.inspection._display import Table
    >>> class Price(NamedTuple):
    ...     fruit: str
    ...     price: float
    >>> table = Table(Price, [Price("apple", 1 / 3), Price("pear", 2.0)])
    >>> table
    fruit  price
    apple  0.333
    pear   2.000
    >>> table[0].price < table[1].price
    True
    """

    def __init__(self, row_type: Any, rows: Iterable = ()) -> None:
        super().__init__(rows)
        self.row_type, self.columns = row_type, row_type._fields

    def __getitem__(self, key: Any) -> Any:
        rows = super().__getitem__(key)
        return Table(self.row_type, rows) if isinstance(key, slice) else rows

    def __repr__(self) -> str:
        cells = [tuple(map(visible, self.columns)), *(tuple(map(_cell, row)) for row in self[:_MOST_ROWS])]
        columns = zip(self._numeric(), zip(*cells, strict=True), strict=True)
        forms = [f"{'>' if is_number else '<'}{max(map(len, column))}" for is_number, column in columns]
        lines = ["  ".join(map(format, row, forms)).rstrip() for row in cells]
        return "\n".join(lines + remaining(len(self) - _MOST_ROWS, "row"))

    def _repr_html_(self) -> str:
        rows = ([escaped(_cell(value)) for value in row] for row in self[:_MOST_ROWS])
        alignments = ["right" if is_number else "start" for is_number in self._numeric()]
        rest = "".join(f"<div>{text}</div>" for text in remaining(len(self) - _MOST_ROWS, "row"))
        return html_table(map(escaped, self.columns), rows, alignments) + rest

    def _numeric(self) -> list[bool]:
        """Return, for each column, whether it contains only numbers."""
        columns = zip(*self, strict=True) if self else [()] * len(self.columns)
        return [bool(column) and all(isinstance(value, Real) for value in column) for column in columns]


def remaining(count: int, what: str) -> list[str]:
    """Return a list with one line, which counts the rows that are not shown; empty if all are shown."""
    return [f"... and {count} more {what}{'s' if count > 1 else ''}"] if count > 0 else []


def number(value: float) -> str:
    """Format a number with three decimals; use an exponent above a million, and for nonzero numbers that round to 0.

    Examples
    --------
    >>> from sklearn_hocrf.inspection._display import number
    >>> [number(value) for value in (0.0, 1e-5, 999.5, 1234567.0)]
    ['0.000', '1.0e-05', '999.500', '1.23e+06']
    """
    if 0 < abs(value) < 5e-4:
        return f"{value:.1e}"
    return f"{value:.3g}" if abs(value) >= 1e6 else f"{value:.3f}"


def _cell(value: Any) -> str:
    if isinstance(value, Integral):
        return short(int(value)) if not isinstance(value, bool) else str(value)
    if isinstance(value, Real):
        return number(float(value))
    if isinstance(value, tuple):
        return " ".join(map(visible, value))
    return "" if value is None else visible(value)


def texts_of(X: Iterable) -> list[list[str]]:
    """Return the tokens of each sequence as strings."""
    if isinstance(X, SequenceBatch):
        return _texts_of_batch(X)
    return [[_text_of(token, t) for t, token in enumerate(_tokens_of(x))] for x in X]


def _text_of(token: Any, position: int) -> str:
    """Return a string for a token: the token itself, its first field or attribute that is a string, or its position."""
    if isinstance(token, bytes):
        return token.decode("utf-8", "replace")
    has_fields = isinstance(token, (list, tuple))
    values = token.values() if isinstance(token, Mapping) else token if has_fields else [token]
    return next((value for value in values if isinstance(value, str)), str(position))


def _tokens_of(sequence: Any) -> Iterable:
    """Return the tokens of a sequence; the rows of a data frame become dicts."""
    if not hasattr(sequence, "columns"):
        return sequence
    return [dict(zip(sequence.columns, row, strict=True)) for row in np.asarray(sequence).tolist()]


def listed(X: Sized) -> Any:
    """Return X, converted to a list if it is an iterator, which can be read only once."""
    return list(X) if isinstance(X, Iterator) else X


def _texts_of_batch(batch: SequenceBatch) -> list[list[str]]:
    texts = [str(t) for length in batch.lengths.tolist() for t in range(length)]
    for column in [column for column in batch.columns.values() if isinstance(column, TokenColumn)][:1]:
        texts = [str(value) for value in column.values[column.codes]]
    return [texts[first:stop] for first, stop in itertools.pairwise(batch.offsets.tolist())]

"""What tables and displays show: texts as texts, colours, tables.

Notebooks show HTML on light or dark ground. What is written here has inline styles only and no scripts; it leaves the
colour of plain text to the notebook, and on coloured ground it writes in black.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

__all__ = ["COLORS", "EDGES", "NEGATIVE", "POSITIVE", "Table", "chip", "color_map", "escaped", "token_text", "visible"]

# Paul Tol's "light" scheme (https://personal.sron.nl/~pault): grounds for black text that are told apart with any
# kind of colour vision
COLORS = ["#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#99DDFF", "#44BB99", "#BBCC33", "#AAAA00", "#DDDDDD"]
POSITIVE, NEGATIVE = COLORS[0], COLORS[1]
EDGES = {  # line style, and colours that are seen on black and on white: a chip is right, wrong, or was not found
    "": ("solid", "transparent"),
    "wrong": ("dashed", "#D55E00"),
    "missed": ("dotted", "#808080"),
}
_JOINERS = "\u200c\u200d"  # invisible, but letters of Persian and parts of emoji depend on them


def visible(text: Any) -> str:
    r"""Return a text in which nothing is hidden: control characters, such as those that turn text round, as escapes.

    Examples
    --------
    >>> from sklearn_hocrf._display import visible
    >>> print(visible("a\n\u202eb"))
    a\n\u202eb
    """
    text = str(text)
    if text.isprintable():
        return text
    kept = (c if c.isprintable() or c in _JOINERS else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(kept)


def escaped(text: Any) -> str:
    """Return a text for HTML.

    Examples
    --------
    >>> from sklearn_hocrf._display import escaped
    >>> escaped("<script>")
    '&lt;script&gt;'
    """
    return html.escape(visible(text))


def color_map(labels: Iterable) -> dict:
    """Return the colour of each label, in their order; they repeat after nine."""
    return {label: COLORS[i % len(COLORS)] for i, label in enumerate(dict.fromkeys(labels))}


def chip(text: str, caption: str, color: str, edge: str = "") -> str:
    """Return a text on coloured ground with a small caption, as HTML; ``edge`` is one of ``EDGES``."""
    line, line_color = EDGES[edge]
    style = (
        f"background:{color};color:#000;border:2px {line} {line_color};border-radius:.4em;padding:.1em .3em;"
        "-webkit-box-decoration-break:clone;box-decoration-break:clone"
    )
    return (
        f'<span style="{style}"><span style="unicode-bidi:plaintext">{escaped(text)}</span> '
        f'<bdi style="font-size:.75em;font-weight:600;white-space:nowrap">{escaped(caption)}</bdi></span>'
    )


class Table(list):
    """A list of named tuples that shows as a table.

    It is a list in every way. ``pandas.DataFrame(table, columns=table.columns)`` makes a data frame of it; the columns
    need to be named only where there may be no rows.

    Parameters
    ----------
    row_type : type of named tuple
        That of the rows; its fields are the columns.
    rows : iterable of named tuples

    Attributes
    ----------
    columns : tuple of str
        Names of the columns.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from sklearn_hocrf.inspection import Table
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
        self.row_type = row_type

    @property
    def columns(self) -> tuple[str, ...]:
        return self.row_type._fields

    def __getitem__(self, key: Any) -> Any:
        rows = super().__getitem__(key)
        return Table(self.row_type, rows) if isinstance(key, slice) else rows

    def __reduce__(self) -> tuple:
        return Table, (self.row_type, list(self))

    def __repr__(self) -> str:
        cells = [self.columns, *(tuple(map(_cell, row)) for row in self)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        is_number = self._numeric()
        lines = (
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, is_number, strict=True)
            )
            for row in cells
        )
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        is_number = self._numeric()
        style = "padding:.15em .6em;text-align:{};vertical-align:top"
        styles = [style.format("right" if right else "start") for right in is_number]
        head = "".join(f'<th style="{s}">{escaped(c)}</th>' for s, c in zip(styles, self.columns, strict=True))
        body = "".join(
            "<tr>"
            + "".join(
                f'<td dir="auto" style="{s}">{escaped(_cell(value))}</td>' for s, value in zip(styles, row, strict=True)
            )
            + "</tr>"
            for row in self
        )
        return f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

    def _numeric(self) -> list[bool]:
        """Tell which columns have numbers only."""
        columns = zip(*self, strict=True) if self else [()] * len(self.columns)
        return [bool(column) and all(isinstance(value, Real) for value in column) for column in columns]


def _cell(value: Any) -> str:
    if isinstance(value, Real) and not isinstance(value, int):
        return f"{float(value):.3f}"
    if isinstance(value, tuple):
        return " ".join(map(visible, value))
    return "" if value is None else visible(value)


def token_text(token: Any, position: int, field: Any = None) -> str:
    """Return what a token is shown as.

    Parameters
    ----------
    token : text, mapping of fields, list of attributes, or numbers
    position : int
        What stands for tokens that have no text, such as arrays of numbers.
    field : object or None
        Which field of the token, or which of its attributes; None stands for the first that is a text.
    """
    if isinstance(token, str):
        return token
    if isinstance(token, bytes):
        return token.decode("utf-8", "replace")
    if isinstance(token, Mapping):
        if field is not None:
            return str(token[field])
        return next((value for value in token.values() if isinstance(value, str)), str(position))
    if isinstance(token, (list, tuple)):
        if field is not None:
            return str(token[field])
        return next((value for value in token if isinstance(value, str)), str(position))
    return str(position)

"""Shared functions that check settings, and that represent values in messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from . import SITE

GUIDE = f"{SITE}/guide"  # for messages, because wheels do not contain the pages
NAMES_ELSEWHERE = "IOBES is 'bioes', IOB2 'bio', IOB 'iob1'"  # of schemes


def short(value, limit=60) -> str:
    """Return the repr of a value, cut to ``limit`` characters, without building a much longer one.

    Examples
    --------
    >>> from sklearn_hocrf._data.checks import short
    >>> short("a" * 100, limit=10), short({"c", "a", "b"})
    ("'aaaaaa...", "{'a', 'b', 'c'}")
    """
    if isinstance(value, (str, bytes)):
        value = value[: limit + 1]
    elif isinstance(value, int) and value.bit_length() > 10_000:
        return f"an integer of {value.bit_length()} bits"  # Python prints no integers of more than 4300 digits
    try:
        text = _sorted_text(value) if isinstance(value, (set, frozenset)) and value else repr(value)
    except Exception as error:  # a user-defined class, or a very long number deep in a list
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _sorted_text(members) -> str:
    """Return the repr of a set in an order that does not depend on the hash seed."""
    text = f"{{{', '.join(sorted(map(repr, members)))}}}"
    return text if isinstance(members, set) else f"frozenset({text})"


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise a ValueError unless a setting has one of the possible values."""
    if not isinstance(value, str) or value not in choices:
        elsewhere = f" ({NAMES_ELSEWHERE})" if "bioes" in choices else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {short(value)}{elsewhere}")


def refuse_iterator(value: Any, what: str) -> None:
    """Raise a ValueError for an iterator, which would be empty in a second fit."""
    if isinstance(value, Iterator):
        raise ValueError(f"{what} a {type(value).__name__}, which can be read only once: use a list")


_LONGEST = 80  # characters of a value in a message


def is_number(value: Any) -> bool:
    """Return whether a setting is a real number other than nan."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) and value == value


def is_integer(value: Any) -> bool:
    """Return whether a setting is an integer."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check(valid: bool, name: str, expected: str, value: Any) -> None:
    """Raise a ValueError about a setting unless it is valid."""
    if not valid:
        text = repr(value)
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        raise ValueError(f"{name} must be {expected}, got {text}")

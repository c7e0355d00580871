"""Docstring entries that several classes or functions share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["share_docstring"]

_Documented = TypeVar("_Documented")

# names and type; indented text
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : .*\n(?:(?:    .*)?\n)*(?:    .*\n?)", re.MULTILINE)


def share_docstring(source: Any) -> Callable[[_Documented], _Documented]:
    """Return a decorator that copies entries of the docstring of ``source``, a class or a function.

    A line ``one, other : as in :class:`Source``` of the decorated object is replaced by the entries of these names. At
    run time, its docstring is complete; the source text refers to ``source``.

    Examples
    --------
    >>> class Circle:
    ...     '''A circle.
    ...
    ...     Parameters
    ...     ----------
    ...     radius : float
    ...         In metres.
    ...     '''
    >>> @share_docstring(Circle)
    ... class Cylinder:
    ...     '''A cylinder.
    ...
    ...     Parameters
    ...     ----------
    ...     radius : as in :class:`Circle`
    ...     height : float
    ...         In metres, too.
    ...     '''
    >>> print(Cylinder.__doc__)
    A cylinder.
    <BLANKLINE>
    Parameters
    ----------
    radius : float
        In metres.
    height : float
        In metres, too.
    """
    all_entries = _ENTRY.finditer(inspect.getdoc(source) or "")
    entries = {name: match[0].rstrip() for match in all_entries for name in match[1].split(", ")}

    def decorate(documented: _Documented) -> _Documented:
        if documented.__doc__ is not None:  # python -OO strips docstrings
            shared = rf"^([\w, ]+) : as in :\w+:`{source.__name__}`$"
            text = inspect.cleandoc(documented.__doc__)
            documented.__doc__ = re.sub(shared, replace, text, flags=re.MULTILINE)
        return documented

    def replace(match: re.Match) -> str:
        return "\n".join(dict.fromkeys(entries[name] for name in match[1].split(", ")))  # one entry may have two names

    return decorate

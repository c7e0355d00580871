"""Docstring entries that several estimators share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

__all__ = ["share_docstring"]

_Class = TypeVar("_Class", bound=type)

_ENTRY = re.compile(r"^(\w+) : .*\n(?:(?:    .*)?\n)*(?:    .*\n?)", re.MULTILINE)  # name, type; indented text


def share_docstring(source: type) -> Callable[[_Class], _Class]:
    """Return a class decorator that copies entries of the docstring of ``source``.

    A line ``one, other : as in :class:`Source``` of the decorated class is replaced by the entries of these names. At
    run time, the docstring of the class is complete; the source text refers to ``source``.

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
    entries = {match[1]: match[0].rstrip() for match in _ENTRY.finditer(inspect.getdoc(source) or "")}

    def decorate(cls: _Class) -> _Class:
        if cls.__doc__ is not None:  # python -OO strips docstrings
            shared = rf"^([\w, ]+) : as in :class:`{source.__name__}`$"
            text = inspect.cleandoc(cls.__doc__)
            cls.__doc__ = re.sub(shared, replace, text, flags=re.MULTILINE)
        return cls

    def replace(match: re.Match) -> str:
        return "\n".join(entries[name] for name in match[1].split(", "))

    return decorate

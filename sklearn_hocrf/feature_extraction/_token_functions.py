"""Functions of the text of one token, named by strings.

Those with names are written in ``tagger``, which may import nothing of this package. They are called once per distinct
text, not once per token, so plain Python is fast enough. A function returns a str (one attribute per distinct value), a
number (a real-valued attribute), a bool (an indicator) or None (no attribute).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .._validation import warn_user
from ..tagger import FUNCTIONS, named_function

__all__ = ["affix_names", "as_function", "is_token_function", "named_functions", "token_function", "warn_if_local"]


def affix_names(longest: int) -> list[str]:
    """Return the names of the functions for prefixes and suffixes of 1 to ``longest`` characters."""
    return [f"{kind}{length}" for kind in ("prefix", "suffix") for length in range(1, longest + 1)]


def is_token_function(name) -> bool:
    """Return whether ``name`` is the name of a token function."""
    return isinstance(name, str) and named_function(name) is not None


def token_function(name: str) -> Callable:
    """Return the picklable function called ``name``."""
    function = named_function(name) if isinstance(name, str) else None
    if function is None:
        names = ", ".join([*FUNCTIONS, "prefixN", "suffixN"])
        raise ValueError(f"token_features: unknown token function {name!r}; use one of {names}, or a callable")
    return function


def as_function(function: Callable | str) -> Callable:
    """Return a token function given by itself or by name; fitted objects hold names: ``str.lower`` cannot be saved."""
    return token_function(function) if isinstance(function, str) else function


def warn_if_local(function, what) -> None:
    """Warn if a user-defined function cannot be pickled; ``what`` names the parameter that holds it."""
    function = getattr(function, "func", function)  # of a functools.partial
    if "<" in getattr(function, "__qualname__", ""):  # <lambda>, <locals>
        warn_user(
            f"{what} is a lambda or a local function: the fitted transformer cannot be pickled or saved; "
            "define it with def at the top of a module"
        )


def named_functions(token_features, default_field) -> dict:
    """Return {name: (field, function or its name)} of the token features; the field may be ``default_field``."""
    if isinstance(token_features, str) or not np.iterable(token_features):
        raise TypeError(
            f"token_features must be 'auto', None, a list of functions or a dict of them, got {token_features!r}"
        )
    if isinstance(token_features, Mapping):
        return {name: _field_and_function(spec, default_field)[:2] for name, spec in token_features.items()}
    named = {}
    for spec in token_features:
        field, function, name = _field_and_function(spec, default_field)
        if isinstance(spec, (tuple, list)):
            name = f"{name}({field})"
        if name in named:
            raise ValueError(
                f"token_features: two functions have the name {name!r}; name them in a dict {{name: function}}"
            )
        named[name] = field, function
    return named


def _field_and_function(spec, default_field):
    field, function = default_field, spec
    if isinstance(spec, (tuple, list)):
        if len(spec) != 2:
            raise ValueError(f"token_features: {spec!r} must be a function, or a pair of a field and a function")
        field, function = spec
    elif default_field is None:
        raise ValueError(f"token_features: no field holds text; specify the field of {spec!r}: (field, {spec!r})")
    if isinstance(function, str):
        token_function(function)  # raises if the name is unknown
        return field, function, function
    if not callable(function):
        raise TypeError(f"token_features: {function!r} must be a callable or the name of a token function")
    return field, function, getattr(function, "__name__", type(function).__name__)

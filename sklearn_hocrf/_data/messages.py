"""What users are told: warnings with the place of their call."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import ismethod, isroutine
from re import Pattern
from typing import Any

import numpy as np

from .checks import short

_is_quiet = ContextVar("_is_quiet", default=False)
_PASSED_OVER = {"sklearn_hocrf", "sklearn", "joblib"}  # pipelines and searches call us on behalf of the user, too


@contextmanager
def unwarned() -> Iterator[None]:
    """Keep :func:`warn_user` from warning; unlike filters of warnings, this concerns the own thread alone."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def warn_user(message, category: type[Warning] = UserWarning) -> None:
    """Warn on behalf of the innermost caller outside this package, scikit-learn and joblib.

    A constant ``stacklevel`` would count functions of this package, and become wrong as soon as one of them is split;
    ``skip_file_prefixes`` needs Python 3.12.

    Parameters
    ----------
    message : str
        Text of the warning.
    category : type of Warning, default=UserWarning
        Kind of the warning.

    Examples
    --------
    >>> import warnings
    >>> from sklearn_hocrf._data.messages import warn_user
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("the labels look like BIO tags")
    >>> str(caught[0].message)
    'the labels look like BIO tags'
    """
    if _is_quiet.get():
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_unless_saved(function: Any, what: str) -> None:
    """Warn if a user-defined function cannot be saved and loaded; ``what`` names the parameter that holds it."""
    named = getattr(function, "normalize", function)  # of phrases
    if "<" in getattr(getattr(named, "func", named), "__qualname__", ""):  # <lambda>, <locals>; also of a partial
        warn_user(
            f"{what} is a lambda or a local function: what is fitted with it cannot be pickled or saved; define it "
            "with def at the top of a module"
        )
    elif not loads_again(function):
        warn_user(
            f"{what} is {short(function)}, which does not load from a file of skops, nor does what is fitted with it; "
            "define a function with def at the top of a module"
        )


def loads_again(thing: Any) -> bool:
    """Return whether a function, or an object that holds some, loads from a file of skops, which writes names.

    Examples
    --------
    >>> from sklearn_hocrf._data.messages import loads_again
    >>> loads_again(len), loads_again(str.isupper), loads_again({}.get)
    (True, False, False)
    """
    if isinstance(thing, partial):
        return all(map(loads_again, (thing.func, *thing.args, *thing.keywords.values())))
    if isinstance(thing, Pattern) or hasattr(thing, "cache_info"):  # the latter of functools.lru_cache
        return False
    is_bound = ismethod(thing)
    if not is_bound and (isroutine(thing) or isinstance(thing, (type, np.ufunc))):
        module = sys.modules.get(getattr(thing, "__module__", None) or "")
        return getattr(module, thing.__name__, None) is thing
    owner = thing.__self__ if is_bound else thing
    if isinstance(owner, type) or not (is_bound or callable(thing)):
        return not is_bound  # a method of a class; or no function
    return loads_again(type(owner)) and all(map(loads_again, getattr(owner, "__dict__", {}).values()))

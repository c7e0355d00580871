"""Shared code of settings: objects that consist of them, their text, and checks."""

from __future__ import annotations

from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any

import numpy as np

_LONGEST = 80  # characters of a value in a message
_MANY = 8  # numbers of an array that are printed in full


class Settings:
    """Base class of objects that consist of settings: arguments of ``__init__`` that are stored as attributes.

    Examples
    --------
    >>> from sklearn_hocrf.training import SGD
    >>> SGD(), SGD(batch_size=4)
    (SGD(), SGD(batch_size=4))
    """

    def __repr__(self) -> str:
        """Return the call that makes this object, without default settings."""
        shown = []
        for name, parameter in signature(type(self)).parameters.items():
            named = parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
            if named and hasattr(self, name):
                value, default = _plain_value(getattr(self, name)), _plain_value(parameter.default)
                if type(value) is not type(default) or not np.array_equal(value, default):
                    shown.append(f"{name}={_parameter_text(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def is_number(value: Any) -> bool:
    """Return whether a setting is a real number; nan is not."""
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


def _plain_value(value: Any) -> Any:
    """Convert numpy numbers to Python numbers."""
    single = isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.shape == (1,))
    return value.item() if single else value


def _parameter_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array({np.array2string(value, separator=', ', threshold=_MANY)})"
    # the repr of a method or a partial may contain whatever it is bound to
    return getattr(value, "__qualname__", None) or repr(value)

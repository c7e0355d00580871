"""All private names of scikit-learn that the package uses: if they change, only this file must be adapted.

Also its decorators, with the type hints that they lack: decorated functions keep their types.
"""

from collections.abc import Callable
from copy import copy
from numbers import Integral
from typing import Any, TypeVar

from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils._param_validation import Options as _Options
from sklearn.utils.metaestimators import available_if as _available_if
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _get_feature_names as get_feature_names

from .._data.checks import NAMES_ELSEWHERE

# of scikit-learn's own, as they are
__all__ = ["HasMethods", "Interval", "check_method_params", "get_feature_names", "safe_indexing"]

_Method = TypeVar("_Method", bound=Callable)
N_JOBS = [Interval(Integral, None, -1, closed="right"), Interval(Integral, 1, None, closed="left"), None]


class Options(_Options):
    """Some values of a type; messages list them sorted, because their order would depend on the hash seed."""

    def __str__(self) -> str:
        listed = copy(self)
        listed.options = sorted(self.options)
        elsewhere = f" ({NAMES_ELSEWHERE})" if "bioes" in self.options else ""
        return _Options.__str__(listed) + elsewhere


class StrOptions(Options):
    """Some strings."""

    def __init__(self, options: set[str]) -> None:
        super().__init__(str, options)


def check_declared(estimator: Any) -> None:
    """Raise an error for a parameter that ``_parameter_constraints`` of an estimator does not allow."""
    estimator._validate_params()


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
    """Return the decorator of methods that fit."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


def available_if(check: Callable[[Any], Any]) -> Callable[[_Method], _Method]:
    """Return the decorator of methods that only some estimators have."""
    return _available_if(check)

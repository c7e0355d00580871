"""All private names of scikit-learn that the package uses; if they change, only this file must change.

The module also adds type hints to scikit-learn's decorators, so that decorated functions keep their types, and contains
the code for callbacks (scikit-learn 1.9 or later) that all estimators and transformers share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import wraps
from numbers import Integral
from typing import Any, Self, TypeVar

import sklearn
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils._param_validation import Options as _Options
from sklearn.utils.metaestimators import available_if as _available_if
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _get_feature_names as get_feature_names

from .._data.checks import NAMES_ELSEWHERE

# from scikit-learn, unchanged
__all__ = ["HasMethods", "Interval", "check_method_params", "get_feature_names", "safe_indexing"]

_Method = TypeVar("_Method", bound=Callable)
N_JOBS = [Interval(Integral, None, -1, closed="right"), Interval(Integral, 1, None, closed="left"), None]


class Options(_Options):
    """The allowed values of a type; messages sort them, because their order depends on the hash seed."""

    def __str__(self) -> str:
        listed = copy(self)
        listed.options = sorted(self.options)
        elsewhere = f" ({NAMES_ELSEWHERE})" if "bioes" in self.options else ""
        return _Options.__str__(listed) + elsewhere


class StrOptions(Options):
    """The allowed strings."""

    def __init__(self, options: set[str]) -> None:
        super().__init__(str, options)


def check_declared(estimator: BaseEstimator) -> None:
    """Raise an error for a parameter that an estimator's ``_parameter_constraints`` do not allow."""
    estimator._validate_params()


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
    """Return scikit-learn's decorator for methods that fit."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


def available_if(check: Callable[[Any], Any]) -> Callable[[_Method], _Method]:
    """Return scikit-learn's decorator for conditional methods; errors of ``check`` become the cause of
    AttributeErrors."""
    return _available_if(check)


try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn < 1.9
    CallbackSupportMixin = object

_OF_TASKS = ("_callback_fit_ctx", "_parent_callback_ctx", "_skl_callbacks_to_teardown")  # scikit-learn sets them in fit


class CallbacksMixin(CallbackSupportMixin):
    """Mixin with the method ``set_callbacks`` of estimators and transformers."""

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set the callbacks of :meth:`fit`; without arguments, remove them.

        Callbacks require scikit-learn 1.9 or later. :mod:`sklearn.callback` contains callbacks; its progress bar
        requires rich: ``pip install 'sklearn_hocrf[progress]'``. Estimators also accept
        :class:`~sklearn_hocrf.training.EarlyStopping`.

        Parameters
        ----------
        *callbacks : objects with the methods of :class:`sklearn.callback.FitCallback`
            Callbacks are called when `fit` begins and ends and, for an estimator, after each iteration. If one returns
            True after an iteration, training stops; otherwise, callbacks do not change the result.

        Returns
        -------
        self : object

        Raises
        ------
        ImportError
            If scikit-learn is older than 1.9.
        TypeError
            If an argument is not a callback.
        """
        if CallbackSupportMixin is object:
            version = sklearn.__version__
            raise ImportError(f"set_callbacks needs scikit-learn >= 1.9, but this is scikit-learn {version}")
        return super().set_callbacks(*callbacks)


def without_tasks(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an estimator without the attributes that scikit-learn sets during a fit."""
    return {name: value for name, value in state.items() if name not in _OF_TASKS}


def fit_task(fit: Callable) -> Callable:
    """Decorate the method that fits a transformer, so that callbacks receive the fit as one task without subtasks."""

    @wraps(fit)
    def fit_with_task(self, X, *y):
        if not getattr(self, "_skl_callbacks", None):
            return fit(self, X, *y)
        arguments = {"estimator": self, "X": X, "y": y[0] if y else None}
        task = self._init_callback_context()
        task.call_on_fit_task_begin(**arguments)
        result = fit(self, X, *y)
        task.call_on_fit_task_end(**arguments, reconstruction_attributes={})
        return result

    return fit_with_task

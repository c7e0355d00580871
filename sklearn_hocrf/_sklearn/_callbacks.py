"""Callbacks of scikit-learn (1.9 or later): code shared by all estimators and transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Self

import sklearn

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:  # scikit-learn < 1.9
    CallbackSupportMixin = object

_OF_TASKS = ("_callback_fit_ctx", "_parent_callback_ctx", "_skl_callbacks_to_teardown")  # scikit-learn sets them in fit


class CallbacksMixin(CallbackSupportMixin):
    """``set_callbacks`` of the estimators."""

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set the callbacks of :meth:`fit`; without any, remove them.

        Needs scikit-learn 1.9 or later. See :class:`~sklearn_hocrf.training.EarlyStopping`, and
        :mod:`sklearn.callback`, whose progress bar needs rich: ``pip install 'sklearn_hocrf[progress]'``.

        Parameters
        ----------
        *callbacks : objects with the methods of :class:`sklearn.callback.FitCallback`
            Called when fit begins and ends, and after each iteration. Training stops if one returns True after an
            iteration; otherwise callbacks do not change the result.

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
    """Decorate the method that fits a transformer: callbacks have one task for it, without subtasks."""

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

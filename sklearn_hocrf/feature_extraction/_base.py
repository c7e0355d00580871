"""Base class of the transformers."""

from __future__ import annotations

from sklearn.base import BaseEstimator, TransformerMixin

from .._persistence import VersionMixin
from .._validation._callbacks import CallbacksMixin, fit_task

__all__ = ["SequenceTransformer", "fit_task"]


class SequenceTransformer(VersionMixin, CallbacksMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers, whose output is a batch and no table that could be a data frame."""

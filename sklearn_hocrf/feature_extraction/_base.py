"""Base class of the transformers."""

from __future__ import annotations

from typing import Self

from sklearn.base import BaseEstimator, TransformerMixin

from .._data.checks import short
from .._persistence import VersionMixin
from .._validation._callbacks import CallbacksMixin, fit_task

__all__ = ["SequenceTransformer", "fit_task"]


class SequenceTransformer(VersionMixin, CallbacksMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers, whose output is a batch and no table that could be a data frame."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Refuse data frames as output, which cannot hold sequences.

        Parameters
        ----------
        transform : {"default"} or None, default=None
            Neither changes anything.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the output is to be a data frame.
        """
        if transform in (None, "default"):
            return self
        raise ValueError(
            f"{type(self).__name__} returns a SequenceBatch, which set_output(transform={short(transform)}) cannot "
            "turn into a data frame: leave it out; toarray() of the batch is a table of all tokens, with the columns "
            "get_feature_names_out()"
        )

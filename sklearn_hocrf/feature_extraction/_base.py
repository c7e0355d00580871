"""Base class of the transformers."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._data.batch import SequenceBatch
from .._sklearn._callbacks import CallbacksMixin, fit_task
from .._sklearn.names import fit_context
from .._sklearn.versions import VersionMixin

__all__ = ["CountingTransformer", "fit_task"]


class CountingTransformer(VersionMixin, CallbacksMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers, which learn by counting and can be fitted part by part; they return batches."""

    @abstractmethod
    def _count_partition(self, X, y) -> Any:
        """Return the counts of a part of the training sequences."""

    @abstractmethod
    def _finish(self, counts) -> None:
        """Set the fitted attributes."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit_partition(self, X: Any, y: Any = None) -> Any:
        """Count a part of the training sequences; see docs/guide/large_data.md.

        Parameters
        ----------
        X : list of sequences, or other form of n sequences
            As for `fit`.
        y : list of label sequences, default=None
            As for `fit`.

        Returns
        -------
        counts : object
            Input of `merge` and `finish`. The transformer itself is not changed.

        Raises
        ------
        ValueError, TypeError
            As for `fit`.
        """
        return self._count_partition(X, y)

    def merge(self, left: Any, right: Any) -> Any:
        """Add up the counts of two parts of the training sequences, the earlier part first.

        Parameters
        ----------
        left, right : object
            Results of `fit_partition` or `merge`.

        Returns
        -------
        counts : object
            The counts of both. The transformer itself is not changed.

        Raises
        ------
        ValueError
            If the parts are incompatible: their tokens differ in form or fields.
        """
        return left.merged(right)

    @fit_context(prefer_skip_nested_validation=True)
    def finish(self, counts: Any) -> Self:
        """Set the fitted attributes from the counts of all training sequences, as `fit` does.

        Parameters
        ----------
        counts : object
            Result of `fit_partition` or `merge`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If no part had tokens, or if a field or key that a parameter names does not occur.
        """
        fresh = copy(self)
        fresh._finish(counts)
        self.__dict__.update(fresh.__dict__)  # at the end, so that an error changes nothing
        return self

    def transform_partition(self, X: Any, y: Any = None) -> SequenceBatch:
        """Return the features of a part of the training sequences, as `fit_transform` returns those of the whole.

        Parameters
        ----------
        X : list of sequences, or other form of n sequences
            The same sequences as for `fit_partition`.
        y : list of label sequences, default=None
            Their labels, as for `fit_partition`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError, TypeError
            As for `transform`.
        """
        return self.transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored: `fit` stores the names of a `SequenceBatch`.

        Returns
        -------
        names : ndarray of shape (n_features_out_,), dtype object
        """
        check_is_fitted(self, "n_features_out_")
        return np.array(self._feature_names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.dict = tags.input_tags.categorical = True
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags

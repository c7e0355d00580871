"""Columns of a batch, with one number per token: raw columns, and features that nearly every token has."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .arrays import freeze, freeze_indices, pieces

_DENSE_SHARE = 0.5  # of nonzero values; a dense number takes 0.3 times the memory and time of a sparse one


def is_mostly_nonzero(table) -> bool:
    """Return whether an array or a sparse matrix should be stored as dense columns."""
    n_nonzero = np.count_nonzero(table.data if sparse.issparse(table) else table)
    return bool(n_nonzero > 0 and n_nonzero >= _DENSE_SHARE * table.shape[0] * table.shape[1])


def dense_dtype(dtype) -> type:
    """Return the dtype of dense columns for numbers of a dtype: float32 is kept, and all others become float64."""
    return np.float32 if dtype == np.float32 else np.float64


class TokenColumn(NamedTuple):
    """One raw column of the tokens, as integer codes.   N tokens, V distinct values."""

    codes: np.ndarray  # (N,) int32   index into ``values``; -1 if the token has no such field
    values: np.ndarray  # (V,) object   the distinct raw values

    def take(self, tokens) -> TokenColumn:
        """Return the column of the given tokens; the distinct values are shared."""
        return TokenColumn(freeze(self.codes[tokens], np.int32), self.values)


class DenseColumns(NamedTuple):
    """Token features whose values are stored for all tokens, including zeros.   N tokens, d features."""

    attributes: np.ndarray  # (d,) int32, ascending   ids of the features, which have no sparse entries
    values: np.ndarray  # (N, d) float32 or float64

    def checked(self, n_tokens, n_attributes, indices) -> DenseColumns | None:
        """Return the columns with read-only arrays, or None if there are none; raise a ValueError for invalid ones."""
        attributes = freeze_indices(self.attributes, n_attributes, "features of dense columns")
        values = np.asarray(self.values)
        if values.shape != (n_tokens, len(attributes)):
            raise ValueError(f"dense columns have shape {values.shape}, not {(n_tokens, len(attributes))}")
        if (np.diff(attributes) <= 0).any():
            raise ValueError("features of dense columns must be in ascending order")
        if not len(attributes):
            return None
        is_dense = np.zeros(n_attributes, dtype=bool)
        is_dense[attributes] = True
        if any(is_dense[part].any() for part in pieces(indices)):
            raise ValueError("features of dense columns must not have sparse entries")
        return DenseColumns(attributes, freeze(values, dense_dtype(values.dtype)))

    def take(self, tokens) -> DenseColumns:
        """Return the values of the columns at the given tokens."""
        return self._replace(values=self.values[tokens])

    def tocsr(self, n_attributes) -> sparse.csr_array:
        """Return the columns as a sparse matrix of shape (N, n_attributes), float64."""
        rows = sparse.csr_array(self.values)
        shape = rows.shape[0], n_attributes
        return sparse.csr_array((rows.data.astype(np.float64), self.attributes[rows.indices], rows.indptr), shape=shape)

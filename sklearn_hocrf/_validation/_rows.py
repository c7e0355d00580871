"""Sequences of numeric rows, dense or sparse, to stacked rows of shape (N, n_features)."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from .._data.arrays import offsets_of
from .._data.checks import short
from ._messages import (
    FRAMES_FIRST,
    are_finite,
    feature_position,
    not_finite,
    refuse_broken,
    refuse_masked,
    refuse_non_sequence,
    refuse_text,
)

__all__ = ["check_table", "n_tokens", "refuse_complex", "refuse_not_finite", "stack_grid", "stack_rows"]

MAX_FEATURES = np.iinfo(np.int32).max  # ids of features are int32


def check_table(X, estimator, **options):
    """Return a plain 2-D X as array or CSR matrix; :func:`refuse_not_finite` checks for nan and inf.

    float32 is kept, all other numbers become float64.
    """
    if isinstance(X, (list, tuple)):
        _refuse_ragged_table(X)
    if sparse.issparse(X):
        refuse_broken(X)
        refuse_complex(X)
    else:
        refuse_masked(X)
        try:
            array = _as_objects_if_text(X)
        except ValueError:  # rows of one length that contain more than numbers
            _refuse_nested_table(X)
            raise
        refuse_complex(array)
        try:
            refuse_text(array)
        except TypeError as error:
            if hasattr(X, "columns"):
                raise TypeError(f"{error}; {FRAMES_FIRST}") from None
            raise
    matrix = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        input_name="X",
        estimator=estimator,
        **options,
    )
    if matrix.shape[1] > MAX_FEATURES:
        raise ValueError(f"X has {matrix.shape[1]} features, but at most {MAX_FEATURES} are possible")
    return matrix


def refuse_complex(array, sequence=None):
    """Raise if an array or a sparse matrix has complex numbers; scikit-learn's checks require the first words."""
    if array.dtype.kind == "c":
        where = "" if sequence is None else f"sequence {sequence} of "
        raise ValueError(
            f"Complex data not supported: {where}X has the type {array.dtype}; take real and imaginary parts, or "
            "magnitudes and angles, as features"
        )


def _as_objects_if_text(rows) -> np.ndarray:
    """Return rows as an array; of objects if numpy would convert numbers next to text to text."""
    array = np.asarray(rows)
    return np.array(rows, dtype=object) if array.dtype.kind in "US" and isinstance(rows, (list, tuple)) else array


def _refuse_ragged_table(X):
    for n, row in enumerate(X):
        refuse_masked(row, n)
    widths = [len(row) if hasattr(row, "__len__") else None for row in X]
    if len(set(widths)) > 1:
        n = next(n for n, width in enumerate(widths) if width != widths[0])
        raise ValueError(
            f"ragged rows: row {n} of X is {short(X[n])}, row 0 is {short(X[0])}. All rows must have the same length; "
            "in a list of sequences every token is a row: `[[[x] for x in sequence] for sequence in X]`"
        )


def _refuse_nested_table(X):
    for n, row in enumerate(X):
        for feature, value in enumerate(row):
            if hasattr(value, "__len__"):
                where = feature_position(n, feature)
                raise TypeError(f"{where} of X is {short(value)} ({type(value).__name__}), not a number")


def n_tokens(sequence) -> int:
    """Return the number of tokens of a sequence in any form."""
    return sequence.shape[0] if hasattr(sequence, "shape") else len(sequence)


def stack_grid(X, estimator):
    """Return the stacked rows of a 3-D array and their offsets."""
    refuse_masked(X)
    X = np.asarray(X)
    refuse_text(X)
    n_sequences, length, n_features = X.shape
    matrix = check_table(X.reshape(n_sequences * length, n_features), estimator, ensure_min_samples=0)
    return matrix, length * np.arange(n_sequences + 1)


def stack_rows(X, estimator, n_features):
    """Return the stacked rows of a list of 2-D sequences and their offsets.

    ``n_features`` is the number of features of the fitted estimator. During fit it is None, and the first sequence with
    tokens determines the number.
    """
    blocks = [_row_block(sequence, n) for n, sequence in enumerate(X)]
    lengths = [0 if block is None else block.shape[0] for block in blocks]
    expectation = f"{type(estimator).__name__} is expecting {n_features} features as input"
    for n, block in enumerate(blocks):
        if block is None:
            continue
        if n_features is None:
            n_features = block.shape[1]
            expectation = f"sequence {n} has {n_features}"
        if block.shape[1] != n_features:
            raise ValueError(f"X has {block.shape[1]} features in sequence {n}, but {expectation}")
    full = [block for block in blocks if block is not None]
    if not full:
        stacked = np.empty((0, n_features or 0))
    elif any(map(sparse.issparse, full)):
        stacked = sparse.vstack([sparse.csr_array(block) for block in full], format="csr")
    else:
        stacked = np.concatenate(full)
    return check_table(stacked, estimator, ensure_min_samples=0), offsets_of(lengths)


def _row_block(sequence, n):
    """Return one sequence as an array or sparse matrix of shape (T, n_features), or None if it has no tokens."""
    if sparse.issparse(sequence):
        refuse_broken(sequence, f"sequence {n} of X")
        refuse_complex(sequence, n)
        return sparse.csr_array(sequence)
    refuse_non_sequence(sequence, n)
    refuse_masked(sequence, n)
    for t, row in enumerate(sequence) if isinstance(sequence, (list, tuple)) else ():
        refuse_masked(row, n, t)
    try:
        block = _as_objects_if_text(sequence)
    except ValueError:  # numpy refuses rows of several lengths
        _refuse_ragged(sequence, n)
        raise
    if block.shape in ((0,), (0, 0)):
        return None
    if block.ndim != 2:
        _refuse_ragged(sequence, n)
        raise ValueError(f"sequence {n} of X has {block.ndim} dimensions, but must have 2: position and feature")
    refuse_complex(block, n)
    return block if block.dtype.kind in "biufc" else _numbers(block, n)


def _refuse_ragged(sequence, n):
    width = None
    for t, row in enumerate(sequence):
        if not hasattr(row, "__len__") or isinstance(row, (str, dict)):
            raise TypeError(
                f"sequence {n}, position {t} of X is {short(row)} ({type(row).__name__}), but must be a row of numbers"
            )
        width = len(row) if width is None else width
        if len(row) != width:
            raise ValueError(
                f"ragged rows: sequence {n}, position {t} of X has {len(row)} features, position 0 has {width}: "
                f"{short(row)}"
            )


def _numbers(block, n):
    refuse_text(block, n)
    try:
        return block.astype(np.float64)
    except (TypeError, ValueError):
        for (t, feature), value in np.ndenumerate(block):
            try:
                float(value)
            except (TypeError, ValueError):
                where = feature_position(n, t, feature)
                raise TypeError(f"{where} of X is {short(value)} ({type(value).__name__}), not a number") from None
        raise


def refuse_not_finite(matrix, offsets) -> None:
    """Raise if the stacked rows have a nan or an infinite value."""
    if are_finite(matrix.data if sparse.issparse(matrix) else matrix):
        return
    if sparse.issparse(matrix):
        entry = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        token = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise not_finite(matrix.data[entry], offsets, token, int(matrix.indices[entry]))
    token, feature = (int(i) for i in np.argwhere(~np.isfinite(matrix))[0])
    raise not_finite(matrix[token, feature], offsets, token, feature)

"""Conversion of numeric rows, dense or sparse, to stacked rows of shape (N, n_features), and errors about X."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import issparse
from sklearn.utils import check_array, indexable

from .._data.arrays import offsets_of
from .._data.batch import MAX_FEATURES, SequenceBatch
from .._data.checks import GUIDE, short
from .labels import position_name
from .values import is_missing, to_float, without_columns

_LARGEST = sys.float_info.max
_NO_NUMBERS = (str, bytes, np.datetime64, np.timedelta64)  # not numbers, although float() converts them


class Places(NamedTuple):
    """The positions of the rows of a table in X, for messages."""

    offsets: Any = None  # (n_sequences + 1,)   of stacked sequences; None if each row is a sequence
    names: Any = None  # (n_features,)   names or numbers of the features; None if all features are in the table

    def row(self, i: int) -> str:
        """Return the sequence and the position of a row."""
        return f"sequence {i}, position 0" if self.offsets is None else position_name(self.offsets, i)

    def feature(self, i: int) -> str:
        """Return the name of a feature, or its number."""
        return f"feature {i if self.names is None else short(self.names[i])}"


IN_X = Places()  # of a table that is X itself


def check_table(X, name=None, places=IN_X, **options):
    """Return a plain 2-D X as an array or a CSR matrix; :func:`refuse_infinite_values` checks for nan and inf.

    float32 is kept, and all other numbers become float64. ``name`` is the name of the estimator in messages.
    """
    # scikit-learn's check names no invalid cell, and does not report that strings became numbers
    if _as_numbers(X, places=places).ndim == 1:
        raise ValueError(
            f"Expected 2D array, got 1D array instead: X is {short(X)}. Reshape your data: `[[[x] for x in X]]` if X "
            "is a sequence of numbers, `[[[str(x)] for x in X]]` of codes, `[[X]]` of one token, `[X]` if it is a row "
            "of a plain table"
        )
    matrix = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        input_name="X",
        estimator=name,
        **options,
    )
    if matrix.shape[1] > MAX_FEATURES:
        raise ValueError(f"X has {matrix.shape[1]} features, but at most {MAX_FEATURES} are possible")
    return matrix


def refuse_complex(array, where="X"):
    """Raise an error if a dense or sparse array is complex; scikit-learn's checks require the start of its message."""
    if array.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {where} has the type {array.dtype}; take real and imaginary parts, or "
            "magnitudes and angles, as features"
        )


def _as_numbers(rows, *before, places=IN_X):
    """Return X, or its sequence with the index ``before``, as a sparse matrix or an array of real numbers."""
    where, are_listed = f"sequence {before[0]} of X" if before else "X", isinstance(rows, (list, tuple))
    if sparse.issparse(rows):
        refuse_broken(rows, where)
    try:
        array = rows if sparse.issparse(rows) else np.asarray(rows)
    except ValueError:
        _refuse_cells(rows, *before, places=places)
        raise
    refuse_complex(array, where)
    is_masked = np.ma.is_masked(rows) or (are_listed and any(map(np.ma.is_masked, rows)))
    if is_masked or array.dtype.kind in "OSUTVmM" or (before and array.ndim == 1):
        is_frame = hasattr(rows, "columns") and not before and places.offsets is None
        remedy = f"; {FRAMES_FIRST}" if is_frame else ""
        # numpy would convert numbers next to strings to strings, and drop masks
        _refuse_cells(rows if are_listed or is_masked else array, *before, places=places, remedy=remedy)
    return array


def _refuse_cells(rows, *before, places, remedy=""):
    """Raise an error unless rows (a list or an array) have equal lengths, and a float can represent each cell."""
    for i, row in enumerate(rows):
        where = f"sequence {before[0]}, position {i}" if before else places.row(i)
        if isinstance(row, (str, dict)) or not hasattr(row, "__len__"):
            raise TypeError(f"{where} of X is {short(row)} ({type(row).__name__}), but must be a row of numbers")
        if len(row) != len(rows[0]):
            raise ValueError(
                f"ragged rows: {where} of X is {short(row)}, the first row is {short(rows[0])}. All rows must have "
                "one length; in a list of sequences every token is a row: `[[[x] for x in sequence] for sequence in X]`"
            )
        for feature, value in enumerate(row):
            if type(value) not in (int, float) or not -_LARGEST < value < _LARGEST:  # a shortcut for most cells
                _refuse_cell(value, f"{where}, {places.feature(feature)}", remedy)


def _refuse_cell(value, where, remedy):
    number, reason = None, ""
    if value is np.ma.masked:
        raise ValueError(f"{where} of X is masked: fill such entries, as X.filled(0.0) does")
    if not isinstance(value, _NO_NUMBERS):
        try:
            number = np.nan if is_missing(value) else to_float(value)
        except (TypeError, ValueError) as error:
            reason = f": {error}"  # scikit-learn's checks require these words
    if number is None:
        raise TypeError(f"{where} of X is {short(value)} ({type(value).__name__}), not a number{reason}{remedy}")
    if not np.isfinite(number):
        raise not_finite(value, where)


def n_tokens(sequence) -> int:
    """Return the number of tokens of a sequence in any form."""
    return sequence.shape[0] if hasattr(sequence, "shape") else len(sequence)


def stack_rows(X, name, n_features):
    """Return the stacked rows of a list of 2-D sequences, and the offsets of the sequences.

    ``n_features`` is the number of features of the fitted estimator. During fit, it is None, and the first sequence
    with tokens determines the number.
    """
    blocks = [_row_block(sequence, n) for n, sequence in enumerate(X)]
    full = {n: block for n, block in enumerate(blocks) if block is not None}
    expectation = f"{name} is expecting {n_features} features as input"
    for n, block in full.items():
        if n_features is None:
            n_features = block.shape[1]
            expectation = f"sequence {n} has {n_features}"
        if block.shape[1] != n_features:
            raise ValueError(f"X has {block.shape[1]} features in sequence {n}, but {expectation}")
    parts = list(full.values()) or [np.empty((0, n_features or 0))]
    is_sparse = any(map(sparse.issparse, parts))
    stacked = sparse.vstack(list(map(sparse.csr_array, parts)), format="csr") if is_sparse else np.concatenate(parts)
    lengths = [0 if block is None else block.shape[0] for block in blocks]
    return check_table(stacked, name, ensure_min_samples=0), offsets_of(lengths)


def _row_block(sequence, n):
    """Return one sequence as an array or sparse matrix of shape (T, n_features), or None if it has no tokens."""
    refuse_non_sequence(sequence, n)
    block = _as_numbers(sequence, n)
    if block.shape in ((0,), (0, 0)):
        return None
    refuse_other_axes(block, n)
    return block.astype(np.float64) if block.dtype.kind == "O" else block


def indexable_sequences(X: Any, y: Any, *others: Any) -> list:
    """Return data with one entry per sequence, or raise an error: scikit-learn's ``indexable`` with clearer messages.

    Columns of polars and pyarrow become lists, and sparse matrices of other formats become CSR matrices.

    Raises
    ------
    TypeError
        If X or y can be iterated over, but not indexed.
    ValueError
        If the data differ in length.
    """
    X, y = without_columns(X), without_columns(y)
    for name, data in (("X", X), ("y", y)):
        if issparse(data):
            continue  # indexable makes CSR matrices
        if hasattr(data, "__iter__") and not hasattr(data, "__getitem__"):
            raise TypeError(
                f"{name} is a {type(data).__name__}, which cannot be split into folds: pass a list of it, or of a "
                "sample"
            )
    return indexable(X, y, *others)


FRAMES_FIRST = f"group its rows into sequences first, as in {GUIDE}/recipes.html#data-frames"
ROWS_OF_NUMBERS = (
    "if each row of X is a sequence of numbers, every token is a row: `np.asarray(X)[:, :, None]`, or, for codes, "
    "`[[[str(x)] for x in sequence] for sequence in np.asarray(X)]`"
)
TOKEN_FEATURES_FIRST = (
    "put a SequenceFeatureExtractor before it (texts, numbers), with templates='attributes' for dicts and lists of "
    "attribute names"
)
NA_TOKENS = "; pandas.read_csv reads tokens such as NA as nan, unless keep_default_na=False"


def not_finite(value, where, if_missing="") -> ValueError:
    """Return the error for a missing or infinite value; scikit-learn's checks require the start of its message."""
    what, hint = ("NaN", if_missing) if is_missing(value) or value != value else ("inf", "")
    return ValueError(f"Input X contains {what}: {where} is {short(value)}{hint}")


def refuse_broken(matrix, before="X") -> None:
    """Raise an error if indices of a sparse matrix are out of range: scipy's compiled code does not check them.

    Parameters
    ----------
    matrix : sparse matrix or array
    before : str
        Name of the matrix for the message.
    """
    try:
        if matrix.format == "coo":
            type(matrix)((matrix.data, matrix.coords), shape=matrix.shape)
        elif matrix.format in ("csr", "csc", "bsr"):
            copy(matrix).check_format()  # a copy of the header alone: the check may replace its arrays
    except ValueError as error:
        raise ValueError(f"{before} is a broken sparse matrix: {error}") from None


def refuse_infinite_values(batch, places=IN_X) -> None:
    """Raise an error if a batch has values that are not finite: values of X, or sums of duplicate entries."""
    values, dense = batch.values, batch.dense
    if values is not None and not are_finite(values):
        entry = int(np.argmin(np.isfinite(values)))
        token = int(np.searchsorted(batch.indptr, entry, side="right")) - 1
        value, feature = values[entry], batch.indices[entry]
    elif dense is not None and not are_finite(dense.values):
        token, column = np.argwhere(~np.isfinite(dense.values))[0].tolist()
        value, feature = dense.values[token, column], dense.attributes[column]
    else:
        return
    raise not_finite(float(value), f"{position_name(batch.offsets, token)}, {places.feature(feature)}")


def are_finite(numbers) -> bool:
    """Return whether an array contains neither nan nor infinite values, without creating a second array of its size."""
    return bool(np.isfinite([numbers.min(initial=0), numbers.max(initial=0)]).all())


def refuse_other_axes(block, n) -> None:
    """Raise an error unless an array or a sparse matrix for ``X[n]`` has rows of features."""
    if block.ndim != 2:
        raise ValueError(
            f"sequence {n} of X has {block.ndim} dimensions, but must have 2: position and feature; if its parts are "
            "sequences, pass `[sequence for part in X for sequence in part]`, and y likewise"
        )


def refuse_non_sequence(sequence, n) -> None:
    """Raise an error if ``X[n]`` cannot be a sequence."""
    if sparse.issparse(sequence):  # first, because some kinds are dicts, and some have no __getitem__
        refuse_other_axes(sequence, n)
        return
    kind = type(sequence).__name__
    if isinstance(sequence, (str, bytes)):
        remedy = "; for a sequence of characters: `list(text)`"
    elif isinstance(sequence, Mapping):
        remedy = "; if X is one sequence, wrap it: `[X]`"
    elif isinstance(sequence, SequenceBatch):
        remedy = ": pass a whole batch as X, not a list of batches"
    elif not hasattr(sequence, "__getitem__") or not hasattr(sequence, "__iter__"):
        remedy = ": pass its items()" if kind == "ItemSequence" else ""  # of python-crfsuite
    else:
        return
    raise TypeError(f"X[{n}] (sequence {n}) is the {kind} {short(sequence)}, but must be a sequence of tokens{remedy}")

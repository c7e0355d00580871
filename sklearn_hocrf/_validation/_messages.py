"""Checks and error messages shared by the readers of X."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType

import numpy as np
from scipy import sparse

from .._data.batch import SequenceBatch
from .._data.checks import GUIDE, short, to_float
from .._data.labels import position_name

__all__ = [
    "feature_position",
    "not_finite",
    "refuse_broken",
    "refuse_infinite_values",
    "refuse_masked",
    "refuse_metrics_of_labels",
    "refuse_non_sequence",
    "refuse_text",
]

FRAMES_FIRST = f"group its rows into sequences first, as in {GUIDE}/recipes.html#data-frames"
NA_TOKENS = "; pandas.read_csv reads tokens such as NA as nan, unless keep_default_na=False"
_NO_NUMBERS = (str, bytes, np.datetime64, np.timedelta64)


def not_finite(value, offsets, token, feature) -> ValueError:
    """Return the error for a value that is nan or infinite; scikit-learn's checks look for its first words."""
    what = "NaN" if np.isnan(value) else "inf"
    return ValueError(f"Input X contains {what}: {position_name(offsets, token)}, feature {feature} is {value}")


def refuse_masked(array, *before) -> None:
    """Raise if an array has masked entries, which numpy and scipy would treat as data.

    Parameters
    ----------
    array : object
        Its axes are sequence, position and feature; the axes of a table are sequence and feature.
    *before : int
        Indices for the first axes, if the array has only the axes after them.
    """
    if np.ma.is_masked(array):
        where = feature_position(*before, *np.argwhere(np.ma.getmaskarray(array))[0].tolist())
        raise ValueError(f"{where} of X is masked: fill such entries, as X.filled(0.0) does")


def refuse_text(array, *before) -> None:
    """Raise if an array has text or dates, which numpy would convert, or integers too large for floats.

    The parameters are the same as for :func:`refuse_masked`.
    """
    if array.dtype.kind in "OSUmM":
        for index, value in np.ndenumerate(array):
            if isinstance(value, _NO_NUMBERS):
                where = feature_position(*before, *index)
                raise TypeError(f"{where} of X is {short(value)} ({type(value).__name__}), not a number")
            if isinstance(value, int) and np.isinf(to_float(value)):
                raise ValueError(f"Input X contains inf: {feature_position(*before, *index)} is {short(value)}")


def refuse_broken(matrix, before="X") -> None:
    """Raise if indices of a sparse matrix are out of range: scipy's compiled code does not check them.

    Parameters
    ----------
    matrix : sparse matrix or array
    before : str
        Name of the matrix for the message.
    """
    if matrix.format == "coo":
        for axis, (ids, size) in enumerate(zip(matrix.coords, matrix.shape, strict=True)):
            if len(ids) and not 0 <= ids.min() <= ids.max() < size:
                raise ValueError(
                    f"{before} is a broken sparse matrix: a coordinate of axis {axis} is not in [0, {size})"
                )
    if matrix.format not in ("csr", "csc", "bsr"):
        return
    height, width = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    n_rows, n_columns = matrix.shape[0] // height, matrix.shape[1] // width
    n_major, n_minor = (n_columns, n_rows) if matrix.format == "csc" else (n_rows, n_columns)
    indptr, indices = matrix.indptr, matrix.indices
    fits = len(indptr) == n_major + 1 and indptr[0] == 0 and indptr[-1] <= min(len(indices), len(matrix.data))
    if not fits or (indptr[1:] < indptr[:-1]).any():
        raise ValueError(
            f"{before} is a broken sparse matrix: indptr must have {n_major + 1} numbers in ascending order, from 0 to "
            f"at most {len(indices)}"
        )
    used = indices[: indptr[-1]]
    if len(used) and not 0 <= used.min() <= used.max() < n_minor:
        raise ValueError(f"{before} is a broken sparse matrix: an index is not in [0, {n_minor})")


def refuse_infinite_values(batch) -> None:
    """Raise if a batch has values that are not finite: values of X, or sums of duplicate entries."""
    if batch.values is not None and not np.isfinite(batch.values).all():
        entry = int(np.argmin(np.isfinite(batch.values)))
        token = int(np.searchsorted(batch.indptr, entry, side="right")) - 1
        raise not_finite(batch.values[entry], batch.offsets, token, int(batch.indices[entry]))
    if batch.dense is not None and not are_finite(batch.dense.values):
        token, column = np.argwhere(~np.isfinite(batch.dense.values))[0].tolist()
        raise not_finite(batch.dense.values[token, column], batch.offsets, token, int(batch.dense.attributes[column]))


def are_finite(numbers) -> bool:
    """Return whether an array has neither nan nor infinite values, without allocating another of its size."""
    return bool(np.isfinite([numbers.min(initial=0), numbers.max(initial=0)]).all())


def feature_position(*index) -> str:
    """Name an entry of rows by sequence, position and feature, or an entry of a table by sequence and feature."""
    sequence, position, feature = index if len(index) == 3 else (index[0], 0, index[-1])
    return f"sequence {sequence}, position {position}, feature {feature}"


def refuse_non_sequence(sequence, n) -> None:
    """Raise if ``X[n]`` cannot be a sequence."""
    if sparse.issparse(sequence):  # first: some kinds are dicts, some have no __getitem__
        return
    if isinstance(sequence, (str, bytes)):
        raise TypeError(
            f"X[{n}] (sequence {n}) is the str {short(sequence)}, but must be a sequence of tokens; for a sequence of "
            "characters: `list(text)`"
        )
    if isinstance(sequence, Mapping):
        raise TypeError(
            f"X[{n}] (sequence {n}) is the dict {short(sequence)}, but must be a sequence of tokens. If X is one "
            "sequence, wrap it: `[X]`"
        )
    if isinstance(sequence, SequenceBatch):
        raise TypeError(f"X[{n}] (sequence {n}) is a SequenceBatch: pass a whole batch as X, not a list of batches")
    if not hasattr(sequence, "__getitem__") or not hasattr(sequence, "__iter__"):
        kind = type(sequence).__name__
        hint = ": pass its items()" if kind == "ItemSequence" else ""  # of python-crfsuite
        raise TypeError(f"X[{n}] (sequence {n}) is {short(sequence)} ({kind}), but must be a sequence of tokens{hint}")


_ON_THE_WAY = "sklearn.", "sklearn_hocrf."  # pipelines, searches and calibration between a scorer and a model
_OF_LABELS = "sklearn.metrics._classification"


def refuse_metrics_of_labels() -> None:
    """Raise a ValueError if a scorer such as "f1_macro" asks for predictions that are lists of sequences.

    Its metric takes one label per sample and would fail with a message about "legacy multi-label data", which searches
    and ``cross_validate`` print with a score of nan. Only the call stack shows the estimator that such a scorer has
    called it. If scikit-learn has moved the scorer, its own message remains.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_ON_THE_WAY):
        metric = getattr(frame.f_locals.get("self"), "_score_func", None)
        if metric is not None:
            if getattr(metric, "__module__", None) == _OF_LABELS:
                raise ValueError(
                    f"{metric.__name__} of scikit-learn takes one label per sample, not sequences: use "
                    "metrics.segment_f1_scorer, or make_scorer of a function that flattens the lists first"
                )
            return
        frame = frame.f_back

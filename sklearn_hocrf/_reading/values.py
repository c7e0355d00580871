"""Checks of single values from users: numbers, missing values, labels, collections."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from .._data.checks import short

IGNORED = -100  # the mark of tokens without a label in Hugging Face's libraries


def finite_number(value: Any, where: str, what: str) -> float:
    """Return a number as a float, or raise an error that gives its position, ``where``, and its name, ``what``."""
    if not isinstance(value, Real):
        raise TypeError(f"the {what} {short(value)} ({where}) is not a number")
    if not np.isfinite(to_float(value)):
        raise ValueError(f"the {what} {short(value)} ({where}) is not finite")
    return float(value)


def finite_numbers(values: Any, count: int, name: str, whose: str) -> list[float]:
    """Return one finite number for each of ``count`` objects, or raise an error; ``whose`` describes these objects."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {short(values)}, but {whose}: one number for each") from None
    if numbers.shape != (count,):
        raise ValueError(f"{name} has shape {numbers.shape}, but {whose}: one number for each")
    if not np.isfinite(numbers).all():
        i = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(f"{name} has the number {numbers[i]} at position {i}, which is not finite")
    return numbers.tolist()


def to_float(value) -> float:
    """Return a number as a float; inf for an integer that is too large for floats.

    Examples
    --------
    >>> from sklearn_hocrf._reading.values import to_float
    >>> to_float(-(10**400)), to_float(7)
    (-inf, 7.0)
    """
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def is_missing(value) -> bool:
    """Return whether a value is missing: None, nan, NaT, or pandas' NA.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf._reading.values import is_missing
    >>> [
    ...     is_missing(value)
    ...     for value in (None, float("nan"), np.datetime64("NaT", "s"), "nan", 0)
    ... ]
    [True, True, True, False, False]
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def is_ordered_collection(value) -> bool:
    """Return whether a value has a length and an order, unlike numbers, strings, dicts, sets and generators."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    kinds = (str, bytes, dict, set, frozenset)
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, kinds)


def no_label(label, where, name="y", takes_missing_labels=True) -> ValueError:
    """Return the error for a missing label; scikit-learn's checks require the words about NaN.

    If ``takes_missing_labels``, None can mark an unknown label.
    """
    remedy = "each token needs a label: leave tokens without one out of X and y, or cut the sequence there"
    if takes_missing_labels and label is not None:
        remedy = "each token needs a label, or None if it is unknown"
    what = "contains NaN" if isinstance(label, (float, np.floating)) else f"has the label {label}"
    guess = 'is it Hugging Face\'s "ignore"? Here ' if isinstance(label, Integral) else ""
    return ValueError(f"{name} {what} ({where}): {guess}{remedy}")


def unmasked(array) -> np.ndarray | list:
    """Return an array of labels without its mask, or lists with None if entries are masked or strings are missing."""
    if np.ma.is_masked(array):
        return array.tolist()
    array = np.asarray(array)
    is_open = hasattr(array.dtype, "na_object") and any(map(is_missing, array.ravel().tolist()))
    return array.tolist() if is_open else array  # numpy cannot sort strings and None


def without_columns(data):
    """Return data with columns and cells of polars and pyarrow, also inside lists, replaced by Python objects.

    One-dimensional arrays and Series of objects become lists, too; other arrays and Series do not change.

    Examples
    --------
    >>> import polars  # pip install polars
    >>> from sklearn_hocrf._reading.values import without_columns
    >>> (
    ...     without_columns(polars.Series([["a", "b"]])),
    ...     without_columns([polars.Series([1, 2])]),
    ... )
    ([['a', 'b']], [[1, 2]])
    """
    data = _plain(data)
    if isinstance(data, (list, tuple)) and not set(map(type, data)) <= {list, tuple}:
        return [_plain(element) for element in data]
    return data


def _plain(value):
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if len(getattr(value, "shape", (0,))) != 1 or kind not in (None, "O"):
        return value
    if kind == "O":
        return list(value)
    convert = next((name for name in ("to_pylist", "as_py", "to_list") if hasattr(value, name)), None)
    return getattr(value, convert)() if convert else value


def number_weights(sample_weight):
    """Return sequence weights if they are numbers; raise an error for other types, which scikit-learn would convert."""
    if np.ma.is_masked(sample_weight):
        raise ValueError(f"sample_weight is masked at sequence {int(np.argmax(np.ma.getmaskarray(sample_weight)))}")
    sample_weight = np.asarray(sample_weight) if hasattr(sample_weight, "__array__") else sample_weight
    if isinstance(sample_weight, np.ndarray) and sample_weight.dtype.kind in "biuf":
        return sample_weight
    is_one = not is_ordered_collection(sample_weight)  # one weight for all sequences
    for n, weight in enumerate([sample_weight] if is_one else sample_weight):
        if not isinstance(weight, (Real, np.bool_)):
            what = "sample_weight" if is_one else f"sample_weight[{n}] (sequence {n})"
            raise TypeError(
                f"sample_weight must be one number per sequence, but {what} is {short(weight)} "
                f"({type(weight).__name__})"
            )
    return to_float(sample_weight) if is_one else list(map(to_float, sample_weight))

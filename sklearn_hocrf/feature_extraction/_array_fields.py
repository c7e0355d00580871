"""Fields that hold an array for each token, such as embeddings: dense columns of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from .._data.arrays import freeze
from .._data.checks import short
from .._reading._messages import are_finite
from .._reading.values import is_missing
from ._names import escape


class ArrayColumn(NamedTuple):
    """One field of all tokens that holds arrays of numbers.   N tokens, d numbers each."""

    values: np.ndarray  # (N, d) float32   0 where the token has no array
    lacks: np.ndarray  # (N,) bool   tokens without an array


def is_array_type(kind) -> bool:
    """Return whether values of a type are numpy arrays, or arrays of a library that numpy can read."""
    return issubclass(kind, np.ndarray) or (hasattr(kind, "__array__") and not issubclass(kind, np.generic))


def array_column(cells, describe: Callable[[int], str]) -> ArrayColumn:
    """Return the column of cells that are missing or arrays of numbers, all of the same length.

    ``describe(t)`` names cell t in error messages.
    """
    arrays = [None if _is_missing(cell) else _as_numbers(cell, t, describe) for t, cell in enumerate(cells)]
    lacks = np.array([array is None for array in arrays])
    first = next(array for array in arrays if array is not None)
    for t, array in enumerate(arrays):
        if array is not None and len(array) != len(first):
            raise ValueError(
                f"{describe(t)} holds {len(array)} numbers, but the first array of the field holds {len(first)}"
            )
    if not len(first):
        raise ValueError(f"{describe(int(np.argmin(lacks)))} is an array without numbers")
    nothing, values = np.zeros_like(first), np.empty((len(cells), len(first)), np.float32)
    filled = [nothing if array is None else array for array in arrays]
    with np.errstate(over="ignore"):
        np.concatenate(filled, out=values.reshape(-1), casting="same_kind")
    if not are_finite(values):
        t, i = np.argwhere(~np.isfinite(values))[0].tolist()
        why = "numbers must be finite" if not np.isfinite(filled[t][i]) else "out of the range of float32"
        raise ValueError(f"{describe(t)} holds {filled[t][i]} at {i}; {why}")
    return ArrayColumn(freeze(values, np.float32), lacks)


def _is_missing(cell) -> bool:
    return not is_array_type(type(cell)) and is_missing(cell)


def _as_numbers(cell, t, describe) -> np.ndarray:
    array = np.asarray(cell) if is_array_type(type(cell)) else None
    if array is None or array.dtype.kind not in "fiub" or np.ma.isMaskedArray(cell):
        what = type(cell).__name__ if array is None or np.ma.isMaskedArray(cell) else f"array of {array.dtype}"
        raise TypeError(f"{describe(t)} is {short(cell)}, of type {what}, but the field holds arrays of numbers")
    if array.ndim != 1:
        raise ValueError(f"{describe(t)} is an array of shape {array.shape}; it must have one dimension")
    return array


class ArrayTemplates(NamedTuple):
    """The (field, offset) pairs that make dense columns, and the length of the arrays of each field."""

    pairs: list
    widths: Mapping

    @property
    def n_features(self) -> int:
        return sum(self.widths[field] for field, _ in self.pairs)

    def names(self) -> np.ndarray:
        """Return the names of the features: ``vector[0]``, ``vector[1]`` ..; for a neighbour, ``vector[-1][0]`` .."""
        names = [
            f"{escape(str(field), '|=')}{f'[{offset}]' if offset else ''}[{i}]"
            for field, offset in self.pairs
            for i in range(self.widths[field])
        ]
        return np.array(names, dtype=object)

    def values(self, columns, window) -> np.ndarray:
        """Return the numbers of all tokens, 0 where they are missing or outside; shape (N, n_features), float32."""
        n_tokens, parts = len(window.from_begin), []
        for field, offset in self.pairs:
            column, part = columns[field], np.zeros((n_tokens, self.widths[field]), np.float32)
            if isinstance(column, ArrayColumn):
                part = window.shift(column.values, offset, 0.0, 0.0)
            parts.append(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

"""Features of segments computed by user-defined functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from numbers import Real
from typing import Self

import numpy as np
from scipy import sparse

from .._data.checks import short, to_float
from ._columns import is_text
from ._names import FeatureNames, escape
from ._token_functions import warn_if_local

__all__ = ["FunctionRows", "VectorRows", "check_functions"]

_SIGNATURES = {
    "functions": "function(tokens, start, stop) -> dict",
    "vector_functions": "function(tokens, starts, stops) -> array or dict of arrays",
}


def check_functions(functions, parameter: str) -> tuple[Callable, ...]:
    """Return the parameter ``functions`` or ``vector_functions`` as a tuple."""
    functions = (functions,) if callable(functions) else functions
    if isinstance(functions, (str, bytes, Mapping)) or not np.iterable(functions):
        raise TypeError(f"{parameter} must be a function or a sequence of functions, got {functions!r}")
    for i, function in enumerate(functions):
        if not callable(function):
            raise TypeError(f"{parameter}[{i}] = {function!r} must be callable: {_SIGNATURES[parameter]}")
        warn_if_local(function, f"{parameter}[{i}]")
    return tuple(functions)


class _NamedRows:
    """Features that functions compute and name.

    Parameters
    ----------
    functions : tuple of callable
    fields : list
        Fields of the tokens.
    names : FeatureNames
        Names of the features of training segments.
    """

    def __init__(self, functions, fields, names):
        self._functions, self._fields = functions, fields
        self.feature_names, self.n_features = names, len(names)
        self._number = {name: i for i, name in enumerate(names.tolist())}

    def __getstate__(self):
        return {"functions": self._functions, "fields": self._fields, "names": self.feature_names}

    def __setstate__(self, state):
        _NamedRows.__init__(self, state["functions"], state["fields"], state["names"])

    @classmethod
    def counts(cls, functions, fields, columns, offsets, start, stop) -> Counter:
        """Return the number of training segments ``[start, stop)`` with each named value other than 0."""
        return cls(functions, fields, FeatureNames.of([]))._count(columns, offsets, start, stop)

    @classmethod
    def of_counts(cls, functions, fields, counts: Counter, min_count: int) -> Self:
        """Return the features that occur in at least ``min_count`` training segments."""
        return cls(functions, fields, FeatureNames.of(sorted(name for name, n in counts.items() if n >= min_count)))

    def _count(self, columns, offsets, start, stop) -> Counter:
        raise NotImplementedError


class FunctionRows(_NamedRows):
    """The named values that functions return for segments.   See RowBlock.

    Parameters
    ----------
    functions : tuple of callable
        ``function(tokens, start, stop)`` returns a dict.
    fields, names
        As in :class:`_NamedRows`.
    """

    def _count(self, columns, offsets, start, stop) -> Counter:
        counts: Counter = Counter()
        for _, values in self._values(columns, offsets, start, stop):
            counts.update(values.keys())
        return counts

    def rows(self, columns, offsets, token_data, start, stop) -> sparse.csr_array:
        """Return the features of candidate segments, without features that no training segment had."""
        rows, indices, data = [], [], []
        for i, values in self._values(columns, offsets, start, stop):
            learned = [(self._number[name], value) for name, value in values.items() if name in self._number]
            rows += [i] * len(learned)
            indices += [number for number, _ in learned]
            data += [value for _, value in learned]
        shape = len(start), self.n_features
        return sparse.csr_array((np.array(data, dtype=np.float64), (rows, indices)), shape=shape)

    def _values(self, columns, offsets, start, stop) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield number and {feature name: nonzero value} of each segment; values of equal names are added."""
        sequence = np.searchsorted(offsets, start, side="right") - 1
        readers = [_reader(columns[field]) for field in self._fields]
        tokens, current = [], -1
        for i in np.argsort(sequence, kind="stable").tolist():
            n = int(sequence[i])
            if n != current:
                tokens, current = self._tokens(readers, int(offsets[n]), int(offsets[n + 1])), n
            first, last = int(start[i] - offsets[n]), int(stop[i] - offsets[n])
            values: dict[str, float] = {}
            for function in self._functions:
                for name, value in _call(function, tokens, n, first, last):
                    values[name] = values.get(name, 0.0) + value
                    if np.isinf(values[name]):
                        raise ValueError(
                            f"sequence {n}, start {first}, stop {last}: values of {short(name)} add up to inf"
                        )
            yield i, {name: value for name, value in values.items() if value}

    def _tokens(self, readers, first, last) -> list:
        """Return the raw tokens of one sequence."""
        cells = [read(first, last) for read in readers]
        if len(cells) == 1:
            return cells[0]
        if self._fields == list(range(len(cells))):
            return list(zip(*cells, strict=True))
        rows = zip(*cells, strict=True)
        pairs = (zip(self._fields, row, strict=True) for row in rows)
        return [{field: cell for field, cell in token if cell is not None} for token in pairs]


def _reader(column) -> Callable[[int, int], list]:
    """Return a function that returns the values of tokens first .. last - 1, None where they are missing."""
    if is_text(column):
        values = np.array([*column.values, None], dtype=object)
        return lambda first, last: values[column.codes[first:last]].tolist()
    return lambda first, last: [None if np.isnan(number) else number for number in column[first:last].tolist()]


def _call(function, tokens, n, start, stop) -> Iterator[tuple[str, float]]:
    """Yield the features that a function returns for one segment."""
    name = getattr(function, "__name__", type(function).__name__)
    where = f"the segment function {name!r}, sequence {n}, start {start}, stop {stop}"
    try:
        result = function(tokens, start, stop)
    except Exception as error:
        error.add_note(f"in {where}")
        raise
    if not isinstance(result, Mapping):
        raise TypeError(f"{where}: it returned {result!r:.60}, but must return a dict of named values")
    for key, value in result.items():
        if not isinstance(key, str):
            raise TypeError(f"{where}: the name {key!r:.60} of a value must be a str")
        if isinstance(value, str):
            yield f"{escape(key, '=')}={value}", 1.0
        elif isinstance(value, (Real, np.bool_)):
            if not np.isfinite(to_float(value)):
                raise ValueError(f"{where}: {key!r} is {short(value)}; numbers must be finite")
            yield key, float(value)
        elif value is not None:
            raise TypeError(f"{where}: {key!r} is {value!r:.60}; values must be str, numbers, bools or None")


class VectorRows(_NamedRows):
    """The named values that functions return for all segments of a sequence at once.   See RowBlock.

    Parameters
    ----------
    functions : tuple of callable
        ``function(tokens, starts, stops)`` returns an array or a dict of arrays.
    fields, names
        As in :class:`_NamedRows`.
    """

    def _count(self, columns, offsets, start, stop) -> Counter:
        counts: Counter = Counter()
        for name, segments, _ in self._entries(columns, offsets, start, stop):
            counts[name] += len(segments)
        return counts

    def rows(self, columns, offsets, token_data, start, stop) -> sparse.csr_array:
        """Return the features of candidate segments, without features that no training segment had."""
        rows, indices, data = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        for name, segments, values in self._entries(columns, offsets, start, stop):
            if name in self._number:
                rows.append(segments)
                indices.append(np.full(len(segments), self._number[name]))
                data.append(values)
        places = np.concatenate(rows), np.concatenate(indices)
        return sparse.csr_array((np.concatenate(data), places), shape=(len(start), self.n_features))

    def _entries(self, columns, offsets, start, stop) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Yield name, numbers of segments and nonzero values of each feature, one sequence at a time."""
        sequence = np.searchsorted(offsets, start, side="right") - 1
        order = np.argsort(sequence, kind="stable")
        of_sequence, firsts = np.unique(sequence[order], return_index=True)
        readers = {field: _vector_reader(columns[field]) for field in self._fields}
        for n, segments in zip(of_sequence.tolist(), np.split(order, firsts[1:]), strict=True):
            first, last = int(offsets[n]), int(offsets[n + 1])
            cells = {field: _read_only(read(first, last)) for field, read in readers.items()}
            tokens = next(iter(cells.values())) if len(cells) == 1 else cells
            bounds = _read_only(start[segments] - first), _read_only(stop[segments] - first)
            for name, places, values in _added_up(self._functions, tokens, n, *bounds):
                yield name, segments[places], values


def _vector_reader(column) -> Callable[[int, int], np.ndarray]:
    """Return a function that returns the values of tokens first .. last - 1; missing texts are None, numbers nan."""
    if is_text(column):
        values = np.array([*column.values, None], dtype=object)
        return lambda first, last: values[column.codes[first:last]]
    return lambda first, last: column[first:last].copy()


def _read_only(array) -> np.ndarray:
    """Make an array read-only, so that no function changes it for the next one, and return it."""
    array.flags.writeable = False
    return array


def _added_up(functions, tokens, n, starts, stops) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, positions of segments and nonzero values of the features of a sequence; equal names are added."""
    parts: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    own_names: set[str] = set()
    for function in functions:
        for name, places, values in _call_vector(function, tokens, n, (starts, stops), own_names):
            parts.setdefault(name, []).append((places, values))
    for name, of_name in parts.items():
        total = np.zeros(len(starts))
        for places, values in of_name:
            total[places] += values
        if not np.isfinite(total).all():
            i = int(np.argmin(np.isfinite(total)))
            raise ValueError(
                f"sequence {n}, start {starts[i]}, stop {stops[i]}: values of {short(name)} add up to {total[i]}"
            )
        places = np.flatnonzero(total)
        if len(places):
            yield name, places, total[places]


def _own_name(function) -> str:
    function = function.func if isinstance(function, partial) else function
    return getattr(function, "__name__", type(function).__name__)


def _call_vector(function, tokens, n, bounds, own_names) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, positions of segments and values of the features that a function returns for one sequence.

    ``own_names`` are the names of earlier functions that named their arrays; the name of this function is added if it
    names its array.
    """
    own_name = _own_name(function)
    where = f"the segment function {own_name!r}, sequence {n}"
    try:
        result = function(tokens, *bounds)
        if not isinstance(result, Mapping):
            if own_name in own_names:
                raise ValueError(f"two functions have the name {own_name!r}: return a dict {{name: array}} instead")
            own_names.add(own_name)
            result = {own_name: result}
        arrays = {key: np.ma.asarray(values) for key, values in result.items()}
    except Exception as error:
        error.add_note(f"in {where}")
        raise
    for key, array in arrays.items():
        if not isinstance(key, str):
            raise TypeError(f"{where}: the name {key!r:.60} of an array must be a str")
        if array.shape != bounds[0].shape:
            raise ValueError(f"{where}: {key!r} has the shape {array.shape}, but there are {len(bounds[0])} segments")
        yield from _features_of_array(key, array, where, *bounds)


def _features_of_array(key, array, where, starts, stops) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the features of an array with one value per segment; masked values are missing."""
    present = ~np.ma.getmaskarray(array)
    values = array.data
    if values.dtype.kind in "biuf":
        numeric = present
    else:
        items = values.tolist()
        is_text = np.fromiter((isinstance(item, str) for item in items), bool, len(items)) & present
        numeric = np.fromiter((isinstance(item, (Real, np.bool_)) for item in items), bool, len(items)) & present
        odd = present & ~is_text & ~numeric & np.fromiter((item is not None for item in items), bool, len(items))
        if odd.any():
            i = int(np.argmax(odd))
            raise TypeError(
                f"{where}, start {starts[i]}, stop {stops[i]}: {key!r} is {items[i]!r:.60}; values must be str, "
                "numbers, bools or None"
            )
        places: dict[str, list[int]] = {}
        for i in np.flatnonzero(is_text).tolist():
            places.setdefault(items[i], []).append(i)
        for text, chosen in places.items():
            yield f"{escape(key, '=')}={text}", np.array(chosen), np.ones(len(chosen))
    counted = np.flatnonzero(numeric)
    numbers = values[counted].astype(np.float64)
    if not np.isfinite(numbers).all():
        i = counted[np.argmin(np.isfinite(numbers))]
        raise ValueError(f"{where}, start {starts[i]}, stop {stops[i]}: {key!r} is {values[i]}; numbers must be finite")
    yield key, counted, numbers

"""Features that are computed for candidate segments: indicators of texts, and user-defined functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Self

import numpy as np
from scipy import sparse

from .._data.arrays import freeze_indices, offsets_of
from .._data.checks import short
from ._base import fingerprints, token_numbers
from ._columns import is_text, texts_of
from ._names import FeatureNames, escape
from ._templates import find_keys, value_text


class IdentityRows:
    """One indicator for each distinct text of training segments.   See RowBlock.

    Parameters
    ----------
    strings : ndarray of int
        The fingerprint of each feature's text.
    names : FeatureNames
    """

    def __init__(self, strings, names):
        self.feature_names, self.n_features = names, len(names)
        self._strings = freeze_indices(strings, 2**63, "texts of segments", np.int64)
        if len(strings) != len(names):
            raise ValueError(f"{len(strings)} texts of segments have {len(names)} names")
        self._order = np.argsort(self._strings)
        self._ascending = self._strings[self._order]

    def __reduce__(self):
        return IdentityRows, (self._strings, self.feature_names)

    @classmethod
    def from_strings(cls, strings, min_count) -> IdentityRows:
        """Return an indicator for each text without missing values that at least ``min_count`` segments have.

        The features are sorted by length and then by text. In names, spaces separate the tokens, unless all tokens are
        single characters.
        """
        start = np.flatnonzero(strings.lengths)
        stop = start + strings.lengths[start]
        fingerprint = fingerprints(token_numbers(strings.column, strings.field), start, stop)
        distinct, index, counts = np.unique(fingerprint, return_index=True, return_counts=True)
        kept = index[(counts >= min_count) & (distinct >= 0)].tolist()
        texts = {value: value_text(value, False) for value in strings.column.values.tolist()}
        separator = " " if any(len(text) != 1 for text in texts.values()) else ""
        if separator:
            texts = {value: escape(text, separator) for value, text in texts.items()}
        tokens = texts_of(strings.column)
        runs = sorted((stop[i] - start[i], tokens[start[i] : stop[i]], fingerprint[i]) for i in kept)
        names = ["identity=" + separator.join(map(texts.__getitem__, run)) for _, run, _ in runs]
        return cls(np.array([string for *_, string in runs], np.int64), FeatureNames.from_names(names))

    def rows(self, columns, offsets, token_data, start, stop) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the indicators of candidate segments; ``token_data`` contains the "number" of each token."""
        place = find_keys(self._ascending, fingerprints(token_data["number"], start, stop))
        present = place >= 0
        features = self._order[place[present]]
        return offsets_of(present), features, np.ones(len(features))


def check_functions(functions) -> tuple[tuple[str, Callable], ...]:
    """Return the names and the functions of the parameter ``functions``."""
    functions = (functions,) if callable(functions) else functions
    if isinstance(functions, (str, bytes)) or not np.iterable(functions):
        raise TypeError(f"functions must be a function, or a sequence or dict of functions, got {functions!r:.80}")
    named = functions.items() if isinstance(functions, Mapping) else ((None, function) for function in functions)
    checked: dict[str, Callable] = {}
    for i, (name, function) in enumerate(named):
        what = f"functions[{i if name is None else name!r}]"
        if not callable(function):
            raise TypeError(f"{what} = {function!r:.80} must be callable: function(tokens, starts, stops) -> array")
        name = _own_name(function) if name is None else name
        if not isinstance(name, str):
            raise TypeError(f"{what}: the name {name!r:.60} of a function must be a str")
        if name in checked:
            raise ValueError(f"two functions have the name {name!r}: name them in a dict {{name: function}}")
        checked[name] = function
    return tuple(checked.items())


class FunctionRows:
    """The values that functions return for all segments of a sequence at once.   See RowBlock.

    Parameters
    ----------
    functions : tuple of (str, callable)
        The name of each feature, and ``function(tokens, starts, stops)``, which returns an array of its values.
    fields : list
        Fields of the tokens.
    names : FeatureNames
        Names of the features that occur in training segments.
    """

    def __init__(self, functions, fields, names):
        self._functions, self._fields = functions, fields
        self.feature_names, self.n_features = names, len(names)
        self._index_of = {name: i for i, name in enumerate(names.tolist())}

    def __reduce__(self):
        return FunctionRows, (self._functions, self._fields, self.feature_names)

    @classmethod
    def from_segments(cls, functions, fields, batch, segments, min_count) -> Self:
        """Return the features that are nonzero for at least ``min_count`` training segments."""
        counts: Counter = Counter()
        for name, chosen, _ in _entries(functions, fields, batch.columns, batch.offsets, segments.start, segments.stop):
            counts[name] += len(chosen)
        names = sorted(name for name, n in counts.items() if n >= min_count)
        return cls(functions, fields, FeatureNames.from_names(names))

    def rows(self, columns, offsets, token_data, start, stop) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return those features of candidate segments that occur in training segments."""
        rows, indices, data = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        for name, segments, values in _entries(self._functions, self._fields, columns, offsets, start, stop):
            if name in self._index_of:
                rows.append(segments)
                indices.append(np.full(len(segments), self._index_of[name]))
                data.append(values)
        coordinates = np.concatenate(rows), np.concatenate(indices)
        table = sparse.csr_array((np.concatenate(data), coordinates), shape=(len(start), self.n_features))
        return table.indptr, table.indices, table.data


def _entries(functions, fields, columns, offsets, start, stop) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name, segment indices and nonzero values of each feature, one sequence at a time."""
    sequence = np.searchsorted(offsets, start, side="right") - 1
    order = np.argsort(sequence, kind="stable")
    of_sequence, firsts = np.unique(sequence[order], return_index=True)
    readers = {field: _reader(columns[field]) for field in fields}
    for n, segments in zip(of_sequence.tolist(), np.split(order, firsts)[1:], strict=True):
        first, last = int(offsets[n]), int(offsets[n + 1])
        cells = {field: _read_only(read(first, last)) for field, read in readers.items()}
        tokens = next(iter(cells.values())) if len(cells) == 1 else cells
        bounds = _read_only(start[segments] - first), _read_only(stop[segments] - first)
        for name, function in functions:
            values = _values(name, function, tokens, n, *bounds)
            chosen = np.flatnonzero(values)
            if len(chosen):
                yield name, segments[chosen], values[chosen]


def _reader(column) -> Callable[[int, int], np.ndarray]:
    """Return a function that reads the values of tokens first to last - 1; a missing value is None or nan."""
    if is_text(column):
        values = np.array([*column.values, None], dtype=object)
        return lambda first, last: values[column.codes[first:last]]
    return lambda first, last: column[first:last].copy()


def _read_only(array) -> np.ndarray:
    """Make an array read-only and return it, so that no function can change the array for the next function."""
    array.flags.writeable = False
    return array


def _own_name(function) -> str:
    function = function.func if isinstance(function, partial) else function
    return getattr(function, "__name__", type(function).__name__)


def _values(name, function, tokens, n, starts, stops) -> np.ndarray:
    """Return the numbers that a function returns for the segments of one sequence."""
    where = f"the segment function {name!r}, sequence {n}"
    try:
        result = function(tokens, starts, stops)
        array = np.asarray(result)
    except Exception as error:
        error.add_note(f"in {where}")
        raise
    if array.dtype.kind not in "biuf" or np.ma.isMaskedArray(result):
        raise TypeError(f"{where}: the result must be an array of numbers or bools, got {short(result)}")
    if array.shape != starts.shape:
        raise ValueError(f"{where}: the result has the shape {array.shape}, but there are {len(starts)} segments")
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        i = int(np.argmin(np.isfinite(values)))
        where = f"{where}, start {starts[i]}, stop {stops[i]}"
        raise ValueError(f"{where}: the result is {array[i]}; numbers must be finite")
    return values

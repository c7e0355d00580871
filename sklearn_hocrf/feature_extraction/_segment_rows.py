"""Features of segments that are computed for candidates: indicators of texts, and functions of users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from numbers import Real
from typing import Self

import numpy as np
from scipy import sparse

from .._data.arrays import freeze_indices, offsets_of
from .._data.checks import short
from .._data.messages import warn_unless_saved
from ._base import fingerprints, token_numbers
from ._columns import is_text, texts_of
from ._names import FeatureNames, escape
from ._templates import find_keys, value_text


class IdentityRows:
    """One indicator for each text of training segments.   See RowBlock.

    Parameters
    ----------
    strings : ndarray of int
        The fingerprint of the text of each feature.
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
        """Return the indicators of the texts of at least ``min_count`` segments, none of whose values is missing.

        Features are in the order of length, and then of texts. Tokens are separated by blanks, unless all are single
        characters.
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
    checked = []
    for i, (name, function) in enumerate(named):
        what = f"functions[{i if name is None else name!r}]"
        if not callable(function):
            raise TypeError(
                f"{what} = {function!r:.80} must be callable: function(tokens, starts, stops) -> array or dict of "
                "arrays"
            )
        warn_unless_saved(function, what)
        checked.append((_own_name(function) if name is None else name, function))
    return tuple(checked)


class FunctionRows:
    """The named values that functions return for all segments of a sequence at once.   See RowBlock.

    Parameters
    ----------
    functions : tuple of (str, callable)
        ``function(tokens, starts, stops)`` returns an array, which gets the name, or a dict of arrays.
    fields : list
        Fields of the tokens.
    names : FeatureNames
        Names of the features of training segments.
    """

    def __init__(self, functions, fields, names):
        self._functions, self._fields = functions, fields
        self.feature_names, self.n_features = names, len(names)
        self._index_of = {name: i for i, name in enumerate(names.tolist())}

    def __reduce__(self):
        return FunctionRows, (self._functions, self._fields, self.feature_names)

    @staticmethod
    def counts(functions, fields, columns, offsets, start, stop) -> Counter:
        """Return the number of training segments ``[start, stop)`` with each named value other than 0."""
        counts: Counter = Counter()
        for name, segments, _ in _entries(functions, fields, columns, offsets, start, stop):
            counts[name] += len(segments)
        return counts

    @classmethod
    def of_counts(cls, functions, fields, counts: Counter, min_count: int) -> Self:
        """Return the features that occur in at least ``min_count`` training segments."""
        return cls(
            functions, fields, FeatureNames.from_names(sorted(name for name, n in counts.items() if n >= min_count))
        )

    def rows(self, columns, offsets, token_data, start, stop) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the features of candidate segments, without those that occur in no training segment."""
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
    """Yield name, indices of segments and nonzero values of each feature, one sequence at a time."""
    sequence = np.searchsorted(offsets, start, side="right") - 1
    order = np.argsort(sequence, kind="stable")
    of_sequence, firsts = np.unique(sequence[order], return_index=True)
    readers = {field: _reader(columns[field]) for field in fields}
    for n, segments in zip(of_sequence.tolist(), np.split(order, firsts)[1:], strict=True):
        first, last = int(offsets[n]), int(offsets[n + 1])
        cells = {field: _read_only(read(first, last)) for field, read in readers.items()}
        tokens = next(iter(cells.values())) if len(cells) == 1 else cells
        bounds = _read_only(start[segments] - first), _read_only(stop[segments] - first)
        for name, total in _added_up(functions, tokens, n, *bounds).items():
            chosen = np.flatnonzero(total)
            if len(chosen):
                yield name, segments[chosen], total[chosen]


def _reader(column) -> Callable[[int, int], np.ndarray]:
    """Return a function for the values of tokens first to last - 1; a missing text is None, a missing number is nan."""
    if is_text(column):
        values = np.array([*column.values, None], dtype=object)
        return lambda first, last: values[column.codes[first:last]]
    return lambda first, last: column[first:last].copy()


def _read_only(array) -> np.ndarray:
    """Make an array read-only, so that no function changes it for the next one, and return it."""
    array.flags.writeable = False
    return array


def _added_up(functions, tokens, n, starts, stops) -> dict[str, np.ndarray]:
    """Return the values of segment features in a sequence, by name; values of equal names are added."""
    totals: dict[str, np.ndarray] = {}
    own_names: set[str] = set()
    for own_name, function in functions:
        for name, positions, values in _call(own_name, function, tokens, n, (starts, stops), own_names):
            totals.setdefault(name, np.zeros(len(starts)))[positions] += values
    for name, total in totals.items():
        if not np.isfinite(total).all():
            i = int(np.argmin(np.isfinite(total)))
            raise ValueError(
                f"sequence {n}, start {starts[i]}, stop {stops[i]}: values of {short(name)} add up to {total[i]}"
            )
    return totals


def _own_name(function) -> str:
    function = function.func if isinstance(function, partial) else function
    return getattr(function, "__name__", type(function).__name__)


def _call(own_name, function, tokens, n, bounds, own_names) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, positions of segments and values of the features that a function returns for one sequence.

    ``own_names`` are the names of earlier functions that named their arrays; the name of this function is added if it
    names its array.
    """
    where = f"the segment function {own_name!r}, sequence {n}"
    try:
        result = function(tokens, *bounds)
        if not isinstance(result, Mapping):
            if own_name in own_names:
                raise ValueError(f"two functions have the name {own_name!r}: name them in a dict {{name: function}}")
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
    counted, values = np.flatnonzero(~np.ma.getmaskarray(array)), array.data
    if values.dtype.kind not in "biuf":
        numbers_at, items = [], values.tolist()
        texts_at: dict[str, list[int]] = {}
        for i in counted.tolist():
            if isinstance(items[i], str):
                texts_at.setdefault(items[i], []).append(i)
            elif isinstance(items[i], (Real, np.bool_)):
                numbers_at.append(i)
            elif items[i] is not None:
                raise TypeError(
                    f"{where}, start {starts[i]}, stop {stops[i]}: {key!r} is {items[i]!r:.60}; values must be str, "
                    "numbers, bools or None"
                )
        for text, chosen in texts_at.items():
            yield f"{escape(key, '=')}={text}", np.array(chosen), np.ones(len(chosen))
        counted = np.array(numbers_at, dtype=np.int64)
    numbers = values[counted].astype(np.float64)
    if not np.isfinite(numbers).all():
        i = counted[np.argmin(np.isfinite(numbers))]
        raise ValueError(f"{where}, start {starts[i]}, stop {stops[i]}: {key!r} is {values[i]}; numbers must be finite")
    yield key, counted, numbers

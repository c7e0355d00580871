"""Convert raw tokens to columns of integer codes, numbers or arrays.

    [["in", "the"], ["a"]]   ->   offsets [0, 2, 3],  {"w": TokenColumn(codes [0, 1, 2], values ["in", "the", "a"])}

Only this module processes every token as a Python object, in one pass per column. A column contains text (a
:class:`TokenColumn`), numbers (float64 of shape (N,), with bools as 0 and 1, and nan where the token lacks the field),
or arrays (an :class:`ArrayColumn`; a batch stores their numbers in its dense columns instead).

Fields that contain an array for each token, such as embeddings, become dense feature columns.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._data.arrays import freeze, offsets_of
from .._data.checks import short
from .._data.columns import TokenColumn
from .._data.messages import warn_user
from .._reading.labels import position_name
from .._reading.rows import FRAMES_FIRST, NA_TOKENS, are_finite
from .._reading.values import is_missing, to_float, without_columns
from ._names import escape

TEXT_FIELD = "w"  # the only field of plain strings
NUMBER_FIELD = "x"  # the only field of plain numbers
MISSING = "no values"  # the kind of a column in which all values are missing


class TokenTable(NamedTuple):
    """The raw columns of a list of sequences.   N tokens."""

    offsets: np.ndarray  # (n_sequences + 1,) int64   token range of each sequence
    columns: dict[Any, TokenColumn | np.ndarray | ArrayColumn]  # by field; text, numbers of shape (N,), or arrays
    kind: str  # "text", "number", "tuple", "dict", "batch", "attributes", or "empty" if there are no tokens
    absent: frozenset = frozenset()  # requested fields that no dict contains, not even with None
    attributes: list | None = None  # sequences of feature dicts or lists of attribute names


def is_text(column) -> bool:
    return isinstance(column, TokenColumn)


def kind_of_column(column) -> str:
    """Return the kind of values in a column."""
    if isinstance(column, ArrayColumn):
        return f"arrays of {column.values.shape[1]} numbers"
    return "numbers" if not is_text(column) else "text" if len(column.values) else MISSING


def texts_of(column) -> list:
    """Return the string of each token, or None where it is missing."""
    return np.array([*column.values, None], dtype=object)[column.codes].tolist()


def without_arrays(columns) -> dict:
    """Return all columns except array columns."""
    return {field: column for field, column in columns.items() if not isinstance(column, ArrayColumn)}


def _lacks_value(column) -> np.ndarray:
    """Return a mask of the tokens without a value, bool of shape (N,)."""
    if isinstance(column, ArrayColumn):
        return column.lacks
    return column.codes < 0 if is_text(column) else np.isnan(column)


def complete_fields(columns) -> list:
    """Return the fields that every token contains."""
    return [field for field, column in columns.items() if not _lacks_value(column).any()]


def check_complete(columns, offsets, complete, absent=()) -> None:
    """Check that the columns of new data include every field that all training tokens contained.

    Raises
    ------
    ValueError
        If such a field is in ``absent``, which lists the fields that no token contains, not even with the value None.

    Warns
    -----
    UserWarning
        If some tokens lack a value for such a field.
    """
    lacking = {field: lacks for field in complete if (lacks := _lacks_value(columns[field])).any()}
    for field in lacking:
        if field in absent:
            raise ValueError(
                f"{position_name(offsets, 0)}: the field {short(field)} is missing, which every training token had "
                f"(fields: {short(list(complete))[1:-1]}); no token of X has it"
            )
    if lacking:
        lacks = np.any(list(lacking.values()), axis=0)
        t = int(np.argmax(lacks))
        field = next(field for field, lacks in lacking.items() if lacks[t])
        warn_user(
            f"{lacks.sum()} of {len(lacks)} tokens lack a field that every training token had: first "
            f"{position_name(offsets, t)}, the field {short(field)}"
        )


def read_tokens(X, fields=None) -> TokenTable:
    """Return the columns of raw sequences.

    ``fields`` names the columns of tuples, rows, plain strings or numbers; for dicts, it selects the keys to read.
    """
    sequences = _check_sequences(X)
    offsets = offsets_of(list(map(len, sequences)))
    if offsets[-1] == 0:
        return TokenTable(offsets, {}, "empty")
    tokens, kind = _token_kind(list(chain.from_iterable(sequences)), offsets)
    if kind == "dict":
        absent = frozenset(field for field in fields or () if not any(field in token for token in tokens))
        return TokenTable(offsets, _dict_columns(tokens, offsets, fields), kind, absent)
    if kind == "tuple":
        width = _check_array_width(list(map(len, tokens)), tokens, offsets)
        names = _column_names(fields, width)
        cells = [[row[j] for row in tokens] for j in range(width)]
    else:
        names = _column_names(fields, 1) if fields is not None else [TEXT_FIELD if kind == "text" else NUMBER_FIELD]
        cells = [tokens]
    return TokenTable(offsets, {f: column_of(c, _cell_of(offsets, f)) for f, c in zip(names, cells, strict=True)}, kind)


def _check_sequences(X) -> list:
    """Return X as a list of lists and tuples."""
    X = without_columns(X)
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise TypeError(
            f"X must be a list of sequences of tokens, got {type(X).__name__}; a single sequence is [tokens], "
            "for instance [text.split()]"
        )
    is_table = sparse.issparse(X) or len(getattr(X, "shape", ())) == 2
    if is_table and hasattr(X, "columns"):
        raise ValueError(
            f"X is a data frame, but a list of sequences is expected: {FRAMES_FIRST}; if it is one sequence, "
            "wrap it: [X]"
        )
    if is_table:
        raise ValueError(
            "X has two dimensions, but a list of sequences is expected: if it is one sequence, wrap it: [X]; if each "
            "row is one, pass X.tolist()"
        )
    sequences = list(X)
    if not set(map(type, sequences)) <= {list, tuple}:
        sequences = [_check_sequence(sequence, n) for n, sequence in enumerate(sequences)]
    return sequences


def _check_sequence(sequence, n):
    if isinstance(sequence, (list, tuple)):
        return sequence
    if isinstance(sequence, (str, bytes)):
        raise ValueError(
            f"sequence {n} is the text {short(sequence)}, but a sequence is a list of tokens: text.tokenize(X) splits "
            "texts into tokens, list(text) gives the characters of one, and a single sequence is [X]"
        )
    is_frame = len(getattr(sequence, "shape", ())) == 2 and not isinstance(sequence, np.ndarray)
    if is_frame and hasattr(sequence, "to_dicts"):  # polars; iterating over a frame would yield columns or their names
        return sequence.to_dicts()
    if is_frame and hasattr(sequence, "to_dict"):  # pandas
        return sequence.to_dict("records")
    if is_frame or sparse.issparse(sequence) or isinstance(sequence, Mapping) or not isinstance(sequence, Iterable):
        raise TypeError(f"sequence {n} must be a list of tokens or a 2-D array, got {type(sequence).__name__}")
    if not isinstance(sequence, np.ndarray):
        return list(sequence)
    if sequence.ndim not in (1, 2):
        raise ValueError(
            f"sequence {n} has {sequence.ndim} dimensions; an array must have shape (T, n_columns) or (T,)"
        )
    return sequence.tolist()  # None for masked entries


def columns_of_one(tokens, space, widths, may_have_more) -> dict | None:
    """Return the columns of one sequence of tokens: lists of strings or floats, and array columns.

    The result is None unless all cells are strings, numbers or arrays of common types that match the
    :class:`InputSpace`. If ``may_have_more`` is true, dicts may contain further keys, which a batch does not read.
    """
    kind, kinds = space.form, space.kinds
    tokens = tokens.tolist() if type(tokens) is np.ndarray and tokens.ndim in (1, 2) else tokens
    types = set(map(type, tokens)) if type(tokens) is list else set()
    if kind == "text" and types == {str}:
        return dict.fromkeys(kinds, tokens)
    if kind == "tuple" and types in ({tuple}, {list}) and set(map(len, tokens)) == {len(kinds)}:
        columns = [list(column) for column in zip(*tokens, strict=True)]
    elif kind == "dict" and types == {dict} and (may_have_more or set(map(len, tokens)) == {len(kinds)}):
        columns = [[token.get(field) for token in tokens] for field in kinds]
    elif kind == "number" and types <= _NUMBERS:
        columns = [tokens]
    else:
        return None
    found: dict = {}
    for field, cells in zip(kinds, columns, strict=True):
        if field in widths:
            found[field] = _common_arrays(cells, widths[field])
        elif kinds[field] == "numbers":
            found[field] = _common_numbers(cells)
        else:
            found[field] = cells if set(map(type, cells)) == {str} else None
        if found[field] is None:
            return None
    return found


_NUMBERS = {float, int, bool, np.float64}


def _common_numbers(cells) -> list | None:
    """Return finite numbers as floats; None if :func:`column_of` must convert the cells."""
    try:
        numbers = [*map(float, cells)] if set(map(type, cells)) <= _NUMBERS else [math.nan]
    except OverflowError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _common_arrays(cells, width) -> ArrayColumn | None:
    """Return a column of finite float arrays of a given width; None if :func:`array_column` must convert the cells."""
    is_common = set(map(type, cells)) == {np.ndarray} and {array.dtype.char for array in cells} <= {"f", "d"}
    if not is_common or {array.shape for array in cells} != {(width,)}:
        return None
    with np.errstate(over="ignore"):
        values = np.array(cells, np.float32)
    return ArrayColumn(values, np.zeros(len(cells), bool)) if are_finite(values) else None


def _token_kind(tokens, offsets):
    """Return the tokens, with arrays turned into lists, and their common form: text, number, tuple or dict."""
    kinds = {kind: _kind_of_type(kind) for kind in dict.fromkeys(map(type, tokens))}  # the first fault is named
    for kind, name in kinds.items():
        if name is None:
            t = next(t for t, token in enumerate(tokens) if type(token) is kind)
            raise TypeError(
                f"{position_name(offsets, t)}: a token must be a str, a tuple, a dict, a row of numbers or a number, "
                f"got {short(tokens[t])} of type {kind.__name__}"
            )
    first = kinds[type(tokens[0])]
    if len(set(kinds.values())) > 1:
        t = next(t for t, token in enumerate(tokens) if kinds[type(token)] != first)
        hint = NA_TOKENS if is_missing(tokens[t]) or is_missing(tokens[0]) else ""
        raise ValueError(
            f"{position_name(offsets, t)}: the token {short(tokens[t])} is a {type(tokens[t]).__name__}, but the first "
            f"token {short(tokens[0])} is a {type(tokens[0]).__name__}; all tokens must have one form{hint}"
        )
    if any(issubclass(kind, np.ndarray) for kind in kinds):
        tokens = [token.tolist() if isinstance(token, np.ndarray) else token for token in tokens]
    return tokens, first


def _kind_of_type(kind) -> str | None:
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, (numbers.Real, np.bool_)):
        return "number"
    if issubclass(kind, (tuple, list, np.ndarray)):
        return "tuple"
    if kind.__name__ in ("NAType", "NaTType"):
        return "missing"
    return "dict" if issubclass(kind, Mapping) else None


def _cell_of(offsets, field):
    return lambda t: f"{position_name(offsets, t)}: field {short(field)}"


def _check_array_width(widths, tokens, offsets) -> int:
    if len(set(widths)) > 1:
        t = next(t for t, width in enumerate(widths) if width != widths[0])
        raise ValueError(
            f"{position_name(offsets, t)}: the token {short(tokens[t])} has {widths[t]} columns, "
            f"but the first token has {widths[0]}; lists of attribute names need templates='attributes'"
        )
    if widths[0] == 0:
        raise ValueError(f"{position_name(offsets, 0)}: the token {short(tokens[0])} has no columns")
    return widths[0]


def _column_names(fields, width):
    if fields is None:
        return list(range(width))
    if len(fields) != width:
        raise ValueError(f"fields has {len(fields)} names {tuple(fields)!r}, but the tokens have {width} columns")
    return list(fields)


def _dict_columns(tokens, offsets, fields):
    if fields is None:
        fields = dict.fromkeys(chain.from_iterable(tokens))  # in the order of their first appearance
    return {field: column_of([token.get(field) for token in tokens], _cell_of(offsets, field)) for field in fields}


def column_of(cells, describe: Callable[[int], str]) -> TokenColumn | np.ndarray | ArrayColumn:
    """Return cells as a column; None and pandas' NA and NaT are missing values.

    ``describe(t)`` names cell t in error messages.
    """
    kinds = _kinds_of_cells(cells)
    if "array" in kinds.values():
        return array_column(cells, describe)
    if "missing" in kinds.values() or {"text", "number"} <= set(kinds.values()):  # nan may be a missing text
        cells = [None if is_missing(cell) else cell for cell in cells]
        kinds = _kinds_of_cells(cells)
    distinct_kinds = set(kinds.values())
    if distinct_kinds <= {"text"}:
        return text_column(cells)
    if distinct_kinds == {"number"}:
        return _number_column(cells, describe)
    kinds[type(None)] = "missing"
    first = next(kind for kind in map(kinds.__getitem__, map(type, cells)) if kind != "missing")
    good = {first, "missing"} & {"text", "number", "missing"}
    t, cell = next((t, cell) for t, cell in enumerate(cells) if kinds[type(cell)] not in good)
    what = f"{describe(t)} is {short(cell)}, of type {type(cell).__name__}"
    if kinds[type(cell)] in ("text", "number"):
        raise ValueError(f"{what}, but the values before it are {first}s; make them all text or all numbers")
    raise TypeError(f"{what}; it must be a str, a number, a bool, a numpy array of numbers or None")


def _kinds_of_cells(cells) -> dict:
    kinds = set(map(type, cells)) - {type(None)}
    return {kind: "array" if is_array_type(kind) else _kind_of_type(kind) for kind in kinds}


def text_column(cells) -> TokenColumn:
    """Return cells, which are strings or None, as a column."""
    code_of = dict.fromkeys(cells)
    code_of.pop(None, None)
    values = np.array(list(code_of), dtype=object)
    code_of.update(zip(values, range(len(values)), strict=True))
    code_of[None] = -1
    codes = np.fromiter(map(code_of.__getitem__, cells), np.int32, len(cells))
    return TokenColumn(freeze(codes, np.int32), values)


def _number_column(cells, describe) -> TokenColumn | np.ndarray:
    try:
        column = np.array(cells, dtype=np.float64)  # None becomes nan
    except OverflowError:
        column = np.array([None if cell is None else to_float(cell) for cell in cells], dtype=np.float64)
    if np.isnan(column).all():  # a text column without any values looks the same
        return text_column([None] * len(cells))
    for t in np.flatnonzero(~np.isfinite(column)).tolist():
        if cells[t] is not None:
            raise ValueError(f"{describe(t)} is {short(cells[t])}; numbers must be finite")
    return freeze(column, np.float64)


def _gather(column, codes):
    """Return ``column[codes]``, with missing values where a code is -1."""
    if is_text(column):
        return TokenColumn(freeze(np.append(column.codes, np.int32(-1))[codes], np.int32), column.values)
    return freeze(np.append(column, np.nan)[codes], np.float64)


def apply_function(function: Callable, column, name) -> TokenColumn | np.ndarray:
    """Return a column of the results of ``function``, which is called once per distinct value."""
    if is_text(column):
        values, codes = column.values.tolist(), column.codes
    else:
        distinct, inverse = np.unique(column, return_inverse=True)  # nan comes last
        n_distinct = int(np.isfinite(distinct).sum())
        values, codes = distinct[:n_distinct].tolist(), np.where(inverse < n_distinct, inverse, -1)
    results = []
    for value in values:
        try:
            results.append(function(value))
        except Exception as error:
            error.add_note(f"in the token feature {name!r}, called with {short(value)}")
            raise
    column = column_of(results, lambda k: f"the token feature {name!r} of {short(values[k])}")
    return _gather(column, codes)


class ArrayColumn(NamedTuple):
    """A field that contains an array of numbers for each token.   N tokens, d numbers per array."""

    values: np.ndarray  # (N, d) float32   0 where the token has no array
    lacks: np.ndarray  # (N,) bool   tokens without an array

    def take(self, tokens) -> ArrayColumn:
        """Return the column for the given tokens."""
        return ArrayColumn(self.values[tokens], self.lacks[tokens])


def is_array_type(kind) -> bool:
    """Return whether values of a type are numpy arrays, or arrays of another library that numpy can read."""
    return issubclass(kind, np.ndarray) or (hasattr(kind, "__array__") and not issubclass(kind, np.generic))


def array_column(cells, describe: Callable[[int], str]) -> ArrayColumn:
    """Return cells, which are arrays of numbers of the same length or missing, as a column.

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
    """The (field, offset) pairs that produce dense columns, and the array length of each field."""

    pairs: list
    widths: Mapping

    @property
    def n_features(self) -> int:
        return sum(self.widths[field] for field, _ in self.pairs)

    def names(self) -> np.ndarray:
        """Return the names of the features: ``vector[0]`` and so on; for a neighbour, ``vector[-1][0]`` and so on."""
        names = [
            f"{escape(str(field), '|=')}{f'[{offset}]' if offset else ''}[{i}]"
            for field, offset in self.pairs
            for i in range(self.widths[field])
        ]
        return np.array(names, dtype=object)

    def values(self, columns, window) -> np.ndarray:
        """Return the numbers of all tokens, (N, n_features) float32; 0 for missing arrays and outside the sequence."""
        n_tokens, parts = len(window.from_begin), []
        for field, offset in self.pairs:
            column, part = columns[field], np.zeros((n_tokens, self.widths[field]), np.float32)
            if isinstance(column, ArrayColumn):
                part = window.shift(column.values, offset, 0.0, 0.0)
            parts.append(part)
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

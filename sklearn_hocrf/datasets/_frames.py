"""Convert data frames with one row per token to sequences, and predictions back to data frames.

pandas is read by its own methods, all other data frame libraries through narwhals. The row numbers of each sequence are
stored, so that predictions can be assigned to their rows for any order of the sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from sklearn.utils import Bunch

from .._data.checks import is_missing, short
from .._data.schemes import looks_like_segments

__all__ = ["frame_from_predictions", "sequences_from_frame"]

PREDICTION, PROBABILITY = "prediction", "probability"  # columns of the result


class Table(Protocol):
    """The common interface to data frames of all libraries."""

    columns: list

    def __len__(self) -> int: ...
    def values(self, name: Any) -> list: ...
    def is_numeric(self, name: Any) -> bool: ...
    def with_columns(self, columns: dict[str, list]) -> Any: ...


class PandasTable:
    """A pandas data frame."""

    def __init__(self, frame: Any) -> None:
        self.frame, self.columns = frame, list(frame.columns)

    def __len__(self) -> int:
        return len(self.frame)

    def values(self, name: Any) -> list:
        return self.frame[name].tolist()

    def is_numeric(self, name: Any) -> bool:
        return getattr(self.frame[name].dtype, "kind", "O") in "biuf"

    def with_columns(self, columns: dict[str, list]) -> Any:
        return self.frame.assign(**columns)


class NarwhalsTable:
    """A data frame of polars, pyarrow, modin or another library that narwhals knows."""

    def __init__(self, frame: Any) -> None:
        try:
            import narwhals
        except ImportError as error:
            raise ImportError(
                f"a {type(frame).__module__.split('.')[0]} frame requires narwhals (pip install narwhals); a pandas "
                "frame does not"
            ) from error
        self.narwhals: Any = narwhals
        self.frame: Any = narwhals.from_native(frame, eager_only=True)
        self.columns = self.frame.columns

    def __len__(self) -> int:
        return len(self.frame)

    def values(self, name: Any) -> list:
        return self.frame[name].to_list()

    def is_numeric(self, name: Any) -> bool:
        dtype = self.frame[name].dtype
        return dtype.is_numeric() or dtype == self.narwhals.Boolean

    def with_columns(self, columns: dict[str, list]) -> Any:
        backend = self.frame.implementation
        series = [self.narwhals.new_series(name, values, backend=backend) for name, values in columns.items()]
        return self.frame.with_columns(*series).to_native()


def sequences_from_frame(
    frame: Any, sequence: Any, tokens: Any, target: Any = None, *, sort: Any = None, group: Any = None
) -> Bunch:
    """Read sequences from a data frame with one row per token.

    Parameters
    ----------
    frame : data frame
        A pandas data frame; with narwhals installed, also a data frame of polars, pyarrow and other libraries.
    sequence : column name
        Identifies the sequence of each row.
    tokens : column name or list of column names
        The tokens. One column: its values. A list of columns, all numeric: an array of shape (T, n_columns) for each
        sequence. A list with other columns: a dict for each token.
    target : column name or None, default=None
        The labels. Missing labels (None, nan) become None, which marks an unknown label.
    sort : column name, list of column names or None, default=None
        Order of the rows within a sequence, such as a time. The rows of a sequence then need not be contiguous. None:
        the rows of a sequence are contiguous and in the order of its tokens.
    group : column name or None, default=None
        Group of each sequence, for splitters such as :class:`~sklearn.model_selection.GroupKFold`.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        data : list of lists of values or dicts, or list of ndarray of shape (T, n_columns), float64
            The tokens. Missing values are None, or nan in arrays.
        target : list of lists, or None
            The labels.
        sequence : list
            The values of the column `sequence`, in the order of their first rows.
        group : list, or None
            The group of each sequence.
        rows : list of ndarray of shape (T,), int64
            The row numbers of each sequence.
        frame : data frame
            The given frame.

    Raises
    ------
    ImportError
        If the frame is not a pandas data frame and narwhals is not installed.
    TypeError
        If `frame` is not a data frame, or values of `sort` cannot be compared.
    ValueError
        If a column is missing, if the rows of a sequence are not contiguous, if a row lacks a sequence, a group or a
        value to sort by, or if a sequence has several groups. The message names the row, counted from 0.

    See Also
    --------
    frame_from_predictions : Add predictions to the rows.

    Examples
    --------
    >>> import pandas as pd  # pip install pandas
    >>> from sklearn_hocrf.datasets import sequences_from_frame
    >>> frame = pd.DataFrame(
    ...     {"s": [7, 7, 9], "w": ["Ann", "left", "Bob"], "tag": ["N", "V", None]}
    ... )
    >>> bunch = sequences_from_frame(frame, "s", "w", "tag")
    >>> bunch.data, bunch.target, bunch.sequence
    ([['Ann', 'left'], ['Bob']], [['N', 'V'], [None]], [7, 9])
    """
    table = _read_table(frame)
    names = list(tokens) if isinstance(tokens, list) else [tokens]
    if not names:
        raise ValueError("tokens must name at least one column")
    keys = [] if sort is None else list(sort) if isinstance(sort, list) else [sort]
    for name in [sequence, *names, *keys, *(column for column in (target, group) if column is not None)]:
        _check_column(table, name)
    numbers, values = _number(table.values(sequence), sequence)
    order = _order(table, numbers, values, keys)
    rows = np.split(order, np.cumsum(np.bincount(numbers, minlength=len(values)))[:-1]) if values else []
    return Bunch(
        data=_read_tokens(table, names, isinstance(tokens, list), rows),
        target=None if target is None else _take(_labels(table.values(target)), rows),
        sequence=values,
        group=None if group is None else _groups(table.values(group), rows, values),
        rows=rows,
        frame=frame,
    )


def frame_from_predictions(bunch: Bunch, y_pred: Sequence[Any], *, probability: Any = None) -> Any:
    """Return the frame of the tokens with predictions in new columns.

    Parameters
    ----------
    bunch : :class:`~sklearn.utils.Bunch`
        The result of :func:`sequences_from_frame`.
    y_pred : list of label sequences
        The labels of all sequences, in the order of the bunch.
    probability : list of sequences of float, or None, default=None
        A number for each token, such as its highest marginal.

    Returns
    -------
    frame : data frame
        A copy of the given frame, with rows in the original order and the additional column "prediction" and, if given,
        "probability". Existing columns of these names are replaced.

    Raises
    ------
    ValueError
        If there is not exactly one label, or number, per token; the message names the sequence.

    See Also
    --------
    sequences_from_frame : Read the frame.

    Examples
    --------
    >>> import pandas as pd  # pip install pandas
    >>> from sklearn_hocrf.datasets import frame_from_predictions, sequences_from_frame
    >>> frame = pd.DataFrame({"s": [7, 9, 7], "t": [1, 1, 0], "w": ["left", "Bob", "Ann"]})
    >>> bunch = sequences_from_frame(frame, "s", "w", sort="t")
    >>> frame_from_predictions(bunch, [["N", "V"], ["N"]])
       s  t     w prediction
    0  7  1  left          V
    1  9  1   Bob          N
    2  7  0   Ann          N
    """
    y_pred = list(y_pred)
    if looks_like_segments(y_pred):
        raise ValueError("y_pred contains segments (start, stop, label), but one label per token is expected")
    columns = {PREDICTION: _in_rows(bunch, y_pred, "y_pred")}
    if probability is not None:
        columns[PROBABILITY] = [float(number) for number in _in_rows(bunch, list(probability), "probability")]
    return _read_table(bunch.frame).with_columns(columns)


def _read_table(frame: Any) -> Table:
    if not hasattr(frame, "columns"):
        raise TypeError(f"frame must be a data frame, got {short(frame)} ({type(frame).__name__})")
    return PandasTable(frame) if type(frame).__module__.split(".")[0] == "pandas" else NarwhalsTable(frame)


def _check_column(table: Table, name: Any) -> None:
    found = table.columns.count(name)
    if found == 0:
        raise ValueError(f"the frame has no column {short(name)}; its columns are {short(table.columns, 80)}")
    if found > 1:
        raise ValueError(f"the frame has {found} columns named {short(name)}")


def _number(values: list, name: Any) -> tuple[np.ndarray, list]:
    """Return the sequence number of each row, in the order of first rows, and the names of the sequences."""
    numbers: dict = {}
    for row, value in enumerate(values):
        if is_missing(value):
            raise ValueError(f"row {row} has no sequence: {short(name)} is {value}")
        numbers.setdefault(value, len(numbers))
    return np.array([numbers[value] for value in values], dtype=np.int64), list(numbers)


def _order(table: Table, numbers: np.ndarray, values: list, keys: list) -> np.ndarray:
    """Return the numbers of the rows, by sequence and then by the columns to sort by."""
    if keys:
        ranks = [_ranks(table.values(name), name) for name in keys]
        return np.lexsort([*ranks[::-1], numbers])
    back = np.flatnonzero(numbers[1:] < numbers[:-1]) + 1  # numbers decrease only where a sequence reappears
    if len(back):
        row = int(back[0])
        raise ValueError(
            f"the rows of sequence {short(values[numbers[row]])} are not contiguous (row {row}): sort, or pass sort="
        )
    return np.arange(len(numbers))


def _ranks(values: list, name: Any) -> np.ndarray:
    for row, value in enumerate(values):
        if is_missing(value):
            raise ValueError(f"row {row} has no value to sort by: {short(name)} is {value}")
    try:
        rank = {value: number for number, value in enumerate(sorted(set(values)))}
    except TypeError as error:
        raise TypeError(f"the values of {short(name)} cannot be sorted: {error}") from error
    return np.array([rank[value] for value in values], dtype=np.int64)


def _take(values: list, rows: list[np.ndarray]) -> list[list]:
    return [[values[row] for row in of_sequence.tolist()] for of_sequence in rows]


def _read_tokens(table: Table, names: list, is_list: bool, rows: list[np.ndarray]) -> list:
    columns = [[None if is_missing(value) else value for value in table.values(name)] for name in names]
    if not is_list:
        return _take(columns[0], rows)
    if all(table.is_numeric(name) for name in names):
        array = np.array([[np.nan if value is None else float(value) for value in column] for column in columns]).T
        return [array[of_sequence] for of_sequence in rows]
    return _take([dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)], rows)


def _labels(values: list) -> list:
    """Return labels with None for missing ones; integers that became floats because of these are restored."""
    labels = [None if is_missing(value) else value for value in values]
    if all(label is None or (isinstance(label, float) and label.is_integer()) for label in labels):
        return [None if label is None else int(label) for label in labels]
    return labels


def _groups(values: list, rows: list[np.ndarray], sequences: list) -> list:
    groups = []
    for name, of_sequence in zip(sequences, rows, strict=True):
        first = int(of_sequence[0])
        for row in of_sequence.tolist():
            if is_missing(values[row]):
                raise ValueError(f"row {row} has no group (sequence {short(name)})")
            if values[row] != values[first]:
                raise ValueError(
                    f"sequence {short(name)} has several groups: {short(values[first])} at row {first}, "
                    f"{short(values[row])} at row {row}"
                )
        groups.append(values[first])
    return groups


def _in_rows(bunch: Bunch, sequences: list, name: str) -> list:
    """Return the values of all tokens in the order of the frame's rows."""
    if len(sequences) != len(bunch.rows):
        raise ValueError(f"{name} has {len(sequences)} sequences, but the frame has {len(bunch.rows)}")
    column: list = [None] * sum(map(len, bunch.rows))
    for n, (values, rows) in enumerate(zip(sequences, bunch.rows, strict=True)):
        shape = np.shape(values) if hasattr(values, "shape") else (len(values),)
        if shape != (len(rows),):
            raise ValueError(
                f"{name}[{n}] (sequence {short(bunch.sequence[n])}) has shape {shape}, but the sequence has "
                f"{len(rows)} tokens: one value per token is needed"
            )
        for row, value in zip(rows.tolist(), values.tolist() if hasattr(values, "tolist") else values, strict=True):
            column[row] = value
    return column

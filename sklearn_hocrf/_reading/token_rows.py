"""The tokens of all sequences as rows of one table, and the division of a table of results into the same sequences."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from .._data.arrays import offsets_of
from .._data.batch import SequenceBatch
from .._data.checks import short
from .inputs import input_form
from .rows import n_tokens, refuse_non_sequence
from .values import without_columns


class TokenRows(NamedTuple):
    """The tokens of X.   N tokens."""

    X: Any
    rows: Any  # of all tokens: an array, a sparse matrix, a data frame, or a list of tokens
    offsets: np.ndarray  # (n_sequences + 1,) int64   token range of each sequence
    form: str  # of X: "table", "grid" or "sequences"

    @classmethod
    def from_sequences(cls, X, name, fit=False, axes=(2,)) -> Self:
        """Return the tokens of X; raise an error if ``fit`` is true and X has none.

        ``name`` is the name of the estimator in messages; ``axes`` are the accepted numbers of dimensions of sequences
        that are arrays.
        """
        tokens = cls._of(without_columns(X), name, axes)
        if fit and not tokens.offsets[-1]:
            raise ValueError(f"X has no tokens: {name} needs at least one to learn from")
        return tokens

    @classmethod
    def _of(cls, X, name, axes):
        form = input_form(X)
        if isinstance(X, SequenceBatch):
            return cls(X, _rows_of_batch(X, name), X.offsets, form)
        if form == "table":
            X = _checked_table(X)
            return cls(X, X, np.arange(n_tokens(X) + 1), form)
        sequences = list(X)
        for n, sequence in enumerate(sequences):
            refuse_non_sequence(sequence, n)
        full = {n: sequence for n, sequence in enumerate(sequences) if n_tokens(sequence)}
        return cls(X, _stacked(full, axes) if full else [], offsets_of(list(map(n_tokens, sequences))), form)

    @property
    def names(self) -> Any:
        """The column names of a batch, which its rows lack; None if X is not a batch."""
        return self.X.feature_names if isinstance(self.X, SequenceBatch) else None

    def refuse_other_size(self, rows, maker) -> None:
        """Raise a ValueError unless ``rows``, which the function named ``maker`` returned, has one row per token."""
        if n_tokens(rows) != self.offsets[-1]:
            raise ValueError(
                f"{maker} returned {n_tokens(rows)} rows for {self.offsets[-1]} tokens, but each token needs one"
            )

    def split(self, rows, names, maker) -> Any:
        """Return a table with one row per token in the form of X.

        ``names`` are the names of its columns, or None; ``maker`` is the name of the function that returned the table,
        for messages.
        """
        rows = np.empty((0, 0 if names is None else len(names))) if rows is None else rows
        self.refuse_other_size(rows, maker)
        if self.form == "table":
            return rows
        if isinstance(self.X, SequenceBatch):
            table = rows if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64)
            return SequenceBatch.from_table(table, self.offsets, names, self.X.columns)
        if self.form == "grid" and isinstance(rows, np.ndarray):
            return rows.reshape(*self.X.shape[:2], *rows.shape[1:])
        rows = rows.tocsr() if sparse.issparse(rows) else getattr(rows, "iloc", rows)
        return [rows[start:stop] for start, stop in pairwise(self.offsets.tolist())]


def _rows_of_batch(batch, name):
    if batch.blocks is not None:
        raise ValueError(f"X has features of segments, but {name} takes those of tokens: put it before the extractor")
    is_array = batch.dense is not None and len(batch.dense.attributes) == batch.n_attributes
    return batch.toarray() if is_array else batch.tocsr()


def _checked_table(X):
    """Return a plain table as an object with a length; raise an error if it is a list of unequal rows."""
    if not isinstance(X, (list, tuple)):
        return X if hasattr(X, "shape") else np.asarray(X)
    shapes = list(map(np.shape, X))
    for n, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"ragged rows: X[{n}] has the shape {shape}, but X[0] has {shapes[0]}; in a list of sequences, each "
                "token is a row: `[np.reshape(x, (-1, 1)) for x in X]`"
            )
    return X


def _stacked(full, axes):
    """Return the rows of the sequences in ``full``, by their indices; all must have the same type and columns."""
    kinds = {n: _kind(sequence, n, axes) for n, sequence in full.items()}
    first = next(iter(kinds))
    for n, kind in kinds.items():
        if kind != kinds[first]:
            raise ValueError(f"sequence {n} of X is {kind}, but sequence {first} is {kinds[first]}")
    sequences = list(full.values())
    if sparse.issparse(sequences[0]):
        return sparse.vstack(sequences, format="csr")
    if hasattr(sequences[0], "columns"):
        for n, frame in full.items():
            for column, expected in zip(frame.columns, full[first].columns, strict=True):
                if column != expected:
                    what = f"the column {short(column)} in place of {short(expected)}"
                    raise ValueError(f"sequence {n} of X has {what}, which sequence {first} has")
        return import_module(_library(sequences[0])).concat(sequences)
    if hasattr(sequences[0], "shape"):
        return np.concatenate(sequences)
    return [token for sequence in sequences for token in sequence]


def _kind(sequence, n, axes) -> str:
    """Return a description of the type and the columns of a sequence, or raise an error."""
    if hasattr(sequence, "columns"):
        if _library(sequence) not in ("pandas", "polars"):
            raise TypeError(f"sequence {n} of X is a frame of {_library(sequence)}: convert it to pandas or polars")
        return f"a data frame with {len(sequence.columns)} columns"
    if not hasattr(sequence, "shape"):
        return "a list"
    if np.ma.is_masked(sequence):
        raise ValueError(f"sequence {n} of X is masked: fill such entries, as X[{n}].filled(np.nan) does")
    if len(sequence.shape) not in axes:
        raise ValueError(
            f"sequence {n} of X has the shape {sequence.shape}, but must have one row per token: "
            f"X[{n}].reshape(-1, 1) is one column"
        )
    is_text = getattr(sequence.dtype, "kind", "O") in "SU"  # numpy would convert numbers next to strings
    kind = "a sparse matrix" if sparse.issparse(sequence) else "an array of texts" if is_text else "an array"
    return f"{kind} with {sequence.shape[1]} columns" if len(sequence.shape) > 1 else kind


def _library(frame) -> str:
    return type(frame).__module__.partition(".")[0]

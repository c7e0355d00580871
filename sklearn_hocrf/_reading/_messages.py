"""Checks and error messages shared by the readers of X."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._data.batch import SequenceBatch
from .._data.checks import GUIDE, short
from .labels import position_name
from .values import is_missing

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


class Places(NamedTuple):
    """Where the rows of a table are in X, for messages."""

    offsets: Any = None  # (n_sequences + 1,)   of stacked sequences; None if each row is a sequence
    names: Any = None  # (n_features,)   names or numbers of the features; None if all features are in the table

    def row(self, i: int) -> str:
        """Return the sequence and the position of a row."""
        return f"sequence {i}, position 0" if self.offsets is None else position_name(self.offsets, i)

    def feature(self, i: int) -> str:
        """Return the name of a feature, or its number."""
        return f"feature {i if self.names is None else short(self.names[i])}"


IN_X = Places()  # of a table as it is


def not_finite(value, where, if_missing="") -> ValueError:
    """Return the error for a value that is missing or infinite; scikit-learn's checks look for its first words."""
    what, hint = ("NaN", if_missing) if is_missing(value) or value != value else ("inf", "")
    return ValueError(f"Input X contains {what}: {where} is {short(value)}{hint}")


def refuse_broken(matrix, before="X") -> None:
    """Raise if indices of a sparse matrix are out of range: scipy's compiled code does not check them.

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
            copy(matrix).check_format()  # of the header alone: the check may replace its arrays
    except ValueError as error:
        raise ValueError(f"{before} is a broken sparse matrix: {error}") from None


def refuse_infinite_values(batch, places=IN_X) -> None:
    """Raise if a batch has values that are not finite: values of X, or sums of duplicate entries."""
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
    """Return whether an array has neither nan nor infinite values, without allocating another of its size."""
    return bool(np.isfinite([numbers.min(initial=0), numbers.max(initial=0)]).all())


def refuse_other_axes(block, n) -> None:
    """Raise unless an array or a sparse matrix for ``X[n]`` has rows of features."""
    if block.ndim != 2:
        raise ValueError(
            f"sequence {n} of X has {block.ndim} dimensions, but must have 2: position and feature; if its parts are "
            "sequences, pass `[sequence for part in X for sequence in part]`, and y likewise"
        )


def refuse_non_sequence(sequence, n) -> None:
    """Raise if ``X[n]`` cannot be a sequence."""
    if sparse.issparse(sequence):  # first: some kinds are dicts, some have no __getitem__
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

"""Read y: the concatenated labels of all tokens, or a list for each sequence."""

from __future__ import annotations

import numpy as np
from sklearn.utils import column_or_1d

from .._data.checks import short
from ._messages import ROWS_OF_NUMBERS
from .labels import flatten_labels, list_sequences, ordered_collection
from .schemes import looks_like_segments

FIXED = "the classes fixed by the first call of partial_fit"


def check_known_labels(labels, n_labels):
    """Raise a ValueError unless there are ``n_labels`` different labels."""
    if not isinstance(labels, np.ndarray) or labels.shape != (n_labels,) or len(set(labels.tolist())) < n_labels:
        raise ValueError(f"the labels must be an array of {n_labels} distinct labels, got {short(labels)}")


def read_labels(y, lengths, form, name, scheme, what="y") -> tuple[np.ndarray | list, bool]:
    """Return the concatenated labels of all tokens, and whether y was made of lists.

    None in place of a label sequence means None for each token.

    Parameters
    ----------
    y : list of label sequences, or array
    lengths : ndarray of shape (n_sequences,)
        Number of tokens of each sequence of X.
    form : {"table", "grid", "sequences"}
        Form of X; for a table y is 1-D.
    name : str
        Name of the estimator, for messages.
    scheme : str
        As for :func:`~sklearn_hocrf._reading.known.read_given`.
    what : str
        Name of y in messages.
    """
    y = read_collection(y, name, what)
    if form == "table":
        return _read_plain_labels(y, len(lengths), what)
    sequences = read_target_sequences(y, len(lengths), name, what)
    if scheme != "tokens" and looks_like_segments([sequence for sequence in sequences if sequence is not None]):
        raise ValueError(
            f'{what} contains (start, stop, label): scheme="segments"? With scheme={scheme!r} there must be one '
            "label per token"
        )
    for n, (labels, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
        if labels is None:
            sequences[n] = labels = [None] * length
        if len(labels) != length:
            raise ValueError(f"sequence {n} has {length} tokens in X, but {len(labels)} labels in {what}")
    are_arrays = all(isinstance(labels, np.ndarray) for labels in sequences if len(labels))
    return flatten_labels(sequences, what), not are_arrays


def read_target_sequences(y, n_sequences, name, what="y") -> list:
    """Return y as a list of lists or arrays, one for each sequence of X, or None where all labels are unknown."""
    y = read_collection(y, name, what)
    if len(y) != n_sequences:
        raise ValueError(f"X has {n_sequences} sequences, {what} has {len(y)}")
    return list_sequences(y, what, may_be_none=True)


def read_collection(y, name, what):
    """Return y with missing entries of arrays as None, or raise if it is no collection with an order."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    return ordered_collection(y, what, "a list of sequences of labels, or an array", "[list(text)]")


def _read_plain_labels(y, n_rows, what):
    """Read the labels of a plain 2-D X, one per row."""
    as_lists = not isinstance(y, np.ndarray)
    if as_lists and any(isinstance(label, (list, np.ndarray)) for label in y) or not as_lists and y.ndim > 1:
        if len(y) == 1 and np.size(y[0]) == n_rows > 1:
            raise ValueError(f"{what} contains one sequence of labels, but X is a plain 2-D array: wrap it, too: `[X]`")
        is_column = all(np.shape(labels)[:1] in ((), (1,)) for labels in y)
        if as_lists or not is_column:
            remedy = "`np.ravel(y)`" if is_column else ROWS_OF_NUMBERS
            raise ValueError(f"{what} should be a 1d array, one label per row of the plain 2-D array X: {remedy}")
        y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise ValueError(f"Found inconsistent numbers of samples: X has {n_rows} rows, {what} {len(y)}")
    return (list(y) if as_lists or y.dtype == object else y), as_lists

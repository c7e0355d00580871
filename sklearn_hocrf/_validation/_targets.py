"""The labels that belong to a batch: one per token."""

from __future__ import annotations

import numpy as np
from sklearn.utils import column_or_1d

from .._labels import encode_labels, flatten_labels
from ._messages import short

__all__ = ["read_label_codes", "read_labels"]


def read_labels(y, lengths, form, name) -> tuple[np.ndarray | list, bool]:
    """Return the labels of all tokens one after the other, and whether y was made of lists.

    Parameters
    ----------
    y : list of label sequences, or array
    lengths : ndarray of shape (n_sequences,)
        Number of tokens of each sequence of X.
    form : {"table", "grid", "sequences"}
        Form of X; for a table y is 1-D.
    name : str
        Name of the estimator, for messages.
    """
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    if isinstance(y, (str, bytes)):
        raise TypeError(f"y is the str {short(y)}; for one sequence with a label a character: `[list(text)]`")
    if hasattr(y, "__array__"):
        y = np.asarray(y)
    if not _is_ordered_collection(y):
        raise TypeError(f"y must be a list of label sequences or an array, not a {type(y).__name__}")
    if form == "table":
        return _read_plain_labels(y, len(lengths))
    if len(y) != len(lengths):
        raise ValueError(f"X has {len(lengths)} sequences, y has {len(y)}")
    sequences = [_label_sequence(labels, n) for n, labels in enumerate(y)]
    for n, (labels, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
        if len(labels) != length:
            raise ValueError(f"sequence {n} has {length} tokens in X, but {len(labels)} labels in y")
    return flatten_labels(sequences), not all(isinstance(labels, np.ndarray) for labels in sequences)


def _read_plain_labels(y, n_rows):
    """Read the labels of a plain 2-D X, one a row."""
    as_lists = not isinstance(y, np.ndarray)
    if as_lists and any(isinstance(label, (list, np.ndarray)) for label in y) or not as_lists and y.ndim > 1:
        if len(y) == 1 and np.size(y[0]) == n_rows > 1:
            raise ValueError("y holds one sequence of labels, but X is a plain 2-D array: wrap it, too: `[X]`")
        if as_lists:
            raise ValueError("y should be a 1d array, one label a row, because X is a plain 2-D array")
        y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {n_rows} rows, y {len(y)}")
    return (list(y) if as_lists or y.dtype == object else y), as_lists


def _is_ordered_collection(value):
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, (dict, set, frozenset))


def _label_sequence(labels, n):
    if isinstance(labels, (str, bytes)):
        raise TypeError(
            f"y[{n}] (sequence {n}) is the str {short(labels)}, where a sequence of labels belongs; for a label a "
            "character: `list(text)`"
        )
    if hasattr(labels, "__array__"):
        labels = np.asarray(labels)
    if isinstance(labels, np.ndarray) and labels.ndim > 1:
        raise ValueError(f"y[{n}] (sequence {n}) has {labels.ndim} dimensions, where 1 belongs: one label a token")
    if not _is_ordered_collection(labels):
        raise TypeError(
            f"y[{n}] (sequence {n}) is {short(labels)} ({type(labels).__name__}), where a sequence of labels belongs"
        )
    return labels


def read_label_codes(estimator, y, batch, form, *, unknown) -> np.ndarray:
    """Return the label codes (N,) of y for a fitted estimator; ``unknown="ignore"`` codes unknown labels as -1."""
    labels, _ = read_labels(y, batch.lengths, form, type(estimator).__name__)
    return encode_labels(labels, estimator.classes_, batch.offsets, unknown=unknown)

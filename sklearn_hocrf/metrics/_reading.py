"""Label sequences of any accepted form, read into flat arrays of codes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.checks import IGNORED, is_missing, no_label, unmasked
from .._data.labels import flatten_labels, position_name
from .._data.schemes import looks_like_segments

__all__ = [
    "FIELDS",
    "CodedLabels",
    "code_values",
    "read_pair",
    "list_sequences",
    "code_tokens",
    "refuse_other_lengths",
    "refuse_other_number",
    "tuples_of_segments",
    "sorted_union",
]


FIELDS = ("start", "stop", "label", "probability")  # of structured arrays of segments
# lists or arrays of sequences, whose items are labels or (start, stop, label)
LabelSequences = Sequence[Any] | np.ndarray


class CodedLabels(NamedTuple):
    """The labels of all tokens as codes.   N tokens, L distinct labels."""

    codes: np.ndarray  # (N,) int64   index into ``labels``
    labels: list  # (L,)   distinct labels, in no particular order
    offsets: np.ndarray  # (n_sequences + 1,) int64   token range of each sequence

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)


def list_sequences(y: LabelSequences, name: str, items: str = "labels") -> list:
    """Return y as a list of sequences; ``name`` and ``items`` are for error messages."""
    if hasattr(y, "__array__"):
        y = unmasked(y)
    if isinstance(y, (str, bytes)) or not _is_ordered_collection(y):
        raise TypeError(f"{name} must be a list of sequences of {items}, not a {type(y).__name__}")
    return [_read_sequence(sequence, f"{name}[{n}] (sequence {n})", items) for n, sequence in enumerate(y)]


def _read_sequence(sequence: Any, where: str, items: str) -> list:
    if hasattr(sequence, "__array__"):
        sequence = unmasked(sequence)
    if isinstance(sequence, (str, bytes)) or not _is_ordered_collection(sequence):
        raise TypeError(
            f"{where} is {sequence!r:.60} ({type(sequence).__name__}), but must be a sequence of {items}; a single "
            "sequence must be wrapped in a list"
        )
    return sequence


def _is_ordered_collection(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, (dict, set, frozenset))


def code_tokens(y: LabelSequences, name: str) -> CodedLabels:
    """Read one label per token."""
    sequences = list_sequences(y, name)
    if looks_like_segments(sequences):
        raise ValueError(
            f'{name} contains segments (start, stop, label), but must have one label per token: scheme="segments"? '
            "(Scores of tokens need labels of tokens.)"
        )
    for n, labels in enumerate(sequences):
        if isinstance(labels, np.ndarray) and labels.ndim > 1:
            raise ValueError(
                f"{name}[{n}] (sequence {n}) has {labels.ndim} dimensions, but must have 1: one label per token"
            )
    offsets = offsets_of([len(labels) for labels in sequences])
    codes, labels = code_values(flatten_labels(sequences), name, lambda t: position_name(offsets, t))
    return CodedLabels(codes, labels, offsets)


def read_pair(y_true: LabelSequences, y_pred: LabelSequences) -> tuple[CodedLabels, CodedLabels]:
    """Read two labellings of the same tokens."""
    true, predicted = code_tokens(y_true, "y_true"), code_tokens(y_pred, "y_pred")
    refuse_other_number(len(true.lengths), len(predicted.lengths))
    refuse_other_lengths(true.lengths, predicted.lengths)
    return true, predicted


def refuse_other_number(n_true: int, n_predicted: int) -> None:
    """Raise unless y_true and y_pred have the same number of sequences."""
    if n_true != n_predicted:
        raise ValueError(f"y_true has {n_true} sequences, but y_pred has {n_predicted}")


def refuse_other_lengths(of_true: np.ndarray, of_predicted: np.ndarray) -> None:
    """Raise unless the sequences of y_true and y_pred have the same lengths."""
    different = np.flatnonzero(of_true != of_predicted)
    if len(different):
        n = int(different[0])
        raise ValueError(f"sequence {n} has {of_true[n]} labels in y_true, but {of_predicted[n]} in y_pred")


def tuples_of_segments(segments: Any, where: str, fields: Sequence[str]) -> list:
    """Return the rows of a structured array as tuples of given fields; other segments are returned unchanged."""
    if not isinstance(segments, np.ndarray) or segments.dtype.names is None:
        return list(segments)
    missing = [name for name in fields if name not in segments.dtype.names]
    if missing:
        raise TypeError(f"{where} lacks the field {missing[0]!r}: such segments have {', '.join(fields)}")
    return segments[list(fields)].tolist()


def code_values(values: Sequence[Any] | np.ndarray, name: str, where: Callable[[int], str]) -> tuple[np.ndarray, list]:
    """Return a code for each label and the distinct labels; ``where`` gives the position of a label for error
    messages."""
    if isinstance(values, np.ndarray):
        distinct, codes = np.unique(values, return_inverse=True)
        labels, codes = distinct.tolist(), codes.astype(np.int64)
    else:
        table: defaultdict = defaultdict(count().__next__)
        try:
            codes = np.fromiter((table[value] for value in values), dtype=np.int64, count=len(values))
        except TypeError:
            _refuse_unhashable(values, name, where)
            raise
        labels = list(table)
    numbers = {int(label) for label in labels if isinstance(label, Integral) and not isinstance(label, bool)}
    ignored = name != "y_pred" and IGNORED in numbers and min(numbers - {IGNORED}, default=0) >= 0
    for code, label in enumerate(labels):
        if is_missing(label) or (ignored and label == IGNORED):
            raise no_label(label, where(int(np.argmax(codes == code))), name, takes_holes=False)
    return codes, labels


def _refuse_unhashable(values: Sequence[Any] | np.ndarray, name: str, where: Callable[[int], str]) -> None:
    for t, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            raise TypeError(
                f"a label must be hashable, but {value!r:.60} of {name} ({where(t)}) is a {type(value).__name__}"
            ) from None


def sorted_union(*collections: Iterable[Hashable]) -> list:
    """Return the distinct labels of all collections, sorted."""
    union: set = set().union(*collections)
    try:
        return sorted(union)
    except TypeError as error:
        examples = {type(label): label for label in union}
        some = " and ".join(f"{label!r:.60} ({kind.__name__})" for kind, label in list(examples.items())[:2])
        raise TypeError(f"the labels of y_true and y_pred must be sortable together, but {some} are not") from error

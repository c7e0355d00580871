"""Label sequences and segments of any accepted form, read into flat arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import count
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .arrays import offsets_of
from .checks import IGNORED, check_choice, is_missing, is_ordered_collection, no_label, short, unmasked
from .labels import flatten_labels, position_name
from .schemes import (
    PREFIXES,
    SCHEMES,
    B,
    E,
    I,
    O,
    S,
    looks_like_segments,
    marks_ends,
    read_segment,
    segments_of_labels,
    segments_of_tags,
    split_tag,
)
from .segments import Segments
from .warnings import scheme_of_labels

__all__ = [
    "FIELDS",
    "CodedLabels",
    "LabelSequences",
    "SegmentTable",
    "check_scheme",
    "code_tokens",
    "code_values",
    "hold_any_segments",
    "list_sequences",
    "read_given_segments",
    "read_pair",
    "read_segment_pair",
    "read_segment_table",
    "refuse_other_lengths",
    "refuse_other_number",
    "scheme_of",
    "segments_of_sequences",
    "coded_segments",
    "sorted_union",
    "tuples_of_segments",
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
    if isinstance(y, (str, bytes)) or not is_ordered_collection(y):
        raise TypeError(f"{name} must be a list of sequences of {items}, not a {type(y).__name__}")
    return [_read_sequence(sequence, f"{name}[{n}] (sequence {n})", items) for n, sequence in enumerate(y)]


def _read_sequence(sequence: Any, where: str, items: str) -> list:
    if hasattr(sequence, "__array__"):
        sequence = unmasked(sequence)
    if isinstance(sequence, (str, bytes)) or not is_ordered_collection(sequence):
        raise TypeError(
            f"{where} is {sequence!r:.60} ({type(sequence).__name__}), but must be a sequence of {items}; a single "
            "sequence must be wrapped in a list"
        )
    return sequence


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
    integers = {int(label) for label in labels if isinstance(label, Integral) and not isinstance(label, bool)}
    ignored = name != "y_pred" and IGNORED in integers and min(integers - {IGNORED}, default=0) >= 0
    for code, label in enumerate(labels):
        if is_missing(label) or (ignored and label == IGNORED):
            raise no_label(label, where(int(np.argmax(codes == code))), name, takes_missing_labels=False)
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
        by_type = {type(label): label for label in union}  # or all of one type, such as Enum
        examples = list(dict.fromkeys([*by_type.values(), *sorted(union, key=repr)]))[:2]
        some = " and ".join(f"{label!r:.60} ({type(label).__name__})" for label in examples)
        raise TypeError(f"the labels of y_true and y_pred must be sortable together, but {some} are not") from error


# --- segments ---------------------------------------------------------------------------------------------------------


class SegmentTable(NamedTuple):
    """Segments of many sequences.   M segments, L distinct labels."""

    sequence: np.ndarray  # (M,) int64   index of the sequence
    start: np.ndarray  # (M,) int64   first token, counted from the beginning of the sequence
    stop: np.ndarray  # (M,) int64   token after the last
    label: np.ndarray  # (M,) int64   index into ``labels``
    labels: list  # (L,)
    n_sequences: int


def check_scheme(scheme: str, strict: bool) -> None:
    """Raise unless both parameters have valid values."""
    check_choice("scheme", scheme, ("auto", *SCHEMES))
    if not isinstance(strict, (bool, np.bool_)):
        raise TypeError(f"strict must be True or False, got {strict!r}")


def segments_of_sequences(table: SegmentTable) -> list[list[tuple[int, int, Any]]]:
    """Return (start, stop, label) of the segments of each sequence."""
    segments: list[list[tuple[int, int, Any]]] = [[] for _ in range(table.n_sequences)]
    for n, start, stop, label in zip(*(column.tolist() for column in table[:4]), strict=True):
        segments[n].append((start, stop, table.labels[label]))
    return segments


def read_given_segments(
    y: LabelSequences, scheme: str, strict: bool, name: str
) -> tuple[SegmentTable, np.ndarray | None]:
    """Read label sequences; return their segments and, unless ``y`` lists segments, the lengths of the sequences."""
    check_scheme(scheme, strict)
    if scheme == "segments" or (scheme == "auto" and hold_any_segments(**{name: y})):
        return read_segment_table(y, name), None
    tokens = code_tokens(y, name)
    return coded_segments(tokens, scheme_of(scheme, tokens.labels), strict, name), tokens.lengths


def read_segment_pair(
    y_true: LabelSequences, y_pred: LabelSequences, scheme: str, strict: bool
) -> tuple[SegmentTable, SegmentTable]:
    """Read two segmentations of the same sequences, both in the same scheme."""
    check_scheme(scheme, strict)
    if scheme == "segments" or (scheme == "auto" and hold_any_segments(y_true=y_true, y_pred=y_pred)):
        true, predicted = read_segment_table(y_true, "y_true"), read_segment_table(y_pred, "y_pred")
        refuse_other_number(true.n_sequences, predicted.n_sequences)
        return true, predicted
    true_tokens, predicted_tokens = read_pair(y_true, y_pred)
    scheme = scheme_of(scheme, [*true_tokens.labels, *predicted_tokens.labels])
    return (
        coded_segments(true_tokens, scheme, strict, "y_true"),
        coded_segments(predicted_tokens, scheme, strict, "y_pred"),
    )


def hold_any_segments(**given: LabelSequences) -> bool:
    """Return whether any of the given labellings consists of segments rather than of labels of tokens."""
    return any(looks_like_segments(list_sequences(y, name)) for name, y in given.items())


def scheme_of(scheme: str, labels: Iterable[Hashable]) -> str:
    """Return the scheme, guessed from the labels of tokens where it is "auto"."""
    return scheme_of_labels(labels) if scheme == "auto" else scheme


# --- token labels -----------------------------------------------------------------------------------------------------


def coded_segments(tokens: CodedLabels, scheme: str, strict: bool, name: str) -> SegmentTable:
    """Cut the sequences into segments and leave out segments of O tokens and, if strict, invalid segments."""
    if scheme == "runs":
        return _report_table(segments_of_labels(tokens.codes, tokens.offsets), tokens.offsets, tokens.labels)
    prefix, label, labels = _split_coded_tags(tokens, scheme, name)
    segments = segments_of_tags(prefix, label, tokens.offsets)
    first, last = prefix[segments.start], prefix[segments.stop - 1]
    kept = first != O
    if strict and scheme == "iob1":
        kept = (first == I) | (first == B) & _follows_its_like(segments)
    elif strict and marks_ends(scheme):
        kept = (first == B) & (last == E) | (first == S)
    elif strict:
        kept = first == B
    return _report_table(segments, tokens.offsets, labels, kept)


def _follows_its_like(segments: Segments) -> np.ndarray:
    """Return for each segment whether it directly follows one with the same label, in the same sequence."""
    same = np.zeros(len(segments.codes), dtype=bool)
    same[1:] = segments.codes[1:] == segments.codes[:-1]
    begins = segments.offsets[:-1]
    same[begins[begins < len(same)]] = False
    return same


def _report_table(
    segments: Segments, offsets: np.ndarray, labels: list, kept: np.ndarray | slice = slice(None)
) -> SegmentTable:
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(segments.offsets))[kept]
    origin = offsets[sequence]
    start, stop, label = segments.start[kept] - origin, segments.stop[kept] - origin, segments.codes[kept]
    return SegmentTable(sequence, start, stop, label.astype(np.int64), labels, len(offsets) - 1)


def _split_coded_tags(tokens: CodedLabels, scheme: str, name: str) -> tuple[np.ndarray, np.ndarray, list]:
    """Return prefix (N,) and label code (N,) of each token's tag, and the labels."""
    split: list[tuple[int, str]] = []
    for code, tag in enumerate(tokens.labels):
        parts = split_tag(tag, scheme)
        if parts is None:
            t = int(np.argmax(tokens.codes == code))
            expected = ", ".join(f"'{prefix}-label'" for prefix in PREFIXES[scheme] if prefix != "O")
            raise ValueError(
                f"{short(tag)} of {name} ({position_name(tokens.offsets, t)}) is not a tag of this scheme: 'O', "
                f"{expected}"
            )
        split.append(parts)
    labels = sorted({label for _, label in split})
    code_of = {label: code for code, label in enumerate(labels)}
    prefix_of_tag = np.array([prefix for prefix, _ in split], dtype=np.int8)
    label_of_tag = np.array([code_of[label] for _, label in split], dtype=np.int64)
    return prefix_of_tag[tokens.codes], label_of_tag[tokens.codes], labels


# --- given segments ---------------------------------------------------------------------------------------------------


def read_segment_table(y: LabelSequences, name: str) -> SegmentTable:
    """Read lists of (start, stop, label)."""
    sequences = list_sequences(y, name, "segments")
    rows = [
        (n, *read_segment(segment, f"sequence {n}, position {i}", name))
        for n, segments in enumerate(sequences)
        for i, segment in enumerate(segments)
    ]
    offsets = offsets_of([len(segments) for segments in sequences])
    label, labels = code_values([row[3] for row in rows], name, lambda i: position_name(offsets, i))
    _refuse_repeated(rows, offsets, name)
    bounds = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    sequence, start, stop = bounds.T
    return SegmentTable(sequence, start, stop, label, labels, len(sequences))


def _refuse_repeated(rows: list[tuple], offsets: np.ndarray, name: str) -> None:
    seen = set()
    for i, row in enumerate(rows):
        if row in seen:
            raise ValueError(f"{name} has the segment {row[1:]!r:.60} twice ({position_name(offsets, i)})")
        seen.add(row)

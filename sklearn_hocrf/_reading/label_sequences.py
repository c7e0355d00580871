"""Label sequences and segments of any accepted form, read into flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.checks import check_choice, short
from .._data.segments import Segments
from .labels import distinct_values, flatten_labels, has_ignored, list_sequences, position_name
from .schemes import (
    OUTSIDE,
    PREFIXES,
    SCHEMES,
    B,
    E,
    O,
    S,
    TagTable,
    hold_segments,
    looks_like_segments,
    marks_ends,
    read_segments,
    scheme_of_labels,
    segments_of_labels,
    segments_of_tags,
    segments_of_tokens,
    separators_only,
    tag_table,
)
from .values import IGNORED, is_missing, no_label

# lists or arrays of sequences, whose items are labels or segments
LabelSequences = Sequence[Any] | np.ndarray


class CodedLabels(NamedTuple):
    """The labels of all tokens as codes.   N tokens, L distinct labels."""

    codes: np.ndarray  # (N,) int32   index into ``labels``
    labels: list  # (L,)   distinct labels, in no particular order
    offsets: np.ndarray  # (n_sequences + 1,) int64   token range of each sequence

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1


def code_tokens(y: LabelSequences, name: str) -> CodedLabels:
    """Read one label per token."""
    sequences = list_sequences(y, name)
    offsets = offsets_of([len(labels) for labels in sequences])
    codes, labels = code_values(flatten_labels(sequences, name), name, lambda t: position_name(offsets, t))
    return CodedLabels(codes, labels, offsets)


def read_tokens(**labellings: LabelSequences) -> list[CodedLabels]:
    """Read labellings of the same tokens."""
    for name, y in labellings.items():
        if hold_any_segments(**{name: y}):
            raise ValueError(
                f"{name} contains segments (start, stop, label), but must have one label per token, as "
                f'`text.convert_tags({name}, "segments", "bio", lengths=[len(x) for x in X])` returns'
            )
    tokens = {name: code_tokens(y, name) for name, y in labellings.items()}
    refuse_other_sizes(tokens)
    return list(tokens.values())


def code_values(values: Sequence[Any] | np.ndarray, name: str, where: Callable[[int], str]) -> tuple[np.ndarray, list]:
    """Return a code for each label and the distinct labels; ``where`` gives the position of a label for error
    messages."""
    labels, codes, _ = distinct_values(values, where, name)
    ignored = not name.startswith("y_pred") and has_ignored(labels)
    for code, label in enumerate(labels):
        if is_missing(label) or (ignored and label == IGNORED):
            raise no_label(label, where(int(np.argmax(codes == code))), name, takes_missing_labels=False)
    return codes, labels


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
    label: np.ndarray  # (M,) integers   index into ``labels``
    probability: np.ndarray  # (M,) float64   nan where it is not known
    labels: list  # (L,)   those of the segments
    n_sequences: int
    lengths: np.ndarray | None  # (n_sequences,) int64   numbers of tokens; None for lists of segments

    def rows(self) -> list[tuple[int, int, int, Any]]:
        """Return (sequence, start, stop, label) of each segment."""
        labels = [self.labels[code] for code in self.label.tolist()]
        return list(zip(*(column.tolist() for column in self[:3]), labels, strict=True))

    def taken(self, kept: np.ndarray | slice) -> SegmentTable:
        """Return the table of some of the segments."""
        used, label = np.unique(self.label[kept], return_inverse=True)
        sequence, start, stop = (column[kept] for column in self[:3])
        labels = [self.labels[code] for code in used.tolist()]
        probability = self.probability[kept]
        return SegmentTable(sequence, start, stop, label, probability, labels, self.n_sequences, self.lengths)

    def position(self, i: int) -> str:
        """Return the name of the place of a segment that was given in a list."""
        n = self.sequence[i]
        return f"sequence {n}, position {i - np.searchsorted(self.sequence, n)}"


def check_scheme(scheme: str, strict: bool) -> None:
    """Raise unless both parameters have valid values."""
    check_choice("scheme", scheme, ("auto", *SCHEMES))
    if not isinstance(strict, (bool, np.bool_)):
        raise TypeError(f"strict must be True or False, got {strict!r}")


def segment_lists(table: SegmentTable, with_probability: bool = False) -> list[list[tuple]]:
    """Return (start, stop, label) of the segments of each sequence; then the probability, None where not known."""
    segments: list[list[tuple]] = [[] for _ in range(table.n_sequences)]
    for (n, *segment), p in zip(table.rows(), table.probability.tolist(), strict=True):
        segments[n].append((*segment, None if p != p else p) if with_probability else tuple(segment))
    return segments


def read_segmentations(
    labellings: Mapping[str, LabelSequences], scheme: str, strict: bool = False, texts: Sequence | None = None
) -> list[SegmentTable]:
    """Read segmentations of the same sequences, those of the tokens X if ``texts`` has them.

    Each has its own form: labels of tokens, which are all in one scheme, or segments, which are read as such in any
    scheme. Sequences that are all empty are lists of no segments. The label "O" of segments means the same as the tag.
    """
    sequences = {name: list_sequences(y, name, "labels or segments") for name, y in labellings.items()}
    listed = {name for name, y in sequences.items() if scheme == "segments" or hold_segments(y) or not any(map(len, y))}
    tokens = {name: code_tokens(y, name) for name, y in sequences.items() if name not in listed}
    if scheme == "auto" and tokens:
        scheme = scheme_of_labels([label for coded in tokens.values() for label in coded.labels])
    tables = {
        name: read_segment_table(y, name) if name in listed else _coded_segments(tokens[name], scheme, strict, name)
        for name, y in sequences.items()
    }
    refuse_other_sizes(tables if texts is None else {"X": _tokens_of(texts), **tables})
    if tokens and scheme in PREFIXES:
        for name in listed:
            is_outside = np.array([label == OUTSIDE for label in tables[name].labels], dtype=bool)
            tables[name] = tables[name].taken(~is_outside[tables[name].label])
    return list(tables.values())


def hold_any_segments(**labellings: LabelSequences) -> bool:
    """Return whether any of the given labellings consists of segments rather than of labels of tokens."""
    return any(looks_like_segments(list_sequences(y, name)) for name, y in labellings.items())


# --- token labels -----------------------------------------------------------------------------------------------------


def _coded_segments(tokens: CodedLabels, scheme: str, strict: bool, name: str) -> SegmentTable:
    """Cut the sequences into segments and leave out segments of O tokens and, if strict, invalid segments."""
    if scheme in ("runs", "tokens"):
        cut = segments_of_labels if scheme == "runs" else segments_of_tokens
        return _report_table(cut(tokens.codes, tokens.offsets), tokens.offsets, tokens.labels)

    def where(code):
        return position_name(tokens.offsets, int(np.argmax(tokens.codes == code)))

    tags, labels = tag_table(tokens.labels, scheme, name, where, may_be_outside=True)
    prefix, label = tags.prefix[tokens.codes], tags.label[tokens.codes]
    is_wrong = np.zeros(len(prefix) + 1, dtype=bool)  # B of "iob1" that separates nothing; False after the last token
    if strict and scheme == "iob1":
        is_wrong[:-1] = (prefix == B) & (separators_only(TagTable(prefix, label), tokens.offsets).prefix != B)
        prefix[is_wrong[:-1]] = O
    segments = segments_of_tags(prefix, label, tokens.offsets)
    first, last = prefix[segments.start], prefix[segments.stop - 1]
    kept = first != O
    if strict and scheme == "iob1":
        is_wrong[tokens.offsets] = False
        kept &= ~((last == B) & is_wrong[segments.stop])
    elif strict and marks_ends(scheme):
        kept = (first == B) & (last == E) | (first == S)
    elif strict:
        kept = first == B
    return _report_table(segments, tokens.offsets, labels, kept)


def _report_table(
    segments: Segments, offsets: np.ndarray, labels: list, kept: np.ndarray | slice = slice(None)
) -> SegmentTable:
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(segments.offsets))
    start, stop = segments.start - offsets[sequence], segments.stop - offsets[sequence]
    unknown, lengths = np.full(len(start), np.nan), np.diff(offsets)
    return SegmentTable(sequence, start, stop, segments.codes, unknown, labels, len(lengths), lengths).taken(kept)


# --- given segments ---------------------------------------------------------------------------------------------------


def read_segment_table(y: Any, name: str, needs_probability: bool = False) -> SegmentTable:
    """Read segments in any form, or only those with a probability."""
    sequences = list_sequences(y, name, "segments")
    rows = read_segments(sequences, name, needs_probability)
    offsets = offsets_of([len(segments) for segments in sequences])
    label, labels = code_values([row[3] for row in rows], name, lambda i: position_name(offsets, i))
    _refuse_repeated([row[:4] for row in rows], offsets, name)
    sequence, start, stop = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3).T
    probability = np.array([row[4] for row in rows], dtype=np.float64)
    return SegmentTable(sequence, start, stop, label, probability, labels, len(sequences), None)


def _refuse_repeated(rows: list[tuple], offsets: np.ndarray, name: str) -> None:
    seen = set()
    for i, row in enumerate(rows):
        if row in seen:
            raise ValueError(f"{name} has the segment {row[1:]!r:.60} twice ({position_name(offsets, i)})")
        seen.add(row)


# --- sizes ------------------------------------------------------------------------------------------------------------


def refuse_other_sizes(labellings: Mapping[str, CodedLabels | SegmentTable]) -> None:
    """Raise unless all can belong to the same sequences as the first."""
    (name, first), *others = labellings.items()
    for other, one in others:
        if first.n_sequences != one.n_sequences:
            raise ValueError(f"{name} has {first.n_sequences} sequences, but {other} has {one.n_sequences}")
        if first.lengths is not None and one.lengths is not None:
            different = np.flatnonzero(first.lengths != one.lengths)
            if len(different):
                n = int(different[0])
                what = f"{first.lengths[n]} tokens in {name}, but {one.lengths[n]} in {other}"
                raise ValueError(f"sequence {n} has {what}")
        _refuse_beyond(one, other, first.lengths, name)
        _refuse_beyond(first, name, one.lengths, other)


def refuse_other_texts(name: str, texts: Sequence, **tables: SegmentTable) -> None:
    """Raise unless segmentations can belong to sequences of tokens."""
    refuse_other_sizes({name: _tokens_of(texts), **tables})


def _tokens_of(texts: Sequence) -> CodedLabels:
    """Return the numbers of tokens of sequences, in the form of labels."""
    return CodedLabels(np.zeros(0, dtype=np.int64), [], offsets_of([len(tokens) for tokens in texts]))


def _refuse_beyond(table: CodedLabels | SegmentTable, name: str, lengths: np.ndarray | None, other: str) -> None:
    """Raise if a segment ends after the last token of its sequence."""
    if lengths is None or isinstance(table, CodedLabels):
        return
    beyond = np.flatnonzero(table.stop > lengths[table.sequence])
    if len(beyond):
        n, *segment = table.rows()[beyond[0]]
        raise ValueError(
            f"{name} has the segment {short(tuple(segment))} ({table.position(beyond[0])}), beyond the {lengths[n]} "
            f"tokens of {other}"
        )

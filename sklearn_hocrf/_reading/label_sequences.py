"""Label sequences and segments of any accepted form, read into flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.checks import check_choice, short
from .._data.segments import Segments, cut_segments
from .labels import distinct_values, flatten_labels, has_ignored, list_sequences, position_name, sorted_together
from .schemes import (
    OUTSIDE,
    PREFIXES,
    SCHEMES,
    TAG_SCHEMES,
    B,
    I,
    O,
    hold_segments,
    looks_like_segments,
    read_segments,
    scheme_of_labels,
    segments_of_labels,
    segments_of_tags,
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
    """Return the code of each label, and the distinct labels; ``where`` returns a label's position for messages."""
    labels, codes, _ = distinct_values(values, where, name)
    ignored = not name.startswith("y_pred") and has_ignored(labels)
    for code, label in enumerate(labels):
        if is_missing(label) or (ignored and label == IGNORED):
            raise no_label(label, where(int(np.argmax(codes == code))), name, takes_missing_labels=False)
    return codes, labels


def sorted_union(*collections: Iterable[Hashable]) -> list:
    """Return the distinct labels of all collections, sorted."""
    return sorted_together("the labels of y_true and y_pred", set().union(*collections))


# --- segments ---------------------------------------------------------------------------------------------------------


class Segmentation(NamedTuple):
    """Segments of many sequences.   M segments."""

    rows: list[tuple[int, int, int, Any]]  # (M,)   (sequence, start, stop, label) of each, by sequence
    probability: list[float | None]  # (M,)   None if it is not known
    n_sequences: int
    lengths: np.ndarray | None  # (n_sequences,) int64   numbers of tokens; None for lists of segments

    def lists(self, with_probability: bool = False) -> list[list[tuple]]:
        """Return (start, stop, label), and optionally the probability, of the segments of each sequence."""
        lists: list[list[tuple]] = [[] for _ in range(self.n_sequences)]
        for (n, *segment), p in zip(self.rows, self.probability, strict=True):
            lists[n].append((*segment, p) if with_probability else tuple(segment))
        return lists

    def without(self, label: Hashable) -> Segmentation:
        """Return the segments except those with the given label."""
        kept = [i for i, row in enumerate(self.rows) if row[3] != label]
        return self._replace(rows=[self.rows[i] for i in kept], probability=[self.probability[i] for i in kept])

    def labels(self) -> set:
        """Return the labels of the segments."""
        return {row[3] for row in self.rows}

    def position(self, i: int) -> str:
        """Return the position of a segment in words."""
        n = self.rows[i][0]
        return f"sequence {n}, position {sum(row[0] == n for row in self.rows[:i])}"


def read_segmentations(
    labellings: Mapping[str, LabelSequences],
    scheme: str,
    strict: bool = False,
    schemes: Sequence[str] = ("auto", *SCHEMES),
    **texts: Sequence,
) -> list[Segmentation]:
    """Read segmentations of the same sequences, whose tokens are in ``texts`` if it is not empty.

    The segmentations may have different forms: labels of tokens, all of them in one scheme, or lists of segments, for
    any scheme. If all sequences are empty, they count as lists of segments. The label "O" of a segment means the same
    as the tag "O".

    Raises
    ------
    TypeError, ValueError
        If the scheme is not one of ``schemes``, or if labels or segments are invalid.
    """
    check_choice("scheme", scheme, schemes)
    if not isinstance(strict, (bool, np.bool_)):
        raise TypeError(f"strict must be True or False, got {strict!r}")
    sequences = {name: list_sequences(y, name, "labels or segments") for name, y in labellings.items()}
    listed = {name for name, y in sequences.items() if scheme == "segments" or hold_segments(y) or not any(map(len, y))}
    tokens = {name: code_tokens(y, name) for name, y in sequences.items() if name not in listed}
    if scheme == "auto" and tokens:
        scheme = scheme_of_labels([label for coded in tokens.values() for label in coded.labels])
    read = {
        name: read_segment_lists(y, name) if name in listed else _segments_of_tokens(tokens[name], scheme, strict, name)
        for name, y in sequences.items()
    }
    refuse_other_sizes({name: tokens_of(sequences) for name, sequences in texts.items()} | read)
    if tokens and scheme in PREFIXES:
        read |= {name: read[name].without(OUTSIDE) for name in listed}
    return list(read.values())


def hold_any_segments(**labellings: LabelSequences) -> bool:
    """Return whether any of the labellings consists of segments rather than of labels of tokens."""
    return any(looks_like_segments(list_sequences(y, name)) for name, y in labellings.items())


# --- token labels -----------------------------------------------------------------------------------------------------


def _segments_of_tokens(tokens: CodedLabels, scheme: str, strict: bool, name: str) -> Segmentation:
    """Cut the sequences into segments and leave out segments of O tokens and, if strict, invalid segments."""
    if scheme == "runs":
        return _of_segments(segments_of_labels(tokens.codes, tokens.offsets), tokens.offsets, tokens.labels)
    if scheme == "tokens":
        return _of_segments(cut_segments(True, tokens.codes, tokens.offsets), tokens.offsets, tokens.labels)

    def where(code):
        return position_name(tokens.offsets, int(np.argmax(tokens.codes == code)))

    tags, labels = tag_table(tokens.labels, scheme, name, where, may_be_outside=True)
    prefix, label = tags.prefix[tokens.codes], tags.label[tokens.codes]
    is_wrong = np.zeros(len(prefix) + 1, dtype=bool)  # B that separates nothing; False after the last token
    at = TAG_SCHEMES[scheme]
    if strict and at.has_separators:
        begins = segments_of_tags(np.where(prefix == B, I, prefix), label, tokens.offsets).start
        is_wrong[begins] = prefix[begins] == B
        prefix[is_wrong[:-1]] = O
    segments = segments_of_tags(prefix, label, tokens.offsets)
    first, last = prefix[segments.start], prefix[segments.stop - 1]
    kept = first != O
    if strict and at.has_separators:
        is_wrong[tokens.offsets] = False
        kept &= ~((last == B) & is_wrong[segments.stop])
    elif strict:
        is_one = segments.lengths == 1
        kept = (first == np.where(is_one, at.only, at.first)) & (last == np.where(is_one, at.only, at.last))
    return _of_segments(segments.where(kept), tokens.offsets, labels)


def _of_segments(segments: Segments, offsets: np.ndarray, labels: list) -> Segmentation:
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(segments.offsets))
    places = (column.tolist() for column in (sequence, *(segments.start, segments.stop) - offsets[sequence]))
    rows = list(zip(*places, [labels[code] for code in segments.codes.tolist()], strict=True))
    return Segmentation(rows, [None] * len(rows), len(offsets) - 1, np.diff(offsets))


# --- given segments ---------------------------------------------------------------------------------------------------


def read_segment_lists(y: Any, name: str, needs_probability: bool = False) -> Segmentation:
    """Read segments in any form, or raise an error; ``needs_probability`` rejects segments without a probability."""
    sequences = list_sequences(y, name, "segments")
    read = read_segments(sequences, name, needs_probability)
    offsets, rows = offsets_of([len(segments) for segments in sequences]), [row[:4] for row in read]
    code_values([row[3] for row in rows], name, lambda i: position_name(offsets, i))  # rejects values other than labels
    seen = set()
    for i, row in enumerate(rows):
        if row in seen:
            raise ValueError(f"{name} has the segment {row[1:]!r:.60} twice ({position_name(offsets, i)})")
        seen.add(row)
    return Segmentation(rows, [row[4] for row in read], len(sequences), None)


# --- sizes ------------------------------------------------------------------------------------------------------------


def refuse_other_sizes(labellings: Mapping[str, CodedLabels | Segmentation]) -> None:
    """Raise an error unless all labellings can belong to the same sequences as the first one."""
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


def tokens_of(texts: Sequence) -> Segmentation:
    """Return a segmentation without segments, with the numbers of tokens of the sequences."""
    return Segmentation([], [], len(texts), np.array([len(tokens) for tokens in texts], dtype=np.int64))


def _refuse_beyond(read: CodedLabels | Segmentation, name: str, lengths: np.ndarray | None, other: str) -> None:
    """Raise an error if a listed segment ends after the last token of its sequence."""
    if isinstance(read, CodedLabels) or read.lengths is not None or lengths is None:
        return
    for i, (n, *segment) in enumerate(read.rows):
        if segment[1] > lengths[n]:
            raise ValueError(
                f"{name} has the segment {short(tuple(segment))} ({read.position(i)}), beyond the {lengths[n]} "
                f"tokens of {other}"
            )

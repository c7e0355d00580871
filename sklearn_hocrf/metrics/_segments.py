"""Segments, read from token labels or given explicitly."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.checks import check_choice, short
from .._data.labels import position_name
from .._data.schemes import (
    PREFIXES,
    SCHEMES,
    B,
    E,
    I,
    O,
    S,
    marks_ends,
    read_segment,
    segments_of_labels,
    segments_of_tags,
    split_tag,
    suspected_scheme,
)
from .._data.segments import Segments
from .._validation import warn_of_tags
from ._reading import CodedLabels, LabelSequences, code_tokens, code_values, list_sequences

__all__ = [
    "SegmentTable",
    "check_scheme",
    "extract_segments",
    "read_given_segments",
    "read_segments",
    "segments_of_sequences",
    "segments_of_tokens",
]


class SegmentTable(NamedTuple):
    """Segments of many sequences.   M segments, L distinct labels."""

    sequence: np.ndarray  # (M,) int64   number of the sequence
    start: np.ndarray  # (M,) int64   first token, counted from the beginning of the sequence
    stop: np.ndarray  # (M,) int64   token after the last
    label: np.ndarray  # (M,) int64   index into ``labels``
    labels: list  # (L,)
    n_sequences: int


def check_scheme(scheme: str, strict: bool) -> None:
    """Raise unless both parameters have valid values."""
    check_choice("scheme", scheme, SCHEMES)
    if not isinstance(strict, (bool, np.bool_)):
        raise TypeError(f"strict must be True or False, got {strict!r}")


def extract_segments(
    y: LabelSequences, *, scheme: str = "runs", strict: bool = False
) -> list[list[tuple[int, int, Any]]]:
    """Return the segments of label sequences.

    Parameters
    ----------
    y : list of sequences
        Label sequences of any lengths: lists, tuples or arrays of shape (n_tokens,).
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}, default="runs"
        How labels encode segments:

        * "runs": a segment is a maximal run of equal labels;
        * "bio": tags "B-PER", "I-PER", "O"; a segment begins with B and continues with I of the same label;
        * "bioes": the same with E for the last token and S for segments of one token; "bilou" (spaCy) and "bmes" use
          other letters for the same tags;
        * "iob1": a segment begins with I, but with B directly after a segment of the same label;
        * "segments": y holds segments already, as (start, stop, label) with ``stop`` excluded; they are only checked.

        A tag without a label ("B", "I") stands for the label "_".
    strict : bool, default=False
        Whether tags that break the rules make no segment, as with ``mode="strict"`` in seqeval. Examples are an I of
        "bio" after an O and a B of "bioes" without an E. If False, every tag other than O belongs to a segment; a new
        segment begins at B, at S, after E, and where the label changes. These are the rules of conlleval, of seqeval's
        default mode and of :class:`~sklearn_hocrf.HighOrderSemiCRF`.

            tags (bio)           strict=False            strict=True
            O    I-PER           [1, 2) PER              none
            B-PER  I-LOC         [0, 1) PER, [1, 2) LOC  [0, 1) PER
            B-PER  B-PER  I-PER  [0, 1) PER, [1, 3) PER  the same

    Returns
    -------
    segments : list of lists of (int, int, label)
        (start, stop, label) of each segment, in order.

    Raises
    ------
    TypeError, ValueError
        If a tag or a segment is invalid; the message names sequence and position.

    Warns
    -----
    UserWarning
        If all labels of "runs" look like tags of a scheme.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import extract_segments
    >>> extract_segments([["author", "author", "date"], []])
    [[(0, 2, 'author'), (2, 3, 'date')], []]
    >>> tags = [["I-PER", "O", "B-LOC", "I-LOC", "B-LOC"]]
    >>> extract_segments(tags, scheme="bio")
    [[(0, 1, 'PER'), (2, 4, 'LOC'), (4, 5, 'LOC')]]
    >>> extract_segments(tags, scheme="bio", strict=True)
    [[(2, 4, 'LOC'), (4, 5, 'LOC')]]
    """
    return segments_of_sequences(read_given_segments(y, scheme, strict, "y")[0])


def segments_of_sequences(table: SegmentTable) -> list[list[tuple[int, int, Any]]]:
    """Return (start, stop, label) of the segments of each sequence."""
    segments: list[list[tuple[int, int, Any]]] = [[] for _ in range(table.n_sequences)]
    for n, start, stop, label in zip(*(column.tolist() for column in table[:4]), strict=True):
        segments[n].append((start, stop, table.labels[label]))
    return segments


def read_given_segments(
    y: LabelSequences, scheme: str, strict: bool, name: str
) -> tuple[SegmentTable, np.ndarray | None]:
    """Read label sequences; return their segments and, if ``y`` says them, the lengths of the sequences."""
    check_scheme(scheme, strict)
    if scheme == "segments":
        return read_segments(y, name), None
    tokens = code_tokens(y, name)
    if scheme == "runs":
        warn_of_tags(suspected_scheme(tokens.labels))
    return segments_of_tokens(tokens, scheme, strict, name), tokens.lengths


# --- token labels -----------------------------------------------------------------------------------------------------


def segments_of_tokens(tokens: CodedLabels, scheme: str, strict: bool, name: str) -> SegmentTable:
    """Cut the sequences into segments and leave out those of O tokens and, if strict, those that break the rules."""
    if scheme == "runs":
        return _table(segments_of_labels(tokens.codes, tokens.offsets), tokens.offsets, tokens.labels)
    prefix, label, labels = _split_tags(tokens, scheme, name)
    segments = segments_of_tags(prefix, label, tokens.offsets)
    first, last = prefix[segments.start], prefix[segments.stop - 1]
    kept = first != O
    if strict and scheme == "iob1":
        kept = (first == I) | (first == B) & _follows_its_like(segments)
    elif strict and marks_ends(scheme):
        kept = (first == B) & (last == E) | (first == S)
    elif strict:
        kept = first == B
    return _table(segments, tokens.offsets, labels, kept)


def _follows_its_like(segments: Segments) -> np.ndarray:
    """Return for each segment whether one of its label is right before it, in the same sequence."""
    same = np.zeros(len(segments.codes), dtype=bool)
    same[1:] = segments.codes[1:] == segments.codes[:-1]
    begins = segments.offsets[:-1]
    same[begins[begins < len(same)]] = False
    return same


def _table(
    segments: Segments, offsets: np.ndarray, labels: list, kept: np.ndarray | slice = slice(None)
) -> SegmentTable:
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(segments.offsets))[kept]
    origin = offsets[sequence]
    start, stop, label = segments.start[kept] - origin, segments.stop[kept] - origin, segments.codes[kept]
    return SegmentTable(sequence, start, stop, label.astype(np.int64), labels, len(offsets) - 1)


def _split_tags(tokens: CodedLabels, scheme: str, name: str) -> tuple[np.ndarray, np.ndarray, list]:
    """Return prefix (N,) and label code (N,) of each token's tag, and the labels."""
    split: list[tuple[int, str]] = []
    for code, tag in enumerate(tokens.labels):
        parts = split_tag(tag, scheme)
        if parts is None:
            t = int(np.argmax(tokens.codes == code))
            expected = ", ".join(f"'{prefix}-label'" for prefix in PREFIXES[scheme] if prefix != "O")
            raise ValueError(
                f"{short(tag)} of {name} ({position_name(tokens.offsets, t)}) is no tag of this scheme: 'O', {expected}"
            )
        split.append(parts)
    labels = sorted({label for _, label in split})
    number = {label: code for code, label in enumerate(labels)}
    prefix_of_tag = np.array([prefix for prefix, _ in split], dtype=np.int8)
    label_of_tag = np.array([number[label] for _, label in split], dtype=np.int64)
    return prefix_of_tag[tokens.codes], label_of_tag[tokens.codes], labels


# --- given segments ---------------------------------------------------------------------------------------------------


def read_segments(y: LabelSequences, name: str) -> SegmentTable:
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
    numbers = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    sequence, start, stop = numbers.T
    return SegmentTable(sequence, start, stop, label, labels, len(sequences))


def _refuse_repeated(rows: list[tuple], offsets: np.ndarray, name: str) -> None:
    seen = set()
    for i, row in enumerate(rows):
        if row in seen:
            raise ValueError(f"{name} has the segment {row[1:]!r:.60} twice ({position_name(offsets, i)})")
        seen.add(row)

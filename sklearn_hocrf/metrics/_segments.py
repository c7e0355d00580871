"""Segments, found in token labels or given."""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple

import numpy as np

from .._labels import place
from ._reading import CodedLabels, code_values, read_sequences, read_tokens

__all__ = ["ENCODINGS", "SegmentTable", "check_encoding", "extract_segments", "segments_of_tokens", "read_segments"]

ENCODINGS = ("runs", "bio", "bioes", "segments")
PREFIXES = {"bio": "BIO", "bioes": "BIOES"}


class SegmentTable(NamedTuple):
    """Segments of many sequences.   M segments, L distinct labels."""

    sequence: np.ndarray  # (M,) int64   number of the sequence
    start: np.ndarray  # (M,) int64   first token, counted from the beginning of the sequence
    stop: np.ndarray  # (M,) int64   token after the last
    label: np.ndarray  # (M,) int64   index into ``labels``
    labels: list  # (L,)
    n_sequences: int


def check_encoding(encoding, strict) -> None:
    """Raise unless the two parameters have values that exist."""
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding must be one of {', '.join(map(repr, ENCODINGS))}, got {encoding!r}")
    if not isinstance(strict, (bool, np.bool_)):
        raise TypeError(f"strict must be True or False, got {strict!r}")


def extract_segments(y, *, encoding="runs", strict=True):
    """Return the segments of label sequences.

    Parameters
    ----------
    y : list of sequences
        Label sequences of any lengths: lists, tuples or arrays of shape (n_tokens,).
    encoding : {"runs", "bio", "bioes", "segments"}, default="runs"
        How labels say where segments are:

        * "runs": a segment is a maximal run of equal labels;
        * "bio": tags "B-PER", "I-PER", "O"; a segment begins with B and goes on with I of the same label;
        * "bioes": the same with E for the last token and S for segments of one token;
        * "segments": y holds segments already, as (start, stop, label) with ``stop`` excluded; they are only checked.

        A tag without a label ("B", "I") stands for the label "_".
    strict : bool, default=True
        Whether tags of "bio" and "bioes" that break the rules make no segment (an I after an O, a B of "bioes" without
        an E), as seqeval's ``mode="strict"`` has it. If False, every run of tags other than O belongs to some segment
        and a new one begins at B, S, after E, and where the label changes: the rules of conlleval and of seqeval's
        default mode.

    Returns
    -------
    segments : list of lists of (int, int, label)
        (start, stop, label) of each segment, in order.

    Raises
    ------
    TypeError, ValueError
        For tags and segments that are none; the message names sequence and position.

    Examples
    --------
    >>> from sklearn_hocrf.metrics import extract_segments
    >>> extract_segments([["author", "author", "date"], []])
    [[(0, 2, 'author'), (2, 3, 'date')], []]
    >>> tags = [["I-PER", "O", "B-LOC", "I-LOC", "B-LOC"]]
    >>> extract_segments(tags, encoding="bio")
    [[(2, 4, 'LOC'), (4, 5, 'LOC')]]
    >>> extract_segments(tags, encoding="bio", strict=False)
    [[(0, 1, 'PER'), (2, 4, 'LOC'), (4, 5, 'LOC')]]
    """
    check_encoding(encoding, strict)
    if encoding == "segments":
        table = read_segments(y, "y")
    else:
        table = segments_of_tokens(read_tokens(y, "y"), encoding, strict, "y")
    segments = [[] for _ in range(table.n_sequences)]
    for n, start, stop, label in zip(*(column.tolist() for column in table[:4]), strict=True):
        segments[n].append((start, stop, table.labels[label]))
    return segments


# --- token labels -----------------------------------------------------------------------------------------------------


def segments_of_tokens(tokens: CodedLabels, encoding, strict, name) -> SegmentTable:
    """Cut the sequences into blocks of tokens that belong together and keep the blocks that are segments."""
    if encoding == "runs":
        label, labels = tokens.codes, tokens.labels
        starts, stops = _blocks(tokens, label[1:] != label[:-1])
        return _table(tokens, starts, stops, label, labels)
    prefix, label, labels = _split_tags(tokens, PREFIXES[encoding], name)
    before, after = prefix[:-1], prefix[1:]
    same_label = label[1:] == label[:-1]
    # in both modes B, S and O begin a block, nothing goes on after E, S and O, and no block has two labels
    goes_on = same_label & np.isin(before, ["B", "I"]) & np.isin(after, ["I", "E"])
    starts, stops = _blocks(tokens, ~goes_on)
    is_segment = prefix[starts] != "O"
    if strict and encoding == "bio":
        is_segment = prefix[starts] == "B"
    elif strict:
        is_segment = (prefix[starts] == "B") & (prefix[stops - 1] == "E") | (prefix[starts] == "S")
    return _table(tokens, starts[is_segment], stops[is_segment], label, labels)


def _blocks(tokens, begins):
    """Return first tokens and ends of the blocks, ``begins[t]`` saying whether token t + 1 begins one."""
    n_tokens = len(tokens.codes)
    is_first = np.zeros(n_tokens, dtype=bool)
    is_first[1:] = begins
    is_first[tokens.offsets[:-1][tokens.lengths > 0]] = True
    starts = np.flatnonzero(is_first)
    return starts, np.append(starts[1:], n_tokens)[: len(starts)]


def _table(tokens, starts, stops, label, labels):
    sequence = np.searchsorted(tokens.offsets, starts, side="right") - 1
    origin = tokens.offsets[sequence]
    return SegmentTable(sequence, starts - origin, stops - origin, label[starts], labels, len(tokens.lengths))


def _split_tags(tokens, prefixes, name):
    """Return prefix (N,) and label code (N,) of each token's tag, and the labels."""
    split = [_split_tag(tag, prefixes) for tag in tokens.labels]
    for code, (tag, parts) in enumerate(zip(tokens.labels, split, strict=True)):
        if parts is None:
            t = int(np.argmax(tokens.codes == code))
            expected = ", ".join(f"'{prefix}-label'" for prefix in prefixes if prefix != "O")
            raise ValueError(
                f"{tag!r:.60} of {name} ({place(tokens.offsets, t)}) is no tag of this encoding: 'O', {expected}"
            )
    labels = sorted({label for _, label in split})
    number = {label: code for code, label in enumerate(labels)}
    prefix_of_tag = np.array([prefix for prefix, _ in split], dtype="U1")
    label_of_tag = np.array([number[label] for _, label in split], dtype=np.int64)
    return prefix_of_tag[tokens.codes], label_of_tag[tokens.codes], labels


def _split_tag(tag, prefixes):
    if not isinstance(tag, str) or tag[:1] not in prefixes or tag[1:2] not in ("", "-") or not tag:
        return None
    if tag[0] == "O" and tag != "O":
        return None
    return tag[0], tag[2:] or "_"


# --- given segments ---------------------------------------------------------------------------------------------------


def read_segments(y, name) -> SegmentTable:
    """Read lists of (start, stop, label)."""
    sequences = read_sequences(y, name, "segments")
    rows = [
        (n, *_read_segment(segment, f"sequence {n}, position {i}", name))
        for n, segments in enumerate(sequences)
        for i, segment in enumerate(segments)
    ]
    offsets = np.zeros(len(sequences) + 1, dtype=np.int64)
    np.cumsum([len(segments) for segments in sequences], out=offsets[1:])
    label, labels = code_values([row[3] for row in rows], name, lambda i: place(offsets, i))
    _refuse_repeated(rows, offsets, name)
    numbers = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    sequence, start, stop = numbers.T
    return SegmentTable(sequence, start, stop, label, labels, len(sequences))


def _read_segment(segment, where, name):
    if isinstance(segment, (str, bytes)) or not hasattr(segment, "__len__") or len(segment) != 3:
        raise TypeError(f"{segment!r:.60} of {name} ({where}) is no segment (start, stop, label)")
    start, stop, label = segment
    if not all(isinstance(end, Integral) and not isinstance(end, bool) for end in (start, stop)):
        raise TypeError(f"start and stop must be integers, but {name} has the segment {segment!r:.60} ({where})")
    if not 0 <= start < stop:
        raise ValueError(f"{name} has the segment {segment!r:.60} ({where}), but 0 <= start < stop must hold")
    return int(start), int(stop), label


def _refuse_repeated(rows, offsets, name):
    seen = set()
    for i, row in enumerate(rows):
        if row in seen:
            raise ValueError(f"{name} has the segment {row[1:]!r:.60} twice ({place(offsets, i)})")
        seen.add(row)

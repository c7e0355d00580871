"""Texts of tokens, and segments of any form."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import short
from .._data.encodings import ENCODINGS, OUTSIDE, PREFIXES, looks_like_segments, read_segment, split_tag
from ..metrics import extract_segments

__all__ = ["check_encoding", "checked_segments", "gaps_of", "guessed_encoding", "read_any_segments"]


def gaps_of(sequence: Any, separator: str) -> list[str]:
    """Return what is after each token of a sequence; texts with offsets know it."""
    if not (hasattr(sequence, "text") and hasattr(sequence, "offsets")) or isinstance(sequence, SequenceBatch):
        length = sequence.n_tokens if isinstance(sequence, SequenceBatch) else len(sequence)
        return [separator] * length
    starts, stops = sequence.offsets.T.tolist()
    gaps = [sequence.text[stop:start] for stop, start in zip(stops[:-1], starts[1:], strict=True)]
    return [*gaps, ""] if stops else []


def check_encoding(encoding: Any) -> None:
    if encoding not in ("auto", *ENCODINGS):
        raise ValueError(f"encoding must be one of {', '.join(map(repr, ('auto', *ENCODINGS)))}, got {encoding!r:.80}")


def guessed_encoding(labels: list) -> str:
    """Return the scheme of labels if they look like tags, else "runs"."""
    for encoding in PREFIXES:
        parts = {label: split_tag(label, encoding) for label in labels if label != OUTSIDE}
        if parts and all(part is not None and "-" in label for label, part in parts.items()):
            return encoding
    return "runs"


def read_any_segments(y: Any, encoding: str, name: str, texts: list[list[str]]) -> list[list[tuple]]:
    """Return the segments that labels describe, or that are given."""
    if len(y) != len(texts):
        raise ValueError(f"{name} has {len(y)} sequences, but X has {len(texts)}")
    has_none = not any(map(len, y))
    if encoding == "segments" or has_none or _have_probabilities(y) or looks_like_segments(y):
        return [segments.tolist() if isinstance(segments, np.ndarray) else list(segments) for segments in y]
    for n, (labels, words) in enumerate(zip(y, texts, strict=True)):
        if len(labels) != len(words):
            raise ValueError(f"{name} has {len(labels)} labels in sequence {n}, but X has {len(words)} tokens")
    if encoding == "auto":
        encoding = guessed_encoding(list({label for labels in y for label in labels}))
    return extract_segments(y, encoding=encoding)


def _have_probabilities(y: Any) -> bool:
    given = [segment for segments in y for segment in segments]
    return all(not isinstance(s, str) and hasattr(s, "__len__") and len(s) == 4 for s in given)


def checked_segments(segments: list, texts: list[list[str]], name: str) -> list[list[tuple]]:
    """Return (start, stop, label, probability or None) of each segment, in order, or raise."""
    if len(segments) != len(texts):
        raise ValueError(f"{name} has {len(segments)} sequences, but there are {len(texts)}")
    checked = []
    for n, (of_one, words) in enumerate(zip(segments, texts, strict=True)):
        rows = []
        for i, segment in enumerate(of_one):
            where = f"sequence {n}, position {i}"
            start, stop, label = read_segment(tuple(segment)[:3], where, name)
            if stop > len(words):
                raise ValueError(
                    f"{name} has the segment {short((start, stop, label))} ({where}), but the sequence has "
                    f"{len(words)} tokens"
                )
            rows.append((start, stop, label, segment[3] if len(segment) > 3 else None))
        rows.sort(key=lambda row: row[:2])
        for before, row in zip(rows[:-1], rows[1:], strict=True):
            if row[0] < before[1]:
                raise ValueError(
                    f"{name} has segments that overlap: {short(before[:3])} and {short(row[:3])} (sequence {n})"
                )
        checked.append(rows)
    return checked

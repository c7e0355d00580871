"""Texts of tokens, and segments of any form."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from .._data.batch import SequenceBatch
from .._data.checks import check_choice, finite_number, short
from .._data.schemes import (
    PREFIXES,
    SCHEMES,
    guessed_scheme,
    hold_segments,
    parts_of_segment,
    read_segment,
    split_tag,
)
from .._display import listed
from .._estimator.fitted_model import FittedModel
from ..metrics._segments import list_sequences, read_given_segments, segments_of_sequences

__all__ = [
    "check_scheme",
    "checked_segments",
    "gaps_of",
    "labels_in",
    "read_any_segments",
    "read_rows",
    "segment_labels",
]


def gaps_of(sequence: Any, separator: str) -> list[str]:
    """Return the text between tokens: after each token of a sequence, from its offsets if it has any."""
    if not (hasattr(sequence, "text") and hasattr(sequence, "offsets")) or isinstance(sequence, SequenceBatch):
        length = sequence.n_tokens if isinstance(sequence, SequenceBatch) else len(sequence)
        return [separator] * length
    starts, stops = sequence.offsets.T.tolist()
    gaps = [sequence.text[stop:start] for stop, start in zip(stops[:-1], starts[1:], strict=True)]
    return [*gaps, ""] if stops else []


def check_scheme(scheme: Any) -> None:
    check_choice("scheme", scheme, ("auto", *SCHEMES))


def segment_labels(model: Any, scheme: str) -> list:
    """Return the labels of all segments that a fitted model may predict."""
    if hasattr(model, "segment_labels_"):
        return model.segment_labels_.tolist()
    return labels_in(model.classes_.tolist(), FittedModel(model).scheme if scheme == "auto" else scheme)


def labels_in(classes: Iterable, scheme: str) -> list:
    """Return the segment labels in tags of a scheme, given or guessed; other labels are returned as they are."""
    classes = list(classes)
    scheme = guessed_scheme(classes) if scheme == "auto" else scheme
    parts = [split_tag(label, scheme) if scheme in PREFIXES else None for label in classes]
    return sorted({label if part is None else part[1] for label, part in zip(classes, parts, strict=True)}, key=str)


def read_any_segments(y: Any, scheme: str, name: str, texts: list[list[str]]) -> list[list[tuple]]:
    """Return segments, given directly or encoded by labels."""
    y = list_sequences(listed(y), name, "labels or segments")
    if len(y) != len(texts):
        raise ValueError(f"{name} has {len(y)} sequences, but X has {len(texts)}")
    if scheme == "segments" or hold_segments(y) or not any(map(len, y)):
        return [segments.tolist() if isinstance(segments, np.ndarray) else list(segments) for segments in y]
    for n, (labels, words) in enumerate(zip(y, texts, strict=True)):
        if len(labels) != len(words):
            raise ValueError(f"{name} has {len(labels)} labels in sequence {n}, but X has {len(words)} tokens")
    return segments_of_sequences(read_given_segments(y, scheme, False, name)[0])


def checked_segments(segments: list, texts: list[list[str]], name: str) -> list[list[tuple]]:
    """Return (start, stop, label, probability or None) of each segment, in order, or raise."""
    if len(segments) != len(texts):
        raise ValueError(f"{name} has {len(segments)} sequences, but there are {len(texts)}")
    checked = []
    for n, (of_one, words) in enumerate(zip(segments, texts, strict=True)):
        rows = sorted(read_rows(of_one, len(words), n, name), key=lambda row: row[:2])
        for before, row in zip(rows[:-1], rows[1:], strict=True):
            if row[0] < before[1]:
                raise ValueError(
                    f"{name} has segments that overlap: {short(before[:3])} and {short(row[:3])} (sequence {n})"
                )
        checked.append(rows)
    return checked


def read_rows(segments: Any, n_tokens: int, n: int, name: str) -> list[tuple]:
    """Return (start, stop, label, probability or None) of each segment of sequence ``n``, or raise."""
    rows = []
    for i, segment in enumerate(segments):
        where = f"sequence {n}, position {i}"
        row = parts_of_segment(segment)
        start, stop, label = read_segment(row[:3] if len(row) == 4 else row, where, name)
        if not isinstance(label, Hashable):
            raise TypeError(f"a label must be hashable, but {name} has the segment {short(row)} ({where})")
        if stop > n_tokens:
            raise ValueError(
                f"{name} has the segment {short((start, stop, label))} ({where}), but the sequence has {n_tokens} "
                "tokens"
            )
        probability = row[3] if len(row) == 4 else None
        if probability is not None:
            probability = finite_number(probability, where, f"probability of {name}")
        rows.append((start, stop, label, probability))
    return rows

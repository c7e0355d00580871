"""Label patterns and tags: conversion between the user's labels and the codes of the model; tables of segments."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..._data.checks import check_choice, short
from ..._data.messages import warn_user
from ..._data.segments import Segments
from ..._engine.kernels.tag_segments import Tags
from ..._engine.structure.patterns import (
    SEGMENTS,
    PatternCounts,
    PatternTable,
    all_patterns,
    given_patterns,
    has_equal_neighbours,
)
from ..._reading.labels import label_codes
from ..._reading.schemes import (
    OUTSIDE,
    PREFIXES,
    I,
    TagTable,
    goes_on,
    guessed_scheme,
    mixed_tags,
    tag_table,
)

_MANY_LABELS = 1_000_000  # in all patterns together; warn if there are more
_BYTES_OF_ARC, _BYTES_OF_LABEL, _SECONDS_OF_ARC = 850, 8, 2e-8  # rough values; seconds for each position of the data


class ObservedPatterns(NamedTuple):
    """The label patterns of training data, counted on demand."""

    n_positions: int  # tokens or segments of the data
    counted: Callable[[int, float], PatternCounts]  # arguments: the highest order, and the lowest count
    history: str  # whether patterns consist of the labels of positions or of segments of them


def select_patterns(
    patterns: Any, labels: np.ndarray, observed: ObservedPatterns, max_order: int, min_count: float
) -> PatternTable:
    """Return the label patterns of a model.

    Parameters
    ----------
    patterns : {"observed", "all"}, or iterable of tuples of labels
        The parameter of the estimators.
    labels : ndarray of shape (L,)
        The labels.
    observed : ObservedPatterns
        The patterns of the training data.
    max_order : int
        Highest order of patterns.
    min_count : float
        Lowest count of observed patterns of two or more labels.

    Raises
    ------
    ValueError
        If a pattern is too long or contains an unknown label.

    Warns
    -----
    UserWarning
        If the patterns are so numerous and long that they take much time or memory. The warning is issued before the
        patterns are processed.
    """
    if isinstance(patterns, str) and patterns == "observed":
        warn = partial(warn_of_size, n_positions=observed.n_positions)
        return observed.counted(max_order, min_count).frequent(len(labels), min_count, warn)
    if isinstance(patterns, str) and patterns == "all":
        table = all_patterns(len(labels), max_order, observed.history)
        warn_of_size(len(table.lengths), table.labels.shape[1], observed.n_positions)
        return table
    label_tuples = list(patterns)
    codes = pattern_codes(label_tuples, labels, observed.history)
    longest = max(label_tuples, key=len, default=())
    if len(longest) > max_order + 1:
        raise ValueError(f"pattern {short(longest)} has order {len(longest) - 1}, but max_order is {max_order}")
    return given_patterns(codes, len(labels), observed.history)


def warn_of_size(n_patterns: int, longest: int, n_positions: int) -> None:
    """Warn if label patterns are so numerous and long that their automaton takes much time and memory."""
    if n_patterns * longest < _MANY_LABELS:
        return
    megabytes = n_patterns * (_BYTES_OF_ARC + _BYTES_OF_LABEL * longest) / 2**20
    seconds = n_patterns * n_positions * _SECONDS_OF_ARC
    warn_user(
        f"{n_patterns:,} label patterns of up to {longest:,} labels give an automaton with as many arcs and at most as "
        f"many states. It takes about {megabytes:,.0f} MB, and each pass over the training data (an iteration needs "
        f"one to three) about {seconds:,.2g} s of processor time. A lower max_order, or a higher min_count, "
        "makes it smaller"
    )


def pattern_labels(patterns: PatternTable, labels: np.ndarray) -> list[tuple]:
    """Return patterns as tuples of the user's labels."""
    names = labels.tolist()
    return [tuple(names[code] for code in pattern) for pattern in patterns.tuples()]


def refuse_equal_neighbours(what: str, run: Sequence) -> None:
    """Raise a ValueError for three or more labels that cannot occur as labels of successive segments."""
    if has_equal_neighbours(run):
        raise ValueError(
            f"{what} {short(run)} cannot occur with history='segments', where neighbouring segments have different "
            "labels; a pair of equal labels is staying in a segment"
        )


def pattern_codes(patterns: Iterable, labels: np.ndarray, history: str) -> list[tuple]:
    """Return patterns of the user's labels as tuples of codes.

    Raises
    ------
    ValueError
        If a pattern is not a tuple of one or more labels of the model, or cannot occur with this history.
    """
    code_of, codes = label_codes(labels), []
    for pattern in patterns:
        if not isinstance(pattern, (tuple, list)) or len(pattern) == 0:
            raise ValueError(f"a label pattern must be a tuple of one or more labels, got {short(pattern)}")
        for label in pattern:
            if not isinstance(label, Hashable) or label not in code_of:
                raise ValueError(
                    f"pattern {short(pattern)} has the label {short(label)}, which the model does not have"
                )
        if history == SEGMENTS:
            refuse_equal_neighbours("pattern", pattern)
        codes.append(tuple(code_of[label] for label in pattern))
    return codes


SEGMENT_SCHEMES = ("auto", *PREFIXES, "runs")  # schemes by which labels can be read as segments


def read_tags(labels: np.ndarray, scheme: str, what: str) -> tuple[TagTable, list[str]]:
    """Return the prefix and segment label of each label of a model, and the names of the segment labels.

    Parameters
    ----------
    labels : ndarray of shape (L,)
    scheme : {"bio", "bioes", "bilou", "bmes", "iob1"}
    what : str
        Name of the setting that requires tags, for the message.

    Raises
    ------
    ValueError
        If a label is not a tag of the scheme.
    """
    return tag_table(labels.tolist(), scheme, "the labels", lambda _: f'{what}="{scheme}"')


def scheme_of(constraints: str | BaseEstimator | None, labels: np.ndarray) -> str:
    """Return the scheme that the constraints name; otherwise, return the scheme that the labels suggest."""
    return constraints if isinstance(constraints, str) else guessed_scheme(labels.tolist())


class SegmentTags(NamedTuple):
    """The labels of a model as tags of segments.   L labels, K labels of segments."""

    table: TagTable  # prefix and segment label of each label; the segment label of O is -1
    names: np.ndarray  # (K,)   labels of segments, sorted
    tags: Tags  # the same information for kernels


def segment_tables(
    offsets: np.ndarray, segments: Segments, probability: np.ndarray, labels: np.ndarray
) -> list[np.ndarray]:
    """Return one structured array of segments and probabilities per sequence, with positions in the sequence."""
    fields = [("start", np.int64), ("stop", np.int64), ("label", labels.dtype), ("probability", np.float64)]
    table = np.empty(len(probability), dtype=fields)
    origin = np.repeat(offsets[:-1], np.diff(segments.offsets))
    table["start"], table["stop"] = segments.start - origin, segments.stop - origin
    table["label"], table["probability"] = labels[segments.codes], probability
    return np.split(table, segments.offsets[1:-1]) if len(offsets) > 1 else []


def tags_of_labels(labels: np.ndarray, scheme: str, constraints: str | BaseEstimator | None) -> SegmentTags:
    """Return the labels of a model as tags of segments, given the constraints of the model.

    Raises
    ------
    ValueError
        If the scheme is invalid, or, with "auto", if some labels look like tags, but not all are tags of one scheme.
    """
    check_choice("scheme", scheme, SEGMENT_SCHEMES)
    if scheme == "auto":
        scheme = scheme_of(constraints, labels)
        if scheme == "runs" and (fault := mixed_tags(labels.tolist())):
            raise ValueError(f'scheme="auto": {fault}: name the scheme, or "runs" of equal labels')
    if scheme == "runs":
        names, table = labels, TagTable(np.full(len(labels), I, np.int8), np.arange(len(labels), dtype=np.int32))
    else:
        table, every = read_tags(labels, scheme, "scheme")
        names = np.array([name for name in every if name != OUTSIDE])
        index_of = {name: code for code, name in enumerate(names.tolist())} | {OUTSIDE: -1}
        table = table._replace(label=np.array([index_of[name] for name in every], dtype=np.int32)[table.label])
    tags = Tags(np.ascontiguousarray(goes_on(table.at(np.s_[:, None]), table)), table.label)
    return SegmentTags(table, names, tags)

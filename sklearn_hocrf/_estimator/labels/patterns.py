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
    Role,
    TagHistory,
    all_patterns,
    given_patterns,
    has_equal_neighbours,
)
from ..._reading.labels import label_codes
from ..._reading.schemes import (
    NO_LABEL,
    OUTSIDE,
    PREFIXES,
    I,
    TagRules,
    TagTable,
    goes_on,
    guessed_scheme,
    mixed_tags,
    tag_table,
)

_MANY_LABELS = 1_000_000  # in all patterns together; warn if there are more
_BYTES_OF_ARC, _BYTES_OF_LABEL, _SECONDS_OF_ARC = 850, 8, 2e-8  # roughly; seconds for one position


class ObservedPatterns(NamedTuple):
    """The label patterns of training data, which are counted on request."""

    n_positions: int  # tokens or segments of the data
    counted: Callable[[int, float], PatternCounts]  # of the highest order, and the lowest count
    history: str | TagHistory  # whether patterns are of the labels of these positions, or of their segments


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
        For patterns that are too long or contain unknown labels.

    Warns
    -----
    UserWarning
        If the patterns are so many and long that they take much time or memory, before any work on them.
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
    """Warn if label patterns are so many and long that their automaton takes much time and memory."""
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
    names = names_in_patterns(labels, patterns.history)
    return [tuple(names[code] for code in pattern) for pattern in patterns.tuples()]


def refuse_equal_neighbours(what: str, run: Sequence) -> None:
    """Raise a ValueError for three or more labels that segments cannot have."""
    if has_equal_neighbours(run):
        raise ValueError(
            f"{what} {short(run)} cannot occur with history='segments', where neighbouring segments have different "
            "labels; a pair of equal labels is staying in a segment"
        )


def pattern_codes(patterns: Iterable, labels: np.ndarray, history: str | TagHistory) -> list[tuple]:
    """Return patterns, given as tuples of the user's labels, as tuples of codes.

    Raises
    ------
    ValueError
        For a pattern that is not a tuple of one or more of the labels, or cannot occur with this history.
    """
    code_of, codes = label_codes(labels), []
    names = names_in_patterns(labels, history)
    of_segments = {name: code for code, name in enumerate(names) if code >= len(labels)}
    for pattern in patterns:
        if not isinstance(pattern, (tuple, list)) or len(pattern) == 0:
            raise ValueError(f"a label pattern must be a tuple of one or more labels, got {short(pattern)}")
        if isinstance(history, TagHistory) and not _are_tags(pattern, code_of, history):
            codes.append(tuple(of_segments.get(y, -1) if isinstance(y, Hashable) else -1 for y in pattern))
            if len(pattern) < 2 or -1 in codes[-1] or history.is_impossible(codes[-1]):
                raise ValueError(
                    f"pattern {short(pattern)} is neither a tag, nor a pair of tags in one segment, nor two or more "
                    f"labels of segments that may be neighbours, which are {short(list(of_segments))}"
                )
            continue
        for label in pattern:
            if not isinstance(label, Hashable) or label not in code_of:
                raise ValueError(
                    f"pattern {short(pattern)} has the label {short(label)}, which the model does not have"
                )
        if history == SEGMENTS:
            refuse_equal_neighbours("pattern", pattern)
        codes.append(tuple(code_of[label] for label in pattern))
    return codes


def _are_tags(pattern: Sequence, code_of: Any, history: TagHistory) -> bool:
    """Return whether a pattern is a tag, or a pair of tags in one segment."""
    if len(pattern) > 2 or not all(isinstance(label, Hashable) and label in code_of for label in pattern):
        return False
    codes = np.array([code_of[label] for label in pattern])
    return len(codes) == 1 or bool(history.stay(codes[:1], codes[1:])[0])


SEGMENT_SCHEMES = ("auto", *PREFIXES, "runs")  # schemes by which labels can be read as segments


def read_tags(labels: np.ndarray, scheme: str, what: str) -> tuple[TagTable, list[str]]:
    """Return prefix and segment label of each label of a model, and the names of the segment labels.

    Parameters
    ----------
    labels : ndarray of shape (L,)
    scheme : {"bio", "bioes", "bilou", "bmes", "iob1"}
    what : str
        Name of the setting that requires tags, for the message.

    Raises
    ------
    ValueError
        For a label that is not a tag of the scheme.
    """
    return tag_table(labels.tolist(), scheme, "the labels", lambda _: f'{what}="{scheme}"')


def history_of_labels(history: str, constraints: str | BaseEstimator | None, labels: np.ndarray) -> str | TagHistory:
    """Return whether the labels of patterns are those of tokens, of runs, or of the segments that tags describe.

    Parameters
    ----------
    history : {"tokens", "segments"}
    constraints : str, Constraints or None
        The parameter of the estimators; a scheme says that labels are tags.
    labels : ndarray of shape (L,)
    """
    if history != SEGMENTS or not isinstance(constraints, str):
        return history
    (prefix, label), names = read_tags(labels, constraints, "constraints")
    both = sorted({*labels.tolist()} & {*names} - {OUTSIDE})
    if both:
        raise ValueError(f"history='segments': {short(both[0])} is a tag, and the label of segments as well")
    order = np.argsort(np.argsort(names))
    roles_of_rules = Role.AFTER_OTHERS, Role.AFTER_EQUALS, Role.INSIDE, Role.OPEN, Role.LAST
    roles = np.transpose(TagRules.of(prefix, constraints)) @ roles_of_rules
    return TagHistory(tuple((len(labels) + order[label]).tolist()), tuple(roles.tolist()))


def names_in_patterns(labels: np.ndarray, history: str | TagHistory) -> list:
    """Return the meaning of each code of patterns: the labels and, if they are tags, the labels of segments."""
    names = labels.tolist()
    of_tags = {} if isinstance(history, str) else dict(zip(history.codes, names, strict=True))
    return names + [of_tags[code][2:] or (NO_LABEL, OUTSIDE)[of_tags[code] == OUTSIDE] for code in sorted(of_tags)]


def scheme_of(constraints: str | BaseEstimator | None, labels: np.ndarray) -> str:
    """Return the scheme that constraints name, or else the scheme that the labels suggest."""
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
    """Return the labels of a model with some constraints as tags of segments.

    Raises
    ------
    ValueError
        For an invalid scheme, and with "auto" if some labels look like tags, but not all are tags of one scheme.
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

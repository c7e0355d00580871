"""Labels of a model read as tags, and tables of segments for users."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._data.checks import short
from ..._data.segments import Segments
from ..._engine.kernels.tag_segments import Tags
from ..._engine.structure.patterns import AFTER_EQUALS, AFTER_OTHERS, INSIDE, LAST, OPEN, SEGMENTS, TagHistory
from ..._reading.schemes import (
    NO_LABEL,
    OUTSIDE,
    PREFIXES,
    B,
    E,
    I,
    O,
    S,
    TagTable,
    goes_on,
    guessed_scheme,
    marks_ends,
    tag_table,
)

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


def history_of_labels(history: str, constraints: Any, labels: np.ndarray) -> str | TagHistory:
    """Return what the labels of patterns are those of: of tokens, of runs, or of the segments that tags describe.

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
    order, is_outside, is_iob1 = np.argsort(np.argsort(names)), prefix == O, constraints == "iob1"
    after_others = is_outside | np.isin(prefix, (I,) if is_iob1 else (B, S))
    roles = AFTER_OTHERS * after_others + AFTER_EQUALS * np.isin(prefix, (B, S))
    roles = roles + INSIDE * (is_outside | np.isin(prefix, (I, E))) + OPEN * np.isin(prefix, (B, I, O))
    roles = roles + LAST * (np.isin(prefix, (O, E, S)) | (not marks_ends(constraints)))
    return TagHistory(tuple((len(labels) + order[label]).tolist()), tuple(roles.tolist()))


def names_in_patterns(labels: np.ndarray, history: str | TagHistory) -> list:
    """Return what each code of patterns stands for: the labels and, where they are tags, the labels of segments."""
    names = labels.tolist()
    of_tags = {} if isinstance(history, str) else dict(zip(history.codes, names, strict=True))
    return names + [of_tags[code][2:] or (NO_LABEL, OUTSIDE)[of_tags[code] == OUTSIDE] for code in sorted(of_tags)]


def scheme_of(constraints: Any, labels: np.ndarray) -> str:
    """Return the scheme that constraints name, or else the one that labels look like."""
    return constraints if isinstance(constraints, str) else guessed_scheme(labels.tolist())


class SegmentTags(NamedTuple):
    """The labels of a model as tags of segments.   L labels, K labels of segments."""

    table: TagTable  # prefix and segment label of each label; the segment label of O is -1
    names: np.ndarray  # (K,)   labels of segments, sorted
    tags: Tags  # the same information for kernels


def read_segment_tags(labels: np.ndarray, scheme: str, what: str) -> SegmentTags:
    """Return labels as tags of segments; arguments as in :func:`read_tags`, or "runs" for runs of equal labels."""
    if scheme == "runs":
        names, codes = labels, np.arange(len(labels), dtype=np.int32)
        table = TagTable(np.full(len(labels), I, np.int8), codes)
    else:
        table, every = read_tags(labels, scheme, what)
        names = np.array(sorted(name for name in every if name != OUTSIDE))
        index_of = {name: code for code, name in enumerate(names.tolist())} | {OUTSIDE: -1}
        table = TagTable(table.prefix, np.array([index_of[name] for name in every], dtype=np.int32)[table.label])
    before, after = (TagTable(*(column.reshape(shape) for column in table)) for shape in ((-1, 1), (1, -1)))
    tags = Tags(np.ascontiguousarray(goes_on(before, after)), table.label)
    return SegmentTags(table, names, tags)


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

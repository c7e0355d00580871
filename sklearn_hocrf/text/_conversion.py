"""Tags of one scheme from those of another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._data.checks import check_choice
from .._data.schemes import OUTSIDE, SCHEMES
from ..metrics import extract_segments
from ._alignment import labels_of_segments

__all__ = ["convert_tags"]


def convert_tags(y: Iterable[Sequence[Any]], source: str, target: str) -> list[list]:
    """Return labels of tokens in another scheme of segments, or mend tags that break the rules of their own.

    Parameters
    ----------
    y : list of label sequences
    source : {"bio", "bioes", "bilou", "bmes", "iob1", "runs"}
        The scheme of `y`. Tags that break its rules, such as an I of "bio" after an O, begin a segment, as in
        conlleval: see :func:`~sklearn_hocrf.metrics.extract_segments`.
    target : {"bio", "bioes", "bilou", "bmes", "iob1", "runs", "segments"}
        The scheme to return. It may be that of `y`: then every tag that breaks no rule stays. With "runs",
        neighbouring segments of one label become one.

    Returns
    -------
    y : list of lists
        Labels in the scheme `target`; with "segments", lists of (start, stop, label) with a segment of the label "O"
        for each token outside.

    Raises
    ------
    TypeError, ValueError
        If an scheme does not exist, or a label is no tag; the message names sequence and position.

    See Also
    --------
    tags_from_spans : Tags from spans of characters.

    Examples
    --------
    >>> from sklearn_hocrf.text import convert_tags
    >>> convert_tags([["I-PER", "I-PER", "O", "I-LOC", "B-LOC"]], "bio", "bio")
    [['B-PER', 'I-PER', 'O', 'B-LOC', 'B-LOC']]
    >>> convert_tags([["B-PER", "I-PER", "O", "B-LOC"]], "bio", "bilou")
    [['B-PER', 'L-PER', 'O', 'U-LOC']]
    """
    check_choice("source", source, [scheme for scheme in SCHEMES if scheme != "segments"])
    check_choice("target", target, SCHEMES)
    y = [list(labels) for labels in y]
    segments = [
        [segment for segment in of_sequence if segment[2] != OUTSIDE]
        for of_sequence in extract_segments(y, scheme=source)
    ]
    return labels_of_segments(segments, [len(labels) for labels in y], target)

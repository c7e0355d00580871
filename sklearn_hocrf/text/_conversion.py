"""Conversion of tags between schemes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._data.checks import check_choice
from .._data.schemes import OUTSIDE, SCHEMES
from ..metrics import extract_segments
from ._alignment import labels_of_segments

__all__ = ["convert_tags"]


def convert_tags(y: Iterable[Sequence[Any]], source: str, target: str) -> list[list]:
    """Convert labels of tokens to another scheme of segments, or repair invalid tags.

    Parameters
    ----------
    y : list of label sequences
        The tags to convert.
    source : {"bio", "bioes", "bilou", "bmes", "iob1", "runs"}
        The scheme of `y`. Invalid tags, such as an I of "bio" after an O, begin a segment, as in conlleval: see
        :func:`~sklearn_hocrf.metrics.extract_segments`.
    target : {"bio", "bioes", "bilou", "bmes", "iob1", "runs", "segments"}
        The scheme to return. It may be the scheme of `y`: then all valid tags are kept. With "runs", neighbouring
        segments with the same label become one.

    Returns
    -------
    y : list of lists
        Labels in the scheme `target`; with "segments", lists of (start, stop, label) with a segment labelled "O" for
        each token outside.

    Raises
    ------
    TypeError, ValueError
        If a scheme does not exist, or a label is not a tag; the message names sequence and position.

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

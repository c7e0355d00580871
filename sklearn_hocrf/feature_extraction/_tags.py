"""Token tags of segments: the tokens of a segment at which a tag n-gram ends. A segment of four tokens has B I I I.

A channel describes where an n-gram inside a segment ends: at a fixed distance from the first token of the segment, or
at each token of a range. Across a border there are only bigrams: the last tag of one segment, and "a segment begins
here".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._data.segments import FROM_START, FROM_STOP, NO_LIMIT, RANGE, Channel

PRESETS = {"unigrams": ("B", "I"), "bigrams": ("B", "I", "BI", "II", "B|", "I|")}


def tag_channel(tags: str) -> Channel | None:
    """Return the channel of the last token of a tag n-gram, or None if there is no such n-gram.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction._tags import tag_channel
    >>> tag_channel("BI")
    Channel(anchor=0, offset=1, shortest=2, longest=2147483647)
    >>> tag_channel("IB") is None
    True
    """
    if tags in ("B|", "I|"):
        return Channel(FROM_STOP, -1, *((1, 1) if tags == "B|" else (2, NO_LIMIT)))
    if re.fullmatch("BI*", tags):
        return Channel(FROM_START, len(tags) - 1, len(tags))
    return Channel(RANGE, len(tags), len(tags) + 1) if re.fullmatch("I+", tags) else None


def check_tags(tags) -> dict:
    """Return the parameter ``tags`` as {n-gram: (channel, prefixes of attribute names, or True for all)}."""
    if tags is None:
        return {}
    if isinstance(tags, str) and tags in PRESETS:
        tags = dict.fromkeys(PRESETS[tags], True)
    if not isinstance(tags, Mapping):
        raise (ValueError if isinstance(tags, str) else TypeError)(
            f"tags must be None, 'unigrams', 'bigrams' or a dict {{tag n-gram: prefixes}}, got {tags!r}"
        )
    checked = {}
    for ngram, prefixes in tags.items():
        channel = tag_channel(ngram) if isinstance(ngram, str) else None
        if channel is None:
            raise ValueError(
                f"tags has {ngram!r}, which is not a tag n-gram. Use 'B' or 'I', either with any number of 'I' after "
                "it, and 'B|' and 'I|' for the first token of the next segment"
            )
        checked[ngram] = channel, prefixes
    return checked

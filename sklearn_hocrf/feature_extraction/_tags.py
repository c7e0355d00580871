"""Token tags of segments: the tokens of a segment at which a tag n-gram ends.

    a segment of four tokens   BIO:  B I I I    BIOES:  B I I E
    a segment of one token     BIO:  B          BIOES:  S

A channel describes where an n-gram inside a segment ends: at a fixed distance from the first or last token of the
segment, or at each token of a range. Across a border there are only bigrams: the last tag of one segment, and "a
segment begins here".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .._data.segments import FROM_START, FROM_STOP, NO_LIMIT, RANGE, Channel

TAG_SCHEMES = ("bio", "bioes")
PRESETS = {
    ("bio", "unigrams"): ("B", "I"),
    ("bio", "bigrams"): ("B", "I", "BI", "II", "B|", "I|"),
    ("bioes", "unigrams"): ("B", "I", "E", "S"),
    ("bioes", "bigrams"): ("B", "I", "E", "S", "BI", "BE", "II", "IE", "S|", "E|"),
}
POSSIBLE = {
    "bio": "'B' or 'I', either with any number of 'I' after it, and 'B|' and 'I|' for the first token of the next "
    "segment",
    "bioes": "'S', 'B' and 'I' with any number of 'I' after it, each of them and 'E' alone also with 'E' at the end "
    "(except for 'S'), and 'S|' and 'E|' for the first token of the next segment",
}


def tag_channel(tags: str, scheme: str) -> Channel | None:
    """Return the channel of the last token of a tag n-gram, or None if there is no such n-gram.

    Examples
    --------
    >>> from sklearn_hocrf.feature_extraction._tags import tag_channel
    >>> tag_channel("BI", "bio")
    Channel(anchor=0, offset=1, shortest=2, longest=2147483647)
    >>> tag_channel("IB", "bio") is None
    True
    """
    longer = 1 if scheme == "bioes" else 0  # additional token that a segment needs for its E
    border = {
        "bio": {"B|": (1, 1), "I|": (2, NO_LIMIT)},
        "bioes": {"S|": (1, 1), "E|": (2, NO_LIMIT)},
    }[scheme]
    if tags in border:
        return Channel(FROM_STOP, -1, *border[tags])
    if scheme == "bioes" and tags == "S":
        return Channel(FROM_START, 0, 1, 1)
    if scheme == "bioes" and re.fullmatch("I*E", tags):
        return Channel(FROM_STOP, 0, len(tags) + 1)
    if scheme == "bioes" and re.fullmatch("BI*E", tags):
        return Channel(FROM_START, len(tags) - 1, len(tags), len(tags))
    if re.fullmatch("BI*", tags):
        return Channel(FROM_START, len(tags) - 1, len(tags) + longer)
    if re.fullmatch("I+", tags):
        return Channel(RANGE, len(tags), len(tags) + 1 + longer)
    return None


def check_tags(tags, scheme) -> dict:
    """Return the parameter ``tags`` as {n-gram: (channel, prefixes of attribute names, or True for all)}."""
    if tags is None:
        return {}
    if isinstance(tags, str):
        if (scheme, tags) not in PRESETS:
            raise ValueError(
                f"tags must be None, 'unigrams', 'bigrams' or a dict {{tag n-gram: prefixes}}, got {tags!r}"
            )
        tags = dict.fromkeys(PRESETS[scheme, tags], True)
    if not isinstance(tags, Mapping):
        raise TypeError(f"tags must be None, 'unigrams', 'bigrams' or a dict {{tag n-gram: prefixes}}, got {tags!r}")
    checked = {}
    for ngram, prefixes in tags.items():
        channel = tag_channel(ngram, scheme) if isinstance(ngram, str) else None
        if channel is None:
            raise ValueError(
                f"tags has {ngram!r}, which is not a tag n-gram for tag_scheme={scheme!r}. Use {POSSIBLE[scheme]}"
            )
        checked[ngram] = channel, prefixes
    return checked

"""Conversion between labels of tokens and segments.

    scheme      a sequence of 5 tokens                   its segments
    "runs"        A    A    A    D    A                    [0, 3) A, [3, 4) D, [4, 5) A
    "bio"         B-A  I-A  I-A  B-A  O                    [0, 3) A, [3, 4) A, [4, 5) O
    "bioes"       B-A  I-A  E-A  S-A  O                    the same
    "bilou"       B-A  I-A  L-A  U-A  O                    the same
    "bmes"        B-A  M-A  E-A  S-A  O                    the same
    "iob1"        I-A  I-A  I-A  B-A  O                    the same
    "segments"    (0, 3, "A"), (3, 4, "A"), (4, 5, "O")    the same

A segment of "runs" is a maximal run of equal labels. A tag consists of a prefix and a label; a bare "B" or "I" has the
label "_". Every O token is a segment of one token, whose label is "O". Invalid tags, such as an I after an O, are read
as in conlleval: a segment begins at B and S, after E, S and O, and where the label changes. The same rules apply to
tags of "iob1", where B only separates neighbouring segments of the same label. Estimators return "bio" tags instead,
because each "iob1" tag depends on the segment before it.

Segments and labels are integers in this module; strings occur only in the names of tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._data.checks import is_integer, short
from .._data.messages import warn_user
from .._data.segments import BEGIN, END_OF_SEGMENT, RANGE, Channel, Segments, cut_segments, token_labels
from .._data.tagger import PREFIXES
from .values import finite_number

SCHEMES = ("runs", *PREFIXES, "segments")
B, I, O, E, S = range(5)  # noqa: E741  the usual letters; their values are positions in PREFIXES
OUTSIDE = "O"  # tag, and label, of the tokens outside all segments
MAX_STOP = 2**62  # positions are int64
_KEYS = (("start",), ("stop", "end"), ("label",), ("probability",))  # of dicts, and of structured arrays
_BY_POSITION: Any = (tuple, list)  # kinds of segments
_BY_NAME: Any = (Mapping, np.void)
NO_LABEL = "_"  # label of the tags that have none


class Scheme(NamedTuple):
    """The prefixes of a scheme, for the only token of a segment, or the first, inner and last tokens of longer ones.

    Several of these prefixes may be equal. The prefix of tokens outside all segments is always O.
    """

    only: int
    first: int
    inner: int
    last: int
    has_separators: bool = False  # B only begins a segment after one with the same label; I begins the others

    @property
    def marks_ends(self) -> bool:
        """Whether the last token of a segment has a separate prefix."""
        return self.last != self.inner

    @property
    def begins_inside(self) -> bool:
        """Whether a prefix of tokens inside segments may also begin one."""
        return self.has_separators or self.first == self.inner

    def borders(self, prefix) -> tuple[int, int]:
        """Return whether a segment begins, and whether one ends, at a token with this prefix: 1, -1 (no) or 0 (maybe).

        If the preceding tag is known, it may imply another result.
        """
        goes_on = prefix in (self.inner, self.last) and not self.begins_inside
        begins = int(prefix in (O, self.only, self.first)) - int(goes_on)
        return begins, int(prefix in (O, self.only, self.last)) - int(prefix in (self.first, self.inner))


TAG_SCHEMES = {
    "bio": Scheme(B, B, I, I),
    "bioes": Scheme(S, B, I, E),
    "bilou": Scheme(S, B, I, E),
    "bmes": Scheme(S, B, I, E),
    "iob1": Scheme(B, B, I, I, has_separators=True),
}


class TagTable(NamedTuple):
    """Token tags as pairs of prefix and label.   C tags."""

    prefix: np.ndarray  # (C,) int8   B, I, O, E or S
    label: np.ndarray  # (C,) int32   code of the segment's label

    def at(self, index) -> TagTable:
        """Return the tags at a numpy index."""
        return TagTable(self.prefix[index], self.label[index])


# --- names of tags ----------------------------------------------------------------------------------------------------


def split_tag(tag, scheme) -> tuple[int, str] | None:
    """Return the prefix and label of a tag, or None if the string is not a tag of the scheme.

    Examples
    --------
    >>> from sklearn_hocrf._reading.schemes import split_tag
    >>> (
    ...     split_tag("I-PER", "bio"),
    ...     split_tag("S", "bioes"),
    ...     split_tag("O", "bio"),
    ...     split_tag("E-PER", "bio"),
    ... )
    ((1, 'PER'), (4, '_'), (2, 'O'), None)
    """
    letter, dash, label = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if len(letter) != 1 or letter not in PREFIXES[scheme] or (dash and not label):
        return None
    if letter == OUTSIDE:
        return None if dash else (O, OUTSIDE)
    return PREFIXES[scheme].index(letter), label or NO_LABEL


def read_tag(tag, scheme, name, where, may_be_outside=False) -> tuple[int, str]:
    """Return the prefix and label of a tag, or raise an error; ``name`` and the function ``where`` give its position.

    If ``may_be_outside``, segments may have the label "O".
    """
    part = split_tag(tag, scheme)
    if part is None:
        expected = ", ".join(f"'{prefix}-label'" for prefix in PREFIXES[scheme] if prefix not in "O-")
        what = f"{short(tag)} of {name} ({where()}) is not a tag of scheme={scheme!r}"
        raise ValueError(f"{what}, whose tags are 'O', {expected}")
    if part[1] == OUTSIDE and part[0] != O and not may_be_outside:
        raise ValueError(f"{short(tag)} of {name} ({where()}) has the label 'O', which only the tag 'O' may have")
    return part


def tag_table(tags, scheme, name, where, may_be_outside=False) -> tuple[TagTable, list[str]]:
    """Return tags as a table, and the sorted names of their labels; the arguments are as for :func:`read_tag`.

    ``where`` receives the index of the tag.
    """
    parts = [read_tag(tag, scheme, name, partial(where, i), may_be_outside) for i, tag in enumerate(tags)]
    names = sorted({label for _, label in parts})
    code_of = {label: code for code, label in enumerate(names)}
    prefix, label = np.array([(prefix, code_of[label]) for prefix, label in parts]).reshape(-1, 2).T
    return TagTable(prefix.astype(np.int8), label.astype(np.int32)), names


def mixed_tags(labels) -> str:
    """Return a description of the fault if only some labels look like tags, and "" if all or none do."""
    tags = [label for label in labels if split_tag(label, "bio") and label.startswith("B-")]
    if not tags or guessed_scheme(labels) != "runs":
        return ""
    others = [label for label in labels if not any(split_tag(label, each) for each in PREFIXES)]
    other = f" ({short(others[0])} is not a tag)" if others else ""
    return f"the label {short(tags[0])} looks like a tag, but not all labels are tags of one scheme{other}"


def join_tag(prefix, label, bare=True, scheme="bioes") -> str:
    """Return the name of a tag; ``bare`` leaves out the label "_"."""
    letter = PREFIXES[scheme][prefix]
    return letter if prefix == O or (bare and label == NO_LABEL) else f"{letter}-{label}"


def guessed_scheme(labels) -> str:
    """Return the scheme of labels if all of them look like tags, else "runs".

    Strings without a label count as tags if they include the tags of both the first and the inner tokens of segments.

    Examples
    --------
    >>> from sklearn_hocrf._reading.schemes import guessed_scheme
    >>> (
    ...     guessed_scheme(["O", "S-PER"]),
    ...     guessed_scheme(["B", "M", "E", "S"]),
    ...     guessed_scheme(["B", "O"]),
    ... )
    ('bioes', 'bmes', 'runs')
    """
    _refuse_bytes(labels)
    tags = [label for label in labels if label != OUTSIDE]
    for scheme, at in TAG_SCHEMES.items():
        are_tags = bool(tags) and all(split_tag(tag, scheme) is not None for tag in tags)
        begin_and_inside = {PREFIXES[scheme][at.first], PREFIXES[scheme][at.inner]}
        if are_tags and (all("-" in tag for tag in tags) or begin_and_inside <= set(tags)):
            return scheme
    return "runs"


# --- from tokens to segments ------------------------------------------------------------------------------------------


def segments_of_labels(codes, offsets) -> Segments:
    """Return the maximal runs of equal labels.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        Label codes of all tokens.
    offsets : ndarray of shape (n_sequences + 1,)
        Token range of each sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf._reading.schemes import segments_of_labels
    >>> segments = segments_of_labels(np.array([1, 1, 0, 0]), np.array([0, 3, 4]))
    >>> segments.start, segments.stop, segments.codes, segments.offsets
    (array([0, 2, 3]), array([2, 3, 4]), array([1, 0, 0], dtype=int32), array([0, 2, 3]))
    """
    return cut_segments(codes[1:] != codes[:-1], codes, offsets)


def segments_of_tags(prefixes, codes, offsets) -> Segments:
    """Return the segments of tagged tokens, including the segments of O tokens.

    Parameters
    ----------
    prefixes : ndarray of shape (N,)
        Prefixes of the tags: B, I, O, E, S.
    codes : ndarray of shape (N,)
        Label codes of the tags.
    offsets : ndarray of shape (n_sequences + 1,)
        Token range of each sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf._reading.schemes import B, I, O, segments_of_tags
    >>> segments = segments_of_tags(
    ...     np.array([I, I, O, B, I]), np.array([0, 0, 1, 0, 2]), np.array([0, 5])
    ... )
    >>> segments.start, segments.stop, segments.codes
    (array([0, 2, 3, 4]), array([2, 3, 4, 5]), array([0, 1, 0, 2], dtype=int32))
    """
    tags = TagTable(prefixes, codes)
    return cut_segments(~goes_on(tags.at(np.s_[:-1]), tags.at(np.s_[1:])), codes, offsets)


def goes_on(before: TagTable, after: TagTable) -> np.ndarray:
    """Return whether tags continue the segments of the tags before them; bool, of the broadcast shape of both."""
    is_open = (before.prefix == B) | (before.prefix == I)
    return (before.label == after.label) & is_open & ((after.prefix == I) | (after.prefix == E))


def _refuse_bytes(labels):
    """Raise an error if labels are tags of type bytes; without a scheme, they would give other segments."""
    texts = [str(label, "utf-8", "replace") for label in labels if isinstance(label, bytes)]
    if texts and guessed_scheme(texts) != "runs":
        tag = min(label for label in labels if isinstance(label, bytes))
        raise TypeError(f"the label {short(tag)} is bytes, but tags are str: decode them first, `tag.decode()`")


def legal_tags(tags: TagTable, scheme) -> tuple[np.ndarray, np.ndarray]:
    """Return which tags may follow each other, and which ones may begin and end a sequence.

    Legal sequences of tags define the segments without the rules for invalid tags.

    Parameters
    ----------
    tags : TagTable
        C tags of the scheme.
    scheme : {"bio", "bioes", "bilou", "bmes", "iob1"}

    Returns
    -------
    follow : ndarray of shape (C, C), bool
        Whether the tag of the column may follow the tag of the row.
    borders : ndarray of shape (2, C), bool
        Which tags may begin a sequence, and which may end it.

    Examples
    --------
    >>> from sklearn_hocrf._reading.schemes import B, I, O, TagTable, legal_tags
    >>> follow, borders = legal_tags(
    ...     TagTable(np.array([B, I, O]), np.array([0, 0, 1])), "bio"
    ... )
    >>> follow.astype(int)
    array([[1, 1, 1],
           [1, 1, 1],
           [1, 0, 1]])
    >>> borders.astype(int)
    array([[1, 0, 1],
           [1, 1, 1]])
    """
    at, is_same = TAG_SCHEMES[scheme], tags.label[:, None] == tags.label

    def are(*prefixes):
        return np.isin(tags.prefix, (*prefixes, O))

    first, last = are(at.only, at.first), are(at.only, at.last)
    after_others = tags.prefix != B if at.has_separators else first
    stays = is_same & are(at.first, at.inner)[:, None] & are(at.inner, at.last)
    begins = last[:, None] & np.where(is_same, first, after_others)
    return stays | begins, np.stack([after_others, last])


# --- from segments to tokens ------------------------------------------------------------------------------------------


def tags_of_segments(segments: Segments, scheme, outside) -> TagTable:
    """Return the tag of each token.

    Parameters
    ----------
    segments : Segments
        Segments that tile the sequences.
    scheme : {"bio", "bioes", "bilou", "bmes", "iob1"}
        "iob1" is treated as "bio".
    outside : int
        Code of the label "O", or -1 if there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf._reading.schemes import segments_of_labels, tags_of_segments
    >>> segments = segments_of_labels(np.array([1, 1, 1, 2, 0]), np.array([0, 5]))
    >>> tags_of_segments(segments, "bioes", outside=2).prefix
    array([0, 1, 3, 2, 4], dtype=int8)
    """
    at, lengths = TAG_SCHEMES[scheme], segments.lengths
    prefix = np.full(int(lengths.sum()), at.inner, dtype=np.int8)
    first = np.cumsum(lengths) - lengths
    prefix[first + lengths - 1] = at.last
    prefix[first] = at.first
    prefix[first[lengths == 1]] = at.only
    prefix[first[segments.codes == outside]] = O
    return TagTable(prefix, token_labels(segments))


def token_features(segments: Segments, scheme, outside) -> np.ndarray:
    """Return numbers that represent a segmentation token by token; shape (1 or 2, N).

    The rows are the labels and, for tags, their prefixes or, for "segments", whether a segment starts at the token.
    """
    if scheme == "runs":
        return token_labels(segments)[None]
    if scheme == "segments":
        starts = np.zeros(int(segments.lengths.sum()), dtype=np.int32)
        starts[np.cumsum(segments.lengths) - segments.lengths] = 1
        return np.stack([token_labels(segments), starts])
    return np.stack(tags_of_segments(segments, scheme, outside))


def tag_ids(tags: TagTable, known: TagTable) -> np.ndarray:
    """Return the row of each tag in another table, which contains all of them; shape (C,), int32."""
    tag_id = np.full((5, int(known.label.max(initial=0)) + 1), -1, dtype=np.int32)
    tag_id[known] = np.arange(len(known.label))
    return tag_id[tags]


def possible_tags(scheme, longest, outside) -> TagTable:
    """Return the tags that occur in segments of at most ``longest[y]`` tokens of label y, by label.

    Examples
    --------
    >>> from sklearn_hocrf._reading.schemes import possible_tags
    >>> tags = possible_tags("bioes", [1, 2, 3, 1], outside=3)
    >>> tags.prefix, tags.label
    (array([4, 0, 3, 4, 0, 1, 3, 4, 2], dtype=int8), array([0, 1, 1, 1, 2, 2, 2, 2, 3], dtype=int32))
    """
    at = TAG_SCHEMES[scheme]
    lengths = {at.inner: 3, at.first: 2, at.last: 2, at.only: 1}  # least length of a segment with each prefix
    pairs = [
        (prefix, label)
        for label, most in enumerate(longest)
        for prefix, least in sorted(({O: 1} if label == outside else lengths).items())
        if least <= most
    ]
    prefix, label = np.array(pairs).reshape(-1, 2).T
    return TagTable(prefix.astype(np.int8), label.astype(np.int32))


def tag_channels(tags: TagTable, scheme) -> list[tuple[int, Channel]]:
    """Return, for each tag, its label and the channel of its positions in a segment."""
    at = TAG_SCHEMES[scheme]
    offset, trim = int(at.first != at.inner), int(at.last != at.inner)
    channels = {  # if a prefix occurs at several places, the last entry counts
        O: BEGIN,
        at.only: BEGIN._replace(longest=1),
        at.last: END_OF_SEGMENT._replace(shortest=1 if at.last == at.only else 2),
        at.first: BEGIN._replace(shortest=1 if at.first == at.only else 2),
        at.inner: Channel(RANGE, offset, offset + trim + 1),
    }
    return [(label, channels[prefix]) for prefix, label in zip(*(column.tolist() for column in tags), strict=True)]


# --- lists of segments ------------------------------------------------------------------------------------------------


def read_segments(sequences, name, needs_probability=False) -> list[tuple]:
    """Return (sequence, start, stop, label, probability) of each segment in lists or arrays, or raise an error.

    The probability is None if it is not given.
    """
    return [
        (n, *read_segment(segment, f"sequence {n}, position {i}", name, needs_probability))
        for n, segments in enumerate(sequences)
        for i, segment in enumerate(segments)
    ]


def read_segment(segment, where, name, needs_probability=False) -> tuple:
    """Return (start, stop, label, probability), or raise an error with the segment's position, ``where``, and ``name``.

    The probability is None if it is not given.
    """
    if isinstance(segment, np.void):
        segment = dict(zip(segment.dtype.names or (), segment.tolist(), strict=False))
    elif isinstance(segment, np.ndarray):
        segment = segment.tolist()
    parts = _values_of(segment, where, name) if isinstance(segment, Mapping) else parts_of_segment(segment)
    if len(parts) not in (3, 4) or (needs_probability and parts[3:] in ((), (None,))):
        what = " with a probability (start, stop, label, probability)" if needs_probability else " (start, stop, label)"
        raise TypeError(f"{short(segment)} of {name} ({where}) is not a segment{what}")
    start, stop, label, probability = (*parts, None)[:4]
    if not (is_integer(start) and is_integer(stop)):
        raise TypeError(f"start and stop must be integers, but {name} has the segment {short(segment)} ({where})")
    if not 0 <= start < stop:
        raise ValueError(f"{name} has the segment {short(segment)} ({where}), but 0 <= start < stop must hold")
    if stop > MAX_STOP:
        raise ValueError(f"{name} has the segment {short(segment)} ({where}), but no sequence has that many tokens")
    p = None if probability is None else finite_number(probability, where, f"probability of {name}")
    return int(start), int(stop), label, p


def _values_of(segment, where, name) -> tuple:
    """Return start, stop, label and, if there is one, the probability of a dict, or raise an error."""
    values = [[segment[key] for key in keys if key in segment] for keys in _KEYS]
    labels = segment.get("labels")
    values[2] += labels if isinstance(labels, (list, tuple)) else []
    if any(len(matches) != 1 for matches in values[:3]):
        raise TypeError(
            f"{short(segment)} of {name} ({where}) has the keys {short(list(segment))}, but a segment has the keys "
            "'start', 'stop' or 'end', and 'label', or 'labels' with one member"
        )
    return tuple(chain.from_iterable(values))


def looks_like_segments(sequences) -> bool:
    """Return whether sequences look like segments, as in :func:`hold_segments`, with different starts.

    Parameters
    ----------
    sequences : list of lists, tuples or arrays

    Examples
    --------
    >>> from sklearn_hocrf._reading.schemes import looks_like_segments
    >>> (
    ...     looks_like_segments([[], [(0, 2, "PER"), (2, 3, "LOC")]]),
    ...     looks_like_segments([[(0, 1, "A"), (0, 1, "A")]]),
    ... )
    (True, False)
    """
    return hold_segments(sequences) and all(map(_could_tile, sequences))


def hold_segments(sequences) -> bool:
    """Return whether sequences are meant as segments, valid or invalid, rather than as token labels.

    Parameters
    ----------
    sequences : list of lists, tuples or arrays
        Rows of structured arrays are segments. So are dicts, and tuples and lists of three or four parts that begin
        with two integers: (start, stop, label), or (start, stop, label, probability).

    Examples
    --------
    >>> from sklearn_hocrf._reading.schemes import hold_segments
    >>> (
    ...     hold_segments([[], [(0, 2, "PER", 0.5), (1, 0, "LOC")]]),
    ...     hold_segments([["PER", b"four"]]),
    ...     hold_segments([[]]),
    ... )
    (True, False, False)
    """
    sequences = [sequence for sequence in sequences if len(sequence)]
    return bool(sequences) and all(all(map(_is_meant_as_segment, sequence)) for sequence in sequences)


def _is_meant_as_segment(item) -> bool:
    parts = parts_of_segment(item)
    is_row = len(parts) in (3, 4) and isinstance(parts[0], Integral) and isinstance(parts[1], Integral)
    return is_row or isinstance(item, _BY_NAME)


def parts_of_segment(item) -> tuple:
    """Return a tuple or a list as a tuple, and any other object as a tuple of one element."""
    return tuple(item) if isinstance(item, _BY_POSITION) else (item,)


def _could_tile(segments) -> bool:
    if any(isinstance(segment, _BY_NAME) for segment in segments):
        return True
    begins = {int(start) for start, stop, *_ in segments if 0 <= int(start) < int(stop)}
    return len(begins) == len(segments)


def segment_lists(segments: Segments, offsets, labels) -> list:
    """Return lists of (start, stop, label), counted from the beginning of each sequence.

    Parameters
    ----------
    segments : Segments
    offsets : ndarray of shape (n_sequences + 1,)
        Token range of each sequence.
    labels : list
        The label of each code.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_hocrf._reading.schemes import segment_lists, segments_of_labels
    >>> offsets = np.array([0, 3, 4])
    >>> segment_lists(
    ...     segments_of_labels(np.array([1, 1, 0, 0]), offsets), offsets, ["x", "y"]
    ... )
    [[(0, 2, 'y'), (2, 3, 'x')], [(0, 1, 'x')]]
    """
    origin = np.repeat(offsets[:-1], np.diff(segments.offsets))
    names = [labels[code] for code in segments.codes.tolist()]
    rows = list(zip((segments.start - origin).tolist(), (segments.stop - origin).tolist(), names, strict=True))
    bounds = segments.offsets.tolist()
    return [rows[first:last] for first, last in zip(bounds[:-1], bounds[1:], strict=True)]


def scheme_of_labels(labels: Iterable[Any]) -> str:
    """Return the scheme that labels of tokens seem to have, for ``scheme="auto"``, and warn if it may be another one.

    Tags of "bio" without any B count as "iob1"; the two are read alike unless invalid tags are left out. If all labels
    are "O", they count as tags, and there are no segments.

    Parameters
    ----------
    labels : iterable
        The distinct labels.

    Returns
    -------
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1"}

    Examples
    --------
    >>> from sklearn_hocrf._reading.schemes import scheme_of_labels
    >>> [
    ...     scheme_of_labels(labels)
    ...     for labels in (["O", "B-X"], ["O", "I-X"], ["O"], ["noun"])
    ... ]
    ['bio', 'iob1', 'bio', 'runs']
    """
    labels = list(labels)
    scheme = guessed_scheme(labels)
    if scheme == "runs":
        if fault := mixed_tags(labels):
            warn_user(f'scheme="auto": {fault}, so segments are runs of equal labels; name the scheme to be sure')
        return "bio" if labels and all(isinstance(label, str) and label == OUTSIDE for label in labels) else "runs"
    bare = [label for label in labels if label != OUTSIDE and "-" not in label]
    if bare:
        warn_user(
            f'scheme="auto": {short(sorted(set(bare)), 60)} are read as tags of "{scheme}"; pass scheme="runs" if they '
            f'are ordinary labels, or scheme="{scheme}" to be sure'
        )
    has_begin = any(label.startswith("B") for label in labels)
    return "iob1" if scheme == "bio" and not has_begin else scheme

"""The known labels of a batch: y, or ``known``, where labels may be missing.

In place of a label, y may contain for a token, or as the label of a segment,

    None                                            any label
    a set or frozenset                              one of these labels

A whole sequence may be None. Lists of segments need not tile a sequence: the gaps may have any labels.

Tags specify where segments begin and end, in addition to their labels. A mask must be able to express a set of tags:
all tags of each of its labels, or all that begin a segment, or all that do not, and the same with ends. Invalid tags
are read as in :mod:`sklearn_hocrf._data.schemes`: the tag before or after decides if it is known. An I whose neighbour
is unknown continues the segment before it; in "iob1" it may also begin one.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import NamedTuple

import numpy as np

from .._data.arrays import joined_ranges, offsets_of
from .._data.checks import IGNORED, is_missing, no_label, short
from .._data.labels import SEEN, check_hashable, label_codes, position_name, sorted_labels
from .._data.masks import Mask
from .._data.schemes import (
    MAX_STOP,
    OUTSIDE,
    PREFIXES,
    B,
    E,
    I,
    O,
    looks_like_segments,
    marks_ends,
    read_segment,
    split_tag,
)
from .._data.segments import Segments
from ._targets import is_ordered_collection, read_collection, read_labels, read_target_sequences, refuse_segments

__all__ = [
    "Known",
    "Reader",
    "KnownEntries",
    "all_labels",
    "borders_of_runs",
    "has_missing_labels",
    "miss_segment_labels",
    "known_of_lists",
    "known_of_runs",
    "known_of_tags",
    "known_of_tokens",
    "lengths_of_targets",
    "listed_segments",
    "name_in_tag",
    "read_known_segments",
    "segment_rows",
    "segments_between",
    "split_entry",
    "read_entries",
]

_FLAGS = (1, -1, 0)  # as in Mask.begins; the most informative first


class Known(NamedTuple):
    """The known labels of a batch.   N tokens, L labels of the model."""

    mask: Mask
    is_impossible: np.ndarray  # (n_sequences,) bool   has a label unknown to the model; the mask ignores it

    @property
    def codes(self) -> np.ndarray:
        """The label of each token, or of the segment that contains it; -1 where several are possible."""
        allowed = self.mask.allowed
        return np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1).astype(np.int32)


class KnownEntries(NamedTuple):
    """The entries of y for tokens, or for segments, each distinct entry once.   D distinct entries."""

    distinct: list  # of length D: a label, a frozenset of labels, or None for anything
    ids: np.ndarray  # the index in ``distinct`` of each token's entry, int64
    offsets: np.ndarray  # (n_sequences + 1,)
    what: str  # name of y in messages

    def labels(self) -> set:
        """Return all labels that occur in the entries."""
        return {label for entry in self.distinct if entry is not None for label in _members(entry)}

    def where(self, entry) -> str:
        """Return the name of the first position of an entry."""
        return position_name(self.offsets, int(np.argmax(self.ids == entry)))


class Reader:
    """How labels are read.

    Parameters
    ----------
    labels : ndarray of shape (L,)
        Labels of the model, sorted.
    unknown : {"raise", "ignore"}
        Whether other labels are an error, or impossible.
    among : str
        Name of ``labels`` in messages.
    """

    def __init__(self, labels, unknown="raise", among=SEEN):
        self.labels, self.unknown, self.among = labels, unknown, among
        self.codes = label_codes(labels)

    def code(self, label, entries, entry) -> int:
        """Return the code of a label, or -1 for one that is impossible; raise if it is an error."""
        code = self.codes.get(label, -1)
        if code < 0 and isinstance(label, Integral) and label == IGNORED:
            raise no_label(label, entries.where(entry), entries.what)
        if code < 0 and self.unknown == "raise":
            raise ValueError(
                f"unknown label {short(label)} of {entries.what} ({entries.where(entry)}): "
                f"it is not one of {self.among}"
            )
        return code


# --- entries ----------------------------------------------------------------------------------------------------------


def has_missing_labels(labels) -> bool:
    """Return whether an array or list of labels contains None or sets."""
    if isinstance(labels, np.ndarray) and labels.dtype != object:
        return False
    return any(issubclass(kind, (type(None), set, frozenset)) for kind in set(map(type, labels)))


def read_entries(labels, offsets, what) -> KnownEntries:
    """Return the entry of each token, or raise if one is neither a label nor a set of labels.

    Parameters
    ----------
    labels : ndarray or list
        Entries of all tokens, or of all segments.
    offsets : ndarray of shape (n_sequences + 1,)
        Indices of the first entries of the sequences.
    what : str
        Name of y in messages.
    """
    items = labels.tolist() if isinstance(labels, np.ndarray) else labels
    keys = items
    if any(issubclass(kind, (set, frozenset)) for kind in set(map(type, items))):
        keys = [frozenset(item) if isinstance(item, (set, frozenset)) else item for item in items]
    try:
        index_of = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        ids = np.fromiter(map(index_of.__getitem__, keys), dtype=np.int64, count=len(keys))
    except TypeError:
        check_hashable(keys, offsets)
        raise
    entries = KnownEntries(list(index_of), ids, offsets, what)
    for i, entry in enumerate(entries.distinct):
        members = _members(entry)
        if not members:
            raise ValueError(
                f"{what} has an empty set ({entries.where(i)}): no label is possible there; None means any"
            )
        for member in members:
            if entry is not None and is_missing(member):
                raise no_label(member, entries.where(i), what)
    return entries


def _members(entry) -> list:
    """Return the labels of an entry in a fixed order, because messages name the first wrong one."""
    return sorted(entry, key=repr) if isinstance(entry, frozenset) else [entry]


def all_labels(entries: KnownEntries, name_of=None, at_least=2) -> np.ndarray:
    """Return the distinct labels of all entries, sorted.

    Parameters
    ----------
    entries : Entries
    name_of : callable or None
        Maps an entry of y and its index to a label.
    at_least : int
        Required number of distinct labels.
    """
    labels = [_labels_of(entry, i, name_of) for i, entry in enumerate(entries.distinct)]
    of_any = next((members[0] for members in labels if members), None)
    if of_any is None:
        raise ValueError(f"{entries.what} has no known labels: there is nothing to learn from")
    # unknown entries get a label that occurs, so that messages name the right positions of all others
    first = [members[0] if members else of_any for members in labels]
    others = [label for members in labels for label in members[1:]]
    shown = [first[i] for i in entries.ids.tolist()]
    if not others:
        return sorted_labels(shown, entries.offsets, at_least)
    sorted_labels(shown, entries.offsets, at_least=1)
    return sorted_labels([*shown, *others], entries.offsets, at_least)


def _labels_of(entry, i, name_of):
    if entry is None:
        return []
    return [member if name_of is None else name_of(member, i) for member in _members(entry)]


# --- tokens -----------------------------------------------------------------------------------------------------------


def known_of_tokens(entries: KnownEntries, reader: Reader) -> Known:
    """Return the known labels of tokens, given the entries of y."""
    allowed = _allowed(entries, reader)
    mask = Mask(allowed[entries.ids], np.zeros(len(entries.ids), np.int8))
    return _known(mask, entries.ids, entries.offsets, ~allowed.any(axis=1))


def _allowed(entries, reader) -> np.ndarray:
    """Return which labels each entry allows; shape (D, L)."""
    allowed = np.zeros((len(entries.distinct), len(reader.labels)), dtype=bool)
    for i, entry in enumerate(entries.distinct):
        if entry is None:
            allowed[i] = True
            continue
        codes = [reader.code(label, entries, i) for label in _members(entry)]
        allowed[i, [code for code in codes if code >= 0]] = True
    return allowed


def _known(mask, index, offsets, is_impossible) -> Known:
    """Return the known labels of a mask, given which entries no label agrees with."""
    impossible = np.zeros(len(offsets) - 1, dtype=bool)
    if is_impossible.any():
        impossible[np.searchsorted(offsets, np.flatnonzero(is_impossible[index]), side="right") - 1] = True
        says_nothing = np.repeat(impossible, np.diff(offsets))
        mask.allowed[says_nothing], mask.begins[says_nothing] = True, 0
    return Known(mask, impossible)


# --- segments ---------------------------------------------------------------------------------------------------------


def read_known_segments(y, lengths, form, name, reader: Reader, what, *, scheme, longest) -> Known:
    """Return the known parts of segmentations.

    Parameters
    ----------
    y, lengths, form, name, what
        As in :func:`~sklearn_hocrf._validation._targets.read_labels`.
    reader : Reader
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}
    longest : ndarray of shape (L,)
        Highest length of a segment, by label.
    """
    if scheme == "segments":
        bounds, entries = listed_segments(y, lengths, name, what)
        return known_of_lists(bounds, entries, offsets_of(lengths), reader)
    try:
        labels, _ = read_labels(y, lengths, form, name, what)
        entries = read_entries(labels, offsets_of(lengths), what)
        if scheme == "runs":
            return known_of_runs(entries, reader)
        return known_of_tags(entries, reader, scheme, longest)
    except (TypeError, ValueError):
        if form != "table":
            refuse_segments(y, lengths, name, scheme, what)
        raise


def miss_segment_labels(y, lengths, form, name, scheme) -> bool:
    """Return whether y leaves labels or borders of segments open; parameters as in :func:`read_known_segments`."""
    if scheme != "segments":
        if form != "table":
            refuse_segments(y, lengths, name, scheme)
        return has_missing_labels(read_labels(y, lengths, form, name)[0])
    bounds, entries = listed_segments(y, lengths, name, "y")
    tokens = np.bincount(bounds[:, 0], weights=bounds[:, 2] - bounds[:, 1], minlength=len(lengths))
    is_open = any(entry is None or isinstance(entry, frozenset) for entry in entries.distinct)
    return is_open or bool((tokens < lengths).any())


def segments_between(codes, begins, offsets) -> tuple[Segments, np.ndarray, np.ndarray]:
    """Return the segments that are known from end to end, and labels and lengths of all pieces of segments.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        The label of each token, or of its segment; -1 where it is not known.
    begins : ndarray of shape (N,)
        As in :class:`~sklearn_hocrf._data.masks.Mask`.
    offsets : ndarray of shape (n_sequences + 1,)
    """
    borders = np.append(begins, 1)
    borders[offsets] = 1
    cuts = np.flatnonzero(borders != -1)
    start, stop = cuts[:-1], cuts[1:]
    label, lowest = np.maximum.reduceat(codes, start), np.minimum.reduceat(codes, start)
    is_known = (borders[start] == 1) & (borders[stop] == 1) & (lowest == label) & (label >= 0)
    counts = offsets_of(is_known)[np.searchsorted(start, offsets)]
    segments = Segments(counts, start[is_known], stop[is_known], label[is_known])
    return segments, label[label >= 0], (stop - start)[label >= 0]


def known_of_runs(entries: KnownEntries, reader: Reader) -> Known:
    """Return the known labels of segments that are runs of equal labels, given labels of tokens.

    The model itself ensures that neighbouring segments have different labels, unless all segments have one token.
    """
    return known_of_tokens(entries, reader)


def borders_of_runs(codes, offsets) -> np.ndarray:
    """Return where segments that are runs of equal labels begin, as in ``Mask.begins``; codes of -1 are not known."""
    begins = np.zeros(len(codes), np.int8)
    known = (codes[1:] >= 0) & (codes[:-1] >= 0)
    begins[1:] = np.where(known, np.where(codes[1:] == codes[:-1], -1, 1), 0)
    begins[offsets[:-1][np.diff(offsets) > 0]] = 1
    return begins


def segment_rows(y, lengths, name, what) -> tuple[list, np.ndarray]:
    """Return the segments that y lists, as (sequence, start, stop, label), and their bounds, of shape (M, 3).

    They are sorted, lie in their sequences and do not overlap.
    """
    sequences = read_target_sequences(y, len(lengths), name, what)
    rows = [
        (n, *read_segment(segment, f"sequence {n}, position {i}", what))
        for n, segments in enumerate(sequences)
        for i, segment in enumerate(segments.tolist() if isinstance(segments, np.ndarray) else segments or ())
    ]
    rows.sort(key=lambda row: row[:2])
    bounds = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    sequence, start, stop = bounds.T
    overlaps = np.append(False, (sequence[1:] == sequence[:-1]) & (start[1:] < stop[:-1]))[: len(rows)]
    beyond = stop > lengths[sequence]
    for i in np.flatnonzero(overlaps | beyond)[:1].tolist():
        n, segment = rows[i][0], rows[i][1:]
        if beyond[i]:
            raise ValueError(f"segment {short(segment)} of sequence {n} of {what} ends beyond its {lengths[n]} tokens")
        raise ValueError(f"segments {short(rows[i - 1][1:])} and {short(segment)} of sequence {n} of {what} overlap")
    return rows, bounds


def lengths_of_targets(y, name, scheme) -> tuple[np.ndarray | None, str]:
    """Return the numbers of tokens that y tells, and the form of its X; None if tuples may be sequences or labels.

    Parameters
    ----------
    y : sequences
    name : str
        Name of the estimator, for messages.
    scheme : str or None
        Of the estimator, if it labels segments.
    """
    y = read_collection(y, name, "y")
    n_sequences = len(y)
    kinds = {type(labels) for labels in y if is_ordered_collection(labels) and not isinstance(labels, (str, bytes))}
    if not kinds:
        return np.ones(n_sequences, np.int64), "table"
    if kinds == {tuple}:
        return None, "sequences"
    sequences = [() if labels is None else labels for labels in read_target_sequences(y, n_sequences, name)]
    if scheme == "segments" or (scheme == "auto" and looks_like_segments(sequences)):
        _, bounds = segment_rows(y, np.full(n_sequences, MAX_STOP), name, "y")
        lengths = np.zeros(n_sequences, np.int64)
        np.maximum.at(lengths, bounds[:, 0], bounds[:, 2])
        return lengths, "sequences"
    return np.array([len(labels) for labels in sequences], np.int64), "sequences"


def listed_segments(y, lengths, name, what) -> tuple[np.ndarray, KnownEntries]:
    """Return the bounds of :func:`segment_rows`, and the entries of y for the labels."""
    rows, bounds = segment_rows(y, lengths, name, what)
    offsets = offsets_of(np.bincount(bounds[:, 0], minlength=len(lengths)))
    return bounds, read_entries([row[3] for row in rows], offsets, what)


def known_of_lists(bounds, entries: KnownEntries, offsets, reader: Reader) -> Known:
    """Return the known parts given by a list of segments; ``offsets`` are the offsets of the tokens.

    A segment begins with its first token and nowhere else in it, and the next one begins where it stops.
    """
    sequence, start, stop = bounds.T
    n_tokens = int(offsets[-1])
    start, stop = start + offsets[sequence], stop + offsets[sequence]
    begins, allowed = np.zeros(n_tokens + 1, np.int8), np.ones((n_tokens, len(reader.labels)), bool)
    tokens = joined_ranges(start, stop)
    entry, of_entry = np.repeat(entries.ids, stop - start), _allowed(entries, reader)
    begins[tokens] = -1
    begins[start] = begins[stop] = 1  # at the end of a sequence, the next one begins
    allowed[tokens] = of_entry[entry]
    index = np.full(n_tokens, len(entries.distinct))  # all other tokens are unknown
    index[tokens] = entry
    impossible = np.append(~of_entry.any(axis=1), False)
    return _known(Mask(allowed, begins[:n_tokens]), index, offsets, impossible)


# --- tags -------------------------------------------------------------------------------------------------------------


class _Shapes(NamedTuple):
    """How tags are read in one scheme.

    A token has a *shape* in the segment that contains it: whether this is its first token, and whether it is its last.
    """

    scheme: str
    possible: Mapping[str, frozenset]  # the shapes of the tokens of each label

    def of_tag(self, tag, before, after) -> tuple[str, set]:
        """Return the label of a tag, and the shapes that it may have.

        ``before`` and ``after`` are the tags that the neighbours may have, or None for any; [] if there is no
        neighbour.
        """
        prefix, label = tag
        goes_on_from = before is None or any(t in before for t in ((B, label), (I, label)))
        goes_on_to = after is None or any(t in after for t in ((I, label), (E, label)))
        begins: tuple = (False,) if prefix in (I, E) and goes_on_from else (True,)
        if self.scheme == "iob1" and prefix == I and goes_on_from and _may_differ(before, label):
            begins = (False, True)  # an I begins a segment after another label
        ends: tuple = (True,)
        if not marks_ends(self.scheme) and prefix != O:
            ends = (False, True)
        elif prefix in (B, I) and goes_on_to:
            ends = (False,)
        shapes = {(first, last) for first in begins for last in ends}
        return label, shapes & self._reachable(label, before, after)

    def conditions(self, tags, before, after) -> tuple[set, int, int] | None:
        """Return labels and flags that are equivalent to a set of tags, or None if no such flags exist.

        The flags specify whether a segment begins with the token, and whether one ends with it, as in ``Mask.begins``.
        They may allow shapes that the neighbours rule out: shapes of segments with a label that a neighbour cannot
        have.
        """
        found: dict[str, set] = {}
        for tag in tags:
            label, shapes = self.of_tag(tag, before, after)
            found.setdefault(label, set()).update(shapes)
        found = {label: shapes for label, shapes in found.items() if shapes}
        reachable = {label: self._reachable(label, before, after) for label in found}
        for flags in ((begins, ends) for begins in _FLAGS for ends in _FLAGS):
            if all(shapes == _agreeing(reachable[label], flags) for label, shapes in found.items()):
                return set(found), *flags
        return None

    def _reachable(self, label, before, after):
        """Return the shapes that a token of a label can have next to neighbours with the given tags."""
        begins = before is not None and all(other != label for _, other in before)
        ends = after is not None and all(other != label for _, other in after)
        return {shape for shape in self.possible[label] if shape[0] >= begins and shape[1] >= ends}


def _may_differ(tags, label) -> bool:
    return tags is None or any(other != label for _, other in tags)


def _agreeing(shapes, flags) -> set:
    wanted = [{1: (True,), -1: (False,), 0: (False, True)}[flag] for flag in flags]
    return {shape for shape in shapes if shape[0] in wanted[0] and shape[1] in wanted[1]}


def known_of_tags(entries: KnownEntries, reader: Reader, scheme, longest) -> Known:
    """Return the known parts of segmentations given by tags; see :func:`read_known_segments`."""
    names = reader.labels.tolist()
    tags = [_tags_of(entries, i, scheme) for i in range(len(entries.distinct))]
    possible = {label: _shapes_of(label, most) for label, most in zip(names, longest, strict=True)}
    for i, of_entry in enumerate(tags):
        if of_entry is not None:
            tags[i] = [tag for tag in of_entry if reader.code(tag[1], entries, i) >= 0]
    triples, inverse = _triples(entries)
    allowed, flags = np.ones((len(triples), len(names)), bool), np.zeros((len(triples), 2), np.int8)
    shapes, neighbours = _Shapes(scheme, possible), [*tags, []]  # the last one for the border
    for i, (before, here, after) in enumerate(triples.tolist()):
        if tags[here] is None:
            continue
        conditions = shapes.conditions(tags[here], neighbours[before], neighbours[after])
        if conditions is None:
            raise ValueError(_no_mask(entries, int(np.argmax(inverse == i))))
        allowed[i] = [label in conditions[0] for label in names]
        flags[i] = conditions[1:]
    begins = flags[inverse, 0]
    goes_on = np.ones(len(inverse), bool)
    goes_on[entries.offsets[:-1][entries.offsets[:-1] < len(inverse)]] = False
    after = np.flatnonzero(goes_on[1:]) + 1
    begins[after] = np.where(begins[after] == 0, flags[inverse[after - 1], 1], begins[after])
    impossible = np.array([t is not None and not t for t in tags], dtype=bool)
    return _known(Mask(allowed[inverse], begins), entries.ids, entries.offsets, impossible)


def _tags_of(entries, i, scheme):
    """Return the pairs (prefix, label) of an entry, or None for any."""
    entry = entries.distinct[i]
    if entry is None:
        return None
    return [split_entry(tag, entries, i, scheme) for tag in _members(entry)]


def split_entry(tag, entries, i, scheme) -> tuple:
    """Return the prefix and the label of a tag of an entry, given the entry's index."""
    part = split_tag(tag, scheme)
    if part is None:
        expected = ", ".join(f"'{prefix}-label'" for prefix in PREFIXES[scheme] if prefix != OUTSIDE)
        raise ValueError(
            f"{short(tag)} of {entries.what} ({entries.where(i)}) is not a tag of scheme={scheme!r}, whose tags "
            f"are 'O', {expected}"
        )
    if part[1] == OUTSIDE and part[0] != O:
        raise ValueError(
            f"{entries.what} has the tag {short(tag)} ({entries.where(i)}), but the label 'O' belongs to the tag 'O'"
        )
    return part


def name_in_tag(entries: KnownEntries, scheme):
    """Return a function that gives the label in a tag, given the index of its entry; see :func:`all_labels`."""
    return lambda tag, i: split_entry(tag, entries, i, scheme)[1]


def _shapes_of(label, longest) -> frozenset:
    """Return the shapes of the tokens of segments of at most ``longest`` tokens (1 for the outside label)."""
    longest = 1 if label == OUTSIDE else longest
    shapes = {(True, True)}
    if longest > 1:
        shapes |= {(True, False), (False, True)}
    return frozenset(shapes | {(False, False)} if longest > 2 else shapes)


def _triples(entries):
    """Return the entries before, at and after tokens, each triple once, and the index of each token's triple.

    The index after the last entry represents the border of a sequence.
    """
    border, here = len(entries.distinct), entries.ids
    before, after = np.append(border, here[:-1])[: len(here)], np.append(here[1:], border)[: len(here)]
    has_tokens = np.diff(entries.offsets) > 0
    before[entries.offsets[:-1][has_tokens]] = border
    after[entries.offsets[1:][has_tokens] - 1] = border
    base = border + 1
    key = (before * base + here) * base + after
    if base**3 <= len(key):
        is_there = np.bincount(key, minlength=base**3) > 0
        keys, inverse = np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[key]
    else:
        keys, inverse = np.unique(key, return_inverse=True)
    return np.stack([keys // base**2, keys // base % base, keys % base], axis=1), inverse


def _no_mask(entries, token):
    entry = entries.distinct[entries.ids[token]]
    return (
        f"{entries.what} has the set {short(set(entry))} ({position_name(entries.offsets, token)}): segments of some "
        "of its labels begin or end there, and segments of others do not, which is not supported. Leave the others "
        "out, or give all tags of each label"
    )

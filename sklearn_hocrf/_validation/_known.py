"""Labels of a batch: y, or ``known``, read with or without missing labels.

Where labels may be missing, y may contain for a token, or as the label of a segment, in place of a label

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
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import joined_ranges, offsets_of
from .._data.checks import IGNORED, is_missing, no_label, short
from .._data.labels import SEEN, distinct_values, label_codes, position_name, sorted_labels
from .._data.masks import Mask
from .._data.schemes import (
    MAX_STOP,
    OUTSIDE,
    PREFIXES,
    B,
    E,
    I,
    O,
    TagTable,
    goes_on,
    looks_like_segments,
    marks_ends,
    read_segment,
    split_tag,
)
from .._data.segments import Segments
from ._targets import (
    is_ordered_collection,
    leave_out,
    read_collection,
    read_labels,
    read_target_sequences,
    refuse_segments,
)

_FLAGS = (1, -1, 0)  # as in Mask.begins; the most informative first


class Known(NamedTuple):
    """What y says about a batch.   N tokens, L labels of the model, R sets of labels."""

    codes: np.ndarray  # (N,) int32   label of each token, or of the segment that contains it; -1: several, or none
    begins: np.ndarray  # (N,) int8   as in Mask; 0 where the labels alone decide
    n_labels: int
    allowed: np.ndarray | None  # (R, L) bool   labels of each set; None if no label or border is left open
    ids: np.ndarray  # (N,)   the set of each token
    offsets: np.ndarray  # (n_sequences + 1,)   of the tokens
    is_impossible: np.ndarray  # (n_sequences,) bool   has a label unknown to the model; the mask ignores it

    @property
    def is_complete(self) -> bool:
        """Whether no label and no border is left open; a code of -1 is then of a label unknown to the model."""
        return self.allowed is None

    @property
    def mask(self) -> Mask:
        """The labellings that agree with y."""
        allowed = np.eye(self.n_labels, dtype=bool)[self.codes] if self.allowed is None else self.allowed[self.ids]
        mask = Mask(allowed, self.begins.copy())
        if self.is_impossible.any():
            says_nothing = np.repeat(self.is_impossible, np.diff(self.offsets))
            mask.allowed[says_nothing], mask.begins[says_nothing] = True, 0
        return mask


class _Entries(NamedTuple):
    """The entries of y for tokens, or for segments, each distinct entry once.   D distinct entries."""

    distinct: list  # of length D: a label, a frozenset of labels, or None for anything
    ids: np.ndarray  # the index in ``distinct`` of each token's entry, int32
    offsets: np.ndarray  # (n_sequences + 1,)
    what: str  # name of y in messages
    dtype: np.dtype | None  # of the labels, if they are an array of their kind

    def labels(self) -> set:
        """Return all labels that occur in the entries."""
        return {label for entry in self.distinct if entry is not None for label in _members(entry)}

    def where(self, entry) -> str:
        """Return the name of the first position of an entry."""
        return position_name(self.offsets, int(np.argmax(self.ids == entry)))


class Given(NamedTuple):
    """Labels, tags or segments as in y, before labels have codes."""

    entries: _Entries
    offsets: np.ndarray  # (n_sequences + 1,)   of the tokens
    bounds: np.ndarray | None  # (M, 3) int64   of listed segments, as in ``_segment_rows``
    as_lists: bool  # y was made of lists

    @property
    def is_complete(self) -> bool:
        """Whether no label and no border of a segment is left open."""
        is_tiled = self.bounds is None or (self.bounds[:, 2] - self.bounds[:, 1]).sum() == self.offsets[-1]
        return bool(is_tiled) and not any(map(_is_open, self.entries.distinct))


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

    def known_codes(self, parts, entries, i) -> list:
        """Return the codes of the labels of entry ``i`` that the model knows; ``parts`` as of :func:`_parts`."""
        return [code for code in (self._code(label, entries, i) for _, label in parts) if code >= 0]

    def _code(self, label, entries, entry):
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


def _read_entries(labels, offsets, what, takes_missing_labels=True) -> _Entries:
    """Return the entry of each token, or raise if one is neither a label nor a set of labels.

    Parameters
    ----------
    labels : ndarray or list
        Entries of all tokens, or of all segments.
    offsets : ndarray of shape (n_sequences + 1,)
        Indices of the first entries of the sequences.
    what : str
        Name of y in messages.
    takes_missing_labels : bool
        Whether entries may be None or sets.
    """
    if not isinstance(labels, np.ndarray) and any(
        issubclass(kind, (set, frozenset)) for kind in set(map(type, labels))
    ):
        labels = [frozenset(entry) if isinstance(entry, (set, frozenset)) else entry for entry in labels]
    distinct, ids, dtype = distinct_values(labels, lambda i: position_name(offsets, i))
    entries = _Entries(distinct, ids, offsets, what, dtype)
    for i, entry in enumerate(distinct):
        _check_entry(entry, i, entries, takes_missing_labels and dtype is None)  # NaT of arrays is None in lists
    return entries


def _check_entry(entry, i, entries, takes_missing_labels):
    members, what = _members(entry), entries.what
    if not members:
        raise ValueError(f"{what} has an empty set ({entries.where(i)}): no label is possible there; None means any")
    if isinstance(entry, frozenset) and not takes_missing_labels:
        raise TypeError(f"{what} has the set {short(set(entry))} ({entries.where(i)}), but each token needs one label")
    for member in members:
        if is_missing(member) and not (entry is None and takes_missing_labels):
            raise no_label(member, entries.where(i), what)


def _is_open(entry) -> bool:
    return entry is None or isinstance(entry, frozenset)


def _members(entry) -> list:
    """Return the labels of an entry in a fixed order, because messages name the first wrong one."""
    return sorted(entry, key=repr) if isinstance(entry, frozenset) else [entry]


def _parts(entries, scheme) -> list:
    """Return the prefix, which is None without tags, and the label of each member of an entry; None for any label."""

    def split(label, i):
        return _read_tag(label, entries, i, scheme) if scheme in PREFIXES else (None, label)

    return [
        None if entry is None else [split(tag, i) for tag in _members(entry)]
        for i, entry in enumerate(entries.distinct)
    ]


def distinct_labels(given: Given, scheme, at_least=None) -> np.ndarray:
    """Return the distinct labels of tokens or segments in y, sorted.

    Parameters
    ----------
    given : Given
    scheme : str
        As for :func:`read_given`.
    at_least : int or None
        Required number of distinct labels; None means 2, or 1 if labels of segments may repeat.
    """
    entries, are_tags = given.entries, scheme in PREFIXES
    pairs = [(label, i) for i, parts in enumerate(_parts(entries, scheme)) for _, label in parts or ()]
    if not pairs:
        raise ValueError(f"{entries.what} has no known labels: there is nothing to learn from")
    first = np.empty(len(entries.distinct), np.int64)
    first[entries.ids[::-1]] = np.arange(len(entries.ids))[::-1]  # the last value stays
    labels: Any = [label for label, _ in pairs]
    if entries.dtype is not None and not are_tags:
        labels = np.array(labels, entries.dtype)
    if at_least is None:
        at_least = 2 if scheme in ("tokens", "runs") else 1
    return sorted_labels(labels, entries.offsets, at_least, first[[i for _, i in pairs]])


# --- all forms of y ---------------------------------------------------------------------------------------------------


def read_given(y, lengths, form, name, scheme, what="y", *, kept=None, takes_missing_labels=True) -> Given:
    """Read y in any scheme.

    Parameters
    ----------
    y, lengths, form, name, what
        As in :func:`~sklearn_hocrf._validation._targets.read_labels`.
    scheme : {"tokens", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}
        "tokens" for labels of tokens that need not give segments.
    kept : ndarray of bool of shape (n_sequences,), or None
        Sequences that are not left out.
    takes_missing_labels : bool
        Whether y may have missing labels. Segments then need not tile the sequences.
    """
    if scheme != "segments":
        if scheme != "tokens" and form != "table":
            refuse_segments(y, lengths, name, scheme, what)
        labels, as_lists = read_labels(y, lengths, form, name, what)
        labels, offsets = leave_out(labels, lengths, kept)
        return Given(_read_entries(labels, offsets, what, takes_missing_labels), offsets, None, as_lists)
    rows, bounds = _segment_rows(y, lengths, name, what)
    if not takes_missing_labels:
        _refuse_gaps(bounds, offsets_of(lengths))
    labels, offsets = leave_out([row[3] for row in rows], np.bincount(bounds[:, 0], minlength=len(lengths)), kept)
    if kept is not None:
        bounds, lengths = bounds[kept[bounds[:, 0]]], np.where(kept, lengths, 0)
    return Given(_read_entries(labels, offsets, what, takes_missing_labels), offsets_of(lengths), bounds, True)


def known_of(given: Given, reader: Reader, scheme, longest=None) -> Known:
    """Return what y says, given the labels of the model.

    Parameters
    ----------
    given : Given
    reader : Reader
    scheme : str
        As for :func:`read_given`.
    longest : ndarray of shape (L,)
        Highest length of a segment, by label, for tags.
    """
    entries, n_labels, parts = given.entries, len(reader.labels), _parts(given.entries, scheme)
    of_entries = [of_entry and reader.known_codes(of_entry, entries, i) for i, of_entry in enumerate(parts)]
    impossible = np.zeros(len(given.offsets) - 1, dtype=bool)
    wrong = np.flatnonzero(np.array([codes == [] for codes in of_entries], bool)[entries.ids])
    impossible[np.searchsorted(entries.offsets, wrong, side="right") - 1] = True
    ids, begins = entries.ids, np.zeros(given.offsets[-1], np.int8)
    if scheme == "segments":
        ids, begins = _of_lists(given)
    if given.is_complete:
        code_of = np.array([codes[0] if codes else -1 for codes in of_entries], np.int32)
        if scheme in PREFIXES:
            begins = _begins_of_tags(entries, parts, code_of)
        return Known(code_of[ids], begins, n_labels, None, ids, given.offsets, impossible)
    if scheme in PREFIXES:
        allowed, ids, begins = _of_tags(entries, parts, _Shapes.of(scheme, reader.labels, longest))
    else:
        allowed = np.ones((len(of_entries) + 1, n_labels), dtype=bool)  # the last row is for gaps
        for i, codes in enumerate(of_entries):
            if codes is not None:
                allowed[i] = False
                allowed[i, codes] = True
    code_of = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1).astype(np.int32)
    return Known(code_of[ids], begins, n_labels, allowed, ids, given.offsets, impossible)


def segments_of(known: Known, scheme, singles=False) -> tuple[Segments, np.ndarray, np.ndarray]:
    """Return the segments that are known from end to end, and labels and lengths of all pieces of segments.

    Parameters
    ----------
    known : Known
    scheme : str
        As for :func:`read_given`.
    singles : bool
        Whether each token is a separate segment.
    """
    codes, borders = known.codes, np.ones(len(known.codes) + 1, np.int8)
    if scheme == "runs" and not singles:
        borders[1:-1][codes[1:] == codes[:-1]] = -1
        if not known.is_complete:
            borders[1:-1][(codes[1:] < 0) | (codes[:-1] < 0)] = 0
    elif not singles:
        borders[:-1] = known.begins
    borders[known.offsets] = 1
    cuts = np.flatnonzero(borders != -1)
    start, stop = cuts[:-1], cuts[1:]
    counts, label, lengths = np.searchsorted(start, known.offsets), codes[start], stop - start
    if known.is_complete:
        return Segments(counts, start, stop, label), label, lengths
    label, lowest = np.maximum.reduceat(codes, start), np.minimum.reduceat(codes, start)
    is_known = (borders[start] == 1) & (borders[stop] == 1) & (lowest == label) & (label >= 0)
    segments = Segments(offsets_of(is_known)[counts], start[is_known], stop[is_known], label[is_known])
    return segments, label[label >= 0], lengths[label >= 0]


# --- lists of segments ------------------------------------------------------------------------------------------------


def _segment_rows(y, lengths, name, what) -> tuple[list, np.ndarray]:
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


def _refuse_gaps(bounds, offsets):
    """Raise unless the segments tile the sequences; ``offsets`` are those of the tokens."""
    sequence, start, stop = bounds.T
    origin = offsets[sequence]
    begins = np.sort(np.append(stop + origin, offsets[:-1]))  # of gaps, most of which have no tokens
    ends = np.sort(np.append(start + origin, offsets[1:]))
    for i in np.flatnonzero(begins < ends)[:1].tolist():
        n = int(np.searchsorted(offsets, begins[i], side="right")) - 1
        raise ValueError(
            f"the segments of sequence {n} of y leave a gap [{begins[i] - offsets[n]}, {ends[i] - offsets[n]}): "
            "segments must tile a sequence. Fill gaps with segments (t, t + 1, 'O') of length 1"
        )


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
        _, bounds = _segment_rows(y, np.full(n_sequences, MAX_STOP), name, "y")
        lengths = np.zeros(n_sequences, np.int64)
        np.maximum.at(lengths, bounds[:, 0], bounds[:, 2])
        return lengths, "sequences"
    return np.array([len(labels) for labels in sequences], np.int64), "sequences"


def _of_lists(given) -> tuple[np.ndarray, np.ndarray]:
    """Return the entry of each token, and the borders that lists of segments give.

    A segment begins with its first token and nowhere else in it, and the next one begins where it stops.
    """
    sequence, start, stop = given.bounds.T
    start, stop = start + given.offsets[sequence], stop + given.offsets[sequence]
    tokens, n_tokens = joined_ranges(start, stop), int(given.offsets[-1])
    ids, begins = np.full(n_tokens, len(given.entries.distinct), np.int32), np.zeros(n_tokens + 1, np.int8)
    ids[tokens] = np.repeat(given.entries.ids, stop - start)
    begins[tokens] = -1
    begins[start] = begins[stop] = 1  # at the end of a sequence, the next one begins
    return ids, begins[:n_tokens]


# --- tags -------------------------------------------------------------------------------------------------------------


class _Shapes(NamedTuple):
    """How tags are read in one scheme.

    A token has a *shape* in the segment that contains it: whether this is its first token, and whether it is its last.
    """

    scheme: str
    possible: Mapping[str, frozenset]  # the shapes of the tokens of each label

    @classmethod
    def of(cls, scheme, labels, longest) -> _Shapes:
        """Return the shapes in segments of at most ``longest`` tokens, by label; outside of segments 1."""
        pairs = zip(labels.tolist(), longest, strict=True)
        return cls(scheme, {label: _shapes_of(1 if label == OUTSIDE else most) for label, most in pairs})

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


def _begins_of_tags(entries, parts, code_of) -> np.ndarray:
    """Return where segments begin, as in ``Mask.begins``, if each token has one tag."""
    prefixes, labels = np.array([tags[0][0] for tags in parts], np.int8)[entries.ids], code_of[entries.ids]
    begins = np.ones(len(prefixes), np.int8)
    begins[1:][goes_on(TagTable(prefixes[:-1], labels[:-1]), TagTable(prefixes[1:], labels[1:]))] = -1
    begins[entries.offsets[:-1][np.diff(entries.offsets) > 0]] = 1
    return begins


def _of_tags(entries, parts, shapes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sets of labels, the set of each token and the borders that tags give, some of which are open."""
    names = list(shapes.possible)
    tags = [of_entry and [tag for tag in of_entry if tag[1] in shapes.possible] for of_entry in parts]
    neighbours = [*tags, []]  # the last one for the border
    triples, inverse = _triples(entries)
    allowed, flags = np.ones((len(triples), len(names)), bool), np.zeros((len(triples), 2), np.int8)
    for i, (before, here, after) in enumerate(triples.tolist()):
        if tags[here] is None:
            continue
        conditions = shapes.conditions(tags[here], neighbours[before], neighbours[after])
        if conditions is None:
            raise ValueError(_no_mask(entries, int(np.argmax(inverse == i))))
        allowed[i] = [label in conditions[0] for label in names]
        flags[i] = conditions[1:]
    begins = flags[inverse, 0]
    follows = np.ones(len(inverse), bool)
    follows[entries.offsets[:-1][entries.offsets[:-1] < len(inverse)]] = False
    after = np.flatnonzero(follows[1:]) + 1
    begins[after] = np.where(begins[after] == 0, flags[inverse[after - 1], 1], begins[after])
    return allowed, inverse, begins


def _read_tag(tag, entries, i, scheme) -> tuple:
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


def _shapes_of(longest) -> frozenset:
    """Return the shapes of the tokens of segments of at most ``longest`` tokens."""
    shapes = {(True, True)}
    if longest > 1:
        shapes |= {(True, False), (False, True)}
    return frozenset(shapes | {(False, False)} if longest > 2 else shapes)


def _triples(entries):
    """Return the entries before, at and after tokens, each triple once, and the index of each token's triple.

    The index after the last entry represents the border of a sequence.
    """
    border, here = len(entries.distinct), entries.ids.astype(np.int64)
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

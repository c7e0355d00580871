"""The labels of a batch, read from y or from ``known``; some of them may be missing.

If labels may be missing, y may contain these entries in place of the label of a token or of a segment:

    None                                            any label
    a set or frozenset                              one of these labels; not for segments

A whole sequence may be None. Lists of segments need not tile a sequence: the gaps may have any labels.

In addition to labels, tags specify where segments begin and end. Next to known tags, invalid tags are read as in
:mod:`sklearn_hocrf._reading.schemes`. An I after an unknown tag continues the segment before it; in "iob1", the I may
also begin a segment.

The last functions of this module read y as the concatenated labels of all tokens, or as a list for each sequence.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import column_or_1d

from .._data.arrays import joined_ranges, offsets_of
from .._data.checks import short
from .._data.segments import Mask, Segments, cut_segments
from .labels import (
    SEEN,
    distinct_values,
    flatten_labels,
    label_codes,
    list_sequences,
    ordered_collection,
    position_name,
    sorted_labels,
)
from .rows import ROWS_OF_NUMBERS
from .schemes import (
    MAX_STOP,
    PREFIXES,
    TAG_SCHEMES,
    O,
    looks_like_segments,
    read_segments,
    read_tag,
    segments_of_tags,
)
from .values import IGNORED, is_missing, is_ordered_collection, no_label


class Known(NamedTuple):
    """The information in y about a batch. N tokens, L labels of the model, R sets of labels."""

    codes: np.ndarray  # (N,) int32   label of each token, or of the segment that contains it; -1: several, or none
    begins: np.ndarray  # (N,) int8   as in Mask; 0 where the labels alone decide
    n_labels: int
    allowed: np.ndarray | None  # (R, L) bool   labels of each set; None if no label and no border is missing
    ids: np.ndarray  # (N,)   the set of each token
    offsets: np.ndarray  # (n_sequences + 1,)   of the tokens
    is_impossible: np.ndarray  # (n_sequences,) bool   with labels that the model lacks; the mask ignores them

    @property
    def is_complete(self) -> bool:
        """Whether no label and no border is missing; a code of -1 then belongs to a label that the model lacks."""
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


class Given(NamedTuple):
    """Labels, tags or segments read from y, before encoding; equal entries are stored once.   D distinct entries."""

    distinct: list  # (D,)   a label, a frozenset of labels, or None for anything
    parts: list  # (D,)   (prefix or None, label) of each member of an entry; None for anything
    ids: np.ndarray  # (M,) int32   the index in ``distinct`` of each entry: of each token, or segment
    starts: np.ndarray  # (n_sequences + 1,)   of the entries
    dtype: np.dtype | None  # of the labels, if they are an array that is not of objects
    what: str  # name of y in messages
    scheme: str
    offsets: np.ndarray  # (n_sequences + 1,)   of the tokens
    of_tokens: np.ndarray  # (N,) int32   the entry of each token; D in gaps between listed segments
    begins: np.ndarray  # (N,) int8   as in Mask, from listed segments
    as_lists: bool  # y consisted of lists

    @property
    def is_complete(self) -> bool:
        """Whether all labels and all boundaries of segments are known."""
        has_gaps = self.scheme == "segments" and (self.of_tokens == len(self.distinct)).any()
        return not has_gaps and not any(entry is None or isinstance(entry, frozenset) for entry in self.distinct)

    def labels(self) -> set:
        """Return all labels, tags or labels of segments that occur in y, in their original form."""
        entries = (entry if isinstance(entry, frozenset) else [entry] for entry in self.distinct if entry is not None)
        return set().union(*entries)

    def where(self, entry) -> str:
        """Return the name of the position at which an entry first occurs."""
        return position_name(self.starts, int(np.argmax(self.ids == entry)))


# --- all forms of y ---------------------------------------------------------------------------------------------------


def read_given(y, lengths, form, name, scheme, what="y", *, kept=None, takes_missing_labels=True) -> Given:
    """Read y in any scheme.

    Parameters
    ----------
    y, lengths, form, name, what
        As in :func:`~sklearn_hocrf._reading.known.read_labels`.
    scheme : {"tokens", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}
        "tokens" means labels of tokens that need not describe segments.
    kept : ndarray of bool of shape (n_sequences,), or None
        The mask of the sequences to read. The others get no tokens, but keep their indices, for messages.
    takes_missing_labels : bool
        Whether y may have missing labels. Segments then need not tile the sequences.
    """
    labels: Any
    bounds: Any = None
    if scheme == "segments":
        labels, bounds = _listed_segments(y, lengths, form, name, what)
        if not takes_missing_labels:
            _refuse_gaps(bounds, offsets_of(lengths))
        counts, as_lists = np.bincount(bounds[:, 0], minlength=len(lengths)), True
    else:
        (labels, as_lists), counts = read_labels(y, lengths, form, name, scheme, what), lengths
    if kept is not None:
        chosen = np.flatnonzero(np.repeat(kept, counts))
        labels = labels[chosen] if isinstance(labels, np.ndarray) else [labels[i] for i in chosen]
        bounds = bounds if bounds is None else bounds[chosen]
        lengths, counts = np.where(kept, lengths, 0), np.where(kept, counts, 0)
    starts, offsets = offsets_of(counts), offsets_of(lengths)
    if isinstance(labels, list) and any(issubclass(kind, set) for kind in set(map(type, labels))):
        labels = [frozenset(entry) if isinstance(entry, set) else entry for entry in labels]
    distinct, ids, dtype = distinct_values(labels, lambda i: position_name(starts, i))
    of_tokens, begins = ids, np.zeros(int(offsets[-1]), np.int8)
    if bounds is not None:
        of_tokens, begins = _of_lists(bounds, offsets, ids, len(distinct))
    parts: list = []
    entries = Given(distinct, parts, ids, starts, dtype, what, scheme, offsets, of_tokens, begins, as_lists)
    may_be_open = takes_missing_labels and dtype is None  # NaT of arrays is None in lists
    parts += [_parts(entry, i, entries, may_be_open) for i, entry in enumerate(distinct)]
    return entries


def _parts(entry, i, entries, may_be_open) -> list | None:
    """Return the prefix and label of each member of an entry; raise an error unless it is a label or a set of labels.

    The order is fixed, because messages name the first invalid member.
    """
    members, what = sorted(entry, key=repr) if isinstance(entry, frozenset) else [entry], entries.what
    if not members:
        raise ValueError(f"{what} has an empty set ({entries.where(i)}): no label is possible there; None means any")
    if isinstance(entry, frozenset) and entries.scheme != "tokens":
        raise TypeError(
            f"{what} has the set {short(set(entry))} ({entries.where(i)}): only HighOrderCRF takes sets of labels; "
            "give one label, or None for any"
        )
    if isinstance(entry, frozenset) and not may_be_open:
        raise TypeError(f"{what} has the set {short(set(entry))} ({entries.where(i)}), but each token needs one label")
    if entry is None and may_be_open:
        return None
    for member in filter(is_missing, members):
        raise no_label(member, entries.where(i), what)
    if entries.scheme not in PREFIXES:
        return [(None, member) for member in members]
    return [read_tag(member, entries.scheme, what, lambda: entries.where(i)) for member in members]


def least_labels(scheme) -> int:
    """Return the number of labels that training data must contain: 1 if neighbouring segments may have equal labels."""
    return 2 if scheme in ("tokens", "auto", "runs") else 1


def distinct_labels(entries: Given, at_least=None) -> np.ndarray:
    """Return the distinct labels of tokens or segments in y, sorted.

    Parameters
    ----------
    entries : Given
    at_least : int or None
        Required number of distinct labels; None means that of :func:`least_labels`.
    """
    pairs = [(label, i) for i, parts in enumerate(entries.parts) for _, label in parts or ()]
    if not pairs:
        raise ValueError(f"{entries.what} has no known labels: there is nothing to learn from")
    labels: Any = [label for label, _ in pairs]
    if entries.dtype is not None and entries.scheme not in PREFIXES:
        labels = np.array(labels, entries.dtype)
    at_least = least_labels(entries.scheme) if at_least is None else at_least
    first = np.empty(len(entries.distinct), np.int64)
    first[entries.ids[::-1]] = np.arange(len(entries.ids))[::-1]  # the last assignment counts
    return sorted_labels(labels, entries.starts, at_least, first[[i for _, i in pairs]], entries.what)


def check_classes(classes, at_least=2, name="classes", scheme="tokens") -> np.ndarray:
    """Return all possible labels, sorted, from a parameter that contains labels or tags like one sequence of y."""
    if not is_ordered_collection(classes):
        raise TypeError(f"{name} must be a list or an array of labels, got {short(classes)}")
    lengths = np.array([len(classes)])
    entries = read_given([classes], lengths, "sequences", "", scheme, name, takes_missing_labels=False)
    try:
        return distinct_labels(entries, at_least)
    except (TypeError, ValueError) as error:
        message = str(error)
        raise type(error)(message if message.startswith(f"{name} has ") else f"{name}: {message}") from error


def known_of(entries: Given, labels, unknown="raise", among=SEEN) -> Known:
    """Return the information in y, given the labels of the model.

    Parameters
    ----------
    entries : Given
    labels : ndarray of shape (L,)
        Labels of the model, sorted.
    unknown : {"raise", "ignore"}
        Whether labels that the model lacks raise an error or count as impossible.
    among : str
        Name of ``labels`` in messages.
    """
    codes = label_codes(labels)

    def code_of(label, i):
        code = codes.get(label, -1)
        if code < 0 and isinstance(label, Integral) and label == IGNORED:
            raise no_label(label, entries.where(i), entries.what)
        if code < 0 and unknown == "raise":
            where = f"{entries.what} ({entries.where(i)})"
            raise ValueError(f"unknown label {short(label)} of {where}: it is not one of {among}")
        return code

    tags = [
        parts if parts is None else [(prefix, code) for prefix, label in parts if (code := code_of(label, i)) >= 0]
        for i, parts in enumerate(entries.parts)
    ]
    impossible = np.zeros(len(entries.offsets) - 1, dtype=bool)
    wrong = np.flatnonzero(np.array([of_entry == [] for of_entry in tags], bool)[entries.ids])
    impossible[np.searchsorted(entries.starts, wrong, side="right") - 1] = True
    if entries.is_complete:
        only, allowed = np.array([of_entry[0][1] if of_entry else -1 for of_entry in tags], np.int32), None
    else:
        of_entries = [range(len(labels)) if some is None else [code for _, code in some] for some in [*tags, None]]
        allowed = np.array([np.isin(np.arange(len(labels)), list(some)) for some in of_entries])
        only = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1).astype(np.int32)
    ids, begins = entries.of_tokens, entries.begins
    if entries.scheme in PREFIXES:
        begins = _begins_of_tags(entries, only)
    return Known(only[ids], begins, len(labels), allowed, ids, entries.offsets, impossible)


def segments_of(known: Known, scheme, singles=False) -> tuple[Segments, np.ndarray, np.ndarray]:
    """Return the segments whose start, stop and label are known, and the labels and lengths of all labelled pieces.

    A piece is a maximal run of tokens in which no segment may begin after the first token; it therefore lies within one
    segment.

    Parameters
    ----------
    known : Known
    scheme : str
        As for :func:`read_given`.
    singles : bool
        Whether each token is a separate segment.
    """
    codes, borders = known.codes, _borders(known, scheme, singles)
    pieces = cut_segments(borders[1:-1] != -1, codes, known.offsets)
    start, stop, label, lengths = pieces.start, pieces.stop, pieces.codes, pieces.lengths
    if known.is_complete:
        return pieces, label, lengths
    label, lowest = np.maximum.reduceat(codes, start), np.minimum.reduceat(codes, start)
    is_known = (borders[start] == 1) & (borders[stop] == 1) & (lowest >= 0)
    segments = pieces._replace(codes=label).where(is_known)
    has_label = label >= 0  # if known labels of a piece differ, no segmentation agrees with them
    return segments, label[has_label], lengths[has_label]


def _borders(known: Known, scheme, singles) -> np.ndarray:
    """Return where segments must (1), must not (-1) or may (0) begin, as in ``Mask.begins``; shape (N + 1,).

    The last element is a 1 for the end of the last token.
    """
    codes, borders = known.codes, np.ones(len(known.codes) + 1, np.int8)
    if scheme == "runs" and not singles:
        borders[1:-1][codes[1:] == codes[:-1]] = -1
        if not known.is_complete:
            borders[1:-1][(codes[1:] < 0) | (codes[:-1] < 0)] = 0
    elif not singles:
        borders[:-1] = known.begins
    borders[known.offsets] = 1
    return borders


# --- lists of segments ------------------------------------------------------------------------------------------------


def _listed_segments(y, lengths, form, name, what) -> tuple[list, np.ndarray]:
    """Return the labels of the segments that y lists, and (sequence, start, stop) of each; shape (M, 3).

    The segments are sorted, lie within their sequences, and do not overlap.
    """
    sequences = read_target_sequences(y, len(lengths), name, what)
    listed = [() if segments is None else segments for segments in sequences]
    rows = sorted((row[:4] for row in read_segments(listed, what)), key=lambda row: row[:2])
    bounds = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
    sequence, start, stop = bounds.T
    overlaps = np.append(False, (sequence[1:] == sequence[:-1]) & (start[1:] < stop[:-1]))[: len(rows)]
    beyond = stop > lengths[sequence]
    for i in np.flatnonzero(overlaps | beyond)[:1].tolist():
        n, segment = rows[i][0], short(rows[i][1:])
        if beyond[i]:
            hint = f", as X is a plain 2-D array; {ROWS_OF_NUMBERS}" if form == "table" else ""
            raise ValueError(f"segment {segment} of sequence {n} of {what} ends beyond its {lengths[n]} tokens{hint}")
        raise ValueError(f"segments {short(rows[i - 1][1:])} and {segment} of sequence {n} of {what} overlap")
    return [row[3] for row in rows], bounds


def _refuse_gaps(bounds, offsets):
    """Raise an error unless the segments tile the sequences; ``offsets`` are the offsets of the tokens."""
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
    """Return the lengths of the sequences in y, or None if tuples may be sequences or labels, and the form of X.

    Parameters
    ----------
    y : sequences
    name : str
        Name of the estimator, for messages.
    scheme : str or None
        The scheme of the estimator, if it labels segments.
    """
    y = read_collection(y, name, "y")
    n_sequences = len(y)
    kinds = {type(labels) for labels in y if is_ordered_collection(labels)}
    if not kinds:
        return np.ones(n_sequences, np.int64), "table"
    if kinds == {tuple}:
        return None, "sequences"
    sequences = [() if labels is None else labels for labels in read_target_sequences(y, n_sequences, name)]
    if scheme == "segments" or (scheme == "auto" and looks_like_segments(sequences)):
        _, bounds = _listed_segments(y, np.full(n_sequences, MAX_STOP), "sequences", name, "y")
        lengths = np.zeros(n_sequences, np.int64)
        np.maximum.at(lengths, bounds[:, 0], bounds[:, 2])
        return lengths, "sequences"
    return np.array([len(labels) for labels in sequences], np.int64), "sequences"


def _of_lists(bounds, offsets, ids, gap) -> tuple[np.ndarray, np.ndarray]:
    """Return the entry of each token, which is ``gap`` outside the listed segments, and the boundaries of the segments.

    A segment begins at its first token and at none of its other tokens, and the next one begins where it stops.
    """
    sequence, start, stop = bounds.T
    start, stop = start + offsets[sequence], stop + offsets[sequence]
    tokens, n_tokens = joined_ranges(start, stop), int(offsets[-1])
    of_tokens, begins = np.full(n_tokens, gap, np.int32), np.zeros(n_tokens + 1, np.int8)
    of_tokens[tokens] = np.repeat(ids, stop - start)
    begins[tokens] = -1
    begins[start] = begins[stop] = 1  # at the end of a sequence, the next sequence begins
    return of_tokens, begins[:n_tokens]


# --- tags -------------------------------------------------------------------------------------------------------------


def _begins_of_tags(entries, codes) -> np.ndarray:
    """Return where segments begin, as in ``Mask.begins``, if each token has one tag, or any; ``codes`` are by entry."""
    ids, first = entries.ids, entries.offsets[:-1][np.diff(entries.offsets) > 0]
    prefixes = np.array([O if tags is None else tags[0][0] for tags in entries.parts], np.int8)
    begins = np.full(len(ids), -1, np.int8)
    begins[segments_of_tags(prefixes[ids], codes[ids], entries.offsets).start] = 1
    is_free = np.array([tags is None for tags in entries.parts], bool)
    borders = np.array([TAG_SCHEMES[entries.scheme].borders(prefix) for prefix in prefixes], np.int8).reshape(-1, 2)
    borders[is_free] = 0
    own_begins, ends_before, is_after_free = borders[ids, 0], np.roll(borders[ids, 1], 1), np.roll(is_free[ids], 1)
    begins = np.where(is_after_free, own_begins, np.where(is_free[ids], ends_before, begins))
    begins[first] = 1
    return begins


FIXED = "the classes fixed by the first call of partial_fit"


def check_known_labels(labels, n_labels):
    """Raise a ValueError unless there are ``n_labels`` different labels."""
    if not isinstance(labels, np.ndarray) or labels.shape != (n_labels,) or len(set(labels.tolist())) < n_labels:
        raise ValueError(f"the labels must be an array of {n_labels} distinct labels, got {short(labels)}")


def read_labels(y, lengths, form, name, scheme, what="y") -> tuple[np.ndarray | list, bool]:
    """Return the concatenated labels of all tokens, and whether y consisted of lists.

    None in place of a label sequence means None for each token.

    Parameters
    ----------
    y : list of label sequences, or array
    lengths : ndarray of shape (n_sequences,)
        Number of tokens of each sequence of X.
    form : {"table", "grid", "sequences"}
        Form of X; for a table, y is 1-D.
    name : str
        Name of the estimator, for messages.
    scheme : str
        As for :func:`~sklearn_hocrf._reading.known.read_given`.
    what : str
        Name of y in messages.
    """
    if form == "table":
        return _read_plain_labels(read_collection(y, name, what), len(lengths), what)
    sequences = read_target_sequences(y, len(lengths), name, what)
    if scheme != "tokens" and looks_like_segments([sequence for sequence in sequences if sequence is not None]):
        raise ValueError(
            f'{what} contains (start, stop, label): scheme="segments"? With scheme={scheme!r} there must be one '
            "label per token"
        )
    for n, (labels, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
        if labels is None:
            sequences[n] = labels = [None] * length
        if len(labels) != length:
            raise ValueError(f"sequence {n} has {length} tokens in X, but {len(labels)} labels in {what}")
    are_arrays = all(isinstance(labels, np.ndarray) for labels in sequences if len(labels))
    return flatten_labels(sequences, what), not are_arrays


def read_target_sequences(y, n_sequences, name, what="y") -> list:
    """Return y as a list with a list or array for each sequence of X, or None where all of its labels are unknown."""
    y = read_collection(y, name, what)
    if len(y) != n_sequences:
        raise ValueError(f"X has {n_sequences} sequences, {what} has {len(y)}")
    return list_sequences(y, what, may_be_none=True)


def read_collection(y, name, what):
    """Return y with missing entries of arrays as None, or raise an error unless it is an ordered collection."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    return ordered_collection(y, what, "a list of sequences of labels, or an array", "[list(text)]")


def _read_plain_labels(y, n_rows, what):
    """Read the labels of a plain 2-D X, one per row."""
    as_lists = not isinstance(y, np.ndarray)
    if as_lists and any(isinstance(label, (list, np.ndarray)) for label in y) or not as_lists and y.ndim > 1:
        if len(y) == 1 and np.size(y[0]) == n_rows > 1:
            raise ValueError(f"{what} contains one sequence of labels, but X is a plain 2-D array: wrap it, too: `[X]`")
        is_column = all(np.shape(labels)[:1] in ((), (1,)) for labels in y)
        if as_lists or not is_column:
            remedy = "`np.ravel(y)`" if is_column else ROWS_OF_NUMBERS
            raise ValueError(f"{what} should be a 1d array, one label per row of the plain 2-D array X: {remedy}")
        y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise ValueError(f"Found inconsistent numbers of samples: X has {n_rows} rows, {what} {len(y)}")
    return (list(y) if as_lists or y.dtype == object else y), as_lists

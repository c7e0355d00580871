"""Segmentations of a batch, read from y in any scheme."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.checks import GUIDE, short
from .._data.labels import SEEN, decode_labels, encode_labels, sorted_labels
from .._data.masks import Mask
from .._data.schemes import (
    OUTSIDE,
    PREFIXES,
    SCHEMES,
    B,
    I,
    O,
    TagTable,
    guessed_scheme,
    join_tag,
    looks_like_segments,
    possible_tags,
    segment_lists,
    segments_of_labels,
    segments_of_tags,
    segments_of_tokens,
    split_tag,
    tag_channels,
    tag_ids,
    tags_of_segments,
    token_features,
    token_labels,
)
from .._data.segments import NO_LIMIT, Segments, are_short
from .._data.warnings import scheme_of_labels, warn_user
from .._structure.patterns import pairs_of_equals, without_forbidden
from .._structure.segment_layout import SegmentLayout, SegmentLayoutBuilder, SegmentLimits
from ._known import (
    Known,
    Reader,
    all_labels,
    borders_of_runs,
    known_of_lists,
    known_of_runs,
    known_of_tags,
    listed_segments,
    miss_segment_labels,
    name_in_tag,
    read_entries,
    read_known_segments,
    segment_rows,
    segments_between,
    split_entry,
)
from ._targets import (
    FIXED,
    check_classes,
    check_known_labels,
    leave_out,
    read_labels,
    read_target_sequences,
    refuse_segments,
)
from ._token_targets import read_token_labels

__all__ = [
    "SegmentTargets",
    "read_partition_targets",
    "read_segment_targets",
    "read_segments",
]

LONG_ONES = f"; raise the limit, or leave out or cut such sequences as in {GUIDE}/segments.html"


class SegmentTargets(NamedTuple):
    """Segmentations: how y is read, and what a model's segmentation is in its form.   L labels.

    The methods are those of :class:`TokenTargets`, where they are described.
    """

    segments: Segments
    labels: np.ndarray  # (L,)         labels of segments, sorted
    longest: np.ndarray  # (L,) int64   highest length of a segment, by label; NO_LIMIT for any
    repeats: bool  # neighbouring segments may have the same label
    as_lists: bool  # y was made of lists, so predictions are lists, too
    bare_tags: bool  # tags of the label "_" are written without it
    scheme: str  # form in which y gives the segments
    shortest: np.ndarray | None = None  # (L,) int64   lowest length of a segment, by label; None: 1
    known: Mask | None = (
        None  # segmentations that agree with y, if it has missing labels; ``segments`` are the known ones
    )

    # --- training -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, estimator, y, sequences, fixed=None) -> SegmentTargets:
        data = y, sequences.batch.lengths, sequences.form, type(estimator).__name__, sequences.is_used
        limits = {"scheme": estimator.scheme, "segment_length": estimator.segment_length}
        return read_segment_targets(*data, **limits, fixed=fixed, takes_missing_labels=True)

    @classmethod
    def label_set(cls, estimator, y, sequences) -> np.ndarray:
        data = y, sequences.batch.lengths, sequences.form, type(estimator).__name__
        scheme, kept = estimator.scheme, sequences.is_used
        if scheme == "auto":
            scheme = _scheme_of(*data, in_parts=True)
        if scheme != "runs":
            return _read(*data, scheme, kept=kept).labels
        if sequences.form != "table":
            refuse_segments(*data[:2], data[3], scheme)
        return read_token_labels(*data, kept)

    @classmethod
    def check_classes(cls, estimator, classes) -> np.ndarray:
        scheme = estimator.scheme
        if scheme not in PREFIXES:
            labels = check_classes(classes, cls.least_labels(estimator) if scheme != "auto" else 1)
            if scheme == "auto":
                _refuse_tags_of_parts(labels.tolist())
            return labels
        tags = check_classes(classes, at_least=1)
        names = set()
        for tag in tags.tolist():
            part = split_tag(tag, scheme)
            if part is None or (part[1] == OUTSIDE and part[0] != O):
                raise ValueError(f"classes: {short(tag)} is not a tag of scheme={scheme!r}")
            names.add(part[1])
        return check_classes(sorted(names), at_least=1)

    @classmethod
    def least_labels(cls, estimator) -> int:
        return 2 if estimator.scheme in ("auto", "runs") else 1

    @classmethod
    def have_missing_labels(cls, y, batch, form, name, scheme) -> bool:
        return miss_segment_labels(y, batch.lengths, form, name, scheme)

    def possible(self, patterns):
        return patterns if self.repeats else without_forbidden(patterns, pairs_of_equals(len(self.labels)))

    def builder(self, frame, rule, intercepts) -> SegmentLayoutBuilder:
        return SegmentLayoutBuilder(SegmentLimits(self.longest, self.repeats, self.shortest), frame, rule, intercepts)

    @property
    def labelling(self) -> Segments:
        """The segments, in the form in which models take them."""
        return self.segments

    def label_sequences(self, batch) -> tuple[np.ndarray, np.ndarray]:
        """Return the label codes of the segments of a batch, and the offsets of its sequences in them."""
        return self.segments.codes, self.segments.offsets

    @property
    def starts(self) -> np.ndarray:
        """The token at which each segment starts."""
        return self.segments.start

    def without_data(self) -> SegmentTargets:
        """Return the labels, limits and form of y, which must be the same in later training data."""
        nothing = Segments(self.segments.offsets[:1], *(column[:0] for column in self.segments[1:]))
        return self._replace(segments=nothing, known=None)

    def merged(self, other: SegmentTargets) -> SegmentTargets:
        """Return targets, without data, of this and another part of the training data, with the same labels."""
        longest = np.maximum(self.longest, other.longest)
        return self._replace(
            longest=longest,
            repeats=self.scheme != "runs" or bool((longest == 1).all()),
            as_lists=self.as_lists or other.as_lists,
            bare_tags=self.bare_tags or other.bare_tags,
        )

    def known_runs(self, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Return first token and end of the longest runs of tokens whose segments are known."""
        start, stop = self.segments.start, self.segments.stop
        goes_on = (start[1:] == stop[:-1]) & ~np.isin(start[1:], offsets)
        return start[np.append(True, ~goes_on)[: len(start)]], stop[np.append(~goes_on, True)[: len(stop)]]

    def of_runs(self, starts, stops, tokens) -> SegmentTargets:
        """Return the targets of runs of tokens, as separate sequences."""
        segments = self.segments
        new_start = np.searchsorted(tokens, segments.start)
        offsets = np.append(np.searchsorted(segments.start, starts), len(segments.start))
        runs = Segments(offsets, new_start, new_start + segments.lengths, segments.codes)
        return self._replace(segments=runs, known=None)

    # --- fitted models ------------------------------------------------------------------------------------------------

    @classmethod
    def layout_class(cls) -> type[SegmentLayout]:
        return SegmentLayout

    @property
    def outside(self) -> int:
        """The code of the label "O" of tags, or -1."""
        labels = self.labels.tolist()
        return labels.index(OUTSIDE) if self.scheme in PREFIXES and OUTSIDE in labels else -1

    @property
    def classes(self) -> np.ndarray:
        return self.labels if self.scheme not in PREFIXES else self._tag_classes()[0].copy()

    @property
    def tags(self) -> TagTable | None:
        return None if self.scheme not in PREFIXES else self._tag_classes()[1]

    def _tag_classes(self) -> tuple[np.ndarray, TagTable]:
        return _tag_classes(
            self.scheme, tuple(self.labels.tolist()), tuple(self.longest.tolist()), self.outside, self.bare_tags
        )

    def tag_channels(self):
        tags = self.tags
        return None if tags is None else tag_channels(tags, self.scheme)

    def attributes(self) -> dict:
        labels, shortest = self.labels.tolist(), [1] * len(self.labels)
        shortest = shortest if self.shortest is None else self.shortest.tolist()
        longest = [float("inf") if most == NO_LIMIT else most for most in self.longest.tolist()]
        limits = dict(zip(labels, zip(shortest, longest, strict=True), strict=True))
        return {"classes_": self.classes, "segment_labels_": self.labels, "segment_length_": limits}

    def read_truth(self, y, batch, form, name, unknown) -> Segments:
        options = {"scheme": self.scheme, "singles": self.scheme == "runs" and self.repeats, "unknown": unknown}
        return read_segments(y, batch.lengths, form, name, self.labels, **options)

    def read_known(self, known, batch, form, name, what="known", unknown="raise") -> Known:
        options = {"scheme": self.scheme, "longest": self.longest}
        return read_known_segments(known, batch.lengths, form, name, Reader(self.labels, unknown), what, **options)

    def token_codes(self, labelling) -> np.ndarray:
        tags = self.tags
        if tags is None:
            return token_labels(labelling)
        return tag_ids(tags_of_segments(labelling, self.scheme, self.outside), tags)

    def are_right(self, decoded, truth) -> np.ndarray:
        features = (token_features(segments, self.scheme, self.outside) for segments in (decoded, truth))
        return np.equal(*features).all(axis=0)

    def as_predicted(self, labelling, offsets) -> list:
        if self.scheme == "segments":
            return segment_lists(labelling, offsets, self.labels.tolist())
        return decode_labels(self.token_codes(labelling), self.classes, offsets, as_lists=self.as_lists)

    def check(self, n_labels):
        """Raise a ValueError unless these are targets without data, with ``n_labels`` labels."""
        check_known_labels(self.labels, n_labels)
        if [np.shape(column) for column in self.segments] != [(1,), (0,), (0,), (0,)] or self.segments[0][0] != 0:
            raise ValueError("known targets must be without segments")
        flags = self.repeats, self.as_lists, self.bare_tags
        if self.scheme not in SCHEMES or not all(isinstance(flag, bool) for flag in flags):
            raise ValueError(f"not a scheme and properties of targets: {short((self.scheme, *flags))}")


@lru_cache(maxsize=16)  # each prediction asks
def _tag_classes(scheme, labels, longest, outside, bare_tags) -> tuple[np.ndarray, TagTable]:
    """Return the possible tags of tokens, sorted, and the prefix and label of each."""
    tags = possible_tags(scheme, longest, outside)
    pairs = zip(tags.prefix.tolist(), tags.label.tolist(), strict=True)
    names = [join_tag(prefix, labels[label], bare_tags, scheme) for prefix, label in pairs]
    order = sorted(range(len(names)), key=names.__getitem__)
    return sorted_labels(names, [0, len(names)], at_least=1), TagTable(tags.prefix[order], tags.label[order])


class _Reading(NamedTuple):
    """Segmentations as given in y."""

    segments: Segments
    labels: np.ndarray
    as_lists: bool
    bare_tags: bool
    is_bio: bool = False  # tags of segments that begin and never end, although ``scheme`` has tags for ends
    known: Mask | None = None  # where there are missing labels
    pieces: tuple | None = None  # labels and lengths of all pieces of segments, where there are missing labels
    codes: np.ndarray | None = None  # (N,)   of the tokens, -1 where not known, where there are missing labels

    @property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Labels and lengths of segments, or of pieces of them."""
        return (self.segments.codes, self.segments.lengths) if self.pieces is None else self.pieces


def read_segment_targets(
    y,
    lengths,
    form,
    name,
    kept=None,
    *,
    scheme,
    segment_length=None,
    fixed=None,
    takes_missing_labels: bool = False,
) -> SegmentTargets:
    """Return the training segmentations.

    Parameters
    ----------
    y, lengths, form, name, kept
        As in :func:`read_token_targets`; y is in the given scheme.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}
    segment_length : int, inf, (least, most), dict or None
        The most tokens of a segment, or the least of one that neither begins nor ends a sequence and the most, for all
        labels or by label. None, also as the most, means the longest training segment.
    fixed : SegmentTargets, ndarray of shape (L,), or None
        Targets of earlier training data, or all possible labels of segments. None means the labels of y.
    takes_missing_labels : bool
        Whether y may have missing labels. Segments then need not tile the sequences.
    """
    earlier = fixed if isinstance(fixed, SegmentTargets) else None
    labels = fixed if earlier is None else earlier.labels
    if earlier is not None:
        scheme = earlier.scheme
    elif scheme == "auto":
        scheme = _scheme_of(y, lengths, form, name, in_parts=labels is not None)
    if takes_missing_labels and miss_segment_labels(y, lengths, form, name, scheme):
        reading = _read_partial(y, lengths, form, name, scheme, labels, kept)
    else:
        reading = _read(y, lengths, form, name, scheme, labels, kept=kept, among=FIXED)
    segments, labels = reading.segments, reading.labels
    limits = _limits(segment_length, labels, scheme)
    has_most = any(most is not None for _, _, most in limits)
    if earlier is not None:
        longest, shortest = earlier.longest, earlier.shortest
        reading = reading._replace(as_lists=earlier.as_lists, bare_tags=earlier.bare_tags, is_bio=False)
        if not has_most:
            hint = f": None means the longest in the first call of partial_fit{LONG_ONES}"
            _refuse_longer(segments, longest, labels, _segment_offsets(lengths, kept), hint)
    else:
        shortest, longest = _shortest_and_longest(limits, len(labels), *reading.lengths)
    singles = scheme == "runs" and bool((longest == 1).all())
    repeats = scheme != "runs" or singles
    if singles and reading.known is None:
        segments = segments_of_tokens(np.repeat(segments.codes, segments.lengths), _segment_offsets(lengths, kept))
    elif singles and reading.known is not None:
        begins = np.ones(len(reading.known.begins), np.int8)
        segments, _, _ = segments_between(reading.codes, begins, _segment_offsets(lengths, kept))
    if reading.is_bio:
        warn_user('the labels look like BIO tags: scheme="bio"?')
    _refuse_longer(segments, longest, labels, _segment_offsets(lengths, kept))
    if shortest is not None:
        _refuse_shorter(segments, shortest, labels, _segment_offsets(lengths, kept))
    if kept is not None:
        segments = segments._replace(offsets=segments.offsets[np.append(np.flatnonzero(kept), -1)])
    flags = repeats, reading.as_lists, reading.bare_tags
    known = reading.known
    if known is not None and segments.lengths.sum() == len(known.begins):  # all segments are known after all
        known = None
    return SegmentTargets(segments, labels, longest, *flags, scheme, shortest, known)


def _scheme_of(y, lengths, form, name, in_parts=False) -> str:
    """Return the scheme in which y is probably given, or raise if a part of the data cannot show it.

    The first parts of data may lack some of the tags.
    """
    if form != "table":
        sequences = read_target_sequences(y, len(lengths), name)
        if looks_like_segments([sequence for sequence in sequences if sequence is not None]):
            return "segments"
    tokens, _ = read_labels(y, lengths, form, name)
    labels = read_entries(tokens, offsets_of(lengths), "y").labels()
    if not in_parts:
        return scheme_of_labels(labels)
    return _refuse_tags_of_parts(labels)


def _refuse_tags_of_parts(labels) -> str:
    """Return "runs", or raise a ValueError if the labels are tags."""
    scheme = guessed_scheme(labels)
    if scheme != "runs":
        raise ValueError(
            f'the labels look like {scheme.upper()} tags, but scheme="auto" needs all of y, to see all kinds of tags, '
            f'and these data come in parts: pass scheme="{scheme}"'
        )
    return scheme


def read_partition_targets(y, lengths, name, *, scheme) -> SegmentTargets:
    """Return the segmentations of a part of the training sequences, which may have a single label.

    Parameters
    ----------
    y, lengths, name, scheme
        As in :func:`read_segment_targets`.
    """
    labels = None
    if scheme == "auto":
        scheme = _scheme_of(y, lengths, "sequences", name, in_parts=True)
    if scheme == "runs":
        labels = sorted_labels(read_labels(y, lengths, "sequences", name)[0], offsets_of(lengths), at_least=1)
    return read_segment_targets(y, lengths, "sequences", name, scheme=scheme, fixed=labels)


def read_segments(y, lengths, form, name, labels, *, scheme, singles, unknown) -> Segments:
    """Return the segments of y for a fitted estimator.

    Parameters
    ----------
    y, lengths, form, name
        As in :func:`read_segment_targets`.
    labels : ndarray of shape (L,)
        The labels of the fitted estimator.
    scheme : {"runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}
    singles : bool
        Whether each token is a separate segment.
    unknown : {"raise", "ignore"}
        "ignore" codes unknown labels as -1.
    """
    segments = _read(y, lengths, form, name, scheme, labels, unknown).segments
    if singles:
        return segments_of_tokens(token_labels(segments), _segment_offsets(lengths))
    return segments


def _segment_offsets(lengths, kept=None):
    return offsets_of(lengths if kept is None else np.where(kept, lengths, 0))


def _read(y, lengths, form, name, scheme, labels=None, unknown="raise", kept=None, among=SEEN) -> _Reading:
    """Read y; ``labels`` are the possible labels, called ``among`` in messages, or None for the labels of y."""
    if scheme == "segments":
        return _read_lists(y, lengths, name, labels, unknown, kept, among)
    if form != "table":
        refuse_segments(y, lengths, name, scheme)
    tokens, as_lists = read_labels(y, lengths, form, name)
    tokens, offsets = leave_out(tokens, lengths, kept)
    if scheme == "runs":
        labels = sorted_labels(tokens, offsets) if labels is None else labels
        segments = segments_of_labels(encode_labels(tokens, labels, offsets, unknown=unknown, among=among), offsets)
        return _Reading(segments, labels, as_lists, False)
    prefixes, names = _split_tags(tokens, offsets, scheme)
    labels = sorted_labels(names, offsets, at_least=1) if labels is None else labels
    segments = segments_of_tags(prefixes, encode_labels(names, labels, offsets, unknown=unknown, among=among), offsets)
    is_bio = scheme in ("bioes", "bilou") and 0 < (prefixes != O).sum() == np.isin(prefixes, (B, I)).sum()
    bare_tags = bool(set(PREFIXES[scheme]) - {OUTSIDE} & set(tokens))
    return _Reading(segments, labels, as_lists, bare_tags, bool(is_bio))


def _read_partial(y, lengths, form, name, scheme, labels, kept) -> _Reading:
    """Read y with missing labels; see :func:`_read`."""
    if scheme == "segments":
        return _read_partial_lists(y, lengths, name, labels, kept)
    tokens, as_lists = read_labels(y, lengths, form, name)
    tokens, offsets = leave_out(tokens, lengths, kept)
    entries = read_entries(tokens, offsets, "y")
    if scheme == "runs":
        reader = Reader(all_labels(entries) if labels is None else labels, among=FIXED)
        known = known_of_runs(entries, reader)
        segments, *pieces = segments_between(known.codes, borders_of_runs(known.codes, offsets), offsets)
        return _Reading(segments, reader.labels, as_lists, False, False, known.mask, tuple(pieces), known.codes)
    labels = all_labels(entries, name_in_tag(entries, scheme), at_least=1) if labels is None else labels
    known = known_of_tags(entries, Reader(labels, among=FIXED), scheme, np.full(len(labels), NO_LIMIT))
    segments, *pieces = segments_between(known.codes, known.mask.begins, offsets)
    bare = any(tag in PREFIXES[scheme] and tag != OUTSIDE for tag in entries.labels() if isinstance(tag, str))
    return _Reading(segments, labels, as_lists, bare, False, known.mask, tuple(pieces), known.codes)


def _read_partial_lists(y, lengths, name, labels, kept) -> _Reading:
    bounds, entries = listed_segments(y, lengths, name, "y")
    if kept is not None:
        remain = kept[bounds[:, 0]]
        bounds, chosen = bounds[remain], entries.ids[remain]
        entries = entries._replace(ids=chosen, offsets=offsets_of(np.bincount(bounds[:, 0], minlength=len(lengths))))
    labels = all_labels(entries, at_least=1) if labels is None else labels
    offsets = _segment_offsets(lengths, kept)
    known = known_of_lists(bounds, entries, offsets, Reader(labels, among=FIXED))
    segments, *pieces = segments_between(known.codes, known.mask.begins, offsets)
    covered = np.bincount(bounds[:, 0], weights=bounds[:, 2] - bounds[:, 1], minlength=len(lengths))
    if (covered < np.diff(offsets))[np.diff(offsets) > 0].all():
        warn_user(
            "no sequence of y is tiled by its segments: the gaps are read as unknown. If they are outside of all "
            "segments, fill them with segments (t, t + 1, 'O') of length 1"
        )
    return _Reading(segments, labels, True, False, False, known.mask, tuple(pieces), known.codes)


# --- tags -------------------------------------------------------------------------------------------------------------


def _split_tags(tags, offsets, scheme):
    """Return prefix (N,) and label of each token's tag."""
    entries = read_entries(tags, offsets, "y")
    parts = [split_entry(tag, entries, i, scheme) for i, tag in enumerate(entries.distinct)]
    prefixes = np.array([prefix for prefix, _ in parts], dtype=np.int8)
    return prefixes[entries.ids], [parts[i][1] for i in entries.ids.tolist()]


# --- lists of segments ------------------------------------------------------------------------------------------------


def _read_lists(y, lengths, name, labels, unknown, kept, among) -> _Reading:
    rows, bounds = segment_rows(y, lengths, name, "y")
    sequence, start, stop = bounds.T
    _refuse_gaps(rows, sequence, start, stop, lengths)
    counts = np.bincount(sequence, minlength=len(lengths))
    names, offsets = leave_out([row[3] for row in rows], counts, kept)
    labels = sorted_labels(names, offsets, at_least=1) if labels is None else labels
    codes = encode_labels(names, labels, offsets, unknown=unknown, among=among)
    remain = slice(None) if kept is None else kept[sequence]
    origin = _segment_offsets(lengths, kept)[sequence]
    return _Reading(Segments(offsets, (start + origin)[remain], (stop + origin)[remain], codes), labels, True, False)


def _refuse_gaps(rows, sequence, start, stop, lengths):
    """Raise unless the segments, in order, tile the sequences."""
    is_first = np.append(True, sequence[1:] != sequence[:-1])[: len(rows)]
    before = np.where(is_first, 0, np.roll(stop, 1))
    for i in np.flatnonzero(start != before)[:1].tolist():
        after = "" if is_first[i] else f" after {short(rows[i - 1][1:])}"
        raise _gap(rows[i][0], before[i], start[i], f"{after} before {short(rows[i][1:])}")
    reached = np.zeros(len(lengths), dtype=np.int64)
    reached[sequence] = stop  # the last segment of each sequence is written last
    for n in np.flatnonzero(reached < lengths)[:1].tolist():
        raise _gap(n, reached[n], lengths[n], f", at the end of its {lengths[n]} tokens")


def _gap(n, start, stop, where):
    return ValueError(
        f"the segments of sequence {n} of y leave a gap [{start}, {stop}){where}: segments must tile a sequence. Fill "
        "gaps with segments (t, t + 1, 'O') of length 1"
    )


# --- lengths ----------------------------------------------------------------------------------------------------------


def _limits(segment_length, labels, scheme) -> list:
    """Return code, least and most of each label for which a length is given; the most is None if only the least is."""
    names, given = labels.tolist(), segment_length
    if not isinstance(given, dict):
        given = {label: given for label in names if given is not None and (scheme not in PREFIXES or label != OUTSIDE)}
    found = []
    for label, limits in given.items():
        if label not in names:
            raise ValueError(f"segment_length names the label {short(label)}, which the training data do not have")
        least, most = limits if isinstance(limits, tuple) else (1, limits)
        if scheme in PREFIXES and label == OUTSIDE and (least != 1 or most not in (1, None)):
            raise ValueError(f"segment_length['O'] is {limits}, but every O token is a segment of length 1")
        found.append((names.index(label), least, most))
    return found


def _shortest_and_longest(limits, n_labels, codes, lengths) -> tuple[np.ndarray | None, np.ndarray]:
    """Return minimum and maximum length of a segment of each label, given labels and lengths of segments or pieces.

    The minimum is None where all are 1.
    """
    shortest = np.ones(n_labels, dtype=np.int64)
    for code, least, _ in limits:
        shortest[code] = min(least, NO_LIMIT)
    longest = shortest.copy()
    np.maximum.at(longest, codes, lengths)
    for code, _, most in limits:
        if most is not None:
            longest[code] = min(most, NO_LIMIT)
    return shortest if (shortest > 1).any() else None, longest


def _refuse_longer(segments, longest, labels, offsets, hint=LONG_ONES):
    """Raise if a training segment is longer than its label allows."""
    is_long = segments.lengths > longest[segments.codes]
    _refuse_lengths(segments, is_long, "segment_length allows", longest, labels, offsets, hint)


def _refuse_shorter(segments, shortest, labels, offsets):
    """Raise if a training segment is shorter than its label allows."""
    is_short = are_short(segments, shortest, offsets)
    _refuse_lengths(segments, is_short, "segment_length requires", shortest, labels, offsets)


def _refuse_lengths(segments, is_wrong, which, limit, labels, offsets, hint=""):
    for i in np.flatnonzero(is_wrong)[:1].tolist():
        n = int(np.searchsorted(offsets, segments.start[i], side="right")) - 1
        label = labels.tolist()[segments.codes[i]]
        segment = int(segments.start[i] - offsets[n]), int(segments.stop[i] - offsets[n]), label
        raise ValueError(
            f"segment {short(segment)} of sequence {n} of y has {segments.lengths[i]} tokens, but {which} "
            f"{limit[segments.codes[i]]} for the label {short(label)}{hint}"
        )

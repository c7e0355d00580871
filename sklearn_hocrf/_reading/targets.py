"""Targets: labels or segmentations of a batch, read from y in any scheme."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._data.arrays import offsets_of
from .._data.checks import GUIDE, short
from .._data.messages import warn_user
from .._data.segments import NO_LIMIT, LabelSets, Mask, Segments, are_short, token_labels
from .known import (
    FIXED,
    SEEN,
    Known,
    check_classes,
    check_known_labels,
    distinct_labels,
    known_of,
    least_labels,
    read_given,
    read_target_sequences,
    segments_of,
)
from .labels import decode_labels, sorted_labels
from .schemes import (
    OUTSIDE,
    PREFIXES,
    SCHEMES,
    TAG_SCHEMES,
    O,
    TagTable,
    guessed_scheme,
    join_tag,
    looks_like_segments,
    possible_tags,
    scheme_of_labels,
    segment_lists,
    tag_channels,
    tag_ids,
    token_features,
)

LONG_ONES = f"; raise the limit, or leave out or cut such sequences as in {GUIDE}/segments.html"


class SegmentTargets(NamedTuple):
    """Segmentations, with methods that read y and convert a model's segmentation to the form of y. L labels.

    :class:`TokenTargets` describes the methods.
    """

    segments: Segments  # those that are known
    labels: np.ndarray  # (L,)         labels of segments, sorted
    longest: np.ndarray  # (L,) int64   maximum length of a segment, by label; NO_LIMIT if there is none
    repeats: bool  # neighbouring segments may have the same label
    as_lists: bool  # y consisted of lists, so predictions are lists, too
    bare_tags: bool  # tags of the label "_" are written without it
    scheme: str  # form in which y contains the segments
    shortest: np.ndarray | None = None  # (L,) int64   minimum length of a segment, by label; None: 1
    known: Mask | None = None  # segmentations that agree with y, if it has missing labels

    # --- training -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader, y, sequences, fixed=None) -> SegmentTargets:
        data = y, sequences.batch.lengths, sequences.form, reader.name, sequences.is_used
        limits = {"scheme": reader.scheme, "segment_length": reader.segment_length}
        return read_segment_targets(*data, **limits, fixed=fixed, takes_missing_labels=True)

    @classmethod
    def check_classes(cls, reader, classes) -> np.ndarray:
        scheme = reader.scheme
        if scheme in PREFIXES:
            return check_classes(classes, 1, scheme=scheme)
        labels = check_classes(classes, 1 if scheme == "auto" else least_labels(scheme))
        if scheme == "auto":
            _refuse_tags_of_parts(labels.tolist())
        return labels

    @property
    def sets(self) -> None:
        """None, because only tokens may have sets of labels."""

    @property
    def labelling(self) -> Segments:
        """The segments, in the form that models use."""
        return self.segments

    def units(self, batch) -> Segments:
        """Return the units that have labels: the segments."""
        return self.segments

    def without_data(self) -> SegmentTargets:
        """Return the labels, limits and form of y, which must be the same in later training data."""
        nothing = Segments(self.segments.offsets[:1], *(column[:0] for column in self.segments[1:]))
        return self._replace(segments=nothing, known=None)

    def merged(self, other: SegmentTargets) -> SegmentTargets:
        """Return the targets, without data, of this and another part of the training data that has the same labels."""
        longest = np.maximum(self.longest, other.longest)
        return self._replace(
            longest=longest,
            repeats=self.scheme != "runs" or bool((longest == 1).all()),
            as_lists=self.as_lists or other.as_lists,
            bare_tags=self.bare_tags or other.bare_tags,
        )

    def known_runs(self, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Return the start and the stop of each maximal run of tokens whose segments are known."""
        start, stop = self.segments.start, np.maximum.accumulate(self.segments.stop)
        goes_on = (start[1:] < stop[:-1]) | ((start[1:] == stop[:-1]) & ~np.isin(start[1:], offsets))
        return start[np.append(True, ~goes_on)[: len(start)]], stop[np.append(~goes_on, True)[: len(stop)]]

    def of_runs(self, starts, stops, tokens) -> SegmentTargets:
        """Return the targets of runs of tokens, as separate sequences."""
        segments = self.segments
        new_start = np.searchsorted(tokens, segments.start)
        offsets = np.append(np.searchsorted(segments.start, starts), len(segments.start))
        runs = Segments(offsets, new_start, new_start + segments.lengths, segments.codes)
        return self._replace(segments=runs, known=None)

    # --- fitted models ------------------------------------------------------------------------------------------------

    @property
    def outside(self) -> int:
        """The code of the label "O" of tags, or -1 if there is none."""
        labels = self.labels.tolist()
        return labels.index(OUTSIDE) if self.scheme in PREFIXES and OUTSIDE in labels else -1

    @property
    def classes(self) -> np.ndarray:
        return self.labels if self.scheme not in PREFIXES else self._tag_classes()[0].copy()

    @property
    def tags(self) -> TagTable | None:
        return None if self.scheme not in PREFIXES else self._tag_classes()[1]

    def _tag_classes(self) -> tuple[np.ndarray, TagTable, np.ndarray, list]:
        labels, longest = tuple(self.labels.tolist()), tuple(self.longest.tolist())
        return _tag_classes(self.scheme, labels, longest, self.bare_tags)

    def tag_channels(self):
        return None if self.scheme not in PREFIXES else self._tag_classes()[3]

    def attributes(self) -> dict:
        labels, shortest = self.labels.tolist(), [1] * len(self.labels)
        shortest = shortest if self.shortest is None else self.shortest.tolist()
        longest = [float("inf") if most == NO_LIMIT else most for most in self.longest.tolist()]
        limits = dict(zip(labels, zip(shortest, longest, strict=True), strict=True))
        segment_attributes = {"segment_labels_": self.labels, "segment_length_": limits, "scheme_": self.scheme}
        return {"classes_": self.classes, **segment_attributes}

    def read_known(self, known, batch, form, name, what="known", unknown="raise") -> Known:
        entries = read_given(known, batch.lengths, form, name, self.scheme, what)
        return known_of(entries, self.labels, unknown)

    def labelling_of(self, known) -> Segments:
        return segments_of(known, self.scheme, singles=self.scheme == "runs" and self.repeats)[0]

    def token_codes(self, labelling) -> np.ndarray:
        if self.scheme not in PREFIXES:
            return token_labels(labelling)
        only, first, inner, last = self._tag_classes()[2][:, labelling.codes]
        ids, lengths = np.repeat(inner, labelling.lengths), labelling.lengths
        ids[labelling.stop - 1] = last
        ids[labelling.start] = np.where(lengths == 1, only, first)
        return ids

    def are_right(self, decoded, truth) -> np.ndarray:
        features = (token_features(segments, self.scheme, self.outside) for segments in (decoded, truth))
        return np.equal(*features).all(axis=0)

    def as_predicted(self, labelling, offsets) -> list:
        if self.scheme == "segments":
            return segment_lists(labelling, offsets, self.labels.tolist())
        return decode_labels(self.token_codes(labelling), self.classes, offsets, as_lists=self.as_lists)

    def check(self, n_labels):
        """Raise a ValueError unless the object contains no data, and is valid for ``n_labels`` labels."""
        check_known_labels(self.labels, n_labels)
        if [np.shape(column) for column in self.segments] != [(1,), (0,), (0,), (0,)] or self.segments[0][0] != 0:
            raise ValueError("known targets must be without segments")
        flags = self.repeats, self.as_lists, self.bare_tags
        if self.scheme not in SCHEMES or not all(isinstance(flag, bool) for flag in flags):
            raise ValueError(f"not a scheme and properties of targets: {short((self.scheme, *flags))}")


@lru_cache(maxsize=16)  # each prediction calls it
def _tag_classes(scheme, labels, longest, bare_tags) -> tuple[np.ndarray, TagTable, np.ndarray, list]:
    """Return the names of the possible tags, sorted; their prefixes and labels, ids by place, and channels.

    The ids by place, of shape (4, L), are those of the tags of the only, first, inner and last token of a label's
    segment.
    """
    outside = labels.index(OUTSIDE) if OUTSIDE in labels else -1
    tags = possible_tags(scheme, longest, outside)
    pairs = zip(tags.prefix.tolist(), tags.label.tolist(), strict=True)
    names = [join_tag(prefix, labels[label], bare_tags, scheme) for prefix, label in pairs]
    order = sorted(range(len(names)), key=names.__getitem__)
    tags = TagTable(tags.prefix[order], tags.label[order])
    at, codes = TAG_SCHEMES[scheme], np.tile(np.arange(len(labels)), (4, 1))
    prefix = np.array([[at.only], [at.first], [at.inner], [at.last]], np.int8)
    places = tag_ids(TagTable(np.where(codes == outside, np.int8(O), prefix), codes), tags)
    return sorted_labels(names, [0, len(names)], at_least=1), tags, places, tag_channels(tags, scheme)


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
    takes_missing_labels=False,
) -> SegmentTargets:
    """Return the training segmentations.

    Parameters
    ----------
    y, lengths, form, name, kept, takes_missing_labels
        As in :func:`read_given`.
    scheme : {"auto", "runs", "bio", "bioes", "bilou", "bmes", "iob1", "segments"}
    segment_length : int, inf, (minimum, maximum), dict or None
        The maximum length of segments in tokens, or a pair (minimum, maximum); the minimum does not apply at the ends
        of sequences. A single value applies to all labels; a dict contains a value for each label. None, also as a
        maximum, means the length of the label's longest training segment.
    fixed : SegmentTargets, ndarray of shape (L,), or None
        Targets of earlier training data, or all possible labels of segments. None means the labels of y.
    """
    earlier = fixed if isinstance(fixed, SegmentTargets) else None
    labels = fixed if earlier is None else earlier.labels
    if earlier is not None:
        scheme = earlier.scheme
    elif scheme == "auto":
        scheme = _scheme_of(y, lengths, form, name, labels is not None)
    entries = read_given(y, lengths, form, name, scheme, kept=kept, takes_missing_labels=takes_missing_labels)
    labels = distinct_labels(entries) if labels is None else labels
    known = known_of(entries, labels, among=FIXED)
    segments, *pieces = segments_of(known, scheme)
    if scheme == "segments" and not entries.is_complete:
        _warn_of_gaps(entries)
    limits, hint = _limits(segment_length, labels, scheme), LONG_ONES
    if earlier is not None:
        longest, shortest, as_lists, bare_tags = earlier.longest, earlier.shortest, earlier.as_lists, earlier.bare_tags
    else:
        shortest, longest = _shortest_and_longest(limits, len(labels), *pieces)
        as_lists, bare_tags = entries.as_lists, _are_bare_tags(entries.labels(), scheme)
    singles = scheme == "runs" and bool((longest == 1).all())
    if earlier is not None and all(most is None for _, _, most in limits):
        hint = f": None means the longest in the first call of partial_fit{LONG_ONES}"
    elif singles:
        segments, *_ = segments_of(known, scheme, singles)
    is_long = segments.lengths > longest[segments.codes]
    _refuse_lengths(segments, is_long, "allows", longest, labels, entries.offsets, hint)
    if shortest is not None:
        is_short = are_short(segments, shortest, entries.offsets)
        _refuse_lengths(segments, is_short, "requires", shortest, labels, entries.offsets, hint="")
    if kept is not None:
        segments = segments._replace(offsets=segments.offsets[np.append(np.flatnonzero(kept), -1)])
    flags = scheme != "runs" or singles, as_lists, bare_tags, scheme
    is_open = segments.lengths.sum() < len(known.codes)
    return SegmentTargets(segments, labels, longest, *flags, shortest, known.mask if is_open else None)


def _are_bare_tags(tags, scheme) -> bool:
    """Return whether some tags have no label; warn if tags of a scheme that marks ends look like BIO tags."""
    if scheme not in PREFIXES:
        return False
    letters = {tag[0] for tag in tags} - {OUTSIDE}
    if scheme in ("bioes", "bilou") and letters and letters <= set("BI"):
        warn_user('the labels look like BIO tags: scheme="bio"?')
    return bool(letters & tags)


def _warn_of_gaps(entries):
    """Warn if no sequence is tiled by its segments."""
    gaps = offsets_of(entries.of_tokens == len(entries.distinct))[entries.offsets]
    if (np.diff(gaps) > 0)[np.diff(entries.offsets) > 0].all():
        warn_user(
            "no sequence of y is tiled by its segments: the gaps are read as unknown. If they are outside of all "
            "segments, fill them with segments (t, t + 1, 'O') of length 1"
        )


def _scheme_of(y, lengths, form, name, in_parts=False) -> str:
    """Return the probable scheme of y, or raise an error if a part of the data cannot determine it.

    If ``in_parts`` is true, y is a part of the data, and the first parts may lack some of the tags.
    """
    if form != "table":
        sequences = read_target_sequences(y, len(lengths), name)
        if looks_like_segments([sequence for sequence in sequences if sequence is not None]):
            return "segments"
    labels = read_given(y, lengths, form, name, "tokens").labels()
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


# --- lengths ----------------------------------------------------------------------------------------------------------


def _limits(segment_length, labels, scheme) -> list:
    """Return the code and the minimum and maximum length of each label with limits; an unset maximum is None."""
    names, value = labels.tolist(), segment_length
    if not isinstance(value, dict):
        value = {label: value for label in names if value is not None and (scheme not in PREFIXES or label != OUTSIDE)}
    coded_limits = []
    for label, limits in value.items():
        if label not in names:
            raise ValueError(f"segment_length names the label {short(label)}, which the training data do not have")
        least, most = limits if isinstance(limits, tuple) else (1, limits)
        if scheme in PREFIXES and label == OUTSIDE and (least != 1 or most not in (1, None)):
            raise ValueError(f"segment_length['O'] is {limits}, but every O token is a segment of length 1")
        coded_limits.append((names.index(label), least, most))
    return coded_limits


def _shortest_and_longest(limits, n_labels, codes, lengths) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the minimum and maximum segment length of each label, from labels and lengths of segments or pieces.

    The minimum is None if it is 1 for all labels.
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


def _refuse_lengths(segments, is_wrong, does, limit, labels, offsets, hint=LONG_ONES):
    """Raise an error if a training segment is longer than its label allows, or shorter than it requires."""
    for i in np.flatnonzero(is_wrong)[:1].tolist():
        n = int(np.searchsorted(offsets, segments.start[i], side="right")) - 1
        label = labels.tolist()[segments.codes[i]]
        segment = int(segments.start[i] - offsets[n]), int(segments.stop[i] - offsets[n]), label
        raise ValueError(
            f"segment {short(segment)} of sequence {n} of y has {segments.lengths[i]} tokens, but segment_length "
            f"{does} {limit[segments.codes[i]]} for the label {short(label)}{hint}"
        )


class TokenTargets(NamedTuple):
    """Labels, one per token, with methods that read y and convert a labelling to the form of y. N tokens, L labels.

    :class:`SegmentTargets` has the same methods, which read y for a :class:`Reader` with valid parameters.
    """

    codes: np.ndarray  # (N,) int32    label of each token, an index into ``labels``; -1 if it is not known
    labels: np.ndarray  # (L,)         the labels as in y, sorted
    as_lists: bool  # y consisted of lists, so predictions are lists, too
    known: Mask | None = None  # the labellings that agree with y, if it has missing labels
    sets: LabelSets | None = None  # the sets of labels that count, if any; otherwise, ``codes`` suffice

    # --- training -----------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, reader, y, sequences, fixed=None) -> TokenTargets:
        """Return the targets of training sequences; ``fixed`` is as for :func:`read_token_targets`."""
        data = y, sequences.batch.lengths, sequences.form, reader.name, sequences.is_used
        return read_token_targets(*data, fixed, takes_missing_labels=True)

    @classmethod
    def check_classes(cls, reader, classes) -> np.ndarray:
        """Return the labels that patterns may contain, sorted, from the parameter ``classes`` in the form of y."""
        return check_classes(classes)

    @property
    def labelling(self) -> np.ndarray:
        """The labels, in the form that models use."""
        return self.codes

    def units(self, batch) -> Segments:
        """Return the units that have labels: the tokens of a batch, as segments."""
        return Segments.of_tokens(batch.offsets, self.codes)

    def without_data(self) -> TokenTargets:
        """Return the labels and the form of y, which must be the same in later training data."""
        return self._replace(codes=self.codes[:0], known=None, sets=None)

    def merged(self, other: TokenTargets) -> TokenTargets:
        """Return the targets, without data, of this and another part of the training data that has the same labels."""
        return self._replace(as_lists=self.as_lists or other.as_lists)

    def known_runs(self, offsets) -> tuple[np.ndarray, np.ndarray]:
        """Return the start and the stop of each maximal run of tokens with known labels or with sets that count."""
        is_known = np.append(self.codes >= 0 if self.sets is None else self.sets.sizes > 0, False)
        is_first = np.zeros(len(is_known), bool)
        is_first[offsets] = True
        begins = is_known & (is_first | ~np.append(False, is_known[:-1]))
        ends = np.append(False, is_known[:-1]) & (is_first | ~is_known)
        return np.flatnonzero(begins), np.flatnonzero(ends)

    def of_runs(self, starts, stops, tokens) -> TokenTargets:
        """Return the targets of runs of tokens, as separate sequences."""
        sets = None if self.sets is None else self.sets.take(tokens)
        return self._replace(codes=self.codes[tokens], known=None, sets=sets)

    # --- fitted models ------------------------------------------------------------------------------------------------

    @property
    def scheme(self) -> str:
        """The form in which y contains the labels."""
        return "tokens"

    @property
    def classes(self) -> np.ndarray:
        """The classes of tokens."""
        return self.labels

    @property
    def tags(self) -> TagTable | None:
        """The classes of tokens as tags of segments, or None."""
        return None

    def tag_channels(self) -> Any:
        """Return the channels of segment features that count the tags of tokens; None if the classes are labels."""

    def attributes(self) -> dict:
        """Return ``classes_`` and all other fitted attributes that depend on the targets."""
        return {"classes_": self.labels}

    def read_known(self, known, batch, form, name, what="known", unknown="raise", among=SEEN) -> Known:
        """Return the information in the labels of a batch; ``what`` is their name in messages.

        ``unknown="ignore"`` treats labels that the model lacks as impossible; ``among`` describes the source of the
        model's labels.
        """
        entries = read_given(known, batch.lengths, form, name, "tokens", what)
        return known_of(entries, self.labels, unknown=unknown, among=among)

    def labelling_of(self, known) -> np.ndarray:
        """Return complete labels as a labelling of the model; labels that the model lacks have the code -1."""
        return known.codes

    def token_codes(self, labelling) -> np.ndarray:
        """Return the class of each token in a labelling, an index into ``classes``; shape (N,)."""
        return labelling

    def are_right(self, decoded, truth) -> np.ndarray:
        """Return, for each token, whether its decoded class is correct; shape (N,)."""
        return decoded == truth

    def as_predicted(self, labelling, offsets) -> list:
        """Return a labelling by sequence, in the form of y."""
        return decode_labels(labelling, self.labels, offsets, as_lists=self.as_lists)

    def check(self, n_labels):
        """Raise a ValueError unless the object contains no data, and is valid for ``n_labels`` labels."""
        check_known_labels(self.labels, n_labels)
        if np.shape(self.codes) != (0,) or not isinstance(self.as_lists, bool):
            raise ValueError(f"targets with codes of shape {np.shape(self.codes)}, as_lists={self.as_lists!r:.20}")


def read_token_targets(y, lengths, form, name, kept=None, fixed=None, takes_missing_labels=False) -> TokenTargets:
    """Return the training labels of all tokens.

    Parameters
    ----------
    y, lengths, form, name, kept, takes_missing_labels
        As in :func:`read_given`.
    fixed : TokenTargets, ndarray of shape (L,), or None
        Targets of earlier training data, or all possible labels. None means the labels of y.
    """
    entries = read_given(y, lengths, form, name, "tokens", kept=kept, takes_missing_labels=takes_missing_labels)
    earlier = fixed if isinstance(fixed, TokenTargets) else None
    labels = fixed if earlier is None else earlier.labels
    labels = distinct_labels(entries) if labels is None else labels
    known = known_of(entries, labels, among=FIXED)
    as_lists = entries.as_lists if earlier is None else earlier.as_lists
    sets = None if known.allowed is None else LabelSets.from_mask(known.allowed, known.ids)
    return TokenTargets(known.codes, labels, as_lists, known.mask if (known.codes < 0).any() else None, sets)


Targets: TypeAlias = TokenTargets | SegmentTargets


def label_set(reader, y, sequences) -> np.ndarray | None:
    """Return the labels of a part of the training sequences, sorted, or None if some are missing."""
    data, scheme = (y, sequences.batch.lengths, sequences.form, reader.name), reader.scheme
    scheme = _scheme_of(*data, in_parts=True) if scheme == "auto" else scheme
    entries = read_given(*data, scheme, kept=sequences.is_used)
    return distinct_labels(entries, at_least=1) if entries.is_complete else None


def read_truth(targets, y, batch, form, name, unknown="raise"):
    """Return the labels of a batch as a labelling; with ``unknown="ignore"``, labels that the model lacks are -1."""
    known = targets.read_known(y, batch, form, name, "y", unknown)
    if not known.is_complete:
        raise ValueError(
            "y has missing labels, but the accuracy needs the label of each token; log_likelihood and "
            "metrics.log_likelihood_scorer do not"
        )
    return targets.labelling_of(known)

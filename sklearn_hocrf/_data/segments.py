"""Segments, their features, and masks of the possible labellings of a batch.

A segment ``[u, v)`` of d = v - u tokens has features of three kinds: token attributes, each counted at certain
positions of the segment; functions of its length; and values computed for each candidate segment as a whole. A set of
positions is a *channel*: all tokens of the segment, its first token, its inner tokens, the token after it, and so on.
A batch lists the features as blocks, in the order of its features.

Masks describe the possible labellings of a batch.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from .arrays import freeze_all, joined_ranges, offsets_of

FROM_START, FROM_STOP, RANGE, AS_A_WHOLE = range(4)
NO_LIMIT = 2**31 - 1


class Channel(NamedTuple):
    """The tokens of a segment [u, v) at which a token attribute is counted.

    FROM_START: token u + offset. FROM_STOP: token v - 1 - offset; the offset -1 is the token after the segment, if
    there is one. Both apply only to segments of ``shortest`` to ``longest`` tokens. RANGE: tokens u + offset ..
    v - 1 - trim, with ``shortest = offset + trim + 1``. AS_A_WHOLE: no token.
    """

    anchor: int
    offset: int = 0
    shortest: int = 1
    longest: int = NO_LIMIT

    def check(self):
        """Raise a ValueError unless the kind is valid and no position is before the first token of a segment."""
        whole = all(isinstance(value, Integral) and -1 <= value <= NO_LIMIT for value in self)
        first = {FROM_START: 0, FROM_STOP: -1, RANGE: 0, AS_A_WHOLE: 0}.get(self.anchor, NO_LIMIT)
        last = NO_LIMIT if self.anchor == FROM_START else self.shortest - 1
        if not whole or not first <= self.offset <= last or not 1 <= self.shortest <= self.longest:
            raise ValueError(f"not the positions of a segment: {tuple(self)!r:.80}")


BAG = Channel(RANGE)
BEGIN = Channel(FROM_START)
END_OF_SEGMENT = Channel(FROM_STOP)
INSIDE = Channel(RANGE, 1, 2)
WHOLE = Channel(AS_A_WHOLE)


class Segments(NamedTuple):
    """Segmentations of the sequences of a batch.   M segments."""

    offsets: np.ndarray  # (n_sequences + 1,) int64   segments of each sequence
    start: np.ndarray  # (M,) int64   first token, counted over the batch
    stop: np.ndarray  # (M,) int64   token after the last
    codes: np.ndarray  # (M,) int32   label

    @classmethod
    def of_tokens(cls, offsets, codes) -> Segments:
        """Return labels of tokens as segments of one token; ``offsets`` contain the token range of each sequence."""
        tokens = np.arange(len(codes) + 1)
        return cls(offsets, tokens[:-1], tokens[1:], codes)

    @property
    def lengths(self) -> np.ndarray:
        return self.stop - self.start

    def without(self, code) -> Segments:
        """Return the segments except those with the given label."""
        return self.where(self.codes != code)

    def where(self, kept) -> Segments:
        """Return the segments that a mask, bool of shape (M,), selects."""
        return Segments(offsets_of(kept)[self.offsets], self.start[kept], self.stop[kept], self.codes[kept])

    def of_sequences(self, sequences, token_offsets) -> Segments:
        """Return the segments of the given sequences, with renumbered tokens.

        Parameters
        ----------
        sequences : ndarray of int
        token_offsets : ndarray of shape (n_sequences + 1,)
            Token range of each sequence of the batch.
        """
        chosen = joined_ranges(self.offsets[sequences], self.offsets[sequences + 1])
        counts, lengths = np.diff(self.offsets)[sequences], np.diff(token_offsets)[sequences]
        moved = np.repeat(offsets_of(lengths)[:-1] - token_offsets[sequences], counts)
        return Segments(offsets_of(counts), self.start[chosen] + moved, self.stop[chosen] + moved, self.codes[chosen])


Labelling: TypeAlias = np.ndarray | Segments  # label codes of tokens, (N,) int32, or segments


def are_short(segments: Segments, shortest, token_offsets) -> np.ndarray:
    """Return the mask of segments that are shorter than their labels require, except at the ends of sequences.

    Parameters
    ----------
    segments : Segments
    shortest : ndarray of shape (L,)
        Minimum length, by label.
    token_offsets : ndarray of shape (n_sequences + 1,)
        Token range of each sequence.
    """
    at_end = np.isin(segments.start, token_offsets) | np.isin(segments.stop, token_offsets)
    return (segments.lengths < shortest[segments.codes]) & ~at_end


def sorted_segments(token_offsets, parts) -> tuple[Segments, np.ndarray]:
    """Return the segments of several tables, sorted by sequence, start, stop and label, and their probabilities.

    ``token_offsets`` contain the token range of each sequence; ``parts`` are tables of start, stop, code and
    probability, of shape (M, 4); segments may overlap.
    """
    *positions, probability = np.concatenate([np.empty((0, 4)), *parts]).T
    start, stop, codes = np.array(positions, np.int64)
    order = np.lexsort((codes, stop, start))
    start = start[order]
    table = Segments(np.searchsorted(start, token_offsets), start, stop[order], codes[order].astype(np.int32))
    return table, np.minimum(probability[order], 1.0)


class TokenBlock(NamedTuple):
    """Features that count token attributes at the positions of a channel; one feature per attribute."""

    channel: Channel
    attributes: np.ndarray  # (n,) int32   ascending
    prefix: str  # of the features' names

    @property
    def n_features(self) -> int:
        return len(self.attributes)

    def names(self, attribute_names) -> np.ndarray | None:
        """Return the features' names, or None if the attributes have none."""
        if attribute_names is None:
            return None
        names = np.asarray(attribute_names)[self.attributes]
        return np.array([f"{self.prefix}{name}" for name in names], dtype=object) if self.prefix else names

    def take(self, tokens) -> TokenBlock:
        """Return the block for the given tokens of the batch."""
        return self


LENGTH_KINDS = ("indicator", "capped", "gamma")
GAMMA_NAMES = ["length", "log_length"]


class LengthBlock(NamedTuple):
    """Features of the length d of a segment."""

    # "indicator": d = 1, d = 2 .. d = longest; "capped": the last one means d >= longest; "gamma": d and log d, whose
    # weighted sum is the logarithm of the density of a gamma distribution up to a constant
    kind: str
    longest: int  # for indicators
    scheme: str | None = None  # of the y that determined ``longest``

    @property
    def n_features(self) -> int:
        return len(GAMMA_NAMES) if self.kind == "gamma" else self.longest

    def names(self, attribute_names) -> np.ndarray:
        if self.kind == "gamma":
            return np.array(GAMMA_NAMES, dtype=object)
        names = [f"length={d}" for d in range(1, self.longest + 1)]
        if self.kind == "capped":
            names[-1] += "+"
        return np.array(names, dtype=object)

    def take(self, tokens) -> LengthBlock:
        return self

    def check(self):
        """Raise a ValueError unless kind and length are valid."""
        if self.kind not in LENGTH_KINDS or not isinstance(self.longest, Integral) or not 0 <= self.longest <= NO_LIMIT:
            raise ValueError(f"not features of lengths: {tuple(self)!r:.80}")

    def table(self, longest) -> np.ndarray:
        """Return the features' values for d = 1 .. longest; shape (longest, n_features)."""
        d = np.arange(1, longest + 1)
        if self.kind == "gamma":
            return np.stack([d, np.log(d)], axis=1)
        capped = np.minimum(d, self.longest) if self.kind == "capped" else d
        return (capped[:, None] == np.arange(1, self.longest + 1)).astype(np.float64)


MOST = 8  # largest number of labels of a set that counts


def are_counted(sizes: np.ndarray, n_labels: int) -> np.ndarray:
    """Return which sets of labels, given their sizes, count when weights are chosen; the others only limit labellings.

    A set counts if it contains at most 8 labels, and at most half of all labels or two of three.
    """
    most = min(MOST, max(2, n_labels // 2), max(1, n_labels - 1))
    return (sizes > 0) & (sizes <= most)


class LabelSets(NamedTuple):
    """The possible labels of tokens whose sets count (see :func:`are_counted`). N tokens, M labels of all of them."""

    starts: np.ndarray  # (N + 1,) int64   range of each token's labels; empty if its set does not count
    codes: np.ndarray  # (M,) int32   ascending in each token

    @classmethod
    def from_mask(cls, allowed: np.ndarray, ids: np.ndarray) -> Self | None:
        """Return the sets of labels that count, or None if all of them are single labels.

        Parameters
        ----------
        allowed : ndarray of shape (R, L), bool
            The labels of each distinct set.
        ids : ndarray of shape (N,), int
            The row of each token's set in ``allowed``.
        """
        sizes = allowed.sum(axis=1)
        sizes = np.where(are_counted(sizes, allowed.shape[1]), sizes, 0)
        if sizes[ids].max(initial=0) < 2:
            return None
        distinct = cls(offsets_of(sizes), np.nonzero(allowed[sizes > 0])[1].astype(np.int32))
        return distinct.take(ids)

    def take(self, tokens: np.ndarray) -> Self:
        """Return the sets of the given tokens."""
        first, stop = self.starts[tokens], self.starts[tokens + 1]
        return self._replace(starts=offsets_of(stop - first), codes=self.codes[joined_ranges(first, stop)])

    @property
    def sizes(self) -> np.ndarray:
        """The number of labels of each token; shape (N,)."""
        return np.diff(self.starts)


def cut_segments(begins, codes, offsets) -> Segments:
    """Return the segments that begin at the first token of a sequence, or at token t + 1 if ``begins[t]``."""
    n_tokens = len(codes)
    is_first = np.zeros(n_tokens + 1, dtype=bool)
    is_first[1:n_tokens] = begins
    is_first[offsets[:-1]] = True
    start = np.flatnonzero(is_first[:n_tokens])
    stop = np.append(start[1:], n_tokens)[: len(start)]
    return Segments(np.searchsorted(start, offsets), start, stop, codes[start].astype(np.int32))


def token_labels(segments: Segments) -> np.ndarray:
    """Return the label code of each token from segments that tile the sequences."""
    return np.repeat(segments.codes, segments.lengths)


class Mask(NamedTuple):
    """The possible labellings of a batch.   N tokens, L labels."""

    allowed: np.ndarray  # (N, L) bool   labels that the token, or the segment that contains it, may have
    begins: np.ndarray  # (N,) int8   1: a segment must begin, -1: none may, 0: either; chain models ignore it

    @staticmethod
    def free(n_tokens: int, n_labels: int) -> Mask:
        """Return the mask that allows all labellings."""
        return Mask(np.ones((n_tokens, n_labels), bool), np.zeros(n_tokens, np.int8))

    @staticmethod
    def of_borders(offsets, borders) -> Mask:
        """Return the mask that lets sequences begin and end only with the given labels.

        Parameters
        ----------
        offsets : ndarray of shape (n_sequences + 1,)
            Token range of each sequence.
        borders : ndarray of shape (2, L), bool
            Labels that the first and the last token may have.
        """
        mask = Mask.free(int(offsets[-1]), borders.shape[1])
        has_tokens = np.diff(offsets) > 0
        mask.allowed[offsets[:-1][has_tokens]] &= borders[0]
        mask.allowed[offsets[1:][has_tokens] - 1] &= borders[1]
        return mask

    def part(self, tokens) -> Mask:
        """Return the mask of the tokens with the given indices."""
        return Mask(self.allowed[tokens], self.begins[tokens])

    def frozen(self) -> Mask:
        """Return the mask with arrays in the form that kernels require."""
        return Mask(*freeze_all(self, np.bool_, np.int8))


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Return the mask of the labellings that two masks allow; None allows all.

    If one mask requires a segment to begin at a token and the other one forbids it, no label is allowed there.
    """
    if left is None or right is None:
        return right if left is None else left
    allowed, begins = left.allowed & right.allowed, np.where(left.begins == 0, right.begins, left.begins)
    allowed[left.begins * right.begins < 0] = False
    return Mask(allowed, begins)

"""Segments and their features.

A segment ``[u, v)`` of d = v - u tokens has features of three kinds: token attributes, each counted at certain
positions of the segment, functions of its length, and values computed for each candidate segment as a whole. A set of
positions is a *channel*: all tokens of the segment, its first token, the tokens inside, the token after it, and so on.
A batch lists the features as blocks, in the order of its features.
"""

from __future__ import annotations

from numbers import Integral
from typing import NamedTuple, TypeAlias

import numpy as np

from .arrays import joined_ranges, offsets_of

FROM_START, FROM_STOP, RANGE, AS_A_WHOLE = range(4)
NO_LIMIT = 2**31 - 1


class Channel(NamedTuple):
    """The tokens of a segment [u, v) at which a token attribute counts.

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
    start: np.ndarray  # (M,) int64   first token, counted through the batch
    stop: np.ndarray  # (M,) int64   token after the last
    codes: np.ndarray  # (M,) int32   label

    @property
    def lengths(self) -> np.ndarray:
        return self.stop - self.start

    def without(self, code) -> Segments:
        """Return the segments except those with a label."""
        kept = self.codes != code
        return Segments(offsets_of(kept)[self.offsets], self.start[kept], self.stop[kept], self.codes[kept])

    def of_sequences(self, sequences, token_offsets) -> Segments:
        """Return the segments of some sequences, with renumbered tokens.

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
    """Return which segments have fewer tokens than their labels require; segments at the ends of sequences never do.

    Parameters
    ----------
    segments : Segments
    shortest : ndarray of shape (L,)
        Lowest length, by label.
    token_offsets : ndarray of shape (n_sequences + 1,)
        Token range of each sequence.
    """
    at_end = np.isin(segments.start, token_offsets) | np.isin(segments.stop, token_offsets)
    return (segments.lengths < shortest[segments.codes]) & ~at_end


def sorted_segments(token_offsets, parts) -> tuple[Segments, np.ndarray]:
    """Merge lists of segments, sorted by sequence, start, stop and label; also return their probabilities.

    ``token_offsets`` are the token range of each sequence; ``parts`` are tables of start, stop, code and probability,
    of shape (M, 4); segments may overlap.
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

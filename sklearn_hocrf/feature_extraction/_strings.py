"""Strings of tokens of training sequences, by fingerprints.

    tokens of a sequence:  in the in          strings of two tokens: [in the], [the in]

The text of a token has a random number. The numbers of two neighbouring blocks of 1, 2, 4 .. tokens are mixed into the
number of a block of twice the size, as Karp, Miller and Rosenberg (1972) do. Two such blocks, which may overlap, cover
a string, so its fingerprint is made from their numbers and its length, without a Python loop over strings. Fingerprints
have 63 bits: that any two of a million different strings share one has a probability of about 5e-8. Mixing is not
linear, because a polynomial of the numbers, modulo 2**64, would have the same value for a Thue-Morse string of two
kinds of tokens and for its complement, from 1,024 tokens on.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import offsets_of
from .._data.columns import TokenColumn
from ._columns import apply_function, is_text, text_column, texts_of

FACTOR = np.uint64(0xD1342543DE82EF95)  # odd, so that no two numbers have the same product


class TrainingStrings(NamedTuple):
    """The tokens of training sequences as texts of a field, and their segments.   N tokens."""

    field: Any
    column: TokenColumn  # numbers are read as texts
    offsets: np.ndarray  # (n_sequences + 1,)   token range of each sequence
    lengths: np.ndarray  # (N,) int32   of the segment that begins at a token, 0 if no segment does

    @classmethod
    def of(cls, batch, field, segments) -> TrainingStrings:
        """Return the tokens of a batch, and their segments."""
        column = text_column(texts_of(_as_text(batch.columns[field], field)))
        return cls(field, column, batch.offsets, lengths_at(segments, batch.n_tokens))

    def merged(self, other) -> TrainingStrings:
        """Return the tokens of both, as if all had been read at once."""
        if self.field != other.field:
            raise ValueError(
                f"the text of segments is read from the fields {self.field!r} and {other.field!r}: choose one"
            )
        column = text_column([*texts_of(self.column), *texts_of(other.column)])
        offsets = np.append(self.offsets, self.offsets[-1] + other.offsets[1:])
        return TrainingStrings(self.field, column, offsets, np.append(self.lengths, other.lengths))


def lengths_at(segments, n_tokens) -> np.ndarray:
    """Return the length of the segment that begins at each token, 0 if no segment does; int32."""
    lengths = np.zeros(n_tokens, dtype=np.int32)
    lengths[segments.start] = segments.lengths
    return lengths


def token_numbers(column, field) -> np.ndarray:
    """Return a number of 63 bits for the text of each token, a hash, of shape (N,) int64; -1 for missing values."""
    column = _as_text(column, field)
    used, codes = np.unique(column.codes, return_inverse=True)  # slices share the values of all tokens
    numbers = [-1 if code < 0 else _number_of(column.values[code]) for code in used.tolist()]
    return np.array(numbers, np.int64)[codes]


def _number_of(text) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1


def _as_text(column, field):
    return column if is_text(column) else apply_function(_number_text, column, field)


def _number_text(number):
    return repr(number).removesuffix(".0")


def fingerprints(numbers, start, stop) -> np.ndarray:
    """Return the fingerprint of each string ``[start, stop)`` of tokens, of shape (M,) int64; -1 if a value is missing.

    ``numbers`` are those of :func:`token_numbers`.
    """
    first = int(start.min(initial=len(numbers)))
    numbers, start, stop = numbers[first : stop.max(initial=first)], start - first, stop - first
    lengths = (stop - start).astype(np.uint64)
    level = np.frexp(lengths)[1] - 1  # of the largest blocks in a string
    blocks, found = numbers.astype(np.uint64), np.zeros(len(start), np.uint64)
    for k in range(level.max(initial=-1) + 1):
        if k > 0:
            blocks = _mixed(blocks[: -(2 ** (k - 1))], blocks[2 ** (k - 1) :])  # those of 2**k tokens
        at = np.flatnonzero(level == k)
        found[at] = _mixed(blocks[start[at]] + lengths[at], blocks[stop[at] - 2**k])
    n_missing = offsets_of(numbers < 0)
    return np.where(n_missing[stop] > n_missing[start], -1, (found >> np.uint64(1)).astype(np.int64))


def _mixed(left, right) -> np.ndarray:
    """Return random numbers, of dtype uint64, that pairs of numbers determine."""
    left = left ^ left >> np.uint64(32)
    left *= FACTOR
    left ^= left >> np.uint64(29)
    left += right
    return left

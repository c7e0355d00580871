"""Strings of tokens of training sequences, by fingerprints.

    tokens of a sequence:  codes  2 0 2 1          strings of two tokens: [2 0], [0 2], [2 1]

The fingerprint of a string is the polynomial hash of Karp and Rabin (1987): the sum over its tokens of a random number
for the code, times a power of a base, modulo 2**64. Differences of one cumulative sum give those of all strings at
once, so there is no Python loop over strings. Fingerprints have 63 bits: that any two of a million different strings
share one has a probability of about 5e-8.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.utils import murmurhash3_32

from .._data.arrays import offsets_of
from .._data.texts import pack_texts, unpack_texts
from ._columns import apply_function, is_text, texts_of
from ._templates import FieldTable

BASES = np.array([0xD1342543DE82EF95, pow(0xD1342543DE82EF95, -1, 2**64)], np.uint64)  # an odd one, and its inverse


class TokenCodes:
    """The values of one field of training tokens as integers, in sorted order; numbers are read as texts.

    Parameters
    ----------
    field : field
    values : list of str
    """

    def __init__(self, field, values):
        self.field, self.values, self._table = field, values, FieldTable(values)

    def __getstate__(self):
        return {"field": self.field, "texts": pack_texts(self.values)}

    def __setstate__(self, state):
        self.__init__(state["field"], unpack_texts(state["texts"]))

    def encode(self, columns) -> np.ndarray:
        """Return the code of each token, of shape (N,) int32; -1 for missing values and values not seen in training."""
        return self._table.encode(_as_text(columns[self.field], self.field), self.field)


def _as_text(column, field):
    return column if is_text(column) else apply_function(_number_text, column, field)


def _number_text(number):
    return repr(number).removesuffix(".0")


class TrainingStrings(NamedTuple):
    """The tokens of training sequences as codes, and their segments.   N tokens."""

    token_codes: TokenCodes
    codes: np.ndarray  # (N,) int32
    offsets: np.ndarray  # (n_sequences + 1,)   token range of each sequence
    lengths: np.ndarray  # (N,) int32   of the segment that begins at a token, 0 if no segment does

    @classmethod
    def of(cls, batch, field, segments) -> TrainingStrings:
        """Return the tokens of a batch, as texts of a field, and their segments."""
        values = set(texts_of(_as_text(batch.columns[field], field))) - {None}
        token_codes = TokenCodes(field, sorted(values))
        return cls(token_codes, token_codes.encode(batch.columns), batch.offsets, lengths_at(segments, batch.n_tokens))

    def merged(self, other) -> TrainingStrings:
        """Return the tokens of both; values have sorted codes, as if all had been read at once."""
        parts, field = (self, other), self.token_codes.field
        if field != other.token_codes.field:
            raise ValueError(
                f"the text of segments is read from the fields {field!r} and {other.token_codes.field!r}: choose one"
            )
        values = sorted({value for part in parts for value in part.token_codes.values})
        code_of = {value: code for code, value in enumerate(values)}
        new = [np.array([*map(code_of.__getitem__, part.token_codes.values), -1], np.int32) for part in parts]
        codes = np.concatenate([new[part.codes] for new, part in zip(new, parts, strict=True)])
        offsets = np.append(self.offsets, self.offsets[-1] + other.offsets[1:])
        return TrainingStrings(TokenCodes(field, values), codes, offsets, np.append(self.lengths, other.lengths))


def lengths_at(segments, n_tokens) -> np.ndarray:
    """Return the length of the segment that begins at each token, 0 if no segment does; int32."""
    lengths = np.zeros(n_tokens, dtype=np.int32)
    lengths[segments.start] = segments.lengths
    return lengths


def fingerprints(codes, start, stop) -> np.ndarray:
    """Return the fingerprint of each string ``[start, stop)`` of codes, of shape (M,) int64; -1 if a code is -1."""
    first = int(start.min(initial=len(codes)))
    codes, start, stop = codes[first : stop.max(initial=first)], start - first, stop - first
    high, low = (murmurhash3_32(codes, seed, positive=True).astype(np.uint64) for seed in (0, 1))
    powers, inverse_powers = (np.cumprod(np.insert(np.full(len(codes), base), 0, 1)) for base in BASES)
    sums = np.insert(np.cumsum(((high << np.uint64(32)) | low) * powers[:-1]), 0, 0)
    found = ((sums[stop] - sums[start]) * inverse_powers[start] >> np.uint64(1)).astype(np.int64)
    n_missing = offsets_of(codes < 0)
    return np.where(n_missing[stop] > n_missing[start], -1, found)

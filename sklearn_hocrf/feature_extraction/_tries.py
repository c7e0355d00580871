"""Strings of tokens of training sequences, as nodes of a trie over integer codes.

    tokens of a sequence:  codes  2 0 2 1          node 0 is the empty string, its child along code 2 is the string "2"

A trie is one sorted array of edge keys, ``parent * n_codes + code``: nodes are numbered level by level, so the edge at
position i leads to node i + 1. All strings are walked at once, one token further at each step, and strings that have
left the trie are dropped, so there is no Python loop over strings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._data.arrays import freeze_indices
from .._data.texts import pack_texts, unpack_texts
from ._columns import apply_function, is_text, texts_of
from ._templates import FieldTable


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


class Trie:
    """A set of strings of codes, with all their prefixes.

    Attributes
    ----------
    n_nodes : int
        Node 0 is the empty string.
    """

    def __init__(self, keys, level_starts, n_codes):
        self._n_codes = int(n_codes)
        self._keys = freeze_indices(keys, (len(keys) + 1) * self._n_codes, "keys of a trie", np.int64)  # ascending
        # (depth + 1,)   range of each level in the keys
        self._level_starts = freeze_indices(level_starts, len(keys) + 1, "levels of a trie", np.int64)

    def __reduce__(self):
        return Trie, (self._keys, self._level_starts, self._n_codes)

    @property
    def n_nodes(self) -> int:
        return len(self._keys) + 1

    @classmethod
    def of(cls, codes, start, longest, n_codes) -> Trie:
        """Return the trie of strings.

        Parameters
        ----------
        codes : ndarray of shape (N,)
            Codes of all tokens. Strings end before a code of -1.
        start, longest : ndarray of shape (M,)
            Strings ``[start, start + longest)``.
        n_codes : int
        """
        chosen = np.flatnonzero(longest > 0)
        nodes = np.zeros(len(chosen), dtype=np.int64)
        keys, level_starts = [np.empty(0, dtype=np.int64)], [0]
        while len(chosen):
            code = codes[start[chosen] + len(keys) - 1]
            chosen, nodes, code = chosen[code >= 0], nodes[code >= 0], code[code >= 0]
            level, nodes = np.unique(nodes * n_codes + code, return_inverse=True)
            nodes += level_starts[-1] + 1
            goes_on = longest[chosen] > len(keys)
            chosen, nodes = chosen[goes_on], nodes[goes_on]
            keys.append(level)
            level_starts.append(level_starts[-1] + len(level))
        return cls(np.concatenate(keys), np.unique(level_starts), n_codes)

    def walk(self, codes, start, longest) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield d = 1, 2 .., the strings whose first d tokens are in the trie, and the nodes of these prefixes.

        The parameters are the same as for :meth:`of`; strings are given by their indices.
        """
        chosen = np.flatnonzero(longest > 0)
        nodes = np.zeros(len(chosen), dtype=np.int64)
        for d, (first, last) in enumerate(zip(self._level_starts, self._level_starts[1:], strict=False), start=1):
            code = codes[start[chosen] + d - 1]
            key = nodes * self._n_codes + code
            position = np.minimum(np.searchsorted(self._keys[first:last], key) + first, last - 1)
            has_edge = (self._keys[position] == key) & (code >= 0)
            chosen, nodes = chosen[has_edge], position[has_edge] + 1
            yield d, chosen, nodes
            goes_on = longest[chosen] > d
            chosen, nodes = chosen[goes_on], nodes[goes_on]

    def find(self, codes, start, stop) -> np.ndarray:
        """Return the nodes of strings ``[start, stop)``, of shape (M,) int64; 0 for strings not in the trie."""
        nodes, lengths = np.zeros(len(start), dtype=np.int64), stop - start
        for d, chosen, prefixes in self.walk(codes, start, lengths):
            whole = lengths[chosen] == d
            nodes[chosen[whole]] = prefixes[whole]
        return nodes

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the parents and the codes of the nodes 1, 2 ..."""
        return np.divmod(self._keys, max(self._n_codes, 1))

"""Strings of tokens as nodes of a trie over integer codes.

    tokens of a sequence:  codes  2 0 2 1          node 0 is the empty string, its child along code 2 is the string "2"

A trie is one sorted array of edge keys, ``parent * n_codes + code``: nodes are numbered level by level, so the edge at
position i leads to node i + 1. All strings are walked at once, one token further at each step, and strings that have
left the trie are dropped, so there is no Python loop over strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise

import numpy as np

from .._data.arrays import freeze_indices
from .._data.texts import pack_texts, unpack_texts
from ._columns import apply_function, is_text, texts_of
from ._templates import value_text


class TokenCodes:
    """The values of one field, or the combinations of values of several fields, as integers.

    Parameters
    ----------
    fields : tuple
        The fields to read.
    values : list of tuple of str
        The combinations of values of training tokens, sorted.

    Attributes
    ----------
    size : int
        Number of codes.
    """

    def __init__(self, fields, values):
        self.fields, self.values = tuple(fields), list(values)
        self.size = len(self.values)
        self._code_of = {value: code for code, value in enumerate(self.values)}

    def __getstate__(self):
        return {"fields": self.fields, "texts": pack_texts(chain.from_iterable(self.values))}

    def __setstate__(self, state):
        texts = iter(unpack_texts(state["texts"]))
        self.__init__(state["fields"], zip(*[texts] * len(state["fields"]), strict=True))
        if any(after <= before for before, after in pairwise(self.values)):
            raise ValueError("the values of tokens must ascend")

    @classmethod
    def of(cls, columns, fields) -> TokenCodes:
        """Return the codes of the values that occur in the raw ``columns`` of the training tokens."""
        values = (value for value in set(_values_of(columns, fields)) if None not in value)
        return cls(fields, sorted(values))

    def encode(self, columns) -> np.ndarray:
        """Return the code of each token, of shape (N,) int32; -1 for missing values and values not seen in training."""
        return np.array([self._code_of.get(value, -1) for value in _values_of(columns, self.fields)], dtype=np.int32)

    def texts(self) -> np.ndarray:
        """Return the text of each code; values of several fields are joined by a bar."""
        texts = ("|".join(value_text(text, len(self.fields) > 1) for text in value) for value in self.values)
        return np.array([*texts, None], dtype=object)[:-1]


def _values_of(columns, fields) -> Iterable[tuple]:
    """Return the values of tokens as tuples of texts and None."""
    return zip(*(texts_of(_as_text(columns[field], field)) for field in fields), strict=True)


def _as_text(column, field):
    return column if is_text(column) else apply_function(_number_text, column, field)


def _number_text(number):
    return repr(number).removesuffix(".0")


class Trie:
    """A set of strings of codes, with all their prefixes.

    Attributes
    ----------
    n_nodes : int
        Node 0 is the empty string.
    depth : int
        Length of the longest string.
    """

    def __init__(self, keys, level_starts, n_codes):
        self._n_codes = int(n_codes)
        self._keys = freeze_indices(keys, (len(keys) + 1) * self._n_codes, "keys of a trie", np.int64)  # ascending
        # (depth + 1,)   range of each level in the keys
        self._level_starts = freeze_indices(level_starts, len(keys) + 1, "levels of a trie", np.int64)
        self._check()

    def _check(self):
        """Raise a ValueError unless the parent of each node is in the level above it."""
        starts = self._level_starts
        if not len(starts) or starts[0] != 0 or starts[-1] != len(self._keys) or (np.diff(starts) <= 0).any():
            raise ValueError(f"the levels of a trie must ascend from 0 to {len(self._keys)}")
        if (np.diff(self._keys) <= 0).any():  # later levels have higher parents
            raise ValueError("the keys of a trie must ascend")
        parents, level = self._keys // max(self._n_codes, 1), np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        first = np.where(level > 0, starts[np.maximum(level - 1, 0)] + 1, 0)
        if (parents < first).any() or (parents > starts[level]).any():
            raise ValueError("the parents of nodes of a trie must be in the level above")

    def __reduce__(self):
        return Trie, (self._keys, self._level_starts, self._n_codes)

    @property
    def n_nodes(self) -> int:
        return len(self._keys) + 1

    @property
    def depth(self) -> int:
        return len(self._level_starts) - 1

    @classmethod
    def of(cls, codes, start, longest, n_codes) -> tuple[Trie, list]:
        """Return the trie of strings, and for each length the strings with prefixes of this length, and their nodes.

        Parameters
        ----------
        codes : ndarray of shape (N,)
            Codes of all tokens. Strings end before a code of -1.
        start, longest : ndarray of shape (M,)
            Strings ``[start, start + longest)``.
        n_codes : int

        Returns
        -------
        trie : Trie
        levels : list of (chosen, nodes)
            Element d - 1: indices of the strings of at least d tokens, and the nodes of their first d tokens.
        """
        chosen = np.flatnonzero(longest > 0)
        nodes = np.zeros(len(chosen), dtype=np.int64)
        keys, level_starts = [np.empty(0, dtype=np.int64)], [0]
        levels: list[tuple[np.ndarray, np.ndarray]] = []
        while True:
            code = codes[start[chosen] + len(levels)]
            chosen, nodes, code = chosen[code >= 0], nodes[code >= 0], code[code >= 0]
            if not len(chosen):
                return cls(np.concatenate(keys), np.array(level_starts), n_codes), levels
            level, nodes = np.unique(nodes * n_codes + code, return_inverse=True)
            nodes += level_starts[-1] + 1
            keys.append(level)
            level_starts.append(level_starts[-1] + len(level))
            levels.append((chosen, nodes))
            goes_on = longest[chosen] > len(levels)
            chosen, nodes = chosen[goes_on], nodes[goes_on]

    def walk(self, codes, start, longest) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield d = 1, 2 .., the strings whose first d tokens are in the trie, and the nodes of these prefixes.

        The parameters are the same as for :meth:`of`; strings are given by their indices.
        """
        chosen = np.flatnonzero(longest > 0)
        nodes = np.zeros(len(chosen), dtype=np.int64)
        for d in range(1, self.depth + 1):
            code = codes[start[chosen] + d - 1]
            first, last = self._level_starts[d - 1], self._level_starts[d]
            key = nodes * self._n_codes + code
            position = np.minimum(np.searchsorted(self._keys[first:last], key) + first, last - 1)
            has_edge = (self._keys[position] == key) & (code >= 0)
            chosen, nodes = chosen[has_edge], position[has_edge] + 1
            if not len(chosen):
                return
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

    def level(self, depth) -> np.ndarray:
        """Return the nodes of the strings of ``depth + 1`` tokens."""
        starts = self._level_starts
        return np.arange(starts[depth], starts[depth + 1]) + 1 if depth < self.depth else np.empty(0, dtype=np.int64)

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the parents and the codes of the nodes 1, 2 ..."""
        return np.divmod(self._keys, self._n_codes)


def by_length(lengths, longest) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of strings by length, and bounds: ``bounds[d - 1]`` to ``bounds[d]`` have length d."""
    order = np.argsort(lengths, kind="stable")
    return order, np.searchsorted(lengths[order], np.arange(1, longest + 2))

"""Indicators of the text of a segment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._data.arrays import freeze_indices, offsets_of
from ._merging import merge_tries
from ._names import FeatureNames, escape
from ._tries import Trie

__all__ = ["IdentityRows", "SegmentTexts"]


class SegmentTexts(NamedTuple):
    """The texts of training segments without missing values."""

    trie: Trie
    counts: np.ndarray  # (n_nodes,) int64   number of segments with this text

    @classmethod
    def of(cls, codes, start, stop, n_codes) -> SegmentTexts:
        """Return the texts of the segments ``[start, stop)``; a code of -1 marks a missing value."""
        n_present = offsets_of(codes >= 0)  # tokens with a value, before each token
        complete = n_present[stop] - n_present[start] == stop - start
        start, stop = start[complete], stop[complete]
        trie, _ = Trie.of(codes, start, stop - start, n_codes)
        return cls(trie, np.bincount(trie.find(codes, start, stop), minlength=trie.n_nodes))

    def merged(self, other, codes, n_codes) -> SegmentTexts:
        """Return the texts of both; ``codes`` are Numbers for the codes of each part."""
        trie, nodes = merge_tries(self.trie, other.trie, codes, n_codes)
        return SegmentTexts(trie, nodes.add_up(self.counts, other.counts, trie.n_nodes))


class IdentityRows:
    """One indicator for each text of training segments.   See RowBlock.

    Parameters
    ----------
    texts : SegmentTexts
        Texts of the training segments.
    token_codes : TokenCodes
        Gives the texts of the codes.
    min_count : int
        Texts of fewer segments get no feature.
    """

    def __init__(self, texts, token_codes, min_count):
        frequent = texts.counts >= min_count
        self._trie, nodes = texts.trie.restricted(np.flatnonzero(frequent))
        ends = np.flatnonzero(frequent[nodes])
        self._feature_of_node = np.full(self._trie.n_nodes, -1, dtype=np.int32)
        self._feature_of_node[ends] = np.arange(len(ends), dtype=np.int32)
        self.n_features = len(ends)
        self.feature_names = FeatureNames.of("identity=" + _texts(self._trie, token_codes.texts())[ends])

    def __setstate__(self, state):
        self.__dict__.update(state)
        of_node = freeze_indices(self._feature_of_node, self.n_features, "features of strings", start=-1)
        if len(of_node) != self._trie.n_nodes or len(self.feature_names) != self.n_features:
            raise ValueError(f"{len(of_node)} strings, {len(self.feature_names)} names, {self.n_features} features")
        self._feature_of_node = of_node

    def rows(self, columns, offsets, token_data, start, stop) -> sparse.csr_array:
        """Return the indicators of candidate segments; ``token_data`` has the "code" of each token."""
        feature = self._feature_of_node[self._trie.find(token_data["code"], start, stop)]
        present = feature >= 0
        indptr = offsets_of(present)
        data = np.ones(int(indptr[-1]))
        return sparse.csr_array((data, feature[present], indptr), shape=(len(start), self.n_features))


def _texts(trie, texts) -> np.ndarray:
    """Return the string of each node; tokens are separated by blanks, unless all are single characters."""
    separator = " " if any(len(text) != 1 for text in texts) else ""
    if separator:
        texts = np.array([escape(text, separator) for text in texts], dtype=object)
    parents, codes = trie.edges()
    strings = np.empty(trie.n_nodes, dtype=object)
    strings[0] = ""
    for node, (parent, text) in enumerate(zip(parents.tolist(), texts[codes], strict=True), start=1):
        strings[node] = strings[parent] + separator + text if parent else text
    return strings

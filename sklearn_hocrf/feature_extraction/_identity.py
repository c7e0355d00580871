"""Indicators of the text of a segment."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._data.arrays import freeze_indices, offsets_of
from ._names import FeatureNames, escape
from ._tries import Trie

__all__ = ["IdentityRows"]


class IdentityRows:
    """One indicator for each text of training segments.   See RowBlock.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        Codes of the training tokens.
    start, stop : ndarray of shape (M,)
        Training segments.
    token_codes : TokenCodes
        The texts of the codes.
    min_count : int
        Texts of fewer segments than this have no feature.
    """

    def __init__(self, codes, start, stop, token_codes, min_count):
        n_present = offsets_of(codes >= 0)  # tokens with a value, before each token
        complete = n_present[stop] - n_present[start] == stop - start  # segments without missing values
        start, stop = start[complete], stop[complete]
        trie, _ = Trie.of(codes, start, stop - start, token_codes.size)
        nodes = trie.find(codes, start, stop)
        kept = np.bincount(nodes, minlength=trie.n_nodes)[nodes] >= min_count
        start, stop = start[kept], stop[kept]
        self._trie, _ = Trie.of(codes, start, stop - start, token_codes.size)  # without the strings that are rare
        ends = np.unique(self._trie.find(codes, start, stop))
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

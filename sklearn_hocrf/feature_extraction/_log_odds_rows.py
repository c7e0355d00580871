"""The log-odds that strings of training sequences are segments.   V strings (nodes of a trie), N tokens."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._data.arrays import freeze_indices, offsets_of
from ._names import FeatureNames
from ._tries import Trie


class LogOddsRows:
    """Log odds of candidate segments.   See RowBlock.

    Candidates get leave-one-out values if ``token_data`` contains the "length" of the segment that begins at each
    token.

    Parameters
    ----------
    trie : Trie
    occurrences, segments : ndarray of shape (V,)
        How often each string occurs, and how often it is a segment.
    smoothing : float
    """

    n_features = 1

    def __init__(self, trie, occurrences, segments, smoothing):
        self._trie, self._smoothing = trie, smoothing
        self._occurrences = freeze_indices(occurrences, 2**31, "counts of strings")
        self._segments = freeze_indices(segments, 2**31, "counts of segments")
        if not len(occurrences) == len(segments) == trie.n_nodes or (self._occurrences < self._segments).any():
            raise ValueError("strings cannot be segments more often than they occur")
        self.feature_names = FeatureNames.of(["log_odds"])

    def __reduce__(self):
        return LogOddsRows, (self._trie, self._occurrences, self._segments, self._smoothing)

    @classmethod
    def of(cls, strings, max_length, smoothing) -> LogOddsRows:
        """Return the features by the strings of training sequences, of at most ``max_length`` tokens."""
        sequences, max_length = (0, len(strings.offsets) - 1), min(max_length, len(strings.codes))
        start, _, left = _tokens_of(strings.offsets, *sequences)
        trie = Trie.of(strings.codes, start, np.minimum(left, max_length), len(strings.token_codes.values))
        data = strings.codes, strings.offsets, strings.lengths
        nodes, _, is_segment = _occurrences(trie, *data, sequences, max_length)
        counts = np.bincount(nodes, minlength=trie.n_nodes), np.bincount(nodes[is_segment], minlength=trie.n_nodes)
        return cls(trie, *counts, smoothing)

    def rows(self, columns, offsets, token_data, start, stop) -> sparse.csr_array:
        """Return the features of candidate segments; strings that do not occur in training have counts of 0."""
        codes = token_data["code"]
        nodes = self._trie.find(codes, start, stop)
        occurrences, segments = self._occurrences[nodes], self._segments[nodes]
        if "length" in token_data and len(start):
            sequence = np.searchsorted(offsets, start, side="right") - 1
            sequences, longest = (sequence.min(), sequence.max() + 1), (stop - start).max()
            found = _occurrences(self._trie, codes, offsets, token_data["length"], sequences, longest)
            # occurrences of one string in one sequence have one key
            keys, group = np.unique(found[1] * self._trie.n_nodes + found[0], return_inverse=True)
            own = np.searchsorted(keys, sequence * self._trie.n_nodes + nodes)
            own[nodes == 0] = len(keys)
            occurrences = occurrences - np.bincount(group, minlength=len(keys) + 1)[own]
            segments = segments - np.bincount(group[found[2]], minlength=len(keys) + 1)[own]
        values = np.log((segments + self._smoothing) / (occurrences - segments + self._smoothing))
        present = values != 0
        indptr = offsets_of(present)
        return sparse.csr_array((values[present], np.zeros(indptr[-1], np.int32), indptr), shape=(len(start), 1))


def _tokens_of(offsets, first, last):
    """Return the tokens of sequences first .. last - 1, the sequence of each, and the number of tokens left in it."""
    tokens = np.arange(offsets[first], offsets[last])
    sequence = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))
    return tokens, sequence, offsets[sequence + 1] - tokens


def _occurrences(trie, codes, offsets, lengths, sequences, longest) -> list[np.ndarray]:
    """Return the node and the sequence of each string in a range of sequences, and whether it is a segment."""
    tokens, sequence, left = _tokens_of(offsets, *sequences)
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))]
    for d, chosen, nodes in trie.walk(codes, tokens, np.minimum(left, longest)):
        found.append((nodes, sequence[chosen], lengths[tokens[chosen]] == d))
    return list(map(np.concatenate, zip(*found, strict=True)))

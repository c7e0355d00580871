"""The log-odds that strings of training sequences are segments.   V strings, N tokens."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._data.arrays import freeze_indices, offsets_of
from ._names import FeatureNames
from ._strings import fingerprints, token_numbers
from ._templates import find_keys


class LogOddsRows:
    """Log odds of candidate segments.   See RowBlock.

    Candidates get leave-one-out values if ``token_data`` contains the "length" of the segment that begins at each
    token.

    Parameters
    ----------
    strings : ndarray of shape (V,)
        Fingerprints, ascending.
    occurrences, segments : ndarray of shape (1 + V,)
        How often each string occurs, and how often it is a segment; the first elements are those of all others, 0.
    smoothing : float
    """

    n_features = 1

    def __init__(self, strings, occurrences, segments, smoothing):
        self._smoothing = smoothing
        self._strings = freeze_indices(strings, 2**63, "strings", np.int64)
        self._occurrences = freeze_indices(occurrences, 2**31, "counts of strings")
        self._segments = freeze_indices(segments, 2**31, "counts of segments")
        if not len(occurrences) == len(segments) == 1 + len(strings) or (self._occurrences < self._segments).any():
            raise ValueError("strings cannot be segments more often than they occur")
        self.feature_names = FeatureNames.of(["log_odds"])

    def __reduce__(self):
        return LogOddsRows, (self._strings, self._occurrences, self._segments, self._smoothing)

    @classmethod
    def of(cls, strings, max_length, smoothing) -> LogOddsRows:
        """Return the features by the strings of training sequences, of at most ``max_length`` tokens."""
        numbers, offsets = token_numbers(strings.column, strings.field), strings.offsets
        lengths = range(1, min(max_length, int(np.diff(offsets).max(initial=0))) + 1)
        found, _, is_segment = _occurrences(numbers, offsets, strings.lengths, (0, len(offsets) - 1), lengths)
        distinct, index = np.unique(found, return_inverse=True)
        size = 1 + len(distinct)
        occurrences, segments = (np.bincount(1 + which, minlength=size) for which in (index, index[is_segment]))
        return cls(distinct, occurrences, segments, smoothing)

    def _find(self, found) -> np.ndarray:
        """Return the number of the string with each fingerprint, from 1 on; 0 if there is none."""
        return 1 + find_keys(self._strings, found)

    def rows(self, columns, offsets, token_data, start, stop) -> sparse.csr_array:
        """Return the features of candidate segments; strings that do not occur in training have counts of 0."""
        numbers = token_data["number"]
        string = self._find(fingerprints(numbers, start, stop))
        occurrences, segments = self._occurrences[string], self._segments[string]
        if "length" in token_data and len(start):
            sequence = np.searchsorted(offsets, start, side="right") - 1
            sequences = sequence.min(), sequence.max() + 1
            found = _occurrences(numbers, offsets, token_data["length"], sequences, np.unique(stop - start))
            # occurrences of one string in one sequence have one key
            n_strings = 1 + len(self._strings)
            keys, group = np.unique(found[1] * n_strings + self._find(found[0]), return_inverse=True)
            own = np.searchsorted(keys, sequence * n_strings + string)
            own[string == 0] = len(keys)
            occurrences = occurrences - np.bincount(group, minlength=len(keys) + 1)[own]
            segments = segments - np.bincount(group[found[2]], minlength=len(keys) + 1)[own]
        values = np.log((segments + self._smoothing) / (occurrences - segments + self._smoothing))
        present = values != 0
        indptr = offsets_of(present)
        return sparse.csr_array((values[present], np.zeros(indptr[-1], np.int32), indptr), shape=(len(start), 1))


def _occurrences(numbers, offsets, lengths_at, sequences, lengths) -> list[np.ndarray]:
    """Return fingerprint and sequence of each string of some lengths in a range of sequences, and if it is a segment.

    Strings with missing values are left out. ``lengths_at`` has the length of the segment that begins at each token.
    """
    first, last = sequences
    tokens = np.arange(offsets[first], offsets[last])
    sequence = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))
    left = offsets[sequence + 1] - tokens
    found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool))]
    for length in lengths:
        start = tokens[left >= length]
        string = fingerprints(numbers, start, start + length)
        known = string >= 0
        found.append((string[known], sequence[left >= length][known], lengths_at[start[known]] == length))
    return list(map(np.concatenate, zip(*found, strict=True)))

"""Counts of all strings of training sequences, and the log-odds that they are segments.

V strings (nodes of a trie), N tokens, M candidate segments, C columns of counts: of all segments and, if labels are
distinguished, of the segments of each label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._data.arrays import freeze_indices, offsets_of
from ._merging import merge_tries
from ._names import FeatureNames
from ._tries import Trie, by_length

KINDS = ("log_odds", "log_probability")


class OccurrenceCounts(NamedTuple):
    """How often the strings of candidates occur."""

    occurrences: np.ndarray  # (M,)   anywhere
    segments: np.ndarray  # (M, C)   as a segment


class StringCounts:
    """How often each string occurs in training sequences, and how often as a segment.

    Parameters
    ----------
    trie : Trie
    occurrences : ndarray of shape (V,)
        How often each string occurs.
    row : ndarray of shape (V,)
        Row of each string in the table of segments; row 0 is for all strings that are no segments.
    segments : ndarray of shape (n_rows, C)
        How often the strings are segments, in total and by label.
    """

    def __init__(self, trie, occurrences, row, segments):
        if np.ndim(segments) != 2 or not segments.shape[1] or segments.dtype.kind not in "iu":
            raise ValueError(f"the counts of segments have shape {np.shape(segments)}")
        self._trie, self._segments, self.n_labels = trie, segments, segments.shape[1] - 1
        self._row = freeze_indices(row, len(segments), "rows of strings")
        self._occurrences = freeze_indices(occurrences, 2**31, "counts of strings")
        if not len(self._row) == len(self._occurrences) == trie.n_nodes:
            raise ValueError(f"{len(row)} rows and {len(occurrences)} counts, but {trie.n_nodes} strings")
        if (segments < 0).any() or (self._occurrences[:, None] < segments[self._row]).any():
            raise ValueError("strings cannot be segments more often than they occur")

    def __reduce__(self):
        return StringCounts, (self._trie, self._occurrences, self._row, self._segments)

    @classmethod
    def of(cls, codes, offsets, gold, max_length, n_codes, n_labels) -> StringCounts:
        """Return the counts of training sequences.

        Parameters
        ----------
        codes : ndarray of shape (N,)
            Codes of the training tokens.
        offsets : ndarray of shape (n_sequences + 1,)
            Token range of each sequence.
        gold : dict of ndarrays of shape (N,)
            "length" of the segment that begins at a token, 0 if no segment does; "label" of this segment, if labels are
            distinguished.
        max_length : int
            Maximum length of the strings to count.
        n_codes : int
        n_labels : int
            Number of labels that are distinguished.
        """
        tokens, _, left = _tokens_of(offsets, 0, len(offsets) - 1)
        trie, levels = Trie.of(codes, tokens, np.minimum(left, max_length), n_codes)
        occurrences = np.bincount(_joined(nodes for _, nodes in levels), minlength=trie.n_nodes)
        segments = [(gold["length"][chosen] == d, chosen, nodes) for d, (chosen, nodes) in enumerate(levels, start=1)]
        first_tokens = _joined(chosen[is_segment] for is_segment, chosen, _ in segments)
        nodes = _joined(nodes[is_segment] for is_segment, _, nodes in segments)
        strings, row = np.unique(nodes, return_inverse=True)
        return cls._of_segments(
            trie, occurrences, strings, _count_segments(row, first_tokens, len(strings), gold, n_labels)
        )

    @classmethod
    def _of_segments(cls, trie, occurrences, strings, segments) -> StringCounts:
        """Return the counts of all strings, of which those with the given nodes are segments."""
        row = np.zeros(trie.n_nodes, dtype=np.int32)
        row[strings] = np.arange(1, len(strings) + 1)
        return cls(trie, occurrences, row, np.insert(segments, 0, 0, axis=0).astype(np.int32))

    def merged(self, other, codes, n_codes, labels) -> StringCounts:
        """Return the sums of both; ``codes`` are MergedIds for the codes of each part, ``labels`` for its labels."""
        trie, nodes = merge_tries(self._trie, other._trie, codes, n_codes)
        n_labels = int(np.concatenate(labels).max(initial=-1)) + 1
        tables = []
        for part, of_label in zip((self, other), labels, strict=True):
            table = np.zeros((len(part._row), 1 + n_labels), dtype=np.int64)
            table[:, np.append(0, 1 + of_label)] = part._segments[part._row]
            tables.append(table)
        segments = nodes.add_up(tables[0], tables[1], trie.n_nodes)
        strings = np.flatnonzero(segments[:, 0])
        occurrences = nodes.add_up(self._occurrences, other._occurrences, trie.n_nodes)
        return StringCounts._of_segments(trie, occurrences, strings, segments[strings])

    def find(self, codes, start, stop) -> OccurrenceCounts:
        """Return the counts for candidate segments; strings that do not occur in training have counts of 0."""
        return self._of_nodes(self._trie.find(codes, start, stop))

    def _of_nodes(self, nodes):
        return OccurrenceCounts(self._occurrences[nodes], self._segments[self._row[nodes]])

    def find_elsewhere(self, codes, offsets, gold, start, stop) -> OccurrenceCounts:
        """Return the counts for candidates of training sequences, without counts from the candidate's own sequence.

        ``codes``, ``offsets`` and ``gold`` describe the given sequences.
        """
        nodes = np.zeros(len(start), dtype=np.int64)
        own = OccurrenceCounts(
            np.zeros(len(start), dtype=np.int32), np.zeros((len(start), 1 + self.n_labels), dtype=np.int32)
        )
        if not len(start):
            return own
        candidate_sequence = np.searchsorted(offsets, start, side="right") - 1
        tokens, sequence, left = _tokens_of(offsets, candidate_sequence.min(), candidate_sequence.max() + 1)
        order, bounds = by_length(stop - start, self._trie.depth)
        position = np.empty(len(tokens), dtype=np.int64)
        for d, chosen, string_nodes in self._trie.walk(codes, tokens, np.minimum(left, (stop - start).max())):
            # occurrences of one string in one sequence are a group
            key = (sequence[chosen] - sequence[0]) * self._trie.n_nodes + string_nodes
            _, group, sizes = np.unique(key, return_inverse=True, return_counts=True)
            position[:] = -1
            position[chosen] = np.arange(len(chosen))
            candidates = order[bounds[d - 1] : bounds[d]]
            at = position[start[candidates] - tokens[0]]
            candidates, at = candidates[at >= 0], at[at >= 0]
            nodes[candidates] = string_nodes[at]
            own.occurrences[candidates] = sizes[group[at]]
            is_segment = gold["length"][tokens[chosen]] == d
            first_tokens = tokens[chosen[is_segment]]
            segments = _count_segments(group[is_segment], first_tokens, len(sizes), gold, self.n_labels)
            own.segments[candidates] = segments[group[at]]
        everywhere = self._of_nodes(nodes)
        return OccurrenceCounts(everywhere.occurrences - own.occurrences, everywhere.segments - own.segments)


def _joined(arrays) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])  # arrays may be empty


def _tokens_of(offsets, first, last):
    """Return the tokens of sequences first .. last - 1, the sequence of each, and the number of tokens left in it."""
    tokens = np.arange(offsets[first], offsets[last])
    sequence = np.repeat(np.arange(first, last), np.diff(offsets[first : last + 1]))
    return tokens, sequence, offsets[sequence + 1] - tokens


def _count_segments(row, first_tokens, n_rows, gold, n_labels) -> np.ndarray:
    """Return the number of segments of each row, in total and by label; shape (n_rows, 1 + n_labels)."""
    table = np.empty((n_rows, 1 + n_labels), dtype=np.int64)
    table[:, 0] = np.bincount(row, minlength=n_rows)
    if n_labels:
        cell = row * n_labels + gold["label"][first_tokens]
        table[:, 1:] = np.bincount(cell, minlength=n_rows * n_labels).reshape(n_rows, n_labels)
    return table


class LogOddsRows:
    """Log odds and log probabilities of candidate segments.   See RowBlock.

    Candidates get leave-one-out values if ``token_data`` contains the training segmentation: "length", and "label" if
    labels are distinguished.

    Parameters
    ----------
    counts : StringCounts
    labels : list
        The labels that are distinguished.
    kinds : tuple of str
    smoothing : float
    """

    def __init__(self, counts, labels, kinds, smoothing):
        self._counts = counts
        self._kinds = kinds
        self._smoothing = smoothing
        columns = ["", *(f"={label}" for label in labels)]
        self.feature_names = FeatureNames.of([kind + column for kind in kinds for column in columns])
        self.n_features = len(self.feature_names)

    def rows(self, columns, offsets, token_data, start, stop) -> sparse.csr_array:
        """Return the features of candidate segments."""
        if "length" in token_data:
            counts = self._counts.find_elsewhere(token_data["code"], offsets, token_data, start, stop)
        else:
            counts = self._counts.find(token_data["code"], start, stop)
        values = np.concatenate([self._values(kind, *counts) for kind in self._kinds], axis=1)
        present = values != 0
        indptr = offsets_of(present.sum(axis=1))
        return sparse.csr_array((values[present], np.nonzero(present)[1], indptr), shape=values.shape)

    def _values(self, kind, occurrences, segments):
        if kind == "log_odds":
            not_segments = occurrences[:, None] - segments
            return np.log((segments + self._smoothing) / (not_segments + self._smoothing))
        return np.log((segments + self._smoothing) / (occurrences[:, None] + 2 * self._smoothing))

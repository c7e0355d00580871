"""Patterns of labelled sequences that extend other patterns by one label to the left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .patterns import is_frequent
from .weighted_arcs import CompiledPatterns, label_arcs, suffix_patterns

__all__ = ["Extensions", "LabelledSequences", "left_extensions"]


class LabelledSequences(NamedTuple):
    """Labels whose patterns are counted.   N labels, S sequences."""

    codes: np.ndarray  # (N,) int32
    offsets: np.ndarray  # (S + 1,) int64   range of each sequence
    sequence_weight: np.ndarray  # (S,)   weight for ``min_count``; 0 leaves the sequence out
    objective_weight: np.ndarray  # (S,)   weight in training
    min_count: float  # patterns that occur less often are left out; see ``is_frequent``


class Extensions(NamedTuple):
    """Patterns of one length.   M patterns."""

    codes: np.ndarray  # (M, length) int32
    suffix: np.ndarray  # (M,) int64   row of the table for the pattern without its first label
    counts: np.ndarray  # (M,) float64   weighted as in training


def left_extensions(
    compiled: CompiledPatterns, extended: np.ndarray, order: int, data: LabelledSequences
) -> Extensions:
    """Return the frequent patterns of an order that extend patterns of a table by one label to the left.

    Parameters
    ----------
    compiled : CompiledPatterns
        Z patterns.
    extended : ndarray of shape (Z,), bool
        Patterns to extend; only entries for patterns of ``order`` labels are read.
    order : int
        Order of the extensions, at least 1.
    data : LabelledSequences

    Returns
    -------
    Extensions

    Examples
    --------
    >>> from sklearn_hocrf._structure.patterns import given_patterns
    >>> from sklearn_hocrf._structure.weighted_arcs import compile_patterns
    >>> data = LabelledSequences(
    ...     np.array([0, 1, 1, 0, 1], dtype=np.int32),
    ...     np.array([0, 5]),
    ...     np.ones(1),
    ...     np.ones(1),
    ...     1,
    ... )
    >>> found = left_extensions(
    ...     compile_patterns(given_patterns([], 2)), np.array([False, True]), 1, data
    ... )
    >>> found.codes.tolist(), found.counts.tolist()
    ([[0, 1], [1, 1]], [2.0, 1.0])
    """
    n_labels, lengths = compiled.patterns.n_labels, np.diff(data.offsets)
    position = np.arange(len(data.codes)) - np.repeat(data.offsets[:-1], lengths)
    counted = np.repeat(data.sequence_weight, lengths)
    arcs = label_arcs(compiled.automaton, data.offsets, data.codes)
    rows = suffix_patterns(compiled.automaton, arcs, order - 1)
    ends = np.flatnonzero((rows >= 0) & (position >= order) & (counted > 0))
    ends = ends[extended[rows[ends]]]
    keys = rows[ends].astype(np.int64) * n_labels + data.codes[ends - order]
    keys, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    kept = is_frequent(np.bincount(inverse, weights=counted[ends], minlength=len(keys)), data.min_count)
    weight = np.repeat(data.objective_weight, lengths)[ends]
    counts = np.bincount(inverse, weights=weight, minlength=len(keys))
    examples = ends[first[kept]]
    return Extensions(data.codes[examples[:, None] + np.arange(-order, 1)], keys[kept] // n_labels, counts[kept])

"""Label patterns: the runs of consecutive labels that have a weight (JMLR 15, section 2.2).

A pattern of length ``k + 1`` has order ``k``. Patterns are rows of label codes, sorted by length and then by codes. All
single labels are patterns, even if they do not occur, and come first.

With the history "segments", a pattern consists of the labels of segments, which are maximal runs of equal labels. No
two neighbouring labels of a pattern are equal, and the pattern occurs at the first token of its last segment. The
exception is a pair of equal labels, which stands for *staying* in a segment: it occurs at each token that continues a
segment of this label. No other pattern of two or more labels occurs at such a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..._data.arrays import freeze, freeze_indices, offsets_of
from ..._data.segments import cut_segments

HISTORIES = TOKENS, SEGMENTS = "tokens", "segments"
_MOST_PATTERNS = 1_000_000
Runs: TypeAlias = Iterable[tuple[int, ...]]  # of label codes


class PatternTable(NamedTuple):
    """Sorted label patterns.   Z patterns."""

    labels: np.ndarray  # (Z, longest) int32   label codes, right-aligned; -1 on the left of shorter patterns
    lengths: np.ndarray  # (Z,) int32   number of labels, at least 1
    history: str = TOKENS  # whether the labels belong to tokens or to segments

    def tuples(self) -> list[tuple[int, ...]]:
        """Return the patterns as tuples of label codes."""
        longest = self.labels.shape[1]
        return [tuple(row[longest - n :]) for row, n in zip(self.labels.tolist(), self.lengths.tolist(), strict=True)]

    @property
    def n_labels(self) -> int:
        """Number of labels, each of which is a pattern."""
        return int((self.lengths == 1).sum())

    def checked(self) -> PatternTable:
        """Return the table with read-only arrays, or raise a ValueError if the table is invalid."""
        labels = np.asarray(self.labels)
        longest = labels.shape[1] if labels.ndim == 2 and labels.dtype.kind in "iu" else 0
        lengths = freeze_indices(self.lengths, longest + 1, "lengths of label patterns", start=1)
        if not longest or len(labels) != len(lengths) or lengths.max(initial=0) != longest:
            raise ValueError(f"label patterns of shape {labels.shape} do not match {len(lengths)} lengths")
        if not isinstance(self.history, str) or self.history not in HISTORIES:
            raise ValueError(f"the history of label patterns must be one of {HISTORIES}, got {self.history!r:.60}")
        table = PatternTable(freeze(labels, np.int32), lengths, self.history)
        is_label = np.arange(longest) >= longest - lengths[:, None]
        if (labels < np.where(is_label, 0, -1)).any() or (labels >= np.where(is_label, table.n_labels, 0)).any():
            raise ValueError(f"labels of patterns must lie in [0, {table.n_labels}), with -1 before shorter ones")
        steps = np.diff(np.column_stack([lengths, labels]), axis=0)  # the first nonzero difference determines the order
        if (steps[np.arange(len(steps)), (steps != 0).argmax(axis=1)] <= 0).any():
            raise ValueError("label patterns must be sorted, by length and then by labels, without duplicates")
        longer = labels[lengths > 2]
        if self.history == SEGMENTS and ((longer[:, 1:] == longer[:, :-1]) & (longer[:, 1:] >= 0)).any():
            raise ValueError("patterns of segments must not have equal neighbours")
        return table

    def are_pairs(self) -> np.ndarray:
        """Return whether each pattern is a pair of equal labels within one segment; shape (Z,)."""
        if self.labels.shape[1] < 2 or self.history == TOKENS:
            return np.zeros(len(self.lengths), bool)
        return (self.lengths == 2) & (self.labels[:, -2] == self.labels[:, -1])

    def subset(self, kept: np.ndarray) -> PatternTable:
        """Return the patterns that a mask of shape (Z,) selects."""
        lengths = self.lengths[kept]
        return PatternTable(np.ascontiguousarray(self.labels[kept][:, -lengths.max() :]), lengths, self.history)


class PatternCounts(NamedTuple):
    """Patterns of two or more labels in training labels, and their counts, by order.   N tokens.

    Each pattern is represented by an example, a run of ``codes``, so the size of the pattern table is known before the
    table is created.
    """

    codes: np.ndarray  # (N,) int32   label codes
    ends: list[np.ndarray]  # for each order from 1: the last token of one occurrence of each pattern
    counts: list[np.ndarray]  # for each order: weighted counts
    history: str = TOKENS

    def rows(self, order: int) -> np.ndarray:
        """Return the labels of the patterns of an order, sorted; shape (n_patterns, order + 1)."""
        return self.codes[self.ends[order - 1][:, None] + np.arange(-order, 1)]

    @classmethod
    def of_tables(
        cls, tables: Sequence[np.ndarray], counts: Iterable[np.ndarray], history: str = TOKENS
    ) -> PatternCounts:
        """Return the patterns and counts of tables with sorted rows, one table per order from 1."""
        stops = offsets_of([table.size for table in tables])[1:]
        ends = [
            stop - 1 - length * np.arange(len(table))[::-1]
            for stop, length, table in zip(stops, range(2, len(tables) + 2), tables, strict=True)
        ]
        codes = np.concatenate([np.empty(0, np.int32), *(table.ravel() for table in tables)])
        return cls(codes, ends, list(counts), history)

    def compact(self) -> PatternCounts:
        """Return the same patterns and counts with only the tokens of the examples, for transfer to another process."""
        orders = range(1, len(self.ends) + 1)
        return self.of_tables([self.rows(order) for order in orders], self.counts, self.history)

    def merged(self, other: PatternCounts) -> PatternCounts:
        """Return the patterns of both objects, with summed counts."""
        tables, counts = [], []
        for order in range(1, max(len(self.ends), len(other.ends)) + 1):
            parts = [part for part in (self, other) if order <= len(part.ends)]
            rows = np.concatenate([part.rows(order) for part in parts])
            table, row_id = np.unique(rows, axis=0, return_inverse=True)
            tables.append(table)
            weights = np.concatenate([part.counts[order - 1] for part in parts])
            counts.append(np.bincount(row_id.ravel(), weights=weights, minlength=len(table)))
        return self.of_tables(tables, counts, self.history)

    def frequent(
        self, n_labels: int, min_count: float = 1, announce: Callable[[int, int], None] | None = None
    ) -> PatternTable:
        """Return the table of all single labels and of the patterns that occur often enough.

        Parameters
        ----------
        n_labels : int
            Number of labels L; all L single labels are patterns.
        min_count : float
            Patterns of two or more labels that occur less often are left out; see :func:`is_frequent`.
        announce : callable or None
            Called as ``announce(n_patterns, longest)`` before the table, which may be large, is created.
        """
        kept = [is_frequent(counts, min_count) for counts in self.counts]
        n_orders = max([order for order, chosen in enumerate(kept, 1) if chosen.any()], default=0)
        if announce is not None:
            announce(n_labels + sum(int(chosen.sum()) for chosen in kept), 1 + n_orders)
        frequent = self._replace(ends=[ends[chosen] for ends, chosen in zip(self.ends, kept, strict=True)])
        longer = map(frequent.rows, range(1, n_orders + 1))
        return _stack([np.arange(n_labels, dtype=np.int32)[:, None], *longer], self.history)


def count_patterns(
    codes: np.ndarray,
    offsets: np.ndarray,
    n_labels: int,
    max_order: int,
    min_count: float = 1,
    sequence_weight: np.ndarray | None = None,
    history: str = TOKENS,
) -> PatternCounts:
    """Count the patterns of two or more labels in training labels, up to ``max_order``.

    Parameters
    ----------
    codes : ndarray of shape (N,), int32
        Label codes of all tokens.
    offsets : ndarray of shape (n_sequences + 1,), int64
        Token range of each sequence.
    n_labels : int
    max_order : int
        Highest order; patterns contain up to ``max_order + 1`` labels.
    min_count : float
        Patterns that occur less often are left out (see :func:`is_frequent`), as are all their extensions, which cannot
        occur more often. Use 1 for counts that will be merged, because only their sums determine which patterns are
        rare.
    sequence_weight : ndarray of shape (n_sequences,) or None
        Weight of each sequence; sequences of weight 0 are ignored.
    history : {"tokens", "segments"}
        With "segments", the function counts pairs of equal labels within segments, and patterns of the labels of
        successive segments.

    Returns
    -------
    PatternCounts
    """
    if history == SEGMENTS:
        segments = cut_segments(codes[1:] != codes[:-1], codes, offsets)
        weight = None if sequence_weight is None else np.repeat(sequence_weight, np.diff(segments.offsets))
        bounds = np.append(segments.start, len(codes))
        pairs = count_patterns(codes, bounds, n_labels, min(max_order, 1), min_count, weight)
        each = segments.codes, segments.offsets, n_labels
        return pairs.merged(count_patterns(*each, max_order, min_count, sequence_weight))._replace(history=history)
    lengths = np.diff(offsets)
    weight = None if sequence_weight is None else np.repeat(sequence_weight, lengths)
    begins = np.zeros(len(codes), dtype=bool)
    begins[offsets[:-1][lengths > 0]] = True
    patterns = PatternCounts(codes, [], [])
    # id, among patterns of the same length, of the pattern that ends at each token; -1 if there is none
    ids = np.where(True if weight is None else weight > 0, codes, -1).astype(np.int32)
    for _ in range(max_order):
        ends = np.flatnonzero(~begins[1:] & (ids[:-1] >= 0)) + 1
        # prefix ids are in lexicographic order, so the keys of their extensions are, too
        keys = ids[ends - 1] * np.int64(n_labels) + codes[ends]
        _, first, key_id = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.bincount(key_id, None if weight is None else weight[ends], len(first)).astype(np.float64)
        kept = is_frequent(counts, min_count)
        if not kept.any():
            break
        patterns.ends.append(ends[first[kept]])
        patterns.counts.append(counts[kept])
        ids = np.full(len(codes), -1, dtype=np.int32)
        ids[ends] = np.where(kept, np.cumsum(kept) - 1, -1)[key_id]
    return patterns


def all_patterns(n_labels: int, max_order: int, history: str = TOKENS) -> PatternTable:
    """Return all patterns up to order ``max_order`` over ``n_labels`` labels.

    With a history of segments, patterns of three or more labels have no equal neighbours.

    Raises
    ------
    ValueError
        If there are more than a million patterns.
    """
    n_next = n_labels if history == TOKENS else n_labels - 1  # after each label, except pairs of equal labels
    total = n_labels if history == TOKENS or not max_order else 2 * n_labels
    rows = codes = np.arange(n_labels, dtype=np.int32)[:, None]
    tables = [rows]
    for length in range(2, max_order + 2):
        total += len(rows) * n_next
        if total > _MOST_PATTERNS:
            raise ValueError(
                f"patterns='all' makes more than {_MOST_PATTERNS:,} patterns of {n_labels} labels up to "
                f'max_order={max_order}; use patterns="observed", or max_order=1 for all pairs'
            )
        rows = np.hstack([np.repeat(rows, len(codes), axis=0), np.tile(codes, (len(rows), 1))])
        differs = (rows[:, -2] != rows[:, -1]) | (history == TOKENS)
        tables.append(rows if length == 2 else rows[differs])
        rows = rows[differs]
    return _stack([table for table in tables if len(table)], history)


def given_patterns(patterns: Iterable[Sequence[int]], n_labels: int, history: str = TOKENS) -> PatternTable:
    """Return the table of the given tuples of label codes and of all single labels, without duplicates."""
    by_length: dict[int, set] = {1: {(y,) for y in range(n_labels)}}
    for pattern in patterns:
        by_length.setdefault(len(pattern), set()).add(tuple(pattern))
    return _stack([np.array(sorted(by_length[n]), dtype=np.int32) for n in sorted(by_length)], history)


def has_equal_neighbours(run: Sequence[Any]) -> bool:
    """Return whether a run has three or more labels and equal neighbours, which runs of segments must not have."""
    return len(run) > 2 and any(left == right for left, right in pairwise(run))


def without_equal_neighbours(patterns: PatternTable) -> PatternTable:
    """Return the patterns in which no label follows itself."""
    return patterns.subset(~contain_any(patterns.labels, pairs_of_equals(patterns.n_labels)))


def contain_any(rows: np.ndarray, runs: Iterable[Sequence[int]]) -> np.ndarray:
    """Return whether each row of label codes contains any of the runs; -1 is not a label; shape (len(rows),).

    Examples
    --------
    >>> contain_any(np.array([[-1, 0, 1], [1, 0, 0]]), [(0, 1)])
    array([ True, False])
    """
    matches = np.zeros(len(rows), dtype=bool)
    by_length: dict[int, list] = {}
    for run in runs:
        by_length.setdefault(len(run), []).append(run)
    for length, group in by_length.items():
        if length <= rows.shape[1]:
            windows = sliding_window_view(rows, length, axis=1)
            every = np.concatenate([np.array(group), windows.reshape(-1, length)])
            row_id = np.unique(every, axis=0, return_inverse=True)[1].ravel()
            is_given = np.isin(row_id[len(group) :], row_id[: len(group)])
            matches |= is_given.reshape(len(rows), -1).any(axis=1)
    return matches


def checked_forbidden(forbidden: Iterable[Sequence[int]], n_codes: int) -> tuple[tuple[int, ...], ...]:
    """Return the distinct forbidden runs of two or more label codes, sorted; raise a ValueError if a run is invalid."""
    runs = set()
    for run in forbidden:
        is_run = isinstance(run, (tuple, list)) and len(run) > 1
        if not is_run or not all(isinstance(y, Integral) and 0 <= y < n_codes for y in run):
            raise ValueError(f"a forbidden run must have two or more labels in [0, {n_codes}), got {run!r:.80}")
        runs.add(tuple(map(int, run)))
    return tuple(sorted(runs, key=lambda run: (len(run), run)))


def pairs_of_equals(n_labels: int) -> tuple[tuple[int, int], ...]:
    """Return all pairs of equal labels, which are the runs to forbid if no label may follow itself."""
    return tuple((label, label) for label in range(n_labels))


def is_frequent(counts: np.ndarray, min_count: float) -> np.ndarray:
    """Return whether each weighted count is at least ``min_count``, or positive if ``min_count`` is at most 1."""
    return counts >= min_count if min_count > 1 else counts > 0


def _stack(tables: Sequence[np.ndarray], history: str) -> PatternTable:
    """Stack blocks of patterns of equal length into one right-aligned table."""
    longest = max(table.shape[1] for table in tables)
    labels = np.full((sum(map(len, tables)), longest), -1, dtype=np.int32)
    lengths = np.empty(len(labels), dtype=np.int32)
    first = 0
    for table in tables:
        rows = slice(first, first + len(table))
        labels[rows, longest - table.shape[1] :] = table
        lengths[rows] = table.shape[1]
        first = rows.stop
    return PatternTable(labels, lengths, history)

"""Parts of labels: weights with features that count for every label with the part.

A part is a row of weights, like a label pattern. Its score columns are computed like the columns of a label; their
scores are then added to the columns of the labels that have the part, and its marginals are the sums of the labels'
marginals. Thus inference itself does not deal with parts.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy import sparse

from ..._data.arrays import freeze_all, freeze_all_indices, joined_ranges, offsets_of
from .weighted_arcs import CompiledPatterns, suffix_patterns


class LabelParts(NamedTuple):
    """Which parts each label has.   L labels, S parts."""

    starts: np.ndarray  # (L + 1,) int64   range of each label's parts
    parts: np.ndarray  # int32   ascending within a label
    n_parts: int

    @classmethod
    def none(cls, n_labels: int) -> Self:
        """Return the object for labels without parts."""
        starts, parts = freeze_all((np.zeros(n_labels + 1), np.empty(0)), np.int64, np.int32)
        return cls(starts, parts, 0)

    def checked(self, n_labels: int) -> LabelParts:
        """Return the same with read-only arrays, or raise a ValueError if it points outside."""
        parts, starts = freeze_all_indices(
            (self.parts, self.n_parts, "parts of labels"),
            (self.starts, len(self.parts) + 1, "ranges of the parts of labels", np.int64),
        )
        if len(starts) != n_labels + 1 or (starts[0], starts[-1]) != (0, len(parts)) or (np.diff(starts) < 0).any():
            raise ValueError(f"{len(starts) - 1} ranges of parts do not match {n_labels} labels")
        return LabelParts(starts, parts, int(self.n_parts))

    def equal(self, other: LabelParts) -> bool:
        """Return whether labels have the same parts."""
        return self.n_parts == other.n_parts and all(map(np.array_equal, self[:2], other[:2]))

    def matrix(self) -> sparse.csr_array:
        """Return the 0/1 matrix of shape (L, S) of labels and their parts."""
        shape = len(self.starts) - 1, self.n_parts
        return sparse.csr_array((np.ones(len(self.parts)), self.parts, self.starts), shape=shape)

    def labels(self) -> np.ndarray:
        """Return the label of each entry of ``parts``."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class PartLinks(NamedTuple):
    """The parts of labels by their ids in a table, for kernels.   L labels, M parts in the table."""

    starts: np.ndarray  # (L + 1,) int64
    ids: np.ndarray  # int32   of the parts of each label
    members: np.ndarray  # (M,) int32   of all parts


def link_parts(parts: LabelParts, ids: np.ndarray) -> PartLinks:
    """Return the links of labels to parts, given the id of each part; -1 for parts that the table lacks."""
    ids = np.asarray(ids)
    of_label = ids[parts.parts]
    starts = offsets_of(of_label >= 0)[parts.starts]
    of_label, members = of_label[of_label >= 0], ids[ids >= 0]
    return PartLinks(*freeze_all((starts, of_label, members), np.int64, np.int32, np.int32))


class Endings(NamedTuple):
    """The rows of weights that count at units, which are tokens or segments.   M units."""

    starts: np.ndarray  # (M + 1,) int64   range of each unit's rows
    rows: np.ndarray  # patterns, and parts beyond them

    def of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the concatenated rows of some units, and for each row the index of its unit in ``units``."""
        first, stop = self.starts[units], self.starts[np.asarray(units) + 1]
        return np.repeat(np.arange(len(first)), stop - first), self.rows[joined_ranges(first, stop)]

    def part(self, first: int, last: int) -> Endings:
        """Return the rows of the units first .. last - 1."""
        starts = self.starts[first : last + 1]
        return Endings(starts - starts[0], self.rows[starts[0] : starts[-1]])

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of a unit and a row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)), self.rows


def endings(compiled: CompiledPatterns, parts: LabelParts, arcs: np.ndarray, order: int) -> Endings:
    """Return the rows of an order that count at units which use given arcs.

    These are the pattern of that order, if there is one, and at order 0 the parts of the label.
    """
    pattern = suffix_patterns(compiled.automaton, arcs, order)
    unit = np.flatnonzero(pattern >= 0)
    return with_parts(compiled, parts, order, unit, pattern[unit], len(arcs))


def with_parts(
    compiled: CompiledPatterns, parts: LabelParts, order: int, unit: np.ndarray, row: np.ndarray, n_units: int
) -> Endings:
    """Return the patterns of an order that count at units, which ascend; for order 0, with the parts of the labels."""
    if order == 0 and parts.n_parts:
        label, part = Endings(parts.starts, parts.parts).of(row)
        unit = np.concatenate([unit, unit[label]])
        row = np.concatenate([row, len(compiled.patterns.lengths) + part])
        row = row[np.argsort(unit, kind="stable")]
    return Endings(offsets_of(np.bincount(unit, minlength=n_units)), row)

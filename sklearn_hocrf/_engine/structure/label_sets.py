"""Sets of labels in training data: what they count.

A set counts like each of its labels. A pattern counts once wherever its labels may stand one after the other: each in
the set of its position, and no two neighbours forbidden.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..._data.segments import LabelSets, Segments
from .label_parts import Endings, LabelParts, with_parts
from .patterns import PatternCounts, Runs, TagHistory
from .weighted_arcs import CompiledPatterns


class SetSequences(NamedTuple):
    """Sequences of units with sets of labels, and the labels that may follow each other."""

    sets: LabelSets
    units: Segments  # sorted by start, with the length 1 for tokens; possible segments may overlap
    tags: TagHistory
    forbidden: Runs  # of label codes

    def patterns(self, max_order: int) -> Iterator[tuple[int, set[tuple[int, ...]]]]:
        """Yield each unit, with the patterns of two to ``max_order + 1`` labels that may end with it."""
        stays, begins = self._steps()
        labels, ranges, codes = self.sets.codes.tolist(), self.sets.starts.tolist(), self.tags.codes
        starts, stops = self.units.start.tolist(), self.units.stop.tolist()
        for first, last in pairwise(self.units.offsets.tolist()):
            reached: dict[int, dict[int, set]] = {}  # by token and last label: patterns of the units that stop there
            before: dict[int, set] = {}
            for unit in range(first, last):
                if unit == first or starts[unit] > starts[unit - 1]:
                    before = reached.pop(starts[unit], {})
                here, ended = reached.setdefault(stops[unit], {}), set[tuple[int, ...]]()
                for label in labels[ranges[unit] : ranges[unit + 1]]:
                    going_on = here.setdefault(label, set())
                    going_on.add((codes[label],))
                    for left, patterns in before.items() if max_order else ():
                        if stays[left, label]:
                            ended.add((left, label))
                            going_on |= patterns
                        elif begins[left, label]:
                            longer = {(*pattern, codes[label]) for pattern in patterns}
                            ended |= longer
                            going_on |= {pattern for pattern in longer if len(pattern) <= max_order}
                yield unit, ended

    def _steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which labels may continue the segments of others, and which may begin one after others; (L, L)."""
        every = np.arange(len(self.tags.codes))
        stays, begins = (follows(every[:, None], every) for follows in (self.tags.stay, self.tags.border))
        for run in self.forbidden:
            if len(run) == 2:
                stays[run] = begins[run] = False
        return stays, begins

    def count_patterns(
        self, max_order: int, min_count: float, sequence_weight: np.ndarray | None, history: str | TagHistory
    ) -> PatternCounts:
        """Count patterns, as :func:`~sklearn_hocrf._engine.structure.patterns.count_patterns` does for single labels.

        ``min_count`` leaves none out: where segments have no known end, longer patterns may occur more often.
        """
        sizes = np.diff(self.units.offsets)
        weight = np.repeat(np.ones(len(sizes)) if sequence_weight is None else sequence_weight, sizes).tolist()
        counts: dict[tuple[int, ...], float] = defaultdict(float)
        for unit, patterns in self.patterns(max_order):
            for pattern in patterns:
                counts[pattern] += weight[unit]
        tables = [sorted(pattern for pattern in counts if len(pattern) == n) for n in range(2, max_order + 2)]
        rows = [np.array(table, np.int32).reshape(-1, n) for n, table in enumerate(tables, 2)]
        return PatternCounts.of_tables(rows, [np.array([counts[z] for z in table]) for table in tables], history)

    def endings(self, compiled: CompiledPatterns, parts: LabelParts, order: int) -> Endings:
        """Return the rows of an order that count at each unit, as ``endings`` does for single labels."""
        n_units = len(self.sets.sizes)
        unit, row = np.repeat(np.arange(n_units), self.sets.sizes), self.sets.codes
        if order > 0:
            row_of = {z: row for row, z in enumerate(compiled.patterns.tuples()) if len(z) == order + 1}
            found = [(unit, row_of[z]) for unit, ended in self.patterns(order) for z in ended if z in row_of]
            unit, row = np.array(found, np.int64).reshape(-1, 2).T
        return with_parts(compiled, parts, order, unit, row, n_units)

"""Passes of high-order semi-Markov CRFs over their tables.

For each token, the tables contain one number per state, span arc, score column and cell. A cell is a pair of a scored
pattern and a length; its number is first the score, and later the probability, of the candidate segment that ends with
the token.

For segments of any length, the passes are those of a chain of aged labels.

The layout of weights, the labellings and the queries are the same as for other segments. The tables are those of
:mod:`.chain`, for the columns of an ``AgedLayout``: time and memory are proportional to the number of tokens, whatever
the lengths of segments.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from ..._data.arrays import cached_property, freeze, freeze_all
from ..._data.batch import SequenceBatch
from ..._data.segments import END_OF_SEGMENT, NO_LIMIT, Channel, Mask, Segments, sorted_segments
from ..kernels import _vectors, choices, segment, segment_scores, token_scores
from ..kernels._vectors import LANES
from ..kernels.tag_segments import Tags
from ..structure.segment_ages import AgedLayout, aged, tails, what_needs_lengths
from ..structure.segment_layout import LengthEntries, SegmentIndex, SegmentLayout
from .chain import ChainDecodePass, ChainPass, ChainPlan
from .minibatches import SegmentMinibatches
from .model import Model
from .passes import BasePass, DecodePass, MarginalPass
from .posterior import LanePosterior, by_first_token
from .schedule import Plan, Schedule, Task, Tile, lanes_of


class SegmentPlan(Plan):
    """The plan of a batch for semi-Markov CRFs of one layout, with the features of candidate segments for kernels."""

    layout: SegmentLayout
    lane: SegmentLane | None = None  # of plans for single short sequences
    has_tails = False  # whether the cells beyond the highest lengths belong to tokens of tails

    default_schedule = Schedule(
        tile_sizes=(1 << 17, 1 << 17),  # 1 MiB of doubles
        tile_rows=0,
        cut_size=math.inf,  # a segment needs the tables of all positions before its end
        single_sequence_size=1 << 26,
        long_call=1 << 24,  # about 50 ms
    )

    def _read_features(self, batch: SequenceBatch) -> None:
        super()._read_features(batch)
        self.candidates = self.layout.candidate_features(batch)

    def _read(self) -> None:
        layout = self.layout
        index, entries = layout.length_tables(int(self.lengths.max(initial=0)))
        self.shortest = freeze(np.empty(0) if layout.shortest is None else layout.shortest, np.int64)
        self._size(index, entries, 3 * layout.automaton.n_states)

    def _size(self, index: SegmentIndex, entries: LengthEntries, of_states: int) -> None:
        """Set the tables of segment scores, and the resulting sizes; ``of_states`` is the row size for states."""
        self.segment_index, self.length_entries = index, entries
        self.n_varying, self.n_spans, self.n_cells = self.layout.n_varying, len(index.span_arc), index.n_cells
        self.n_longest = int(index.longest.max())
        self.n_counted_lengths = self.n_cells if len(entries.cell) else 0
        self.row_size = of_states + 2 * self.n_spans + self.layout.pairs.n_columns + self.n_varying + self.n_cells
        self.work_per_token = 4 * self.row_size

    def prepare_lane(self, model: Any) -> None:
        self.lane = SegmentLane(model, self) if self.n_tokens else None

    @property
    def table_sizes(self) -> dict[str, int]:
        """The row size of each table of a tile."""
        n_states, n_spans = self.layout.automaton.n_states, self.n_spans
        of_scores = self.layout.pairs.n_columns, self.n_cells, self.n_varying, n_states, n_spans, n_states
        sizes = *of_scores, 1, 1, n_states, n_spans, n_states if self.has_tails else 0
        return dict(zip(segment.SegmentTables._fields, sizes, strict=True))

    @property
    def scratch_sizes(self) -> tuple[int, ...]:
        """The size of each array of a :class:`SegmentScratch`, per lane."""
        network, n_states, n_longest = self.layout.network, self.layout.automaton.n_states, self.n_longest
        n_adjoints = self.layout.automaton.n_arcs + len(network.back_starts) - 1
        sizes = n_states + len(network.starts) - 1, n_adjoints, self.n_varying
        return (*sizes, n_states * (3 if self.has_tails else 1), n_longest + 1, self.n_spans * n_longest)

    def score_segments(self, lane_kind: Any, tile: Tile, weights: tuple, constants: np.ndarray, tables: tuple) -> None:
        """Write the scores of candidate segments to the cells in ``tables``, from the scores of tokens and lengths."""
        index, candidates, cells = self.segment_index, self.candidates, tables[1]
        segment_scores.assemble(lane_kind, index, tile, constants, *tables)
        if len(candidates.length):  # a kernel that is not called need not be compiled
            segment_scores.sum_candidates(candidates, self.layout.pairs, index, tile, cells, *weights, None, None)

    def forbid_segments(self, tile: Tile, cells: np.ndarray) -> None:
        """Exclude candidate segments that the mask forbids, and those that are too short."""
        if self.mask is not None:
            segment_scores.forbid_segments(self.segment_index, tile, *self.mask, cells)
        if len(self.shortest):
            segment_scores.forbid_short(self.segment_index, tile, self.shortest, cells)

    @cached_property
    def length_weights(self) -> tuple[np.ndarray, np.ndarray]:
        """The indices of length and token weights, and the position of each length entry's weight among them."""
        return np.unique(self.length_entries.weight, return_inverse=True)

    def length_scores(self, weights: tuple[np.ndarray, ...]) -> np.ndarray:
        """Return the scores of lengths and tokens by cell, and their derivatives if any, for kernels; shape (E, 2)."""
        (cells, weight_ids, values), scores = self.length_entries, np.zeros((self.n_cells, 2))
        for part, of_pairs in enumerate(weights if len(cells) else ()):
            scores[:, part] = np.bincount(cells, values * of_pairs[weight_ids], self.n_cells)
        return freeze(scores, np.float64)

    def add_length_counts(self, lengths: np.ndarray, gradient: np.ndarray) -> None:
        if len(lengths):
            (cells, _, values), (weights, of_entry) = self.length_entries, self.length_weights
            gradient[weights] += np.bincount(of_entry, values * lengths[cells], len(weights))


class _SegmentBasePass(BasePass):
    """Base class of :class:`SegmentPass` and :class:`SegmentDecodePass`, which writes scores to the tile's tables."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.index = self.plan.segment_index
        self.length_scores = self.plan.length_scores(self.pair_weights[: self.n_parts])
        self.is_masked = self.plan.mask is not None or len(self.plan.shortest) > 0

    def cells(self, tile: Tile) -> np.ndarray:
        """Return the table of candidate segments, which first contains scores and later probabilities."""
        return self._table("cells", tile, self.plan.n_cells)

    def _score(self, tile: Tile) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of tokens and the scores of all candidate segments."""
        tables = self._score_tokens(tile), self.cells(tile)
        lane_kind, constants = self._lane_kind(tile), self.length_scores
        self.plan.score_segments(lane_kind, tile, self.pair_weights, constants, tables)
        self._shift_segments(tile, tables[1])
        self.plan.forbid_segments(tile, tables[1])
        return tables

    def _shift_segments(self, tile: Tile, cells: np.ndarray) -> None:
        """Subtract from the score of each segment the shifts of its tokens."""
        if self.posterior.shift is None:
            return
        by_row, shifts, first_cell = self._by_row(tile, cells), self._shifts(tile), self.index.first_cell
        total, longest = np.zeros_like(shifts), self.index.longest[: self.arc_layout.automaton.n_labels]
        for d in range(int(longest.max())):  # segments of d + 1 tokens, which end with each row
            total[d:] += shifts[: len(shifts) - d]
            by_row[:, first_cell[: len(longest)][longest > d] + d] -= total[:, None]

    def _alpha(self, tile: Tile) -> np.ndarray:
        return self._pass_table("alpha", tile, self.layout.automaton.n_states, len(tile.length))

    def _reach_tables(self, tile: Tile) -> tuple[np.ndarray, np.ndarray]:
        reach = self._pass_table("reach", tile, self.layout.automaton.n_states)
        return reach, self._pass_table("span_reach", tile, self.plan.n_spans)

    def _scratch(self, tile: Tile) -> segment.SegmentScratch:
        """Return the memory that kernels overwrite at each position."""
        sizes = self.plan.scratch_sizes
        memory = self.workspace("scratch", sum(sizes), self._columns(tile, self.is_wide))
        stops = accumulate(sizes)
        return segment.SegmentScratch(*(memory[stop - size : stop] for size, stop in zip(sizes, stops, strict=True)))


class SegmentPass(_SegmentBasePass, MarginalPass):
    """Forward and backward passes of one chunk; each task consists of one tile."""

    def _largest_score(self, tile: Tile) -> float:
        self.cells(tile)[:] = 0.0  # kernels do not write scores of segments that would begin before the sequence
        return max(self._largest(table[:, : lanes_of(tile)]) for table in self._score(tile))

    def _scales(self, tile: Tile) -> tuple[np.ndarray, np.ndarray]:
        return self._pass_table("log_total", tile, 1), self._pass_table("inverse", tile, 1)

    def _tile_tables(self, tile: Tile) -> segment.SegmentTables:
        sizes = self.plan.table_sizes.items()
        extra = {"alpha": len(tile.length)}
        return segment.SegmentTables(*(self._pass_table(name, tile, n, extra.get(name, 0)) for name, n in sizes))

    def _forward(self, task: Task, log_z: np.ndarray, suspect: np.ndarray) -> list:
        (tile,) = task.tiles
        scored, tables = self._score(tile), self._tile_tables(tile)
        if self.is_wide:
            self._widen(scored[0], tables.scores)
            self._widen(scored[1], tables.cells)
        structure = self.weighted_arcs, self.index, tile, self._scratch(tile), tables
        segment.forward(self._lane_kind(tile, self.is_wide), *structure, self.is_masked, log_z, suspect)
        return [structure]

    def _backward(self, task: Task, checkpoints: list, alive: np.ndarray, weight: np.ndarray) -> None:
        (structure,) = checkpoints
        *_, tile, _, tables = structure
        lane_weight, arcs = self._with_derivatives(weight), self._arcs(self._columns(tile))
        segment.backward(self._lane_kind(tile, self.is_wide), *structure, lane_weight, arcs)
        if self.is_wide:
            self.scores(tile)[:], self.cells(tile)[:] = map(_vectors.narrowed, (tables.scores, tables.cells))
        self.receiver(self, tile, weight)

    def column_marginals(self, tile: Tile, weight: np.ndarray) -> np.ndarray:
        scores, cells = self.scores(tile), self.cells(tile)
        lengths = self._sum("lengths", self.plan.n_counted_lengths, self._columns(tile))
        lane_weight = np.ascontiguousarray(self._with_derivatives(weight)[:, : self._columns(tile)])
        segment_scores.collect(self._lane_kind(tile), self.index, tile, lane_weight, cells, scores, lengths)
        return scores

    def continuations(self, tile: Tile) -> choices.ChoiceTables:
        n_states, n_blocks, columns = self.layout.automaton.n_states, len(tile.length), self._columns(tile)
        beta = self._log_beta(tile).reshape(-1, n_states, columns)
        log_total = self._scales(tile)[0]
        if self.is_wide:
            log_total = _vectors.narrowed(log_total) / self._shrink
        for block in range(n_blocks):  # the borders of a sequence are compared, so their scales matter
            first, stop = tile.rows[block], tile.rows[block + 1]
            beta[first + block + 1 : stop + block + 1] -= np.cumsum(log_total[first:stop], axis=0)[:, None]
        scores, cells = self._score(tile)
        varying_log = self._varying_scores(tile, scores)
        return self._choice_tables(self.plan.n_cells, cells, varying_log, beta.reshape(-1, columns))

    def add_feature_counts(self, tile: Tile, weight: np.ndarray, gradient: np.ndarray, dense: np.ndarray) -> None:
        plan, pairs, marginals = self.plan, self.layout.pairs, self.column_marginals(tile, weight)
        self._add_token_counts(tile, marginals, weight, gradient, dense)
        if len(plan.candidates.length):
            of_segments = plan.candidates, pairs, self.index, tile, self.cells(tile)
            segment_scores.sum_candidates(*of_segments, None, None, weight, gradient)


class SegmentDecodePass(_SegmentBasePass, DecodePass):
    """Viterbi segmentation of one chunk; each task consists of one tile."""

    def run(self, task: Task) -> None:
        (tile,) = task.tiles
        cells, varying_log, beta = self._backward_max(tile)
        self.store_best(task, beta)
        if len(self.codes):  # labels are requested, too
            segment.walk(self.weighted_arcs, self.index, tile, cells, varying_log, beta, self.codes, self.lengths)

    def choice_tables(self, tile: Tile) -> choices.ChoiceTables:
        return self._choice_tables(self.plan.n_cells, *self._backward_max(tile))

    def _backward_max(self, tile: Tile) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scores, cells = self._score(tile)
        varying_log, beta = self._varying_scores(tile, scores), self._alpha(tile)
        structure = self.weighted_arcs, self.index, tile, self._scratch(tile)
        tables = varying_log, beta, *self._reach_tables(tile)
        segment.backward_max(self._lane_kind(tile), *structure, cells, *tables)
        return cells, varying_log, beta


class SegmentLane:
    """Passes over the only sequence of a batch, with kernels for single lanes; the results are those of other passes.

    Parameters
    ----------
    model : SegmentModel
    plan : SegmentPlan
        The plan of any sequence of the length that the lane supports.
    """

    plan: SegmentPlan
    tables: segment.SegmentTables
    structure: tuple

    def __init__(self, model: Any, plan: SegmentPlan) -> None:
        self.model, n_tokens = model, plan.n_tokens
        self.weights, self.weight = (model.pair_weights, model.pair_weights), np.ones((1, 1))
        self.constants = plan.length_scores(self.weights[:1])
        tile = Tile(*freeze_all(([0, n_tokens], [[0]], [[n_tokens]], [[n_tokens - 1]]), np.int64))
        self.place = plan.segment_index, tile
        self.shapes = [((n_tokens + (name == "alpha")) * size, 1) for name, size in plan.table_sizes.items()]
        self.scratch_shapes = [(size, 1) for size in plan.scratch_sizes]

    def with_plan(self, plan: SegmentPlan) -> Self:
        """Return the lane for the sequence of ``plan``, with the scores of this sequence."""
        lane, model, tile = object.__new__(type(self)), self.model, self.place[1]
        lane.__dict__.update(self.__dict__, plan=plan)
        lane.tables = segment.SegmentTables(*map(np.empty, self.shapes))
        lane.structure = model.pass_arcs, *self.place, segment.SegmentScratch(*map(np.empty, self.scratch_shapes))
        scores, cells, *_ = lane.tables
        of_tokens = plan.token_features, model.layout.pairs, *self.weights, model.dense_table, tile
        token_scores.score_rows(*of_tokens, scores)
        plan.score_segments(None, tile, self.weights, self.constants, (scores, cells))
        plan.forbid_segments(tile, cells)
        return lane

    def decode(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels of tokens and lengths of segments as in :class:`DecodePass`, and the best score; shape (1,)."""
        tables, best = self.tables, np.empty((2, self.plan.n_tokens), np.int32)
        if len(tables.varying):
            n_columns = self.model.n_columns
            token_scores.varying_scores(self.model.pass_arcs, n_columns, tables.scores, tables.varying)
        scored = tables.cells, tables.varying, tables.alpha
        segment.backward_max(None, *self.structure, *scored, tables.reach, tables.span_reach)
        segment.walk(*self.structure[:3], *scored, *best)
        return best[0], best[1], tables.alpha[0]

    def run(self) -> bool:
        """Turn the scores of segments into probabilities; return whether scaled numbers suffice."""
        log_z, suspect, arcs = np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((self.model.layout.automaton.n_arcs, 1))
        masked = len(self.plan.shortest) > 0 or self.plan.mask is not None
        if self.model.scales:
            segment.forward(None, *self.structure, self.tables, masked, log_z, suspect)
        if not self.model.scales or suspect[0, 0] != 0.0:
            return False
        segment.backward(None, *self.structure, self.tables, self.weight, arcs)
        return True

    def column_marginals(self) -> np.ndarray:
        """Return the marginals of score columns after :meth:`run`; shape (T, C)."""
        scores, cells, *_ = self.tables
        segment_scores.collect(None, *self.place, self.weight, cells, scores, np.empty((0, 1)))
        return scores.reshape(self.plan.n_tokens, -1)


class SegmentPosterior(LanePosterior):
    """The posterior of a high-order semi-Markov CRF; its labellings are :class:`Segments`."""

    pass_class: ClassVar[type[MarginalPass]] = SegmentPass
    decode_pass_class: ClassVar[type[DecodePass]] = SegmentDecodePass
    most_likely = 1.0

    def _lane(self) -> SegmentLane | None:
        """Return the lane of a batch of one short sequence; None for other batches, dense columns or reduced scores."""
        plan, lane = self.plan, self.plan.lane
        has_lane = lane is not None and lane.model is self.model and plan.dense is None and self.shift is None
        return lane.with_plan(plan) if has_lane else None

    def _best(self) -> tuple[Any, np.ndarray]:
        lane = self._lane()
        if lane is None:
            return super()._best()
        codes, lengths, best = lane.decode()
        if not math.isfinite(best[0]):
            self.refuse_impossible([0], best)
        return self.model.labelling(self.batch.offsets, codes, lengths), best

    def column_marginals(self, n_columns: int) -> np.ndarray:
        lane = self._lane()
        if lane is None or not lane.run():
            return super().column_marginals(n_columns)
        return lane.column_marginals()[:, :n_columns].copy()

    def pattern_marginals(self, patterns: Sequence[Sequence[int]]) -> np.ndarray:
        return self._marginals_of([(tuple(pattern), END_OF_SEGMENT) for pattern in patterns])

    def tag_marginals(self, tags: Sequence[tuple[int, Channel]]) -> np.ndarray:
        return self._marginals_of([((label,), channel) for label, channel in tags])

    def segment_marginals(self, threshold: float, tags: Tags | None = None) -> tuple[Segments, np.ndarray]:
        likely: list = []
        least = max(float(threshold), np.nextafter(0.0, 1.0))

        def list_likely(backward: Any, tile: Tile, weight: np.ndarray) -> None:
            query = backward.index, tile, backward.cells(tile), weight, least
            rows = np.empty((segment_scores.list_likely(*query, np.empty((0, 4))), 4))
            segment_scores.list_likely(*query, rows)
            likely.append(rows)

        self.run(lambda: list_likely)
        return sorted_segments(self.batch.offsets, likely)

    def segment_probabilities(self, segments: Segments, tags: Tags | None = None) -> np.ndarray:
        table, probability = by_first_token(segments, self.batch.n_tokens)
        lane = self._lane()
        if lane is not None and lane.run():
            segment_scores.take_given(*lane.place, lane.tables.cells, lane.weight, table, probability)
            return np.minimum(probability[segments.start], 1.0)

        def take(backward: Any, tile: Tile, weight: np.ndarray) -> None:
            segment_scores.take_given(backward.index, tile, backward.cells(tile), weight, table, probability)

        self.run(lambda: take)
        return np.minimum(probability[segments.start], 1.0)


class SegmentModel(Model):
    """A high-order semi-Markov CRF with its weights."""

    layout_class, minibatches_class = SegmentLayout, SegmentMinibatches
    plan_class, posterior_class = SegmentPlan, SegmentPosterior
    has_lengths = True

    @classmethod
    def for_layout(cls, layout: SegmentLayout) -> type[Model]:
        return AgedModel if (layout.longest == NO_LIMIT).any() and not what_needs_lengths(layout) else cls

    def labelling(self, offsets: np.ndarray, codes: np.ndarray, lengths: np.ndarray) -> Segments:
        start = np.flatnonzero(lengths)
        return Segments(np.searchsorted(start, offsets), start, start + lengths[start], codes[start])


class AgedPlan(SegmentPlan):
    """The plan of a batch for semi-Markov CRFs of one layout, with segments of any length."""

    default_schedule = ChainPlan.default_schedule
    allowed: np.ndarray | None = None  # (N, M) bool   aged labels that tokens may have; None: all
    least_ages = 6  # of a state, on average, for passes with tails: with fewer, passes of the chain take less time

    def _read(self) -> None:
        layout, self.aged = self.layout, aged(self.layout)
        if self.aged.links.shift.any():  # if sequences were cut, kernels would read some columns from another tile
            self.schedule = replace(self.schedule, cut_size=math.inf, single_sequence_size=1 << 26, long_call=1 << 26)
        self.length_entries, self.n_cells = self.aged.length_entries, self.aged.n_columns
        self.n_counted_lengths = self.n_cells if len(self.length_entries.cell) else 0
        self.n_varying, n_states = self.aged.n_varying, self.aged.automaton.n_states
        self.row_size = n_states + layout.pairs.n_columns + self.n_cells + self.n_varying + 1
        self.work_per_token = self.row_size + len(self.aged.compiled.network.terms)

    def prepare_lane(self, model: Any) -> None:
        """Prepare nothing, because aged labels are the labels of a chain."""

    def masked(self, mask: Mask | None, may_be_impossible: bool = False) -> Self:
        plan = super().masked(mask, may_be_impossible)
        if plan.mask is not None or may_be_impossible:
            plan.tailed = None
        plan.allowed = None if plan.mask is None else self.aged.allowed(plan.mask)
        return plan

    def part(self, sequences: np.ndarray) -> Self:
        plan = super().part(sequences)
        plan.tailed = self.tailed and self.tailed.part(sequences)
        return plan

    def without_dense_table(self) -> Self:
        plan = super().without_dense_table()
        plan.tailed = None
        return plan

    @cached_property
    def tailed(self) -> Self | None:
        """The plan of the batch for segment passes with tails; None if they are impossible or worse than the chain."""
        n_states, chain_states = self.layout.automaton.n_states, self.aged.automaton.n_states
        tables = self.layout.derived(tails) if chain_states > self.least_ages * n_states else None
        if tables is None:
            return None
        plan = copy.copy(self)
        plan._take_tails(*tables)
        is_small = int(self.lengths.max(initial=0)) * LANES * plan.row_size <= ChainPlan.default_schedule.cut_size
        return plan if is_small else None  # the chain cuts sequences, and so needs less memory

    def _take_tails(self, index: SegmentIndex, entries: LengthEntries) -> None:
        """Turn this plan into the plan of passes with tails."""
        self.tailed, self.has_tails, self.shortest = None, True, freeze(np.empty(0), np.int64)
        self.length_weights = np.unique(entries.weight, return_inverse=True)
        self._size(index, entries, 4 * self.layout.automaton.n_states)
        self.schedule = replace(self.schedule, cut_size=math.inf)
        self._deal_out()


class _AgedBasePass(BasePass):
    """Base class of :class:`AgedPass` and :class:`AgedDecodePass`, which computes the scores of the aged chain."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.links = self.plan.aged.links
        self.length_scores = self.plan.length_scores(self.pair_weights[: self.n_parts])

    def chain_scores(self, tile: Tile) -> np.ndarray:
        return self._table("chain", tile, self.n_columns)

    def _score(self, tile: Tile) -> np.ndarray:
        scores, table = self._score_tokens(tile), self.chain_scores(tile)
        segment_scores.assemble_aged(self._lane_kind(tile), self.links, tile, self.length_scores, scores, table)
        self._shift_labels(tile, table)
        self._forbid_labels(tile, table)
        return table

    def _forbid_labels(self, tile: Tile, scores: np.ndarray) -> None:
        if self.plan.allowed is not None:
            segment_scores.forbid_labels(tile, self.n_columns, self.plan.allowed, scores)


class AgedPass(_AgedBasePass, ChainPass):
    """Forward and backward passes of one chunk."""

    def _log_spread(self) -> float:
        return math.inf

    def column_marginals(self, tile: Tile, weight: np.ndarray) -> np.ndarray:
        scores, columns = self.scores(tile), self._columns(tile)
        counts = self._sum("lengths", self.plan.n_counted_lengths, columns)
        lane_weight, table = np.ascontiguousarray(self._with_derivatives(weight)[:, :columns]), self.chain_scores(tile)
        segment_scores.collect_aged(self._lane_kind(tile), self.links, tile, lane_weight, table, scores, counts)
        return scores

    def add_feature_counts(self, tile: Tile, weight: np.ndarray, gradient: np.ndarray, dense: np.ndarray) -> None:
        self._add_token_counts(tile, self.column_marginals(tile, weight), weight, gradient, dense)

    def arc_counts(self) -> np.ndarray:
        """Return the expected counts of the arcs of the layout, which segments use at their first tokens."""
        arcs = self.plan.aged.layout_arc
        return np.bincount(arcs[arcs >= 0], super().arc_counts()[arcs >= 0], self.layout.automaton.n_arcs)


class AgedDecodePass(_AgedBasePass, ChainDecodePass):
    """Viterbi segmentation of one chunk."""


class AgedPosterior(SegmentPosterior):
    """The posterior of a semi-Markov CRF with segments of any length; its labellings are :class:`Segments`."""

    pass_class, decode_pass_class = AgedPass, AgedDecodePass

    @property
    def of_sums(self) -> LanePosterior:
        """The posterior that uses passes with tails, if the plan supports them."""
        plan, model = self.plan.tailed, self.model
        if plan is None or self.shift is not None:
            return self
        return SegmentModel(model.layout, model.weights, model.dense_table, model.schedule).posterior_on(plan)

    def segment_marginals(self, threshold: float, tags: Tags | None = None) -> tuple[Segments, np.ndarray]:
        return LanePosterior.segment_marginals(self, threshold, self.plan.aged.tags())

    def segment_probabilities(self, segments: Segments, tags: Tags | None = None) -> np.ndarray:
        return LanePosterior.segment_probabilities(self, segments, self.plan.aged.tags())


class AgedModel(SegmentModel):
    """A semi-Markov CRF for segments of any length, with its weights."""

    plan_class, posterior_class = AgedPlan, AgedPosterior
    has_lengths = False  # kernels write codes of aged labels

    @property
    def arc_layout(self) -> AgedLayout:
        return aged(self.layout)

    @property
    def n_columns(self) -> int:
        return self.arc_layout.n_columns

    def labelling(self, offsets: np.ndarray, codes: np.ndarray, lengths: np.ndarray) -> Segments:
        start = np.flatnonzero(codes < self.layout.automaton.n_labels)  # aged labels of age 1 come first
        return Segments(np.searchsorted(start, offsets), start, np.append(start, len(codes))[1:], codes[start])

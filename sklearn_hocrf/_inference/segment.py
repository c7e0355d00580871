"""Questions about a whole batch of segmentations: partition functions, marginals, expected counts, best segments.

As in ``_inference.chain``, a batch is cut into tasks, a task goes through scores, kernels and adjoint on one thread, and
sums are added in an order that does not depend on the number of threads. The tables of a task hold one number for
each token and (state, span arc, score column, or label and length).
"""

from __future__ import annotations

import numpy as np

from .._data.arrays import freeze
from .._data.batch import SequenceBatch, Task, cut_tasks
from .._data.segments import BAG, END_OF_SEGMENT, Segments
from .._kernels import chain, segment, segment_log, segment_scores, token_scores
from .._structure.segment_layout import SegmentLayout
from .._structure.weighted_arcs import weighted_arcs
from .chain import SMALL_STEP, BasePass, BasePlan, Expectations, Workspace, add_up, in_order, refuse_impossible

__all__ = ["SegmentBackwardPass", "SegmentDecodePass", "SegmentDerivativePass", "SegmentModel", "SegmentPlan"]

_TILE_NUMBERS = 1 << 17  # 1 MiB of doubles
_LONG_CALL = 1 << 24  # numbers of one sequence's tables: about 50 ms
_MOST_NUMBERS = 1 << 26  # 512 MiB: a block of sequences so long that it would need more runs lane by lane


class SegmentPlan(BasePlan):
    """How a batch is cut into tasks and chunks, for models of one layout; and its features, as kernels read them."""

    def __init__(self, layout: SegmentLayout, batch: SequenceBatch):
        self.layout = layout
        self.batch, self.offsets, self.lengths = batch, batch.offsets, batch.lengths
        self.n_tokens, self.n_sequences = batch.n_tokens, len(batch)
        self.rows = layout.rows(batch)
        self.candidates = layout.candidate_features(batch)
        self.segment_index = layout.segment_index(int(batch.lengths.max(initial=0)))
        matrix = layout.length_matrix(self.segment_index)
        self.length_pairs = np.unique(matrix.indices)
        self.length_matrix = matrix[:, self.length_pairs]
        self.n_varying = layout.n_varying
        self.n_spans = len(self.segment_index.span_arc)
        self.n_cells = self.segment_index.n_cells
        n_states = layout.automaton.n_states
        self.row_numbers = 3 * n_states + 2 * self.n_spans + layout.pairs.n_columns + self.n_varying + self.n_cells
        work = len(batch.indices) + batch.n_tokens * self.row_numbers * 4
        self._start(self.cut(np.arange(len(batch))), work)
        # a task is one call, and its time goes by the numbers of its tables
        self.calls_are_long = int(self.lengths.max(initial=0)) * self.row_numbers > _LONG_CALL

    def cut(self, sequences) -> list[Task]:
        """Return the tasks of some sequences."""
        alone = self.lengths[sequences] * self.row_numbers * chain.LANES > _MOST_NUMBERS
        return [*self._tasks(1, sequences[alone]), *self._tasks(chain.LANES, sequences[~alone])]

    def _tasks(self, lanes, chosen):
        return cut_tasks(self.offsets, lanes, _TILE_NUMBERS, np.inf, self.row_numbers, chosen, self.lengths)

    def alone(self, sequence) -> Task:
        """Return the task of one sequence, in a block of one lane."""
        return self._tasks(1, [sequence])[0]


class SegmentModel:
    """A high-order semi-Markov CRF with numbers in it.

    Parameters
    ----------
    layout : SegmentLayout
        Which weights there are.
    weights : ndarray of shape (n_weights,)
        Their values; -inf for the bias of a forbidden pattern.
    dense_table : ndarray or None
        That of the layout, with the weights; or an empty one for plans without a dense table.
    """

    def __init__(self, layout: SegmentLayout, weights, dense_table=None):
        self.layout = layout
        self.weights = freeze(weights, np.float64)
        if self.weights.shape != (layout.n_weights,):  # kernels do not look
            raise ValueError(
                f"there are {layout.n_weights} weights, but the given ones have shape {self.weights.shape}"
            )
        self.pair_weights = self.weights[: layout.n_pairs]
        self.dense_table = freeze(layout.dense_table(self.pair_weights) if dense_table is None else dense_table, float)
        self.weighted_arcs = weighted_arcs(layout, self.weights)
        constant = self.weighted_arcs.arc_score[
            (self.weighted_arcs.arc_varying < 0) & (self.weighted_arcs.arc_score > -np.inf)
        ]
        self.scales = not len(constant) or bool(constant.min() - self.weighted_arcs.log_shift > segment.LOWEST_LOG)

    def expectations(self, plan: SegmentPlan, sequence_weight=None, n_jobs=None) -> Expectations:
        """Return partition functions and expected counts."""
        weight = np.ones(plan.n_sequences) if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        log_z = np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.workspace() as tables:
                run = _ExpectationPass(tables, self, plan, log_z, weight)
                for task in chunk:
                    run.backward(task)
                return run.sums()

        return Expectations(log_z, self.counts(plan, add_up(in_order(work, plan, n_jobs))))

    def add_expectations(self, plan: SegmentPlan, sequences, sequence_weight, gradient, log_z) -> tuple:
        """Add the expected counts of the pairs of some sequences to ``gradient``, and write their log Z.

        See :meth:`ChainModel.add_expectations`. Those of the features of lengths are left out: the counts of lengths
        that are returned after those of arcs make them.
        """
        with plan.workspace() as tables:
            run = _ExpectationPass(tables, self, plan, log_z, sequence_weight, gradient)
            for task in plan.cut(sequences):
                run.backward(task)
            return run.sums()[2:]

    def expectation_slopes(self, plan: SegmentPlan, direction, sequence_weight=None, n_jobs=None) -> np.ndarray:
        """Return the derivatives of the expected counts along a direction of the weights; shape (n_weights,).

        See :meth:`ChainModel.expectation_slopes`.
        """
        weight = np.ones(plan.n_sequences) if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        slope, log_z = SegmentModel(self.layout, SMALL_STEP * np.asarray(direction)), np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.workspace() as tables:
                run = SegmentDerivativePass(tables, self, slope, plan, log_z, weight)
                for task in chunk:
                    run.backward(task)
                return run.sums()

        return self.counts(plan, add_up(in_order(work, plan, n_jobs))) / SMALL_STEP

    def counts(self, plan, sums):
        """Return the counts of all weights' features, given those of pairs, dense features, arcs and lengths."""
        if sums is None:  # there is no data
            return np.zeros(self.layout.n_weights)
        pairs, dense, arcs, lengths = sums
        self.layout.add_dense(dense, pairs)
        if self.layout.length_blocks:
            pairs[plan.length_pairs] += plan.length_matrix.T @ lengths
        return np.concatenate([pairs, self.layout.sum_over_suffixes(arcs)])

    def log_partition(self, batch: SequenceBatch, n_jobs=None, plan=None) -> np.ndarray:
        """Return log Z of each sequence, 0 for empty ones; shape (n_sequences,).

        Raises
        ------
        ValueError
            Here and in the other answers: if the model forbids every segmentation of a sequence.
        """
        plan = SegmentPlan(self.layout, batch) if plan is None else plan
        log_z = np.zeros(plan.n_sequences)
        self._run_all(plan, n_jobs, lambda tables: _Pass(tables, self, plan, log_z).partition)
        return log_z

    def marginals(self, batch: SequenceBatch, n_jobs=None) -> np.ndarray:
        """Return P(token t lies in a segment of label y); shape (N, n_labels), rows sum to 1."""
        labels = [((label,), BAG) for label in range(self.layout.automaton.n_labels)]
        table = self._column_marginals(batch, labels, n_jobs)
        return np.divide(table, table.sum(axis=1, keepdims=True), out=table)

    def tag_marginals(self, batch: SequenceBatch, tags, n_jobs=None) -> np.ndarray:
        """Return P(token t is at a channel's position of a segment of a label), for pairs (label, channel)."""
        return self._column_marginals(batch, [((label,), channel) for label, channel in tags], n_jobs)

    def pattern_marginals(self, batch: SequenceBatch, patterns, n_jobs=None) -> np.ndarray:
        """Return P(a segment that ends a pattern ends with token t); shape (N, n_given)."""
        return self._column_marginals(batch, [(tuple(pattern), END_OF_SEGMENT) for pattern in patterns], n_jobs)

    def _column_marginals(self, batch, columns, n_jobs):
        """Return the expected value of score columns at each token, which need not have any weights."""
        layout, chosen = self.layout.with_columns(columns)
        model = SegmentModel(layout, self.weights)
        plan = SegmentPlan(layout, batch)
        table, log_z = np.empty((batch.n_tokens, layout.pairs.n_columns)), np.zeros(len(batch))
        model._run_all(plan, n_jobs, lambda tables: _MarginalPass(tables, model, plan, log_z, table).backward)
        return np.clip(table[:, chosen], 0.0, 1.0)

    def segment_marginals(self, batch: SequenceBatch, threshold, n_jobs=None) -> tuple[Segments, np.ndarray]:
        """Return all segments of at least a probability, and the probabilities; shape (M,).

        They are sorted by sequence, start, stop and label.
        """
        plan, log_z = SegmentPlan(self.layout, batch), np.zeros(len(batch))
        found: list = []
        self._run_all(plan, n_jobs, lambda tables: _SegmentPass(tables, self, plan, log_z, threshold, found).backward)
        nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0)
        start, stop, codes, probability = map(np.concatenate, zip(nothing, *found, strict=True))
        order = np.lexsort((codes, stop, start))
        start = start[order]
        table = Segments(np.searchsorted(start, batch.offsets), start, stop[order], codes[order])
        return table, np.minimum(probability[order], 1.0)

    def log_score(self, batch: SequenceBatch, given: Segments) -> np.ndarray:
        """Return the log potential of a segmentation of each sequence, -inf where forbidden; shape (n_sequences,)."""
        scores = self.layout.segment_scores(batch, given, self.weights, self.weighted_arcs)
        sequence = np.repeat(np.arange(len(batch)), np.diff(given.offsets))
        return np.bincount(sequence, weights=scores, minlength=len(batch))

    def decode(self, batch: SequenceBatch, n_jobs=None) -> Segments:
        """Return the most probable segmentation; ties go to the lowest label, then to the shortest segment."""
        plan = SegmentPlan(self.layout, batch)
        codes, lengths = np.empty(batch.n_tokens, np.int32), np.zeros(batch.n_tokens, np.int32)
        self._run_all(plan, n_jobs, lambda tables: SegmentDecodePass(tables, self, plan, codes, lengths).decode)
        start = np.flatnonzero(lengths)
        return Segments(np.searchsorted(start, batch.offsets), start, start + lengths[start], codes[start])

    def _run_all(self, plan, n_jobs, task_of):
        """Do ``task_of(tables)(task)`` for all tasks."""

        def work(chunk):
            with plan.workspace() as tables:
                run_task = task_of(tables)
                for task in chunk:
                    run_task(task)

        for _ in in_order(work, plan, n_jobs):
            pass


class _Pass(BasePass):
    """Forward passes of one chunk."""

    def __init__(self, tables: Workspace, model: SegmentModel, plan: SegmentPlan, log_z, sequence_weight=None):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self.shape = plan.segment_index
        self.length_scores = self._length_scores(model.pair_weights)

    def _length_scores(self, weights, slopes=None):
        """Return the scores of lengths and their derivatives, as ``segment_scores.assemble`` takes them."""
        weights = weights[self.plan.length_pairs]
        slopes = np.zeros(len(weights)) if slopes is None else slopes[self.plan.length_pairs]
        return freeze(self.plan.length_matrix @ np.stack([weights, slopes], axis=1), np.float64)

    def partition(self, task: Task):
        """Store log Z of the sequences of a task."""
        for sequence in self.forward(task)[1]:
            self.forward_log(sequence)

    def forward(self, task: Task):
        """Run the scaled forward passes of a task and store log Z.

        Returns the lanes that went well, and the sequences to be done again in log space.
        """
        (tile,) = task.tiles
        filled = task.sequences >= 0
        log_z = self._with_slopes(np.zeros(filled.shape))
        suspect = self._with_slopes(np.full(filled.shape, 0.0 if self.model.scales else 1.0))
        if self.model.scales:
            scores, table = self.score(tile)
            arrays = self._factors(tile), *self._forward_tables(tile), *self._scales(tile)
            scratch = self._scratch(tile)
            segment.forward(
                self._width(tile), self.weighted_arcs, self.shape, tile, scratch, scores, table, *arrays, log_z, suspect
            )
        lanes = filled.shape[1]
        alive = filled & (suspect[:, :lanes] == 0)
        self.log_z[task.sequences[alive]] = log_z[:, :lanes][alive]
        return alive, np.sort(task.sequences[filled & ~alive])

    def score(self, tile):
        """Return the scores of tokens and the scores of all candidate segments."""
        scores, table = self._scores(tile), self._table(tile)
        plan, pairs = self.plan, self.layout.pairs
        token_scores.score_rows(plan.rows, pairs, *self.pair_weights, self.dense_weights, tile, scores)
        segment_scores.assemble(self._width(tile), self.shape, tile, self.length_scores, scores, table)
        segment_scores.score_candidates(plan.candidates, pairs, *self.pair_weights, self.shape, tile, table)
        return scores, table

    def forward_log(self, sequence):
        """Store log Z of one sequence and return what the backward pass needs, in log space."""
        (tile,) = self.plan.alone(sequence).tiles
        scores, table = self.score(tile)
        varying_log = self._factors(tile)
        token_scores.varying_scores(self.weighted_arcs, self.layout.pairs.n_columns, scores, varying_log)
        n_rows, log_total = int(tile.rows[-1]), self._scales(tile)[0]
        arrays = scores, table, varying_log, *self._forward_tables(tile), log_total
        scores, table, varying_log, begin, whole, alpha, log_total = map(self._in_log_space, arrays)
        begin, whole = begin.reshape(n_rows, -1), whole.reshape(n_rows, self.plan.n_spans)
        tables = table, varying_log, begin, whole, alpha.reshape(n_rows + 1, -1), log_total[:, 0]
        self.log_z[sequence] = segment_log.forward_log(self.log_weighted_arcs, self.shape, *tables).real
        refuse_impossible([sequence], self.log_z[[sequence]])
        return tile, scores, *tables

    def _scores(self, tile):
        return self.tables("scores", int(tile.rows[-1]) * self.layout.pairs.n_columns, self._columns(tile))

    def _table(self, tile):
        return self.tables("table", int(tile.rows[-1]) * self.plan.n_cells, self._columns(tile))

    def _factors(self, tile):
        return self.tables("varying", int(tile.rows[-1]) * self.plan.n_varying, self._columns(tile))

    def _forward_tables(self, tile):
        """Return the tables of begin, whole and alpha."""
        n_rows, n_blocks, lanes = int(tile.rows[-1]), len(tile.length), self._columns(tile)
        n_states = self.layout.automaton.n_states
        return (
            self.tables("begin", n_rows * n_states, lanes),
            self.tables("whole", n_rows * self.plan.n_spans, lanes),
            self.tables("alpha", (n_rows + n_blocks) * n_states, lanes),
        )

    def _reach_tables(self, tile):
        n_rows, lanes = int(tile.rows[-1]), self._columns(tile)
        return (
            self.tables("reach", n_rows * self.layout.automaton.n_states, lanes),
            self.tables("span_reach", n_rows * self.plan.n_spans, lanes),
        )

    def _scales(self, tile):
        return tuple(self.tables(name, int(tile.rows[-1]), self._columns(tile)) for name in ("log_total", "inverse"))

    def _scratch(self, tile):
        network, automaton = self.layout.network, self.layout.automaton
        n_longest = int(self.shape.longest.max())
        n_values, n_adjoints = automaton.n_states + len(network.starts), automaton.n_arcs + len(network.back_starts)
        size = n_values + n_adjoints + self.plan.n_varying + automaton.n_states + (self.plan.n_spans + 2) * n_longest
        return self.tables("scratch", size, self._columns(tile))


class SegmentBackwardPass(_Pass):
    """Forward and backward passes of one chunk."""

    def backward(self, task: Task):
        alive, redone = self.forward(task)
        if alive.any():
            (tile,) = task.tiles
            weight = np.where(alive, self._weight(task.sequences), 0.0)
            scores, table = self._scores(tile), self._table(tile)
            begin, whole, alpha = self._forward_tables(tile)
            arrays = begin, whole, alpha, self._scales(tile)[1], self._with_slopes(weight), *self._reach_tables(tile)
            segment.backward(
                self._width(tile),
                self.weighted_arcs,
                self.shape,
                tile,
                self._scratch(tile),
                scores,
                table,
                self._factors(tile),
                *arrays,
                self._arcs(self._columns(tile)),
            )
            self._collect(tile, table, scores, weight)
        for sequence in redone:
            self._backward_log(sequence)

    def _backward_log(self, sequence):
        tile, scores, table, *tables = self.forward_log(sequence)
        weight = self._weight(np.array([[sequence]]))
        reach, span_reach = map(self._in_log_space, self._reach_tables(tile))
        n_rows = int(tile.rows[-1])
        reaches = reach.reshape(n_rows, -1), span_reach.reshape(n_rows, self.plan.n_spans)
        counts = self._in_log_space(self._arcs(self.parts))
        arrays = scores, table, *tables, weight[0, 0], *reaches, counts
        segment_log.backward_log(self.log_weighted_arcs, self.shape, *arrays)
        self._collect(tile, table.view(np.float64), scores.view(np.float64), weight)

    def _collect(self, tile, table, scores, weight):
        n_lengths = self.plan.n_cells if self.layout.length_blocks else 0
        length_counts = self._sum("lengths", n_lengths, self._columns(tile))
        lane_weight = self._with_slopes(weight)
        segment_scores.collect(self._width(tile), self.shape, tile, lane_weight, table, scores, length_counts)
        self._receive(tile, scores, table, weight)


class _ExpectationPass(SegmentBackwardPass):
    """Sums up expected counts."""

    def __init__(self, tables, model, plan, log_z, sequence_weight, gradient=None):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self.gradient = np.zeros(self.layout.n_pairs) if gradient is None else gradient
        self.dense = np.zeros(model.dense_table.shape)

    def _receive(self, tile, marginals, table, weight):
        plan, pairs = self.plan, self.layout.pairs
        token_scores.add_expectations(plan.rows, pairs, tile, marginals, weight, self.gradient, self.dense)
        segment_scores.add_candidates(plan.candidates, pairs, self.shape, tile, table, weight, self.gradient)

    def sums(self):
        """Return the counts of pairs, dense features, arcs and lengths, weighted by sequence."""
        n_lengths = self.plan.n_cells if self.layout.length_blocks else 0
        arcs = self._total("arcs", self.layout.automaton.n_arcs)
        return self.gradient, self.dense, arcs, self._total("lengths", n_lengths)


class SegmentDerivativePass(_ExpectationPass):
    """Sums up the derivatives of expected counts along a direction of the weights, on dual numbers."""

    parts = 2

    def __init__(self, tables, model, slope, plan, log_z, sequence_weight):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self._use_slope(slope)
        self.length_scores = self._length_scores(model.pair_weights, slope.pair_weights)


class _MarginalPass(SegmentBackwardPass):
    """Writes the marginals of all score columns to a table of one row per token."""

    def __init__(self, tables, model, plan, log_z, table):
        super().__init__(tables, model, plan, log_z)
        self.table = table

    def _receive(self, tile, marginals, table, weight):
        token_scores.gather(tile, self.layout.pairs.n_columns, marginals, weight, self.table)


class _SegmentPass(SegmentBackwardPass):
    """Lists segments of at least a probability."""

    def __init__(self, tables, model, plan, log_z, threshold, found):
        super().__init__(tables, model, plan, log_z)
        self.threshold, self.found = float(threshold), found

    def _receive(self, tile, marginals, table, weight):
        asked = self.shape, tile, table, weight, self.threshold
        count = segment_scores.count_likely(*asked)
        start, stop, code = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int32)
        probability = np.empty(count)
        segment_scores.list_likely(*asked, start, stop, code, probability)
        self.found.append((start, stop, code, probability))


class SegmentDecodePass(_Pass):
    """Viterbi segmentation of one chunk; ``best`` (n_sequences,), if any, receives the highest scores."""

    def __init__(self, tables, model, plan, codes, lengths, best=None):
        super().__init__(tables, model, plan, None)
        self.codes, self.lengths, self.best = codes, lengths, best

    def decode(self, task: Task):
        (tile,) = task.tiles
        scores, table = self.score(tile)
        varying_log = self._factors(tile)
        token_scores.varying_scores(self.weighted_arcs, self.layout.pairs.n_columns, scores, varying_log)
        beta = self._forward_tables(tile)[2]
        scratch = self._scratch(tile)
        tables = varying_log, beta, *self._reach_tables(tile)
        segment.backward_max(self._width(tile), self.weighted_arcs, self.shape, tile, scratch, table, *tables)
        n_states = self.layout.automaton.n_states
        firsts = (tile.rows[:-1] + np.arange(len(tile.length))) * n_states
        filled = task.sequences >= 0
        refuse_impossible(task.sequences[filled], beta[firsts][filled])
        if self.best is not None:
            self.best[task.sequences[filled]] = beta[firsts][filled]
        segment.walk(self.weighted_arcs, self.shape, tile, table, varying_log, beta, self.codes, self.lengths)

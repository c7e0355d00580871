"""Questions about a whole batch: partition functions, marginals, expected counts, best labels.

A batch is cut into tasks that fit the cache; a task goes through scores, kernels and adjoint on one thread. Tasks
are dealt out to a number of chunks that depends on the data alone, and the chunks' sums are added in a fixed order,
so that every ``n_jobs`` gives the same bits. Threads live here and nowhere else.

Long sequences are cut by position: the forward pass keeps one row of alpha per cut, and the backward pass runs the
forward pass of each part again (checkpointing), so that memory does not grow with (length x states).
"""

from __future__ import annotations

import copy
import math
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs

from .._data.arrays import freeze
from .._data.batch import SequenceBatch, Task, cut_tasks
from .._data.segments import BEGIN
from .._kernels import chain, chain_log, token_scores
from .._structure.layout import WeightLayout
from .._structure.weighted_arcs import label_arcs, weighted_arcs

__all__ = [
    "BackwardPass",
    "BasePlan",
    "BasePass",
    "ChainModel",
    "DecodePass",
    "DerivativePass",
    "Expectations",
    "Plan",
    "Workspace",
    "add_up",
    "in_order",
    "lanes_of",
    "refuse_impossible",
    "lane_kind_of",
]

_TILE_NUMBERS = 1 << 17, 1 << 18  # 1 to 2 MiB of doubles, but at least _TILE_ROWS: a call from Python costs some rows
_MANY_TASKS = 8  # as long as so many are left for several threads, tiles are large
_TILE_ROWS = 32
_LONG_NUMBERS = 1 << 22  # 32 MiB: longer blocks are cut by position
_MOST_CHUNKS = 16
_LOOK_UP = 0.1  # seconds

SMALL_STEP = 2.0**-66  # of derivatives: kernels in log space take complex steps, whose squares must vanish beside 1


class Expectations(NamedTuple):
    """What one forward and backward pass over a batch gives.   n sequences."""

    log_z: np.ndarray  # (n,)   log partition functions
    counts: np.ndarray  # (n_weights,)   expected counts of all weights' features, weighted by sequence


class BasePlan:
    """How a batch is cut into tasks, which are dealt out to chunks; and what threads keep between evaluations."""

    calls_are_long = False  # whether a call of a kernel may take longer than users want to wait after Ctrl-C
    halt = Event()  # set when nobody waits for the evaluation any more; each has its own

    def _start(self, tasks, work):
        """Deal out tasks; ``work`` is about how many operations the data are worth."""
        # each chunk costs a private gradient: not more of them than the work on the data is worth
        n_chunks = int(np.clip(work // (32 * max(self.layout.n_weights, 1)), 4, _MOST_CHUNKS))
        self.chunks = _deal(tasks, n_chunks)
        self._spare_workspaces = []
        self._threads = {}  # pools by number of threads; they end with the plan

    @contextmanager
    def workspace(self):
        """Lend memory for the tables of one thread; it is kept for the next evaluation."""
        tables = self._spare_workspaces.pop() if self._spare_workspaces else Workspace()
        tables.halt = self.halt
        yield tables
        self._spare_workspaces.append(tables)

    def without_dense_table(self):
        """Return the plan with rows that find all weights among the pairs, so that a model needs no dense table."""
        plan = copy.copy(self)
        plan.rows = self.layout.rows(self.batch, dense=False)
        return plan

    def threads(self, n_threads) -> ThreadPoolExecutor:
        """Return a pool of threads that is kept for the next evaluation: new threads would start with cold memory."""
        if n_threads not in self._threads:
            self._threads[n_threads] = ThreadPoolExecutor(n_threads)
        return self._threads[n_threads]


class Plan(BasePlan):
    """How a batch is cut into tasks and chunks, for models of one layout."""

    def __init__(self, layout: WeightLayout, batch: SequenceBatch):
        self.layout = layout
        self.batch, self.offsets, self.lengths = batch, batch.offsets, batch.lengths
        self.rows = layout.rows(batch)
        self.n_sequences = len(batch)
        self.n_varying = layout.n_varying
        self.row_numbers = layout.automaton.n_states + layout.pairs.n_columns + self.n_varying + 1
        work = len(batch.indices) + batch.n_tokens * (self.row_numbers + len(layout.network.terms))
        self._start(self.cut(np.arange(len(batch))), work)

    def cut(self, sequences) -> list[Task]:
        """Return the tasks of some sequences."""
        numbers = np.clip(len(self.rows.singles) * self.row_numbers // _MANY_TASKS, *_TILE_NUMBERS)
        return self._tasks(chain.LANES, max(int(numbers), _TILE_ROWS * chain.LANES * self.row_numbers), sequences)

    def alone(self, sequence) -> Task:
        """Return the task of one sequence, in a block of one lane."""
        return self._tasks(1, 0, [sequence])[0]

    def _tasks(self, lanes, tile_numbers, sequences):
        return cut_tasks(self.offsets, lanes, tile_numbers, _LONG_NUMBERS, self.row_numbers, sequences, self.lengths)


def _deal(tasks, n_chunks):
    """Return at most ``n_chunks`` lists of consecutive tasks of about the same number of tokens."""
    tokens = np.cumsum([task.n_tokens for task in tasks])
    if not len(tokens):
        return []
    chunk = (tokens - 1) * n_chunks // tokens[-1]
    return [[tasks[i] for i in np.flatnonzero(chunk == c)] for c in np.unique(chunk)]


class ChainModel:
    """A high-order CRF with numbers in it.

    Parameters
    ----------
    layout : WeightLayout
        Which weights there are.
    weights : ndarray of shape (n_weights,)
        Their values; -inf for the bias of a forbidden pattern.
    dense_table : ndarray or None
        That of the layout, with the weights; or an empty one for plans without a dense table.
    """

    def __init__(self, layout: WeightLayout, weights, dense_table=None):
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
        self.scales = not len(constant) or bool(constant.min() - self.weighted_arcs.log_shift > chain.LOWEST_LOG)

    def expectations(self, plan: Plan, sequence_weight=None, n_jobs=None) -> Expectations:
        """Return partition functions and expected counts."""
        weight = np.ones(plan.n_sequences) if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        log_z = np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.workspace() as tables:
                run = _ExpectationPass(tables, self, plan, log_z, weight)
                for task in chunk:
                    run.backward(task)
                return run.sums()

        return Expectations(log_z, self.counts(add_up(in_order(work, plan, n_jobs))))

    def add_expectations(self, plan: Plan, sequences, sequence_weight, gradient, log_z) -> tuple:
        """Add the expected counts of the pairs of some sequences to ``gradient``, and write their log Z.

        The model and the plan have no dense table, so that the work goes by the sequences and not by the weights.

        Parameters
        ----------
        plan : Plan
            That of a whole batch.
        sequences : ndarray of int
            Numbers of some sequences of the batch.
        sequence_weight : ndarray of shape (n_sequences,)
            Weights of all sequences.
        gradient : ndarray of shape (n_pairs,)
            In and out.
        log_z : ndarray of shape (n_sequences,)
            Out, for the given sequences.

        Returns
        -------
        arcs : ndarray of shape (A,)
            Expected counts of the arcs; for segments those of lengths follow.
        """
        with plan.workspace() as tables:
            run = _ExpectationPass(tables, self, plan, log_z, sequence_weight, gradient)
            for task in plan.cut(sequences):
                run.backward(task)
            return run.sums()[2:]

    def expectation_slopes(self, plan: Plan, direction, sequence_weight=None, n_jobs=None) -> np.ndarray:
        """Return the derivatives of the expected counts along a direction of the weights; shape (n_weights,).

        They are the product of the Hessian of sum c_n log Z_n and the direction: kernels on dual numbers give them in
        one forward and backward pass (algorithm: perturbed marginals).
        """
        weight = np.ones(plan.n_sequences) if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        slope, log_z = ChainModel(self.layout, SMALL_STEP * np.asarray(direction)), np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.workspace() as tables:
                run = DerivativePass(tables, self, slope, plan, log_z, weight)
                for task in chunk:
                    run.backward(task)
                return run.sums()

        return self.counts(add_up(in_order(work, plan, n_jobs))) / SMALL_STEP

    def counts(self, sums):
        """Return the counts of all weights' features, given those of pairs, dense features and arcs."""
        if sums is None:  # there is no data
            return np.zeros(self.layout.n_weights)
        pairs, dense, arcs = sums
        self.layout.add_dense(dense, pairs)
        return np.concatenate([pairs, self.layout.sum_over_suffixes(arcs)])

    def log_partition(self, batch: SequenceBatch, n_jobs=None, plan=None) -> np.ndarray:
        """Return log Z of each sequence, 0 for empty ones; shape (n_sequences,).

        Raises
        ------
        ValueError
            Here and in the other answers: if the model forbids every labelling of a sequence.
        """
        plan = Plan(self.layout, batch) if plan is None else plan
        log_z = np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.workspace() as tables:
                run = _Pass(tables, self, plan, log_z)
                for task in chunk:
                    run.partition(task)

        for _ in in_order(work, plan, n_jobs):
            pass
        return log_z

    def marginals(self, batch: SequenceBatch, n_jobs=None) -> np.ndarray:
        """Return the label marginals of each token; shape (N, n_labels), rows sum to 1."""
        table = self._column_marginals(batch, self.layout.automaton.n_labels, n_jobs)
        np.clip(table, 0.0, None, out=table)
        return np.divide(table, table.sum(axis=1, keepdims=True), out=table)

    def _column_marginals(self, batch, n_columns, n_jobs):
        plan = Plan(self.layout, batch)
        table = np.empty((batch.n_tokens, n_columns))
        log_z = np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.workspace() as tables:
                run = _MarginalPass(tables, self, plan, table, log_z)
                for task in chunk:
                    run.backward(task)

        for _ in in_order(work, plan, n_jobs):
            pass
        return table

    def pattern_marginals(self, batch: SequenceBatch, patterns, n_jobs=None) -> np.ndarray:
        """Return the probabilities that an occurrence of each pattern ends at each token; shape (N, n_given).

        The given patterns become score columns of weight 0 in a copy of the model: they change nothing but are counted.
        """
        patterns = [tuple(pattern) for pattern in patterns]
        layout, columns = self.layout.with_columns([(pattern, BEGIN) for pattern in patterns])
        table = ChainModel(layout, self.weights)._column_marginals(batch, layout.pairs.n_columns, n_jobs)
        return np.clip(table[:, columns], 0.0, 1.0)

    def log_score(self, batch: SequenceBatch, codes) -> np.ndarray:
        """Return the log potential of the given labels of each sequence, -inf where forbidden; shape (n_sequences,)."""
        arcs = label_arcs(self.layout.automaton, batch.offsets, codes)
        scores = np.empty(batch.n_tokens)
        layout = self.layout
        token_scores.label_scores(layout.rows(batch), layout.pairs, self.pair_weights, arcs, layout.arc_columns, scores)
        scores += self.weighted_arcs.arc_score[arcs]
        sequence = np.repeat(np.arange(len(batch)), batch.lengths)
        return np.bincount(sequence, weights=scores, minlength=len(batch))

    def decode(self, batch: SequenceBatch, n_jobs=None) -> np.ndarray:
        """Return the most probable labels; ties go to the lowest label; shape (N,), int32."""
        plan = Plan(self.layout, batch)
        codes = np.empty(batch.n_tokens, dtype=np.int32)

        def work(chunk):
            with plan.workspace() as tables:
                run = DecodePass(tables, self, plan, codes)
                for task in chunk:
                    run.decode(task)

        for _ in in_order(work, plan, n_jobs):
            pass
        return codes


def in_order(work, plan, n_jobs):
    """Return ``work(chunk)`` for each chunk, in order, from ``n_jobs`` threads, the caller's among them.

    joblib says how many threads; its own pool looks for results every 10 ms only, longer than many a gradient takes.
    Where calls of kernels take long, the caller's thread does no work: Python answers an interrupt (Ctrl-C) only there,
    and between calls.
    """
    chunks = plan.chunks
    n_threads = min(effective_n_jobs(n_jobs), len(chunks))
    if n_threads <= 1 and not (chunks and plan.calls_are_long):
        return map(work, chunks)
    results = [None] * len(chunks)
    numbers = iter(range(len(chunks)))  # shared: each thread takes the next

    def run():
        for number in numbers:
            results[number] = work(chunks[number])

    halt = plan.halt = Event()
    n_others = n_threads if plan.calls_are_long else n_threads - 1
    others: list = []
    try:
        for _ in range(n_others):
            others.append(plan.threads(n_others).submit(run))
        if not plan.calls_are_long:
            run()
        while wait(others, timeout=_LOOK_UP).not_done:  # some systems do not interrupt a wait without end
            pass
    except BaseException as error:
        halt.set()  # the others end where they next need memory
        if isinstance(error, Exception):
            wait(others)
        raise
    for other in others:
        other.result()  # raises what the thread raised
    return results


def add_up(parts):
    """Return the sums of the arrays in tuples, position by position; None where there are no tuples."""
    totals = None
    for part in parts:
        if totals is None:
            totals = part
        else:
            for total, array in zip(totals, part, strict=True):
                total += array
    return totals


def refuse_impossible(sequences, scores):
    """Raise unless each sequence has a finite score: its log Z, or that of its best labelling."""
    bad = np.flatnonzero(~np.isfinite(scores))
    if not len(bad):
        return
    first = bad[np.argmin(np.asarray(sequences)[bad])]
    if np.asarray(scores)[first] == -np.inf:
        raise ValueError(f"sequence {sequences[first]}: the model forbids every labelling of it")
    raise ValueError(
        f"sequence {sequences[first]}: its scores are beyond floating point numbers; its feature values, or the "
        "weights, are too large"
    )


def lanes_of(tile) -> int:
    """Return the number of sequences side by side."""
    return tile.length.shape[1]


def lane_kind_of(tile):
    """Return what tells a kernel whether to work on vectors or on single numbers."""
    return chain.LANES if lanes_of(tile) > 1 else None


class Workspace:
    """Arrays for one tile at a time, cut out of memory that is reused."""

    def __init__(self):
        self._memory = {}
        self.halt = Event()

    def __call__(self, name, *shape):
        if self.halt.is_set():
            raise CancelledError
        size = math.prod(shape)
        if name not in self._memory or self._memory[name].size < size:
            self._memory[name] = np.empty(size)
        return self._memory[name][:size].reshape(shape)


class BasePass:
    """What the passes over one chunk have in common.

    Workspace have one column a lane; with ``parts = 2`` they hold dual numbers: another column a lane for derivatives
    along the direction of the weights that the model ``slope`` holds.
    """

    parts = 1

    def __init__(self, tables: Workspace, model, plan, log_z, sequence_weight=None):
        self.tables, self.model, self.plan, self.log_z = tables, model, plan, log_z
        self.layout, self.weighted_arcs, self.log_weighted_arcs = model.layout, model.weighted_arcs, model.weighted_arcs
        self.sequence_weight = sequence_weight
        self.pair_weights, self.dense_weights = (model.pair_weights, model.pair_weights), model.dense_table
        self._sums = {}

    def _use_slope(self, slope):
        """Make scores dual numbers."""
        self.weighted_arcs = weighted_arcs(self.layout, self.model.weights, slope.weights)
        arc_score = freeze(self.weighted_arcs.arc_score + 1j * self.weighted_arcs.arc_slope, np.complex128)
        self.log_weighted_arcs = self.weighted_arcs._replace(arc_score=arc_score)
        self.pair_weights = self.model.pair_weights, slope.pair_weights
        dense = np.concatenate([self.model.dense_table, slope.dense_table], axis=1)
        self.dense_weights = freeze(dense, np.float64)

    def _width(self, tile):
        """Return what tells a kernel whether to work on vectors or single numbers, and on dual ones or not."""
        width = lane_kind_of(tile)
        return width if self.parts == 1 else (width,)

    def _columns(self, tile):
        return lanes_of(tile) * self.parts

    def _in_log_space(self, table):
        """Return a table of one lane as kernels in log space take it: there, dual numbers are complex ones."""
        return table if self.parts == 1 else table.view(np.complex128)

    def _with_slopes(self, table):
        """Return a table with derivatives of 0, if there are any."""
        if self.parts == 1:
            return table
        return np.concatenate([table] + [np.zeros_like(table)] * (self.parts - 1), axis=1)

    def _sum(self, name, size, columns):
        """Return sums by column for kernels to add to, shape (size, columns)."""
        if (name, columns) not in self._sums:
            self._sums[name, columns] = np.zeros((size, columns))
        return self._sums[name, columns]

    def _arcs(self, columns):
        """Return the sums of arc marginals, for kernels of so many columns to add to."""
        columns = self.parts * (1 if columns == self.parts else chain.FOLDED)
        return self._sum("arcs", self.layout.automaton.n_arcs, columns)

    def _total(self, name, size):
        """Return a sum over all lanes; of dual numbers, the derivatives."""
        totals = np.zeros(size)
        for (other, columns), table in sorted(self._sums.items()):
            if other == name:
                totals += table[:, -(columns // self.parts) :].sum(axis=1)
        return totals

    def _weight(self, sequences):
        if self.sequence_weight is None:
            return np.where(sequences >= 0, 1.0, 0.0)
        return np.where(sequences >= 0, self.sequence_weight[sequences], 0.0)


class _Pass(BasePass):
    """Forward passes of one chunk."""

    def __init__(self, tables: Workspace, model: ChainModel, plan: Plan, log_z, sequence_weight=None):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self._starts = {}  # by number of lanes

    def partition(self, task: Task):
        """Store log Z of the sequences of a task."""
        for sequence in self.forward(task)[2]:
            self.log_z[sequence] = self._forward_log(self.plan.alone(sequence))[0]

    def forward(self, task: Task):
        """Run the scaled forward passes of a task and store log Z.

        Returns the alpha in front of each tile, the lanes that went well, and the sequences to be done again in log
        space.
        """
        filled = task.sequences >= 0
        log_scale = self._with_slopes(np.zeros(filled.shape))
        suspect = self._with_slopes(np.full(filled.shape, 0.0 if self.model.scales else 1.0))
        checkpoints, carry = [], self._start(filled.shape[1])
        for tile in task.tiles if self.model.scales else ():
            checkpoints.append(carry)
            alpha, inverse_scale = self._forward_tile(tile, carry, log_scale, suspect)
            if len(task.tiles) > 1:
                carry = self._product(alpha, inverse_scale)
        lanes = filled.shape[1]
        alive = filled & (suspect[:, :lanes] == 0)
        self.log_z[task.sequences[alive]] = log_scale[:, :lanes][alive]
        return checkpoints, alive, np.sort(task.sequences[filled & ~alive])

    def _product(self, left, right):
        if self.parts == 1:
            return left * right
        (x, dx), (y, dy) = np.split(left, 2, axis=-1), np.split(right, 2, axis=-1)
        return np.concatenate([x * y, x * dy + dx * y], axis=-1)

    def _start(self, lanes):
        """Return alpha in front of the first position: all mass on the empty pattern; shape (P, lanes)."""
        if lanes not in self._starts:
            self._starts[lanes] = np.zeros((self.layout.automaton.n_states, lanes * self.parts))
            self._starts[lanes][0, :lanes] = 1.0
        return self._starts[lanes]

    def _score(self, tile):
        scores = self.tables("scores", int(tile.rows[-1]) * self.layout.pairs.n_columns, self._columns(tile))
        token_scores.score_rows(self.plan.rows, self.layout.pairs, *self.pair_weights, self.dense_weights, tile, scores)
        return scores

    def _varying_scores(self, scores):
        n_columns = self.layout.pairs.n_columns
        varying_log = self.tables("varying", len(scores) // n_columns * self.plan.n_varying, scores.shape[1])
        token_scores.varying_scores(self.weighted_arcs, n_columns, scores, varying_log)
        return varying_log

    def _scratch(self, tile):
        network, n_states = self.layout.network, self.layout.automaton.n_states
        n_values, n_adjoints = n_states + len(network.starts), self.layout.automaton.n_arcs + len(network.back_starts)
        return self.tables("scratch", n_values + max(n_values, n_adjoints), self._columns(tile))

    def _tile_tables(self, tile):
        """Return the tables of varying, alpha and inverse scales of a tile."""
        n_rows, n_blocks, lanes = int(tile.rows[-1]), len(tile.length), self._columns(tile)
        return (
            self.tables("varying", n_rows * self.plan.n_varying, lanes),
            self.tables("alpha", (n_rows + n_blocks) * self.layout.automaton.n_states, lanes),
            self.tables("inverse_scale", n_rows, lanes),
        )

    def _forward_tile(self, tile, carry, log_scale, suspect):
        """Run the forward pass of a tile and return the last alpha of its last block, and 1 / its total."""
        scores = self._score(tile)
        varying, alpha, inverse_scale = self._tile_tables(tile)
        chain.exponentiate(self._width(tile), self.weighted_arcs, tile, scores, varying, log_scale, suspect)
        tables = (carry, scores, varying, alpha, inverse_scale, log_scale, suspect)
        chain.forward(self._width(tile), self.weighted_arcs, tile, self._scratch(tile), *tables)
        return alpha[-len(carry) :], inverse_scale[-1]

    def _forward_log(self, task):
        """Return log Z of one sequence and the checkpoints, in log space."""
        n_states = self.layout.automaton.n_states
        carry = self._in_log_space(np.zeros((n_states, self.parts)))[:, 0]
        carry[1:] = -np.inf
        checkpoints, log_z = [], 0.0
        for tile in task.tiles:
            checkpoints.append(carry)
            alpha, log_scale = self._forward_log_tile(tile, carry)[2:]
            carry = alpha[-1].copy()
            log_z += log_scale.real
            refuse_impossible(task.sequences[0], [log_z])
        return log_z, checkpoints

    def _forward_log_tile(self, tile, carry):
        scores = self._score(tile)
        varying_log = self._varying_scores(scores)
        scores, varying_log = self._in_log_space(scores), self._in_log_space(varying_log)
        alpha = self._in_log_space(self.tables("alpha", int(tile.rows[-1]) + 1, len(carry) * self.parts))
        alpha[0] = carry
        return scores, varying_log, alpha, chain_log.forward_log(self.log_weighted_arcs, scores, varying_log, alpha)


class BackwardPass(_Pass):
    """Forward and backward passes of one chunk."""

    def backward(self, task: Task):
        checkpoints, alive, redone = self.forward(task)
        if alive.any():
            weight = np.where(alive, self._weight(task.sequences), 0.0)
            beta = self._with_slopes(np.ones((self.layout.automaton.n_states, weight.shape[1])))
            for number in range(len(task.tiles) - 1, -1, -1):
                tile = task.tiles[number]
                if len(task.tiles) > 1:  # the tables hold the last tile
                    again = np.zeros_like(weight), np.where(alive, 0.0, 1.0)
                    self._forward_tile(tile, checkpoints[number], *map(self._with_slopes, again))
                scores = self._backward_tile(tile, self._with_slopes(weight), beta)
                self._receive(tile, scores, weight)
        for sequence in redone:
            self._backward_log(sequence)

    def _backward_tile(self, tile, weight, beta):
        scores = self.tables("scores", int(tile.rows[-1]) * self.layout.pairs.n_columns, self._columns(tile))
        varying, alpha, inverse_scale = self._tile_tables(tile)
        tables = (scores, varying, alpha, inverse_scale, weight, beta, self._arcs(self._columns(tile)))
        chain.backward(self._width(tile), self.weighted_arcs, tile, self._scratch(tile), *tables)
        return scores

    def _backward_log(self, sequence):
        task = self.plan.alone(sequence)
        self.log_z[sequence], checkpoints = self._forward_log(task)
        weight = self._weight(task.sequences)
        beta = self._in_log_space(np.zeros((self.layout.automaton.n_states, self.parts)))[:, 0]
        counts = self._in_log_space(self._arcs(self.parts))
        for tile, carry in zip(task.tiles[::-1], checkpoints[::-1], strict=True):
            scores, varying_log, alpha, _ = self._forward_log_tile(tile, carry)
            chain_log.backward_log(self.log_weighted_arcs, scores, varying_log, alpha, weight[0, 0], beta, counts)
            self._receive(tile, scores.view(np.float64), weight)


class _ExpectationPass(BackwardPass):
    """Sums up expected counts."""

    def __init__(self, tables, model, plan, log_z, sequence_weight, gradient=None):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self.gradient = np.zeros(self.layout.n_pairs) if gradient is None else gradient
        self.dense = np.zeros(model.dense_table.shape)

    def _receive(self, tile, marginals, weight):
        pairs = self.layout.pairs
        token_scores.add_expectations(self.plan.rows, pairs, tile, marginals, weight, self.gradient, self.dense)

    def sums(self):
        """Return the counts of pairs, dense features and arcs, weighted by sequence."""
        return self.gradient, self.dense, self._total("arcs", self.layout.automaton.n_arcs)


class DerivativePass(_ExpectationPass):
    """Sums up the derivatives of expected counts along a direction of the weights, on dual numbers."""

    parts = 2

    def __init__(self, tables, model, slope, plan, log_z, sequence_weight):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self._use_slope(slope)


class _MarginalPass(BackwardPass):
    """Writes marginals to a table of one row per token."""

    def __init__(self, tables, model, plan, table, log_z):
        super().__init__(tables, model, plan, log_z)
        self.table = table

    def _receive(self, tile, marginals, weight):
        token_scores.gather(tile, self.layout.pairs.n_columns, marginals, weight, self.table)


class DecodePass(_Pass):
    """Viterbi decoding of one chunk; ``best`` (n_sequences,), if any, receives the highest scores."""

    def __init__(self, tables, model, plan, codes, best=None):
        super().__init__(tables, model, plan, None)
        self.codes, self.best = codes, best

    def decode(self, task: Task):
        carry = np.zeros((self.layout.automaton.n_states, task.sequences.shape[1]))
        checkpoints = []
        for tile in task.tiles[:0:-1]:
            checkpoints.append(carry)
            carry = self._backward_max(tile, carry)[2][: len(carry)].copy()
        checkpoints.append(carry)
        state = np.zeros(task.sequences.shape, dtype=np.int32)
        for tile in task.tiles:
            scores, varying_log, beta = self._backward_max(tile, checkpoints.pop())
            if tile is task.tiles[0]:
                firsts = (tile.rows[:-1] + np.arange(len(tile.length))) * len(carry)
                filled = task.sequences >= 0
                refuse_impossible(task.sequences[filled], beta[firsts][filled])
                if self.best is not None:
                    self.best[task.sequences[filled]] = beta[firsts][filled]
            chain.walk(self.weighted_arcs, tile, scores, varying_log, beta, state, self.codes)

    def _backward_max(self, tile, carry):
        scores = self._score(tile)
        varying_log = self._varying_scores(scores)
        n_states, n_blocks = len(carry), len(tile.length)
        beta = self.tables("alpha", (int(tile.rows[-1]) + n_blocks) * n_states, self._columns(tile))
        beta.reshape(-1, n_states, self._columns(tile))[tile.rows[1:] + np.arange(n_blocks)] = carry
        chain.backward_max(self._width(tile), self.weighted_arcs, tile, self._scratch(tile), scores, varying_log, beta)
        return scores, varying_log, beta

"""Questions about a whole batch: partition functions, marginals, expected counts, best labels.

A batch is cut into pieces that fit the cache; a piece goes through scores, kernels and adjoint on one thread. Pieces
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

from ._batch import Piece, SequenceBatch, cut_pieces, freeze
from ._kernels import chain, chain_log, rows
from ._patterns import given_patterns
from ._potentials import WeightLayout, build_lattice, label_arcs

__all__ = [
    "BackwardRun",
    "BasePlan",
    "BaseRun",
    "ChainModel",
    "DecodeRun",
    "DerivativeRun",
    "Expectations",
    "Plan",
    "Tables",
    "add_up",
    "in_order",
    "lanes_of",
    "refuse_impossible",
    "width_of",
]

_SLAB_NUMBERS = 1 << 17, 1 << 18  # 1 to 2 MiB of doubles, but at least _SLAB_ROWS: a call from Python costs some rows
_MANY_PIECES = 8  # as long as so many are left for several threads, slabs are large
_SLAB_ROWS = 32
_LONG_NUMBERS = 1 << 22  # 32 MiB: longer blocks are cut by position
_MOST_CHUNKS = 16
_LOOK_UP = 0.1  # seconds

SMALL_STEP = 2.0**-66  # of derivatives: kernels in log space take complex steps, whose squares must vanish beside 1


class Expectations(NamedTuple):
    """What one forward and backward pass over a batch gives.   n sequences."""

    log_z: np.ndarray  # (n,)   log partition functions
    counts: np.ndarray  # (n_weights,)   expected counts of all weights' features, weighted by sequence


class BasePlan:
    """How a batch is cut into pieces, which are dealt out to chunks; and what threads keep between evaluations."""

    calls_are_long = False  # whether a call of a kernel may take longer than users want to wait after Ctrl-C
    halt = Event()  # set when nobody waits for the evaluation any more; each has its own

    def _start(self, pieces, work):
        """Deal out pieces; ``work`` is about how many operations the data are worth."""
        # each chunk costs a private gradient: not more of them than the work on the data is worth
        n_chunks = int(np.clip(work // (32 * max(self.layout.n_weights, 1)), 4, _MOST_CHUNKS))
        self.chunks = _deal(pieces, n_chunks)
        self._spare_tables = []
        self._threads = {}  # pools by number of threads; they end with the plan

    @contextmanager
    def tables(self):
        """Lend memory for the tables of one thread; it is kept for the next evaluation."""
        tables = self._spare_tables.pop() if self._spare_tables else Tables()
        tables.halt = self.halt
        yield tables
        self._spare_tables.append(tables)

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
    """How a batch is cut into pieces and chunks, for models of one layout."""

    def __init__(self, layout: WeightLayout, batch: SequenceBatch):
        self.layout = layout
        self.batch, self.offsets, self.lengths = batch, batch.offsets, batch.lengths
        self.rows = layout.rows(batch)
        self.n_sequences = len(batch)
        self.n_slots = len(layout.slot_tables[1])
        self.row_numbers = layout.automaton.n_states + layout.pairs.n_columns + self.n_slots + 1
        work = len(batch.indices) + batch.n_tokens * (self.row_numbers + len(layout.network.terms))
        self._start(self.cut(np.arange(len(batch))), work)

    def cut(self, sequences) -> list[Piece]:
        """Return the pieces of some sequences."""
        numbers = np.clip(len(self.rows.singles) * self.row_numbers // _MANY_PIECES, *_SLAB_NUMBERS)
        return self._pieces(chain.LANES, max(int(numbers), _SLAB_ROWS * chain.LANES * self.row_numbers), sequences)

    def alone(self, sequence) -> Piece:
        """Return the piece of one sequence, in a block of one lane."""
        return self._pieces(1, 0, [sequence])[0]

    def _pieces(self, lanes, slab_numbers, sequences):
        return cut_pieces(self.offsets, lanes, slab_numbers, _LONG_NUMBERS, self.row_numbers, sequences, self.lengths)


def _deal(pieces, n_chunks):
    """Return at most ``n_chunks`` lists of consecutive pieces of about the same number of tokens."""
    tokens = np.cumsum([piece.n_tokens for piece in pieces])
    if not len(tokens):
        return []
    chunk = (tokens - 1) * n_chunks // tokens[-1]
    return [[pieces[i] for i in np.flatnonzero(chunk == c)] for c in np.unique(chunk)]


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
        self.lattice = build_lattice(layout, self.weights)
        constant = self.lattice.arc_score[(self.lattice.arc_slot < 0) & (self.lattice.arc_score > -np.inf)]
        self.scales = not len(constant) or bool(constant.min() - self.lattice.log_shift > chain.LOWEST_LOG)

    def expectations(self, plan: Plan, sequence_weight=None, n_jobs=None) -> Expectations:
        """Return partition functions and expected counts."""
        weight = np.ones(plan.n_sequences) if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        log_z = np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.tables() as tables:
                run = _ExpectationRun(tables, self, plan, log_z, weight)
                for piece in chunk:
                    run.backward(piece)
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
        with plan.tables() as tables:
            run = _ExpectationRun(tables, self, plan, log_z, sequence_weight, gradient)
            for piece in plan.cut(sequences):
                run.backward(piece)
            return run.sums()[2:]

    def expectation_slopes(self, plan: Plan, direction, sequence_weight=None, n_jobs=None) -> np.ndarray:
        """Return the derivatives of the expected counts along a direction of the weights; shape (n_weights,).

        They are the product of the Hessian of sum c_n log Z_n and the direction: kernels on dual numbers give them in
        one forward and backward pass (algorithm: perturbed marginals).
        """
        weight = np.ones(plan.n_sequences) if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        slope, log_z = ChainModel(self.layout, SMALL_STEP * np.asarray(direction)), np.zeros(plan.n_sequences)

        def work(chunk):
            with plan.tables() as tables:
                run = DerivativeRun(tables, self, slope, plan, log_z, weight)
                for piece in chunk:
                    run.backward(piece)
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
            with plan.tables() as tables:
                run = _Run(tables, self, plan, log_z)
                for piece in chunk:
                    run.partition(piece)

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
            with plan.tables() as tables:
                run = _MarginalRun(tables, self, plan, table, log_z)
                for piece in chunk:
                    run.backward(piece)

        for _ in in_order(work, plan, n_jobs):
            pass
        return table

    def pattern_marginals(self, batch: SequenceBatch, patterns, n_jobs=None) -> np.ndarray:
        """Return the probabilities that an occurrence of each pattern ends at each token; shape (N, n_given).

        The given patterns become score columns of weight 0 in a copy of the model: they change nothing but are counted.
        """
        patterns = [tuple(pattern) for pattern in patterns]
        model = self._with_columns(patterns)
        table = model._column_marginals(batch, model.layout.pairs.n_columns, n_jobs)
        row = {pattern: number for number, pattern in enumerate(model.layout.patterns.tuples())}
        columns = np.searchsorted(model.layout.column_pattern, [row[pattern] for pattern in patterns])
        return np.clip(table[:, columns], 0.0, 1.0)

    def _with_columns(self, patterns):
        layout = self.layout
        table = given_patterns([*layout.patterns.tuples(), *patterns], layout.automaton.n_labels)
        wider = layout.extended(table, patterns)
        return ChainModel(wider, self.weights)  # patterns keep their relative order, so weights keep their places

    def log_score(self, batch: SequenceBatch, codes) -> np.ndarray:
        """Return the log potential of the given labels of each sequence, -inf where forbidden; shape (n_sequences,)."""
        arcs = label_arcs(self.lattice, batch.offsets, codes)
        scores = np.empty(batch.n_tokens)
        layout = self.layout
        rows.label_scores(layout.rows(batch), layout.pairs, self.pair_weights, arcs, layout.arc_columns, scores)
        scores += self.lattice.arc_score[arcs]
        sequence = np.repeat(np.arange(len(batch)), batch.lengths)
        return np.bincount(sequence, weights=scores, minlength=len(batch))

    def decode(self, batch: SequenceBatch, n_jobs=None) -> np.ndarray:
        """Return the most probable labels; ties go to the lowest label; shape (N,), int32."""
        plan = Plan(self.layout, batch)
        codes = np.empty(batch.n_tokens, dtype=np.int32)

        def work(chunk):
            with plan.tables() as tables:
                run = DecodeRun(tables, self, plan, codes)
                for piece in chunk:
                    run.decode(piece)

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


def lanes_of(slab) -> int:
    """Return the number of sequences side by side."""
    return slab.length.shape[1]


def width_of(slab):
    """Return what tells a kernel whether to work on vectors or on single numbers."""
    return chain.LANES if lanes_of(slab) > 1 else None


class Tables:
    """Arrays for one slab at a time, cut out of memory that is reused."""

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


class BaseRun:
    """What the passes over one chunk have in common.

    Tables have one column a lane; with ``parts = 2`` they hold dual numbers: another column a lane for derivatives
    along the direction of the weights that the model ``slope`` holds.
    """

    parts = 1

    def __init__(self, tables: Tables, model, plan, log_z, sequence_weight=None):
        self.tables, self.model, self.plan, self.log_z = tables, model, plan, log_z
        self.layout, self.lattice, self.log_lattice = model.layout, model.lattice, model.lattice
        self.sequence_weight = sequence_weight
        self.pair_weights, self.dense_weights = (model.pair_weights, model.pair_weights), model.dense_table
        self._sums = {}

    def _use_slope(self, slope):
        """Make scores dual numbers."""
        self.lattice = build_lattice(self.layout, self.model.weights, slope.weights)
        arc_score = freeze(self.lattice.arc_score + 1j * self.lattice.arc_slope, np.complex128)
        self.log_lattice = self.lattice._replace(arc_score=arc_score)
        self.pair_weights = self.model.pair_weights, slope.pair_weights
        dense = np.concatenate([self.model.dense_table, slope.dense_table], axis=1)
        self.dense_weights = freeze(dense, np.float64)

    def _width(self, slab):
        """Return what tells a kernel whether to work on vectors or single numbers, and on dual ones or not."""
        width = width_of(slab)
        return width if self.parts == 1 else (width,)

    def _columns(self, slab):
        return lanes_of(slab) * self.parts

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


class _Run(BaseRun):
    """Forward passes of one chunk."""

    def __init__(self, tables: Tables, model: ChainModel, plan: Plan, log_z, sequence_weight=None):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self._starts = {}  # by number of lanes

    def partition(self, piece: Piece):
        """Store log Z of the sequences of a piece."""
        for sequence in self.forward(piece)[2]:
            self.log_z[sequence] = self._forward_log(self.plan.alone(sequence))[0]

    def forward(self, piece: Piece):
        """Run the scaled forward passes of a piece and store log Z.

        Returns the alpha in front of each slab, the lanes that went well, and the sequences to be done again in log
        space.
        """
        filled = piece.sequences >= 0
        log_scale = self._with_slopes(np.zeros(filled.shape))
        suspect = self._with_slopes(np.full(filled.shape, 0.0 if self.model.scales else 1.0))
        checkpoints, carry = [], self._start(filled.shape[1])
        for slab in piece.slabs if self.model.scales else ():
            checkpoints.append(carry)
            alpha, inverse_scale = self._forward_slab(slab, carry, log_scale, suspect)
            if len(piece.slabs) > 1:
                carry = self._product(alpha, inverse_scale)
        lanes = filled.shape[1]
        alive = filled & (suspect[:, :lanes] == 0)
        self.log_z[piece.sequences[alive]] = log_scale[:, :lanes][alive]
        return checkpoints, alive, np.sort(piece.sequences[filled & ~alive])

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

    def _score(self, slab):
        scores = self.tables("scores", int(slab.rows[-1]) * self.layout.pairs.n_columns, self._columns(slab))
        rows.score_rows(self.plan.rows, self.layout.pairs, *self.pair_weights, self.dense_weights, slab, scores)
        return scores

    def _slot_scores(self, scores):
        n_columns = self.layout.pairs.n_columns
        dynamic = self.tables("factors", len(scores) // n_columns * self.plan.n_slots, scores.shape[1])
        rows.slot_scores(self.lattice, n_columns, scores, dynamic)
        return dynamic

    def _scratch(self, slab):
        network, n_states = self.layout.network, self.layout.automaton.n_states
        n_values, n_adjoints = n_states + len(network.starts), self.layout.automaton.n_arcs + len(network.back_starts)
        return self.tables("scratch", n_values + max(n_values, n_adjoints), self._columns(slab))

    def _slab_tables(self, slab):
        """Return the tables of factors, alpha and inverse scales of a slab."""
        n_rows, n_blocks, lanes = int(slab.rows[-1]), len(slab.length), self._columns(slab)
        return (
            self.tables("factors", n_rows * self.plan.n_slots, lanes),
            self.tables("alpha", (n_rows + n_blocks) * self.layout.automaton.n_states, lanes),
            self.tables("inverse_scale", n_rows, lanes),
        )

    def _forward_slab(self, slab, carry, log_scale, suspect):
        """Run the forward pass of a slab and return the last alpha of its last block, and 1 / its total."""
        scores = self._score(slab)
        factors, alpha, inverse_scale = self._slab_tables(slab)
        chain.exponentiate(self._width(slab), self.lattice, slab, scores, factors, log_scale, suspect)
        tables = (carry, scores, factors, alpha, inverse_scale, log_scale, suspect)
        chain.forward(self._width(slab), self.lattice, slab, self._scratch(slab), *tables)
        return alpha[-len(carry) :], inverse_scale[-1]

    def _forward_log(self, piece):
        """Return log Z of one sequence and the checkpoints, in log space."""
        n_states = self.layout.automaton.n_states
        carry = self._in_log_space(np.zeros((n_states, self.parts)))[:, 0]
        carry[1:] = -np.inf
        checkpoints, log_z = [], 0.0
        for slab in piece.slabs:
            checkpoints.append(carry)
            alpha, log_scale = self._forward_log_slab(slab, carry)[2:]
            carry = alpha[-1].copy()
            log_z += log_scale.real
            refuse_impossible(piece.sequences[0], [log_z])
        return log_z, checkpoints

    def _forward_log_slab(self, slab, carry):
        scores = self._score(slab)
        dynamic = self._slot_scores(scores)
        scores, dynamic = self._in_log_space(scores), self._in_log_space(dynamic)
        alpha = self._in_log_space(self.tables("alpha", int(slab.rows[-1]) + 1, len(carry) * self.parts))
        alpha[0] = carry
        return scores, dynamic, alpha, chain_log.forward_log(self.log_lattice, scores, dynamic, alpha)


class BackwardRun(_Run):
    """Forward and backward passes of one chunk."""

    def backward(self, piece: Piece):
        checkpoints, alive, redone = self.forward(piece)
        if alive.any():
            weight = np.where(alive, self._weight(piece.sequences), 0.0)
            beta = self._with_slopes(np.ones((self.layout.automaton.n_states, weight.shape[1])))
            for number in range(len(piece.slabs) - 1, -1, -1):
                slab = piece.slabs[number]
                if len(piece.slabs) > 1:  # the tables hold the last slab
                    again = np.zeros_like(weight), np.where(alive, 0.0, 1.0)
                    self._forward_slab(slab, checkpoints[number], *map(self._with_slopes, again))
                scores = self._backward_slab(slab, self._with_slopes(weight), beta)
                self._receive(slab, scores, weight)
        for sequence in redone:
            self._backward_log(sequence)

    def _backward_slab(self, slab, weight, beta):
        scores = self.tables("scores", int(slab.rows[-1]) * self.layout.pairs.n_columns, self._columns(slab))
        factors, alpha, inverse_scale = self._slab_tables(slab)
        tables = (scores, factors, alpha, inverse_scale, weight, beta, self._arcs(self._columns(slab)))
        chain.backward(self._width(slab), self.lattice, slab, self._scratch(slab), *tables)
        return scores

    def _backward_log(self, sequence):
        piece = self.plan.alone(sequence)
        self.log_z[sequence], checkpoints = self._forward_log(piece)
        weight = self._weight(piece.sequences)
        beta = self._in_log_space(np.zeros((self.layout.automaton.n_states, self.parts)))[:, 0]
        counts = self._in_log_space(self._arcs(self.parts))
        for slab, carry in zip(piece.slabs[::-1], checkpoints[::-1], strict=True):
            scores, dynamic, alpha, _ = self._forward_log_slab(slab, carry)
            chain_log.backward_log(self.log_lattice, scores, dynamic, alpha, weight[0, 0], beta, counts)
            self._receive(slab, scores.view(np.float64), weight)


class _ExpectationRun(BackwardRun):
    """Sums up expected counts."""

    def __init__(self, tables, model, plan, log_z, sequence_weight, gradient=None):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self.gradient = np.zeros(self.layout.n_pairs) if gradient is None else gradient
        self.dense = np.zeros(model.dense_table.shape)

    def _receive(self, slab, marginals, weight):
        pairs = self.layout.pairs
        rows.add_expectations(self.plan.rows, pairs, slab, marginals, weight, self.gradient, self.dense)

    def sums(self):
        """Return the counts of pairs, dense features and arcs, weighted by sequence."""
        return self.gradient, self.dense, self._total("arcs", self.layout.automaton.n_arcs)


class DerivativeRun(_ExpectationRun):
    """Sums up the derivatives of expected counts along a direction of the weights, on dual numbers."""

    parts = 2

    def __init__(self, tables, model, slope, plan, log_z, sequence_weight):
        super().__init__(tables, model, plan, log_z, sequence_weight)
        self._use_slope(slope)


class _MarginalRun(BackwardRun):
    """Writes marginals to a table of one row per token."""

    def __init__(self, tables, model, plan, table, log_z):
        super().__init__(tables, model, plan, log_z)
        self.table = table

    def _receive(self, slab, marginals, weight):
        rows.gather(slab, self.layout.pairs.n_columns, marginals, weight, self.table)


class DecodeRun(_Run):
    """Viterbi decoding of one chunk; ``best`` (n_sequences,), if any, receives the highest scores."""

    def __init__(self, tables, model, plan, codes, best=None):
        super().__init__(tables, model, plan, None)
        self.codes, self.best = codes, best

    def decode(self, piece: Piece):
        carry = np.zeros((self.layout.automaton.n_states, piece.sequences.shape[1]))
        checkpoints = []
        for slab in piece.slabs[:0:-1]:
            checkpoints.append(carry)
            carry = self._backward_max(slab, carry)[2][: len(carry)].copy()
        checkpoints.append(carry)
        state = np.zeros(piece.sequences.shape, dtype=np.int32)
        for slab in piece.slabs:
            scores, dynamic, beta = self._backward_max(slab, checkpoints.pop())
            if slab is piece.slabs[0]:
                firsts = (slab.rows[:-1] + np.arange(len(slab.length))) * len(carry)
                filled = piece.sequences >= 0
                refuse_impossible(piece.sequences[filled], beta[firsts][filled])
                if self.best is not None:
                    self.best[piece.sequences[filled]] = beta[firsts][filled]
            chain.walk(self.lattice, slab, scores, dynamic, beta, state, self.codes)

    def _backward_max(self, slab, carry):
        scores = self._score(slab)
        dynamic = self._slot_scores(scores)
        n_states, n_blocks = len(carry), len(slab.length)
        beta = self.tables("alpha", (int(slab.rows[-1]) + n_blocks) * n_states, self._columns(slab))
        beta.reshape(-1, n_states, self._columns(slab))[slab.rows[1:] + np.arange(n_blocks)] = carry
        chain.backward_max(self._width(slab), self.lattice, slab, self._scratch(slab), scores, dynamic, beta)
        return scores, dynamic, beta

"""How the work on a batch is cut, dealt out to threads, and added up.

    chunk   what one thread works through; its sums are added to those of other chunks, in a fixed order
    task    what goes through scores, kernels and adjoint in one go: blocks of sequences whose tables fit the cache
    tile    consecutive positions of the blocks of a task: all of them, or a part where sequences are very long
    block   sequences of about one length that are worked on side by side
    lane    one sequence of a block: a column of its tables

The number of chunks depends on the data alone, so that every ``n_jobs`` gives the same bits. Threads live in this
module and nowhere else.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain as joined
from threading import Event
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import (
    LokyBackend,
    MultiprocessingBackend,
    SequentialBackend,
    ThreadingBackend,
    get_active_backend,
)

from .._data.arrays import freeze_all, offsets_of, reading_order
from .._data.batch import SequenceBatch, TokenFeatures
from .._data.masks import Mask
from .._kernels import chain
from .._structure.dense_columns import DenseProduct
from .._structure.label_parts import PartLinks
from .._structure.layout import WeightLayout

__all__ = [
    "TOKENS_PER_CALL",
    "Plan",
    "Schedule",
    "SharedWork",
    "Task",
    "Tile",
    "Workspace",
    "add_up",
    "in_order",
    "lane_kind_of",
    "lanes_of",
    "threads_for",
]

T = TypeVar("T")

_BACKENDS_OF_THIS_MACHINE = LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend
TOKENS_PER_CALL = 1 << 14  # of kernels that go through whole epochs: Python answers an interrupt (Ctrl-C) between calls


@dataclass(frozen=True)
class Schedule:
    """Sizes that decide how a batch is cut; sizes of tables are counts of floating point numbers.

    Parameters
    ----------
    tile_sizes : tuple of int
        The smallest and the largest aim for the tables of a tile. 1 to 2 MiB of doubles stay in the cache.
    tasks_wanted : int
        Tiles grow to the largest aim as long as so many are left for several threads.
    tile_rows : int
        Least rows of a tile, whatever their size: a call of a kernel from Python costs as much as some rows.
    cut_size : float
        Blocks whose tables are larger (32 MiB of doubles) are cut by position; inf where kernels take whole sequences.
    lone_size : float
        Sequences so long that a block of them would be larger run alone, one lane a block (512 MiB of doubles).
    lone_length, lone_table : int
        A sequence of so many positions, or of tables of such a size, runs alone if it is much longer than those after
        it. For shorter ones a few empty lanes cost less than kernels for another kind of lanes.
    long_call : float
        The tables of the longest sequence from which on a call of a kernel is too long to wait for after Ctrl-C.
    least_chunks, most_chunks : int
        Each chunk costs a gradient of its own, so there are only as many as the work on the data is worth.
    work_per_weight : int
        Operations on the data for each weight that are worth another chunk.
    poll_interval : float
        Seconds between two looks at whether other threads are done.
    """

    tile_sizes: tuple[int, int] = (1 << 17, 1 << 18)
    tasks_wanted: int = 8
    tile_rows: int = 32
    cut_size: float = 1 << 22
    lone_size: float = math.inf
    lone_length: int = 512
    lone_table: int = 1 << 20
    long_call: float = math.inf
    least_chunks: int = 4
    most_chunks: int = 16
    work_per_weight: int = 32
    poll_interval: float = 0.1


# Positions that are worked on together: blocks of sequences that run side by side.   B blocks, W lanes, R rows.
# Row ``rows[b] + j`` holds position j of all lanes of block b.
#     rows (B + 1,) int64
#     first_token (B, W) int64   token of the lane's first position
#     length (B, W) int64        positions of the lane in this tile
#     last (B, W) int64          position that ends the lane's sequence, or -1 if it does not end here
# Kernels that make tiles have the class, so that others are compiled for one kind alone.
Tile = chain.LocalTile


class Task(NamedTuple):
    """Blocks of sequences and their tiles: one tile, or several consecutive ones of a block of long sequences."""

    sequences: np.ndarray  # (B, W) int64   -1 for an empty lane
    tiles: list[Tile]

    @property
    def n_tokens(self) -> int:
        return int(sum(tile.length.sum() for tile in self.tiles))


def lanes_of(tile: Tile) -> int:
    """Return the number of sequences side by side."""
    return tile.length.shape[1]


def lane_kind_of(tile: Tile) -> int | None:
    """Return what tells a kernel whether to work on vectors or on single numbers."""
    return chain.LANES if lanes_of(tile) > 1 else None


class Workspace:
    """Arrays for one tile at a time, cut out of memory that is reused."""

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}
        self.halt = Event()

    def __call__(self, name: str, *shape: int) -> np.ndarray:
        if self.halt.is_set():
            raise CancelledError
        size = math.prod(shape)
        if name not in self._memory or self._memory[name].size < size:
            self._memory[name] = np.empty(size)
        return self._memory[name][:size].reshape(shape)


class SharedWork:
    """What threads share while they work through chunks, and keep between evaluations.

    Parameters
    ----------
    schedule : Schedule

    Attributes
    ----------
    chunks : list
        What each thread takes in one go.
    calls_are_long : bool
        Whether a call of a kernel may take longer than users want to wait after Ctrl-C.
    halt : Event
        Set when nobody waits for the evaluation any more; each evaluation has its own.
    """

    chunks: list
    calls_are_long = False
    halt = Event()

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._spare_workspaces: list[Workspace] = []
        self._threads: dict[int, ThreadPoolExecutor] = {}  # pools by number of threads; they end with the plan

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Lend the workspace of one thread; it is kept for the next evaluation."""
        workspace = self._spare_workspaces.pop() if self._spare_workspaces else Workspace()
        workspace.halt = self.halt
        yield workspace
        self._spare_workspaces.append(workspace)

    def threads(self, n_threads: int) -> ThreadPoolExecutor:
        """Return a pool of threads that is kept for the next evaluation: new threads would start with cold memory."""
        if n_threads not in self._threads:
            self._threads[n_threads] = ThreadPoolExecutor(n_threads)
        return self._threads[n_threads]


class Plan(SharedWork):
    """How a batch is cut into tasks, which are dealt out to chunks; and what threads keep between evaluations.

    A subclass reads the features of its family of models, and says what the work on them is.

    Parameters
    ----------
    layout : WeightLayout or SegmentLayout
        Which weights the models have.
    batch : SequenceBatch
        The sequences.
    schedule : Schedule or None
        Where to cut; by default, where it has been found best for the family.

    Attributes
    ----------
    token_features : TokenFeatures
        Where kernels find the weights of the tokens' sparse features.
    dense : DenseProduct or None
        The tokens' dense features, and where their weights are.
    row_size : int
        About how many floating point numbers the tables hold for one position of one lane.
    part_columns : PartLinks or None
        The parts of labels by score column, whose scores are added to those of labels at each token; None for none.
    mask : Mask or None
        What labellings are possible; None stands for all.
    may_be_impossible : bool
        Whether sequences without any possible labelling have a log Z of -inf, and are not an error.
    """

    default_schedule: ClassVar[Schedule] = Schedule()
    row_size: int
    part_columns: PartLinks | None = None
    mask: Mask | None = None
    may_be_impossible = False

    def __init__(self, layout: WeightLayout, batch: SequenceBatch, schedule: Schedule | None = None) -> None:
        super().__init__(self.default_schedule if schedule is None else schedule)
        self.layout, self.batch = layout, batch
        self.offsets, self.lengths = batch.offsets, batch.lengths
        self.n_sequences, self.n_tokens = len(batch), batch.n_tokens
        self.token_features: TokenFeatures = layout.rows(batch)
        self.dense: DenseProduct | None = layout.dense_product(batch)
        self.n_varying = layout.n_varying

    def _deal_out(self, work_per_token: int) -> None:
        """Make the chunks; the work on the data is about so many operations a token."""
        schedule, work = self.schedule, len(self.batch.indices) + self.n_tokens * work_per_token
        work += 0 if self.dense is None else self.dense.values.size
        worth = work // (schedule.work_per_weight * max(self.layout.n_weights, 1))
        n_chunks = int(np.clip(worth, schedule.least_chunks, schedule.most_chunks))
        self.chunks = _deal(self.cut(np.arange(self.n_sequences)), n_chunks)
        self.calls_are_long = int(self.lengths.max(initial=0)) * self.row_size > schedule.long_call

    def cut(self, sequences: np.ndarray) -> list[Task]:
        """Return the tasks of some sequences."""
        schedule, block_row = self.schedule, chain.LANES * self.row_size
        aim = int(np.clip(self.n_tokens * self.row_size // schedule.tasks_wanted, *schedule.tile_sizes))
        tile_size = max(aim, schedule.tile_rows * block_row)
        alone = self.lengths[sequences] * block_row > schedule.lone_size
        return [*self._tasks(1, tile_size, sequences[alone]), *self._tasks(chain.LANES, tile_size, sequences[~alone])]

    def alone(self, sequence: int) -> Task:
        """Return the task of one sequence, in a block of one lane."""
        return self._tasks(1, 0, np.array([sequence]))[0]

    def _tasks(self, lanes: int, tile_size: int, sequences: np.ndarray) -> list[Task]:
        """Cut sequences into tasks, in the order of reading; those without tokens are in none."""
        lengths, tasks = self.lengths, []
        windows = reading_order(lengths, sequences[lengths[sequences] > 0])
        waiting: list[np.ndarray] = []
        n_rows = 0
        for block in joined.from_iterable(self._blocks(window, lanes) for window in windows):
            longest, row = int(lengths[block[0]]), self.row_size * len(block)
            is_cut = longest * row > self.schedule.cut_size
            if waiting and (is_cut or len(waiting[0]) != len(block) or (n_rows + longest) * row > tile_size):
                tasks.append(self._task(np.stack(waiting)))
                waiting, n_rows = [], 0
            if is_cut:
                rows_per_tile = max(int(self.schedule.cut_size) // (2 * row), int(np.sqrt(longest)) + 1)
                tasks.append(self._task(block[None], rows_per_tile))
            else:
                waiting.append(block)
                n_rows += longest
        return [*tasks, self._task(np.stack(waiting))] if waiting else tasks

    def _blocks(self, sequences: np.ndarray, lanes: int) -> Iterator[np.ndarray]:
        """Yield the sequences of each block; one that is long, and much longer than those after it, is alone."""
        lengths, schedule, start = self.lengths, self.schedule, 0
        long_alone = min(schedule.lone_length, schedule.lone_table // max(self.row_size, 1))
        while start < len(sequences):
            block = sequences[start : start + lanes]
            longest = lengths[block[0]]
            if longest >= long_alone and 4 * lengths[block].sum() < lanes * longest:
                block = block[:1]
                yield block
            else:
                yield np.pad(block, (0, lanes - len(block)), constant_values=-1)
            start += len(block)

    def _task(self, sequences: np.ndarray, rows_per_tile: int | None = None) -> Task:
        """Return the task of blocks of sequences, cut into tiles of at most so many rows a block."""
        first = np.where(sequences >= 0, self.offsets[sequences], 0)
        length = np.where(sequences >= 0, self.offsets[sequences + 1] - self.offsets[sequences], 0)
        n_rows = length.max(axis=1)
        longest = int(n_rows.max())
        cuts = [*range(0, longest, rows_per_tile or longest), longest]
        tiles = []
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
            in_tile = np.clip(length - start, 0, stop - start)
            ends = (length > start) & (length <= stop)
            rows = offsets_of(np.minimum(n_rows, stop) - start)
            tables = (rows, first + start, in_tile, np.where(ends, length - 1 - start, -1))
            tiles.append(Tile(*freeze_all(tables, np.int64)))
        return Task(sequences, tiles)

    def tiles_of(self, sequences: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, Tile]:
        """Return a tile of each of some minibatches, ranges of sequences that come by length in each.   m minibatches.

        All together have B blocks.

        Returns
        -------
        block_starts : ndarray of shape (m + 1,), int64
            Range of each minibatch's blocks.
        sequences : ndarray of shape (B, chain.LANES)
            -1 for an empty lane.
        tiles : Tile
            The arrays of all blocks; the rows of minibatch i begin at ``block_starts[i] + i``, with 0.
        """
        sizes = np.diff(starts)
        block_starts = offsets_of(-(-sizes // chain.LANES))
        in_lanes = np.full(block_starts[-1] * chain.LANES, -1)
        last_lane = np.repeat(block_starts[:-1] * chain.LANES + starts[1:] - 1, sizes)
        in_lanes[last_lane - np.arange(len(sequences))] = sequences  # longest first
        in_lanes = in_lanes.reshape(-1, chain.LANES)
        filled = in_lanes >= 0
        first, length = np.where(filled, self.offsets[in_lanes], 0), np.where(filled, self.lengths[in_lanes], 0)
        rows, batch = offsets_of(length[:, 0]), np.repeat(np.arange(len(sizes)), np.diff(block_starts) + 1)
        rows = rows[np.arange(len(batch)) - batch] - rows[block_starts[batch]]
        tiles = Tile(*freeze_all((rows, first, length, length - 1), np.int64))
        return block_starts, in_lanes, tiles

    def add_length_counts(self, lengths: np.ndarray, gradient: np.ndarray) -> None:
        """Add to the counts of pairs what the counts of segments' lengths make; chains have none."""

    def empirical_counts(self, labelling: Any, sequence_weight: np.ndarray) -> np.ndarray:
        """Return how often each weight's feature occurs in a labelling of the batch, weighted; shape (n_weights,)."""
        return self.layout.empirical_counts(self.batch, labelling, sequence_weight, self.token_features)

    def masked(self, mask: Mask | None, may_be_impossible: bool = False) -> Self:
        """Return the plan of the same batch where a mask says which labellings are possible."""
        plan = copy.copy(self)
        plan.mask, plan.may_be_impossible = mask and mask.frozen(), may_be_impossible
        return plan

    def without_dense_table(self) -> Self:
        """Return the plan with features that find all weights among the pairs: its models need no dense table."""
        plan = copy.copy(self)
        plan.token_features = self.layout.rows(self.batch, dense=False)
        return plan


def _deal(tasks: list[Task], n_chunks: int) -> list[list[Task]]:
    """Return at most ``n_chunks`` lists of consecutive tasks of about the same number of tokens."""
    tokens = np.cumsum([task.n_tokens for task in tasks])
    if not len(tokens):
        return []
    chunk = (tokens - 1) * n_chunks // tokens[-1]
    return [[tasks[i] for i in np.flatnonzero(chunk == c)] for c in np.unique(chunk)]


def threads_for(n_jobs: int | None = None) -> int:
    """Return the number of threads that ``n_jobs`` stands for.

    Backends of joblib that send jobs elsewhere, such as Dask's, say how many jobs a whole cluster does at once. That is
    nothing for one process of it: there, and for the one that sends, None stands for 1, and -1 for this machine's
    processors.
    """
    if n_jobs == 1 or isinstance(get_active_backend()[0], _BACKENDS_OF_THIS_MACHINE):
        return effective_n_jobs(n_jobs)
    with parallel_config(backend="threading", n_jobs=1):
        return effective_n_jobs(n_jobs)


def in_order(work: Callable[[Any], T], plan: SharedWork, n_jobs: int | None = None) -> Iterable[T]:
    """Return ``work(chunk)`` for each chunk, in order, from ``n_jobs`` threads, the caller's among them.

    joblib says how many threads; its own pool looks for results every 10 ms only, longer than many a gradient takes.
    Where calls of kernels take long, the caller's thread does no work: Python answers an interrupt (Ctrl-C) only there,
    and between calls.
    """
    chunks = plan.chunks
    n_threads = min(threads_for(n_jobs), len(chunks))
    if n_threads <= 1 and not (chunks and plan.calls_are_long):
        return map(work, chunks)
    results: list[Any] = [None] * len(chunks)
    numbers = iter(range(len(chunks)))  # shared: each thread takes the next

    def work_through() -> None:
        for number in numbers:
            results[number] = work(chunks[number])

    halt = plan.halt = Event()
    n_helpers = n_threads if plan.calls_are_long else n_threads - 1
    helpers: list = []
    try:
        for _ in range(n_helpers):
            helpers.append(plan.threads(n_helpers).submit(work_through))
        if not plan.calls_are_long:
            work_through()
        interval = plan.schedule.poll_interval
        while wait(helpers, timeout=interval).not_done:  # some systems do not interrupt a wait without end
            pass
    except BaseException as error:
        halt.set()  # the helpers end where they next need memory
        if isinstance(error, Exception):
            wait(helpers)
        raise
    for helper in helpers:
        helper.result()  # raises what the thread raised
    return results


def add_up(terms: Iterable[tuple]) -> tuple | None:
    """Return the sums of the arrays in tuples, position by position; None where there are no tuples."""
    totals = None
    for term in terms:
        if totals is None:
            totals = term
        else:
            for total, array in zip(totals, term, strict=True):
                total += array
    return totals

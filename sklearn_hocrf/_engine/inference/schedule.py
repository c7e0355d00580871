"""Division of the work on a batch, its distribution to threads, and sums of its results.

    chunk   a unit of work for a thread; its sums are added to the sums of other chunks, in a fixed order
    task    blocks of sequences whose tables fit into the cache; all steps from scores to counts process it in one go
    tile    consecutive positions of the blocks of a task: all of them, or a part if sequences are very long
    block   sequences of similar length that are processed side by side
    lane    one sequence of a block: one column of the tables

The number of chunks depends only on the data, so results are bitwise identical for every ``n_jobs``. Only this module
uses threads.
"""

from __future__ import annotations

import copy
import math
import os
from abc import ABCMeta, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain as joined
from itertools import pairwise
from threading import Event, Lock
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs, parallel_config
from joblib.parallel import LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend, get_active_backend

from ..._data.arrays import empty_aligned, freeze_all, offsets_of, reading_order
from ..._data.batch import SequenceBatch, TokenFeatures
from ..._data.segments import Mask
from ..kernels._vectors import LANES
from ..kernels.chain import LocalTile
from ..structure.layout import WeightLayout
from ..structure.pairs import DenseProduct, PartLinks

_BACKENDS_OF_THIS_MACHINE = LokyBackend, MultiprocessingBackend, SequentialBackend, ThreadingBackend
_TOKENS_OF_THREAD = 20_000  # minimum per thread: one thread reads fewer tokens in 5 ms
_LONE_SIZE = 1 << 26  # sequences run alone if a block of them would take more than 512 MiB


@dataclass(frozen=True)
class Schedule:
    """Sizes that determine how a batch is cut; table sizes count floating point numbers.

    Parameters
    ----------
    tile_sizes : tuple of int
        The smallest and the largest target size of the tables of a tile. The defaults, 1 and 2 MiB of doubles, fit into
        the cache.
    tasks_wanted : int
        Tiles grow up to the largest target size as long as this number of tasks remains, so that several threads have
        work.
    tile_rows : int
        Minimum number of rows of a tile, whatever its size, because a kernel call from Python takes as long as several
        rows.
    cut_size : float
        Blocks whose tables are larger than this (by default, 32 MiB of doubles) are cut by position; inf if kernels
        need whole sequences.
    single_sequence_size : float
        If the tables of a block would be larger than this (512 MiB of doubles for segments), its sequences run alone,
        with one lane per block.
    lone_length, lone_table : int
        A sequence with at least this number of positions, or tables of at least this size, runs alone if it is much
        longer than the following sequences. For shorter sequences, a few empty lanes take less time than calls of the
        kernels for single lanes.
    lone_batch : int
        The only sequence of a batch runs alone if its lane needs at least this number of doubles, because each call
        would otherwise have to allocate new pages of memory for the tables of all lanes.
    long_call : float
        If the tables of the longest sequence are larger than this, a kernel call takes too long to wait for after
        Ctrl-C.
    least_chunks, most_chunks : int
        Limits of the number of chunks. Each chunk needs a separate gradient, so the number of chunks also depends on
        the amount of work per weight.
    work_per_weight : int
        Operations on the data per weight that justify another chunk.
    poll_interval : float
        Seconds between two checks of whether other threads are done.
    """

    tile_sizes: tuple[int, int] = (1 << 17, 1 << 18)
    tasks_wanted: int = 8
    tile_rows: int = 32
    cut_size: float = 1 << 22
    single_sequence_size: float = math.inf
    lone_length: int = 512
    lone_table: int = 1 << 20
    lone_batch: int = 1 << 10
    long_call: float = math.inf
    least_chunks: int = 4
    most_chunks: int = 16
    work_per_weight: int = 32
    poll_interval: float = 0.1


# Positions that are processed together: blocks of sequences side by side.   B blocks, W lanes, R rows.
# Row ``rows[b] + j`` contains position j of all lanes of block b.
#
#     rows (B + 1,) int64
#     first_token (B, W) int64   token of the lane's first position
#     length (B, W) int64        positions of the lane in this tile
#     last (B, W) int64          position that ends the lane's sequence, or -1 if it does not end here
#
# The class comes from the kernels that create tiles, so that other kernels are compiled for only one class.
Tile = LocalTile


class Task(NamedTuple):
    """Blocks of sequences and their tiles: one tile or, for a block of long sequences, several consecutive tiles."""

    sequences: np.ndarray  # (B, W) int64   -1 for an empty lane
    tiles: list[Tile]

    @property
    def n_tokens(self) -> int:
        return int(sum(tile.length.sum() for tile in self.tiles))


def lanes_of(tile: Tile) -> int:
    """Return the number of sequences per block."""
    return tile.length.shape[1]


class Workspace:
    """Arrays for one tile at a time, in memory that is reused."""

    halt = Event()  # for workspaces without a plan

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def __call__(self, name: str, *shape: int) -> np.ndarray:
        if self.halt.is_set():
            raise CancelledError
        size = math.prod(shape)
        if name not in self._memory or self._memory[name].size < size:
            self._memory[name] = empty_aligned(size)
        return self._memory[name][:size].reshape(shape)


class SharedWork:
    """State that threads share while they process chunks, and that is kept between evaluations.

    Parameters
    ----------
    schedule : Schedule
    n_jobs : int or None
        Number of threads, as in joblib.

    Attributes
    ----------
    chunks : list
        The units of work of threads.
    calls_are_long : bool
        Whether a kernel call may delay the response to Ctrl-C for too long.
    halt : Event
        Set when the evaluation has been abandoned; each evaluation has a separate event. Only one caller at a time may
        evaluate a plan.
    """

    chunks: list
    calls_are_long = False
    halt = Event()

    def __init__(self, schedule: Schedule, n_jobs: int | None = None) -> None:
        self.schedule, self.n_jobs = schedule, n_jobs
        self._spare_workspaces: list[Workspace] = []
        self._threads: dict[tuple[int, int], ThreadPoolExecutor] = {}  # pools, which end with the plan

    @contextmanager
    def workspace(self) -> Iterator[Workspace]:
        """Lend a workspace to one thread, and keep the workspace for the next evaluation."""
        try:
            workspace = self._spare_workspaces.pop()
        except IndexError:  # no workspace is left, or another thread has taken the last one
            workspace = Workspace()
        workspace.halt = self.halt
        yield workspace
        self._spare_workspaces.append(workspace)

    def threads(self, n_threads: int) -> ThreadPoolExecutor:
        """Return a pool of threads that is kept for the next evaluation: new threads would start with cold memory."""
        key = os.getpid(), n_threads  # a forked process inherits the pool, but not its threads
        if key not in self._threads:
            self._threads[key] = ThreadPoolExecutor(n_threads)
        return self._threads[key]

    def add_up(self, work: Callable[[Any, Workspace], tuple]) -> tuple | None:
        """Return the sums, over all chunks, of each array in the tuple ``work(chunk, workspace)``; None without chunks.

        Chunks are added in order, so the number of threads does not change the bits of the sums. Each chunk is added as
        soon as all earlier ones have been added, so few arrays are in memory at a time, and threads continue to compute
        meanwhile.
        """
        if len(self.chunks) == 1 and self.n_jobs != 0 and not self.calls_are_long:  # for example a single sequence
            with self.workspace() as workspace:
                return work(self.chunks[0], workspace)
        sums, indices = _Sums(), iter(range(len(self.chunks)))  # shared: each thread takes the next index
        halt = self.halt = Event()

        def work_through() -> None:
            for index in indices:
                if halt.is_set():
                    return
                with self.workspace() as workspace:
                    sums.add(index, work(self.chunks[index], workspace))

        self._in_threads(work_through)
        return sums.totals

    def _in_threads(self, work_through: Callable[[], None]) -> None:
        """Call a function in ``n_jobs`` threads, including the caller's.

        joblib determines the number of threads, but its own pool checks for results only every 10 ms, which is longer
        than many gradients take. If kernel calls take long, the caller's thread does no work, because Python handles an
        interrupt (Ctrl-C) only in this thread, and only between calls.
        """
        n_chunks, n_jobs, halt = len(self.chunks), self.n_jobs, self.halt
        n_threads = n_chunks if n_chunks < 2 and n_jobs != 0 else min(threads_for(n_jobs), n_chunks)
        if n_threads <= 1 and not (n_chunks and self.calls_are_long):
            work_through()
            return
        n_helpers = n_threads if self.calls_are_long else n_threads - 1
        helpers: list = []
        try:
            for _ in range(n_helpers):
                helpers.append(self.threads(n_helpers).submit(work_through))
            if not self.calls_are_long:
                work_through()
            while wait(helpers, timeout=self.schedule.poll_interval).not_done:
                pass  # some systems do not interrupt a wait without a timeout
        except BaseException as error:
            halt.set()  # the helpers end when they next request memory or a chunk
            self.halt = Event()
            if isinstance(error, Exception):
                wait(helpers)
            raise
        for helper in helpers:
            helper.result()  # raises the error of the thread, if any


class Plan(SharedWork, metaclass=ABCMeta):
    """The division of a batch into tasks and chunks, and the state that is kept between evaluations.

    A subclass reads the features of its family of models, and estimates the work on them.

    Parameters
    ----------
    layout : WeightLayout or SegmentLayout
        The layout of the models' weights.
    batch : SequenceBatch
        The sequences.
    schedule : Schedule or None
        The sizes that determine how the batch is cut; None means the default of the class.
    n_jobs : int or None
        Number of threads, as in joblib.

    Attributes
    ----------
    token_features : TokenFeatures
        Positions of the weights of the tokens' sparse features, for kernels.
    dense : DenseProduct or None
        The tokens' dense features, and the positions of their weights.
    row_size, work_per_token : int
        Approximate numbers of floating point numbers in the tables, and of operations, for one position of one lane.
    n_counted_lengths : int
        Number of sums of segment probabilities by length, from which the counts of lengths follow.
    part_columns : PartLinks or None
        The score columns of the parts of labels; the scores of parts are added to those of labels at each token. None
        means no parts.
    mask : Mask or None
        The possible labellings; None means all.
    may_be_impossible : bool
        Whether sequences without any possible labelling have a log Z of -inf instead of raising an error.
    """

    default_schedule: ClassVar[Schedule] = Schedule()
    row_size: int
    work_per_token: int
    n_counted_lengths = 0
    part_columns: PartLinks | None = None
    mask: Mask | None = None
    may_be_impossible = False

    def __init__(
        self, layout: WeightLayout, batch: SequenceBatch, schedule: Schedule | None = None, n_jobs: int | None = None
    ) -> None:
        super().__init__(self.default_schedule if schedule is None else schedule, n_jobs)
        self.layout = layout
        self.offsets, self.lengths = batch.offsets, batch.lengths
        self.n_sequences, self.n_tokens = len(batch), batch.n_tokens
        self.n_varying = layout.n_varying
        self._read_features(batch)
        self._read()
        self._deal_out()

    def _read_features(self, batch: SequenceBatch) -> None:
        """Read the features of the batch, which do not follow from the lengths of the sequences."""
        self.batch = batch
        self.token_features: TokenFeatures = self.layout.rows(batch, True, *self._ranges())
        self.dense: DenseProduct | None = self.layout.dense_product(batch)

    @abstractmethod
    def _read(self) -> None:
        """Set the tables and sizes that follow from the lengths of the sequences."""

    def with_features(self, batch: SequenceBatch, n_jobs: int | None) -> Self:
        """Return the plan of another batch, which contains one sequence of the same length."""
        plan = object.__new__(type(self))  # with the same memory; copy.copy takes three times as long
        plan.__dict__.update(self.__dict__, n_jobs=n_jobs)
        plan._read_features(batch)
        return plan

    def prepare_lane(self, model: Any) -> None:
        """Prepare the tables, shared by plans with other features, for passes over one sequence; chains need none."""

    def _ranges(self) -> tuple[list[int] | None, Callable]:
        """Return 0 and the end of each thread's range of tokens (None: one range), and the ``map`` over the ranges."""
        most = 1 + self.n_tokens // _TOKENS_OF_THREAD
        n_threads = 1 if most == 1 else min(threads_for(self.n_jobs), most)
        if n_threads == 1:
            return None, map
        return np.linspace(0, self.n_tokens, n_threads + 1).astype(int).tolist(), self.threads(n_threads).map

    def _deal_out(self) -> None:
        """Create the chunks."""
        schedule, work = self.schedule, len(self.batch.indices) + self.n_tokens * self.work_per_token
        work += 0 if self.dense is None else self.dense.values.size
        worth = work // (schedule.work_per_weight * max(self.layout.n_weights, 1))
        n_chunks = min(max(int(worth), schedule.least_chunks), schedule.most_chunks)
        self.chunks = _deal(self.cut(np.arange(self.n_sequences)), n_chunks)
        self.calls_are_long = int(self.lengths.max(initial=0)) * self.row_size > schedule.long_call

    @property
    def is_cut(self) -> bool:
        """Whether some sequences are cut by position."""
        return any(len(task.tiles) > 1 for chunk in self.chunks for task in chunk)

    def cut(self, sequences: np.ndarray) -> list[Task]:
        """Return the tasks of the given sequences."""
        schedule, block_row = self.schedule, LANES * self.row_size
        if len(sequences) == 1:
            length = int(self.lengths[sequences[0]])
            if 0 < length * block_row <= min(schedule.single_sequence_size, schedule.cut_size):
                return [self._task_of_one(int(sequences[0]), length)]
        least, most = schedule.tile_sizes
        aim = min(max(self.n_tokens * self.row_size // schedule.tasks_wanted, least), most)
        tile_size = max(aim, schedule.tile_rows * block_row)
        alone = self.lengths[sequences] * block_row > schedule.single_sequence_size
        return [*self._tasks(1, tile_size, sequences[alone]), *self._tasks(LANES, tile_size, sequences[~alone])]

    def one_by_one(self, sequences: np.ndarray) -> list[Task]:
        """Return the tasks of sequences in blocks of one lane."""
        return self._tasks(1, self.schedule.tile_sizes[0], np.sort(sequences)) if len(sequences) else []

    def _tasks(self, lanes: int, tile_size: int, sequences: np.ndarray) -> list[Task]:
        """Cut sequences into tasks, in reading order; sequences without tokens are left out."""
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

    @property
    def _single_lane_length(self) -> int:
        """The minimum length at which a sequence that is much longer than the next ones gets its own block."""
        return min(self.schedule.lone_length, self.schedule.lone_table // max(self.row_size, 1))

    def _blocks(self, sequences: np.ndarray, lanes: int) -> Iterator[np.ndarray]:
        """Yield the sequences of each block; a sequence that is much longer than the next ones gets its own block."""
        lengths, start = self.lengths, 0
        single_lane_length = self._single_lane_length
        while start < len(sequences):
            block = sequences[start : start + lanes]
            longest = lengths[block[0]]
            if longest >= single_lane_length and 4 * lengths[block].sum() < lanes * longest:
                block = block[:1]
                yield block
            else:
                padded = np.full(lanes, -1)
                padded[: len(block)] = block
                yield padded
            start += len(block)

    def _task_of_one(self, sequence: int, length: int) -> Task:
        """Return the task that :meth:`_tasks` would return for one short sequence, in less time."""
        is_alone = length >= self._single_lane_length or length * self.row_size >= self.schedule.lone_batch
        lanes = 1 if is_alone else LANES
        tables = np.zeros((3, 1, lanes), np.int64)
        tables[2] = -1
        tables[:, 0, 0] = self.offsets[sequence], length, length - 1
        sequences = np.full((1, lanes), -1)
        sequences[0, 0] = sequence
        return Task(sequences, [Tile(*freeze_all((np.array([0, length]), *tables), np.int64))])

    def _task(self, sequences: np.ndarray, rows_per_tile: int | None = None) -> Task:
        """Return the task of blocks of sequences, cut into tiles with a maximum number of rows per block."""
        is_filled = sequences >= 0
        first = np.where(is_filled, self.offsets[sequences], 0)
        length = np.where(is_filled, self.lengths[sequences], 0)
        n_rows = length.max(axis=1)
        if rows_per_tile is None:
            return Task(sequences, [Tile(*freeze_all((offsets_of(n_rows), first, length, length - 1), np.int64))])
        longest = int(n_rows.max())
        cuts = [*range(0, longest, rows_per_tile), longest]
        tiles = []
        for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
            in_tile = np.clip(length - start, 0, stop - start)
            ends = (length > start) & (length <= stop)
            rows = offsets_of(np.minimum(n_rows, stop) - start)
            tables = (rows, first + start, in_tile, np.where(ends, length - 1 - start, -1))
            tiles.append(Tile(*freeze_all(tables, np.int64)))
        return Task(sequences, tiles)

    def tiles_of(self, batches: list[np.ndarray]) -> tuple[np.ndarray, Tile]:
        """Return the tiles of m minibatches, of B blocks each; the last blocks may be empty.

        Parameters
        ----------
        batches : list of ndarray of int64
            The sequences of each minibatch, sorted by length.

        Returns
        -------
        sequences : ndarray of shape (m, B, LANES)
            The sequence of each lane, -1 for an empty lane.
        tiles : Tile
            Arrays whose first axis runs over the minibatches.
        """
        n_blocks = -(-max(map(len, batches)) // LANES)
        sequences = np.full((len(batches), n_blocks, LANES), -1)
        for lanes, batch in zip(sequences, batches, strict=True):
            lanes.reshape(-1)[: len(batch)] = batch[::-1]  # longest first
        first, length = (np.where(sequences < 0, 0, table[sequences]) for table in (self.offsets[:-1], self.lengths))
        rows = np.zeros((len(batches), n_blocks + 1), np.int64)
        np.cumsum(length[:, :, 0], axis=1, out=rows[:, 1:])
        return sequences, Tile(*freeze_all((rows, first, length, length - 1), np.int64))

    def add_length_counts(self, lengths: np.ndarray, gradient: np.ndarray) -> None:
        """Add the contributions of segment lengths to the counts of pairs; chains have no such contributions."""

    def empirical_counts(self, labelling: Any, sequence_weight: np.ndarray) -> np.ndarray:
        """Return the weighted count of each weight's feature in a labelling of the batch; shape (n_weights,)."""
        return self.layout.empirical_counts(self.batch, labelling, sequence_weight, self.token_features)

    def masked(self, mask: Mask | None, may_be_impossible: bool = False) -> Self:
        """Return the plan of the same batch with the labellings restricted by a mask."""
        plan = copy.copy(self)
        plan.mask, plan.may_be_impossible = mask and mask.frozen(), may_be_impossible
        return plan

    def part(self, sequences: np.ndarray) -> Self:
        """Return the plan of some sequences of the batch, with the same memory and threads."""
        plan = copy.copy(self)
        plan.chunks = _deal(self.cut(sequences), self.schedule.least_chunks)
        return plan

    def uncut(self) -> Self:
        """Return the plan in which no sequence is cut by position, for passes that need whole sequences."""
        if not self.is_cut:
            return self
        plan = copy.copy(self)
        plan.schedule = replace(
            self.schedule, cut_size=math.inf, single_sequence_size=min(self.schedule.single_sequence_size, _LONE_SIZE)
        )
        plan._deal_out()
        return plan

    def without_dense_table(self) -> Self:
        """Return the plan in which the weights of all features are among the pairs: its models need no dense table."""
        plan = copy.copy(self)
        plan.token_features = self.layout.rows(self.batch, dense=False)
        return plan


def _deal(tasks: list[Task], n_chunks: int) -> list[list[Task]]:
    """Return at most ``n_chunks`` lists of consecutive tasks, such that the longest list has as few tokens as possible.

    Each idle thread fetches the next list, and all threads wait until the last list is done.
    """
    if n_chunks == 1 or len(tasks) <= 1:
        return [tasks] if tasks else []
    tokens = [task.n_tokens for task in tasks]
    least, total = max(tokens), sum(tokens)
    most = least + bisect_left(range(least, total), True, key=lambda most: len(_packed(tokens, most)) <= n_chunks)
    return [tasks[start:end] for start, end in pairwise([*_packed(tokens, most), len(tasks)])]


def _packed(tokens: list[int], most: int) -> list[int]:
    """Return the first task of each list, if lists are filled up one after the other with at most ``most`` tokens."""
    firsts, n_tokens = [], most + 1
    for task, more in enumerate(tokens):
        if n_tokens + more > most:
            firsts.append(task)
            n_tokens = 0
        n_tokens += more
    return firsts


def threads_for(n_jobs: int | None = None) -> int:
    """Return the number of threads for ``n_jobs``.

    joblib backends that send jobs elsewhere, such as Dask's, report the number of parallel jobs of a whole cluster,
    which does not apply to a single process. With such a backend, None means 1, and -1 means all processors of this
    machine, both in workers and in the process that sends the jobs.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be an integer other than 0, or None, got 0")
    if n_jobs == 1 or isinstance(get_active_backend()[0], _BACKENDS_OF_THIS_MACHINE):
        return effective_n_jobs(n_jobs)
    with parallel_config(backend="threading", n_jobs=1):
        return effective_n_jobs(n_jobs)


class _Sums:
    """Sums of arrays that arrive in any order; each evaluation has separate sums, so forked processes share none."""

    def __init__(self) -> None:
        self.totals: tuple | None = None
        self._lock = Lock()
        self._waiting: dict[int, tuple] = {}
        self._n_added = 0

    def add(self, index: int, term: tuple) -> None:
        """Add the arrays of a chunk, and those of later chunks that have waited for it."""
        with self._lock:
            self._waiting[index] = term
            while self._n_added in self._waiting:
                self._add(self._waiting.pop(self._n_added))
                self._n_added += 1

    def _add(self, term: tuple) -> None:
        if self.totals is None:
            self.totals = term
            return
        for total, array in zip(self.totals, term, strict=True):
            total += array

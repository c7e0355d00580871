"""Values on the workers of a cluster, one for each partition of the data, and sums over them.

This module is independent of sequences. Values are made in steps from their sources; Dask repeats the steps if a worker
has died. Sums follow one binary tree over the indices of the partitions, so that their bits depend only on the
partitions, not on the assignment of work to workers. Each thread of the cluster evaluates its partitions in one task
and adds their results up before anything is sent: several tasks would wait in a queue, from which idle workers steal,
and what makes a partition fast to evaluate does not come along with it.
"""

from __future__ import annotations

import asyncio
import socket
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, wait
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any, NamedTuple
from uuid import uuid4

import dask
import numpy as np
from dask import delayed
from distributed.comm import CommClosedError, get_address_host_port

from .._data.arrays import BufferPool

_PATIENCE = 2.0  # seconds that a client may need to notice the loss of the scheduler
_MOST_REQUESTS = 3  # for one result
_WHOLE = 1 << 15  # numbers for each worker, up to which a vector is sent as one
_ANY_SIZE = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}  # vectors of weights are sent on purpose


class Kept:
    """A value that all workers keep, one copy per worker.

    Parameters
    ----------
    value : object
    """

    def __init__(self, value: Any) -> None:
        self.value, self.future = value, None


class _Refusal(NamedTuple):
    """The result for bad data: an error raised in a task would be logged by the worker, with traceback."""

    error: Exception
    traceback: str

    @classmethod
    def of(cls, error: Exception) -> _Refusal:
        return cls(error, traceback.format_exc())


class Partitions:
    """Values on workers, one for each partition, made in steps from their sources.

    Parameters
    ----------
    client : distributed.Client
    sources : sequence of tuples of Delayed or Future
        The arguments of the first step for each partition.
    """

    def __init__(self, client: Any, sources: Sequence[tuple]) -> None:
        self._client, self._sources = client, list(sources)
        self._steps: list[tuple[Callable, tuple]] = []
        self._kept: list[Kept] = []
        self._futures: list = []
        self._made: list[weakref.ref] = []  # all futures that may still exist
        self._n_taken = 0  # number of steps taken so far
        self._memories: dict[str | None, Any] = {}  # futures of lenders of memory, by address of the worker
        self._homes: list[str | None] = []  # address of the worker of each thread, at the start
        self._is_direct: bool | None = None  # whether workers send results past the scheduler

    def __len__(self) -> int:
        return len(self._sources)

    def add_step(self, function: Callable, *shared: Kept) -> None:
        """Replace each value by ``function(*shared, value)``, except None, which represents an empty partition.

        The last arguments of the first step are the values of the sources.
        """
        self._steps.append((function, shared))

    def total(self, function: Callable, merge: Callable, *shared: Any) -> Any:
        """Return the sum of ``function(*shared, value)`` over the partitions; None if all of them are empty.

        Parameters
        ----------
        function : callable
        merge : callable
            Returns the sum of the results of a partition and a later one, without changing them.
        *shared : object
            Values that are sent to all workers for this sum only, except :class:`Kept` values. Of long vectors of
            doubles each worker gets a slice, and the others from its peers: no machine sends more than about two.

        Raises
        ------
        Exception
            Any error of ``function``, with the index of the partition.
        ConnectionError
            If the connection to the scheduler is lost.
        """
        return self._guarded(lambda: self._total(function, merge, shared))

    def first_on_each_machine(self, function: Callable) -> None:
        """Call ``function(value)`` for one partition on each machine, and wait: what it leaves on disk serves all.

        Values are those of :meth:`total`, whose errors it raises, except errors of bad data.
        """
        self._guarded(lambda: self._on_each_machine(function))

    def _guarded(self, ask: Callable[[], Any]) -> Any:
        """Return what ``ask`` returns once all steps are taken; explain errors of the cluster."""
        self._check_connection()
        self._made = [reference for reference in self._made if reference() is not None]
        try:
            self._take_steps()
            return ask()
        except (CancelledError, CommClosedError) as error:
            self._check_connection(error, patience=_PATIENCE)
            raise RuntimeError(
                f"data on workers are lost and cannot be recreated, such as data sent by a client: {error}"
            ) from error
        except Exception as error:
            for index in [n for n, future in enumerate(self._futures) if future.status == "error"][:1]:
                if not str(error).startswith("partition"):  # the sources fail
                    error.add_note(f"in partition {index}")
            raise

    def release(self) -> None:
        """Let the workers discard the values.

        Dropping the futures is not enough: the client keeps errors sent by workers, with tracebacks whose frames refer
        to futures.
        """
        for future in filter(None, (reference() for reference in self._made)):
            future.release()
        self._made = []
        self._futures, self._n_taken, self._memories = [], 0, {}
        for kept in self._kept:
            kept.future = None
        self._kept = []

    def _check_connection(self, error=None, patience=0.0):
        """Raise a ConnectionError if the client has lost the scheduler; wait as long as it may need to notice."""
        deadline = monotonic() + patience
        while self._client.status == "running" and monotonic() < deadline:
            sleep(0.05)
        if self._client.status != "running":
            address = getattr(self._client.scheduler, "address", "an unknown address")
            raise ConnectionError(
                f"the connection to Dask's scheduler at {address} is lost, and training with it: fit again with a "
                "client that is connected"
            ) from error

    def _take_steps(self) -> None:
        """Start the steps that have not been taken."""
        run = delayed(_run, pure=False)
        for function, shared in self._steps[self._n_taken :]:
            given, name = [self._sent(kept) for kept in shared], _new_name(function)
            sources = [(future,) for future in self._futures] or self._sources
            tasks = [
                run(function, index, len(given), *given, *source, dask_key_name=f"{name}-{index}")
                for index, source in enumerate(sources)
            ]
            homes = [home for home, indices in self._groups() for _ in indices]
            self._futures = self._compute_at(tasks, homes)
            self._n_taken += 1

    def _on_each_machine(self, function):
        run, name, firsts = delayed(_run, pure=False), _new_name(function), {}
        for home, indices in self._groups():
            machine = None if home is None else home.rpartition(":")[0]  # an address without the port
            firsts.setdefault(machine, (home, indices[0]))
        tasks = [
            run(function, index, 0, self._futures[index], dask_key_name=f"{name}-{index}")
            for _, index in firsts.values()
        ]
        for future in self._compute_at(tasks, [home for home, _ in firsts.values()]):
            self._result(future)

    def _total(self, function, merge, shared):
        run, join = delayed(_run_all, pure=False), delayed(_join_parts, pure=False)
        groups, name, n = self._groups(), _new_name(function), len(self._futures)
        homes = list(dict.fromkeys(home for home, _ in groups))
        copies = [self._copies(value, homes) for value in shared]
        tasks = [
            run(
                function,
                merge,
                n,
                indices,
                len(shared),
                *[of_home[home] for of_home in copies],
                *[self._futures[index] for index in indices],
                dask_key_name=f"{name}-{slot}",
            )
            for slot, (home, indices) in enumerate(groups)
        ]
        level = self._compute_at(tasks, [home for home, _ in groups])
        depth = 0
        while len(level) > 1:
            depth += 1
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [
                join(merge, n, *pair, dask_key_name=f"sum-{name}-{depth}-{i}") if len(pair) == 2 else pair[0]
                for i, pair in enumerate(pairs)
            ]
        result = self._result(self._compute(level[0]) if depth else level[0])[0, n]
        if isinstance(result, _Refusal):
            raise result.error from RuntimeError(f"on a worker:\n{result.traceback}")
        return result

    def _result(self, future):
        """Return the result of a future, or raise an error if the scheduler is lost instead of waiting for ever.

        The request has no time limit and is never cancelled: a client combines the requests of several threads, so
        cancelling would end it for all of them, and might leave the client unable to send requests.
        """
        for _ in range(_MOST_REQUESTS):
            self._check_connection()
            question = self._client.gather(future, asynchronous=True, direct=self._is_direct)
            answer = asyncio.run_coroutine_threadsafe(question, self._client.loop.asyncio_loop)
            while not wait([answer], timeout=_PATIENCE).done:
                self._check_connection()
            if not answer.cancelled():  # by the interruption of another thread
                return answer.result()
        self._check_connection(patience=_PATIENCE)
        raise RuntimeError(
            "the client cannot get results any more, because a request was interrupted: make a new client"
        )

    def _copies(self, value, homes) -> dict:
        """Return the future of a value for each of some workers.

        They are Dask tasks, not scattered data: the scheduler holds them, and sends them to workers that replace
        others. Scattered data are lost with the last worker that holds them, and scattering at the moment when a worker
        dies can block for ever.
        """
        if isinstance(value, Kept):
            return dict.fromkeys(homes, self._sent(value))
        is_long = isinstance(value, np.ndarray) and value.size > _WHOLE * len(homes)
        if not is_long or value.ndim != 1 or value.dtype != np.float64:
            return dict.fromkeys(homes, self._send(value))
        slices = [delayed(part, pure=False, traverse=False) for part in np.array_split(value, len(homes))]
        futures = self._compute_at(slices, homes)
        whole, memories = delayed(_whole, pure=False), self._memories_of(homes)
        tasks = [whole(memories[home], *futures) for home in homes]
        return dict(zip(homes, self._compute_at(tasks, homes), strict=True))

    def _memories_of(self, homes) -> dict:
        """Return the future of a lender of memory at each of some workers."""
        new = [home for home in homes if home not in self._memories]
        lend = delayed(BufferPool, pure=False)
        self._memories |= zip(new, self._compute_at([lend() for _ in new], new), strict=True)
        return self._memories

    def _sent(self, kept):
        if kept.future is None:
            kept.future = self._send(kept.value)
            self._kept.append(kept)
        return kept.future

    def _send(self, value):
        return self._compute(delayed(value, pure=False, traverse=False))

    def _groups(self) -> list[tuple[str | None, list[int]]]:
        """Return the consecutive partitions of each thread of the cluster, with the address of its worker.

        Most sums are then over vectors on one worker, which need not be sent.
        """
        if not self._homes:
            threads = sorted(self._client.nthreads().items())
            self._homes = [address for address, n in threads for _ in range(n)] or [None]  # none are there yet
            self._is_direct = all(_is_reachable(address) for address, _ in threads) or None  # None: as the client does
        groups: dict[int, list[int]] = {}
        for index in range(len(self)):
            groups.setdefault(index * len(self._homes) // len(self), []).append(index)
        return [(self._homes[thread], indices) for thread, indices in groups.items()]

    def _compute_at(self, tasks, homes) -> list:
        """Start tasks, each at its worker while that one is alive."""
        futures = []
        for home in dict.fromkeys(homes):
            options = {} if home is None else {"workers": [home], "allow_other_workers": True}
            futures += self._compute([task for task, own in zip(tasks, homes, strict=True) if own == home], **options)
        return futures

    def _compute(self, tasks, **options):
        with dask.config.set(_ANY_SIZE):
            futures = self._client.compute(tasks, **options)
        self._made += map(weakref.ref, futures if isinstance(futures, list) else [futures])
        return futures


def _new_name(function):
    """Return a new prefix of keys, which Dask's dashboard shows up to the last part."""
    return f"{function.__name__}-{uuid4().hex}"


def _run(function, index, n_shared, *values):
    """Return the result for one partition; errors name the partition, and errors of bad data are returned."""
    for value in values[n_shared:]:
        if isinstance(value, _Refusal):
            return value
    if all(value is None for value in values[n_shared:]):
        return None
    try:
        with naming(index):
            return function(*values)
    except (ValueError, TypeError) as error:
        return _Refusal.of(error)


def _run_all(function, merge, n, indices, n_shared, *values):
    """Return the results for some of n partitions, as far as they can be merged; see :func:`_join`."""
    shared, results = values[:n_shared], {}
    for index, value in zip(indices, values[n_shared:], strict=True):
        results[index, index + 1] = _run(function, index, n_shared, *shared, value)
        _join(results, 0, n, merge)
    return results


def _whole(memory, *slices):
    """Return slices as one array, in memory that is used again: workers give freed memory back to the system."""
    return np.concatenate(slices, out=memory.empty(sum(map(len, slices))))


def _join_parts(merge, n, one, other):
    """Return the results of the partitions of two tasks."""
    results = one | other
    _join(results, 0, n, merge)
    return results


def _join(results, start, stop, merge):
    """Merge in place results of ranges of partitions, {(start, stop): result}, where both halves of a range are there.

    The halves depend on the number of partitions alone; a power of two of threads evaluates whole ranges.
    """
    if stop - start < 2 or (start, stop) in results:
        return
    middle = (start + stop + 1) // 2
    _join(results, start, middle, merge)
    _join(results, middle, stop, merge)
    if (start, middle) in results and (middle, stop) in results:
        results[start, stop] = _merge(merge, results.pop((start, middle)), results.pop((middle, stop)))


def _is_reachable(address: str) -> bool:
    """Return whether this process can connect to a worker."""
    try:
        with socket.create_connection(get_address_host_port(address), timeout=_PATIENCE):
            return True
    except (OSError, ValueError):  # ValueError: another protocol
        return False


@contextmanager
def naming(index: int) -> Iterator[None]:
    """Return a context that adds the index of a partition to errors."""
    try:
        yield
    except Exception as error:
        if type(error) not in (ValueError, TypeError):
            raise
        raise type(error)(f"partition {index}: {error}") from error


def _merge(merge, one, other):
    """Return the sum of two results, either of which may be None (an empty partition) or a refusal."""
    for result in (one, other):
        if isinstance(result, _Refusal):
            return result
    try:
        return other if one is None else one if other is None else merge(one, other)
    except (ValueError, TypeError) as error:
        return _Refusal.of(error)

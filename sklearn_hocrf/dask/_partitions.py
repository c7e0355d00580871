"""Values on the workers of a cluster, one for each partition of the data, and sums over the partitions.

Nothing in this module is specific to sequences. Values are computed in steps from their sources; Dask repeats the steps
if a worker has died. Sums follow one binary tree over the indices of the partitions, so that their bits depend only on
the partitions, and not on the assignment of work to workers. Each thread of the cluster evaluates its partitions in one
task, and sends only the merged results. If a thread had several tasks, idle workers would steal tasks from its queue,
but would lack the caches of the stolen partitions.
"""

from __future__ import annotations

import socket
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from itertools import groupby
from time import monotonic, sleep
from typing import Any, NamedTuple
from uuid import uuid4

import dask
import numpy as np
from dask import delayed
from distributed.comm import CommClosedError, get_address_host_port

_PATIENCE = 2.0  # seconds that a client may need to notice the loss of the scheduler
_WHOLE = 1 << 15  # numbers per worker up to which a vector is sent whole
_ANY_SIZE = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}  # large weight vectors are sent on purpose


class Kept:
    """A value that all workers keep, one copy per worker.

    Parameters
    ----------
    value : object
    """

    def __init__(self, value: Any) -> None:
        self.value = value


class _Refusal(NamedTuple):
    """The result of a task for invalid data. If the task raised the error, the worker would log it with a traceback."""

    error: Exception
    traceback: str


class Partitions:
    """Values on workers, one for each partition, computed in steps from their sources.

    Parameters
    ----------
    client : distributed.Client
    sources : sequence of tuples of Delayed or Future
        For each partition, the arguments of the first step.
    """

    def __init__(self, client: Any, sources: Sequence[tuple]) -> None:
        self._client, self._sources = client, list(sources)
        self._steps: list[tuple[Callable, tuple]] = []
        self._kept: dict[Kept, Any] = {}  # the futures of these values
        self._futures: list = []
        self._made: list[weakref.ref] = []  # all futures that may still exist
        self._n_taken = 0  # number of steps taken so far
        self._check_connection()
        threads = sorted(client.nthreads().items())
        # the worker of each thread now, or None if there are no workers yet; True if results can bypass the scheduler
        self._homes = [address for address, n in threads for _ in range(n)] or [None]
        self._is_direct = all(_is_reachable(address) for address, _ in threads) or None

    def __len__(self) -> int:
        return len(self._sources)

    def add_step(self, function: Callable, *shared: Kept) -> None:
        """Replace each value by ``function(*shared, value)``, except None, which marks an empty partition.

        In the first step, the values of the sources are the last arguments instead.
        """
        self._steps.append((function, shared))

    def total(self, function: Callable, merge: Callable, *shared: Any) -> Any:
        """Return the sum of ``function(*shared, value)`` over the partitions; None if all of them are empty.

        Parameters
        ----------
        function : callable
        merge : callable
            A function that receives two results, that of the earlier partition first, and returns their sum without
            changing them.
        *shared : object
            Values that are sent to all workers for this sum only; :class:`Kept` values remain on the workers. Of a long
            vector of doubles, each worker receives one slice, and gets the other slices from its peers, so that no
            machine sends more than about two vectors.

        Raises
        ------
        Exception
            Any error of ``function``, with the index of the partition.
        ConnectionError
            If the connection to the scheduler is lost.
        """
        self._check_connection()
        self._made = [reference for reference in self._made if reference() is not None]
        try:
            self._take_steps()
            result = self._result(self._sum(function, merge, shared))[0, len(self)]
        except (CancelledError, CommClosedError) as error:
            self._check_connection(error, patience=_PATIENCE)
            raise RuntimeError(
                f"data on workers are lost and cannot be recreated, such as data sent by a client: {error}"
            ) from error
        except Exception as error:
            for index in [n for n, future in enumerate(self._futures) if future.status == "error"][:1]:
                if not str(error).startswith("partition"):  # an error in the sources
                    error.add_note(f"in partition {index}")
            raise
        if isinstance(result, _Refusal):
            raise result.error from RuntimeError(f"on a worker:\n{result.traceback}")
        return result

    def release(self) -> None:
        """Let the workers discard the values.

        Dropping the futures is not enough: the client keeps errors sent by workers, with tracebacks whose frames refer
        to futures.
        """
        for future in filter(None, (reference() for reference in self._made)):
            future.release()
        self._made = []
        self._futures, self._n_taken, self._kept = [], 0, {}

    def _check_connection(self, error=None, patience=0.0):
        """Raise a ConnectionError if the client notices within ``patience`` seconds that its connection is lost."""
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
        for function, shared in self._steps[self._n_taken :]:
            inputs = [self._sent(kept) for kept in shared]
            sources = [(future,) for future in self._futures] or self._sources
            tasks = [_task(function, _run, function, i, len(inputs), *inputs, *one) for i, one in enumerate(sources)]
            self._futures = self._compute(tasks, [home for home, indices in self._groups() for _ in indices])
            self._n_taken += 1

    def _sum(self, function, merge, shared):
        """Return the future of the sum over all partitions: each thread adds up its own, a tree of tasks the rest."""
        groups, n = self._groups(), len(self)
        homes = [home for home, _ in groups]
        copies = [self._copies(value, list(dict.fromkeys(homes))) for value in shared]
        tasks = []
        for home, indices in groups:
            values = [*(of_home[home] for of_home in copies), *(self._futures[index] for index in indices)]
            tasks.append(_task(function, _run_all, function, merge, n, indices, len(shared), *values))
        level = self._compute(tasks, homes)
        while len(level) > 1:
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [_task(_join_parts, _join_parts, merge, n, *pair) for pair in pairs]
        return self._compute(level, [None])[0]

    def _result(self, future):
        """Return the result of a future; if the connection is lost, raise an error instead of waiting for ever."""
        while not future.done():
            self._check_connection()
            with suppress(TimeoutError):
                future.exception(timeout=_PATIENCE)
        return self._client.gather(future, direct=self._is_direct)

    def _copies(self, value, homes) -> dict:
        """Return the future of a value for each of the given workers.

        The copies are Dask tasks, not scattered data: the scheduler keeps tasks, and sends them to workers that replace
        others. Scattered data are lost with the last worker that stores them, and scattering while a worker dies can
        block for ever.
        """
        if isinstance(value, Kept):
            return dict.fromkeys(homes, self._sent(value))
        is_long = isinstance(value, np.ndarray) and value.size > _WHOLE * len(homes)
        if not is_long or value.ndim != 1 or value.dtype != np.float64:
            return dict.fromkeys(homes, self._send(value))
        slices = [delayed(part, pure=False, traverse=False) for part in np.array_split(value, len(homes))]
        futures = self._compute(slices, homes)
        tasks = [_task(np.concatenate, np.concatenate, futures) for _ in homes]
        return dict(zip(homes, self._compute(tasks, homes), strict=True))

    def _sent(self, kept):
        if kept not in self._kept:
            self._kept[kept] = self._send(kept.value)
        return self._kept[kept]

    def _send(self, value):
        return self._compute([delayed(value, pure=False, traverse=False)], [None])[0]

    def _groups(self) -> list[tuple[str | None, list[int]]]:
        """Return the consecutive partitions of each thread of the cluster, with the address of its worker.

        Most sums then add vectors on the same worker, so these vectors are not sent.
        """
        groups: dict[int, list[int]] = {}
        for index in range(len(self)):
            groups.setdefault(index * len(self._homes) // len(self), []).append(index)
        return [(self._homes[thread], indices) for thread, indices in groups.items()]

    def _compute(self, tasks, homes) -> list:
        """Start tasks, each on its worker while the worker is alive; tasks of one worker are consecutive."""
        futures: list = []
        for home, pairs in groupby(zip(homes, tasks, strict=True), key=lambda pair: pair[0]):
            options = {} if home is None else {"workers": [home], "allow_other_workers": True}
            with dask.config.set(_ANY_SIZE):
                futures += self._client.compute([task for _, task in pairs], **options)
        self._made += map(weakref.ref, futures)
        return futures


def _task(named, function, *args):
    """Return a task whose new key begins with the name of the function ``named``; Dask's dashboard shows this name."""
    return delayed(function, pure=False)(*args, dask_key_name=f"{named.__name__}-{uuid4().hex}")


def _run(function, index, n_shared, *values):
    """Return the result for one partition, or the error if its data are invalid; errors name the partition."""
    for value in values[n_shared:]:
        if isinstance(value, _Refusal):
            return value
    if all(value is None for value in values[n_shared:]):
        return None
    return _answer(naming(index)(function), *values)


def _answer(function, *values):
    """Return the result of a function, or its error if the data are invalid."""
    try:
        return function(*values)
    except (ValueError, TypeError) as error:
        return _Refusal(error, traceback.format_exc())


def _run_all(function, merge, n, indices, n_shared, *values):
    """Return the results for the partitions ``indices``, of n in all, merged as far as possible; see :func:`_join`."""
    shared, results = values[:n_shared], {}
    for index, value in zip(indices, values[n_shared:], strict=True):
        results[index, index + 1] = _run(function, index, n_shared, *shared, value)
        _join(results, 0, n, merge)
    return results


def _join_parts(merge, n, *parts):
    """Return the results of one or two tasks, merged as far as possible."""
    results = {key: result for part in parts for key, result in part.items()}
    _join(results, 0, n, merge)
    return results


def _join(results, start, stop, merge):
    """Merge results of ranges of partitions, {(start, stop): result}, in place: join halves if both are present.

    The halves depend only on the number of partitions; if the number of threads is a power of two, each thread
    evaluates the partitions of one range.
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
    if other is None or isinstance(one, _Refusal):
        return one
    return other if one is None or isinstance(other, _Refusal) else _answer(merge, one, other)

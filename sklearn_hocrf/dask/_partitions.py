"""Values on the workers of a cluster, one for each partition of the data, and sums over them.

Nothing here knows of sequences. Values are made in steps from their sources, which Dask repeats where a worker has
died. Sums follow one binary tree over the numbers of the partitions, so that their bits depend on the partitions alone,
and not on which worker did what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

import dask
from dask import delayed
from distributed.comm import CommClosedError

__all__ = ["Kept", "Partitions", "naming"]

_PATIENCE = 2.0  # seconds that a client may need to notice that the scheduler has gone
_ANY_SIZE = {"distributed.admin.large-graph-warning-threshold": "1 PiB"}  # vectors of weights are meant to be sent


class Kept:
    """A value that all workers keep, of which they need only one copy each.

    Parameters
    ----------
    value : object
    """

    def __init__(self, value: Any) -> None:
        self.value, self.future = value, None


class Partitions:
    """Values on workers, one for each partition, made in steps from their sources.

    Parameters
    ----------
    client : distributed.Client
    sources : sequence of tuples of Delayed or Future
        For each partition the arguments of the first step.
    """

    def __init__(self, client: Any, sources: Sequence[tuple]) -> None:
        self._client, self._sources = client, list(sources)
        self._steps: list[tuple[Callable, tuple]] = []
        self._kept: list[Kept] = []
        self._futures: list = []
        self._n_taken = 0  # steps that have led to the futures

    def __len__(self) -> int:
        return len(self._sources)

    def add_step(self, function: Callable, *shared: Kept) -> None:
        """Replace each value by ``function(*shared, value)``; None, which stands for an empty partition, stays.

        The first step gets the values of the sources as the last arguments.
        """
        self._steps.append((function, shared))

    def total(self, function: Callable, merge: Callable, *shared: Any) -> Any:
        """Return the sum of ``function(*shared, value)`` over the partitions; None if all of them are empty.

        Parameters
        ----------
        function : callable
        merge : callable
            Returns the sum of two results, of a partition and of a later one; it changes neither.
        *shared : object
            A value is sent to all workers, for this sum alone, unless it is a :class:`Kept` one.

        Raises
        ------
        Exception
            What ``function`` raises, with the number of the partition.
        ConnectionError
            If the connection to the scheduler is lost.
        """
        self._check_connection()
        try:
            self._take_steps()
            return self._total(function, merge, shared)
        except (CancelledError, CommClosedError) as error:
            self._check_connection(error, patience=_PATIENCE)
            raise RuntimeError(
                f"data on workers are lost, and cannot be made again, as those that a client has sent: {error}"
            ) from error
        except Exception as error:
            for number in [n for n, future in enumerate(self._futures) if future.status == "error"][:1]:
                error.add_note(f"in partition {number}")  # where the sources fail, too
            raise

    def release(self) -> None:
        """Let the workers forget the values."""
        self._futures, self._n_taken = [], 0
        for kept in self._kept:
            kept.future = None
        self._kept = []

    def _check_connection(self, error=None, patience=0.0):
        """Raise a ConnectionError if the client has lost the scheduler; wait until it could have noticed."""
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
        """Begin the steps that have not been taken."""
        run = delayed(_run, pure=False)
        for function, shared in self._steps[self._n_taken :]:
            given, name = self._shared(shared), _new_name(function)
            sources = [(future,) for future in self._futures] or self._sources
            tasks = [
                run(function, number, len(given), *given, *source, dask_key_name=f"{name}-{number}")
                for number, source in enumerate(sources)
            ]
            self._futures = self._compute(tasks)
            self._n_taken += 1

    def _total(self, function, merge, shared):
        run, add = delayed(_run, pure=False), delayed(_merge, pure=False)
        given, name = self._shared(shared), _new_name(function)
        level = [
            run(function, number, len(given), *given, future, dask_key_name=f"{name}-{number}")
            for number, future in enumerate(self._futures)
        ]
        depth = 0
        while len(level) > 1:
            depth += 1
            pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
            level = [
                add(merge, *pair, dask_key_name=f"sum-{name}-{depth}-{i}") if len(pair) == 2 else pair[0]
                for i, pair in enumerate(pairs)
            ]
        return self._compute(level[0]).result()

    def _shared(self, values) -> list:
        """Return values as parts of graphs: one copy each, whatever the number of partitions.

        They are tasks for Dask, not data that are scattered: so the scheduler has them, and gives them to the workers
        that come in the place of others. Scattered data are lost with the last worker that has them, and to scatter
        anything just when a worker dies can take for ever.
        """
        return [self._sent(value) if isinstance(value, Kept) else _literal(value) for value in values]

    def _sent(self, kept):
        if kept.future is None:
            kept.future = self._compute(_literal(kept.value))
            self._kept.append(kept)
        return kept.future

    def _compute(self, tasks):
        with dask.config.set(_ANY_SIZE):
            return self._client.compute(tasks)


def _literal(value):
    return delayed(value, pure=False, traverse=False)


def _new_name(function):
    """Return the beginning of new keys, which Dask's dashboard shows up to the last part."""
    return f"{function.__name__}-{uuid4().hex}"


def _run(function, number, n_shared, *values):
    """Return the result for one partition; errors name it."""
    if values[n_shared] is None:
        return None
    with naming(number):
        return function(*values)


@contextmanager
def naming(number: int) -> Iterator[None]:
    """Return a context whose errors name a partition."""
    try:
        yield
    except Exception as error:
        if type(error) not in (ValueError, TypeError):
            raise
        raise type(error)(f"partition {number}: {error}") from error


def _merge(merge, one, other):
    """Return the sum of two results, of which either may be that of an empty partition."""
    return other if one is None else one if other is None else merge(one, other)

"""Dask collections as lists of partitions, and the client that processes them."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from dask.delayed import Delayed
from distributed import Client, Future, default_client
from sklearn.base import BaseEstimator


class WithoutClient:
    """Estimators with a parameter ``client``, a connection of this process that copies and pickles do not keep."""

    def __sklearn_clone__(self) -> Self:
        return BaseEstimator.__sklearn_clone__(copy.copy(self))

    def __getstate__(self):
        return {**super().__getstate__(), "client": None}  # type: ignore[misc]


def find_client(client: Any = None) -> Client:
    """Return the given client, or the default client for None.

    Raises
    ------
    ValueError
        If there is no default client.
    TypeError
        If the client is asynchronous.
    """
    client = default_client() if client is None else client
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(f"client must be a distributed.Client that waits for results, got {client!r:.80}")
    return client


def sources(**given: Any) -> list[tuple]:
    """Return the parts of X and of the other given collections, partition by partition."""
    parts = {name: parts_of(collection, name) for name, collection in given.items() if collection is not None}
    for name, others in parts.items():
        if len(others) != len(parts["X"]):
            raise ValueError(f"X has {len(parts['X'])} partitions, but {name} has {len(others)}")
    return list(zip(*parts.values(), strict=True))


def parts_of(collection: Any, name: str) -> list:
    """Return the partitions of a collection; ``name`` is its name in messages."""
    if hasattr(collection, "to_delayed"):
        parts = collection.to_delayed()
        parts = parts.ravel().tolist() if isinstance(parts, np.ndarray) else list(parts)
    elif isinstance(collection, (list, tuple)) and all(isinstance(part, (Delayed, Future)) for part in collection):
        parts = list(collection)
    else:
        raise TypeError(
            f"{name} must be a dask.bag.Bag, or a list with a Delayed for each partition, not a "
            f"{type(collection).__name__}: dask.bag.from_sequence turns lists into bags. For data in memory, use "
            "HighOrderCRF or HighOrderSemiCRF"
        )
    if not parts:
        raise ValueError(f"{name} has no partitions")
    return parts


def collected(values: Any) -> Any:
    """Return a partition: unchanged if it has a length, an empty list for None, and other iterables as lists."""
    if values is None:
        return []
    return values if hasattr(values, "__len__") or hasattr(values, "shape") else list(values)


def count_sequences(values: Any) -> int:
    """Return the number of sequences of a partition."""
    return values.shape[0] if hasattr(values, "shape") else len(values)

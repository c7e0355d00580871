"""The functions that workers apply to a partition, to read it, count its features, and evaluate criteria on it.

For each of these functions, a method or another function merges the results for two partitions.

The module also converts Dask collections to lists of partitions, and finds the client that processes them.
"""

from __future__ import annotations

import copy
from collections.abc import Sized
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from dask.delayed import Delayed
from distributed import Client, Future, default_client
from sklearn.base import BaseEstimator

from .._data.arrays import cached_property
from .._data.checks import short
from .._engine.structure.layout import FeatureCounts, LayoutBuilder, WeightLayout
from .._engine.structure.patterns import PatternCounts
from .._estimator.base import BaseSequenceLabeler
from .._estimator.fit.fit_steps import FitSteps
from .._estimator.fit.training import TrainingData, sorted_features
from .._reading.inputs import FeatureSpace, TrainingSequences, read_training_sequences
from .._reading.labels import flatten_labels, sorted_labels
from .._reading.targets import label_set
from .._reading.values import number_weights

_PARTIAL = (
    "y has missing labels, which are not supported on a cluster: leave out these sequences, or fit a local estimator "
    "to a part of the data"
)


# ----------------------------------------------------------------------------------------------------------- 1. reading


class ReadPart(NamedTuple):
    """A partition that has been read, with its own labels and feature names."""

    sequences: TrainingSequences
    y: Any
    labels: np.ndarray  # sorted


def read_part(local: BaseSequenceLabeler, X: Sized, y: Sized, sample_weight: Any = None) -> ReadPart | None:
    """Read a partition; return None if it has no tokens in sequences of positive weight.

    Parameters
    ----------
    local : estimator
        An unfitted estimator.
    X, y, sample_weight : object
        As in ``fit`` of the local estimator; other iterables and None are also accepted.
    """
    X, y = collected(X), collected(y)
    n_sequences = count_sequences(X)
    if sample_weight is not None:
        sample_weight = number_weights(collected(sample_weight))
        if len(sample_weight) == n_sequences and not np.any(sample_weight):
            return None
    if not n_sequences:
        if len(y):
            raise ValueError(f"X has no sequences, y has {len(y)}")
        return None
    steps = FitSteps(local)
    sequences = read_training_sequences(steps.reader, X, sample_weight)
    if sequences.is_used is not None and not sequences.is_used.any():
        return None
    labels = label_set(steps.reader, y, sequences)
    if labels is None:
        raise ValueError(_PARTIAL)
    return ReadPart(sequences, y, labels)


class Description(NamedTuple):
    """The labels and features of one or more partitions."""

    form: str
    features: FeatureSpace
    labels: np.ndarray  # sorted

    def merged(self, other: Description) -> Description:
        """Return the labels and features of both descriptions; raise a ValueError if features are incompatible."""
        if self.form != other.form:
            raise ValueError(
                f"some partitions of X have the form {self.form!r}, others {other.form!r}: use the same form for all"
            )
        labels = flatten_labels([self.labels, other.labels])
        try:
            labels = sorted_labels(labels, [0, len(labels)], at_least=1)
        except TypeError:
            some = [short(part.labels.tolist()[0]) for part in (self, other)]
            raise TypeError(f"labels must be sortable together, but partitions have {some[0]} and {some[1]}") from None
        return Description(self.form, _union(self.features, other.features), labels)


def describe(part: ReadPart) -> Description:
    """Return the labels and features of a partition."""
    return Description(part.sequences.form, sorted_features(part.sequences)[1], part.labels)


def _union(one, other) -> FeatureSpace:
    """Return the features of both: the union if they are attribute names; other features must be equal."""
    if (one.vocabulary is None) != (other.vocabulary is None):
        raise ValueError(
            "some partitions of X have attribute names, others rows of numbers or batches: use the same form for all"
        )
    if one.vocabulary is not None:
        names = sorted({**one.vocabulary, **other.vocabulary})
        complete = sorted(set(one.vocabulary.complete) & set(other.vocabulary.complete))
        vocabulary = type(one.vocabulary).of_names(names, complete)
        return one._replace(n_features=len(names), names=np.array(names, dtype=object), vocabulary=vocabulary)
    if one.n_features != other.n_features:
        raise ValueError(f"partitions of X have {one.n_features} and {other.n_features} features: they must be equal")
    same_names = np.array_equal(np.asarray(one.names), np.asarray(other.names))  # or both are None
    if not same_names or one.kinds != other.kinds or one.is_table != other.is_table:
        raise ValueError("partitions of X have different features: pass all of them through the same transformer")
    return one


# -------------------------------------------------------------------------------------------------- 2. one set of names


class Part:
    """A partition that uses the labels and features of all partitions, and a criterion.

    Parameters
    ----------
    data : TrainingData
    setting : Setting or None
        The model, the layout and the criterion; None before there is a criterion.
    """

    def __init__(self, data: TrainingData, setting: Setting | None = None) -> None:
        self.data, self.setting = data, setting

    @cached_property
    def bound(self) -> Any:
        """The criterion, bound to the data."""
        setting: Any = self.setting
        problem = FitSteps(setting.local).unpruned_problem(self.data, setting.layout)
        return setting.criterion.bind(problem)

    def __reduce__(self):
        return Part, (self.data, self.setting)  # the rest is recomputed after a move or a return from disk

    def __sizeof__(self) -> int:
        """Return twice the bytes of the batch, an estimate by which Dask chooses the values to move or spill."""
        batch = self.data.batch
        arrays = [batch.offsets, batch.indptr, batch.indices, batch.values, batch.dense and batch.dense.values]
        return 2 * sum(array.nbytes for array in arrays if array is not None)


def prepare_part(local: BaseSequenceLabeler, labels: np.ndarray, features: FeatureSpace, part: ReadPart) -> Part:
    """Return a partition that uses the labels and features of all partitions."""
    data = FitSteps(local).read_targets(part.y, part.sequences, labels)
    if features.vocabulary is not None:
        data = data.reindexed(features)
    batch = data.batch._replace(attribute_names=None, block_names=None)  # the client keeps the names
    return Part(replace(data, batch=batch, features=features._replace(names=None, vocabulary=None)))


class Survey(NamedTuple):
    """Counts from the labels of one or more partitions."""

    targets: Any  # without the data
    n_positions: int  # tokens, or segments
    n_sequences: int
    patterns: PatternCounts | None  # None if patterns are not "observed"

    def merged(self, other: Survey) -> Survey:
        """Return the counts of both surveys."""
        patterns = None if self.patterns is None or other.patterns is None else self.patterns.merged(other.patterns)
        n_positions, n_sequences = self.n_positions + other.n_positions, self.n_sequences + other.n_sequences
        return Survey(self.targets.merged(other.targets), n_positions, n_sequences, patterns)


def survey(local: BaseSequenceLabeler, part: Part) -> Survey:
    """Return the counts from the labels of a partition."""
    data, patterns = part.data, None
    observed = FitSteps(local).observed(data)
    if isinstance(local.patterns, str) and local.patterns == "observed":
        patterns = observed.counted(local.max_order, 1).compact()
    return Survey(data.targets.without_data(), observed.n_positions, len(data.batch), patterns)


# ------------------------------------------------------------------------------------------------ 3. counts, 4. values


def count_features(builder: LayoutBuilder, part: Part) -> FeatureCounts:
    """Return the counts of features that determine the weights of the model."""
    data = part.data
    return builder.count(data.batch, data.targets.labelling, data.sequence_weight)


class Setting(NamedTuple):
    """The model, the layout and the criterion, which together with data define a function of the weights."""

    local: BaseSequenceLabeler
    layout: WeightLayout
    criterion: Any = None


def bind_criterion(setting: Setting, part: Part) -> Part:
    """Return a partition with the criterion of a setting."""
    return Part(part.data, setting)


def evaluate(method: str, *vectors_and_part: Any) -> Any:
    """Return the result of a method of the bound criterion or its problem, for the given vectors."""
    *vectors, part = vectors_and_part
    vectors = [np.require(vector, requirements="A") for vector in vectors]  # received arrays may be unaligned
    return getattr(part.bound if hasattr(part.bound, method) else part.bound.problem, method)(*vectors)


def add_sums(one: Any, other: Any) -> Any:
    """Return the sum of two results: numbers, arrays, or tuples of these."""
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    return one + other


class WithoutClient:
    """Base class of estimators with a ``client``, a connection that copies and pickles do not keep."""

    def __sklearn_clone__(self) -> Self:
        return BaseEstimator.__sklearn_clone__(copy.copy(self))

    def __getstate__(self):
        return {**super().__getstate__(), "client": None}  # type: ignore[misc]


def find_client(client: Any = None) -> Client:
    """Return ``client``, or the default client if it is None.

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


def sources(**collections: Any) -> list[tuple]:
    """Return a tuple for each partition: its parts of X and of the other collections that are not None."""
    parts = {name: parts_of(collection, name) for name, collection in collections.items() if collection is not None}
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
    """Return a partition unchanged if it has a length, None as an empty list, and other iterables as lists."""
    if values is None:
        return []
    return values if hasattr(values, "__len__") or hasattr(values, "shape") else list(values)


def count_sequences(values: Any) -> int:
    """Return the number of sequences of a partition."""
    return values.shape[0] if hasattr(values, "shape") else len(values)

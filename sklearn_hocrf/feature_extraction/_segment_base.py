"""Base class of the transformers that make features of segments, and what they count."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import Any, NamedTuple

from sklearn.utils.validation import check_is_fitted

from .._data.arrays import freeze
from .._data.batch import SequenceBatch, with_blocks
from .._data.segment_features import RowBlock
from .._reading.labels import sorted_labels
from .._reading.targets import read_partition_targets, read_segment_targets
from .._sklearn.names import fit_context
from ._base import CountingTransformer, fit_task
from ._input_space import InputSpace, kept_blocks, raw_table
from ._names import names_of_blocks
from ._strings import TrainingStrings, token_numbers


class SegmentCounts(NamedTuple):
    """The counts of training sequences for features of segments; ``space`` is None without tokens."""

    space: InputSpace | None
    batch: SequenceBatch | None = None  # without sequences, with the features that X already has
    token_blocks: Any = ()  # list of TokenBlock
    scheme: str | None = None  # in which y gives the segments; None where y is not needed
    labels: Any = ()  # of segments, sorted
    longest: int = 0  # length of the longest segment
    strings: TrainingStrings | None = None
    of_functions: Counter | None = None  # number of segments with each named value; None without functions

    def merged(self, other) -> SegmentCounts:
        """Return the sums of the counts of both."""
        if self.space is None or other.space is None:
            return other if self.space is None else self
        space = self.space.merged(other.space)
        merged = self._replace(space=space)
        if self.scheme is not None:
            labels = sorted_labels([*self.labels, *other.labels], [0], at_least=1).tolist()
            merged = merged._replace(labels=labels, longest=max(self.longest, other.longest))
        if self.strings is not None:
            merged = merged._replace(strings=self.strings.merged(other.strings))
        if self.of_functions is not None:
            space.check_fields(self.space, other.space)
            merged = merged._replace(of_functions=self.of_functions + other.of_functions)
        return merged


class SegmentTransformer(CountingTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers that make features of segments."""

    @abstractmethod
    def _count(self, X, table, y, read) -> tuple[SegmentCounts, SequenceBatch]:
        """Return the counts of sequences, and their batch; ``table`` has their tokens, and ``read`` reads y."""

    @abstractmethod
    def _set_features(self, counts) -> None:
        """Set ``_blocks``, ``_makers`` of further blocks, and ``_fields``, the raw columns that they read."""

    def transform(self, X: Any) -> SequenceBatch:
        """Return sequences with the features of segments learned in `fit`.

        Parameters
        ----------
        X : SequenceBatch, or list of sequences of tokens
            Of the form seen in `fit`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError
            If X does not have the same features and fields as in `fit`.
        sklearn.exceptions.NotFittedError
            If `fit` was not called.
        """
        check_is_fitted(self, "n_features_out_")
        return self._to_batch(self._space.read(X, self._fields))

    def _count_partition(self, X, y) -> SegmentCounts:
        table = raw_table(X)
        return self._count(X, table, y, read_partition_targets)[0] if table.offsets[-1] else SegmentCounts(None)

    @fit_context(prefer_skip_nested_validation=True)
    @fit_task
    def _learn(self, X, y) -> tuple[SegmentCounts, SequenceBatch]:
        """Set the fitted attributes; return the counts, and X as a batch."""

        def read(y, lengths, name, *, scheme):
            return read_segment_targets(y, lengths, "sequences", name, scheme=scheme)

        counts, batch = self._count(X, raw_table(X), y, read)
        self._finish(counts)
        return counts, batch

    def _finish(self, counts):
        """Set the fitted attributes."""
        if counts.space is None:
            raise ValueError("X has no tokens to learn features from")
        if counts.scheme == "runs":
            sorted_labels(counts.labels, [0])  # raises if there is only one
        self._space, self._scheme = counts.space, counts.scheme
        self._string_fields = [] if counts.strings is None else [counts.strings.field]
        self._set_features(counts)
        blocks = self._all_blocks(counts.batch, {})
        self._feature_names = names_of_blocks(blocks, self._space.features.attribute_names)
        self.n_features_out_ = len(self._feature_names)

    def _all_blocks(self, batch, data) -> tuple:
        """Return the blocks of features, those that X already has first."""
        first = kept_blocks(batch) if getattr(self, "bag", None) is None else ()
        return (*first, *self._blocks, *(RowBlock(maker, data, self._scheme) for maker in self._makers))

    def _to_batch(self, batch, **data) -> SequenceBatch:
        """Return the batch with all features; ``data`` are further arrays for their makers, with a number per token."""
        for field in self._string_fields:
            data["number"] = token_numbers(batch.columns[field], field)
        data = {name: freeze(array, array.dtype) for name, array in data.items()}
        return with_blocks(batch, self._all_blocks(batch, data), self._feature_names)

"""Base classes of the transformers, and strings of tokens of training sequences, by fingerprints.

Base class of the transformers that make features of segments, and their counts.

Strings of tokens of training sequences, by fingerprints.

    tokens of a sequence:  in the in          strings of two tokens: [in the], [the in]

The text of a token has a random number. The numbers of two neighbouring blocks of 1, 2, 4 .. tokens are mixed into the
number of a block of twice the size, as Karp, Miller and Rosenberg (1972) do. Two such blocks, which may overlap, cover
a string, so its fingerprint is made from their numbers and its length, without a Python loop over strings. Fingerprints
have 63 bits: two of a million different strings share one with a probability of about 5e-8. Mixing is not linear,
because a polynomial of the numbers, modulo 2**64, would have the same value for a Thue-Morse string of two kinds of
tokens and for its complement, from 1,024 tokens on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from .._data.arrays import freeze, freeze_all
from .._data.batch import SequenceBatch, with_blocks
from .._data.columns import TokenColumn
from .._data.segment_features import RowBlock
from .._sklearn.names import CallbacksMixin, fit_context, fit_task
from .._sklearn.versions import VersionMixin
from ._columns import apply_function, is_text, text_column, texts_of
from ._input_space import kept_blocks, raw_table
from ._names import names_of_blocks


class BatchTransformer(VersionMixin, CallbacksMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers that return batches."""

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored: `fit` stores the names of a `SequenceBatch`.

        Returns
        -------
        names : ndarray of shape (n_features_out_,), dtype object
        """
        check_is_fitted(self, "n_features_out_")
        return np.array(self._feature_names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.dict = tags.input_tags.categorical = True
        tags.input_tags.three_d_array = True
        tags.no_validation = True
        return tags


class SegmentCounts(NamedTuple):
    """What a transformer counted in training sequences to make features of segments."""

    space: Any  # an InputSpace
    batch: SequenceBatch  # without sequences, with the features that X already has
    token_blocks: Any = ()  # list of TokenBlock
    scheme: str | None = None  # in which y gives the segments; None where y is not needed
    longest: int = 0  # length of the longest segment
    strings: TrainingStrings | None = None
    of_functions: Counter | None = None  # number of segments with each named value; None without functions


class SegmentTransformer(BatchTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers that make features of segments."""

    @abstractmethod
    def _count(self, X, table, y) -> tuple[SegmentCounts, SequenceBatch]:
        """Return the counts of sequences, and their batch; ``table`` contains their tokens."""

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
        if not hasattr(self, "n_features_out_"):
            check_is_fitted(self, "n_features_out_")  # raises the error
        return self._to_batch(self._space.read(X, self._fields))

    @fit_context(prefer_skip_nested_validation=True)
    @fit_task
    def _learn(self, X, y) -> tuple[SegmentCounts, SequenceBatch]:
        """Set the fitted attributes; return the counts, and X as a batch."""

        counts, batch = self._count(X, raw_table(X), y)
        self._space, self._scheme = counts.space, counts.scheme
        self._string_fields = [] if counts.strings is None else [counts.strings.field]
        self._set_features(counts)
        blocks = self._all_blocks(counts.batch, {})
        self._feature_names = names_of_blocks(blocks, self._space.features.attribute_names)
        self.n_features_out_ = len(self._feature_names)
        return counts, batch

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


class TrainingStrings(NamedTuple):
    """The tokens of training sequences as texts of a field, and their segments.   N tokens."""

    field: Any
    column: TokenColumn  # numbers are read as texts
    offsets: np.ndarray  # (n_sequences + 1,)   token range of each sequence
    lengths: np.ndarray  # (N,) int32   of the segment that begins at a token, 0 if no segment does

    @classmethod
    def from_batch(cls, batch, field, segments) -> TrainingStrings:
        """Return the tokens of a batch, and their segments."""
        column = text_column(texts_of(_as_text(batch.columns[field], field)))
        lengths = np.zeros(batch.n_tokens, dtype=np.int32)
        lengths[segments.start] = segments.lengths
        return cls(field, column, batch.offsets, lengths)


def token_numbers(column, field) -> np.ndarray:
    """Return a number of 63 bits for the text of each token, a hash, of shape (N,) int64; -1 for missing values."""
    column = _as_text(column, field)
    numbers = np.full(len(column.values) + 1, -1, np.int64)  # the last one is of missing values
    used = np.flatnonzero(np.bincount(column.codes + 1, minlength=len(numbers))[1:])  # slices share all values
    numbers[used] = [*map(_number_of, column.values[used])]
    return numbers[column.codes]


@lru_cache(maxsize=1 << 12)  # calls for one sequence ask
def _number_of(text) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1


def _as_text(column, field):
    return column if is_text(column) else apply_function(_number_text, column, field)


def _number_text(number):
    return repr(number).removesuffix(".0")


def fingerprints(numbers, start, stop) -> np.ndarray:
    """Return the fingerprint of each string ``[start, stop)`` of tokens, of shape (M,) int64; -1 if a value is missing.

    ``numbers`` are those of :func:`token_numbers`.
    """
    from .._engine.kernels.lists import mix_strings  # loads numba, which few transformers need

    found = np.empty(len(start), np.int64)
    mix_strings(*freeze_all((numbers, start, stop), np.int64), found)
    return found

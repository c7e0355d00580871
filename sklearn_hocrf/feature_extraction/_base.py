"""Base classes of the transformers, and fingerprints of strings of tokens.

Segment transformers identify each string of tokens in training sequences by a fingerprint:

    tokens of a sequence:  in the in          strings of two tokens: [in the], [the in]

Each token is represented by a hash of its text. The hashes of two neighbouring blocks of 1, 2, 4, ... tokens are mixed
into the hash of a block of twice the size, as in Karp, Miller and Rosenberg (1972). Any string is covered by two blocks
of equal size, which may overlap, so its fingerprint is computed from its length and the hashes of these blocks, without
a Python loop over strings. Fingerprints have 63 bits: among a million different strings, two have the same fingerprint
with a probability of about 5e-8. Mixing is not linear, because a polynomial of the hashes modulo 2**64 would have the
same value for a Thue-Morse string of two kinds of tokens and for its complement, if they contain 1,024 or more tokens.
"""

from __future__ import annotations

from abc import abstractmethod
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
from ._input_space import InputSpace, batch_of, kept_blocks, raw_table
from ._names import names_of_blocks


class BatchTransformer(VersionMixin, CallbacksMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers that return batches."""

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored, because `fit` stores the names of the features.

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


class SegmentFeatures(NamedTuple):
    """The segment features that a transformer has learned."""

    blocks: list  # of token features and of lengths
    makers: list  # objects that compute the other blocks
    fields: list  # raw columns that the makers read
    max_length: int | None
    scheme: str | None = None  # of the segments in y; None if y is not needed
    strings: TrainingStrings | None = None  # from which the features are computed


class SegmentTransformer(BatchTransformer, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Base class of the transformers that compute features of segments."""

    @abstractmethod
    def _learned(self, X, space, batch, y) -> SegmentFeatures:
        """Learn the segment features of a batch; ``space`` describes the form of X."""

    def transform(self, X: Any) -> SequenceBatch:
        """Return the sequences with the segment features learned in `fit`.

        Parameters
        ----------
        X : SequenceBatch, or list of sequences of tokens
            The sequences, in the same form as in `fit`.

        Returns
        -------
        batch : SequenceBatch of shape (n_sequences, n_features_out_)

        Raises
        ------
        ValueError
            If the features or fields of X differ from those in `fit`.
        sklearn.exceptions.NotFittedError
            If `fit` was not called.
        """
        if not hasattr(self, "n_features_out_"):
            check_is_fitted(self, "n_features_out_")  # raises the error
        return self._to_batch(self._space.read(X, self._fields))

    @fit_context(prefer_skip_nested_validation=True)
    @fit_task
    def _learn(self, X, y) -> tuple[SegmentFeatures, SequenceBatch]:
        """Set the fitted attributes; return the features, and X as a batch."""
        table = raw_table(X)
        space, batch = InputSpace.from_input(X, table), batch_of(X, table)
        features = self._learned(X, space, batch, y)
        self._space, self._blocks, self._makers = space, features.blocks, features.makers
        self._fields, self._scheme, self.max_length_ = features.fields, features.scheme, features.max_length
        self._string_fields = [] if features.strings is None else [features.strings.field]
        self._feature_names = names_of_blocks(self._all_blocks(batch, {}), self._space.features.attribute_names)
        self.n_features_out_ = len(self._feature_names)
        return features, batch

    def _all_blocks(self, batch, data) -> tuple:
        """Return all feature blocks; those that X already contains come first."""
        first = kept_blocks(batch) if getattr(self, "bag", None) is None else ()
        return (*first, *self._blocks, *(RowBlock(maker, data, self._scheme) for maker in self._makers))

    def _to_batch(self, batch, **data) -> SequenceBatch:
        """Return the batch with all features; the makers also read ``data``, arrays with one number per token."""
        for field in self._string_fields:
            data["number"] = token_numbers(batch.columns[field], field)
        data = {name: freeze(array, array.dtype) for name, array in data.items()}
        return with_blocks(batch, self._all_blocks(batch, data), self._feature_names)


class TrainingStrings(NamedTuple):
    """The strings of one field of the training tokens, and the training segments.   N tokens."""

    field: Any
    column: TokenColumn  # numbers are read as strings
    offsets: np.ndarray  # (n_sequences + 1,)   token range of each sequence
    lengths: np.ndarray  # (N,) int32   length of the segment that begins at each token, 0 if none does

    @classmethod
    def from_batch(cls, batch, field, segments) -> TrainingStrings:
        """Return the strings of ``field`` in a batch, and the given segments."""
        column = text_column(texts_of(_as_text(batch.columns[field], field)))
        lengths = np.zeros(batch.n_tokens, dtype=np.int32)
        lengths[segments.start] = segments.lengths
        return cls(field, column, batch.offsets, lengths)


def token_numbers(column, field) -> np.ndarray:
    """Return a 63-bit hash of the string of each token, of shape (N,) int64; -1 for missing values."""
    column = _as_text(column, field)
    numbers = np.full(len(column.values) + 1, -1, np.int64)  # the last one is for missing values
    used = np.flatnonzero(np.bincount(column.codes + 1, minlength=len(numbers))[1:])  # slices contain all values
    numbers[used] = [*map(_number_of, column.values[used])]
    return numbers[column.codes]


@lru_cache(maxsize=1 << 12)  # calls with single sequences repeat strings
def _number_of(text) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1


def _as_text(column, field):
    return column if is_text(column) else apply_function(lambda number: repr(number).removesuffix(".0"), column, field)


def fingerprints(numbers, start, stop) -> np.ndarray:
    """Return the fingerprint of each string ``[start, stop)`` of tokens, of shape (M,) int64; -1 if a value is missing.

    ``numbers`` is the result of :func:`token_numbers`.
    """
    from .._engine.kernels.lists import mix_strings  # loads numba, which few transformers need

    found = np.empty(len(start), np.int64)
    mix_strings(*freeze_all((numbers, start, stop), np.int64), found)
    return found

"""Features of the segments of a batch: the values of all its blocks (see ``segments``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .arrays import ascends, freeze, freeze_indices, joined_ranges, offsets_of
from .batch import SequenceBatch, token_rows
from .segments import BAG, FROM_START, RANGE, LengthBlock, TokenBlock


class RowBlock(NamedTuple):
    """Features computed for each candidate segment.

    ``maker`` is a fitted, picklable object with ``n_features``, ``feature_names`` (array of object) and
    ``rows(columns, offsets, token_data, start, stop)``. ``columns`` and ``offsets`` are the raw columns and sequence
    offsets of a batch; candidate i covers its tokens ``start[i]`` to ``stop[i] - 1``. ``rows`` returns three
    arrays: the range of each candidate's entries, the features of the entries, which ascend in each range, and their
    values. ``token_data`` contains arrays of shape (N,), which are sliced along with the batch.
    """

    maker: Any
    token_data: Mapping[str, np.ndarray]
    scheme: str | None = None  # of the y that the maker was fitted on, if any

    @property
    def n_features(self) -> int:
        return self.maker.n_features

    def names(self, attribute_names) -> np.ndarray:
        return np.asarray(self.maker.feature_names, dtype=object)

    def take(self, tokens) -> RowBlock:
        data = {name: freeze(data[tokens], data.dtype) for name, data in self.token_data.items()}
        return self._replace(token_data=data)

    def entries(self, batch: SequenceBatch, start, stop) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the ranges, features and values that the maker computes for candidate segments of a batch."""
        indptr, features, values = self.maker.rows(batch.columns, batch.offsets, self.token_data, start, stop)
        features = freeze_indices(features, self.n_features, "features of candidate segments")  # checked only here
        if len(indptr) != len(start) + 1 or not indptr[-1] == len(features) == len(values) or not ascends(indptr):
            raise ValueError(f"{len(start)} candidate segments do not match {len(indptr) - 1} ranges of entries")
        return indptr, features, values

    def rows(self, batch: SequenceBatch, start, stop) -> sparse.csr_array:
        """Return the features of candidate segments of a batch; shape (n_candidates, n_features)."""
        indptr, features, values = self.entries(batch, start, stop)
        return sparse.csr_array((values, features, indptr), shape=(len(start), self.n_features))


def blocks_of(batch: SequenceBatch) -> tuple:
    """Return the blocks of a batch; if it has none, a block that counts each attribute at all tokens of a segment."""
    if batch.blocks is not None:
        return batch.blocks
    return (TokenBlock(BAG, np.arange(batch.n_attributes, dtype=np.int32), ""),)


def channel_tokens(batch: SequenceBatch, channel, start, stop) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens that a channel selects in segments: for each, the index of its segment and its own index."""
    first, last = _positions(channel, start, stop, _sequence_stops(batch, start))
    return np.repeat(np.arange(len(start)), last - first), joined_ranges(first, last)


def ones(matrix) -> sparse.csr_array:
    """Return a matrix with 1 in place of each nonzero value."""
    return sparse.csr_array(((matrix.data != 0).astype(np.float64), matrix.indices, matrix.indptr), shape=matrix.shape)


def segment_features(batch: SequenceBatch, start, stop, finish=sparse.csr_array) -> sparse.csr_array:
    """Return the feature values of segments; shape (M, n_features).

    Parameters
    ----------
    batch : SequenceBatch
    start, stop : ndarray of shape (M,), int64
        Segments ``[start, stop)`` as token indices of the batch.
    finish : callable
        A function that is applied to the matrix of the tokens' values before they are added up, and to the matrices of
        the values of whole segments. If it is :func:`ones`, the result counts the occurrences of each feature.
    """
    sequence_stop = _sequence_stops(batch, start)
    first, last = (int(start.min()), int(sequence_stop.max())) if len(start) else (0, 0)
    tokens = finish(token_rows(batch, first, last))
    parts = [sparse.csr_array((len(start), 0))]  # a batch may have no blocks at all
    for block in blocks_of(batch):
        if isinstance(block, TokenBlock):
            parts.append(_count_tokens(block, tokens, start - first, stop - first, sequence_stop - first))
        elif isinstance(block, LengthBlock):
            lengths = stop - start
            parts.append(finish(sparse.csr_array(block.table(int(lengths.max(initial=1)))[lengths - 1])))
        else:
            parts.append(finish(block.rows(batch, start, stop)))
    return sparse.csr_array(sparse.hstack(parts, format="csr"))


def _sequence_stops(batch, start):
    return batch.offsets[np.searchsorted(batch.offsets, start, side="right")]


def _count_tokens(block, tokens, start, stop, sequence_stop):
    first, last = _positions(block.channel, start, stop, sequence_stop)
    indices, indptr = joined_ranges(first, last), offsets_of(last - first)
    chosen = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(start), tokens.shape[0]))
    return chosen @ tokens[:, freeze_indices(block.attributes, tokens.shape[1], "attributes of a block")]


def _positions(channel, start, stop, sequence_stop):
    """Return the range of the tokens of a channel, in each segment."""
    lengths, first = stop - start, start + channel.offset
    if channel.anchor == RANGE:
        return first, np.maximum(first, stop - (channel.shortest - 1 - channel.offset))
    first = first if channel.anchor == FROM_START else stop - 1 - channel.offset
    has_token = (lengths >= channel.shortest) & (lengths <= channel.longest) & (first < sequence_stop)
    return first, first + has_token

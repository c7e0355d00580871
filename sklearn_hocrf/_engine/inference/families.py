"""The families of models, each with the classes that training needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._data.arrays import joined_ranges, offsets_of
from ..._data.batch import SequenceBatch
from ..._data.segments import NO_LIMIT, Segments
from ..structure.segment_ages import what_needs_lengths
from .chain import ChainModel
from .lattice import LatticeModel
from .minibatches import ChainMinibatches, SegmentMinibatches
from .segment import AgedModel, SegmentModel


class Family(NamedTuple):
    """The classes and functions of a family of models."""

    model: type[Any]  # a Model
    minibatches: Any  # makes Minibatches; None where training uses all sequences at once
    labelling_of: Callable[[Any, SequenceBatch, np.ndarray], Any]  # labelling of some sequences of a batch
    are_complete: Callable[[Any, SequenceBatch], np.ndarray]  # whether no label is missing, by sequence


def _codes_of(codes: np.ndarray, batch: SequenceBatch, sequences: np.ndarray) -> np.ndarray:
    return codes[joined_ranges(batch.offsets[sequences], batch.offsets[sequences + 1])]


def _segments_of(segments: Segments, batch: SequenceBatch, sequences: np.ndarray) -> Segments:
    return segments.of_sequences(sequences, batch.offsets)


def _have_all_codes(codes: np.ndarray, batch: SequenceBatch) -> np.ndarray:
    return np.diff(offsets_of(codes < 0)[batch.offsets]) == 0


def _tile(segments: Segments, batch: SequenceBatch) -> np.ndarray:
    return np.diff(offsets_of(segments.lengths)[segments.offsets]) == batch.lengths


_TOKENS, _SPANS = (_codes_of, _have_all_codes), (_segments_of, _tile)
CHAIN = Family(ChainModel, ChainMinibatches, *_TOKENS)
SEGMENTS = Family(SegmentModel, SegmentMinibatches, *_SPANS)
UNLIMITED = Family(AgedModel, SegmentMinibatches, *_SPANS)  # some segments of any length, scored token by token
LATTICE = Family(LatticeModel, None, *_TOKENS)


def recursion_of(family: Family, layout: Any) -> Family:
    """Return the family that answers for a layout: ``UNLIMITED`` instead of ``SEGMENTS`` where it can."""
    if family is SEGMENTS and (layout.longest == NO_LIMIT).any() and not what_needs_lengths(layout):
        return UNLIMITED
    return family

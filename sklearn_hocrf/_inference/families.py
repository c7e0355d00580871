"""The two families of models, each with the classes that training needs."""

from __future__ import annotations

from typing import NamedTuple

from .chain import ChainModel
from .feature_matching import ChainMatching, Matching, SegmentMatching
from .loss_augmented import ChainMargins, Margins, SegmentMargins
from .minibatches import ChainMinibatches, Minibatches, SegmentMinibatches
from .model import Model
from .segment import SegmentModel

__all__ = ["CHAIN", "SEGMENTS", "Family"]


class Family(NamedTuple):
    """What belongs to a family of models."""

    model: type[Model]
    margins: type[Margins]
    matching: type[Matching]
    minibatches: type[Minibatches]


CHAIN = Family(ChainModel, ChainMargins, ChainMatching, ChainMinibatches)
SEGMENTS = Family(SegmentModel, SegmentMargins, SegmentMatching, SegmentMinibatches)

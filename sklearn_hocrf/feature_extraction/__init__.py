"""Transformers that turn sequences of raw tokens or numbers into a :class:`SequenceBatch` of features."""

from ._extractor import SequenceFeatureExtractor
from ._log_odds import LogOddsSegments
from ._segment_extractor import SegmentFeatureExtractor
from ._tokenwise import Tokenwise

__all__ = ["LogOddsSegments", "SegmentFeatureExtractor", "SequenceFeatureExtractor", "Tokenwise"]

"""Transformers that turn sequences of raw tokens or numbers into a :class:`SequenceBatch` of features."""

from ._extractor import SequenceFeatureExtractor
from ._log_odds import LogOddsSegments
from ._segment_extractor import SegmentFeatureExtractor
from ._tokenwise import Tokenwise
from ._vectorizer import AttributeVectorizer

__all__ = [
    "AttributeVectorizer",
    "LogOddsSegments",
    "SegmentFeatureExtractor",
    "SequenceFeatureExtractor",
    "Tokenwise",
]

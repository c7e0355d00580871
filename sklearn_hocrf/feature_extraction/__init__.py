"""Transformers that turn sequences of raw tokens or numbers into a :class:`SequenceBatch` of features."""

from ._extractor import SequenceFeatureExtractor

__all__ = ["SequenceFeatureExtractor"]

"""High-order semi-Markov conditional random fields: labelled segments, with weights for patterns of their labels.

:class:`HighOrderSemiCRF` divides sequences into labelled segments (fields of a reference, names, words of unspaced
text). Its label patterns span segments of any length, and its features may describe whole segments. The estimator
offers the methods that :mod:`sklearn_hocrf.crf` lists; ``scheme`` specifies how y represents the segments.

>>> from sklearn_hocrf import HighOrderSemiCRF, make_pipeline
>>> from sklearn_hocrf.datasets import make_references
>>> from sklearn_hocrf.feature_extraction import (
...     SegmentFeatureExtractor,
...     SequenceFeatureExtractor,
... )
>>> X, y = make_references(60, random_state=0)
>>> segments = SegmentFeatureExtractor(begin="w[0]=", length="capped", max_length=6)
>>> segmenter = make_pipeline(
...     SequenceFeatureExtractor([("w", 0), ("w", 1)]),
...     segments,
...     HighOrderSemiCRF(max_order=2),
... )
>>> segmenter.fit(X, y).predict_segments(X[:1])[0][:2]
[(0, 2, 'author'), (2, 7, 'title')]

User guide: https://sklearn-hocrf.github.io/sklearn-hocrf/stable/guide/segments.html.

References
----------
S. Sarawagi, W. W. Cohen: Semi-Markov conditional random fields for information extraction. NIPS 2004.

G. Andrew: A hybrid Markov/semi-Markov conditional random field for sequence segmentation. EMNLP 2006.

N. V. Cuong, N. Ye, W. S. Lee, H. L. Chieu: Conditional random field with high-order dependencies for sequence labeling
and segmentation. JMLR 15, 2014, 981-1009.
"""

from __future__ import annotations

from ._estimator.segment_labeler import HighOrderSemiCRF

__all__ = ["HighOrderSemiCRF"]

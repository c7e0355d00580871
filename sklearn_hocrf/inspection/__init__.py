"""Inspect what a fitted model has learned, the reasons for its predictions, and the uncertainty of both.

===============================================  =======================================================================
:func:`explain`, :class:`ExplanationDisplay`     why the best labelling is better than another one, exactly
:func:`weights`, :class:`PatternWeightsDisplay`  the weights by label, feature and order; the weights of label patterns
:func:`durations`, :class:`DurationsDisplay`     how long segments are, as the model expects them
:func:`template_importance`                      how much predictions degrade when the features of one template are
                                                 permuted across tokens
:func:`select_sequences`                         which sequences to label next
:class:`SegmentsDisplay`                         predicted segments in coloured text, with probabilities and errors
:class:`MarginalsDisplay`                        probabilities of labels along a sequence, or of segments that compete
:func:`weight_standard_errors`                   and :func:`log_odds_standard_errors`: the uncertainty of the weights,
                                                 by the Laplace approximation
===============================================  =======================================================================

Notebooks show displays, explanations and tables as HTML without scripts, on light and dark backgrounds; in terminals
they are plain text. ``plot()`` of a display draws it with matplotlib (the extra "plot").

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.inspection import weights
>>> X, y = (
...     [[["the"], ["old"], ["man"]], [["the"], ["man"]]],
...     [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]],
... )
>>> weights(HighOrderCRF().fit(X, y), label="DET", top=2)
pattern  order  feature  template  weight
DET          0  the      the        0.784
DET          0                      0.105

User guide: docs/guide/answers.md.
"""

from .._display import Table
from ._durations import Duration, DurationsDisplay, durations
from ._explanation import Contribution, Explanation, SegmentContribution, explain
from ._explanation_display import ExplanationDisplay
from ._importance import template_importance
from ._marginals_display import MarginalsDisplay
from ._pattern_weights_display import PatternWeightsDisplay
from ._segments_display import SegmentsDisplay
from ._selection import select_sequences
from ._standard_errors import log_odds_standard_errors, weight_standard_errors
from ._weights import Weight, weights

__all__ = [
    "Contribution",
    "Duration",
    "DurationsDisplay",
    "Explanation",
    "ExplanationDisplay",
    "MarginalsDisplay",
    "PatternWeightsDisplay",
    "SegmentContribution",
    "SegmentsDisplay",
    "Table",
    "Weight",
    "durations",
    "explain",
    "log_odds_standard_errors",
    "select_sequences",
    "template_importance",
    "weight_standard_errors",
    "weights",
]

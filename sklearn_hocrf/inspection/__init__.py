"""What a fitted model has learned, why it predicts what it predicts, and how uncertain both are.

:class:`SegmentsDisplay` shows segments as coloured text, in notebooks and with matplotlib.

Standard errors are those of the Laplace approximation: near the optimum the posterior of the weights is about a
Gaussian, whose precision is the Hessian of the training objective plus that of the penalty.
"""

from .._display import Table
from ._explanation import Contribution, Explanation, SegmentContribution, explain
from ._explanation_display import ExplanationDisplay, PatternWeightsDisplay
from ._importance import template_importance
from ._marginals_display import MarginalsDisplay
from ._segments_display import SegmentsDisplay
from ._standard_errors import log_odds_standard_errors, weight_standard_errors
from ._weights import Weight, weights

__all__ = [
    "Contribution",
    "Explanation",
    "ExplanationDisplay",
    "MarginalsDisplay",
    "PatternWeightsDisplay",
    "SegmentContribution",
    "SegmentsDisplay",
    "Table",
    "Weight",
    "explain",
    "log_odds_standard_errors",
    "template_importance",
    "weight_standard_errors",
    "weights",
]

"""Inspect what a fitted model has learned, the reasons for its predictions, and the uncertainty of both.

* :class:`SegmentsDisplay`: predicted segments in coloured text, with probabilities and errors;
* :class:`MarginalsDisplay`: probabilities of labels along a sequence, or of segments that compete;
* :func:`explain`: why the best labelling is better than another one, exactly; :class:`ExplanationDisplay` shows it;
* :func:`weights`: the weights by label, feature and order, as a table; :class:`PatternWeightsDisplay` shows the weights
  of label patterns;
* :func:`template_importance`: how much predictions degrade when the features of one template are permuted across
  tokens;
* :func:`select_sequences`: which sequences to label next;
* :func:`durations`: how long the segments of each label are, as the model expects them; :class:`DurationsDisplay`;
* :func:`weight_standard_errors` and :func:`log_odds_standard_errors`, by the Laplace approximation: near the optimum
  the posterior of the weights is about a Gaussian, whose precision is the Hessian of the training objective plus the
  Hessian of the penalty.

Notebooks show displays, explanations and tables as HTML without scripts, on light and dark backgrounds; in terminals
they are plain text. ``plot()`` of a display draws it with matplotlib (the extra "plot"); unlike scikit-learn's
displays, they are not plotted on creation. :func:`sklearn_hocrf.metrics.error_table` lists errors, and
:func:`sklearn_hocrf.metrics.segment_confusion` counts them.

Examples
--------
From all errors to the reasons for one of them:

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
>>> from sklearn_hocrf.inspection import explain
>>> from sklearn_hocrf.metrics import error_table
>>> from sklearn_hocrf.pipeline import make_pipeline
>>> X = [["Ann", "met", "Bob"], ["Bob", "saw", "Oslo"], ["Ann", "saw", "Bob"]]
>>> y = [["B-PER", "O", "B-PER"], ["B-PER", "O", "B-LOC"], ["B-PER", "O", "B-PER"]]
>>> features = SequenceFeatureExtractor([("w", 0), ("w", -1)])
>>> tagger = make_pipeline(features, HighOrderCRF(constraints="bio")).fit(X, y)
>>> X_test, y_test = [["Ann", "met", "Bob"], ["Bob", "saw", "Rome"]], [["B-PER", "O", "B-PER"], ["B-PER", "O", "B-LOC"]]
>>> errors = error_table(X_test, y_test, tagger.predict_segments(X_test, with_probability=True), scheme="bio")
>>> errors
sequence  error  true     predicted  true_text  predicted_text  probability
       1  label  2 3 LOC  2 3 PER    Rome       Rome                  0.430
>>> explain(tagger, X_test, 1, 2, against="B-LOC").table[:2]
position  pattern  feature   value  weight  contribution
       2  O B-PER            1.000   0.535         0.535
       2  O B-LOC           -1.000   0.374        -0.374
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

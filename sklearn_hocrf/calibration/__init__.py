"""Calibration: probabilities that match how often predictions are right, and sets that contain the truth.

* :class:`CalibratedSequenceLabeler` determines a temperature for all weights of a model;
* :class:`ConformalSequenceLabeler` returns sets of labellings, labels or segments that miss the truth as rarely as
  asked for, whatever the model.

To assess probabilities before and after, use ``segment_outcomes`` of :mod:`sklearn_hocrf.metrics` with scikit-learn's
calibration curve and Brier score, and ``log_likelihood`` of held-out sequences.

>>> from sklearn_hocrf import HighOrderCRF
>>> from sklearn_hocrf.calibration import CalibratedSequenceLabeler
>>> X, y = (
...     [[["a"], ["b"]], [["b"], ["a"]]] * 5,
...     [["x", "y"], ["y", "x"]] * 4 + [["x", "x"], ["y", "y"]],
... )
>>> calibrated = CalibratedSequenceLabeler(HighOrderCRF(), cv=2).fit(X, y)
>>> calibrated.predict([[["a"], ["a"]]])
[['x', 'x']]

User guide: docs/guide/answers.md.
"""

from ._conformal import ConformalSequenceLabeler, Coverage, LabellingSet
from ._temperature import CalibratedSequenceLabeler

__all__ = ["CalibratedSequenceLabeler", "ConformalSequenceLabeler", "Coverage", "LabellingSet"]

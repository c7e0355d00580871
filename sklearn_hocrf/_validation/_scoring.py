"""Detection of scikit-learn's scorers that cannot use predictions for sequences."""

from __future__ import annotations

import sys
from types import FrameType

__all__ = ["refuse_metrics_of_labels"]

_ON_THE_WAY = "sklearn.", "sklearn_hocrf."  # pipelines, searches and calibration between a scorer and a model
_OF_LABELS = "sklearn.metrics._classification"


def refuse_metrics_of_labels() -> None:
    """Raise a ValueError if a scorer such as "f1_macro" asks for predictions that are lists of sequences.

    Its metric takes one label per sample and would fail with a message about "legacy multi-label data", which searches
    and ``cross_validate`` print with a score of nan. Only the call stack shows the estimator that such a scorer has
    called it. If scikit-learn has moved the scorer, its own message remains.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_ON_THE_WAY):
        metric = getattr(frame.f_locals.get("self"), "_score_func", None)
        if metric is not None:
            if getattr(metric, "__module__", None) == _OF_LABELS:
                raise ValueError(
                    f"{metric.__name__} of scikit-learn takes one label per sample, not sequences: use "
                    "metrics.segment_f1_scorer, or make_scorer of a function that flattens the lists first"
                )
            return
        frame = frame.f_back

"""Scorers of scikit-learn that ask for predictions in vain."""

from __future__ import annotations

import sys
from types import FrameType

__all__ = ["refuse_metrics_of_labels"]

_ON_THE_WAY = "sklearn.", "sklearn_hocrf."  # pipelines, searches and calibration between a scorer and a model
_OF_LABELS = "sklearn.metrics._classification"


def refuse_metrics_of_labels() -> None:
    """Raise a ValueError if a scorer such as "f1_macro" asks for predictions that are lists of sequences.

    Its metric takes one label a sample: it would fail at them with words about "legacy multi-label data", and searches
    and ``cross_validate`` print its last words beside a score of nan. Nothing but its place among the callers tells the
    estimator who asks. Where scikit-learn has moved it, its own words stay.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_ON_THE_WAY):
        metric = getattr(frame.f_locals.get("self"), "_score_func", None)
        if metric is not None:
            if getattr(metric, "__module__", None) == _OF_LABELS:
                raise ValueError(
                    f"{metric.__name__} of scikit-learn takes one label a sample, not sequences: use a scorer of "
                    "sklearn_hocrf.metrics, such as scoring=metrics.token_f1_scorer or metrics.segment_f1_scorer"
                )
            return
        frame = frame.f_back

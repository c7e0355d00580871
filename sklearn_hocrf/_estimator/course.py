"""The steps of fit, for those of the package who train an estimator in another way than its ``fit``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._objectives import Objective, Problem
from .._validation import FeatureSpace, TrainingData, read_training_sequences
from .fitted import Fitted
from .fitted_model import FittedModel

__all__ = ["Course"]


class Course:
    """The course of a fit, step by step.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        Nothing but :meth:`end` changes it.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def check(self) -> None:
        """Raise an error for parameters that ``fit`` refuses."""
        self.estimator._validate_params()
        self.estimator._check_parameters()

    def read(self, X: Any, y: Any, sample_weight: ArrayLike | None, fixed: Any = None) -> TrainingData:
        """Return validated training data; their labels and highest lengths are those of ``fixed`` targets, if given."""
        sequences = read_training_sequences(self.estimator, X, sample_weight)
        return self.estimator._read_training_data(y, sequences, fixed)

    def layout(self, data: TrainingData) -> Any:
        """Return which weights there are."""
        return self.estimator._build_layout(data)

    def problem(self, layout: Any, data: TrainingData) -> Problem:
        """Return the data under a layout."""
        return self.estimator._pose_problem(layout, data)

    def objective(self) -> Objective:
        """Return the criterion, without data."""
        return self.estimator._choose_objective()

    def end(self, layout: Any, weights: np.ndarray, targets: Any, features: FeatureSpace, **more: Any) -> FittedModel:
        """Set the fitted attributes for weights that ``fit`` has not found; ``more`` are fields of the record."""
        record = Fitted(
            layout,
            weights,
            targets.without_data(),
            features,
            n_iter=0,
            n_passes=0,
            history=np.array([np.nan]),
            gap=np.inf,
            trained_with=self.estimator._trained_with(),
            **more,
        )
        self.estimator._keep(record.checked(type(layout)))
        return FittedModel(self.estimator)

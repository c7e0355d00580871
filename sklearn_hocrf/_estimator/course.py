"""The steps of fit, for parts of the package that train an estimator in another way than its ``fit``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._objectives import Problem
from .._solvers import SolverReport
from .._structure.layout import LayoutBuilder
from .._validation import FeatureSpace, TrainingData, TrainingSequences, read_training_sequences
from .fitted import Fitted
from .fitted_model import FittedModel
from .patterns import ObservedPatterns
from .pruning import prune_held_out

__all__ = ["Course"]


class Course:
    """The course of a fit, step by step.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        Only :meth:`keep` and :meth:`end` change it.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def check(self) -> None:
        """Raise an error for parameters that ``fit`` rejects."""
        self.estimator._validate_params()
        self.estimator._check_parameters()

    def refuse(self, circumstance: str) -> None:
        """Raise a ValueError for parameters that cannot be combined with a circumstance, as in ``compatibility``."""
        self.estimator._refuse(circumstance)

    def read(self, X: Any, y: Any, sample_weight: ArrayLike | None, fixed: Any = None) -> TrainingData:
        """Return validated training data; labels and maximum lengths come from ``fixed`` targets, if given."""
        return self.read_targets(y, read_training_sequences(self.estimator, X, sample_weight), fixed)

    def read_targets(self, y: Any, sequences: TrainingSequences, fixed: Any = None) -> TrainingData:
        """Return validated training data for sequences already read; ``fixed`` may also be all possible labels."""
        return self.estimator._read_training_data(y, sequences, fixed)

    def label_set(self, y: Any, sequences: TrainingSequences) -> np.ndarray:
        """Return the labels of a part of the training data, sorted."""
        return self.estimator._read_label_set(y, sequences)

    def has_holes(self, y: Any, sequences: TrainingSequences) -> bool:
        """Return whether y has unknown labels."""
        return self.estimator._has_holes(y, sequences.batch, sequences.form)

    @property
    def least_labels(self) -> int:
        """The minimum number of labels."""
        return self.estimator._least_labels

    def observed(self, data: TrainingData) -> ObservedPatterns:
        """Return the label patterns of training data."""
        return self.estimator._observed(data)

    def layout_builder(self, data: TrainingData, observed: ObservedPatterns) -> LayoutBuilder:
        """Return the builder of the weight layout, for data that may lack the sequences."""
        patterns = self.estimator._select_patterns(None, data, observed)
        return self.estimator._layout_builder(data, patterns)

    def layout(self, data: TrainingData) -> Any:
        """Return the layout of the weights."""
        return self.estimator._build_layout(data)

    def last_weights(self, layout: Any, data: TrainingData) -> np.ndarray:
        """Return the weights of the fitted estimator under another layout; 0 where it has none."""
        return self.estimator._last_weights(layout, data)

    def problem(self, layout: Any, data: TrainingData) -> Problem:
        """Return the data under a layout."""
        return self.estimator._pose_problem(layout, data)

    def prune(self, training: Problem, held_out: Problem) -> tuple[Problem, Problem]:
        """Return both over the labels that ``pruning`` leaves, which are chosen without the held-out labels."""
        training = self.estimator._prune(training)
        level_zero = training.level_zero
        return training, held_out if level_zero is None else prune_held_out(held_out, level_zero)

    def penalty(self, prior: Any, layout: Any, data: TrainingData) -> Any:
        """Return the penalty on the weights of a layout; warn of prefixes that match no feature name."""
        return self.estimator._choose_penalty(prior, layout, data)

    def report(self, data: TrainingData, problem: Any, penalty: Any, report: SolverReport) -> Fitted:
        """Return the record of the model in a solver's report, for :meth:`keep`."""
        return self.estimator._report_learned(data, problem, penalty, report)

    def keep(self, record: Fitted) -> None:
        """Set the fitted attributes, all at once."""
        self.estimator._keep(record)

    def end(self, layout: Any, weights: np.ndarray, targets: Any, features: FeatureSpace, **more: Any) -> FittedModel:
        """Set the fitted attributes for weights that do not come from ``fit``; ``more`` are fields of the record."""
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
        self.keep(record.checked(type(layout)))
        return FittedModel(self.estimator)

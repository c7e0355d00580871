"""Members that mixins require of their estimators; for type checkers only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._objectives import Problem
from .._structure.layout import WeightLayout
from .._validation import FeatureSpace, Known, TrainingData
from .fitted import Fitted
from .fitting import Training

__all__ = ["Hooks"]

if TYPE_CHECKING:

    class Hooks:
        """Parameters, fitted attributes and methods of ``BaseSequenceLabeler``."""

        constraints: Any
        label_parts: Any
        n_jobs: int | None
        patterns: Any

        classes_: np.ndarray
        label_parts_: np.ndarray
        patterns_: list[tuple]
        _fitted: Fitted

        @property
        def _features(self) -> FeatureSpace: ...
        @property
        def _history(self) -> str: ...
        @property
        def _labels(self) -> np.ndarray: ...
        @property
        def _layout(self) -> Any: ...
        @property
        def _weights(self) -> np.ndarray: ...

        _as_fitted: Callable[[], Any]
        _build_layout: Callable[..., WeightLayout]
        _build_model: Callable[[], Any]
        _check_classes: Callable[[Any], np.ndarray]
        _check_holes: Callable[[TrainingData], None]
        _check_possible: Callable[[Problem, np.ndarray | None], None]
        _choose_penalty: Callable[..., Any]
        _choose_training: Callable[..., Training]
        _has_holes: Callable[..., bool]
        _keep: Callable[[Fitted], None]
        _learned: Callable[..., Fitted]
        _pose_problem: Callable[..., Problem]
        _read_known: Callable[..., Known]
        _read_training_data: Callable[..., TrainingData]
        _read_truth: Callable[..., Any]
        _refuse: Callable[..., None]
        _token_codes: Callable[[Any], np.ndarray]
else:
    Hooks = object

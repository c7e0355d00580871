"""The state of a fitted model: everything that is saved, and everything that predictions depend on."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ..._data.arrays import freeze
from ..._engine.inference.candidates import LevelZero
from ..._engine.inference.families import LATTICE, Family, recursion_of
from ..._engine.inference.model import Model
from ..._engine.structure.layout import WeightLayout
from ..._engine.structure.segment_layout import SegmentLayout
from ..._engine.training.pruning import checked_level_zero
from ..._engine.training.stochastic import TrainingState
from ..._reading._token_targets import TokenTargets
from ..._reading.inputs import FeatureSpace
from ..._reading.targets import SegmentTargets
from ..labels.kinds import class_of_layouts
from ..labels.patterns import pattern_labels
from ..labels.tags import SegmentTags
from .one_call import OneCall

MOST_KEPT = 1 << 26  # bytes of tables that are kept in addition to the weights


class CachedTables:
    """Tables that the first query to a model makes, kept as long as its state; copies and files have none.

    Attributes
    ----------
    model : Model or None
        With the tables that its kernels read. Any thread may set it: all of them make the same.
    tags : dict
        The labels as tags of segments, by scheme; likewise.
    one : OneCall or None
        For calls with one sequence; likewise.
    """

    __slots__ = ("model", "one", "tags")

    def __init__(self, model: Model | None = None) -> None:
        self.model = model
        self.one: OneCall | None = None
        self.tags: dict[str, SegmentTags] = {}

    def __reduce__(self) -> tuple:
        return CachedTables, ()


class FittedState(NamedTuple):
    """The result of fit, from which all fitted attributes are derived."""

    layout: WeightLayout
    weights: np.ndarray  # (n_weights,)
    targets: TokenTargets | SegmentTargets  # without the data
    features: FeatureSpace
    n_iter: int
    n_passes: float
    history: np.ndarray  # (n_iter + 1,)
    gap: float
    trained_with: dict  # the parameter ``constraints``
    stream: TrainingState | None = None  # of partial_fit
    borders: np.ndarray | None = None  # (2, L) bool   labels at the start and at the end of sequences; None: all
    level_zero: LevelZero | None = None  # which labels tokens may have; None: all
    part_names: np.ndarray | None = None  # (S,)   of the parts of labels; None: there are none
    temperature: float = 1.0  # by which calibration divided the trained weights
    tables: CachedTables | None = None  # set by ``checked``

    def model(self, family: Family) -> Model:
        """Return the model with the weights, which is kept unless its tables are large."""
        kept = self.tables and self.tables.model
        if kept and kept.weights is self.weights:  # states may be copied with other weights
            return kept
        if self.level_zero is not None:
            model = LATTICE.model(self.layout, self.weights, self.level_zero.finder())
        else:
            model = recursion_of(family, self.layout).model(self.layout, self.weights)
        if self.tables is not None and model.n_bytes <= MOST_KEPT:
            self.tables.model = model
        return model

    def attributes(self) -> dict[str, Any]:
        """Return all fitted attributes of an estimator in this state."""
        layout, weights = self.layout, self.weights
        coef, part_coef, pattern_coef = layout.coef(weights), layout.part_coef(weights), layout.pattern_coef(weights)
        if self.stream is not None:
            coef.eliminate_zeros()
            part_coef.eliminate_zeros()
        own: dict[str, Any] = {}
        if isinstance(layout, SegmentLayout):
            own = {"scheme_": self.targets.scheme, "token_intercept_": layout.token_coef(weights)}
        return {
            "_state": self,
            **self.targets.attributes(),
            "n_features_in_": self.features.n_features,
            "patterns_": pattern_labels(layout.patterns, self.targets.labels),
            "pattern_coef_": pattern_coef,
            "intercept_": pattern_coef[: len(self.targets.labels)],
            "n_parameters_": layout.n_weights,
            "automaton_": layout.automaton,
            "coef_": coef,
            "label_parts_": self.part_names,
            "part_coef_": part_coef,
            "n_iter_": self.n_iter,
            "n_passes_": self.n_passes,
            "objective_history_": self.history,
            "optimality_gap_": self.gap,
            **own,
        }

    def set_on(self, estimator: Any) -> None:
        """Set all fitted attributes at once, so that no interrupt or other thread sees a mixture of models."""
        attributes = self.attributes()
        before = estimator.__dict__.copy()
        estimator.__dict__.update(attributes)
        del before  # kept the replaced values alive, so that none is destroyed in the middle of the update

    def checked(self, targets_class: type[Any]) -> FittedState:
        """Return the state with read-only weights, or raise a ValueError if its parts do not fit together.

        Parameters
        ----------
        targets_class : type
            Required class of the targets. That of the layout checks its own parts when it is created.
        """
        layout, targets, layout_class = self.layout, self.targets, class_of_layouts(targets_class)
        if type(layout) is not layout_class or not hasattr(layout, "n_weights"):
            raise ValueError(f"the layout of the weights is a {type(layout).__name__}, not a {layout_class.__name__}")
        weights = _numbers(self.weights, "weights", layout.n_weights)
        if not np.isfinite(weights).all():
            raise ValueError("the weights are not all finite")
        if not isinstance(self.features, FeatureSpace):
            raise ValueError(f"the features are a {type(self.features).__name__}, not a FeatureSpace")
        features = self.features.unpacked()
        features.check(layout.n_features)
        if not isinstance(targets, targets_class):
            raise ValueError(f"the targets are {type(targets).__name__}, not {targets_class.__name__}")
        targets.check(layout.patterns.n_labels)
        for name in ("longest", "shortest", "repeats"):
            lengths: list[Any] = [getattr(part, name, None) for part in (layout, targets)]
            if not np.array_equal(*lengths):
                raise ValueError("the maximum and minimum lengths of segments do not match the layout")
        n_values = len(_numbers(self.history, "history"))
        if not isinstance(self.n_iter, Integral) or n_values != self.n_iter + 1:
            raise ValueError(f"a history of {n_values} values does not match {self.n_iter!r:.20} iterations")
        if not isinstance(self.gap, Real) or not isinstance(self.n_passes, Real):
            raise ValueError(f"gap and passes are not numbers: {self.gap!r:.40}, {self.n_passes!r:.40}")
        if not isinstance(self.trained_with, dict):
            raise ValueError(f"the parameters of training are a {type(self.trained_with).__name__}, not a dict")
        if self.stream is not None and not isinstance(self.stream, TrainingState):
            raise ValueError(f"the stream of partial_fit is a {type(self.stream).__name__}, not the state of a solver")
        if self.stream is not None:
            self.stream.check(layout.n_weights)
        if not isinstance(self.temperature, Real) or not 0 < float(self.temperature) < math.inf:
            raise ValueError(f"the temperature is {self.temperature!r:.40}, not a positive number")
        borders = _borders(self.borders, layout.patterns.n_labels)
        level_zero = checked_level_zero(self.level_zero, layout, _numbers)
        part_names = _part_names(self.part_names, layout.parts.n_parts)
        return self._replace(
            weights=weights,
            features=features,
            borders=borders,
            level_zero=level_zero,
            part_names=part_names,
            tables=CachedTables(),
        )


def _borders(borders: Any, n_labels: int) -> np.ndarray | None:
    """Return a read-only table of the labels at borders, or raise."""
    if borders is None:
        return None
    borders = np.asarray(borders)
    if borders.shape != (2, n_labels) or borders.dtype != bool:
        raise ValueError(f"the labels at borders are {borders.shape} of {borders.dtype}, not (2, {n_labels}) of bool")
    return freeze(borders, np.bool_)


def _part_names(names: Any, n_parts: int) -> np.ndarray:
    """Return the names of parts of labels, or raise unless there are ``n_parts`` of them."""
    names = np.empty(0, object) if names is None else np.asarray(names)
    if names.shape != (n_parts,):
        raise ValueError(f"names of parts of labels are of shape {names.shape}, not ({n_parts},)")
    return names


def _numbers(array: Any, what: str, length: int | None = None) -> np.ndarray:
    """Return a read-only 1-D array of real numbers, or raise."""
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or length not in (None, len(array)):
        raise ValueError(f"{what} must be {'some' if length is None else length} real numbers, got {array.shape}")
    return freeze(array, np.float64)

"""The two kinds of models, for tokens and for segments, and the methods in which their estimators differ."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from ..._data.batch import SequenceBatch
from ..._data.messages import warn_user
from ..._engine.inference.chain import ChainModel
from ..._engine.inference.model import Model
from ..._engine.inference.segment import SegmentModel
from ..._engine.structure.layout import LayoutBuilder, LayoutFrame
from ..._engine.structure.pairs import PairRule
from ..._engine.structure.patterns import PatternTable, without_equal_neighbours
from ..._engine.structure.segment_ages import what_is_slow
from ..._engine.structure.segment_layout import SegmentLayoutBuilder
from ..._reading.inputs import Reader
from ..._reading.targets import SegmentTargets, Targets, TokenTargets


class Kind:
    """Models of tokens: their classes, the forms of their data, and their patterns and layouts.

    Attributes
    ----------
    model, targets : type
        Class of the models, and class of the targets that are read from y.
    labels_segments : bool
        Whether labellings are segmentations.
    """

    model: ClassVar[type[Model]] = ChainModel
    targets: ClassVar[type[Targets]] = TokenTargets
    labels_segments: ClassVar[bool] = False

    def reader(self, estimator: BaseEstimator) -> Reader:
        """Return the settings of an estimator that are needed to read its data."""
        return Reader(type(estimator).__name__)

    def possible_patterns(self, targets: Any, patterns: PatternTable) -> PatternTable:
        """Return the patterns that labellings may contain."""
        return patterns

    def layout_builder(self, targets: Any, frame: LayoutFrame, rule: PairRule, fit_intercept: bool) -> LayoutBuilder:
        """Return the builder of layouts."""
        return LayoutBuilder(frame, rule, fit_intercept)

    def warn_of_unlimited_lengths(self, layout: Any, batch: SequenceBatch, *others: str) -> None:
        """Warn if segments are unlimited, sequences long, and features or ``others`` require all candidates."""


class SegmentKind(Kind):
    """Models of segments."""

    model, targets, labels_segments = SegmentModel, SegmentTargets, True
    intercepts: ClassVar[bool | str] = True  # True: for segments and their tokens; "segment" or "token": only for these

    def reader(self, estimator: BaseEstimator) -> Reader:
        return Reader(type(estimator).__name__, estimator.scheme, estimator.segment_length)

    def possible_patterns(self, targets: SegmentTargets, patterns: PatternTable) -> PatternTable:
        return patterns if targets.repeats else without_equal_neighbours(patterns)

    def layout_builder(
        self, targets: SegmentTargets, frame: LayoutFrame, rule: PairRule, fit_intercept: bool
    ) -> LayoutBuilder:
        limits = targets.longest, targets.repeats, targets.shortest
        return SegmentLayoutBuilder(limits, frame, rule, fit_intercept and self.intercepts)

    def warn_of_unlimited_lengths(self, layout: Any, batch: SequenceBatch, *others: str) -> None:
        longest = batch.n_tokens if len(batch) == 1 else int(batch.lengths.max(initial=0))
        if slow := what_is_slow(layout, longest, *others):
            warn_user(
                f"segment_length=inf is slow with {', '.join(slow)}: time and memory grow with the tokens times the "
                f"longest sequence, {longest:,} tokens, instead of the tokens alone"
            )

"""What models of tokens and models of segments need: the layout of their weights."""

from __future__ import annotations

from typing import Any

from ..._engine.structure.layout import LayoutBuilder, LayoutFrame, WeightLayout
from ..._engine.structure.pairs import PairRule
from ..._engine.structure.patterns import PatternTable, pairs_of_equals, without_forbidden
from ..._engine.structure.segment_layout import SegmentLayout, SegmentLayoutBuilder, SegmentLimits
from ..._reading.targets import SegmentTargets


def class_of_layouts(targets_class: type) -> type[WeightLayout]:
    """Return the class of the layouts of models with such targets."""
    return SegmentLayout if issubclass(targets_class, SegmentTargets) else WeightLayout


def possible_patterns(targets: Any, patterns: PatternTable) -> PatternTable:
    """Return the patterns that labellings may contain."""
    if not isinstance(targets, SegmentTargets) or targets.repeats:
        return patterns
    return without_forbidden(patterns, pairs_of_equals(len(targets.labels)))


def layout_builder(targets: Any, frame: LayoutFrame, rule: PairRule, intercepts: bool) -> Any:
    """Return the builder of the weight layout: a LayoutBuilder or a SegmentLayoutBuilder."""
    if not isinstance(targets, SegmentTargets):
        return LayoutBuilder(frame, rule, intercepts)
    limits = SegmentLimits(targets.longest, targets.repeats, targets.shortest)
    return SegmentLayoutBuilder(limits, frame, rule, intercepts)

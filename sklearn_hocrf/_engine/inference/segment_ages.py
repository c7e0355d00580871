"""Semi-Markov CRFs whose segments have any length: the passes of a chain of aged labels.

The layout of weights, the labellings and the questions are those of :mod:`.segment`. The tables are those of
:mod:`.chain`, for the columns of an ``AgedLayout``: time and memory grow with the tokens, whatever the lengths of
segments are.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..._data.masks import Mask
from ..._data.segments import Segments
from ..kernels import masks, segment_ages
from ..kernels.tag_segments import Tags
from ..structure.segment_ages import AgedLayout, aged
from ..structure.segment_layout import CandidateFeatures
from .chain import ChainDecodePass, ChainPass, ChainPlan
from .passes import BasePass
from .posterior import LanePosterior
from .schedule import Tile
from .segment import SegmentModel, SegmentPlan, SegmentPosterior


class AgedPlan(SegmentPlan):
    """Plan of a batch, for semi-Markov CRFs of any length of one layout."""

    default_schedule = ChainPlan.default_schedule
    allowed: np.ndarray | None = None  # (N, M) bool   aged labels that tokens may have; None: all

    def _read(self) -> None:
        layout, self.aged = self.layout, aged(self.layout)
        if self.aged.links.shift.any():  # some columns are read from another tile if sequences are cut
            self.schedule = replace(self.schedule, cut_size=math.inf, single_sequence_size=1 << 26, long_call=1 << 26)
        self.candidates = CandidateFeatures.none(self.n_tokens)
        self.length_entries, self.n_cells = self.aged.length_entries, self.aged.n_columns
        self.n_counted_lengths = self.n_cells if len(self.length_entries.cell) else 0
        self.n_varying, n_states = self.aged.n_varying, self.aged.automaton.n_states
        self.row_size = n_states + layout.pairs.n_columns + self.n_cells + self.n_varying + 1
        self.work_per_token = self.row_size + len(self.aged.compiled.network.terms)

    def masked(self, mask: Mask | None, may_be_impossible: bool = False) -> Self:
        plan = super().masked(mask, may_be_impossible)
        plan.allowed = None if plan.mask is None else self.aged.allowed(plan.mask)
        return plan


class _AgedBasePass(BasePass):
    """The scores of a tile's columns and those of its chain; for both kinds of passes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.links = self.plan.aged.links
        self.length_scores = self.plan.length_scores(self.pair_weights[: self.n_parts])

    def chain_scores(self, tile: Tile) -> np.ndarray:
        return self._table("chain", tile, self.n_columns)

    def _score(self, tile: Tile) -> np.ndarray:
        scores, table = self._score_tokens(tile), self.chain_scores(tile)
        segment_ages.assemble(self.links, tile, self.length_scores, scores, table)
        self._shift_labels(tile, table)
        self._forbid_labels(tile, table)
        return table

    def _forbid_labels(self, tile: Tile, scores: np.ndarray) -> None:
        if self.plan.allowed is not None:
            masks.forbid_labels(tile, self.n_columns, self.plan.allowed, scores)


class AgedPass(_AgedBasePass, ChainPass):
    """Forward and backward passes of one chunk."""

    def _log_spread(self) -> float:
        return math.inf

    def column_marginals(self, tile: Tile, weight: np.ndarray) -> np.ndarray:
        scores, columns = self.scores(tile), self._columns(tile)
        counts = self._sum("lengths", self.plan.n_counted_lengths, columns)
        segment_ages.collect(self.links, tile, weight, self.chain_scores(tile), scores, counts)
        return scores

    def add_feature_counts(self, tile: Tile, weight: np.ndarray, gradient: np.ndarray, dense: np.ndarray) -> None:
        self._add_token_counts(tile, self.column_marginals(tile, weight), weight, gradient, dense)

    def length_counts(self) -> np.ndarray:
        return self._total("lengths", self.plan.n_counted_lengths)

    def arc_counts(self) -> np.ndarray:
        """Return the expected counts of the arcs of the layout, which segments use at their first tokens."""
        arcs = self.plan.aged.layout_arc
        return np.bincount(arcs[arcs >= 0], super().arc_counts()[arcs >= 0], self.layout.automaton.n_arcs)


class AgedDecodePass(_AgedBasePass, ChainDecodePass):
    """Viterbi segmentation of one chunk."""


class AgedPosterior(SegmentPosterior):
    """The posterior of a semi-Markov CRF of any length; its labellings are :class:`Segments`."""

    pass_class, decode_pass_class = AgedPass, AgedDecodePass

    def segment_marginals(self, threshold: float, tags: Tags | None = None) -> tuple[Segments, np.ndarray]:
        return LanePosterior.segment_marginals(self, threshold, self.plan.aged.tags())

    def segment_probabilities(self, segments: Segments, tags: Tags | None = None) -> np.ndarray:
        return LanePosterior.segment_probabilities(self, segments, self.plan.aged.tags())


class AgedModel(SegmentModel):
    """A semi-Markov CRF of any length with given weights."""

    plan_class, posterior_class = AgedPlan, AgedPosterior
    has_lengths = False  # of the labellings that kernels write: codes of aged labels

    @property
    def arc_layout(self) -> AgedLayout:
        return aged(self.layout)

    @property
    def n_columns(self) -> int:
        return self.arc_layout.n_columns

    def labelling(self, offsets: np.ndarray, codes: np.ndarray, lengths: np.ndarray) -> Segments:
        start = np.flatnonzero(codes < self.layout.automaton.n_labels)  # aged labels of age 1 come first
        return Segments(np.searchsorted(start, offsets), start, np.append(start, len(codes))[1:], codes[start])

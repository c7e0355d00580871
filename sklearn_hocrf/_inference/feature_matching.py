"""Local feature matching: squared differences between observed and expected features in each place.

    f(w) = sum_n c_n sum_t sum_z n_t(z) (mu_t(z) - 1_t(z))^2

For chains, a place is a position t and a pattern z: mu_t(z) is the probability that z ends there, 1_t(z) indicates
whether it does in the labels, and n_t(z) is the sum of the squared values of the features that have a weight with z (a
weight of z itself counts 1). For segmentations, the sum is over candidate segments [u, v) instead of positions: mu_(u,
v)(z) is the probability that [u, v) is a segment and ends z.

That is the squared distance between the feature vector of each position and its expectation (Kim 2014), with one
component per weight. The derivative of mu with respect to a weight is a covariance, so the gradient is twice the
derivative of the expected counts when the score of each place moves along ``r = n (mu - 1)``: a plain pass over a task
of the data computes r and the value, a pass on dual numbers the gradient. Every pattern therefore gets its own score
columns, or cells, and memory is r for one task of each thread.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import freeze
from .._data.batch import SequenceBatch, TokenFeatures
from .._data.segments import BEGIN, WHOLE, Labelling, Segments
from .._kernels import feature_matching, segment_feature_matching, segment_scores, token_scores
from .._structure.layout import WeightLayout
from .._structure.segment_layout import SegmentLayout
from .._structure.weighted_arcs import arcs_of_labels, suffix_patterns
from .model import Model
from .passes import ExpectedCounts, Moves, Receiver
from .schedule import Plan, Task, Tile, Workspace, lane_kind_of
from .segment import SegmentPlan

__all__ = ["ChainMatching", "Matching", "SegmentMatching"]


class Matching(metaclass=ABCMeta):
    """Local feature matching of labelled sequences.

    Parameters
    ----------
    model_class : type
        Class of the models.
    plan : ChainPlan or SegmentPlan
        The plan of the sequences, under the layout of the weights.
    truth : ndarray or Segments
        The true labelling of the sequences.
    sequence_weight : ndarray of shape (n_sequences,)
        Weight of each sequence.
    """

    n_columns: int  # of the table of r

    def __init__(
        self,
        model_class: type[Model],
        plan: Plan,
        truth: Labelling,
        sequence_weight: np.ndarray,
    ) -> None:
        self.model_class, self.sequence_weight, batch = model_class, sequence_weight, plan.batch
        self.layout = self._with_pattern_columns(plan.layout)
        self.plan = plan.under(self.layout)
        self.features = _squared_features(self.layout, batch)
        self.ones = freeze(np.ones(self.layout.n_pairs), np.float64)
        self.dense_ones = freeze(self.layout.dense_table(self.ones), np.float64)
        self.slot, self.n_slots = self.plan.slots()
        self._read(batch, truth)

    @abstractmethod
    def _with_pattern_columns(self, layout: WeightLayout) -> Any:
        """Return a layout in which each pattern has marginals, and a score that can move independently."""

    @abstractmethod
    def _read(self, batch: SequenceBatch, truth: Any) -> None:
        """Prepare the values to compare with the model's marginals."""

    @abstractmethod
    def compare(self, backward: Any, tile: Tile, weight: np.ndarray, residuals: np.ndarray) -> float:
        """Write r of a tile to a table of one row per place, and return the value."""

    def squared_values(self, backward: Any, tile: Tile) -> np.ndarray:
        """Return the sums of squared values of the features with a weight in each score column."""
        scores = backward.workspace("squares", *backward.scores(tile).shape)
        weights = self.ones, self.ones, self.dense_ones
        token_scores.score_rows(self.features, self.layout.pairs, *weights, tile, scores)
        return scores

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient; shape (n_weights,)."""
        model, weight = self.model_class(self.layout, w), self.sequence_weight
        posterior, zero_direction = model.on(self.plan), model.moving(np.zeros(self.layout.n_weights))
        log_z, make_pass = np.zeros(self.plan.n_sequences), posterior.pass_class

        def work(chunk: list[Task], workspace: Workspace) -> tuple:
            moves = Moves(self.slot, workspace("residuals", self.n_slots, self.n_columns))
            residuals, counts = _Residuals(self, moves.table), ExpectedCounts(posterior)
            plain = make_pass(workspace, posterior, log_z, weight, receiver=residuals)
            dual = make_pass(
                workspace, posterior, log_z, weight, receiver=counts, direction=zero_direction, moves=moves
            )
            for task in chunk:
                moves.table[:] = 0.0
                plain.run(task)
                dual.run(task)
            return (np.array([residuals.value]), *dual.sums())

        sums = self.plan.add_up(work)
        if sums is None:  # there is no data
            return 0.0, np.zeros(self.layout.n_weights)
        return float(sums[0][0]), 2 * posterior.counts(sums[1:])


class _Residuals(Receiver):
    """Sum the value, and write r of a task to a table of one row per token."""

    def __init__(self, matching: Matching, table: np.ndarray) -> None:
        self.matching, self.table, self.value = matching, table, 0.0

    def receive(self, backward: Any, tile: Tile, weight: np.ndarray) -> None:
        self.value += self.matching.compare(backward, tile, weight, self.table)


class ChainMatching(Matching):
    """Local feature matching under a high-order CRF."""

    def _with_pattern_columns(self, layout: WeightLayout) -> WeightLayout:
        return layout.with_columns([(z, BEGIN) for z in layout.patterns.tuples()])[0]

    def _read(self, batch: SequenceBatch, truth: np.ndarray) -> None:
        self.n_columns = self.layout.pairs.n_columns
        self.arcs = arcs_of_labels(self.layout.automaton, batch.offsets, truth)
        self.bias = freeze(np.isin(self.layout.column_pattern, self.layout.bias_pattern), np.float64)

    def compare(self, backward: Any, tile: Tile, weight: np.ndarray, residuals: np.ndarray) -> float:
        tables = backward.column_marginals(tile, weight), self.squared_values(backward, tile), self.bias, weight
        truth, slot = (self.arcs, self.layout.arc_columns), (self.slot, residuals)
        return feature_matching.compare(tile, self.n_columns, *tables, *truth, *slot)


class TrueSegments(NamedTuple):
    """The segmentation of the data, for kernels.   N tokens."""

    length: np.ndarray  # (N,) int64   of the segment that ends with each token, or 0
    starts: np.ndarray  # (N + 1,) int64   range of the patterns that end with it
    targets: np.ndarray  # int32


class SegmentMatching(Matching):
    """Local feature matching under a high-order semi-Markov CRF."""

    layout: SegmentLayout
    plan: SegmentPlan

    def _with_pattern_columns(self, layout: WeightLayout) -> WeightLayout:
        # each pattern becomes a scored pattern of whole segments, with its own number
        return layout.with_columns([(z, WHOLE) for z in layout.patterns.tuples() if len(z) > 1])[0]

    def _read(self, batch: SequenceBatch, truth: Segments) -> None:
        layout, plan = self.layout, self.plan
        self.n_columns, self.truth = plan.n_cells, _true_segments(layout, batch, truth)
        # columns that only move arcs in the model belong to their patterns here
        self.index = layout.segment_index(int(batch.lengths.max(initial=0)), arcs_move=False)
        self.shared, values = layout.shared_features(batch, self.index), plan.candidates.values
        self.candidates = plan.candidates._replace(values=freeze(values**2, np.float64))
        has_bias = np.isin(np.arange(len(self.index.longest)), layout.bias_pattern)
        constant = np.repeat(has_bias, self.index.longest) + (plan.length_matrix**2).sum(axis=1)
        self.constant = freeze(np.stack([constant, np.zeros(len(constant))], axis=1), np.float64)

    def _squared_values_of_cells(self, backward: Any, tile: Tile) -> np.ndarray:
        """Return the sums of squared values of the features with a weight in each cell; shape (R * E, W)."""
        scores, pairs, index = self.squared_values(backward, tile), self.layout.pairs, self.index
        squares = backward.workspace("counts", *backward.cells(tile).shape)
        segment_scores.assemble(lane_kind_of(tile), index, tile, self.constant, scores, squares)
        segment_scores.score_candidates(self.candidates, pairs, self.ones, self.ones, index, tile, squares)
        if len(self.shared.attribute):
            segment_feature_matching.add_products(self.shared, index, tile, squares)
        return squares

    def compare(self, backward: Any, tile: Tile, weight: np.ndarray, residuals: np.ndarray) -> float:
        tables = backward.cells(tile), self._squared_values_of_cells(backward, tile), weight
        slot = self.slot, residuals
        return segment_feature_matching.compare(self.plan.segment_index, tile, *tables, self.truth, *slot)


def _squared_features(layout: WeightLayout, batch: SequenceBatch) -> TokenFeatures:
    """Return the token features of a batch for kernels, with the squares of their values."""
    matrix = batch.tocsr().copy()
    matrix.sum_duplicates()
    matrix.data **= 2
    return layout.rows(SequenceBatch.from_csr(matrix, batch.offsets))


def _true_segments(layout: WeightLayout, batch: SequenceBatch, truth: Segments) -> TrueSegments:
    """Return the true segments and the patterns that end with each."""
    arcs = arcs_of_labels(layout.automaton, truth.offsets, truth.codes)
    length = np.zeros(batch.n_tokens, np.int64)
    length[truth.stop - 1] = truth.lengths
    tokens, patterns = [], []
    for order in range(int(layout.patterns.lengths.max())):
        pattern = suffix_patterns(layout.automaton, arcs, order)
        has_order = np.flatnonzero(pattern >= 0)
        tokens.append(truth.stop[has_order] - 1)
        patterns.append(pattern[has_order])
    token = np.concatenate(tokens)
    by_position = np.argsort(token, kind="stable")
    starts = np.searchsorted(token[by_position], np.arange(batch.n_tokens + 1))
    by_token = np.concatenate(patterns)[by_position]
    return TrueSegments(freeze(length, np.int64), freeze(starts, np.int64), freeze(by_token, np.int32))

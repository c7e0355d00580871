"""Local feature matching of segments: what each candidate segment has, and what a model expects it to have.

    f(w) = sum_n c_n sum_(u, v) sum_z n_(u, v)(z) (mu_(u, v)(z) - 1_(u, v)(z))^2

mu_(u, v)(z) is the probability that [u, v) is a segment and ends the label pattern z, 1_(u, v)(z) says whether that is
so in the data, and n_(u, v)(z) is the sum of the squared values that those features have in [u, v) that have a weight
with z (a weight of z itself counts 1). As in ``_inference.feature_matching``, a plain pass over a task of the data gives these numbers,
and the gradient is twice the derivative of the expected counts when the score of each candidate and pattern moves along
``n (mu - 1)``: a pass on dual numbers. So every pattern gets scores of its own for whole segments, and memory is that
of one task for each thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._data.arrays import freeze
from .._data.segments import WHOLE
from .._kernels import segment_feature_matching, segment_scores, token_scores
from .._structure.weighted_arcs import label_arcs, suffix_patterns
from .chain import SMALL_STEP, add_up, in_order, lane_kind_of, lanes_of
from .feature_matching import places, squared_rows
from .segment import SegmentBackwardPass, SegmentDerivativePass, SegmentModel, SegmentPlan

__all__ = ["SegmentMatching", "segment_label_gradient"]


class TrueSegments(NamedTuple):
    """The segmentation of the data, for kernels.   N tokens."""

    length: np.ndarray  # (N,) int64   of the segment that ends with each token, or 0
    starts: np.ndarray  # (N + 1,) int64   range of the patterns that end with it
    targets: np.ndarray  # int32


class SegmentMatching:
    """Local feature matching of segmented sequences under a high-order semi-Markov CRF.

    Parameters
    ----------
    layout : SegmentLayout
        Which weights there are.
    batch : SequenceBatch
        The sequences.
    truth : Segments
        Their segmentation.
    sequence_weight : ndarray of shape (n_sequences,)
        How much each sequence counts.
    """

    def __init__(self, layout, batch, truth, sequence_weight):
        # each pattern becomes a target, whose number is that of the pattern
        self.layout = layout.with_columns([(z, WHOLE) for z in layout.patterns.tuples() if len(z) > 1])[0]
        self.plan = SegmentPlan(self.layout, batch)
        self.sequence_weight = sequence_weight
        self.truth = _true_segments(self.layout, batch, truth)
        self.place, self.n_places = places(self.plan, batch.n_tokens)
        self.counts = _SquaredValues(self.layout, batch, self.plan)

    def value_gradient(self, w, n_jobs=None) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient; shape (n_weights,)."""
        model, still = SegmentModel(self.layout, w), SegmentModel(self.layout, np.zeros(self.layout.n_weights))
        weight = self.sequence_weight

        def work(chunk):
            with self.plan.workspace() as tables:
                table = tables("residuals", self.n_places, self.plan.n_cells)
                residuals = _ResidualPass(tables, model, self, table)
                slopes = _EntryPass(tables, model, still, self.plan, weight, self.place, table)
                for task in chunk:
                    table[:] = 0.0
                    residuals.backward(task)
                    slopes.backward(task)
                return (np.array([residuals.value]), *slopes.sums())

        sums = add_up(in_order(work, self.plan, n_jobs))
        if sums is None:  # there is no data
            return 0.0, np.zeros(self.layout.n_weights)
        return float(sums[0][0]), 2 / SMALL_STEP * model.counts(self.plan, sums[1:])


def segment_label_gradient(model: SegmentModel, batch, token, label) -> np.ndarray:
    """Return the gradient of P(a token lies in a segment of a label) with respect to the weights; shape (n_weights,).

    It is the covariance of that event with all counts: the derivative of the expected counts when the scores of all
    segments of the label that contain the token move. ``token`` is its number in the batch.
    """
    sequence = int(np.searchsorted(batch.offsets, token, side="right")) - 1
    position, batch = token - int(batch.offsets[sequence]), batch[[sequence]]
    plan, layout = SegmentPlan(model.layout, batch), model.layout
    shape, table = plan.segment_index, np.zeros((batch.n_tokens, plan.n_cells))
    first, longest = int(shape.first_cell[label]), int(shape.longest[label])
    for last in range(position, min(position + longest, batch.n_tokens)):
        table[last, first + last - position : first + longest] = 1.0
    still = SegmentModel(layout, np.zeros(layout.n_weights))
    with plan.workspace() as tables:
        run = _EntryPass(tables, model, still, plan, np.ones(1), np.arange(batch.n_tokens), table)
        for task in plan.cut(np.arange(1)):
            run.backward(task)
        return model.counts(plan, run.sums()) / SMALL_STEP


class _SquaredValues:
    """Sums up, for candidate segments and targets, the squared values of the features with a weight there."""

    def __init__(self, layout, batch, plan):
        self.layout, self.plan = layout, plan
        # columns that only move arcs in the model belong to their targets here
        self.shape = layout.segment_index(int(batch.lengths.max(initial=0)), arcs_move=False)
        self.rows, self.shared = squared_rows(layout, batch), layout.shared_features(batch, self.shape)
        values = plan.candidates.values
        self.candidates = plan.candidates._replace(values=freeze(values**2, np.float64))
        self.ones = freeze(np.ones(layout.n_pairs), np.float64)
        self.dense_ones = freeze(layout.dense_table(self.ones), np.float64)
        has_bias = np.isin(np.arange(len(self.shape.longest)), layout.bias_pattern)
        constant = np.repeat(has_bias, self.shape.longest) + (plan.length_matrix**2).sum(axis=1)
        self.constant = freeze(np.stack([constant, np.zeros(len(constant))], axis=1), np.float64)

    def __call__(self, run, tile):
        """Return the table of sums of a tile; shape (R * E, W)."""
        n_rows, lanes, pairs = int(tile.rows[-1]), lanes_of(tile), self.layout.pairs
        scores = run.tables("squares", n_rows * pairs.n_columns, lanes)
        counts = run.tables("counts", n_rows * self.plan.n_cells, lanes)
        token_scores.score_rows(self.rows, pairs, self.ones, self.ones, self.dense_ones, tile, scores)
        segment_scores.assemble(lane_kind_of(tile), self.shape, tile, self.constant, scores, counts)
        segment_scores.score_candidates(self.candidates, pairs, self.ones, self.ones, self.shape, tile, counts)
        if len(self.shared.attribute):
            segment_feature_matching.add_products(self.shared, self.shape, tile, counts)
        return counts


def _true_segments(layout, batch, truth) -> TrueSegments:
    """Return the true segments and the patterns that end with each."""
    arcs = label_arcs(layout.automaton, truth.offsets, truth.codes)
    length = np.zeros(batch.n_tokens, np.int64)
    length[truth.stop - 1] = truth.lengths
    tokens, targets = [], []
    for order in range(int(layout.patterns.lengths.max())):
        pattern = suffix_patterns(layout.automaton, arcs, order)
        there = np.flatnonzero(pattern >= 0)
        tokens.append(truth.stop[there] - 1)
        targets.append(pattern[there])
    token = np.concatenate(tokens)
    order = np.argsort(token, kind="stable")
    starts = np.searchsorted(token[order], np.arange(batch.n_tokens + 1))
    return TrueSegments(
        freeze(length, np.int64), freeze(starts, np.int64), freeze(np.concatenate(targets)[order], np.int32)
    )


class _ResidualPass(SegmentBackwardPass):
    """Sums up the value, and writes the residuals of a task to a table of one row per token."""

    def __init__(self, tables, model, owner: SegmentMatching, table):
        super().__init__(tables, model, owner.plan, np.zeros(owner.plan.n_sequences), owner.sequence_weight)
        self.owner, self.table, self.value = owner, table, 0.0

    def _collect(self, tile, table, scores, weight):
        owner = self.owner
        asked = table, owner.counts(self, tile), weight, owner.truth, owner.place, self.table
        self.value += segment_feature_matching.compare(self.shape, tile, *asked)


class _EntryPass(SegmentDerivativePass):
    """Sums up the derivatives of expected counts when the scores of candidate segments move, as a table says."""

    def __init__(self, tables, model, still, plan, sequence_weight, place, table):
        super().__init__(tables, model, still, plan, np.zeros(plan.n_sequences), sequence_weight)
        self.place, self.table = place, table

    def score(self, tile):
        scores, table = super().score(tile)
        segment_feature_matching.perturb(self.shape, tile, self.place, self.table, SMALL_STEP, table)
        return scores, table

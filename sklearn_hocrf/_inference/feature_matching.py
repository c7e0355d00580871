"""Local feature matching: squared differences between what is at each position and what a model expects there.

    f(w) = sum_n c_n sum_t sum_z n_t(z) (mu_t(z) - 1_t(z))^2

For a pattern z, mu_t(z) is the probability that it ends at position t, 1_t(z) says whether it does so in the labels,
and n_t(z) is the sum of the squared values of the features that have a weight with z (a weight of z itself counts 1).
That is the squared distance between the feature vector of each position and its expectation (Kim 2014), with one
component per weight. The derivative of mu_t(z) by a weight is a covariance, so the gradient is twice the derivative of
the expected counts when each position's potentials move along ``r_t(z) = n_t(z) (mu_t(z) - 1_t(z))``: a plain pass over
a task of the data gives r and the value, a pass on dual numbers the gradient. Memory: r for one task per thread.
"""

from __future__ import annotations

import numpy as np

from .._data.arrays import freeze
from .._data.batch import SequenceBatch
from .._data.segments import BEGIN
from .._kernels import feature_matching, token_scores
from .._structure.weighted_arcs import label_arcs
from .chain import SMALL_STEP, BackwardPass, ChainModel, DerivativePass, Plan, add_up, in_order, lanes_of

__all__ = ["ChainMatching", "label_gradient", "places", "squared_rows"]


class ChainMatching:
    """Local feature matching of labelled sequences under a high-order CRF.

    Parameters
    ----------
    layout : WeightLayout
        Which weights there are.
    batch : SequenceBatch
        The sequences.
    truth : ndarray of shape (N,), int32
        Label codes of their tokens.
    sequence_weight : ndarray of shape (n_sequences,)
        How much each sequence counts.
    """

    def __init__(self, layout, batch, truth, sequence_weight):
        # each pattern becomes a score column, so that its marginals are there and its score can move by position
        self.layout = layout.with_columns([(z, BEGIN) for z in layout.patterns.tuples()])[0]
        self.plan = Plan(self.layout, batch)
        self.sequence_weight = sequence_weight
        self.arcs = label_arcs(self.layout.automaton, batch.offsets, truth)
        self.bias = freeze(np.isin(self.layout.column_pattern, self.layout.bias_pattern), np.float64)
        self.squares = squared_rows(self.layout, batch)
        self.ones = freeze(np.ones(self.layout.n_pairs), np.float64)
        self.dense_ones = freeze(self.layout.dense_table(self.ones), np.float64)
        self.place, self.n_places = places(self.plan, batch.n_tokens)

    def value_gradient(self, w, n_jobs=None) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient; shape (n_weights,)."""
        model, still = ChainModel(self.layout, w), ChainModel(self.layout, np.zeros(self.layout.n_weights))
        n_columns = self.layout.pairs.n_columns

        def work(chunk):
            with self.plan.workspace() as tables:
                table = tables("residuals", self.n_places, n_columns)
                residuals = _ResidualPass(tables, model, self, table)
                slopes = _PositionPass(tables, model, still, self.plan, self.sequence_weight, self.place, table)
                for task in chunk:
                    table[:] = 0.0
                    residuals.backward(task)
                    slopes.backward(task)
                return (np.array([residuals.value]), *slopes.sums())

        sums = add_up(in_order(work, self.plan, n_jobs))
        if sums is None:  # there is no data
            return 0.0, np.zeros(self.layout.n_weights)
        return float(sums[0][0]), 2 / SMALL_STEP * model.counts(sums[1:])


def label_gradient(model: ChainModel, batch, token, label) -> np.ndarray:
    """Return the gradient of P(a token has a label) with respect to the weights; shape (n_weights,).

    It is the covariance of the label's indicator with all counts: the derivative of the expected counts when the
    score of the label moves at that one position. ``token`` is its number in the batch.
    """
    sequence = int(np.searchsorted(batch.offsets, token, side="right")) - 1
    position, batch = token - int(batch.offsets[sequence]), batch[[sequence]]
    plan, layout = Plan(model.layout, batch), model.layout
    table = np.zeros((batch.n_tokens, layout.pairs.n_columns))
    table[position, label] = 1.0
    still = ChainModel(layout, np.zeros(layout.n_weights))
    with plan.workspace() as tables:
        run = _PositionPass(tables, model, still, plan, np.ones(1), np.arange(batch.n_tokens), table)
        for task in plan.cut(np.arange(1)):
            run.backward(task)
        return model.counts(run.sums()) / SMALL_STEP


def squared_rows(layout, batch):
    """Return the rows of a batch for kernels, with the squares of the features' values."""
    matrix = batch.tocsr().copy()
    matrix.sum_duplicates()
    matrix.data **= 2
    return layout.rows(SequenceBatch.from_csr(matrix, batch.offsets))


def places(plan, n_tokens):
    """Return the place of each token among those of its task, and the highest number of places."""
    place, most = np.zeros(n_tokens, np.int64), 0
    for task in (task for chunk in plan.chunks for task in chunk):
        sequences = task.sequences[task.sequences >= 0]
        tokens = np.concatenate([np.arange(*plan.offsets[n : n + 2]) for n in sequences])
        place[tokens] = np.arange(len(tokens))
        most = max(most, len(tokens))
    return freeze(place, np.int64), most


class _ResidualPass(BackwardPass):
    """Sums up the value, and writes the residuals of a task to a table of one row per token."""

    def __init__(self, tables, model, owner: ChainMatching, table):
        super().__init__(tables, model, owner.plan, np.zeros(owner.plan.n_sequences), owner.sequence_weight)
        self.owner, self.table, self.value = owner, table, 0.0

    def _receive(self, tile, marginals, weight):
        owner, pairs = self.owner, self.layout.pairs
        counts = self.tables("counts", *marginals.shape)
        token_scores.score_rows(owner.squares, pairs, owner.ones, owner.ones, owner.dense_ones, tile, counts)
        truth, place = (owner.arcs, self.layout.arc_columns), (owner.place, self.table)
        self.value += feature_matching.compare(
            tile, pairs.n_columns, marginals, counts, owner.bias, weight, *truth, *place
        )


class _PositionPass(DerivativePass):
    """Sums up the derivatives of expected counts when the scores of columns move by position, as a table says."""

    def __init__(self, tables, model, still, plan, sequence_weight, place, table):
        super().__init__(tables, model, still, plan, np.zeros(plan.n_sequences), sequence_weight)
        self.place, self.table = place, table

    def _score(self, tile):
        n_columns, lanes = self.layout.pairs.n_columns, lanes_of(tile)
        n_rows = int(tile.rows[-1]) * n_columns
        scores, values = self.tables("scores", n_rows, 2 * lanes), self.tables("values", n_rows, lanes)
        model = self.model
        weights = model.pair_weights, model.pair_weights, model.dense_table
        token_scores.score_rows(self.plan.rows, self.layout.pairs, *weights, tile, values)
        scores[:, :lanes] = values
        feature_matching.perturb(tile, n_columns, self.place, self.table, SMALL_STEP, scores)
        return scores

"""Local feature matching: squared differences between observed and expected features in each place.

    f(w) = sum_n c_n sum_t sum_z n_t(z) (mu_t(z) - 1_t(z))^2

For chains, a place is a position t and a pattern z: mu_t(z) is the probability that z ends there, 1_t(z) indicates
whether it does in the labels, and n_t(z) is the sum of the squared values of the features that have a weight with z (a
weight of z itself counts 1). For segmentations, the sum is over candidate segments [u, v) instead of positions: mu_(u,
v)(z) is the probability that [u, v) is a segment and ends z.

That is the squared distance between the feature vector of each position and its expectation (Kim 2014), with one
component per weight. The derivative of mu with respect to a weight is a covariance, so the gradient is twice the
derivative of the expected counts when the score of each place moves along ``r = n (mu - 1)``.

The data are processed in parts of some sequences, under a layout in which each place of a part has a weight of its own,
which is 0: its expected count is mu, and the product of the Hessian and r is the derivative of the expected counts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..._data.batch import SequenceBatch, with_blocks
from ..._data.segment_features import RowBlock, blocks_of, segment_features
from ..._data.segments import WHOLE, Labelling, Segments
from ..inference.model import Model
from ..inference.schedule import Plan
from ..structure.label_parts import endings
from ..structure.pairs import FeatureMap
from ..structure.weighted_arcs import arcs_of_labels

_PLACES = 1 << 20  # of a part, unless the model has more weights, over all of which each part goes


class _Part(NamedTuple):
    """Some sequences.   S candidate segments, M of which lie within a sequence, and Z patterns."""

    plan: Plan
    weight: np.ndarray  # (S,)   of the candidate's sequence
    within: np.ndarray  # (M,)   these M of the candidates
    squares: sparse.csr_array  # (M, Z)   sums of the squared values of their features
    truth: np.ndarray  # the places of the true labels, of S * Z


class Matching:
    """Local feature matching of labelled sequences.

    Parameters
    ----------
    model_class : type
        Class of the models: chains, or segments.
    plan : ChainPlan or SegmentPlan
        The plan of the sequences, which have no dense columns, under the layout of the weights.
    truth : ndarray or Segments
        The true labelling of the sequences.
    sequence_weight : ndarray of shape (n_sequences,)
        Weight of each sequence.
    """

    def __init__(self, model_class: type[Model], plan: Plan, truth: Labelling, sequence_weight: np.ndarray) -> None:
        layout: Any = plan.layout
        self.layout, batch = layout, plan.batch
        self.model_class, self.batch, self.sequence_weight, self.n_lengths = model_class, batch, sequence_weight, 1
        if isinstance(truth, Segments):
            self.n_lengths = int(min(layout.longest.max(), batch.lengths.max(initial=1)))
        else:
            tokens = np.arange(batch.n_tokens + 1)
            truth = Segments(batch.offsets, tokens[:-1], tokens[1:], truth)
        self.rows = np.unique(layout.row_of_weight)  # the patterns that have weights
        most = max(_PLACES, layout.n_weights) // max(self.n_lengths * len(self.rows), 1) + 1  # tokens
        cuts = np.searchsorted(batch.offsets, np.arange(0, batch.n_tokens, most))
        cuts = np.unique(np.append(cuts, len(batch)))
        sizes = np.diff(batch.offsets[cuts])
        slot = np.arange(batch.n_tokens) - np.repeat(batch.offsets[cuts[:-1]], sizes)
        self.wide = self._with_places(int(sizes.max(initial=0)) * self.n_lengths)
        self.plan = type(plan)(self.wide, self._with_candidates(slot), plan.schedule, plan.n_jobs).masked(plan.mask)
        is_place = np.zeros(self.wide.n_weights, bool)
        is_place[: self.wide.n_pairs] = self.wide.pair_feature >= layout.n_features
        self.own, self.places = np.flatnonzero(~is_place), np.flatnonzero(is_place)
        self.parts = [self._part(truth, np.arange(*cut)) for cut in zip(cuts[:-1], cuts[1:], strict=True)]
        lengths = np.arange(1.0, self.n_lengths + 1)[:, None]
        has_bias, of_tokens = (np.isin(self.rows, rows) for rows in (layout.bias_pattern, layout.token_labels))
        self.constant = has_bias + lengths**2 * of_tokens  # what the weights of patterns and of tokens add to n

    def _with_places(self, n_candidates: int) -> Any:
        """Return a layout in which each candidate segment of a part has a feature, with a weight for each pattern."""
        layout, old, n_rows, new = self.layout, self.layout.features, len(self.rows), np.arange(n_candidates)
        channel = layout.channels.index(WHOLE) if WHOLE in layout.channels else 0
        features = FeatureMap(
            np.concatenate([old.attribute, len(old.sort_key) + new]),
            np.concatenate([old.channel, np.full(n_candidates, channel)]),
            np.concatenate([old.sort_key, np.max(old.sort_key, initial=0) + 1 + new]),
        )
        pair_feature = np.concatenate([layout.pair_feature, np.repeat(layout.n_features + new, n_rows)])
        pair_pattern = np.concatenate([layout.pair_pattern, np.tile(self.rows, n_candidates)])
        return layout.with_pairs(pair_feature, pair_pattern, features)

    def _with_candidates(self, slot: np.ndarray) -> SequenceBatch:
        """Return the batch with a feature of value 1 for each candidate segment; ``slot`` (N,) numbers tokens."""
        n_features = self.wide.n_features - self.layout.n_features
        if WHOLE in self.layout.channels:
            block = RowBlock(_Candidates(self.n_lengths, n_features), {"slot": slot})
            return with_blocks(self.batch, (*blocks_of(self.batch), block))
        one_each = np.ones(len(slot)), slot, np.arange(len(slot) + 1)
        places = sparse.csr_array(one_each, shape=(len(slot), n_features))
        return SequenceBatch.from_csr(sparse.hstack([self.batch.tocsr(), places], format="csr"), self.batch.offsets)

    def _part(self, truth: Segments, sequences: np.ndarray) -> _Part:
        """Return some consecutive sequences with their places."""
        layout, n_lengths, batch = self.layout, self.n_lengths, self.batch[sequences]
        stop = np.repeat(np.arange(1, batch.n_tokens + 1), n_lengths)
        start = stop - 1 - np.arange(len(stop)) % n_lengths
        within = np.flatnonzero(start >= np.repeat(batch.offsets[:-1], batch.lengths * n_lengths))
        features = segment_features(batch, start[within], stop[within])
        features.sum_duplicates()
        pairs = layout.pair_feature, np.searchsorted(self.rows, layout.pair_pattern)
        has_weight = sparse.csr_array((np.ones(layout.n_pairs), pairs), shape=(layout.n_features, len(self.rows)))
        return _Part(
            self.plan.part(sequences),
            np.repeat(self.sequence_weight[sequences], batch.lengths * n_lengths),
            within,
            sparse.csr_array(features.power(2) @ has_weight),
            self._true_places(truth.of_sequences(sequences, self.batch.offsets)),
        )

    def _true_places(self, truth: Segments) -> np.ndarray:
        """Return the places of the patterns that end with each segment."""
        layout, rows = self.layout, self.rows
        arcs = arcs_of_labels(layout.automaton, truth.offsets, truth.codes)
        candidate = (truth.stop - 1) * self.n_lengths + truth.lengths - 1
        places = []
        for order in range(int(layout.patterns.lengths.max())):
            segment, row = endings(layout.compiled, layout.parts, arcs, order).pairs()
            has_weight = np.isin(row, rows)
            column = np.searchsorted(rows, row[has_weight])
            places.append(candidate[segment[has_weight]] * len(rows) + column)
        return np.concatenate(places)

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient; shape (n_weights,)."""
        value, gradient, weights = 0.0, np.zeros(len(w)), np.zeros(self.wide.n_weights)
        weights[self.own] = w
        model, direction = self.model_class(self.wide, weights), np.zeros(len(weights))
        for part in self.parts:
            posterior, places = model.on(part.plan), self.places[: len(part.weight) * len(self.rows)]
            difference = posterior.expectations().counts[places]
            difference[part.truth] -= 1.0
            n = np.tile(self.constant, (len(part.weight) // self.n_lengths, 1))
            n[part.within] += part.squares.toarray()
            direction[places] = r = n.ravel() * difference
            value += float(part.weight @ (r * difference).reshape(n.shape).sum(axis=1))
            gradient += 2 * posterior.hessian_vector_product(direction, self.sequence_weight)[self.own]
        return value, gradient


class _Candidates(NamedTuple):
    """Makes the features of candidate segments: one each, of value 1."""

    n_lengths: int
    n_features: int

    def rows(self, columns: Any, offsets: np.ndarray, token_data: Any, start: np.ndarray, stop: np.ndarray) -> Any:
        """Return the rows of candidates: the feature of one follows from the slot of its last token and its length."""
        feature = token_data["slot"][stop - 1] * self.n_lengths + stop - start - 1
        return sparse.csr_array((np.ones(len(start)), feature, np.arange(len(start) + 1)), shape=(len(start), self[1]))

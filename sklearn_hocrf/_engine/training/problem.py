"""Labelled training data under one layout of weights, and local feature matching on them.

The criterion of local feature matching is the sum of squared differences between observed and expected features:

    f(w) = sum_n c_n sum_t sum_z n_t(z) (mu_t(z) - 1_t(z))^2

For chains, a place is a pair of a position t and a pattern z: mu_t(z) is the probability that z ends at t, 1_t(z) is 1
if z ends at t in the true labels and 0 otherwise, and n_t(z) is the sum of the squared values of the features that have
a weight for z (a bias of z adds 1). For segmentations, candidate segments [u, v) replace positions: mu_(u, v)(z) is the
probability that [u, v) is a segment and the last segment of z.

For each position, the sum over z is the squared distance between the feature vector, with one component per weight, and
its expectation (Kim 2014). The derivative of mu with respect to a weight is a covariance, so the gradient is twice the
derivative of the expected counts along the direction in which the score of each place changes by ``r = n (mu - 1)``.

The data are processed in parts, each of which consists of some sequences, under a layout in which each place of a part
has a separate weight of 0. The expected count of this weight is mu, and the product of the Hessian and r is the
derivative of the expected counts.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..._data.arrays import cached_property, joined_ranges, offsets_of
from ..._data.batch import SequenceBatch, as_sparse, with_blocks
from ..._data.segment_features import RowBlock, blocks_of, segment_features
from ..._data.segments import WHOLE, Labelling, Mask, Segments, both
from ..inference.candidates import LevelZero
from ..inference.minibatches import Minibatches
from ..inference.model import Model
from ..inference.schedule import Plan, Schedule
from ..structure.pairs import FeatureMap, endings
from ..structure.weighted_arcs import arcs_of_labels

LARGE = 1e6  # larger scores have rounding errors that would distinguish labellings


@dataclass(eq=False, repr=False)
class Problem:
    """Labelled training data under one layout of weights, to which training criteria are bound.

    Parameters
    ----------
    model_class : type
        Class of the models: of chains, of segments, or of chains over lattices.
    layout : WeightLayout or SegmentLayout
        The layout of the weights.
    batch : SequenceBatch
        Training data.
    truth : ndarray or Segments
        The true labelling: label codes of the tokens, of shape (N,), int32; or a segmentation that the layout allows.
    sequence_weight : ndarray of shape (n_sequences,) or None
        Weight of each sequence; None means 1.
    n_jobs : int or None
        Number of threads, as in joblib. Results are bitwise identical for any number of threads.
    schedule : Schedule or None
        The sizes that determine how the batch is cut into tasks.
    support : Mask or None
        The possible labellings, which include the truth. None means all.
    known : Mask or None
        The labellings that agree with the known labels if some labels are missing (codes of -1, or gaps between
        segments). None means that no labels are missing.
    level_zero : LevelZero or None
        The model that chose the candidate labels of a :class:`~.pruning.PrunedProblem`.

    Attributes
    ----------
    n_weights, n_sequences : int
    """

    model_class: type[Model]
    layout: Any
    batch: SequenceBatch
    truth: Any
    _: KW_ONLY
    sequence_weight: Any = None
    n_jobs: int | None = None
    schedule: Schedule | None = None
    support: Mask | None = None
    known: Mask | None = None
    level_zero: LevelZero | None = None

    def __post_init__(self) -> None:
        self.n_weights, self.n_sequences = self.layout.n_weights, len(self.batch)
        weight = np.ones(self.n_sequences) if self.sequence_weight is None else self.sequence_weight
        self.sequence_weight = np.asarray(weight, np.float64)

    @cached_property
    def plan(self) -> Any:
        """The division of the batch into tasks."""
        plan = self.model_class.plan_class(self.layout, self.batch, self.schedule, self.n_jobs)
        return plan if self.support is None else plan.masked(self.support)

    @cached_property
    def is_partial(self) -> np.ndarray:
        """Whether each sequence lacks some of its labels; shape (n_sequences,)."""
        if self.known is None:
            return np.zeros(self.n_sequences, dtype=bool)
        units = self.layout.units(self.batch, self.truth)
        n_labelled = offsets_of(np.where(units.codes < 0, 0, units.lengths))[units.offsets]
        return np.diff(n_labelled) < self.batch.lengths

    @cached_property
    def partial(self) -> Problem | None:
        """The problem of the sequences with missing labels, with the known labels as the support; or None."""
        if not self.is_partial.any():
            return None
        part = self.part(np.flatnonzero(self.is_partial))
        return replace(part, support=both(part.support, part.known), known=None)

    def model(self, w: np.ndarray) -> Model:
        """Return the model with the weights ``w``."""
        return self.model_class(self.layout, w, schedule=self.schedule)

    def posterior(self, w: np.ndarray) -> Any:
        """Return the :class:`Posterior` of the batch with the weights ``w``."""
        return self.model(w).posterior_on(self.plan)

    @cached_property
    def sparse(self) -> Problem:
        """The problem with dense columns as part of the sparse rows, for methods that process sequences one by one."""
        if self.batch.dense is None:
            return self
        return replace(self, batch=as_sparse(self.batch))

    @cached_property
    def minibatches(self) -> Minibatches:
        """The minibatches, which give values and gradients of a few sequences at a time."""
        if self.sparse is not self:
            return self.sparse.minibatches
        made: Any = self.model_class.minibatches_class
        return made(self.model_class, self.plan, self.truth, self.sequence_weight)

    def separated_by(self, w: np.ndarray) -> bool:
        """Return whether the true labels of each sequence of positive weight have a probability above 1/2 under ``w``.

        If scores under ``w`` are so large that rounding errors matter, ``w`` is scaled down first. The result is False
        if this also holds for weights of 0, because each sequence then has only one possible labelling.
        """
        longest = max(self.largest_log_z(w), LARGE)
        return self.gives_most_to_truth(w * (LARGE / longest)) and not self.gives_most_to_truth(np.zeros(len(w)))

    def largest_log_z(self, w: np.ndarray) -> float:
        """Return the largest absolute value of the log partition functions of sequences under ``w``."""
        return float(np.abs(self.posterior(w).log_z()).max(initial=0.0))

    def gives_most_to_truth(self, w: np.ndarray) -> bool:
        """Return whether the true labelling of each sequence of positive weight has a probability above 1/2."""
        log_probability = (self._log_scores(w) - self.posterior(w).log_z())[self.sequence_weight > 0]
        return bool((log_probability > -np.log(2)).all())

    def _log_scores(self, w: np.ndarray) -> np.ndarray:
        """Return the log potentials of the known labels of each sequence."""
        if self.partial is None:
            return self.posterior(w).log_score(self.truth)
        scores, seen = np.empty(self.n_sequences), self.part(np.flatnonzero(~self.is_partial))
        scores[~self.is_partial] = seen.posterior(w).log_score(seen.truth)
        scores[self.is_partial] = self.partial.posterior(w).log_z()
        return scores

    def part(self, sequences: np.ndarray) -> Problem:
        """Return the problem of the sequences with the given indices."""
        tokens, truth = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1]), self.truth
        is_of_segments = isinstance(truth, Segments)
        return replace(
            self,
            batch=self.batch[sequences],
            truth=truth.of_sequences(sequences, self.batch.offsets) if is_of_segments else truth[tokens],
            sequence_weight=self.sequence_weight[sequences],
            support=self.support and self.support.part(tokens),
            known=self.known and self.known.part(tokens),
        )

    def for_batch(
        self, batch: SequenceBatch, truth: Any, sequence_weight: Any = None, support: Mask | None = None
    ) -> Problem:
        """Return the problem of other data, without missing labels, under the same layout."""
        return replace(self, batch=batch, truth=truth, sequence_weight=sequence_weight, support=support, known=None)

    @cached_property
    def matching(self) -> Matching:
        """Local feature matching of the labelled data."""
        return Matching(self.model_class, self.sparse.plan, self.truth, self.sequence_weight)

    def empirical_counts(self) -> np.ndarray:
        """Return the weighted count of each weight's feature in the labelled data; shape (n_weights,).

        Sequences with missing labels are ignored.
        """
        if self.is_partial.any():
            return self.part(np.flatnonzero(~self.is_partial)).empirical_counts()
        return self.plan.empirical_counts(self.truth, self.sequence_weight)


_PLACES = 1 << 20  # of a part, unless there are more weights, all of which are processed for each part


class _Part(NamedTuple):
    """Some sequences of the data.   S candidate segments, M of which are within one sequence; Z patterns."""

    plan: Plan
    weight: np.ndarray  # (S,)   weight of the candidate's sequence
    within: np.ndarray  # (M,)   indices of these M candidates
    squares: sparse.csr_array  # (M, Z)   sums of the squared values of their features
    truth: np.ndarray  # the places of the true labels, among all S * Z places


class Matching:
    """Local feature matching of labelled sequences.

    Parameters
    ----------
    model_class : type
        Class of the models: of chains, or of segments.
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
        units = layout.units(batch, truth)
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
        self.parts = [self._part(units, np.arange(*cut)) for cut in zip(cuts[:-1], cuts[1:], strict=True)]
        lengths = np.arange(1.0, self.n_lengths + 1)[:, None]
        has_bias, of_tokens = (np.isin(self.rows, rows) for rows in (layout.bias_pattern, layout.token_labels))
        self.constant = has_bias + lengths**2 * of_tokens  # contribution of the weights of patterns and tokens to n

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
        """Return the batch with a feature of value 1 for each candidate; ``slot`` (N,) numbers the tokens by part."""
        n_features = self.wide.n_features - self.layout.n_features
        if WHOLE in self.layout.channels:
            block = RowBlock(_Candidates(self.n_lengths, n_features), {"slot": slot})
            return with_blocks(self.batch, (*blocks_of(self.batch), block))
        one_each = np.ones(len(slot)), slot, np.arange(len(slot) + 1)
        places = sparse.csr_array(one_each, shape=(len(slot), n_features))
        return SequenceBatch.from_csr(sparse.hstack([self.batch.tocsr(), places], format="csr"), self.batch.offsets)

    def _part(self, truth: Segments, sequences: np.ndarray) -> _Part:
        """Return the part that consists of the given consecutive sequences."""
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
        """Return the places of the patterns that end with segments of ``truth``."""
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
            posterior, places = model.posterior_on(part.plan), self.places[: len(part.weight) * len(self.rows)]
            difference = posterior.expectations().counts[places]
            difference[part.truth] -= 1.0
            n = np.tile(self.constant, (len(part.weight) // self.n_lengths, 1))
            n[part.within] += part.squares.toarray()
            direction[places] = r = n.ravel() * difference
            value += float(part.weight @ (r * difference).reshape(n.shape).sum(axis=1))
            gradient += 2 * posterior.hessian_vector_product(direction, self.sequence_weight)[self.own]
        return value, gradient


class _Candidates(NamedTuple):
    """The features of candidate segments, for a :class:`RowBlock`: one feature, of value 1, for each segment."""

    n_lengths: int
    n_features: int

    def rows(self, columns: Any, offsets: np.ndarray, token_data: Any, start: np.ndarray, stop: np.ndarray) -> Any:
        """Return the rows of candidates; the slot of the last token and the length determine the feature of each."""
        feature = token_data["slot"][stop - 1] * self.n_lengths + stop - start - 1
        return np.arange(len(start) + 1), feature, np.ones(len(start))

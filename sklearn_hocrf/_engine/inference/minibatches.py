"""Gradients of a few sequences of a batch, computed in time that does not depend on the number of weights.

A step of stochastic training reads and updates the weights that its sequences use: all pairs of their attributes, the
weights of lengths, and the biases. Tables with one number for each weight exist once per batch; each step restores them
to their previous state.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..._data.arrays import allocator, cached_property, freeze, freeze_all
from ..._data.batch import SequenceBatch, TokenFeatures, ranges_of_tokens
from ..._data.segment_features import segment_features
from ..._data.segments import Labelling, Segments
from ..kernels import descent
from ..kernels import lists as minibatches
from ..kernels._vectors import LANES
from ..kernels.token_scores import label_sums
from ..structure.layout import WeightLayout
from ..structure.pairs import endings
from ..structure.weighted_arcs import arcs_of_labels, bias_of_arc
from .model import Model
from .schedule import Tile

_POOL = 32  # minibatches whose sequences are sorted by length before they are cut


class _Entries(NamedTuple):
    """The counts of pairs, or of arcs, in the labels of each sequence."""

    starts: np.ndarray  # (n_sequences + 1,) int64
    ids: np.ndarray  # (nnz,)
    values: np.ndarray  # (nnz,) float64, or empty if all are 1


def _stops(batch: SequenceBatch, features: TokenFeatures) -> np.ndarray:
    """Return, for each entry of the feature rows, the end of its range of pairs; shape (nnz,), uint32."""
    stop = allocator(batch)(len(features.pair), np.uint32)
    for first, last in ranges_of_tokens(batch):
        starts = features.indptr[first : last + 1]
        part = slice(starts[0], starts[-1])
        single = np.arange(starts[0], starts[-1]) < np.repeat(features.ranges[first:last], np.diff(starts))
        stop[part] = np.where(single, features.pair[part] + np.uint32(1), features.other[part])
    return freeze(stop, np.uint32)


class Minibatches(metaclass=ABCMeta):
    """Expected counts and counts in the labels, for a few sequences of a batch at a time.   K weights.

    Parameters
    ----------
    model_class : type
        Class of the models.
    plan : ChainPlan or SegmentPlan
        The plan of the whole batch.
    truth : ndarray or Segments
        The true labelling of the batch.
    sequence_weight : ndarray of shape (n_sequences,)
        Weight of each sequence.
    """

    def __init__(
        self,
        model_class: type[Model],
        plan: Any,
        truth: Labelling,
        sequence_weight: np.ndarray,
    ) -> None:
        self._model_class, self.layout, self.sequence_weight = model_class, plan.layout, sequence_weight
        self._whole_plan = plan
        units = self.layout.units(plan.batch, truth)
        arcs = arcs_of_labels(self.layout.automaton, units.offsets, units.codes)
        self._truth_arcs = _Entries(freeze(units.offsets, np.int64), arcs, np.empty(0))
        self._no_table = np.zeros((0, self.layout.dense_table().shape[1]))
        n_pairs, first_bias = self.layout.n_pairs, self.layout.first_bias
        self._biases = np.arange(first_bias, self.layout.n_weights)
        self._seen, self._touched = np.zeros(n_pairs, dtype=np.bool_), np.empty(n_pairs + 1, dtype=np.int64)
        self._derivatives, self._log_z = np.zeros(self.layout.n_weights), np.zeros(plan.n_sequences)
        self._gradient = self._derivatives[:first_bias]

    @cached_property
    def _plan(self) -> Any:
        return self._whole_plan.without_dense_table()

    @cached_property
    def _entries_of_tokens(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        plan, features = self._plan, self._plan.token_features
        return features.pair, _stops(plan.batch, features), features.indptr[plan.offsets]

    def pairs(self, sequences: np.ndarray) -> np.ndarray:
        """Return the pairs that the given sequences use, each once; shape (M,), int64."""
        touched, count = self._touched, 0
        for first, stop, starts in self._entries():
            count = minibatches.find_pairs(first, stop, starts, sequences, self._seen, touched, count)
        self._seen[touched[:count]] = False
        return touched[:count].copy()

    def _entries(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return the entries of the feature rows, and the first entry of each sequence."""
        return [self._entries_of_tokens]

    def weights(self, sequences: np.ndarray) -> np.ndarray:
        """Return the weights that the given sequences use, each once: pairs, then biases; int64."""
        return np.concatenate([self.pairs(sequences), self._biases])

    def value_gradient(self, w: np.ndarray, sequences: np.ndarray, touched: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the negative log-likelihood of the given sequences, weighted by ``sequence_weight``, and its gradient.

        Parameters
        ----------
        w : ndarray of shape (K,)
            All weights; only those that the sequences use are read.
        sequences : ndarray of int
        touched : ndarray of int
            The result of :meth:`weights` for these sequences.

        Returns
        -------
        value : float
        gradient : ndarray of shape (len(touched),)
            Derivatives with respect to the weights ``touched``.
        """
        model = self._model_class(self.layout, w, self._no_table)
        plan, weight, gradient = self._plan, self.sequence_weight, self._gradient
        pairs = touched[: len(touched) - len(self._biases)]
        try:
            arcs, lengths = model.posterior_on(plan).add_expectations(sequences, weight, gradient, self._log_z)
            plan.add_length_counts(lengths, gradient)
            value = float(weight[sequences] @ self._log_z[sequences])
            score = minibatches.subtract_entries(
                *self._truth_arcs, sequences, weight, model.weighted_arcs.arc_score, arcs
            ) + self._subtract_truth(model, sequences)
            return value - score, np.concatenate([gradient[pairs], self.layout.sum_over_suffixes(arcs)])
        finally:  # also after an overflow, because the search for a step size continues
            gradient[pairs] = 0.0

    def descend(self, batches: list[np.ndarray], course: descent.Course) -> int:
        """Take the steps of the minibatches before the first that kernels do not support, and return their number.

        Only chains have such kernels.

        Parameters
        ----------
        batches : list of ndarray of int64
            The sequences of each minibatch, sorted by length.
        course : Course
            The weights, and the sums that determine the steps; changed in place.
        """
        return 0

    @abstractmethod
    def _subtract_truth(self, model: Model, sequences: np.ndarray) -> float:
        """Subtract the counts of pairs in the labels from the gradient, and return the score of these pairs."""


class ChainMinibatches(Minibatches):
    """Minibatches of sequences with one label per token."""

    def descend(self, batches: list[np.ndarray], course: descent.Course) -> int:
        plan, schedule = self._whole_plan, self._whole_plan.schedule
        if self.layout.parts.n_parts or not self.layout.slots_are_distinct:  # many labels: Python takes little time
            return 0
        sequences, tiles = plan.tiles_of(batches)
        is_left = tiles.rows[:, -1] * LANES * plan.row_size > min(schedule.cut_size, schedule.single_sequence_size)
        n_taken = int(np.append(is_left, True).argmax())
        if not n_taken:
            return 0
        sizes, longest = (sequences >= 0).sum(axis=(1, 2))[:n_taken], tiles.rows[:n_taken, -1]
        weight = np.where(sequences >= 0, self.sequence_weight[sequences], 0.0)
        structure, arcs, scratch = self._of_steps
        read = freeze_all((course.w, scratch.dense), np.float64)  # the same memory: kernels expect read-only inputs
        posterior = self._model_class(self.layout, read[0], read[1]).posterior_on(plan)
        with plan.workspace() as workspace:
            passes = posterior.pass_class(workspace, posterior, self._log_z)
            largest = Tile(*(table[longest.argmax()] for table in tiles))
            memory = passes.tables(largest), passes.scratch(largest), *read
            return descent.descend(sizes, tiles, weight, structure, arcs, memory, scratch, course)

    @cached_property
    def _of_steps(self) -> tuple:
        """Arguments of all compiled steps: the labels, the structure, and memory that the steps overwrite."""
        layout, plan, automaton = self.layout, self._whole_plan, self.layout.automaton
        allowed = np.empty((0, automaton.n_labels)) if plan.mask is None else plan.mask.allowed
        labels = freeze(self._truth_arcs.ids, np.int32), freeze(allowed, np.bool_)
        bias = bias_of_arc(layout)
        bias[bias >= 0] += layout.first_bias
        bias[layout.compiled.forbidden_arcs] = descent.FORBIDDEN
        order, bias = freeze_all((np.argsort(automaton.arc_length, kind="stable"), bias), np.int32, np.int64)
        scores, weights, none = np.full(len(bias), -np.inf), np.zeros(len(bias)), np.zeros(len(bias))  # forbidden arcs
        arcs = descent.ArcWeights(scores, weights, order, automaton.arc_suffix, bias)
        names = "arc_score", "arc_weight", "arc_score_derivative", "arc_weight_derivative"
        read = freeze_all((scores, weights, none, none), np.float64)
        weighted_arcs = layout.arc_structure._replace(**dict(zip(names, read, strict=True)))
        structure = *labels, plan.token_features, layout.pairs, layout.arc_columns, layout.dense_slots, weighted_arcs
        touched = self._touched.view(np.uint32).reshape(-1, 2)
        dense = layout.dense_table(), layout.dense_table()
        return structure, arcs, descent.Scratch(touched, self._seen, self._derivatives, *dense)

    def _subtract_truth(self, model: Model, sequences: np.ndarray) -> float:
        plan, layout, weight, score = self._plan, self.layout, self.sequence_weight, 0.0
        row_indptr, rows, indptr, ranges, *entries = plan.token_features
        for sequence in sequences:
            first, stop = plan.offsets[sequence : sequence + 2]
            cuts = row_indptr[first : stop + 1], rows, indptr[first : stop + 1], ranges[first:stop]
            features, scores = TokenFeatures(*cuts, *entries), np.zeros(stop - first)
            labels = features, layout.pairs, self._truth_arcs.ids[first:stop], layout.arc_columns
            label_sums(*labels, model.pair_weights, False, scores)
            label_sums(*labels, np.full(stop - first, -weight[sequence]), True, self._gradient)
            score += weight[sequence] * scores.sum()
        return score


class SegmentMinibatches(Minibatches):
    """Minibatches of segmented sequences."""

    def __init__(self, model_class: type[Model], plan: Any, truth: Segments, sequence_weight: np.ndarray) -> None:
        super().__init__(model_class, plan, truth, sequence_weight)
        plan, candidates = self._plan, self._plan.candidates
        self._truth_pairs = _pairs_of_segments(self.layout, plan.batch, truth, self._truth_arcs.ids)
        starts = candidates.indptr[candidates.token_starts[plan.offsets]]
        self._entries_of_candidates = candidates.first, candidates.stop, starts

    def _entries(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        return [self._entries_of_tokens, self._entries_of_candidates]

    def pairs(self, sequences: np.ndarray) -> np.ndarray:
        return np.concatenate([super().pairs(sequences), self._plan.length_weights[0]])

    def _subtract_truth(self, model: Model, sequences: np.ndarray) -> float:
        return minibatches.subtract_entries(
            *self._truth_pairs, sequences, self.sequence_weight, model.pair_weights, self._gradient
        )


def _pairs_of_segments(layout: WeightLayout, batch: SequenceBatch, segments: Segments, arcs: np.ndarray) -> _Entries:
    """Return, by sequence, the counts of pairs in segments, and of the token weights of the segments."""
    features = segment_features(batch, segments.start, segments.stop).tocoo()
    keys = layout.pair_feature.astype(np.int64) * layout.n_rows + layout.pair_pattern
    by_key = np.argsort(keys, kind="stable")
    parts = []
    for order in np.unique(layout.order_of_weight[: layout.n_pairs]):
        entry, row = endings(layout.compiled, layout.parts, arcs, order).take(features.row)
        key = features.col[entry].astype(np.int64) * layout.n_rows + row
        slot = np.minimum(np.searchsorted(keys, key, sorter=by_key), len(keys) - 1)
        weighted = keys[by_key[slot]] == key
        entry = entry[weighted]
        parts.append((features.row[entry], by_key[slot[weighted]], features.data[entry]))
    of_tokens = np.flatnonzero(np.isin(segments.codes, layout.token_labels))
    weights = layout.n_pairs + np.searchsorted(layout.token_labels, segments.codes[of_tokens])
    parts.append((of_tokens, weights, segments.lengths[of_tokens]))
    segment, pair, value = map(np.concatenate, zip(*parts, strict=True))
    shape = len(segments.codes), layout.first_bias
    matrix = sparse.csr_array((value.astype(np.float64), (segment, pair)), shape=shape)
    starts = freeze(matrix.indptr[segments.offsets], np.int64)
    return _Entries(starts, matrix.indices.astype(np.int32), matrix.data)


def shuffled_minibatches(lengths: np.ndarray, batch_size: int, rng: np.random.RandomState) -> list[np.ndarray]:
    """Divide sequences into minibatches of similar lengths, each sequence in exactly one.

    Kernels process sequences side by side, which is fastest for equal lengths.

    Parameters
    ----------
    lengths : ndarray of shape (n_sequences,)
    batch_size : int
        Maximum number of sequences of a minibatch; the sizes differ by at most 1.
    rng : numpy.random.RandomState

    Returns
    -------
    minibatches : list of ndarray of int64
        The minibatches, in random order.
    """
    shuffled = rng.permutation(len(lengths))
    n_minibatches = -(-len(lengths) // batch_size)
    cuts = np.linspace(0, len(lengths), n_minibatches + 1).astype(np.int64)
    for pool in range(0, n_minibatches, _POOL):
        in_pool = slice(cuts[pool], cuts[min(pool + _POOL, n_minibatches)])
        shuffled[in_pool] = shuffled[in_pool][np.argsort(lengths[shuffled[in_pool]], kind="stable")]
    parts = [shuffled[start:stop] for start, stop in zip(cuts[:-1], cuts[1:], strict=True)]
    return [parts[i] for i in rng.permutation(n_minibatches)]

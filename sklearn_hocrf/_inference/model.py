"""Inference for whole batches: partition functions, marginals, expected counts, best labellings.

:class:`Model` declares the methods, once for all families. :class:`LaneModel` implements most of them for chains and
segmentations, for which ``chain`` and ``segment`` supply plans and passes; ``lattice`` has its own implementations.
"""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .._data.arrays import freeze, joined_ranges
from .._data.batch import SequenceBatch
from .._data.masks import Mask
from .._data.segments import Channel, Segments
from .._kernels._network import LOWEST_LOG
from .._kernels.tag_segments import Tags
from .._structure.layout import WeightLayout
from .._structure.weighted_arcs import label_arcs, weighted_arcs
from .answers import BestLabellings, Entropies, Samples, SearchPass
from .passes import (
    SMALL_STEP,
    ColumnMarginals,
    DecodePass,
    ExpectedCounts,
    MarginalPass,
    Receiver,
    run_all,
)
from .schedule import Plan, Schedule, Workspace

__all__ = ["Expectations", "LaneModel", "Model", "TokenModel"]

_LOW_ENTROPY = 1e-4  # of log Z: below it, a difference of numbers of that size has less than ten correct digits
_LONE_SIZE = 1 << 26  # sequences run alone if a block of them would take more than 512 MiB


class Expectations(NamedTuple):
    """Results of one forward and backward pass over a batch.   n sequences."""

    log_z: np.ndarray  # (n,)   log partition functions
    counts: np.ndarray  # (n_weights,)   expected counts of all weights' features, weighted by sequence


class Model(metaclass=ABCMeta):
    """A model with given weights.

    Its methods raise a ValueError if the model forbids every labelling of a sequence. With a mask, results are
    conditional on the labelling being allowed by it. Several questions about one batch may share its plan with the
    mask, which is otherwise made for each of them.

    Parameters
    ----------
    layout : WeightLayout or SegmentLayout
        Which weights there are.
    weights : ndarray of shape (n_weights,)
        The weights; -inf for the bias of a forbidden pattern.
    dense_table : ndarray or None
        The dense table of the layout with these weights; or an empty one for plans without a dense table.
    schedule : Schedule or None
        How batches are cut.
    """

    plan_class: ClassVar[Any]
    has_lengths: ClassVar[bool]  # whether labellings are made of segments
    unanswered: ClassVar[Mapping[str, str]] = {}  # methods that the family does not support, and why

    def __init__(
        self, layout: Any, weights: np.ndarray, dense_table: np.ndarray | None = None, schedule: Schedule | None = None
    ) -> None:
        self.layout, self.schedule = layout, schedule
        self.weights = freeze(weights, np.float64)
        if self.weights.shape != (layout.n_weights,):  # kernels do not check
            raise ValueError(
                f"there are {layout.n_weights} weights, but the given ones have shape {self.weights.shape}"
            )
        self.pair_weights = self.weights[: layout.first_bias]  # and the weights of the tokens of segments
        self.dense_table = freeze(layout.dense_table(self.pair_weights) if dense_table is None else dense_table, float)
        self.weighted_arcs = weighted_arcs(layout, self.weights)
        arcs = self.weighted_arcs
        constant = arcs.arc_score[(arcs.arc_varying < 0) & (arcs.arc_score > -np.inf)]
        self.scales = not len(constant) or bool(constant.min() - arcs.log_shift > LOWEST_LOG)

    @property
    def n_bytes(self) -> int:
        """Memory of what the model has beside its weights."""
        return self.dense_table.nbytes + sum(
            table.nbytes for table in self.weighted_arcs if isinstance(table, np.ndarray)
        )

    @abstractmethod
    def plan(self, batch: SequenceBatch, mask: Mask | None = None, n_jobs: int | None = None) -> Any:
        """Return the plan of a batch, for this model and others of its layout."""

    @abstractmethod
    def expectations(
        self, plan: Plan, sequence_weight: np.ndarray | None = None, n_jobs: int | None = None
    ) -> Expectations:
        """Return partition functions and expected counts."""

    @abstractmethod
    def hessian_vector_product(
        self, plan: Plan, direction: np.ndarray, sequence_weight: np.ndarray | None = None, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return the product of the Hessian of sum c_n log Z_n and a direction of the weights; shape (n_weights,).

        It is the derivative of the expected counts along the direction, which kernels on dual numbers compute in one
        forward and backward pass.
        """

    @abstractmethod
    def log_partition(self, batch: SequenceBatch, n_jobs: int | None = None, plan: Plan | None = None) -> np.ndarray:
        """Return log Z of each sequence, 0 for empty ones; shape (n_sequences,).

        With a masked plan, the sum is over the possible labellings only.
        """

    @abstractmethod
    def log_partition_and_slope(
        self, plan: Plan, direction: np.ndarray, n_jobs: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log Z of each sequence and its derivative along a direction of the weights.

        The derivative is the expected score with the direction as weights. One forward pass computes both.
        """

    @abstractmethod
    def marginals(self, batch: SequenceBatch, n_jobs: int | None = None, mask: Mask | None = None) -> np.ndarray:
        """Return P(token t has label y); shape (N, n_labels), rows sum to 1."""

    @abstractmethod
    def pattern_marginals(
        self,
        batch: SequenceBatch,
        patterns: Sequence[Sequence[int]],
        n_jobs: int | None = None,
        mask: Mask | None = None,
    ) -> np.ndarray:
        """Return P(an occurrence of a pattern ends with token t); shape (N, n_given)."""

    @abstractmethod
    def segment_marginals(
        self,
        batch: SequenceBatch,
        threshold: float,
        tags: Tags | None = None,
        n_jobs: int | None = None,
        mask: Mask | None = None,
    ) -> tuple[Segments, np.ndarray]:
        """Return all segments of at least a probability, and the probabilities; shape (M,).

        They are sorted by sequence, start, stop and label. ``tags`` define the segments that token labels encode.
        """

    @abstractmethod
    def segment_probabilities(
        self,
        batch: SequenceBatch,
        segments: Segments,
        tags: Tags | None = None,
        n_jobs: int | None = None,
        mask: Mask | None = None,
        plan: Any = None,
    ) -> np.ndarray:
        """Return the probabilities of given segments, no two of which have the same start; shape (M,)."""

    def tag_marginals(
        self,
        batch: SequenceBatch,
        tags: Sequence[tuple[int, Channel]],
        n_jobs: int | None = None,
        mask: Mask | None = None,
    ) -> np.ndarray:
        """Return P(token t is at a channel's position of a segment of a label), for pairs (label, channel)."""
        raise self._unanswered("tag_marginals")

    @abstractmethod
    def decode(
        self, batch: SequenceBatch, n_jobs: int | None = None, mask: Mask | None = None, plan: Any = None
    ) -> Any:
        """Return the most probable labelling; ties go to the lowest label, then to the shortest segment."""

    @abstractmethod
    def best_labellings(
        self, batch: SequenceBatch, n_best: int, n_jobs: int | None = None, mask: Mask | None = None, plan: Any = None
    ) -> BestLabellings:
        """Return the labellings of highest score of each sequence, best first, all different."""

    @abstractmethod
    def draw(
        self, batch: SequenceBatch, n_drawn: int, seed: int, n_jobs: int | None = None, mask: Mask | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw labellings; return codes and, for segments, lengths: as in :class:`BestLabellings`, transposed."""

    @abstractmethod
    def entropy(self, batch: SequenceBatch, n_jobs: int | None = None, mask: Mask | None = None) -> np.ndarray:
        """Return the entropy of the labellings of each sequence, in nats; shape (n_sequences,).

        It is log Z minus the expected score, a derivative of log Z.
        """

    def log_score(self, batch: SequenceBatch, labelling: Any, plan: Any = None) -> np.ndarray:
        """Return the log potential of a labelling of each sequence; shape (n_sequences,).

        It is -inf if the labelling is forbidden, or contains the code -1; in models over lattices also if it is not one
        of the labellings of the plan, which by default is the plan of the batch.
        """
        scores, n_scores = self._log_scores(batch, labelling)
        of_token = np.repeat(np.arange(len(batch)), n_scores)
        # of no tokens, numpy counts in integers, which cannot be -inf
        return np.bincount(of_token, weights=scores, minlength=len(batch)).astype(np.float64, copy=False)

    @abstractmethod
    def label_codes(self, labelling: Any) -> np.ndarray:
        """Return the label codes of the tokens of a labelling; shape (N,), int32."""

    @abstractmethod
    def labelling(self, offsets: np.ndarray, codes: np.ndarray, lengths: np.ndarray) -> Any:
        """Return a labelling of sequences, given the output of :class:`DecodePass`."""

    def impossible(self, batch: SequenceBatch, mask: Mask) -> np.ndarray:
        """Return the numbers of the sequences for which a mask rules out all labellings of the model."""
        plan = self.plan(batch).masked(mask, may_be_impossible=True)
        return np.flatnonzero(self.log_partition(batch, plan=plan) == -np.inf)

    def narrowed(self, batch: SequenceBatch, mask: Mask | None = None, plan: Any = None) -> Mask | None:
        """Return the mask of all labellings that a mask allows and the model has: fewer only in lattices."""
        return mask

    def _unanswered(self, question: str) -> TypeError:
        """Return the error that explains why the family does not support a method."""
        return TypeError(f"{type(self).__name__} has no {question}: {self.unanswered[question]}")

    @abstractmethod
    def _log_scores(self, batch: SequenceBatch, labelling: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of the tokens or segments of a labelling, and how many there are in each sequence."""


class TokenModel(Model):
    """A model whose labellings are label codes of the tokens, of shape (N,), int32."""

    has_lengths = False
    unanswered = dict.fromkeys(("tag_marginals",), "its labellings are not made of segments")

    def label_codes(self, labelling: np.ndarray) -> np.ndarray:
        return labelling

    def labelling(self, offsets: np.ndarray, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        return codes

    def _log_scores(self, batch: SequenceBatch, labelling: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        codes = np.maximum(labelling, 0)
        arcs = label_arcs(self.layout.automaton, batch.offsets, codes)
        scores = self.layout.label_scores(batch, codes, self.pair_weights) + self.weighted_arcs.arc_score[arcs]
        scores[labelling < 0] = -np.inf
        return scores, batch.lengths


class LaneModel(Model):
    """A model whose passes process blocks of sequences of about the same length, one in each lane."""

    plan_class: ClassVar[type[Plan]]
    pass_class: ClassVar[type[MarginalPass]]
    decode_pass_class: ClassVar[type[DecodePass]]

    def plan(self, batch: SequenceBatch, mask: Mask | None = None, n_jobs: int | None = None) -> Any:
        plan = self.plan_class(self.layout, batch, self.schedule, n_jobs)
        return plan if mask is None else plan.masked(mask)

    def _whole_plan(self, batch: SequenceBatch, mask: Mask | None, plan: Plan | None = None) -> Plan:
        """Return a plan that does not cut sequences into tiles, for passes that need whole sequences."""
        if plan is not None and not plan.is_cut:
            return plan
        schedule = self.plan_class.default_schedule if self.schedule is None else self.schedule
        schedule = replace(schedule, cut_size=math.inf, lone_size=min(schedule.lone_size, _LONE_SIZE))
        plan = self.plan_class(self.layout, batch, schedule)
        return plan if mask is None else plan.masked(mask)

    def expectations(
        self, plan: Plan, sequence_weight: np.ndarray | None = None, n_jobs: int | None = None
    ) -> Expectations:
        log_z = np.zeros(plan.n_sequences)
        sums = self._run_all(plan, n_jobs, lambda: ExpectedCounts(self, plan), log_z, _weights(plan, sequence_weight))
        return Expectations(log_z, self.counts(plan, sums))

    def add_expectations(
        self, plan: Plan, sequences: np.ndarray, sequence_weight: np.ndarray, gradient: np.ndarray, log_z: np.ndarray
    ) -> tuple:
        """Add the expected counts of the pairs of some sequences to ``gradient``, and write their log Z.

        The model and the plan have no dense table, so the work depends on the sequences and not on the number of
        weights.

        Parameters
        ----------
        plan : Plan
            The plan of a whole batch.
        sequences : ndarray of int
            Numbers of some sequences of the batch.
        sequence_weight : ndarray of shape (n_sequences,)
            Weights of all sequences.
        gradient : ndarray of shape (first_bias,)
            In and out. Features of lengths are left out: their counts follow from the counts of lengths.
        log_z : ndarray of shape (n_sequences,)
            Out, for the given sequences.

        Returns
        -------
        arcs, lengths : ndarray
            Expected counts of the arcs, and of lengths of segments.
        """
        with plan.workspace() as workspace:
            receiver = ExpectedCounts(self, plan, gradient)
            counting = self.pass_class(workspace, self, plan, log_z, sequence_weight, receiver=receiver)
            for task in plan.cut(sequences):
                counting.run(task)
            return counting.sums()[2:]

    def hessian_vector_product(
        self, plan: Plan, direction: np.ndarray, sequence_weight: np.ndarray | None = None, n_jobs: int | None = None
    ) -> np.ndarray:
        log_z, weight = np.zeros(plan.n_sequences), _weights(plan, sequence_weight)
        moving = type(self)(self.layout, SMALL_STEP * np.asarray(direction))
        sums = self._run_all(plan, n_jobs, lambda: ExpectedCounts(self, plan), log_z, weight, direction=moving)
        return self.counts(plan, sums) / SMALL_STEP

    def at_rest(self) -> Self:
        """Return the direction in which no weight moves."""
        return type(self)(self.layout, np.zeros(self.layout.n_weights))

    def counts(self, plan: Plan, sums: tuple | None) -> np.ndarray:
        """Return the counts of all weights' features, given the sums of :class:`ExpectedCounts`, which are used up."""
        if sums is None:  # there is no data
            return np.zeros(self.layout.n_weights)
        counts, dense, arcs, lengths = sums
        pairs = counts[: self.layout.first_bias]
        self.layout.add_dense(dense, pairs)
        plan.add_length_counts(lengths, pairs)
        counts[self.layout.first_bias :] = self.layout.sum_over_suffixes(arcs)
        return counts

    def log_partition(self, batch: SequenceBatch, n_jobs: int | None = None, plan: Plan | None = None) -> np.ndarray:
        plan = self.plan(batch, n_jobs=n_jobs) if plan is None else plan
        log_z = np.zeros(plan.n_sequences)
        self._run_all(plan, n_jobs, lambda: None, log_z)
        return log_z

    def log_partition_and_slope(
        self, plan: Plan, direction: np.ndarray, n_jobs: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        log_z, slope = np.zeros(plan.n_sequences), np.zeros(plan.n_sequences)
        moving = type(self)(self.layout, SMALL_STEP * np.asarray(direction))
        self._run_all(plan, n_jobs, lambda: None, log_z, direction=moving, slope=slope)
        return log_z, slope / SMALL_STEP

    def decode(
        self, batch: SequenceBatch, n_jobs: int | None = None, mask: Mask | None = None, plan: Any = None
    ) -> Any:
        plan = self.plan(batch, mask, n_jobs) if plan is None else plan
        codes, lengths = np.empty(batch.n_tokens, np.int32), np.zeros(batch.n_tokens, np.int32)

        def make_pass(workspace: Workspace) -> DecodePass:
            return self.decode_pass_class(workspace, self, plan, codes, lengths)

        run_all(plan, n_jobs, make_pass)
        return self.labelling(batch.offsets, codes, lengths)

    def best_labellings(
        self, batch: SequenceBatch, n_best: int, n_jobs: int | None = None, mask: Mask | None = None, plan: Any = None
    ) -> BestLabellings:
        plan = self._whole_plan(batch, mask, plan)
        best = BestLabellings.empty(n_best, batch)

        def make_pass(workspace: Workspace) -> SearchPass:
            decoding = self.decode_pass_class(workspace, self, plan, best.codes[0], best.lengths[0], best=best.score)
            return SearchPass(decoding, best)

        run_all(plan, n_jobs, make_pass)
        return best

    def draw(
        self, batch: SequenceBatch, n_drawn: int, seed: int, n_jobs: int | None = None, mask: Mask | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        codes = np.zeros((batch.n_tokens, n_drawn), np.int32)
        lengths = np.ones(codes.shape if self.has_lengths else (0, n_drawn), np.int32)
        plan, log_z = self._whole_plan(batch, mask), np.zeros(len(batch))
        self._run_all(plan, n_jobs, lambda: Samples(codes, lengths, seed), log_z)
        return codes, lengths

    def entropy(self, batch: SequenceBatch, n_jobs: int | None = None, mask: Mask | None = None) -> np.ndarray:
        finite = np.where(np.isfinite(self.weights), self.weights, 0.0)
        log_z, slope = self.log_partition_and_slope(self.plan(batch, mask, n_jobs), finite, n_jobs)
        entropy = log_z - slope
        # if rounding errors of the terms dominate the difference, compute it again from the choices at all borders
        low = np.flatnonzero(entropy < _LOW_ENTROPY * np.maximum(1.0, np.abs(log_z)))
        if len(low):
            part, again = batch[low], np.zeros(len(low))
            tokens = joined_ranges(batch.offsets[low], batch.offsets[low + 1])
            plan = self._whole_plan(part, mask and mask.part(tokens))
            self._run_all(plan, n_jobs, lambda: Entropies(again), np.zeros(len(low)))
            entropy[low] = again
        return entropy

    def _with_layout(self, layout: WeightLayout) -> Any:
        """Return the model under a layout with more columns, in which weights keep their places."""
        return type(self)(layout, self.weights, schedule=self.schedule)

    def column_marginals(
        self, batch: SequenceBatch, n_columns: int, n_jobs: int | None, mask: Mask | None
    ) -> np.ndarray:
        """Return the marginals of the first score columns, which need no weights; shape (N, n_columns)."""
        plan, table = self.plan(batch, mask, n_jobs), np.empty((batch.n_tokens, n_columns))
        self._run_all(plan, n_jobs, lambda: ColumnMarginals(table), np.zeros(len(batch)))
        return table

    def _run_all(
        self,
        plan: Plan,
        n_jobs: int | None,
        make_receiver: Callable[[], Receiver | None],
        log_z: np.ndarray,
        sequence_weight: np.ndarray | None = None,
        **options: Any,
    ) -> tuple | None:
        """Run forward passes, and backward passes for a receiver in each chunk; return the receivers' sums."""

        def make_pass(workspace: Workspace) -> MarginalPass:
            receiver: Receiver | None = make_receiver()
            return self.pass_class(workspace, self, plan, log_z, sequence_weight, receiver=receiver, **options)

        return run_all(plan, n_jobs, make_pass)


def _weights(plan: Plan, sequence_weight: np.ndarray | None) -> np.ndarray:
    return np.ones(plan.n_sequences) if sequence_weight is None else np.asarray(sequence_weight, np.float64)

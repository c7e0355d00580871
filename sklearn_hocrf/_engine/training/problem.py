"""Labelled training data under one layout of weights, and training criteria, which are bound to them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from ..._data.arrays import joined_ranges
from ..._data.batch import SequenceBatch, as_sparse
from ..._data.forks import cached_property
from ..._data.masks import Mask, both
from ..inference.candidates import Candidates, LevelZero
from ..inference.families import LATTICE, Family
from ..inference.lattice import LatticePlan
from ..inference.minibatches import Minibatches, PartlyLabelled
from ..inference.model import Model
from ..inference.schedule import Schedule
from .feature_matching import Matching

LARGE = 1e6  # size of scores beyond which rounding errors would distinguish labellings


@dataclass(eq=False, repr=False)
class Problem:
    """Labelled training data under one layout of weights, which training criteria are bound to.

    Parameters
    ----------
    family : Family
        Chains, segments, or chains over lattices.
    layout : WeightLayout or SegmentLayout
        The weights.
    batch : SequenceBatch
        Training data.
    truth : ndarray or Segments
        The true labelling: label codes of the tokens, of shape (N,), int32; or a segmentation that the layout allows.
    sequence_weight : ndarray of shape (n_sequences,) or None
        Weight of each sequence; None means 1.
    n_jobs : int or None
        Number of threads, as in joblib. Results have the same bits for any number.
    schedule : Schedule or None
        Where the batch is cut into tasks.
    support : Mask or None
        The possible labellings, which include the truth. None allows all.
    known : Mask or None
        The labellings that agree with the known labels, if some are missing: codes of -1, or gaps between segments.
        None means that no labels are missing.
    candidates : Candidates or None
        For the family of lattices: the labels that tokens may have, including the true ones. The likelihood is
        conditional on all labels being candidates.
    level_zero : LevelZero or None
        The source of the candidates.

    Attributes
    ----------
    n_weights, n_sequences : int
    """

    family: Family
    layout: Any
    batch: SequenceBatch
    truth: Any
    _: KW_ONLY
    sequence_weight: Any = None
    n_jobs: int | None = None
    schedule: Schedule | None = None
    support: Mask | None = None
    known: Mask | None = None
    candidates: Candidates | None = None
    level_zero: LevelZero | None = None

    def __post_init__(self) -> None:
        self.n_weights, self.n_sequences = self.layout.n_weights, len(self.batch)
        weight = np.ones(self.n_sequences) if self.sequence_weight is None else self.sequence_weight
        self.sequence_weight = np.asarray(weight, np.float64)

    @cached_property
    def plan(self) -> Any:
        """The division of the batch into tasks."""
        if self.candidates is not None:
            n_states = None if self.level_zero is None else self.level_zero.n_states
            plan = LatticePlan(self.layout, self.batch, self.candidates, n_states, self.schedule, self.n_jobs)
        else:
            plan = self.family.model.plan_class(self.layout, self.batch, self.schedule, self.n_jobs)
        return plan if self.support is None else plan.masked(self.support)

    @cached_property
    def is_partial(self) -> np.ndarray:
        """Whether labels of each sequence are missing; shape (n_sequences,)."""
        if self.known is None:
            return np.zeros(self.n_sequences, dtype=bool)
        return ~self.family.are_complete(self.truth, self.batch)

    @cached_property
    def partial(self) -> Problem | None:
        """The sequences with missing labels, with the labellings that agree with the known ones; or None."""
        if not self.is_partial.any():
            return None
        part = self.part(np.flatnonzero(self.is_partial))
        return replace(part, support=both(part.support, part.known), known=None)

    def model(self, w: np.ndarray) -> Model:
        """Return the model with the weights ``w``."""
        return self.family.model(self.layout, w, schedule=self.schedule)

    def posterior(self, w: np.ndarray) -> Any:
        """Return the :class:`Posterior` of the batch with the weights ``w``."""
        return self.model(w).on(self.plan)

    @cached_property
    def sparse(self) -> Problem:
        """The problem with dense columns among the sparse rows, for methods that process sequences one by one."""
        if self.batch.dense is None:
            return self
        return replace(self, batch=as_sparse(self.batch))

    @cached_property
    def minibatches(self) -> Minibatches:
        """Values and gradients of a few sequences at a time."""
        if self.sparse is not self:
            return self.sparse.minibatches
        partial = None
        if self.is_partial.any():
            partial = PartlyLabelled(self.is_partial, self.plan.masked(both(self.support, self.known)))
        return self.family.minibatches(self.family.model, self.plan, self.truth, self.sequence_weight, partial)

    def separated_by(self, w: np.ndarray) -> bool:
        """Return whether ``w`` gives the truth of each sequence of positive weight more than half of the probability.

        The result is False if weights of 0 also do so, because each sequence has only one possible labelling.
        """
        longest = max(self.largest_log_z(w), LARGE)
        return self.gives_most_to_truth(w * (LARGE / longest)) and not self.gives_most_to_truth(np.zeros(len(w)))

    def largest_log_z(self, w: np.ndarray) -> float:
        """Return the largest absolute value of a log partition function."""
        return float(np.abs(self.posterior(w).log_z()).max(initial=0.0))

    def gives_most_to_truth(self, w: np.ndarray) -> bool:
        """Return whether ``w`` itself gives the truth of each sequence more than half of the probability."""
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
        """Return the problem of some of the sequences."""
        tokens = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1])
        return replace(
            self,
            batch=self.batch[sequences],
            truth=self.family.labelling_of(self.truth, self.batch, sequences),
            sequence_weight=self.sequence_weight[sequences],
            support=self.support and self.support.part(tokens),
            known=self.known and self.known.part(tokens),
            candidates=self.candidates and self.candidates.part(tokens),
        )

    def under(self, layout: Any) -> Problem:
        """Return the same data under another layout."""
        return replace(self, layout=layout)

    def over(self, candidates: Candidates, level_zero: LevelZero | None = None, plan: Any = None) -> Problem:
        """Return the problem in which each token has a few candidate labels; features pair only with single labels.

        Candidates are labels that the support allows. A ``plan`` is a lattice of them that is already there.
        """
        pruned = replace(self, family=LATTICE, candidates=candidates, level_zero=level_zero, support=None)
        if plan is not None:
            pruned.plan = plan
        return pruned

    def on(self, batch: SequenceBatch, truth: Any, sequence_weight: Any = None, support: Mask | None = None) -> Problem:
        """Return other data, without missing labels, under the same layout."""
        return replace(self, batch=batch, truth=truth, sequence_weight=sequence_weight, support=support, known=None)

    @cached_property
    def matching(self) -> Matching:
        """The comparison of each position, or candidate segment, with the expectations of a model."""
        return Matching(self.family.model, self.sparse.plan, self.truth, self.sequence_weight)

    def empirical_counts(self) -> np.ndarray:
        """Return how often each weight's feature occurs in the labelled data, weighted; shape (n_weights,).

        Sequences with missing labels do not count.
        """
        if self.is_partial.any():
            return self.part(np.flatnonzero(~self.is_partial)).empirical_counts()
        return self.plan.empirical_counts(self.truth, self.sequence_weight)

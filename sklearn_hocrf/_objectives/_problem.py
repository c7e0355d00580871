"""Labelled training data under one layout of weights, to which training criteria are bound."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .._data.arrays import joined_ranges
from .._data.batch import SequenceBatch
from .._data.masks import Mask, both
from .._inference.candidates import LevelZero
from .._inference.families import Family
from .._inference.feature_matching import Matching
from .._inference.loss_augmented import Margins
from .._inference.minibatches import Hidden, Minibatches
from .._inference.model import Model
from .._inference.schedule import Schedule

__all__ = ["LARGE", "Problem"]

LARGE = 1e6  # size of scores beyond which rounding errors would tell labellings apart


class Problem:
    """Labelled training data under one layout of weights.

    ``fit`` makes it, for objectives. See :mod:`sklearn_hocrf.training`, on objectives of your own.

    Parameters
    ----------
    family : Family
        Chains, or segments.
    layout : WeightLayout or SegmentLayout
        The weights.
    batch : SequenceBatch
        Training data.
    truth : ndarray or Segments
        Their labelling: label codes of the tokens, of shape (N,), int32; or a segmentation that the layout allows.
    sequence_weight : ndarray of shape (n_sequences,) or None
        Weight of each sequence; None means 1.
    n_jobs : int or None
        Number of threads, as in joblib. Results have the same bits for any number.
    schedule : Schedule or None
        Where the batch is cut into tasks.
    support : Mask or None
        The labellings that are possible; those of the truth are among them. None stands for all.
    known : Mask or None
        The labellings that agree with what is known, where the truth has holes: codes of -1, or gaps between segments.
        None stands for a truth without holes.

    Attributes
    ----------
    n_weights, n_sequences : int
    level_zero : LevelZero or None
        What says which labels tokens may have, if not all of them.
    """

    level_zero: LevelZero | None = None

    def __init__(
        self,
        family: Family,
        layout: Any,
        batch: SequenceBatch,
        truth: Any,
        *,
        sequence_weight: np.ndarray | None = None,
        n_jobs: int | None = None,
        schedule: Schedule | None = None,
        support: Mask | None = None,
        known: Mask | None = None,
    ) -> None:
        self.family, self.layout, self.batch, self.truth = family, layout, batch, truth
        self.n_jobs, self.schedule, self.support, self.known = n_jobs, schedule, support, known
        self.n_weights, self.n_sequences = layout.n_weights, len(batch)
        ones = np.ones(len(batch))
        self.sequence_weight = ones if sequence_weight is None else np.asarray(sequence_weight, np.float64)

    @cached_property
    def plan(self) -> Any:
        """The division of the batch into tasks."""
        plan = self.family.model.plan_class(self.layout, self.batch, self.schedule)
        return plan if self.support is None else plan.masked(self.support)

    @cached_property
    def is_hidden(self) -> np.ndarray:
        """Whether the truth of each sequence has holes; shape (n_sequences,)."""
        if self.known is None:
            return np.zeros(self.n_sequences, dtype=bool)
        return ~self.family.are_complete(self.truth, self.batch)

    @cached_property
    def hidden(self) -> Problem | None:
        """The sequences whose truth has holes, where only what agrees with it is possible; None if there are none."""
        if not self.is_hidden.any():
            return None
        part = self.part(np.flatnonzero(self.is_hidden))
        return part._with(part.layout, part.batch, part.truth, part.sequence_weight, both(part.support, part.known))

    def model(self, w: np.ndarray) -> Model:
        """Return the model with the weights ``w``."""
        return self.family.model(self.layout, w, schedule=self.schedule)

    @cached_property
    def _sparse(self) -> Problem:
        """The problem with dense columns among the sparse rows: what goes from sequence to sequence reads rows."""
        if self.batch.dense is None:
            return self
        data = self.batch.as_sparse(), self.truth, self.sequence_weight
        return self._with(self.layout, *data, self.support, self.known)

    @cached_property
    def minibatches(self) -> Minibatches:
        """Values and gradients of a few sequences at a time."""
        if self._sparse is not self:
            return self._sparse.minibatches
        data = self.batch, self.truth, self.sequence_weight
        hidden = None
        if self.is_hidden.any():
            hidden = Hidden(self.is_hidden, self.plan.masked(both(self.support, self.known)))
        return self.family.minibatches(self.family.model, self.plan, *data, hidden)

    def separated_by(self, w: np.ndarray) -> bool:
        """Tell whether ``w`` gives the labelling of each sequence of positive weight more than half of the probability.

        The result is False if weights of 0 do so, too, because each sequence has only one possible labelling.
        """
        longest = max(self.largest_log_z(w), LARGE)
        return self.gives_most_to_truth(w * (LARGE / longest)) and not self.gives_most_to_truth(np.zeros(len(w)))

    def largest_log_z(self, w: np.ndarray) -> float:
        """Return the largest absolute value of a log partition function."""
        return float(np.abs(self.model(w).log_partition(self.batch, self.n_jobs, plan=self.plan)).max(initial=0.0))

    def gives_most_to_truth(self, w: np.ndarray) -> bool:
        """Tell whether ``w`` itself gives the labelling of each sequence more than half of the probability."""
        model = self.model(w)
        log_z = model.log_partition(self.batch, self.n_jobs, plan=self.plan)
        log_probability = (self._log_scores(model) - log_z)[self.sequence_weight > 0]
        return bool((log_probability > -np.log(2)).all())

    def _log_scores(self, model) -> np.ndarray:
        """Return the log potentials of what is known of each sequence."""
        if self.hidden is None:
            return model.log_score(self.batch, self.truth, self.plan)
        scores, seen = np.empty(self.n_sequences), self.part(np.flatnonzero(~self.is_hidden))
        scores[~self.is_hidden] = model.log_score(seen.batch, seen.truth)
        scores[self.is_hidden] = model.log_partition(self.hidden.batch, self.n_jobs, self.hidden.plan)
        return scores

    def part(self, sequences: np.ndarray) -> Problem:
        """Return the problem of some of the sequences."""
        truth = self.family.labelling_of(self.truth, self.batch, sequences)
        tokens = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1])
        masks = (mask and mask.part(tokens) for mask in (self.support, self.known))
        return self._with(self.layout, self.batch[sequences], truth, self.sequence_weight[sequences], *masks)

    def under(self, layout: Any) -> Problem:
        """Return the same data under another layout."""
        return self._with(layout, self.batch, self.truth, self.sequence_weight, self.support, self.known)

    def on(
        self,
        batch: SequenceBatch,
        truth: Any,
        sequence_weight: np.ndarray | None = None,
        support: Mask | None = None,
    ) -> Problem:
        """Return other data, without holes, under the same layout."""
        return self._with(self.layout, batch, truth, sequence_weight, support)

    def _with(self, layout, batch, truth, weight, support, known=None):
        options = {"sequence_weight": weight, "n_jobs": self.n_jobs, "schedule": self.schedule, "support": support}
        return type(self)(self.family, layout, batch, truth, **options, known=known)

    @property
    def label_sequences(self) -> tuple[np.ndarray, np.ndarray]:
        """Label codes of all tokens or segments in order, and the offsets of the sequences among them."""
        return self.family.label_sequences(self.truth, self.batch)

    def margins(self, cost: float) -> Margins:
        """Return an object that finds labellings of highest score plus ``cost`` times the number of wrong tokens."""
        return self.family.margins(self.family.model, self._sparse.plan, self.truth, cost)

    @cached_property
    def matching(self) -> Matching:
        """The comparison of each position, or candidate segment, with the expectations of a model."""
        data = self._sparse.batch, self.truth, self.sequence_weight
        return self.family.matching(self.family.model, self.layout, *data, self.schedule, self.support)

    def empirical_counts(self) -> np.ndarray:
        """Return how often each weight's feature occurs in the labelled data, weighted; shape (n_weights,).

        Sequences whose truth has holes do not count.
        """
        if self.n_sequences and self.is_hidden.all():
            return np.zeros(self.n_weights)
        if self.is_hidden.any():
            return self.part(np.flatnonzero(~self.is_hidden)).empirical_counts()
        features = self.plan.token_features
        return self.layout.empirical_counts(self.batch, self.truth, self.sequence_weight, features)

"""Labelled training data under one layout of weights, to which training criteria are bound."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .._data.arrays import joined_ranges
from .._data.batch import SequenceBatch
from .._data.masks import Mask
from .._inference.families import Family
from .._inference.feature_matching import Matching
from .._inference.loss_augmented import Margins
from .._inference.minibatches import Minibatches
from .._inference.model import Model
from .._inference.schedule import Schedule

__all__ = ["Problem"]

_LARGE = 1e6  # size of scores beyond which rounding errors would tell labellings apart


class Problem:
    """Labelled training data under one layout of weights.

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

    Attributes
    ----------
    n_weights, n_sequences : int
    """

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
    ) -> None:
        self.family, self.layout, self.batch, self.truth = family, layout, batch, truth
        self.n_jobs, self.schedule, self.support = n_jobs, schedule, support
        self.n_weights, self.n_sequences = layout.n_weights, len(batch)
        ones = np.ones(len(batch))
        self.sequence_weight = ones if sequence_weight is None else np.asarray(sequence_weight, np.float64)

    @cached_property
    def plan(self) -> Any:
        """The division of the batch into tasks."""
        plan = self.family.model.plan_class(self.layout, self.batch, self.schedule)
        return plan if self.support is None else plan.masked(self.support)

    def model(self, w: np.ndarray) -> Model:
        """Return the model with the weights ``w``."""
        return self.family.model(self.layout, w, schedule=self.schedule)

    @cached_property
    def minibatches(self) -> Minibatches:
        """Values and gradients of a few sequences at a time."""
        data = self.batch, self.truth, self.sequence_weight
        return self.family.minibatches(self.family.model, self.plan, *data)

    def separated_by(self, w: np.ndarray) -> bool:
        """Tell whether ``w`` gives the labelling of each sequence of positive weight more than half of the probability.

        The result is False if weights of 0 do so, too, because each sequence has only one possible labelling.
        """
        log_z = np.abs(self.model(w).log_partition(self.batch, self.n_jobs, plan=self.plan))
        longest = log_z.max(initial=_LARGE)
        return self._gives_most_to_truth(w * (_LARGE / longest)) and not self._gives_most_to_truth(np.zeros(len(w)))

    def _gives_most_to_truth(self, w: np.ndarray) -> bool:
        model = self.model(w)
        log_z = model.log_partition(self.batch, self.n_jobs, plan=self.plan)
        log_probability = (model.log_score(self.batch, self.truth) - log_z)[self.sequence_weight > 0]
        return bool((log_probability > -np.log(2)).all())

    def part(self, sequences: np.ndarray) -> Problem:
        """Return the problem of some of the sequences."""
        truth = self.family.labelling_of(self.truth, self.batch, sequences)
        tokens = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1])
        support = None if self.support is None else self.support.part(tokens)
        return self._with(self.layout, self.batch[sequences], truth, self.sequence_weight[sequences], support)

    def under(self, layout: Any) -> Problem:
        """Return the same data under another layout."""
        return self._with(layout, self.batch, self.truth, self.sequence_weight, self.support)

    def on(
        self,
        batch: SequenceBatch,
        truth: Any,
        sequence_weight: np.ndarray | None = None,
        support: Mask | None = None,
    ) -> Problem:
        """Return other data under the same layout."""
        return self._with(self.layout, batch, truth, sequence_weight, support)

    def _with(self, layout, batch, truth, weight, support):
        options = {"sequence_weight": weight, "n_jobs": self.n_jobs, "schedule": self.schedule, "support": support}
        return type(self)(self.family, layout, batch, truth, **options)

    @property
    def label_sequences(self) -> tuple[np.ndarray, np.ndarray]:
        """Label codes of all tokens or segments in order, and the offsets of the sequences among them."""
        return self.family.label_sequences(self.truth, self.batch)

    def margins(self, cost: float) -> Margins:
        """Return an object that finds labellings of highest score plus ``cost`` times the number of wrong tokens."""
        return self.family.margins(self.family.model, self.plan, self.truth, cost)

    @cached_property
    def matching(self) -> Matching:
        """The comparison of each position, or candidate segment, with the expectations of a model."""
        data = self.batch, self.truth, self.sequence_weight
        return self.family.matching(self.family.model, self.layout, *data, self.schedule, self.support)

    def empirical_counts(self) -> np.ndarray:
        """Return how often each weight's feature occurs in the labelled data, weighted; shape (n_weights,)."""
        features = self.plan.token_features
        return self.layout.empirical_counts(self.batch, self.truth, self.sequence_weight, features)

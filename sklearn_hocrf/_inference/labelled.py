"""Labelled sequences, read once for all models of one layout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._data.batch import SequenceBatch
from .._data.segments import Labelling
from .model import Model
from .schedule import Plan

__all__ = ["LabelledBatch"]


class LabelledBatch(NamedTuple):
    """Sequences and their labels, which may have holes.   n sequences.

    ``truth`` is there if there are no holes, otherwise ``event``.
    """

    batch: SequenceBatch
    plan: Plan  # all labellings that constraints allow
    truth: Labelling | None
    event: Plan | None  # those that agree with the labels
    is_impossible: np.ndarray  # (n,) bool   whether labels are forbidden whatever the weights are

    def log_likelihood(self, model: Model, n_jobs: int | None) -> np.ndarray:
        """Return the log-likelihood of each sequence under a model; shape (n,)."""
        score = np.where(self.is_impossible, -np.inf, self._score(model, n_jobs))
        difference = score - model.log_partition(self.batch, n_jobs, self.plan)
        return np.minimum(difference, 0.0)  # rounding errors must not make a probability larger than 1

    def _score(self, model: Model, n_jobs: int | None) -> np.ndarray:
        if self.event is None:
            return model.log_score(self.batch, self.truth, self.plan)
        return model.log_partition(self.batch, n_jobs, self.event)

    def slope(self, model: Model, direction: Model, n_jobs: int | None) -> np.ndarray:
        """Return the derivative of each log-likelihood along a direction of the weights; shape (n,).

        For sequences whose log-likelihood is finite; what it is for others does not matter.
        """
        expected = model.log_partition_and_slope(self.plan, direction.weights, n_jobs)[1]
        if self.event is None:
            return direction.log_score(self.batch, self.truth, self.plan) - expected
        return model.log_partition_and_slope(self.event, direction.weights, n_jobs)[1] - expected

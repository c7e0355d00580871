"""Labelled sequences, read once for all models of one layout."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._data.batch import SequenceBatch
from ..._data.segments import Labelling
from .model import Model


class LabelledBatch(NamedTuple):
    """Sequences and their labels, some of which may be missing.   n sequences.

    ``truth`` is set if no label is missing, otherwise ``event``.
    """

    plan: Any  # all labellings that constraints allow
    truth: Labelling | None
    event: Any  # the plan of the labellings that agree with the labels
    is_impossible: np.ndarray  # (n,) bool   whether labels are forbidden for any weights

    @property
    def batch(self) -> SequenceBatch:
        return self.plan.batch

    def log_likelihood(self, model: Model) -> np.ndarray:
        """Return the log-likelihood of each sequence under a model; shape (n,)."""
        posterior, log_z = model.on(self.plan).with_log_z()
        score = posterior.log_score(self.truth) if self.event is None else posterior.on(self.event).log_z()
        difference = np.where(self.is_impossible, -np.inf, score) - log_z
        return np.minimum(difference, 0.0)  # rounding errors must not lead to a probability above 1

    def slope(self, model: Model, direction: Model) -> np.ndarray:
        """Return the derivative of each log-likelihood along a direction of the weights; shape (n,).

        It is valid for sequences whose log-likelihood is finite, and arbitrary for others.
        """
        expected = model.on(self.plan).log_z_and_slope(direction.weights)[1]
        if self.event is None:
            return direction.on(self.plan).log_score(self.truth) - expected
        return model.on(self.event).log_z_and_slope(direction.weights)[1] - expected

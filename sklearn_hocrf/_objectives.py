"""Training criteria: value and gradient as functions of the weight vector, without any penalty."""

from __future__ import annotations

import numpy as np

from ._inference import ChainModel, Plan
from ._segment_inference import SegmentModel, SegmentPlan

__all__ = ["NegativeLogLikelihood", "SegmentNegativeLogLikelihood"]


class _NegativeLogLikelihood:
    """Negative log-likelihood of labelled sequences.   K weights.

        f(w) = sum_n c_n [ log Z(x_n; w) - score(x_n, y_n; w) ],     gradient = expected counts - empirical counts

    (JMLR 15, section 2.3). ``w`` and the gradient have shape (K,), in the order of the layout: pairs by feature, then
    biases by pattern. Values are in nats, summed over sequences.
    """

    def __init__(self, model_class, layout, plan, batch, sequence_weight, n_jobs):
        self._model_class = model_class
        self.layout, self.plan, self.batch = layout, plan, batch
        self.n_weights = layout.n_weights
        ones = np.ones(len(batch))
        self.sequence_weight = ones if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        self.n_jobs = n_jobs

    def value(self, w) -> float:
        """Return f(w), by a forward pass alone."""
        log_z = self._model_class(self.layout, w).log_partition(self.batch, self.n_jobs, plan=self.plan)
        return float(self.sequence_weight @ log_z - self._empirical @ w)

    def value_gradient(self, w) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient, by one forward and backward pass."""
        expected = self._model_class(self.layout, w).expectations(self.plan, self.sequence_weight, self.n_jobs)
        value = float(self.sequence_weight @ expected.log_z - self._empirical @ w)
        return value, expected.counts - self._empirical


class NegativeLogLikelihood(_NegativeLogLikelihood):
    """Negative log-likelihood of labelled sequences under a high-order CRF.

    Parameters
    ----------
    layout : WeightLayout
        Which weights there are.
    batch : SequenceBatch
        Training data.
    codes : ndarray of shape (N,), int32
        Label codes of its tokens.
    sequence_weight : ndarray of shape (n_sequences,) or None
        The c_n, 1 by default.
    n_jobs : int or None
        Threads, in joblib's sense; the result has the same bits for any number.
    """

    def __init__(self, layout, batch, codes, sequence_weight=None, n_jobs=None):
        super().__init__(ChainModel, layout, Plan(layout, batch), batch, sequence_weight, n_jobs)
        self._empirical = layout.empirical_counts(self.plan.rows, batch.offsets, codes, self.sequence_weight)


class SegmentNegativeLogLikelihood(_NegativeLogLikelihood):
    """Negative log-likelihood of segmented sequences under a high-order semi-Markov CRF.

    Parameters
    ----------
    layout : SegmentLayout
        Which weights there are.
    batch : SequenceBatch
        Training data.
    segments : Segments
        Their segmentation, which the layout allows.
    sequence_weight, n_jobs
        As in :class:`NegativeLogLikelihood`.
    """

    def __init__(self, layout, batch, segments, sequence_weight=None, n_jobs=None):
        super().__init__(SegmentModel, layout, SegmentPlan(layout, batch), batch, sequence_weight, n_jobs)
        self._empirical = layout.segment_empirical_counts(batch, segments, self.sequence_weight)

"""The negative log-likelihood."""

from __future__ import annotations

import numpy as np

from ._base import Objective

__all__ = ["NegativeLogLikelihood"]


class NegativeLogLikelihood(Objective):
    """Negative log-likelihood of labelled sequences.   K weights.

        f(w) = sum_n c_n [ log Z(x_n; w) - score(x_n, y_n; w) ],     gradient = expected counts - empirical counts

    (JMLR 15, section 2.3). ``w`` and the gradient have shape (K,), in the order of the layout: pairs by feature, then
    biases by pattern. Values are in nats, summed over sequences; c_n are the sequences' weights.
    """

    def _prepare(self):
        self._empirical = self.problem.empirical_counts()

    def value(self, w) -> float:
        """Return f(w), by a forward pass alone."""
        problem = self.problem
        log_z = problem.model(w).log_partition(problem.batch, problem.n_jobs, plan=problem.plan)
        return self._value(log_z, w)

    def value_gradient(self, w) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient, by one forward and backward pass."""
        problem = self.problem
        expected = problem.model(w).expectations(problem.plan, problem.sequence_weight, problem.n_jobs)
        return self._value(expected.log_z, w), expected.counts - self._empirical

    def hessp(self, w, v) -> np.ndarray:
        """Return the product of the Hessian at ``w`` and a vector, by one forward and backward pass on dual numbers.

        The Hessian is the sum over sequences of c_n times the covariance of what the weights count, so it does not
        depend on the labels.
        """
        problem = self.problem
        return problem.model(w).expectation_slopes(problem.plan, v, problem.sequence_weight, problem.n_jobs)

    def _value(self, log_z, w):
        return float(self.problem.sequence_weight @ log_z - self._empirical @ w)

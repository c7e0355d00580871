"""Local feature matching."""

from __future__ import annotations

import numpy as np

from ._base import Objective
from ._likelihood import NegativeLogLikelihood

__all__ = ["LocalFeatureMatching"]


class LocalFeatureMatching(Objective):
    """Squared distances between feature vectors and their expectations, position by position.   K weights.

        f(w) = sum_n c_n sum_j norm( phi_j(y_n) - E[phi_j(y) given x_n; w] )^2

    phi_j has one component for each weight, its count at position j of a sequence (for segments: in a candidate
    segment). c_n are the sequences' weights. At the maximum of the likelihood without a penalty, the differences add up
    to 0 over the whole data; this criterion makes each of them small. The function is not convex. Training starts from
    the weights of maximum likelihood.

    Kim (2014) proposed this criterion for chains of order 1, with a gradient that carries a vector of all weights
    through the recursions. Here the gradient takes one pass on dual numbers, for any order and for segments.
    """

    is_convex = False

    def starting_objective(self) -> Objective:
        """Return the criterion that trains the starting weights."""
        return NegativeLogLikelihood()

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient, by a plain forward and backward pass and one on dual numbers."""
        return self.problem.matching.value_gradient(w, self.problem.n_jobs)

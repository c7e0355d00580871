"""Local feature matching."""

from __future__ import annotations

import numpy as np

from ._base import Objective
from ._likelihood import NegativeLogLikelihood

__all__ = ["LocalFeatureMatching"]


class LocalFeatureMatching(Objective):
    """Squared distances between feature vectors and their expectations, position by position.   K weights.

        f(w) = sum_n c_n sum_t norm( phi_t(y_n) - E[phi_t(y) given x_n; w] )^2

    phi_t has one component for each weight: what it counts at position t of a sequence (for segments: in a candidate
    segment). The likelihood's gradient is 0 where these differences add up to 0 over the whole data, but for the
    penalty; here each of them is to be small by itself. c_n are the sequences' weights. The function is not convex:
    training starts from the weights of maximum likelihood.

    Kim (2014) proposed it for chains of order 1; its gradient there carries a vector of all weights through the
    recursions, where one pass on dual numbers does, for any order and for segments.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import LocalFeatureMatching
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(objective=LocalFeatureMatching()).fit(X, y)  # the same as objective="local_feature_matching"
    >>> bool(crf.objective_history_[-1] < crf.objective_history_[0])  # where maximum likelihood is
    True
    """

    is_convex = False

    def starting_objective(self) -> Objective:
        """Return the criterion whose trained weights this one starts from."""
        return NegativeLogLikelihood()

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient, by a plain forward and backward pass and one on dual numbers."""
        return self.problem.matching.value_gradient(w, self.problem.n_jobs)

    def separates(self, w: np.ndarray) -> bool:
        """Tell whether ``w`` makes the labels of each sequence more probable than all others together.

        Expectations go to what the labels count then, and f to 0, as ``w`` gets longer.
        """
        return self.problem.separated_by(w)

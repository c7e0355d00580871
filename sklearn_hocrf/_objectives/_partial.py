"""The likelihood of labels with holes, by expectation maximisation."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .._settings import check, is_integer
from ._likelihood import NegativeLogLikelihood

__all__ = ["PartialLikelihood"]

_METHODS = ("direct", "em")


class PartialLikelihood(NegativeLogLikelihood):
    """Negative log-likelihood of labels with holes, with a choice of how it is minimised.   K weights.

        f(w) = sum_n c_n [ log Z(x_n; w) - log Z(x_n, labellings that agree with y_n; w) ]

    It is the criterion of :class:`NegativeLogLikelihood`, which is not convex where labels are missing.

    * "direct": the solver works on f itself. Its gradient is the difference of two expectations. As a rule this takes
      less time.
    * "em": expectation maximisation. With the expected counts given what is known fixed, a bound on f is left, which is
      convex and touches f at the current weights. Each iteration takes a few of the solver on it, which never make f
      plus the penalty larger. ``n_iter_`` and ``max_iter`` count such rounds.

    Without holes, both are the same as :class:`NegativeLogLikelihood`.

    Parameters
    ----------
    method : {"direct", "em"}, default="direct"
        How f is minimised.
    inner_iterations : int, default=5
        Iterations of the solver in each round of "em".

    References
    ----------
    .. [1] Dempster, Laird and Rubin, "Maximum likelihood from incomplete data via the EM algorithm", JRSS B 39, 1977.
    .. [2] Tsuboi, Kashima, Mori, Oda and Matsumoto, "Training conditional random fields using incomplete annotations",
       COLING 2008.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import PartialLikelihood
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]], [["the"], ["old"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"], [None, "ADJ", None]]
    >>> crf = HighOrderCRF(objective=PartialLikelihood("em")).fit(X, y)
    >>> crf.predict(X[2:])
    [['DET', 'ADJ', 'NOUN']]
    >>> bool((crf.objective_history_[1:] <= crf.objective_history_[:-1]).all())
    True
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    depends_on_scores_only = True

    def __init__(self, method: str = "direct", inner_iterations: int = 5) -> None:
        check(method in _METHODS, "method", f"one of {_METHODS}", method)
        is_count = is_integer(inner_iterations) and inner_iterations >= 1
        check(is_count, "inner_iterations", "an integer >= 1", inner_iterations)
        self.method, self.inner_iterations = method, inner_iterations

    @property
    def n_inner(self) -> int:
        """The iterations of the solver on each bound; 0 where it works on the criterion itself."""
        return self.inner_iterations if self.method == "em" and self._hidden is not None else 0

    def bound_at(self, w: np.ndarray) -> Any:
        """Return a convex function that is nowhere less than f, up to a constant, and has its gradient at ``w``."""
        bound = copy.copy(self)
        bound._empirical, bound._hidden = self._empirical + self._expected_of_hidden(w).counts, None
        bound.is_convex = True
        return bound

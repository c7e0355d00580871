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
    """Negative log-likelihood of labels with holes, with a choice of the minimisation method.   K weights.

        f(w) = sum_n c_n [ log Z(x_n; w) - log Z(x_n, labellings that agree with y_n; w) ]

    It is the criterion of :class:`NegativeLogLikelihood`, which is not convex if labels are missing.

    * "direct": the solver minimises f itself. Its gradient is the difference of two expectations. This usually takes
      less time.
    * "em": expectation maximisation. Fixing the expected counts given the known labels yields a bound on f that is
      convex and touches f at the current weights. Each round runs a few iterations of the solver on it, which never
      increase f plus the penalty. ``n_iter_`` and ``max_iter`` count such rounds.

    Without holes, both are the same as :class:`NegativeLogLikelihood`.

    Parameters
    ----------
    method : {"direct", "em"}, default="direct"
        The minimisation method.
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
        """The iterations of the solver on each bound; 0 if it minimises the criterion itself."""
        return self.inner_iterations if self.method == "em" and self._hidden is not None else 0

    def bound_at(self, w: np.ndarray) -> Any:
        """Return a convex upper bound on f, up to a constant, with the same gradient at ``w``."""
        bound = copy.copy(self)
        bound._empirical, bound._hidden = self._empirical + self._expected_of_hidden(w).counts, None
        bound.is_convex = True
        return bound

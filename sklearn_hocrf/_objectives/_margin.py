"""Max-margin criteria: the structured hinge loss, and the criterion of the perceptron."""

from __future__ import annotations

import numpy as np

from .._inference.loss_augmented import MaxOracle
from .._settings import check, is_number
from ._base import Objective

__all__ = ["Hinge", "Perceptron"]


class _MarginObjective(Objective):
    """Base class: margins by which the best labellings, with their costs, outscore the true ones, added up."""

    gives_probabilities = False

    @property
    def _token_cost(self) -> float:
        """Cost of a wrong token."""
        return 0.0

    def _prepare(self):
        self._margins = self.problem.margins(self._token_cost)
        self._empirical = self.problem.empirical_counts()

    def value(self, w: np.ndarray) -> float:
        """Return f(w), by one decoding of all sequences."""
        problem = self.problem
        best = self._margins.maxima(problem.sparse.model(w), problem.n_jobs)
        # a maximum is at least the score of the true labelling, except for rounding errors of huge scores
        return max(float(problem.sequence_weight @ best - self._empirical @ w), 0.0)

    def oracle(self, w: np.ndarray) -> MaxOracle:
        """Return an object that finds the maxima of the terms for weights that start at ``w`` and change.

        Its attribute ``w`` holds the current weights. ``argmax(sequences)`` returns a list with an element for each of
        the given sequences, for a labelling y that attains the maximum: the cost c_n cost(y_n, y), and c_n (features of
        y_n - features of y) as indices of weights and values. ``move(indices, steps)`` adds to the weights. The time of
        both is proportional to the number of features in the sequences, not to the number of weights.
        """
        return self._margins.oracle(self.problem.sequence_weight, w)


class Hinge(_MarginObjective):
    """Structured hinge loss: the structured support vector machine, with rescaled margin.

        f(w) = sum_n c_n max_y [ cost(y_n, y) + score(x_n, y; w) - score(x_n, y_n; w) ]

    The cost of a labelling is the number of its wrong tokens, times ``cost``. A token of a segmentation is wrong if the
    label of its segment is wrong. Except for ``scheme="runs"``, it is also wrong if a segment starts at this token
    and none should, or none starts and one should.

    Parameters
    ----------
    cost : float, default=1.0
        Cost of a wrong token, > 0.

    References
    ----------
    .. [1] Taskar, Guestrin and Koller, "Max-margin Markov networks", NIPS 2003.
    .. [2] Tsochantaridis, Joachims, Hofmann and Altun, "Large margin methods for structured and interdependent output
       variables", JMLR 6, 2005.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import Hinge
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(objective=Hinge(cost=2.0), random_state=0).fit(X, y)
    >>> crf.predict(X)
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    >>> hasattr(crf, "predict_proba")
    False
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    default_solver = "bcfw"

    def __init__(self, cost: float = 1.0) -> None:
        check(is_number(cost) and 0 < cost < float("inf"), "cost", "a finite number > 0", cost)
        self.cost = cost

    @property
    def _token_cost(self) -> float:
        return self.cost


class Perceptron(_MarginObjective):
    """The criterion of the structured perceptron: the hinge loss with cost 0.

        f(w) = sum_n c_n max_y [ score(x_n, y; w) - score(x_n, y_n; w) ]

    It is 0 if each true labelling has the highest score, ties included, and therefore for w = 0. The solver determines
    which of these weights are found.

    References
    ----------
    .. [1] Collins, "Discriminative training methods for hidden Markov models", EMNLP 2002.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import Perceptron
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> # the same as objective="perceptron"
    >>> crf = HighOrderCRF(objective=Perceptron(), random_state=0).fit(X, y)
    >>> float(crf.objective_history_[0])
    0.0
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    default_solver = "perceptron"

"""Base class of training criteria."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np

from .._settings import Criterion
from ._problem import Problem

__all__ = ["Objective"]


class Objective(Criterion):
    """A training criterion: a function of the weights, once it is bound to labelled data.

    It does not include the penalty. The attribute ``needs`` of a solver names the methods that the solver calls.

    Attributes
    ----------
    problem : Problem or None
        The data of a bound objective.
    gives_probabilities : bool
        Whether the trained scores are logarithms of potentials, so that marginals are meaningful.
    is_convex : bool
        Whether the function is convex, so that the norm of a gradient bounds the distance from the minimum.
    takes_holes : bool
        Whether the truth of the problem may have holes.
    default_solver : str
        Name of the solver that ``solver="auto"`` selects.
    depends_on_scores_only : bool
        Whether the weights enter only through scores. Derived classes must declare it again.

    Examples
    --------
    A custom objective:

    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import NegativeLogLikelihood, Objective
    >>> class MeanNegativeLogLikelihood(Objective):
    ...     def bind(self, problem):
    ...         bound = super().bind(problem)
    ...         bound.total = NegativeLogLikelihood().bind(problem)
    ...         return bound
    ...
    ...     def value_gradient(self, w):
    ...         value, gradient = self.total.value_gradient(w)
    ...         return value / self.n_sequences, gradient / self.n_sequences
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> HighOrderCRF(objective=MeanNegativeLogLikelihood()).fit(X, y).predict(X)
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    """

    problem: Problem = None  # type: ignore[assignment]  # until it is bound
    n_weights: int  # of a bound objective
    n_sequences: int
    gives_probabilities = True
    default_solver = "lbfgs"
    depends_on_scores_only = False

    def bind(self, problem: Problem) -> Self:
        """Return a copy of this criterion that is bound to labelled data."""
        bound = copy.copy(self)
        bound.problem = problem
        bound.n_weights, bound.n_sequences = problem.n_weights, problem.n_sequences
        bound._prepare()
        return bound

    def starting_objective(self) -> Objective | None:
        """Return the criterion that trains the starting weights, or None to start from 0."""
        return None

    def separates(self, w: np.ndarray) -> bool:
        """Return whether the objective is known to decrease without end as ``w`` is multiplied by larger numbers.

        If so, there is no optimum without a penalty on these weights. This method of bound objectives returns False
        unless a derived class replaces it.
        """
        return False

    def _prepare(self):
        """Compute everything that does not depend on the weights."""

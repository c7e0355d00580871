"""What all training criteria have in common."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np

from .._settings import Criterion
from ._problem import Problem

__all__ = ["Objective"]


class Objective(Criterion):
    """A training criterion: a function of the weights, once it is bound to labelled data.

    Solvers ask for its methods by name (their ``needs``). It contains no penalty.

    Attributes
    ----------
    problem : Problem or None
        The data, of a bound objective.
    gives_probabilities : bool
        Whether the trained scores are meant as logarithms of potentials, so that marginals mean something.
    is_convex : bool
        Whether it is convex in the weights, so that the norm of a gradient bounds the distance from the minimum.
    default_solver : str
        Name of the solver that ``solver="auto"`` stands for.
    depends_on_scores_only : bool
        Whether weights enter through scores alone. Derived classes have to say so again.

    Examples
    --------
    An objective of one's own:

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
        """Return this criterion of labelled data; the unbound one stays as it is."""
        bound = copy.copy(self)
        bound.problem = problem
        bound.n_weights, bound.n_sequences = problem.n_weights, problem.n_sequences
        bound._prepare()
        return bound

    def starting_objective(self) -> Objective | None:
        """Return the criterion whose trained weights this one starts from; None: it starts from 0."""
        return None

    def separates(self, w: np.ndarray) -> bool:
        """Tell whether the longer a multiple of ``w``, the smaller the objective, without end.

        There is no optimum then, unless a penalty holds back these weights. Bound objectives are asked; the answer here
        is that it is not known to be so.
        """
        return False

    def _prepare(self):
        """Compute what does not depend on the weights."""

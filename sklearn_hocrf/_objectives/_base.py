"""What solvers minimise beside a penalty: functions of the weights, also where some weights are equal."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from .._structure.tied_weights import Ties
from ._problem import Problem

__all__ = ["Objective", "Tied"]


class Objective:
    """A training criterion: a function of the weights, without the penalty, once it is bound to labelled data.

    Bound criteria have ``value_gradient(w)``.

    Attributes
    ----------
    name : str
        The value of the parameter ``objective`` of the estimators.
    excludes : tuple of str
        What the criterion does not go with: features and circumstances of ``_estimator/compatibility.py``.
    problem : Problem
        The data of a bound objective.
    is_convex : bool
        Whether the function is convex, so that the norm of a gradient bounds the distance from the minimum.
    depends_on_scores_only : bool
        Whether the weights enter only through scores.
    """

    name: str
    excludes: tuple[str, ...] = ()
    problem: Any = None  # until it is bound
    n_weights: int  # of a bound objective
    n_sequences: int
    is_convex = True
    depends_on_scores_only = False

    def bind(self, problem: Problem) -> Self:
        """Return a copy of this criterion that is bound to labelled data."""
        bound = copy.copy(self)
        bound.problem = problem
        bound.n_weights, bound.n_sequences = problem.n_weights, problem.n_sequences
        bound._prepare()
        return bound

    def _prepare(self):
        """Compute everything that does not depend on the weights."""

    def starting_objective(self) -> Objective | None:
        """Return the criterion that trains the starting weights, or None to start from 0."""
        return None

    def separates(self, w: np.ndarray) -> bool:
        """Return whether ``w`` makes the labels of each sequence more probable than all other labellings together.

        These labels then have the highest score. As ``w`` is multiplied by larger numbers, their probabilities approach
        1, and the criterion approaches 0: there is no optimum without a penalty on these weights.
        """
        return self.problem.separated_by(w)


class Tied:
    """A criterion that depends only on scores, in the variables of ties.   M variables.

    Parameters
    ----------
    objective : Objective
        The criterion, bound to a problem under ``ties.layout``, whose weights are sums of equal weights.
    ties : Ties
    """

    def __init__(self, objective: Any, ties: Ties) -> None:
        self._objective, self._root = objective, ties.root
        self.n_weights, self.is_convex = len(ties.root), objective.is_convex

    def value_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at ``u``, of shape (M,)."""
        value, gradient = self._objective.value_gradient(self._root * u)
        gradient *= self._root
        return value, gradient

    def hessp(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian at ``u`` and a vector."""
        return self._root * self._objective.hessp(self._root * u, self._root * v)

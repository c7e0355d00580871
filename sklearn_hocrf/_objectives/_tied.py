"""A criterion in which some weights are equal, as a function of fewer variables."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .._settings import Criterion, capability
from .._structure.tied_weights import Ties

__all__ = ["Tied"]


class Tied:
    """A criterion that depends only on scores, in the variables of ties.   M variables.

    Parameters
    ----------
    objective : Objective
        The criterion, bound to a problem under ``ties.layout``, whose weights are sums of equal weights. It has
        ``value_gradient`` and, for solvers that need it, ``hessp``.
    ties : Ties
    """

    def __init__(self, objective: Any, ties: Ties) -> None:
        self._objective, self._root = objective, ties.root
        self.n_weights, self.is_convex = len(ties.root), capability(objective, Criterion, "is_convex")
        self.n_inner = getattr(objective, "n_inner", 0)

    def value_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at ``u``, of shape (M,)."""
        value, gradient = self._objective.value_gradient(self._root * u)
        gradient *= self._root
        return value, gradient

    def bound_at(self, u: np.ndarray) -> Tied:
        """Return the criterion's convex bound at ``u``, in the same variables."""
        bound = copy.copy(self)
        bound._objective, bound.is_convex = self._objective.bound_at(self._root * u), True
        return bound

    def hessp(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian at ``u`` and a vector."""
        return self._root * self._objective.hessp(self._root * u, self._root * v)

"""From an objective, a penalty and a solver to the weights of the optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .problem import Problem
from .solvers import Progress, SolverReport
from .tied_weights import Ties, tie_weights

_WORTH_TYING = 0.9  # highest fraction of variables per weight for which tying pays


def minimise(objective: Any, penalty: Any, problem: Problem, start: np.ndarray, solver: Any) -> SolverReport:
    """Minimise an objective of labelled data plus a penalty, and check whether there is a minimum."""
    report = _minimise_tied(solver, objective, penalty, problem, start)
    if report is None:
        # a copy without other references, so that solvers can free it
        report = solver.solve(objective.bind(problem), penalty, np.array(start))
    if not report.stopped and _lacks_optimum(objective, penalty, problem, report.w):
        remedy = (
            "There is no optimum: the model separates the training data, so larger weights are always better. Use a "
            "penalty on all weights, such as finite values of sigma_reg"
        )
        return report._replace(converged=False, remedy=remedy)
    return report


def _minimise_tied(
    solver: Any, objective: Any, penalty: Any, problem: Problem, start: np.ndarray
) -> SolverReport | None:
    """Minimise over fewer variables if some weights must be equal; return None if none must, or if it is not worth it.

    Attributes that always occur together get equal weights (see ``_engine.training.tied_weights``) if criterion and
    solver treat equal weights alike.
    """
    if not (objective.depends_on_scores_only and solver.keeps_equal_weights_equal):
        return None
    ties = tie_weights(problem.layout, problem.batch, penalty.groups(len(start)))
    tied = penalty.tied(ties.variable, ties.root)
    if tied is None or len(ties.root) > _WORTH_TYING * len(start):
        return None
    # without a penalty, weights that start unequal stay unequal
    if not tied.precisions(len(ties.root)).all() and not np.allclose(ties.widen(ties.narrow(start)), start):
        return None
    narrow = Tied(objective.bind(problem.under(ties.layout)), ties)
    report = _widening(solver, ties).solve(narrow, tied, ties.narrow(start))
    return report._replace(w=ties.widen(report.w))


def _widening(solver: Any, ties: Ties) -> Any:
    """Return the solver, with a callback whose reports contain all weights."""
    callback = solver.callback
    if callback is None:
        return solver

    def tell(progress: Progress) -> Any:
        def widened() -> SolverReport:
            narrow = progress.report()
            return narrow._replace(w=ties.widen(narrow.w))

        return callback(progress._replace(report=widened))

    return replace(solver, callback=tell)


def _lacks_optimum(objective: Any, penalty: Any, problem: Problem, w: np.ndarray) -> bool:
    """Return whether the objective is known to decrease without end as the unpenalised weights grow."""
    is_free = penalty.free(len(w))
    return bool(is_free.any()) and objective.bind(problem).separates(np.where(is_free, w, 0.0))


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

"""Training criteria, penalties and solvers: what ``objective``, ``penalty`` and ``solver`` of the estimators stand for.

The estimators pick them by name, or take instances: those here with other settings, or a user's own.

* An objective has ``bind(problem)``, which returns a function of the weights; :class:`Objective` is a base for it. One
  with ``starting_objective()`` starts from the trained weights of that.
* A penalty is a function of the weights with ``value(w)``, ``gap(gradient_norm)`` and what the solver needs:
  ``value_gradient(w)`` for most, or :class:`L2` and :class:`ElasticNet` as bases. Where its ``strength`` is not None,
  weights that are 0 leave the fitted model.
* A solver has ``solve(objective, penalty, w0)``, which returns a :class:`SolverReport`; its ``needs`` names the methods
  it calls of the other two, and ``fit`` refuses what does not go together before any work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._objectives import Hinge, LocalFeatureMatching, NegativeLogLikelihood, Objective, Perceptron, Problem, Tied
from ._penalties import L2, ElasticNet
from ._solvers import (
    LBFGS,
    OWLQN,
    SGD,
    AdaGrad,
    AveragedPerceptron,
    FrankWolfe,
    NewtonCG,
    Progress,
    SolverReport,
    check_report,
)
from ._structure.tied_weights import tie_weights

__all__ = [
    "AdaGrad",
    "AveragedPerceptron",
    "ElasticNet",
    "FrankWolfe",
    "Hinge",
    "L2",
    "LBFGS",
    "LocalFeatureMatching",
    "NegativeLogLikelihood",
    "NewtonCG",
    "OWLQN",
    "Objective",
    "Perceptron",
    "Problem",
    "Progress",
    "SGD",
    "SolverReport",
]

OBJECTIVES = {
    "hinge": Hinge,
    "likelihood": NegativeLogLikelihood,
    "local_feature_matching": LocalFeatureMatching,
    "perceptron": Perceptron,
}
SOLVERS = {
    "adagrad": AdaGrad,
    "bcfw": FrankWolfe,
    "lbfgs": LBFGS,
    "newton-cg": NewtonCG,
    "owlqn": OWLQN,
    "perceptron": AveragedPerceptron,
    "sgd": SGD,
}
_WORTH_TYING = 0.9  # share of the weights that may be left


def minimise(solver: Any, objective: Objective, penalty: Any, problem: Problem, start: np.ndarray) -> SolverReport:
    """Minimise an objective of labelled data plus a penalty, and find out whether there is a minimum."""
    report = _minimise(solver, objective, penalty, problem, start)
    if _lacks_optimum(objective, penalty, problem, report.w):
        remedy = (
            "There is no optimum: the model separates the training data, and the larger its weights the better. Use a "
            "penalty on all of them, as finite values of sigma_reg are"
        )
        return report._replace(converged=False, remedy=remedy)
    return report


def _lacks_optimum(objective: Objective, penalty: Any, problem: Problem, w: np.ndarray) -> bool:
    """Tell whether weights without a penalty are known to get better for ever."""
    if not (isinstance(objective, Objective) and isinstance(penalty, (L2, ElasticNet))):
        return False
    free = (penalty.precisions(len(w)) == 0) & (penalty.strengths(len(w)) == 0)
    return bool(free.any()) and objective.bind(problem).separates(np.where(free, w, 0.0))


def _minimise(solver: Any, objective: Objective, penalty: Any, problem: Problem, start: np.ndarray) -> SolverReport:
    """Minimise by fewer variables where weights are bound to be equal.

    Only criteria, penalties and solvers of this package are known to give equal weights to attributes that always occur
    together (see ``_structure.tied_weights``); others see all weights. What a solver returns is checked.
    """
    known = type(objective) is NegativeLogLikelihood and type(penalty) in (L2, ElasticNet)
    if known and type(solver) in (LBFGS, NewtonCG, OWLQN):
        ties = tie_weights(problem.layout, problem.batch)
        tied = penalty.tied(ties.place, ties.root)
        # without a penalty, weights that start apart stay apart
        alike = tied is not None and (tied.precision.all() or np.allclose(ties.widen(ties.narrow(start)), start))
        if alike and len(ties.root) <= _WORTH_TYING * len(start):
            narrow = Tied(objective.bind(problem.under(ties.layout)), ties)
            report = solver.solve(narrow, tied, ties.narrow(start))
            return report._replace(w=ties.widen(report.w))
    return check_report(solver.solve(objective.bind(problem), penalty, start), solver, len(start))

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

from ._objectives import Hinge, LocalFeatureMatching, NegativeLogLikelihood, Objective, Perceptron, Problem
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
)

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

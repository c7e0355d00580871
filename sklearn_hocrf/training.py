"""Training criteria, penalties, solvers, the search for label patterns, and constraints: settings of the estimators.

The estimators accept names of criteria and solvers, or objects: instances of the classes in this module, or objects
written by users.

* An objective has a method ``bind(problem)``, which returns a function of the weights; :class:`Objective` is a base
  class. If it has ``starting_objective()``, training starts from the weights that this other objective trains.
* A penalty is a function of the weights with ``value(w)``, ``gap(gradient_norm)`` and the methods that the solver
  needs: ``value_gradient(w)`` for most solvers. :class:`L2` and :class:`ElasticNet` can serve as base classes. If its
  ``strength`` is not None, weights of 0 are removed from the fitted model.
* A solver has a method ``solve(objective, penalty, w0)``, which returns a :class:`SolverReport`. Its attribute
  ``needs`` names the methods of the objective and of the penalty that it calls; ``fit`` refuses combinations that lack
  them before any work.
* :class:`PatternSearch` has the settings of the search behind ``patterns="auto"``.
* :class:`Constraints` says which labels may follow each other, for the parameter ``constraints``.
* :class:`TokenDecoding` and :class:`SegmentDecoding` say what is predicted, for the parameter ``decoding``.
"""

from __future__ import annotations

from ._estimator.constraints import Constraints
from ._estimator.decoding import SegmentDecoding, TokenDecoding
from ._estimator.pattern_search import PatternSearch
from ._objectives import (
    Hinge,
    LocalFeatureMatching,
    NegativeLogLikelihood,
    Objective,
    PartialLikelihood,
    Perceptron,
    Problem,
)
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
    "Constraints",
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
    "PartialLikelihood",
    "PatternSearch",
    "Perceptron",
    "Problem",
    "Progress",
    "SGD",
    "SegmentDecoding",
    "SolverReport",
    "TokenDecoding",
]

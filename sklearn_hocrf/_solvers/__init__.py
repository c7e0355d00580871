"""Minimisers of an objective plus a penalty, independent of CRFs.

A solver has a method ``solve(objective, penalty, w0)``, which returns a :class:`SolverReport`. Its class attribute
``needs`` lists the methods of the objective and of the penalty that it calls; :func:`check_needs` checks before any
work that they exist.
"""

from ._blas import one_blas_thread
from ._box import SearchEnd, minimize_in_box
from ._common import STOPPED, Progress, Solver, SolverReport, check_needs, check_report, reached_tolerance
from ._frank_wolfe import FrankWolfe
from ._lbfgs import LBFGS
from ._newton import NewtonCG
from ._owlqn import OWLQN, shortest_subgradient
from ._perceptron import AveragedPerceptron
from ._stochastic import SGD, AdaGrad
from ._zero import zero_of_slope

__all__ = [
    "AdaGrad",
    "AveragedPerceptron",
    "FrankWolfe",
    "LBFGS",
    "NewtonCG",
    "OWLQN",
    "Progress",
    "SGD",
    "STOPPED",
    "SearchEnd",
    "Solver",
    "SolverReport",
    "check_needs",
    "check_report",
    "reached_tolerance",
    "minimize_in_box",
    "one_blas_thread",
    "shortest_subgradient",
    "zero_of_slope",
]

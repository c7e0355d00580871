"""Minimisers of an objective plus a penalty, which have never heard of CRFs.

A solver has ``solve(objective, penalty, w0) -> SolverReport``. Its class attribute ``needs`` names the methods that it
calls of the two; :func:`check_needs` holds them against it before any work.
"""

from ._blas import one_blas_thread
from ._common import Progress, Solver, SolverReport, check_needs, check_report
from ._frank_wolfe import FrankWolfe
from ._lbfgs import LBFGS
from ._newton import NewtonCG
from ._owlqn import OWLQN, shortest_subgradient
from ._perceptron import AveragedPerceptron
from ._stochastic import SGD, AdaGrad

__all__ = [
    "AdaGrad",
    "AveragedPerceptron",
    "FrankWolfe",
    "LBFGS",
    "NewtonCG",
    "OWLQN",
    "Progress",
    "SGD",
    "Solver",
    "SolverReport",
    "check_needs",
    "check_report",
    "one_blas_thread",
    "shortest_subgradient",
]

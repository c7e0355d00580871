"""Minimisers of an objective plus a penalty, independent of CRFs.

A solver has a method ``solve(objective, penalty, w0)``, which returns a :class:`SolverReport`.
"""

from ._box import SearchEnd, minimize_in_box
from ._common import STOPPED, Progress, Solver, SolverReport, one_blas_thread, shortest_subgradient, zero_of_slope
from ._curvature import LBFGSMemory
from ._lbfgs import LBFGS
from ._stochastic import SGD, TrainingState

__all__ = [
    "LBFGS",
    "LBFGSMemory",
    "Progress",
    "SGD",
    "STOPPED",
    "SearchEnd",
    "Solver",
    "SolverReport",
    "TrainingState",
    "minimize_in_box",
    "one_blas_thread",
    "shortest_subgradient",
    "zero_of_slope",
]

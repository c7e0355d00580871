"""Minimisers of an objective plus a penalty, independent of CRFs.

A solver consists of settings, from which ``minimizer`` makes an object with the settings of an estimator. Its method
``solve(objective, penalty, w0)`` returns a :class:`SolverReport`.
"""

from ._box import SearchEnd, minimize_in_box
from ._curvature import LBFGSMemory
from .lbfgs import LBFGS, LBFGSMinimizer
from .solvers import (
    STOPPED,
    Minimizer,
    Progress,
    Solver,
    SolverReport,
    one_blas_thread,
    shortest_subgradient,
    zero_of_slope,
)
from .stochastic import SGD, SGDMinimizer, TrainingState

__all__ = [
    "LBFGS",
    "LBFGSMemory",
    "LBFGSMinimizer",
    "Minimizer",
    "Progress",
    "SGD",
    "SGDMinimizer",
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

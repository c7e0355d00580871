"""What solvers take and give, and what they all need."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Progress", "SolverReport", "add_values", "check_needs", "check_report", "gap_above_minimum", "generator"]


class Progress(NamedTuple):
    """What a callback is told after each iteration."""

    n_iter: int
    value: float  # objective plus penalty
    gradient_norm: float  # Euclidean; of the shortest subgradient where there is no gradient; nan for solvers without
    gap: float  # bound on value - minimum


class SolverReport(NamedTuple):
    """Where a solver ended.   K weights."""

    w: np.ndarray  # (K,)
    n_iter: int
    history: np.ndarray  # (n_iter + 1,)   objective plus penalty, from the start to w
    gradient_norm: float  # as in Progress, at w
    gap: float  # bound on the last value - minimum
    converged: bool
    message: str
    n_passes: float = np.nan  # over the data: each value, gradient (or both) and Hessian-vector product is one


def check_needs(solver, objective: Any, penalty: Any):
    """Raise an error unless an objective and a penalty have the methods that a solver needs.

    Both are instances or classes. A solver without ``needs`` is taken at its word.
    """
    name = type(solver).__name__
    parts = {"objective": objective, "penalty": penalty}
    for role, methods in getattr(solver, "needs", {}).items():
        part = parts[role]
        missing = [method for method in methods if not hasattr(part, method)]
        if missing:
            instead = getattr(solver, "instead", "")
            if role == "objective" and hasattr(part, "default_solver"):
                instead = f"Use solver='{part.default_solver}' with it"
            raise ValueError(
                f"the solver {name} needs {', '.join(missing)} of the {role}, which {_name(part)} does not have. "
                f"{instead}".rstrip()
            )
    if not getattr(solver, "uses_penalty", True) and not _is_plain(penalty):
        raise ValueError(f"the solver {name} uses no penalty, but l1_reg or penalty asks for {_name(penalty)}")


def check_report(report, solver, n_weights) -> SolverReport:
    """Return what a solver reports, or raise an error that says what is wrong with it.

    Raises
    ------
    TypeError
        If it is no report: parts are missing, or are no numbers.
    ValueError
        If there are too few or too many weights or values, or some are not finite.
    """
    name = type(solver).__name__
    missing = [part for part in SolverReport._fields[:-1] if not hasattr(report, part)]
    if missing:
        raise TypeError(
            f"the solver {name} must return a SolverReport, but what it returned, a {type(report).__name__}, has no "
            f"{', '.join(missing)}"
        )
    parts = {part: getattr(report, part) for part in SolverReport._fields if hasattr(report, part)}
    report = SolverReport(**parts)  # n_passes may not be there
    if not isinstance(report.n_iter, Integral) or isinstance(report.n_iter, bool) or report.n_iter < 0:
        raise TypeError(f"n_iter of the solver {name} must be an integer >= 0, got {report.n_iter!r:.60}")
    for part in ("gradient_norm", "gap", "n_passes"):
        if not isinstance(getattr(report, part), Real):
            raise TypeError(f"{part} of the solver {name} must be a number, got {getattr(report, part)!r:.60}")
    if not isinstance(report.converged, (bool, np.bool_)):
        raise TypeError(f"converged of the solver {name} must be a bool, got {report.converged!r:.60}")
    w = _finite_vector(report.w, n_weights, f"w of the solver {name}")
    history = _finite_vector(report.history, report.n_iter + 1, f"history of the solver {name} (n_iter + 1 values)")
    return report._replace(w=w, history=history, n_iter=int(report.n_iter), converged=bool(report.converged))


def _finite_vector(values, length, name):
    """Return numbers as a new array."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of real numbers, got {values!r:.60}")
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), got {array.shape}")
    if not np.isfinite(array).all():
        i = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, but element {i} is {array[i]}")
    return array.astype(np.float64)


def _name(part):
    return part.__name__ if isinstance(part, type) else type(part).__name__


def _is_plain(penalty):
    """Tell whether a penalty is the class of that of every estimator which is not told otherwise."""
    return isinstance(penalty, type) and hasattr(penalty, "value_gradient")


def add_values(one, other):
    """Return the sum of two pairs (value, gradient)."""
    value, gradient = one[0] + other[0], one[1] + other[1]
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.linalg.norm(gradient)
    if not np.isfinite(value) or not np.isfinite(norm):
        raise ValueError(
            f"the minimised function is {value:g} and the norm of its gradient {norm:g}, which floating point numbers "
            "cannot hold: rescale numeric features, sample weights or the penalty"
        )
    return value, gradient


def gap_above_minimum(objective: Any, penalty: Any, gradient_norm) -> float:
    """Bound how far an objective plus a penalty lies above its minimum; inf where the objective is not convex."""
    return penalty.gap(gradient_norm) if getattr(objective, "is_convex", True) else np.inf


def generator(random_state: int | np.random.RandomState | None) -> np.random.RandomState:
    """Return the generator that a ``random_state`` stands for, as scikit-learn has it."""
    if random_state is None:
        return np.random.mtrand._rand
    return random_state if isinstance(random_state, np.random.RandomState) else np.random.RandomState(random_state)

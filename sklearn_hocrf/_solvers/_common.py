"""Base classes of solvers, their reports, and checks of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from .._settings import Criterion, Settings, capability, check, is_integer, is_number

__all__ = [
    "STOPPED",
    "Progress",
    "RandomSolver",
    "Solver",
    "SolverReport",
    "add_values",
    "check_finite",
    "check_needs",
    "check_report",
    "gap_above_minimum",
    "goal_of_norm",
    "reached_tolerance",
]


STOPPED = "stopped by a callback"  # message of reports


class Progress(NamedTuple):
    """State of training after an iteration, which is passed to callbacks.

    Solvers whose iterations may increase the function report on the best weights so far. See
    docs/guide/training.md on custom solvers.
    """

    n_iter: int
    value: float  # objective plus penalty
    gradient_norm: float  # Euclidean; of the shortest subgradient if there is no gradient; nan for solvers without
    gap: float  # upper bound on value - minimum
    report: Callable[[], SolverReport] | None = None  # returns the current result of training; call it in the callback
    goal: float = np.nan  # gradient norm at which training ends, or gap for solvers without; nan: another rule


class SolverReport(NamedTuple):
    """Result of a solver.   K weights.

    The method ``solve`` of solvers returns it. See docs/guide/training.md on custom solvers.
    """

    w: np.ndarray  # (K,)
    n_iter: int
    history: np.ndarray  # (n_iter + 1,)   as the value in Progress, from the start to w
    gradient_norm: float  # as in Progress, at w
    gap: float  # upper bound on the last value - minimum
    converged: bool
    message: str
    n_passes: float = np.nan  # over the data: each value, gradient (or both) and Hessian-vector product is one
    remedy: str = ""  # advice if it did not converge, a sentence without a full stop; empty: more iterations
    stopped: bool = False  # by a callback, before convergence


class Solver(Settings):
    """Base class of the solvers, with their common settings.

    Parameters
    ----------
    tol : float
        Tolerance of the solver's stopping rule, >= 0.
    max_iter : int
        Maximum number of iterations, >= 0.
    callback : callable or None
        Called with a :class:`Progress` after each iteration. If it returns True, training stops.

    Raises
    ------
    ValueError
        For settings that are out of range.
    """

    needs: Mapping[str, tuple[str, ...]] = {}  # required methods of "objective" and "penalty"
    instead = ""  # alternative if these are missing
    uses_penalty = True
    keeps_equal_weights_equal = False  # if objective and penalty treat them alike; derived classes declare it again
    tol: float = np.nan  # of a solver without the setting
    max_iter: float = np.inf

    def __init__(
        self, tol: float = 3e-3, max_iter: int = 500, callback: Callable[[Progress], Any] | None = None
    ) -> None:
        check(is_number(tol) and 0 <= tol < np.inf, "tol", "a finite number >= 0", tol)
        check(is_integer(max_iter) and max_iter >= 0, "max_iter", "an integer >= 0", max_iter)
        check(callback is None or callable(callback), "callback", "None or a callable", callback)
        self.tol, self.max_iter, self.callback = tol, max_iter, callback

    def _is_stopped(self, progress: Progress) -> bool:
        """Report an iteration to the callback, and return whether it stops training."""
        return self.callback is not None and bool(self.callback(progress))


class RandomSolver(Solver):
    """Base class of the solvers that draw random numbers: ``random_state`` is an int, a RandomState or None."""

    def __init__(
        self,
        tol: float = 3e-3,
        max_iter: int = 500,
        callback: Callable[[Progress], Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(tol, max_iter, callback)
        is_seed = (
            isinstance(random_state, Integral) and not isinstance(random_state, bool) and 0 <= random_state < 2**32
        )
        valid = random_state is None or is_seed or isinstance(random_state, np.random.RandomState)
        check(valid, "random_state", "None, an integer from 0 to 2**32 - 1 or a numpy RandomState", random_state)
        self.random_state = random_state


def check_needs(solver, objective: Any, penalty: Any):
    """Raise an error unless an objective and a penalty have the methods that a solver needs.

    Both are instances or classes. Without ``needs``, a solver passes.
    """
    name = type(solver).__name__
    parts = {"objective": objective, "penalty": penalty}
    for role, methods in capability(solver, Solver, "needs").items():
        part = parts[role]
        missing = [method for method in methods if not hasattr(part, method)]
        if missing:
            instead = capability(solver, Solver, "instead")
            if role == "objective" and hasattr(part, "default_solver"):
                instead = f"Use solver='{part.default_solver}' with it"
            raise ValueError(
                f"the solver {name} needs {', '.join(missing)} of the {role}, which {_name(part)} does not have. "
                f"{instead}".rstrip()
            )
    if not capability(solver, Solver, "uses_penalty") and not _is_plain(penalty):
        raise ValueError(f"the solver {name} uses no penalty, but l1_reg or penalty specifies {_name(penalty)}")


def check_report(report, solver, n_weights) -> SolverReport:
    """Return the report of a solver in a uniform form, or raise an error that explains what is wrong with it.

    Raises
    ------
    TypeError
        If fields are missing or have wrong types.
    ValueError
        If the number of weights or values is wrong, or some of them are not finite.
    """
    name = type(solver).__name__
    may_lack: dict[str, Any] = {"gradient_norm": np.nan, "message": "no message", **SolverReport._field_defaults}
    missing = [part for part in SolverReport._fields if part not in may_lack and not hasattr(report, part)]
    if missing:
        raise TypeError(
            f"the solver {name} must return a SolverReport, but it returned a {type(report).__name__} without "
            f"{', '.join(missing)}"
        )
    parts: dict[str, Any] = {part: getattr(report, part, may_lack.get(part)) for part in SolverReport._fields}
    report = SolverReport(**parts)
    if not isinstance(report.n_iter, Integral) or isinstance(report.n_iter, bool) or report.n_iter < 0:
        raise TypeError(f"n_iter of the solver {name} must be an integer >= 0, got {report.n_iter!r:.60}")
    for part in ("gradient_norm", "gap", "n_passes"):
        if not isinstance(getattr(report, part), Real):
            raise TypeError(f"{part} of the solver {name} must be a number, got {getattr(report, part)!r:.60}")
    for part in ("converged", "stopped"):
        if not isinstance(getattr(report, part), (bool, np.bool_)):
            raise TypeError(f"{part} of the solver {name} must be a bool, got {getattr(report, part)!r:.60}")
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
    """Return whether a penalty is the default of estimators: the class of a smooth penalty, not an instance."""
    return isinstance(penalty, type) and hasattr(penalty, "value_gradient")


def add_values(one, other):
    """Return the sum of two pairs (value, gradient)."""
    value, gradient = one[0] + other[0], one[1] + other[1]
    check_finite(value, gradient)
    return value, gradient


def check_finite(value, gradient=()):
    """Raise a ValueError unless a value and the norm of a gradient are finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        norm = np.linalg.norm(gradient)
    if not np.isfinite(value) or not np.isfinite(norm):
        raise ValueError(
            f"the minimised function is {value:g} and the norm of its gradient {norm:g}, which floating point numbers "
            "cannot represent: rescale numeric features, sample weights or the penalty"
        )


def gap_above_minimum(objective: Any, penalty: Any, gradient: np.ndarray) -> float:
    """Return an upper bound on an objective plus a penalty, minus its minimum; inf if the objective is not convex."""
    return penalty.gap(gradient) if capability(objective, Criterion, "is_convex") else np.inf


def goal_of_norm(norm: float, reached: float, tol: float) -> float:
    """Return the norm of the gradient at which training ends, from the norm at the ``reached`` tolerance."""
    return norm * tol / reached if reached else norm


def reached_tolerance(penalty: Any, w: np.ndarray, value: float, gradient: np.ndarray) -> float:
    """Return the ``tol`` at which training ends for a gradient, or shortest subgradient, of an objective and a penalty.

    If the objective is convex, the distance from the minimum is at most ``tol**2`` of the value. The norm of the
    gradient bounds it only together with the precisions of the penalty: with low precisions, the minimum may be far
    away although the gradient is small. The norm alone is used if there is no bound.
    """
    gap = penalty.gap(gradient)
    if np.isfinite(gap):
        return 0.0 if gap == 0 else float(np.sqrt(gap / abs(value)) if value else np.inf)
    return float(np.linalg.norm(gradient) / max(1.0, float(np.linalg.norm(w))))

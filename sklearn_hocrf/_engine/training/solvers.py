"""The base class of solvers, their reports and stopping rules, and a search for a minimum in a box."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Never, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize
from sklearn.base import BaseEstimator
from threadpoolctl import ThreadpoolController

from ..._data.checks import check
from .penalties import Penalty

STOPPED = "stopped by a callback"  # message of reports
OF_ESTIMATORS = "tol", "max_iter", "verbose", "random_state"  # parameters of estimators that solvers reject
ARMIJO = 1e-4  # fraction of the linear decrease that a step must achieve


class Progress(NamedTuple):
    """The state of training after an iteration, as passed to callbacks.

    Solvers whose iterations may increase the function report the state at the best weights so far.
    """

    n_iter: int
    value: float  # objective plus penalty
    gradient_norm: float  # Euclidean; of the shortest subgradient if there is no gradient; nan if not computed
    gap: float  # upper bound on value - minimum
    report: Any = None  # a function that returns the SolverReport so far; None for streams

    def inside(self, change: Callable[[SolverReport], SolverReport], n_before: int = 0) -> Progress:
        """Return the state with ``n_before`` more iterations, and with reports modified by ``change``."""
        return self._replace(n_iter=n_before + self.n_iter, report=lambda: change(self.report()))


class SolverReport(NamedTuple):
    """The result of ``solve``.   K weights."""

    w: np.ndarray  # (K,)
    n_iter: int
    history: np.ndarray  # (n_iter + 1,)   values as in Progress, from the start to w
    gradient_norm: float  # as in Progress, at w
    gap: float  # upper bound on the last value - minimum
    converged: bool
    message: str
    n_passes: float = np.nan  # passes over the data: one per value, gradient (or both) or Hessian product
    remedy: str = ""  # advice if training did not converge, without a full stop; empty: use more iterations
    stopped: bool = False  # whether a callback stopped training before convergence


class Criterion(Protocol):
    """The interface of a training criterion that solvers require: a function of K weights, bound to data."""

    is_convex: bool

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at ``w``, of shape (K,)."""


class Solver(BaseEstimator):
    """Base class of the settings of solvers, which users pass to estimators.

    Parameters
    ----------
    callback : callable or None
        Called with a :class:`Progress` after each iteration. If it returns True, training stops.
    elsewhere : dict
        All other arguments that a user passed; each of them raises a TypeError.

    Raises
    ------
    TypeError
        If an argument is a parameter of the estimators, or unknown.
    ValueError
        If a setting is out of range.
    """

    def __init__(self, callback: Callable[[Progress], Any] | None, elsewhere: dict[str, Never]) -> None:
        kind = type(self).__name__
        for name in elsewhere:
            if name in OF_ESTIMATORS:
                raise TypeError(f"{kind} has no {name}: pass {name} to the estimator, as in HighOrderCRF({name}=...)")
            raise TypeError(f"{kind} has no setting {name!r}")
        check(callback is None or callable(callback), "callback", "None or a callable", callback)
        self.callback = callback

    def minimizer(self, tol: float, max_iter: int, callback: Any, random_state: Any) -> Minimizer:
        """Return the minimiser of an objective; the estimator calls this method with its own settings."""
        raise NotImplementedError


@dataclass
class Minimizer:
    """Base class of minimisers, which combine the settings of a solver and of an estimator."""

    keeps_equal_weights_equal = False  # if the objective and the penalty treat them alike

    tol: float = 3e-3  # of the stopping rule
    max_iter: int = 500
    callback: Callable[[Progress], Any] | None = None  # called after each iteration; True stops training
    random_state: int | np.random.RandomState | None = None  # for minimisers that draw sequences

    def solve(self, objective: Criterion, penalty: Penalty, w0: np.ndarray) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``."""
        raise NotImplementedError

    def _is_stopped(self, progress: Progress) -> bool:
        """Report an iteration to the callback, and return whether the callback stops training."""
        return self.callback is not None and bool(self.callback(progress))


class Point(NamedTuple):
    """A point, with the value and the derivatives of the function there.   K weights."""

    w: np.ndarray  # (K,)
    value: float
    gradient: np.ndarray  # (K,)   of the smooth part
    steepest: np.ndarray  # (K,)   the gradient, or the shortest subgradient


def point_of(objective: Criterion, penalty: Penalty, w: np.ndarray) -> Point:
    """Return a point of an objective plus a penalty, or raise a ValueError if numbers overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        (value, gradient), (extra, pull) = objective.value_gradient(w), penalty.smooth_value_gradient(w)
        value, gradient = value + extra, gradient + pull
        norm = np.linalg.norm(gradient)
    if not np.isfinite(value) or not np.isfinite(norm):
        raise ValueError(
            f"the minimised function is {value:g} and the norm of its gradient {norm:g}, which floating point numbers "
            "cannot represent: rescale numeric features, sample weights or the penalty"
        )
    if not penalty.is_sparse:
        return Point(w, value, gradient, gradient)
    strength = penalty.strengths(len(w))
    return Point(w, value + float(strength @ np.abs(w)), gradient, shortest_subgradient(w, gradient, strength))


def shortest_subgradient(w, gradient, strength) -> np.ndarray:
    """Return the subgradient of least norm of a smooth function plus ``sum(strength * abs(w))``.

    ``gradient`` is the gradient of the smooth function. Where w is 0, the subgradients of the absolute value are all
    slopes in [-1, 1].
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - strength, 0.0)
    return np.where(w != 0, gradient + strength * np.sign(w), at_zero)


def gap_above_minimum(objective: Criterion, penalty: Penalty, gradient: np.ndarray) -> float:
    """Return an upper bound on how far an objective plus a penalty exceeds its minimum; inf if it may not be convex."""
    return penalty.gap(gradient) if objective.is_convex else np.inf


def reached_tolerance(
    objective: Criterion, penalty: Penalty, w: np.ndarray, value: float, gradient: np.ndarray
) -> float:
    """Return the lowest ``tol`` for which training ends at a point with this gradient, or shortest subgradient.

    If the objective is convex, training ends when the value exceeds the minimum by at most ``tol**2`` of the value. The
    norm of the gradient gives a bound on this gap only together with the precisions of the penalty: with low
    precisions, the minimum may be much lower although the gradient is small. If the penalty contains absolute values,
    training also ends when the gap is at most about ``tol`` of the value. In this case, the gap is at most the norm of
    the subgradient times the distance of ``w`` from the optimum. The optimum is about as far from 0 as ``w``, so this
    distance is at most about ``2 * norm(w)``. In most cases, the gap is much smaller than this bound. If there is no
    bound, the rule uses only the norm of the gradient.
    """
    gap, norm, length = penalty.gap(gradient), float(np.linalg.norm(gradient)), max(1.0, float(np.linalg.norm(w)))
    if norm == 0:
        return 0.0
    has_bound, is_sparse = np.isfinite(gap), objective.is_convex and penalty.is_sparse
    if not has_bound and not is_sparse:
        return norm / length
    if value == 0:
        return np.inf
    reached = float(np.sqrt(gap / abs(value))) if has_bound else np.inf
    return min(reached, 2.0 * norm * length / abs(value)) if is_sparse else reached


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # inspects all libraries of the process, which takes 3 ms


def one_blas_thread() -> AbstractContextManager:
    """Return a context in which BLAS uses only the caller's thread.

    After each vector operation, an idle BLAS thread keeps a core busy that the package's threads need.
    """
    return _controller().limit(limits=1, user_api="blas")


ROUNDING = 1e-10  # error of slopes, relative to the size of their terms


def zero_of_slope(
    slope: Callable[[float], float], bounds: tuple[float, float], *, flat: float, tol: float = 1e-9
) -> float:
    """Return the argument at which the slope of a concave function is 0, or the nearest bound.

    The search begins at 1 and doubles or halves the variable until the slope changes sign.

    Parameters
    ----------
    slope : callable
        The derivative, which must be decreasing.
    bounds : tuple of float
        Lowest and highest values of the variable; 1 lies between them.
    flat : float
        Slopes of at most this size may be rounding errors, and do not count as a change of sign. If the function
        increases without end, but ever more slowly, the result is therefore the bound.
    tol : float, default=1e-9
        Relative error of the result.
    """
    at_one = slope(1.0)
    if abs(at_one) <= flat:
        return 1.0
    sign, factor, bound = (1, 2.0, bounds[1]) if at_one > 0 else (-1, 0.5, bounds[0])
    near = far = 1.0
    while far != bound:
        far = float(np.clip(far * factor, *bounds))
        at_far = sign * slope(far)
        if at_far < -flat:
            return float(brentq(slope, near, far, xtol=tol * min(near, far), rtol=max(tol, 1e-15)))
        if at_far > flat:
            near = far
    return bound


PATIENCE = 2
REACH = 6.0  # on addresses, verse, chunks and handwriting, the best sigma was 4 to 7 times gradient / value away


class SearchEnd(Exception):
    """Exception that ends :func:`minimize_in_box`; a separate class, because user code never raises it."""


def minimize_in_box(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    bounds: tuple[ArrayLike, ArrayLike],
    *,
    max_evaluations: int,
    tol: float,
) -> None:
    """Search a box for the minimum of a function, with scipy's L-BFGS-B.

    The first step of L-BFGS-B is as long as the gradient, which depends on the units of the function. The function is
    therefore scaled so that the first step has a length of about 1, or less if the gradient is small. With a small
    gradient, the step ends at the minimum if the curvature of the function is about its value divided by ``REACH``.

    Parameters
    ----------
    function : callable
        Returns the value and the gradient, of shape (n,), at a point. The function must record its results, and may end
        the search by raising :class:`SearchEnd`.
    start : ndarray of shape (n,)
    bounds : tuple of float, or of ndarray of shape (n,)
        Lowest and highest values, either for all variables or for each variable.
    max_evaluations : int
        Maximum number of evaluations.
    tol : float
        The search ends when ``PATIENCE`` evaluations in a row each lower the function by less than this fraction of its
        value. A single such evaluation may belong to a step that is too long; if values are inexact, further
        evaluations are useless. The second evaluation is omitted if the gradient at the best point predicts a decrease
        below this fraction; for a convex function, the prediction is an upper bound.
    """
    if not len(start):
        with suppress(SearchEnd):
            function(start)
        return
    scale, best, in_vain, n_left = None, None, 0, max_evaluations

    def scaled(x):
        nonlocal scale, best, in_vain, n_left
        if n_left == 0 or in_vain == PATIENCE:
            raise SearchEnd
        if in_vain and float(best.gradient @ (best.w - x)) < tol * abs(best.value):  # decrease to first order
            raise SearchEnd
        value, gradient = function(x)
        n_left -= 1
        in_vain = in_vain + 1 if best is not None and best.value - value < tol * abs(value) else 0
        if best is None or value < best.value:
            best = Point(x.copy(), value, gradient, gradient)
        if scale is None:
            steepest = np.linalg.norm(gradient)
            scale = 1.0 / max(steepest, abs(value) / REACH) if steepest > 0 else 1.0
        return scale * value, scale * gradient

    box = list(zip(*np.broadcast_arrays(*bounds, start)[:2], strict=True))
    options = {"ftol": 0.0, "gtol": 0.0}  # their units are those of the function
    with suppress(SearchEnd):
        minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=box, options=options)

"""Limited-memory BFGS: memory of curvature, line search, and orthant-wise steps for L1 penalties.

The curvature memory stores the last steps of L-BFGS, and the changes of the gradient along these steps. For L1
penalties, the module implements an orthant-wise limited-memory quasi-Newton method. The absolute values are linear
within an orthant. Each iteration moves the weights that are not 0, or that steepest descent moves away from 0, towards
a lower point of the quadratic model of L-BFGS plus the absolute values [2]_. A step of Newton's method within an
orthant finds this point [1]_: a weight whose sign would change becomes 0.

References
----------
.. [1] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
.. [2] Lee, Sun and Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM Journal on
   Optimization 24, 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Never, Self

import numpy as np
from scipy.linalg.blas import daxpy

from ..kernels import lists
from .penalties import Penalty
from .solvers import (
    ARMIJO,
    STOPPED,
    Criterion,
    Minimizer,
    Progress,
    Solver,
    SolverReport,
    gap_above_minimum,
    point_of,
    reached_tolerance,
    shortest_subgradient,
)

_C2 = 0.9  # of the strong Wolfe conditions: largest absolute slope at the end, relative to the slope at the start
_MOST_STEPS = 30  # of a line search; the very first step may be far too long
_ROUNDING = 1e-9  # relative difference of values below which the difference is unreliable


class LBFGS(Solver):
    """Limited-memory BFGS [1]_.

    Steps satisfy the strong Wolfe conditions. If the line search reaches its maximum number of steps, the solver
    accepts the lowest of the points that satisfy Armijo's condition of sufficient decrease. If two values are so close
    that rounding errors dominate their difference, the solver estimates the difference from the slopes at both ends of
    the step. A step at which numbers overflow counts as too long.

    Parameters
    ----------
    callback : callable or None, default=None
        Called after each iteration with a named tuple, whose fields are ``n_iter``, ``value`` (the objective plus the
        penalty), ``gradient_norm``, and ``gap`` (an upper bound on the distance of the value from the minimum). If the
        callback returns True, training stops.
    **elsewhere : dict
        Not accepted. Pass ``tol``, ``max_iter``, ``verbose`` and ``random_state`` to the estimator.

    Raises
    ------
    TypeError
        If an argument is a parameter of the estimator, or unknown.
    ValueError
        If a setting is out of range.

    Notes
    -----
    Training stops when an upper bound on the distance of the value from the minimum is at most ``tol**2`` of the value.
    If there is no bound, for example because some weights have no penalty, training stops when
    ``norm(gradient) <= tol * max(1, norm(w))``.

    With ``l1_reg`` > 0, the solver is the orthant-wise limited-memory quasi-Newton method [2]_, with the same settings.
    The absolute values are linear within an orthant. Each iteration moves the weights that are not 0, or that steepest
    descent moves away from 0, towards a lower point of the quadratic model of L-BFGS plus the absolute values [3]_. The
    shortest subgradient replaces the gradient. If the objective is convex, training also stops when the estimated
    distance of the value from the minimum is at most ``tol`` of the value.

    References
    ----------
    .. [1] Nocedal and Wright, "Numerical optimization", 2nd edition, 2006, section 7.2.
    .. [2] Andrew and Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
    .. [3] Lee, Sun and Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM Journal on
       Optimization 24, 2014.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import LBFGS
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> values = []
    >>> solver = LBFGS(callback=lambda progress: values.append(progress.value))
    >>> crf = HighOrderCRF(solver=solver, tol=1e-8).fit(X, y)
    >>> len(values) == crf.n_iter_, round(values[-1], 3)
    (True, 3.435)
    """

    __module__ = "sklearn_hocrf.training"  # the public module: model files contain this name

    def __init__(self, *, callback: Callable[[Progress], Any] | None = None, **elsewhere: Never) -> None:
        super().__init__(callback, elsewhere)

    def minimizer(self, tol: float, max_iter: int, callback: Any, random_state: Any) -> LBFGSMinimizer:
        return LBFGSMinimizer(tol, max_iter, callback, random_state)


class LBFGSMinimizer(Minimizer):
    """A minimiser that uses L-BFGS or, if the penalty contains absolute values, OWL-QN."""

    keeps_equal_weights_equal = True

    def _reached(self, objective, penalty, point) -> float:
        """Return the smallest tolerance for which a point is close enough to the minimum."""
        return reached_tolerance(objective, penalty, point.w, point.value, point.steepest)

    def solve(
        self, objective: Criterion, penalty: Penalty, w0: np.ndarray, curvature: LBFGSMemory | None = None
    ) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``.

        Parameters
        ----------
        objective, penalty : object
            The terms of the sum to minimise.
        w0 : ndarray of shape (K,)
            The starting weights.
        curvature : LBFGSMemory or None
            Known curvature of the sum near ``w0``, for example from the minimisation of a similar sum; updated in
            place. None means an empty memory.

        Raises
        ------
        ValueError
            If values or gradients are so large that their squares overflow, at the start or for all step lengths.
        """
        search, n_passes, refusal = orthant_search if penalty.is_sparse else line_search, 0, None

        def evaluate(w):
            nonlocal n_passes
            n_passes += 1
            return point_of(objective, penalty, w)

        def attempt(w):
            nonlocal refusal
            refusal = None
            try:
                return evaluate(w)
            except ValueError as error:
                refusal = error
                return None

        def report(converged=False, message=STOPPED):
            gap = gap_above_minimum(objective, penalty, point.steepest)
            return SolverReport(point.w, len(history) - 1, np.array(history), norm, gap, converged, message, n_passes)

        point = evaluate(np.array(w0, dtype=np.float64))
        if curvature is None:
            curvature = LBFGSMemory.of_size(len(w0))
            curvature.expect_from(point.gradient)
        del w0  # which frees its memory if the caller does not keep it
        history, message, stopped = [point.value], "the maximum number of iterations was reached", False
        while True:
            norm, reached = float(np.linalg.norm(point.steepest)), self._reached(objective, penalty, point)
            if len(history) > 1 and self.callback is not None:
                gap = gap_above_minimum(objective, penalty, point.steepest)
                stopped = self._is_stopped(Progress(len(history) - 1, point.value, norm, gap, report))
            converged = reached <= self.tol
            if converged or stopped:
                message = "converged" if converged else STOPPED
            if converged or stopped or len(history) > self.max_iter:
                break
            next_point = search(attempt, point, curvature, penalty)
            if next_point is None and len(curvature):  # the estimate of the curvature may be misleading
                curvature.clear()
                next_point = search(attempt, point, curvature, penalty)
            if next_point is None and refusal is not None:  # even the shortest step overflows
                raise refusal
            if next_point is None:
                message = "no step decreases the function"
                break
            point = next_point
            history.append(point.value)
        return report(converged, message)._replace(stopped=stopped and not converged)


def line_search(attempt, point, curvature, penalty):
    """Return a lower point of a smooth function, or None if the search finds none, and update ``curvature``.

    Parameters
    ----------
    attempt : callable
        Maps weights to a :class:`Point`, or to None if numbers overflow.
    point : Point
    curvature : LBFGSMemory
    penalty : Penalty
    """
    direction = curvature.solve(point.gradient)
    slope = -float(point.gradient @ direction)
    if not slope < 0 or np.linalg.norm(direction) <= np.finfo(float).eps * np.linalg.norm(point.w):
        return None
    step = 1.0 if len(curvature) else 1.0 / np.linalg.norm(direction)
    best, lowest = None, np.inf
    low, high = (0.0, slope), None  # the desired step is between low, which is too short, and high
    too_long, in_a_row = None, 0
    for _ in range(_MOST_STEPS):
        end = point.w - step * direction
        if np.array_equal(end, point.w):
            break
        new = attempt(end)
        new_slope, change = np.inf, np.inf
        if new is not None:
            new_slope = -float(new.gradient @ direction)
            change = _change(point, new, 0.5 * step * (slope + new_slope))
        decreases = change <= ARMIJO * step * slope
        if decreases and change < lowest:
            best, lowest = new, change
        if decreases and abs(new_slope) <= -_C2 * slope:
            break
        before, too_long = too_long, not decreases or new_slope > 0
        in_a_row = in_a_row + 1 if too_long == before else 0
        low, high = (low, (step, new_slope)) if too_long else ((step, new_slope), high)
        step = _between(low, high, too_long, in_a_row)
    if best is not None:
        curvature.add(point, best)
    return best


def _change(point, new, by_slopes):
    """Return the difference of the values, or its estimate from slopes if rounding errors dominate the difference."""
    change = new.value - point.value
    return by_slopes if abs(change) <= _ROUNDING * abs(point.value) else change


def _between(low, high, too_long, in_a_row):
    """Return the next step to try.

    ``low`` and ``high`` contain the step and the slope at each end of the interval; ``high`` is None if there is no
    upper end yet. The last step was ``too_long`` or too short, as were the ``in_a_row`` steps before it. The more such
    steps there were, the closer the next step is to the other end, because interpolation alone would move too slowly.
    """
    (short, falling), (long, slope) = low, high or (np.inf, 0.0)
    if long == np.inf:
        return 4 * short
    share = falling / (falling - slope) if slope > 0 else 0.5  # where a linear interpolation of the slopes is 0
    most = 0.5**in_a_row
    share = min(share, most) if too_long else max(share, 1 - most)
    return short + min(max(share, 0.1), 0.9) * (long - short)


_POWER, _FLOOR = -0.2, 1e-4  # of the first gradient, for the scales of weights; see docs/develop/design.md


class RestrictedHessian(NamedTuple):
    """An estimated Hessian for some weights: R (I - F' M^-1 F) R, where R is diagonal.   K weights, P pairs."""

    root: np.ndarray  # (K,)   R
    factor: np.ndarray  # (2P, K)   F
    middle: np.ndarray  # (2P, 2P)   M
    inner: np.ndarray  # (2P, 2P)   M - F F'

    def times(self, v):
        """Return the product of the matrix and a vector."""
        v = self.root * v
        return self.root * (v - np.linalg.solve(self.middle, self.factor @ v) @ self.factor)

    def solve(self, v, fixed):
        """Return the product of a vector and the inverse of the submatrix without ``fixed`` weights; 0 for these."""
        columns = self.factor[:, fixed]
        v = np.where(fixed, 0.0, v / self.root)
        v += np.linalg.solve(self.inner + columns @ columns.T, self.factor @ v) @ self.factor
        return np.where(fixed, 0.0, v / self.root)


class _Doubles:
    """A step, or a change of the gradient, in double precision; ``blocks`` are slices that cover all weights."""

    def __init__(self, n_weights, blocks):
        self.values, self._blocks = np.empty(n_weights), blocks

    def store(self, numbers_of):
        """Store the numbers that a function returns for each block."""
        for block in self._blocks:
            self.values[block] = numbers_of(block)

    def __getitem__(self, chosen):
        return self.values[chosen]

    def dot(self, vector):
        return float(self.values @ vector)

    def times(self, other):
        """Return the product with another vector of a pair."""
        return self.dot(other.values)

    def add_to(self, vector, factor):
        """Add a multiple of this vector to another one, in place."""
        daxpy(self.values, vector, a=factor)


class _Rounded:
    """A step, or a change of the gradient, as integers of 16 bits, in units of each block's largest number / 32767."""

    def __init__(self, n_weights, blocks):
        self._integers, self._blocks = np.empty(n_weights, np.int16), blocks
        self._units = np.empty(len(blocks))
        self._sums = np.empty(lists.ABREAST)

    def store(self, numbers_of):
        """Store the numbers that a function returns for each block."""
        for i, block in enumerate(self._blocks):
            numbers = numbers_of(block)
            unit = self._units[i] = np.abs(numbers).max() / lists.LARGEST
            # if the unit is about 0, infinite or nan, integers of 0 give products that are 0 or nan
            self._integers[block] = np.rint(numbers / unit) if np.finfo(float).tiny < unit < np.inf else 0

    def __getitem__(self, chosen):
        """Return the chosen numbers: those at some positions, or those of a block."""
        units = self._units[chosen.start // lists.BLOCK if isinstance(chosen, slice) else chosen // lists.BLOCK]
        return self._integers[chosen] * units

    def dot(self, vector):
        return lists.dot(self._integers, self._units, vector, self._sums)

    def times(self, other):
        """Return the product with another vector of a pair."""
        return sum(float(self[block] @ other[block]) for block in self._blocks)

    def add_to(self, vector, factor):
        """Add a multiple of this vector to another one, in place."""
        lists.add(self._integers, self._units, factor, vector)


class LBFGSMemory:
    """An estimate of the Hessian from the last steps and the changes of the gradient along them.

    Parameters
    ----------
    n_pairs : int
        Maximum number of pairs of a step and a change that are kept.
    n_weights : int
    is_rounded : bool
        Whether the numbers of pairs are stored with 16 bits; sums are always in double precision.
    """

    pair_bytes = 1 << 27  # memory for pairs: more pairs save iterations
    enough_pairs = 100  # kept in double precision if they fit; otherwise as many as fit with 16 bits per number
    pairs = 10, 300  # bounds of their number with 16 bits

    def __init__(self, n_pairs, n_weights, is_rounded=False) -> None:
        self.n_pairs, self.n_weights = n_pairs, n_weights
        self.is_rounded = is_rounded
        self._blocks = [slice(i, min(i + lists.BLOCK, n_weights)) for i in range(0, n_weights, lists.BLOCK)]
        self._steps: dict[int, Any] = {}  # by row, for rows that have been used
        self._changes: dict[int, Any] = {}
        self._products = np.empty(n_pairs)
        self._tables = np.empty((2, n_pairs, n_pairs))  # products of steps with scaled steps, and with earlier changes
        self._scale = None  # (n_weights,) float32   diagonal of the inverse Hessian without steps, up to a factor
        self.clear()

    @classmethod
    def of_size(cls, n_weights: int) -> Self:
        """Return an empty memory of the curvature of functions of ``n_weights`` weights."""
        if 16 * n_weights * cls.enough_pairs <= cls.pair_bytes:
            return cls(cls.enough_pairs, n_weights)
        return cls(int(np.clip(cls.pair_bytes // (4 * n_weights), *cls.pairs)), n_weights, is_rounded=True)

    def __len__(self):
        return len(self._rows)

    def clear(self):
        self._rows, self._tabulated = [], set()  # rows of pairs, oldest first; those in the tables

    def expect_from(self, gradient):
        """Assume more curvature along weights with a large gradient, such as those of frequent features.

        The scale of a weight is ``(g + _FLOOR)**_POWER``, where g is the absolute value of its derivative, relative to
        the largest one.
        """
        self._tabulated = set()  # the tables depend on the scales
        sizes = np.abs(gradient)
        largest = sizes.max(initial=0.0)
        if largest > 0:
            self._scale = ((sizes / largest + _FLOOR) ** _POWER).astype(np.float32)

    def add(self, point, new) -> bool:
        """Add the step between two points if the function is convex along it; return whether it was added."""
        free = set(range(self.n_pairs)).difference(self._rows)
        row = min(free) if free else self._rows[0]
        self._tabulated.discard(row)
        kept = [r for r in self._rows if r != row]
        if row not in self._steps:
            kind: Any = _Rounded if self.is_rounded else _Doubles
            self._steps[row], self._changes[row] = (kind(self.n_weights, self._blocks) for _ in range(2))
        self._steps[row].store(lambda block: new.w[block] - point.w[block])
        self._changes[row].store(lambda block: new.gradient[block] - point.gradient[block])
        is_convex = self._compute_product(row)
        self._rows = [*kept, row] if is_convex else kept
        return is_convex

    def shift(self, diagonal):
        """Account for a diagonal matrix that is added to the Hessian; ``diagonal`` has shape (n_weights,)."""
        self._tabulated = set()
        for row in self._rows:
            step, change = self._steps[row], self._changes[row]
            change.store(lambda block, step=step, change=change: change[block] + diagonal[block] * step[block])
        self._rows = [row for row in self._rows if self._compute_product(row)]

    def solve(self, gradient):
        """Return the inverse Hessian times a vector, by the two-loop recursion; without steps, the scaled vector."""
        result, factors, rows = gradient.copy(), {}, self._rows
        for row in reversed(rows):
            factors[row] = self._steps[row].dot(result) / self._products[row]
            self._changes[row].add_to(result, -factors[row])
        if rows:
            result *= self._products[rows[-1]] / self._scaled_square(self._changes[rows[-1]])
        if self._scale is not None:
            result *= self._scale
        for row in rows:
            factor = factors[row] - self._changes[row].dot(result) / self._products[row]
            self._steps[row].add_to(result, factor)
        return result

    def restricted(self, chosen, most_pairs) -> RestrictedHessian:
        """Return the rows and columns of the Hessian for the chosen weights; the memory must contain steps.

        The result is in the compact form of Byrd, Nocedal and Schnabel (1994). The newest change of the gradient of the
        chosen weights determines the scale of the initial matrix. Other weights are ignored, because their gradient may
        change considerably although they do not move. If the gradient of the chosen weights does not change, all
        weights determine the scale.
        """
        rows, (steps, changes) = self._rows, self._tables
        for i, row in enumerate(rows):
            if row not in self._tabulated:
                step = np.zeros(self.n_weights)
                self._steps[row].add_to(step, 1.0)
                scaled = step if self._scale is None else step / self._scale
                for other in rows[: i + 1]:
                    steps[[row, other], [other, row]] = self._steps[other].dot(scaled)
                    changes[row, other] = self._changes[other].dot(step)
                self._tabulated.add(row)
        rows = rows[-most_pairs:]
        n_rows = len(rows)
        scale = np.ones(len(chosen)) if self._scale is None else self._scale[chosen].astype(np.float64)
        newest = self._changes[rows[-1]][chosen]
        square, of_all = float(newest @ (scale * newest)), self._scaled_square(self._changes[rows[-1]])
        bottom = (square if square > 1e-12 * of_all else of_all) / self._products[rows[-1]]
        root = np.sqrt(bottom / scale)
        factor = np.empty((2 * n_rows, len(chosen)))
        for i, row in enumerate(rows):
            np.multiply(self._steps[row][chosen], root, out=factor[i])
            np.divide(self._changes[row][chosen], root, out=factor[n_rows + i])
        low = np.tril(changes[np.ix_(rows, rows)], -1)
        middle = np.block([[bottom * steps[np.ix_(rows, rows)], low], [low.T, -np.diag(self._products[rows])]])
        return RestrictedHessian(root, factor, middle, middle - factor @ factor.T)

    def _scaled_square(self, change):
        """Return the sum of the squares of a change, each times the scale of its weight."""
        if self._scale is None:
            return change.times(change)
        total = 0.0
        for block in self._blocks:
            part = change[block]
            total += float(part @ (self._scale[block] * part))
        return total

    def _compute_product(self, row):
        """Compute the product of a step and a change, and return whether the function is convex along the step."""
        step, change = self._steps[row], self._changes[row]
        product = self._products[row] = step.times(change)
        scale = np.sqrt(step.times(step) * change.times(change))
        return bool(product > np.finfo(float).eps * scale)


MOST_STEPS = 40  # of a line search
_ERROR = 1e-12  # relative rounding error of values: a value may rise by this much if the gradient falls


def orthant_search(attempt, point, curvature, penalty):
    """Return a lower point of a function with absolute values, or None; the parameters are as for ``line_search``."""
    w, value, gradient, steepest = point
    strength = penalty.strengths(len(w))
    path = _path(point, curvature, strength)
    for halvings in range(MOST_STEPS):
        end = path(0.5**halvings)
        slope = float(gradient @ (end - w) + strength @ (np.abs(end) - np.abs(w)))
        if not slope < 0 or np.array_equal(end, w):
            break
        new = attempt(end)
        if new is None:
            continue
        is_lower = new.value <= value + ARMIJO * slope and new.value < value
        close = new.value <= value + _ERROR * abs(value)  # too close to compare values: compare gradients
        if is_lower or (close and np.linalg.norm(new.steepest) < 0.9 * np.linalg.norm(steepest)):
            curvature.add(point, new)
            return new
    return None


def _path(point, curvature, strength):
    """Return a function that maps the length of a step, at most 1, to the end of the step.

    The steps lead towards a lower point of the quadratic model. Without such a model, they follow the gradient within
    the orthant: weights whose sign would change become 0, whatever the length of the step.
    """
    w, _, gradient, steepest = point
    if not len(curvature):
        direction = -curvature.solve(steepest)
        direction /= max(np.linalg.norm(direction), np.finfo(float).tiny)
        return lambda step: _within_orthant(w, step * direction, steepest, strength)
    free = np.flatnonzero((w != 0) | (steepest != 0) | (strength == 0))
    n_pairs = max(curvature.pair_bytes // (32 * max(len(free), 1)), curvature.pairs[0])  # two copies of each
    end = w.copy()
    end[free] = _lower_on_model(curvature.restricted(free, n_pairs), w[free], gradient[free], strength[free])
    return lambda step: w + step * (end - w)


def _lower_on_model(hessian, w, gradient, strength):
    """Return a lower point of a quadratic function around w plus ``sum(strength * abs(w))``.

    A step of Newton's method within an orthant finds the point without a pass over the data.
    """
    steepest = shortest_subgradient(w, gradient, strength)
    direction = -hessian.solve(steepest, (w == 0) & (steepest == 0) & (strength > 0))
    for halvings in range(10):
        new = _within_orthant(w, 0.5**halvings * direction, steepest, strength)
        bent = hessian.times(new - w)
        if (gradient + 0.5 * bent) @ (new - w) + strength @ (np.abs(new) - np.abs(w)) < 0:
            return new
    return w


def _within_orthant(w, direction, steepest, strength):
    """Return the end of a step; weights whose sign would change become 0, and weights at 0 descend or stay."""
    end = w + direction
    orthant = np.where(w != 0, w, -steepest)
    end[(strength > 0) & (np.sign(end) != np.sign(orthant))] = 0.0
    return end

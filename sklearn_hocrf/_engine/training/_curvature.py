"""Memory of the curvature: the last steps of L-BFGS, and the changes of the gradient along them."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg.blas import daxpy

from ..kernels import rounded

_POWER, _FLOOR = -0.2, 1e-4  # of the first gradient, for the scales of weights: docs/develop/design.md


class RestrictedHessian(NamedTuple):
    """The matrix R (I - F' M^-1 F) R, of a diagonal matrix R.   K weights, P pairs."""

    root: np.ndarray  # (K,)   R
    factor: np.ndarray  # (2P, K)   F
    middle: np.ndarray  # (2P, 2P)   M
    inner: np.ndarray  # (2P, 2P)   M - F F'

    def times(self, v):
        """Return the product with a vector."""
        v = self.root * v
        return self.root * (v - np.linalg.solve(self.middle, self.factor @ v) @ self.factor)

    def solve(self, v, fixed):
        """Return the product of a vector and the inverse of the rows and columns that are not fixed; 0 at the fixed."""
        columns = self.factor[:, fixed]
        v = np.where(fixed, 0.0, v / self.root)
        v += np.linalg.solve(self.inner + columns @ columns.T, self.factor @ v) @ self.factor
        return np.where(fixed, 0.0, v / self.root)


class _Doubles:
    """A vector of a pair in double precision, given its number of weights and slices of them."""

    def __init__(self, n_weights, blocks):
        self.values, self._blocks = np.empty(n_weights), blocks

    def store(self, numbers_of):
        """Take the numbers of each block, which a function returns."""
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
        """Add a multiple to a vector, in place."""
        daxpy(self.values, vector, a=factor)


class _Rounded:
    """A vector of a pair in 16 bits a number: integers, in units of each block's largest number / 32767."""

    def __init__(self, n_weights, blocks):
        self._integers, self._blocks = np.empty(n_weights, np.int16), blocks
        self._units = np.empty(len(blocks))
        self._sums = np.empty(rounded.ABREAST)

    def store(self, numbers_of):
        """Take the numbers of each block, which a function returns."""
        for i, block in enumerate(self._blocks):
            numbers = numbers_of(block)
            unit = self._units[i] = np.abs(numbers).max() / rounded.LARGEST
            # a unit that is about 0, infinite or not a number makes products of zeros with it 0 or not a number
            self._integers[block] = np.rint(numbers / unit) if np.finfo(float).tiny < unit < np.inf else 0

    def __getitem__(self, chosen):
        """Return some numbers, or those of a block."""
        units = self._units[chosen.start // rounded.BLOCK if isinstance(chosen, slice) else chosen // rounded.BLOCK]
        return self._integers[chosen] * units

    def dot(self, vector):
        return rounded.dot(self._integers, self._units, vector, self._sums)

    def times(self, other):
        """Return the product with another vector of a pair."""
        return sum(float(self[block] @ other[block]) for block in self._blocks)

    def add_to(self, vector, factor):
        """Add a multiple to a vector, in place."""
        rounded.add(self._integers, self._units, factor, vector)


class LBFGSMemory:
    """Estimate of the Hessian: the last steps, and the changes of the gradient along them.

    Parameters
    ----------
    n_pairs : int
        Pairs of a step and a change that are kept.
    n_weights : int
    is_rounded : bool
        Whether their numbers have 16 bits; sums are in double precision.
    """

    pair_bytes = 1 << 27  # memory for correction pairs: more of them save iterations
    enough_pairs = 100  # kept in double precision if they fit; otherwise as many as fit with 16 bits per number
    pairs = 10, 300  # bounds of their number with 16 bits

    def __init__(self, n_pairs, n_weights, is_rounded=False) -> None:
        self.n_pairs, self.n_weights = n_pairs, n_weights
        self.is_rounded = is_rounded
        self._blocks = [slice(i, min(i + rounded.BLOCK, n_weights)) for i in range(0, n_weights, rounded.BLOCK)]
        self._steps: dict[int, Any] = {}  # by row, for rows that have been used
        self._changes: dict[int, Any] = {}
        self._products = np.empty(n_pairs)
        self._tables = np.empty((2, n_pairs, n_pairs))  # products of steps with steps over scales, and earlier changes
        self._scale = None  # (n_weights,) float32   of the inverse Hessian without steps, up to a factor; None: 1
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
        """Expect more curvature along weights with a large gradient, such as those of frequent features.

        The scale of a weight is the gradient's size to the power of ``_POWER``, at least ``_FLOOR`` of the largest one.
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
        """Account for a diagonal matrix, of shape (n_weights,), that is added to the Hessian."""
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

    def of(self, chosen, most_pairs) -> RestrictedHessian:
        """Return the Hessian's rows and columns of some weights, given by their positions; there must be steps.

        It is the compact form of Byrd, Nocedal and Schnabel, 1994. The matrix before any step is scaled by the newest
        change of the gradient of these weights alone, because that of others may be large although they do not move; by
        the change of all weights if it does not change for these.
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

"""Block-coordinate Frank-Wolfe, for sums of maxima of linear functions with a quadratic penalty."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._common import Progress, SolverReport, generator

__all__ = ["FrankWolfe"]


class FrankWolfe:
    """Block-coordinate Frank-Wolfe on the dual problem, for sums of maxima of linear functions with an L2 penalty.

    The objective is a sum of terms, max_y [ cost_n(y) - w . d_n(y) ] with one term a sequence, and the penalty sum
    precision w^2 / 2 with no precision 0. The dual problem is to choose, for each term, a convex combination of its y;
    then ``precision * w`` is the sum of the combinations of d_n. A step takes one term, asks the objective's oracle for
    the y of its maximum, and moves this term's combination towards it as far as is best, which has a closed form. A
    pass takes each term once, in random order.

    The w that is returned is a mean over all steps, weighted by their number, which is nearer the minimum than the
    last. Its objective less that of the dual problem is the duality gap, which bounds the distance from the minimum.

    The dual variables of other weights than 0 are not known, so it always starts from 0. A step takes time in
    proportion to the weights that the sequence has touched so far, and these are what is kept: up to 16 bytes for each
    of them and sequence, beside a few numbers a weight.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the duality gap is at most ``100 * tol`` times the minimised function: 1 % by default.
    max_iter : int, default=500
        Most iterations: passes, each with an evaluation of the function afterwards, which is another pass.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration; its ``gradient_norm`` is nan.
    random_state : int, RandomState instance or None, default=None
        For the order of the sequences.
    average : bool, default=True
        Whether to return the mean of w, or else the last one.

    References
    ----------
    .. [1] Lacoste-Julien, Jaggi, Schmidt and Pletscher, "Block-coordinate Frank-Wolfe optimization for structural
       SVMs", ICML 2013: algorithm 4 with line search and weighted averaging.
    """

    needs = {"objective": ("oracle", "value", "cost"), "penalty": ("value", "precisions")}
    instead = "l1_reg does not go with objective='hinge': use sigma_reg alone, or objective='likelihood'"

    def __init__(
        self,
        tol=1e-4,
        max_iter=500,
        callback: Callable[[Progress], None] | None = None,
        random_state=None,
        average=True,
    ):
        self.tol, self.max_iter, self.callback = tol, max_iter, callback
        self.random_state, self.average = random_state, average

    def solve(self, objective, penalty, w0) -> SolverReport:
        """Minimise ``objective + penalty``; of ``w0`` only the length counts.

        Raises
        ------
        ValueError
            If a weight has no penalty.
        """
        precision = penalty.precisions(len(w0))
        if not (precision > 0).all():
            raise ValueError(
                "FrankWolfe needs a penalty on every weight: use finite values of sigma_reg, or objective='likelihood'"
            )
        random, dual = generator(self.random_state), _Dual(objective, precision)
        history, gap = [], np.inf
        while True:
            w = dual.mean() if self.average else dual.w.copy()
            history.append(objective.value(w) + penalty.value(w))
            gap = max(history[-1] - dual.value(), 0.0)
            if len(history) > 1 and self.callback is not None:
                self.callback(Progress(len(history) - 1, history[-1], np.nan, gap))
            converged = gap <= 100 * self.tol * history[-1]
            if converged or len(history) > self.max_iter:
                break
            for sequence in random.permutation(objective.n_sequences).tolist():
                dual.step(sequence)
        n_iter, message = (
            len(history) - 1,
            "converged" if converged else "the number of iterations has reached its limit",
        )
        return SolverReport(w, n_iter, np.array(history), np.nan, gap, bool(converged), message, 2 * n_iter + 1)


class _Dual:
    """The dual problem: a convex combination for each term, and the weights they make.   K weights."""

    def __init__(self, objective, precision):
        n_weights = len(precision)
        self._oracle = objective.oracle(np.zeros(n_weights))
        self._precision = precision
        self._cost = 0.0
        # of each term: weights it has touched, its part of w there, and its part of the cost
        self._terms = {}
        self._position = np.full(n_weights, -1)
        # mean of w(1) .. w(k), weighted by 1 .. k: w - delayed / (1 + .. + k), where what is added in step i is there
        # (1 + .. + i - 1) times
        self._delayed, self._n_steps = np.zeros(n_weights), 0

    @property
    def w(self):
        return self._oracle.w

    def value(self):
        """Return the dual objective."""
        return self._cost - 0.5 * float(self._precision * self.w @ self.w)

    def mean(self):
        """Return the weighted mean of all w so far; shape (K,)."""
        k = self._n_steps
        return self.w - self._delayed / max(k * (k + 1) / 2, 1)

    def step(self, sequence):
        """Move the combination of one term."""
        before = self._n_steps * (self._n_steps + 1) / 2
        self._n_steps += 1
        found = self._oracle.violation(sequence)
        old, part, part_cost = self._terms.get(sequence, _NO_TERM)
        if not len(found.indices) and not len(old):
            return
        indices, direction = self._direction(old, part, found)
        precision = self._precision[indices]
        scaled = precision * direction
        slope = found.cost - part_cost - float(scaled @ self.w[indices])
        curvature = float(scaled @ direction)
        if slope <= 0 or curvature <= 0:
            return
        step = min(slope / curvature, 1.0)
        direction *= step
        new = np.zeros(len(indices))
        new[: len(old)] = part
        new += direction
        change = step * (found.cost - part_cost)
        self._terms[sequence] = indices, new, part_cost + change
        self._cost += change
        self._delayed[indices] += before * direction
        self._oracle.move(indices, direction)

    def _direction(self, old, part, found):
        """Return the weights of a term, those that it has touched before first, and the way from its part to a corner.

        The corner is the part of w that the term would have if the found y were all its combination.
        """
        position = self._position
        position[old] = np.arange(len(old))
        places = position[found.indices]
        is_new = places < 0
        position[old] = -1
        added = found.indices[is_new]
        places[is_new] = len(old) + np.arange(len(added))
        indices = np.concatenate([old, added])
        direction = np.zeros(len(indices))
        direction[: len(old)] = -part
        direction[places] += found.difference / self._precision[found.indices]
        return indices, direction


_NO_TERM = np.empty(0, np.int64), np.empty(0), 0.0

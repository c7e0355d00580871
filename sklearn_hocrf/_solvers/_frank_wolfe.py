"""Block-coordinate Frank-Wolfe, for sums of maxima of linear functions with a quadratic penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._kernels import frank_wolfe
from ._common import STOPPED, Progress, RandomSolver, SolverReport, check_finite

__all__ = ["FrankWolfe"]


class FrankWolfe(RandomSolver):
    """Block-coordinate Frank-Wolfe on the dual problem, for sums of maxima of linear functions with an L2 penalty.

    The objective is a sum of terms max_y [ cost_n(y) - w . d_n(y) ], one per sequence, and the penalty is the sum of
    precision w^2 / 2. The dual problem chooses a convex combination of the y for each term; ``precision * w`` is then
    the sum of the combinations of d_n(y). Each pass visits all terms in random order, a group at a time, and computes
    the y of their maxima. Each such y becomes an *atom* of its term. Pairwise steps of optimal length then move convex
    weight from the atom of lowest slope to the atom of highest slope. Further passes over the terms move weight between
    existing atoms only, which reads no data. Atoms of weight 0 are pruned.

    The minimised function minus the dual one is the duality gap, which bounds the distance from the minimum. It is
    computed after each pass. A pass increases the dual function, and may increase the minimised function, too;
    therefore the solver returns the weights of the pass after which the minimised function was lowest.

    Training always starts from 0, because the dual variables of given weights are unknown. The time of a step is
    proportional to the number of weights in which the atoms of its term differ from the truth, not to the number of
    all weights. Memory is 12 bytes for each such weight and atom, with typically 5 to 10 atoms per term, and a few
    numbers per weight.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when the duality gap is at most ``100 * tol`` times the minimised function, 1 % by default.
    max_iter : int, default=500
        Maximum number of iterations. Each iteration is one pass over the data with steps, and another one that
        evaluates the function.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration; its ``gradient_norm`` is nan. If it returns True, training
        stops.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the terms.

    References
    ----------
    .. [1] Lacoste-Julien, Jaggi, Schmidt and Pletscher, "Block-coordinate Frank-Wolfe optimization for structural
       SVMs", ICML 2013.
    .. [2] Osokin, Alayrac, Lukasewitz, Dokania and Lacoste-Julien, "Minding the gaps for block Frank-Wolfe optimization
       of structured SVMs", ICML 2016: pairwise steps, and caching.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import FrankWolfe
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(objective="hinge", solver=FrankWolfe(tol=1e-6, random_state=0)).fit(X, y)
    >>> bool(crf.optimality_gap_ <= 1e-4 * crf.objective_history_[-1])
    True
    """

    needs = {"objective": ("oracle", "value", "cost"), "penalty": ("value_gradient", "precisions")}
    instead = "l1_reg does not go with objective='hinge': use sigma_reg alone, or objective='likelihood'"
    group = 64  # number of terms whose maxima are computed at a time, but at most a tenth of all terms
    n_steps = 10  # pairwise steps of a term in a row
    n_rounds = 50  # most passes over the atoms after each pass over the data
    worth = 0.5  # these end when one gains at most this fraction of the gain of the pass over the data

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray) -> SolverReport:
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
        random, dual, message = check_random_state(self.random_state), _Dual(objective, precision, self.n_steps), ""
        best, history, stopped = dual.w.copy(), list[float](), False

        def report(converged=False, message=STOPPED):
            n_iter = len(history) - 1
            n_passes = 2 * n_iter + 1
            return SolverReport(best, n_iter, np.array(history), np.nan, gap, converged, message, n_passes)

        while not message:
            value = objective.value(dual.w) + penalty.value(dual.w)
            check_finite(value)
            if not history or value < history[-1]:
                best = dual.w.copy()
            history.append(min(value, history[-1]) if history else value)
            gap = max(history[-1] - dual.value(), 0.0)
            if len(history) > 1:
                stopped = self._is_stopped(Progress(len(history) - 1, history[-1], np.nan, gap, report))
            converged = bool(gap <= 100 * self.tol * history[-1])
            if converged or stopped:
                message = "converged" if converged else STOPPED
            elif len(history) > self.max_iter:
                message = "the number of iterations has reached its limit"
            elif not self._pass(dual, random):
                message = "no step makes the dual function larger"
        return report(converged, message)._replace(stopped=stopped and not converged)

    def _pass(self, dual, random):
        """Go through all terms once with data, and then without; return whether any weight moved."""
        group = max(min(self.group, dual.n_terms // 10), 1)
        order = random.permutation(dual.n_terms)
        before, n_moves = dual.value(), dual.n_moves
        for first in range(0, dual.n_terms, group):
            dual.ask(order[first : first + group])
        value = dual.value()
        least = self.worth * (value - before)
        for _ in range(self.n_rounds):
            before = value
            for term in random.permutation(dual.n_terms).tolist():
                dual.exchange(term)
            value = dual.value()
            if value - before <= least:
                break
        dual.prune()
        return dual.n_moves > n_moves


class _Dual:
    """The dual problem: a convex combination of atoms for each term, and the weights that all of them make."""

    def __init__(self, objective, precision, n_steps):
        n_weights = len(precision)
        self.n_terms = objective.n_sequences
        self._oracle = objective.oracle(np.zeros(n_weights))
        self._precision, self._variance, self._n_steps = precision, 1.0 / precision, n_steps
        self._terms = [_Term() for _ in range(self.n_terms)]
        self._cost, self._scaled, self.n_moves = 0.0, np.zeros(n_weights), 0

    @property
    def w(self):
        return self._oracle.w

    def value(self):
        """Return the dual objective."""
        return self._cost - 0.5 * float(self._precision * self.w @ self.w)

    def ask(self, terms):
        """Find the maxima of some terms, and move convex weight to them."""
        for term, maximum in zip(terms.tolist(), self._oracle.argmax(terms), strict=True):
            if maximum.cost > 0 or len(maximum.indices):
                self._terms[term].add(maximum, self._variance, self._scaled)
            self.exchange(term)

    def exchange(self, term):
        """Move convex weight between the atoms of a term."""
        term = self._terms[term]
        if len(term.costs) > 1:
            steps = np.empty(len(term.indices))
            atoms = term.indices, term.values, term.starts, term.costs, term.products, term.convex_weights
            moved, cost = frank_wolfe.exchange_weights(*atoms, self.w, self._variance, self._n_steps, steps)
            if moved:
                self.n_moves += 1
                self._cost += cost
                self._oracle.move(term.indices, steps)

    def prune(self):
        """Remove the atoms of weight 0."""
        for term in self._terms:
            term.prune()


class _Term:
    """The atoms of a term; the first is the truth, without entries and of cost 0.   M atoms, E entries."""

    __slots__ = ("convex_weights", "costs", "indices", "products", "starts", "values")

    def __init__(self):
        self.indices, self.values = np.empty(0, np.int32), np.empty(0)  # (E,)
        self.starts = np.zeros(2, np.int64)  # (M + 1,)   range of each atom's entries
        self.costs, self.convex_weights = np.zeros(1), np.ones(1)  # (M,)
        self.products = np.zeros((1, 1))  # (M, M)   of atoms, weighted by the variance

    def add(self, maximum, variance, scaled):
        """Add an atom of weight 0, unless the term has it already."""
        count, products = len(self.costs), np.empty(len(self.costs) + 1)
        new = maximum.indices, maximum.difference
        frank_wolfe.multiply_atoms(self.indices, self.values, self.starts, *new, variance, scaled, products)
        distances = self.products.diagonal() + products[-1] - 2 * products[:-1]
        same = (distances <= 1e-9 * products[-1]) & (np.abs(self.costs - maximum.cost) <= 1e-9 * maximum.cost)
        if same.any():
            return
        table = np.empty((count + 1, count + 1))
        table[:-1, :-1] = self.products
        table[-1], table[:, -1] = products, products
        self.products = table
        self.indices = np.concatenate([self.indices, maximum.indices])
        self.values = np.concatenate([self.values, maximum.difference])
        self.starts = np.append(self.starts, len(self.indices))
        self.costs, self.convex_weights = np.append(self.costs, maximum.cost), np.append(self.convex_weights, 0.0)

    def prune(self):
        """Remove the atoms of weight 0, except for the truth."""
        kept = self.convex_weights > 0
        kept[0] = True
        if kept.all():
            return
        lengths = np.diff(self.starts)
        entries = np.repeat(kept, lengths)
        self.indices, self.values = self.indices[entries], self.values[entries]
        self.starts = np.concatenate([[0], np.cumsum(lengths[kept])])
        self.costs, self.convex_weights = self.costs[kept], self.convex_weights[kept]
        self.products = np.ascontiguousarray(self.products[np.ix_(kept, kept)])

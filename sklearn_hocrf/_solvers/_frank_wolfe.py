"""Block-coordinate Frank-Wolfe, for sums of maxima of linear functions with a quadratic penalty."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._kernels import frank_wolfe
from ._common import STOPPED, Progress, RandomSolver, SolverReport, check_finite

__all__ = ["FrankWolfe"]

_TERMS_PER_CALL = 4096  # of a kernel: Python handles an interrupt (Ctrl-C) between calls
_GROWTH = 1.5  # of arrays that become too small
_NOTHING = frank_wolfe.Found(np.empty(0), np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))


class FrankWolfe(RandomSolver):
    """Block-coordinate Frank-Wolfe on the dual problem, for sums of maxima of linear functions with an L2 penalty.

    The objective is a sum of terms max_y [ cost_n(y) - w . d_n(y) ], one per sequence, and the penalty is the sum of
    precision w^2 / 2. The dual problem chooses a convex combination of the y for each term; ``precision * w`` is then
    the sum of the combinations of d_n(y). Each pass visits all terms in random order, a group at a time, and computes
    the y of their maxima. Each such y becomes an *atom* of its term. Pairwise steps of optimal length then move convex
    weight from the atom of lowest slope to the atom of highest slope. Further passes over the terms move weight between
    existing atoms only, which reads no data. Atoms of weight 0 are pruned.

    The minimised function minus the dual one is the duality gap, which bounds the distance from the minimum. It is
    computed after each pass. A pass increases the dual function, and may also increase the minimised function;
    therefore the solver returns the weights after the pass with the lowest value of the minimised function.

    Training always starts from 0, because the dual variables of given weights are unknown. The time of a step is
    proportional to the number of weights in which the atoms of its term differ from the truth, not to the number of
    all weights. Memory is 12 bytes for each such weight and atom, with typically 5 to 10 atoms per term, and a few
    numbers per weight.

    Parameters
    ----------
    tol : float, default=3e-3
        Stop when the duality gap is at most ``3 * tol`` times the minimised function, about 1 % by default.
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
    >>> crf = HighOrderCRF(
    ...     objective="hinge", solver=FrankWolfe(tol=1e-5, random_state=0)
    ... ).fit(X, y)
    >>> bool(crf.optimality_gap_ <= 1e-4 * crf.objective_history_[-1])
    True
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    needs = {"objective": ("oracle", "value", "cost"), "penalty": ("value_gradient", "precisions")}
    instead = "l1_reg cannot be combined with objective='hinge': use only sigma_reg, or objective='likelihood'"
    group = 64  # number of terms whose maxima are computed at a time, but at most a tenth of all terms
    n_steps = 10  # pairwise steps of a term in a row
    n_rounds = 50  # most passes over the atoms after each pass over the data
    worth = 0.5  # they end when one gains at most this fraction of the gain of the pass over the data

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray) -> SolverReport:
        """Minimise ``objective + penalty``; only the length of ``w0`` is used.

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
            gap, goal = max(history[-1] - dual.value(), 0.0), 3 * self.tol * history[-1]
            if len(history) > 1:
                stopped = self._is_stopped(Progress(len(history) - 1, history[-1], np.nan, gap, report, goal))
            converged = bool(gap <= goal)
            if converged or stopped:
                message = "converged" if converged else STOPPED
            elif len(history) > self.max_iter:
                message = "the maximum number of iterations was reached"
            elif not self._pass(dual, random):
                message = "no step increases the dual function"
        return report(converged, message)._replace(stopped=stopped and not converged)

    def _pass(self, dual, random):
        """Visit all terms once with data, and then without; return whether any weight moved."""
        group = max(min(self.group, dual.n_terms // 10), 1)
        order = random.permutation(dual.n_terms)
        before, n_moves = dual.value(), dual.n_moves
        for first in range(0, dual.n_terms, group):
            dual.ask(order[first : first + group])
        value = dual.value()
        least = self.worth * (value - before)
        for _ in range(self.n_rounds):
            before = value
            dual.exchange(random.permutation(dual.n_terms))
            value = dual.value()
            if value - before <= least:
                break
        dual.prune()
        return dual.n_moves > n_moves


class _Dual:
    """The dual problem: a convex combination of atoms for each term, and the resulting weights.

    The first atom of a term is the truth, without entries and of cost 0.   n terms, K weights.
    """

    def __init__(self, objective, precision, n_steps):
        n_weights = len(precision)
        n = self.n_terms = objective.n_sequences
        self._oracle, self.w = objective.oracle(np.zeros(n_weights)), np.zeros(n_weights)
        self._precision, self._variance, self._n_steps = precision, 1.0 / precision, n_steps
        self._cost, self.n_moves = 0.0, 0
        self._memory = frank_wolfe.Memory(np.zeros(n_weights), np.zeros(n_weights, bool), np.empty(n_weights, np.int32))
        entries = np.empty(0, np.int32), np.empty(0), np.zeros(n + 1, np.int64)
        truths = np.zeros(n), np.ones(n), np.arange(n), np.array([n])
        self._atoms = _listed(*entries, *truths, np.zeros(n), np.arange(n + 1))

    def value(self):
        """Return the dual objective."""
        return self._cost - 0.5 * float(self._precision * self.w @ self.w)

    def ask(self, terms):
        """Find the maxima of some terms, and move convex weight to them."""
        found = _found(self._oracle, terms)
        self._reserve(len(terms), len(found.indices))
        touched = self._visit(terms, found)
        self._oracle.move(touched, self.w[touched] - self._oracle.w[touched])

    def exchange(self, terms):
        """Move convex weight between the atoms of each of some terms."""
        for first in range(0, len(terms), _TERMS_PER_CALL):
            self._visit(terms[first : first + _TERMS_PER_CALL], _NOTHING)

    def prune(self):
        """Remove the atoms of weight 0, except for the truths, and pass the weights to the oracle."""
        atoms, n_atoms = self._atoms, int(self._atoms.size[0])
        kept = atoms.convex[:n_atoms] > 0
        kept[: self.n_terms] = True
        lengths = np.bincount(atoms.terms[:n_atoms][kept], minlength=self.n_terms)
        starts = np.concatenate([[0], np.cumsum(lengths**2)])
        products = np.empty(starts[-1])
        frank_wolfe.prune(atoms, np.where(kept, np.cumsum(kept) - 1, -1), products, starts)
        atoms.size[0] = np.count_nonzero(kept)
        self._atoms = _listed(*atoms[:7], products, starts)
        moved = np.flatnonzero(self.w != self._oracle.w).astype(np.int32)
        self._oracle.move(moved, self.w[moved] - self._oracle.w[moved])

    def _visit(self, terms, found):
        """Return the weights that have moved; int32."""
        memory = self._memory
        n_moves, gain, n_touched = frank_wolfe.visit(
            terms, found, self._atoms, self.w, self._variance, self._n_steps, memory
        )
        self.n_moves, self._cost = self.n_moves + n_moves, self._cost + gain
        touched = memory.touched[:n_touched].copy()
        memory.is_touched[touched] = False
        return touched

    def _reserve(self, n_atoms, n_entries):
        """Make room for ``n_atoms`` more atoms and ``n_entries`` more entries."""
        atoms, size = self._atoms, int(self._atoms.size[0])
        grown = {}
        for names, needed in (
            (("indices", "values"), atoms.starts[size] + n_entries),
            (("starts", "costs", "convex", "terms"), size + n_atoms + 1),
        ):
            for name in names:
                array = getattr(atoms, name)
                if len(array) < needed:
                    grown[name] = np.empty(int(_GROWTH * needed), array.dtype)
                    grown[name][: len(array)] = array
        self._atoms = atoms._replace(**grown)


def _listed(indices, values, starts, costs, convex, terms, size, products, product_starts):
    """Return the atoms, listed by term, none of them new."""
    listed, n_terms = np.argsort(terms[: size[0]], kind="stable"), len(product_starts) - 1
    counts = np.bincount(terms[: size[0]], minlength=n_terms)
    term_starts, new_starts = (np.concatenate([[0], np.cumsum(number)]) for number in (counts, counts + 1))
    of_new = np.full(n_terms, -1), np.empty(new_starts[-1]), new_starts
    tables = listed, term_starts, products, product_starts, *of_new
    return frank_wolfe.Atoms(indices, values, starts, costs, convex, terms, size, *tables)


def _found(oracle, terms):
    """Return the argmaxes of some terms in flat arrays."""
    if hasattr(oracle, "argmaxes"):
        return frank_wolfe.Found(*oracle.argmaxes(terms))
    maxima = oracle.argmax(terms)
    starts = np.concatenate([[0], np.cumsum([len(maximum.indices) for maximum in maxima])])
    costs = np.array([maximum.cost for maximum in maxima], np.float64)
    indices = np.concatenate([maximum.indices for maximum in maxima]).astype(np.int32)
    return frank_wolfe.Found(costs, starts, indices, np.concatenate([maximum.difference for maximum in maxima]))

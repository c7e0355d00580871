"""Minimisation of an objective plus a penalty, with fewer variables if some weights must be equal.

For attributes that always occur together, the weights in the same column share one variable.

Rare attributes often occur together, for example attributes that occur only once, at the same token. If attributes have
the same values at the same tokens, and have pairs with the same score columns, scores depend only on the sum of their
weights. Under a convex penalty that treats these weights equally, they are therefore equal at the optimum, and at every
step of a solver that starts from equal weights and uses only values and gradients. A group of g such weights w becomes
one variable u = sqrt(g) w. This map preserves inner products, and hence norms, the Gaussian penalty and every step of a
quasi-Newton method: the result of training is the same, with fewer weights to store and fewer entries of sparse rows to
read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..._data.arrays import cached_property
from ..._data.batch import SequenceBatch, ranges_of_tokens, token_entries
from ..structure.layout import WeightLayout
from .objectives import Objective
from .penalties import Penalty
from .problem import Problem
from .solvers import Minimizer, SolverReport

_WORTH_TYING = 0.9  # largest ratio of variables to weights for which tying saves time


def minimise(
    objective: Objective, penalty: Penalty, problem: Problem, start: np.ndarray, solver: Minimizer
) -> SolverReport:
    """Minimise an objective of labelled data plus a penalty, and check whether there is a minimum."""
    report = _minimise_tied(solver, objective, penalty, problem, start)
    if report is None:
        # a copy without other references, so that solvers can free it
        report = solver.solve(objective.bind(problem), penalty, np.array(start))
    if not report.stopped and _lacks_optimum(objective, penalty, problem, report.w):
        remedy = (
            "There is no optimum: the model separates the training data, so larger weights are always better. Use a "
            "penalty on all weights, such as finite values of sigma_reg"
        )
        return report._replace(converged=False, remedy=remedy)
    return report


def _minimise_tied(
    solver: Minimizer, objective: Objective, penalty: Penalty, problem: Problem, start: np.ndarray
) -> SolverReport | None:
    """Minimise over fewer variables if enough weights must be equal; otherwise, return None.

    Attributes that always occur together get equal weights if the criterion and the solver treat equal weights alike.
    """
    if not (objective.depends_on_scores_only and solver.keeps_equal_weights_equal):
        return None
    ties = tie_weights(problem.layout, problem.batch, penalty.groups(len(start)))
    tied = penalty.tied(ties.variable, ties.root)
    if tied is None or len(ties.root) > _WORTH_TYING * len(start):
        return None
    # without a penalty, weights that start unequal stay unequal
    if not tied.precisions(len(ties.root)).all() and not np.allclose(ties.widen(ties.narrow(start)), start):
        return None

    def widened(report: SolverReport) -> SolverReport:
        return report._replace(w=ties.widen(report.w))

    if (callback := solver.callback) is not None:
        solver = replace(solver, callback=lambda progress: callback(progress.inside(widened)))
    narrow = Tied(objective.bind(replace(problem, layout=ties.layout)), ties)
    return widened(solver.solve(narrow, tied, ties.narrow(start)))


def _lacks_optimum(objective: Objective, penalty: Penalty, problem: Problem, w: np.ndarray) -> bool:
    """Return whether the objective is known to decrease without end as the unpenalised weights grow."""
    is_free = penalty.free(len(w))
    return bool(is_free.any()) and objective.bind(problem).separates(np.where(is_free, w, 0.0))


class Tied:
    """A criterion that depends only on scores, as a function of variables that represent equal weights.   M variables.

    Parameters
    ----------
    objective : Objective
        The criterion, bound to a problem under ``ties.layout``, whose weights are sums of equal weights.
    ties : Ties
    """

    def __init__(self, objective: Any, ties: Ties) -> None:
        self._objective, self._root = objective, ties.root
        self.n_weights, self.is_convex = len(ties.root), objective.is_convex

    def value_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at ``u``, of shape (M,)."""
        value, gradient = self._objective.value_gradient(self._root * u)
        gradient *= self._root
        return value, gradient

    def hessp(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian at ``u`` and a vector."""
        return self._root * self._objective.hessp(self._root * u, self._root * v)


@dataclass(frozen=True)
class Ties:
    """Groups of equal weights.   K weights, M variables."""

    untied: WeightLayout
    pairs: np.ndarray  # pairs of the first attribute of each kind
    variable: np.ndarray  # (K,) uint32   variable of each weight
    root: np.ndarray  # (M,) float64   square root of the number of weights of each variable

    @cached_property
    def layout(self) -> WeightLayout:
        """The layout with one attribute of each kind, whose weights are the sums of the equal weights."""
        return self.untied.with_pairs(self.untied.pair_feature[self.pairs], self.untied.pair_pattern[self.pairs])

    def narrow(self, w: np.ndarray) -> np.ndarray:
        """Return the variables for weights; tied weights that differ are replaced by their mean; shape (M,)."""
        return np.bincount(self.variable, weights=w, minlength=len(self.root)) / self.root

    def widen(self, u: np.ndarray) -> np.ndarray:
        """Return the weights for variables; shape (K,)."""
        return (u / self.root)[self.variable]


def tie_weights(layout: WeightLayout, batch: SequenceBatch, groups: np.ndarray | None = None) -> Ties:
    """Find the weights that training on a batch cannot distinguish.

    Parameters
    ----------
    layout : WeightLayout
    batch : SequenceBatch
    groups : ndarray of shape (n_weights,), int, or None
        Group of each weight; weights of different groups, for example those with different penalties, are not tied.
        None means one group.

    Returns
    -------
    Ties

    Examples
    --------
    >>> from sklearn_hocrf._engine.structure.layout import LayoutBuilder, LayoutFrame
    >>> from sklearn_hocrf._engine.structure.pairs import PairRule
    >>> from sklearn_hocrf._engine.structure.patterns import count_patterns
    >>> codes = np.array([0, 1, 1], dtype=np.int32)
    >>> # attributes 0 and 1 at the first token
    >>> batch = SequenceBatch([0, 3], [0, 3, 4, 5], [0, 1, 2, 3, 2], None, 4)
    >>> frame = LayoutFrame(count_patterns(codes, batch.offsets, 2, 0).frequent(2))
    >>> builder = LayoutBuilder(frame, PairRule(), fit_intercept=False)
    >>> layout = builder.build(builder.count(batch, codes))
    >>> ties = tie_weights(layout, batch)
    >>> layout.n_weights, ties.layout.n_weights
    (5, 4)
    >>> ties.widen(ties.narrow([1.0, 3.0, 5.0, 5.0, 7.0])).round(9).tolist()
    [2.0, 2.0, 5.0, 5.0, 7.0]
    >>> tie_weights(layout, batch, np.array([0, 1, 0, 0, 0])).layout.n_weights
    5
    """
    first = _representatives(layout, batch, groups)  # by rank
    starts, n_pairs, n_weights = layout.pairs.starts, layout.n_pairs, layout.n_weights
    rank = np.repeat(np.arange(len(first)), np.diff(starts))
    kept = np.ones(n_weights, dtype=bool)
    kept[:n_pairs] = (first == np.arange(len(first)))[rank]
    same = np.arange(n_weights)  # the kept weight that each weight equals
    same[:n_pairs] += (starts[first] - starts[:-1])[rank]
    variable = (np.cumsum(kept) - 1)[same].astype(np.uint32)
    return Ties(layout, np.flatnonzero(kept[:n_pairs]), variable, np.sqrt(np.bincount(variable)))


def _representatives(layout: WeightLayout, batch: SequenceBatch, groups: np.ndarray | None) -> np.ndarray:
    """Return, for each attribute by rank, the rank of the first attribute that training cannot distinguish from it.

    Sums of random numbers modulo 2**64 distinguish attributes. Each entry of an attribute adds a number for its token
    times a number for its value. Each pair adds a number for its score column, times a number for its group if there
    are several groups. The sums of two different attributes are equal with a probability of about 1e-38.
    """
    rng = np.random.default_rng(0)
    n_attributes, n_columns = len(layout.features.sort_key), layout.pairs.n_columns
    sums = _random(rng, n_attributes)  # all attributes other than token attributes differ in kind
    sums[: batch.n_attributes] = 0
    for first, last in ranges_of_tokens(batch):
        low, high = batch.indptr[first], batch.indptr[last]
        values = np.ones(high - low, np.uint64) if batch.values is None else _mixed(batch.values[low:high])
        sums[: batch.n_attributes] += token_entries(batch, first, last, values).T @ _random(rng, last - first)
    if batch.dense is not None:  # measurements are hardly ever equal, so a check would not save time
        sums[batch.dense.attributes] = _random(rng, len(batch.dense.attributes))
    starts = layout.pairs.starts
    of_columns = _random(rng, n_columns)
    n_pairs = int(starts[-1])
    marks = np.ones(n_pairs, np.uint64) if groups is None else _marks(rng, groups[:n_pairs], starts)
    columns = sparse.csr_array((marks, layout.pairs.columns, starts), shape=(len(starts) - 1, n_columns))
    sums = sums[layout.attribute_of_rank] + columns @ of_columns
    order = np.lexsort(sums.T)
    differs = np.append(True, (np.diff(sums[order], axis=0) != 0).any(axis=1)) if len(order) else order
    representative = np.empty(len(order), dtype=np.int64)
    representative[order] = order[np.maximum.accumulate(np.where(differs, np.arange(len(order)), 0))]
    return representative


def _marks(rng: np.random.Generator, groups: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return an odd random number of 64 bits for each pair, by its group and its position among its attribute's pairs.

    The position distinguishes two attributes that have the same column twice (because two features count each of them
    in the same way), with the same groups in reverse order.
    """
    position = np.arange(len(groups)) - np.repeat(starts[:-1], np.diff(starts))
    of_groups, of_positions = (_random(rng, n.max(initial=0) + 1)[:, 0] | np.uint64(1) for n in (groups, position))
    return of_groups[groups] * of_positions[position]


def _mixed(values: np.ndarray) -> np.ndarray:
    """Map numbers to odd numbers of 64 bits, with the finaliser of splitmix64.

    Without mixing, round numbers, whose bits end in zeros, would make the bits of all products modulo 2**64 end in
    zeros, too.
    """
    bits = values.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31)) | np.uint64(1)


def _random(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 2**64, size=(n, 2), dtype=np.uint64)

"""Label patterns chosen by training: an active set of patterns under an L1 penalty, with a certificate.

If the weight of a pattern is 0, the optimality condition is that its expected and its observed count differ by at most
its L1 strength. One gradient under a layout with more patterns, at weight 0, gives these differences for all of them.
Patterns that violate the condition are added, patterns whose weight becomes 0 are dropped, until none violates it.

Most patterns need not be checked: the expected and the observed count of a pattern that contains z are at most those of
z, so they differ by at most the greater count of z. Strengths do not decrease with the order, so if that count is not
above the strength, no pattern that contains z violates the condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._data.checks import short
from .._objectives import Problem
from .._penalties import L2, ElasticNet
from .._settings import check, is_integer
from .._solvers import OWLQN, SolverReport, reached_tolerance
from .._structure.extensions import Extensions, LabelledSequences, left_extensions
from .._structure.layout import WeightLayout
from .._structure.patterns import PatternTable, given_patterns, is_frequent
from .._structure.weighted_arcs import CompiledPatterns
from .patterns import warn_of_size
from .progress import lines_of

__all__ = [
    "HISTORY",
    "FoundPatterns",
    "PatternPrior",
    "PatternSearch",
    "SearchTask",
    "has_l1",
    "pattern_search",
    "search_patterns",
]

# record of each round of a search
HISTORY = np.dtype(
    [
        ("n_in", np.int64),
        ("n_out", np.int64),
        ("n_patterns", np.int64),
        ("objective", np.float64),
        ("largest_violation", np.float64),
        ("certificate", np.bool_),
        ("n_passes", np.float64),
    ]
)
_LOOSE = 1e-1, 1e-2, 1e-3  # tolerances of training in the first rounds
_SHORT = 40  # most iterations to a tolerance above these: patterns still to be added would change the weights anyway
_PART = 0.1  # of the added violations, in units of the tolerance: the next training stops there if that is looser
_SHARE = 0.5**0.5  # of the tolerance for active, and for inactive patterns: squares add up
_SOLVER_SETTINGS = {"max_iter": 500, "callback": None}  # settings that the search shares, and their defaults
_GROWTH, _ALWAYS = 1.0, 100  # most patterns added at a time: a multiple of the active ones, or this number


class PatternSearch(BaseEstimator):
    """Settings of ``patterns="auto"``: label patterns chosen by training.

    The estimator is trained with an L1 penalty on the weights of the patterns of two or more labels themselves, in
    addition to its ``sigma_reg``. The model consists of the patterns whose weights are not 0. They are found without
    training on all patterns at once. The search starts with the single labels. Each round trains with the active
    patterns; patterns whose weights have become 0 are dropped, and patterns whose expected and observed counts differ
    by more than their L1 strength are added. The search first looks for them among the patterns that extend an active
    one by one label to the left. Then a *certificate sweep* checks all patterns that occur in training
    (``min_count`` times, up to ``max_order``), except those whose counts bound the difference by the strength.
    The search ends when the sweep finds none. The result is then, to the tolerance of the solver, the optimum of the
    same penalty over all these patterns at once.

    Parameters
    ----------
    l1_reg : float or sequence of float, default=1.0
        Strength of the L1 penalty, in units of counts. In a sequence, value k applies to patterns of order k, the last
        value repeats, and the first one, for single labels, is ignored. Strengths must not decrease with the order.
    relax : bool, default=True
        Whether to train the patterns found again without the L1 penalty, which shrinks weights towards 0. If False, the
        model is the optimum with the L1 penalty.
    max_rounds : int, default=100
        Maximum number of rounds.

    See Also
    --------
    sklearn_hocrf.HighOrderCRF : Its attribute ``pattern_search_history_`` records the rounds.

    Notes
    -----
    A search needs ``objective="likelihood"``, a solver that uses gradients of all data ("lbfgs", "newton-cg" or
    "owlqn", by name or as an object), and a Gaussian prior: ``l1_reg`` of the estimator must be 0, and ``penalty``
    None. The search itself uses OWL-QN, with ``tol`` and ``max_iter`` of the solver.

    During the search, features have pairs with single labels only. Pairs with longer patterns (``feature_order``) are
    added when the patterns are trained again, so they cannot be combined with ``relax=False``.

    References
    ----------
    .. [1] Vieira, Cotterell and Eisner, "Speed-accuracy tradeoffs in tagging with variable-order CRFs and structured
       sparsity", EMNLP 2016.
    .. [2] Lavergne and Yvon, "Learning the structure of variable-order CRFs: a finite-state perspective", EMNLP 2017.
    .. [3] Perkins, Lacker and Theiler, "Grafting: fast, incremental feature selection by gradient descent in function
       space", JMLR 3, 2003.

    Examples
    --------
    Each letter equals the one two places before, so pairs of letters carry no information, and triples determine
    everything:

    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.settings import PatternSearch
    >>> y = [list(letters) for letters in ["aaaaaaaa", "abababab", "babababa", "bbbbbbbb"]]
    >>> X = [[[]] * len(letters) for letters in y]
    >>> crf = HighOrderCRF(max_order=2, patterns=PatternSearch(l1_reg=0.5)).fit(X, y)
    >>> len(HighOrderCRF(max_order=2).fit(X, y).patterns_), len(crf.patterns_)
    (10, 6)
    >>> ["".join(pattern) for pattern in crf.patterns_]
    ['a', 'b', 'aaa', 'aba', 'bab', 'bbb']
    >>> crf.pattern_search_history_[["n_in", "n_out", "n_patterns"]].tolist()
    [(0, 0, 0), (4, 0, 4), (0, 0, 4), (0, 0, 4), (0, 0, 4)]
    """

    __module__ = "sklearn_hocrf.settings"  # where users import it from: files of models name this place

    def __init__(self, l1_reg: float | Sequence[float] = 1.0, *, relax: bool = True, max_rounds: int = 100) -> None:
        self.l1_reg = l1_reg
        self.relax = relax
        self.max_rounds = max_rounds

    def check(self) -> None:
        """Raise a ValueError for the first invalid setting."""
        strengths = np.asarray(self.l1_reg)
        has_form = strengths.ndim <= 1 and strengths.size > 0 and strengths.dtype.kind in "iuf"
        if not has_form or not ((strengths >= 0) & np.isfinite(strengths)).all():
            raise ValueError(
                "l1_reg of PatternSearch must be a number >= 0, or a sequence of numbers >= 0, one per order; all of "
                f"them finite. Got {short(self.l1_reg)}"
            )
        if (np.diff(np.atleast_1d(strengths)[1:]) < 0).any():
            raise ValueError(
                f"l1_reg={short(self.l1_reg)} of PatternSearch decreases with the order: extensions of inactive "
                "patterns could be missed"
            )
        check(isinstance(self.relax, (bool, np.bool_)), "relax of PatternSearch", "True or False", self.relax)
        valid = is_integer(self.max_rounds) and self.max_rounds >= 1
        check(valid, "max_rounds of PatternSearch", "an integer >= 1", self.max_rounds)

    def strengths(self, order: np.ndarray | int) -> np.ndarray:
        """Return the L1 strength of patterns by order; 0 for single labels."""
        values = np.atleast_1d(np.asarray(self.l1_reg, dtype=np.float64))
        return np.where(np.asarray(order) > 0, values[np.minimum(order, len(values) - 1)], 0.0)


def pattern_search(patterns: Any) -> PatternSearch | None:
    """Return the search that a parameter ``patterns`` specifies, or None."""
    if isinstance(patterns, str) and patterns == "auto":
        return PatternSearch()
    return patterns if isinstance(patterns, PatternSearch) else None


def has_l1(l1_reg: Any) -> bool:
    """Return whether any strength of a parameter ``l1_reg`` is not 0."""
    return any(l1_reg.values()) if isinstance(l1_reg, Mapping) else l1_reg > 0


class PatternPrior(NamedTuple):
    """A Gaussian prior, and the L1 penalty of a search on the weights of patterns themselves."""

    prior: Any
    search: PatternSearch

    @property
    def kind(self) -> type:
        """The class of the penalties."""
        return ElasticNet

    def penalty(self, layout: WeightLayout, *named: Any) -> ElasticNet:
        """Return the penalty on the weights of a layout; further arguments are for the Gaussian prior."""
        strength = np.zeros(layout.n_weights)
        strength[layout.first_bias :] = self.search.strengths(layout.order_of_weight[layout.first_bias :])
        return ElasticNet(self.prior.penalty(layout, *named).precisions(layout.n_weights), strength)

    def warn_of_unused_prefixes(self, names: Any) -> None:
        """Warn of prefixes of the Gaussian prior with which no feature name begins."""
        self.prior.warn_of_unused_prefixes(names)


class SearchTask(NamedTuple):
    """The data and settings of a search."""

    search: PatternSearch
    problem: Problem  # under a layout of single labels
    objective: Any
    penalty: Callable[[WeightLayout], ElasticNet]
    minimise: Callable[[Any, Problem, np.ndarray], SolverReport]  # (solver, problem, start)
    solver: Any  # of the estimator, for its settings
    sequence_weight: np.ndarray | None  # for counts that are compared with ``min_count``; None: all 1
    min_count: float
    max_order: float  # may be inf


class FoundPatterns(NamedTuple):
    """The result of a search."""

    layout: WeightLayout  # of the patterns; features have pairs with single labels
    weights: np.ndarray  # (n_weights,)   trained with the L1 penalty
    history: np.ndarray  # of HISTORY
    report: SolverReport  # of the last training
    is_optimal: bool  # whether a sweep has found no violation
    is_loose: bool  # whether the last training used one of the loose tolerances


class _Counts(NamedTuple):
    """Counts of patterns under some weights.   Z patterns."""

    compiled: CompiledPatterns
    expected: np.ndarray  # (Z,)
    observed: np.ndarray  # (Z,)
    excess: np.ndarray  # (Z,)   of their difference over the strength; 0 for active patterns
    precision: np.ndarray  # (Z,)   of the Gaussian prior

    @property
    def patterns(self) -> PatternTable:
        return self.compiled.patterns

    def violations(self) -> list[tuple[float, tuple, float]]:
        """Return excess, pattern and precision where the optimality condition is violated."""
        patterns = self.patterns.tuples()
        rows = np.flatnonzero(self.excess).tolist()
        return [(float(self.excess[row]), patterns[row], float(self.precision[row])) for row in rows]


def search_patterns(task: SearchTask, weights: np.ndarray, active: Mapping[tuple, float]) -> FoundPatterns:
    """Choose label patterns by training with an L1 penalty.

    Parameters
    ----------
    task : SearchTask
    weights : ndarray of shape (n_weights,)
        Weights to start from, under the layout of ``task.problem``.
    active : dict
        Starting weights of the patterns of two or more labels themselves, by tuple of label codes.

    Returns
    -------
    FoundPatterns
    """
    search, tight = _ActiveSet(task, weights, active), _SHARE * getattr(task.solver, "tol", 3e-3)
    for tol in (*(loose for loose in _LOOSE if loose > tight), tight):
        is_optimal = False
        while not is_optimal and search.n_rounds < task.search.max_rounds:
            search.train(search.enough(tol))
            if search.report.stopped:
                search.record([], False)
                return search.found(False, search.tol > tight)
            violations = [] if tol == tight else search.look_near()
            is_sweep = not search.matter(violations, tol)
            if is_sweep:
                violations = search.look_everywhere()
            search.record(violations, is_sweep)
            lacks_some = search.matter(violations, tol)
            is_optimal = search.tol <= tol and not lacks_some
            can_go_on = search.report.converged or (search.tol > tight and search.report.n_iter > 0)
            if not can_go_on:
                break
            if not is_optimal:
                search.take_in(violations if lacks_some else [])
    return search.found(is_optimal and search.report.converged, search.tol > tight)


class _ActiveSet:
    """The active patterns, and all weights."""

    def __init__(self, task: SearchTask, weights: np.ndarray, active: Mapping[tuple, float]) -> None:
        self._task, layout = task, task.problem.layout
        self._labels = [(label,) for label in range(layout.patterns.n_labels)]
        self._features = weights[: layout.first_bias]  # and the weights of the tokens of segments
        weight = np.ones(len(task.problem.batch)) if task.sequence_weight is None else task.sequence_weight
        self._sequences = LabelledSequences(
            *task.problem.label_sequences, weight, task.problem.sequence_weight, task.min_count
        )
        active = {z: w for z, w in active.items() if len(z) <= task.max_order + 1}
        own = dict(zip(self._labels, layout.pattern_coef(weights).tolist(), strict=True))
        self._own = {**own, **self._frequent(active)}  # weights of patterns
        self._lines = lines_of(task.solver)
        self._n_in, self._n_passes = len(self._own) - len(own), 0.0
        self._history: list[tuple] = []
        self._has_warned, self._came_in = False, 0.0

    def _frequent(self, active: Mapping[tuple, float]) -> dict[tuple, float]:
        """Return the patterns that occur often enough."""
        problem, table = self._task.problem, given_patterns(active, len(self._labels))
        layout = problem.layout.with_biases(table, np.arange(len(table.lengths)))
        counts = layout.empirical_counts(problem.batch, problem.truth, self._sequences.sequence_weight)
        kept = is_frequent(counts[layout.first_bias :], self._task.min_count)
        return {z: active[z] for z, is_kept in zip(table.tuples(), kept, strict=True) if is_kept and z in active}

    @property
    def n_rounds(self) -> int:
        return len(self._history)

    def enough(self, tol: float) -> float:
        """Return the tolerance to train to: looser than ``tol`` after large additions, but such that weights change."""
        return max(_PART * self._came_in, min(tol, 0.5 * self._came_in)) if self._came_in else tol

    def train(self, tol: float) -> None:
        """Train the weights of the active patterns; drop patterns whose weights become 0."""
        self.tol, self._lines.part = tol, f"round {self.n_rounds + 1} of the search for label patterns"
        layout, start = self._model()
        settings: dict[str, Any] = {
            name: getattr(self._task.solver, name, default) for name, default in _SOLVER_SETTINGS.items()
        }
        if tol > _LOOSE[-1]:
            settings["max_iter"] = min(settings["max_iter"], _SHORT)
        self.report = self._task.minimise(OWLQN(tol, **settings), self._task.problem.under(layout), start)
        self._n_passes += self.report.n_passes
        self._features = self.report.w[: layout.first_bias]
        own = dict(zip(layout.patterns.tuples(), layout.pattern_coef(self.report.w).tolist(), strict=True))
        self._own = {z: w for z, w in own.items() if w or len(z) == 1}
        self._n_out = len(own) - len(self._own)

    def look_near(self) -> list:
        """Return the violations among the extensions to the left of the active patterns."""
        counts, candidates = self._count([]), []
        for order in range(1, self._highest(counts.patterns) + 1):
            candidates += self._candidates(self._extensions(counts, order), counts, order, np.inf)
        return self._count(candidates).violations() if candidates else []

    def look_everywhere(self) -> list:
        """Return all violations, by a sweep over the patterns whose counts allow one."""
        counts, found, order = self._count([]), [], 1
        while order <= self._task.max_order and len((extensions := self._extensions(counts, order)).codes):
            candidates = self._candidates(extensions, counts, order, 0.0)
            if candidates:
                counts = self._count(candidates)
                found += counts.violations()
            order += 1
        return found

    def matter(self, violations: list[tuple[float, tuple, float]], tol: float) -> bool:
        """Return whether violations exceed ``tol``."""
        return self._share(violations) > tol

    def _share(self, violations: list[tuple[float, tuple, float]]) -> float:
        """Return the size of violations, in units of the tolerance."""
        excess, penalty = np.array([one[0] for one in violations]), L2([one[2] for one in violations])
        return reached_tolerance(penalty, self.report.w, self.report.history[-1], excess)

    def take_in(self, violations: list[tuple[float, tuple, float]]) -> None:
        """Add the patterns with the worst violations."""
        most = max(int(_GROWTH * len(self._own)), _ALWAYS)
        worst = sorted(violations, key=lambda violation: (-violation[0], violation[1]))[:most]
        self._came_in = self._share(worst)
        self._own.update((pattern, 0.0) for _, pattern, _ in worst)
        self._n_in = len(worst)

    def record(self, violations: list[tuple[float, tuple, float]], is_sweep: bool) -> None:
        largest = max((excess for excess, _, _ in violations), default=0.0)
        n_patterns, objective = len(self._own) - len(self._labels), self.report.history[-1]
        self._history.append((self._n_in, self._n_out, n_patterns, objective, largest, is_sweep, self._n_passes))
        changes = f"{self._n_in} added, {self._n_out} dropped"
        left = (
            "none left to add"
            if not violations
            else (f"{len(violations)} to add, whose counts differ by up to {largest:.3g} more than l1_reg")
        )
        said = [f"{n_patterns} patterns ({changes})", f"objective {objective:.6f}", self._lines.seconds()]
        self._lines.write(", ".join([*said, f"to a tolerance of {self.tol:.2g}", left]), is_last=True)
        self._n_in, self._n_passes = 0, 0.0

    def found(self, is_optimal: bool, is_loose: bool) -> FoundPatterns:
        self._lines.part = ""
        self._own = {z: w for z, w in self._own.items() if w or len(z) == 1}
        history = np.array(self._history, dtype=HISTORY)
        return FoundPatterns(*self._model(), history, self.report, is_optimal, is_loose)

    def _model(self) -> tuple[WeightLayout, np.ndarray]:
        """Return the layout of the active patterns, and all weights."""
        base, table = self._task.problem.layout, given_patterns(self._own, len(self._labels))
        has_intercept = len(base.bias_pattern) > 0
        layout, patterns = base.with_biases(table, np.flatnonzero((table.lengths > 1) | has_intercept)), table.tuples()
        return layout, np.concatenate([self._features, [self._own[patterns[row]] for row in layout.bias_pattern]])

    def _highest(self, patterns: PatternTable) -> int:
        return int(min(self._task.max_order, patterns.lengths.max()))

    def _count(self, candidates: list[tuple]) -> _Counts:
        """Return the counts of single labels, of active patterns, and of candidates, whose weights are 0."""
        base, objective = self._task.problem.layout, self._task.objective
        table = given_patterns([*self._own, *candidates], len(self._labels))
        if not self._has_warned:
            self._has_warned = warn_of_size(len(table.lengths), table.labels.shape[1], len(self._sequences.codes))
        layout = base.with_biases(table, np.arange(len(table.lengths)))
        problem, patterns = self._task.problem.under(layout), table.tuples()
        own = [self._own.get(pattern, 0.0) for pattern in patterns]
        _, gradient = objective.bind(problem).value_gradient(np.concatenate([self._features, own]))
        self._n_passes += 1
        observed, difference = problem.empirical_counts()[base.first_bias :], gradient[base.first_bias :]
        is_in = np.array([pattern in self._own for pattern in patterns])
        excess = np.maximum(np.abs(difference) - self._task.search.strengths(table.lengths - 1), 0.0)
        precision = self._task.penalty(layout).precisions(layout.n_weights)[base.first_bias :]
        return _Counts(layout.compiled, observed + difference, observed, np.where(is_in, 0.0, excess), precision)

    def _extensions(self, counts: _Counts, order: int) -> Extensions:
        """Return the extensions, of an order, of patterns whose counts allow a violation by longer patterns."""
        most = np.maximum(counts.expected, counts.observed)
        extended = (counts.patterns.lengths == order) & (most > self._task.search.strengths(order))
        return left_extensions(counts.compiled, extended, order, self._sequences)

    def _candidates(self, extensions: Extensions, counts: _Counts, order: int, unknown: float) -> list[tuple]:
        """Return the inactive extensions that may violate the condition, given the counts of what they contain.

        ``unknown`` is the expected count of prefixes whose count is not known.
        """
        row = {pattern: number for number, pattern in enumerate(counts.patterns.tuples())}
        patterns = list(map(tuple, extensions.codes.tolist()))
        prefix = np.array([row.get(pattern[:-1], -1) for pattern in patterns], dtype=np.int64)
        of_prefix = np.where(prefix < 0, unknown, counts.expected[prefix])
        most = np.maximum(np.minimum(counts.expected[extensions.suffix], of_prefix), extensions.counts)
        may_violate = most > self._task.search.strengths(order)
        return [z for z, is_one in zip(patterns, may_violate, strict=True) if is_one and z not in self._own]

"""Training: choose criterion, prior and solver, check their compatibility, run them, and report.

Users may pass custom objects, which need not derive from the base classes of this package. If such an object lacks an
optional attribute, ``capability`` returns the default of the base class.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._data.checks import short
from .._objectives import Hinge, LocalFeatureMatching, NegativeLogLikelihood, Objective, Perceptron, Problem, Tied
from .._penalties import L2, ElasticNet, Penalty
from .._settings import capability, states
from .._solvers import (
    LBFGS,
    OWLQN,
    SGD,
    STOPPED,
    AdaGrad,
    AveragedPerceptron,
    FrankWolfe,
    NewtonCG,
    Progress,
    Solver,
    SolverReport,
    check_needs,
    check_report,
    one_blas_thread,
)
from .._structure.layout import WeightLayout
from .._structure.tied_weights import Ties, tie_weights
from .._structure.weight_groups import match_prefixes, prefix_of_key, unmatched, weight_groups
from .._validation import warn_user
from .compatibility import Asked, has_l1, refuse
from .progress import STARTING, ProgressLines, lines_of

__all__ = [
    "OBJECTIVES",
    "SOLVERS",
    "GivenPenalty",
    "Prior",
    "Training",
    "choose_objective",
    "says_no_probabilities",
    "choose_prior",
    "choose_training",
    "values_by_group",
    "warn_not_converged",
    "with_callback",
    "without_zeros",
]

OBJECTIVES: dict[str, type] = {
    "hinge": Hinge,
    "likelihood": NegativeLogLikelihood,
    "local_feature_matching": LocalFeatureMatching,
    "perceptron": Perceptron,
}
SOLVERS: dict[str, type] = {
    "adagrad": AdaGrad,
    "bcfw": FrankWolfe,
    "lbfgs": LBFGS,
    "newton-cg": NewtonCG,
    "owlqn": OWLQN,
    "perceptron": AveragedPerceptron,
    "sgd": SGD,
}
Watch = Callable[[Callable[[Any], SolverReport], Any, bool], SolverReport]  # (training by a solver, solver, is_last)
# the largest change of a score, from a tolerance to the optimum, of all models of docs/develop/design.md
_CHANGES = (3e-3, 0.001), (3e-2, 0.002), (1e-1, 0.006)
_WORTH_TYING = 0.9  # highest fraction of variables per weight for which tying pays

# ------------------------------------------------------------------------------------------------------------- choices


class Prior(NamedTuple):
    """The prior of ``sigma_reg`` and ``l1_reg``: the only place that turns them into a penalty."""

    sigma_reg: Any
    l1_reg: Any

    @property
    def kind(self) -> type:
        """The class of the penalties."""
        return ElasticNet if has_l1(self.l1_reg) else L2

    def penalty(self, layout: WeightLayout, names: Any = None, labels: np.ndarray | None = None) -> Penalty:
        """Return the penalty on the weights of a layout.

        Parameters
        ----------
        layout : WeightLayout
        names : sequence of str, or None
            Names of the layout's features, if they have any: mappings may have prefixes of them.
        labels : ndarray of shape (L,), or None
            The user's labels, for errors.

        Raises
        ------
        ValueError
            For a weight that no key of a mapping covers, and for prefixes where features have no names.
        """

        def of_weights(name: str) -> np.ndarray:
            given = getattr(self, name)
            if isinstance(given, Mapping):
                return values_by_group(name, given, layout, names, labels)
            return np.array([given], dtype=np.float64)

        precision = (1.0 / of_weights("sigma_reg")) ** 2
        return ElasticNet(precision, of_weights("l1_reg")) if has_l1(self.l1_reg) else L2(precision)

    def warn_of_unused_prefixes(self, names: Any) -> None:
        """Warn of prefixes in mappings with which no feature name begins."""
        for parameter, given in zip(self._fields, self, strict=True):
            prefixes = _prefixes(given) if isinstance(given, Mapping) else []
            for index in unmatched(match_prefixes(names, prefixes), len(prefixes)) if prefixes else ():
                warn_user(f"{parameter}: no feature name begins with {short(prefixes[index])}")


def values_by_group(
    parameter: str, given: Mapping, layout: WeightLayout, names: Any, labels: np.ndarray | None
) -> np.ndarray:
    """Return for each weight the value of the mapping's key that covers it."""
    if names is None and _prefixes(given):
        raise ValueError(f"{parameter}={short(given)} selects features by name, but X has no feature names")
    keys = list(given)
    groups = weight_groups(layout, names, keys)
    uncovered = np.flatnonzero(groups < 0)
    if len(uncovered):
        raise ValueError(_not_covered(parameter, int(uncovered[0]), layout, names, labels))
    return np.array([given[key] for key in keys], dtype=np.float64)[groups]


def _prefixes(keys: Iterable) -> list[str]:
    """Return the distinct prefixes of feature names in keys."""
    return list(dict.fromkeys(prefix for prefix in map(prefix_of_key, keys) if prefix is not None))


def _not_covered(parameter: str, weight: int, layout: WeightLayout, names: Any, labels: np.ndarray | None) -> str:
    """Return the message about a weight that no key covers."""
    is_pair, order = weight < layout.n_pairs, int(layout.order_of_weight[weight])
    row = layout.row_of_weight[weight]
    what = "a part of labels"
    if row < len(layout.patterns.lengths):
        codes = layout.patterns.labels[row, -order - 1 :]
        what = f"the pattern {short(tuple((codes if labels is None else labels[codes]).tolist()), 40)} of order {order}"
    if is_pair:
        feature = int(layout.pair_feature[weight])
        what = f"the feature {short(feature if names is None else str(names[feature]), 40)} with {what}"
    key = ("features" if is_pair else "patterns", order)
    return f"{parameter} has no key for the weight of {what}: add {key!r}, or None for the rest"


class GivenPenalty(NamedTuple):
    """A user-defined penalty, with the methods of a prior."""

    given: Any

    @property
    def kind(self) -> Any:
        """The penalty itself, which has the methods of its class."""
        return self.given

    def penalty(self, layout: WeightLayout, names: Any = None, labels: np.ndarray | None = None) -> Any:
        """Return the penalty, for any layout."""
        return self.given

    def warn_of_unused_prefixes(self, names: Any) -> None:
        """Do nothing: the parameters that may have prefixes are not used."""


def choose_objective(objective: Any) -> Any:
    """Return the criterion of a parameter ``objective``, without data."""
    return OBJECTIVES[objective]() if isinstance(objective, str) else objective


def says_no_probabilities(objective: Any) -> str:
    """Return why models trained with ``objective`` have no probabilities, or "" if they have."""
    if capability(choose_objective(objective), Objective, "gives_probabilities"):
        return ""
    return (
        f"objective={objective!r} trains scores that are not logarithms of probabilities, unlike objective='likelihood'"
    )


def choose_prior(parameters: Mapping[str, Any]) -> Prior | GivenPenalty:
    """Return the prior of the parameters ``penalty``, ``sigma_reg`` and ``l1_reg``."""
    if parameters["penalty"] is not None:
        return GivenPenalty(parameters["penalty"])
    return Prior(parameters["sigma_reg"], parameters["l1_reg"])


def _choose_solver(parameters: Mapping[str, Any], objective: Any, prior: Prior | GivenPenalty, name: str) -> Any:
    solver = parameters["solver"]
    if not isinstance(solver, str):
        return solver
    if solver == "auto":
        solver = capability(objective, Objective, "default_solver")
    solver_class = SOLVERS[solver]
    if solver == "lbfgs" and not hasattr(prior.kind, "value_gradient"):  # absolute values of the weights
        solver_class = OWLQN
    settings = {"tol": parameters["tol"], "max_iter": parameters["max_iter"]}
    if "random_state" in signature(solver_class).parameters:
        settings["random_state"] = parameters["random_state"]
    callback = ProgressLines(name, parameters["max_iter"]) if parameters["verbose"] else None
    return solver_class(**settings, callback=callback)


def choose_training(parameters: Mapping[str, Any], name: str) -> Training:
    """Return the training that valid parameters specify, or raise an error if its parts are incompatible.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name.
    name : str
        Name of the estimator, for progress output.
    """
    objective, prior = choose_objective(parameters["objective"]), choose_prior(parameters)
    solver = _choose_solver(parameters, objective, prior, name)
    check_needs(solver, objective, prior.kind)
    refuse(Asked(parameters, name, objective, solver))
    return Training(objective, prior, solver)


# ------------------------------------------------------------------------------------------------------------- running


class Training(NamedTuple):
    """A criterion, a prior and a solver that are compatible."""

    objective: Any
    prior: Prior | GivenPenalty
    solver: Any

    def run(
        self, problem: Problem, penalty: Any, start: np.ndarray, is_warm: bool, watch: Watch | None = None
    ) -> list[SolverReport]:
        """Return the solver's reports of all stages, for the penalty that the prior has for the problem's layout.

        If a criterion starts from the weights that another one trains, this is the first stage, unless ``start``
        contains the weights of an earlier fit (``is_warm``). If given, ``watch`` runs the stages.
        """
        stages: list[SolverReport] = []
        objectives, lines = self.objectives(is_warm), lines_of(self.solver)
        part = lines.part
        with one_blas_thread():
            for objective in objectives:
                train = partial(_minimise, objective, penalty, problem, start)
                is_last = objective is objectives[-1]
                lines.part = part if is_last else STARTING
                stages.append(train(self.solver) if watch is None else watch(train, self.solver, is_last))
                start = stages[-1].w
        return stages

    def objectives(self, is_warm: bool) -> list[Any]:
        """Return the criteria of all stages: first those that train the starting weights, last the criterion itself."""
        objectives = [self.objective]
        while not is_warm and hasattr(objectives[0], "starting_objective"):
            first = objectives[0].starting_objective()
            if first is None:
                break
            objectives.insert(0, first)
        return objectives

    def run_one_pass(self, problem: Problem, penalty: Any, start: np.ndarray, state: Any) -> tuple[SolverReport, Any]:
        """Return the report of one pass over some sequences of a stream, and the solver's state after it."""
        objective = self.objective.bind(problem)
        with one_blas_thread():
            report, state = self.solver.partial_solve(objective, penalty, start, state)
        return check_report(report, self.solver, len(start)), state


def without_zeros(penalty: Any, layout: WeightLayout, weights: np.ndarray) -> tuple[WeightLayout, np.ndarray]:
    """Return the layout and the weights of the fitted model; a sparse penalty removes the weights that are 0."""
    if capability(penalty, Penalty, "strength") is None:
        return layout, weights
    return layout.pruned(weights)


def _minimise(objective: Any, penalty: Any, problem: Problem, start: np.ndarray, solver: Any) -> SolverReport:
    """Minimise an objective of labelled data plus a penalty, and check whether there is a minimum."""
    report = _minimise_tied(solver, objective, penalty, problem, start)
    if report is None:
        bound = objective.bind(problem)
        report = check_report(_method(solver, bound)(bound, penalty, np.array(start)), solver, len(start))
    if not report.stopped and _lacks_optimum(objective, penalty, problem, report.w):
        remedy = (
            "There is no optimum: the model separates the training data, so larger weights are always better. Use a "
            "penalty on all weights, such as finite values of sigma_reg"
        )
        return report._replace(converged=False, remedy=remedy)
    return report


def _minimise_tied(
    solver: Any, objective: Any, penalty: Any, problem: Problem, start: np.ndarray
) -> SolverReport | None:
    """Minimise over fewer variables if some weights must be equal; return None if none must, or if it is not worth it.

    Attributes that always occur together get equal weights (see ``_structure.tied_weights``) if criterion, penalty and
    solver treat equal weights alike. Each class declares this separately, because derived classes may differ.
    """
    if not (
        states(objective, "depends_on_scores_only")
        and states(penalty, "ties_weights")
        and states(solver, "keeps_equal_weights_equal")
    ):
        return None
    groups = penalty.groups(len(start)) if isinstance(penalty, Penalty) else None
    ties = tie_weights(problem.layout, problem.batch, groups)
    tied = penalty.tied(ties.place, ties.root)
    if tied is None or len(ties.root) > _WORTH_TYING * len(start):
        return None
    # without a penalty, weights that start unequal stay unequal
    if not tied.precision.all() and not np.allclose(ties.widen(ties.narrow(start)), start):
        return None
    narrow = Tied(objective.bind(problem.under(ties.layout)), ties)
    report = _method(_widening(solver, ties), narrow)(narrow, tied, ties.narrow(start))
    return report._replace(w=ties.widen(report.w))


def _widening(solver: Any, ties: Ties) -> Any:
    """Return the solver, with a callback whose reports contain all weights."""
    callback = getattr(solver, "callback", None)
    if callback is None:
        return solver

    def widened(report: Callable[[], SolverReport]) -> SolverReport:
        narrow = report()
        return narrow._replace(w=ties.widen(narrow.w))

    def tell(progress: Progress) -> Any:
        return callback(progress._replace(report=progress.report and partial(widened, progress.report)))

    return with_callback(solver, tell)


def with_callback(solver: Any, callback: Callable[[Progress], Any] | None) -> Any:
    """Return a copy of a solver, with another callback."""
    solver = copy.copy(solver)
    solver.callback = callback
    return solver


def _method(solver: Any, objective: Any) -> Callable[[Any, Any, np.ndarray], SolverReport]:
    """Return a function that minimises a bound objective plus a penalty from given weights.

    It is called with weights that nobody else refers to, so that solvers need not keep them in memory.
    """
    n_inner = getattr(objective, "n_inner", 0)
    return partial(_solve_bounds, solver, n_inner) if n_inner else solver.solve


def _solve_bounds(solver: Any, n_inner: int, objective: Any, penalty: Any, start: np.ndarray) -> SolverReport:
    """Minimise an objective by a few iterations on each of its convex bounds, which touch it at the current weights."""
    inner = with_callback(solver, None)
    inner.max_iter = n_inner
    w, n_passes, norm = start, 1, np.nan
    history = [objective.value_gradient(w)[0] + penalty.value(w)]
    converged, stopped, message = False, False, "the maximum number of rounds was reached"

    def report() -> SolverReport:
        return SolverReport(w, len(history) - 1, np.array(history), norm, np.inf, converged, message, n_passes)

    while not stopped and len(history) <= solver.max_iter:
        bound = inner.solve(objective.bound_at(w), penalty, w)
        n_passes += 1 + bound.n_passes
        norm = bound.gradient_norm
        if bound.n_iter == 0:  # the gradient of the bound is that of the objective
            converged, message = bound.converged, bound.message
            break
        value = objective.value_gradient(bound.w)[0] + penalty.value(bound.w)
        n_passes += 1
        if value > history[-1]:
            message = "rounding errors exceed the remaining improvement"
            break
        w = bound.w
        history.append(value)
        if solver.callback is not None:
            stopped = bool(solver.callback(Progress(len(history) - 1, value, norm, np.inf, report)))
    return report()._replace(stopped=stopped, message=STOPPED if stopped else message)


def _lacks_optimum(objective: Any, penalty: Any, problem: Problem, w: np.ndarray) -> bool:
    """Return whether the objective is known to decrease without end as the unpenalised weights grow."""
    if not (isinstance(objective, Objective) and isinstance(penalty, Penalty)):
        return False
    is_free = (penalty.precisions(len(w)) == 0) & (penalty.strengths(len(w)) == 0)
    return bool(is_free.any()) and objective.bind(problem).separates(np.where(is_free, w, 0.0))


# ----------------------------------------------------------------------------------------------------------- reporting


def warn_not_converged(name: str, solver: Any, stages: list[SolverReport]) -> None:
    """Warn about each stage of training that did not converge, unless a callback stopped it.

    Parameters
    ----------
    name : str
        Name of the estimator.
    solver : solver
        The solver, for its settings.
    stages : list of SolverReport
        The reports of the stages; the last one belongs to the fitted weights.
    """
    for stage in stages:
        if not stage.converged and not stage.stopped:
            trained = name if stage is stages[-1] else f"{name}: training of the weights to start from"
            warn_user(_failure(trained, solver, stage), ConvergenceWarning)


def _failure(trained: str, solver: Any, report: SolverReport) -> str:
    """Return the text of a warning: the failure, and a remedy."""
    parts = [f"{trained} did not converge in {report.n_iter} iterations"]
    if np.isfinite(report.gradient_norm):
        parts.append(f"the gradient norm is {report.gradient_norm:.3g}")
    if np.isfinite(report.gap):
        parts.append(f"the objective is at most {report.gap:.3g} above the optimum")
        if report.n_iter >= capability(solver, Solver, "max_iter"):
            parts += _change_of_scores(report)
    remedy = f"Increase max_iter (now {report.n_iter})"
    if report.n_iter < capability(solver, Solver, "max_iter"):  # no better point was found: rounding errors
        remedy = "Rounding errors prevent further progress: increase tol"
        tol = capability(solver, Solver, "tol")
        remedy += "" if np.isnan(tol) else f" (now {tol:g})"
    if report.remedy:
        remedy = report.remedy
    elif len(parts) > 1:  # there is a minimum to approach
        remedy += ", scale numeric features, or choose a smaller sigma_reg"
    return f"{'; '.join(parts)}. {remedy}. (Solver: {report.message})"


def _change_of_scores(report: SolverReport) -> list[str]:
    """Return a remark on how far scores may be from those of the optimum, if there is a gradient to judge by."""
    value = abs(float(report.history[-1]))
    if not (np.isfinite(report.gradient_norm) and value):
        return []
    reached = float(np.sqrt(report.gap / value))
    change = next((f"up to {change:g}" for tol, change in _CHANGES if reached <= tol), f"more than {_CHANGES[-1][1]:g}")
    return [f"scores on new data may still change by {change}, as with tol={reached:.2g}"]

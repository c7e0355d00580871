"""Training: choose criterion, prior and solver, check their compatibility, run them, and report."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._data.checks import short
from ..._data.warnings import warn_unless_saved, warn_user
from ..._engine.structure.layout import WeightLayout
from ..._engine.training import LBFGS, SGD, Minimizer, Progress, Solver, SolverReport, one_blas_thread
from ..._engine.training.of_objectives import OBJECTIVES, Objective, Problem, Tied
from ..._engine.training.penalties import Penalty
from ..._engine.training.tied_weights import Ties, tie_weights
from ..labels.tags import names_in_patterns
from .compatibility import has_l1, refuse
from .penalties import match_prefixes, prefix_of_key, unmatched, weight_groups
from .progress import STARTING, ProgressLines, lines_of

# (training by a solver, solver, name of the stage)
Watch = Callable[[Callable[[Any], SolverReport], Minimizer, str], SolverReport]
TRAINING = "training"  # name of the last stage, which trains the weights of the model
# the largest change of a score, from a tolerance to the optimum, of all models of docs/develop/design.md
_CHANGES = (3e-3, 0.001), (3e-2, 0.002), (1e-1, 0.006)
_WORTH_TYING = 0.9  # highest fraction of variables per weight for which tying pays

# ------------------------------------------------------------------------------------------------------------- choices


class Prior(NamedTuple):
    """The prior of ``sigma_reg`` and ``l1_reg``: the only place that turns them into a penalty."""

    sigma_reg: Any
    l1_reg: Any

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
        return Penalty(precision, of_weights("l1_reg") if has_l1(self.l1_reg) else 0.0)

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
        codes = layout.patterns.labels[row, -order - 1 :].tolist()
        names_of = None if labels is None else names_in_patterns(labels, layout.patterns.history)
        run = tuple(codes if names_of is None else (names_of[code] for code in codes))
        what = f"the pattern {short(run, 40)} of order {order}"
    if is_pair:
        feature = int(layout.pair_feature[weight])
        what = f"the feature {short(feature if names is None else str(names[feature]), 40)} with {what}"
    key = ("features" if is_pair else "patterns", order)
    return f"{parameter} has no key for the weight of {what}: add {key!r}, or None for the rest"


def _choose_solver(parameters: Mapping[str, Any], name: str) -> Minimizer:
    given, max_iter = parameters["solver"], parameters["max_iter"]
    solver: Solver = given if isinstance(given, Solver) else SGD() if given == "sgd" else LBFGS()
    warn_unless_saved(solver.callback, "callback of the solver")
    callback = ProgressLines(name, max_iter, solver.callback) if parameters["verbose"] else solver.callback
    return solver.minimizer(parameters["tol"], max_iter, callback, parameters["random_state"])


def choose_training(parameters: Mapping[str, Any], name: str) -> Training:
    """Return the training that valid parameters specify, or raise an error if its parts are incompatible.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name.
    name : str
        Name of the estimator, for progress output.
    """
    refuse(parameters)
    prior = Prior(parameters["sigma_reg"], parameters["l1_reg"])
    return Training(OBJECTIVES[parameters["objective"]](), prior, _choose_solver(parameters, name))


# ------------------------------------------------------------------------------------------------------------- running


class Training(NamedTuple):
    """A criterion, a prior and a solver that are compatible."""

    objective: Objective
    prior: Prior
    solver: Any

    def run(
        self, problems: list, penalty: Any, start: np.ndarray, is_warm: bool, watch: Watch | None = None
    ) -> list[SolverReport]:
        """Return the solver's reports of all stages, for the penalty that the prior has for the problems' layout.

        The first problems, and criteria, train the weights from which the last one starts. If a criterion starts from
        the weights that another one trains, there is a stage for that, unless ``start`` contains the weights of an
        earlier fit (``is_warm``). If given, ``watch`` runs the stages.
        """
        stages: list[SolverReport] = []
        criteria, lines = list(product(problems, self.objectives(is_warm))), lines_of(self.solver)
        with one_blas_thread():
            for problem, objective in criteria:
                # a copy, because what a problem caches takes memory that the next stage does not need
                train = partial(_minimise, objective, penalty, copy.copy(problem), start)
                is_last = len(stages) == len(criteria) - 1
                lines.part, name = ("", TRAINING) if is_last else (STARTING, STARTING)
                stages.append(train(self.solver) if watch is None else watch(train, self.solver, name))
                start = stages[-1].w
        return stages

    def objectives(self, is_warm: bool) -> list[Objective]:
        """Return the criteria of all stages: first those that train the starting weights, last the criterion itself."""
        first = None if is_warm else self.objective.starting_objective()
        return [self.objective] if first is None else [first, self.objective]


def _minimise(objective: Any, penalty: Any, problem: Problem, start: np.ndarray, solver: Any) -> SolverReport:
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
    solver: Any, objective: Any, penalty: Any, problem: Problem, start: np.ndarray
) -> SolverReport | None:
    """Minimise over fewer variables if some weights must be equal; return None if none must, or if it is not worth it.

    Attributes that always occur together get equal weights (see ``_engine.training.tied_weights``) if criterion and
    solver treat equal weights alike.
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
    narrow = Tied(objective.bind(problem.under(ties.layout)), ties)
    report = _widening(solver, ties).solve(narrow, tied, ties.narrow(start))
    return report._replace(w=ties.widen(report.w))


def _widening(solver: Any, ties: Ties) -> Any:
    """Return the solver, with a callback whose reports contain all weights."""
    callback = solver.callback
    if callback is None:
        return solver

    def tell(progress: Progress) -> Any:
        def widened() -> SolverReport:
            narrow = progress.report()
            return narrow._replace(w=ties.widen(narrow.w))

        return callback(progress._replace(report=widened))

    return replace(solver, callback=tell)


def _lacks_optimum(objective: Any, penalty: Any, problem: Problem, w: np.ndarray) -> bool:
    """Return whether the objective is known to decrease without end as the unpenalised weights grow."""
    is_free = penalty.free(len(w))
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
    value = abs(float(report.history[-1]))
    if report.gap <= value:  # a larger bound says nothing
        parts.append(f"the objective, {value:.5g}, is at most {report.gap:.3g} above the optimum")
    if np.isfinite(report.gap) and report.n_iter >= solver.max_iter:
        parts += _change_of_scores(report, value)
    remedy = f"Increase max_iter (now {report.n_iter})"
    if report.n_iter < solver.max_iter:  # no better point was found: rounding errors
        remedy = f"Rounding errors prevent further progress: increase tol (now {solver.tol:g})"
    if report.remedy:
        remedy = report.remedy
    elif len(parts) > 1:  # there is a minimum to approach
        remedy += ", scale numeric features, or choose a smaller sigma_reg"
    return f"{'; '.join(parts)}. {remedy}. (Solver: {report.message})"


def _change_of_scores(report: SolverReport, value: float) -> list[str]:
    """Return a remark on how far scores may be from those of the optimum, if there is a gradient to judge by."""
    if not (np.isfinite(report.gradient_norm) and value):
        return []
    reached = float(np.sqrt(report.gap / value))
    change = next((f"up to {change:g}" for tol, change in _CHANGES if reached <= tol), f"more than {_CHANGES[-1][1]:g}")
    return [f"scores on new data may still change by {change}"]

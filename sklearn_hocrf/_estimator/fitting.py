"""Training: criterion, prior and solver are chosen, checked against each other, run, and reported.

Users may pass objects of their own, which need not derive from the base classes of this package. Where such an object
lacks an optional attribute, ``capability`` returns the default of the base class.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from .._objectives import Hinge, LocalFeatureMatching, NegativeLogLikelihood, Objective, Perceptron, Problem, Tied
from .._penalties import L2, ElasticNet, Penalty
from .._settings import capability, states
from .._solvers import (
    LBFGS,
    OWLQN,
    SGD,
    AdaGrad,
    AveragedPerceptron,
    FrankWolfe,
    NewtonCG,
    Progress,
    SolverReport,
    check_needs,
    check_report,
    one_blas_thread,
)
from .._structure.layout import WeightLayout
from .._structure.tied_weights import tie_weights
from .._validation import warn_user

__all__ = [
    "OBJECTIVES",
    "SOLVERS",
    "GivenPenalty",
    "Prior",
    "Training",
    "choose_objective",
    "choose_prior",
    "choose_training",
    "warn_not_converged",
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
_WORTH_TYING = 0.9  # highest share of the weights that are left where tying them pays

# ------------------------------------------------------------------------------------------------------------- choices


class Prior(NamedTuple):
    """The prior of ``sigma_reg`` and ``l1_reg``: the only place that turns them into numbers for weights."""

    sigma_reg: Any
    l1_reg: Any

    @property
    def kind(self) -> type:
        """The class of the penalties."""
        return ElasticNet if np.any(self.l1_reg) else L2

    def penalty(self, layout: WeightLayout) -> Penalty:
        """Return the penalty on the weights of a layout."""
        precision = (1.0 / _by_order(self.sigma_reg, layout)) ** 2
        return ElasticNet(precision, _by_order(self.l1_reg, layout)) if np.any(self.l1_reg) else L2(precision)


def _by_order(values: ArrayLike, layout: WeightLayout) -> np.ndarray:
    """Return one of ``values`` for each weight, by the order of its pattern; the last value repeats."""
    values = np.atleast_1d(values).astype(np.float64)
    return values[np.minimum(layout.order_of_weight, len(values) - 1)]


class GivenPenalty(NamedTuple):
    """Stands for a prior where the user gives the penalty."""

    given: Any

    @property
    def kind(self) -> Any:
        """The penalty, which has the methods of its class."""
        return self.given

    def penalty(self, layout: WeightLayout) -> Any:
        """Return the penalty, whatever the layout is."""
        return self.given


def choose_objective(objective: Any) -> Any:
    """Return the criterion of a parameter ``objective``, without data."""
    return OBJECTIVES[objective]() if isinstance(objective, str) else objective


def choose_prior(parameters: Mapping[str, Any]) -> Prior | GivenPenalty:
    """Return the prior of the parameters ``penalty``, ``sigma_reg`` and ``l1_reg``."""
    if parameters["penalty"] is not None:
        return GivenPenalty(parameters["penalty"])
    return Prior(parameters["sigma_reg"], parameters["l1_reg"])


def _choose_solver(parameters, objective, prior, name) -> Any:
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
    return solver_class(**settings, callback=partial(_write_progress, name) if parameters["verbose"] else None)


def choose_training(parameters: Mapping[str, Any], name: str) -> Training:
    """Return the training that valid parameters ask for, or raise an error if its parts do not go together.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name.
    name : str
        Name of the estimator, for lines about progress.
    """
    objective, prior = choose_objective(parameters["objective"]), choose_prior(parameters)
    solver = _choose_solver(parameters, objective, prior, name)
    check_needs(solver, objective, prior.kind)
    return Training(objective, prior, solver)


# ------------------------------------------------------------------------------------------------------------- running


class Training(NamedTuple):
    """A criterion, a prior and a solver, which go together."""

    objective: Any
    prior: Prior | GivenPenalty
    solver: Any

    def run(self, problem: Problem, start: np.ndarray, is_warm: bool) -> list[SolverReport]:
        """Return the solver's reports of all stages.

        A criterion may start from the weights that another one trains; this takes the first stage, unless ``start``
        are weights of an earlier fit (``is_warm``).
        """
        penalty, stages = self.prior.penalty(problem.layout), []
        with one_blas_thread():
            for objective in self._objectives(is_warm):
                stages.append(_minimise(self.solver, objective, penalty, problem, start))
                start = stages[-1].w
        return stages

    def _objectives(self, is_warm: bool) -> list[Any]:
        objectives = [self.objective]
        while not is_warm and hasattr(objectives[0], "starting_objective"):
            first = objectives[0].starting_objective()
            if first is None:
                break
            objectives.insert(0, first)
        return objectives

    def run_one_pass(self, problem: Problem, start: np.ndarray, state: Any) -> tuple[SolverReport, Any]:
        """Return the report of one pass over some sequences of a stream, and the solver's state after it."""
        objective, penalty = self.objective.bind(problem), self.prior.penalty(problem.layout)
        with one_blas_thread():
            report, state = self.solver.partial_solve(objective, penalty, start, state)
        return check_report(report, self.solver, len(start)), state

    def without_zeros(self, layout: WeightLayout, weights: np.ndarray) -> tuple[WeightLayout, np.ndarray]:
        """Return the layout and the weights of the fitted model: those that are 0 leave it if the penalty is sparse."""
        if capability(self.prior.penalty(layout), Penalty, "strength") is None:
            return layout, weights
        return layout.pruned(weights)


def _minimise(solver, objective, penalty, problem, start) -> SolverReport:
    """Minimise an objective of labelled data plus a penalty, and find out whether there is a minimum."""
    report = _minimise_tied(solver, objective, penalty, problem, start)
    if report is None:
        report = check_report(solver.solve(objective.bind(problem), penalty, start), solver, len(start))
    if _lacks_optimum(objective, penalty, problem, report.w):
        remedy = (
            "There is no optimum: the model separates the training data, and the larger its weights the better. Use a "
            "penalty on all of them, as finite values of sigma_reg are"
        )
        return report._replace(converged=False, remedy=remedy)
    return report


def _minimise_tied(solver, objective, penalty, problem, start) -> SolverReport | None:
    """Minimise by fewer variables where weights are bound to be equal; None where this is not so, or does not pay.

    Attributes that always occur together get equal weights (see ``_structure.tied_weights``) if criterion, penalty and
    solver treat equal weights alike. Classes say so about themselves; it may not hold for classes derived from them.
    """
    if not (
        states(objective, "depends_on_scores_only")
        and states(penalty, "ties_weights")
        and states(solver, "keeps_equal_weights_equal")
    ):
        return None
    ties = tie_weights(problem.layout, problem.batch)
    tied = penalty.tied(ties.place, ties.root)
    if tied is None or len(ties.root) > _WORTH_TYING * len(start):
        return None
    # without a penalty, weights that start apart stay apart
    if not tied.precision.all() and not np.allclose(ties.widen(ties.narrow(start)), start):
        return None
    narrow = Tied(objective.bind(problem.under(ties.layout)), ties)
    report = solver.solve(narrow, tied, ties.narrow(start))
    return report._replace(w=ties.widen(report.w))


def _lacks_optimum(objective, penalty, problem, w) -> bool:
    """Tell whether growing the weights that have no penalty is known to lower the objective for ever."""
    if not (isinstance(objective, Objective) and isinstance(penalty, Penalty)):
        return False
    is_free = (penalty.precisions(len(w)) == 0) & (penalty.strengths(len(w)) == 0)
    return bool(is_free.any()) and objective.bind(problem).separates(np.where(is_free, w, 0.0))


# ----------------------------------------------------------------------------------------------------------- reporting


def _write_progress(name: str, progress: Progress) -> None:
    parts = [f"iteration {progress.n_iter}", f"objective {progress.value:.6f}"]
    if np.isfinite(progress.gradient_norm):
        parts.append(f"gradient norm {progress.gradient_norm:.3g}")
    if np.isfinite(progress.gap):
        parts.append(f"at most {progress.gap:.3g} above the optimum")
    sys.stderr.write(f"{name}: {', '.join(parts)}\n")


def warn_not_converged(name: str, solver: Any, stages: list[SolverReport]) -> None:
    """Warn of each stage of training that has not converged.

    Parameters
    ----------
    name : str
        Name of the estimator.
    solver : solver
        The solver, for its settings.
    stages : list of SolverReport
        Its reports; the last one is that of the fitted weights.
    """
    for stage in stages:
        if not stage.converged:
            trained = name if stage is stages[-1] else f"{name}: training of the weights to start from"
            warn_user(_failure(trained, solver, stage), ConvergenceWarning)


def _failure(trained: str, solver: Any, report: SolverReport) -> str:
    """Return what has gone wrong, and what helps."""
    parts = [f"{trained} did not converge in {report.n_iter} iterations"]
    if np.isfinite(report.gradient_norm):
        parts.append(f"the gradient norm is {report.gradient_norm:.3g}")
    if np.isfinite(report.gap):
        parts.append(f"the objective is at most {report.gap:.3g} above the optimum")
    remedy = f"Increase max_iter (now {report.n_iter})"
    if report.n_iter < getattr(solver, "max_iter", np.inf):  # the line search found nothing better: rounding errors
        remedy = "It can get no closer to the optimum: increase tol"
        remedy += f" (now {solver.tol:g})" if hasattr(solver, "tol") else ""
    if report.remedy:
        remedy = report.remedy
    elif len(parts) > 1:  # there is a minimum to come near to
        remedy += ", scale numeric features, or choose a smaller sigma_reg"
    return f"{'; '.join(parts)}. {remedy}. (Solver: {report.message})"

"""The search for the penalties of one order, its steps, and their columns in ``cv_results_``.

A course consists of the searches of all orders, and measures the remaining time.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.parallel import Parallel, delayed

from .._engine.training.hypergradient import Fold, FoldStep
from .._engine.training.solvers import SearchEnd, minimize_in_box
from .._estimator.fit.progress import duration, tell
from ._groups import WeightGroups, column_name, continue_from

SHRINKING = 0.5  # factor by which the tolerance changes from step to step
LEAST_GAIN = 0.5  # of a step, relative to ``tol`` times the score
PATH = 1.0, 0.1, 0.01, 0.001  # of l1, in units of a useful one
LOOSE = 0.3  # residual of the linear system if no gradient is needed
WIDEST_L1 = np.log(1e6)  # greatest distance of log l1 from its start
AUTO_ORDERS = range(1, 9)  # of ``orders="auto"``
MOST_IN_VAIN = 1  # orders above the best one; one more ends the search
MOST_COMPARED = 2  # steps of each order, before the search continues at the best one
PASSES_OF_FIT = 240.0  # passes over a training part that take as long as the last fit (60 to 150 iterations)


class _Tolerances(NamedTuple):
    """Tolerances of the training of folds; ``finest`` and ``precise`` are in units of the square root of ``tol``."""

    loosest: float  # in the first step
    finest: float
    precise: float  # of the best step at the end
    residual: float  # of the linear system, in units of the training tolerance; at least that of `Fold`
    residual_of_precise: float


SMOOTH = _Tolerances(0.05, 0.1, 0.05, 0.0, Fold.residual)
SPARSE = _Tolerances(0.1, 0.3, 0.1, 1.0, LOOSE)  # if L1 is learned, gradients jump: more precise ones do not help


class Course:
    """The searches of all orders, and the time that ``fit`` spends on reading data, on steps, and on the last fit."""

    def __init__(self, search: BaseEstimator) -> None:
        self.searches: list[OrderSearch] = []
        self.n_orders, self.untried = 0, list[int]()  # orders that were not tried for lack of time
        self._begun, self._refits, self._most = time.perf_counter(), search.refit, search.max_time or np.inf
        self.reading, self._until, self.path = 0.0, np.inf, list(PATH)

    @property
    def steps(self) -> list[Step]:
        return [step for search in self.searches for step in search.steps]

    def elapsed(self) -> float:
        """Return the seconds since ``fit`` began."""
        return time.perf_counter() - self._begun

    def of_refit(self) -> float:
        """Return an estimate of the seconds that the last fit will take, if the best step so far remains the best."""
        if not self._refits:
            return 0.0
        folds = self.steps[best_index(self.steps)].folds
        of_pass = sum(fold.seconds for fold in folds) / max(1, sum(fold.n_passes for fold in folds))
        return self.reading + PASSES_OF_FIT * of_pass

    def left(self) -> float:
        """Return the seconds that remain for steps."""
        return self._most - self.elapsed() - self.of_refit()

    def share(self, number: int) -> bool:
        """Assign a share of the remaining time to the order with this number; return whether time remains."""
        left = self.left()
        self._until = self.elapsed() + left / (len(self.searches) - number)
        return left > 0

    def has_time_for(self, seconds: float) -> bool:
        """Return whether half of a step of this duration would end within the time for this order."""
        return self.elapsed() + seconds / 2 < self._until


class OrderSearch:
    """The search for the penalties of one order.   G groups.

    A point contains the logarithms of sigma and, if l1 is learned, of l1, by group; its shape is (G,) or (2G,).
    """

    def __init__(
        self,
        search: BaseEstimator,
        order: int,
        groups: WeightGroups,
        sigma: np.ndarray,
        folds: list[Fold],
        course: Course,
    ) -> None:
        log_sigma = np.clip(np.log(sigma), *np.log(search.bounds))
        self._start = np.append(log_sigma, np.full(len(sigma) if search.learn_l1 else 0, -np.inf))
        self.folds, self.steps = folds, list[Step]()
        self._search, self._order, self._groups, self._course = search, order, groups, course
        self._n_descended, self._n_groups = 0, len(groups.keys)
        self._tolerances = SPARSE if search.learn_l1 else SMOOTH
        self._seconds, self._is_compared = 0.0, False
        self._states = [fold.state for fold in folds]  # of the best step

    def begin(self) -> None:
        """Take the first step, at the initial penalties, and without an L1 penalty if ``learn_l1`` is True."""
        self._gradient = self._take(self._start, *self._precision())
        self._known = self._start  # the point whose gradient is known

    def run(self, earlier: OrderSearch | None, *, is_compared: bool = False) -> None:
        """Take further steps from the best penalties and weights of ``earlier`` or, if it is None, of this order.

        With ``is_compared``, the search takes only the few steps that are needed to compare orders; it ends after a
        step if the best score of another order is higher.
        """
        self._is_compared = is_compared
        if len(self.steps) < self._search.max_steps:
            with suppress(SearchEnd):
                if self.steps:
                    self._check_end()
                if earlier is not None:
                    self._continue(earlier)
                elif self._search.learn_l1:
                    self._learn_l1()
                else:
                    self._descend(self._start)
        if not is_compared and self._course.has_time_for(self._seconds):
            settle(self.steps, self.evaluate_precisely)
        self.forget()

    def forget(self) -> None:
        """Free the largest arrays of folds, so that only one order at a time keeps them in memory."""
        for fold in self.folds:
            fold.forget()

    @property
    def best(self) -> Step:
        return self.steps[best_index(self.steps)]

    def _evaluate(self, point, before=None, **options):
        """Return the step for a point, and the gradient of its score with respect to the coordinates of all groups."""
        before = [np.nan] * len(self.folds) if before is None else before
        for fold, state in zip(self.folds, self._states, strict=True):
            fold.state = state
        with Parallel(n_jobs=self._search.n_jobs, require="sharedmem") as parallel:  # folds keep their state
            calls = [delayed(fold.step)(point, before=b, **options) for fold, b in zip(self.folds, before, strict=True)]
            answers = list(parallel(calls))
        values = np.exp(point).reshape(-1, self._n_groups)
        values[0] = np.clip(values[0], *self._search.bounds)  # because exp rounds
        step = Step.from_folds(self._order, self._groups, values, answers)
        _refuse_infinite(answers, step)
        return step, np.mean([answer.gradient for answer in answers], axis=0)

    def evaluate_precisely(self, step: Step) -> Step:
        """Return a step at the same penalties with a score that is accurate to the tolerance of the search."""
        tol, before = self._search.tol, [fold.score for fold in step.folds]
        precise, residual = self._tolerances.precise, self._tolerances.residual_of_precise
        return self._evaluate(self._point(step), before, tol=precise * tol**0.5, residual=residual, error=tol)[0]

    def _point(self, step):
        kinds = [(step.sigma, 1.0), (step.l1, 0.0)][: 2 if step.l1 else 1]
        with np.errstate(divide="ignore"):  # log 0, if an L1 penalty is switched off
            return np.concatenate([np.log([of.get(key, none) for key in self._groups.keys]) for of, none in kinds])

    def _take(self, point, tol, residual):
        """Evaluate a point as the next step, and return the gradient; raise ``SearchEnd`` if the search ends here."""
        begun = self._course.elapsed()
        step, gradient = self._evaluate(point, tol=tol, residual=residual)
        self._seconds = self._course.elapsed() - begun
        self.steps.append(step)
        if step is self.best:
            self._states = [fold.state for fold in self.folds]
        if self._search.verbose:
            self._write()
        if len(self.steps) > 1 or self._is_compared:
            self._check_end()
        return gradient

    def _check_end(self):
        is_behind = self._is_compared and self.best.score < max(step.score for step in self._course.steps)
        if is_behind or not self._course.has_time_for(self._seconds):
            raise SearchEnd

    def _write(self):
        """Write a line about the last step, with an estimate of the time that all other allowed steps would take."""
        step, course, most = self.steps[-1], self._course, self._search.max_steps
        values = [f"{column_name(key)} {value:.3g}" for key, value in step.sigma.items()]
        values += [f"l1 {column_name(key)} {value:.3g}" for key, value in step.l1.items()]
        n_taken, n_most = len(course.steps), most * course.n_orders
        left = max(0.0, min(course.elapsed() / n_taken * (n_most - n_taken), course.left())) + course.of_refit()
        tell(
            f"PenaltySearchCV: order {step.order}, step {len(self.steps)} of at most {most}, score {step.score:.6f}, "
            f"sigma: {', '.join(values)}, {duration(course.elapsed())}, about {duration(left)} left if all steps are "
            "needed"
        )

    def _precision(self):
        """Return the tolerance of training in the next step of a descent, and the residual of its linear system."""
        shrunk = self._tolerances.loosest * SHRINKING**self._n_descended
        tol = max(self._tolerances.finest * self._search.tol**0.5, shrunk)
        return tol, max(Fold.residual, self._tolerances.residual * tol)

    def _descend(self, start, n_left=0):
        """Take steps along the gradient, only in finite coordinates of ``start``; keep ``n_left`` steps for later."""
        finite, n_groups = np.isfinite(start), self._n_groups
        lowest, highest = (np.full(len(start), np.log(bound)) for bound in self._search.bounds)
        lowest[n_groups:], highest[n_groups:] = start[n_groups:] - WIDEST_L1, start[n_groups:] + WIDEST_L1
        used = np.tile(self._groups.has_weights, len(start) // n_groups)
        is_known = bool(self.steps) and np.allclose(start[used], self._known[used], rtol=0, atol=1e-9)

        def evaluate(values):
            nonlocal is_known
            point = start.copy()
            point[finite] = values
            if is_known:  # a step is not taken twice
                is_known = False
                self._n_descended = max(1, self._n_descended)
                return -self.best.score, -self._gradient[finite]
            gradient = self._take(point, *self._precision())
            if self.steps[-1] is self.best:
                self._known, self._gradient = point, gradient
            self._n_descended += 1
            return -self.steps[-1].score, -gradient[finite]

        most = max(1, self._search.max_steps - len(self.steps) - n_left) + is_known
        most = min(most, MOST_COMPARED + is_known) if self._is_compared else most
        box, tol = (lowest[finite], highest[finite]), LEAST_GAIN * self._search.tol
        minimize_in_box(evaluate, start[finite], box, max_evaluations=most, tol=tol)
        self._check_end()

    def _continue(self, earlier):
        """Descend from the best penalties and weights of another order, or learn l1 if its best step has none."""
        if self._search.learn_l1 and not any(earlier.best.l1.values()):
            if not self.steps:
                self.begin()
            return self._learn_l1()
        for fold, other in zip(self.folds, earlier.folds, strict=True):
            continue_from(fold, other)
        self._states = [fold.state for fold in self.folds]
        log_sigma = self._start[: self._n_groups]
        near = np.log(self._groups.nearest(earlier.best.sigma))
        is_known = np.array([key in earlier.best.sigma for key in self._groups.keys])
        # strong penalties of new groups cannot make an order far worse than the one before; weak ones can
        start = np.clip(np.where(is_known, near, np.fmin(near, log_sigma)), *np.log(self._search.bounds))
        if self._search.learn_l1:
            most = max(earlier.best.l1.values())
            with np.errstate(divide="ignore"):
                start = np.append(start, np.log(np.nan_to_num(self._groups.nearest(earlier.best.l1), nan=most)))
        self._descend(start)

    def _learn_l1(self):
        """Search for sigma and l1, from the best point of a path of l1."""
        start = self._path()
        while len(self.steps) < self._search.max_steps:
            on = self._n_groups + np.flatnonzero(self._groups.has_weights & np.isfinite(start[self._n_groups :]))
            self._descend(start, len(on))
            best = self.best
            for off in on[: max(0, self._search.max_steps - len(self.steps))]:
                without = self._point(self.best)
                without[off] = -np.inf
                self._take(without, self._tolerances.loosest, LOOSE)
            start = self._point(self.best)
            if self.best is best or len(self.steps) >= self._search.max_steps:
                break

    def _path(self):
        """Return the best point: that of the first step, or one of a path of decreasing l1, equal for all groups.

        The path starts from weights of 0, because training from the dense weights of the first step would take longer.
        If an order had no time to reach a useful l1, the next order continues the path.
        """
        of_first = self._states
        for fold in self.folds:
            fold.start()
        useful, last = max(fold.useful_l1() for fold in self.folds), -np.inf
        while self._course.path and len(self.steps) < self._search.max_steps:
            self._states = [fold.state for fold in self.folds]
            log_l1 = np.full(self._n_groups, np.log(useful * self._course.path.pop(0)))
            self._take(np.append(self._start[: self._n_groups], log_l1), self._tolerances.loosest, LOOSE)
            if self.steps[-1].score < last:
                break
            last = self.steps[-1].score
        if self.best is self.steps[0]:
            self._states = of_first
        return self._point(self.best)


def _refuse_infinite(answers: list[FoldStep], step: Step) -> None:
    for index, answer in enumerate(answers):
        if not np.isfinite([answer.score, *answer.gradient]).all():
            also = f" and l1_reg={step.l1}" if step.l1 else ""
            raise ValueError(
                f"the held-out likelihood of split {index} at sigma_reg={step.sigma}{also}, or its gradient, is not "
                "finite: rescale numeric features, or choose narrower bounds"
            )


class Step(NamedTuple):
    """One choice of penalties.   F folds, G groups."""

    order: int
    sigma: dict  # by group, without groups that have no weights in the model for all data
    folds: list[FoldStep]
    l1: dict = {}  # likewise; empty unless l1 is learned

    @classmethod
    def from_folds(cls, order: int, groups: WeightGroups, values: np.ndarray, folds: list[FoldStep]) -> Self:
        """Return the step for results of folds; ``values``, of shape (1 or 2, G), and gradients contain all groups."""
        used = np.flatnonzero(groups.has_weights)
        kept = [fold._replace(gradient=fold.gradient.reshape(values.shape)[:, used].ravel()) for fold in folds]
        sigma, *l1 = ({groups.keys[group]: float(of_kind[group]) for group in used} for of_kind in values)
        return cls(order, sigma, kept, *l1)

    @property
    def score(self) -> float:
        return float(np.mean([fold.score for fold in self.folds]))

    def after(self, earlier: Self) -> Self:
        """Return the step with the passes and seconds of an earlier evaluation added."""
        spent = [
            fold._replace(n_passes=fold.n_passes + before.n_passes, seconds=fold.seconds + before.seconds)
            for fold, before in zip(self.folds, earlier.folds, strict=True)
        ]
        return self._replace(folds=spent)


def settle(steps: list[Step], evaluate_precisely: Callable[[Step], Step]) -> None:
    """Evaluate the best step precisely, then any step that is now better, until the best one is precise."""
    precise: set[int] = set()
    while (best := best_index(steps)) not in precise:
        steps[best] = evaluate_precisely(steps[best]).after(steps[best])
        precise.add(best)


def best_index(steps: list[Step]) -> int:
    """Return the index of the best step: the first one with the best score of its order.

    A lower order counts as better unless the folds gain more than a standard error at the higher order.
    """
    means = np.array([step.score for step in steps])
    scores = np.array([[fold.score for fold in step.folds] for step in steps])
    best = int(np.argmax(means))
    for order in sorted({step.order for step in steps if step.order < steps[best].order}):
        lower = max((n for n, step in enumerate(steps) if step.order == order), key=means.__getitem__)
        gains = scores[best] - scores[lower]
        if len(gains) > 1 and gains.mean() <= gains.std(ddof=1) / len(gains) ** 0.5:
            return lower
    return best


def has_risen_enough(steps: list[Step]) -> bool:
    """Return whether more than ``MOST_IN_VAIN`` orders above the best one have been tried."""
    above = {step.order for step in steps if step.order > steps[best_index(steps)].order}
    return len(above) > MOST_IN_VAIN


def columns_of_params(params: list[dict]) -> dict[str, Any]:
    """Return the columns of ``cv_results_`` that contain the parameters of the steps."""
    columns: dict[str, Any] = {"params": params}
    for name in dict.fromkeys(name for candidate in params for name in candidate):
        column = columns[f"param_{name}"] = np.ma.masked_all(len(params), dtype=object)
        for i, candidate in enumerate(params):
            if name in candidate:  # a model without weights has no penalties
                column[i] = candidate[name]
    return columns


def attributes_of(steps: list[Step], prefix: str, with_orders: bool) -> dict:
    """Return the attributes of a search that are derived from its steps."""
    params = []
    for step in steps:
        order = {f"{prefix}max_order": step.order} if with_orders else {}
        of_kinds = {f"{prefix}sigma_reg": step.sigma, f"{prefix}l1_reg": step.l1}
        params.append(order | {name: values for name, values in of_kinds.items() if values})
    results = columns_of_params(params)
    scores = np.array([[fold.score for fold in step.folds] for step in steps])
    results.update({f"split{index}_test_score": column for index, column in enumerate(scores.T)})
    mean = np.array([step.score for step in steps])
    ranks = 1 + (mean > mean[:, None]).sum(axis=1).astype(np.int32)
    results.update(mean_test_score=mean, std_test_score=scores.std(axis=1), rank_test_score=ranks)
    results["max_order"] = np.array([step.order for step in steps])
    gradients = [np.mean([fold.gradient for fold in step.folds], axis=0) for step in steps]
    for kind, of_gradient in ("sigma", "gradient"), ("l1", "gradient_l1"):
        rows = [getattr(step, kind) for step in steps]
        slopes = [dict(zip(row, gradient, strict=False)) for row, gradient in zip(rows, gradients, strict=True)]
        for key in dict.fromkeys(key for row in rows for key in row):
            for name, columns in (kind, rows), (of_gradient, slopes):
                results[f"{name}_{column_name(key)}"] = np.array([row.get(key, np.nan) for row in columns])
        gradients = [gradient[len(row) :] for row, gradient in zip(rows, gradients, strict=True)]  # those of log l1
    results["token_accuracy"] = np.array([np.mean([fold.accuracy for fold in step.folds]) for step in steps])
    results["n_passes"] = np.array([sum(fold.n_passes for fold in step.folds) for step in steps])
    results["seconds"] = np.array([sum(fold.seconds for fold in step.folds) for step in steps])
    best = best_index(steps)
    return {
        "cv_results_": results,
        "n_splits_": scores.shape[1],
        "multimetric_": False,
        "best_index_": best,
        "best_score_": float(mean[best]),
        "best_params_": copy.deepcopy(params[best]),
    }

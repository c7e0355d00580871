"""Tasks of a fit for scikit-learn's callbacks: one for the whole fit, one for each iteration.

If the solver is called more than once, each of these stages has its own task, and the iterations are its subtasks. The
tasks of iterations have no subtasks. Solvers report an iteration when it has ended, so its task begins and ends then.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..._engine.training.solvers import STOPPED, Progress, SolverReport
from ..._reading.inputs import read_sequences, read_training_sequences
from ..answers.fitted import FittedState
from .progress import TRAINING

# names of tasks
FIT = "fit"
ITERATION = "iteration"
SEARCH_STEP = "step"  # of a search for parameters
REFIT = "refit with best parameters"


class _Tasks:
    """The task of a fit, with the root of its tasks; does nothing if the estimator has no callbacks.

    Parameters
    ----------
    estimator : estimator
    n_tasks : int or None
        Number of tasks of which the fit consists; None if unknown.
    X, y, sample_weight
        The arguments of ``fit``.
    """

    def __init__(self, estimator: Any, n_tasks: int | None, X: Any, y: Any, sample_weight: Any) -> None:
        self._callbacks, self.is_stopped = getattr(estimator, "_skl_callbacks", []), False
        if not self._callbacks:
            return
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._arguments = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self._root = estimator._init_callback_context(FIT, max_subtasks=n_tasks)
        self._root.call_on_fit_task_begin(**self._arguments)

    def _begin(self, parent: Any, name: str, n_tasks: int | None = 0) -> Any:
        """Begin a task within another one."""
        return parent.subcontext(name, max_subtasks=n_tasks).call_on_fit_task_begin(**self._arguments)

    def end(self, **more: Any) -> None:
        """End the task of the whole fit; ``more`` goes to the callbacks."""
        if self._callbacks:
            self._root.call_on_fit_task_end(**self._arguments, **more)


class SearchTasks(_Tasks):
    """The tasks of a search for parameters: one for each order, which consists of steps, and the last fit.

    Parameters
    ----------
    search : estimator
    n_orders, n_steps : int
        Number of orders, and the greatest number of steps of each.
    X, y, sample_weight
        The arguments of ``fit``.
    """

    def __init__(self, search: Any, n_orders: int, n_steps: int, *data: Any) -> None:
        super().__init__(search, n_orders + bool(search.refit), *data)
        self._n_steps = n_steps

    def begin_order(self, order: Any) -> Any:
        """Begin and return the task of the search for one order; None without callbacks."""
        return self._begin(self._root, f"order {order}", self._n_steps) if self._callbacks else None

    def end_order(self, task: Any) -> None:
        """End the task of the search for one order."""
        self.is_stopped = self.is_stopped or (task is not None and task.call_on_fit_task_end(**self._arguments))

    def end_step(self, of_order: Any) -> bool:
        """End a step of the task of an order, and return whether a callback stops the search for this order."""
        return of_order is not None and self._begin(of_order, SEARCH_STEP).call_on_fit_task_end(**self._arguments)

    def refit(self, best: Any, fit: Callable[[], Any]) -> None:
        """Call a function that fits the best estimator: a task, whose details callbacks may request."""
        if not self._callbacks:
            fit()
            return
        task = self._root.subcontext(REFIT)
        with task.propagate_callback_context(best):
            task.call_on_fit_task_begin(**self._arguments)
            fit()
            task.call_on_fit_task_end(**self._arguments)


class FitTasks(_Tasks):
    """The tasks of a fit; does nothing if the estimator has no callbacks.

    Parameters
    ----------
    estimator : BaseSequenceLabeler
    solver : solver
    n_stages : int or None
        Number of calls of the solver; None if unknown.
    X, y, sample_weight
        The arguments of ``fit``.
    """

    def __init__(self, estimator: Any, solver: Any, n_stages: int | None, *data: Any) -> None:
        self._estimator, self._is_flat = estimator, n_stages == 1
        super().__init__(estimator, solver.max_iter if self._is_flat else n_stages, *data)

    def run_stage(
        self, state: Callable[[SolverReport], FittedState], train: Callable[[Any], SolverReport], solver: Any, name: str
    ) -> SolverReport:
        """Return the report of a stage of training, after each iteration of which the callbacks are called.

        Parameters
        ----------
        state : callable
            Returns the state of the model in a solver's report.
        train : callable
            Trains by a given solver, and returns its report.
        solver : solver
        name : str
            Name of the stage.
        """
        if not self._callbacks:
            return train(solver)
        if self.is_stopped:  # a report on the starting weights
            return train(replace(solver, max_iter=0))._replace(stopped=True, message=STOPPED)
        context = self._root if self._is_flat else self._begin(self._root, name, solver.max_iter)

        # the gap of a criterion other than the model's does not apply to the model
        def state_here(report: SolverReport) -> FittedState:
            return state(report if name == TRAINING else report._replace(gap=np.inf))

        def tell(progress: Progress) -> bool:
            own_stops = solver.callback is not None and bool(solver.callback(progress))
            task = self._begin(context, ITERATION)
            return self._end(task, lambda: state_here(progress.report())) or own_stops

        report = train(replace(solver, callback=tell))
        if not self._is_flat:
            self.is_stopped = self._end(context, lambda: state_here(report))
        return report

    def _end(self, context: Any, state: Callable[[], FittedState]) -> bool:
        """End a task, and return whether a callback stops the following tasks; ``state`` returns the model so far."""
        return context.call_on_fit_task_end(**self._arguments, reconstruction_attributes=lambda: state().attributes())

    def best(self, state: FittedState) -> FittedState:
        """Return the state of the model that a callback chooses instead of the last one, if any."""
        for callback in self._callbacks:
            choose = getattr(callback, "_best_estimator", None)
            best = None if choose is None else choose(self._estimator)
            if best is not None:
                return best._state._replace(n_passes=state.n_passes)
        return state


def check_held_out(estimator: Any, X: Any, X_held_out: Any) -> None:
    """Raise an error if held-out sequences do not match valid training data, before these are used.

    Only the first sequence of the training data is read, which determines the required form of X.

    Raises
    ------
    ValueError, TypeError
        If X does not have the form of the training data.
    """
    first = read_training_sequences(estimator, X[:1])
    if first.form != "table":
        reader = copy.copy(estimator)
        reader._state = SimpleNamespace(features=first.features._replace(vocabulary=first.vocabulary))
        read_sequences(reader, X_held_out)

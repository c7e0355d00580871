"""The progress of training: output of ``verbose`` to stderr, and tasks for callbacks.

A fit has tasks for scikit-learn's callbacks: one for the whole fit, and one for each iteration.

If the solver is called more than once, each call is a stage with its own task, and iterations are subtasks of their
stage. The tasks of iterations have no subtasks. Solvers report an iteration when it ends, so the task of an iteration
begins and ends at the time of this report.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sized
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..._engine.training.solvers import STOPPED, Minimizer, Progress, SolverReport
from ..._reading.inputs import read_sequences, read_training_sequences
from ..answers.fitted import FittedState

STARTING = "training of the weights to start from"  # name of the stages before the last one
SECONDS_BETWEEN_LINES = 1.0  # minimum, for all estimators of the process
_next = -math.inf  # earliest time of the next line


def tell(text: str) -> None:
    """Write a line to stderr; do nothing if stderr is absent, closed or a broken pipe."""
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"{text}\n")


def write_line(text: str, is_last: bool = False) -> bool:
    """Write a line to stderr unless the previous line is too recent; return whether the line was written.

    The last line of a task may be written early; the next line is then delayed.
    """
    global _next
    now = time.monotonic()
    if now < _next - (SECONDS_BETWEEN_LINES if is_last else 0.0):
        return False
    _next = max(now, _next) + SECONDS_BETWEEN_LINES
    tell(text)
    return True


def duration(seconds: float) -> str:
    """Return a duration as a string with a readable unit."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for size, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if seconds < 120 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.1f} days"


class ProgressLines:
    """Solver callback that writes a line about each iteration.

    Parameters
    ----------
    name : str or None
        Name of the estimator; if None, nothing is written.
    callback : callable or None
        Another solver callback, which is called after each line and may stop training.
    """

    def __init__(self, name: str | None, callback: Callable[[Progress], Any] | None = None) -> None:
        self.part = ""  # name of the current stage; empty for the last one
        self._callback = callback
        self._name, self._start = name, time.monotonic()

    def __call__(self, progress: Progress) -> Any:
        self.write(", ".join([f"iteration {progress.n_iter}", *self._numbers(progress)]))
        return self._callback is not None and self._callback(progress)

    def write(self, text: str, is_last: bool = False) -> bool:
        """Write a line that begins with the name of the estimator; return the result of :func:`write_line`."""
        return self._name is not None and write_line(": ".join(filter(None, [self._name, self.part, text])), is_last)

    def end(self, report: SolverReport) -> None:
        """Write a line about the end of training."""
        last = Progress(report.n_iter, float(report.history[-1]), report.gradient_norm, report.gap)
        parts = [f"{report.n_iter} iterations", *self._numbers(last), report.message]
        self.write(", ".join(parts), is_last=True)

    def _numbers(self, progress: Progress) -> list[str]:
        parts = [f"objective {progress.value:.6f}"]
        if np.isfinite(progress.gradient_norm):
            parts.append(f"gradient norm {progress.gradient_norm:.3g}")
        if np.isfinite(progress.gap):
            parts.append(f"at most {progress.gap:.3g} above the optimum")
        return [*parts, duration(time.monotonic() - self._start)]


TRAINING = "training"  # name of the last stage, which trains the weights of the model


# names of tasks
FIT = "fit"
ITERATION = "iteration"


class FitTasks:
    """The tasks of a fit, for callbacks; the methods do nothing if the estimator has no callbacks.

    Parameters
    ----------
    estimator : BaseSequenceLabeler
    solver : solver
    n_stages : int or None
        Number of solver calls; None if unknown.
    X, y, sample_weight
        The arguments of ``fit``.
    """

    def __init__(
        self, estimator: BaseEstimator, solver: Minimizer, n_stages: int | None, X: Sized, y: Sized, sample_weight: Any
    ) -> None:
        self._estimator, self._is_flat, self.is_stopped = estimator, n_stages == 1, False
        self._callbacks = getattr(estimator, "_skl_callbacks", [])
        if not self._callbacks:
            return
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._arguments = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        n_tasks = solver.max_iter if self._is_flat else n_stages
        self._root = estimator._init_callback_context(FIT, max_subtasks=n_tasks)
        self._root.call_on_fit_task_begin(**self._arguments)

    def _begin(self, parent: Any, name: str, n_tasks: int | None = 0) -> Any:
        """Begin a subtask of ``parent``."""
        return parent.subcontext(name, max_subtasks=n_tasks).call_on_fit_task_begin(**self._arguments)

    def end(self, **more: Any) -> None:
        """End the task of the whole fit, and pass ``more`` to the callbacks."""
        if self._callbacks:
            self._root.call_on_fit_task_end(**self._arguments, **more)

    def run_stage(
        self,
        state: Callable[[SolverReport], FittedState],
        train: Callable[..., SolverReport],
        solver: Minimizer,
        name: str,
    ) -> SolverReport:
        """Run a stage of training that calls the callbacks after each iteration, and return the solver's report.

        Parameters
        ----------
        state : callable
            Returns the state of the model from a solver's report.
        train : callable
            Trains with the solver that it receives, and returns the report.
        solver : solver
        name : str
            Name of the stage.
        """
        if not self._callbacks:
            return train(solver)
        if self.is_stopped:  # without training, report on the starting weights
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
        """End a task, and return whether a callback stops training; ``state`` returns the current model's state."""
        return context.call_on_fit_task_end(**self._arguments, reconstruction_attributes=lambda: state().attributes())

    def best(self, state: FittedState) -> FittedState:
        """Return the state of the model that a callback chooses, or ``state`` if no callback chooses one."""
        for callback in self._callbacks:
            choose = getattr(callback, "_best_estimator", None)
            best = None if choose is None else choose(self._estimator)
            if best is not None:
                return best._state._replace(n_passes=state.n_passes)
        return state


def check_held_out(estimator: BaseEstimator, X: Any, X_held_out: Sized) -> None:
    """Check that held-out sequences match valid training data, before the training data are used.

    The function reads only the first training sequence, which determines the required form of held-out sequences.

    Raises
    ------
    ValueError, TypeError
        If the held-out sequences do not have the form of the training data.
    """
    reader = estimator._kind.reader(estimator)
    first = read_training_sequences(reader, X[:1])
    if first.form != "table":
        read_sequences(reader, X_held_out, first.features._replace(vocabulary=first.vocabulary))

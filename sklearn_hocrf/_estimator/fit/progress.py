"""Output of ``verbose`` to stderr: the progress of training, and the time left."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from ..._engine.training.solvers import Minimizer, Progress, SolverReport

STARTING = "training of the weights to start from"  # name of a part
SECONDS_BETWEEN_LINES = 1.0  # of the whole process, at the least
_next = -math.inf  # time of the next line


def tell(text: str) -> None:
    """Write a line to stderr; if that is absent, closed or a broken pipe, the fit goes on."""
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"{text}\n")


def write_line(text: str, is_last: bool = False) -> bool:
    """Write a line to stderr, unless the previous one is too recent, and return whether it was written.

    The last line of a task may come early; the line after it is then delayed.
    """
    global _next
    now = time.monotonic()
    if now < _next - (SECONDS_BETWEEN_LINES if is_last else 0.0):
        return False
    _next = max(now, _next) + SECONDS_BETWEEN_LINES
    tell(text)
    return True


def duration(seconds: float) -> str:
    """Return a time as text with a readable unit."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for size, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if seconds < 120 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.1f} days"


class ProgressLines:
    """Solver callback that writes lines about iterations.

    Parameters
    ----------
    name : str or None
        Name of the estimator; None writes nothing.
    max_iter : int
        Maximum number of iterations of the solver.
    callback : callable or None
        Called after each line; its result is returned.
    """

    window, share = 10, 1e-3  # iterations in which the objective changes by less than this share of it

    def __init__(self, name: str | None, max_iter: int, callback: Callable[[Progress], Any] | None = None) -> None:
        self.part = ""  # name of the part of training that is running
        self._callback = callback
        self._name, self._max_iter, self._start = name, max_iter, time.monotonic()
        self._values, self._is_said, self._remark = deque[float](maxlen=self.window + 1), False, ""
        self._forecast = Forecast(max_iter)

    def __call__(self, progress: Progress) -> Any:
        if progress.n_iter <= 1:  # another stage of training
            self._values.clear()
            self._is_said, self._remark, self._forecast = False, "", Forecast(self._max_iter)
        self._forecast.add(progress, time.monotonic())
        self._values.append(progress.value)
        if not self._is_said and len(self._values) > self.window:
            self._is_said = abs(self._values[0] - self._values[-1]) < self.share * abs(self._values[-1])
            if self._is_said:
                self._remark = f"within 0.1 % of the value {self.window} iterations ago: scores hardly change now"
        parts = [f"iteration {progress.n_iter}", *self._numbers(progress), self._left(), self._remark]
        if self.write(", ".join(filter(None, parts))):
            self._remark = ""
        return self._callback is not None and self._callback(progress)

    def write(self, text: str, is_last: bool = False) -> bool:
        """Write a line that begins with the name of the estimator, as :func:`write_line`."""
        return self._name is not None and write_line(": ".join(filter(None, [self._name, self.part, text])), is_last)

    def end(self, report: SolverReport) -> None:
        """Write how training ended."""
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

    def _left(self) -> str:
        seconds, is_bound = self._forecast.left()
        what = " of this" if self.part else ""
        return f"{'at most' if is_bound else 'about'} {duration(seconds)}{what} left" if np.isfinite(seconds) else ""


class Forecast:
    """Forecast of the time that a solver still needs.

    The stopping quantity of a solver (usually the norm of the gradient) decreases unevenly, but over many iterations by
    about the same factor in each. A line fitted to its logarithms in the second half of the iterations so far predicts
    when it reaches the goal: after a third of the training, mostly to within a factor of two, in tests on chunking,
    names, fields and digits. If no trend is known, ``max_iter`` is a bound.
    """

    least = 8  # iterations for fitting a line

    def __init__(self, max_iter: float) -> None:
        self._max_iter = max_iter
        self._times, self._logs = list[float](), list[float]()

    def add(self, progress: Progress, now: float) -> None:
        """Add an iteration."""
        small = progress.gradient_norm if np.isfinite(progress.gradient_norm) else progress.gap
        with np.errstate(divide="ignore", invalid="ignore"):
            self._logs.append(float(np.log(np.divide(small, progress.goal))))
        self._times.append(now)

    def left(self) -> tuple[float, bool]:
        """Return the seconds left, and whether they are a bound; inf if nothing is known."""
        n_iter = len(self._times)
        if n_iter < 2:
            return math.inf, True
        n = max(n_iter // 2, min(n_iter, self.least))
        seconds = (self._times[-1] - self._times[-n]) / (n - 1)
        most = max(self._max_iter - n_iter, 0)
        logs = np.array(self._logs[-n:])
        if n >= self.least and np.isfinite(logs).all():
            slope, now = np.polyfit(np.arange(1 - n, 1), logs, 1)
            if slope < 0 and max(now, 0.0) < -slope * most:
                return seconds * max(now, 0.0) / -slope, False
        return seconds * most, True


def lines_of(solver: Minimizer) -> ProgressLines:
    """Return the progress lines of a solver; if it writes none, lines that are discarded."""
    callback = solver.callback
    return callback if isinstance(callback, ProgressLines) else ProgressLines(None, 0)


TRAINING = "training"  # name of the last stage, which trains the weights of the model

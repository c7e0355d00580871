"""What the benchmarks share: the optional data, measurements that take turns, tables of ratios with their spread."""

import importlib.util
import multiprocessing
import os
import resource
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sklearn_hocrf._objectives import NegativeLogLikelihood
from sklearn_hocrf._structure.layout import LayoutBuilder, LayoutFrame
from sklearn_hocrf._structure.pairs import PairRule


def data_file(*parts):
    """Return the path of an optional data file, or None where it is absent: $SKLEARN_HOCRF_DATA or ../shared/data."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(os.environ.get("SKLEARN_HOCRF_DATA") or beside, *parts)
    return path if path.is_file() else None


def absent(*files, modules=()):
    """Return why a benchmark cannot run that needs data files, each as the parts of its path, and modules; or None."""
    for parts in files:
        if data_file(*parts) is None:
            return f"{'/'.join(parts)} is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data"
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return None


class Absent(NotImplementedError):
    """What a benchmark needs is not there. asv skips a benchmark whose setup raises a NotImplementedError."""


def skip_where(reason):
    """End the setup of a benchmark if there is a reason."""
    if reason:
        raise Absent(reason)


def take_turns(cases, n_rounds, clock=time.perf_counter):
    """Return the seconds of each case in each round; shape (n_rounds, n_cases).

    The cases run once to warm up, then in turn, so that what else the machine does slows all of them alike. Ratios are
    best taken within a round.

    Parameters
    ----------
    cases : list of callables
    n_rounds : int
    clock : callable
        ``time.process_time`` for one thread: other programs slow it less than the clock on the wall.
    """
    for case in cases:
        case()
    seconds = np.empty((n_rounds, len(cases)))
    for row in seconds:
        for number, case in enumerate(cases):
            start = clock()
            case()
            row[number] = clock() - start
    return seconds


class Process:
    """A process of its own, on one thread, that sets benchmarks up and then runs their methods when asked.

    So what is kept in several processes can be measured in turns, and none has the memory or the crashes of another.
    """

    def __init__(self):
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), threadpool_limits, (1,))

    def run(self, function, *arguments):
        """Return what a function returns there.

        Raises
        ------
        concurrent.futures.process.BrokenProcessPool
            If the process has ended by itself.
        """
        return self._pool.submit(function, *arguments).result()

    def keep(self, benchmark, *params, **settings):
        """Return a benchmark there, set up with its parameters and further settings.

        Raises
        ------
        Absent
            If ``setup`` finds that something is.
        """
        return Kept(self, self.run(_set_up, benchmark, params, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pool.shutdown()


class Kept(NamedTuple):
    """A benchmark in another process, set up."""

    process: Process
    number: int

    def call(self, method):
        """Return what a method returns, called with the parameters."""
        return self.process.run(_call, self.number, method)

    def seconds(self, method, at_least=0.0, clock="process_time"):
        """Return the median seconds of calls of a method, as many as take ``at_least`` that many seconds together."""
        return self.process.run(_time, self.number, method, at_least, clock)


_kept = []  # in a process of its own: benchmarks and their parameters


def _set_up(benchmark, params, settings):
    case = benchmark()
    case.setup(*params, **settings)
    _kept.append((case, params))
    return len(_kept) - 1


def _call(number, method):
    case, params = _kept[number]
    return getattr(case, method)(*params)


def _time(number, method, at_least, clock):
    clock, seconds = getattr(time, clock), []
    while not seconds or sum(seconds) < at_least:
        start = clock()
        _call(number, method)
        seconds.append(clock() - start)
    return float(np.median(seconds))


def keep_problem(model):
    """Return a list that has the training problem once the model is fitted."""
    problems, build = [], model._build_problem

    def build_and_keep(*data):
        problems[:] = [build(*data)]
        return problems[0]

    model._build_problem = build_and_keep
    return problems


def fit_quietly(model, X, y, **params):
    """Fit a model that may not have the iterations to converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **params)


def build_layout(batch, codes, patterns, *, fit_intercept=True, **rule):
    """Return the layout of labelled data; ``rule`` has the fields of a PairRule."""
    builder = LayoutBuilder(LayoutFrame.of(patterns), PairRule(**rule), fit_intercept)
    return builder.build(builder.count(batch, codes))


def training_objective(model, X, y):
    """Return the likelihood, without penalty, that a model maximises when it is fitted."""
    problem = keep_problem(model)
    fit_quietly(model.set_params(max_iter=1), X, y)
    return NegativeLogLikelihood().bind(problem[0])


def some_weights(objective):
    return np.random.default_rng(0).normal(scale=0.1, size=objective.n_weights)


def with_spread(values, form=".3f"):
    """Return the median of some values and, in brackets, the smallest and the largest."""
    return f"{np.median(values):{form}} [{np.min(values):{form}} {np.max(values):{form}}]"


def print_table(heads, rows):
    """Print rows of texts under their heads, the first column to the left, the others to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in [heads, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells]), flush=True)


def n_weights(model):
    """Return how many weights a fitted model has."""
    n_single = sum(len(pattern) == 1 for pattern in model.patterns_)
    return model.coef_.nnz + len(model.patterns_) - (0 if model.fit_intercept else n_single)


def peak_mebibytes():
    """Return the peak resident memory of this process so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

"""A cluster of two workers with one thread each, compared with one process with one thread; both run in turns.

This is the benchmark of ``compare.py --tasks cluster``, on the data of ``common.generate``. It measures a gradient; an
iteration, which includes the L-BFGS step of the client, in one process and on the cluster; the iteration of two
processes that exchange no data; and the data that the loopback device sends, in vectors of weights per worker. All
processes, including the workers, read the settings of their memory allocator from the environment: with KEEP_FREED,
they keep freed memory.
"""

import time
from typing import NamedTuple

import numpy as np
import psutil
from common import N_ATTRIBUTES, Process, fit_quietly, generate
from dask import delayed
from distributed import Client, LocalCluster

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._engine.training.lbfgs import LBFGS, LBFGSMinimizer
from sklearn_hocrf._engine.training.penalties import Penalty
from sklearn_hocrf._engine.training.solvers import SolverReport
from sklearn_hocrf.dask import DaskSequenceLabeler

OPTIONS = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
BARE = 0.535  # time of two bare processes that evaluate half of the data each, in times of one with all
KEEP_FREED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8000000000"}  # when processes start


def sent_bytes():
    return psutil.net_io_counters(pernic=True)["lo"].bytes_sent


def make_batch(n_tokens, number, n_attributes=N_ATTRIBUTES):
    return generate(n_tokens, number, n_attributes)[0]


def make_labels(n_tokens, number, n_attributes=N_ATTRIBUTES):
    return [labels.tolist() for labels in generate(n_tokens, number, n_attributes)[1]]


def partitions(n_tokens, n_parts, *n_attributes):
    """Return Delayed parts of X and of y; a worker that needs one generates it."""
    arguments = [(n_tokens // n_parts, number, *n_attributes) for number in range(n_parts)]
    return tuple([delayed(make)(*given) for given in arguments] for make in (make_batch, make_labels))


class Evaluate(LBFGS):
    """A solver that evaluates the function again and again, at random weights, and calls something else in between.

    Attributes
    ----------
    seconds : list of (float, float)
        Of each evaluation, and of what is called.
    n_bytes : list of int
        That each evaluation has sent.
    """

    keeps_equal_weights_equal = False

    def __init__(self, n_rounds, other=lambda: None):
        super().__init__()
        self.n_rounds, self.other = n_rounds, other
        self.seconds, self.n_bytes = [], []

    def minimizer(self, tol, max_iter, callback, random_state):
        self.tol, self.max_iter = tol, max_iter
        return self

    def solve(self, objective, penalty, w0):
        w = 0.1 * np.random.default_rng(0).normal(size=len(w0))
        for n in range(self.n_rounds + 1):
            before, start = sent_bytes(), time.perf_counter()
            value, gradient = objective.value_gradient(w)
            middle, after = time.perf_counter(), sent_bytes()
            self.other()
            if n:  # the first one makes the plans
                self.seconds.append((middle - start, time.perf_counter() - middle))
                self.n_bytes.append(after - before)
        self.value, self.n_weights = value, len(w)
        return SolverReport(w0, 0, np.array([value]), np.nan, np.inf, True, "evaluated")


_kept = []


def keep_local(n_tokens, n_parts, n_attributes):
    """Keep in this process an objective of all parts; return its number of weights."""
    from sklearn_hocrf._data.batch import SequenceBatch

    batches, y = [], []
    for number in range(n_parts):
        batches.append(make_batch(n_tokens // n_parts, number, n_attributes))
        y += make_labels(n_tokens // n_parts, number, n_attributes)
    offsets, indptr = (
        np.concatenate([[0], *(np.diff(getattr(batch, name)) for batch in batches)]).cumsum()
        for name in ("offsets", "indptr")
    )
    batch = SequenceBatch(offsets, indptr, np.concatenate([b.indices for b in batches]), None, batches[0].n_attributes)

    class Keep(Evaluate):
        def solve(self, objective, penalty, w0):
            _kept[:] = [objective, 0.1 * np.random.default_rng(0).normal(size=len(w0))]
            return super().solve(objective, penalty, w0)

    HighOrderCRF(1, solver=Keep(0)).fit(batch, y)
    return len(_kept[1])


def evaluate_local():
    return _kept[0].value_gradient(_kept[1])[0]


class Measured(NamedTuple):
    """Gradients on two workers and in one process, in turns.   R rounds."""

    n_weights: int
    seconds: np.ndarray  # (R, 2)
    n_bytes: np.ndarray  # (R,)   that the loopback device has sent
    steps: float  # seconds of L-BFGS in an iteration

    @property
    def iterations(self):
        """Seconds of iterations; shape (R, 2)."""
        return self.seconds + self.steps

    @property
    def bare(self):
        """The iteration of two processes that exchange nothing, in times of that of one."""
        return float(np.median((BARE * self.seconds[:, 1] + self.steps) / self.iterations[:, 1]))

    @property
    def sent(self):
        """Vectors of weights that are sent for each worker, with the headers of packets; shape (R,)."""
        return self.n_bytes / (2 * 8 * self.n_weights)


def measure_gradient(n_tokens, n_parts, n_rounds, n_attributes):
    """Return what is measured, all of it in processes that start now."""
    with (
        Process() as process,
        LocalCluster(n_workers=2, memory_limit=0, **OPTIONS) as cluster,
        Client(cluster) as client,
    ):
        process.run(keep_local, n_tokens, n_parts, n_attributes)
        crf = HighOrderCRF(1, solver=Evaluate(n_rounds, lambda: process.run(evaluate_local)))
        parts = partitions(n_tokens, n_parts, n_attributes)
        solver = fit_quietly(DaskSequenceLabeler(crf, client), *parts).estimator_.solver
        value = process.run(evaluate_local)
        assert abs(solver.value - value) <= 1e-9 * abs(value), (solver.value, value)
        steps = np.median(seconds_of_steps(solver.n_weights))
        return Measured(solver.n_weights, np.array(solver.seconds), np.array(solver.n_bytes), steps)


class Bowl:
    """A function whose gradient costs nothing, to time the solver."""

    is_convex = True

    def __init__(self, n_weights):
        self.scale = 1.0 + np.arange(n_weights) % 97

    def value_gradient(self, w):
        gradient = self.scale * w
        return 0.5 * float(gradient @ w), gradient


def seconds_of_steps(n_weights):
    """Return what L-BFGS itself takes for each iteration."""
    times = []
    solver = LBFGSMinimizer(tol=0.0, max_iter=12, callback=lambda _: times.append(time.perf_counter()))
    solver.solve(Bowl(n_weights), Penalty(0.0), np.ones(n_weights))
    return np.diff(times) if len(times) > 1 else np.array([np.nan])

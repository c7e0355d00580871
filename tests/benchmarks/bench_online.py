"""Stochastic training on chunking (conll2000): epochs compared with CRFsuite's l2sgd, streams, time to the optimum.

    python tests/benchmarks/bench_online.py [--rounds N] [--n-sentences N]

All times are processor seconds, on one thread. The times of SGD include the exact objective after each epoch. Both
programs take turns. The settings and requirements are those of ``bench_chunking.py``.
"""

import time
from dataclasses import dataclass

import numpy as np
from bench_chunking import SETTINGS, Moments, TimedLBFGS, absent, load_chunks, load_kernels, scores, train_crfsuite
from common import fit_quietly, parse, skipped

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._engine.training.stochastic import SGDMinimizer
from sklearn_hocrf.training import SGD

CALLS = 9  # of partial_fit for a pass over the data


class TimedSGD(SGD):
    """A solver that notes when it began, when each epoch or iteration ended, and what the objective was then."""

    note = TimedLBFGS.note

    def __init__(self, **settings):
        super().__init__(callback=self.note, **settings)
        self.moments, self.values = Moments(), []

    def minimizer(self, *settings):
        return TimedMinimizer(*settings, self, self.moments)


@dataclass
class TimedMinimizer(SGDMinimizer):
    """A minimiser that notes when it begins."""

    moments: Moments | None = None

    def solve(self, objective, penalty, w0):
        self.moments.note()
        return super().solve(objective, penalty, w0)


def course_of(chunks, solver, **settings):
    """Return the seconds at which each iteration of a training ended, with its calibration, and the objectives."""
    fit_quietly(HighOrderCRF(**SETTINGS | settings, solver=solver, random_state=0), chunks.train, chunks.y_train)
    seconds = np.array([reading[0] for reading in solver.moments.readings])
    return seconds - seconds[0], np.array(solver.values)


def epoch_of(chunks, max_order=1, **settings):
    """Return the median seconds of an epoch of SGD."""
    solver = TimedSGD(step_size=0.4, **settings)
    return float(np.median(np.diff(course_of(chunks, solver, max_order=max_order, max_iter=3)[0])))


def stream(chunks, n_passes):
    """Return the seconds of calls of ``partial_fit``, and F1 after them."""
    crf = HighOrderCRF(**SETTINGS, solver=SGD(n_sequences=len(chunks.train)), random_state=0)
    start, size = time.process_time(), -(-len(chunks.train) // CALLS)
    labels = sorted({label for labels in chunks.y_train for label in labels})
    for first in [*range(0, len(chunks.train), size)] * n_passes:
        part = slice(first, first + size)
        crf.partial_fit(chunks.train[part], chunks.y_train[part], classes=labels)
    seconds = time.process_time() - start
    return seconds, scores(chunks, crf.predict(chunks.test))[1]


def main(arguments=None):
    options = parse(__doc__, arguments, rounds=3, n_sentences=int, quick=False)
    if skipped(absent()):
        return
    chunks = load_chunks(200 if options.quick else options.n_sentences)
    load_kernels(chunks)
    few = chunks._replace(train=chunks.train[:50], y_train=chunks.y_train[:50])
    kinds = {"order 1": {}, "order 2": {"max_order": 2}, "order 2, batch_size=8": {"max_order": 2, "batch_size": 8}}
    for settings in kinds.values():
        epoch_of(few, **settings)  # compiles
    found = []
    for _ in range(1 if options.quick else options.rounds):
        peer = np.median(np.diff(train_crfsuite(chunks, 4, "l2sgd", delta=0.0).processor))
        found.append([peer, *(epoch_of(chunks, **settings) for settings in kinds.values())])
    seconds = dict(zip(["l2sgd", *kinds], np.median(found, axis=0).round(3).tolist(), strict=True))
    print("seconds of an epoch:", seconds)
    print("ratios, medians:", *np.median([[s / peer for s in ours] for peer, *ours in found], axis=0).round(2))
    for n_passes in 1, 2:
        print("stream of {} calls: {:.2f} s, F1 {:.4f}".format(CALLS * n_passes, *stream(chunks, n_passes)))
    courses = [course_of(chunks, solver) for solver in (TimedLBFGS(), TimedSGD())]
    for above in 0.1, 0.03, 0.01, 0.001:
        reached = [np.flatnonzero(values <= courses[0][1][-1] * (1 + above)) for _, values in courses]
        ours = [
            f"{seconds[1 + at[0]]:.1f} s ({at[0] + 1})" if len(at) else "never"
            for (seconds, _), at in zip(courses, reached, strict=True)
        ]
        print(f"{above:.1%} above the optimum: L-BFGS after {ours[0]}, SGD after {ours[1]}")


if __name__ == "__main__":
    main()

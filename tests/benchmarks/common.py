"""What the benchmarks share: the optional data, measurements that take turns, tables of ratios with their spread."""

import os
import resource
import sys
import time
from pathlib import Path

import numpy as np


def data_file(*parts):
    """Return the path of an optional data file, or None where it is absent: $SKLEARN_HOCRF_DATA or ../shared/data."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(os.environ.get("SKLEARN_HOCRF_DATA") or beside, *parts)
    return path if path.is_file() else None


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


def with_spread(values, form=".3f"):
    """Return the median of some values and, in brackets, the smallest and the largest."""
    return f"{np.median(values):{form}} [{np.min(values):{form}} {np.max(values):{form}}]"


def print_table(heads, rows):
    """Print rows of texts under their heads, the first column to the left, the others to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in [heads, *rows]:
        others = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *others]), flush=True)


def n_weights(model):
    """Return how many weights a fitted model has."""
    n_single = sum(len(pattern) == 1 for pattern in model.patterns_)
    return model.coef_.nnz + len(model.patterns_) - (0 if model.fit_intercept else n_single)


def peak_mebibytes():
    """Return the peak resident memory of this process so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

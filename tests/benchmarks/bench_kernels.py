"""Where the time of a gradient and of decoding goes, kernel by kernel.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_kernels.py [--quick] [--rounds N] [--tasks T ...]

prints a line a kernel: its calls in one pass over the training data, milliseconds of the processor, measured call by
call inside a real pass, on one thread; their share of the whole; and the KiB of all arrays that a call gets, which tell
from which cache it works. It finds the kernels by itself. Needs conll2000, ocr and cora_references in
SKLEARN_HOCRF_DATA or ../shared/data, and leaves out what is absent; without ocr, words of digits take its place.
``--quick`` takes a few sequences.
"""

import argparse
import importlib
import pkgutil
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple
from unittest import mock

import bench_bibliography
import bench_chunking
import bench_handwriting
import numpy as np
from common import absent, print_table, skip_where, some_weights, training_objective, with_spread
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, _kernels

clock = time.process_time


def kernels():
    """Yield the module, the name and the kernel of all that have been compiled because Python called them."""
    for info in pkgutil.iter_modules(_kernels.__path__):
        module = importlib.import_module(f"{_kernels.__name__}.{info.name}")
        for name, value in vars(module).items():
            own = getattr(getattr(value, "py_func", None), "__module__", None) == module.__name__
            if own and value.signatures:
                yield module, name, value


@contextmanager
def watched(note):
    """Call ``note(name, kernel, arguments)`` in place of each kernel that is compiled."""
    with ExitStack() as stack:
        for module, name, kernel in list(kernels()):
            title = f"{module.__name__.split('.')[-1]}.{name}"
            stack.enter_context(mock.patch.object(module, name, partial(_pass_on, note, title, kernel)))
        yield


def _pass_on(note, name, kernel, *arguments):
    return note(name, kernel, arguments)


class Calls(NamedTuple):
    """The calls of a kernel in one pass."""

    number: int
    seconds: float  # of the processor, together
    n_bytes: float  # of all arrays of a call, on average


def calls_of_kernels(task):
    """Return the calls of each kernel while ``task()`` runs, by name, and the seconds of the task as a whole."""
    task()  # compiles what it needs, so that it is watched
    calls_by_name = {}

    def note(name, kernel, arguments):
        start = clock()
        result = kernel(*arguments)
        calls_by_name.setdefault(name, []).append((clock() - start, sum(map(_size, arguments))))
        return result

    with watched(note):
        start = clock()
        task()
        whole = clock() - start
    totals = {name: np.array(calls) for name, calls in calls_by_name.items()}
    calls = {name: Calls(len(table), table[:, 0].sum(), table[:, 1].mean()) for name, table in totals.items()}
    return calls, whole


def _size(argument):
    """Return the bytes of an array, or of the arrays of a NamedTuple."""
    return sum(map(_size, argument)) if isinstance(argument, tuple) else getattr(argument, "nbytes", 0)


def chunking(quick):
    """Return the likelihood of chunking at order 1, or None where the data is absent."""
    if absent(bench_chunking.TRAIN, bench_chunking.TEST):
        return None
    chunks = bench_chunking.load_chunks(100 if quick else None)
    return training_objective(HighOrderCRF(**bench_chunking.SETTINGS), chunks.train, chunks.y_train)


def handwriting(max_order, quick):
    X, y = bench_handwriting.load_words()[0]
    return bench_handwriting.make_objective((X[:50], y[:50]) if quick else (X, y), max_order)


def bibliography(quick):
    """Return the likelihood of references under a semi-CRF of order 2, or None where the data is absent."""
    data = bench_bibliography.load_references(20 if quick else None)
    if data is None:
        return None
    features = bench_bibliography.segment_features().fit_transform(data.X, data.y)
    return training_objective(bench_bibliography.segment_model(2), features, data.y)


TASKS = {
    "conll2000, order 1": chunking,
    "handwriting, order 1": partial(handwriting, 1),
    "handwriting, order 3": partial(handwriting, 3),
    "handwriting, order 5": partial(handwriting, 5),
    "bibliography, semi-CRF of order 2": bibliography,
}


class Pass:
    """A gradient of the likelihood, and the best labelling, at one point and on one thread."""

    params = list(TASKS)
    param_names = ["task"]

    def setup(self, task, objective=None):
        self.objective = TASKS[task](False) if objective is None else objective
        skip_where("the data is absent" if self.objective is None else None)
        self.problem, self.w = self.objective.problem, some_weights(self.objective)

    def time_gradient(self, task=None):
        return self.objective.value_gradient(self.w)

    def time_decode(self, task=None):
        return self.problem.model(self.w).decode(self.problem.batch)


def print_calls(title, rounds):
    """Print a line for each kernel, and one for all that is done outside of them, from several passes."""
    whole = 1e3 * np.array([seconds for _, seconds in rounds])
    lines, outside = [], whole.copy()
    for name, (number, _, n_bytes) in rounds[0][0].items():
        spent = 1e3 * np.array([calls[name].seconds for calls, _ in rounds])
        outside -= spent
        lines.append((name, number, with_spread(spent, ".1f"), _share(spent, whole), f"{n_bytes / 1024:.0f}"))
    lines.append(("outside of kernels", "", with_spread(outside, ".1f"), _share(outside, whole), ""))
    lines.append(("all", "", with_spread(whole, ".1f"), "", ""))
    print(f"\n{title}")
    print_table(["", "calls", "ms", "share", "KiB"], lines)


def _share(part, whole):
    return f"{np.median(part / whole):.0%}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few sequences")
    parser.add_argument("--rounds", type=int, default=9, help="passes to time (default: %(default)s)")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="which ones (default: all)")
    options = parser.parse_args(arguments)
    for name in options.tasks:
        objective = TASKS[name](options.quick)
        if objective is None:
            print(f"\n{name}: skipped, the data is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data")
            continue
        case = Pass()
        case.setup(name, objective)
        with threadpool_limits(1):
            for what, task in {"gradient": case.time_gradient, "decoding": case.time_decode}.items():
                print_calls(f"{name}, {what}", [calls_of_kernels(task) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()

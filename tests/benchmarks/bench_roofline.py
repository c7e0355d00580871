"""Roofline: what each kernel of a gradient and of decoding must do, how fast it does it, and what this core can do.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_roofline.py [--quick] [--rounds N] [--tasks T ...]

prints a line a kernel: operations (multiply-adds, additions, comparisons, of single numbers) and bytes that one pass
over the training data takes, counted from the tables of model and plan; seconds of the processor, measured call by call
inside a real pass; and the rates as a share of what plain loops do in the same round:

* *arithmetic*: polynomials of degree 16 of numbers in the first-level cache, a multiply-add for each degree;
* *streaming*: y += a x over as much memory as the tables of one call take, 24 bytes a number;
* *gather*, for products of sparse rows: the same weights in the same order, as a plain sum of each feature's weights
  (or, for the adjoint, a plain increment of each) with nothing else done.

Bytes are those that instructions load and store, wherever they are found; empty lanes count as full ones. Needs
conll2000, ocr and cora_references in SKLEARN_HOCRF_DATA or ../shared/data, and leaves out what is absent; without ocr,
words of digits take its place. ``--quick`` takes a few sequences.
"""

import argparse
import inspect
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

import bench_bibliography
import bench_chunking
import bench_handwriting
import numpy as np
from common import absent, print_table, skip_where, some_weights, take_turns, training_objective, with_spread
from numba import njit
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._batch import Rows
from sklearn_hocrf._kernels import chain, rows, segments, semi

clock = time.process_time
EXP = 17  # operations of exp: reduction of the argument and a polynomial of degree 13
NUMBER = 8  # bytes


class Work(NamedTuple):
    """What a kernel must do."""

    operations: float  # of single numbers
    n_bytes: float  # loaded and stored


def network_work(lattice):
    """Return operations and numbers of the sum network, and of the transposed one, for one row and lane."""
    n_sums, n_terms = len(lattice.starts) - 1, len(lattice.terms)
    n_back_sums, n_back_terms = len(lattice.back_starts) - 1, len(lattice.back_terms)
    forward = n_terms - n_sums, n_terms + n_sums
    return forward, (n_back_terms - n_back_sums, n_back_terms + n_back_sums)


def sizes(lattice):
    """Return the numbers of labels, states, arcs and slots."""
    return lattice.n_labels, len(lattice.fail), len(lattice.arc_slot), len(lattice.slot_arc)


def slot_numbers(lattice):
    """Return how many slots have scores of their own, and how many a suffix with scores, together."""
    return int((lattice.slot_column >= 0).sum() + (lattice.slot_up >= 0).sum())


def by_row(slab, operations, numbers):
    """Return the work of a kernel that does the same for each row of a slab and each lane."""
    cells = float(slab.rows[-1]) * slab.length.shape[1]
    return Work(cells * operations, NUMBER * cells * numbers)


def exponentiate_work(call):
    n_labels, _, _, n_slots = sizes(call.lattice)
    numbers = 3 * n_labels + 2 * n_slots + slot_numbers(call.lattice)
    return by_row(call.slab, n_labels * (5 + EXP) + n_slots * (9 + EXP), numbers)


def forward_work(call):
    n_labels, n_states, n_arcs, n_slots = sizes(call.lattice)
    additions, numbers = network_work(call.lattice)[0]
    operations = n_labels + additions + 2 * n_arcs + 4 * n_states
    return by_row(call.slab, operations, 2 * n_labels + numbers + n_arcs + n_slots + 3 * n_states)


def counting(call):
    """Return how many numbers are read and written to count an arc, for each lane: sums have fewer columns."""
    return 2 * call.counts.shape[1] / call.slab.length.shape[1]


def backward_work(call):
    n_labels, n_states, n_arcs, n_slots = sizes(call.lattice)
    (additions, numbers), (back_additions, back_numbers) = network_work(call.lattice)
    operations = additions + back_additions + 4 * n_arcs + 3 * n_states + 3 * n_slots
    numbers += back_numbers + (2 + counting(call)) * n_arcs + 7 * n_states + 3 * n_labels + 5 * n_slots
    return by_row(call.slab, operations, numbers)


def backward_max_work(call):
    _, n_states, n_arcs, n_slots = sizes(call.lattice)
    comparisons, numbers = network_work(call.lattice)[1]
    return by_row(call.slab, comparisons + n_arcs + n_states + n_slots, numbers + n_arcs + 4 * n_states + n_slots)


def slot_work(call):
    n_slots = len(call.lattice.slot_arc)
    return Work(call.dynamic.size, NUMBER * 3 * call.dynamic.size if n_slots else 0)


def walk_work(call):
    """Return the work of choosing the best label of each token; each label takes six numbers, three of them int32."""
    choices = float(call.slab.length.sum()) * call.lattice.n_labels
    return Work(3 * choices, 36 * choices)


def segment_counts(slab, longest):
    """Return how many segments of at most so many tokens end in the rows of a slab; shape of ``longest``."""
    n_rows = np.diff(slab.rows)[:, None].astype(float)
    most = np.minimum(longest, n_rows)
    return (most * n_rows - most * (most - 1) / 2).sum(axis=0)


def segment_cells(call):
    """Return how many (row, label, length) and (row, state, length) there are in a slab, for each lane."""
    if len(call.tables.whole_arc):
        raise ValueError("the work on features of whole segments with patterns of two or more labels is not counted")
    n_labels = call.lattice.n_labels
    counts = segment_counts(call.slab, call.tables.longest[:n_labels])
    return counts.sum(), counts @ np.diff(call.tables.first_state)


def with_segments(work, slab, operations, numbers):
    """Return the work together with that on segments, of each lane."""
    lanes = slab.length.shape[1]
    return Work(work.operations + lanes * operations, work.n_bytes + NUMBER * lanes * numbers)


def semi_forward_work(call):
    _, n_states, n_arcs, n_slots = sizes(call.lattice)
    additions, numbers = network_work(call.lattice)[0]
    n_segments, n_cells = segment_cells(call)
    operations = additions + 4 * n_arcs + 8 * n_states + n_slots * (10 + EXP)
    numbers += n_arcs + 10 * n_states + 4 * n_slots
    work = by_row(call.slab, operations, numbers)
    return with_segments(work, call.slab, (5 + EXP) * n_segments + n_cells, 6 * n_segments + 3 * n_cells)


def semi_backward_work(call):
    _, n_states, n_arcs, n_slots = sizes(call.lattice)
    (additions, numbers), (back_additions, back_numbers) = network_work(call.lattice)
    n_segments, n_cells = segment_cells(call)
    operations = additions + back_additions + 5 * n_arcs + 2 * n_states + n_slots
    numbers += back_numbers + (2 + counting(call)) * n_arcs + 7 * n_states + 5 * n_slots
    work = by_row(call.slab, operations, numbers)
    return with_segments(work, call.slab, n_segments + 2 * n_cells, 2 * n_segments + 4 * n_cells)


def semi_backward_max_work(call):
    _, n_states, n_arcs, n_slots = sizes(call.lattice)
    comparisons, numbers = network_work(call.lattice)[1]
    n_segments, n_cells = segment_cells(call)
    work = by_row(call.slab, comparisons + n_arcs + n_slots, numbers + n_arcs + 4 * n_states + n_slots)
    return with_segments(work, call.slab, 2 * n_cells, n_segments + 3 * n_cells)


def semi_walk_work(call):
    """Return the work of choosing the best segment at each border: three numbers for each label and length."""
    choices = 0.0
    for first, length in zip(call.slab.first_token.ravel(), call.slab.length.ravel(), strict=True):
        starts = np.flatnonzero(call.lengths[first : first + length])
        longest = call.tables.longest[: call.lattice.n_labels]
        choices += np.minimum(longest, length - starts[:, None]).sum()
    return Work(3 * choices, 3 * NUMBER * choices)


def members_work(call):
    """Return how many terms the segments of a slab have, for each lane, and how many segments there are."""
    tables = call.tables
    target = np.repeat(np.arange(len(tables.longest)), np.diff(tables.member_starts))
    shortest, longest = tables.member_channel[:, 2], np.minimum(tables.member_channel[:, 3], tables.longest[target])
    at_most, shorter = (segment_counts(call.slab, np.maximum(d, 0)) for d in (longest, shortest - 1))
    return np.maximum(at_most - shorter, 0).sum(), segment_counts(call.slab, tables.longest).sum()


def assemble_work(call):
    n_terms, n_segments = members_work(call)
    return with_segments(Work(0, 0), call.slab, n_terms + n_segments, n_terms + n_segments)


def collect_work(call):
    n_terms, n_segments = members_work(call)
    cleared = float(call.slab.rows[-1]) * len(call.tables.member_column)
    lengths = 2 * n_segments if len(call.length_counts) else 0
    return with_segments(
        Work(0, 0), call.slab, n_terms + n_segments + lengths / 2, 2 * n_terms + n_segments + cleared + lengths
    )


KERNELS = {  # in which module, and what counts the work of a call
    "rows.score_rows": (rows, None),
    "rows.slot_scores": (rows, slot_work),
    "chain.exponentiate": (chain, exponentiate_work),
    "chain.forward": (chain, forward_work),
    "chain.backward": (chain, backward_work),
    "segments.assemble": (segments, assemble_work),
    "semi.forward": (semi, semi_forward_work),
    "semi.backward": (semi, semi_backward_work),
    "segments.collect": (segments, collect_work),
    "rows.add_expectations": (rows, None),
    "chain.backward_max": (chain, backward_max_work),
    "chain.walk": (chain, walk_work),
    "semi.backward_max": (semi, semi_backward_max_work),
    "semi.walk": (semi, semi_walk_work),
}


@contextmanager
def watched(note):
    """Call ``note(name, kernel, arguments)`` in place of each kernel of the table."""
    with ExitStack() as stack:
        for name, (module, _) in KERNELS.items():
            attribute = name.split(".")[1]
            kernel = getattr(module, attribute)
            stack.enter_context(mock.patch.object(module, attribute, partial(_pass_on, note, name, kernel)))
        yield


def _pass_on(note, name, kernel, *arguments):
    note(name, kernel, arguments)


def seconds_of_kernels(task):
    """Return the seconds of each kernel while ``task()`` runs, by name, and those of the task under None."""
    seconds = {}

    def note(name, kernel, arguments):
        start = clock()
        kernel(*arguments)
        seconds[name] = seconds.get(name, 0.0) + clock() - start

    with watched(note):
        start = clock()
        task()
        return seconds | {None: clock() - start}


class Calls(NamedTuple):
    """The calls of a kernel in one pass."""

    number: int
    work: Work
    n_bytes: float  # of all arrays of a call, on average


def work_of(name, kernel, arguments):
    """Return the work of a call; that of the products of sparse rows is counted for a whole pass, see ``Entries``."""
    names, count = inspect.signature(kernel.py_func).parameters, KERNELS[name][1]
    return Work(0, 0) if count is None else count(SimpleNamespace(**dict(zip(names, arguments, strict=True))))


def count_work(task):
    """Return the calls of each kernel while ``task()`` runs, by name."""
    calls = {}

    def note(name, kernel, arguments):
        kernel(*arguments)
        work = work_of(name, kernel, arguments)
        calls.setdefault(name, []).append((*work, sum(map(_size, arguments))))

    with watched(note):
        task()
    return {
        name: Calls(len(found), Work(*np.sum(found, axis=0)[:2]), np.mean(found, axis=0)[2])
        for name, found in calls.items()
    }


def _size(argument):
    """Return the bytes of an array, or of the arrays of a NamedTuple."""
    return sum(map(_size, argument)) if isinstance(argument, tuple) else getattr(argument, "nbytes", 0)


class Entries(NamedTuple):
    """The features of all tokens, in the order in which a pass takes them.   M of them that have weights."""

    first: np.ndarray  # (M,) int64   range of the weights
    stop: np.ndarray
    is_dense: np.ndarray  # (M,) bool   whether the weights are a row of the dense table
    width: int  # of the dense table
    n_pairs: int
    n_cells: int  # tokens times score columns
    rows: Rows  # the same for kernels

    def work(self, adjoint):
        """Return the work of the sparse product, or of its adjoint, which writes weights as well as reads them."""
        n_dense = int(self.is_dense.sum())
        n_sparse = int((self.stop - self.first)[~self.is_dense].sum())
        weights = (n_dense * self.width + n_sparse) * NUMBER * (2 if adjoint else 1)
        n_single = int((self.rows.ranges - self.rows.singles).sum())
        columns = 4 * (n_sparse - n_single)  # of ranges of pairs: int32
        places = self.rows.place.nbytes + self.rows.other.nbytes + self.rows.values.nbytes + columns
        return Work(n_dense * self.width + n_sparse, weights + places + NUMBER * self.n_cells)


def entries_of(problem):
    """Return the features of the problem's tokens."""
    plan, layout = problem.plan, problem.layout
    sequences = np.concatenate([piece.sequences.ravel() for chunk in plan.chunks for piece in chunk])
    batch = problem.batch[sequences[sequences >= 0]]
    ranks = layout._rank[batch.indices]
    ranks = ranks[ranks >= 0]
    starts, n_cells = layout.pairs.starts, batch.n_tokens * layout.pairs.n_columns
    return Entries(
        starts[ranks],
        starts[ranks + 1],
        ranks < layout.pairs.n_dense,
        layout.dense_table().shape[1],
        layout.n_pairs,
        n_cells,
        plan.rows,
    )


@njit(fastmath={"contract"})
def plain_polynomials(x, y, n_times):
    for _ in range(n_times):
        for i in range(len(x)):
            total = 1.0
            for _ in range(16):
                total = total * x[i] + 0.5
            y[i] += total


@njit(fastmath={"contract"})
def plain_stream(x, y, n_times):
    for _ in range(n_times):
        for i in range(len(x)):
            y[i] += 1.0001 * x[i]


@njit(fastmath=True)
def plain_gather(first, stop, weights, totals):
    for entry in range(len(first)):
        total = 0.0
        for pair in range(first[entry], stop[entry]):
            total += weights[pair]
        totals[entry % len(totals)] += total


@njit
def plain_scatter(first, stop, gradient):
    for entry in range(len(first)):
        for pair in range(first[entry], stop[entry]):
            gradient[pair] += 1.0


class PlainLoops:
    """What this core does in one round: each loop runs once, and twice more to be timed."""

    def __init__(self, entries):
        self.entries = entries
        self._seconds = {}

    def arithmetic(self):
        """Return multiply-adds a second."""
        n, n_times = 512, 4_000
        return 16 * n * n_times / self._time("arithmetic", plain_polynomials, np.ones(n), np.ones(n), n_times)

    def streaming(self, n_bytes):
        """Return bytes a second in memory of about this size."""
        exponent = int(np.clip(np.round(np.log2(n_bytes / (2 * NUMBER))), 10, 22))
        n, n_times = 1 << exponent, 1 << 24 - exponent
        return 24 * n * n_times / self._time(exponent, plain_stream, np.ones(n), np.ones(n), n_times)

    def gather(self, name):
        """Return the seconds that it takes to fetch all weights; None for kernels that do something else."""
        entries, weights = self.entries, np.ones(self.entries.n_pairs)
        if name == "rows.score_rows":
            return self._time(name, plain_gather, entries.first, entries.stop, weights, np.ones(64))
        if name == "rows.add_expectations":
            return self._time(name, plain_scatter, entries.first, entries.stop, weights)
        return None

    def _time(self, name, loop, *arguments):
        if name not in self._seconds:
            self._seconds[name] = take_turns([partial(loop, *arguments)], 2, clock).min()
        return self._seconds[name]


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


class Measured(NamedTuple):
    """A kernel in several passes.   N rounds; loops that are not comparable take NaN seconds."""

    calls: Calls
    seconds: np.ndarray  # (N,)   of the processor
    arithmetic: np.ndarray  # (N,)   seconds that the plain loops take for the same operations,
    streaming: np.ndarray  # (N,)   for as many bytes,
    gather: np.ndarray  # (N,)   and for fetching the same weights


def measure(task, entries, n_rounds):
    """Return what the kernels in ``task()`` come to, by name; the task as a whole, in seconds, is under None."""
    calls = count_work(task)
    for name in calls.keys() & {"rows.score_rows", "rows.add_expectations"}:
        calls[name] = calls[name]._replace(work=entries.work(name == "rows.add_expectations"))
    seconds = {name: np.empty((n_rounds, 4)) for name in calls} | {None: np.empty(n_rounds)}
    for number in range(n_rounds):
        plain, found = PlainLoops(entries), seconds_of_kernels(task)
        seconds[None][number] = found[None]
        for name, (_, work, n_bytes) in calls.items():
            seconds[name][number] = (
                found[name],
                work.operations / plain.arithmetic(),
                work.n_bytes / plain.streaming(n_bytes),
                plain.gather(name) or np.nan,
            )
    return {name: Measured(calls[name], *seconds[name].T) for name in calls} | {None: seconds[None]}


def print_measured(title, measured):
    """Print a line for each kernel, and one for all that is done outside of them."""
    whole = measured.pop(None)
    lines = []
    for name, ((n_calls, work, n_bytes), seconds, *plain) in measured.items():
        arithmetic, streaming, gather = (loop / seconds for loop in plain)
        lines.append(
            (
                name,
                n_calls,
                f"{1e-6 * work.operations:.1f}",
                f"{1e-6 * work.n_bytes:.1f}",
                with_spread(1e3 * seconds, ".1f"),
                f"{1e-9 * work.operations / np.median(seconds):.2f}",
                with_spread(arithmetic, ".2f"),
                f"{1e-9 * work.n_bytes / np.median(seconds):.1f}",
                with_spread(streaming, ".2f"),
                f"{n_bytes / 1024:.0f}",
                "" if np.isnan(gather).any() else with_spread(gather, ".2f"),
            )
        )
    others = whole - sum(found.seconds for found in measured.values())
    first = next(iter(measured.values()))
    rate = with_spread(1e-9 * first.calls.work.operations / first.arithmetic, ".1f")
    lines.append(("outside of kernels", "", "", "", with_spread(1e3 * others, ".1f"), *[""] * 6))
    lines.append(("all", "", "", "", with_spread(1e3 * whole, ".1f"), *[""] * 6))
    print(f"\n{title}; the plain loop of arithmetic: {rate} 10^9 op./s")
    heads = ["", "calls", "million op.", "MB", "ms", "10^9 op./s", "of arithmetic", "GB/s", "of streaming", "of KiB"]
    print_table([*heads, "of gather"], lines)


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
        case, problem = Pass(), objective.problem
        case.setup(name, objective)
        entries = entries_of(problem)
        slabs = [slab for chunk in problem.plan.chunks for piece in chunk for slab in piece.slabs]
        n_cells = sum(slab.rows[-1] * slab.length.shape[1] for slab in slabs)
        lanes = f"{problem.batch.n_tokens} tokens, which fill {problem.batch.n_tokens / n_cells:.0%} of the lanes"
        with threadpool_limits(1):
            for what, task in {"gradient": case.time_gradient, "decoding": case.time_decode}.items():
                print_measured(f"{name}, {what}: {lanes}", measure(task, entries, options.rounds))


if __name__ == "__main__":
    main()

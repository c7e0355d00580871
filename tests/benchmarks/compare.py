"""Run all comparisons of speed and memory, and write them as a Markdown table.

    python tests/benchmarks/compare.py [--tasks T ...] [--quick] [--rounds N] [--output table.md]

Each row gives the figure of this package, the figure of its peer, their ratio and, for some rows, a limit. Figures are
medians; for ratios, the table also gives the lowest and highest of all rounds, in which both programs take turns. The
peer is python-crfsuite or the yardstick U, an iteration of python-crfsuite on conll2000 that is measured in every
round. Times are processor seconds on one thread, unless a row says that they are wall time. Each side of a comparison
runs in a separate process, so a task that fails does not end another. The longest tasks do not follow ``--rounds``:
``large`` measures once, ``cluster`` in eight rounds. If data or programs are absent, a line reports that their tasks
are skipped. ``--quick`` takes a few sentences and iterations: this shows that everything runs, but its ratios are
meaningless.
"""

import os
import platform
import sys
import tempfile
import time
import traceback
import unittest.mock
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import NamedTuple

import bench_addresses
import bench_chunking
import bench_handwriting
import bench_kinds
import bench_latency
import bench_memory
import bench_pruning
import bench_segments
import bench_start
import bench_tagging
import numpy as np
import yardstick
from common import N_ATTRIBUTES, Absent, Process, absent, elsewhere, parse, skip_where, with_spread


class AtMost(NamedTuple):
    """A limit on a ratio or, of what has no peer, on the figure itself."""

    value: float

    def is_met(self, figure):
        return figure <= self.value

    def __str__(self):
        return f"<= {self.value:.4g}"


class AtLeast(AtMost):
    """A limit from below."""

    def is_met(self, figure):
        return figure >= self.value

    def __str__(self):
        return f">= {self.value:.4g}"


TO_OBJECTIVE = "training to python-crfsuite's last objective"
LIMITS = {
    ("chunking", TO_OBJECTIVE): AtMost(0.5),
    ("chunking", f"{TO_OBJECTIVE}, n_jobs=2, on the wall"): AtMost(0.3),
    ("chunking", "gradient, n_jobs=2, on the wall"): AtMost(1 / 1.7),
    ("handwriting", "gradient, order 1"): AtMost(0.03),
    ("handwriting", "gradient, order 5"): AtMost(0.1),
    ("handwriting", "gradient, order 5, n_jobs=2, on the wall"): AtMost(1 / 1.7),
    ("punctuation", "training, C^1"): AtMost(14),
    ("punctuation", "training, C^2"): AtMost(25),
    ("punctuation", "training, C^3"): AtMost(45),
    ("tagging", "extracted features"): AtLeast(3),
    ("tagging", "extracted features, order 1, n_jobs=2, on the wall"): AtMost(0.58),
    ("tagging", "extracted features, order 3, n_jobs=2, on the wall"): AtMost(0.58),
    ("tagging", "raw tokens, order 1, n_jobs=2, on the wall"): AtMost(0.85),
    ("tagging", "raw tokens, order 3, n_jobs=2, on the wall"): AtMost(0.85),
    ("tagging", "raw tokens, extraction included"): AtLeast(5),
    ("start", "warm import, fit and predict beyond scikit-learn's import"): AtMost(1),
    ("start", "cold import, fit and predict"): AtMost(15),
    ("latency", "pipeline from tokens"): AtMost(1.0),
    ("latency", "feature lists"): AtMost(1.1),
    ("latency", "marginals"): AtMost(2.5),
    ("latency", "segments with probabilities"): AtMost(2.5),
    ("latency", "ten best"): AtMost(1000),
    ("latency", "tables kept beside the weights"): AtMost(0.5),
    ("addresses", "order 3, in a batch"): AtLeast(1),
    ("addresses", "segments of order 3, in a batch"): AtLeast(0.5),
    ("addresses", "order 3, one by one"): AtLeast(1.2),
    ("addresses", "the same, scikit-learn's Pipeline"): AtLeast(0.8),
    ("addresses", "the same, Tagger"): AtLeast(1.2),
    ("addresses", "the same, the file alone"): AtLeast(0.25),
    ("addresses", "labels, marginals, probability, in a batch"): AtLeast(1),
    ("addresses", "the same, Tagger, one by one"): AtLeast(0.6),
    ("pruning", "gradient, 6 candidates"): AtMost(0.05),
    ("pruning", "60 iterations from raw words, 6 candidates"): AtMost(0.35),
    ("pruning", "raw words, 6 candidates"): AtLeast(30_000),
    ("pruning", "gradient, 6 candidates, labels with parts"): AtMost(1.5),
    ("memory", "training, above inputs (features)"): AtMost(0.8),
    ("memory", "training, above imports (features)"): AtMost(0.5),
    ("large", "training, above inputs"): AtMost(2253),
    ("cluster", "iteration, 100,000 attributes, on the wall"): AtMost(0.6),
    # 2.5 vectors; headers of packets are .1 % of them, and other messages some 50 kB an iteration
    ("cluster", "sent to each worker, 1,000,000 attributes"): AtMost(2.51),
    ("cluster", "sent to each worker, 100,000 attributes"): AtMost(2.51),
}


class Row(NamedTuple):
    """A line of the table.   R rounds.

    The cost of a higher order is limited by its number of arcs, so such rows bring their own ``limit``.
    """

    task: str
    what: str
    unit: str
    ours: np.ndarray  # (R,)
    peer: np.ndarray | None = None  # (R,)
    peer_name: str = "python-crfsuite"
    own_limit: AtMost | None = None

    @property
    def figure(self):
        """The ratio of each round or, where there is no peer, the figure itself; shape (R,)."""
        return self.ours if self.peer is None else self.ours / self.peer

    @property
    def limit(self):
        return self.own_limit or LIMITS.get((self.task, self.what))

    @property
    def met(self):
        """Whether the limit is, or None where there is none."""
        return None if self.limit is None else bool(self.limit.is_met(np.median(self.figure)))

    def cells(self, judged=True):
        """Return the texts of the line."""
        return (
            self.task,
            self.what,
            f"{short(np.median(self.ours))} {self.unit}",
            "" if self.peer is None else f"{self.peer_name}: {short(np.median(self.peer))} {self.unit}",
            with_spread(self.figure, ".0f" if np.median(self.figure) >= 100 else ".3f"),
            "" if self.limit is None else str(self.limit),
            {True: "yes", False: "**no**", None: ""}[self.met] if judged else "",
        )


def short(number):
    """Return a number with at least three digits."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


HEADS = ("task", "what", "here", "peer", "ratio, or figure: median [least most]", "limit", "met")


class Run:
    """What the tasks share: the options, the yardstick, and sizes for a quick run.

    Attributes
    ----------
    n_sentences, max_iter : int or None
        Of a quick run; None otherwise.
    at_least : float
        Seconds of which each measurement of a gradient is the median.
    yardsticks : list of float
        All measurements of U.
    """

    def __init__(self, n_rounds, quick):
        self.n_rounds = 1 if quick else n_rounds
        self.n_sentences = 100 if quick else None
        self.sizes = {"n_sentences": 100, "max_iter": 3} if quick else {}
        self.at_least = 0.0 if quick else 0.5
        self.quick = quick
        self.yardsticks = []
        self._process, self._yardstick = Process(), None

    def yardstick(self):
        """Return U, measured now."""
        try:
            if self._yardstick is None:
                sizes = {"n_sentences": self.n_sentences, "n_iterations": 3 if self.quick else 10}
                self._yardstick = self._process.keep(yardstick.Yardstick, **sizes)
            self.yardsticks.append(self._yardstick.call("track_iteration"))
        except BrokenProcessPool:
            self._process, self._yardstick = Process(), None  # for the next task
            raise
        return self.yardsticks[-1]

    def beside_yardstick(self, task, cases):
        """Yield a row for each case, a callable by name that returns seconds; all take turns with the yardstick."""
        if not self.quick:
            for case in cases.values():
                case()  # loads kernels, files and what else comes once
        rounds = [[self.yardstick(), *(case() for case in cases.values())] for _ in range(self.n_rounds)]
        yardsticks, *columns = np.array(rounds).T
        for name, column in zip(cases, columns, strict=True):
            yield Row(task, name, "s", column, yardsticks, "U")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.__exit__()


def compare_trainings(task, run):
    """Yield rows of the trainings of order 1."""
    with Process() as own_process, Process() as peer_process:
        keepers = own_process, own_process, peer_process
        one, two, peer = (
            process.keep(bench_chunking.Fit, program, task=task, **run.sizes)
            for process, program in zip(keepers, bench_chunking.Fit.params, strict=True)
        )
        rounds = [[case.call("time_fit") for case in (one, two, peer)] for _ in range(run.n_rounds)]

    def row(what, figure, column=0):
        pairs = [(figure(courses[column], courses[2]), figure(courses[2], courses[2])) for courses in rounds]
        return Row(task, what, "s", *np.array(pairs).T)

    yield row("iteration, order 1", lambda course, _: np.median(course.per_iteration))
    yield row("training to the own stopping rule", lambda course, _: course.processor[-1])
    yield row("fit, conversion of the data included", lambda course, _: course.fit_seconds)
    yield row(TO_OBJECTIVE, lambda course, peer: course.seconds_to(peer.objective[-1]))
    on_the_wall = f"{TO_OBJECTIVE}, n_jobs=2, on the wall"
    yield row(on_the_wall, lambda course, peer: course.seconds_to(peer.objective[-1], "wall"), column=1)
    for name, course in zip(("here", "python-crfsuite"), rounds[0][::2], strict=True):
        yield (
            f"{task}, {name}: {course.n_weights} weights, {len(course.objective)} iterations to objective "
            f"{course.objective[-1]:.3f}, token accuracy {course.accuracy:.4f}, F1 {course.f1:.4f}"
        )


def compare_gradients(task, run):
    """Yield rows of gradients beside that of order 1 on one thread: two threads, and higher orders with their arcs."""
    orders, settings = bench_chunking.ORDERS[task], {"task": task, "n_sentences": run.n_sentences}
    with Process() as process:
        cases = [process.keep(bench_chunking.Gradient, 1, order, **settings) for order in orders]
        two = process.keep(bench_chunking.Gradient, 2, 1, **settings)
        arcs = [case.call("track_arcs") for case in cases]
        seconds, wall = [], []
        for _ in range(run.n_rounds):
            seconds.append([case.seconds("time_gradient", run.at_least) for case in cases])
            wall.append([case.seconds("time_gradient", run.at_least, "perf_counter") for case in (two, cases[0])])
    yield Row(task, "gradient, n_jobs=2, on the wall", "s", *np.array(wall).T, "n_jobs=1")
    first, *higher = np.array(seconds).T
    for order, n_arcs, column in zip(orders[1:], arcs[1:], higher, strict=True):
        limit = AtMost(n_arcs / arcs[0])
        yield Row(
            task, f"gradient, order {order} ({n_arcs} arcs)", "s", column, first, f"order 1 ({arcs[0]} arcs)", limit
        )


def chunking(run, task="chunking"):
    skip_where(bench_chunking.absent(task))
    yield from compare_trainings(task, run)
    yield from compare_gradients(task, run)


def ner(run):
    yield from chunking(run, "ner")


def on_two_threads(task, what, cases, method, run):
    """Return the row of what two threads take beside one, on the wall."""
    rounds = range(run.n_rounds)
    pairs = [[case.seconds(method, run.at_least, "perf_counter") for case in cases] for _ in rounds]
    return Row(task, f"{what}, n_jobs=2, on the wall", "s", *np.array(pairs).T, "n_jobs=1")


def handwriting(run):
    skip_where(bench_chunking.absent() or absent(("ocr", "letter.data.gz")))
    cases = {}
    with Process() as process:
        for order in range(1, 3 if run.quick else 6):
            gradient = process.keep(bench_handwriting.Gradient, order)
            cases[f"gradient, order {order}"] = partial(gradient.seconds, "time_sum_network", run.at_least)
            if not run.quick:
                training = process.keep(bench_handwriting.Optimum, order)
                cases[f"training, order {order}"] = partial(training.seconds, "time_fit")
        yield from run.beside_yardstick("handwriting", cases)
        two = process.keep(bench_handwriting.Gradient, order, n_jobs=2)
        yield on_two_threads("handwriting", f"gradient, order {order}", (two, gradient), "time_sum_network", run)


def punctuation(run):
    """Yield rows of chains (C) and semi-CRFs (SC) of some order."""
    skip_where(bench_chunking.absent())
    sizes = {"n_sequences": 20, "max_iter": 3} if run.quick else {}
    cases, gradients = {}, []
    with Process() as process:
        for order in 1, 2, 3:
            training = process.keep(bench_segments.Training, "C", order, **sizes)
            cases[f"training, C^{order}"] = partial(training.seconds, "time_train")
        for order in 1, 2, 3:
            gradient = process.keep(bench_segments.Gradient, "SC", order, n_sequences=sizes.get("n_sequences"))
            cases[f"gradient, SC^{order}"] = partial(gradient.seconds, "time_gradient", run.at_least)
            gradients.append(gradient)
        yield from run.beside_yardstick("punctuation", cases)
        few = sizes.get("n_sequences")
        two = process.keep(bench_segments.Gradient, "SC", 2, n_sequences=few, n_jobs=2)
        yield on_two_threads("punctuation", "gradient, SC^2", (two, gradients[1]), "time_gradient", run)


def tagging(run):
    skip_where(bench_tagging.absent())
    speeds, accuracies = bench_tagging.measure(run.n_rounds, **run.sizes)
    names = {"extracted features": "extracted features", "raw tokens": "raw tokens, extraction included"}
    for inputs, speed in speeds.items():
        yield Row("tagging", names[inputs], "tokens/s", *speed)
    n_iter = run.sizes.get("max_iter", bench_tagging.MAX_ITER)
    for order in bench_tagging.Threads.params[0]:
        with Process() as process:
            cases = [process.keep(bench_tagging.Threads, order, n_jobs, **run.sizes) for n_jobs in (2, 1)]
            for inputs, method in bench_tagging.INPUTS.items():
                yield on_two_threads("tagging", f"{inputs}, order {order}", cases, method, run)
    yield f"tagging: token accuracy {accuracies[0]:.4f} here, {accuracies[1]:.4f} there, after {n_iter} iterations each"


def pruning(run):
    """Yield rows of a thousand labels, with few candidates for each token beside all labels."""
    with Process() as whole_process, Process() as process:
        whole = whole_process.keep(bench_pruning.Tagger, 0, **run.sizes)
        few = process.keep(bench_pruning.Tagger, 6, **run.sizes)
        parts = process.keep(bench_pruning.Tagger, 6, **run.sizes, has_parts=True)
        rounds = []
        for _ in range(run.n_rounds):
            gradients = [case.seconds("time_gradient", run.at_least) for case in (few, whole, parts)]
            train = few.seconds("time_train")
            few.call("time_tag")  # loads kernels
            rounds.append([*gradients, train, few.seconds("time_tag", run.at_least)])
        n_tokens, accuracy = few.call("track_tokens"), few.call("track_accuracy")
    gradient, of_all, of_parts, train, tag = np.array(rounds).T
    yield Row("pruning", "gradient, 6 candidates", "s", gradient, of_all, "981 labels")
    yield Row("pruning", "gradient, 6 candidates, labels with parts", "s", of_parts, gradient, "whole labels")
    yield Row("pruning", "60 iterations from raw words, 6 candidates", "s", train, 60 * of_all, "60 gradients")
    yield Row("pruning", "raw words, 6 candidates", "tokens/s", n_tokens / tag)
    yield f"pruning: token accuracy {accuracy:.4f} after 60 iterations"


def start(run):
    def wall(cache=None):
        """Return the seconds on the wall of import, fit and predict, beyond those of scikit-learn's import."""
        peer = bench_start.run("import sklearn")[0]
        imported, _, used, *_ = bench_start.run(bench_start.OURS, bench_start.TOY, cache)
        return imported + used - peer, imported + used

    with tempfile.TemporaryDirectory() as cache:
        tour = np.array([sum(bench_start.run_tour(cache)) for _ in range(2)])
    yield Row("start", "ten first steps, empty cache", "s on the wall", tour[:1], tour[1:], "warm cache")
    with tempfile.TemporaryDirectory() as cache:
        _, cold = wall(cache)
        wall(cache)  # files into the system's cache
        warm = [wall(cache)[0] for _ in range(3 if run.quick else 9)]
    yield Row("start", "warm import, fit and predict beyond scikit-learn's import", "s on the wall", np.array(warm))
    yield Row("start", "cold import, fit and predict", "s on the wall", np.array([cold]))


def memory(run):
    skip_where(bench_memory.absent())
    peaks = bench_memory.measure(run.n_rounds, **run.sizes)
    for base, pair in zip(bench_memory.BASES, peaks, strict=True):
        yield Row("memory", f"training, above {base} (features)", "MiB", *pair)


def large(run):
    """Yield the row of training on ten million tokens, with a million attributes."""
    skip_where(elsewhere(bench_memory.PEAKS))
    for n_tokens in 20_000, 20_000 if run.quick else 10_000_000:  # the first one compiles kernels
        with Process() as process:
            peak = process.run(bench_memory.train_generated, n_tokens)
    yield Row("large", "training, above inputs", "MiB", np.array([peak.training]))
    yield f"large: {peak}"


def cluster(run):
    """Yield rows of two workers beside one process, ten million tokens in two partitions."""
    skip_where(absent(modules=("dask", "distributed", "psutil")) or elsewhere("the loopback device is read"))
    import bench_dask

    n_tokens, n_rounds = (20_000, 2) if run.quick else (10_000_000, 8)
    for n_attributes in N_ATTRIBUTES, 100_000:
        with unittest.mock.patch.dict(os.environ, bench_dask.KEEP_FREED), Process() as process:
            found = process.run(bench_dask.measure_gradient, n_tokens, 2, n_rounds, n_attributes)
        what = f"{n_attributes:,} attributes"
        limit = AtMost(max(0.68, found.bare + 0.06)) if n_attributes == N_ATTRIBUTES else None
        yield Row("cluster", f"iteration, {what}, on the wall", "s", *found.iterations.T, "one process", limit)
        yield Row("cluster", f"sent to each worker, {what}", "vectors of weights", found.sent)
        yield (
            f"cluster, {what}: {n_tokens:,} tokens, {found.n_weights:,} weights, L-BFGS {found.steps:.3f} s; two "
            f"processes that exchange nothing would take {found.bare:.3f} of one's iteration"
        )


def latency(run):
    """Yield rows of one sentence a call, by the kind of features, and of batches of feature dicts."""
    skip_where(bench_kinds.reason_to_skip())
    yield from calls_by_kind(run)
    skip_where(bench_latency.reason_to_skip())
    with Process() as process:
        case = process.keep(bench_latency.Latency, n_sentences=run.n_sentences)
        rounds = [case.call("track_microseconds") for _ in range(run.n_rounds)]
        kept = np.array([case.call("track_kept")])
    times = {name: np.array([found[name] for found in rounds]) for name in rounds[0]}
    made, given = times["python-crfsuite, made"], times["python-crfsuite, given"]
    for name, peer in (
        ("pipeline from tokens", made),
        ("feature lists", given),
        ("marginals", times["python-crfsuite, marginals"]),
        ("segments with probabilities", times["python-crfsuite, marginals"]),
    ):
        yield Row("latency", name, "us", times[name], peer)
    yield Row("latency", "ten best", "us", times["ten best"])
    yield Row("latency", "tables kept beside the weights", "weights", kept)


def calls_by_kind(run):
    """Yield rows of drawn data: calls of all questions, beside python-crfsuite where it reads the same, and rates."""
    with Process() as process:
        calls, batches = process.keep(bench_kinds.Kinds), process.keep(bench_kinds.Batches)
        rounds = [calls.call("track_microseconds") for _ in range(run.n_rounds)]
        rates = [batches.call("track_rates") for _ in range(run.n_rounds)]
    for name, questions in rounds[0].items():
        for question in questions:
            times = np.array([found[name][question] for found in rounds])
            peer = [found.get(f"python-crfsuite, {name}", {}).get(question) for found in rounds]
            if not name.startswith("python-crfsuite"):
                yield Row("latency", f"{name}: {question}", "us", times, None if None in peer else np.array(peer))
    for name in rates[0]:
        ours, theirs, read, read_there = np.array([found[name] for found in rates]).T
        yield Row("latency", f"batch of dicts, {name}", "tokens/s", ours, theirs)
        yield Row("latency", f"batch of dicts, {name}: reading for fit", "tokens/s", read, read_there)


def addresses(run):
    """Yield rows of addresses a second, from the same dicts."""
    skip_where(bench_addresses.reason_to_skip())
    with Process() as process:
        case = process.keep(bench_addresses.Addresses, **({"every": 20} if run.quick else {}))
        case.call("track_rates")  # loads kernels
        rounds = [case.call("track_rates") for _ in range(run.n_rounds)]
        sizes = case.call("track_sizes")
    for name in rounds[0]:
        yield Row("addresses", name, "addresses/s", *np.array([rates[name] for rates in rounds]).T)
    yield "addresses: files of {:,} bytes here, {:,} there".format(*sizes)


TASKS = {
    task.__name__: task
    for task in (
        *(chunking, ner, handwriting, punctuation, tagging),
        *(latency, addresses, pruning, start, memory),
        *(large, cluster),
    )
}


class Report:
    """Rows and, in words, what else there is to say."""

    def __init__(self, quick):
        self.rows, self.remarks, self.failed, self.quick = [], [], [], quick

    def add(self, line):
        """Keep and print a row or a remark."""
        if isinstance(line, Row):
            self.rows.append(line)
            print(" | ".join(line.cells(not self.quick)), flush=True)
        else:
            self.remarks.append(line)
            print(line, flush=True)

    def markdown(self, scope):
        machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors"
        lines = [HEADS, ["---"] * len(HEADS), *(row.cells(not self.quick) for row in self.rows)]
        table = [f"| {' | '.join(cells)} |" for cells in lines]
        return "\n".join([f"{machine}; {scope}", "", *table, "", *(f"- {text}" for text in self.remarks), ""])


def compare(tasks, run):
    """Return the report of some tasks; none of them ends the others."""
    report = Report(run.quick)
    for name in tasks:
        begun = time.perf_counter()
        try:
            for line in TASKS[name](run):
                report.add(line)
        except Absent as error:
            report.add(f"{name}: skipped, {error}")
        except Exception as error:
            traceback.print_exc()
            report.add(f"{name}: FAILED, {error!r}")
            report.failed.append(name)
        print(f"({name}: {time.perf_counter() - begun:.0f} s)", flush=True)
    if run.yardsticks:
        report.add(f"U: {with_spread(run.yardsticks)} s in {len(run.yardsticks)} measurements")
    return report


def main(arguments=None):
    options = parse(__doc__, arguments, tasks=list(TASKS), quick=False, rounds=3, output=Path)
    with Run(options.rounds, options.quick) as run:
        report = compare(options.tasks, run)
    text = report.markdown("quick: the figures mean nothing" if options.quick else f"{options.rounds} rounds")
    print(f"\n{text}")
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    return int(bool(report.failed))


if __name__ == "__main__":
    for name in "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS":
        os.environ.setdefault(name, "1")  # of the processes
    sys.exit(main())

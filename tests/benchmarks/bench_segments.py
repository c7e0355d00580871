"""Time and memory of segmentation: how they grow with the order of patterns and the length of segments.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_segments.py [--quick] [--rounds N] [--tasks T ...]

prints for the tasks of the other benchmarks of segmentation, on one thread and each in a process of its own: weights,
seconds of a gradient, of features and of training to convergence, and peak memory; for CRFs (C^k) and semi-CRFs (SC^k)
of order k, with ratios to order 1; and for bibliographic references by maximal segment length. Needs cora_references,
punctuation and ud_chinese_segmentation in SKLEARN_HOCRF_DATA or ../shared/data, and leaves out what is absent.
``--quick`` takes a few sequences and iterations.
"""

import argparse
import multiprocessing
import time
import warnings
from itertools import groupby
from typing import NamedTuple

import bench_bibliography
import bench_chinese_words
import bench_punctuation
import numpy as np
from common import (
    Absent,
    keep_problem,
    n_weights,
    peak_mebibytes,
    print_table,
    skip_where,
    some_weights,
    take_turns,
)
from threadpoolctl import threadpool_limits

from sklearn_hocrf._objectives import NegativeLogLikelihood

ORDERS = (1, 2, 3, 4)
LONGEST = (5, 10, 20, 40)
MORE_THAN_NEEDED = 2000  # iterations
clock = time.process_time  # one thread, and other programs slow this clock less than the one on the wall
WORDS = {
    "hybrid": (bench_chinese_words.FULL, "none"),
    "and segments": (bench_chinese_words.FULL, "indicators, log odds"),
}


class Case(NamedTuple):
    """What to train."""

    task: str  # "bibliography", "punctuation", "words" or "lengths"
    model: str  # "C" or "SC"; for "words" a key of WORDS
    size: int  # highest order, or for "lengths" longest segment


def cut(y, longest):
    """Return runs of labels as segments of at most ``longest`` tokens."""
    segments = []
    for labels in y:
        stop = 0
        segments.append([])
        for label, run in groupby(labels):
            start, stop = stop, stop + len(list(run))
            firsts = range(start, stop, longest)
            segments[-1] += [(first, min(first + longest, stop), label) for first in firsts]
    return segments


def prepare(case, n_sequences, **params):
    """Return training sequences, y, features and model; None where the data is absent."""
    task, kind, size = case
    if task == "words":
        data = bench_chinese_words.load_sentences(n_sentences=n_sequences)
        features, model = bench_chinese_words.make_features(*WORDS[kind]), bench_chinese_words.make_model(**params)
        return data and (data.X, data.y, features, model)
    module = bench_punctuation if task == "punctuation" else bench_bibliography
    data = (module.load_dialogues if task == "punctuation" else module.load_references)(n_sequences)
    if data is None:
        return None
    if task == "lengths":
        model = module.segment_model(1, encoding="segments", max_segment_length=size, **params)
        return data.X, cut(data.y, size), module.segment_features(), model
    make = (
        (module.chain_features, module.chain_model) if kind == "C" else (module.segment_features, module.segment_model)
    )
    return data.X, data.y, make[0](), make[1](size, **params)


class Segmentation:
    """Features and a model for a case."""

    params = [["bibliography", "punctuation"], ["C", "SC"], [1, 2, 3]]
    param_names = ["task", "model", "order"]
    timeout = 1200

    def setup(self, task, model, size, n_sequences=None, max_iter=MORE_THAN_NEEDED):
        case = Case(task, model, size)
        warnings.simplefilter("ignore", UserWarning)  # not converged; a few sentences do not have all features
        few = prepare(case, 10, max_iter=1)
        skip_where(f"the data of {task} is absent" if few is None else None)
        X, y, features, crf = few
        crf.fit(features.fit_transform(X, y), y)  # loads the kernels
        self.X, self.y, self.features, self.crf = prepare(case, n_sequences, max_iter=max_iter)
        self.problem = keep_problem(self.crf)

    def extract(self):
        self.batch = self.features.fit_transform(self.X, self.y)

    def fit(self):
        self.crf.fit(self.batch, self.y)


class Training(Segmentation):
    """Training to convergence, features included."""

    number = repeat = 1
    warmup_time = 0

    def time_train(self, *_):
        self.extract()
        self.fit()

    def peakmem_train(self, *_):
        self.time_train()
        return peak_mebibytes()

    def track_iterations(self, *_):
        self.time_train()
        return self.crf.n_iter_


class Gradient(Segmentation):
    """Value and gradient of the likelihood at one point."""

    def setup(self, task, model, size, n_sequences=None):
        super().setup(task, model, size, n_sequences, max_iter=1)
        self.extract()
        self.fit()
        self.objective = NegativeLogLikelihood().bind(self.problem[0])
        self.w = some_weights(self.objective)

    def time_gradient(self, *_):
        return self.objective.value_gradient(self.w)


class Measured(NamedTuple):
    """What a case came to."""

    n_weights: int
    n_states: int
    gradient: float  # seconds, median
    features: float  # seconds
    fit: float  # seconds
    n_iter: int
    peak: float  # MiB


def measure(case, quick, n_rounds):
    """Return what a case comes to in this process, or None where its data is absent."""
    trained = Segmentation()
    with threadpool_limits(1):
        try:
            trained.setup(*case, **{"n_sequences": 30, "max_iter": 2} if quick else {})
        except Absent:
            return None
        moments = [clock()]
        for step in trained.extract, trained.fit:
            step()
            moments.append(clock())
        peak = peak_mebibytes()
        objective = NegativeLogLikelihood().bind(trained.problem[0])
        w = some_weights(objective)
        gradient = np.median(take_turns([lambda: objective.value_gradient(w)], n_rounds, clock))
    crf = trained.crf
    return Measured(n_weights(crf), crf.automaton_.n_states, gradient, *np.diff(moments), crf.n_iter_, peak)


def print_measured(title, pool, cases, names, options):
    """Measure cases, each in a process of its own, and print them beside the first one of the same model."""
    for case in () if options.quick else {case.model: case for case in cases}.values():
        pool.apply(measure, (case, True, 1))  # compiles kernels that are in no cache: that takes memory
    rows, first = [], {}
    for case, name in zip(cases, names, strict=True):
        measured = pool.apply(measure, (case, options.quick, options.rounds))
        if measured is None:
            print(f"\n{title}: skipped, the data is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data")
            return
        one = first.setdefault(case.model, measured)
        rows.append(
            (
                name,
                measured.n_weights,
                measured.n_states,
                f"{measured.gradient:.4f}",
                f"{measured.gradient / one.gradient:.2f}",
                f"{measured.features:.2f}",
                f"{measured.fit:.1f}",
                measured.n_iter,
                f"{measured.peak:.0f}",
                f"{measured.peak / one.peak:.2f}",
            )
        )
    print(f"\n{title}")
    heads = ["", "weights", "states", "gradient", "ratio", "features", "fit", "iterations", "peak MiB", "ratio"]
    print_table(heads, rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few sequences, a few iterations")
    parser.add_argument("--rounds", type=int, default=9, help="gradients to time (default: %(default)s)")
    tasks = ("bibliography", "punctuation", "words", "lengths")
    parser.add_argument("--tasks", nargs="+", choices=tasks, default=tasks, help="which ones (default: all)")
    options = parser.parse_args(arguments)
    orders = ORDERS[:2] if options.quick else ORDERS
    print("seconds of the processor, one thread; ratios are to the first row of the same model")
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for task in options.tasks:
            if task == "words":
                cases = [Case(task, kind, 0) for kind in WORDS]
                names = ["; ".join(cell) for cell in WORDS.values()]
            elif task == "lengths":
                cases = [Case(task, "SC", longest) for longest in LONGEST]
                names = [f"at most {longest} tokens" for longest in LONGEST]
            else:
                cases = [Case(task, kind, order) for kind in ("C", "SC") for order in orders]
                names = [f"{case.model}^{case.size}" for case in cases]
            titles = {"words": "Chinese words", "lengths": "bibliography, SC^1 with longer segments cut"}
            print_measured(titles.get(task, task), pool, cases, names, options)


if __name__ == "__main__":
    main()

"""Training from memory-mapped files: time of a gradient beside that in memory, and anonymous memory of training.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_disk.py [--tokens N] [--large N] [--rounds N] [--folder PATH]

The data are sentences of 25 tokens, 10 labels, 10 attributes a token out of a million. The first size is read from
files and held in memory by turns, with all pages in memory and after they have been dropped (``madvise`` and
``posix_fadvise``, so Linux only); beside the latter stand the megabytes that the disk gave a second. The second size is
trained on from files, for as many iterations as take at least three gradients, while the process's anonymous memory
(RssAnon) is looked at every 20 ms. Files are written to the folder, 100 bytes a token with the scratch files of
training, and removed.
"""

import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from mmap import MADV_DONTNEED
from pathlib import Path

import numpy as np
from bench_memory import resident
from common import (
    fit_quietly,
    generate,
    keep_problem,
    parse,
    print_table,
    skipped,
    some_weights,
    take_turns,
    training_objective,
    with_spread,
)
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, SequenceBatch

TOKENS, LARGE, PART = 10_000_000, 50_000_000, 1_000_000
ITERATIONS = 2  # each is a gradient or more, after the first one
MOST_RATIO = 1.3


def absent():
    """Return why the benchmark cannot run, or None."""
    return None if sys.platform.startswith("linux") else "pages can be dropped, and kinds of memory told, on Linux only"


def write(folder, n_tokens):
    """Write a batch and its labels part by part."""
    labels = []

    def parts():
        for seed in range(-(-n_tokens // PART)):
            batch, y = generate(min(PART, n_tokens - seed * PART), seed)
            labels.append(np.concatenate(y).astype(np.int8))
            yield batch

    SequenceBatch.save_all(Path(folder, "batch"), parts())
    np.save(Path(folder, "labels.npy"), np.concatenate(labels))


def read(folder, mmap_mode="r"):
    """Return the batch and the labels of its sequences, which are parts of one array."""
    batch = SequenceBatch.load(Path(folder, "batch"), mmap_mode=mmap_mode)
    labels = np.load(Path(folder, "labels.npy"))
    return batch, [labels[i:j] for i, j in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True)]


def kibibytes(name):
    """Return a figure of this process from ``/proc``: ``RssAnon``, ``RssFile`` .."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise KeyError(name)


def read_bytes():
    """Return how many bytes this process has had read from disk."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])


class Peak:
    """The most of a kind of memory, looked at every 20 ms."""

    def __init__(self, name):
        self._name, self.most, self._done = name, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        while not self._done.wait(0.02):
            self.most = max(self.most, kibibytes(self._name))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self.most = max(self.most, kibibytes(self._name))


def drop_pages(arrays, folder):
    """Forget the pages of mapped arrays: those of the process, and those that the system keeps."""
    for array in arrays:
        while array is not None and not isinstance(array, np.memmap):
            array = getattr(array, "base", None)
        if array is not None:
            array.flush()
            array._mmap.madvise(MADV_DONTNEED)
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if target.startswith(str(folder)):
            os.fsync(int(number))
            os.posix_fadvise(int(number), 0, 0, os.POSIX_FADV_DONTNEED)


def mapped_arrays(objective):
    """Return the arrays of a training problem that are in files."""
    batch, rows = objective.problem.batch, objective.problem.plan.token_features
    return [batch.offsets, batch.indptr, batch.indices, *rows]


def compare(folder, n_rounds):
    """Return seconds of gradients in memory and from files, and on the wall with and without pages; and bytes read."""
    with threadpool_limits(1):
        objectives = [training_objective(HighOrderCRF(), *read(folder, mode)) for mode in (None, "r")]
        w = some_weights(objectives[0])
        values = [objective.value_gradient(w) for objective in objectives]
        assert values[0][0] == values[1][0]
        assert np.array_equal(values[0][1], values[1][1])
        cases = [lambda objective=objective: objective.value_gradient(w) for objective in objectives]
        warm = take_turns(cases, n_rounds, time.process_time)
        cold = []
        for _ in range(n_rounds):
            seconds = []
            for drop in (False, True):
                if drop:
                    drop_pages(mapped_arrays(objectives[1]), folder)
                before, start = read_bytes(), time.perf_counter()
                cases[1]()
                seconds.append(time.perf_counter() - start)
            cold.append((*seconds, read_bytes() - before))
        return warm, np.array(cold), len(w)


def train(folder, mmap_mode, max_iter=ITERATIONS):
    """Return KiB of anonymous memory with the inputs, and at most in training; passes, weights, and seconds."""
    with threadpool_limits(1):
        fit_quietly(HighOrderCRF(max_iter=1), *generate(2_500))  # loads the kernels
        batch, y = read(folder, mmap_mode)
        resident()
        before, crf = kibibytes("RssAnon"), HighOrderCRF(max_iter=max_iter)
        problems, start = keep_problem(crf), time.perf_counter()
        with Peak("RssAnon") as peak:
            fit_quietly(crf, batch, y)
        return before, peak.most, crf.n_passes_, problems[0].n_weights, time.perf_counter() - start


def in_process(function, *arguments):
    """Call a function in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return pool.apply(function, arguments)


def main(arguments=None):
    options = parse(__doc__, arguments, tokens=TOKENS, large=LARGE, rounds=3, folder=str)
    if skipped(absent()):
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        in_process(write, folder, options.tokens)
        warm, cold, n_weights = in_process(compare, folder, options.rounds)
        ratio = warm[:, 1] / warm[:, 0]
        print(f"{options.tokens} tokens, {n_weights} weights; load {os.getloadavg()[0]:.1f}")
        rate = cold[:, 2] / cold[:, 1] / 1e6
        rows = [
            ("in memory", with_spread(warm[:, 0]), "", ""),
            ("from files", with_spread(warm[:, 1]), with_spread(ratio), ""),
            ("from files, on the wall", with_spread(cold[:, 0]), "", ""),
            (
                "pages dropped, on the wall",
                with_spread(cold[:, 1]),
                with_spread(cold[:, 1] / cold[:, 0]),
                with_spread(rate, ".0f"),
            ),
        ]
        print_table(["a gradient", "seconds", "ratio", "MB/s"], rows)
        print(
            f"from files with all pages in memory: {'within' if np.median(ratio) <= MOST_RATIO else 'beyond'} 1.3 times"
        )
        rows = []
        for mode, name in (("r", "files"), (None, "memory")):
            before, most, n_passes, n, seconds = in_process(train, folder, mode)
            rows.append(
                (f"{options.tokens} in {name}", n, n_passes, f"{seconds:.0f}", before >> 10, (most - before) >> 10)
            )
        if options.large:
            shutil.rmtree(folder)
            folder.mkdir()
            in_process(write, folder, options.large)
            before, most, n_passes, n, seconds = in_process(train, folder, "r")
            rows.append(
                (f"{options.large} in files", n, n_passes, f"{seconds:.0f}", before >> 10, (most - before) >> 10)
            )
        print_table(["tokens", "weights", "passes", "fit, s", "RssAnon with inputs, MiB", "training above, MiB"], rows)
        if options.large:
            limit = (3 << 20) + 160 * n // 1024
            verdict = "within" if most <= limit else "beyond"
            print(f"RssAnon up to {most >> 10} MiB: {verdict} 3 GiB and 160 bytes a weight, {limit >> 10} MiB")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

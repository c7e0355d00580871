"""Label patterns chosen by training, beside all observed ones and beside frequent ones of the same number.

    python tests/benchmarks/bench_pattern_search.py [--tasks T ...] [--strengths L1 ...] [--sentences N]

One thread, processor seconds. Handwriting at order 3 (fold 0, accuracy on the nine other folds, learned penalties);
chunks of conll2000 and Turkish morphology (981 tags) at order 2, tol 1e-3. ``min_pattern_count`` is the one that leaves
the number of patterns nearest to that of the search. Data come from SKLEARN_HOCRF_DATA or ../shared/data; a task whose
data is absent is left out. ``--sentences`` takes the first ones of a training set alone, for a quick run.
"""

import argparse
import gzip
import os
import time
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import bench_chunking
import common
import numpy as np
from bench_handwriting import load_words
from common import data_file, keep_problem
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._objectives import NegativeLogLikelihood
from sklearn_hocrf.training import PatternSearch

TURKISH = [("ud_turkish_morphology", f"{part}.tsv.gz") for part in ("train", "test")]
HEADS = ["patterns", "number", "arcs", "additions", "ms a gradient", "passes", "training s", "accuracy"]


class Task(NamedTuple):
    """Data of one comparison, and what its models share."""

    train: tuple
    test: tuple
    parameters: dict
    strengths: tuple  # of the L1 penalty


def words(path):
    """Return forms and tags of Turkish words, by sentence."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        sentences = [[line.split("\t") for line in block.split("\n")] for block in file.read().strip().split("\n\n")]
    forms = [[form for form, _, _ in sentence] for sentence in sentences]
    return forms, [[f"{pos}|{morphology}" for _, pos, morphology in sentence] for sentence in sentences]


def attributes(forms):
    """Return names of attributes of each word of a sentence: itself, its neighbours, beginnings and ends."""
    padded = ["", *forms, ""]
    return [
        [
            *(f"{offset}={padded[place + 1 + offset]}" for offset in (-1, 0, 1)),
            *(f"begins {form[:k]}" for k in (1, 2, 3)),
            *(f"ends {form[-k:]}" for k in (1, 2, 3, 4, 5)),
            *(["capital"] if form[0].isupper() else []),
            *(["digit"] if any(map(str.isdigit, form)) else []),
        ]
        for place, form in enumerate(forms)
    ]


def handwriting(n_sentences):
    train, test, name = load_words()
    if not name.startswith("handwriting"):
        return None
    sigma_reg = {("features", 0): 1.78, ("patterns", 0): 1.78, ("patterns", 1): 3.4, None: 100.0}
    parameters = {"max_order": 3, "sigma_reg": sigma_reg, "unsupported": True}
    return Task([part[:n_sentences] for part in train], test, parameters, (0.01, 0.03, 0.1, 0.3, 1.0))


def conll2000(n_sentences):
    if common.absent(bench_chunking.TRAIN, bench_chunking.TEST):
        return None
    chunks = bench_chunking.load_chunks(n_sentences)
    parameters = {"max_order": 2, "tol": 1e-3}
    return Task((chunks.train, chunks.y_train), (chunks.test, chunks.y_test), parameters, (0.3, 1.0, 3.0, 10.0))


def turkish(n_sentences):
    if common.absent(*TURKISH):
        return None
    (X, y), (X_test, y_test) = (words(data_file(*parts)) for parts in TURKISH)
    train, test = [list(map(attributes, X[:n_sentences])), y[:n_sentences]], (list(map(attributes, X_test)), y_test)
    return Task(train, test, {"max_order": 2, "tol": 1e-3}, (0.5, 1.0, 2.0, 4.0))


TASKS = {task.__name__: task for task in (handwriting, conll2000, turkish)}


def measure(task, name, **parameters):
    """Print a row about a model, and return the model."""
    crf = HighOrderCRF(**{**task.parameters, **parameters})
    problem = keep_problem(crf)
    begun = time.process_time()
    common.fit_quietly(crf, *task.train)
    seconds = time.process_time() - begun
    objective, gradients = NegativeLogLikelihood().bind(problem[0]), []
    for _ in range(4):
        start = time.process_time()
        objective.value_gradient(crf._weights)
        gradients.append(1e3 * (time.process_time() - start))
    n_passes = crf.n_passes_
    if parameters.get("patterns") is not None:
        n_passes += crf.pattern_search_history_["n_passes"].sum()
    sizes = len(crf.patterns_), crf.automaton_.n_arcs, problem[0].layout.network.n_additions
    gradient, accuracy = np.median(gradients[1:]), crf.score(*task.test)
    row = name, *sizes, f"{gradient:.1f}", int(n_passes), f"{seconds:.1f}", f"{accuracy:.4f}"
    print("  ".join(f"{cell!s:>{max(len(head), 8)}}" for cell, head in zip(row, HEADS, strict=True)), flush=True)
    return crf


def pattern_counts(labels, max_order):
    """Return how often each pattern of two or more labels occurs, ascending."""
    counts = {}
    for y in labels:
        for length in range(2, max_order + 2):
            for start in range(len(y) - length + 1):
                pattern = tuple(y[start : start + length])
                counts[pattern] = counts.get(pattern, 0) + 1
    return np.sort(list(counts.values()))


def compare(task, strengths):
    """Print the table of a task."""
    print("  ".join(f"{head:>8}" for head in HEADS))
    measure(task, "observed")
    counts = pattern_counts(task.train[1], task.parameters["max_order"])
    for strength in strengths or task.strengths:
        crf = measure(task, f"L1 {strength:g}", patterns=PatternSearch(strength))
        n_longer = len(crf.patterns_) - len(crf.classes_)
        thresholds = np.unique(counts)
        left = len(counts) - np.searchsorted(counts, thresholds)
        nearest = int(thresholds[np.abs(left - n_longer).argmin()])
        measure(task, f">= {nearest}", min_pattern_count=nearest)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--strengths", nargs="+", type=float)
    parser.add_argument("--sentences", type=int, default=None)
    options = parser.parse_args()
    with threadpool_limits(1):
        for name in options.tasks:
            task = TASKS[name](options.sentences)
            print(f"\n{name}" if task else f"\n{name}: the data is absent")
            if task:
                compare(task, options.strengths)


if __name__ == "__main__":
    main()

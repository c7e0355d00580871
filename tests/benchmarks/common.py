"""Functions shared by the benchmarks: options, optional data, training runs, alternating measurements, tables."""

import argparse
import importlib.util
import multiprocessing
import os
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from sklearn_hocrf._data.batch import SequenceBatch
from sklearn_hocrf._engine.training.objectives import NegativeLogLikelihood
from sklearn_hocrf._estimator.fit.fit_steps import FitSteps
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

sys.path.append(str(Path(__file__).resolve().parents[2] / "notebooks"))  # which have the loaders of public data


def attributes_of_all(sequences, attributes, bias=False):
    """Return the attributes of the words of all sequences; ``bias`` is one that is always on."""
    always = ["bias"] if bias else []
    return [[always + names for names in attributes(words)] for words in sequences]


def word_features(attributes, **of_segments):
    """Return the transformer for a CRF, where each word is a segment, or with parameters for a semi-CRF."""
    options = {"attributes": attributes, "bias": bool(of_segments)}
    steps = [FunctionTransformer(attributes_of_all, kw_args=options), SequenceFeatureExtractor("attributes")]
    return make_pipeline(*steps, *([SegmentFeatureExtractor(**of_segments)] if of_segments else []))


def parse(doc, arguments=None, **defaults):
    """Return the options of a program, each given by its default, or by its type where the default is None.

    False is a flag, a list is for several values; if these are texts, for some of them.
    """

    class Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
        pass

    parser = argparse.ArgumentParser(description=doc, formatter_class=Help)
    for name, default in defaults.items():
        settings = {"default": default, "type": type(default)}
        if default is False:
            settings = {"action": "store_true"}
        elif isinstance(default, type):
            settings = {"type": default}
        elif isinstance(default, list):
            settings |= {"type": type(default[0]), "nargs": "*"}
            settings |= {"choices": default} if isinstance(default[0], str) else {}
        parser.add_argument(f"--{name.replace('_', '-')}", help=" ", **settings)
    return parser.parse_args(arguments)


def skipped(reason):
    """Print a reason why a benchmark cannot run, if there is one; return whether there is."""
    if reason:
        print(f"skipped: {reason}")
    return bool(reason)


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


def elsewhere(what):
    """Return why something cannot be measured where the system is not Linux; or None."""
    return None if sys.platform.startswith("linux") else f"{what} on Linux only"


class Absent(NotImplementedError):
    """What a benchmark needs is not there."""


def skip_where(reason):
    """End the setup of a benchmark if there is a reason."""
    if reason:
        raise Absent(reason)


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
    problems, pose = [], FitSteps.problem

    def pose_and_keep(steps, *data):
        problem = pose(steps, *data)
        if steps.estimator is model:
            problems[:] = [problem]
        return problem

    FitSteps.problem = pose_and_keep
    return problems


def fit_quietly(model, X, y, **params):
    """Fit a model that may have neither the iterations to converge nor all features in a few sentences."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        return model.fit(X, y, **params)


class Split(NamedTuple):
    """Training and test sequences, and what is to be found in them."""

    X: list
    y: list
    X_test: list
    y_test: list


class Fitted(NamedTuple):
    """A fitted estimator, the scores of its predictions, and seconds of features and fit."""

    model: object
    scores: list
    seconds: float


def train(data, features, model, score):
    """Fit a model to the features of training sequences; ``score`` returns the scores of predictions."""
    start = time.perf_counter()
    fit_quietly(model, features.fit_transform(data.X, data.y), data.y)
    seconds = time.perf_counter() - start
    return Fitted(model, score(data.y_test, model.predict(features.transform(data.X_test))), seconds)


def words_and_labels(path, columns=("word", None, "tag"), **options):
    """Return words and labels, the last of the columns of a file; the label of a word with a ``pos`` is a pair."""
    X, y = load_conll(path, columns, **options)
    if "pos" in columns:
        y = [[f"{token['pos']}|{tag}" for token, tag in zip(*of, strict=True)] for of in zip(X, y, strict=True)]
    return [[token["word"] for token in sentence] for sentence in X], y


N_LABELS, N_ATTRIBUTES, LENGTH, PER_TOKEN = 10, 1_000_000, 25, 10  # of data that are drawn


def generate(n_tokens, seed=0, n_attributes=N_ATTRIBUTES):
    """Return the batch and the label codes of sentences, ``n_tokens // LENGTH`` of them, all by a Zipf-like law.

    Half of a token's attributes are drawn from a part of the vocabulary that goes with its label.
    """
    rng = np.random.default_rng(seed)
    n_sentences = n_tokens // LENGTH
    succession = rng.dirichlet(np.full(N_LABELS, 0.3), size=N_LABELS).cumsum(axis=1)
    y = np.empty((n_sentences, LENGTH), dtype=np.int64)
    y[:, 0] = rng.integers(N_LABELS, size=n_sentences)
    for t in range(1, LENGTH):
        draws = rng.random(n_sentences)
        y[:, t] = np.minimum((succession[y[:, t - 1]] < draws[:, None]).sum(axis=1), N_LABELS - 1)
    codes = y.ravel()
    n_tokens = len(codes)
    # ranks by a law of density 1 / rank: exp of something uniform
    indices = np.empty((n_tokens, PER_TOKEN), dtype=np.int32)
    for column in range(PER_TOKEN):
        rank = np.exp(rng.random(n_tokens) * np.log(n_attributes // N_LABELS)).astype(np.int64) - 1
        part = codes if column % 2 else rng.integers(N_LABELS, size=n_tokens)
        indices[:, column] = rank * N_LABELS + part
    indices.sort(axis=1)
    indptr = np.arange(n_tokens + 1, dtype=np.int64) * PER_TOKEN
    offsets = np.arange(n_sentences + 1, dtype=np.int64) * LENGTH
    return SequenceBatch(offsets, indptr, indices.ravel(), None, n_attributes), list(y)


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


def print_models(fitted, scores, optima, published):
    """Print sizes, optima and scores of fitted models by name, with differences from what others have reached."""

    def beside(value, reference, form):
        return f"{value:{form}}" if reference is None else f"{value:{form}} ({value - reference:+{form}})"

    rows = []
    for name, (model, values, seconds) in fitted.items():
        references = published.get(name, [None] * len(values))
        rows.append(
            (
                name,
                *(n_weights(model), len(model.patterns_), model.automaton_.n_states),
                beside(model.objective_history_[-1], optima.get(name), ".3f"),
                *(f"{model.optimality_gap_:.1e}", model.n_iter_, f"{seconds:.1f}"),
                *(beside(value, reference, ".2f") for value, reference in zip(values, references, strict=True)),
            )
        )
    heads = ["(difference)", "weights", "patterns", "states", "optimum", "gap", "iterations", "seconds"]
    print_table([*heads, *scores], rows)


def n_weights(model):
    """Return how many weights a fitted model has."""
    n_single = sum(len(pattern) == 1 for pattern in model.patterns_)
    return model.coef_.nnz + len(model.patterns_) - (0 if model.fit_intercept else n_single)

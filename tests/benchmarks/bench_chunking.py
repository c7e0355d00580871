"""Chunking (conll2000) at order 1, beside python-crfsuite: same features, same penalty, one thread each.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_chunking.py [--max-iter N] [--rounds N]

prints time per iteration and to convergence, objectives, accuracies and the gain of a second thread. Needs conll2000
in SKLEARN_HOCRF_DATA or ../shared/data, python-crfsuite and seqeval. ``--max-iter`` ends both trainings early, for a
quick run.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from bench_features import TEMPLATES
from common import data_file, print_table, take_turns, with_spread
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._batch import freeze
from sklearn_hocrf._objectives import ChainProblem, NegativeLogLikelihood
from sklearn_hocrf._patterns import observed_patterns
from sklearn_hocrf._potentials import build_layout
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

clock = time.process_time  # both run on one thread, and other programs slow this clock less than the one on the wall
MORE_THAN_NEEDED = 2000  # iterations
SETTINGS = {"max_order": 1, "sigma_reg": 0.5**0.5, "fit_intercept": False}  # c2 = 1 / (2 sigma^2) = 1


def absent():
    """Return why the benchmark cannot run, or None."""
    if data_file("conll2000", "train.txt.gz") is None:
        return "conll2000 is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data"
    try:
        import pycrfsuite  # noqa: F401
        import seqeval  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed"
    return None


class Chunks(NamedTuple):
    """Training and test sentences with the features of the chunking template."""

    train: object  # SequenceBatch
    test: object
    y_train: list
    y_test: list


def load_chunks(n_sentences=None):
    """Return the sentences, or the first ``n_sentences`` of training."""
    columns = ["w", "p", "chunk"]
    X, y = load_conll(data_file("conll2000", "train.txt.gz"), columns, return_X_y=True)
    X_test, y_test = load_conll(data_file("conll2000", "test.txt.gz"), columns, return_X_y=True)
    extractor = SequenceFeatureExtractor(TEMPLATES, fields=["w", "p"], padding="drop")
    train = extractor.fit_transform(X[:n_sentences])
    return Chunks(train, extractor.transform(X_test), y[:n_sentences], y_test)


class Training(NamedTuple):
    """What a training and its model came to.   I iterations."""

    seconds: np.ndarray  # (I,)   of the processor, from the start of the solver to the end of each iteration
    objective: np.ndarray  # (I,)
    fit_seconds: float  # conversion of the data included
    n_weights: int
    y_pred: list
    predict_seconds: float

    @property
    def per_iteration(self):
        return np.diff(self.seconds, prepend=0.0)

    def seconds_to(self, objective):
        """Return the seconds after which the objective was as low as the given one."""
        reached = np.flatnonzero(self.objective <= objective)
        return self.seconds[reached[0]] if len(reached) else np.inf


class TimedCRF(HighOrderCRF):
    """HighOrderCRF that notes when each iteration ended."""

    def _starting_weights(self, problem, data):
        self.started_, self.moments_, self.values_ = clock(), [], []
        return super()._starting_weights(problem, data)

    def _write_progress(self, progress):
        self.moments_.append(clock() - self.started_)
        self.values_.append(progress.value)


def load_kernels(chunks):
    """Fit and predict a few sentences, so that the kernels are compiled or loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        HighOrderCRF(**SETTINGS, max_iter=1).fit(chunks.train[:20], chunks.y_train[:20]).predict(chunks.train[:20])


def train_ours(chunks, max_iter):
    crf = TimedCRF(**SETTINGS, max_iter=max_iter, verbose=1)
    start = clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        crf.fit(chunks.train, chunks.y_train)
    fitted = clock()
    y_pred = crf.predict(chunks.test)
    predicted = clock()
    moments, values = np.array(crf.moments_), np.array(crf.values_)
    n_weights = crf.coef_.nnz + len(crf.patterns_) - len(crf.classes_)
    return Training(moments, values, fitted - start, n_weights, y_pred, predicted - fitted)


def attribute_names(batch):
    """Return the names of the features of each token, as python-crfsuite takes them."""
    names = np.asarray(batch.feature_names, dtype=object)[batch.indices].tolist()
    tokens = [names[i:j] for i, j in zip(batch.indptr[:-1], batch.indptr[1:], strict=True)]
    return [tokens[i:j] for i, j in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]


def train_crfsuite(chunks, max_iter):
    import pycrfsuite

    test = [pycrfsuite.ItemSequence(tokens) for tokens in attribute_names(chunks.test)]
    tokens_of = attribute_names(chunks.train)
    start = clock()
    moments = []

    class TimedTrainer(pycrfsuite.Trainer):
        def message(self, message):
            super().message(message)
            if message.startswith(("L-BFGS optimization", "Seconds required for this iteration")):
                moments.append(clock())  # features are generated before the first of these

    settings = {"c1": 0, "c2": 1, "max_iterations": max_iter}
    trainer = TimedTrainer(algorithm="lbfgs", params=settings, verbose=False)
    for tokens, labels in zip(tokens_of, chunks.y_train, strict=True):
        trainer.append(tokens, labels)
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "model"))
        trainer.train(model)
        fitted = clock()
        tagger = pycrfsuite.Tagger()
        with tagger.open(model):
            y_pred = [tagger.tag(tokens) for tokens in test]
        predicted = clock()
    iterations = trainer.logparser.iterations
    objective = np.array([iteration["loss"] for iteration in iterations])
    n_weights = trainer.logparser.featgen_num_features
    seconds = np.array(moments[1:]) - moments[0]
    return Training(seconds, objective, fitted - start, n_weights, y_pred, predicted - fitted)


class Gradient:
    """Value and gradient of the likelihood at one point."""

    params = [1, 2]
    param_names = ["n_jobs"]

    def setup(self, n_jobs, chunks=None):
        chunks = load_chunks() if chunks is None else chunks
        labels, codes = np.unique(np.concatenate(chunks.y_train), return_inverse=True)
        codes, batch = freeze(codes, np.int32), chunks.train
        patterns = observed_patterns(codes, batch.offsets, len(labels), SETTINGS["max_order"])
        layout = build_layout(batch, codes, patterns, fit_intercept=SETTINGS["fit_intercept"])
        self.objective = NegativeLogLikelihood().bind(ChainProblem(layout, batch, codes, n_jobs=n_jobs))
        self.w = np.random.default_rng(0).normal(scale=0.1, size=layout.n_weights)

    def time_gradient(self, n_jobs=None):
        return self.objective.value_gradient(self.w)


def compare_threads(chunks, n_rounds):
    cases = [Gradient(), Gradient()]
    for n_jobs, case in enumerate(cases, start=1):
        case.setup(n_jobs, chunks)
    one, two = (case.time_gradient() for case in cases)
    np.testing.assert_array_equal(one[1], two[1])
    seconds = take_turns([case.time_gradient for case in cases], n_rounds)
    rows = [
        (n_jobs, with_spread(column), with_spread(seconds[:, 0] / column, ".2f"))
        for n_jobs, column in enumerate(seconds.T, start=1)
    ]
    print("\nvalue and gradient, seconds on the wall: median [least most]")
    print_table(["n_jobs", "gradient", "times faster than 1"], rows)


def compare_trainings(chunks, max_iter):
    """Train both, one after the other, and print what they came to."""
    from seqeval.metrics import f1_score

    ours = train_ours(chunks, max_iter)
    theirs = train_crfsuite(chunks, max_iter)
    truth = np.concatenate(chunks.y_test)

    def lines(training):
        yield "weights", training.n_weights, ".0f"
        yield "iterations", len(training.seconds), ".0f"
        yield "seconds per iteration (median)", np.median(training.per_iteration), ".4f"
        yield "  first and third quartile", np.quantile(training.per_iteration, [0.25, 0.75]), ".4f"
        yield "seconds to the own stopping rule", training.seconds[-1], ".1f"
        yield "seconds to python-crfsuite's last objective", training.seconds_to(theirs.objective[-1]), ".1f"
        yield "seconds of fit, conversion of the data included", training.fit_seconds, ".1f"
        yield "seconds of predict on the test set", training.predict_seconds, ".3f"
        yield "objective, penalty included", training.objective[-1], ".3f"
        yield "token accuracy", np.mean(np.concatenate(training.y_pred) == truth), ".4f"
        yield "chunk F1", f1_score(chunks.y_test, training.y_pred), ".4f"

    rows = []
    for (name, our_value, form), (_, their_value, _) in zip(lines(ours), lines(theirs), strict=True):
        ratio = f"{our_value / their_value:.3f}" if name.startswith("seconds") else ""
        rows.append((name, *(" .. ".join(f"{v:{form}}" for v in np.ravel(x)) for x in (our_value, their_value)), ratio))
    print("\ntraining and test, seconds of the processor")
    print_table(["", "HighOrderCRF", "python-crfsuite", "ratio"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-iter", type=int, default=MORE_THAN_NEEDED, help="end both trainings early")
    parser.add_argument("--rounds", type=int, default=1, help="how often to train both (default: %(default)s)")
    parser.add_argument("--threads-rounds", type=int, default=15, help="rounds of the gradients (default: %(default)s)")
    parser.add_argument("--sentences", type=int, help="train on the first so many sentences only")
    options = parser.parse_args()
    if reason := absent():
        print(f"skipped: {reason}")
        return
    with threadpool_limits(1):
        chunks = load_chunks(options.sentences)
        train = chunks.train
        print(f"conll2000: {len(train)} sentences, {train.n_tokens} tokens, {train.n_features} features")
        load_kernels(chunks)
        compare_threads(chunks, options.threads_rounds)
        for _ in range(options.rounds):
            compare_trainings(chunks, options.max_iter)


if __name__ == "__main__":
    main()

"""Scale: training on up to 10 million tokens with a million attributes; how time and memory grow with the data.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_scale.py [--tokens N ...] [--max-iter N] [--rounds N]

Sentences of 25 tokens, 10 labels in a first-order chain; a token has 10 attributes out of a million, half of them drawn
from a part of the vocabulary that goes with its label, all by a Zipf-like law. Each measurement is a process of its
own, because peak memory is that of a process; the limit for it is 16 GiB.
"""

import argparse
import multiprocessing
import time

import numpy as np
from common import (
    fit_quietly,
    keep_problem,
    peak_mebibytes,
    print_table,
    some_weights,
    take_turns,
    training_objective,
    with_spread,
)
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._data.batch import SequenceBatch
from sklearn_hocrf._objectives import NegativeLogLikelihood

N_LABELS, N_ATTRIBUTES, LENGTH, PER_TOKEN = 10, 1_000_000, 25, 10
MOST_GIBIBYTES = 16
clock = time.process_time


def generate(n_tokens, seed=0):
    """Return the batch and the label codes of sentences, ``n_tokens // LENGTH`` of them."""
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
        rank = np.exp(rng.random(n_tokens) * np.log(N_ATTRIBUTES // N_LABELS)).astype(np.int64) - 1
        part = codes if column % 2 else rng.integers(N_LABELS, size=n_tokens)
        indices[:, column] = rank * N_LABELS + part
    indices.sort(axis=1)
    indptr = np.arange(n_tokens + 1, dtype=np.int64) * PER_TOKEN
    offsets = np.arange(n_sentences + 1, dtype=np.int64) * LENGTH
    return SequenceBatch(offsets, indptr, indices.ravel(), None, N_ATTRIBUTES), list(y)


class Fit:
    """Training."""

    params = [100_000, 1_000_000, 10_000_000]
    param_names = ["n_tokens"]
    timeout = 3600

    def setup(self, n_tokens, max_iter=20):
        self.batch, self.y = generate(n_tokens)
        self.crf = HighOrderCRF(max_iter=max_iter)
        self.problem = keep_problem(self.crf)

    def time_fit(self, n_tokens=None):
        fit_quietly(self.crf, self.batch, self.y)

    def peakmem_fit(self, n_tokens=None):
        self.time_fit()


class Gradient:
    """Value and gradient of the likelihood at one point, on one thread."""

    params = Fit.params
    param_names = Fit.param_names
    timeout = Fit.timeout

    def setup(self, n_tokens, problem=None):
        if problem is None:
            self.objective = training_objective(HighOrderCRF(), *generate(n_tokens))
        else:
            self.objective = NegativeLogLikelihood().bind(problem)
        self.w = some_weights(self.objective)

    def time_gradient(self, n_tokens=None):
        self.objective.value_gradient(self.w)


def measure(n_tokens, max_iter, n_rounds):
    """Return (weights, MiB of the data, seconds of fit, seconds of each gradient, peak MiB)."""
    with threadpool_limits(1):
        fit, gradient = Fit(), Gradient()
        fit.setup(2_500)
        fit.time_fit()  # compiles or loads the kernels
        fit.setup(n_tokens, max_iter)
        data = peak_mebibytes()
        start = clock()
        fit.time_fit()
        seconds = clock() - start
        peak = peak_mebibytes()
        gradient.setup(n_tokens, fit.problem[0])
        gradients = take_turns([gradient.time_gradient], n_rounds, clock)[:, 0]
        return len(gradient.w), data, seconds, gradients, peak


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=Fit.params, help="sizes (default: %(default)s)")
    parser.add_argument("--max-iter", type=int, default=20, help="iterations of fit (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="gradients to time (default: %(default)s)")
    options = parser.parse_args(arguments)
    lines, medians, peaks = [], [], []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for n_tokens in options.tokens:
            n_weights, data, seconds, gradients, peak = pool.apply(
                measure, (n_tokens, options.max_iter, options.rounds)
            )
            medians.append(np.median(gradients))
            peaks.append(peak)
            per_token = f"{1e6 * medians[-1] / n_tokens:.3f}"
            sizes = f"{data:.0f}", f"{peak:.0f}"
            lines.append((n_tokens, n_weights, with_spread(gradients), per_token, f"{seconds:.1f}", *sizes))
    heads = ["tokens", "weights", "gradient, s", "microseconds/token", "fit, s", "MiB with data", "peak MiB"]
    print_table(heads, lines)
    if len(medians) > 1:
        exponent = np.polyfit(np.log(options.tokens), np.log(medians), 1)[0]
        print(f"seconds of a gradient grow as tokens to the power {exponent:.2f}")
    verdict = "within" if max(peaks) <= 1024 * MOST_GIBIBYTES else "beyond"
    print(f"peak memory up to {max(peaks) / 1024:.1f} GiB: {verdict} the limit of {MOST_GIBIBYTES} GiB")


if __name__ == "__main__":
    main()

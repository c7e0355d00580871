"""Long and many sequences: peak memory of one sequence of a million tokens, growth of a gradient with the data.

    python tests/benchmarks/bench_long.py [--tokens N] [--max-iter N]

Each measurement is a process of its own, because peak memory is that of a process.
"""

import argparse
import multiprocessing
import time
import tracemalloc
import warnings

import numpy as np
from common import peak_mebibytes, print_table
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._data.batch import SequenceBatch
from sklearn_hocrf._inference.families import CHAIN
from sklearn_hocrf._objectives import NegativeLogLikelihood, Problem
from sklearn_hocrf._structure.layout import build_layout
from sklearn_hocrf._structure.patterns import observed_patterns
from sklearn_hocrf.datasets import make_markov_sequences

ORDER = 3


def one_long_sequence(n_tokens, part=1000):
    """Return one sequence of a chain of order 3, strung together of parts that are generated side by side."""
    X, y = make_markov_sequences(-(-n_tokens // part), length=part, order=ORDER, random_state=0)
    return [np.concatenate(X)[:n_tokens]], [np.concatenate(y)[:n_tokens]]


class Long:
    """One long sequence."""

    def setup(self, n_tokens=1_000_000, max_iter=3):
        self.X, self.y = one_long_sequence(n_tokens)
        self.max_iter = max_iter

    def time_fit(self):
        self.crf = HighOrderCRF(max_order=ORDER, max_iter=self.max_iter).fit(self.X, self.y)

    def time_predict(self):
        self.crf.predict(self.X)

    def time_predict_marginals(self):
        self.crf.predict_marginals(self.X)

    def time_compile(self):
        """Fit a short sequence, so that the kernels are there."""
        short = [self.X[0][:50]], [self.y[0][:50]]
        HighOrderCRF(max_order=ORDER, max_iter=1).fit(*short).predict_marginals(short[0])

    def peakmem_all(self):
        self.time_fit()
        self.time_predict()
        self.time_predict_marginals()


def measure_long(n_tokens, max_iter):
    """Return rows (step, seconds, peak memory of the process after it)."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    case = Long()
    rows = [("imports", 0.0, peak_mebibytes())]
    steps = {
        "data": lambda: case.setup(n_tokens, max_iter),
        "compiling kernels, or loading them": case.time_compile,
        f"fit, {max_iter} iterations": case.time_fit,
        "predict": case.time_predict,
        "predict_marginals": case.time_predict_marginals,
    }
    for name, step in steps.items():
        start = time.perf_counter()
        step()
        rows.append((name, time.perf_counter() - start, peak_mebibytes()))
    return rows


class Growth:
    """A gradient of many short sequences."""

    params = [1000, 2000, 4000, 8000, 16000, 32000]
    param_names = ["n_sequences"]

    def setup(self, n_sequences):
        X, y = make_markov_sequences(n_sequences, length=20, order=ORDER, random_state=0)
        offsets = np.arange(n_sequences + 1) * 20
        codes = np.concatenate(y).astype(np.int32)
        self.batch = SequenceBatch.from_csr(np.concatenate(X), offsets)
        patterns = observed_patterns(codes, offsets, int(codes.max()) + 1, ORDER)
        layout = build_layout(self.batch, codes, patterns)
        self.objective = NegativeLogLikelihood().bind(Problem(CHAIN, layout, self.batch, codes))
        self.w = np.random.default_rng(0).normal(scale=0.1, size=layout.n_weights)

    def time_gradient(self, n_sequences=None):
        return self.objective.value_gradient(self.w)

    def peakmem_gradient(self, n_sequences=None):
        return self.time_gradient()

    def track_gradient_mebibytes(self, n_sequences=None):
        """Return the memory that a gradient takes for itself, at its highest."""
        tracemalloc.start()
        self.time_gradient()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / 2**20


def measure_growth(n_sequences, n_rounds=7):
    """Return (MiB of the data, best milliseconds of a gradient, MiB of a gradient, peak MiB of the process)."""
    case = Growth()
    case.setup(n_sequences)
    case.time_gradient()
    seconds = []
    for _ in range(n_rounds):
        start = time.process_time()
        case.time_gradient()
        seconds.append(time.process_time() - start)
    batch = case.batch
    data = sum(array.nbytes for array in (batch.offsets, batch.indptr, batch.indices, batch.values)) / 2**20
    return data, 1e3 * min(seconds), case.track_gradient_mebibytes(), peak_mebibytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="length of the sequence (default: %(default)s)")
    parser.add_argument("--max-iter", type=int, default=3, help="iterations of its fit (default: %(default)s)")
    options = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        print(f"one sequence of {options.tokens} tokens, order {ORDER}")
        rows = pool.apply(measure_long, (options.tokens, options.max_iter))
        print_table(["", "seconds", "peak MiB"], [(name, f"{s:.1f}", f"{peak:.0f}") for name, s, peak in rows])

        print(f"\none gradient of sequences of 20 tokens, order {ORDER}, one thread, best of 7")
        rows = []
        for n_sequences in Growth.params:
            data, milliseconds, own, peak = pool.apply(measure_growth, (n_sequences,))
            per_token = f"{1e3 * milliseconds / (20 * n_sequences):.3f}"
            rows.append((n_sequences, f"{data:.1f}", f"{milliseconds:.1f}", per_token, f"{own:.2f}", f"{peak:.0f}"))
        heads = ["sequences", "data MiB", "milliseconds", "microseconds/token"]
        print_table([*heads, "gradient's own MiB", "process peak MiB"], rows)


if __name__ == "__main__":
    main()

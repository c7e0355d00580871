"""Order over tokens, compared with order over segments: punctuation marks, whose segments are short.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_segment_order.py [--quick]

The labels, features and models are those of bench_punctuation, where segments are runs. The penalty and the tolerance
are the defaults, and the score is the F1 of the marks. The command prints scores, processor seconds, iterations, and
numbers of states and arcs. It also prints the differences from the model of the same order over tokens, with 95 %
intervals from a bootstrap over sequences. Needs the data in SKLEARN_HOCRF_DATA or ../shared/data. ``--quick`` uses an
eighth of the data.
"""

import time

import bench_punctuation
import numpy as np
from common import absent, fit_quietly, parse, print_table, skipped

ORDERS = [("tokens", 1), ("tokens", 2), ("segments", 1), ("segments", 2), ("segments", 3)]


def counts(truth, found):
    """Return, for each sequence, how many marks are right, in truth, and found."""
    both = zip(*map(bench_punctuation.decode_punctuation, (truth, found)), strict=True)
    return np.array(
        [
            (sum(a == b != "O" for a, b in zip(*one, strict=True)), *(sum(y != "O" for y in of) for of in one))
            for one in both
        ]
    )


def f1(counts):
    """Return 100 times the F1 of counts."""
    return 200 * counts[..., 0] / (counts[..., 1] + counts[..., 2])


def measure(every):
    """Return a row of each model."""
    data, features = bench_punctuation.load(), bench_punctuation.chain_features()
    X, X_test, found, rows = features.fit_transform(data.X[::every]), features.transform(data.X_test), {}, []
    n_test = len(data.y_test)
    resamples = np.random.default_rng(0).multinomial(n_test, np.ones(n_test) / n_test, 2000)
    for history, order in ORDERS:
        start = time.process_time()
        crf = fit_quietly(bench_punctuation.chain_model(order, history=history), X, data.y[::every])
        seconds = time.process_time() - start
        own = found[history, order] = counts(data.y_test, crf.predict(X_test))
        row = [f"marks {order}, {history}", f"{f1(own.sum(0)):.2f}", f"{seconds:.1f}"]
        row += [crf.n_iter_, crf.automaton_.n_states, crf.automaton_.n_arcs, "", ""]
        if history == "segments":
            other = found["tokens", min(order, 2)]
            low, high = np.quantile(f1(resamples @ own) - f1(resamples @ other), [0.025, 0.975])
            row[-2:] = f"{f1(own.sum(0)) - f1(other.sum(0)):+.2f}", f"{low:+.2f} to {high:+.2f}"
        rows.append(row)
        print(*row, flush=True)
    return rows


def main(arguments=None):
    quick = parse(__doc__, arguments, quick=False).quick
    if skipped(absent(bench_punctuation.TRAIN, bench_punctuation.TEST)):
        return
    heads = ["order", "score", "s a fit", "iterations", "states", "arcs", "beside tokens", "95 %"]
    print_table(heads, measure(8 if quick else 1))


if __name__ == "__main__":
    main()

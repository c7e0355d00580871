"""Order over tokens and over segments, where segments are short: marks of punctuation, parts of addresses.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_segment_order.py [--data NAME ...] [--quick]

marks: the labels and features of bench_punctuation; F1 of the marks. addresses: five of the ten folds of usaddress, the
product's features; addresses without an error. Segments are runs of equal labels. A penalty for all models of a data
set, not chosen; tolerance 0.003 for marks, 0.03 for addresses, at most 500 iterations. Prints scores, processor
seconds, iterations, states and arcs, and differences from the model of the same order over tokens, with their 95 %
intervals by bootstrap over sequences. Needs the data in SKLEARN_HOCRF_DATA or ../shared/data. --quick: an eighth.
"""

import json
import sys
import time
from pathlib import Path

import bench_punctuation
import numpy as np
from common import absent, fit_quietly, parse, print_table, skipped

sys.path.append(str(Path(__file__).parent / "products"))
import protocol
import usaddress

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

ORDERS = [("tokens", 1), ("tokens", 2), ("segments", 1), ("segments", 2), ("segments", 3)]


def marks(every):
    data = bench_punctuation.load()
    features = bench_punctuation.chain_features()
    X, X_test = features.fit_transform(data.X[::every]), features.transform(data.X_test)

    def model(history, order):
        return bench_punctuation.chain_model(order, history=history)

    def counts(truth, found):
        both = zip(*map(bench_punctuation.decode_punctuation, (truth, found)), strict=True)
        return np.array(
            [
                (sum(a == b != "O" for a, b in zip(*one, strict=True)), *(sum(y != "O" for y in of) for of in one))
                for one in both
            ]
        )

    return [(X, data.y[::every], X_test, data.y_test)], model, counts


def addresses(every):
    rows = [json.loads(line) for line in protocol.read_lines(*usaddress.FILE)[::every]]
    y = [row["labels"] for row in rows]
    X = SequenceFeatureExtractor("attributes").fit_transform([row["features"] for row in rows])
    parts = [
        (X[train], protocol.part(y, train), X[test], protocol.part(y, test))
        for train, test in protocol.shuffled_folds(len(y), 10)[:5]
    ]

    def model(history, order):
        return HighOrderCRF(order, history=history, sigma_reg=2.0, tol=0.03)

    def counts(truth, found):
        return np.array([(own == true, 1, 1) for true, own in zip(truth, found, strict=True)], dtype=int)

    return parts, model, counts


def f1(counts):
    """Return 100 times the F1 of counts: right, in truth, found."""
    return 200 * counts[..., 0] / (counts[..., 1] + counts[..., 2])


DATA = {"marks": marks, "addresses": addresses}


def measure(what, every):
    """Return a row of each model."""
    splits, make, count = DATA[what](every)
    truth, counts, rows = [labels for *_, y_test in splits for labels in y_test], {}, []
    resamples = np.random.default_rng(0).multinomial(len(truth), np.ones(len(truth)) / len(truth), 2000)
    for history, order in ORDERS:
        found, seconds, iterations = [], 0.0, 0
        for X, y, X_test, _ in splits:
            start = time.process_time()
            crf = fit_quietly(make(history, order), X, y)
            seconds, iterations = seconds + time.process_time() - start, iterations + crf.n_iter_
            found += crf.predict(X_test)
        own = counts[history, order] = count(truth, found)
        row = [what, f"{order}, {history}", f"{f1(own.sum(0)):.2f}", f"{seconds / len(splits):.1f}"]
        row += [iterations // len(splits), crf.automaton_.n_states, crf.automaton_.n_arcs, "", ""]
        if history == "segments":
            other = counts["tokens", min(order, 2)]
            low, high = np.quantile(f1(resamples @ own) - f1(resamples @ other), [0.025, 0.975])
            row[-2:] = f"{f1(own.sum(0)) - f1(other.sum(0)):+.2f}", f"{low:+.2f} to {high:+.2f}"
        rows.append(row)
        print(*row, flush=True)
    return rows


def main(arguments=None):
    options = parse(__doc__, arguments, data=[*DATA], quick=False)
    files = bench_punctuation.TRAIN, bench_punctuation.TEST, usaddress.FILE
    if skipped(absent(*files)):
        return
    rows = [row for what in options.data for row in measure(what, 8 if options.quick else 1)]
    heads = ["", "order", "score", "s a fit", "iterations", "states", "arcs", "beside tokens", "95 %"]
    print_table(heads, rows)


if __name__ == "__main__":
    main()

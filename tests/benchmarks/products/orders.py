"""Which ``max_order`` is the better default? Orders 1 and 2 on ten data sets, in folds of training parts alone.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/orders.py [--sets NAME ...] [--orders N ...] [--semi]

Of each training part, at most 600 sequences in random order (a third as many abstracts of nicta_piboso), and then all
of them. Each half is trained on and the other half is scored, so that each sequence is scored once. All settings but
``max_order`` are the defaults (handwriting: all pairs). Sets, features and measures are those of ``defaults.py``.

Order 2 becomes the default if, over the ten sets, the mean difference from order 1 is above .5 points at both sizes, no
set's difference is below -1.5 with 600 sequences or below -1.0 with all, and no set's fits take more than 2.5 times as
long (processor time). Only the first of ``--orders`` is judged. With ``--semi``, ``HighOrderSemiCRF`` is judged in the
same way over four sets with segments.
"""

import os
import random
import time
from functools import partial

import numpy as np
import protocol
from defaults import SETS, difference, shares
from protocol import part, print_table

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

LIMITS = {600: -1.5, 0: -1.0}  # the lowest difference of a set, by the number of sequences; 0 stands for all
MEAN, SLOWEST = 0.5, 2.5
SEGMENTED = {"conll2000": "bio", "conll2002": "bio", "sms_np": "bio", "Cora": "runs"}  # the scheme of y


def load(of, most):
    """Return X, y and the measure of a set: at most so many sequences in random order, or all."""
    file, read, extract, measure = SETS[of]
    X, y = read(*file)
    most = most // (3 if of == "nicta_piboso" else 1) or len(y)
    chosen = random.Random(0).sample(range(len(y)), min(len(y), most))
    return (
        (extract or SequenceFeatureExtractor().fit_transform)([X[i] for i in chosen]),
        [y[i] for i in chosen],
        measure,
    )


def run(X, y, measure, model):
    """Return the shares of each sequence, scored by the model of the other half, and the processor seconds of fits."""
    found, seconds, half = np.zeros((len(y), 2)), 0.0, np.arange(len(y)) % 2
    for fold in range(2):
        train, test = np.flatnonzero(half == fold), np.flatnonzero(half != fold)
        start = time.process_time()
        protocol.fit_quietly(model, part(X, train), part(y, train))
        seconds += time.process_time() - start
        found[test] = shares(measure, part(y, test), model.predict(part(X, test)))
    return found, seconds


def model_of(of, order, semi):
    if semi:
        return HighOrderSemiCRF(max_order=order, scheme=SEGMENTED[of])
    return HighOrderCRF(max_order=order, all_pairs=of == "handwriting")


def verdict(gains, ratios, lowest):
    """Return whether one size of the table passes, with its figures."""
    passes = np.mean(gains) > MEAN and min(gains) >= lowest and max(ratios) <= SLOWEST
    figures = f"mean {np.mean(gains):+.2f}, lowest {min(gains):+.2f}, time of a fit at most {max(ratios):.1f}"
    return f"{'passes' if passes else 'does not pass'}: {figures}"


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, sets=list(SETS), orders=[2], sizes=list(LIMITS), keep="", semi=False)
    rows, found = [], {size: [] for size in options.sizes}
    for most in options.sizes:
        for of in (name for name in options.sets if name in SEGMENTED or not options.semi):
            if protocol.skipped(protocol.absent(SETS[of][0])):
                continue
            X, y, measure = load(of, most)
            results = {}
            for order in [1, *options.orders]:
                name = f"{of} {most or 'all'} order {order}{' semi' if options.semi else ''}"
                path = options.keep and os.path.join(options.keep, name) or None
                results[order] = protocol.kept(path, partial(run, X, y, measure, model_of(of, order, options.semi)))
            base, base_seconds = results[1]
            row = [of, measure, len(y) // 2, f"{100 * np.divide(*base.sum(axis=0)):.2f}"]
            for order in options.orders:
                gain, low, high = difference(results[order][0], base)
                ratio = results[order][1] / base_seconds
                row.append(f"{gain:+.2f} ({low:+.2f} to {high:+.2f}), {ratio:.1f}")
                if order == options.orders[0]:
                    found[most].append((gain, ratio))
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    heads = [f"order {order}: difference, time" for order in options.orders]
    print_table(["set", "measure", "trained on", "order 1", *heads], rows)
    for most, of in found.items():
        if of:
            print(f"{most or 'all'} sequences: {verdict(*zip(*of, strict=True), LIMITS[most])}")


if __name__ == "__main__":
    main()

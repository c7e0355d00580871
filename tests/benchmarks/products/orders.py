"""Which ``max_order`` is the better default? Orders 1 and 2 on ten data sets, in folds of training parts alone.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/orders.py [--sets NAME ...] [--orders N ...] [--semi]

Of each training part, at most 600 sequences in random order (a third as many abstracts of nicta_piboso), and then all
of them. Each half is trained on and the other half is scored, so that each sequence is scored once. All settings but
``max_order`` are the defaults (handwriting: all pairs). One measure for each set: sequences entirely right (AnyStyle,
usaddress, probablepeople, with the product's features); F1 of exact segments (conll2000, conll2002, sms_np: words
alone, features by default); tokens right (Cora; Turkish, coarse tags; handwriting; nicta_piboso, bags of words).
Intervals are bootstraps of sequences.

Order 2 becomes the default if, over the ten sets, the mean difference from order 1 is above .5 points at both sizes, no
set's difference is below -1.5 with 600 sequences or below -1.0 with all, and no set's fits take more than 2.5 times as
long (processor time). Only the first of ``--orders`` is judged. With ``--semi``, ``HighOrderSemiCRF`` is judged in the
same way over four sets with segments.
"""

import json
import os
import random
import time
from functools import partial

import anystyle
import bench_handwriting
import numpy as np
import protocol
import sms_np
import stacking
import usaddress
from common import TURKISH, words_and_tags
from protocol import data_file, part, print_table
from sklearn.feature_extraction.text import CountVectorizer

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, SequenceBatch
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.text import extract_segments

LIMITS = {600: -1.5, 0: -1.0}  # the lowest difference of a set, by the number of sequences; 0 stands for all
MEAN, SLOWEST, N_RESAMPLED = 0.5, 2.5, 9999
ENTIRELY, SEGMENTS, TOKENS = "entirely right", "F1", "tokens right"
SEGMENTED = {"conll2000": "bio", "conll2002": "bio", "sms_np": "bio", "Cora": "runs"}  # the scheme of y


def words_of(*file):
    """Return words and labels of a file of columns."""
    columns = ["w", "tag"] if file[0] == "cora_references" else ["w", "p", "tag"]
    X, y = load_conll(data_file(*file), columns)
    return [[token["w"] for token in sentence] for sentence in X], y


def coarse(*file):
    X, y = words_and_tags(data_file(*file))
    return X, [[tag.split("|")[0] for tag in tags] for tags in y]


def product(*file):
    rows = [json.loads(line) for line in protocol.read_lines(*file)]
    return [row["features"] for row in rows], [row["labels"] for row in rows]


def bags(X):
    counts = CountVectorizer(binary=True).fit_transform(stacking.tokens_of(X))
    return SequenceBatch.from_csr(counts, np.cumsum([0, *(len(x) for x in X)]))


def columns_of(X):
    return SequenceFeatureExtractor.from_file(data_file(*anystyle.FILES[2])).fit_transform(X)


ATTRIBUTES = SequenceFeatureExtractor("attributes").fit_transform
SETS = {  # the file, how it is read, features, the measure
    "conll2000": (("conll2000", "train.txt.gz"), words_of, None, SEGMENTS),
    "conll2002": (("conll2002", "esp.train.gz"), words_of, None, SEGMENTS),
    "sms_np": (("sms_np", "train.conll.gz"), lambda *_: sms_np.load(False)["train"], None, SEGMENTS),
    "usaddress": (usaddress.FILE, product, ATTRIBUTES, ENTIRELY),
    "AnyStyle": (anystyle.FILES[0], lambda *_: anystyle.load(), columns_of, ENTIRELY),
    "probablepeople": (("probablepeople", "names.jsonl.gz"), product, ATTRIBUTES, ENTIRELY),
    "Cora": (("cora_references", "ref.train"), words_of, None, TOKENS),
    "Turkish": (TURKISH[0], coarse, None, TOKENS),
    "handwriting": (("ocr", "letter.data.gz"), lambda *_: bench_handwriting.load_words()[0], list, TOKENS),
    "nicta_piboso": (("nicta_piboso", "train.txt.gz"), lambda *_: stacking.load("train"), bags, TOKENS),
}


def shares(measure, y_true, y_pred):
    """Return two numbers for each sequence, whose sums over sequences have the measure as their ratio."""
    if measure == ENTIRELY:
        return np.array([[list(a) == list(b), 1] for a, b in zip(y_true, y_pred, strict=True)])
    if measure == TOKENS:
        return np.array([[np.sum(np.array(a) == np.array(b)), len(a)] for a, b in zip(y_true, y_pred, strict=True)])
    both = ([set(of) for of in extract_segments(y, scheme="bio")] for y in (y_true, y_pred))
    return np.array([[2 * len(a & b), len(a) + len(b)] for a, b in zip(*both, strict=True)])


def load(of, most, seed=0):
    """Return X, y and the measure of a set: at most so many sequences in random order, or all."""
    file, read, extract, measure = SETS[of]
    X, y = read(*file)
    most = most // (3 if of == "nicta_piboso" else 1) or len(y)
    chosen = random.Random(seed).sample(range(len(y)), min(len(y), most))
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


def difference(one, other):
    """Return the difference of two results in points, and its 95 % interval."""
    drawn = np.random.default_rng(0).integers(len(one), size=(N_RESAMPLED, len(one)))
    drawn = np.vstack([np.arange(len(one)), drawn])
    points = [100 * of[drawn, 0].sum(axis=1) / of[drawn, 1].sum(axis=1) for of in (one, other)]
    gains = points[0] - points[1]
    return gains[0], *np.quantile(gains[1:], [0.025, 0.975])


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

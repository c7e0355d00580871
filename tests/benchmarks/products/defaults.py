"""Would another penalty be a better default? L1 and sigma_reg on ten data sets, in folds of training parts alone.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/defaults.py [--sets NAME ...] [--most N] [--keep FOLDER]

A reduced protocol: of each training part, at most 600 sequences in random order (--most: others; a third as many
abstracts of nicta_piboso), in three parts. A model is trained on one part, or on a tenth of it, and scored on
the two others, so that each sequence is scored twice. SETTINGS are compared with the default (``sigma_reg=1``, no L1)
at the same order, 1 and 2, all else by default. Not tried: ``l1_reg`` of .05 and .2, sigma 4, order 3, and training
parts of full size. One measure for each set: sequences entirely right (AnyStyle, usaddress, probablepeople, with the
product's features); F1 of exact segments (conll2000, conll2002, sms_np: words alone, features by default); tokens right
(Cora; Turkish, coarse tags; handwriting, with all pairs; nicta_piboso, bags of words). Intervals are bootstraps of
sequences. A setting is a better default if at one order all intervals, of both sizes, are above -.3 points, the gain is
above 1 point on two sets other than probablepeople, and no fit takes more than three times as long.
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

from sklearn_hocrf import HighOrderCRF, SequenceBatch
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.text import extract_segments

SETTINGS = {"sigma 2": {"sigma_reg": 2.0}, "l1 .1": {"l1_reg": 0.1}}
SETTINGS["l1 .1, sigma 2"] = SETTINGS["l1 .1"] | SETTINGS["sigma 2"]
SIZES, ORDERS, N_FOLDS, N_RESAMPLED = {"a third": 1, "a tenth of it": 10}, (1, 2), 3, 9999
ENTIRELY, SEGMENTS, TOKENS = "entirely right", "F1", "tokens right"


def words_of(*file):
    """Return words and labels of a file of columns."""
    columns = ["w", "tag"] if file[0] == "cora_references" else ["w", "p", "tag"]
    X, y = load_conll(data_file(*file), columns, return_X_y=True)
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
    return SequenceFeatureExtractor.from_file(data_file(*anystyle.FILES[2]), style="wapiti").fit_transform(X)


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


def run(X, y, measure, rarer, settings):
    """Return the shares of each sequence, summed over folds, and the processor seconds of fits."""
    total, seconds = np.zeros((len(y), 2)), 0.0
    for fold in range(N_FOLDS):
        train, test = (np.flatnonzero((np.arange(len(y)) % N_FOLDS == fold) == is_in) for is_in in (True, False))
        train = train[::rarer]
        start = time.process_time()
        model = protocol.fit_quietly(HighOrderCRF(**settings), part(X, train), part(y, train))
        seconds += time.process_time() - start
        total[test] += shares(measure, part(y, test), model.predict(part(X, test)))
    return total, seconds


def difference(one, other):
    """Return the difference of two results in points, and its 95 % interval."""
    drawn = np.random.default_rng(0).integers(len(one), size=(N_RESAMPLED, len(one)))
    drawn = np.vstack([np.arange(len(one)), drawn])
    points = [100 * of[drawn, 0].sum(axis=1) / of[drawn, 1].sum(axis=1) for of in (one, other)]
    gains = points[0] - points[1]
    return gains[0], *np.quantile(gains[1:], [0.025, 0.975])


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, sets=list(SETS), settings=list(SETTINGS), most=600, keep="")
    rows, found = [], {(name, order): [] for name in options.settings for order in ORDERS}
    for of in options.sets:
        file, load, extract, measure = SETS[of]
        if protocol.skipped(protocol.absent(file)):
            continue
        X, y = load(*file)
        chosen = random.Random(0).sample(range(len(y)), min(len(y), options.most // (3 if of == "nicta_piboso" else 1)))
        X, y = (extract or SequenceFeatureExtractor().fit_transform)([X[i] for i in chosen]), [y[i] for i in chosen]
        for (size, rarer), order in ((size, order) for size in SIZES.items() for order in ORDERS):
            given = {"max_order": order} | ({"all_pairs": True} if of == "handwriting" else {})
            results = {}
            for name in ["default", *options.settings]:
                path = options.keep and os.path.join(options.keep, f"{of} {options.most} {size} {order} {name}") or None
                results[name] = protocol.kept(path, partial(run, X, y, measure, rarer, given | SETTINGS.get(name, {})))
            base, base_seconds = results["default"]
            row = [f"{of}, {size}", order, f"{100 * np.divide(*base.sum(axis=0)):.2f}"]
            for name in options.settings:
                gain, low, high = difference(results[name][0], base)
                found[name, order].append((of, gain, low, results[name][1] / base_seconds))
                row.append(f"{gain:+.2f} ({low:+.2f} to {high:+.2f}), {found[name, order][-1][3]:.1f}")
            rows.append(row)
            print(*row, sep=" | ", flush=True)
    print_table(["trained on", "order", "default", *(f"{name}: difference, time" for name in options.settings)], rows)
    for (name, order), of in found.items():
        better = {one for one, gain, *_ in of if gain > 1 and one != "probablepeople"}
        low, ratio = min((low for *_, low, _ in of), default=0), max((ratio for *_, ratio in of), default=0)
        verdict = "better" if low > -0.3 and len(better) > 1 and ratio <= 3 else "not better"
        print(f"{name}, order {order}: {verdict}; lowest {low:+.2f}, over 1: {sorted(better)}, time {ratio:.1f}")


if __name__ == "__main__":
    main()

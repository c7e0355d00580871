"""Conformal sets on real data: how often they contain the truth and how large they are, beside naive thresholds.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_conformal.py [--tasks T ...] [--splits N] [--alphas A ...]
        [--sentences N] [--held-out N]

Names of conll2002 (a model of order 1, trained once on the training file, or its first N sentences, with the template
of ``bench_ner``; in each split 1000 sentences of both test files calibrate, and the others test; with ``--held-out``
half of so many calibrate, and half test) and usaddress (half of the addresses train a model of order 2, a quarter
calibrates, a quarter tests). Over random splits: the mean coverage with its standard deviation, the same of what is
shown where ``max_size`` cuts sets, and how many splits are within the central 95 % of the distribution that coverage
has if sequences are exchangeable and scores do not tie (beta-binomial; labellings and shares of losses have no such
law, but their mean is at least 1 - alpha). Sizes are labellings of a sequence, labels of a token, or segments of a
sequence. "naive" takes probabilities at their word: labellings, or labels of a token, until their total probability is
1 - alpha, and segments of probability alpha or more. Needs conll2002 or usaddress in SKLEARN_HOCRF_DATA or
../shared/data.
"""

import gzip
import json

import bench_chunking
import bench_ner
import common
import numpy as np
from scipy.stats import betabinom

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.calibration import ConformalSequenceLabeler
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceDictVectorizer, SequenceFeatureExtractor

ADDRESSES = ("usaddress", "train.jsonl.gz")
DEVELOPMENT = ("conll2002", "esp.testa.gz")
LEVELS = {
    "labellings, by probability": {"level": "sequence"},
    "labellings, by mass": {"level": "sequence", "conformity": "mass"},
    "labels of all tokens": {"level": "token"},
    "labels, share of tokens": {"level": "token", "control": "mean"},
    "segments": {"level": "segment"},
}
HEADS = ["", "alpha", "coverage", "shown", "within 95 %", "size", "complete", "naive: coverage", "naive: size"]


def conll2002(n_splits, n_sentences, n_held_out):
    """Yield the fitted model, and the data that calibrate and test, of each split."""
    files = [common.data_file(*parts) for parts in (bench_ner.TRAIN, DEVELOPMENT, bench_ner.TEST)]
    train, *tests = (load_conll(path, ["w", "p", "tag"], return_X_y=True) for path in files)
    train = [pair for pair in zip(*train, strict=True) if len(pair[1]) <= bench_ner.LONGEST]
    train = train[: n_sentences or len(train)]
    extractor = SequenceFeatureExtractor(bench_chunking.TEMPLATES, fields=["w", "p"], padding="drop")
    crf = HighOrderCRF(1).fit(extractor.fit_transform([x for x, _ in train]), [y for _, y in train])
    X, y = extractor.transform(sum((X for X, _ in tests), [])), sum((y for _, y in tests), [])
    n_calibrate = n_held_out // 2 or 1000
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(y))[: n_held_out or len(y)]
        yield crf, *((X[part], [y[i] for i in part]) for part in (order[:n_calibrate], order[n_calibrate:]))


def usaddress(n_splits, *_):
    """Yield the same."""
    with gzip.open(common.data_file(*ADDRESSES), "rt", encoding="utf-8") as file:
        addresses = list(map(json.loads, file))
    X, y = SequenceDictVectorizer().fit_transform([a["features"] for a in addresses]), [a["labels"] for a in addresses]
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(y))
        parts = np.split(order, [len(y) // 2, 3 * len(y) // 4])
        (X_train, y_train), *others = ((X[part], [y[i] for i in part]) for part in parts)
        yield HighOrderCRF(2, sigma_reg=2.0).fit(X_train, y_train), *others


def naive(conformal, X, y):
    """Return the coverage and the size of sets that take probabilities at their word."""
    target = 1 - conformal.alpha
    if conformal.level != "token":
        conformal = ConformalSequenceLabeler(**conformal.get_params(deep=False) | {"conformity": "mass"}).fit(X, y)
        conformal.threshold_ = target  # of the mass before a labelling; of a segment, 1 - its probability
        found = conformal.coverage(X, y)
        return found.coverage, found.size
    code = {label: number for number, label in enumerate(conformal.classes_.tolist())}
    shares, sizes = [], []
    for table, labels in zip(conformal.estimator_.predict_marginals(X), y, strict=True):
        before = np.array([[row[row > p].sum() for p in row] for row in table])
        kept = before < target
        is_in = [label in code and kept[t, code[label]] for t, label in enumerate(labels)]
        shares.append(np.mean(is_in) if conformal.control == "mean" else all(is_in))
        sizes.append(kept.sum() / len(kept))
    return float(np.mean(shares)), float(np.mean(sizes))


def bounds(n, n_test, alpha):
    """Return the central 95 % of the coverage of ``n_test`` sequences by ``n`` others."""
    k = int(np.ceil((n + 1) * (1 - alpha) - 1e-9))
    return [betabinom.ppf(p, n_test, k, n + 1 - k) / n_test for p in (0.025, 0.975)]


def main(arguments=None):
    tasks = {conll2002: [bench_ner.TRAIN, DEVELOPMENT, bench_ner.TEST], usaddress: [ADDRESSES]}
    names = {task.__name__: task for task in tasks}
    options = common.parse(__doc__, arguments, tasks=list(names), splits=20, alphas=[0.1], sentences=0, held_out=0)
    for name in options.tasks:
        if common.skipped(common.absent(*tasks[names[name]])):
            continue
        found = {(level, alpha): [] for level in LEVELS for alpha in options.alphas}
        for model, calibration, test in names[name](options.splits, options.sentences, options.held_out):
            for (level, alpha), values in found.items():
                conformal = ConformalSequenceLabeler(model, alpha=alpha, **LEVELS[level]).fit(*calibration)
                coverage = conformal.coverage(*test)
                least, most = bounds(len(calibration[1]), len(test[1]), alpha)
                values.append([*coverage, least <= coverage.coverage <= most, *naive(conformal, *test)])
            print(".", end="", flush=True)
        rows = []
        for (level, alpha), values in found.items():
            covered, shown, size, complete, is_within, own, own_size = np.mean(values, axis=0)
            spread = np.std([value[0] for value in values], ddof=1) if len(values) > 1 else 0.0
            has_law = LEVELS[level] in ({"level": "sequence"}, {"level": "token"})
            rows.append([level, f"{alpha:g}", f"{covered:.3f} ± {spread:.3f}", f"{shown:.3f}"])
            rows[-1] += [f"{is_within:.0%}" if has_law else "", f"{size:.2f}", f"{complete:.3f}"]
            rows[-1] += [f"{own:.3f}", f"{own_size:.2f}"]
        print(f"\n{name}: {options.splits} splits, {len(calibration[1])} sequences calibrate, {len(test[1])} test")
        common.print_table(HEADS, rows)


if __name__ == "__main__":
    main()

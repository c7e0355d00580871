"""Punctuation of movie dialogues: the published table, and F1 of each mark.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_punctuation.py [--quick]

The command prints the number of weights, the optimum and the F1 over words of CRFs (C^k) and semi-CRFs (SC^k) of order
k, next to Table 6 of Cuong, Ye, Lee and Chieu (JMLR 15, 2014). The published figures come from training with a loose
stopping criterion. This program trains to the optimum, so its objectives must not exceed the published ones. Needs the
punctuation data in SKLEARN_HOCRF_DATA or ../shared/data. ``--quick`` trains on a few dialogues for a few iterations.
"""

from itertools import chain, combinations

import common
from common import Split, absent, data_file, parse, print_models, skipped, train, word_features
from sklearn.metrics import f1_score
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

TRAIN, TEST = ("punctuation", "punc.tr"), ("punctuation", "punc.ts")
MARKS = [",", ".", "?"]
PUBLISHED = {  # F1 of comma, period and question mark, and of all three
    "C^1": (59.29, 75.37, 58.18, 66.21),
    "C^2": (59.70, 75.37, 59.54, 66.53),
    "C^3": (59.90, 75.46, 60.57, 66.85),
    "SC^1": (61.13, 75.03, 57.61, 66.73),
    "SC^2": (60.89, 78.97, 74.05, 70.85),
    "SC^3": (60.35, 78.82, 73.56, 70.47),
}
OBJECTIVE = {"C^1": 2589.35, "C^2": 2186.09, "SC^1": 2378.40}  # reached by other implementations
OFFSETS = range(-4, 5)
HEADS = {j: f"w[{j}]=" for j in OFFSETS} | {(j, k): f"w[{j}]|w[{k}]=" for j, k in combinations(OFFSETS, 2)}
WORD, BORDER = "w[0]=", ("w[0]=", "w[-1]=", "w[-1]|w[0]=")


def attributes(words):
    """Return the attributes of each word of a dialogue: words at offsets -4 to 4, and pairs of them.

    The empty word is before the first word and after the last; there is nothing beyond, and pairs leave the first of
    these two out.
    """
    padded = dict(enumerate(["", *words, ""], start=-1))
    rows = []
    for i in range(len(words)):
        near = {offset: padded[i + offset] for offset in OFFSETS if i + offset in padded}
        row = [HEADS[offset] + word for offset, word in near.items()]
        near.pop(-1 - i, None)
        rows.append(row + [f"{HEADS[j, k]}{near[j]}|{near[k]}" for j, k in combinations(near, 2)])
    return rows


def chain_features():
    return word_features(attributes)


def segment_features():
    return word_features(attributes, bag="w[", begin=("bias", *BORDER), inside=("bias", *BORDER))


def chain_model(max_order, **params):
    """Return C^k: the word goes with patterns of all orders, the word before it and their pair with orders 0 and 1."""
    orders = dict.fromkeys(BORDER, (0, 1)) | {WORD: max_order}
    return HighOrderCRF(max_order, feature_order=orders, fit_intercept=False, **params)


def segment_model(max_order, **params):
    """Return SC^k: the words of a segment go with patterns of all orders, what is at its border with order 1."""
    return HighOrderSemiCRF(max_order, feature_order={WORD: max_order, "begin:": (1,)}, fit_intercept=False, **params)


def load(n_dialogues=None):
    """Return the dialogues, or the first ``n_dialogues`` of either set; None where the data is absent."""
    if absent(TRAIN, TEST):
        return None
    parts = []
    for file in TRAIN, TEST:
        X, y = common.words_and_labels(data_file(*file), ["word", "mark"])
        parts += X[:n_dialogues], encode_punctuation(y[:n_dialogues])
    return Split(*parts)


def encode_punctuation(y):
    """Return labels in which the first word of each stretch has the mark at the stretch's end, too.

    In the file, a label is the mark that follows the word, or O. The words without a mark before one with the mark m
    are its stretch; ``-m`` is appended to the label of the first word, from which a pattern can then reach the mark.
    """
    encoded = [list(labels) for labels in y]
    for labels in encoded:
        first = 0
        for position, label in enumerate(list(labels)):
            if label != "O":
                labels[first] += f"-{label}"
                first = position + 1
    return encoded


def decode_punctuation(y):
    """Return labels, true or predicted, without what ``encode_punctuation`` appends."""
    return [[label.rpartition("-")[0] or label for label in labels] for labels in y]


def score(y_test, y_pred):
    """Return the F1 of the marks over the words of all dialogues, one by one, and of all."""
    flat = [list(chain.from_iterable(decode_punctuation(y))) for y in (y_test, y_pred)]
    of_each, of_all = (f1_score(*flat, labels=MARKS, average=way, zero_division=0) for way in (None, "micro"))
    return [100 * value for value in (*of_each, of_all)]


def main(arguments=None):
    quick = parse(__doc__, arguments, quick=False).quick
    if skipped(absent(TRAIN, TEST)):
        return
    data, params = load(50 if quick else None), {"max_iter": 2 if quick else 2000, "tol": 1e-4}
    with threadpool_limits(1):
        print(f"{len(data.X)} dialogues to train on, {len(data.X_test)} to test")
        models = {f"C^{k}": (chain_features(), chain_model(k, **params)) for k in (1, 2, 3)}
        models |= {f"SC^{k}": (segment_features(), segment_model(k, **params)) for k in (1, 2, 3)}
        fitted = {name: train(data, *pair, score) for name, pair in models.items()}
    print_models(fitted, ["F1 of ,", ".", "?", "all"], OBJECTIVE, PUBLISHED)


if __name__ == "__main__":
    main()

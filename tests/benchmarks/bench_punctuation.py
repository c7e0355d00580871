"""Punctuation of movie dialogues: the published table, F1 of each mark.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_punctuation.py [--quick]

prints weights, optimum and F1 over words of CRFs (C^k) and semi-CRFs (SC^k) of order k, beside Table 6 of Cuong, Ye,
Lee and Chieu (JMLR 15, 2014), and randomisation tests between them. The published figures are those of a loose stop;
here the problems are solved, so objectives must be at or below the published ones. Needs the punctuation data in
SKLEARN_HOCRF_DATA or ../shared/data. ``--quick`` trains on a few dialogues for a few iterations.
"""

from itertools import chain, combinations

from common import Split, absent, data_file, parse, print_models, print_tests, skipped, train, word_features
from sklearn.metrics import f1_score
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.datasets import load_conll

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
    parts = *load_words(data_file(*TRAIN)), *load_words(data_file(*TEST))
    return Split(*(part[:n_dialogues] for part in parts))


def load_words(path):
    """Return the words of dialogues, and their labels in the form of the published models."""
    X, y = load_conll(path, ["word", "mark"])
    return [[token["word"] for token in tokens] for tokens in X], encode_punctuation(y)


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


def token_f1(truth, predicted, average="micro"):
    """Return the F1 of the marks, over the words of all dialogues."""
    flat = [list(chain.from_iterable(y)) for y in (truth, predicted)]
    return f1_score(*flat, labels=MARKS, average=average, zero_division=0)


def score(y_test, y_pred):
    """Return the marks that are found, their F1 one by one, and that of all."""
    truth, predicted = decode_punctuation(y_test), decode_punctuation(y_pred)
    f1 = [*token_f1(truth, predicted, average=None)]
    f1.append(token_f1(truth, predicted))
    return predicted, [100 * value for value in f1]


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
    pairs = [("SC^2", "SC^1"), ("SC^3", "SC^2"), ("SC^2", "C^2"), ("C^2", "C^1")]
    found, truth = {name: one.found for name, one in fitted.items()}, decode_punctuation(data.y_test)
    print_tests(truth, found, pairs, token_f1)


if __name__ == "__main__":
    main()

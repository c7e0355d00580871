"""Fields of bibliographic references: the published table, and known optima of the same convex problems.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_bibliography.py [--quick]

The command prints the number of weights, the optimum, the F1 of exact segments and the token accuracy of CRFs (C^k) and
semi-CRFs (SC^k) of order k, next to Table 8 of Cuong, Ye, Lee and Chieu (JMLR 15, 2014). The published figures come
from at most 100 iterations with a loose stopping criterion; this program trains to the optimum. Needs cora_references
in SKLEARN_HOCRF_DATA or ../shared/data. ``--quick`` trains on a few references for a few iterations.
"""

from common import Split, absent, data_file, parse, print_models, skipped, train, word_features
from public_data import load_cora_references
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.metrics import segment_f1_score, token_accuracy_score

TRAIN, TEST = ("cora_references", "ref.train"), ("cora_references", "ref.test")
PUBLISHED = {"C^1": 85.34, "C^2": 85.47, "C^3": 84.77, "SC^1": 85.67, "SC^2": 86.67, "SC^3": 86.07}
OPTIMUM = {"C^2": 328.893, "SC^1": 384.246}  # a separate implementation's
BAG = ("w[", "before=", "after=", "ngram=")
WORDS = ("bias", "w[0]=", "w[-1]=")


def attributes(words):
    """Return the attributes of each word of a reference; a word may have one several times, and then it counts so.

    What is before the first word and after the last is the empty word; there is nothing beyond.
    """
    padded = ["", *words, ""]
    return [
        [f"w[-1]={padded[i - 1]}", f"w[0]={padded[i]}", f"w[1]={padded[i + 1]}"]
        + [f"before={word}" for word in padded[max(i - 4, 0) : i]]
        + [f"after={word}" for word in padded[i + 1 : i + 5]]
        + [f"ngram={ngram}" for ngram in letter_ngrams(f"<{padded[i]}>")]
        for i in range(1, len(words) + 1)
    ]


def letter_ngrams(text):
    """Yield the first n letters, and the n letters that end n - 1 letters before the end, as the authors' program."""
    for n in range(2, min(6, len(text)) + 1):
        yield text[:n]
        start = len(text) - 2 * n + 1
        if start > 0:
            yield text[start : start + n]


def chain_features():
    return word_features(attributes)


def segment_features():
    return word_features(attributes, bag=BAG, begin=WORDS, inside=WORDS)


def chain_model(max_order, **params):
    """Return C^k: the words i and i - 1 also go with the pair of the last two labels; higher orders have a bias."""
    orders = {"w[0]=": (0, 1), "w[-1]=": (0, 1)}
    return HighOrderCRF(max_order, feature_order=orders, fit_intercept=False, **params)


def segment_model(max_order, **params):
    """Return SC^k: what is at a segment's first word goes with the pair of its label and the one before."""
    return HighOrderSemiCRF(max_order, feature_order={"begin:": (1,)}, fit_intercept=False, **params)


def load(n_references=None):
    """Return the references, or the first ``n_references`` of either set; None where the data is absent."""
    if absent(TRAIN, TEST):
        return None
    parts = (load_cora_references(data_file(*file)) for file in (TRAIN, TEST))
    return Split(*(data[:n_references] for part in parts for data in part))


def score(y_test, y_pred):
    """Return the F1 of the segments that are found, and the share of right tokens."""
    return [100 * segment_f1_score(y_test, y_pred, scheme="runs"), 100 * token_accuracy_score(y_test, y_pred)]


def main(arguments=None):
    quick = parse(__doc__, arguments, quick=False).quick
    if skipped(absent(TRAIN, TEST)):
        return
    data, orders = load(20 if quick else None), (1, 2, 3)
    params = {"max_iter": 2} if quick else {"max_iter": 2000, "tol": 1e-4}
    with threadpool_limits(1):
        print(f"{len(data.X)} references to train on, {len(data.X_test)} to test")
        fitted = {f"C^{k}": train(data, chain_features(), chain_model(k, **params), score) for k in orders}
        fitted |= {f"SC^{k}": train(data, segment_features(), segment_model(k, **params), score) for k in orders}
    print_models(fitted, ["F1", "accuracy"], OPTIMUM, {name: [f1, None] for name, f1 in PUBLISHED.items()})


if __name__ == "__main__":
    main()

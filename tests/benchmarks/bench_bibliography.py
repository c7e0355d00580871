"""Fields of bibliographic references: the published table, and known optima of the same convex problems.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_bibliography.py [--quick]

prints weights, optimum, F1 of exact segments and token accuracy of CRFs (C^k) and semi-CRFs (SC^k) of order k, beside
Table 8 of Cuong, Ye, Lee and Chieu (JMLR 15, 2014); randomisation tests between them; and at order 3 the same segments
as runs of labels, as BIO tags and as segments. The published figures are those of at most 100 iterations with a loose
stop; here the problems are solved. Needs cora_references in SKLEARN_HOCRF_DATA or ../shared/data. ``--quick`` trains on
a few references for a few iterations.
"""

import argparse
import time
import warnings
from typing import NamedTuple

from common import data_file, n_weights, print_table
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.datasets import load_cora_references
from sklearn_hocrf.feature_extraction import AttributeVectorizer, SegmentFeatureExtractor
from sklearn_hocrf.metrics import extract_segments, randomization_test, segment_f1_score, token_accuracy_score

TRAIN, TEST = ("cora_references", "ref.train"), ("cora_references", "ref.test")
PUBLISHED = {"C^1": 85.34, "C^2": 85.47, "C^3": 84.77, "SC^1": 85.67, "SC^2": 86.67, "SC^3": 86.07}
PUBLISHED |= {"SC^3, sigma 10": 87.45}
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


def attributes_of_all(references, bias=False):
    """Return the attributes of the words of all references; ``bias`` is one that is always on."""
    always = ["bias"] if bias else []
    return [[always + names for names in attributes(words)] for words in references]


def chain_features():
    """Return the transformer for the CRF, where each word is a segment."""
    return make_pipeline(FunctionTransformer(attributes_of_all), AttributeVectorizer())


def segment_features():
    """Return the transformer for the semi-CRF."""
    return make_pipeline(
        FunctionTransformer(attributes_of_all, kw_args={"bias": True}),
        AttributeVectorizer(),
        SegmentFeatureExtractor(bag=BAG, begin=WORDS, inside=WORDS),
    )


def chain_model(max_order, **params):
    """Return C^k: the words i and i - 1 also go with the pair of the last two labels; higher orders have a bias."""
    orders = {"w[0]=": (0, 1), "w[-1]=": (0, 1)}
    return HighOrderCRF(max_order, feature_order=orders, fit_intercept=False, **params)


def segment_model(max_order, **params):
    """Return SC^k: what is at a segment's first word goes with the pair of its label and the one before."""
    return HighOrderSemiCRF(max_order, feature_order={"begin:": (1,)}, fit_intercept=False, **params)


class References(NamedTuple):
    """Training and test references: words and labels."""

    X: list
    y: list
    X_test: list
    y_test: list


def load_references(n_references=None):
    """Return the references, or the first ``n_references`` of either set; None where the data is absent."""
    if data_file(*TRAIN) is None:
        return None
    X, y = load_cora_references(data_file(*TRAIN), return_X_y=True)
    X_test, y_test = load_cora_references(data_file(*TEST), return_X_y=True)
    return References(*(part[:n_references] for part in (X, y, X_test, y_test)))


class Fitted(NamedTuple):
    """A fitted estimator, the segments it finds in the test set, and its scores."""

    model: object
    segments: list
    f1: float
    accuracy: float
    seconds: float  # of features and fit


def bio_tags(y):
    """Return labels as BIO tags: maximal runs of one label are segments."""
    before = [[None, *labels[:-1]] for labels in y]
    return [
        [f"{'I' if label == last else 'B'}-{label}" for last, label in zip(*pair, strict=True)]
        for pair in zip(before, y, strict=True)
    ]


def train(references, features, model, encoding="runs"):
    y, y_test = references.y, references.y_test
    if encoding == "bio":
        y, y_test = bio_tags(y), bio_tags(y_test)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(features.fit_transform(references.X, y), y)
    seconds = time.perf_counter() - start
    y_pred = model.predict(features.transform(references.X_test))
    # a tag I that opens a segment begins one, as in conlleval
    predicted, truth = (extract_segments(labels, encoding=encoding, strict=False) for labels in (y_pred, y_test))
    f1 = segment_f1_score(truth, predicted, encoding="segments")
    accuracy = token_accuracy_score(references.y_test, [[tag.split("-")[-1] for tag in tags] for tags in y_pred])
    return Fitted(model, predicted, 100 * f1, 100 * accuracy, seconds)


def train_published(references, orders, **params):
    """Return the models of the published table by name."""
    fitted = {f"C^{k}": train(references, chain_features(), chain_model(k, **params)) for k in orders}
    fitted |= {f"SC^{k}": train(references, segment_features(), segment_model(k, **params)) for k in orders}
    k = max(orders)
    wide = segment_model(k, sigma_reg=10.0, **params)
    return fitted | {f"SC^{k}, sigma 10": train(references, segment_features(), wide)}


def print_models(fitted):
    rows = []
    for name, (model, _, f1, accuracy, seconds) in fitted.items():
        optimum, published = OPTIMUM.get(name), PUBLISHED.get(name)
        objective = model.objective_history_[-1]
        rows.append(
            (
                name,
                n_weights(model),
                len(model.patterns_),
                model.automaton_.n_states,
                f"{objective:.3f}",
                "" if optimum is None else f"{objective - optimum:+.3f}",
                f"{model.optimality_gap_:.1e}",
                f"{f1:.2f}",
                "" if published is None else f"{published:.2f}",
                "" if published is None else f"{f1 - published:+.2f}",
                f"{accuracy:.2f}",
                model.n_iter_,
                f"{seconds:.1f}",
            )
        )
    heads = ["", "weights", "patterns", "states", "optimum", "difference", "gap", "F1", "published", "difference"]
    print_table([*heads, "token accuracy", "iterations", "seconds"], rows)


def print_tests(truth, fitted, pairs):
    rows = []
    for one, other in pairs:
        test = randomization_test(
            truth, fitted[one].segments, fitted[other].segments, segment_f1_score, encoding="segments", random_state=0
        )
        rows.append((f"{one} against {other}", f"{100 * test.difference:+.2f}", f"{test.p_value:.3f}"))
    print("\nrandomisation tests of F1, 999 trials")
    print_table(["", "difference", "p"], rows)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few references, a few iterations")
    quick = parser.parse_args(arguments).quick
    references = load_references(20 if quick else None)
    if references is None:
        print("skipped: cora_references is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data")
        return
    params = {"max_iter": 2} if quick else {"max_iter": 2000, "tol": 1e-4}
    with threadpool_limits(1):
        print(f"{len(references.X)} references to train on, {len(references.X_test)} to test")
        fitted = train_published(references, (1, 2, 3), **params)
        print_models(fitted)
        truth = extract_segments(references.y_test)
        print_tests(truth, fitted, [("SC^2", "SC^1"), ("SC^2", "C^1"), ("SC^2", "C^2"), ("SC^3, sigma 10", "SC^2")])

        print("\norder 3: runs of labels, BIO tags, segments")
        bio = train(references, chain_features(), chain_model(3, **params), encoding="bio")
        ways = {"CRF on runs": fitted["C^3"], "CRF on BIO tags": bio, "semi-CRF": fitted["SC^3"]}
        print_models(ways)
        print_tests(truth, ways, [("semi-CRF", "CRF on runs"), ("semi-CRF", "CRF on BIO tags")])


if __name__ == "__main__":
    main()

"""A CRF on the scores of a sentence classifier, compared with the classifier alone and with the CRF on words.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/stacking.py

The task is the roles of the sentences of medical abstracts: 720 abstracts to train, 80 for choices, 200 to test. The
sigma of the CRF on bags of words, and the C of the logistic regression, alone and stacked, are chosen by the share of
correct sentences in the 80 abstracts; all other settings are the defaults. The command prints the share of correct
sentences, macro F1, F1 of exact runs of equal roles, and the number of predicted runs per true run. It also prints 95 %
intervals, from a bootstrap over abstracts, of the F1 of runs and of the differences from the first row. Needs
nicta_piboso (SKLEARN_HOCRF_DATA or ../shared/data).
"""

import numpy as np
import protocol
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderCRF, SequenceBatch, StackedSequenceLabeler
from sklearn_hocrf.text import extract_segments

PARTS = ("train", "dev", "test")
STRENGTHS = (1.0, 3.0, 10.0, 30.0)


def load(part):
    """Return the sentences and roles of a part."""
    blocks = protocol.read_text("nicta_piboso", f"{part}.txt.gz").split("\n\n")
    rows = [[line.split("\t") for line in block.split("\n") if line and line[:3] != "###"] for block in blocks]
    return [[text for _, text in row] for row in rows], [[role for role, _ in row] for row in rows]


def counts(y_true, y_pred):
    """Return, for each document: tokens right, tokens, runs right, true runs, predicted runs."""
    rows = []
    for true, predicted in zip(y_true, y_pred, strict=True):
        runs = [set(of) for of in extract_segments([list(true), list(predicted)], scheme="runs")]
        right = sum(one == other for one, other in zip(true, predicted, strict=True))
        rows.append([right, len(true), len(runs[0] & runs[1]), len(runs[0]), len(runs[1])])
    return np.array(rows)


def measures(totals):
    """Return the share of tokens right, F1 of exact runs, and predicted runs for each true one; of sums of counts."""
    right, n_tokens, n_hits, n_true, n_predicted = np.moveaxis(totals, -1, 0)
    return np.stack([100 * right / n_tokens, 200 * n_hits / (n_true + n_predicted), n_predicted / n_true], axis=-1)


def report(title, y_true, answers):
    """Print the table of a set; the first of the answers is the one that others are compared with."""
    found = {name: counts(y_true, y_pred) for name, y_pred in answers.items()}
    drawn = np.random.default_rng(0).integers(0, len(y_true), (2000, len(y_true)))
    base = measures(next(iter(found.values()))[drawn].sum(axis=1))
    rows = []
    for name, of_documents in found.items():
        right, f1, runs = measures(of_documents.sum(axis=0))
        boot = measures(of_documents[drawn].sum(axis=1))
        macro = 100 * f1_score(np.concatenate(y_true), np.concatenate(answers[name]), average="macro")
        limits = [
            np.quantile(values, (0.025, 0.975)) for values in (boot[:, 1], (boot - base)[:, 0], (boot - base)[:, 1])
        ]
        shown = ["{:.1f} .. {:.1f}".format(*limit) for limit in limits]
        rows.append([name, f"{right:.1f}", f"{macro:.1f}", f"{f1:.1f}", shown[0], f"{runs:.2f}", *shown[1:]])
    head = [title, "right", "macro F1", "F1 of runs", "interval", "runs", "right - first", "F1 of runs - first"]
    protocol.print_table(head, rows)


def tokens_of(X):
    return [token for x in X for token in x] if isinstance(X[0], list) else np.concatenate(X)


def alone(classifier, X, y, X_test):
    """Return the answers of a classifier of tokens."""
    found = classifier.fit(tokens_of(X), np.concatenate(y)).predict(tokens_of(X_test))
    return np.split(found, np.cumsum([len(x) for x in X_test])[:-1])


def main(arguments=None):
    protocol.parse(__doc__, arguments)
    if protocol.skipped(protocol.absent(*(("nicta_piboso", f"{part}.txt.gz") for part in PARTS))):
        return
    (X, y), (X_dev, y_dev), (X_test, y_test) = map(load, PARTS)
    bags = CountVectorizer(binary=True).fit(tokens_of(X))

    def batch(X):
        return SequenceBatch.from_csr(bags.transform(tokens_of(X)), np.cumsum([0, *(len(x) for x in X)]))

    def words(sigma, X_new):
        return protocol.fit_quietly(HighOrderCRF(1, sigma_reg=sigma), batch(X), y).predict(batch(X_new))

    def logistic(C):
        return make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True), LogisticRegression(C=C, max_iter=2000)
        )

    def right(y_pred):
        return counts(y_dev, y_pred)[:, 0].sum()

    def stacked(C, order, history, X_new):
        model = StackedSequenceLabeler(logistic(C), HighOrderCRF(order, history=history))
        return protocol.fit_quietly(model, X, y).predict(X_new)

    sigma = max((0.1, 0.3, 1.0), key=lambda sigma: right(words(sigma, X_dev)))
    C = max(STRENGTHS, key=lambda C: right(alone(logistic(C), X, y, X_dev)))
    answers = {f"words in the CRF, sigma {sigma}": words(sigma, X_test)}
    answers[f"logistic regression alone, C {C}"] = alone(logistic(C), X, y, X_test)
    for order, history in ((1, "tokens"), (2, "tokens"), (2, "segments"), (3, "segments")):
        C = max(STRENGTHS, key=lambda C: right(stacked(C, order, history, X_dev)))
        answers[f"stacked, order {order} of {history}, C {C}"] = stacked(C, order, history, X_test)
    report("abstracts", y_test, answers)


if __name__ == "__main__":
    main()

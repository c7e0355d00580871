"""Is this span a name? Five probabilities from the scores of a token classifier, compared by their decisions.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/spans.py [--quick]  # quick: fewer sentences, and test a

The data are Spanish names of conll2002 in BIO tags. A token classifier is trained with scikit-learn on four of five
sentences of train: logistic regression (``C=1``) on hashed words, affixes and shapes in a window of three. Every fifth
sentence is held out for thresholds; test b is used once, for the tables. Let p be the classifier's probabilities of
B-type at the first token of a span and of I-type at the others. There are five ways to compute the probability that the
tokens from start to stop are a name of a type:

- mean, minimum: of p;
- running fold: p of the first token, then half of the result plus half of the next p, and so on, as one program does;
- exact: the probability of the span under the BIO rules, from a model whose scores are the logarithms of the
  classifier's probabilities and which has no other weights;
- exact, pairs fitted: ``HighOrderCRF(1, constraints="bio")`` on the same logarithms, trained on scores of the training
  sentences, each of which comes from a classifier trained on the other fold.

Masking: the threshold of a probability is the highest that masks, in held-out sentences, all tokens of at least 99 % of
the names. All ways have the same candidates: spans whose exact probability is at least .00001. The command prints the
share of tokens of test b that are masked (fewer is better), the share of its names whose tokens are all masked, and the
difference in masked tokens from "exact", with a bootstrap over sentences. Further rows mask tokens by 1 - P(O) instead
of spans: from the classifier, under the BIO rules, and with pairs fitted.

Log loss: the spans are those of the best labelling under the BIO rules, the same for all ways. The outcome is whether a
span is a name of its type; the loss is minus the mean logarithm of the probability of the outcome (probabilities are
clipped to .001 and .999), with the difference from "exact" as above.
"""

import numpy as np
import protocol
from protocol import part, print_table
from sklearn.base import clone
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.scores import posterior
from sklearn_hocrf.text import convert_tags, extract_segments

FILES = {"train": ("conll2002", "esp.train.gz"), "testa": ("conll2002", "esp.testa.gz")}
FILES["testb"] = ("conll2002", "esp.testb.gz")
RECALL, LOWEST, CUT, N_FOLDS, N_RESAMPLED = 0.99, 1e-5, 1e-3, 2, 2000
CLASSIFIER = make_pipeline(FeatureHasher(1 << 16, input_type="string"), LogisticRegression(max_iter=50))


def load(name):
    X, y = protocol.words_and_labels(protocol.data_file(*FILES[name]))
    return X, convert_tags(y, "bio", "bio")  # a few begin with I


def shape(word):
    return "".join("X" if c.isupper() else "x" if c.isalpha() else "9" if c.isdigit() else c for c in word)[:8]


def rows_of(words):
    """Return the names of the features of each token."""
    rows = []
    for t, word in enumerate(words):
        around = [(d, words[t + d] if 0 <= t + d < len(words) else "<>") for d in (-1, 0, 1)]
        row = [f"{d}:{name}" for d, w in around for name in ("w=" + w.lower(), "s=" + shape(w), "t=" + w.lower()[-3:])]
        rows.append([*row, "p=" + word.lower()[:3], "2=" + word.lower()[-2:], f"first={not t}"])
    return rows


def flat(sequences):
    return [one for sequence in sequences for one in sequence]


def scores_of(classifier, X):
    """Return the logarithms of the probabilities of the labels, an array for each sentence."""
    table = classifier.predict_log_proba(flat(X))
    return np.split(table, np.cumsum([len(x) for x in X])[:-1])


def out_of_fold(X, y):
    """Return the scores of sentences by classifiers of the other folds."""
    found = [None] * len(X)
    for fold in range(N_FOLDS):
        train, test = ([i for i in range(len(X)) if (i % N_FOLDS == fold) == is_in] for is_in in (False, True))
        classifier = protocol.fit_quietly(clone(CLASSIFIER), flat(part(X, train)), flat(part(y, train)))
        for i, scores in zip(test, scores_of(classifier, part(X, test)), strict=True):
            found[i] = scores
    return found


def folded(p):
    value = p[0]
    for other in p[1:]:
        value = (value + other) / 2
    return value


SIMPLE = {"mean": np.mean, "minimum": np.min, "running fold": folded}


class Spans:
    """Candidate spans of some sentences with their probabilities by each way, and the true ones."""

    def __init__(self, crf, scores, y):
        labels, self.n_tokens = crf.classes_.tolist(), [len(table) for table in scores]
        self.true = [set(of) for of in extract_segments(y, scheme="bio")]
        exact = posterior(scores, labels=labels, constraints="bio")
        self.best = exact.predict_segments()
        self.spans = [[row[:3] for row in of.tolist()] for of in exact.predict_segments(threshold=LOWEST)]
        self.p = {
            name: [
                {(a, b, kind): way(probabilities(table, labels, a, b, kind)) for a, b, kind in spans}
                for table, spans in zip(scores, self.spans, strict=True)
            ]
            for name, way in SIMPLE.items()
        }
        lowest = LOWEST / 10_000
        for name, found in (
            ("exact", exact.predict_segments(threshold=lowest)),
            ("exact, pairs fitted", crf.predict_segments(scores, threshold=lowest)),
        ):
            known = [{row[:3]: row[3] for row in of.tolist()} for of in found]
            self.p[name] = [
                {span: of.get(span, 0.0) for span in spans} for of, spans in zip(known, self.spans, strict=True)
            ]
        tables = {"tokens": list(map(np.exp, scores)), "tokens, exact": exact.predict_marginals()}
        tables["tokens, exact, pairs fitted"] = crf.predict_marginals(scores)
        self.outside = {name: [1 - table[:, labels.index("O")] for table in of] for name, of in tables.items()}

    def masks(self, name):
        """Return, for each sentence, the lowest threshold at which each token is not masked any more."""
        if name in self.outside:
            return self.outside[name]
        masks = [np.zeros(n) for n in self.n_tokens]
        for mask, of in zip(masks, self.p[name], strict=True):
            for (start, stop, _), value in of.items():
                mask[start:stop] = np.maximum(mask[start:stop], value)
        return masks

    def masked(self, name, threshold):
        """Return the numbers of masked tokens, and of names that are masked, of each sentence."""
        masks = self.masks(name)
        n_found = [
            sum(mask[a:b].min() >= threshold for a, b, _ in true) for mask, true in zip(masks, self.true, strict=True)
        ]
        return np.array([(mask >= threshold).sum() for mask in masks]), np.array(n_found)

    def threshold(self, name):
        """Return the highest threshold at which enough names are masked."""
        at = [mask[a:b].min() for mask, true in zip(self.masks(name), self.true, strict=True) for a, b, _ in true]
        return np.sort(at)[int(np.floor((1 - RECALL) * len(at)))]

    def losses(self, name):
        """Return the sum of the log losses of the best spans of each sentence, and their number."""
        found = []
        for of, best, true in zip(self.p[name], self.best, self.true, strict=True):
            p = np.clip([of.get(tuple(span), 0.0) for span in best], CUT, 1 - CUT)
            right = np.array([tuple(span) in true for span in best], bool)
            found.append((-np.log(np.where(right, p, 1 - p)).sum(), len(best)))
        return np.array(found)


def probabilities(scores, labels, start, stop, kind):
    """Return the classifier's probabilities of the labels of a span."""
    columns = [labels.index(f"B-{kind}"), *[labels.index(f"I-{kind}")] * (stop - start - 1)]
    return np.exp(scores[range(start, stop), columns])


def difference(one, other, of):
    """Return the difference of two sums over sentences, each divided by the sum of the last, and its 95 % interval."""
    drawn = np.random.default_rng(0).integers(len(one), size=(N_RESAMPLED, len(one)))
    gains = ((one - other)[drawn].sum(axis=1)) / of[drawn].sum(axis=1)
    return (one - other).sum() / of.sum(), *np.quantile(gains, [0.025, 0.975])


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False)
    if protocol.skipped(protocol.absent(*FILES.values())):
        return
    (words, y), (new_words, y_new) = load("train"), load("testa" if options.quick else "testb")
    if options.quick:
        words, y, new_words, y_new = words[:600], y[:600], new_words[:200], y_new[:200]
    X, X_new = list(map(rows_of, words)), list(map(rows_of, new_words))
    train, held_out = ([i for i in range(len(y)) if (i % 5 == 4) == is_held] for is_held in (False, True))
    classifier = protocol.fit_quietly(clone(CLASSIFIER), flat(part(X, train)), flat(part(y, train)))
    crf = protocol.fit_quietly(
        HighOrderCRF(1, constraints="bio", all_pairs=True), out_of_fold(part(X, train), part(y, train)), part(y, train)
    )
    assert crf.classes_.tolist() == classifier.classes_.tolist()
    choice, test = (
        Spans(crf, scores_of(classifier, X), y) for X, y in ((part(X, held_out), part(y, held_out)), (X_new, y_new))
    )
    n_tokens, n_names = np.array(test.n_tokens), sum(map(len, test.true))
    masks = {name: test.masked(name, choice.threshold(name)) for name in [*test.p, *test.outside]}
    rows = []
    for name, (n_masked, n_found) in masks.items():
        gain, low, high = 100 * np.array(difference(n_masked, masks["exact"][0], n_tokens))
        row = [f"{100 * n_masked.sum() / n_tokens.sum():.1f}", f"{100 * n_found.sum() / n_names:.1f}"]
        row = [name, *row, f"{gain:+.1f} ({low:+.1f} to {high:+.1f})", "", ""]
        if name in test.p:
            losses = test.losses(name)
            gain, low, high = difference(losses[:, 0], test.losses("exact")[:, 0], losses[:, 1])
            row[4:] = f"{losses[:, 0].sum() / losses[:, 1].sum():.3f}", f"{gain:+.3f} ({low:+.3f} to {high:+.3f})"
        rows.append(row)
    print(f"{n_names} names, {sum(map(len, test.best))} spans of the best labellings")
    print_table(["", "masked %", "names masked %", "difference", "log loss", "difference"], rows)


if __name__ == "__main__":
    main()

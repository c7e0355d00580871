"""Scan verse: python-crfsuite and high orders with the same features, both tuned, and with the features by default.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/verse.py [--folds N] [--keep DIR]

The length of each syllable (long, short, elision) in the 9,840 hexameters of the Aeneid, in the five folds of L. Nolden
(thesis, Leiden 2022): ``KFold(5, shuffle=True, random_state=42)``. The number of syllables of a word is given.
Features are those of that program (the syllable, its ends, its neighbours and their ends), or those that
``SequenceFeatureExtractor()`` makes of the syllable and of whether it begins a word. Each model is chosen inside the
training part by the mean log-probability of a fifth of 4,000 of its lines: python-crfsuite's c1 and c2; ``sigma_reg``
for order 1; for the best order first the order, which rises while the held-out lines become more probable (one order
without a gain is allowed), then ``sigma_reg``. "as the program trains it" is c1 = c2 = .1, 100 iterations. Prints the
share of lines without an error, F1 of each label, processor seconds of a fit, and what was chosen. Needs
python-crfsuite.
"""

import os
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import product

import numpy as np
import protocol
from protocol import part, print_table
from public_data import load_hexameters
from sklearn.model_selection import KFold

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import sequence_accuracy_score

FILE = ("hexameter", "aeneid.jsonl.gz")
LABELS = ("long", "short", "elision")
MOST_LINES = 4000  # of a choice
HIGHEST, SIGMAS = 8, (0.5, 1.0, 2.0, 3.0)
PENALTIES = list(product((0.0, 0.1, 0.5), (0.01, 0.1, 0.5)))  # c1, c2
AS_TRAINED = {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True}


def of_syllable(syllables, t):
    """Return the attributes that the program gives to a syllable."""
    here = syllables[t]
    found = {"bias": True, "here": here, "last2": here[-2:], "last1": here[-1:]}
    if t:
        before = syllables[t - 1]
        found |= {"-1": before, "-1last1": before[-1:], "-1last2": before[-2:]}
    if t + 1 < len(syllables):
        after = syllables[t + 1]
        found |= {"+1": after, "+1first1": after[:1], "+1first2": after[:2]}
    return found | ({} if t else {"begin": True}) | ({} if t + 1 < len(syllables) else {"end": True})


class Theirs:
    """python-crfsuite, by the methods of our estimators that are used here."""

    def __init__(self, **params):
        self.params = {"feature.possible_transitions": True, "max_iterations": 500} | params

    def fit(self, X, y):
        import pycrfsuite

        trainer, self.tagger = pycrfsuite.Trainer(verbose=False, params=self.params), pycrfsuite.Tagger()
        for features, labels in zip(X, y, strict=True):
            trainer.append(features, labels)
        with tempfile.TemporaryDirectory() as folder:
            trainer.train(path := os.path.join(folder, "model"))
            self.tagger.open(path)
        return self

    def predict(self, X):
        return [self.tagger.tag(features) for features in X]

    def log_likelihood(self, X, y):
        return [
            (self.tagger.set(features), np.log(self.tagger.probability(labels)))[1]
            for features, labels in zip(X, y, strict=True)
        ]


def attributes_of_tokens(X):
    """Return what ``SequenceFeatureExtractor()`` makes of tokens, as dicts for python-crfsuite."""
    extractor = SequenceFeatureExtractor()
    batch = extractor.fit_transform(X)
    names, csr = extractor.get_feature_names_out(), batch.tocsr()
    rows = [[names[j] for j in csr.indices[a:b]] for a, b in zip(csr.indptr[:-1], csr.indptr[1:], strict=True)]
    return [rows[a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]


def mean_probability(model, X, y, indices):
    """Return the mean log-probability of the held-out fifth of some lines by a model of the others."""
    indices = np.random.default_rng(0).permutation(indices)[:MOST_LINES]
    held_out = np.arange(len(indices)) % 5 == 0
    train, test = indices[~held_out], indices[held_out]
    protocol.fit_quietly(model, part(X, train), part(y, train))
    return float(np.mean(model.log_likelihood(part(X, test), part(y, test))))


def choose_order(make, score):
    """Return the order whose score is highest, searched upwards until two orders in turn bring no gain."""
    scores = {order: score(make(order, 1.0)) for order in (1, 2)}
    while (order := max(scores)) < HIGHEST and max(scores, key=scores.get) >= order - 1:
        scores[order + 1] = score(make(order + 1, 1.0))
    return max(scores, key=scores.get)


def ours(extract, order, sigma):
    model = HighOrderCRF(order, sigma_reg=sigma)
    return make_pipeline(SequenceFeatureExtractor(), model) if extract else model


def chosen(kind, extract, score):
    """Return a model of a kind, and its settings."""
    if kind == "python-crfsuite, as the program trains it":
        return Theirs(**AS_TRAINED), ""
    if kind == "python-crfsuite, tuned":
        c1, c2 = max(PENALTIES, key=lambda of: score(Theirs(c1=of[0], c2=of[1])))
        return Theirs(c1=c1, c2=c2), f"c1 {c1:g}, c2 {c2:g}"
    make = partial(ours, extract)
    if kind == "default":
        return make(2, 1.0), ""
    order = 1 if kind == "order 1, tuned" else choose_order(make, score)
    sigma = max(SIGMAS, key=lambda of: score(make(order, of)))
    return make(order, sigma), f"order {order}, sigma {sigma:g}"


KINDS = [
    "python-crfsuite, as the program trains it",
    "python-crfsuite, tuned",
    "default",
    "order 1, tuned",
    "best order, tuned",
]


def run(kind, extract, X, y, train, test):
    """Return the predicted labels of the test lines, the seconds of the fit, and what was chosen."""
    model, settings = chosen(kind, extract, lambda model: mean_probability(model, X, y, train))
    start = time.process_time()
    protocol.fit_quietly(model, part(X, train), part(y, train))
    return model.predict(part(X, test)), time.process_time() - start, settings


def f1_of(label, y_true, y_pred):
    pairs = Counter(
        (a == label, b == label) for m, n in zip(y_true, y_pred, strict=True) for a, b in zip(m, n, strict=True)
    )
    return 2 * pairs[True, True] / (2 * pairs[True, True] + pairs[True, False] + pairs[False, True])


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, folds=5, keep="")
    if protocol.skipped(protocol.absent(FILE, modules=["pycrfsuite"])):
        return
    pairs, y = load_hexameters(protocol.data_file(*FILE))
    lines = [[syllable for syllable, _ in line] for line in pairs]
    dicts = [[of_syllable(syllables, t) for t in range(len(syllables))] for syllables in lines]
    data = {"the program's features": (dicts, dicts), "features by default": (attributes_of_tokens(pairs), pairs)}
    folds = list(KFold(5, shuffle=True, random_state=42).split(y))[: options.folds]
    rows = []
    for (features, both), kind in product(data.items(), KINDS):
        extract, X = features == "features by default", both["python-crfsuite" not in kind]
        results = []
        for number, (train, test) in enumerate(folds):
            path = options.keep and os.path.join(options.keep, f"{number} {features} {kind}") or None
            results.append(protocol.kept(path, partial(run, kind, extract, X, y, train, test)))
        truth = [y[i] for _, test in folds for i in test]
        found = [labels for predicted, _, _ in results for labels in predicted]
        seconds = np.mean([seconds for _, seconds, _ in results])
        rows.append([
            features,
            kind,
            f"{100 * sequence_accuracy_score(truth, found):.1f}",
            " / ".join(f"{f1_of(label, truth, found):.3f}" for label in LABELS),
            f"{seconds:.1f}",
            "; ".join(f"{settings} ({n})" for settings, n in Counter(of for _, _, of in results if of).items()),
        ])  # fmt: skip
        print(*rows[-1], sep=" | ", flush=True)
    print_table(
        ["features", "model", "lines without an error, %", "F1 " + " / ".join(LABELS), "fit, s", "chosen"], rows
    )


if __name__ == "__main__":
    main()

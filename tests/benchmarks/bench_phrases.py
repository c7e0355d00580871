"""Phrases of lists on real data: do lists of names help where the labelled data are all that there is, and beyond?

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_phrases.py [--tasks T ...] [--quick] [--speed]

The lists are the true segments of some labels. Of sequences that train the model, each part of ten is marked by the
phrases of the nine others, so that no phrase is there because of the sequence that it marks; test sequences are marked
by the phrases of the whole training part. conll2002: the first 1000 sentences of esp.train, all of them, and the first
1000 with phrases of all the others, which stand for a gazetteer; tested on esp.testb. usaddress (10 folds, order 2):
places, states and streets, with the features of the product and with those of ``products/usaddress``. AnyStyle (2
folds, order 2): journals, publishers and locations, with the product's patterns, which have lists of such names.
Prints F1 of the labels with lists and of all, the share of sequences and of tokens that are right, and p of a
randomisation test of the former with lists against without. Needs conll2002, usaddress or anystyle_references in
SKLEARN_HOCRF_DATA or ../shared/data. --quick: a part of the data. --speed: only the processor time to compile 300,000
drawn phrases and to mark a million drawn tokens.
"""

import json
import sys
import time
from pathlib import Path

import bench_chunking
import bench_ner
import common
import numpy as np
from scipy import sparse

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import (
    SequenceFeatureExtractor,
    phrases,
)
from sklearn_hocrf.metrics import extract_segments, segment_f1_score, sequence_accuracy_score, token_accuracy_score

sys.path.append(str(Path(__file__).parent / "products"))
import anystyle as references
import protocol
import usaddress as addresses
from protocol import part

HEADS = ["", "F1 of the lists", "F1 of all", "sequences", "tokens", "p"]
N_PARTS = 10


def bare(token):
    """Return a token as it is compared: in lower case, without punctuation around it."""
    return token.casefold().strip(".,;:()'\"") or token


def phrases_of(tokens, y, kinds, scheme):
    """Return the distinct segments of each label, as lists of tokens."""
    lists = {kind: set() for kind in kinds}
    for words, segments in zip(tokens, extract_segments(y, scheme=scheme), strict=True):
        for start, stop, label in segments:
            if label in lists:
                lists[label].add(tuple(words[start:stop]))
    return {kind: [list(words) for words in sorted(found)] for kind, found in lists.items()}


def marks(tokens, lists):
    """Return a dict of marks for each token of each sequence."""
    functions = {kind: phrases(found, normalize=bare) for kind, found in lists.items()}
    extractor = SequenceFeatureExtractor([], functions)
    batch = extractor.fit_transform(tokens)
    names = [name.split("[0]=") for name in extractor.get_feature_names_out().tolist()]
    rows = np.split(batch.indices, batch.indptr[1:-1])
    found = [dict(names[feature] for feature in row.tolist()) for row in rows]
    return [found[a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]


def cross_marks(tokens, y, train, kinds, scheme):
    """Return the marks of all sequences: no training sequence is marked by a phrase that it alone has."""
    found = marks(tokens, phrases_of(part(tokens, train), part(y, train), kinds, scheme))
    for some in np.array_split(np.random.default_rng(0).permutation(train), N_PARTS):
        others = np.setdiff1d(train, some)
        lists = phrases_of(part(tokens, others), part(y, others), kinds, scheme)
        for i, of_sequence in zip(some.tolist(), marks(part(tokens, some), lists), strict=True):
            found[i] = of_sequence
    return found


def attributes(of_sequence):
    """Return attributes of each token: the marks of it and of its neighbours."""
    around = [{}, *of_sequence, {}]
    return [
        {f"{kind}[{offset}]={mark}": 1 for offset in (-1, 0, 1) for kind, mark in around[t + 1 + offset].items()}
        for t in range(len(of_sequence))
    ]


def figures(y, predicted, kinds, scheme, baseline=None):
    """Return a row of figures, and p against a baseline."""
    options = {"scheme": scheme, "labels": kinds}
    p = ""
    if baseline is not None:
        test = common.randomization_test(y, predicted, baseline, segment_f1_score, random_state=0, **options)
        p = f"{test.p_value:.3f}"
    scores = [segment_f1_score(y, predicted, **options), segment_f1_score(y, predicted, scheme=scheme)]
    scores += [sequence_accuracy_score(y, predicted), token_accuracy_score(y, predicted)]
    return [*(f"{100 * score:.2f}" for score in scores), p]


def predict(features, params, X, y, train, test):
    """Return the predictions of a model for a test part; X has the input of the features."""
    crf = HighOrderCRF(**params)
    common.fit_quietly(crf, features.fit_transform(part(X, train)), part(y, train))
    return crf.predict(features.transform(part(X, test)))


def compare(name, y, test, without, with_lists, kinds, scheme):
    """Return the rows of predictions without and with lists, by name."""
    y = part(y, test)
    rows = [[name, *figures(y, without, kinds, scheme)]]
    return rows + [[f"{name}, {how}", *figures(y, of, kinds, scheme, without)] for how, of in with_lists.items()]


def conll2002(is_quick):
    kinds = ["LOC", "MISC", "ORG", "PER"]
    files = [common.data_file(*parts) for parts in (bench_ner.TRAIN, bench_ner.TEST)]
    (X, y), (X_test, y_test) = (load_conll(path, ["w", "p", "tag"], return_X_y=True) for path in files)
    X, y = zip(*(pair for pair in zip(X, y, strict=True) if len(pair[1]) <= bench_ner.LONGEST), strict=True)
    n_train = 2000 if is_quick else len(X)
    everything, y = [*X[:n_train], *X_test], [*y[:n_train], *y_test]
    tokens = [[token["w"] for token in sentence] for sentence in everything]
    test = np.arange(n_train, len(y))
    templates = [((kind, offset),) for kind in kinds for offset in (-1, 0, 1)]
    plain = SequenceFeatureExtractor(bench_chunking.TEMPLATES, padding="drop")
    marked = SequenceFeatureExtractor([*bench_chunking.TEMPLATES, *templates], padding="drop")
    params, rows = {"max_order": 1}, []
    for n in (1000, n_train):
        train = np.arange(n)
        lists = {"own lists": cross_marks(tokens, y, train, kinds, "bio")}
        if n < n_train:
            others = np.arange(n, n_train)
            lists["lists of other sentences"] = marks(
                tokens, phrases_of(part(tokens, others), part(y, others), kinds, "bio")
            )
        found = {}
        for how, of in lists.items():
            both = [
                [token | dict.fromkeys(kinds) | own for token, own in zip(*pair, strict=True)]
                for pair in zip(everything, of, strict=True)
            ]
            found[how] = predict(marked, params, both, y, train, test)
        without = predict(plain, params, everything, y, train, test)
        rows += compare(f"{n} sentences", y, test, without, found, kinds, "bio")
    return rows


def cross_validated(name, tokens, y, dicts, features, params, kinds, n_folds):
    """Return rows of the predictions of all folds; the features of marks are put beside those of ``dicts``."""
    without, with_lists = [None] * len(y), [None] * len(y)
    X = features.fit_transform(dicts)
    for train, test in protocol.shuffled_folds(len(y), n_folds):
        found = cross_marks(tokens, y, train, kinds, "runs")
        extra = SequenceFeatureExtractor("attributes").fit(list(map(attributes, part(found, train))))
        both = extra.transform(list(map(attributes, found)))
        for predicted, batch in ((without, X), (with_lists, beside(X, both))):
            crf = common.fit_quietly(HighOrderCRF(**params), batch[train], part(y, train))
            for i, labels in zip(test.tolist(), crf.predict(batch[test]), strict=True):
                predicted[i] = labels
    return compare(name, y, np.arange(len(y)), without, {"own lists": with_lists}, kinds, "runs")


def beside(X, more):
    """Return the batch of the features of two batches."""
    rows, names = sparse.hstack([X.tocsr(), more.tocsr()]).tocsr(), [*X.feature_names, *more.feature_names]
    return type(X).from_csr(rows, X.offsets, names)


def usaddress(is_quick):
    kinds = ["PlaceName", "StateName", "StreetName"]
    rows = [json.loads(line) for line in protocol.read_lines(*addresses.FILE)[:: 3 if is_quick else 1]]
    tokens, y, own = ([row[key] for row in rows] for key in ("tokens", "labels", "features"))
    more = [[d | addresses.more(row["tokens"], t) for t, d in enumerate(row["features"])] for row in rows]
    params, found = {"max_order": 2, "sigma_reg": 2.0, "tol": 0.03}, []
    for name, dicts in {"the product's features": own, "more features": more}.items():
        found += cross_validated(name, tokens, y, dicts, SequenceFeatureExtractor("attributes"), params, kinds, 10)
    return found


def anystyle(is_quick):
    kinds = ["journal", "publisher", "location"]
    X, y = (data[:: 10 if is_quick else 1] for data in references.load())
    tokens = [[token[0] for token in reference] for reference in X]
    features = SequenceFeatureExtractor.from_file(protocol.data_file(*references.FILES[2]), style="wapiti")
    params = references.SHARED | {"max_order": 2}
    return cross_validated("the product's patterns", tokens, y, X, features, params, kinds, 2)


def measure_speed(n_phrases=300_000, n_tokens=1_000_000, n_words=100_000):
    """Print what phrases of one to four words cost; words follow a law of density 1 / rank."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(n_words)], dtype=object)
    drawn = words[(np.exp(rng.random(4 * n_phrases + n_tokens) * np.log(n_words))).astype(np.int64) - 1]
    sizes = rng.integers(1, 5, size=n_phrases)
    texts = [" ".join(row[:size]) for row, size in zip(drawn[: 4 * n_phrases].reshape(-1, 4), sizes, strict=True)]
    tokens = drawn[4 * n_phrases :].reshape(-1, 25).tolist()
    begun = [time.process_time()]
    found = phrases(texts)
    begun.append(time.process_time())
    for functions in (), {"list": found}:
        SequenceFeatureExtractor([("w", 0)], functions).fit_transform(tokens)
        begun.append(time.process_time())
    build, without, with_phrases = np.diff(begun)
    print(f"{found}: {build:.2f} s; a token {1e6 * (with_phrases - without) / n_tokens:.2f} us", end=" ")
    print(f"beside {1e6 * without / n_tokens:.2f} us for its words")


TASKS = {
    conll2002: [bench_ner.TRAIN, bench_ner.TEST],
    usaddress: [addresses.FILE],
    anystyle: references.FILES,
}


def main(arguments=None):
    names = {task.__name__: task for task in TASKS}
    options = common.parse(__doc__, arguments, tasks=list(names), quick=False, speed=False)
    if options.speed:
        return measure_speed()
    for name in options.tasks:
        if common.skipped(common.absent(*TASKS[names[name]])):
            continue
        rows = names[name](options.quick)
        print(f"\n{name}")
        common.print_table(HEADS, rows)


if __name__ == "__main__":
    main()

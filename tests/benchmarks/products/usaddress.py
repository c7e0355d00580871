"""usaddress on its own data: python-crfsuite as the product trains it, and high orders with the same features.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/usaddress.py [--quick] [--shuffles N ...]

1488 American addresses with 29 labels, in 10 folds of each shuffle: with shuffle 0 (the protocol of the data) all
orders, with the others what is chosen. "chosen" are models of OWN, with the product's features, and of MORE, with a
dozen lines of further ones, each chosen inside a training part as protocol.py says, with half of it held out. Prints
the share of addresses that are entirely right, and of tokens; processor seconds of a fit from ready features; a paired
randomisation test; the share of addresses that can be accepted at 99 % precision, by a threshold from the other folds,
and how many of these are right; repeated labels (the product's RepeatedLabelError) before and after
``predict_nbest(accept=)``; sizes of files, and addresses a second from ready features. Needs usaddress
(SKLEARN_HOCRF_DATA or ../shared/data) and python-crfsuite. --quick: two folds of a third of the data.
"""

import json
import os
import tempfile
import time
from itertools import groupby

import numpy as np
import protocol
from protocol import Results, choose, part, shuffled_folds

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceDictVectorizer
from sklearn_hocrf.tagger import Tagger, export_tagger

FILE = ("usaddress", "train.jsonl.gz")
THEIRS = {"c1": 0.1, "c2": 0.01}
PLAIN = {f"order {k}": ("own", {"max_order": k, "sigma_reg": 2.0, "tol": 0.03}) for k in (1, 2, 3)}
OWN = {
    (k, s): ("own", {"max_order": k, "sigma_reg": s, "all_pairs": True, "tol": 0.03})
    for k, s in [(2, 2.0), (3, 2.0), (3, 4.0)]
}
MORE = {(k, s): ("more", {"max_order": k, "sigma_reg": s, "tol": 0.03}) for k, s in [(2, 2.0), (3, 2.0), (3, 4.0)]}
CHOSEN = {"chosen": OWN, "chosen, more features": MORE}


def shape(text):
    classes = ("X" if c.isupper() else "x" if c.isalpha() else "9" if c.isdigit() else c for c in text)
    return "".join(c for c, _ in groupby(classes))


def more(tokens, t):
    """Return further attributes of a token: itself, affixes, shapes of neighbours, and commas."""
    token, shapes = tokens[t].lower(), ["<", *map(shape, tokens), ">"]
    word = token.strip(".,;#()")
    commas = [text.endswith(",") for text in tokens]
    return (
        {"token": token, "bare": word, "last": token[-1] if not token[-1].isalnum() else "-"}
        | {f"prefix{n}": word[:n] for n in (1, 2, 3)}
        | {f"suffix{n}": word[-n:] for n in (1, 2, 3)}
        | {"shape": shapes[t + 1], "shape-1": shapes[t], "shape+1": shapes[t + 2], "comma-1": t > 0 and commas[t - 1]}
        | {"commas before": str(sum(commas[:t])), "commas after": str(sum(commas[t:]))}
    )


def no_repeats(labels):
    """Return whether the product would not raise its RepeatedLabelError."""
    after = [label == "IntersectionSeparator" for label in labels]
    names = ["Second" * ("StreetName" in label and any(after[:t])) + label for t, label in enumerate(labels)]
    runs = [name for name, _ in groupby(names)]
    return len(runs) == len(set(runs))


def fit_theirs(results, dicts, train, test, path):
    """Train python-crfsuite, keep what it predicts, and return its tagger."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False, params=THEIRS)
    for features, labels in zip(part(dicts, train), part(results.y, train), strict=True):
        trainer.append(features, labels)
    start = time.process_time()
    trainer.train(path)
    seconds = time.process_time() - start
    tagger, labels, probability = pycrfsuite.Tagger(), [], []
    tagger.open(path)
    for features in part(dicts, test):
        labels.append(tagger.tag(features))
        probability.append(tagger.probability(labels[-1]))
    results.add(test, labels, probability, seconds)
    return tagger


def run_fold(results, dicts, X, train, test, path):
    """Fit python-crfsuite, then each model, or the one that is chosen of several; return tagger and last model."""
    tagger = fit_theirs(results["python-crfsuite"], dicts, train, test, path)
    for name, of in list(results.items())[1:]:
        features, params = PLAIN[name] if name in PLAIN else CHOSEN[name][choose(CHOSEN[name], X, of.y, train, 2)]
        fitted = of.fit(params, X[features], train, test, no_repeats)
        of.chosen.append((features, params["max_order"], params["sigma_reg"]))
    return tagger, fitted


def print_repeats(results):
    rows = []
    for name, of in results.items():
        before, after = ([n for n in of.tested if not no_repeats(labels[n])] for labels in (of.labels, of.by_rule))
        wrong = sum(of.labels[n] != of.y[n] for n in before)
        right = np.mean([of.by_rule[n] == of.y[n] for n in of.tested])
        ruled = [len(after), f"{100 * right:.2f}"] if name != "python-crfsuite" else ["", ""]
        rows.append([name, len(before), wrong, *ruled])
    protocol.print_table(["", "repeated labels", "wrong of these", "with accept=", "entirely right % then"], rows)


def print_use(theirs, model, path, y, dicts, added):
    """Print sizes of files, and how many addresses a second are tagged from feature dicts, median of three turns."""
    model = HighOrderCRF(**model.get_params()).fit(added, y)  # on feature dicts, which an exported tagger reads
    export_tagger(model, path + ".hocrf")
    size, own_size = os.path.getsize(path), os.path.getsize(path + ".hocrf")
    print(f"\nfiles: python-crfsuite {size / 1e6:.2f} MB, chosen, more features {own_size / 1e6:.2f} MB")
    tagger = Tagger(path + ".hocrf")
    cases = {
        "python-crfsuite": lambda: [theirs.tag(features) for features in dicts],
        "chosen, more features, in a batch": lambda: model.predict(added),
        "exported, one by one": lambda: [tagger.tag(features) for features in added],
    }
    protocol.print_speed("addresses a second", cases, len(dicts))


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False, shuffles=[0, 1, 2, 3, 4, 5])
    if protocol.skipped(protocol.absent(FILE, modules=["pycrfsuite"])):
        return
    rows = list(map(json.loads, protocol.read_lines(*FILE)[:: 3 if options.quick else 1]))
    y, dicts = [row["labels"] for row in rows], [row["features"] for row in rows]
    added = [[d | more(row["tokens"], t) for t, d in enumerate(row["features"])] for row in rows]
    # one vocabulary for all folds: the weights of what a training part lacks stay 0
    X = {name: SequenceDictVectorizer().fit_transform(data) for name, data in {"own": dicts, "more": added}.items()}
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "theirs")
        for shuffle in [0] if options.quick else options.shuffles:
            names = [*(PLAIN if shuffle == 0 and not options.quick else []), *CHOSEN]
            results = {name: Results(y) for name in ["python-crfsuite", *names]}
            for train, test in shuffled_folds(len(y), 10, shuffle)[: 2 if options.quick else None]:
                tagger, model = run_fold(results, dicts, X, train, test, path)
            print(f"\nshuffle {shuffle}", *(f"\n{name}: {results[name].chosen}" for name in CHOSEN))
            protocol.print_results(results, "python-crfsuite")
            print_repeats(results)
            shares += [[100 * results[name].is_right.mean() for name in ("python-crfsuite", *CHOSEN)]] * (shuffle > 0)
        for name, of in zip(("python-crfsuite", *CHOSEN), np.transpose(shares), strict=bool(shares)):
            print(f"{name}: mean of {len(of)} fresh shuffles {of.mean():.2f}, standard deviation {of.std():.2f}", of)
        print_use(tagger, model, path, y, dicts, added)


if __name__ == "__main__":
    main()

"""usaddress on its own data: python-crfsuite as the product trains it, and high orders with the same features.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/usaddress.py [--quick] [--single] [--shuffles N ...] [--keep DIR]

1488 American addresses with 29 labels, in 10 folds of each shuffle: all orders with shuffle 0, with the others what is
chosen inside each training part as protocol.py says: with the product's features, and with a dozen lines of further
ones, the best of a chain of order 3, a semi-CRF of order 3 whose features are those of the first and the last token of
a segment and its length, and both together. This list was set by cross-validation inside the training part of fold 0 of
shuffle 0. Prints what protocol.print_results says, by address; repeated labels (the product's RepeatedLabelError)
before and after ``predict_nbest(accept=)``. --quick: two folds of a third of the data. --single: one model, not both
together. --keep: a folder for results. Needs python-crfsuite. ``compare.py --tasks addresses`` measures the speed.
"""

import json
import os
import tempfile
import time
from collections import Counter
from functools import partial
from itertools import groupby

import protocol
from protocol import Results, part, shuffled_folds

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

FILE = ("usaddress", "train.jsonl.gz")
PLAIN = {f"order {k}": [("own", HighOrderCRF(max_order=k, sigma_reg=2.0, tol=0.03))] for k in (1, 2, 3)}


def models_of(features, all_pairs):
    """Return what is tried with some features."""
    settings = {"sigma_reg": 2.0, "all_pairs": all_pairs, "tol": 0.05}
    segments = (f"{features}, segments", HighOrderSemiCRF(max_order=3, **settings))
    chain = features, HighOrderCRF(max_order=3, **settings)
    return {"order 3": [chain], "segments": [segments], "order 3 and segments": [chain, segments]}


CHOSEN = {"chosen": models_of("own", True), "chosen, more features": models_of("more", False)}
PRODUCT = "python-crfsuite"
MODELS = {name: {name: members} for name, members in PLAIN.items()} | CHOSEN


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
    """Train python-crfsuite, add what it predicts, and return its tagger."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.1, "c2": 0.01})
    for features, labels in zip(part(dicts, train), part(results.y, train), strict=True):
        trainer.append(features, labels)
    start = time.process_time()
    trainer.train(path)
    seconds, tagger = time.process_time() - start, pycrfsuite.Tagger()
    tagger.open(path)
    labels = [tagger.tag(features) for features in part(dicts, test)]
    probability = [tagger.probability(tagger.tag(features)) for features in part(dicts, test)]
    results.add(test, labels, probability, seconds)
    return tagger


def cross_validate(models, X, y, folds, dicts, path):
    """Return the results of what is chosen, or of the product's program if there are no models."""
    if models:
        return protocol.cross_validate(models, X, y, folds, no_repeats)
    results = Results(y)
    for train, test in folds:
        fit_theirs(results, dicts, train, test, path)
    return results


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False, single=False, shuffles=[0, 1, 2, 3, 4, 5], keep="")
    if protocol.skipped(protocol.absent(FILE, modules=["pycrfsuite"])):
        return
    rows = [json.loads(line) for line in protocol.read_lines(*FILE)[:: 3 if options.quick else 1]]
    y, dicts = ([row[key] for row in rows] for key in ("labels", "features"))
    added = [[d | more(row["tokens"], t) for t, d in enumerate(row["features"])] for row in rows]
    # one vocabulary for all folds: the weights of what a training part lacks stay 0
    extract = SequenceFeatureExtractor("attributes").fit_transform
    X = {"own": extract(dicts), "more": extract(added)}
    borders = SegmentFeatureExtractor(bag=(), begin=True, end=True, length="capped", max_length=10)
    X |= {f"{name}, segments": borders.fit_transform(batch) for name, batch in X.items()}
    with tempfile.TemporaryDirectory() as folder:
        path, keep, fresh = os.path.join(folder, "theirs"), options.keep or folder, []
        for shuffle in [0] if options.quick else options.shuffles:
            print(f"\nshuffle {shuffle}")
            folds = shuffled_folds(len(y), 10, shuffle)[: 2 if options.quick else None]
            results = {}
            for name in [PRODUCT, *(MODELS if shuffle == 0 and not options.quick else CHOSEN)]:
                models = dict(list(MODELS.get(name, {}).items())[: 2 if options.single else None])
                run = partial(cross_validate, models, X, y, folds, dicts, path)
                results[name] = protocol.kept(os.path.join(keep, f"{shuffle} {name}"), run)
                print(f"{name}: {100 * results[name].is_right.mean():.2f} %", Counter(results[name].chosen), flush=True)
            protocol.print_results(results, PRODUCT)
            protocol.print_calibration(results)
            protocol.print_rule(results, no_repeats, "repeated labels")
            fresh += [results] * (shuffle > 0)
        protocol.print_means(fresh, PRODUCT)


if __name__ == "__main__":
    main()

"""usaddress on its data: python-crfsuite as that program trains it, and tuned; chains tuned by the same folds.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/usaddress.py [--quick] [--rows ROW ...] [--folds N]
        [--shuffles N ...] [--keep DIR]

The data are 1488 American addresses with 29 labels, in the folds of each shuffle; no earlier run has used shuffle 11.
The rows are those of ``protocol.table_rows``, with orders 1, 2 and 3 and the features of usaddress, and the same chains
with a dozen lines of further features. Tuned settings are chosen inside each training part, as protocol.py describes.
Two further rows are not single chains; each has the features of usaddress, with or without the further ones. The first
is a semi-CRF of order 3 whose features are those of the first and the last token of a segment, and its length. The
second, "together", is the best of a chain of order 3, that semi-CRF, and both combined. The lists of models were set by
cross-validation inside the training part of fold 0 of shuffle 0. The command prints the results of
protocol.print_results, by address; calibration; and the number of repeated labels (usaddress's RepeatedLabelError)
before and after ``predict_nbest(accept=)``. ``--quick``: two folds of a third of the data. ``--keep``: a folder for
results. Needs python-crfsuite. ``compare.py --tasks addresses`` measures the speed.
"""

from functools import partial
from itertools import groupby

import protocol
from protocol import Theirs, shuffled_folds

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

FILE, ORDERS = ("usaddress", "train.jsonl.gz"), (1, 2, 3)


def models_of(features, all_pairs):
    """Return what is tried with some features."""
    settings = {"sigma_reg": 2.0, "all_pairs": all_pairs, "tol": 0.05}
    segments = (f"{features}, segments", HighOrderSemiCRF(max_order=3, **settings))
    chain = features, HighOrderCRF(max_order=3, **settings)
    return {"order 3": [chain], "segments": [segments], "order 3 and segments": [chain, segments]}


ROWS = protocol.table_rows(Theirs(), "dicts", "own", ORDERS)
BASELINE = list(ROWS)[1]  # tuned
ROWS["best order, more features"] = protocol.chains("more", ORDERS)
POOLS = {"": models_of("own", True), ", more features": models_of("more", False)}
OTHERS = {f"segments{of}": {"": models["segments"]} for of, models in POOLS.items()}
OTHERS |= {f"together{of}": models for of, models in POOLS.items()}


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


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False, rows=[*ROWS, *OTHERS], folds=5, shuffles=[11], keep="")
    if protocol.skipped(protocol.absent(FILE, modules=["pycrfsuite"])):
        return
    rows = protocol.read_rows(*FILE, every=3 if options.quick else 1)
    y, dicts = ([row[key] for row in rows] for key in ("labels", "features"))
    added = [[d | more(row["tokens"], t) for t, d in enumerate(row["features"])] for row in rows]
    # one vocabulary for all folds: the weights of what a training part lacks stay 0
    extract = SequenceFeatureExtractor("attributes").fit_transform
    X = {"own": extract(dicts), "more": extract(added)}
    borders = SegmentFeatureExtractor(bag=(), begin=True, end=True, length="capped", max_length=10)
    X |= {f"{name}, segments": borders.fit_transform(batch) for name, batch in X.items()} | {"dicts": dicts}
    shuffles = []
    for shuffle in options.shuffles:
        print(f"\nshuffle {shuffle}")
        folds = shuffled_folds(len(y), options.folds, shuffle)[: 2 if options.quick else None]
        results = {}
        for name in options.rows:
            print(f"{name}:", flush=True)
            run = partial(protocol.cross_validate, (ROWS | OTHERS)[name], X, y, folds)
            results[name] = protocol.kept(options.keep, f"{options.folds} {shuffle} {name}", run)
        protocol.print_results(results, BASELINE)
        shuffles.append(results)
    protocol.print_means(shuffles, BASELINE if BASELINE in options.rows else options.rows[0])


if __name__ == "__main__":
    main()

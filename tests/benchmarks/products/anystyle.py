"""AnyStyle on its own data: high orders with the product's patterns, beside the figures of Wapiti.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/anystyle.py [--quick] [--orders N ...] [--learned SECONDS]

2973 bibliographic references with 23 labels, in two folds. "chosen" is the better one, inside each training part with
half of it held out (protocol.py), of a chain of order 3, and that one and another with further patterns together.
Prints what protocol.print_results says, by reference. WAPITI are the figures of the data's README, for the training
that the product does. "learned" are penalties of the chain of order 3, with L1, that a search of at most so many
seconds learns inside each training part with half of it held out: a group for features of single labels and one for
the rest, all else by default. Needs anystyle_references (SKLEARN_HOCRF_DATA or ../shared/data). --quick: a tenth of
the references.
"""

from itertools import accumulate

import protocol
from protocol import shuffled_folds
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import PenaltySearchCV

FOLDER = "anystyle_references"
FILES = [(FOLDER, "core.txt.gz"), (FOLDER, "gold.txt.gz"), (FOLDER, "patterns.txt")]
WAPITI = "Wapiti, according to the data's README: 81.1 % entirely right, 96.18 % of the tokens, 96 s a fit"
NUMBER, KEYWORD, TERMINATOR = 9, 14, 18  # columns
SHARED = {"sigma_reg": 2.0, "feature_order": {"*": 1}, "tol": 0.03}
PLAIN = {f"order {k}": [("own", HighOrderCRF(max_order=k, **SHARED))] for k in (1, 2, 3)}
OWN, WITH_CONTEXT = ((features, HighOrderCRF(max_order=3, **SHARED)) for features in ("own", "context"))
MODELS = {"order 3": [OWN], "order 3, twice": [OWN, WITH_CONTEXT]}
MORE = [
    "U:more 1=%X[-1,0]/%X[0,0]/%X[1,0]",
    "U:more 2=%X[-2,0]/%X[-1,0]",
    "U:more 3=%X[1,0]/%X[2,0]",
    "U:more 4=%x[-2,14]",
    "U:more 5=%x[2,14]",
    "U:more 6=%x[1,9]/%x[2,9]",
    *(f"U:around {c}=%x[-1,{c}]/%x[0,{c}]/%x[1,{c}]" for c in (3, 8, 9, 10, 11, 12, 13, 16, 17, 18)),
    *(f"U:before {c}=%x[-2,{c}]/%x[-1,{c}]/%x[0,{c}]" for c in (3, 8, 18)),
    *(f"U:after {c}=%x[0,{c}]/%x[1,{c}]/%x[2,{c}]" for c in (3, 8, 18)),
]
CONTEXT = [  # the columns that context() adds
    *(f"U:context {c}=%x[0,{c}]" for c in range(20, 26)),
    *(f"U:context {c} {d}=%x[0,{c}]/%x[0,{d}]" for c, d in [(20, 21), (20, 24), (22, 23), (24, 25), (20, 8), (24, 18)]),
]


def last_before(values):
    """Return, for each position, the last value before it that is not "none"."""
    return ["none", *accumulate(values, lambda last, value: last if value == "none" else value)][: len(values)]


def context(reference):
    """Return the columns of tokens, and what the reference has before and after each: keywords, numbers, full stops."""
    keywords, numbers = ([token[column] for token in reference] for column in (KEYWORD, NUMBER))
    stops = [token[TERMINATOR] == "strong" for token in reference]
    columns = []
    for values in keywords, numbers:
        columns += [last_before(values), last_before(values[::-1])[::-1]]
    columns += [[str(min(sum(stops[:t]), 4)) for t in range(len(stops))]]
    columns += [[str(min(sum(stops[t:]), 4)) for t in range(len(stops))]]
    return [[*token, *added] for token, *added in zip(reference, *columns, strict=True)]


def load():
    """Return columns and labels of all different references: core, then gold."""
    references = {}
    for file in FILES[:2]:
        for block in "\n".join(protocol.read_lines(*file)).split("\n\n"):
            lines = [line.split(" ") for line in block.split("\n")]
            references.setdefault(tuple(token for token, *_ in lines), lines)
    references = references.values()
    return [[line[:-1] for line in lines] for lines in references], [
        [line[-1] for line in lines] for lines in references
    ]


def learn(batch, y, folds, seconds):
    """Return the results of order 3 with penalties that are learned inside each training part."""
    results, settings = protocol.Results(y), {"learn_l1": True, "penalty_groups": [("features", 0), None]}
    for train, test in folds:
        half = ShuffleSplit(1, test_size=0.5, random_state=0)
        search = PenaltySearchCV(OWN[1], cv=half, tol=5e-3, max_time=seconds, refit=False, verbose=1, **settings)
        chosen = search.fit(protocol.part(batch, train), protocol.part(y, train)).best_params_
        print(f"  {chosen}")
        results.fit([("own", clone(OWN[1]).set_params(**chosen))], {"own": batch}, train, test, None)
    return results


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False, orders=[1, 2, 3], learned=0)
    if protocol.skipped(protocol.absent(*FILES)):
        return
    X, y = (data[:: 10 if options.quick else 1] for data in load())
    own = SequenceFeatureExtractor.from_file(protocol.data_file(*FILES[2]))
    further = SequenceFeatureExtractor([*own.templates, *MORE, *CONTEXT])
    # one vocabulary for both folds: what a training part lacks has no weights
    batches = {"own": own.fit_transform(X), "context": further.fit_transform([context(one) for one in X])}
    folds, results = shuffled_folds(len(y), 2), {}
    for name in [*(f"order {k}" for k in options.orders), *["chosen"][: not options.learned]]:
        print(f"{name}:")
        models = MODELS if name == "chosen" else {name: PLAIN[name]}
        results[name] = protocol.cross_validate(models, batches, y, folds)
    if options.learned:
        results["learned"] = learn(batches["own"], y, folds, options.learned)
    print(f"\n{WAPITI}")
    protocol.print_results(results, "order 1")
    protocol.print_calibration(results)


if __name__ == "__main__":
    main()

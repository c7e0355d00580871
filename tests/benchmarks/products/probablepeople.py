"""probablepeople on its data: python-crfsuite as that program trains it, and penalties chosen by inner folds.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/probablepeople.py [--quick] [--shuffles N ...] [--keep FOLDER]

The data are 2880 names of people and companies with 23 labels; the features are those of probablepeople. These strings
were explored before: penalties and orders were compared on the test folds of shuffle 0, and L1 was built because of the
results. The gain is therefore an upper estimate, although all choices are made inside training parts.

The protocol uses five folds of each of five shuffles, or of the given shuffles. Strings that differ only in case and
punctuation form a group, and each group is in one fold. python-crfsuite is trained with c1 = 0.1 and c2 = 0.01, as in
probablepeople. Our model is ``PenaltySearchCV(HighOrderCRF(), orders=[1, 2, 3], learn_l1=True, tol=5e-3)`` with one
group for features and one for all other weights, three inner folds of the same groups, and defaults for all other
settings. The tolerance is 5 times the default, because 25 searches would otherwise take hours; on a sixth of the
strings, the omitted steps gain .002 nats. The score is the share of strings that are entirely correct. The interval of
the difference comes from a bootstrap over groups, each with all its strings of all shuffles. The command also prints
the results of protocol.print_results, in which the times are those of a fit with the chosen penalties, and the
processor seconds of each search. Needs python-crfsuite. ``--quick``: two folds of a sixth of the strings. ``--keep``: a
folder for results; the program reads results that the folder already contains.
"""

import pickle
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import protocol
from protocol import Results, Theirs, part
from sklearn.model_selection import GroupKFold

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import PenaltySearchCV

FILE = ("probablepeople", "names.jsonl.gz")
PRODUCT, OURS = "python-crfsuite", "chosen by inner folds"
INNER, N_RESAMPLED = GroupKFold(3, shuffle=True, random_state=0), 9999


def group_of(tokens):
    """Return what equal strings have in common."""
    return "".join(c for token in tokens for c in token.lower() if c.isalnum())


def ours(X, y, groups, folds, folder, name):
    """Return the results of the models whose penalties and order are chosen inside each training part."""
    results = protocol.kept(folder, name, partial(Results, y))
    settings = {"orders": [1, 2, 3], "learn_l1": True, "penalty_groups": [("features", 0), None], "tol": 5e-3}
    settings["refit"] = False
    for train, test in folds[len(results.seconds) :]:
        search, X_train, y_train = PenaltySearchCV(HighOrderCRF(), cv=INNER, **settings), part(X, train), part(y, train)
        start = time.process_time()
        chosen = search.fit(X_train, y_train, groups=groups[train]).best_params_
        middle = time.process_time()
        best = HighOrderCRF(**chosen).fit(X_train, y_train)
        seconds = middle - start, time.process_time() - middle
        results.add(test, best.predict(part(X, test)), seconds[1])
        results.chosen.append(f"order {chosen['max_order']}")
        Path(folder, name).write_bytes(pickle.dumps(results))  # what was interrupted continues here
        right = 100 * np.mean([results.labels[n] == y[n] for n in test])
        print(f"  {right:.2f} %, search {seconds[0]:.0f} s, fit {seconds[1]:.1f} s, {chosen}", flush=True)
    return results


def print_interval(pairs, groups):
    """Print the mean difference of shares that are right, with the paired bootstrap of groups."""
    gain = np.mean([100.0 * one.is_right - 100.0 * other.is_right for one, other in pairs], axis=0)
    number = np.unique(groups, return_inverse=True)[1]
    sums, sizes = np.bincount(number, gain), np.bincount(number)
    drawn = np.random.default_rng(0).integers(len(sums), size=(N_RESAMPLED, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    print(f"\n{OURS} minus {PRODUCT}: {gain.mean():+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}")


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False, shuffles=[0, 1, 2, 3, 4], keep="")
    if protocol.skipped(protocol.absent(FILE, modules=["pycrfsuite"])):
        return
    rows = protocol.read_rows(*FILE, every=6 if options.quick else 1)
    y, dicts = [row["labels"] for row in rows], [row["features"] for row in rows]
    groups = np.array([group_of(row["tokens"]) for row in rows])
    # one vocabulary for all folds: the weights of what a training part lacks stay 0
    X, pairs = SequenceFeatureExtractor("attributes").fit_transform(dicts), []
    with tempfile.TemporaryDirectory() as folder:
        for shuffle in [0] if options.quick else options.shuffles:
            folds = list(GroupKFold(5, shuffle=True, random_state=shuffle).split(y, groups=groups))
            folds = folds[: 2 if options.quick else None]
            keep = options.keep or folder
            results = {OURS: ours(X, y, groups, folds, keep, f"{shuffle} {OURS}")}
            run = partial(protocol.cross_validate, {"": [("dicts", Theirs())]}, {"dicts": dicts}, y, folds)
            results[PRODUCT] = protocol.kept(keep, f"{shuffle} {PRODUCT}", run)
            print(f"\nshuffle {shuffle}")
            protocol.print_results(results, PRODUCT)
            pairs.append([results[name] for name in (OURS, PRODUCT)])
        print_interval(pairs, groups[pairs[0][0].tested])


if __name__ == "__main__":
    main()

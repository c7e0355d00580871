"""Which penalty and which weights are the better default? Nine data sets, in folds of training parts alone.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/defaults.py [--sets ...] [--sizes ...] [--draws ...] [--keep DIR]

The sets, sizes, halves and measures are those of orders.py, without usaddress, which python-crfsuite's settings were
chosen on: it is run once, at the end. All models are ``HighOrderCRF()`` but for one setting: another ``sigma_reg``,
``all_pairs``, or all pairs of labels as patterns beside the observed ones of three labels ("all pairs of labels").

A setting is better if its mean difference from the default over the nine sets, averaged over both sizes, is above 0,
and no set's difference is below -.3 points at either size. Of several, the one with the highest mean is taken. A set's
difference is the mean over draws, which are other sequences with 600, and other halves with all: with one draw alone,
its 95 % interval is about one point wide on each side, so that the limit of .3 would judge noise.
"""

import os
from functools import partial
from itertools import product

import numpy as np
import protocol
from orders import SETS, difference, load, run
from protocol import print_table
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF

LOWEST = -0.3


class AllPairsOfLabels(HighOrderCRF):
    """A model with all pairs of the training labels as patterns, beside the observed patterns of three labels."""

    def fit(self, X, y):
        triples = {tuple(labels[i : i + 3]) for labels in y for i in range(len(labels) - 2)}
        pairs = product({label for labels in y for label in labels}, repeat=2)
        self.model_ = HighOrderCRF(**{**self.get_params(), "patterns": sorted(triples | set(pairs))}).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


CANDIDATES = {
    "default": HighOrderCRF(),
    "sigma 1.5": HighOrderCRF(sigma_reg=1.5),
    "sigma 2": HighOrderCRF(sigma_reg=2.0),
    "sigma 3": HighOrderCRF(sigma_reg=3.0),
    "all_pairs": HighOrderCRF(all_pairs=True),
    "all pairs of labels": AllPairsOfLabels(),
    "sigma 2, all pairs of labels": AllPairsOfLabels(sigma_reg=2.0),
}
NINE = [name for name in SETS if name != "usaddress"]


def main(arguments=None):
    options = protocol.parse(
        __doc__, arguments, sets=NINE, sizes=[600, 0], candidates=list(CANDIDATES), draws=[1, 2, 3], keep=""
    )
    found, rows = {}, []
    for most, of in product(options.sizes, options.sets):
        if protocol.skipped(protocol.absent(SETS[of][0])):
            continue
        results = {}
        for draw in options.draws:
            X, y, measure = load(of, most, draw)
            for name in dict.fromkeys(["default", *options.candidates]):
                path = options.keep and os.path.join(options.keep, f"{of} {most or 'all'} {draw} {name}") or None
                model = CANDIDATES[name]
                if of == "handwriting":
                    model = clone(model).set_params(all_pairs=True)
                results.setdefault(name, []).append(protocol.kept(path, partial(run, X, y, measure, model)))
        results = {name: (np.vstack([of for of, _ in runs]), sum(t for _, t in runs)) for name, runs in results.items()}
        base, base_seconds = results["default"]
        row = [f"{of}, {most or 'all'}", measure, f"{100 * np.divide(*base.sum(axis=0)):.2f}"]
        for name in options.candidates:
            if name != "default":
                gain, low, high = difference(results[name][0], base)
                found.setdefault(name, []).append(gain)
                row.append(f"{gain:+.2f} ({low:+.2f} to {high:+.2f}), {results[name][1] / base_seconds:.1f}")
        rows.append(row)
        print(*row, sep=" | ", flush=True)
    print_table(["set, sequences", "measure", "default", *found], rows)
    for name, gains in found.items():
        verdict = "passes" if min(gains) >= LOWEST and np.mean(gains) > 0 else "does not pass"
        print(f"{name}: mean {np.mean(gains):+.2f}, lowest {min(gains):+.2f}: {verdict}")


if __name__ == "__main__":
    main()

"""Make a golden file of the results of all kinds of ``registry``, and compare bits and messages with it.

Run ``make`` before a change that should change no result, and ``compare`` after each step of this change:

    python tests/golden_matrix.py make FILE       # a minute with compiled kernels
    python tests/golden_matrix.py compare FILE    # prints each cell that differs, and how; exit status 1 if one does

A *cell* is a kind of model, trained in one of WAYS, with the results of all queries. For a cell whose training raises
an exception, the file contains this exception. For other cells, it contains a hash of the bits of each result, the
exceptions of queries, and the warnings. ``compare --numbers`` ignores messages, after a change of names or messages;
``--only`` selects the cells whose names match a regular expression; ``--n-jobs`` must change nothing. Bits are the same
only on one machine with one set of versions, so golden files are not committed.
"""

import argparse
import copy
import hashlib
import json
import pickle
import re
import sys
import warnings

import numpy as np
from registry import KINDS, NEW, STREAM
from scipy import sparse

from sklearn_hocrf.inspection import explain, weights_table
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV

FEW = {"max_iter": 4}
WAYS = {  # of an estimator, X and y to a fitted model
    "plain": lambda crf, X, y: crf.set_params(**FEW).fit(X, y),
    "sample weights": lambda crf, X, y: crf.set_params(**FEW).fit(X, y, np.arange(len(y)) % 4 / 2),
    "warm start": lambda crf, X, y: crf.set_params(**FEW, warm_start=True).fit(X, y).fit(X, y),
    "sgd": lambda crf, X, y: crf.set_params(**STREAM).fit(X, y),
    "stream": lambda crf, X, y: crf.set_params(**STREAM).partial_fit(X, y).partial_fit(X, y),
    "calibration": lambda crf, X, y: CalibratedSequenceLabeler(crf.set_params(**FEW), cv=2).fit(X, y),
    "penalty search": lambda crf, X, y: PenaltySearchCV(crf.set_params(**FEW), cv=2, max_steps=2).fit(X, y),
}
ATTRIBUTES = "coef_ pattern_coef_ token_intercept_ part_coef_ objective_history_ patterns_ classes_ segment_labels_"
ATTRIBUTES += " label_parts_ n_features_in_ n_parameters_ n_iter_ n_passes_ optimality_gap_ pruning_recall_"
ATTRIBUTES += " temperature_ best_score_ best_params_"
QUESTIONS = {  # of a model, X, labels and what is known of them
    "prediction": lambda model, X, y, known: model.predict(X, known=known),
    "marginals": lambda model, X, y, known: model.predict_marginals(X, known=known),
    "patterns": lambda model, X, y, known: model.pattern_marginals(
        X, getattr(model, "patterns_", [("O",)])[-3:], known=known
    ),
    "n-best": lambda model, X, y, known: model.predict_nbest(X, 3, known=known),
    "accepted": lambda model, X, y, known: model.predict_nbest(X, 2, accept=lambda one: len(str(one)) % 3, known=known),
    "sample": lambda model, X, y, known: model.sample(X, 3, random_state=0, known=known),
    "entropy": lambda model, X, y, known: model.entropy(X, known=known),
    "entropy of tokens": lambda model, X, y, known: model.entropy(X, level="token", known=known),
    "segments": lambda model, X, y, known: model.predict_segments(X, with_probability=True, known=known),
    "segment marginals": lambda model, X, y, known: model.predict_segments(X, threshold=0.05, known=known),
    "score": lambda model, X, y, known: model.score(X, y),
    "log-likelihood": lambda model, X, y, known: model.log_likelihood(X, known or y),
    "table of weights": lambda model, X, y, known: weights_table(model),
    "explanation": lambda model, X, y, known: explain(model, X, 1, 0),
    "pickled": lambda model, X, y, known: pickle.loads(pickle.dumps(model)).predict_marginals(X),
}


def outcome(kind, way, n_jobs=None):
    """Return the results of a cell: hashes and exceptions by name."""
    kind, answers = KINDS[kind], {}
    X, new, y = kind.X(), kind.X(NEW), kind.y()
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            model = WAYS[way](copy.deepcopy(kind.estimator).set_params(n_jobs=n_jobs), X, y)
        except Exception as error:
            return {"fit": refusal(error)}
        inside = getattr(model, "calibrated_estimator_", getattr(model, "best_estimator_", model))
        for name in ATTRIBUTES.split():
            answers[name] = answer(lambda name=name: getattr(inside, name, getattr(model, name, None)))
        labels = answers and [list(one) for one in model.predict(new)]
        known = [one[:1] if kind.scheme == "segments" else [*one[:1], *[None] * (len(one) - 1)] for one in labels]
        for name, ask in QUESTIONS.items():
            answers[name] = answer(lambda ask=ask: ask(model, new, labels, None))
            answers[f"{name}, known"] = answer(lambda ask=ask: ask(model, new, labels, known))
    texts = {f"{warning.category.__name__}: {warning.message}": None for warning in caught}  # once each, in order
    return answers | ({"warnings": "! " + " | ".join(texts)} if texts else {})


def answer(ask):
    """Return the hash of a query's result, or the exception."""
    digest = hashlib.sha256()
    try:
        feed(digest, ask())
    except Exception as error:
        return refusal(error)
    return digest.hexdigest()[:16]


def refusal(error):
    """Return an exception, and its cause if it has one, as a string that no hash can equal."""
    cause = f" (cause: {error.__cause__})" if error.__cause__ else ""
    return f"! {type(error).__name__}: {error}{cause}"


def feed(digest, value):
    """Add the bits of a result, and of all its parts, to a hash."""
    if sparse.issparse(value):
        value = [value.shape, value.data, value.indices, value.indptr]
    if isinstance(value, np.ndarray) and not value.dtype.hasobject and value.dtype.names is None:
        digest.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, np.ndarray):
        feed(digest, value.tolist())
    elif isinstance(value, dict):
        feed(digest, sorted(([repr(key), part] for key, part in value.items()), key=lambda pair: pair[0]))
    elif isinstance(value, (list, tuple)):
        digest.update(f"{len(value)}[".encode())
        for part in value:
            feed(digest, part)
    elif hasattr(value, "__dict__"):
        feed(digest, [part for name, part in vars(value).items() if name[0] != "_"])
    else:
        digest.update(f"{value!r};".encode())


def differences(golden, now, numbers):
    """Yield the name of each cell that differs, and the differences."""
    for name in golden | now:
        old, new = golden.get(name, {"cell": "! none"}), now.get(name, {"cell": "! none"})
        told = []
        for part in old | new:
            pair = old.get(part, "! none"), new.get(part, "! none")
            are_texts = [text[0] == "!" for text in pair]
            if pair[0] != pair[1] and not (numbers and all(are_texts) and "! none" not in pair):
                told.append("\n      ".join([f"{part}:", *pair] if any(are_texts) else [part]))
        if told:
            yield name, [part for part in told if part.startswith("fit:")] or told


def main():
    """Make a golden file, or compare the results with one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=["make", "compare"])
    parser.add_argument("file")
    parser.add_argument("--only", default="", help="regular expression of cells")
    parser.add_argument("--numbers", action="store_true", help="leave texts out of the comparison")
    parser.add_argument("--n-jobs", type=int, help="number of threads")
    options = parser.parse_args()
    cells = {f"{kind}: {way}": (kind, way) for kind in KINDS for way in WAYS}
    now = {name: outcome(*cell, options.n_jobs) for name, cell in cells.items() if re.search(options.only, name)}
    if options.task == "make":
        with open(options.file, "w", encoding="utf-8") as stream:
            json.dump(now, stream, separators=(",", ":"))
        print(f"{len(now)} cells, {sum('fit' in parts for parts in now.values())} of which are refused")
        return 0
    with open(options.file, encoding="utf-8") as stream:
        golden = {name: parts for name, parts in json.load(stream).items() if re.search(options.only, name)}
    found = list(differences(golden, now, options.numbers))
    for name, told in found:
        print(name, *told, sep="\n   ")
    print(f"{len(found)} of {len(now)} cells differ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

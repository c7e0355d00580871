"""Same bits, same messages: a program that makes and compares a golden file of all pairs of features.

Before a change that should change nothing, and after each of its steps:

    python tests/golden_matrix.py make FILE       # two minutes with compiled kernels
    python tests/golden_matrix.py compare FILE    # prints each cell that differs, and how; exit status 1 if one does
    python tests/golden_matrix.py table [FILE]    # what goes with what: estimator, feature, other, outcome, place, text

A *cell* is an estimator with one feature or two, fitted to a toy and asked everything. The file has the exception of
each cell that is refused, and of the others a hash of the bits of each answer, the exceptions of the answers that are
refused, and the warnings. ``compare --numbers`` leaves texts out, after a change of names or messages; ``--only`` takes
the cells that a regular expression finds ("crf: l1 x "); ``--n-jobs`` must change nothing; ``compare FILE OTHER``
compares two files.

Bits are the same on one machine with one set of versions, so files are for one's own use, and not kept. The package is
used by public names alone. All of them are in the first section, the only one that a change of names touches: names of
features and answers stay, since they are the keys of the files.
"""

import argparse
import hashlib
import json
import pickle
import re
import sys
import warnings
from functools import partial
from itertools import combinations
from operator import methodcaller
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.inspection import explain, weights_table
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV, cross_val_predict
from sklearn_hocrf.training import SGD

# ----------------------------------------------------------------------------------------------- features and questions


def allowed(labels):
    """Return the constraint that Q does not follow P directly."""
    pairs = [(a, b) for a in labels for b in labels if not (a.endswith("P") and b in ("Q", "B-Q"))]
    return {"constraints": Constraints(allow=pairs), "@alone": True}


# A feature is parameters of the estimator, and with "@" what it does beside: how data are made, how the model is
# trained, what is around it. "@default" has parameters that the other feature of a pair may replace. Two features that
# set one key to different values make no pair, and a variant of another feature, which stands "@alone", makes none.
BASE = {"max_order": 2, "max_iter": 4, "random_state": 0}
FEATURES = {
    "plain": {},
    "order 0": {"max_order": 0},
    "l1": {"l1_reg": 0.05},
    "penalties by group": {"sigma_reg": {"w=": 0.5, ("features", 0): 1.0, ("patterns", 1): 2.0, None: 1.0}},
    "no penalty": {"sigma_reg": np.inf, "@alone": True},
    "all patterns": {"patterns": "all", "@alone": True},
    "features of pairs": {"feature_order": 1},
    "features of pairs by prefix": {"feature_order": {"w=": (0, 2)}, "@alone": True},
    "frequent": {"min_count": 3},
    "no intercept": {"fit_intercept": False},
    "all_pairs": {"all_pairs": True},
    "sample weights": {"@weights": True},
    "matching": {"objective": "local_feature_matching"},
    "sgd": {"solver": "sgd"},
    "sgd object": {"solver": SGD(batch_size=3, max_iter=3, random_state=1), "@alone": True},
    "stream": {"@course": "stream", "@default": {"solver": "sgd"}},
    "warm start": {"@course": "twice", "warm_start": True},
    "missing labels": {"@missing labels": True},
    "calibration": {"@calibration": True},
    "penalty search": {"@penalty search": True},
    "pipeline": {"@pipeline": True},
    "dense columns": {"@form": "dense"},
    "values": {"@form": "values", "@alone": True},
}
FEATURES_OF_CRF = {
    "allowed pairs": allowed(["O", "B-P", "I-P", "B-Q", "I-Q"]),
    "constraints by scheme": {"constraints": "bio"},
    "constraints": {
        "constraints": Constraints(forbid=[("I-P", "B-Q"), ("B-P", "I-P", "I-P", "I-P")], start=["O", "B-P"])
    },
    "bioes tags": {"@scheme": "bioes", "constraints": "bioes"},
    "parts": {"label_parts": methodcaller("split", "-")},
    "pruning of states": {"pruning": 3},
}
FEATURES_OF_SEMICRF = {
    "allowed pairs": allowed(["O", "P", "Q"]),
    "constraints by scheme": {"constraints": "bio", "@alone": True},
    "constraints": {"constraints": Constraints(forbid=[("P", "P"), ("P", "Q")], start=["O", "P"])},
    "parts": {"label_parts": {"P": ["field"], "Q": ["field"]}},
    "longest segments": {"segment_length": {"P": 5}, "@alone": True},
    "shortest segments": {"segment_length": {"Q": (2, None)}},
    "segment features": {"@form": "segments"},
    "runs": {"@scheme": "runs"},
    "lists of segments": {"@scheme": "segments"},
    "bioes tags": {"@scheme": "bioes"},
    "iob1 tags": {"@scheme": "iob1", "@alone": True},
}
ESTIMATORS = {
    "crf": (HighOrderCRF, FEATURES | FEATURES_OF_CRF),
    "semi-crf": (HighOrderSemiCRF, FEATURES | FEATURES_OF_SEMICRF),
}

ATTRIBUTES = {
    "weights of features": ["coef_"],
    "weights of patterns": ["pattern_coef_"],
    "weights of tokens": ["token_intercept_"],
    "weights of parts": ["part_coef_"],
    "history": ["objective_history_"],
    "structure": ["patterns_", "classes_", "segment_labels_", "label_parts_", "n_features_in_", "n_parameters_"],
    "report": ["n_iter_", "n_passes_", "optimality_gap_", "pruning_recall_"],
}
AROUND = ["temperature_", "best_score_", "best_params_"]  # of what is around a model

# of a case: model, X, y and what is known of it, of new sequences; old, the training data
QUESTIONS_WITH_KNOWN = {  # each is asked without and with known labels
    "prediction": lambda case, **known: case.model.predict(case.X, **known),
    "marginals": lambda case, **known: case.model.predict_marginals(case.X, **known),
    "pattern marginals": lambda case, **known: case.model.pattern_marginals(case.X, case.patterns, **known),
    "n-best": lambda case, **known: case.model.predict_nbest(case.X, 3, **known),
    "sample": lambda case, **known: case.model.sample(case.X, 3, random_state=0, **known),
    "entropy": lambda case, **known: case.model.entropy(case.X, **known),
    "segments": lambda case, **known: case.model.predict_segments(case.X, with_probability=True, **known),
    "segment marginals": lambda case, **known: case.model.predict_segments(case.X, threshold=0.05, **known),
}
QUESTIONS = {
    "score": lambda case: case.model.score(case.X, case.y),
    "log-likelihood": lambda case: case.model.log_likelihood(case.X, case.y),
    "log-likelihood of some labels": lambda case: case.model.log_likelihood(case.X, case.known),
    "entropy of tokens": lambda case: case.model.entropy(case.X, level="token"),
    "table of weights": lambda case: weights_table(case.model),
    "explanation": lambda case: explain(case.model, case.X, 1, 0),
}
QUESTIONS_OF_ONE = {  # variants, and what takes long: asked if there is one feature
    "marginals, sets known": lambda case: case.model.predict_marginals(case.X, known=getattr(case, "sets", case.known)),
    "n-best, accepted": lambda case: case.model.predict_nbest(
        case.X, 2, accept=lambda one: len(str(one)) % 3, max_candidates=9
    ),
    "explanation of a labelling": lambda case: explain(case.model, case.X, 1),
    "cross-validation": lambda case: cross_val_predict(case.model, case.old.X, case.old.y, cv=2, method=MARGINALS),
    "pickled": lambda case: pickle.loads(pickle.dumps(case.model)).predict_marginals(case.X),
}
MARGINALS = "predict_marginals"


def fitted(estimator_class, feature, n_jobs):
    """Return a model with features, fitted to a toy, and what it can be asked about."""
    scheme, form, course = (feature.get(key) for key in ("@scheme", "@form", "@course"))
    is_crf, scheme = estimator_class is HighOrderCRF, scheme or "bio"
    params = BASE | ({} if is_crf else {"scheme": scheme}) | feature.get("@default", {})
    model = estimator_class(**params | {key: value for key, value in feature.items() if key[0] != "@"}, n_jobs=n_jobs)
    old, new = (toy(lengths, scheme, form) for lengths in SIZES)
    y = (
        [with_missing_labels(labels, 5, place) for place, labels in enumerate(old.y)]
        if "@missing labels" in feature
        else old.y
    )
    weights = {"sample_weight": np.arange(len(y)) % 4 / 2} if "@weights" in feature else {}
    if form == "segments":
        extractor = SegmentFeatureExtractor(begin=True, inside=True, length="capped", tags="bigrams", scheme=scheme)
        steps = make_pipeline(SequenceFeatureExtractor("attributes"), extractor)
        old.X, new.X = steps.fit_transform(old.X, old.y), steps.transform(new.X)
    if "@pipeline" in feature:
        model = make_pipeline("passthrough" if form else SequenceFeatureExtractor("attributes"), model)
    if "@penalty search" in feature:
        model = PenaltySearchCV(model, cv=2, max_steps=2)
    if "@calibration" in feature:
        model = CalibratedSequenceLabeler(model, cv=2)
    half, classes = len(y) // 2, None
    if scheme != "segments":
        classes = sorted({label for labels in old.y for label in labels})
        new.sets = [[{label for label in classes if label[-1] != "Q"}] * len(labels) for labels in new.y]
    if course == "stream":
        for part in slice(None, half), slice(half, None):
            some = {key: values[part] for key, values in weights.items()}
            model.partial_fit(old.X[part], y[part], classes=classes, **some)
    else:
        if course == "twice":
            model.fit(old.X[:half], y[:half])
        model.fit(old.X, y, **weights)
    patterns = [("O",), ("O", "B-P" if is_crf else "P")]
    return SimpleNamespace(model=model, old=old, patterns=patterns, **vars(new))


# ----------------------------------------------------------------------------------------------------------------- toys

SIZES = [5, 3, 4, 6, 2, 1, 5, 4, 3, 6, 2, 5, 1, 6], [4, 1, 6, 3]  # lengths of old and of new sequences
TAGS = {"bio": "BIIB", "bioes": "BIES", "iob1": "IIII"}  # first, inner and last tag of a segment, and tag of one token
AFTER = {"O": "OPQ", "P": "O", "Q": "OPP"}  # labels that may follow a label
SPANS = {"O": (1, 2), "P": (1, 4), "Q": (2, 4)}  # of lengths of segments


def toy(lengths, scheme, form):
    """Return sequences X and y, and what is known of y."""
    rng = np.random.default_rng(len(lengths))
    tokens, y = [], []
    for length in lengths:
        segments, before, start = [], "Q", 0
        while start < length:
            label = str(rng.choice([*AFTER[before]]))
            size = min(int(rng.integers(*SPANS[label])), length - start)
            before = "O" if size < SPANS[label][0] else label
            segments.append((start, start + size, before))
            start += size
        kinds = [("OPQ".index(label), t - start) for start, stop, label in segments for t in range(start, stop)]
        tokens.append([(kind + rng.integers(3), (place + rng.integers(2)) % 3) for kind, place in kinds])
        y.append(encoded(segments, scheme))
    known = [with_missing_labels(labels, 2, number) for number, labels in enumerate(y)]
    return SimpleNamespace(X=[in_form(sequence, form) for sequence in tokens], y=y, known=known)


def encoded(segments, scheme):
    """Return segments as y."""
    if scheme == "segments":
        return segments
    labels, before = [], None
    for start, stop, label in segments:
        if scheme == "runs" or label == "O":
            labels += [label] * (stop - start)
        else:
            first, inner, last, only = "BIIB" if scheme == "iob1" and label == before else TAGS[scheme]
            tags = only if stop - start == 1 else [first, *inner * (stop - start - 2), last]
            labels += [f"{tag}-{label}" for tag in tags]
        before = label
    return labels


def with_missing_labels(labels, n, number):
    """Return labels of a sequence without each n-th token, or segments without each n-th segment."""
    if isinstance(labels[0], tuple):
        return [segment for place, segment in enumerate(labels) if (place + number) % n]
    return [label if (place + number) % n else None for place, label in enumerate(labels)]


def in_form(tokens, form):
    """Return a sequence of features: attributes, numbers by name, or dense columns."""
    if form == "dense":
        return np.array([[1.0, 0.5 + word, 0.25 - shape] for word, shape in tokens])
    if form == "values":
        return [{f"w={word}": 1.0, "shape": 0.5 * shape} for word, shape in tokens]
    return [[f"w={word}", f"s={shape}"] for word, shape in tokens]


# ---------------------------------------------------------------------------------------------------------------- cells


def cells(only=""):
    """Yield the name of each cell, its estimator, its feature or both in one, and whether it is one."""
    for estimator, (estimator_class, features) in ESTIMATORS.items():
        paired = [name for name, feature in features.items() if "@alone" not in feature and name != "plain"]
        for names in [*((name,) for name in features), *combinations(paired, 2)]:
            both = {}
            for name in names:
                both |= features[name]
            name = f"{estimator}: {' x '.join(names)}"
            agree = all(both[key] is value for feature in names for key, value in features[feature].items())
            if agree and re.search(only, name):
                yield name, estimator_class, both, len(names) == 1


def outcome(estimator_class, feature, is_single, n_jobs=None):
    """Return what a cell gives: hashes and exceptions by name."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            case = fitted(estimator_class, feature, n_jobs)
        except Exception as error:
            return {"fit": refusal(error)}
        answers = {name: answer(ask, case) for name, ask in questions(is_single, case.known)}
    texts = {f"{warning.category.__name__}: {warning.message}": None for warning in caught}  # once each, in order
    return answers | ({"warnings": "! " + " | ".join(texts)} if texts else {})


def questions(is_single, known):
    """Yield all that is asked about a case: the name of the answer, and a function of the case."""
    for name, names in ATTRIBUTES.items():
        yield name, lambda case, names=names: [getattr(inside(case.model), name, None) for name in names]
    yield "around", lambda case: [getattr(case.model, name, None) for name in AROUND]
    for name, ask in QUESTIONS_WITH_KNOWN.items():
        yield name, ask
        yield f"{name}, known", partial(ask, known=known)
    yield from (QUESTIONS | QUESTIONS_OF_ONE if is_single else QUESTIONS).items()


def inside(model):
    """Return the model inside of searches, pipelines and calibration."""
    for name in "calibrated_estimator_", "best_estimator_":
        model = getattr(model, name, model)
    return model[-1] if hasattr(model, "steps") else model


def answer(ask, case):
    """Return the hash of an answer, or the exception."""
    try:
        digest = hashlib.sha256()
        feed(digest, ask(case))
    except Exception as error:
        return refusal(error)
    return digest.hexdigest()[:16]


def refusal(error):
    """Return an exception, with its cause if it has one, as a text that no hash can be."""
    cause = f" (cause: {error.__cause__})" if error.__cause__ else ""
    return f"! {type(error).__name__}: {error}{cause}"


def feed(digest, value):
    """Hash the bits of an answer, and of all that it is made of."""
    if value is None or isinstance(value, (bool, np.bool_, str, int, np.integer)):
        digest.update((repr(str(value)) if isinstance(value, str) else str(value)).encode() + b";")
    elif isinstance(value, (float, np.floating)):
        digest.update(np.float64(value).tobytes())
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject and value.dtype.names is None:
        digest.update(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, np.ndarray):
        feed(digest, value.tolist())
    elif sparse.issparse(value):
        feed(digest, [value.shape, value.data, value.indices, value.indptr])
    elif isinstance(value, dict):
        feed(digest, sorted(([repr(key), part] for key, part in value.items()), key=lambda pair: pair[0]))
    elif isinstance(value, (list, tuple)):
        digest.update(f"{len(value)}[".encode())
        for part in value:
            feed(digest, part)
    elif hasattr(value, "__dict__"):
        feed(digest, [part for name, part in vars(value).items() if name[0] != "_"])
    else:
        raise AssertionError(f"no hash for a {type(value)}")


# -------------------------------------------------------------------------------------------------------------- program


def differences(golden, now, numbers):
    """Yield the name of each cell that differs, and how."""
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


def table(outcomes):
    """Yield estimator, feature, other feature or question, outcome, place and text.

    What a pair refuses to answer has a line if both features alone answer it.
    """
    for name, parts in outcomes.items():
        estimator, _, features = name.partition(": ")
        first, _, second = features.partition(" x ")
        refused = {part: text[2:] for part, text in parts.items() if text[0] == "!" and part != "warnings"}
        if "fit" in refused:
            yield estimator, first, second, "refused", "fit", refused["fit"]
            continue
        yield estimator, first, second, "works", "", ""
        for part, text in refused.items():
            if not second:
                yield estimator, first, part, "refused", "answer", text
            elif not any(outcomes[f"{estimator}: {feature}"].get(part, "")[:1] == "!" for feature in (first, second)):
                yield estimator, first, second, "refused", part, text


def main():
    """Make a golden file, compare one, or print what goes with what."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", choices=["make", "compare", "table"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--only", default="", help="regular expression of cells")
    parser.add_argument("--numbers", action="store_true", help="leave texts out of the comparison")
    parser.add_argument("--n-jobs", type=int, help="number of threads")
    options = parser.parse_args()
    stored = []
    for file in options.files if options.task != "make" else []:
        with open(file, encoding="utf-8") as stream:
            stored.append({name: parts for name, parts in json.load(stream).items() if re.search(options.only, name)})
    if len(stored) < 1 + (options.task == "compare"):
        stored.append({name: outcome(*cell, options.n_jobs) for name, *cell in cells(options.only)})
    if options.task == "table":
        for row in table(stored[0]):
            print(*(text.replace("\n", " ") for text in row), sep="\t")
    elif options.task == "make":
        with open(options.files[0], "w", encoding="utf-8") as stream:
            json.dump(stored[0], stream, separators=(",", ":"))
        n_refused = sum("fit" in parts for parts in stored[0].values())
        print(f"{len(stored[0])} cells: {len(stored[0]) - n_refused} work, {n_refused} are refused")
    else:
        found = list(differences(*stored, options.numbers))
        for name, told in found:
            print(name, *told, sep="\n   ")
        print(f"{len(found)} of {len(stored[0])} cells differ")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()

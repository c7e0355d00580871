"""Small models of every kind, for the laws of ``test_model_laws``, and all labellings of their sequences.

A *kind* is an estimator with training data and with new sequences, which are so short that all their labellings can be
listed. ``segment_oracle`` computes the scores of these labellings from the public attributes of the fitted estimator;
it treats the labels of a chain as segments of length 1. The parameters of the estimators are set here, not in the laws.
"""

import atexit
import copy
import itertools
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import feature_definitions
import numpy as np
import segment_oracle as so
from cases import of_history
from internals import FitSteps, SequenceBatch, pattern_labels

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.training import SGD

LETTERS = {"bio": "BI", "iob1": "BI", "bioes": "BIES", "bilou": "BILU", "bmes": "BMES"}
SCHEMES = ["runs", "bio", "bioes", "bilou", "segments"]
STREAM = {"solver": SGD(), "random_state": 0, "max_iter": 100}  # trains on streams

# --- segments and what y has for them -------------------------------------------------------------------------------


def tags_of(segmentation, scheme):
    """Return the tag of each token for a list of (start, stop, label)."""
    tags, before = [], None
    for start, stop, label in segmentation:
        if label == "O":
            tags.append("O")
        elif scheme == "iob1":
            tags += [f"{'B' if label == before else 'I'}-{label}"] + [f"I-{label}"] * (stop - start - 1)
        elif len(LETTERS[scheme]) == 2:
            tags += [f"B-{label}"] + [f"I-{label}"] * (stop - start - 1)
        elif stop - start == 1:
            tags.append(f"{LETTERS[scheme][3]}-{label}")
        else:
            begin, inside, end = LETTERS[scheme][:3]
            tags += [f"{begin}-{label}", *[f"{inside}-{label}"] * (stop - start - 2), f"{end}-{label}"]
        before = label
    return tags


def written(segmentation, scheme):
    """Return a list of (start, stop, label) in the form that y has in a scheme; None: the labels of tokens."""
    if scheme == "segments":
        return list(segmentation)
    if scheme in ("runs", None):
        return [label for start, stop, label in segmentation for _ in range(start, stop)]
    return tags_of(segmentation, scheme)


def fits(entry, label):
    return entry is None or (label in entry if isinstance(entry, (set, frozenset)) else label == entry)


def hide(rng, label, others):
    """Return partial knowledge of a label: the label itself, a set that contains it, or None."""
    kind = rng.integers(4)
    if kind == 0:
        return label
    if kind == 1:
        return {label, *rng.choice(others, rng.integers(1, len(others) + 1)).tolist()}
    return None


def hide_segments(rng, segments, others):
    """Return partial knowledge of segments: some of them, and some of these without their labels."""
    known = [(u, v, hide(rng, label, others)) for u, v, label in segments if rng.random() < 0.6]
    return [(u, v, None if isinstance(label, set) else label) for u, v, label in known]


def hide_tag(rng, tag):
    """Return partial knowledge of a tag: the tag itself, or None."""
    return tag if rng.integers(5) < (3 if tag == "O" else 1) else None


# --- data -----------------------------------------------------------------------------------------------------------

NAMES = "PQ"


def draw_segments(rng, n_tokens):
    """Return random (start, stop, label), without equal neighbours; inner segments with the label Q have two tokens."""
    segments, start = [], 0
    while start < n_tokens:
        others = [label for label in "OPQ" if not segments or label != segments[-1][2]]
        label = str(rng.choice(others))
        length = {"O": 1, "P": int(rng.integers(1, 4)), "Q": 2}[label]
        segments.append((start, min(n_tokens, start + length), label))
        start = segments[-1][1]
    return segments


RNG = np.random.default_rng(3)
SEGMENTS = [draw_segments(RNG, n) for n in (7, 3, 1, 6, 5, 4, 8, 2, 6, 5)]
WORDS = [
    [str(RNG.choice(["a", "b"] if label == "O" else ["c", "d", "a"])) for u, v, label in s for _ in range(u, v)]
    for s in SEGMENTS
]
NEW = [["a", "c", "new"], ["d"], ["c", "a"], ["b", "d", "d", "a"]]


def attributes(words):
    """Return attributes of tokens: two that always occur together, one in most tokens, and one that is repeated."""
    return [[f"w={w}", f"t={w}", "on", *(["twice"] * 2 if w == "d" else [])] for w in words]


def numbers(words):
    """Return feature dicts with numbers."""
    return [{"w": w, "size": "abcd".find(w) - 0.5, "first": t == 0} for t, w in enumerate(words)]


def table(words, scale=1.0):
    """Return an array of which hardly any number is 0."""
    return scale * np.array([["abcd".find(w) - 0.5, 1.0, (t % 3) - 1.25] for t, w in enumerate(words)])


@cache
def extractor(kind):
    """Return a fitted extractor of features of words."""
    steps = [SequenceFeatureExtractor([("w", 0)], n_features=16 if kind == "hashed" else None)]
    if kind == "segments":
        places = {"begin": True, "inside": True, "tags": {"II": True}}
        steps.append(SegmentFeatureExtractor(**places, length="capped", scheme="bio"))
    return make_pipeline(*steps).fit(WORDS, [written(s, "bio") for s in SEGMENTS])


@cache
def mapped(words):
    """Return a batch whose arrays are in files."""
    folder = f"{tempfile.mkdtemp()}/batch"
    atexit.register(shutil.rmtree, Path(folder).parent, ignore_errors=True)
    batch = extractor("tokens").transform(words)
    batch.save(folder)
    return SequenceBatch.load(folder)


READERS = {
    "attributes": lambda X: [attributes(words) for words in X],
    "numbers": lambda X: [numbers(words) for words in X],
    "table": lambda X: [table(words) for words in X],
    "hashed": lambda X: extractor("hashed").transform(X),
    "segments": lambda X: extractor("segments").transform(X),
    "mapped": lambda X: mapped(tuple(map(tuple, X))),
}


def with_missing_labels(y, scheme):
    """Return y with missing labels in all but the first two sequences and, for models of tokens, sets of labels."""
    rng = np.random.default_rng(5)
    hidden = []
    for labels in y[2:]:
        if scheme == "segments":
            hidden.append(hide_segments(rng, labels, list("OPQ")))
        elif scheme == "tags":
            hidden.append([hide(rng, label, ["B-P", "I-P", "O"]) for label in labels])
        else:
            hidden.append([hide_tag(rng, tag) for tag in labels])
    return [*y[:2], *hidden]


# --- kinds ----------------------------------------------------------------------------------------------------------


def parts_of(label):
    """Return the parts of a label; this function can be pickled."""
    return label.split("-")


def follow_tags(labels):
    """Return whether tags follow each other as in BIO."""
    before = ["O", *labels]
    return all(b[0] != "I" or (a != "O" and a[2:] == b[2:]) for a, b in itertools.pairwise(before))


RULES = Constraints(forbid=[("P", "Q", "P"), ("Q", "P", "O")], start=["O", "P"])


def follow_rules(labels):
    """Return whether the labels of segments satisfy ``RULES``."""
    return labels[0] in RULES.start and all(labels[i : i + 3] not in RULES.forbid for i in range(len(labels)))


NO_STAY = Constraints(forbid=[("B-P", "B-P"), ("O", "I-P"), ("I-P", "B-Q", "O")], end=["O", "B-P", "I-P", "B-Q", "I-Q"])


def follow_segments(labels):
    """Return whether runs of labels, and neighbouring equal labels, satisfy ``NO_STAY``."""
    runs = [label for label, _ in itertools.groupby(labels)]
    found = {*itertools.pairwise(labels), *zip(runs, runs[1:], runs[2:], strict=False)}
    return found.isdisjoint(NO_STAY.forbid)


class Kind(NamedTuple):
    """An estimator, and the words and segments of its training data."""

    estimator: Any  # not fitted
    reader: str = "attributes"
    partial: bool = False
    legal: Any = None  # of the labels of all segments
    scale: float = 1.5  # of random weights
    without: tuple = ()  # what it is not made for: "stream", "minibatches", "search", "hessp", "likelihood"
    words: list = WORDS
    segments: list = SEGMENTS

    @property
    def scheme(self):
        return getattr(self.estimator, "scheme", None)

    def X(self, words=None):
        return READERS[self.reader](self.chosen(self.words) if words is None else words)

    def y(self):
        y = [written(s, self.scheme or "bio") for s in self.chosen(self.segments)]
        return with_missing_labels(y, self.scheme or "tags") if self.partial else y

    def chosen(self, data):
        """Return the part of training data that satisfies the rules."""
        if self.legal is not follow_rules:
            return data
        return [part for part, s in zip(data, self.segments, strict=True) if s[0][2] in RULES.start]

    def fit(self, **parameters):
        """Return the fitted estimator, without warnings of solvers that have not converged."""
        with warnings.catch_warnings(action="ignore"):
            return copy.deepcopy(self.estimator).set_params(**parameters).fit(self.X(), self.y())


def crf(*args, **params):
    return HighOrderCRF(*args, **{"random_state": 0, **params})


def semi(*args, **params):
    return HighOrderSemiCRF(*args, **{"random_state": 0, "scheme": "bio", **params})


GROUPS = {("features", 0): 2.0, "w=": 0.5, ("w=c", 1): 0.3, ("patterns", 1): 4.0, None: 1.0}
BY_L1 = {"t=": 0.15, ("patterns", 2): 0.4, None: 0.05}
PAIRS = {"on": (0, 1), "w=": 1}
UNLIMITED_PAIRS = {"begin:": 1, "inside:": (0, 1), "length": (0, 1)}
# candidates depend on weights of sequences, and on what is known
PARTIAL = ("stream", "minibatches", "search", "hessp")
PRUNED = ("stream", "minibatches", "hessp", "search", "weights", "known")
KINDS = {
    "chain": Kind(crf(), "numbers"),
    "order 0": Kind(crf(0)),
    "order 3": Kind(crf(3, feature_order=PAIRS, all_pairs=True)),
    "scheme": Kind(crf(2, constraints="bio"), legal=follow_tags),
    "parts": Kind(crf(2, label_parts=parts_of)),
    "pruned": Kind(crf(2, pruning=3), without=PRUNED),
    "pruned parts": Kind(crf(1, pruning=3, label_parts=parts_of), without=PRUNED),
    "l1": Kind(crf(2, l1_reg=0.3, feature_order=1)),
    "groups": Kind(crf(2, sigma_reg=GROUPS, feature_order={"w=": 1})),
    "groups of l1": Kind(crf(2, l1_reg=BY_L1, sigma_reg=GROUPS, constraints="bio"), legal=follow_tags),
    "dense": Kind(crf(2, feature_order=1), "table"),
    "dense parts": Kind(crf(1, label_parts=parts_of, l1_reg=0.05), "table"),
    "missing labels": Kind(crf(2, constraints="bio"), partial=True, legal=follow_tags, without=PARTIAL),
    "log space": Kind(crf(2, feature_order=1), scale=200.0),
    "history": Kind(crf(3, history="segments", feature_order=PAIRS, all_pairs=True)),
    "history of parts": Kind(
        crf(2, history="segments", constraints=NO_STAY, label_parts=parts_of),
        partial=True,
        legal=follow_segments,
        without=PARTIAL,
    ),
    "history of groups": Kind(crf(2, history="segments", sigma_reg=GROUPS)),
    "history of l1": Kind(crf(2, history="segments", l1_reg=0.3, feature_order=1, patterns="all"), "table"),
    "history in log space": Kind(crf(2, history="segments", constraints=NO_STAY), legal=follow_segments, scale=200.0),
    "hashed": Kind(crf(), "hashed"),
    "mapped": Kind(crf(2), "mapped"),
    "no intercept": Kind(crf(2, fit_intercept=False, patterns="all")),
    "matching": Kind(
        crf(1, objective="local_feature_matching"), without=("search", "stream", "hessp", "likelihood", "parts")
    ),
    "segments": Kind(semi(2)),
    "runs": Kind(semi(1, scheme="runs"), "numbers"),
    "lists": Kind(semi(2, scheme="segments", segment_length={"P": 3, "Q": 4})),
    "bioes": Kind(semi(1, scheme="bioes", segment_length={"Q": (2, 3)})),
    "bilou": Kind(semi(1, scheme="bilou", segment_length={"P": 4})),
    "unlimited": Kind(semi(1, scheme="runs", segment_length=np.inf)),
    "unlimited features": Kind(semi(2, segment_length=np.inf, feature_order=UNLIMITED_PAIRS), "segments"),
    "unlimited missing labels": Kind(
        semi(2, scheme="bioes", segment_length={"P": np.inf, "Q": 5}),
        partial=True,
        without=PARTIAL,
    ),
    "unlimited in log space": Kind(
        semi(2, scheme="runs", segment_length=np.inf, constraints=RULES), legal=follow_rules, scale=200.0
    ),
    "high order": Kind(semi(3, feature_order=PAIRS, all_pairs=True)),
    "features": Kind(semi(2, feature_order={"begin:": 1, "length": (0, 1)}), "segments"),
    "segment rules": Kind(semi(2, scheme="runs", constraints=RULES), legal=follow_rules),
    "segment l1": Kind(semi(2, l1_reg=0.3, feature_order=1)),
    "segment groups": Kind(semi(2, sigma_reg=GROUPS)),
    "segment dense": Kind(semi(1), "table"),
    "segment missing labels": Kind(semi(1), partial=True, without=PARTIAL),
    "missing labels in lists": Kind(semi(1, scheme="segments", segment_length=4), partial=True, without=PARTIAL),
    "segment log space": Kind(semi(2, feature_order=1), scale=200.0),
    "segment matching": Kind(
        semi(1, objective="local_feature_matching"), without=("search", "stream", "hessp", "likelihood", "parts")
    ),
}


@cache
def fitted(name):
    """Return the fitted estimator of a kind, which callers must not change."""
    return KINDS[name].fit()


@cache
def asked(name):
    """Return the estimator with random weights, large ones for kinds in log space; callers must not change it."""
    estimator = copy.deepcopy(fitted(name))
    w = KINDS[name].scale * np.random.default_rng(0).normal(size=len(estimator._state.weights))
    estimator._state._replace(weights=w).set_on(estimator)
    return estimator


def problem_of(estimator, X, y, sample_weight=None):
    """Return the training problem of data, before any weight is removed from its layout."""
    steps = FitSteps(estimator)
    return steps.problem(steps.read(X, y, sample_weight))


def kept(estimator):
    """Return the weights of a fitted estimator, in the layout of its training problem."""

    def of(problem, labels):
        layout = problem.layout
        row_of = {z: i for i, z in enumerate(pattern_labels(layout.patterns, np.array(labels)))}
        rows = [row_of[z] for z in estimator.patterns_]
        pattern_coef, coef = np.zeros(len(row_of)), np.zeros((len(row_of), layout.n_features))
        pattern_coef[rows], coef[rows] = estimator.pattern_coef_, estimator.coef_.toarray()
        return layout.weights(
            pattern_coef, coef, *(getattr(estimator, name, None) for name in ("part_coef_", "token_intercept_"))
        )

    return of


# --- all labellings of a sequence -----------------------------------------------------------------------------------

TOKENS = -1  # the feature that counts the tokens of a segment


def limits_of(estimator):
    """Return the highest and the lowest length of the segments of each label."""
    labels = labels_of(estimator)
    if isinstance(estimator, HighOrderCRF):
        return (1,) * len(labels), ()
    shortest, longest = zip(*(estimator.segment_length_[label] for label in labels), strict=True)
    return longest, shortest


def labels_of(estimator):
    return getattr(estimator, "segment_labels_", estimator.classes_).tolist()


def model_of(estimator):
    """Return the oracle's model with the weights of a fitted estimator, from the estimator's public attributes."""
    labels = labels_of(estimator)
    code = {label: i for i, label in enumerate(labels)}
    rows = [tuple(code[label] for label in z) for z in estimator.patterns_]
    coef = estimator.coef_.toarray()
    parts = list(getattr(estimator, "label_parts_", []))
    for label in labels if parts else ():
        for part in {*estimator.label_parts(label)} & {*parts}:
            coef[rows.index((code[label],))] += estimator.part_coef_.toarray()[parts.index(part)]
    features = {(f, z): float(coef[row, f]) for row, z in enumerate(rows) for f in np.flatnonzero(coef[row]).tolist()}
    features |= {(TOKENS, (y,)): float(w) for y, w in enumerate(getattr(estimator, "token_intercept_", []))}
    longest, shortest = limits_of(estimator)
    repeats = getattr(estimator, "scheme", None) != "runs"
    patterns = dict(zip(rows, estimator.pattern_coef_.tolist(), strict=True))
    return so.Model(len(labels), longest, repeats, patterns, features, shortest, history_of(estimator))


def history_of(estimator):
    """Return the ``history`` of the oracle's model."""
    return getattr(estimator, "history", "tokens")


def some_patterns(estimator):
    """Return the last two patterns of a model, and other patterns of three labels that can occur."""
    longer = of_history([*itertools.product(labels_of(estimator)[:2], repeat=3)], history_of(estimator))
    return [*estimator.patterns_[-2:], *longer]


def sequence_of(kind, estimator, words):
    """Return a sequence in the form of the oracle, from the definitions of features."""
    names, X = getattr(estimator, "feature_names_in_", None), kind.X([words])
    if kind.reader == "segments":
        rows = [{f"w[0]={word}": 1.0} for word in words]
    elif isinstance(X, SequenceBatch):
        rows, names = [dict(enumerate(row)) for row in X.toarray().tolist()], None
    else:
        rows = [feature_definitions.row_of(token) for token in (X[0].tolist() if names is None else X[0])]
    names = range(estimator.n_features_in_) if names is None else names.tolist()

    @cache
    def value(feature, u, v):
        if feature == TOKENS:
            return float(v - u)
        name, at = names[feature], range(u, v)
        if kind.reader == "segments":
            if name.startswith("length"):
                return feature_definitions.length_value(name, v - u)
            place, _, rest = name.rpartition(":")
            name, at = rest, feature_definitions.positions(place, "bio", u, v, len(words))
        return sum(rows[t].get(name, 0.0) for t in at)

    return so.Sequence(len(words), value)


class Labellings:
    """All possible labellings of a sequence, as segments and in the form of y, and their log-probabilities.

    ``chosen`` are labels of tokens, if it is known that they include all possible labellings.
    """

    def __init__(self, kind, estimator, words, chosen=None):
        self.kind, self.estimator, self.words = kind, estimator, words
        labels, model, sequence = labels_of(estimator), model_of(estimator), sequence_of(kind, estimator, words)
        if chosen is None:
            scores = so.scores(model, sequence)
        else:
            codes = [so.tokenwise(map(labels.index, of)) for of in chosen]
            scores = {s: so.score(model, sequence, s) for s in codes}
        every = [([(u, v, labels[y]) for u, v, y in s], score) for s, score in scores.items()]
        if kind.legal is not None:
            every = [(s, score) for s, score in every if kind.legal(tuple(label for *_, label in s))]
        self.y = [written(s, kind.scheme) for s, _ in every]
        if getattr(estimator, "pruning", None):  # which labels are left out is level 0's affair
            found = estimator.log_likelihood(self.X(len(every)), self.y)
            every = [one for one, log_p in zip(every, found, strict=True) if log_p > -np.inf]
            self.y = [written(s, kind.scheme) for s, _ in every]
        self.segments, self.scores = [s for s, _ in every], np.array([score for _, score in every])
        self.log_p = self.scores - np.logaddexp.reduce(self.scores)
        self.tolerance = 1e-12 * max(1.0, np.abs(self.scores).max(initial=0.0)) + 1e-11

    def X(self, n):
        """Return the sequence n times."""
        return self.kind.X([self.words] * n)

    def given(self, agrees):
        """Return the probability of each labelling, given that the labelling is one of those that agree."""
        return np.exp(np.where(agrees, self.log_p - np.logaddexp.reduce(self.log_p[agrees]), -np.inf))

    def draw_known(self, rng):
        """Return partial knowledge of a random labelling, and which labellings agree with it."""
        scheme, number = self.kind.scheme, int(rng.integers(len(self.y)))
        truth, others = self.y[number], sorted({label for s in self.segments for *_, label in s})
        if scheme == "segments":  # what is between them is free
            known = hide_segments(rng, truth, others)
            agrees = [
                all(any((u, v) == s[:2] and fits(entry, s[2]) for s in segments) for u, v, entry in known)
                for segments in self.segments
            ]
            return known, np.array(agrees)
        if scheme in LETTERS:
            known = [hide_tag(rng, tag) for tag in truth]
        else:
            known = [hide(rng, label, others) for label in truth]
            if scheme == "runs":
                known = [None if isinstance(label, set) else label for label in known]
        return known, np.array([all(map(fits, known, labels)) for labels in self.y])

    def token_table(self, probability):
        """Return the probability of each class at each token, from one or many rows of probabilities of labellings."""
        classes = self.estimator.classes_
        labels = [written(s, "runs") for s in self.segments] if self.kind.scheme == "segments" else self.y
        return np.tensordot(probability, np.array(labels, classes.dtype)[:, :, None] == classes, 1)

    def segment_table(self, probability):
        """Return {segment: probability in each row}; with tags, tokens outside segments are not segments."""
        answer = {}
        for segments, p in zip(self.segments, probability.T, strict=True):
            for segment in segments:
                if segment[2] != "O" or self.kind.scheme not in LETTERS:
                    answer[segment] = answer.get(segment, 0.0) + p
        return answer

    def pattern_table(self, patterns, probability):
        """Return the probability that a segment ends at each token that ends each pattern."""
        ends = np.zeros((len(self.segments), len(self.words), len(patterns)))
        history = history_of(self.estimator)
        for of_labelling, segments in zip(ends, self.segments, strict=True):
            for i, (_, stop, _) in enumerate(segments):
                ending = so.patterns_ending(segments, i, history)
                of_labelling[stop - 1] = [z in ending for z in patterns]
        return np.tensordot(probability, ends, 1)


@cache
def labellings(name, number):
    """Return the labellings of a new sequence of a kind by its estimator with random weights."""
    return Labellings(KINDS[name], asked(name), NEW[number])


# --- parameters -----------------------------------------------------------------------------------------------------


def value_for(given, name, order):
    """Return a parameter's value for a weight, or None, by the first rule that applies.

    If ``name`` is None, the weight belongs to a pattern.
    """
    if not isinstance(given, dict):
        return given
    if name is None:
        return given.get(("patterns", order), given.get(None))
    for stop in range(len(str(name)), -1, -1):
        prefix = str(name)[:stop]
        if prefix not in ("features", "patterns") and (prefix, order) in given:
            return given[prefix, order]
        if prefix in given:
            return given[prefix]
    return given.get(("features", order), given.get(None))


def values_of(given, layout, names):
    """Return a parameter's value for each weight of a layout."""
    n_patterns, lengths = len(layout.patterns.lengths), layout.patterns.lengths
    order = np.where(layout.pair_pattern < n_patterns, lengths[np.minimum(layout.pair_pattern, n_patterns - 1)] - 1, 0)
    values = [value_for(given, names[f], k) for f, k in zip(layout.pair_feature, order.tolist(), strict=True)]
    return values + [value_for(given, None, lengths[z] - 1) for z in [*layout.token_labels, *layout.bias_pattern]]


def has_l1(estimator):
    return bool(np.any(list(estimator.l1_reg.values()) if isinstance(estimator.l1_reg, dict) else estimator.l1_reg))


def rename(value, swap):
    """Return labels, or nested containers of labels, with other names."""
    if isinstance(value, str):
        return value.translate(swap)
    if isinstance(value, dict):
        return {rename(key, swap): rename(part, swap) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(rename(part, swap) for part in value)
    return value


def renamed(estimator, swap):
    """Return the parameters that contain labels, with other names."""
    params = {}
    for name in ("segment_length", "constraints"):
        given = getattr(estimator, name, None)
        if isinstance(given, Constraints):
            params[name] = Constraints(**rename(given.get_params(), swap))
        elif isinstance(given, dict):
            params[name] = rename(given, swap)
    return params

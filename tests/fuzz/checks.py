"""What must be true of a case: the answer is right, or a documented exception says what is wrong.

Each check takes a case and returns "right", or "refused: <exception>" where a refusal is documented. Everything else, a
wrong answer, another exception, a warning of numpy or a changed input, is a ``Finding``.
"""

import copy
import gzip
import io
import itertools
import math
import pickle
import re
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import segment_oracle as so
from cases import of_history
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, SequenceBatch, datasets, metrics
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
    phrase_marks,
)
from sklearn_hocrf.model_selection import ConformalSequenceLabeler
from sklearn_hocrf.scores import predict_from_scores, sequence_log_likelihood
from sklearn_hocrf.training import SGD

from . import definitions as plain
from .builders import ATTRIBUTE_FORMS, LABELS, TABLES, build_sequence, build_X, build_y, flags_of, junk, same

RIGHT = "right"
DOCUMENTED = (ValueError, TypeError, NotFittedError)
QUIET = (UserWarning, ConvergenceWarning)  # warnings that are answers to users
MAX_MESSAGE = 400
PLACE = re.compile(r"(sequence|X\[|y\[|row|line|sentence)\D{0,3}\d+")


class Finding(AssertionError):
    """Something that must not be."""


def require(condition, message, *details):
    if not condition:
        raise Finding(": ".join([message, *(f"{detail!r:.300}" for detail in details)]))


def require_close(actual, expected, message, atol=1e-8, rtol=1e-7):
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    fits = actual.shape == expected.shape and np.allclose(actual, expected, rtol=rtol, atol=atol)
    require(fits, message, actual.tolist(), expected.tolist())


def refusal(error, place=False):
    """Return the outcome of a refusal, or raise if it is none that users can work with."""
    message = str(error)
    is_documented = isinstance(error, DOCUMENTED) and not isinstance(error, UnicodeError)
    if not is_documented:
        raise error
    require(message.strip(), "an exception without a message", type(error).__name__)
    is_ours = type(error).__name__ != "InvalidParameterError"  # scikit-learn prints the whole value of a parameter
    require(len(message) <= MAX_MESSAGE or not is_ours, "a message that is too long", len(message), message)
    require(not place or PLACE.search(message), "a message that names no place", type(error).__name__, message)
    kind = next(kind for kind in (NotFittedError, ValueError, TypeError) if isinstance(error, kind))
    return f"refused: {kind.__name__}"


def judge(name, case):
    """Return the outcome of a case; raise whatever is wrong with it."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        outcome = CHECKS[name](case)
    loud = [w for w in caught if not issubclass(w.category, QUIET)]
    require(not loud, "a warning that is no answer", *(f"{w.category.__name__}: {w.message}" for w in loud[:1]))
    return outcome


class Unchanged:
    """Raises if what it was given is not the same at the end of the block."""

    def __init__(self, *given):
        self._given = given
        self._before = copy.deepcopy(given)
        self._flags = flags_of(given)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        require(same(self._given, self._before), "an input was changed", self._before, self._given)
        require(self._flags == flags_of(self._given), "an array of the input was made read-only")


# --- fitted models against enumeration ------------------------------------------------------------------------------


TOKENS = -1  # the feature that counts the tokens of a segment


class Data(NamedTuple):
    """Sequences as the oracle takes them; features are columns, labels are codes."""

    lengths: list
    values: list  # {(feature, u, v): value}, zeros left out
    gold: list  # segmentations: tuples of (u, v, code)

    def sequences(self):
        pairs = zip(self.lengths, self.values, strict=True)
        return [so.Sequence(n, values | tokens_of_segments(n)) for n, values in pairs]


def tokens_of_segments(n):
    """Return the number of tokens of each segment of a sequence, as values of a feature."""
    return {(TOKENS, u, v): float(v - u) for u in range(n) for v in range(u + 1, n + 1)}


class Training(NamedTuple):
    """What the fit of a case is about, in plain terms."""

    data: Data
    times: list  # for each sequence, for each gold segment: {feature: number of tokens where it counts}
    weights: list  # of the sequences; 0: left out
    n_labels: int
    longest: tuple
    repeats: bool
    orders: list  # for each feature the orders of the patterns that it goes with
    token_labels: list
    has_token_weights: bool = True  # False: the length of a segment is a feature, and so the weight of its tokens


def chain(segmentation):
    return [y for _, _, y in segmentation]


def model_of(estimator, labels, training):
    """Return the oracle's model with the weights of a fitted estimator, from its public attributes."""
    code = {label: i for i, label in enumerate(labels)}
    rows = [tuple(code[label] for label in z) for z in estimator.patterns_]
    coef = estimator.coef_.tocoo()
    patterns = dict(zip(rows, estimator.pattern_coef_.tolist(), strict=True))
    triples = zip(coef.row.tolist(), coef.col.tolist(), coef.data.tolist(), strict=True)
    features = {(f, rows[z]): w for z, f, w in triples}
    features |= {(TOKENS, (y,)): float(w) for y, w in enumerate(getattr(estimator, "token_intercept_", []))}
    history = getattr(estimator, "history", "tokens")
    return so.Model(training.n_labels, training.longest, training.repeats, patterns, features, (), history)


def expected_weights(training, p, given_patterns):
    """Return the patterns and the (feature, pattern) pairs that have weights."""
    chains = [chain(segmentation) for segmentation in training.data.gold]
    singles, history = {(y,) for y in range(training.n_labels)}, p.get("history", "tokens")
    if p["patterns"] == "observed":
        patterns = plain.observed_patterns(chains, training.weights, p["max_order"], p["min_count"], history) | singles
    elif p["patterns"] == "all":
        patterns = set(singles)
        for _ in range(p["max_order"]):
            patterns |= {(*z, y) for z in patterns for y in range(training.n_labels)}
        patterns = {*of_history(patterns, history)}
    else:
        patterns = {*given_patterns, *singles}
    if not training.repeats:
        patterns = {z for z in patterns if all(a != b for a, b in zip(z, z[1:], strict=False))}
    counts = plain.pair_counts(training.times, chains, training.weights, patterns, history)
    least = p["min_count"]
    pairs = {pair for pair, count in counts.items() if count > 0 and (least <= 1 or count >= least)}
    if p["all_pairs"]:
        pairs = {(f, z) for f in range(len(training.orders)) for z in patterns}
    pairs = {(f, z) for f, z in pairs if len(z) - 1 in training.orders[f]}
    if training.n_labels > 1 and p["fit_intercept"] and training.has_token_weights:
        pairs |= {(TOKENS, (y,)) for y, most in enumerate(training.longest) if most > 1}
    return patterns, pairs


def check_optimum(estimator, training, p, labels, number, converged):
    """Compare what was trained with the objective and its gradient by enumeration; return the oracle's model."""
    model, given_patterns = model_of(estimator, labels, training), by_code(p["patterns"], number)
    patterns, pairs = expected_weights(training, p, given_patterns)
    if np.any(p["l1_reg"]):
        require(set(model.patterns) <= patterns, "patterns that should not be there", set(model.patterns) - patterns)
    else:
        require(set(model.patterns) == patterns, "other patterns than there are", set(model.patterns) ^ patterns)
    surplus = {pair for pair, w in model.features.items() if w} - pairs
    require(not surplus, "weights of pairs that should have none", surplus)
    keys = [("pattern", z) for z in sorted(patterns) if len(z) > 1 or p["fit_intercept"]]
    keys += [("pair", pair) for pair in sorted(pairs)]
    value, gradient = 0.0, Counter()
    for sequence, gold, weight in zip(training.data.sequences(), training.data.gold, training.weights, strict=True):
        if weight:
            probability = so.distribution(model, sequence)
            value -= weight * math.log(probability[gold])
            add_counts(gradient, [(weight * q, s) for s, q in probability.items()], sequence, model.history)
            add_counts(gradient, [(-weight, gold)], sequence, model.history)
    w, g, strength, precisions = [], [], [], []
    for kind, key in keys:
        w.append((model.patterns if kind == "pattern" else model.features).get(key, 0.0))
        order = len(key if kind == "pattern" else key[1]) - 1
        group = "features" if kind == "pair" and key[0] != TOKENS else "patterns"
        precision = plain.by_order(p["sigma_reg"], order, group) ** -2.0
        strength.append(plain.by_order(p["l1_reg"], order))
        value += precision * w[-1] ** 2 / 2 + strength[-1] * abs(w[-1])
        g.append(gradient[kind, key] + precision * w[-1])
        precisions.append(precision)
    require_close(estimator.objective_history_[-1], value, "objective_history_ is not the objective", 1e-7, 1e-7)
    steepest, precisions = plain.shortest_subgradient(w, g, np.array(strength)), np.array(precisions)
    size, longest = float(np.linalg.norm(steepest)), max(1.0, float(np.linalg.norm(w)))
    rules = []  # the distance from the optimum, or an estimate of it, and the most that training leaves of it
    if precisions.all():
        rules.append((0.5 * float(steepest @ (steepest / precisions)), estimator.tol**2 * value))
    if any(strength):
        rules.append((2.0 * size * longest, estimator.tol * value))
    rules = rules or [(size, estimator.tol * longest)]
    ended = any(left <= 1.001 * most + 1e-7 for left, most in rules)
    require(not converged or ended, "not the optimum, and no warning", rules)
    return model


def add_counts(total, weighted, sequence, history):
    """Add the counts of patterns and pairs of weighted segmentations."""
    by_segment = {}
    for (f, u, v), value in sequence.values.items():
        by_segment.setdefault((u, v), []).append((f, value))
    for weight, segmentation in weighted:
        for i, (u, v, _) in enumerate(segmentation):
            for z in so.patterns_ending(segmentation, i, history):
                total["pattern", z] += weight
                for f, value in by_segment.get((u, v), ()):
                    total["pair", (f, z)] += weight * value


def as_lists(answer, form):
    """Return an answer that has the shape of X as a list of one list per sequence."""
    answer = answer if isinstance(answer, list) else answer.tolist()
    lists = [[row] for row in answer] if form in TABLES else answer
    return [part if isinstance(part, list) else part.tolist() for part in lists]


def read_prediction(part, scheme, singles):
    """Return the (u, v, label) of one predicted sequence."""
    if scheme == "segments":
        return tuple(tuple(segment) for segment in part)
    if scheme in ("bio", "bioes"):
        return tuple(plain.spans(plain.segments_of_tags(part, scheme)))
    return tuple(plain.spans([(1, label) for label in part] if singles else plain.runs(part)))


def check_answers(estimator, model, labels, X, y, test, case, scheme="runs"):
    """Compare all answers about new sequences with enumeration."""
    form = getattr(case, "form", "lists")
    singles = scheme == "tokens" or scheme == "runs" and model.repeats
    require(set(map(type, estimator.classes_.tolist())) != {type(None)}, "classes_ of None")
    predicted = estimator.predict(X)
    predicted = predicted if scheme == "segments" else as_lists(predicted, form)
    marginals = as_lists(estimator.predict_marginals(X), form)
    likelihood = estimator.log_likelihood(X, y)
    asked = [z for z in estimator.patterns_][-2:] + [(labels[0], labels[-1], labels[0])]
    of_patterns = as_lists(estimator.pattern_marginals(X, asked), form)
    require(len(predicted) == len(test.lengths), "other number of answers than of sequences", predicted)
    code = {label: i for i, label in enumerate(labels)}
    for n, sequence in enumerate(test.sequences()):
        found = tuple((u, v, code[label]) for u, v, label in read_prediction(predicted[n], scheme, singles))
        top, ties = so.best_segmentations(model, sequence)
        require(found in ties, f"sequence {n}: not the best labelling", found, ties)
        probability = so.distribution(model, sequence)
        gold = test.gold[n]
        expected = math.log(probability[gold]) if probability.get(gold, 0.0) > 0 else -math.inf
        require_close(likelihood[n], expected, f"sequence {n}: log_likelihood", atol=1e-7)
        columns = estimator.classes_.tolist()
        expected = token_marginals(probability, columns, labels, sequence.length, scheme)
        require_close(np.reshape(marginals[n], (-1, len(columns))), expected, f"sequence {n}: marginals")
        codes = [tuple(code[label] for label in z) for z in asked]
        expected = so.pattern_marginals(probability, sequence.length, codes, model.history)
        expected = np.reshape(expected, (-1, len(asked)))
        require_close(np.reshape(of_patterns[n], (-1, len(asked))), expected, f"sequence {n}: pattern_marginals")


def token_marginals(probability, columns, labels, length, scheme):
    """Return P(token t has label or tag c), shape (T, C)."""
    table = np.zeros((length, len(columns)))
    bare = not any(isinstance(column, str) and column[1:2] == "-" for column in columns)
    for segmentation, p in probability.items():
        tokens = [label for u, v, y in segmentation for label in [labels[y]] * (v - u)]
        if scheme in ("bio", "bioes"):
            tokens = plain.tags([(v - u, labels[y]) for u, v, y in segmentation], scheme)
            tokens = tokens if bare else [tag if tag == "O" or "-" in tag else f"{tag}-_" for tag in tokens]
        for t, token in enumerate(tokens):
            table[t, columns.index(token)] += p
    return table


# --- chains ---------------------------------------------------------------------------------------------------------


def translate(p, names):
    """Return parameters with the user's labels in place of numbers."""
    p = dict(p)
    if isinstance(p.get("patterns"), list):
        p["patterns"] = [tuple(names[y] for y in z) for z in p["patterns"]]
    return p


def feature_orders(given, names, max_order):
    """Return the orders of each feature; the longest prefix counts."""

    def up_to(order):
        return tuple(range(min(order, max_order) + 1)) if isinstance(order, int) else order

    if not isinstance(given, dict):
        return [up_to(given)] * len(names)
    answer = []
    for name in names:
        prefix = max((p for p in given if name.startswith(p)), key=len, default=None)
        answer.append((0,) if prefix is None else up_to(given[prefix]))
    return answer


def token_rows(case):
    """Return {column: value} of training and test tokens, and the names of the columns."""
    train, test = ([[plain.row_of(token) for token in tokens] for tokens in X] for X in (case.tokens, case.test))
    if case.form not in ATTRIBUTE_FORMS:
        rows = [[[{f: float(x) for f, x in enumerate(t) if x} for t in s] for s in X] for X in (case.tokens, case.test)]
        return *rows, [f"x{i}" for i in range(case.width)]
    kept = [s for s, w in zip(case.tokens, weights_of(case), strict=True) if w]
    names = sorted({name for s in kept for token in s for name, amount in plain.entries(token) if amount})
    number = {name: i for i, name in enumerate(names)}
    train, test = (
        [[{number[f]: x for f, x in row.items() if f in number} for row in s] for s in X] for X in (train, test)
    )
    return train, test, names


def weights_of(case):
    sequences = case.tokens if hasattr(case, "tokens") else case.words
    return getattr(case, "weight", None) or [1] * len(sequences)


def sums(rows):
    """Return {(feature, u, v): sum of values} of all segments of a sequence."""
    values = {}
    for u in range(len(rows)):
        total = Counter()
        for v in range(u + 1, len(rows) + 1):
            total.update(rows[v - 1])
            values |= {(f, u, v): x for f, x in total.items() if x}
    return values


def token_times(rows, segmentation):
    """Return for each segment {feature: number of its tokens that have it}."""
    return [Counter(f for row in rows[u:v] for f in row) for u, v, _ in segmentation]


def lost_field(case):
    """Say whether test tokens lack a field that every training token had: a documented refusal."""
    train = [token for s, w in zip(case.tokens, weights_of(case), strict=True) if w for token in s]
    test = [token for s in case.test for token in s]
    if "dicts" not in getattr(case, "form", "dicts") or not train or not test:
        return False
    return bool(set.intersection(*map(set, train)) - set().union(*map(set, test)))


def fit(estimator, X, y, weight, must_refuse, may_refuse=False):
    """Fit; return the outcome of a refusal, or None and whether the solver converged."""
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        Unchanged(X, y, weight, estimator.get_params()),
    ):
        try:
            estimator.fit(X, y, sample_weight=weight)
        except DOCUMENTED as error:
            require(must_refuse or may_refuse, "good data were refused", type(error).__name__, str(error))
            require_unfitted(estimator)
            return refusal(error), False
    for w in caught:  # for the judge
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    require(not must_refuse, "accepted what cannot be", must_refuse)
    return None, not any(issubclass(w.category, ConvergenceWarning) for w in caught)


def require_unfitted(estimator):
    require(not any(name.endswith("_") for name in vars(estimator)), "a refused fit left fitted attributes")


def unusable(kept_labels, p, n_least=2):
    """Say why data and parameters must be refused, or return "" if they must not."""
    present = {y for labels in kept_labels for y in labels}
    if len(present) < n_least:
        return "too few labels"
    if isinstance(p.get("patterns"), list) and {y for z in p["patterns"] for y in z} - present:
        return "patterns of unknown labels"
    return ""


def kept(sequences, weights):
    return [s for s, w in zip(sequences, weights, strict=True) if w]


def check_chain(case):
    names, p, weights = LABELS[case.kind], case.parameters, weights_of(case)
    X = build_X(case.form, case.tokens, case.width)
    y = build_y([[names[i] for i in labels] for labels in case.labels], case.y_form, case.kind, case.form)
    present = sorted({i for labels in kept(case.labels, weights) for i in labels})
    estimator = HighOrderCRF(**translate(p, names))
    refused, converged = fit(estimator, X, y, case.weight, unusable(kept(case.labels, weights), p))
    if refused:
        return refused
    train_rows, test_rows, features = token_rows(case)
    labels, number = [names[i] for i in present], {i: code for code, i in enumerate(present)}
    require(estimator.classes_.tolist() == labels, "classes_", estimator.classes_.tolist(), labels)
    require(estimator.n_features_in_ == len(features), "n_features_in_", estimator.n_features_in_, features)
    if case.form in ATTRIBUTE_FORMS:
        require(list(estimator.feature_names_in_) == features, "names", list(estimator.feature_names_in_), features)
    gold = [tuple((t, t + 1, number.get(i, 0)) for t, i in enumerate(s)) for s in case.labels]
    training = Training(
        Data(
            [len(s) for s in case.tokens],
            [{(f, t, t + 1): x for t, r in enumerate(s) for f, x in r.items()} for s in train_rows],
            gold,
        ),
        [token_times(rows, s) for rows, s in zip(train_rows, gold, strict=True)],
        weights,
        len(present),
        (1,) * len(present),
        True,
        feature_orders(p["feature_order"], features, p["max_order"]),
        [chain(s) for s in gold],
    )
    model = check_optimum(estimator, training, p, labels, number, converged)
    codes = [[i % len(present) for i in s] for s in case.test_labels]
    test = Data(
        [len(s) for s in case.test],
        [{(f, t, t + 1): x for t, r in enumerate(s) for f, x in r.items()} for s in test_rows],
        [tuple((t, t + 1, i) for t, i in enumerate(s)) for s in codes],
    )
    X_test = build_X(case.form, case.test, case.width)
    y_test = build_y([[labels[i] for i in s] for s in codes], case.y_form, case.kind, case.form)
    return ask(
        lambda: check_answers(estimator, model, labels, X_test, y_test, test, case, "tokens"), case, X_test, y_test
    )


def ask(question, case, *given):
    """Compare answers, in which a lost field may be refused."""
    with Unchanged(*given):
        try:
            question()
        except DOCUMENTED as error:
            if hasattr(case, "form") and lost_field(case) and "field" in str(error):
                return refusal(error, place=True)
            raise Finding(f"good new data were refused: {type(error).__name__}: {error}") from error
    return RIGHT


def by_code(value, number):
    """Return patterns or class weights with codes in place of the numbers of labels."""
    if isinstance(value, list):
        return [tuple(number[i] for i in z) for z in value]
    return {number[i]: w for i, w in value.items() if i in number} if isinstance(value, dict) else value


# --- segments -------------------------------------------------------------------------------------------------------


def written(parts, names, scheme):
    """Return the y of one sequence of (length, label number) segments."""
    parts = [(length, names[i]) for length, i in parts]
    if scheme == "segments":
        return plain.spans(parts)
    if scheme in ("bio", "bioes"):
        return plain.tags(parts, scheme)
    return [label for length, label in parts for _ in range(length)]


def read_parts(parts, scheme):
    """Return the (length, label number) segments that y says: runs join neighbours."""
    return plain.runs([i for length, i in parts for _ in range(length)]) if scheme == "runs" else list(parts)


def longest_of(parts, names, scheme, given):
    """Return {label number: highest length of a segment} of training segments."""
    longest = {}
    for length, i in (part for s in parts for part in s):
        longest[i] = max(longest.get(i, 1), length)
    outside = names.index("O") if scheme in ("bio", "bioes") and "O" in names else None
    limits = given if isinstance(given, dict) else {} if given is None else dict.fromkeys(longest, given)
    return longest | {i: most for i, most in limits.items() if i != outside and i in longest}


class Segmentation(NamedTuple):
    """How the y of a case is to be read."""

    parts: list  # (length, code) of each sequence
    longest: tuple
    repeats: bool
    labels: list
    number: dict  # code by number of the label


def read_segmentation(case, scheme, names, weights, segment_length):
    """Return the segmentation of a case, or why it must be refused."""
    parts = [read_parts(s, scheme) for s in case.parts]
    used = kept(parts, weights)
    present = sorted({i for s in used for _, i in s})
    longest = longest_of(used, names, scheme, segment_length)
    given = segment_length if isinstance(segment_length, dict) else {}
    if set(given) - set(present):
        return "segment_length of unknown labels"
    if scheme in ("bio", "bioes") and any(names[i] == "O" and most != 1 for i, most in given.items()):
        return "longer segments of O"
    singles = scheme == "runs" and all(most == 1 for most in longest.values())
    if singles:
        parts = [[(1, i) for length, i in s for _ in range(length)] for s in parts]
    elif any(length > longest[i] for s in used for length, i in s):
        return "segments that are longer than the maximum"
    number = {i: code for code, i in enumerate(present)}
    coded = [[(length, number.get(i, 0)) for length, i in s] for s in parts]
    repeats = scheme != "runs" or singles
    return Segmentation(coded, tuple(longest[i] for i in present), repeats, [names[i] for i in present], number)


def check_segments(case):
    names, p, weights = LABELS[case.kind], case.parameters, weights_of(case)
    p = clean(p, names, case.scheme)
    X = build_X(case.form, case.tokens, case.width)
    y_form = case.y_form if case.scheme != "segments" or case.y_form == "tuples" else "lists"
    y = build_segments_y(case.parts, names, case.scheme, y_form, case)
    given = case.segment_length
    given = {names[i]: most for i, most in given.items() if i < len(names)} if isinstance(given, dict) else given
    numbered = {names.index(label): most for label, most in given.items()} if isinstance(given, dict) else given
    used = [[i for _, i in s] for s in kept(case.parts, weights)]
    least = 2 if case.scheme == "runs" else 1
    why = unusable(used, p, least)
    reading = why or read_segmentation(case, case.scheme, names, weights, numbered)
    estimator = HighOrderSemiCRF(scheme=case.scheme, segment_length=given, **translate(p, names))
    refused, converged = fit(estimator, X, y, case.weight, reading if isinstance(reading, str) else "")
    if refused:
        return refused
    train_rows, test_rows, features = token_rows(case)
    gold = [tuple(plain.spans(s)) for s in reading.parts]
    values = [sums(rows) for rows in train_rows]
    times = [token_times(rows, s) for rows, s in zip(train_rows, gold, strict=True)]
    training = training_of(reading, values, gold, times, weights, p, features)
    require(estimator.segment_labels_.tolist() == reading.labels, "segment_labels_", estimator.segment_labels_)
    longest = dict(zip(reading.labels, reading.longest, strict=True))
    limits = {label: most for label, (_, most) in estimator.segment_length_.items()}
    require(all(min(limits[k], 10) == min(longest[k], 10) for k in longest), "segment_length_", limits, longest)
    model = check_optimum(estimator, training, p, reading.labels, reading.number, converged)
    parts = test_parts(case.test_parts, reading, case.scheme)
    test = Data([len(s) for s in case.test], [sums(rows) for rows in test_rows], [tuple(plain.spans(s)) for s in parts])
    X_test = build_X(case.form, case.test, case.width)
    y_test = build_segments_y(parts, reading.labels, case.scheme, y_form, case)
    return ask(
        lambda: check_answers(estimator, model, reading.labels, X_test, y_test, test, case, case.scheme),
        *(case, X_test, y_test),
    )


def clean(p, names, scheme):
    """Return parameters without numbers of labels that there are not, as "bare" has only two."""
    p = dict(p)
    if isinstance(p["patterns"], list):
        p["patterns"] = [z for z in p["patterns"] if max(z) < len(names)]
    return p


def build_segments_y(parts, names, scheme, y_form, case):
    sequences = [written([(length, i % len(names)) for length, i in s], names, scheme) for s in parts]
    if scheme == "segments":
        return [build_sequence(s, y_form) for s in sequences]
    return build_y(sequences, y_form, case.kind, case.form)


def training_of(reading, values, gold, times, weights, p, features):
    tokens = [[y for u, v, y in s for _ in range(u, v)] for s in gold]
    orders = feature_orders(p["feature_order"], features, p["max_order"])
    lengths = [s[-1][1] for s in gold]
    data, labels = Data(lengths, values, gold), len(reading.labels)
    has_token_weights = not any(name == "length" and 0 in own for name, own in zip(features, orders, strict=True))
    shapes = reading.longest, reading.repeats
    return Training(data, times, weights, labels, *shapes, orders, tokens, has_token_weights)


def test_parts(parts, reading, scheme):
    """Return test segments with the labels that there are, as codes; O is one token, runs join."""
    outside = reading.labels.index("O") if scheme in ("bio", "bioes") and "O" in reading.labels else None
    answer = []
    for s in parts:
        coded = [(length, i % len(reading.labels)) for length, i in s]
        expansions = [[(1, y)] * n if y == outside else [(n, y)] for n, y in coded]
        flat = read_parts([part for expansion in expansions for part in expansion], scheme)
        if scheme == "runs" and reading.repeats:
            flat = [(1, y) for n, y in flat for _ in range(n)]
        answer.append(flat)
    return answer


# --- features of segments -------------------------------------------------------------------------------------------


def lengths_and_first(tokens, starts, stops):
    """Return values of segments, as a function of users would."""
    n = stops - starts
    return {"n": n, "first": tokens[starts], "even": n % 2 == 0, "none": [None] * len(n)}


def chosen(choice, name):
    return choice is True or (choice != () and name.startswith(choice))


def numbered(names):
    """Return names of which those that were there before have the first free of "#2", "#3" ... after them."""
    answer = []
    for name in names:
        free = (f"{name}#{k}" for k in range(2, 2 + len(names)) if f"{name}#{k}" not in {*names, *answer})
        answer.append(next(free) if name in answer else name)
    return answer


def check_pipeline(case):
    names = LABELS[case.kind]
    p = clean(case.parameters, names, case.scheme)
    reading = read_segmentation(case, case.scheme, names, weights_of(case), None)
    y = [written(s, names, case.scheme) for s in case.parts]
    used = [[i for _, i in s] for s in case.parts]
    least = 2 if case.scheme == "runs" else 1
    if isinstance(reading, str) or len({i for s in used for i in s}) < least:
        return RIGHT  # check_segments looks at these
    tokens = SequenceFeatureExtractor([(("w", 0),), (("w", -1),)], bias=case.bias)
    steps = [tokens]
    for settings in case.extractors:
        options = settings | {"functions": [lengths_and_first] * settings["functions"], "scheme": case.scheme}
        steps.append(SegmentFeatureExtractor(**options))
    steps += [SegmentLogOddsEncoder(case.scheme, **settings) for settings in case.log_odds]
    with Unchanged(case.words, y, case.test):
        batch, test = case.words, case.test
        for step in steps:
            batch = step.fit_transform(batch, y)
        for step in steps:
            test = step.transform(test)
    blocks = expected_blocks(case, tokens, reading)
    features = numbered([name for name, _ in blocks])
    require(list(batch.feature_names) == features, "names of features", list(batch.feature_names), features)
    gold = [tuple(plain.spans(s)) for s in reading.parts]
    train_rows, test_rows = token_batches(tokens, case)
    tables = [segment_table(blocks, rows, case.words[n], n) for n, rows in enumerate(train_rows)]
    times = [
        [{f: k for f, (_, k) in table[u, v].items() if k} for u, v, _ in s]
        for table, s in zip(tables, gold, strict=True)
    ]
    estimator = HighOrderSemiCRF(scheme=case.scheme, **translate(p, names))
    refused, converged = fit(estimator, batch, y, None, unusable(used, p, least))
    if refused:
        return refused
    training = training_of(reading, list(map(values_of, tables)), gold, times, weights_of(case), p, features)
    model = check_optimum(estimator, training, p, reading.labels, reading.number, converged)
    values = [values_of(segment_table(blocks, *pair, None)) for pair in zip(test_rows, case.test, strict=True)]
    parts = test_parts([[(1, 0)] * len(s) for s in case.test], reading, case.scheme)
    data = Data([len(s) for s in case.test], values, [tuple(plain.spans(s)) for s in parts])
    y_test = [written(s, reading.labels, case.scheme) for s in parts]
    check_answers(estimator, model, reading.labels, test, y_test, data, case, case.scheme)
    return RIGHT


def spans_of(n):
    return [(u, v) for u in range(n) for v in range(u + 1, n + 1)]


def token_batches(extractor, case):
    """Return {name: value} of training and test tokens."""
    answer = []
    for X in case.words, case.test:
        batch = extractor.transform(X)
        table, names = batch.toarray(), extractor.get_feature_names_out()
        tokens = [{names[f]: row[f] for f in np.flatnonzero(row)} for row in table]
        bounds = np.cumsum([0, *map(len, X)])
        answer.append([tokens[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)])
    return answer


def expected_blocks(case, tokens, reading):
    """Return (name, function of rows, words, u, v and own sequence to (value, number of tokens)) of all features."""
    attributes = list(tokens.get_feature_names_out())
    gold = [(n, u, v, label) for n, s in enumerate(reading.parts) for u, v, label in plain.spans(s)]
    blocks = []
    for i, s in enumerate(case.extractors):
        if i == 0:
            blocks += at_place("", s["bag"], attributes)
        for place in ("begin", "end", "inside"):
            blocks += at_place(place, s[place], attributes)
        for ngram, choice in tag_choices(s).items():
            blocks += at_place(ngram, choice, attributes)
        blocks += length_blocks(s, gold) + text_blocks(s, case, gold)
    if not case.extractors:
        blocks += at_place("", None, attributes)
    for s in case.log_odds:
        blocks.append(log_odds_block(s, case, gold))
    return blocks


def at_place(place, choice, attributes):
    prefix = f"{place}:" if place else ""
    used = [
        name for name in attributes if (choice is None and not place) or (choice is not None and chosen(choice, name))
    ]

    def value_of(name):
        def value(rows, words, u, v, own):
            at = [rows[t].get(name, 0.0) for t in plain.positions(place, "bio", u, v, len(rows))]
            return sum(at), sum(x != 0 for x in at)

        return value

    return [(prefix + name, value_of(name)) for name in used]


def tag_choices(settings):
    presets = {"unigrams": ("B", "I"), "bigrams": ("B", "I", "BI", "II", "B|", "I|")}
    given = settings["tags"]
    return dict.fromkeys(presets[given], True) if isinstance(given, str) else given or {}


def once(function):
    """Return a value that counts once for a segment where it is not 0."""

    def value(rows, words, u, v, own):
        x = function(words, u, v, own)
        return x, int(x != 0)

    return value


def length_blocks(settings, gold):
    kinds = settings["length"]
    kinds = (kinds,) if isinstance(kinds, str) else kinds or ()
    longest = settings["max_length"] or max(v - u for _, u, v, _ in gold)
    names = []
    for kind in kinds:
        numbers = [f"length={d}" for d in range(1, longest + 1)]
        names += {
            "indicator": numbers,
            "capped": [*numbers[:-1], f"length={longest}+"],
            "gamma": ["length", "log_length"],
        }[kind]
    return [(name, once(lambda words, u, v, own, name=name: plain.length_value(name, v - u))) for name in names]


def text_blocks(settings, case, gold):
    """Return the features of whole texts and of functions, those that enough training segments have."""
    blocks = []
    if settings["identity"]:
        texts = Counter(tuple(case.words[n][u:v]) for n, u, v, _ in gold)
        separator = "" if all(len(word) == 1 for s in case.words for word in s) else " "
        often = [text for text, count in texts.items() if count >= settings["min_count"]]
        for text in sorted(often, key=lambda text: (len(text), text)):
            same_text = once(lambda words, u, v, own, text=text: float(tuple(words[u:v]) == text))
            blocks.append((f"identity={separator.join(text)}", same_text))
    if settings["functions"]:
        counts = Counter(name for n, u, v, _ in gold for name in function_values(case.words[n], u, v))
        for name in sorted(name for name, count in counts.items() if count >= settings["min_count"]):
            of_name = once(lambda words, u, v, own, name=name: function_values(words, u, v).get(name, 0.0))
            blocks.append((name, of_name))
    return blocks


def function_values(words, u, v):
    named = {"n": float(v - u), f"first={words[u]}": 1.0, "even": float((v - u) % 2 == 0)}
    return {name: x for name, x in named.items() if x}


def log_odds_block(settings, case, gold):
    longest = max(v - u for _, u, v, _ in gold)
    found = {(n, u, v) for n, u, v, _ in gold}
    strings = [
        (n, tuple(words[u:v]), (n, u, v) in found)
        for n, words in enumerate(case.words)
        for u, v in spans_of(len(words))
        if v - u <= longest
    ]

    def value(words, u, v, own):
        others = [(text, is_segment) for n, text, is_segment in strings if n != own]
        return plain.log_odds(tuple(words[u:v]), others, settings["smoothing"])

    return "log_odds", once(value)


def segment_table(blocks, rows, words, own):
    """Return {feature: (value, number of tokens)} of segments; ``own`` is the training sequence that they are from."""
    table = {}
    for u, v in spans_of(len(rows)):
        row = {f: value(rows, words, u, v, own) for f, (_, value) in enumerate(blocks)}
        table[u, v] = {f: pair for f, pair in row.items() if any(pair)}
    return table


def values_of(table):
    return {(f, u, v): x for (u, v), row in table.items() for f, (x, _) in row.items() if x}


# --- token features -------------------------------------------------------------------------------------------------


def raw_tokens(form, sequences):
    """Return sequences of {field: value} as users write them."""
    if form == "dicts":
        return [[{k: x for k, x in token.items() if x is not None} for token in s] for s in sequences]
    if form == "tuples":
        return [[tuple(token[field] for field in sorted(token)) for token in s] for s in sequences]
    if form == "arrays":
        return [np.array([[token[0], token[1]] for token in s], dtype=object).reshape(len(s), 2) for s in sequences]
    return [[next(iter(token.values())) for token in s] for s in sequences]


def check_extractor(case):
    train, test = raw_tokens(case.form, case.train), raw_tokens(case.form, case.test)
    options = {"padding": case.padding, "bias": case.bias}
    extractor = SequenceFeatureExtractor(
        case.templates, min_count=case.min_count, n_features=case.n_features, **options
    )
    expected = [plain.attributes_of_templates(s, case.templates, **options) for s in case.train]
    new = [plain.attributes_of_templates(s, case.templates, **options) for s in case.test]
    cells = Counter((f, type(x) is str) for s in case.train for token in s for f, x in token.items() if x is not None)
    fields = {f for s in (*case.train, *case.test) for token in s for f in token}
    has_no_kind = {*fields, *(f for template in case.templates for f, _ in template)} - {f for f, _ in cells}
    mixed = any((f, True) in cells and (f, False) in cells for f, _ in cells)
    try:
        with Unchanged(train, test):
            batches = extractor.fit_transform(train), extractor.transform(train), extractor.transform(test)
    except DOCUMENTED as error:
        later = {(f, type(x) is str) for s in case.test for token in s for f, x in token.items() if x is not None}
        changed = any((f, not text) in cells for f, text in later)
        require(has_no_kind or mixed or changed or not any(case.train), "good tokens were refused", str(error))
        return refusal(error)
    names = list(extractor.get_feature_names_out()) if case.n_features is None else []
    require(len(set(names)) == len(names), "two features of one name", Counter(names).most_common(1))
    counts = Counter(name for s in expected for token in s for name in token)
    always = {"bias", "__BOS__", "__EOS__"}
    kept = [name for name, count in counts.items() if count >= case.min_count or name in always]
    for batch, attributes in zip(batches, (expected, expected, new), strict=True):
        tokens = [token for s in attributes for token in s]
        require(batch.lengths.tolist() == list(map(len, attributes)), "lengths", batch.lengths.tolist())
        columns = Counter(tuple(token.get(name, 0.0) for token in tokens) for name in kept if tokens)
        matrix = batch.tocsr()
        if case.n_features is not None:
            require_close(np.asarray(matrix.sum(axis=1)).ravel(), [sum(t.values()) for t in tokens], "hashed values")
            continue
        table = Counter(map(tuple, matrix.toarray().T.tolist())) if tokens else Counter()
        zero = (0.0,) * len(tokens)
        for counted in columns, table:
            counted.pop(zero, None)  # a feature that no token has may be there or not
        require(columns == table, "other features than the templates make", columns - table, table - columns)
    return RIGHT


# --- ways to train --------------------------------------------------------------------------------------------------

KEEP = {
    "pickle": lambda estimator: pickle.loads(pickle.dumps(estimator)),
    "joblib": lambda estimator: _through_joblib(estimator, io.BytesIO()),
    "deepcopy": copy.deepcopy,
}


def _through_joblib(estimator, buffer):
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def check_training(case):
    """Training never ends worse than it starts, says when it did not get there, and survives storage."""
    X = [np.array(s, dtype=float).reshape(-1, case.width) * case.scale for s in case.tokens]
    p = translate(case.parameters, LABELS["str"])
    y = [[LABELS["str"][i] for i in labels] for labels in case.labels]
    estimator = (HighOrderSemiCRF if case.segments else HighOrderCRF)(**p)
    why = unusable(kept(case.labels, weights_of(case)), case.parameters) or unusual(case)
    refused, converged = fit(estimator, X, y, case.weight, "", may_refuse=why)
    if refused:
        return refused
    history = estimator.objective_history_
    require(len(history) == estimator.n_iter_ + 1, "objective_history_ is not as long as n_iter_ + 1", len(history))
    require(np.isfinite(history[-1]), "the objective is not finite", history.tolist())
    require(
        history[-1] <= history[0] * (1 + 1e-9) + 1e-9,
        "worse than at the start",
        history[[0, -1]].tolist(),
    )
    require(history[-1] >= -1e-6, "an objective below 0", history[-1])
    weights = np.concatenate([estimator.pattern_coef_, estimator.coef_.data])
    require(np.isfinite(weights).all(), "weights that are not finite", weights.tolist())
    if p["objective"] == "likelihood" and converged:
        check_against_lbfgs(case, X, y, estimator)
    again = KEEP[case.keep](estimator)
    for method in ("predict", "predict_marginals", "log_likelihood", "score"):
        given = (X,) if method.startswith("predict") else (X, y)
        outcomes = [outcome_of(getattr(e, method), *given) for e in (estimator, again)]
        require(same(*outcomes), f"{method} differs after {case.keep}", *outcomes)
    if estimator.predict(X):
        sums_to_one = [m.sum(axis=1) for m in estimator.predict_marginals(X)]
        require_close(np.concatenate(sums_to_one), np.ones(sum(map(len, X))), "marginals do not sum to 1")
    return RIGHT if converged else "right, with a warning"


def outcome_of(function, *given):
    try:
        return function(*given)
    except DOCUMENTED as error:
        return type(error).__name__, str(error)


def unusual(case):
    """Say whether a refusal is documented: numbers too large or small for arithmetic, criteria that do not fit."""
    p = case.parameters
    is_stochastic = p["solver"] not in ("auto", "lbfgs")
    return is_stochastic and p["objective"] != "likelihood" or case.scale > 1e4


def check_against_lbfgs(case, X, y, estimator):
    """A training that ended without a warning is near the optimum that another solver finds."""
    sigma = case.parameters["sigma_reg"]
    if case.parameters["l1_reg"] or sigma > 10 or case.parameters["tol"] == 0 or case.scale > 100:
        return
    p = translate(case.parameters, LABELS["str"]) | {"solver": "lbfgs", "tol": 1e-6, "max_iter": 5000}
    with warnings.catch_warnings(record=True, action="always") as caught:
        other = type(estimator)(**p).fit(X, y, sample_weight=case.weight)
    if not caught:
        best, value = other.objective_history_[-1], estimator.objective_history_[-1]
        slack = 0.02 * abs(best) + 0.02 if case.parameters["solver"] not in ("auto", "lbfgs") else 1e-3
        require(value <= best + slack, "far above the optimum, and no warning", value, best)


# --- streams --------------------------------------------------------------------------------------------------------


def check_stream(case):
    """A stream that is stored between calls goes on as one that is not; a refused call leaves no trace."""
    names = LABELS["str"]
    options = {"solver": SGD(random_state=0), "l1_reg": case.l1_reg}
    if case.segments:
        options["segment_length"] = 3
    plain_one, stored = ((HighOrderSemiCRF if case.segments else HighOrderCRF)(**options) for _ in range(2))
    allowed = set(names) if case.name_classes else {names[i] for s in case.batches[0][1] for i in s}
    outcome = RIGHT
    for number, (X, codes) in enumerate(case.batches):
        y = [[names[i] for i in labels] for labels in codes]
        arguments = {"sample_weight": case.weights[number]}
        if number == 0 and case.name_classes:
            arguments["classes"] = names
        if case.bad == number:
            before = state_of(stored)
            try:
                stored.partial_fit([*X, [None]], [*y, [names[0]]])
            except DOCUMENTED as error:
                refusal(error, place=True)
            else:
                raise Finding("a token that is None was accepted")
            require(same(before, state_of(stored)), "a refused partial_fit left a trace")
        y_kept = kept(codes, case.weights[number]) if case.weights[number] else codes
        if number == 0 and not case.name_classes:
            allowed = {names[i] for s in y_kept for i in s}
        usable = bool(y_kept) and {names[i] for s in y_kept for i in s} <= allowed and len(allowed) >= 2
        try:
            with Unchanged(X, y):
                plain_one.partial_fit(X, y, **arguments)
        except DOCUMENTED as error:
            too_long = case.segments and max(n for s in codes for n, _ in plain.runs(s)) > 3
            require(not usable or too_long, "a good batch was refused", type(error).__name__, str(error))
            return refusal(error)
        require(usable, "a batch without usable labels was accepted", y, sorted(allowed))
        stored = pickle.loads(pickle.dumps(stored)).partial_fit(X, y, **arguments)
        require(same(plain_one.predict(X), stored.predict(X)), "predictions differ after storage")
        require_close(stored.coef_.toarray(), plain_one.coef_.toarray(), "weights differ after storage", 0, 0)
        require(np.isfinite(plain_one.objective_history_).all(), "an objective that is not finite")
    return outcome


def state_of(estimator):
    """Return what an estimator is, as plain data."""
    return copy.deepcopy(
        {k: v for k, v in vars(estimator).items() if isinstance(v, (np.ndarray, list, str, int, float))}
    )


# --- one model by several ways --------------------------------------------------------------------------------------


def table_of(tokens, names):
    """Return sequences of {name: value} as arrays with these columns."""
    number = {name: i for i, name in enumerate(names)}
    arrays = [np.zeros((len(s), len(names))) for s in tokens]
    for array, s in zip(arrays, tokens, strict=True):
        for t, token in enumerate(s):
            for name, value in plain.row_of(token).items():
                if name in number:
                    array[t, number[name]] = value
    return arrays


def as_batch(arrays):
    offsets = np.append(0, np.cumsum(list(map(len, arrays))))
    names = [f"x{i}" for i in range(arrays[0].shape[1])]
    return SequenceBatch.from_csr(sparse.csr_array(np.concatenate(arrays)), offsets, names)


ROUTES = {  # how training and test tokens, and the estimator, look on another way
    "vectorizer": lambda X, names, crf: (X, make_pipeline(SequenceFeatureExtractor("attributes"), crf)),
    "arrays": lambda X, names, crf: (table_of(X, names), crf),
    "csr": lambda X, names, crf: ([sparse.csr_array(array) for array in table_of(X, names)], crf),
    "frames": lambda X, names, crf: ([pd.DataFrame(array, columns=names) for array in table_of(X, names)], crf),
    "batch": lambda X, names, crf: (as_batch(table_of(X, names)), crf),
    "shuffled": lambda X, names, crf: ([[dict(reversed(list(token.items()))) for token in s] for s in X], crf),
    "summed": lambda X, names, crf: ([[dict(plain.row_of(token)) for token in s] for s in X], crf),
    "jobs": lambda X, names, crf: (X, crf.set_params(n_jobs=2)),
}


def check_routes(case):
    """The same data in two forms give the same model, and sequences the same answers one by one."""
    y = [[LABELS["str"][i] for i in s] for s in case.labels]
    new = HighOrderSemiCRF if case.segments else HighOrderCRF
    names = sorted({name for s in case.tokens for token in s for name in plain.row_of(token)})
    has_entries = {name for s in case.tokens for token in s for name, x in plain.entries(token) if x}
    if len({i for s in case.labels for i in s}) < 2 or not names or has_entries != set(names):
        return RIGHT  # others look at these
    first = new(case.max_order).fit(case.tokens, y)
    X, other = ROUTES[case.route](case.tokens, names, new(case.max_order))
    with Unchanged(X, y):
        other.fit(X, y)
    second = other[-1] if isinstance(other, Pipeline) else other
    require(first.patterns_ == second.patterns_, "other patterns", first.patterns_, second.patterns_)
    exact = case.route in ("vectorizer", "jobs")
    tolerance = 0 if exact else 1e-9
    require_close(second.coef_.toarray(), first.coef_.toarray(), "other weights", tolerance, tolerance)
    if lost_field(case):
        return "right, with a lost field"
    if any(case.test):  # some routes have nothing to make of no token at all
        X_test, _ = ROUTES[case.route](case.test, names, new())
        predicted, expected = other.predict(X_test), first.predict(case.test)
        require(predicted == expected or not exact, "other predictions", predicted, expected)
        both = zip(other.predict_proba(X_test), first.predict_proba(case.test), strict=True)
        for a, b in both:
            require_close(a, b, "other marginals")
        for n in case.order:
            one = [case.test[n]]
            if case.test[n] and not lost_field(case._replace(test=one)):
                require(first.predict(one) == expected[n : n + 1], "other predictions one by one", one, expected[n])
    return RIGHT


def check_columns(case):
    """Columns other than those of fit are refused, and so is another order of them."""
    rng = np.random.default_rng(case.seed)
    y = [rng.integers(0, 2, n).tolist() for n in case.lengths]
    y[0][0], y[1][0] = 0, 1
    arrays = [rng.normal(size=(n, len(case.fitted))) for n in case.lengths]
    asked = [rng.normal(size=(n, len(case.asked))) for n in case.lengths]
    X, X_asked = (columns_of(case.form, *pair) for pair in ((arrays, case.fitted), (asked, case.asked)))
    y = [s[0] for s in y] if case.form in TABLES else y
    estimator = (HighOrderSemiCRF if case.segments else HighOrderCRF)(max_iter=20).fit(X, y)
    has_names = case.form in ("frames", "table frame")
    fits = case.fitted == case.asked if has_names else len(case.fitted) == len(case.asked)
    try:
        with Unchanged(X_asked):
            marginals = estimator.predict_marginals(X_asked)
    except DOCUMENTED as error:
        require(not fits, "good columns were refused", str(error))
        return refusal(error)
    require(fits, "other columns than in fit were accepted", case.fitted, case.asked)
    plain_answers = estimator.predict_marginals(columns_of(case.form, asked, case.fitted))
    require(same(marginals, plain_answers), "other answers for the same columns")
    return RIGHT


def columns_of(form, arrays, names):
    """Return arrays as X with named columns where the form has names."""
    if form == "batch":
        return as_batch(arrays)
    if form == "frames":
        return [pd.DataFrame(array, columns=names) for array in arrays]
    if form == "table frame":
        return pd.DataFrame(np.concatenate(arrays), columns=names)
    return build_X(form, [array.tolist() for array in arrays], len(names))


# --- what does not belong -------------------------------------------------------------------------------------------


def check_spoilt(case):
    """One thing that does not belong: an answer or a documented exception, and nothing left behind."""
    X, y, arguments, options, named = spoil(case)
    estimator_class = HighOrderSemiCRF if case.segments else HighOrderCRF
    estimator = estimator_class(**options)
    outcome = "accepted"
    try:
        with Unchanged(*([] if case.junk in ("generator", "object") else [X, y, arguments])):
            estimator.fit(X, y, **arguments)
    except Exception as error:
        require_unfitted(estimator)
        outcome = refusal(error, place=named)
    fitted = good_estimator(case)
    if fitted is None:
        return outcome
    before = pickle.dumps(vars(fitted))
    for method in ("predict", "predict_marginals", "score", "log_likelihood"):
        given = (X,) if method.startswith("predict") else (X, y)
        try:
            getattr(fitted, method)(*given)
        except Exception as error:
            refusal(error)
    require(pickle.dumps(vars(fitted)) == before, "questions changed a fitted estimator")
    if outcome != "accepted" and case.where not in ("parameter", "weight", "weights"):
        answers = fitted.predict(build_X(case.form, case.tokens, case.width))
        try:
            fitted.fit(X, y, **arguments)
        except Exception as error:
            refusal(error)
            again = fitted.predict(build_X(case.form, case.tokens, case.width))
            require(same(answers, again), "a refused fit changed a fitted estimator")
    return outcome


def good_estimator(case):
    """Return an estimator fitted to the good data, or None if these have but one label."""
    if len({i for s in case.labels for i in s}) < 2:
        return None
    y = build_y([[LABELS["str"][i] for i in s] for s in case.labels], "lists", "str", case.form)
    estimator = (HighOrderSemiCRF if case.segments else HighOrderCRF)(max_iter=5)
    return estimator.fit(build_X(case.form, case.tokens, case.width), y)


def spoil(case):
    """Return X, y, arguments of fit, parameters, and whether a refusal has to name a place."""
    scheme = case.scheme if case.segments else "runs"
    names = LABELS["tags" if scheme in ("bio", "bioes") else "str"]
    X = build_X(case.form, case.tokens, case.width)
    labels = [written([(1, i) for i in s], names, scheme) for s in case.labels]
    y = [s[0] for s in labels] if case.form in TABLES and scheme != "segments" else [list(s) for s in labels]
    options = {"max_iter": 5} | ({"scheme": scheme} if case.segments else {})
    arguments, bad = {}, junk(case.junk)
    n, where = case.n % len(case.tokens), case.where
    t = case.t % len(case.tokens[n])
    named = False
    if where == "X":
        X = bad
    elif where in ("sequence", "token", "value"):
        X = list(map(list, X)) if case.form == "arrays" else X
        X, named = spoil_X(case, X, n, t, bad)
    elif where == "y":
        y = bad
    elif where == "labels":
        y[n] = bad
        named = case.form not in TABLES and not isinstance(y[n], str)
    elif where in ("label", "segment") and isinstance(y[n], list):
        y[n][t] = bad if where == "label" else (bad, t + 1, names[0])
        named = len(y) > 1 and case.form not in TABLES
    elif where == "weights":
        arguments["sample_weight"] = bad
    elif where == "weight":
        arguments["sample_weight"] = [bad if i == n else 1.0 for i in range(len(case.tokens))]
    elif (
        where == "parameter" and case.parameter in (HighOrderSemiCRF if case.segments else HighOrderCRF)().get_params()
    ):
        options[case.parameter] = bad
    few = len({i for s in case.labels for i in s}) < 2
    is_missing = where in ("labels", "label") and (bad is None or isinstance(bad, (set, frozenset)))  # belongs there
    return X, y, arguments, options, named and not few and not is_missing


def spoil_X(case, X, n, t, bad):
    """Return X with something in the place of a sequence, of a token, or of one value in it."""
    if case.form == "csr" or (case.form in TABLES and case.where != "token"):
        return X, False
    if case.where == "sequence" or case.form in TABLES:
        X[n] = bad
    elif case.where == "token":
        X[n][t] = bad
    elif case.form == "dicts":
        X[n][t] = dict(X[n][t]) | {"k": bad}
    else:
        X[n][t] = [*X[n][t][:-1], bad]
    is_read = case.form in ("dicts", "attributes")
    return X, is_read and case.junk != "large int"  # a number like others, but for overflow


# --- files ----------------------------------------------------------------------------------------------------------


def check_file(case):
    """A good file gives what it holds, a damaged one what is left or an error that names the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.txt")
        content = written_file(case)
        path.write_bytes(content)
        try:
            X, y = datasets.load_conll(path, **case.options)
        except DOCUMENTED as error:
            require(case.edits or not readable(case), "a good file was refused", type(error).__name__, str(error))
            require("file.txt" in str(error), "a message that does not name the file", str(error))
            return refusal(error)
        require(path.read_bytes() == content, "a reader changed the file")
    require(len(X) == len(y) > 0, "other numbers of sequences", len(X), len(y))
    require(all(len(a) == len(b) for a, b in zip(X, y, strict=True)), "sequences and labels differ in length", X, y)
    if not case.edits and readable(case):
        cells = [
            [[*token.values(), label] for token, label in zip(*pair, strict=True)] for pair in zip(X, y, strict=True)
        ]
        require(cells == case.content, "other tokens than are in the file", cells, case.content)
    return RIGHT


def written_file(case):
    """Return the bytes of the file of a case, with the damage done to it."""
    separator = case.options["separator"] or " "
    lines = [line for s in case.content for line in [*map(separator.join, s), ""]]
    text = case.line_end.join(lines) + (case.line_end if case.final else "")
    content = text.encode(case.options["encoding"], errors="replace")
    content = gzip.compress(content, mtime=0) if case.zipped else content
    for kind, place, extra in case.edits:
        at = place % (len(content) + 1)
        content = {
            "cut": content[:at],
            "insert": content[:at] + extra + content[at:],
            "replace": content[:at] + extra + content[at + len(extra) :],
            "repeat": content + content[at:],
            "delete": content[:at] + content[at + 3 :],
        }[kind]
    return content


def readable(case):
    """Say whether the encoding can hold the content."""
    return case.options["encoding"] != "cp1252" or all(
        "名" not in cell and "\u3000" not in cell for s in case.content for token in s for cell in token
    )


# --- scores ---------------------------------------------------------------------------------------------------------


def check_scores(case):
    """Scores of segments go by the sets of segments."""
    names = LABELS[case.kind]
    form = case.y_form if case.scheme != "segments" else "lists"
    pairs = [[read_parts(s, case.scheme) for s in side] for side in (case.true, case.predicted)]
    y = [[build_sequence(written(s, names, case.scheme), form, case.kind) for s in side] for side in pairs]
    sets = [{(n, *span) for n, s in enumerate(side) for span in plain.spans(s)} for side in pairs]
    if case.scheme in ("bio", "bioes"):
        sets = [{span for span in side if names[span[3]] != "O"} for side in sets]
    hits = len(sets[0] & sets[1])
    expected = [hits / len(sets[1]) if sets[1] else 0.0, hits / len(sets[0]) if sets[0] else 0.0]
    with Unchanged(*y):
        options = {"scheme": case.scheme, "zero_division": 0.0}
        try:
            scores = metrics.segment_precision_recall_fscore_support(*y, average="micro", **options)[:2]
        except DOCUMENTED as error:
            require(not any(map(len, case.true)), "good labels were refused", str(error))
            return refusal(error)
    require_close(scores, expected, "precision and recall of segments")
    if case.kind == "tags" and case.scheme in ("bio", "bioes"):
        scores = metrics.segment_precision_recall_fscore_support(*y, average="micro", zero_division=0.0)[:2]
        require_close(scores, expected, "precision and recall of segments whose scheme is guessed")
    return RIGHT


# --- what is built on fitted models ---------------------------------------------------------------------------------


def labellings_of(crf, tokens):
    """Return all labellings of a sequence and their probabilities."""
    every = [list(one) for one in itertools.product(crf.classes_.tolist(), repeat=len(tokens))]
    return every, np.exp(crf.log_likelihood([tokens] * len(every), every))


def labels_at(every, p, classes):
    """Return the probabilities of the labels at each token."""
    n_tokens = len(every[0])
    return [
        [sum(q for one, q in zip(every, p, strict=True) if one[t] == label) for label in classes]
        for t in range(n_tokens)
    ]


def segments_in(every, p):
    """Return the probability of each segment of runs."""
    total = Counter()
    for one, q in zip(every, p, strict=True):
        for span in plain.spans([(sum(1 for _ in run), label) for label, run in itertools.groupby(one)]):
            total[span] += q
    return total


def nonconformities(crf, tokens, labels, options):
    """Return pairs of a nonconformity of a part of the truth, and of the loss of a sequence if it is missed."""
    every, p = labellings_of(crf, tokens)
    if options["level"] == "segment":
        true = set(segments_in([labels], [1.0]))
        return [(1 - segments_in(every, p)[span], 1 / len(true)) for span in true]
    classes = crf.classes_.tolist()
    tables = labels_at(every, p, classes)
    scores = [1 - row[classes.index(label)] for row, label in zip(tables, labels, strict=True)]
    return [(max(scores, default=0.0), 1.0)]


def check_sets(case):
    """Thresholds are the smallest that keep the risk; sets are those of enumeration."""
    names = LABELS["str"]
    y = [[names[i] for i in s] for s in case.labels]
    if len({label for labels in y for label in labels}) < 2:
        return RIGHT
    some = [number for number, tokens in enumerate(case.tokens) if tokens]
    crf = HighOrderCRF(case.max_order).fit([case.tokens[i] for i in some], [y[i] for i in some])
    options, n = case.options, len(y)
    conformal = ConformalSequenceLabeler(crf, **options)
    with Unchanged(case.tokens, y, case.test):
        try:
            conformal.fit(case.tokens, y)
        except ValueError as error:
            too_few = options["alpha"] * (n + 1) < 1 - 1e-9
            impossible = options["level"] == "segment" and "all possible segments" in str(error)
            require(too_few or impossible, "good data were refused", str(error))
            return refusal(error)
        parts = [nonconformities(crf, *pair, options) for pair in zip(case.tokens, y, strict=True)]

        def is_kept(threshold, slack):
            loss = sum(share for of in parts for score, share in of if score > threshold + slack)
            return (loss + 1) / (n + 1) <= options["alpha"] + 1e-9

        found = conformal.threshold_
        require(is_kept(found, 1e-8), "a threshold that does not keep the risk", found, parts)
        smaller = [score for of in parts for score, _ in of if score < found - 1e-7] + [0.0] * (found > 1e-7)
        require(not any(is_kept(score, -1e-8) for score in smaller), "a smaller threshold would do", found, parts)
        for tokens, one in zip(case.test, conformal.predict_set(case.test), strict=True):
            check_set(crf, tokens, one, found, options)
    return RIGHT


def check_set(crf, tokens, found, threshold, options):
    """Compare a set with enumeration; what is at the threshold may be in it or not."""
    every, p = labellings_of(crf, tokens)

    def compare(scores, found, what):
        sure, maybe = ({one for one, s in scores.items() if s <= threshold + slack} for slack in (-1e-7, 1e-7))
        require(sure <= found <= maybe, what, sorted(sure, key=str), sorted(found, key=str), threshold)

    if options["level"] == "segment":
        spans = {span: 1 - q for span, q in segments_in(every, p).items()}
        compare(spans, {tuple(row)[:3] for row in found.tolist()}, "another set of segments")
        return
    for row, labels in zip(labels_at(every, p, crf.classes_.tolist()), found, strict=True):
        compare(dict(zip(crf.classes_.tolist(), 1 - np.array(row), strict=True)), set(labels), "other labels")


def check_phrases(case):
    """Marks are those of the longest phrases from left to right."""
    lists = {name: [" ".join(words) if case.joined else words for words in found] for name, found in case.lists.items()}
    split = {name: [words.split() if case.joined else words for words in found] for name, found in lists.items()}
    own = {"upper": str.upper}.get(case.normalize, case.normalize)
    normal = {"casefold": str.casefold, None: str}.get(own, own)
    make = {
        "tuples": lambda text: (text, "N"),
        "dicts": lambda text: {"w": text, "p": "N"},
        "batch": lambda text: (text, "N"),
    }.get(case.form, lambda text: text)
    X = [[make(text) for text in s] for s in case.sequences]
    names = {"texts": ["w"], "columns": ["w"], "tuples": [0, 1]}.get(case.form, ["w", "p"])
    if case.form == "columns":
        X = [np.array(s, dtype=object) for s in X]
    wrong = not all(words for found in split.values() for words in found)
    wrong |= any(name in names for name in lists) or not any(map(len, X))
    has_texts = any(text is not None for s in case.sequences for text in s)
    with Unchanged(X, lists):
        try:
            functions = {name: phrase_marks(found, normalize=own) for name, found in lists.items()}
            options = {"fields": ["w", "p"]} if case.form == "batch" else {}
            extractor = SequenceFeatureExtractor([], functions, **options)
            table = extractor.fit_transform(X).toarray()
        except DOCUMENTED as error:
            require(wrong or not has_texts, "good phrases were refused", str(error))
            return refusal(error)
    require(not wrong, "what is no list of phrases was taken")
    made = [Counter() for _ in range(len(table))]
    for name, column in zip(extractor.get_feature_names_out().tolist(), table.T, strict=True):
        for t in np.flatnonzero(column).tolist():
            made[t][name] += column[t]
    expected = [Counter() for _ in table]
    starts = np.cumsum([0, *map(len, case.sequences)]).tolist()
    for name, found in split.items():
        known = {tuple(map(normal, words)) for words in found}
        for start, s in zip(starts, case.sequences, strict=False):
            words, t = [None if text is None else normal(text) for text in s], 0
            while t < len(s):
                k = max((k for k in range(1, len(s) - t + 1) if tuple(words[t : t + k]) in known), default=0)
                for i, mark in enumerate([] if not k else ["S"] if k == 1 else ["B", *"I" * (k - 2), "E"], start + t):
                    expected[i][f"{name}[0]={mark}"] = 1
                t += max(k, 1)
    require(made == expected, "other marks", made, expected)
    return RIGHT


def check_scores_in(case):
    """Likelihoods, gradients and best labels are those of enumeration."""
    n_labels = case.n_labels
    scores = np.array(case.scores, dtype=float).reshape(-1, n_labels)

    def total(part, labels, patterns):
        own = sum(part[t][label] for t, label in enumerate(labels))
        return own + sum(
            weight
            for z, weight in patterns.items()
            for t in range(len(labels) - len(z) + 1)
            if tuple(labels[t : t + len(z)]) == z
        )

    bounds = np.cumsum([0, *case.lengths])
    parts = [(scores[a:b], case.labels[a:b]) for a, b in itertools.pairwise(bounds.tolist())]
    bad = any(weight == -np.inf and len(z) == 1 for z, weight in case.patterns.items())
    impossible = any(total(*part, case.patterns) == -np.inf for part in parts)
    weight = np.ones(len(parts)) if case.weights is None else np.array(case.weights)
    with Unchanged(scores):
        try:
            given = {"lengths": np.array(case.lengths, dtype=int), "sequence_weight": case.weights}
            found = sequence_log_likelihood(scores, np.array(case.labels, dtype=int), case.patterns, **given)
            best = predict_from_scores(scores, case.patterns, given["lengths"])
        except DOCUMENTED as error:
            require(bad or impossible, "good scores were refused", str(error))
            return refusal(error)
    require(not bad and not impossible, "what is impossible has a likelihood")
    gradient = dict.fromkeys(case.patterns, 0.0)
    for n, (part, labels) in enumerate(parts):
        every = list(itertools.product(range(n_labels), repeat=len(labels)))
        values = np.array([total(part, one, case.patterns) for one in every])
        log_z = np.logaddexp.reduce(values)
        require_close(found.log_likelihood[n], total(part, labels, case.patterns) - log_z, "a likelihood")
        chosen_score = total(part, best[bounds[n] : bounds[n + 1]].tolist(), case.patterns)
        require_close(chosen_score, values.max(), "not the best labelling")
        p, zero = np.exp(values - log_z), np.zeros((len(labels), n_labels))
        expected = sum((q * np.eye(n_labels)[list(one)] for q, one in zip(p, every, strict=True)), zero)
        own = np.eye(n_labels)[labels] if labels else zero
        slope = found.score_gradient[bounds[n] : bounds[n + 1]]
        require_close(slope, weight[n] * (own - expected), "a gradient by scores")
        for z in gradient:
            counts = [total(zero, one, {z: 1.0}) for one in (labels, *every)]
            gradient[z] += weight[n] * (counts[0] - p @ counts[1:])
    expected = [0.0 if case.patterns[z] == -np.inf else value for z, value in gradient.items()]
    require_close(found.pattern_gradient, expected, "a gradient by patterns")
    return RIGHT


CHECKS = {
    "chain": check_chain,
    "segments": check_segments,
    "pipeline": check_pipeline,
    "extractor": check_extractor,
    "training": check_training,
    "stream": check_stream,
    "routes": check_routes,
    "columns": check_columns,
    "spoilt": check_spoilt,
    "file": check_file,
    "scores": check_scores,
    "sets": check_sets,
    "phrases": check_phrases,
    "scores in": check_scores_in,
}

"""What must be true of a case: the answer is right, or a documented exception says what is wrong.

Each check takes a case and returns "right", or "refused: <exception>" where a refusal is documented. Everything else, a
wrong answer, another exception, a warning of numpy or a changed input, is a ``Finding``.
"""

import copy
import gzip
import io
import pickle
import re
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import joblib
import numpy as np
import registry
import test_model_laws as laws
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, datasets
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

from . import definitions as plain
from .builders import LABELS, TABLES, build_X, build_y, flags_of, junk, same

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
    """Print a case, so that it is known if the process crashes, then its outcome; raise whatever is wrong with it."""
    print(case, flush=True)
    with warnings.catch_warnings(record=True, action="always") as caught:
        outcome = CHECKS[name](case)
    loud = [w for w in caught if not issubclass(w.category, QUIET)]
    require(not loud, "a warning that is no answer", *(f"{w.category.__name__}: {w.message}" for w in loud[:1]))
    print(outcome, flush=True)


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


# --- models of drawn kinds, by enumeration --------------------------------------------------------------------------


def check_model(case):
    """Training ends at the optimum, and all answers are those of all labellings."""
    kind = case.kind()
    crf = kind.fit(tol=1e-5, max_iter=3000)
    if not case.parameters.get("pruning"):
        laws.assert_optimum(kind, crf)
    if kind.scale:
        w = kind.scale * np.random.default_rng(0).normal(size=len(crf._state.weights))
        crf._state._replace(weights=w).set_on(crf)
    for number, words in enumerate(case.new):
        every = registry.Labellings(kind, crf, words)
        laws.assert_answers(crf, every, number)
        if not case.parameters.get("pruning"):
            laws.assert_known_labels(crf, [every])
    return RIGHT


# --- fits that may be refused ---------------------------------------------------------------------------------------


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


def unusable(kept_labels):
    return len({y for labels in kept_labels for y in labels}) < 2


def kept(sequences, weights):
    return [s for n, s in enumerate(sequences) if weights is None or weights[n]]


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
    p = case.parameters
    y = [[LABELS["str"][i] for i in labels] for labels in case.labels]
    estimator = (HighOrderSemiCRF if case.segments else HighOrderCRF)(**p)
    why = unusable(kept(case.labels, case.weight)) or unusual(case)
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
    p = case.parameters | {"solver": "lbfgs", "tol": 1e-6, "max_iter": 5000}
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
    options = {"solver": "sgd", "random_state": 0, "l1_reg": case.l1_reg}
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
        y_kept = kept(codes, case.weights[number])
        if number == 0 and not case.name_classes:
            allowed = {names[i] for s in y_kept for i in s}
        usable = bool(y_kept) and {names[i] for s in y_kept for i in s} <= allowed and len(allowed) >= 2
        try:
            with Unchanged(X, y):
                plain_one.partial_fit(X, y, **arguments)
        except DOCUMENTED as error:
            too_long = case.segments and max(v - u for s in codes for u, v, _ in plain.runs(s)) > 3
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


def check_routes(case):
    """The same numbers, and the same labels by other names, in two forms give the same model and answers."""
    make = HighOrderSemiCRF if case.segments else HighOrderCRF
    models, X_test = [], []
    for form, kind, y_form in ("arrays", "int", "lists"), (case.form, case.kind, case.y_form):
        X, new = (build_X(form, tokens, case.width) for tokens in (case.tokens, case.test))
        y = build_y([[LABELS[kind][i] for i in s] for s in case.labels], y_form, kind, form)
        model = make(case.max_order, tol=1e-8, max_iter=2000, n_jobs=case.n_jobs if models else None)
        refused, _ = fit(model, X, y, case.weight, unusable(kept(case.labels, case.weight)))
        if refused:
            return refused
        models.append(model)
        X_test.append(new)
    one, other = models
    names = {i: label for i, label in zip(LABELS["int"], LABELS[case.kind], strict=True)}
    require(other.classes_.tolist() == [names[i] for i in one.classes_.tolist()], "other classes")
    require(other.patterns_ == [tuple(names[i] for i in z) for z in one.patterns_], "other patterns", other.patterns_)
    require_close(other.coef_.toarray(), one.coef_.toarray(), "other weights", 1e-6, 1e-6)
    with Unchanged(*X_test):
        both = (
            [
                np.concatenate([np.reshape(m, (-1, len(names))) for m in model.predict_marginals(X)])
                for model, X in zip(models, X_test, strict=True)
            ]
            if len(one.classes_) == len(names)
            else [0, 0]
        )
    require_close(*both, "other marginals", 1e-5, 1e-5)
    return RIGHT


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
    spans = [[(t, t + 1, names[i]) for t, i in enumerate(s)] for s in case.labels]
    labels = [registry.written(s, scheme) for s in spans]
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
    """Say whether the encoding can hold the content, and no label is blank."""
    if not all(token[-1].strip() for s in case.content for token in s):
        return False
    return case.options["encoding"] != "cp1252" or all(
        "名" not in cell and "\u3000" not in cell for s in case.content for token in s for cell in token
    )


CHECKS = {
    "model": check_model,
    "extractor": check_extractor,
    "training": check_training,
    "stream": check_stream,
    "routes": check_routes,
    "spoilt": check_spoilt,
    "file": check_file,
}

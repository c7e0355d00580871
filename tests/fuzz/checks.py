"""What must be true of a case: the answer is right, or a documented exception says what is wrong.

Each check takes a case and returns "right", or "refused: <exception>" where a refusal is documented. Everything else, a
wrong answer, another exception, a warning of numpy or a changed input, is a ``Finding``.
"""

import copy
import io
import pickle
import re
import warnings

import joblib
import numpy as np
import registry
import test_model_laws as laws
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

from .builders import LABELS, TABLES, build_X, flags_of, junk, same

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


def fit(estimator, X, y, weight, may_refuse):
    """Fit; return the outcome of a refusal, or None and whether the solver converged."""
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        Unchanged(X, y, weight, estimator.get_params()),
    ):
        try:
            estimator.fit(X, y, sample_weight=weight)
        except DOCUMENTED as error:
            require(may_refuse, "good data were refused", type(error).__name__, str(error))
            require_unfitted(estimator)
            return refusal(error), False
    for w in caught:  # for the judge
        warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
    return None, not any(issubclass(w.category, ConvergenceWarning) for w in caught)


def require_unfitted(estimator):
    require(not any(name.endswith("_") for name in vars(estimator)), "a refused fit left fitted attributes")


def unusable(kept_labels):
    return len({y for labels in kept_labels for y in labels}) < 2


def kept(sequences, weights):
    return [s for n, s in enumerate(sequences) if weights is None or weights[n]]


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
    refused, converged = fit(estimator, X, y, case.weight, why)
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
    y = [[LABELS["str"][i] for i in s] for s in case.labels]
    y = [s[0] for s in y] if case.form in TABLES else y
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


CHECKS = {
    "model": check_model,
    "training": check_training,
    "spoilt": check_spoilt,
}

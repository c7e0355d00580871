"""Checks of cases: the result is correct, or a documented exception describes the error.

Each check takes a case and returns "right", or "refused: <exception>" if the documentation states the exception. Any
other outcome is a ``Finding``: a wrong result, another exception, a numpy warning, or a changed input.
"""

import copy
import pickle
import re
import warnings

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
    sequences = [registry.Labellings(kind, crf, words) for words in case.new]
    laws.assert_answers(crf, sequences)
    if not case.parameters.get("pruning"):
        laws.assert_known_labels(crf, sequences)
    return RIGHT


def require_unfitted(estimator):
    require(not any(name.endswith("_") for name in vars(estimator)), "a refused fit left fitted attributes")


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
    arguments, bad = {}, junk()[case.junk]
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
    "spoilt": check_spoilt,
}

"""What goes with what: each row of the table refuses, and what no row names works."""

import re
from contextlib import nullcontext
from itertools import combinations, product

import numpy as np
import pytest
from internals import CIRCUMSTANCES, FEATURES, REFUSALS, Course

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.inspection import weight_standard_errors
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.settings import PatternSearch
from sklearn_hocrf.training import L2, SGD, Objective, PartialLikelihood


class Plain(Objective):
    """A criterion of a user, which minimises nothing but the penalty."""

    def bind(self, problem):
        return self

    def value_gradient(self, w):
        return 0.0, np.zeros_like(w)

    def value(self, w):
        return 0.0


class Bare:
    """A penalty of a user, without a precision."""

    def value(self, w):
        return float(w @ w)

    def value_gradient(self, w):
        return float(w @ w), 2 * w

    def gap(self, gradient):
        return np.inf


# parameters that make an estimator have a feature of the table; L1 and the like are those of the solvers' own needs
GIVEN = {
    "pruning": {"pruning": 1},
    "pattern search": {"patterns": "auto"},
    "a search for the final model": {"patterns": PatternSearch(relax=False)},
    "no highest order": {"max_order": None},
    "features of several labels": {"feature_order": 1},
    "parts": {"label_parts": {"A": ["x"], "B": ["x"]}},
    "L1": {"l1_reg": 0.1},
    "penalty object": {"penalty": L2(1.0)},
    "no penalty": {"sigma_reg": [1.0, np.inf]},
    "frequent features": {"min_pair_count": 2},
    "balanced class weights": {"class_weight": "balanced"},
    "decoding by probabilities": {"decoding": "token"},
    "segments": {"scheme": "runs"},
    "margins": {"objective": "hinge"},
    "local feature matching": {"objective": "local_feature_matching"},
    "another criterion": {"objective": Plain()},
    "a criterion without probabilities": {"objective": "hinge"},
    "a criterion without Hessian": {"objective": Plain()},
    "a criterion of whole labellings": {"objective": "hinge"},
    "a second-order solver, without EM": {"solver": "newton-cg"},
    "EM by a solver that may climb": {"objective": PartialLikelihood("em"), "solver": "sgd"},
    "a stochastic solver": {"solver": "sgd"},
    "a second-order solver": {"solver": "newton-cg"},
    "a solver without gradients": {"solver": SGD()},
    "a sparse penalty": {"l1_reg": 0.1},
    "a penalty without precision": {"penalty": Bare()},
}
X = [[["a"], ["b"], ["c"]], [["b"], ["c"]], [["a"], ["c"], ["a"]], [["c"], ["a"]]] * 2
Y = [["A", "B", "C"], ["B", "C"], ["A", "C", "A"], ["C", "A"]] * 2


def fit(model):
    model.fit(X, Y)


def fit_with_holes(model):
    model.fit(X, [["A", None, "C"], *Y[1:]])


def fit_with_soft_labels(model):
    model.fit(X, [["A", {"A": 0.2, "B": 0.8}, "C"], *Y[1:]])


def stream(model):
    if model.solver == "auto":
        model.set_params(solver="sgd")
    patterns = model.patterns if not isinstance(model.patterns, str) or model.patterns == "auto" else None
    model.partial_fit(X, Y, patterns=patterns)


def learn_penalties(model):
    PenaltySearchCV(model, cv=2, max_steps=1).fit(X, Y)


def ask_standard_errors(model):
    weight_standard_errors(model.fit(X, Y), X, [(("A",), 0)], y=Y)


ASK = {
    "": fit,
    "holes": fit_with_holes,
    "soft labels": fit_with_soft_labels,
    "stream": stream,
    "cluster": lambda model: Course(model).refuse("cluster"),
    "learned penalties": learn_penalties,
    "standard errors": ask_standard_errors,
}


def model_with(*features):
    estimator = HighOrderSemiCRF if "segments" in features else HighOrderCRF
    return estimator(**{"max_order": 1, "max_iter": 3} | GIVEN[features[0]] | GIVEN.get(features[-1], {}))


def without_fields(message):
    """Return the longest piece of a message without parameters, as a pattern."""
    return re.escape(max(re.split(r"\{.*?\}", message), key=len))


def test_the_table_is_whole():
    assert set(GIVEN) == set(FEATURES)
    assert set(ASK) == {"", *CIRCUMSTANCES}
    assert {name for row in REFUSALS for name in row[:2]} == {*FEATURES, *CIRCUMSTANCES}
    assert len({row[:2] for row in REFUSALS}) == len(REFUSALS)


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: f"{row.feature} x {row.other}")
def test_each_row_refuses_before_any_work(row):
    model = model_with(row.feature, row.other)
    with pytest.raises(ValueError, match=without_fields(row.message)):
        ASK[row.other if row.other in CIRCUMSTANCES else ""](model)
    assert row.other == "standard errors" or not hasattr(model, "coef_")


MAIN = [
    *("pruning", "pattern search", "features of several labels", "parts", "L1", "penalty object", "no penalty"),
    *("frequent features", "balanced class weights", "decoding by probabilities", "margins", "local feature matching"),
    *("a stochastic solver", "a second-order solver"),
]
ALSO = {  # features that go with one of the main ones
    "margins": [
        *("a criterion without probabilities", "another criterion"),
        *("a criterion without Hessian", "a criterion of whole labellings"),
    ],
    "local feature matching": ["another criterion", "a criterion without Hessian", "a criterion of whole labellings"],
    "a stochastic solver": ["a solver without gradients"],
    "a second-order solver": ["a second-order solver, without EM"],
    "L1": ["a sparse penalty"],
}
UNCERTAIN = ("margins", "local feature matching")
# what solvers say that they need of objectives and penalties
BY_NEEDS = {
    ("L1", "penalty object"),
    *(("L1", name) for name in ("margins", "a stochastic solver", "a second-order solver")),
    ("no penalty", "margins"),
    *((name, "stream") for name in ("L1", "margins", "local feature matching", "a second-order solver")),
    *(
        (name, solver)
        for name in ("margins", "local feature matching")
        for solver in ("a stochastic solver", "a second-order solver")
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("feature", MAIN)
def test_soft_labels_go_with_what_no_row_names(feature):
    implied = {feature, *ALSO.get(feature, []), *(["a criterion of whole labellings"] if feature in UNCERTAIN else [])}
    is_refused = any((name, "soft labels") in {row[:2] for row in REFUSALS} for name in implied)
    with pytest.raises(ValueError, match="probabilities of labels") if is_refused else nullcontext():
        fit_with_soft_labels(model_with(feature))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pair", list(combinations(MAIN, 2)), ids=" x ".join)
def test_what_no_row_names_works(pair):
    refused = {frozenset(row[:2]) for row in REFUSALS}
    implied = product(*([name, *ALSO.get(name, [])] for name in pair))
    is_refused = pair in BY_NEEDS or any(frozenset(names) in refused for names in implied)
    if set(GIVEN[pair[0]]) & set(GIVEN[pair[1]]):
        return  # two values of one parameter
    with pytest.raises(ValueError, match=r"\w") if is_refused else nullcontext():
        fit(model_with(*pair))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("circumstance", ["holes", "stream", "learned penalties", "standard errors"])
@pytest.mark.parametrize("name", MAIN)
def test_circumstances_that_no_row_names_work(name, circumstance):
    refused = {row[:2] for row in REFUSALS}
    is_refused = any((feature, circumstance) in refused for feature in [name, *ALSO.get(name, [])])
    is_refused |= (name, circumstance) in BY_NEEDS
    with pytest.raises((ValueError, AttributeError), match=r"\w") if is_refused else nullcontext():
        ASK[circumstance](model_with(name))

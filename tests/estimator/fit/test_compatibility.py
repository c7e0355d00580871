"""Combinations of features: each row of the table raises its error, and all other combinations work."""

import re
from contextlib import nullcontext
from itertools import combinations

import pytest
from internals import CIRCUMSTANCES, FEATURES, REFUSALS, FitSteps
from matrix_page import GIVEN, MAIN, PAGE, excludes, page, reasons

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.model_selection import PenaltySearchCV

X = [[["a"], ["b"], ["c"]], [["b"], ["c"]], [["a"], ["c"], ["a"]], [["c"], ["a"]]] * 2
Y = [["A", "B", "C"], ["B", "C"], ["A", "C", "A"], ["C", "A"]] * 2


def fit(model):
    model.fit(X, Y)


def fit_with_missing_labels(model):
    model.fit(X, [["A", None, "C"], *Y[1:]])


def stream(model):
    if model.solver == "auto":
        model.set_params(solver="sgd")
    model.partial_fit(X, Y)


def learn_penalties(model):
    PenaltySearchCV(model, cv=2, max_steps=1).fit(X, Y)


def train_on_cluster(model):
    """Only choose how to train, which refuses before any work."""
    dask = pytest.importorskip("sklearn_hocrf.dask", exc_type=ImportError)
    dask.DaskSequenceLabeler(model)._choose_training(FitSteps(model))


ASK = {
    "": fit,
    "missing labels": fit_with_missing_labels,
    "stream": stream,
    "cluster": train_on_cluster,
    "learned penalties": learn_penalties,
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
    assert not hasattr(model, "coef_")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pair", list(combinations(MAIN, 2)), ids=" x ".join)
def test_what_no_row_names_works(pair):
    if excludes(*pair):
        return
    with pytest.raises(ValueError, match=r"\w") if reasons(*pair) else nullcontext():
        fit(model_with(*pair))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("circumstance", ["missing labels", "stream", "cluster", "learned penalties"])
@pytest.mark.parametrize("name", MAIN)
def test_circumstances_that_no_row_names_work(name, circumstance):
    is_refused = reasons(name, circumstance)
    with pytest.raises((ValueError, AttributeError), match=r"\w") if is_refused else nullcontext():
        ASK[circumstance](model_with(name))


def test_the_page_is_that_of_the_table():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/matrix_page.py"

"""Settings of solvers: their representation, and the parameters that estimators share with them."""

import warnings

import numpy as np
import pytest
from refusals import refusals
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.training import LBFGS, SGD


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("LBFGS()", LBFGS(callback=None)),
        ("SGD(batch_size=4)", SGD(batch_size=4)),
        ("SGD(n_sequences=1000, step_size=0.5)", SGD(step_size=0.5, n_sequences=1000)),
    ],
)
def test_what_is_printed_makes_the_same_again(text, thing):
    assert repr(thing) == text
    assert repr(eval(text)) == text


def test_settings_are_parameters_of_the_estimator():
    crf = HighOrderCRF(solver=SGD(batch_size=4))
    assert repr(crf) == "HighOrderCRF(solver=SGD(batch_size=4))"
    assert repr(clone(crf)) == repr(crf)
    assert crf.set_params(solver__batch_size=8).solver.batch_size == 8


X, Y = [[["a"], ["b"], ["a"]], [["b"]], [["b"], ["a"]]], [["A", "B", "A"], ["B"], ["B", "A"]]
DOORS = [("lbfgs", LBFGS()), ("lbfgs", LBFGS(callback=print)), ("sgd", SGD()), ("sgd", SGD(callback=print))]


@pytest.mark.parametrize(("name", "solver"), DOORS)
@pytest.mark.parametrize("settings", [{"tol": 0.1}, {"tol": 0.0, "max_iter": 3}, {"random_state": 7, "max_iter": 2}])
def test_estimators_settings_are_those_of_any_solver(name, solver, settings):
    """Instances and names of solvers train alike."""
    with warnings.catch_warnings(action="ignore"):
        one, other = (HighOrderCRF(solver=s, **{"random_state": 0} | settings).fit(X, Y) for s in (name, solver))
    np.testing.assert_array_equal(one.coef_.data, other.coef_.data)
    np.testing.assert_array_equal(one.objective_history_, other.objective_history_)


def test_streams_take_the_seed_of_the_estimator():
    def weights(random_state):
        crf = HighOrderCRF(solver=SGD(batch_size=1), random_state=random_state)
        return crf.partial_fit(X, Y).coef_.data

    np.testing.assert_array_equal(weights(1), weights(1))
    assert len({weights(seed).tobytes() for seed in range(10)}) > 1


test_refusals = refusals(
    *((lambda args, solver=solver: solver(*args[:-1], **args[-1]),
       *((TypeError, rf"^{name} has no {of}: pass {of} to the estimator, as in HighOrderCRF\({of}=\.\.\.\)$", [{of: 1}])
         for of in ("tol", "max_iter")),
       (TypeError, "positional argument", [0.001, {}]), (TypeError, f"^{name} has no setting 'step'$", [{"step": 1}]),
       ("callback must be None or a callable, got 3", [{"callback": 3}]))
      for name, solver in (("LBFGS", LBFGS), ("SGD", SGD))),
)  # fmt: skip

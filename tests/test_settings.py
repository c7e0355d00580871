"""Settings of solvers: what they may be, and how they are printed."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.training import LBFGS, SGD

SOLVERS = [LBFGS, SGD]


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("LBFGS()", LBFGS(3e-3, 500)),
        ("LBFGS(tol=0.001)", LBFGS(1e-3)),
        ("LBFGS(tol=0.001)", LBFGS(np.float64(1e-3), np.int64(500))),
        ("LBFGS(callback=print)", LBFGS(callback=print)),
        ("LBFGS(tol=0, max_iter=7)", LBFGS(tol=0, max_iter=7)),
        ("SGD(random_state=0, batch_size=4, average=False)", SGD(batch_size=4, random_state=0, average=False)),
        (
            "SGD(step_size=0.5, adaptive=True, n_sequences=1000)",
            SGD(step_size=0.5, adaptive=True, n_sequences=1000),
        ),
    ],
)
def test_what_is_printed_makes_the_same_again(text, thing):
    assert repr(thing) == text
    assert repr(eval(text)) == text


def test_what_is_printed_is_short():
    crf = HighOrderCRF(solver=SGD(batch_size=4))
    assert repr(crf) == "HighOrderCRF(solver=SGD(batch_size=4))"
    assert repr(clone(crf)) == repr(crf)
    assert len(repr(LBFGS(callback=crf.predict))) < 80


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tol": -1e-9}, "tol must be a finite number >= 0, got -1e-09"),
        ({"tol": np.nan}, "tol must be a finite number >= 0, got nan"),
        ({"tol": np.inf}, "tol must be"),
        ({"tol": "1"}, "tol must be a finite number >= 0, got '1'"),
        ({"tol": None}, "tol must be"),
        ({"tol": [1] * 100}, r"tol must be .{,120}\.\.\.$"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0, got -1"),
        ({"max_iter": 2.5}, "max_iter must be an integer >= 0, got 2.5"),
        ({"max_iter": None}, "max_iter must be"),
        ({"max_iter": True}, "max_iter must be"),
        ({"callback": 3}, "callback must be None or a callable, got 3"),
    ],
)
def test_settings_of_all_solvers_are_checked(solver, settings, message):
    with pytest.raises(ValueError, match=message):
        solver(**settings)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "a", np.random.default_rng(0), True])
def test_seeds_are_checked(seed):
    with pytest.raises(ValueError, match="random_state must be None, an integer from 0 to"):
        SGD(random_state=seed)

"""Settings of solvers: what they may be, and how they are printed."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.training import LBFGS, SGD


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("LBFGS()", LBFGS(3e-3, 500)),
        ("LBFGS(tol=0.001)", LBFGS(1e-3)),
        ("LBFGS(tol=0.001)", LBFGS(np.float64(1e-3), np.int64(500))),
        ("LBFGS(callback=print)", LBFGS(callback=print)),
        ("LBFGS(tol=0, max_iter=7)", LBFGS(tol=0, max_iter=7)),
        ("SGD(random_state=0, batch_size=4)", SGD(batch_size=4, random_state=0)),
        (
            "SGD(step_size=0.5, n_sequences=1000)",
            SGD(step_size=0.5, n_sequences=1000),
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

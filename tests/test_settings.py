"""Settings of objectives, penalties and solvers: what they may be, and how they are printed."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.training import (
    L2,
    LBFGS,
    OWLQN,
    SGD,
    AdaGrad,
    AveragedPerceptron,
    ElasticNet,
    FrankWolfe,
    Hinge,
    LocalFeatureMatching,
    NegativeLogLikelihood,
    NewtonCG,
    Objective,
    Perceptron,
)


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("LBFGS()", LBFGS(3e-3, 500)),
        ("LBFGS(tol=0.001)", LBFGS(1e-3)),
        ("LBFGS(tol=0.001)", LBFGS(np.float64(1e-3), np.int64(500))),
        ("LBFGS(callback=print)", LBFGS(callback=print)),
        ("OWLQN(max_iter=7)", OWLQN(max_iter=7)),
        ("NewtonCG(tol=0)", NewtonCG(tol=0)),
        ("SGD(random_state=0, batch_size=4, average=False)", SGD(batch_size=4, random_state=0, average=False)),
        ("AdaGrad(step_size=0.5, n_sequences=1000)", AdaGrad(step_size=0.5, n_sequences=1000)),
        ("FrankWolfe(random_state=3)", FrankWolfe(random_state=3)),
        ("AveragedPerceptron()", AveragedPerceptron(random_state=None)),
        ("Hinge()", Hinge(1.0)),
        ("Hinge(cost=2.5)", Hinge(2.5)),
        ("Perceptron()", Perceptron()),
        ("NegativeLogLikelihood()", NegativeLogLikelihood()),
        ("LocalFeatureMatching()", LocalFeatureMatching()),
        ("L2(precision=0.25)", L2(0.25)),
        ("L2(precision=array([1., 2.]))", L2([1, 2])),
        ("ElasticNet(precision=1.0, strength=array([0. , 0.5]))", ElasticNet(1, [0, 0.5])),
    ],
)
def test_what_is_printed_makes_the_same_again(text, thing):
    assert repr(thing) == text
    assert repr(eval(text, {**globals(), "array": np.array})) == text


def test_what_is_printed_is_short():
    assert len(repr(L2(np.arange(1e6)))) < 120
    crf = HighOrderCRF(solver=SGD(batch_size=4), penalty=L2(0.5))
    assert repr(crf) == "HighOrderCRF(penalty=L2(precision=0.5), solver=SGD(batch_size=4))"
    assert repr(clone(crf)) == repr(crf)
    assert len(repr(LBFGS(callback=crf.predict))) < 80


def test_own_objectives_are_printed_as_well():
    class Own(Objective):
        def __init__(self, a, b=2, *others, c=3, **more):
            self.a, self.b, self.c = a, b, c

    class Silent(Objective):
        def __init__(self, a):
            self._a = a

    assert repr(Own(1)).endswith("Own(a=1)")
    assert repr(Own("x", None, c=4)).endswith("Own(a='x', b=None, c=4)")
    assert repr(Silent(1)).endswith("Silent()")

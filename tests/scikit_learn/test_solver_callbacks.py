"""Callbacks without scikit-learn 1.9: those of solvers, wrong parameters, and the message for old versions."""

import importlib.util
import sys

import pytest
import sklearn
from internals import FitSteps, SGDMinimizer, _callbacks
from refusals import refusals
from test_callback import ONE_STAGE, TRAININGS, X_DEV, Y_DEV, Recorder, X, fail, fit_without_warnings

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.training import LBFGS, SGD, EarlyStopping


def solver_with(crf, callback):
    """Return the solver of a model with a callback of its own."""
    kind = type(FitSteps(crf).choose_training().solver)
    own = {} if isinstance(crf.solver, str) else vars(crf.solver)
    return (SGD if kind is SGDMinimizer else LBFGS)(**own | {"callback": callback})


@pytest.mark.parametrize("name", ONE_STAGE)
def test_no_solver_takes_a_failure_of_its_callback_for_an_end(name):
    options, y = ONE_STAGE[name]
    crf = HighOrderCRF(**options)
    crf.set_params(solver=solver_with(crf, fail))
    with pytest.raises(StopIteration, match="of a user"):
        crf.fit(X, y)


@pytest.mark.parametrize("name", TRAININGS)
def test_solvers_own_callbacks_stop_and_see_all_weights(name):
    options, y = TRAININGS[name]
    crf, seen = HighOrderCRF(**options), []

    def stop(progress):
        seen.append(progress)
        return progress.n_iter == 2

    stopped = fit_without_warnings(crf.set_params(solver=solver_with(crf, stop)), y)
    assert seen[-1].n_iter == 2
    assert stopped.n_iter_ == 2


def test_the_message_for_old_versions(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    monkeypatch.setattr(sklearn, "__version__", "1.8.0")
    spec = importlib.util.spec_from_file_location("sklearn_hocrf._reading.old_callbacks", _callbacks.__file__)
    old = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(old)
    assert old.CallbacksMixin.__mro__[1:] == (object,)
    with pytest.raises(
        ImportError, match=r"^set_callbacks needs scikit-learn >= 1\.9, but this is scikit-learn 1\.8\.0$"
    ):
        old.CallbacksMixin().set_callbacks(Recorder())


test_refusals = refusals(
    (lambda: EarlyStopping(X_DEV, Y_DEV[1:]), r"EarlyStopping: X has \d+ sequences, but y has \d+$"),
    (lambda params: EarlyStopping(X_DEV, Y_DEV, **params),
     ("patience must be an integer >= 1", {"patience": 0}, {"patience": 1.5}),
     ("scoring must be None, a str or a callable", {"scoring": ["accuracy"]})),
)  # fmt: skip

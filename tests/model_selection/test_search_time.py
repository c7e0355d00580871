"""The time of a search for penalties, by a clock that only search steps and the last fit advance."""

import numpy as np
import pytest
from internals import Fold

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_markov_sequences
from sklearn_hocrf.model_selection import PenaltySearchCV

X, Y = make_markov_sequences(12, length=8, n_labels=3, noise=0.3, random_state=0)
N_FOLDS, PASSES = 2, 20
STEP, FIT = 10.0, 60.0  # seconds of a step, over all folds, and of the last fit: 240 passes of a quarter of a second


@pytest.fixture
def clock(monkeypatch):
    """A list of the present second, of when each step has ended, and of how long the last fit takes."""
    now, ends, step, fit = [0.0], [], Fold.step, HighOrderCRF.fit

    def slow_step(fold, *args, **options):
        now[0] += STEP / N_FOLDS
        ends.append((now[0], fold.origin.steps.estimator.max_order))
        return step(fold, *args, **options)._replace(seconds=STEP / N_FOLDS, n_passes=PASSES)

    def slow_fit(*args, **options):
        now[0] += FIT
        return fit(*args, **options)

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr(Fold, "step", slow_step)
    monkeypatch.setattr(HighOrderCRF, "fit", slow_fit)
    return now, ends


def search(max_time, **options):
    options = {"orders": [1, 2, 3], "refit": False, "tol": 1e-12} | options
    return PenaltySearchCV(HighOrderCRF(), cv=N_FOLDS, max_time=max_time, **options).fit(X, Y)


def orders_of_steps(clock):
    return [order for _, order in clock[1][::N_FOLDS]]


@pytest.mark.parametrize("learn_l1", [False, True])
def test_all_orders_have_a_first_step_and_equal_shares(clock, learn_l1):
    fitted = search(100, learn_l1=learn_l1)
    # 70 s are left for three orders: a step is half completed before 53, then before 75, and before 100
    assert orders_of_steps(clock) == [1, 2, 3, 1, 1, 2, 2, 3, 3, 3]
    assert fitted.cv_results_["max_order"].tolist() == [1] * 3 + [2] * 3 + [3] * 4
    assert clock[0] == [100.0]
    assert (fitted.cv_results_["seconds"] == STEP).all()
    of_first = [0, 3, 6]
    for column in ("sigma_features_0", "sigma_patterns_1", *(["l1_features_0"] if learn_l1 else [])):
        at_first = fitted.cv_results_[column][of_first]
        assert at_first.tolist() == [0.0 if column.startswith("l1") else 1.0] * 3


def test_time_for_the_last_fit_is_kept(clock):
    fitted = search(160, refit=True)
    assert orders_of_steps(clock) == [1, 2, 3, 1, 1, 2, 2, 3, 3, 3]
    assert clock[0] == [160.0]
    assert fitted.refit_time_ == FIT


@pytest.mark.parametrize(("max_time", "tried"), [(1e-6, [1]), (10, [1]), (15, [1, 2]), (20, [1, 2])])
def test_orders_that_are_not_tried_are_named(clock, max_time, tried):
    missing = [order for order in (1, 2, 3) if order not in tried]
    with pytest.warns(UserWarning, match=rf"max_time={max_time:g} was over .* \[{', '.join(map(str, missing))}\]"):
        fitted = search(max_time)
    assert fitted.cv_results_["max_order"].tolist() == tried
    assert orders_of_steps(clock) == tried


@pytest.mark.parametrize("max_time", [30, 60, 90])
def test_the_result_is_at_least_the_best_order_at_the_penalties_of_the_estimator(clock, max_time):
    fitted = search(max_time, learn_l1=True)
    results = fitted.cv_results_
    first = np.flatnonzero(np.diff(results["max_order"], prepend=0))
    best = first[results["mean_test_score"][first].argmax()]
    assert fitted.best_score_ >= results["mean_test_score"][best]
    if max_time == 30:
        assert fitted.best_index_ == best
        assert set(fitted.best_params_["l1_reg"].values()) == {0.0}
        single = search(None, orders=[fitted.best_params_["max_order"]], max_steps=1)
        assert fitted.best_score_ == pytest.approx(single.best_score_, rel=0.02)  # first steps are not precise


@pytest.mark.parametrize(("max_time", "tried"), [(1e-6, [1]), (20, [1] * 2), (35, [1] * 3 + [2])])
def test_rising_orders_begin_while_time_is_left(clock, max_time, tried):
    with pytest.warns(UserWarning, match=rf"before the first step of orders \[{tried[-1] + 1}\].*: increase max_time$"):
        fitted = search(max_time, orders="auto")
    assert fitted.cv_results_["max_order"].tolist() == tried


def test_the_estimate_of_the_time_left_is_that_of_max_time(clock, capsys, monkeypatch):
    monkeypatch.setattr("sklearn_hocrf._estimator.fit.progress._next", -np.inf)
    search(130, refit=True, verbose=1)
    first = capsys.readouterr().err.splitlines()[0]
    assert "order 1, step 1 of at most 20" in first
    assert "10 s, about 2 min left if all steps are needed" in first  # 60 s of steps, 60 s of the last fit

"""What ``verbose`` writes: not too often, and honest about what is left."""

import io
import math
import re

import numpy as np
import pytest
from internals import Forecast, Progress, duration, lines_of, progress, write_line

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_digit_words
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.training import LBFGS

X, Y = make_digit_words(60, random_state=0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still; ``clock[0] += 1`` moves it."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_next", -math.inf)
    return now


def test_at_most_a_line_a_second(clock, capsys):
    written = []
    for number in range(100):
        clock[0] = 0.1 * number
        written.append(write_line(str(number)))
    assert np.flatnonzero(written).tolist() == list(range(0, 100, 10))
    assert capsys.readouterr().err.split() == [str(number) for number in range(0, 100, 10)]


class Broken(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("stream", [None, closed(), Broken()])
def test_no_fit_is_lost_because_nobody_reads_its_progress(clock, monkeypatch, stream):
    """sys.stderr is None in services and under pythonw."""
    monkeypatch.setattr("sys.stderr", stream)
    crf = HighOrderCRF(verbose=1, max_iter=3).fit(X, Y)
    search = PenaltySearchCV(HighOrderCRF(max_iter=3), max_steps=1, cv=2, verbose=1)
    assert crf.n_iter_ == 3
    assert search.fit(X, Y).best_estimator_.n_iter_ == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
def test_the_first_line_of_a_search_tells_the_time_left(capsys):
    PenaltySearchCV(HighOrderCRF(max_iter=3), orders=[0, 1], max_steps=2, cv=2, verbose=1).fit(X, Y)
    first = capsys.readouterr().err.splitlines()[0]
    assert re.match(r"PenaltySearchCV: order 0, step 1 of at most 2, score .*, about .* left if all steps", first)


def test_last_lines_come_early_but_not_in_numbers(clock):
    assert [write_line("", is_last=True) for _ in range(5)] == [True, True, False, False, False]
    clock[0] = 1.0
    assert not write_line("")
    assert write_line("", is_last=True)


def test_searches_of_many_short_fits_write_few_lines(clock, monkeypatch, capsys):
    for number in range(40):
        clock[0] = number / 20
        HighOrderCRF(verbose=1).fit(X[:5], Y[:5])
    assert 2 <= len(capsys.readouterr().err.splitlines()) <= 4


def test_a_short_fit_writes_how_it_begins_and_ends(clock, capsys):
    crf = HighOrderCRF(verbose=1).fit(X, Y)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("HighOrderCRF: iteration 1, objective")
    assert last.startswith(f"HighOrderCRF: {crf.n_iter_} iterations, objective {crf.objective_history_[-1]:.6f}")
    assert last.endswith("0.0 s, converged")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7300, "2 h"),
        (1e6, "11.6 days"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("l1_reg", [0.0, 0.1])
def test_solvers_end_where_they_say(l1_reg):
    told = []
    HighOrderCRF(solver=LBFGS(1e-4, callback=told.append), l1_reg=l1_reg).fit(X, Y)
    small = [one.gradient_norm for one in told]
    assert [value <= one.goal for value, one in zip(small, told, strict=True)] == [False] * (len(told) - 1) + [True]


def forecasts(told, max_iter=1000):
    """Yield what is left, in iterations, and whether that is a bound, after each of the iterations."""
    forecast = Forecast(max_iter)
    for number, one in enumerate(told):
        forecast.add(one, float(number))
        yield forecast.left()


@pytest.mark.parametrize("max_order", [1, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_forecasts_of_what_is_left_are_mostly_right_to_a_factor_of_two_and_a_half(max_order, seed):
    told = []
    words = make_digit_words(60, random_state=seed)
    HighOrderCRF(max_order, solver=LBFGS(1e-4, callback=told.append)).fit(*words)
    for number, (seconds, is_bound) in enumerate(forecasts(told), start=1):
        if len(told) / 3 < number < 0.9 * len(told):
            assert not is_bound
            assert 1 / 2.5 < seconds / (len(told) - number) < 2.5


def test_forecasts_without_a_goal_are_bounds():
    told = [Progress(number, 1.0, np.nan, np.inf) for number in range(1, 31)]
    assert list(forecasts(told, 40))[1:] == [(40 - number, True) for number in range(2, 31)]
    rising = [Progress(number, 1.0, float(number), np.inf, goal=0.5) for number in range(1, 31)]
    assert all(is_bound for _, is_bound in forecasts(rising))
    slow = [Progress(number, 1.0, 1 / number, np.inf, goal=1e-9) for number in range(1, 31)]
    assert list(forecasts(slow, 40))[-1] == (10, True)
    at_once = [Progress(1, 1.0, 0.0, np.inf, goal=0.5)]
    assert list(forecasts(at_once)) == [(math.inf, True)]


def test_lines_that_nobody_sees(capsys):
    lines = lines_of(LBFGS())
    lines.part = "a part"
    assert not lines.write("text")
    assert lines_of(LBFGS()).part == ""
    assert capsys.readouterr().err == ""

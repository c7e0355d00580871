"""The output of ``verbose``: not too frequent, and with a realistic estimate of the remaining time."""

import io
import math
import re

import numpy as np
import pytest
from internals import ProgressLines, duration, progress, write_line

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import make_digit_words
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.training import LBFGS

X, Y = make_digit_words(20, random_state=0)


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


def test_lines_that_nobody_sees(capsys):
    lines = ProgressLines(None)
    lines.part = "a part"
    assert not lines.write("text")
    assert capsys.readouterr().err == ""


def test_lines_and_a_callback(clock, capsys):
    """A callback that stops training does so beside the lines of ``verbose``."""
    crf = HighOrderCRF(solver=LBFGS(callback=lambda progress: progress.n_iter == 2), verbose=1).fit(X, Y)
    assert crf.n_iter_ == 2
    assert "iteration 1, " in capsys.readouterr().err

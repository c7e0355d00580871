"""Tests of calls that must raise errors."""

import re
from functools import partial

import pytest


def refusals(*groups):
    """Return a test of calls that must raise errors; a group is a function, followed by a row for each message.

    A row contains the error (by default, ValueError), a regular expression for the message, and the values with which
    the function is called, one after the other. A row that is only a regular expression is a call without a value.
    """

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize(("call", "error", "words"), [*_cases(groups)])
    def test(call, error, words):
        with pytest.raises(error, match=words):
            call()

    return test


def refusals_of_files(*groups, given=()):
    """Return such a test for functions whose last parameter is ``tmp_path``, and which leave only the given files."""

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize(("call", "error", "words"), [*_cases(groups)])
    def test(call, error, words, tmp_path):
        with pytest.raises(error, match=words):
            call(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} <= {*given}

    return test


def _cases(groups):
    for function, *rows in groups:
        for row in rows:
            words, *values = (row,) if isinstance(row, str) else row
            error = ValueError
            if not isinstance(words, str):
                error, words, *values = row
            name = re.sub(r"\W+", " ", words).strip()[:50] or "refused"
            for call in [partial(function, value) for value in values] or [function]:
                yield pytest.param(call, error, words, id=name)

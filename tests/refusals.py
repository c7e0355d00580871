"""Tests of calls that must be refused."""

import re
from functools import partial

import pytest


def refusals(*groups):
    """Return a test of calls that are refused: a group is a function, and a row for each message.

    A row has the error (ValueError if none is given), a regular expression of the message, and the values with which
    the function is called, one after the other. A row of the message alone is a call without a value.
    """

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize(("call", "error", "words"), [*_cases(groups)])
    def test(call, error, words):
        with pytest.raises(error, match=words):
            call()

    return test


def refusals_of_files(*groups, given=()):
    """Return the same of functions that take ``tmp_path`` last, and leave no files but those with given names."""

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

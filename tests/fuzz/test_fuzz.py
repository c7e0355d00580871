"""A minute of fuzzing, with the same cases in every run, or with those of another ``FUZZ_SEED``.

This folder contains the strategies and the checks of each case.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz.checks import judge
from fuzz.strategies import STRATEGIES

N_CASES = {"model": 60, "spoilt": 80}


@pytest.mark.slow
@pytest.mark.parametrize("name", N_CASES)
def test_a_right_answer_or_a_documented_exception(name):
    @seed(int(os.environ.get("FUZZ_SEED", 0)))
    @settings(
        max_examples=N_CASES[name],
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(STRATEGIES[name])
    def check(case):
        judge(name, case)

    check()

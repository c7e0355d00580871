"""A minute of fuzzing, with the same cases every time, or with those of another ``FUZZ_SEED``.

The strategies and what must be true of each case are in this folder.
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

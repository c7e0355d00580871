"""A minute of fuzzing, with the same cases every time; ``tests/fuzz/run.py`` runs for as long as told.

The strategies and what must be true of each case are in ``tests/fuzz``.
"""

import pytest
from fuzz.checks import judge
from fuzz.strategies import STRATEGIES
from hypothesis import HealthCheck, Phase, given, settings

N_CASES = {  # about five seconds each, and what kernels take to compile
    "chain": 60,
    "segments": 60,
    "pipeline": 25,
    "stream": 30,
    "routes": 30,
    "columns": 40,
    "scores": 100,
}


@pytest.mark.slow
@pytest.mark.needs_jit
@pytest.mark.parametrize("name", N_CASES)
def test_a_right_answer_or_a_documented_exception(name):
    @settings(
        max_examples=N_CASES[name],
        derandomize=True,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(STRATEGIES[name])
    def check(case):
        judge(name, case)

    check()

"""A minute of fuzzing, with the same cases every time; ``tests/fuzz/run.py`` runs for as long as told.

The strategies and what must be true of each case are in ``tests/fuzz``.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz.checks import judge
from fuzz.run import Tally
from fuzz.strategies import STRATEGIES
from hypothesis import HealthCheck, Phase, given, settings

N_CASES = {"model": 60, "extractor": 100, "file": 150, "stream": 30, "routes": 40, "training": 25, "spoilt": 80}


@pytest.mark.slow
@pytest.mark.parametrize("name", N_CASES)
def test_a_right_answer_or_a_documented_exception(name):
    @settings(
        max_examples=N_CASES[name],
        derandomize=True,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(STRATEGIES[name])
    def check(case):
        judge(name, case)

    check()


@pytest.mark.parametrize(
    ("deed", "kind"),
    [("os.kill(os.getpid(), signal.SIGSEGV)", "crash"), ("time.sleep(60)", "hang"), ("1 / 0", "ZeroDivisionError")],
)
@pytest.mark.slow
def test_crashes_hangs_and_other_exceptions_are_findings(deed, kind, tmp_path):
    program = f"""
import os, signal, time
from pathlib import Path
from fuzz import checks, run
checks.CHECKS["file"] = lambda case: {deed}
run.work(Path({str(tmp_path)!r}), 0, 0, ["file"], [], 5)  # no time at all, and yet one case
"""
    tests = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, env=environment)
    tally = Tally(tmp_path)
    tally.read(tmp_path)
    if kind == "ZeroDivisionError":
        assert done.returncode == 0, done.stderr
    else:
        tally.died(tmp_path, done.returncode, done.stderr)
    assert len(tally.findings) == 1
    assert kind in next(iter(tally.findings))
    assert "FileCase(" in next(iter(tally.findings.values())).read_text()
    assert "FINDING" in tally.table()

"""Type checkers infer the types in ``user_script``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from internals import AnswersMixin, PredictionsMixin, TagSegmentsMixin, _methods_of_X

from sklearn_hocrf.crf import HighOrderCRF

SCRIPT = Path(__file__).with_name("user_script.py")


@pytest.mark.slow  # mypy reads all libraries anew; .ci/run checks the script after the package
def test_a_script_of_a_user(tmp_path):
    """mypy finds all types that the script states, and the errors that it marks; pyright does, too, by hand."""
    pytest.importorskip("mypy")
    cache = os.environ.get("MYPY_CACHE_DIR") or tmp_path / "cache"
    options = ["--config-file=", "--cache-dir", cache, "--ignore-missing-imports", "--warn-unused-ignores"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_type_checkers_know_all_methods_that_pipelines_pass_on():
    for name in _methods_of_X(HighOrderCRF):
        assert any(hasattr(mixin, name) for mixin in (AnswersMixin, PredictionsMixin, TagSegmentsMixin)), name

"""The examples of docs/develop/worked_examples.md apply to the package and have the effects that the page describes."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from budget import ROOT

from sklearn_hocrf._engine import kernels as _kernels

PAGE = (ROOT / "docs" / "develop" / "worked_examples.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"\n## (.+?)\n.*?```diff\n(.*?)```\n.*?```python\n(.*?)```\n", PAGE, re.DOTALL)

RUN = "import runpy, sys; [runpy.run_path(program) for program in sys.argv[1:]]"


@pytest.mark.slow
def test_examples(tmp_path):
    """All diffs change one copy of the package, and one process runs all programs, as imports take longest."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # this is a copy
    env |= {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent), "PYTHONPATH": str(tmp_path)}

    def run(command, given=None):
        done = subprocess.run(command, input=given, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8")
        assert not done.returncode, done.stderr

    package = tmp_path / "sklearn_hocrf"
    shutil.copytree(ROOT / "sklearn_hocrf", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(package / "_engine" / "kernels")  # which no example changes: those of the tests are compiled
    (package / "_engine" / "kernels.py").write_text(f"__path__ = {[*_kernels.__path__]}", encoding="utf-8")
    for title, text, program in EXAMPLES:
        (tmp_path / f"{title}.py").write_text(program, encoding="utf-8")
        run(["git", "apply", "-"], text)
    run([sys.executable, "-c", RUN, *(f"{title}.py" for title, *_ in EXAMPLES)])

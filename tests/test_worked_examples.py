"""The examples of docs/develop/worked_examples.md apply to the package, and do what the page says."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from budget import ROOT

from sklearn_hocrf import _kernels

PAGE = (ROOT / "docs" / "develop" / "worked_examples.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"\n## (.+?)\n.*?```diff\n(.*?)```\n.*?```python\n(.*?)```\n", PAGE, re.DOTALL)


def test_the_table_counts_the_files():
    counts = {title.lower(): text.count("\n+++ b/sklearn_hocrf/") for title, text, _ in EXAMPLES}
    assert len(counts) == 3
    assert counts == {title: int(n) for title, n in re.findall(r"^\| \[(.+?)\]\(#.+?\) \| (\d+) \|$", PAGE, re.M)}
    assert max(counts.values()) <= 5


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example[0])
def test_example(example, tmp_path):
    _, text, program = example
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "sklearn_hocrf", tmp_path / "sklearn_hocrf", ignore=ignored)
    shutil.rmtree(tmp_path / "sklearn_hocrf" / "_kernels")  # which no example changes: those of the tests are compiled
    (tmp_path / "sklearn_hocrf" / "_kernels.py").write_text(f"__path__ = {[*_kernels.__path__]}", encoding="utf-8")

    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # it is a copy
    env |= {"PYTHONPATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}

    def run(command, given):
        done = subprocess.run(command, input=given, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8")
        assert not done.returncode, done.stderr

    run(["git", "apply", "-"], text)
    run([sys.executable, "-"], program)

"""The examples of docs/develop/worked_examples.md apply to the package and have the effects that the page describes."""

import os
import re
import shutil
import subprocess
import sys

from budget import ROOT

from sklearn_hocrf._engine import kernels as _kernels

PAGE = (ROOT / "docs" / "develop" / "worked_examples.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"\n## (.+?)\n.*?```diff\n(.*?)```\n.*?```python\n(.*?)```\n", PAGE, re.DOTALL)


RUN = """
import sys
for program in sys.argv[1:]:
    for name in [*sys.modules]:
        if name.startswith("sklearn_hocrf") and "_engine.kernels" not in name:
            del sys.modules[name]
    sys.path.insert(0, program.removesuffix(".py"))  # the changed copy of the package is in this folder
    with open(program, encoding="utf-8") as file:
        exec(compile(file.read(), program, "exec"), {"__name__": "__main__"})
"""


def test_examples(tmp_path):
    """One process runs all programs, each with its own copy of the package: other libraries are imported once."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}  # these are copies
    env |= {"GIT_CEILING_DIRECTORIES": str(tmp_path)}

    def run(command, folder, given=None):
        done = subprocess.run(command, input=given, cwd=folder, env=env, capture_output=True, encoding="utf-8")
        assert not done.returncode, done.stderr

    for title, text, program in EXAMPLES:
        package = tmp_path / title / "sklearn_hocrf"
        shutil.copytree(ROOT / "sklearn_hocrf", package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(package / "_engine" / "kernels")  # which no example changes: those of the tests are compiled
        (package / "_engine" / "kernels.py").write_text(f"__path__ = {[*_kernels.__path__]}", encoding="utf-8")
        (tmp_path / f"{title}.py").write_text(program, encoding="utf-8")
        run(["git", "apply", "-"], tmp_path / title, text)
    run([sys.executable, "-c", RUN, *(f"{title}.py" for title, *_ in EXAMPLES)], tmp_path)

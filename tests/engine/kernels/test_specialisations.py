"""The number of versions of each kernel, each of which takes seconds to compile: no change may add one unnoticed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sklearn_hocrf

PROGRAM = Path(__file__).parents[2] / "all_kernels.py"  # of a fresh process: what other tests compile does not matter
MOST_OF_A_KERNEL = (
    6  # lanes and single numbers, each plain and dual; wide numbers; as a part of kernels of whole epochs
)
MOST = {"toys": 98, "extremes": 115}  # of all kernels together, with an empty cache (a full one: 74 and 92)


@pytest.mark.slow  # compiles everything
def test_compiled_versions():
    package = Path(sklearn_hocrf.__file__).parents[1]  # that of these tests, whichever is installed
    environment = os.environ | {"PYTHONPATH": str(package)}
    run = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=True, env=environment)
    toys, other_sizes, extremes = json.loads(run.stdout)
    assert len(toys) > 20  # of all kinds, else there is nothing to bound
    assert other_sizes == toys
    assert toys.keys() <= extremes.keys()
    assert max(extremes.values()) <= MOST_OF_A_KERNEL
    assert sum(toys.values()) <= MOST["toys"]
    assert sum(extremes.values()) <= MOST["extremes"]

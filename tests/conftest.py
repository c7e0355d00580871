"""Settings and fixtures that all tests share: the numba cache, hypothesis, the optional data.

pytest imports this file before any test module, so the environment variables that it sets apply to the imports of numba
and scipy.
"""

import gc
import hashlib
import importlib.metadata
import importlib.util
import math
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sklearn
from bare import runnable
from hypothesis import HealthCheck, settings
from sklearn.utils.fixes import parse_version

KERNELS = Path(importlib.util.find_spec("sklearn_hocrf").origin).parent / "_engine" / "kernels"


def numba_cache_dir():
    """Return a cache folder for the current state of the kernels and of numba's switches.

    Numba detects stale machine code by the file of the kernel alone, and ignores switches such as NUMBA_BOUNDSCHECK. A
    folder whose name depends on all of these cannot be stale. If NUMBA_CACHE_DIR is set, the user is responsible for
    the folder; the workers of pytest-xdist find the variable set.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return os.environ["NUMBA_CACHE_DIR"]
    state = hashlib.sha256(importlib.metadata.version("numba").encode())
    for path in sorted(KERNELS.rglob("*.py")):
        state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for name, value in sorted(os.environ.items()):
        if name.startswith("NUMBA_"):
            state.update(f"{name}={value}\0".encode())
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(cache) / "sklearn_hocrf-tests" / f"numba-{state.hexdigest()[:16]}"


os.environ["NUMBA_CACHE_DIR"] = str(numba_cache_dir())
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else scikit-learn skips one of its estimator checks

LONGEST_MESSAGE = 400  # characters, of errors and warnings that tests meet


def pytest_configure(config):
    """Draw the same examples in each run, unless a seed is given; compile kernels before processes share the tests."""
    settings.register_profile(
        "sklearn_hocrf",
        deadline=None,  # the first example may have to compile a kernel
        derandomize=config.getoption("--hypothesis-seed") is None,
        max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", 6)),
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
    settings.load_profile("sklearn_hocrf")
    if getattr(config.option, "numprocesses", 0):
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # each of the processes would start threads for all cores
    shares_all_tests = config.args_source == config.ArgsSource.TESTPATHS and getattr(config.option, "numprocesses", 0)
    if shares_all_tests and not Path(os.environ["NUMBA_CACHE_DIR"]).exists():
        compile_kernels()


def compile_kernels():
    """Compile all kernels with two processes, from both ends: workers would compile the same ones at the same time."""
    command = [sys.executable, str(Path(__file__).with_name("all_kernels.py"))]
    environment = os.environ | {"PYTHONPATH": str(KERNELS.parents[2])}  # the package that the tests import
    options = {"env": environment, "stdout": subprocess.DEVNULL}
    for process in [subprocess.Popen([*command, way], **options) for way in ("--forwards", "--backwards")]:
        process.wait()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from the imported modules and the list of tests, which stay until the end."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 50, 1000)  # collections would take 4 % of the time of the tests
    return result


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Exclude doctests in the test folder: to look for them, pytest would import each helper once more."""
    return [found for found in (yield) if type(found).__name__ != "DoctestModule"]


def pytest_collection_modifyitems(items):
    has_callbacks = parse_version(sklearn.__version__) >= parse_version("1.9")
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            # not a mark: pytest 9.2 fails to report that a doctest without a line number was skipped
            is_left_out = item.name.endswith("EarlyStopping") and not has_callbacks
            item.dtest.examples = [] if is_left_out else runnable(item.dtest.examples)


def _fill_unfilled(caught, exc_info, fill=pytest.ExceptionInfo.fill_unfilled):
    """Keep the exception that ``pytest.raises`` has caught, and fail if the package raised it with a long message."""
    fill(caught, exc_info)
    traceback = exc_info[2]
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback.tb_frame.f_globals.get("__name__", "").startswith("sklearn_hocrf"):
        assert len(str(exc_info[1])) <= LONGEST_MESSAGE, str(exc_info[1])


pytest.ExceptionInfo.fill_unfilled = _fill_unfilled


@pytest.fixture(autouse=True, scope="session")
def warnings_are_short():
    """Fail if a warning of the package is too long."""
    from sklearn_hocrf._data import messages as module

    def warn(message, category, stacklevel):
        assert len(str(message)) <= LONGEST_MESSAGE, message
        warnings.warn(message, category, stacklevel=stacklevel + 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "warnings", SimpleNamespace(warn=warn))
        yield


@pytest.fixture
def all_lines(monkeypatch):
    """Make ``verbose`` write a line for each iteration, however short."""
    monkeypatch.setattr("sklearn_hocrf._estimator.fit.progress.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("sklearn_hocrf._estimator.fit.progress._next", -math.inf)


@pytest.fixture
def many_chunks(monkeypatch):
    """Split small batches, which are otherwise one chunk, among threads."""
    from internals import AgedPlan, SegmentPlan, schedule

    monkeypatch.setattr(schedule, "_TOKENS_OF_THREAD", 10)
    for plan in schedule.Plan, SegmentPlan, AgedPlan:
        monkeypatch.setattr(plan, "default_schedule", replace(plan.default_schedule, tile_sizes=(1, 1), tile_rows=1))


@pytest.fixture(scope="session")
def data_dir():
    """The folder of the optional real data; tests that use it are skipped if it is absent."""
    named = os.environ.get("SKLEARN_HOCRF_DATA")
    if named:
        if not Path(named).is_dir():
            pytest.fail(f"SKLEARN_HOCRF_DATA={named!r} is not a folder")
        return Path(named)
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("optional real data not found: set SKLEARN_HOCRF_DATA to its folder")
    return folder

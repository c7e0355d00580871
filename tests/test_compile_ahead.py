"""The process that compiles ahead of a first fit: when it starts, what it compiles, and when it ends."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import sklearn_hocrf
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf._estimator import compile_ahead
from sklearn_hocrf._kernels._jit import waiting

pytestmark = pytest.mark.needs_jit

ROOT = Path(sklearn_hocrf.__file__).parents[1]
X, y = [[["a"], ["b"]], [["b"]]], [["X", "Y"], ["Y"]]


@pytest.fixture
def started(monkeypatch):
    """Commands of the processes that are started, which are none; this process may start one."""
    commands = []

    class Process:
        def __init__(self, command, **options):
            commands.append((command, options))

    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr("atexit.register", lambda *_: None)
    monkeypatch.setattr(compile_ahead, "threads_for", lambda n_jobs: 2)
    monkeypatch.setattr(compile_ahead, "_is_allowed", True)
    monkeypatch.setattr(waiting, "ahead", None)
    monkeypatch.delenv(compile_ahead.SWITCH)
    return commands


@pytest.mark.parametrize(("model", "is_segments"), [(HighOrderCRF, False), (HighOrderSemiCRF, True)])
def test_the_first_missing_kernel_starts_one_process(started, model, is_segments):
    model(max_iter=50).fit(X, y)
    if waiting.ahead is not None:  # all kernels were there
        waiting.ahead()
    model(max_iter=50).fit(X, y)
    assert waiting.ahead is None
    [(command, options)] = started
    assert command[0] == sys.executable
    assert command[2].endswith(f"first_steps({is_segments})")
    assert str(ROOT) in [str(options["cwd"]), *options["env"]["PYTHONPATH"].split(os.pathsep)]


def in_a_worker(monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")


def switched_off(monkeypatch):
    monkeypatch.setenv(compile_ahead.SWITCH, "0")


def with_one_processor(monkeypatch):
    monkeypatch.setattr(compile_ahead, "threads_for", lambda n_jobs: 1)


def embedded(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")


def without_executable(monkeypatch):
    monkeypatch.setattr(sys, "executable", None)


@pytest.mark.parametrize("state", [in_a_worker, switched_off, with_one_processor, embedded, without_executable])
def test_no_process_is_started(started, monkeypatch, state):
    state(monkeypatch)
    compile_ahead.prepare(False)
    waiting.ahead()
    assert started == []
    assert waiting.ahead is None


def test_a_process_that_cannot_be_started_is_no_error(started, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    compile_ahead.prepare(False)
    waiting.ahead()


def test_one_process_for_a_folder(tmp_path):
    pytest.importorskip("fcntl", reason="files cannot be locked")
    for _ in range(2):
        with compile_ahead.alone_in(tmp_path) as first, compile_ahead.alone_in(tmp_path) as second:
            assert (first, second) == (True, False)


def test_workers_of_joblib_are_workers():
    """So that each of many does not start its own."""
    from joblib import Parallel, delayed

    names = Parallel(2, backend="loky")(delayed(lambda: multiprocessing.current_process().name)() for _ in range(2))
    assert "MainProcess" not in names
    assert multiprocessing.current_process().name == "MainProcess"


STARTER = """
import atexit, time
from sklearn_hocrf._estimator import compile_ahead
from sklearn_hocrf._kernels._jit import waiting
compile_ahead.threads_for = lambda n_jobs: 2
atexit.register = lambda end, process: print(process.pid, flush=True)  # so that it is not killed at the end
compile_ahead.prepare(False)
waiting.ahead()
time.sleep(600)
"""


def is_running(pid):
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_it_ends_with_its_parent(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path), compile_ahead.SWITCH: "1"}
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTER], env=environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    end = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(pid)


FIRST = """
import sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from sklearn_hocrf import {model}
from sklearn_hocrf._estimator import compile_ahead
compile_ahead.threads_for = lambda n_jobs: 2
{model}(max_iter=2).fit([[["a"], ["b"]], [["b"]]], [["B", "I"], ["O"]])
from sklearn_hocrf._warm_up import kernels
folder = next(iter(kernels().values())).stats.cache_path
while not Path(folder, "ahead.lock").exists():
    time.sleep(0.1)
is_alone = False
while not is_alone:
    time.sleep(0.1)
    with compile_ahead.alone_in(folder) as is_alone:
        pass
"""
NEXT = """
import warnings
warnings.simplefilter("ignore")
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf._warm_up import kernels
X, y = [[{"a": 1.0}, {"b": 1.0}, {"b": 1.0}], [{"b": 1.0}]], [["B", "I", "O"], ["O"]]
semicrf = HighOrderSemiCRF(max_iter=2, scheme="bio").fit(X, y)
crf = HighOrderCRF(max_iter=2, constraints="bio").fit(X, y)
semicrf.predict(X), crf.predict(X), model.predict_nbest(X, 2), model.sample(X, 2)
model.predict_segments(X, with_probability=True), model.predict_marginals(X)
print([name for name, kernel in kernels().items() if kernel.stats.cache_misses])
"""


@pytest.mark.slow  # compiles anew
@pytest.mark.parametrize(("model", "variable"), [("HighOrderCRF", "crf"), ("HighOrderSemiCRF", "semicrf")])
def test_next_steps_compile_nothing(tmp_path, model, variable):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path), compile_ahead.SWITCH: "1"}
    options = {"env": environment, "cwd": tmp_path, "check": True, "capture_output": True, "text": True, "timeout": 500}
    subprocess.run([sys.executable, "-c", FIRST.format(model=model)], **options)
    statements = NEXT.replace("model.", f"{variable}.")
    assert subprocess.run([sys.executable, "-c", statements], **options).stdout == "[]\n"

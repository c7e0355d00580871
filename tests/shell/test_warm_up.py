"""Compilation of kernels in advance: it is complete, and kernels in read-only folders are used."""

import ast
import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numba
import pytest
from internals import kernels
from test_architecture import KERNELS, jitted_functions
from test_kernel_cache import TOY, import_anew

import sklearn_hocrf

PACKAGE = Path(sklearn_hocrf.__file__).parent
FIT = """
import warnings
warnings.simplefilter("error")
import sklearn_hocrf
from sklearn_hocrf._shell.warm_up import kernels
X, y = [[["a"], ["b"], ["b"]], [["b"]]], [["X", "Y", "Y"], ["Y"]]
model = sklearn_hocrf.HighOrderCRF(max_order=2).fit(X, y)
print(model.predict(X), sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels().values()))
"""
WARM_UP = """
import json, sys
from sklearn_hocrf._shell import warm_up as _warm_up
counts = []
done = _warm_up.warm_up(lambda *count: counts.append(count))
json.dump([done.n_versions, done.n_compiled, _warm_up.compiled(), counts], sys.stdout)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A file of kernels, with a function that makes a folder one that cannot be written."""
    monkeypatch.syspath_prepend(PACKAGE / "_engine" / "kernels")
    monkeypatch.delitem(sys.modules, "_jit", raising=False)  # which warns once
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    numba.config.reload_config()  # otherwise, the next compilation reloads it if a test has changed variables
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    path, locked, write = tmp_path / "toy.py", [], tempfile.TemporaryFile
    path.write_text(TOY)

    def refuse(*args, dir, **options):  # which is how numba finds out
        if any(Path(dir).is_relative_to(folder) for folder in locked):
            raise PermissionError(dir)
        return write(*args, dir=dir, **options)

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    return path, locked.append


def use(path, names=("second",)):
    """Call kernels of a file that is imported anew; return how many of these come from a disk cache."""
    module = import_anew(path)
    found = [getattr(module, name) for name in names]
    assert [kernel(1) for kernel in found] == [{"first": 2, "second": 4}[name] for name in names]
    return [sum(kernel.stats.cache_hits.values()) for kernel in found]


@pytest.mark.parametrize("place", ["beside", "variable"])
def test_a_folder_that_cannot_be_written_is_read(toy, tmp_path, monkeypatch, place):
    path, lock = toy
    if place == "variable":
        monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "kernels"))
    assert use(path) == [0]
    lock(tmp_path)
    with warnings.catch_warnings(action="error"):
        assert use(path) == [1]
    for file in tmp_path.rglob("*.nbc"):
        file.write_bytes(b"damaged")
    remedy = "set the environment variable NUMBA_CACHE_DIR to a writable folder"
    if place == "variable":
        remedy = f"NUMBA_CACHE_DIR={tmp_path / 'kernels'} cannot be written, .* lacks .*python -m sklearn_hocrf warm-up"
    with pytest.warns(UserWarning, match=remedy):
        assert use(path) == [0]


def forget_that_one_is_root():
    """Take from a process that is about to start what lets root write to folders that are read-only."""
    drop_from_bounding_set, override = 24, 1
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(drop_from_bounding_set, override, 0, 0, 0):
        os._exit(3)


def set_mode(folder, mode):
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(mode)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="modes of folders, and what root may, are those of Linux")
def test_fit_and_predict_from_a_read_only_folder_compile_nothing(tmp_path):
    """A copy of the package, and a copy of the kernels that have been compiled for it elsewhere; all else is closed."""
    exec(FIT, {})  # so that they have been
    site, folder, closed = tmp_path / "site", tmp_path / "kernels", tmp_path / "closed"
    package = site / "sklearn_hocrf"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    name = "kernels_" + hashlib.sha1(str(package / "_engine" / "kernels").encode()).hexdigest()  # as numba makes it
    source = next(iter(kernels().values())).stats.cache_path
    shutil.copytree(source, folder / name, ignore=lambda _, names: [n for n in names if ".nb" not in n])
    closed.touch()
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), str(closed))
    set_mode(tmp_path, 0o555)
    try:
        process = subprocess.run(
            [sys.executable, "-c", FIT],
            env=os.environ | homes | {"PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(folder)},
            cwd=site,
            capture_output=True,
            text=True,
            timeout=300,
            preexec_fn=forget_that_one_is_root,
        )
    finally:
        set_mode(tmp_path, 0o755)
    if process.returncode == 3:
        pytest.skip("root cannot give up its right to write everywhere")
    assert (process.stdout, process.stderr) == ("[['X', 'Y', 'Y'], ['Y']] 0\n", "")


@pytest.mark.slow
def test_no_kernel_is_forgotten():
    """Each one is compiled by a warm-up, but for those that only other kernels call."""
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    options = {"capture_output": True, "text": True, "check": True, "env": environment}

    def warm_up():
        return json.loads(subprocess.run([sys.executable, "-c", WARM_UP], **options).stdout)

    n_versions, n_compiled, compiled, counts = warm_up()
    named, called = set(), set()
    for file, source in KERNELS.items():
        stem = Path(file).stem
        functions = jitted_functions(ast.parse(source))
        if not stem.startswith("_"):
            named |= {f"{stem}.{name}" for name in functions if not name.startswith("_")}
        for function in functions.values():
            inner = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
            called |= inner - {function.name}
    assert named == kernels().keys()
    assert {name for name in named - compiled.keys() if name.split(".")[1] not in called} == set()
    assert n_versions >= sum(compiled.values()) > 60
    assert [n_done for n_done, _, _ in counts] == list(range(len(counts)))
    assert {n_models for _, n_models, _ in counts} == {len(counts) - 1}
    assert counts[-1][2] == sum(compiled.values())
    assert n_compiled == 0 or warm_up()[1] == 0  # all are kept

"""Kernels without a disk cache, with a damaged cache, and with a cache that cannot be written.

Most tests compile a one-line kernel in a separate file, because they test only the decorator, which all kernels share
(``test_architecture`` checks this).
"""

import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import warnings
from itertools import product
from pathlib import Path

import numba
import pytest

import sklearn_hocrf
from sklearn_hocrf._engine.kernels import _jit

PACKAGE = Path(sklearn_hocrf.__file__).parent
TOY = """
from _jit import njit  # not by its full name: the package takes longer to import than all else here

@njit(cache=True, nogil=True, error_model="numpy")
def first(x):
    return x + 1

@njit(cache=True, nogil=True, error_model="numpy")
def second(x):
    return 2 * first(x)
"""
HOMES = "HOME", "USERPROFILE", "XDG_CACHE_HOME", "LOCALAPPDATA", "NUMBA_CACHE_DIR"
FIT = """
import warnings
with warnings.catch_warnings(record=True, action="always") as caught:
    import sklearn_hocrf
    import sklearn_hocrf.metrics
    assert not caught, caught[0]
model = sklearn_hocrf.HighOrderCRF(max_iter=50).fit([[["a"], ["b"]], [["b"]]], [["X", "Y"], ["Y"]])
print(model.predict([[["b"], ["a"]]]))
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A file of kernels whose cache is in ``tmp_path / "cache"``."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))  # numba may read its variables again
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be stale where tests change the file at once
    monkeypatch.syspath_prepend(PACKAGE / "_engine" / "kernels")
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    return path


def import_anew(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call_anew(path):
    """Return the answer of a kernel, how often it came from the cache, and warnings: all as in a new process."""
    sys.modules.pop("_jit", None)  # it warns once, and remembers the rights of folders
    with warnings.catch_warnings(record=True, action="always") as caught:
        kernel = import_anew(path).second
        return kernel(1), kernel.stats.cache_hits.total(), [str(warning.message) for warning in caught]


def run(statements, folder, **environment):
    """Run statements in a new process; return its output and the texts of its UserWarnings."""
    blocked = folder / "file"  # a file where a folder should be stops root as well, whom permissions do not
    blocked.touch()
    homes = dict.fromkeys(HOMES, str(blocked))
    path = os.pathsep.join([str(folder), str(PACKAGE / "_engine" / "kernels")])
    process = subprocess.run(
        [sys.executable, "-c", statements],
        env=os.environ | homes | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip(), [line for line in process.stderr.splitlines() if "UserWarning" in line]


def test_kernels_do_not_run_as_python(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(ImportError, match="unset the variable NUMBA_DISABLE_JIT"):
        _jit.njit(cache=True)


@pytest.mark.slow
def test_what_works_without_the_compiler_of_numba():
    """Of the modules those that the page names; all others say which variable to unset."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "guide" / "limits.md").read_text(encoding="utf-8")
    named = re.search(r"NUMBA_DISABLE_JIT`\*\*, you can import only the modules ([^.]+)\.", page)[1]
    golden = Path(__file__).parents[2] / "golden" / "tagger-names-1.hocrf"
    program = f"""if True:
        import importlib, pkgutil
        import sklearn_hocrf
        def works(name):
            try:
                importlib.import_module("sklearn_hocrf." + name)
            except ImportError as error:
                assert "unset the variable NUMBA_DISABLE_JIT" in str(error), error
                return False
            return True
        names = [module.name for module in pkgutil.iter_modules(sklearn_hocrf.__path__) if module.name[0] != "_"]
        print(*filter(works, names))
        try:
            sklearn_hocrf.HighOrderCRF
        except ImportError as error:
            print("HighOrderCRF:", error)
        from sklearn_hocrf import datasets, tagger, text
        (words, *_), _ = datasets.make_name_sentences(2)
        tokens, = text.tokenize([" ".join(words)])
        print(*tagger.Tagger({str(golden)!r}).predict(tokens))
    """
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    modules, estimator, labels = run.stdout.splitlines()
    assert sorted(modules.split()) == sorted(re.findall(r"`(\w+)`", named))
    assert re.match("HighOrderCRF: .* NUMBA_DISABLE_JIT", estimator)
    assert len(labels.split()) > 2


@pytest.mark.slow
def test_code_of_imported_files_counts_and_times_do_not(tmp_path):
    """A kernel calls one of another file: numba's own cache would keep the old code of that."""
    package = tmp_path / "package"
    package.mkdir()
    lines = 'from _jit import njit\n{}\n@njit(cache=True, nogil=True, error_model="numpy")\ndef {}(x):\n    return {}\n'
    for name, source in {
        "inner": lines.format("", "inner", "x + 1"),
        "middle": "from .inner import inner\n",
        "outer": lines.format("from .middle import inner", "outer", "2 * inner(x)"),
        "__init__": "",
    }.items():
        (package / f"{name}.py").write_text(source)
    call = "from package.outer import outer; print(outer(1), sum(outer.stats.cache_hits.values()))"

    def call_anew():
        return run(call, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))[0]

    assert [call_anew(), call_anew()] == ["4 0", "4 1"]
    for path in package.glob("*.py"):
        os.utime(path, (1e9, 1e9))
    assert call_anew() == "4 1"
    (package / "inner.py").write_text((package / "inner.py").read_text().replace("x + 1", "x + 100"))
    assert [call_anew(), call_anew()] == ["202 0", "202 1"]


def test_damaged_entries_are_compiled_again(toy):
    assert [call_anew(toy), call_anew(toy)] == [(4, 0, []), (4, 1, [])]
    damages = [lambda b: b[:-1], lambda b: b"", lambda b: bytes(len(b))]
    for damage, kind in product(damages, ["nbi", "nbc"]):
        files = [*toy.parent.rglob(f"*.{kind}")]
        assert len(files) >= 2
        for file in files:
            file.write_bytes(damage(file.read_bytes()))
        assert call_anew(toy) == (4, 0, []), (damages.index(damage), kind)
        assert call_anew(toy) == (4, 1, [])  # and the cache is whole again


def test_nothing_can_be_written(toy, tmp_path, monkeypatch):
    for name in "cache", "__pycache__":
        (tmp_path / name).touch()
    for name in HOMES:
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    answer, n_hits, (warned,) = call_anew(toy)
    assert (answer, n_hits) == (4, 0)
    assert "NUMBA_CACHE_DIR" in warned
    assert "no folder can be written" in warned


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files")
def test_full_disk_leaves_no_index_of_stale_code(toy):
    """If the index were written first, it might name the code of an older version of the file."""
    import resource

    toy.write_text(TOY.replace("x + 1", "x + 5"))
    assert call_anew(toy) == (12, 0, [])
    toy.write_text(TOY)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        answer, n_hits, (warned,) = call_anew(toy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (answer, n_hits) == (4, 0)
    assert "OSError" in warned
    assert f"{numba.config.CACHE_DIR} cannot be written, or has no room" in warned
    assert call_anew(toy) == (4, 0, [])
    assert call_anew(toy) == (4, 1, [])


SHIP = """
import json, os, llvmlite, toy
from pathlib import Path
from llvmlite.binding import get_process_triple
assert toy.second(1) == 4
target = {"triple": get_process_triple(), "cpu": "x86-64", "features": os.environ["NUMBA_CPU_FEATURES"]}
(folder,) = Path("cache").iterdir()
(folder / "target.json").write_text(json.dumps(target | {"llvmlite": llvmlite.__version__}))
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """A folder with the kernels of the toy, compiled for the oldest processors of this kind."""
    if platform.machine() != "x86_64" or not sys.platform.startswith("linux"):
        pytest.skip("kernels are shipped for Linux on x86-64 alone")
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "toy.py").write_text(TOY)
    target = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+64bit,+cmov,+sse,+sse2"}
    run(SHIP, folder, NUMBA_CACHE_DIR=str(folder / "cache"), **target)
    (kernels,) = (folder / "cache").iterdir()
    (kernels / "__init__.py").touch()
    return kernels


@pytest.fixture
def companion(toy, shipped, tmp_path, monkeypatch):
    """The folder of the distribution of shipped kernels, where Python finds it."""
    folder = shutil.copytree(shipped, tmp_path / "companion" / "sklearn_hocrf_kernels")
    monkeypatch.syspath_prepend(folder.parent)
    monkeypatch.syspath_prepend(toy.parent)  # kernels name their module
    return folder


def change_target(folder, **changes):
    path = folder / "target.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_shipped_kernels_are_not_compiled(toy, companion, tmp_path):
    assert call_anew(toy) == (4, 1, [])
    assert not list((tmp_path / "cache").rglob("*.nb?"))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder, _: change_target(folder, features="+64bit,+sse2,+a-feature-of-no-processor"),
        lambda folder, _: change_target(folder, llvmlite="0.1"),
        lambda folder, _: change_target(folder, cpu="x86-64-v4"),
        lambda folder, _: (folder / "target.json").write_text("{"),
        lambda folder, _: [path.write_bytes(path.read_bytes()[:-9]) for path in folder.glob("*.nbc")],
        lambda folder, _: [path.write_bytes(b"") for path in folder.glob("*.nbi")],
        lambda folder, _: folder.chmod(0o777),
        lambda folder, patch: patch.setenv("SKLEARN_HOCRF_NATIVE_KERNELS", "1"),
        lambda folder, patch: patch.setattr("numba.config.BOUNDSCHECK", 1),
        lambda folder, _: (folder.parents[1] / "toy.py").write_text(TOY + "# another version of the package"),
    ],
    ids=["feature", "llvmlite", "processor", "target", "data", "index", "rights", "native", "bounds", "version"],
)
def test_other_shipped_kernels_are_compiled(toy, companion, tmp_path, monkeypatch, change):
    """Above all a feature that the host lacks: code for it would end the process."""
    assert call_anew(toy) == (4, 1, [])
    change(companion, monkeypatch)
    assert call_anew(toy)[:2] == (4, 0)
    assert list((tmp_path / "cache").rglob("*.nbc"))
    assert call_anew(toy)[:2] == (4, 1)  # from the user's folder


@pytest.mark.parametrize("name", ["FunctionCache", "NullCache"])
def test_numba_whose_internals_have_changed(toy, monkeypatch, name):
    monkeypatch.delattr(f"numba.core.caching.{name}")
    for n_hits in 0, 1:
        answer, found, (warned,) = call_anew(toy)
        assert (answer, found) == (4, n_hits)
        assert f"does not know numba {numba.__version__}" in warned
        assert name in warned


@pytest.mark.slow  # compiles anew
def test_package_without_a_cache(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "sklearn_hocrf", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "sklearn_hocrf" / "_engine" / "kernels" / "__pycache__").touch()
    output, warned = run(FIT, tmp_path)
    assert output == "[['Y', 'X']]"
    assert len(warned) == 1
    assert "NUMBA_CACHE_DIR" in warned[0]


FOLDERS = [  # modes of a folder and of the leaf in it; is it used?
    (0o755, 0o755, True),
    (0o777, 0o755, False),  # the leaf could be replaced
    (0o755, 0o777, False),
    (0o755, 0o1777, False),
    (0o555, 0o555, True),
    (0o1777, 0o755, True),  # as /tmp
    (0o755, 0o775, None),  # if no other user belongs to the group
]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has other rights")
def test_folders_that_others_may_write_to_are_not_used(toy, tmp_path):
    """Index files are pickles: one that somebody else has written would run his code."""
    cache = tmp_path / "cache"
    call_anew(toy)
    (leaf,) = cache.iterdir()
    for number, (mode, of_leaf, is_used) in enumerate(FOLDERS):
        if is_used is None:
            is_used = os.geteuid() != 0
            os.chown(leaf, -1, -1 if is_used else 12345)
        cache.chmod(mode)
        leaf.chmod(of_leaf)
        *output, warned = call_anew(toy)
        cache.chmod(0o755)
        leaf.chmod(0o755)
        assert output == [4, int(number != 1)]  # then from the next place in numba's order, beside the file
        assert len(warned) == (not is_used), (mode, of_leaf)
        if warned:
            folder = leaf if mode == 0o755 else cache
            assert f"The folder {folder} of compiled kernels is not used, because" in warned[0]
            assert "may write to it" in warned[0]
    if os.geteuid() == 0:
        os.chown(leaf, 65534, 0)
        *_, (warned,) = call_anew(toy)
        assert "because it belongs to the user 65534" in warned

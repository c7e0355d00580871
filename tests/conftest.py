"""What all tests share: the numba cache, hypothesis, the optional data.

This file is imported before any test module, so the environment it sets is in force when numba and scipy are imported.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
from pathlib import Path

import pytest
import sklearn
from hypothesis import HealthCheck, settings
from sklearn.utils.fixes import parse_version

KERNELS = Path(importlib.util.find_spec("sklearn_hocrf").origin).parent / "_kernels"


def numba_cache_dir():
    """Return a cache folder of this very state of the kernels and of numba's switches.

    Numba looks only at the file of a kernel to see whether machine code is stale, and not at switches such as
    NUMBA_BOUNDSCHECK. A folder named after all of it cannot be stale. Who sets NUMBA_CACHE_DIR answers for it; the
    workers of pytest-xdist find it set.
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

JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

settings.register_profile(
    "sklearn_hocrf",
    deadline=None,  # the first example may have to compile a kernel
    derandomize="CI" in os.environ,
    max_examples=20 if JIT_DISABLED else 50,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("sklearn_hocrf")


def pytest_collection_modifyitems(items):
    if parse_version(sklearn.__version__) < parse_version("1.9"):
        skip = pytest.mark.skip(reason="callbacks need scikit-learn >= 1.9")
        for item in items:
            if isinstance(item, pytest.DoctestItem) and item.name.startswith("sklearn_hocrf.callback"):
                item.add_marker(skip)
    if JIT_DISABLED:
        skip = pytest.mark.skip(reason="needs compiled kernels, and NUMBA_DISABLE_JIT is set")
        for item in items:
            if item.get_closest_marker("needs_jit"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def data_dir():
    """The folder of the optional real data sets; tests that use it are skipped where there is none."""
    named = os.environ.get("SKLEARN_HOCRF_DATA")
    if named:
        if not Path(named).is_dir():
            pytest.fail(f"SKLEARN_HOCRF_DATA={named!r} is not a folder")
        return Path(named)
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("optional real data not found: set SKLEARN_HOCRF_DATA to its folder")
    return folder

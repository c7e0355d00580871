"""Cold start: imports, and the first fit and predict in a new process, with an empty and a warm kernel cache.

    python tests/benchmarks/bench_start.py [--rounds N]

Each measurement is a process of its own; imports take turns. The cache of compiled kernels is a temporary folder.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from common import print_table, with_spread

TIMED = """
import time
start = time.perf_counter()
{imports}
imported = time.perf_counter()
{statements}
print(imported - start, time.perf_counter() - imported)
"""
IMPORTS = {
    "scikit-learn": "import sklearn",
    "scikit-learn, a classifier": "import sklearn.linear_model",
    "numba": "import numba",
    "sklearn_hocrf": "import sklearn_hocrf",
}
TOY = """
X = [[{"word": "the"}, {"word": "old"}, {"word": "man"}], [{"word": "the"}, {"word": "man"}]]
y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
crf = HighOrderCRF(max_order=2).fit(X, y)
assert crf.predict(X) == y
"""
OURS = "from sklearn_hocrf import HighOrderCRF"
MORE = """
crf.predict_marginals(X), crf.score(X, y), crf.log_likelihood(X, y)
"""


def run(imports, statements="", cache=None):
    """Return the seconds of imports and of further statements in a new process, and those of the process as a whole."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    start = time.perf_counter()
    command = [sys.executable, "-c", TIMED.format(imports=imports, statements=statements)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return *map(float, printed.split()), time.perf_counter() - start


class Import:
    """An import in a new process."""

    params = list(IMPORTS)
    param_names = ["module"]

    def track_seconds(self, name):
        return run(IMPORTS[name])[0]


class FirstFit:
    """Import, fit and predict of a toy in a new process."""

    def track_cold_start(self):
        with tempfile.TemporaryDirectory() as cache:
            return sum(run(OURS, TOY, cache)[:2])

    def setup_cache(self):
        cache = tempfile.mkdtemp()
        run(OURS, TOY, cache)
        return cache

    def track_warm_start(self, cache):
        return sum(run(OURS, TOY, cache)[:2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="rounds of the imports (default: %(default)s)")
    options = parser.parse_args()

    for statements in IMPORTS.values():
        run(statements)  # files into the system's cache
    seconds = np.array([[run(statements)[0] for statements in IMPORTS.values()] for _ in range(options.rounds)])
    print("imports, each in a new process, seconds: median [least most]")
    rows = zip(IMPORTS, map(with_spread, seconds.T), map(with_spread, (seconds - seconds[:, :1]).T), strict=True)
    print_table(["", "seconds", "more than scikit-learn"], list(rows))

    rows = []
    for name, statements in {"fit, predict": TOY, "and marginals, score, likelihood": TOY + MORE}.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = run(OURS, statements, cache)
            warm = np.array([run(OURS, statements, cache) for _ in range(options.rounds)])
        rows.append((name, "empty", *(f"{value:.2f}" for value in cold)))
        rows.append((name, "warm", *(with_spread(column, ".2f") for column in warm.T)))
    print("\nfirst use in a new process, seconds")
    print_table(["", "kernel cache", "import", "use", "whole process"], rows)


if __name__ == "__main__":
    main()

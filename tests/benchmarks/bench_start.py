"""Cold start: imports, and the first fit and predict in a new process, with an empty and a warm kernel cache.

    python tests/benchmarks/bench_start.py [--rounds N]

Each measurement is a process of its own; imports take turns. The cache of compiled kernels is a temporary folder.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from common import parse, print_table, with_spread

TIMED = """
import time
start = time.perf_counter(), time.process_time()
{imports}
imported = time.perf_counter(), time.process_time()
{statements}
used = time.perf_counter(), time.process_time()
print(*(b - a for times in ((start, imported), (imported, used)) for a, b in zip(*times)))
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
    """Run statements in a new process.

    Returns seconds: on the wall and of the processor for the imports, the same for the further statements, and on the
    wall for the process as a whole.
    """
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    start = time.perf_counter()
    command = [sys.executable, "-c", TIMED.format(imports=imports, statements=statements)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return *map(float, printed.split()), time.perf_counter() - start


def main(arguments=None):
    options = parse(__doc__, arguments, rounds=9)
    for imports in IMPORTS.values():
        run(imports)  # files into the system's cache
    seconds = np.array([[run(imports)[:2] for imports in IMPORTS.values()] for _ in range(options.rounds)])
    extra = seconds - seconds[:, :1]
    print("imports, each in a new process, seconds: median [least most]")
    columns = [map(with_spread, column.T) for column in (*np.moveaxis(seconds, 2, 0), *np.moveaxis(extra, 2, 0))]
    heads = ["", "wall", "processor", "more than scikit-learn: wall", "processor"]
    print_table(heads, list(zip(IMPORTS, *columns, strict=True)))

    rows = []
    for name, statements in {"fit, predict": TOY, "and marginals, score, likelihood": TOY + MORE}.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = np.array([run(OURS, statements, cache)])
            warm = np.array([run(OURS, statements, cache) for _ in range(options.rounds)])
        for state, times in ("empty", cold), ("warm", warm):
            rows.append((name, state, *(with_spread(column, ".2f") for column in times.T)))
    print("\nfirst use in a new process, seconds")
    heads = ["", "kernel cache", "import: wall", "processor", "use: wall", "processor", "whole process: wall"]
    print_table(heads, rows)


if __name__ == "__main__":
    main()

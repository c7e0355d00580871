"""Cold start: import, and the first fit and predict in a new process, with an empty and a warm kernel cache.

    python tests/benchmarks/bench_start.py [--rounds N]
    python tests/benchmarks/bench_start.py --tour [--rounds N]   # ten first steps, each with its time

Each measurement runs in a separate process. The cache of compiled kernels is a temporary folder.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial

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

TOUR = {
    "import": """
from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, datasets, inspection, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.model_selection import PenaltySearchCV
X, y = datasets.make_name_sentences(60, random_state=0)
tagger = make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(1, constraints="bio", max_iter=10))
segmenter = make_pipeline(SequenceFeatureExtractor(), HighOrderSemiCRF(scheme="bio", max_iter=10))
search = PenaltySearchCV(tagger, cv=3, max_steps=3)
""",
    "fit": "tagger.fit(X, y)",
    "predict": "tagger.predict(X)",
    "marginals": "tagger.predict_marginals(X)",
    "segments with probabilities": "tagger.predict_segments(X, with_probability=True)",
    "n-best": "tagger.predict_nbest(X, 3)",
    "samples": "tagger.sample(X, 3, random_state=0)",
    "semi-CRF, fit": "segmenter.fit(X, y)",
    "semi-CRF, predict": "segmenter.predict(X)",
    "explain": "inspection.explain(tagger, X, 0, 1)",
    "search": "search.fit(X, y)",
}
TOUR_TIMED = """
import json, time, warnings
warnings.simplefilter("ignore")  # not converged
seconds = []
for step in json.loads({steps!r}):
    start = time.perf_counter()
    exec(step)
    seconds.append(time.perf_counter() - start)
print(*seconds)
"""


def run_tour(cache):
    """Return the seconds on the wall of each step of the tour, in a new process with a folder of kernels."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", TOUR_TIMED.format(steps=json.dumps([*TOUR.values()]))]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [float(number) for number in printed.split()]


def show_tour(n_rounds):
    """Print the seconds of each step of the tour and of all, with an empty and with a warm cache."""
    cold, warm = [], []
    for _ in range(n_rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run_tour(cache))
            warm.append(run_tour(cache))
    columns = [np.column_stack([times, np.sum(times, axis=1)]).T for times in (cold, warm)]
    rows = zip([*TOUR, "all"], *(map(partial(with_spread, form=".2f"), column) for column in columns), strict=True)
    print("ten first steps, seconds on the wall: median [least most]")
    print_table(["", "empty cache", "warm"], list(rows))


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
    options = parse(__doc__, arguments, rounds=9, tour=False)
    if options.tour:
        show_tour(options.rounds)
        return
    rows = []
    for name, statements in {"fit, predict": TOY, "and marginals, score, likelihood": TOY + MORE}.items():
        with tempfile.TemporaryDirectory() as cache:
            cold = np.array([run(OURS, statements, cache)])
            warm = np.array([run(OURS, statements, cache) for _ in range(options.rounds)])
        for state, times in ("empty", cold), ("warm", warm):
            rows.append((name, state, *(with_spread(column, ".2f") for column in times.T)))
    print("first use in a new process, seconds: median [least most]")
    heads = ["", "kernel cache", "import: wall", "processor", "use: wall", "processor", "whole process: wall"]
    print_table(heads, rows)


if __name__ == "__main__":
    main()

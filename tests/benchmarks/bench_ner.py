"""Spanish names (conll2002) beside python-crfsuite: the chunking template on words and parts of speech.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_ner.py [--max-iter N] [--rounds N]

prints time per iteration and to convergence, objectives and accuracies, as bench_chunking does. One training "sentence"
of 1238 tokens is dropped. Needs conll2002 in SKLEARN_HOCRF_DATA or ../shared/data, python-crfsuite and seqeval.
"""

import argparse

import bench_chunking
import common
from threadpoolctl import threadpool_limits

TRAIN, TEST = ("conll2002", "esp.train.gz"), ("conll2002", "esp.testb.gz")
LONGEST = 1000  # tokens


def absent():
    """Return why the benchmark cannot run, or None."""
    return common.absent(TRAIN, TEST, modules=["pycrfsuite", "seqeval"])


def load_names(n_sentences=None):
    """Return the sentences, or the first ``n_sentences`` of training."""
    return bench_chunking.load_chunks(n_sentences, TRAIN, TEST, LONGEST)


class Fit(bench_chunking.Fit):
    """Training by HighOrderCRF on one thread and on two, and by python-crfsuite."""

    absent = staticmethod(absent)
    load = staticmethod(load_names)


class Gradient(bench_chunking.Gradient):
    """Value and gradient of the likelihood at one point."""

    params = [[1, 2], [1, 2]]
    absent = staticmethod(absent)
    load = staticmethod(load_names)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-iter", type=int, default=bench_chunking.MORE_THAN_NEEDED, help="end trainings early")
    parser.add_argument("--rounds", type=int, default=1, help="how often to train both (default: %(default)s)")
    parser.add_argument("--sentences", type=int, help="train on the first so many sentences only")
    options = parser.parse_args(arguments)
    if reason := absent():
        print(f"skipped: {reason}")
        return
    with threadpool_limits(1):
        names = load_names(options.sentences)
        print(f"conll2002: {len(names.train)} sentences, {names.train.n_tokens} tokens")
        bench_chunking.load_kernels(names)
        for _ in range(options.rounds):
            bench_chunking.compare_trainings(names, options.max_iter)


if __name__ == "__main__":
    main()

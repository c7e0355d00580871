"""Spanish names (conll2002) beside python-crfsuite: the chunking template on words and parts of speech.

What ``compare.py --tasks ner`` measures, as bench_chunking does. One training "sentence"
of 1238 tokens is dropped. Needs conll2002 in SKLEARN_HOCRF_DATA or ../shared/data, python-crfsuite and seqeval.
"""

import bench_chunking
import common

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

"""Features of the chunking template: columns of codes against a dict per token.

    python tests/benchmarks/bench_features.py [--rounds N]

prints seconds, peak memory and ratios, each case in a process of its own. The classes are those that asv looks for. The
data is the training set of conll2000 where SKLEARN_HOCRF_DATA or ../shared/data has it; otherwise as many random tokens
with a similar distribution.
"""

import argparse
import multiprocessing
import time

import numpy as np
from common import absent, data_file, peak_mebibytes, print_table, skip_where

from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

TEMPLATES = [
    *[(("w", o),) for o in range(-2, 3)],
    (("w", -1), ("w", 0)),
    (("w", 0), ("w", 1)),
    *[(("p", o),) for o in range(-2, 3)],
    *[(("p", o), ("p", o + 1)) for o in range(-2, 2)],
    *[(("p", o), ("p", o + 1), ("p", o + 2)) for o in range(-2, 1)],
]
TOKEN_FEATURES = ["suffix3", "shape", "is_digit"]


def load_tokens():
    """Return sequences of (word, part of speech) and where they are from."""
    path = data_file("conll2000", "train.txt.gz")
    if path is None:
        return random_tokens(), "random tokens"
    X, _ = load_conll(path, ["w", "p", "tag"], return_X_y=True)
    return [[(token["w"], token["p"]) for token in sentence] for sentence in X], "conll2000"


def random_tokens(n_sequences=8936, length=24):
    rng = np.random.default_rng(0)
    words = rng.zipf(1.3, (n_sequences, length)) % 19_000
    return [[(f"word{w}", f"P{w % 44}") for w in row] for row in words.tolist()]


def dicts_of(sequence):
    """Return the attributes of a sequence as a dict per token, written for speed."""
    heads = [("|".join(f"{f}[{o}]" for f, o in t), [(int(f == "p"), o) for f, o in t]) for t in TEMPLATES]
    n_tokens = len(sequence)
    answer = []
    for t in range(n_tokens):
        attributes = {}
        for head, pairs in heads:
            for _, offset in pairs:
                if not 0 <= t + offset < n_tokens:
                    break
            else:
                attributes[head] = "|".join([sequence[t + offset][column] for column, offset in pairs])
        if t == 0:
            attributes["__BOS__"] = True
        if t == n_tokens - 1:
            attributes["__EOS__"] = True
        answer.append(attributes)
    return answer


class Extractor:
    """The chunking template on columns of codes."""

    token_features = None

    def setup(self):
        self.X, self.source = load_tokens()
        self.fitted = self.extractor().fit(self.X)

    def extractor(self):
        return SequenceFeatureExtractor(TEMPLATES, self.token_features, fields=["w", "p"], padding="drop")

    def time_fit_transform(self):
        return self.extractor().fit_transform(self.X)

    def time_transform(self):
        return self.fitted.transform(self.X)

    def peakmem_fit_transform(self):
        return self.extractor().fit_transform(self.X)

    def track_n_features(self):
        return self.fitted.n_features_out_


class ExtractorWithTokenFeatures(Extractor):
    """The same with suffixes, shapes and digits."""

    token_features = TOKEN_FEATURES


class DictPerToken:
    """The chunking template as a dict per token, without and with python-crfsuite's conversion."""

    def setup(self):
        skip_where(absent(modules=["pycrfsuite"]))
        self.X, self.source = load_tokens()

    def time_dicts(self):
        return [dicts_of(sequence) for sequence in self.X]

    def time_dicts_and_crfsuite(self):
        from pycrfsuite import ItemSequence

        return [ItemSequence(dicts_of(sequence)) for sequence in self.X]

    def peakmem_dicts_and_crfsuite(self):
        return self.time_dicts_and_crfsuite()


CASES = [
    ("columns of codes, fit_transform", Extractor, "time_fit_transform"),
    ("columns of codes, transform", Extractor, "time_transform"),
    ("  with 3 token functions, fit_transform", ExtractorWithTokenFeatures, "time_fit_transform"),
    ("a dict per token", DictPerToken, "time_dicts"),
    ("a dict per token + python-crfsuite", DictPerToken, "time_dicts_and_crfsuite"),
]


def measure(case):
    """Return the processor seconds of one run and the peak memory of the process in MiB."""
    _, benchmark, method = case
    suite = benchmark()
    suite.setup()
    start = time.process_time()  # other programs slow this clock less than the one on the wall
    getattr(suite, method)()
    seconds = time.process_time() - start
    return seconds, peak_mebibytes()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each case (default: %(default)s)")
    n_rounds = parser.parse_args(arguments).rounds
    X, source = load_tokens()
    print(
        f"{source}: {len(X)} sequences, {sum(map(len, X))} tokens, {len(TEMPLATES)} templates; best of {n_rounds} runs"
    )
    # each run in a fresh process, so that peak memory is its own; all cases in turn, so that they share disturbances
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rounds = [[pool.apply(measure, (case,)) for case in CASES] for _ in range(n_rounds)]
    seconds, peaks = np.array(rounds).min(axis=0).T
    rows = [
        (name, f"{time_:.3f}", f"{peak:.0f}", f"{time_ / seconds[0]:.2f}")
        for (name, _, _), time_, peak in zip(CASES, seconds, peaks, strict=True)
    ]
    print_table(["", "seconds", "peak MiB", "ratio"], rows)


if __name__ == "__main__":
    main()

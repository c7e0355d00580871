"""What training with holes in the labels is worth: Spanish names (conll2002), order 1.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_holes.py [--sentences N] [--max-iter N]

prints F1 of names, and what training took, for four ways in which labels get lost:

1. tokens at random: training with the holes beside training on the runs of known labels alone;
2. whole sentences: those without labels add nothing to the likelihood, so nothing is gained;
3. half of the names, whose tokens are unknown: beside taking them for O;
4. half of the names and every O. Nothing then speaks for O, the model that finds names everywhere explains all labels,
   and F1 collapses. Words that are in no known name may be trusted to be O.

Needs conll2002 in SKLEARN_HOCRF_DATA or ../shared/data.
"""

import argparse
import time

import common
import numpy as np
from bench_chunking import load_chunks
from bench_ner import LONGEST, TEST, TRAIN
from common import print_table
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.metrics import extract_segments, segment_f1_score

HEADS = ["labels", "training", "known", "F1", "names found", "iterations", "seconds"]
SHARES = (0.2, 0.5, 0.8)


class Case:
    """One training and its scores on the test sentences."""

    def __init__(self, names, max_iter):
        self.names, self.max_iter, self.rows = names, max_iter, []

    def add(self, labels, training, X, y, **options):
        crf = HighOrderCRF(1, max_iter=self.max_iter, **options)
        start = time.perf_counter()
        common.fit_quietly(crf, X, y)
        seconds, predicted = time.perf_counter() - start, crf.predict(self.names.test)
        known = np.mean([isinstance(label, str) for labels in y if labels is not None for label in labels])
        f1 = segment_f1_score(self.names.y_test, predicted, encoding="bio")
        found = sum(map(len, extract_segments(predicted, encoding="bio")))
        self.rows.append((labels, training, f"{known:.0%}", f"{f1:.3f}", found, crf.n_iter_, f"{seconds:.0f}"))
        print(*self.rows[-1], sep="   ", flush=True)


def known_runs(batch, y):
    """Return the sequences cut where labels are not known."""
    flat = [label for labels in y for label in labels]
    is_known = np.array([label is not None for label in flat])
    is_first = np.zeros(len(flat) + 1, bool)
    is_first[batch.offsets] = True
    before = np.append(False, is_known[:-1])
    starts = np.flatnonzero(is_known & (is_first[:-1] | ~before))
    stops = np.flatnonzero(np.append(before, is_known[-1]) & (is_first | ~np.append(is_known, False)))
    return batch.cut(starts, stops), [flat[start:stop] for start, stop in zip(starts, stops, strict=True)]


def without_names(y, rng):
    """Return the labels with half of the names unknown, and with these names as O."""
    unknown, as_o = [list(labels) for labels in y], [list(labels) for labels in y]
    for n, segments in enumerate(extract_segments(y, encoding="bio")):
        for start, stop, *_ in segments:
            if rng.random() < 0.5:
                unknown[n][start:stop] = [None] * (stop - start)
                as_o[n][start:stop] = ["O"] * (stop - start)
    return unknown, as_o


def trusting(y, words):
    """Return the labels, which have no O, with O for words that are in no known name."""
    pairs = [pair for two in zip(words, y, strict=True) for pair in zip(*two, strict=True)]
    in_names = {word for word, label in pairs if label is not None}
    return [
        [label or ("O" if word not in in_names else None) for word, label in zip(sentence, labels, strict=True)]
        for labels, sentence in zip(y, words, strict=True)
    ]


def run(n_sentences, max_iter):
    names = load_chunks(n_sentences, TRAIN, TEST, LONGEST)
    X, y, rng = names.train, names.y_train, np.random.default_rng(0)
    tokens = load_conll(common.data_file(*TRAIN), ["w", "p", "tag"], return_X_y=True)[0]
    words = [[token["w"] for token in sentence] for sentence in tokens if len(sentence) <= LONGEST][:n_sentences]
    print(f"conll2002: {len(X)} sentences, {X.n_tokens} tokens")
    case = Case(names, max_iter)
    case.add("all", "", X, y)
    for share in SHARES:
        hidden = [[label if rng.random() > share else None for label in labels] for labels in y]
        case.add(f"without {share:.0%} of the tokens", "with holes", X, hidden)
        case.add(f"without {share:.0%} of the tokens", "known runs", *known_runs(X, hidden))
    few = len(y) // 5
    case.add("of a fifth of the sentences", "with the others", X, [*y[:few], *[None] * (len(y) - few)])
    case.add("of a fifth of the sentences", "these alone", X[:few], y[:few])
    unknown, as_o = without_names(y, rng)
    case.add("of half of the names, and O", "others unknown", X, unknown)
    case.add("of half of the names, and O", "others O", X, as_o)
    case.add("of half of the names, and O", "known runs", *known_runs(X, unknown))
    no_o = [[None if label == "O" else label for label in labels] for labels in unknown]
    every = frozenset(label for labels in y for label in labels)
    nothing = [[every if label is None else label for label in labels] for labels in no_o]  # sets name the label O
    case.add("of half of the names", "others unknown", X, nothing, patterns="all", unsupported=True)
    case.add("of half of the names", "O trusted", X, trusting(no_o, words))
    return case.rows


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000, help="sentences to train on (default: %(default)s)")
    parser.add_argument("--max-iter", type=int, default=200, help="end trainings early (default: %(default)s)")
    options = parser.parse_args(arguments)
    if reason := common.absent(TRAIN, TEST):
        print(f"skipped: {reason}")
        return
    with threadpool_limits(1):
        rows = run(options.sentences, options.max_iter)
    print_table(HEADS, rows)


if __name__ == "__main__":
    main()

"""Features of the chunking template: columns of codes against a dict per token.

What ``compare.py --tasks features`` measures. The data is the training set of conll2000 where SKLEARN_HOCRF_DATA or
../shared/data has it; otherwise as many random tokens with a similar distribution.
"""

import numpy as np
from common import absent, data_file, skip_where

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


def load_tokens():
    """Return sequences of (word, part of speech)."""
    path = data_file("conll2000", "train.txt.gz")
    if path is None:
        return random_tokens()
    X, _ = load_conll(path, ["w", "p", "tag"])
    return [[(token["w"], token["p"]) for token in sentence] for sentence in X]


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

    def setup(self):
        self.X = load_tokens()
        self.extractor().fit(self.X)

    def extractor(self):
        return SequenceFeatureExtractor(TEMPLATES, None, fields=["w", "p"], padding="drop")

    def time_fit_transform(self):
        return self.extractor().fit_transform(self.X)


class DictPerToken:
    """The chunking template as a dict per token, with python-crfsuite's conversion."""

    def setup(self):
        skip_where(absent(modules=["pycrfsuite"]))
        self.X = load_tokens()

    def time_dicts_and_crfsuite(self):
        from pycrfsuite import ItemSequence

        return [ItemSequence(dicts_of(sequence)) for sequence in self.X]

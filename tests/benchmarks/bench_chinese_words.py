"""Chinese words: what bigrams of tags, segment indicators and log odds are worth in a hybrid model.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_chinese_words.py [--quick] [--dev] [--sigma-reg S]

The features of Andrew (EMNLP 2006), whose training text cannot be had, on Chinese GSD of Universal Dependencies: tables
of the F1 of words in the test set, and reductions of the F1 error beside those published for the MSR corpus, with
randomisation tests. Nothing is tuned on the test set: ``--dev`` scores the development set instead, for some values of
``sigma_reg``. Needs ud_chinese_segmentation in SKLEARN_HOCRF_DATA or ../shared/data. ``--quick`` trains on a few
sentences for a few iterations.
"""

from itertools import compress, pairwise

import numpy as np
from common import Split, absent, data_file, parse, print_models, print_table, print_tests, skipped, train
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderSemiCRF
from sklearn_hocrf._data.batch import with_blocks
from sklearn_hocrf._data.segment_features import segment_features
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SegmentLogOddsEncoder, SequenceFeatureExtractor
from sklearn_hocrf.metrics import segment_f1_score

FOLDER = "ud_chinese_segmentation"
FILE = FOLDER, "train.conll.gz"
LONGEST = 15  # characters of a word
# The estimator's default, for all models. Of 0.5, 1, 2, 4 it is the best for the richest model on the development set;
# the plainest one gets better up to 4 (F1 78.0, 81.3, 83.2, 84.0), so that what is added to it looks larger at 1.
SIGMA = 1.0
FULL = "all bigrams"
TAGS = {  # B: a word begins here; I: it goes on
    "B only": ["B"],
    "B and C": ["B", "I"],
    FULL: ["B", "I", "BI", "II", "B|", "I|"],
}
SEGMENTS = ["none", "indicators", "log odds", "indicators, log odds"]
PUBLISHED = [  # error reduction in percent, from one model to another
    (44, ("B only", "none"), (FULL, "none")),
    (25, ("B only", "indicators"), (FULL, "indicators")),
    (25, ("B only", "indicators, log odds"), (FULL, "indicators, log odds")),
    (38, ("B only", "none"), ("B only", "indicators")),
    (18, (FULL, "none"), (FULL, "indicators")),
    (52, ("B only", "none"), ("B only", "indicators, log odds")),
    (27, (FULL, "none"), (FULL, "indicators, log odds")),
    (24, (FULL, "none"), (FULL, "log odds")),
    (13, (FULL, "indicators"), (FULL, "indicators, log odds")),
]


def characters(text):
    """Return the characters of a sentence as tokens, each with the equalities that begin with it."""

    def equal(i, j):
        return j < len(text) and text[i] == text[j]

    return [
        {
            "c": character,
            "same1": equal(j, j + 1),
            "same2": equal(j, j + 2),
            "AABB": equal(j, j + 1) and equal(j + 2, j + 3),
            "ABAB": equal(j, j + 2) and equal(j + 1, j + 3),
        }
        for j, character in enumerate(text)
    ]


def characters_of_all(texts):
    return [characters(text) for text in texts]


def character_templates(first):
    """Return templates about the border before a character; with ``first=-1`` about the one before that, too."""
    return [*((("c", j),) for j in range(first - 1, 1)), *((("c", j), ("c", j + 1)) for j in range(first - 2, 1))]


def equality_templates(first):
    reach = {"same1": 2, "same2": 3, "AABB": 4, "ABAB": 4}
    return [((field, j),) for field, before in reach.items() for j in range(first - before, 1)]


def attribute_names(first):
    """Return how the names of the attributes of these templates begin."""
    texts = ["|".join(f"{field}[{j}]" for field, j in template) + "=" for template in character_templates(first)]
    numbers = [f"{field}[{j}]" for ((field, j),) in equality_templates(first)]
    return "bias", *texts, *numbers


def tag_features(tag_set):
    """Return {tag n-gram: attributes}: they are taken at its last character; a bigram's reach one position wider."""
    return {ngram: attribute_names(0 if ngram in ("B", "I") else -1) for ngram in TAGS[tag_set]}


class SeenTwice(TransformerMixin, BaseEstimator):
    """Leave out features that count only once in all training segments.

    Here a feature is an attribute with a tag n-gram. ``min_count=2`` would leave out words that were segments
    once as well.
    """

    def fit(self, batch, y):
        first = np.repeat(batch.offsets[:-1], list(map(len, y)))
        start, stop = (first + [word[k] for words in y for word in words] for k in (0, 1))
        counts = segment_features(batch, start, stop).sum(axis=0)
        cuts = np.cumsum([block.n_features for block in batch.blocks])[:-1]
        self.kept_ = [np.flatnonzero(part > 1) for part in np.split(counts, cuts)]
        return self

    def transform(self, batch):
        pairs = zip(batch.blocks, self.kept_, strict=True)
        return with_blocks(batch, [block._replace(attributes=block.attributes[kept]) for block, kept in pairs])


def make_features(tag_set, segment_set):
    """Return the transformer for one cell of the table."""
    steps = [
        FunctionTransformer(characters_of_all),
        SequenceFeatureExtractor(character_templates(-1), bias=True),
        SequenceFeatureExtractor(equality_templates(-1), padding="drop"),
        SegmentFeatureExtractor(bag=(), tags=tag_features(tag_set)),
        SeenTwice(),
    ]
    if "indicators" in segment_set:
        indicators = {"length": "indicator", "max_length": LONGEST, "identity": "c"}
        steps.append(SegmentFeatureExtractor(**indicators, scheme="segments"))
    if "log odds" in segment_set:
        steps.append(SegmentLogOddsEncoder("segments", field="c", max_length=LONGEST))
    return make_pipeline(*steps)


def make_model(**params):
    """Return the hybrid model of words: one label, so no patterns of several."""
    return HighOrderSemiCRF(max_order=0, scheme="segments", segment_length=LONGEST, fit_intercept=False, **params)


def read_sentences(name):
    columns = [None, "form", None, "pos", *[None] * 6]
    tokens, _ = load_conll(data_file(FOLDER, f"{name}.conll.gz"), columns, separator="\t")
    sentences = [[token["form"] for token in sentence] for sentence in tokens]
    cuts = [np.cumsum([0, *map(len, words)]).tolist() for words in sentences]
    segments = [[(i, j, "word") for i, j in pairwise(positions)] for positions in cuts]
    return ["".join(words) for words in sentences], segments


def load(n_sentences=None, test="test"):
    """Return the sentences, or the first ``n_sentences`` of either set; None where the data is absent.

    Training sentences with a word of more than 15 characters are left out.
    """
    if absent(FILE):
        return None
    X, y = read_sentences("train")
    short = [max(stop - start for start, stop, _ in words) <= LONGEST for words in y]
    X, y = list(compress(X, short)), list(compress(y, short))
    return Split(*(part[:n_sentences] for part in (X, y, *read_sentences(test))))


def score(y_test, y_pred):
    """Return the words that are found, and their F1."""
    return y_pred, [100 * segment_f1_score(y_test, y_pred, scheme="segments")]


def print_reductions(truth, fitted):
    rows, pairs = [], [("; ".join(one), "; ".join(other)) for _, one, other in PUBLISHED]
    for (published, *_), (one, other) in zip(PUBLISHED, pairs, strict=True):
        (before,), (after,) = fitted[one].scores, fitted[other].scores
        rows.append((f"{one} -> {other}", f"{published:g}", f"{100 * (after - before) / (100 - before):+.1f}"))
    print("\nreduction of the F1 error in percent")
    print_table(["", "published for MSR", "here"], rows)
    found = {name: one.found for name, one in fitted.items()}
    print_tests(truth, found, [pair[::-1] for pair in pairs], segment_f1_score, scheme="segments")


def main(arguments=None):
    options = parse(__doc__, arguments, quick=False, dev=False, sigma_reg=SIGMA)
    if skipped(absent(FILE)):
        return
    data = load(30 if options.quick else None, "dev" if options.dev else "test")
    params = {"max_iter": 2} if options.quick else {"max_iter": 2000, "tol": 1e-3}
    print(f"{len(data.X)} sentences to train on, {len(data.X_test)} to test")
    cells = [(tags, segments) for tags in TAGS for segments in SEGMENTS]
    models = {"; ".join(cell): (cell, options.sigma_reg) for cell in cells}
    if options.dev:
        cells = ("B only", "none"), (FULL, "indicators, log odds")
        models = {f"{'; '.join(cell)}; {s:g}": (cell, s) for s in (0.5, 1.0, 2.0, 4.0) for cell in cells}
    with threadpool_limits(1):
        fitted = {
            name: train(data, make_features(*cell), make_model(sigma_reg=sigma_reg, **params), score)
            for name, (cell, sigma_reg) in models.items()
        }
    print_models(fitted, ["F1 of words"], {}, {})
    if not options.dev:
        print_reductions(data.y_test, fitted)


if __name__ == "__main__":
    main()

"""What finds more of a rare class of Spanish names (conll2002): sample_weight, or a threshold of probabilities.

1,000 training sentences; precision and recall of MISC in testb: of whole names, and for marginals of tokens. Needs
conll2002 in SKLEARN_HOCRF_DATA or ../shared/data.
"""

import numpy as np
from bench_ner import TEST, TRAIN
from common import data_file

from sklearn_hocrf import HighOrderCRF, make_pipeline
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.text import extract_segments

RARE = "MISC"
FUNCTIONS = ["shape", "prefix3", "suffix3"]
TEMPLATES = [("w", -1), ("w", 0), ("w", 1), ("shape", -1), ("shape", 0), ("shape", 1), ("prefix3", 0), ("suffix3", 0)]


def names_of(segments):
    return [{(start, stop) for start, stop, name, *_ in sentence if name == RARE} for sentence in segments]


def tokens_of(y):
    return [{t for t, tag in enumerate(tags) if tag.endswith(RARE)} for tags in y]


def report(what, found, truth):
    right = sum(len(a & b) for a, b in zip(found, truth, strict=True))
    precision, recall = right / sum(map(len, found)), right / sum(map(len, truth))
    print(f"{what:32} precision {precision:.2f} recall {recall:.2f}", flush=True)


def main():
    (X, y), (X_test, y_test) = (load_conll(data_file(*of), ["w", None, "tag"], return_X_y=True) for of in (TRAIN, TEST))
    X, y, truth = X[:1000], y[:1000], names_of(extract_segments(y_test))
    extractor = SequenceFeatureExtractor(TEMPLATES, fields=["w"], token_features=FUNCTIONS)
    crf, models = HighOrderCRF(2, constraints="bio"), []
    for weight in 1, 2, 5, 10:
        sample_weight = [weight if found else 1 for found in tokens_of(y)]
        models.append(make_pipeline(extractor, crf).fit(X, y, highordercrf__sample_weight=sample_weight))
        report(f"names, sample_weight={weight}", names_of(extract_segments(models[-1].predict(X_test))), truth)
    for p in 0.5, 0.3, 0.2, 0.1:
        tables = models[0].predict_segments(X_test, threshold=p)
        report(f"names, predict_segments {p}", names_of(table.tolist() for table in tables), truth)
    is_rare = [label.endswith(RARE) for label in models[0].classes_]
    report("tokens, predict", tokens_of(models[0].predict(X_test)), tokens_of(y_test))
    marginals = [table[:, is_rare].sum(axis=1) for table in models[0].predict_marginals(X_test)]
    for p in 0.5, 0.3, 0.2, 0.1:
        report(f"tokens, marginals {p}", [{*np.flatnonzero(row >= p)} for row in marginals], tokens_of(y_test))


if __name__ == "__main__":
    main()

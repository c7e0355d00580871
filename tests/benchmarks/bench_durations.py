"""Durations on real data: the lengths of fields of bibliographic references, as models expect them and as they are.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_durations.py [--references N]

Semi-CRFs of order 1 with default features of words and each kind of length, trained on the first N of Cora's training
references, which must have all fields: F1 of fields and mean log-likelihood of the test references of at most 60 words,
and the mean absolute difference, over fields, between the mean lengths (and the deviations) that the model expects
there and the true ones. Then the table of ``durations`` of the model with ``length="gamma"``, and the lengths that the
model without lengths expects, as mean(deviation). Needs cora_references in SKLEARN_HOCRF_DATA or ../shared/data.
"""

import bench_bibliography
import common
import numpy as np

from sklearn_hocrf import HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.inspection import durations
from sklearn_hocrf.metrics import segment_f1_score

LENGTHS = [None, "gamma", "poisson", "capped"]
LONGEST = 60  # words of a reference


def main(arguments=None):
    options = common.parse(__doc__, arguments, references=300)
    if common.skipped(common.absent(bench_bibliography.TRAIN, bench_bibliography.TEST)):
        return
    X, y, X_test, y_test = bench_bibliography.load()
    X, y = X[: options.references], y[: options.references]
    X_test, y_test = zip(*(pair for pair in zip(X_test, y_test, strict=True) if len(pair[1]) <= LONGEST), strict=True)
    rows, tables = [], {}
    for length in LENGTHS:
        words = SequenceFeatureExtractor(affixes=4)
        crf = HighOrderSemiCRF(tol=0.01, segment_length=LONGEST)
        model = make_pipeline(words, SegmentFeatureExtractor(begin="w[0]", length=length), crf)
        common.fit_quietly(model, X, y)
        tables[length] = table = durations(model, X_test, y_test)
        f1 = 100 * segment_f1_score(y_test, model.predict(X_test), scheme="runs")
        gaps = [(abs(row.mean - row.true_mean), abs(row.std - row.true_std)) for row in table if row.true_n_segments]
        likelihood = model.log_likelihood(X_test, y_test).mean()
        rows.append([str(length), f"{f1:.1f}", f"{likelihood:.2f}", *(f"{gap:.2f}" for gap in np.mean(gaps, axis=0))])
    print(f"{len(y)} references to train on, {len(y_test)} to test")
    common.print_table(["length", "F1", "log-likelihood", "error of means", "of deviations"], rows)
    print(f"\n{tables['gamma']}\n")
    print("without lengths:", ", ".join(f"{row.label} {row.mean:.1f}({row.std:.1f})" for row in tables[None]))


if __name__ == "__main__":
    main()

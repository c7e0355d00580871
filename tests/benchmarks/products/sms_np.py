"""Noun phrases in text messages (Muis and Lu, NAACL 2016): chains and semi-CRFs, chosen by the development set alone.

    OMP_NUM_THREADS=1 python tests/benchmarks/products/sms_np.py [--quick] [--dev-only] [--keep FOLDER]

21,200 messages to train, 2,650 to choose, 2,650 to test; measure: F1 of exact phrases. Published, and not run here:
linear CRF 73.14, with affixes 74.57, with Brown clusters and affixes 74.79; semi-CRF 75.97, with Brown clusters 76.15
(word-based, +- .2). Protocol: every row of LINEAR and SEGMENTS is trained on the training part with tol=0.03 and scored
on dev; the best row of each table is trained once more with tol=0.01 on the training part, and scored once on test,
with a paired randomisation test of the semi-CRF against the chain. Scores of a few settings on test were seen before
this protocol was written (73.12 and 74.81 for chains, 74.85 for a semi-CRF). Needs sms_np (SKLEARN_HOCRF_DATA or
../shared/data). --quick: an eighth of the messages. --dev-only: nothing is run on test.
"""

import os
import time

import protocol
from protocol import print_table

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.metrics import randomization_test, segment_f1_score

PARTS = ("train", "dev", "test")
# the paper's linear features: the word and the one before it
PAPER = SequenceFeatureExtractor([("w", 0), ("w", -1)])
SMALL = SequenceFeatureExtractor(
    [("lower", 0), ("shape", 0), ("prefix3", 0), ("suffix3", 0), ("lower", -1), ("lower", 1)],
    token_features=["lower", "shape", "prefix3", "suffix3"],
)
L1 = {"l1_reg": 0.1, "sigma_reg": 2.0}
LINEAR = {
    "words, order 1": (PAPER, HighOrderCRF(1, constraints="bio")),
    "default features, order 1": (SequenceFeatureExtractor(), HighOrderCRF(1, constraints="bio")),
    "default features, order 2": (SequenceFeatureExtractor(), HighOrderCRF(2, constraints="bio")),
    "default features, order 2, L1": (SequenceFeatureExtractor(), HighOrderCRF(2, constraints="bio", **L1)),
    "default features, order 3, L1": (SequenceFeatureExtractor(), HighOrderCRF(3, constraints="bio", **L1)),
}
WHOLE = {"identity": True, "length": "capped", "max_length": 6, "scheme": "bio"}
PLACES = {
    "bag and borders": {"begin": True, "end": True, **WHOLE},
    "tags inside": {"tags": "unigrams", **WHOLE},
    "tags inside and borders": {"tags": "bigrams", "begin": True, "end": True, **WHOLE},
}
SEGMENTS = {
    f"{name}, {places}, order {order}, {penalty}": (
        extractor,
        SegmentFeatureExtractor(**PLACES[places]),
        order,
        settings,
    )
    for name, extractor in {"small features": SMALL, "default features": SequenceFeatureExtractor()}.items()
    for places in PLACES
    for order, penalty, settings in [(1, "sigma 1", {}), (2, "L1", L1)]
    if name == "small features" or places == "tags inside"
}


def load(quick):
    """Return the tokens and the tags of each part."""
    parts = {}
    for part in PARTS:
        blocks = "\n".join(protocol.read_lines("sms_np", f"{part}.conll.gz")).split("\n\n")[:: 8 if quick else 1]
        rows = [[line.split("\t") for line in block.split("\n")] for block in blocks]
        parts[part] = [[token for token, _ in row] for row in rows], [[tag for _, tag in row] for row in rows]
    return parts


def model_of(entry, tol):
    """Return the pipeline of a row."""
    if len(entry) == 2:
        extractor, crf = entry
        return make_pipeline(extractor, crf.set_params(tol=tol))
    extractor, segments, order, settings = entry
    crf = HighOrderSemiCRF(order, scheme="bio", tol=tol, **settings)
    return make_pipeline(extractor, segments, crf)


def run(entry, parts, part, tol):
    """Return the predictions of a trained row for a part, their F1 and the processor seconds of the fit."""
    start = time.process_time()
    model = protocol.fit_quietly(model_of(entry, tol), *parts["train"])
    seconds = time.process_time() - start
    predicted = model.predict(parts[part][0])
    return predicted, 100 * segment_f1_score(parts[part][1], predicted, scheme="bio"), seconds


def main(arguments=None):
    options = protocol.parse(__doc__, arguments, quick=False, dev_only=False, keep="")
    if protocol.skipped(protocol.absent(*(("sms_np", f"{part}.conll.gz") for part in PARTS))):
        return
    parts, tables = load(options.quick), {"chains": LINEAR, "semi-CRFs": SEGMENTS}
    best = {}
    for table, entries in tables.items():
        rows = []
        for name, entry in entries.items():
            path = os.path.join(options.keep, name) if options.keep else None
            _, score, seconds = protocol.kept(path, lambda entry=entry: run(entry, parts, "dev", 0.03))
            rows.append([name, f"{score:.2f}", f"{seconds:.0f}"])
            print(*rows[-1], flush=True)
            best[table] = max(best.get(table, (0, "")), (score, name))
        print_table([table, "F1 on dev", "s a fit"], rows)
    if options.dev_only:
        return
    found = {table: run(tables[table][name], parts, "test", 0.01) for table, (_, name) in best.items()}
    print_table(
        ["chosen on dev", "F1 on test", "s a fit"],
        [[best[table][1], f"{score:.2f}", f"{seconds:.0f}"] for table, (_, score, seconds) in found.items()],
    )
    predictions = [found[table][0] for table in ("semi-CRFs", "chains")]
    compared = randomization_test(parts["test"][1], *predictions, segment_f1_score, scheme="bio", random_state=0)
    print(f"semi-CRF against chain: {100 * compared.difference:+.2f}, p = {compared.p_value:.4f}")


if __name__ == "__main__":
    main()

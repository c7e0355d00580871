"""What answers beyond the best labelling cost and bring: constraints, known labels, n-best, samples, entropy, decoding.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_answers.py [--part speed quality references] [--sentences N]

"speed" prints ratios of processor seconds, taken in turns: answers by predict, marginals or log_partition, training
with constraints by training without. "quality" trains on Spanish names (conll2002), chooses thresholds and temperature
on its development set and prints what they bring on its test set. "references" counts the errors that one known label
removes. Needs conll2002 and cora_references in
SKLEARN_HOCRF_DATA or ../shared/data.
"""

import argparse
import time
import warnings

import bench_bibliography
import bench_chunking
import common
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.calibration import CalibratedSequenceLabeler
from sklearn_hocrf.datasets import load_conll
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import expected_calibration_error, extract_segments
from sklearn_hocrf.training import SegmentDecoding

FILES = [("conll2002", name) for name in ("esp.train.gz", "esp.testa.gz", "esp.testb.gz")]
LONGEST = 1000  # tokens: one training "sentence" of 1238 tokens is dropped, and one that begins with an I
THRESHOLDS = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9)


def absent():
    """Return why the benchmark cannot run, or None."""
    return common.absent(*FILES)


class Names:
    """Features and tags of the three parts."""

    def __init__(self, n_sentences=None):
        train, dev, test = (self.read(parts) for parts in FILES)
        train = zip(*((x, tags) for x, tags in zip(*train, strict=True) if not illegal([tags])), strict=True)
        train = [list(part) for part in train]
        extractor = SequenceFeatureExtractor(bench_chunking.TEMPLATES, fields=["w", "p"], padding="drop")
        self.X, self.y = extractor.fit_transform(train[0][:n_sentences]), train[1][:n_sentences]
        self.X_dev, self.y_dev = extractor.transform(dev[0]), dev[1]
        self.X_test, self.y_test = extractor.transform(test[0]), test[1]

    @staticmethod
    def read(parts):
        """Return tokens and tags of a file."""
        X, y = load_conll(common.data_file(*parts), ["w", "p", "tag"], return_X_y=True)
        kept = [i for i, tags in enumerate(y) if len(tags) <= LONGEST]
        return [X[i] for i in kept], [y[i] for i in kept]


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y)


# --------------------------------------------------------------------------------------------------------------- speed


def measure_speed(names, rounds):
    """Print ratios of the answers' times to those of plain questions."""
    crf = fit(HighOrderCRF(max_iter=60), names.X, names.y)
    bound = fit(HighOrderCRF(max_iter=60, constraints="bio"), names.X, names.y)
    X, y = names.X_dev, names.y_dev
    rng = np.random.default_rng(0)
    known = [[tag if rng.random() < 0.2 else None for tag in tags] for tags in y]
    batch, model = X, crf._build_model()
    cases = {
        "predict": lambda: crf.predict(X),
        "predict, constraints": lambda: bound.predict(X),
        "predict, known": lambda: crf.predict(X, known=known),
        "10 best": lambda: crf.predict_nbest(X, 10),
        "marginals": lambda: crf.predict_marginals(X),
        "100 samples": lambda: model.draw(batch, 100, 0),
        "100 samples as lists": lambda: crf.sample(X, 100, random_state=0),
        "log_partition": lambda: model.log_partition(batch),
        "entropy": lambda: model.entropy(batch),
    }
    seconds = common.take_turns(list(cases.values()), rounds, time.process_time)
    column = {name: number for number, name in enumerate(cases)}
    for name, base, most in (
        ("predict, constraints", "predict", 1.3),
        ("predict, known", "predict", 1.3),
        ("10 best", "predict", 4.0),
        ("100 samples", "marginals", 3.0),
        ("100 samples as lists", "marginals", np.nan),
        ("entropy", "log_partition", 2.5),
    ):
        ratios = seconds[:, column[name]] / seconds[:, column[base]]
        print(f"{name} / {base}: {np.median(ratios):.2f} [{ratios.min():.2f} {ratios.max():.2f}], to reach {most}")
    trainings = [clone(crf).set_params(max_iter=20), clone(bound).set_params(max_iter=20)]
    seconds = common.take_turns(
        [lambda c=c: fit(c, names.X, names.y) for c in trainings], max(rounds // 2, 2), time.process_time
    )
    ratios = seconds[:, 1] / seconds[:, 0]
    spread = f"{np.median(ratios):.2f} [{ratios.min():.2f} {ratios.max():.2f}]"
    print(f"training, constraints / without: {spread}, to reach 1.3")


# ------------------------------------------------------------------------------------------------------------- quality


def counts(y_true, y_pred):
    """Return numbers of true segments, predicted ones and those that are both, of BIO tags."""
    true, predicted = (extract_segments(y, encoding="bio") for y in (y_true, y_pred))
    both = sum(len(set(a) & set(b)) for a, b in zip(true, predicted, strict=True))
    return sum(map(len, true)), sum(map(len, predicted)), both


def scores(y_true, y_pred):
    """Return precision, recall and F1 of segments."""
    n_true, n_predicted, n_both = counts(y_true, y_pred)
    return n_both / max(n_predicted, 1), n_both / n_true, 2 * n_both / (n_true + n_predicted)


def illegal(y):
    """Return the number of tags I that follow neither B nor I of the same label."""
    before = [[None, *tags[:-1]] for tags in y]
    pairs = [pair for tags, last in zip(y, before, strict=True) for pair in zip(last, tags, strict=True)]
    return sum(tag[0] == "I" and (last is None or last[0] == "O" or last[2:] != tag[2:]) for last, tag in pairs)


def measure_quality(names, max_iter):
    """Print what constraints, decoding for a loss and temperature bring."""
    crf = fit(HighOrderCRF(max_iter=max_iter), names.X, names.y)
    bound = fit(HighOrderCRF(max_iter=max_iter, constraints="bio"), names.X, names.y)
    for name, model in (("without constraints", crf), ('constraints="bio"', bound)):
        for part, X, y in (("dev", names.X_dev, names.y_dev), ("test", names.X_test, names.y_test)):
            predicted = model.predict(X)
            print(f"{name}, {part}: {illegal(predicted)} illegal tags, F1 {scores(y, predicted)[2]:.4f}")
    bound.set_params(decoding="token")
    print(f"legal token decoding, test: F1 {scores(names.y_test, bound.predict(names.X_test))[2]:.4f}")
    best = (0.0, 0.5)
    for threshold in THRESHOLDS:
        bound.set_params(decoding=SegmentDecoding(threshold))
        on_dev, on_test = (
            scores(y, bound.predict(X)) for X, y in ((names.X_dev, names.y_dev), (names.X_test, names.y_test))
        )
        best = max(best, (on_dev[2], threshold))
        print(
            f"segment decoding, threshold {threshold}: dev F1 {on_dev[2]:.4f}; test precision {on_test[0]:.4f}, "
            f"recall {on_test[1]:.4f}, F1 {on_test[2]:.4f}"
        )
    bound.set_params(decoding=SegmentDecoding(best[1]))
    print(f"threshold chosen on dev: {best[1]}; test F1 {scores(names.y_test, bound.predict(names.X_test))[2]:.4f}")
    bound.set_params(decoding="viterbi")
    calibrated = CalibratedSequenceLabeler(bound, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        calibrated.fit(names.X, names.y)
    true = extract_segments(names.y_test, encoding="bio")
    print(f"temperature {calibrated.temperature_:.3f}")
    for name, model in (("before", bound), ("after", calibrated.calibrated_estimator_)):
        found = model.predict_segments(names.X_test, with_probability=True)
        error = expected_calibration_error(true, found, encoding="segments")
        likelihood = model.log_likelihood(names.X_test, names.y_test, unknown="impossible")
        finite = likelihood[np.isfinite(likelihood)]
        print(f"calibration error {name}: {error:.4f}; log-likelihood a sentence {finite.mean():.4f}")


# ---------------------------------------------------------------------------------------------------------- references


def measure_references():
    """Print how many errors remain when one label of each reference is known."""
    data = bench_bibliography.load_references()
    features = bench_bibliography.segment_features()
    crf = fit(bench_bibliography.segment_model(2), features.fit_transform(data.X, data.y), data.y)
    X, y = features.transform(data.X_test), data.y_test
    rng = np.random.default_rng(0)
    chosen = {
        "nothing": [None] * len(y),
        "a random word": [int(rng.integers(len(labels))) for labels in y],
        "the least certain word": [int(np.argmax(entropy)) for entropy in crf.entropy(X, of="token")],
    }
    n_tokens = sum(map(len, y))
    for name, places in chosen.items():
        known = [
            [label if t == at else None for t, label in enumerate(labels)] for labels, at in zip(y, places, strict=True)
        ]
        predicted = crf.predict(X, known=known)
        wrong = sum(a != b for one, other in zip(y, predicted, strict=True) for a, b in zip(one, other, strict=True))
        print(f"references, known: {name}: {wrong} of {n_tokens} words wrong")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=("speed", "quality", "references"), default=("speed", "quality"))
    parser.add_argument("--sentences", type=int, help="train on the first so many sentences only")
    parser.add_argument("--max-iter", type=int, default=300, help="end trainings early (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of the timings (default: %(default)s)")
    options = parser.parse_args(arguments)
    if reason := absent():
        print(f"skipped: {reason}")
        return
    with threadpool_limits(1):
        if "speed" in options.part or "quality" in options.part:
            names = Names(options.sentences)
        if "speed" in options.part:
            measure_speed(names, options.rounds)
        if "quality" in options.part:
            measure_quality(names, options.max_iter)
        if "references" in options.part:
            measure_references()


if __name__ == "__main__":
    main()

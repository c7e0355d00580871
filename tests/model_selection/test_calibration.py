"""The temperature of a model, and measures of how often segments of a given probability are correct."""

import pickle
import warnings

import numpy as np
import pytest
from internals import zero_of_slope
from refusals import refusals
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, PredefinedSplit
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as sklearn_make_pipeline

from sklearn_hocrf import Constraints, HighOrderCRF, HighOrderSemiCRF, make_pipeline
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.metrics import segment_outcomes
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler
from sklearn_hocrf.text import extract_segments


def sentences(seed=0, n=24):
    """Return words and BIO tags; words say little of tags, so that models with weak penalties learn them by heart."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = ["O"]
        for _ in range(int(rng.integers(2, 8))):
            follow = ["O", "B-P", "B-Q"] + ([f"I-{tags[-1][2:]}"] * 3 if tags[-1] != "O" else [])
            tags.append(str(rng.choice(follow)))
        X.append([{"w": f"{tag if rng.random() < 0.5 else rng.integers(25)}"} for tag in tags])
        y.append(tags)
    return X, y


X, Y = sentences()
NEW, NEW_Y = sentences(1, 40)
WEAK = HighOrderCRF(sigma_reg=30.0, tol=1e-3)
WEAK_SEGMENTS = HighOrderSemiCRF(scheme="bio", sigma_reg=30.0, tol=1e-3, segment_length=9)
MODELS = {
    "chain": WEAK,
    "order 2": HighOrderCRF(2, sigma_reg=30.0, tol=1e-3),
    "features of pairs": HighOrderCRF(1, feature_order=1, sigma_reg=30.0, tol=1e-3),
    "L1": HighOrderCRF(l1_reg=0.1, sigma_reg=30.0, tol=1e-3),
    "BIO": HighOrderCRF(constraints="bio", sigma_reg=30.0, tol=1e-3),
    "borders": HighOrderCRF(constraints=Constraints(start=["O"], forbid=[("O", "I-P")]), sigma_reg=30.0, tol=1e-3),
    "segments": WEAK_SEGMENTS,
    "constrained segments": clone(WEAK_SEGMENTS).set_params(constraints=Constraints(forbid=[("P", "Q", "O")])),
}
WORDS = [[token["w"] for token in sequence] for sequence in X]


def allowed(model, X, Y):
    """Return the sequences that break no constraint of the model."""
    if not isinstance(model.constraints, Constraints) or isinstance(model, HighOrderCRF):
        return X, Y
    segments = [" ".join(tag[2:] or "O" for tag in tags if tag[0] != "I") for tags in Y]
    kept = [n for n, labels in enumerate(segments) if "P Q O" not in labels]
    return [X[n] for n in kept], [Y[n] for n in kept]


def divided(model, temperature):
    """Return a copy of a fitted model with its weights divided."""
    learned = model._state
    other = pickle.loads(pickle.dumps(model))
    learned._replace(weights=learned.weights / temperature).set_on(other)
    return other


def parts_of(model, X, Y, n_splits):
    """Yield a fitted model and what it has not seen, for each split."""
    for train, test in KFold(n_splits).split(X):
        yield clone(model).fit([X[i] for i in train], [Y[i] for i in train]), [X[i] for i in test], [Y[i] for i in test]


def total(model, X, Y, temperature=1.0):
    return float(divided(model, temperature).log_likelihood(X, Y).sum())


# --- the temperature --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_temperature_is_that_of_highest_held_out_likelihood(name):
    model = MODELS[name]
    data = allowed(model, X, Y)
    calibrated = CalibratedSequenceLabeler(model, cv=3).fit(*data)
    parts = list(parts_of(model, *data, 3))
    temperature = calibrated.temperature_
    grid = np.exp(np.linspace(-1, 1, 41)) * temperature
    totals = [sum(total(*part, t) for part in parts) for t in grid]
    assert np.argmax(totals) == 20
    step = 1e-3 * temperature  # the slope by differences, beside what 0.1 % of the temperature changes in it
    low, middle, high = (sum(total(*part, temperature + move) for part in parts) for move in (-step, 0, step))
    assert abs(high - low) / 2 < 0.01 * abs(high + low - 2 * middle)


def test_one_token_a_sequence_is_multinomial_logistic_regression():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(120, 3))
    labels = (points[:, 0] + rng.normal(size=120) > 0).astype(int) + (points[:, 1] > 0.5)
    inner = HighOrderCRF(0, sigma_reg=3.0, tol=1e-9)
    calibrated = CalibratedSequenceLabeler(inner, cv=4).fit(points, labels)
    scores = np.zeros((120, 3))
    for train, test in KFold(4).split(points):
        scores[test] = np.log(clone(inner).fit(points[train], labels[train]).predict_proba(points[test]))

    def loss(factor):
        return -log_softmax(scores * factor, axis=1)[np.arange(120), labels].sum()

    best = minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-8}).x
    assert 1 / calibrated.temperature_ == pytest.approx(best, rel=1e-6)


def test_frozen_estimator_is_kept_and_all_data_calibrate():
    model = clone(WEAK).fit(X, Y)
    before = model.coef_.toarray()
    calibrated = CalibratedSequenceLabeler(FrozenEstimator(model), cv=2).fit(NEW, NEW_Y)
    found = [total(model, NEW, NEW_Y, calibrated.temperature_ * t) for t in (0.99, 1.0, 1.01)]
    assert max(found) == found[1]
    np.testing.assert_array_equal(model.coef_.toarray(), before)
    np.testing.assert_allclose(calibrated.calibrated_estimator_.coef_.toarray(), before / calibrated.temperature_)
    assert type(calibrated.calibrated_estimator_) is HighOrderCRF


def test_weights_count_as_repetitions():
    model = FrozenEstimator(clone(WEAK).fit(X, Y))
    weight = np.arange(len(NEW)) % 3
    weighted = CalibratedSequenceLabeler(model).fit(NEW, NEW_Y, sample_weight=weight)
    repeated = np.repeat(np.arange(len(NEW)), weight)
    plain = CalibratedSequenceLabeler(model).fit([NEW[i] for i in repeated], [NEW_Y[i] for i in repeated])
    assert weighted.temperature_ == pytest.approx(plain.temperature_, rel=1e-7)


@pytest.mark.parametrize("model", [WEAK, WEAK_SEGMENTS], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("frozen", [True, False])
def test_labels_with_missing_labels(model, frozen):
    data, y = (NEW, NEW_Y) if frozen else (X, Y)
    partial = [[None if t % 3 == 1 else tag for t, tag in enumerate(tags)] for tags in y]
    partial[0] = [None] * len(partial[0])
    fitted = clone(model).fit(X, Y)
    calibrated = CalibratedSequenceLabeler(FrozenEstimator(fitted) if frozen else model, cv=2).fit(data, partial)
    parts = [(fitted, data, partial)] if frozen else list(parts_of(model, data, partial, 2))
    found = [sum(total(*part, calibrated.temperature_ * t) for part in parts) for t in (0.99, 1.0, 1.01)]
    assert max(found) == found[1]


# --- warnings and errors ----------------------------------------------------------------------------------------------


def test_temperature_at_a_bound():
    certain = FrozenEstimator(HighOrderCRF(sigma_reg=2.0).fit(X[:1] * 3, Y[:1] * 3))
    with pytest.warns(UserWarning, match="is at a bound, 0.01: .* probability 1"):
        assert CalibratedSequenceLabeler(certain).fit(X[:1] * 3, Y[:1] * 3).temperature_ == 0.01
    model = HighOrderCRF(sigma_reg=2.0).fit([[["a"]], [["b"]]] * 2, [["O"], ["P"]] * 2)
    with pytest.warns(UserWarning, match="is at a bound, 100: .* chance"):
        fitted = CalibratedSequenceLabeler(FrozenEstimator(model)).fit([[["a"]], [["b"]]], [["P"], ["O"]])
    assert fitted.temperature_ == pytest.approx(100.0)


def test_a_model_of_zeros_keeps_its_temperature():
    model = HighOrderCRF(sigma_reg=1e-9).fit(X, Y)
    model = divided(model, np.inf)
    with warnings.catch_warnings(action="error"):
        assert CalibratedSequenceLabeler(FrozenEstimator(model)).fit(NEW, NEW_Y).temperature_ == 1.0


def test_impossible_sequences_are_left_out():
    model = FrozenEstimator(clone(WEAK).fit(X, Y))
    plain = CalibratedSequenceLabeler(model).fit(NEW, NEW_Y)
    strange = [["Z"] * len(NEW[0]), *NEW_Y]
    with pytest.warns(UserWarning, match="1 of 41 held-out sequences have probability 0"):
        other = CalibratedSequenceLabeler(model).fit([NEW[0], *NEW], strange)
    assert other.temperature_ == pytest.approx(plain.temperature_, rel=1e-7)
    with pytest.raises(ValueError, match="all 2 held-out sequences have probability 0"):
        CalibratedSequenceLabeler(model).fit(NEW[:2], [["Z"] * len(sequence) for sequence in NEW[:2]])
    weight = np.r_[0.0, np.ones(len(NEW))]
    with warnings.catch_warnings(action="error"):
        CalibratedSequenceLabeler(model).fit([NEW[0], *NEW], strange, sample_weight=weight)


# --- the place among other tools --------------------------------------------------------------------------------------


def test_pipelines_inside_and_outside():
    crf = HighOrderCRF(sigma_reg=30.0, tol=0.1)
    inside = CalibratedSequenceLabeler(make_pipeline(SequenceFeatureExtractor(), crf), cv=2).fit(WORDS, Y)
    outside = make_pipeline(SequenceFeatureExtractor(), CalibratedSequenceLabeler(crf, cv=2)).fit(WORDS, Y)
    plain = CalibratedSequenceLabeler(sklearn_make_pipeline(SequenceFeatureExtractor(), crf), cv=2).fit(WORDS, Y)
    assert type(inside.calibrated_estimator_) is type(inside.estimator)
    assert inside.temperature_ == plain.temperature_ > 1
    assert inside.predict(WORDS) == plain.predict(WORDS) == inside.calibrated_estimator_.predict(WORDS)
    for fitted in (inside, outside, plain, pickle.loads(pickle.dumps(inside)), pickle.loads(pickle.dumps(outside))):
        assert fitted.predict_marginals(WORDS)[0].shape == (len(WORDS[0]), 5)
        assert fitted.log_likelihood(WORDS, Y).shape == (24,)
        assert fitted.predict_nbest(WORDS[:1], 1)[0][0].labels == fitted.predict(WORDS[:1])[0]
        assert 0 < fitted.score(WORDS, Y) <= 1
    known = [["O"] + [None] * (len(words) - 1) for words in WORDS]
    assert all(tags[0] == "O" for tags in inside.predict(WORDS, known=known))


def test_options_of_fit():
    groups = np.arange(24) // 4
    crf = HighOrderCRF(sigma_reg=30.0, tol=0.1)
    grouped = CalibratedSequenceLabeler(crf, cv=GroupKFold(2)).fit(X, Y, groups=groups)
    splits = list(GroupKFold(2).split(X, Y, groups))
    assert grouped.temperature_ == CalibratedSequenceLabeler(crf, cv=splits).fit(X, Y).temperature_
    weight = np.random.default_rng(0).random(24) + 0.1
    pipe = CalibratedSequenceLabeler(make_pipeline(SequenceFeatureExtractor(), crf), cv=2)
    by_weight = pipe.fit(WORDS, Y, sample_weight=weight).temperature_
    assert by_weight != clone(pipe).fit(WORDS, Y).temperature_
    train_test = CalibratedSequenceLabeler(crf, cv=PredefinedSplit(np.arange(24) % 3 - 1)).fit(X, Y)
    assert train_test.temperature_ > 0
    with config_context(enable_metadata_routing=True):
        inner = clone(crf).set_fit_request(sample_weight=True)
        pipe = CalibratedSequenceLabeler(make_pipeline(SequenceFeatureExtractor(), inner), cv=2)
        assert pipe.fit(WORDS, Y, sample_weight=weight).temperature_ == by_weight
        with pytest.raises(TypeError, match="unexpected"):
            CalibratedSequenceLabeler(clone(crf)).fit(X, Y, nothing=weight)


# --- the zero of a slope ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [0.0123, 0.3, 0.5, 1.0, 1.7, 4.0, 99.0])
def test_zero_of_slope(best):
    asked = []
    found = zero_of_slope(lambda x: asked.append(x) or best / x - 1, (0.01, 100.0), flat=0.0, tol=1e-10)
    assert found == pytest.approx(best, rel=1e-9)
    assert len(asked) < 20
    assert 0.01 <= min(asked) <= max(asked) <= 100.0


def test_zero_of_slope_at_bounds_and_on_flat_ground():
    assert zero_of_slope(lambda x: 1.0, (0.01, 100.0), flat=0.0, tol=1e-9) == 100.0
    assert zero_of_slope(lambda x: -1.0, (0.01, 100.0), flat=0.0, tol=1e-9) == 0.01
    assert zero_of_slope(lambda x: 0.0, (0.01, 100.0), flat=0.0, tol=1e-9) == 1.0
    noise = iter([1.0, 1e-3, -1e-9, 1e-10, -1e-9, 1e-9, -1e-10, 1e-9])
    assert zero_of_slope(lambda x: next(noise), (0.01, 100.0), flat=1e-8, tol=1e-9) == 100.0


# --- measures of calibration ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def segmented():
    """Return tags, their segments, and all segments of some probability."""
    probable = clone(WEAK_SEGMENTS).fit(X, Y).predict_segments(NEW, threshold=0.01)
    return NEW_Y, extract_segments(NEW_Y, scheme="bio"), probable


def test_outcomes_of_segments(segmented):
    tags, segments, probable = segmented
    is_right, probability = segment_outcomes(tags, probable, scheme="bio")
    expected = [
        tuple(one)[:3] in true for true, found in zip(segments, probable, strict=True) for one in found.tolist()
    ]
    assert is_right.dtype == bool
    assert is_right.tolist() == expected
    assert 0 < sum(expected) < len(expected)
    np.testing.assert_array_equal(probability, np.concatenate([found["probability"] for found in probable]))
    assert segment_outcomes([["x"]], [[(0, 1, "x", 1.0), (0, 1, "y", 0.0)]], scheme="runs")[0].tolist() == [True, False]
    for y_true, scheme in (segments, "segments"), (tags, "bio"):
        for y_pred in probable, [found.tolist() for found in probable]:
            for ours, theirs in zip(
                segment_outcomes(y_true, y_pred, scheme=scheme), (is_right, probability), strict=True
            ):
                np.testing.assert_array_equal(ours, theirs)


test_refusals = refusals(
    (lambda: CalibratedSequenceLabeler(WEAK).fit(X, None), "y to be passed"),
    (lambda: CalibratedSequenceLabeler(WEAK).fit(X, Y[1:]), "inconsistent numbers"),
    (lambda: CalibratedSequenceLabeler(FrozenEstimator(clone(WEAK).fit(X, Y))).fit(X[:1], Y[:1]),
     "the data to calibrate on have 1 sequences"),
    (lambda: CalibratedSequenceLabeler(WEAK).predict_marginals(X), (NotFittedError, "before using predict_marginals")),
    (lambda value: CalibratedSequenceLabeler(value).fit(X, Y),
     ("'estimator' parameter", KFold(2)),
     (TypeError, "estimator must be a HighOrderCRF", Pipeline([])),
     (NotFittedError, "HighOrderCRF", FrozenEstimator(WEAK))),
    (lambda cv: CalibratedSequenceLabeler(WEAK, cv=cv).fit(X, Y),
     ("held-out part of split 11 has 1 sequences", 13),
     ("held-out part of split 0 has 1 sequences", LeaveOneOut()),
     ("training part of split 0 has 1 sequences", [([0], range(24))])),
    (lambda name: getattr(CalibratedSequenceLabeler(WEAK), name),
     (AttributeError, "no attribute '(decision_function|partial_fit)'", "decision_function", "partial_fit")),
    (lambda value: segment_outcomes([["a", "a", "b"], ["b"]], value),
     ("y_true has 2 sequences, but y_pred has 1", [[]]),
     (r"probability 1.5 of y_pred \(sequence 0, position 0\) is not in", [[(0, 1, "a", 1.5)], []]),
     (r"probability -0.1 of y_pred \(sequence 1, position 0\) is not in", [[], [(0, 1, "a", -0.1)]]),
     (r"nan \(sequence 0, position 0\) is not finite", [[(0, 1, "a", np.nan)], []]),
     (TypeError, r"'1' \(sequence 0, position 0\) is not a number", [[(0, 1, "a", "1")], []]),
     (r"\(0, 4, 'b'\) \(sequence 0, position 1\), beyond the 3 tokens of y_true",
      [[(0, 1, "a", 0.5), (0, 4, "b", 0.5)], []]),
     ("0 <= start < stop must hold", [[(1, 1, "a", 0.5)], []]),
     (TypeError, "must be integers", [[(0.5, 1, "a", 0.5)], []]),
     (r"twice \(sequence 0, position 1\)", [[(0, 1, "a", 0.5), (0, 1, "a", 0.25)], []]),
     (TypeError, r"y_pred is 'ab' \(str\), but must be a list of sequences of segments", "ab"),
     (TypeError, r"of y_pred \(sequence 0, position 0\) is not a segment with a probability",
      [np.zeros(1, [("start", int), ("stop", int), ("label", "U1")]), []])),
)  # fmt: skip

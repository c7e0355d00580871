"""Durations: lengths as features with few weights, and the lengths that a model expects."""

import itertools
import math

import numpy as np
import pytest
from internals import LengthBlock, NegativeLogLikelihood, Problem
from test_holes import problem_of

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor
from sklearn_hocrf.inspection import DurationsDisplay, durations
from sklearn_hocrf.metrics import extract_segments
from sklearn_hocrf.pipeline import make_pipeline

LONGEST = 40
SHAPE, SCALE = {"a": 8.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 2.0, "c": 4.0}
LEVEL = {"a": -1.0, "b": 0.0, "c": 1.2}


def log_duration(label):
    """Return log P(d) + constant for d = 1 .. LONGEST: a gamma density at whole numbers."""
    d = np.arange(1, LONGEST + 1)
    return (SHAPE[label] - 1) * np.log(d) - d / SCALE[label]


def drawn(rng, n_sequences):
    """Draw from a hidden semi-Markov model: labels, lengths, and a normal number of variance 1 for each token."""
    X, y = [], []
    for _ in range(n_sequences):
        label, labels = "a", []
        while not labels or rng.random() < 0.85:
            weight = np.exp(log_duration(label))
            labels += [label] * int(rng.choice(np.arange(1, LONGEST + 1), p=weight / weight.sum()))
            label = str(rng.choice([other for other in SHAPE if other != label]))
        X.append(np.array([LEVEL[label] for label in labels])[:, None] + rng.normal(size=(len(labels), 1)))
        y.append(labels)
    return X, y


def pipeline(sigma=30.0, tol=1e-4, **options):
    return make_pipeline(
        SequenceFeatureExtractor(),
        SegmentFeatureExtractor(**options),
        HighOrderSemiCRF(sigma_reg=sigma, max_segment_length=LONGEST, tol=tol),
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return *drawn(rng, 200), *drawn(rng, 100)


@pytest.fixture(scope="module")
def model(data):
    return pipeline(length="gamma").fit(*data[:2])


def covariance(model, X, y):
    """Return the inverse of the Hessian of the minimised function at the optimum."""
    crf, batch = model[-1], model[:-1].transform(X)
    problem: Problem = problem_of(HighOrderSemiCRF(**crf.get_params()), batch, y)
    objective, w = NegativeLogLikelihood().bind(problem), crf._weights
    columns = [objective.hessp(w, column) for column in np.eye(len(w))]
    return np.linalg.inv(np.array(columns) + np.eye(len(w)) / crf.sigma_reg**2)


@pytest.mark.slow
def test_weights_are_those_of_the_distributions(data, model):
    """Those of ``length`` up to a constant for all labels; a token's emission also has a constant for its label."""
    crf, cov = model[-1], covariance(model, *data[:2])
    names, layout = crf.feature_names_in_.tolist(), crf._layout
    place = {
        (names[feature], crf.patterns_[row][-1]): number
        for number, (feature, row) in enumerate(zip(layout.pair_feature, layout.pair_pattern, strict=True))
    }
    assert len(place) == 9
    assert not crf.token_intercept_.any()
    for label in SHAPE:
        number = place["log_length", label]
        assert abs(crf._weights[number] - (SHAPE[label] - 1)) < 3 * math.sqrt(cov[number, number])
    for one, other in itertools.combinations(SHAPE, 2):
        true = [-1 / SCALE[label] - LEVEL[label] ** 2 / 2 for label in (one, other)]
        i, j = place["length", one], place["length", other]
        error = math.sqrt(cov[i, i] + cov[j, j] - 2 * cov[i, j])
        assert error < 0.1
        assert abs(crf._weights[i] - crf._weights[j] - (true[0] - true[1])) < 3 * error


def test_expected_lengths_on_new_sequences(data, model):
    X, y = data[2:]
    table = durations(model, X, y)
    for row in table:
        lengths = [stop - start for of in extract_segments(y) for start, stop, label in of if label == row.label]
        assert row.true_n_segments == len(lengths)
        assert (row.true_mean, row.true_std) == pytest.approx((np.mean(lengths), np.std(lengths)))
        assert abs(row.mean - row.true_mean) < 3 * row.true_std / math.sqrt(len(lengths))
        assert row.std == pytest.approx(row.true_std, rel=0.25)
        assert row.n_segments == pytest.approx(len(lengths), rel=0.15)
    assert sum(row.n_segments * row.mean for row in table) == pytest.approx(sum(map(len, y)), rel=1e-10)


@pytest.mark.slow
def test_held_out_likelihood_is_not_below_that_of_indicators(data, model):
    X, y = data[2:]
    gamma = model.log_likelihood(X, y).sum()
    for sigma in (1.0, 3.0):
        capped = pipeline(sigma, 3e-3, length="capped", max_length=LONGEST).fit(*data[:2])
        assert gamma > capped.log_likelihood(X, y).sum()


def moments(tables, label):
    """Return number, mean and deviation of lengths from lists of all segments with their probabilities."""
    listed = np.concatenate(tables)
    listed = listed[listed["label"] == label]
    lengths, probability = listed["stop"] - listed["start"], listed["probability"]
    mean = np.average(lengths, weights=probability)
    return probability.sum(), mean, math.sqrt(np.average((lengths - mean) ** 2, weights=probability))


@pytest.mark.parametrize("length", [None, "log", "capped", "gamma", "poisson"])
@pytest.mark.parametrize("options", [{}, {"min_segment_length": 2, "max_order": 2}, {"fit_intercept": "segment"}])
def test_moments_are_those_of_all_segments(length, options):
    rng = np.random.default_rng(0)
    X, y = drawn(rng, 5)
    options = {"label_parts": {"a": ["p"], "b": ["p"]}, "max_segment_length": {"b": 30}, **options}
    if "min_segment_length" in options:
        y = [["a"] * len(labels) if len(labels) < 4 else labels for labels in y]
        y = [[*itertools.chain(*([label] * max(len([*run]), 2) for label, run in itertools.groupby(s)))] for s in y]
        X = [rng.normal(size=(len(labels), 1)) for labels in y]
    crf = HighOrderSemiCRF(tol=1e-1, **options)
    model = make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(length=length), crf).fit(X, y)
    tables = model.predict_segments(X, threshold=0)
    for row in durations(model, X):
        assert (row.n_segments, row.mean, row.std) == pytest.approx(moments(tables, row.label), rel=1e-8)
        assert row[4:] == (None, None, None)
    assert durations(model.set_params(highordersemicrf__n_jobs=2), X) == durations(model, X)


def test_tags_and_labels_that_do_not_occur():
    X = [[["Ann"], ["Lee"], ["met"], ["Bob"]], [["Oslo"], ["met"], ["Ann"]]]
    y = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O", "B-PER"]]
    crf = HighOrderSemiCRF(scheme="bio").fit(X, y)
    table = durations(crf, X[:1], y[:1])
    assert [row.label for row in table] == ["LOC", "PER"]
    assert table[0].true_n_segments == 0
    assert math.isnan(table[0].true_mean)
    assert table[1][4:] == (2, 1.5, 0.5)
    assert [row.n_segments for row in durations(crf, [[]])] == [0.0, 0.0]
    assert [row.n_segments for row in durations(crf, [])] == [0.0, 0.0]


def test_who_has_no_durations():
    X, y = [[["u"], ["v"]]], [["a", "b"]]
    with pytest.raises(TypeError, match="durations are those of segments, but HighOrderCRF labels tokens"):
        durations(HighOrderCRF().fit(X, y), X)
    with pytest.raises(AttributeError, match="not logarithms of probabilities"):
        durations(HighOrderSemiCRF(objective="hinge").fit(X, y), X)


def test_values_and_names_of_lengths():
    gamma, poisson = LengthBlock("gamma", 0), LengthBlock("poisson", 0)
    assert gamma.names(None).tolist() == ["length", "log_length"]
    assert poisson.names(None).tolist() == ["length", "log_factorial_length"]
    d = np.arange(1, 6)
    np.testing.assert_allclose(gamma.table(5), np.stack([d, np.log(d)], axis=1))
    np.testing.assert_allclose(poisson.table(5)[:, 1], np.log([1, 2, 6, 24, 120]), atol=1e-12)


@pytest.mark.parametrize("length", [("gamma", "log"), ("gamma", "poisson"), ("poisson", "poisson"), ["gamma", "gamma"]])
def test_the_same_feature_twice(length):
    batch, y = SequenceFeatureExtractor([]).fit_transform([["u", "v"]]), [["a", "b"]]
    with pytest.raises(ValueError, match="has the same features twice"):
        SegmentFeatureExtractor(length=length).fit(batch, y)
    assert SegmentFeatureExtractor(length=("gamma", "capped")).fit(batch, y).n_features_out_ == 3


@pytest.mark.parametrize("intercept", [True, "token", "segment"])
def test_the_intercept_of_tokens_is_the_weight_of_the_length(intercept):
    """With a token intercept in place of the feature d, the optimum is the same."""
    rng = np.random.default_rng(3)
    X, y = drawn(rng, 10)
    batch = make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(length="gamma")).fit_transform(X, y)
    crf = HighOrderSemiCRF(fit_intercept=intercept, tol=1e-8).fit(batch, y)
    assert not crf.token_intercept_.any()
    assert len(crf._layout.token_labels) == 0
    of_pairs = HighOrderSemiCRF(fit_intercept=intercept, feature_order={"length": (1,)}, tol=1e-1).fit(batch, y)
    assert of_pairs.token_intercept_.all() == (intercept != "segment")  # no single label has the feature
    if intercept is True:
        log = make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(length="log")).fit_transform(X, y)
        other = HighOrderSemiCRF(tol=1e-8).fit(log, y)
        weights = crf.coef_.toarray()[:3, crf.feature_names_in_.tolist().index("length")]
        np.testing.assert_allclose(other.token_intercept_, weights, atol=1e-5)
        assert other.objective_history_[-1] == pytest.approx(crf.objective_history_[-1], rel=1e-9)


def test_the_picture(data, model):
    pytest.importorskip("matplotlib")
    X, y = data[2:]
    display = DurationsDisplay.from_estimator(model, X, y).plot()
    assert repr(display) == repr(durations(model, X, y))
    assert "<table" in display._repr_html_()
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["a", "b", "c"]
    assert len(display.ax_.containers) == 2
    assert len(DurationsDisplay.from_estimator(model, X).plot().ax_.containers) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "newton-cg"},
        {"solver": "sgd", "max_iter": 20, "random_state": 0},
        {"l1_reg": 0.3, "solver": "owlqn"},
        {"objective": "hinge", "max_iter": 20},
        {"objective": "perceptron", "max_iter": 20},
        {"objective": "local_feature_matching", "max_iter": 20},
        {"patterns": "auto"},
        {"feature_order": {"length": (0, 1)}},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore")
def test_lengths_go_with_other_settings(options):
    X, y = drawn(np.random.default_rng(1), 12)
    batch = make_pipeline(SequenceFeatureExtractor(), SegmentFeatureExtractor(length="gamma")).fit_transform(X, y)
    crf = HighOrderSemiCRF(**options).fit(batch, y)
    assert crf.score(batch, y) > 0.6
    if options.get("solver") == "newton-cg":
        found, best = crf.objective_history_[-1], HighOrderSemiCRF(tol=1e-6).fit(batch, y).objective_history_[-1]
        assert found == pytest.approx(best, rel=1e-3)

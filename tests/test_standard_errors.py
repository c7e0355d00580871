"""Laplace standard errors against the explicit Hessian, from differences of gradients."""

import warnings

import numpy as np
import pytest
from internals import NegativeLogLikelihood, model_and_input, model_inside, read_sequences
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.calibration import CalibratedSequenceLabeler
from sklearn_hocrf.feature_extraction import SequenceDictVectorizer
from sklearn_hocrf.inspection import log_odds_standard_errors, weight_standard_errors
from sklearn_hocrf.model_selection import PenaltySearchCV
from sklearn_hocrf.pipeline import SequencePipeline
from sklearn_hocrf.settings import Constraints
from sklearn_hocrf.training import L2, ElasticNet

RNG = np.random.default_rng(0)
LENGTHS = (6, 3, 8, 1, 5)
X = [[{"a": 1.0, "b": float(RNG.normal())} if RNG.random() < 0.7 else {"a": 0.5} for _ in range(n)] for n in LENGTHS]
Y = [["L", "L", "R", "M", "R", "R"], ["M", "L", "L"], ["R", "R", "R", "M", "L", "L", "R", "M"], ["R"], list("LRRLL")]
X_NEW = [X[2][:5], [], X[0]]
POSITIONS = [(0, 0), (0, 4), (2, 3)]
MODELS = {
    "chain": HighOrderCRF(2, sigma_reg=[1.5, 0.8], feature_order=1),
    "order 0, without intercept": HighOrderCRF(0, fit_intercept=False),
    "segments": HighOrderSemiCRF(2, sigma_reg=[1.5, 0.8]),
    "tags": HighOrderSemiCRF(1, scheme="bio", feature_order=1),
}
every_model = pytest.mark.parametrize("name", MODELS)


def labels_of(name):
    return [[f"I-{label}" if label != "M" else "O" for label in labels] for labels in Y] if name == "tags" else Y


def fitted(name, **parameters):
    crf = MODELS[name]
    return type(crf)(**{**crf.get_params(), "tol": 1e-6, **parameters}).fit(X, labels_of(name))


def with_weights(crf, w):
    """Return the model's answers at other weights."""
    model = crf._build_model()
    return type(model)(model.layout, w)


def covariance_of(crf, precision, sequence_weight=None):
    """Return the inverse of the Hessian that differences of expected counts give."""
    batch, _ = read_sequences(crf, X)
    weight = np.ones(len(batch)) if sequence_weight is None else np.asarray(sequence_weight, float)
    w, step = crf._weights, 1e-5
    hessian = np.diag(precision)

    def counts(w):
        model = with_weights(crf, w)
        plan = model.plan(batch)
        return model.expectations(plan, weight).counts

    for k, unit in enumerate(step * np.eye(len(w))):
        hessian[k] += (counts(w + unit) - counts(w - unit)) / (2 * step)
    return np.linalg.inv((hessian + hessian.T) / 2)


def precision_of(crf):
    sigma = np.atleast_1d(crf.sigma_reg).astype(float)
    orders = np.minimum(crf._layout.order_of_weight, len(sigma) - 1)
    return 1 / sigma[orders] ** 2


def all_weights(crf):
    """Return (pattern, feature) of all weights, in the order of the weight vector."""
    layout, names = crf._layout, crf.feature_names_in_
    pairs = [(crf.patterns_[z], names[f]) for z, f in zip(layout.pair_pattern, layout.pair_feature, strict=True)]
    of_tokens = [(crf.patterns_[y], "(each token)") for y in layout.token_labels]
    return pairs + of_tokens + [(crf.patterns_[z], None) for z in layout.bias_pattern]


@every_model
def test_weights_against_the_explicit_hessian(name):
    crf = fitted(name)
    expected = np.sqrt(np.diag(covariance_of(crf, precision_of(crf))))
    before = dict(vars(crf))
    found = weight_standard_errors(crf, X, all_weights(crf), tol=1e-9)
    assert found.shape == expected.shape
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (found < 1 / np.sqrt(precision_of(crf)) * (1 + 1e-9)).all()  # data make it no less sure
    assert found.max() > 1.05 * found.min()
    assert vars(crf) == before


@every_model
def test_log_odds_against_the_explicit_hessian(name):
    crf = fitted(name)
    covariance, labels = covariance_of(crf, precision_of(crf)), crf._labels.tolist()
    batch, _ = read_sequences(crf, X_NEW)
    table = log_odds_standard_errors(crf, X, X_NEW, POSITIONS, tol=1e-9)
    assert table.dtype.names == ("label", "log_odds", "standard_error")
    predicted = [crf.predict(X_NEW)[sequence][token] for sequence, token in POSITIONS]
    assert [label.removeprefix("B-").removeprefix("I-") for label in predicted] == table["label"].tolist()

    def log_odds(w, row):
        sequence, token = POSITIONS[row]
        p = with_weights(crf, w).marginals(batch)[batch.offsets[sequence] + token]
        code = labels.index(table["label"][row])
        return np.log(p[code]) - np.log(np.delete(p, code).sum())

    for row in range(len(POSITIONS)):
        assert table["log_odds"][row] == pytest.approx(log_odds(crf._weights, row), rel=1e-9)
        gradient = np.array(
            [
                (log_odds(crf._weights + unit, row) - log_odds(crf._weights - unit, row)) / 2e-5
                for unit in 1e-5 * np.eye(len(crf._weights))
            ]
        )
        expected = np.sqrt(gradient @ covariance @ gradient)
        assert table["standard_error"][row] == pytest.approx(expected, rel=1e-5)


def test_weights_of_sequences():
    weight = [1.0, 0.0, 2.5, 1.0, 0.5]
    crf = HighOrderCRF(1).fit(X, Y, sample_weight=weight)
    expected = np.sqrt(np.diag(covariance_of(crf, precision_of(crf), weight)))
    found = weight_standard_errors(crf, X, all_weights(crf), sample_weight=weight, tol=1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def pruned(n_candidates, **parameters):
    """Return a pruned model, and the Hessian of its training objective by differences of gradients."""
    crf = HighOrderCRF(2, pruning=n_candidates, sigma_reg=[1.5, 0.8], **parameters)
    problems, build = [], crf._build_problem
    crf._build_problem = lambda *data: problems.append(build(*data)) or problems[-1]
    crf.fit(X, Y)
    del crf._build_problem
    objective, w, step = NegativeLogLikelihood().bind(problems[0]), crf._weights, 1e-5
    columns = [
        (objective.value_gradient(w + unit)[1] - objective.value_gradient(w - unit)[1]) / (2 * step)
        for unit in step * np.eye(len(w))
    ]
    return crf, (np.array(columns) + np.array(columns).T) / 2


@pytest.mark.parametrize("parameters", [{}, {"constraints": Constraints(forbid=[("M", "M")])}])
@pytest.mark.parametrize("n_candidates", [1, 2])
def test_pruned_models_against_the_hessian_of_training(n_candidates, parameters):
    crf, hessian = pruned(n_candidates, **parameters)
    expected = np.sqrt(np.diag(np.linalg.inv(hessian + np.diag(precision_of(crf)))))
    found = weight_standard_errors(crf, X, all_weights(crf), y=Y, tol=1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    model, units = crf._build_model(), np.eye(len(crf._weights))
    plan = model.plan(read_sequences(crf, X)[0])  # without the true labels: another objective
    assert plan.candidates.labels.size < sum(LENGTHS) * 3
    other = np.array([model.hessian_vector_product(plan, unit) for unit in units])
    assert np.abs(other - hessian).max() > 1e-2


def test_pruned_models_need_the_labels_of_training():
    crf, _ = pruned(1)
    with pytest.raises(ValueError, match=r"pruning=1 .*depends on them: pass y$"):
        weight_standard_errors(crf, X, [])
    with pytest.raises(ValueError, match="y has 2 labels, but fit saw 3: pass the y of fit"):
        weight_standard_errors(crf, X, [], y=[["R" if label == "M" else label for label in labels] for labels in Y])


def test_labels_do_not_matter():
    crf = HighOrderCRF(1).fit(X, Y)
    weight, asked = np.arange(1.0, 6.0), all_weights(crf)
    errors = weight_standard_errors(crf, X, asked, sample_weight=weight)
    np.testing.assert_array_equal(errors, weight_standard_errors(crf, X, asked, y=Y, sample_weight=weight))
    weight[2] = 0.0  # with labels, such a sequence is left out as in fit, so that sums are in another order
    errors = weight_standard_errors(crf, X, asked, sample_weight=weight, tol=1e-12)
    again = weight_standard_errors(crf, X, asked, y=Y, sample_weight=weight, tol=1e-12)
    np.testing.assert_allclose(errors, again, rtol=1e-12)


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            [*Y[:3], ["Q"], Y[4]],
            r"unknown label 'Q' \(sequence 3, position 0\): it is not one of the labels seen in fit",
        ),
        ([*Y[:3], Y[3], list("LRQLL")], r"unknown label 'Q' \(sequence 4, position 2\)"),
        ([[None, *Y[0][1:]], *Y[1:]], "y has holes"),
        (Y[:4], "5 sequences, y has 4"),
        ([*Y[:4], Y[4][1:]], "sequence 4 has 5 tokens in X, but 4 labels"),
    ],
)
def test_labels_that_are_not_those_of_fit(estimator, y, message):
    weight = [1.0, 0.0, 1.0, 1.0, 1.0]
    crf = estimator(1).fit(X, Y, weight)
    with pytest.raises(ValueError, match=message):
        weight_standard_errors(crf, X, [(("L",), "a")], y=y, sample_weight=weight)


def test_given_penalties_and_features_by_number():
    crf = HighOrderCRF(penalty=L2(2.0)).fit(X, Y)
    expected = np.sqrt(np.diag(covariance_of(crf, np.full(crf._layout.n_weights, 2.0))))
    np.testing.assert_allclose(weight_standard_errors(crf, X, all_weights(crf), tol=1e-9), expected, rtol=1e-6)
    by_number = weight_standard_errors(crf, X, [(("L",), 0), (("L",), np.int64(1)), (["L", "R"], None)])
    np.testing.assert_array_equal(
        by_number, weight_standard_errors(crf, X, [(("L",), "a"), (("L",), "b"), (("L", "R"), None)])
    )
    rows = [np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([[-1.0, 0.3]])]
    plain = HighOrderCRF().fit(rows, [["L", "R"], ["L"]])
    assert weight_standard_errors(plain, rows, [(("L",), 1)]) < 1


def test_frequent_features_are_surer():
    few, many = HighOrderCRF(1).fit(X, Y), HighOrderCRF(1).fit(X * 10, Y * 10)
    asked = [(("L",), "a"), (("R", "R"), None)]
    assert (weight_standard_errors(many, X * 10, asked) < 0.9 * weight_standard_errors(few, X, asked)).all()


def test_a_certain_label_has_no_log_odds():
    crf = HighOrderCRF(0).fit(X, Y)
    crf._keep(crf._fitted._replace(weights=1e4 * crf._weights))
    table = log_odds_standard_errors(crf, X, X, [(0, 0)])
    assert table["log_odds"][0] == np.inf
    assert np.isnan(table["standard_error"][0])


def test_models_away_from_the_optimum():
    exact, asked = fitted("chain", tol=1e-9), [(("L",), "b"), (("L", "R"), None)]
    loose = fitted("chain", tol=0.1)
    with pytest.warns(ConvergenceWarning, match=r"may be 0\.\d+ standard errors away.*fit with tol=\de-02") as caught:
        errors = weight_standard_errors(loose, X, asked)
    assert (np.abs(loose._weights - exact._weights).max() / errors.max()) < (2 * loose.optimality_gap_) ** 0.5
    tol = float(str(caught[0].message).split("tol=")[1])
    with warnings.catch_warnings(action="error"):
        weight_standard_errors(fitted("chain", tol=tol), X, asked)
        weight_standard_errors(fitted("chain", sigma_reg=np.inf, tol=0.1, max_order=0), X, [])  # there is no bound


def wrapped(wrapper, crf):
    """Return an estimator around a fitted model."""
    if wrapper in (Pipeline, SequencePipeline):
        return wrapper([("features", SequenceDictVectorizer()), ("crf", crf)]).fit(X, Y)
    if wrapper is FrozenEstimator:
        return wrapper(crf)
    if wrapper is GridSearchCV:
        return wrapper(crf, {"max_order": [crf.max_order]}, cv=2).fit(X, Y)
    search = PenaltySearchCV(crf, penalty_groups=[None], cv=2, max_steps=1)
    return search.fit(X, Y)


@pytest.mark.parametrize("wrapper", [Pipeline, SequencePipeline, FrozenEstimator, GridSearchCV, PenaltySearchCV])
def test_models_inside_of_others(wrapper):
    whole = wrapped(wrapper, HighOrderCRF(1, tol=1e-5).fit(X, Y))
    crf = model_inside(whole)
    vectors, new = (model_and_input(whole, given)[1] for given in (X, X_NEW))
    errors = weight_standard_errors(whole, X, all_weights(crf))
    np.testing.assert_array_equal(errors, weight_standard_errors(crf, vectors, all_weights(crf)))
    table = log_odds_standard_errors(whole, X, X_NEW, POSITIONS)
    np.testing.assert_array_equal(table, log_odds_standard_errors(crf, vectors, new, POSITIONS))


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_the_temperature_of_calibration_divides_the_errors(temperature):
    crf, calibrated = fitted("chain"), CalibratedSequenceLabeler(FrozenEstimator(fitted("chain"))).fit(X, Y)
    calibrated.calibrated_estimator_ = crf._divided_by(2.0)._divided_by(temperature / 2.0)
    asked = all_weights(crf)
    errors, plain = (weight_standard_errors(model, X, asked, tol=1e-9) for model in (calibrated, crf))
    np.testing.assert_allclose(errors, plain / temperature, rtol=1e-8)
    table = log_odds_standard_errors(calibrated, X, X_NEW, POSITIONS, tol=1e-9)
    covariance = covariance_of(crf, precision_of(crf)) / temperature**2
    batch, _ = read_sequences(crf, X_NEW)
    divided = calibrated.calibrated_estimator_._build_model()
    marginals = divided.marginals(batch)
    for row, position in zip(table, POSITIONS, strict=True):
        token, code = batch.offsets[position[0]] + position[1], crf.classes_.tolist().index(row["label"])
        p = marginals[token, code]
        gradient = divided.label_gradient(batch, token, code) / (p * (1 - p))
        assert row["log_odds"] == pytest.approx(np.log(p) - np.log1p(-p))
        assert row["standard_error"] == pytest.approx(np.sqrt(gradient @ covariance @ gradient), rel=1e-5)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"objective": "local_feature_matching"}, "standard errors require maximum likelihood"),
        ({"l1_reg": 0.1}, "absolute values: fit with l1_reg=0"),
        ({"penalty": ElasticNet(1.0, 0.1)}, "absolute values"),
    ],
)
@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_models_trained_otherwise(estimator, parameters, message):
    crf = estimator(**parameters, tol=1e-2).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        weight_standard_errors(crf, X, [(("L",), "a")])
    with pytest.raises(ValueError, match=message):
        log_odds_standard_errors(crf, X, X, [(0, 0)])


def test_parameters_set_after_fit_do_not_matter():
    crf, asked = HighOrderCRF(sigma_reg=2.0).fit(X, Y), [(("L",), "a")]
    errors = weight_standard_errors(crf, X, asked)
    crf.set_params(sigma_reg=0.1, objective="hinge")
    np.testing.assert_array_equal(weight_standard_errors(crf, X, asked), errors)
    margin = HighOrderCRF(objective="hinge").fit(X, Y).set_params(objective="likelihood")
    with pytest.raises(ValueError, match="but HighOrderCRF has objective='hinge'"):
        weight_standard_errors(margin, X, asked)


def test_penalties_without_precision():
    class Own(L2):
        def __init__(self):
            super().__init__(1.0)

    crf = HighOrderCRF(penalty=Own()).fit(X, Y)
    del crf.penalty.precision
    with pytest.raises(ValueError, match="has no precision"):
        weight_standard_errors(crf, X, [(("L",), "a")])


def test_unfitted_models():
    with pytest.raises(NotFittedError):
        weight_standard_errors(HighOrderCRF(), X, [])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ((("Q",), "a"), "no pattern"),
        (("L", "a"), "patterns are tuples"),
        ((("L",), "zzz"), "no feature 'zzz'"),
        ((("L",), 2), "no feature 2"),
        ((("L",), True), "no feature True"),
        ((("L", "R"), "a"), "a weight with the feature 'a'"),
        ((("L",), None), "its own weight"),
        (("L",), "is a tuple"),
        ("a", "is a tuple"),
    ],
)
def test_weights_that_are_not_there(weight, message):
    crf = HighOrderCRF(fit_intercept=False).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        weight_standard_errors(crf, X, [weight])


@pytest.mark.parametrize("position", [(0, 5), (1, 0), (3, 0), (-1, 0), (0, -1), 0, (0,), (0.0, 1)])
def test_positions_that_are_not_there(position):
    with pytest.raises(ValueError, match="tuples \\(sequence, token\\)"):
        log_odds_standard_errors(fitted("chain"), X, X_NEW, [position])


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_conjugate_gradients_that_do_not_converge(estimator):
    crf = estimator(2).fit(X, Y)
    with pytest.raises(np.linalg.LinAlgError, match=r"for the weight of \(\('L',\), 'a'\): after 1 iterations"):
        weight_standard_errors(crf, X, [(("L",), "a")], max_iter=1)
    with pytest.raises(np.linalg.LinAlgError, match=r"the log-odds at \(0, 1\)"):
        log_odds_standard_errors(crf, X, X, [(0, 1)], max_iter=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"tol": 0}, "tol must be"), ({"tol": np.nan}, "tol must be"), ({"max_iter": 0}, "max_iter must be")],
)
def test_settings_that_are_out_of_range(settings, message):
    crf = fitted("chain")
    with pytest.raises(ValueError, match=message):
        weight_standard_errors(crf, X, all_weights(crf), **settings)
    with pytest.raises(ValueError, match=message):
        log_odds_standard_errors(crf, X, X, [(0, 0)], **settings)


def test_what_is_asked_for_can_be_read_once():
    crf, asked, positions = fitted("chain"), [(("L",), "a")], [(0, 0), (0, 1)]
    errors = weight_standard_errors(crf, X, asked)
    np.testing.assert_array_equal(weight_standard_errors(crf, X, iter(asked)), errors)
    table = log_odds_standard_errors(crf, X, X, positions)
    np.testing.assert_array_equal(log_odds_standard_errors(crf, X, X, iter(positions)), table)


def test_weights_that_nothing_determines():
    crf = HighOrderCRF(0, sigma_reg=np.inf, tol=1e-2).fit(X * 3, Y * 3)
    with pytest.raises(np.linalg.LinAlgError, match="undetermined"):
        weight_standard_errors(crf, X * 3, [(("L",), None)], max_iter=200)  # the labels' weights may all rise together
    check_is_fitted(crf)

"""``class_weight``: what it makes of the objective, and what it leaves alone."""

import numpy as np
import pytest
from internals import LBFGS
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils.class_weight import compute_class_weight
from test_peers import tagged_sentences
from test_semicrf_estimator import SEGMENTS
from test_semicrf_estimator import X as SEGMENT_X
from test_semicrf_estimator import Y as SEGMENT_Y

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

X, Y = tagged_sentences(np.random.default_rng(0), 20)
SAMPLE_WEIGHT = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], len(X))
WEIGHTS = {"verb": 0.2, "noun": 3.0, "stop": 0.0}
FITS = {
    "crf": lambda **parameters: HighOrderCRF(max_order=2, feature_order={"ending": 1}, **parameters),
    "runs": lambda **parameters: HighOrderSemiCRF(max_order=2, feature_order={"ending": 1}, **parameters),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


def mean_weights(y, of_label):
    """Return the mean weight of the labels of each sequence."""
    return np.array([np.mean([of_label.get(label, 1.0) for label in labels]) for labels in y])


def balanced(y, sample_weight):
    """Return the balanced weights of labels of token sequences, by label."""
    tokens, weight = np.concatenate(y), np.repeat(sample_weight, [len(labels) for labels in y])
    tokens, weight = tokens[weight > 0], weight[weight > 0]
    labels = np.unique(tokens)
    counts = [weight[tokens == label].sum() for label in labels]
    return dict(zip(labels.tolist(), weight.sum() / (len(labels) * np.array(counts)), strict=True))


def test_balanced_is_that_of_scikit_learn():
    tokens = np.concatenate(Y)
    theirs = compute_class_weight("balanced", classes=np.unique(tokens), y=tokens)
    np.testing.assert_allclose(list(balanced(Y, np.ones(len(Y))).values()), theirs, rtol=1e-14)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.1, 2: 4.0}, {0: 1, 1: 0, 2: 2}])
@pytest.mark.parametrize("sample_weight", [None, "some"])
@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
def test_sequences_of_length_one_are_logistic_regression(estimator, class_weight, sample_weight):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(90, 4)), rng.choice(3, 90, p=[0.6, 0.3, 0.1])
    weight = None if sample_weight is None else rng.choice([0.5, 1.0, 3.0], 90)
    if class_weight == "balanced":  # older versions of scikit-learn ignore sample_weight here
        weights = balanced(y[:, None], np.ones(90) if weight is None else weight)
    else:
        weights = class_weight
    peer = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10_000, class_weight=weights)
    peer.fit(X, y, sample_weight=weight)
    crf = estimator(fit_intercept=False, tol=1e-6, max_iter=10_000, class_weight=class_weight)
    np.testing.assert_allclose(crf.fit(X, y, weight).coef_.toarray(), peer.coef_, rtol=0, atol=5e-6)


@every_fit
@pytest.mark.parametrize("sample_weight", [None, SAMPLE_WEIGHT], ids=["alone", "beside sample_weight"])
@pytest.mark.parametrize("class_weight", ["balanced", WEIGHTS], ids=["balanced", "dict"])
def test_objective_and_gradient(fit, class_weight, sample_weight):
    captured = {}

    class Watched(LBFGS):
        def solve(self, objective, penalty, w0):
            captured["objective"] = objective
            return super().solve(objective, penalty, w0)

    crf = fit(class_weight=class_weight, solver=Watched(max_iter=1000)).fit(X, Y, sample_weight)
    own = np.ones(len(X)) if sample_weight is None else sample_weight
    weight = own * mean_weights(Y, balanced(Y, own) if class_weight == "balanced" else class_weight)
    penalty = (crf._weights**2).sum() / 2
    is_used = own > 0  # the others may have segments that are too long
    log_likelihood = weight[is_used] @ crf.log_likelihood(X, Y)[is_used]
    assert crf.objective_history_[-1] == pytest.approx(penalty - log_likelihood, rel=1e-10)

    rng, objective = np.random.default_rng(0), captured["objective"]
    w = rng.normal(size=objective.n_weights)
    _, gradient = objective.value_gradient(w)
    for _ in range(5):
        direction = rng.normal(size=len(w))
        step = 1e-5 * direction / np.linalg.norm(direction)
        slope = (objective.value(w + step) - objective.value(w - step)) / 2
        assert slope == pytest.approx(gradient @ step, rel=1e-5, abs=1e-11)


@every_fit
def test_it_is_a_weight_of_sequences(fit):
    crf = fit(class_weight=WEIGHTS, tol=1e-6).fit(X, Y)
    same = fit(tol=1e-6).fit(X, Y, mean_weights(Y, WEIGHTS) + 1e-12)
    np.testing.assert_allclose(crf.coef_.toarray(), same.coef_.toarray(), rtol=0, atol=1e-5)
    assert np.abs(crf.coef_.toarray() - fit().fit(X, Y).coef_.toarray()).max() > 0.1


@every_fit
@pytest.mark.parametrize("class_weight", ["balanced", {"verb": 1e-3, "noun": 0, "other": 0, "stop": 1e3}])
def test_counts_are_not_weighted(fit, class_weight):
    parameters = {"min_count": 3}
    plain, crf = fit(**parameters).fit(X, Y), fit(**parameters, class_weight=class_weight).fit(X, Y)
    assert crf.patterns_ == plain.patterns_
    np.testing.assert_array_equal(crf.coef_.indices, plain.coef_.indices)
    np.testing.assert_array_equal(crf.coef_.indptr, plain.coef_.indptr)
    np.testing.assert_array_equal(crf.classes_, plain.classes_)


def test_rare_labels_gain():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 1)) for _ in range(200)]
    y = [(x[:, 0] + rng.normal(size=5) > 2).astype(int) for x in X]
    share = [
        np.mean(np.concatenate(HighOrderCRF(class_weight=c).fit(X, y).predict(X))) for c in (None, "balanced", {1: 9})
    ]
    assert share[0] < min(share[1:])


@pytest.mark.parametrize("scheme", ["runs", "bio", "bioes", "segments"])
def test_tokens_have_the_labels_of_their_segments(scheme):
    tokens = [[label for start, stop, label in segments for _ in range(start, stop)] for segments in SEGMENTS]
    for class_weight in "balanced", {"P": 0.3, "L": 7}:
        of_label = balanced(tokens, np.ones(len(tokens))) if class_weight == "balanced" else class_weight
        crf = HighOrderSemiCRF(scheme=scheme, class_weight=class_weight).fit(SEGMENT_X, SEGMENT_Y[scheme])
        log_likelihood = mean_weights(tokens, of_label) @ crf.log_likelihood(SEGMENT_X, SEGMENT_Y[scheme])
        penalty = (crf._weights**2).sum() / 2
        assert crf.objective_history_[-1] == pytest.approx(penalty - log_likelihood, rel=1e-10)


@every_fit
def test_weights_that_are_all_one_change_nothing(fit):
    plain = fit().fit(X, Y, SAMPLE_WEIGHT)
    for class_weight in {}, dict.fromkeys(plain.classes_, 1):
        crf = fit(class_weight=class_weight).fit(X, Y, SAMPLE_WEIGHT)
        np.testing.assert_allclose(crf.coef_.toarray(), plain.coef_.toarray(), rtol=0, atol=1e-9)


@every_fit
@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("auto", "class_weight"),
        ([1, 2, 3, 4], "class_weight"),
        ({"verbs": 1.0}, "key 'verbs', which is not a label of y"),
        ({"verb": 1.0, "noun": 2.0, 3: 1.0}, "key 3, which is not a label"),
        ({"verb": -1.0}, "finite numbers >= 0, got 'verb': -1.0"),
        ({"verb": np.nan}, "finite numbers >= 0"),
        ({"verb": np.inf}, "finite numbers >= 0"),
        ({"verb": "much"}, "finite numbers >= 0"),
        ({"verb": None}, "finite numbers >= 0"),
        ({"verb": 10**400}, "finite numbers >= 0"),
        (dict.fromkeys({label for labels in Y for label in labels}, 0), "class_weight is 0 for all labels of y"),
        (
            dict.fromkeys({label for labels in Y for label in labels}, 1e308),
            "class_weight times sample_weight is too large",
        ),
    ],
)
def test_bad_class_weights(fit, class_weight, message):
    crf = fit(class_weight=class_weight)
    with pytest.raises(ValueError, match=message):
        crf.fit(X, Y)
    assert not hasattr(crf, "classes_")


def test_a_dict_of_all_labels_may_name_more():
    """A fold of cross-validation may lack a label."""
    x, y = [*X, [["rare"]]], [*Y, ["rare"]]
    crf = HighOrderCRF(class_weight={**dict.fromkeys(["verb", "noun", "other", "stop"], 1.0), "rare": 2.0})
    assert not np.isnan(cross_val_score(crf, x, y, cv=3, error_score="raise")).any()

"""Special cases for which other programs give the same numbers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_hocrf import HighOrderCRF


@pytest.mark.parametrize("sigma", [0.3, 2.0])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_sequences_of_length_one_are_logistic_regression(sigma, n_classes):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(150, 6))
    y = np.argmax(X @ rng.normal(size=(6, n_classes)) + rng.gumbel(size=(150, n_classes)), axis=1)
    peer = LogisticRegression(C=sigma**2, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y)
    crf = HighOrderCRF(sigma_reg=sigma, fit_intercept=False, tol=1e-7, max_iter=10_000).fit(X, y)
    np.testing.assert_array_equal(crf.classes_, peer.classes_)
    np.testing.assert_allclose(crf.coef_.toarray(), peer.coef_, rtol=0, atol=5e-6)
    np.testing.assert_allclose(crf.predict_marginals(X), peer.predict_proba(X), rtol=0, atol=5e-6)
    np.testing.assert_array_equal(crf.predict(X), peer.predict(X))
    loss = -np.log(peer.predict_proba(X)[np.arange(150), y]).sum() + (peer.coef_**2).sum() / (2 * sigma**2)
    assert crf.objective_history_[-1] == pytest.approx(loss, rel=1e-10)


def test_sample_weight_is_that_of_logistic_regression():
    rng = np.random.default_rng(1)
    X, y, weight = rng.normal(size=(80, 4)), rng.integers(0, 3, 80), rng.choice([0.0, 0.5, 1.0, 3.0], 80)
    peer = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10_000).fit(X, y, sample_weight=weight)
    crf = HighOrderCRF(fit_intercept=False, tol=1e-6, max_iter=10_000).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(crf.coef_.toarray(), peer.coef_, rtol=0, atol=5e-6)

"""Special cases for which other programs give the same numbers."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sklearn_hocrf import HighOrderCRF

LABELS = ["verb", "noun", "other", "stop"]


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


def tagged_sentences(rng, n_sequences):
    """Return sequences of attribute names, and labels of a random chain; some attributes are rare, some tokens bare."""
    step = rng.dirichlet(np.full(len(LABELS), 0.5), size=len(LABELS))
    X, y = [], []
    for _ in range(n_sequences):
        state, rows, labels = rng.integers(len(LABELS)), [], []
        for _ in range(rng.integers(1, 15)):
            state = rng.choice(len(LABELS), p=step[state])
            word = rng.zipf(1.6) % 40 if rng.random() < 0.5 else 40 + 10 * state + rng.integers(10)
            names = [f"word={word}", f"ending={word % 7}", "capital"]
            rows.append([name for name in names if rng.random() < 0.7])
            labels.append(LABELS[state])
        X.append(rows)
        y.append(labels)
    return X, y


@pytest.mark.parametrize("c2", [0.1, 1.0])
def test_order_one_is_crfsuite(c2, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")
    rng = np.random.default_rng(0)
    X, y = tagged_sentences(rng, 60)
    unseen, _ = tagged_sentences(rng, 20)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for rows, labels in zip(X, y, strict=True):
        trainer.append(rows, labels)
    trainer.set_params({"c1": 0.0, "c2": c2, "max_iterations": 5000, "epsilon": 1e-9, "delta": 1e-13})
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))

    crf = HighOrderCRF(max_order=1, sigma_reg=(2 * c2) ** -0.5, fit_intercept=False, tol=1e-6, max_iter=5000).fit(X, y)
    assert crf.objective_history_[-1] == pytest.approx(trainer.logparser.last_iteration["loss"], rel=1e-6)
    assert crf.coef_.nnz + np.count_nonzero(crf.pattern_coef_) == trainer.logparser.last_iteration["active_features"]
    for rows, marginals in zip(X + unseen, crf.predict_marginals(X + unseen), strict=True):
        tagger.set(rows)
        expected = [[tagger.marginal(label, t) for label in crf.classes_] for t in range(len(rows))]
        np.testing.assert_allclose(marginals, expected, rtol=0, atol=1e-4)
    assert crf.predict(unseen) == [tagger.tag(rows) for rows in unseen]

"""The folds of a search for penalties: the default, and a given number."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold

from sklearn_hocrf import HighOrderCRF, StackedSequenceLabeler
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, PenaltySearchCV, cross_val_predict

RNG = np.random.default_rng(0)
SUBJECTS = [[f"{subject}{RNG.integers(30)}" for _ in range(6)] for subject in "abcde" for _ in range(12)]
LABELS = [[str(label) for label in RNG.integers(3, size=6)] for _ in SUBJECTS]


def features(sequences):
    return [[{word: 1.0} for word in sequence] for sequence in sequences]


def search(cv="shuffled"):
    return PenaltySearchCV(HighOrderCRF(max_order=0), cv=cv, max_steps=1, refit=False)


def split_scores(fitted):
    return [fitted.cv_results_[f"split{number}_test_score"][0] for number in range(fitted.n_splits_)]


def test_default_folds_are_shuffled_with_a_fixed_seed():
    X = features(SUBJECTS)
    given = search(KFold(5, shuffle=True, random_state=0)).fit(X, LABELS)
    assert split_scores(search().fit(X, LABELS)) == split_scores(given)
    assert search().get_params()["cv"] == "shuffled"


def test_default_folds_keep_groups_together():
    X, groups = features(SUBJECTS), np.arange(len(SUBJECTS)) % 7
    given = search(GroupKFold(5, shuffle=True, random_state=0)).fit(X, LABELS, groups=groups)
    assert split_scores(search().fit(X, LABELS, groups=groups)) == split_scores(given)
    assert split_scores(given) != split_scores(search().fit(X, LABELS))


def test_numbers_and_none_are_not_shuffled():
    X = features(SUBJECTS)
    of_order = split_scores(search(KFold(5)).fit(X, LABELS))
    assert split_scores(search(None).fit(X, LABELS)) == split_scores(search(5).fit(X, LABELS)) == of_order


CRF = HighOrderCRF(max_order=0)
FITS = {
    "penalties": lambda cv, X, y: search(cv).fit(X, y),
    "calibrated": lambda cv, X, y: CalibratedSequenceLabeler(CRF, cv=cv).fit(X, y),
    "stacked": lambda cv, X, y: StackedSequenceLabeler(LogisticRegression(), CRF, cv=cv).fit(X, y),
    "predictions": lambda cv, X, y: cross_val_predict(CRF, X, y, cv=cv),
}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", FITS)
def test_fewer_sequences_than_folds(name, n, monkeypatch):
    """The error names the parameter and both numbers, before anything is fitted."""
    for model in (HighOrderCRF, LogisticRegression):
        monkeypatch.setattr(model, "fit", lambda *_, **__: pytest.fail("fitted before the check"))
    X, y = [RNG.normal(size=(4, 2)) for _ in range(n)], [list("abab")] * n
    for cv in (5, KFold(5)):
        message = f"^cv has 5 folds, but the number of sequences is {n}, and .* smaller number, or cut long sequences"
        with pytest.raises(ValueError, match=message):
            FITS[name](cv, X, y)

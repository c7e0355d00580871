"""Values of parameters outside their constraints raise errors, and a fit that fails does not change a fitted model."""

import numpy as np
import pytest
from internals import Interval, Options
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, StackedSequenceLabeler
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
    WindowFeatures,
)
from sklearn_hocrf.model_selection import CalibratedSequenceLabeler, ConformalSequenceLabeler, PenaltySearchCV

ROWS = [np.eye(2)[[0, 1, 1]], np.eye(2)[[1, 0, 0]]] * 4
WORDS = [["a", "b", "b"], ["b", "a", "a"]] * 4
LABELS = [["A", "B", "B"], ["B", "A", "A"]] * 4
CRF = HighOrderCRF(max_iter=1)
MODELS = [CRF, HighOrderSemiCRF(max_iter=1), StackedSequenceLabeler(LogisticRegression(), CRF, cv=2)]
SEARCH, CALIBRATED = PenaltySearchCV(CRF, cv=2, max_steps=1), CalibratedSequenceLabeler(CRF, cv=2)
MODELS += [SEARCH, CALIBRATED, ConformalSequenceLabeler(FrozenEstimator(CRF), alpha=0.5)]
EXTRACTORS = [SequenceFeatureExtractor(), SegmentFeatureExtractor(), SegmentLogOddsEncoder()]
ESTIMATORS = {
    type(estimator).__name__: (estimator, X)
    for X, estimators in [(ROWS, [*MODELS, WindowFeatures()]), (WORDS, EXTRACTORS)]
    for estimator in estimators
}


def wrong_values(constraints):
    """Return values that no constraint allows: of another type, and numbers beside intervals."""
    yield object()
    intervals = [constraint for constraint in constraints if isinstance(constraint, Interval)]
    if all(one in (None, "boolean") or isinstance(one, (Interval, Options)) for one in constraints):
        yield from ("nonsense", [1.0], np.inf if not intervals else np.nan)
        ends = [interval.left - 1 for interval in intervals if interval.left is not None]
        ends += [interval.right + 1 for interval in intervals if interval.right is not None]
        yield from (end for end in ends if not any(end in interval for interval in intervals))


def fitted_attributes(estimator):
    """Return the attributes that a fit sets, by name, each by its identity."""
    return {name: id(value) for name, value in vars(estimator).items() if name[-1] == "_" and name[0] != "_"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_values_that_constraints_do_not_allow(name):
    CRF.fit(ROWS, LABELS)  # which ConformalSequenceLabeler calls frozen
    estimator, X = ESTIMATORS[name]
    estimator = clone(estimator).fit(X, LABELS)
    before, params = fitted_attributes(estimator), estimator.get_params(deep=False)
    for parameter, constraints in estimator._parameter_constraints.items():
        for value in wrong_values(constraints):
            with pytest.raises((TypeError, ValueError), match=rf"\b{parameter}\b"):
                estimator.set_params(**{parameter: value}).fit(X, LABELS)
            estimator.set_params(**params)
            assert fitted_attributes(estimator) == before

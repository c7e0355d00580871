"""Warnings name the line of the user's, whoever calls the package for the user."""

import warnings

import pytest
from internals import warn_user
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF, metrics
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor

X, Y = [[["a"], ["b"]], [["b"]], [["a"]]], [["A", "B"], ["B"], ["A"]]


def test_the_caller_is_named():
    with pytest.warns(RuntimeWarning, match="text") as caught:
        warn_user("text", RuntimeWarning)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_program_of_the_package_alone_is_named():
    """Where every function is of the package, the outermost is named."""
    with pytest.warns(UserWarning, match="text") as caught:
        exec("warn_user('text')", {"warn_user": warn_user, "__name__": "sklearn_hocrf.__main__"})
    assert [warning.filename for warning in caught] == [__file__]  # of this test, which has called the program


@pytest.mark.parametrize(
    ("category", "call"),
    [
        (ConvergenceWarning, lambda: HighOrderCRF(max_iter=1).fit(X, Y)),
        (ConvergenceWarning, lambda: make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=1)).fit(X, Y)),
        (ConvergenceWarning, lambda: cross_val_score(HighOrderCRF(max_iter=1), X, Y, cv=[([0, 1], [2])])),
        (UserWarning, lambda: HighOrderSemiCRF().fit(X, [["B-A", "I-A"], ["O"], ["O"]])),
        (UndefinedMetricWarning, lambda: metrics.segment_precision_recall_f1([["A", "B"]], [["A", "A"]])),
        (UndefinedMetricWarning, lambda: metrics.segment_classification_report([["A", "B"]], [["A", "A"]])),
    ],
)
def test_the_line_of_the_user_is_named(category, call):
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    files = {warning.filename for warning in caught if warning.category is category}
    assert files == {__file__}

"""Warnings name the line of the user's code, even if another library calls the package."""

import warnings

import numpy as np
import pytest
from internals import warn_user
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
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
        (ConvergenceWarning, lambda: HighOrderCRF(sigma_reg=10, max_iter=1).fit(X, Y)),
        (ConvergenceWarning, lambda: make_pipeline(SequenceFeatureExtractor(), HighOrderCRF(max_iter=1)).fit(X, Y)),
        (ConvergenceWarning, lambda: cross_val_score(HighOrderCRF(max_iter=1), X, Y, cv=[([0, 1], [2])])),
        (UserWarning, lambda: HighOrderSemiCRF().fit(X, [["B-A", "I-A"], ["O"], ["noun"]])),
    ],
)
def test_the_line_of_the_user_is_named(category, call):
    with warnings.catch_warnings(record=True, action="always") as caught:
        call()
    files = {warning.filename for warning in caught if warning.category is category}
    assert files == {__file__}


# --- one recording as a plain table -----------------------------------------------------------------------------------


def recording(n_rows, stay, n_labels, seed):
    """Return labels of which each follows from the one before."""
    rng = np.random.default_rng(seed)
    moves = np.where(rng.random(n_rows) < stay, 0, rng.integers(1, n_labels, n_rows))
    return np.cumsum(moves) % n_labels


@pytest.mark.parametrize("estimator", [HighOrderCRF, HighOrderSemiCRF])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.ndarray.tolist, "frame"])
def test_one_recording_as_a_table(estimator, form):
    y = recording(300, 0.95, 3, 0)
    table = np.eye(3)[y] + np.random.default_rng(0).normal(size=(300, 3))
    X = pytest.importorskip("pandas").DataFrame(table) if form == "frame" else form(table)
    crf = estimator(max_iter=3, tol=1e9)
    with pytest.warns(UserWarning, match=r"300 rows are as many .* 9\d\.\d % of.*fit\(\[X\], \[y\]\)") as caught:
        crf.fit(X, y)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings(action="error"):
        crf.fit([X] if form != np.ndarray.tolist else [table], [y])


def test_a_frame_with_times():
    pandas = pytest.importorskip("pandas")
    y = recording(60, 0.0, 3, 0)
    frame = pandas.DataFrame(np.eye(3)[y], index=pandas.date_range("2025-01-01", periods=60, freq="min", tz="UTC"))
    crf = HighOrderCRF(max_iter=3, tol=1e9)
    with pytest.warns(UserWarning, match=r"60 rows .*its index has times in order.*fit\(\[X\], \[y\]\)"):
        crf.fit(frame, y)
    with warnings.catch_warnings(action="error"):
        crf.fit([frame], [y])
        crf.fit(frame.iloc[np.random.default_rng(0).permutation(60)], y)


@pytest.mark.parametrize("n_labels", [2, 3, 20])
@pytest.mark.parametrize("order", ["independent", "sorted", "rare", "alternating"])
def test_rows_that_are_no_recording(n_labels, order):
    crf = HighOrderCRF(max_iter=1, tol=1e9)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, n_labels, 400)
        y = {"sorted": np.sort(y), "rare": y * (rng.random(400) < 0.03), "alternating": np.arange(400) % n_labels}.get(
            order, y
        )
        y[0] = 1 if order == "rare" else y[0]
        with warnings.catch_warnings(action="error"):
            crf.fit(rng.normal(size=(400, 2)), y)

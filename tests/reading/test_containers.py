"""Every container of sequences gives the same results as lists, everywhere that X or y is a parameter."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor
from sklearn_hocrf.inspection import error_table
from sklearn_hocrf.metrics import (
    log_likelihood_scorer,
    segment_f1_score,
    segment_f1_scorer,
    sequence_accuracy_score,
)
from sklearn_hocrf.model_selection import (
    CalibratedSequenceLabeler,
    ConformalSequenceLabeler,
    PenaltySearchCV,
    cross_val_predict,
)
from sklearn_hocrf.text import extract_segments

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:the temperature is")

RANDOM = np.random.default_rng(0)
WORDS = [RANDOM.choice(["w0", "w1", "w2"], size=n).tolist() for n in (3, 2, 4, 2, 3, 4, 4, 3, 4, 3)]
Y = [["A" if word == "w0" else "B" for word in words] for words in WORDS]
NAMES = [[[word, "b"] for word in words] for words in WORDS]
ROWS = [[[float(word[1]), 1.0] for word in words] for words in WORDS]
TABLE, TARGETS = RANDOM.integers(0, 3, (30, 4)).astype(float), np.arange(30) % 3
CRF, STREAM = HighOrderCRF(max_iter=4), HighOrderCRF(solver="sgd", random_state=0)
DATA = {"names": (NAMES, Y), "rows": (ROWS, Y), "table": (TABLE, TARGETS)}


@cache
def fitted_to(kind):
    return clone(CRF).fit(*DATA[kind])


def fitted(lists):
    """Return the model of lists, or of the table."""
    return fitted_to("table" if lists is TABLE else "names" if lists is NAMES else "rows")


def objects(cells):
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array


def polars_series(cells):
    return pytest.importorskip("polars").Series(cells)


def arrow_array(cells):
    return pytest.importorskip("pyarrow").array(cells)


def chunked_array(cells):
    return pytest.importorskip("pyarrow").chunked_array([cells[:1], cells[1:]])


def with_index(cells):
    return pd.Series(cells, index=range(5, 5 + len(cells)))


COLUMNS = [tuple, objects, with_index, polars_series, arrow_array, chunked_array]
PLACES = {  # of the lists, X and y
    "fit": lambda lists, X, y: CRF.fit(X, y).predict_marginals(lists),
    "partial_fit": lambda lists, X, y: clone(STREAM).partial_fit(X, y).predict_marginals(lists),
    "segments": lambda lists, X, y: HighOrderSemiCRF(max_iter=4).fit(X, y).predict_marginals(lists),
    "predict": lambda lists, X, y: fitted(lists).predict(X),
    "marginals": lambda lists, X, y: fitted(lists).predict_marginals(X),
    "known": lambda lists, X, y: fitted(lists).predict(X, known=y),
    "score": lambda lists, X, y: fitted(lists).score(X, y),
    "log_likelihood": lambda lists, X, y: fitted(lists).log_likelihood(X, y),
    "search": lambda lists, X, y: PenaltySearchCV(CRF, cv=2, max_steps=1).fit(X, y).predict_marginals(lists),
    "calibrated": lambda lists, X, y: CalibratedSequenceLabeler(CRF, cv=2).fit(X, y).predict_marginals(lists),
    "conformal": lambda lists, X, y: ConformalSequenceLabeler(fitted(lists)).fit(X, y).predict(lists),
    "cross_val_predict": lambda lists, X, y: cross_val_predict(CRF, X, y, cv=2, method="predict_marginals"),
    "cross_val_score": lambda lists, X, y: cross_val_score(CRF, X, y, cv=KFold(2), error_score="raise"),
}
OFTEN = "fit", "segments", "predict", "known", "score"  # the other places take what these have read
SCORES = {
    "sequences": lambda lists, X, y: sequence_accuracy_score(y, Y),
    "f1 of segments": lambda lists, X, y: segment_f1_score(Y, y),
    "extracted": lambda lists, X, y: extract_segments(y),
    "errors": lambda lists, X, y: str(error_table(NAMES, y, Y)),
    "f1 of a model": lambda lists, X, y: segment_f1_scorer(fitted(lists), X, y),
    "likelihood of a model": lambda lists, X, y: log_likelihood_scorer(fitted(lists), X, y),
}
EXTRACTORS = {
    "fit": lambda lists, X, y: SequenceFeatureExtractor().fit(X).transform(lists).toarray(),
    "transform": lambda lists, X, y: SequenceFeatureExtractor().fit(lists).transform(X).toarray(),
}


def assert_same(found, expected, rtol=0.0):
    if isinstance(expected, (list, tuple)) or getattr(getattr(expected, "dtype", None), "kind", "") == "O":
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, rtol)
    elif isinstance(expected, np.ndarray) and expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=0.0)
    else:
        np.testing.assert_array_equal(found, expected)


@cache
def expected(place, kind):
    """Return what a place makes of lists; its errors are those of the lists."""
    lists, y = DATA[kind]
    return {**PLACES, **SCORES}[place](lists, lists, y)


def check(place, kind, X, y):
    """Compare a place with lists, and with another container of X or of y, which is read alike for all kinds of X."""
    (lists, labels), ask = DATA[kind], PLACES.get(place) or SCORES[place]
    assert_same(ask(lists, X, labels), expected(place, kind))
    if kind == "names" or place not in OFTEN:
        assert_same(ask(lists, lists, y), expected(place, kind))


PAIRS = [(kind, place) for kind in ("names", "rows") for place in PLACES] + [("names", score) for score in SCORES]


@pytest.mark.parametrize(
    ("kind", "place", "make", "inner"),
    [(*pair, make, inner) for pair in PAIRS if pair[1] in OFTEN for make in COLUMNS for inner in (False, True)]
    + [(kind, place, objects, kind == "rows" or place in SCORES) for kind, place in PAIRS if place not in OFTEN],
)
def test_columns_of_sequences(kind, place, make, inner):
    def column(sequences):
        return list(map(make, sequences)) if inner else make(sequences)

    check(place, kind, column(DATA[kind][0]), column(Y))


@pytest.mark.parametrize("inner", [False, True], ids=["whole", "each"])
@pytest.mark.parametrize("make", [*COLUMNS, np.array])
@pytest.mark.parametrize("place", EXTRACTORS)
def test_columns_of_tokens(place, make, inner):
    if make is np.array and not inner:
        pytest.skip("sequences of several lengths are no array")
    X = list(map(make, WORDS)) if inner else make(WORDS)
    assert_same(EXTRACTORS[place](WORDS, X, None), EXTRACTORS[place](WORDS, WORDS, None))


@pytest.mark.parametrize("place", PLACES)
def test_arrays_of_each_sequence(place):
    for kind in "names", "rows":
        check(place, kind, list(map(np.array, DATA[kind][0])), list(map(np.array, Y)))


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"])
def test_sparse_tables_and_sequences(form, kind):
    make, rtol = getattr(sparse, f"{form}_{kind}"), 1e-12  # sums have another order
    for name in PLACES if (form, kind) == ("csr", "array") else ("fit", "predict"):
        assert_same(PLACES[name](TABLE, make(TABLE), TARGETS), expected(name, "table"), rtol)
        assert_same(PLACES[name](ROWS, [make(rows) for rows in ROWS], Y), expected(name, "rows"), rtol)


@pytest.mark.parametrize("make", [list, *COLUMNS])
def test_columns_of_labels_of_a_table(make):
    for name in PLACES if make is objects else OFTEN:
        assert_same(PLACES[name](TABLE, TABLE, make(TARGETS.tolist())), expected(name, "table"))


@pytest.mark.parametrize("estimator", [HighOrderCRF(), HighOrderSemiCRF()])
@pytest.mark.parametrize("make", [list, *COLUMNS])
def test_flat_rows_are_refused_by_name(estimator, make):
    rows, y = [[0.0, 1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], [["a", "b", "b"], ["b", "a"], ["a", "b"]]
    for X in make(rows), make(list(map(np.array, rows))) if make not in (arrow_array, chunked_array) else make(rows):
        with pytest.raises(ValueError, match=r"ragged rows: sequence 1, pos.*every token is a row: `\[\[\[x\]"):
            estimator.fit(X, y)
    with pytest.raises(TypeError, match="sequence 1, position 0 of X is 1.0 .*must be a row of numbers"):
        estimator.fit([[[0.0], [1.0], [1.0]], objects([1.0, 0.0]), [[0.0], [1.0]]], y)


# --- what numpy, pandas and scipy cannot convert ----------------------------------------------------------------------


needs_strings = pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy has no StringDType")
NO_TEXT = (None, np.nan, pd.NA)


def texts(values, na_object=None):
    return np.array(
        [na_object if value is None else value for value in values], np.dtypes.StringDType(na_object=na_object)
    )


@needs_strings
@pytest.mark.parametrize("estimator", [HighOrderCRF(max_iter=3), HighOrderSemiCRF(max_iter=3)])
def test_labels_of_numpys_texts(estimator):
    X, y = [[["u"], ["v"], ["u"]], [["v"], ["u"]]], [["a", None, "b"], ["b", "a"]]
    lists = clone(estimator).fit(X, y)
    for form in [texts(labels) for labels in y], [texts(y[0]), y[1]]:
        arrays = clone(estimator).fit(X, form)
        np.testing.assert_array_equal(arrays.coef_.toarray(), lists.coef_.toarray())
        assert lists.predict(X, known=form) == lists.predict(X, known=y)
        np.testing.assert_array_equal(lists.log_likelihood(X, form), lists.log_likelihood(X, y))
    complete = clone(estimator).fit(X, [texts("aab"), texts("ba")])
    assert complete.classes_.tolist() == ["a", "b"]
    for missing in NO_TEXT[1:]:
        with pytest.raises(ValueError, match=r"y (contains NaN|has the label <NA>) \(sequence 0, position 1\)"):
            clone(estimator).fit(X, [texts(labels, missing) for labels in y])
    with pytest.raises(ValueError, match="y has missing labels"):
        lists.score(X, [texts(labels) for labels in y])


def table_of(values):
    return pd.DataFrame({"u": [1.0, 2.0], "v": values})


ODD = {
    "numpy's texts": lambda: np.array([["1", "2"], ["3", None]], np.dtypes.StringDType(na_object=None)),
    "records": lambda: np.array([[(1, 0), (2, 0)], [(3, 0), (4, 0)]], "f8,i4"),
    "masked": lambda: np.ma.array([[1, 2], [3, 4]], mask=[[0, 0], [0, 1]]),
    "times": lambda: np.array([["2020", "2021"], ["2020", "NaT"]], "M8[Y]"),
    "objects": lambda: np.array([[1, 2], [3, {}]], object),
    "arrays in arrays": lambda: np.array([[1, 2], [3, np.ones(2)]], object),
    "long numbers": lambda: np.array([[1, 2], [3, np.longdouble("1e400")]]),
    "NA": lambda: table_of(pd.array([1, None], "Int64")),
    "NA of texts": lambda: table_of(pd.array(["1", None], "string")),
    "categories": lambda: table_of(pd.Categorical(["x", None])),
    "periods": lambda: table_of(pd.PeriodIndex(["2020-01", None], freq="M")),
    "intervals": lambda: table_of(pd.interval_range(0, 2)),
    "sparse columns": lambda: table_of(pd.arrays.SparseArray([0.0, np.nan])),
    "sparse, of long numbers": lambda: sparse.csr_array(np.array([[1, 0], [0, np.longdouble("nan")]])),
    "keys": lambda: sparse.dok_array(np.array([[1.0, 0.0], [0.0, np.nan]])),
}


@pytest.mark.parametrize("kind", ODD)
def test_errors_of_other_libraries_name_the_place(kind):
    if kind == "numpy's texts" and not hasattr(np.dtypes, "StringDType"):
        pytest.skip("numpy has no StringDType")
    odd, right, y = ODD[kind](), np.ones((2, 2)), [["a", "b"], ["b", "a"]]
    fitted = HighOrderCRF(max_iter=2).fit([right, right], y)
    where = r"sequence 1, position [01](, feature [01])?( of X)? (is|has)"
    for call in (
        lambda: HighOrderCRF().fit([right, odd], y),
        lambda: fitted.predict([right, odd]),
        lambda: fitted.predict_marginals([right, odd]),
        lambda: cross_val_score(HighOrderCRF(), [right, odd] * 2, y * 2, cv=2, error_score="raise"),
    ):
        with pytest.raises((TypeError, ValueError), match=where):
            call()
    row_of_table = r"sequence [01], position 0, feature [01]( of X)? is"
    if isinstance(odd, np.ndarray):
        with pytest.raises((TypeError, ValueError), match=row_of_table):
            HighOrderCRF().fit(odd, ["a", "b"])


def test_sparse_vectors_are_no_sequences():
    with pytest.raises(ValueError, match="sequence 1 of X has 1 dimensions, but must have 2"):
        HighOrderCRF().fit([np.ones((2, 2)), sparse.coo_array(np.ones(2))], [["a", "b"], ["b", "a"]])


@needs_strings
def test_numpys_texts_are_names_of_attributes():
    rows = [["a", "b"], ["c", "d"]]
    named, y = np.array(rows, np.dtypes.StringDType()), [["p", "q"]]
    plain = HighOrderCRF(max_iter=2).fit([np.array(rows)], y)
    assert_same(HighOrderCRF(max_iter=2).fit([named], y).coef_.toarray(), plain.coef_.toarray())
    assert plain.predict([named]) == plain.predict([np.array(rows)])
    with pytest.raises(TypeError, match="a str, but sequence 0, position 1 of X has None"):
        HighOrderCRF().fit([np.array([["a", "b"], ["c", None]], np.dtypes.StringDType(na_object=None))], y)

"""scikit-learn's transformers on tokens, and windows over neighbouring tokens, against plain code on stacked rows."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
import skops.io
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline as plain_pipeline
from sklearn.pipeline import make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from sklearn_hocrf import (
    TRUSTED_TYPES,
    HighOrderCRF,
    HighOrderSemiCRF,
    SequenceBatch,
    StackedSequenceLabeler,
    make_pipeline,
)
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SequenceFeatureExtractor,
    TokenTransformer,
    WindowFeatures,
)
from sklearn_hocrf.tagger import export_tagger

pd = pytest.importorskip("pandas", reason="pandas is absent")

RNG = np.random.default_rng(0)
LENGTHS = [0, 4, 1, 7, 0, 30, 12, 3]
OFFSETS = np.append(0, np.cumsum(LENGTHS))
ROWS = RNG.normal(size=(OFFSETS[-1], 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, 1.0]
CODES = RNG.integers(3, size=(OFFSETS[-1], 2))
LABELS = np.where(ROWS[:, 0] > 0, "up", "down")
SENSORS = ["x", "y", "z"]


def cut(rows):
    return [rows[a:b] for a, b in zip(OFFSETS, OFFSETS[1:], strict=False)]


def dense(part):
    part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
    return part.astype(float) if part.dtype.kind in "biuf" else part


class Differing(TransformerMixin, BaseEstimator):
    """Other rows in training than later, as a TargetEncoder has them."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def fit_transform(self, X, y=None):
        return -self.fit(X).transform(X)

    def transform(self, X):
        return 2 * X


Y = [labels.tolist() for labels in cut(LABELS)]
FRAME = pd.DataFrame(ROWS, columns=SENSORS).assign(place=np.array(["in", "out", "up"])[CODES[:, 0]])
HOLED = np.where(RNG.random(ROWS.shape) < 0.2, np.nan, ROWS)
COLUMNS = ColumnTransformer(
    [
        ("numbers", StandardScaler(), SENSORS),
        ("texts", OneHotEncoder(sparse_output=False), make_column_selector("place")),
    ]
)
SUPERVISED = [SelectKBest(k=2), LinearDiscriminantAnalysis(n_components=1), SelectFromModel(LogisticRegression())]
INNER = {  # transformer, stacked rows
    **{
        type(inner).__name__: (inner, ROWS)
        for inner in [
            *SUPERVISED,
            *(StandardScaler(), MinMaxScaler(), RobustScaler(), QuantileTransformer(n_quantiles=9), PCA(2)),
            *(PolynomialFeatures(2), SplineTransformer(), Nystroem(n_components=4, random_state=0)),
            FunctionTransformer(np.abs),
        ]
    },
    "bins, sparse": (KBinsDiscretizer(4, strategy="uniform"), ROWS),
    "imputed": (SimpleImputer(add_indicator=True), HOLED),
    "codes, sparse": (OneHotEncoder(), CODES),
    "texts, sparse": (OneHotEncoder(), np.array(["a", "b", "c"], dtype=object)[CODES]),
    "columns": (COLUMNS, FRAME),
    "frames as frames": (StandardScaler().set_output(transform="pandas"), FRAME[SENSORS]),
    "nested": (plain_pipeline(SimpleImputer(), make_union(StandardScaler(), PCA(1))), HOLED),
    "of sparse rows": (TruncatedSVD(2, random_state=0), sparse.csr_array(np.maximum(ROWS - [0, 100, 1], 0.0))),
    "other training rows": (Differing(), ROWS),
}


@pytest.mark.parametrize("name", INNER)
def test_any_transformer_sees_the_stacked_tokens(name):
    inner, rows = INNER[name]
    X = cut(rows)
    fitted, y = TokenTransformer(inner), LABELS
    found, expected = fitted.fit_transform(X, Y), clone(inner).fit_transform(rows, y)
    again, same = (
        TokenTransformer(inner).fit(X, Y).transform(X[3:]),
        clone(inner).fit(rows, y).transform(rows[OFFSETS[3] :]),
    )
    for ours, theirs, lengths in ((found, expected, LENGTHS), (again, same, LENGTHS[3:])):
        assert [part.shape[0] for part in ours] == lengths
        assert {type(part) for part in ours} == {type(theirs)}
        np.testing.assert_array_equal(np.concatenate(list(map(dense, ours))), dense(theirs))
    assert fitted.n_features_in_ == rows.shape[1]
    if hasattr(inner, "get_feature_names_out"):
        names = inner.fit(rows, y).get_feature_names_out()
        assert fitted.get_feature_names_out().tolist() == names.tolist()
    else:
        assert not hasattr(fitted, "get_feature_names_out")
    assert hasattr(fitted, "feature_names_in_") == hasattr(rows, "columns")
    np.testing.assert_array_equal(dense(clone(fitted).fit(X, Y).transform(X[5:6])[0]), dense(again[2]))


def test_tokens_that_are_no_rows_yet():
    dicts = [[{"w": word, "n": n} for n, word in enumerate(words)] for words in ([], ["a", "b"], ["b"])]
    ours = TokenTransformer(DictVectorizer(sparse=False)).fit_transform(dicts)
    assert ours[1].tolist() == [[0, 1, 0], [1, 0, 1]]
    assert ours[2].tolist() == [[0, 0, 1]]
    words = [["abc", "bcd"], ["x"]]
    hashed = TokenTransformer(HashingVectorizer(n_features=8, analyzer="char")).fit_transform(words)
    assert [part.shape for part in hashed] == [(2, 8), (1, 8)]
    lists = [rows.tolist() for rows in cut(ROWS)]
    ours = TokenTransformer(StandardScaler()).fit_transform(lists)
    np.testing.assert_array_equal(np.concatenate(ours), StandardScaler().fit_transform(ROWS))


def test_forms_of_X_remain():
    scaled = StandardScaler().fit_transform(ROWS)
    grid = ROWS[:56].reshape(8, 7, 3)
    found = TokenTransformer(StandardScaler()).fit_transform(grid)
    np.testing.assert_array_equal(found.reshape(56, 3), StandardScaler().fit_transform(ROWS[:56]))
    assert TokenTransformer(OneHotEncoder()).fit_transform(grid[:, :, :1])[7].shape[0] == 7
    assert TokenTransformer(SelectKBest(k=1)).fit_transform(grid, LABELS[:56].reshape(8, 7)).shape == (8, 7, 1)
    assert TokenTransformer(StandardScaler()).fit(grid).transform(grid[:0]).shape == (0, 7, 3)
    np.testing.assert_array_equal(TokenTransformer(StandardScaler()).fit_transform(ROWS), scaled)
    table = TokenTransformer(StandardScaler()).set_output(transform="pandas").fit_transform(FRAME[SENSORS])
    assert table.columns.tolist() == SENSORS
    sequences = np.empty(len(LENGTHS), dtype=object)
    sequences[:] = cut(ROWS)
    np.testing.assert_array_equal(np.concatenate(TokenTransformer(StandardScaler()).fit_transform(sequences)), scaled)


def test_batches_remain_batches_with_their_names():
    words = [["the", "old", "man"], [], ["the", "men"]]
    extractor = SequenceFeatureExtractor([("w", 0)])
    batch = extractor.fit_transform(words)
    kept = TokenTransformer(SelectKBest(k=2)).fit(batch, [["D", "A", "N"], [], ["D", "N"]])
    found = kept.transform(batch)
    assert isinstance(found, SequenceBatch)
    assert found.shape == (3, 2)
    assert found.feature_names.tolist() == kept.get_feature_names_out().tolist()
    assert set(found.feature_names) < set(extractor.get_feature_names_out())
    assert found.columns.keys() == batch.columns.keys()
    numbers = SequenceBatch.from_table(ROWS, OFFSETS, SENSORS)
    scaled = TokenTransformer(StandardScaler()).fit_transform(numbers)
    np.testing.assert_array_equal(scaled.toarray(), StandardScaler().fit_transform(ROWS))
    assert scaled.feature_names.tolist() == SENSORS
    assert TokenTransformer(StandardScaler()).fit(numbers).transform(numbers[:0]).shape == (0, 3)
    with pytest.raises(ValueError, match="^X has features of segments, but TokenTransformer takes those of tokens"):
        TokenTransformer(StandardScaler()).fit(SegmentFeatureExtractor(begin=True).fit_transform(numbers))


def test_polars_frames():
    polars = pytest.importorskip("polars", reason="polars is absent")
    frames = [polars.DataFrame(rows, schema=SENSORS, orient="row") for rows in cut(ROWS)]
    inner = StandardScaler().set_output(transform="polars")
    found = TokenTransformer(inner).fit_transform(frames)
    stacked = inner.fit_transform(polars.DataFrame(ROWS, schema=SENSORS, orient="row"))
    assert found[3].columns == stacked.columns  # scikit-learn 1.6 does not see the names of polars 2
    np.testing.assert_array_equal(np.concatenate(found), stacked)


def test_sequences_without_tokens():
    fitted = TokenTransformer(PCA(2)).fit(cut(ROWS))
    for empty in ([], np.empty((0, 3)), np.empty(0)):
        assert [np.shape(part) for part in fitted.transform([empty, empty])] == [(0, 2)] * 2
        assert fitted.transform([empty, ROWS[:1]])[1].shape == (1, 2)
    assert fitted.transform([]) == []
    assert [len(part) for part in TokenTransformer(FunctionTransformer(np.abs)).fit(cut(ROWS)).transform([[]])] == [0]
    for X in ([], [[]], [np.empty((0, 3))]):
        with pytest.raises(ValueError, match="^X has no tokens: TokenTransformer needs at least one to learn from"):
            TokenTransformer(StandardScaler()).fit(X)
    model = plain_pipeline(fitted, HighOrderCRF()).fit(cut(ROWS), Y)
    assert model.predict([[], ROWS[:1], np.empty((0, 3))])[0] == []


@pytest.mark.parametrize("make", [plain_pipeline, make_pipeline])
def test_in_a_grid_search(make):
    pipe = make(TokenTransformer(StandardScaler()), HighOrderCRF())
    grid = [{"tokentransformer__transformer__with_mean": [True, False]}, {"tokentransformer__transformer": [PCA(2)]}]
    with warnings.catch_warnings(action="error", category=UserWarning):
        search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(cut(ROWS)[1:], Y[1:])
    assert search.cv_results_["mean_test_score"].max() > 0.8
    assert search.predict(cut(ROWS)[:2])[0] == []
    best = search.best_estimator_[0].transformer_
    assert type(best) is type(search.best_params_.get("tokentransformer__transformer", best))


def test_labels():
    selected = np.concatenate(TokenTransformer(SelectKBest(k=1)).fit_transform(cut(ROWS), Y))
    np.testing.assert_array_equal(selected, SelectKBest(k=1).fit_transform(ROWS, LABELS))
    arrays = cut(np.arange(OFFSETS[-1]) % 2)
    assert TokenTransformer(LinearDiscriminantAnalysis()).fit(cut(ROWS), arrays).transformer_.classes_.tolist() == [
        0,
        1,
    ]
    segments = [[(0, length, "P")] if length else [] for length in LENGTHS]
    unknown = [None, [None] * 4, *Y[2:]]
    for y in (segments, unknown, None):
        np.testing.assert_array_equal(
            np.concatenate(TokenTransformer(StandardScaler()).fit_transform(cut(ROWS), y)),
            StandardScaler().fit_transform(ROWS),
        )
    with pytest.raises(ValueError, match="requires y to be passed"):
        TokenTransformer(SelectKBest()).fit(cut(ROWS), segments)
    with pytest.raises(ValueError, match="^sequence 2 has 1 tokens in X, but 2 labels in y$"):
        TokenTransformer(StandardScaler()).fit(cut(ROWS), [*Y[:2], ["up", "up"], *Y[3:]])
    with pytest.raises(ValueError, match="^X has 8 sequences, y has 7$"):
        TokenTransformer(StandardScaler()).fit(cut(ROWS), Y[1:])
    semi = make_pipeline(TokenTransformer(StandardScaler()), HighOrderSemiCRF(scheme="segments", max_iter=3, tol=1))
    two = [[(0, length, "PQ"[n % 2])] if length else [] for n, length in enumerate(LENGTHS)]
    assert len(semi.fit(cut(ROWS), two).predict(cut(ROWS))) == 8


SEGMENTS = [[(0, length, "P")] if length else [] for length in LENGTHS]
LACKING = {  # y that a transformer of rows cannot learn from, and the words of the message
    "segments": (SEGMENTS, r"y has segments: pass tags, as text.convert_tags\("),
    "no sequence": ([*Y[:3], None, *Y[4:]], "sequence 3, position 0 of y has None, not one label: leave"),
    "some": ([*Y[:2], [None], *Y[3:]], "sequence 2, position 0 of y has None, not one label: leave such sequences out"),
    "nan": ([*Y[:2], [np.nan], *Y[3:]], "sequence 2, position 0 of y has nan, not one label"),
    "none": ([[None] * length for length in LENGTHS], "sequence 1, position 0 of y has None, not one label"),
    "sets": ([*Y[:2], [{"up"}], *Y[3:]], r"sequence 2, position 0 of y has \{'up'\}, not one label.*FrozenEstimator"),
    "parts": (
        [[(label, "a") for label in labels] for labels in Y],
        "sequence 1, position 0 of y has .*, not one label",
    ),
}
LEARNING = {
    **{type(inner).__name__: inner for inner in SUPERVISED},
    "pipeline": plain_pipeline(StandardScaler(), SelectKBest(k=1)),
    "union": make_union(StandardScaler(), SelectKBest(k=1)),
    "search": SelectFromModel(GridSearchCV(LogisticRegression(), {}, cv=2), importance_getter="best_estimator_.coef_"),
}
ALONE = {
    "scaler": StandardScaler(),
    "pipeline": plain_pipeline(StandardScaler(), PCA(2)),
    "union": make_union(StandardScaler(), PCA(1)),
}
SEQUENCES = {
    "arrays": cut(ROWS),
    "lists": [rows.tolist() for rows in cut(ROWS)],
    "frames": cut(FRAME[SENSORS]),
    "batch": SequenceBatch.from_table(ROWS, OFFSETS, SENSORS),
}


@pytest.mark.parametrize(
    ("form", "lacking"), [(form, "some") for form in SEQUENCES] + [("lists", y) for y in LACKING if y != "some"]
)
def test_y_without_one_label_per_token(form, lacking):
    y, message = LACKING[lacking]
    for inner in ALONE.values():
        expected = TokenTransformer(inner).fit_transform(SEQUENCES[form])
        found = TokenTransformer(inner).fit_transform(SEQUENCES[form], y)
        for part, of_none in zip(found, expected, strict=True):
            np.testing.assert_array_equal(dense(part), dense(of_none))
    for inner in LEARNING.values():
        step = TokenTransformer(inner)
        for fit in (step.fit, step.fit_transform):
            with pytest.raises(ValueError, match=rf"^{type(inner).__name__} fails without labels \(.*: {message}"):
                fit(SEQUENCES[form], y)
        assert not hasattr(step, "transformer_")
        step.fit(SEQUENCES[form], Y)


def test_several_targets_of_a_table():
    targets = [*map(tuple, ROWS[:, :2].tolist())]
    found = TokenTransformer(PLSRegression(1)).fit(ROWS, targets).transform(ROWS)
    np.testing.assert_array_equal(found, PLSRegression(1).fit(ROWS, targets).transform(ROWS))


def test_names_of_frames_reach_the_model():
    frames = cut(FRAME[SENSORS])
    pipe = make_pipeline(TokenTransformer(StandardScaler()), HighOrderCRF()).set_output(transform="pandas")
    pipe.fit(frames, Y)
    assert pipe[-1].feature_names_in_.tolist() == SENSORS
    assert pipe[0].feature_names_in_.tolist() == SENSORS
    assert not hasattr(TokenTransformer(FrozenEstimator(object())), "set_output")
    step = TokenTransformer(StandardScaler()).fit(frames)
    assert isinstance(step.set_output(transform="pandas").transform(frames)[3], pd.DataFrame)
    with sklearn.config_context(transform_output="pandas"):
        assert TokenTransformer(PCA(2)).fit_transform(frames)[3].columns.tolist() == ["pca0", "pca1"]
    with pytest.raises(ValueError, match="feature names should match"):
        step.transform([frames[3].rename(columns={"x": "w"})])


def test_files(tmp_path):
    fitted = make_pipeline(WindowFeatures(1, 1), TokenTransformer(StandardScaler()), HighOrderCRF()).fit(cut(ROWS), Y)
    copies = pickle.loads(pickle.dumps(fitted)), skops.io.loads(skops.io.dumps(fitted), trusted=TRUSTED_TYPES)
    for copy in copies:
        np.testing.assert_array_equal(
            np.concatenate(copy[:-1].transform(cut(ROWS))), np.concatenate(fitted[:-1].transform(cut(ROWS)))
        )
    pipe = make_pipeline(TokenTransformer(StandardScaler()), HighOrderCRF()).fit(cut(ROWS), Y)
    with pytest.raises(ValueError, match="lists of attribute names, but the model gets TokenTransformer"):
        export_tagger(pipe, tmp_path / "model")


def test_a_frozen_transformer_is_not_fitted_again():
    scaler = StandardScaler().fit(ROWS[:9])
    found = TokenTransformer(FrozenEstimator(scaler)).fit_transform(cut(ROWS))
    np.testing.assert_array_equal(np.concatenate(found), scaler.transform(ROWS))


class Halving(TransformerMixin, BaseEstimator):
    """Not one row for each row."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[::2]

    def __sklearn_is_fitted__(self):
        return True


WIDE = pd.DataFrame(np.ones((2, 100)), columns=[f"column {i}" for i in range(100)])
REFUSED = {
    "widths": (
        [ROWS[:2], ROWS[:2, :2]],
        "sequence 1 of X is an array with 2 columns, but sequence 0 is an array with 3",
    ),
    "kinds": (
        [ROWS[:2], sparse.csr_array(ROWS[:2])],
        "sequence 1 of X is a sparse matrix with 3 columns, but sequence 0",
    ),
    "frames": (
        [FRAME[:2], FRAME[["x"]]],
        "sequence 1 of X is a data frame with 1 columns, but sequence 0 is a data frame",
    ),
    "many names": (
        [WIDE, WIDE.rename(columns={"column 99": "other"})],
        "sequence 1 of X has the column 'other' in place of 'column 99', which sequence 0 has",
    ),
    "texts": (
        [ROWS[:2], ROWS[:2].astype(str)],
        "sequence 1 of X is an array of texts with 3 columns, but sequence 0 is",
    ),
    "ragged": (
        [ROWS[:2, 0], ROWS[:3, 0]],
        r"ragged rows: X\[1\] has the shape \(3,\), but X\[0\] has \(2,\); in a list",
    ),
    "one axis": (
        [np.array(["a", "b"])] * 2,
        r"sequence 0 of X has the shape \(2,\), but must have one row per token: X\[0\].resh",
    ),
    "masked": ([np.ma.masked_less(ROWS[:9], 1.0)], r"sequence 0 of X is masked: fill such entries, as X\[0\].filled"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("step", [TokenTransformer(StandardScaler()), WindowFeatures()], ids=["inner", "windows"])
def test_sequences_must_be_alike(name, step):
    X, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"^{message}"):
        clone(step).fit(X)
    assert not hasattr(step, "transformer_")


def test_refused():
    with pytest.raises(ValueError, match="^Halving returned 29 rows for 57 tokens, but each token needs one"):
        TokenTransformer(Halving()).fit_transform(cut(ROWS))
    with pytest.raises(sklearn.exceptions.NotFittedError):
        TokenTransformer(StandardScaler()).transform(cut(ROWS))
    for wrong in ("scale", None, LogisticRegression()):
        with pytest.raises(ValueError, match="'transformer' parameter of TokenTransformer must be an object"):
            TokenTransformer(wrong).fit(cut(ROWS))
    with pytest.raises(ValueError, match="'with_mean' parameter of StandardScaler"):
        make_pipeline(TokenTransformer(StandardScaler(with_mean="no")), HighOrderCRF()).fit(cut(ROWS), Y)
    fitted = TokenTransformer(StandardScaler()).fit(cut(ROWS))
    with pytest.raises(ValueError, match="X has 2 features, but StandardScaler is expecting 3"):
        fitted.fit(cut(ROWS)).transform([ROWS[:, :2]])
    with pytest.raises(ValueError, match="infinity"):
        fitted.fit([ROWS, np.full((1, 3), np.inf)])
    np.testing.assert_array_equal(fitted.transformer_.mean_, StandardScaler().fit(ROWS).mean_)  # as it was before


def test_partitions_are_refused():
    dask = pytest.importorskip("sklearn_hocrf.dask", reason="Dask is absent", exc_type=ImportError)
    bag = pytest.importorskip("dask.bag")
    with pytest.raises(TypeError, match="TokenTransformer does not learn from partitions: fit it on one machine"):
        dask.DaskExtractor(TokenTransformer(StandardScaler())).fit(bag.from_sequence(cut(ROWS)))
    fitted = TokenTransformer(StandardScaler()).fit(cut(ROWS))
    parts = bag.from_sequence(cut(ROWS), npartitions=2).map_partitions(lambda part: fitted.transform(list(part)))
    np.testing.assert_array_equal(np.concatenate(parts.compute(scheduler="sync")), fitted.transformer_.transform(ROWS))


# --- windows ----------------------------------------------------------------------------------------------------------


def plain_windows(x, before, after, function):
    """Return a function of the window around each token, whose ends are repeated."""
    padded = np.concatenate([x[:1]] * before + [x] + [x[-1:]] * after)
    width, places = before + after + 1, np.arange(before + after + 1)
    compute = {
        "mean": lambda window: window.mean(axis=0),
        "std": lambda window: window.std(axis=0),
        "slope": lambda window: np.polyfit(places, window, 1)[0] if width > 1 else np.zeros(window.shape[1]),
    }[function]
    return np.array([compute(padded[t : t + width]) for t in range(len(x))])


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 2**32 - 1),
)
@example([3], 1, 0, 0)
@example([3], 0, 1, 0)
def test_windows_are_those_of_the_definition(lengths, before, after, seed):
    functions = ["mean", "std", "slope"]
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(length, 2)) * [1.0, 1e3] + [0.0, 1e6] for length in lengths]
    windows = WindowFeatures(before, after)
    for x, found in zip(X, windows.fit_transform(X), strict=True):
        expected = [x, *(plain_windows(x, before, after, function) for function in functions)] if len(x) else []
        assert found.shape == (len(x), 2 + 2 * len(functions))
        if len(x):
            np.testing.assert_allclose(found, np.hstack(expected), rtol=1e-9, atol=1e-7)
    names = windows.get_feature_names_out()
    assert names.tolist() == ["x0", "x1", *(f"x{i}_{function}" for function in functions for i in (0, 1))]


@pytest.mark.parametrize(
    "made",
    [
        lambda X, y: TokenTransformer(StandardScaler()).fit(X).transform,
        lambda X, y: WindowFeatures().fit(X).transform,
        lambda X, y: StackedSequenceLabeler(LogisticRegression(), cv=2).fit(X, y).predict,
    ],
    ids=["inner", "windows", "stacked"],
)
def test_features_of_a_batch_in_another_order_are_refused(made):
    rows = np.random.default_rng(0).normal(size=(8, 2))
    batch, swapped = (
        SequenceBatch.from_table(rows, [0, 4, 8], feature_names=names) for names in (["a", "b"], ["b", "a"])
    )
    ask = made(batch, [list("pqpq"), list("qqpp")])
    ask(batch)
    with pytest.raises(ValueError, match="the features of X differ from those .* feature 0 is 'b', in fit it was 'a'"):
        ask(swapped)


def test_a_constant_has_neither_spread_nor_slope():
    level = [np.full((5, 1), 7.0), np.full((2, 1), -1e9)]
    assert [part[:, 2:].tolist() for part in WindowFeatures(9, 9).fit_transform(level)] == [[[0, 0]] * 5, [[0, 0]] * 2]


def test_forms_of_windows():
    frames = cut(FRAME[SENSORS])
    windows = WindowFeatures(1, 1).fit(frames)
    names = [*SENSORS, *(f"{name}_{what}" for what in ("mean", "std", "slope") for name in SENSORS)]
    assert windows.get_feature_names_out().tolist() == names
    np.testing.assert_array_equal(windows.transform(frames)[3], WindowFeatures(1, 1).fit_transform(cut(ROWS))[3])
    grid = ROWS[:56].reshape(8, 7, 3)
    assert WindowFeatures().fit_transform(grid).shape == (8, 7, 12)
    table = WindowFeatures().fit_transform(ROWS)  # sequences of one token
    np.testing.assert_array_equal(table, np.hstack([ROWS, ROWS, np.zeros((len(ROWS), 6))]))
    batch = SequenceBatch.from_table(ROWS, OFFSETS, SENSORS)
    found = windows.fit(batch).transform(batch)
    assert found.feature_names.tolist() == names
    np.testing.assert_allclose(found.toarray(), np.concatenate(windows.fit_transform(cut(ROWS))))


def test_windows_refuse():
    for wrong in {"before": -1}, {"after": 1.5}:
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}.* must be"):
            WindowFeatures(**wrong).fit(cut(ROWS))
    with pytest.raises(ValueError, match="contains NaN"):
        WindowFeatures().fit([np.full((2, 1), np.nan)])
    for X in ([], [[]]):
        with pytest.raises(ValueError, match="no tokens"):
            WindowFeatures().fit(X)
    windows = WindowFeatures().fit(cut(FRAME[SENSORS]))
    for wrong in (cut(HOLED), cut(FRAME.iloc[:, 2:])):
        with pytest.raises(ValueError, match=r"NaN|could not convert"):
            windows.fit(wrong)
        assert windows.feature_names_in_.tolist() == SENSORS  # nothing has changed
    with pytest.raises(ValueError, match="X has 2 features, but WindowFeatures is expecting 3"):
        windows.transform([np.ones((2, 2))])

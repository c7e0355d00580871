import pickle

import numpy as np
import pytest
from internals import SequenceBatch
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.utils import get_tags

from sklearn_hocrf.feature_extraction import SequenceFeatureExtractor, TokenTransformer

LENGTHS = [3, 0, 5, 7]
RNG = np.random.default_rng(7)
X = [RNG.normal(size=(length, 4)) for length in LENGTHS]
Y = [[str(i % 3) for i in range(length)] for length in LENGTHS]
STACKED, STACKED_Y = np.concatenate(X), np.concatenate([np.array(labels, dtype=str) for labels in Y])


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        PCA(n_components=2),
        Nystroem(n_components=5, random_state=0),
        SelectKBest(k=2),
        OneHotEncoder(handle_unknown="ignore"),
        KBinsDiscretizer(n_bins=3, encode="onehot-dense", strategy="uniform"),
        LinearDiscriminantAnalysis(),
        ColumnTransformer([("scale", StandardScaler(), [0, 2])], remainder="passthrough"),
        make_pipeline(StandardScaler(), PCA(n_components=3)),
    ],
    ids=lambda transformer: type(transformer).__name__,
)
def test_equals_the_transformer_of_the_stacked_tokens(transformer):
    expected = clone(transformer).fit_transform(STACKED, STACKED_Y)
    tokenwise = TokenTransformer(transformer)
    batch = tokenwise.fit_transform(X, Y)
    dense = expected.toarray() if sparse.issparse(expected) else expected
    np.testing.assert_allclose(batch.toarray(), dense, rtol=1e-12)
    assert batch.lengths.tolist() == LENGTHS
    alone = clone(transformer).fit(STACKED, STACKED_Y)
    expected = alone.transform(STACKED[3:8])
    dense = expected.toarray() if sparse.issparse(expected) else expected
    np.testing.assert_allclose(tokenwise.fit(X, Y).transform(X[1:3]).toarray(), dense, rtol=1e-12)
    assert tokenwise.get_feature_names_out().tolist() == alone.get_feature_names_out().tolist()
    assert batch.feature_names.tolist() == alone.get_feature_names_out().tolist()
    assert batch.n_features == tokenwise.n_features_out_ == len(batch.feature_names)
    assert tokenwise.n_features_in_ == 4
    assert not hasattr(transformer, "n_features_in_")  # it was cloned


def test_forms_of_sequences_agree():
    cube = RNG.normal(size=(2, 3, 2))
    expected = StandardScaler().fit_transform(cube.reshape(6, 2))
    as_batch = SequenceBatch.from_csr(
        sparse.csr_array(cube.reshape(6, 2)), [0, 3, 6], ["a", "b"], {"n": np.arange(6.0)}
    )
    for form in (cube, list(cube), cube.tolist(), iter(cube), as_batch):
        tokenwise = TokenTransformer(StandardScaler())
        np.testing.assert_allclose(tokenwise.fit_transform(form).toarray(), expected, rtol=1e-12)
        np.testing.assert_allclose(tokenwise.transform(cube[1:]).toarray(), expected[3:], rtol=1e-12)
    batch = tokenwise.transform(as_batch)
    assert batch.feature_names.tolist() == ["a", "b"]
    assert batch.columns["n"].tolist() == [0, 1, 2, 3, 4, 5]


def test_sparse_tokens_stay_sparse():
    words = SequenceFeatureExtractor([("w", 0)]).fit_transform([list("abcdabcd"), list("dd")])
    tokenwise = TokenTransformer(StandardScaler(with_mean=False))
    batch = tokenwise.fit_transform(words)
    assert batch.feature_names.tolist() == ["w[0]=a", "w[0]=b", "w[0]=c", "w[0]=d"]
    assert len(batch.indices) == 10
    assert batch.columns.keys() == {"w"}
    matrices = [sparse.csr_matrix(words[n].tocsr()) for n in range(2)]
    np.testing.assert_allclose(tokenwise.fit_transform(matrices).toarray(), batch.toarray())
    with pytest.raises(ValueError, match="Cannot center sparse"):
        TokenTransformer(StandardScaler()).fit(words)


def test_sparse_or_dense_as_in_fit():
    """A test batch that happens to be full must not reach the transformer in another form than the training batch."""
    forms = []

    def note(table):
        forms.append(sparse.issparse(table))
        return table

    full = SequenceBatch([0, 1], [0, 2], [0, 1], [1.0, 2.0], 2)
    hollow = SequenceBatch([0, 2], [0, 0, 0], [], None, 2)
    for train, other in ((full, hollow), (hollow, full)):
        tokenwise = TokenTransformer(FunctionTransformer(note, accept_sparse=True)).fit(train)
        forms.clear()
        tokenwise.transform(train)
        tokenwise.transform(other)
        assert forms == [train is hollow] * 2


def test_text_columns():
    tokens = [[["a", "x"], ["b", "x"]], [["a", "y"]]]
    batch = TokenTransformer(OneHotEncoder()).fit_transform(tokens)
    assert batch.feature_names.tolist() == ["x0_a", "x0_b", "x1_x", "x1_y"]
    assert batch.toarray().tolist() == [[1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]]
    assert batch.values is None


def test_transformer_that_knows_no_names_or_no_fit_transform():
    class Halves(BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def transform(self, X):
            return X[:, :2] / 2

    tokenwise = TokenTransformer(Halves())
    np.testing.assert_array_equal(tokenwise.fit_transform(X).toarray(), STACKED[:, :2] / 2)
    assert tokenwise.get_feature_names_out().tolist() == ["halves0", "halves1"]


def test_labels_of_any_kind_reach_a_supervised_transformer():
    class Labels(TransformerMixin, BaseEstimator):
        def fit(self, X, y):
            self.y_ = y
            return self

        def transform(self, X):
            return X

    cube = np.ones((2, 2, 1))
    assert TokenTransformer(Labels()).fit(cube, np.array([[1, 2], [3, 4]])).transformer_.y_.tolist() == [1, 2, 3, 4]
    pairs = [[("a", 1), ("b", 2)], [("a", 1), ("a", 2)]]
    assert TokenTransformer(Labels()).fit(cube, pairs).transformer_.y_.tolist() == pairs[0] + pairs[1]
    assert get_tags(TokenTransformer(TargetEncoder())).target_tags.required
    assert not get_tags(TokenTransformer(StandardScaler())).target_tags.required


def test_nested_parameters_clone_and_pickle():
    pipe = make_pipeline(TokenTransformer(PCA()), TokenTransformer(StandardScaler()))
    pipe.set_params(**{"tokentransformer-1__transformer__n_components": 3})
    twin = clone(pipe).fit(X)
    assert twin[0].transformer_.n_components_ == 3
    assert twin.get_feature_names_out().tolist() == ["pca0", "pca1", "pca2"]
    loaded = pickle.loads(pickle.dumps(twin))
    np.testing.assert_array_equal(loaded.transform(X).toarray(), twin.transform(X).toarray())


def test_nothing_to_transform():
    tokenwise = TokenTransformer(PCA(n_components=2)).fit(X)
    for nothing in ([], [[]], [np.empty((0, 4))]):
        assert tokenwise.transform(nothing).toarray().shape == (0, 2)
        with pytest.raises(ValueError, match="X has no tokens"):
            TokenTransformer(PCA()).fit(nothing)
    with pytest.raises(NotFittedError):
        TokenTransformer(PCA()).transform(X)
    with pytest.raises(NotFittedError):
        TokenTransformer(PCA()).get_feature_names_out()


def test_missing_values_are_the_transformers_business():
    holes = [np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [5.0, np.nan]])]
    assert TokenTransformer(SimpleImputer()).fit_transform(holes).toarray()[2].tolist() == [5, 3]
    with pytest.raises(ValueError, match="sequence 1, position 1: column 1 holds nan; Input X contains NaN"):
        TokenTransformer(PCA()).fit(holes)
    with pytest.raises(ValueError, match="sequence 0, position 1: column 1 holds nan"):
        TokenTransformer(PCA()).fit([np.eye(2)]).transform(holes[1:])
    with pytest.raises(ValueError, match="sequence 1, position 1: column 1 holds nan"):
        TokenTransformer(PCA()).fit([sparse.csr_array(table) for table in holes])


@pytest.mark.parametrize(
    ("sequences", "error", "message"),
    [
        ("text", TypeError, "X must be a list of sequences, got str"),
        (3, TypeError, "got int"),
        (np.ones((2, 2)), ValueError, r"wrap it: \[X\]"),
        (sparse.csr_array(np.ones((2, 2))), ValueError, r"wrap it: \[X\]"),
        ([np.ones((2, 2)), "text"], TypeError, "sequence 1 must be an array of shape"),
        ([np.ones((2, 2)), 3], TypeError, "sequence 1 must be an array of shape .* got int"),
        ([np.ones((2, 2)), [1.0, 2.0]], ValueError, r"sequence 1 has shape \(2,\)"),
        ([np.ones((2, 2)), np.ones((2, 3))], ValueError, "sequence 1 has 3 columns, but sequence 0 has 2"),
        ([[[1.0, 2.0]], [[1.0, 2.0], [3.0]]], ValueError, "sequence 1, position 1: the row has 1 columns"),
    ],
)
def test_bad_input(sequences, error, message):
    with pytest.raises(error, match=message):
        TokenTransformer(StandardScaler()).fit(sequences)


def test_other_errors():
    with pytest.raises(ValueError, match="the tokens have 3 columns, but had 4 in fit"):
        TokenTransformer(StandardScaler()).fit(X).transform([np.ones((2, 3))])
    with pytest.raises(ValueError, match="y has 3 sequences, but X has 4"):
        TokenTransformer(SelectKBest(k=1)).fit(X, Y[:3])
    with pytest.raises(ValueError, match="sequence 2: y has 3 labels, but X has 5 tokens"):
        TokenTransformer(SelectKBest(k=1)).fit(X, [Y[0], Y[1], Y[0], Y[3]])
    with pytest.raises(ValueError, match="'transformer' parameter"):
        TokenTransformer("scaler").fit(X)
    with pytest.raises(ValueError, match=r"returned a table of shape \(14, 4\), expected \(15, 4\)"):
        TokenTransformer(FunctionTransformer(lambda table: table[1:])).fit_transform(X)
    with pytest.raises(ValueError, match="returned values of dtype <U.*; features must be numbers"):
        TokenTransformer(FunctionTransformer(lambda table: table.astype(str))).fit_transform(X)


def test_pipeline_with_a_step_that_knows_no_names():
    """scikit-learn's pipelines always have get_feature_names_out, and fail if a step has not."""
    doubled = TokenTransformer(make_pipeline(FunctionTransformer(np.negative), StandardScaler()))
    batch = doubled.fit_transform([np.arange(6.0).reshape(3, 2)])
    assert batch.n_tokens == 3
    assert doubled.get_feature_names_out().tolist() == ["pipeline0", "pipeline1"]

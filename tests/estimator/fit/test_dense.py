"""Dense columns: the same model as with the numbers in sparse rows, in all results and all kinds of training."""

import numpy as np
import pytest
from cases import build_layout, cases, random_case, reschedule, to_batch, to_codes, to_layout
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    ChainModel,
    DenseColumns,
    Problem,
    Reader,
    SegmentModel,
    SequenceBatch,
    as_sparse,
    given_patterns,
    read_training_sequences,
)
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusals
from scipy import sparse
from segment_cases import segment_cases, to_segment_batch, to_segment_layout, to_segments, to_weights

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def densified(batch, attributes, dtype=np.float64):
    """Return the batch with dense columns of some attributes."""
    matrix, attributes = batch.tocsr(), sorted(attributes)
    rest = sparse.csr_array(matrix @ sparse.diags_array(~np.isin(np.arange(batch.n_attributes), attributes) * 1.0))
    rest.eliminate_zeros()
    parts = {name: getattr(batch, name) for name in ("columns", "blocks")}
    dense = DenseColumns(np.array(attributes, np.int32), batch.toarray()[:, attributes].astype(dtype))
    n, values = batch.n_attributes, rest.data
    return SequenceBatch(batch.offsets, rest.indptr, rest.indices, values, n, None, dense=dense, **parts)


some = st.data()
dtypes = st.sampled_from([np.float32, np.float64])  # the values drawn are exact in both


def pair_keys(layout):
    return sorted(zip(layout.pair_feature.tolist(), layout.pair_pattern.tolist(), strict=True))


def by_key(layout, numbers):
    """Return numbers of all weights in an order that does not depend on the ranks of attributes."""
    order = np.lexsort((layout.pair_pattern, layout.pair_feature))
    return np.concatenate([numbers[: layout.n_pairs][order], numbers[layout.n_pairs :]])


def check_layouts(build, sparse_batch, dense_batch, truth, weight):
    """Check which pairs there are, and what the labels count."""
    for options in ({"all_pairs": True}, {"all_pairs": False}, {"all_pairs": False, "min_count": 1.5}):
        layouts = [build(batch, sequence_weight=weight, **options) for batch in (sparse_batch, dense_batch)]
        assert pair_keys(layouts[0]) == pair_keys(layouts[1])
        counts = [
            by_key(layout, layout.empirical_counts(batch, truth, weight, layout.rows(batch)))
            for layout, batch in zip(layouts, (sparse_batch, dense_batch), strict=True)
        ]
        assert_allclose(counts[1], counts[0], **CLOSE)


def check_answers(model, batches, truth, weight):
    """Check all that a model says about a batch, and what a training reads of it."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=model.layout.n_weights)
    n_labels = model.layout.automaton.n_labels

    def answers(batch):
        given = model.posterior(batch)
        expectations = given.expectations(weight)
        yield expectations.log_z
        yield expectations.counts
        yield given.hessian_vector_product(direction, weight)
        yield given.log_z_and_slope(direction)[1]
        yield given.marginals()
        yield given.pattern_marginals([(0, n_labels - 1)])
        yield given.log_score(truth)
        yield given.entropy()
        problem = Problem(type(model), model.layout, batch, truth, sequence_weight=weight)
        yield problem.empirical_counts()
        if len(batch):
            yield problem.minibatches.value_gradient(
                np.array(model.weights), np.arange(len(batch)), problem.minibatches.weights(np.arange(len(batch)))
            )[0]
        yield problem.matching.value_gradient(model.weights)[1]

    for number, (expected, found) in enumerate(zip(*map(answers, batches), strict=True)):
        assert_allclose(found, expected, err_msg=str(number), rtol=1e-8, atol=1e-9)


@given(cases(min_length=1), some, dtypes)
def test_chains_are_the_same(case, draws, dtype):
    batch = to_batch(case.rows, case.n_attributes)
    n = batch.n_attributes
    attributes = draws.draw(st.sets(st.integers(0, n - 1))) if n else []
    dense, codes = densified(batch, attributes, dtype), to_codes(case.labels)
    assert (dense.dense is None) == (not attributes)
    weight = np.linspace(0.5, 1.5, len(batch))
    check_layouts(lambda b, **options: to_layout_of(case, b, **options), batch, dense, codes, weight)
    layout, weights = to_layout(case)
    check_answers(ChainModel(layout, weights), (batch, dense), codes, weight)


def to_layout_of(case, batch, **options):
    patterns = given_patterns(case.model.patterns, case.model.n_labels)
    return build_layout(batch, to_codes(case.labels), patterns, feature_orders=case.feature_orders, **options)


@given(segment_cases(), some, dtypes)
def test_segments_are_the_same(case, draws, dtype):
    batch = to_segment_batch(case)
    dense = densified(batch, draws.draw(st.sets(st.integers(0, case.n_attributes - 1), min_size=1)), dtype)
    segments = to_segments(case.segmentations, batch.offsets)
    weight = np.linspace(0.5, 1.5, len(batch))
    check_layouts(lambda b, **options: to_segment_layout(case, b, **options), batch, dense, segments, weight)
    layout = to_segment_layout(case)
    check_answers(SegmentModel(layout, to_weights(case, layout)), (batch, dense), segments, weight)


@pytest.mark.parametrize("width", [1, 7, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_sequences_cut_by_position(width, dtype):
    """Several tiles, lanes of one and of many sequences, groups of tokens that are not full, many score columns."""
    rng = np.random.default_rng(width)
    case = random_case(rng, 3, [1300, 1, *rng.integers(1, 40, 40)], 2, 30, 0.3, [(0, 2), *[(0, 1)] * (width - 1)])
    layout, weights = to_layout(case)
    values = np.concatenate([rng.normal(size=(len(rows), width)) for rows in case.rows]).astype(dtype)
    offsets = np.cumsum([0, *map(len, case.rows)])
    dense = SequenceBatch.from_table(values, offsets)
    assert dense.dense.values.dtype == dtype
    model = reschedule(ChainModel(layout, weights), cut_size=4000, tile_sizes=(2000, 4000))
    expected, found = (model.posterior(batch).expectations() for batch in (as_sparse(dense), dense))
    assert_allclose(found.log_z, expected.log_z, rtol=1e-12)
    assert_allclose(found.counts, expected.counts, **CLOSE)
    assert all(
        np.array_equal(*pair) for pair in zip(found, model.posterior(dense, n_jobs=2).expectations(), strict=True)
    )
    assert_array_equal(model.posterior(dense).decode(), model.posterior(as_sparse(dense)).decode())


# ---------------------------------------------------------------------------------------------------------- estimators


def draw(rng, lengths, width):
    """Return numbers, hardly any of which is 0, and labels that depend on them."""
    X = [rng.normal(size=(length, width)) for length in lengths]
    return X, [["abc"[i] for i in np.digitize(rows[:, 0] + rng.normal(size=len(rows)), [-0.5, 0.5])] for rows in X]


LENGTHS = [5, 1, 17, 9, 30, 12, 3, 8]
X, Y = draw(np.random.default_rng(0), LENGTHS, 5)
TABLE, OFFSETS = np.concatenate(X), np.cumsum([0, *LENGTHS])
# --------------------------------------------------------------------------------------------------- what becomes dense


def reading(X):
    """Return the batch that an estimator makes of X."""
    return read_training_sequences(Reader("HighOrderCRF"), X).batch


def test_arrays_that_are_mostly_not_zero():
    assert reading(X).dense.values.dtype == np.float64
    assert reading([rows.astype(np.float32) for rows in X]).dense.values.dtype == np.float32
    assert reading([rows.astype(np.float16) for rows in X]).dense.values.dtype == np.float64
    assert reading([sparse.csr_array(rows) for rows in X]).dense is None
    assert reading([np.where(rows > 1, rows, 0) for rows in X]).dense is None
    half = [np.hstack([rows, np.zeros_like(rows)]) for rows in X]
    assert reading(half).dense is not None
    assert reading([np.hstack([rows, 0 * rows[:, :1]]) for rows in half]).dense is None
    grid = np.ones((4, 3, 2))
    assert reading(grid).dense.values.shape == (12, 2)
    table = TABLE[:9]
    assert reading(table).dense.values.shape == (9, 5)


def test_large_numbers_keep_their_digits():
    """Times in seconds differ in digits that float32 has not."""
    times = [1.7e9 + np.arange(4.0)[:, None] for _ in range(2)]
    assert_array_equal(reading(times).toarray(), np.concatenate(times))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_not_finite(bad, dtype):
    broken = [rows.astype(dtype) for rows in X]
    broken[2][3, 1] = bad
    with pytest.raises(ValueError, match="sequence 2, position 3"):
        HighOrderCRF(0).fit(broken, Y)
    batch = SequenceBatch.from_table(np.concatenate(broken), OFFSETS)
    with pytest.raises(ValueError, match="sequence 2, position 3"):
        HighOrderCRF(0).fit(batch, Y)
    with pytest.raises(ValueError, match="sequence 2, position 3"):
        HighOrderCRF(0).fit(X, Y).predict(broken)


# ------------------------------------------------------------------------------------------------------------- batches


# -------------------------------------------------------------------------------------------------------------- fields


def token(word, *vector):
    return {"w": word, "v": np.array(vector, dtype=np.float32)}


TOKENS = [[token("a", 1, 2, 3), token("b", 4, 5, 6)], [], [token("a", 7, 8, 9), {"w": "c", "v": None}]]


def test_fields_of_arrays():
    extractor = SequenceFeatureExtractor([("w", 0), ("v", 0), ("v", -1)])
    batch = extractor.fit_transform(TOKENS)
    names = ["w[0]=a", "w[0]=b", "w[0]=c", "v[0]", "v[1]", "v[2]", "v[-1][0]", "v[-1][1]", "v[-1][2]"]
    assert extractor.get_feature_names_out().tolist() == batch.feature_names.tolist() == names
    assert batch.dense.values.dtype == np.float32
    assert batch.toarray().tolist() == [
        [1, 0, 0, 1, 2, 3, 0, 0, 0],
        [0, 1, 0, 4, 5, 6, 1, 2, 3],
        [1, 0, 0, 7, 8, 9, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, 7, 8, 9],
    ]
    assert list(batch.columns) == ["w"]
    assert extractor.transform(TOKENS[::-1])[0].toarray().tolist() == batch[2].toarray().tolist()
    assert extractor.templates_ == [(("w", 0),), (("v", 0),), (("v", -1),)]
    following = SequenceFeatureExtractor([("v", 1)]).fit_transform(TOKENS)
    assert following.toarray().tolist() == [[4, 5, 6], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_missing_arrays_later():
    extractor = SequenceFeatureExtractor([("v", 0), ("w", 0)]).fit(TOKENS)
    assert extractor.transform([[{"w": "a", "v": None}]]).toarray().tolist() == [[1, 0, 0, 0, 0, 0]]
    assert extractor.transform([[{"w": "a"}]]).toarray().tolist() == [[1, 0, 0, 0, 0, 0]]
    assert extractor.transform([[], []]).shape == (2, 6)
    extractor = SequenceFeatureExtractor([("v", 0)]).fit(TOKENS[:1])
    with pytest.warns(UserWarning, match="sequence 0, position 1, the field 'v'"):
        extractor.transform([[token("a", 1, 2, 3), {"v": None}]])


BROKEN = {
    "another width": (token("a", 1, 2), ValueError, "sequence 2, position 1: field 'v' holds 2 numbers, .* first .* 3"),
    "nan": (token("a", 1, np.nan, 3), ValueError, "sequence 2, position 1: field 'v' holds nan at 1"),
    "inf": (token("a", 1, 2, -np.inf), ValueError, "sequence 2, position 1: field 'v' holds -inf at 2"),
    "beyond float32": (
        {"v": np.array([1e300, 0, 0])},
        ValueError,
        r"position 1: field 'v' holds 1e\+300 at 0; out of the range of float32",
    ),
    "two dimensions": ({"v": np.ones((1, 3))}, ValueError, r"sequence 2, position 1: field 'v' is an array of shape"),
    "no dimension": ({"v": np.array(1.0)}, ValueError, r"sequence 2, position 1: field 'v' is an array of shape \(\)"),
    "text": ({"v": "abc"}, TypeError, "sequence 2, position 1: field 'v' is 'abc', of type str"),
    "a number": ({"v": 3.0}, TypeError, "sequence 2, position 1: field 'v' is 3.0, of type float"),
    "a list": ({"v": [1, 2, 3]}, TypeError, "sequence 2, position 1: field 'v' is .*, of type list"),
    "texts": ({"v": np.array(["a", "b", "c"])}, TypeError, "sequence 2, position 1: field 'v' is .* array of <U1"),
    "masked": ({"v": np.ma.masked_equal([1, 2, 3], 2)}, TypeError, "(?s)position 1: .* of type MaskedArray"),
}


@pytest.mark.parametrize(("bad", "error", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_arrays(bad, error, message):
    tokens = [*TOKENS[:2], [TOKENS[2][0], bad]]
    extractor = SequenceFeatureExtractor([("v", 0)])
    with pytest.raises(error, match=message):
        extractor.fit(tokens)
    assert not hasattr(extractor, "templates_")
    with pytest.raises(error, match=message):
        extractor.fit(TOKENS).transform(tokens)


def test_arrays_beside_other_transformers():
    """Texts are beside dense columns, and features of segments made: all stay dense."""
    batch = SequenceFeatureExtractor([("v", 0), ("w", 0)]).fit_transform(TOKENS)
    assert batch.dense.attributes.tolist() == [3, 4, 5]
    assert batch.dense.values.dtype == np.float32
    assert batch.feature_names[:3].tolist() == ["w[0]=a", "w[0]=b", "w[0]=c"]
    y = [["a", "b"], [], ["b", "b"]]
    segments = SegmentFeatureExtractor(begin=True).fit_transform(batch, y)
    assert segments.dense is not None
    assert segments.n_features > batch.n_features
    with pytest.warns(UserWarning, match="no token features are made"):
        with_texts = SegmentFeatureExtractor(identity="w").fit_transform(TOKENS, y)
    assert with_texts.n_attributes == 0  # raw tokens have no features of their own


# for refusals
def mixed():
    """Return a batch with sparse features 0 and 2, and dense ones 1 and 3."""
    sparse_part = SequenceBatch([0, 2, 2, 5], [0, 1, 2, 2, 4, 5], [0, 2, 0, 2, 2], [1, 2, 3, 4, 5], 4)
    dense = DenseColumns([1, 3], np.arange(10, dtype=np.float32).reshape(5, 2))
    return sparse_part._replace(dense=dense)


test_refusals = refusals(
    (lambda: SequenceFeatureExtractor([(("v", 0), ("w", 0))]).fit(TOKENS), "joins a field of arrays"),
    (lambda: SequenceFeatureExtractor([("f", 0)], token_features={"f": ("v", len)}).fit(TOKENS), "which holds arrays"),
    (lambda dense: mixed()._replace(dense=dense),
     (r"shape \(4, 2\), not \(5, 2\)", DenseColumns([1, 3], np.zeros((4, 2)))),
     (r"shape \(5, 3\), not \(5, 2\)", DenseColumns([1, 3], np.zeros((5, 3)))),
     ("must be in ascending order", DenseColumns([3, 1], np.zeros((5, 2)))),
     (r"must lie in \[0, 4\)", DenseColumns([1, 4], np.zeros((5, 2)))),
     ("must not have sparse entries", DenseColumns([1, 2], np.zeros((5, 2))))),
    (lambda value: SequenceFeatureExtractor([("v", 0), ("w", 0)]).fit(TOKENS).transform(value),
     ("field 'v' held arrays of 3 numbers in fit, but holds text", [[{"w": "a", "v": "text"}]])),
    (lambda: SequenceFeatureExtractor([("v", 0)]).fit([[token("a")]]), "array without numbers"),
)  # fmt: skip

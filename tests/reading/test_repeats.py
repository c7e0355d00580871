"""Input that is unsorted, or contains repeats or gaps: no code may assume otherwise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from internals import RowBlock, blocks_of
from scipy import sparse

from sklearn_hocrf import HighOrderCRF, SequenceBatch
from sklearn_hocrf.feature_extraction import (
    SegmentFeatureExtractor,
    SegmentLogOddsEncoder,
    SequenceFeatureExtractor,
)

WORDS = st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=1, max_size=4).filter(any)


def repeating(n):
    """Return rows whose entries come in any order, and some of them twice."""
    values, columns = np.array([1.0, 1.0, 2.0, 1.0, -1.0] * n), np.array([2, 0, 0, 1, 1] * n)
    return sparse.csr_array((values, columns, np.arange(0, 5 * n + 1, 5)), shape=(n, 3))


def attribute_lists(X):
    return SequenceFeatureExtractor("attributes").fit_transform([[[word, word, "x"] for word in line] for line in X])


def hashed(X):
    templates = [(("w", 0),), (("w", -1),), (("w", 1),), (("w", 0), ("w", 1))]
    return SequenceFeatureExtractor(templates, n_features=2).fit_transform(
        [[{"w": word} for word in line] for line in X]
    )


def of_templates(X):
    tokens = SequenceFeatureExtractor([(("w", 0),), (("w", 1),), (("w", 0), ("w", -1))], bias=True)
    return tokens.fit_transform([[{"w": word} for word in line] for line in X])


def of_rows(X):
    lengths = [len(line) for line in X]
    return SequenceBatch.from_csr(repeating(sum(lengths)), np.append(0, np.cumsum(lengths)))


@pytest.mark.parametrize("make", [attribute_lists, hashed, of_templates, of_rows])
@given(X=WORDS)
def test_tokens_have_each_feature_once(make, X):
    batch = make(X)
    for first, stop in zip(batch.indptr[:-1], batch.indptr[1:], strict=True):
        assert (np.diff(batch.indices[first:stop]) > 0).all()
    assert batch.values is None or (batch.values != 0).all()


def test_entries_that_are_there_twice_occur_once():
    batch = SequenceBatch.from_csr(repeating(2), [0, 1, 2])
    assert batch.toarray().tolist() == [[3.0, 0.0, 1.0]] * 2
    model = HighOrderCRF(max_order=0, min_count=2).fit(batch, [["p"], ["q"]])
    assert model.coef_.nnz == 0, "each feature occurs once with each label"


def describe(tokens, starts, stops):
    texts = ["".join(tokens[start:stop]) for start, stop in zip(starts, stops, strict=True)]
    return [len(text) + text.count("a") for text in texts]


@given(WORDS, st.data())
def test_candidates_may_come_in_any_order_and_again(X, data):
    """Features of candidate segments are the same, whatever other candidates are asked for."""
    y = [[(t, t + 1, "yz"[t % 2]) for t in range(len(line))] for line in X]
    batch = SegmentFeatureExtractor(bag=(), identity=True, functions=describe, scheme="segments").fit_transform(X, y)
    batch = SegmentLogOddsEncoder("segments").fit_transform(batch, y)
    every = [
        (u, v)
        for first, last in zip(batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True)
        for u in range(first, last)
        for v in range(u + 1, last + 1)
    ]
    chosen = np.array(data.draw(st.lists(st.integers(0, len(every) - 1), min_size=1, max_size=12)))
    start, stop = np.array(every).T
    blocks = [block for block in blocks_of(batch) if isinstance(block, RowBlock)]
    assert len(blocks) == 3
    for block in blocks:
        whole = block.rows(batch, start, stop).toarray()
        np.testing.assert_array_equal(block.rows(batch, start[chosen], stop[chosen]).toarray(), whole[chosen])

"""Pattern tables against naive Python."""

import itertools
import warnings

import numpy as np
import pytest
from cases import of_history
from hypothesis import given
from hypothesis import strategies as st
from internals import all_patterns, given_patterns, observed_patterns
from refusals import refusals

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

WEIGHTS = st.sampled_from([0.0, 0.5, 1.0, 2.0])  # exact in binary: counts can be compared with thresholds


def flat(labellings):
    codes = np.array([y for labels in labellings for y in labels], dtype=np.int32)
    return codes, np.cumsum([0, *map(len, labellings)], dtype=np.int64)


def by_order(patterns):
    return sorted(patterns, key=lambda z: (len(z), z))


def naive_observed(labellings, n_labels, max_order, min_count, weights, history="tokens"):
    count = {}
    for labels, weight in zip(labellings, weights, strict=True):
        if history == "segments":
            for z in itertools.pairwise(labels) if max_order else ():
                count[z] = count.get(z, 0.0) + weight * (z[0] == z[1])
            labels = [y for y, _ in itertools.groupby(labels)]
        for length in range(1, max_order + 2):
            for start in range(len(labels) - length + 1):
                z = tuple(labels[start : start + length])
                count[z] = count.get(z, 0.0) + weight
    kept = {z for z, c in count.items() if c > 0 and (c >= min_count or min_count <= 1) and len(z) > 1}
    return by_order(kept | {(y,) for y in range(n_labels)})


@st.composite
def labelled(draw):
    n_labels = draw(st.integers(1, 5))
    labellings = draw(st.lists(st.lists(st.integers(0, n_labels - 1), max_size=9), min_size=1, max_size=6))
    return n_labels, labellings


def check_table(table, expected):
    """Compare a table with a list of tuples, and check the promised memory layout."""
    assert table.tuples() == expected
    assert all(type(y) is int for z in table.tuples() for y in z)
    longest = max(map(len, expected))
    assert table.labels.shape == (len(expected), longest)
    assert table.labels.dtype == table.lengths.dtype == np.int32
    assert table.labels.flags.c_contiguous
    for row, length, z in zip(table.labels, table.lengths, expected, strict=True):
        assert length == len(z)
        assert row.tolist() == [-1] * (longest - len(z)) + list(z)


@given(labelled(), st.integers(0, 5), st.integers(1, 3), st.sampled_from(["tokens", "segments"]), st.data())
def test_observed_counts_are_weighted(data, max_order, min_count, history, draw):
    n_labels, labellings = data
    weights = draw.draw(st.lists(WEIGHTS, min_size=len(labellings), max_size=len(labellings)))
    table = observed_patterns(
        *flat(labellings), n_labels, max_order, min_count, sequence_weight=np.array(weights), history=history
    )
    check_table(table, naive_observed(labellings, n_labels, max_order, min_count, weights, history))
    assert table.checked().history == history


def test_sizes_are_announced_before_the_table_is_made(monkeypatch):
    announced = []
    table = observed_patterns(*flat([[0, 1, 0, 1]]), 2, 5, announce=lambda *sizes: announced.append(sizes))
    assert announced == [table.labels.shape] == [(2 + 2 + 2 + 1, 4)]
    monkeypatch.setattr(
        "sklearn_hocrf._engine.structure.patterns._stack", lambda *tables: pytest.fail("the table comes too soon")
    )

    def refuse(n_patterns, longest):
        raise MemoryError(n_patterns)

    with pytest.raises(MemoryError, match="7"):
        observed_patterns(*flat([[0, 1, 0, 1]]), 2, 5, announce=refuse)


@pytest.mark.parametrize(("n_labels", "max_order"), [(1, 3), (2, 0), (3, 2), (5, 1)])
def test_all(n_labels, max_order):
    expected = [z for k in range(max_order + 1) for z in itertools.product(range(n_labels), repeat=k + 1)]
    check_table(all_patterns(n_labels, max_order), expected)
    check_table(all_patterns(n_labels, max_order, "segments"), of_history(expected, "segments"))


@given(st.integers(1, 4), st.data())
def test_given(n_labels, draw):
    patterns = draw.draw(
        st.lists(st.lists(st.integers(0, n_labels - 1), min_size=1, max_size=5).map(tuple), max_size=9)
    )
    expected = by_order({*patterns, *((y,) for y in range(n_labels))})
    check_table(given_patterns(patterns, n_labels), expected)
    check_table(given_patterns(iter(patterns + patterns), n_labels), expected)


def test_many_patterns():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 20, 200_000).astype(np.int32)
    table = observed_patterns(codes, np.arange(0, 200_001, 20, dtype=np.int64), 20, 2)
    assert table.lengths.tolist() == [1] * 20 + [2] * 20**2 + [3] * 20**3


@pytest.mark.parametrize(("estimator", "scheme"), [(HighOrderCRF, {}), (HighOrderSemiCRF, {"scheme": "segments"})])
def test_many_long_patterns_are_told_before_the_work(estimator, scheme):
    labels = [str(t % 2) for t in range(1000)]
    y = [(t, t + 1, label) for t, label in enumerate(labels)] if scheme else labels
    X = [[["a"]] * 1000]
    with warnings.catch_warnings(action="error"):
        model = estimator(max_order=900, **scheme)
        with pytest.raises(
            UserWarning, match=r"^1,802 label patterns of up to 901 labels .* MB, .* 0\.036 s"
        ) as caught:
            model.fit(X, [y])
        assert "max_order" in str(caught.value)
        assert not hasattr(model, "patterns_")
        with pytest.raises(UserWarning, match="131,070 label patterns of up to 16 labels"):
            HighOrderCRF(max_order=15, patterns="all").fit(X, [labels])
        assert len(estimator(max_order=2, **scheme).fit(X, [y]).patterns_) == 6


test_refusals = refusals(
    (lambda: all_patterns(26, 4), "1,000,000 patterns of 26 labels up to max_order=4;"),
    (lambda: all_patterns(26, 400), "1,000,000 patterns of 26 labels up to max_order=400;"),
)  # fmt: skip

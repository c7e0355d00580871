"""Merged counts of parts of the training data equal those of the whole, and give the same layouts."""

from functools import reduce

import numpy as np
import pytest
from cases import cases, to_batch, to_codes, to_problem
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    DenseColumns,
    LabelParts,
    LayoutBuilder,
    LayoutFrame,
    PairRule,
    SegmentLayoutBuilder,
    count_patterns,
    given_patterns,
    observed_patterns,
)
from segment_cases import segment_cases, spread, to_segment_batch, to_segments
from test_patterns import WEIGHTS, flat, labelled

CUTS = st.lists(st.integers(0, 6), max_size=3).map(sorted)


def cut(n, cuts):
    """Return the ranges of so many sequences that cuts make, some of them empty."""
    cuts = [0, *(min(c, n) for c in cuts), n]
    return [slice(a, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]


@given(labelled(), CUTS, st.integers(0, 4), st.integers(1, 3), st.data())
def test_patterns(data, cuts, max_order, min_count, draw):
    n_labels, labellings = data
    n = len(labellings)
    weight = np.array(draw.draw(st.lists(WEIGHTS, min_size=n, max_size=n)))
    history = draw.draw(st.sampled_from(["tokens", "segments"]))
    whole = observed_patterns(*flat(labellings), n_labels, max_order, min_count, weight, history)
    parts = [
        count_patterns(*flat(labellings[part]), n_labels, max_order, 1, weight[part], history).compact()
        for part in cut(n, cuts)
    ]
    merged = reduce(lambda one, other: one.merged(other), parts)
    announced = []
    table = merged.frequent(n_labels, min_count, lambda *sizes: announced.append(sizes))
    assert (table.tuples(), table.history) == (whole.tuples(), history)
    assert announced == [(len(whole.lengths), whole.lengths.max())]
    assert sum(map(np.size, merged.counts)) == sum(map(len, merged.ends))
    assert len(merged.codes) == sum((order + 2) * len(ends) for order, ends in enumerate(merged.ends))


def check_layouts(one, other):
    """Check that two layouts have the same weights, in whatever order."""
    assert one.patterns.tuples() == other.patterns.tuples()
    assert one.bias_pattern.tolist() == other.bias_pattern.tolist()
    assert one.n_features == other.n_features
    assert one.channels == other.channels
    pairs = [zip(layout.pair_feature.tolist(), layout.pair_pattern.tolist(), strict=True) for layout in (one, other)]
    assert sorted(pairs[0]) == sorted(pairs[1])


@given(cases(), CUTS, st.integers(1, 2), st.booleans(), st.sampled_from([None, 0]), st.data())
def test_chains(case, cuts, min_count, all_pairs, dense, draw):
    batch, codes = to_batch(case.rows, case.n_attributes), to_codes(case.labels)
    n = len(batch)
    weight = np.array(draw.draw(st.lists(WEIGHTS, min_size=n, max_size=n)))
    patterns = given_patterns(case.model.patterns, case.model.n_labels)
    starts = np.minimum(np.arange(case.model.n_labels + 1), 2)
    parts = LabelParts(starts, np.zeros(2, np.int32), 1) if draw.draw(st.booleans()) else None  # of the first two
    rule = PairRule(case.feature_orders, min_count, all_pairs)
    builder = LayoutBuilder(LayoutFrame(patterns, parts=parts), rule, fit_intercept=True)
    whole = builder.build(builder.count(batch, codes, weight))
    counts = []
    for number, part in enumerate(cut(n, cuts)):
        tokens = slice(batch.offsets[part.start], batch.offsets[part.stop])
        some = batch[part]
        if dense is not None and number % 2 and some.n_attributes:
            some = as_dense(some)
        counts.append(builder.count(some, codes[tokens], weight[part]))
    merged = reduce(lambda one, other: one.merged(other), counts)
    check_layouts(builder.build(merged), whole)
    if dense is None:
        assert (merged.features.sort_key < merged.never).tolist() == np.isin(
            np.arange(batch.n_attributes), batch.indices
        ).tolist()


def as_dense(batch):
    """Return a batch all of whose features are dense."""
    table = batch.toarray()
    nothing = np.zeros(batch.n_tokens + 1), np.empty(0), None
    dense = DenseColumns(np.arange(batch.n_attributes, dtype=np.int32), table)
    return type(batch)(batch.offsets, *nothing, batch.n_attributes, dense=dense)


@given(segment_cases(), CUTS, st.integers(1, 2), st.booleans())
def test_segments(case, cuts, min_count, all_pairs):
    batch = to_segment_batch(case)
    patterns = given_patterns(case.model.patterns, case.model.n_labels)
    longest = np.array([min(d, 1 << 20) for d in case.model.longest], dtype=np.int64)
    limits = longest, case.model.repeats, None
    rule = PairRule(case.feature_orders, min_count, all_pairs)
    builder = SegmentLayoutBuilder(limits, LayoutFrame(patterns), rule, True)
    whole = builder.build(builder.count(batch, to_segments(case.segmentations, batch.offsets)))
    counts = []
    for part in cut(len(batch), cuts):
        some = batch[part]
        counts.append(builder.count(some, to_segments(case.segmentations[part], some.offsets)))
    check_layouts(builder.build(reduce(lambda one, other: one.merged(other), counts)), whole)


def test_attributes_that_come_first_keep_their_rank():
    """Ranks follow the order in which partitions, one after the other, meet the attributes."""
    batch = to_batch([[{3: 1.0}, {1: 1.0}], [{1: 1.0}, {0: 1.0}]], 5)
    patterns = given_patterns((), 2)
    builder = LayoutBuilder(LayoutFrame(patterns), PairRule(), fit_intercept=True)
    parts = [builder.count(batch[n : n + 1], np.array([0, 1], np.int32)) for n in range(2)]
    merged = parts[0].merged(parts[1])
    assert merged.features.sort_key.tolist() == [3, 1, 4, 0, 4]
    assert merged.never == 4


@pytest.mark.parametrize("order", [0, 2])
def test_nothing_to_count(order):
    codes, offsets = np.empty(0, np.int32), np.zeros(1, np.int64)
    nothing = count_patterns(codes, offsets, 2, order).compact()
    assert nothing.merged(nothing).frequent(2).tuples() == [(0,), (1,)]


# --- which weights there are ------------------------------------------------------------------------------------------


def naive_pairs(case, sequence_weight, all_pairs, min_count):
    """Return the (feature, pattern) pairs that have a weight."""
    allowed = [(f, z) for f, k in enumerate(case.feature_orders) for z in case.model.patterns if len(z) - 1 in k]
    if all_pairs:
        return set(allowed)
    seen = dict.fromkeys(allowed, 0.0)
    for rows, labels, weight in zip(case.rows, case.labels, sequence_weight, strict=True):
        for t, row in enumerate(rows):
            for f, z in allowed:
                seen[f, z] += weight * (f in row and z == labels[max(0, t + 1 - len(z)) : t + 1])
    threshold = min_count if min_count > 1 else 0
    return {pair for pair, count in seen.items() if count > 0 and count >= threshold}


def naive_biases(case, fit_intercept):
    return {z for z in case.model.patterns if fit_intercept or len(z) > 1}


@st.composite
def training_data(draw):
    case = draw(cases())
    weights = draw(st.lists(WEIGHTS, min_size=len(case.labels), max_size=len(case.labels)))
    all_pairs = draw(st.booleans())
    min_count = 1 if all_pairs else draw(st.sampled_from([1, 2, 3]))
    options = {"all_pairs": all_pairs, "min_count": min_count, "fit_intercept": draw(st.booleans())}
    return case, np.array(weights), options


@given(training_data())
def test_which_weights_there_are(drawn):
    case, weights, options = drawn
    layout = to_problem(case, weights, **options).layout
    pairs = naive_pairs(case, weights, options["all_pairs"], options["min_count"])
    biases = naive_biases(case, options["fit_intercept"])
    assert layout.n_weights == len(pairs) + len(biases)
    assert layout.n_features == len(case.feature_orders)
    of_patterns, of_pairs = spread(layout, np.ones(layout.n_weights))
    assert of_patterns.keys() == biases
    assert of_pairs.keys() == pairs
    of_patterns, of_pairs = spread(layout, layout.order_of_weight + 1.0)
    assert of_patterns == {z: len(z) for z in biases}
    assert of_pairs == {(f, z): len(z) for f, z in pairs}


@given(training_data())
def test_weights_go_to_coefficients_and_back(drawn):
    case, weights, options = drawn
    layout = to_problem(case, weights, **options).layout
    w = np.random.default_rng(0).normal(size=layout.n_weights)
    np.testing.assert_array_equal(layout.weights(layout.pattern_coef(w), layout.coef(w)), w)
    # coefficients of pairs and patterns without a weight are dropped
    n_patterns = len(layout.patterns.lengths)
    everywhere = layout.weights(np.full(n_patterns, 2.0), np.full((n_patterns, layout.n_features), 3.0))
    expected = layout.weights(2 * (layout.pattern_coef(np.ones(len(w)))), 3 * layout.coef(np.ones(len(w))))
    np.testing.assert_array_equal(everywhere, expected)

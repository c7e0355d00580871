"""Whole models of both families against the enumeration oracle, and laws that all results obey."""

import math
import pickle
from unittest import mock

import numpy as np
import pytest
import segment_cases as sc
import segment_oracle as so
from cases import (
    RUNS_UNDERFLOW,
    UNDERFLOWS,
    cases,
    chain_case,
    golden_case,
    of_history,
    random_case,
    reschedule,
    to_chain_model,
    to_codes,
)
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    BAG,
    BEGIN,
    INSIDE,
    AgedModel,
    AgedPlan,
    ChainModel,
    ImpossibleSequence,
    NegativeLogLikelihood,
    Problem,
    RowBlock,
    SegmentModel,
    segment_features,
)
from mask_cases import as_segmentations
from segment_cases import (
    CHANNELS,
    EXTREME,
    LENGTHS,
    MODERATE,
    WHOLE,
    SegmentCase,
    WholeMaker,
    channel_tokens,
    from_segments,
    has_repeat,
    is_possible,
    random_segment_case,
    segment_cases,
    spread,
    to_aged_model,
    to_segment_batch,
    to_segment_layout,
    to_segment_model,
    to_segments,
    to_weights,
    token_block,
)

INF = math.inf
# scaled numbers near the end of their range: exp(-644) is about 1e-280
EDGE = st.sampled_from([0.0, 150.0, -150.0, 300.0, -300.0, 400.0, -400.0, -460.0, -576.0, -640.0, 640.0])
CHAIN_KINDS = {
    "moderate": cases(MODERATE, history=None),
    "order_0": cases(MODERATE, bias_only=True, n_sequences=12),
    "extreme_order_0": cases(EXTREME, bias_only=True, n_sequences=12),
    "forbidden": cases(MODERATE, forbid=True, history=None),
    "forbidden_and_extreme": cases(EXTREME, forbid=True, history=None),
    "edge_of_underflow": cases(EDGE, forbid=True),
    "edge_of_underflow_order_0": cases(EDGE, forbid=True, bias_only=True, n_sequences=12, history=None),
}
SEGMENT_KINDS = {
    "forbidden": segment_cases(MODERATE, forbid=True),
    "extreme": segment_cases(EXTREME, forbid=True),
    "edge_of_underflow": segment_cases(EDGE, forbid=True),
    "unlimited": segment_cases(MODERATE, limits=st.just(INF)),
    "many_sequences": segment_cases(MODERATE, n_sequences=12, max_order=1),
}
AGED_KINDS = {
    "forbidden": segment_cases(MODERATE, forbid=True, by_token=True),
    "extreme": segment_cases(EXTREME, forbid=True, by_token=True),
    "edge_of_underflow": segment_cases(EDGE, forbid=True, by_token=True),
    "unlimited": segment_cases(MODERATE, limits=st.just(INF), n_sequences=12, by_token=True),
}
OTHERS = (token_block(BAG, [0]), token_block(BEGIN, [0, 1]), token_block(CHANNELS["I|:"], [1]), LENGTHS[2], WHOLE)
FEATURES = sc.FEATURES | {"all": OTHERS}
ORDERS = {"order_0": ((0,),), "conjoined": ((0, 1, 2),)}
LEAST_AGES = st.sampled_from([0, INF])  # whether sums are by passes with tails
SOME_FEATURES = "plain", "all", "whole", "length_gamma_0", "bag", "end", "B|", "bioes IE"
every_order = pytest.mark.parametrize("orders", ORDERS)


def close(actual, expected, atol=1e-10, rtol=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def flat(lists):
    return [item for inner in lists for item in inner]


def all_segments(case):
    """Return every segment of every sequence of a case, as (sequence, u, v)."""
    return [
        (n, u, v) for n, rows in enumerate(case.rows) for u in range(len(rows)) for v in range(u + 1, len(rows) + 1)
    ]


def random_patterns(rng, n_labels, lengths, repeats=True):
    """Return distinct patterns of the given lengths."""
    patterns = {tuple(rng.integers(0, n_labels, n).tolist()) for n in lengths}
    return sorted(z for z in patterns if repeats or not has_repeat(z))


def mixed_case(seed, lengths, features="all", orders="conjoined", **options):
    """Return a case with three labels, patterns of orders 1 and 2 and labels of different longest segments."""
    rng = np.random.default_rng(seed)
    options = {"longest": (5, 3, 1), "patterns": random_patterns(rng, 3, [2] * 4 + [3] * 4), **options}
    return random_segment_case(rng, lengths, FEATURES[features], ORDERS[orders], **options)


def objective_of(case, layout, sequence_weight=None, model_class=SegmentModel):
    """Return the objective of a case's data."""
    batch = to_segment_batch(case)
    segments = to_segments(case.segmentations, batch.offsets)
    return NegativeLogLikelihood().bind(Problem(model_class, layout, batch, segments, sequence_weight=sequence_weight))


# ---------------------------------------------------------------------------------------------- against the definition


@given(segment_cases())
def test_segment_features_equal_the_definition(case):
    batch, asked = to_segment_batch(case), all_segments(case)
    sequence, u, v = np.array(asked, dtype=np.int64).reshape(-1, 3).T
    first = batch.offsets[sequence]
    actual = segment_features(batch, first + u, first + v).toarray()
    values = [sequence.values for sequence in case.sequences]
    expected = [[values[n](f, u, v) for f in range(batch.n_features)] for n, u, v in asked]
    close(actual, np.reshape(expected, actual.shape), atol=1e-14)


def labelled(model, segmentations, batch):
    """Return segmentations as a model takes them: label codes of tokens, or Segments."""
    if isinstance(model, ChainModel):
        return to_codes([[y for _, _, y in segmentation] for segmentation in segmentations])
    return to_segments(segmentations, batch.offsets)


@pytest.mark.parametrize("kind", CHAIN_KINDS)
@given(data=st.data())
def test_every_answer_of_chains_equals_enumeration(kind, data):
    check_every_answer(data, CHAIN_KINDS[kind], to_chain_model)


@pytest.mark.parametrize("kind", SEGMENT_KINDS)
@given(data=st.data())
def test_every_answer_equals_enumeration(kind, data):
    check_every_answer(data, SEGMENT_KINDS[kind], to_segment_model)


@pytest.mark.parametrize("kind", AGED_KINDS)
@given(data=st.data(), least_ages=LEAST_AGES)
def test_every_answer_by_ages_equals_enumeration(kind, least_ages, data):
    with mock.patch.object(AgedPlan, "least_ages", least_ages):
        check_every_answer(data, AGED_KINDS[kind], to_aged_model)


def check_every_answer(data, cases, to_model):
    case = data.draw(cases.filter(is_possible))
    label = st.integers(0, case.model.n_labels - 1)
    unknown = data.draw(st.lists(st.lists(label, min_size=1, max_size=4).map(tuple), max_size=3))
    asked = [*case.model.patterns, *of_history(unknown, case.model.history)]
    tags = data.draw(st.lists(st.tuples(label, st.sampled_from(list(CHANNELS.values()))), min_size=1, max_size=4))
    model, batch = to_model(case)
    given = model.posterior(batch)
    close(given.log_z(), [so.log_partition(case.model, s) for s in case.sequences])
    scores = given.log_score(labelled(model, case.segmentations, batch))
    pairs = list(zip(case.sequences, case.segmentations, strict=True))
    close(scores, [so.score(case.model, sequence, segmentation) for sequence, segmentation in pairs])
    check_marginals(case, given, asked, tags)
    check_best(case, given)


def check_marginals(case, given, asked, tags):
    distributions = [
        (len(rows), so.distribution(case.model, s)) for rows, s in zip(case.rows, case.sequences, strict=True)
    ]
    n_labels, n_tokens = case.model.n_labels, given.batch.n_tokens
    of_patterns = given.pattern_marginals(asked)
    assert of_patterns.shape == (n_tokens, len(asked))
    assert ((of_patterns >= 0) & (of_patterns <= 1)).all()
    history = case.model.history
    close(of_patterns.tolist(), flat(so.pattern_marginals(p, length, asked, history) for length, p in distributions))
    tags, of_tags = begin_and_inside(n_labels) + tags, None
    if not isinstance(given.model, ChainModel):
        of_tags = given.tag_marginals(tags)
        assert of_tags.shape == (n_tokens, len(tags))
        expected = []
        for length, p in distributions:
            positions = [(y, lambda u, v, c=c, n=length: channel_tokens(c, u, v, n)) for y, c in tags]
            expected += so.position_marginals(p, length, positions)
        # a channel never counts a token of one segment twice, but two segments may have a border at one token
        close(of_tags.tolist(), expected)
        for threshold in 1e-6, 0.3:
            check_segment_marginals(given, distributions, threshold)
    marginals = check_probabilities(given, of_tags, of_patterns)
    assert marginals.shape == (n_tokens, n_labels)
    close(marginals.tolist(), flat(so.token_marginals(p, n_labels, length) for length, p in distributions))


def check_segment_marginals(given, distributions, threshold):
    segments, probability = given.segment_marginals(threshold)
    returned = from_segments(segments, given.batch.offsets)
    assert returned == [tuple(sorted(part)) for part in returned], "sorted by start, stop, label"
    assert probability.shape == (len(segments.start),)
    parts = np.split(probability, segments.offsets[1:-1])
    for n, ((_, p), asked, probabilities) in enumerate(zip(distributions, returned, parts, strict=True)):
        expected = so.segment_marginals(p)
        close(probabilities, [expected[segment] for segment in asked])
        left_out = {s: x for s, x in expected.items() if x > threshold + 1e-9 and s not in asked}
        assert not left_out, f"sequence {n}, threshold {threshold}: these segments are missing: {left_out}"
        assert (probabilities >= threshold).all()


def check_best(case, given):
    decoded = given.decode()
    best = [so.best_segmentations(case.model, sequence) for sequence in case.sequences]
    for n, (segmentation, (top, ties)) in enumerate(zip(as_segmentations(decoded, given.batch), best, strict=True)):
        score = so.score(case.model, case.sequences[n], segmentation)
        assert segmentation in ties, f"sequence {n}: {segmentation} scores {score}, but {sorted(ties)} score {top}"
    close(given.log_score(decoded), [score for score, _ in best])


@given(
    st.one_of(segment_cases(), segment_cases(EXTREME)),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=4, max_size=4),
    st.booleans(),
    st.sampled_from([False, True, "segment", "token"]),
)
def test_objective_and_gradient_equal_enumeration(case, sequence_weight, all_pairs, fit_intercept):
    weight = np.array(sequence_weight[: len(case.rows)])
    layout = to_segment_layout(case, sequence_weight=weight, all_pairs=all_pairs, fit_intercept=fit_intercept)
    objective = objective_of(case, layout, weight)
    pairs = set(case.model.features) if all_pairs else supported_pairs(case, weight)
    pairs = {pair for pair in pairs if pair[0] < layout.n_features}
    pairs |= tokens_with_weights(case, fit_intercept, pairs)
    biases = {z for z in case.model.patterns if fit_intercept in (True, "segment") or len(z) > 1}
    weighted = spread(layout, np.ones(layout.n_weights))
    assert weighted[0].keys() == biases
    assert weighted[1].keys() == pairs
    orders = spread(layout, layout.order_of_weight + 1.0)
    assert orders == ({z: len(z) for z in biases}, {(f, z): len(z) for f, z in pairs})
    w = to_weights(case, layout)
    coef = layout.pattern_coef(w), layout.coef(w)
    np.testing.assert_array_equal(layout.weights(*coef, token_coef=layout.token_coef(w)), w)
    model = case.model._replace(
        patterns={z: x for z, x in case.model.patterns.items() if z in biases},
        features={pair: x for pair, x in case.model.features.items() if pair in pairs},
    )
    check_objective(objective, w, exact_objective(case, model, weight))


def tokens_with_weights(case, fit_intercept, pairs):
    """Return the weights of tokens as pairs; without those of segments, also of labels of length 1.

    The weight of a label's length would be the same weight again.
    """
    if fit_intercept not in (True, "token") or case.model.n_labels == 1:
        return set()
    least = 1 if fit_intercept == "token" else 2
    features = sc.features_of(case.blocks, case.n_attributes) if case.blocks else []
    lengths = [f for f, (block, number) in enumerate(features) if getattr(block, "kind", "") == "gamma" and not number]
    labels = [y for y, most in enumerate(case.model.longest) if most >= least]
    return {(len(case.feature_orders), (y,)) for y in labels if not {(f, (y,)) for f in lengths} & pairs}


def supported_pairs(case, weight):
    """Return the pairs that training data holds: feature in a segment that ends the pattern, even if values cancel."""
    supported = set()
    for sequence, segmentation, c in zip(case.sequences, case.segmentations, weight, strict=True):
        for i, (u, v, _) in enumerate(segmentation):
            ending = so.patterns_ending(segmentation, i)
            for f, z in case.model.features:
                if c > 0 and z in ending and sequence.values.is_supported(f, u, v):
                    supported.add((f, z))
    return supported


def exact_objective(case, model, weight):
    """Return the value of the objective, and its derivatives by pattern and by feature and pattern."""
    data = list(zip(case.sequences, case.segmentations, weight, strict=True))
    value = math.fsum(c * so.negative_log_likelihood(model, s, gold) for s, gold, c in data)
    of_sequences = [so.gradient(model, s, gold) for s, gold, _ in data]
    return value, [
        {key: math.fsum(c * g[part][key] for c, g in zip(weight, of_sequences, strict=True)) for key in keys}
        for part, keys in enumerate((model.patterns, model.features))
    ]


def check_objective(objective, w, exact):
    before, scale = w.copy(), max([1.0, *map(abs, w)])
    value, gradient = objective.value_gradient(w)
    np.testing.assert_array_equal(w, before)
    assert gradient.shape == w.shape
    assert value == pytest.approx(exact[0], rel=1e-10, abs=1e-10 * scale)
    assert objective.value(w) == pytest.approx(value, rel=1e-12, abs=1e-12 * scale)
    for derivatives, wanted in zip(spread(objective.problem.layout, gradient), exact[1], strict=True):
        for key, derivative in wanted.items():
            assert derivatives.get(key, 0.0) == pytest.approx(derivative, rel=1e-9, abs=1e-10), f"derivative of {key}"


@pytest.mark.parametrize(
    ("features", "orders", "repeats"),
    [(name, "conjoined", False) for name in FEATURES] + [(name, "order_0", True) for name in SOME_FEATURES],
)
def test_every_feature_kind_equals_enumeration(features, orders, repeats, monkeypatch):
    """Each channel, kind of length feature and feature of whole segments by itself, with a fixed model."""
    rng = np.random.default_rng(3)
    patterns = random_patterns(rng, 2, [2] * 4 + [3] * 3, repeats)
    case = random_segment_case(
        rng, (5, 1, 2), FEATURES[features], ORDERS[orders], longest=(INF, 4), repeats=repeats, patterns=patterns
    )
    layout, batch = to_segment_layout(case), to_segment_batch(case)
    w, exact = to_weights(case, layout), exact_objective(case, case.model, np.ones(len(case.rows)))
    has_ages = features not in ("length_gamma_0", "whole", "all")
    for model_class, least_ages in [(SegmentModel, 0), *([(AgedModel, 0), (AgedModel, INF)] if has_ages else [])]:
        monkeypatch.setattr(AgedPlan, "least_ages", least_ages)
        given = model_class(layout, w).posterior(batch)
        close(given.log_z(), [so.log_partition(case.model, s) for s in case.sequences])
        check_best(case, given)
        check_objective(objective_of(case, layout, model_class=model_class), w, exact)


# ------------------------------------------------------------------------------------------------------------ symmetry


def begin_and_inside(n_labels):
    """Return the tags B of all labels, then the tags I."""
    return [(y, channel) for channel in (BEGIN, INSIDE) for y in range(n_labels)]


def check_probabilities(given, of_tags=None, of_patterns=None, threshold=1e-300, atol=1e-12):
    """Token marginals are probabilities, and the sums of the segments that cover the token; segments tile it.

    The marginals of ``begin_and_inside`` and of all labels are the first columns of ``of_tags`` and ``of_patterns``.
    """
    marginals, batch = given.marginals(), given.batch
    assert (marginals >= 0).all()
    assert (marginals <= 1).all()
    close(marginals.sum(axis=1), 1.0, atol=1e-14)
    if isinstance(given.model, ChainModel):
        return marginals
    n_labels = marginals.shape[1]
    segments, probability = given.segment_marginals(threshold)
    assert (probability >= threshold).all()
    assert (probability <= 1).all()
    cover = np.zeros((batch.n_tokens + 1, n_labels))
    np.add.at(cover, (segments.start, segments.codes), probability)
    begins = cover[:-1].sum(axis=1)
    np.add.at(cover, (segments.stop, segments.codes), -probability)
    np.testing.assert_allclose(cover[:-1].cumsum(axis=0), marginals, atol=atol, err_msg="sums of segment marginals")
    of_tags = given.tag_marginals(begin_and_inside(n_labels)) if of_tags is None else of_tags
    assert (of_tags >= 0).all()
    assert (of_tags <= 1).all()
    begin, inside = of_tags[:, :n_labels], of_tags[:, n_labels : 2 * n_labels]
    np.testing.assert_allclose(begin + inside, marginals, atol=atol, err_msg="B and I against tokens")
    np.testing.assert_allclose(begin.sum(axis=1), begins, atol=atol, err_msg="B against segments that begin")
    firsts = batch.offsets[:-1][batch.lengths > 0]
    np.testing.assert_allclose(begin[firsts].sum(axis=1), 1.0, atol=atol)
    lasts = batch.offsets[1:][batch.lengths > 0] - 1
    ends = given.pattern_marginals([(y,) for y in range(n_labels)]) if of_patterns is None else of_patterns
    np.testing.assert_allclose(ends[lasts, :n_labels].sum(axis=1), 1.0, atol=atol)
    return marginals


# ----------------------------------------------------------------------------------------------------- special models


def runs_case(n_labels, patterns, features, rows, n_attributes):
    """Return the semi-CRF over maximal runs that equals a CRF with weights for label pairs and bags of attributes."""
    blocks = tuple(token_block(channel, [a]) for channel in (BAG, BEGIN) for a in range(n_attributes))
    moved = {(f if len(z) == 1 else n_attributes + f, z): w for (f, z), w in features.items()}
    singles = dict.fromkeys([(y,) for y in range(n_labels)], 0.0)
    model = so.Model(n_labels, (INF,) * n_labels, False, singles | patterns, moved)
    gold = [((0, len(s), 0),) if s else () for s in rows]
    words = [["a"] * len(s) for s in rows]
    orders = [(0,)] * n_attributes + [(1,)] * n_attributes
    return SegmentCase(model, orders, blocks, n_attributes, rows, words, gold)


def test_whole_segment_features_are_asked_for_within_the_limit_only():
    class Watch(WholeMaker):
        longest = 0

        def rows(self, columns, offsets, token_data, start, stop):
            Watch.longest = max(Watch.longest, int((stop - start).max(initial=0)))
            return super().rows(columns, offsets, token_data, start, stop)

    rng = np.random.default_rng(15)
    case = random_segment_case(rng, (20, 7), (RowBlock(Watch(), {}),), longest=(4, 2))
    model, batch = to_segment_model(case)
    model.posterior(batch).marginals()
    model.posterior(batch).decode()
    objective_of(case, model.layout).value_gradient(model.weights)
    assert Watch.longest == 4


@pytest.mark.parametrize(("fault", "message"), [(0, "must lie in"), (1, "ranges of entries"), (2, "ranges of entries")])
def test_invalid_arrays_of_segment_features_are_refused(fault, message):
    class Faulty(WholeMaker):
        def rows(self, *arguments):
            ranges, features, values = super().rows(*arguments)
            return [(ranges, features + 3, values), (ranges[::-1], features, values), (ranges, features, values[1:])][
                fault
            ]

    case = random_segment_case(np.random.default_rng(15), (20, 7), (RowBlock(Faulty(), {}),), longest=(4, 2))
    model, batch = to_segment_model(case)
    with pytest.raises(ValueError, match=message):
        model.posterior(batch).decode()


# ------------------------------------------------------------------------------------------- extremes, long and empty


@pytest.mark.parametrize("name", RUNS_UNDERFLOW)
def test_accumulated_underflow_in_runs(name):
    crf = UNDERFLOWS[name]
    n_labels, patterns, features, (rows,) = crf.model.n_labels, crf.model.patterns, crf.model.features, crf.rows
    expected, calm = so.dynamic_program(crf.model, crf.sequences[0]), [{1: 1.0}, {0: 2.0}, {}]
    case = runs_case(n_labels, patterns, features, [calm, rows, calm, [], rows[:2]], n_labels)
    model, batch = to_segment_model(case)
    given = model.posterior(batch)
    log_z = given.log_z()
    assert log_z[1] == pytest.approx(expected.log_partition, rel=1e-12)
    assert log_z[0] == pytest.approx(so.log_partition(case.model, case.sequences[0]), rel=1e-12)
    marginals = check_probabilities(given)
    np.testing.assert_allclose(marginals[3 : 3 + len(rows)], expected.marginals, atol=1e-12)
    best = given.log_score(given.decode())
    assert best[1] == pytest.approx(expected.best_score, rel=1e-12)


LENGTH_WEIGHTS = {
    "only_two": (-1000.0, 0.0, -1000.0),
    "two_by_far": (0.0, 900.0, 0.0),
    "three_or_nothing": (-700.0, -700.0, 0.0),
    "rising": (-300.0, 0.0, 310.0),
}


@pytest.mark.parametrize("name", LENGTH_WEIGHTS)
@pytest.mark.parametrize("length", [1, 2, 7, 100, 101])
def test_extreme_weights_of_lengths(name, length):
    """The mass at the borders that the winner uses may be far below that of its neighbours."""
    weights = LENGTH_WEIGHTS[name]
    features = {(d, (y,)): w for d, w in enumerate(weights) for y in range(2)}
    model = so.Model(2, (3, 2), True, {(0,): 0.0, (1,): 0.5, (0, 1): -400.0, (1, 0): 300.0}, features)
    rows, words = [[{}] * length, [{}] * 3], [["a"] * length, ["a"] * 3]
    blocks = (LENGTHS[0]._replace(longest=3),)
    gold = [tuple((t, t + 1, 0) for t in range(n)) for n in (length, 3)]
    check_against_recursion(SegmentCase(model, [(0,)] * 3, blocks, 0, rows, words, gold), atol=1e-10)


def one_sequence(model, blocks, feature_orders, rows):
    """Return a case of one sequence, with label 0 throughout."""
    n_attributes = 1 + max(int(block.attributes.max()) for block in blocks)
    gold = tuple((t, t + 1, 0) for t in range(len(rows)))
    return SegmentCase(model, feature_orders, blocks, n_attributes, [rows], [["a"] * len(rows)], [gold])


def check_by_enumeration(case):
    model, batch = to_segment_model(case)
    given, p = model.posterior(batch), so.distribution(case.model, case.sequences[0])
    close(given.log_z(), [so.log_partition(case.model, case.sequences[0])])
    expected = so.token_marginals(p, case.model.n_labels, len(case.rows[0]))
    np.testing.assert_allclose(given.marginals(), expected, atol=1e-10)
    check_best(case, given)
    exact = exact_objective(case, case.model, np.ones(1))
    check_objective(objective_of(case, model.layout), model.weights, exact)


@pytest.mark.parametrize(
    ("border", "whole", "own", "after"),
    [
        (600, 0, -1000, 200),
        (620, 0, -1000, 150),
        (500, 0, -1000, 300),
        (640, 0, -1300, 60),
        (300, 0, -900, 150),
        (170, 170, -1000, 170),
        (400, 170, -1000, 170),
        (150, 150, -1000, 400),
        (0, 179, -800, 640),
    ],
)
def test_scores_that_are_cut_off_do_not_come_back(border, whole, own, after):
    """A hopeless segment of label 1 after a border that is worth a lot, and before another one.

    Factors that are in range by themselves must not lift what is too small to be held.
    """
    blocks = token_block(BEGIN, [0, 1]), token_block(BAG, [2, 0])
    patterns = {(0,): 0.0, (1,): 0.0, (0, 1): 0.0, (1, 0): 0.0}
    features = {(0, (0, 1)): border, (0, (1, 0)): 0.0, (1, (0, 1)): 0.0, (1, (1, 0)): after}
    features |= {(2, (0,)): 0.0, (2, (1,)): own, (3, (0, 1)): whole, (3, (1, 0)): 0.0}
    model = so.Model(2, (3, 1), True, patterns, {pair: float(w) for pair, w in features.items()})
    check_by_enumeration(one_sequence(model, blocks, [(1,), (1,), (0,), (1,)], [{}, {0: 1.0, 2: 1.0}, {1: 1.0}]))


@pytest.mark.parametrize("gain", [100.0, 140.0, 150.0, 160.0, 170.0, 180.0, 200.0, 400.0])
def test_scores_that_are_cut_off_do_not_add_to_small_ones(gain):
    """Label 1 ends in front of token 3 with exp(-455), or exp(gain - 900); three more gains may make it win."""
    blocks = (
        token_block(BEGIN, [0, 1, 2, 3]),
        token_block(CHANNELS["bioes S:"], [4]),
        token_block(CHANNELS["bioes E:"], [4]),
        token_block(CHANNELS["bioes B:"], [4]),
    )
    allowed = [(0, 0), (0, 1), (1, 2), (2, 3), (3, 2), (1, 2, 3), (1, 2, 3, 2)]
    patterns = dict.fromkeys([(0,), (1,), (2,), (3,)], 0.0)
    patterns |= {(a, b): -INF for a in range(4) for b in range(4)} | dict.fromkeys(allowed, 0.0)
    gains = {(0, (0, 1)), (1, (1, 2)), (2, (1, 2, 3)), (3, (1, 2, 3, 2))}
    features = {(f, z): gain * ((f, z) in gains) for f in range(4) for z in patterns if len(z) > 1}
    own = {4: -900.0, 5: -455.0, 6: -2000.0}
    features |= {(f, (y,)): weight * (y == 1) for f, weight in own.items() for y in range(4)}
    model = so.Model(4, (INF, 2, 1, 1), True, patterns, features)
    rows = [{}, {}, {0: 1.0, 4: 1.0}, {1: 1.0}, {2: 1.0}, {3: 1.0}]
    case = one_sequence(model, blocks, [(1, 2, 3)] * 4 + [(0,)] * 3, rows)
    semi, batch = to_segment_model(case)
    close(semi.posterior(batch).log_z(), [so.dynamic_program(model, case.sequences[0]).log_partition])


@pytest.mark.parametrize(("border", "whole"), [(35.0, 110.0), (70.0, 70.0), (110.0, 35.0)])
def test_scores_that_are_cut_off_do_not_come_back_step_by_step(border, whole):
    """A hopeless segment, then small gains of borders and of whole segments, at each of five borders."""
    word = (0, 1, 2, 3, 2, 3)
    gainers = [word[: n + 1] for n in range(1, 6)]
    blocks = token_block(BEGIN, range(5)), token_block(BAG, range(5)), token_block(BAG, [5])
    patterns = {(y,): 0.0 for y in range(4)} | dict.fromkeys(gainers, 0.0)
    patterns |= {(a, b): -INF for a in range(4) for b in range(4)} | dict.fromkeys(
        [(0, 1), (1, 2), (2, 3), (3, 2)], 0.0
    )
    orders = [(n,) for n in range(1, 6)] * 2
    gains = dict(enumerate([border] * 5 + [whole] * 5))
    features = {
        (f, z): gains[f] * (z == gainers[f % 5]) for f in range(10) for z in patterns if len(z) - 1 in orders[f]
    }
    features |= {(10, (y,)): -1000.0 if y == 1 else 0.0 for y in range(4)}
    model = so.Model(4, (INF, 1, 1, 1), False, patterns, features)
    rows = [{}, {0: 1.0, 5: 1.0}, {1: 1.0}, {2: 1.0}, {3: 1.0}, {4: 1.0}]
    gold = [tuple((t, t + 1, y) for t, y in enumerate(word))]
    case = SegmentCase(model, [*orders, (0,)], blocks, 6, [rows], [["a"] * 6], gold)
    semi, batch = to_segment_model(case)
    close(semi.posterior(batch).log_z(), [so.dynamic_program(model, case.sequences[0]).log_partition])


@pytest.mark.parametrize("bias", [600.0, 640.0])
@pytest.mark.parametrize("channel", ["begin:", "bag:"])
@pytest.mark.parametrize("longest", [1, 3])
def test_huge_factors_of_arcs_out_of_reach_are_not_used(bias, channel, longest):
    """At the first token no label comes before: the arc (1, 0), with the highest score of all, has no mass there."""
    patterns = {(0,): 0.0, (1,): 0.0, (0, 0): bias, (1, 0): 0.0, (1, 1): bias}
    features = {(0, z): 2 * bias if z == (1, 0) else 0.0 for z in patterns if len(z) == 2}
    model = so.Model(2, (longest, longest), True, patterns, features)
    check_by_enumeration(one_sequence(model, (token_block(CHANNELS[channel], [0]),), [(1,)], [{0: 1.0}, {}, {}]))


@pytest.mark.parametrize("features", ["plain", "all", "whole", "length_gamma_0"])
@every_order
def test_extreme_weights_give_finite_gradients(features, orders):
    case = mixed_case(16, (40, 3, 17), features, orders)
    layout = to_segment_layout(case)
    objective = objective_of(case, layout)
    w = np.random.default_rng(6).choice([-1e3, 1e3, 0.0, 1.0], size=layout.n_weights)
    value, gradient = objective.value_gradient(w)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    step = 1e-4
    direction = np.random.default_rng(7).normal(size=len(w))
    # far from ties the objective is linear around w
    numeric = (objective.value(w + step * direction) - objective.value(w - step * direction)) / (2 * step)
    assert gradient @ direction == pytest.approx(numeric, rel=1e-4, abs=1e-4)


def check_chain_against_recursion(case, atol=1e-8):
    """Compare with recursions in log space, for sequences too long to enumerate; return what these say."""
    model, batch = to_chain_model(case)
    return check_posterior_against_recursion(case, model.posterior(batch), atol)


def check_posterior_against_recursion(case, given, atol):
    expected = [so.dynamic_program(case.model, sequence) for sequence in case.sequences]
    close(given.log_z(), [answers.log_partition for answers in expected])
    close(given.log_score(given.decode()), [answers.best_score for answers in expected])
    wanted = np.reshape(flat(answers.marginals for answers in expected), (-1, case.model.n_labels))
    np.testing.assert_allclose(check_probabilities(given, atol=atol), wanted, atol=atol)
    return expected


def check_against_recursion(case, atol=1e-8):
    model, batch = to_segment_model(case)
    given = model.posterior(batch)
    expected = check_posterior_against_recursion(case, given, atol)
    segments, probability = given.segment_marginals(1e-6)
    parts, asked = np.split(probability, segments.offsets[1:-1]), from_segments(segments, batch.offsets)
    for answers, part, found in zip(expected, parts, asked, strict=True):
        np.testing.assert_allclose(part, [answers.segments[segment] for segment in found], atol=atol)
        assert abs(len(found) - sum(p >= 1e-6 for p in answers.segments.values())) <= 0.01 * len(found)
    log_z, objective, w = given.log_z(), objective_of(case, model.layout), model.weights
    direction = np.random.default_rng(7).normal(size=len(w))
    value, gradient = objective.value_gradient(w)
    scores = given.log_score(to_segments(case.segmentations, batch.offsets))
    assert value == pytest.approx(log_z.sum() - scores.sum(), rel=1e-10)
    ends = [objective.value(w + step * direction) for step in (1e-5, -1e-5)]
    size = max(1.0, np.abs(gradient).max())
    assert gradient @ direction == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5 * size)


LONG, UNEQUAL = (601, 1, 30, 0, 41), (1, 250, 2, 0, 3, 1, 40, 5, 4, 13, 0, 1)  # alone, and in one block


@pytest.mark.parametrize(
    ("features", "scale", "lengths"),
    [
        ("plain", 0.3, UNEQUAL),
        pytest.param("all", 1.0, LONG, marks=pytest.mark.slow),
        ("plain", 300.0, LONG),
        ("all", 1.0, UNEQUAL),
    ],
)
def test_long_sequences(features, scale, lengths):
    rng = np.random.default_rng(17)
    blocks = FEATURES[features]
    patterns = [(a, b) for a in range(3) for b in range(3) if a != 2]
    case = random_segment_case(rng, lengths, blocks, [(0, 1)], longest=(8, 3, 1), patterns=patterns, scale=scale)
    check_against_recursion(case)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_long_segments_without_limit(scale):
    """Long sequences of long segments: nothing underflows, however long a segment is."""
    rng = np.random.default_rng(18)
    blocks = (token_block(BAG, [0]), token_block(INSIDE, [1]), LENGTHS[3])
    case = random_segment_case(
        rng, (70, 5, 35), blocks, longest=(INF, 20), repeats=False, patterns=[(0, 1), (1, 0)], scale=scale
    )
    check_against_recursion(case)


# -------------------------------------------------------------------------------------------------------------- chains


@pytest.mark.parametrize(
    ("name", "digits"), [("jmlr_appendix_b", 3), ("jmlr_appendix_b_unconditional", 4), ("underflow", 9)]
)
def test_published_numbers_to_their_printed_digits(name, digits):
    golden, case = golden_case(name)
    (chain, batch), (sequence,) = to_chain_model(case), case.sequences
    log_z, p = so.log_partition(case.model, sequence), so.distribution(case.model, sequence)
    asked = [*((y,) for y in range(case.model.n_labels)), *(tuple(z) for z in golden["asked"])]
    marginals = so.pattern_marginals(p, sequence.length, asked)
    assert round(log_z, digits) == golden["log_partition_printed"]
    if "marginals_printed" in golden:
        assert [[round(q, 2) for q in line] for line in marginals] == golden["marginals_printed"]
    close(chain.posterior(batch).log_z(), [log_z])
    close(chain.posterior(batch).pattern_marginals(asked), marginals)
    assert chain.posterior(batch).decode().tolist() == golden["best_paths"][0]
    assert so.best_segmentations(case.model, sequence)[1] == {so.tokenwise(path) for path in golden["best_paths"]}


def test_golden_underflow_beside_other_sequences():
    """The twin takes over for the one sequence, not for its neighbours in the block, and not at their expense."""
    _, case = golden_case("underflow")
    rows = case.rows[0]
    sequences = [rows[:4], rows, rows[::-1], rows * 40, rows[3:], [], rows]
    case = chain_case(case.model, case.feature_orders, sequences, [(0,) * len(s) for s in sequences])
    check_chain_against_recursion(case, 1e-10)


@pytest.mark.parametrize("feature_orders", [[(0,), (0,)], [(0,), (0, 1), (2,)]], ids=["order_0", "conjoined"])
@pytest.mark.parametrize("scale", [1.0, pytest.param(30.0, marks=pytest.mark.slow), 1000.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
@pytest.mark.parametrize("history", ["tokens", "segments"])
def test_longer_chains_in_blocks(feature_orders, scale, forbidden, history):
    """Nineteen sequences of lengths below 30: full blocks, the rest of one, and lengths that differ in a block."""
    rng = np.random.default_rng([int(scale), len(feature_orders)])
    lengths = rng.integers(0, 30, 19)
    check_chain_against_recursion(random_case(rng, 3, lengths, 2, 9, scale, feature_orders, forbidden, history))


@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("feature_orders", [[(0,)], [(0,), (1,)]], ids=["order_0", "conjoined"])
@pytest.mark.parametrize("history", ["tokens", "segments"])
def test_long_chains(feature_orders, scale, history):
    rng = np.random.default_rng(int(scale))
    case = random_case(rng, 2, [450, 2, 270], 2, 5, scale, feature_orders, history=history)
    check_chain_against_recursion(case)


# ------------------------------------------------------------------------------------------------ what is not possible


def test_scores_of_what_is_not_allowed():
    case = mixed_case(21, (4, 2, 3), "all", repeats=False, patterns=[(0, 1)], longest=(2, 3, 1))
    model, batch = to_segment_model(case)
    asked = [((0, 3, 0), (3, 4, 1)), ((0, 1, 1), (1, 2, 1)), ((0, 1, 0), (1, 3, 1))]
    scores = model.posterior(batch).log_score(to_segments(asked, batch.offsets))
    assert scores[:2].tolist() == [-INF, -INF]
    assert scores[2] == pytest.approx(so.score(case.model, case.sequences[2], asked[2]), rel=1e-12)


@pytest.mark.parametrize("is_chain", [False, True])
@pytest.mark.parametrize("cut_size", [1 << 22, 1], ids=["whole", "cut"])
@pytest.mark.parametrize("weight", [1.0, 1e4], ids=["scaled", "log_space"])
def test_a_sequence_without_any_possible_labelling_is_named(weight, cut_size, is_chain):
    """Two labels, and no way from one to the other; segments of two tokens at most, or no pair of labels at all."""
    pairs = [(0, 1), (1, 0), *([(0, 0), (1, 1)] if is_chain else [])]
    patterns, features = {(0,): 0.0, (1,): 0.0} | dict.fromkeys(pairs, -INF), {(0, (0,)): weight, (0, (1,)): 0.0}
    rows = [[{0: 1.0}], [], [{}], [{}, {0: 1.0}, {}], [{0: 1.0}]]
    case = chain_case(so.chain(2, patterns, features), [(0,)], rows, [(0,) * len(s) for s in rows])
    if not is_chain:
        gold = [((0, 1, 0),), (), ((0, 1, 0),), ((0, 2, 0), (2, 3, 1)), ((0, 1, 0),)]
        case = case._replace(model=case.model._replace(longest=(2, 2), repeats=False), segmentations=gold)
    model, batch = (to_chain_model if is_chain else to_segment_model)(case)
    model, one = reschedule(model, cut_size=cut_size) if is_chain else model, np.logaddexp(weight, 0)
    close(model.posterior(batch).log_score(labelled(model, case.segmentations, batch)), [weight, 0, 0, -INF, weight])
    asked = {"log_z": [], "marginals": [], "decode": [], "pattern_marginals": [[(0, 1)]]}
    asked |= {} if is_chain else {"segment_marginals": [1e-6], "tag_marginals": [[(0, BEGIN)]]}
    for question, options in asked.items():
        with pytest.raises(ImpossibleSequence, match="sequence 3") as raised:
            getattr(model.posterior(batch), question)(*options)
        assert raised.value.sequence == pickle.loads(pickle.dumps(raised.value)).sequence == 3
    close(model.posterior(batch[[0, 1, 2, 4]]).log_z(), [one, 0, math.log(2), one])

"""Semi-CRFs without a limit of length: the chain of aged labels against other models, and when it is used."""

import copy
import math
import warnings
from unittest import mock

import numpy as np
import pytest
import segment_oracle as so
from cases import reschedule
from internals import (
    BAG,
    BEGIN,
    END_OF_SEGMENT,
    INSIDE,
    AgedModel,
    AgedPlan,
    LengthBlock,
    MarginalPass,
    SegmentModel,
    aged,
)
from segment_cases import SegmentCase, random_segment_case, to_aged_model, to_segment_model, token_block

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF
from sklearn_hocrf.feature_extraction import SegmentFeatureExtractor, SequenceFeatureExtractor

INF = math.inf
WORDS = [list(line) for line in ("aabbbbca", "ccccab", "b", "bbbbaac", "abc")]
LABELS = [list(line) for line in ("xxyyyyzx", "zzzzxy", "y", "yyyyxxz", "xxz")]


@pytest.fixture
def tails(request, monkeypatch):
    """Sums are by passes with tails, however few ages there are; or never."""
    monkeypatch.setattr(AgedPlan, "least_ages", 0 if request.param else INF)


with_and_without_tails = pytest.mark.parametrize("tails", [True, False], indirect=True)


def recursion(model):
    return SegmentModel.for_layout(model._state.layout)


def fit(X, y, *args, **params):
    with warnings.catch_warnings(action="ignore"):
        return HighOrderSemiCRF(*args, **params).fit(X, y)


def rows(lines):
    return [[{"w": w} for w in line] for line in lines]


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_it_is_the_chain_of_segment_histories(order):
    """A segment of n tokens has n times the weight of its label, and n - 1 times that of staying."""
    X, rng = rows(WORDS), np.random.default_rng(order)
    chain = HighOrderCRF(order, history="segments", patterns="all", max_iter=1)
    semi = HighOrderSemiCRF(order, scheme="runs", segment_length=INF, patterns="all", max_iter=1)
    with warnings.catch_warnings(action="ignore"):
        chain, semi = chain.fit(X, LABELS), semi.fit(X, LABELS)
    assert recursion(semi) is AgedModel
    weight = {z: rng.normal() for z in chain.patterns_}
    stay = np.array([weight.get((y, y), 0.0) for y in semi.classes_])
    own = np.array([weight[y,] for y in semi.classes_])
    pairs = rng.normal(size=(3, chain.n_features_in_))
    for model, bias, tokens in (
        (chain, [weight[z] for z in chain.patterns_], None),
        (semi, [-stay["xyz".index(z[0])] if len(z) == 1 else weight[z] for z in semi.patterns_], own + stay),
    ):
        coef = np.zeros((len(bias), pairs.shape[1]))
        coef[:3] = pairs
        w = model._state.layout.weights(np.array(bias), coef, token_coef=tokens)
        model._state._replace(weights=w).set_on(model)
    np.testing.assert_allclose(semi.log_likelihood(X, LABELS), chain.log_likelihood(X, LABELS), rtol=1e-10)
    for ours, theirs in zip(semi.predict_marginals(X), chain.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert semi.predict(X) == chain.predict(X)
    scores = [[[c.score for c in best] for best in model.predict_nbest(X[:2], 5)] for model in (semi, chain)]
    np.testing.assert_allclose(*scores, rtol=1e-10)


@with_and_without_tails
def test_long_sequences_equal_a_dynamic_program(tails):
    rng = np.random.default_rng(0)
    patterns = [(0, 1), (1, 0), (2, 0), (0, 1, 0), (1, 2, 0), (2, 2, 1)]
    case = random_segment_case(rng, [40, 30], longest=(INF, INF, 4), patterns=patterns, forbidden=0.2)
    model, batch = to_aged_model(case)
    posterior, answers = model.posterior(batch), [so.dynamic_program(case.model, s) for s in case.sequences]
    np.testing.assert_allclose(posterior.log_z(), [a.log_partition for a in answers], rtol=1e-12)
    np.testing.assert_allclose(posterior.log_score(posterior.decode()), [a.best_score for a in answers], rtol=1e-12)
    np.testing.assert_allclose(posterior.marginals(), np.concatenate([a.marginals for a in answers]), atol=1e-10)
    segments, probability = posterior.segment_marginals(0.0)
    expected = {(n, *key): p for n, answer in enumerate(answers) for key, p in answer.segments.items() if p > 1e-12}
    start = np.repeat([0, 40], np.diff(segments.offsets))
    keys = zip(start // 40, segments.start - start, segments.stop - start, segments.codes, strict=True)
    actual = dict(zip([tuple(map(int, key)) for key in keys], probability, strict=True))
    assert expected.keys() <= actual.keys()
    np.testing.assert_allclose([actual[key] for key in expected], [*expected.values()], atol=1e-10)


@pytest.mark.parametrize("channel", [BEGIN, INSIDE, END_OF_SEGMENT])
def test_long_sequences_are_cut_unless_a_token_reads_another_one(channel):
    blocks = token_block(BAG, [0, 1]), token_block(channel, [0, 1])
    case = random_segment_case(
        np.random.default_rng(1), [40, 90, 0, 1], blocks, longest=(INF, INF, 3), patterns=[(0, 1), (1, 2, 0)]
    )
    (model, batch), found = to_aged_model(case), []
    for one in model, reschedule(model, cut_size=500):
        posterior = one.posterior(batch)
        found.append([posterior.marginals(), posterior.expectations().counts, posterior.log_score(posterior.decode())])
        found[-1] += [
            posterior.hessian_vector_product(np.ones(len(model.weights))),
            posterior.segment_marginals(0.1)[1],
        ]
    assert posterior.plan.is_cut == (channel != END_OF_SEGMENT)
    for whole, cut in zip(*found, strict=True):
        np.testing.assert_allclose(cut, whole, rtol=1e-10, atol=1e-11)


TAILED = {  # blocks of features, and whether sums may come from tails
    "tokens": ((BAG, INSIDE, BEGIN), True),
    "the last token": ((BAG, END_OF_SEGMENT), False),
}


@pytest.mark.parametrize("kind", TAILED)
def test_tails_give_the_sums_of_the_chain(kind, monkeypatch):
    channels, has_tails = TAILED[kind]
    blocks = *(token_block(channel, [0, 1]) for channel in channels), LengthBlock("capped", 9)
    case = random_segment_case(
        np.random.default_rng(2), [40, 90, 0, 1], blocks, longest=(INF, INF, INF), patterns=[(0, 1), (1, 2, 0)]
    )
    (model, batch), found = to_aged_model(case), []
    direction = np.random.default_rng(3).normal(size=len(model.weights))
    for least_ages in AgedPlan.least_ages, INF:
        monkeypatch.setattr(AgedPlan, "least_ages", least_ages)
        posterior = model.posterior(batch)
        assert (posterior.plan.tailed is not None) == (has_tails and least_ages < INF)
        found.append([posterior.log_z(), *posterior.expectations([1.0, 0.5, 1.0, 2.0])])
        found[-1] += [posterior.hessian_vector_product(direction), *posterior.log_z_and_slope(direction)]
    for tailed, chain in zip(*found, strict=True):
        np.testing.assert_allclose(tailed, chain, rtol=1e-10, atol=1e-11)
    long = reschedule(model, cut_size=500).posterior(batch).plan
    assert long.is_cut == has_tails
    for other in model.posterior(batch).plan.masked(None, may_be_impossible=True), long.without_dense_table():
        assert other.tailed is None


def lost_case():
    """Return two labels that may not be neighbours: one is out of the running for 99 tokens, the other one for 200."""
    model = so.Model(2, (INF, INF), True, {(0,): 0.0, (1,): 0.0, (0, 1): -INF, (1, 0): -INF}, {})
    model = model._replace(features={(0, (0,)): 1.0, (1, (1,)): 1.0, (2, (0,)): -3.0, (2, (1,)): -3.0})
    lines = [[{1: -9.0}] * 99 + [{0: -9.0}] * 200]
    return SegmentCase(model, [(0,), (0,)], (token_block(BAG, [0, 1]),), 2, lines, [["a"] * 299], [((0, 299, 0),)])


@with_and_without_tails
def test_a_label_that_comes_back_from_below_the_least_number(tails):
    on_wide = MarginalPass._on_wide_numbers
    (ours, batch), (theirs, _) = to_aged_model(lost_case()), to_segment_model(lost_case())
    with mock.patch.object(MarginalPass, "_on_wide_numbers", autospec=True, side_effect=on_wide) as slow:
        log_z = ours.posterior(batch).log_z()
        assert slow.call_count == 1
    np.testing.assert_allclose(log_z, theirs.posterior(batch).log_z(), rtol=1e-12)
    np.testing.assert_allclose(ours.posterior(batch).marginals(), theirs.posterior(batch).marginals(), atol=1e-12)
    counts = [model.posterior(batch).expectations().counts for model in (ours, theirs)]
    np.testing.assert_allclose(*counts, rtol=1e-9, atol=1e-11)


def test_time_and_memory_per_token_do_not_depend_on_the_lengths():
    X = rows(WORDS)
    model = fit(X, LABELS, 2, segment_length=INF)
    sizes = [model._state.model(SegmentModel).posterior(model_batch(model, n)).plan.row_size for n in (8, 4000)]
    assert sizes[0] == sizes[1]
    assert aged(model._state.layout).automaton.n_states == 1 + 2 * (model.automaton_.n_states - 1)


def model_batch(model, n_tokens):
    """Return one sequence as a batch for a fitted model."""
    from internals import FittedModel

    return FittedModel(model).read(rows(["ab" * (n_tokens // 2)]))[0]


WITHOUT = {  # what keeps the recursion over lengths, and a word of the warning
    "identity": ({"identity": True}, {}, "features of whole segments"),
    "gamma": ({"length": "gamma"}, {}, "gamma"),
    "long caps": ({"length": "capped", "max_length": 256}, {}, "lengths above 254, or 255 if capped"),
    "a shortest length": ({}, {"segment_length": (1, INF), "shortest": 2}, "shortest segment_length"),
    "matching": ({}, {"objective": "local_feature_matching", "max_iter": 0}, "local_feature_matching"),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", WITHOUT)
def test_a_warning_names_what_needs_lengths(kind):
    features, params, word = copy.deepcopy(WITHOUT[kind])
    if "shortest" in params:
        params = {"segment_length": (params["shortest"], INF)}
    n_long = 270
    X, y = [*WORDS, ["a"] * n_long], [*LABELS, ["x"] * (n_long - 1) + ["z"]]
    y[:2] = [list("xxyyyyzz"), list("zzzzxx")] if kind == "a shortest length" else y[:2]
    tokens = SequenceFeatureExtractor([("w", 0)]).fit_transform(X)
    data = SegmentFeatureExtractor(scheme="runs", **features).fit_transform(tokens, y)
    model = HighOrderSemiCRF(1, **{"segment_length": INF, "max_iter": 1, **params})
    with pytest.warns(UserWarning, match=f"slow with .*{word}.*{n_long} tokens") as caught:
        model.fit(data, y)
    assert sum("slow with" in str(warning.message) for warning in caught) == 1
    if kind != "matching":
        assert recursion(model) is SegmentModel
        assert type(model._state.model(SegmentModel)) is SegmentModel
        for ask in model.predict, model.predict_marginals, lambda data: model.score(data, y):
            with pytest.warns(UserWarning, match=f"slow with .*{word}.*{n_long} tokens") as caught:
                ask(data)
            assert len(caught) == 1
        with warnings.catch_warnings(action="error"):
            model.predict(data[:-1])
    if kind == "long caps":
        features["max_length"] -= 1
        data = SegmentFeatureExtractor(scheme="runs", **features).fit_transform(tokens, y)
        assert recursion(model.fit(data, y)) is AgedModel

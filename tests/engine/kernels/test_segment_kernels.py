"""Kernels of chains and segments, called on tables: scaled and wide passes, compilation, memory, threads."""

from functools import partial

import numpy as np
import pytest
import segment_oracle as so
from cases import count_wide_passes, peak_of, random_case, reschedule, to_chain_model, to_problem
from internals import (
    BAG,
    BEGIN,
    INSIDE,
    NegativeLogLikelihood,
    Problem,
    SegmentModel,
    SegmentPlan,
)
from segment_cases import (
    CHANNELS,
    LENGTHS,
    WHOLE,
    random_segment_case,
    to_segment_model,
    to_segments,
    token_block,
)
from test_kernels import answers, assert_same

BLOCKS = {
    "plain": None,
    "tags": (token_block(BAG, [0]), token_block(BEGIN, [0, 1]), token_block(CHANNELS["I|:"], [1]), LENGTHS[2]),
    "whole": (token_block(INSIDE, [0, 1]), WHOLE),
}
PATTERNS = [(0, 1), (1, 0), (2, 0), (0, 1, 0), (1, 2, 0), (2, 2, 1)]
every_block = pytest.mark.parametrize("blocks", BLOCKS)


def mixed_case(seed, lengths, blocks="tags", orders=((0, 1, 2),), **options):
    options = {"longest": (5, 3, 1), "patterns": PATTERNS, **options}
    return random_segment_case(np.random.default_rng(seed), lengths, BLOCKS[blocks], orders, **options)


def segment_model(seed, lengths, blocks, orders, **options):
    case = mixed_case(seed, lengths, blocks, orders, **options)
    return case, *to_segment_model(case)


def chain_model(seed, lengths, orders, scale=1.5, forbidden=0.0):
    case = random_case(np.random.default_rng(seed), 3, lengths, 3, 12, scale, orders, forbidden)
    return case, *to_chain_model(case)


ORDERS = {"order_0": ((0,),), "conjoined": ((0, 1, 2),)}
MODELS = {
    "chain of order_0": partial(chain_model, orders=[(0,), (0,)]),
    "conjoined chain": partial(chain_model, orders=[(0,), (0, 1), (2,)]),
    **{
        f"{blocks}, {name}": partial(segment_model, blocks=blocks, orders=orders)
        for blocks in BLOCKS
        for name, orders in ORDERS.items()
    },
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


@pytest.fixture
def wide_passes(monkeypatch):
    return count_wide_passes(monkeypatch)


# ---------------------------------------------------------------------------------------------------------------- wide


@every_model
def test_wide_passes_agree_and_moderate_weights_need_none(make, wide_passes):
    _, model, batch = make(0, np.random.default_rng(0).integers(0, 40, 37))
    expected = answers(model, batch)
    assert wide_passes.calls == 0
    model.scales = False
    assert_same(answers(model, batch), expected)
    assert wide_passes.calls > 0


@every_model
def test_sequences_of_a_task_share_a_wide_pass(make, wide_passes):
    """And have the bits that each has alone."""
    _, model, batch = make(3, np.random.default_rng(3).integers(0, 20, 36))
    model.scales = False
    posterior = model.posterior(batch)
    log_z, marginals = posterior.log_z(), posterior.marginals()
    assert wide_passes.calls == 2 * sum(map(len, posterior.plan.chunks))
    assert wide_passes.n_sequences == 2 * np.count_nonzero(batch.lengths) > 8 * wide_passes.calls
    parts = [posterior.part(np.array([n])) for n in range(len(batch))]
    assert log_z.tolist() == [float(part.log_z()[0]) for part in parts]
    np.testing.assert_array_equal(marginals, np.concatenate([part.marginals() for part in parts]))


@every_model
def test_scores_beyond_the_exponents_of_wide_numbers(make):
    """Exponentials below -1e17 were 0: wrong where the best labelling has one, impossible where all have.

    In whatever order: cells of segments that would begin before a sequence hold scores of an earlier one.
    """
    for seed, scale in enumerate([1e17, 1e18, 1e30, 1e200] * 2):
        case, one, batch = make(seed, [4, 1, 3, 0, 2], scale=1.0, forbidden=0.2)
        tables = [so.scores(case.model, sequence).values() for sequence in case.sequences]
        model = type(one)(one.layout, scale * one.weights)
        model.scales = False  # all lanes are suspect
        expected = [so.log_sum_exp(scale * score for score in scores) for scores in tables]
        np.testing.assert_allclose(model.posterior(batch).log_z(), expected, rtol=1e-12, atol=1e-13 * scale)
        np.testing.assert_allclose(model.posterior(batch).marginals().sum(axis=1), 1.0, atol=1e-12)


def test_wide_passes_keep_their_digits_on_long_sequences():
    """log Z is about 5e6 here: differences of numbers of that size would leave marginals of nine digits."""
    case = mixed_case(4, [6000], "tags", ((0, 1),), scale=300.0)
    model, batch = to_segment_model(case)
    layout, expected = model.layout, model.posterior_on(SegmentPlan(model.layout, batch)).expectations()
    assert expected.log_z[0] > 5e6
    n_segments = layout.pattern_coef(expected.counts)[:3].sum()
    begins = model.posterior(batch).tag_marginals([(y, BEGIN) for y in range(3)]).sum()
    assert n_segments == pytest.approx(begins, rel=1e-9)
    np.testing.assert_allclose(model.posterior(batch).marginals().sum(axis=1), 1.0, rtol=1e-13)
    segments_found, probability = model.posterior(batch).segment_marginals(1e-12)
    assert probability @ segments_found.lengths == pytest.approx(6000, rel=1e-9)


# --------------------------------------------------------------------------------------------- blocks, lanes and tiles


@every_block
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_sequences_alone_and_side_by_side_agree(blocks, scale):
    """Sequences too long for a block run alone, on kernels of another lane kind."""
    lengths = np.random.default_rng(6).integers(0, 18, 21)
    model, batch = to_segment_model(mixed_case(6, lengths, blocks, scale=scale))
    expected = answers(model, batch)
    tags = model.posterior(batch).tag_marginals([(0, BEGIN), (1, INSIDE)])
    model = reschedule(model, single_sequence_size=0)
    plan = model.posterior(batch).plan
    assert {task.sequences.shape[1] for chunk in plan.chunks for task in chunk} == {1}
    assert_same(answers(model, batch), expected)
    np.testing.assert_allclose(model.posterior(batch).tag_marginals([(0, BEGIN), (1, INSIDE)]), tags, atol=1e-11)


# --------------------------------------------------------------------------------------------------------------- memory


def test_memory_of_a_long_sequence_with_many_states_and_long_segments():
    """T = 4000 tokens, D = 50, L = 3 labels and P > 100 states: T * D * P numbers would be more than 150 MB."""
    rng = np.random.default_rng(8)
    patterns = {tuple(rng.integers(0, 3, 6).tolist()) for _ in range(60)}
    case = random_segment_case(rng, [4000], None, longest=(50, 50, 50), patterns=sorted(patterns))
    model, batch = to_segment_model(case)
    n_states = model.layout.automaton.n_states
    tables = 4000 * 8 * (50 * 3 + 4 * n_states)  # segment scores, and a few numbers for each state
    assert 4000 * 50 * n_states * 8 > 6 * tables
    objective = NegativeLogLikelihood().bind(
        Problem(SegmentModel, model.layout, batch, to_segments(case.segmentations, batch.offsets))
    )
    assert peak_of(lambda: model.posterior(batch).log_z()) < 1.5 * tables
    assert peak_of(lambda: objective.value_gradient(model.weights)) < 1.5 * tables


@every_block
def test_memory_of_a_gradient_does_not_grow_with_the_data(blocks):
    """But for the features of whole segments, which are kept for all evaluations."""

    def peaks(n_sequences):
        case = mixed_case(10, [20] * n_sequences, blocks)
        model, batch = to_segment_model(case)
        objective = NegativeLogLikelihood().bind(
            Problem(SegmentModel, model.layout, batch, to_segments(case.segmentations, batch.offsets))
        )
        # tables of the first evaluation are kept for the next one
        return np.array([peak_of(lambda: objective.value_gradient(model.weights)) for _ in range(2)])

    peaks(20)  # what a process allocates once
    few, many = peaks(90), peaks(240)
    assert (many - few < 8 * 150 * 20).all()  # less than one number per token


def test_memory_of_a_gradient_of_chains_does_not_grow_with_the_data():
    def peaks(n_sequences):
        orders = [(0,), (0, 1), (2,)]
        problem = to_problem(random_case(np.random.default_rng(0), 3, [20] * n_sequences, 2, 8, 1.0, orders))
        objective, w = NegativeLogLikelihood().bind(problem), np.zeros(problem.n_weights)
        # tables of the first evaluation are kept for the next one
        return np.array([peak_of(lambda: objective.value_gradient(w)) for _ in range(2)])

    peaks(50)  # what a process allocates once
    few, many = peaks(400), peaks(1000)
    assert (many - few < 8 * 600 * 20).all()  # less than one number per token

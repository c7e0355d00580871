"""Whole models against the enumeration oracle, and laws that every answer obeys."""

import math
import pickle
from operator import methodcaller

import numpy as np
import oracle
import pytest
from cases import (
    EXTREME,
    MODERATE,
    Case,
    cases,
    golden_case,
    is_possible,
    of_history,
    random_case,
    reschedule,
    to_chain_model,
    to_codes,
)
from hypothesis import given
from hypothesis import strategies as st
from internals import ImpossibleSequence

# scaled numbers near the end of their range: exp(-644) is about 1e-280
EDGE = st.sampled_from([0.0, 150.0, -150.0, 300.0, -300.0, 400.0, -400.0, -460.0, -576.0, -640.0, 640.0])
KINDS = {
    "moderate": cases(MODERATE),
    "bias_only_patterns": cases(MODERATE, bias_only=True, n_sequences=12),
    "extreme": cases(EXTREME),
    "extreme_bias_only_patterns": cases(EXTREME, bias_only=True, n_sequences=12),
    "forbidden": cases(MODERATE, forbid=True),
    "forbidden_and_extreme": cases(EXTREME, forbid=True),
    "edge_of_underflow": cases(EDGE, forbid=True, bias_only=True),
    "edge_of_underflow_conjoined": cases(EDGE, forbid=True),
    "segments": cases(MODERATE, history="segments"),
    "segments_forbidden_and_extreme": cases(EXTREME, forbid=True, history="segments"),
    "segments_edge_of_underflow": cases(EDGE, forbid=True, bias_only=True, n_sequences=12, history="segments"),
}


def close(actual, expected, atol=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=atol)


def flat(lists):
    return [item for inner in lists for item in inner]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_answer_equals_enumeration(kind, data):
    case = data.draw(KINDS[kind].filter(is_possible))
    unknown = data.draw(st.lists(st.lists(st.integers(0, case.model.n_labels - 1), min_size=1, max_size=4).map(tuple)))
    asked = [*case.model.patterns, *of_history(unknown, case.model.history)]
    chain, batch = to_chain_model(case)
    close(chain.given(batch).log_z(), [oracle.log_partition(case.model, rows) for rows in case.sequences])
    marginals = chain.given(batch).marginals()
    assert marginals.shape == (batch.n_tokens, case.model.n_labels)
    close(marginals.tolist(), flat(oracle.marginals(case.model, rows) for rows in case.sequences))
    close(marginals.sum(axis=1), 1.0, atol=1e-14)
    assert ((marginals >= 0) & (marginals <= 1)).all()
    of_patterns = chain.given(batch).pattern_marginals(asked)
    assert of_patterns.shape == (batch.n_tokens, len(asked))
    assert ((of_patterns >= 0) & (of_patterns <= 1)).all()
    close(of_patterns.tolist(), flat(oracle.pattern_marginals(case.model, rows, asked) for rows in case.sequences))
    scores = chain.given(batch).log_score(to_codes(case.labels))
    pairs = list(zip(case.sequences, case.labels, strict=True))
    close(scores, [oracle.score(case.model, rows, labels) for rows, labels in pairs])
    check_best_paths(case, chain, batch)


def check_best_paths(case, chain, batch):
    codes = chain.given(batch).decode()
    assert codes.shape == (batch.n_tokens,)
    assert codes.dtype == np.int32
    best = [oracle.best_paths(case.model, rows) for rows in case.sequences]
    for n, (_, paths) in enumerate(best):
        assert tuple(codes[batch.offsets[n] : batch.offsets[n + 1]].tolist()) in paths
    close(chain.given(batch).log_score(codes), [score for score, _ in best])


@pytest.mark.parametrize("name", ["jmlr_appendix_b", "jmlr_appendix_b_unconditional", "underflow"])
def test_golden(name):
    golden, case = golden_case(name)
    chain, batch = to_chain_model(case)
    close(chain.given(batch).log_z(), [golden["log_partition"]])
    asked = [*case.single_labels, *(tuple(z) for z in golden["asked"])]
    close(chain.given(batch).pattern_marginals(asked), golden["marginals"])
    close(chain.given(batch).marginals(), [line[: case.model.n_labels] for line in golden["marginals"]])
    assert chain.given(batch).decode().tolist() == golden["best_paths"][0]
    # printed digits
    assert chain.given(batch).log_z()[0] == pytest.approx(golden["log_partition_printed"], abs=5e-4)
    if "marginals_printed" in golden:
        assert chain.given(batch).pattern_marginals(asked).round(2).tolist() == golden["marginals_printed"]


def test_golden_underflow_beside_other_sequences():
    """The twin takes over for the one sequence, not for its neighbours in the block, and not at their expense."""
    _, case = golden_case("underflow")
    rows = case.sequences[0]
    sequences = [rows[:4], rows, rows[::-1], rows * 40, rows[3:], [], rows]
    chain, batch = to_chain_model(case._replace(sequences=sequences, labels=[(0,) * len(s) for s in sequences]))
    expected = [oracle.dynamic_program(case.model, s) for s in sequences]
    close(chain.given(batch).log_z(), [answer.log_partition for answer in expected])
    close(chain.given(batch).marginals(), flat(answer.marginals for answer in expected))
    close(chain.given(batch).log_score(chain.given(batch).decode()), [answer.best_score for answer in expected])


def check_against_recursion(case):
    """Compare with the dense log-space recursion, for sequences too long to enumerate."""
    expected = [oracle.dynamic_program(case.model, rows) for rows in case.sequences]
    chain, batch = to_chain_model(case)
    close(chain.given(batch).log_z(), [answer.log_partition for answer in expected])
    np.testing.assert_allclose(chain.given(batch).marginals(), flat(answer.marginals for answer in expected), atol=1e-8)
    close(chain.given(batch).log_score(chain.given(batch).decode()), [answer.best_score for answer in expected])
    return chain, batch


@pytest.mark.needs_jit
@pytest.mark.parametrize("feature_orders", [[(0,), (0,)], [(0,), (0, 1), (2,)]], ids=["order_0", "conjoined"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
@pytest.mark.parametrize("history", ["tokens", "segments"])
def test_longer_sequences_in_blocks(feature_orders, scale, forbidden, history):
    """Nineteen sequences of all lengths up to 60: full blocks, the rest of one, and lengths that differ in a block."""
    rng = np.random.default_rng([int(scale), len(feature_orders)])
    lengths = rng.integers(0, 60, 19)
    check_against_recursion(random_case(rng, 3, lengths, 2, 9, scale, feature_orders, forbidden, history))


@pytest.mark.needs_jit
@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("feature_orders", [[(0,)], [(0,), (1,)]], ids=["order_0", "conjoined"])
@pytest.mark.parametrize("history", ["tokens", "segments"])
def test_long_sequences(feature_orders, scale, history):
    rng = np.random.default_rng(int(scale))
    lengths = [3000, 2, 1031]
    check_against_recursion(random_case(rng, 2, lengths, 2, 5, scale, feature_orders, history=history))


@pytest.mark.parametrize("feature_orders", [[(0,)] * 4, [(0,), (1,), (0, 2), (0,)]], ids=["order_0", "conjoined"])
def test_every_n_jobs_gives_the_same_bits(feature_orders):
    rng = np.random.default_rng(7)
    case = random_case(rng, 3, rng.integers(0, 30, 70), 2, 6, 1.5, feature_orders)
    chain, batch = to_chain_model(case)
    for answer in (
        methodcaller("log_z"),
        methodcaller("marginals"),
        methodcaller("decode"),
        lambda posterior: posterior.pattern_marginals([(0, 1), (2, 2, 2)]),
    ):
        one = answer(chain.given(batch, n_jobs=1))
        for n_jobs in (None, 2, 3):
            np.testing.assert_array_equal(answer(chain.given(batch, n_jobs=n_jobs)), one)


@pytest.mark.parametrize("cut_size", [1 << 22, 1], ids=["whole", "cut"])
@pytest.mark.parametrize("emission", [1.0, 1e4], ids=["scaled", "twin"])
def test_a_sequence_without_any_possible_labelling_is_named(emission, cut_size):
    patterns = {(0,): 0.0, (1,): 0.0} | dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1)], -math.inf)
    sequences = [[{0: 1.0}], [], [{}], [{}, {0: 1.0}, {}], [{0: 1.0}]]
    model = oracle.Model(2, patterns, {(0, (0,)): emission, (0, (1,)): 0.0})
    case = Case(model, [(0,)], sequences, [(0,) * len(rows) for rows in sequences])
    chain, batch = to_chain_model(case)
    chain = reschedule(chain, cut_size=cut_size)
    close(chain.given(batch).log_score(to_codes(case.labels)), [emission, 0.0, 0.0, -math.inf, emission])
    for question, *of in ["log_z"], ["marginals"], ["decode"], ["pattern_marginals", [(0, 1)]]:
        with pytest.raises(ImpossibleSequence, match="sequence 3") as raised:
            methodcaller(question, *of)(chain.given(batch))
        assert raised.value.sequence == pickle.loads(pickle.dumps(raised.value)).sequence == 3
    possible = batch[[0, 1, 2, 4]]
    close(chain.given(possible).log_z(), [np.logaddexp(emission, 0), 0.0, math.log(2), np.logaddexp(emission, 0)])

"""Scaled and wide passes against each other, at the limits of floating point, and on sequences split by position."""

import functools
import itertools
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numba
import numpy as np
import pytest
import segment_oracle as so
from cases import (
    UNDERFLOWS,
    build_layout,
    cases,
    chain_case,
    count_wide_passes,
    emission_case,
    of_history,
    peak_of,
    random_case,
    reschedule,
    to_chain_model,
    to_layout,
)
from hypothesis import given
from hypothesis import strategies as st
from internals import (
    LANES,
    STEP,
    ChainModel,
    SequenceBatch,
    _wide,
    add_folded,
    load,
    load_step,
    log_spread,
    observed_patterns,
    store,
    store_step,
    weighted_arcs,
)
from scipy import sparse

ORDERS = pytest.mark.parametrize("feature_orders", [[(0,), (0,)], [(0,), (0, 1), (2,)]], ids=["order_0", "conjoined"])


def answers(model, batch):
    """Return log Z, marginals, expected counts, the scores of the best labels, and the probabilities of segments."""
    posterior = model.posterior(batch)
    expected, best = posterior.expectations(), posterior.decode()
    np.testing.assert_allclose(expected.log_z, posterior.log_z(), rtol=1e-14)
    probable = [] if isinstance(model, ChainModel) else [posterior.segment_marginals(1e-3)[1]]
    return expected.log_z, posterior.marginals(), expected.counts, posterior.log_score(best), *probable


def assert_same(actual, expected, rtol=1e-10):
    for one, two in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=rtol, atol=1e-11)


@numba.njit(boundscheck=True)
def copy_row(table, source, target, kind):
    store(table, target, load(table, source, kind))


@numba.njit(boundscheck=True)
def fold_row(table, sums, target):
    add_folded(sums, target, load(table, 0, LANES))


@numba.njit(boundscheck=True)
def copy_step(values, source, target):
    store_step(values, target, load_step(values, source))


def test_kernels_that_check_indices_read_and_write_within_tables():
    for kind, n_columns in (LANES, LANES), (None, 1), ((LANES,), 2 * LANES), ((None,), 2):
        table = np.arange(2.0 * n_columns).reshape(2, n_columns)
        copy_row(table, 0, 1, kind)
        np.testing.assert_array_equal(*table)
        for rows in (2, 0), (-1, 0), (0, 2), (0, -1):
            with pytest.raises(IndexError):
                copy_row(table, *rows, kind)
    with pytest.raises(IndexError):
        fold_row(np.zeros((1, LANES)), np.zeros((3, 4)), 3)
    values = np.arange(2.0 * STEP)
    copy_step(values, STEP, 0)
    np.testing.assert_array_equal(*values.reshape(2, STEP))
    for starts in (STEP + 1, 0), (-1, 0), (0, STEP + 1):
        with pytest.raises(IndexError):
            copy_step(values, *starts)


@pytest.fixture
def wide_passes(monkeypatch):
    return count_wide_passes(monkeypatch)


def test_forbidden_arcs_need_no_wide_pass(wide_passes):
    rng = np.random.default_rng(1)
    case = random_case(rng, 3, rng.integers(1, 40, 19), 2, 8, 1.0, [(0,)], forbidden=0.4)
    chain, batch = to_chain_model(case)
    actual = answers(chain, batch)
    assert wide_passes.calls == 0
    np.testing.assert_allclose(actual[0], [so.dynamic_program(case.model, s)[0] for s in case.sequences], rtol=1e-12)


def test_wide_passes_work_on_suspect_sequences_only(wide_passes):
    """Emission scores are the suspects here: the same model scales the other sequences of the block."""
    extreme = emission_case(2, {(0, 1): -600.0, (1, 0): -600.0}, [(0, -400)] * 3 + [(-400, 150)] * 3)
    calm = emission_case(2, {}, [(0, 1), (2, 0)] * 3)
    case = chain_case(extreme.model, extreme.feature_orders, calm.rows * 5 + extreme.rows, [(0,) * 6] * 6)
    chain, batch = to_chain_model(case)
    log_z = chain.posterior(batch).log_z()
    assert (wide_passes.calls, wide_passes.n_sequences) == (1, 1)
    np.testing.assert_allclose(log_z, [so.log_partition(case.model, s) for s in case.sequences], rtol=1e-12)


def test_sequences_with_scores_beyond_wide_numbers_change_no_bits_of_others(wide_passes):
    """They are processed one by one, each with a factor of its own."""
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(6, 4, 2)) * np.array([400.0, 1e18, 400.0, 1e30, 400.0, 400.0])[:, None, None]
    ones = [emission_case(2, {(0, 1): -1.5}, of_one) for of_one in scores]
    case = chain_case(ones[0].model, ones[0].feature_orders, [one.rows[0] for one in ones], [(0,) * 4] * 6)
    chain, batch = to_chain_model(case)
    chain.scales = False
    posterior = chain.posterior(batch)
    log_z, marginals = posterior.log_z(), posterior.marginals()
    parts = [posterior.part(np.array([n])) for n in range(len(batch))]
    assert wide_passes.calls == 12
    assert log_z.tolist() == [float(part.log_z()[0]) for part in parts]
    np.testing.assert_array_equal(marginals, np.concatenate([part.marginals() for part in parts]))
    expected = [so.log_partition(case.model, sequence) for sequence in case.sequences]
    np.testing.assert_allclose(log_z, expected, rtol=1e-12)


@pytest.mark.parametrize("cut_size", [1 << 22, 1], ids=["whole", "cut"])
@pytest.mark.parametrize("history", ["tokens", "segments"])
@pytest.mark.parametrize("name", UNDERFLOWS)
def test_accumulated_underflow(name, history, cut_size):
    case = UNDERFLOWS[name]
    patterns = {z: case.model.patterns[z] for z in of_history(case.model.patterns, history)}
    case = case._replace(model=case.model._replace(patterns=patterns, history=history))
    expected = so.dynamic_program(case.model, case.sequences[0])
    chain, batch = to_chain_model(case)
    chain = reschedule(chain, cut_size=cut_size)
    log_z, marginals, counts, best = answers(chain, batch)
    assert log_z[0] == pytest.approx(expected.log_partition, rel=1e-12)
    np.testing.assert_allclose(marginals, expected.marginals, atol=1e-12)
    assert best[0] == pytest.approx(expected.best_score, rel=1e-12)
    assert np.isfinite(counts).all()


ONWARD = {(0, 2): -math.inf, (1, 0): -math.inf, (2, 0): -math.inf, (2, 1): -math.inf}
OF_TWO = {(0, 1, 2): 1.0, (1, 0, 2): -2.0, (2, 1, 0): 0.5, (2, 2): 3.0}
LEFT_BEHIND = {  # patterns, and the scores of the labels at the tokens of two recordings
    "without return": (ONWARD, 9.0),
    "no pattern of many labels": (OF_TWO | {(0, 1, 0, 2): 1.0}, 300.0),
    "both": (ONWARD | {(0, 1, 2): 1.5, (1, 1): 2.0}, 30.0),
}


@pytest.mark.parametrize("cut_size", [1 << 22, 1], ids=["whole", "cut"])
@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_histories_of_segments_left_behind_need_no_wide_pass(name, cut_size, wide_passes):
    """States whose shares are below 1e-200 for hundreds of tokens, and that no later token needs."""
    patterns, score = LEFT_BEHIND[name]
    scores = [tuple(score * (y == z) for z in range(3)) for y in (0, 1, 2) for _ in range(150)]
    case = emission_case(3, patterns, scores)
    rows, model = case.rows[0], case.model._replace(history="segments")
    sequences = [rows, rows[100:350], [], rows[:4]]
    case = chain_case(model, case.feature_orders, sequences, [(0,) * len(s) for s in sequences])
    chain, batch = to_chain_model(case)
    chain = reschedule(chain, cut_size=cut_size)
    expected = answers(chain, batch)
    direction = np.random.default_rng(0).normal(size=chain.layout.n_weights)
    product = chain.posterior(batch).hessian_vector_product(direction)
    assert wide_passes.calls == 0
    chain.scales = False
    assert_same(answers(chain, batch), expected)
    again = chain.posterior(batch).hessian_vector_product(direction)
    # a sum over the tokens, whose derivatives are differences of sums over the tokens before and after them
    np.testing.assert_allclose(again, product, atol=1e-16 * score * len(rows) ** 2)
    assert wide_passes.calls > 0


@pytest.mark.parametrize("is_closed", [False, True])
def test_long_recordings_stay_in_the_scaled_pass(is_closed, wide_passes):
    """Segments of 200 to 600 tokens, drawn from the patterns; one sequence of 5,000 tokens, and 17 sequences."""
    rng, labels = np.random.default_rng(8), [0]
    while len(labels) < 5_000:
        others = [y for y in range(4) if y != labels[-1] and not (is_closed and y == (labels[-1] + 2) % 4)]
        labels += [int(rng.choice(others))] * int(rng.integers(200, 601))
    codes = np.array(labels[:5_000], np.int32)
    patterns = observed_patterns(codes, np.array([0, len(codes)]), 4, 3, history="segments")
    scores = rng.normal(3.0 * np.eye(4)[codes], 2.0)
    batch = SequenceBatch.from_csr(sparse.csr_array(scores), [0, len(codes)])
    forbidden = [(y, (y + 2) % 4) for y in range(4)] if is_closed else []
    layout = build_layout(batch, codes, patterns, all_pairs=True, forbidden=forbidden)
    weights = rng.normal(size=layout.n_weights)
    weights[: layout.n_pairs] = (layout.pair_pattern == layout.pair_feature).astype(float)
    chain = ChainModel(layout, weights)
    for offsets in [0, len(codes)], np.linspace(0, len(codes), 18).astype(int):
        part = SequenceBatch.from_csr(batch.tocsr(), offsets)
        expected = answers(chain, part)
        assert wide_passes.calls == 0
        wide = ChainModel(layout, weights)
        wide.scales = False
        assert_same(answers(wide, part), expected)
        wide_passes.calls = 0


@given(cases(history=None, bias_only=True), st.integers(1, 4))
def test_the_spread_of_continuations(case, n_more):
    """No history makes all continuations together better than another one does by more than the bound."""
    layout, weights = to_layout(case)
    n_labels, model = case.model.n_labels, case.model
    rest = list(itertools.product(range(n_labels), repeat=min(n_more, 7 - n_labels)))

    terms = functools.cache(so.terms_of(model, so.tokens([{}] * 8)))

    def beta(before):
        of_before, *scores = (so.sum_of_terms(terms, so.tokenwise(before + z)) for z in [(), *rest])
        return so.log_sum_exp(score - of_before for score in scores)

    betas = [beta(before) for n in range(4) for before in itertools.product(range(n_labels), repeat=n)]
    assert max(betas) - min(betas) <= log_spread(layout, weighted_arcs(layout, weights)) + 1e-9


@pytest.mark.parametrize("bias", [600.0, 640.0])
def test_huge_factors_of_arcs_out_of_reach_are_not_used(bias):
    """At the first position no label comes before: the arc (1, 0), with the highest score of all, has no mass there."""
    patterns = {(0,): 0.0, (1,): 0.0, (0, 0): bias, (1, 0): 0.0, (1, 1): bias}
    features = {(0, z): 2 * bias if z == (1, 0) else 0.0 for z in patterns if len(z) == 2}
    rows = [{0: 1.0}, {}, {}]
    case = chain_case(so.chain(2, patterns, features), [(1,)], [rows], [(0, 0, 0)])
    chain, batch = to_chain_model(case)
    _, marginals, counts, _ = answers(chain, batch)
    probability = so.distribution(case.model, case.sequences[0])
    np.testing.assert_allclose(marginals, so.token_marginals(probability, 2, 3), atol=1e-12)
    expected, _ = so.expected_counts(case.model, case.sequences[0])
    np.testing.assert_allclose(chain.layout.pattern_coef(counts), [expected[z] for z in patterns], atol=1e-12)
    assert chain.posterior(batch).pattern_marginals([(1, 0)])[0, 0] == 0


def test_exponentials_are_exact_to_the_last_digits():
    """One token and two labels: log Z = log(1 + exp(x)) shows the kernel's own exp over its whole range."""
    gaps = np.concatenate([np.linspace(-40, 40, 301), np.linspace(-643, -40, 50)])
    model = so.chain(2, {(0,): 0.0, (1,): 0.0}, {(0, (0,)): 1.0})
    sequences = [[{0: float(gap)}] if gap else [{}] for gap in gaps]
    chain, batch = to_chain_model(chain_case(model, [(0,)], sequences, [(0,)] * len(gaps)))
    marginals = chain.posterior(batch).marginals()
    odds = marginals[:, 0] / marginals[:, 1]
    np.testing.assert_allclose(odds, np.exp(gaps), rtol=1e-13)
    np.testing.assert_allclose(chain.posterior(batch).log_z(), np.logaddexp(0, gaps), rtol=1e-14, atol=2e-16)


mantissas = st.floats(-1e70, 1e70, allow_subnormal=False).filter(lambda m: m == 0.0 or abs(m) > 1e-70)
wide_numbers = st.tuples(mantissas, st.integers(-3, 3))


@given(wide_numbers, wide_numbers)
def test_arithmetic_of_wide_numbers(left, right):
    def exact(m, e):
        return Fraction(m) * Fraction(_wide.BASE) ** e

    x, y = exact(*left), exact(*right)
    assert abs(exact(*_wide.add_wide(*left, *right)) - (x + y)) <= max(abs(x), abs(y)) / 2**52
    assert abs(exact(*_wide.multiply_wide(*left, *right)) - x * y) <= abs(x * y) / 2**52
    assert _wide.exceeds_wide(*left, *right) == (x > y)
    assert abs(x) > 1e308 or _wide.narrow(*left) == float(x)
    if x != 0:
        assert abs(exact(*_wide.invert_wide(*left)) * x - 1) <= 2**-52


@given(st.floats(-1e5, 1e5) | st.floats(-9e16, 9e16))
def test_exponentials_and_logarithms_of_wide_numbers(x):
    result = _wide.exp_wide(x, 0)
    m, e = map(Decimal, result)
    with localcontext(Context(40, Emin=-(10**17), Emax=10**17)):
        error = (m * Decimal(2) ** (512 * e) / Decimal(x).exp()).ln()
    assert abs(error) < (5e-16 if abs(x) < 1e5 else abs(x) * 2**-52)
    assert _wide.log_wide(*result)[0] == pytest.approx(x, rel=1e-15, abs=1e-15)


@ORDERS
@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("cut_size", [1, 3000])
def test_cut_sequences_equal_whole_ones(feature_orders, scale, cut_size):
    """Checkpointing must not change an answer; parts of one sequence may end in any lane and at any row."""
    rng = np.random.default_rng(2)
    lengths = [*rng.integers(0, 50, 21), 120, 1, 97]
    case = random_case(rng, 3, lengths, 2, 8, scale, feature_orders)
    chain, batch = to_chain_model(case)
    whole = answers(chain, batch)
    pattern_marginals = chain.posterior(batch).pattern_marginals([(0, 1), (2, 2, 1)])
    codes = chain.posterior(batch).decode()
    chain = reschedule(chain, cut_size=cut_size)
    tasks = [task for chunk in chain.posterior(batch).plan.chunks for task in chunk]
    assert max(len(task.tiles) for task in tasks) > 1
    assert_same(answers(chain, batch), whole)
    np.testing.assert_allclose(
        chain.posterior(batch).pattern_marginals([(0, 1), (2, 2, 1)]), pattern_marginals, atol=1e-12
    )
    np.testing.assert_array_equal(chain.posterior(batch).decode(), codes)


@ORDERS
@pytest.mark.parametrize("tile_size", [0, 2000])
def test_answers_do_not_depend_on_the_size_of_tiles(feature_orders, tile_size):
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 30, 3 * LANES + 5)
    chain, batch = to_chain_model(random_case(rng, 3, lengths, 2, 8, 1.0, feature_orders))
    expected = answers(chain, batch)
    assert_same(answers(reschedule(chain, tile_sizes=(tile_size, tile_size)), batch), expected)


def test_memory_of_a_very_long_sequence():
    """A sequence, alone in its lane, whose full table of alpha would take more than 60 MB."""
    n_tokens = 60_000
    rng = np.random.default_rng(4)
    chain, _ = to_chain_model(random_case(rng, 3, [0], 5, 200, 0.5, [(0,)]))
    n_states = chain.layout.automaton.n_states
    assert n_tokens * n_states * 8 > 60e6
    batch = SequenceBatch.from_csr(sparse.csr_array(rng.normal(size=(n_tokens, 1))), [0, n_tokens])
    answers = []
    assert peak_of(lambda: answers.extend([chain.posterior(batch).marginals(), chain.posterior(batch).decode()])) < 50e6
    marginals, codes = answers
    np.testing.assert_allclose(marginals.sum(axis=1), 1.0, rtol=1e-12)
    other = rng.integers(0, 3, n_tokens).astype(np.int32)
    posterior = chain.posterior(batch)
    assert posterior.log_score(other)[0] < posterior.log_score(codes)[0] < posterior.log_z()[0]
    # far ends do not feel each other: a stretch in the middle has the same marginals on its own
    middle = SequenceBatch.from_csr(batch.tocsr()[30_000:31_000], [0, 1000])
    np.testing.assert_allclose(chain.posterior(middle).marginals()[300:-300], marginals[30_300:30_700], atol=1e-9)


def test_wide_passes_keep_their_digits_on_long_sequences():
    """log Z is about 1e7 here: differences of numbers of that size would leave marginals of nine digits."""
    n_tokens = 20_000
    rng = np.random.default_rng(6)
    chain, _ = to_chain_model(random_case(rng, 3, [0], 3, 30, 300.0, [(0,), (1,)]))
    rows = sparse.csr_array(rng.normal(size=(n_tokens, 2)))
    batch = SequenceBatch.from_csr(rows, [0, n_tokens])
    expectations = chain.posterior(batch).expectations()
    assert expectations.log_z[0] > 8e6
    assert chain.layout.pattern_coef(expectations.counts)[:3].sum() == pytest.approx(n_tokens, rel=1e-13)
    middle = SequenceBatch.from_csr(rows[9000:10_000], [0, 1000])
    part, whole = chain.posterior(middle).marginals(), chain.posterior(batch).marginals()
    np.testing.assert_allclose(part[300:-300], whole[9300:9700], atol=1e-12)

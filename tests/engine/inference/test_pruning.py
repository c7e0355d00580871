"""Pruning: lattices of candidates, limits, and the parameter; ``test_answers`` in ``laws`` tests the results."""

import itertools
import math

import numpy as np
import pytest
import segment_oracle as so
from cases import cases, golden_case, random_case, to_batch, to_chain_model, to_codes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from internals import (
    CandidateFinder,
    Candidates,
    ChainModel,
    LatticeModel,
    LatticePlan,
    Mask,
    NegativeLogLikelihood,
    Problem,
    PrunedProblem,
    pruning,
    train_level_zero,
)
from mask_cases import Fixed, of_mask
from refusals import refusals
from sklearn.exceptions import ConvergenceWarning

from sklearn_hocrf import Constraints, HighOrderCRF
from sklearn_hocrf.datasets import make_markov_sequences
from sklearn_hocrf.inspection import explain

SOME = settings(suppress_health_check=list(HealthCheck))


@pytest.fixture
def limit_states(monkeypatch):
    """Return a function that sets the number of states that each token keeps; None: as users have it."""

    def limit(n_states):
        if n_states is not None:
            monkeypatch.setattr(pruning, "most_states", lambda n_candidates: n_states)

    return limit


def draw_candidates(rng, codes, n_labels):
    """Return random candidates, the given labels among them."""
    allowed = rng.random((len(codes), n_labels)) < rng.choice([0.2, 0.6, 1.0], (len(codes), 1))
    allowed[np.arange(len(codes)), codes] = True
    return of_mask(Mask(allowed, np.zeros(len(codes), np.int8)))


def scores_of(case):
    """Return {labelling: score} of each sequence."""
    every = [so.scores(case.model, sequence) for sequence in case.sequences]
    return [{tuple(y for _, _, y in z): score for z, score in scores.items()} for scores in every]


# --- lattices ---------------------------------------------------------------------------------------------------------


@SOME
@given(cases(bias_only=True, min_length=1), st.integers(0, 10**6))
def test_values_are_those_of_enumeration(case, seed):
    model, batch = to_chain_model(case)
    codes = to_codes(case.labels)
    candidates = draw_candidates(np.random.default_rng(seed), codes, case.model.n_labels)
    weight = np.linspace(0.5, 2.0, len(batch))
    problem = PrunedProblem.of(Problem(ChainModel, model.layout, batch, codes, sequence_weight=weight), candidates)
    objective, w = NegativeLogLikelihood().bind(problem), model.weights
    value, _ = objective.value_gradient(w)
    lists = np.split(candidates.labels, candidates.starts[1:-1])
    expected = 0.0
    for s, (scores, gold) in enumerate(zip(scores_of(case), case.labels, strict=True)):
        own = [set(some.tolist()) for some in lists[batch.offsets[s] : batch.offsets[s + 1]]]
        inside = [score for z, score in scores.items() if all(map(set.__contains__, own, z))]
        expected += weight[s] * (so.log_sum_exp(inside) - scores[gold])
    assert value == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert objective.value(w) == pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("seed", "max_order"), [(0, 0), (1, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_larger_lattices_agree_with_masks(seed, max_order, forbidden):
    rng = np.random.default_rng(seed)
    lengths = [1, 40, 0, 3, 17, *rng.integers(1, 9, 30)]
    case = random_case(rng, 12, lengths, max_order, 60 if max_order else 0, 1.0, [(0,)] * 5, forbidden)
    whole, batch = to_chain_model(case)
    codes = whole.posterior(batch).decode()
    candidates = draw_candidates(rng, codes, 12)
    model, mask = LatticeModel(whole.layout, whole.weights, Fixed(candidates)), candidates.mask(12)
    over, every = model.posterior(batch), whole.posterior(batch, mask)
    wanted, got = every.expectations(), over.expectations()
    np.testing.assert_allclose(got.log_z, wanted.log_z, rtol=1e-11)
    np.testing.assert_allclose(got.counts, wanted.counts, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(over.entropy(), every.entropy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(over.decode(), every.decode())
    ours, theirs = over.best_labellings(20), every.best_labellings(20)
    np.testing.assert_allclose(ours.regret, theirs.regret, rtol=1e-8, atol=1e-10)
    patterns = [(1,), (2, 3), (0, 1, 2)]
    np.testing.assert_allclose(over.pattern_marginals(patterns), every.pattern_marginals(patterns), atol=1e-12)
    direction = np.where(np.isfinite(whole.weights), rng.normal(size=len(whole.weights)), 0)
    np.testing.assert_allclose(over.hessian_vector_product(direction), every.hessian_vector_product(direction))
    for n_jobs in 2, 3:
        again = model.posterior(batch, n_jobs=n_jobs).expectations()
        assert again.counts.tobytes() == got.counts.tobytes()
        assert again.log_z.tobytes() == got.log_z.tobytes()


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_what_scaling_cannot_represent_goes_through_logarithms(scale):
    _, case = golden_case("underflow")
    whole, batch = to_chain_model(case)
    weights = scale * whole.weights
    whole = type(whole)(whole.layout, weights)
    candidates = of_mask(Mask.free(batch.n_tokens, case.model.n_labels))
    over, every = LatticeModel(whole.layout, weights, Fixed(candidates)).posterior(batch), whole.posterior(batch)
    rounding = 1e-14 * np.abs(every.log_z()).max() + 1e-11
    np.testing.assert_allclose(over.log_z(), every.log_z(), rtol=1e-12)
    np.testing.assert_allclose(over.marginals(), every.marginals(), atol=rounding)
    np.testing.assert_allclose(over.expectations().counts, every.expectations().counts, rtol=1e-9, atol=rounding)
    np.testing.assert_allclose(over.entropy(), every.entropy(), rtol=1e-9, atol=rounding)
    patterns = [(0,), (1, 0), (0, 1, 1)]
    np.testing.assert_allclose(over.pattern_marginals(patterns), every.pattern_marginals(patterns), atol=rounding)


def paths(lattice, sequence):
    """Return the labellings of a sequence that a lattice holds, from its lists."""
    found = [((), 0)]
    for token in range(*lattice.offsets[sequence : sequence + 2]):
        steps = range(*lattice.steps[token : token + 2])
        found = [
            ((*labels, int(lattice.labels[lattice.candidate[lattice.target[step]]])), lattice.target[step])
            for labels, node in found
            for step in steps
            if lattice.source[step] == node
        ]
    return [labels for labels, _ in found]


@pytest.mark.parametrize("n_states", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_limit_of_states_leaves_out_labellings(seed, n_states):
    rng = np.random.default_rng(seed)
    case = random_case(rng, 3, [4, 1, 0, 5], 3, 12, 1.0, [(0,)] * 2)
    whole, batch = to_chain_model(case)
    codes = to_codes(case.labels)
    every = Mask(np.ones((batch.n_tokens, 3), bool), np.zeros(batch.n_tokens, np.int8))
    drawn = of_mask(every)._replace(scores=rng.normal(size=3 * batch.n_tokens))
    plan = LatticePlan(whole.layout, batch, drawn.with_labels(codes), n_states)
    assert plan.is_limited

    model, direction = LatticeModel(whole.layout, whole.weights), rng.normal(size=len(whole.weights))
    posterior, patterns = model.posterior_on(plan), [(0,), (1, 2), (0, 1, 2), (2, 2)]
    marginals, ends = posterior.marginals(), posterior.pattern_marginals(patterns)
    log_z, slope = posterior.log_z_and_slope(direction)
    entropy, drawn, best = posterior.entropy(), posterior.draw(50, 0)[0], posterior.best_labellings(3)
    other = to_chain_model(case)[0]
    along = type(other)(other.layout, direction)
    some = Mask(rng.random((batch.n_tokens, 3)) < 0.6, np.zeros(batch.n_tokens, np.int8))
    within = model.posterior_on(plan.masked(some, may_be_impossible=True)).log_z()
    for s, every in enumerate(scores_of(case)):
        left, own = paths(plan.lattice, s), slice(*batch.offsets[s : s + 2])
        assert case.labels[s] in left
        assert len(left) == len(set(left))
        n_nodes = np.diff(plan.lattice.nodes)[own]
        assert (n_nodes <= n_states + 1).all()
        scores = {labels: every[labels] for labels in left}
        assert log_z[s] == pytest.approx(so.log_sum_exp(scores.values()), rel=1e-12, abs=1e-12)
        p = {labels: math.exp(score - log_z[s]) for labels, score in scores.items()}
        assert entropy[s] == pytest.approx(-sum(v * math.log(v) for v in p.values()), abs=1e-12)
        assert {*map(tuple, drawn[own].T.tolist())} <= p.keys()
        ranked = sorted(scores.values(), reverse=True)[:3]
        np.testing.assert_allclose(best.score[s] - best.regret[: len(ranked), s], ranked, atol=1e-12)
        for t, row in enumerate(marginals[own]):
            np.testing.assert_allclose(row, [sum(v for z, v in p.items() if z[t] == y) for y in range(3)], atol=1e-12)
            wanted = [sum(v for z, v in p.items() if z[max(0, t + 1 - len(y)) : t + 1] == y) for y in patterns]
            np.testing.assert_allclose(ends[own][t], wanted, atol=1e-12)
        moved = {z: float(along.posterior(batch[[s]]).log_score(np.array(z, np.int32))[0]) for z in left}
        assert slope[s] == pytest.approx(sum(p[z] * moved[z] for z in left), abs=1e-10)
        for z in every:
            codes[own] = z
            assert posterior.log_score(codes)[s] == pytest.approx(scores.get(z, -np.inf))
        allowed = [score for z, score in scores.items() if some.allowed[own][np.arange(len(z)), list(z)].all()]
        assert within[s] == pytest.approx(so.log_sum_exp(allowed) if allowed else -np.inf)
    with pytest.raises(ValueError, match="this method needs all states"):
        posterior.hessian_vector_product(direction)


# --- candidates -------------------------------------------------------------------------------------------------------


def test_the_best_labels_are_found_and_ties_go_to_the_lowest():
    rng = np.random.default_rng(0)
    case = random_case(rng, 30, [3, 0, 9, 1], 0, 0, 1.0, [(0,)] * 4)
    model, batch = to_chain_model(case)
    weights = np.round(model.weights)  # ties
    scores = np.zeros((batch.n_tokens, 30)) + model.layout.pattern_coef(weights)
    scores += (model.layout.coef(weights)[:30] @ batch.tocsr().T).T.toarray()
    mask = Mask(rng.random(scores.shape) < 0.6, np.zeros(batch.n_tokens, np.int8))
    mask.allowed[0] = False
    mask.allowed[0, 7] = True
    for n_best in (1, 4, 30):
        for possible in (None, mask):
            found = CandidateFinder(model.layout, weights, n_best).find(batch, possible)
            for t, labels in enumerate(np.split(found.labels, found.starts[1:-1])):
                allowed = range(30) if possible is None else np.flatnonzero(mask.allowed[t]).tolist()
                wanted = sorted(sorted(allowed, key=lambda y: (-scores[t, y], y))[:n_best])
                assert labels.tolist() == wanted


def test_level_zero_learns_and_is_deterministic():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 40, 3000)
    codes = (words % 20).astype(np.int32)
    sequences = [[{int(w): 1.0} for w in part] for part in np.split(words, 300)]
    case = random_case(rng, 20, [1], 0, 0, 1.0, [(0,)] * 40)
    layout, batch = to_chain_model(case)[0].layout.of_order_zero(), to_batch(sequences, 40)
    level = train_level_zero(layout, batch, codes, np.ones(300), (2, 4, 0))
    again = train_level_zero(layout, batch, codes, np.ones(300), (2, 4, 0))
    assert level.weights.tobytes() == again.weights.tobytes()
    assert level.recall > 0.95
    assert level.finder().find(batch).contain(codes).mean() > 0.99


def test_random_state_orders_the_sequences_of_level_zero(data):
    def level_zero(random_state):
        crf = HighOrderCRF(1, pruning=3, max_iter=1, random_state=random_state)
        return crf.fit(*data[:2])._state.level_zero.weights.tobytes()

    with pytest.warns(ConvergenceWarning):
        found = [level_zero(state) for state in (None, None, 1, 1, 2, np.random.RandomState(2))]
    assert found[::2] == found[1::2]
    assert len(set(found)) == 3


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_level_zero_does_not_depend_on_the_units_of_features(scale):
    """One feature of large values, such as a year, must not keep the others from being learned."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 40, 3000)
    sequences = [
        [{int(w): 1.0, 40: scale * (2000 + t % 20)} for t, w in enumerate(part)] for part in words.reshape(300, 10)
    ]
    layout = to_chain_model(random_case(rng, 20, [1], 0, 0, 1.0, [(0,)] * 41))[0].layout.of_order_zero()
    codes = (words % 20).astype(np.int32)
    assert train_level_zero(layout, to_batch(sequences, 41), codes, np.ones(300), (2, 4, 0)).recall > 0.95


def test_candidates_contain_the_labels_that_are_put_in():
    candidates = Candidates.of_counts([2, 0, 1], np.array([1, 4, 3]))
    codes = np.array([2, 0, 3])
    assert candidates.contain(codes).tolist() == [False, False, True]
    more = candidates.with_labels(codes)
    assert (more.starts.tolist(), more.labels.tolist()) == ([0, 3, 4, 5], [1, 2, 4, 0, 3])
    assert more.slots(codes).tolist() == [1, 3, 4]
    assert np.flatnonzero(more.part(np.array([2, 0])).mask(5).allowed).tolist() == [3, 6, 7, 9]


# --- estimators -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    X, y = make_markov_sequences(60, n_labels=8, order=2, random_state=0)
    return X[:40], y[:40], X[40:], y[40:]


@pytest.fixture(scope="module")
def pruned(data):
    return HighOrderCRF(2, pruning=3).fit(*data[:2])


def test_no_pruning_with_as_many_labels_as_there_are(data):
    X, y, X_test, y_test = data
    whole, same = HighOrderCRF(2, tol=0.01).fit(X, y), HighOrderCRF(2, tol=0.01, pruning=8).fit(X, y)
    assert whole.pattern_coef_.tobytes() == same.pattern_coef_.tobytes()
    assert not hasattr(same, "pruning_recall_")
    with pytest.raises(AttributeError, match="keep all labels"):
        _ = whole.pruning_recall_


@pytest.mark.parametrize("max_order", [0, 1, 3])
def test_predictions_are_made_of_candidates(data, max_order, limit_states):
    X, y, X_test, y_test = data
    limit_states(100)
    crf = HighOrderCRF(max_order, pruning=2).fit(X, y)
    assert 0.0 <= crf.pruning_recall_ <= 1.0
    for marginals, labels in zip(crf.predict_marginals(X_test), crf.predict(X_test), strict=True):
        assert ((marginals > 0).sum(axis=1) <= 2).all()
        np.testing.assert_allclose(marginals.sum(axis=1), 1)
        assert (marginals[np.arange(len(labels)), np.searchsorted(crf.classes_, labels)] > 0).all()
    log_likelihood = crf.log_likelihood(X_test, y_test)
    for value, marginals, labels in zip(log_likelihood, crf.predict_marginals(X_test), y_test, strict=True):
        is_pruned = (marginals[np.arange(len(labels)), np.searchsorted(crf.classes_, labels)] == 0).any()
        assert (value == -np.inf) == is_pruned


@pytest.mark.slow
def test_explanations_compare_what_is_possible(data, limit_states):
    limit_states(100)
    crf = HighOrderCRF(2, pruning=3).fit(*data[:2])
    X_test = data[2][:4]
    for s, x in enumerate(X_test):
        for t in range(len(x)):
            found = explain(crf, X_test, s, t)
            labels = [list(found.labels), list(found.labels_against)]
            best, other = crf.log_likelihood([x, x], labels)
            assert found.log_odds_paths == pytest.approx(best - other)
            assert other > -np.inf
    limit_states(1)
    limited = HighOrderCRF(3, pruning=3).fit(*data[:2])
    with pytest.raises(ValueError, match="this method needs all states"):
        explain(limited, X_test, 0, 0)


@pytest.mark.parametrize("word", ["a", "b", "c"])
def test_explanations_of_lattices_meet_constraints_at_borders(word):
    """The best labels without the constraints leave only one labelling of these, or none."""
    X = [[["a"], ["b"], ["b"]], [["a"], ["b"]], [["c"]], [["c"], ["a"], ["b"]], [["b"]]]
    y = [["B-P", "I-P", "E-P"], ["B-P", "E-P"], ["O"], ["O", "B-P", "E-P"], ["S-P"]]
    crf = HighOrderCRF(constraints="bioes", pruning=2, random_state=0).fit(X, y)
    best, second = crf.predict_nbest([[[word]]], 3)[0]
    explanation = explain(crf, [[[word]]], 0, 0)
    assert explanation.labels_against == second.labels
    assert explanation.log_odds_paths == pytest.approx(best.score - second.score)


@pytest.mark.parametrize("max_order", [1, 3])
def test_what_a_limit_of_states_leaves_out_is_impossible(data, max_order, limit_states):
    X, y, X_test, _ = data
    limit_states(1)
    crf = HighOrderCRF(max_order, pruning=3).fit(X, y)
    short = [x[:2] for x in X_test[:4]]
    for x in short:
        every = [list(z) for z in itertools.product(crf.classes_.tolist(), repeat=2)]
        log_likelihood = crf.log_likelihood([x] * len(every), every)
        assert np.exp(log_likelihood).sum() == pytest.approx(1)
        first = np.array([z[0] for z in every])
        for label in crf.classes_.tolist():
            known = crf.log_likelihood([x], [[label, None]])[0]
            assert np.exp(known) == pytest.approx(np.exp(log_likelihood[first == label]).sum())


def test_known_labels_choose_among_what_they_allow(data, pruned):
    X_test, y_test = data[2:]
    known = [[None] * len(labels) for labels in y_test]
    for labels, true in zip(known, y_test, strict=True):
        labels[3], labels[5] = true[3], {0, 7}
    for labels, true in zip(pruned.predict(X_test, known=known), y_test, strict=True):
        assert labels[3] == true[3]
        assert labels[5] in (0, 7)
    marginals = pruned.predict_marginals(X_test, known=known)
    assert all(((row > 0).sum(axis=1)[[3, 5]] == [1, 2]).all() for row in marginals)
    every = pruned.log_likelihood(X_test, [[None] * len(labels) for labels in y_test])
    np.testing.assert_allclose(every, 0, atol=1e-12)
    some = pruned.log_likelihood(X_test, known)
    p = [row[3, labels[3]] for row, labels in zip(pruned.predict_marginals(X_test), y_test, strict=True)]
    assert (np.exp(some) <= np.array(p) + 1e-12).all()


def test_sequences_without_a_legal_path_get_more_candidates():
    """Labels a and b look alike, c never does; but only c may come between two others."""
    rng = np.random.default_rng(0)
    y = [["abcabcabc"[k] for k in range(start, start + 5)] for start in rng.integers(0, 3, 40)]
    X = [[[f"is {label}"] for label in labels] for labels in y]
    forbid = [(p, q) for p in "abc" for q in "abc" if q != "abca"["abc".index(p) + 1]]
    crf = HighOrderCRF(1, pruning=1, constraints=Constraints(forbid=forbid)).fit(X, y)
    assert crf.predict([[["is a"], ["is a"], ["is a"]]])[0] in (["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"])
    with pytest.raises(ValueError, match="no labelling agrees with 'known'"):
        crf.predict([[["is a"], ["is a"]]], known=[["a", "a"]])


def test_sparse_weights_and_tied_ones(data):
    X, y = data[:2]
    words = [[[f"{v:.1f}", f"t{v:.1f}"] for v in rows[:, 0]] for rows in X]  # two features that always come together
    sparse = HighOrderCRF(2, l1_reg=0.5, pruning=3).fit(words, y)
    assert sparse.n_parameters_ == np.count_nonzero(sparse.coef_.data) + np.count_nonzero(sparse.pattern_coef_)
    tied = HighOrderCRF(2, pruning=3, tol=1e-6).fit(words, y)
    assert tied.optimality_gap_ < 1e-3
    names = tied.feature_names_in_.tolist()
    left, right = ([names.index(f"{t}{name}") for name in names if name[0] != "t"] for t in ("", "t"))
    np.testing.assert_array_equal(tied.coef_.toarray()[:, left], tied.coef_.toarray()[:, right])


test_refusals = refusals(
    (lambda: HighOrderCRF(pruning=True).fit([[["w"]]], [["a"]]), "pruning must be an integer"),
)  # fmt: skip

"""Queries to models, with and without a mask, against enumeration: best labellings, samples, entropies and more."""

import math

import numpy as np
import pytest
import segment_oracle as so
from internals import LanePosterior, Mask, both, query
from mask_cases import all_families, as_segmentations, check_answers, feasible, with_weights
from refusals import refusals

from sklearn_hocrf import HighOrderCRF, HighOrderSemiCRF

SEEDS = [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 12))]


@all_families
@pytest.mark.parametrize("seed", SEEDS)
def test_answers_are_those_of_enumeration(questions, seed):
    model, batch, mask, possible = questions(seed)
    plan = model.posterior(batch).plan.masked(mask, may_be_impossible=True)
    for got, scores in zip(model.posterior_on(plan).log_z(), possible, strict=True):
        wanted = so.log_sum_exp(scores.values())
        assert got == wanted or abs(got - wanted) <= 1e-13 * max(1.0, abs(wanted))
    check_answers(*feasible(model, batch, mask, possible), [(0,), (1, 0), (0, 0), (0, 1, 0)])


@all_families
def test_impossible_sequences_are_named(questions):
    model, batch, mask, possible = next(q for q in map(questions, range(400)) if not all(q[3]))
    first = next(s for s, scores in enumerate(possible) if not scores)
    posterior = model.posterior(batch, mask)
    for ask in posterior.marginals, posterior.decode:
        with pytest.raises(ValueError, match=f"sequence {first}: the model forbids every labelling"):
            ask()


def test_conjunction():
    left = Mask(np.array([[True, True], [True, False]]), np.array([0, 1], np.int8))
    right = Mask(np.array([[True, False], [True, True]]), np.array([1, -1], np.int8))
    joined = both(left, right)
    assert joined.allowed.tolist() == [[True, False], [False, False]]
    assert joined.begins.tolist() == [1, 1]
    assert both(left, None) is left
    assert both(None, None) is None


def all_scores_equal(model):
    """Return the model with weights of 0."""
    return with_weights(model, np.where(np.isfinite(model.weights), 0.0, model.weights))


def check_best(model, batch, mask, possible, n_best):
    best = model.posterior(batch, mask).best_labellings(n_best)
    labelled = [model.labelling(batch.offsets, *pair) for pair in zip(best.codes, best.lengths, strict=True)]
    found = [as_segmentations(one, batch) for one in labelled]
    for s, scores in enumerate(possible):
        n_found = int(np.isfinite(best.regret[:, s]).sum())
        assert n_found == min(n_best, len(scores))
        labellings = [found[i][s] for i in range(n_found)]
        assert len(set(labellings)) == n_found
        got, wanted = [scores[z] for z in labellings], sorted(scores.values(), reverse=True)[:n_found]
        assert np.allclose(got, wanted, rtol=0, atol=1e-12 * max(1.0, abs(wanted[0])))
        assert np.allclose(
            best.score[s] - best.regret[:n_found, s], wanted, rtol=0, atol=1e-12 * max(1, abs(wanted[0]))
        )
    assert found[0] == as_segmentations(model.posterior(batch, mask).decode(), batch)


@all_families
@pytest.mark.parametrize("seed", SEEDS)
def test_best_labellings(questions, seed):
    model, batch, mask, possible = feasible(*questions(seed))
    for n_best in (1, 4, 50):
        check_best(model, batch, mask, possible, n_best)
    flat = all_scores_equal(model)
    ties = [dict.fromkeys(scores, 0.0) for scores in possible]
    check_best(flat, batch, mask, ties, 7)


@all_families
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strength", [1.0, pytest.param(20.0, marks=pytest.mark.slow)])
def test_entropy(questions, seed, strength):
    model, batch, mask, possible = feasible(*questions(seed))
    model = with_weights(model, strength * model.weights)
    got = model.posterior(batch, mask).entropy()
    for entropy, scores in zip(got, possible, strict=True):
        wanted = exact_entropy([strength * s for s in scores.values()])
        assert entropy >= 0.0
        assert abs(entropy - wanted) <= 1e-10 * wanted + 1e-15


def exact_entropy(scores):
    """Return the entropy from scores, without cancellation."""
    top = max(scores)
    others = sorted(scores)[:-1]
    rest = math.fsum(math.exp(s - top) for s in others)
    return math.log1p(rest) + math.fsum(math.exp(s - top) * (top - s) for s in others) / (1.0 + rest)


@all_families
@pytest.mark.parametrize("strength", [1.0, 20.0])
@pytest.mark.parametrize("seed", range(5))
def test_samples(questions, seed, strength):
    model, batch, mask, possible = feasible(*questions(seed))
    model = with_weights(model, strength * model.weights)
    possible = [{z: strength * s for z, s in scores.items()} for scores in possible]
    n_drawn = 2000
    codes, lengths = model.posterior(batch, mask).draw(n_drawn, seed)
    for s, scores in enumerate(possible):
        own, sequence = slice(*batch.offsets[s : s + 2].tolist()), batch[[s]]
        drawn = np.concatenate([codes[own], lengths[own]]).T
        distinct, times = np.unique(drawn, axis=0, return_counts=True)
        pairs = np.split(distinct, [sequence.n_tokens], axis=1)
        labelled = [model.labelling(sequence.offsets, *pair) for pair in zip(*pairs, strict=True)]
        found = [as_segmentations(one, sequence)[0] for one in labelled]
        counts = dict(zip(found, times.tolist(), strict=True))
        assert len(counts) == len(found)
        assert set(counts) <= set(scores)
        total = so.log_sum_exp(scores.values())
        expected = {z: n_drawn * math.exp(score - total) for z, score in scores.items()}
        rare = [z for z, count in expected.items() if count < 20]
        pooled = [(counts.get(z, 0), count) for z, count in expected.items() if count >= 20]
        pooled.append((sum(counts.get(z, 0) for z in rare), sum(expected[z] for z in rare)))
        for got, wanted in pooled:
            error = math.sqrt(max(wanted * (1 - wanted / n_drawn), 1.0))
            assert abs(got - wanted) <= 5 * error


# ----------------------------------------------------------------------------------------------------------- estimators

X = [[["the"], ["old"], ["man"]], [], [["the"], ["man"]]]
TAGS = [["O", "B-PER", "I-PER"], [], ["O", "B-PER"]]
SEGMENTS = [[(0, 1, "O"), (1, 3, "PER")], [], [(0, 1, "O"), (1, 2, "PER")]]


def fitted_models():
    full = [0, 2]

    def part(y):
        return [y[i] for i in full]

    given = part(X)
    yield HighOrderCRF(max_order=2).fit(given, part(TAGS))
    yield HighOrderSemiCRF(scheme="bio").fit(given, part(TAGS))
    yield HighOrderSemiCRF(scheme="runs").fit(given, [["a", "b", "b"], ["a", "b"]])
    yield HighOrderSemiCRF(scheme="segments").fit(given, part(SEGMENTS))


MODELS = pytest.mark.parametrize("number", range(4))


def model_of(number):
    return list(fitted_models())[number]


def test_accepted_candidates_only():
    crf = model_of(0)
    every = crf.predict_nbest(X, 27)
    wanted = [c for c in every[0] if c.labels.count("B-PER") == 2]
    accepted = crf.predict_nbest(X[:1], 3, accept=lambda labels: labels.count("B-PER") == 2)[0]
    assert accepted == wanted[:3]
    with pytest.warns(UserWarning, match="sequence 0: only 1 of its 4 best labellings are accepted, fewer than 2"):
        found = crf.predict_nbest(X[:1], 2, accept=lambda labels: labels == ["O", "B-PER", "I-PER"], max_candidates=4)
    assert [c.labels for c in found[0]] == [["O", "B-PER", "I-PER"]]
    # all 27 are looked at: nothing to warn of
    assert crf.predict_nbest(X[:1], 5, accept=lambda labels: False)[0] == []


@MODELS
def test_candidates_are_found_in_portions(number, monkeypatch):
    """What is looked for at a time does not grow with the number of sequences, and is the same for all portions."""
    crf, many = model_of(number), [X[i % 3] for i in range(14)]
    whole = crf.predict_nbest(many, 4)
    asked = []
    original = LanePosterior.best_labellings

    def best_labellings(self, n_best):
        asked.append(self.batch.n_tokens * n_best)
        return original(self, n_best)

    monkeypatch.setattr(LanePosterior, "best_labellings", best_labellings)
    monkeypatch.setattr(query, "_MOST_LABELS", 30)
    assert [[c[:2] for c in found] for found in crf.predict_nbest(many, 4)] == [
        [c[:2] for c in found] for found in whole
    ]
    assert len(asked) > 2
    assert max(asked) <= 30 + 3 * 4


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_all_scores_equal_in_linear_time():
    """Ten labellings of 1,000 tokens that all have the same score."""
    crf = HighOrderCRF(max_order=1, max_iter=0).fit([[["x"]] * 4], [["a", "b", "a", "c"]])
    (candidates,) = crf.predict_nbest([[["x"]] * 1000], 10)
    assert len({tuple(c.labels) for c in candidates}) == 10
    assert {c.score for c in candidates} == {0.0}


# --------------------------------------------------------------------------------------------------- other programs


def k_list_viterbi(emissions, transitions, k):
    """Return the k best (score, labels): a list of k for each label at each position."""
    best = [[(score, (label,))] for label, score in enumerate(emissions[0])]
    for row in emissions[1:]:
        best = [
            sorted(
                ((s + transitions[y[-1], label] + score, (*y, label)) for column in best for s, y in column),
                key=lambda candidate: -candidate[0],
            )[:k]
            for label, score in enumerate(row)
        ]
    return sorted((c for column in best for c in column), key=lambda candidate: -candidate[0])[:k]


def test_beside_lists_of_k():
    """The best labellings of longer sequences are those of Viterbi with lists."""
    rng = np.random.default_rng(0)
    X = [[[f"w{i}"] for i in rng.integers(0, 8, 40)] for _ in range(20)]
    y = [[f"y{i}" for i in rng.integers(0, 5, 40)] for _ in range(20)]
    crf = HighOrderCRF(1, patterns="all", all_pairs=True, sigma_reg=10.0, tol=1e-2).fit(X, y)
    columns = {name: i for i, name in enumerate(crf.feature_names_in_.tolist())}
    coef, own = crf.coef_.toarray(), crf.pattern_coef_
    code = {label: i for i, label in enumerate(crf.classes_.tolist())}
    transitions = np.zeros((5, 5))
    for pattern, weight in zip(crf.patterns_[5:], own[5:], strict=True):
        transitions[code[pattern[0]], code[pattern[1]]] = weight
    for x, candidates in zip(X[:3], crf.predict_nbest(X[:3], 25), strict=True):
        emissions = np.array([coef[:5, columns[token[0]]] + own[:5] for token in x])
        wanted = k_list_viterbi(emissions, transitions, 25)
        assert [c.score for c in candidates] == pytest.approx([score for score, _ in wanted], rel=1e-12)
        labellings = [[code[label] for label in c.labels] for c in candidates]
        own_scores = [
            emissions[np.arange(40), z].sum() + transitions[z[:-1], z[1:]].sum() for z in map(np.array, labellings)
        ]
        assert own_scores == pytest.approx([c.score for c in candidates], rel=1e-12)
        assert len(set(map(tuple, labellings))) == 25


test_refusals = refusals(
    (lambda: model_of(0).predict_nbest(X, n=0), "n must be"),
    (lambda: model_of(0).predict_nbest(X, n=2.5), "n must be"),
    (lambda: model_of(0).predict_nbest(X, accept="x"), "accept must be"),
    (lambda: model_of(0).sample(X, n_samples=0), "n_samples must be"),
    (lambda: model_of(0).entropy(X, level="x"), "level must be"),
)  # fmt: skip

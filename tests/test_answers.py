"""The best labellings, samples and entropies, against enumeration."""

import math

import numpy as np
import oracle
import pytest
from mask_cases import chain_questions, feasible, segment_questions
from segment_cases import from_segments

SEEDS = range(40)
FAMILIES = pytest.mark.parametrize("questions", [chain_questions, segment_questions])


def labellings_of(model, batch, codes, lengths):
    """Return labellings of all sequences as the enumeration has them."""
    labelling = model.labelling(batch, codes, lengths)
    if isinstance(labelling, np.ndarray):
        return [tuple(part.tolist()) for part in np.split(labelling, batch.offsets[1:-1])]
    return from_segments(labelling, batch.offsets)


def all_scores_equal(model):
    """Return the model with weights of 0."""
    return type(model)(model.layout, np.where(np.isfinite(model.weights), 0.0, model.weights))


def check_best(model, batch, mask, possible, n_best):
    best = model.best_labellings(batch, n_best, mask=mask)
    first = labellings_of(model, batch, best.codes[0], best.lengths[0])
    found = [labellings_of(model, batch, *pair) for pair in zip(best.codes, best.lengths, strict=True)]
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
    assert first == labellings_of_decoded(model, batch, mask)


def labellings_of_decoded(model, batch, mask):
    decoded = model.decode(batch, mask=mask)
    if isinstance(decoded, np.ndarray):
        return [tuple(part.tolist()) for part in np.split(decoded, batch.offsets[1:-1])]
    return from_segments(decoded, batch.offsets)


@FAMILIES
@pytest.mark.parametrize("seed", SEEDS)
def test_best_labellings(questions, seed):
    model, batch, mask, possible = feasible(*questions(seed))
    if not len(batch):
        return
    for n_best in (1, 4, 50):
        check_best(model, batch, mask, possible, n_best)
    flat = all_scores_equal(model)
    ties = [dict.fromkeys(scores, 0.0) for scores in possible]
    check_best(flat, batch, mask, ties, 7)


@FAMILIES
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strength", [1.0, 20.0])
def test_entropy(questions, seed, strength):
    model, batch, mask, possible = feasible(*questions(seed))
    if not len(batch):
        return
    model = type(model)(model.layout, strength * model.weights)
    got = model.entropy(batch, mask=mask)
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


@FAMILIES
@pytest.mark.parametrize("strength", [1.0, 20.0])
@pytest.mark.parametrize("seed", range(25))
def test_samples(questions, seed, strength):
    model, batch, mask, possible = feasible(*questions(seed))
    if not len(batch):
        return
    model = type(model)(model.layout, strength * model.weights)
    possible = [{z: strength * s for z, s in scores.items()} for scores in possible]
    n_drawn = 2000
    codes, lengths = model.draw(batch, n_drawn, seed, mask=mask)
    drawn = [labellings_of(model, batch, *pair) for pair in zip(codes, lengths, strict=True)]
    for s, scores in enumerate(possible):
        counts: dict = {}
        for labellings in drawn:
            counts[labellings[s]] = counts.get(labellings[s], 0) + 1
        assert set(counts) <= set(scores)
        total = oracle.log_sum_exp(scores.values())
        expected = {z: n_drawn * math.exp(score - total) for z, score in scores.items()}
        rare = [z for z, count in expected.items() if count < 20]
        pooled = [(counts.get(z, 0), count) for z, count in expected.items() if count >= 20]
        pooled.append((sum(counts.get(z, 0) for z in rare), sum(expected[z] for z in rare)))
        for got, wanted in pooled:
            error = math.sqrt(max(wanted * (1 - wanted / n_drawn), 1.0))
            assert abs(got - wanted) <= 5 * error


@FAMILIES
def test_threads_do_not_change_bits(questions):
    model, batch, mask, _ = feasible(*questions(3))
    one, two = (model.best_labellings(batch, 5, n_jobs=n, mask=mask) for n in (1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    one, two = (model.draw(batch, 5, 7, n_jobs=n, mask=mask) for n in (1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert np.array_equal(*(model.entropy(batch, n_jobs=n, mask=mask) for n in (1, 2)))

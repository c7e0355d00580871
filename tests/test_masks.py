"""Questions to models given a mask, against enumeration of the labellings that the mask lets through."""

import math

import numpy as np
import oracle
import pytest
from internals import MarginalPass, Mask, both
from mask_cases import chain_questions, close, feasible, segment_questions
from segment_cases import from_segments

SEEDS = range(12)


def check_log_partition(model, batch, mask, possible):
    plan = model.given(batch).plan.masked(mask, may_be_impossible=True)
    for got, scores in zip(model.on(plan).log_z(), possible, strict=True):
        wanted = oracle.log_sum_exp(scores.values())
        assert got == wanted or abs(got - wanted) <= 1e-13 * max(1.0, abs(wanted))


@pytest.mark.parametrize("seed", SEEDS)
def test_chain(seed):
    model, batch, mask, possible = chain_questions(seed)
    check_log_partition(model, batch, mask, possible)
    model, batch, mask, possible = feasible(model, batch, mask, possible)
    n_labels, history = mask.allowed.shape[1], model.layout.patterns.history
    patterns = [(0,), (1, 0), (0, 0), (0, 1, 0)]
    marginals, ends = model.given(batch, mask).marginals(), model.given(batch, mask).pattern_marginals(patterns)
    best = model.given(batch, mask).decode()
    for first, scores in zip(batch.offsets.tolist(), possible, strict=False):
        total, length = oracle.log_sum_exp(scores.values()), len(next(iter(scores)))
        wanted, wanted_ends = np.zeros((length, n_labels)), np.zeros((length, len(patterns)))
        for labels, score in scores.items():
            for t, y in enumerate(labels):
                wanted[t, y] += math.exp(score - total)
                for i, pattern in enumerate(patterns):
                    wanted_ends[t, i] += math.exp(score - total) * oracle.occurs(pattern, labels, t, history)
        assert close(marginals[first : first + length], wanted)
        assert close(ends[first : first + length], wanted_ends)
        assert scores[tuple(best[first : first + length].tolist())] >= max(scores.values()) - 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_segments(seed):
    model, batch, mask, possible = segment_questions(seed)
    check_log_partition(model, batch, mask, possible)
    model, batch, mask, possible = feasible(model, batch, mask, possible)
    n_labels = mask.allowed.shape[1]
    marginals = model.given(batch, mask).marginals()
    table, probability = model.given(batch, mask).segment_marginals(0.0)
    listed = {
        key: p for key, p in zip(zip(table.start, table.stop, table.codes, strict=True), probability, strict=True)
    }
    best = from_segments(model.given(batch, mask).decode(), batch.offsets)
    for first, scores, decoded in zip(batch.offsets.tolist(), possible, best, strict=False):
        total, length = oracle.log_sum_exp(scores.values()), sum(v - u for u, v, _ in next(iter(scores)))
        wanted, wanted_segments = np.zeros((length, n_labels)), {}
        for segments, score in scores.items():
            for u, v, y in segments:
                wanted[u:v, y] += math.exp(score - total)
                key = first + u, first + v, y
                wanted_segments[key] = wanted_segments.get(key, 0.0) + math.exp(score - total)
        assert close(marginals[first : first + length], wanted)
        for key in [key for key in listed if first <= key[0] < first + length]:
            assert close(listed[key], wanted_segments.get(key, 0.0))
        assert scores[tuple(decoded)] >= max(scores.values()) - 1e-9


@pytest.mark.parametrize("questions", [chain_questions, segment_questions])
def test_scaled_passes_take_masks(questions, monkeypatch):
    """A mask is no reason to go to log space."""
    redone = []

    def forward(self, task, original=MarginalPass.forward):
        alive, checkpoints = original(self, task)
        redone.extend(task.sequences[(task.sequences >= 0) & ~alive])
        return alive, checkpoints

    monkeypatch.setattr(MarginalPass, "forward", forward)
    n_sequences = 0
    for seed in range(10):
        model, batch, mask, _ = feasible(*questions(seed))
        model.given(batch, mask).marginals()
        n_sequences += len(batch)
    assert n_sequences > 20
    assert not redone


@pytest.mark.parametrize("questions", [chain_questions, segment_questions])
def test_threads_do_not_change_bits(questions):
    model, batch, mask, _ = feasible(*questions(3))
    assert np.array_equal(model.given(batch, mask).marginals(), model.given(batch, mask, n_jobs=2).marginals())


def test_impossible_sequences_are_named():
    model, batch, mask, possible = next(q for q in map(chain_questions, range(40)) if not all(q[3]))
    first = next(s for s, scores in enumerate(possible) if not scores)
    with pytest.raises(ValueError, match=f"sequence {first}: the model forbids every labelling"):
        model.given(batch, mask).marginals()
    with pytest.raises(ValueError, match=f"sequence {first}: the model forbids every labelling"):
        model.given(batch, mask).decode()


def test_conjunction():
    left = Mask(np.array([[True, True], [True, False]]), np.array([0, 1], np.int8))
    right = Mask(np.array([[True, False], [True, True]]), np.array([1, -1], np.int8))
    joined = both(left, right)
    assert joined.allowed.tolist() == [[True, False], [False, False]]
    assert joined.begins.tolist() == [1, 1]
    assert both(left, None) is left
    assert both(None, None) is None

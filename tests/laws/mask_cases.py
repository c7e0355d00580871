"""Small models of all families, their data and masks, with all labellings that a mask allows, by enumeration."""

import math
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
import segment_oracle as so
from cases import random_case, to_chain_model
from internals import BAG, BEGIN, Candidates, LatticeModel, LengthBlock, Mask, Segments
from segment_cases import from_segments, has_repeat, random_segment_case, to_segment_model, token_block


def draw_chain(rng, n_sequences, is_lattice=False, **options):
    options["history"] = "tokens" if is_lattice else str(rng.choice(["tokens", "segments"]))
    n_labels, max_order = int(rng.integers(2, 5)), int(rng.integers(0, 5))
    lengths = rng.integers(0, 6 if n_labels < 4 else 5, n_sequences).tolist()
    scale, orders = (
        float(rng.choice([1.0, 5.0])),
        [(0,), (0, 1)] if max_order and rng.random() < 0.5 and not is_lattice else [(0,)],
    )
    return random_case(rng, n_labels, lengths, max_order, 6 if max_order else 0, scale, orders, **options)


def draw_segments(rng, n_sequences, **options):
    n_labels, repeats = int(rng.integers(2, 4)), bool(rng.random() < 0.7)
    blocks = (token_block(BAG, [0]), token_block(BEGIN, [1]), LengthBlock("gamma", 0)) if rng.random() < 0.5 else None
    patterns = {tuple(rng.integers(0, n_labels, rng.integers(2, 5)).tolist()) for _ in range(rng.integers(0, 7))}
    longest = rng.choice([1, 2, 3, math.inf] if repeats else [2, 3, math.inf], n_labels).tolist()
    options |= {"longest": longest, "repeats": repeats, "scale": float(rng.choice([1.0, 5.0]))}
    options["shortest"] = np.minimum(rng.integers(1, 3, n_labels), longest).astype(int) if rng.random() < 0.6 else ()
    options["patterns"] = [z for z in sorted(patterns) if repeats or not has_repeat(z)]
    orders = ((0, 1),) if rng.random() < 0.5 else ((0,),)
    return random_segment_case(rng, rng.integers(0, 6, n_sequences).tolist(), blocks, orders, **options)


class Fixed:
    """A finder of given candidates, or of all labels, by their number."""

    n_candidates, n_states = 1, None

    def __init__(self, candidates):
        self.candidates = candidates

    def find(self, batch, mask=None, n_best=None):
        found = self.candidates
        if isinstance(found, int):
            found = of_mask(Mask.free(batch.n_tokens, found))
        return found if mask is None else found.allowed_by(mask)


def of_mask(mask):
    """Return the labels that a mask allows as candidates."""
    token, label = np.nonzero(mask.allowed)
    return Candidates.of_counts(np.bincount(token, minlength=len(mask.allowed)), label)


def draw_lattice(rng, n_sequences, **options):
    return draw_chain(rng, n_sequences, is_lattice=True, **options)


def to_lattice_model(case, **options):
    """Return the case as (LatticeModel, SequenceBatch): of all labels."""
    model, batch = to_chain_model(case, **options)
    return LatticeModel(model.layout, model.weights, Fixed(case.model.n_labels)), batch


def with_weights(model, weights):
    """Return the model with other weights."""
    finder = {"finder": model.finder} if isinstance(model, LatticeModel) else {}
    return type(model)(model.layout, weights, **finder)


FAMILIES = {
    "chain": (draw_chain, to_chain_model),
    "lattice": (draw_lattice, to_lattice_model),
    "segments": (draw_segments, to_segment_model),
}


@cache
def masked(family, seed):
    """Return a model, its batch, a mask, and {segmentation: score} of what is possible in each sequence."""
    rng, (draw, to_model) = np.random.default_rng(seed), FAMILIES[family]
    case = draw(rng, 5, forbidden=0.2)
    model, batch = to_model(case)
    # about every third token is free, and each token is allowed some label
    allowed = rng.random((batch.n_tokens, case.model.n_labels)) < rng.choice([0.3, 0.7, 1.0], (batch.n_tokens, 1))
    allowed[np.arange(batch.n_tokens), rng.integers(0, case.model.n_labels, batch.n_tokens)] = True
    mask = Mask(allowed, rng.choice([-1, 0, 0, 0, 1], batch.n_tokens).astype(np.int8))
    mask.begins[batch.offsets[:-1][batch.lengths > 0]] = rng.choice([0, 1]) if family == "segments" else 0
    begins = mask.begins if family == "segments" else np.zeros_like(mask.begins)  # which chains do not read
    possible = [
        {
            z: s
            for z, s in so.scores(case.model, data).items()
            if s > -math.inf and is_let_through(allowed, begins, z, first)
        }
        for first, data in zip(batch.offsets[:-1].tolist(), case.sequences, strict=True)
    ]
    return model, batch, mask, possible


def is_let_through(allowed, begins, segmentation, first):
    """Say whether a mask lets a segmentation through; its sequence begins with token ``first``."""
    starts = {first + u for u, _, _ in segmentation}
    has_labels = all(allowed[first + u : first + v, y].all() for u, v, y in segmentation)
    tokens = range(first, first + (segmentation[-1][1] if segmentation else 0))
    return has_labels and all((t in starts) == (begins[t] > 0) for t in tokens if begins[t])


segment_questions = partial(masked, "segments")
all_families = pytest.mark.parametrize("questions", [partial(masked, family) for family in FAMILIES], ids=FAMILIES)


def feasible(model, batch, mask, possible):
    """Return the same questions about the sequences that have any possible labelling."""
    kept = np.array([s for s, scores in enumerate(possible) if scores], dtype=np.int64)
    tokens = np.concatenate([np.arange(batch.offsets[s], batch.offsets[s + 1]) for s in kept] or [[]]).astype(int)
    return model, batch[kept], mask.part(tokens), [possible[s] for s in kept]


def close(got, wanted):
    """Say whether probabilities agree: those above 1e-12 to 1e-10 of their size."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    return np.all(np.abs(got - wanted) <= 1e-10 * wanted + 1e-15)


def as_segmentations(labelled, batch):
    """Return label codes, or Segments, as one segmentation per sequence."""
    if isinstance(labelled, Segments):
        return from_segments(labelled, batch.offsets)
    return [so.tokenwise(labelled[a:b].tolist()) for a, b in pairwise(batch.offsets.tolist())]


def check_answers(model, batch, mask, possible, patterns):
    """Compare marginals, ends of patterns and the best labellings with enumeration."""
    n_labels, history = model.layout.patterns.n_labels, getattr(model.layout.patterns, "history", "tokens")
    posterior, wanted, wanted_ends = model.posterior(batch, mask), [], []
    best = as_segmentations(posterior.decode(), batch)
    for length, scores, decoded in zip(batch.lengths.tolist(), possible, best, strict=True):
        total = so.log_sum_exp(scores.values())
        distribution = {segmentation: math.exp(score - total) for segmentation, score in scores.items()}
        wanted += so.token_marginals(distribution, n_labels, length)
        wanted_ends += so.pattern_marginals(distribution, length, patterns, history)
        assert scores[decoded] >= max(scores.values()) - 1e-9
    assert close(posterior.marginals(), np.reshape(wanted, (batch.n_tokens, n_labels)))
    assert close(posterior.pattern_marginals(patterns), np.reshape(wanted_ends, (batch.n_tokens, len(patterns))))

"""Small models, their data and masks, with all labellings that a mask lets through, by enumeration."""

import math

import numpy as np
import oracle
import segment_oracle as so
from cases import random_case, to_chain_model
from internals import BAG, BEGIN, LengthBlock, Mask
from segment_cases import has_repeat, random_segment_case, to_segment_model, token_block


def draw_mask(rng, n_tokens, n_labels):
    """Draw a mask; about every third token is free, and each token is allowed some label."""
    allowed = rng.random((n_tokens, n_labels)) < rng.choice([0.3, 0.7, 1.0], (n_tokens, 1))
    allowed[np.arange(n_tokens), rng.integers(0, n_labels, n_tokens)] = True
    return Mask(allowed, rng.choice([-1, 0, 0, 0, 1], n_tokens).astype(np.int8))


def is_let_through(mask, segmentation, first):
    """Say whether a mask lets a segmentation through; its sequence begins with token ``first``."""
    starts = {u for u, _, _ in segmentation}
    labels = all(mask.allowed[first + t, y] for u, v, y in segmentation for t in range(u, v))
    n_tokens = segmentation[-1][1] if segmentation else 0
    return labels and all(
        (t in starts) == (mask.begins[first + t] > 0) for t in range(n_tokens) if mask.begins[first + t]
    )


def as_segments(labels):
    return tuple((t, t + 1, y) for t, y in enumerate(labels))


def close(got, wanted):
    """Say whether probabilities agree: those above 1e-12 to 1e-10 of their size."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    return np.all(np.abs(got - wanted) <= 1e-10 * wanted + 1e-15)


def chain_questions(seed):
    """Return a model, its batch, a mask, and {labelling: score} of what is possible in each sequence."""
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(2, 5))
    lengths = rng.integers(0, 6 if n_labels < 4 else 5, 5).tolist()
    max_order = int(rng.integers(0, 5))
    scale = float(rng.choice([1.0, 5.0]))
    orders = [(0,), (0, 1)] if max_order and rng.random() < 0.5 else [(0,)]
    history = ("tokens", "segments")[seed % 2]
    n_patterns = 6 if max_order else 0
    case = random_case(rng, n_labels, lengths, max_order, n_patterns, scale, orders, 0.2, history)
    model, batch = to_chain_model(case)
    mask = draw_mask(rng, batch.n_tokens, n_labels)
    mask.begins[batch.offsets[:-1][batch.lengths > 0]] = 0
    possible = []
    for first, rows in zip(batch.offsets.tolist(), case.sequences, strict=False):
        scores = {z: oracle.score(case.model, rows, z) for z in oracle.labellings(n_labels, len(rows))}
        free = mask._replace(begins=np.zeros_like(mask.begins))
        possible.append(
            {z: s for z, s in scores.items() if s > -math.inf and is_let_through(free, as_segments(z), first)}
        )
    return model, batch, mask, possible


def segment_questions(seed):
    """The same for segments; keys are segmentations."""
    rng = np.random.default_rng(seed)
    n_labels, repeats = int(rng.integers(2, 4)), bool(rng.random() < 0.7)
    blocks = None
    if rng.random() < 0.5:
        blocks = (token_block(BAG, [0]), token_block(BEGIN, [1]), LengthBlock("gamma", 0))
    patterns = {tuple(rng.integers(0, n_labels, rng.integers(2, 5)).tolist()) for _ in range(rng.integers(0, 7))}
    patterns = [z for z in sorted(patterns) if repeats or not has_repeat(z)]
    case = random_segment_case(
        rng,
        rng.integers(0, 6, 4).tolist(),
        blocks,
        ((0, 1),) if rng.random() < 0.5 else ((0,),),
        longest=rng.choice([1, 2, 3, math.inf] if repeats else [2, 3, math.inf], n_labels).tolist(),
        repeats=repeats,
        patterns=patterns,
        scale=float(rng.choice([1.0, 5.0])),
        forbidden=0.2,
    )
    model, batch = to_segment_model(case)
    mask = draw_mask(rng, batch.n_tokens, case.model.n_labels)
    mask.begins[batch.offsets[:-1][batch.lengths > 0]] = rng.choice([0, 1])
    possible = []
    for first, sequence in zip(batch.offsets.tolist(), case.sequences, strict=False):
        scores = so.scores(case.model, sequence)
        possible.append({z: s for z, s in scores.items() if s > -math.inf and is_let_through(mask, z, first)})
    return model, batch, mask, possible


def feasible(model, batch, mask, possible):
    """Return the same questions about the sequences that have any possible labelling."""
    kept = np.array([s for s, scores in enumerate(possible) if scores], dtype=np.int64)
    tokens = np.concatenate([np.arange(batch.offsets[s], batch.offsets[s + 1]) for s in kept] or [[]]).astype(int)
    return model, batch[kept], mask.part(tokens), [possible[s] for s in kept]

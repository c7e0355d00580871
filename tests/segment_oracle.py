"""High-order semi-CRFs by enumeration: so slow and plain that it is obviously right.

Nothing here comes from sklearn_hocrf. A segmentation is a tuple of segments ``(u, v, y)``, tokens u .. v - 1 with label
y, that tile the sequence. A model is six plain things, a sequence is its length and the values of its features:

    n_labels : int                              labels are 0 .. n_labels - 1
    longest  : (length, ...)                    longest segment of each label; math.inf where there is no limit
    repeats  : bool                             whether neighbours may have equal labels
    patterns : {pattern: weight}                pattern = tuple of labels of neighbouring segments, the newest last
    features : {(feature, pattern): weight}     counts value-of-feature times, for each segment that ends the pattern
    shortest : (length, ...)                    shortest segment of each label inside a sequence; () for no limits
    length   : int                              tokens
    values   : {(feature, u, v): value}         zeros left out; or a function of feature, u and v

A weight of -inf forbids its pattern. Only ``dynamic_program``, which answers for sequences too long to enumerate, uses
numpy; it is tested against enumeration.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np


class Model(NamedTuple):
    """A high-order semi-CRF in plain dicts."""

    n_labels: int
    longest: tuple
    repeats: bool
    patterns: dict
    features: dict
    shortest: tuple = ()
    history: str = "tokens"


class Sequence(NamedTuple):
    """A sequence of tokens, as far as features know it."""

    length: int
    values: Any

    def value(self, feature, u, v):
        """Return the value of a feature for the segment [u, v)."""
        return self.values(feature, u, v) if callable(self.values) else self.values.get((feature, u, v), 0.0)


def segmentations(model, length, start=0, before=None):
    """Yield every allowed segmentation of tokens ``start .. length - 1`` after a segment of label ``before``."""
    if start == length:
        yield ()
    for y in range(model.n_labels):
        if y == before and not model.repeats:
            continue
        for v in range(start + 1, length + 1):
            if v - start <= model.longest[y] and not is_short(model, length, start, v, y):
                for rest in segmentations(model, length, v, y):
                    yield ((start, v, y), *rest)


def is_short(model, length, u, v, y):
    """Say whether a segment has too few tokens: not if it begins or ends the sequence."""
    return bool(model.shortest) and v - u < model.shortest[y] and u > 0 and v < length


def is_allowed(model, length, segmentation):
    """Say whether a segmentation tiles the sequence and keeps the lengths and the rule of repeats."""
    borders = [0, *(v for _, v, _ in segmentation)]
    labels = [y for _, _, y in segmentation]
    return (
        borders == [*(u for u, _, _ in segmentation), length]
        and all(0 < v - u <= model.longest[y] for u, v, y in segmentation)
        and not any(is_short(model, length, u, v, y) for u, v, y in segmentation)
        and (model.repeats or all(a != b for a, b in zip(labels, labels[1:], strict=False)))
    )


def patterns_ending(segmentation, i, history="tokens"):
    """Return the patterns that end with segment number i: its label, the last two labels, the last three, ...

    If segments are tokens, ``history`` may be that of runs of equal labels, as in ``oracle``.
    """
    labels = tuple(y for _, _, y in segmentation[: i + 1])
    if history == "segments":
        labels = labels[-2:] if labels[-1:] == labels[-2:-1] else tuple(y for y, _ in itertools.groupby(labels))
    return [labels[start:] for start in range(len(labels))]


def by_pattern(model):
    """Return {pattern: [(feature, weight), ...]}."""
    pairs_of_pattern = {}
    for (f, z), weight in model.features.items():
        pairs_of_pattern.setdefault(z, []).append((f, weight))
    return pairs_of_pattern


def score(model, sequence, segmentation, features=None):
    """Return the log-potential of a segmentation: all weights that are active in it; -inf if it is forbidden."""
    if not is_allowed(model, sequence.length, segmentation):
        return -math.inf
    features = by_pattern(model) if features is None else features
    terms = []
    for i, (u, v, _) in enumerate(segmentation):
        for z in patterns_ending(segmentation, i, model.history):
            terms.append(model.patterns.get(z, 0.0))
            terms += [weight * sequence.value(f, u, v) for f, weight in features.get(z, ())]
    return -math.inf if -math.inf in terms else math.fsum(terms)


def log_sum_exp(scores):
    """Return log(sum(exp(scores))); -inf counts as nothing, and nothing at all gives -inf."""
    scores = list(scores)
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(math.fsum(math.exp(s - top) for s in scores))


def scores(model, sequence):
    """Return {segmentation: score} of all allowed segmentations."""
    features = by_pattern(model)
    return {s: score(model, sequence, s, features) for s in segmentations(model, sequence.length)}


def log_partition(model, sequence):
    """Return log Z; 0 for the empty sequence, which has one segmentation, and -inf if all are forbidden."""
    return log_sum_exp(scores(model, sequence).values())


def distribution(model, sequence):
    """Return {segmentation: probability}; the marginals below take it, so that it is computed once."""
    table = scores(model, sequence)
    top = max(table.values(), default=-math.inf)
    if top == -math.inf:
        raise ValueError("every segmentation is forbidden")
    mass = {s: math.exp(x - top) for s, x in table.items()}
    total = math.fsum(mass.values())
    return {s: m / total for s, m in mass.items()}


def probability(distribution, event):
    """Return the probability that ``event(segmentation)`` holds."""
    return math.fsum(p for segmentation, p in distribution.items() if event(segmentation))


def token_marginals(distribution, n_labels, length):
    """Return P(token t lies in a segment of label y), as a list over t of lists over y."""
    return [
        [
            probability(distribution, lambda s, t=t, y=y: any(u <= t < v and y == z for u, v, z in s))
            for y in range(n_labels)
        ]
        for t in range(length)
    ]


def position_marginals(distribution, length, asked):
    """Return P(token t is where a segment of label y has its position), as a list over t of lists over ``asked``.

    Asked are pairs (y, positions), where ``positions(u, v)`` returns a set of tokens.
    """
    return [
        [
            probability(distribution, lambda s, t=t, y=y, at=at: any(y == z and t in at(u, v) for u, v, z in s))
            for y, at in asked
        ]
        for t in range(length)
    ]


def segment_marginals(distribution):
    """Return {(u, v, y): probability} of all allowed segments."""
    terms_of_segment = {}
    for segmentation, p in distribution.items():
        for segment in segmentation:
            terms_of_segment.setdefault(segment, []).append(p)
    return {segment: math.fsum(terms) for segment, terms in terms_of_segment.items()}


def pattern_marginals(distribution, length, patterns):
    """Return P(a segment that ends the pattern ends with token t), as a list over t of lists over ``patterns``."""

    def ends(segmentation, pattern, t):
        return any(
            v == t + 1 and pattern in patterns_ending(segmentation, i) for i, (_, v, _) in enumerate(segmentation)
        )

    return [
        [probability(distribution, lambda s, t=t, z=z: ends(s, tuple(z), t)) for z in patterns] for t in range(length)
    ]


def best_segmentations(model, sequence, tolerance=1e-9):
    """Return the highest score and the set of all segmentations that reach it up to ``tolerance`` (relative)."""
    table = scores(model, sequence)
    top = max(table.values(), default=-math.inf)
    return top, {s for s, x in table.items() if x >= top - tolerance * max(1.0, abs(top))}


def counts(model, sequence, segmentation):
    """Return how often each weight is active in a segmentation, as (pattern counts, feature counts)."""
    ending = [(u, v, patterns_ending(segmentation, i)) for i, (u, v, _) in enumerate(segmentation)]
    of_patterns = {z: math.fsum(z in patterns for _, _, patterns in ending) for z in model.patterns}
    of_features = {
        (f, z): math.fsum(sequence.value(f, u, v) for u, v, patterns in ending if z in patterns)
        for f, z in model.features
    }
    return of_patterns, of_features


def expected_counts(model, sequence):
    """Return the expectation of ``counts``."""
    weighted = [(p, counts(model, sequence, s)) for s, p in distribution(model, sequence).items() if p]
    return tuple(
        {key: math.fsum(p * parts[i][key] for p, parts in weighted) for key in weights}
        for i, weights in enumerate((model.patterns, model.features))
    )


def negative_log_likelihood(model, sequence, segmentation):
    """Return -log P(segmentation | sequence); inf for a forbidden one."""
    return log_partition(model, sequence) - score(model, sequence, segmentation)


def gradient(model, sequence, segmentation):
    """Return the gradient of ``negative_log_likelihood``, as (by pattern, by feature and pattern)."""
    pairs = zip(expected_counts(model, sequence), counts(model, sequence, segmentation), strict=True)
    return tuple({key: expected[key] - observed[key] for key in expected} for expected, observed in pairs)


class Answers(NamedTuple):
    """What ``dynamic_program`` returns.   T tokens, L labels, D longest segment."""

    log_partition: float
    best_score: float
    marginals: np.ndarray  # (T, L)   of tokens
    segments: np.ndarray  # (T, D, L)   of segments [u, u + d + 1)
    transitions: np.ndarray  # (T, L + 1, L)   P(label a before token t and a segment of label b from t); a = L: none


def dynamic_program(model, sequence):
    """Answer for sequences too long to enumerate, with patterns of order 0 and 1: dense recursions in log space."""
    return recursions(first_order_scores(model, sequence))


def first_order_scores(model, sequence):
    """Return the score of a segment of d + 1 tokens and label b from token u, after label a; -inf where forbidden.

    Shape (T, D, L + 1, L); a = L means that no label comes before.
    """
    n_labels, n_tokens = model.n_labels, sequence.length
    n_lengths = int(min(max(model.longest), n_tokens))
    table = np.full((n_tokens, n_lengths, n_labels + 1, n_labels), -np.inf)
    for d in range(n_lengths):
        table[: n_tokens - d, d] = 0.0
    for z, weight in model.patterns.items():
        table[:, :, *_cells(z)] += weight
    for feature in sorted({f for f, _ in model.features}):
        values = np.zeros((n_tokens, n_lengths, 1, 1))
        for u in range(n_tokens):
            for d in range(min(n_lengths, n_tokens - u)):
                values[u, d] = sequence.value(feature, u, u + d + 1)
        for (f, z), weight in model.features.items():
            if f == feature:
                table[:, :, *_cells(z)] += weight * values
    for y in range(n_labels):
        if model.longest[y] < n_lengths:
            table[:, model.longest[y] :, :, y] = -np.inf
        for u in range(n_tokens):
            for d in range(min(n_lengths, n_tokens - u)):
                if is_short(model, n_tokens, u, u + d + 1, y):
                    table[u, d, :, y] = -np.inf
        if not model.repeats:
            table[:, :, y, y] = -np.inf
    table[1:, :, n_labels] = -np.inf  # a label stands before every segment but the first
    table[:1, :, :n_labels] = -np.inf
    return table


def _cells(pattern):
    """Return which labels before and which labels a pattern of one or two labels asks for, as slices."""
    before = slice(pattern[0], pattern[0] + 1) if len(pattern) == 2 else slice(None)
    return before, slice(pattern[-1], pattern[-1] + 1)


def recursions(table):
    """Answer for the scores of ``first_order_scores``."""
    n_tokens, n_lengths, _, n_labels = table.shape
    alpha = np.full((n_tokens + 1, n_labels + 1), -np.inf)  # segments end in front of token v, the last has label a
    best = alpha.copy()
    alpha[0, n_labels] = best[0, n_labels] = 0.0
    for v in range(1, n_tokens + 1):
        starts = np.arange(max(0, v - n_lengths), v)
        steps = table[starts, v - 1 - starts]
        alpha[v, :n_labels] = _log_sum(steps + alpha[starts, :, None], (0, 1))
        best[v, :n_labels] = (steps + best[starts, :, None]).max(axis=(0, 1))
    beta = np.full((n_tokens + 1, n_labels + 1), -np.inf)
    beta[n_tokens] = 0.0
    for u in range(n_tokens - 1, -1, -1):
        stops = np.arange(u + 1, min(n_tokens, u + n_lengths) + 1)
        steps = table[u, stops - u - 1]
        beta[u] = _log_sum(steps + beta[stops, None, :n_labels], (0, 2))
    log_z = beta[0, n_labels]
    segments = np.zeros((n_tokens, n_lengths, n_labels))
    transitions = np.zeros((n_tokens, n_labels + 1, n_labels))
    marginals = np.zeros((n_tokens, n_labels))
    for u in range(n_tokens):
        stops = np.arange(u + 1, min(n_tokens, u + n_lengths) + 1)
        joint = np.exp(table[u, stops - u - 1] + alpha[u, :, None] + beta[stops, None, :n_labels] - log_z)
        segments[u, : len(stops)] = joint.sum(axis=1)
        transitions[u] = joint.sum(axis=0)
        longer = segments[u, : len(stops)][::-1].cumsum(axis=0)[::-1]
        marginals[u : u + len(stops)] += longer
    return Answers(float(log_z), float(best[n_tokens].max()), marginals, segments, transitions)


def _log_sum(terms, axis):
    top = terms.max(axis=axis)
    shift = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(terms - np.expand_dims(shift, axis)).sum(axis=axis)) + shift

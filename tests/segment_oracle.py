"""High-order CRFs and semi-CRFs by enumeration: slow, but so simple that it is obviously correct.

This module uses no code of sklearn_hocrf. A segmentation is a tuple of segments ``(u, v, y)``, tokens u .. v - 1 with
label y, that together cover the sequence. A model has seven fields; a sequence is its length and the values of its
features:

    n_labels : int                              labels are 0 .. n_labels - 1
    longest  : (length, ...)                    longest segment of each label; math.inf if there is no limit
    repeats  : bool                             whether neighbours may have equal labels
    patterns : {pattern: weight}                pattern = tuple of labels of neighbouring segments, the newest last
    features : {(feature, pattern): weight}     times the value of the feature, for each segment that ends the pattern
    shortest : (length, ...)                    shortest segment of each label inside a sequence; () for no limits
    history  : "tokens" or "segments"           of a CRF: whether labels of patterns are those of tokens or of runs,
               or {label: tag}                  or of the segments that tags describe
    length   : int                              number of tokens
    values   : {(feature, u, v): value}         without zeros; or a function of feature, u and v

A weight of -inf forbids its pattern. A CRF is a semi-CRF whose segments have length 1; ``chain``, ``tokens`` and
``tokenwise`` create such models, sequences and segmentations. ``dynamic_program`` is for sequences that are too long to
enumerate; tests compare it with enumeration.
"""

import functools
import itertools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Model(NamedTuple):
    """A high-order semi-CRF in plain dicts."""

    n_labels: int
    longest: tuple
    repeats: bool
    patterns: dict
    features: dict
    shortest: tuple = ()
    history: Any = "tokens"


@dataclass(eq=False)
class Sequence:
    """A sequence of tokens, with the values of its features."""

    length: int
    values: Any
    tables: list = field(default_factory=list)  # (model, all its scores), of each model that was asked

    def value(self, feature, u, v):
        """Return the value of a feature for the segment [u, v)."""
        return self.values(feature, u, v) if callable(self.values) else self.values.get((feature, u, v), 0.0)


def chain(n_labels, patterns, features, history="tokens"):
    """Return the model of a high-order CRF."""
    return Model(n_labels, (1,) * n_labels, True, patterns, features, (), history)


def tokens(rows):
    """Return a sequence for a high-order CRF: a list of one {feature: value} per position."""
    return Sequence(len(rows), {(f, t, t + 1): x for t, row in enumerate(rows) for f, x in row.items()})


def tokenwise(labels):
    """Return a labelling of tokens as a segmentation."""
    return tuple((t, t + 1, y) for t, y in enumerate(labels))


def segmentations(model, length, start=0, before=None):
    """Yield every allowed segmentation of tokens ``start .. length - 1`` after a segment of label ``before``."""
    if start == length:
        yield ()
    for v, y in pieces(model, length, start):
        if model.repeats or y != before:
            for rest in segmentations(model, length, v, y):
                yield ((start, v, y), *rest)


def pieces(model, length, u):
    """Yield (v, y) of all segments from token u whose lengths are allowed."""
    for y in range(model.n_labels):
        for v in range(u + 1, int(min(u + model.longest[y], length)) + 1):
            if not is_short(model, length, u, v, y):
                yield v, y


def is_short(model, length, u, v, y):
    """Return whether a segment is too short; segments at the beginning or end of a sequence are never too short."""
    return bool(model.shortest) and v - u < model.shortest[y] and u > 0 and v < length


def is_allowed(model, length, segmentation):
    """Return whether a segmentation covers the sequence and satisfies the limits of length and the rule of repeats."""
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

    With the history "segments", a single label occurs at each token of a run of this label, (y, y) at each token with
    the label of the token before, and all other patterns at the first token of their last run. If labels are tags,
    patterns of two or more labels consist of the labels of segments, or are a pair of labels in one segment.
    """
    return patterns_of(tuple(y for _, _, y in segmentation[: i + 1]), history)


def patterns_of(labels, history="tokens"):
    """Return the patterns that end with the last of the given labels."""
    if history == "segments":
        if labels[-1:] == labels[-2:-1]:
            return [(labels[-1], labels[-1]), (labels[-1],)]
        labels = tuple(y for y, _ in itertools.groupby(labels))
    return [labels[start:] for start in range(len(labels))]


def terms_of(model, sequence):
    """Return a function of a segment [u, v) and of labels up to its own: the terms of the patterns that it ends."""
    names, pairs_of_pattern = {f for f, _ in model.features}, {}
    for (f, z), weight in model.features.items():
        pairs_of_pattern.setdefault(z, []).append((f, weight))

    @functools.cache
    def weights(labels):
        patterns = patterns_of(labels, model.history)
        pairs = [pair for z in patterns for pair in pairs_of_pattern.get(z, ())]
        return [model.patterns.get(z, 0.0) for z in patterns], pairs

    @functools.cache
    def values(u, v):
        return {f: sequence.value(f, u, v) for f in names}

    def terms(u, v, labels):
        (of_patterns, pairs), x = weights(labels), values(u, v)
        return of_patterns + [weight * x[f] for f, weight in pairs]

    return terms


def score(model, sequence, segmentation):
    """Return the log-potential of a segmentation, the sum of its active weights; -inf if it is forbidden."""
    if not is_allowed(model, sequence.length, segmentation):
        return -math.inf
    return sum_of_terms(terms_of(model, sequence), segmentation)


def sum_of_terms(terms, segmentation):
    """Return the sum of the terms of all segments of an allowed segmentation."""
    labels = tuple(y for _, _, y in segmentation)
    parts = [terms(u, v, labels[: i + 1]) for i, (u, v, _) in enumerate(segmentation)]
    return total([term for part in parts for term in part])


def total(terms):
    return -math.inf if -math.inf in terms else math.fsum(terms)


def log_sum_exp(scores):
    """Return log(sum(exp(scores))); it ignores -inf, and is -inf if no scores are given."""
    scores = list(scores)
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(math.fsum(math.exp(s - top) for s in scores))


def scores(model, sequence):
    """Return {segmentation: score} of all allowed segmentations; the sequence caches them for each model."""
    for known, table in sequence.tables:
        if known is model:
            return table
    terms = functools.cache(terms_of(model, sequence))
    table = {s: sum_of_terms(terms, s) for s in segmentations(model, sequence.length)}
    sequence.tables.append((model, table))
    return table


def log_partition(model, sequence):
    """Return log Z: 0 for the empty sequence, which has one segmentation, and -inf if all are forbidden."""
    return log_sum_exp(scores(model, sequence).values())


def distribution(model, sequence):
    """Return {segmentation: probability}, which the functions for marginals take, so that it is computed only once."""
    table = scores(model, sequence)
    top = max(table.values(), default=-math.inf)
    if top == -math.inf:
        raise ValueError("every segmentation is forbidden")
    mass = {s: math.exp(x - top) for s, x in table.items()}
    total = math.fsum(mass.values())
    return {s: m / total for s, m in mass.items()}


def probabilities(distribution, length, asked, events):
    """Return P((t, key) is in ``events(segmentation)``), as a list over tokens t of lists over the keys ``asked``."""
    terms_of_event = {}
    for segmentation, p in distribution.items():
        for event in set(events(segmentation)):
            terms_of_event.setdefault(event, []).append(p)
    return [[math.fsum(terms_of_event.get((t, key), ())) for key in asked] for t in range(length)]


def token_marginals(distribution, n_labels, length):
    """Return P(token t is in a segment of label y), as a list over t of lists over y."""
    return probabilities(
        distribution, length, range(n_labels), lambda s: ((t, y) for u, v, y in s for t in range(u, v))
    )


def position_marginals(distribution, length, asked):
    """Return P(token t is a position of a segment of label y), as a list over t of lists over ``asked``.

    ``asked`` are pairs (y, positions), where ``positions(u, v)`` returns a set of tokens.
    """

    def events(segmentation):
        return ((t, (y, at)) for u, v, z in segmentation for y, at in asked if y == z for t in at(u, v))

    return probabilities(distribution, length, asked, events)


def segment_marginals(distribution):
    """Return {(u, v, y): probability} of all allowed segments."""
    terms_of_segment = {}
    for segmentation, p in distribution.items():
        for segment in segmentation:
            terms_of_segment.setdefault(segment, []).append(p)
    return {segment: math.fsum(terms) for segment, terms in terms_of_segment.items()}


def pattern_marginals(distribution, length, patterns, history="tokens"):
    """Return P(a segment that ends the pattern ends with token t), as a list over t of lists over ``patterns``."""
    patterns = [tuple(z) for z in patterns]

    def events(segmentation):
        for i, (_, v, _) in enumerate(segmentation):
            yield from ((v - 1, z) for z in patterns_ending(segmentation, i, history) if z in patterns)

    return probabilities(distribution, length, patterns, events)


def best_segmentations(model, sequence, tolerance=1e-9):
    """Return the highest score, and the set of all segmentations that reach it within a relative ``tolerance``."""
    table = scores(model, sequence)
    top = max(table.values(), default=-math.inf)
    return top, {s for s, x in table.items() if x >= top - tolerance * max(1.0, abs(top))}


def counts(model, sequence, segmentation):
    """Return the number of times each weight is active in a segmentation, as (pattern counts, feature counts)."""
    ending = [(u, v, patterns_ending(segmentation, i, model.history)) for i, (u, v, _) in enumerate(segmentation)]
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
    """The results of ``dynamic_program``."""

    log_partition: float
    best_score: float
    marginals: list  # of tokens: over positions of lists over labels
    segments: dict  # {(u, v, y): probability}


def dynamic_program(model, sequence):
    """Return the results of a long sequence, by recursions in log space over the labels of the last segments."""
    n_tokens, terms = sequence.length, terms_of(model, sequence)
    memory = max([1, *(len(z) - 1 for z in (*model.patterns, *(z for _, z in model.features)))])
    into, best = [{} for _ in range(n_tokens + 1)], [{} for _ in range(n_tokens + 1)]  # scores at borders, by history
    into[0][()], best[0][()] = [0.0], 0.0
    forward, edges = [], []
    for u in range(n_tokens + 1):
        forward.append({history: log_sum_exp(terms) for history, terms in into[u].items()})
        edges.append([])
        for v, y in pieces(model, n_tokens, u):
            for history in forward[u]:
                weight = total(terms(u, v, (*history, y)))
                if weight > -math.inf and (model.repeats or history[-1:] != (y,)):
                    stays = model.history == "segments" and history[-1:] == (y,)
                    following = history if stays else (*history, y)[-memory:]
                    edges[u].append((history, following, v, weight))
                    into[v].setdefault(following, []).append(forward[u][history] + weight)
                    best[v][following] = max(best[v].get(following, -math.inf), best[u][history] + weight)
    log_z = log_sum_exp(forward[-1].values())
    backward, segments = [{} for _ in forward], {}
    backward[-1] = dict.fromkeys(forward[-1], 0.0)
    table = [[0.0] * model.n_labels for _ in range(n_tokens)]
    for u in reversed(range(n_tokens)):
        out = {}
        for history, following, v, weight in edges[u]:
            rest = weight + backward[v].get(following, -math.inf)
            out.setdefault(history, []).append(rest)
            segment, p = (u, v, following[-1]), math.exp(forward[u][history] + rest - log_z)
            segments[segment] = segments.get(segment, 0.0) + p
            for t in range(u, v):
                table[t][following[-1]] += p
        backward[u] = {history: log_sum_exp(terms) for history, terms in out.items()}
    return Answers(log_z, max(best[-1].values()), table, segments)

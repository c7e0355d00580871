"""High-order CRFs by enumeration: so slow and plain that it is obviously right.

Nothing here comes from sklearn_hocrf. A model is three plain things, a sequence is a list of feature rows:

    n_labels : int                                      labels are 0 .. n_labels - 1
    patterns : {pattern: weight}                        pattern = tuple of labels, the last one is the newest
    features : {(feature, pattern): weight}             the weight counts value-of-feature times, where the pattern ends
    history  : "tokens" or "segments"                   whether the labels of patterns are those of tokens or of runs
    rows     : [{feature: value}, ...]                  one dict per position, zeros left out

A pattern of tokens occurs *at t* if it ends at t and lies inside the sequence. One of segments, which are runs of equal
labels, occurs at the first token of its last segment; a single label at each of its tokens, and (y, y) at each token
that has the label of the one before it. A weight of -inf forbids its pattern.
"""

import itertools
import math
from typing import NamedTuple


class Model(NamedTuple):
    """A high-order CRF in plain dicts."""

    n_labels: int
    patterns: dict
    features: dict
    history: str = "tokens"


def labellings(n_labels, n_positions):
    """Yield every labelling of ``n_positions`` positions as a tuple."""
    return itertools.product(range(n_labels), repeat=n_positions)


def patterns_at(labels, t, history="tokens"):
    """Return all patterns that occur at position ``t`` of ``labels``, shortest last."""
    if history == "tokens":
        return [tuple(labels[start : t + 1]) for start in range(t + 1)]
    if t > 0 and labels[t] == labels[t - 1]:
        return [(labels[t], labels[t]), (labels[t],)]
    segments = tuple(y for y, _ in itertools.groupby(labels[: t + 1]))
    return [segments[start:] for start in range(len(segments))]


def occurs(pattern, labels, t, history="tokens"):
    """Say whether ``pattern`` occurs at position ``t`` of ``labels``."""
    return tuple(pattern) in patterns_at(labels, t, history)


def score(model, rows, labels):
    """Return the log-potential of one labelling: the sum of all weights that are active in it."""
    terms = []
    for t, row in enumerate(rows):
        for pattern in patterns_at(labels, t, model.history):
            terms.append(model.patterns.get(pattern, 0.0))
            for feature, value in row.items():
                terms.append(model.features.get((feature, pattern), 0.0) * value)
    return -math.inf if -math.inf in terms else math.fsum(terms)


def log_sum_exp(scores):
    """Return log(sum(exp(scores))); -inf counts as nothing, and nothing at all gives -inf."""
    scores = list(scores)
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(math.fsum(math.exp(s - top) for s in scores))


def log_partition(model, rows):
    """Return log Z; 0 for the empty sequence, which has one labelling."""
    return log_sum_exp(score(model, rows, labels) for labels in labellings(model.n_labels, len(rows)))


def distribution(model, rows):
    """Return {labelling: probability}."""
    scores = {labels: score(model, rows, labels) for labels in labellings(model.n_labels, len(rows))}
    top = max(scores.values())
    if top == -math.inf:
        raise ValueError("every labelling is forbidden")
    mass = {labels: math.exp(s - top) for labels, s in scores.items()}
    total = math.fsum(mass.values())
    return {labels: m / total for labels, m in mass.items()}


def pattern_marginals(model, rows, patterns):
    """Return P(pattern ends at t) as a list over t of lists over ``patterns``."""
    probability = distribution(model, rows)
    return [
        [math.fsum(p for labels, p in probability.items() if occurs(z, labels, t, model.history)) for z in patterns]
        for t in range(len(rows))
    ]


def marginals(model, rows):
    """Return P(label at t) as a list over t of lists over labels."""
    return pattern_marginals(model, rows, [(y,) for y in range(model.n_labels)])


def best_paths(model, rows, tolerance=1e-9):
    """Return the highest score and the set of all labellings that reach it up to ``tolerance`` (relative)."""
    scores = {labels: score(model, rows, labels) for labels in labellings(model.n_labels, len(rows))}
    top = max(scores.values())
    return top, {labels for labels, s in scores.items() if s >= top - tolerance * max(1.0, abs(top))}


def counts(model, rows, labels):
    """Return how often each weight is active in a labelling, as (pattern counts, feature counts)."""
    positions = range(len(rows))
    found = [patterns_at(labels, t, model.history) for t in positions]
    of_patterns = {z: math.fsum(z in found[t] for t in positions) for z in model.patterns}
    of_features = {
        (f, z): math.fsum(rows[t].get(f, 0.0) * (z in found[t]) for t in positions) for f, z in model.features
    }
    return of_patterns, of_features


def expected_counts(model, rows):
    """Return the expectation of ``counts``."""
    patterns = list({*model.patterns, *(z for _, z in model.features)})
    table = pattern_marginals(model, rows, patterns)
    at = {z: [line[i] for line in table] for i, z in enumerate(patterns)}
    of_patterns = {z: math.fsum(at[z]) for z in model.patterns}
    of_features = {
        (f, z): math.fsum(row.get(f, 0.0) * p for row, p in zip(rows, at[z], strict=True)) for f, z in model.features
    }
    return of_patterns, of_features


def negative_log_likelihood(model, rows, labels):
    """Return -log P(labels | rows); inf for a forbidden labelling."""
    return log_partition(model, rows) - score(model, rows, labels)


def gradient(model, rows, labels):
    """Return the gradient of ``negative_log_likelihood``, as (by pattern, by feature and pattern)."""
    pairs = zip(expected_counts(model, rows), counts(model, rows, labels), strict=True)
    return tuple({key: expected[key] - observed[key] for key in expected} for expected, observed in pairs)


class Answers(NamedTuple):
    """What ``dynamic_program`` returns."""

    log_partition: float
    best_score: float
    marginals: list  # over positions of lists over labels


def dynamic_program(model, rows):
    """Answer for sequences too long to enumerate: log-space recursions over the last labels, densely."""
    patterns = [*model.patterns, *(z for _, z in model.features)]
    memory = max(map(len, patterns), default=1) - 1

    def steps(t, histories):
        """Yield (history, next history, log-potential) for all labels at t."""
        for history in histories:
            for y in range(model.n_labels):
                word = (*history, y)
                suffixes = [word[i:] for i in range(len(word))]
                if model.history == "segments" and history[-1:] == (y,):
                    word, suffixes = history, [(y, y), (y,)]
                terms = [model.patterns.get(z, 0.0) for z in suffixes]
                terms += [model.features.get((f, z), 0.0) * value for f, value in rows[t].items() for z in suffixes]
                yield history, word[max(0, len(word) - memory) :], -math.inf if -math.inf in terms else math.fsum(terms)

    edges, forward, best = [], [{(): 0.0}], {(): 0.0}
    for t in range(len(rows)):
        edges.append(list(steps(t, forward[-1])))
        into, best_into = {}, {}
        for history, following, weight in edges[-1]:
            into.setdefault(following, []).append(forward[-1][history] + weight)
            best_into.setdefault(following, []).append(best[history] + weight)
        forward.append({history: log_sum_exp(terms) for history, terms in into.items()})
        best = {history: max(terms) for history, terms in best_into.items()}
    log_z = log_sum_exp(forward[-1].values())

    backward = dict.fromkeys(forward[-1], 0.0)
    table = [[0.0] * model.n_labels for _ in rows]
    for t in reversed(range(len(rows))):
        out = {}
        for history, following, weight in edges[t]:
            out.setdefault(history, []).append(weight + backward[following])
        if memory:
            for history, mass in forward[t + 1].items():
                table[t][history[-1]] += math.exp(mass + backward[history] - log_z)
        else:  # without memory the positions are independent
            per_label = [weight for _, _, weight in edges[t]]
            table[t] = [math.exp(weight - log_sum_exp(per_label)) for weight in per_label]
        backward = {history: log_sum_exp(terms) for history, terms in out.items()}
    return Answers(log_z, max(best.values()), table)

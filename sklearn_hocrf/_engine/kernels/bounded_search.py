"""The best labelling of one sequence, found by a search that omits the states that a bound excludes.

Batches are decoded in all states at all positions, with sequences side by side. A single sequence would leave most
lanes empty, so a search is faster (A* with a bound from dynamic programming; Klein and Manning, NAACL 2003). The upper
bound on the score of all labels after a given one uses, for each pair of labels, the highest score of the second label
in any state. A labelling that always takes the label with the highest score plus bound gives a lower limit of the best
score. The search keeps only the states whose score plus bound reaches this limit: a few of hundreds of states.

Shapes: T tokens, L labels, P states, A arcs, F attributes with pairs, K pairs, S entries of the search.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import resolve

TOLERANCE = 1e-9  # of scores, relative to the largest possible sum of absolute terms
MOST_SIZE = 1e12  # of sums of absolute values; above it, rounding errors could change the result
FOUND, UNDECIDED = range(2)


class SearchTables(NamedTuple):
    """The parts of a model that the search reads."""

    outgoing: np.ndarray  # the automaton, as in ``WeightedArcs``
    source_arcs: np.ndarray
    arc_label: np.ndarray
    arc_target: np.ndarray
    fail: np.ndarray
    arc_score: np.ndarray  # (A,) float64
    bounds: np.ndarray  # (L, L) float64   highest score of each label (row) after each label (column)
    borders: np.ndarray  # (2, L) float64   added to the scores of labels at the first and at the last token
    rank_of: np.ndarray  # (n_attributes,) int32   -1 for attributes without pairs
    starts: np.ndarray  # (F + 1,) int64   range of the pairs of the attribute with each rank
    columns: np.ndarray  # (K,) int32   score column of each pair: a label, or a part of labels
    weights: np.ndarray  # (K,) float64
    part_starts: np.ndarray  # (L + 1,) int64   range of the parts of each label
    parts: np.ndarray  # int32   their columns
    n_columns: int
    largest: float  # highest absolute score that an attribute of value 1, or an arc, adds to a label


class TokenEntries(NamedTuple):
    """The sparse and dense attributes of the tokens of a sequence.   Shapes: d dense attributes."""

    ids: np.ndarray  # (nnz,) int32   -1 for unknown attributes
    indptr: np.ndarray  # (T + 1,) int64   range of each token
    values: np.ndarray  # (nnz,) float64, or empty if all values are 1
    dense: np.ndarray  # (d,) int32   attributes that have a value at every token
    numbers: np.ndarray  # (T, d) float64   the values of the dense attributes


@njit(cache=True, nogil=True, error_model="numpy")
def bound_pairs(outgoing, source_arcs, arc_label, arc_target, fail, arc_score, bounds):
    """Raise ``bounds[y, x]``, (L, L), to the highest score of label y after label x in any state."""
    n_labels = len(bounds)
    arc_of_label = np.empty(n_labels, np.int32)
    for arc in range(len(arc_target)):
        resolve(outgoing, source_arcs, arc_label, fail, np.int64(arc_target[arc]), arc_of_label)
        for label in range(n_labels):
            bounds[label, arc_label[arc]] = max(bounds[label, arc_label[arc]], arc_score[arc_of_label[label]])


@njit(cache=True, nogil=True, error_model="numpy")
def _add_attribute(tables, attribute, value, row):
    """Add the scores of an attribute to ``row`` (C,); return its contribution to the size of the scores."""
    rank = tables.rank_of[attribute] if attribute >= 0 else -1
    if rank < 0:
        return 0.0
    for pair in range(tables.starts[rank], tables.starts[rank + 1]):
        row[tables.columns[pair]] += value * tables.weights[pair]
    return max(1.0, abs(value))


@njit(cache=True, nogil=True, error_model="numpy")
def score_tokens(tables, entries, scores):
    """Write the scores of labels at tokens, (T, L), and return a measure of their size, for bounds of rounding errors.

    The size is 2 per token plus the sum of the absolute values of all attributes with pairs; absolute values below 1
    count as 1. The kernel returns 0 if the model lacks an attribute, because parameters of a transformer have changed,
    or if the size reaches MOST_SIZE.
    """
    if len(entries.ids) and entries.ids.max() >= len(tables.rank_of):
        return 0.0
    borders, n_tokens, row = tables.borders, len(scores), np.empty(tables.n_columns)
    size = 2.0 * n_tokens
    for token in range(n_tokens):
        row[:] = 0.0
        for entry in range(entries.indptr[token], entries.indptr[token + 1]):
            value = entries.values[entry] if len(entries.values) else 1.0
            size += _add_attribute(tables, entries.ids[entry], value, row)
        for column in range(len(entries.dense)):
            size += _add_attribute(tables, entries.dense[column], entries.numbers[token, column], row)
        for label in range(scores.shape[1]):
            score = row[label]
            for part in range(tables.part_starts[label], tables.part_starts[label + 1]):
                score += row[tables.parts[part]]
            scores[token, label] = score
    for label in range(scores.shape[1]):
        scores[0, label] += borders[0, label]
        scores[n_tokens - 1, label] += borders[1, label]
    return size if size < MOST_SIZE else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _bound_suffixes(bounds, scores, rest):
    """Write an upper bound on the score of all tokens after each token, by its label: ``rest`` (T, L)."""
    n_tokens, n_labels = scores.shape
    rest[:] = -np.inf
    rest[n_tokens - 1] = 0.0
    for token in range(n_tokens - 2, -1, -1):
        for label in range(n_labels):
            after = scores[token + 1, label] + rest[token + 1, label]
            for before in range(n_labels):
                rest[token, before] = max(rest[token, before], bounds[label, before] + after)


@njit(cache=True, nogil=True, error_model="numpy")
def _follow_bound(tables, scores, rest, arc_of_label):
    """Return the score of the labelling that takes, at each token, the label with the highest score plus bound."""
    arc_score, state, total = tables.arc_score, np.int64(0), 0.0
    for token in range(len(scores)):
        resolve(tables.outgoing, tables.source_arcs, tables.arc_label, tables.fail, state, arc_of_label)
        best, best_label = -np.inf, 0
        for label in range(scores.shape[1]):
            score = arc_score[arc_of_label[label]] + scores[token, label] + rest[token, label]
            if score > best:
                best, best_label = score, label
        arc = arc_of_label[best_label]
        total += arc_score[arc] + scores[token, best_label]
        state = np.int64(tables.arc_target[arc])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def find_best(tables, entries, most_kept, codes):
    """Find the best labelling of a sequence; return FOUND or UNDECIDED.

    The search is undecided if the score of another labelling is so close that a different order of additions could
    reverse their ranks, if no labelling is possible, if the model lacks an attribute, or if the search would keep more
    than ``most_kept`` states per token. In the last case, decoding in all states, as for batches, takes less time.

    codes : (T,) int32, out
    """
    n_tokens, n_labels = len(codes), len(tables.bounds)
    scores, rest = np.empty((n_tokens, n_labels)), np.empty((n_tokens, n_labels))
    size = score_tokens(tables, entries, scores)
    if size <= 2 * n_tokens:  # no attribute has weights: decoding as a batch may warn or raise an error
        return UNDECIDED
    tolerance = TOLERANCE * (1.0 + tables.largest * size)
    _bound_suffixes(tables.bounds, scores, rest)
    outgoing, source_arcs, arc_label = tables.outgoing, tables.source_arcs, tables.arc_label
    fail, arc_score, arc_target = tables.fail, tables.arc_score, tables.arc_target
    arc_of_label = np.empty(n_labels, np.int32)
    limit = _follow_bound(tables, scores, rest, arc_of_label) - 2.0 * tolerance
    most = most_kept * n_tokens + 1
    # an entry is a state at a token, with the scores of the best and second-best ways into it, the entry before it, and
    # the label between both
    state_of, before, label_of = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    score_of, second_of = np.empty(most), np.empty(most)
    entry_of_state = np.full(len(fail), -1, np.int32)  # valid if it is an entry of the current token
    first, stop = 0, 1
    state_of[0], score_of[0] = 0, 0.0
    for token in range(n_tokens):
        last = stop
        for entry in range(first, last):
            resolve(outgoing, source_arcs, arc_label, fail, np.int64(state_of[entry]), arc_of_label)
            for label in range(n_labels):
                arc = arc_of_label[label]
                score = score_of[entry] + arc_score[arc] + scores[token, label]
                if score + rest[token, label] < limit or score == -np.inf:
                    continue
                state = arc_target[arc]
                target = entry_of_state[state]
                if target < last:
                    if stop == most:
                        return UNDECIDED
                    entry_of_state[state] = target = stop
                    state_of[target], score_of[target] = state, -np.inf
                    stop += 1
                if score > score_of[target]:
                    second_of[target], score_of[target] = score_of[target], score
                    before[target], label_of[target] = entry, label
                elif score > second_of[target]:
                    second_of[target] = score
        first = last
    best, second = -1, -np.inf
    for entry in range(first, stop):
        if best < 0 or score_of[entry] > score_of[best]:
            second = score_of[best] if best >= 0 else -np.inf
            best = entry
        elif score_of[entry] > second:
            second = score_of[entry]
    if best < 0 or not np.isfinite(score_of[best]) or not score_of[best] - second >= tolerance:
        return UNDECIDED
    for token in range(n_tokens - 1, -1, -1):
        if not score_of[best] - second_of[best] >= tolerance:
            return UNDECIDED
        codes[token] = label_of[best]
        best = before[best]
    return FOUND

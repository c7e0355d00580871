"""The best labelling of one sequence, by a search without the states that a bound excludes.

A batch is decoded in all states of all positions, side by side. A single sequence would leave lanes empty, but allows a
search: pairs of labels bound the scores after a label, by the highest score of any state in place of the state's own
score (A* with a bound from dynamic programming; Klein and Manning, NAACL 2003). A labelling that follows the bound
gives a lower limit of the best score, and the search keeps only states whose score and bound reach the limit, a few of
hundreds.

Shapes: T tokens, L labels, P states, A arcs, F ranked attributes, K pairs, S entries of the search.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import resolve

TOLERANCE = 1e-9  # of scores, in units of the largest sum of absolute terms
MOST_SIZE = 1e12  # of sums of values: beyond it, rounding decides
FOUND, UNDECIDED = range(2)


class SearchTables(NamedTuple):
    """The parts of a model that the search reads."""

    outgoing: np.ndarray  # the automaton, as in ``WeightedArcs``
    source_arcs: np.ndarray
    arc_label: np.ndarray
    arc_target: np.ndarray
    fail: np.ndarray
    arc_score: np.ndarray  # (A,) float64
    bounds: np.ndarray  # (L, L) float64   highest score of a label, in its row, after another one
    borders: np.ndarray  # (2, L) float64   added to the scores of labels at the first and at the last token
    rank_of: np.ndarray  # (n_attributes,) int32   -1 for attributes without pairs
    starts: np.ndarray  # (F + 1,) int64   range of the pairs of each rank
    columns: np.ndarray  # (K,) int32   score column of each pair: a label, or a part of labels
    weights: np.ndarray  # (K,) float64
    part_starts: np.ndarray  # (L + 1,) int64   range of the parts of each label
    parts: np.ndarray  # int32   their columns
    n_columns: int
    largest: float  # absolute score that an attribute of value 1, or an arc, adds to a label


class TokenEntries(NamedTuple):
    """The attributes of the tokens of a sequence, sparse and dense ones.   d dense attributes."""

    ids: np.ndarray  # (nnz,) int32   -1 for unknown attributes
    indptr: np.ndarray  # (T + 1,) int64   range of each token
    values: np.ndarray  # (nnz,) float64, or empty where all values are 1
    dense: np.ndarray  # (d,) int32   attributes that have a value at every token
    numbers: np.ndarray  # (T, d) float64   these values


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
    """Add the scores of an attribute to those of the columns, (C,); return its part of the size of the scores."""
    rank = tables.rank_of[attribute] if attribute >= 0 else -1
    if rank < 0:
        return 0.0
    for pair in range(tables.starts[rank], tables.starts[rank + 1]):
        row[tables.columns[pair]] += value * tables.weights[pair]
    return max(1.0, abs(value))


@njit(cache=True, nogil=True, error_model="numpy")
def score_tokens(tables, entries, scores):
    """Write the scores of labels at tokens, (T, L), and return the sum of the absolute values of all terms.

    A value below 1 counts as 1. Return 0 if the model lacks an attribute, because parameters of a transformer have
    changed, or if sums of values may overflow.
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
    """Write bounds of the scores that follow each label at each token: ``rest`` (T, L)."""
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
    """Return the score of the labelling that takes, at each token, the label of the highest score and bound."""
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
    """Find the best labelling of a sequence; return whether it is found, or undecided.

    The search is undecided if the score of another labelling is so close that a different order of additions may prefer
    it, if no labelling is possible, if the model lacks an attribute, or if it keeps more than ``most_kept`` states per
    token, which takes longer than all states of a batch.

    codes : (T,) int32, out
    """
    n_tokens, n_labels = len(codes), len(tables.bounds)
    scores, rest = np.empty((n_tokens, n_labels)), np.empty((n_tokens, n_labels))
    size = score_tokens(tables, entries, scores)
    if size <= 2 * n_tokens:  # no attribute has weights: a batch may warn, or raise
        return UNDECIDED
    tolerance = TOLERANCE * (1.0 + tables.largest * size)
    _bound_suffixes(tables.bounds, scores, rest)
    outgoing, source_arcs, arc_label = tables.outgoing, tables.source_arcs, tables.arc_label
    fail, arc_score, arc_target = tables.fail, tables.arc_score, tables.arc_target
    arc_of_label = np.empty(n_labels, np.int32)
    limit = _follow_bound(tables, scores, rest, arc_of_label) - 2.0 * tolerance
    most = most_kept * n_tokens + 1
    # an entry is a state at a token: its best score, the second best way into it, the entry before and the label
    state_of, before, label_of = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    score_of, second_of = np.empty(most), np.empty(most)
    entry_of_state = np.full(len(fail), -1, np.int32)  # of the current token, if not less than its first entry
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

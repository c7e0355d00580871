"""Level 0 of a cascade: the best labels of each token by features and biases alone, and the training of its weights.

The scores of parts are added to the scores of the labels that contain them; ``links`` are ``PartLinks`` from labels to
parts. Equation numbers refer to docs/develop/theory.md.

Shapes: N tokens, n sequences, L labels, C score columns, K weights of pairs, H dense features, D the width of their
table.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import LOWEST_LOG
from ._vectors import LANES, add, exp, fill, largest, load, multiply, store
from .segment_scores import add_to_labels_of_token, sum_over_labels_of_token
from .token_scores import score_tokens

BLOCK = 8  # tokens scored at a time
NEGLIGIBLE = 1e-9  # error of a label's probability below which the weights of its parts do not change
LOW = -1e300  # score of padding


class Level(NamedTuple):
    """The weights during training."""

    pairs: np.ndarray  # (K,)
    bias: np.ndarray  # (L,)


class TrainedLevel(NamedTuple):
    """Weights in the form that scoring requires."""

    pairs: np.ndarray  # (K,)
    dense: np.ndarray  # (H, D)
    bias: np.ndarray  # (L,)


class LabelledTokens(NamedTuple):
    """Tokens with their labels."""

    offsets: np.ndarray  # (n + 1,) int64
    codes: np.ndarray  # (N,) int32
    weight: np.ndarray  # (n,)   of each sequence


@njit(cache=True, nogil=True, error_model="numpy")
def _take_best(scores, bias, allowed, n_best, best_score, best_label):
    """Write the n best labels in descending order of score, and return their number; ties go to the lowest label."""
    n_found = 0
    for label in range(len(bias)):
        score = scores[label] + bias[label]
        if n_found == n_best and score <= best_score[n_found - 1]:
            continue
        if len(allowed) and not allowed[label]:
            continue
        slot = n_found if n_found < n_best else n_best - 1
        while slot > 0 and best_score[slot - 1] < score:
            best_score[slot], best_label[slot] = best_score[slot - 1], best_label[slot - 1]
            slot -= 1
        best_score[slot], best_label[slot] = score, label
        n_found = min(n_found + 1, n_best)
    return n_found


@njit(cache=True, nogil=True, error_model="numpy")
def _ascend(labels, n_labels):
    """Sort the first ``n_labels`` labels."""
    for index in range(1, n_labels):
        label, slot = labels[index], index
        while slot > 0 and labels[slot - 1] > label:
            labels[slot] = labels[slot - 1]
            slot -= 1
        labels[slot] = label


@njit(cache=True, nogil=True, error_model="numpy")
def best_labels(features, pairs, links, level, allowed, n_best, labels, label_scores, counts):
    """Write the best labels of each token, in ascending order of label.

    level : TrainedLevel        allowed : (N, L) bool, or (0, L) if all labels are allowed
    n_best : (N,) int64   number of labels to find
    labels : (N, most) int32 out        label_scores : (N, most) out        counts : (N,) int64 out, number found
    """
    bias = level.bias
    n_labels, width = len(bias), max(pairs.n_columns, level.dense.shape[1])
    width += -width % 8
    scores = np.empty((BLOCK, width))
    most = labels.shape[1]
    best_score, best_label = np.empty(most), np.empty(most, np.int32)
    for first in range(0, len(n_best), BLOCK):
        block = scores[: min(BLOCK, len(n_best) - first)]
        score_tokens(features, pairs, level.pairs, level.dense, first, block)
        for row in range(len(block)):
            token = first + row
            if len(links.members):
                add_to_labels_of_token(links, block[row])
            possible = allowed[token] if len(allowed) else allowed.reshape(-1)[:0]
            wanted = min(n_best[token], n_labels)
            counts[token] = _take_best(block[row], bias, possible, wanted, best_score, best_label)
            _ascend(best_label, counts[token])
            for slot in range(counts[token]):
                labels[token, slot] = best_label[slot]
                label_scores[token, slot] = block[row, best_label[slot]] + bias[best_label[slot]]


@njit(cache=True, nogil=True, error_model="numpy")
def _score_token(features, columns, links, level, token, scores):
    """Write the scores of a token's labels, and return 1 + the sum of the squares of its features' values."""
    scores[: len(level.bias)] = level.bias
    scores[len(level.bias) :] = 0.0
    norm, ranges = 1.0, features.ranges[token]
    for entry in range(features.indptr[token], features.indptr[token + 1]):  # (3)
        value = features.values[entry] if len(features.values) else 1.0
        norm += value * value
        first = np.int64(features.pair[entry])
        stop = first + 1 if entry < ranges else np.int64(features.other[entry])
        for pair in range(first, stop):
            scores[columns[pair]] += value * level.pairs[pair]
    if len(links.members):
        add_to_labels_of_token(links, scores)
    scores[len(level.bias) :] = LOW
    return norm


@njit(cache=True, nogil=True, error_model="numpy")
def _to_probabilities(table, lanes):
    """Turn scores (rows, LANES) into probabilities, in place; ``lanes`` (1, LANES) is overwritten."""
    top = load(table, 0, LANES)
    for row in range(1, len(table)):
        top = largest(top, load(table, row, LANES))
    store(lanes, 0, top)
    shift, lowest, total = fill(-lanes.max(), LANES), fill(LOWEST_LOG, LANES), fill(0.0, LANES)
    for row in range(len(table)):
        weight = exp(largest(add(load(table, row, LANES), shift), lowest))
        store(table, row, weight)
        total = add(total, weight)
    store(lanes, 0, total)
    inverse = fill(1.0 / lanes.sum(), LANES)
    for row in range(len(table)):
        store(table, row, multiply(load(table, row, LANES), inverse))


@njit(cache=True, nogil=True, error_model="numpy")
def descend(features, pairs, links, data, sequences, rate, level):
    """Take a step for each token of the given sequences, in order; ``level`` in and out.

    Each step divides the rate by 1 + the sum of the squares of the token's feature values, so large values do not
    cause large changes of scores.
    """
    n_labels, columns = len(level.bias), pairs.columns
    n_rows = -(-n_labels // LANES)
    table, lanes = np.empty((max(n_rows, -(-pairs.n_columns // LANES)), LANES)), np.empty((1, LANES))
    scores = table.reshape(-1)
    for sequence in sequences:
        for token in range(data.offsets[sequence], data.offsets[sequence + 1]):
            norm = _score_token(features, columns, links, level, token, scores)
            _to_probabilities(table[:n_rows], lanes)
            scores[data.codes[token]] -= 1.0
            step = -rate * data.weight[sequence] / norm
            for label in range(n_labels):
                scores[label] *= step
                level.bias[label] += scores[label]
            if len(links.members):
                sum_over_labels_of_token(links, NEGLIGIBLE * abs(step), scores)
            ranges = features.ranges[token]
            for entry in range(features.indptr[token], features.indptr[token + 1]):
                value = features.values[entry] if len(features.values) else 1.0
                first = np.int64(features.pair[entry])
                stop = first + 1 if entry < ranges else np.int64(features.other[entry])
                for pair in range(first, stop):
                    level.pairs[pair] += value * scores[columns[pair]]

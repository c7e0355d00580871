"""Products of sparse token rows with (feature, column) weights, and their adjoints.

Pairs are stored by feature: those of feature f are ``pair_starts[f] .. pair_starts[f + 1]``, each with the score column it adds
to and a weight. Shapes: N tokens, F features, K pairs, C score columns, R rows and W lanes of a slab of B blocks.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(rows, pairs, weights, slab, scores):
    """Write the scores of a slab's tokens: ``weights`` (K,), ``scores`` (R * C, W) out; 0 beyond a lane's end."""
    n_columns, lanes = pairs.n_columns, scores.shape[1]
    scores[:] = 0.0
    line = np.empty(n_columns)
    for block in range(len(slab.length)):
        for lane in range(lanes):
            for position in range(slab.length[block, lane]):
                token = slab.first_token[block, lane] + position
                line[:] = 0.0
                for entry in range(rows.indptr[token], rows.indptr[token + 1]):
                    feature = rows.indices[entry]
                    value = rows.values[entry] if len(rows.values) else 1.0
                    first, stop = pairs.starts[feature], pairs.starts[feature + 1]
                    if pairs.is_full[feature]:  # a pair for every label: contiguous, so that this is a vector operation
                        for column in range(stop - first):
                            line[column] += value * weights[first + column]
                    else:
                        for pair in range(first, stop):
                            line[pairs.columns[pair]] += value * weights[pair]
                row = slab.rows[block] + position
                for column in range(n_columns):
                    scores[row * n_columns + column, lane] = line[column]


@njit(cache=True, nogil=True, error_model="numpy")
def add_expectations(rows, pairs, slab, marginals, weight, gradient):
    """Add the expected counts of the pairs: ``marginals`` (R * C, W), ``weight`` (B, W), ``gradient`` (K,) in and out."""
    n_columns, lanes = pairs.n_columns, marginals.shape[1]
    line = np.empty(n_columns)
    for block in range(len(slab.length)):
        for lane in range(lanes):
            if weight[block, lane] == 0.0:
                continue
            for position in range(slab.length[block, lane]):
                token = slab.first_token[block, lane] + position
                row = slab.rows[block] + position
                for column in range(n_columns):
                    line[column] = marginals[row * n_columns + column, lane] * weight[block, lane]
                for entry in range(rows.indptr[token], rows.indptr[token + 1]):
                    feature = rows.indices[entry]
                    value = rows.values[entry] if len(rows.values) else 1.0
                    first, stop = pairs.starts[feature], pairs.starts[feature + 1]
                    if pairs.is_full[feature]:
                        for column in range(stop - first):
                            gradient[first + column] += value * line[column]
                    else:
                        for pair in range(first, stop):
                            gradient[pair] += value * line[pairs.columns[pair]]


@njit(cache=True, nogil=True, error_model="numpy")
def slot_scores(lattice, n_columns, scores, dynamic):
    """Sum up, for the arcs whose score varies with the position, the scores of their suffix patterns.

    scores : (R * C, W)        dynamic : (R * Q, W) out; the slots come shortest arc first
    """
    n_slots = len(lattice.slot_arc)
    for row in range(len(dynamic) // max(n_slots, 1)):
        for slot in range(n_slots):
            up, column = lattice.slot_up[slot], lattice.slot_column[slot]
            for lane in range(dynamic.shape[1]):
                total = 0.0
                if column >= 0:
                    total = scores[row * n_columns + column, lane]
                if up >= 0:
                    total += dynamic[row * n_slots + up, lane]
                dynamic[row * n_slots + slot, lane] = total


@njit(cache=True, nogil=True, error_model="numpy")
def gather(slab, n_columns, scores, weight, table):
    """Copy the scores of a slab's lanes of weight > 0 to one row per token: ``scores`` (R * C, W), ``table`` (N, C) out."""
    for block in range(len(slab.length)):
        for lane in range(scores.shape[1]):
            if weight[block, lane] == 0.0:
                continue
            for position in range(slab.length[block, lane]):
                token = slab.first_token[block, lane] + position
                for column in range(table.shape[1]):
                    table[token, column] = scores[(slab.rows[block] + position) * n_columns + column, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def label_scores(rows, pairs, weights, arcs, arc_columns, scores):
    """Score given labels: ``arcs`` (N,) are those the labels use, ``scores`` (N,) out."""
    active = np.zeros(pairs.n_columns, dtype=np.bool_)
    for token in range(len(arcs)):
        first_column, last_column = arc_columns.starts[arcs[token]], arc_columns.starts[arcs[token] + 1]
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = True
        total = 0.0
        for entry in range(rows.indptr[token], rows.indptr[token + 1]):
            feature = rows.indices[entry]
            value = rows.values[entry] if len(rows.values) else 1.0
            for pair in range(pairs.starts[feature], pairs.starts[feature + 1]):
                if active[pairs.columns[pair]]:
                    total += value * weights[pair]
        scores[token] = total
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = False


@njit(cache=True, nogil=True, error_model="numpy")
def label_counts(rows, pairs, token_weight, arcs, arc_columns, counts):
    """Add the pairs that occur with given labels, each token by its weight: ``counts`` (K,) in and out."""
    active = np.zeros(pairs.n_columns, dtype=np.bool_)
    for token in range(len(arcs)):
        first_column, last_column = arc_columns.starts[arcs[token]], arc_columns.starts[arcs[token] + 1]
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = True
        for entry in range(rows.indptr[token], rows.indptr[token + 1]):
            feature = rows.indices[entry]
            value = rows.values[entry] if len(rows.values) else 1.0
            for pair in range(pairs.starts[feature], pairs.starts[feature + 1]):
                if active[pairs.columns[pair]]:
                    counts[pair] += value * token_weight[token]
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = False

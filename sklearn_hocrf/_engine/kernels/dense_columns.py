"""Products of dense token features with weights (3), and their adjoints (14).

A group of 8 consecutive tokens is widened to float64 and multiplied by the weights of 8 score columns at a time: the
sums of the group, or of its tokens' marginals, stay in vector registers while the loop runs over the features. This is
a matrix product in blocks that fit the first caches. It takes as long as a BLAS product in float32, or 0.6 of one in
float64, for which tokens would also have to be gathered and scores scattered; and its bits depend neither on the number
of BLAS threads nor on the BLAS implementation. Equations are those of docs/develop/theory.md.

Positions of a block of lanes are given as in a tile: ``rows`` (B + 1,), ``first_token`` (B, W), ``length`` (B, W). Row
``rows[b] + j`` holds position j of all lanes of block b.

Shapes: N tokens, d features, C score columns, of which D have weights, padded to S * STEP; R rows and W lanes.
"""

import numpy as np

from ._jit import njit
from ._vectors import STEP, add_scaled, load_step, store_step

GROUP = 8  # tokens multiplied at a time: as many sums as fit the registers together with their factors


@njit(cache=True, nogil=True, error_model="numpy")
def _widen(values, token, n_tokens, wide):
    """Write some tokens' values as float64, and zeros up to a whole group: ``wide`` (GROUP * d,) out."""
    n_features = values.shape[1]
    flat = values.reshape(-1)[token * n_features : (token + n_tokens) * n_features]
    for i in range(len(flat)):
        wide[i] = flat[i]
    wide[len(flat) :] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _rows(wide):
    """Return the rows of a group as separate arrays: an index into them needs no addition, and no check of its sign.

    With one array for all of them the loops take twice as long.
    """
    n = len(wide) // GROUP
    return (
        wide[:n],
        wide[n : 2 * n],
        wide[2 * n : 3 * n],
        wide[3 * n : 4 * n],
        wide[4 * n : 5 * n],
        wide[5 * n : 6 * n],
        wide[6 * n : 7 * n],
        wide[7 * n :],
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply(wide, table, step, sums):
    """Write the products of a group's rows with the weights of a step: ``sums`` (GROUP * STEP,) out."""
    n_features = len(wide) // GROUP
    x0, x1, x2, x3, x4, x5, x6, x7 = _rows(wide)
    sums[:] = 0.0
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = load_step(sums, 0)
    for i in range(n_features):  # (3)
        weight = load_step(table, (step * n_features + i) * STEP)
        s0 = add_scaled(s0, x0[i], weight)
        s1 = add_scaled(s1, x1[i], weight)
        s2 = add_scaled(s2, x2[i], weight)
        s3 = add_scaled(s3, x3[i], weight)
        s4 = add_scaled(s4, x4[i], weight)
        s5 = add_scaled(s5, x5[i], weight)
        s6 = add_scaled(s6, x6[i], weight)
        s7 = add_scaled(s7, x7[i], weight)
    store_step(sums, 0, s0)
    store_step(sums, STEP, s1)
    store_step(sums, 2 * STEP, s2)
    store_step(sums, 3 * STEP, s3)
    store_step(sums, 4 * STEP, s4)
    store_step(sums, 5 * STEP, s5)
    store_step(sums, 6 * STEP, s6)
    store_step(sums, 7 * STEP, s7)


@njit(cache=True, nogil=True, error_model="numpy")
def _multiply_transposed(wide, marginals, step, table):
    """Add the products of a group's rows with their marginals to a table: ``marginals`` (GROUP * STEP,)."""
    n_features = len(wide) // GROUP
    x0, x1, x2, x3, x4, x5, x6, x7 = _rows(wide)
    m0, m1, m2 = load_step(marginals, 0), load_step(marginals, STEP), load_step(marginals, 2 * STEP)
    m3, m4, m5 = load_step(marginals, 3 * STEP), load_step(marginals, 4 * STEP), load_step(marginals, 5 * STEP)
    m6, m7 = load_step(marginals, 6 * STEP), load_step(marginals, 7 * STEP)
    for i in range(n_features):  # (14)
        start = (step * n_features + i) * STEP
        total = add_scaled(load_step(table, start), x0[i], m0)
        total = add_scaled(total, x1[i], m1)
        total = add_scaled(total, x2[i], m2)
        total = add_scaled(total, x3[i], m3)
        total = add_scaled(total, x4[i], m4)
        total = add_scaled(total, x5[i], m5)
        total = add_scaled(total, x6[i], m6)
        total = add_scaled(total, x7[i], m7)
        store_step(table, start, total)


@njit(cache=True, nogil=True, error_model="numpy")
def add_scores(values, weights, columns, rows, first_token, length, scores):
    """Add the scores of dense features.

    values : (N, d) float32 or float64        weights : (S or 2 S, d, STEP)   and their derivatives, for dual numbers
    columns : (D,) int32   their indices        scores : (R * C, W or 2 W)   in and out
    """
    n_lanes, n_slots, n_columns = length.shape[1], scores.shape[1], len(scores) // rows[-1]
    n_steps = -(-len(columns) // STEP)
    flat, table, wide = scores.reshape(-1), weights.reshape(-1), np.empty(GROUP * values.shape[1])
    sums = np.empty(GROUP * STEP)
    for block in range(len(length)):
        for lane in range(n_lanes):
            for begin in range(0, length[block, lane], GROUP):
                n_tokens = min(GROUP, length[block, lane] - begin)
                _widen(values, first_token[block, lane] + begin, n_tokens, wide)
                for step in range(n_slots // n_lanes * n_steps):
                    _multiply(wide, table, step, sums)
                    first_column, slot = step % n_steps * STEP, step // n_steps * n_lanes + lane
                    for i in range(min(STEP, len(columns) - first_column)):
                        cell = (rows[block] + begin) * n_columns + columns[first_column + i]
                        for position in range(n_tokens):
                            flat[(cell + position * n_columns) * n_slots + slot] += sums[position * STEP + i]


@njit(cache=True, nogil=True, error_model="numpy")
def add_counts(values, columns, rows, first_token, length, marginals, weight, counts):
    """Add the expected counts of dense features; for dual numbers, only their derivatives.

    values, columns : as in ``add_scores``        marginals : (R * C, W or 2 W)        weight : (B, W)
    counts : (S, d, STEP)   in and out
    """
    n_lanes, n_slots, n_columns = length.shape[1], marginals.shape[1], len(marginals) // rows[-1]
    flat, table, wide = marginals.reshape(-1), counts.reshape(-1), np.empty(GROUP * values.shape[1])
    factors = np.empty(GROUP * STEP)
    for block in range(len(length)):
        for lane in range(n_lanes):
            if weight[block, lane] == 0.0:
                continue
            slot = n_slots - n_lanes + lane
            for begin in range(0, length[block, lane], GROUP):
                n_tokens = min(GROUP, length[block, lane] - begin)
                _widen(values, first_token[block, lane] + begin, n_tokens, wide)
                for first_column in range(0, len(columns), STEP):
                    factors[:] = 0.0
                    for i in range(min(STEP, len(columns) - first_column)):
                        cell = (rows[block] + begin) * n_columns + columns[first_column + i]
                        for position in range(n_tokens):
                            marginal = flat[(cell + position * n_columns) * n_slots + slot]
                            factors[position * STEP + i] = marginal * weight[block, lane]
                    _multiply_transposed(wide, factors, first_column // STEP, table)

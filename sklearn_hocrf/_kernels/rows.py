"""Products of sparse token rows with (feature, column) weights, and their adjoints.

Pairs are stored by feature: those of feature f are ``starts[f] .. starts[f + 1]``, each with the score column it adds
to and a weight. Frequent features know most labels; these, the first H, are kept in a dense table of one padded row
of label weights each, which is added to a token's scores as a whole, so that the time goes by features and not by
pairs. For dual numbers (see ``_common``) there are two weights for each pair, the other one a derivative, and rows of
the dense table are twice as long; one pass over the features makes both scores.

Shapes: N tokens, F features, K pairs, C score columns, H dense features, D = padded number of labels (a multiple of
8), R rows and W lanes of a slab of B blocks.
"""

import numpy as np
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

STEP = 8
ir = cgutils.ir  # llvmlite, as numba brings it
_VECTOR = ir.VectorType(ir.DoubleType(), STEP)


@intrinsic
def _add_scaled(typing_context, left, row, right, other_row, scale):
    """Add ``scale * right[other_row]`` to ``left[row]``; both tables have one width, a multiple of STEP."""

    def generate(context, builder, signature, args):
        tables = [make_array(signature.args[i])(context, builder, args[i]) for i in (0, 2)]
        width = cgutils.unpack_tuple(builder, tables[0].shape)[1]
        rows = [context.cast(builder, args[i], signature.args[i], types.intp) for i in (1, 3)]
        into, out_of = (
            builder.gep(table.data, [builder.mul(row, width)]) for table, row in zip(tables, rows, strict=True)
        )
        lanes = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(STEP):
            lanes = builder.insert_element(lanes, args[4], ir.Constant(ir.IntType(32), lane))
        step = ir.Constant(width.type, STEP)
        with cgutils.for_range_slice(builder, ir.Constant(width.type, 0), width, step, inc=True) as (column, _):
            target, source = (
                builder.bitcast(builder.gep(pointer, [column]), _VECTOR.as_pointer()) for pointer in (into, out_of)
            )
            product = builder.fmul(lanes, builder.load(source, align=8), flags=("contract",))
            total = builder.fadd(builder.load(target, align=8), product, flags=("contract",))
            builder.store(total, target, align=8)
        return context.get_dummy_value()

    return types.void(left, row, right, other_row, types.float64), generate


if config.DISABLE_JIT:

    def _add_scaled(left, row, right, other_row, scale):
        left[row] += scale * right[other_row]


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(rows, pairs, weights, slopes, dense, slab, scores):
    """Write the scores of a slab's tokens, 0 beyond a lane's end.

    weights : (K,)        slopes : (K,) or None   their derivatives, for dual numbers
    dense : (H, D) or (H, 2 D)   weights of the dense features, and derivatives        scores : (R * C, W or 2 W) out
    """
    n_columns, n_lanes = pairs.n_columns, slab.length.shape[1]
    n_parts = scores.shape[1] // n_lanes
    n_padded = dense.shape[1] // n_parts
    scores[:] = 0.0
    line = np.empty(n_parts * n_columns)
    dense_line = np.empty((1, dense.shape[1]))
    for block in range(len(slab.length)):
        for lane in range(n_lanes):
            for position in range(slab.length[block, lane]):
                token = slab.first_token[block, lane] + position
                line[:] = 0.0
                dense_line[:] = 0.0
                for entry in range(rows.indptr[token], rows.indptr[token + 1]):
                    first_pair, stop = rows.first[entry], rows.stop[entry]
                    value = rows.values[entry] if len(rows.values) else 1.0
                    if stop == 0:
                        _add_scaled(dense_line, 0, dense, first_pair, value)
                    else:
                        for pair in range(first_pair, stop):
                            line[pairs.columns[pair]] += value * weights[pair]
                            if slopes is not None:
                                line[n_columns + pairs.columns[pair]] += value * slopes[pair]
                first = (slab.rows[block] + position) * n_columns
                for part in range(n_parts):
                    column = part * n_lanes + lane
                    for label in range(pairs.n_labels):
                        total = line[part * n_columns + label] + dense_line[0, part * n_padded + label]
                        scores[first + label, column] = total
                    for other in range(pairs.n_labels, n_columns):
                        scores[first + other, column] = line[part * n_columns + other]


@njit(cache=True, nogil=True, error_model="numpy")
def add_expectations(rows, pairs, slab, marginals, weight, gradient, dense):
    """Add the expected counts of the pairs; of dual numbers, their derivatives alone.

    marginals : (R * C, W or 2 W)        weight : (B, W)        gradient : (K,) and dense : (H, D)   in and out
    """
    n_columns, n_lanes = pairs.n_columns, slab.length.shape[1]
    skipped = marginals.shape[1] - n_lanes
    line = np.empty(n_columns)
    dense_line = np.zeros((1, dense.shape[1]))
    for block in range(len(slab.length)):
        for lane in range(n_lanes):
            if weight[block, lane] == 0.0:
                continue
            for position in range(slab.length[block, lane]):
                token = slab.first_token[block, lane] + position
                first = (slab.rows[block] + position) * n_columns
                for column in range(n_columns):
                    line[column] = marginals[first + column, skipped + lane] * weight[block, lane]
                for label in range(pairs.n_labels):
                    dense_line[0, label] = line[label]
                for entry in range(rows.indptr[token], rows.indptr[token + 1]):
                    first_pair, stop = rows.first[entry], rows.stop[entry]
                    value = rows.values[entry] if len(rows.values) else 1.0
                    if stop == 0:
                        _add_scaled(dense, first_pair, dense_line, 0, value)
                    else:
                        for pair in range(first_pair, stop):
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
    """Copy the lanes of weight > 0 to one row per token: ``scores`` (R * C, W), ``table`` (N, at most C) out."""
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
            first_pair, stop = _pairs_of(rows, pairs, entry)
            value = rows.values[entry] if len(rows.values) else 1.0
            for pair in range(first_pair, stop):
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
            first_pair, stop = _pairs_of(rows, pairs, entry)
            value = rows.values[entry] if len(rows.values) else 1.0
            for pair in range(first_pair, stop):
                if active[pairs.columns[pair]]:
                    counts[pair] += value * token_weight[token]
        for index in range(first_column, last_column):
            active[arc_columns.columns[index]] = False


@njit(cache=True, nogil=True, error_model="numpy")
def _pairs_of(rows, pairs, entry):
    """Return the range of the pairs of an entry's feature, whether it is dense or not."""
    first, stop = np.int64(rows.first[entry]), np.int64(rows.stop[entry])
    if stop == 0:
        return pairs.starts[first], pairs.starts[first + 1]
    return first, stop

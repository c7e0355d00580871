"""Forward and backward passes of a high-order chain over many sequences side by side, and Viterbi decoding.

The sequences of a block occupy the *lanes* of every array, innermost, so that each addition of the sum network is a
vector addition. With ``w`` the arc weights, ``e`` the exponentiated emission scores, S and R as in ``_sumnet``:

    forward     m(j) = S alpha(j)                    alpha(j + 1) = e(j) * R (w m(j)) / total of alpha(j)
    backward    b(j) = w R^T (e(j) beta(j + 1)) / total of alpha(j)        beta(j) = S^T b(j)
    marginals   P(arc a is used at j) = m_a(j) b_a(j)

with beta(T) = 1 / total of alpha(T). A state that is out of the running may yet be the only survivor of a later
position, so a lane in which any reachable alpha falls below 1e-200 of its row is reported as *suspect* and is done
again by the log-space twin (``chain_log``). Beta needs no such check: alpha . beta = 1 at every position, so what
underflows in beta had a negligible posterior probability.

Decoding runs the same transposed network in the (max, +) semiring, on log scores, where nothing can underflow. The
automaton is deterministic, so the best labelling needs no back-pointers: ``beta(j, p)`` is the best score of the
labels from j on in state p, and a walk from the left takes the best label in each state.

Blocks are LANES wide, and each kernel is compiled for vectors of that many numbers. A long sequence that has no
company runs in a block of one lane: with ``width=None`` the same kernels are compiled for single numbers.

Shapes: B blocks, W = LANES or 1 lanes, R rows (positions of all blocks), C score columns (the first L are the labels),
P states, A arcs, Q slots (arcs whose score varies with the position). Tables of lanes are two-dimensional,
``(R * C, W)`` and so on, and their rows are read and written as whole vectors; without JIT a vector is a numpy array.
"""

import numpy as np
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

LANES = 16
ir = cgutils.ir  # llvmlite, as numba brings it
TINY = 1e-200  # and not 1e-300: the backward pass multiplies what it divides by such a number
SMALLEST_TOTAL = 1e-80
LOWEST_LOG = -644.0  # exp of it, about 1e-280, is the smallest weight


class _Lanes(types.Type):
    """LANES float64 in vector registers."""

    def __init__(self):
        super().__init__(name=f"Lanes{LANES}")


_LANES_TYPE = _Lanes()
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


def _lanes_of(width):
    """Return the type of a row of lanes: one number where the width is None."""
    return types.float64 if width == types.none else _LANES_TYPE


def _constant(kind, number):
    return ir.Constant(kind, [number] * LANES if isinstance(kind, ir.VectorType) else number)


def _pointer(context, builder, signature, args):
    """Return where a row of a table (the first two arguments) begins, as a pointer to lanes."""
    data = make_array(signature.args[0])(context, builder, args[0]).data
    row = context.cast(builder, args[1], signature.args[1], types.intp)
    kind = signature.args[2] if signature.return_type == types.void else signature.return_type
    if kind == types.float64:
        return builder.gep(data, [row])
    return builder.bitcast(builder.gep(data, [builder.mul(row, ir.Constant(row.type, LANES))]), _VECTOR.as_pointer())


def _splat(builder, number):
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)


@intrinsic
def _load(typing_context, table, row, width):
    """Return row ``row`` of a table of lanes."""

    def generate(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature, args), align=8)

    return _lanes_of(width)(table, row, width), generate


@intrinsic
def _store(typing_context, table, row, lanes):
    """Write row ``row`` of a table of lanes."""

    def generate(context, builder, signature, args):
        builder.store(args[2], _pointer(context, builder, signature, args), align=8)
        return context.get_dummy_value()

    return types.void(table, row, lanes), generate


@intrinsic
def _fill(typing_context, number, width):
    """Return lanes that all hold ``number``."""

    def generate(context, builder, signature, args):
        return args[0] if signature.return_type == types.float64 else _splat(builder, args[0])

    return _lanes_of(width)(types.float64, width), generate


def _binary(operation):
    def typer(typing_context, left, right):
        def generate(context, builder, signature, args):
            return operation(builder, *args)

        return left(left, left), generate

    return typer


def _choose_larger(builder, left, right):
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _choose_smaller(builder, left, right):
    return builder.select(builder.fcmp_ordered("<", left, right), left, right)


_add = intrinsic(_binary(lambda builder, left, right: builder.fadd(left, right)))
_multiply = intrinsic(_binary(lambda builder, left, right: builder.fmul(left, right)))
_largest = intrinsic(_binary(_choose_larger))
_smallest = intrinsic(_binary(_choose_smaller))


def _fused(builder, left, right, addend):
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(product, addend, flags=("contract",))


@intrinsic
def _multiply_add(typing_context, left, right, addend):
    """Return left * right + addend."""

    def generate(context, builder, signature, args):
        return _fused(builder, *args)

    return left(left, left, left), generate


@intrinsic
def _where_positive(typing_context, condition, yes, no):
    """Return ``yes`` in the lanes where ``condition`` > 0, else ``no``."""

    def generate(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], _constant(args[0].type, 0.0)), args[1], args[2])

    return condition(condition, condition, condition), generate


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUNDER = 1.5 * 2.0**52  # adding it rounds to an integer, kept in the low bits


@intrinsic
def _exp(typing_context, lanes):
    """Return exp(lanes) for arguments in [-700, 700], to 1e-15: exp(x) = 2**n exp(r) with \\|r\\| <= ln(2) / 2."""

    def generate(context, builder, signature, args):
        x, kind = args[0], args[0].type
        integer = _BITS if isinstance(kind, ir.VectorType) else _BITS.element
        rounder = _constant(kind, _ROUNDER)
        shifted = builder.fadd(builder.fmul(x, _constant(kind, _LOG2_E)), rounder)
        n = builder.fsub(shifted, rounder)
        r = builder.fsub(x, builder.fmul(n, _constant(kind, _LN2_HIGH)))
        r = builder.fsub(r, builder.fmul(n, _constant(kind, _LN2_LOW)))
        factorials = np.cumprod([1.0, *range(1, 14)])
        result = _constant(kind, 1 / factorials[-1])
        for factorial in factorials[-2::-1]:  # Horner's rule for the Taylor series
            result = _fused(builder, result, r, _constant(kind, 1 / factorial))
        exponent = builder.shl(builder.bitcast(shifted, integer), _constant(integer, 52))
        return builder.bitcast(builder.add(builder.bitcast(result, integer), exponent), kind)

    return lanes(lanes), generate


if config.DISABLE_JIT:  # the same operations on rows of numpy arrays
    def _load(table, row, width):
        return table[row].copy()

    def _store(table, row, lanes):
        table[row] = lanes

    def _fill(number, width):
        return np.full(LANES if width else 1, number)

    def _multiply_add(left, right, addend):
        return left * right + addend

    def _where_positive(condition, yes, no):
        return np.where(condition > 0, yes, no)

    _add, _multiply, _largest, _smallest, _exp = np.add, np.multiply, np.maximum, np.minimum, np.exp


@njit(cache=True, nogil=True, error_model="numpy")
def exponentiate(width, lattice, slab, scores, factors, log_scale, suspect):
    """Turn scores into weights, in place.

    scores : (R * C, W)   log scores in; the first L columns become exp(score - row maximum), 0 beyond a lane's end
    factors : (R * Q, W)   out: weight of each slot's arc, without the emission
    log_scale : (B, W)   increased by the logarithms taken out
    suspect : (B, W)   set to 1 where a weight leaves the range in which exp is safe
    """
    n_labels, n_slots = lattice.n_labels, len(lattice.slot_arc)
    n_columns = len(scores) // slab.rows[-1]
    alive = np.empty((1, scores.shape[1]))
    dynamic = np.empty((n_slots, scores.shape[1]))
    zero, one = _fill(0.0, width), _fill(1.0, width)
    lowest_safe, minus = _fill(LOWEST_LOG, width), _fill(-1.0, width)
    log_shift = _fill(lattice.log_shift, width)
    for block in range(len(slab.length)):
        block_scale, block_suspect = _load(log_scale, block, width), _load(suspect, block, width)
        for row in range(slab.rows[block], slab.rows[block + 1]):
            for lane in range(scores.shape[1]):
                alive[0, lane] = 1.0 if row - slab.rows[block] < slab.length[block, lane] else 0.0
            lives = _load(alive, 0, width)
            first = row * n_columns
            shift = _load(scores, first, width)
            lowest = shift
            for column in range(1, n_labels):
                score = _load(scores, first + column, width)
                shift, lowest = _largest(score, shift), _smallest(score, lowest)
            minus_shift = _multiply(minus, shift)
            # margin of safety, > 0 if all is well; scores beyond it are cut off for _exp and their lane is suspect
            margin = _add(_add(lowest, minus_shift), _fill(-LOWEST_LOG, width))
            for column in range(n_labels):
                score = _add(_load(scores, first + column, width), minus_shift)
                _store(scores, first + column, _multiply(lives, _exp(_largest(score, lowest_safe))))
            block_scale = _add(block_scale, _multiply(lives, _add(shift, log_shift)))
            for slot in range(n_slots):
                total = zero
                if lattice.slot_column[slot] >= 0:
                    total = _load(scores, first + lattice.slot_column[slot], width)
                if lattice.slot_up[slot] >= 0:
                    total = _add(total, _load(dynamic, lattice.slot_up[slot], width))
                _store(dynamic, slot, total)
                constant = lattice.arc_score[lattice.slot_arc[slot]] - lattice.log_shift
                if constant == -np.inf:
                    _store(factors, row * n_slots + slot, zero)
                    continue
                total = _add(total, _fill(constant, width))
                margin = _smallest(_add(total, _fill(-LOWEST_LOG, width)), margin)
                margin = _smallest(_add(_multiply(minus, total), _fill(-LOWEST_LOG, width)), margin)
                total = _smallest(_largest(total, lowest_safe), _fill(-LOWEST_LOG, width))
                _store(factors, row * n_slots + slot, _multiply(lives, _exp(total)))
            block_suspect = _largest(block_suspect, _multiply(lives, _where_positive(margin, zero, one)))
        _store(log_scale, block, block_scale)
        _store(suspect, block, block_suspect)


@njit(cache=True, nogil=True, error_model="numpy")
def forward(width, lattice, slab, scratch, carry, scores, factors, alpha, inverse_scale, log_scale, suspect):
    """Run the scaled forward pass of the blocks of a slab.

    scratch : (enough, W)   overwritten: memory that large is dear to allocate for each call, the more so in threads
    scores : (R * C, W)   from ``exponentiate``; the first L columns of a row are divided by the total of the row before
    factors : (R * Q, W)   from ``exponentiate``
    carry : (P, W)   alpha in front of each block, of total 1        alpha : ((R + B) * P, W) out
    inverse_scale : (R, W)   out: 1 / total of the alpha after each row, 0 beyond a lane's end
    log_scale : (B, W)   increased by log Z of each lane        suspect : (B, W)   set to 1 as ``exponentiate`` does
    """
    n_states, n_slots, n_labels = len(lattice.fail), len(lattice.slot_arc), lattice.n_labels
    n_columns = len(scores) // slab.rows[-1]
    n_values = n_states + len(lattice.starts) - 1
    values, next_values = scratch[:n_values], scratch[n_values : 2 * n_values]
    totals, lows = np.empty((1, scores.shape[1])), np.empty((1, scores.shape[1]))
    plain = n_slots == 0 and lattice.arc_score.min() > -np.inf  # then the inner loop has no branches
    zero, infinite = _fill(0.0, width), _fill(np.inf, width)
    for block in range(len(slab.length)):
        for state in range(n_states):
            before = _load(carry, state, width)
            _store(values, state, before)
            _store(alpha, (slab.rows[block] + block) * n_states + state, before)
        for row in range(slab.rows[block], slab.rows[block + 1]):
            after = (row + block + 1) * n_states
            if row > slab.rows[block]:
                scale = _load(inverse_scale, row - 1, width)
                for label in range(row * n_columns, row * n_columns + n_labels):
                    _store(scores, label, _multiply(_load(scores, label, width), scale))
            _sum_network(width, lattice.starts, lattice.terms, n_states, values)
            total, low = zero, infinite
            _store(alpha, after, zero)
            _store(next_values, 0, zero)
            for state in range(1, n_states):
                weighted, mass = zero, zero
                if plain:
                    for arc in range(lattice.into[state], lattice.into[state + 1]):
                        value = _load(values, lattice.arc_value[arc], width)
                        weighted = _multiply_add(_fill(lattice.arc_weight[arc], width), value, weighted)
                        mass = _add(mass, value)
                else:
                    for arc in range(lattice.into[state], lattice.into[state + 1]):
                        if lattice.arc_score[arc] == -np.inf:
                            continue
                        slot = lattice.arc_slot[arc]
                        value = _load(values, lattice.arc_value[arc], width)
                        if slot >= 0:
                            weight = _load(factors, row * n_slots + slot, width)
                        else:
                            weight = _fill(lattice.arc_weight[arc], width)
                        weighted = _multiply_add(weight, value, weighted)
                        mass = _add(mass, value)
                product = _multiply(weighted, _load(scores, row * n_columns + lattice.state_label[state], width))
                _store(alpha, after + state, product)
                _store(next_values, state, product)
                total = _add(total, product)
                low = _smallest(_where_positive(mass, product, infinite), low)
            values, next_values = next_values, values
            _store(totals, 0, total)
            _store(lows, 0, low)
            for lane in range(scores.shape[1]):
                inverse_scale[row, lane] = 0.0
                if row - slab.rows[block] < slab.length[block, lane]:
                    # a row of very small or large total would leave the backward pass no room
                    safe = SMALLEST_TOTAL <= totals[0, lane] <= 1.0 / SMALLEST_TOTAL
                    if not (safe and lows[0, lane] >= TINY * max(1.0, totals[0, lane])):
                        suspect[block, lane] = 1.0
                    if suspect[block, lane] == 0.0:
                        inverse_scale[row, lane] = 1.0 / totals[0, lane]
                        log_scale[block, lane] += np.log(totals[0, lane])
        first, stop = (slab.rows[block] + block) * n_states, (slab.rows[block + 1] + block + 1) * n_states
        for lane in range(scores.shape[1]):
            if suspect[block, lane] > 0.0:  # no mass: the lane drops out of the backward pass
                alpha[first:stop, lane] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def backward(width, lattice, slab, scratch, scores, factors, alpha, inverse_scale, weight, beta, counts):
    """Run the scaled backward pass and turn ``scores`` into marginals, in place.

    scratch : (enough, W)   overwritten
    scores : (R * C, W)   in: from ``forward``; out: P(label) in the first L columns, P(pattern ends here) in the others
    weight : (B, W)   by which each lane counts in ``counts``
    beta : (P, W)   in and out, for parts of long sequences
    counts : (A, W)   increased by the marginals of the arcs
    """
    n_states, n_arcs, n_slots = len(lattice.fail), len(lattice.arc_slot), len(lattice.slot_arc)
    n_columns = len(scores) // slab.rows[-1]
    n_values = n_states + len(lattice.starts) - 1
    values, adjoints = scratch[:n_values], scratch[n_values : n_values + n_arcs + len(lattice.back_starts) - 1]
    first_beta = len(adjoints) - n_states  # beta of the position after the current one
    marginals = np.empty((lattice.n_labels, scores.shape[1]))
    slots = np.empty((n_slots, scores.shape[1]))
    zero = _fill(0.0, width)
    for block in range(len(slab.length) - 1, -1, -1):
        lane_weight = _load(weight, block, width)
        scale = _load(inverse_scale, slab.rows[block + 1] - 1, width)  # of lanes that go on in the next slab
        for state in range(n_states):
            _store(adjoints, first_beta + state, _multiply(_load(beta, state, width), scale))
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = (row + block) * n_states
            after = here + n_states
            for lane in range(scores.shape[1]):
                if slab.last[block, lane] == row - slab.rows[block]:
                    adjoints[first_beta:, lane] = inverse_scale[row, lane]
            for state in range(n_states):
                _store(values, state, _load(alpha, here + state, width))
            _sum_network(width, lattice.starts, lattice.terms, n_states, values)
            for label in range(lattice.n_labels):
                _store(marginals, label, zero)
            for state in range(1, n_states):
                label = lattice.state_label[state]
                mass = _load(alpha, after + state, width)
                # a state out of reach has no use for its beta, which may be infinite
                reach = _where_positive(mass, _load(adjoints, first_beta + state, width), zero)
                _store(marginals, label, _multiply_add(mass, reach, _load(marginals, label, width)))
                flow = _multiply(reach, _load(scores, row * n_columns + label, width))
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    slot = lattice.arc_slot[arc]
                    value = _load(values, lattice.arc_value[arc], width)
                    if slot < 0:
                        adjoint = _multiply(_fill(lattice.arc_weight[arc], width), flow)
                    else:
                        # a factor may be huge; where nothing uses the arc, the product may be infinite
                        adjoint = _multiply(_load(factors, row * n_slots + slot, width), flow)
                        adjoint = _where_positive(value, adjoint, zero)
                        _store(slots, slot, _multiply(adjoint, value))
                    _store(adjoints, arc, adjoint)
                    used = _multiply(adjoint, value)
                    _store(counts, arc, _multiply_add(used, lane_weight, _load(counts, arc, width)))
            for node in range(len(lattice.back_starts) - 1):
                start = lattice.back_starts[node]
                total = _load(adjoints, lattice.back_terms[start], width)
                for term in range(start + 1, lattice.back_starts[node + 1]):
                    total = _add(total, _load(adjoints, lattice.back_terms[term], width))
                _store(adjoints, n_arcs + node, total)
            for label in range(lattice.n_labels):
                _store(scores, row * n_columns + label, _load(marginals, label, width))
            for slot in range(n_slots - 1, -1, -1):  # longest arcs first: an arc's pattern is a suffix of longer arcs
                up, column = lattice.slot_up[slot], lattice.slot_column[slot]
                if up >= 0:
                    _store(slots, up, _add(_load(slots, up, width), _load(slots, slot, width)))
                if column >= 0:
                    _store(scores, row * n_columns + column, _load(slots, slot, width))
        for state in range(n_states):
            _store(beta, state, _load(adjoints, first_beta + state, width))


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_network(width, starts, terms, n_states, values):
    """Evaluate the sum network: ``values`` is (P + I, W); its first P rows, alpha, are given."""
    for node in range(len(starts) - 1):
        start = starts[node]
        total = _add(_load(values, terms[start], width), _load(values, terms[start + 1], width))
        for term in range(start + 2, starts[node + 1]):
            total = _add(total, _load(values, terms[term], width))
        _store(values, n_states + node, total)


@njit(cache=True, nogil=True, error_model="numpy")
def backward_max(width, lattice, slab, scratch, scores, dynamic, beta):
    """Fill ``beta`` ((R + B) * P, W): the best score from each position on, 0 at a lane's end.

    scratch : (enough, W)   overwritten
    scores : (R * C, W)        dynamic : (R * Q, W)   from ``rows.slot_scores``
    The last P rows of each block are set by the caller, for lanes that go on beyond the slab.
    """
    n_states, n_arcs, n_slots = len(lattice.fail), len(lattice.arc_slot), len(lattice.slot_arc)
    n_columns = len(scores) // slab.rows[-1]
    adjoints = scratch[: n_arcs + len(lattice.back_starts) - 1]
    first_beta = len(adjoints) - n_states
    for block in range(len(slab.length)):
        for row in range(slab.rows[block + 1] - 1, slab.rows[block] - 1, -1):
            here = (row + block) * n_states
            after = here + n_states
            for lane in range(scores.shape[1]):
                if slab.last[block, lane] == row - slab.rows[block]:
                    for state in range(n_states):
                        beta[after + state, lane] = 0.0
            for state in range(1, n_states):
                score = _load(scores, row * n_columns + lattice.state_label[state], width)
                best = _add(_load(beta, after + state, width), score)
                for arc in range(lattice.into[state], lattice.into[state + 1]):
                    adjoint = _add(best, _fill(lattice.arc_score[arc], width))
                    slot = lattice.arc_slot[arc]
                    if slot >= 0:
                        adjoint = _add(adjoint, _load(dynamic, row * n_slots + slot, width))
                    _store(adjoints, arc, adjoint)
            for node in range(len(lattice.back_starts) - 1):
                start = lattice.back_starts[node]
                most = _load(adjoints, lattice.back_terms[start], width)
                for term in range(start + 1, lattice.back_starts[node + 1]):
                    most = _largest(most, _load(adjoints, lattice.back_terms[term], width))
                _store(adjoints, n_arcs + node, most)
            for state in range(n_states):
                _store(beta, here + state, _load(adjoints, first_beta + state, width))


@njit(cache=True, nogil=True, error_model="numpy")
def walk(lattice, slab, scores, dynamic, beta, state, codes):
    """Read off the best labels, left to right; ties go to the lowest label.

    state : (B, W) int32   in and out: automaton state of each lane        codes : (N,) int32   out, by token
    """
    n_states, n_slots = len(lattice.fail), len(lattice.slot_arc)
    n_columns = len(scores) // slab.rows[-1]
    arc_of_label = np.empty(lattice.n_labels, dtype=np.int32)
    for block in range(len(slab.length)):
        for lane in range(scores.shape[1]):
            current = state[block, lane]
            for position in range(slab.length[block, lane]):
                row = slab.rows[block] + position
                _resolve(lattice, current, arc_of_label)
                best, best_arc = -np.inf, arc_of_label[0]
                for label in range(lattice.n_labels):
                    arc = arc_of_label[label]
                    score = lattice.arc_score[arc] + scores[row * n_columns + label, lane]
                    if lattice.arc_slot[arc] >= 0:
                        score += dynamic[row * n_slots + lattice.arc_slot[arc], lane]
                    score += beta[(row + block + 1) * n_states + lattice.arc_target[arc], lane]
                    if score > best:
                        best, best_arc = score, arc
                codes[slab.first_token[block, lane] + position] = lattice.arc_label[best_arc]
                current = lattice.arc_target[best_arc]
            state[block, lane] = current


@njit(cache=True, nogil=True, error_model="numpy")
def label_arcs(lattice, offsets, codes, arcs):
    """Write the arc that each token uses when the sequences are labelled with ``codes``: ``arcs`` (N,) int32."""
    arc_of_label = np.empty(lattice.n_labels, dtype=np.int32)
    for sequence in range(len(offsets) - 1):
        current = 0
        for token in range(offsets[sequence], offsets[sequence + 1]):
            _resolve(lattice, current, arc_of_label)
            arcs[token] = arc_of_label[codes[token]]
            current = lattice.arc_target[arcs[token]]


@njit(cache=True, nogil=True, error_model="numpy")
def _resolve(lattice, state, arc_of_label):
    """Find, for each label, the arc that ``state`` uses: its own, or that of the nearest suffix that has one."""
    arc_of_label[:] = -1
    missing = lattice.n_labels
    while True:
        for index in range(lattice.outgoing[state], lattice.outgoing[state + 1]):
            arc = lattice.source_arcs[index]
            if arc_of_label[lattice.arc_label[arc]] < 0:
                arc_of_label[lattice.arc_label[arc]] = arc
                missing -= 1
        if missing == 0:
            return
        state = lattice.fail[state]

"""Arithmetic of the kernels: vectors of LANES numbers, dual numbers, and vectors of STEP numbers.

A *table of lanes* is a two-dimensional array of float64 with LANES columns, one per sequence of a block, whose rows are
read and written as whole vectors. With ``lane_kind=None`` the same operations work on single numbers, for tables of one
column. Without JIT a vector is a numpy array.

With ``lane_kind=(LANES,)`` or ``(None,)`` they work on dual numbers: each row of a table holds the values of all lanes
and then their derivatives along one direction, and every operation obeys the rules of differentiation, equation (24) of
docs/develop/theory.md. A kernel compiled for dual numbers therefore computes the derivatives of everything that it
computes.

The operations are LLVM instructions, written by hand: compiled from loops over 16 numbers, one loop for each operation,
one row of the forward recursion takes 5.1, 3.8 and 3.7 times as long (handwriting, models of order 1, 3 and 5).

Products of sparse features with weights work along score columns instead: ``load_step``, ``store_step`` and
``add_scaled`` treat STEP neighbours of a flat array as a vector.
"""

import numpy as np
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

from ._jit import njit

LANES = 16  # measured: docs/develop/design.md
CACHE_LINE = 64  # bytes
FOLDED = 4  # columns that are left of LANES where sums over all lanes are collected
STEP = 8
ir = cgutils.ir  # llvmlite, as numba brings it


class _Lanes(types.Type):
    """Some float64 in vector registers."""

    def __init__(self, size):
        super().__init__(name=f"Lanes{size}")
        self.vector = ir.VectorType(ir.DoubleType(), size)


class _Dual(types.Type):
    """Dual numbers: values and their derivatives along one direction, each lanes or a single number."""

    def __init__(self, part):
        super().__init__(name=f"Dual({part})")
        self.part = part


_LANES_TYPE, _STEP_TYPE = _Lanes(LANES), _Lanes(STEP)
_VECTOR = _LANES_TYPE.vector
_BITS = ir.VectorType(ir.IntType(64), LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, numba_type.vector)


@register_model(_Dual)
class _DualModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        part = ir.DoubleType() if numba_type.part == types.float64 else _VECTOR
        super().__init__(manager, numba_type, ir.LiteralStructType([part, part]))


def _lanes_of(lane_kind):
    """Return the type of a row: lanes, one number if the lane_kind is None, dual numbers if it is a tuple."""
    if isinstance(lane_kind, types.BaseTuple):
        return _Dual(_lanes_of(lane_kind[0]))
    return types.float64 if lane_kind == types.none else _LANES_TYPE


def _constant(kind, value):
    return ir.Constant(kind, [value] * LANES if isinstance(kind, ir.VectorType) else value)


def _is_dual(value):
    return isinstance(value.type, ir.LiteralStructType)


def _parts(builder, value):
    """Return values and derivatives of a dual number."""
    return builder.extract_value(value, 0), builder.extract_value(value, 1)


def _dual(builder, value, derivative):
    pair = ir.Constant(ir.LiteralStructType([value.type, value.type]), ir.Undefined)
    return builder.insert_value(builder.insert_value(pair, value, 0), derivative, 1)


def _pointers(context, builder, table_type, row_type, kind, args):
    """Return pointers to lanes at the beginning of each part of a row of a table."""
    data = make_array(table_type)(context, builder, args[0]).data
    row = context.cast(builder, args[1], row_type, types.intp)
    part, n_parts = (kind.part, 2) if isinstance(kind, _Dual) else (kind, 1)
    size = 1 if part == types.float64 else LANES
    pointers = []
    for index in range(n_parts):
        offset = builder.mul(row, ir.Constant(row.type, n_parts * size))
        pointer = builder.gep(data, [builder.add(offset, ir.Constant(row.type, index * size))])
        pointers.append(pointer if size == 1 else builder.bitcast(pointer, _VECTOR.as_pointer()))
    return pointers


def _splat(builder, value, vector=_VECTOR):
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, nothing, zeros)


@intrinsic
def load(typing_context, table, row, lane_kind):
    """Return row ``row`` of a table of lanes."""
    kind = _lanes_of(lane_kind)

    def generate(context, builder, signature, args):
        pointers = _pointers(context, builder, table, row, kind, args)
        parts = [builder.load(pointer, align=8) for pointer in pointers]
        return _dual(builder, *parts) if len(parts) > 1 else parts[0]

    return kind(table, row, lane_kind), generate


@intrinsic
def store(typing_context, table, row, lanes):
    """Write row ``row`` of a table of lanes."""

    def generate(context, builder, signature, args):
        parts = _parts(builder, args[2]) if _is_dual(args[2]) else [args[2]]
        for part, pointer in zip(parts, _pointers(context, builder, table, row, lanes, args), strict=True):
            builder.store(part, pointer, align=8)
        return context.get_dummy_value()

    return types.void(table, row, lanes), generate


@intrinsic
def add_folded(typing_context, table, row, lanes):
    """Add lanes to row ``row`` of a table of FOLDED columns, several lanes to each; of one, to one column."""

    def generate(context, builder, signature, args):
        data = make_array(table)(context, builder, args[0]).data
        row_id = context.cast(builder, args[1], row, types.intp)
        parts = _parts(builder, args[2]) if _is_dual(args[2]) else [args[2]]
        columns = FOLDED if isinstance(parts[0].type, ir.VectorType) else 1
        for index, part in enumerate(parts):
            offset = builder.mul(row_id, ir.Constant(row_id.type, len(parts) * columns))
            pointer = builder.gep(data, [builder.add(offset, ir.Constant(row_id.type, index * columns))])
            total = part
            if columns > 1:
                total = _folded(builder, part)
                pointer = builder.bitcast(pointer, total.type.as_pointer())
            builder.store(builder.fadd(builder.load(pointer, align=8), total), pointer, align=8)
        return context.get_dummy_value()

    return types.void(table, row, lanes), generate


def _folded(builder, lanes):
    """Return FOLDED sums of lanes, added in pairs."""
    nothing = ir.Constant(lanes.type, ir.Undefined)
    kind = ir.VectorType(ir.IntType(32), FOLDED)
    starts = range(0, LANES, FOLDED)
    sums = [
        builder.shuffle_vector(lanes, nothing, ir.Constant(kind, list(range(start, start + FOLDED))))
        for start in starts
    ]
    while len(sums) > 1:
        sums = [builder.fadd(one, other) for one, other in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


def _filled(builder, kind, value, derivative):
    if isinstance(kind, _Dual):
        return _dual(builder, *(_filled(builder, kind.part, one, None) for one in (value, derivative)))
    return value if kind == types.float64 else _splat(builder, value)


@intrinsic
def fill(typing_context, value, lane_kind):
    """Return lanes that all contain the constant ``value``."""
    kind = _lanes_of(lane_kind)

    def generate(context, builder, signature, args):
        return _filled(builder, kind, args[0], ir.Constant(ir.DoubleType(), 0.0))

    return kind(types.float64, lane_kind), generate


@intrinsic
def fill_dual(typing_context, value, derivative, lane_kind):
    """Return lanes that all contain ``value``; its ``derivative`` is used only for dual numbers."""
    kind = _lanes_of(lane_kind)

    def generate(context, builder, signature, args):
        return _filled(builder, kind, *args[:2])

    return kind(types.float64, types.float64, lane_kind), generate


def _pairwise(operation):
    """Return what types an intrinsic of two lanes, from ``operation(builder, left, right)`` on lanes or duals."""

    def typer(typing_context, left, right):
        def generate(context, builder, signature, args):
            return operation(builder, *args)

        return left(left, left), generate

    return typer


def _add(builder, left, right):
    if not _is_dual(left):
        return builder.fadd(left, right)
    pairs = zip(_parts(builder, left), _parts(builder, right), strict=True)
    return _dual(builder, *(builder.fadd(one, other) for one, other in pairs))


def _multiply(builder, left, right):
    if not _is_dual(left):
        return builder.fmul(left, right)
    (x, dx), (y, dy) = _parts(builder, left), _parts(builder, right)
    return _dual(builder, builder.fmul(x, y), _fused(builder, x, dy, builder.fmul(dx, y)))


def _fused(builder, left, right, addend):
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(product, addend, flags=("contract",))


def _choose(builder, chosen, yes, no):
    if not _is_dual(yes):
        return builder.select(chosen, yes, no)
    pairs = zip(_parts(builder, yes), _parts(builder, no), strict=True)
    return _dual(builder, *(builder.select(chosen, one, other) for one, other in pairs))


def _value(builder, lanes):
    return _parts(builder, lanes)[0] if _is_dual(lanes) else lanes


def _choose_larger(builder, left, right):
    chosen = builder.fcmp_ordered(">", _value(builder, left), _value(builder, right))
    return _choose(builder, chosen, left, right)


def _choose_smaller(builder, left, right):
    chosen = builder.fcmp_ordered("<", _value(builder, left), _value(builder, right))
    return _choose(builder, chosen, left, right)


add = intrinsic(_pairwise(_add))
multiply = intrinsic(_pairwise(_multiply))
largest = intrinsic(_pairwise(_choose_larger))
smallest = intrinsic(_pairwise(_choose_smaller))


@intrinsic
def multiply_add(typing_context, left, right, addend):
    """Return left * right + addend."""

    def generate(context, builder, signature, args):
        if not _is_dual(args[0]):
            return _fused(builder, *args)
        (x, dx), (y, dy), (z, dz) = (_parts(builder, value) for value in args)
        return _dual(builder, _fused(builder, x, y, z), _fused(builder, x, dy, _fused(builder, dx, y, dz)))

    return left(left, left, left), generate


@intrinsic
def where_positive(typing_context, condition, yes, no):
    """Return ``yes`` in the lanes where ``condition`` > 0, else ``no``."""

    def generate(context, builder, signature, args):
        value = _value(builder, args[0])
        return _choose(builder, builder.fcmp_ordered(">", value, _constant(value.type, 0.0)), args[1], args[2])

    return condition(condition, condition, condition), generate


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUNDER = 1.5 * 2.0**52  # adding it rounds to an integer, kept in the low bits


@intrinsic
def exp(typing_context, lanes):
    """Return exp(lanes) for arguments in [-700, 700], to 1e-15: exp(x) = 2**n exp(r) with \\|r\\| <= ln(2) / 2."""

    def generate(context, builder, signature, args):
        x, derivative = _parts(builder, args[0]) if _is_dual(args[0]) else (args[0], None)
        kind = x.type
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
        result = builder.bitcast(builder.add(builder.bitcast(result, integer), exponent), kind)
        return result if derivative is None else _dual(builder, result, builder.fmul(result, derivative))

    return lanes(lanes), generate


@njit(cache=True, nogil=True, error_model="numpy")
def empty_table(n_rows):
    """Return a table of lanes with any numbers; it begins at a cache line, so that no vector lies across two."""
    memory = np.empty(n_rows * LANES + CACHE_LINE // 8 - 1)
    first = -memory.ctypes.data % CACHE_LINE // 8
    return memory[first : first + n_rows * LANES].reshape(n_rows, LANES)


def _pointer_to_step(context, builder, signature, args):
    """Return a pointer to a vector in an array; the first two arguments are the array and an index of it."""
    data = make_array(signature.args[0])(context, builder, args[0]).data
    start = context.cast(builder, args[1], signature.args[1], types.intp)
    return builder.bitcast(builder.gep(data, [start]), _STEP_TYPE.vector.as_pointer())


@intrinsic
def load_step(typing_context, values, start):
    """Return ``values[start : start + STEP]``."""

    def generate(context, builder, signature, args):
        return builder.load(_pointer_to_step(context, builder, signature, args), align=8)

    return _STEP_TYPE(values, start), generate


@intrinsic
def store_step(typing_context, values, start, step):
    """Write ``values[start : start + STEP]``."""

    def generate(context, builder, signature, args):
        builder.store(args[2], _pointer_to_step(context, builder, signature, args), align=8)
        return context.get_dummy_value()

    return types.void(values, start, step), generate


@intrinsic
def add_scaled(typing_context, total, scale, step):
    """Return ``total + scale * step``, where ``scale`` is one number."""

    def generate(context, builder, signature, args):
        return _fused(builder, _splat(builder, args[1], _STEP_TYPE.vector), args[2], args[0])

    return total(total, types.float64, step), generate


if config.DISABLE_JIT:  # the same operations on rows of numpy arrays; a dual number is a tuple of two

    def load(table, row, lane_kind):
        if not isinstance(lane_kind, tuple):
            return table[row].copy()
        return tuple(np.split(table[row].copy(), 2))

    def store(table, row, lanes):
        table[row] = np.concatenate(lanes) if isinstance(lanes, tuple) else lanes

    def add_folded(table, row, lanes):
        parts = lanes if isinstance(lanes, tuple) else (lanes,)
        sums = [part.reshape(-1, FOLDED).sum(axis=0) if len(part) > 1 else part for part in parts]
        table[row] += np.concatenate(sums)

    def fill(value, lane_kind):
        return fill_dual(value, 0.0, lane_kind)

    def fill_dual(value, derivative, lane_kind):
        if isinstance(lane_kind, tuple):
            return fill(value, lane_kind[0]), fill(derivative, lane_kind[0])
        return np.full(LANES if lane_kind else 1, value)

    def add(left, right):
        return (left[0] + right[0], left[1] + right[1]) if isinstance(left, tuple) else left + right

    def multiply(left, right):
        if not isinstance(left, tuple):
            return left * right
        return left[0] * right[0], left[0] * right[1] + left[1] * right[0]

    def multiply_add(left, right, addend):
        return add(multiply(left, right), addend)

    def _where(chosen, yes, no):
        if not isinstance(yes, tuple):
            return np.where(chosen, yes, no)
        return np.where(chosen, yes[0], no[0]), np.where(chosen, yes[1], no[1])

    def _value_of(lanes):
        return lanes[0] if isinstance(lanes, tuple) else lanes

    def where_positive(condition, yes, no):
        return _where(_value_of(condition) > 0, yes, no)

    def largest(left, right):
        return _where(_value_of(left) > _value_of(right), left, right)

    def smallest(left, right):
        return _where(_value_of(left) < _value_of(right), left, right)

    def exp(lanes):
        if not isinstance(lanes, tuple):
            return np.exp(lanes)
        return np.exp(lanes[0]), np.exp(lanes[0]) * lanes[1]

    def load_step(values, start):
        return values[start : start + STEP].copy()

    def store_step(values, start, step):
        values[start : start + STEP] = step

    def add_scaled(total, scale, step):
        return total + scale * step

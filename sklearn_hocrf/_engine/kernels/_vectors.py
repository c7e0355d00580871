"""Arithmetic of the kernels: vectors of LANES numbers, dual and wide numbers, and vectors of STEP numbers.

A *table of lanes* is a two-dimensional array of float64 with LANES columns, one per sequence of a block. Kernels read
and write its rows as whole vectors. With ``lane_kind=None``, the operations work on single numbers, in tables of one
column.

With ``lane_kind=(LANES,)`` or ``(None,)``, the operations work on dual numbers. Each row of a table then contains the
values of all lanes, followed by their derivatives along one direction, and every operation follows the rules of
differentiation, equation (24) of docs/develop/theory.md. A kernel compiled for dual numbers therefore also computes the
derivatives of all its results.

With ``lane_kind=WIDE``, the operations work on single wide numbers (see below), in two columns. A kernel compiled for
wide numbers needs no scales, because no number underflows. With ``lane_kind=(WIDE,)``, the operations work on dual
numbers whose two parts are wide numbers, in four columns.

The operations are explicit LLVM instructions. If each operation is a loop over 16 numbers instead, one row of the
forward recursion takes 5.1, 3.8 and 3.7 times as long (handwriting data, models of order 1, 3 and 5).

Products of sparse features and weights use vectors of score columns: ``load_step``, ``store_step`` and ``add_scaled``
treat STEP consecutive numbers of a flat array as a vector.

Wide numbers represent values of any size: (m, e) is m * BASE**e. Kernels use them for sequences whose scaled passes
fail.

The functions for wide numbers take and return each number as a float64 m and an integer e, and are compiled into the
intrinsics of this module. Multiplication moves m back to [1 / ROOT, ROOT]. Addition does not, so the m of a sum of n
terms may be as large as n * ROOT. A term has no effect on a sum if its exponent is lower than that of the sum by 2 or
more. The exponent of 0 is arbitrary.
"""

import math

import numpy as np
from numba import types
from numba.core import cgutils, typing
from numba.extending import intrinsic, models, register_jitable, register_model
from numba.np.arrayobj import make_array

LANES = 16  # measured: docs/develop/design.md
FOLDED = 4  # columns of a table of sums over lanes; each is the sum of several lanes
STEP = 8
WIDE = True  # selects an operation by its type
ir = cgutils.ir  # llvmlite's module, as numba imports it


class _Lanes(types.Type):
    """Several float64 numbers in vector registers."""

    def __init__(self, size):
        super().__init__(name=f"Lanes{size}")
        self.vector = ir.VectorType(ir.DoubleType(), size)


class _Dual(types.Type):
    """Dual numbers: values and their derivatives along one direction, each of the type ``part``."""

    def __init__(self, part):
        super().__init__(name=f"Dual({part})")
        self.part = part


_LANES_TYPE, _STEP_TYPE, _WIDE_TYPE = _Lanes(LANES), _Lanes(STEP), types.Tuple((types.float64, types.int64))
_VECTOR = _LANES_TYPE.vector
_BITS = ir.VectorType(ir.IntType(64), LANES)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, numba_type.vector)


@register_model(_Dual)
class _DualModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        part = manager.lookup(numba_type.part).get_value_type()
        super().__init__(manager, numba_type, ir.LiteralStructType([part, part]))


def _lanes_of(lane_kind):
    """Return the type of a row: dual numbers if ``lane_kind`` is a tuple, one number for None and WIDE, else lanes."""
    if isinstance(lane_kind, types.BaseTuple):
        return _Dual(_lanes_of(lane_kind[0]))
    return {types.none: types.float64, types.boolean: _WIDE_TYPE}.get(lane_kind, _LANES_TYPE)


def _n_columns(kind):
    """Return the number of columns of a table for each lane."""
    return 2 * _n_columns(kind.part) if isinstance(kind, _Dual) else 1 + (kind == _WIDE_TYPE)


def _constant(kind, value):
    return ir.Constant(kind, [value] * LANES if isinstance(kind, ir.VectorType) else value)


def _is_pair(value):
    return isinstance(value.type, ir.LiteralStructType)


def _is_wide(value):
    return _is_pair(value) and value.type.elements[1] == _BITS.element


def _is_dual(value):
    return _is_pair(value) and not _is_wide(value)


def _parts(builder, value):
    """Return the values and derivatives of dual numbers, or the mantissa and exponent of a wide number."""
    return builder.extract_value(value, 0), builder.extract_value(value, 1)


def _pair(builder, first, second):
    pair = ir.Constant(ir.LiteralStructType([first.type, second.type]), ir.Undefined)
    return builder.insert_value(builder.insert_value(pair, first, 0), second, 1)


def _call(context, builder, function, *values, result=_WIDE_TYPE):
    """Compile a call of a function of wide numbers, and return its result."""
    parts = [part for value in values for part in (_parts(builder, value) if _is_pair(value) else [value])]
    kinds = [types.int64 if part.type == _BITS.element else types.float64 for part in parts]
    return context.compile_internal(builder, function, typing.signature(result, *kinds), parts)


def _columns(builder, value):
    """Return the columns of a row as a list."""
    if not _is_pair(value):
        return [value]
    first, second = _parts(builder, value)
    return (
        [first, builder.sitofp(second, first.type)]
        if _is_wide(value)
        else [*_columns(builder, first), *_columns(builder, second)]
    )


def _row(builder, kind, columns):
    """Return the row of the type ``kind`` with the given columns."""
    if isinstance(kind, _Dual):
        half = len(columns) // 2
        return _pair(builder, *(_row(builder, kind.part, part) for part in (columns[:half], columns[half:])))
    return columns[0] if len(columns) == 1 else _pair(builder, columns[0], builder.fptosi(columns[1], _BITS.element))


def _check_bounds(context, builder, array, index):
    """If NUMBA_BOUNDSCHECK is set, raise an IndexError for an index out of range, as numba does elsewhere."""
    if context.enable_boundscheck:
        cgutils.do_boundscheck(context, builder, index, builder.extract_value(array.shape, 0), 0)


def _pointers(context, builder, table_type, row_type, kind, args):
    """Return pointers to the parts of a row of a table, each of which is a number or a vector of LANES numbers."""
    table, n_columns = make_array(table_type)(context, builder, args[0]), _n_columns(kind)
    data, row = table.data, context.cast(builder, args[1], row_type, types.intp)
    _check_bounds(context, builder, table, row)
    size = LANES if getattr(kind, "part", kind) == _LANES_TYPE else 1
    pointers = []
    for index in range(n_columns):
        offset = builder.mul(row, ir.Constant(row.type, n_columns * size))
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
        return _row(builder, kind, [builder.load(pointer, align=8) for pointer in pointers])

    return kind(table, row, lane_kind), generate


@intrinsic
def store(typing_context, table, row, lanes):
    """Write ``lanes`` to row ``row`` of a table."""

    def generate(context, builder, signature, args):
        pointers = _pointers(context, builder, table, row, lanes, args)
        for column, pointer in zip(_columns(builder, args[2]), pointers, strict=True):
            builder.store(column, pointer, align=8)
        return context.get_dummy_value()

    return types.void(table, row, lanes), generate


@intrinsic
def add_folded(typing_context, table, row, lanes):
    """Add lanes to row ``row`` of a table: several lanes to each of FOLDED columns, or a single lane to one column."""

    def generate(context, builder, signature, args):
        array, row_id = make_array(table)(context, builder, args[0]), context.cast(builder, args[1], row, types.intp)
        data = array.data
        _check_bounds(context, builder, array, row_id)
        parts = _parts(builder, args[2]) if _is_dual(args[2]) else [args[2]]
        if _is_wide(parts[0]):
            parts = [_call(context, builder, narrow, part, result=types.float64) for part in parts]
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
    """Return FOLDED sums, each of LANES / FOLDED lanes, which are added in pairs."""
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


def _filled(context, builder, kind, value, derivative):
    if isinstance(kind, _Dual):
        return _pair(builder, *(_filled(context, builder, kind.part, one, None) for one in (value, derivative)))
    if kind == _WIDE_TYPE:
        return _call(context, builder, widen, value)
    return value if kind == types.float64 else _splat(builder, value)


@intrinsic
def fill(typing_context, value, lane_kind):
    """Return lanes that all contain the constant ``value``."""
    kind = _lanes_of(lane_kind)

    def generate(context, builder, signature, args):
        return _filled(context, builder, kind, args[0], ir.Constant(ir.DoubleType(), 0.0))

    return kind(types.float64, lane_kind), generate


@intrinsic
def fill_dual(typing_context, value, derivative, lane_kind):
    """Return lanes that all contain ``value``; its ``derivative`` is used only for dual numbers."""
    kind = _lanes_of(lane_kind)

    def generate(context, builder, signature, args):
        return _filled(context, builder, kind, *args[:2])

    return kind(types.float64, types.float64, lane_kind), generate


@intrinsic
def is_wide(typing_context, lane_kind):
    """Return, as a compile-time constant, whether lanes are wide numbers, or dual numbers whose parts are."""
    kind = _lanes_of(lane_kind)
    known = ir.Constant(ir.IntType(1), getattr(kind, "part", kind) == _WIDE_TYPE)
    return types.boolean(lane_kind), lambda *_: known


@intrinsic
def limit(typing_context, value, lane_kind):
    """Return lanes that contain ``value``, a limit of scaled passes; for wide numbers, the limit is infinite."""
    kind = _lanes_of(lane_kind)
    unlimited = getattr(kind, "part", kind) == _WIDE_TYPE

    def generate(context, builder, signature, args):
        value = builder.fmul(args[0], ir.Constant(args[0].type, np.inf)) if unlimited else args[0]
        return _filled(context, builder, kind, value, ir.Constant(ir.DoubleType(), 0.0))

    return kind(types.float64, lane_kind), generate


@intrinsic
def fill_weight(typing_context, weight, weight_derivative, score, score_derivative, lane_kind):
    """Return lanes that contain a weight; wide numbers are computed from the score, in case the weight underflows."""
    kind = _lanes_of(lane_kind)
    from_score = getattr(kind, "part", kind) == _WIDE_TYPE

    def generate(context, builder, signature, args):
        if not from_score:
            return _filled(context, builder, kind, *args[:2])
        return _exp(context, builder, _filled(context, builder, kind, *args[2:4]))

    return kind(*[types.float64] * 4, lane_kind), generate


def _pairwise(operation):
    """Return the typing function of an intrinsic, given ``operation(context, builder, left, right)``."""

    def typer(typing_context, left, right):
        def generate(context, builder, signature, args):
            return operation(context, builder, *args)

        return left(left, left), generate

    return typer


def _add(context, builder, left, right):
    if _is_wide(left):
        return _call(context, builder, add_wide, left, right)
    if not _is_dual(left):
        return builder.fadd(left, right)
    pairs = zip(_parts(builder, left), _parts(builder, right), strict=True)
    return _pair(builder, *(_add(context, builder, *pair) for pair in pairs))


def _multiply(context, builder, left, right):
    if _is_wide(left):
        return _call(context, builder, multiply_wide, left, right)
    if not _is_dual(left):
        return builder.fmul(left, right)
    (x, dx), (y, dy) = _parts(builder, left), _parts(builder, right)
    change = _multiply_add(context, builder, x, dy, _multiply(context, builder, dx, y))
    return _pair(builder, _multiply(context, builder, x, y), change)


def _multiply_add(context, builder, left, right, addend):
    if _is_wide(left):
        return _add(context, builder, _multiply(context, builder, left, right), addend)
    if not _is_dual(left):
        return _fused(builder, left, right, addend)
    (x, dx), (y, dy), (z, dz) = (_parts(builder, value) for value in (left, right, addend))
    change = _multiply_add(context, builder, x, dy, _multiply_add(context, builder, dx, y, dz))
    return _pair(builder, _multiply_add(context, builder, x, y, z), change)


def _fused(builder, left, right, addend):
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(product, addend, flags=("contract",))


def _choose(builder, chosen, yes, no):
    if not _is_pair(yes):
        return builder.select(chosen, yes, no)
    pairs = zip(_parts(builder, yes), _parts(builder, no), strict=True)
    return _pair(builder, *(_choose(builder, chosen, *pair) for pair in pairs))


def _value(builder, lanes):
    return _parts(builder, lanes)[0] if _is_dual(lanes) else lanes


def _exceeds(context, builder, left, right):
    left, right = _value(builder, left), _value(builder, right)
    if _is_wide(left):
        return _call(context, builder, exceeds_wide, left, right, result=types.boolean)
    return builder.fcmp_ordered(">", left, right)


def _choose_larger(context, builder, left, right):
    return _choose(builder, _exceeds(context, builder, left, right), left, right)


def _choose_smaller(context, builder, left, right):
    return _choose(builder, _exceeds(context, builder, right, left), left, right)


add = intrinsic(_pairwise(_add))
multiply = intrinsic(_pairwise(_multiply))
largest = intrinsic(_pairwise(_choose_larger))
smallest = intrinsic(_pairwise(_choose_smaller))


@intrinsic
def multiply_add(typing_context, left, right, addend):
    """Return left * right + addend."""

    def generate(context, builder, signature, args):
        return _multiply_add(context, builder, *args)

    return left(left, left, left), generate


@intrinsic
def where_positive(typing_context, condition, yes, no):
    """Return ``yes`` in the lanes where ``condition`` > 0, else ``no``."""

    def generate(context, builder, signature, args):
        value = _value(builder, args[0])
        value = _parts(builder, value)[0] if _is_wide(value) else value
        return _choose(builder, builder.fcmp_ordered(">", value, _constant(value.type, 0.0)), args[1], args[2])

    return condition(condition, condition, condition), generate


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUNDER = 1.5 * 2.0**52  # adding it rounds a number to an integer, in the low bits of the sum


def _of_one(operation):
    """Return the typing function of an intrinsic, given ``operation(context, builder, lanes)``."""

    def typer(typing_context, lanes):
        def generate(context, builder, signature, args):
            return operation(context, builder, args[0])

        return lanes(lanes), generate

    return typer


def _exp(context, builder, x):
    """Return exp(x) for x in [-700, 700], accurate to 1e-15, as 2**n exp(r) with |r| <= ln(2) / 2."""
    if _is_wide(x):
        return _call(context, builder, exp_wide, x)
    if _is_dual(x):
        value, derivative = _parts(builder, x)
        result = _exp(context, builder, value)
        return _pair(builder, result, _multiply(context, builder, result, derivative))
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
    return builder.bitcast(builder.add(builder.bitcast(result, integer), exponent), kind)


def _invert(context, builder, x):
    """Return 1 / x for wide numbers; for other numbers, the code is compiled but never runs."""
    if _is_wide(x):
        return _call(context, builder, invert_wide, x)
    if not _is_dual(x):
        return x
    value, derivative = _parts(builder, x)
    inverse = _invert(context, builder, value)
    change = _multiply(context, builder, _minus(builder, inverse), _multiply(context, builder, inverse, derivative))
    return _pair(builder, inverse, change)


def _minus(builder, x):
    if not _is_wide(x):
        return x
    mantissa, exponent = _parts(builder, x)
    return _pair(builder, builder.fneg(mantissa), exponent)


def _log(context, builder, x):
    """Return the logarithm of wide numbers; for other numbers, as in ``_invert``, the code never runs."""
    if _is_wide(x):
        return _call(context, builder, log_wide, x)
    if not _is_dual(x):
        return x
    value, derivative = _parts(builder, x)
    change = _multiply(context, builder, _invert(context, builder, value), derivative)
    return _pair(builder, _log(context, builder, value), change)


exp = intrinsic(_of_one(_exp))
invert = intrinsic(_of_one(_invert))
log = intrinsic(_of_one(_log))


def _pointer_to_step(context, builder, signature, args):
    """Return a pointer to a vector in an array; the first two arguments are the array and the vector's first index."""
    array = make_array(signature.args[0])(context, builder, args[0])
    start = context.cast(builder, args[1], signature.args[1], types.intp)
    for index in start, builder.add(start, ir.Constant(start.type, STEP - 1)):
        _check_bounds(context, builder, array, index)
    return builder.bitcast(builder.gep(array.data, [start]), _STEP_TYPE.vector.as_pointer())


@intrinsic
def load_step(typing_context, values, start):
    """Return ``values[start : start + STEP]``."""

    def generate(context, builder, signature, args):
        return builder.load(_pointer_to_step(context, builder, signature, args), align=8)

    return _STEP_TYPE(values, start), generate


@intrinsic
def store_step(typing_context, values, start, step):
    """Write ``step`` to ``values[start : start + STEP]``."""

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


BASE, ROOT = 2.0**512, 2.0**256
FAR = 1 << 52  # exponent of infinite numbers, larger than that of any other number

_LN2 = math.log(2.0)
_LOG_BASE = 512 * _LN2


@register_jitable
def add_wide(m, e, n, f):
    """Return the sum of two wide numbers."""
    if m == 0.0 or (f > e and n != 0.0):
        m, e, n, f = n, f, m, e
    if n == 0.0 or f + 1 < e:
        return m, e
    return m + (n if f == e else n / BASE), e


def multiply_wide(m, e, n, f):
    """Return the product of two wide numbers."""
    product = m * n
    if abs(product) > ROOT:
        return product / BASE, e + f + 1
    if abs(product) < 1.0 / ROOT:
        return product * BASE, e + f - 1
    return product, e + f


def exceeds_wide(m, e, n, f):
    """Return whether the first wide number is larger than the second."""
    return add_wide(m, e, -n, f)[0] > 0.0


def exp_wide(m, e):
    """Return the exponential of a wide number."""
    x = narrow(m, e)
    if not abs(x) < 1e17:  # tables contain exponents as float64
        return (0.0, 0) if x < 0.0 else (math.inf, FAR)
    n = x / _LN2 + _ROUNDER - _ROUNDER  # exp(x) = 2**n exp(r)
    exponent = (int(n) + 256) >> 9
    return math.exp(x - n * _LN2_HIGH - n * _LN2_LOW) * 2.0 ** (int(n) - (exponent << 9)), exponent


def invert_wide(m, e):
    """Return 1 / x of a wide number; 0 for 0."""
    return (1.0 / m if m != 0.0 else 0.0), -e


def log_wide(m, e):
    """Return the logarithm of a wide number; -inf for 0."""
    if m == 0.0:
        return -math.inf, FAR
    return math.log(m) + e * _LOG_BASE, 0


def widen(m):
    """Return a float64 as a wide number."""
    return m, FAR if abs(m) == math.inf else 0


@register_jitable
def narrow(m, e):
    """Return the float64 nearest to a wide number."""
    for _ in range(min(abs(e), 4)):
        m = m / BASE if e < 0 else m * BASE
    return m


def narrowed(table):
    """Return a table of wide numbers, each in two columns, as an array of float64."""
    return np.ldexp(table[..., ::2], 512 * np.clip(table[..., 1::2], -4.0, 4.0).astype(np.int32))


def logs_of(table):
    """Return the logarithms of a table of wide numbers, each in two columns; -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(table[..., ::2]) + table[..., 1::2] * _LOG_BASE

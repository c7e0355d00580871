"""What kernel files share: vectors of LANES numbers, the sum network, the automaton's arcs.

A *table of lanes* is a two-dimensional array of float64 with LANES columns, one per sequence of a block, whose rows are
read and written as whole vectors. With ``width=None`` the same operations work on single numbers, for tables of one
column. Without JIT a vector is a numpy array.

Numba keys the disk cache of a kernel on the kernel's own file. Files that use this one therefore state its hash
(``COMMON_SOURCE``, held against it by a test): who changes this file changes those, and nobody runs stale code.
"""

import numpy as np
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

LANES = 16
ir = cgutils.ir  # llvmlite, as numba brings it


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
def load(typing_context, table, row, width):
    """Return row ``row`` of a table of lanes."""

    def generate(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature, args), align=8)

    return _lanes_of(width)(table, row, width), generate


@intrinsic
def store(typing_context, table, row, lanes):
    """Write row ``row`` of a table of lanes."""

    def generate(context, builder, signature, args):
        builder.store(args[2], _pointer(context, builder, signature, args), align=8)
        return context.get_dummy_value()

    return types.void(table, row, lanes), generate


@intrinsic
def fill(typing_context, number, width):
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


add = intrinsic(_binary(lambda builder, left, right: builder.fadd(left, right)))
multiply = intrinsic(_binary(lambda builder, left, right: builder.fmul(left, right)))
largest = intrinsic(_binary(_choose_larger))
smallest = intrinsic(_binary(_choose_smaller))


def _fused(builder, left, right, addend):
    product = builder.fmul(left, right, flags=("contract",))
    return builder.fadd(product, addend, flags=("contract",))


@intrinsic
def multiply_add(typing_context, left, right, addend):
    """Return left * right + addend."""

    def generate(context, builder, signature, args):
        return _fused(builder, *args)

    return left(left, left, left), generate


@intrinsic
def where_positive(typing_context, condition, yes, no):
    """Return ``yes`` in the lanes where ``condition`` > 0, else ``no``."""

    def generate(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], _constant(args[0].type, 0.0)), args[1], args[2])

    return condition(condition, condition, condition), generate


_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_ROUNDER = 1.5 * 2.0**52  # adding it rounds to an integer, kept in the low bits


@intrinsic
def exp(typing_context, lanes):
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
    def load(table, row, width):
        return table[row].copy()

    def store(table, row, lanes):
        table[row] = lanes

    def fill(number, width):
        return np.full(LANES if width else 1, number)

    def multiply_add(left, right, addend):
        return left * right + addend

    def where_positive(condition, yes, no):
        return np.where(condition > 0, yes, no)

    add, multiply, largest, smallest, exp = np.add, np.multiply, np.maximum, np.minimum, np.exp


@njit(cache=True, nogil=True, error_model="numpy")
def sum_network(width, starts, terms, n_states, values):
    """Evaluate the sum network: ``values`` is (P + I, W); its first P rows, alpha, are given."""
    for node in range(len(starts) - 1):
        start = starts[node]
        total = add(load(values, terms[start], width), load(values, terms[start + 1], width))
        for term in range(start + 2, starts[node + 1]):
            total = add(total, load(values, terms[term], width))
        store(values, n_states + node, total)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_adjoints(width, back_starts, back_terms, n_arcs, adjoints):
    """Evaluate the transposed network: ``adjoints`` is (A + J + P, W); its first A rows, b, are given."""
    for node in range(len(back_starts) - 1):
        start = back_starts[node]
        total = load(adjoints, back_terms[start], width)
        for term in range(start + 1, back_starts[node + 1]):
            total = add(total, load(adjoints, back_terms[term], width))
        store(adjoints, n_arcs + node, total)


@njit(cache=True, nogil=True, error_model="numpy")
def largest_adjoints(width, back_starts, back_terms, n_arcs, adjoints):
    """Evaluate the transposed network in the (max, +) semiring."""
    for node in range(len(back_starts) - 1):
        start = back_starts[node]
        most = load(adjoints, back_terms[start], width)
        for term in range(start + 1, back_starts[node + 1]):
            most = largest(most, load(adjoints, back_terms[term], width))
        store(adjoints, n_arcs + node, most)


@njit(cache=True, nogil=True, error_model="numpy")
def resolve(lattice, state, arc_of_label):
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

"""Order 1: the general kernels against kernels for first-order chains alone.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_first_order.py [--quick] [--rounds N] [--tasks T ...]

prints milliseconds of the processor, on one thread, of forward and backward passes by the kernels of
``sklearn_hocrf._kernels.chain`` and by those below, and of whole gradients with either, and their ratios within a
round. The limit is 1.3 for the passes. Emission scores, blocks, lanes, scaling and its checks, and vector instructions
are the same; but where the general kernels follow lists of arcs and additions, these multiply by a dense matrix of
L x L weights, observed label pair or not, with its loops unrolled by hand as far as it helps:

    forward     alpha(j + 1, y) = e(j, y) * sum over p of M(p, y) alpha(j, p)
    backward    beta(j, p) = sum over y of M(p, y) f(j, y),    f(j, y) = e(j, y) beta(j + 1, y)
    counts      P(p, y) = M(p, y) * sum over j of alpha(j, p) f(j, y), lanes folded at once

Both must give the same value and gradient. Needs conll2000, conll2002 and ocr in SKLEARN_HOCRF_DATA or ../shared/data,
and leaves out what is absent; without ocr, words of digits take its place. ``--quick`` takes a few sequences.
"""

import argparse
from contextlib import contextmanager
from functools import partial
from unittest import mock

import bench_chunking
import bench_handwriting
import bench_ner
import numpy as np
from bench_roofline import seconds_of_kernels
from common import absent, print_table, skip_where, some_weights, training_objective, with_spread
from dense_chain import all_transitions
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from threadpoolctl import threadpool_limits

from sklearn_hocrf import HighOrderCRF
from sklearn_hocrf._kernels import chain
from sklearn_hocrf._kernels._common import FOLDED, add, fill, load, multiply, multiply_add, smallest, store

# no cache=True below: the disk cache would not notice a change of the vector instructions in the other file

ir = cgutils.ir  # llvmlite, as numba brings it
MOST = 1.3  # ratio


class FirstOrder:
    """A likelihood by the kernels of this module, on one thread."""

    def __init__(self, objective):
        layout = objective.problem.layout
        states = np.arange(layout.automaton.n_labels)
        if not np.array_equal(layout.automaton.state_label[1:], states) or objective.problem.plan.n_slots:
            raise ValueError("first-order kernels need a chain of order 1 without features of label pairs")
        if any(len(piece.slabs) > 1 for chunk in objective.problem.plan.chunks for piece in chunk):
            raise ValueError("first-order kernels do not know sequences that are cut by position")
        self.objective = objective
        self.arcs = all_transitions(layout.automaton).arc.reshape(-1, layout.automaton.n_labels)

    def value_gradient(self, w):
        with self.in_place():
            return self.objective.value_gradient(w)

    @contextmanager
    def in_place(self):
        """Let the kernels of this module take the place of the general ones."""
        with mock.patch.multiple(chain, forward=self._forward, backward=self._backward):
            yield

    def _weights(self, lattice):
        """Return the weights of the first label of a sequence, and of pairs of neighbours."""
        weights = lattice.arc_weight[self.arcs]
        return weights[0], weights[1:]

    def _forward(self, width, lattice, slab, scratch, carry, scores, *others):
        first, matrix = self._weights(lattice)
        forward(width, first, np.ascontiguousarray(matrix.T), slab, scores, *others[1:])

    def _backward(self, width, lattice, slab, scratch, scores, factors, alpha, inverse_scale, weight, beta, counts):
        first, matrix = self._weights(lattice)
        cells = np.zeros((self.arcs.size, counts.shape[1]))
        backward(width, matrix, slab, scratch, scores, alpha, inverse_scale, weight, cells)
        add_counts(lattice.arc_weight, self.arcs.ravel(), cells, counts)


@njit(nogil=True, error_model="numpy")
def forward(width, first, matrix, slab, scores, alpha, inverse_scale, log_scale, suspect):
    """Run the scaled forward pass of the blocks of a slab, as ``chain.forward``.

    first : (L,)   weights of first labels        matrix : (L, L)   weights of pairs, M(p, y) at [y, p]
    """
    n_labels = len(first)
    n_states, n_columns, n_lanes = n_labels + 1, len(scores) // slab.rows[-1], scores.shape[1]
    totals, lows = np.empty((1, n_lanes)), np.empty((1, n_lanes))
    zero, infinite = fill(0.0, width), fill(np.inf, width)
    for block in range(len(slab.length)):
        start = (slab.rows[block] + block) * n_states
        for state in range(n_states):
            store(alpha, start + state, fill(1.0 if state == 0 else 0.0, width))
        for row in range(slab.rows[block], slab.rows[block + 1]):
            here = (row + block) * n_states + 1
            after = here + n_states
            total, low = zero, infinite
            store(alpha, after - 1, zero)
            if row == slab.rows[block]:
                for label in range(n_labels):
                    product = multiply(fill(first[label], width), load(scores, row * n_columns + label, width))
                    store(alpha, after + label, product)
                    total, low = add(total, product), smallest(product, low)
            else:
                scale = load(inverse_scale, row - 1, width)
                for label in range(0, n_labels, 2):  # two at a time: each alpha is read once for both
                    other = min(label + 1, n_labels - 1)
                    one, two = zero, zero
                    for before in range(n_labels):
                        mass = load(alpha, here + before, width)
                        one = multiply_add(fill(matrix[label, before], width), mass, one)
                        two = multiply_add(fill(matrix[other, before], width), mass, two)
                    score = multiply(load(scores, row * n_columns + label, width), scale)
                    store(scores, row * n_columns + label, score)
                    product = multiply(one, score)
                    store(alpha, after + label, product)
                    total, low = add(total, product), smallest(product, low)
                    if other > label:
                        score = multiply(load(scores, row * n_columns + other, width), scale)
                        store(scores, row * n_columns + other, score)
                        product = multiply(two, score)
                        store(alpha, after + other, product)
                        total, low = add(total, product), smallest(product, low)
            store(totals, 0, total)
            store(lows, 0, low)
            for lane in range(n_lanes):
                inverse_scale[row, lane] = 0.0
                if row - slab.rows[block] < slab.length[block, lane]:
                    safe = chain.SMALLEST_TOTAL <= totals[0, lane] <= 1.0 / chain.SMALLEST_TOTAL
                    if not (safe and lows[0, lane] >= chain.TINY * max(1.0, totals[0, lane])):
                        suspect[block, lane] = 1.0
                    if suspect[block, lane] == 0.0:
                        inverse_scale[row, lane] = 1.0 / totals[0, lane]
                        log_scale[block, lane] += np.log(totals[0, lane])
        stop = (slab.rows[block + 1] + block + 1) * n_states
        for lane in range(n_lanes):
            if suspect[block, lane] > 0.0:
                alpha[start:stop, lane] = 0.0


@intrinsic
def add_product(typing_context, table, row, left, right):
    """Add the product of two lanes to row ``row`` of a table of FOLDED columns; lane i goes to column i % FOLDED."""

    def generate(context, builder, signature, args):
        data = make_array(table)(context, builder, args[0]).data
        single = left == types.float64
        pointer = builder.gep(data, [builder.mul(args[1], ir.Constant(args[1].type, 1 if single else FOLDED))])
        parts = [args[2:]]
        if not single:
            pointer = builder.bitcast(pointer, ir.VectorType(ir.DoubleType(), FOLDED).as_pointer())
            kind = ir.VectorType(ir.IntType(32), FOLDED)
            chosen = [ir.Constant(kind, list(range(i, i + FOLDED))) for i in range(0, chain.LANES, FOLDED)]
            parts = [[builder.shuffle_vector(lanes, lanes, part) for lanes in args[2:]] for part in chosen]
        total = builder.load(pointer, align=8)
        for one, other in parts:
            product = builder.fmul(one, other, flags=("contract",))
            total = builder.fadd(total, product, flags=("contract",))
        builder.store(total, pointer, align=8)
        return context.get_dummy_value()

    return types.void(table, types.intp, left, right), generate


@njit(nogil=True, error_model="numpy")
def backward(width, matrix, slab, flows, scores, alpha, inverse_scale, weight, cells):
    """Run the scaled backward pass and turn ``scores`` into marginals, as ``chain.backward``.

    matrix : (L, L)   weights of pairs, M(p, y) at [p, y]        flows : (2 L, W)   overwritten
    cells : (L + L * L, FOLDED or 1)   increased by the counts of first labels and of pairs, without their weights
    """
    n_labels = len(matrix)
    n_states, n_columns, n_lanes = n_labels + 1, len(scores) // slab.rows[-1], scores.shape[1]
    beta = np.empty((n_labels, n_lanes))
    zero, unit = fill(0.0, width), fill(1.0, width)
    for block in range(len(slab.length) - 1, -1, -1):
        lane_weight, first_row = load(weight, block, width), slab.rows[block]
        beta[:] = 0.0
        for row in range(slab.rows[block + 1] - 1, first_row - 1, -1):
            here = (row + block) * n_states + 1
            for lane in range(n_lanes):
                if slab.last[block, lane] == row - first_row:
                    beta[:, lane] = inverse_scale[row, lane]
            for label in range(n_labels):
                reach, score = load(beta, label, width), row * n_columns + label
                flow = multiply(reach, load(scores, score, width))
                store(flows, label, flow)
                store(flows, n_labels + label, multiply(flow, lane_weight))
                store(scores, score, multiply(load(alpha, here + n_states + label, width), reach))
            if row == first_row:
                for label in range(n_labels):
                    add_product(cells, label, unit, load(flows, n_labels + label, width))
                continue
            for label in range(0, n_labels, 2):
                other = min(label + 1, n_labels - 1)
                one, two = zero, zero
                for onward in range(n_labels):
                    flow = load(flows, onward, width)
                    one = multiply_add(fill(matrix[label, onward], width), flow, one)
                    two = multiply_add(fill(matrix[other, onward], width), flow, two)
                store(beta, label, one)
                store(beta, other, two)
            for before in range(0, n_labels, 2):
                other = min(before + 1, n_labels - 1)
                one, two = load(alpha, here + before, width), load(alpha, here + other, width)
                for label in range(n_labels):
                    flow = load(flows, n_labels + label, width)
                    add_product(cells, n_labels + before * n_labels + label, one, flow)
                    if other > before:
                        add_product(cells, n_labels + other * n_labels + label, two, flow)


@njit(nogil=True, error_model="numpy")
def add_counts(arc_weight, arcs, cells, counts):
    """Add what was counted by first label and by pair of labels to the counts of arcs, times the arcs' weights."""
    for cell in range(len(arcs)):
        for lane in range(cells.shape[1]):
            counts[arcs[cell], lane] += arc_weight[arcs[cell]] * cells[cell, lane]


def chunking(module, quick):
    """Return the likelihood of order 1 of the chunking template on conll2000 or conll2002."""
    if absent(module.TRAIN, module.TEST):
        return None
    chunks = (bench_ner.load_names if module is bench_ner else bench_chunking.load_chunks)(100 if quick else None)
    return training_objective(HighOrderCRF(**bench_chunking.SETTINGS), chunks.train, chunks.y_train)


def handwriting(quick):
    X, y = bench_handwriting.load_words()[0]
    return bench_handwriting.make_objective((X[:50], y[:50]) if quick else (X, y), 1)


TASKS = {
    "conll2000": partial(chunking, bench_chunking),
    "conll2002": partial(chunking, bench_ner),
    "handwriting": handwriting,
}


class Gradient:
    """Value and gradient at order 1, by the general kernels and by those of this module."""

    params = list(TASKS)
    param_names = ["task"]

    def setup(self, task, objective=None):
        self.objective = TASKS[task](False) if objective is None else objective
        skip_where("the data is absent" if self.objective is None else None)
        self.dense, self.w = FirstOrder(self.objective), some_weights(self.objective)

    def time_general(self, task=None):
        return self.objective.value_gradient(self.w)

    def time_first_order(self, task=None):
        return self.dense.value_gradient(self.w)

    def check(self):
        """Raise unless both give the same value and gradient."""
        (value, gradient), (other_value, other_gradient) = self.time_general(), self.time_first_order()
        np.testing.assert_allclose(other_value, value, rtol=1e-10)
        np.testing.assert_allclose(other_gradient, gradient, rtol=1e-10, atol=1e-10 * np.abs(gradient).max())

    def passes(self):
        """Return seconds of forward and backward passes, and of whole gradients; shape (2 kinds of kernels, 2)."""
        seconds = [seconds_of_kernels(self.time_general)]
        with self.dense.in_place():
            seconds.append(seconds_of_kernels(self.time_general))
        return np.array([(found["chain.forward"] + found["chain.backward"], found[None]) for found in seconds])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few sequences")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each comparison (default: %(default)s)")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="which ones (default: all)")
    options = parser.parse_args(arguments)
    lines = []
    for name in options.tasks:
        objective = TASKS[name](options.quick)
        if objective is None:
            print(f"{name}: skipped, the data is absent: set SKLEARN_HOCRF_DATA to the folder of the optional data")
            continue
        case = Gradient()
        case.setup(name, objective)
        with threadpool_limits(1):
            case.check()
            seconds = np.array([case.passes() for _ in range(options.rounds)])
        (general, whole), (dense, whole_dense) = seconds.transpose(1, 2, 0)
        automaton = objective.problem.layout.automaton
        lines.append(
            (
                name,
                automaton.n_labels,
                automaton.n_arcs,
                automaton.n_labels * (automaton.n_labels + 1),
                *(with_spread(1e3 * column, ".1f") for column in (general, dense)),
                with_spread(general / dense, ".2f"),
                "within" if np.median(general / dense) <= MOST else "beyond",
                *(with_spread(1e3 * column, ".1f") for column in (whole, whole_dense)),
                with_spread(whole / whole_dense, ".2f"),
            )
        )
    heads = ["", "labels", "arcs", "dense arcs", "passes, ms", "first order, ms", "ratio", f"limit {MOST}"]
    print_table([*heads, "gradient, ms", "first order, ms", "ratio"], lines)


if __name__ == "__main__":
    main()

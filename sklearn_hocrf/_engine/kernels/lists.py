"""Kernels for lists: features of minibatches, sorted attributes, strings of tokens, and vectors of 16-bit integers.

Features of minibatches: ``find_pairs`` and ``subtract_entries`` compute parts of the gradient of a minibatch, equation
(28) of docs/develop/theory.md. Sequence n of a batch has the entries ``starts[n] .. starts[n + 1]``, one for each of
its features. An entry gives the range ``first .. stop`` of the pairs of its feature, so no dense table is needed.

Sorted attributes: ``sort_ids`` sorts the attribute ids of each token.

Strings of tokens: ``mix_strings`` computes a hash of each string.

Vectors of 16-bit integers: each number of a vector is an integer times the unit of its block. ``dot`` and ``add``
compute products and sums in double precision, as BLAS does, but without a copy of the vector in double precision.

Shapes: n sequences of the batch, K pairs, or K numbers of a vector.
"""

import numpy as np

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def find_pairs(first, stop, starts, sequences, seen, pair_ids, count):
    """List each pair of the features of the given sequences once, and return the number of listed pairs.

    first, stop : (nnz,)        starts : (n + 1,)        sequences : indices of sequences
    seen : (K,)   True at the first pair of each listed feature, in and out
    pair_ids : (K,)   out, from the index ``count`` on
    """
    for sequence in sequences:
        for entry in range(starts[sequence], starts[sequence + 1]):
            if stop[entry] > first[entry] and not seen[first[entry]]:
                seen[first[entry]] = True
                for pair in range(first[entry], stop[entry]):
                    pair_ids[count] = pair
                    count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def subtract_entries(starts, weight_ids, values, sequences, sequence_weight, weights, gradient):
    """Subtract the weighted counts of the given sequences from ``gradient``; return the weighted sum of their scores.

    starts : (n + 1,)        weight_ids : (nnz,)   the counted weights        values : (nnz,), or empty if all are 1
    weights, gradient : one number per weight; the gradient in and out
    sequence_weight : (n,)   factors of the counts and scores
    """
    score = 0.0
    for sequence in sequences:
        for entry in range(starts[sequence], starts[sequence + 1]):
            value = values[entry] if len(values) else 1.0
            score += value * weights[weight_ids[entry]] * sequence_weight[sequence]
            gradient[weight_ids[entry]] -= value * sequence_weight[sequence]
    return score


MOST = 256  # largest number of ids in a row that is sorted by insertion


@njit(cache=True, nogil=True, error_model="numpy")
def sort_ids(indptr, ids, values, ends, sorted_ids, amounts):
    """Sort the ids >= 0 of each row by insertion, and return how many there are in all rows.

    Return -1 if a row contains more than ``MOST`` ids, an id >= 0 twice, or an id >= 0 whose value is 0 or not finite.

    indptr : (N + 1,) int64   the rows of ``ids``, (n,) int32
    values : (n,) float64, or empty
    ends, sorted_ids, amounts : out: the sorted rows, in arrays like ``indptr``, ``ids`` and ``values``
    """
    n_found = 0
    ends[0] = 0
    for row in range(len(indptr) - 1):
        if indptr[row + 1] - indptr[row] > MOST:
            return -1
        first = n_found
        for entry in range(indptr[row], indptr[row + 1]):
            attribute, slot = ids[entry], n_found
            if attribute < 0:
                continue
            while slot > first and sorted_ids[slot - 1] > attribute:
                sorted_ids[slot] = sorted_ids[slot - 1]
                if len(values):
                    amounts[slot] = amounts[slot - 1]
                slot -= 1
            if slot > first and sorted_ids[slot - 1] == attribute:
                return -1
            sorted_ids[slot] = attribute
            if len(values):
                amounts[slot] = values[entry]
                if values[entry] == 0.0 or not np.isfinite(values[entry]):
                    return -1
            n_found += 1
        ends[row + 1] = n_found
    return n_found


FACTOR = np.uint64(0xD1342543DE82EF95)  # odd, so that no two numbers have the same product


@njit(cache=True, nogil=True, error_model="numpy")
def _mixed(left, right):
    """Return a pseudo-random uint64 that depends only on the two numbers."""
    left = (left ^ left >> np.uint64(32)) * FACTOR
    return (left ^ left >> np.uint64(29)) + right


@njit(cache=True, nogil=True, error_model="numpy")
def mix_strings(numbers, start, stop, found):
    """Compute a hash of each string of tokens ``[start, stop)`` from the numbers of its tokens.

    Two blocks of the same length (1, 2, 4 ... tokens), which may overlap, cover each string; the kernel combines the
    hashes of both.

    numbers : (N,) int64   -1 if missing        start, stop : (M,) int64
    found : (M,) int64, out   -1 if the number of a token is missing
    """
    first, last, longest = len(numbers), 0, 1
    for string in range(len(start)):
        first, last = min(first, start[string]), max(last, stop[string])
        longest = max(longest, stop[string] - start[string])
    n_tokens, n_levels = max(last - first, 0), 1
    while 1 << n_levels <= longest:
        n_levels += 1
    blocks, n_missing = np.zeros((n_levels, n_tokens), np.uint64), np.zeros(n_tokens + 1, np.int64)
    for token in range(n_tokens):
        blocks[0, token] = np.uint64(numbers[first + token])
        n_missing[token + 1] = n_missing[token] + (numbers[first + token] < 0)
    for level in range(1, n_levels):
        half = 1 << (level - 1)
        for token in range(n_tokens - 2 * half + 1):
            blocks[level, token] = _mixed(blocks[level - 1, token], blocks[level - 1, token + half])
    for string in range(len(start)):
        begin, end, level = start[string] - first, stop[string] - first, 0
        while 2 << level <= end - begin:
            level += 1
        left = blocks[level, begin] + np.uint64(end - begin)
        number = np.int64(_mixed(left, blocks[level, end - (1 << level)]) >> np.uint64(1))
        found[string] = -1 if n_missing[end] > n_missing[begin] else number


BLOCK = 1 << 14  # numbers with the same unit: there are few units, and a block of doubles fits into the cache
LARGEST = 32767  # integer that represents the largest absolute value of a block
ABREAST = 256  # number of partial sums, to which the processor adds vectors


@njit(cache=True, nogil=True, error_model="numpy")
def dot(values, units, vector, sums):
    """Return the dot product of a vector of 16-bit integers, in blocks of ``BLOCK``, and a vector of doubles.

    Parameters
    ----------
    values : (K,) int16
    units : (n_blocks,) float64
    vector : (K,) float64
    sums : (ABREAST,) float64
        Memory for partial sums, which the kernel overwrites.
    """
    total = 0.0
    for block in range(len(units)):
        first = block * BLOCK
        stop = min(first + BLOCK, len(values))
        sums[:] = 0.0
        for start in range(first, stop, ABREAST):
            integers, doubles = values[start : min(start + ABREAST, stop)], vector[start : min(start + ABREAST, stop)]
            for i in range(len(integers)):
                sums[i] += integers[i] * doubles[i]
        of_block = 0.0
        for i in range(ABREAST):
            of_block += sums[i]
        total += units[block] * of_block
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def add(values, units, factor, vector):
    """Add ``factor`` times a vector of 16-bit integers to a vector of doubles; :func:`dot` describes the arguments."""
    for block in range(len(units)):
        first = block * BLOCK
        stop = min(first + BLOCK, len(values))
        factor_of_block = factor * units[block]
        integers, doubles = values[first:stop], vector[first:stop]
        for i in range(len(integers)):
            doubles[i] += factor_of_block * integers[i]

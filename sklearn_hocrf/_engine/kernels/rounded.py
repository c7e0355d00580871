"""Vectors whose numbers have 16 bits: integers, in units that each block has for itself.

Products and sums are those of BLAS, in double precision, without a copy in double precision.
"""

from ._jit import njit

BLOCK = 1 << 14  # numbers of one unit: few units, and a block of doubles fits into the cache
LARGEST = 32767  # integer that stands for the number of a block that is largest in size
ABREAST = 256  # sums side by side, which a processor adds up by vectors


@njit(cache=True, nogil=True, error_model="numpy")
def dot(values, units, vector, sums):
    """Return the product with a vector of doubles.   K numbers, in blocks of ``BLOCK``.

    Parameters
    ----------
    values : (K,) int16
    units : (n_blocks,) float64
    vector : (K,) float64
    sums : (ABREAST,) float64
        Memory for sums; what it holds before and after has no meaning.
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
    """Add a multiple to a vector of doubles.   As in :func:`dot`."""
    for block in range(len(units)):
        first = block * BLOCK
        stop = min(first + BLOCK, len(values))
        factor_of_block = factor * units[block]
        integers, doubles = values[first:stop], vector[first:stop]
        for i in range(len(integers)):
            doubles[i] += factor_of_block * integers[i]

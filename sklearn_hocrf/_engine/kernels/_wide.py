"""Wide numbers, for values of any size: (m, e) is m * BASE**e. Kernels run on them where scaled passes fail.

Functions take and return float64 m and integer e, one after the other; they are compiled into the intrinsics of
``_vectors``. A product moves m back to [1 / ROOT, ROOT], a sum does not, so m may leave this range by the number of
terms. Terms that are smaller by BASE**2 or more add nothing. The exponent of 0 is arbitrary.
"""

import math

import numpy as np
from numba.extending import register_jitable

BASE, ROOT = 2.0**512, 2.0**256
FAR = 1 << 52  # exponent of infinite numbers: larger than that of any other
_LN2, _LN2_HIGH, _LN2_LOW = math.log(2.0), 0.6931471803691238, 1.9082149292705877e-10
_LOG_BASE = 512 * _LN2
_ROUNDER = 1.5 * 2.0**52  # adding it, and subtracting it, rounds to an integer


@register_jitable
def add_wide(m, e, n, f):
    """Return a sum."""
    if m == 0.0 or (f > e and n != 0.0):
        m, e, n, f = n, f, m, e
    if n == 0.0 or f + 1 < e:
        return m, e
    return m + (n if f == e else n / BASE), e


def multiply_wide(m, e, n, f):
    """Return a product."""
    product = m * n
    if abs(product) > ROOT:
        return product / BASE, e + f + 1
    if abs(product) < 1.0 / ROOT:
        return product * BASE, e + f - 1
    return product, e + f


def exceeds_wide(m, e, n, f):
    """Return whether the first number is larger than the second."""
    return add_wide(m, e, -n, f)[0] > 0.0


def exp_wide(m, e):
    """Return the exponential of a number."""
    x = narrow(m, e)
    if not abs(x) < 1e17:  # exponents are kept as float64
        return (0.0, 0) if x < 0.0 else (math.inf, FAR)
    n = x / _LN2 + _ROUNDER - _ROUNDER  # exp(x) = 2**n exp(r)
    exponent = (int(n) + 256) >> 9
    return math.exp(x - n * _LN2_HIGH - n * _LN2_LOW) * 2.0 ** (int(n) - (exponent << 9)), exponent


def invert_wide(m, e):
    """Return 1 / x, and 0 for 0."""
    return (1.0 / m if m != 0.0 else 0.0), -e


def log_wide(m, e):
    """Return the logarithm of a number, -inf of 0."""
    if m == 0.0:
        return -math.inf, FAR
    return math.log(m) + e * _LOG_BASE, 0


def widen(m):
    """Return the wide number of a float64."""
    return m, FAR if abs(m) == math.inf else 0


@register_jitable
def narrow(m, e):
    """Return the nearest float64."""
    for _ in range(min(abs(e), 4)):
        m = m / BASE if e < 0 else m * BASE
    return m


def narrowed(table):
    """Return a table of wide numbers, in pairs of columns, as an array of float64."""
    return np.ldexp(table[..., ::2], 512 * np.clip(table[..., 1::2], -4.0, 4.0).astype(np.int32))


def logs_of(table):
    """Return the logarithms of a table of wide numbers, each in two columns; -inf of 0."""
    with np.errstate(divide="ignore"):
        return np.log(table[..., ::2]) + table[..., 1::2] * _LOG_BASE

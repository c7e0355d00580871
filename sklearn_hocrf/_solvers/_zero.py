"""The maximum of a concave function of one positive variable."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

__all__ = ["zero_of_slope"]


def zero_of_slope(slope: Callable[[float], float], bounds: tuple[float, float], *, flat: float, tol: float) -> float:
    """Return where the slope of a concave function is 0, or the nearest bound.

    The search begins at 1 and doubles or halves the variable until the slope changes its sign.

    Parameters
    ----------
    slope : callable
        The derivative, which must be decreasing.
    bounds : tuple of float
        Lowest and highest value of the variable, below and above 1.
    flat : float
        Size of slopes that may be rounding errors: a change of sign must be larger. A function that increases for ever,
        more and more slowly, therefore leads to the bound.
    tol : float
        Relative error of the result.
    """
    at_one = slope(1.0)
    if abs(at_one) <= flat:
        return 1.0
    sign, factor, bound = (1, 2.0, bounds[1]) if at_one > 0 else (-1, 0.5, bounds[0])
    near = far = 1.0
    while far != bound:
        far = float(np.clip(far * factor, *bounds))
        at_far = sign * slope(far)
        if at_far < -flat:
            return float(brentq(slope, near, far, xtol=tol * min(near, far), rtol=max(tol, 1e-15)))
        if at_far > flat:
            near = far
    return bound

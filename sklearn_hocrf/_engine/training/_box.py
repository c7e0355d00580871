"""Minimisation of a smooth function of a few variables in a box."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from .solvers import Point

PATIENCE = 2


class SearchEnd(Exception):
    """End :func:`minimize_in_box`. A separate class, which no user code raises."""


def minimize_in_box(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    bounds: tuple[ArrayLike, ArrayLike],
    *,
    max_evaluations: int,
    tol: float,
    first: float = 1.0,
) -> None:
    """Evaluate a function at ever better points of a box, by scipy's L-BFGS-B.

    The first step of L-BFGS-B is as long as the gradient, which depends on the units of the function. The function is
    therefore scaled so that the first step has a length of about ``first``.

    Parameters
    ----------
    function : callable
        Returns value and gradient at a point; shape (n,). It must record the results it needs, and may end the search
        by raising :class:`SearchEnd`.
    start : ndarray of shape (n,)
    bounds : tuple of float, or of ndarray of shape (n,)
        Lowest and highest value, of all variables or of each.
    max_evaluations : int
        Number of evaluations after which no further step is begun.
    tol : float
        Stop when ``PATIENCE`` evaluations in a row lower the function by less than this fraction of its value. A single
        one may be a step that is too long; with inexact values, more of them would be in vain. The second one is
        omitted if the gradient at the best point predicts a smaller decrease, which is an upper bound for a convex
        function.
    first : float
        Length of the first step.
    """
    if not len(start):
        with suppress(SearchEnd):
            function(start)
        return
    scale, best, in_vain, n_left = None, None, 0, max_evaluations

    def promise(x):
        """Return the decrease of the function from the best point to another one, to first order."""
        return float(best.gradient @ (best.w - x))

    def scaled(x):
        nonlocal scale, best, in_vain, n_left
        if n_left == 0 or in_vain == PATIENCE or (in_vain and promise(x) < tol * abs(best.value)):
            raise SearchEnd
        value, gradient = function(x)
        n_left -= 1
        in_vain = in_vain + 1 if best is not None and best.value - value < tol * abs(value) else 0
        if best is None or value < best.value:
            best = Point(x.copy(), value, gradient, gradient)
        if scale is None:
            steepest = np.linalg.norm(gradient)
            scale = first / steepest if steepest > 0 else 1.0
        return scale * value, scale * gradient

    box = list(zip(*np.broadcast_arrays(*bounds, start)[:2], strict=True))
    options = {"ftol": 0.0, "gtol": 0.0}  # their units are those of the function
    with suppress(SearchEnd):
        minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=box, options=options)

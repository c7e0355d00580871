"""Minimisation of a smooth function of a few variables in a box."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

__all__ = ["minimize_in_box"]


def minimize_in_box(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    bounds: tuple[float, float],
    *,
    max_evaluations: int,
    tol: float,
) -> None:
    """Evaluate a function at ever better points of a box, by scipy's L-BFGS-B.

    The first step of L-BFGS-B is as long as the gradient, whatever units the function has. So the function is scaled:
    the first step has a length of about 1.

    Parameters
    ----------
    function : callable
        Gives value and gradient at a point; shape (n,). It keeps what it is interested in.
    start : ndarray of shape (n,)
    bounds : tuple of float
        Lowest and highest value of all variables.
    max_evaluations : int
        Number of evaluations after which no other step is begun.
    tol : float
        Stop when a step changes the scaled function by less than this share of it.
    """
    scale = None
    n_left = max_evaluations

    def scaled(x):
        nonlocal scale, n_left
        if n_left == 0:
            raise StopIteration
        n_left -= 1
        value, gradient = function(x)
        if scale is None:
            steepest = np.linalg.norm(gradient)
            scale = 1.0 / steepest if steepest > 0 else 1.0
        return scale * value, scale * gradient

    try:
        minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=[bounds] * len(start), options={"ftol": tol})
    except StopIteration:
        return

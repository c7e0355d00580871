"""Newton's method with conjugate gradients, for smooth functions with second derivatives."""

from __future__ import annotations

from ._smooth import SmoothSolver

__all__ = ["NewtonCG"]


class NewtonCG(SmoothSolver):
    """Newton's method, its steps found by conjugate gradients (scipy's Newton-CG).

    Each iteration solves for the step of Newton's method, the more precisely the smaller the gradient, by products of
    the Hessian with vectors. A product costs about two gradients of time and counts as one pass over the data.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when ``norm(gradient) <= tol * max(1, norm(w))``.
    max_iter : int, default=500
        Most iterations, each of many passes.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration.

    References
    ----------
    .. [1] Nocedal and Wright, "Numerical optimization", 2nd edition, 2006, section 7.1.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import NewtonCG
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(solver=NewtonCG(tol=1e-8)).fit(X, y)
    >>> round(float(crf.objective_history_[-1]), 3), crf.n_iter_ < crf.n_passes_
    (3.71, True)
    """

    needs = {"objective": ("value_gradient", "hessp"), "penalty": ("value_gradient", "hessp")}
    instead = "Use solver='lbfgs', which asks for no second derivatives and takes l1_reg > 0, too"

    def _settings(self, function, max_iter):
        return {"method": "Newton-CG", "hessp": function.hessp, "options": {"maxiter": max_iter, "xtol": 0}}

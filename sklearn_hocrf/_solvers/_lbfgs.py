"""Limited-memory BFGS, for smooth functions."""

from __future__ import annotations

from ._smooth import SmoothSolver

__all__ = ["LBFGS"]


class LBFGS(SmoothSolver):
    """Limited-memory BFGS (scipy's L-BFGS-B without bounds).

    Parameters
    ----------
    tol : float
        Stop when ``norm(gradient) <= tol * max(1, norm(w))``.
    max_iter : int
        Most iterations.
    callback : callable or None
        Called with a :class:`Progress` after each iteration.
    """

    needs = {"objective": ("value_gradient",), "penalty": ("value_gradient",)}
    instead = "For l1_reg > 0 use solver='lbfgs', which stands for OWLQN then, or an OWLQN"
    memory = 10  # correction pairs

    def _settings(self, function, max_iter):
        options = {"maxcor": self.memory, "maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0, "gtol": 0}
        return {"method": "L-BFGS-B", "options": options}

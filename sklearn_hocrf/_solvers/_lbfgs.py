"""Limited-memory BFGS, for smooth functions."""

from __future__ import annotations

from ._smooth import SmoothSolver

__all__ = ["LBFGS"]


class LBFGS(SmoothSolver):
    """Limited-memory BFGS (scipy's L-BFGS-B without bounds).

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when ``norm(gradient) <= tol * max(1, norm(w))``.
    max_iter : int, default=500
        Most iterations.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each iteration.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import LBFGS
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> values = []
    >>> solver = LBFGS(tol=1e-8, callback=lambda progress: values.append(progress.value))
    >>> crf = HighOrderCRF(solver=solver).fit(X, y)
    >>> len(values) == crf.n_iter_, round(values[-1], 3)
    (True, 3.71)
    """

    needs = {"objective": ("value_gradient",), "penalty": ("value_gradient",)}
    instead = "For l1_reg > 0 use solver='lbfgs', which stands for OWLQN then, or an OWLQN"
    memory = 10  # correction pairs

    def _settings(self, function, max_iter):
        options = {"maxcor": self.memory, "maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": 0, "gtol": 0}
        return {"method": "L-BFGS-B", "options": options}

"""Limited-memory BFGS, for smooth functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from ._common import Progress, SolverReport, add_values

__all__ = ["LBFGS"]


class LBFGS:
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

    def __init__(self, tol=1e-4, max_iter=500, callback: Callable[[Progress], None] | None = None):
        self.tol, self.max_iter, self.callback = tol, max_iter, callback

    def solve(self, objective, penalty, w0) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``.

        Raises
        ------
        ValueError
            If values or gradients are so large that their squares overflow.
        """
        w0 = np.array(w0, dtype=np.float64)
        last = {"w": None}  # the newest evaluation: as a rule scipy accepts it before it calls back

        def value_gradient(w):
            if not np.array_equal(w, last["w"]):
                value, gradient = add_values(objective.value_gradient(w), penalty.value_gradient(w))
                last.update(w=w.copy(), value=value, gradient=gradient)
            return last["value"], last["gradient"]

        def done(w, gradient):
            return np.linalg.norm(gradient) <= self.tol * max(1.0, np.linalg.norm(w))

        value, gradient = value_gradient(w0)
        state = {"w": w0, "gradient": gradient, "converged": done(w0, gradient)}
        history = [value]

        def after_iteration(intermediate_result):
            value, gradient = value_gradient(intermediate_result.x)
            state.update(w=last["w"], gradient=gradient, converged=done(last["w"], gradient))
            history.append(value)
            if self.callback is not None:
                norm = float(np.linalg.norm(state["gradient"]))
                self.callback(Progress(len(history) - 1, history[-1], norm, penalty.gap(norm)))
            if state["converged"]:
                raise StopIteration

        message = "converged" if state["converged"] else "no iteration is allowed"
        if not state["converged"] and self.max_iter > 0:
            # our own stopping rule replaces scipy's
            options = {"maxcor": self.memory, "maxiter": self.max_iter, "maxfun": 20 * self.max_iter}
            options |= {"ftol": 0, "gtol": 0}
            result = minimize(
                value_gradient, w0, jac=True, method="L-BFGS-B", callback=after_iteration, options=options
            )
            if not state["converged"]:
                message = str(result.message)
        norm = float(np.linalg.norm(state["gradient"]))
        n_iter, converged = len(history) - 1, bool(state["converged"])
        return SolverReport(state["w"], n_iter, np.array(history), norm, penalty.gap(norm), converged, message)

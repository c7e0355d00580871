"""Penalties on the weights: functions of a vector, which know nothing of sequences."""

from __future__ import annotations

import numpy as np

__all__ = ["L2"]


class L2:
    """Gaussian prior: the penalty is the sum of ``precision * w**2 / 2``.

    Parameters
    ----------
    precision : ndarray of shape (n_weights,)
        ``1 / sigma**2`` of each weight; 0 for a weight without penalty.
    """

    def __init__(self, precision):
        self.precision = np.asarray(precision, dtype=np.float64)

    def value_gradient(self, w) -> tuple[float, np.ndarray]:
        """Return the penalty of ``w`` and its gradient."""
        gradient = self.precision * w
        return 0.5 * float(gradient @ w), gradient

    def gap(self, gradient_norm) -> float:
        """Bound how far a convex objective plus this penalty lies above its minimum, from the norm of its gradient.

        The sum is strongly convex with the smallest precision as modulus, so the gap is at most ``norm**2 / (2
        modulus)``; inf where some weight has no penalty.
        """
        weakest = float(self.precision.min()) if len(self.precision) else 1.0
        return np.inf if weakest == 0 else gradient_norm**2 / (2 * weakest)

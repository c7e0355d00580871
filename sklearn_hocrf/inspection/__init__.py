"""Uncertainty of the weights and of the predictions of a fitted model.

Standard errors by the Laplace approximation: near the optimum the posterior of the weights is about a Gaussian, whose
precision is the Hessian of the training objective plus that of the penalty.
"""

from ._standard_errors import log_odds_standard_errors, weight_standard_errors

__all__ = ["log_odds_standard_errors", "weight_standard_errors"]

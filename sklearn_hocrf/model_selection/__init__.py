"""Models that choose their own penalties.

:class:`PenaltySearchCV` learns one ``sigma_reg`` for each group of weights by cross-validation, with exact gradients:
many groups cost little more than one. scikit-learn's searches serve for everything else.
"""

from ._display import PenaltySearchDisplay
from ._penalty_search import PenaltySearchCV

__all__ = ["PenaltySearchCV", "PenaltySearchDisplay"]

"""Models that choose their own penalties, and predictions by cross-validation.

:class:`PenaltySearchCV` learns one ``sigma_reg`` for each group of weights by cross-validation, with exact gradients:
many groups cost little more than one. :func:`cross_val_predict` predicts each sequence by a model that has not seen it.
scikit-learn's searches serve for everything else.
"""

from ._display import PenaltySearchDisplay
from ._penalty_search import PenaltySearchCV
from ._predictions import cross_val_predict

__all__ = ["PenaltySearchCV", "PenaltySearchDisplay", "cross_val_predict"]

"""Training criteria: functions of the weight vector, without any penalty."""

from ._base import Objective
from ._likelihood import NegativeLogLikelihood
from ._local_feature_matching import LocalFeatureMatching
from ._margin import Hinge, Perceptron
from ._partial import PartialLikelihood
from ._problem import LARGE, Problem
from ._scores import ScoredLikelihood, predict_from_scores, sequence_log_likelihood
from ._tied import Tied

__all__ = [
    "LARGE",
    "Hinge",
    "LocalFeatureMatching",
    "NegativeLogLikelihood",
    "Objective",
    "PartialLikelihood",
    "Perceptron",
    "Problem",
    "ScoredLikelihood",
    "Tied",
    "predict_from_scores",
    "sequence_log_likelihood",
]

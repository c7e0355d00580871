"""Training criteria: functions of the weight vector, without any penalty."""

from ._likelihood import LocalFeatureMatching, NegativeLogLikelihood
from ._problem import LARGE, Objective, Problem, Tied
from ._scores import predict_from_scores, sequence_log_likelihood

__all__ = [
    "LARGE",
    "OBJECTIVES",
    "LocalFeatureMatching",
    "NegativeLogLikelihood",
    "Objective",
    "Problem",
    "Tied",
    "predict_from_scores",
    "sequence_log_likelihood",
]

OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in (NegativeLogLikelihood, LocalFeatureMatching)}

"""Training criteria: functions of the weight vector, without any penalty."""

from .objectives import LocalFeatureMatching, NegativeLogLikelihood
from .problem import LARGE, Objective, Problem, Tied

__all__ = [
    "LARGE",
    "OBJECTIVES",
    "LocalFeatureMatching",
    "NegativeLogLikelihood",
    "Objective",
    "Problem",
    "Tied",
]

OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in (NegativeLogLikelihood, LocalFeatureMatching)}

"""Training criteria: functions of the weight vector, without any penalty."""

from ._base import Objective
from ._likelihood import NegativeLogLikelihood
from ._problem import ChainProblem, Problem, SegmentProblem

__all__ = ["ChainProblem", "NegativeLogLikelihood", "Objective", "Problem", "SegmentProblem"]

"""Training criteria: functions of the weight vector, without any penalty."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from ..inference.minibatches import Minibatches, shuffled_minibatches
from .problem import Problem

_MOST_STEPS = 128  # per kernel call: Python handles an interrupt (Ctrl-C) only between calls


class Minibatch(NamedTuple):
    """A few sequences, and the negative log-likelihood of their labels, which depends on M weights."""

    source: Minibatches
    sequences: np.ndarray  # int64
    weights: np.ndarray  # (M,) int64   the weights that the function depends on, each once

    @property
    def n_sequences(self) -> int:
        return len(self.sequences)

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value at ``w``, of shape (K,), and the M derivatives; only the M elements of ``w`` are read."""
        value, gradient = self.source.value_gradient(w, self.sequences, self.weights)
        return max(value, 0.0), gradient


class Objective:
    """A training criterion; once bound to labelled data, it is a function of the weights, without the penalty.

    Attributes
    ----------
    name : str
        The value that selects the criterion in the estimators' parameter ``objective``.
    excludes : tuple of str
        The features and circumstances of a fit that the criterion does not support, by their names in
        ``_estimator/fit/parameters.py``.
    problem : Problem
        The data to which the objective is bound.
    is_convex : bool
        Whether the function is convex, so that the norm of a gradient bounds the distance from the minimum.
    depends_on_scores_only : bool
        Whether the function depends on the weights only through scores.
    """

    name: str
    excludes: tuple[str, ...] = ()
    problem: Any = None  # until it is bound
    n_weights: int  # of a bound objective
    n_sequences: int
    is_convex = True
    depends_on_scores_only = False

    def bind(self, problem: Problem) -> Self:
        """Return a copy of this criterion that is bound to labelled data."""
        bound = copy.copy(self)
        bound.problem = problem
        bound.n_weights, bound.n_sequences = problem.n_weights, problem.n_sequences
        bound._prepare()
        return bound

    def _prepare(self):
        """Compute all values that do not depend on the weights."""

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient of a bound criterion at ``w``, of shape (n_weights,)."""
        raise NotImplementedError

    def starting_objective(self) -> Objective | None:
        """Return the criterion that trains the starting weights, or None to start from 0."""
        return None

    def separates(self, w: np.ndarray) -> bool:
        """Return whether ``w`` makes the labels of each sequence more probable than all other labellings together.

        These labels then have the highest score. If ``w`` is multiplied by ever larger numbers, the probabilities of
        these labels approach 1, and the criterion approaches 0: without a penalty on these weights, there is no
        optimum.
        """
        return self.problem.separated_by(w)


class NegativeLogLikelihood(Objective):
    """Negative log-likelihood of labelled sequences.   K weights.

        f(w) = sum_n c_n [ log Z(x_n; w) - score(x_n, y_n; w) ],     gradient = expected counts - empirical counts

    (JMLR 15, section 2.3). ``w`` and the gradient have shape (K,), in the order of the :class:`~.layout.WeightLayout`.
    Values are in nats, summed over sequences; c_n are the sequences' weights.

    If some labels are missing, score(x_n, y_n) is log Z over the labellings that agree with the known labels, and the
    empirical counts are the expected counts over these labellings. Then f is not convex.
    """

    name = "likelihood"
    depends_on_scores_only = True

    def _prepare(self):
        self._empirical, self._partial = self.problem.empirical_counts(), self.problem.partial
        self.is_convex = self._partial is None

    def value(self, w: np.ndarray) -> float:
        """Return f(w) for data without missing labels, computed with only a forward pass."""
        return self._value(self.problem.posterior(w).log_z(), w)

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient, from one forward-backward pass, and another one if labels are missing."""
        problem = self.problem
        expected = problem.posterior(w).expectations(problem.sequence_weight)
        score, gradient = 0.0, expected.counts
        gradient -= self._empirical
        if self._partial is not None:
            weight = self._partial.sequence_weight
            agreeing = self._partial.posterior(w).expectations(weight)
            score = float(weight @ agreeing.log_z)
            gradient -= agreeing.counts
        return self._value(expected.log_z, w, score), gradient

    def hessp(self, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian at ``w`` and a vector, from a forward-backward pass on dual numbers.

        The Hessian is the sum over sequences of c_n times the covariance of the feature counts. It does not depend on
        the labels, none of which may be missing.
        """
        return self.problem.posterior(w).hessian_vector_product(v, self.problem.sequence_weight)

    def part(self, sequences: np.ndarray) -> Self:
        """Return the objective of the sequences with the given indices."""
        return self.bind(self.problem.part(sequences))

    def minibatches(self, batch_size: int, rng: np.random.RandomState, course: Any = None) -> Iterator[Minibatch]:
        """Yield all sequences, in random order and at most ``batch_size`` at a time.

        With a course, kernels take the steps that they support, and only the other minibatches are yielded.

        Parameters
        ----------
        batch_size : int
            Maximum number of sequences of a minibatch.
        rng : numpy.random.RandomState
            The generator that draws the order.
        course : Course or None
            The weights and sums that :class:`SGD` updates during an epoch; changed in place.
        """
        source = self.problem.minibatches
        batches = shuffled_minibatches(self.problem.batch.lengths, batch_size, rng)
        first = 0
        while first < len(batches):
            n_done = 0 if course is None else source.descend(batches[first : first + _MOST_STEPS], course)
            if not n_done:
                yield Minibatch(source, batches[first], source.weights(batches[first]))
            first += max(n_done, 1)

    def _value(self, log_z, w, agreeing=0.0):
        # rounding errors of huge scores may be larger than the difference
        return max(float(self.problem.sequence_weight @ log_z - self._empirical @ w) - agreeing, 0.0)


class LocalFeatureMatching(Objective):
    """Squared distances between feature vectors and their expectations, position by position.   K weights.

        f(w) = sum_n c_n sum_j norm( phi_j(y_n) - E[phi_j(y) given x_n; w] )^2

    The vector phi_j contains one component for each weight: the count of its feature at position j (for segments: in
    candidate segment j). c_n are the sequences' weights. At the maximum of the likelihood without a penalty, the
    differences add up to 0 over the whole data; this criterion makes each of them small. The function is not convex.
    Training starts from weights that were trained by maximum likelihood.

    Kim (2014) proposed this criterion for chains of order 1, and computed its gradient with recursions over vectors as
    long as the weight vector. Here, one pass on dual numbers computes the gradient, for any order and for segments. The
    data are processed in parts, in which each place (a position and a pattern) has a separate weight; see ``Matching``.
    """

    name = "local_feature_matching"
    excludes = "pruning", "segment history", "a stochastic solver", "parts", "missing labels", "learned penalties"
    is_convex = False

    def starting_objective(self) -> Objective:
        """Return the criterion that trains the starting weights."""
        return NegativeLogLikelihood()

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(w) and its gradient, computed with a plain forward-backward pass and another one on dual numbers."""
        return self.problem.matching.value_gradient(w)


OBJECTIVES: dict[str, type[Objective]] = {kind.name: kind for kind in (NegativeLogLikelihood, LocalFeatureMatching)}

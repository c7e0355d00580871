"""The held-out likelihood of one fold, and its gradient with respect to the penalties.

Let ``f`` be the negative log-likelihood of the training part, ``L`` the negative log-likelihood of the held-out part,
and ``lambda_g = sigma_g**-2`` the precision of the weights ``w_g`` of each group. Equation (30) of
docs/develop/theory.md then gives the weights, and (31) the gradient of the score (Foo, Do and Ng, "Efficient multiple
hyperparameter learning for log-linear models", NIPS 2007). Both the weights and the vector zeta in (31) are computed
only to a tolerance (Pedregosa, "Hyperparameter optimization with approximate gradient", ICML 2016), starting from the
values of the previous step. The curvature pairs of L-BFGS are kept from step to step, corrected by (33), and
precondition the conjugate gradients. Keeping the pairs and preconditioning together halve the number of passes.

With an L1 penalty, these equations hold on the support, the weights that are not 0, where the absolute values are
linear (Bertrand, Klopfenstein, Blondel, Vaiter, Gramfort and Salmon, "Implicit differentiation of Lasso-type models for
hyperparameter optimization", ICML 2020). The score is continuous, but has a kink wherever a weight becomes 0 or moves
away from 0. The gradient is the derivative on the side of the kink where the trained weights are. A finite difference
across a kink is therefore a mean of two gradients, and training to a loose tolerance may end on the wrong side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from .lbfgs import LBFGSMemory, LBFGSMinimizer
from .minimise import Tied, tie_weights
from .objectives import NegativeLogLikelihood
from .penalties import Penalty
from .problem import Problem
from .solvers import shortest_subgradient

MOST_PAIRS = 100  # pairs of curvature on the support, each stored twice
MOST_PRODUCTS = 60  # Hessian-vector products for one linear system; the next step starts from its solution
# The loss is corrected to first order for incomplete training. If the correction exceeds this share of the loss, the
# second order matters as well, and training continues with a finer tolerance.
MOST_CORRECTION = 0.02
FINER, MOST_TRAININGS = 0.3, 6
USEFUL = 0.99
NORM = 3.0  # training also ends if the gradient, relative to the weights, is a third of the tolerance


class FoldStep(NamedTuple):
    """The results of one choice of penalties on one fold.   G groups."""

    score: float  # log-likelihood per held-out token, in nats
    gradient: np.ndarray  # (G,) or (2G,)   of the score with respect to log sigma, and to log l1 if it is learned
    accuracy: float  # share of the held-out tokens that are predicted correctly
    n_passes: int  # passes over the training part
    seconds: float
    converged: bool  # whether training converged


class Fold:
    """A training part and a held-out part of the data, with the layout of the training part.

    Parameters
    ----------
    training, held_out : Problem
        The two parts, with the same layout.
    groups : ndarray of shape (n_weights,), int
        Group of each weight.
    strength : ndarray of shape (n_weights,)
        Strength of the L1 penalty of each weight; ignored if the search learns the strengths.
    n_groups : int
        Number of groups G; some may have no weights in a fold.
    accuracy : callable
        Maps weights to the accuracy on the held-out part.
    max_iter : int
        Maximum number of iterations of training.
    origin : object
        The inputs from which the fold was made; the fold itself does not read them.
    """

    residual = 0.01  # of the linear system, relative to its right-hand side, unless a step specifies another one

    def __init__(
        self,
        training: Problem,
        held_out: Problem,
        groups: np.ndarray,
        strength: np.ndarray,
        n_groups: int,
        accuracy: Callable[[np.ndarray], float],
        max_iter: int,
        origin: Any,
    ) -> None:
        self.origin = origin
        # weights that training cannot distinguish share one variable, as in fit
        kinds = np.unique(np.stack([groups, strength]), axis=1, return_inverse=True)[1].ravel()
        self._ties = tie_weights(training.layout, training.batch, kinds)
        likelihood = NegativeLogLikelihood()
        self._training = _Counted(Tied(likelihood.bind(replace(training, layout=self._ties.layout)), self._ties))
        self._held_out = likelihood.bind(held_out)
        self._n_tokens = float(held_out.sequence_weight @ held_out.batch.lengths)
        n_variables = len(self._ties.root)
        self._group, self._n_groups = np.zeros(n_variables, dtype=np.int64), n_groups
        self._group[self._ties.variable] = groups
        self._given = np.zeros(n_variables)
        self._given[self._ties.variable] = strength
        self._accuracy, self._max_iter = accuracy, max_iter
        self.start()
        self.forget()

    def start(self, weights: np.ndarray | None = None) -> None:
        """Make the next step start from ``weights``; None means from 0."""
        n_variables = len(self._ties.root)
        u = np.zeros(n_variables) if weights is None else self._ties.narrow(weights)
        self.state = u, np.zeros(n_variables)  # the weights and the solution of the linear system

    def forget(self) -> None:
        """Discard the curvature, which takes most of the memory; the next step starts without it."""
        n_variables = len(self._ties.root)
        self._curvature, self._precision = LBFGSMemory.of_size(n_variables), np.zeros(n_variables)

    @property
    def weights(self) -> np.ndarray:
        """The weights of the last step; shape (n_weights,)."""
        return self._ties.widen(self.state[0])

    def useful_l1(self) -> float:
        """Return the approximate strength of an L1 penalty at which 1 % of the weights move away from 0."""
        slope = np.abs(self._training.gradient(np.zeros(len(self._group)))) / self._ties.root
        return float(np.quantile(slope, USEFUL)) if len(slope) else 0.0

    def step(
        self, logs: np.ndarray, tol: float, residual: float = residual, error: float = np.inf, before: float = np.nan
    ) -> FoldStep:
        """Return the score and its gradient for one choice of penalties.

        Parameters
        ----------
        logs : ndarray of shape (G,) or (2G,)
            Logarithms of the groups' standard deviations, followed by those of their L1 strengths if these are learned.
        tol : float
            Tolerance of training; a finer tolerance is used if this one does not suffice.
        residual : float
            Norm of the residual of the linear system, relative to its right-hand side. This residual accounts for most
            of the error of the gradient.
        error : float
            If this number is finite, training continues with finer tolerances until the relative change of the score is
            at most ``error``. The size of the first-order correction of the score does not suffice as a criterion,
            because the correction may be 0 by chance.
        before : float
            The score for these penalties after less precise training, if known.
        """
        begun, passes = time.perf_counter(), self._training.n_passes
        precision, strength = self._penalties(logs)
        self._curvature.shift(precision - self._precision)
        self._precision = precision
        penalty = Penalty(precision, strength)
        u, v = self.state
        for _ in range(MOST_TRAININGS):
            solver = _ByDistance(tol=tol, max_iter=self._max_iter)
            report = solver.solve(self._training, penalty, u, self._curvature)
            u = report.w
            loss, slope = self._held_out.value_gradient(self._ties.widen(u))
            smooth = self._training.gradient(u) + precision * u
            steepest = shortest_subgradient(u, smooth, strength)
            support = (u != 0) | (steepest != 0) | (strength == 0)  # including weights about to enter
            # narrow is also the transpose of widen
            v = self._adjoint(u, self._ties.narrow(slope), v, residual, support)
            correction = float(v @ steepest)
            score = (correction - loss) / self._n_tokens
            has_changed = np.isfinite(error) and not abs(score - before) <= error * abs(score)
            if abs(correction) <= MOST_CORRECTION * loss and not has_changed:
                break
            before = score
            tol *= FINER
        self.state = u, v
        signs = np.where(u != 0, np.sign(u), -np.sign(steepest))
        slopes = 2.0 * precision * u * v, -strength * signs * v
        of_groups = [np.bincount(self._group, part, self._n_groups) for part in slopes[: len(logs) // self._n_groups]]
        gradient, accuracy = -np.concatenate(of_groups) / self._n_tokens, self._accuracy(self.weights)
        passes, seconds = self._training.n_passes - passes, time.perf_counter() - begun
        return FoldStep(score, gradient, accuracy, passes, seconds, report.converged)

    def _penalties(self, logs):
        """Return the precision and strength of each variable; the L1 penalty of a tie is the sum over its weights."""
        log_sigma, log_l1 = logs[: self._n_groups], logs[self._n_groups :]
        strength = np.exp(log_l1)[self._group] if len(log_l1) else self._given
        return np.exp(-2.0 * log_sigma)[self._group], strength * self._ties.root

    def _adjoint(self, u, slope, start, residual, support):
        """Return the vector v that the Hessian on the support maps to ``slope``, up to a residual; v is 0 elsewhere.

        The Hessian is that of the penalised training objective. The search for v begins at ``start``.
        """
        result = np.zeros(len(slope))
        if not support.any():
            return result

        def product(part):
            direction = np.zeros(len(slope))
            direction[support] = part
            return (self._training.hessp(u, direction) + self._precision * direction)[support]

        inverse = self._curvature.solve
        if not support.all() and len(self._curvature):
            of_support = self._curvature.restricted(np.flatnonzero(support), MOST_PAIRS)
            inverse = partial(of_support.solve, fixed=np.zeros(support.sum(), dtype=bool))
        elif not support.all():
            inverse = np.array
        shape = (int(support.sum()),) * 2
        hessian, inverse = (LinearOperator(shape, matvec=times, dtype=np.float64) for times in (product, inverse))
        options = {"x0": start[support], "M": inverse, "rtol": residual, "maxiter": MOST_PRODUCTS}
        result[support] = cg(hessian, slope[support], **options)[0]
        return result


class _ByDistance(LBFGSMinimizer):
    """A minimiser that stops when a bound on the distance from the minimum or the norm of the gradient is small.

    The second-order error of the score is about as large as this distance, and the fold corrects for the first-order
    error. The norm matters if the penalties are too weak for a useful bound.
    """

    def _reached(self, objective, penalty, point) -> float:
        gap = np.sqrt(penalty.gap(point.steepest) / max(abs(point.value), np.finfo(float).tiny))
        norm = np.linalg.norm(point.steepest) / max(1.0, float(np.linalg.norm(point.w)))
        return min(float(gap), NORM * float(norm))


class _Counted:
    """An objective that counts the passes over its data and stores the last gradient."""

    is_convex = True

    def __init__(self, objective):
        self._objective, self._newest = objective, None
        self.n_passes = 0

    def value_gradient(self, u):
        self.n_passes += 1
        value, gradient = self._objective.value_gradient(u)
        self._newest = u.copy(), gradient.copy()
        return value, gradient

    def gradient(self, u):
        if self._newest is None or not np.array_equal(self._newest[0], u):
            self.value_gradient(u)
        return self._newest[1]

    def hessp(self, u, v):
        self.n_passes += 1
        return self._objective.hessp(u, v)

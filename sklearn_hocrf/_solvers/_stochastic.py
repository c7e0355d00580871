"""Stochastic solvers: many cheap steps, each on a few sequences, at the cost of the weights that these touch.

The objective is a sum over sequences. One of its minibatches has ``weights``, the numbers of the weights that its
function depends on, and ``value_gradient(w)``, which returns derivatives by these alone. What the penalty does to the
other weights meanwhile is made good when they are touched next, in closed form.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._settings import check, is_integer, is_number
from ._common import Progress, RandomSolver, SolverReport, add_values, gap_above_minimum
from ._owlqn import shortest_subgradient

__all__ = ["SGD", "AdaGrad", "StochasticSolver", "TrainingState"]

_SAMPLE = 1000  # sequences on which step sizes are tried
_FIRST_TRIED = 0.1
_MOST_TRIED = 100
# A bound on the distance from the minimum, over the value, that tells of a bad end. Trainings that stop within 0.3 % of
# the minimum have 0.01 to 0.3 (chunking); those that come no nearer than 2 %, for features of scale 100, have 30.
_LARGE_GAP = 10.0
_SMALLEST_SCALE = 1e-100
_SMALLEST_ROOT = 1e-8  # of a sum of squared gradients
_REMEDY = "give a smaller step_size, or rescale numeric features, sample weights or the penalty"
_OF_WEIGHTS = ("w", "sums", "squares")


@dataclass
class TrainingState:
    """Where a training stands between two epochs.   K weights."""

    w: np.ndarray  # (K,)
    sums: np.ndarray  # (K,)   SGD: of weights times sequences seen; AdaGrad: of gradients, less the pull to old weights
    squares: np.ndarray  # (K,)   AdaGrad: sums of squared gradients
    step: float  # step size
    rng: np.random.RandomState
    n_seen: int = 0  # sequences
    mass: float = 0.0  # SGD: of the weights in ``sums``; AdaGrad: shares of the penalty so far, 1 for a whole one

    def check(self, n_weights):
        """Raise a ValueError unless this is a state of so many weights, with numbers that it can reach."""
        arrays = [np.asarray(getattr(self, name)) for name in _OF_WEIGHTS]
        if not all(array.shape == (n_weights,) and array.dtype == np.float64 for array in arrays):
            shapes = [array.shape for array in arrays]
            raise ValueError(f"the state of the solver has arrays of shape {shapes}, but there are {n_weights} weights")
        numbers = [float(number) for number in (self.step, self.n_seen, self.mass)]
        if not all(np.isfinite(array).all() for array in [*arrays, numbers]) or not self.step > 0 or min(numbers) < 0:
            raise ValueError(f"the state of the solver has numbers that it cannot reach: {numbers}")

    def copy(self) -> TrainingState:
        """Return a state whose epochs leave this one as it is."""
        rng = np.random.RandomState()
        rng.set_state(self.rng.get_state())
        arrays: dict[str, Any] = {name: getattr(self, name).copy() for name in _OF_WEIGHTS}
        return replace(self, **arrays, rng=rng)

    def moved(self, places, n_weights) -> TrainingState:
        """Return the state for more weights: the old ones are at ``places`` (K,); all of the new ones is 0."""
        arrays: dict[str, Any] = {name: np.zeros(n_weights) for name in _OF_WEIGHTS}
        for name, array in arrays.items():
            array[places] = getattr(self, name)
        return replace(self, **arrays)


class StochasticSolver(RandomSolver, metaclass=ABCMeta):
    """What stochastic solvers share: epochs, calibration of the step size, stopping rules, streams.

    See :class:`SGD` for the parameters.
    """

    def __init__(
        self,
        tol: float = 1e-4,
        max_iter: int = 100,
        callback: Callable[[Progress], None] | None = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        batch_size: int = 8,
        step_size: float | None = None,
        validation_fraction: float = 0.0,
        n_iter_no_change: int = 5,
        n_sequences: float | None = None,
    ) -> None:
        super().__init__(tol, max_iter, callback, random_state)
        check(is_integer(batch_size) and batch_size >= 1, "batch_size", "an integer >= 1", batch_size)
        check(_is_positive(step_size), "step_size", "None or a number > 0", step_size)
        is_share = is_number(validation_fraction) and 0 <= validation_fraction < 1
        check(is_share, "validation_fraction", "a number in [0, 1)", validation_fraction)
        is_count = is_integer(n_iter_no_change) and n_iter_no_change >= 1
        check(is_count, "n_iter_no_change", "an integer >= 1", n_iter_no_change)
        check(_is_positive(n_sequences), "n_sequences", "None or a number > 0", n_sequences)
        self.batch_size, self.step_size = batch_size, step_size
        self.validation_fraction, self.n_iter_no_change = validation_fraction, n_iter_no_change
        self.n_sequences = n_sequences

    @abstractmethod
    def _epoch(self, minibatches, penalty, state, n_sequences, constant=False):
        """Take the steps of some minibatches, and change the state.

        ``n_sequences`` sequences share the penalty. ``constant`` asks SGD for steps that do not fall.
        """

    def _first_state(self, w0, step, rng) -> TrainingState:
        return TrainingState(w0, np.zeros(len(w0)), np.zeros(len(w0)), step, rng)

    def _check_penalty(self, penalty, n_weights):
        """Raise an error if the solver cannot do with a penalty."""

    def _weights(self, state) -> np.ndarray:
        """Return the weights that a state comes to, in an array that later epochs leave alone."""
        return state.w.copy()

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``.

        Raises
        ------
        ValueError
            If the objective leaves the range of floating point numbers, or if all sequences would be held out.
        """
        self._check_penalty(penalty, len(w0))
        rng = check_random_state(self.random_state)
        train, held_out = self._split(objective, rng)
        n_train, n_held_out = train.n_sequences, 0 if held_out is None else held_out.n_sequences
        history = [_value_norm(train, penalty, w0)[0]]
        watch = _Watch(self.tol, np.array(w0, dtype=np.float64), history[0] if held_out is None else np.inf)
        state, n_visited = self._start(train, penalty, w0, n_train, rng)
        n_visited += n_train
        message = "no epoch is allowed"
        while len(history) <= self.max_iter and watch.n_since < self.n_iter_no_change:
            w, value = self._checked_epoch(train, penalty, state, n_train)
            n_visited += 2 * n_train + n_held_out
            if held_out is None:
                watch.sees(w, value)
            else:  # what is worse than the start for the sequences of training is not worth a look
                watch.sees(w, held_out.value(w) if value <= history[0] else np.inf)
            history.append(watch.lowest if held_out is None else value)
            if self.callback is not None:
                self.callback(Progress(len(history) - 1, history[-1], np.nan, np.inf))
            message = "the number of epochs has reached its limit"
        norm = _value_norm(train, penalty, watch.best)[1]
        report = SolverReport(
            watch.best,
            len(history) - 1,
            np.array(history),
            norm,
            gap_above_minimum(train, penalty, norm),
            False,
            message,
            (n_visited + n_train) / objective.n_sequences,
        )
        if watch.n_since >= self.n_iter_no_change:
            report = self._judge(report, watch.n_best)
        if held_out is None:
            return report
        return report._replace(
            n_iter=watch.n_best,
            history=report.history[: watch.n_best + 1],
            message=f"{report.message}; of {report.n_iter} epochs, epoch {watch.n_best} was best for the validation "
            "sequences",
        )

    def _judge(self, report: SolverReport, n_best: int) -> SolverReport:
        """Return the report of training that got no further after an epoch, with whether it has converged.

        Steps that are too long, or too short for some weights, get no further anywhere.
        """
        value = abs(report.history[n_best])
        is_flat = report.gradient_norm <= self.tol * max(1.0, float(np.linalg.norm(report.w)))
        is_optimal = is_flat or report.gap <= 100 * self.tol * value
        stops_early = self.validation_fraction > 0  # wherever the minimum is
        if not is_optimal and n_best == 0:
            message = "no epoch made the function smaller"
        elif not is_optimal and not stops_early and _LARGE_GAP * value < report.gap < np.inf:
            message = "the function no longer falls, but its gradient is large"
        else:
            return report._replace(converged=True, message="converged")
        return report._replace(message=message, remedy=_REMEDY.capitalize())

    def _checked_epoch(self, objective, penalty, state, n_sequences, share=1.0):
        """Take an epoch and return the weights that it comes to, and their value.

        Raises
        ------
        ValueError
            If numbers overflow.
        """
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                self._epoch(objective.minibatches(self.batch_size, state.rng), penalty, state, n_sequences)
                w = self._weights(state)
                return w, _total(objective, penalty, w, share)
        except ValueError as error:
            if _REMEDY in str(error):
                raise
            # as a rule scores, or weights that make them so
            raise ValueError(f"steps lead to what floating point numbers cannot hold ({error}): {_REMEDY}") from error

    def partial_solve(
        self, objective: Any, penalty: Any, w0: np.ndarray, state: TrainingState | None = None
    ) -> tuple[SolverReport, TrainingState]:
        """Take one pass over the sequences of an objective, which are the next ones of a stream.

        Parameters
        ----------
        objective, penalty
            As in :meth:`solve`.
        w0 : ndarray of shape (n_weights,)
            Weights to start from where there is no state.
        state : TrainingState or None
            What an earlier call returned; it stays as it was.

        Returns
        -------
        report : SolverReport
            Its history has two values, before and after: objective of these sequences plus their share of the penalty.
        state : TrainingState
            For the next call.
        """
        self._check_penalty(penalty, len(w0))
        n_here = objective.n_sequences
        n_sequences = self.n_sequences
        if n_sequences is None:
            n_sequences = n_here + (0 if state is None else state.n_seen)
        if state is None:
            state, n_visited = self._start(objective, penalty, w0, n_sequences, check_random_state(self.random_state))
            is_first = True
        else:
            state.check(len(w0))
            state, n_visited, is_first = state.copy(), 0, False
        share = n_here / n_sequences
        history = [_total(objective, penalty, self._weights(state), share)]
        w, value = self._checked_epoch(objective, penalty, state, n_sequences, share)
        history.append(value)
        if self.callback is not None:
            self.callback(Progress(1, history[-1], np.nan, np.inf))
        n_passes, message = (n_visited + 3 * n_here) / n_here, "a pass over a part of a stream"
        report = SolverReport(w, 1, np.array(history), np.nan, np.inf, True, message, n_passes)
        if is_first and history[1] > history[0]:
            message = "the first pass made the function larger"
            report = report._replace(converged=False, message=message, remedy=_REMEDY.capitalize())
        return report, state

    def _split(self, objective, rng):
        """Return the objectives of the training and of the validation sequences, the latter None without them."""
        if self.validation_fraction == 0:
            return objective, None
        n_sequences = objective.n_sequences
        n_held_out = int(np.ceil(self.validation_fraction * n_sequences))
        if n_held_out >= n_sequences:
            raise ValueError(
                f"validation_fraction={self.validation_fraction} of {n_sequences} sequences leaves none for training"
            )
        shuffled = rng.permutation(n_sequences)
        return objective.part(np.sort(shuffled[n_held_out:])), objective.part(np.sort(shuffled[:n_held_out]))

    def _start(self, objective, penalty, w0, n_sequences, rng):
        """Return the first state, and how many sequences were visited to find the step size.

        The step size is that whose one pass over a sample, with steps that do not fall, ends with the lowest value.
        """
        w0 = np.array(w0, dtype=np.float64)
        own = np.random.RandomState(rng.randint(2**31 - 1))
        if self.step_size is not None:
            return self._first_state(w0, self.step_size, own), 0
        sample, n_sample = objective, objective.n_sequences
        if n_sample > _SAMPLE:
            sample, n_sample = objective.part(np.sort(rng.permutation(n_sample)[:_SAMPLE])), _SAMPLE

        def after_one_pass(step):
            tried = self._first_state(w0.copy(), step, own).copy()  # in the same order each time
            try:
                self._epoch(sample.minibatches(self.batch_size, tried.rng), penalty, tried, n_sequences, constant=True)
                return _total(sample, penalty, tried.w, n_sample / n_sequences)
            except ValueError:  # scores are beyond floating point numbers
                return np.inf

        with np.errstate(over="ignore", invalid="ignore"):
            step, n_tried = _best_by_factors(after_one_pass)
        return self._first_state(w0, step, own), 2 * n_tried * n_sample


class SGD(StochasticSolver):
    """Stochastic gradient descent with steps that fall as 1 / (number of sequences seen), for L2 penalties.

    With N sequences, precision 1 / sigma^2 and lambda = 1 / (N sigma^2), the function is N times the mean over
    sequences of f_n(w) + lambda / 2 norm(w)^2. After m sequences a step is alpha_m = 1 / (lambda (m_0 + m)) times the
    gradients of its sequences. m_0 = 1 / (lambda alpha), where alpha is the best fixed step of one pass over a sample
    of up to 1000 sequences. Where precisions differ, lambda is the smallest that is not 0. The penalty is taken
    implicitly, which is stable for any precision; it shrinks all weights of one precision by one factor, kept apart.

    Parameters
    ----------
    tol : float, default=1e-4
        Stop when in ``n_iter_no_change`` consecutive epochs what is watched did not fall by more than ``tol`` times
        its lowest value: objective plus penalty, or the objective of the validation sequences.
    max_iter : int, default=100
        Most epochs, which are passes over the training sequences.
    callback : callable or None
        Called with a :class:`Progress` after each epoch; norm of the gradient and gap are not known then.
    random_state : int, RandomState instance or None, default=None
        Order of the sequences, sample, and validation sequences. The same number gives the same weights.
    batch_size : int, default=8
        Sequences of a step. Kernels take up to 16 side by side; fewer make more steps, which are worth as much.
    step_size : float or None, default=None
        The alpha of m_0; None for the best one of one pass over a sample.
    average : bool, default=True
        Whether the weights are the mean over all steps, weighted by the number of sequences seen at each [3]_.
    validation_fraction : float, default=0.0
        Part of the sequences that are held out; the weights are those of the epoch that is best for them.
    n_iter_no_change : int, default=5
        See ``tol``.
    n_sequences : float or None, default=None
        Only for streams (``partial_fit``): how many sequences share the penalty, the N above; None for those seen so
        far, those of the present call included. The steps fall if it is given, and stay about as they are otherwise.

    Raises
    ------
    ValueError
        For settings that are out of range.

    Notes
    -----
    History has the exact objective plus penalty after each epoch, which costs a forward pass. Passes are counted in
    sequences visited: by steps, by these forward passes, by the calibration, and by the gradient at the end, which
    bounds the distance from the optimum.

    An objective of your own needs ``n_sequences``, ``value(w)``, ``value_gradient(w)``, ``part(sequences)``, which
    returns the objective of some sequences, and ``minibatches(batch_size, rng)``, which yields all sequences once: each
    minibatch has ``n_sequences``, ``weights``, the numbers of the weights that it depends on, and
    ``value_gradient(w)``, whose gradient is by these weights alone.

    References
    ----------
    .. [1] Bottou, "Stochastic gradient descent tricks", Neural Networks: Tricks of the Trade, 2012.
    .. [2] Sutton and McCallum, "An introduction to conditional random fields", 2012, section 5.2.
    .. [3] Lacoste-Julien, Schmidt and Bach, "A simpler approach to obtaining an O(1/t) convergence rate for the
       projected stochastic subgradient method", 2012.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import SGD
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(solver=SGD(random_state=0)).fit(X, y)
    >>> crf.predict(X)
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    """

    needs = {
        "objective": ("minibatches", "part", "value", "value_gradient"),
        "penalty": ("value_gradient", "precisions"),
    }
    instead = "solver='adagrad' needs minibatches and knows L1 penalties; solver='auto' suits the objective"

    def __init__(
        self,
        tol: float = 1e-4,
        max_iter: int = 100,
        callback: Callable[[Progress], None] | None = None,
        random_state: int | np.random.RandomState | None = None,
        *,
        batch_size: int = 8,
        step_size: float | None = None,
        average: bool = True,
        validation_fraction: float = 0.0,
        n_iter_no_change: int = 5,
        n_sequences: float | None = None,
    ) -> None:
        super().__init__(
            tol,
            max_iter,
            callback,
            random_state,
            batch_size=batch_size,
            step_size=step_size,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            n_sequences=n_sequences,
        )
        self.average = average

    def _check_penalty(self, penalty, n_weights):
        if not (_Groups(penalty.precisions(n_weights)).precision > 0).any():
            raise ValueError(
                "the steps of SGD are 1 / (lambda (m_0 + m)), which needs a penalty: some sigma_reg that is not inf. "
                "Without one use solver='adagrad'"
            )

    def _weights(self, state):
        return state.sums / state.mass if self.average and state.mass else state.w.copy()

    def _epoch(self, minibatches, penalty, state, n_sequences, constant=False):
        groups = _Groups(penalty.precisions(len(state.w)))
        decay = groups.precision / n_sequences
        decay_rate = 0.0 if constant else decay[decay > 0].min()  # lambda
        w = np.empty_like(state.w)  # of the weights that a minibatch touches
        # The weights are scale * state.w, their sum so far is area * state.w + state.sums. A step moves what the
        # minibatch touches, and the scales.
        scale, area = np.ones(len(decay)), np.zeros(len(decay))
        for minibatch in minibatches:
            touched, n_here = minibatch.weights, minibatch.n_sequences
            factor, unscaled = groups.values(scale, touched), state.w[touched]
            w[touched] = factor * unscaled
            gradient = minibatch.value_gradient(w)[1]
            step = 1.0 / (1.0 / state.step + decay_rate * state.n_seen)
            change = -step / factor * gradient
            state.w[touched] = unscaled + change
            scale /= 1.0 + step * n_here * decay
            state.n_seen += n_here
            if self.average:
                state.sums[touched] -= groups.values(area, touched) * change
                area += state.n_seen * scale
                state.mass += state.n_seen
            if scale.min() < _SMALLEST_SCALE:
                groups.settle(state, scale, area)
        groups.settle(state, scale, area)


class _Groups:
    """Weights of one precision, which the penalty shrinks by one factor.   G groups."""

    def __init__(self, precisions):
        self._number = None
        if len(precisions) and (precisions != precisions[0]).any():
            self.precision, self._number = np.unique(precisions, return_inverse=True)
        else:
            self.precision = np.array(precisions[:1]) if len(precisions) else np.ones(1)

    def values(self, of_groups, chosen):
        """Return the value of each chosen weight's group, or that of all."""
        return of_groups[0] if self._number is None else of_groups[self._number[chosen]]

    def settle(self, state, scale, area):
        """Multiply scales into the weights, and add up the sums."""
        state.sums += self.values(area, slice(None)) * state.w
        state.w *= self.values(scale, slice(None))
        scale[:], area[:] = 1.0, 0.0


class AdaGrad(StochasticSolver):
    """Adaptive step sizes, one for each weight [1]_, and a proximal treatment of L1 and L2 penalties [2]_.

    Without penalty the step of a weight is step_size / sqrt(G), where G is the sum of its squared gradients g so far.
    With one, the weights of each step t are those that minimise

        sum of g_s w + sigma_s / 2 (w - w_s)^2 over s < t, plus the penalty's shares so far,

    where sigma_s is by how much sqrt(G) / step_size grew in step s ("follow the regularised leader"). That is a
    proximal step of all gradients at once, so L1 penalties make weights exactly 0, and 0 they stay until the gradients
    as a whole say otherwise. It depends on two sums alone, so weights that are not touched need no work.

    Parameters
    ----------
    tol, max_iter, callback, random_state, batch_size, validation_fraction, n_iter_no_change, n_sequences
        As in :class:`SGD`.
    step_size : float or None, default=None
        None for the best one of one pass over a sample of up to 1000 sequences.

    Raises
    ------
    ValueError
        For settings that are out of range.

    References
    ----------
    .. [1] Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization",
       JMLR 12, 2011.
    .. [2] McMahan, "Follow-the-regularized-leader and mirror descent: equivalence theorems and L1 regularization",
       AISTATS 2011.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import AdaGrad
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(l1_reg=0.2, solver=AdaGrad(random_state=0)).fit(X, y)
    >>> crf.predict(X)
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    """

    needs = {
        "objective": ("minibatches", "part", "value", "value_gradient"),
        "penalty": ("value", "smooth_value_gradient", "prox"),
    }
    instead = "Use solver='auto', which suits the objective"

    def _first_state(self, w0, step, rng):
        # the first gradient alone would throw a weight far from where it starts
        state = super()._first_state(w0, step, rng)
        state.squares[w0 != 0] = 1.0
        state.sums -= w0 * _stiffness(state.squares, step)
        return state

    def _epoch(self, minibatches, penalty, state, n_sequences, constant=False):
        w, sums, squares = state.w, state.sums, state.squares

        def leader(chosen, stiffness):
            return penalty.prox(-sums[chosen] / stiffness, state.mass / stiffness, chosen)

        for minibatch in minibatches:
            touched = minibatch.weights
            before = squares[touched]
            stiffness = _stiffness(before, state.step)
            centres = leader(touched, stiffness)
            w[touched] = centres
            gradient = minibatch.value_gradient(w)[1]
            after = before + gradient**2
            squares[touched] = after
            sums[touched] += gradient - (_stiffness(after, state.step) - stiffness) * centres
            state.mass += minibatch.n_sequences / n_sequences
            state.n_seen += minibatch.n_sequences
        every = slice(None)
        w[:] = leader(every, _stiffness(squares, state.step))


def _stiffness(squares, step):
    """Return how strongly weights are held: the inverse of their steps, without penalty."""
    return (np.sqrt(squares) + _SMALLEST_ROOT) / step


class _Watch:
    """Keeps the weights where a value was lowest, from the start on, and tells when it no longer falls."""

    def __init__(self, tol, w, value):
        self.tol, self.best, self.lowest = tol, w, value
        self.n_seen = self.n_best = self.n_since = 0  # epochs; those before the best; those since the last good one

    def sees(self, w, value):
        """Take in the weights and the value after the next epoch."""
        self.n_seen += 1
        is_lowest = value < self.lowest
        fell = is_lowest and (np.isinf(self.lowest) or value < self.lowest - self.tol * abs(self.lowest))
        self.n_since = 0 if fell else self.n_since + 1
        if is_lowest:
            self.best, self.lowest, self.n_best = w, value, self.n_seen


def _best_by_factors(function) -> tuple[float, int]:
    """Return where, among powers of 2 times the first one tried, a function is lowest, and how many were tried."""
    best, lowest = _FIRST_TRIED, function(_FIRST_TRIED)
    n_tried = 1
    for factor in (0.5, 2.0):
        start = best
        while n_tried < _MOST_TRIED:
            value = function(best * factor)
            n_tried += 1
            if not (value < lowest or np.isinf(lowest) and factor < 1):
                break
            best, lowest = best * factor, value
        if best != start:  # the other direction is known to be worse
            break
    return best, n_tried


def _total(objective, penalty, w, share=1.0):
    value = objective.value(w) + share * penalty.value(w)
    if not np.isfinite(value):
        raise ValueError(f"the minimised function is {value:g}, which floating point numbers cannot hold: {_REMEDY}")
    return value


def _value_norm(objective, penalty, w) -> tuple[float, float]:
    """Return the minimised function and the norm of its shortest subgradient."""
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(penalty, "value_gradient"):  # it is smooth
            value, gradient = add_values(objective.value_gradient(w), penalty.value_gradient(w))
            return value, float(np.linalg.norm(gradient))
        of_penalty = penalty.value(w), penalty.smooth_value_gradient(w)[1]
        value, gradient = add_values(objective.value_gradient(w), of_penalty)
    strength = 0.0 if penalty.strength is None else penalty.strength
    return value, float(np.linalg.norm(shortest_subgradient(w, gradient, strength)))


def _is_positive(value):
    return value is None or is_number(value) and 0 < value < np.inf

"""Stochastic solvers: many cheap steps, each on a few sequences.

The time of a step depends on the number of weights that its sequences use, not on the total number of weights. The
objective is a sum over sequences. A minibatch provides ``weights``, the indices of the weights on which its value
depends, and ``value_gradient(w)``, which returns derivatives with respect to only these weights. The penalty on the
other weights is applied in closed form when a step next uses them. After an epoch that hardly lowers the function,
training continues with L-BFGS.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Never

import numpy as np
from sklearn.utils import check_random_state

from ..._data.checks import check, is_integer, is_number
from ..kernels.descent import SMALLEST_ROOT, Course
from .lbfgs import LBFGSMinimizer
from .solvers import STOPPED, Minimizer, Progress, Solver, SolverReport, point_of

_SAMPLE = 1000  # sequences on which step sizes are tried
_FIRST_TRIED = 0.4  # within a factor of 2 of the best step size on chunks, addresses and handwriting
_MOST_TRIED = 100
_LEAST_FALL = 0.05  # relative decrease of the function in an epoch after which there is another epoch
_REMEDY = "give a smaller step_size, or rescale numeric features, sample weights or the penalty"
_OF_WEIGHTS = ("w", "sums", "squares")


@dataclass
class TrainingState:
    """The state of training between two epochs.   K weights."""

    w: np.ndarray  # (K,)
    sums: np.ndarray  # (K,)   of gradients, minus the pull towards old weights
    squares: np.ndarray  # (K,)   sums of squared gradients
    step: float  # step size
    rng: np.random.RandomState
    n_seen: int = 0  # sequences so far
    mass: float = 0.0  # sum of the shares of the penalty so far; 1 is the whole penalty

    def check(self, n_weights):
        """Raise a ValueError unless this is a state of ``n_weights`` weights, with values that training can reach."""
        arrays = [np.asarray(getattr(self, name)) for name in _OF_WEIGHTS]
        if not all(array.shape == (n_weights,) and array.dtype == np.float64 for array in arrays):
            shapes = [array.shape for array in arrays]
            raise ValueError(f"the state of the solver has arrays of shape {shapes}, but there are {n_weights} weights")
        numbers = [float(number) for number in (self.step, self.n_seen, self.mass)]
        if not all(np.isfinite(array).all() for array in [*arrays, numbers]) or not self.step > 0 or min(numbers) < 0:
            raise ValueError(f"the state of the solver has values that training cannot reach: {numbers}")

    def moved(self, new_ids, n_weights) -> TrainingState:
        """Return the state for more weights: old weights move to ``new_ids``, of shape (K,), and new weights are 0."""
        arrays: dict[str, Any] = {name: np.zeros(n_weights) for name in _OF_WEIGHTS}
        for name, array in arrays.items():
            array[new_ids] = getattr(self, name)
        return replace(self, **arrays)


class SGD(Solver):
    """Stochastic gradient descent [1]_, with many cheap steps on a few sequences each, followed by L-BFGS.

    The first passes over the data lower the objective most, and later passes lower it less and less. After an epoch
    that lowers the objective by less than 5 %, training therefore continues with :class:`LBFGS`, which uses gradients
    of all sequences [4]_. Each call of ``partial_fit`` consists of one epoch, without L-BFGS.

    Each weight has a separate step size [2]_: step_size / sqrt(G), where G is the sum of its squared gradients g so
    far. L2 and L1 penalties are possible [3]_. With a penalty, the weights of step t minimise

        sum of g_s w + sigma_s / 2 (w - w_s)^2 over s < t, plus the penalty's shares so far,

    where sigma_s is the increase of sqrt(G) / step_size in step s ("follow the regularised leader"). This minimisation
    is one proximal step for the sum of all gradients. L1 penalties therefore make weights exactly 0, and a weight stays
    0 until the sum of its gradients outweighs the penalty. The minimum depends only on two sums, so a step takes no
    time for weights that it does not use.

    Parameters
    ----------
    callback : callable or None, default=None
        As in :class:`LBFGS`, but also called after each epoch; ``gradient_norm`` is then nan and ``gap`` is inf.
    batch_size : int, default=16
        Number of sequences per step. Up to 16 sequences are processed side by side. With smaller batches, an epoch
        takes more steps.
    step_size : float or None, default=None
        The factor ``step_size`` in the formulas above. If None, `fit` selects the best step size for one pass over a
        sample of up to 1000 sequences.
    n_sequences : float or None, default=None
        Only for streams (``partial_fit``): the number N of sequences that share the penalty. None means all sequences
        seen so far, including the current call.
    **elsewhere : dict
        Not accepted. Pass ``tol``, ``max_iter``, ``verbose`` and ``random_state`` to the estimator.

    Raises
    ------
    TypeError
        If an argument is a parameter of the estimator, or unknown.
    ValueError
        If a setting is out of range.

    Notes
    -----
    ``max_iter`` of the estimator counts epochs, which are passes over the training sequences, and iterations of L-BFGS.
    Its ``random_state`` determines the order of the sequences and the sample.

    The stopping rule is that of :class:`LBFGS`.

    For each epoch, the history contains the lowest exact value of the objective plus penalty so far; computing the
    value takes a forward pass. The number of passes counts all visits to sequences: by steps, by these forward passes,
    by the search for a step size, and by L-BFGS.

    References
    ----------
    .. [1] Sutton and McCallum, "An introduction to conditional random fields", 2012, section 5.2.
    .. [2] Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and stochastic optimization",
       JMLR 12, 2011.
    .. [3] McMahan, "Follow-the-regularized-leader and mirror descent: equivalence theorems and L1 regularization",
       AISTATS 2011.
    .. [4] Friedlander and Schmidt, "Hybrid deterministic-stochastic methods for data fitting", SIAM Journal on
       Scientific Computing 34, 2012.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import SGD
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(solver=SGD(batch_size=1), random_state=0).fit(X, y)
    >>> crf.predict(X)
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    """

    __module__ = "sklearn_hocrf.training"  # the public module: model files contain this name

    def __init__(
        self,
        *,
        callback: Callable[[Progress], Any] | None = None,
        batch_size: int = 16,
        step_size: float | None = None,
        n_sequences: float | None = None,
        **elsewhere: Never,
    ) -> None:
        super().__init__(callback, elsewhere)
        check(is_integer(batch_size) and batch_size >= 1, "batch_size", "an integer >= 1", batch_size)
        check(_is_positive(step_size), "step_size", "None or a number > 0", step_size)
        check(_is_positive(n_sequences), "n_sequences", "None or a number > 0", n_sequences)
        self.batch_size, self.step_size, self.n_sequences = batch_size, step_size, n_sequences

    def minimizer(self, tol: float, max_iter: int, callback: Any, random_state: Any) -> SGDMinimizer:
        return SGDMinimizer(tol, max_iter, callback, random_state, self)


@dataclass
class SGDMinimizer(Minimizer):
    """A minimiser that runs stochastic gradient descent, then L-BFGS."""

    settings: SGD = field(default_factory=SGD)

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray) -> SolverReport:
        """Minimise ``objective + penalty`` from ``w0``.

        Raises
        ------
        ValueError
            If the objective overflows.
        """
        rng, n_sequences = check_random_state(self.random_state), objective.n_sequences
        best, history = np.array(w0, dtype=np.float64), [point_of(objective, penalty, w0).value]
        state, n_visited = self._start(objective, penalty, w0, n_sequences, rng)
        n_visited += n_sequences
        fell, stopped = True, False

        def report():  # without the gradient, which takes a pass
            n_passes, n_epochs = n_visited / n_sequences, len(history) - 1
            return SolverReport(best, n_epochs, np.array(history), np.nan, np.inf, False, STOPPED, n_passes)

        while fell and not stopped and len(history) <= self.max_iter:
            w, value = self._checked_epoch(objective, penalty, state, n_sequences)
            n_visited += 2 * n_sequences
            lowest = history[-1]
            fell = value < lowest - _LEAST_FALL * abs(lowest)
            if value < lowest:
                best, lowest = w, value
            history.append(lowest)
            stopped = self._is_stopped(Progress(len(history) - 1, lowest, np.nan, np.inf, report))
        n_visited += n_sequences  # for the gradient
        n_left = 0 if stopped else self.max_iter - len(history) + 1
        result = self._continue(objective, penalty, report(), n_left)
        return result._replace(converged=False, message=STOPPED, stopped=True) if stopped else result

    def _continue(self, objective, penalty, begun, n_iter) -> SolverReport:
        """Run at most ``n_iter`` iterations of L-BFGS, and return a report on these and all earlier iterations."""

        def joined(report):
            return report._replace(
                n_iter=begun.n_iter + report.n_iter,
                history=np.append(begun.history, report.history[1:]),
                n_passes=begun.n_passes + report.n_passes - 1,  # the first pass is already counted
            )

        def tell(progress):
            return self._is_stopped(progress.inside(joined, begun.n_iter))

        return joined(LBFGSMinimizer(self.tol, n_iter, tell).solve(objective, penalty, begun.w))

    def _checked_epoch(self, objective, penalty, state, n_sequences, share=1.0):
        """Train for one epoch, and return the weights and the value of the function there.

        Raises
        ------
        ValueError
            If numbers overflow.
        """
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                _run_epoch(objective, self.settings.batch_size, penalty, state, n_sequences)
                return state.w.copy(), _total(objective, penalty, state.w, share)
        except ValueError as error:
            if _REMEDY in str(error):
                raise
            # the usual cause is scores that overflow, or weights that make scores too large
            raise ValueError(f"steps lead beyond the range of floating point numbers ({error}): {_REMEDY}") from error

    def partial_solve(
        self, objective: Any, penalty: Any, w0: np.ndarray, state: TrainingState | None = None
    ) -> tuple[SolverReport, TrainingState]:
        """Train on the next sequences of a stream, with one pass over them.

        Parameters
        ----------
        objective, penalty : object
            As in :meth:`solve`.
        w0 : ndarray of shape (n_weights,)
            Starting weights, if there is no state.
        state : TrainingState or None
            State that an earlier call returned. The call does not change this object.

        Returns
        -------
        report : SolverReport
            Its history contains two values, from before and after the pass: the objective of these sequences plus their
            share of the penalty.
        state : TrainingState
            The state for the next call.
        """
        n_new, is_first, n_visited = objective.n_sequences, state is None, 0
        n_sequences = self.settings.n_sequences or n_new + (state.n_seen if state else 0)
        if state is None:
            state, n_visited = self._start(objective, penalty, w0, n_sequences, check_random_state(self.random_state))
        else:
            state.check(len(w0))
            state = deepcopy(state)
        share = n_new / n_sequences
        before = _total(objective, penalty, state.w, share)
        w, value = self._checked_epoch(objective, penalty, state, n_sequences, share)
        self._is_stopped(Progress(1, value, np.nan, np.inf))
        n_passes, message = (n_visited + 3 * n_new) / n_new, "a pass over a part of a stream"
        report = SolverReport(w, 1, np.array([before, value]), np.nan, np.inf, True, message, n_passes)
        if is_first and value > before:
            message = "the first pass increased the function"
            report = report._replace(converged=False, message=message, remedy=_REMEDY.capitalize())
        return report, state

    def _start(self, objective, penalty, w0, n_sequences, rng):
        """Return the first state, and the number of visits to sequences in the search for the step size.

        The chosen step size gives the lowest value after one pass over a sample.
        """
        w0 = np.array(w0, dtype=np.float64)
        order_rng = np.random.RandomState(rng.randint(2**31 - 1))
        if self.settings.step_size is not None:
            return _first_state(w0, self.settings.step_size, order_rng), 0
        sample, n_sample = objective, objective.n_sequences
        if n_sample > _SAMPLE:
            sample, n_sample = objective.part(np.sort(rng.permutation(n_sample)[:_SAMPLE])), _SAMPLE

        def after_one_pass(step):
            tried = deepcopy(_first_state(w0, step, order_rng))  # in the same order each time
            try:
                _run_epoch(sample, self.settings.batch_size, penalty, tried, n_sequences)
                return _total(sample, penalty, tried.w, n_sample / n_sequences)
            except ValueError:  # scores exceed the range of floating point numbers
                return np.inf

        with np.errstate(over="ignore", invalid="ignore"):
            step, n_tried = _best_by_factors(after_one_pass)
        return _first_state(w0, step, order_rng), 2 * n_tried * n_sample


def _first_state(w0, step, rng) -> TrainingState:
    state = TrainingState(w0, np.zeros(len(w0)), np.zeros(len(w0)), step, rng)
    state.squares[w0 != 0] = 1.0  # otherwise, the first gradient alone would move the weight far away
    state.sums -= w0 * _stiffness(state.squares, step)
    return state


def _run_epoch(objective, batch_size, penalty, state, n_sequences):
    """Take the steps of an epoch, and update the state; ``n_sequences`` sequences share the penalty.

    Kernels take all steps that they support.
    """
    w, sums, squares = state.w, state.sums, state.squares
    mass, course = np.array([state.mass]), None
    if penalty.of_compiled_steps is not None:
        course = Course(w, sums, squares, mass, *penalty.of_compiled_steps, float(state.step), float(n_sequences))

    def leader(chosen, stiffness):
        return penalty.prox(-sums[chosen] / stiffness, mass / stiffness, chosen)

    for minibatch in objective.minibatches(batch_size, state.rng, course):
        touched = minibatch.weights
        before = squares[touched]
        stiffness = _stiffness(before, state.step)
        centres = leader(touched, stiffness)
        w[touched] = centres
        gradient = minibatch.value_gradient(w)[1]
        after = before + gradient**2
        squares[touched] = after
        sums[touched] += gradient - (_stiffness(after, state.step) - stiffness) * centres
        mass += minibatch.n_sequences / n_sequences
    state.n_seen, state.mass = state.n_seen + objective.n_sequences, float(mass[0])
    w[:] = leader(slice(None), _stiffness(squares, state.step))


def _stiffness(squares, step):
    """Return the inverse step size of each weight, without the penalty."""
    return (np.sqrt(squares) + SMALLEST_ROOT) / step


def _best_by_factors(function) -> tuple[float, int]:
    """Return the best argument among ``_FIRST_TRIED`` times powers of 2, and the number of arguments tried."""
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
        raise ValueError(
            f"the minimised function is {value:g}, which floating point numbers cannot represent: {_REMEDY}"
        )
    return value


def _is_positive(value):
    return value is None or is_number(value) and 0 < value < np.inf

"""The averaged perceptron, for sums of maxima of linear functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ._common import STOPPED, Progress, RandomSolver, SolverReport, check_finite

__all__ = ["AveragedPerceptron"]


class AveragedPerceptron(RandomSolver):
    """The averaged perceptron, for sums of maxima of linear functions.

    An epoch visits the terms, one per sequence, in random order. If the maximum of a term is not attained by the true
    labelling, the feature counts of the true labelling are added to the weights, and the feature counts of the maximum
    are subtracted. The result is the mean of the weights over all steps. There is no penalty, and the solver need not
    approach a minimum. On data that some weights separate, it stops after finitely many mistakes, in any order.

    Parameters
    ----------
    tol : float, default=3e-3
        Not used.
    max_iter : int, default=500
        Maximum number of epochs. Training stops after an epoch if the mean of the weights makes no mistakes. After an
        epoch without mistakes, the mean includes as many further such epochs as are necessary; these need not be run.
        If no weights avoid all mistakes, ten to twenty epochs usually suffice.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each epoch; its ``gradient_norm`` is nan, its ``gap`` inf. If it returns
        True, training stops.
    random_state : int, RandomState instance or None, default=None
        Determines the order of the sequences.

    References
    ----------
    .. [1] Collins, "Discriminative training methods for hidden Markov models: theory and experiments with perceptron
       algorithms", EMNLP 2002.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.training import AveragedPerceptron
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> solver = AveragedPerceptron(max_iter=10, random_state=0)
    >>> # a perceptron with margin
    >>> HighOrderCRF(objective="hinge", solver=solver).fit(X, y).predict(X)
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    """

    __module__ = "sklearn_hocrf.training"  # where users import it from: files of models name this place

    needs = {"objective": ("oracle", "value")}
    uses_penalty = False
    group = 64  # sequences that are decoded together to find mistakes of the mean
    most_pulls = 30  # steps of the mean towards weights that make no mistakes; each doubles the number of epochs

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray) -> SolverReport:
        """Find weights, starting from ``w0``; the penalty is not used.

        The history contains the objective at the mean of the weights after each epoch.
        """
        oracle, random, n_sequences = objective.oracle(w0), check_random_state(self.random_state), objective.n_sequences
        correct = getattr(oracle, "correct", None) or partial(_correct, oracle)
        # the mean of all w so far is w - delayed / steps, where delayed contains the addition of step i times i - 1
        delayed, n_steps, w, separated, n_checked = np.zeros(len(w0)), 0, oracle.w.copy(), False, 0
        history, stopped = [_value(objective, w)], False

        def report(message=STOPPED):
            n_iter = len(history) - 1
            n_passes = 2 * n_iter + 1 + n_checked / max(n_sequences, 1)
            return SolverReport(w, n_iter, np.array(history), np.nan, np.inf, separated, message, n_passes)

        while not separated and not stopped and len(history) <= self.max_iter:
            n_mistakes = correct(random.permutation(n_sequences), delayed, n_steps)
            n_steps += n_sequences
            # epochs without mistakes only move the mean towards the weights: many of them cost no more than one
            for n_epochs in 2 ** np.arange(1 if n_mistakes else self.most_pulls):
                w = oracle.w - delayed / max(int(n_epochs) * n_steps, 1)
                n_good = self._until_mistake(objective.oracle(w), n_sequences)
                separated, n_checked = n_good == n_sequences, n_checked + n_good
                if separated:
                    break
            if not n_mistakes and not separated:  # the weights separate only with ties
                w, separated = oracle.w.copy(), True
            history.append(_value(objective, w))
            stopped = self._is_stopped(Progress(len(history) - 1, history[-1], np.nan, np.inf, report))
        message = "the mean of the weights makes no mistakes" if separated else "the mean of the weights makes mistakes"
        if stopped and not separated:
            return report()._replace(stopped=True)
        return report(message)

    def _until_mistake(self, oracle, n_sequences):
        """Return the number of sequences without mistakes before the first group with a mistake."""
        for first in range(0, n_sequences, self.group):
            last = min(first + self.group, n_sequences)
            if any(len(mistake.indices) for mistake in oracle.argmax(np.arange(first, last))):
                return first
        return n_sequences


def _correct(oracle, sequences, delayed, n_steps):
    """Take a step for each sequence in turn, and return the number of mistakes."""
    n_mistakes = 0
    for sequence in sequences:
        (mistake,) = oracle.argmax(np.array([sequence]))
        if len(mistake.indices):
            n_mistakes += 1
            oracle.move(mistake.indices, mistake.difference)
            delayed[mistake.indices] += n_steps * mistake.difference
        n_steps += 1
    return n_mistakes


def _value(objective, w):
    value = objective.value(w)
    check_finite(value)
    return value

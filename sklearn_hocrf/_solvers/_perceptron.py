"""The averaged perceptron, for sums of maxima of linear functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ._common import Progress, SolverReport, generator

__all__ = ["AveragedPerceptron"]


class AveragedPerceptron:
    """The averaged perceptron, for sums of maxima of linear functions.

    An epoch takes the terms, one a sequence, in random order. Where the maximum of a term is not at the true labelling,
    what the weights count in the truth is added to them, and what they count at the maximum subtracted. It returns the
    mean of the weights over all steps. There is no penalty, and no minimum that it is sure to approach: on data that
    some weights separate, it stops after finitely many mistakes, whatever the order.

    Parameters
    ----------
    tol : float, default=1e-4
        Not used.
    max_iter : int, default=500
        Most epochs. It stops after one without mistakes of the weights as they then are; their mean, which it returns,
        may still make some. Where there is no such epoch, ten to twenty do as a rule.
    callback : callable or None, default=None
        Called with a :class:`Progress` after each epoch; its ``gradient_norm`` is nan, its ``gap`` inf.
    random_state : int, RandomState instance or None, default=None
        For the order of the sequences.

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
    >>> HighOrderCRF(objective="hinge", solver=solver).fit(X, y).predict(X)  # a perceptron with margin
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    """

    needs = {"objective": ("oracle", "value")}
    uses_penalty = False

    def __init__(
        self,
        tol: float = 1e-4,
        max_iter: int = 500,
        callback: Callable[[Progress], None] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.tol, self.max_iter, self.callback, self.random_state = tol, max_iter, callback, random_state

    def solve(self, objective: Any, penalty: Any, w0: np.ndarray) -> SolverReport:
        """Find weights from ``w0`` on; the penalty is not used.

        The history has the objective of the mean after each epoch.
        """
        oracle, random = objective.oracle(w0), generator(self.random_state)
        # the mean of all w so far is w - delayed / steps, where what is added in step i is there i - 1 times
        delayed, n_steps, w, separated = np.zeros(len(w0)), 0, oracle.w.copy(), False
        history = [objective.value(w)]
        while not separated and len(history) <= self.max_iter:
            separated = True
            for sequence in random.permutation(objective.n_sequences):
                (found,) = oracle.violations(np.array([sequence]))
                if len(found.indices):
                    separated = False
                    oracle.move(found.indices, found.difference)
                    delayed[found.indices] += n_steps * found.difference
                n_steps += 1
            w = oracle.w - delayed / max(n_steps, 1)
            history.append(objective.value(w))
            if self.callback is not None:
                self.callback(Progress(len(history) - 1, history[-1], np.nan, np.inf))
        message = "an epoch without mistakes" if separated else "there were mistakes in every epoch"
        n_iter = len(history) - 1
        return SolverReport(w, n_iter, np.array(history), np.nan, np.inf, separated, message, 2 * n_iter + 1)

"""Pruning: a level of order 0 leaves each token a few labels, and the model is trained and asked about those alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from .._inference.candidates import LevelZero, train_level_zero
from .._objectives import Problem
from .._settings import check, is_integer
from .._structure.layout import WeightLayout

__all__ = ["Pruning", "check_pruning_count", "checked_level_zero", "prune"]


class Pruning(BaseEstimator):
    """Settings of the parameter ``pruning``: how many labels each token keeps, and how they are found.

    Before training, a model of order 0 of the same features (level 0), and of the same parts of labels if there are
    any, is trained by a few epochs of stochastic gradient descent, where each token makes a step. The order of the
    sequences is that of the estimator's ``random_state``, and always the same if that is None. The ``n_candidates``
    labels that it finds most probable for a token are its candidates; in training the true label is one more. The model
    is then trained to its optimum, and asked all questions, given that every label is a candidate. With the candidates
    fixed, this is a convex problem like that of all labels, in lattices whose size does not depend on the number of
    labels.

    Parameters
    ----------
    n_candidates : int, default=6
        Labels that each token keeps. A number that is not lower than that of the classes prunes nothing.
    n_states : int or None, default=None
        States of the pattern automaton (the last labels, as far as patterns remember them) that each token keeps, at
        most: those that the most probable labels of level 0 lead to, in training also that of the true labels. It
        bounds the time of models of order 2 and more; models of order 1 have one state for each candidate. None stands
        for twice as many as candidates. A labelling that needs a state that is left out has probability 0, too. Where
        states are left out, there are no standard errors, no reasons of predictions and no probabilities of segments.
    n_epochs : int, default=3
        Epochs in which level 0 is trained, at least 2; fewer than 10,000 tokens are gone through more often. A tenth of
        the sequences comes in for two more epochs, or half as many, after it has given ``pruning_recall_``.

    Notes
    -----
    The candidates are a fixed number of labels and not those above a threshold [1]_, because the probabilities of a
    model of order 0 on its own training data are near 0 and 1. A threshold leaves training tokens hardly a label but
    the true one, and the model no rivals to learn from.

    References
    ----------
    .. [1] Mueller, Schmid and Schuetze, "Efficient higher-order CRFs for morphological tagging", EMNLP 2013.
    .. [2] Weiss and Taskar, "Structured prediction cascades", AISTATS 2010.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.settings import Pruning
    >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
    >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
    >>> crf = HighOrderCRF(pruning=Pruning(2)).fit(X, y)
    >>> crf.predict(X)
    [['DET', 'ADJ', 'NOUN'], ['DET', 'NOUN']]
    >>> (crf.predict_marginals(X)[0] > 0).sum(axis=1)  # labels that are left
    array([2, 2, 2])
    """

    __module__ = "sklearn_hocrf.settings"  # where users import it from: files of models name this place

    def __init__(self, n_candidates: int = 6, *, n_states: int | None = None, n_epochs: int = 3) -> None:
        self.n_candidates = n_candidates
        self.n_states = n_states
        self.n_epochs = n_epochs

    def check(self) -> None:
        """Raise a ValueError for a setting that is not valid."""
        is_count = is_integer(self.n_candidates) and self.n_candidates >= 1
        check(is_count, "n_candidates of Pruning", "an integer >= 1", self.n_candidates)
        is_count = self.n_states is None or (is_integer(self.n_states) and self.n_states >= 1)
        check(is_count, "n_states of Pruning", "None or an integer >= 1", self.n_states)
        is_count = is_integer(self.n_epochs) and self.n_epochs >= 2
        check(is_count, "n_epochs of Pruning", "an integer >= 2", self.n_epochs)


def _settings_of(pruning: Any) -> Pruning | None:
    """Return the settings that a parameter ``pruning`` stands for; None for a model of all labels."""
    return pruning if pruning is None or isinstance(pruning, Pruning) else Pruning(pruning)


def check_pruning_count(pruning: Any) -> None:
    """Raise a ValueError for a parameter ``pruning`` that is not valid."""
    if isinstance(pruning, bool):
        raise ValueError(f"pruning must be an integer >= 1, a Pruning or None, got {pruning!r}")
    if isinstance(pruning, Pruning):
        pruning.check()


def prune(problem: Problem, pruning: Any, random_state: Any = None) -> Problem:
    """Return the problem in which each token has a few candidate labels, by a level 0 that is trained for it.

    Without a ``random_state``, the order of the sequences in its training is always the same.
    """
    settings, n_labels = _settings_of(pruning), problem.layout.patterns.n_labels
    if settings is None or settings.n_candidates >= n_labels:
        return problem
    data = problem.batch, problem.truth, problem.sequence_weight
    n_states = 2 * int(settings.n_candidates) if settings.n_states is None else int(settings.n_states)
    seed = 0 if random_state is None else int(check_random_state(random_state).randint(2**31))
    numbers = int(settings.n_candidates), n_states, int(settings.n_epochs), seed
    level_zero = train_level_zero(problem.layout.of_order_zero(), *data, numbers)
    candidates = level_zero.finder().find(problem.batch, problem.support)
    return problem.over(candidates.with_labels(problem.truth), level_zero)


def checked_level_zero(level_zero: Any, layout: WeightLayout, numbers: Callable[..., np.ndarray]) -> LevelZero | None:
    """Return the level 0 of a fitted model with read-only weights, or raise a ValueError if it does not fit.

    ``numbers`` is the function that checks the weights.
    """
    if level_zero is None:
        return None
    level_zero = LevelZero(*level_zero)
    own = level_zero.layout
    if type(own) is not WeightLayout or (own.patterns.n_labels, own.n_features) != (
        layout.patterns.n_labels,
        layout.n_features,
    ):
        raise ValueError("the layout of level 0 is not one of the labels and features of the model")
    weights = numbers(level_zero.weights, "weights of level 0", own.n_weights)
    if not np.isfinite(weights).all():
        raise ValueError("the weights of level 0 are not all finite")
    if not is_integer(level_zero.n_candidates) or level_zero.n_candidates < 1:
        raise ValueError(f"level 0 leaves {level_zero.n_candidates!r:.40} labels, not an integer >= 1")
    if level_zero.n_states is not None and (not is_integer(level_zero.n_states) or level_zero.n_states < 1):
        raise ValueError(f"level 0 leaves {level_zero.n_states!r:.40} states, not an integer >= 1 or None")
    if not isinstance(level_zero.recall, float):
        raise ValueError(f"the recall of level 0 is {level_zero.recall!r:.40}, not a float")
    return level_zero._replace(weights=weights)

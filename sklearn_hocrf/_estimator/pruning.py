"""Pruning: a level of order 0 keeps a few labels per token, to which training and prediction are restricted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from .._data.arrays import joined_ranges, offsets_of
from .._data.masks import Mask, both
from .._inference.candidates import LevelZero, train_level_zero
from .._inference.chain import ChainModel
from .._inference.lattice import LatticeModel
from .._objectives import Problem
from .._settings import check, is_integer
from .._structure.layout import WeightLayout
from .._structure.patterns import given_patterns
from .._structure.weighted_arcs import label_arcs

__all__ = [
    "Pruning",
    "check_pruning_count",
    "checked_level_zero",
    "prune",
    "prune_held_out",
    "prune_runs",
    "prune_training",
]


class Pruning(BaseEstimator):
    """Settings of the parameter ``pruning``: how many labels each token keeps, and how they are found.

    Before training, a model of order 0 with the same features (level 0), and the same parts of labels if any, is
    trained by a few epochs of stochastic gradient descent with one step per token. The order of the sequences is
    determined by the estimator's ``random_state``, and always the same if that is None. The ``n_candidates`` most
    probable labels of a token are its candidates; in training, the true label is added. Training and all queries are
    then exact, conditional on every label being a candidate. With the candidates fixed, training is a convex problem as
    with all labels, in lattices whose size does not depend on the number of labels.

    If y has holes, level 0 is trained on the tokens whose label is known. In training, a token with a set of possible
    labels keeps all of them in addition, and a token without a label keeps the candidates of level 0, and another label
    where the constraints demand one between those that are known.

    Parameters
    ----------
    n_candidates : int, default=6
        Labels that each token keeps. Nothing is pruned if this is at least the number of classes.
    n_states : int or None, default=None
        Maximum number of states of the pattern automaton (the last labels, as far as patterns remember them) that each
        token keeps: those reached by the most probable labels of level 0, in training also by the true labels. It
        bounds the time of models of order 2 and more; models of order 1 have one state for each candidate. None means
        twice the number of candidates. A labelling that needs a dropped state also has probability 0. When states are
        dropped, explanations and segment probabilities are unavailable.
    n_epochs : int, default=3
        Number of epochs of training level 0, at least 2; data of fewer than 10,000 tokens get more epochs. A tenth of
        the sequences is held out to compute ``pruning_recall_``, and then added for two more epochs, or half as many.

    Notes
    -----
    The candidates are a fixed number of labels and not those above a threshold [1]_, because the probabilities of a
    model of order 0 on its own training data are near 0 and 1. A threshold would leave training tokens hardly any label
    but the true one, and the model no alternatives to learn from.

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
        """Raise a ValueError for an invalid setting."""
        is_count = is_integer(self.n_candidates) and self.n_candidates >= 1
        check(is_count, "n_candidates of Pruning", "an integer >= 1", self.n_candidates)
        is_count = self.n_states is None or (is_integer(self.n_states) and self.n_states >= 1)
        check(is_count, "n_states of Pruning", "None or an integer >= 1", self.n_states)
        is_count = is_integer(self.n_epochs) and self.n_epochs >= 2
        check(is_count, "n_epochs of Pruning", "an integer >= 2", self.n_epochs)


def _settings_of(pruning: Any) -> Pruning | None:
    """Return the settings that a parameter ``pruning`` specifies; None for a model of all labels."""
    return pruning if pruning is None or isinstance(pruning, Pruning) else Pruning(pruning)


def check_pruning_count(pruning: Any) -> None:
    """Raise a ValueError for an invalid parameter ``pruning``."""
    if isinstance(pruning, bool):
        raise ValueError(f"pruning must be an integer >= 1, a Pruning or None, got {pruning!r}")
    if isinstance(pruning, Pruning):
        pruning.check()


def prune(problem: Problem, pruning: Any, random_state: Any = None) -> Problem:
    """Return the problem in which each token has a few candidate labels, chosen by a level 0 that is trained first.

    Without a ``random_state``, the order of the sequences in its training is always the same.
    """
    settings, n_labels = _settings_of(pruning), problem.layout.patterns.n_labels
    if settings is None or settings.n_candidates >= n_labels:
        return problem
    data = problem.batch, problem.truth, problem.sequence_weight
    n_states = 2 * int(settings.n_candidates) if settings.n_states is None else int(settings.n_states)
    seed = 0 if random_state is None else int(check_random_state(random_state).randint(2**31))
    numbers = int(settings.n_candidates), n_states, int(settings.n_epochs), seed
    return prune_training(problem, train_level_zero(problem.layout.of_order_zero(), *data, numbers))


def prune_training(problem: Problem, level_zero: LevelZero) -> Problem:
    """Return training data over the candidates of level 0, to which the true labels are added."""
    candidates = level_zero.finder().find(problem.batch, problem.support)
    known = both(problem.support, problem.known)
    if problem.known is None or known is None:
        return problem.over(candidates.with_labels(problem.truth), level_zero)
    in_sets = np.flatnonzero((problem.truth < 0) & ~problem.known.allowed.all(axis=1))
    candidates = candidates.with_labels(_completed(problem, known, level_zero))
    return problem.over(candidates.with_allowed(in_sets, known.allowed[in_sets]), level_zero)


def prune_runs(runs: Problem, pruned: Problem) -> Problem:
    """Return the problem of the runs of known labels, with the candidates that the tokens of all data have."""
    if pruned.candidates is None:
        return runs
    return runs.over(pruned.candidates.part(np.flatnonzero(pruned.truth >= 0)), pruned.level_zero)


def prune_held_out(held_out: Problem, level_zero: LevelZero) -> Problem:
    """Return held-out data over the candidates of level 0, which has not seen their labels: these are not added."""
    model = LatticeModel(held_out.layout, np.zeros(held_out.n_weights), level_zero.finder(), held_out.schedule)
    plan = model.plan(held_out.batch, held_out.support)
    pruned = held_out.over(plan.candidates, level_zero)
    pruned.plan = plan  # which has more states where the constraints leave no labelling of fewer
    return pruned


def _completed(problem: Problem, known: Mask, level_zero: LevelZero) -> np.ndarray:
    """Return labels of all tokens that agree with those that are known and that constraints allow.

    They make sure that the lattice of each sequence has such a labelling. Where level 0 decides, its best one is taken.
    """
    offsets, n_labels = problem.batch.offsets, problem.layout.patterns.n_labels
    codes = level_zero.finder().find(problem.batch, known, np.ones(problem.batch.n_tokens, np.int64)).labels.copy()
    constrained = problem.layout.with_biases(given_patterns((), n_labels), np.arange(n_labels))
    is_out = np.isin(label_arcs(constrained.automaton, offsets, codes), constrained.compiled.forbidden_arcs)
    broken = np.flatnonzero(np.diff(offsets_of(is_out)[offsets]))
    if len(broken):
        tokens = joined_ranges(offsets[broken], offsets[broken + 1])
        model = ChainModel(constrained, level_zero.weights)
        codes[tokens] = model.decode(problem.batch[broken], problem.n_jobs, known.part(tokens))
    return codes


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
        raise ValueError("the layout of level 0 does not match the labels and features of the model")
    weights = numbers(level_zero.weights, "weights of level 0", own.n_weights)
    if not np.isfinite(weights).all():
        raise ValueError("the weights of level 0 are not all finite")
    if not is_integer(level_zero.n_candidates) or level_zero.n_candidates < 1:
        raise ValueError(f"level 0 keeps {level_zero.n_candidates!r:.40} labels, not an integer >= 1")
    if level_zero.n_states is not None and (not is_integer(level_zero.n_states) or level_zero.n_states < 1):
        raise ValueError(f"level 0 keeps {level_zero.n_states!r:.40} states, not an integer >= 1 or None")
    if not isinstance(level_zero.recall, float):
        raise ValueError(f"the recall of level 0 is {level_zero.recall!r:.40}, not a float")
    return level_zero._replace(weights=weights)

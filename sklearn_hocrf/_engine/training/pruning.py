"""Pruning: a level of order 0 keeps a few labels per token, to which training and prediction are restricted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._data._settings import is_integer
from ..inference.candidates import LevelZero, train_level_zero
from ..inference.lattice import LatticeModel
from ..structure.layout import WeightLayout
from .problem import Problem


def most_states(n_candidates: int) -> int:
    """Return how many states of the pattern automaton each token keeps."""
    return 2 * n_candidates


def prune(problem: Problem, n_candidates: int, random_state: Any = None) -> Problem:
    """Return the problem in which each token has a few candidate labels, chosen by a level 0 that is trained first.

    The true labels are candidates, too. At least as many candidates as labels prune nothing. Without a
    ``random_state``, the order of the sequences in the training of level 0 is always the same.
    """
    if n_candidates >= problem.layout.patterns.n_labels:
        return problem
    data = problem.batch, problem.truth, problem.sequence_weight
    seed = 0 if random_state is None else int(check_random_state(random_state).randint(2**31))
    settings = int(n_candidates), most_states(int(n_candidates)), seed
    level_zero = train_level_zero(problem.layout.of_order_zero(), *data, settings)
    candidates = level_zero.finder().find(problem.batch, problem.support)
    return problem.over(candidates.with_labels(problem.truth), level_zero)


def prune_held_out(held_out: Problem, level_zero: LevelZero) -> Problem:
    """Return held-out data over the candidates of level 0, which has not seen their labels: these are not added."""
    model = LatticeModel(held_out.layout, np.zeros(held_out.n_weights), level_zero.finder(), held_out.schedule)
    # the plan has more states where the constraints leave no labelling of fewer
    plan = model.given(held_out.batch, held_out.support, held_out.n_jobs).plan
    return held_out.over(plan.candidates, level_zero, plan)


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
    if not is_integer(level_zero.n_states) or level_zero.n_states < 1:
        raise ValueError(f"level 0 keeps {level_zero.n_states!r:.40} states, not an integer >= 1")
    if not isinstance(level_zero.recall, float):
        raise ValueError(f"the recall of level 0 is {level_zero.recall!r:.40}, not a float")
    return level_zero._replace(weights=weights)

"""Training criteria that are sums over sequences, evaluated on the partitions of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._objectives import LARGE, Objective
from .._structure.layout import WeightLayout
from ._partitions import Kept, Partitions
from ._parts import Setting, add, ask, compile_kernels, pose

__all__ = ["ClusterObjective", "ClusterProblem"]


class ClusterProblem:
    """Labelled training data on a cluster, with one layout of weights.

    Parameters
    ----------
    partitions : Partitions of Part
    setting : Setting
        Its criterion is replaced for each criterion that is evaluated.
    n_sequences : int
    tell : callable
        Called with a text before something that takes long.
    """

    level_zero = None  # all tokens may have all labels

    def __init__(
        self, partitions: Partitions, setting: Setting, n_sequences: int, tell: Callable[[str], Any] = str
    ) -> None:
        self._partitions, self._setting, self._tell = partitions, setting, tell
        self.layout: WeightLayout = setting.layout
        self.n_weights, self.n_sequences = self.layout.n_weights, n_sequences
        self._posed: Any = None  # the criterion to which the partitions are bound

    def total(self, criterion: Objective, question: str, *vectors: np.ndarray, merge=add) -> Any:
        """Return the sum of a criterion's method over the partitions, for some vectors of weights.

        Workers keep the criterion bound to each partition, with the layout that it needs. They would lose copies of a
        layout that they share: between two sums, Dask drops all but one, which is then sent again. On each machine one
        worker compiles the kernels, before the others would all do the same.
        """
        if criterion is not self._posed:
            self._partitions.add_step(pose, Kept(self._setting._replace(criterion=criterion)))
            self._posed = criterion
            self._tell("one worker on each machine compiles kernels, unless they are there")
            self._partitions.first_on_each_machine(compile_kernels)
        return self._partitions.total(ask, merge, question, *vectors)


class ClusterObjective(Objective):
    """A criterion that is a sum over sequences, as a sum over the partitions of a cluster.   K weights.

    Parameters
    ----------
    criterion : Objective
        The criterion, without data.
    """

    def __init__(self, criterion: Objective) -> None:
        self._criterion, self.is_convex = criterion, criterion.is_convex

    def starting_objective(self) -> Objective | None:
        first = self._criterion.starting_objective()
        return None if first is None else ClusterObjective(first)

    def _total(self, question, *vectors, merge=add):
        return self.problem.total(self._criterion, question, *vectors, merge=merge)

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at ``w``, of shape (K,)."""
        return self._total("value_gradient", w)

    def separates(self, w: np.ndarray) -> bool:
        """Return whether ``w`` makes the labels of each sequence more probable than all other labellings together."""
        largest = max(self._total("largest_log_z", w, merge=max), LARGE)
        return self._all_right(w * (LARGE / largest)) and not self._all_right(np.zeros(len(w)))

    def _all_right(self, w):
        return self._total("gives_most_to_truth", w, merge=_both)


def _both(one, other):
    return one and other

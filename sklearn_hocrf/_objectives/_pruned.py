"""Labelled training data in which tokens have a few candidate labels."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from .._data.arrays import joined_ranges
from .._inference.candidates import Candidates, LevelZero
from .._inference.lattice import LatticeModel, LatticePlan
from .._structure.weighted_arcs import label_arcs
from ._problem import Problem

__all__ = ["PrunedProblem"]


class PrunedProblem(Problem):
    """Labelled training data under one layout of weights, with candidates for the label of each token.

    The likelihood is that given that all labels are among the candidates. What needs all labels is refused.

    Parameters
    ----------
    problem : Problem
        Token labels without holes; features go with single labels alone.
    candidates : Candidates
        The true labels are among them.
    level_zero : LevelZero or None
        What they come from.
    """

    def __init__(self, problem: Problem, candidates: Candidates, level_zero: LevelZero | None = None) -> None:
        options: dict[str, Any] = {"n_jobs": problem.n_jobs, "schedule": problem.schedule, "support": problem.support}
        data = problem.family, problem.layout, problem.batch, problem.truth
        super().__init__(*data, sequence_weight=problem.sequence_weight, **options)
        self.candidates, self.level_zero = candidates, level_zero
        self.n_states = None if level_zero is None else level_zero.n_states

    @cached_property
    def plan(self) -> LatticePlan:
        """The lattice of the batch."""
        return LatticePlan(self.layout, self.batch, self.candidates, self.n_states, self.schedule)

    def model(self, w: np.ndarray) -> LatticeModel:
        """Return the model with the weights ``w``."""
        return LatticeModel(self.layout, w, schedule=self.schedule)

    def part(self, sequences: np.ndarray) -> PrunedProblem:
        """Return the problem of some of the sequences."""
        tokens = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1])
        return PrunedProblem(self._whole.part(sequences), self.candidates.part(tokens), self.level_zero)

    def under(self, layout: Any) -> PrunedProblem:
        """Return the same data under another layout."""
        return PrunedProblem(self._whole.under(layout), self.candidates, self.level_zero)

    @property
    def _whole(self) -> Problem:
        """The problem of all labels."""
        return Problem(
            self.family,
            self.layout,
            self.batch,
            self.truth,
            sequence_weight=self.sequence_weight,
            n_jobs=self.n_jobs,
            schedule=self.schedule,
            support=self.support,
        )

    def empirical_counts(self) -> np.ndarray:
        """Return how often each weight's feature occurs in the labelled data, weighted; shape (n_weights,)."""
        weight = np.repeat(self.sequence_weight, self.batch.lengths)
        arcs = label_arcs(self.layout.automaton, self.batch.offsets, self.truth)
        used = np.bincount(arcs, weights=weight, minlength=self.layout.automaton.n_arcs)
        return np.concatenate([self.plan.pair_counts(self.truth, weight), self.layout.sum_over_suffixes(used)])

    def on(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a ValueError: there are no candidates for other data."""
        self._refuse("a criterion of held-out data")

    @property
    def minibatches(self) -> NoReturn:  # type: ignore[override]
        """Raise a ValueError: minibatches have no lattices."""
        self._refuse("a solver that takes minibatches")

    @property
    def matching(self) -> NoReturn:  # type: ignore[override]
        """Raise a ValueError: expectations by position have no lattices."""
        self._refuse("local feature matching")

    def margins(self, cost: float) -> NoReturn:
        """Raise a ValueError: margins have no lattices."""
        self._refuse("a criterion of margins")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"{what} does not go with pruning, which trains by the likelihood of all data alone")

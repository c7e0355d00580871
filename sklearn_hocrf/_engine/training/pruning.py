"""Pruning: a level of order 0 keeps a few labels per token, to which training and prediction are restricted."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._data.arrays import cached_property, joined_ranges
from ..inference.candidates import Candidates, LevelZero, train_level_zero
from ..inference.chain import ChainModel
from ..inference.lattice import LatticeModel, LatticePlan
from .problem import Problem

SHARE = 0.01  # of level 0 in the held-out likelihood


def most_states(n_candidates: int) -> int:
    """Return how many states of the pattern automaton each token keeps."""
    return 2 * n_candidates


@dataclass(eq=False, repr=False)
class PrunedProblem(Problem):
    """A problem in which each token has a few candidate labels; features pair only with single labels.

    The likelihood is conditional on all labels being candidates. Other parameters are as in :class:`Problem`.

    Parameters
    ----------
    candidates : Candidates
        The labels that tokens may have: the support is None.
    """

    candidates: Candidates

    @classmethod
    def of(cls, problem: Problem, candidates: Candidates, level_zero: LevelZero | None = None) -> PrunedProblem:
        """Return the problem with candidates that its support allows, whose source is ``level_zero``."""
        same = {field.name: getattr(problem, field.name) for field in fields(problem)}
        changes: Any = {"model_class": LatticeModel, "support": None, "level_zero": level_zero}
        return cls(**same | changes, candidates=candidates)

    @cached_property
    def plan(self) -> LatticePlan:
        """The lattice of the candidates, and its division into tasks."""
        n_states = None if self.level_zero is None else self.level_zero.n_states
        return LatticePlan(self.layout, self.batch, self.candidates, n_states, self.schedule, self.n_jobs)

    def part(self, sequences: np.ndarray) -> PrunedProblem:
        tokens = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1])
        return replace(super().part(sequences), candidates=self.candidates.part(tokens))


def prune(
    problem: Problem, n_candidates: int | None, random_state: int | np.random.RandomState | None = None
) -> Problem:
    """Return the problem in which each token has a few candidate labels, chosen by a level 0 that is trained first.

    The true labels are candidates, too. None, or at least as many candidates as labels, prune nothing. Without a
    ``random_state``, the order of the sequences in the training of level 0 is always the same.
    """
    if n_candidates is None or n_candidates >= problem.layout.patterns.n_labels:
        return problem
    seed = 0 if random_state is None else int(check_random_state(random_state).randint(2**31))
    settings = int(n_candidates), most_states(int(n_candidates)), seed
    data = problem.batch, problem.truth, problem.sequence_weight
    level_zero = train_level_zero(problem.layout.of_order_zero(), *data, settings)
    candidates = level_zero.finder().find(problem.batch, problem.support)
    return PrunedProblem.of(problem, candidates.with_labels(problem.truth), level_zero)


def prune_held_out(problem: Problem, level_zero: LevelZero | None) -> Problem:
    """Return held-out data over the candidates of level 0, which has not seen their labels: these are not added."""
    if level_zero is None:
        return problem
    model = LatticeModel(problem.layout, np.zeros(problem.n_weights), level_zero.finder(), problem.schedule)
    # the plan has more states where the constraints leave no labelling of fewer
    plan = model.posterior(problem.batch, problem.support, problem.n_jobs).plan
    pruned = PrunedProblem.of(problem, plan.candidates, level_zero)
    pruned.plan = plan
    return pruned


class PrunedLikelihood:
    """The negative log-likelihood of held-out labels, some of which pruning leaves no probability.

        L(w) = - sum_n c_n log((1 - e) p(y_n | x_n; w) + e q(y_n | x_n))

    p is the model over lattices, q the model of order 0 that has chosen the candidates, and e = :data:`SHARE`.
    """

    def __init__(self, problem: Problem, level_zero: LevelZero) -> None:
        self.problem = problem
        batch, truth, plan = problem.batch, problem.truth, problem.plan
        first = ChainModel(level_zero.layout, level_zero.weights).posterior(batch, n_jobs=problem.n_jobs)
        self._other = np.log(SHARE) + first.log_score(truth) - first.log_z()
        self._codes = np.where(  # where p is 0 the counts get no weight, but must be of candidates
            plan.candidates.contain(truth), truth, plan.candidates.labels[plan.candidates.starts[:-1]]
        )

    def value_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        problem, posterior = self.problem, self.problem.posterior(w)
        log_p = posterior.log_score(problem.truth) - posterior.log_z()
        log_mixture = np.logaddexp(np.log1p(-SHARE) + log_p, self._other)
        weight = problem.sequence_weight * np.exp(np.log1p(-SHARE) + log_p - log_mixture)
        expected = posterior.expectations(weight).counts
        gradient = expected - problem.plan.empirical_counts(self._codes, weight)
        return -float(problem.sequence_weight @ log_mixture), gradient

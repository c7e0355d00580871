"""Pruning: a model of order 0 selects a few labels per token, to which training and prediction are restricted."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..._data.arrays import cached_property, freeze, joined_ranges
from ..._data.batch import SequenceBatch, TokenFeatures, as_sparse
from ..inference.candidates import CandidateFinder, Candidates, LatticeModel, LatticePlan, LevelZero
from ..kernels import candidates as kernels
from ..structure.layout import WeightLayout
from .problem import Problem

_EPOCHS = 3  # minimum number of epochs; one fewer before the recall is measured, half as many afterwards
_LEAST_STEPS, _MOST_EPOCHS = 10_000, 50  # with few tokens, more epochs, up to this number of steps


def most_states(n_candidates: int) -> int:
    """Return the number of states of the pattern automaton that each token keeps."""
    return 2 * n_candidates


@dataclass(eq=False, repr=False)
class PrunedProblem(Problem):
    """A problem in which each token has a few candidate labels; features pair only with single labels.

    The likelihood is that of the labels, conditional on all of them being candidates. Other parameters are as in
    :class:`Problem`.

    Parameters
    ----------
    candidates : Candidates
        The labels that tokens may have; they replace the support, which is None.
    """

    candidates: Candidates

    @classmethod
    def of(cls, problem: Problem, candidates: Candidates, level_zero: LevelZero | None = None) -> PrunedProblem:
        """Return the problem with candidates, which its support must allow; the model ``level_zero`` chose them."""
        same = {field.name: getattr(problem, field.name) for field in fields(problem)}
        changes: Any = {"model_class": LatticeModel, "support": None, "level_zero": level_zero}
        return cls(**same | changes, candidates=candidates)

    @cached_property
    def plan(self) -> LatticePlan:
        """The lattice of the candidates, and its division into chunks."""
        n_states = None if self.level_zero is None else self.level_zero.n_states
        return LatticePlan(self.layout, self.batch, self.candidates, n_states, self.schedule, self.n_jobs)

    def part(self, sequences: np.ndarray) -> PrunedProblem:
        tokens = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1])
        part: Any = super().part(sequences)
        return replace(part, candidates=self.candidates.part(tokens))


def prune(
    problem: Problem, n_candidates: int | None, random_state: int | np.random.RandomState | None = None
) -> Problem:
    """Return the problem in which each token has a few candidate labels, chosen by a model of order 0 (level 0).

    Level 0 is trained first. The true labels are candidates, too. If ``n_candidates`` is None, or at least the number
    of labels, the result is ``problem`` itself. Without a ``random_state``, level 0 is always trained on the sequences
    in the same order.
    """
    if n_candidates is None or n_candidates >= problem.layout.patterns.n_labels:
        return problem
    seed = 0 if random_state is None else int(check_random_state(random_state).randint(2**31))
    settings = int(n_candidates), most_states(int(n_candidates)), seed
    data = problem.batch, problem.truth, problem.sequence_weight
    level_zero = train_level_zero(problem.layout.of_order_zero(), *data, settings)
    candidates = level_zero.finder().find(problem.batch, problem.support)
    return PrunedProblem.of(problem, candidates.with_labels(problem.truth), level_zero)


def train_level_zero(
    layout: WeightLayout,
    batch: SequenceBatch,
    codes: np.ndarray,
    sequence_weight: np.ndarray,
    settings: tuple[int, int, int],
) -> LevelZero:
    """Train a model of order 0 with a few epochs of stochastic gradient descent.

    A tenth of the sequences is held out until the last few epochs. Before these epochs, it is used to measure how often
    the true label is among the candidates.

    Parameters
    ----------
    layout : WeightLayout
        A layout whose patterns are the single labels.
    batch : SequenceBatch
    codes : ndarray of shape (N,), int32
        Labels of the tokens.
    sequence_weight : ndarray of shape (n_sequences,)
    settings : tuple of int
        Number of candidates and number of states of each token, and a seed for the order of the sequences.
    """
    n_candidates, n_states, seed = settings
    rng, n_sequences = np.random.default_rng(seed), len(batch)
    descent = _Descent(layout, batch, codes, sequence_weight)
    first = np.sort(rng.permutation(n_sequences)[: -(-n_sequences // 10) if n_sequences > 1 else 0])
    others = np.setdiff1d(np.arange(n_sequences), first)
    n_epochs = max(_EPOCHS, min(_LEAST_STEPS // max(len(codes), 1), _MOST_EPOCHS))
    for _ in range(n_epochs - 1):
        descent.run_epoch(rng.permutation(others))
    recall = np.nan
    tokens = joined_ranges(batch.offsets[first], batch.offsets[first + 1])
    if len(tokens):
        candidates = CandidateFinder(layout, descent.weights(), n_candidates).find(batch[first])
        recall = float(candidates.contain(codes[tokens]).mean())
    descent.forget_snapshots()
    for _ in range(max(2, n_epochs // 2)):
        descent.run_epoch(rng.permutation(n_sequences))
    return LevelZero(layout, descent.weights(), n_candidates, n_states, recall)


class _Descent:
    """Stochastic gradient descent with a step for each token; the parameters are as in :func:`train_level_zero`."""

    rate = 8.0  # divided by the squared norm of a token's features: the step size; lower rates need more epochs
    most_weight = 4.0  # of a sequence, relative to the mean: with more, steps would be too long
    n_snapshots = 8  # of the weights in each epoch except the first; the result is their mean

    def __init__(
        self, layout: WeightLayout, batch: SequenceBatch, codes: np.ndarray, sequence_weight: np.ndarray
    ) -> None:
        self._layout, self._n_epochs, self._n_snapshots = layout, 0, 0
        self._level = kernels.Level(np.zeros(layout.n_pairs), np.zeros(layout.patterns.n_labels))
        self._sums = [np.zeros(len(table)) for table in self._level]
        features, self._size = _of_equal_size(layout.rows(as_sparse(batch), dense=False), layout.pairs.starts)
        self._tables = features, layout.pairs, layout.part_links
        parts_of_a_label = len(layout.part_links.ids) / layout.patterns.n_labels
        self._rate = self.rate / (1 + parts_of_a_label / 2)  # half, because labels oppose each other in shared parts
        mean = max(float(np.mean(sequence_weight)), np.finfo(float).tiny)
        weight = np.minimum(sequence_weight / mean, self.most_weight)
        self._data = kernels.LabelledTokens(
            freeze(batch.offsets, np.int64), freeze(codes, np.int32), freeze(weight, np.float64)
        )

    def run_epoch(self, order: np.ndarray) -> None:
        """Take the steps of the given sequences, in the given order."""
        for part in np.array_split(order, self.n_snapshots):
            kernels.descend(*self._tables, self._data, part, self._rate, self._level)
            if self._n_epochs > 0:
                self._n_snapshots += 1
                for total, table in zip(self._sums, self._level, strict=True):
                    total += table
        self._n_epochs += 1

    def forget_snapshots(self) -> None:
        """Exclude all snapshots so far from the mean."""
        self._n_snapshots = 0
        for total in self._sums:
            total[:] = 0.0

    def weights(self) -> np.ndarray:
        """Return the mean of the snapshots, or the current weights if there are no snapshots."""
        pairs, bias = self._level
        if self._n_snapshots:
            pairs, bias = (total / self._n_snapshots for total in self._sums)
        return np.concatenate([pairs / self._size, bias[self._layout.bias_pattern]])


def _of_equal_size(features: TokenFeatures, starts: np.ndarray) -> tuple[TokenFeatures, np.ndarray | float]:
    """Return features scaled to a mean absolute value of 1, and the resulting scale of the weight of each pair.

    The length of a step depends on the whole token, so a feature with large values, such as a year, would make the
    steps of all other features too short. ``starts``, of shape (F + 1,), gives the range of each attribute's pairs.
    """
    if not len(features.values):
        return features, 1.0
    rank = np.searchsorted(starts, features.pair, "right") - 1
    part = 2.0**-60  # sums must not overflow
    sizes = np.bincount(rank, np.abs(features.values) * part, len(starts) - 1)
    n_values = np.bincount(rank, features.values != 0, len(starts) - 1)
    size = np.where(sizes > 0, np.maximum(sizes / np.maximum(n_values, 1) / part, 1e-290), 1.0)
    if (size == 1).all():
        return features, 1.0
    values = freeze(features.values / size[rank], np.float64)
    return features._replace(values=values), np.repeat(size, np.diff(starts))

"""Which labels tokens may have in a lattice: the best ones by a model of order 0, which is trained for this alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._data.arrays import freeze, joined_ranges, offsets_of
from .._data.batch import SequenceBatch, TokenFeatures
from .._data.masks import Mask
from .._kernels import candidates as kernels
from .._structure.layout import WeightLayout

__all__ = ["CandidateFinder", "Candidates", "LevelZero", "train_level_zero"]


_LEAST_STEPS, _MOST_EPOCHS = 10_000, 50  # few tokens are gone through more often: until there are so many steps


class Candidates(NamedTuple):
    """The labels that each token may have.   N tokens, M candidates."""

    starts: np.ndarray  # (N + 1,) int64
    labels: np.ndarray  # (M,) int32   ascending for each token
    scores: np.ndarray  # (M,)   that they have been chosen by
    codes: np.ndarray  # (N,) int32   labels of tokens that no limit leaves out; or empty

    @classmethod
    def of_counts(
        cls, counts: np.ndarray, labels: np.ndarray, scores: np.ndarray | None = None, codes: ArrayLike = ()
    ) -> Candidates:
        """Return candidates, given their number for each token, their labels and scores; those are 0 by default."""
        scores = np.zeros(len(labels)) if scores is None else scores
        starts = freeze(offsets_of(counts), np.int64)
        return cls(starts, freeze(labels, np.int32), freeze(scores, np.float64), freeze(codes, np.int32))

    @property
    def tokens(self) -> np.ndarray:
        """The token of each candidate; shape (M,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def mask(self, n_labels: int) -> Mask:
        """Return the mask that allows these labels alone."""
        mask = Mask(np.zeros((len(self.starts) - 1, n_labels), bool), np.zeros(len(self.starts) - 1, np.int8))
        mask.allowed[self.tokens, self.labels] = True
        return mask

    def part(self, tokens: np.ndarray) -> Candidates:
        """Return the candidates of some tokens, given by their numbers."""
        starts, stops = self.starts[tokens], self.starts[tokens + 1]
        places, codes = joined_ranges(starts, stops), self.codes[tokens] if len(self.codes) else ()
        return Candidates.of_counts(stops - starts, self.labels[places], self.scores[places], codes)

    def allowed_by(self, mask: Mask) -> Candidates:
        """Return the candidates that a mask lets through."""
        tokens = self.tokens
        kept = mask.allowed[tokens, self.labels]
        counts = np.bincount(tokens[kept], minlength=len(mask.allowed))
        return Candidates.of_counts(counts, self.labels[kept], self.scores[kept])

    def contain(self, codes: np.ndarray) -> np.ndarray:
        """Tell whether the label of each token is among its candidates; bool of shape (N,)."""
        tokens = self.tokens
        found = np.zeros(len(codes), bool)
        found[tokens[self.labels == codes[tokens]]] = True
        return found

    def places(self, codes: np.ndarray) -> np.ndarray:
        """Return the number of the candidate that the label of each token is; it is among them."""
        return np.flatnonzero(self.labels == codes[self.tokens])

    def with_labels(self, codes: np.ndarray) -> Candidates:
        """Return the candidates and, where it is not among them, a given label of each token, which no limit drops."""
        missing = np.flatnonzero(~self.contain(codes))
        tokens = np.concatenate([self.tokens, missing])
        labels = np.concatenate([self.labels, codes[missing]])
        lowest = self.scores.min(initial=0.0)
        scores = np.concatenate([self.scores, np.full(len(missing), lowest)])
        order = np.lexsort((labels, tokens))
        counts = np.bincount(tokens, minlength=len(codes))
        return Candidates.of_counts(counts, labels[order], scores[order], codes)


class CandidateFinder:
    """Finds the best labels of tokens, by a model of order 0; of equal ones the lowest.

    Parameters
    ----------
    layout : WeightLayout
        Its patterns are the single labels.
    weights : ndarray of shape (n_weights,)
    n_candidates : int
        Labels of each token.
    n_states : int or None
        States of the automaton after each token, at most; None stands for all.
    """

    def __init__(
        self, layout: WeightLayout, weights: np.ndarray, n_candidates: int, n_states: int | None = None
    ) -> None:
        self.layout, self.n_candidates, self.n_states = layout, n_candidates, n_states
        pairs, bias = weights[: layout.n_pairs], layout.pattern_coef(weights)
        numbers = pairs, layout.dense_table(pairs), bias
        self._level = kernels.TrainedLevel(*(freeze(array, np.float64) for array in numbers))

    def find(self, batch: SequenceBatch, mask: Mask | None = None, n_best: np.ndarray | None = None) -> Candidates:
        """Return the best labels of each token of those that a mask allows.

        ``n_best``, of shape (N,), is how many each token gets, at most; None stands for ``n_candidates``.
        """
        batch, n_labels = batch.as_sparse(), self.layout.patterns.n_labels
        n_best = np.full(batch.n_tokens, self.n_candidates) if n_best is None else n_best
        most = min(int(n_best.max(initial=1)), n_labels)
        shape = batch.n_tokens, most
        labels, scores, counts = np.zeros(shape, np.int32), np.zeros(shape), np.zeros(batch.n_tokens, np.int64)
        allowed = freeze(np.empty((0, n_labels)) if mask is None else mask.allowed, np.bool_)
        layout = self.layout
        tables = layout.rows(batch), layout.pairs, layout.part_links, self._level
        kernels.best_labels(*tables, allowed, freeze(n_best, np.int64), labels, scores, counts)
        there = np.arange(most) < counts[:, None]
        return Candidates.of_counts(counts, labels[there], scores[there])


class LevelZero(NamedTuple):
    """A model of order 0 that says which labels tokens may have in lattices."""

    layout: WeightLayout  # its patterns are the single labels
    weights: np.ndarray  # (n_weights,)
    n_candidates: int  # labels of each token
    n_states: int | None  # states after each token, at most; None: all
    recall: float  # share of tokens of held-out sequences whose label is among their candidates; nan without any

    def finder(self) -> CandidateFinder:
        """Return what finds candidates."""
        return CandidateFinder(self.layout, self.weights, self.n_candidates, self.n_states)


def train_level_zero(
    layout: WeightLayout,
    batch: SequenceBatch,
    codes: np.ndarray,
    sequence_weight: np.ndarray,
    settings: tuple[int, int | None, int, int],
) -> LevelZero:
    """Train a model of order 0, by a few epochs of stochastic gradient descent.

    A tenth of the sequences takes no part in all epochs but the last few, before which it tells how often the right
    label is among the candidates.

    Parameters
    ----------
    layout : WeightLayout
        Its patterns are the single labels.
    batch : SequenceBatch
    codes : ndarray of shape (N,), int32
        Labels of its tokens.
    sequence_weight : ndarray of shape (n_sequences,)
    settings : tuple of int
        Candidates and states of each token, epochs (where there are few tokens, there are more), and a seed for the
        order of the sequences.
    """
    n_candidates, n_states, n_epochs, seed = settings
    rng, n_sequences = np.random.default_rng(seed), len(batch)
    descent = _Descent(layout, batch, codes, sequence_weight)
    first = np.sort(rng.permutation(n_sequences)[: -(-n_sequences // 10) if n_sequences > 1 else 0])
    others = np.setdiff1d(np.arange(n_sequences), first)
    n_epochs = max(n_epochs, min(_LEAST_STEPS // max(batch.n_tokens, 1), _MOST_EPOCHS))
    for _ in range(n_epochs - 1):
        descent.run_epoch(rng.permutation(others))
    recall = np.nan
    if len(first) and n_epochs > 1:
        tokens = joined_ranges(batch.offsets[first], batch.offsets[first + 1])
        found = CandidateFinder(layout, descent.weights(), n_candidates).find(batch[first])
        recall = float(found.contain(codes[tokens]).mean())
    descent.forget_snapshots()
    for _ in range(max(2, n_epochs // 2)):
        descent.run_epoch(rng.permutation(n_sequences))
    return LevelZero(layout, descent.weights(), n_candidates, n_states, recall)


class _Descent:
    """Stochastic gradient descent with a step for each token; parameters as in :func:`train_level_zero`."""

    rate = 8.0  # of a step, over the squared norm of a token's features; less takes more epochs
    most_weight = 4.0  # of a sequence, relative to the mean: longer steps go too far
    n_snapshots = 8  # of the weights in each epoch but the first, of which the mean is taken

    def __init__(
        self, layout: WeightLayout, batch: SequenceBatch, codes: np.ndarray, sequence_weight: np.ndarray
    ) -> None:
        self._layout, self._n_epochs, self._n_snapshots = layout, 0, 0
        self._level = kernels.Level(np.zeros(layout.n_pairs), np.zeros(layout.patterns.n_labels))
        self._sums = [np.zeros(len(numbers)) for numbers in self._level]
        features, self._size = _of_equal_size(layout.rows(batch.as_sparse(), dense=False), layout.pairs.starts)
        self._tables = features, layout.pairs, layout.part_links
        parts_of_a_label = len(layout.part_links.numbers) / layout.patterns.n_labels
        self._rate = self.rate / (1 + parts_of_a_label / 2)  # half: what labels with a part want of it differs
        mean = max(float(np.mean(sequence_weight)), np.finfo(float).tiny)
        weight = np.minimum(sequence_weight / mean, self.most_weight)
        self._data = kernels.LabelledTokens(
            freeze(batch.offsets, np.int64), freeze(codes, np.int32), freeze(weight, np.float64)
        )

    def run_epoch(self, order: np.ndarray) -> None:
        """Go through some sequences, in the given order."""
        for part in np.array_split(order, self.n_snapshots):
            kernels.descend(*self._tables, self._data, part, self._rate, self._level)
            if self._n_epochs > 0:
                self._n_snapshots += 1
                for total, numbers in zip(self._sums, self._level, strict=True):
                    total += numbers
        self._n_epochs += 1

    def forget_snapshots(self) -> None:
        """Leave the epochs so far out of the mean."""
        self._n_snapshots = 0
        for total in self._sums:
            total[:] = 0.0

    def weights(self) -> np.ndarray:
        """Return the mean of the snapshots, or the weights as they are if there are none."""
        pairs, bias = self._level
        if self._n_snapshots:
            pairs, bias = (total / self._n_snapshots for total in self._sums)
        return np.concatenate([pairs / self._size, bias[self._layout.bias_pattern]])


def _of_equal_size(features: TokenFeatures, starts: np.ndarray) -> tuple[TokenFeatures, np.ndarray | float]:
    """Return features whose mean absolute value is 1, and what the weights of each pair then are multiples of.

    The length of a step is that of a whole token, so a feature of large values, such as a year, would leave the others
    no steps to learn by. ``starts`` (F + 1,) is the range of each attribute's pairs.
    """
    if not len(features.values):
        return features, 1.0
    rank = np.searchsorted(starts, features.place, "right") - 1
    part = 2.0**-60  # sums must not overflow
    sizes = np.bincount(rank, np.abs(features.values) * part, len(starts) - 1)
    n_values = np.bincount(rank, features.values != 0, len(starts) - 1)
    size = np.where(sizes > 0, np.maximum(sizes / np.maximum(n_values, 1) / part, 1e-290), 1.0)
    if (size == 1).all():
        return features, 1.0
    values = freeze(features.values / size[rank], np.float64)
    return features._replace(values=values), np.repeat(size, np.diff(starts))

"""Candidate labels of tokens in a lattice: the best ones by a model of order 0, which is trained only for this."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..._data.arrays import freeze, joined_ranges, offsets_of
from ..._data.batch import SequenceBatch, TokenFeatures, as_sparse
from ..._data.checks import is_integer
from ..._data.segments import Mask
from ..kernels import candidates as kernels
from ..structure.layout import WeightLayout

_EPOCHS = 3  # in which the weights are found that measure the recall, and half as many on all sequences
_LEAST_STEPS, _MOST_EPOCHS = 10_000, 50  # with few tokens, there are more epochs until this number of steps


class Candidates(NamedTuple):
    """The possible labels of each token. N tokens, M candidates."""

    starts: np.ndarray  # (N + 1,) int64
    labels: np.ndarray  # (M,) int32   ascending for each token
    scores: np.ndarray  # (M,)   by which they were chosen
    codes: np.ndarray  # (N,) int32   labels of tokens that no limit drops; or empty

    @classmethod
    def of_counts(
        cls, counts: np.ndarray, labels: np.ndarray, scores: np.ndarray | None = None, codes: ArrayLike = ()
    ) -> Candidates:
        """Return candidates, given their number for each token, their labels and scores; scores are 0 by default."""
        scores = np.zeros(len(labels)) if scores is None else scores
        starts = freeze(offsets_of(counts), np.int64)
        return cls(starts, freeze(labels, np.int32), freeze(scores, np.float64), freeze(codes, np.int32))

    @property
    def tokens(self) -> np.ndarray:
        """The token of each candidate; shape (M,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def mask(self, n_labels: int) -> Mask:
        """Return the mask that allows only these labels."""
        mask = Mask(np.zeros((len(self.starts) - 1, n_labels), bool), np.zeros(len(self.starts) - 1, np.int8))
        mask.allowed[self.tokens, self.labels] = True
        return mask

    def part(self, tokens: np.ndarray) -> Candidates:
        """Return the candidates of some tokens, given by their indices."""
        starts, stops = self.starts[tokens], self.starts[tokens + 1]
        slots, codes = joined_ranges(starts, stops), self.codes[tokens] if len(self.codes) else ()
        return Candidates.of_counts(stops - starts, self.labels[slots], self.scores[slots], codes)

    def allowed_by(self, mask: Mask) -> Candidates:
        """Return the candidates that a mask allows."""
        tokens = self.tokens
        kept = mask.allowed[tokens, self.labels]
        counts = np.bincount(tokens[kept], minlength=len(mask.allowed))
        return Candidates.of_counts(counts, self.labels[kept], self.scores[kept])

    def contain(self, codes: np.ndarray) -> np.ndarray:
        """Return whether the label of each token is among its candidates; bool of shape (N,)."""
        tokens = self.tokens
        is_candidate = np.zeros(len(codes), bool)
        is_candidate[tokens[self.labels == codes[tokens]]] = True
        return is_candidate

    def slots(self, codes: np.ndarray) -> np.ndarray:
        """Return the index of the candidate that is the label of each token; it must be among them."""
        return np.flatnonzero(self.labels == codes[self.tokens])

    def with_labels(self, codes: np.ndarray) -> Candidates:
        """Return the candidates and a given label of each token, which no limit drops."""
        missing = np.flatnonzero(~self.contain(codes))
        tokens = np.concatenate([self.tokens, missing])
        labels = np.concatenate([self.labels, codes[missing]])
        scores = np.concatenate([self.scores, np.full(len(missing), self.scores.min(initial=0.0))])  # the lowest
        order = np.lexsort((labels, tokens))
        counts = np.bincount(tokens, minlength=len(self.starts) - 1)
        return Candidates.of_counts(counts, labels[order], scores[order], codes)


class CandidateFinder:
    """Find the best labels of tokens, by a model of order 0; ties go to the lowest label.

    Parameters
    ----------
    layout : WeightLayout
        Its patterns are the single labels.
    weights : ndarray of shape (n_weights,)
    n_candidates : int
        Number of labels of each token.
    n_states : int or None
        Maximum number of states of the automaton after each token; None means all.
    """

    def __init__(
        self, layout: WeightLayout, weights: np.ndarray, n_candidates: int, n_states: int | None = None
    ) -> None:
        self.layout, self.n_candidates, self.n_states = layout, n_candidates, n_states
        pairs, bias = weights[: layout.n_pairs], layout.pattern_coef(weights)
        tables = pairs, layout.dense_table(pairs), bias
        self._level = kernels.TrainedLevel(*(freeze(array, np.float64) for array in tables))

    def find(self, batch: SequenceBatch, mask: Mask | None = None, n_best: np.ndarray | None = None) -> Candidates:
        """Return the best labels of each token among those that a mask allows.

        ``n_best``, of shape (N,), is the maximum number for each token; None means ``n_candidates``.
        """
        batch, n_labels = as_sparse(batch), self.layout.patterns.n_labels
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
    """A model of order 0 that determines which labels tokens may have in lattices."""

    layout: WeightLayout  # its patterns are the single labels
    weights: np.ndarray  # (n_weights,)
    n_candidates: int  # labels of each token
    n_states: int  # states after each token, at most
    recall: float  # fraction of held-out labels that are among the candidates of their token; nan without such labels

    def finder(self) -> CandidateFinder:
        """Return the finder of candidates."""
        return CandidateFinder(self.layout, self.weights, self.n_candidates, self.n_states)

    def checked(self, layout: WeightLayout, numbers: Callable[..., np.ndarray]) -> LevelZero:
        """Return the level 0 of a fitted model with read-only weights, or raise a ValueError if it does not fit.

        ``numbers`` is the function that checks the weights.
        """
        level_layout = self.layout
        if type(level_layout) is not WeightLayout or (level_layout.patterns.n_labels, level_layout.n_features) != (
            layout.patterns.n_labels,
            layout.n_features,
        ):
            raise ValueError("the layout of level 0 does not match the labels and features of the model")
        weights = numbers(self.weights, "weights of level 0", level_layout.n_weights)
        if not np.isfinite(weights).all():
            raise ValueError("the weights of level 0 are not all finite")
        if not is_integer(self.n_candidates) or self.n_candidates < 1:
            raise ValueError(f"level 0 keeps {self.n_candidates!r:.40} labels, not an integer >= 1")
        if not is_integer(self.n_states) or self.n_states < 1:
            raise ValueError(f"level 0 keeps {self.n_states!r:.40} states, not an integer >= 1")
        if not isinstance(self.recall, float):
            raise ValueError(f"the recall of level 0 is {self.recall!r:.40}, not a float")
        return self._replace(weights=weights)


def train_level_zero(
    layout: WeightLayout,
    batch: SequenceBatch,
    codes: np.ndarray,
    sequence_weight: np.ndarray,
    settings: tuple[int, int, int],
) -> LevelZero:
    """Train a model of order 0, by a few epochs of stochastic gradient descent.

    A tenth of the sequences takes part only in the last few epochs; before these, it is used to measure how often the
    true label is among the candidates.

    Parameters
    ----------
    layout : WeightLayout
        Its patterns are the single labels.
    batch : SequenceBatch
    codes : ndarray of shape (N,), int32
        Labels of the tokens.
    sequence_weight : ndarray of shape (n_sequences,)
    settings : tuple of int
        Candidates and states of each token, and a seed for the order of the sequences.
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
    """Stochastic gradient descent with a step for each token; parameters as in :func:`train_level_zero`."""

    rate = 8.0  # of a step, over the squared norm of a token's features; lower rates need more epochs
    most_weight = 4.0  # of a sequence, relative to the mean: longer steps go too far
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
        self._rate = self.rate / (1 + parts_of_a_label / 2)  # half: labels that share a part pull it apart
        mean = max(float(np.mean(sequence_weight)), np.finfo(float).tiny)
        weight = np.minimum(sequence_weight / mean, self.most_weight)
        self._data = kernels.LabelledTokens(
            freeze(batch.offsets, np.int64), freeze(codes, np.int32), freeze(weight, np.float64)
        )

    def run_epoch(self, order: np.ndarray) -> None:
        """Process some sequences, in the given order."""
        for part in np.array_split(order, self.n_snapshots):
            kernels.descend(*self._tables, self._data, part, self._rate, self._level)
            if self._n_epochs > 0:
                self._n_snapshots += 1
                for total, table in zip(self._sums, self._level, strict=True):
                    total += table
        self._n_epochs += 1

    def forget_snapshots(self) -> None:
        """Exclude the epochs so far from the mean."""
        self._n_snapshots = 0
        for total in self._sums:
            total[:] = 0.0

    def weights(self) -> np.ndarray:
        """Return the mean of the snapshots, or the current weights without snapshots."""
        pairs, bias = self._level
        if self._n_snapshots:
            pairs, bias = (total / self._n_snapshots for total in self._sums)
        return np.concatenate([pairs / self._size, bias[self._layout.bias_pattern]])


def _of_equal_size(features: TokenFeatures, starts: np.ndarray) -> tuple[TokenFeatures, np.ndarray | float]:
    """Return features scaled to a mean absolute value of 1, and the resulting scale of the weights of each pair.

    The length of a step depends on the whole token, so a feature with large values, such as a year, would make the
    steps of the others too short. ``starts`` (F + 1,) is the range of each attribute's pairs.
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

"""Walks through the choices at the borders of labellings: the best ones, random ones, entropies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._data.batch import SequenceBatch
from .._kernels import choices, tag_segments
from .passes import DecodePass, MarginalPass, Receiver
from .schedule import Plan, Task, Tile

__all__ = ["BestLabellings", "Entropies", "LikelyTagSegments", "Samples", "SearchPass", "WeighedTagSegments"]


class BestLabellings(NamedTuple):
    """Labellings of highest score.   n of them, S sequences, N tokens."""

    score: np.ndarray  # (S,)   of the best one
    regret: np.ndarray  # (n, S)   by how much the others' are lower; inf where a sequence has fewer labellings
    codes: np.ndarray  # (n, N) int32   as of :class:`DecodePass`
    lengths: np.ndarray  # (n, N) int32

    @classmethod
    def empty(cls, n_best: int, batch: SequenceBatch) -> BestLabellings:
        """Return tables to write to; a sequence without tokens has one labelling."""
        regret = np.full((n_best, len(batch)), np.inf)
        regret[0, batch.lengths == 0] = 0.0
        shape = n_best, batch.n_tokens
        return cls(np.zeros(len(batch)), regret, np.zeros(shape, np.int32), np.ones(shape, np.int32))


class SearchPass:
    """Finds the best labellings of the tasks of one chunk, along the tables of Viterbi decoding."""

    def __init__(self, decoding: DecodePass, best: BestLabellings) -> None:
        self.decoding, self.best = decoding, best

    def run(self, task: Task) -> None:
        """Do the work of a task."""
        (tile,), decoding = task.tiles, self.decoding
        tables = decoding.choice_tables(tile)
        decoding.store_best(task, tables.beta)
        _, regret, codes, lengths = self.best
        structure = decoding.weighted_arcs, decoding.index, tile, task.sequences
        choices.best_labellings(*structure, tables, codes, lengths, regret)

    def sums(self) -> tuple:
        """Return what has been summed up: nothing."""
        return ()


class Samples(Receiver):
    """Draws labellings; each task has random numbers of its own."""

    def __init__(self, codes: np.ndarray, lengths: np.ndarray, seed: int) -> None:
        self.codes, self.lengths, self.seed = codes, lengths, seed

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        sequences = _sequences(backward.plan, tile, weight)
        rng = np.random.default_rng([self.seed, int(sequences.max()), int(backward.is_log)])
        uniform = rng.random((int(tile.rows[-1]) * sequences.shape[1], self.codes.shape[1]))
        structure = backward.weighted_arcs, backward.index, tile, sequences
        choices.draw_labellings(*structure, backward.continuations(tile), uniform, self.codes, self.lengths)


class Entropies(Receiver):
    """Computes the entropy of each sequence."""

    def __init__(self, entropy: np.ndarray) -> None:
        self.entropy = entropy

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        structure = backward.weighted_arcs, backward.index, tile, _sequences(backward.plan, tile, weight)
        choices.entropies(*structure, backward.continuations(tile), self.entropy)


class LikelyTagSegments(Receiver):
    """Lists segments of at least a probability that tags describe."""

    def __init__(self, tags: tag_segments.Tags, threshold: float, likely: list) -> None:
        self.tags, self.threshold, self.likely = tags, threshold, likely

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        structure = backward.weighted_arcs, tile, _sequences(backward.plan, tile, weight)
        found = tag_segments.list_segments(*structure, backward.continuations(tile), self.tags, self.threshold)
        start, stop, codes = found[:, :3].T.astype(np.int64)
        self.likely.append((start, stop, codes.astype(np.int32), found[:, 3]))


class WeighedTagSegments(Receiver):
    """Computes the probabilities of given segments that tags describe."""

    def __init__(self, tags: tag_segments.Tags, segments: np.ndarray, probability: np.ndarray) -> None:
        self.tags, self.segments, self.probability = tags, segments, probability

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        structure = backward.weighted_arcs, tile, _sequences(backward.plan, tile, weight)
        tables = backward.continuations(tile)
        tag_segments.weigh_segments(*structure, tables, self.tags, self.segments, self.probability)


def _sequences(plan: Plan, tile: Tile, weight: np.ndarray) -> np.ndarray:
    """Return the numbers of the sequences of a tile, -1 where a lane has none or is left out."""
    sequences = np.searchsorted(plan.offsets, tile.first_token, side="right") - 1
    return np.where(weight > 0, sequences, -1)

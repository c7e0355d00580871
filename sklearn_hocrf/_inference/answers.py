"""Answers from the choices at the borders of labellings: best labellings, samples, entropies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._data.batch import SequenceBatch
from .._kernels import choices, tag_segments
from .passes import DecodePass, MarginalPass, Receiver
from .schedule import Task, Tile


class BestLabellings(NamedTuple):
    """Labellings of highest score.   n of them, S sequences, N tokens."""

    score: np.ndarray  # (S,)   of the best one
    regret: np.ndarray  # (n, S)   difference to the best score; inf if a sequence has fewer labellings
    codes: np.ndarray  # (n, N) int32   as in :class:`DecodePass`
    lengths: np.ndarray  # (n, N) int32

    @classmethod
    def empty(cls, n_best: int, batch: SequenceBatch) -> BestLabellings:
        """Return tables to write to; a sequence without tokens has one labelling."""
        regret = np.full((n_best, len(batch)), np.inf)
        regret[0, batch.lengths == 0] = 0.0
        shape = n_best, batch.n_tokens
        return cls(np.zeros(len(batch)), regret, np.zeros(shape, np.int32), np.ones(shape, np.int32))


def search(decoding: DecodePass, chunk: list[Task], best: BestLabellings) -> tuple:
    """Find the best labellings of the tasks of a chunk, using the tables of Viterbi decoding."""
    for task in chunk:
        (tile,) = task.tiles
        tables = decoding.choice_tables(tile)
        decoding.store_best(task, tables.beta)
        structure = decoding.weighted_arcs, decoding.index, tile, task.sequences
        choices.best_labellings(*structure, tables, best.codes, best.lengths, best.regret)
    return ()


class Samples(Receiver):
    """Draw labellings; each task has its own random numbers."""

    def __init__(self, codes: np.ndarray, lengths: np.ndarray, seed: int) -> None:
        self.codes, self.lengths, self.seed = codes, lengths, seed

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        sequences = backward.sequences(tile, weight)
        rng = np.random.default_rng([self.seed, int(sequences.max()), int(backward.is_wide)])
        uniform = rng.random((int(tile.rows[-1]) * sequences.shape[1], self.codes.shape[1]))
        structure = backward.weighted_arcs, backward.index, tile, sequences
        choices.draw_labellings(*structure, backward.continuations(tile), uniform, self.codes, self.lengths)


class Entropies(Receiver):
    """Compute the entropy of each sequence."""

    def __init__(self, entropy: np.ndarray) -> None:
        self.entropy = entropy

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        structure = backward.weighted_arcs, backward.index, tile, backward.sequences(tile, weight)
        choices.entropies(*structure, backward.continuations(tile), self.entropy)


class LikelyTagSegments(Receiver):
    """List the segments encoded by tags that have at least a given probability."""

    def __init__(self, tags: tag_segments.Tags, threshold: float, likely: list) -> None:
        self.tags, self.threshold, self.likely = tags, threshold, likely

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        structure = backward.weighted_arcs, tile, backward.sequences(tile, weight)
        found = tag_segments.list_segments(*structure, backward.continuations(tile), self.tags, self.threshold)
        start, stop, codes = found[:, :3].T.astype(np.int64)
        self.likely.append((start, stop, codes.astype(np.int32), found[:, 3]))


class WeighedTagSegments(Receiver):
    """Compute the probabilities of given segments encoded by tags."""

    def __init__(self, tags: tag_segments.Tags, segments: np.ndarray, probability: np.ndarray) -> None:
        self.tags, self.segments, self.probability = tags, segments, probability

    def receive(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        structure = backward.weighted_arcs, tile, backward.sequences(tile, weight)
        tables = backward.continuations(tile)
        tag_segments.weigh_segments(*structure, tables, self.tags, self.segments, self.probability)

"""The best labellings, found from the choices at the borders of labellings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._data.batch import SequenceBatch
from ..kernels import choices
from .passes import DecodePass
from .schedule import Task


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

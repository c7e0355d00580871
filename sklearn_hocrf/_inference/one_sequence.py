"""The best labelling of one sequence without a batch: neither a plan nor copies, and a search in few states."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .._data.arrays import freeze_all
from .._kernels.bounded_search import FOUND, SearchTables, bound_pairs, find_best
from .chain import ChainModel

MOST_LABELS = 128  # the bound takes their square a token
SHARE_KEPT = 0.25  # of states: with more, the kernels of a batch take less time
FEWEST_KEPT = 64
MOST_CELLS = 1 << 24  # states times tokens: a longer sequence fills the lanes of a batch


class OneSequence:
    """The search for the best labelling of a single sequence, in a model whose arcs have constant scores.

    Parameters
    ----------
    model : ChainModel
    borders : ndarray of shape (2, L) or None
        Whether a label may be the first and the last of a sequence.
    """

    def __init__(self, model: ChainModel, borders: np.ndarray | None) -> None:
        layout, arcs, pairs = model.layout, model.weighted_arcs, model.layout.pairs
        automaton = arcs.outgoing, arcs.source_arcs, arcs.arc_label, arcs.arc_target, arcs.fail, arcs.arc_score
        bounds = np.full((arcs.n_labels, arcs.n_labels), -np.inf)
        bound_pairs(*automaton, bounds)
        scores = np.zeros((2, arcs.n_labels)) if borders is None else np.where(borders, 0.0, -np.inf)
        weights, arc_scores = model.pair_weights, arcs.arc_score[arcs.arc_score > -np.inf]
        largest = max(np.abs(weights).max(initial=0.0), np.abs(arc_scores).max(initial=0.0))
        bounds, scores = freeze_all((bounds, scores), np.float64)
        of_pairs = layout.rank_of_attribute, pairs.starts, pairs.columns, weights, float(largest)
        self.tables = SearchTables(*automaton, bounds, scores, *of_pairs)
        self.most_kept = min(max(FEWEST_KEPT, int(SHARE_KEPT * len(arcs.fail))), len(arcs.fail))

    @classmethod
    def of(cls, model: Any, borders: np.ndarray | None) -> Self | None:
        """Return the search, or None where it does not hold: arcs that vary, parts, many labels, other models."""
        holds = type(model) is ChainModel and model.layout.pairs.n_columns == model.weighted_arcs.n_labels
        return cls(model, borders) if holds and model.weighted_arcs.n_labels <= MOST_LABELS else None

    def decode(self, ids: np.ndarray, indptr: np.ndarray) -> np.ndarray | None:
        """Return the codes of the best labelling, or None if it is undecided.

        Parameters
        ----------
        ids : ndarray of shape (nnz,), int32
            Attributes of the tokens, all of value 1; -1 for unknown ones.
        indptr : ndarray of shape (T + 1,), int64
            Range of each token.
        """
        codes = np.empty(len(indptr) - 1, np.int32)
        if not len(codes):
            return codes
        if len(codes) * len(self.tables.fail) > MOST_CELLS:
            return None
        return codes if find_best(self.tables, ids, indptr, self.most_kept, codes) == FOUND else None

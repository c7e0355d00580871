"""The answers about one sequence without a batch: no plan, no copies, and a search in few states for its labels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..._data.arrays import freeze_all
from ..._data.segments import Segments
from ..kernels import chain
from ..kernels._network import LOWEST_LOG
from ..kernels.bounded_search import FOUND, SearchTables, bound_pairs, find_best, score_tokens
from ..kernels.choices import ChoiceTables
from ..kernels.tag_segments import Tags, weigh_segments
from ..structure.weighted_arcs import WeightedArcs, given_arcs
from .chain import ChainModel
from .posterior import LARGE_SCORE, by_first_token

MOST_LABELS = 128  # the bound takes their square a token
SHARE_KEPT = 0.25  # of states: with more, the kernels of a batch take less time
FEWEST_KEPT = 64
MOST_CELLS = 1 << 24  # states times tokens: a longer sequence fills the lanes of a batch
MOST_OF_PASS = 1 << 20  # likewise, of passes that keep all of them
_FIRST = np.zeros((1, 1), np.int64)  # the sequence of the only lane


class OneSequence:
    """The answers about a single sequence, of a model whose arcs have constant scores.

    The methods take the attributes of the tokens, ids (nnz,) int32, all of value 1, -1 for unknown ones, and the range
    of each token, indptr (T + 1,) int64. They return None where the kernels of a batch are needed.

    Parameters
    ----------
    arcs : WeightedArcs
    borders : ndarray of shape (2, L)
        Scores that are added to those of labels at the first and at the last token.
    pairs : tuple of ndarray
        The rank of each attribute, the range of the weights of each rank, their labels, and the weights.
    """

    def __init__(self, arcs: WeightedArcs, borders: np.ndarray, pairs: tuple) -> None:
        automaton = arcs.outgoing, arcs.source_arcs, arcs.arc_label, arcs.arc_target, arcs.fail, arcs.arc_score
        bounds = np.full((arcs.n_labels, arcs.n_labels), -np.inf)
        bound_pairs(*automaton, bounds)
        weights, possible = pairs[-1], arcs.arc_score[arcs.arc_score > -np.inf]
        largest = max(np.abs(weights).max(initial=0.0), np.abs(possible).max(initial=0.0))
        tables: Any = *automaton, *freeze_all((bounds, borders), np.float64), *pairs, float(largest)
        self.arcs, self.tables = arcs, SearchTables(*tables)
        self.most_kept = min(max(FEWEST_KEPT, int(SHARE_KEPT * len(arcs.fail))), len(arcs.fail))
        self.scales = possible.min(initial=np.inf) - arcs.log_shift > LOWEST_LOG

    @classmethod
    def of(cls, model: Any, borders: np.ndarray | None) -> Self | None:
        """Return the answers of a model, given whether each label may be the first and the last of a sequence, (2, L).

        None where they do not hold: arcs that vary, parts, many labels, other models.
        """
        n_labels = model.weighted_arcs.n_labels
        if type(model) is not ChainModel or model.layout.pairs.n_columns != n_labels or n_labels > MOST_LABELS:
            return None
        scores = np.zeros((2, n_labels)) if borders is None else np.where(borders, 0.0, -np.inf)
        pairs = model.layout.pairs
        of_pairs = model.layout.rank_of_attribute, pairs.starts, pairs.columns, model.pair_weights
        return cls(model.weighted_arcs, scores, of_pairs)

    @classmethod
    def of_arrays(cls, n_labels: int, structure: tuple, score: np.ndarray, borders: np.ndarray, pairs: tuple) -> Any:
        """Return the answers of the model of a file: its states and arcs as for ``given_arcs``."""
        if n_labels > MOST_LABELS:
            return None
        pairs = freeze_all(pairs, np.int32, np.int64, np.int32, np.float64)
        return cls(given_arcs(n_labels, structure, score), borders, pairs)

    def decode(self, ids: np.ndarray, indptr: np.ndarray) -> np.ndarray | None:
        """Return the codes of the best labelling; None also if it is undecided."""
        codes = np.empty(len(indptr) - 1, np.int32)
        if not len(codes):
            return codes
        if len(codes) * len(self.tables.fail) > MOST_CELLS:
            return None
        return codes if find_best(self.tables, ids, indptr, self.most_kept, codes) == FOUND else None

    def marginals(self, ids: np.ndarray, indptr: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Return log Z, and the probability of each label at each token; (T, L)."""
        scores = self._scores(ids, indptr)
        if scores is None or (log_z := _Lane(self.arcs, scores).run(backward=True)) is None:
            return None
        np.maximum(scores, 0.0, out=scores)
        return log_z, np.divide(scores, np.add.reduce(scores, axis=1, keepdims=True), out=scores)

    def log_likelihood(
        self, ids: np.ndarray, indptr: np.ndarray, codes: list[int], log_z: float | None = None
    ) -> float | None:
        """Return the logarithm of the probability of a possible labelling, for which log Z may be known."""
        scores = self._scores(ids, indptr)
        if scores is None or len(codes) != len(scores):  # a batch says what is wrong
            return None
        labels, used = np.array(codes, np.int32), np.empty(len(codes), np.int32)
        chain.label_arcs(self.arcs, np.array([0, len(codes)]), labels, used)
        score = float(np.add.reduce(self.arcs.arc_score[used] + scores[np.arange(len(codes)), labels]))
        log_z = _Lane(self.arcs, scores).run() if log_z is None else log_z
        if log_z is None or score == -np.inf or abs(log_z) > LARGE_SCORE:  # rounding of large sums matters
            return None
        return min(score - log_z, 0.0)

    def segment_probabilities(
        self, ids: np.ndarray, indptr: np.ndarray, segments: Segments, tags: Tags
    ) -> np.ndarray | None:
        """Return the probabilities of segments, no two of which have the same start; (M,)."""
        scores, arcs = self._scores(ids, indptr), self.arcs
        if scores is None:
            return None
        lane = _Lane(arcs, scores.copy())
        if lane.run(backward=True) is None:
            return None
        with np.errstate(divide="ignore"):
            beta = np.log(lane.tables.alpha)
        met = np.empty((len(arcs.fail), arcs.n_labels), np.int32), np.zeros(len(arcs.fail), np.bool_)
        choices = ChoiceTables(arcs.n_labels, scores.reshape(-1, 1), lane.tables.varying, beta, *met)
        table, probability = by_first_token(segments, len(scores))
        weigh_segments(arcs, lane.tile, _FIRST, choices, tags, table, probability)
        return np.minimum(probability[segments.start], 1.0)

    def _scores(self, ids: np.ndarray, indptr: np.ndarray) -> np.ndarray | None:
        """Return the scores of labels at tokens; (T, L)."""
        n_tokens = len(indptr) - 1
        if not (self.scales and n_tokens and n_tokens * len(self.tables.fail) <= MOST_OF_PASS):
            return None
        scores = np.empty((n_tokens, self.arcs.n_labels))
        return scores if score_tokens(self.tables, ids, indptr, scores) > 2 * n_tokens else None  # of attributes


class _Lane:
    """The tables of passes over one sequence, whose scores (T, L) become marginals."""

    def __init__(self, arcs: WeightedArcs, scores: np.ndarray) -> None:
        n_tokens, n_states, last = len(scores), len(arcs.fail), np.array([[len(scores) - 1]])
        self.arcs, rows = arcs, (np.array([0, n_tokens]), np.zeros((1, 1)), last + 1, last)
        self.tile = chain.LocalTile(*freeze_all(rows, np.int64))
        self.tables = chain.ChainTables(scores.reshape(-1, 1), *_columns(0, (n_tokens + 1) * n_states, n_tokens))
        n_values, self.n_arcs = n_states + len(arcs.starts) - 1, len(arcs.arc_score)
        self.scratch = chain.ChainScratch(*_columns(n_values, self.n_arcs + len(arcs.back_starts) - 1, n_values))

    def run(self, backward: bool = False) -> float | None:
        """Return log Z; None where another kind of numbers is needed."""
        n_states = len(self.arcs.fail)
        carry, log_z, suspect = np.zeros((n_states, 1)), np.zeros((1, 1)), np.zeros((1, 1))
        carry[0] = 1.0
        arguments = None, self.arcs, self.tile, self.scratch, self.tables
        chain.forward(*arguments, carry, log_z, suspect)
        if suspect[0, 0] > 0:
            return None
        if backward:
            chain.backward(*arguments, np.ones((1, 1)), np.ones((n_states, 1)), np.zeros((self.n_arcs, 1)))
        return float(log_z[0, 0])


def _columns(*sizes: int) -> list[np.ndarray]:
    return [np.empty((size, 1)) for size in sizes]

"""Passes of high-order CRFs over their tables, which contain one row of alpha and beta per position.

Long sequences are cut by position: the forward pass keeps one row of alpha per cut, and the backward pass runs the
forward pass of each tile again (checkpointing), so that memory does not grow with (length x states).

:class:`OneSequence` computes results for a single sequence without a batch, a plan or copies, and decodes the sequence
with only a few of the states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..._data.arrays import freeze, freeze_all
from ..._data.columns import DenseColumns
from ..._data.segments import BEGIN, Segments
from ..kernels import _vectors, chain, choices, segment_scores
from ..kernels._network import LARGEST_BETA, LOWEST_LOG, SMALLEST_TOTAL
from ..kernels.bounded_search import FOUND, SearchTables, TokenEntries, bound_pairs, find_best, score_tokens
from ..kernels.choices import ChoiceTables
from ..kernels.tag_segments import Tags, weigh_segments
from ..structure.pairs import PartLinks
from ..structure.patterns import TOKENS
from ..structure.weighted_arcs import WeightedArcs, given_arcs, log_spread
from .minibatches import ChainMinibatches
from .model import Model
from .passes import BasePass, DecodePass, MarginalPass
from .posterior import LARGE_SCORE, LanePosterior, by_first_token
from .schedule import Plan, Task, Tile, lanes_of


class ChainPlan(Plan):
    """The plan of a batch for high-order CRFs of one layout."""

    def _read(self) -> None:
        layout = self.layout
        self.part_columns = layout.part_links if layout.parts.n_parts else None
        self.row_size = layout.automaton.n_states + layout.pairs.n_columns + self.n_varying + 1
        self.work_per_token = self.row_size + len(layout.network.terms)


class _ChainBasePass(BasePass):
    """Base class of :class:`ChainPass` and :class:`ChainDecodePass`, which writes scores to the tables of a tile."""

    def _score(self, tile: Tile) -> np.ndarray:
        scores = self._score_tokens(tile)
        self._shift_labels(tile, scores)
        self._forbid_labels(tile, scores)
        return scores

    def scratch(self, tile: Tile) -> chain.ChainScratch:
        """Return the memory that kernels overwrite at each position."""
        network, automaton = self.arc_layout.compiled.network, self.arc_layout.automaton
        n_values = automaton.n_states + len(network.starts) - 1
        n_adjoints = automaton.n_arcs + len(network.back_starts) - 1
        columns = self._columns(tile, self.is_wide)
        memory = self.workspace("scratch", n_values + max(n_values, n_adjoints), columns)
        values, adjoints = memory[:n_values], memory[n_values : n_values + n_adjoints]
        return chain.ChainScratch(values, adjoints, memory[n_values : 2 * n_values])


class ChainPass(_ChainBasePass, MarginalPass):
    """Forward and backward passes of one chunk."""

    def _forward(self, task: Task, log_z: np.ndarray, suspect: np.ndarray) -> list:
        checkpoints, carry = [], self._start(task.sequences.shape[1])
        for tile in task.tiles:
            checkpoints.append(carry)
            alpha, inverse_scale = self._forward_tile(tile, carry, log_z, suspect)
            if len(task.tiles) > 1:
                carry = self._product(alpha, inverse_scale)
        return checkpoints

    def _product(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if self.is_wide:  # right is 1: the next tile applies the scale
            return left.copy()
        if self.n_parts == 1:
            return left * right
        (x, dx), (y, dy) = np.split(left, 2, axis=-1), np.split(right, 2, axis=-1)
        return np.concatenate([x * y, x * dy + dx * y], axis=-1)

    def _start(self, lanes: int) -> np.ndarray:
        """Return alpha before the first position: all mass on the empty pattern; shape (P, lanes)."""
        alpha = np.zeros((self.arc_layout.automaton.n_states, lanes))
        alpha[0] = 1.0
        return self._with_derivatives(alpha)

    def tables(self, tile: Tile) -> chain.ChainTables:
        """Return the tables of the forward and backward passes over a tile."""
        n_states, n_blocks = self.arc_layout.automaton.n_states, len(tile.length)
        return chain.ChainTables(
            self._pass_table("chain", tile, self.n_columns) if self.is_wide else self.chain_scores(tile),
            self._pass_table("varying", tile, self.plan.n_varying),
            self._pass_table("alpha", tile, n_states, n_blocks),
            self._pass_table("inverse_scale", tile, 1),
        )

    def _forward_tile(
        self, tile: Tile, carry: np.ndarray, log_scale: np.ndarray, suspect: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run the forward pass of a tile; return the last row of alpha, and the inverse of the row's total."""
        scores, tables, lane_kind = self._score(tile), self.tables(tile), self._lane_kind(tile, self.is_wide)
        if self.is_wide:
            self._widen(scores, tables.scores)
        chain.forward(lane_kind, self.weighted_arcs, tile, self.scratch(tile), tables, carry, log_scale, suspect)
        return tables.alpha[-len(carry) :], tables.inverse_scale[-1]

    def _largest_score(self, tile: Tile) -> float:
        return self._largest(self._score(tile)[:, : lanes_of(tile)])

    def _settle(self, task: Task, checkpoints: list, alive: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
        spread = self._log_spread()
        if spread is None:
            safe = np.zeros_like(doubtful)
        elif spread <= np.log(LARGEST_BETA * SMALLEST_TOTAL):
            return alive | doubtful
        else:
            safe = doubtful & (self._largest_beta(task, checkpoints, alive | doubtful) <= LARGEST_BETA)
        if len(task.tiles) == 1:
            self._forward_again(task.tiles[0], checkpoints[0], alive | safe)
        return alive | safe

    def _log_spread(self) -> float | None:
        """Return a bound on log(max beta / min beta), inf if unknown; None if doubtful lanes count as failed."""
        is_of_tokens = self.layout.patterns.history == TOKENS
        return None if is_of_tokens else log_spread(self.layout, self.weighted_arcs)

    def _largest_beta(self, task: Task, checkpoints: list, alive: np.ndarray) -> np.ndarray:
        """Return the largest beta of each lane, from a backward pass that adds no counts."""
        largest, n_states = np.zeros(alive.shape), self.arc_layout.automaton.n_states
        beta, unused = self._with_derivatives(np.ones((n_states, alive.shape[1]))), np.zeros_like(largest)
        for tile, carry in zip(task.tiles[::-1], checkpoints[::-1], strict=True):
            self._forward_again(tile, carry, alive)
            tables = self._backward_tile(tile, unused, beta, np.zeros_like(self._arcs(self._columns(tile))))
            firsts = (tile.rows[:-1] + np.arange(len(tile.length)) + 1) * n_states
            within = tables.alpha[:, : alive.shape[1]]  # the first rows of each block are alpha before the block
            largest = np.maximum(largest, np.maximum.reduceat(within, firsts))
        return largest

    def _forward_again(self, tile: Tile, carry: np.ndarray, alive: np.ndarray) -> None:
        """Repeat the forward pass of a tile, whose tables the backward pass reads."""
        again = np.zeros(alive.shape), np.where(alive, 0.0, 1.0)
        self._forward_tile(tile, carry, *map(self._with_derivatives, again))

    def _backward_tile(self, tile: Tile, weight: np.ndarray, beta: np.ndarray, arcs: np.ndarray) -> chain.ChainTables:
        tables, lane_kind = self.tables(tile), self._lane_kind(tile, self.is_wide)
        structure = self.weighted_arcs, tile, self.scratch(tile), tables
        chain.backward(lane_kind, *structure, self._with_derivatives(weight), beta, arcs)
        if self.is_wide:
            self.chain_scores(tile)[:] = _vectors.narrowed(tables.scores)
        return tables

    def _backward(self, task: Task, checkpoints: list, alive: np.ndarray, weight: np.ndarray) -> None:
        beta = self._with_derivatives(np.ones((self.arc_layout.automaton.n_states, weight.shape[1])))
        for tile, carry in zip(task.tiles[::-1], checkpoints[::-1], strict=True):
            if len(task.tiles) > 1:  # otherwise, the tables still contain the tile
                self._forward_again(tile, carry, alive)
            self._backward_tile(tile, weight, beta, self._arcs(self._columns(tile)))
            self.receiver(self, tile, weight)

    def column_marginals(self, tile: Tile, weight: np.ndarray) -> np.ndarray:
        return self.scores(tile)

    def continuations(self, tile: Tile) -> choices.ChoiceTables:
        beta, scores = self._log_beta(tile), self._score(tile)
        return self._choice_tables(self.n_columns, scores, self._varying_scores(tile, scores), beta)

    def add_feature_counts(self, tile: Tile, weight: np.ndarray, gradient: np.ndarray, dense: np.ndarray) -> None:
        marginals = self.scores(tile)
        if self.plan.part_columns is not None:
            segment_scores.sum_over_labels(self.plan.part_columns, self.layout.pairs.n_columns, marginals)
        self._add_token_counts(tile, marginals, weight, gradient, dense)


class ChainDecodePass(_ChainBasePass, DecodePass):
    """Viterbi decoding of one chunk."""

    def run(self, task: Task) -> None:
        carry = np.zeros((self.arc_layout.automaton.n_states, task.sequences.shape[1]))
        checkpoints = []
        for tile in task.tiles[:0:-1]:
            checkpoints.append(carry)
            carry = self._backward_max(tile, carry)[2][: len(carry)].copy()
        checkpoints.append(carry)
        state = np.zeros(task.sequences.shape, dtype=np.int32)
        for tile in task.tiles:
            scores, varying_log, beta = self._backward_max(tile, checkpoints.pop())
            if tile is task.tiles[0]:
                self.store_best(task, beta)
                if not len(self.codes):  # only the scores are requested
                    return
            chain.walk(self.weighted_arcs, tile, scores, varying_log, beta, state, self.codes)

    def choice_tables(self, tile: Tile) -> choices.ChoiceTables:
        carry = np.zeros((self.arc_layout.automaton.n_states, lanes_of(tile)))
        return self._choice_tables(self.n_columns, *self._backward_max(tile, carry))

    def _backward_max(self, tile: Tile, carry: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        scores = self._score(tile)
        varying_log = self._varying_scores(tile, scores)
        n_states, n_blocks = len(carry), len(tile.length)
        beta = self._table("alpha", tile, n_states, n_blocks)
        beta.reshape(-1, n_states, self._columns(tile))[tile.rows[1:] + np.arange(n_blocks)] = carry
        tables = scores, varying_log, beta
        chain.backward_max(self._lane_kind(tile), self.weighted_arcs, tile, self.scratch(tile), *tables)
        return tables


class ChainPosterior(LanePosterior):
    """The posterior of a high-order CRF; its labellings are label codes of the tokens, of shape (N,), int32."""

    pass_class, decode_pass_class = ChainPass, ChainDecodePass

    def pattern_marginals(self, patterns: Sequence[Sequence[int]]) -> np.ndarray:
        return self._marginals_of([(tuple(pattern), BEGIN) for pattern in patterns])


class ChainModel(Model):
    """A high-order CRF with its weights."""

    plan_class, posterior_class, minibatches_class = ChainPlan, ChainPosterior, ChainMinibatches


MOST_LABELS = 128  # the bound takes time proportional to their square per token
SHARE_KEPT = 0.25  # of states: with a larger share, the kernels of a batch take less time
FEWEST_KEPT = 64
MOST_CELLS = 1 << 24  # states times tokens: for more, the kernels of a batch are used
MOST_OF_PASS = 1 << 20  # likewise, for passes that keep all states
MOST_PRODUCTS = 1 << 15  # of dense features with labels: for more, the kernels of a batch take less time
_FIRST = np.zeros((1, 1), np.int64)  # the sequence of the only lane


class OneSequence:
    """Results for a single sequence under a model whose arcs have constant scores.

    The methods take the attributes of the tokens as a tuple of the arguments of :func:`token_entries`. They return None
    if a result requires the kernels for batches.

    Parameters
    ----------
    arcs : WeightedArcs
    borders : ndarray of shape (2, L)
        Scores that are added to the label scores at the first and the last token.
    pairs : tuple of ndarray
        The rank of each attribute, the range of the weights of each rank, their score columns, and the weights.
    links : PartLinks or None
        The score columns of parts of labels; None means that all columns belong to labels.
    """

    def __init__(self, arcs: WeightedArcs, borders: np.ndarray, pairs: tuple, links: PartLinks | None = None) -> None:
        automaton = arcs.outgoing, arcs.source_arcs, arcs.arc_label, arcs.arc_target, arcs.fail, arcs.arc_score
        bounds = np.full((arcs.n_labels, arcs.n_labels), -np.inf)
        bound_pairs(*automaton, bounds)
        weights, possible = pairs[-1], arcs.arc_score[arcs.arc_score > -np.inf]
        starts, parts, members = freeze_all(
            links or (np.zeros(arcs.n_labels + 1), [], []), np.int64, np.int32, np.int32
        )
        most_terms = 1 + np.diff(starts).max(initial=0)
        largest = max(most_terms * np.abs(weights).max(initial=0.0), np.abs(possible).max(initial=0.0))
        of_parts = starts, parts, arcs.n_labels + len(members)
        tables: Any = *automaton, *freeze_all((bounds, borders), np.float64), *pairs, *of_parts, float(largest)
        self.arcs, self.tables = arcs, SearchTables(*tables)
        self.most_kept = min(max(FEWEST_KEPT, int(SHARE_KEPT * len(arcs.fail))), len(arcs.fail))
        self.scales = possible.min(initial=np.inf) - arcs.log_shift > LOWEST_LOG

    @classmethod
    def for_model(cls, model: Any, borders: np.ndarray | None) -> Self | None:
        """Return the object for a model, or None; ``borders`` (2, L) marks labels that may begin and end a sequence.

        The result is None if the model is not a :class:`ChainModel`, or contains varying arcs or more than
        ``MOST_LABELS`` labels.
        """
        n_labels = model.weighted_arcs.n_labels
        if type(model) is not ChainModel or n_labels > MOST_LABELS or model.layout.n_varying:
            return None
        scores = np.zeros((2, n_labels)) if borders is None else np.where(borders, 0.0, -np.inf)
        pairs = model.layout.pairs
        of_pairs = model.layout.rank_of_attribute, pairs.starts, pairs.columns, model.pair_weights
        return cls(model.weighted_arcs, scores, of_pairs, model.layout.part_links)

    @classmethod
    def of_arrays(cls, n_labels: int, structure: tuple, score: np.ndarray, borders: np.ndarray, pairs: tuple) -> Any:
        """Return the object for arrays from a file, as in ``given_arcs``; None if there are too many labels."""
        if n_labels > MOST_LABELS:
            return None
        pairs = freeze_all(pairs, np.int32, np.int64, np.int32, np.float64)
        return cls(given_arcs(n_labels, structure, score), borders, pairs)

    def decode(self, tokens: tuple) -> np.ndarray | None:
        """Return the codes of the best labelling, or None if the sequence is too large or the search fails."""
        entries = token_entries(*tokens)
        codes = np.empty(len(entries.indptr) - 1, np.int32)
        if not len(codes):
            return codes
        if len(codes) * len(self.tables.fail) > MOST_CELLS or entries.numbers.size * self.arcs.n_labels > MOST_PRODUCTS:
            return None
        return codes if find_best(self.tables, entries, self.most_kept, codes) == FOUND else None

    def marginals(self, tokens: tuple) -> tuple[float, np.ndarray] | None:
        """Return log Z, and the probability of each label at each token; shape (T, L)."""
        scores = self._scores(tokens)
        if scores is None or (log_z := _Lane(self.arcs, scores).run(backward=True)) is None:
            return None
        np.maximum(scores, 0.0, out=scores)
        return log_z, np.divide(scores, np.add.reduce(scores, axis=1, keepdims=True), out=scores)

    def log_likelihood(self, tokens: tuple, codes: list[int], log_z: float | None = None) -> float | None:
        """Return the log-probability of a possible labelling; ``log_z`` is log Z, if known."""
        scores = self._scores(tokens)
        if scores is None or len(codes) != len(scores):  # the query on a batch raises the error
            return None
        labels, used = np.array(codes, np.int32), np.empty(len(codes), np.int32)
        chain.label_arcs(self.arcs, np.array([0, len(codes)]), labels, used)
        score = float(np.add.reduce(self.arcs.arc_score[used] + scores[np.arange(len(codes)), labels]))
        log_z = _Lane(self.arcs, scores).run() if log_z is None else log_z
        if log_z is None or score == -np.inf or abs(log_z) > LARGE_SCORE:  # rounding errors of large sums matter
            return None
        return min(score - log_z, 0.0)

    def segment_probabilities(self, tokens: tuple, segments: Segments, tags: Tags) -> np.ndarray | None:
        """Return the probabilities of segments, no two of which have the same start; shape (M,)."""
        scores, arcs = self._scores(tokens), self.arcs
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

    def _scores(self, tokens: tuple) -> np.ndarray | None:
        """Return the scores of labels at tokens, or None if the kernels for batches are needed; shape (T, L)."""
        entries = token_entries(*tokens)
        n_tokens = len(entries.indptr) - 1
        is_large = n_tokens * len(self.tables.fail) > MOST_OF_PASS
        if not (self.scales and n_tokens) or is_large or entries.numbers.size * self.arcs.n_labels > MOST_PRODUCTS:
            return None
        scores = np.empty((n_tokens, self.arcs.n_labels))
        return scores if score_tokens(self.tables, entries, scores) > 2 * n_tokens else None  # None: unknown attributes


_NOTHING = freeze_all((np.zeros(0), np.zeros(0), np.zeros((0, 0))), np.float64, np.int32, np.float64)


def token_entries(
    ids: np.ndarray, indptr: np.ndarray, values: np.ndarray | None = None, dense: DenseColumns | None = None
) -> TokenEntries:
    """Return the attributes of tokens for kernels; ``values`` is None if all values are 1."""
    of_entries = _NOTHING[0] if values is None else freeze(values, np.float64)
    if dense is None:
        return TokenEntries(ids, indptr, of_entries, *_NOTHING[1:])
    return TokenEntries(ids, indptr, of_entries, *freeze_all(dense, np.int32, np.float64))


class _Lane:
    """The tables of passes over one sequence; ``scores``, of shape (T, L), become marginals."""

    def __init__(self, arcs: WeightedArcs, scores: np.ndarray) -> None:
        n_tokens, n_states, last = len(scores), len(arcs.fail), np.array([[len(scores) - 1]])
        self.arcs, rows = arcs, (np.array([0, n_tokens]), np.zeros((1, 1)), last + 1, last)
        self.tile = chain.LocalTile(*freeze_all(rows, np.int64))
        self.tables = chain.ChainTables(scores.reshape(-1, 1), *_columns(0, (n_tokens + 1) * n_states, n_tokens))
        n_values, self.n_arcs = n_states + len(arcs.starts) - 1, len(arcs.arc_score)
        self.scratch = chain.ChainScratch(*_columns(n_values, self.n_arcs + len(arcs.back_starts) - 1, n_values))

    def run(self, backward: bool = False) -> float | None:
        """Run the passes, and return log Z; None if scaled numbers do not suffice."""
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

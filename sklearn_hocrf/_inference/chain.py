"""High-order CRFs: the passes over their tables, one row of alpha and beta per position.

Long sequences are cut by position: the forward pass keeps one row of alpha per cut, and the backward pass runs the
forward pass of each tile again (checkpointing), so that memory does not grow with (length x states).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._data.segments import BEGIN
from .._kernels import _wide, chain, choices, label_parts
from .._kernels._network import LARGEST_BETA, SMALLEST_TOTAL
from .._structure.patterns import TOKENS
from .._structure.weighted_arcs import log_spread
from .model import TokenModel
from .passes import BasePass, DecodePass, MarginalPass
from .posterior import LanePosterior
from .schedule import Plan, Task, Tile, lanes_of


class ChainPlan(Plan):
    """Plan of a batch, for high-order CRFs of one layout."""

    def _read(self) -> None:
        layout = self.layout
        self.part_columns = layout.part_links if layout.parts.n_parts else None
        self.row_size = layout.automaton.n_states + layout.pairs.n_columns + self.n_varying + 1
        self.work_per_token = self.row_size + len(layout.network.terms)


class _ChainBasePass(BasePass):
    """How scores are written to the tables of a tile; for both kinds of passes."""

    def _score(self, tile: Tile) -> np.ndarray:
        scores = self._score_tokens(tile)
        self._shift_labels(tile, scores)
        self._forbid_labels(tile, scores)
        return scores

    def scratch(self, tile: Tile) -> chain.ChainScratch:
        """Return the arguments of the kernels for one position."""
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
        if self.is_wide:  # right is 1: the next tile takes the scale
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
        """Return the tables of a tile."""
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
        """Run the forward pass of a tile and return the last alpha of its last block, and 1 / its total."""
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
        """Return a bound of log max beta / min beta, inf if there is none; None if all doubtful lanes are suspect."""
        is_of_tokens = self.layout.patterns.history == TOKENS
        return None if is_of_tokens else log_spread(self.layout, self.weighted_arcs)

    def _largest_beta(self, task: Task, checkpoints: list, alive: np.ndarray) -> np.ndarray:
        """Return the largest beta of each lane, by a backward pass that counts nothing."""
        largest, n_states = np.zeros(alive.shape), self.arc_layout.automaton.n_states
        beta, unused = self._with_derivatives(np.ones((n_states, alive.shape[1]))), np.zeros_like(largest)
        for tile, carry in zip(task.tiles[::-1], checkpoints[::-1], strict=True):
            self._forward_again(tile, carry, alive)
            tables = self._backward_tile(tile, unused, beta, np.zeros_like(self._arcs(self._columns(tile))))
            firsts = (tile.rows[:-1] + np.arange(len(tile.length)) + 1) * n_states
            within = tables.alpha[:, : alive.shape[1]]  # the first rows of each block are alpha before it
            largest = np.maximum(largest, np.maximum.reduceat(within, firsts))
        return largest

    def _forward_again(self, tile: Tile, carry: np.ndarray, alive: np.ndarray) -> None:
        """Fill the tables of a tile for the backward pass."""
        again = np.zeros(alive.shape), np.where(alive, 0.0, 1.0)
        self._forward_tile(tile, carry, *map(self._with_derivatives, again))

    def _backward_tile(self, tile: Tile, weight: np.ndarray, beta: np.ndarray, arcs: np.ndarray) -> chain.ChainTables:
        tables, lane_kind = self.tables(tile), self._lane_kind(tile, self.is_wide)
        structure = self.weighted_arcs, tile, self.scratch(tile), tables
        chain.backward(lane_kind, *structure, self._with_derivatives(weight), beta, arcs)
        if self.is_wide:
            self.chain_scores(tile)[:] = _wide.narrowed(tables.scores)
        return tables

    def _backward(self, task: Task, checkpoints: list, alive: np.ndarray, weight: np.ndarray) -> None:
        beta = self._with_derivatives(np.ones((self.arc_layout.automaton.n_states, weight.shape[1])))
        for tile, carry in zip(task.tiles[::-1], checkpoints[::-1], strict=True):
            if len(task.tiles) > 1:  # the tables contain the last tile
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
            label_parts.sum_over_labels(self.plan.part_columns, self.layout.pairs.n_columns, marginals)
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

    def marginals(self) -> np.ndarray:
        table = self.column_marginals(self.model.layout.automaton.n_labels)
        np.clip(table, 0.0, None, out=table)
        return np.divide(table, table.sum(axis=1, keepdims=True), out=table)

    def pattern_marginals(self, patterns: Sequence[Sequence[int]]) -> np.ndarray:
        return self._marginals_of([(tuple(pattern), BEGIN) for pattern in patterns])


class ChainModel(TokenModel):
    """A high-order CRF with given weights."""

    plan_class, posterior_class = ChainPlan, ChainPosterior

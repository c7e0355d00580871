"""Passes over the tasks of one chunk: the code that chains and segmentations share.

A forward pass computes log Z; if there is a receiver of marginals, a backward pass follows. Both passes use scaled
numbers, and process blocks of sequences side by side; sequences for which scaling fails are processed one by one, on
wide numbers.
"""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any, Self, TypeAlias

import numpy as np

from ..._data.arrays import freeze, zeros_aligned
from ..kernels import _vectors, choices, segment_scores, token_scores
from ..kernels._network import DOUBTFUL
from ..kernels._vectors import FOLDED, LANES, WIDE
from ..structure.pairs import DenseProduct
from ..structure.weighted_arcs import weighted_arcs
from .schedule import Task, Tile, Workspace, lanes_of

# largest score on wide numbers, whose exponentials of sums of several scores are correct up to 1e17
LARGEST_SCORE = 1e16
_SHRUNK = ("arc_score", "arc_score_derivative")
Receiver: TypeAlias = Callable[["MarginalPass", Tile, np.ndarray], None]


class BasePass(metaclass=ABCMeta):
    """A pass over the tasks of one chunk.

    Parameters
    ----------
    workspace : Workspace
        Memory for the tables of one tile.
    posterior : LanePosterior
        The posterior, which contains the plan of the batch, and the model that determines the scores in the tables.
    direction : Model or None
        The direction of derivatives. Without one, tables contain a column for each lane; with one, they contain dual
        numbers: a second column for each lane contains the derivatives.
    """

    is_wide = False  # whether kernels run on wide numbers, for a sequence that scaled passes could not represent
    _shrink = 1.0  # factor of scores: beyond LARGEST_SCORE, rounding errors of sums exceed differences of 1

    def __init__(self, workspace: Workspace, posterior: Any, direction: Any = None) -> None:
        self.workspace, self.posterior, model = workspace, posterior, posterior.model
        self.model, self.plan, self.layout = model, posterior.plan, model.layout
        self.arc_layout, self.n_columns = model.arc_layout, model.n_columns
        self.n_parts = 1 if direction is None else 2
        self.weighted_arcs = model.pass_arcs
        self.pair_weights, self.dense_weights = (model.pair_weights, model.pair_weights), model.dense_table
        self.index: Any = None  # layout of the scores of segments
        self._state_arcs: Any = None
        if direction is not None:
            self.weighted_arcs = weighted_arcs(self.arc_layout, model.weights, direction.weights)
            self.pair_weights = model.pair_weights, direction.pair_weights
            dense = np.concatenate([model.dense_table, direction.dense_table], axis=1)
            self.dense_weights = freeze(dense, np.float64)
        product: DenseProduct | None = self.plan.dense
        if product is not None:  # the weights of dense features, and their derivatives if any
            tables = [product.table(weights) for weights in self.pair_weights[: self.n_parts]]
            self._product_weights = freeze(np.concatenate(tables), np.float64)

    @abstractmethod
    def run(self, task: Task) -> None:
        """Process a task."""

    def over(self, chunk: list[Task]) -> tuple:
        """Process the tasks of a chunk, and return the sums over them."""
        for task in chunk:
            self.run(task)
        return self.sums()

    def sums(self) -> tuple:
        """Return the sums over all tasks."""
        return ()

    def _lane_kind(self, tile: Tile, is_wide: bool = False) -> Any:
        """Return the argument that selects a kernel's version: vectors, single or wide numbers; dual numbers or not."""
        lane_kind = WIDE if is_wide else LANES if lanes_of(tile) > 1 else None
        return lane_kind if self.n_parts == 1 else (lane_kind,)

    def _columns(self, tile: Tile, is_wide: bool = False) -> int:
        return lanes_of(tile) * self.n_parts * (2 if is_wide else 1)

    def _table(self, name: str, tile: Tile, row_size: int, n_extra_rows: int = 0) -> np.ndarray:
        """Return a table of floats with ``row_size`` values for each row of a tile and each lane."""
        return self.workspace(name, (int(tile.rows[-1]) + n_extra_rows) * row_size, self._columns(tile))

    def _pass_table(self, name: str, tile: Tile, row_size: int, n_extra_rows: int = 0) -> np.ndarray:
        """Return a table for forward and backward passes, which may contain wide numbers."""
        n_rows = (int(tile.rows[-1]) + n_extra_rows) * row_size
        return self.workspace(f"wide {name}" if self.is_wide else name, n_rows, self._columns(tile, self.is_wide))

    def scores(self, tile: Tile) -> np.ndarray:
        """Return the table of the scores of columns; after a backward pass, it contains their marginals."""
        return self._table("scores", tile, self.layout.pairs.n_columns)

    def chain_scores(self, tile: Tile) -> np.ndarray:
        """Return the table that kernels of a chain read: scores of labels, and of columns that change arc scores."""
        return self.scores(tile)

    def _score_tokens(self, tile: Tile) -> np.ndarray:
        """Return the scores of columns, from sparse and dense features; those of labels include those of parts."""
        scores, features, product = self.scores(tile), self.plan.token_features, self.plan.dense
        token_scores.score_rows(features, self.layout.pairs, *self.pair_weights, self.dense_weights, tile, scores)
        if product is not None:
            factors = product.values, self._product_weights, product.columns
            token_scores.add_scores(*factors, tile.rows, tile.first_token, tile.length, scores)
        if self.plan.part_columns is not None:
            segment_scores.add_to_labels(self.plan.part_columns, self.layout.pairs.n_columns, scores)
        return scores

    def _forbid_labels(self, tile: Tile, scores: np.ndarray) -> None:
        """Set the scores of labels that the plan's mask excludes to -inf."""
        if self.plan.mask is not None:
            segment_scores.forbid_labels(tile, self.n_columns, self.plan.mask.allowed, scores)

    def _shift_labels(self, tile: Tile, scores: np.ndarray) -> None:
        """Reduce the scores of all labels of each token by the shift of the posterior."""
        if self.posterior.shift is not None:
            labels = self._by_row(tile, scores)[:, : self.arc_layout.automaton.n_labels]
            labels -= self._shifts(tile)[:, None]

    def _by_row(self, tile: Tile, scores: np.ndarray) -> np.ndarray:
        """Return the values of scores, without derivatives, by row: shape (R, columns, W)."""
        return scores.reshape(int(tile.rows[-1]), -1, scores.shape[1])[:, :, : lanes_of(tile)]

    def _shifts(self, tile: Tile) -> np.ndarray:
        """Return the shift of the token in each row and lane of a tile, 0 if there is no token; shape (R, W)."""
        n_rows = np.diff(tile.rows)
        position = (np.arange(tile.rows[-1]) - np.repeat(tile.rows[:-1], n_rows))[:, None]
        first, length = (np.repeat(table, n_rows, axis=0) for table in (tile.first_token, tile.length))
        is_there = position < length
        return np.where(is_there, self.posterior.shift[np.where(is_there, first + position, 0)], 0.0)

    def _choice_tables(
        self, width: int, scores: np.ndarray, varying_log: np.ndarray, beta: np.ndarray
    ) -> choices.ChoiceTables:
        """Return the tables from which kernels read the choices at each border."""
        if self._state_arcs is None:
            n_states, n_labels = self.arc_layout.automaton.n_states, self.arc_layout.automaton.n_labels
            self._state_arcs = np.empty((n_states, n_labels), np.int32), np.zeros(n_states, np.bool_)
        return choices.ChoiceTables(width, scores, varying_log, beta, *self._state_arcs)

    def _varying_scores(self, tile: Tile, scores: np.ndarray) -> np.ndarray:
        """Return the log scores of varying arcs."""
        varying_log = self._table("varying", tile, self.plan.n_varying)
        if len(varying_log):  # a kernel that is not called need not be compiled
            token_scores.varying_scores(self.weighted_arcs, self.n_columns, scores, varying_log)
        return varying_log


class MarginalPass(BasePass):
    """Forward passes that store log Z, followed by backward passes if there is a receiver of marginals.

    Parameters
    ----------
    workspace, posterior, direction
        As in :class:`BasePass`.
    log_z : ndarray of shape (n_sequences,)
        Receives log Z.
    sequence_weight : ndarray of shape (n_sequences,) or None
        Weights of the sequences; 1 by default. Sequences of weight 0 give no marginals.
    receiver : callable or None
        Called as ``receiver(backward, tile, weight)`` after the backward pass of each tile, with this pass as
        ``backward``; the receiver must ignore lanes of weight 0. With a direction, the columns of the tables after
        those of the lanes contain derivatives.
    slope : ndarray of shape (n_sequences,) or None
        Receives the derivatives of log Z along the direction.
    """

    def __init__(
        self,
        workspace: Workspace,
        posterior: Any,
        log_z: np.ndarray,
        sequence_weight: np.ndarray | None = None,
        *,
        receiver: Receiver | None = None,
        direction: Any = None,
        slope: np.ndarray | None = None,
    ) -> None:
        super().__init__(workspace, posterior, direction)
        self.log_z, self.sequence_weight = log_z, sequence_weight
        self.receiver: Any = receiver  # None is never called: there are then no backward passes
        self.slope = slope
        self._sums: dict[tuple[str, int], np.ndarray] = {}
        product: DenseProduct | None = self.plan.dense
        self._product_counts = None if product is None else np.zeros(product.table_shape)

    @abstractmethod
    def _forward(self, task: Task, log_z: np.ndarray, suspect: np.ndarray) -> list:
        """Run the forward pass of a task; write log Z, mark the lanes in which it fails, and return checkpoints."""

    def _settle(self, task: Task, checkpoints: list, alive: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
        """Return the lanes with correct results, including doubtful lanes that a check of the tables confirms."""
        return alive

    @abstractmethod
    def _backward(self, task: Task, checkpoints: list, alive: np.ndarray, weight: np.ndarray) -> None:
        """Run the backward pass of a task, and pass the marginals of each tile to the receiver."""

    @abstractmethod
    def column_marginals(self, tile: Tile, weight: np.ndarray) -> np.ndarray:
        """Return the marginals of the score columns of the current tile; shape (R * C, columns)."""

    @abstractmethod
    def continuations(self, tile: Tile) -> choices.ChoiceTables:
        """Return the log scores of the current tile of whole sequences, and of all continuations from each border."""

    def _log_beta(self, tile: Tile) -> np.ndarray:
        """Return log beta after each row, up to a constant; the backward pass has overwritten alpha with beta."""
        size = self.arc_layout.automaton.n_states, len(tile.length)
        beta = self._table("alpha", tile, *size)
        if self.is_wide:
            beta[:] = _vectors.logs_of(self._pass_table("alpha", tile, *size)) / self._shrink
        else:
            n_filled = np.count_nonzero(tile.length.any(axis=0))  # the filled lanes come first
            with np.errstate(divide="ignore"):
                # of a contiguous array, because numpy may round logarithms of other arrays differently
                beta[:, :n_filled] = np.log(np.ascontiguousarray(beta[:, :n_filled]))
        return beta

    @abstractmethod
    def add_feature_counts(self, tile: Tile, weight: np.ndarray, gradient: np.ndarray, dense: np.ndarray) -> None:
        """Add the expected counts of the features of a tile to the counts of pairs and of the dense table.

        Counts of dense features are kept until :meth:`add_product_counts` is called.
        """

    def _add_token_counts(
        self, tile: Tile, marginals: np.ndarray, weight: np.ndarray, gradient: np.ndarray, dense: np.ndarray
    ) -> None:
        """Add the expected counts of token features in a tile, and sum those of dense features."""
        features, product = self.plan.token_features, self.plan.dense
        token_scores.add_expectations(features, self.layout.pairs, tile, marginals, weight, gradient, dense)
        if product is None:
            return
        tokens = tile.rows, tile.first_token, tile.length
        token_scores.add_counts(product.values, product.columns, *tokens, marginals, weight, self._product_counts)

    def add_product_counts(self, gradient: np.ndarray) -> None:
        """Add the expected counts of dense features, of all tiles, to ``gradient``, an array over all pairs."""
        if self._product_counts is not None:
            self.plan.dense.add_counts(self._product_counts, gradient)

    def arc_counts(self) -> np.ndarray:
        """Return the expected counts of arcs, weighted by sequence; shape (A,)."""
        return self._total("arcs", self.arc_layout.automaton.n_arcs)

    def length_counts(self) -> np.ndarray:
        """Return the expected counts of the segment lengths that have features."""
        return self._total("lengths", self.plan.n_counted_lengths)

    def run(self, task: Task) -> None:
        alive, checkpoints = self.forward(task)
        if self.receiver is not None and alive.any():
            self._backward(task, checkpoints, alive, np.where(alive, self._weight(task.sequences), 0.0))
        self._run_wide(task.sequences[(task.sequences >= 0) & ~alive])

    def _run_wide(self, sequences: np.ndarray) -> None:
        """Process sequences on wide numbers, several per task if their scores are in the range of wide numbers."""
        for task in self.plan.one_by_one(sequences):
            factor = self._factor(task)
            if factor < 1.0 and task.sequences.size > 1:  # each sequence has a separate factor
                for sequence in np.sort(task.sequences[:, 0]):
                    self._run_wide(np.array([sequence]))
            else:
                self._on_wide_numbers(task, factor).run(task)

    def _on_wide_numbers(self, task: Task, factor: float) -> Self:
        """Return a pass on wide numbers that adds to the sums of this pass."""
        if not factor:
            self.posterior.refuse_impossible(task.sequences[0], [np.inf])
        wide, arcs = copy.copy(self), self.weighted_arcs
        wide.is_wide, wide._shrink = True, factor
        shrunk: dict[str, Any] = {}
        if factor < 1.0:
            shrunk = {name: freeze(factor * getattr(arcs, name), np.float64) for name in _SHRUNK}
        # no factor is taken out of wide numbers, because the sum of its logarithms would be rounded; derivatives need
        # it
        wide.weighted_arcs = arcs._replace(**shrunk, log_shift=0.0 if self.n_parts == 1 else factor * arcs.log_shift)
        return wide

    def _factor(self, task: Task) -> float:
        """Return the factor that brings scores into the range of wide numbers; 0 if some scores are infinite."""
        largest = [self._largest(self.weighted_arcs.arc_score), *map(self._largest_score, task.tiles)]
        return min(1.0, LARGEST_SCORE / max(largest)) if np.isfinite(largest).all() else 0.0

    @abstractmethod
    def _largest_score(self, tile: Tile) -> float:
        """Return the largest magnitude of the scores in a tile."""

    @staticmethod
    def _largest(scores: np.ndarray) -> float:
        """Return the largest magnitude of the scores of possible labels, at least 1; nan if a score is nan."""
        return float(np.abs(scores[scores != -np.inf]).max(initial=1.0))

    def sums(self) -> tuple:
        return self.receiver.sums(self) if isinstance(self.receiver, ExpectedCounts) else ()

    def forward(self, task: Task) -> tuple[np.ndarray, list]:
        """Run the forward passes of a task and store log Z; return the successful lanes, and checkpoints."""
        filled, runs = task.sequences >= 0, self.model.scales or self.is_wide
        log_z = self._with_derivatives(np.zeros(filled.shape))
        suspect = self._with_derivatives(np.full(filled.shape, 0.0 if runs else 1.0))
        checkpoints = self._forward(task, log_z, suspect) if runs else []
        lanes = filled.shape[1]
        alive = filled & (suspect[:, :lanes] == 0)
        doubtful = filled & (suspect[:, :lanes] == DOUBTFUL)
        if doubtful.any():
            alive = self._settle(task, checkpoints, alive, doubtful)
        if self.is_wide:
            alive, log_z = filled, _vectors.narrowed(log_z) / self._shrink
        self.log_z[task.sequences[alive]] = log_z[:, :lanes][alive]
        if self.slope is not None:
            self.slope[task.sequences[alive]] = log_z[:, lanes:][alive]
        if self.is_wide:
            is_known = (log_z[:, 0] == -np.inf) & self.plan.may_be_impossible
            self.posterior.refuse_impossible(task.sequences[~is_known, 0], log_z[~is_known, 0])
        return alive, checkpoints

    def _weight(self, sequences: np.ndarray) -> np.ndarray:
        if self.sequence_weight is None:
            return np.where(sequences >= 0, 1.0, 0.0)
        return np.where(sequences >= 0, self.sequence_weight[sequences], 0.0)

    def _widen(self, table: np.ndarray, wide: np.ndarray) -> None:
        """Copy a table to the corresponding table of a pass on wide numbers."""
        wide[:, ::2], wide[:, 1::2] = self._shrink * table, 0.0

    def sequences(self, tile: Tile, weight: np.ndarray) -> np.ndarray:
        """Return the index of the sequence in each lane of a tile, -1 for lanes that are empty or left out."""
        sequences = np.searchsorted(self.plan.offsets, tile.first_token, side="right") - 1
        return np.where(weight > 0, sequences, -1)

    def _with_derivatives(self, table: np.ndarray) -> np.ndarray:
        """Return a table with columns of 0 for derivatives and for exponents of wide numbers, if the pass uses them."""
        n_zeros = self.n_parts * (2 if self.is_wide else 1) - 1
        return np.concatenate([table, *[np.zeros_like(table)] * n_zeros], axis=1) if n_zeros else table

    def _sum(self, name: str, size: int, columns: int) -> np.ndarray:
        """Return the array, of shape (size, columns), to which kernels add sums by column."""
        if (name, columns) not in self._sums:
            self._sums[name, columns] = np.zeros((size, columns))
        return self._sums[name, columns]

    def _arcs(self, columns: int) -> np.ndarray:
        """Return the sums of arc marginals, with as many columns as the kernels require."""
        columns = self.n_parts * (1 if columns == self.n_parts else FOLDED)
        return self._sum("arcs", self.arc_layout.automaton.n_arcs, columns)

    def _total(self, name: str, size: int) -> np.ndarray:
        """Return a sum over all lanes or, for dual numbers, its derivative."""
        total = np.zeros(size)
        for (sum_name, columns), table in sorted(self._sums.items()):
            if sum_name == name:
                total += table[:, -(columns // self.n_parts) :].sum(axis=1)
        return total


class ExpectedCounts:
    """A receiver that sums expected counts or, for dual numbers, their derivatives.

    Parameters
    ----------
    posterior : LanePosterior
        The posterior whose expected counts are summed.
    gradient : ndarray of shape (first_bias,) or None
        The array to which the counts of pairs are added; by default, zeros of shape (n_weights,), which have space for
        the counts of biases, too.
    """

    def __init__(self, posterior: Any, gradient: np.ndarray | None = None) -> None:
        model = posterior.model
        self.gradient = zeros_aligned(model.layout.n_weights) if gradient is None else gradient
        self.of_pairs = self.gradient[: model.layout.first_bias]
        self.dense = zeros_aligned(*model.dense_table.shape)

    def __call__(self, backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
        backward.add_feature_counts(tile, weight, self.of_pairs, self.dense)

    def sums(self, backward: MarginalPass) -> tuple:
        """Return counts weighted by sequence: of pairs, of the dense table, of arcs and of lengths."""
        backward.add_product_counts(self.of_pairs)
        return self.gradient, self.dense, backward.arc_counts(), backward.length_counts()


class DecodePass(BasePass):
    """Viterbi decoding of one chunk.

    Parameters
    ----------
    workspace, posterior
        As in :class:`BasePass`.
    codes, lengths : ndarray of shape (N,), int32
        Receive label codes of the tokens and, for segments, the length of the segment that starts with each token, or
        0.
    best : ndarray of shape (n_sequences,) or None
        Receives the highest scores.
    """

    def __init__(
        self,
        workspace: Workspace,
        posterior: Any,
        codes: np.ndarray,
        lengths: np.ndarray,
        *,
        best: np.ndarray | None = None,
    ) -> None:
        super().__init__(workspace, posterior)
        self.codes, self.lengths, self.best = codes, lengths, best

    @abstractmethod
    def choice_tables(self, tile: Tile) -> choices.ChoiceTables:
        """Return the log scores of a tile of whole sequences, and of the best continuation from each border."""

    def store_best(self, task: Task, beta: np.ndarray) -> None:
        """Store the scores of the best labellings, which are in the first rows of beta in the first tile."""
        tile, filled = task.tiles[0], task.sequences >= 0
        firsts = (tile.rows[:-1] + np.arange(len(tile.length))) * self.arc_layout.automaton.n_states
        scores = beta[firsts][filled]
        self.posterior.refuse_impossible(task.sequences[filled], scores)
        if self.best is not None:
            self.best[task.sequences[filled]] = scores

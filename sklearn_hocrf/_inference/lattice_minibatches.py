"""Gradients of a few sequences over lattices, for stochastic training with pruning."""

from __future__ import annotations

import numpy as np

from .._data.arrays import freeze, joined_ranges
from .._kernels import lattice
from .._structure.weighted_arcs import arcs_of_labels
from .lattice import LatticeModel, LatticePlan
from .minibatches import MinibatchSource, PartlyLabelled
from .schedule import Workspace

__all__ = ["LatticeMinibatches"]


class LatticeMinibatches(MinibatchSource):
    """Expected and labelled counts of a few sequences of a batch at a time, over lattices.   K weights.

    Parameters
    ----------
    model_class : type
        Class of the models.
    plan : LatticePlan
        The plan of the whole batch.
    truth : ndarray of shape (N,), int32
        True labels, which are among the candidates.
    sequence_weight : ndarray of shape (n_sequences,)
        Weight of each sequence.
    partial : PartlyLabelled or None
        The sequences whose labelling has missing labels; none by default.
    """

    def __init__(
        self,
        model_class: type[LatticeModel],
        plan: LatticePlan,
        truth: np.ndarray,
        sequence_weight: np.ndarray,
        partial: PartlyLabelled | None = None,
    ) -> None:
        self._model_class, self.layout, self._plan, self._partial = model_class, plan.layout, plan, partial
        self.sequence_weight, self._offsets = freeze(sequence_weight, np.float64), plan.batch.offsets
        self._truth_arcs = arcs_of_labels(self.layout.automaton, self._offsets, np.maximum(truth, 0))
        self._is_labelled = truth >= 0  # no slot belongs to a missing label
        self._slots = np.zeros(len(truth), np.int64)
        self._slots[self._is_labelled] = plan.candidates.slots(truth)
        self._biases = np.arange(self.layout.first_bias, self.layout.n_weights)
        self._gradient, self._log_z = np.zeros(self.layout.n_pairs), np.zeros(plan.n_sequences)
        self._tables = plan.tables(Workspace())
        self._agreeing = None if partial is None else (partial.plan.lattice, partial.plan.tables(Workspace()))

    def weights(self, sequences: np.ndarray) -> np.ndarray:
        lists, offsets = self._plan.lattice, self._offsets
        first, stop = (lists.entries[lists.columns[offsets[sequences + n]]] for n in (0, 1))
        return np.concatenate([np.unique(lists.pairs[joined_ranges(first, stop)]).astype(np.int64), self._biases])

    def value_gradient(self, w: np.ndarray, sequences: np.ndarray, touched: np.ndarray) -> tuple[float, np.ndarray]:
        model, gradient = self._model_class(self.layout, w), self._gradient
        pairs, arcs = touched[: len(touched) - len(self._biases)], np.zeros(self.layout.automaton.n_arcs)
        complete = sequences
        if self._partial is not None:
            complete = sequences[~self._partial.is_partial[sequences]]
        tokens = joined_ranges(self._offsets[complete], self._offsets[complete + 1])
        weight = -np.repeat(self.sequence_weight[complete], self._offsets[complete + 1] - self._offsets[complete])
        lattice.count_labels(self._plan.lattice, self._slots[tokens], weight, gradient)
        arcs += np.bincount(self._truth_arcs[tokens], weights=weight, minlength=len(arcs))
        used = np.flatnonzero(arcs)
        value = float(gradient[pairs] @ w[pairs] + arcs[used] @ model.weighted_arcs.arc_score[used])
        value += self._expect(model, self._plan.lattice, self._tables, sequences, 1.0, arcs)
        if self._agreeing is not None and self._partial is not None:
            value += self._expect(model, *self._agreeing, sequences[self._partial.is_partial[sequences]], -1.0, arcs)
        derivatives = np.concatenate([gradient[pairs], self.layout.sum_over_suffixes(arcs)])
        gradient[pairs] = 0.0
        return value, derivatives

    def _expect(
        self,
        model: LatticeModel,
        lists: lattice.Lattice,
        tables: lattice.Tables,
        sequences: np.ndarray,
        sign: float,
        arcs: np.ndarray,
    ) -> float:
        """Add the weighted expected counts of some sequences times a sign, and return the sum of their log Z."""
        sums = lattice.Sums(freeze(sign * self.sequence_weight, np.float64), self._gradient, arcs, np.empty(0))
        for sequence in sequences.tolist():
            lattice.expect(lists, model.kernel_weights, (sequence, sequence + 1), tables, self._log_z, sums)
        return float(sums.weight[sequences] @ self._log_z[sequences])

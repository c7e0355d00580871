"""Margins of labelled data: what other labellings score, with a cost for each of their wrong tokens.

The *argmax* of a sequence is a labelling of highest score, its cost added: if that is not the true one, the true one
does not beat it by its cost. Costs are sums over tokens, so decoding with costs in its scores finds it. For whole
batches that goes as all inference does. Training goes from sequence to sequence, and a step then moves the weights of
one sequence's features alone: a :class:`MaxOracle` holds a model whose weights move in place.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._data.arrays import freeze
from .._data.segments import Labelling, Segments
from .._kernels import loss_augmented, perceptron, segment_perceptron
from .._structure.layout import WeightLayout
from .._structure.segment_layout import SegmentLayout
from .._structure.weighted_arcs import arc_order, label_arcs, used_arcs
from .model import LaneModel
from .passes import DecodePass, refuse_impossible, run_all
from .schedule import TOKENS_PER_CALL, Task, Tile, Workspace
from .segment import SegmentDecodePass, SegmentPlan

__all__ = ["Argmax", "ChainMargins", "ChainMaxOracle", "Margins", "MaxOracle", "SegmentMargins", "SegmentMaxOracle"]


class Argmax(NamedTuple):
    """The argmax of one sequence, both times the sequence's weight.   n weights that tell it from the truth."""

    cost: float
    indices: np.ndarray  # (n,) int32   no two equal, in no order
    difference: np.ndarray  # (n,)   how often these weights count in the true labelling, minus in the argmax; never 0


_NOTHING = Argmax(0.0, np.empty(0, np.int32), np.empty(0))


class Margins(metaclass=ABCMeta):
    """The true labellings of a batch, and what a wrong token costs.

    Parameters
    ----------
    model_class : type
        That of the models.
    plan : ChainPlan or SegmentPlan
        That of the batch.
    truth : ndarray or Segments
        The true labelling.
    cost : float
        Cost of a wrong token; with 0, argmaxes are best labellings.
    """

    layout: WeightLayout
    codes: np.ndarray  # (N,) int32   true label codes of the tokens

    def __init__(self, model_class: type[LaneModel], plan: Any, truth: Labelling, cost: float) -> None:
        self.model_class, self.plan, self.layout, self.cost = model_class, plan, plan.layout, float(cost)
        self.weight_of_arc = arc_order(self.layout)[-1]
        self._read(truth)

    @abstractmethod
    def _read(self, truth: Any) -> None:
        """Take the true labelling."""

    @abstractmethod
    def _add_costs(self, decoding: DecodePass, tile: Tile) -> None:
        """Add costs to the scores of a tile."""

    @abstractmethod
    def compare(self, decoding: DecodePass, sequence: int, difference: loss_augmented.Difference) -> tuple[int, int]:
        """Return the number of wrong tokens that a pass found last, and the length of the list of differences.

        ``difference`` is the memory that the kernels work with, and the list.
        """

    def oracle(self, sequence_weight: np.ndarray, w: np.ndarray) -> MaxOracle:
        """Return what finds argmaxes for weights that start at ``w`` and move."""
        return MaxOracle(self, sequence_weight, w)

    def decode_pass(self, workspace: Workspace, model: LaneModel, best: np.ndarray | None = None) -> DecodePass:
        """Return what decodes tasks of the batch, costs added; for the highest scores alone, if these are asked for."""
        n_tokens = len(self.codes) if best is None else 0
        codes, lengths = np.empty(n_tokens, np.int32), np.zeros(n_tokens, np.int32)
        add_costs = self._add_costs if self.cost else None
        return model.decode_pass_class(workspace, model, self.plan, codes, lengths, best=best, add_costs=add_costs)

    def maxima(self, model: LaneModel, n_jobs: int | None = None) -> np.ndarray:
        """Return the score of each sequence's argmax, its cost added; 0 for empty ones; shape (n_sequences,)."""
        best = np.zeros(self.plan.n_sequences)
        run_all(self.plan, n_jobs, lambda workspace: self.decode_pass(workspace, model, best))
        return best


class ChainMargins(Margins):
    """Margins of sequences with one label per token: a token is wrong if its label is."""

    def _read(self, truth: np.ndarray) -> None:
        self.codes = freeze(truth, np.int32)
        self._arcs = freeze(label_arcs(self.layout.automaton, self.plan.offsets, truth), np.int32)

    def oracle(self, sequence_weight: np.ndarray, w: np.ndarray) -> MaxOracle:
        plan = self.plan
        fits = plan.lengths.max(initial=0) * plan.row_size <= plan.schedule.cut_size
        return (ChainMaxOracle if fits and plan.part_columns is None else MaxOracle)(self, sequence_weight, w)

    @cached_property
    def label_structure(self) -> loss_augmented.LabelStructure:
        """Which weights the labels of a token count."""
        layout = self.layout
        return loss_augmented.LabelStructure(
            self.plan.token_features, layout.pairs, layout.arc_columns, layout.automaton.arc_suffix, self.weight_of_arc
        )

    def labelled_sequences(self, sequence_weight: np.ndarray) -> perceptron.LabelledSequences:
        """Return the true labelling as kernels take it; ``sequence_weight`` is of type float64, and read-only."""
        plan, n_labels = self.plan, self.layout.automaton.n_labels
        allowed = np.empty((0, n_labels), np.bool_) if plan.mask is None else plan.mask.allowed
        weight = freeze(sequence_weight, np.float64)
        return perceptron.LabelledSequences(
            plan.offsets, self.codes, self._arcs, weight, freeze(allowed, np.bool_), self.cost
        )

    def _add_costs(self, decoding: Any, tile: Tile) -> None:
        scores = decoding.scores(tile)
        loss_augmented.add_token_costs(tile, self.layout.automaton.n_labels, self.codes, self.cost, scores)

    def compare(self, decoding: Any, sequence: int, difference: loss_augmented.Difference) -> tuple[int, int]:
        first, stop = self.plan.offsets[sequence : sequence + 2]
        codes = decoding.codes[first:stop]
        arcs = label_arcs(self.layout.automaton, (0, len(codes)), codes)
        length = loss_augmented.compare_labels(self.label_structure, first, self._arcs[first:stop], arcs, difference)
        return int(np.count_nonzero(codes != self.codes[first:stop])), length


class SegmentMargins(Margins):
    """Margins of segmented sequences.

    A token is wrong if it lies in a segment of a wrong label, or if a segment starts with it where none should, or the
    other way round. Where neighbours always have different labels, labels of tokens say where segments start: there
    the labels alone count.
    """

    plan: SegmentPlan
    layout: SegmentLayout

    def _read(self, truth: Segments) -> None:
        lengths, arcs = np.zeros(self.plan.n_tokens, np.int32), np.zeros(self.plan.n_tokens, np.int32)
        lengths[truth.start] = truth.lengths
        arcs[truth.start] = label_arcs(self.layout.automaton, truth.offsets, truth.codes)
        self.codes = freeze(np.repeat(truth.codes, truth.lengths), np.int32)
        self.begins = freeze(lengths > 0 if self.layout.repeats else np.empty(0), np.bool_)
        self._lengths, self._arcs = freeze(lengths, np.int32), freeze(arcs, np.int32)
        self.structure = self.plan.structure()

    def oracle(self, sequence_weight: np.ndarray, w: np.ndarray) -> MaxOracle:
        return (SegmentMaxOracle if self.plan.scored_parts is None else MaxOracle)(self, sequence_weight, w)

    def segmented_sequences(self, sequence_weight: np.ndarray) -> segment_perceptron.SegmentedSequences:
        """Return the true segmentation as kernels take it; ``sequence_weight`` is of type float64, and read-only."""
        plan, n_labels = self.plan, self.layout.automaton.n_labels
        allowed, borders = (np.empty((0, n_labels)), np.empty(0)) if plan.mask is None else plan.mask
        return segment_perceptron.SegmentedSequences(
            plan.lone_tiles(),
            self.codes,
            self.begins,
            loss_augmented.SequenceSegments(self._arcs, self._lengths),
            sequence_weight,
            freeze(allowed, np.bool_),
            freeze(borders, np.int8),
            self.cost,
        )

    def _add_costs(self, decoding: Any, tile: Tile) -> None:
        index, cells = decoding.index, decoding.cells(tile)
        loss_augmented.add_segment_costs(index, tile, self.codes, self.begins, self.cost, cells)

    def compare(self, decoding: Any, sequence: int, difference: loss_augmented.Difference) -> tuple[int, int]:
        first, stop = self.plan.offsets[sequence : sequence + 2]
        codes, lengths = decoding.codes[first:stop], decoding.lengths[first:stop]
        starts = np.flatnonzero(lengths)
        arcs = np.zeros(len(codes), np.int32)
        arcs[starts] = label_arcs(self.layout.automaton, (0, len(starts)), codes[starts])
        truth = loss_augmented.SequenceSegments(self._arcs[first:stop], self._lengths[first:stop])
        other = loss_augmented.SequenceSegments(freeze(arcs, np.int32), freeze(lengths, np.int32))
        length = loss_augmented.compare_segments(self.structure, first, truth, other, difference)
        wrong = codes != self.codes[first:stop]
        if len(self.begins):
            wrong |= (lengths > 0) != self.begins[first:stop]
        return int(np.count_nonzero(wrong)), length


class MaxOracle:
    """Finds the argmaxes of a few sequences at a time, for weights that move in place.

    It keeps about five numbers a weight.

    Parameters
    ----------
    margins : Margins
    sequence_weight : ndarray of shape (n_sequences,)
        By which costs and differences are multiplied.
    w : ndarray of shape (n_weights,)
        Weights to begin with; they are copied.

    Attributes
    ----------
    w : ndarray of shape (n_weights,)
        The weights; :meth:`move` changes them.
    """

    def __init__(self, margins: Margins, sequence_weight: np.ndarray, w: np.ndarray) -> None:
        layout = margins.layout
        automaton = layout.automaton
        self.w = np.array(w, dtype=np.float64)
        self._margins, self._sequence_weight = margins, sequence_weight
        # the model looks at arrays that only this object may write
        self._dense, self._arc_scores = layout.dense_table(self.w), np.empty(automaton.n_arcs)
        model = margins.model_class(layout, self.w, self._dense)
        model.weighted_arcs = model.weighted_arcs._replace(arc_score=freeze(self._arc_scores, np.float64))
        self._weighted_arcs = model.weighted_arcs
        by_length, forbidden, suffix, weight_of_arc = arc_order(layout)
        self._arcs = by_length, suffix, weight_of_arc, forbidden
        self._decoding = margins.decode_pass(Workspace(), model)
        self._alone: dict = {}  # tasks of the sequences that were asked for alone
        size = layout.n_weights
        self._difference = loss_augmented.Difference(
            np.zeros(size), np.zeros(size, dtype=bool), np.empty(size, np.int32), np.empty(size)
        )

    def argmax(self, sequences: np.ndarray) -> list[Argmax]:
        """Return what tells each sequence's argmax from the truth; many at a time take less time each.

        ``sequences`` is an array of numbers, no two of them equal.
        """
        self._decode(sequences)
        return [self._compare(sequence) for sequence in sequences.tolist()]

    def _decode(self, sequences: np.ndarray) -> None:
        loss_augmented.score_arcs(*self._arcs, self.w, self._arc_scores)
        self._decoding.read_weights()
        for task in self._cut(sequences):
            self._decoding.run(task)

    def _cut(self, sequences: np.ndarray) -> list[Task]:
        """Return tasks of the sequences that have tokens."""
        plan = self._margins.plan
        if len(sequences) > 1:
            return plan.cut(sequences)
        (sequence,) = sequences.tolist()
        if sequence not in self._alone:
            self._alone[sequence] = [plan.alone(sequence)] if plan.lengths[sequence] else []
        return self._alone[sequence]

    def _compare(self, sequence: int) -> Argmax:
        weight, margins = self._sequence_weight[sequence], self._margins
        if weight == 0 or margins.plan.lengths[sequence] == 0:
            return _NOTHING
        n_wrong, n = margins.compare(self._decoding, sequence, self._difference)
        indices, values = self._difference[2:]
        return Argmax(weight * margins.cost * n_wrong, indices[:n].copy(), weight * values[:n])

    def move(self, indices: np.ndarray, steps: np.ndarray) -> None:
        """Add ``steps`` to the weights ``indices``, some of which may be equal."""
        loss_augmented.move(indices, steps, *self._margins.layout.dense_cells, self.w, self._dense)


class WholeMaxOracle(MaxOracle, metaclass=ABCMeta):
    """The same, with epochs of the perceptron that are compiled as a whole."""

    def correct(self, sequences: np.ndarray, delayed: np.ndarray, n_steps: int) -> int:
        """Take the perceptron's step for each sequence in turn, and return how many differ from their argmax.

        It does what ``argmax`` and ``move`` do: the difference of each sequence is added to the weights, and that times
        the number of steps before it to ``delayed``.

        Parameters
        ----------
        sequences : ndarray of int
        delayed : ndarray of shape (n_weights,)
            In and out.
        n_steps : int
            Number of steps before these.

        Raises
        ------
        ValueError
            If the model forbids every labelling of a sequence, or if scores overflow.
        """
        correct, n_mistakes = self._corrector(delayed), 0
        for part in self._parts(sequences):
            n, bad, score = correct(part, n_steps)
            if bad >= 0:
                refuse_impossible([bad], [score])
            n_mistakes, n_steps = n_mistakes + n, n_steps + len(part)
        return n_mistakes

    @abstractmethod
    def _corrector(self, delayed: np.ndarray) -> Callable[[np.ndarray, int], tuple[int, int, float]]:
        """Return the kernel that takes the steps of some sequences, after a number of steps."""

    def _order(self) -> perceptron.ArcOrder:
        by_length, _, _, forbidden = self._arcs
        return perceptron.ArcOrder(by_length, forbidden)

    def _parts(self, sequences: np.ndarray) -> list[np.ndarray]:
        """Cut sequences into runs that a call of a kernel goes through."""
        tokens = np.cumsum(self._margins.plan.lengths[sequences])
        cuts = np.flatnonzero(np.diff(tokens // TOKENS_PER_CALL)) + 1
        return np.split(freeze(sequences, np.int64), cuts)


class ChainMaxOracle(WholeMaxOracle):
    """The same for sequences with one label per token: what goes through them is compiled as a whole."""

    _margins: ChainMargins

    def argmaxes(self, sequences: np.ndarray) -> perceptron.Differences:
        """Return what :meth:`argmax` does in flat arrays."""
        self._decode(sequences)
        margins, n = self._margins, len(sequences)
        sequences, data = freeze(sequences, np.int64), margins.labelled_sequences(self._sequence_weight)
        costs, starts, parts, n_done = np.zeros(n), np.zeros(n + 1, np.int64), [], 0
        while n_done < n:  # a sequence differs in n_weights at most
            found = perceptron.Differences(costs[n_done:], np.zeros(n - n_done + 1, np.int64), *self._room)
            fixed = data, self._weighted_arcs, margins.label_structure, self._decoding.codes, self._difference
            n_new = perceptron.list_differences(sequences[n_done:], *fixed, found)
            stop = found.starts[n_new]
            starts[n_done + 1 : n_done + n_new + 1] = starts[n_done] + found.starts[1 : n_new + 1]
            parts.append((found.indices[:stop].copy(), found.values[:stop].copy()))
            n_done += n_new
        return perceptron.Differences(costs, starts, *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    @cached_property
    def _room(self) -> tuple[np.ndarray, np.ndarray]:
        return np.empty(len(self.w), np.int32), np.empty(len(self.w))

    def _corrector(self, delayed: np.ndarray) -> Callable[[np.ndarray, int], tuple[int, int, float]]:
        margins = self._margins
        transitions = perceptron.Transitions(*used_arcs(margins.layout))
        weights = perceptron.MovingWeights(self.w, self._dense, *margins.layout.dense_cells, self._arc_scores, delayed)
        data = margins.labelled_sequences(self._sequence_weight)
        fixed = data, self._weighted_arcs, margins.label_structure, transitions, self._order(), weights

        def correct(sequences: np.ndarray, n_steps: int) -> tuple[int, int, float]:
            return perceptron.correct(sequences, *fixed, self._difference, n_steps)

        return correct


class SegmentMaxOracle(WholeMaxOracle):
    """The same for segmented sequences."""

    _margins: SegmentMargins
    _decoding: SegmentDecodePass

    def _corrector(self, delayed: np.ndarray) -> Callable[[np.ndarray, int], tuple[int, int, float]]:
        margins, decoding, plan = self._margins, self._decoding, self._margins.plan
        length_scores, found_arcs = np.zeros((plan.n_cells, 2)), np.empty(plan.n_tokens, np.int32)
        weights = segment_perceptron.Moving(
            self.w,
            self._dense,
            *margins.layout.dense_cells,
            self._arc_scores,
            length_scores,
            plan.shortest,
            delayed,
        )
        found = segment_perceptron.Found(decoding.codes, decoding.lengths, found_arcs)
        seen = loss_augmented.SequenceSegments(freeze(found_arcs, np.int32), freeze(decoding.lengths, np.int32))
        view = segment_perceptron.View(
            freeze(self.w, np.float64), freeze(self._dense, np.float64), freeze(length_scores, np.float64), seen
        )
        data = margins.segmented_sequences(freeze(self._sequence_weight, np.float64))
        memory = decoding.lone_tables(), found, self._difference
        fixed = data, self._weighted_arcs, margins.structure, self._order(), (weights, view), *memory

        def correct(sequences: np.ndarray, n_steps: int) -> tuple[int, int, float]:
            return segment_perceptron.correct(sequences, *fixed, n_steps)

        return correct

"""The distribution of the labellings of a batch under a model, and all queries about it.

:class:`Posterior` declares the queries, once for all families of models. :class:`LanePosterior` implements most of them
for chains and segmentations, for which ``chain`` and ``segment`` define plans and passes; ``candidates`` contains a
separate implementation for lattices.

:func:`search` finds the n best labellings of each sequence, from the choices at each boundary (see
``kernels.choices``).
"""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..._data.arrays import cached_property, joined_ranges
from ..._data.batch import SequenceBatch
from ..._data.segments import Channel, Mask, Segments, both, sorted_segments
from ..kernels import choices, tag_segments, token_scores
from ..kernels.tag_segments import Tags
from .passes import DecodePass, ExpectedCounts, MarginalPass, Receiver
from .schedule import Plan, Task, Tile

LARGE_SCORE = 1e5  # of a labelling: larger sums have rounding errors of more than 1e-11
_LOW_ENTROPY = 1e-4  # relative to log Z: a smaller difference of such numbers has fewer than ten correct digits


class ImpossibleSequence(ValueError):
    """Error for a sequence without any possible labelling.

    Attributes
    ----------
    sequence : int
        The index of the sequence in the batch.
    """

    def __init__(self, message: str, sequence: int = -1) -> None:
        super().__init__(message)
        self.sequence = sequence


class Evidence(NamedTuple):
    """Known labels."""

    mask: Mask  # the labellings that agree with the known labels
    source: str = "'known'"  # the source of the labels, for messages
    sequence_ids: np.ndarray | None = None  # ids of the sequences in messages; None means their indices

    def part(self, sequences: np.ndarray, tokens: np.ndarray) -> Evidence:
        """Return the known labels of some sequences, given the indices of the sequences and of their tokens."""
        sequence_ids = sequences if self.sequence_ids is None else self.sequence_ids[sequences]
        return Evidence(self.mask.part(tokens), self.source, sequence_ids)


class Expectations(NamedTuple):
    """The results of one forward and backward pass over a batch.   n sequences."""

    log_z: np.ndarray  # (n,)   log partition functions
    counts: np.ndarray  # (n_weights,)   expected counts of the features of all weights, weighted by sequence


class Posterior(metaclass=ABCMeta):
    """The distribution of the labellings of a batch under a model.

    Queries raise an :class:`ImpossibleSequence` if a sequence has no labelling. All queries of a posterior share the
    plan of the batch, which the first query creates; ``model.posterior_on(plan)`` is the posterior with an existing
    plan.

    Parameters
    ----------
    model : Model
    batch : SequenceBatch
    support : Mask or None
        The possible labellings; None means all labellings of the model.
    n_jobs : int or None
        Number of threads, as in joblib. Results are bitwise identical for any number of threads.
    evidence : Evidence or None
        Known labels; results are conditional on the event that the labelling agrees with them.

    Attributes
    ----------
    mask : Mask or None
        The labellings that support and evidence allow.
    shift : ndarray of shape (N,) or None
        For each token, the number by which the scores of all its labels are reduced; see :meth:`centred`.
    """

    shift: np.ndarray | None = None

    def __init__(
        self,
        model: Any,
        batch: SequenceBatch,
        support: Mask | None = None,
        n_jobs: int | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        self.model, self.batch, self.support, self.n_jobs, self.evidence = model, batch, support, n_jobs, evidence
        self.mask = support if evidence is None else both(support, evidence.mask)

    @cached_property
    def plan(self) -> Any:
        """The plan that distributes the work on the batch."""
        return self._make_plan()

    @abstractmethod
    def _make_plan(self) -> Any:
        """Return the plan of the batch under the mask."""

    def with_plan(self, plan: Any) -> Self:
        """Return the same posterior with another plan of the batch."""
        posterior = copy.copy(self)
        posterior.plan = plan
        return posterior

    def part(self, sequences: np.ndarray) -> Self:
        """Return the posterior of the sequences with these indices."""
        tokens = joined_ranges(self.batch.offsets[sequences], self.batch.offsets[sequences + 1])
        support = self.support and self.support.part(tokens)
        evidence = self.evidence and self.evidence.part(sequences, tokens)
        posterior = type(self)(self.model, self.batch[sequences], support, self.n_jobs, evidence)
        posterior.shift = None if self.shift is None else self.shift[tokens]
        return posterior

    def narrowed(self) -> Self:
        """Return the posterior whose mask excludes labellings outside the lattice, if there is a lattice."""
        return self

    # --- large scores -------------------------------------------------------------------------------------------------

    def centred(self) -> tuple[Self, Any]:
        """Return the same distribution with small scores, and its best labelling.

        If the best score of a sequence is large, each token's approximate contribution to this score is subtracted from
        the scores of all labels of the token. The scores of all labellings of the sequence decrease by the same number,
        so no probability changes. Differences between the scores of labellings, and between scores and log Z, are then
        differences of small numbers.
        """
        labelling, best = self._best()
        large = np.isfinite(best) & (np.abs(best) > LARGE_SCORE)  # -inf: no labelling is possible
        if self.shift is not None or not large.any():
            return self, labelling
        scores, units = self.model.log_scores(self.batch, labelling)
        share = np.repeat(np.rint(scores / units.lengths), units.lengths)  # sums of integers are exact
        posterior = copy.copy(self)
        posterior.shift = np.where(np.repeat(large, self.batch.lengths), share, 0.0)
        return posterior, posterior._best()[0]

    def centred_unless_small(self, log_z: np.ndarray) -> Self:
        """Return this posterior, centred if a value of ``log_z`` is large."""
        return self if np.abs(log_z).max(initial=0.0) <= LARGE_SCORE else self.centred()[0]

    def with_log_z(self) -> tuple[Self, np.ndarray]:
        """Return this posterior, centred if a value of log Z is large, and its log Z."""
        log_z = self.log_z()
        posterior = self.centred_unless_small(log_z)
        return posterior, log_z if posterior is self else posterior.log_z()

    @property
    def reduction(self) -> np.ndarray:
        """The amount by which the scores of all labellings of each sequence are reduced; shape (n_sequences,)."""
        shift = np.zeros(self.batch.n_tokens) if self.shift is None else self.shift
        return self._by_sequence(shift, self.batch.offsets)

    def _by_sequence(self, values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Return the sum of the values of each sequence, in ranges given by ``offsets``; shape (n_sequences,)."""
        sequences = np.repeat(np.arange(len(self.batch)), np.diff(offsets))
        # without values, numpy returns integers, which cannot be -inf
        return np.bincount(sequences, values, len(self.batch)).astype(np.float64, copy=False)

    # --- queries ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def log_z(self) -> np.ndarray:
        """Return log Z of each sequence, 0 for empty ones; shape (n_sequences,).

        Z is the sum over only the possible labellings.
        """

    @abstractmethod
    def log_z_and_slope(self, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log Z of each sequence and its derivative along a direction of the weights.

        The derivative is the expectation, under the model, of the score that the direction gives when used as weights.
        One forward pass computes both results.
        """

    @abstractmethod
    def expectations(self, sequence_weight: np.ndarray | None = None) -> Expectations:
        """Return log partition functions and expected counts."""

    @abstractmethod
    def hessian_vector_product(self, direction: np.ndarray, sequence_weight: np.ndarray | None = None) -> np.ndarray:
        """Return the product of the Hessian of sum c_n log Z_n and a direction of the weights; shape (n_weights,).

        The product is the derivative of the expected counts along the direction, which kernels on dual numbers compute
        in one forward and backward pass.
        """

    @abstractmethod
    def marginals(self) -> np.ndarray:
        """Return P(token t has label y); shape (N, n_labels), rows sum to 1."""

    @abstractmethod
    def pattern_marginals(self, patterns: Sequence[Sequence[int]]) -> np.ndarray:
        """Return P(an occurrence of a pattern ends with token t); shape (N, n_given)."""

    @abstractmethod
    def segment_marginals(self, threshold: float, tags: Tags | None = None) -> tuple[Segments, np.ndarray]:
        """Return all segments whose probability is at least the threshold, and the probabilities; shape (M,).

        The segments are sorted by sequence, start, stop and label. ``tags`` define the segments that token labels
        encode.
        """

    @abstractmethod
    def segment_probabilities(self, segments: Segments, tags: Tags | None = None) -> np.ndarray:
        """Return the probabilities of segments, no two of which have the same start; shape (M,)."""

    def tag_marginals(self, tags: Sequence[tuple[int, Channel]]) -> np.ndarray:
        """Return P(token t is at a channel's position of a segment of a label), for pairs (label, channel)."""
        raise TypeError(f"{type(self.model).__name__} has no tag_marginals: its labellings are not made of segments")

    def decode(self) -> Any:
        """Return the most probable labelling; ties go to the lowest label, then to the shortest segment."""
        return self.centred()[1]

    @abstractmethod
    def _best(self) -> tuple[Any, np.ndarray]:
        """Return each sequence's labelling with the highest score, and these scores."""

    @abstractmethod
    def best_labellings(self, n_best: int) -> BestLabellings:
        """Return each sequence's ``n_best`` different labellings with the highest scores, best first."""

    @abstractmethod
    def draw(self, n_drawn: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw labellings; return codes and, for segments, lengths, as in :class:`BestLabellings` but transposed."""

    @abstractmethod
    def entropy(self) -> np.ndarray:
        """Return the entropy of the labellings of each sequence, in nats; shape (n_sequences,).

        The entropy is log Z minus the expected score, where the expected score is a derivative of log Z.
        """

    def log_score(self, labelling: Any) -> np.ndarray:
        """Return the log potential of a labelling of each sequence; shape (n_sequences,).

        The result is -inf if the labelling is forbidden or contains the code -1; for lattices, also if the lattice
        lacks the labelling.
        """
        scores, units = self.model.log_scores(self.batch, labelling)
        if self.shift is not None:
            scores = scores - np.add.reduceat(self.shift, np.cumsum(units.lengths) - units.lengths)
        return self._by_sequence(scores, units.offsets)

    # --- impossible sequences -----------------------------------------------------------------------------------------

    def is_possible(self) -> np.ndarray:
        """Return whether each sequence has a labelling; shape (n_sequences,)."""
        # with separate threads, because a thread of this posterior may call this method
        alone = self.model.posterior(self.batch, self.mask)
        return alone.with_plan(alone.plan.masked(self.mask, may_be_impossible=True)).log_z() > -np.inf

    def refuse_impossible(self, sequences: Sequence | np.ndarray, scores: Sequence | np.ndarray) -> None:
        """Raise an error unless the score of each sequence (log Z, or the score of its best labelling) is finite."""
        if np.isfinite(scores).all():
            return
        bad = np.flatnonzero(~np.isfinite(scores))
        first = bad[np.argmin(np.asarray(sequences)[bad])]
        sequence = int(sequences[first])
        if np.asarray(scores)[first] != -np.inf:
            raise ValueError(
                f"sequence {sequence}: its scores are beyond floating point numbers; its feature values, or the "
                "weights, are too large"
            )
        if self.evidence is not None:
            self._refuse_evidence(self.evidence)
        raise ImpossibleSequence(f"sequence {sequence}: the model forbids every labelling of it", sequence)

    def _refuse_evidence(self, evidence: Evidence) -> None:
        """Raise an error that names a sequence and a position if the known labels rule out all of its labellings."""
        impossible = np.flatnonzero(~self.is_possible())
        without = self.model.posterior(self.batch, self.support)
        if not len(impossible) or (self.support is not None and not without.is_possible()[impossible[0]]):
            return
        sequence = int(impossible[0])
        shown = sequence if evidence.sequence_ids is None else int(evidence.sequence_ids[sequence])
        raise ImpossibleSequence(
            f"sequence {shown}: no labelling agrees with {evidence.source} and the constraints; the first position "
            f"with none left is {self.part(impossible[:1])._first_without_any()}",
            sequence,
        )

    def _first_without_any(self) -> int:
        """Return the position with which the shortest prefix of the sequence that has no possible labelling ends."""
        mask: Any = self.mask
        length = self.batch.n_tokens
        free = Mask.free(length, mask.allowed.shape[1])
        possible, impossible = 0, length  # numbers of positions that the mask restricts
        while impossible - possible > 1:
            middle = (possible + impossible) // 2
            start = Mask(*(np.concatenate([a[:middle], b[middle:]]) for a, b in zip(mask, free, strict=True)))
            if self.model.posterior(self.batch, start).is_possible()[0]:
                possible = middle
            else:
                impossible = middle
        return impossible - 1


class LanePosterior(Posterior):
    """A posterior whose passes process blocks of sequences of similar length, with one sequence per lane."""

    pass_class: ClassVar[type[MarginalPass]]
    decode_pass_class: ClassVar[type[DecodePass]]
    most_likely: ClassVar[float | None] = None  # upper limit of marginals before normalisation

    @property
    def of_sums(self) -> LanePosterior:
        """The posterior whose passes compute sums over labellings."""
        return self

    def _make_plan(self) -> Plan:
        plan = self.model.plan_of(self.batch, self.n_jobs)
        return plan if self.mask is None else plan.masked(self.mask)

    @property
    def whole(self) -> Self:
        """The posterior with a plan that cuts no sequences, for passes that need whole sequences."""
        return self.with_plan(self.plan.uncut())

    def log_z(self) -> np.ndarray:
        return self.of_sums.run(lambda: None)[0]

    def log_z_and_slope(self, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope = np.zeros(len(self.batch))
        posterior = self.of_sums
        log_z = posterior.run(lambda: None, direction=posterior.model.moving(direction), slope=slope)[0]
        return log_z, slope

    def expectations(self, sequence_weight: np.ndarray | None = None) -> Expectations:
        posterior = self.of_sums
        log_z, sums = posterior.run(lambda: ExpectedCounts(posterior), sequence_weight)
        return Expectations(log_z, posterior.counts(sums))

    def add_expectations(
        self, sequences: np.ndarray, sequence_weight: np.ndarray, gradient: np.ndarray, log_z: np.ndarray
    ) -> tuple:
        """Add the expected counts of (feature, pattern) pairs in some sequences to ``gradient``, and write ``log_z``.

        The model and the plan have no dense table, so the time depends on the sequences, but not on the number of
        weights.

        Parameters
        ----------
        sequences : ndarray of int
            Indices of some sequences of the batch.
        sequence_weight : ndarray of shape (n_sequences,)
            Weights of all sequences.
        gradient : ndarray of shape (first_bias,)
            Changed in place. Features of lengths are left out: their counts follow from the counts of lengths.
        log_z : ndarray of shape (n_sequences,)
            Receives log Z of these sequences.

        Returns
        -------
        arcs, lengths : ndarray
            Expected counts of arcs and of segment lengths.
        """
        with self.plan.workspace() as workspace:
            receiver = ExpectedCounts(self, gradient)
            counting = self.pass_class(workspace, self, log_z, sequence_weight, receiver=receiver)
            return counting.over(self.plan.cut(sequences))[2:]

    def hessian_vector_product(self, direction: np.ndarray, sequence_weight: np.ndarray | None = None) -> np.ndarray:
        posterior = self.of_sums
        moving = posterior.model.moving(direction)
        return posterior.counts(posterior.run(lambda: ExpectedCounts(posterior), sequence_weight, direction=moving)[1])

    def counts(self, sums: tuple | None) -> np.ndarray:
        """Return the counts of all weights' features from the sums of :class:`ExpectedCounts`; overwrite these sums."""
        layout = self.model.layout
        if sums is None:  # there are no data
            return np.zeros(layout.n_weights)
        counts, dense, arcs, lengths = sums
        pairs = counts[: layout.first_bias]
        pairs[: len(layout.dense_slots)] += dense.reshape(-1)[layout.dense_slots]
        self.plan.add_length_counts(lengths, pairs)
        counts[layout.first_bias :] = layout.sum_over_suffixes(arcs)
        return counts

    def marginals(self) -> np.ndarray:
        table = self.column_marginals(self.model.layout.automaton.n_labels)
        np.clip(table, 0.0, self.most_likely, out=table)
        return np.divide(table, table.sum(axis=1, keepdims=True), out=table)

    def column_marginals(self, n_columns: int) -> np.ndarray:
        """Return the marginals of the first score columns, which need not have weights; shape (N, n_columns)."""
        table = np.empty((self.batch.n_tokens, n_columns))

        def gather(backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
            marginals = backward.column_marginals(tile, weight)
            token_scores.gather(tile, backward.layout.pairs.n_columns, marginals, weight, table)

        self.run(lambda: gather)
        return table

    def _marginals_of(self, columns: Sequence[tuple[tuple[int, ...], Channel]]) -> np.ndarray:
        """Return the expected values of score columns, which need not have weights, at each token."""
        model, ids = self.model.with_columns(columns)
        posterior = type(self)(model, self.batch, self.support, self.n_jobs, self.evidence)
        posterior.shift = self.shift
        marginals = posterior.column_marginals(model.layout.pairs.n_columns)
        return np.minimum(np.maximum(marginals[:, ids], 0.0), 1.0)  # for few tokens, np.clip takes three times as long

    def segment_marginals(self, threshold: float, tags: Any = None) -> tuple[Segments, np.ndarray]:
        likely: list = []

        def list_likely(backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
            structure = backward.weighted_arcs, tile, backward.sequences(tile, weight)
            likely.append(tag_segments.list_segments(*structure, backward.continuations(tile), tags, float(threshold)))

        self.whole.run(lambda: list_likely)
        return sorted_segments(self.batch.offsets, likely)

    def segment_probabilities(self, segments: Segments, tags: Any = None) -> np.ndarray:
        table, probability = by_first_token(segments, self.batch.n_tokens)

        def weigh(backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
            structure = backward.weighted_arcs, tile, backward.sequences(tile, weight)
            tag_segments.weigh_segments(*structure, backward.continuations(tile), tags, table, probability)

        self.whole.run(lambda: weigh)
        return np.minimum(probability[segments.start], 1.0)

    def _best(self) -> tuple[Any, np.ndarray]:
        n_tokens, best = self.batch.n_tokens, np.zeros(len(self.batch))
        tables = np.empty(n_tokens, np.int32), np.zeros(n_tokens, np.int32)
        self.plan.add_up(
            lambda chunk, workspace: self.decode_pass_class(workspace, self, *tables, best=best).over(chunk)
        )
        return self.model.labelling(self.batch.offsets, *tables), best

    def best_labellings(self, n_best: int) -> BestLabellings:
        best, whole = BestLabellings.empty(n_best, self.batch), self.whole
        tables = best.codes[0], best.lengths[0]
        whole.plan.add_up(
            lambda chunk, workspace: search(
                self.decode_pass_class(workspace, whole, *tables, best=best.score), chunk, best
            )
        )
        return best

    def draw(self, n_drawn: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        codes = np.zeros((self.batch.n_tokens, n_drawn), np.int32)
        lengths = np.ones(codes.shape if self.model.has_lengths else (0, n_drawn), np.int32)

        def sample(backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
            sequences = backward.sequences(tile, weight)
            rng = np.random.default_rng([seed, int(sequences.max()), int(backward.is_wide)])  # one for each task
            uniform = rng.random((int(tile.rows[-1]) * sequences.shape[1], n_drawn))
            structure = backward.weighted_arcs, backward.index, tile, sequences
            choices.draw_labellings(*structure, backward.continuations(tile), uniform, codes, lengths)

        log_z = self.whole.run(lambda: sample)[0]
        centred = self.centred_unless_small(log_z)
        return (codes, lengths) if centred is self else centred.draw(n_drawn, seed)

    def entropy(self) -> np.ndarray:
        weights = self.model.weights
        log_z, slope = self.log_z_and_slope(np.where(np.isfinite(weights), weights, 0.0))
        entropy = log_z - slope
        # if rounding errors of the terms dominate the difference, compute it again from the choices at all borders
        low = np.flatnonzero(entropy < _LOW_ENTROPY * np.maximum(1.0, np.abs(log_z)))
        if len(low):
            again = np.zeros(len(low))

            def receive(backward: MarginalPass, tile: Tile, weight: np.ndarray) -> None:
                structure = backward.weighted_arcs, backward.index, tile, backward.sequences(tile, weight)
                choices.entropies(*structure, backward.continuations(tile), again)

            self.centred_unless_small(log_z).part(low).whole.run(lambda: receive)
            entropy[low] = again
        return entropy

    def run(
        self, make_receiver: Callable[[], Receiver | None], sequence_weight: np.ndarray | None = None, **options: Any
    ) -> tuple[np.ndarray, tuple | None]:
        """Run forward passes, and backward passes if there are receivers; return log Z and the receivers' sums."""
        log_z = np.zeros(len(self.batch))
        weight = None if sequence_weight is None else np.asarray(sequence_weight, np.float64)
        sums = self.plan.add_up(
            lambda chunk, workspace: self.pass_class(
                workspace, self, log_z, weight, receiver=make_receiver(), **options
            ).over(chunk)
        )
        return log_z, sums


def by_first_token(segments: Segments, n_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends and labels of segments by first token, shape (N, 2), and N zeros for their probabilities."""
    table = np.zeros((n_tokens, 2), np.int64)
    table[segments.start] = np.stack([segments.stop, segments.codes], axis=1)
    return table, np.zeros(n_tokens)


class BestLabellings(NamedTuple):
    """The labellings with the highest scores.   n labellings, S sequences, N tokens."""

    score: np.ndarray  # (S,)   score of the best labelling
    regret: np.ndarray  # (n, S)   difference from the best score; inf if a sequence has fewer labellings
    codes: np.ndarray  # (n, N) int32   as in :class:`DecodePass`
    lengths: np.ndarray  # (n, N) int32

    @classmethod
    def empty(cls, n_best: int, batch: SequenceBatch) -> BestLabellings:
        """Return tables to be filled; a sequence without tokens has one labelling."""
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

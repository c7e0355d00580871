"""High-order CRFs over lattices, in which each token has one of a few candidate labels.

Unless a limit has dropped states, the distribution over a lattice is that of the model with all labels, conditional on
the event that all labels of a labelling are candidates. Queries for which no lattice kernel exists therefore use the
model with all labels, with a mask. The candidates are the best labels according to a model of order 0, which is trained
only for this purpose.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..._data.arrays import cached_property, freeze, freeze_all, group_offsets, joined_ranges, offsets_of
from ..._data.batch import SequenceBatch, as_sparse
from ..._data.checks import is_integer
from ..._data.segments import Mask, Segments
from ..kernels import candidates as kernels
from ..kernels import lattice
from ..kernels.tag_segments import Tags
from ..structure.layout import WeightLayout
from ..structure.pairs import Endings
from ..structure.weighted_arcs import arcs_of_labels
from .chain import ChainModel, ChainPosterior
from .model import Model
from .posterior import BestLabellings, Expectations, Posterior
from .schedule import Schedule, SharedWork, Workspace


class Candidates(NamedTuple):
    """The possible labels of each token.   N tokens, M candidates."""

    starts: np.ndarray  # (N + 1,) int64
    labels: np.ndarray  # (M,) int32   ascending for each token
    scores: np.ndarray  # (M,)   scores by which the labels were chosen
    codes: np.ndarray  # (N,) int32   labels of tokens that no limit drops; or empty

    @classmethod
    def of_counts(
        cls, counts: np.ndarray, labels: np.ndarray, scores: np.ndarray | None = None, codes: ArrayLike = ()
    ) -> Candidates:
        """Return candidates from their number for each token, their labels and scores; scores are 0 by default."""
        scores = np.zeros(len(labels)) if scores is None else scores
        starts = freeze(offsets_of(counts), np.int64)
        return cls(starts, freeze(labels, np.int32), freeze(scores, np.float64), freeze(codes, np.int32))

    @property
    def tokens(self) -> np.ndarray:
        """The token of each candidate; shape (M,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def mask(self, n_labels: int) -> Mask:
        """Return the mask that allows only the candidates."""
        mask = Mask(np.zeros((len(self.starts) - 1, n_labels), bool), np.zeros(len(self.starts) - 1, np.int8))
        mask.allowed[self.tokens, self.labels] = True
        return mask

    def part(self, tokens: np.ndarray) -> Candidates:
        """Return the candidates of the tokens with these indices."""
        starts, stops = self.starts[tokens], self.starts[tokens + 1]
        slots, codes = joined_ranges(starts, stops), self.codes[tokens] if len(self.codes) else ()
        return Candidates.of_counts(stops - starts, self.labels[slots], self.scores[slots], codes)

    def allowed_by(self, mask: Mask) -> Candidates:
        """Return the candidates that a mask allows."""
        tokens = self.tokens
        kept = mask.allowed[tokens, self.labels]
        counts = np.bincount(tokens[kept], minlength=len(mask.allowed))
        return Candidates.of_counts(counts, self.labels[kept], self.scores[kept])

    def contain(self, codes: np.ndarray) -> np.ndarray:
        """Return whether the label of each token is among its candidates; bool of shape (N,)."""
        tokens = self.tokens
        is_candidate = np.zeros(len(codes), bool)
        is_candidate[tokens[self.labels == codes[tokens]]] = True
        return is_candidate

    def slots(self, codes: np.ndarray) -> np.ndarray:
        """Return the index of each token's label among all candidates; each label must be a candidate of its token."""
        return np.flatnonzero(self.labels == codes[self.tokens])

    def with_labels(self, codes: np.ndarray) -> Candidates:
        """Return the candidates together with the given label of each token, which no limit drops."""
        missing = np.flatnonzero(~self.contain(codes))
        tokens = np.concatenate([self.tokens, missing])
        labels = np.concatenate([self.labels, codes[missing]])
        scores = np.concatenate([self.scores, np.full(len(missing), self.scores.min(initial=0.0))])  # the lowest score
        order = np.lexsort((labels, tokens))
        counts = np.bincount(tokens, minlength=len(self.starts) - 1)
        return Candidates.of_counts(counts, labels[order], scores[order], codes)


class CandidateFinder:
    """A finder of the best labels of each token under a model of order 0; ties go to the lowest label.

    Parameters
    ----------
    layout : WeightLayout
        A layout whose patterns are the single labels.
    weights : ndarray of shape (n_weights,)
    n_candidates : int
        Number of labels of each token.
    n_states : int or None
        Maximum number of states of the automaton after each token; None means all.
    """

    def __init__(
        self, layout: WeightLayout, weights: np.ndarray, n_candidates: int, n_states: int | None = None
    ) -> None:
        self.layout, self.n_candidates, self.n_states = layout, n_candidates, n_states
        pairs, bias = weights[: layout.n_pairs], layout.pattern_coef(weights)
        tables = pairs, layout.dense_table(pairs), bias
        self._level = kernels.TrainedLevel(*(freeze(array, np.float64) for array in tables))

    def find(self, batch: SequenceBatch, mask: Mask | None = None, n_best: np.ndarray | None = None) -> Candidates:
        """Return the best labels of each token among those that a mask allows.

        ``n_best``, of shape (N,), is the maximum number for each token; None means ``n_candidates``.
        """
        batch, n_labels = as_sparse(batch), self.layout.patterns.n_labels
        n_best = np.full(batch.n_tokens, self.n_candidates) if n_best is None else n_best
        most = min(int(n_best.max(initial=1)), n_labels)
        shape = batch.n_tokens, most
        labels, scores, counts = np.zeros(shape, np.int32), np.zeros(shape), np.zeros(batch.n_tokens, np.int64)
        allowed = freeze(np.empty((0, n_labels)) if mask is None else mask.allowed, np.bool_)
        layout = self.layout
        tables = layout.rows(batch), layout.pairs, layout.part_links, self._level
        kernels.best_labels(*tables, allowed, freeze(n_best, np.int64), labels, scores, counts)
        there = np.arange(most) < counts[:, None]
        return Candidates.of_counts(counts, labels[there], scores[there])


class LevelZero(NamedTuple):
    """A model of order 0 that determines the candidate labels of tokens in lattices."""

    layout: WeightLayout  # its patterns are the single labels
    weights: np.ndarray  # (n_weights,)
    n_candidates: int  # number of labels of each token
    n_states: int  # maximum number of states after each token
    recall: float  # fraction of held-out labels that are among the candidates of their token; nan without such labels

    def finder(self) -> CandidateFinder:
        """Return the finder of candidates that uses this model."""
        return CandidateFinder(self.layout, self.weights, self.n_candidates, self.n_states)

    def checked(self, layout: WeightLayout, numbers: Callable[..., np.ndarray]) -> LevelZero:
        """Return this model with read-only weights, or raise a ValueError if it does not match a fitted model's layout.

        ``numbers`` is the function that checks the weights.
        """
        level_layout = self.layout
        if type(level_layout) is not WeightLayout or (level_layout.patterns.n_labels, level_layout.n_features) != (
            layout.patterns.n_labels,
            layout.n_features,
        ):
            raise ValueError("the layout of level 0 does not match the labels and features of the model")
        weights = numbers(self.weights, "weights of level 0", level_layout.n_weights)
        if not np.isfinite(weights).all():
            raise ValueError("the weights of level 0 are not all finite")
        for number, what in (self.n_candidates, "labels"), (self.n_states, "states"):
            if not is_integer(number) or number < 1:
                raise ValueError(f"level 0 keeps {number!r:.40} {what}, not an integer >= 1")
        if not isinstance(self.recall, float):
            raise ValueError(f"the recall of level 0 is {self.recall!r:.40}, not a float")
        return self._replace(weights=weights)


class LatticePlan(SharedWork):
    """The lattice of a batch under a layout, and its distribution to threads.

    Parameters
    ----------
    layout : WeightLayout
        A layout whose features are paired only with single labels.
    batch : SequenceBatch
    candidates : Candidates
    n_states : int, ndarray of shape (N,) or None
        Maximum number of states of the automaton after each token; None means all.
    schedule : Schedule or None
        The sizes that determine the number of chunks.
    n_jobs : int or None
        Number of threads, as in joblib.

    Attributes
    ----------
    lattice : Lattice
    is_limited : bool
        Whether the limit ``n_states`` has dropped states to which candidates lead.
    may_be_impossible : bool
        Whether sequences without any labelling have a log Z of -inf instead of raising an error.
    """

    mask = None  # the candidates are those that the mask allows
    may_be_impossible = False

    def __init__(
        self,
        layout: WeightLayout,
        batch: SequenceBatch,
        candidates: Candidates,
        n_states: Any = None,
        schedule: Schedule | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(Schedule() if schedule is None else schedule, n_jobs)
        self.layout, self.batch, self.candidates, self.n_states = layout, batch, candidates, n_states
        self.n_sequences, self.n_tokens = len(batch), batch.n_tokens
        self.lattice, self.is_limited = build_lattice(layout, batch, candidates, n_states)
        self._deal_out()

    def _deal_out(self) -> None:
        """Group consecutive sequences into chunks that need about the same work."""
        lattice_, schedule = self.lattice, self.schedule
        work = lattice_.entries[lattice_.columns] + 4 * lattice_.steps  # up to each token
        worth = int(work[-1]) // (schedule.work_per_weight * max(self.layout.n_weights, 1))
        n_chunks = int(np.clip(worth, schedule.least_chunks, schedule.most_chunks))
        aims = work[-1] * np.arange(1, n_chunks) // n_chunks
        cuts = np.searchsorted(work[self.batch.offsets], aims)
        cuts = np.unique([0, *cuts.tolist(), self.n_sequences])
        self.chunks = [(int(first), int(stop)) for first, stop in zip(cuts[:-1], cuts[1:], strict=True)]

    def masked(self, mask: Mask | None, may_be_impossible: bool = False) -> LatticePlan:
        """Return the plan of the labellings of the lattice that a mask allows."""
        plan, candidates = copy.copy(self), self.candidates
        if mask is not None and self.is_limited:  # a new limit would keep states that this lattice lacks
            plan.lattice = _without_candidates(self.lattice, ~mask.allowed[candidates.tokens, candidates.labels])
            plan._deal_out()
        elif mask is not None:
            more = self.n_states, self.schedule, self.n_jobs
            plan = LatticePlan(self.layout, self.batch, candidates.allowed_by(mask), *more)
        plan.may_be_impossible = may_be_impossible
        return plan

    @property
    def is_possible(self) -> np.ndarray:
        """Whether the lattice contains a labelling of each sequence; bool of shape (n_sequences,)."""
        n_nodes, is_empty = np.diff(self.lattice.nodes), self.batch.lengths == 0
        return (n_nodes[np.maximum(self.batch.offsets[1:] - 1, 0)] > 0 if len(n_nodes) else False) | is_empty

    def contains(self, codes: np.ndarray) -> np.ndarray:
        """Return whether the candidates and states of each token include those of a labelling; bool of shape (N,)."""
        is_included = self.candidates.contain(codes)
        if self.is_limited:
            automaton, lists = self.layout.automaton, self.lattice
            state = np.empty(len(lists.candidate), np.int32)
            state[lists.target] = automaton.arc_target[lists.arc]
            tokens = np.repeat(np.arange(self.n_tokens), np.diff(lists.nodes))
            wanted = automaton.arc_target[arcs_of_labels(automaton, self.batch.offsets, np.maximum(codes, 0))]
            is_kept = np.zeros(self.n_tokens, bool)
            is_kept[tokens[state[1:] == wanted[tokens]]] = True
            is_included &= is_kept
        return is_included

    def empirical_counts(self, codes: np.ndarray, sequence_weight: np.ndarray) -> np.ndarray:
        """Return the weighted count of each weight's feature in a labelling by candidates; shape (n_weights,)."""
        weight, counts = np.repeat(sequence_weight, self.batch.lengths), np.zeros(self.layout.n_pairs)
        lattice.count_labels(self.lattice, self.candidates.slots(codes), weight, counts)
        automaton = self.layout.automaton
        used = np.bincount(
            arcs_of_labels(automaton, self.batch.offsets, codes), weights=weight, minlength=automaton.n_arcs
        )
        return np.concatenate([counts, self.layout.sum_over_suffixes(used)])

    def tables(self, workspace: Workspace) -> lattice.Tables:
        """Return the tables that a thread fills, in the memory of its workspace."""
        n_nodes = len(self.lattice.candidate)
        n_columns = len(self.lattice.entries) - 1 if len(self.lattice.links) else 0
        sizes = {"scores": len(self.lattice.labels), "columns": n_columns}
        sizes |= {"alpha": n_nodes, "beta": n_nodes, "inverse": self.n_tokens}
        return lattice.Tables(*(workspace(name, size) for name, size in sizes.items()))


def build_lattice(
    layout: WeightLayout, batch: SequenceBatch, candidates: Candidates, n_states: Any = None
) -> tuple[lattice.Lattice, bool]:
    """Return the lattice of a batch, and whether states were dropped; the parameters are as in :class:`LatticePlan`."""
    batch, automaton = as_sparse(batch), layout.automaton
    starts, labels, scores, codes = candidates
    forbidden = np.zeros(automaton.n_arcs, bool)
    forbidden[layout.compiled.forbidden_arcs] = True
    arcs = automaton, automaton.arc_label[automaton.source_arcs], forbidden
    rows = batch.indptr, batch.indices, np.empty(0) if batch.values is None else batch.values
    of_pairs = layout.rank_of_attribute, layout.pairs.starts, layout.pairs.columns
    entries = lattice.Entries._make((*freeze_all(rows, np.int64, np.int32, np.float64), *of_pairs))
    columns, column_ids, links, column = _columns(layout, candidates)
    counts = np.zeros(len(column_ids), np.int64)
    lattice.list_entries(entries, columns, column_ids, counts, None, None)
    ranges = offsets_of(counts)
    pairs = np.empty(int(ranges[-1]), np.uint32)
    values = np.empty(len(pairs) if len(entries.values) else 0)
    lattice.list_entries(entries, columns, column_ids, ranges[:-1].copy(), pairs, values)
    nodes, steps = np.empty(batch.n_tokens + 1, np.int64), np.empty(batch.n_tokens + 1, np.int64)
    most = np.full(batch.n_tokens, automaton.n_states if n_states is None else n_states)
    limits = lattice.Limits(freeze(most, np.int64), scores, codes)
    offsets = freeze(batch.offsets, np.int64)
    *lists, is_limited = lattice.list_steps(*arcs, offsets, starts, labels, limits, nodes, steps)
    candidate, *of_steps = freeze_all(lists, np.uint32)
    ranges, pairs, values = freeze_all((ranges, pairs, values), np.int64, np.uint32, np.float64)
    nodes, steps = freeze_all((nodes, steps), np.int64)
    given = offsets, starts, labels, columns, links, column
    return lattice.Lattice(*given, ranges, pairs, values, nodes, candidate, steps, *of_steps), bool(is_limited)


def _without_candidates(lists: lattice.Lattice, is_out: np.ndarray) -> lattice.Lattice:
    """Return the lattice, with all candidates, but without the paths through those that ``is_out`` marks."""
    there = ~is_out[lists.candidate]
    there[0] = True
    while True:  # at most as often as there are tokens
        goes_on = there[lists.source] & there[lists.target]
        reached = np.zeros(len(there), bool)
        reached[0], reached[lists.target[goes_on]] = True, True
        if np.array_equal(reached, there):
            break
        there = reached
    node_id = offsets_of(there)
    return lists._replace(
        nodes=freeze(node_id[lists.nodes], np.int64),
        candidate=freeze(lists.candidate[there], np.uint32),
        steps=freeze(offsets_of(goes_on)[lists.steps], np.int64),
        source=freeze(node_id[lists.source[goes_on]], np.uint32),
        target=freeze(node_id[lists.target[goes_on]], np.uint32),
        arc=freeze(lists.arc[goes_on], np.uint32),
    )


def _columns(layout: WeightLayout, candidates: Candidates) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return each token's range of score columns, these columns, each candidate's range of links, and the links."""
    starts, labels = candidates.starts, candidates.labels
    if not layout.parts.n_parts:
        return starts, labels, freeze(np.empty(0), np.int64), freeze(np.empty(0), np.uint32)
    tokens, parts = candidates.tokens, Endings(layout.part_links.starts, layout.part_links.ids)
    owner, of_parts = parts.take(labels)
    owner, of_all = np.append(np.arange(len(labels)), owner), np.append(labels, of_parts)
    keys, column = np.unique(tokens[owner] * layout.pairs.n_columns + of_all, return_inverse=True)
    column_token, columns = np.divmod(keys, layout.pairs.n_columns)
    column = column[np.argsort(owner, kind="stable")]
    return (
        group_offsets(column_token, len(starts) - 1),
        freeze(columns, np.int32),
        group_offsets(owner, len(labels)),
        freeze(column, np.uint32),
    )


def _candidate_scores(lists: lattice.Lattice, pair_weights: np.ndarray) -> np.ndarray:
    """Return the scores of all candidates; shape (M,)."""
    terms = pair_weights[lists.pairs] * (lists.values if len(lists.values) else 1.0)
    ranges = [lists.entries, lists.links] if len(lists.links) else [lists.entries]
    for level, bounds in enumerate(ranges):
        if level:  # from columns to the candidates that sum over them
            terms = terms[lists.column]
        terms = np.bincount(np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)), terms, len(bounds) - 1)
    return terms


class LatticePosterior(Posterior):
    """The posterior of a high-order CRF over the lattice of a batch."""

    def _make_plan(self) -> LatticePlan:
        """Return the plan of the lattice whose candidates are the best labels of each token that the mask allows.

        For a sequence without a labelling by these labels, the number of labels per token is doubled until a labelling
        exists.
        """
        finder, layout, batch = self.model.finder, self.model.layout, self.batch
        options = self.model.schedule, self.n_jobs
        n_labels, n_best = layout.patterns.n_labels, np.full(len(batch), finder.n_candidates)
        plan = LatticePlan(layout, batch, finder.find(batch, self.mask), finder.n_states, *options)
        while not plan.is_possible.all():
            short = np.flatnonzero(~plan.is_possible)
            if n_best[short[0]] >= n_labels:
                self.refuse_impossible(short, np.full(len(short), -np.inf))
            n_best[short] = np.minimum(2 * n_best[short], n_labels)
            n_states = None
            if finder.n_states is not None:
                growth = np.where(n_best < n_labels, n_best // finder.n_candidates, layout.automaton.n_states)
                n_states = np.repeat(finder.n_states * growth, batch.lengths)
            candidates = finder.find(batch, self.mask, np.repeat(n_best, batch.lengths))
            plan = LatticePlan(layout, batch, candidates, n_states, *options)
        return plan

    # --- computed by kernels ------------------------------------------------------------------------------------------

    def expectations(self, sequence_weight: np.ndarray | None = None) -> Expectations:
        weight = freeze(np.ones(len(self.batch)) if sequence_weight is None else sequence_weight, np.float64)
        layout, log_z, nothing = self.model.layout, np.zeros(len(self.batch)), np.empty(0)

        def work(*of: Any) -> tuple[np.ndarray, np.ndarray]:
            sums = np.zeros(layout.n_pairs), np.zeros(layout.automaton.n_arcs)
            lattice.expect(*of, log_z, lattice.Sums(weight, *sums, nothing))
            return sums

        sums = self._run(work)
        self._check(log_z)
        if sums is None:
            return Expectations(log_z, np.zeros(layout.n_weights))
        return Expectations(log_z, np.concatenate([sums[0], layout.sum_over_suffixes(sums[1])]))

    def log_z(self) -> np.ndarray:
        log_z, nothing = np.zeros(len(self.batch)), np.empty(0)
        sums = lattice.Sums(freeze(nothing, np.float64), nothing, nothing, nothing)
        self._run(lambda *of: lattice.expect(*of, log_z, sums))
        self._check(log_z)
        return log_z

    def lattice_marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of candidates and of steps; shapes (M,) and (E,)."""
        plan, nothing = self.plan, np.empty(0)
        marginals, steps = np.zeros(len(plan.candidates.labels)), np.zeros(len(plan.lattice.arc))
        starts, offsets = plan.candidates.starts, plan.batch.offsets
        log_z, ones = np.zeros(plan.n_sequences), freeze(np.ones(plan.n_sequences), np.float64)

        def work(lists: lattice.Lattice, kernel_weights: lattice.Weights, chunk: tuple[int, int], tables: Any) -> None:
            lattice.expect(lists, kernel_weights, chunk, tables, log_z, lattice.Sums(ones, nothing, nothing, steps))
            in_chunk = slice(starts[offsets[chunk[0]]], starts[offsets[chunk[1]]])
            marginals[in_chunk] = tables.scores[in_chunk]

        self._run(work)
        self._check(log_z)
        centred = self.centred_unless_small(log_z)
        return (marginals, steps) if centred is self else centred.lattice_marginals()

    def _nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of each node, and of each step given the node that it leaves; shapes (V + 1,), (E,).

        The probabilities of the steps that leave a node sum to 1, even if the node is unlikely. The node before all
        sequences has a probability of 1.
        """
        lists, steps = self.plan.lattice, self.lattice_marginals()[1]
        share = np.bincount(lists.target, steps, len(lists.candidate))
        share[0] = 1.0
        sequences = np.repeat(np.arange(len(self.batch)), np.diff(lists.steps[self.batch.offsets]))
        node = np.where(lists.source > 0, lists.source, len(share) + sequences)  # one before each sequence
        leaving = np.bincount(node, steps)[node]
        return share, np.divide(steps, leaving, out=np.zeros_like(steps), where=leaving > 0)

    def marginals(self) -> np.ndarray:
        candidates = self.plan.candidates
        table = np.zeros((self.batch.n_tokens, self.model.layout.patterns.n_labels))
        table[candidates.tokens, candidates.labels] = self.lattice_marginals()[0]
        return np.divide(table, table.sum(axis=1, keepdims=True), out=table)

    def pattern_marginals(self, patterns: Sequence[Sequence[int]]) -> np.ndarray:
        lists, (share, conditional) = self.plan.lattice, self._nodes()
        table, label = np.empty((self.batch.n_tokens, len(patterns))), np.full(len(share), -1)
        label[1:] = lists.labels[lists.candidate[1:]]
        tokens = np.repeat(np.arange(self.batch.n_tokens), np.diff(lists.nodes))
        for column, (first, *others) in enumerate(patterns):
            path = np.where(label == first, share, 0.0)  # probability of the pattern so far, by last node
            for code in others:
                path = np.bincount(lists.target, path[lists.source] * conditional, len(path))
                path[label != code] = 0.0
            table[:, column] = np.bincount(tokens, path[1:], len(table))
        return np.minimum(table, 1.0)

    def log_z_and_slope(self, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_z, lists, offsets = self.log_z(), self.plan.lattice, self.batch.offsets
        moving = LatticeModel(self.model.layout, direction)
        candidates, steps = self.lattice_marginals()
        terms = candidates * _candidate_scores(lists, moving.pair_weights)
        of_steps = np.where(steps > 0, steps * moving.weighted_arcs.arc_score[lists.arc], 0.0)
        slope = self._by_sequence(terms, lists.starts[offsets]) + self._by_sequence(of_steps, lists.steps[offsets])
        return log_z, slope

    def _best(self) -> tuple[np.ndarray, np.ndarray]:
        best, codes = np.zeros(len(self.batch)), np.zeros(self.batch.n_tokens, np.int32)
        self._run(lambda *of: lattice.decode(*of, best, codes))
        self._check(best)
        return codes, best

    def best_labellings(self, n_best: int) -> BestLabellings:
        best = BestLabellings.empty(n_best, self.batch)
        self._run(lambda *of: lattice.best_labellings(*of, best.score, best.codes, best.regret))
        self._check(best.score)
        return best

    def draw(self, n_drawn: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        codes = np.zeros((self.batch.n_tokens, n_drawn), np.int32)
        lattice.draw(self.plan.lattice, self._nodes()[1], np.random.default_rng(seed).random(codes.shape), codes)
        return codes, np.ones((0, n_drawn), np.int32)

    def entropy(self) -> np.ndarray:
        lists, (share, conditional) = self.plan.lattice, self._nodes()
        logs = np.log(conditional, out=np.zeros_like(conditional), where=conditional > 0)
        return self._by_sequence(share[lists.source] * conditional * -logs, lists.steps[self.batch.offsets])

    def log_score(self, labelling: np.ndarray) -> np.ndarray:
        is_pruned, scores = ~self.plan.contains(labelling), super().log_score(labelling)
        scores[np.diff(offsets_of(is_pruned)[self.batch.offsets]) > 0] = -np.inf
        return scores

    def _run(self, work: Callable[..., tuple | None]) -> tuple | None:
        """Return the sums of the results of ``work``.

        ``work`` is called with the lattice, the weights, each chunk and the tables of a thread.
        """
        plan, kernel_weights = self.plan, self.model.kernel_weights
        if self.shift is not None:
            kernel_weights = kernel_weights._replace(shift=freeze(self.shift, np.float64))
        return plan.add_up(
            lambda chunk, workspace: work(plan.lattice, kernel_weights, chunk, plan.tables(workspace)) or ()
        )

    def _check(self, scores: np.ndarray) -> None:
        """Raise an error unless the ``scores`` of all sequences, which are log Z or best scores, are valid."""
        bad = ~np.isfinite(scores)
        if self.plan.may_be_impossible:
            bad &= scores != -np.inf
        self.refuse_impossible(np.flatnonzero(bad), scores[bad])

    # --- computed by the model with all labels, given the candidates --------------------------------------------------

    @property
    def exact(self) -> ChainPosterior:
        """The posterior of the model with all labels, with a mask that allows only the candidates."""
        plan = self.plan
        if plan.is_limited:  # the lattice lacks states, which no mask can express
            raise ValueError(
                "this method needs all states that the candidates lead to, but pruning has dropped some: train with "
                "a larger number in pruning, or with a lower max_order"
            )
        mask = plan.candidates.mask(plan.layout.patterns.n_labels)
        exact = self.model.exact.posterior(self.batch, mask, self.n_jobs)
        exact.shift = self.shift
        return exact.with_plan(exact.plan.masked(exact.mask, True)) if plan.may_be_impossible else exact

    def hessian_vector_product(self, direction: np.ndarray, sequence_weight: np.ndarray | None = None) -> np.ndarray:
        return self.exact.hessian_vector_product(direction, sequence_weight)

    def segment_marginals(self, threshold: float, tags: Tags | None = None) -> tuple[Segments, np.ndarray]:
        return self.exact.segment_marginals(threshold, tags)

    def segment_probabilities(self, segments: Segments, tags: Tags | None = None) -> np.ndarray:
        return self.exact.segment_probabilities(segments, tags)

    def is_possible(self) -> np.ndarray:
        return self.model.exact.posterior(self.batch, self.mask).is_possible()

    def narrowed(self) -> LatticePosterior:
        return self.model.posterior(self.batch, self.exact.mask, self.n_jobs)


class LatticeModel(Model):
    """A high-order CRF whose labellings are paths through lattices.

    Parameters
    ----------
    layout : WeightLayout
        A layout whose features are paired only with single labels.
    weights : ndarray of shape (n_weights,)
    finder : CandidateFinder or None
        The finder of the candidate labels of a batch; None if the caller passes plans.
    schedule : Schedule or None
        The sizes that determine the number of chunks.
    """

    plan_class, posterior_class = LatticePlan, LatticePosterior

    def __init__(
        self,
        layout: WeightLayout,
        weights: np.ndarray,
        finder: CandidateFinder | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(layout, weights, np.empty((0, 0)), schedule)
        self.finder = finder
        arcs = self.weighted_arcs
        nothing = freeze(np.empty(0), np.float64)
        self.kernel_weights = lattice.Weights(
            self.pair_weights, arcs.arc_score, arcs.arc_weight, arcs.log_shift, bool(self.scales), nothing
        )

    @cached_property
    def exact(self) -> ChainModel:
        """The model with all labels."""
        return ChainModel(self.layout, self.weights)

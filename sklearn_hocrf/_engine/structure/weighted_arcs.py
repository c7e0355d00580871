"""Compiled label patterns, and the arcs of their automaton as arrays for kernels.

The *structure* of arcs depends on patterns and score columns, and is computed once per layout; the scores of arcs are
computed for each weight vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..._data.arrays import freeze, freeze_all, group_offsets, joined_ranges
from ..kernels import chain
from .automaton import PatternAutomaton, automaton_with_arcs, build_automaton, longer_arcs, with_last_arcs
from .patterns import SEGMENTS, PatternTable, Runs, checked_forbidden, has_equal_neighbours, pairs_of_equals
from .sum_network import SumNetwork, build_sum_network

_NO_SCORES = freeze(np.empty(0), np.float64)


class CompiledPatterns(NamedTuple):
    """Label patterns, and the objects that depend on them alone, which layouts with the same patterns share."""

    patterns: PatternTable
    automaton: PatternAutomaton
    network: SumNetwork
    forbidden_arcs: np.ndarray  # int32   arcs that end with a forbidden run; their score is -inf
    longer_arcs: tuple  # of ndarray: the arcs of two labels, of three labels, and so on


def compile_patterns(patterns: PatternTable, forbidden: Runs = (), repeats: bool = True) -> CompiledPatterns:
    """Check patterns and compile them.

    Parameters
    ----------
    patterns : PatternTable
        Patterns that have weights. Those that contain a forbidden run never occur.
    forbidden : iterable of tuples of int
        Runs of two or more label codes that must not occur, whether they are patterns or not. With a history of
        segments, a run consists of labels of successive segments, or is a pair of labels of successive tokens.
    repeats : bool
        Whether a label may follow itself.

    Raises
    ------
    ValueError
        If the patterns are not a valid table of ``_engine.structure.patterns``, or a forbidden run is invalid.
    """
    patterns = PatternTable(*patterns).checked()
    n_labels = patterns.n_labels
    forbidden = forbidden if repeats else (*forbidden, *pairs_of_equals(n_labels))
    runs = _without_longer(checked_forbidden(forbidden, n_labels))
    if patterns.history == SEGMENTS and any(map(has_equal_neighbours, runs)):
        raise ValueError("forbidden runs of three or more segments must not have equal neighbours")
    if runs:
        automaton, network, forbidden_arcs = _closed(*automaton_with_arcs(patterns, runs, n_labels))
    else:
        automaton, forbidden_arcs = build_automaton(patterns, n_labels), np.empty(0)
        network = build_sum_network(automaton)
    longer = longer_arcs(automaton.arc_length)
    return CompiledPatterns(patterns, automaton, network, freeze(forbidden_arcs, np.int32), longer)


def _closed(automaton: PatternAutomaton, is_forbidden: np.ndarray) -> tuple[PatternAutomaton, SumNetwork, np.ndarray]:
    """Exclude forbidden arcs from the passes; return the automaton, its network, and the forbidden arcs.

    Kernels need forbidden arcs if one of these is the arc of a pattern, whose marginals may be requested, or if all
    arcs into or out of a state are forbidden. In both cases, all forbidden arcs stay in the passes.
    """
    if not (is_forbidden & (automaton.arc_pattern >= 0)).any():
        closed = with_last_arcs(automaton, is_forbidden)
        if (np.diff(closed.into[1:]) > 0).all():
            network = build_sum_network(closed)
            if (np.diff(network.back_starts)[-closed.n_states :] > 0).all():
                return closed, network, np.arange(closed.n_open, closed.n_arcs)
    return automaton, build_sum_network(automaton), np.flatnonzero(is_forbidden)


def _without_longer(runs: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the runs that do not contain another run; the runs must be sorted by length."""
    shortest: set = set()
    lengths = sorted({len(run) for run in runs})
    for run in runs:
        parts = (run[i : i + n] for n in lengths if n < len(run) for i in range(len(run) - n + 1))
        if not any(part in shortest for part in parts):
            shortest.add(run)
    return [run for run in runs if run in shortest]


class WeightedArcs(NamedTuple):
    """The automaton, its sum network, and the scores of arcs.   L labels, P states, A arcs, Q varying arcs.

    The score of a *varying* arc depends on the position, because a score column changes the score of the arc or of one
    of its suffixes. The ``arc_structure`` of a layout contains no scores, because scores depend on the weights. Kernels
    read the structure and the scores from one flat tuple.
    """

    n_labels: int  # the first eight fields are those of PatternAutomaton
    fail: np.ndarray  # (P,) int32
    state_label: np.ndarray  # (P,) int32
    into: np.ndarray  # (P + 1,) int64   range of the arcs into each state
    outgoing: np.ndarray  # (P + 1,) int64   range, in source_arcs, of the arcs that leave each state
    source_arcs: np.ndarray  # (A,) int32
    arc_label: np.ndarray  # (A,) int32
    arc_target: np.ndarray  # (A,) int32
    arc_value: np.ndarray  # these five fields are those of SumNetwork
    starts: np.ndarray
    terms: np.ndarray
    back_starts: np.ndarray
    back_terms: np.ndarray
    arc_varying: np.ndarray  # (A,) int32   -1 for arcs of constant score
    varying_arc: np.ndarray  # (Q,) int32   shortest arcs first
    varying_suffix: np.ndarray  # (Q,) int32   index of the arc's longest proper suffix among the varying arcs, or -1
    varying_column: np.ndarray  # (Q,) int32   score column of the arc's own pattern, or -1
    arc_score: np.ndarray = _NO_SCORES  # (A,) float64   constant part: biases of suffix patterns; -inf: forbidden
    arc_weight: np.ndarray = _NO_SCORES  # (A,) float64   exp(arc_score - log_shift)
    log_shift: float = 0.0  # highest arc score
    arc_score_derivative: np.ndarray = _NO_SCORES  # (A,) float64   along a direction of the weights, for dual numbers
    arc_weight_derivative: np.ndarray = _NO_SCORES  # (A,) float64


class ArcLayout:
    """The part of a layout on which the scores of arcs depend.

    Attributes
    ----------
    compiled : CompiledPatterns
    arc_structure : WeightedArcs
        The arrays of the automaton for kernels, without scores.
    bias_pattern : ndarray of int
        Patterns with a bias, ascending.
    first_bias : int
        Index of the first weight that is a bias.
    """

    compiled: CompiledPatterns
    arc_structure: WeightedArcs
    bias_pattern: np.ndarray
    first_bias: int

    @property
    def automaton(self) -> PatternAutomaton:
        return self.compiled.automaton

    @property
    def n_varying(self) -> int:
        """Number of arcs whose scores depend on the position."""
        return len(self.arc_structure.varying_arc)


class ArcColumns(NamedTuple):
    """The score columns of the patterns that are suffixes of each arc, and of the parts of its label.   A arcs."""

    starts: np.ndarray  # (A + 1,) int64
    columns: np.ndarray  # int32   ascending for each arc


def arc_structure(compiled: CompiledPatterns, column_of_arc: np.ndarray) -> WeightedArcs:
    """Return the structure for kernels; ``column_of_arc`` is the column of each arc's own pattern, or -1."""
    automaton = compiled.automaton
    of_automaton = [getattr(automaton, name) for name in WeightedArcs._fields[:8]]
    fields: Any = *of_automaton, *compiled.network, *_varying_arcs(automaton, column_of_arc)
    return WeightedArcs(*fields)


def arc_columns(
    automaton: PatternAutomaton, column_of_arc: np.ndarray, part_starts: np.ndarray, part_columns: np.ndarray
) -> ArcColumns:
    """Return the score columns of each arc's suffixes and of its label's parts, ascending.

    ``column_of_arc`` is as in :func:`arc_structure`; ranges and columns of parts are as in :class:`PartLinks`.
    """
    n_arcs = len(column_of_arc)
    arcs, suffix = np.arange(n_arcs), np.arange(n_arcs)
    pairs = []
    while len(arcs):
        has_column = column_of_arc[suffix] >= 0
        pairs.append(np.stack([arcs[has_column], column_of_arc[suffix[has_column]]]))
        shorter = automaton.arc_suffix[suffix]
        arcs, suffix = arcs[shorter >= 0], shorter[shorter >= 0]
    first, stop = part_starts[automaton.arc_label], part_starts[automaton.arc_label + 1]
    pairs.append(np.stack([np.repeat(np.arange(n_arcs), stop - first), part_columns[joined_ranges(first, stop)]]))
    owner, columns = np.concatenate(pairs, axis=1)
    order = np.lexsort((columns, owner))
    return ArcColumns(group_offsets(owner, n_arcs), freeze(columns[order], np.int32))


def weighted_arcs(layout: ArcLayout, weights: np.ndarray, direction: np.ndarray | None = None) -> WeightedArcs:
    """Return a layout's arcs with their scores, and the derivatives of the scores along a direction of the weights.

    Parameters
    ----------
    layout : ArcLayout
    weights : ndarray of shape (n_weights,)
    direction : ndarray of shape (n_weights,) or None
        None means zeros.
    """
    biases = bias_of_arc(layout)
    scores = np.append(weights[layout.first_bias :], 0.0)[biases]
    scores[layout.compiled.forbidden_arcs] = -np.inf
    _add_suffixes(layout.compiled, scores)
    derivative = np.zeros(len(scores))
    if direction is not None:
        derivative = np.append(direction[layout.first_bias :], 0.0)[biases]
        _add_suffixes(layout.compiled, derivative)
    return _with_scores(layout.arc_structure, scores, derivative)


def given_arcs(n_labels: int, structure: tuple, score: np.ndarray) -> WeightedArcs:
    """Return the arcs of an existing automaton, with scores that do not depend on the position.

    Parameters
    ----------
    n_labels : int
    structure : tuple of ndarray
        ``state_length``, ``fail``, ``arc_source``, ``arc_label`` and ``arc_target``, as in :class:`PatternAutomaton`.
    score : ndarray of shape (A,)
    """
    length, fail, *of_arcs = structure
    order = np.argsort(of_arcs[-1], kind="stable")
    source, label, target = (array[order] for array in of_arcs)
    state_label, none = np.full(len(fail), -1), np.full(len(order), -1)
    state_label[target] = label
    arrays = state_label, length, fail, source, label, target, none, length[source] + 1, none, none[:0]
    ranges = group_offsets(target, len(fail)), group_offsets(source, len(fail))
    tables: Any = *freeze_all(arrays, np.int32), *ranges, freeze(np.argsort(source, kind="stable"), np.int32)
    automaton, no_table = PatternAutomaton(n_labels, *tables), np.empty((0, 1))
    compiled = CompiledPatterns(PatternTable(no_table, none[:0]), automaton, build_sum_network(automaton), none[:0], ())
    return _with_scores(arc_structure(compiled, none), score[order], np.zeros(len(order)))


def _with_scores(structure: WeightedArcs, scores: np.ndarray, derivative: np.ndarray) -> WeightedArcs:
    log_shift = scores.max() if scores.max() > -np.inf else 0.0
    arc_weight = np.exp(scores - log_shift)
    arrays = scores, arc_weight, derivative, derivative * arc_weight
    scores, arc_weight, *derivatives = freeze_all(arrays, np.float64)
    return WeightedArcs._make((*structure[:-5], scores, arc_weight, float(log_shift), *derivatives))


def log_spread(layout: ArcLayout, arcs: WeightedArcs) -> float:
    """Return a bound on the logarithm of max beta / min beta over all states, at any position; inf if unknown.

    If the automaton reads the same labels from two states, the emissions are the same, and the arc scores differ for at
    most as many tokens as the longest pattern has labels. After these tokens, both paths are in the same state, or both
    continue a segment of the same label.
    """
    if layout.n_varying or len(layout.compiled.forbidden_arcs):
        return np.inf
    high, low = np.full(arcs.n_labels, -np.inf), np.full(arcs.n_labels, np.inf)
    np.maximum.at(high, arcs.arc_label, arcs.arc_score)
    np.minimum.at(low, arcs.arc_label, arcs.arc_score)
    return float((high - low).max() * layout.compiled.patterns.labels.shape[1])


def arcs_of_labels(automaton: PatternAutomaton, offsets: ArrayLike, codes: np.ndarray) -> np.ndarray:
    """Return the arc that each token uses when the sequences are labelled with ``codes``; shape (N,), int32."""
    arcs = np.empty(len(codes), dtype=np.int32)
    chain.label_arcs(automaton, *freeze_all((offsets, codes), np.int64, np.int32), arcs)
    return arcs


def suffix_patterns(automaton: PatternAutomaton, arcs: np.ndarray, order: int) -> np.ndarray:
    """Return, for each arc, the pattern of the given order that ends where the arc is used, or -1."""
    while (longer := automaton.arc_length[arcs] > order + 1).any():
        arcs = np.where(longer, automaton.arc_suffix[arcs], arcs)
    return np.where(automaton.arc_length[arcs] == order + 1, automaton.arc_pattern[arcs], -1)


def arcs_with_suffix(automaton: PatternAutomaton, is_chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number the open arcs that have a chosen suffix, shortest arcs first; no arc of a single label may be chosen.

    The result consists of each arc's number, or -1; the numbered arcs; and the number of each numbered arc's longest
    proper suffix, or -1.
    """
    chosen = is_chosen.copy()
    for arcs in longer_arcs(automaton.arc_length):
        chosen[arcs] |= chosen[automaton.arc_suffix[arcs]]
    arcs = np.flatnonzero(chosen[: automaton.n_open])
    arcs = arcs[np.argsort(automaton.arc_length[arcs], kind="stable")]
    index = np.full(len(is_chosen), -1)
    index[arcs] = np.arange(len(arcs))
    return index, arcs, index[automaton.arc_suffix[arcs]]


def _varying_arcs(automaton: PatternAutomaton, column_of_arc: np.ndarray) -> tuple:
    """Return arc_varying, varying_arc, varying_suffix and varying_column; see :class:`WeightedArcs`."""
    column = np.where(automaton.arc_length > 1, column_of_arc, -1)  # columns of single labels give emissions
    arc_varying, varying_arc, varying_suffix = arcs_with_suffix(automaton, column >= 0)
    return freeze_all((arc_varying, varying_arc, varying_suffix, column[varying_arc]), np.int32)


def bias_of_arc(layout: ArcLayout) -> np.ndarray:
    """Return the index of the bias of each arc's own pattern, or -1; several arcs may have the same pattern."""
    of_pattern = np.full(len(layout.automaton.pattern_arc) + 1, -1)  # the last: arcs without a pattern
    of_pattern[layout.bias_pattern] = np.arange(len(layout.bias_pattern))
    return of_pattern[layout.automaton.arc_pattern]


def _add_suffixes(compiled: CompiledPatterns, scores: np.ndarray) -> None:
    """Add to the score of each arc the scores of its proper suffixes, in place."""
    for arcs in compiled.longer_arcs:
        scores[arcs] += scores[compiled.automaton.arc_suffix[arcs]]

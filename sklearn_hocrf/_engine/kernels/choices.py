"""Choices of the next label, and their uses: best labellings, random labellings, and entropies.

At each boundary of a labelling, the automaton is in a state, and the next label (for segments, the next label and
length) is one of the *choices* of this state. The score of a choice is the score of the label or segment plus ``beta``,
the score of the best continuation, or of all continuations together. Choices are sorted by label, then by length. With
``index=None``, the labels are those of tokens, not of segments.

    best labellings   by regret (35): each labelling deviates from a better one by a choice that is not the best
    samples           random walks that take each choice with its probability (36)
    entropy           the sum, over boundaries and states, of P(state) times the entropy of its choices (37)

Equation numbers refer to docs/develop/theory.md.

All scores are logarithms; the score of an impossible choice is -inf. Shapes: B blocks, W lanes, R rows (positions of
all blocks), C score columns, E cells of segment scores, P states, Q varying arcs, L labels, K most choices, N tokens, S
sequences.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import resolve


class ChoiceTables(NamedTuple):
    """The log scores of a tile, and the arcs of its model."""

    width: int  # C, or E for segments
    scores: np.ndarray  # (R * C, W)   of labels; for segments (R * E, W), of the segments that end with each row
    varying: np.ndarray  # (R * Q, W)   of the varying arcs
    beta: np.ndarray  # ((R + B) * P, W)   of the continuations after each boundary
    arcs: np.ndarray  # (P, L) int32   the arcs that each state uses; written when the state is first met
    met: np.ndarray  # (P,) bool


class Slot(NamedTuple):
    """The block, lane and rows of a sequence in a tile."""

    block: int
    lane: int
    row: int  # of its first token
    length: int


class Choices(NamedTuple):
    """The choices at one boundary."""

    score: np.ndarray  # (K,)
    label: np.ndarray  # (K,) int32
    length: np.ndarray  # (K,) int32
    target: np.ndarray  # (K,) int32   state at the next boundary


class BestChoices(NamedTuple):
    """The best choices found so far at the boundaries of a sequence.   Shapes: T tokens."""

    label: np.ndarray  # (T, P) int32   of the best choice, -1 if it has not been computed
    length: np.ndarray  # (T, P) int32
    gap: np.ndarray  # (T, P)   between the scores of the best choice and the second best


class Deviations(NamedTuple):
    """Labellings to be written; each deviates at one choice from an earlier labelling.   Shapes: M labellings."""

    regret: np.ndarray  # (M,)
    parent: np.ndarray  # (M,) int32   index of the labelling from which it deviates
    position: np.ndarray  # (M,) int64   of the deviation
    label: np.ndarray  # (M,) int32
    length: np.ndarray  # (M,) int32


class Search(NamedTuple):
    """The labelling that ``_follow`` writes.   Shapes: n wanted labellings, N tokens of the batch."""

    found: int  # index of the labelling
    n_pending: int  # number of pending deviations; this labelling's deviation is stored after them
    first: int  # first token of the sequence
    codes: np.ndarray  # (n, N) int32
    lengths: np.ndarray  # (n, N) int32
    choices: Choices
    known: BestChoices
    pending: Deviations


@njit(cache=True, nogil=True, error_model="numpy")
def empty_choices(size):
    """Return memory for up to ``size`` choices at a boundary."""
    return Choices(np.empty(size), np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32))


@njit(cache=True, nogil=True, error_model="numpy")
def _most_choices(weighted_arcs, index):
    """Return the largest number of choices at a boundary."""
    if index is None:
        return weighted_arcs.n_labels
    return weighted_arcs.n_labels * index.longest.max()


@njit(cache=True, nogil=True, error_model="numpy")
def _longest(tile):
    """Return the length of the longest sequence of a tile."""
    longest = 0
    for block in range(len(tile.length)):
        longest = max(longest, tile.rows[block + 1] - tile.rows[block])
    return longest


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def slot_of(tile, block, lane):
    """Return the slot of the sequence in a lane."""
    return Slot(block, lane, tile.rows[block], tile.length[block, lane])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def meet(weighted_arcs, arcs, met, state):
    """Write the arcs that a state uses to ``arcs`` (P, L), unless ``met`` (P,) shows that they have been written."""
    if not met[state]:
        outgoing, source_arcs = weighted_arcs.outgoing, weighted_arcs.source_arcs
        resolve(outgoing, source_arcs, weighted_arcs.arc_label, weighted_arcs.fail, np.int64(state), arcs[state])
        met[state] = True


@njit(cache=True, nogil=True, error_model="numpy")
def list_choices(weighted_arcs, index, tables, slot, position, state, choices):
    """Write the possible choices at a boundary, and return their number."""
    if index is None:
        return list_labels(weighted_arcs, tables, slot, position, state, choices)
    return _list_segments(weighted_arcs, index, tables, slot, position, state, choices)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def list_labels(weighted_arcs, tables, slot, position, state, choices):
    n_states, n_varying = len(weighted_arcs.fail), len(weighted_arcs.varying_arc)
    arc_target, arc_varying, arc_score = weighted_arcs.arc_target, weighted_arcs.arc_varying, weighted_arcs.arc_score
    width, scores, varying_scores, beta, arcs, met = tables
    score_of, label_of, length_of, target_of = choices
    # not the literal 0, for which numba would compile another version of the callers
    row, lane, n_choices = slot.row + position, slot.lane, np.int64(0)
    after = (row + slot.block + 1) * n_states
    meet(weighted_arcs, arcs, met, state)
    for label in range(weighted_arcs.n_labels):
        arc = arcs[state, label]
        target, varying = arc_target[arc], arc_varying[arc]
        score = arc_score[arc] + scores[row * width + label, lane]
        if varying >= 0:
            score += varying_scores[row * n_varying + varying, lane]
        score += beta[after + target, lane]
        if score > -np.inf:
            score_of[n_choices], label_of[n_choices] = score, label
            length_of[n_choices], target_of[n_choices] = 1, target
            n_choices += 1
    return n_choices


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _list_segments(weighted_arcs, index, tables, slot, position, state, choices):
    n_states, n_varying = len(weighted_arcs.fail), len(weighted_arcs.varying_arc)
    arc_target, arc_varying, arc_score = weighted_arcs.arc_target, weighted_arcs.arc_varying, weighted_arcs.arc_score
    width, scores, varying_scores, beta, arcs, met = tables
    longest, first_cell, arc_span = index.longest, index.first_cell, index.arc_span
    span_scored, span_suffix = index.span_scored, index.span_suffix
    score_of, label_of, length_of, target_of = choices
    row, lane, n_choices = slot.row + position, slot.lane, np.int64(0)
    meet(weighted_arcs, arcs, met, state)
    for label in range(weighted_arcs.n_labels):
        arc = arcs[state, label]
        border = arc_score[arc]
        target, varying = arc_target[arc], arc_varying[arc]
        if varying >= 0:
            border += varying_scores[row * n_varying + varying, lane]
        for d in range(1, min(longest[label], slot.length - position) + 1):
            first = (row + d - 1) * width + d - 1
            score = border + scores[first + first_cell[label], lane]
            span = arc_span[arc]
            while span >= 0:  # the scored patterns with which the arc ends
                scored = span_scored[span]
                if scored >= 0:
                    score += scores[first + first_cell[scored], lane]
                span = span_suffix[span]
            score += beta[(row + d + slot.block) * n_states + target, lane]
            if score > -np.inf:
                score_of[n_choices], label_of[n_choices] = score, label
                length_of[n_choices], target_of[n_choices] = d, target
                n_choices += 1
    return n_choices


@njit(cache=True, nogil=True, error_model="numpy")
def best_labellings(weighted_arcs, index, tile, sequences, tables, codes, lengths, regret):
    """Find the n labellings of each sequence with the highest scores, best first.

    sequences : (B, W) int64   index of each lane's sequence, -1 for empty lanes
    tables : ``ChoiceTables``   beta of best continuations
    codes, lengths : (n, N) int32   out: labels of tokens, and lengths of the segments that start with them, or 0
    regret : (n, S)   out: the highest score minus that of each labelling; not written beyond the number of possible
        labellings
    """
    n_wanted, n_states, longest = len(codes), len(weighted_arcs.fail), _longest(tile)
    known = BestChoices(
        np.empty((longest, n_states), np.int32), np.empty((longest, n_states), np.int32), np.empty((longest, n_states))
    )
    pending = Deviations(
        np.empty(n_wanted),
        np.empty(n_wanted, np.int32),
        np.empty(n_wanted, np.int64),
        np.empty(n_wanted, np.int32),
        np.empty(n_wanted, np.int32),
    )
    choices = empty_choices(_most_choices(weighted_arcs, index))
    for block in range(len(tile.length)):
        for lane in range(sequences.shape[1]):
            sequence = sequences[block, lane]
            if sequence < 0:
                continue
            slot, first = slot_of(tile, block, lane), tile.first_token[block, lane]
            for position in range(slot.length):
                for state in range(n_states):
                    known.label[position, state] = -1
            pending.regret[0], pending.parent[0], pending.position[0] = 0.0, -1, -1
            n_pending = 1
            for rank in range(n_wanted):
                if n_pending == 0:
                    break
                n_pending -= 1
                _move_best_to_end(pending, n_pending)
                regret[rank, sequence] = pending.regret[n_pending]
                search = Search(rank, n_pending, first, codes, lengths, choices, known, pending)
                n_pending = _follow(weighted_arcs, index, tables, slot, search)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _follow(weighted_arcs, index, tables, slot, search):
    """Write the labelling of the deviation that is stored after the pending ones, and add the deviations from it.

    The regret of a deviation is final, so the kernel keeps only as many deviations as there are labellings left to
    find. Return the number of pending deviations.
    """
    codes, lengths, choices, known, pending = search.codes, search.lengths, search.choices, search.known, search.pending
    rank, n_pending, first, scores = search.found, search.n_pending, search.first, choices.score
    wanted = len(codes) - rank - 1
    parent, departure, regret = pending.parent[n_pending], pending.position[n_pending], pending.regret[n_pending]
    label, length = pending.label[n_pending], pending.length[n_pending]
    state, position = 0, 0
    while position < departure:  # the same as in the parent labelling
        token = first + position
        codes[rank, token], lengths[rank, token] = codes[parent, token], lengths[parent, token]
        if lengths[parent, token] > 0:
            state = weighted_arcs.arc_target[tables.arcs[state, codes[parent, token]]]
        position += 1
    if departure >= 0:
        state = weighted_arcs.arc_target[tables.arcs[state, label]]
        _write_segment(codes, lengths, rank, first + position, label, length)
        position += length
    limit = _limit(pending, n_pending, wanted)
    while position < slot.length:
        if known.label[position, state] < 0 or regret + known.gap[position, state] < limit:
            n_choices = list_choices(weighted_arcs, index, tables, slot, position, state, choices)
            best = 0
            for choice in range(1, n_choices):
                if scores[choice] > scores[best]:
                    best = choice
            gap = np.inf
            for choice in range(n_choices):
                loss = scores[best] - scores[choice]
                if choice != best:
                    gap = min(gap, loss)
                    if regret + loss < limit:
                        other, other_length = choices.label[choice], choices.length[choice]
                        _push(pending, n_pending, wanted, regret + loss, rank, position, other, other_length)
                        n_pending = min(n_pending + 1, wanted)
                        limit = _limit(pending, n_pending, wanted)
            known.label[position, state], known.length[position, state] = choices.label[best], choices.length[best]
            known.gap[position, state] = gap
        next_label, next_length = known.label[position, state], known.length[position, state]
        _write_segment(codes, lengths, rank, first + position, next_label, next_length)
        state = weighted_arcs.arc_target[tables.arcs[state, next_label]]
        position += next_length
    return n_pending


@njit(cache=True, nogil=True, error_model="numpy")
def _write_segment(codes, lengths, labelling, first, label, length):
    """Write a segment, or a token's label, to a labelling; ``first`` is the segment's first token."""
    for token in range(first, first + length):
        codes[labelling, token], lengths[labelling, token] = label, 0
    lengths[labelling, first] = length


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _limit(pending, n_pending, wanted):
    """Return a limit: a further deviation is kept only if its regret is lower."""
    if n_pending < wanted:
        return np.inf
    return pending.regret[_worst(pending.regret, n_pending)] if wanted > 0 else -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _worst(regret, n_pending):
    worst = 0
    for slot in range(1, n_pending):
        if regret[slot] > regret[worst]:
            worst = slot
    return worst


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _push(pending, n_pending, wanted, regret, parent, position, label, length):
    """Add a deviation; replace the worst one if there are already as many as wanted."""
    slot = n_pending if n_pending < wanted else _worst(pending.regret, n_pending)
    pending.regret[slot], pending.parent[slot], pending.position[slot] = regret, parent, position
    pending.label[slot], pending.length[slot] = label, length


@njit(cache=True, nogil=True, error_model="numpy")
def _move_best_to_end(pending, last):
    """Swap the deviation of least regret with the last one; ties go to the last position, then to the lowest label."""
    best = 0
    for slot in range(1, last + 1):
        less = pending.regret[slot] - pending.regret[best]
        deeper = pending.position[slot] - pending.position[best]
        lower = pending.label[best] - pending.label[slot]
        if less < 0.0 or (less == 0.0 and (deeper > 0 or (deeper == 0 and lower > 0))):
            best = slot
    pending.regret[best], pending.regret[last] = pending.regret[last], pending.regret[best]
    pending.parent[best], pending.parent[last] = pending.parent[last], pending.parent[best]
    pending.position[best], pending.position[last] = pending.position[last], pending.position[best]
    pending.label[best], pending.label[last] = pending.label[last], pending.label[best]
    pending.length[best], pending.length[last] = pending.length[last], pending.length[best]


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(choices, n_choices):
    """Turn the scores of choices into weights, exp(score - highest); return two sums for entropies and probabilities.

    The first is the sum of all weights except that of the best choice, which is 1. The second is the sum of each weight
    times (highest - score); it is not divided by the sum of the weights.
    """
    scores, top = choices.score, 0
    for choice in range(1, n_choices):
        if scores[choice] > scores[top]:
            top = choice
    highest, others, spread = scores[top], 0.0, 0.0
    for choice in range(n_choices):
        below = highest - scores[choice]
        scores[choice] = np.exp(-below)
        if choice != top:
            others += scores[choice]
            spread += scores[choice] * below
    return others, spread


@njit(cache=True, nogil=True, error_model="numpy")
def draw_labellings(weighted_arcs, index, tile, sequences, tables, uniform, codes, lengths):
    """Draw n labellings of each sequence.

    sequences : (B, W) int64   index of each lane's sequence, -1 for lanes to skip
    tables : ``ChoiceTables``   beta of all continuations
    uniform : (R * W, n)   random numbers in [0, 1)
    codes, lengths : (N, n) int32   out; the lengths only for segments
    """
    n_lanes, choices = sequences.shape[1], empty_choices(_most_choices(weighted_arcs, index))
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            if sequences[block, lane] < 0:
                continue
            slot, first = slot_of(tile, block, lane), tile.first_token[block, lane]
            for sample in range(uniform.shape[1]):
                state, position = 0, 0
                while position < slot.length:  # (36)
                    n_choices = list_choices(weighted_arcs, index, tables, slot, position, state, choices)
                    choice = _drawn(choices, n_choices, uniform[(slot.row + position) * n_lanes + lane, sample])
                    label, length = choices.label[choice], choices.length[choice]
                    if index is None:
                        codes[first + position, sample] = label
                    else:
                        for token in range(first + position, first + position + length):
                            codes[token, sample], lengths[token, sample] = label, 0
                        lengths[first + position, sample] = length
                    state, position = choices.target[choice], position + length


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _drawn(choices, n_choices, uniform):
    """Return the first choice whose cumulative probability exceeds ``uniform``; the most probable choice is first."""
    weigh(choices, n_choices)
    total, top = 1.0, 0
    for choice in range(n_choices):
        if choices.score[choice] > choices.score[top]:
            top = choice
    for choice in range(n_choices):
        if choice != top:
            total += choices.score[choice]
    sought, total, last = uniform * total, 1.0, top
    for choice in range(n_choices):
        if total > sought:
            break
        if choice != top:
            total, last = total + choices.score[choice], choice
    return last


@njit(cache=True, nogil=True, error_model="numpy")
def entropies(weighted_arcs, index, tile, sequences, tables, entropy):
    """Compute the entropy of the labellings of each sequence, in nats.

    sequences : (B, W) int64   index of each lane's sequence, -1 for lanes to skip
    tables : ``ChoiceTables``   beta of all continuations
    entropy : (S,)   out
    """
    n_states, choices = len(weighted_arcs.fail), empty_choices(_most_choices(weighted_arcs, index))
    mass = np.empty((_longest(tile) + 1, n_states))  # P(state at boundary)
    for block in range(len(tile.length)):
        for lane in range(sequences.shape[1]):
            if sequences[block, lane] < 0:
                continue
            slot, total = slot_of(tile, block, lane), 0.0
            mass[: slot.length + 1] = 0.0
            mass[0, 0] = 1.0
            for position in range(slot.length):
                for state in range(n_states):
                    if mass[position, state] == 0.0:
                        continue
                    n_choices = list_choices(weighted_arcs, index, tables, slot, position, state, choices)
                    others, spread = weigh(choices, n_choices)
                    total += mass[position, state] * (np.log1p(others) + spread / (1.0 + others))
                    for choice in range(n_choices):
                        moved = mass[position, state] * choices.score[choice] / (1.0 + others)
                        mass[position + choices.length[choice], choices.target[choice]] += moved
            entropy[sequences[block, lane]] = total

"""What may come next, and what is made of it: the best labellings, random labellings, entropies.

At each border of a labelling stands a state of the automaton, and the next label, for segments the next label and
length, is one of a few *choices*. The score of a choice is that of the label or segment plus ``beta``, the score of all
that may follow: of the best continuation, or of all together. Choices come the labels in order, then lengths. With
``index=None`` labels are those of tokens.

    best labellings   by regret (37): each labelling leaves another one for a choice that is not its best
    samples           a walk that takes each choice with its probability (38)
    entropy           the sum over borders and states of P(state) times the entropy of its choices (39)

Equations are those of CONTRIBUTING.md.

Logarithms throughout; -inf is impossible. Shapes: B blocks, W lanes, R rows (positions of all blocks), C score columns,
E cells of segment scores, P states, Q varying arcs, L labels, K most choices, N tokens, S sequences.
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
    beta: np.ndarray  # ((R + B) * P, W)   of what may follow each border
    arcs: np.ndarray  # (P, L) int32   arcs that states use: of those that have been met
    met: np.ndarray  # (P,) bool


class Place(NamedTuple):
    """Where a sequence is in a tile."""

    block: int
    lane: int
    row: int  # of its first token
    length: int


class Choices(NamedTuple):
    """The choices at one border."""

    score: np.ndarray  # (K,)
    label: np.ndarray  # (K,) int32
    length: np.ndarray  # (K,) int32
    target: np.ndarray  # (K,) int32   state at the next border


class BestChoices(NamedTuple):
    """What is known of the choices at the borders of a sequence.   T tokens."""

    label: np.ndarray  # (T, P) int32   of the best choice, -1 where it is not known
    length: np.ndarray  # (T, P) int32
    gap: np.ndarray  # (T, P)   between the scores of the best choice and the second best


class Deviations(NamedTuple):
    """Labellings to follow: each leaves another one at some place for a choice that is not its best.   M of them."""

    regret: np.ndarray  # (M,)
    parent: np.ndarray  # (M,) int32   number of the labelling that it leaves
    position: np.ndarray  # (M,) int64   where
    label: np.ndarray  # (M,) int32
    length: np.ndarray  # (M,) int32


class Search(NamedTuple):
    """A labelling that is being followed.   n wanted, T tokens."""

    found: int  # its number
    n_pending: int  # deviations that wait; it is the one behind them
    codes: np.ndarray  # (n, T) int32
    lengths: np.ndarray  # (n, T) int32
    choices: Choices
    known: BestChoices
    pending: Deviations


@njit(cache=True, nogil=True, error_model="numpy")
def empty_choices(size):
    """Return memory for the choices at a border."""
    return Choices(np.empty(size), np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _most_choices(weighted_arcs, index):
    """Return the largest number of choices at a border."""
    size = weighted_arcs.n_labels
    if index is not None:
        size *= index.longest.max()
    return size


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def place_of(tile, block, lane):
    """Return where the sequence of a lane is."""
    return Place(block, lane, tile.rows[block], tile.length[block, lane])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def meet(weighted_arcs, tables, state):
    """Look up the arcs that a state uses, unless it has been met before."""
    if not tables.met[state]:
        resolve(
            weighted_arcs.outgoing,
            weighted_arcs.source_arcs,
            weighted_arcs.arc_label,
            weighted_arcs.fail,
            np.int64(state),
            tables.arcs[state],
        )
        tables.met[state] = True


@njit(cache=True, nogil=True, error_model="numpy")
def list_choices(weighted_arcs, index, tables, place, position, state, choices):
    """Write the possible choices at a border, and return how many there are."""
    if index is None:
        return _list_labels(weighted_arcs, tables, place, position, state, choices)
    return _list_segments(weighted_arcs, index, tables, place, position, state, choices)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _list_labels(weighted_arcs, tables, place, position, state, choices):
    n_states, n_varying = len(weighted_arcs.fail), len(weighted_arcs.varying_arc)
    row, lane, n_choices = place.row + position, place.lane, 0
    after = (row + place.block + 1) * n_states
    meet(weighted_arcs, tables, state)
    for label in range(weighted_arcs.n_labels):
        arc = tables.arcs[state, label]
        target, varying = weighted_arcs.arc_target[arc], weighted_arcs.arc_varying[arc]
        score = weighted_arcs.arc_score[arc] + tables.scores[row * tables.width + label, lane]
        if varying >= 0:
            score += tables.varying[row * n_varying + varying, lane]
        score += tables.beta[after + target, lane]
        if score > -np.inf:
            choices.score[n_choices], choices.label[n_choices] = score, label
            choices.length[n_choices], choices.target[n_choices] = 1, target
            n_choices += 1
    return n_choices


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _list_segments(weighted_arcs, index, tables, place, position, state, choices):
    n_states, n_varying = len(weighted_arcs.fail), len(weighted_arcs.varying_arc)
    row, lane, n_choices = place.row + position, place.lane, 0
    meet(weighted_arcs, tables, state)
    for label in range(weighted_arcs.n_labels):
        arc = tables.arcs[state, label]
        border = weighted_arcs.arc_score[arc]
        target, varying = weighted_arcs.arc_target[arc], weighted_arcs.arc_varying[arc]
        if varying >= 0:
            border += tables.varying[row * n_varying + varying, lane]
        for d in range(1, min(index.longest[label], place.length - position) + 1):
            first = (row + d - 1) * tables.width + d - 1
            score = border + tables.scores[first + index.first_cell[label], lane]
            number = index.arc_span[arc]
            while number >= 0:  # the patterns that end with the arc, and have scores of their own for the segment
                scored = index.span_scored[number]
                if scored >= 0:
                    score += tables.scores[first + index.first_cell[scored], lane]
                number = index.span_suffix[number]
            score += tables.beta[(row + d + place.block) * n_states + target, lane]
            if score > -np.inf:
                choices.score[n_choices], choices.label[n_choices] = score, label
                choices.length[n_choices], choices.target[n_choices] = d, target
                n_choices += 1
    return n_choices


@njit(cache=True, nogil=True, error_model="numpy")
def best_labellings(weighted_arcs, index, tile, sequences, tables, codes, lengths, regret):
    """Find the n labellings of highest score of each sequence, best first.

    sequences : (B, W) int64   -1 for empty lanes        tables : ``ChoiceTables``   beta of best continuations
    codes, lengths : (n, N) int32   out: labels of tokens, and lengths of the segments that start with them, or 0
    regret : (n, S)   out: how far each is from the best; where there are fewer labellings, the rest is not written
    """
    n_wanted, n_states, longest = len(codes), len(weighted_arcs.fail), tile.length.max()
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
            place, first = place_of(tile, block, lane), tile.first_token[block, lane]
            own_codes, own_lengths = codes[:, first : first + place.length], lengths[:, first : first + place.length]
            known.label[: place.length] = -1
            pending.regret[0], pending.parent[0], pending.position[0] = 0.0, -1, -1
            n_pending = 1
            for found in range(n_wanted):
                if n_pending == 0:
                    break
                n_pending -= 1
                _move_best_to_end(pending, n_pending)
                regret[found, sequence] = pending.regret[n_pending]
                search = Search(found, n_pending, own_codes, own_lengths, choices, known, pending)
                n_pending = _follow(weighted_arcs, index, tables, place, search)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _follow(weighted_arcs, index, tables, place, search):
    """Write the labelling of the deviation behind the pending ones, and add the deviations from it.

    Only as many are kept as labellings are still wanted: each is one, and its regret is final. Return how many there
    are.
    """
    codes, lengths, choices, known, pending = search.codes, search.lengths, search.choices, search.known, search.pending
    found, n_pending, wanted = search.found, search.n_pending, len(codes) - search.found - 1
    parent, departure, regret = pending.parent[n_pending], pending.position[n_pending], pending.regret[n_pending]
    label, length = pending.label[n_pending], pending.length[n_pending]
    state, position = 0, 0
    while position < departure:  # as the labelling that is left
        codes[found, position], lengths[found, position] = codes[parent, position], lengths[parent, position]
        if lengths[parent, position] > 0:
            state = weighted_arcs.arc_target[tables.arcs[state, codes[parent, position]]]
        position += 1
    if departure >= 0:
        state = weighted_arcs.arc_target[tables.arcs[state, label]]
        _write_segment(codes, lengths, found, position, label, length)
        position += length
    limit = _limit(pending, n_pending, wanted)
    while position < place.length:
        if known.label[position, state] < 0 or regret + known.gap[position, state] < limit:
            if index is None:  # listed here: a call would count references to all arrays of the tuples
                n_choices = _list_labels(weighted_arcs, tables, place, position, state, choices)
            else:
                n_choices = _list_segments(weighted_arcs, index, tables, place, position, state, choices)
            best = 0
            for number in range(1, n_choices):
                if choices.score[number] > choices.score[best]:
                    best = number
            gap = np.inf
            for number in range(n_choices):
                loss = choices.score[best] - choices.score[number]
                if number != best:
                    gap = min(gap, loss)
                    if regret + loss < limit:
                        other, other_length = choices.label[number], choices.length[number]
                        _push(pending, n_pending, wanted, regret + loss, found, position, other, other_length)
                        n_pending = min(n_pending + 1, wanted)
                        limit = _limit(pending, n_pending, wanted)
            known.label[position, state], known.length[position, state] = choices.label[best], choices.length[best]
            known.gap[position, state] = gap
        next_label, next_length = known.label[position, state], known.length[position, state]
        _write_segment(codes, lengths, found, position, next_label, next_length)
        state = weighted_arcs.arc_target[tables.arcs[state, next_label]]
        position += next_length
    return n_pending


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _write_segment(codes, lengths, number, position, label, length):
    """Write a segment, or a token's label, to a labelling."""
    for token in range(position, position + length):
        codes[number, token], lengths[number, token] = label, 0
    lengths[number, position] = length


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _limit(pending, n_pending, wanted):
    """Return the regret from which on a deviation is not wanted."""
    if n_pending < wanted:
        return np.inf
    return pending.regret[_worst(pending, n_pending)] if wanted > 0 else -np.inf


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _worst(pending, n_pending):
    worst = 0
    for number in range(1, n_pending):
        if pending.regret[number] > pending.regret[worst]:
            worst = number
    return worst


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _push(pending, n_pending, wanted, regret, parent, position, label, length):
    """Add a deviation, in the place of the worst one if there are as many as wanted."""
    slot = n_pending if n_pending < wanted else _worst(pending, n_pending)
    pending.regret[slot], pending.parent[slot], pending.position[slot] = regret, parent, position
    pending.label[slot], pending.length[slot] = label, length


@njit(cache=True, nogil=True, error_model="numpy")
def _move_best_to_end(pending, last):
    """Swap the deviation of least regret, among equals the deepest, then that of the lowest label, with the last."""
    best = 0
    for number in range(1, last + 1):
        less = pending.regret[number] - pending.regret[best]
        deeper = pending.position[number] - pending.position[best]
        lower = pending.label[best] - pending.label[number]
        if less < 0.0 or (less == 0.0 and (deeper > 0 or (deeper == 0 and lower > 0))):
            best = number
    pending.regret[best], pending.regret[last] = pending.regret[last], pending.regret[best]
    pending.parent[best], pending.parent[last] = pending.parent[last], pending.parent[best]
    pending.position[best], pending.position[last] = pending.position[last], pending.position[best]
    pending.label[best], pending.label[last] = pending.label[last], pending.label[best]
    pending.length[best], pending.length[last] = pending.length[last], pending.length[best]


@njit(cache=True, nogil=True, error_model="numpy")
def weigh(choices, n_choices):
    """Turn the scores of choices into weights, exp(score - highest); return what entropy and probabilities need.

    These are the sum of the weights but for one of the highest, which is 1, and the mean of (highest - score) by
    weight, not yet divided by the sum.
    """
    top = 0
    for number in range(1, n_choices):
        if choices.score[number] > choices.score[top]:
            top = number
    highest, others, spread = choices.score[top], 0.0, 0.0
    for number in range(n_choices):
        below = highest - choices.score[number]
        choices.score[number] = np.exp(-below)
        if number != top:
            others += choices.score[number]
            spread += choices.score[number] * below
    return others, spread


@njit(cache=True, nogil=True, error_model="numpy")
def draw_labellings(weighted_arcs, index, tile, sequences, tables, uniform, codes, lengths):
    """Draw n labellings of each sequence.

    sequences : (B, W) int64   -1 for lanes that are left out
    tables : ``ChoiceTables``   beta of all continuations
    uniform : (R * W, n)   random numbers in [0, 1)
    codes, lengths : (N, n) int32   out; lengths only of segments
    """
    n_drawn, n_lanes = uniform.shape[1], sequences.shape[1]
    choices = empty_choices(_most_choices(weighted_arcs, index))
    drawn = _empty_draws(len(weighted_arcs.fail), len(choices.score), n_drawn)
    state, position, row_of_state = drawn.state, drawn.position, drawn.row_of_state
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            if sequences[block, lane] < 0:
                continue
            place, first = place_of(tile, block, lane), tile.first_token[block, lane]
            position[:], state[:] = 0, 0
            for at in range(place.length):
                n_rows, numbers = 0, (place.row + at) * n_lanes + lane
                for sample in range(n_drawn):
                    if position[sample] == at:
                        row = row_of_state[state[sample]]
                        if row < 0:  # the first sample in this state
                            row, current = n_rows, state[sample]
                            row_of_state[current], drawn.state_of_row[row] = row, current
                            n_choices = list_choices(weighted_arcs, index, tables, place, at, current, choices)
                            _add_up(choices, n_choices, drawn, row)
                            n_rows += 1
                        number = _search(drawn.sums, row, drawn.count[row], uniform[numbers, sample])
                        label, length = drawn.label[row, number], drawn.length[row, number]
                        if index is None:
                            codes[first + at, sample] = label
                        else:
                            for token in range(first + at, first + at + length):
                                codes[token, sample], lengths[token, sample] = label, 0
                            lengths[first + at, sample] = length
                        state[sample], position[sample] = drawn.target[row, number], at + length
                for row in range(n_rows):
                    row_of_state[drawn.state_of_row[row]] = -1


class Draws(NamedTuple):
    """The choices in all states that samples are in at one position.   n samples, M states."""

    state: np.ndarray  # (n,) int64   of each sample
    position: np.ndarray  # (n,) int64
    row_of_state: np.ndarray  # (P,) int64   -1 for states where no sample is
    state_of_row: np.ndarray  # (M,) int64
    count: np.ndarray  # (M,) int64   choices of each row
    sums: np.ndarray  # (M, K)   sums of the first weights
    label: np.ndarray  # (M, K) int32
    length: np.ndarray  # (M, K) int32
    target: np.ndarray  # (M, K) int32


@njit(cache=True, nogil=True, error_model="numpy")
def _empty_draws(n_states, most, n_drawn):
    """Return memory for the choices of so many samples, of which there are at most so many in a state."""
    n_rows = min(n_drawn, n_states)
    return Draws(
        np.empty(n_drawn, np.int64),
        np.empty(n_drawn, np.int64),
        np.full(n_states, -1),
        np.empty(n_rows, np.int64),
        np.empty(n_rows, np.int64),
        np.empty((n_rows, most)),
        np.empty((n_rows, most), np.int32),
        np.empty((n_rows, most), np.int32),
        np.empty((n_rows, most), np.int32),
    )


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _add_up(choices, n_choices, drawn, row):
    """Write the choices in a state to a row, a most probable one first, with the sums of the first weights."""
    weigh(choices, n_choices)
    total, top = 1.0, 0
    for number in range(n_choices):
        if choices.score[number] > choices.score[top]:
            top = number
    drawn.sums[row, 0], drawn.label[row, 0] = total, choices.label[top]
    drawn.length[row, 0], drawn.target[row, 0] = choices.length[top], choices.target[top]
    place = 1
    for number in range(n_choices):
        if number != top:
            total += choices.score[number]
            drawn.sums[row, place], drawn.label[row, place] = total, choices.label[number]
            drawn.length[row, place], drawn.target[row, place] = choices.length[number], choices.target[number]
            place += 1
    drawn.count[row] = n_choices


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _search(sums, row, n_choices, uniform):
    """Return the first choice whose sum exceeds a random part of the total."""
    sought, low, high = uniform * sums[row, n_choices - 1], 0, n_choices - 1
    if sums[row, 0] > sought:  # mostly
        high = 0
    while low < high:
        middle = (low + high) // 2
        if sums[row, middle] > sought:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def entropies(weighted_arcs, index, tile, sequences, tables, entropy):
    """Compute the entropy of the labellings of each sequence, in nats.

    sequences : (B, W) int64   -1 for lanes that are left out
    tables : ``ChoiceTables``   beta of all continuations
    entropy : (S,)   out
    """
    n_states, choices = len(weighted_arcs.fail), empty_choices(_most_choices(weighted_arcs, index))
    mass = np.empty((tile.length.max() + 1, n_states))  # P(state at border)
    for block in range(len(tile.length)):
        for lane in range(sequences.shape[1]):
            if sequences[block, lane] < 0:
                continue
            place, total = place_of(tile, block, lane), 0.0
            mass[: place.length + 1] = 0.0
            mass[0, 0] = 1.0
            for position in range(place.length):
                for state in range(n_states):
                    if mass[position, state] == 0.0:
                        continue
                    n_choices = list_choices(weighted_arcs, index, tables, place, position, state, choices)
                    others, spread = weigh(choices, n_choices)
                    total += mass[position, state] * (np.log1p(others) + spread / (1.0 + others))
                    for number in range(n_choices):
                        moved = mass[position, state] * choices.score[number] / (1.0 + others)
                        mass[position + choices.length[number], choices.target[number]] += moved
            entropy[sequences[block, lane]] = total

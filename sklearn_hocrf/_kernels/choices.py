"""What may come next, and what is made of it: the best labellings, random labellings, entropies.

At each border of a labelling stands a state of the automaton, and the next label, for segments the next label and
length, is one of a few *choices*. The score of a choice is that of the label or segment plus ``beta``, the score of all
that may follow: of the best continuation, or of all together. Choices come the labels in order, then lengths. With
``index=None`` labels are those of tokens.

    best labellings   Each labelling leaves the greedy walk along best choices at one last place. Its *regret* is the
                      sum, over its places, of the best choice's score minus that of its own: no rounding error is in
                      the regrets of best choices, which are 0, so ties cost nothing.
    samples           The walk takes each choice with its probability, exp(score) over the sum of all.
    entropy           The sum over borders and states of P(state) times the entropy of its choices; no term is negative.

Logarithms throughout; -inf is impossible. Shapes: B blocks, W lanes, R rows (positions of all blocks), C score columns,
E cells of segment scores, P states, Q varying arcs, L labels, K most choices, N tokens, S sequences.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import resolve

NETWORK_SOURCE = "6ce609e65b95010a"


class Lattice(NamedTuple):
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


class Deviations(NamedTuple):
    """Labellings to follow: each leaves another one at some place for a choice that is not its best.   M of them."""

    regret: np.ndarray  # (M,)
    parent: np.ndarray  # (M,) int32   number of the labelling that it leaves
    position: np.ndarray  # (M,) int64   where
    label: np.ndarray  # (M,) int32
    length: np.ndarray  # (M,) int32


@njit(cache=True, nogil=True, error_model="numpy")
def empty_choices(weighted_arcs, index):
    """Return memory for the choices at a border."""
    size = weighted_arcs.n_labels
    if index is not None:
        size *= index.longest.max()
    return Choices(np.empty(size), np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32))


@njit(cache=True, nogil=True, error_model="numpy")
def place_of(tile, block, lane):
    return Place(block, lane, tile.rows[block], tile.length[block, lane])


@njit(cache=True, nogil=True, error_model="numpy")
def arcs_of(weighted_arcs, lattice, state):
    """Return the arc that a state uses for each label."""
    if not lattice.met[state]:
        resolve(weighted_arcs, np.int64(state), lattice.arcs[state])
        lattice.met[state] = True
    return lattice.arcs[state]


@njit(cache=True, nogil=True, error_model="numpy")
def list_choices(weighted_arcs, index, lattice, place, position, state, choices):
    """Write the possible choices at a border, and return how many there are."""
    if index is None:
        return _list_labels(weighted_arcs, lattice, place, position, state, choices)
    return _list_segments(weighted_arcs, index, lattice, place, position, state, choices)


@njit(cache=True, nogil=True, error_model="numpy")
def _list_labels(weighted_arcs, lattice, place, position, state, choices):
    n_states, n_varying = len(weighted_arcs.fail), len(weighted_arcs.varying_arc)
    row, lane, n_choices = place.row + position, place.lane, 0
    arcs, after = arcs_of(weighted_arcs, lattice, state), (row + place.block + 1) * n_states
    for label in range(weighted_arcs.n_labels):
        arc = arcs[label]
        target, varying = weighted_arcs.arc_target[arc], weighted_arcs.arc_varying[arc]
        score = weighted_arcs.arc_score[arc] + lattice.scores[row * lattice.width + label, lane]
        if varying >= 0:
            score += lattice.varying[row * n_varying + varying, lane]
        score += lattice.beta[after + target, lane]
        if score > -np.inf:
            choices.score[n_choices], choices.label[n_choices] = score, label
            choices.length[n_choices], choices.target[n_choices] = 1, target
            n_choices += 1
    return n_choices


@njit(cache=True, nogil=True, error_model="numpy")
def _list_segments(weighted_arcs, index, lattice, place, position, state, choices):
    n_states, n_varying = len(weighted_arcs.fail), len(weighted_arcs.varying_arc)
    row, lane, n_choices = place.row + position, place.lane, 0
    arcs = arcs_of(weighted_arcs, lattice, state)
    for label in range(weighted_arcs.n_labels):
        arc = arcs[label]
        border = weighted_arcs.arc_score[arc]
        target, varying = weighted_arcs.arc_target[arc], weighted_arcs.arc_varying[arc]
        if varying >= 0:
            border += lattice.varying[row * n_varying + varying, lane]
        for d in range(1, min(index.longest[label], place.length - position) + 1):
            first = (row + d - 1) * lattice.width + d - 1
            score = border + lattice.scores[first + index.first_cell[label], lane]
            number = index.arc_span[arc]
            while number >= 0:  # the patterns that end with the arc, and have scores of their own for the segment
                scored = index.span_scored[number]
                if scored >= 0:
                    score += lattice.scores[first + index.first_cell[scored], lane]
                number = index.span_suffix[number]
            score += lattice.beta[(row + d + place.block) * n_states + target, lane]
            if score > -np.inf:
                choices.score[n_choices], choices.label[n_choices] = score, label
                choices.length[n_choices], choices.target[n_choices] = d, target
                n_choices += 1
    return n_choices


@njit(cache=True, nogil=True, error_model="numpy")
def best_labellings(weighted_arcs, index, tile, sequences, lattice, codes, lengths, regret):
    """Find the n labellings of highest score of each sequence, best first.

    sequences : (B, W) int64   -1 for empty lanes        lattice : ``Lattice``   beta of best continuations
    codes, lengths : (n, N) int32   out: labels of tokens, and lengths of the segments that start with them, or 0
    regret : (n, S)   out: how far each is from the best; where there are fewer labellings, the rest is not written
    """
    n_wanted = len(codes)
    choices = empty_choices(weighted_arcs, index)
    pending = Deviations(
        np.empty(n_wanted),
        np.empty(n_wanted, np.int32),
        np.empty(n_wanted, np.int64),
        np.empty(n_wanted, np.int32),
        np.empty(n_wanted, np.int32),
    )
    for block in range(len(tile.length)):
        for lane in range(sequences.shape[1]):
            sequence = sequences[block, lane]
            if sequence < 0:
                continue
            place, first = place_of(tile, block, lane), tile.first_token[block, lane]
            own_codes, own_lengths = codes[:, first : first + place.length], lengths[:, first : first + place.length]
            n_pending = _push(pending, 0, n_wanted, 0.0, -1, -1, 0, 0)
            for found in range(n_wanted):
                if n_pending == 0:
                    break
                n_pending -= 1
                _move_best_to_end(pending, n_pending)
                regret[found, sequence] = pending.regret[n_pending]
                n_pending = _follow(
                    weighted_arcs, index, lattice, place, found, own_codes, own_lengths, choices, pending, n_pending
                )


@njit(cache=True, nogil=True, error_model="numpy")
def _follow(weighted_arcs, index, lattice, place, found, codes, lengths, choices, pending, n_pending):
    """Write the labelling of the deviation behind the pending ones, and add the deviations from it.

    Only as many are kept as labellings are still wanted: each is one, and its regret is final.
    """
    parent, departure = pending.parent[n_pending], pending.position[n_pending]
    left_label, left_length, regret = pending.label[n_pending], pending.length[n_pending], pending.regret[n_pending]
    wanted, state, position = len(codes) - found - 1, 0, 0
    limit = _limit(pending, n_pending, wanted)
    while position < place.length:
        if position < departure:
            label, length = codes[parent, position], lengths[parent, position]
            state = weighted_arcs.arc_target[arcs_of(weighted_arcs, lattice, state)[label]]
        elif position == departure:
            label, length = left_label, left_length
            state = weighted_arcs.arc_target[arcs_of(weighted_arcs, lattice, state)[label]]
        else:
            n_choices = list_choices(weighted_arcs, index, lattice, place, position, state, choices)
            best = 0
            for number in range(1, n_choices):
                if choices.score[number] > choices.score[best]:
                    best = number
            for number in range(n_choices):
                change = regret + (choices.score[best] - choices.score[number])
                if number != best and change < limit:
                    other, other_length = choices.label[number], choices.length[number]
                    n_pending = _push(pending, n_pending, wanted, change, found, position, other, other_length)
                    limit = _limit(pending, n_pending, wanted)
            label, length, state = choices.label[best], choices.length[best], choices.target[best]
        codes[found, position : position + length] = label
        lengths[found, position : position + length] = 0
        lengths[found, position] = length
        position += length
    return n_pending


@njit(cache=True, nogil=True, error_model="numpy")
def _limit(pending, n_pending, wanted):
    """Return the regret from which on a deviation is not wanted."""
    if n_pending < wanted:
        return np.inf
    return pending.regret[_worst(pending, n_pending)] if wanted > 0 else -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _worst(pending, n_pending):
    worst = 0
    for number in range(1, n_pending):
        if pending.regret[number] > pending.regret[worst]:
            worst = number
    return worst


@njit(cache=True, nogil=True, error_model="numpy")
def _push(pending, n_pending, wanted, regret, parent, position, label, length):
    """Add a deviation, in the place of the worst one if there are as many as wanted; return how many there are."""
    slot = n_pending if n_pending < wanted else _worst(pending, n_pending)
    pending.regret[slot], pending.parent[slot], pending.position[slot] = regret, parent, position
    pending.label[slot], pending.length[slot] = label, length
    return min(n_pending + 1, wanted)


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
def draw_labellings(weighted_arcs, index, tile, sequences, lattice, uniform, codes, lengths):
    """Draw n labellings of each sequence.

    sequences : (B, W) int64   -1 for lanes that are left out        lattice : ``Lattice``   beta of all continuations
    uniform : (R * W, n)   random numbers in [0, 1)        codes, lengths : (n, N) int32   out
    """
    n_drawn, n_lanes = uniform.shape[1], sequences.shape[1]
    choices, drawn = empty_choices(weighted_arcs, index), _empty_draws(weighted_arcs, index, n_drawn)
    position = np.empty(n_drawn, np.int64)
    for block in range(len(tile.length)):
        for lane in range(n_lanes):
            if sequences[block, lane] < 0:
                continue
            place, first = place_of(tile, block, lane), tile.first_token[block, lane]
            position[:] = 0
            drawn.state[:] = 0
            for at in range(place.length):
                numbers = uniform[(place.row + at) * n_lanes + lane]
                for sample in range(n_drawn):
                    if position[sample] == at:
                        row = _row_of(weighted_arcs, index, lattice, place, at, drawn.state[sample], choices, drawn)
                        number = _search(drawn.sums[row], drawn.count[row], numbers[sample])
                        length = drawn.length[row, number]
                        codes[sample, first + at : first + at + length] = drawn.label[row, number]
                        lengths[sample, first + at : first + at + length] = 0
                        lengths[sample, first + at] = length
                        drawn.state[sample] = drawn.target[row, number]
                        position[sample] = at + length
                for row in range(drawn.n_rows[0]):
                    drawn.row_of_state[drawn.state_of_row[row]] = -1
                drawn.n_rows[0] = 0


class Draws(NamedTuple):
    """The choices in all states that samples are in at one position.   n samples, M states."""

    state: np.ndarray  # (n,) int64   of each sample
    row_of_state: np.ndarray  # (P,) int64   -1 for states where no sample is
    n_rows: np.ndarray  # (1,) int64
    state_of_row: np.ndarray  # (M,) int64
    count: np.ndarray  # (M,) int64   choices of each row
    sums: np.ndarray  # (M, K)   sums of the first weights
    label: np.ndarray  # (M, K) int32
    length: np.ndarray  # (M, K) int32
    target: np.ndarray  # (M, K) int32


@njit(cache=True, nogil=True, error_model="numpy")
def _empty_draws(weighted_arcs, index, n_drawn):
    n_states, most = len(weighted_arcs.fail), len(empty_choices(weighted_arcs, index).score)
    n_rows = min(n_drawn, n_states)
    return Draws(
        np.empty(n_drawn, np.int64),
        np.full(n_states, -1),
        np.zeros(1, np.int64),
        np.empty(n_rows, np.int64),
        np.empty(n_rows, np.int64),
        np.empty((n_rows, most)),
        np.empty((n_rows, most), np.int32),
        np.empty((n_rows, most), np.int32),
        np.empty((n_rows, most), np.int32),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _row_of(weighted_arcs, index, lattice, place, position, state, choices, drawn):
    """Return the row of the choices in a state, which the first sample there fills."""
    row = drawn.row_of_state[state]
    if row >= 0:
        return row
    row = drawn.n_rows[0]
    drawn.n_rows[0] += 1
    drawn.row_of_state[state], drawn.state_of_row[row] = row, state
    n_choices, total = list_choices(weighted_arcs, index, lattice, place, position, state, choices), 0.0
    weigh(choices, n_choices)
    for number in range(n_choices):
        total += choices.score[number]
        drawn.sums[row, number], drawn.label[row, number] = total, choices.label[number]
        drawn.length[row, number], drawn.target[row, number] = choices.length[number], choices.target[number]
    drawn.count[row] = n_choices
    return row


@njit(cache=True, nogil=True, error_model="numpy")
def _search(sums, n_choices, uniform):
    """Return the first choice whose sum exceeds a random part of the total."""
    sought = uniform * sums[n_choices - 1]
    low, high = 0, n_choices - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > sought:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def entropies(weighted_arcs, index, tile, sequences, lattice, entropy):
    """Compute the entropy of the labellings of each sequence, in nats.

    sequences : (B, W) int64   -1 for lanes that are left out        lattice : ``Lattice``   beta of all continuations
    entropy : (S,)   out
    """
    n_states, choices = len(weighted_arcs.fail), empty_choices(weighted_arcs, index)
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
                    n_choices = list_choices(weighted_arcs, index, lattice, place, position, state, choices)
                    others, spread = weigh(choices, n_choices)
                    total += mass[position, state] * (np.log1p(others) + spread / (1.0 + others))
                    for number in range(n_choices):
                        moved = mass[position, state] * choices.score[number] / (1.0 + others)
                        mass[position + choices.length[number], choices.target[number]] += moved
            entropy[sequences[block, lane]] = total

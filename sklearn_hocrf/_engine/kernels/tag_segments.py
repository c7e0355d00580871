"""Probabilities of the segments that token labels encode as tags.

A tag either continues the segment of the tag before it or begins a new one. The probability of a segment [u, v) with a
label is a sum over paths of states, equation (38) of docs/develop/theory.md. Each term is P(state at u) times the
probabilities of tags that begin the segment, continue it, and do not continue it at v. All terms are positive, so small
probabilities are as precise as large ones. The kernels compute the probabilities of tags in each state with
``choices`` and, from left to right, the probabilities of states.

Shapes: B blocks, W lanes, P states, L labels, T tokens of a sequence, M pairs of a position and a state with mass > 0.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from .choices import empty_choices, list_labels, slot_of, weigh


class Tags(NamedTuple):
    """Labels as tags of segments."""

    goes_on: np.ndarray  # (L, L) bool   whether the column's label continues the segment of the row's label
    segment_label: np.ndarray  # (L,) int32   label of the segment, or -1 outside all segments


class States(NamedTuple):
    """The states of a sequence, and the probabilities of the labels that follow them."""

    mass: np.ndarray  # (T + 1, P)   P(state at boundary)
    label: np.ndarray  # (P,) int32   last label, -1 for none
    row: np.ndarray  # (T, P) int64   row of the state in ``probability``; only where its mass is > 0
    probability: np.ndarray  # (M, L)   of the next label
    target: np.ndarray  # (P, L) int32   the state that the label leads to; 0 if the label was not possible


@njit(cache=True, nogil=True, error_model="numpy")
def _longer(table):
    """Return a table with twice as many rows, of which the first are the given rows."""
    longer = np.empty((2 * len(table), table.shape[1]))
    for row in range(len(table)):  # for a slice, numba would also compile numpy's error messages about shapes
        for column in range(table.shape[1]):
            longer[row, column] = table[row, column]
    return longer


@njit(cache=True, nogil=True, error_model="numpy")
def _states_of(weighted_arcs, lattice, slot, choices):
    """Return the states of a sequence, their probabilities, and the probabilities of the labels that follow them."""
    n_states, n_labels = len(weighted_arcs.fail), weighted_arcs.n_labels
    mass, row = np.zeros((slot.length + 1, n_states)), np.empty((slot.length, n_states), np.int64)
    probability, target, n_rows = np.empty((4 * slot.length, n_labels)), np.zeros((n_states, n_labels), np.int32), 0
    weight, label, next_state = choices.score, choices.label, choices.target
    mass[0, 0] = 1.0
    for position in range(slot.length):
        for state in range(n_states):
            if mass[position, state] == 0.0:
                continue
            if n_rows == len(probability):
                probability = _longer(probability)
            n_choices = list_labels(weighted_arcs, lattice, slot, position, state, choices)  # inlined
            others, _ = weigh(choices, n_choices)
            row[position, state] = n_rows
            for tag in range(n_labels):
                probability[n_rows, tag] = 0.0
            for choice in range(n_choices):
                part = weight[choice] / (1.0 + others)
                probability[n_rows, label[choice]] = part
                mass[position + 1, next_state[choice]] += mass[position, state] * part
                target[state, label[choice]] = next_state[choice]
            n_rows += 1
    return States(mass, weighted_arcs.state_label, row, probability, target)


@njit(cache=True, nogil=True, error_model="numpy")
def _begin(tags, states, position, code, flow):
    """Write to ``flow`` the probability that a segment begins, by the state after its first token; return the sum."""
    mass_of, label_of, row_of, probability, target = states
    goes_on, segment_label = tags
    total = 0.0
    for state in range(len(flow)):
        flow[state] = 0.0
    for state in range(len(flow)):
        mass, last = mass_of[position, state], label_of[state]
        if mass > 0.0:
            row = row_of[position, state]
            for label in range(len(segment_label)):
                begins = segment_label[label] == code and (last < 0 or not goes_on[last, label])
                if begins:
                    part = mass * probability[row, label]
                    flow[target[state, label]] += part
                    total += part
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _go_on(tags, states, position, flow, onward):
    """Move the flow of a segment by a token; return how much of it ends before the token, and how much continues."""
    _, label_of, row_of, probability, target = states
    goes_on, ended, left = tags.goes_on, 0.0, 0.0
    for state in range(len(onward)):
        onward[state] = 0.0
    for state in range(len(flow)):
        if flow[state] == 0.0:
            continue
        if position == len(row_of):
            ended += flow[state]
            continue
        row = row_of[position, state]
        last = label_of[state]
        for label in range(len(goes_on)):
            part = flow[state] * probability[row, label]
            if goes_on[last, label]:
                onward[target[state, label]] += part
                left += part
            else:
                ended += part
    return ended, left


@njit(cache=True, nogil=True, error_model="numpy")
def list_segments(weighted_arcs, tile, sequences, lattice, tags, threshold):
    """Return rows (start, stop, label, probability): all segments whose probability > 0 reaches the threshold."""
    n_states, n_found = len(weighted_arcs.fail), 0
    choices, flow, onward = empty_choices(weighted_arcs.n_labels), np.empty(n_states), np.empty(n_states)
    segments = np.empty((64, 4))
    for block in range(len(tile.length)):
        for lane in range(sequences.shape[1]):
            if sequences[block, lane] < 0:
                continue
            slot, first = slot_of(tile, block, lane), tile.first_token[block, lane]
            states = _states_of(weighted_arcs, lattice, slot, choices)
            for start in range(slot.length):
                for code in range(tags.segment_label.max() + 1):
                    left, stop = _begin(tags, states, start, code, flow), start + 1
                    while stop <= slot.length and left > 0.0 and left >= threshold:
                        ended, left = _go_on(tags, states, stop, flow, onward)
                        if ended > 0.0 and ended >= threshold:
                            if n_found == len(segments):
                                segments = _longer(segments)
                            segments[n_found, 0], segments[n_found, 1] = first + start, first + stop
                            segments[n_found, 2], segments[n_found, 3] = code, ended
                            n_found += 1
                        flow, onward = onward, flow
                        stop += 1
    return segments[:n_found]


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_segments(weighted_arcs, tile, sequences, lattice, tags, segments, probability):
    """Compute the probabilities of given segments.

    segments : (N, 2) int64   by first token: the stop of the segment, or 0 if none begins there, and its label
    probability : (N,)   out, by first token
    """
    n_states = len(weighted_arcs.fail)
    choices, flow, onward = empty_choices(weighted_arcs.n_labels), np.empty(n_states), np.empty(n_states)
    for block in range(len(tile.length)):
        for lane in range(sequences.shape[1]):
            if sequences[block, lane] < 0:
                continue
            slot, first = slot_of(tile, block, lane), tile.first_token[block, lane]
            states = _states_of(weighted_arcs, lattice, slot, choices)
            for start in range(slot.length):
                if segments[first + start, 0] == 0:
                    continue
                _begin(tags, states, start, segments[first + start, 1], flow)
                ended = 0.0
                for stop in range(start + 1, segments[first + start, 0] - first + 1):
                    ended, _ = _go_on(tags, states, stop, flow, onward)
                    flow, onward = onward, flow
                probability[first + start] = ended

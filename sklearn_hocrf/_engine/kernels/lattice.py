"""Lattices: the few candidate labels of tokens, and the paths of the automaton through them.

Each token has *candidates*, labels in ascending order. A *node* is a state that the automaton can reach at a token by
a sequence of candidates. Nodes are numbered from 1, token by token; node 0 precedes each sequence. A *step*
leads from a node of one token to a node of the next token, by an arc of the automaton. Arcs of forbidden runs, whose
scores are -inf, yield no steps. All passes iterate over the list of steps, so time and memory depend on the length of
this list, not on the numbers of labels, states and arcs:

    forward     alpha(v) = xi(v) sum over the steps u -> v of omega(step) alpha(u)                          (9), (10)
    backward    beta(u)  = sum over the steps u -> v of omega(step) xi(v) beta(v)                                (11)
    marginals   P(step u -> v) = alpha(u) omega(step) xi(v) beta(v)                                              (12)

As in ``chain``, passes are scaled by the total of alpha at each token. If the alpha of a node falls below 1e-200 of
this total, the kernel processes the sequence again in logarithms, with the function that is also used for decoding. All
other results are computed from the marginals of steps. The probability of a step, given the node that it leaves, is its
marginal divided by the sum of the marginals of all steps from this node.

If labels have parts, the score of a candidate is a sum of columns, each of which is scored once per token.

Equation numbers refer to docs/develop/theory.md. Shapes: n sequences, N tokens, M candidates, D score columns of
tokens, X entries, V nodes, E steps, K pairs, A arcs.
"""

from typing import NamedTuple

import numpy as np

from ._jit import njit
from ._network import LOWEST_LOG, SMALLEST_TOTAL, TINY, first_at_least, log_add


class Entries(NamedTuple):
    """The features of tokens, as in batches, and the ranges of their pairs."""

    indptr: np.ndarray  # (N + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    values: np.ndarray  # (nnz,) float64, or empty if all are 1
    rank: np.ndarray  # (n_attributes,) int32   of each attribute, -1 for those without pairs
    starts: np.ndarray  # (n_ranks + 1,) int64   of the pairs of each rank
    columns: np.ndarray  # (K,) int32   ascending for each rank


class Limits(NamedTuple):
    """The largest number of nodes of each token, and scores that decide which nodes are kept."""

    n_states: np.ndarray  # (N,) int64
    score: np.ndarray  # (M,)   of candidates
    codes: np.ndarray  # (N,) int32   labels whose nodes are always kept; or empty


class Found(NamedTuple):
    """Nodes and steps found so far, with free space for more."""

    state: np.ndarray  # int32   of each node
    score: np.ndarray  # of the best labels that lead to each node
    candidate: np.ndarray  # uint32
    source: np.ndarray  # uint32   these three: of each step
    target: np.ndarray  # uint32
    arc: np.ndarray  # uint32


class Lattice(NamedTuple):
    """The lists of a batch: candidates, columns, nodes and steps."""

    offsets: np.ndarray  # (n + 1,) int64   first token of each sequence
    starts: np.ndarray  # (N + 1,) int64   first candidate of each token
    labels: np.ndarray  # (M,) int32
    columns: np.ndarray  # (N + 1,) int64   first score column of each token, for its candidates and their parts
    links: np.ndarray  # (M + 1,) int64   first link of each candidate; empty if candidates and columns are the same
    column: np.ndarray  # uint32   of each link: one of the columns whose sum is the candidate's score (39)
    entries: np.ndarray  # (D + 1,) int64   first entry of each column
    pairs: np.ndarray  # (X,) uint32   of each entry
    values: np.ndarray  # (X,) float64, or empty if all are 1
    nodes: np.ndarray  # (N + 1,) int64   first node of each token
    candidate: np.ndarray  # (V + 1,) uint32   of each node
    steps: np.ndarray  # (N + 1,) int64   first step to the nodes of each token; sorted by source and candidate
    source: np.ndarray  # (E,) uint32
    target: np.ndarray  # (E,) uint32
    arc: np.ndarray  # (E,) uint32


class Weights(NamedTuple):
    """The weights of a model, and settings of its passes."""

    pairs: np.ndarray  # (K,)
    arc_score: np.ndarray  # (A,)
    arc_weight: np.ndarray  # (A,)   exp(arc_score - log_shift)
    log_shift: float
    scales: bool  # whether scaled passes can represent the weights of all arcs; if not, passes use logarithms
    shift: np.ndarray  # (N,)   subtracted from the scores of all candidates of each token; or empty


class Tables(NamedTuple):
    """A thread's memory for the results of its sequences."""

    scores: np.ndarray  # (M,)   of candidates; after a backward pass, their marginals
    columns: np.ndarray  # (D,)   the same for columns; empty if candidates and columns are the same
    alpha: np.ndarray  # (V + 1,)
    beta: np.ndarray  # (V + 1,)
    inverse: np.ndarray  # (N,)   1 / total of alpha


class Sums(NamedTuple):
    """Results computed from marginals; kernels do not compute results whose arrays are empty."""

    weight: np.ndarray  # (n,)   of sequences; empty if only log Z is computed
    pairs: np.ndarray  # (K,)   expected counts, in and out
    arcs: np.ndarray  # (A,)
    steps: np.ndarray  # (E,)   out: the marginals of steps


# --- building ---------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def list_entries(entries, starts, labels, slots, pairs, values):
    """Write the pairs of each column, and their values, if any; if ``pairs`` is None, only count the pairs.

    starts : (N + 1,)        labels : (D,)   labels or parts of the columns, ascending for each token
    slots : (D,) int64   in: where the list of each column begins; out: where it ends
    """
    for token in range(len(starts) - 1):
        for entry in range(entries.indptr[token], entries.indptr[token + 1]):
            rank = entries.rank[entries.indices[entry]]
            if rank < 0:
                continue
            pair, stop = entries.starts[rank], entries.starts[rank + 1]
            for candidate in range(starts[token], starts[token + 1]):
                pair = first_at_least(entries.columns, pair, stop, labels[candidate])
                while pair < stop and entries.columns[pair] == labels[candidate]:
                    if pairs is not None:  # decided at compile time
                        pairs[slots[candidate]] = pair
                        if len(values):
                            values[slots[candidate]] = entries.values[entry]
                    slots[candidate] += 1
                    pair += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _arc_of(automaton, labels_of_source, state, label):
    """Return the arc that a state uses for a label (5)."""
    while state > 0:
        stop = automaton.outgoing[state + 1]
        item = first_at_least(labels_of_source, automaton.outgoing[state], stop, label)
        if item < stop and labels_of_source[item] == label:
            return np.int64(automaton.source_arcs[item])
        state = np.int64(automaton.fail[state])
    return np.int64(automaton.source_arcs[label])  # state 0, the empty pattern, has an arc for each label


@njit(cache=True, nogil=True, error_model="numpy")
def _longer(array):
    """Return an array of twice the length that begins with the given array."""
    longer = np.empty(2 * len(array), array.dtype)
    longer[: len(array)] = array
    return longer


@njit(cache=True, nogil=True, error_model="numpy")
def _keep_best(lists, first, stop, most, kept_node, new_id):
    """Keep ``kept_node``, and the ``most`` nodes in [first, stop) with the highest scores; ties go to the first node.

    new_id : (at least stop - first,) int64   out: new id of each node, -1 for dropped nodes

    Return the id of the next node.
    """
    n_nodes = stop - first
    order = np.argsort(-lists.score[first:stop], kind="mergesort")
    new_id[:n_nodes] = -1
    new_id[order[:most]] = 0
    if kept_node >= first:
        new_id[kept_node - first] = 0
    following = first
    for node in range(n_nodes):
        if new_id[node] == 0:
            new_id[node] = following
            lists.state[following], lists.score[following] = lists.state[first + node], lists.score[first + node]
            lists.candidate[following] = lists.candidate[first + node]
            following += 1
    return following


@njit(cache=True, nogil=True, error_model="numpy")
def _drop_steps(lists, first_node, new_id, first, stop):
    """Drop the steps in [first, stop) to dropped nodes, renumber the other steps' targets, and return the next step."""
    following = first
    for step in range(first, stop):
        target = new_id[np.int64(lists.target[step]) - first_node]
        if target >= 0:
            lists.source[following], lists.target[following] = lists.source[step], target
            lists.arc[following] = lists.arc[step]
            following += 1
    return following


@njit(cache=True, nogil=True, error_model="numpy")
def _with_room(lists, n_nodes, n_steps):
    """Return lists with space for the given numbers of nodes and steps."""
    state, score, candidate = lists.state, lists.score, lists.candidate
    while len(state) < n_nodes:
        state, score, candidate = _longer(state), _longer(score), _longer(candidate)
    source, target, arc = lists.source, lists.target, lists.arc
    while len(source) < n_steps:
        source, target, arc = _longer(source), _longer(target), _longer(arc)
    return Found(state, score, candidate, source, target, arc)


@njit(cache=True, nogil=True, error_model="numpy")
def list_steps(automaton, labels_of_source, forbidden, offsets, starts, labels, limits, nodes, steps):
    """List the nodes and steps of all sequences, from left to right.

    Return the candidate of each node; the source, target and arc of each step; and whether a limit has removed nodes.

    automaton : ``PatternAutomaton``        labels_of_source : (A,) int32   labels of its ``source_arcs``
    forbidden : (A,) bool   by arc
    limits : ``Limits``        nodes, steps : (N + 1,) int64   out
    """
    n_nodes, n_steps, size, is_limited = 1, 0, 4 * len(labels) + 64, False
    lists = Found(
        np.empty(size, np.int32),
        np.zeros(size),
        np.zeros(size, np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
    )
    # for each state, the last token at which it was reached, and its node there
    met, node_of = np.full(len(automaton.fail), -1), np.empty(len(automaton.fail), np.int64)
    lists.state[0] = 0
    nodes[0], steps[0] = 1, 0
    for sequence in range(len(offsets) - 1):
        first, stop, true = 0, 1, 0
        for token in range(offsets[sequence], offsets[sequence + 1]):
            begin, n_before, true_before, true = starts[token], n_steps, true, -1
            n_most = (stop - first) * (starts[token + 1] - begin)
            lists = _with_room(lists, n_nodes + n_most, n_steps + n_most)
            for node in range(first, stop):
                for candidate in range(begin, starts[token + 1]):
                    arc = _arc_of(automaton, labels_of_source, np.int64(lists.state[node]), labels[candidate])
                    if forbidden[arc]:
                        continue
                    end = automaton.arc_target[arc]
                    if met[end] != token:
                        met[end], node_of[end] = token, n_nodes
                        lists.state[n_nodes], lists.candidate[n_nodes], lists.score[n_nodes] = end, candidate, -np.inf
                        n_nodes += 1
                    target = node_of[end]
                    score = lists.score[node] + limits.score[candidate]
                    lists.score[target] = max(lists.score[target], score)
                    lists.source[n_steps], lists.target[n_steps], lists.arc[n_steps] = node, target, arc
                    n_steps += 1
                    if node == true_before and len(limits.codes) and labels[candidate] == limits.codes[token]:
                        true = target
            first, stop = nodes[token], n_nodes
            if stop - first > limits.n_states[token]:
                renumbered, is_limited = np.empty(stop - first, np.int64), True
                n_nodes = _keep_best(lists, first, stop, limits.n_states[token], true, renumbered)
                n_steps = _drop_steps(lists, first, renumbered, n_before, n_steps)
                if true >= 0:
                    true = renumbered[true - first]
                stop = n_nodes
            nodes[token + 1], steps[token + 1] = n_nodes, n_steps
    return (
        lists.candidate[:n_nodes].copy(),
        lists.source[:n_steps].copy(),
        lists.target[:n_steps].copy(),
        lists.arc[:n_steps].copy(),
        is_limited,
    )


# --- scaled passes ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _score(lattice, weights, first, stop, tables):
    """Write the scores (3) of the candidates at the tokens from ``first`` to ``stop - 1``."""
    has_values, has_parts, pair_weights = len(lattice.values) > 0, len(lattice.links) > 0, weights.pairs
    scores = tables.columns if has_parts else tables.scores
    for column in range(lattice.columns[first], lattice.columns[stop]):
        total = 0.0
        if has_values:
            for entry in range(lattice.entries[column], lattice.entries[column + 1]):
                total += lattice.values[entry] * pair_weights[lattice.pairs[entry]]
        else:
            for entry in range(lattice.entries[column], lattice.entries[column + 1]):
                total += pair_weights[lattice.pairs[entry]]
        scores[column] = total
    if has_parts:
        for candidate in range(lattice.starts[first], lattice.starts[stop]):  # (39)
            total = 0.0
            for link in range(lattice.links[candidate], lattice.links[candidate + 1]):
                total += scores[lattice.column[link]]
            tables.scores[candidate] = total
    if len(weights.shift):
        for token in range(first, stop):
            for candidate in range(lattice.starts[token], lattice.starts[token + 1]):
                tables.scores[candidate] -= weights.shift[token]


@njit(cache=True, nogil=True, error_model="numpy")
def _forward(lattice, weights, first, stop, tables):
    """Return log Z of the sequence with the tokens [first, stop), and whether scaled passes can represent all numbers.

    The pass replaces each score by exp(score - highest score of the token).
    """
    _score(lattice, weights, first, stop, tables)
    scores, alpha, log_z, lowest_share = tables.scores, tables.alpha, 0.0, 1.0
    for token in range(first, stop):
        begin, end = lattice.starts[token], lattice.starts[token + 1]
        highest, lowest = -np.inf, np.inf
        for candidate in range(begin, end):
            highest, lowest = max(highest, scores[candidate]), min(lowest, scores[candidate])
        if not lowest - highest > LOWEST_LOG:
            return 0.0, False
        for candidate in range(begin, end):
            scores[candidate] = np.exp(scores[candidate] - highest)
        for node in range(lattice.nodes[token], lattice.nodes[token + 1]):
            alpha[node] = 0.0
        for step in range(lattice.steps[token], lattice.steps[token + 1]):  # (9)
            alpha[lattice.target[step]] += alpha[lattice.source[step]] * weights.arc_weight[lattice.arc[step]]
        total, least = 0.0, np.inf
        for node in range(lattice.nodes[token], lattice.nodes[token + 1]):
            alpha[node] *= scores[lattice.candidate[node]]
            total += alpha[node]
            least = min(least, alpha[node])
        if not total > SMALLEST_TOTAL:
            return 0.0, False
        inverse = 1.0 / total
        for node in range(lattice.nodes[token], lattice.nodes[token + 1]):
            alpha[node] *= inverse
        tables.inverse[token] = inverse
        lowest_share = min(lowest_share, least * inverse)
        log_z += np.log(total) + highest + weights.log_shift  # (10)
    return log_z, lowest_share >= TINY and np.isfinite(log_z)


@njit(cache=True, nogil=True, error_model="numpy")
def _backward(lattice, weights, first, stop, tables, weight, sums):
    """After ``_forward``, turn the scores of candidates into marginals, and add the marginals of arcs to ``sums``."""
    scores, alpha, beta = tables.scores, tables.alpha, tables.beta
    for node in range(lattice.nodes[stop - 1], lattice.nodes[stop]):
        beta[node] = 1.0
    for token in range(stop - 1, first - 1, -1):
        inverse = tables.inverse[token]
        if token > first:
            for node in range(lattice.nodes[token - 1], lattice.nodes[token]):
                beta[node] = 0.0
        begin, end = lattice.nodes[token], lattice.nodes[token + 1]
        for node in range(begin, end):  # alpha becomes the marginal of the node, and beta the factor of its steps
            share, alpha[node] = alpha[node] * beta[node], beta[node]
            beta[node] = inverse * scores[lattice.candidate[node]] * alpha[node]
            alpha[node] = share
        for candidate in range(lattice.starts[token], lattice.starts[token + 1]):
            scores[candidate] = 0.0
        for node in range(begin, end):
            scores[lattice.candidate[node]] += alpha[node]
        for step in range(lattice.steps[token], lattice.steps[token + 1]):  # (11), (12)
            source, arc = lattice.source[step], lattice.arc[step]
            product = weights.arc_weight[arc] * beta[lattice.target[step]]
            marginal = alpha[source] * product
            if len(sums.arcs):
                sums.arcs[arc] += weight * marginal
            if len(sums.steps):
                sums.steps[step] = marginal
            if source > 0:
                beta[source] += product


@njit(cache=True, nogil=True, error_model="numpy")
def _count(lattice, first, stop, tables, weight, counts):
    """Add the expected counts of the features of the tokens [first, stop) (14)."""
    has_values, has_parts = len(lattice.values) > 0, len(lattice.links) > 0
    marginals = tables.columns if has_parts else tables.scores
    if has_parts:
        marginals[lattice.columns[first] : lattice.columns[stop]] = 0.0
        for candidate in range(lattice.starts[first], lattice.starts[stop]):  # (39), transposed
            for link in range(lattice.links[candidate], lattice.links[candidate + 1]):
                marginals[lattice.column[link]] += tables.scores[candidate]
    for column in range(lattice.columns[first], lattice.columns[stop]):
        share = weight * marginals[column]
        if share == 0.0:
            continue
        if has_values:
            for entry in range(lattice.entries[column], lattice.entries[column + 1]):
                counts[lattice.pairs[entry]] += share * lattice.values[entry]
        else:
            for entry in range(lattice.entries[column], lattice.entries[column + 1]):
                counts[lattice.pairs[entry]] += share


@njit(cache=True, nogil=True, error_model="numpy")
def count_labels(lattice, chosen, weight, counts):
    """Add the counts of features for given labels: ``chosen`` (N,) candidates, ``weight`` (N,), ``counts`` (K,) out."""
    for token in range(len(chosen)):
        first, stop = chosen[token], chosen[token] + 1
        if len(lattice.links):
            first, stop = lattice.links[first], lattice.links[stop]
        for item in range(first, stop):
            column = np.int64(lattice.column[item]) if len(lattice.links) else item
            for entry in range(lattice.entries[column], lattice.entries[column + 1]):
                value = lattice.values[entry] if len(lattice.values) else 1.0
                counts[lattice.pairs[entry]] += value * weight[token]


# --- in logarithms ----------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _beta(lattice, weights, first, stop, tables, adds):
    """Compute log beta of a sequence of at least one token from its scores, and return log Z.

    If ``adds`` is False, beta is the score of the best continuation (15), and the kernel returns the best score.
    """
    beta = tables.beta
    beta[0] = -np.inf
    for node in range(lattice.nodes[first], lattice.nodes[stop - 1]):
        beta[node] = -np.inf
    for node in range(lattice.nodes[stop - 1], lattice.nodes[stop]):
        beta[node] = 0.0
    for step in range(lattice.steps[stop] - 1, lattice.steps[first] - 1, -1):
        target, source = lattice.target[step], lattice.source[step]
        score = tables.scores[lattice.candidate[target]] + weights.arc_score[lattice.arc[step]] + beta[target]
        beta[source] = log_add(beta[source], score) if adds else max(beta[source], score)
    return beta[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _spread(lattice, weights, first, stop, tables, weight, sums):
    """After ``_beta``, compute the results of ``_backward``: divide the probability of each node among its steps."""
    scores, share, beta = tables.scores, tables.alpha, tables.beta
    for node in range(lattice.nodes[first], lattice.nodes[stop]):
        share[node] = 0.0
    for step in range(lattice.steps[first], lattice.steps[stop]):
        target, source, arc = lattice.target[step], lattice.source[step], lattice.arc[step]
        if share[source] == 0.0:  # the share of node 0 is 1
            continue
        score = scores[lattice.candidate[target]] + weights.arc_score[arc] + beta[target]
        marginal = share[source] * np.exp(min(score - beta[source], 0.0))
        share[target] += marginal
        if len(sums.arcs):
            sums.arcs[arc] += weight * marginal
        if len(sums.steps):
            sums.steps[step] = marginal
    for candidate in range(lattice.starts[first], lattice.starts[stop]):
        scores[candidate] = 0.0
    for node in range(lattice.nodes[first], lattice.nodes[stop]):
        scores[lattice.candidate[node]] += share[node]


# --- passes -----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def expect(lattice, weights, chunk, tables, log_z, sums):
    """Write log Z (n,) of a chunk of sequences and, in ``tables``, their marginals; add the other results to ``sums``.

    The kernel computes no marginals for sequences whose log Z is not finite. If ``sums.weight`` is empty, it writes
    only log Z.
    """
    tables.alpha[0] = 1.0
    for sequence in range(chunk[0], chunk[1]):
        first, stop = lattice.offsets[sequence], lattice.offsets[sequence + 1]
        log_z[sequence], is_good = 0.0, False
        if first == stop:
            continue
        weight = sums.weight[sequence] if len(sums.weight) else 0.0
        if weights.scales:
            log_z[sequence], is_good = _forward(lattice, weights, first, stop, tables)
            if is_good and len(sums.weight):
                _backward(lattice, weights, first, stop, tables, weight, sums)
        if not is_good:
            _score(lattice, weights, first, stop, tables)
            log_z[sequence] = _beta(lattice, weights, first, stop, tables, True)
            if not (len(sums.weight) and np.isfinite(log_z[sequence])):
                continue
            _spread(lattice, weights, first, stop, tables, weight, sums)
        if len(sums.pairs):
            _count(lattice, first, stop, tables, weight, sums.pairs)


@njit(cache=True, nogil=True, error_model="numpy")
def decode(lattice, weights, chunk, tables, best, codes):
    """Write the scores (n,) and label codes (N,) of the best labellings; ties go to the lowest label."""
    for sequence in range(chunk[0], chunk[1]):
        first, stop, node = lattice.offsets[sequence], lattice.offsets[sequence + 1], np.int64(0)
        best[sequence] = 0.0
        if first == stop:
            continue
        _score(lattice, weights, first, stop, tables)
        best[sequence] = _beta(lattice, weights, first, stop, tables, False)
        for token in range(first, stop):
            highest, chosen = -np.inf, np.int64(-1)
            for step in range(lattice.steps[token], lattice.steps[token + 1]):
                if lattice.source[step] == node:
                    target = np.int64(lattice.target[step])
                    score = tables.scores[lattice.candidate[target]] + weights.arc_score[lattice.arc[step]]
                    score += tables.beta[target]
                    if score > highest:
                        highest, chosen = score, target
            if chosen < 0:  # no labelling is possible
                break
            node = chosen
            codes[token] = lattice.labels[lattice.candidate[node]]


@njit(cache=True, nogil=True, error_model="numpy")
def draw(lattice, conditional, uniform, codes):
    """Draw labellings (36): ``uniform`` (N, D) in [0, 1), ``codes`` (N, D) out.

    conditional : (E,)   the probability of each step, given the node that it leaves
    """
    for sequence in range(len(lattice.offsets) - 1):
        for sample in range(codes.shape[1]):
            node = np.int64(0)
            for token in range(lattice.offsets[sequence], lattice.offsets[sequence + 1]):
                left, chosen = uniform[token, sample], np.int64(-1)
                for step in range(lattice.steps[token], lattice.steps[token + 1]):
                    if lattice.source[step] == node and conditional[step] > 0.0:
                        chosen = step
                        left -= conditional[step]
                        if left < 0.0:
                            break
                node = np.int64(lattice.target[chosen])
                codes[token, sample] = lattice.labels[lattice.candidate[node]]


@njit(cache=True, nogil=True, error_model="numpy")
def best_labellings(lattice, weights, chunk, tables, best, codes, regret):
    """Find the D labellings of each sequence with the highest scores, best first.

    best : (n,) out, the highest score      codes : (D, N) int32 out
    regret : (D, n) out, the highest score minus the score of each labelling

    For each node, the kernel stores its D best continuations: the score, the first step, and the rank of the remaining
    continuation at the target of this step.
    """
    n_wanted, most = len(codes), 1
    for sequence in range(chunk[0], chunk[1]):
        first, stop = lattice.offsets[sequence], lattice.offsets[sequence + 1]
        most = max(most, lattice.nodes[stop] - lattice.nodes[first] + 1)
    score, count = np.empty((most, n_wanted)), np.empty(most, np.int64)
    step_of, rank_of = np.empty((most, n_wanted), np.int64), np.empty((most, n_wanted), np.int64)
    for sequence in range(chunk[0], chunk[1]):
        first, stop = lattice.offsets[sequence], lattice.offsets[sequence + 1]
        best[sequence] = 0.0
        if first == stop:
            continue
        _score(lattice, weights, first, stop, tables)
        shift = lattice.nodes[first] - 1  # the slot of a node is its id minus this; slot 0 is for node 0
        count[: lattice.nodes[stop] - shift] = 0
        for node in range(lattice.nodes[stop - 1], lattice.nodes[stop]):
            score[node - shift, 0], count[node - shift] = 0.0, 1
        for token in range(stop - 1, first - 1, -1):
            for step in range(lattice.steps[token], lattice.steps[token + 1]):
                target = np.int64(lattice.target[step])
                step_score = tables.scores[lattice.candidate[target]] + weights.arc_score[lattice.arc[step]]
                source = max(np.int64(lattice.source[step]) - shift, 0)
                for rank in range(count[target - shift]):
                    total, slot = step_score + score[target - shift, rank], count[source]
                    while slot > 0 and score[source, slot - 1] < total:  # earlier entries of equal score stay in front
                        slot -= 1
                    if slot == n_wanted or total == -np.inf:
                        break
                    count[source] = min(count[source] + 1, n_wanted)
                    for other in range(count[source] - 1, slot, -1):
                        score[source, other] = score[source, other - 1]
                        step_of[source, other] = step_of[source, other - 1]
                        rank_of[source, other] = rank_of[source, other - 1]
                    score[source, slot], step_of[source, slot], rank_of[source, slot] = total, step, rank
        best[sequence] = score[0, 0] if count[0] else -np.inf
        for labelling in range(count[0]):
            regret[labelling, sequence] = score[0, 0] - score[0, labelling]
            slot, rank = 0, labelling
            for token in range(first, stop):
                step, rank = step_of[slot, rank], rank_of[slot, rank]
                codes[labelling, token] = lattice.labels[lattice.candidate[lattice.target[step]]]
                slot = np.int64(lattice.target[step]) - shift

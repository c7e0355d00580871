"""Log-space twins of ``chain``: one sequence at a time, for the lanes that scaling cannot represent.

Read this one first: it has the recursions of ``chain`` without lanes, scales and tables of weights. Equations are those
of docs/develop/theory.md.

Same recursions and the same sum network, in the semiring (logaddexp, +) of equation (16). Slower, and right for weights
of any size; impossible is -inf. Rows of alpha are normalised to a total of 1 here, too, and marginals position by
position: numbers that grew with the length would lose their last digits. Shapes as in ``chain``; only lane 0 is used.

Complex tables give derivatives: numbers whose imaginary parts are small enough for their squares to vanish follow the
rules of dual numbers (the complex-step derivative), so that the imaginary parts of answers are derivatives along those
of the scores. Logarithms are compared by their real parts.

    scores : (R * C, W)        varying_log : (R * Q, W)   from ``token_scores.varying_scores``
"""

import numpy as np

from ._jit import njit
from ._network import arc_log, largest_of, log_sum, sum_adjoints_log, sum_network_log


@njit(cache=True, nogil=True, error_model="numpy")
def forward_log(weighted_arcs, scores, varying_log, alpha):
    """Fill ``alpha`` (R + 1, P), whose first row is given, and return the sum of the logarithms taken out of the rows.

    The sum is -inf, and the rest of ``alpha`` is not filled, once no label sequence has any mass left.
    """
    n_states, n_rows = len(weighted_arcs.fail), len(alpha) - 1
    n_columns = len(scores) // n_rows
    values = np.empty(n_states + len(weighted_arcs.starts) - 1, alpha.dtype)
    weighted = np.empty(len(weighted_arcs.arc_varying), alpha.dtype)
    log_scale = 0.0
    for row in range(n_rows):
        # m = S alpha (7)
        sum_network_log(weighted_arcs.starts, weighted_arcs.terms, alpha[row], values)
        alpha[row + 1, 0] = -np.inf
        for state in range(1, n_states):  # alpha(j + 1, s) = xi(j, y_s) sum of omega_a m_a (9)
            first, stop = weighted_arcs.into[state], weighted_arcs.into[state + 1]
            for arc in range(first, stop):
                weighted[arc] = values[weighted_arcs.arc_value[arc]] + arc_log(weighted_arcs, varying_log, row, arc)
            score = scores[row * n_columns + weighted_arcs.state_label[state], 0]
            alpha[row + 1, state] = log_sum(weighted[first:stop]) + score
        log_total = log_sum(alpha[row + 1])  # (10)
        log_scale += log_total
        if log_total.real == -np.inf:
            break
        alpha[row + 1] -= log_total
    return log_scale


@njit(cache=True, nogil=True, error_model="numpy")
def backward_log(weighted_arcs, scores, varying_log, alpha, weight, beta, counts):
    """Turn ``scores`` into marginals, in place, and add arc marginals, times ``weight``, to ``counts``.

    alpha : from ``forward_log``; out: log beta after each row, up to a constant        counts : (A, W)
    beta : (P,)   in and out: log beta after the last row, then before the first one, up to a constant
    """
    n_states, n_arcs, n_labels = len(weighted_arcs.fail), len(weighted_arcs.arc_varying), weighted_arcs.n_labels
    n_columns = len(scores) // (len(alpha) - 1)
    values = np.empty(n_states + len(weighted_arcs.starts) - 1, alpha.dtype)
    adjoints = np.empty(n_arcs + len(weighted_arcs.back_starts) - 1, alpha.dtype)
    used = np.empty(weighted_arcs.into[n_states], alpha.dtype)
    marginals = np.empty(n_labels, alpha.dtype)
    varying_marginals = np.empty(len(weighted_arcs.varying_arc), alpha.dtype)
    for row in range(len(alpha) - 2, -1, -1):
        alpha[row + 1] = beta
        sum_network_log(weighted_arcs.starts, weighted_arcs.terms, alpha[row], values)
        for state in range(1, n_states):  # b_a(j) (11), and its product with m_a(j) (12)
            score = scores[row * n_columns + weighted_arcs.state_label[state], 0]
            for arc in range(weighted_arcs.into[state], weighted_arcs.into[state + 1]):
                adjoints[arc] = beta[state] + score + arc_log(weighted_arcs, varying_log, row, arc)
                used[arc] = adjoints[arc] + values[weighted_arcs.arc_value[arc]]
        used[:] = np.exp(used - log_sum(used))
        marginals[:] = 0.0
        for arc in range(len(used)):
            marginals[weighted_arcs.arc_label[arc]] += used[arc]
            counts[arc, 0] += weight * used[arc]
            if weighted_arcs.arc_varying[arc] >= 0:
                varying_marginals[weighted_arcs.arc_varying[arc]] = used[arc]
        # beta = S^T b (11)
        sum_adjoints_log(weighted_arcs.back_starts, weighted_arcs.back_terms, n_arcs, adjoints)
        beta[:] = adjoints[len(adjoints) - n_states :]
        beta -= largest_of(beta)
        for label in range(n_labels):
            scores[row * n_columns + label, 0] = marginals[label]
        for column in weighted_arcs.varying_column:  # arcs may share one
            if column >= 0:
                scores[row * n_columns + column, 0] = 0.0
        for varying_id in range(len(varying_marginals) - 1, -1, -1):  # (13)
            if weighted_arcs.varying_suffix[varying_id] >= 0:
                varying_marginals[weighted_arcs.varying_suffix[varying_id]] += varying_marginals[varying_id]
            if weighted_arcs.varying_column[varying_id] >= 0:
                scores[row * n_columns + weighted_arcs.varying_column[varying_id], 0] += varying_marginals[varying_id]

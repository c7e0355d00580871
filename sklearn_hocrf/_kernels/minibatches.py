"""The weights of the features of a few sequences, and the counts of their labels.

They make the gradient of a minibatch, equation (28) of docs/develop/theory.md.

Sequence n of a batch has the entries ``starts[n] .. starts[n + 1]`` of its features. An entry gives the range of the
pairs of its feature: ``first .. stop``. No dense table is used.

Shapes: n sequences of the batch, K pairs.
"""

from ._jit import njit


@njit(cache=True, nogil=True, error_model="numpy")
def find_pairs(first, stop, starts, sequences, seen, pair_ids, count):
    """List the pairs of the features of some sequences, each once, and return their number.

    first, stop : (nnz,)        starts : (n + 1,)        sequences : indices of some sequences
    seen : (K,)   True at the first pair of each feature listed, in and out
    pair_ids : (K,)   out, from ``count`` on
    """
    for sequence in sequences:
        for entry in range(starts[sequence], starts[sequence + 1]):
            if stop[entry] > first[entry] and not seen[first[entry]]:
                seen[first[entry]] = True
                for pair in range(first[entry], stop[entry]):
                    pair_ids[count] = pair
                    count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def subtract_entries(starts, weight_ids, values, sequences, sequence_weight, weights, gradient):
    """Subtract the counts of some sequences, and return the sum of the weights.

    starts : (n + 1,)        weight_ids : (nnz,)   the counted weights        values : (nnz,), or empty if all are 1
    weights, gradient : by weight, gradient in and out        all weighted by ``sequence_weight`` (n,)
    """
    score = 0.0
    for sequence in sequences:
        for entry in range(starts[sequence], starts[sequence + 1]):
            value = values[entry] if len(values) else 1.0
            score += value * weights[weight_ids[entry]] * sequence_weight[sequence]
            gradient[weight_ids[entry]] -= value * sequence_weight[sequence]
    return score

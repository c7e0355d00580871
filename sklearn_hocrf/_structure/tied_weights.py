"""Attributes that always occur together: one variable does for all of their weights.

Rare attributes often come in company, as all those do that occur once, at the same token. Where attributes have the
same values at the same tokens, and pairs with the same score columns, scores depend on the sum of their weights alone.
So under a convex penalty that treats them alike their weights are equal at the optimum; and so they are all the way of
a solver that starts from equal weights and asks for values and gradients only. Such g weights w become one variable
u = sqrt(g) w. The map keeps inner products, hence norms, the Gaussian penalty and every step of a quasi-Newton method:
training comes to the same, with fewer weights to carry along and fewer entries of sparse rows to look at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .._data.batch import SequenceBatch
from .layout import WeightLayout

__all__ = ["Ties", "tie_weights"]


class Ties(NamedTuple):
    """Which weights are equal.   K weights, M variables."""

    layout: WeightLayout  # of one attribute of each kind: its weights are the sums of the weights that are equal
    place: np.ndarray  # (K,) int64   variable of each weight
    root: np.ndarray  # (M,) float64   square root of the number of weights of each variable

    def narrow(self, w: np.ndarray) -> np.ndarray:
        """Return the variables for weights, which are replaced by their means where they differ; shape (M,)."""
        return np.bincount(self.place, weights=w, minlength=len(self.root)) / self.root

    def widen(self, u: np.ndarray) -> np.ndarray:
        """Return the weights for variables; shape (K,)."""
        return (u / self.root)[self.place]


def tie_weights(layout: WeightLayout, batch: SequenceBatch, groups: np.ndarray | None = None) -> Ties:
    """Find the weights that no training on a batch can tell apart.

    Parameters
    ----------
    layout : WeightLayout
    batch : SequenceBatch
    groups : ndarray of shape (n_weights,), int, or None
        Numbers from 0; weights of different groups are not tied, as those of different penalties must not be. None
        stands for one group.

    Returns
    -------
    Ties

    Examples
    --------
    >>> from sklearn_hocrf._structure.layout import LayoutBuilder, LayoutFrame
    >>> from sklearn_hocrf._structure.pairs import PairRule
    >>> from sklearn_hocrf._structure.patterns import observed_patterns
    >>> codes = np.array([0, 1, 1], dtype=np.int32)
    >>> batch = SequenceBatch([0, 3], [0, 3, 4, 5], [0, 1, 2, 3, 2], None, 4)  # attributes 0 and 1 at the first token
    >>> frame = LayoutFrame.of(observed_patterns(codes, batch.offsets, 2, 0))
    >>> builder = LayoutBuilder(frame, PairRule(), fit_intercept=False)
    >>> layout = builder.build(builder.count(batch, codes))
    >>> ties = tie_weights(layout, batch)
    >>> layout.n_weights, ties.layout.n_weights
    (5, 4)
    >>> ties.widen(ties.narrow([1.0, 3.0, 5.0, 5.0, 7.0])).round(9).tolist()
    [2.0, 2.0, 5.0, 5.0, 7.0]
    >>> tie_weights(layout, batch, np.array([0, 1, 0, 0, 0])).layout.n_weights
    5
    """
    first = _representatives(layout, batch, groups)  # by rank
    starts, n_pairs = layout.pairs.starts, layout.n_pairs
    rank = np.repeat(np.arange(len(first)), np.diff(starts))
    kept = np.ones(layout.n_weights, dtype=bool)
    kept[:n_pairs] = (first == np.arange(len(first)))[rank]
    same = np.arange(layout.n_weights)  # the weight among those kept
    same[:n_pairs] += (starts[first] - starts[:-1])[rank]
    place = (np.cumsum(kept) - 1)[same]
    pairs = np.flatnonzero(kept[:n_pairs])
    return Ties(
        layout.with_pairs(layout.pair_feature[pairs], layout.pair_pattern[pairs]),
        place,
        np.sqrt(np.bincount(place)),
    )


def _representatives(layout: WeightLayout, batch: SequenceBatch, groups: np.ndarray | None) -> np.ndarray:
    """Return the first attribute of the same kind for each, both by rank.

    Attributes are told apart by sums of random numbers modulo 2**64: over their entries, of one for each token times
    one for the value, and over their pairs, of one for each score column, times one for the group if there are several.
    That two such sums agree by chance has a probability of about 1e-38.
    """
    rng = np.random.default_rng(0)
    n_attributes, n_columns = len(layout.features.sort_key), layout.pairs.n_columns
    sums = _random(rng, n_attributes)  # those that are no attributes of tokens are all of a different kind
    sums[: batch.n_attributes] = 0
    for first, last in batch.ranges_of_tokens():
        low, high = batch.indptr[first], batch.indptr[last]
        values = np.ones(high - low, np.uint64) if batch.values is None else _mixed(batch.values[low:high])
        sums[: batch.n_attributes] += batch.entries(first, last, values).T @ _random(rng, last - first)
    if batch.dense is not None:  # measurements hardly ever agree at all tokens: to look would cost more than it brings
        sums[batch.dense.attributes] = _random(rng, len(batch.dense.attributes))
    starts = layout.pairs.starts
    of_columns = _random(rng, n_columns)
    marks = np.ones(layout.n_pairs, np.uint64) if groups is None else _marks(rng, groups[: layout.n_pairs], starts)
    columns = sparse.csr_array((marks, layout.pairs.columns, starts), shape=(len(starts) - 1, n_columns))
    sums = sums[layout.attribute_of_rank] + columns @ of_columns
    order = np.lexsort(sums.T)
    differs = np.append(True, (np.diff(sums[order], axis=0) != 0).any(axis=1)) if len(order) else order
    representative = np.empty(len(order), dtype=np.int64)
    representative[order] = order[np.maximum.accumulate(np.where(differs, np.arange(len(order)), 0))]
    return representative


def _marks(rng: np.random.Generator, groups: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return an odd random number of 64 bits for each pair, by its group and its place among its attribute's pairs.

    The place tells apart two attributes that have one column twice (two of their features count them alike), with the
    same groups the other way round.
    """
    place = np.arange(len(groups)) - np.repeat(starts[:-1], np.diff(starts))
    of_groups, of_places = (_random(rng, n.max(initial=0) + 1)[:, 0] | np.uint64(1) for n in (groups, place))
    return of_groups[groups] * of_places[place]


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return odd numbers of 64 bits for numbers, by the finaliser of splitmix64.

    The bits of round numbers end in zeros, as then the bits of all products modulo 2**64 would.
    """
    bits = values.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31)) | np.uint64(1)


def _random(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 2**64, size=(n, 2), dtype=np.uint64)

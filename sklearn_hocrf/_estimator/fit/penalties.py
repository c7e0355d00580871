"""Groups of weights, named by keys: pairs by pattern order or feature name, patterns by order.

A key is ("features", k), the pairs of features and patterns of order k; ("patterns", k), the biases of patterns of
order k; "prefix" or ("prefix", k), the pairs of features whose names begin with the prefix, of all orders or of one; or
None, all weights that no other key covers. Tuples that begin with "features" or "patterns" never mean prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..._engine.structure.layout import WeightLayout

_KINDS = ("features", "patterns")


def weight_groups(layout: WeightLayout, names: Iterable | None, keys: Sequence[Any]) -> np.ndarray:
    """Return the key that covers each weight.

    A weight of a pair belongs to the longest prefix of the feature's name that has a key for the pattern's order, a key
    for exactly this order before a key for all orders; else to ("features", k). A pattern's bias belongs to
    ("patterns", k). All other weights belong to None.

    Parameters
    ----------
    layout : WeightLayout
    names : iterable of str, or None
        Names of the features; they are read only if a key has a prefix.
    keys : sequence of keys
        Distinct keys, in any order. Keys of orders that the layout lacks cover nothing.

    Returns
    -------
    groups : ndarray of shape (n_weights,), int64
        Index into ``keys``, -1 for weights without a key.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> crf = HighOrderCRF().fit([[["w=the", "bias"], ["w=man"]]], [["DET", "NOUN"]])
    >>> keys = [None, ("features", 0), "w=", ("w=m", 0), ("patterns", 1), ("patterns", 2)]
    >>> crf.feature_names_in_.tolist(), crf._state.layout.pair_feature.tolist()
    (['bias', 'w=man', 'w=the'], [0, 2, 1])
    >>> weight_groups(crf._state.layout, crf.feature_names_in_, keys).tolist()
    [1, 2, 3, 0, 0, 4]
    """
    index_of = {key: index for index, key in enumerate(keys)}
    rest = index_of.get(None, -1)
    with_prefix = {key: index for key, index in index_of.items() if prefix_of_key(key) is not None}
    prefixes = list(dict.fromkeys(prefix for key in index_of if (prefix := prefix_of_key(key)) is not None))
    by_length = match_prefixes(names, prefixes) if prefixes and names is not None else []
    groups = np.full(layout.n_weights, rest, dtype=np.int64)
    pair_order, bias_order = np.split(layout.order_of_weight, [layout.n_pairs])
    for order in np.unique(pair_order).tolist():
        of_feature = np.full(layout.n_features, index_of.get(("features", order), rest), dtype=np.int64)
        by_prefix = [with_prefix.get((prefix, order), with_prefix.get(prefix, -1)) for prefix in prefixes]
        of_prefix = np.array([*by_prefix, -1])  # the last one: names without a prefix of some length
        for matched in by_length:  # longer prefixes come later and win
            index = of_prefix[matched]
            of_feature[index >= 0] = index[index >= 0]
        pairs = np.flatnonzero(pair_order == order)
        groups[pairs] = of_feature[layout.pair_feature[pairs]]
    for order in np.unique(bias_order).tolist():
        groups[layout.n_pairs + np.flatnonzero(bias_order == order)] = index_of.get(("patterns", order), rest)
    return groups


def prefix_of_key(key: Any) -> str | None:
    """Return the prefix of feature names in a key, or None.

    Examples
    --------
    >>> [prefix_of_key(key) for key in ["w=", ("w=", 1), "features", ("features", 1), None]]
    ['w=', 'w=', 'features', None, None]
    """
    if isinstance(key, tuple):
        return None if key[0] in _KINDS else key[0]
    return key


def match_prefixes(names: Iterable, prefixes: Sequence[str]) -> list[np.ndarray]:
    """Return, for each length of prefixes, shortest first, the prefix with which each name begins.

    Parameters
    ----------
    names : iterable of str
        n names.
    prefixes : sequence of str
        Distinct prefixes.

    Returns
    -------
    matched : list of ndarray of shape (n,), int64
        Indices into ``prefixes``; -1 for names without a prefix of this length.

    Examples
    --------
    >>> [
    ...     matched.tolist()
    ...     for matched in match_prefixes(["ab", "b", "abc"], ["abc", "a", "b"])
    ... ]
    [[1, 2, 1], [-1, -1, 0]]
    """
    names = list(map(str, names))
    matched = []
    for length in sorted(set(map(len, prefixes))):
        index_of = {prefix: index for index, prefix in enumerate(prefixes) if len(prefix) == length}
        matched.append(np.array([index_of.get(name[:length], -1) for name in names], dtype=np.int64))
    return matched


def unmatched(by_length: list[np.ndarray], n_prefixes: int) -> list[int]:
    """Return the indices of the prefixes with which no name begins, given the result of :func:`match_prefixes`."""
    return np.setdiff1d(np.arange(n_prefixes), np.concatenate(by_length)).tolist() if by_length else []

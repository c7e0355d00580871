"""The penalty of each weight, and the orders of features: both use prefixes of feature names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..._data.checks import short
from ..._data.messages import warn_user
from ..._engine.structure.layout import WeightLayout
from ..._engine.training.penalties import Penalty
from .parameters import has_l1, is_order

_KINDS = ("features", "patterns")
Names: TypeAlias = Sequence[str] | None  # of features


def weight_groups(layout: WeightLayout, names: Iterable | None, keys: Sequence[str | tuple | None]) -> np.ndarray:
    """Return the key that covers each weight.

    The weight of a pair belongs to the longest prefix of the feature's name that has a key for the pattern's order,
    otherwise to ("features", k). For the same prefix, a key for exactly this order takes precedence over a key for all
    orders. The bias of a pattern belongs to ("patterns", k). All other weights belong to the key None.

    Parameters
    ----------
    layout : WeightLayout
    names : iterable of str, or None
        Names of the features; they are read only if a key contains a prefix.
    keys : sequence of keys
        Distinct keys, in any order. Keys of orders that the layout lacks cover no weights.

    Returns
    -------
    groups : ndarray of shape (n_weights,), int64
        Indices into ``keys``; -1 for weights without a key.

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
        of_prefix = np.array([*by_prefix, -1])  # the last element is for names without a matching prefix
        for matched in by_length:  # longer prefixes come later and take precedence
            index = of_prefix[matched]
            of_feature[index >= 0] = index[index >= 0]
        pairs = np.flatnonzero(pair_order == order)
        groups[pairs] = of_feature[layout.pair_feature[pairs]]
    for order in np.unique(bias_order).tolist():
        groups[layout.n_pairs + np.flatnonzero(bias_order == order)] = index_of.get(("patterns", order), rest)
    return groups


def prefix_of_key(key: str | tuple | None) -> str | None:
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
    """For each length of prefixes, in ascending order, return the prefix with which each name begins.

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
    """Return the indices of the prefixes with which no name begins, from the result of :func:`match_prefixes`."""
    return np.setdiff1d(np.arange(n_prefixes), np.concatenate(by_length)).tolist() if by_length else []


class Prior(NamedTuple):
    """The prior that ``sigma_reg`` and ``l1_reg`` specify; only this class converts them to a penalty."""

    sigma_reg: Any
    l1_reg: Any

    def penalty(self, layout: WeightLayout, names: Names = None, labels: np.ndarray | None = None) -> Penalty:
        """Return the penalty on the weights of a layout.

        Parameters
        ----------
        layout : WeightLayout
        names : sequence of str, or None
            Names of the layout's features, if they have names; keys of mappings may be prefixes of these names.
        labels : ndarray of shape (L,), or None
            The user's labels, for error messages.

        Raises
        ------
        ValueError
            If a weight is covered by no key of a mapping, or if a mapping contains prefixes although features have no
            names.
        """

        def of_weights(name: str) -> np.ndarray:
            value = getattr(self, name)
            if isinstance(value, Mapping):
                return values_by_group(name, value, layout, names, labels)
            return np.array([value], dtype=np.float64)

        precision = (1.0 / of_weights("sigma_reg")) ** 2
        return Penalty(precision, of_weights("l1_reg") if has_l1(self.l1_reg) else 0.0)

    def warn_of_unused_prefixes(self, names: Any) -> None:
        """Warn about prefixes in mappings with which no feature name begins."""
        for parameter, value in zip(self._fields, self, strict=True):
            prefixes = _prefixes(value) if isinstance(value, Mapping) else []
            for index in unmatched(match_prefixes(names, prefixes), len(prefixes)) if prefixes else ():
                warn_user(f"{parameter}: no feature name begins with {short(prefixes[index])}")


def values_by_group(
    parameter: str, value_of: Mapping, layout: WeightLayout, names: Names, labels: np.ndarray | None
) -> np.ndarray:
    """For each weight, return the value of the mapping's key that covers the weight."""
    if names is None and _prefixes(value_of):
        raise ValueError(f"{parameter}={short(value_of)} selects features by name, but X has no feature names")
    keys = list(value_of)
    groups = weight_groups(layout, names, keys)
    uncovered = np.flatnonzero(groups < 0)
    if len(uncovered):
        raise ValueError(_not_covered(parameter, int(uncovered[0]), layout, names, labels))
    return np.array([value_of[key] for key in keys], dtype=np.float64)[groups]


def _prefixes(keys: Iterable) -> list[str]:
    """Return the distinct prefixes of feature names in keys."""
    return list(dict.fromkeys(prefix for prefix in map(prefix_of_key, keys) if prefix is not None))


def _not_covered(parameter: str, weight: int, layout: WeightLayout, names: Names, labels: np.ndarray | None) -> str:
    """Return the error message about a weight that no key covers."""
    is_pair, order = weight < layout.n_pairs, int(layout.order_of_weight[weight])
    row = layout.row_of_weight[weight]
    what = "a part of labels"
    if row < len(layout.patterns.lengths):
        codes = layout.patterns.labels[row, -order - 1 :].tolist()
        run = tuple(codes if labels is None else labels[codes].tolist())
        what = f"the pattern {short(run, 40)} of order {order}"
    if is_pair:
        feature = int(layout.pair_feature[weight])
        what = f"the feature {short(feature if names is None else str(names[feature]), 40)} with {what}"
    key = ("features" if is_pair else "patterns", order)
    return f"{parameter} has no key for the weight of {what}: add {key!r}, or None for the rest"


def resolve_feature_orders(feature_order: Any, max_order: int, names: Names) -> tuple[int, ...] | list[tuple[int, ...]]:
    """Return the orders of the patterns with which each feature is paired.

    Parameters
    ----------
    feature_order : int or dict
        The parameter of the estimators.
    max_order : int
        Highest order of patterns.
    names : sequence of str, or None
        Names of the features, if they have any.

    Returns
    -------
    orders : tuple of int, or list of tuples of int
        Exact orders: one tuple for all features, or one per feature.

    Raises
    ------
    ValueError
        If ``feature_order`` is a dict and features have no names.

    Warns
    -----
    UserWarning
        If no feature name begins with a prefix.
    """
    if not isinstance(feature_order, dict):
        return _orders_up_to(feature_order, max_order)
    if names is None:
        raise ValueError(f"feature_order={feature_order!r} selects features by name, but X has no feature names")
    prefixes = list(feature_order)
    choice, by_length = np.full(len(names), -1), match_prefixes(names, prefixes)
    for matched in by_length:  # longer prefixes come later and take precedence
        choice[matched >= 0] = matched[matched >= 0]
    for index in unmatched(by_length, len(prefixes)):
        warn_user(f"feature_order: no feature name begins with {prefixes[index]!r}")
    choices = []
    for orders in feature_order.values():
        choices.append(_orders_up_to(orders, max_order) if is_order(orders) else tuple(sorted(set(orders))))
    choices.append((0,))  # index -1: no prefix matches
    return [choices[index] for index in choice.tolist()]


def _orders_up_to(order: int, max_order: int) -> tuple[int, ...]:
    return tuple(range(min(order, max_order) + 1))

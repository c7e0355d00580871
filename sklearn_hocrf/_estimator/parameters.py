"""The parameters of the estimators: their types and ranges, and the checks that go beyond these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._data.checks import short
from .._validation import warn_user
from .._validation._sklearn import HasMethods, Interval, StrOptions
from .fitting import OBJECTIVES, SOLVERS

__all__ = [
    "PARAMETER_CONSTRAINTS",
    "check_max_segment_length",
    "check_parameters",
    "check_patterns",
    "resolve_feature_orders",
]

PARAMETER_CONSTRAINTS: dict[str, list] = {
    "max_order": [Interval(Integral, 0, None, closed="left")],
    "sigma_reg": [Interval(Real, 0, None, closed="right"), "array-like"],
    "l1_reg": [Interval(Real, 0, None, closed="left"), "array-like"],
    "patterns": [Iterable],
    "min_pattern_count": [Interval(Real, 0, None, closed="left")],
    "feature_order": [Interval(Integral, 0, None, closed="left"), dict],
    "min_feature_count": [Interval(Real, 0, None, closed="left")],
    "fit_intercept": ["boolean"],
    "unsupported": ["boolean"],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "objective": [StrOptions(set(OBJECTIVES)), HasMethods("bind")],
    "penalty": [HasMethods(["value", "gap"]), None],
    "solver": [StrOptions({"auto", *SOLVERS}), HasMethods("solve")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
}


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check what ``PARAMETER_CONSTRAINTS`` cannot express.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name, as ``get_params(deep=False)`` returns them.

    Raises
    ------
    ValueError
        For the first parameter that is not valid.
    """
    if isinstance(parameters["max_order"], bool):
        raise ValueError(f"max_order must be an integer >= 0, got {parameters['max_order']!r}")
    _check_sigma_reg(parameters["sigma_reg"])
    _check_l1_reg(parameters["l1_reg"])
    check_patterns(parameters["patterns"])
    for name in ("objective", "penalty", "solver"):
        if isinstance(parameters[name], type):
            raise ValueError(f"{name} is the class {parameters[name].__name__}: use an instance of it")
    if parameters["penalty"] is not None and np.any(parameters["l1_reg"]):
        raise ValueError(f"l1_reg={parameters['l1_reg']!r} and penalty={parameters['penalty']!r} exclude each other")
    if isinstance(parameters["feature_order"], dict):
        _check_orders_of_prefixes(parameters["feature_order"])


def _check_sigma_reg(sigma_reg) -> None:
    sigmas = np.asarray(sigma_reg)
    if sigmas.ndim > 1 or sigmas.size == 0 or sigmas.dtype.kind not in "iuf" or not (sigmas > 0).all():
        raise ValueError(
            "sigma_reg must be a number > 0, or a sequence of numbers > 0, one per order; inf means no penalty. "
            f"Got {short(sigma_reg)}"
        )
    with np.errstate(over="ignore"):
        if not np.isfinite((1.0 / sigmas) ** 2).all():
            raise ValueError(
                f"sigma_reg={sigma_reg!r} is too small: floating point numbers cannot hold 1 / sigma_reg^2: "
                "rescale numeric features, sample weights or the penalty"
            )


def _check_l1_reg(l1_reg) -> None:
    strengths = np.asarray(l1_reg)
    has_form = strengths.ndim <= 1 and strengths.size > 0 and strengths.dtype.kind in "iuf"
    if not has_form or not ((strengths >= 0) & np.isfinite(strengths)).all():
        raise ValueError(
            "l1_reg must be a number >= 0, or a sequence of numbers >= 0, one per order; all of them finite. Got "
            f"{l1_reg!r}"
        )


def check_patterns(patterns) -> None:
    """Check the form of label patterns that are given by the user."""
    if isinstance(patterns, str) and patterns not in ("observed", "all"):
        raise ValueError(f'patterns must be "observed", "all" or an iterable of tuples of labels, got {patterns!r}')
    if isinstance(patterns, Iterator):  # a second fit would find it empty
        raise ValueError(f"patterns is a {type(patterns).__name__}, which can be read only once: use a list")


def _check_orders_of_prefixes(feature_order) -> None:
    for prefix, orders in feature_order.items():
        is_tuple_of_orders = isinstance(orders, tuple) and len(orders) > 0 and all(map(_is_order, orders))
        if not isinstance(prefix, str) or not (_is_order(orders) or is_tuple_of_orders):
            raise ValueError(
                "feature_order maps name prefixes to an int k (orders 0..k) or a tuple of exact orders; "
                f"got {prefix!r}: {orders!r}"
            )


def _is_order(value) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def check_max_segment_length(max_segment_length) -> None:
    """Check the highest length of segments, which is given for all labels or by label."""
    if isinstance(max_segment_length, bool):
        raise ValueError(f"max_segment_length must be an integer >= 1, inf, a dict or None, got {max_segment_length!r}")
    if not isinstance(max_segment_length, dict):
        return
    for label, length in max_segment_length.items():
        is_integer = isinstance(length, Integral) and not isinstance(length, bool)
        if not (is_integer or length is not None and length == np.inf) or length < 1:
            raise ValueError(f"max_segment_length maps labels to integers >= 1 or inf, got {label!r}: {length!r}")


def resolve_feature_orders(feature_order, max_order, names):
    """Return the orders of the patterns with which each feature is conjoined.

    Parameters
    ----------
    feature_order : int or dict
        As the estimators take it.
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
        For a dict where features have no names.

    Warns
    -----
    UserWarning
        For a prefix with which no name begins.
    """
    if not isinstance(feature_order, dict):
        return _orders_up_to(feature_order, max_order)
    if names is None:
        raise ValueError(f"feature_order={feature_order!r} goes by feature names, but X has none")
    names, prefixes = list(map(str, names)), sorted(feature_order, key=len)
    # most features of large models have none of the prefixes
    any_prefix = tuple(prefixes)
    candidates = [number for number, name in enumerate(names) if name.startswith(any_prefix)]
    choice = np.zeros(len(names), dtype=np.int64)
    for index, prefix in enumerate(prefixes, start=1):  # longer prefixes come later and win
        with_prefix = [number for number in candidates if names[number].startswith(prefix)]
        if not with_prefix:
            warn_user(f"feature_order: no feature name begins with {prefix!r}")
        choice[with_prefix] = index
    choices = [(0,)]
    for prefix in prefixes:
        orders = feature_order[prefix]
        choices.append(_orders_up_to(orders, max_order) if _is_order(orders) else tuple(sorted(set(orders))))
    return [choices[index] for index in choice.tolist()]


def _orders_up_to(order, max_order) -> tuple[int, ...]:
    return tuple(range(min(order, max_order) + 1))

"""The parameters of the estimators: their types and ranges, and the checks that go beyond these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..._data._settings import is_integer
from ..._data.checks import refuse_iterator, short
from ..._engine.training.lbfgs import LBFGS
from ..._engine.training.objectives import OBJECTIVES
from ..._engine.training.stochastic import SGD
from ..._reading.schemes import PREFIXES
from ..._sklearn.names import N_JOBS, Interval, StrOptions
from ..labels.constraints import Constraints, check_constraints
from ..labels.label_parts import check_label_parts

PARAMETER_CONSTRAINTS: dict[str, Any] = {
    "max_order": [Interval(Integral, 0, None, closed="left")],
    "sigma_reg": [Interval(Real, 0, None, closed="right"), Mapping],
    "l1_reg": [Interval(Real, 0, None, closed="left"), Mapping],
    "constraints": [StrOptions(set(PREFIXES)), Constraints, None],
    "patterns": [Iterable],
    "min_count": [Interval(Real, 0, None, closed="left")],
    "feature_order": [Interval(Integral, 0, None, closed="left"), dict],
    "all_pairs": ["boolean"],
    "fit_intercept": ["boolean"],
    "label_parts": [Mapping, callable, None],
    "objective": [StrOptions(set(OBJECTIVES))],
    "solver": [StrOptions({"auto", "lbfgs", "sgd"}), LBFGS, SGD],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "tol": [Interval(Real, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "n_jobs": N_JOBS,
    "verbose": ["verbose"],
    "random_state": ["random_state"],
}


GROUP_KEYS = '("features", k), ("patterns", k), "prefix", ("prefix", k) with an integer k >= 0, and None for the rest'
MAPPINGS = ("sigma_reg", "l1_reg", "label_parts")  # parameters that may be mappings whose keys are not strings


def check_parameters(parameters: Mapping[str, Any], estimator: str) -> None:
    """Check what ``PARAMETER_CONSTRAINTS`` cannot express.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name, as ``get_params(deep=False)`` returns them.
    estimator : str
        Name of the estimator, for messages.

    Raises
    ------
    ValueError
        For the first invalid parameter.
    """
    for name, least in (("max_order", 0), ("pruning", 1)):
        if isinstance(parameters.get(name), bool):
            raise ValueError(f"{name} must be an integer >= {least}, got {parameters[name]!r}")
    for name, check in (("sigma_reg", _check_sigma_reg), ("l1_reg", _check_l1_reg)):
        _check_reg(name, parameters[name], check)
    check_patterns(parameters["patterns"])
    check_constraints(parameters["constraints"])
    check_label_parts(parameters["label_parts"])
    if isinstance(parameters["feature_order"], dict):
        _check_orders_of_prefixes(parameters["feature_order"])
    if "segment_length" in parameters:
        _check_segment_length(parameters["segment_length"])
        if isinstance(parameters["constraints"], str):
            raise ValueError(
                f"constraints={parameters['constraints']!r} applies to token tags. {estimator} labels segments, so its "
                "tags are always valid; constrain the segment labels instead"
            )


def _check_reg(name: str, reg: Any, check: Callable[[Any], None]) -> None:
    """Check ``sigma_reg`` or ``l1_reg``; ``check`` checks a number."""
    if not isinstance(reg, Mapping):
        check(reg)
        return
    if not reg:
        raise ValueError(f"{name} is an empty mapping: it needs a value for each group of weights")
    for key, value in reg.items():
        if not is_group_key(key) or not isinstance(value, Real):
            raise ValueError(
                f"{name} maps groups of weights to numbers: {GROUP_KEYS}; got {short(key)}: {short(value, 20)}"
            )
        try:
            check(value)
        except ValueError as error:
            raise ValueError(f"{name}, key {short(key, 40)}: {error}") from None


def is_group_key(key: Any) -> bool:
    """Return whether a key is valid for :mod:`sklearn_hocrf._estimator.fit.penalties`."""
    is_pair = isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and is_order(key[1])
    return key is None or isinstance(key, str) or is_pair


def _check_sigma_reg(sigma_reg: float) -> None:
    if not _is_number(sigma_reg) or not sigma_reg > 0:
        raise ValueError(f"sigma_reg must be a number > 0; inf means no penalty. Got {short(sigma_reg)}")
    with np.errstate(over="ignore"):
        if not np.isfinite((1.0 / np.float64(sigma_reg)) ** 2):
            raise ValueError(
                f"sigma_reg={sigma_reg!r} is too small, because 1 / sigma_reg^2 overflows: rescale numeric features, "
                "sample weights or the penalty"
            )


def _is_number(value: float) -> bool:
    """Return whether a number is neither a bool nor too large an integer for a float."""
    return np.asarray(value).dtype.kind in "iuf"


def _check_l1_reg(l1_reg: float) -> None:
    if not _is_number(l1_reg) or not 0 <= l1_reg < np.inf:
        raise ValueError(f"l1_reg must be a finite number >= 0, got {short(l1_reg)}")


def check_patterns(patterns: Any) -> None:
    """Check the form of the user's label patterns."""
    if isinstance(patterns, str) and patterns not in ("observed", "all"):
        raise ValueError(f'patterns must be "observed", "all" or an iterable of tuples of labels, got {patterns!r}')
    refuse_iterator(patterns, "patterns is")


def _check_orders_of_prefixes(feature_order: Any) -> None:
    for prefix, orders in feature_order.items():
        is_tuple_of_orders = isinstance(orders, tuple) and len(orders) > 0 and all(map(is_order, orders))
        if not isinstance(prefix, str) or not (is_order(orders) or is_tuple_of_orders):
            raise ValueError(
                "feature_order maps name prefixes to an int k (orders 0..k) or a tuple of exact orders; "
                f"got {prefix!r}: {orders!r}"
            )


def is_order(value: Any) -> bool:
    return is_integer(value) and int(value) >= 0


def _check_segment_length(segment_length: Any) -> None:
    """Check the limits of the lengths of segments, which apply to all labels or are given by label."""
    if isinstance(segment_length, dict):
        for label, limits in segment_length.items():
            if not _are_limits(limits):
                raise ValueError(f"segment_length maps labels to {_LIMITS}; got {short(label)}: {short(limits)}")
    elif segment_length is not None and not _are_limits(segment_length):
        raise ValueError(f"segment_length must be {_LIMITS}, a dict of these by label or None; got {segment_length!r}")


_LIMITS = "an integer >= 1, inf or a pair (least, most)"


def _are_limits(given: Any) -> bool:
    """Return whether these are the most tokens of a segment, or a pair of the least and the most, which may be None."""
    least, most = given if isinstance(given, tuple) and len(given) == 2 else (1, given)
    if not is_order(least) or least < 1:
        return False
    is_most = is_order(most) or isinstance(most, Real) and most == np.inf
    return most is None and isinstance(given, tuple) or is_most and most >= least

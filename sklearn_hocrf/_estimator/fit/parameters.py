"""The parameters of the estimators: types, ranges, and settings that cannot be combined.

The table :data:`REFUSALS` lists settings that cannot be combined.

A *feature* is an option that parameters request; a *circumstance* is a use beyond a plain fit: missing labels, a
stream, a cluster, or learned penalties. Each row contains two features, or a feature and a circumstance, and the error
message. :func:`check_parameters` already rejects tag schemes as constraints of segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ..._data.checks import is_integer, refuse_iterator, short
from ..._engine.structure.patterns import TOKENS
from ..._engine.training.lbfgs import LBFGS
from ..._engine.training.objectives import OBJECTIVES
from ..._engine.training.stochastic import SGD
from ..._reading.schemes import PREFIXES
from ..._sklearn.names import N_JOBS, Interval, StrOptions
from ..labels.constraints import Constraints, check_constraints

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
MAPPINGS = ("sigma_reg", "l1_reg")  # parameters that may be mappings whose keys are not strings


def check_parameters(parameters: Mapping[str, Any], estimator: str) -> None:
    """Check the conditions that ``PARAMETER_CONSTRAINTS`` cannot express.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name, as ``get_params(deep=False)`` returns them.
    estimator : str
        Name of the estimator, for messages.

    Raises
    ------
    ValueError
        If a parameter is invalid; the message names the first one.
    """
    for name, least in (("max_order", 0), ("pruning", 1)):
        if isinstance(parameters.get(name), bool):
            raise ValueError(f"{name} must be an integer >= {least}, got {parameters[name]!r}")
    for name, check in (("sigma_reg", _check_sigma_reg), ("l1_reg", _check_l1_reg)):
        _check_reg(name, parameters[name], check)
    check_patterns(parameters["patterns"])
    check_constraints(parameters["constraints"], parameters.get("history", TOKENS))
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
    """Check ``sigma_reg`` or ``l1_reg``; ``check`` checks a single number."""
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
    """Return whether a key specifies a group of weights; see :mod:`sklearn_hocrf._estimator.fit.penalties`."""
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
    """Return whether a number is neither a bool nor an integer that is too large for a float."""
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
    """Check the limits of segment lengths, for all labels or by label."""
    if isinstance(segment_length, dict):
        for label, limits in segment_length.items():
            if not _are_limits(limits):
                raise ValueError(f"segment_length maps labels to {_LIMITS}; got {short(label)}: {short(limits)}")
    elif segment_length is not None and not _are_limits(segment_length):
        raise ValueError(f"segment_length must be {_LIMITS}, a dict of these by label or None; got {segment_length!r}")


_LIMITS = "an integer >= 1, inf or a pair (minimum, maximum)"


def _are_limits(limits: Any) -> bool:
    """Return whether ``limits`` is a maximum segment length or None, or a pair of a minimum and a maximum (or None)."""
    least, most = limits if isinstance(limits, tuple) and len(limits) == 2 else (1, limits)
    if not is_order(least) or least < 1:
        return False
    is_most = is_order(most) or isinstance(most, Real) and most == np.inf
    return most is None or is_most and most >= least


def is_stochastic(solver: Any) -> bool:
    """Return whether a value of the parameter ``solver`` selects steps on a few sequences at a time."""
    return solver == "sgd" or isinstance(solver, SGD)


def has_l1(l1_reg: Any) -> bool:
    """Return whether any value of the parameter ``l1_reg`` is nonzero."""
    return bool(np.any(_values(l1_reg)))


def _values(value: Any) -> list:
    """Return the value of a parameter, or the values of a mapping, in a list."""
    return list(value.values()) if isinstance(value, Mapping) else [value]


def _trains_by(criterion: str) -> Callable[[Mapping], bool]:
    return lambda given: given["objective"] == criterion


FEATURES: dict[str, tuple[Callable[[Mapping], Any], str]] = {  # whether parameters request it, and its name in messages
    "pruning": (lambda given: given.get("pruning") is not None, "pruning={pruning!r}"),
    "segment history": (lambda given: given.get("history") == "segments", "history={history!r}"),
    "features of several labels": (
        lambda given: any(map(np.any, _values(given["feature_order"]))),
        "feature_order={feature_order}",
    ),
    "parts": (lambda given: given.get("label_parts") is not None, "label_parts"),
    "no penalty": (lambda given: bool(np.isinf(_values(given["sigma_reg"])).any()), "sigma_reg={sigma_reg!r}"),
    "frequent features": (lambda given: given["min_count"] > 1 and not given["all_pairs"], "min_count={min_count!r}"),
    "a stochastic solver": (lambda given: is_stochastic(given["solver"]), "solver={solver!r}"),
}
FEATURES |= {
    name.replace("_", " "): (_trains_by(name), "objective={objective!r}")
    for name, kind in OBJECTIVES.items()
    if kind.excludes
}
CIRCUMSTANCES = {  # and their names in messages
    "missing labels": "y with missing labels",
    "stream": "partial_fit",
    "cluster": "a cluster",
    "learned penalties": "PenaltySearchCV",
}


class Refusal(NamedTuple):
    """Two features, or a feature and a circumstance, that cannot be combined, and the error message."""

    feature: str
    other: str
    message: str  # a format string with the parameters, ``name`` and ``other_name``


_LIKELIHOOD = "{name} needs objective='likelihood', not {other_name}"
_OF_LIKELIHOOD = "{other_name} needs objective='likelihood', not {name}"
_FIT = "{name} needs fit: it depends on all training data, of which partial_fit has one batch"
_ALL_AT_ONCE = "{name} needs solver='lbfgs': {other_name} takes a few sequences at a time"
_OF_ALL_AT_ONCE = "{other_name} needs solver='lbfgs': {name} takes a few sequences at a time"
_NO_PRUNING = "{other_name} needs pruning=None, not {name}"


def _of_criteria() -> Iterator[Refusal]:
    """Yield the refusals of features and circumstances that training criteria exclude."""
    for name, kind in OBJECTIVES.items():
        for other in kind.excludes:
            pair, message = (name.replace("_", " "), other), _OF_LIKELIHOOD
            if other not in CIRCUMSTANCES:
                pair, message = (pair, _ALL_AT_ONCE) if other == "a stochastic solver" else (pair[::-1], _LIKELIHOOD)
            yield Refusal(*pair, message)


# the first row that applies to a fit, or to a circumstance, determines the error
REFUSALS = (
    *_of_criteria(),
    Refusal(
        "pruning",
        "features of several labels",
        "{other_name} needs pruning=None: {name} pairs features with single labels only",
    ),
    Refusal(
        "pruning",
        "segment history",
        "{other_name} needs pruning=None: {name} selects labels of tokens, not of segments",
    ),
    Refusal("pruning", "stream", _FIT),
    Refusal("frequent features", "stream", _FIT),
    Refusal("pruning", "a stochastic solver", _ALL_AT_ONCE),
    Refusal("pruning", "missing labels", _NO_PRUNING),
    Refusal("a stochastic solver", "missing labels", _OF_ALL_AT_ONCE),
    Refusal("pruning", "cluster", _NO_PRUNING),
    Refusal("pruning", "learned penalties", _NO_PRUNING),
    Refusal("a stochastic solver", "cluster", _OF_ALL_AT_ONCE),
    Refusal("no penalty", "learned penalties", "{other_name} needs a finite sigma_reg to start from, not {name}"),
    Refusal("a stochastic solver", "learned penalties", _OF_ALL_AT_ONCE),
)


def refuse(parameters: Mapping[str, Any], circumstance: str = "") -> None:
    """Raise a ValueError for the first row of :data:`REFUSALS` that applies to the parameters of an estimator.

    If ``circumstance`` names a use beyond a plain fit, only the rows of this circumstance apply.
    """
    names = CIRCUMSTANCES | {feature: text for feature, (_, text) in FEATURES.items()}
    shown = {**parameters, "feature_order": short(parameters["feature_order"])}
    for feature, other, message in REFUSALS:
        if (other in CIRCUMSTANCES) != bool(circumstance):
            continue
        is_other = other == circumstance if circumstance else FEATURES[other][0](parameters)
        if is_other and FEATURES[feature][0](parameters):
            both = {"name": names[feature].format(**shown), "other_name": names[other].format(**shown)}
            raise ValueError(message.format(**both, **shown))

"""Settings that cannot be combined: the table of refusals between features.

A *feature* is something that parameters request; a *circumstance* is a use beyond a plain fit: partial labels, a
stream, a cluster, learned penalties. Each row of :data:`REFUSALS` names two of them and the message. Tag schemes as
constraints of segments are refused by the parameters themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._data.checks import short
from ..._engine.training.objectives import OBJECTIVES
from ..._engine.training.stochastic import SGD


def is_stochastic(solver: Any) -> bool:
    """Return whether a value of the parameter ``solver`` uses a few sequences at a time."""
    return solver == "sgd" or isinstance(solver, SGD)


def has_l1(l1_reg: Any) -> bool:
    """Return whether any strength of a parameter ``l1_reg`` is not 0."""
    return bool(np.any(_values(l1_reg)))


def _values(given: Any) -> list:
    """Return the values of a parameter that may be a mapping."""
    return list(given.values()) if isinstance(given, Mapping) else [given]


def _trains_by(criterion: str) -> Callable[[Mapping], bool]:
    return lambda given: given["objective"] == criterion


FEATURES: dict[str, tuple[Callable[[Mapping], Any], str]] = {  # whether parameters request it, and how messages name it
    "pruning": (lambda given: given.get("pruning") is not None, "pruning={pruning!r}"),
    "segment history": (lambda given: given.get("history") == "segments", "history={history!r}"),
    "features of several labels": (
        lambda given: any(map(np.any, _values(given["feature_order"]))),
        "feature_order={feature_order}",
    ),
    "parts": (lambda given: given["label_parts"] is not None, "label_parts"),
    "no penalty": (lambda given: bool(np.isinf(_values(given["sigma_reg"])).any()), "sigma_reg={sigma_reg!r}"),
    "frequent features": (
        lambda given: given["min_count"] > 1 and not given["all_pairs"],
        "min_count={min_count!r}",
    ),
    "a stochastic solver": (lambda given: is_stochastic(given["solver"]), "solver={solver!r}"),
}
FEATURES |= {
    name.replace("_", " "): (_trains_by(name), "objective={objective!r}")
    for name, kind in OBJECTIVES.items()
    if kind.excludes
}
CIRCUMSTANCES = {  # and how messages name them
    "missing labels": "y with missing labels",
    "stream": "partial_fit",
    "cluster": "a cluster",
    "learned penalties": "PenaltySearchCV",
}


class Refusal(NamedTuple):
    """Two features, or a feature and a circumstance, that cannot be combined, and the message."""

    feature: str
    other: str
    message: str  # a format string, filled with the parameters, and ``name`` and ``other_name`` of both


_LIKELIHOOD = "{name} needs objective='likelihood', not {other_name}"
_OF_LIKELIHOOD = "{other_name} needs objective='likelihood', not {name}"
_FIT = "{name} needs fit: it depends on all training data, of which partial_fit has one batch"
_ALL_AT_ONCE = "{name} needs solver='lbfgs': {other_name} takes a few sequences at a time"
_OF_ALL_AT_ONCE = "{other_name} needs solver='lbfgs': {name} takes a few sequences at a time"
_NO_PRUNING = "{other_name} needs pruning=None, not {name}"


def _of_criteria() -> Iterator[Refusal]:
    """Yield the features and circumstances that each training criterion excludes."""
    for name, kind in OBJECTIVES.items():
        for other in kind.excludes:
            pair, message = (name.replace("_", " "), other), _OF_LIKELIHOOD
            if other not in CIRCUMSTANCES:
                pair, message = (pair, _ALL_AT_ONCE) if other == "a stochastic solver" else (pair[::-1], _LIKELIHOOD)
            yield Refusal(*pair, message)


# for a fit, or a circumstance, the first row that applies is raised
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
    Refusal("pruning", "cluster", _NO_PRUNING),
    Refusal("a stochastic solver", "cluster", _OF_ALL_AT_ONCE),
    Refusal("no penalty", "learned penalties", "{other_name} needs a finite sigma_reg to start from, not {name}"),
    Refusal("a stochastic solver", "learned penalties", _OF_ALL_AT_ONCE),
)


def refuse(parameters: Mapping[str, Any], circumstance: str = "") -> None:
    """Raise a ValueError for the first row of :data:`REFUSALS` that applies to the parameters of an estimator.

    With a circumstance, a use beyond a plain fit, only its rows count.
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

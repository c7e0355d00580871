"""Settings that cannot be combined: the table of refusals between features.

A *feature* is something that parameters request; a *circumstance* is a use beyond a plain fit: labels with holes, soft
labels, a stream, a cluster, learned penalties. Each row of :data:`REFUSALS` names two of them and the message. Tag
schemes as constraints of segments are refused by the parameters themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._data.checks import short
from .._solvers import SGD
from .pattern_search import PatternSearch, has_l1, pattern_search

__all__ = ["CIRCUMSTANCES", "FEATURES", "REFUSALS", "Asked", "Refusal", "refuse"]


@dataclass(frozen=True)
class Asked:
    """What a training, or a query to a trained model, requests.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name.
    name : str
        Name of the estimator.
    circumstance : str
        The use beyond a plain fit; "" for a plain fit.
    """

    parameters: Mapping[str, Any]
    name: str
    circumstance: str = ""

    @property
    def feature_order(self) -> str:
        """The parameter ``feature_order`` as messages show it."""
        return short(self.parameters["feature_order"])

    @property
    def is_stochastic(self) -> bool:
        """Whether the solver uses a few sequences at a time."""
        return self["solver"] == "sgd" or isinstance(self["solver"], SGD)

    @cached_property
    def search(self) -> PatternSearch | None:
        """The requested search for label patterns."""
        return pattern_search(self.parameters["patterns"])

    def __getitem__(self, name: str) -> Any:
        """Return a parameter; None if the estimator does not have it."""
        return self.parameters.get(name)


def _values(given: Any) -> list:
    """Return the values of a parameter that may be a mapping."""
    return list(given.values()) if isinstance(given, Mapping) else [given]


FEATURES: dict[str, Callable[[Asked], Any]] = {
    # parameters
    "pruning": lambda asked: asked["pruning"] is not None,
    "pattern search": lambda asked: asked.search is not None,
    "a search for the final model": lambda asked: asked.search is not None and not asked.search.relax,
    "no highest order": lambda asked: asked["max_order"] is None,
    "features of several labels": lambda asked: any(map(np.any, _values(asked["feature_order"]))),
    "parts": lambda asked: asked["label_parts"] is not None,
    "L1": lambda asked: has_l1(asked["l1_reg"]),
    "no penalty": lambda asked: bool(np.isinf(_values(asked["sigma_reg"])).any()),
    "frequent features": lambda asked: asked["min_count"] > 1 and not asked["all_pairs"],
    "balanced class weights": lambda asked: isinstance(asked["class_weight"], str),
    "segments": lambda asked: "scheme" in asked.parameters,
    "local feature matching": lambda asked: asked["objective"] == "local_feature_matching",
    "a stochastic solver": lambda asked: asked.is_stochastic,
    "a stochastic solver of steps that do not adapt": lambda asked: (
        asked.is_stochastic and not getattr(asked["solver"], "adaptive", False)
    ),
}
CIRCUMSTANCES = ("holes", "soft labels", "stream", "cluster", "learned penalties")


class Refusal(NamedTuple):
    """Two features, or a feature and a circumstance, that cannot be combined, and the message."""

    feature: str
    other: str
    message: str  # a format string, filled with the parameters and ``asked``


_SEARCH = "patterns={patterns!r} is not possible here: "
_PRUNING = "pruning={pruning!r} is not possible here: "
_LEARNED = "PenaltySearchCV cannot learn the penalties of this {asked.name}: "
_STREAM = " counts in all training data, which partial_fit does not have; use "

# for a fit, or a circumstance, the first row that applies is raised
REFUSALS = (
    Refusal(
        "a search for the final model",
        "features of several labels",
        "feature_order={asked.feature_order} and patterns={patterns!r} exclude each other: the search leaves out the "
        "features of patterns of two or more labels, which are added when the patterns are trained again (relax=True)",
    ),
    Refusal(
        "pattern search",
        "L1",
        _SEARCH + "it adds its own L1 penalty to a Gaussian prior: use sigma_reg, and not l1_reg",
    ),
    Refusal(
        "pattern search",
        "local feature matching",
        _SEARCH + "it is based on expected and observed counts: use objective='likelihood'",
    ),
    Refusal(
        "pattern search",
        "a stochastic solver",
        _SEARCH + "it needs gradients of all data: use solver='lbfgs'",
    ),
    Refusal(
        "L1",
        "a stochastic solver of steps that do not adapt",
        "l1_reg={l1_reg!r} and solver={solver!r} exclude each other: use solver='lbfgs' or solver=SGD(adaptive=True)",
    ),
    Refusal(
        "local feature matching",
        "a stochastic solver",
        "objective={objective!r} and solver={solver!r} exclude each other: local feature matching is trained on all "
        "data at once; use solver='lbfgs'",
    ),
    Refusal(
        "pruning",
        "features of several labels",
        _PRUNING + "feature_order={asked.feature_order} pairs features with patterns of several labels, and lattices "
        "score features by label",
    ),
    Refusal(
        "pruning",
        "pattern search",
        _PRUNING + "the search for patterns={patterns!r} needs models of all labels",
    ),
    Refusal("pruning", "local feature matching", _PRUNING + "objective={objective!r} is not the likelihood"),
    Refusal(
        "parts",
        "local feature matching",
        "label_parts and objective={objective!r} exclude each other: local feature matching compares only the features "
        "of patterns; use objective='likelihood'",
    ),
    Refusal(
        "pattern search",
        "holes",
        "the search for patterns={patterns!r} needs all labels, but y has holes: give the patterns, or "
        'patterns="observed"',
    ),
    Refusal(
        "local feature matching",
        "holes",
        "objective={objective!r} needs all labels, but y has holes: use objective='likelihood'",
    ),
    Refusal(
        "segments",
        "soft labels",
        "y has probabilities of labels, which say nothing about where segments begin: use HighOrderCRF, or the most "
        "probable labels",
    ),
    Refusal(
        "pruning",
        "soft labels",
        "pruning={pruning!r} keeps the true labels of tokens, but y has probabilities of labels: use pruning=None",
    ),
    Refusal(
        "pattern search",
        "soft labels",
        "the search for patterns={patterns!r} counts true labels, but y has probabilities of labels: give the "
        'patterns, or patterns="observed"',
    ),
    Refusal(
        "local feature matching",
        "soft labels",
        "objective={objective!r} needs true labels, but y has probabilities of labels: use objective='likelihood'",
    ),
    Refusal(
        "a stochastic solver",
        "soft labels",
        "solver={solver!r} needs true labels, but y has probabilities of labels: use solver='lbfgs'",
    ),
    Refusal(
        "pattern search",
        "stream",
        "patterns={patterns!r} trains on all data again and again, which partial_fit does not have; use fit",
    ),
    Refusal(
        "pruning",
        "stream",
        "pruning={pruning!r} chooses labels based on all training data, which partial_fit does not have",
    ),
    Refusal(
        "frequent features",
        "stream",
        "min_count={min_count!r}" + _STREAM + "fit, or min_count=1",
    ),
    Refusal("balanced class weights", "stream", "class_weight={class_weight!r}" + _STREAM + "a dict"),
    Refusal(
        "pattern search",
        "cluster",
        "patterns={patterns!r} cannot be searched on a cluster: search in a part of the data with {asked.name}, and "
        "give patterns=crf.patterns_",
    ),
    Refusal("pruning", "cluster", "pruning={pruning!r} does not work on a cluster: use pruning=None"),
    Refusal(
        "no highest order",
        "cluster",
        "max_order=None needs a search for patterns, which clusters do not do: give a number",
    ),
    Refusal(
        "a stochastic solver",
        "cluster",
        "solver={solver!r} does not work on a cluster, because it processes a few sequences after another: use "
        "solver='lbfgs'",
    ),
    Refusal(
        "L1",
        "learned penalties",
        _LEARNED + "l1_reg={l1_reg!r} > 0 has no derivatives where weights are 0",
    ),
    Refusal(
        "pattern search",
        "learned penalties",
        _LEARNED + "patterns={patterns!r} depend on the penalties discontinuously: give the patterns_ of such a fit",
    ),
    Refusal(
        "no penalty",
        "learned penalties",
        _LEARNED + "sigma_reg={sigma_reg!r} has no logarithm to start from",
    ),
    Refusal(
        "local feature matching",
        "learned penalties",
        _LEARNED + "objective={objective!r} is not the likelihood",
    ),
    Refusal(
        "a stochastic solver",
        "learned penalties",
        _LEARNED + "solver={solver!r} uses a few sequences at a time; the search trains by L-BFGS",
    ),
)


def refuse(asked: Asked) -> None:
    """Raise a ValueError for the first row of :data:`REFUSALS` that applies; with a circumstance, of its rows."""
    for row in REFUSALS:
        if asked.circumstance:
            is_other = row.other == asked.circumstance
        else:
            is_other = row.other not in CIRCUMSTANCES and FEATURES[row.other](asked)
        if is_other and FEATURES[row.feature](asked):
            raise ValueError(row.message.format(asked=asked, **asked.parameters))

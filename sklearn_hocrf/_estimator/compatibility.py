"""Settings that cannot be combined: the table of refusals between features.

A *feature* is something that parameters, or a criterion and a solver, request; a *circumstance* is a use beyond a plain
fit: labels with holes, soft labels, a stream, a cluster, learned penalties. Each row of
:data:`REFUSALS` names two of them and the message. The methods that solvers need of any objective and penalty,
including custom ones, are checked by the solvers (:func:`~sklearn_hocrf._solvers.check_needs`); ``l1_reg`` with
``penalty``, and tag schemes as constraints of segments, by the parameters themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._data.checks import short
from .._objectives import Hinge, LocalFeatureMatching, NegativeLogLikelihood, Objective, Perceptron
from .._settings import capability
from .._solvers import Solver
from .decoding import choose_decoding
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
    objective, solver : object
        The criterion and the solver, as far as they are known.
    circumstance : str
        The use beyond a plain fit; "" for a plain fit.
    """

    parameters: Mapping[str, Any]
    name: str
    objective: Any
    solver: Any = None
    circumstance: str = ""

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The methods of an objective that the solver needs."""
        return capability(self.solver, Solver, "needs").get("objective", ())

    @property
    def feature_order(self) -> str:
        """The parameter ``feature_order`` as messages show it."""
        return short(self.parameters["feature_order"])

    @property
    def is_stochastic(self) -> bool:
        """Whether the solver uses a few sequences at a time."""
        return "minibatches" in self.needs

    @property
    def is_em(self) -> bool:
        """Whether the criterion is minimised by expectation maximisation."""
        return getattr(self.objective, "method", None) == "em"

    @cached_property
    def search(self) -> PatternSearch | None:
        """The requested search for label patterns."""
        return pattern_search(self.parameters["patterns"])

    @cached_property
    def has_probabilities(self) -> bool:
        """Whether the criterion trains probabilities."""
        return capability(self.objective, Objective, "gives_probabilities")

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
    "penalty object": lambda asked: asked["penalty"] is not None,
    "no penalty": lambda asked: bool(np.isinf(_values(asked["sigma_reg"])).any()),
    "frequent features": lambda asked: asked["min_count"] > 1 and not asked["all_pairs"],
    "balanced class weights": lambda asked: isinstance(asked["class_weight"], str),
    "decoding by probabilities": lambda asked: choose_decoding(asked["decoding"]) is not None,
    "segments": lambda asked: "scheme" in asked.parameters,
    # criteria
    "margins": lambda asked: isinstance(asked.objective, (Hinge, Perceptron)),
    "local feature matching": lambda asked: isinstance(asked.objective, LocalFeatureMatching),
    "another criterion": lambda asked: type(asked.objective) is not NegativeLogLikelihood,
    "a criterion without probabilities": lambda asked: not asked.has_probabilities,
    "a criterion without Hessian": lambda asked: not hasattr(asked.objective, "hessp"),
    "a criterion of whole labellings": lambda asked: not capability(asked.objective, Objective, "takes_holes"),
    # solvers
    "a stochastic solver": lambda asked: asked.is_stochastic,
    "a second-order solver": lambda asked: "hessp" in asked.needs,
    "a second-order solver, without EM": lambda asked: "hessp" in asked.needs and not asked.is_em,
    "a solver without gradients": lambda asked: asked.is_stochastic or "value_gradient" not in asked.needs,
    "EM by a solver that may climb": lambda asked: (
        asked.is_em and (asked.is_stochastic or not hasattr(asked.solver, "max_iter"))
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
    *(
        Refusal(
            "pattern search",
            other,
            _SEARCH + "it adds its own L1 penalty to a Gaussian prior: use sigma_reg, and neither l1_reg nor penalty",
        )
        for other in ("penalty object", "L1")
    ),
    Refusal(
        "pattern search",
        "another criterion",
        _SEARCH + "it is based on expected and observed counts: use objective='likelihood'",
    ),
    Refusal(
        "pattern search",
        "a solver without gradients",
        _SEARCH + "it needs gradients of all data: use the solver 'lbfgs', 'newton-cg' or 'owlqn'",
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
    *(
        Refusal("pruning", other, _PRUNING + "objective={objective!r} is not the likelihood")
        for other in ("margins", "local feature matching")
    ),
    Refusal(
        "pruning",
        "a second-order solver",
        _PRUNING + "products with the Hessian, which {asked.solver!r} needs, take passes over all labels: use 'lbfgs'",
    ),
    Refusal(
        "parts",
        "local feature matching",
        "label_parts and objective={objective!r} exclude each other: local feature matching compares only the features "
        "of patterns; use objective='likelihood'",
    ),
    Refusal(
        "decoding by probabilities",
        "a criterion without probabilities",
        "decoding={decoding!r} needs probabilities: objective={objective!r} trains scores that are not logarithms of "
        "probabilities, unlike objective='likelihood'",
    ),
    Refusal(
        "pattern search",
        "holes",
        "the search for patterns={patterns!r} needs all labels, but y has holes: give the patterns, or "
        'patterns="observed"',
    ),
    Refusal(
        "a criterion of whole labellings",
        "holes",
        "objective={asked.objective!r} needs all labels, but y has holes: use objective='likelihood', or an objective "
        "with takes_holes=True",
    ),
    Refusal(
        "a second-order solver, without EM",
        "holes",
        "the solver {asked.solver!r} needs a convex function, but the likelihood is not convex if y has holes: use "
        "solver='lbfgs', or objective=training.PartialLikelihood('em')",
    ),
    Refusal(
        "EM by a solver that may climb",
        "holes",
        "the solver {asked.solver!r} cannot be combined with {asked.objective!r}, which needs a solver that never "
        "increases the function: use solver='lbfgs', or objective='likelihood'",
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
        "a criterion of whole labellings",
        "soft labels",
        "objective={asked.objective!r} needs true labels, but y has probabilities of labels: use "
        "objective='likelihood'",
    ),
    Refusal(
        "a stochastic solver",
        "soft labels",
        "the solver {asked.solver!r} needs true labels, but y has probabilities of labels: use solver='lbfgs', 'owlqn' "
        "or 'newton-cg'",
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
        "penalty object",
        "learned penalties",
        _LEARNED + "penalty={penalty!r} replaces sigma_reg, which is to be learned",
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
    *(
        Refusal(
            feature,
            "learned penalties",
            _LEARNED + "objective={objective!r} has no products with its Hessian, or trains no probabilities",
        )
        for feature in ("a criterion without Hessian", "a criterion without probabilities")
    ),
    Refusal(
        "a stochastic solver",
        "learned penalties",
        _LEARNED + "solver={solver!r} uses a few sequences at a time; the search trains by L-BFGS",
    ),
)


def refuse(asked: Asked, feature: str | None = None) -> None:
    """Raise a ValueError for the first row of :data:`REFUSALS` that applies.

    Parameters
    ----------
    asked : Asked
        With a circumstance, only its rows count.
    feature : str or None
        Only rows of this feature count; None for all.
    """
    for row in REFUSALS:
        if (row.other in CIRCUMSTANCES) != bool(asked.circumstance) or feature not in (None, row.feature):
            continue
        is_other = row.other == asked.circumstance if asked.circumstance else FEATURES[row.other](asked)
        if is_other and FEATURES[row.feature](asked):
            raise ValueError(row.message.format(asked=asked, **asked.parameters))

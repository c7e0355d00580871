"""Models: weights under a layout, prepared for kernels. A :class:`Posterior` computes their results for a batch.

A :class:`LabelledBatch` reads labelled sequences once for all models of one layout.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..._data.arrays import freeze
from ..._data.batch import SequenceBatch
from ..._data.segments import Labelling, Mask, Segments
from ..kernels._network import LOWEST_LOG
from ..structure.layout import WeightLayout
from ..structure.weighted_arcs import weighted_arcs
from .posterior import Evidence, Posterior
from .schedule import Schedule

MOST_WIDER = 1 << 20  # maximum number of weights of a model with additional columns that is kept
MOST_PLANS, MOST_OF_PLAN = 16, 1 << 15  # plans of single sequences that are kept; numbers in the tables of a plan


class Model:
    """A model with its weights; except in some subclasses, labellings are label codes of tokens: shape (N,), int32.

    Parameters
    ----------
    layout : WeightLayout or SegmentLayout
        The layout of the weights.
    weights : ndarray of shape (n_weights,)
        The weights; -inf for the bias of a forbidden pattern.
    dense_table : ndarray or None
        The dense table of the layout with these weights, or an empty table for plans without a dense table.
    schedule : Schedule or None
        The sizes that determine how batches are cut.
    """

    layout_class: ClassVar[type[WeightLayout]] = WeightLayout
    plan_class: ClassVar[Any]
    posterior_class: ClassVar[type[Posterior]]
    minibatches_class: ClassVar[type[Any] | None] = None  # subclass of Minibatches; None: training uses all sequences
    has_lengths: ClassVar[bool] = False  # whether labellings consist of segments

    def __init__(
        self, layout: Any, weights: np.ndarray, dense_table: np.ndarray | None = None, schedule: Schedule | None = None
    ) -> None:
        self.layout, self.schedule = layout, schedule
        self._wider: tuple | None = None  # the last result of ``with_columns``
        self._plans: dict[int, Any] = {}  # of single sequences, by length
        self.weights = freeze(weights, np.float64)
        if self.weights.shape != (layout.n_weights,):  # kernels do not check shapes
            raise ValueError(
                f"there are {layout.n_weights} weights, but the given ones have shape {self.weights.shape}"
            )
        self.pair_weights = self.weights[: layout.first_bias]  # including the token weights of segments
        self.dense_table = freeze(layout.dense_table(self.pair_weights) if dense_table is None else dense_table, float)
        self.weighted_arcs = weighted_arcs(layout, self.weights)
        is_own = self.arc_layout is layout
        arcs = self.pass_arcs = self.weighted_arcs if is_own else weighted_arcs(self.arc_layout, self.weights)
        constant = arcs.arc_score[(arcs.arc_varying < 0) & (arcs.arc_score > -np.inf)]
        self.scales = not len(constant) or bool(constant.min() - arcs.log_shift > LOWEST_LOG)

    @property
    def arc_layout(self) -> Any:
        """The layout whose arcs the passes use."""
        return self.layout

    @property
    def n_columns(self) -> int:
        """Number of score columns that the arcs of the passes refer to."""
        return self.layout.pairs.n_columns

    @property
    def n_bytes(self) -> int:
        """Memory used in addition to the weights, in bytes."""
        return self.dense_table.nbytes + sum(
            table.nbytes for table in self.weighted_arcs if isinstance(table, np.ndarray)
        )

    def posterior(
        self,
        batch: SequenceBatch,
        support: Mask | None = None,
        n_jobs: int | None = None,
        evidence: Evidence | None = None,
    ) -> Any:
        """Return the :class:`Posterior` of a batch; the parameters are those of that class."""
        return self.posterior_class(self, batch, support, n_jobs, evidence)

    def posterior_on(self, plan: Any) -> Any:
        """Return the posterior of a plan's batch and mask, which uses this plan."""
        return self.posterior(plan.batch, plan.mask, plan.n_jobs).with_plan(plan)

    def plan_of(self, batch: SequenceBatch, n_jobs: int | None) -> Any:
        """Return the plan of a batch; plans of short single sequences share tables that depend only on the length."""
        n_tokens = batch.n_tokens
        kept = self._plans.get(n_tokens) if len(batch) == 1 else None  # read once, because other threads may drop it
        if kept is not None:
            return kept.with_features(batch, n_jobs)
        plan = self.plan_class(self.layout, batch, self.schedule, n_jobs)
        if len(batch) == 1 and n_tokens * plan.row_size <= MOST_OF_PLAN:
            if len(self._plans) >= MOST_PLANS:
                self._plans = {}
            plan.prepare_lane(self)
            kept = copy.copy(plan)
            kept.batch = kept.dense = None  # which may be large
            self._plans[n_tokens] = kept
        return plan

    def with_columns(self, columns: Sequence) -> tuple[Self, np.ndarray]:
        """Return a model with additional score columns, and their indices; the last such model is kept.

        The additional columns do not change scores, but passes count them.
        """
        kept = self._wider  # read once, because another thread may request other columns
        if kept is None or kept[0] != columns:
            layout, ids = self.layout.with_columns(columns)
            kept = columns, type(self)(layout, self.weights, schedule=self.schedule), ids
            if layout.n_weights <= MOST_WIDER:
                self._wider = kept
        return kept[1:]

    def moving(self, direction: np.ndarray) -> Self:
        """Return a model whose weights are ``direction``, for passes on dual numbers."""
        return type(self)(self.layout, np.asarray(direction))

    @classmethod
    def for_layout(cls, layout: Any) -> type[Model]:
        """Return the class of models for a layout: this class, or a class that takes less time and memory."""
        return cls

    def labelling(self, offsets: np.ndarray, codes: np.ndarray, lengths: np.ndarray) -> Labelling:
        """Return a labelling of sequences from the output of a :class:`DecodePass`."""
        return codes

    def log_scores(self, batch: SequenceBatch, labelling: Labelling) -> tuple[np.ndarray, Segments]:
        """Return the scores of the units of a labelling, -inf for those without a label, and the units."""
        units = self.layout.units(batch, labelling)
        known = units._replace(codes=np.maximum(units.codes, 0))
        scores = self.layout.unit_scores(batch, known, self.weights, self.weighted_arcs.arc_score)
        scores[units.codes < 0] = -np.inf
        return scores, units


class LabelledBatch(NamedTuple):
    """Sequences and their labels, some of which may be missing.   n sequences.

    If no label is missing, ``truth`` is set; otherwise, ``event`` is set.
    """

    plan: Any  # the plan of all labellings that the constraints allow
    truth: Labelling | None
    event: Any  # the plan of the labellings that agree with the labels
    is_impossible: np.ndarray  # (n,) bool   whether the labels are forbidden, whatever the weights

    @property
    def batch(self) -> SequenceBatch:
        return self.plan.batch

    def log_likelihood(self, model: Model) -> np.ndarray:
        """Return the log-likelihood of each sequence under a model; shape (n,)."""
        posterior, log_z = model.posterior_on(self.plan).with_log_z()
        score = posterior.log_score(self.truth) if self.event is None else posterior.with_plan(self.event).log_z()
        difference = np.where(self.is_impossible, -np.inf, score) - log_z
        return np.minimum(difference, 0.0)  # rounding errors must not lead to a probability above 1

    def slope(self, model: Model, direction: Model) -> np.ndarray:
        """Return the derivative of each log-likelihood along a direction of the weights; shape (n,).

        The derivative is valid only for sequences whose log-likelihood is finite.
        """
        expected = model.posterior_on(self.plan).log_z_and_slope(direction.weights)[1]
        if self.event is None:
            return direction.posterior_on(self.plan).log_score(self.truth) - expected
        return model.posterior_on(self.event).log_z_and_slope(direction.weights)[1] - expected

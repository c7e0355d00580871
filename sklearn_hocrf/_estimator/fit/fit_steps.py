"""The steps of `fit`, which other code that trains an estimator can run one by one.

Until a fit succeeds, its results are local variables, and the estimator does not change.
"""

from __future__ import annotations

from collections.abc import Sized
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..._data.checks import short
from ..._data.messages import unwarned, warn_user
from ..._data.segments import both
from ..._engine.inference.chain import ChainModel
from ..._engine.inference.posterior import Evidence
from ..._engine.structure.layout import LayoutBuilder, LayoutFrame, WeightLayout
from ..._engine.structure.pairs import PairRule, SetSequences
from ..._engine.structure.patterns import TOKENS, PatternTable, count_patterns
from ..._engine.training.penalties import Penalty
from ..._engine.training.problem import Problem
from ..._engine.training.pruning import prune
from ..._engine.training.solvers import SolverReport, one_blas_thread
from ..._engine.training.stochastic import TrainingState
from ..._reading.inputs import TrainingSequences, read_training_sequences, refuse_no_tokens, sequences_like
from ..._reading.targets import Targets
from ..._reading.values import to_float
from ..._sklearn.names import check_declared
from ..answers.fitted import FittedModel, FittedState
from ..labels.constraints import (
    LabelRuns,
    NamedParts,
    Rules,
    compile_label_parts,
    compile_rules,
    refuse_breaches,
    without_forbidden_patterns,
)
from ..labels.kinds import Kind
from ..labels.patterns import ObservedPatterns, select_patterns
from .parameters import check_parameters, refuse
from .penalties import Prior, resolve_feature_orders
from .progress import FitTasks
from .training import (
    Training,
    TrainingData,
    TrainingStructure,
    choose_training,
    last_weights,
    warn_not_converged,
    with_targets,
)

_Fixed: TypeAlias = Targets | np.ndarray | None  # targets of earlier data, or all possible labels
_FEW_KNOWN = 0.1  # share of labelled tokens below which `fit` warns


class FitSteps:
    """The steps of a fit.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        The estimator to fit. The steps read the estimator's fitted attributes only for a warm start and for a stream.
    """

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator, self.name = estimator, type(estimator).__name__
        self.kind: Kind = estimator._kind
        self.reader = self.kind.reader(estimator)
        self.matches_features = estimator.objective == "local_feature_matching"
        self.parameters: dict[str, Any] = estimator.get_params(deep=False)

    def fit(self, X: Sized, y: Sized, sample_weight: ArrayLike | None) -> None:
        """Run all steps in order, and set the fitted attributes."""
        estimator, training = self.estimator, self.choose_training()
        data = self.read(X, y, sample_weight)
        self.check_missing_labels(data)
        is_warm = estimator.warm_start and hasattr(estimator, "coef_")
        runs = None if is_warm else data.runs  # of known labels, if some are missing; they train the starting weights
        n_stages = len(training.objectives(is_warm)) * (1 if runs is None else 2)
        tasks = FitTasks(estimator, training.solver, n_stages, X, y, sample_weight)
        layout = self.layout(data)
        penalty = self.penalty(training.prior, layout, data)
        problem = self.problem(data, layout)
        start = np.broadcast_to(0.0, problem.n_weights)
        if is_warm:
            start = last_weights(vars(estimator), layout, data)
        certain = [] if runs is None else [self.unpruned_problem(runs, layout)]
        watch = partial(tasks.run_stage, partial(self.state, data, problem, penalty))
        stages = training.run([*certain, problem], penalty, start, is_warm, watch)
        tasks.best(self.state(data, problem, penalty, stages[-1])).set_on(estimator)
        tasks.end(reconstruction_attributes={})
        training.lines.end(stages[-1])
        warn_not_converged(self.name, training.solver, stages)

    # --- parameters ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise an error for parameters that ``fit`` rejects."""
        check_declared(self.estimator)
        check_parameters(self.parameters, self.name)

    def refuse(self, circumstance: str) -> None:
        """Raise a ValueError for parameters that cannot be combined with a circumstance; see ``parameters.py``."""
        refuse(self.parameters, circumstance)

    def choose_training(self) -> Training:
        """Check the values and combinations of parameters, and return the training that they specify."""
        check_parameters(self.parameters, self.name)
        return choose_training(self.parameters, self.name)

    def check_fit(self, X: Sized, y: Sized, sample_weight: ArrayLike | None) -> None:
        """Raise the errors that ``fit`` raises before training; if X is None, only those that do not depend on X."""
        with unwarned():  # fit itself issues these warnings
            self.check()
            training = self.choose_training()
            data = self.read_without_features(y, sample_weight) if X is None else self.read(X, y, sample_weight)
            if data is None:
                return
            self.check_missing_labels(data)
            if X is not None:
                layout = self.layout(data)
                self.penalty(training.prior, layout, data)
                self.check_possible(self.unpruned_problem(data, layout), data.sequence_ids)
            elif not isinstance(self.estimator.patterns, str):
                self.select_patterns(data.labelled, self.observed(data.labelled))

    # --- data ---------------------------------------------------------------------------------------------------------

    def read(self, X: Sized, y: Sized, sample_weight: ArrayLike | None, fixed: _Fixed = None) -> TrainingData:
        """Return validated training data; labels and maximum lengths come from ``fixed`` targets, if there are any."""
        return self.read_targets(y, read_training_sequences(self.reader, X, sample_weight), fixed)

    def read_without_features(self, y: Sized, sample_weight: ArrayLike | None) -> TrainingData | None:
        """Return training data without features, for an unknown X; None if y alone is ambiguous."""
        sequences = sequences_like(self.reader, y, sample_weight)
        return None if sequences is None else self.read_targets(y, sequences)

    def read_targets(self, y: Sized, sequences: TrainingSequences, fixed: _Fixed = None) -> TrainingData:
        """Return training sequences with their targets, or raise an error if the targets violate a constraint.

        ``fixed`` contains the targets of earlier data, or all possible labels.
        """
        refuse_no_tokens(sequences.is_used)
        targets = self.kind.targets.read(self.reader, y, sequences, fixed)
        constraints = self.estimator.constraints
        rules = self.rules(targets.labels)
        parts = self.parts(targets.labels)
        data = with_targets(sequences, targets, rules, parts).with_labelled_runs()
        if data.has_missing_labels and self.kind.labels_segments:
            return data  # constraints apply only to neighbours, and gaps separate these segments
        units = targets.units(data.batch)
        if not data.has_missing_labels:
            sequences.warn_of_one_recording(units.codes)
        if not rules.forbidden and rules.borders is None:
            return data
        origin = np.repeat(data.batch.offsets[:-1], np.diff(units.offsets))
        runs = LabelRuns(units.codes, units.offsets, units.start - origin, sequences.sequence_ids)
        refuse_breaches(rules, constraints, targets.labels, runs, self.history)
        return data

    def check_missing_labels(self, data: TrainingData) -> None:
        """Raise a ValueError if labels are missing but this training requires all labels; warn if few are known."""
        if not data.has_missing_labels:
            return
        self.refuse("missing labels")
        n_known, n_tokens = data.n_labelled, data.batch.n_tokens
        if n_known < _FEW_KNOWN * n_tokens:
            warn_user(f"only {n_known} of {n_tokens} tokens are labelled, which is less than a tenth")
        if (
            2 * data.labelled.batch.n_tokens < n_known
            and self.kind.labels_segments
            and self.reader.segment_length is None
        ):
            warn_user(
                "most labels of y are in segments that end at missing labels, and segment_length=None allows none that "
                "is longer than the longest run of known labels: set segment_length"
            )

    # --- streams ------------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Sized, y: Sized, classes: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        """Run the steps of one pass over the next sequences of a stream, and set the fitted attributes."""
        self.check()  # scikit-learn checks parameters only at the first call, and set_params may have changed them
        self.refuse("stream")
        training = self.choose_training()
        before = FittedModel(self.estimator) if hasattr(self.estimator, "_state") else None
        if before is not None:
            data, layout, new_ids = self._read_next(before, X, y, classes, sample_weight)
            start, state = _last_point(before.state, layout, new_ids)
        else:
            fixed = None if classes is None else self.kind.targets.check_classes(self.reader, classes)
            data = self.read(X, y, sample_weight, fixed)
            layout = self.layout(data)
            start, state = np.zeros(layout.n_weights), None
        self.check_missing_labels(data)
        penalty, problem = self.penalty(training.prior, layout, data), self.unpruned_problem(data, layout)
        with one_blas_thread():
            report, state = training.solver.partial_solve(training.objective.bind(problem), penalty, start, state)
        self.state_of(data, layout, report.w, report, stream=state).set_on(self.estimator)
        warn_not_converged(self.name, training.solver, [report])

    def _read_next(
        self,
        before: FittedModel,
        X: Sized,
        y: Sized,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
    ) -> tuple[TrainingData, WeightLayout, np.ndarray | None]:
        """Return the data of a later call, their layout, and the new indices of the old weights (None if unchanged)."""
        estimator, last, labels = self.estimator, before.state, before.labels.tolist()
        if classes is not None and self.kind.targets.check_classes(self.reader, classes).tolist() != labels:
            raise ValueError(f"classes differ from those of the first call, {labels!r}: they are fixed from then on")
        sequences = read_training_sequences(before.reader, X, sample_weight, last.features)
        data = self.read_targets(y, sequences, last.targets)
        changed = ""
        if not data.rules.equal(Rules(last.layout.forbidden, last.borders)):
            changed = f"constraints={short(estimator.constraints)} differ from the first call: they are"
        elif self.history != last.layout.patterns.history:
            changed = f"history={estimator.history!r} differs from the first call: it is"
        elif not data.parts.equal(last.part_names, last.layout.parts):
            parts = short(estimator.label_parts)
            changed = f"label_parts={parts} assigns different parts than in the first call: they are"
        if changed:
            raise ValueError(f"{changed} fixed from then on")
        return data, *last.layout.joined(self.layout(data, like=last.layout))

    # --- structure ----------------------------------------------------------------------------------------------------

    @property
    def history(self) -> str:
        """The parameter ``history``; for semi-CRFs, which do not have it, "tokens"."""
        return self.parameters.get("history", TOKENS)

    def rules(self, labels: np.ndarray) -> Rules:
        """Return the constraints as rules over label codes."""
        return compile_rules(self.history, self.estimator.constraints, labels)

    def parts(self, labels: np.ndarray) -> NamedParts:
        """Return the parts of labels; segment labels have none."""
        return compile_label_parts(self.parameters.get("label_parts"), labels)

    def observed(self, data: TrainingData) -> ObservedPatterns:
        """Return the patterns in the labels of training data."""
        units, sets = data.targets.units(data.batch), data.targets.sets
        n_labels, weight, history = len(data.targets.labels), data.sequence_weight, self.history
        count: Any = partial(count_patterns, units.codes, units.offsets, n_labels)
        if sets is not None:
            sequences = SetSequences(sets, units.offsets, n_labels, history, data.rules.forbidden)
            count = sequences.count_patterns
        return ObservedPatterns(len(units.codes), partial(count, sequence_weight=weight, history=history), history)

    def select_patterns(self, data: TrainingStructure, observed: ObservedPatterns) -> PatternTable:
        """Return the label patterns of the model."""
        estimator, labels, patterns = self.estimator, data.targets.labels, self.estimator.patterns
        table = select_patterns(patterns, labels, observed, estimator.max_order, to_float(estimator.min_count))
        is_given = not isinstance(patterns, str)
        table = without_forbidden_patterns(data.rules, estimator.constraints, table, labels, is_given)
        return self.kind.possible_patterns(data.targets, table)

    def layout_builder(
        self, data: TrainingStructure, patterns: PatternTable, like: WeightLayout | None = None
    ) -> LayoutBuilder:
        """Return the builder of the weight layout; ``like`` is a layout of the same patterns."""
        estimator = self.estimator
        orders = resolve_feature_orders(estimator.feature_order, estimator.max_order, data.features.names)
        rule = PairRule(orders, to_float(estimator.min_count), estimator.all_pairs)
        compiled = None if like is None else like.compiled
        frame = LayoutFrame(patterns, data.rules.forbidden, data.parts.codes, compiled)
        return self.kind.layout_builder(data.targets, frame, rule, estimator.fit_intercept)

    def layout(self, data: TrainingData, like: WeightLayout | None = None) -> WeightLayout:
        """Return the layout of the weights, with the patterns of the layout ``like`` if there is one."""
        data = data.labelled
        table = like.patterns if like is not None else self.select_patterns(data, self.observed(data))
        builder = self.layout_builder(data, table, like)
        targets = data.targets
        labelling = targets.labelling if targets.sets is None else targets.sets
        return builder.build(builder.count(data.batch, labelling, data.sequence_weight))

    # --- training -----------------------------------------------------------------------------------------------------

    def problem(self, data: TrainingData, layout: WeightLayout | None = None) -> Problem:
        """Return the data with a layout of the weights, restricted to the labels that ``pruning`` keeps."""
        layout = self.layout(data) if layout is None else layout
        matching = ["objective='local_feature_matching'"] if self.matches_features else []
        self.kind.warn_of_unlimited_lengths(layout, data.batch, *matching)
        problem = self.unpruned_problem(data, layout)
        self.check_possible(problem, data.sequence_ids)
        return prune(problem, self.parameters.get("pruning"), self.estimator.random_state)

    def unpruned_problem(self, data: TrainingData, layout: WeightLayout) -> Problem:
        """Return the data with a layout of the weights, without pruning."""
        # without constraints on borders for runs of known labels, which may begin and end in the middle of sequences
        support = data.rules.mask(data.batch.offsets) if data.source is None else None
        return Problem(
            self.kind.model if self.matches_features else self.kind.model.for_layout(layout),
            layout,
            data.batch,
            data.targets.labelling,
            sequence_weight=data.sequence_weight,
            n_jobs=self.estimator.n_jobs,
            support=support,
            known=data.targets.known,
        )

    def check_possible(self, problem: Problem, sequence_ids: np.ndarray | None) -> None:
        """Raise a ValueError if a sequence has no labelling that agrees with y; the message names the first one."""
        if problem.known is None:
            return
        mask = both(problem.support, problem.known)
        is_free = problem.model_class is ChainModel and not len(problem.layout.compiled.forbidden_arcs)
        if is_free and mask is not None and mask.allowed.any(axis=1).all():
            return  # any labels may be neighbours
        model = problem.model(np.zeros(problem.n_weights))
        what = "y, segment_length" if self.kind.labels_segments else "y"
        evidence = Evidence(problem.known, what, sequence_ids)
        model.posterior(problem.batch, problem.support, evidence=evidence).with_plan(problem.plan.masked(mask)).log_z()

    def penalty(self, prior: Prior, layout: WeightLayout, data: TrainingStructure) -> Penalty:
        """Return the penalty on the weights of a layout; warn about prefixes that match no feature name."""
        names = data.features.names
        penalty = prior.penalty(layout, names, data.targets.labels)
        prior.warn_of_unused_prefixes(names)
        return penalty

    # --- result -------------------------------------------------------------------------------------------------------

    def state(self, data: TrainingData, problem: Problem, penalty: Penalty, report: SolverReport) -> FittedState:
        """Return the state of the model with the weights that a solver reports."""
        layout, weights = problem.layout, report.w
        if penalty.is_sparse:
            layout, weights = layout.without_zeros(weights)
        return self.state_of(data, layout, weights, report, level_zero=problem.level_zero)

    def state_of(
        self, data: TrainingStructure, layout: WeightLayout, weights: np.ndarray, report: SolverReport, **more: Any
    ) -> FittedState:
        """Return the state of a fitted model; ``more`` contains further fields of the state."""
        state = FittedState(
            layout,
            weights,
            data.targets.without_data(),
            data.features,
            report.n_iter,
            report.n_passes,
            report.history,
            report.gap,
            {"constraints": self.estimator.constraints},
            borders=data.rules.borders,
            part_names=data.parts.names,
            **more,
        )
        return state.checked(self.kind)

    def state_without_solver(self, data: TrainingStructure, layout: WeightLayout, weights: np.ndarray) -> FittedState:
        """Return the state of a model with weights that do not come from a solver."""
        report = SolverReport(weights, 0, np.array([np.nan]), np.nan, np.inf, True, "", n_passes=0)
        return self.state_of(data, layout, weights, report)


def _last_point(
    last: FittedState, layout: WeightLayout, new_ids: np.ndarray | None
) -> tuple[np.ndarray, TrainingState | None]:
    """Return the starting weights for a layout, and the matching state of the solver (None if no state is kept)."""
    state = last.stream
    if new_ids is None:
        return last.weights.copy(), state
    start = np.zeros(layout.n_weights)
    start[new_ids] = last.weights
    return start, state and state.moved(new_ids, layout.n_weights)

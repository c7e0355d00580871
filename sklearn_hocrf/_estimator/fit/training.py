"""Training: the data, criterion, prior and solver, the run of the solver, and its report."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from ..._data.arrays import joined_ranges
from ..._data.batch import SequenceBatch, cut_sequences
from ..._data.messages import warn_user
from ..._data.segments import MOST, are_counted
from ..._engine.structure.layout import WeightLayout
from ..._engine.training.lbfgs import LBFGS
from ..._engine.training.minimise import minimise
from ..._engine.training.objectives import OBJECTIVES, Objective
from ..._engine.training.penalties import Penalty
from ..._engine.training.solvers import Minimizer, Solver, SolverReport, one_blas_thread
from ..._engine.training.stochastic import SGD
from ..._reading.attributes import extend_vocabulary, sort_vocabulary
from ..._reading.inputs import FeatureSpace, TrainingSequences
from ..._reading.targets import Targets
from ..labels.constraints import NamedParts, Rules
from ..labels.patterns import pattern_labels
from .parameters import refuse
from .penalties import Prior
from .progress import STARTING, TRAINING, ProgressLines

# arguments: a function that trains with a solver, the solver, and the name of the stage
Watch = Callable[[Callable[[Any], SolverReport], Minimizer, str], SolverReport]
# a tolerance, and the most that scores change between there and the optimum, for the models in docs/develop/design.md
_NEAR, _CHANGE = 1e-1, 0.006


# ------------------------------------------------------------------------------------------------------------- choices


def choose_training(parameters: Mapping[str, Any], name: str) -> Training:
    """Return the training that valid parameters specify, or raise an error if its parts are incompatible.

    Parameters
    ----------
    parameters : dict
        All parameters of an estimator by name.
    name : str
        Name of the estimator, for progress output.
    """
    refuse(parameters)
    setting, max_iter = parameters["solver"], parameters["max_iter"]
    settings: Solver = setting if isinstance(setting, Solver) else SGD() if setting == "sgd" else LBFGS()
    lines = ProgressLines(name if parameters["verbose"] else None, settings.callback)
    callback = lines if parameters["verbose"] else settings.callback
    solver = settings.minimizer(parameters["tol"], max_iter, callback, parameters["random_state"])
    prior = Prior(parameters["sigma_reg"], parameters["l1_reg"])
    return Training(OBJECTIVES[parameters["objective"]](), prior, solver, lines)


# ------------------------------------------------------------------------------------------------------------- running


class Training(NamedTuple):
    """A criterion, a prior and a solver that are compatible."""

    objective: Objective
    prior: Prior
    solver: Any  # a Minimizer
    lines: ProgressLines  # written by the solver if ``verbose``

    def run(
        self, problems: list, penalty: Penalty, start: np.ndarray, is_warm: bool, watch: Watch | None = None
    ) -> list[SolverReport]:
        """Run all stages of training, and return the solver's reports.

        Each stage starts from the weights that the previous stage has trained. If a criterion starts from the weights
        of another criterion, an additional stage trains these weights, unless ``start`` contains the weights of an
        earlier fit (``is_warm``). If there is a function ``watch``, it runs each stage.
        """
        stages: list[SolverReport] = []
        criteria = list(product(problems, self.objectives(is_warm)))
        with one_blas_thread():
            for problem, objective in criteria:
                # a copy, because the caches of a problem take memory, and the next stage does not need them
                train = partial(minimise, objective, penalty, copy.copy(problem), start)
                is_last = len(stages) == len(criteria) - 1
                self.lines.part, name = ("", TRAINING) if is_last else (STARTING, STARTING)
                stages.append(train(self.solver) if watch is None else watch(train, self.solver, name))
                start = stages[-1].w
        return stages

    def objectives(self, is_warm: bool) -> list[Objective]:
        """Return the criteria of all stages: the one for the starting weights, if any, and the criterion itself."""
        first = None if is_warm else self.objective.starting_objective()
        return [self.objective] if first is None else [first, self.objective]


# ----------------------------------------------------------------------------------------------------------- reporting


def warn_not_converged(name: str, solver: Minimizer, stages: list[SolverReport]) -> None:
    """Warn about each stage that did not converge, unless a callback stopped it or its scores are nearly optimal.

    Parameters
    ----------
    name : str
        Name of the estimator.
    solver : solver
        The solver, whose settings determine the remedy.
    stages : list of SolverReport
        The reports of the stages; the last one belongs to the fitted weights.
    """
    for stage in stages:
        if not stage.converged and not stage.stopped and not _is_near(solver, stage):
            trained = name if stage is stages[-1] else f"{name}: training of the weights to start from"
            warn_user(_failure(trained, solver, stage), ConvergenceWarning)


def _failure(trained: str, solver: Minimizer, report: SolverReport) -> str:
    """Return the text of a warning, with the failure and a remedy."""
    parts = [f"{trained} did not converge in {report.n_iter} iterations"]
    if np.isfinite(report.gradient_norm):
        parts.append(f"the gradient norm is {report.gradient_norm:.3g}")
    value = abs(float(report.history[-1]))
    if report.gap <= value:  # a larger bound is useless
        parts.append(f"the objective, {value:.5g}, is at most {report.gap:.3g} above the optimum")
    if np.isfinite(report.gap) and np.isfinite(report.gradient_norm) and report.n_iter >= solver.max_iter:
        parts.append(f"scores on new data may still change by more than {_CHANGE:g}")
    remedy = f"Increase max_iter (now {report.n_iter})"
    if report.n_iter < solver.max_iter:  # no better point was found: rounding errors
        remedy = f"Rounding errors prevent further progress: increase tol (now {solver.tol:g})"
    if report.remedy:
        remedy = report.remedy
    elif len(parts) > 1:  # a minimum exists
        remedy += ", scale numeric features, or choose a smaller sigma_reg"
    return f"{'; '.join(parts)}. {remedy}. (Solver: {report.message})"


def _is_near(solver: Minimizer, report: SolverReport) -> bool:
    """Return whether ``max_iter`` ended training at scores close to those of the optimum."""
    is_judged = np.isfinite(report.gradient_norm) and report.n_iter >= solver.max_iter and not report.remedy
    return bool(is_judged and report.gap <= _NEAR**2 * abs(float(report.history[-1])))


@dataclass(frozen=True, eq=False)
class TrainingStructure:
    """The parts of a model that the training data determine, except the weights."""

    targets: Any  # TokenTargets or SegmentTargets: their ``labels`` are the labels of the patterns
    features: FeatureSpace
    rules: Rules  # constraints on these labels
    parts: NamedParts  # of these labels


@dataclass(frozen=True, eq=False)
class TrainingData(TrainingStructure):
    """Validated training data, without empty sequences or sequences of weight 0."""

    batch: SequenceBatch
    sequence_weight: np.ndarray | None  # (n_sequences,) float64, positive; None: all 1
    _: KW_ONLY
    sequence_ids: np.ndarray | None = None  # indices of the sequences in X, for messages; None for runs
    runs: TrainingData | None = None  # if labels are missing: the longest runs of known ones, as separate sequences
    counted: TrainingData | None = None  # if labels are missing: the longest runs of labels that are known or in sets
    source: np.ndarray | None = None  # for such runs: the index of the sequence that contains each run

    @property
    def labelled(self) -> TrainingData:
        """The data without missing labels, which determine the structure of a model."""
        return self if self.counted is None else self.counted

    @property
    def has_missing_labels(self) -> bool:
        """Whether y contains missing labels or sets."""
        return self.targets.known is not None

    def reindexed(self, features: FeatureSpace) -> TrainingData:
        """Return the data with the feature ids of a larger vocabulary."""
        vocabulary, names = features.vocabulary, features.names
        batch, _ = extend_vocabulary(self.batch, self.features.vocabulary, vocabulary, names)
        return replace(self, batch=batch, features=features)

    @property
    def n_labelled(self) -> int:
        """The number of tokens with a known label, or with a set of labels that determines weights."""
        known = self.targets.known
        if known is None:
            return self.batch.n_tokens
        return int(np.sum(are_counted(known.allowed.sum(axis=1), len(self.targets.labels))))

    def with_labelled_runs(self) -> TrainingData:
        """Return the data, with ``runs`` and ``counted`` if y contains missing labels.

        Raises
        ------
        ValueError
            If no label in y is known, or if no segment is known as a whole.
        """
        if not self.has_missing_labels:
            return self
        targets = self.targets
        counted = self._runs(targets)
        runs = counted if targets.sets is None else self._runs(targets._replace(sets=None))
        if counted is None and self.n_labelled:
            raise ValueError(
                "no segment of y is known as a whole: beside a missing label, a run of labels may go on. Label whole "
                'segments, or use HighOrderCRF(history="segments"), which learns from single labels'
            )
        if counted is None:
            raise ValueError(
                "y has only missing labels: no token or segment has a known label to learn from, or a set of at most "
                f"{MOST} labels and at most half of all (or two of three): larger sets do not determine any weights"
            )
        return replace(self, runs=runs, counted=counted)

    def _runs(self, targets: Targets) -> TrainingData | None:
        """Return the longest runs of known targets, as separate sequences; None if nothing is known."""
        starts, stops = targets.known_runs(self.batch.offsets)
        if not len(starts):
            return None
        source = np.searchsorted(self.batch.offsets, starts, side="right") - 1
        targets = targets.of_runs(starts, stops, joined_ranges(starts, stops))
        weight = None if self.sequence_weight is None else self.sequence_weight[source]
        batch = cut_sequences(self.batch, starts, stops)
        return replace(self, batch=batch, targets=targets, sequence_weight=weight, source=source, sequence_ids=None)


def with_targets(sequences: TrainingSequences, targets: Targets, rules: Rules, parts: NamedParts) -> TrainingData:
    """Return the training data with targets of the used sequences, and the rules and parts of labels."""
    batch, features = sorted_features(sequences)
    weight = sequences.sequence_weight
    if weight is not None and sequences.is_used is not None:
        weight = weight[sequences.is_used]
    return TrainingData(targets, features, rules, parts, batch, weight, sequence_ids=sequences.sequence_ids)


def sorted_features(sequences: TrainingSequences) -> tuple[SequenceBatch, FeatureSpace]:
    """Return the used sequences and their features, with new feature names sorted."""
    batch, features = sequences.batch, sequences.features
    if sequences.is_used is not None:
        batch = batch[sequences.is_used]
    if sequences.vocabulary is not None:
        batch, vocabulary = sort_vocabulary(batch, sequences.vocabulary)
        if features.vocabulary is not None:
            batch, vocabulary = extend_vocabulary(batch, vocabulary, features.vocabulary, features.names)
        features = features._replace(n_features=len(vocabulary), names=batch.feature_names, vocabulary=vocabulary)
    return batch, features


def _feature_keys(new: FeatureSpace, old: FeatureSpace) -> tuple[Sequence, Sequence]:
    """Return keys of the features of two fits: names if both fits have feature names, otherwise indices."""
    if new.names is not None and old.names is not None:
        return new.names, old.names
    if new.n_features == old.n_features:
        return range(new.n_features), range(old.n_features)
    return range(new.n_features), [None] * old.n_features


def _matching(new: Sequence, old: Sequence) -> sparse.csr_array:
    """Return the 0/1 matrix of shape (len(new), len(old)) that marks equal keys."""
    index_of = {key: i for i, key in enumerate(old)}
    pairs = [(i, index_of[key]) for i, key in enumerate(new) if key in index_of]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return sparse.csr_array((np.ones(len(pairs)), (rows, columns)), shape=(len(new), len(old)))


def last_weights(old: Mapping[str, Any], layout: WeightLayout, data: TrainingStructure) -> np.ndarray:
    """Return the weights in fitted attributes for another layout, matched by pattern and feature; 0 for new weights."""
    state, labels = old["_state"], data.targets.labels
    rows = _matching(pattern_labels(layout.patterns, labels), old["patterns_"])
    columns = _matching(*_feature_keys(data.features, state.features))
    parts = _matching(data.parts.names.tolist(), list(state.part_names))
    coef = rows @ old["coef_"] @ columns.T, parts @ state.layout.part_coef(state.weights) @ columns.T
    token_coef = rows[: len(labels), : len(state.targets.labels)] @ state.layout.token_coef(state.weights)
    return layout.weights(rows @ old["pattern_coef_"], *coef, token_coef)

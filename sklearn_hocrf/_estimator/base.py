"""Base class of the sequence labellers: parameters and the course of ``fit``.

A subclass defines the family of its models, what its targets are and how they look per token, and what builds its
structure (``_make_builder``). Everything is computed in local variables; the estimator changes only at the end of a
successful fit.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags

from .._data.batch import SequenceBatch
from .._data.masks import Mask, both
from .._inference.families import CHAIN, SEGMENTS, Family
from .._inference.impossible import naming_the_impossible
from .._objectives import Problem
from .._penalties import Penalty
from .._persistence import VersionMixin, with_lists, with_mappings
from .._solvers import SolverReport, TrainingState
from .._structure.automaton import PatternAutomaton
from .._structure.layout import LayoutBuilder, LayoutFrame, WeightLayout
from .._structure.pairs import PairRule
from .._structure.patterns import TOKENS, PatternTable
from .._validation import (
    FeatureSpace,
    Known,
    TrainingData,
    TrainingSequences,
    read_training_sequences,
    warn_user,
)
from .._validation._sklearn import fit_context
from .answers import AnswersMixin
from .callbacks import STARTING, CallbacksMixin, FitTasks, without_tasks
from .compatibility import Asked, refuse
from .constraints import (
    LabelRuns,
    compile_constraints,
    refuse_breaches,
    without_forbidden_patterns,
)
from .fitted import Fitted
from .fitting import (
    Prior,
    Training,
    choose_training,
    warn_not_converged,
    without_zeros,
)
from .label_parts import compile_label_parts
from .names_elsewhere import NamesElsewhere, answering
from .parameters import MAPPINGS, PARAMETER_CONSTRAINTS, check_parameters, resolve_feature_orders
from .partial_fit import PartialFitMixin
from .patterns import ObservedPatterns, pattern_labels, select_patterns
from .predictions import PredictionsMixin, border_mask
from .progress import lines_of
from .pruning import prune, prune_runs

__all__ = ["BaseSequenceLabeler"]

_FEW_KNOWN = 0.1  # share of the tokens below which there is a warning
_CRITERION = ("objective", "sigma_reg", "l1_reg", "constraints")  # what is minimised


class BaseSequenceLabeler(
    NamesElsewhere,
    VersionMixin,
    PredictionsMixin,
    AnswersMixin,
    PartialFitMixin,
    CallbacksMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """Fit, predict and score of a penalised sequence model; see :class:`~sklearn_hocrf.HighOrderCRF`.

    Its parameters and attributes are documented in the estimators, in the same words (tests/test_docstrings.py).
    """

    _parameter_constraints: dict = PARAMETER_CONSTRAINTS
    _takes_segment_features = False
    _family: Family
    _layout_class: type
    _private_attributes: tuple = ()  # set from the targets, in addition to attributes that end in "_"
    _least_labels = 2  # number of labels that training data must have

    # --- hooks --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _read_training_targets(self, y: Any, sequences: TrainingSequences, fixed: Any = None) -> Any:
        """Return the targets of training sequences, with ``labels`` and ``as_lists``.

        ``fixed`` is as for :func:`read_token_targets`.
        """

    @abstractmethod
    def _read_label_set(self, y: Any, sequences: TrainingSequences) -> np.ndarray:
        """Return the labels of training sequences, which may be a part of the training data, sorted."""

    @abstractmethod
    def _check_classes(self, classes: ArrayLike) -> np.ndarray:
        """Return the possible labels of patterns, sorted, from the parameter ``classes``, which has the form of y."""

    @abstractmethod
    def _target_attributes(self, targets: Any) -> dict:
        """Return ``classes_`` and all other fitted attributes that depend on the targets."""

    @abstractmethod
    def _make_builder(self, targets: Any, frame: LayoutFrame, rule: PairRule) -> LayoutBuilder:
        """Return the builder of the weight layout.

        ``targets`` may lack the data, ``frame`` is a LayoutFrame, ``rule`` a PairRule.
        """

    @abstractmethod
    def _read_truth(self, y: Any, batch: SequenceBatch, form: str, unknown: str) -> Any:
        """Return user-given labellings in the form of the model's predictions."""

    @abstractmethod
    def _has_holes(self, y: Any, batch: SequenceBatch, form: str) -> bool:
        """Return whether y has unknown labels."""

    @abstractmethod
    def _token_codes(self, decoded: Any) -> np.ndarray:
        """Return the decoded class of each token as an index into ``classes_``; shape (N,)."""

    @abstractmethod
    def _are_right(self, decoded: Any, truth: Any) -> np.ndarray:
        """Return for each token whether its decoded class is correct; bool of shape (N,)."""

    @abstractmethod
    def _read_known(
        self, known: Any, batch: SequenceBatch, form: str, what: str = "known", unknown: str = "raise"
    ) -> Known:
        """Return the constraints that labels with holes, called ``what`` in messages, impose on a batch.

        ``unknown="ignore"`` treats labels that the model does not know as impossible.
        """

    @abstractmethod
    def _class_marginals(self, batch: SequenceBatch, mask: Mask | None) -> np.ndarray:
        """Return the probabilities of ``classes_`` at each token, given a mask; shape (N, n_classes)."""

    # --- fit ----------------------------------------------------------------------------------------------------------

    @answering
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to labelled sequences.

        A plain 2-D X, such as a data frame of a time series, with a 1-D y is read as n sequences of one token, not as
        one sequence. The model is then multinomial logistic regression; a warning says so where the index of X has
        times, or where neighbouring rows have the same label far more often than by chance, as in a recording. To fit
        one sequence, use ``fit([X], [y])``; to fit several, one for each value of a column, use ``fit([rows for _, rows
        in frame.groupby("series")], ...)``.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            A sequence is a list of feature dicts, a list of attribute-name lists, or a 2-D array or sparse matrix of
            shape (n_tokens, n_features). A 3-D array is a list of sequences of equal length; a plain 2-D array, data
            frame or sparse matrix is n sequences of length 1. Empty sequences are not allowed. An array that is at
            least half nonzero is kept dense, and float32 is preserved: the result is the same except for rounding, and
            takes less memory and time.
        y : list of label sequences, or array-like
            One label per token: hashable values that are mutually comparable. 1-D for a plain 2-D X. For
            :class:`~sklearn_hocrf.HighOrderSemiCRF`: labels, tags or segments, according to its ``scheme``. It may have
            holes, as ``known`` in :meth:`predict`: None for an unknown label, sets of possible
            labels, None for a whole sequence; see Notes.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence. It also weights the counts of patterns and features. Weight 0 excludes the
            sequence.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            For invalid parameters and data, before any work. The estimator is left unchanged.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If a solver stopped before the gradient was small enough, or could not decrease the function; also if there
            is no optimum, for example because a model without a penalty separates the data. Not if a callback stopped
            it.
        UserWarning
            If the label patterns have more than a million labels in total and may take much time or memory. The warning
            precedes the work and estimates both. Also if y labels less than a tenth of the tokens, and if the rows of a
            plain 2-D X seem to be one sequence.

        Notes
        -----
        With holes in y, training maximises the probability of the known labels, the sum over all labellings that agree
        with them [1]_. This is not convex: training starts from the fit on the longest runs of known labels, and ends
        in an optimum near it; ``optimality_gap_`` is inf. The patterns, and the pairs of patterns and features, come
        from the runs of known labels only. The labels are all labels in y, including those in sets. Local feature
        matching and :class:`~sklearn_hocrf.model_selection.PenaltySearchCV` need all labels.

        Labels must be missing at random, given the words and the known labels. If only entities are labelled and
        nothing is known about the other tokens, a model that finds entities everywhere explains y best: label the
        tokens that are "O". Completely unlabelled sequences have no effect.

        References
        ----------
        .. [1] Tsuboi, Kashima, Mori, Oda and Matsumoto, "Training conditional random fields using incomplete
           annotations", COLING 2008.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> HighOrderCRF().fit(X, y).classes_
        array(['ADJ', 'DET', 'NOUN'], dtype='<U4')

        Not all labels are known:

        >>> y = [["DET", None, "NOUN"], [{"DET", "ADJ"}, "NOUN"]]
        >>> HighOrderCRF().fit(X, y).predict(X)
        [['DET', 'NOUN', 'NOUN'], ['DET', 'NOUN']]
        """
        training = self._choose_training()
        sequences = read_training_sequences(self, X, sample_weight)
        data = self._read_training_data(y, sequences)
        self._check_holes(data)
        is_warm = self.warm_start and hasattr(self, "coef_")
        tasks = FitTasks(self, training.solver, self._n_stages(training, data, is_warm), X, y, sample_weight)
        problem = self._build_problem(data)
        start = self._last_weights(problem.layout, data) if is_warm else np.broadcast_to(0.0, problem.n_weights)
        penalty = self._choose_penalty(training.prior, problem.layout, data)
        stages = self._train(training, problem, penalty, data, start, is_warm, tasks)
        learned = self._report_learned(data, problem, penalty, stages[-1])
        self._keep(tasks.best(learned))
        tasks.end()
        lines_of(training.solver).end(stages[-1])
        warn_not_converged(type(self).__name__, training.solver, stages)
        return self

    def _n_stages(self, training: Training, data: TrainingData, is_warm: bool) -> int:
        """Return the number of times that the solver is called."""
        n_objectives = len(training.objectives(is_warm))
        return n_objectives if data.runs is None or is_warm else 2 * n_objectives

    def _read_training_data(self, y: Any, sequences: TrainingSequences, fixed: Any = None) -> TrainingData:
        """Return training sequences with their targets, which violate no constraint; ``fixed`` as for the targets."""
        targets = self._read_training_targets(y, sequences, fixed)
        rules = compile_constraints(self.constraints, targets.labels, self._history)
        parts = compile_label_parts(self.label_parts, targets.labels)
        data = sequences.with_targets(targets, rules, parts).with_runs()
        if data.runs is not None and self._family is SEGMENTS:
            return data  # segments with gaps between them are not neighbours
        codes, offsets = self._family.label_sequences(targets.labelling, data.batch)
        if data.runs is None:
            sequences.warn_of_one_recording(codes)
        if not rules.forbidden and rules.borders is None:
            return data
        origin = np.repeat(data.batch.offsets[:-1], np.diff(offsets))
        runs = LabelRuns(codes, offsets, targets.starts - origin, sequences.numbers)
        refuse_breaches(rules, self.constraints, targets.labels, runs, self._history)
        return data

    def _check_holes(self, data: TrainingData) -> None:
        """Raise a ValueError if y has holes that this training does not support; warn if y has few known labels."""
        if data.runs is None:
            return
        self._refuse("holes")
        n_known, n_tokens = data.runs.batch.n_tokens, data.batch.n_tokens
        if n_known < _FEW_KNOWN * n_tokens:
            warn_user(f"only {n_known} of {n_tokens} tokens are labelled, which is less than a tenth")

    def _check_possible(self, problem: Problem, numbers: np.ndarray | None) -> None:
        """Raise a ValueError for the first sequence without a labelling that agrees with y; numbers are those in X."""
        if problem.known is None:
            return
        mask = both(problem.support, problem.known)
        is_free = self._family is CHAIN and not len(problem.layout.compiled.forbidden_arcs)
        if is_free and mask is not None and mask.allowed.any(axis=1).all():
            return  # any labels may be neighbours
        model = problem.model(np.zeros(problem.n_weights))
        what = "y, segment_length" if self._family is SEGMENTS else "y"
        with naming_the_impossible(model, problem.batch, mask, problem.support, what=what, numbers=numbers):
            model.log_partition(problem.batch, self.n_jobs, problem.plan.masked(mask))

    def _train(
        self,
        training: Training,
        problem: Problem,
        penalty: Any,
        data: TrainingData,
        start: np.ndarray,
        is_warm: bool,
        tasks: FitTasks,
    ) -> list[SolverReport]:
        """Return the solver's reports of all stages of training.

        If y has holes, the first stages train on the labels that are known for certain.
        """
        learned = partial(self._report_learned, data, problem, penalty)
        stages, lines = [], lines_of(training.solver)
        if data.runs is not None and not is_warm:
            lines.part = STARTING
            of_runs = prune_runs(self._pose_problem(problem.layout, data.runs), problem)
            stages = training.run(of_runs, penalty, start, is_warm, tasks.watch(learned, STARTING))
            start, lines.part = stages[-1].w, ""
        return stages + training.run(problem, penalty, start, is_warm, tasks.watch(learned))

    def _build_problem(self, data: TrainingData) -> Problem:
        """Return validated training data under the layout of their weights."""
        problem = self._pose_problem(self._build_layout(data), data)
        self._check_possible(problem, data.numbers)
        return self._prune(problem)

    def _prune(self, problem: Problem) -> Problem:
        """Return a problem over the labels that ``pruning`` leaves; the same one without it."""
        return prune(problem, getattr(self, "pruning", None), self.random_state)

    def _build_layout(self, data: TrainingData, like: WeightLayout | None = None, patterns: Any = None) -> WeightLayout:
        """Return the layout of the weights for validated training data.

        With ``like``, a layout, its patterns are used. Otherwise ``patterns`` replaces the parameter.
        """
        data = data.labelled
        table = like.patterns if like is not None else self._select_patterns(patterns, data, self._observed(data))
        builder = self._layout_builder(data, table, like)
        counts = builder.count(data.batch, data.targets.labelling, data.sequence_weight)
        return builder.build(counts)

    def _layout_builder(
        self, data: TrainingData, patterns: PatternTable, like: WeightLayout | None = None
    ) -> LayoutBuilder:
        """Return the builder of the weight layout, for label patterns and ``data``, whose sequences are not used.

        ``like`` is a layout of the same patterns.
        """
        orders = resolve_feature_orders(self.feature_order, self.max_order, data.features.names)
        rule = PairRule(orders, self.min_count, self.all_pairs)
        frame = LayoutFrame.of(patterns, data.rules.forbidden, data.parts.codes)
        return self._make_builder(data.targets, frame if like is None else LayoutFrame.like(like), rule)

    def _pose_problem(self, layout: WeightLayout, data: TrainingData) -> Problem:
        """Return validated training data under a layout."""
        targets = data.targets
        # runs of known labels may begin and end in the middle of sequences
        support = border_mask(data.batch, data.rules.borders) if data.source is None else None
        return Problem(
            self._family,
            layout,
            data.batch,
            targets.labelling,
            sequence_weight=data.sequence_weight,
            n_jobs=self.n_jobs,
            support=support,
            known=targets.known,
        )

    @property
    def _history(self) -> str:
        """What the labels of patterns are those of; the positions of a semi-CRF are segments already."""
        return getattr(self, "history", TOKENS)

    def _check_parameters(self) -> None:
        """Check what ``_parameter_constraints`` cannot express."""
        check_parameters(self.get_params(deep=False))

    def _refuse(self, circumstance: str) -> None:
        """Raise a ValueError for settings that exclude a circumstance."""
        refuse(Asked(self.get_params(deep=False), type(self).__name__, circumstance))

    def _choose_training(self) -> Training:
        """Check the parameters and return the :class:`Training` that they specify."""
        self._check_parameters()
        return choose_training(self.get_params(deep=False), type(self).__name__)

    def _choose_penalty(self, prior: Prior, layout: WeightLayout, data: TrainingData) -> Penalty:
        """Return the penalty on the weights for training data; warn of prefixes that match no feature name."""
        names = data.features.names
        penalty = prior.penalty(layout, names, data.targets.labels)
        prior.warn_of_unused_prefixes(names)
        return penalty

    def _observed(self, data: TrainingData) -> ObservedPatterns:
        """Return the label patterns of training data."""
        codes, offsets = self._family.label_sequences(data.targets.labelling, data.batch)
        n_labels = len(data.targets.labels)
        return ObservedPatterns.of_labels(codes, offsets, n_labels, data.sequence_weight, self._history)

    def _select_patterns(self, patterns: Any, data: TrainingData, observed: ObservedPatterns) -> PatternTable:
        """Return the label patterns of the model; ``patterns`` replaces the parameter unless it is None."""
        given, labels = self.patterns if patterns is None else patterns, data.targets.labels
        table = select_patterns(given, labels, observed, self.max_order, self.min_count)
        is_given = not isinstance(given, str)
        return without_forbidden_patterns(data.rules, self.constraints, table, labels, is_given)

    def _last_weights(self, layout: WeightLayout, data: TrainingData) -> np.ndarray:
        """Return the weights of the last fit, matched by pattern and feature; 0 for new ones."""
        rows = _matching(pattern_labels(layout.patterns, data.targets.labels), self.patterns_)
        columns = _matching(*_feature_keys(data.features, self._features))
        parts = _matching(data.parts.names.tolist(), self.label_parts_.tolist())
        coef = rows @ self.coef_ @ columns.T, parts @ self.part_coef_ @ columns.T
        token_coef = rows[: len(data.targets.labels), : len(self._labels)] @ self._layout.token_coef(self._weights)
        return layout.weights(rows @ self.pattern_coef_, *coef, token_coef)

    def _report_learned(self, data: TrainingData, problem: Problem, penalty: Any, report: SolverReport) -> Fitted:
        """Return the record of the model that a solver reports."""
        layout, weights = without_zeros(penalty, problem.layout, report.w)
        learned = self._learned(data, layout, weights, report)
        return learned._replace(level_zero=problem.level_zero).checked(self._layout_class)

    def _learned(
        self,
        data: TrainingData,
        layout: WeightLayout,
        weights: np.ndarray,
        report: SolverReport,
        stream: TrainingState | None = None,
    ) -> Fitted:
        """Return the record of the fitted model."""
        learned = Fitted(
            layout,
            weights,
            data.targets.without_data(),
            data.features,
            report.n_iter,
            report.n_passes,
            report.history,
            report.gap,
            self._trained_with(),
            stream,
            data.rules.borders,
            part_names=data.parts.names,
        )
        return learned.checked(self._layout_class)

    def _trained_with(self) -> dict:
        """Return the parameters that define the minimised function, for the record of the fitted model."""
        # copies of mappings, because the user may change the originals
        given = {name: getattr(self, name) for name in _CRITERION}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()}

    def _keep(self, learned: Fitted) -> None:
        """Set all fitted attributes at once, so that no interrupt or other thread sees a mixture of models."""
        attributes = self._attributes_of(learned)
        before = self.__dict__.copy()
        self.__dict__.update(attributes)
        del before  # kept the replaced values alive, so that none is destroyed in the middle of the update

    def _attributes_of(self, learned: Fitted) -> dict:
        layout, weights = learned.layout, learned.weights
        coef, part_coef = layout.coef(weights), layout.part_coef(weights)
        if learned.stream is not None:
            coef.eliminate_zeros()
            part_coef.eliminate_zeros()
        return {
            "_fitted": learned,
            **self._target_attributes(learned.targets),
            "n_features_in_": learned.features.n_features,
            "patterns_": pattern_labels(layout.patterns, learned.targets.labels),
            "pattern_coef_": layout.pattern_coef(weights),
            "coef_": coef,
            "label_parts_": learned.part_names,
            "part_coef_": part_coef,
            "n_iter_": learned.n_iter,
            "n_passes_": learned.n_passes,
            "objective_history_": learned.history,
            "optimality_gap_": learned.gap,
        }

    def __copy__(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__ = without_tasks(self.__dict__.copy())  # in one step, because other threads may refit
        return twin

    def __getstate__(self) -> dict[str, Any]:
        """Return the parameters and the fitted record, without the attributes that can be derived from it."""
        state = without_tasks(super().__getstate__())
        state = {name: value for name, value in state.items() if not self._is_made(name)}
        if "_fitted" in state:
            learned = state["_fitted"]
            state["_fitted"] = learned._replace(
                trained_with=with_lists(learned.trained_with, MAPPINGS), features=learned.features.packed(), made=None
            )
        return with_lists(state, MAPPINGS)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        state = with_mappings({name: value for name, value in state.items() if not self._is_made(name)}, MAPPINGS)
        learned = state.pop("_fitted", None)
        super().__setstate__(state)
        if learned is not None:
            learned = Fitted(*learned)
            if isinstance(learned.trained_with, dict):
                learned = learned._replace(trained_with=with_mappings(learned.trained_with, MAPPINGS))
            self._keep(learned.checked(self._layout_class))

    def _is_made(self, name: str) -> bool:
        return name in self._private_attributes or (name.endswith("_") and not name.startswith("_"))

    def _divided_by(self, temperature: float) -> Self:
        """Return the fitted estimator with its weights divided, as a copy that shares the rest."""
        divided, learned = self._as_fitted(), self._fitted
        total = float(learned.temperature * temperature)
        # the state of partial_fit belongs to the old weights
        learned = learned._replace(weights=learned.weights / temperature, temperature=total, stream=None)
        divided._keep(learned.checked(divided._layout_class))
        return divided

    def _build_model(self) -> Any:
        """Return the fitted model that decodes batches and gives their marginals."""
        return self._fitted.model(self._family)

    @property
    def pruning_recall_(self) -> float:
        """The fraction of held-out tokens that keep their label; defined only if ``pruning`` left labels out."""
        fitted = getattr(self, "_fitted", None)
        if fitted is None or fitted.level_zero is None:
            raise AttributeError(f"{type(self).__name__} has no pruning_recall_: its tokens keep all labels")
        return fitted.level_zero.recall

    @property
    def intercept_(self) -> np.ndarray:
        """The weights of the labels themselves, of shape (n_labels,)."""
        if not hasattr(self, "_fitted"):
            raise AttributeError(f"{type(self).__name__} has no intercept_: it is not fitted")
        return self.pattern_coef_[: len(self._labels)]

    @property
    def n_parameters_(self) -> int:
        """The number of weights of the fitted model."""
        if not hasattr(self, "_fitted"):
            raise AttributeError(f"{type(self).__name__} has no n_parameters_: it is not fitted")
        return self._layout.n_weights

    @property
    def automaton_(self) -> PatternAutomaton:
        """The compiled patterns: states and arcs."""
        return self._layout.automaton

    @property
    def _layout(self) -> Any:
        return self._fitted.layout

    @property
    def _weights(self) -> np.ndarray:
        return self._fitted.weights

    @property
    def _features(self) -> FeatureSpace:
        return self._fitted.features

    @property
    def _labels(self) -> np.ndarray:
        return self._fitted.targets.labels

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, of shape (n_features_in_,); defined only if the training X had names."""
        features = getattr(self, "_features", None)
        if features is None or features.names is None:
            raise AttributeError(f"{type(self).__name__} has no feature_names_in_: X had no feature names in fit")
        return np.asarray(features.names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        # not a ClassifierMixin: GridSearchCV(cv=5) would then require one label per sequence (type_of_target)
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags


def _feature_keys(new: FeatureSpace, old: FeatureSpace) -> tuple[Sequence, Sequence]:
    """Return keys of the features of two fits: names if both have them, otherwise indices."""
    if new.names is not None and old.names is not None:
        return new.names, old.names
    if new.n_features == old.n_features:
        return range(new.n_features), range(old.n_features)
    return range(new.n_features), [None] * old.n_features


def _matching(new: Sequence, old: Sequence) -> sparse.csr_array:
    """Return the 0/1 matrix of shape (len(new), len(old)) that marks equal keys."""
    number = {key: i for i, key in enumerate(old)}
    pairs = [(i, number[key]) for i, key in enumerate(new) if key in number]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return sparse.csr_array((np.ones(len(pairs)), (rows, columns)), shape=(len(new), len(old)))

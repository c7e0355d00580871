"""Training on a stream: ``partial_fit`` of all sequence labellers.

A call makes one pass over some sequences, starting from the solver's state after the previous call. The first call
fixes labels, label patterns and, for segments, maximum lengths. Pairs of features and patterns get weights when they
first occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..._data.checks import short
from ..._engine.structure.layout import WeightLayout
from ..._engine.training.solvers import one_blas_thread
from ..._engine.training.stochastic import TrainingState
from ..._reading.inputs import read_training_sequences
from ..._sklearn.names import available_if, fit_context
from ..answers.fitted import FittedModel, FittedState
from ..labels.constraints import Rules
from .fit_steps import FitSteps, Patterns
from .parameters import check_patterns, is_stochastic
from .training import TrainingData, warn_not_converged


def _can_stream(estimator: BaseEstimator) -> bool:
    """Return True, or raise an AttributeError with a remedy."""
    if is_stochastic(estimator.solver):
        return True
    raise AttributeError(
        f"partial_fit of {type(estimator).__name__} needs the solver 'sgd', or an instance of SGD; got solver="
        f"{estimator.solver!r}"
    )


class PartialFitMixin:
    """``partial_fit`` of both estimators."""

    @available_if(_can_stream)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Sized,
        y: Sized,
        classes: ArrayLike | None = None,
        patterns: str | Iterable[tuple] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on the next sequences of a stream, with one pass over them.

        This method is available if the solver is "sgd" or an instance of :class:`~sklearn_hocrf.training.SGD`. The
        state of the solver (the number of sequences seen, sums of squared gradients, ...) is kept between calls. On a
        fitted estimator, training continues from its weights, regardless of the solver that found them. :meth:`fit`
        starts from scratch.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            The next sequences, as in :meth:`fit`. New attribute names get the next free column indices. In any other
            form, X must have the features of the first call. For raw tokens, a hashing extractor needs no vocabulary:
            ``SequenceFeatureExtractor(n_features=...)``.
        y : list of label sequences, or array-like
            As in :meth:`fit`.
        classes : array-like of labels, default=None
            All labels of the stream; tags for "bio" and "bioes". None means the labels of the first call. Optional in
            later calls. Constraints apply to these labels, and are also fixed by the first call.
        patterns : {"observed", "all"}, iterable of tuples of labels or None, default=None
            The label patterns of the stream, which override the parameter ``patterns``; "observed" selects the patterns
            of the first call. Optional on a fitted estimator, which keeps its patterns.
        sample_weight : array-like of shape (n_sequences,), default=None
            As in :meth:`fit`.

        Returns
        -------
        self : object
            ``objective_history_`` contains two values, from before and after the pass, for the sequences of this call
            with their share of the penalty. ``optimality_gap_`` is inf.

        Raises
        ------
        AttributeError
            If the solver is not stochastic.
        ValueError, TypeError
            For invalid data, and for labels that are not among the classes. The estimator is left unchanged.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the first pass increased the minimised function.

        Notes
        -----
        The penalty applies to the stream as a whole; for each sequence, it is multiplied by 1 / N. N is ``n_sequences``
        of the solver (:class:`~sklearn_hocrf.training.SGD`), by default the number of sequences seen so far. Set
        ``n_sequences`` if you read a file several times.

        A call takes about as long as a pass over its sequences and over all weights, so it is best to pass thousands of
        sequences in each call. The first call determines the step size from its sequences, unless the solver has a
        given ``step_size``; it should therefore contain more than a few sequences. ``min_count`` above 1 raises an
        error, because it depends on the entire stream.

        Examples
        --------
        >>> from sklearn_hocrf import HighOrderCRF
        >>> crf = HighOrderCRF(solver="sgd", random_state=0)
        >>> X = [[["the"], ["old"], ["man"]], [["the"], ["man"]]]
        >>> y = [["DET", "ADJ", "NOUN"], ["DET", "NOUN"]]
        >>> for _ in range(3):
        ...     crf = crf.partial_fit(X, y, classes=["ADJ", "DET", "NOUN", "VERB"])
        >>> crf.partial_fit([[["men"], ["walk"]]], [["NOUN", "VERB"]]).predict(
        ...     [[["the"], ["walk"]]]
        ... )
        [['DET', 'NOUN']]
        """
        check_patterns(patterns)
        steps = FitSteps(self)
        steps.check()  # scikit-learn checks parameters at the first call alone, and set_params may have changed them
        steps.refuse("stream")
        training = steps.choose_training()
        before = FittedModel(self) if hasattr(self, "_state") else None
        if before is not None:
            data, layout, new_ids = _read_next(steps, before, X, y, classes, patterns, sample_weight)
            start, state = _last_point(before.state, layout, new_ids)
        else:
            fixed = None if classes is None else steps.kind.targets.check_classes(steps.reader, classes)
            data = steps.read(X, y, sample_weight, fixed)
            layout = steps.layout(data, patterns=patterns)
            start, state = np.zeros(layout.n_weights), None
        steps.check_missing_labels(data)
        penalty, problem = steps.penalty(training.prior, layout, data), steps.pose(data, layout)
        steps.check_possible(problem, data.sequence_ids)
        with one_blas_thread():
            report, state = training.solver.partial_solve(training.objective.bind(problem), penalty, start, state)
        steps.state_of(data, layout, report.w, report, stream=state).set_on(self)
        warn_not_converged(steps.name, training.solver, [report])
        return self


def _last_point(
    last: FittedState, layout: WeightLayout, new_ids: np.ndarray | None
) -> tuple[np.ndarray, TrainingState | None]:
    """Return the starting weights under a layout, and the state of the solver for it, or None."""
    state = last.stream
    if new_ids is None:
        return last.weights.copy(), state
    start = np.zeros(layout.n_weights)
    start[new_ids] = last.weights
    return start, state and state.moved(new_ids, layout.n_weights)


def _read_next(
    steps: FitSteps,
    before: FittedModel,
    X: Sized,
    y: Sized,
    classes: ArrayLike | None,
    patterns: Patterns,
    sample_weight: ArrayLike | None,
) -> tuple[TrainingData, WeightLayout, np.ndarray | None]:
    """Return the training data of a later call, their layout, and the indices of the old weights in it, or None."""
    estimator, last, labels = steps.estimator, before.state, before.labels.tolist()
    if classes is not None and steps.kind.targets.check_classes(steps.reader, classes).tolist() != labels:
        raise ValueError(f"classes differ from those of the first call, {labels!r}: they are fixed from then on")
    sequences = read_training_sequences(before.reader, X, sample_weight, last.features)
    data = steps.read_targets(y, sequences, last.targets)
    changed = ""
    if not data.rules.equal(Rules(last.layout.forbidden, last.borders)):
        changed = f"constraints={short(estimator.constraints)} differ from the first call: they are"
    elif steps.history != last.layout.patterns.history:
        changed = f"history={estimator.history!r} differs from the first call: it is"
    elif not data.parts.equal(last.part_names, last.layout.parts):
        changed = f"label_parts={short(estimator.label_parts)} assigns different parts than in the first call: they are"
    if changed:
        raise ValueError(f"{changed} fixed from then on")
    if patterns is not None and not isinstance(patterns, str):
        singles = {(label,) for label in labels}
        if {tuple(pattern) for pattern in patterns} | singles != set(before.estimator.patterns_):
            raise ValueError("patterns differ from those of the first call: they are fixed from then on")
    return data, *last.layout.joined(steps.layout(data, like=last.layout))

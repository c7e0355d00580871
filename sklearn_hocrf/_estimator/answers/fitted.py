"""The state of a fitted model, which is saved in files and determines all predictions.

Estimators and other components query a fitted estimator through :class:`FittedModel`; :class:`OneCall` computes
predictions for one sequence without a batch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence, Sized
from functools import partial
from itertools import chain, repeat
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._data.arrays import freeze
from ..._data.batch import SequenceBatch
from ..._data.columns import DenseColumns
from ..._data.segments import Labelling, Mask
from ..._engine.inference.candidates import LatticeModel, LevelZero
from ..._engine.inference.chain import OneSequence
from ..._engine.inference.model import LabelledBatch, Model
from ..._engine.inference.posterior import Evidence, Posterior
from ..._engine.structure.layout import WeightLayout
from ..._engine.training.stochastic import TrainingState
from ..._reading.inputs import FeatureSpace, Reader, check_sequence_weight, read_sequences
from ..._reading.rows import refuse_infinite_values
from ..._reading.targets import Targets, read_truth
from ..labels.kinds import Kind
from ..labels.patterns import SegmentTags, pattern_labels
from .query import Query

MOST_KEPT = 1 << 26  # bytes of tables that are kept in addition to the weights


class CachedTables:
    """Tables that the first query to a model creates, and that the state keeps; its copies and files omit them.

    Attributes
    ----------
    model : Model or None
        The model with the tables that its kernels read. Any thread may set it, because all threads create the same
        tables.
    tags : dict
        The labels as tags of segments, by scheme. Any thread may add to it.
    one : OneCall or None
        The tables for calls with one sequence. Any thread may set them.
    """

    __slots__ = ("model", "one", "tags")

    def __init__(self, model: Model | None = None) -> None:
        self.model = model
        self.one: OneCall | None = None
        self.tags: dict[str, SegmentTags] = {}

    def __reduce__(self) -> tuple:
        return CachedTables, ()


class FittedState(NamedTuple):
    """The result of fit, from which all fitted attributes are derived."""

    layout: WeightLayout
    weights: np.ndarray  # (n_weights,)
    targets: Targets  # without the data
    features: FeatureSpace
    n_iter: int
    n_passes: float
    history: np.ndarray  # (n_iter + 1,)
    gap: float
    trained_with: dict  # the parameter ``constraints``
    stream: TrainingState | None = None  # state of the solver, if partial_fit trained the weights
    borders: np.ndarray | None = None  # (2, L) bool   labels at the start and at the end of sequences; None: all
    level_zero: LevelZero | None = None  # which labels tokens may have; None: all
    part_names: Any = None  # (S,)   of the parts of labels
    temperature: float = 1.0  # by which calibration divided the trained weights
    tables: CachedTables | None = None  # set by ``checked``

    def model(self, model_class: type[Model]) -> Model:
        """Return the model with the weights; it is cached unless its tables are large."""
        kept = self.tables and self.tables.model
        if kept and kept.weights is self.weights:  # states may be copied with other weights
            return kept
        if self.level_zero is not None:
            model: Model = LatticeModel(self.layout, self.weights, self.level_zero.finder())
        else:
            model = model_class.for_layout(self.layout)(self.layout, self.weights)
        if self.tables is not None and model.n_bytes <= MOST_KEPT:
            self.tables.model = model
        return model

    def attributes(self) -> dict[str, Any]:
        """Return all fitted attributes of an estimator in this state."""
        layout, weights = self.layout, self.weights
        coef, pattern_coef = layout.coef(weights), layout.pattern_coef(weights)
        own = layout.own_attributes(weights, self.part_names)
        for matrix in () if self.stream is None else filter(issparse, (coef, *own.values())):
            matrix.eliminate_zeros()
        return {
            "_state": self,
            **self.targets.attributes(),
            **own,
            "n_features_in_": self.features.n_features,
            "patterns_": pattern_labels(layout.patterns, self.targets.labels),
            "pattern_coef_": pattern_coef,
            "intercept_": pattern_coef[: len(self.targets.labels)],
            "n_parameters_": layout.n_weights,
            "automaton_": layout.automaton,
            "coef_": coef,
            "n_iter_": self.n_iter,
            "n_passes_": self.n_passes,
            "objective_history_": self.history,
            "optimality_gap_": self.gap,
        }

    def set_on(self, estimator: BaseEstimator) -> None:
        """Set all fitted attributes in one step, so that no interrupt or other thread can mix two models."""
        attributes = self.attributes()
        before = estimator.__dict__.copy()
        estimator.__dict__.update(attributes)
        del before  # until here, it kept the replaced values alive, so that ``update`` destroyed none of them

    def checked(self, kind: Kind) -> FittedState:
        """Return the state with read-only weights, or raise a ValueError if its parts are inconsistent.

        Parameters
        ----------
        kind : Kind
            The kind of model, which determines the classes of the targets and the layout. A layout checks its own parts
            when it is created.
        """
        layout, targets, layout_class = self.layout, self.targets, kind.model.layout_class
        if type(layout) is not layout_class or not hasattr(layout, "n_weights"):
            raise ValueError(f"the layout of the weights is a {type(layout).__name__}, not a {layout_class.__name__}")
        weights = _numbers(self.weights, "weights", layout.n_weights)
        if not np.isfinite(weights).all():
            raise ValueError("the weights are not all finite")
        if not isinstance(self.features, FeatureSpace):
            raise ValueError(f"the features are a {type(self.features).__name__}, not a FeatureSpace")
        features = self.features.unpacked()
        features.check(layout.n_features)
        if not isinstance(targets, kind.targets):
            raise ValueError(f"the targets are {type(targets).__name__}, not {kind.targets.__name__}")
        targets.check(layout.patterns.n_labels)
        for name in ("longest", "shortest", "repeats") if kind.labels_segments else ():
            lengths: list[Any] = [getattr(part, name, None) for part in (layout, targets)]
            if not np.array_equal(*lengths):
                raise ValueError("the maximum and minimum lengths of segments do not match the layout")
        n_values = len(_numbers(self.history, "history"))
        if not isinstance(self.n_iter, Integral) or n_values != self.n_iter + 1:
            raise ValueError(f"a history of {n_values} values does not match {self.n_iter!r:.20} iterations")
        if not isinstance(self.gap, Real) or not isinstance(self.n_passes, Real):
            raise ValueError(f"gap and passes are not numbers: {self.gap!r:.40}, {self.n_passes!r:.40}")
        if not isinstance(self.trained_with, dict):
            raise ValueError(f"the parameters of training are a {type(self.trained_with).__name__}, not a dict")
        if self.stream is not None and not isinstance(self.stream, TrainingState):
            raise ValueError(f"the stream of partial_fit is a {type(self.stream).__name__}, not the state of a solver")
        if self.stream is not None:
            self.stream.check(layout.n_weights)
        if not isinstance(self.temperature, Real) or not 0 < float(self.temperature) < math.inf:
            raise ValueError(f"the temperature is {self.temperature!r:.40}, not a positive number")
        borders = _borders(self.borders, layout.patterns.n_labels)
        level_zero = None if self.level_zero is None else LevelZero(*self.level_zero).checked(layout, _numbers)
        part_names = _part_names(self.part_names, layout.parts.n_parts)
        return self._replace(
            weights=weights,
            features=features,
            borders=borders,
            level_zero=level_zero,
            part_names=part_names,
            tables=CachedTables(),
        )


def _borders(borders: Any, n_labels: int) -> np.ndarray | None:
    """Return a read-only table of the labels that may begin and end sequences, or raise an error."""
    if borders is None:
        return None
    borders = np.asarray(borders)
    if borders.shape != (2, n_labels) or borders.dtype != bool:
        raise ValueError(f"the labels at borders are {borders.shape} of {borders.dtype}, not (2, {n_labels}) of bool")
    return freeze(borders, np.bool_)


def _part_names(names: Any, n_parts: int) -> np.ndarray:
    """Return the names of label parts, or raise an error unless there are ``n_parts`` names."""
    names = np.empty(0, object) if names is None else np.asarray(names)
    if names.shape != (n_parts,):
        raise ValueError(f"names of parts of labels are of shape {names.shape}, not ({n_parts},)")
    return names


def _numbers(array: Any, what: str, length: int | None = None) -> np.ndarray:
    """Return a read-only 1-D array of real numbers, or raise an error."""
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or length not in (None, len(array)):
        raise ValueError(f"{what} must be {'some' if length is None else length} real numbers, got {array.shape}")
    return freeze(array, np.float64)


class FittedModel:
    """A snapshot of a fitted estimator, which later fits do not change.

    Parameters
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        A fitted estimator.

    Attributes
    ----------
    estimator : HighOrderCRF or HighOrderSemiCRF
        A shallow copy of the estimator, with its parameters and fitted attributes.
    state : FittedState
        The result of fit, which includes layout, weights and features.
    kind : Kind
    targets : TokenTargets or SegmentTargets
        The targets in ``state``, which convert y to codes and codes to the form of y.
    labels : ndarray of shape (L,)
        The labels of which patterns consist, of tokens or of segments.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator is not fitted.
    """

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = snapshot = estimator.__copy__()  # first, because another thread may fit the estimator
        if not hasattr(snapshot, "_state"):
            check_is_fitted(snapshot)  # raises the error
        self.state: FittedState = snapshot._state
        self.targets: Any = self.state.targets
        self.labels = self.targets.labels
        self.kind: Kind = estimator._kind
        self.name = type(estimator).__name__
        self.n_jobs: int | None = self.estimator.n_jobs

    @classmethod
    def inside(cls, estimator: BaseEstimator) -> Self:
        """Return the model inside a fitted pipeline, search or other meta-estimator."""
        from ..._sklearn.layers import model_inside  # imports scikit-learn's pipelines

        check_is_fitted(estimator)
        return cls(model_inside(estimator))

    @classmethod
    def and_input(cls, estimator: BaseEstimator, X: Sized) -> tuple[Self, Sized]:
        """Return the model inside a fitted estimator, and the input that the model receives for X."""
        from ..._sklearn.layers import model_and_input

        check_is_fitted(estimator)
        model, X = model_and_input(estimator, X)
        return cls(model), X

    @property
    def scheme(self) -> str:
        """How labels describe segments."""
        return self.estimator.scheme_

    # --- data ---------------------------------------------------------------------------------------------------------

    @property
    def reader(self) -> Reader:
        """The settings of the estimator that are needed to read X."""
        check_columns = partial(validate_data, self.estimator, reset=False, skip_check_array=True)
        return self.kind.reader(self.estimator)._replace(check_columns=check_columns)

    def read(self, X: Sized) -> tuple[SequenceBatch, str]:
        """Return X as a batch, and the form of X."""
        return read_sequences(self.reader, X, self.state.features)

    def query(self, X: Sized, known: Sized | None = None) -> Query:
        """Return the query for X under the constraints and known labels."""
        batch, form = self.read(X)
        return Query(self.posterior(batch, form, known), self.targets, form)

    def read_truth(self, y: Sized, batch: SequenceBatch, form: str, unknown: str = "raise") -> Labelling:
        """Return y as a labelling of a batch; unknown labels raise an error or, with "ignore", are coded as -1."""
        return read_truth(self.targets, y, batch, form, self.name, unknown)

    def read_labelled(self, X: Sized, y: Sized, unknown: str) -> LabelledBatch:
        """Return sequences with their labels, some possibly missing; ``unknown`` is as for :meth:`read_truth`."""
        query = self.query(X)
        return query.labelled(self.targets.read_known(y, query.posterior.batch, query.form, self.name, "y", unknown))

    def count_right(self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None) -> tuple[float, float]:
        """Return the weighted numbers of correctly predicted tokens and of all tokens."""
        batch, form = self.read(X)
        truth = self.read_truth(y, batch, form, unknown="ignore")
        weight = check_sequence_weight(sample_weight, len(batch))
        token_weight = np.ones(batch.n_tokens) if weight is None else np.repeat(weight, batch.lengths)
        if not token_weight.any():
            return 0.0, 0.0
        decoded = self.posterior(batch, form).decode()
        return float(token_weight @ self.targets.are_right(decoded, truth)), float(token_weight.sum())

    def mask_of(self, known: Sized, batch: SequenceBatch, what: str, form: str = "sequences") -> Mask:
        """Return the mask of labellings that agree with ``known``; ``what`` is the name of ``known`` in messages."""
        return self.targets.read_known(known, batch, form, self.name, what).mask

    # --- queries ------------------------------------------------------------------------------------------------------

    def model(self) -> Model:
        """Return the model that computes probabilities and best labellings."""
        return self.state.model(self.kind.model)

    def posterior(self, batch: SequenceBatch, form: str = "sequences", known: Sized | None = None) -> Posterior:
        """Return the posterior of a batch under the constraints and known labels."""
        self.kind.warn_of_unlimited_lengths(self.state.layout, batch)
        evidence = None if known is None else Evidence(self.mask_of(known, batch, "known", form))
        borders = self.state.borders
        mask = None if borders is None else Mask.of_borders(batch.offsets, borders)
        return self.model().posterior(batch, mask, self.n_jobs, evidence)

    def divided_by(self, temperature: float) -> BaseEstimator:
        """Return a copy of the fitted estimator whose weights are divided by a temperature."""
        state, divided = self.state, copy.copy(self.estimator)
        total = float(state.temperature * temperature)
        # the state of partial_fit belongs to the old weights
        state = state._replace(weights=state.weights / temperature, temperature=total, stream=None)
        state.checked(self.kind).set_on(divided)
        return divided


class OneCall:
    """Tables for calls with one sequence, which the first such call creates; copies and files of the state omit them.

    Parameters
    ----------
    state : FittedState
    model_class : type
    """

    def __init__(self, state: FittedState, model_class: type[Model]) -> None:
        self.weights, self.features = state.weights, state.features
        self.as_lists, labels = state.targets.as_lists, getattr(state.targets, "labels", np.empty(0))
        self.labels: Any = labels.astype(object).tolist() if self.as_lists else labels
        self.code_of = {label: code for code, label in enumerate(self.labels)} if self.as_lists else {}
        model = state.model(model_class)
        is_kept = state.tables is not None and state.tables.model is model
        self.search = OneSequence.for_model(model, state.borders) if is_kept else None

    def answer(self, method: Callable, X: Any, *arguments: Any, steps: Sequence = ()) -> Any:
        """Return the result of a :class:`OneSequence` method for the only sequence of X; None if a batch is needed."""
        attributes = None if self.search is None else self._attributes(X, steps)
        return None if attributes is None else method(self.search, attributes, *arguments)

    def predict(self, X: Any, steps: Sequence = ()) -> list | None:
        """Return the labels of the only sequence of X in a list; None if a batch is needed."""
        codes = self.answer(OneSequence.decode, X, steps=steps)
        if codes is None:
            return None
        return [[*map(self.labels.__getitem__, codes.tolist())] if self.as_lists else self.labels[codes]]

    def marginals(self, X: Any) -> list[np.ndarray] | None:
        """Return the probabilities of labels in the only sequence of X, in a list; None if a batch is needed."""
        sums = self.answer(OneSequence.marginals, X)
        return None if sums is None else [sums[1]]

    def log_likelihood(self, X: Any, y: Any) -> np.ndarray | None:
        """Return the log-likelihood of the only sequence of X; None if a batch is needed, as for unknown labels."""
        if type(y) is not list or len(y) != 1 or type(y[0]) is not list or set(map(type, y[0])) != {str}:
            return None
        codes = [*map(self.code_of.get, y[0], repeat(-1))]
        log_likelihood = None if min(codes) < 0 else self.answer(OneSequence.log_likelihood, X, codes)
        return None if log_likelihood is None else np.array([log_likelihood])

    def _attributes(self, X: Any, steps: Sequence = ()) -> tuple | None:
        """Return the attributes of the sequence in the form that ``token_entries`` reads; None if a batch is needed."""
        if steps:
            read = getattr(steps[0], "__token_ids__", None) if len(steps) == 1 and type(X) is list else None
            names, n_features, _, *attributes = (read and read(X[0])) or (None,) * 3
            is_alike = names is self.features.names and n_features == self.features.n_features
            return tuple(attributes) if is_alike else None
        if self.features.kinds is not None:
            return None
        if type(X) is list:
            vocabulary = self.features.vocabulary
            return _numbers_of(X[0], self.features.n_features) if vocabulary is None else vocabulary.ids_of(X[0])
        is_alike = X.attribute_names is self.features.names and X.n_attributes == self.features.n_features
        if not is_alike or X.blocks is not None:
            return None
        refuse_infinite_values(X)
        return X.indices, X.indptr, X.values, X.dense


def _numbers_of(rows: Any, n_features: int) -> tuple | None:
    """Return rows of numbers as attributes of all tokens; None if a batch is needed."""
    if type(rows) is list and set(map(type, rows)) == {list}:
        kinds = set(map(type, chain.from_iterable(rows)))
        rows = np.array(rows, np.float64) if kinds <= {float} and set(map(len, rows)) == {n_features} else None
    if type(rows) is not np.ndarray or rows.dtype.kind not in "fiu" or rows.ndim != 2 or rows.shape[1] != n_features:
        return None
    if not rows.size or not np.isfinite(rows).all():
        return None
    dense = DenseColumns(np.arange(n_features, dtype=np.int32), rows)
    return np.empty(0, np.int32), np.zeros(len(rows) + 1, np.int64), None, dense


def one_call(estimator: Any, X: Any) -> OneCall | None:
    """Return the :class:`OneCall` for X, a list or batch of one sequence; None if X must be read as a batch."""
    if not (type(X) is list or type(X) is SequenceBatch) or len(X) != 1:
        return None
    state = getattr(estimator, "__dict__", {}).get("_state")  # read once, because another thread may fit the estimator
    if state is None or state.tables is None:
        return None
    one = state.tables.one
    if one is None or one.weights is not state.weights:  # states may be copied with other weights
        one = state.tables.one = OneCall(state, estimator._kind.model)
    return one


def predict_one(estimator: Any, X: Any, steps: Sequence = ()) -> list | None:
    """Return the labels of X, a list or batch of one sequence, transformed by ``steps``; None if a batch is needed."""
    one = one_call(estimator, X)
    return None if one is None else one.predict(X, steps)

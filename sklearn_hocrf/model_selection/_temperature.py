"""One temperature for all weights of a model."""

from __future__ import annotations

import copy
from collections.abc import Sized
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._data.messages import warn_user
from .._engine.inference.model import LabelledBatch, Model
from .._engine.training.solvers import ROUNDING, zero_of_slope
from .._estimator.answers.fitted import FittedModel
from .._estimator.base import BaseSequenceLabeler
from .._reading.inputs import check_sequence_weight
from .._reading.rows import indexable_sequences
from .._sklearn.layers import (
    MethodsOfModel,
    check_fit,
    check_fits,
    each_fold,
    model_inside,
    name_of_weight,
    splits_of,
)
from .._sklearn.names import N_JOBS, HasMethods, check_declared, fit_context, safe_indexing
from .._sklearn.versions import VersionMixin

BOUNDS = 0.01, 100.0  # of temperatures
FEWEST_IN_PART = 2  # sequences in each part of a split


class CalibratedSequenceLabeler(VersionMixin, MethodsOfModel, MetaEstimatorMixin, BaseEstimator):
    """Calibrate the probabilities of a sequence model with one temperature for all its weights.

    The weights w of the fitted model become w / T, where T maximises the log-likelihood of held-out sequences. Models
    with too weak a penalty are overconfident; T > 1 corrects them, and T < 1 corrects models with too strong a penalty
    [1]_. The ranking of the labellings of a sequence does not change, so that :meth:`predict` returns the same labels.
    All other results come from one distribution over labellings, under the same constraints: marginals of tokens,
    patterns and segments, samples, entropies and log-likelihoods are consistent with each other. Probabilities
    calibrated token by token would not be consistent.

    Parameters
    ----------
    estimator : HighOrderCRF, HighOrderSemiCRF, Pipeline, search or FrozenEstimator
        The model, or a pipeline or a search (such as GridSearchCV) that contains it, which is fitted as a whole. A
        :class:`~sklearn.frozen.FrozenEstimator` is already fitted: it is not fitted again, and all data are used for
        calibration. Do not pass its training data, about which the model is overconfident.
    cv : int, cross-validation generator or iterable, default=5
        As in :class:`~sklearn.model_selection.GridSearchCV`; an int k means ``KFold(k)``. There is one temperature for
        the models of all splits; each model is evaluated on its held-out part. ``cv`` has no effect for a
        FrozenEstimator.
    n_jobs : int or None, default=None
        Number of splits processed in parallel, each in a thread. Results do not depend on it.

    Attributes
    ----------
    calibrated_estimator_ : estimator
        The estimator, fitted to all data, with weights divided by the temperature: an ordinary model, pipeline or
        search. Attributes that describe its training, such as ``n_iter_`` and ``objective_history_``, refer to the
        undivided weights.
    temperature_ : float
        The temperature T, from 0.01 to 100.
    classes_ : ndarray of shape (n_classes,)
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
    n_features_in_ : int
        As in :class:`~sklearn_hocrf.HighOrderCRF`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        As in :class:`~sklearn_hocrf.HighOrderCRF`. This attribute exists only if the estimator has it.

    Raises
    ------
    ValueError
        By ``fit``: if a part of a split contains fewer than two sequences.

    See Also
    --------
    sklearn_hocrf.metrics.segment_outcomes : Mark segments as correct or wrong, with their probabilities.
    sklearn_hocrf.model_selection.PenaltySearchCV : Learn the strengths of penalties by the same criterion.
    sklearn.calibration.CalibratedClassifierCV : Calibrate classifiers.

    Notes
    -----
    All methods of the fitted estimator are available, and accept the same kinds of X as ``fit``: ``predict``,
    ``predict_marginals``, ``log_likelihood``, ``predict_segments`` and so on.

    The held-out log-likelihood is concave in 1 / T, so its maximum is where its derivative, the score of the labels
    minus the expected score, is 0. The search for T reads held-out sequences once, and then takes about ten forward
    passes over them. If labels are missing, this function need not be concave; the temperature is then at a local
    maximum near 1.

    Unlike CalibratedClassifierCV, this class has no ``ensemble`` option that averages the models of the splits.
    Averaged marginals do not determine a distribution over labellings, and there is no efficient algorithm for the best
    labelling of an average of distributions.

    The training parts contain less data, so their models are a little less confident than the final one. The difference
    is smaller with more splits.

    References
    ----------
    .. [1] Guo, Pleiss, Sun and Weinberger, "On calibration of modern neural networks", ICML 2017.

    Examples
    --------
    >>> from sklearn_hocrf import HighOrderCRF
    >>> from sklearn_hocrf.model_selection import CalibratedSequenceLabeler
    >>> from sklearn_hocrf.datasets import make_digit_words
    >>> X, y = make_digit_words(60, random_state=0)
    >>> X_test, y_test = make_digit_words(random_state=1)
    >>> crf = HighOrderCRF(sigma_reg=10).fit(X, y)  # too weak a penalty
    >>> calibrated = CalibratedSequenceLabeler(HighOrderCRF(sigma_reg=10), cv=3).fit(X, y)
    >>> round(calibrated.temperature_, 1)
    1.6
    >>> bool(
    ...     calibrated.log_likelihood(X_test, y_test).sum()
    ...     > crf.log_likelihood(X_test, y_test).sum()
    ... )
    True
    """

    __module__ = "sklearn_hocrf.model_selection"  # the public module: model files contain this name
    _answering = "calibrated_estimator_"
    _parameter_constraints: dict = {
        "estimator": [HasMethods("fit")],
        "cv": ["cv_object"],
        "n_jobs": N_JOBS,
    }

    def __init__(self, estimator: BaseEstimator, *, cv: Any = 5, n_jobs: int | None = None) -> None:
        self.estimator = estimator
        self.cv = cv
        self.n_jobs = n_jobs

    @fit_context(prefer_skip_nested_validation=False)  # the inner estimator is not validated yet
    def fit(
        self, X: Sized, y: Sized, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the estimator and find its temperature.

        Parameters
        ----------
        X : list of sequences, SequenceBatch, array-like or sparse matrix
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`; for a pipeline, the input of its first step.
        y : list of label sequences, or array-like
            As in :meth:`~sklearn_hocrf.HighOrderCRF.fit`.
        sample_weight : array-like of shape (n_sequences,), default=None
            One weight per sequence, used in training and in the held-out log-likelihood.
        groups : array-like of shape (n_sequences,), default=None
            Groups of sequences, for splitters such as :class:`~sklearn.model_selection.GroupKFold`.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If parameters or data are invalid.

        Warns
        -----
        UserWarning
            If the temperature is at a bound, or if held-out sequences are ignored because they have probability 0 at
            any temperature: their labels did not occur in the training part, or the model forbids or prunes them.
        """
        X, y, weight, splits, of_fit = self._prepared(X, y, sample_weight, groups)
        if isinstance(self.estimator, FrozenEstimator):
            fitted, held_out = self.estimator.estimator, [_HeldOut.from_data(self.estimator, X, y, weight)]
        else:

            def read_held_out(model, X_test, test):
                return _HeldOut.from_data(
                    model, X_test, safe_indexing(y, test), None if weight is None else weight[test]
                )

            threads = {"n_jobs": self.n_jobs, "require": "sharedmem"}
            held_out = each_fold(read_held_out, self.estimator, X, y, splits, of_fit, **threads)
            fitted = clone(self.estimator).fit(X, y, **of_fit)
        temperature = 1.0 / _inverse_temperature(held_out)
        self.__dict__.update(calibrated_estimator_=_divided(fitted, temperature), temperature_=temperature)
        return self

    def __check_fit__(self, X: Sized, y: Sized, sample_weight: Any = None, *, groups: Any = None) -> None:
        check_declared(self)
        check_labeler(self.estimator)
        if X is None:
            check_fit(self.estimator, None, y, **self._fit_options(sample_weight))
        else:
            self._prepared(X, y, sample_weight, groups)

    def _prepared(self, X, y, sample_weight, groups) -> tuple[Any, Any, np.ndarray | None, list, dict]:
        """Return the data, the weights, the splits and the options of the estimator's ``fit``.

        Raise errors before any estimator is fitted.
        """
        check_labeler(self.estimator)
        X, y = indexable_sequences(X, y)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        weight = check_sequence_weight(sample_weight, len(y))
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator.estimator)
            _refuse_few(len(y) if weight is None else int(np.count_nonzero(weight)), "the data to calibrate on have")
            return X, y, weight, [], {}
        of_fit = self._fit_options(sample_weight)
        splits = splits_of(check_cv(self.cv, y), X, y, groups=groups)
        if weight is not None:
            splits = [tuple(part[weight[part] > 0] for part in split) for split in splits]
        for index, split in enumerate(splits):
            for name, part in zip(("training", "held-out"), split, strict=True):
                _refuse_few(len(part), f"the {name} part of split {index} has")
        check_fits(self.estimator, X, y, splits, of_fit)
        return X, y, weight, splits, of_fit

    def _fit_options(self, sample_weight) -> dict:
        """Return the weights of sequences as an option of the estimator's ``fit``."""
        return {} if sample_weight is None else {name_of_weight(self.estimator) or "sample_weight": sample_weight}


# --- held-out sequences -----------------------------------------------------------------------------------------------


class _HeldOut(NamedTuple):
    """Labelled sequences, and a model that was not trained on them. n sequences."""

    model: Model
    labelled: LabelledBatch
    weight: np.ndarray  # (n,)   0 for ignored sequences
    n_impossible: int  # number of sequences of probability 0, which are ignored
    scale: float  # size of the scores, to compare rounding errors with

    @classmethod
    def from_data(cls, estimator, X, y, weight) -> _HeldOut:
        """Read sequences for a fitted estimator."""
        fitted, X = FittedModel.and_input(estimator, X)
        labelled, model = fitted.read_labelled(X, y, unknown="ignore"), fitted.model()
        log_likelihood = labelled.log_likelihood(model)
        weight = np.ones(len(log_likelihood)) if weight is None else weight
        is_impossible = (log_likelihood == -np.inf) & (weight > 0)
        weight = np.where(is_impossible, 0.0, weight)
        log_z = model.posterior_on(labelled.plan).log_z()
        return cls(model, labelled, weight, int(is_impossible.sum()), float(weight @ np.abs(log_z)))

    def slope(self, factor: float) -> float:
        """Return the derivative of the log-likelihood with respect to a factor of all weights."""
        model = type(self.model)(self.model.layout, factor * self.model.weights)
        slope = self.labelled.slope(model, self.model)
        return float(self.weight @ np.where(self.weight > 0, slope, 0.0))


def _inverse_temperature(held_out: list[_HeldOut]) -> float:
    """Return the factor of all weights at which held-out sequences are most likely."""
    n_sequences = sum(len(part.weight) for part in held_out)
    n_impossible = sum(part.n_impossible for part in held_out)
    if not any(part.weight.any() for part in held_out):
        raise ValueError(
            f"all {n_sequences} held-out sequences have probability 0 at any temperature: their labels did not occur "
            "in training, or the model forbids or prunes them"
        )
    if n_impossible:
        warn_user(
            f"{n_impossible} of {n_sequences} held-out sequences have probability 0 at any temperature and are "
            "ignored: their labels did not occur in training, or the model forbids or prunes them"
        )
    bounds = 1.0 / BOUNDS[1], 1.0 / BOUNDS[0]
    flat = ROUNDING * sum(part.scale for part in held_out)

    def slope(factor):
        return sum(part.slope(factor) for part in held_out)

    factor = zero_of_slope(slope, bounds, flat=flat)
    if factor in bounds:
        reason = "the held-out labels have probability 1" if factor > 1 else "the model is worse than chance"
        warn_user(f"the temperature is at a bound, {1.0 / factor:g}: the likelihood may grow beyond it, as if {reason}")
    return factor


# --- estimators -------------------------------------------------------------------------------------------------------


def _divided(estimator: BaseEstimator, temperature: float) -> Any:
    """Return a copy of a fitted estimator that has divided weights and shares all other attributes."""
    if isinstance(estimator, BaseSequenceLabeler):
        return FittedModel(estimator).divided_by(temperature)
    divided = copy.copy(estimator)
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        divided.steps = [*estimator.steps[:-1], (name, _divided(last, temperature))]
        return divided
    is_frozen = isinstance(estimator, FrozenEstimator)
    inner = "estimator" if is_frozen else getattr(estimator, "_answering", "best_estimator_")
    setattr(divided, inner, _divided(getattr(estimator, inner), temperature))
    return divided


def check_labeler(estimator: BaseEstimator) -> None:
    """Raise a TypeError unless an estimator is or contains a sequence model."""
    if not isinstance(model_inside(estimator), BaseSequenceLabeler):
        raise TypeError(
            "estimator must be a HighOrderCRF or HighOrderSemiCRF, or a pipeline, a search or a calibrated model with "
            f"one, got {estimator!r:.200}"
        )


def _refuse_few(n_sequences: int, what: str) -> None:
    if n_sequences < FEWEST_IN_PART:
        raise ValueError(f"{what} {n_sequences} sequences of positive weight, but at least {FEWEST_IN_PART} are needed")
